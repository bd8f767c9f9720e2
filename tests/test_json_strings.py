"""String sets: the algebra against plain evaluation, and quoting against ``json``."""

from __future__ import annotations

import gc
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator

import pytest

from llgx import ir
from llgx._language import Language
from llgx.errors import GrammarError
from llgx.json_schema.content import length_bounds, with_length
from llgx.json_schema.quoting import StringSpelling, quote
from llgx.json_schema.strings import StringSet, nonempty_cells
from llgx.regex import parse_ecma
from tests.ir_match import matches

ANY, NONE = StringSet.ANY, StringSet.NONE
ALPHABET = ["a", "b", "\n", '"', "\\", "/", "\x01", "\x1f", "\x7f", "é", "ü", "☃", "\U0001f600"]
# The same meaning in ECMA-262 and, with `re.search`, in Python.
PATTERNS = [
    "a",
    "^a",
    "^[ab]*$(?!\n)",
    "^a?$(?!\n)",
    "[^a]",
    "^[^ab]+$(?!\n)",
    "^.{1,2}$(?!\n)",
    "(ab)+",
    "é|☃",
    "^(?!a)",
    "^a(?=b)",
    r"\bb",
    '["\\\\/]',
    "^ab",
    "^ba",
    "^é",
    "^(a|b\\\\)$(?!\n)",
]


def texts(longest: int = 3) -> Iterator[str]:
    for length in range(longest + 1):
        for letters in itertools.product(ALPHABET, repeat=length):
            yield "".join(letters)


SAMPLE = [*texts(2), *random.Random(0).sample([*texts(3)], 250)]
Predicate = Callable[[str], bool]


def random_set(rng: random.Random, depth: int) -> tuple[StringSet, Predicate]:
    """A set and, by the definitions of its operations, what is in it."""
    kind = rng.randrange(8) if depth else rng.randrange(4)
    if kind == 0:
        pattern = rng.choice(PATTERNS)
        compiled = re.compile(pattern, re.ASCII)
        return StringSet.pattern(pattern), lambda text: compiled.search(text) is not None
    if kind == 1:
        low = rng.randrange(3)
        high = rng.choice([None, low, low + 1])
        return (
            StringSet.length(low, high),
            lambda text: low <= len(text) and (high is None or len(text) <= high),
        )
    if kind == 2:
        values = {rng.choice(SAMPLE) for _ in range(rng.randrange(5))}
        return StringSet.of(values), lambda text: text in values
    if kind == 3:
        return rng.choice([(ANY, lambda text: True), (NONE, lambda text: False)])
    left, in_left = random_set(rng, depth - 1)
    if kind == 4:
        return left.complement(), lambda text: not in_left(text)
    right, in_right = random_set(rng, depth - 1)
    if kind in (5, 6):
        return left.meet(right), lambda text: in_left(text) and in_right(text)
    return left.join(right), lambda text: in_left(text) or in_right(text)


@pytest.mark.parametrize("seed", range(60))
def test_algebra_is_that_of_sets(seed: int) -> None:
    rng = random.Random(seed)
    made, inside = random_set(rng, 4)
    members = [text for text in SAMPLE if inside(text)]
    language = Language((made.tree, made.quoted()))
    for text in SAMPLE:
        expected = inside(text)
        assert made.contains(text) == expected, (made, text)
        assert language.matches(0, text.encode()) == expected, (made, text)
        spelled = json.dumps(text, ensure_ascii=False).encode()
        assert language.matches(1, spelled) == expected, (made, text)
    if members:
        assert not made.is_empty()
    else:
        found = made.enumerate(5)
        assert made.is_empty() == (found == [])
        assert all(made.contains(text) and text not in SAMPLE for text in found or ())
    other, in_other = random_set(rng, 2)
    if any(in_other(text) for text in members):
        assert not made.is_disjoint(other)
    assert made.is_disjoint(made.complement())
    assert made.join(made.complement()).complement().is_empty()


@pytest.mark.parametrize("seed", range(20))
def test_cells_partition_all_strings(seed: int) -> None:
    rng = random.Random(seed)
    made = [random_set(rng, 2) for _ in range(3)]
    cells = nonempty_cells([members for members, _ in made])
    assert all(not cell.is_empty() for _, cell in cells)
    for text in SAMPLE[:250]:
        expected = tuple(i for i, (_, inside) in enumerate(made) if inside(text))
        assert [inside for inside, cell in cells if cell.contains(text)] == [expected], text


