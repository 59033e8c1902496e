"""DLPack on the host: both ways, made by hand and of NumPy and PyTorch."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dlpack_capsules import Producer, address_in, counting

import softcuda as sc
from softcuda import errors
from softcuda.interop.capsules import taken
from softcuda.interop.structs import IS_COPIED, READ_ONLY, VERSIONED, DLManagedTensorVersioned

BF16 = np.dtype(ml_dtypes.bfloat16)


# Capsules made by hand


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dims", [(), (3,), (2, 3), (0, 3), (1, 1)])
def test_strides_may_be_null(versioned: bool, dims: tuple[int, ...]) -> None:
    made = Producer(counting(6), versioned=versioned, dims=dims)
    tensor = sc.from_dlpack(made)
    expected = counting(int(np.prod(dims, dtype=int))).reshape(dims)
    np.testing.assert_array_equal(tensor.numpy(), expected, strict=True)
    assert made.name == (b"used_dltensor_versioned" if versioned else b"used_dltensor")
    assert made.streams == [None]
    del tensor
    gc.collect()
    assert made.deleted == 1


def test_the_memory_is_shared_until_the_tensor_goes() -> None:
    made = Producer(counting(4))
    tensor = sc.from_dlpack(made)
    made.array[1] = 7
    assert tensor.tolist() == [0, 7, 2, 3]
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert made.deleted == 0
    assert view.tolist() == [0, 7, 2, 3]
    del view
    gc.collect()
    assert made.deleted == 1


def test_a_capsule_is_taken_once() -> None:
    made = Producer(counting(3))
    kept = sc.from_dlpack(made)
    for take in (sc.from_dlpack, sc.tensor, sc.asarray):
        with pytest.raises(BufferError, match="was taken before"):
            take(made)
    assert made.deleted == 0
    assert kept.tolist() == [0, 1, 2]
    del kept
    gc.collect()
    assert made.deleted == 1


def test_what_is_no_capsule() -> None:
    class Wrong(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            return 5

    with pytest.raises(errors.ExchangeError, match="is a int of no known name"):
        sc.from_dlpack(Wrong(counting(1)))
    with pytest.raises(errors.ArgumentTypeError, match="no __dlpack__"):
        sc.from_dlpack([1, 2])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"version": (2, 0)}, errors.ExchangeError, "version 2.0; allowed are versions up to 1"),
        ({"type_code": (2, 32, 4)}, errors.DTypeError, "code 2, 32 bits and 4 lanes"),
        ({"type_code": (5, 32, 1)}, errors.DTypeError, "code 5, 32 bits"),
        ({"type_code": (1, 64, 1), "dims": (2,)}, errors.DTypeError, "uint64"),
        ({"dims": (-1,)}, errors.ShapeError, "negative extent"),
        ({"dims": (1,) * 65}, errors.ShapeError, "rank 65"),
        ({"dims": (2,), "strides": ((1 << 62) - 1,)}, errors.ExchangeError, "no memory spans"),
        ({"dims": (2,), "ptr": 0}, errors.ExchangeError, "address 0"),
    ],
)
def test_refused_content_is_deleted_once_or_left(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    made = Producer(counting(4), **options)
    with pytest.raises(error, match=text):
        sc.from_dlpack(made)
    gc.collect()
    taken_over = made.name.startswith(b"used")
    assert made.deleted == taken_over


def test_byte_offset_and_strides_of_any_sign() -> None:
    made = Producer(counting(12), dims=(3, 4), strides=(4, -1), byte_offset=12)
    expected = np.flip(counting(12).reshape(3, 4), 1)
    assert sc.from_dlpack(made).tolist() == expected.tolist()
    repeated = Producer(counting(3), dims=(2, 3), strides=(0, 1))
    assert sc.from_dlpack(repeated).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("dims", [(1, 77), (1, 3, 1, 4, 1), (0, 3)])
def test_strides_of_small_extents_do_not_count(dims: tuple[int, ...]) -> None:
    size = int(np.prod(dims))
    source = counting(max(size, 1))
    row_major = np.empty(dims, np.float32).strides
    odd = tuple(
        99999 if extent <= 1 or not size else stride // 4
        for extent, stride in zip(dims, row_major, strict=True)
    )
    tensor = sc.from_dlpack(Producer(source, dims=dims, strides=odd))
    assert tensor.shape == dims
    again = sc.from_dlpack(tensor)
    np.testing.assert_array_equal(again.numpy(), source[:size].reshape(dims), strict=True)
    back = np.from_dlpack(again)
    np.testing.assert_array_equal(back, source[:size].reshape(dims), strict=True)


def test_a_read_only_array_stays_read_only() -> None:
    tensor = sc.from_dlpack(Producer(counting(3), flags=READ_ONLY))
    assert tensor.data.flags.writeable is False
    with pytest.raises(BufferError, match="read-only, which capsules before"):
        tensor.__dlpack__()
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]


# NumPy and PyTorch


@pytest.mark.parametrize("dtype", ["bool", "i32", "i64", "f16", "f32", "f64"])
def test_integers_from_numpy(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(sc.dtype.as_dtype(dtype).numpy)
    tensor = sc.from_dlpack(array)
    assert tensor.dtype is sc.dtype.as_dtype(dtype)
    assert np.shares_memory(tensor.data, array)
    assert np.shares_memory(np.from_dlpack(tensor), array)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "uint16", "uint32"])
def test_what_is_converted_is_copied(name: str) -> None:
    array = np.array([1, 2, 3], name)
    assert sc.from_dlpack(array).tolist() == [1, 2, 3]
    with pytest.raises(errors.ExchangeError, match=r"conversion from.*copy=False forbids"):
        sc.from_dlpack(array, copy=False)


def test_copies_where_asked() -> None:
    array = counting(3)
    assert not np.shares_memory(sc.from_dlpack(array, copy=True).data, array)
    assert np.shares_memory(sc.from_dlpack(array, copy=False, device="cpu").data, array)
    with pytest.raises(errors.ArgumentError, match="no device 'tpu'"):
        sc.from_dlpack(array, device="tpu")


def test_exports_to_numpy() -> None:
    tensor = sc.tensor(counting(6)).reshape((2, 3)) + 1
    array = np.from_dlpack(tensor)
    assert np.shares_memory(array, tensor.data)
    assert array.flags.writeable is False
    assert tensor.__dlpack_device__() == (1, 0)
    with pytest.raises(errors.ExchangeError, match="stream is 7"):
        tensor.__dlpack__(stream=7)
    with pytest.raises(errors.ExchangeError, match=r"\(2, 0\) was asked"):
        tensor.__dlpack__(dl_device=(2, 0))
    copied = taken("test", tensor.__dlpack__(max_version=(1, 0), copy=True))
    assert copied.ptr != tensor.data.ctypes.data
    assert not copied.is_read_only
    capsule = tensor.__dlpack__(copy=True, max_version=(1, 0))
    assert DLManagedTensorVersioned.from_address(address_in(capsule, VERSIONED)).flags == IS_COPIED


def test_an_input_cannot_be_exported() -> None:
    with pytest.raises(errors.FeedError, match="has no value"):
        sc.input((2,)).__dlpack__()
    assert not hasattr(sc.ones((2,)), "__cuda_array_interface__")


def test_a_variable_is_shared_for_writing() -> None:
    state = sc.variable([1.0, 2.0])
    array = np.from_dlpack(state)
    array[0] = 5
    assert state.tolist() == [5, 2]
    state.assign([3, 4])
    assert array.tolist() == [3, 4]


def test_pytorch_both_ways() -> None:
    torch = pytest.importorskip("torch")
    for name in ("bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"):
        theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).T
        tensor = sc.from_dlpack(theirs)
        assert tensor.shape == (3, 2)
        assert tensor.stride == (1, 3)
        back = torch.from_dlpack(tensor)
        assert back.dtype == theirs.dtype
        assert back.data_ptr() == theirs.data_ptr()
        assert torch.equal(back, theirs)
        assert torch.equal(torch.utils.dlpack.from_dlpack(tensor), theirs)
        computed = torch.from_dlpack(tensor.copy())
        assert torch.equal(computed, theirs)
    assert sc.tensor(torch.ones(2, dtype=torch.bfloat16)).dtype is sc.bf16
    odd = torch.ones(1, 77).T
    assert sc.from_dlpack(odd).shape == (77, 1)


def test_a_flipped_transpose_keeps_its_strides() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    exported = sc.asarray(np.flip(x, 1).T)
    block = taken("test", exported.__dlpack__(max_version=(1, 0)))
    assert block.strides == (-1, 4)
    assert block.ptr == x.ctypes.data + 12
    lazy = sc.flip(sc.asarray(x), 1).T
    np.testing.assert_array_equal(np.from_dlpack(lazy), np.flip(x, 1).T)


def test_bfloat16_and_bool_carry_their_codes() -> None:
    block = taken("test", sc.tensor(np.ones(3, BF16)).__dlpack__())
    assert block.dtype == BF16
    block = taken("test", sc.tensor([True]).__dlpack__(max_version=(1, 5)))
    assert block.dtype == np.bool_
    assert block.is_read_only


# Lifetimes


def test_dropped_and_taken_exports_leave_nothing() -> None:
    tensor = sc.tensor(np.ones(64, BF16))
    data = tensor.data

    def exchange(given: sc.Tensor, rounds: int) -> None:
        for number in range(rounds):
            given.__dlpack__(max_version=(1, 0) if number % 2 else None)
        for _ in range(rounds):
            sc.from_dlpack(given)

    exchange(tensor, 200)
    gc.collect()
    tracemalloc.start()
    exchange(tensor, 10_000)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 64 << 10
    del tensor
    gc.collect()
    assert data.tolist()[:1] == [1]


def test_an_exported_output_is_not_written_again() -> None:
    x = sc.input((1000,), name="x")
    executable = sc.compile(x + 1, "default")
    kept = [np.from_dlpack(executable.run(x=np.full(1000, k, np.float32))) for k in range(6)]
    assert [array[0] for array in kept] == [1, 2, 3, 4, 5, 6]
    assert all((array == array[0]).all() for array in kept)
