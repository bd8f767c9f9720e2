"""Instruction counts of fixed work stay what they were: the bench, and what it concludes."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import instructions


def test_what_counts_as_worse() -> None:
    before = {"a": 100, "b": 100, "c": 100, "d": 100}
    worse, better = instructions.compare(before, {"a": 105, "b": 106, "c": 90, "d": 89, "e": 1})
    assert [line.partition(":")[0] for line in worse] == ["b", "e"]
    assert [line.partition(":")[0] for line in better] == ["d"]


def test_the_file_has_each_phase() -> None:
    known = json.loads(instructions.FILE.read_text("utf-8"))
    assert tuple(known["instructions"]) == instructions.PHASES
    assert min(known["instructions"].values()) > 5_000_000
    assert known["environment"].keys() == instructions.environment().keys()


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_no_phase_takes_more_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    assert instructions.main([]) == 0, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert all(name in shown for name in instructions.PHASES)
