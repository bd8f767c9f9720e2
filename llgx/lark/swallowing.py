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

from typing import Final

from llgx import ir
from llgx.lark.shapes import ALL_BYTES, Shapes

__all__ = ["swallowing"]

_SYMBOLS: Final = 200_000
_PASSES: Final = 50
_END: Final = 1 << 256  # the end of the text, or a token, which ends any lexeme


def swallowing(grammar: ir.GrammarIR) -> list[str]:
    """One warning for each terminal of ``grammar`` that nothing of what must follow can end."""
    size = sum(len(item.symbols) for rule in grammar.rules for item in rule.productions)
    if grammar.exact or size > _SYMBOLS:
        return []
    shapes = Shapes()
    onward = [
        0 if _ends_anyway(terminal) else shapes.of(terminal.regex).onward
        for terminal in grammar.terminals
    ]
    # No positions at all means that the terminal matches the empty string only, or nothing.
    onward = [0 if mask == ALL_BYTES else mask for mask in onward]
    if not any(onward):
        return []
    return _Followers(grammar, shapes).warnings(onward)


def _ends_anyway(terminal: ir.Terminal) -> bool:
    return (
        type(terminal.regex) is ir.Literal
        or terminal.lazy
        or terminal.ends_with_eog
        or terminal.tokens is not None
    )


class _Followers:
    """FIRST and FOLLOW sets of the rules, in bytes."""

    def __init__(self, grammar: ir.GrammarIR, shapes: Shapes) -> None:
        self._grammar = grammar
        self._terminals = [self._terminal(item, shapes) for item in grammar.terminals]
        count = len(grammar.rules)
        self._nullable = [False] * count
        self._first = [0] * count
        self._follow = [0] * count
        self._follow[grammar.start] = _END
        self._settled = self._find_first() and self._find_follow()

    def _terminal(self, terminal: ir.Terminal, shapes: Shapes) -> tuple[bool, int]:
        """Whether a terminal may be nothing, and what it, or a skip before it, begins with."""
        if terminal.tokens is not None:
            return False, _END
        shape = shapes.of(terminal.regex)
        first = shape.may
        skip = self._grammar.skip[terminal.skip_class]
        if skip >= 0:
            first |= shapes.of(self._grammar.terminals[skip].regex).may
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
            # Of places that are reached at once, one where the terminal can end is enough:
            # x: A x | A. They are those with the same symbols before them.
            afters: dict[tuple[int, int], int] = {}
            prefixes: dict[tuple[int, ir.Symbol], int] = {}
            for production in rule.productions:
                before = self._prefixes(production, prefixes)
                after = self._follow[index]
                for symbol in reversed(production.symbols):
                    prefix = before.pop()
                    if isinstance(symbol, ir.TerminalRef) and onward[symbol.index]:
                        key = symbol.index, prefix
                        afters[key] = afters.get(key, 0) | after
                    empty, begins = self._symbol(symbol)
                    after = begins | after if empty else begins
            for (terminal, _), after in afters.items():
                if after and not after & ~onward[terminal]:
                    found.setdefault(terminal, rule.name)
        return [_warning(grammar.terminals[index].name, found[index]) for index in sorted(found)]

    def _prefixes(
        self, production: ir.Production, known: dict[tuple[int, ir.Symbol], int]
    ) -> list[int]:
        """A number for what stands before each symbol, what may be nothing left out."""
        prefix, result = 0, []
        for symbol in production.symbols:
            result.append(prefix)
            if not self._symbol(symbol)[0]:
                prefix = known.setdefault((prefix, symbol), len(known) + 1)
        return result

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
