"""The conformance suite: every case on every backend that can run here, compared with f64.

`python -m softcuda.tools.conformance` runs all of it and ends with 1 where a check fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from softcuda.console import interruptible
from softcuda.errors import ArgumentError, NoDeviceError, SoftCudaError
from softcuda.evaluating import clear_cache
from softcuda.named.engine import forget_plans
from softcuda.tools.conformance_bench import Bench, Check, benches
from softcuda.tools.conformance_complex import complex_checks
from softcuda.tools.conformance_faults import fault_checks
from softcuda.tools.conformance_kinds import kind_checks
from softcuda.tools.conformance_mixed import mixed_checks
from softcuda.tools.conformance_operations import operation_checks
from softcuda.tools.conformance_reports import report_checks
from softcuda.tools.conformance_values import expression_checks, random_checks
from softcuda.tools.standard_output import until_pipe_ends

__all__ = ["all_checks", "failures", "main"]

RANDOM = 200  # random expressions, and as many random operations


def all_checks(random: int = RANDOM) -> Iterator[Check]:
    """Yield every check.

    Args:
        random: how many random expressions and operations.
    """
    yield from expression_checks()
    yield from operation_checks()
    yield from fault_checks()
    yield from report_checks()
    yield from kind_checks(random // 4)
    yield from complex_checks(random // 8)
    yield from random_checks(random)
    yield from mixed_checks(random)


def failures(bench: Bench, checks: Sequence[Check]) -> Iterator[str]:
    """Yield a line for each check that does not hold on a bench."""
    for check in checks:
        try:
            wrong = check.run(bench)
        except (SoftCudaError, AssertionError) as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            yield f"{bench.backend_id}: {check.name}: {wrong}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and print what fails; return 1 where something does.

    2: a backend that is unknown or cannot run here, or another argument that is not allowed;
    130: interrupted; 141: nobody reads standard output any more.

    Args:
        arguments: of the command line; None for those of the process.
    """
    return interruptible("conformance", lambda: until_pipe_ends(lambda: _run(arguments)))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m softcuda.tools.conformance", description=__doc__
    )
    parser.add_argument("backends", nargs="*", help="backend_ids; all that can run here")
    parser.add_argument("--random", type=int, default=RANDOM, help="random cases of each kind")
    asked = parser.parse_args(arguments)
    if asked.random < 0:
        parser.error(f"--random is {asked.random}; allowed are 0 and more")
    try:
        found_benches = list(benches(asked.backends))
    except (ArgumentError, NoDeviceError) as error:
        parser.error(str(error))
    checks = list(all_checks(asked.random))
    count = 0
    for bench in found_benches:
        start = time.perf_counter()
        found = list(failures(bench, checks))
        for line in found:
            print(line)
        seconds = time.perf_counter() - start
        print(
            f"{bench.backend_id}: {len(checks) - len(found)} of {len(checks)} checks hold, "
            f"{seconds:.1f} s"
        )
        count += len(found)
        forget_plans()
        clear_cache()
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
