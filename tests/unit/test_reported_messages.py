"""What a first user met in messages and tables: what is said, and that the advice works."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_nvrtc import make_unit, name_cache, new_cache

import softcuda as sc
from softcuda.backends import backends
from softcuda.compiler.settings import Settings
from softcuda.driver import loading
from softcuda.driver.device import Device, available
from softcuda.driver.library import Driver
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    CompileError,
    ConfigError,
    NoDeviceError,
    SoftCudaWarning,
)
from softcuda.executor import devices
from softcuda.executor.structure import flatten
from softcuda.graph.trace import trace
from softcuda.nvrtc.unit import as_arch
from softcuda.profile.grammar import parse
from softcuda.profile.resolve import default_profile, resolve
from softcuda.profile.vocabulary import known_backends, work_ops
from softcuda.running import compile_traced
from softcuda.target import ARCHITECTURES, Target, arch_of, named_arch
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.display import medians_table

ROOT = Path(__file__).parents[2]
LONGEST = 420  # characters of a message without a device
MANY = 40  # sizes of each of two dtypes


class Interface:
    """An array in CUDA memory of a library without DLPack."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a driver, whatever this one has."""
    monkeypatch.setattr(loading, "NAME", "libcuda-absent.so.1")
    driver = Driver(loading.load_library)
    monkeypatch.setattr(devices, "available", partial(available, driver))
    monkeypatch.setattr(devices, "Device", partial(Device, driver=driver))
    monkeypatch.setattr(devices, "_SESSIONS", devices._Sessions())


def compiled(outputs: Any, profile: Any, target: Target) -> Any:
    """Return an executable whose kernels are not compiled."""
    nodes, skeleton = flatten(outputs)
    settings = Settings(profile, default_profile(), target)
    return compile_traced(trace(nodes), skeleton, settings, sc.Tensor)


def large() -> Any:
    """Return a sum that the profile of a GPU gives to the GPU."""
    return sc.tensor(np.zeros(1 << 20)) + 1


def run_for_another() -> Any:
    shipped = resolve("nvidia-h200")
    return compiled(large(), shipped, shipped.device.target).run()


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda: sc.tensor([1.0]).to("cuda").numpy(), "^to: no CUDA device .*leave the tensor on"),
        (lambda: sc.variable([1.0], device="cuda"), "^variable: no CUDA device .*leave the array"),
        (lambda: sc.from_dlpack(np.ones(2), device="cuda"), "^from_dlpack: no CUDA device"),
        (lambda: sc.tensor(Interface()), "^tensor: no CUDA device .*copy the array to the host"),
        (lambda: sc.asarray(Interface()), "^asarray: no CUDA device"),
        (run_for_another, r"^run: the graph was compiled for sm_90a: .*save\(FILE\).*'default'"),
        (lambda: sc.compile(large(), "nvidia-h200"), r"^add: nvidia-h200\.soft:\d+ names .*sm_90a"),
    ],
)
@pytest.mark.usefixtures("no_device")
def test_what_to_do_without_a_device(work: Callable[[], Any], told: str) -> None:
    with pytest.raises(NoDeviceError, match=told) as caught:
        work()
    text = str(caught.value)
    assert len(text) < LONGEST and text.count("SOFTCUDA_CONFIG") == 0
    assert "/usr/lib" not in text and re.search(r"in \d+ folders", text)


@pytest.mark.usefixtures("no_device")
def test_a_profile_of_the_environment_is_left_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCUDA_CONFIG", "nvidia-h200")
    with pytest.raises(NoDeviceError, match=r"run soft_init, or set SOFTCUDA_CONFIG=default$"):
        sc.compile(large())


def test_shipped_profiles_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("nvidia-h200").name == "nvidia-h200.soft"
    assert {row.backend_id for row in resolve("nvidia-h200").rows} <= set(known_backends(None))
    for path in ("configs/nvidia-h200.soft", "nvidia-h200.soft", "nvidia-h100", "a\0b"):
        with pytest.raises(ConfigError) as caught:
            resolve(path)
        assert "\0" in path or "goes by its name: 'nvidia-h200'" in str(caught.value)


class Lazy:
    """A tensor of PyTorch with the negative bit: its memory holds the negatives of its values."""

    def __init__(self, held: np.ndarray[Any, Any], bit: str = "neg") -> None:
        self.held = held
        self.bit = bit

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()

    def is_neg(self) -> bool:
        return self.bit == "neg"

    def is_conj(self) -> bool:
        return self.bit == "conj"

    def resolve_neg(self) -> Lazy:
        return Lazy(-self.held, "")

    def resolve_conj(self) -> Lazy:
        return Lazy(self.held.conj(), "")


def test_lazy_negatives_keep_their_sign_where_they_are_copied() -> None:
    lazy = Lazy(np.array([1.0, 2.0]))
    for made in (sc.tensor(lazy), sc.variable(lazy), sc.zeros(2, sc.f64) + lazy):
        assert made.tolist() == [-1, -2]
    assert sc.tensor(Lazy(np.array([1 + 2j]), "conj")).tolist() == [1 - 2j]


@pytest.mark.parametrize("bit", ["neg", "conj"])
@pytest.mark.parametrize(
    "take", [sc.asarray, sc.from_dlpack, lambda x: sc.compile(sc.input((1,), name="x")).run(x=x)]
)
def test_lazy_values_are_refused_where_memory_is_shared(
    take: Callable[[Any], Any], bit: str
) -> None:
    with pytest.raises((ArgumentTypeError, sc.errors.FeedError), match=f"use .resolve_{bit}"):
        take(Lazy(np.ones(1, np.float32), bit))


