"""``examples/demo.py`` as a command: its text, its report and its error messages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import llgx

EXAMPLES = Path(__file__).parents[1] / "examples"
GRAMMARS = sorted((EXAMPLES / "grammars").glob("*.lark"))


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--threads=1", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("path", GRAMMARS, ids=lambda path: path.stem)
def test_example_grammars_are_valid(path: Path) -> None:
    llgx.Grammar.from_lark(path.read_text("utf-8"))
    assert path.with_suffix(".txt").exists()


def test_text_follows_the_grammar(gemma_path: Path, tmp_path: Path) -> None:
    grammar = tmp_path / "list.lark"
    grammar.write_text('start: ("- " /[a-z]{2,12}/ "\\n"){3}\n', encoding="utf-8")
    done = demo("--model", gemma_path, "--grammar", grammar, "--prompt", "Fruit:\n")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(- [a-z]{2,12}\n){3}", done.stdout)
    assert re.search(r"with llgx +\d+\.\d tokens/s", done.stderr)
    assert re.search(r"without llgx +\d+\.\d tokens/s", done.stderr)
    assert re.search(r"spent on masks +\d+\.\d ms", done.stderr)


def test_text_that_is_cut_is_said_to_be(gemma_path: Path, tmp_path: Path) -> None:
    grammar = tmp_path / "long.lark"
    grammar.write_text("start: /[a-z]{200}/\n", encoding="utf-8")
    done = demo("--model", gemma_path, "--grammar", grammar, "--prompt", "a", "--max-tokens", "5")
    assert done.returncode == 0, done.stderr
    assert "cut at 5 tokens" in done.stderr
    assert re.search(r"^5 tokens under the grammar$", done.stderr, re.MULTILINE)


def test_bad_grammar_is_shown_with_a_caret(tmp_path: Path) -> None:
    grammar = tmp_path / "bad.lark"
    grammar.write_text('start: "a" )\n', encoding="utf-8")
    done = demo("--grammar", grammar)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "line 1, column 12" in done.stderr
    assert '\nstart: "a" )\n           ^\n' in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grammar", "no/such.lark"), "cannot read the grammar no/such.lark"),
        (("--model", "no/such.gguf"), "there is no model at no/such.gguf"),
        (("--max-tokens", "0"), "invalid positive value"),
        (("--max-tokens", "4096"), "do not fit into 4096 tokens"),
    ],
)
def test_bad_arguments_are_one_message(arguments: tuple[str, ...], message: str) -> None:
    done = demo(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
