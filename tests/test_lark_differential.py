"""Random Lark grammars against llguidance, mask by mask, over the vocabulary of Llama 3.

Each grammar is walked a few times: at every step both engines say which tokens may come, the two
answers are compared bit by bit, and one of the tokens is consumed. Grammars switch forcing off,
since llguidance otherwise allows one spelling of forced text only.

``LLGX_DIFFERENTIAL`` is the number of grammars (default 60) and ``LLGX_SEED`` where to start: a
campaign sets both. What the two are known to disagree on is listed in docs/departures.md and left
out by the generator, construct by construct; see :class:`_Author`.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any, Final

import engines
import numpy as np
import pytest

import llgx
from llgx.lark import compile_lark
from tests.ir_match import matches

llguidance = pytest.importorskip("llguidance")

_GRAMMARS: Final = int(os.environ.get("LLGX_DIFFERENTIAL", "60"))
_SEED: Final = int(os.environ.get("LLGX_SEED", "1"))
_WALKS: Final = 2
_STEPS: Final = 14

_REGEXES: Final = [
    *("[a-z]+", "[0-9]+", "[a-zA-Z_][a-zA-Z0-9_]*", "[^\\n]+", '[^"]*', ".", ".{1,4}", "a+"),
    *("[ab]{2,3}", "(ab|a)*b?", "\\d+(\\.\\d*)?", "(?-u:\\w)+", "[^a-c]", "(?i:yes|no)", "x{0,3}y"),
    *("[a-zà-öλ-ω]+", "[a-z]+(-[a-z]+)*", '(\\\\.|[^\\\\"])*', "\\s+", "[λ-ω]{1,3}", "(a|bc|d)+"),
]
_WORDS: Final = [
    *("a", "b", "ab", "abc", "if", "then", "(", ")", "[", "]", ",", ";", "=", "==", " ", "\\n"),
    *("the", "The ", "<", "</", '\\"', "{", "}", ": ", "é", "日本", "0", "12", "."),
]


_RUNS: Final = [
    '{"substring_words": "the cat, the dog and the  cat"}',
    '{"substring_chars": "abracadabra"}',
    '{"substring_chunks": ["if", " x", " then", " y", "if"]}',
]
_TOKENS: Final = [
    *("<|start_header_id|>", "<|reserved_special_token_3|>", "<[64]>", "<[64-90,1000-2000]>"),
    *("<[128010-128200]>", "<[5]>"),
]


_ONCE: Final = '%llguidance {"ignore_once": true}'


class _Author:
    """Writes a random grammar.

    Left out, since the two are known to differ there (docs/departures.md): what only one of them
    reads; rules without an end and terminals without a match, which llgx drops; skipping next to
    nested grammars; skipping that would come first, or once only, where a terminal may be empty;
    lazy lexemes of one byte; rules that a condition lets be empty, or leaves without an end; one
    rule with different parameters at one place.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._terminals: list[str] = []
        self._rules: list[str] = []
        self._skips = False
        self._uses = ["count::" + rng.choice(["0", "1", "0x4"]), "each::" + rng.choice("02")]

    def grammar(self, *, nested: bool = False) -> str:
        rng = self._rng
        self._skips = not nested and rng.random() < 0.4
        self._terminals = [f"T{i}" for i in range(rng.randint(0, 4))]
        self._rules = [f"r{i}" for i in range(rng.randint(1, 4))]
        start = f"start: {self._body(2)}"
        ignored: list[str] = []
        if self._skips:
            choices = ["/ +/", "/[ \\n]+/", '" "', "/#[^\\n]*\\n/"]
            ignored = ["%ignore " + item for item in rng.sample(choices, rng.choice([1, 1, 2]))]
            if rng.random() < 0.5:
                ignored.append('%llguidance {"allow_initial_skip": true}')
            else:
                start = f'start: "<" ({self._body(2)})'
            if rng.random() < 0.3:
                ignored.append(_ONCE)
        lines = [start] if nested else ['%llguidance {"no_forcing": true}', start]
        for index, name in enumerate(self._terminals):
            lines.append(f"{name}: {self._terminal_body(index)}")
        for name in self._rules:
            lines.append(self._rule(name, nested))
        if any("count::" in line for line in lines):
            lines.append(self._counter())
        if any("each::" in line for line in lines):
            lines.append(self._permutation())
        if _ONCE in ignored and _some_terminal_may_be_empty("\n".join(lines)):
            ignored.remove(_ONCE)
        return "\n".join(lines + ignored) + "\n"

    def _rule(self, name: str, nested: bool) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.1:
            return f'{name}[lazy]: "{rng.choice(["ab", "the", "=="])}" {self._regular(2)}'
        if kind < 0.2:
            suffix = rng.choice([self._string(), self._regex()])
            return f'{name}[suffix={suffix}]: "{rng.choice(["ab", "if"])}" {self._regular(1)}'
        if kind < 0.25:
            return f"{name}[capture]: {self._body(1)} | {self._string()}"
        if kind < 0.3:
            return f"{name}[temperature=0.5]: {self._regular(1)}"
        if kind < 0.36 and not nested and not self._skips:
            return f"{name}: %lark {{\n{_Author(rng).grammar(nested=True)}}}"
        return f"{name}: {self._body(2)} | {self._string()}"

    def _counter(self) -> str:
        """A rule that counts in its parameter; left-recursive or right-recursive."""
        rng = self._rng
        item = rng.choice([self._string(), "/[a-z]+/", f"({self._string()} {self._string()})"])
        step = rng.choice(["incr(_)", "incr([0:3])", "incr([2:5])"])
        part = "_" if step == "incr(_)" else step[5:-1]
        most = rng.randint(1, 4)
        condition = rng.choice(
            [
                f"ge({part}, {rng.randint(0, most)})",
                f"eq({part}, {rng.randint(0, most)})",
                f"not(lt({part}, {rng.randint(0, most)}))",
                f"bit_count_ge(_, {rng.randint(0, 2)})",
                f"le({part}, {rng.randint(0, most)})",
            ]
        )
        more = f"{item} count::{step} %if lt({part}, {most})"
        return f"count::_: {more} | {self._ends(condition)}"

    def _ends(self, condition: str) -> str:
        """One way to the end where a condition holds, another where it does not."""
        return f"{self._string()} %if {condition} | {self._string()} %if not({condition})"

    def _permutation(self) -> str:
        """A rule that derives some of its items, each at most once."""
        rng = self._rng
        items = [rng.choice([self._string(), "/[0-9]{1,3}/"]) for _ in range(rng.randint(2, 4))]
        bodies = [
            f"{item} each::set_bit({bit}) %if bit_clear({bit})" for bit, item in enumerate(items)
        ]
        every = f"[0:{len(items)}]"
        condition = rng.choice(
            [
                f"is_ones({every})",
                f"bit_count_{rng.choice(['ge', 'le', 'eq', 'gt', 'ne'])}({every}, 1)",
                "or(bit_set(0), and(bit_clear(0), bit_set(1)))",
                f"not(is_zeros({every}))",
            ]
        )
        return "each::_: " + " | ".join([*bodies, self._ends(condition)])

    def _string(self) -> str:
        return f'"{self._rng.choice(_WORDS)}"' + ("i" if self._rng.random() < 0.1 else "")

    def _regex(self) -> str:
        if self._rng.random() < 0.06:
            return "%regex " + self._rng.choice(_RUNS)
        return f"/{self._rng.choice(_REGEXES)}/"

    def _terminal_body(self, index: int) -> str:
        text = self._regular(2, self._terminals[index + 1 :])
        if self._rng.random() < 0.2:
            excluded = self._rng.choice(['"a"', '"if" | "then"', "/[0-9]/", "/a.?b/"])
            return f"(/[a-z]+/ | {text}) & ~({excluded})"
        return text

    def _regular(self, depth: int, names: list[str] | None = None) -> str:
        """An expression over terminals."""
        rng = self._rng
        kind = rng.random()
        if depth <= 0 or kind < 0.4:
            choice = rng.random()
            if choice < 0.4:
                return self._string()
            if choice < 0.5 and names:
                return rng.choice(names)
            if choice < 0.58:
                return rng.choice(['"a".."f"', '"0".."9"', '"ж".."я"'])
            return self._regex()
        parts = [self._regular(depth - 1, names) for _ in range(rng.randint(2, 3))]
        if kind < 0.65:
            return "(" + " ".join(parts) + ")"
        if kind < 0.9:
            return "(" + " | ".join(parts) + ")"
        return f"({parts[0]}){rng.choice(['*', '+', '?', '{2}', '{1,3}'])}"

    def _body(self, depth: int) -> str:
        rng = self._rng
        return " | ".join(
            " ".join(self._item(depth) for _ in range(rng.randint(1, 3)))
            for _ in range(rng.choice([1, 1, 2, 3]))
        )

    def _item(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.3:
            return self._string()
        if kind < 0.45:
            return self._regex()
        if kind < 0.6 and self._terminals:
            return rng.choice(self._terminals)
        if kind < 0.8 and self._rules:
            return rng.choice(self._rules)
        if kind < 0.84:
            return rng.choice(_TOKENS)
        if kind < 0.87:
            return f'("¿" {rng.choice(self._uses)})'  # nothing else begins so: see above
        if depth <= 0:
            return self._string()
        inner = f"({self._body(depth - 1)})"
        return inner + rng.choice(["", "*", "+", "?", "{2}", "{1,3}", "{2,}"])


def _some_terminal_may_be_empty(grammar: str) -> bool:
    return any(matches(terminal.regex, b"") for terminal in compile_lark(grammar).terminals)


class _Peer:
    """llguidance over the same vocabulary."""

    def __init__(self, vocabulary: llgx.Vocabulary) -> None:
        self._tokenizer = engines._LLGuidance(vocabulary)._tokenizer
        self._size = len(vocabulary)

    def matcher(self, grammar: str) -> Any:
        return llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)

    def mask(self, matcher: Any) -> np.ndarray[Any, Any]:
        data = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)
        return data[: (self._size + 31) // 32]


@pytest.fixture(scope="module")
def vocabulary(vocabulary_dir: pathlib.Path) -> llgx.Vocabulary:
    return llgx.Vocabulary.from_gguf(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")


@pytest.fixture(scope="module")
def peer(vocabulary: llgx.Vocabulary) -> _Peer:
    return _Peer(vocabulary)


def _difference(
    text: str, rng: random.Random, vocabulary: llgx.Vocabulary, peer: _Peer
) -> tuple[str, int]:
    """The first difference of two walks, or "", and how many masks were compared."""
    theirs = peer.matcher(text)
    try:
        compiled = llgx.Grammar.from_lark(text).compile(vocabulary)
    except llgx.GrammarError as error:
        if theirs.is_error() or _is_dead(theirs, peer, vocabulary):
            return "", 0
        return f"llgx: {error}", 0
    except llgx.LimitError:
        return "", 0
    if theirs.is_error():
        return "", 0
    compared = 0
    own = llgx.allocate_token_bitmask(1, len(vocabulary))
    for _ in range(_WALKS):
        ours = llgx.Matcher(compiled)
        theirs = peer.matcher(text)
        read: list[int] = []
        for _ in range(_STEPS):
            if ours.is_stopped() or theirs.is_stopped():
                if ours.is_stopped() != theirs.is_stopped() and not theirs.is_error():
                    return f"after {_shown(read, vocabulary)}: one of them is stopped", compared
                break
            ours.fill_bitmask(own, 0)
            other = peer.mask(theirs)
            if theirs.is_error():
                break
            compared += 1
            if not np.array_equal(own[0], other):
                return (
                    f"after {_shown(read, vocabulary)}: {_bits(own[0], other, vocabulary)}",
                    compared,
                )
            allowed = np.flatnonzero(np.unpackbits(own[0].view(np.uint8), bitorder="little"))
            allowed = [token for token in allowed.tolist() if token not in vocabulary.eog]
            if not allowed:
                break
            short = [token for token in allowed if len(vocabulary.tokens[token]) < 4]
            token = rng.choice(short if short and rng.random() < 0.6 else allowed)
            ours.consume(token)
            if not theirs.consume_token(token):
                if theirs.is_error() and "limit" in theirs.get_error():
                    break
                return f"after {_shown(read, vocabulary)}: they refuse {token}", compared
            read.append(token)
    return "", compared


def _is_dead(theirs: Any, peer: _Peer, vocabulary: llgx.Vocabulary) -> bool:
    """Whether nothing can ever be generated: llgx refuses such a grammar, llguidance does not."""
    mask = peer.mask(theirs)
    return theirs.is_error() or not mask.any()


def _shown(tokens: list[int], vocabulary: llgx.Vocabulary) -> str:
    return repr(b"".join(vocabulary.tokens[token] for token in tokens))


def _bits(own: Any, other: Any, vocabulary: llgx.Vocabulary) -> str:
    def names(only: Any) -> str:
        ids = np.flatnonzero(np.unpackbits(only.view(np.uint8), bitorder="little"))
        return f"{len(ids)} tokens, " + ", ".join(
            f"{token} {vocabulary.tokens[token]!r}" for token in ids[:6].tolist()
        )

    return f"llgx alone: {names(own & ~other)}; llguidance alone: {names(other & ~own)}"


def test_masks_agree(vocabulary: llgx.Vocabulary, peer: _Peer) -> None:
    compared = 0
    for seed in range(_SEED, _SEED + _GRAMMARS):
        rng = random.Random(seed)
        text = _Author(rng).grammar()
        found, count = _difference(text, rng, vocabulary, peer)
        assert not found, f"seed {seed}: {found}\n{text}"
        compared += count
    assert compared > 5 * _GRAMMARS
