"""The one emitter of fused chains: a struct that calls the op structs of ops.cuh in order.

    struct Chain {
        using Result = f32;
        static constexpr i32 COUNT = 2;
        static Result apply(f32 x0, f16 x1, i64* status = nullptr) {
            const f32 v0 = Mul<f32>::apply(x0, convert<f32>(x1));
            const f32 v1 = Relu<f32>::apply(v0);
            return v1;
        }
        template <typename READ> static Result of(READ read, i64* status = nullptr);
    };

`apply` takes loaded values in their storage dtypes. Every operand is converted to the dtype that
its op takes, then to the compute dtype; every result is rounded to the dtype of its line: what
softcuda.backends.host.chain_program does on the host. `of(read)` calls apply with
`read(Slot<T, NUMBER>{})` for every operand. Values inside the chain that are kept are references
behind the operands, `f32& y0`, and there is no `of`. The text depends on ops and dtypes alone, so
equal chains are one cubin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from softcuda.backends.steps import Micro, Unit
from softcuda.dtype import DType, bool_, compute_dtype
from softcuda.errors import BackendError
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.op import Kind
from softcuda.nvrtc.unit import Header

__all__ = [
    "CHAIN_HEADER",
    "Part",
    "Parts",
    "chain_digest",
    "chain_header",
    "chain_label",
    "emit",
    "reports",
    "split",
]

CHAIN_HEADER: Final = "chain.cuh"

_HEAD: Final = '// A fused chain, generated.\n#pragma once\n\n#include "ops.cuh"\n'
_COMPLEX: Final = '#include "complex_ops.cuh"\n'
_QUALIFIERS: Final = "static __device__ __forceinline__"

# Results of these need no rounding: they are values of an operand, or exact in its dtype.
_EXACT: Final = frozenset(
    (
        *("copy", "conj", "real", "imag", "neg", "abs", "sign", "relu", "floor", "ceil", "round"),
        *("minimum", "maximum", "clip", "where"),
    )
)
_IDENTITY: Final = frozenset(("copy", "conj", "real"))  # of real numbers


class _Typed(NamedTuple):
    """A value's dtype, for the rules of the op table."""

    dtype: DType


class _Value(NamedTuple):
    """A value in the generated text: its name, the dtype it means, the C++ type it is held in.

    A value of f16 or bf16 may be held as the f32 that is equal to it.
    """

    name: str
    dtype: DType
    held: DType


class Part(NamedTuple):
    """The elementwise ops on one side of an anchor, numbered for themselves.

    Attributes:
        chain: the ops; a source s >= 0 is argument s, s < 0 the result of op ~s of this chain.
        operands: the numbers of the unit's operands that are read, in the order of the arguments;
            in an epilogue the anchor's value is argument 0 and is not among them.
        dtypes: of all arguments, an epilogue's anchor value included.
    """

    chain: tuple[Micro, ...]
    operands: tuple[int, ...]
    dtypes: tuple[DType, ...]

    @property
    def result(self) -> DType:
        """The dtype of the last op's value; of argument 0 where there is no op."""
        return self.chain[-1].dtype if self.chain else self.dtypes[0]


class Parts(NamedTuple):
    """A unit around its anchor.

    Attributes:
        prologues: for each source of the anchor, in order, the ops that make it; a source that
            is an operand of the unit has no ops and is argument 0 of its part.
        anchor: the op in the middle.
        epilogue: what is computed from its value; no ops where it is the last.
    """

    prologues: tuple[Part, ...]
    anchor: Micro
    epilogue: Part


