"""The programs of softcuda: which one a process is, and how Ctrl-C ends it at any moment.

`import softcuda` takes a while, and the module of a program is read behind it. Therefore
`softcuda/__init__.py` reads this module before all others: in a process that is one of the programs
Ctrl-C ends it by a sentence from here on, until the program handles signals itself. No exception is
raised, since what it meets in the middle of an import may turn it into another, or swallow it. The
sooner this module is read the better: it imports little, not even typing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

__all__ = ["INTERRUPTED", "SCRIPTS", "interrupted_text", "interruptible", "program_of"]

INTERRUPTED = 130  # 128 + SIGINT, as shells report it

# Name of a program, which is its module in softcuda.tools too -> what else its interruption means.
_PROGRAMS = {
    "conformance": "",
    "inspect_kernels": "",
    "soft_init": "; no profile was written",
}
SCRIPTS = ("inspect_kernels", "soft_init")  # those that are installed under their names


def program_of(started: str, command: Sequence[str]) -> str:
    """Return the program of softcuda that a process is, "" for any other.

    Args:
        started: what was started, as `sys.argv[0]` has it; "-m" while Python looks for a module.
        command: the whole command line, as `sys.orig_argv` has it.

    Example:
        >>> program_of("/usr/bin/soft_init", ["python", "/usr/bin/soft_init", "--help"])
        'soft_init'
        >>> program_of("-m", ["python", "-m", "softcuda.tools.conformance"])
        'conformance'
    """
    if started == "-m":
        words = {word.removeprefix("-m") for word in command}
        return next((name for name in _PROGRAMS if f"softcuda.tools.{name}" in words), "")
    name = os.path.basename(started).removesuffix(".exe").removesuffix("-script")
    return name if name in SCRIPTS else ""


def interrupted_text(program: str, how: str = "interrupted") -> str:
    """Return the sentence that a program of softcuda ends with when a signal ended it.

    Args:
        program: its name.
        how: by what, such as "interrupted by SIGTERM".

    Example:
        >>> interrupted_text("soft_init")
        'soft_init: interrupted; no profile was written'
    """
    return f"{program}: {how}{_PROGRAMS[program]}"


def interruptible(program: str, work: Callable[[], int]) -> int:
    """Return the exit status that a program's work gives; INTERRUPTED, and a sentence, on Ctrl-C.

    Args:
        program: its name.
        work: returns the exit status; Ctrl-C raises KeyboardInterrupt in it.
    """
    is_process = _is_main_thread() and signal.getsignal(signal.SIGINT) is _end
    if is_process:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work()
    except KeyboardInterrupt:
        print(interrupted_text(program), file=sys.stderr)
        return INTERRUPTED
    finally:
        if is_process:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to be put in order


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


_PROGRAM = program_of(sys.argv[0] if getattr(sys, "argv", None) else "", sys.orig_argv)


def _end(number: int, frame: FrameType | None) -> None:
    """End this process, which has done nothing yet."""
    with contextlib.suppress(OSError):
        os.write(2, f"{interrupted_text(_PROGRAM)}\n".encode())
    os._exit(INTERRUPTED)


if _PROGRAM and _is_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
