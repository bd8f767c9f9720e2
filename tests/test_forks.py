"""Processes that are forked while other threads hold llgx's locks."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llama_cpp import llama_cpp as llama

import llgx
from llgx import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

TOKENS = [bytes([byte]) for byte in range(256)]
TOKENS += [bytes([first, second]) for first in range(97, 123) for second in range(32, 127)]
VOCABULARY = llgx.Vocabulary.from_tokens([*TOKENS, b"<end>"], eog=len(TOKENS))
END = len(TOKENS)
# Nothing is remembered: each mask is a walk with the lock held, without the GIL.
FORGETFUL = llgx.Shortcuts(mask_memo=False, boundary_memo=False, shared_plans=False)
GRAMMAR = llgx.Grammar.from_lark(
    'start: (/[a-z]+ [a-y]+/ | /[b-z ]+[0-9]/ | /([a-z][a-f ])+/)+ "!"'
)


def in_child(work: Callable[[], bool]) -> bool:
    """Whether ``work`` is true in a forked process, within ten seconds."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class Busy:
    """A thread that does something over and over for as long as a block lasts."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._ends = False
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ends:
            self._work()
            self.count += 1

    def __enter__(self) -> Busy:
        self._thread.start()
        while not self.count:
            time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()


def test_while_a_thread_fills_masks() -> None:
    compiled = GRAMMAR.compile(VOCABULARY, shortcuts=FORGETFUL)
    mask = llgx.allocate_token_bitmask(1, len(VOCABULARY))
    matcher = llgx.Matcher(compiled)
    expected = matcher.allowed_tokens()
    with Busy(lambda: matcher.fill_bitmask(mask)) as busy:
        for _ in range(10):
            assert in_child(lambda: llgx.Matcher(compiled).allowed_tokens() == expected)
        before = busy.count
        while busy.count < before + 3:
            time.sleep(0.001)  # and the parent goes on
    assert gc.isenabled()


def test_while_a_sampler_is_at_work() -> None:
    """The sampler has a lock of its own, which Python takes to look at it."""
    constraint = llgx.sampler(VOCABULARY, GRAMMAR.compile(VOCABULARY, shortcuts=FORGETFUL))
    pointer = constraint.release()
    data = (llama.llama_token_data * len(VOCABULARY))()
    ids = np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_int32)), (END + 1, 3))

    def sample() -> None:
        ids[:, 0] = np.arange(END + 1)
        array = llama.llama_token_data_array(data, END + 1, -1, False)
        llama.llama_sampler_apply(pointer, ctypes.byref(array))
        llama.llama_sampler_accept(pointer, ord("a"))
        clone = llama.llama_sampler_clone(pointer)
        llama.llama_sampler_free(clone)
        if len(constraint.tokens) > 20:
            llama.llama_sampler_reset(pointer)

    with Busy(sample):
        for _ in range(10):
            assert in_child(
                lambda: constraint.matcher().is_stopped() is False and constraint.error is None
            )
    llama.llama_sampler_free(pointer)


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock], ids=["Lock", "RLock"])
def test_locks_of_python_are_free_in_the_child(lock: Any) -> None:
    guarded = forks.guarded(lock())
    other: Any = lock()  # such a one is not

    def hold() -> None:
        with guarded, other:
            time.sleep(0.02)

    with Busy(hold):
        assert in_child(lambda: bool(guarded.acquire(blocking=False)))
        assert in_child(lambda: not other.acquire(blocking=False))


def test_threads_that_fork_at_once() -> None:
    compiled = [GRAMMAR.compile(VOCABULARY, shortcuts=FORGETFUL), GRAMMAR.compile(VOCABULARY)]
    results: list[bool] = []

    def forking() -> None:
        for _ in range(5):
            results.append(
                in_child(lambda: all(llgx.Matcher(c).allowed_tokens() for c in compiled))
            )

    with Busy(lambda: llgx.Matcher(compiled[0]).allowed_tokens()):
        threads = [threading.Thread(target=forking) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == 15 * [True]


def test_those_that_are_made_meanwhile_are_held_too() -> None:
    """By a thread that makes one whenever another is held."""

    class Thing:
        made: list[Thing]

        def __init__(self, things: list[Thing]) -> None:
            self.made = things
            self.calls: list[str] = []
            things.append(forks.held(self))

        def _fork_key(self) -> int:
            return id(self)

        def _hold(self) -> None:
            self.calls.append("hold")
            if len(self.made) < 3:
                Thing(self.made)

        def _let_go(self) -> None:
            self.calls.append("let go")

    things: list[Thing] = []
    Thing(things)
    assert in_child(lambda: [t.calls for t in things] == 3 * [["hold", "let go"]])
    assert [thing.calls for thing in things] == 3 * [["hold", "let go"]]
