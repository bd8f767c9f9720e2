"""Tables of ``maskbench.py``: outcomes by category, times by engine, ratios, the slowest places.

Times are µs unless a name says otherwise. Figures of engines stand side by side for the cases that
all of them compiled; a second row has each engine's figures for all cases that it compiled itself.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from harness import Summary, format_table
from json_outcomes import OUTCOMES, PASS, WRONG_ACCEPT, WRONG_REJECT, Result
from json_timing import CaseTimes, MaskCounts

__all__ = [
    "Figures",
    "Place",
    "as_json",
    "bars",
    "coverage_table",
    "failures",
    "samples_of_common_cases",
    "summarise",
    "timing_report",
]

_WORST: Final = 20
_KINDS: Final = ("first", "later", "start", "compile")
_TITLES: Final = {
    "first": "TBM: mask + consume of a token, first visits",
    "later": "TBM, later visits",
    "start": "TTFM: compile + first mask",
    "compile": "compile alone",
}
_COLUMNS: Final = ("avg", "p25", "p50", "p75", "p90", "p95", "p99", "p999", "max")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A slow place: which engine, how many µs, and where."""

    engine: str
    us: float
    where: str


@dataclasses.dataclass(slots=True)
class Figures:
    """What a timing run found out; summaries by (kind, engine), ratios by (kind, figure)."""

    cases: int
    common: int
    shared: dict[tuple[str, str], Summary] = dataclasses.field(default_factory=dict)
    own: dict[tuple[str, str], Summary] = dataclasses.field(default_factory=dict)
    ratios: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    outcomes: dict[str, Counter[str]] = dataclasses.field(default_factory=dict)
    memory: dict[str, Summary] = dataclasses.field(default_factory=dict)
    growth: dict[str, float] = dataclasses.field(default_factory=dict)
    masks: list[Place] = dataclasses.field(default_factory=list)
    starts: list[Place] = dataclasses.field(default_factory=list)


def coverage_table(results: Sequence[Result]) -> str:
    """Outcomes by category and for all, then which options wrong rejects pass with."""
    categories: dict[str, Counter[str]] = {}
    for result in results:
        categories.setdefault(result.category, Counter())[result.outcome] += 1
    rows = [_coverage_row(name, categories[name]) for name in sorted(categories)]
    rows.append(_coverage_row("all", Counter(result.outcome for result in results)))
    documents = Counter(letter for result in results for letter in result.letters)
    rows.append(_coverage_row("documents", documents))
    parts = [format_table(("category", "cases", *OUTCOMES.values(), "passing %"), rows)]
    causes = Counter(
        " + ".join(result.causes) or "no option that widens"
        for result in results
        if result.outcome == WRONG_REJECT
    )
    if causes:
        rows = [(name, number) for name, number in causes.most_common()]
        parts.append(format_table(("wrong rejects pass with", "cases"), rows))
    return "\n\n".join(parts)


def _coverage_row(name: str, counts: Mapping[str, int]) -> tuple[object, ...]:
    total = sum(counts.values())
    share = 100 * counts.get(PASS, 0) / total if total else 0.0
    return (name, total, *(counts.get(letter, 0) for letter in OUTCOMES), share)


def failures(results: Iterable[Result], outcomes: str) -> list[str]:
    """A line for each result whose outcome is among ``outcomes``."""
    return [
        f"{OUTCOMES[result.outcome].upper()} {result.case} [{result.letters}] {result.message}"
        for result in results
        if result.outcome in outcomes
    ]


