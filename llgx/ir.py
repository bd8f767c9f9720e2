"""What front ends build and the core reads: rules, terminals and parameters.

A :class:`GrammarIR` is a plain description: it knows neither the syntax it came from nor a
vocabulary. Regexes are trees over *bytes*; character classes have been turned into UTF-8 byte
sequences by ``llgx.regex`` before they get here. All nodes are immutable and compare by content.

Invariants that the core relies on (checked by :meth:`GrammarIR.check`): every reference is an index
in range, ``start`` is not parametric, and an argument is given exactly where the rule takes one.
Terminals may match the empty string, rules may be empty, unproductive or unreachable: the core
deals with all of that.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from llgx._ir import (
    Alternation,
    ByteSet,
    Complement,
    Concat,
    Condition,
    GrammarFields,
    Intersection,
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

__all__ = [
    "ANY_BYTE",
    "EMPTY",
    "EPSILON",
    "MAX_MODULUS",
    "MAX_PLACES",
    "Alternation",
    "ByteSet",
    "Complement",
    "Concat",
    "Condition",
    "GrammarIR",
    "Intersection",
    "Literal",
    "ParamExpr",
    "Production",
    "Regex",
    "Remainder",
    "Repeat",
    "Rule",
    "RuleRef",
    "Substring",
    "Symbol",
    "Terminal",
    "TerminalRef",
    "TokenSet",
    "parts_of",
]


Regex: TypeAlias = (
    Literal
    | ByteSet
    | Concat
    | Alternation
    | Intersection
    | Complement
    | Repeat
    | Remainder
    | Substring
)

EMPTY: Final = Alternation(())
EPSILON: Final = Literal(b"")
ANY_BYTE: Final = ByteSet((1 << 256) - 1)

MAX_MODULUS: Final = 10**18
MAX_PLACES: Final = 10_000


Symbol: TypeAlias = TerminalRef | RuleRef


class GrammarIR(GrammarFields):
    """A whole grammar.

    ``skip[c]`` is the index of the terminal that may be skipped before terminals of class ``c``, or
    -1. ``initial_skip`` allows it before the first lexeme, ``skip_once`` at most once per gap, for
    the classes in ``skip_once_classes`` or, if that is None, for all.
    ``forcing`` off means that ``forced_bytes`` and ``forced_tokens`` stay empty. ``exact`` lexing
    commits to no longest match: the language is that of the context-free grammar over bytes.
    ``max_tokens`` bounds the whole text. ``unenforced`` lists what the source asks for and the
    grammar does not hold to: (place, keyword, reason). ``literals`` are texts that the source
    spells out, for the warning where a vocabulary has a special token of that text. ``common`` are
    trees that many grammars share, the same objects in the same tuple: they are lowered once for
    each vocabulary. Whether this grammar holds them changes nothing but the time.
    """

    __slots__ = ()

    def check(self) -> None:
        """Raise ``ValueError`` where an invariant of the module does not hold. Linear."""
        _check_kinds("rule", self.rules, Rule)
        _check_kinds("terminal", self.terminals, Terminal)
        for rule in self.rules:
            _check_kinds("production", rule.productions, Production)
        if not 0 <= self.start < len(self.rules):
            raise ValueError(f"start rule {self.start} out of range")
        if self.rules[self.start].parametric:
            raise ValueError("the start rule cannot take a parameter")
        skipped = set(self.skip)
        for index in self.skip:
            if not -1 <= index < len(self.terminals):
                raise ValueError(f"skip terminal {index} out of range")
            if index >= 0 and self.terminals[index].tokens is not None:
                raise ValueError(f"skip terminal {self.terminals[index].name} is a model token")
        for terminal in self.terminals:
            if not 0 <= terminal.skip_class < len(self.skip):
                raise ValueError(f"skip class of terminal {terminal.name} out of range")
            if terminal.tokens is not None:
                _check_tokens(terminal)
            if terminal.hidden_tail and (terminal.tail is None or not terminal.lazy):
                raise ValueError(f"terminal {terminal.name} hides a tail: it is lazy and has one")
            if terminal.ends_with_eog and (terminal.lazy or terminal.tokens is not None):
                raise ValueError(f"terminal {terminal.name} ends by itself, not with a token")
        _check_count("max_tokens", self.max_tokens)
        for rule in self.rules:
            _check_count(f"max_tokens of rule {rule.name}", rule.max_tokens)
            temperature = rule.temperature
            if temperature is not None and not 0 <= temperature < math.inf:
                raise ValueError(f"temperature of rule {rule.name} cannot be {temperature!r}")
        checked: set[int] = set()  # by identity: front ends share conditions
        for rule in self.rules:
            for production in rule.productions:
                for symbol in production.symbols:
                    self._check_symbol(rule, symbol)
                    if type(symbol) is TerminalRef and symbol.index in skipped:
                        name = self.terminals[symbol.index].name
                        raise ValueError(f"skip terminal {name} stands in rule {rule.name}")
                condition = production.condition
                if condition is not None and id(condition) not in checked:
                    checked.add(id(condition))
                    check_condition(condition)

    def _check_symbol(self, rule: Rule, symbol: Symbol) -> None:
        # By exact type, as the core tells them apart.
        if type(symbol) is TerminalRef:
            if not 0 <= symbol.index < len(self.terminals):
                raise ValueError(f"terminal {symbol.index} in rule {rule.name} out of range")
            return
        if type(symbol) is not RuleRef:
            raise ValueError(f"rule {rule.name} holds {symbol!r}, which is no symbol")
        if not 0 <= symbol.index < len(self.rules):
            raise ValueError(f"rule {symbol.index} in rule {rule.name} out of range")
        if self.rules[symbol.index].parametric != (symbol.argument is not None):
            raise ValueError(f"argument mismatch in rule {rule.name}")
        if symbol.argument is not None:
            check_argument(symbol.argument)


_BITS: Final = 64
_MOST_CONDITIONS: Final = 10_000  # in one guard, and how deep
_DEEPEST_CONDITION: Final = 100
_EXPRESSIONS: Final = {
    "const": "value",
    "self": "none",
    "set_bit": "bit",
    "clear_bit": "bit",
    "bit_and": "value",
    "bit_or": "value",
    "incr": "slice",
    "decr": "slice",
}
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_CONDITIONS: Final = {
    "true": "none",
    **dict.fromkeys(_COMPARISONS, "slice"),
    **{f"bit_count_{name}": "slice" for name in _COMPARISONS},
    "bit_set": "bit",
    "bit_clear": "bit",
    "is_ones": "slice",
    "is_zeros": "slice",
    "and": "items",
    "or": "items",
    "not": "item",
}


def parts_of(regex: Regex) -> tuple[Regex, ...]:
    """The regexes that ``regex`` is made of; none for those that hold no others."""
    if isinstance(regex, Concat | Alternation | Intersection):
        return regex.items
    return (regex.item,) if isinstance(regex, Complement | Repeat) else ()


def _check_kinds(what: str, items: object, kind: type) -> None:
    if type(items) is not list:
        raise ValueError(f"{what}s are a list, not {items!r:.60}")
    for item in items:
        if type(item) is not kind:
            raise ValueError(f"{item!r:.60} is no {what}")


def _check_count(what: str, count: int | None) -> None:
    if count is not None and (type(count) is not int or count < 0):
        raise ValueError(f"{what} cannot be {count!r}")


def _check_tokens(terminal: Terminal) -> None:
    tokens = terminal.tokens
    if type(tokens) is not TokenSet or terminal.regex != EMPTY:
        raise ValueError(f"terminal {terminal.name} is either a TokenSet or a regex")
    if terminal.scope or terminal.distinct or terminal.unique:
        raise ValueError(f"terminal {terminal.name}: a token has no part in scopes")
    if not all(type(name) is str for name in tokens.names):
        raise ValueError(f"names of tokens in {terminal.name} are strings")
    for first, last in tokens.ranges:
        if not (type(first) is int and type(last) is int and 0 <= first <= last):
            raise ValueError(f"no token range {first!r}-{last!r} in {terminal.name}")


def _check_operands(what: str, kind: str | None, a: int, b: int) -> None:
    if kind is None:
        raise ValueError(f"unknown operation in {what}")
    if kind == "value" and not 0 <= a < 1 << _BITS:
        raise ValueError(f"{what} does not fit into {_BITS} bits")
    if kind == "bit" and not 0 <= a < _BITS:
        raise ValueError(f"no bit {a} in {what}")
    if kind == "slice" and not 0 <= a < b <= _BITS:
        raise ValueError(f"no bits {a} to {b} in {what}")


def check_argument(argument: ParamExpr) -> None:
    if type(argument) is not ParamExpr:
        raise ValueError(f"{argument!r} is no argument")
    _check_operands(repr(argument), _EXPRESSIONS.get(argument.op), argument.a, argument.b)


def check_condition(condition: Condition) -> None:
    """Check a guard as the tree that the core will see: parts that are shared count each time."""
    todo = [(condition, 1)]
    seen = 0
    while todo:
        part, depth = todo.pop()
        seen += 1
        if seen > _MOST_CONDITIONS or depth > _DEEPEST_CONDITION:
            raise ValueError(
                f"a guard of more than {_MOST_CONDITIONS} conditions, "
                f"or {_DEEPEST_CONDITION} below one another"
            )
        if type(part) is not Condition:
            raise ValueError(f"{part!r} is no condition")
        kind = _CONDITIONS.get(part.op)
        what = f"condition {part.op!r}"
        _check_operands(what, kind, part.a, part.b)
        if not 0 <= part.value < 1 << _BITS:
            raise ValueError(f"the value of {what} does not fit into {_BITS} bits")
        if kind == "item" and len(part.items) != 1:
            raise ValueError(f"{what} takes one condition")
        if kind == "items" and not part.items:
            raise ValueError(f"{what} takes conditions")
        if kind not in ("item", "items") and part.items:
            raise ValueError(f"{what} takes no conditions")
        todo += [(item, depth + 1) for item in part.items]
