"""Figures of ``masks.py``: from samples to summaries, ratios, verdicts and text.

All figures are µs unless their name says otherwise. Beside the greatest sample stands the *steady*
maximum: the greatest, over the positions of the texts, of the least sample that the position had in
all its visits. One visit in ten thousand meets an interrupt; no position meets one each time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from harness import Summary, format_table
from numpy.typing import NDArray

__all__ = [
    "Figures",
    "Group",
    "Phase",
    "Samples",
    "Text",
    "Timings",
    "Verdict",
    "render",
    "summarise",
    "verdicts",
]

OVERALL: Final = "all"

_LATER_P50: Final = 1.2
_FIRST_RATIO: Final = 4.0
_WORST: Final = 3000.0


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A text under its grammar, as the tokens that a model would have sampled, the end included."""

    grammar: str
    name: str
    source: str = dataclasses.field(repr=False)
    tokens: tuple[int, ...] = dataclasses.field(repr=False)

    @property
    def label(self) -> str:
        """How messages name the text."""
        return f"{self.grammar}/{self.name}"


@dataclasses.dataclass(slots=True)
class Samples:
    """Nanoseconds of one engine on one text; a row of ``first`` or ``later`` is one pass."""

    first: list[list[int]] = dataclasses.field(default_factory=list)
    later: list[list[int]] = dataclasses.field(default_factory=list)
    compile: list[int] = dataclasses.field(default_factory=list)


Timings = dict[tuple[str, Text], Samples]


@dataclasses.dataclass(frozen=True, slots=True)
class Worst:
    """A position of a text and its time; ``token`` is what was consumed there."""

    us: float
    text: str
    position: int
    token: str

    def __str__(self) -> str:
        return f"{self.text}[{self.position}] {self.token}"


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """First or later visits: all samples together, the greatest, and the steady maximum."""

    summary: Summary
    worst: Worst
    steady: Worst


@dataclasses.dataclass(frozen=True, slots=True)
class EngineFigures:
    """One engine on one grammar or on all; ``start`` is compile plus the first mask and token."""

    compile: Summary
    start: Summary
    first: Phase
    later: Phase | None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A grammar, or all of them; ``ratios`` are llguidance's time over llgx's."""

    name: str
    tokens: int
    engines: dict[str, EngineFigures]
    ratios: dict[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, what was measured, and whether it holds."""

    bar: str
    measured: str
    holds: bool


@dataclasses.dataclass(slots=True)
class Figures:
    """Everything that a run found out; the last group is the one of all grammars."""

    environment: dict[str, str]
    settings: dict[str, Any]
    floors: dict[str, Summary]
    set_up_ms: dict[str, list[float]]
    compared: int
    faults: list[str]
    groups: list[Group]
    verdicts: list[Verdict] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.verdicts = verdicts(self.groups)


def summarise(
    engines: Sequence[str], timings: Timings, token_bytes: Sequence[bytes]
) -> list[Group]:
    """A group for each grammar in ``timings``, in their order, then one for all; none for none."""
    texts = list(dict.fromkeys(text for _, text in timings))
    if not texts:
        return []
    groups = []
    for name in (*dict.fromkeys(text.grammar for text in texts), OVERALL):
        chosen = [text for text in texts if name in (text.grammar, OVERALL)]
        figures = {
            engine: _engine_figures({text: timings[engine, text] for text in chosen}, token_bytes)
            for engine in engines
        }
        groups.append(Group(name, sum(len(t.tokens) for t in chosen), figures, _ratios(figures)))
    return groups


def _engine_figures(samples: Mapping[Text, Samples], token_bytes: Sequence[bytes]) -> EngineFigures:
    compiles = [time for one in samples.values() for time in one.compile]
    starts = [
        time + row[0]
        for one in samples.values()
        for time, row in zip(one.compile, one.first, strict=True)
    ]
    has_later = any(one.later for one in samples.values())
    return EngineFigures(
        compile=Summary.of(_array(compiles)),
        start=Summary.of(_array(starts)),
        first=_phase({text: one.first for text, one in samples.items()}, token_bytes),
        later=_phase({text: one.later for text, one in samples.items()}, token_bytes)
        if has_later
        else None,
    )


def _phase(rows: Mapping[Text, list[list[int]]], token_bytes: Sequence[bytes]) -> Phase:
    tables = {text: _array(passes) for text, passes in rows.items()}
    return Phase(
        summary=Summary.of(np.concatenate([table.ravel() for table in tables.values()])),
        worst=_worst({text: table.max(axis=0) for text, table in tables.items()}, token_bytes),
        steady=_worst({text: table.min(axis=0) for text, table in tables.items()}, token_bytes),
    )


def _worst(times: Mapping[Text, NDArray[np.int64]], token_bytes: Sequence[bytes]) -> Worst:
    text = max(times, key=lambda candidate: int(times[candidate].max()))
    position = int(times[text].argmax())
    shown = repr(token_bytes[text.tokens[position]])[1:]
    return Worst(int(times[text][position]) / 1e3, text.label, position, shown)


