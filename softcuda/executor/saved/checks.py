"""What a program that was read must be before it is run: every number in it lies in bounds.

A step reads and writes windows of values; each has to lie in the memory that its value has, and
that in the arena, the output or the leaf it is placed in. The steps of the shipped CPU backends
are those that the backend itself prepares. What a cubin does with its addresses cannot be checked.
"""

from __future__ import annotations

from typing import Any, Final

from softcuda.backends import backends
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.compiler.program import Place, Program
from softcuda.executor.saved.arrays import span_of
from softcuda.executor.saved.check_launches import check_launches
from softcuda.executor.saved.definition import check_graph
from softcuda.executor.saved.plain import Misfit
from softcuda.graph.lines import Graph, Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.shapes import numel
from softcuda.nvrtc.unit import as_arch

__all__ = ["check_program"]

_DEVICES: Final = ("cpu", "cuda")
# Backends whose prepare gives one step a unit, made of the unit's operands and result alone.
_PREPARED: Final = ("cpu_fallback", "cpu_blas", "cpu_fused")
_TRANSFERS: Final = {"h2d": ("cpu", "cuda"), "d2h": ("cuda", "cpu"), "d2d": ("cuda", "cuda")}


def check_program(program: Program, defined: Graph) -> None:
    """Check a program that was read against itself and the graph it was compiled from.

    Raises:
        Misfit, SoftCudaError: something in it is out of bounds or names what is not there.
    """
    check_graph(program.graph)
    _check_numbers(program, defined)
    lines = enumerate(program.graph.lines)
    constants = [number for number, line in lines if line.op.name == "constant"]
    for value, place in program.places.items():
        _at(f"places.{value}", _check_place, program, constants, value, place)
    for number, step in enumerate(program.steps):
        _at(f"steps.{number}", _check_step, program, number, step)


def _at(place: str, check: Any, *arguments: Any) -> None:
    try:
        check(*arguments)
    except Misfit as error:
        error.place.insert(0, place)
        raise


def _need(holds: bool, found: object, allowed: str) -> None:
    if not holds:
        raise Misfit(found, allowed)


def _check_numbers(program: Program, defined: Graph) -> None:
    """Check the lists that count lines, leaves, outputs and updates."""
    lines = program.graph.lines
    count, choices = len(lines), len(program.choices)
    _need(choices == count, choices, f"a choice for each of {count} lines")
    _need(
        len(program.origin) == len(defined.lines) and all(-1 <= n < count for n in program.origin),
        program.origin,
        f"a line, or -1, for each of {len(defined.lines)} lines of graph.json",
    )
    leaves = [line for line in defined.lines if _is_leaf(line)]
    _need(
        len(program.leaf_lines) == len(leaves)
        and all(0 <= n < count and _is_leaf(lines[n]) for n in program.leaf_lines),
        program.leaf_lines,
        f"the line of each of {len(leaves)} leaves",
    )
    by_position = {line.params.position: line for line in leaves}
    for position, number in enumerate(program.leaf_lines):
        found, wanted = lines[number], by_position.get(position)
        _need(found == wanted, found, f"leaf {position} of graph.json")
    _need(
        sum(map(_is_leaf, lines)) == len(leaves),
        sum(map(_is_leaf, lines)),
        f"{len(leaves)} leaves, as in graph.json",
    )
    made = program.output_lines
    _need(
        all(0 <= n < count for n in made) and len(set(made)) == len(made), made, "lines, each once"
    )
    _need(
        len(program.outputs) == len(defined.outputs)
        and all(0 <= n < len(made) for n in program.outputs)
        and program.graph.outputs == tuple(made[n] for n in program.outputs),
        program.outputs,
        f"an output line for each of {len(defined.outputs)} outputs",
    )
    updated = tuple(lines[variable].params.position for variable, _ in program.graph.updates)
    _need(program.updated == updated, program.updated, f"the updated leaves {updated}")
    _need(0 <= program.ending <= len(program.steps), program.ending, "the number of a step")
    _need(0 < program.block_bytes < 1 << 40, program.block_bytes, "1 byte to 1 TiB")
    _need(program.target.type in _DEVICES, program.target.type, "cpu or cuda")
    if program.target.type == "cuda":
        as_arch(program.target.arch)
    for device, size in program.arenas.items():
        _need(device in _DEVICES and 0 < size.nbytes < 1 << 62, size, "an arena of a device")


