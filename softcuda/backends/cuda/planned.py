"""What the planners of CUDA units share: the one step of a unit, launches in a row, scratch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from softcuda.backends.launches import Argument, KernelLaunch, scratch
from softcuda.backends.steps import Micro, Step, Unit
from softcuda.errors import BackendError
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "Launches",
    "Maker",
    "Planned",
    "aligned",
    "launch_in_row",
    "one_step",
    "redirected",
    "step_by_table",
]

Launches = tuple[KernelLaunch, ...]
Planned = tuple[Launches, int]  # and the scratch that they share [bytes]
Maker = Callable[[Unit, Micro, Target], Planned]

_ALIGNMENT: Final = 256  # of a step's scratch [bytes], and so of every piece of it


def aligned(nbytes: int) -> int:
    """Return the bytes of a piece of scratch behind which another may begin.

    Example:
        >>> aligned(0), aligned(1), aligned(256)
        (0, 256, 256)
    """
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def launch_in_row(spec: KernelSpec, blocks: int, arguments: tuple[Argument, ...]) -> KernelLaunch:
    """Return the launch of a kernel that counts its blocks and its threads along x alone."""
    threads = (spec.threads, 1, 1)
    return KernelLaunch(spec, (blocks, 1, 1), arguments, threads, spec.shared_bytes)


def redirected(
    launches: Sequence[KernelLaunch], pointers: Sequence[Argument], out: Argument, base: int = 0
) -> Launches:
    """Return launches that read and write elsewhere.

    Args:
        launches: of a unit alone.
        pointers: what each of its operands is, by number.
        out: where its result goes.
        base: where their scratch begins [bytes].
    """

    def moved(argument: Argument) -> Argument:
        if argument.kind == "read":
            return pointers[int(argument.value)]
        if argument.kind == "scratch":
            return scratch(int(argument.value) + base)
        return out if argument.kind == "write" else argument

    return tuple(
        replace(launch, arguments=tuple(map(moved, launch.arguments))) for launch in launches
    )


def _last(launches: Launches) -> str:
    return launches[-1].spec.id


def one_step(
    backend_id: str,
    unit: Unit,
    plan: Callable[[], Planned],
    shown: Callable[[Launches], str] = _last,
    checks: Launches = (),
) -> tuple[Step, ...]:
    """Return the one step that computes a unit; a result without elements launches `checks`.

    Args:
        backend_id: the backend that makes it.
        unit: what it computes.
        plan: () -> the launches, at least one, and the scratch they share [bytes]; it is called
            where the result has elements.
        shown: launches -> the kernel that tables show; the last one where it is not given.
        checks: what refuses bad operands where there is nothing to compute.
    """
    launches, scratch_bytes = plan() if numel(unit.result.dims) else (checks, 0)
    return (
        Step(
            backend_id,
            shown(launches) if launches else "nothing",
            unit.operands,
            unit.results,
            chain=unit.chain,
            scratch_bytes=scratch_bytes,
            lines=unit.lines,
            launches=launches,
        ),
    )


def step_by_table(
    backend_id: str,
    unit: Unit,
    target: Target,
    makers: Mapping[str, Maker],
    what: str,
    checks: Launches = (),
) -> tuple[Step, ...]:
    """Return the one step of an op by the function that a table names for it.

    Args:
        backend_id: the backend that makes it.
        unit: the op alone.
        target: for the grids.
        makers: token of an op -> (unit, its last op, target) -> the launches and the scratch they
            share [bytes].
        what: such as "movement", for the error.
        checks: as in `one_step`.

    Raises:
        BackendError: the table has no such op.
    """
    micro = unit.chain[-1]
    maker = makers.get(micro.op.name)
    if maker is None:
        raise BackendError(
            f"{micro.op.name} is no {what} that {backend_id} launches; allowed are "
            f"{', '.join(makers)}"
        )
    return one_step(backend_id, unit, lambda: maker(unit, micro, target), checks=checks)
