"""Runs the examples of docs/grammar.md: each grammar, and the texts below it.

A block may say more behind ``lark``: ``module=name`` makes it one that later blocks import, and
with ``tokens`` the special tokens in the texts below it are tokens.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

import llgx
from llgx.lark.common import COMMON

_DOC: Final = pathlib.Path(__file__).parent.parent / "docs" / "grammar.md"
_BLOCK: Final = re.compile(
    r"^```lark([^\n]*)\n(.*?)^```\n((?:(?:Matches|Not|Error): [^\n]*\n)*)", re.M | re.S
)
_QUOTED: Final = re.compile(r"`([^`]*)`")
_SPECIAL: Final = ["</s>", "<think>", "</think>", "<tool>"]


class Example(NamedTuple):
    line: int
    grammar: str
    matches: list[str]
    others: list[str]
    error: str
    imports: dict[str, str]
    tokens: bool


def _examples() -> Iterator[Example]:
    text = _DOC.read_text()
    modules: dict[str, str] = {}
    for block in _BLOCK.finditer(text):
        info, grammar, below = block.groups()
        words = info.split()
        names = [word.removeprefix("module=") for word in words if word.startswith("module=")]
        if names:
            modules[names[0]] = grammar
            continue
        said: dict[str, list[str]] = {"Matches": [], "Not": [], "Error": []}
        for line in below.splitlines():
            kind, _, rest = line.partition(": ")
            said[kind] += _QUOTED.findall(rest)
        yield Example(
            text.count("\n", 0, block.start()) + 1,
            grammar,
            [json.loads(item) for item in said["Matches"]],
            [json.loads(item) for item in said["Not"]],
            "".join(said["Error"]),
            dict(modules),
            "tokens" in words,
        )


_EXAMPLES: Final = list(_examples())


def _vocabulary() -> llgx.Vocabulary:
    tokens = [*(bytes([byte]) for byte in range(256)), *map(str.encode, _SPECIAL)]
    return llgx.Vocabulary.from_tokens(tokens, eog=256, special=range(257, len(tokens)))


def _tokens(text: str, special: bool) -> list[int]:
    if not special:
        return list(text.encode())
    found: list[int] = []
    for piece in re.split("(" + "|".join(_SPECIAL) + ")", text):
        found += [256 + _SPECIAL.index(piece)] if piece in _SPECIAL else list(piece.encode())
    return found


def test_there_are_examples() -> None:
    assert len(_EXAMPLES) > 30
    assert sum(len(item.matches) + len(item.others) for item in _EXAMPLES) > 100
    assert all(item.matches or item.others or item.error for item in _EXAMPLES)


@pytest.mark.parametrize("example", _EXAMPLES, ids=[f"line {item.line}" for item in _EXAMPLES])
def test_example(example: Example) -> None:
    if example.error:
        with pytest.raises(llgx.GrammarError) as caught:
            llgx.Grammar.from_lark(example.grammar, imports=example.imports)
        assert example.error in caught.value.message
        return
    grammar = llgx.Grammar.from_lark(example.grammar, imports=example.imports)
    assert grammar.warnings == ()
    compiled = grammar.compile(_vocabulary())
    for text in example.matches + example.others:
        matcher = llgx.Matcher(compiled)
        tokens = _tokens(text, example.tokens)
        complete = matcher.try_consume(tokens) == len(tokens) and matcher.is_accepting()
        assert complete == (text in example.matches), text


def test_python_blocks_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", _DOC.read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, str(_DOC), "exec"), {"__name__": "example"})


def test_the_reference_is_complete() -> None:
    """Every option, attribute, function of parameters and imported name is spoken of."""
    from llgx.lark import parameters, parser, regex_object

    text = _DOC.read_text()
    names = {*parser._OPTIONS, *parser._ATTRIBUTES, *COMMON} - {"_EXP"}
    names |= {*regex_object._SUBSTRINGS, *regex_object._NUMBER_KEYS}
    names |= parameters._BIT_ARGUMENTS | parameters._MASK_ARGUMENTS | parameters._SLICE_ARGUMENTS
    names |= {"bit_count_eq", "is_ones", "is_zeros", "%import", "%ignore", "%declare", "%lark"}
    missing = [name for name in sorted(names) if not re.search(rf"(?<!\w){name}(?!\w)", text)]
    assert missing == []
    # Of terminals that only have other names in the library, one example will do.
    grammars = "\n".join(item.grammar for item in _EXAMPLES)
    names -= COMMON.keys()
    missing = [name for name in sorted(names) if not re.search(rf"(?<!\w){name}(?!\w)", grammars)]
    assert missing == []
