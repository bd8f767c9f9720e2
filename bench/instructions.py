"""Instructions, counted by callgrind, of fixed work: regressions that a clock cannot show.

    instructions.py                  count, and compare with instructions.json
    instructions.py --write          write that file anew

The work is a few phases on the Llama 3 vocabulary: reading and compiling grammars and schemas,
masks of states that are new, masks of states that are known. A run under valgrind takes about a
minute. Counts repeat to a percent for the same machine code, Python and C library; elsewhere they
differ by more, so a file counts only where Python, compiler and platform are those that it names:
elsewhere nothing is compared, and said so. llama.cpp is compiled for the processor at hand, which
valgrind may not know all of: tokens are looked up beforehand.

A phase that takes over 5 % more than the file says is a regression (exit status 1). One that takes
over 10 % less is said to be one to write down. Exit status 2: valgrind is not there, or bad usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import pickle
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import corpus
import harness

import llgx

__all__ = ["FILE", "PHASES", "compare", "count", "environment", "main"]

FILE: Final = pathlib.Path(__file__).with_name("instructions.json")
_WORSE: Final = 1.05
_BETTER: Final = 0.90
_WORK: Final = "--work"

_SCHEMAS: Final[tuple[tuple[Any, Any], ...]] = (
    (
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 40},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "email": {"type": "string", "format": "email"},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        {"name": "Ada Lovelace", "age": 36, "email": "ada@example.org", "tags": ["a", "b c"]},
    ),
    (
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4,8}$"},
                "born": {"type": "string", "format": "date"},
                "at": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
                "score": {"type": "number", "minimum": -1, "maximum": 1},
            },
            "required": ["id", "born"],
            "$defs": {
                "place": {
                    "type": "object",
                    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                    "required": ["x", "y"],
                }
            },
        },
        {"id": "AB-12345", "born": "1815-12-10", "at": {"x": 1.5, "y": -2}, "score": 0.25},
    ),
    (
        {"type": "array", "items": {"oneOf": [{"enum": ["red", "green"]}, {"type": "boolean"}]}},
        ["red", True, "green", False],
    ),
    ({}, {"anything": [1, {"nested": ["x", None]}], "text": "quite a long text, with commas"}),
)


def _schemas() -> list[llgx.Grammar]:
    return [llgx.Grammar.from_json_schema(schema) for schema, _ in _SCHEMAS]


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """What llama.cpp is needed for."""

    tokens: tuple[bytes, ...]
    eog: tuple[int, ...]
    special: tuple[int, ...]
    text: tuple[int, ...]
    documents: tuple[tuple[int, ...], ...]

    @classmethod
    def read(cls) -> Input:
        vocabulary = llgx.Vocabulary.from_gguf(harness.default_vocabulary())
        texts = [corpus.load("clike", 1).texts[0][1]]
        texts += [json.dumps(document).encode() for _, document in _SCHEMAS]
        text, *documents = (tuple(vocabulary.tokenize(text)) for text in texts)
        return cls(
            tuple(vocabulary.tokens),
            tuple(vocabulary.eog),
            tuple(vocabulary.special),
            text,
            tuple(documents),
        )


def phases(given: Input) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is counted, each phase on what those before it have built."""
    vocabulary = llgx.Vocabulary.from_tokens(given.tokens, eog=given.eog, special=given.special)
    mask = llgx.allocate_token_bitmask(1, len(vocabulary))
    case = corpus.load("clike", 1)
    llgx.schema_cache.limit = 0  # each schema is read each time
    # What is made once in a process is not counted: modules, the trie, loop tables.
    warm = llgx.Grammar.from_lark('start: "a" | /[^b]+/ "b"').compile(vocabulary)
    llgx.Matcher(warm).fill_bitmask(mask)
    _schemas()[0].compile(vocabulary)
    compiled: list[llgx.CompiledGrammar] = []

    def walk(grammar: llgx.CompiledGrammar, ids: Sequence[int]) -> None:
        matcher = llgx.Matcher(grammar)
        for token in ids:
            matcher.fill_bitmask(mask)
            matcher.consume(token)

    def read_lark() -> None:
        compiled.append(llgx.Grammar.from_lark(case.grammar).compile(vocabulary))

    def read_schemas() -> None:
        for _ in range(10):
            compiled[1:] = [grammar.compile(vocabulary) for grammar in _schemas()]

    def visit_documents() -> None:
        for grammar, document in zip(compiled[1:], given.documents, strict=True):
            walk(grammar, document)

    def visit_documents_again() -> None:
        for _ in range(50):
            visit_documents()

    def visit_text_again() -> None:
        for _ in range(5):
            walk(compiled[0], given.text)

    yield "read and compile a Lark grammar", read_lark
    yield "first visits, C-like", lambda: walk(compiled[0], given.text)
    yield "later visits, C-like", visit_text_again
    yield "read and compile JSON Schemas", read_schemas
    yield "first visits, JSON", visit_documents
    yield "later visits, JSON", visit_documents_again


