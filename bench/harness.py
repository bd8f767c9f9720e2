"""What the benches share: a timed loop, figures from its samples, and a quiet, described machine.

Times are taken from Python with ``time.perf_counter_ns`` around two calls, mask and consume, as
a sampler would make them; the clock and the calls of Python itself are part of each sample, and
:func:`floors` says how much that is. Invariant: nothing but those two calls happens between two
readings of the clock, and all engines go through the same loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib.metadata
import operator
import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Session",
    "Summary",
    "default_vocabulary",
    "environment",
    "floors",
    "format_table",
    "pin",
    "quiet",
    "timed_pass",
    "untimed_pass",
]

_VOCABULARY: Final = "ggml-vocab-llama-bpe.gguf"
_FLOOR_STEPS: Final = 20_000
_PERMILLES: Final = (250, 500, 750, 900, 950, 990, 999)


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """One sequence under a grammar, as the two calls that the loop makes for each token.

    ``fill(*target)`` writes the mask into the memory of its engine, ``consume(token)`` takes a
    token. ``failure()`` is "" as long as every token so far was accepted. ``accepts(text)`` says
    whether the sequence could go on with ``text`` and end there, and spends the session.
    """

    fill: Callable[[Any, Any], object]
    target: tuple[Any, Any]
    consume: Callable[[int], object]
    failure: Callable[[], str]
    accepts: Callable[[bytes], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a set of samples, in µs; percentiles by nearest rank, so each was observed."""

    count: int
    avg: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, nanoseconds: NDArray[np.int64]) -> Summary:
        """The figures of at least one sample."""
        values = np.sort(nanoseconds, axis=None) / 1e3
        # Rank of a permille, rounded up in integers: 0.999 * 1000 is more than 999 in binary
        ranks = [(values.size * permille + 999) // 1000 - 1 for permille in _PERMILLES]
        p25, p50, p75, p90, p95, p99, p999 = (float(values[rank]) for rank in ranks)
        mean, most = float(values.mean()), float(values[-1])
        return cls(values.size, mean, p25, p50, p75, p90, p95, p99, p999, most)


def timed_pass(session: Session, tokens: Sequence[int]) -> list[int]:
    """Nanoseconds of mask and consume for each of ``tokens``."""
    fill, consume, clock = session.fill, session.consume, time.perf_counter_ns
    first, second = session.target
    samples = [0] * len(tokens)
    for index, token in enumerate(tokens):
        begin = clock()
        fill(first, second)
        consume(token)
        end = clock()
        samples[index] = end - begin
    return samples


def untimed_pass(session: Session, tokens: Sequence[int]) -> None:
    """The calls of :func:`timed_pass` without a clock: for counting instructions."""
    fill, consume = session.fill, session.consume
    first, second = session.target
    for token in tokens:
        fill(first, second)
        consume(token)


def floors(words: int) -> dict[str, Summary]:
    """What the loop costs by itself: around calls that do nothing, and around a copy of a mask."""
    mask, source = memoryview(bytearray(4 * words)), bytes(4 * words)
    calls: dict[str, tuple[Callable[[Any, Any], object], tuple[Any, Any]]] = {
        "empty": (operator.is_, (None, 0)),
        "copy": (mask.__setitem__, (slice(None), source)),
    }
    result = {}
    for name, (fill, target) in calls.items():
        session = Session(fill, target, operator.truth, lambda: "", operator.not_)
        samples = timed_pass(session, range(_FLOOR_STEPS))
        result[name] = Summary.of(np.array(samples, dtype=np.int64))
    return result


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Run the body without the cyclic garbage collector, after one full collection."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pin(cpu: int | None) -> int | None:
    """Bind the process to ``cpu``, by default the last it may use; None where that cannot be done.

    A negative number leaves the process unbound. ``OSError`` where the process may not use ``cpu``.
    """
    if not hasattr(os, "sched_setaffinity") or (cpu is not None and cpu < 0):
        return None
    chosen = max(os.sched_getaffinity(0)) if cpu is None else cpu
    os.sched_setaffinity(0, {chosen})
    return chosen


def environment(distributions: Sequence[str]) -> dict[str, str]:
    """Versions of the interpreter, of the named distributions, and the machine."""
    result = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    for name in distributions:
        try:
            result[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            result[name] = "not installed"
    result["platform"] = platform.platform()
    result["processor"] = f"{_processor()}, {os.cpu_count()} CPUs"
    return result


def _processor() -> str:
    """The processor's name; ``platform.processor()`` is empty or "x86_64" on most Linux systems."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def default_vocabulary() -> pathlib.Path:
    """Where the Llama 3 vocabulary is kept: below LLGX_VOCABULARIES or the user's cache."""
    directory = os.environ.get("LLGX_VOCABULARIES")
    if directory:
        return pathlib.Path(directory) / _VOCABULARY
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "llgx" / "vocabularies" / _VOCABULARY


def format_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The rows below the header, columns aligned: text to the left, numbers to the right."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    left = [
        all(isinstance(row[column], str) for row in rows) and bool(rows)
        for column in range(len(header))
    ]
    lines = []
    for row in cells:
        padded = (
            text.ljust(width) if is_text else text.rjust(width)
            for text, width, is_text in zip(row, widths, left, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _cell(value: object) -> str:
    """Three significant digits at least; a missing figure is a dash."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}"
