"""The decision table: what `print(executable)` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.backends import backends
from softcuda.backends.steps import Step
from softcuda.compiler.program import ArenaSize, Program
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.params import Dims, value_of
from softcuda.sizes import counted

__all__ = ["decision_table", "format_bytes", "largest_values", "line_report"]

_HEADINGS = ("step", "op", "shapes", "dtype", "backend_id", "decided by", "kernel", "bytes", "at")
_SHOWN_OPERANDS = 4
_LARGE_ONES: Final = "it gives larger ones to the device"
_OTHER_PROFILE: Final = (
    "a profile with CUDA rows, such as config='nvidia-h200', gives large ones to the device"
)
_CHAINS = "elementwise"  # what the families of kernels of chains alone begin with


def format_bytes(nbytes: int) -> str:
    """Return bytes in the largest binary unit that keeps at least one digit before the point.

    Example:
        >>> format_bytes(512), format_bytes(3 << 20)
        ('512 B', '3.0 MiB')
    """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{nbytes} B"


def decision_table(program: Program) -> str:
    """Return the table of a program: every op, the profile line that decided it, its memory."""
    rows: list[tuple[str, ...]] = []
    for number, step in enumerate(program.steps):
        rows.extend(_step_rows(program, number, step))
    widths = [
        max([len(_HEADINGS[k]), *(len(row[k]) for row in rows)]) for k in range(len(_HEADINGS))
    ]
    steps = counted(len(program.steps), "step")
    lines = [f"profile {program.profile}, target {program.target}, {steps}"]
    lines.append("  ".join(h.ljust(w) for h, w in zip(_HEADINGS, widths, strict=True)).rstrip())
    lines.append("  ".join("-" * w for w in widths))
    for row in rows:
        lines.append("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    views = sum(line.op.kind is Kind.VIEW for line in program.graph.lines)
    if views:
        lines.append(
            f"{counted(views, 'view')}: backend_id view, "
            f"{'it does' if views == 1 else 'they do'} no work"
        )
    none = {"cuda" if program.uses_cuda else "cpu": ArenaSize(0, 0)}
    for device, size in (program.arenas or none).items():
        lines.append(
            f"{device} arena {format_bytes(size.nbytes)}, most alive at once "
            f"{format_bytes(size.peak_bytes)}"
        )
    if program.target.type == "cuda" and program.steps and not program.uses_cuda:
        advice = _LARGE_ONES if program.profile.startswith("nvidia-h200") else _OTHER_PROFILE
        lines.append(
            f"nothing of this runs on {program.target}: {program.profile} decides on CPU backends "
            f"for these sizes; {advice}"
        )
    lines.extend(_launch_list(program))
    lines.extend(program.footer)
    return "\n".join(lines)


def _launch_list(program: Program) -> list[str]:
    """Return the lines of a program's launches: kernel, grid, block, dynamic shared memory."""
    found = []
    for number, step in enumerate(program.steps):
        for launch in step.launches:
            found.append(
                f"launch {number}: {launch.spec.id} grid {_dims(launch.grid)} block "
                f"{_dims(launch.block)} dynamic shared {format_bytes(launch.shared_bytes)}"
            )
    return found


def _step_rows(program: Program, number: int, step: Step) -> list[tuple[str, ...]]:
    if not step.lines:
        size, at = _size_and_place(program, step.outputs[0].value)
        dims = _dims(step.outputs[0].dims)
        cells = (str(number), "update", dims, str(step.outputs[0].dtype), step.backend_id)
        return [(*cells, "end of run: the variable takes its new value", step.kernel, size, at)]
    rows: list[tuple[str, ...]] = []
    written = {made.value for made in step.outputs}
    for line_number, kernel in zip(step.lines, _kernels(program, step), strict=True):
        line = program.graph.lines[line_number]
        choice = program.choices[line_number]
        operands = _operands([_shown(program.graph.lines, source) for source in line.inputs])
        shapes = f"{operands} -> {_dims(line.dims)}" if operands else _dims(line.dims)
        size, at = _size_and_place(program, line_number) if line_number in written else ("", "")
        decided = f"{choice.reason}; {choice.note}" if choice.note else choice.reason
        rows.append(
            (
                str(number) if line_number == step.lines[0] else "",
                line.op.name,
                shapes,
                line.dtype.name,
                choice.backend_id,
                decided,
                kernel,
                size,
                at,
            )
        )
    return rows


