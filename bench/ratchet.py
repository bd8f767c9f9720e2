"""Ratchet files: the outcome of each case, committed, that may only get better.

A line holds the outcome letters of a case, one for each document, and its id; lines are sorted by
id. Invariant: a file is the same whoever writes it, so its differences are differences of outcomes.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

from json_outcomes import OUTCOMES, Result

__all__ = ["Change", "compare", "read", "write"]

_RANKS = {letter: rank for rank, letter in enumerate(OUTCOMES)}


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A case whose letters are not those of the file; ``before`` is "" for a new case."""

    case: str
    before: str
    after: str

    @property
    def is_worse(self) -> bool:
        """Whether a document got worse, or the case has other documents than it had."""
        if len(self.before) != len(self.after):
            return True
        pairs = zip(self.before, self.after, strict=True)
        return any(_RANKS[after] > _RANKS[before] for before, after in pairs)

    def __str__(self) -> str:
        return f"{self.case}: {self.before or 'not in the file'} -> {self.after}"


def read(path: pathlib.Path) -> dict[str, str]:
    """Letters by case; ``ValueError`` names a line that is none, ``OSError`` as usual."""
    outcomes = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        letters, _, case = line.partition(" ")
        if not letters or not case or not set(letters) <= set(OUTCOMES):
            raise ValueError(f"{path}, line {number}: no outcome: {line!r}")
        outcomes[case] = letters
    return outcomes


def write(path: pathlib.Path, results: Iterable[Result]) -> None:
    """Write the file anew from ``results``."""
    lines = sorted((result.case, result.letters) for result in results)
    text = "".join(f"{letters} {case}\n" for case, letters in lines)
    path.write_text(text, encoding="utf-8")


def compare(expected: Mapping[str, str], results: Iterable[Result]) -> list[Change]:
    """What ``results`` change about the file, what is worse first; other cases stay as they are."""
    changes = [
        Change(result.case, expected.get(result.case, ""), result.letters)
        for result in results
        if expected.get(result.case) != result.letters
    ]
    return sorted(changes, key=lambda change: (not change.is_worse, change.case))
