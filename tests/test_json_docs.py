"""The examples of docs/json-schema.md run, and its tables name what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from llgx.json_schema.dialects import DEFAULT
from llgx.json_schema.numbers import NumberSpelling
from llgx.json_schema.options import Options

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEXT = (DOCS / "json-schema.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def _first_cells(heading: str) -> set[str]:
    """Names in code type in the first cells of the table below ``heading``."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number: int) -> None:
    code = compile(EXAMPLES[number], f"json-schema.md, example {number}", "exec")
    exec(code, {"__name__": "example"})


def test_every_keyword_is_in_the_table() -> None:
    named = _first_cells("Keywords")
    assert set(DEFAULT.keywords) <= named
    assert {"then", "else", "title", "default"} <= named


def test_every_option_is_in_the_table() -> None:
    assert _first_cells("How the text looks") == {
        field.name for field in dataclasses.fields(Options)
    }


def test_every_field_of_number_spellings_is_in_the_table() -> None:
    assert _first_cells("How numbers look") == {
        field.name for field in dataclasses.fields(NumberSpelling)
    }


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (DOCS / target).exists(), target