def _kernels(program: Program, step: Step) -> list[str]:
    """Return for each line of a step the kernel that makes its value, `fused` inside one.

    Chains around an anchor are launches of their own where their strides are more than its kernel
    takes.
    """
    shown = ["fused"] * (len(step.lines) - 1) + [step.kernel]
    kinds = [program.graph.lines[number].op.kind for number in step.lines]
    anchors = [place for place, kind in enumerate(kinds) if kind is not Kind.ELEMENTWISE]
    ids = [launch.spec.id for launch in step.launches]
    if len(anchors) != 1 or step.kernel not in ids:
        return shown
    place, main = anchors[0], ids.index(step.kernel)
    before, after = step.launches[:main], step.launches[main + 1 :]
    if place and before and before[-1].spec.family.startswith(_CHAINS):
        shown[place - 1] = before[-1].spec.id
    if place < len(shown) - 1 and after and after[-1].spec.family.startswith(_CHAINS):
        shown[place], shown[-1] = step.kernel, after[-1].spec.id
    return shown


def _size_and_place(program: Program, value: int) -> tuple[str, str]:
    """Return the size of a value that a step writes, and where it lies, for the table."""
    place = program.places[value]
    at = f"arena+{place.at}" if place.space == "arena" else f"{place.space} {place.at}"
    if place.space == "lent":
        at = f"output {place.at}, lent"
    if place.space == "variable" and value < len(program.graph.lines):
        at = f"variable {place.at}, in place"
    return format_bytes(place.nbytes), at


def line_report(program: Program, number: int, about: Sequence[str]) -> str:
    """Return the sentences of `explain` for one line of a program."""
    line = program.graph.lines[number]
    choice = program.choices[number]
    rows = [f"{line.op.name} -> {_shown(program.graph.lines, number)} {line.dtype}", *about]
    rows.append(f"backend_id: {choice.backend_id}")
    rows.append(f"decided by: {choice.reason}")
    if choice.note:
        rows.append(f"note: {choice.note}")
    for position, step in enumerate(program.steps):
        if number in step.lines:
            fused = len(step.lines) - 1
            beside = f", fused with {counted(fused, 'other op')}" if fused else ""
            value = number if number in program.places else step.outputs[0].value
            place = program.places[value]
            kernels = _kernels(program, step)[step.lines.index(number) :]
            kernel = next(each for each in kernels if each != "fused")
            rows.append(
                f"step {position} of {len(program.steps)}: kernel {kernel} on "
                f"{step.backend_id}{beside}, {format_bytes(place.nbytes)} in {place.space}"
            )
            told = getattr(backends().get(step.backend_id), "told", None)
            rows += told(step, program.target) if told else ()
    return "\n".join(rows)


def largest_values(program: Program, count: int = 3) -> str:
    """Return the largest values that a program computes: op, extents, dtype and size of each."""
    computed = [step for step in program.steps if step.backend_id != "transfer"]
    made = {operand.value for step in computed for operand in step.outputs}
    lines = [program.graph.lines[value] for value in made if value < len(program.graph.lines)]
    lines.sort(key=lambda line: line.nbytes, reverse=True)
    return ", ".join(
        f"{line.op.name} {_dims(line.dims)} {line.dtype} {format_bytes(line.nbytes)}"
        for line in lines[:count]
    )


def _shown(lines: Sequence[Line], number: int) -> str:
    """Return the extents of a line, and its value where it is a number or the broadcast of one."""
    line = lines[number]
    source = lines[line.inputs[0]] if line.op.name == "broadcast_to" else line
    if source.op.name != "constant":
        return _dims(line.dims)
    value = value_of(source.params.value)
    text = f"{value:.6g}" if isinstance(value, float) else source.params.value
    return f"{_dims(line.dims)} = {text}"


def _operands(shapes: Sequence[str]) -> str:
    """Return the shapes of operands in one cell: all, or the first two and how many there are."""
    if len(shapes) <= _SHOWN_OPERANDS:
        return ", ".join(shapes)
    return f"{shapes[0]}, {shapes[1]}, .. {len(shapes)} operands"


def _dims(dims: Dims) -> str:
    return "x".join(map(str, dims)) if dims else "()"
