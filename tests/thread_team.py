"""Threads that do the same work at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

THREADS = 6


def in_threads(work: Callable[[int], None]) -> None:
    """Call `work(number)` in threads that start together; the first error is raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def guarded(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
