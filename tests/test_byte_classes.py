"""A lexer state's transitions are kept for all bytes that it treats alike: each is the right one.

Names tell the letters of a grammar apart, a regex beside them does not. What may follow at each
state of that regex is compared with its automaton, for which every derivative is taken by itself.
"""

from __future__ import annotations

import random
from typing import Final

import pytest

import llgx
from llgx._language import Language
from llgx.ir import GrammarIR, Literal, Production, Rule, Terminal, TerminalRef
from tests import strategies

LETTERS: Final = b"abcdefgh"
NAME: Final = b"\x01" + LETTERS
EOG: Final = 256
VOCABULARY: Final = llgx.Vocabulary.from_tokens(
    [*(bytes((byte,)) for byte in range(256)), b"<end>"], eog=[EOG]
)
SEEDS: Final = 40


def ways(automaton: list[tuple[bool, list[int]]]) -> list[bytes]:
    """The shortest way to each state; the first is the start."""
    found: dict[int, bytes] = {0: b""}
    for state, way in (todo := [(0, b"")]):
        for byte, target in enumerate(automaton[state][1]):
            if target >= 0 and target not in found:
                found[target] = way + bytes((byte,))
                todo.append((target, found[target]))
    return [found[state] for state in range(len(automaton))]


@pytest.mark.parametrize("block", range(10))
def test_each_byte_leads_where_its_own_derivative_does(block: int) -> None:
    compared = 0
    for seed in range(SEEDS * block, SEEDS * (block + 1)):
        regex = strategies.random_regex(random.Random(seed), LETTERS, 5)
        language = Language((regex,))
        automaton = language.automaton(0, 200)
        if automaton is None or language.is_empty((0,)):
            continue
        grammar = GrammarIR(
            [Rule("start", [Production((TerminalRef(i),)) for i in range(2)])],
            [Terminal("X", regex), Terminal("NAME", Literal(NAME))],
            start=0,
            skip=[-1],
        )
        compiled = llgx.Grammar.from_ir(grammar).compile(VOCABULARY)
        for state, way in enumerate(ways(automaton)):
            matcher = llgx.Matcher(compiled)
            assert matcher.try_consume(list(way)) == len(way), (seed, way)
            accepts, targets = automaton[state]
            expected = {byte for byte, target in enumerate(targets) if target >= 0}
            if not way:
                expected.add(NAME[0])
            if accepts:
                expected.add(EOG)
            assert set(matcher.allowed_tokens()) == expected, (seed, way)
            compared += 1
    assert compared > SEEDS