def _is_leaf(line: Line) -> bool:
    return line.op.kind is Kind.LEAF and line.op.name != "constant"


def _line_of(program: Program, value: int) -> Line:
    """Return the line whose value has this number, the variable's for a target of an update."""
    lines, updates = program.graph.lines, program.graph.updates
    _need(0 <= value < len(lines) + len(updates), value, "a line, or a target of an update")
    return lines[value] if value < len(lines) else lines[updates[value - len(lines)][0]]


def _check_place(program: Program, constants: list[int], value: int, place: Place) -> None:
    if value < 0:
        _need(~value < len(program.steps), value, "scratch of a step")
        wanted = program.steps[~value].scratch_bytes
        _need(place.space == "arena", place.space, "arena, where scratch lies")
    else:
        wanted = _line_of(program, value).nbytes
    _need(place.nbytes == wanted and place.at >= 0, place, f"{wanted} bytes from 0 on")
    _need(place.device in _DEVICES, place.device, "cpu or cuda")
    space, at = place.space, place.at
    lines = program.graph.lines
    if space == "arena":
        room = program.arena_bytes(place.device)
        _need(at + place.nbytes <= room, place, f"inside the arena of {room} bytes")
    elif space in ("output", "lent"):
        _need(at < len(program.output_lines), place, "the number of an output")
        owner = program.places.get(program.output_lines[at])
        is_own = space == "lent" or program.output_lines[at] == value
        room = lines[program.output_lines[at]].nbytes
        _need(
            is_own and place.nbytes <= room and owner is not None and owner.device == place.device,
            place,
            f"inside output {at} of {room} bytes",
        )
    elif space == "constant":
        _need(at < len(constants) and constants[at] == value, place, "a number of the graph")
    else:
        _need(space in ("leaf", "variable"), space, "arena, output, lent, constant, leaf, variable")
        _need(at < len(program.leaf_lines), place, "the position of a leaf")
        leaf = lines[program.leaf_lines[at]]
        is_meant = program.leaf_lines[at] == value if space == "leaf" else at in program.updated
        alike = leaf.nbytes == place.nbytes and leaf.params.device == place.device
        _need(is_meant and alike, place, f"leaf {at} on its device")


def _check_step(program: Program, number: int, step: Step) -> None:
    _need(bool(step.outputs), step.outputs, "at least one output")
    _need(step.scratch_bytes >= 0, step.scratch_bytes, "0 or more")
    needs_scratch = ~number in program.places or not step.scratch_bytes
    _need(needs_scratch, step.scratch_bytes, "scratch that has a place")
    for line in step.lines:
        _need(0 <= line < len(program.graph.lines), line, "a line of the graph")
    for operand in (*step.inputs, *step.outputs):
        _check_operand(program, operand)
    for operand in step.outputs:
        space = program.places[operand.value].space
        _need(space in ("arena", "output", "lent", "variable"), space, "memory of the program")
    writes = {program.places[operand.value].device for operand in step.outputs}
    if step.backend_id == "transfer":
        _check_transfer(program, step)
        return
    known = backends()
    _need(
        step.backend_id in known,
        step.backend_id,
        f"one of {', '.join(known)}; register it first, with softcuda.backends.register",
    )
    device = known[step.backend_id].DEVICE
    is_there = writes == {device} and _reads_on(program, step, device)
    _need(is_there, step.backend_id, f"values on {device}")
    if device == "cuda":
        check_launches(step)
    else:
        _need(not step.launches, step.launches, "no launches on the cpu")
        if step.backend_id in _PREPARED:
            _check_prepared(program, step)


