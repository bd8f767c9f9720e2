"""Forks while other threads are at work: a child process finds no lock held that nobody gives back.

A forked process has the thread that called ``fork`` and no other. What another thread had locked
stays locked in the child, and may be half changed. So before a fork all samplers, and then all
compiled grammars, are held, which waits for the callback or the mask under way; after it they are
let go in both processes. Locks that guard changes of Python objects, each of which the interpreter
makes in one go, are made anew in the child.

Invariants: nothing that a thread waits for with the GIL in its hands is held. Holding a compiled
grammar is enough for what is shared by a vocabulary, too, since that is touched with the GIL or by
those who hold a grammar. Samplers come before grammars, as in their callbacks.

Cost: one entry in a set for each object; a fork waits for the longest mask under way.
``subprocess`` and the ``spawn`` method of ``multiprocessing`` do not come here.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

__all__ = ["after_fork", "before_grammars", "guarded", "held"]

T = TypeVar("T")


class Holdable(Protocol):
    """What can be held: ``_fork_key`` is equal for objects that share a lock."""

    def _fork_key(self) -> int: ...
    def _hold(self) -> None: ...
    def _let_go(self) -> None: ...


# In the order in which they are held. Each grammar that is compiled comes here, so these are sets
# of references rather than the library's WeakSet, which runs Python code for each member.
_samplers: Final[set[weakref.ref[Any]]] = set()
_grammars: Final[set[weakref.ref[Any]]] = set()
_locks: Final[set[weakref.ref[Any]]] = set()
_renewals: Final[list[Callable[[], None]]] = []

_one_at_a_time = threading.Lock()
_holding: list[Holdable] = []
_collects = False


def held(thing: T) -> T:
    """Have ``thing``, a compiled grammar, held over forks. It is kept weakly."""
    _grammars.add(weakref.ref(thing, _grammars.discard))
    return thing


def before_grammars(thing: T) -> T:
    """Have ``thing``, a sampler, held over forks, before the grammars are."""
    _samplers.add(weakref.ref(thing, _samplers.discard))
    return thing


def guarded(lock: T) -> T:
    """``lock``, a ``threading.Lock`` or ``RLock``, which is free in a child process."""
    _locks.add(weakref.ref(lock, _locks.discard))
    return lock


def after_fork(renew: Callable[[], None]) -> None:
    """Have ``renew`` called in each child process."""
    _renewals.append(renew)


def _members(of: set[weakref.ref[Any]]) -> list[Any]:
    while True:
        # Another thread adds one.
        with contextlib.suppress(RuntimeError):
            return [thing for thing in [found() for found in of] if thing is not None]


def _before() -> None:
    global _collects
    _one_at_a_time.acquire()
    # A finalizer may want what is held here.
    _collects = gc.isenabled()
    gc.disable()
    for members in (_samplers, _grammars):
        seen: set[int] = set()
        while _hold(_members(members), seen):
            pass  # while some were waited for, others were made


def _hold(things: Iterable[Holdable], seen: set[int]) -> bool:
    """Hold those whose key is not in ``seen``; whether there were any."""
    found = False
    for thing in things:
        if thing._fork_key() not in seen:
            seen.add(thing._fork_key())
            thing._hold()
            _holding.append(thing)
            found = True
    return found


def _after() -> None:
    while _holding:
        _holding.pop()._let_go()
    if _collects:
        gc.enable()
    _one_at_a_time.release()


def _after_in_child() -> None:
    for renew in _renewals:
        renew()
    for lock in _members(_locks):
        lock._at_fork_reinit()
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
