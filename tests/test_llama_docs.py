"""The program of docs/llama-cpp-python.md runs, with a real model, and its tables are true."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

import llgx
from llgx.llama import hooks

DOCS = Path(__file__).resolve().parent.parent / "docs"
PATH = DOCS / "llama-cpp-python.md"
TEXT = PATH.read_text(encoding="utf-8")
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
SCHEMA = {"enum": ["a", "b"]}
LARK = '%llguidance {}\nstart: "a" | "b"'
GBNF = 'root ::= "a" | "b"'


@pytest.fixture(scope="module")
def names(gemma_path: Path) -> Iterator[dict[str, Any]]:
    """What the program has made, its output and its model."""
    found: dict[str, Any] = {"__name__": "example"}
    output = io.StringIO()
    opening = 'Llama("model.gguf"'
    assert TEXT.count(opening) == 1
    # More threads than one wait for each other on a busy machine.
    real = f"Llama({str(gemma_path)!r}, n_ctx=512, n_threads=1, n_threads_batch=1"
    try:
        with contextlib.redirect_stdout(output):
            for block in BLOCKS:
                code = "\n" * TEXT.count("\n", 0, block.start(1)) + block[1].replace(opening, real)
                exec(compile(code, str(PATH), "exec"), found)
        yield {**found, "output": output.getvalue()}
    finally:
        llgx.uninstall()
        if "llm" in found:
            found["llm"].close()


def test_the_program_runs(names: dict[str, Any]) -> None:
    assert len(BLOCKS) == 7
    people = re.findall(r"\{[^{}]*\}", names["output"])
    assert len(people) >= 5
    for person in people:
        names["Person"].model_validate_json(person)
    assert "Person(name=" in names["output"]
    assert json.loads(names["answer"]["choices"][0]["text"])


def _grammars() -> dict[str, Any]:
    return {
        "Lark text": LARK,
        "GBNF text": GBNF,
        "`llgx.Grammar`": llgx.Grammar.from_lark(LARK),
        "JSON Schema": SCHEMA,
        "Python type": list[int],
    }


def test_the_table_of_calls_is_true(names: dict[str, Any]) -> None:
    """What the table says is taken is taken, the rest is an error."""
    llm: llama_cpp.Llama = names["llm"]
    vocabulary = llgx.Vocabulary.from_llama(llm)
    table = TEXT.partition("## What each call takes\n\n")[2].partition("\n\n")[0].splitlines()
    columns = [cell.strip() for cell in table[0].split("|")[2:-1]]
    given = {**_grammars(), "`CompiledGrammar`": llgx.Grammar.from_lark(LARK).compile(vocabulary)}
    assert set(columns) == set(given)
    calls: dict[str, Any] = {
        "grammar=": lambda g: llm.create_completion("x", grammar=g, max_tokens=1),
        "from_string": llgx.LlamaGrammar.from_string,
        "from_grammar": llgx.LlamaGrammar.from_grammar,
        "from_json_schema": llgx.LlamaGrammar.from_json_schema,
        "generate": lambda g: llgx.generate(llm, "x", g, max_tokens=1),
        "logits_processors": lambda g: llgx.logits_processors(llm, g),
        "sampler": lambda g: llgx.sampler(llm, g),
    }
    tried = set()
    for line in table[2:]:
        name, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        for call in (call for call in calls if call in re.findall(r"[\w=]+", name)):
            tried.add(call)
            for column, cell in zip(columns, cells, strict=True):
                with contextlib.ExitStack() as stack:
                    hooks.remove_hook()
                    if "install()" in cell:
                        stack.enter_context(llgx.install())
                    if cell == "no":
                        stack.enter_context(
                            pytest.raises((TypeError, ValueError, AttributeError, llgx.LlgxError))
                        )
                    calls[call](given[column])
    assert tried == set(calls)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (DOCS / target).exists(), target
