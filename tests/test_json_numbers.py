"""Number sets: the algebra against rational arithmetic, and their texts against ``Fraction``."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from fractions import Fraction as F

import pytest

from llgx import ir
from llgx._language import Language
from llgx.errors import GrammarError, LimitError
from llgx.json_schema.digits import decimal_places, decimal_text
from llgx.json_schema.numbers import UNIQUE_NUMBERS, NumberSet, NumberSpelling
from tests.ir_match import accepted, matches

ANY, INTEGERS, NONE = NumberSet.ANY, NumberSet.INTEGERS, NumberSet.NONE
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
SCIENTIFIC = re.compile(r"-?[1-9](\.[0-9]+)?[eE][+-]?[0-9]+")
SPELLINGS = [
    NumberSpelling(),
    UNIQUE_NUMBERS,
    NumberSpelling("always"),
    NumberSpelling("never", "any", True),
    NumberSpelling("reals", "always", False),
]
STEPS = [F(1, 100), F(1, 4), F(2), F(3), F(7), F(10), F(3, 2), F(1, 8), F(100), F(3, 100)]
Predicate = Callable[[F], bool]


def random_number(rng: random.Random) -> F:
    top = rng.choice([30, 1200])
    return F(rng.randrange(-top, top), rng.choice([1, 1, 1, 2, 4, 10, 100, 1000]))


def random_set(rng: random.Random, depth: int = 3) -> tuple[NumberSet, Predicate]:
    """A set and, by the definitions of its operations, what is in it."""
    kind = rng.randrange(7) if depth else rng.randrange(5)
    if kind == 0:
        return INTEGERS, lambda number: number.denominator == 1
    if kind in (1, 2):
        low, high = sorted((random_number(rng), random_number(rng)))
        open_low, open_high = rng.random() < 0.4, rng.random() < 0.4
        if rng.random() < 0.25:
            return (
                NumberSet.between(low, None, open_low),
                lambda number: number > low or (number == low and not open_low),
            )
        return (
            NumberSet.between(low, high, open_low, open_high),
            lambda number: (
                low <= number <= high
                and not (open_low and number == low)
                and not (open_high and number == high)
            ),
        )
    if kind == 3:
        step = rng.choice(STEPS)
        return NumberSet.multiples_of(step), lambda number: number % step == 0
    if kind == 4:
        values = {random_number(rng) for _ in range(rng.randrange(4))}
        return NumberSet.of(values), lambda number: number in values
    left, in_left = random_set(rng, depth - 1)
    if kind == 5:
        right, in_right = random_set(rng, depth - 1)
        return left.meet(right), lambda number: in_left(number) and in_right(number)
    parts = left.complement()
    if not parts:
        return NONE, lambda number: not in_left(number)
    index = rng.randrange(len(parts))
    part = parts[index]
    return part, part.contains


def may_spell(text: str, numbers: NumberSet, spelling: NumberSpelling) -> bool:
    """Whether ``text`` is a spelling of a member of ``numbers``, as ``NumberSpelling`` says."""
    if not PLAIN.fullmatch(text):
        return False
    value = F(text)
    if not numbers.contains(value):
        return False
    short = numbers.is_integers_only or numbers.finite is not None
    if spelling.zeros == "never" or (spelling.zeros == "reals" and short):
        fraction = text.partition(".")[2]
        if fraction.endswith("0"):
            return False
    if text.startswith("-") and value == 0:
        if numbers.finite is not None or not spelling.negative_zero:
            return False
        return numbers.low is None or numbers.low < 0
    return True


def sample_texts(rng: random.Random, numbers: NumberSet) -> set[str]:
    texts = {"0", "-0", "0.0", "-0.0", "", ".", "-", "1.", "01"}
    ends = [numbers.low, numbers.high, *numbers.excluded, *(numbers.finite or ())]
    near = [F(0), *(end for end in ends if end is not None)]
    steps = (0, 1, -1, F(1, 10), -F(1, 10), F(1, 1000), -F(1, 1000))
    for number in [n + d for n in near for d in steps] + [random_number(rng) for _ in range(40)]:
        text = decimal_text(number)
        texts |= {text, text + "0", text + ".0", text + ".00", "-" + text, text + "1", "0" + text}
    texts |= {"".join(rng.choices("0123456789.-", k=rng.randrange(1, 6))) for _ in range(30)}
    return texts


@pytest.mark.parametrize("seed", range(60))
def test_sets_and_their_texts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        numbers, inside = random_set(rng)
        spelling = rng.choice(SPELLINGS)
        language = Language((numbers.regex(spelling),))
        assert numbers.is_empty() == language.is_empty((0,)), numbers
        for text in sample_texts(rng, numbers):
            if PLAIN.fullmatch(text):
                value = F(text)
                assert numbers.contains(value) == inside(value), (numbers, value)
            if not (numbers.is_any and "e" in text):
                expected = may_spell(text, numbers, spelling)
                assert language.matches(0, text.encode()) == expected, (text, numbers, spelling)


@pytest.mark.parametrize("seed", range(40))
def test_complement_is_a_partition_of_the_rest(seed: int) -> None:
    rng = random.Random(seed)
    numbers, _ = random_set(rng)
    parts = numbers.complement()
    for number in [random_number(rng) for _ in range(60)] + [F(n, 4) for n in range(-40, 40)]:
        homes = [part for part in (numbers, *parts) if part.contains(number)]
        assert len(homes) == 1, (numbers, number)
    for one, other in itertools.combinations((numbers, *parts), 2):
        assert one.is_disjoint(other)


def test_short_texts_completely() -> None:
    """Every text of up to five characters, for sets that are awkward."""
    for numbers in (
        NumberSet.between(F(-1, 2), F(15, 10)),
        NumberSet.between(F(0), F(10), True, True),
        NumberSet.multiples_of(F(1, 4)).meet(NumberSet.between(F(-3), F(12))),
        NumberSet.multiples_of(30),
        INTEGERS.complement()[0].meet(NumberSet.between(F(-2), F(2))),
        NumberSet.of([0, 1]).complement()[0].meet(INTEGERS),
    ):
        for spelling in SPELLINGS[:4]:
            found = {
                text.decode()
                for text in accepted(numbers.regex(spelling), [bytes((b,)) for b in b"0125.-"], 5)
            }
            alphabet = "0125.-"
            every = ("".join(t) for n in range(6) for t in itertools.product(alphabet, repeat=n))
            assert found == {t for t in every if may_spell(t, numbers, spelling)}, numbers


def test_unique_spelling_is_unique() -> None:
    for numbers in (ANY, INTEGERS, NumberSet.between(-3, 7), NumberSet.multiples_of(F(1, 20))):
        texts = [
            text.decode()
            for text in accepted(
                numbers.regex(UNIQUE_NUMBERS), [bytes((b,)) for b in b"015.-eE"], 4
            )
        ]
        assert len({F(text) for text in texts}) == len(texts)
        assert texts


def test_normal_form() -> None:
    assert NumberSet.between(None, None) is ANY
    assert NumberSet.multiples_of(1) is INTEGERS
    assert NumberSet.between(F(1, 2), F(7, 2)).meet(INTEGERS) == NumberSet.between(1, 3).meet(
        INTEGERS
    )
    assert NumberSet.between(1, 1).values == {F(1)}
    assert NumberSet.between(2, 1) == NONE
    assert NumberSet.between(1, 1, True) == NONE
    assert NumberSet.between(0, 1, True, True).meet(INTEGERS) == NONE
    assert ANY.complement() == ()
    assert NONE.complement() == (ANY,)
    assert INTEGERS.complement()[0].meet(INTEGERS).is_empty()
    assert NumberSet.between(1, 5).meet(INTEGERS).values == {F(n) for n in range(1, 6)}
    assert NumberSet.between(1, 500).meet(INTEGERS).values is None
    assert NumberSet.between(1, 500).values is None
    assert NumberSet.between(1, 9).meet(INTEGERS).enumerate(8) is None
    assert NumberSet.multiples_of(F(1, 6)) == NumberSet.multiples_of(F(1, 2))
    assert NumberSet.multiples_of(F(3, 10)).meet(NumberSet.multiples_of(F(1, 4))) == (
        NumberSet.multiples_of(F(3, 2))
    )
    with pytest.raises(ValueError, match="zero"):
        NumberSet.multiples_of(0)
    with pytest.raises(ValueError, match="decimal"):
        NumberSet.between(F(1, 3), 1)
    with pytest.raises(ValueError, match="decimal"):
        NumberSet.of([F(1, 3)])


def test_emptiness_among_multiples() -> None:
    even = NumberSet.multiples_of(2)
    odd = NumberSet(multiple=F(1), not_multiples=frozenset((F(2),)))
    assert even.meet(odd).is_empty()
    assert not odd.is_empty()
    assert odd.meet(NumberSet.between(4, 4)).is_empty()
    thirds = NumberSet(multiple=F(1), not_multiples=frozenset((F(2), F(3), F(5))))
    assert thirds.meet(NumberSet.between(2, 6)).is_empty()
    assert not thirds.meet(NumberSet.between(2, 7)).is_empty()
    out = NumberSet.of(range(1, 10)).complement()[0]
    assert out.meet(INTEGERS).meet(NumberSet.between(1, 9)).is_empty()
    assert not out.meet(INTEGERS).meet(NumberSet.between(1, 10)).is_empty()
    with pytest.raises(LimitError):
        NumberSet(
            multiple=F(1), low=F(0), high=F(10**7), excluded=frozenset(map(F, range(40_000)))
        ).is_empty()


def test_defaults_of_spelling() -> None:
    def spells(numbers: NumberSet, *texts: str) -> list[bool]:
        return [matches(numbers.regex(), text.encode()) for text in texts]

    assert spells(ANY, "1", "-0", "1.0", "1e5", "-1.50E-07", "01", "1.", ".5") == [
        *[True] * 5,
        *[False] * 3,
    ]
    assert spells(INTEGERS, "1", "-0", "-12", "1.0", "1e2") == [True, True, True, False, False]
    positive = NumberSet.between(0, None)
    assert spells(positive, "0", "3.0", "10.50", "-0", "1e2") == [True, True, True, False, False]
    money = NumberSet.multiples_of(F(1, 100))
    assert spells(money, "9.99", "9.90", "9.900", "9.999", "10", "-0.01") == [
        *[True] * 3,
        False,
        True,
        True,
    ]
    fractional = INTEGERS.complement()[0]
    assert spells(fractional, "1.5", "1.50", "1", "1.0", "1.00", "1e2", "1.5e1", "-0.0") == [
        True,
        True,
        *[False] * 6,
    ]
    assert spells(NumberSet.of([1, F(5, 2)]), "1", "2.5", "1.0", "2.50") == [
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(ValueError, match="zeros"):
        NumberSpelling("sometimes")
    with pytest.raises(ValueError, match="exponent"):
        NumberSpelling(exponent="sometimes")


@pytest.mark.parametrize("seed", range(30))
def test_scientific_notation_of_intervals(seed: int) -> None:
    rng = random.Random(seed)
    spelling = NumberSpelling(exponent="always")

    def end() -> F | None:
        if rng.random() < 0.2:
            return None
        return F(rng.randrange(-999, 1000)) * F(10) ** rng.randrange(-6, 20)

    low, high = end(), end()
    if low is not None and high is not None and low > high:
        low, high = high, low
    numbers = NumberSet.between(low, high, rng.random() < 0.5, rng.random() < 0.5)
    if rng.random() < 0.4:
        numbers = numbers.meet(INTEGERS)
    if numbers.finite is not None or numbers.is_any:
        return
    language = Language((numbers.regex(spelling),))
    ends = [e for e in (low, high) if e]
    for _ in range(300):
        exponent = rng.randrange(-8, 25)
        text = f"{rng.choice(['', '-'])}{rng.randrange(10)}"
        if rng.random() < 0.6:
            text += f".{rng.randrange(10 ** rng.randrange(1, 19))}"
        if ends and rng.random() < 0.5:
            near = rng.choice(ends) * rng.choice([1, F(999, 1000), F(1001, 1000)])
            exponent = next(x for x in range(-12, 30) if abs(near) < F(10) ** (x + 1))
            text = decimal_text(near / F(10) ** exponent)
        text += rng.choice(["e", "E"]) + rng.choice([f"{exponent}", f"{exponent:+03d}"])
        value = F(text)
        expected = bool(SCIENTIFIC.fullmatch(text)) and numbers.contains(value)
        got = language.matches(0, text.encode())
        if numbers.is_integers_only:
            digits = len(text.lower().partition("e")[0].partition(".")[2])
            expected = expected and (not digits or (digits <= 16 and exponent >= 16))
        assert got == expected, (text, numbers)


def test_what_python_prints_can_be_spelled() -> None:
    wide = NumberSpelling("always", "always")
    for value in (1e16, 1.5e300, 123456789.125, 1e-7, -2.5e-9, 3.0, 1e22):
        text = repr(value).encode()
        assert matches(NumberSet.between(-(10**400), 10**400).regex(wide), text), text
    for value in (1e16, 1.5e300, 3.0, 1e22, -1e17):
        assert matches(INTEGERS.regex(wide), repr(value).encode())


def test_numbers_of_any_size() -> None:
    largest = F(179769313486231570814527423731704356798070) * F(10) ** 267
    double = NumberSet.between(-largest, largest)
    language = Language((double.regex(),))
    text = decimal_text(largest).encode()
    assert language.matches(0, text)
    assert language.matches(0, b"-" + text + b".000")
    assert not language.matches(0, text + b".001")
    assert not language.matches(0, text + b"0")
    tiny = NumberSet.between(F(1, 10**300), F(2, 10**300))
    assert Language((tiny.regex(),)).matches(0, decimal_text(F(3, 2) / 10**300).encode())
    hash(double.regex())  # is no deeper than Python can go
    with pytest.raises(GrammarError, match="4000 digits"):
        NumberSet.between(None, F(10) ** 5000).regex()
    with pytest.raises(GrammarError, match="4000 digits"):
        NumberSet.of([F(1, 10**5000)]).regex()


def test_large_divisors() -> None:
    divisor = F(123_456_789_012_345_678)
    numbers = NumberSet.multiples_of(divisor).meet(NumberSet.between(10**17, 10**21))
    language = Language((numbers.regex(),))
    assert language.matches(0, str(divisor * 81).encode())
    assert not language.matches(0, str(divisor * 81 + 1).encode())
    assert not language.matches(0, str(divisor * 10_000).encode())
    with pytest.raises(GrammarError, match="modulus"):
        Language((NumberSet.multiples_of(F(10**19 + 1)).regex(),))


def test_trees_hold_no_intersection_where_none_is_needed() -> None:
    for numbers in (
        NumberSet.multiples_of(F(1, 100)).meet(NumberSet.between(0, 1000)),
        NumberSet.of([5, 7]).complement()[0].meet(INTEGERS),
        NumberSet.between(F(-5, 2), F(12345, 100), True, True),
    ):
        stack = [numbers.regex()]
        while stack:
            node = stack.pop()
            assert not isinstance(node, ir.Intersection | ir.Complement)
            stack += getattr(node, "items", ()) or [
                item for item in (getattr(node, "item", None),) if item is not None
            ]


def test_decimal_text() -> None:
    assert [decimal_text(F(n)) for n in ("0", "-1.50", "100", "0.001", "-0.25")] == [
        "0",
        "-1.5",
        "100",
        "0.001",
        "-0.25",
    ]
    assert [decimal_places(F(1, n)) for n in (1, 2, 5, 40, 3)] == [0, 1, 1, 3, None]
