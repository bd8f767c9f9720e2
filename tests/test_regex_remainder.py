"""Remainder nodes of the engine against their definition, and against plain derivatives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

import llgx
from llgx import ir
from llgx._language import Language
from llgx.errors import GrammarError, LimitError
from llgx.limits import Limits
from tests import ir_match
from tests.reference_matcher import ReferenceMatcher, ReferenceVocabulary

ALPHABET = b"0123456789."
MODULI = [1, 2, 3, 4, 5, 7, 8, 10, 12, 15, 16, 20, 25, 40, 75, 100, 125, 360, 1000, 1024]


def is_multiple(regex: ir.Remainder, text: str) -> bool:
    """The definition of ``ir.Remainder``, by the number that ``text`` spells."""
    if regex.part == "integer":
        integer, point, fraction = text.partition(".")
        if point and (regex.fraction == "none" or not fraction):
            return False
        if len(integer) < regex.low or (regex.high is not None and len(integer) > regex.high):
            return False
    else:
        integer, fraction = "", text
        if regex.part == "point" and not fraction:
            return False
    if "." in fraction or (regex.fraction == "shortest" and fraction.endswith("0")):
        return False
    value = Fraction(int(fraction or 0), 10 ** len(fraction)) + int(integer or 0)
    value = value * 10**regex.places + regex.residue * 10 ** len(integer)
    return value.denominator == 1 and value.numerator % regex.modulus == 0


def random_remainder(rng: random.Random) -> ir.Remainder:
    fraction = rng.choice(["none", "zeros", "shortest"])
    part = "integer" if fraction == "none" else rng.choice(["integer", "point", "fraction"])
    modulus = rng.choice([*MODULI, rng.randrange(1, 300)])
    low = rng.randrange(3)
    return ir.Remainder(
        modulus,
        rng.randrange(modulus),
        low,
        rng.choice([None, low, low + 1, low + 2]),
        0 if fraction == "none" else rng.randrange(4),
        fraction,
        part,
    )


def short_texts(longest: int) -> Iterator[bytes]:
    for length in range(longest + 1):
        for letters in itertools.product(ALPHABET, repeat=length):
            yield bytes(letters)


SHORT = [*short_texts(3)]


@pytest.mark.parametrize("seed", range(40))
def test_matches_as_defined(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        regex = random_remainder(rng)
        language = Language((regex,))
        oracle = ir_match.Oracle()
        node = oracle.add(regex)
        texts = rng.sample(SHORT, 60)
        texts += [bytes(rng.choices(ALPHABET, k=rng.randrange(8))) for _ in range(40)]
        for text in texts:
            expected = is_multiple(regex, text.decode())
            assert language.matches(0, text) == expected, (regex, text)
            assert oracle.matches(node, text) == expected, (regex, text)


@pytest.mark.parametrize("seed", range(15))
def test_emptiness_is_exact(seed: int) -> None:
    """Alone by arithmetic, with ``&`` and ``~`` by search; a bounded one can be listed."""
    rng = random.Random(seed)
    for _ in range(5):
        wanted = [random_remainder(rng), random_remainder(rng)]
        members = [{t for t in SHORT if is_multiple(regex, t.decode())} for regex in wanted]
        language = Language((*wanted, ir.Repeat(ir.ANY_BYTE, 0, 3)))
        for every, none, expected in (
            ((0, 2), (), members[0]),
            ((0, 1, 2), (), members[0] & members[1]),
            ((0, 2), (1,), members[0] - members[1]),
        ):
            assert language.is_empty(every, none) == (not expected), wanted
            found = language.enumerate(every, none, 2000)
            assert found == sorted(expected, key=lambda text: (len(text), text)), wanted


def test_residues_of_round_moduli_are_few() -> None:
    """What counts of a power of ten is how many zeros stand at the end."""
    assert Language((ir.Remainder(10**9),)).count_states(0, 100) is not None
    assert Language((ir.Remainder(7),)).count_states(0, 100) == 7
    assert Language((ir.Remainder(10**6 + 3),)).count_states(0, 1000) is None


def test_large_moduli() -> None:
    modulus = ir.MAX_MODULUS - 1
    language = Language((ir.Remainder(modulus, low=1),))
    for factor in (1, 2, 7, 10**30 + 1):
        assert language.matches(0, str(modulus * factor).encode())
        assert not language.matches(0, str(modulus * factor + 1).encode())
    assert Language((ir.Remainder(ir.MAX_MODULUS, low=1),)).matches(0, b"1" + b"0" * 40)
    with pytest.raises(GrammarError, match="largest modulus"):
        Language((ir.Remainder(ir.MAX_MODULUS + 1),))


def test_search_is_bounded() -> None:
    texts = ir.Intersection((ir.Remainder(999_983, low=1), ir.Remainder(999_979, 1, low=1)))
    with pytest.raises(LimitError) as error:
        Language((texts,), Limits(emptiness_steps=50)).is_empty((0,))
    assert error.value.limit == "emptiness_steps"


@pytest.mark.parametrize(
    "regex",
    [
        ir.Remainder(0),
        ir.Remainder(3, low=-1),
        ir.Remainder(3, low=2, high=1),
        ir.Remainder(3, places=1),
        ir.Remainder(3, places=-1, fraction="zeros"),
        ir.Remainder(3, part="fraction"),
        ir.Remainder(3, part="nowhere", fraction="zeros"),
        ir.Remainder(3, fraction="all"),
        ir.Remainder(3, places=ir.MAX_PLACES + 1, fraction="zeros"),
    ],
)
def test_what_is_no_remainder_is_refused(regex: ir.Remainder) -> None:
    with pytest.raises(ValueError, match="remainder"):
        Language((regex,))


@pytest.mark.parametrize("seed", range(10))
def test_masks_agree_with_the_reference(seed: int) -> None:
    """In a grammar: beside other terminals, nullable ones, and with tokens of several digits."""
    rng = random.Random(seed)
    tokens = [bytes((byte,)) for byte in range(256)]
    tokens += [b"%d" % rng.randrange(1000) for _ in range(20)]
    tokens += [b"%.2f" % rng.uniform(0, 30) for _ in range(20)] + [b".5", b".00", b"00", b"</s>"]
    vocabulary = llgx.Vocabulary.from_tokens(tokens, eog=[len(tokens) - 1])
    first, second = random_remainder(rng), random_remainder(rng)
    terminals = [
        ir.Terminal("FIRST", first),
        ir.Terminal("SECOND", ir.Intersection((second, ir.Complement(first)))),
        ir.Terminal("COMMA", ir.Literal(b",")),
    ]
    number = [ir.Production((ir.TerminalRef(i),)) for i in (0, 1)]
    parts = (ir.RuleRef(1), ir.TerminalRef(2), ir.RuleRef(1), ir.TerminalRef(2))
    grammar = ir.GrammarIR(
        [ir.Rule("start", [ir.Production(parts)]), ir.Rule("number", number)], terminals, 0
    )
    try:
        compiled = llgx.Grammar.from_ir(grammar).compile(vocabulary)
    except GrammarError:
        assert Language((first, terminals[1].regex)).is_empty((0,))
        assert Language((terminals[1].regex,)).is_empty((0,))
        return
    twin = ReferenceMatcher(grammar, ReferenceVocabulary(tokens, [len(tokens) - 1]))
    matcher = llgx.Matcher(compiled)
    for _ in range(12):
        allowed = matcher.allowed_tokens()
        assert set(allowed) == twin.mask()
        if not allowed or allowed == [len(tokens) - 1]:
            break
        token = rng.choice([t for t in allowed if t != len(tokens) - 1])
        matcher.consume(token)
        twin.consume(token)