def summarise(times: Sequence[CaseTimes], engines: Sequence[str]) -> Figures:
    """All figures of a run, for engines in the order given."""
    compiled = {
        engine: {one.case: one for one in times if one.engine == engine and not one.refusal}
        for engine in engines
    }
    common = set.intersection(*(set(cases) for cases in compiled.values()))
    figures = Figures(cases=len({one.case for one in times}), common=len(common))
    for engine, cases in compiled.items():
        shared = [one for case, one in cases.items() if case in common]
        _summarise_into(figures.shared, engine, shared)
        _summarise_into(figures.own, engine, list(cases.values()))
        refused = sum(1 for one in times if one.engine == engine and one.refusal)
        figures.outcomes[engine] = Counter(refused=refused)
        for one in cases.values():
            worst = max(one.outcomes, key=".ra".index, default=".")
            names = {".": "pass", "r": OUTCOMES[WRONG_REJECT], "a": OUTCOMES[WRONG_ACCEPT]}
            figures.outcomes[engine][names[worst]] += 1
        memory = [one.memory for one in cases.values() if one.memory]
        if memory:
            figures.memory[engine] = Summary.of(np.array(memory, dtype=np.int64))
        figures.growth[engine] = sum(one.growth for one in times if one.engine == engine) / 1e6
    _add_ratios(figures, engines)
    _add_worst(figures, times)
    return figures


def samples_of_common_cases(
    times: Sequence[CaseTimes], engines: Sequence[str], kind: str
) -> dict[str, list[int]]:
    """Nanoseconds by engine, of the cases that all of them compiled."""
    compiled = [
        {one.case for one in times if one.engine == name and not one.refusal} for name in engines
    ]
    common = set.intersection(*compiled)
    return {
        name: [
            sample
            for one in times
            if one.engine == name and one.case in common
            for sample in _samples(one, kind)
        ]
        for name in engines
    }


def _samples(one: CaseTimes, kind: str) -> list[int]:
    if kind == "start":
        return [one.compile + one.first_mask]
    if kind == "compile":
        return [one.compile]
    walks = one.first if kind == "first" else one.later
    return [sample for walk in walks for sample in walk.samples]


def _summarise_into(
    target: dict[tuple[str, str], Summary], engine: str, cases: Sequence[CaseTimes]
) -> None:
    for kind in _KINDS:
        values = [sample for one in cases for sample in _samples(one, kind)]
        if values:
            target[kind, engine] = Summary.of(np.array(values, dtype=np.int64))


def _add_ratios(figures: Figures, engines: Sequence[str]) -> None:
    """What the second engine takes over what the first takes, on the cases of both."""
    if len(engines) < 2:
        return
    for kind in _KINDS:
        pair = [figures.shared.get((kind, engine)) for engine in engines[:2]]
        ours, theirs = pair
        if ours is None or theirs is None:
            continue
        for column in _COLUMNS:
            figures.ratios[kind, column] = getattr(theirs, column) / getattr(ours, column)


def _add_worst(figures: Figures, times: Sequence[CaseTimes]) -> None:
    masks, starts = [], []
    for one in times:
        if one.refusal:
            continue
        starts.append(Place(one.engine, (one.compile + one.first_mask) / 1e3, one.case))
        for walk in one.first:
            if walk.samples:
                slowest = max(range(len(walk.samples)), key=walk.samples.__getitem__)
                where = f"{one.case} document {walk.document} token {slowest}"
                masks.append(Place(one.engine, walk.samples[slowest] / 1e3, where))
    figures.masks, figures.starts = _slowest(masks), _slowest(starts)


def _slowest(places: Sequence[Place]) -> list[Place]:
    """The slowest of each engine, engines one after the other."""
    result = []
    for engine in dict.fromkeys(place.engine for place in places):
        chosen = [place for place in places if place.engine == engine]
        result += sorted(chosen, key=lambda place: -place.us)[:_WORST]
    return result


