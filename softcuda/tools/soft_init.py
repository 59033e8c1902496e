"""The console script soft_init: measures this machine and writes its profile, CONFIG.soft."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from softcuda.errors import ArgumentError, SoftCudaError

try:
    from softcuda.tools.init_options import init_options
    from softcuda.tools.init_output import Output
    from softcuda.tools.init_run import run_init
    from softcuda.tools.init_stop import Stop, stoppable
except KeyboardInterrupt:
    sys.exit(130)

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the registered CPU backends and write a profile; return the exit status.

    0: written, or the profile that is there fits this machine. 1: a profile that is there does
    not fit, samples of an interrupted run would be lost, or the file cannot be written. 2: an
    option is not allowed. 128 + the signal, such as 130: interrupted; no profile was written, and
    the samples are kept for --resume.

    Args:
        argv: the options; None for those of the command line.
    """
    begin = time.monotonic()
    with stoppable(is_last=argv is None) as stop:
        try:
            return _run(argv, begin, stop)
        except KeyboardInterrupt:
            print(f"soft_init: {stop.text}; no profile was written", file=sys.stderr)
            return stop.status
        finally:
            Output().flush()


def _run(argv: Sequence[str] | None, begin: float, stop: Stop) -> int:
    try:
        options = init_options(argv)
    except ArgumentError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 2
    except SystemExit as end:  # argparse has said why, or shown the help
        return int(end.code or 0)
    try:
        run_init(options, begin + options.budget_s, Output(options.quiet), stop)
    except SoftCudaError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
