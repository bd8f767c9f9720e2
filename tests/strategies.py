"""Random grammars and vocabularies for tests, as plain generators and as hypothesis strategies.

Every generator draws from a ``random.Random``: the long campaign seeds one by an integer, and
``hypothesis.strategies.randoms`` supplies one that hypothesis can shrink, so both see the same
population. It leans towards what an engine takes shortcuts for: lexer states that loop on
themselves (strings, comments, identifiers), counted repeats, keywords that share beginnings with
identifiers, white space, and tokens that end one lexeme and begin the next.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hypothesis import strategies as st

from llgx import ir
from llgx.ir import (
    EMPTY,
    EPSILON,
    Alternation,
    ByteSet,
    Complement,
    Concat,
    Condition,
    GrammarIR,
    Intersection,
    Literal,
    ParamExpr,
    Production,
    Regex,
    Repeat,
    Rule,
    RuleRef,
    Symbol,
    Terminal,
    TerminalRef,
)
from tests.reference import EmptyLanguageError, ReferenceGrammar, State, Ways
from tests.reference_matcher import ReferenceVocabulary

__all__ = [
    "ALPHABET",
    "TokenSet",
    "byte_tokens",
    "char_class",
    "dense_tokens",
    "grammars",
    "lark_text",
    "made_exact",
    "random_grammar",
    "random_regex",
    "random_scoped_grammar",
    "random_text",
    "random_tokens",
    "regexes",
    "token_sets",
    "with_token_terminals",
]

ALPHABET: Final = b"ab0 ."


# --------------------------------------------------------------------------------------------------
# Regexes.


def byte_set(members: Iterable[int]) -> ByteSet:
    """The set of these bytes."""
    return ByteSet(sum(1 << b for b in set(members)))


def _byte_range(low: int, high: int) -> ByteSet:
    return byte_set(range(low, high + 1))


def char_class(excluded: bytes = b"") -> Regex:
    """One code point in UTF-8 (Unicode 15, table 3-7), except these ASCII characters."""
    tail = _byte_range(0x80, 0xBF)
    return Alternation(
        (
            byte_set(set(range(0x80)) - set(excluded)),
            Concat((_byte_range(0xC2, 0xDF), tail)),
            Concat((Literal(b"\xe0"), _byte_range(0xA0, 0xBF), tail)),
            Concat((_byte_range(0xE1, 0xEC), tail, tail)),
            Concat((Literal(b"\xed"), _byte_range(0x80, 0x9F), tail)),
            Concat((_byte_range(0xEE, 0xEF), tail, tail)),
            Concat((Literal(b"\xf0"), _byte_range(0x90, 0xBF), tail, tail)),
            Concat((_byte_range(0xF1, 0xF3), tail, tail, tail)),
            Concat((Literal(b"\xf4"), _byte_range(0x80, 0x8F), tail, tail)),
        )
    )


_CONTROL: Final = bytes(range(0x20))
ANY_CHAR: Final = char_class()
NO_NEWLINE: Final = char_class(b"\n")
NO_QUOTE: Final = char_class(b'"')
NO_QUOTE_BACKSLASH: Final = char_class(b'"\\')
STRING_CHAR: Final = char_class(b'"\\\x7f' + _CONTROL)

# Trees whose bytes are not ASCII cannot be printed node by node: this is how Lark spells them.
_SPELLINGS: Final[dict[Regex, str]] = {
    ANY_CHAR: "/(?s:.)/",
    NO_NEWLINE: "/./",
    NO_QUOTE: '/[^"]/',
    NO_QUOTE_BACKSLASH: r'/[^"\\]/',
    STRING_CHAR: r'/[^"\\\x00-\x1F\x7F]/',
}

_LOWER: Final = _byte_range(0x61, 0x7A)
_DIGIT: Final = _byte_range(0x30, 0x39)
_WORD: Final = ByteSet(_LOWER.mask | _DIGIT.mask | 1 << 0x5F)
_SPACE: Final = byte_set(b" \t\n\r")


def star(item: Regex) -> Regex:
    """Any number of ``item``."""
    return Repeat(item, 0, None)


def plus(item: Regex) -> Regex:
    """At least one ``item``."""
    return Repeat(item, 1, None)


def optional(item: Regex) -> Regex:
    """``item`` or nothing."""
    return Repeat(item, 0, 1)


def sequence(*items: Regex | bytes) -> Regex:
    """One after the other."""
    return Concat(tuple(Literal(i) if isinstance(i, bytes) else i for i in items))


def either(*items: Regex | bytes) -> Regex:
    """Any of them."""
    return Alternation(tuple(Literal(i) if isinstance(i, bytes) else i for i in items))


def both(*items: Regex) -> Regex:
    """All of them at once."""
    return Intersection(items)


_ESCAPE: Final = sequence(
    b"\\",
    either(
        byte_set(b'"\\/bfnrt'), sequence(b"u", Repeat(byte_set(b"0123456789abcdefABCDEF"), 4, 4))
    ),
)
JSON_BODY: Final = star(either(STRING_CHAR, _ESCAPE))
JSON_STRING: Final = sequence(b'"', JSON_BODY, b'"')
IDENTIFIER: Final = sequence(_LOWER, star(_WORD))
INTEGER: Final = sequence(
    optional(Literal(b"-")), either(b"0", sequence(_byte_range(0x31, 0x39), star(_DIGIT)))
)
NUMBER: Final = sequence(
    INTEGER,
    optional(sequence(b".", plus(_DIGIT))),
    optional(sequence(byte_set(b"eE"), optional(byte_set(b"+-")), plus(_DIGIT))),
)

_KEYWORDS: Final = (b"if", b"in", b"int", b"inner", b"else", b"while", b"true", b"null", b"nul")
_PUNCTUATION: Final = (
    b",",
    b":",
    b";",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b"=",
    b"==",
    b"=>",
    b"->",
)


def _bounds(rng: random.Random, most: int = 8) -> tuple[int, int | None]:
    low = rng.randint(0, most // 2)
    return low, rng.choice((None, max(low, 1), low + rng.randint(1, most)))


def _some_class(rng: random.Random) -> Regex:
    return rng.choice((_LOWER, _DIGIT, _WORD, STRING_CHAR, NO_NEWLINE, ANY_CHAR, byte_set(b"ab")))


def _bounded(rng: random.Random) -> Regex:
    return Repeat(_some_class(rng), *_bounds(rng))


def _quoted(rng: random.Random) -> Regex:
    body = rng.choice((star(NO_QUOTE), star(either(NO_QUOTE_BACKSLASH, sequence(b"\\", ANY_CHAR)))))
    return sequence(b'"', body, b'"')


def _json_string(rng: random.Random) -> Regex:
    kind = rng.randrange(5)
    if kind == 0:
        return JSON_STRING
    if kind == 1:
        return sequence(b'"', Repeat(either(STRING_CHAR, _ESCAPE), *_bounds(rng)), b'"')
    if kind == 2:
        keys = rng.sample((b"a", b"ab", b"abc", b"id", b"name", b"names"), rng.randint(1, 3))
        return sequence(b'"', both(JSON_BODY, Complement(either(*keys))), b'"')
    if kind == 3:
        return sequence(b'"', both(JSON_BODY, sequence(star(ANY_CHAR), b"a", star(ANY_CHAR))), b'"')
    return sequence(b'"', Repeat(_some_class(rng), *_bounds(rng)), b'"')


def _identifier(rng: random.Random) -> Regex:
    if rng.random() < 0.5:
        return IDENTIFIER
    return both(IDENTIFIER, Complement(either(*rng.sample(_KEYWORDS, rng.randint(1, 3)))))


def _comment(rng: random.Random) -> Regex:
    body = star(ANY_CHAR)
    return rng.choice(
        (
            sequence(b"//", star(NO_NEWLINE)),
            sequence(b"#", star(NO_NEWLINE), b"\n"),
            sequence(b"/*", both(body, Complement(sequence(body, b"*/", body))), b"*/"),
        )
    )


def _until(rng: random.Random) -> Regex:
    """Text up to and with a marker: of use when lazy."""
    marker = rng.choice((b"</x>", b"*/", b"\n", b"ab", b"END"))
    return sequence(star(rng.choice((ANY_CHAR, NO_NEWLINE, _LOWER))), marker)


def _formatted(rng: random.Random) -> Regex:
    group = Repeat(byte_set(b"ABab01"), 4, 4)
    return rng.choice(
        (
            sequence(Repeat(_DIGIT, 4, 4), b"-", Repeat(_DIGIT, 2, 2)),
            star(group),
            sequence(plus(_WORD), b"@", plus(_LOWER), plus(sequence(b".", plus(_LOWER)))),
            both(star(_WORD), Complement(sequence(star(_WORD), b"aa", star(_WORD)))),
            sequence(star(NO_NEWLINE), byte_set(b"abc"), star(NO_NEWLINE)),
            both(Repeat(_WORD, 2, 6), sequence(star(_WORD), _DIGIT)),
            plus(sequence(_LOWER, optional(byte_set(b"_-")))),
        )
    )


_TEXT_TERMINALS: Final[tuple[Callable[[random.Random], Regex], ...]] = (
    _bounded,
    _quoted,
    _json_string,
    _json_string,
    _identifier,
    _identifier,
    _comment,
    _until,
    _formatted,
    lambda rng: rng.choice((INTEGER, NUMBER)),
    lambda rng: Literal(rng.choice(_KEYWORDS)),
    lambda rng: Literal(rng.choice(_PUNCTUATION)),
    lambda rng: Literal(rng.choice(_PUNCTUATION)),
)


def random_regex(rng: random.Random, alphabet: bytes = ALPHABET, depth: int = 3) -> Regex:
    """Any regex over ``alphabet``; a complement or an intersection now and then."""
    kind = rng.randrange(12) if depth else rng.randrange(3)
    if kind == 0:
        return byte_set(rng.sample(alphabet, rng.randint(1, len(alphabet))))
    if kind <= 2:
        return Literal(bytes(rng.choices(alphabet, k=rng.randint(0 if kind == 2 else 1, 3))))
    if kind <= 5:
        return Concat(
            tuple(random_regex(rng, alphabet, depth - 1) for _ in range(rng.randint(2, 3)))
        )
    if kind <= 7:
        return Alternation(
            tuple(random_regex(rng, alphabet, depth - 1) for _ in range(rng.randint(2, 3)))
        )
    if kind <= 9:
        return Repeat(random_regex(rng, alphabet, depth - 1), *_bounds(rng, 4))
    if kind == 10:
        return both(*(random_regex(rng, alphabet, depth - 1) for _ in range(2)))
    inner = Complement(random_regex(rng, alphabet, depth - 1))
    bounds = byte_set(alphabet), rng.randint(0, 1), rng.choice((None, 4))
    return inner if rng.random() < 0.2 else both(Repeat(*bounds), inner)


# --------------------------------------------------------------------------------------------------
# Grammars.


def _random_terminals(rng: random.Random, *, text: bool) -> list[Terminal]:
    terminals: list[Terminal] = []
    for index in range(rng.randint(1, 6)):
        if text:
            regex = rng.choice(_TEXT_TERMINALS)(rng)
        elif rng.random() < 0.3:
            regex = Literal(bytes(rng.choices(ALPHABET, k=rng.randint(1, 4))))
        else:
            regex = random_regex(rng)
        if any(regex == other.regex for other in terminals):
            continue  # front ends give equal texts one terminal
        terminals.append(Terminal(f"T{index}", regex, lazy=rng.random() < 0.15))
    return terminals


def _add_skip(rng: random.Random, terminals: list[Terminal], *, text: bool) -> list[int]:
    """Add up to two skip terminals and deal the others out to their classes."""
    kinds: list[Regex] = [plus(_SPACE), plus(Literal(b" ")), Literal(b" "), Repeat(_SPACE, 1, 3)]
    if text:
        kinds.append(either(plus(_SPACE), sequence(b"#", star(NO_NEWLINE))))
    else:
        kinds += [plus(byte_set(b" .")), star(Literal(b" ")), random_regex(rng, depth=2)]
    skip: list[int] = []
    for _ in range(1 if rng.random() < 0.8 else 2):
        if rng.random() < 0.1:
            skip.append(-1)
        else:
            skip.append(len(terminals))
            lazy = rng.random() < 0.05
            terminals.append(Terminal(f"T{len(terminals)}_SKIP", rng.choice(kinds), lazy=lazy))
    if len(skip) > 1:
        terminals[:] = [
            dataclasses.replace(t, skip_class=rng.randrange(len(skip))) for t in terminals
        ]
    return skip


def _add_ordinary_skip(rng: random.Random, terminals: list[Terminal], skip: list[int]) -> int:
    """Give one skip terminal an ordinary double, in front of all skip terminals; how many are."""
    source = terminals[rng.choice([index for index in skip if index >= 0])]
    usable = min(index for index in skip if index >= 0)
    terminals.insert(usable, dataclasses.replace(source, name="T_SPACE", lazy=False))
    skip[:] = [index + 1 if index >= 0 else -1 for index in skip]
    return usable + 1


def _random_slice(rng: random.Random) -> tuple[int, int]:
    low = rng.choice((0, 0, 0, 1, 2))
    return low, low + rng.choice((1, 2, 3, 62))


def _random_argument(rng: random.Random, *, inside_parametric: bool) -> ParamExpr:
    if not inside_parametric or rng.random() < 0.15:
        return ParamExpr("const", rng.choice((0, 0, 0, 1, 2, 5, (1 << 64) - 1)))
    op = rng.choice(
        ("self", "set_bit", "set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr")
    )
    if op in ("incr", "decr"):
        return ParamExpr(op, *_random_slice(rng))
    if op in ("set_bit", "clear_bit"):
        return ParamExpr(op, rng.randint(0, 3))
    return ParamExpr(op, rng.randint(0, 7) if op != "self" else 0)


def _random_condition(rng: random.Random, depth: int = 2) -> Condition:
    comparison = rng.choice(("eq", "ne", "lt", "le", "gt", "ge"))
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return Condition("true")
    if kind == 1:
        return Condition(comparison, *_random_slice(rng), value=rng.randint(0, 4))
    if kind == 2:
        return Condition(f"bit_count_{comparison}", *_random_slice(rng), value=rng.randint(0, 3))
    if kind == 3:
        return Condition(rng.choice(("bit_set", "bit_clear")), rng.randint(0, 3))
    if kind == 4:
        return Condition(rng.choice(("is_ones", "is_zeros")), *_random_slice(rng))
    if kind == 5:
        return Condition("not", items=(_random_condition(rng, depth - 1),))
    return Condition(
        rng.choice(("and", "or")), items=tuple(_random_condition(rng, depth - 1) for _ in range(2))
    )


def _random_rules(rng: random.Random, terminals: int) -> list[Rule]:
    """Rules that refer to each other in every direction, some of them with a parameter."""
    count = rng.randint(1, 5)
    with_parameters = rng.random() < 0.25
    parametric = [with_parameters and i > 0 and rng.random() < 0.6 for i in range(count)]
    rule_share = rng.choice((0.2, 0.4, 0.6))

    def symbol(inside: int) -> Symbol:
        if rng.random() >= rule_share:
            return TerminalRef(rng.randrange(terminals))
        target = rng.randrange(count)
        if not parametric[target]:
            return RuleRef(target)
        return RuleRef(target, _random_argument(rng, inside_parametric=parametric[inside]))

    def production(inside: int) -> Production:
        symbols = tuple(symbol(inside) for _ in range(rng.choice((0, 1, 1, 2, 2, 3))))
        guarded = parametric[inside] and rng.random() < 0.6
        return Production(symbols, _random_condition(rng) if guarded else None)

    return [
        Rule(f"r{i}", [production(i) for _ in range(rng.choice((1, 2, 2, 3)))], parametric[i])
        for i in range(count)
    ]


def _shaped_rules(rng: random.Random, terminals: int) -> list[Rule]:
    """Rules as people write them: lists, nesting, expressions, records, permutations."""

    def t() -> TerminalRef:
        return TerminalRef(rng.randrange(terminals))

    def rule(name: str, *alternatives: Sequence[Symbol]) -> Rule:
        return Rule(name, [Production(tuple(symbols)) for symbols in alternatives])

    this, other = RuleRef(0), RuleRef(1)
    a, b, c, d = t(), t(), t(), t()
    shape = rng.randrange(9)
    if shape == 0:  # list with separator, left-recursive
        return [rule("start", [a], [this, b, a])]
    if shape == 1:  # the same, right-recursive
        return [rule("start", [a], [a, b, this])]
    if shape == 2:  # any number of alternatives
        return [rule("start", [], [this, other]), rule("item", [a], [b], [c, d])]
    if shape == 3:  # nesting
        return [rule("start", [a, other, b]), rule("body", [], [c], [RuleRef(0)], [other, d, this])]
    if shape == 4:  # expressions
        return [
            rule("start", [other], [this, a, other]),
            rule("term", [RuleRef(2)], [other, b, RuleRef(2)]),
            rule("factor", [c], [d, this, t()]),
        ]
    if shape == 5:  # record with optional parts
        return [
            rule("start", [a, other, RuleRef(2), b]),
            rule("o", [], [c]),
            rule("p", [], [d, t()]),
        ]
    if shape == 6:  # hidden left recursion and a cycle
        return [rule("start", [other, this, a], [b], [this]), rule("maybe", [], [c])]
    if shape == 7:  # permutation by a parameter
        used = [
            Production((s, RuleRef(1, ParamExpr("set_bit", i))), Condition("bit_clear", i))
            for i, s in enumerate((a, b, c))
        ]
        end = Production((), Condition("is_ones", 0, 3))
        return [
            rule("start", [RuleRef(1, ParamExpr("const", 0))]),
            Rule("rest", [*used, end], parametric=True),
        ]
    # sequence
    return [rule("start", [a, b, c])]


def _some_classes(rng: random.Random, count: int) -> frozenset[int] | None:
    if rng.random() < 0.5:
        return None
    return frozenset(rng.sample(range(count), rng.randint(0, count)))


def random_grammar(rng: random.Random) -> GrammarIR:
    """A grammar that describes at least one text, guards left aside."""
    while True:
        text = rng.random() < 0.5
        terminals = _random_terminals(rng, text=text)
        usable = len(terminals)
        skip = _add_skip(rng, terminals, text=text) if rng.random() < 0.4 else [-1]
        if usable < len(terminals) and rng.random() < 0.1:
            # White space that is also an ordinary terminal: front ends make two of it.
            usable = _add_ordinary_skip(rng, terminals, skip)
        rules = (_shaped_rules if rng.random() < 0.5 else _random_rules)(rng, usable)
        ir = GrammarIR(
            rules,
            terminals,
            start=0,
            skip=skip,
            initial_skip=rng.random() < 0.3,
            skip_once=rng.random() < 0.3,
            skip_once_classes=_some_classes(rng, len(skip)),
            forcing=rng.random() < 0.9,
            max_tokens=rng.randint(0, 12) if rng.random() < 0.05 else None,
        )
        if rng.random() < 0.4:
            _add_captures(rng, ir)
        if rng.random() < 0.15:
            for rule in rng.sample(ir.rules, rng.randint(1, len(ir.rules))):
                rule.max_tokens = rng.choice((1, 1, 2, 3, 4, 0))
        try:
            ReferenceGrammar(ir)
        except EmptyLanguageError:
            continue
        return ir


def _add_captures(rng: random.Random, ir: GrammarIR) -> None:
    """Give some rules captures, and some terminals tails."""
    for index, rule in enumerate(ir.rules):
        if rng.random() < 0.5:
            rule.capture = f"c{index}"
        if rng.random() < 0.3:
            rule.tail_capture = f"t{index}"
    for index, terminal in enumerate(ir.terminals):
        if index not in ir.skip and rng.random() < 0.4:
            tail = random_regex(rng, depth=rng.choice((0, 0, 1)))
            regex = Concat((terminal.regex, tail))
            stops = terminal.lazy or rng.random() < 0.4
            ir.terminals[index] = dataclasses.replace(
                terminal,
                regex=regex,
                tail=tail,
                lazy=stops,
                hidden_tail=stops and rng.random() < 0.7,
            )
        elif index not in ir.skip and not terminal.lazy and rng.random() < 0.2:
            ir.terminals[index] = dataclasses.replace(terminal, ends_with_eog=True)


def made_exact(ir: GrammarIR) -> GrammarIR:
    """``ir`` with exact lexing, and without what that does not go with."""
    plain = {"capture": None, "tail_capture": None, "temperature": None, "max_tokens": None}
    shown = {"hidden_tail": False, "ends_with_eog": False, "distinct": False, "unique": False}
    return dataclasses.replace(
        ir,
        exact=True,
        rules=[dataclasses.replace(rule, **plain) for rule in ir.rules],  # type: ignore[arg-type]
        terminals=[dataclasses.replace(terminal, **shown) for terminal in ir.terminals],
    )


# --------------------------------------------------------------------------------------------------
# Scopes.

_AB: Final = byte_set(b"ab")
_DISTINCT: Final[tuple[Regex, ...]] = (
    JSON_STRING,
    sequence(b'"', star(_AB), b'"'),
    sequence(b'"', Repeat(_AB, 0, 2), b'"'),
    sequence(b'"', both(star(_AB), Complement(either(b"a", b"bb"))), b'"'),
    both(JSON_STRING, Complement(either(b'"a"', b'"ab"'))),
    INTEGER,
    NUMBER,
    plus(_AB),
    Repeat(_AB, 1, 2),
    either(b"a", b"b", b"ab"),
    either(b"a", sequence(b"b", star(_AB))),
    Literal(b'"a"'),
)


def _with_roles(rng: random.Random, ir: GrammarIR) -> GrammarIR:
    """``ir`` with roles dealt out at random, sensible or not."""
    terminals = [
        dataclasses.replace(
            terminal,
            distinct=rng.random() < 0.4,
            scope=rng.choice(("", "", "open", "close")),
            unique=rng.random() < 0.4,
        )
        for terminal in ir.terminals
    ]
    return dataclasses.replace(ir, terminals=terminals)


def random_scoped_grammar(rng: random.Random) -> GrammarIR:
    """A grammar with distinct lexemes: mostly of the kind that JSON is, with few possible keys."""
    if rng.random() < 0.25:
        return _with_roles(rng, random_grammar(rng))
    regexes = rng.sample(_DISTINCT, 3)
    terminals = [
        Terminal("OPEN", Literal(b"{"), scope="open"),
        Terminal("CLOSE", Literal(b"}"), scope="close", unique=rng.random() < 0.8),
        Terminal("LIST", Literal(b"["), scope="open", unique=rng.random() < 0.6),
        Terminal("END", Literal(b"]"), scope="close", unique=rng.random() < 0.8),
        Terminal("COMMA", Literal(b",")),
        Terminal("COLON", Literal(b":")),
        Terminal("KEY", regexes[0], distinct=True, lazy=rng.random() < 0.05),
        Terminal("ITEM", regexes[1], distinct=rng.random() < 0.8),
        Terminal("VALUE", regexes[2], distinct=rng.random() < 0.2),
    ]
    opening, closing, start, end, comma, colon, key, item, value = map(TerminalRef, range(9))
    values: list[Symbol] = [value, RuleRef(1), RuleRef(4)]
    items: list[Symbol] = [item, RuleRef(1), RuleRef(4)]
    pairs = [Production((key, colon, RuleRef(3)))]
    if rng.random() < 0.3:
        terminals.append(Terminal("NAME", Literal(rng.choice((b'"a"', b'"id"', b"a", b"b")))))
        pairs.append(Production((TerminalRef(9), colon, value)))
    members = [[RuleRef(2)], [RuleRef(2), comma, RuleRef(2)], [RuleRef(5)]]
    bodies: list[list[Symbol]] = [[], *(list(body) for body in members)]
    rules = [
        Rule("start", [Production((s,)) for s in rng.sample(items[1:], rng.randint(1, 2))]),
        Rule(
            "object",
            [Production((opening, *b, closing)) for b in rng.sample(bodies, rng.randint(1, 3))],
        ),
        Rule("pair", pairs),
        Rule("value", [Production((s,)) for s in rng.sample(values, rng.randint(1, 3))]),
        Rule("array", [Production((start, RuleRef(6), end))]),
        Rule("pairs", [Production((RuleRef(2),)), Production((RuleRef(5), comma, RuleRef(2)))]),
        Rule("items", _items(rng, comma)),
        Rule("item", [Production((s,)) for s in rng.sample(items, rng.randint(1, 3))]),
    ]
    skip = [-1]
    if rng.random() < 0.4:
        skip = [len(terminals)]
        terminals.append(Terminal("SPACE", rng.choice((plus(_SPACE), Literal(b" ")))))
    ir = GrammarIR(
        rules,
        terminals,
        start=0,
        skip=skip,
        skip_once=rng.random() < 0.3,
        initial_skip=rng.random() < 0.2,
    )
    if rng.random() < 0.15:
        for rule in rng.sample(rules, rng.randint(1, len(rules))):
            rule.max_tokens = rng.choice((1, 2, 3, 4, 6))
    try:
        ReferenceGrammar(ir)
    except EmptyLanguageError:
        return random_scoped_grammar(rng)
    return ir


def _items(rng: random.Random, comma: TerminalRef) -> list[Production]:
    one, more = RuleRef(7), RuleRef(6)
    bodies: list[list[Symbol]] = [[one], [more, comma, one]]
    if rng.random() < 0.3:
        bodies = [[one, comma, one]]
    if rng.random() < 0.5:
        bodies.append([])
    return [Production(tuple(body)) for body in bodies]


# --------------------------------------------------------------------------------------------------
# Texts and vocabularies.


def random_text(rng: random.Random, grammar: ReferenceGrammar, length: int) -> bytes:
    """At most ``length`` bytes that ``grammar`` allows from the start."""
    text = bytearray()
    state: State | Ways | None = grammar.start
    while state is not None and len(text) < length:
        # One byte of each class, or else text would be mostly bytes outside ASCII.
        by_next: dict[State | Ways, list[int]] = {}
        for byte in grammar.followers(state):
            after = grammar.step(state, byte)
            assert after is not None
            by_next.setdefault(after, []).append(byte)
        if not by_next:
            break
        state = rng.choice(list(by_next))
        choices = by_next[state]
        ascii_choices = [byte for byte in choices if 0x20 <= byte < 0x7F]
        text.append(rng.choice(ascii_choices if ascii_choices and rng.random() < 0.8 else choices))
    return bytes(text)


def with_token_terminals(rng: random.Random, grammar: GrammarIR, tokens: TokenSet) -> GrammarIR:
    """``grammar`` with some of its terminals turned into tokens of a vocabulary.

    Special tokens by name, ids of any kind, and complements. ``grammar`` itself where nothing could
    be derived then.
    """
    terminals = [
        terminal
        if index in grammar.skip or terminal.scope or terminal.distinct or rng.random() < 0.6
        else Terminal(
            terminal.name, EMPTY, skip_class=terminal.skip_class, tokens=_random_ids(rng, tokens)
        )
        for index, terminal in enumerate(grammar.terminals)
    ]
    result = dataclasses.replace(grammar, terminals=terminals)
    vocabulary = ReferenceVocabulary(tokens.tokens, tokens.eog, tokens.special)
    try:
        ReferenceGrammar(result, vocabulary)
    except EmptyLanguageError:
        return grammar
    return result


def _random_ids(rng: random.Random, tokens: TokenSet) -> ir.TokenSet:
    names = [tokens.tokens[token].decode("utf-8", "replace") for token in tokens.special]
    named = [name for name in names if name and name.encode() in tokens.tokens]
    ranges = []
    for _ in range(rng.randint(0 if named else 1, 2)):
        first = rng.randrange(len(tokens.tokens))
        ranges.append((first, min(first + rng.choice((0, 0, 1, 40)), len(tokens.tokens) - 1)))
    chosen = rng.sample(named, rng.randint(0 if ranges else 1, min(len(named), 2))) if named else ()
    negated = rng.random() < 0.3
    if negated and rng.random() < 0.3:
        return ir.TokenSet(negated=True)
    return ir.TokenSet(tuple(chosen), tuple(ranges), negated)


@dataclasses.dataclass(frozen=True)
class TokenSet:
    """Tokens by id with the ids of those that are no text."""

    tokens: tuple[bytes, ...]
    eog: tuple[int, ...]
    special: tuple[int, ...] = ()


def byte_tokens() -> TokenSet:
    """Every byte as a token, and one that ends the generation."""
    return TokenSet((*(bytes((b,)) for b in range(256)), b"<eos>"), eog=(256,))


def random_tokens(rng: random.Random, grammar: ReferenceGrammar) -> TokenSet:
    """Tokens that fit ``grammar`` well, tokens that nearly do, and odd ones.

    Pieces of texts of the grammar, the same with a byte changed, random strings, every byte that
    the texts use, duplicates, empty tokens, special tokens that look like text.
    """
    texts = [random_text(rng, grammar, rng.randint(1, 24)) for _ in range(8)]
    known = sorted(set(b"".join(texts)) | set(ALPHABET))
    tokens = [bytes((byte,)) for byte in known if rng.random() < 0.97]
    for text in texts:
        for _ in range(10):
            begin = rng.randint(0, max(0, len(text) - 1))
            piece = bytearray(text[begin : begin + rng.choice((1, 2, 2, 3, 4, 6, 9))])
            if piece and rng.random() < 0.2:
                piece[rng.randrange(len(piece))] = rng.choice(known)
            tokens.append(bytes(piece))
    tokens += [bytes(rng.choices(known, k=rng.randint(1, 6))) for _ in range(rng.randint(0, 30))]
    tokens += [rng.choice(tokens) for _ in range(rng.randint(0, 4))]
    tokens += [b""] * rng.randint(0, 2)
    rng.shuffle(tokens)
    special = sorted(rng.sample(range(len(tokens)), rng.randint(0, 3)))
    eog: list[int] = []
    for _ in range(rng.randint(1, 2)):
        at = rng.choice((len(tokens), len(tokens), rng.randrange(len(tokens))))
        if at == len(tokens):
            tokens.append(rng.choice((b"<eos>", b"a", b"")))
        if at not in special:
            eog.append(at)
    if not eog:
        eog.append(len(tokens))
        tokens.append(b"</s>")
    return TokenSet(tuple(tokens), tuple(sorted(set(eog))), tuple(special))


def dense_tokens(rng: random.Random, grammar: ReferenceGrammar, count: int = 4000) -> TokenSet:
    """All strings over a few characters that texts of ``grammar`` use, up to a length.

    Engines treat large subtrees of the vocabulary otherwise than small ones: here each character
    has a thousand tokens that begin with it. Every byte is a token too.
    """
    texts = b"".join(random_text(rng, grammar, 24) for _ in range(8)).decode("utf-8", "ignore")
    letters = sorted(set(texts)) or ["a"]
    chosen = rng.sample(letters, min(len(letters), rng.randint(2, 4)))
    if len(chosen) == 1:
        chosen.append("a" if chosen[0] != "a" else "b")
    if rng.random() < 0.3:
        chosen.append(rng.choice("é日😀"))
    units = [letter.encode() for letter in chosen]
    tokens = [bytes((byte,)) for byte in range(256)]
    longest = [b""]
    while len(tokens) < count and len(longest[0]) < 64:
        longest = [text + unit for text in longest for unit in units]
        tokens += longest if len(longest) < count else rng.sample(longest, count)
    tokens += random_tokens(rng, grammar).tokens
    return TokenSet((*tokens, b"</s>"), eog=(len(tokens),))


# --------------------------------------------------------------------------------------------------
# The same grammar as Lark text.


class NotPrintableError(ValueError):
    """A grammar that has no spelling in Lark, for instance because of two classes of skip."""


def lark_text(ir: GrammarIR) -> str:
    """``ir`` in the Lark variant of llguidance, or :class:`NotPrintableError`.

    Rule ``i`` is ``r<i>``, terminal ``i`` is ``T<i>``; a lazy one is wrapped in a rule ``lazy<i>``.
    """
    if len(ir.skip) > 1:
        raise NotPrintableError("two classes of skip")
    if any(terminal.distinct or terminal.unique for terminal in ir.terminals):
        raise NotPrintableError("distinct lexemes")
    if any(terminal.tokens is not None for terminal in ir.terminals):
        raise NotPrintableError("tokens of a vocabulary")
    if ir.max_tokens is not None or any(rule.max_tokens is not None for rule in ir.rules):
        raise NotPrintableError("max_tokens")
    if any(terminal.hidden_tail or terminal.ends_with_eog for terminal in ir.terminals):
        raise NotPrintableError("stop conditions")
    options = {
        "allow_initial_skip": ir.initial_skip,
        "ignore_once": ir.skip_once and ir.skip_once_classes != frozenset(),
        "no_forcing": not ir.forcing,
    }
    if ir.exact:
        raise NotPrintableError("exact lexing")
    flags = ", ".join(f'"{name}": true' for name, on in options.items() if on)
    lines = [f"%llguidance {{{flags}}}", f"start: r{ir.start}"]
    for index, rule in enumerate(ir.rules):
        alternatives = [_production_text(ir, production) for production in rule.productions]
        parameter = "::_ " if rule.parametric else ""
        lines.append(f"r{index}{parameter}: " + "\n    | ".join(alternatives or [_EMPTY_TEXT]))
    for index, terminal in enumerate(ir.terminals):
        lines.append(f"T{index}: {_regex_text(terminal.regex)}")
        if terminal.lazy:
            if index in ir.skip:
                raise NotPrintableError("lazy skip")
            lines.append(f"lazy{index}[lazy]: T{index}")
    if ir.skip[0] >= 0:
        lines.append(f"%ignore T{ir.skip[0]}")
    return "\n".join(lines) + "\n"


_EMPTY_TEXT: Final = "(/a/ & /b/)"


def _production_text(ir: GrammarIR, production: Production) -> str:
    symbols: list[str] = []
    for symbol in production.symbols:
        if isinstance(symbol, TerminalRef):
            lazy = ir.terminals[symbol.index].lazy
            symbols.append(f"{'lazy' if lazy else 'T'}{symbol.index}")
        elif symbol.argument is None:
            symbols.append(f"r{symbol.index}")
        else:
            symbols.append(f"r{symbol.index}::{_argument_text(symbol.argument)}")
    text = " ".join(symbols) or '""'
    if production.condition is not None:
        text += f" %if {_condition_text(production.condition)}"
    return text


def _argument_text(argument: ParamExpr) -> str:
    if argument.op == "const":
        return str(argument.a)
    if argument.op == "self":
        return "_"
    if argument.op in ("incr", "decr"):
        return f"{argument.op}([{argument.a}:{argument.b}])"
    return f"{argument.op}({argument.a})"


def _condition_text(condition: Condition) -> str:
    part = f"[{condition.a}:{condition.b}]"
    if condition.op == "true":
        return "true"
    if condition.op in ("and", "or", "not"):
        return f"{condition.op}({', '.join(map(_condition_text, condition.items))})"
    if condition.op in ("bit_set", "bit_clear"):
        return f"{condition.op}({condition.a})"
    if condition.op in ("is_ones", "is_zeros"):
        return f"{condition.op}({part})"
    return f"{condition.op}({part}, {condition.value})"


def _regex_text(regex: Regex) -> str:
    if regex in _SPELLINGS:
        return _SPELLINGS[regex]
    if regex == EPSILON:
        return '""'
    if regex == EMPTY:
        return _EMPTY_TEXT
    if isinstance(regex, Literal):
        if max(regex.data) >= 0x80:
            raise NotPrintableError("bytes outside ASCII")
        return '"' + "".join(_character_text(byte) for byte in regex.data) + '"'
    if isinstance(regex, ByteSet):
        if regex.mask >> 0x80:
            raise NotPrintableError("bytes outside ASCII")
        return "/[" + "".join(f"\\x{b:02x}" for b in range(128) if regex.mask >> b & 1) + "]/"
    if isinstance(regex, Complement):
        return f"~({_regex_text(regex.item)})"
    if isinstance(regex, Repeat):
        if regex.high == 0:
            return '""'
        high = "" if regex.high is None else str(regex.high)
        return f"({_regex_text(regex.item)}){{{regex.low},{high}}}"
    if not regex.items:
        return '""' if isinstance(regex, Concat) else f"~{_EMPTY_TEXT}"
    between = {Concat: " ", Alternation: " | ", Intersection: " & "}[type(regex)]
    return "(" + between.join(map(_regex_text, regex.items)) + ")"


def _character_text(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\u{byte:04x}"


# --------------------------------------------------------------------------------------------------
# Hypothesis.

_randoms: Final = st.randoms(use_true_random=False)


def regexes(alphabet: bytes = ALPHABET) -> st.SearchStrategy[Regex]:
    """Regexes over ``alphabet``."""
    return _randoms.map(lambda rng: random_regex(rng, alphabet))


def grammars() -> st.SearchStrategy[GrammarIR]:
    """Grammars that describe at least one text."""
    return _randoms.map(random_grammar)


def token_sets(grammar: ReferenceGrammar) -> st.SearchStrategy[TokenSet]:
    """Vocabularies made for ``grammar``."""
    return _randoms.map(lambda rng: random_tokens(rng, grammar))
