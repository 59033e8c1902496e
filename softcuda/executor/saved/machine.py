"""The machine that an executable was frozen for, and how the one at hand differs from it.

A program is bit for bit the same where the code that it calls is: the same softcuda, and for steps
on the CPU the same NumPy and processor, for steps on CUDA the same device and driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from softcuda.compiler.program import Program
from softcuda.dtype import DTYPES
from softcuda.executor.on_demand import cuda_facts, cuda_target
from softcuda.executor.saved.plain import Misfit
from softcuda.profile.machine import HASHED, device_hash, this_machine
from softcuda.profile.model import DeviceFacts
from softcuda.target import Target
from softcuda.version import __version__

__all__ = ["check_needs", "differences", "frozen_for", "stated_facts"]

_VERSIONS: Final = ("softcuda", "numpy")

_TARGET: Final = ("arch", "multiprocessors", "shared_memory_kib", "l2_mib")


def frozen_for(program: Program) -> dict[str, dict[str, str]]:
    """Return what meta.json says of the machine: versions, the CPU, the device.

    The device of a program that was compiled for another machine is known by its architecture
    alone, and by what the profile's [device] section said of it.
    """
    made: dict[str, dict[str, str]] = {"versions": {"softcuda": __version__}}
    if _uses_cpu(program):
        made["versions"]["numpy"] = np.__version__
        made["cpu"] = _hashed(this_machine())
    if program.uses_cuda:
        target = program.target
        cuda = {name: str(getattr(target, name)) for name in _TARGET if getattr(target, name)}
        if cuda_target() == target:
            cuda |= _hashed(cuda_facts())
        made["cuda"] = cuda
    return made


def _uses_cpu(program: Program) -> bool:
    return any(not program.on_device(step) for step in program.steps)


def _hashed(facts: DeviceFacts) -> dict[str, str]:
    """Return the facts that tell a machine from others, and their hash."""
    found = {name: getattr(facts, name) for name in HASHED[facts.type]}
    return {**found, "device_hash": device_hash(facts)}


def stated_facts(meta: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return what meta.json says of the machine, once it is of the form of `frozen_for`.

    Raises:
        Misfit: it is not.
    """
    stated: dict[str, dict[str, str]] = {}
    allowed = {
        "versions": _VERSIONS,
        "cpu": (*HASHED["cpu"], "device_hash"),
        "cuda": (*_TARGET, *HASHED["cuda"], "device_hash"),
    }
    for part, names in allowed.items():
        facts = meta.get(part, {})
        is_text = isinstance(facts, dict) and all(type(x) is str for x in facts.values())
        if not is_text or not facts.keys() <= set(names):
            raise Misfit({part: facts}, f"texts for {', '.join(names)}")
        stated[part] = facts
    others = meta.keys() - {"format", *allowed, "dtypes", "members"}
    if others:
        raise Misfit(sorted(others), f"the keys format, {', '.join(allowed)}, dtypes, members")
    dtypes = meta.get("dtypes")
    if not isinstance(dtypes, list) or any(name not in DTYPES for name in dtypes):
        raise Misfit({"dtypes": dtypes}, f"dtypes of this version: {', '.join(DTYPES)}")
    return stated


def differences(stated: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return in words what the machine at hand has otherwise than a file states; [] for nothing.

    Args:
        stated: what the file says, of `stated_facts`; only what it needs is looked at.
    """
    here: dict[str, Mapping[str, str]] = {
        "versions": {"softcuda": __version__, "numpy": np.__version__},
    }
    if stated["cpu"]:
        here["cpu"] = _hashed(this_machine())
    if not stated["cuda"]:
        return _unlike(stated, here)
    found = cuda_target()
    if not isinstance(found, Target):
        device = ", ".join(f"{k} {v}" for k, v in stated["cuda"].items() if k != "device_hash")
        missing = f"it needs a CUDA device ({device}), and none can be used here: {found}"
        return [*_unlike(stated, here), missing]
    here["cuda"] = {name: str(getattr(found, name)) for name in _TARGET} | _hashed(cuda_facts())
    return _unlike(stated, here)


def check_needs(stated: Mapping[str, Mapping[str, str]], program: Program) -> None:
    """Check that a file states what its program needs.

    Raises:
        Misfit: it does not.
    """
    needs = {
        "cpu": _uses_cpu(program),
        "cuda": program.uses_cuda,
        "versions": True,
    }
    found = {part: bool(stated[part]) for part in needs}
    arch = stated["cuda"].get("arch", "")
    if found != needs or (program.uses_cuda and arch != program.target.arch):
        raise Misfit(stated, f"the facts of {[part for part in needs if needs[part]]}")


def _unlike(
    stated: Mapping[str, Mapping[str, str]], here: Mapping[str, Mapping[str, str]]
) -> list[str]:
    found = []
    for part, facts in here.items():
        unlike = {name: said for name, said in stated[part].items() if said != facts[name]}
        if len(unlike) > 1:
            unlike.pop("device_hash", None)  # says no more than the facts it is made of
        found += [
            f"{name} is {said!r} in the file and {facts[name]!r} here"
            for name, said in unlike.items()
        ]
    return found
