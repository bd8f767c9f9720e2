"""Descriptions of grammars as bytes, to be kept in files and read again.

The form is JSON: numbered tables of regexes, arguments and guards, each after those it is made of,
then terminals and rules that refer to them by number. What was one object is one object again.

Invariant: :func:`loads` gives a description that passes :meth:`GrammarIR.check` and equals the one
that :func:`dumps` was given, ``common`` apart, which only means something within a process; or it
raises ``ValueError``, whatever the bytes are. Nothing in them is executed. Cost: linear, a few
microseconds an object.
"""

from __future__ import annotations

import json
from typing import Any, Final

from llgx.ir import (
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
    Remainder,
    Repeat,
    Rule,
    RuleRef,
    Substring,
    Symbol,
    Terminal,
    TerminalRef,
    TokenSet,
    parts_of,
)

__all__ = ["dumps", "loads"]

_LISTS: Final[dict[str, type[Concat] | type[Alternation] | type[Intersection]]] = {
    "concat": Concat,
    "alternation": Alternation,
    "intersection": Intersection,
}


# Writing


class _Writer:
    def __init__(self) -> None:
        self.regexes: list[object] = []
        self.arguments: list[object] = []
        self.guards: list[object] = []
        self.texts: list[str] = []  # of grammars, that errors point into
        self._text_at: dict[str, int] = {}
        self._regex_at: dict[int, int] = {}  # by identity: equal trees need not be compared
        self._argument_at: dict[ParamExpr, int] = {}
        self._guard_at: dict[int, int] = {}

    def regex(self, tree: Regex) -> int:
        todo = [tree]
        while todo:
            node = todo[-1]
            if id(node) in self._regex_at:
                todo.pop()
                continue
            missing = [part for part in parts_of(node) if id(part) not in self._regex_at]
            if missing:
                todo += missing
                continue
            todo.pop()
            self._regex_at[id(node)] = len(self.regexes)
            self.regexes.append(self._entry(node))
        return self._regex_at[id(tree)]

    def _entry(self, node: Regex) -> object:
        parts = [self._regex_at[id(part)] for part in parts_of(node)]
        if isinstance(node, Literal):
            return ["literal", node.data.decode("latin-1")]
        if isinstance(node, ByteSet):
            return ["bytes", f"{node.mask:x}"]
        if isinstance(node, Substring):
            return ["substring", *[piece.decode("latin-1") for piece in node.pieces]]
        if isinstance(node, Complement):
            return ["complement", *parts]
        if isinstance(node, Repeat):
            return ["repeat", *parts, node.low, node.high]
        if isinstance(node, Remainder):
            numbers = [node.modulus, node.residue, node.low, node.high, node.places]
            return ["remainder", *numbers, node.fraction, node.part]
        return [next(name for name, kind in _LISTS.items() if type(node) is kind), parts]

    def symbol(self, symbol: Symbol) -> object:
        if isinstance(symbol, TerminalRef):
            return 2 * symbol.index + 1
        if symbol.argument is None:
            return 2 * symbol.index
        at = self._argument_at.get(symbol.argument)
        if at is None:
            at = self._argument_at[symbol.argument] = len(self.arguments)
            self.arguments.append([symbol.argument.op, symbol.argument.a, symbol.argument.b])
        return [2 * symbol.index, at]

    def guard(self, condition: Condition | None) -> int | None:
        if condition is None:
            return None
        at = self._guard_at.get(id(condition))
        if at is None:
            items = [self.guard(item) for item in condition.items]
            at = self._guard_at[id(condition)] = len(self.guards)
            self.guards.append(
                [condition.op, condition.a, condition.b, condition.value, items],
            )
        return at

    def tokens(self, tokens: TokenSet | None) -> object:
        if tokens is None:
            return None
        place = None
        if tokens.place is not None:
            text, offset, name = tokens.place
            at = self._text_at.setdefault(text, len(self.texts))
            if at == len(self.texts):
                self.texts.append(text)
            place = [at, offset, name]
        return [tokens.names, tokens.ranges, tokens.negated, tokens.optional, place]

    def terminal(self, terminal: Terminal) -> object:
        return [
            terminal.name,
            self.regex(terminal.regex),
            terminal.lazy,
            terminal.skip_class,
            self.tokens(terminal.tokens),
            None if terminal.tail is None else self.regex(terminal.tail),
            terminal.hidden_tail,
            terminal.ends_with_eog,
            terminal.scope,
            terminal.distinct,
            terminal.unique,
        ]

    def rule(self, rule: Rule) -> object:
        return [
            rule.name,
            [
                [list(map(self.symbol, p.symbols)), self.guard(p.condition)]
                for p in rule.productions
            ],
            rule.parametric,
            rule.capture,
            rule.tail_capture,
            rule.max_tokens,
            rule.temperature,
        ]