def test_frequent_cases_stay_plain() -> None:
    assert ANY.meet(ANY) is ANY
    assert StringSet.of(["a"]).complement().complement() is StringSet.of(["a"])
    assert StringSet.of(["a", "bb"]).meet(StringSet.length(2, None)).values == {"bb"}
    assert StringSet.of("ab").complement().meet(StringSet.of("bc").complement()).excluded == {
        "a",
        "b",
        "c",
    }
    assert StringSet.length(1, None).join(StringSet.length(0, 3)) is ANY
    assert StringSet.length(1, 3).meet(StringSet.length(2, 9)) is StringSet.length(2, 3)
    assert StringSet.length(3, 1) is NONE
    assert StringSet.pattern("a").join(StringSet.pattern("a").complement()) is ANY
    assert StringSet.pattern("a").meet(StringSet.pattern("a").complement()) is NONE
    assert StringSet.pattern("x*") is ANY
    assert StringSet.pattern("a") is not StringSet.pattern("b")
    assert StringSet.of(["a"]).complement().join(StringSet.of(["a"])) is ANY
    assert StringSet.of(["\ud800", "a"]).values == {"a"}
    assert not ANY.contains("\ud800")
    with pytest.raises(GrammarError):
        StringSet.pattern("(")
    with pytest.raises(TypeError):
        StringSet()


def test_prefixes_tell_patterns_apart() -> None:
    one, other = StringSet.pattern("^name:[a-z]+$"), StringSet.pattern("^title:[a-z]+$")
    assert one.meet(other) is NONE
    assert one.meet(other.complement()) is one
    assert one.meet(StringSet.of(["name", "title"]).complement()) is one
    inside = StringSet.pattern("^name:en")
    assert not one.meet(inside).is_empty()
    assert one.meet(inside.complement()) is not one
    assert one.meet(StringSet.of(["name:de"]).complement()) is not one


def test_patterns_that_list_strings_are_lists() -> None:
    assert StringSet.pattern("^Abs$").values == {"Abs"}
    assert StringSet.pattern("^(left|right)$").values == {"left", "right"}
    assert StringSet.pattern("^Abs").values is None


def test_the_regex_of_a_set_does_not_depend_on_what_was_made_before() -> None:
    def unions() -> list[StringSet]:
        sets = [StringSet.pattern(f"{name}[0-9]").meet(StringSet.length(2, 7)) for name in "qrs"]
        return [sets[0].join(sets[1], sets[2])]

    first = unions()[0].tree
    gc.collect()
    kept = [StringSet.pattern(f"{name}[0-9]").meet(StringSet.length(2, 7)) for name in "srq"]
    assert unions()[0].tree == first
    assert len(kept) == 3


def test_enumeration_is_complete_and_in_order() -> None:
    made = StringSet.pattern("^(é|a|bb?)$")
    assert made.enumerate(4) == ["a", "b", "bb", "é"]
    assert made.enumerate(3) is None
    assert StringSet.pattern("^a*$").enumerate(10) is None
    assert StringSet.length(0, 0).enumerate(1) == [""]
    assert StringSet.pattern("^a*$").meet(StringSet.length(2, 3)).enumerate(5) == ["aa", "aaa"]
    assert StringSet.pattern("^a").meet(StringSet.pattern("^b")).enumerate(5) == []


# --- Lengths -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "low", "high"),
    [
        ("^[a-zé]+$", 2, 3),
        ("^a[a-z]*b$", 0, 3),
        ("^(a|b[ab]*)$", 2, 3),
        ("^a", 0, 2),
        ("^aaa$", 0, 2),
        ("^[ab]{2,5}$", 3, 9),
        ("^(?!a).*$", 1, 2),
        ("^$", 0, 5),
    ],
)
def test_length_of_a_pattern(pattern: str, low: int, high: int) -> None:
    made = StringSet.pattern(pattern).meet(StringSet.length(low, high))
    for text in SAMPLE:
        expected = low <= len(text) <= high and StringSet.pattern(pattern).contains(text)
        assert matches(made.tree, text.encode()) == expected, text


def test_one_loop_counts_the_length() -> None:
    tree = StringSet.pattern("^[a-z][a-z0-9_]*$").meet(StringSet.length(1, 64)).tree
    assert isinstance(tree, ir.Concat)
    assert isinstance(tree.items[1], ir.Repeat)
    assert (tree.items[1].low, tree.items[1].high) == (0, 63)
    assert with_length(parse_ecma("a"), 1, 5) is None
    assert length_bounds(parse_ecma("^(é|ab){2}$")) == (2, 4)
    assert length_bounds(ir.EMPTY) is None


# --- Quoting -----------------------------------------------------------------------------------


