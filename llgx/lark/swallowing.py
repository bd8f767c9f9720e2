"""Finds terminals that take in whatever must follow them, as in ``/a+/ "a"`` or ``/.*/ "end"``.

The lexer commits to the longest match. Where every byte that can come next goes on with the lexeme
instead, nothing can ever come next: the grammar allows that text for ever, and never its end.

Two bounds decide it, so that there is no false alarm. Of the bytes that can follow a terminal, all
are counted that might (FIRST and FOLLOW sets of the rules, as sets of bytes). Of the bytes that a
lexeme goes on with, only those that it goes on with wherever it could end: the intersection, over
the places where a match of the regex can end, of what may be matched next there (the position
automaton of Glushkov, *The abstract theory of automata*, 1961). ``&`` and ``~`` count as ending
anywhere. So a terminal may be missed, but one that is reported can never be followed.

Linear in the regexes of the grammar, and a few passes over its productions; not looked for beyond
:data:`_SYMBOLS` symbols.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from llgx import ir

__all__ = ["swallowing"]

_SYMBOLS: Final = 200_000
_PASSES: Final = 50
_ALL: Final = (1 << 256) - 1
_END: Final = 1 << 256  # the end of the text, or a token, which ends any lexeme


class _Shape(NamedTuple):
    """What is known of a regex, as sets of bytes.

    ``may`` are the bytes that a match might begin with, ``must`` those that one certainly does;
    ``onward`` are the bytes that a match goes on with wherever it ends. ``void`` is the language
    without a text, ``sure`` says that there is one.
    """

    nullable: bool
    may: int
    must: int
    onward: int
    void: bool
    sure: bool


_NOTHING: Final = _Shape(False, 0, 0, _ALL, True, False)
_UNKNOWN: Final = _Shape(True, _ALL, 0, 0, False, False)


def swallowing(grammar: ir.GrammarIR) -> list[str]:
    """One warning for each terminal of ``grammar`` that nothing of what must follow can end."""
    size = sum(len(item.symbols) for rule in grammar.rules for item in rule.productions)
    if grammar.exact or size > _SYMBOLS:
        return []
    shapes: dict[int, tuple[ir.Regex, _Shape]] = {}
    onward = [
        0 if _ends_anyway(terminal) else _shape(terminal.regex, shapes).onward
        for terminal in grammar.terminals
    ]
    # No positions at all means that the terminal matches the empty string only, or nothing.
    onward = [0 if mask == _ALL else mask for mask in onward]
    if not any(onward):
        return []
    return _Followers(grammar, shapes).warnings(onward)


def _ends_anyway(terminal: ir.Terminal) -> bool:
    return terminal.lazy or terminal.ends_with_eog or terminal.tokens is not None


class _Followers:
    """FIRST and FOLLOW sets of the rules, in bytes."""

    def __init__(self, grammar: ir.GrammarIR, shapes: dict[int, tuple[ir.Regex, _Shape]]) -> None:
        self._grammar = grammar
        self._terminals = [self._terminal(item, shapes) for item in grammar.terminals]
        count = len(grammar.rules)
        self._nullable = [False] * count
        self._first = [0] * count
        self._follow = [0] * count
        self._follow[grammar.start] = _END
        self._settled = self._find_first() and self._find_follow()

    def _terminal(
        self, terminal: ir.Terminal, shapes: dict[int, tuple[ir.Regex, _Shape]]
    ) -> tuple[bool, int]:
        """Whether a terminal may be nothing, and what it, or a skip before it, begins with."""
        if terminal.tokens is not None:
            return False, _END
        shape = _shape(terminal.regex, shapes)
        first = shape.may
        skip = self._grammar.skip[terminal.skip_class]
        if skip >= 0:
            first |= _shape(self._grammar.terminals[skip].regex, shapes).may
        return shape.nullable, first

    def _symbol(self, symbol: ir.Symbol) -> tuple[bool, int]:
        if isinstance(symbol, ir.TerminalRef):
            return self._terminals[symbol.index]
        return self._nullable[symbol.index], self._first[symbol.index]

    def _find_first(self) -> bool:
        rules = self._grammar.rules
        for _ in range(_PASSES):
            changed = False
            for index, rule in enumerate(rules):
                first, nullable = self._first[index], self._nullable[index]
                for production in rule.productions:
                    for symbol in production.symbols:
                        empty, begins = self._symbol(symbol)
                        first |= begins
                        if not empty:
                            break
                    else:
                        nullable = True
                if first != self._first[index] or nullable != self._nullable[index]:
                    self._first[index], self._nullable[index] = first, nullable
                    changed = True
            if not changed:
                return True
        return False

    def _find_follow(self) -> bool:
        rules = self._grammar.rules
        for _ in range(_PASSES):
            changed = False
            for index, rule in enumerate(rules):
                for production in rule.productions:
                    after = self._follow[index]
                    for symbol in reversed(production.symbols):
                        if isinstance(symbol, ir.RuleRef):
                            joined = self._follow[symbol.index] | after
                            if joined != self._follow[symbol.index]:
                                self._follow[symbol.index] = joined
                                changed = True
                        empty, begins = self._symbol(symbol)
                        after = begins | after if empty else begins
            if not changed:
                return True
        return False

    def warnings(self, onward: list[int]) -> list[str]:
        """The warnings for terminals that go on with the bytes of ``onward``."""
        if not self._settled:
            return []
        grammar = self._grammar
        limited = self._limited()
        found: dict[int, str] = {}
        for index, rule in enumerate(grammar.rules):
            if index in limited:
                continue  # a token limit ends what nothing else does
            # One place of the rule where a terminal can end is enough: x: A x | A
            afters: dict[int, int] = {}
            for production in rule.productions:
                after = self._follow[index]
                for symbol in reversed(production.symbols):
                    if isinstance(symbol, ir.TerminalRef) and onward[symbol.index]:
                        afters[symbol.index] = afters.get(symbol.index, 0) | after
                    empty, begins = self._symbol(symbol)
                    after = begins | after if empty else begins
            for terminal, after in afters.items():
                if after and not after & ~onward[terminal]:
                    found.setdefault(terminal, rule.name)
        return [_warning(grammar.terminals[index].name, found[index]) for index in sorted(found)]

    def _limited(self) -> set[int]:
        """The rules within which ``max_tokens`` counts."""
        rules = self._grammar.rules
        stack = [index for index, rule in enumerate(rules) if rule.max_tokens is not None]
        limited = set(stack)
        while stack:
            for production in rules[stack.pop()].productions:
                for symbol in production.symbols:
                    if isinstance(symbol, ir.RuleRef) and symbol.index not in limited:
                        limited.add(symbol.index)
                        stack.append(symbol.index)
        return limited


def _warning(terminal: str, rule: str) -> str:
    where = f" in rule '{rule[:40]}'" if rule else ""
    shown = terminal if len(terminal) <= 60 else terminal[:57] + "..."
    return (
        f"the terminal {shown}{where} takes in whatever can follow it there, so that nothing ever "
        'does: leave that out of it, as in /[^"]*/, end the rule with suffix= or stop=, or set '
        '%llguidance {"lexer": "exact"}'
    )


def _shape(regex: ir.Regex, known: dict[int, tuple[ir.Regex, _Shape]]) -> _Shape:
    """The shape of ``regex``; parts that are shared are looked at once. Does not recurse."""
    stack = [regex]
    while stack:
        node = stack[-1]
        if id(node) in known:
            stack.pop()
            continue
        parts: tuple[ir.Regex, ...] = ()
        if isinstance(node, (ir.Concat, ir.Alternation)):
            parts = node.items
        elif isinstance(node, ir.Repeat):
            parts = (node.item,)
        missing = [part for part in parts if id(part) not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        known[id(node)] = (node, _combine(node, [known[id(part)][1] for part in parts]))
    return known[id(regex)][1]


def _combine(node: ir.Regex, parts: list[_Shape]) -> _Shape:
    if isinstance(node, ir.Literal):
        if not node.data:
            return _Shape(True, 0, 0, _ALL, False, True)
        first = 1 << node.data[0]
        return _Shape(False, first, first, 0, False, True)
    if isinstance(node, ir.ByteSet):
        return _Shape(False, node.mask, node.mask, 0, False, True) if node.mask else _NOTHING
    if isinstance(node, ir.Alternation):
        parts = [part for part in parts if not part.void]
        result = _NOTHING
        for part in parts:
            result = _Shape(
                result.nullable or part.nullable,
                result.may | part.may,
                result.must | part.must,
                result.onward & part.onward,
                False,
                result.sure or part.sure,
            )
        return result
    if isinstance(node, ir.Concat):
        return _concat(parts)
    if isinstance(node, ir.Repeat):
        return _repeat(parts[0], node.low, node.high)
    return _UNKNOWN


def _concat(parts: list[_Shape]) -> _Shape:
    if any(part.void for part in parts):
        return _NOTHING
    may = must = 0
    onward = _ALL
    nullable = sure = True
    for part in reversed(parts):  # in front of what has been put together
        if nullable:
            onward &= part.onward | (must if sure else 0)
        may = part.may | may if part.nullable else part.may
        must = part.must | must if part.nullable else part.must
        nullable = nullable and part.nullable
        sure = sure and part.sure
    return _Shape(nullable, may, must if sure else 0, onward, False, sure)


def _repeat(part: _Shape, low: int, high: int | None) -> _Shape:
    if high == 0 or (part.void and not low):
        return _Shape(True, 0, 0, _ALL, False, True)
    if part.void:
        return _NOTHING
    onward = part.onward | part.must if high is None else part.onward
    return _Shape(
        not low or part.nullable, part.may, part.must, onward, False, part.sure or not low
    )
