"""Warnings reach whoever runs a grammar, and the level variable silences them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

import llgx
from llgx.log import LEVEL_VARIABLE, logger, set_level

SWALLOWS = 'start: /a+/ "a"'
PROGRAM = f"""
import llgx
tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
vocabulary = llgx.Vocabulary.from_tokens(tokens, eog=[256], special=[256])
llgx.Grammar.from_lark({SWALLOWS!r}).compile(vocabulary)
"""


def run(level: str | None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != LEVEL_VARIABLE}
    if level is not None:
        environment[LEVEL_VARIABLE] = level
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment,
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("level", [None, "1", "2"])
def test_a_program_without_handlers_sees_warnings(level: str | None) -> None:
    assert run(level).startswith("grammar: the terminal /a+/ in rule 'start' takes in")


def test_level_zero_is_silent() -> None:
    assert run("0") == ""


@pytest.mark.parametrize("level", ["loud", "-1", ""])
def test_a_level_that_is_none_is_said_and_changes_nothing(level: str) -> None:
    shown = run(level)
    assert shown.startswith(f"{LEVEL_VARIABLE} is a number from 0 on, not {level!r}")
    assert "the terminal /a+/" in shown


def test_levels() -> None:
    before = logger.level
    try:
        for value, level in (("2", logging.INFO), ("3", logging.DEBUG), ("9", logging.DEBUG)):
            set_level(value)
            assert logger.level == level
        set_level(None)
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


def test_each_compilation_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    vocabulary = llgx.Vocabulary.from_tokens([b"a", b"b", b""], eog=[2])
    grammar = llgx.Grammar.from_lark(SWALLOWS)
    assert not caplog.records
    grammar.compile(vocabulary)
    grammar.compile(vocabulary)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    llgx.Grammar.from_lark('start: /a+/ "b"').compile(vocabulary)
    assert len(caplog.records) == 1