def split(unit: Unit) -> Parts:
    """Return the prologue, anchor and epilogue of a unit that is no plain chain.

    Raises:
        BackendError: no op of the unit, or more than one, is other than elementwise; or an op
            after the anchor reads one from before it.
    """
    places = [k for k, m in enumerate(unit.chain) if m.op.kind is not Kind.ELEMENTWISE]
    if len(places) != 1:
        names = ", ".join(micro.op.name for micro in unit.chain)
        raise BackendError(
            f"a unit of {names} has {len(places)} anchors; allowed is one op that is not "
            "elementwise, with elementwise ones around it"
        )
    place = places[0]
    anchor = unit.chain[place]
    prologues = tuple(_part(unit, source, 0) for source in anchor.sources)
    last = len(unit.chain) - 1
    epilogue = Part((), (), (anchor.dtype,))
    if last > place:
        epilogue = _part(unit, ~last, place)
    return Parts(prologues, anchor, epilogue)


def _part(unit: Unit, root: int, first: int) -> Part:
    """Return what `root` depends on; ops from `first` on, where `first` is the anchor or 0."""
    chain = unit.chain
    is_anchor = chain[first].op.kind is not Kind.ELEMENTWISE and root < 0 and ~root > first
    needed: set[int] = set()
    waiting = [~root] if root < 0 else []
    while waiting:
        number = waiting.pop()
        if number in needed or (is_anchor and number == first):
            continue
        if is_anchor and number < first:
            raise BackendError(
                f"{chain[number].op.name} comes before {chain[first].op.name} and is read after "
                "it; allowed after it are its value and operands from outside"
            )
        needed.add(number)
        waiting.extend(~source for source in chain[number].sources if source < 0)
    members = sorted(needed)
    dtypes = [chain[first].dtype] if is_anchor else []
    shift = len(dtypes)
    renamed = {~first: 0} if is_anchor else {}
    renamed |= {~number: ~position for position, number in enumerate(members)}
    operands: list[int] = []
    reads = [source for number in members for source in chain[number].sources]
    for source in reads if root < 0 else [root]:
        if source >= 0 and source not in renamed:
            renamed[source] = shift + len(operands)
            operands.append(source)
            dtypes.append(unit.operands[source].dtype)
    micros = tuple(
        chain[number]._replace(sources=tuple(renamed[s] for s in chain[number].sources))
        for number in members
    )
    return Part(micros, tuple(operands), tuple(dtypes))


def reports(chain: Sequence[Micro]) -> bool:
    """Return whether the chain can report an error: it has a power of integers."""
    return any(micro.op.name == "pow" and not micro.dtype.is_inexact for micro in chain)


def emit(
    chain: Sequence[Micro], dtypes: Sequence[DType], name: str = "Chain", kept: Sequence[int] = ()
) -> str:
    """Return the struct of a chain of elementwise ops.

    Args:
        chain: the ops in order; the last one makes the result. Without any, the result is
            argument 0.
        dtypes: of the arguments of `apply`, which the chain's sources count.
        name: of the struct.
        kept: ops whose values are written too, in the order of their references.
    """
    writer = _Writer(dtypes)
    made = [_Value(f"x{k}", dtype, dtype) for k, dtype in enumerate(dtypes)]
    results: list[_Value] = []
    for micro in chain:
        operands = [made[s] if s >= 0 else results[~s] for s in micro.sources]
        results.append(writer.micro(micro, operands))
    last = results[-1] if results else made[0]
    stored = [f"y{k} = {writer.as_stored(results[number])};" for k, number in enumerate(kept)]
    returned = writer.as_stored(last)
    arguments = [f"{value.dtype.name} {value.name}" for value in made]
    arguments += [f"{chain[number].dtype.name}& y{k}" for k, number in enumerate(kept)]
    listed = "".join(f"{argument}, " for argument in arguments)
    statements = (*writer.lines, *stored, f"return {returned};")
    body = "\n".join(f"        {line}" for line in statements)
    return (
        f"struct {name} {{\n"
        f"    using Result = {last.dtype.name};\n"
        f"    static constexpr i32 COUNT = {len(arguments)};\n"
        f"    static constexpr bool REPORTS = {str(reports(chain)).lower()};\n"
        f"    {_QUALIFIERS} Result apply({listed}i64* status = nullptr) {{\n"
        f"{body}\n"
        "    }\n"
        f"{'' if kept else _of(dtypes)}"
        "};\n"
    )


