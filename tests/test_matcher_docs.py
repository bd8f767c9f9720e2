"""The program of docs/matcher.md runs, and its tables name what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import llgx

DOCS = Path(__file__).resolve().parent.parent / "docs"
PATH = DOCS / "matcher.md"
TEXT = PATH.read_text(encoding="utf-8")
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def test_the_program_runs() -> None:
    names: dict[str, Any] = {"__name__": "example"}
    assert len(BLOCKS) > 8
    for block in BLOCKS:
        # So that a traceback has the line of the page.
        code = "\n" * TEXT.count("\n", 0, block.start(1)) + block[1]
        exec(compile(code, str(PATH), "exec"), names)


@pytest.mark.parametrize(
    "kind", [llgx.Vocabulary, llgx.CompiledGrammar, llgx.Matcher, llgx.Capture, llgx.Explanation]
)
def test_every_public_member_is_spoken_of(kind: type) -> None:
    inside = {"trie", "kept_for"}
    for name in (name for name in dir(kind) if not name.startswith("_")):
        assert name in inside or re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", TEXT), name


@pytest.mark.parametrize("kind", [llgx.Limits, llgx.Shortcuts])
def test_every_limit_and_shortcut_is_spoken_of(kind: Any) -> None:
    for field in dataclasses.fields(kind):
        assert f"`{field.name}`" in TEXT, field.name


def test_every_error_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", TEXT.partition("\n## Errors\n")[2], re.MULTILINE))
    errors = {name for name in llgx.__all__ if name.endswith(("Error", "Rejected"))}
    assert named == errors - {"LlgxError"}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (DOCS / target).exists(), target
