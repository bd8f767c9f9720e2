"""The programs in ``examples/`` run and print what they say; ``demo.py`` is in ``test_demo``."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str) -> str:
    root = str(EXAMPLES.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _model(gemma_path: Path) -> None:
    """Put together before the first program asks for it."""


def test_completion() -> None:
    line = "- [A-Z][a-z]{2,10}( [A-Z][a-z]{2,10})?, 1[5-9][0-9]{2}\n"
    assert re.fullmatch(f"({line}){{3}}", run("completion"))


def test_chat() -> None:
    answer = json.loads(run("chat"))
    assert list(answer) == ["dish", "minutes", "difficulty"]
    assert re.fullmatch("[A-Za-z][a-z ]+", answer["dish"])
    assert 5 <= answer["minutes"] <= 240


def test_tools() -> None:
    assert run("tools") == "add(12, 30) = 42\n"


def test_stream_pydantic() -> None:
    *plans, end = run("stream_pydantic").splitlines()
    assert re.fullmatch(r"\d+ tokens; closed early: (True|False)", end)
    assert len(plans) > 3
    assert plans[0] != plans[-1]
    assert re.fullmatch(
        r"title='.*' mood='(calm|busy)' steps=\[(Step\(what='.*', minutes=\d{1,3}\)(, )?){1,3}\]",
        plans[-1],
    )
    assert "None" in plans[0]


def test_server_client() -> None:
    weather, refusal = run("server_client").splitlines()
    assert re.fullmatch(
        r"Weather\(place='[A-Z][a-z]+', sky='(sunny|cloudy|rainy)', degrees=-?\d+\)", weather
    )
    assert refusal.startswith("HTTP 400: line 2, column")


def test_thinking() -> None:
    thought, answer = run("thinking").splitlines()
    thought = ast.literal_eval(thought.removeprefix("thought: "))
    assert thought.endswith("</think>")
    assert "<think>" not in thought
    assert ast.literal_eval(answer.removeprefix("answer: ").strip()) == {"kind": "bird"}


def test_gbnf() -> None:
    lines = run("gbnf").splitlines()
    games = []
    for line, engine in zip(lines, ("llama.cpp", "llgx"), strict=False):
        match = re.fullmatch(rf"{engine} +[0-9.]+ s  (.*)", line)
        assert match
        games.append(match[1])
        assert re.match(r"([NBRQK]?[a-h][1-8]|O-O)( |$)", games[-1])
    assert games[0] == games[1]
    assert any("root" in line or "start" in line for line in lines[2:])


def test_batch() -> None:
    code, colour, items = run("batch").splitlines()
    assert re.fullmatch("[A-Z]{2}-[0-9]{3}", code)
    assert colour in ("red", "green", "blue")
    assert set(json.loads(items)) <= {1, 2}
