"""Time schemas and their documents: engines take turns case by case, in one thread.

For each case an engine compiles the schema afresh and makes the first mask: together the *time to
first mask*. Then it walks each document token by token, mask and consume: *first visits*, and
walks them all again with new sessions: *later visits*. A document ends with an end-of-generation
token; at a token that the engine refuses, its walk ends, and that token is not counted. Documents
are tokenised beforehand, by the vocabulary's own tokenizer.

The clock is that of the wall, or of the thread's own processor time for a machine that has other
things to do: reading that one is a system call, 0.3 us in each sample.

Invariant: between two readings of the clock nothing happens but calls of the engine, and no engine
sees a case whose states it has built before.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import harness
import numpy as np
from engines import Compiled, Engine
from json_cases import Case
from numpy.typing import NDArray

import llgx

__all__ = ["CaseTimes", "Clock", "MaskCounts", "Walk", "count_masks", "measure", "resident_bytes"]

Clock: TypeAlias = Callable[[], int]

_COLLECT_EVERY: Final = 200
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """Nanoseconds for each token of a document that was taken; whether all of them were."""

    document: int
    samples: list[int]
    complete: bool


@dataclasses.dataclass(slots=True)
class CaseTimes:
    """One engine on one case. ``refusal`` is "" where it compiled; all times in nanoseconds.

    ``memory`` is what the engine says that its compiled grammar holds, in bytes (0: it does not
    say), ``growth`` by how much the process grew while the engine was at work.
    """

    case: str
    engine: str
    refusal: str = ""
    compile: int = 0
    first_mask: int = 0
    first: list[Walk] = dataclasses.field(default_factory=list)
    later: list[Walk] = dataclasses.field(default_factory=list)
    memory: int = 0
    growth: int = 0
    outcomes: str = ""


@dataclasses.dataclass(slots=True)
class MaskCounts:
    """Masks of two engines at the same places: how many are equal, and which has more.

    ``more`` are positions where the first engine allows a token that the second does not, ``fewer``
    the reverse; a position may be both. ``where`` lists cases with ``more``, with a position each.
    """

    positions: int = 0
    equal: int = 0
    more: int = 0
    fewer: int = 0
    where: list[str] = dataclasses.field(default_factory=list)


def measure(
    cases: Sequence[Case],
    engines: Sequence[Engine],
    vocabulary: llgx.Vocabulary,
    options: Mapping[str, Any],
    *,
    later: int = 1,
    clock: Clock = time.perf_counter_ns,
) -> Iterator[CaseTimes]:
    """The times of each engine on each case; the documents are walked ``later`` times again."""
    for turn, case in enumerate(cases):
        if turn % _COLLECT_EVERY == 0:
            gc.collect()
        documents = [_tokens(vocabulary, document.text) for document in case.documents]
        for engine in engines if turn % 2 == 0 else reversed(engines):
            before = resident_bytes()
            times = _measure_case(engine, case, documents, options, later, clock)
            times.growth = resident_bytes() - before
            yield times


def _tokens(vocabulary: llgx.Vocabulary, text: str) -> tuple[int, ...]:
    return (*vocabulary.tokenize(text.encode()), vocabulary.eog[0])


def _measure_case(
    engine: Engine,
    case: Case,
    documents: Sequence[Sequence[int]],
    options: Mapping[str, Any],
    later: int,
    clock: Clock,
) -> CaseTimes:
    times = CaseTimes(case.id, engine.name)
    begin = clock()
    try:
        compiled = engine.compile_schema(case.schema, options)
        session = compiled()
        middle = clock()
        session.fill(*session.target)
        end = clock()
    except Exception as error:
        times.refusal = f"{type(error).__name__}: {error}"
        return times
    times.compile, times.first_mask = middle - begin, end - middle
    for index, tokens in enumerate(documents):
        if index:
            session = compiled()
        walk = _walk(session, index, tokens, clock)
        if index == 0 and walk.samples:
            # The first mask has been made already: what it took belongs to the first token
            walk.samples[0] += times.first_mask
        times.first.append(walk)
    times.memory = engine.stats().get("memory", 0)
    for _ in range(later):
        times.later += [
            _walk(compiled(), index, tokens, clock) for index, tokens in enumerate(documents)
        ]
    times.outcomes = "".join(
        "." if walk.complete == document.valid else "a" if walk.complete else "r"
        for walk, document in zip(times.first, case.documents, strict=True)
    )
    return times


def _walk(session: harness.Session, document: int, tokens: Sequence[int], clock: Clock) -> Walk:
    fill, consume = session.fill, session.consume
    first, second = session.target
    samples: list[int] = []
    try:
        for token in tokens:
            begin = clock()
            fill(first, second)
            taken = consume(token)
            end = clock()
            if taken is False:
                return Walk(document, samples, False)
            samples.append(end - begin)
    except llgx.LlgxError:
        return Walk(document, samples, False)
    return Walk(document, samples, True)


def resident_bytes() -> int:
    """Memory of the process as the system counts it; 0 where it does not say."""
    try:
        fields = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * _PAGE


def count_masks(
    cases: Iterable[Case],
    engines: Sequence[Engine],
    vocabulary: llgx.Vocabulary,
    options: Mapping[str, Any],
) -> MaskCounts:
    """Walk each document with the first two engines in step, as far as both go, and compare masks.

    A difference need not be a fault: engines hold to different parts of a schema. Tokens with the
    byte 0x7F, which JSON strings may hold and llguidance leaves out, are not looked at.
    """
    counts = MaskCounts()
    compared = _compared_tokens(vocabulary, engines[0].mask.shape[1])
    for case in cases:
        try:
            pair = [
                engine.compile_schema(case.schema, options, forcing=False) for engine in engines[:2]
            ]
        except (ValueError, llgx.LlgxError):
            continue
        _count_case(case, pair, engines, vocabulary, compared, counts)
    return counts


def _count_case(
    case: Case,
    pair: Sequence[Compiled],
    engines: Sequence[Engine],
    vocabulary: llgx.Vocabulary,
    compared: NDArray[np.int32],
    counts: MaskCounts,
) -> None:
    noted = False
    for index, document in enumerate(case.documents):
        sessions = [compiled() for compiled in pair]
        for position, token in enumerate(_tokens(vocabulary, document.text)):
            for session in sessions:
                session.fill(*session.target)
            ours, theirs = (engine.mask[0] & compared for engine in engines[:2])
            more = ours & ~theirs
            counts.positions += 1
            if more.any():
                counts.more += 1
                if not noted:
                    tokens = _set_bits(more)
                    shown = ", ".join(repr(vocabulary.tokens[t])[1:] for t in tokens[:4])
                    counts.where.append(
                        f"{case.id}[{index}:{position}] {tokens.size} tokens: {shown}"
                    )
                    noted = True
            elif np.array_equal(ours, theirs):
                counts.equal += 1
            if (theirs & ~ours).any():
                counts.fewer += 1
            if not all(_consumes(session, token) for session in sessions):
                break


def _compared_tokens(vocabulary: llgx.Vocabulary, words: int) -> NDArray[np.int32]:
    bits = np.zeros(32 * words, dtype=np.uint8)
    bits[: len(vocabulary)] = [b"\x7f" not in token for token in vocabulary.tokens]
    return np.packbits(bits, bitorder="little").view(np.int32)


def _set_bits(words: NDArray[np.int32]) -> NDArray[np.intp]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def _consumes(session: harness.Session, token: int) -> bool:
    try:
        return session.consume(token) is not False
    except llgx.LlgxError:
        return False
