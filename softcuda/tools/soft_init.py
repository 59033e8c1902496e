"""The console script soft_init: measures this machine and writes its profile, CONFIG.soft."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from softcuda.console import interrupted_text
from softcuda.errors import ArgumentError, ConfigError, SoftCudaError
from softcuda.tools.init_answers import answer
from softcuda.tools.init_options import init_options
from softcuda.tools.init_output import Output
from softcuda.tools.init_run import run_init
from softcuda.tools.init_stop import Stop, stoppable
from softcuda.tools.report import report

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the registered backends and write a profile; return the exit status.

    0: written, or the profile that is there fits this machine. 1: a profile that is there does
    not fit, samples of an interrupted run would be lost, the file cannot be written, or --check
    found a row that no longer holds. 2: an option is not allowed. 128 + the signal, such as 130:
    interrupted; no profile was written, and the samples are kept for --resume.

    Args:
        argv: the options; None for those of the command line.
    """
    begin = time.monotonic()
    with stoppable(is_last=argv is None) as stop:
        try:
            return _run(argv, begin, stop)
        except KeyboardInterrupt:
            print(interrupted_text("soft_init", stop.text), file=sys.stderr)
            return stop.status
        finally:
            Output().flush()


def _run(argv: Sequence[str] | None, begin: float, stop: Stop) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words[:1] == ["report"]:
            return report(words[1:])
        options = init_options(words)
    except ConfigError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 1
    except ArgumentError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 2
    except SystemExit as end:  # argparse has said why, or shown the help
        return int(end.code or 0)
    output = Output(options.quiet)
    try:
        if options.check or options.diff is not None or options.explain is not None:
            return answer(options, output)
        run_init(options, begin, output, stop)
    except SoftCudaError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
