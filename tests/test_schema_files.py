"""Descriptions as bytes, and grammars that outlive the process in files."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import llgx
from llgx import ir_text, schema_files
from llgx.grammar import Grammar
from llgx.ir import (
    ANY_BYTE,
    EMPTY,
    Complement,
    Concat,
    Condition,
    GrammarIR,
    Literal,
    ParamExpr,
    Production,
    Remainder,
    Repeat,
    Rule,
    RuleRef,
    Substring,
    Terminal,
    TerminalRef,
    TokenSet,
)
from tests.json_schemas import random_schema
from tests.strategies import random_grammar, random_scoped_grammar

# Takes the algebra some milliseconds: every pair of branches has to be told apart.
_SLOW: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "properties": {f"k{i}": {"type": "string", "pattern": f"^[a-z]{{{i}}}$"}},
        }
        for i in range(1, 9)
    ],
    "minProperties": 1,
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    llgx.schema_cache.clear()
    yield
    llgx.schema_cache.clear()
    llgx.schema_cache.directory = None


@pytest.fixture
def directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A directory that is in use and not there yet; every schema is worth a file."""
    monkeypatch.setattr("llgx.cache.WORTH", 0.0)
    llgx.schema_cache.directory = tmp_path / "new" / "cache"
    return tmp_path / "new" / "cache"


def _compiled_again(schema: Any, **options: Any) -> GrammarIR:
    llgx.schema_cache.clear()
    return Grammar.from_json_schema(schema, **options).ir


def _refused() -> None:
    raise AssertionError("compiled, though there is a file")


@pytest.mark.parametrize("seed", range(120))
def test_what_was_written_is_read(seed: int) -> None:
    rng = random.Random(seed)
    ir = random_scoped_grammar(rng) if seed % 4 == 0 else random_grammar(rng)
    assert ir_text.loads(ir_text.dumps(ir)) == ir


def test_everything_that_a_description_may_say_is_written() -> None:
    shared = Concat((Literal(b"\x00\xff"), Repeat(ANY_BYTE, 2, None)))
    digits = Remainder(7, 3, 1, 9, 2, "zeros", "point")
    tail = Complement(Literal(b"x"))
    terminals = [
        Terminal("A", shared, lazy=True, tail=tail, hidden_tail=True),
        Terminal("B", Concat((shared, digits)), skip_class=1, scope="open", unique=True),
        Terminal("C", EMPTY, tokens=TokenSet(("<a>",), ((1, 4), (9, 9)), True, True)),
        Terminal("D", Literal("é".encode()), distinct=True, scope="close", ends_with_eog=True),
        Terminal("S", Repeat(Literal(b" "), 1, 3)),
        Terminal("P", Substring((b"a\xff", b"", b"b"))),
    ]
    both = Condition("and", items=(Condition("bit_set", 3), Condition("ge", 0, 8, 5)))
    one = [Production((TerminalRef(0), RuleRef(1, ParamExpr("incr", 0, 8)))), Production(())]
    two = [Production((TerminalRef(1),), both), Production((TerminalRef(3), TerminalRef(2)), both)]
    ir = GrammarIR(
        rules=[
            Rule("start", one, capture="c", tail_capture="t", max_tokens=4, temperature=0.5),
            Rule("", two, parametric=True),
        ],
        terminals=terminals,
        start=0,
        skip=[-1, 4],
        initial_skip=True,
        skip_once=True,
        forcing=False,
        warnings=["w"],
        skip_once_classes=frozenset((1,)),
        exact=False,
        max_tokens=9,
        unenforced=[("/a", "b", "c")],
        literals=["<a>"],
    )
    fields = {field.name for field in dataclasses.fields(GrammarIR)} - {"exact", "common", "start"}
    plain = GrammarIR([], [], 0)
    assert all(getattr(ir, name) != getattr(plain, name) for name in fields)
    again = ir_text.loads(ir_text.dumps(ir))
    assert again == ir
    # What was one object is one object again, so that it is lowered once.
    assert again.terminals[0].regex is again.terminals[1].regex.items[0]  # type: ignore[union-attr]


