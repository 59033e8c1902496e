"""Every kernel of every backend for every architecture, and a generated chain of every dtype.

A kernel compiles to one entry point without spills beyond what its row states, fits a
multiprocessor, and takes its time: of the 5 minutes of two processors that the whole matrix has on
the machine it is meant for. Times are those of a processor, beside that of one kernel in the same
run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.dtype import REAL_DTYPES, f32
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.knobs import thread_count
from softcuda.nvrtc.compiler import compile_unit
from softcuda.nvrtc.parallel import run_all
from softcuda.nvrtc.resources import code_names, entry_names
from softcuda.nvrtc.unit import Cubin, Image
from softcuda.profile.resolve import default_profile, read
from softcuda.target import Target
from softcuda.tools.inspect_occupancy import occupancy
from softcuda.tools.inspect_rows import cuda_backends

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
FOLDER = str(Path(__file__).parent / "kernels")
YARDSTICK = KernelSpec("yardstick", "f32", "yardstick.cu", "yardstick", (f32,), 256, folder=FOLDER)
# On the two-core machine that the bounds are meant for, at its usual speed: where NumPy multiplies
# two small matrices in 0.7 us. The same machine took 0.25 s when that took 1.1 to 2.3 us.
YARDSTICK_SECONDS = 0.15
UNIT_SECONDS = 10.0
MATRIX_SECONDS = 2 * 300.0
MAX_REGISTERS = 255
STATIC_BYTES = 48 << 10  # of shared memory, on every architecture
ON_CUDA = Path(__file__).parents[2] / "benchmarks" / "cuda.soft"

FAMILIES = {
    f"{backend_id}.{family}": tuple(spec for spec in specs if spec.family == family)
    for backend_id, specs in cuda_backends().items()
    for family in dict.fromkeys(spec.family for spec in specs)
}


class Built(NamedTuple):
    """A compiled kernel, and the processor time that took [seconds]."""

    spec: KernelSpec
    cubin: Cubin
    seconds: float


class Spent(NamedTuple):
    """What the tests of this module spent compiling [seconds of a processor].

    Attributes:
        families: name and architecture -> all kernels of a family.
        yardsticks: one kernel, again and again.
    """

    families: dict[str, float]
    yardsticks: list[float]

    @property
    def slowness(self) -> float:
        """How many times longer than usual the machine takes; at least 1."""
        return max(1.0, median(self.yardsticks) / YARDSTICK_SECONDS)


@pytest.fixture(scope="module")
def spent() -> Spent:
    """Return what nothing was spent on yet."""
    return Spent({}, [])


def build(specs: Sequence[KernelSpec], arch: str) -> list[Built]:
    """Compile kernels in parallel; the first failure is raised."""

    def one(spec: KernelSpec) -> Built:
        begin = time.thread_time()
        return Built(spec, compile_unit(spec.unit, arch), time.thread_time() - begin)

    built = []
    for outcome in run_all(one, specs, thread_count()):
        if isinstance(outcome, Exception):
            raise outcome
        built.append(outcome)
    return built


def faults(built: Built, arch: str, slowness: float) -> list[str]:
    """Return what is wrong with a kernel, on a machine that takes so many times longer."""
    spec, made = built.spec, built.cubin
    found, said = made.resources, []
    if (made.kind, made.arch) != (Image.CUBIN, arch) or found is None:
        return [f"it is {made.kind.value} of {made.arch}"]
    if not entry_names(made.log) == code_names(made.image) == (made.name,):
        said.append(f"its entry points are {entry_names(made.log)}, {code_names(made.image)}")
    if found.spill_store_bytes > spec.spill_bytes:
        said.append(
            f"it spills {found.spill_store_bytes} bytes a thread; its row allows {spec.spill_bytes}"
        )
    if found.shared_bytes > STATIC_BYTES:
        said.append(f"it has {found.shared_bytes} bytes of static shared memory")
    if "warning" in made.log:
        said.append(made.log)
    fits = occupancy(arch, found, spec.threads, spec.shared_bytes)
    if found.registers > MAX_REGISTERS or fits is None or fits.blocks < 1:
        said.append(f"a block of {spec.threads} threads does not fit: {found}, {fits}")
    if built.seconds > UNIT_SECONDS * slowness:
        said.append(f"it took {built.seconds:.1f} s")
    return said


def check(specs: Sequence[KernelSpec], arch: str, name: str, spent: Spent) -> None:
    """Compile kernels and check all of them; note the processor time under a name."""
    meant = [spec for spec in specs if not spec.refusal(arch)]
    beside = [YARDSTICK] if arch == ARCHITECTURES[0] or not spent.yardsticks else []
    built = build([*meant, *beside], arch)
    spent.yardsticks.extend(one.seconds for one in built[len(meant) :])
    built = built[: len(meant)]
    spent.families[f"{name} {arch}"] = sum(one.seconds for one in built)
    wrong = {str(x.spec): said for x in built if (said := faults(x, arch, spent.slowness))}
    assert not wrong, f"for {arch}"


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row(family: str, arch: str, spent: Spent) -> None:
    check(FAMILIES[family], arch, family, spent)


def test_no_row_is_for_no_architecture() -> None:
    for specs in FAMILIES.values():
        for spec in specs:
            assert any(not spec.refusal(arch) for arch in ARCHITECTURES), spec


def generated(outputs: list[sc.Tensor], arch: str) -> list[KernelSpec]:
    """Return the kernels of a graph on the CUDA backends, those with generated headers."""
    target = Target("cuda", arch, 132, 227, 60)
    settings = Settings(read(ON_CUDA), default_profile(), target)
    program = compile_graph(trace(outputs).graph, settings)
    specs = [launch.spec for step in program.steps for launch in step.launches]
    assert specs
    return list(dict.fromkeys(spec for spec in specs if spec.headers))


def chain(dtype: sc.DType) -> sc.Tensor:
    """Return a chain of a dtype: a dense, a transposed, a broadcast operand and a number."""
    x, y = sc.input((64, 48), dtype), sc.permute_dims(sc.input((48, 64), dtype), (1, 0))
    bias = sc.input((48,), dtype)
    if dtype is sc.bool_:
        return sc.where(sc.logical_and(x, y), bias, sc.logical_not(x))
    if dtype.is_float:
        return sc.where(x > y, sc.tanh(x * y + bias), sc.exp(x - 1.0) / y)
    return sc.where(x > y, x * y + bias, (x - 1) // y)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        (name, arch)
        for number, name in enumerate(REAL_DTYPES)
        for arch in dict.fromkeys(("sm_75", "sm_90a", ARCHITECTURES[number]))
    ],
)
def test_a_generated_chain(name: str, arch: str, spent: Spent) -> None:
    """Each dtype for the architectures before and after sm_80, and one of the others in turn."""
    specs = generated([chain(REAL_DTYPES[name])], arch)
    assert any(spec.family.startswith("elementwise") for spec in specs)
    check(specs, arch, f"chain {name}", spent)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("name", ["f16", "f32"])
def test_chains_around_reductions_and_products(name: str, arch: str, spent: Spent) -> None:
    x, w = sc.input((300, 64), REAL_DTYPES[name]), sc.input((64, 500), REAL_DTYPES[name])
    product = sc.relu(x @ w + 1.0) * sc.input((500,), REAL_DTYPES[name])
    rows = sc.sqrt(sc.sum(sc.square(x - 1.0), axis=1) + 1.0)
    columns = sc.exp(sc.max(x * 2.0, axis=0))
    long = sc.input((1024, 4096), REAL_DTYPES[name])
    heavy = [sc.sum(sc.exp(long), axis=1), sc.max(sc.tan(long), axis=0)]
    specs = generated([product, rows, columns, *heavy], arch)
    assert len(specs) >= 5
    check(specs, arch, f"around {name}", spent)


def test_the_matrix_takes_its_time(spent: Spent) -> None:
    """Of what was run before it: all, unless tests were chosen."""
    families = spent.families
    longest = sorted(families, key=lambda name: -families[name])[:5]
    told = ", ".join(f"{name} {families[name]:.0f} s" for name in longest)
    assert sum(families.values()) < MATRIX_SECONDS * spent.slowness, f"{spent}; most: {told}"
