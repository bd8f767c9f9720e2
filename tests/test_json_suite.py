"""The JSON Schema Test Suite, all drafts: outcomes as in ``data/json-suite.ratchet`` or better.

    python bench/maskbench.py --coverage SUITE --resources REMOTES \\
        --ratchet tests/data/json-suite.ratchet

shows what changed; with ``--write`` it writes the file anew.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import json_cases
import json_outcomes
import ratchet

from tests.shared_data import data_file

SUITE = data_file("json-schema-suite.jsonl.gz")
REMOTES = data_file("json-schema-suite-remotes.json.gz")
RATCHET = Path(__file__).parent / "data" / "json-suite.ratchet"
DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")


@functools.cache
def results() -> tuple[json_outcomes.Result, ...]:
    options = {"resources": json_cases.load_resources(REMOTES)}
    setting = json_outcomes.Setting(options=options)
    return tuple(json_outcomes.judge_all(json_cases.load(SUITE), setting, workers=2))


def _letters(draft: str, *, optional: bool) -> Counter[str]:
    return Counter(
        letter
        for result in results()
        if result.case.startswith(f"{draft}/")
        and result.case.startswith(f"{draft}/optional/") == optional
        for letter in result.letters
    )


def test_no_outcome_is_worse_than_before() -> None:
    expected = ratchet.read(RATCHET)
    assert set(expected) == {result.case for result in results()}
    changes = ratchet.compare(expected, results())
    assert [str(change) for change in changes if change.is_worse] == []


def test_nothing_is_wrongly_accepted_and_nothing_crashes() -> None:
    bad = {json_outcomes.WRONG_ACCEPT, json_outcomes.CRASH}
    assert [result for result in results() if bad & set(result.letters)] == []


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(("optional", "share"), [(False, 0.97), (True, 0.90)])
def test_share_that_passes(draft: str, optional: bool, share: float) -> None:
    letters = _letters(draft, optional=optional)
    assert sum(letters.values()) > 100
    assert letters[json_outcomes.PASS] >= share * sum(letters.values()), letters