PHASES: Final = (
    "read and compile a Lark grammar",
    "first visits, C-like",
    "later visits, C-like",
    "read and compile JSON Schemas",
    "first visits, JSON",
    "later visits, JSON",
)


def _work(path: pathlib.Path) -> None:
    """The phases, below callgrind: its counters are dumped and set to zero around each."""
    given: Input = pickle.loads(path.read_bytes())
    dump = ["callgrind_control", "--dump", str(os.getpid())]
    for _, phase in phases(given):
        subprocess.run(dump, check=True, capture_output=True)
        phase()
        subprocess.run(dump, check=True, capture_output=True)


def count() -> dict[str, int]:
    """Instructions by phase. ``RuntimeError`` where valgrind fails."""
    with tempfile.TemporaryDirectory() as directory:
        output = pathlib.Path(directory) / "counts"
        given = pathlib.Path(directory) / "input"
        given.write_bytes(pickle.dumps(Input.read()))
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        command += [sys.executable, __file__, _WORK, str(given)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        if done.returncode:
            raise RuntimeError(f"valgrind failed: {done.stderr[-2000:]}")
        return {
            name: _summary(pathlib.Path(f"{output}.{2 * place + 2}"))
            for place, name in enumerate(PHASES)
        }


def _summary(path: pathlib.Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", path.read_text("utf-8"), re.MULTILINE)
    assert found is not None, path
    return int(found[1])


def environment() -> dict[str, str]:
    """What has to be equal for counts to be comparable."""
    return {
        "python": platform.python_version(),
        "compiler": platform.python_compiler(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
    }


def compare(before: dict[str, int], after: dict[str, int]) -> tuple[list[str], list[str]]:
    """Phases that take more, and phases that take less, each with its figures."""
    worse, better = [], []
    for name, instructions in after.items():
        ratio = instructions / before[name] if name in before else float("inf")
        line = f"{name}: {instructions:,} instructions, {ratio:.3f} of what {FILE.name} says"
        if ratio > _WORSE:
            worse.append(line)
        elif ratio < _BETTER:
            better.append(line)
    return worse, better


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="instructions.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name} anew")
    parser.add_argument(_WORK, type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work is not None:
        _work(options.work)
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is not there", file=sys.stderr)
        return 2
    counts = count()
    for name, instructions in counts.items():
        print(f"{instructions:>14,}  {name}")
    if options.write:
        content = {"environment": environment(), "instructions": counts}
        FILE.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return 0
    known = json.loads(FILE.read_text("utf-8"))
    if known["environment"] != environment():
        print(f"not compared: {FILE.name} is of {known['environment']}, this is {environment()}")
        return 0
    worse, better = compare(known["instructions"], counts)
    for line in better:
        print(f"better, to be written down: {line}")
    for line in worse:
        print(f"worse: {line}")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
