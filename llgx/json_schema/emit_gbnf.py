"""Grammars as GBNF text, for llama.cpp's own parser.

GBNF has context-free rules over characters and no lexer, so white space stands where a lexeme may
have some before it, left-recursive lists become ``first (step)*``, and terminals with intersections
and complements become the rules of their automaton, one for each state.

What GBNF cannot say is an error, with one exception: that members with further names are distinct
is left out, since nearly every schema has them.

Linear in the grammar, and in the automata, each of which has at most 2,000 states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llgx import ir
from llgx._language import Language
from llgx.errors import GrammarError

__all__ = ["to_gbnf"]

Ranges = list[tuple[int, int]]

_MOST_STATES: Final = 2_000
_MOST_REPEATS: Final = 1_000  # llama.cpp writes repeats out
_DEEPEST: Final = 60
_SPACE: Final = "ws"
# Lead bytes of UTF-8, and how many bytes follow.
_LEADS: Final = ((0xC2, 0xE0, 1), (0xE0, 0xF0, 2), (0xF0, 0xF5, 3))
_LENGTH_BITS: Final = (0x7F, 0x1F, 0x0F, 0x07)


def to_gbnf(grammar: ir.GrammarIR) -> str:
    """``grammar`` as GBNF text with the rule ``root``.

    Raises :class:`GrammarError` for what GBNF cannot say: parameters, comparing items, bounds of
    more than a thousand, and what only the engine of llgx knows.
    """
    return _Writer(grammar).text()


class _Writer:
    def __init__(self, grammar: ir.GrammarIR) -> None:
        self._grammar = grammar
        self._lines: list[str] = []
        self._productive = _productive(grammar)
        self._terminals: dict[int, str] = {}
        self._spaces: dict[int, str] = {}

    def text(self) -> str:
        grammar = self._grammar
        seen = {grammar.start}
        order = [grammar.start]
        for index in order:  # grows
            rule = grammar.rules[index]
            if rule.parametric:
                raise GrammarError("GBNF has no counters: what has to be counted is too much")
            bodies: list[str] = []
            steps: list[str] = []
            for production in rule.productions:
                if not self._is_productive(production):
                    continue
                symbols = production.symbols
                own = bool(symbols) and symbols[0] == ir.RuleRef(index)
                for symbol in symbols:
                    if isinstance(symbol, ir.RuleRef) and symbol.index not in seen:
                        seen.add(symbol.index)
                        order.append(symbol.index)
                names = " ".join(map(self._symbol, symbols[1:] if own else symbols))
                (steps if own else bodies).append(names or '""')
            body = " | ".join(bodies)
            if steps:
                several = len(bodies) > 1
                body = f"({body})" if several else body
                body += f" ({' | '.join(steps)})*"
            self._lines.append(f"{self._rule(index)} ::= {body}")
        return "\n".join(self._lines) + "\n"

    def _is_productive(self, production: ir.Production) -> bool:
        return all(
            isinstance(symbol, ir.TerminalRef) or symbol.index in self._productive
            for symbol in production.symbols
        )

    def _rule(self, index: int) -> str:
        return "root" if index == self._grammar.start else f"r{index}"

    def _symbol(self, symbol: ir.Symbol) -> str:
        if isinstance(symbol, ir.RuleRef):
            return self._rule(symbol.index)
        known = self._terminals.get(symbol.index)
        if known is None:
            known = self._terminals[symbol.index] = self._terminal(symbol.index)
        return known

    def _terminal(self, index: int) -> str:
        """How a terminal is written where it stands, with the white space before it."""
        terminal = self._grammar.terminals[index]
        if terminal.unique:
            raise GrammarError("GBNF cannot keep items apart (uniqueItems)")
        if terminal.tokens is not None or terminal.lazy or terminal.tail is not None:
            raise GrammarError(f"GBNF has nothing like terminal {terminal.name}")
        skip = self._grammar.skip[terminal.skip_class]
        space = "" if skip < 0 else self._space(skip) + " "
        text = self._written(terminal.regex, f"t{index}")
        if not space and len(text) <= 40:
            return text
        self._lines.append(f"t{index} ::= {space}{text}")
        return f"t{index}"

    def _space(self, skip: int) -> str:
        name = self._spaces.get(skip)
        if name is None:
            name = self._spaces[skip] = _SPACE if not self._spaces else f"{_SPACE}{skip}"
            text = self._written(self._grammar.terminals[skip].regex, f"{name}-text")
            self._lines.append(f"{name} ::= ({text})?")
        return name

    def _written(self, regex: ir.Regex, name: str) -> str:
        text = _expression(regex, 0)
        return self._automaton(regex, name) if text is None else text

    def _automaton(self, regex: ir.Regex, name: str) -> str:
        """Rules for the states of a regex; what stands for it where it is used."""
        states = Language((regex,)).automaton(0, _MOST_STATES)
        if states is None:
            raise GrammarError(f"a terminal takes more than {_MOST_STATES:,} rules in GBNF")
        characters = _Characters([row for _, row in states])
        order = [0]
        seen = {0}
        for number in order:  # grows; states within a character are not among them
            by_target = characters.after(number)
            alternatives = ['""'] if states[number][0] else []
            for target, ranges in by_target.items():
                if states[target][0] and not characters.after(target):
                    alternatives.append(_class(ranges))
                    continue
                alternatives.append(f"{_class(ranges)} {name}-{target}")
                if target not in seen:
                    seen.add(target)
                    order.append(target)
            self._lines.append(f"{name}-{number} ::= {' | '.join(alternatives)}")
        return f"{name}-0"


def _productive(grammar: ir.GrammarIR) -> set[int]:
    """The rules that derive some text."""
    waiting: dict[int, list[list[int]]] = {}
    todo: list[int] = []
    for index, rule in enumerate(grammar.rules):
        for production in rule.productions:
            missing = {s.index for s in production.symbols if isinstance(s, ir.RuleRef)}
            if not missing:
                todo.append(index)
            counter = [index, len(missing)]
            for other in missing:
                waiting.setdefault(other, []).append(counter)
    found: set[int] = set()
    while todo:
        index = todo.pop()
        if index not in found:
            found.add(index)
            for counter in waiting.get(index, ()):
                counter[1] -= 1
                if not counter[1]:
                    todo.append(counter[0])
    return found


# Regexes


def _expression(regex: ir.Regex, depth: int) -> str | None:
    """``regex`` as one item of a sequence; None where it takes an automaton."""
    if depth > _DEEPEST:
        return None
    if isinstance(regex, ir.Literal):
        try:
            return '"' + "".join(map(_in_string, regex.data.decode())) + '"'
        except UnicodeDecodeError:
            return None
    ranges = _code_points(regex, 0)
    if ranges is not None:
        return _class(ranges)
    if isinstance(regex, ir.Concat):
        parts = [_expression(item, depth + 1) for item in regex.items]
        known = [part for part in parts if part is not None]
        return f"({' '.join(known)})" if len(known) == len(parts) else None
    if isinstance(regex, ir.Alternation):
        return _choice(regex.items, depth)
    if isinstance(regex, ir.Repeat):
        part = _expression(regex.item, depth + 1)
        return None if part is None else part + _times(regex.low, regex.high)
    return None


def _choice(items: Iterable[ir.Regex], depth: int) -> str | None:
    merged: Ranges = []
    others: list[str] = []
    for item in items:
        ranges = _code_points(item, 0)
        if ranges is not None:
            merged += ranges
            continue
        text = _expression(item, depth + 1)
        if text is None:
            return None
        others.append(text)
    if merged:
        others.append(_class(merged))
    return f"({' | '.join(others)})"


def _times(low: int, high: int | None) -> str:
    if max(low, high or 0) > _MOST_REPEATS:
        raise GrammarError(f"GBNF repeats at most {_MOST_REPEATS:,} times")
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    if (low, high) == (0, 1):
        return "?"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def _code_points(regex: ir.Regex, depth: int) -> Ranges | None:
    """``regex`` as a set of characters; None if it is no such set, or not obviously."""
    if isinstance(regex, ir.ByteSet):
        return _bits(regex.mask) if regex.mask < 1 << 128 else None
    if isinstance(regex, ir.Alternation) and regex.items and depth < _DEEPEST:
        ranges: Ranges = []
        for item in regex.items:
            part = _code_points(item, depth + 1)
            if part is None:
                return None
            ranges += part
        return ranges
    if isinstance(regex, ir.Literal):
        try:
            text = regex.data.decode()
        except UnicodeDecodeError:
            return None
        return [(ord(text), ord(text))] if len(text) == 1 else None
    if isinstance(regex, ir.Concat):
        return _sequence(regex.items)
    return None


def _sequence(items: tuple[ir.Regex, ...]) -> Ranges | None:
    """The characters whose UTF-8 is one byte out of each of ``items``."""
    sets: list[Ranges] = []
    for item in items:
        if isinstance(item, ir.ByteSet):
            sets.append(_bits(item.mask))
        elif isinstance(item, ir.Literal):
            sets += [[(byte, byte)] for byte in item.data]
        else:
            return None
    length = len(sets)
    if not 2 <= length <= 4 or not sets[0] or sets[0][0][0] < 0xC2:
        return None
    # Blocks from the last byte on: all continuations of a prefix are side by side if full.
    tails: Ranges = [(0, 0)]
    size = 1
    for ranges in reversed(sets[1:]):
        if ranges[0][0] < 0x80 or ranges[-1][1] > 0xBF:
            return None
        tails = [
            ((byte - 0x80) * size + low, (byte - 0x80) * size + high)
            for first, last in ranges
            for byte in range(first, last + 1)
            for low, high in tails
        ]
        tails = _merged(tails)
        size *= 64
    return _merged(
        [
            (
                (byte & _LENGTH_BITS[length - 1]) * size + low,
                (byte & _LENGTH_BITS[length - 1]) * size + high,
            )
            for first, last in sets[0]
            for byte in range(first, last + 1)
            for low, high in tails
        ]
    )


class _Characters:
    """Transitions over characters, read off an automaton over the bytes of UTF-8."""

    def __init__(self, rows: list[list[int]]) -> None:
        self._rows = rows
        self._after: dict[int, dict[int, Ranges]] = {}
        self._tails: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def after(self, state: int) -> dict[int, Ranges]:
        """By the state that follows, the characters that lead there from ``state``."""
        known = self._after.get(state)
        if known is not None:
            return known
        row = self._rows[state]
        result: dict[int, Ranges] = {}
        for byte in range(0x80):
            if row[byte] >= 0:
                result.setdefault(row[byte], []).append((byte, byte))
        for first, last, count in _LEADS:
            for byte in range(first, last):
                if row[byte] >= 0:
                    base = (byte & _LENGTH_BITS[count]) << 6 * count
                    for low, high, target in self._continuations(row[byte], count):
                        result.setdefault(target, []).append((base + low, base + high))
        self._after[state] = result
        return result

    def _continuations(self, state: int, count: int) -> list[tuple[int, int, int]]:
        known = self._tails.get((state, count))
        if known is not None:
            return known
        row = self._rows[state]
        result: list[tuple[int, int, int]] = []
        for byte in range(0x80, 0xC0):
            if row[byte] < 0:
                continue
            base = (byte - 0x80) << 6 * (count - 1)
            parts = [(0, 0, row[byte])]
            if count > 1:
                parts = self._continuations(row[byte], count - 1)
            for low, high, target in parts:
                if result and result[-1][2] == target and result[-1][1] + 1 == base + low:
                    result[-1] = (result[-1][0], base + high, target)
                else:
                    result.append((base + low, base + high, target))
        self._tails[state, count] = result
        return result


def _bits(mask: int) -> Ranges:
    return _merged([(byte, byte) for byte in range(256) if mask >> byte & 1])


def _merged(ranges: Ranges) -> Ranges:
    result: Ranges = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _class(ranges: Ranges) -> str:
    parts: list[str] = []
    for low, high in _merged(ranges):
        parts.append(_in_class(low))
        if high > low:
            parts.append(("-" if high > low + 1 else "") + _in_class(high))
    return f"[{''.join(parts)}]"


def _in_class(point: int) -> str:
    char = chr(point)
    if char.isascii() and char.isalnum():
        return char
    return _escaped(point)


def _in_string(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else _escaped(ord(char))


def _escaped(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02X}"
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"