def _check_transfer(program: Program, step: Step) -> None:
    wanted = _TRANSFERS.get(step.kernel)
    _need(wanted is not None, step.kernel, f"one of {', '.join(_TRANSFERS)}")
    ends = (*step.inputs, *step.outputs)
    found = tuple(program.places[operand.value].device for operand in ends)
    _need(found == wanted, step.kernel, "a copy of one value between its devices")
    alike = len({(operand.dims, operand.dtype) for operand in ends}) == 1
    _need(alike, ends, "a copy of the same extents and dtype")


def _reads_on(program: Program, step: Step, device: str) -> bool:
    """Return whether all that a step reads is on a device, or a number, which is everywhere."""
    places = [program.places[operand.value] for operand in step.inputs]
    return all(place.device == device or place.space == "constant" for place in places)


def _check_operand(program: Program, operand: Operand) -> None:
    """Check that a window lies in the memory of its value."""
    line, place = _line_of(program, operand.value), program.places.get(operand.value)
    _need(place is not None, operand.value, "a value that has a place")
    dims, strides = operand.dims, operand.strides
    is_whole = len(dims) == len(strides) <= 64 and all(extent >= 0 for extent in dims)
    _need(is_whole, operand, "as many strides as extents, none negative")
    _need(operand.dtype is line.dtype, operand.dtype, f"{line.dtype}, the dtype of its value")
    if not numel(dims):
        return
    before, behind = span_of(dims, strides)
    if place is not None and place.space == "leaf":
        first, end = span_of(line.dims, line.params.strides)
    else:
        first, end = 0, numel(line.dims)
    inside = -first <= operand.offset - before and operand.offset + behind <= end
    _need(inside, operand, f"elements {-first} to {end - 1} of its value")


def _check_prepared(program: Program, step: Step) -> None:
    """Check that a step is what its backend makes of its operands."""
    chain = step.chain or (_micro(program, step),)
    values: list[Any] = []
    for micro in chain:
        for source in micro.sources:
            _need(
                -len(values) - 1 < source < len(step.inputs), source, "an operand, or an op before"
            )
            _need(source >= 0 or ~source < len(values), source, "an op before")
        operands = [step.inputs[s] if s >= 0 else values[~s] for s in micro.sources]
        _check_rule(micro, operands)
        values.append(micro)
    out, last = step.outputs[0], chain[-1]
    alike = (out.dims, out.dtype) == (last.dims, last.dtype)
    _need(alike and len(step.outputs) == 1, step.outputs, f"{list(last.dims)} {last.dtype}")
    unit = Unit(chain, step.inputs, step.outputs[0], step.lines)
    backend = backends()[step.backend_id]
    (made,) = backend.prepare(unit, program.target)
    in_place = getattr(backend, "in_place", None)
    allowed = (made, None if in_place is None else in_place(made))
    _need(step in allowed, step, f"what {step.backend_id} prepares: {made}")


def _micro(program: Program, step: Step) -> Micro:
    """Return the op of a step that says it by its line alone; a copy for one without."""
    out = step.outputs[0]
    sources = tuple(range(len(step.inputs)))
    if not step.lines:
        return Micro(OPS["copy"], sources, out.dims, out.dtype, ())
    _need(len(step.lines) == 1, step.lines, "one line for a step without a chain")
    line = program.graph.lines[step.lines[0]]
    return Micro(line.op, sources, line.dims, line.dtype, line.params)


def _check_rule(micro: Micro, operands: list[Any]) -> None:
    op = micro.op
    _need(op.does_work, op.name, "an op that does work")
    _need(op.arity in (-1, len(operands)), len(operands), f"{op.arity} operands of {op.name}")
    try:
        dims, dtype = op.shape_rule(operands, micro.params), op.dtype_rule(operands, micro.params)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Misfit(str(error), f"operands and params of {op.name}") from error
    _need((dims, dtype) == (micro.dims, micro.dtype), micro, f"{list(dims)} {dtype}")