def dumps(ir: GrammarIR) -> bytes:
    """``ir`` as bytes. Raises ``RecursionError`` for guards that nest too deeply."""
    writer = _Writer()
    terminals = [writer.terminal(terminal) for terminal in ir.terminals]
    rules = [writer.rule(rule) for rule in ir.rules]
    classes = ir.skip_once_classes
    contents = {
        "regexes": writer.regexes,
        "arguments": writer.arguments,
        "guards": writer.guards,
        "texts": writer.texts,
        "terminals": terminals,
        "rules": rules,
        "start": ir.start,
        "skip": ir.skip,
        "initial_skip": ir.initial_skip,
        "skip_once": ir.skip_once,
        "forcing": ir.forcing,
        "warnings": ir.warnings,
        "skip_once_classes": None if classes is None else sorted(classes),
        "exact": ir.exact,
        "max_tokens": ir.max_tokens,
        "unenforced": ir.unenforced,
        "literals": ir.literals,
    }
    return json.dumps(contents, separators=(",", ":")).encode("ascii")


# Reading


class _Reader:
    def __init__(self, contents: dict[str, Any]) -> None:
        self._regexes: list[Regex] = []
        for entry in contents["regexes"]:
            self._regexes.append(self._regex(*entry))
        self._arguments = [
            ParamExpr(*_typed(entry, str, int, int)) for entry in contents["arguments"]
        ]
        self._sources = _texts(contents["texts"])
        self._guards: list[Condition] = []
        for op, a, b, value, items in contents["guards"]:
            _typed((op, a, b, value), str, int, int, int)
            self._guards.append(Condition(op, a, b, value, tuple(self._at(self._guards, items))))

    @staticmethod
    def _at(table: list[Any], places: list[int]) -> list[Any]:
        # From the end, a list would answer too.
        if any(type(place) is not int or place < 0 for place in places):
            raise ValueError("a reference is a number from 0 on")
        return [table[place] for place in places]

    def _one(self, table: list[Any], place: int | None) -> Any:
        return None if place is None else self._at(table, [place])[0]

    def _regex(self, kind: str, *values: Any) -> Regex:
        if kind == "literal":
            (text,) = _typed(values, str)
            return Literal(text.encode("latin-1"))
        if kind == "bytes":
            (text,) = _typed(values, str)
            mask = int(text, 16)
            if not 0 <= mask < 1 << 256:
                raise ValueError("a set of bytes has 256 of them")
            return ByteSet(mask)
        if kind == "substring":
            return Substring(tuple(text.encode("latin-1") for text in _texts(values)))
        if kind == "complement":
            return Complement(*self._at(self._regexes, list(values)))
        if kind == "repeat":
            item, low, high = values
            _typed((low, 0 if high is None else high), int, int)
            return Repeat(self._one(self._regexes, item), low, high)
        if kind == "remainder":
            modulus, residue, low, high, places, fraction, part = values
            _typed((modulus, residue, low, places), int, int, int, int)
            _typed((0 if high is None else high, fraction, part), int, str, str)
            return Remainder(*values)
        (places,) = values
        return _LISTS[kind](tuple(self._at(self._regexes, places)))

    def terminal(self, entry: list[Any]) -> Terminal:
        name, regex, lazy, skip_class, tokens, tail, hidden, ends, scope, distinct, unique = entry
        _typed((name, lazy, skip_class, hidden), str, bool, int, bool)
        _typed((ends, scope, distinct, unique), bool, str, bool, bool)
        if scope not in ("", "open", "close"):
            raise ValueError(f"no scope {scope!r}")
        kept = None
        if tokens is not None:
            names, ranges, negated, optional, place = tokens
            _typed((negated, optional), bool, bool)
            kept = TokenSet(
                tuple(names), tuple(map(tuple, ranges)), negated, optional, self._place(place)
            )
        return Terminal(
            name,
            self._one(self._regexes, int(regex)),
            lazy,
            skip_class,
            kept,
            self._one(self._regexes, tail),
            hidden,
            ends,
            scope,
            distinct,
            unique,
        )

    def _place(self, place: Any) -> tuple[str, int, str] | None:
        if place is None:
            return None
        at, offset, name = place
        text = self._one(self._sources, at)
        _typed((offset, name), int, str)
        if not 0 <= offset <= len(text):
            raise ValueError("a place is within its text")
        return text, offset, name

    def rule(self, entry: list[Any]) -> Rule:
        name, productions, parametric, capture, tail_capture, max_tokens, temperature = entry
        _typed((name, parametric), str, bool)
        _typed((capture or "", tail_capture or ""), str, str)
        _typed((0.0 if temperature is None else float(temperature),), float)
        made = [
            Production(tuple(map(self._symbol, symbols)), self._one(self._guards, condition))
            for symbols, condition in productions
        ]
        return Rule(name, made, parametric, capture, tail_capture, max_tokens, temperature)

    def _symbol(self, entry: Any) -> Symbol:
        argument = None
        if type(entry) is list:
            entry, at = entry
            argument = self._one(self._arguments, at)
        _typed((entry,), int)
        if entry & 1:
            return TerminalRef(entry >> 1)
        return RuleRef(entry >> 1, argument)


