"""Executables in files: what comes back computes the same bits, and what it may not be."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import softcuda as sc
from softcuda.errors import ArgumentError, ArgumentTypeError, SavedFileError
from softcuda.profile.resolve import read

Array = np.ndarray[Any, Any]


class Pair(NamedTuple):
    """A structure that only Python knows."""

    first: Any
    second: Any


def floats(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def same_bits(one: sc.Tensor, two: sc.Tensor) -> bool:
    a, b = one.numpy(), two.numpy()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def again(executable: sc.Executable, folder: Path) -> sc.Executable:
    """Return an executable, saved and loaded."""
    executable.save(folder / "saved.softcuda")
    loaded = sc.load(folder / "saved.softcuda")
    assert str(loaded) == str(executable)
    return loaded


def training_step() -> sc.Executable:
    """Return a step with gradients, a composite, a generator, updates and two feeds."""
    x, targets = sc.input((20, 8), name="x"), sc.input((20,), sc.i64, name="targets")
    w = sc.variable(floats(8, 4), "w", requires_grad=True)
    b = sc.variable(np.zeros(4, np.float32), "b", requires_grad=True)
    dropped = sc.dropout(sc.relu(x @ w + b), 0.5, generator=sc.Generator(7))
    loss = sc.cross_entropy(dropped, targets)
    optimizer = sc.optim.Adam([w, b], rate=0.1)
    outputs = {"loss": loss, "best": (sc.argmax(dropped, axis=1), [sc.softmax(dropped, axis=1)])}
    return sc.compile(outputs, updates=optimizer.updates(loss))


def test_a_training_step_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    step = training_step()
    feeds = {"x": floats(20, 8, seed=1), "targets": np.arange(20) % 4}
    step.run(feeds)
    loaded = again(step, tmp_path)
    for _ in range(3):
        here, there = step.run(feeds), loaded.run(feeds)
        assert same_bits(here["loss"], there["loss"])
        assert same_bits(here["best"][0], there["best"][0])
        assert same_bits(here["best"][1][0], there["best"][1][0])
    for own, other in zip(step.leaves, loaded.leaves, strict=True):
        assert (own.name, own.op, own.dims, own.flow) == (
            *(other.name, other.op, other.dims, other.flow),
        )
        assert own.data is None or own.data.tobytes() == other.data.tobytes()
        assert own is not other


def test_results_say_what_made_them(tmp_path: Path) -> None:
    x = sc.input((3,), name="x")
    made = sc.compile([sc.exp(x), x, x + 0.0, sc.exp(x)])
    loaded = again(made, tmp_path)
    value = floats(3)
    here, there = made.run(x=value), loaded.run(x=value)
    assert [repr(one) for one in here] == [repr(one) for one in there]
    assert type(there[0]) is sc.Tensor
    assert (here[0] is here[3]) is (there[0] is there[3])


def test_a_saved_executable_has_its_own_variables(tmp_path: Path) -> None:
    state = sc.variable([1.0, 1.0], "state")
    made = sc.compile(state * 1.0, updates={state: state * 2.0})
    loaded = again(made, tmp_path)
    loaded.run()
    assert state.tolist() == [1.0, 1.0]
    (own,) = (leaf for leaf in loaded.leaves if leaf.name == "state")
    assert own.tolist() == [2.0, 2.0]
    own.assign([5.0, 5.0])
    assert loaded.run().tolist() == [5.0, 5.0]


def test_einsums_and_numbers(tmp_path: Path) -> None:
    a, b, c = (sc.input((4, 4), sc.f64, name=name) for name in "abc")
    made = sc.compile((sc.einsum("ij,jk,ki->i", a, b, c) * -0.0 + float("inf"), a // 0.0))
    loaded = again(made, tmp_path)
    feeds = {name: floats(4, 4, seed=k).astype(np.float64) for k, name in enumerate("abc")}
    for here, there in zip(made.run(feeds), loaded.run(feeds), strict=True):
        assert same_bits(here, there)


@pytest.mark.parametrize("dtype", sc.dtype.DTYPES)
def test_leaves_of_every_dtype_and_stride(tmp_path: Path, dtype: str) -> None:
    whole = sc.tensor(floats(6, 4) * 8).cast(dtype).numpy()
    views = [whole[::2, ::-1], np.broadcast_to(whole[0], (3, 4)), whole[:0], whole[2, 2, ...]]
    made = sc.compile([sc.asarray(view).copy() for view in views])
    for here, view in zip(again(made, tmp_path).run(), views, strict=True):
        assert here.numpy().tobytes() == view.tobytes()


def test_the_same_executable_gives_the_same_file(tmp_path: Path) -> None:
    made = training_step()
    made.save(tmp_path / "one")
    made.save(str(tmp_path / "two"))
    sc.load(tmp_path / "one").save(os.fsencode(tmp_path / "three"))
    files = [(tmp_path / name).read_bytes() for name in ("one", "two", "three")]
    assert files[0] == files[1] == files[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "three", "two"]


def test_another_profile_decides_when_it_is_compiled_again(tmp_path: Path) -> None:
    x = sc.input((5, 5), name="x")
    made = sc.compile({"y": sc.softmax(x @ x, axis=1)})
    made.save(tmp_path / "file")
    (tmp_path / "mine.soft").write_text(
        "[meta]\nsoft_version = 0.1.0\n[ops]\nmatmul | any = cpu_fallback\n"
    )
    mine = tmp_path / "mine.soft"
    for config in (mine, str(mine), read(mine)):
        other = sc.load(tmp_path / "file", recompile=True, config=config)
        assert "cpu_fallback" in str(other) and "cpu_fallback" not in str(made)
    value = floats(5, 5)
    assert same_bits(made.run(x=value)["y"], sc.load(tmp_path / "file").run(x=value)["y"])
    here = sc.load(tmp_path / "file", recompile=True)
    assert str(here) == str(made)
    assert same_bits(made.run(x=value)["y"], here.run(x=value)["y"])


def test_options_of_compile_are_kept(tmp_path: Path) -> None:
    x = sc.input((5, 5), name="x")
    made = sc.compile(x @ x, strict=True, recompute=True)
    assert str(again(made, tmp_path)) == str(made)
    for other in (sc.load(tmp_path / "saved.softcuda", recompile=True), again(made, tmp_path)):
        assert (other.definition.strict, other.definition.recompute) == (True, True)


def test_rows_that_decided_come_along(tmp_path: Path) -> None:
    x = sc.input((5, 5), name="x")
    (profile,) = again(sc.compile(x @ x), tmp_path).definition.profiles
    (row,) = profile.rows
    assert (row.op, row.backend_id) == ("matmul", "cpu_blas")
    assert f"{profile.name}:{row.line}" in str(sc.compile(x @ x))


def test_saving_again_replaces_the_file(tmp_path: Path) -> None:
    x = sc.input((2,), name="x")
    path = tmp_path / "link"
    (tmp_path / "file").write_bytes(b"something else")
    path.symlink_to(tmp_path / "file")
    sc.compile(-x).save(path)
    assert path.is_symlink()
    assert sc.load(tmp_path / "file").run(x=np.ones(2, np.float32)).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        (lambda x: Pair(x, -x), "Pair"),
        (lambda x: OrderedDict(a=x), "OrderedDict"),
        (lambda x: {(1, 2): x}, r"a dict with the keys \[\(1, 2\)\]"),
    ],
)
def test_structures_that_no_file_holds(tmp_path: Path, outputs: Any, told: str) -> None:
    made = sc.compile(outputs(sc.input((2,), name="x")))
    with pytest.raises(SavedFileError, match=f"save: .*{told}.*; allowed is lists, tuples and"):
        made.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_keys_of_dicts_keep_their_type(tmp_path: Path) -> None:
    x = sc.input((), name="x")
    made = sc.compile({"a": x, 1: [-x, (x,)], None: {}, False: ()})
    result = again(made, tmp_path).run(x=1.0)
    assert list(map(repr, result)) == ["'a'", "1", "None", "False"]
    assert (type(result[1]), type(result[1][1]), result[None], result[False]) == (
        *(list, tuple, {}, ()),
    )


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    made = sc.compile(-sc.input((2,), name="x"))
    for place in (tmp_path / "absent" / "file", tmp_path):
        with pytest.raises(SavedFileError, match=r"cannot be written: .* is unchanged; choose"):
            made.save(place)
    assert not list(tmp_path.iterdir())


def test_arguments_of_load(tmp_path: Path) -> None:
    with pytest.raises(SavedFileError, match="absent: the file cannot be read: No such file"):
        sc.load(tmp_path / "absent")
    with pytest.raises(ArgumentError, match="holds a null character"):
        sc.load("a\0b")
    with pytest.raises(ArgumentTypeError, match="the path is 3 of type int"):
        sc.load(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="recompile is 1"):
        sc.load("file", recompile=1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="allowed is config= with recompile=True"):
        sc.load("file", config="default")
