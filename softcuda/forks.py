"""Forked children: what holds locks is told, in the child, to make them anew.

A lock that another thread held at the fork stays held for ever in the child, where that thread
does not exist.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["renew_in_child"]


class Renewable(Protocol):
    """What can be told that the process was forked."""

    def after_fork(self) -> None:
        """Make locks anew, and give up what another thread may have left half done."""


_owners: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_in_child(owner: Renewable) -> None:
    """Have `owner.after_fork()` called in every child that this process forks."""
    _owners.add(owner)


def _renew() -> None:
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
