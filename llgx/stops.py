"""Stop conditions: which texts a hidden tail can be.

What follows a lexeme may take up its hidden tail again, and the engine knows no more of the text
than a parser row and a lexer state. So the bytes of the tail have to be known by the terminal: one
that has several short tails is replaced by one terminal for each of them. A tail that can be too
many texts, or long ones, is taken by no one else; compiling warns of it.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from llgx import ir

__all__ = ["expand_stops", "texts_of", "without_tail"]

_MOST_TEXTS: Final = 64
_LONGEST: Final = 200

_ANYTHING: Final = ir.Repeat(ir.ANY_BYTE, 0, None)


def expand_stops(grammar: ir.GrammarIR) -> ir.GrammarIR:
    """``grammar`` with one terminal for each text of a hidden tail: the tails are literals then.

    Tails that are too many texts stay as they are. Linear.
    """
    rules = list(grammar.rules)
    terminals = list(grammar.terminals)
    warnings = list(grammar.warnings)
    replaced: dict[int, ir.Symbol] = {}
    for index, terminal in enumerate(grammar.terminals):
        if not terminal.hidden_tail or type(terminal.tail) is ir.Literal:
            continue
        assert terminal.tail is not None
        texts = texts_of(terminal.tail)
        if texts is None:
            warnings.append(
                f"the stop condition of {terminal.name} can be too many texts: "
                "what follows will not read it again"
            )
            continue
        body = without_tail(terminal.regex, terminal.tail)
        refs: list[ir.Symbol] = []
        for text in texts:
            tail = ir.Literal(text)
            regex: ir.Regex = ir.Concat((_ANYTHING if body is None else body, tail))
            if body is None:
                regex = ir.Intersection((terminal.regex, regex))
            refs.append(ir.TerminalRef(len(terminals)))
            terminals.append(dataclasses.replace(terminal, regex=regex, tail=tail))
        if len(refs) == 1:
            replaced[index] = refs[0]
        else:
            replaced[index] = ir.RuleRef(len(rules))
            rules.append(ir.Rule("", [ir.Production((ref,)) for ref in refs]))
    if not replaced:
        return dataclasses.replace(grammar, warnings=warnings)
    for at, rule in enumerate(grammar.rules):
        productions = [
            dataclasses.replace(
                production,
                symbols=tuple(
                    replaced.get(symbol.index, symbol) if type(symbol) is ir.TerminalRef else symbol
                    for symbol in production.symbols
                ),
            )
            for production in rule.productions
        ]
        rules[at] = dataclasses.replace(rule, productions=productions)
    return dataclasses.replace(grammar, rules=rules, terminals=terminals, warnings=warnings)


def without_tail(regex: ir.Regex, tail: ir.Regex) -> ir.Regex | None:
    """What stands before ``tail`` in ``regex``, if that is plain to see; else None."""
    if regex == tail:
        return ir.EPSILON
    if type(regex) is not ir.Concat:
        return None
    for end in ((tail,), tail.items if type(tail) is ir.Concat else ()):
        if end and regex.items[-len(end) :] == end:
            return ir.Concat(regex.items[: -len(end)])
    return None


def texts_of(regex: ir.Regex) -> list[bytes] | None:
    """The texts of ``regex`` in order, None for more or longer ones than are kept apart."""
    texts = _texts(regex, 0)
    return None if texts is None else sorted(texts)


def _texts(regex: ir.Regex, depth: int) -> set[bytes] | None:
    if depth > 50:
        return None
    if isinstance(regex, ir.Literal):
        return _some({regex.data})
    if isinstance(regex, ir.ByteSet):
        return _some({bytes((b,)) for b in range(256) if regex.mask >> b & 1})
    if isinstance(regex, ir.Alternation):
        found: set[bytes] = set()
        for item in regex.items:
            texts = _texts(item, depth + 1)
            if texts is None or _some(found | texts) is None:
                return None
            found |= texts
        return found
    if isinstance(regex, ir.Concat):
        return _joined([(item, 1, 1) for item in regex.items], depth)
    if isinstance(regex, ir.Repeat) and regex.high is not None and regex.high <= _LONGEST:
        return _joined([(regex.item, regex.low, regex.high)], depth)
    return None


def _joined(parts: list[tuple[ir.Regex, int, int]], depth: int) -> set[bytes] | None:
    """The texts of the parts one after the other, each so many times."""
    found = {b""}
    for item, low, high in parts:
        texts = _texts(item, depth + 1)
        if texts is None:
            return None
        for turn in range(high):
            longer = {a + b for a in found for b in texts}
            found = longer if turn < low else found | longer
            if _some(found) is None:
                return None
    return found


def _some(texts: set[bytes]) -> set[bytes] | None:
    return texts if len(texts) <= _MOST_TEXTS and all(len(t) <= _LONGEST for t in texts) else None
