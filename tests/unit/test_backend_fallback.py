"""cpu_fallback: an op for every kind of work, one step each, and little memory beside."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from host_equations import params_of
from host_harness import calls_of, line_of, sample, steps_of

from softcuda.backends import cpu_fallback
from softcuda.backends.host.elementwise import ELEMENTWISE
from softcuda.dtype import bf16, f16, f32, f64, i64
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.params import (
    Cast,
    Concat,
    Cumulative,
    Gather,
    LayerNorm,
    Moment,
    Pad,
    Random,
    Reduce,
    Softmax,
    Triangle,
)
from softcuda.target import CPU

Array = np.ndarray[Any, Any]

LIMIT = 4 << 20  # a few cache-sized blocks


def test_all_work_is_supported() -> None:
    for op in OPS.values():
        line = Line(op, (), (), f32, ())
        verdict = cpu_fallback.supports(line, [], CPU)
        assert bool(verdict) == (op.does_work), op.name
        assert verdict or op.name in verdict.reason


def test_a_step_is_plain_data() -> None:
    array = sample(f16, (3, 4))
    [step] = steps_of(cpu_fallback, "sum", [array], Reduce((0,), False))
    assert (step.kernel, step.backend_id) == ("sum", "cpu_fallback")
    assert pickle.loads(pickle.dumps(step)) == step


def test_an_unknown_op_is_named() -> None:
    array = sample(f32, (3,))
    [step] = steps_of(cpu_fallback, "neg", [array])
    unknown = step._replace(kernel="frobnicate")
    with pytest.raises(BackendError, match="no op 'frobnicate'; it has abs, "):
        cpu_fallback.bind(unknown, [array], [array], None)


def test_an_operand_may_be_read_twice() -> None:
    line, _ = line_of("mul", [np.ones(3), np.ones(3)])
    assert line.inputs == (0, 1)
    calls, out = calls_of(cpu_fallback, "mul", [np.arange(3.0), np.arange(3.0)])
    for function, args in calls:
        function(*args)
    assert out.tolist() == [0.0, 1.0, 4.0]


def test_nothing_to_write_is_no_call() -> None:
    empty = np.empty((3, 0), np.float32)
    for name, inputs, params in (
        ("add", [empty, empty], ()),
        ("softmax", [empty], Softmax(0)),
        ("cumsum", [empty], Cumulative(0)),
        ("matmul", [empty.T, np.ones((3, 2), np.float32)], params_of("mk,kn->mn")),
    ):
        calls, _ = calls_of(cpu_fallback, name, inputs, params)
        assert calls == [], name


BIG = (1500, 1024)
WORK: list[tuple[str, Any, Any]] = [
    ("add", (f16, f16), ()),
    ("add", (i64, f32), ()),
    ("mul", (f32, f64), ()),
    ("sigmoid", (f32,), ()),
    ("gelu", (bf16,), ()),
    ("maximum", (f32, f32), ()),
    ("cast", (f64,), Cast(bf16)),
    ("cast", (f32,), Cast(i64)),
    ("sum", (f32,), Reduce((0,), False)),
    ("sum", (f16,), Reduce((0, 1), False)),
    ("max", (f32,), Reduce((1,), False)),
    ("var", (f32,), Moment((0,), False, "1")),
    ("argmax", (bf16,), Reduce((0, 1), False)),
    ("logsumexp", (f32,), Reduce((1,), False)),
    ("any", (f32,), Reduce((0,), False)),
    ("cumsum", (f32,), Cumulative(0)),
    ("softmax", (f16,), Softmax(0)),
    ("log_softmax", (f32,), Softmax(1)),
    ("layer_norm", (f32,), LayerNorm(1, "1e-5", False, False)),
    ("concat", (f16, f32), Concat(0)),
    ("pad", (f32,), Pad((1, 1), (1, 1), "0.0")),
    ("tril", (f32,), Triangle(0)),
]


def peak_of(name: str, inputs: list[Array], params: Any) -> int:
    """Return the most bytes that running an op allocates beside its operands and result."""
    calls, _ = calls_of(cpu_fallback, name, inputs, params)
    tracemalloc.start()
    with np.errstate(all="ignore"):
        for function, args in calls:
            function(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(("name", "dtypes", "params"), WORK)
def test_memory_beside_the_operands(name: str, dtypes: Any, params: Any) -> None:
    inputs = [sample(dtype, BIG, k) for k, dtype in enumerate(dtypes)]
    if name in ("gelu",):
        ELEMENTWISE[name](np.ones(1), np.ones(1))  # scipy is loaded now
    assert peak_of(name, inputs, params) < LIMIT
    turned = [x.T for x in inputs]
    assert peak_of(name, turned, params) < LIMIT


def test_memory_of_indexing_and_random() -> None:
    data, rows = sample(f32, BIG), np.arange(1500)
    assert peak_of("take", [data, rows], Gather(0)) < LIMIT
    assert peak_of("take", [data, rows % 1000], Gather(1)) < LIMIT
    picked = np.broadcast_to(rows[:, None] % 1000, BIG)
    assert peak_of("gather", [data, picked], Gather(1)) < LIMIT
    state = np.array([1, 2])
    for name in ("uniform", "normal"):
        assert peak_of(name, [state], Random(BIG, f32, "0.0", "1.0", 0)) < LIMIT
