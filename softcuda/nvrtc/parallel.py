"""Independent work in several threads, every outcome kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["run_all"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> list[Result | Exception]:
    """Return what a function gives, or the error it raises, for every item in order.

    Args:
        function: called with an item, in one of the threads or in the caller's.
        items: independent of each other.
        threads: at most that many work at once, the caller's among them.

    Raises:
        BaseException: KeyboardInterrupt and its like in any thread, once all have stopped; what
            is running is finished, what is not begun is left.
    """
    outcomes: list[Result | Exception | None] = [None] * len(items)
    waiting = iter(range(len(items)))
    lock = threading.Lock()
    stops: list[BaseException] = []

    def work() -> None:
        while not stops:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                outcomes[number] = function(items[number])
            except BaseException as error:  # the caller gets it, whatever it is
                if not isinstance(error, Exception):
                    stops.append(error)
                    return
                outcomes[number] = error

    helpers = [threading.Thread(target=work) for _ in range(min(threads, len(items)) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if stops:
        raise stops[0]
    return [outcome for outcome in outcomes if outcome is not None]