def test_a_tensor_without_values_is_refused_in_words() -> None:
    class Meta(Lazy):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("Unknown device type meta for Dlpack")

    for take in (sc.tensor, sc.asarray, sc.from_dlpack):
        with pytest.raises(ArgumentTypeError, match="does not say by DLPack where it lives: Unkn"):
            take(Meta(np.ones(1), ""))


@pytest.mark.parametrize("copy", ["x", 2, ()])
def test_copy_is_true_false_or_none(copy: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"from_dlpack: copy is .*True, False and None"):
        sc.from_dlpack(np.ones(1), copy=copy)


# ---- architectures ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sm_91", "sm_900", "sm_999", "sm_80a", "sm_90f", "sm_60", "90"])
def test_architectures_that_are_none(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"allowed are sm_75, sm_80, .*sm_121") as caught:
        named_arch(name)
    assert repr(name) in str(caught.value)
    with pytest.raises(ArgumentError):
        sc.compile(sc.tensor([1.0]) + 1, "nvidia-h200", target=name)


def test_architectures_that_are_some() -> None:
    for number in ARCHITECTURES:
        own = arch_of(number // 10, number % 10)
        assert named_arch(own) == own and named_arch(f"sm_{number}") == f"sm_{number}"
    assert named_arch("sm_130a", lambda: (120, 130)) == "sm_130a"
    assert named_arch("sm_103f") == "sm_103f"
    with pytest.raises(CompileError, match=r"sm_89 has no variant a.*name it sm_89"):
        as_arch("sm_89a")


def test_warnings_of_the_cache_name_the_line_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where kernels are compiled in other threads; NVRTC is named without its size."""
    name_cache(monkeypatch, tmp_path / "cache")
    cache, _ = new_cache()
    units = [make_unit(tmp_path / str(k), "plain") for k in range(3)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache.get_all(units, "sm_101", threads=2)
        cache.get(units[0], "sm_130")
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)] * len(caught)
    newest, older = (str(warning.message) for warning in reversed(caught))
    assert newest.startswith("sm_130 is newer than NVRTC 13.0 knows: ")
    assert older.startswith("NVRTC 13.0 has no sm_101, it has sm_75, ")
    assert {warning.category for warning in caught} == {SoftCudaWarning}


# ---- tables -------------------------------------------------------------------------------------

COSTS = """[meta]
soft_version = 0.1.0
[ops]
add | any = cpu_fused
[costs]
add[f32] | size = 1 = cpu 1.0
"""


def test_a_profile_of_a_cpu_says_nothing_of_cuda() -> None:
    made = parse(COSTS.encode(), "cpu.soft", work_ops(), known_backends(None))
    printed = str(compiled(sc.input((1,)) + 1, made, Target("cpu")))
    assert "all-cpu: 1.0 us" in printed and "all-cuda" not in printed


def test_an_empty_arena_is_of_the_device_that_computes() -> None:
    shipped = resolve("nvidia-h200")
    x = sc.input((1 << 20,), device="cuda")
    printed = str(compiled(x + 1, shipped, shipped.device.target))
    assert "cuda arena 0 B" in printed and "cpu arena" not in printed
    assert "nothing of this runs" not in printed


def test_a_target_without_cuda_rows_is_pointed_out() -> None:
    printed = str(sc.compile(sc.input((3,)) + 1, "default", target="sm_90a"))
    assert "nothing of this runs on sm_90a: DEFAULT.soft decides on CPU backends" in printed


def test_devices_go_by_the_names_that_are_shown() -> None:
    x = sc.tensor([1.0])
    assert x.to(str(x.device)).tolist() == x.to(x.device).tolist() == [1]
    assert sc.input((1,), device="cuda:0").device == sc.input((1,), device="cuda").device
    with pytest.raises(ArgumentError, match="to: there is no device 'cuda:1'; allowed are 'cpu'"):
        x.to("cuda:1")
    for name in ("cuda", "cpu"):
        with pytest.raises(AttributeError, match=r"use tensor\.to\('cuda'\)"):
            getattr(x, name)


def test_a_long_table_of_medians_is_told_by_its_largest_sizes() -> None:
    ledger = Ledger()
    sizes = [1 << k for k in range(MANY)]
    for size in sizes:
        for dtype in ("f32", "f64"):
            ledger.note(Cell("add", dtype, size), {"cpu_fused": Outcome(State.MEASURED, 2.0)})
    scopes = scopes_of({"add": ("f32", "f64")})
    whole = medians_table(ledger, scopes, ("cpu_fused",)).splitlines()
    short = medians_table(ledger, scopes, ("cpu_fused",), is_whole=False).splitlines()
    assert len(whole) == 2 + 2 * MANY and len(short) == 5
    assert [line.split()[:2] for line in short[2:4]] == [
        [f"add[{dtype}]", str(sizes[-1])] for dtype in ("f32", "f64")
    ]
    assert short[-1].endswith(f"--medians shows all {2 * MANY} rows")


# ---- pages --------------------------------------------------------------------------------------


def test_pages_name_every_backend_and_every_kernel_file() -> None:
    shipped = [name for name in backends() if name.startswith("cuda_")]
    for page in (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "kernels/README.md",
        "configs/nvidia-h200.soft",
    ):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert not [name for name in shipped if name not in text], page
    listed = re.findall(r"`([\w*]+\.cu)`", (ROOT / "kernels" / "README.md").read_text("utf-8"))
    files = [path.name for path in (ROOT / "kernels").glob("*.cu")]
    assert not [name for name in files if not any(fnmatch(name, each) for each in listed)]


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:softcuda|tests|kernels|configs|docs)/[\w./*]+)`", text):
        assert list(ROOT.glob(path.rstrip("/"))), path
