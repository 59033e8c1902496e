"""Ownership of what the driver hands out: one pattern for memory, streams, modules and graphs.

An `Owner` is what users hold and close. Behind it a `Resource` holds the handle; whatever needs
the handle alive (a driver graph its functions, a function its module, all of them the primary
context) holds the resource too. The handle is destroyed when the last holder is gone, so owners
may be closed in any order.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from softcuda.driver.context import Context, PrimaryContext, warn_unreleased
from softcuda.driver.library import Driver
from softcuda.errors import ClosedError, SoftCudaError
from softcuda.interrupts import Uninterrupted

__all__ = ["Owner", "Resource"]

Release = Callable[[Driver, int], object]


class Resource:
    """A handle of the driver, destroyed when its last holder is gone.

    A failure to destroy it is a warning; nothing is said, or done, when the device is lost, when
    the process was forked, or when the interpreter ends.

    Attributes:
        handle: the handle, or an address.
        primary: the context it lives in.
        needs: what must live as long as the handle, by a key that the owner chooses.
    """

    __slots__ = ("__weakref__", "handle", "needs", "primary")

    def __init__(
        self, primary: PrimaryContext, handle: int, release: Release, what: str, *needs: object
    ) -> None:
        """Take over a handle.

        Args:
            primary: the context it lives in.
            handle: the handle.
            release: destroys it.
            what: names it in a warning.
            needs: what must live as long as the handle.
        """
        self.handle = handle
        self.primary = primary
        self.needs: dict[object, object] = {None: needs}
        weakref.finalize(self, _destroy, primary, handle, release, what, self.needs).atexit = False


def _destroy(
    primary: PrimaryContext, handle: int, release: Release, what: str, needs: dict[object, object]
) -> None:
    with Uninterrupted(is_finalizer=True):
        if not primary.is_silent():
            try:
                with primary.current():
                    release(primary.driver, handle)
            except SoftCudaError as error:
                warn_unreleased(what, error)
        needs.clear()


class Owner:
    """Something of the driver that is closed once: by close(), `with`, or when it is collected.

    Attributes:
        context: the context it lives in.
    """

    __slots__ = ("__weakref__", "_resource", "context")

    def __init__(self, context: Context, resource: Resource | None) -> None:
        """Own a resource of a context."""
        self.context = context
        self._resource = resource

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about()}, {self._where()})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process; it cannot be pickled or copied")

    def _about(self) -> str:
        resource = self._resource
        return "no handle" if resource is None else f"{resource.handle:#x}"

    def _where(self) -> str:
        state = "closed" if self._resource is None else "open"
        return f"device {self.context.device.ordinal}, {state}"

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._resource is None

    @property
    def resource(self) -> Resource:
        """The handle with its lifetime, to keep it alive; raises ClosedError after close()."""
        if self._resource is None:
            raise ClosedError(f"{self!r} was used after close(); make another one")
        return self._resource

    @property
    def handle(self) -> int:
        """The handle; raises ClosedError after close()."""
        if self._resource is None:
            raise ClosedError(f"{self!r} was used after close(); make another one")
        return self._resource.handle

    def close(self) -> None:
        """Let go of the handle; it is destroyed once nothing else needs it. Idempotent."""
        self._resource = None
