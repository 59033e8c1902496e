"""The calls of a program's steps, bound to memory once, bound again where memory changes."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcuda.backends import added_devices, bind
from softcuda.backends.steps import Step
from softcuda.compiler.program import Program
from softcuda.executor.memory import ProgramMemory
from softcuda.executor.outputs import Slot
from softcuda.executor.templates import CallTemplate, template_of
from softcuda.graph.op import OPS
from softcuda.interrupts import Uninterrupted

if TYPE_CHECKING:
    from softcuda.executor.device_steps import DeviceSteps

__all__ = ["StepCalls"]

Call = tuple[Any, tuple[Any, ...]]

_MOST_DIRECT: Final = 16  # beyond, calls that are bound once cost less than what is copied for them
_WHOLE: Final = (np.ufunc, type(np.copyto))  # functions whose work no signal interrupts


class StepCalls:
    """The flat list of calls that a run replays.

    Attributes:
        flat: the calls of all steps in order.
        stale: the steps whose calls do not fit the memory any more.
        direct: what the whole program is where it is a few calls that have a template, called
            with the arrays of the leaves, in their order, of its only output, and of an arena that
            it shares; None where it is more than that, or was not bound yet.
        writes_at_once: whether a direct run writes the output by one call of NumPy, its last, that
            can neither fail nor be interrupted on the way: it is the old one or the new one.
        is_delicate: whether what changes variables is more than one call of NumPy, so that an
            interrupt would leave one half written, or some changed and others not.
    """

    def __init__(self, program: Program, memory: ProgramMemory, device: DeviceSteps | None) -> None:
        self._program = program
        self._memory = memory
        self._device = device
        self._generations = [0] * len(program.steps)
        self._only_output = [self._output_of(number) for number in range(len(program.steps))]
        self._templates: dict[int, CallTemplate | None] = {}
        self.flat: list[Call] = []
        self.stale: set[int] = set()
        self.direct: Callable[..., Any] | None = None
        self._may_be_direct = device is None and len(program.output_lines) == 1 == len(memory.rings)
        self.writes_at_once = False
        self.is_delicate = False
        self._is_whole = True
        self.reset()

    def reset(self) -> None:
        """Forget every call."""
        count = len(self._program.steps)
        self.flat = []
        self._calls: list[list[Call]] = [[] for _ in range(count)]
        self._starts = [0] * (count + 1)
        self.spoil(range(count))

    def _output_of(self, number: int) -> int:
        """Return the one output whose buffer a step's calls can be kept with, else -1.

        Calls of the host can be kept with the buffer they are bound to; nodes of a driver graph
        cannot.
        """
        step = self._program.steps[number]
        touched = {
            place.at
            for operand in (*step.inputs, *step.outputs)
            if (place := self._program.places[operand.value]).space in ("output", "lent")
        }
        keeps = len(touched) == 1 and not self._program.on_device(step)
        return next(iter(touched)) if keeps else -1

    def touching(self, spaces: tuple[str, ...], count: int) -> list[set[int]]:
        """Return, by position in these spaces, the steps to bind again when its array is another.

        Kernels and copies on the device are none of them: they are told addresses, by
        `DeviceSteps.move`.
        """
        found: list[set[int]] = [set() for _ in range(count)]
        for number, step in enumerate(self._program.steps):
            meets_host = step.kernel in ("h2d", "d2h") and step.backend_id == "transfer"
            if self._program.on_device(step) and not meets_host:
                continue
            for operand in (*step.inputs, *step.outputs):
                place = self._program.places[operand.value]
                if place.space in spaces:
                    found[place.at].add(number)
        return found

    def make(self) -> None:
        """Make all calls; those that change variables all or none, whatever a signal raises.

        No handler runs amid a loop in C over calls of NumPy; where others are among them, Ctrl-C
        is held back until their end.
        """
        flat = self.flat
        if not self.is_delicate:
            for function, arguments in flat:
                function(*arguments)
            return
        sure = self._starts[self._program.ending]
        for function, arguments in flat[:sure]:
            function(*arguments)
        changing = [(function, *arguments) for function, arguments in flat[sure:]]
        with nullcontext() if self._is_whole else Uninterrupted():
            deque(starmap(operator.call, changing), maxlen=0)

    def spoil(self, steps: Iterable[int]) -> None:
        """Mark steps as bound to memory that is another now."""
        for step in steps:
            self._generations[step] += 1
            self.stale.add(step)

    def move(self, step: int, slot: Slot) -> None:
        """Let a step write to another output buffer, by the calls bound to it before if any."""
        known = slot.bindings.get(step)
        if known is None or known[0] != self._generations[step] or step in self.stale:
            self.stale.add(step)
            return
        self._calls[step] = known[1]
        self.flat[self._starts[step] : self._starts[step + 1]] = known[1]

    def bind_stale(self) -> None:
        """Bind every stale step."""
        rebuild = False
        for number in sorted(self.stale):
            calls = self._bind(number)
            start, stop = self._starts[number], self._starts[number + 1]
            if len(calls) == stop - start:
                self.flat[start:stop] = calls
            else:
                rebuild = True
            self._calls[number] = calls
            slot = self._kept_with(number)
            if slot is not None:
                slot.bindings[number] = (self._generations[number], calls)
        changes_variables = max(self.stale, default=-1) >= self._program.ending
        self.stale.clear()
        if rebuild:
            self.flat = [call for calls in self._calls for call in calls]
            at = 0
            for number, calls in enumerate(self._calls):
                self._starts[number] = at
                at += len(calls)
            self._starts[-1] = at
        if self._may_be_direct:
            self._may_be_direct = False
            self.direct = self._find_direct()
        if changes_variables:
            changing = self.flat[self._starts[self._program.ending] :]
            self._is_whole = all(isinstance(function, _WHOLE) for function, _ in changing)
            self.is_delicate = len(changing) > 1 or not self._is_whole

    def _kept_with(self, number: int) -> Slot | None:
        only = self._only_output[number]
        return self._memory.slots[only] if only >= 0 else None

    def _bind(self, number: int) -> list[Call]:
        step, memory = self._program.steps[number], self._memory
        if self._device is not None and self._program.on_device(step):
            return self._device.bind(number)
        outputs = [memory.window(operand) for operand in step.outputs]
        if outputs and not any(out.size for out in outputs) and not _checks(step):
            return []
        inputs = [memory.window(operand) for operand in step.inputs]
        scratch = memory.scratch(number, step.scratch_bytes)
        arrays = [*inputs, *outputs] if scratch is None else [*inputs, *outputs, scratch]
        template = self._templates.get(number)
        if template is not None:
            return template.calls_on(arrays)
        calls = bind(step, inputs, outputs, scratch)
        if number not in self._templates and step.backend_id not in added_devices():
            self._templates[number] = template_of(calls, arrays)
        return calls

    def _find_direct(self) -> Callable[..., Any] | None:
        """Return `direct`, once every step is bound."""
        program, memory = self._program, self._memory
        leaves, slot = memory.leaves, memory.slots[0]
        if program.updated or slot is None or not 0 < len(self.flat) <= _MOST_DIRECT:
            return None
        added = added_devices()
        if any(step.backend_id in added for step in program.steps):
            return None
        if not all(isinstance(leaf, np.ndarray) for leaf in leaves):
            return None
        shared = [] if memory.owns_arena else [arena.memory for arena in memory.arenas.values()]
        template = template_of(self.flat, [*leaves, slot.memory, *shared])
        if template is None:
            return None
        meeting = [f for f, given in self.flat if _meets(given, slot.memory)]
        self.writes_at_once = (
            len(meeting) == 1
            and self.flat[-1][0] is meeting[0]
            and (isinstance(meeting[0], np.ufunc) and meeting[0] is not np.power)
        )
        return template.only or template

    def drop(self, steps: Iterable[int]) -> None:
        """Drop the calls of steps, and with them every reference to what they read."""
        for step in steps:
            self.spoil((step,))
            if self._device is not None and self._device.forget(step):
                continue
            start, stop = self._starts[step], self._starts[step + 1]
            self.flat[start:stop] = [(_nothing, ())] * (stop - start)
            self._calls[step] = []
            slot = self._kept_with(step)
            if slot is not None:
                slot.bindings.pop(step, None)


def _checks(step: Step) -> bool:
    """Return whether a step refuses bad indices even where it has nothing to write."""
    op = OPS.get(step.kernel)
    return op is not None and op.has_indices


def _meets(arguments: tuple[Any, ...], memory: Any) -> bool:
    """Return whether a call reads or writes some memory."""
    arrays = (x for x in arguments if isinstance(x, np.ndarray))
    return any(np.may_share_memory(x, memory) for x in arrays)


def _nothing() -> None:
    """Stand for a call that is bound before it runs."""
