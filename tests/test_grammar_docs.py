"""The examples of docs/gbnf.md and docs/structural-tags.md run."""

from __future__ import annotations

import pathlib
import re

import pytest

import llgx

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGES = ("gbnf.md", "structural-tags.md")


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    blocks = _blocks(page, "python")
    assert len(blocks) > 1
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "example"})


def test_grammars_are_read() -> None:
    (block,) = _blocks("gbnf.md", "gbnf")
    vocabulary = llgx.Vocabulary.from_tokens([bytes((byte,)) for byte in range(256)])
    compiled = llgx.Grammar.from_gbnf(block).compile(vocabulary)
    for text in (b"1\n", b"1\n\n", b"( 2 \n)\n\n3 \n"):
        assert llgx.Matcher(compiled).match_bytes(text) == (len(text), True)


def test_the_table_of_escapes_is_true() -> None:
    """Each escape of the table is read, in strings and in classes."""
    row = next(
        line for line in (DOCS / "gbnf.md").read_text().splitlines() if "escapes, in" in line
    )
    escapes = re.findall(r"\\[^ `]", row)
    assert len(escapes) == 8
    for escape in escapes:
        llgx.Grammar.from_gbnf(f'root ::= "{escape}" [{escape}]')