def bars(figures: Figures) -> list[tuple[str, str, str]]:
    """The goals of llgx that the run can judge: (verdict, goal, measured)."""
    goals: list[tuple[str, str, str, float]] = [
        ("first", "avg", "us", 2.5),
        ("first", "p50", "us", 1.2),
        ("first", "p99", "us", 15),
        ("first", "p999", "us", 60),
        ("first", "max", "us", 1000),
        ("first", "avg", "ratio", 12),
        ("start", "p50", "us", 250),
        ("start", "p99", "us", 4000),
        ("start", "p50", "ratio", 3),
        ("start", "p99", "ratio", 2),
        ("later", "p50", "us", 1.0),
        ("later", "p99", "us", 3),
    ]
    rows = []
    for kind, column, unit, bar in goals:
        summary = figures.shared.get((kind, "llgx"))
        if summary is None:
            continue
        name = f"{_TITLES[kind].partition(':')[0]}{' later' if kind == 'later' else ''} {column}"
        if unit == "us":
            value = getattr(summary, column)
            verdict = "holds" if value <= bar else "MISSED"
            rows.append((verdict, f"{name} <= {bar:g} us", f"{value:.2f} us"))
        elif (kind, column) in figures.ratios:
            ratio = figures.ratios[kind, column]
            verdict = "holds" if ratio >= bar else "MISSED"
            rows.append((verdict, f"{name} <= 1/{bar:g} of llguidance's", f"1/{ratio:.2f}"))
    memory = figures.memory.get("llgx")
    if memory is not None:
        median = memory.p50 * 1e3 / 1e6
        verdict = "holds" if median <= 2 else "MISSED"
        rows.append((verdict, "memory of a compiled grammar, median <= 2 MB", f"{median:.2f} MB"))
    return rows


def timing_report(figures: Figures, counts: MaskCounts | None = None) -> str:
    """The report as text."""
    parts = [f"{figures.cases} cases, {figures.common} of them compiled by all engines"]
    for kind in _KINDS:
        rows = _time_rows(figures.shared, kind, "common") + _time_rows(figures.own, kind, "own")
        if rows:
            columns = ("engine", "cases", "count", *_COLUMNS)
            parts.append(f"{_TITLES[kind]} (us)\n{format_table(columns, rows)}")
    if figures.ratios:
        ratios = [
            (kind, *(figures.ratios[kind, column] for column in _COLUMNS))
            for kind in _KINDS
            if (kind, "avg") in figures.ratios
        ]
        parts.append("llguidance / llgx, common cases\n" + format_table(("", *_COLUMNS), ratios))
    outcomes = [
        (engine, *(counts.get(name, 0) for name in ("pass", *list(OUTCOMES.values())[1:4])))
        for engine, counts in figures.outcomes.items()
    ]
    header = ("engine", "pass", *list(OUTCOMES.values())[1:4])
    parts.append("Outcomes of this run\n" + format_table(header, outcomes))
    parts.append(_memory(figures))
    for title, places in (("masks", figures.masks), ("starts", figures.starts)):
        table = format_table(("engine", "us", "where"), [dataclasses.astuple(p) for p in places])
        parts.append(f"The slowest {title}\n{table}")
    if counts is not None:
        parts.append(_counts(counts))
    verdicts = bars(figures)
    if verdicts:
        parts.append(format_table(("verdict", "goal", "measured"), verdicts))
    return "\n\n".join(parts)


def as_json(figures: Figures) -> dict[str, Any]:
    """The figures as JSON takes them: pairs that are keys become "kind engine"."""
    return {
        field.name: {
            " ".join(key) if isinstance(key, tuple) else key: _plain(value)
            for key, value in current.items()
        }
        if isinstance(current := getattr(figures, field.name), dict)
        else _plain(current)
        for field in dataclasses.fields(figures)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return dataclasses.asdict(value) if isinstance(value, (Place, Summary)) else value


def _time_rows(
    summaries: Mapping[tuple[str, str], Summary], which: str, cases: str
) -> list[tuple[Any, ...]]:
    return [
        (engine, cases, summary.count, *(getattr(summary, column) for column in _COLUMNS))
        for (kind, engine), summary in summaries.items()
        if kind == which
    ]


def _memory(figures: Figures) -> str:
    lines = [
        f"memory of a compiled grammar after its documents, {engine}: median "
        f"{summary.p50 / 1e3:.2f} MB, p99 {summary.p99 / 1e3:.2f}, max {summary.max / 1e3:.2f}"
        for engine, summary in figures.memory.items()
    ]
    lines += [
        f"growth of the process while {engine} was at work: {growth:.0f} MB"
        for engine, growth in figures.growth.items()
    ]
    return "\n".join(lines)


def _counts(counts: MaskCounts) -> str:
    lines = [
        f"masks compared: {counts.positions:,}; equal {counts.equal:,}; llgx allows more at "
        f"{counts.more:,}, less at {counts.fewer:,}",
        *counts.where[:_WORST],
    ]
    return "\n".join(lines)
