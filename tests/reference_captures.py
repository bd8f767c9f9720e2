"""The reference twin of captures: the definition of ``llgx/_captures.pyx``, by trying everything.

Of all derivations of a text it takes the first, trying the productions of a rule in their order,
and for the symbols of a production, from left to right, the longest piece of the text first. For a
text that goes on, a symbol that has only begun counts as longer than any that is finished.

Exponential without its memory, cubic and worse with it: for texts of some thirty lexemes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from llgx.ir import RuleRef, TerminalRef
from tests.reference import Ending, ReferenceGrammar, State, _matched
from tests.reference_matcher import ReferenceMatcher
from tests.reference_parameters import condition_holds
from tests.reference_regex import matches

__all__ = ["CyclicError", "TooLongError", "captures"]

Span = tuple[str, bytes, int, int]


class CyclicError(Exception):
    """A rule derives itself over the same text: which derivation is passed over is not defined."""


class TooLongError(Exception):
    """The search, which tries all derivations, goes too deep or takes too many steps."""


_DEEPEST = 150
_STEPS = 200_000


@dataclasses.dataclass(frozen=True)
class _Lexeme:
    terminals: frozenset[int]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True)
class _Tree:
    rule: int
    begin: int
    end: int
    children: tuple[_Tree | int, ...]  # a terminal by its index


def captures(matcher: ReferenceMatcher) -> list[Span]:
    """What ``llgx.Matcher.captures`` should say: (name, data, start, end). ``CyclicError`` or
    ``TooLongError`` where it does not."""
    grammar = matcher.grammar
    if matcher.grammar.ir.exact:
        return []  # there are none
    text, lexemes, pending, complete = _lexemes(matcher)
    search = _Search(grammar, lexemes, pending)
    try:
        if complete:
            trees = [search.derive(grammar.ir.start, 0, 0, len(lexemes))]
            assert trees[0] is not None
        else:
            trees = search.derive_partly(grammar.ir.start, 0, 0, frozenset()) or []
    except RecursionError as error:
        raise TooLongError from error
    found: list[Span] = []
    for tree in trees:
        assert tree is not None
        _collect(grammar, tree, text, lexemes, found)
    return found


def _lexemes(
    matcher: ReferenceMatcher,
) -> tuple[bytes, list[_Lexeme], frozenset[int] | None, bool]:
    """The text, its lexemes without skipped ones, what may be in progress, and whether it is
    whole."""
    grammar = matcher.grammar
    text = b""
    lexemes: list[_Lexeme] = []
    begin = 0
    state = grammar.start

    def end(
        terminals: frozenset[int], skips: frozenset[int], at: int, after: int | None = None
    ) -> None:
        nonlocal begin
        if not terminals & skips:
            lexemes.append(_Lexeme(terminals, begin, at))
        begin = at if after is None else after

    for number, (token, after) in enumerate(zip(matcher.tokens, matcher._states[1:], strict=True)):
        grammar.now = number
        if after is None:
            break
        taken = grammar.take(state, token)
        eaten, state_after = grammar.eat(state)
        if token in matcher.vocabulary.eog and state_after is not None:
            end(eaten, frozenset(), len(text))
            state = after
            continue
        data = matcher.vocabulary.text_of(token) or b""
        if taken is not None:
            if state.partial:
                end(_kept(grammar, state), state.skips, len(text))
            _, terminals = grammar.token_terminals(state)
            text += data
            matched = frozenset(t for t in terminals if token in grammar._token_ids[t])
            end(matched, frozenset(), len(text))
        else:
            trace: list[Ending] = []
            reached = grammar.trace(state, data, trace)
            for ending in trace:
                skips = ending.before.skips
                end(ending.terminals, skips, len(text) + ending.end, len(text) + ending.next)
            text += data
            if reached.partial and not after.partial and _matched(reached.lexemes):
                end(_kept(grammar, reached), reached.skips, len(text))
        state = after
    complete = grammar.is_complete(state)
    pending = None
    if state.partial:
        if complete:
            end(_kept(grammar, state), state.skips, len(text))
        else:
            pending = frozenset(t for t, _ in state.lexemes)
            if pending & state.skips:
                pending = None
    return text, lexemes, pending, complete


def _kept(grammar: ReferenceGrammar, state: State) -> frozenset[int]:
    return grammar._kept(state, _matched(state.lexemes), state.text)


def _cyclic_rules(grammar: ReferenceGrammar) -> frozenset[int]:
    """The rules that may derive themselves with nothing before or after, guards left aside."""
    bodies = [(rule, body.symbols) for rule, found in enumerate(grammar._bodies) for body in found]
    empty: set[int] = set()

    def may_be_empty(symbol: object) -> bool:
        if isinstance(symbol, RuleRef):
            return symbol.index in empty
        return isinstance(symbol, TerminalRef) and symbol.index in grammar.nullable

    while more := {rule for rule, symbols in bodies if all(map(may_be_empty, symbols))} - empty:
        empty |= more
    below = {
        rule: {
            symbol.index
            for owner, symbols in bodies
            if owner == rule
            for at, symbol in enumerate(symbols)
            if isinstance(symbol, RuleRef)
            and all(map(may_be_empty, symbols[:at] + symbols[at + 1 :]))
        }
        for rule in range(len(grammar._bodies))
    }
    while True:
        wider = {
            rule: found.union(*(below[other] for other in found)) for rule, found in below.items()
        }
        if wider == below:
            return frozenset(rule for rule, found in below.items() if rule in found)
        below = wider


class _Search:
    def __init__(
        self,
        grammar: ReferenceGrammar,
        lexemes: Sequence[_Lexeme],
        pending: frozenset[int] | None,
    ) -> None:
        self.grammar = grammar
        self.lexemes = lexemes
        self.pending = pending
        self.cyclic = _cyclic_rules(grammar)
        self.known: dict[tuple[int, int, int, int], _Tree | None] = {}
        self.active: set[tuple[int, int, int, int]] = set()
        self.steps = 0

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _STEPS:
            raise TooLongError

    def bodies(self, rule: int, parameter: int) -> Iterator[tuple[int, tuple[object, ...]]]:
        """The productions of a rule that can take part, as the twin's parser has them."""
        for number, body in enumerate(self.grammar._bodies[rule]):
            if condition_holds(body.condition, parameter):
                yield number, body.symbols

    def derive(self, rule: int, parameter: int, begin: int, end: int) -> _Tree | None:
        """The derivation of lexemes ``begin`` to ``end`` by ``rule``."""
        key = rule, parameter, begin, end
        if key in self.active:
            raise CyclicError
        if key not in self.known:
            self.active.add(key)
            try:
                self.known[key] = None
                for _, symbols in self.bodies(rule, parameter):
                    children = self.derive_all(symbols, parameter, begin, end)
                    if children is not None:
                        if rule in self.cyclic:
                            raise CyclicError
                        self.known[key] = _Tree(rule, begin, end, children)
                        break
            finally:
                self.active.discard(key)
        return self.known[key]

    def derive_symbol(
        self, symbol: object, parameter: int, begin: int, end: int
    ) -> _Tree | int | None:
        if isinstance(symbol, RuleRef):
            argument = self.grammar._argument(symbol, parameter)
            return self.derive(symbol.index, argument, begin, end)
        assert isinstance(symbol, TerminalRef)
        nullable = symbol.index in self.grammar.nullable
        if end == begin + 1 and symbol.index in self.lexemes[begin].terminals:
            return symbol.index
        return -1 if end == begin and nullable else None

    def derive_all(
        self, symbols: tuple[object, ...], parameter: int, begin: int, end: int
    ) -> tuple[_Tree | int, ...] | None:
        self._step()
        if not symbols:
            return () if begin == end else None
        for middle in range(end, begin - 1, -1):
            # The rest first: most of the time it says no, and a rule is not asked about itself.
            rest = self.derive_all(symbols[1:], parameter, middle, end)
            if rest is None:
                continue
            first = self.derive_symbol(symbols[0], parameter, begin, middle)
            if first is not None:
                return (first, *rest)
        return None

    def derive_partly(
        self, rule: int, parameter: int, begin: int, above: frozenset[object]
    ) -> list[_Tree] | None:
        """What is finished in the derivation of all lexemes from ``begin`` on that goes on."""
        for number, symbols in self.bodies(rule, parameter):
            found = self._partly(rule, parameter, number, symbols, 0, begin, begin, above)
            if found is not None:
                return found
        return None

    def _partly(
        self,
        rule: int,
        parameter: int,
        number: int,
        symbols: tuple[object, ...],
        dot: int,
        origin: int,
        at: int,
        above: frozenset[object],
    ) -> list[_Tree] | None:
        self._step()
        if len(above) > _DEEPEST:
            raise TooLongError
        if dot == len(symbols):
            return None
        symbol = symbols[dot]
        item = rule, parameter, number, dot, origin, at
        if isinstance(symbol, RuleRef):
            if item not in above:
                argument = self.grammar._argument(symbol, parameter)
                found = self.derive_partly(symbol.index, argument, at, above | {item})
                if found is not None:
                    return found
        elif at == len(self.lexemes) and (
            self.pending is None or symbol.index in self.pending  # type: ignore[attr-defined]
        ):
            return []
        for middle in range(len(self.lexemes), at - 1, -1):
            first = self.derive_symbol(symbol, parameter, at, middle)
            if first is None:
                continue
            rest = self._partly(rule, parameter, number, symbols, dot + 1, origin, middle, above)
            if rest is not None:
                return [first, *rest] if isinstance(first, _Tree) else rest
        return None