def _array(values: Sequence[Any]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _ratios(engines: Mapping[str, EngineFigures]) -> dict[str, float]:
    """Peer over ours; nothing unless both ran."""
    ours, peer = engines.get("llgx"), engines.get("llguidance")
    if ours is None or peer is None:
        return {}
    pairs = {
        "compile": (peer.compile, ours.compile),
        "start": (peer.start, ours.start),
        "first": (peer.first.summary, ours.first.summary),
    }
    if ours.later is not None and peer.later is not None:
        pairs["later"] = (peer.later.summary, ours.later.summary)
    result = {}
    for name, (theirs, mine) in pairs.items():
        result[f"{name}_avg"] = theirs.avg / mine.avg
        result[f"{name}_p50"] = theirs.p50 / mine.p50
    return result


def verdicts(groups: Sequence[Group]) -> list[Verdict]:
    """The bars that llgx sets itself, as far as the run can judge them."""
    return list(_verdicts(groups))


def _verdicts(groups: Sequence[Group]) -> Iterator[Verdict]:
    if not groups or "llgx" not in groups[-1].engines:
        return
    grammars, ours = groups[:-1], groups[-1].engines["llgx"]
    if ours.later is not None:
        p50 = ours.later.summary.p50
        yield Verdict(f"later visits: p50 <= {_LATER_P50} µs", f"{p50:.2f} µs", p50 <= _LATER_P50)
    ratios = {group.name: group.ratios["first_avg"] for group in grammars if group.ratios}
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        least = min(ratios, key=lambda name: ratios[name])
        bar = f"first visits: average >= {_FIRST_RATIO:g} times as fast as llguidance"
        yield Verdict(
            f"{bar} over the grammars",
            f"{mean:.1f} (geometric mean)",
            mean >= _FIRST_RATIO,
        )
        yield Verdict(
            f"{bar} on each grammar",
            f"{ratios[least]:.1f} ({least})",
            ratios[least] >= _FIRST_RATIO,
        )
    phases = [ours.first] + ([ours.later] if ours.later is not None else [])
    for name, worst in (
        ("steady", max((phase.steady for phase in phases), key=lambda w: w.us)),
        ("any sample", max((phase.worst for phase in phases), key=lambda w: w.us)),
    ):
        yield Verdict(
            f"no mask over {_WORST / 1e3:g} ms: {name}",
            f"{worst.us / 1e3:.3f} ms at {worst}",
            worst.us <= _WORST,
        )


def render(figures: Figures) -> str:
    """The report as text."""
    parts = [
        "\n".join(f"{name}: {value}" for name, value in figures.environment.items()),
        "settings: " + ", ".join(f"{k}={_shown(v)}" for k, v in figures.settings.items()),
        _set_up(figures),
        _comparison(figures),
    ]
    if figures.groups:
        parts += [
            "Compile, and start = compile + first mask + first token (µs)\n" + _starts(figures),
            "First visits: mask + consume of a token (µs)\n" + _phases(figures, "first"),
        ]
        if any(e.later is not None for g in figures.groups for e in g.engines.values()):
            title = "Later visits: mask + consume of a token (µs)\n"
            parts.append(title + _phases(figures, "later"))
        parts.append(_positions(figures))
        if figures.groups[-1].ratios:
            parts.append("llguidance / llgx\n" + _ratio_table(figures))
    if figures.verdicts:
        rows = [("holds" if v.holds else "MISSED", v.bar, v.measured) for v in figures.verdicts]
        parts.append(format_table(("verdict", "bar", "measured"), rows))
    return "\n\n".join(parts)


def _shown(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _set_up(figures: Figures) -> str:
    lines = [
        f"set-up of {name}, once per vocabulary: "
        + ", ".join(f"{time:.0f}" for time in times)
        + " ms"
        for name, times in figures.set_up_ms.items()
    ]
    lines += [
        f"loop floor, {name} engine: avg {floor.avg:.2f}, p50 {floor.p50:.2f} µs (included below)"
        for name, floor in figures.floors.items()
    ]
    return "\n".join(lines)


def _comparison(figures: Figures) -> str:
    if figures.faults:
        return f"THE ENGINES DISAGREE or reject a text: {len(figures.faults)} differences"
    if figures.compared:
        return f"masks compared bit by bit: {figures.compared:,} positions, all equal"
    return "one engine only: no masks compared"


def _starts(figures: Figures) -> str:
    rows: list[tuple[object, ...]] = []
    for group in figures.groups:
        for name, engine in group.engines.items():
            both = (engine.compile, engine.start)
            times = (t for s in both for t in (s.avg, s.p50, s.p99, s.max))
            rows.append((group.name, name, str(engine.compile.count), *times))
    header = ("grammar", "engine", "count", "compile avg", "p50", "p99", "max")
    return format_table((*header, "start avg", "p50", "p99", "max"), rows)


def _phases(figures: Figures, which: str) -> str:
    rows: list[tuple[object, ...]] = []
    for group in figures.groups:
        for name, engine in group.engines.items():
            phase: Phase | None = getattr(engine, which)
            if phase is None:
                continue
            s = phase.summary
            times = (s.avg, s.p50, s.p90, s.p99, s.p999, s.max, phase.steady.us)
            rows.append((group.name, name, s.count, *times))
    percentiles = ("p50", "p90", "p99", "p99.9")
    return format_table(
        ("grammar", "engine", "count", "avg", *percentiles, "max", "steady max"), rows
    )


def _positions(figures: Figures) -> str:
    rows: list[tuple[object, ...]] = []
    for group in figures.groups[:-1]:
        for name, engine in group.engines.items():
            first = engine.first
            rows.append((group.name, name, first.steady.us, str(first.steady), str(first.worst)))
    header = ("grammar", "engine", "steady max", "where", "greatest sample at")
    return "Worst first visits (µs; text[token index] token)\n" + format_table(header, rows)


def _ratio_table(figures: Figures) -> str:
    names = list(figures.groups[-1].ratios)
    rows = [(group.name, *(group.ratios[name] for name in names)) for group in figures.groups]
    return format_table(("grammar", *(name.replace("_", " ") for name in names)), rows)