def _typed(values: Any, *kinds: type) -> Any:
    if len(values) != len(kinds) or any(map(_differs, values, kinds)):
        raise ValueError("a value is of another type")
    return values


def _differs(value: object, kind: type) -> bool:
    return type(value) is not kind


def _texts(values: Any) -> list[str]:
    return list(_typed(values, *[str] * len(values)))


def loads(data: bytes) -> GrammarIR:
    """The description that :func:`dumps` made ``data`` of; ``ValueError`` for other bytes."""
    try:
        ir = _build(json.loads(data))
    except ValueError:
        raise
    except (
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"no description of a grammar: {error}") from None
    ir.check()
    return ir


def _build(contents: Any) -> GrammarIR:
    reader = _Reader(contents)
    classes = contents["skip_once_classes"]
    _typed((contents["start"], contents["exact"]), int, bool)
    _typed([contents[name] for name in ("initial_skip", "skip_once", "forcing")], bool, bool, bool)
    _typed(contents["skip"], *[int] * len(contents["skip"]))
    return GrammarIR(
        rules=[reader.rule(entry) for entry in contents["rules"]],
        terminals=[reader.terminal(entry) for entry in contents["terminals"]],
        start=contents["start"],
        skip=contents["skip"],
        initial_skip=contents["initial_skip"],
        skip_once=contents["skip_once"],
        forcing=contents["forcing"],
        warnings=_texts(contents["warnings"]),
        skip_once_classes=None
        if classes is None
        else frozenset(_typed(classes, *[int] * len(classes))),
        exact=contents["exact"],
        max_tokens=contents["max_tokens"],
        unenforced=[(str(a), str(b), str(c)) for a, b, c in contents["unenforced"]],
        literals=_texts(contents["literals"]),
    )
