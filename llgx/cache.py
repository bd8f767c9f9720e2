"""Grammars of JSON Schemas by content: the second use of an equal schema costs a look-up.

Hosts send the same schema with each request. A grammar that is found again has its compiled
grammars with it (:meth:`llgx.Grammar.compile` keeps them), and these have their states and masks.

Invariant: equal keys mean schemas, options, documents and limits of equal content, told apart by
type (``1``, ``1.0`` and ``True`` are three values) and order; what has no such key is not kept.
What is kept is bounded in bytes, compiled grammars included, least recently used first. These grow
while they are used, so a grammar is measured again when it is found, when it is compiled, and when
a matcher of it goes. The last is when nobody waits for a first token, and the time to drop what is
too much, and some more, so that the next grammar finds room. Cost: some microseconds, and a pass
over the schema in C. With a directory, what took long to make is kept in files too
(:mod:`llgx.schema_files`).
"""

from __future__ import annotations

import collections
import marshal
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llgx.forks import guarded
from llgx.limits import DEFAULT_LIMITS, Limits
from llgx.schema_files import WORTH, SchemaFiles

if TYPE_CHECKING:
    from llgx.grammar import Grammar
    from llgx.ir import GrammarIR
    from llgx.json_schema.options import Options

__all__ = ["SCHEMA_CACHE", "SchemaCache", "fixed_size", "schema_key"]

_DEFAULT_LIMIT: Final = 64_000_000
_ROOM: Final = 16  # the part of the limit that is left free for what comes next
_VERSION: Final = 0  # of marshal: equal contents give equal bytes, whoever else refers to them


def schema_key(schema: Any, options: Options, limits: Limits) -> tuple[object, ...] | None:
    """What tells ``schema`` under these options from others; None if that is not to be had.

    Linear in the schema, a few nanoseconds a byte.
    """
    from llgx.json_schema.options import DEFAULT_OPTIONS

    if type(schema) is not str:
        if type(schema) not in (dict, bytes, bool):
            return None
        try:
            schema = marshal.dumps(schema, _VERSION)
        except ValueError:  # other types, or nested too deep
            return None
    resources: bytes | None = None
    if options.resources:
        try:
            resources = marshal.dumps(dict(options.resources), _VERSION)
        except ValueError:
            return None
    # The defaults, by far the most frequent, need no hashing field by field.
    asked = None if options is DEFAULT_OPTIONS else options
    return schema, resources, asked, None if limits is DEFAULT_LIMITS else limits


class _Entry:
    __slots__ = ("fixed", "grammar", "size")

    def __init__(self, grammar: Grammar, fixed: int, size: int) -> None:
        self.grammar = grammar
        self.fixed = fixed
        self.size = size


class SchemaCache:
    """Grammars by key, at most :attr:`limit` bytes of them. Safe to share between threads."""

    def __init__(self, limit: int = _DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._files: SchemaFiles | None = None
        self._lock = guarded(threading.Lock())
        self._entries: collections.OrderedDict[object, _Entry] = collections.OrderedDict()
        # The same entries, in the order in which they are measured.
        self._turns: collections.OrderedDict[object, _Entry] = collections.OrderedDict()
        self._memory = 0

    @property
    def limit(self) -> int:
        """Bytes that may be kept, about; 0 keeps nothing."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        if type(limit) is not int or limit < 0:
            raise ValueError(f"a number of bytes from 0 on, not {limit!r}")
        dropped: list[_Entry] = []
        with self._lock:
            self._limit = limit
            dropped = self._shrink(limit)
        del dropped

    @property
    def directory(self) -> pathlib.Path | None:
        """Where grammars that took long are kept for later processes; None (default): nowhere.

        Files are of llgx's version and no vocabulary; damaged and foreign ones count as none.
        """
        return None if self._files is None else self._files.directory

    @directory.setter
    def directory(self, directory: str | os.PathLike[str] | None) -> None:
        if directory is not None and not isinstance(directory, (str, os.PathLike)):
            raise TypeError(f"a directory is a path or None, not {type(directory).__name__}")
        if directory is not None:
            name = os.fspath(directory)
            if not isinstance(name, str):
                raise TypeError("a directory is a path of str, not of bytes")
            if not name or "\0" in name:
                raise ValueError(f"{name!r} is no directory")
        self._files = None if directory is None else SchemaFiles(directory)

    @property
    def memory(self) -> int:
        """Bytes that are kept, as last asked for."""
        return self._memory

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything. Grammars that are in use go on."""
        with self._lock:
            dropped = self._entries
            self._entries = collections.OrderedDict()
            self._turns.clear()
            self._memory = 0
        del dropped

    def get(self, key: object) -> Grammar | None:
        """The grammar kept under ``key``, which is now the most recently used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            self._measure(entry)
            return entry.grammar

    def make(
        self,
        key: tuple[object, ...],
        compile_schema: Callable[..., GrammarIR],
        *arguments: object,
        **named: object,
    ) -> GrammarIR:
        """The description under ``key`` in the files, or else what ``compile_schema`` makes of the
        arguments."""
        files = self._files
        if files is None:
            return compile_schema(*arguments, **named)
        found = files.read(key)
        if found is None:
            began = time.perf_counter()
            found = compile_schema(*arguments, **named)
            if time.perf_counter() - began >= WORTH:
                files.write(key, found)
        return found

    def add(self, key: object, grammar: Grammar, fixed: int) -> Grammar:
        """Keep ``grammar``, of ``fixed`` bytes without its compiled ones; the one to be used.

        That is another one if a thread has been faster.
        """
        dropped: list[_Entry] = []
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return entry.grammar
            if 2 * fixed > self._limit:
                return grammar
            self._entries[key] = self._turns[key] = _Entry(grammar, fixed, fixed)
            self._memory += fixed
            dropped = self._shrink(self._limit)
        # What is dropped is taken down here, where nobody waits for the lock.
        del dropped
        return grammar

    def grown(self, key: object, *, compiled: bool = False) -> None:
        """The grammar under ``key`` may have grown: it was compiled, or else a matcher of it went.

        To be called from anywhere, finalizers included: where the lock is held, nothing is done.
        """
        dropped: list[_Entry] = []
        if not self._lock.acquire(blocking=False):
            return
        try:
            entry = self._entries.get(key)
            if entry is None:
                return
            self._measure(entry)
            if compiled:
                dropped = self._shrink(self._limit)
            else:
                self._measure_another()
                dropped = self._shrink(self._limit - self._limit // _ROOM)
        finally:
            self._lock.release()
        del dropped

    def _measure_another(self) -> None:
        """Measure one more, each in its turn: some matchers never go."""
        turn = next(iter(self._turns))
        self._turns.move_to_end(turn)
        self._measure(self._turns[turn])

    def _measure(self, entry: _Entry) -> None:
        size = entry.fixed + entry.grammar.compiled_memory()
        self._memory += size - entry.size
        entry.size = size

    def _shrink(self, limit: int) -> list[_Entry]:
        """Take out what is more than ``limit``; the caller drops it without the lock."""
        dropped = []
        while self._entries and self._memory > limit:
            key, entry = self._entries.popitem(last=False)
            del self._turns[key]
            self._memory -= entry.size
            dropped.append(entry)
        return dropped


SCHEMA_CACHE: Final = SchemaCache()


def fixed_size(key: tuple[object, ...], grammar: Grammar) -> int:
    """About how many bytes a key and a description take."""
    text = key[0]
    assert isinstance(text, (str, bytes))
    return 2_000 + 20 * len(text) + 1_000 * (len(grammar.ir.rules) + len(grammar.ir.terminals))