def _collect(
    grammar: ReferenceGrammar,
    tree: _Tree,
    text: bytes,
    lexemes: Sequence[_Lexeme],
    found: list[Span],
) -> None:
    for child in tree.children:
        if isinstance(child, _Tree):
            _collect(grammar, child, text, lexemes, found)
    rule = grammar.ir.rules[tree.rule]
    if rule.capture is None and rule.tail_capture is None:
        return
    before = lexemes[tree.begin - 1].end if tree.begin else 0
    begin = lexemes[tree.begin].begin if tree.end > tree.begin else before
    end = lexemes[tree.end - 1].end if tree.end > tree.begin else begin
    terminal = _last_terminal(tree)
    tail = None if terminal is None else grammar.ir.terminals[terminal].tail
    if terminal is not None and tail is not None:
        lexeme = lexemes[tree.end - 1]
        cut = max(
            k
            for k in range(lexeme.begin, lexeme.end + 1)
            if matches(tail, text[k : lexeme.end])
            and matches(grammar.bodies_of_tails[terminal], text[lexeme.begin : k])
        )
        if rule.tail_capture is not None:
            found.append((rule.tail_capture, text[cut:end], cut, end))
        end = cut
    if rule.capture is not None:
        found.append((rule.capture, text[begin:end], begin, end))


def _last_terminal(tree: _Tree) -> int | None:
    for child in reversed(tree.children):
        if isinstance(child, _Tree):
            if child.end > child.begin:
                return _last_terminal(child)
        elif child >= 0:
            return child
    return None