def test_deep_and_shared_trees_are_linear() -> None:
    tree: Any = Literal(b"ab")
    for _ in range(50_000):
        tree = Concat((tree, tree))  # 2 ** 50000 leaves
    ir = GrammarIR([Rule("s", [Production((TerminalRef(0),))])], [Terminal("A", tree)], 0)
    data = ir_text.dumps(ir)
    assert len(data) < 3_000_000
    assert ir_text.dumps(ir_text.loads(data)) == data


@pytest.mark.parametrize("seed", range(60))
def test_damaged_bytes_are_refused_or_sound(seed: int) -> None:
    """Whatever is changed in the text: a description that passes its check, or ``ValueError``."""
    rng = random.Random(seed)
    contents = json.loads(ir_text.dumps(random_grammar(rng)))
    for _ in range(60):
        changed = json.loads(json.dumps(contents))
        at: Any = changed
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.9:
                at = at[key]
                continue
            at[key] = rng.choice([None, -1, 10**30, "x", [], {}, True, 1.5, [[]], "concat"])
            break
        try:
            ir_text.loads(json.dumps(changed).encode()).check()
        except ValueError:
            continue


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"rules":1}']
)
def test_other_bytes_are_no_description(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json says what is wrong, in its own words
        ir_text.loads(data)


def test_a_file_saves_the_work(directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Grammar.from_json_schema(_SLOW).ir
    assert len(list(directory.iterdir())) == 1
    monkeypatch.setattr("llgx.json_schema.compile_schema", lambda *_a, **_k: _refused())
    assert _compiled_again(_SLOW) == first
    with pytest.raises(AssertionError, match="there is a file"):
        _compiled_again({**_SLOW, "minProperties": 2})


def test_a_limit_of_zero_keeps_files_still(directory: pathlib.Path) -> None:
    before, llgx.schema_cache.limit = llgx.schema_cache.limit, 0
    try:
        Grammar.from_json_schema(_SLOW)
        assert len(list(directory.iterdir())) == 1
        assert len(llgx.schema_cache) == 0
    finally:
        llgx.schema_cache.limit = before


def test_quick_schemas_are_not_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes less than it is worth: by a clock, so that the test moves the bar around it."""
    llgx.schema_cache.directory = tmp_path
    monkeypatch.setattr("llgx.cache.WORTH", 3600.0)
    _compiled_again(_SLOW)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("llgx.cache.WORTH", 0.0)
    _compiled_again(_SLOW)
    assert len(list(tmp_path.iterdir())) == 1


def test_options_limits_documents_and_types_have_files_of_their_own(
    directory: pathlib.Path,
) -> None:
    schema = {"const": 1, "$ref": "http://a/b"}
    uses: list[dict[str, Any]] = [
        {"resources": {"http://a/b": {}}},
        {"resources": {"http://a/b": True}},
        {"resources": {"http://a/b": {}}, "whitespace": "compact"},
        {"resources": {"http://a/b": {}}, "limits": llgx.Limits(rows=77)},
    ]
    for number, use in enumerate(uses, start=1):
        Grammar.from_json_schema(schema, **use)
        assert len(list(directory.iterdir())) == number
    Grammar.from_json_schema({"const": True})
    Grammar.from_json_schema({"const": 1})
    assert len(list(directory.iterdir())) == len(uses) + 2


_ELSEWHERE = """
import sys, llgx, llgx.cache
llgx.cache.WORTH = 0.0
llgx.schema_cache.directory = sys.argv[1]
if sys.argv[2] == "read":
    import llgx.json_schema
    llgx.json_schema.compile_schema = None
schema = '{"type": "object", "properties": {"a": {"format": "date"}}}'
grammar = llgx.Grammar.from_json_schema(schema, ignored_formats=["byte", "x", "y", "z"])
print(len(grammar.ir.rules))
"""


def test_another_process_reads_what_one_wrote(tmp_path: pathlib.Path) -> None:
    shown = []
    for number, what in enumerate(("write", "read", "read")):
        environment = {**os.environ, "PYTHONHASHSEED": str(number + 1)}
        shown.append(
            subprocess.run(
                [sys.executable, "-c", _ELSEWHERE, str(tmp_path), what],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert int(shown[0]) > 0
    assert shown[0] == shown[1] == shown[2]
    assert len(list(tmp_path.iterdir())) == 1


def test_random_schemas_mean_the_same(directory: pathlib.Path) -> None:
    rng = random.Random(3)
    compared = 0
    while compared < 60:
        schema = random_schema(rng)[1]
        try:
            first = _compiled_again(schema)
        except llgx.LlgxError:
            continue
        assert _compiled_again(schema) == first
        compared += 1
    assert directory.exists()


@pytest.mark.parametrize("damage", ["cut", "byte", "empty", "foreign", "bomb", "directory"])
def test_damaged_files_are_made_anew(
    directory: pathlib.Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = Grammar.from_json_schema(_SLOW).ir
    [path] = directory.iterdir()
    sound = path.read_bytes()
    if damage == "cut":
        path.write_bytes(sound[:-5])
    elif damage == "byte":
        path.write_bytes(sound[:99] + bytes((sound[99] ^ 1,)) + sound[100:])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        path.write_bytes(b"GIF89a" + sound)
    elif damage == "bomb":
        import hashlib
        import zlib

        data = zlib.compress(b"[" * 100_000_000)
        path.write_bytes(b"llgx grammar 1\n" + hashlib.sha256(data).digest() + data)
    else:
        path.unlink()
        path.mkdir()
    assert _compiled_again(_SLOW) == expected
    assert "schema cache" in caplog.text
    if damage != "directory":
        assert path.read_bytes() == sound
        assert [found.name for found in directory.iterdir()] == [path.name]


def test_a_directory_that_cannot_be_is_a_warning(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("llgx.cache.WORTH", 0.0)
    (tmp_path / "file").write_bytes(b"")
    llgx.schema_cache.directory = tmp_path / "file" / "below"
    assert Grammar.from_json_schema(_SLOW).ir.rules
    assert "cannot be" in caplog.text


def test_files_are_bounded(tmp_path: pathlib.Path) -> None:
    files = schema_files.SchemaFiles(tmp_path, 6_000)
    ir = Grammar.from_json_schema(_SLOW).ir
    for number in range(40):
        files.write((number,), ir)
        os.utime(next(iter(tmp_path.iterdir())), None)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 6_000
    assert files.read((39,)) == ir
    assert files.read((0,)) is None


def test_threads_write_and_read_the_same_files(directory: pathlib.Path) -> None:
    expected = Grammar.from_json_schema(_SLOW).ir
    files = schema_files.SchemaFiles(directory)
    wrong: list[object] = []

    def work() -> None:
        for number in range(30):
            files.write((number % 3,), expected)
            found = files.read((number % 3,))
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not list(directory.glob("*.part"))


@pytest.mark.parametrize("directory", [3, b"cache", ["cache"]])
def test_a_directory_is_a_path(directory: Any) -> None:
    with pytest.raises(TypeError, match="a directory is a path or None"):
        llgx.schema_cache.directory = directory


@pytest.mark.parametrize("directory", ["", "a\0b"], ids=["empty", "nul"])
def test_a_directory_has_a_name(directory: str) -> None:
    llgx.schema_cache.directory = "kept"
    with pytest.raises(ValueError, match="is no directory"):
        llgx.schema_cache.directory = directory
    assert llgx.schema_cache.directory == pathlib.Path("kept")
