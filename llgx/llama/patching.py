"""Replacing attributes of another library's modules and classes, all of them or none.

Invariant: after :meth:`Patches.undo` each attribute is what it was, unless someone replaced ours in
the meantime: theirs then stays, and what it calls of ours passes on to the original.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from llgx.forks import guarded

__all__ = ["Patches"]


class Patches:
    """A group of replacements, in place or not. Threads may share it."""

    def __init__(self) -> None:
        self._lock = guarded(threading.RLock())
        self._planned: list[tuple[Any, str, Callable[[Any], Any]]] = []
        self._done: list[tuple[Any, str, Any, Any]] = []
        self.is_active = False

    def plan(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """``owner.name`` is to become ``make(what it was)``."""
        self._planned.append((owner, name, make))

    def apply(self) -> None:
        """Put all that is planned in place; nothing if it is. What was done is undone on errors."""
        with self._lock:
            if self.is_active:
                return
            try:
                for owner, name, make in self._planned:
                    original = getattr(owner, name)
                    replacement = make(original)
                    setattr(owner, name, replacement)
                    self._done.append((owner, name, original, replacement))
                self.is_active = True
            except BaseException:
                self.undo()
                raise

    def undo(self) -> None:
        """Take everything back; nothing if it is."""
        with self._lock:
            self.is_active = False
            while self._done:
                owner, name, original, replacement = self._done.pop()
                if getattr(owner, name, None) is replacement:
                    setattr(owner, name, original)