def _of(dtypes: Sequence[DType]) -> str:
    slots = "".join(f"read(Slot<{dtype.name}, {k}>{{}}), " for k, dtype in enumerate(dtypes))
    return (
        "    template <typename READ>\n"
        f"    {_QUALIFIERS} Result of(READ read, i64* status = nullptr) {{\n"
        f"        return apply({slots}status);\n"
        "    }\n"
    )


def chain_header(*structs: str) -> Header:
    """Return the header "chain.cuh" that holds these structs of `emit`."""
    head = _HEAD + _COMPLEX if any("complex" in text for text in structs) else _HEAD
    return Header(CHAIN_HEADER, "\n".join((head, *structs)))


def chain_digest(header: Header) -> str:
    """Return 8 hexadecimal digits that tell a header from others, for a kernel's variant."""
    return hashlib.sha256(header.text.encode()).hexdigest()[:8]


def chain_label(chain: Sequence[Micro], limit: int = 3) -> str:
    """Return a short name of a chain for tables, such as "mul_add_relu" or "mul_add_relu_and_9"."""
    names = [micro.op.name for micro in chain]
    more = len(names) - limit
    return "_".join((*names[:limit], *((f"and_{more}",) if more > 0 else ())))


class _Writer:
    """The statements of `apply`, one a value; what is converted once is not converted again."""

    def __init__(self, dtypes: Sequence[DType]) -> None:
        self.lines: list[str] = []
        self.converted: dict[tuple[str, DType, DType], str] = {}

    def micro(self, micro: Micro, operands: Sequence[_Value]) -> _Value:
        """Add one op; return its value."""
        name, dtype = micro.op.name, micro.dtype
        typed: list[Any] = [_Typed(operand.dtype) for operand in operands]
        is_identity = name in _IDENTITY and operands[0].dtype is dtype and not dtype.is_complex
        if name in ("cast", "copy") or is_identity:
            return self.cast(operands[0], dtype)
        wanted = operand_dtypes(micro.op, typed, micro.params)
        arguments = [self.loaded(v, want) for v, want in zip(operands, wanted, strict=True)]
        computed = compute_dtype(wanted[-1])
        held = bool_ if dtype is bool_ else compute_dtype(dtype)
        if name == "pow" and not dtype.is_inexact:
            arguments.append("status")
        struct = "".join(word.capitalize() for word in name.split("_"))
        text = f"{struct}<{computed.name}>::apply({', '.join(arguments)})"
        if held is not dtype and name not in _EXACT:
            text, held = f"convert<{dtype.name}>({text})", dtype
        return _Value(self.define(text, held), dtype, held)

    def cast(self, value: _Value, dtype: DType) -> _Value:
        """Return a value converted to another dtype, rounded once."""
        if value.dtype is dtype:
            return value
        return _Value(self.convert(value.name, value.held, dtype), dtype, dtype)

    def loaded(self, value: _Value, want: DType) -> str:
        """Return the name of a value converted to `want`, in its compute dtype."""
        value = self.cast(value, want) if value.dtype is not bool_ else value
        return self.convert(value.name, value.held, compute_dtype(want))

    def as_stored(self, value: _Value) -> str:
        """Return the name of a value in its own dtype."""
        return self.convert(value.name, value.held, value.dtype)

    def convert(self, name: str, held: DType, want: DType) -> str:
        if held is want:
            return name
        key = (name, held, want)
        if key not in self.converted:
            function = "as_complex" if want.is_complex else "convert"
            self.converted[key] = self.define(f"{function}<{want.name}>({name})", want)
        return self.converted[key]

    def define(self, text: str, dtype: DType) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {dtype.name} {name} = {text};")
        return name
