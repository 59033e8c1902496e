"""load: an executable from a file that `Executable.save` wrote."""

from __future__ import annotations

import os

from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.executor.executable import Executable
from softcuda.executor.on_demand import cuda_target
from softcuda.executor.saved.definition import homed
from softcuda.executor.saved.files import read_definition, read_executable
from softcuda.graph.trace import Traced
from softcuda.running import Config, compile_traced, settings_of, tell_if_away
from softcuda.target import Target
from softcuda.tensor import Tensor
from softcuda.whole_files import path_text

__all__ = ["load"]


def load(
    path: str | os.PathLike[str], *, recompile: bool = False, config: Config = None
) -> Executable:
    """Return the executable that `Executable.save` wrote to a file.

    Nothing is decided and nothing compiled: it has the decisions, the memory plan and the kernels
    that it was saved with, and gives the same results bit for bit. Its variables and generators
    are its own (`executable.leaves`), with the values that they had. What it was frozen for must
    be here: the same softcuda, and for steps on the CPU the same NumPy and processor, for those on
    CUDA the same device and driver.

    A file runs no code when it is read. The kernels in it are machine code: run a CUDA executable
    only of a file that you trust.

    Args:
        path: the file.
        recompile: compile its graph anew, by the profile that is active here, instead: on any
            machine, with the options (`strict`, `recompute`) that it was compiled with. Without a
            CUDA device, values that one owned are on the host.
        config: the profile to recompile with, as in `compile`.

    Raises:
        SavedFileError: the file cannot be read, was cut off or changed, holds something that
            cannot be, has a format of another version, or was frozen for another machine; says
            what differs, fact by fact.
        ArgumentError: `config` is given without `recompile=True`, or the path holds a null
            character.
        ArgumentTypeError: the path is none, or `recompile` neither True nor False.
        ConfigError, BackendError, NoDeviceError: as `compile`, with `recompile=True`.
    """
    named = path_text("load", path)
    if not isinstance(recompile, bool):
        raise ArgumentTypeError(f"load: recompile is {recompile!r}; allowed are True and False")
    if config is not None and not recompile:
        raise ArgumentError(
            f"load: config is {config!r}, and a frozen executable obeys no profile any more; "
            "allowed is config= with recompile=True"
        )
    if not recompile:
        return read_executable(named, Tensor)
    defined = read_definition(named, Tensor)
    traced = Traced(defined.graph, (), defined.leaves)
    if traced.is_on_device and not isinstance(cuda_target(), Target):
        traced = traced._replace(graph=homed(traced.graph))
    settings = settings_of(config, None, defined.strict, traced)
    settings = settings._replace(recompute=defined.recompute)
    made = compile_traced(traced, defined.skeleton, settings, Tensor)
    tell_if_away(settings)
    return made
