"""The kernels of a saved executable: cubins, the sources that they were compiled from, their rows.

`kernels.json` lists them; a step's launch names one by its number. Equal texts are stored once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, NamedTuple

from softcuda.compiler.program import Program
from softcuda.executor.on_demand import cuda_target, session
from softcuda.executor.saved.archive import Archive, json_bytes, json_value
from softcuda.executor.saved.codec import Coder
from softcuda.executor.saved.plain import Codec, Misfit
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.source import Built, Source, read_source
from softcuda.nvrtc.unit import Cubin, Header, Image, Resources, as_arch
from softcuda.target import Target

__all__ = ["KERNELS_FILE", "SavedKernel", "kernel_members", "read_kernels", "spec_codec"]

KERNELS_FILE: Final = "kernels.json"

_CACHE: Final = "softcuda.nvrtc.cache"
_FILE_NAME: Final = re.compile(r"\w+\.cuh?", re.ASCII)
_DIGEST: Final = 16  # hexadecimal digits that tell the texts of one name apart


class SavedText(NamedTuple):
    """A file that was compiled: its name, and the member that holds its text."""

    name: str
    member: str


class SavedKernel(NamedTuple):
    """A line of kernels.json.

    Attributes:
        spec: the row of the kernel table, without what the members hold.
        member: the member that holds the compiled kernel.
        kind: what it is, a cubin or PTX.
        function: the lowered name of its function.
        arch: what it was compiled for.
        log: what the compiler said.
        resources: what the kernel takes; None for PTX.
        file: the file with the kernel.
        headers: what it includes, in order of name.
        generated: names of the headers that were generated for it.
        system: NVIDIA's headers that it includes.
    """

    spec: KernelSpec
    member: str
    kind: Image
    function: str
    arch: str
    log: str
    resources: Resources | None
    file: SavedText
    headers: tuple[SavedText, ...]
    generated: tuple[str, ...]
    system: tuple[str, ...]


def _specs(program: Program) -> list[KernelSpec]:
    """Return the kernels of a program, each once."""
    launches = (launch for step in program.steps for launch in step.launches)
    return list(dict.fromkeys(launch.spec for launch in launches))


def _built(specs: Sequence[KernelSpec], arch: str) -> list[Built]:
    """Return kernels with their sources; those that are not compiled yet are."""
    missing = [spec for spec in specs if spec.built is None]
    found: dict[KernelSpec, Cubin] = {}
    if missing:
        here = cuda_target()
        is_here = isinstance(here, Target) and here.arch == arch
        cache = session().loader.cache if is_here else import_module(_CACHE).KernelCache()
        cubins = cache.get_all([spec.unit for spec in missing], arch)
        found = dict(zip(missing, cubins, strict=True))
    return [spec.built or Built(found[spec], read_source(spec.unit)) for spec in specs]


def kernel_members(program: Program) -> dict[str, bytes]:
    """Return the members that hold the kernels of a program: the list, cubins, sources.

    Raises:
        CompileError, NvrtcNotFound, CacheMiss: a kernel is not there and cannot be compiled.
    """
    members: dict[str, bytes] = {}
    entries = []
    specs = _specs(program)
    for number, (spec, built) in enumerate(
        zip(specs, _built(specs, program.target.arch), strict=True)
    ):
        cubin, source = built
        image = f"kernels/{number}.{cubin.kind.value}"
        members[image] = cubin.image
        entry = SavedKernel(
            spec=replace(spec, headers=(), folder="", built=None),
            member=image,
            kind=cubin.kind,
            function=cubin.name,
            arch=cubin.arch,
            log=cubin.log,
            resources=cubin.resources,
            file=_stored(members, spec.file, source.text),
            headers=tuple(_stored(members, name, text) for name, text in source.headers),
            generated=tuple(header.name for header in spec.headers),
            system=source.system,
        )
        entries.append(entry)
    coder = Coder()
    listed = coder.encode(tuple[SavedKernel, ...], tuple(entries))
    return {KERNELS_FILE: json_bytes({"kernels": listed}), **members}


def _stored(members: dict[str, bytes], name: str, text: str) -> SavedText:
    data = text.encode()
    member = f"sources/{hashlib.sha256(data).hexdigest()[:_DIGEST]}/{name}"
    members[member] = data
    return SavedText(name, member)


def read_kernels(archive: Archive) -> tuple[KernelSpec, ...]:
    """Return the kernels of a file, each with its cubin and its sources.

    Raises:
        Misfit: the list is none, or a kernel in it cannot be one.
        SavedFileError: a member is missing.
    """
    listed = json_value(archive.read(KERNELS_FILE))
    if not isinstance(listed, dict) or listed.keys() != {"kernels"}:
        raise Misfit(listed, 'an object with the key "kernels"')
    entries = Coder().decode(tuple[SavedKernel, ...], listed["kernels"])
    return tuple(_restored(archive, entry) for entry in entries)


def _restored(archive: Archive, entry: SavedKernel) -> KernelSpec:
    spec, arch = entry.spec, str(as_arch(entry.arch))
    if spec.headers or spec.folder or spec.built is not None:
        raise Misfit(spec.id, "a row without headers, folder and image, which members hold")
    is_alike = spec.file == entry.file.name and set(entry.generated) <= {
        header.name for header in entry.headers
    }
    names = (entry.file.name, *(header.name for header in entry.headers))
    is_alike = is_alike and all(_FILE_NAME.fullmatch(name) for name in names)
    if not is_alike or not 0 < spec.threads <= 1024 or spec.shared_bytes < 0:
        raise Misfit(spec, "a kernel of its own file with 1 to 1024 threads a block")

    def text(saved: SavedText) -> str:
        return bytes(archive.read(saved.member)).decode("utf-8")

    headers = tuple(Header(saved.name, text(saved)) for saved in entry.headers)
    source = Source(text(entry.file), headers, entry.system)
    image = bytes(archive.read(entry.member))
    cubin = Cubin(image, entry.kind, entry.function, arch, entry.log, entry.resources)
    generated = tuple(header for header in headers if header.name in entry.generated)
    return replace(spec, headers=generated, built=Built(cubin, source))


def spec_codec(specs: Sequence[KernelSpec]) -> Codec:
    """Return how a launch names its kernel: by its number in the list."""
    numbers = {spec: number for number, spec in enumerate(specs)}

    def decode(value: Any) -> KernelSpec:
        if type(value) is not int or not 0 <= value < len(specs):
            raise Misfit(value, f"the number of a kernel, below {len(specs)}")
        return specs[value]

    encode: Callable[[Any], int] = numbers.__getitem__
    return Codec(encode, decode)