def test_plain_string_is_a_loop_of_single_characters() -> None:
    tree = StringSet.length(0, 7).quoted()
    assert isinstance(tree, ir.Concat)
    first, loop, last = tree.items
    assert first == last == ir.Literal(b'"')
    assert isinstance(loop, ir.Repeat)
    assert (loop.low, loop.high) == (0, 7)
    assert isinstance(loop.item, ir.Alternation)
    assert isinstance(loop.item.items[0], ir.ByteSet)


@pytest.mark.parametrize(
    "text",
    [
        '"\\/"',
        '"\\u0041"',
        '"\\u000a"',
        '"\\u001F"',
        '"\\u00e9"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"a',
        '""a"',
        '"\n"',
        '"\\x"',
        '"\\"',
    ],
)
def test_other_spellings_are_not_canonical(text: str) -> None:
    assert not matches(ANY.quoted(), text.encode())


def spellings(char: str) -> list[str]:
    """The escaped and plain spellings of a character, by the grammar of RFC 8259."""
    found = [] if char in '"\\' or char < " " else [char]
    short = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
    letter = short.get(char, char if char in '"\\/' else "")
    if letter:
        found.append("\\" + letter)
    data = char.encode("utf-16-be")
    units = [data[i : i + 2].hex() for i in range(0, len(data), 2)]
    for style in (str.lower, str.upper):
        found.append("".join(f"\\u{style(unit)}" for unit in units))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_all_escapes_spell_the_same_content(seed: int) -> None:
    rng = random.Random(seed)
    made, inside = random_set(rng, 3)
    wide = StringSpelling('bfnrt"\\/u', unicode_escapes=True)
    language = Language((made.quoted(wide),))
    for text in rng.sample(SAMPLE, 120):
        for _ in range(3):
            spelled = '"' + "".join(rng.choice(spellings(char)) for char in text) + '"'
            assert json.loads(spelled) == text
            assert language.matches(0, spelled.encode()) == inside(text), (made, spelled)
    for bad in ('"\\ud83d"', '"\\ude00\\ud83d"', '"\\u00g0"', '"\\u12"', '"\\a"'):
        assert not language.matches(0, bad.encode())


def test_allowed_escapes() -> None:
    def allows(spelling: StringSpelling, text: str) -> bool:
        return matches(ANY.quoted(spelling), text.encode())

    default = StringSpelling()
    assert allows(default, '"\\n\\u0001\\u001f\x7f"')
    few = StringSpelling('"\\')
    assert not allows(few, '"\\n"')
    assert not allows(few, '"\\u000a"')
    assert allows(few, '"\\""')
    coded = StringSpelling('"\\u')
    assert allows(coded, '"\\u000a"')
    assert not allows(coded, '"\\u000A"')
    either = StringSpelling(control_escapes=True)
    assert allows(either, '"\\u000a\\u000A\\n"')
    assert not allows(either, '"\\u0041"')
    assert allows(StringSpelling('"\\/'), '"\\//"')
    with pytest.raises(ValueError, match="no escape"):
        StringSpelling("x")


def test_exclusion_of_keys_keeps_the_loop_of_a_string() -> None:
    """Once no key can follow, the rest of the string is the one of a plain string."""
    keys = StringSet.of(["name", "née", 'a"b']).complement().quoted()
    language = Language((keys, ANY.quoted()))
    both = language.is_empty((1,), (0,))
    assert not both
    assert language.enumerate((1,), (0,), 5) == [b'"a\\"b"', b'"name"', '"née"'.encode()]
    assert language.is_empty((0,), (1,))
    # Linear in the keys: a state per byte of a key, and those of the plain string.
    plain = language.count_states(1, 1000)
    assert plain is not None
    assert language.count_states(0, plain + 20) is not None


def test_deep_patterns_are_quoted_without_recursion() -> None:
    pattern = "^" + "(a" * 240 + ")?" * 240 + "$"
    made = StringSet.pattern(pattern).meet(StringSet.length(0, 500))
    assert made.contains("a" * 7)
    assert Language((made.quoted(),)).matches(0, b'"aaa"')


def test_quote_is_exact_below_sequences() -> None:
    # ~r next to something else: a spelling is not cut in two.
    tree = ir.Concat((ir.Complement(ir.Literal(b"a")), ir.Literal(b"n")))
    quoted = quote(ir.Intersection((ir.Repeat(ir.ANY_BYTE, 0, None), tree)))
    assert matches(quoted, b'"\\nn"')
    assert not matches(quoted, b'"\\n"')
    assert not matches(quoted, b'"an"')
    assert matches(quoted, b'"n"')
