"""Crossings at the ends: where a device is ahead at once, and where the CPU was too slow to try."""

from __future__ import annotations

from pathlib import Path

from softcuda.profile.model import Crossing
from softcuda.profile.resolve import read
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.refinements import refinements
from softcuda.tools.samples import read_samples
from softcuda.tools.thresholds import crossing_of, modelled_at, races, thresholds

CONFIGS = Path(__file__).parents[2] / "configs"


def outcome(time_us: float, device: str, host_us: float = 0.0) -> Outcome:
    host = (host_us,) * 3 if host_us else ()
    return Outcome(State.MEASURED, time_us, "", device, (time_us,) * 3, host)


def products(last_cpu: float | None, last_host: float) -> Ledger:
    """Return matmul[f64] up to 512 on both devices, and at 4096."""
    made = Ledger()
    for size, cpu, host in ((256, 112.0, 240.0), (448, 439.0, 595.0), (512, 694.0, 819.0)):
        found = {"cpu_blas": outcome(cpu, "cpu"), "cuda_contract": outcome(20.0, "cuda", host)}
        made.note(Cell("matmul", "f64", size), found)
    slow = Outcome(State.SKIPPED, reason="a call would take about 0.3 s")
    found = {
        "cpu_blas": slow if last_cpu is None else outcome(last_cpu, "cpu"),
        "cuda_contract": outcome(6430.0, "cuda", last_host),
    }
    made.note(Cell("matmul", "f64", 4096), found)
    return made


SCOPES = scopes_of({"matmul": ("f64",)}, device="cuda")


def test_a_cpu_that_was_too_slow_to_try_is_behind() -> None:
    (line,) = thresholds(products(None, 21050.0), SCOPES)
    assert line.host is not None and line.host.found
    assert 512 < line.host.size <= 4096
    found = races(products(None, 21050.0), "matmul", "f64", on_host=True)
    assert [race.modelled for race in found] == [False, False, False, True]
    assert 250e3 < found[-1].cpu[1] < 500e3  # 0.69 ms at 512, at the pace of the last two sizes
    assert modelled_at(found)
    assert not modelled_at(races(products(118e3, 21050.0), "matmul", "f64", on_host=True))


def test_a_gpu_that_is_behind_a_modelled_cpu_is_behind_where_both_were_measured() -> None:
    (line,) = thresholds(products(None, 9e6), SCOPES)
    assert line.host == Crossing(512, None, False)


def test_sizes_are_looked_at_between_a_cpu_that_leads_and_one_that_is_too_slow() -> None:
    ledger = products(None, 21050.0)
    passed = {Cell("matmul", "f64", size) for size, _ in ledger.at("matmul", "f64")}
    sizes = {size for _, size in (next(iter(refinements(SCOPES, ledger, passed))),)}
    assert sizes <= {1024, 2048}


def test_a_crossing_is_no_size_at_which_the_gpu_is_behind() -> None:
    ledger = Ledger()
    for size, cpu, host in ((1, 9.59, 30.6), (2, 165.0, 41.7), (4, 124.0, 35.0)):
        found = {"cpu_blas": outcome(cpu, "cpu"), "cuda_contract": outcome(8.0, "cuda", host)}
        ledger.note(Cell("matmul", "bf16", size), found)
    (line,) = thresholds(ledger, scopes_of({"matmul": ("bf16",)}, device="cuda"))
    assert line.host is not None and line.host.size == 2
    assert line.resident == Crossing(1, 0)  # ahead everywhere


def test_the_shipped_crossings_hold_at_every_size_of_their_samples() -> None:
    ledger, _ = read_samples(CONFIGS / "nvidia-h200.csv")
    for line in read(CONFIGS / "nvidia-h200.soft").thresholds:
        for on_host, crossing in ((True, line.host), (False, line.resident)):
            if crossing is None or not crossing.found:
                continue
            found = races(ledger, line.op, line.dtype or "", on_host=on_host)
            again = crossing_of(found, 3 if line.op == "matmul" else 1)
            if again is None or abs(again.size - crossing.size) > 1:
                continue  # a disturbed time does not count there
            for race in found:
                assert (race.size < crossing.size) or race.cuda[1] < race.cpu[1]
    (product,) = (
        line
        for line in read(CONFIGS / "nvidia-h200.soft").thresholds
        if (line.op, line.dtype) == ("matmul", "f64")
    )
    assert product.host is not None and product.host.found
    assert product.resident is not None and product.host.size > product.resident.size
