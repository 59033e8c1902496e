"""The threads of BLAS: off while asked for, back afterwards, in a forked child too."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from softcuda.backends.host.blas import BLAS, Blas, _Control


class Library:
    """A library that knows how many threads it has."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def control(self) -> _Control:
        return _Control(lambda: self.threads, self.change)

    def change(self, threads: int) -> None:
        self.threads = threads


def blas_of(library: Library | None, monkeypatch: pytest.MonkeyPatch) -> Blas:
    found = None if library is None else library.control()
    monkeypatch.setattr("softcuda.backends.host.blas._found", lambda: found)
    return Blas()


def test_the_library_of_numpy_is_found() -> None:
    with BLAS.alone() as is_alone:
        product = np.ones((300, 300), np.float32) @ np.ones((300, 300), np.float32)
    assert is_alone
    assert (product == 300).all()


def test_threads_come_back_when_the_last_user_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(7)
    blas = blas_of(library, monkeypatch)
    with blas.alone() as outer:
        with blas.alone() as inner:
            assert (outer, inner, library.threads) == (True, True, 1)
        assert library.threads == 1
    assert library.threads == 7


def test_threads_come_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(3)
    blas = blas_of(library, monkeypatch)
    with pytest.raises(KeyboardInterrupt), blas.alone():
        raise KeyboardInterrupt
    assert library.threads == 3


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with blas_of(None, monkeypatch).alone() as is_alone:
        assert not is_alone


def test_many_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(4)
    blas = blas_of(library, monkeypatch)
    seen: list[int] = []

    def work() -> None:
        for _ in range(200):
            with blas.alone():
                seen.append(library.threads)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    assert library.threads == 4


def test_a_child_has_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(5)
    blas = blas_of(library, monkeypatch)
    with blas.alone():
        blas.after_fork()
        assert library.threads == 5
        with blas.alone():
            assert library.threads == 1
        assert library.threads == 5
