"""The reference twin: what a mask is, written down as plainly as possible.

The engine in ``llgx`` takes shortcuts; this module takes none. Regexes are derived tree by tree
(Brzozowski 1964), emptiness is decided by looking at every derivative, parser rows are sets of
Earley items (Earley 1970), computed afresh for every sequence of lexemes, and a mask is found by
feeding each token byte by byte. The only memory it keeps are results of pure functions, keyed by
their whole arguments. It imports ``llgx.ir`` and nothing else of the package.

What the twin and the engine both promise:

* The lexer is contextual maximal munch without fallback: :meth:`ReferenceGrammar.step`.
* A terminal T that matches the empty string stands for ``nonempty(T)`` or nothing; lexemes have at
  least one byte.
* Productions that can never derive a text are dropped first, so a row holds only what can be
  finished. Guards do not take part in that: a rule with a parameter counts as productive when it
  would be with every guard true, since deciding it for each of the 2**64 arguments is not feasible.
  A guard is looked at where its rule is predicted. A byte that ends a lexeme at once is refused
  where the guards then leave neither a terminal nor a complete text; there is no further look
  ahead, so such a grammar can reach a text that is neither complete nor continuable. So can maximal
  munch (``/a+/ "a"`` keeps on allowing ``a``); nothing else can.
* Scopes (``Terminal.scope``, ``distinct``, ``unique``): where a lexeme ends, its distinct terminals
  drop out if the scope has finished the same bytes, its unique closing terminals if the scope is
  directly in a unique one that has finished the same text; what is left decides whether the bytes
  are finished, whether a scope opens, whether one closes. A byte is refused after which no terminal
  has a match that the scope has not finished, and within a scope that counts as an item one after
  which every way to go on stays the beginning of a finished item until it is refused.
* With ``exact`` there is no longest match: a lexeme may end wherever its terminal matches, lazy or
  not, white space beside other readings (:class:`Ways`). So the text is in the language of the
  context-free grammar over bytes.
* A matcher is stopped after a consumed end-of-generation token ("eog"), and where the text is
  complete and no byte can follow it ("complete").

Cost: milliseconds per new state; fine for small grammars and for vocabularies up to 256k tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from llgx.ir import (
    Condition,
    GrammarIR,
    Literal,
    Rule,
    RuleRef,
    Symbol,
    Terminal,
    TerminalRef,
)
from tests.reference_parameters import condition_holds, evaluate
from tests.reference_regex import (
    Residual,
    byte_classes,
    is_empty,
    is_within,
    nonempty,
    normalise,
    nullable,
    residual_of,
)
from tests.reference_rewrites import with_literal_tails, without_tail, without_zero_limits

if TYPE_CHECKING:
    from tests.reference_matcher import ReferenceVocabulary

__all__ = [
    "EmptyLanguageError",
    "Item",
    "ReferenceGrammar",
    "Row",
    "State",
    "TooWideError",
    "Ways",
]

_ROW_ITEMS: Final = 3000
_WAYS: Final = 60
_WAYS_OUT: Final = 300
_ROOT: Final = -1  # a rule of its own whose only production is the start rule


class EmptyLanguageError(ValueError):
    """The grammar derives no text at all."""


class TooWideError(RuntimeError):
    """A row passes the number of items, or exact lexing of ways, up to which the twin is of use.

    Left recursion that changes its argument gives rows of up to 2**64 items.
    """


# --------------------------------------------------------------------------------------------------
# Parser rows.


@dataclasses.dataclass(frozen=True, eq=False)
class _Body:
    """A production that can derive something: its symbols without terminals that are only empty.

    Compared by identity.
    """

    symbols: tuple[Symbol, ...]
    condition: Condition | None


@dataclasses.dataclass(frozen=True)
class Item:
    """Production ``body`` of ``rule`` with ``parameter``, recognised up to ``dot``.

    ``origin`` is the row where it was predicted, None for the row that holds the item.
    """

    rule: int
    parameter: int
    body: _Body
    dot: int
    origin: Row | None

    @property
    def next(self) -> Symbol | None:
        """The symbol behind the dot, None at the end."""
        return self.body.symbols[self.dot] if self.dot < len(self.body.symbols) else None

    def advanced(self, origin: Row | None) -> Item:
        """The item one symbol further."""
        return Item(self.rule, self.parameter, self.body, self.dot + 1, origin)


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """What the parser knows after some lexemes; compared by identity."""

    items: frozenset[Item]
    waiting: Mapping[tuple[int, int], Sequence[Item]]  # those with (rule, argument) behind the dot
    complete: bool
    allowed: frozenset[int]  # terminals that may come next
    clock: int | None = None  # as an origin: the token in which what began here began
    depth: int = 0  # the same: in how many scopes


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a distinct lexeme has to differ from.

    ``text`` is everything from the opening lexeme on, where the scope is directly in a unique one.
    """

    finished: frozenset[bytes] = frozenset()
    unique: bool = False
    text: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Ending:
    """The end of a lexeme: the state before it, the terminals that it was, where it ended, and
    where the next one begins, which is earlier if a hidden tail is read again."""

    before: State
    terminals: frozenset[int]
    end: int
    next: int

    def moved(self, count: int) -> Ending:
        """The same so many bytes later."""
        return dataclasses.replace(self, end=self.end + count, next=self.next + count)


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """A row and the lexeme in progress; one object for one content.

    ``lexemes`` holds (terminal, residual) pairs; ``partial`` tells whether the lexeme has bytes,
    ``begin`` which terminals of the row could begin it: those of some classes only once white space
    of these classes was skipped. ``skips`` are the skip terminals that could begin it too.
    ``scopes`` has the innermost scope at its end; ``text`` is the lexeme in progress where a scope
    may ask for it.
    ``after`` remembers results of :meth:`ReferenceGrammar.step`.
    """

    row: Row
    begin: frozenset[int]
    skips: frozenset[int]
    lexemes: frozenset[tuple[int, Residual]]
    partial: bool
    scopes: tuple[Scope, ...] = (Scope(),)
    text: bytes = b""
    started: int | None = None  # the token that the lexeme in progress began in, if that matters
    after: dict[tuple[int, int], State | None] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Ways:
    """All states that exact lexing may be in; one object for one content."""

    states: frozenset[State]
    after: dict[int, Ways | None] = dataclasses.field(default_factory=dict, repr=False)


AnyState = TypeVar("AnyState", State, Ways)


class ReferenceGrammar:
    """A grammar as transitions between :class:`State` objects, or :class:`Ways` if it is exact."""

    def __init__(self, ir: GrammarIR, vocabulary: ReferenceVocabulary | None = None) -> None:
        """Prepare ``ir``; raises :class:`EmptyLanguageError` where nothing can be derived.

        Without a vocabulary every terminal that is a token counts as one that has ids.
        """
        ir.check()
        self.ir = ir = without_zero_limits(with_literal_tails(ir))
        self._token_ids: dict[int, frozenset[int]] = {}
        for index, terminal in enumerate(ir.terminals):
            if terminal.tokens is not None:
                known = vocabulary is not None
                self._token_ids[index] = (
                    vocabulary.ids(terminal.tokens) if known else frozenset((-1,))
                )
        self._regexes = [normalise(terminal.regex) for terminal in ir.terminals]
        self._lexemes = [nonempty(regex) for regex in self._regexes]
        self.nullable = frozenset(t for t, regex in enumerate(self._regexes) if nullable(regex))
        self.bodies_of_tails = {
            index: without_tail(terminal.regex, terminal.tail)
            for index, terminal in enumerate(ir.terminals)
            if terminal.tail is not None
        }
        self._classes = byte_classes(self._regexes)
        self._scoped = any(t.distinct or t.unique for t in ir.terminals)
        if self._scoped:
            self._classes = list(range(256))  # scopes tell all bytes apart
        self._bodies = self._productive_bodies(ir.rules)
        if not self._bodies[ir.start]:
            raise EmptyLanguageError("the grammar derives no text")
        self._scans: dict[tuple[Row, frozenset[int], int | None, int], Row] = {}
        self._states: dict[tuple[object, ...], State] = {}
        self._limits = {
            index: rule.max_tokens
            for index, rule in enumerate(ir.rules)
            if rule.max_tokens is not None
        }
        self._stamped: dict[tuple[Row, int | None, int], Row] = {}
        self.now = 0  # the token that is being read
        self._ways_out: dict[State, bool] = {}
        root = Item(_ROOT, 0, _Body((RuleRef(ir.start),), None), 0, None)
        row = self._close({root})
        skips = self._skips(row.allowed) if ir.initial_skip else frozenset()
        first = self._begin(row, row.allowed, skips)
        self._ways: dict[frozenset[State], Ways] = {}
        self._unfinished_rows: dict[Row, Row] = {}
        self.start: State | Ways = self._ways_of({first}) if ir.exact else first

    # ---- parser

    def _productive_bodies(self, rules: Sequence[Rule]) -> list[list[_Body]]:
        """The productions that derive some text when all guards hold, by rule."""
        productive: set[int] = set()

        def is_productive(symbol: Symbol) -> bool:
            if isinstance(symbol, RuleRef):
                return symbol.index in productive
            if symbol.index in self._token_ids:
                return bool(self._token_ids[symbol.index])
            return not is_empty(self._regexes[symbol.index])

        def derives_only_empty(symbol: Symbol) -> bool:
            return (
                isinstance(symbol, TerminalRef)
                and symbol.index not in self._token_ids
                and is_empty(self._lexemes[symbol.index])
            )

        while True:
            more = {
                index
                for index, rule in enumerate(rules)
                if any(all(map(is_productive, p.symbols)) for p in rule.productions)
            }
            if more == productive:
                break
            productive = more
        return [
            [
                _Body(tuple(s for s in p.symbols if not derives_only_empty(s)), p.condition)
                for p in rule.productions
                if all(map(is_productive, p.symbols))
            ]
            for rule in rules
        ]

    def _close(self, kernel: Iterable[Item]) -> Row:
        """The row of ``kernel`` and all that follows by prediction and completion."""
        items: set[Item] = set()
        waiting: dict[tuple[int, int], list[Item]] = {}  # by the rule and argument behind the dot
        derived_nothing: set[tuple[int, int]] = set()  # rules and arguments complete at once
        agenda = list(kernel)
        while agenda:
            item = agenda.pop()
            if item in items:
                continue
            items.add(item)
            if len(items) > _ROW_ITEMS:
                raise TooWideError(f"more than {_ROW_ITEMS} items")
            symbol = item.next
            if symbol is None:  # complete: advance whoever waited for it where it began
                key = item.rule, item.parameter
                if item.origin is None:
                    derived_nothing.add(key)
                    agenda += [parent.advanced(parent.origin) for parent in waiting.get(key, ())]
                else:
                    parents = item.origin.waiting.get(key, ())
                    agenda += [parent.advanced(parent.origin or item.origin) for parent in parents]
            elif isinstance(symbol, RuleRef):  # predict
                key = symbol.index, self._argument(symbol, item.parameter)
                waiting.setdefault(key, []).append(item)
                agenda += [
                    Item(*key, body, 0, None)
                    for body in self._bodies[symbol.index]
                    if condition_holds(body.condition, key[1])
                ]
                if key in derived_nothing:
                    agenda.append(item.advanced(item.origin))
            elif nullable(self._regexes[symbol.index]):
                agenda.append(item.advanced(item.origin))
        allowed = frozenset(i.next.index for i in items if isinstance(i.next, TerminalRef))
        return Row(
            items=frozenset(items),
            waiting=waiting,
            complete=any(item.rule == _ROOT and item.next is None for item in items),
            allowed=allowed,
        )

    @staticmethod
    def _argument(symbol: RuleRef, parameter: int) -> int:
        return 0 if symbol.argument is None else evaluate(symbol.argument, parameter)

    def _scan(self, row: Row, terminals: frozenset[int], started: int | None, depth: int) -> Row:
        """The row after one lexeme that is any of ``terminals``, began in token ``started`` and
        stands in ``depth`` scopes."""
        key = row, terminals, started, depth if self._limits else 0
        if key not in self._scans:
            origin = self._stamp(row, started, depth)
            self._scans[key] = self._close(
                item.advanced(item.origin or origin)
                for item in row.items
                if isinstance(item.next, TerminalRef) and item.next.index in terminals
            )
        return self._scans[key]

    def _stamp(self, row: Row, started: int | None, depth: int) -> Row:
        """``row`` as the origin of what began in token ``started`` and in ``depth`` scopes."""
        if not self._limits:
            return row
        key = row, started, depth
        if key not in self._stamped:
            self._stamped[key] = dataclasses.replace(row, clock=started, depth=depth)
        return self._stamped[key]

    # ---- lexer

    def _skip_of(self, terminal: int) -> int | None:
        """The skip terminal that may stand before ``terminal``."""
        skip = self.ir.skip[self.ir.terminals[terminal].skip_class]
        return None if skip < 0 or is_empty(self._lexemes[skip]) else skip

    def _skips_once(self, terminal: int) -> bool:
        """Whether no second lexeme may be skipped before ``terminal``."""
        classes = self.ir.skip_once_classes
        return self.ir.skip_once and (
            classes is None or self.ir.terminals[terminal].skip_class in classes
        )

    def _skips(self, terminals: Iterable[int]) -> frozenset[int]:
        skips = map(self._skip_of, terminals)
        return frozenset(skip for skip in skips if skip is not None)

    def _state(
        self,
        row: Row,
        begin: frozenset[int],
        skips: frozenset[int],
        lexemes: frozenset[tuple[int, Residual]],
        partial: bool,
        scopes: tuple[Scope, ...],
        text: bytes = b"",
        started: int | None = None,
    ) -> State:
        if not self._needs_text(lexemes, scopes):
            text = b""
        key = row, begin, skips, lexemes, partial, scopes, text, started
        if key not in self._states:
            self._states[key] = State(*key)
        return self._states[key]

    def _needs_text(
        self, lexemes: Iterable[tuple[int, Residual]], scopes: tuple[Scope, ...]
    ) -> bool:
        terminals = [self.ir.terminals[t] for t, _ in lexemes]
        return self._scoped and (
            any(scope.text is not None for scope in scopes)
            or any(terminal.distinct or terminal.scope for terminal in terminals)
        )

    def _begin(
        self,
        row: Row,
        begin: frozenset[int],
        skips: frozenset[int],
        scopes: tuple[Scope, ...] = (Scope(),),
    ) -> State:
        """The state before the first byte of a lexeme."""
        terminals = (begin | skips) - self._token_ids.keys()
        lexemes = frozenset((t, residual_of(self._lexemes[t])) for t in terminals)
        return self._state(row, begin, skips, lexemes, False, scopes)

    def _emit(self, state: State, terminals: frozenset[int], lexeme: bytes) -> State | None:
        """The state after the lexeme in progress turned out to be any of ``terminals``.

        Where white space is among them it is nothing else, and what comes next is a terminal that
        this white space may stand before. None where scopes refuse it.
        """
        scopes = state.scopes
        skipped = terminals & state.skips
        if skipped:
            begin = frozenset(t for t in state.begin if self._skip_of(t) in skipped)
            again = self._skips(t for t in begin if not self._skips_once(t))
            return self._begin(state.row, begin, again, scopes)
        if self._scoped:
            terminals = left = self._kept(state, terminals, lexeme)
            if not left:
                return None
            scopes = self._after_lexeme(scopes, [self.ir.terminals[t] for t in left], lexeme)
        started = (state.started if state.partial else self.now) if self._limits else None
        row = self._scan(state.row, terminals, started, len(state.scopes))
        return self._begin(row, row.allowed, self._skips(row.allowed), scopes)

    def _kept(self, state: State, terminals: frozenset[int], lexeme: bytes) -> frozenset[int]:
        """What of ``terminals`` the scopes let a lexeme be; white space is no concern of theirs."""
        if not self._scoped or terminals & state.skips:
            return terminals
        return frozenset(t for t in terminals if not self._is_finished(t, state.scopes, lexeme))

    def _is_finished(self, terminal: int, scopes: tuple[Scope, ...], lexeme: bytes) -> bool:
        """Whether the scope, or the one around it, has had this before."""
        description, inner = self.ir.terminals[terminal], scopes[-1]
        if description.distinct and lexeme in inner.finished:
            return True
        return (
            description.scope == "close"
            and description.unique
            and inner.text is not None
            and inner.text + lexeme in scopes[-2].finished
        )

    @staticmethod
    def _after_lexeme(
        scopes: tuple[Scope, ...], terminals: Iterable[Terminal], lexeme: bytes
    ) -> tuple[Scope, ...]:
        terminals = list(terminals)
        stack = [
            scope if scope.text is None else dataclasses.replace(scope, text=scope.text + lexeme)
            for scope in scopes
        ]
        if any(t.distinct for t in terminals):
            stack[-1] = _with_finished(stack[-1], lexeme)
        if any(t.scope == "open" for t in terminals):
            unique = any(t.scope == "open" and t.unique for t in terminals)
            stack.append(Scope(unique=unique, text=lexeme if stack[-1].unique else None))
        elif any(t.scope == "close" for t in terminals) and len(stack) > 1:
            closed = stack.pop()
            if closed.text is not None:
                stack[-1] = _with_finished(stack[-1], closed.text)
        return tuple(stack)

    def _can_end_well(self, state: State) -> bool:
        """Whether some terminal has a match that the scope has not finished."""
        if not self._scoped or (state.row.complete and not state.partial):
            return True
        if not state.partial and state.begin & self._token_ids.keys():
            return True
        for terminal, residual in state.lexemes:
            if self._is_skip(state, terminal):
                if state.partial:
                    return True
            elif not self.ir.terminals[terminal].distinct or not is_within(
                residual.regex, _rests(state.scopes[-1].finished, state.text)
            ):
                return True
        return False

    def _is_skip(self, state: State, terminal: int) -> bool:
        return terminal in state.skips

    def _is_item_again(self, state: State) -> bool:
        """Whether some scope that counts as an item is the beginning of a finished one so far."""
        real = any(not self._is_skip(state, t) for t, _ in state.lexemes)
        text = state.text if real else b""
        return any(
            scope.text is not None
            and any(other.startswith(scope.text + text) for other in outer.finished)
            for outer, scope in zip(state.scopes, state.scopes[1:], strict=False)
        )

    def _leads_out(self, state: State) -> bool:
        """Whether a way leads to where no scope is like a finished item, or the text may end."""
        if not self._scoped or not self._is_item_again(state):
            return True
        if state not in self._ways_out:
            seen = {state}
            waiting = [state]
            found = False
            while waiting and not found:
                if len(seen) > _WAYS_OUT:
                    raise TooWideError(f"more than {_WAYS_OUT} states like finished items")
                at = waiting.pop()
                found = not self._is_item_again(at) or self.is_complete(at)
                for byte in range(256) if not found else ():
                    after = self._move(at, byte, [])
                    if after is not None and after not in seen:
                        seen.add(after)
                        waiting.append(after)
            self._ways_out[state] = found
        return self._ways_out[state]

    def token_terminals(self, state: State) -> tuple[State, frozenset[int]]:
        """Where the lexeme in progress ends at a token, and the terminals that are tokens there."""
        if state.partial:
            matched = _matched(state.lexemes)
            if not matched:
                return state, frozenset()
            after = self._emit(state, matched, state.text)
            if after is None:
                return state, frozenset()
            state = after
        return state, state.begin & self._token_ids.keys()

    def take(self, state: State | Ways, token: int) -> State | None:
        """The state after a token that is a terminal here, None for any other."""
        if isinstance(state, Ways):
            return None
        state, terminals = self.token_terminals(state)
        matched = frozenset(t for t in terminals if token in self._token_ids[t])
        return self._unless_dead(self._emit(state, matched, b"")) if matched else None

    def takes(self, state: State | Ways) -> set[int]:
        """All tokens that :meth:`take` takes."""
        if isinstance(state, Ways):
            return set()
        _, terminals = self.token_terminals(state)
        ids = set().union(*(self._token_ids[t] for t in terminals))
        return {token for token in ids if self.take(state, token) is not None}

    def _derive(self, state: State, byte: int) -> frozenset[tuple[int, Residual]]:
        derived = ((t, residual.after(byte)) for t, residual in state.lexemes)
        return frozenset((t, residual) for t, residual in derived if residual is not None)

    def step(self, state: AnyState, byte: int) -> AnyState | None:
        """The state after ``byte``, None where the grammar does not allow it."""
        byte = self._classes[byte]
        if isinstance(state, Ways):
            if byte not in state.after:
                state.after[byte] = self._exact_step(state, byte)
            return state.after[byte]
        key = byte, self.now if self._limits else 0
        if key not in state.after:
            state.after[key] = self._step(state, byte)
        return state.after[key]

    # ---- exact lexing: every match of a terminal may be a lexeme, and may go on

    def _ways_of(self, states: Iterable[State]) -> Ways:
        alive = frozenset(s for s in states if s.partial or s.begin or s.row.complete)
        if len(alive) > _WAYS:
            raise TooWideError(f"more than {_WAYS} ways to read a text")
        return self._ways.setdefault(alive, Ways(alive))

    def _unfinished(self, row: Row) -> Row:
        """``row`` where no text ends."""
        if row.complete and row not in self._unfinished_rows:
            self._unfinished_rows[row] = dataclasses.replace(row, complete=False)
        return self._unfinished_rows.get(row, row)

    def _exact_step(self, ways: Ways, byte: int) -> Ways | None:
        after: set[State] = set()
        for state in ways.states:
            lexemes = self._derive(state, byte)
            if any(residual.can_continue() for _, residual in lexemes):
                after.add(
                    self._state(state.row, state.begin, state.skips, lexemes, True, state.scopes)
                )
            for terminal in _matched(lexemes):
                ended = self._emit(state, frozenset((terminal,)), b"")
                assert ended is not None  # nothing is distinct here
                if terminal in state.skips:
                    # White space stands before something: no text ends with it.
                    row = self._unfinished(ended.row)
                    ended = self._begin(row, ended.begin, ended.skips, ended.scopes)
                after.add(ended)
        found = self._ways_of(after)
        return found if found.states else None

    def trace(self, state: State, text: bytes, trace: list[Ending]) -> State:
        """The state after ``text``, all of which must fit. To ``trace`` go the lexemes that end in
        it; their places count from the beginning of ``text``."""
        for at, byte in enumerate(text):
            ends: list[Ending] = []
            after = self._step(state, self._classes[byte], ends)
            assert after is not None
            trace += [end.moved(at) for end in ends]
            state = after
        return state

    def _step(self, state: State, byte: int, trace: list[Ending] | None = None) -> State | None:
        """One byte. To ``trace`` go the lexemes that end before it (0) and with it (1)."""
        after = self._move(state, byte, [] if trace is None else trace)
        return after if after is not None and self._leads_out(after) else None

    def _move(self, state: State, byte: int, trace: list[Ending]) -> State | None:
        """One byte, and the hidden tail that ends with it read again, where that is possible."""
        after = self._read(state, byte, trace)
        tail = self._hidden(trace[-1]) if after is not None and trace else b""
        if not tail or self._scoped or after is None:
            return after
        again: list[Ending] = []
        reread = self._read_again(after, tail, again)
        if reread is None:
            return after
        trace[-1] = dataclasses.replace(trace[-1], next=trace[-1].end - len(tail))
        trace += [end.moved(trace[-1].end - len(tail)) for end in again]
        return reread

    def _hidden(self, ending: Ending) -> bytes:
        """What of the lexeme is no part of it, as far as its bytes are known."""
        for t in ending.terminals:
            tail = self.ir.terminals[t].tail
            if self.ir.terminals[t].hidden_tail and isinstance(tail, Literal):
                return tail.data
        return b""

    def _read_again(self, state: State, tail: bytes, trace: list[Ending]) -> State | None:
        """The state after ``tail`` read from ``state``; None where that is not possible.

        It is not either where a lexeme would be nothing but its own hidden tail.
        """
        begin = 0
        for at, byte in enumerate(tail):
            ends: list[Ending] = []
            after = self._read(state, self._classes[byte], ends)
            if after is None:
                return None
            for end in ends:
                hidden = self._hidden(end)
                if hidden and len(hidden) >= at + end.end - begin:
                    return None
                trace.append(end.moved(at))
                begin = at + end.end
            hidden = self._hidden(ends[-1]) if ends else b""
            if hidden:
                again: list[Ending] = []
                reread = self._read_again(after, hidden, again)
                if reread is not None:
                    begin = at + 1 - len(hidden)
                    trace[-1] = dataclasses.replace(trace[-1], next=begin)
                    trace += [end.moved(begin) for end in again]
                    begin = trace[-1].next
                    after = reread
            state = after
        return state

    def _read(self, state: State, byte: int, trace: list[Ending]) -> State | None:
        current: State | None = state
        lexemes = self._derive(state, byte)
        if not lexemes:  # the longest lexeme ended before this byte, which then begins the next one
            matched = _matched(state.lexemes)
            current = self._emit(state, matched, state.text) if matched else None
            if current is None:
                return None
            trace.append(Ending(state, self._kept(state, matched, state.text), 0, 0))
            lexemes = self._derive(current, byte)
            if not lexemes:
                return None
        assert current is not None
        text = current.text + bytes((byte,))
        matched = _matched(lexemes)
        lazy = frozenset(t for t in matched if self.ir.terminals[t].lazy)
        if lazy:
            hidden = min(map(self._hidden_length, lazy))
            lazy = frozenset(t for t in lazy if self._hidden_length(t) == hidden)
            trace.append(Ending(current, self._kept(current, lazy, text), 1, 1))
            return self._unless_dead(self._emit(current, lazy, text))
        if len(matched) == len(lexemes) and not any(r.can_continue() for _, r in lexemes):
            trace.append(Ending(current, self._kept(current, matched, text), 1, 1))
            return self._unless_dead(self._emit(current, matched, text))
        started = (current.started if current.partial else self.now) if self._limits else None
        after = self._state(
            current.row, current.begin, current.skips, lexemes, True, current.scopes, text, started
        )
        return after if self._can_end_well(after) else None

    def _hidden_length(self, terminal: int) -> float:
        description = self.ir.terminals[terminal]
        if not description.hidden_tail:
            return 0
        tail = description.tail
        return len(tail.data) if isinstance(tail, Literal) else math.inf

    def eat(self, state: State | Ways) -> tuple[frozenset[int], State | None]:
        """What an end-of-generation token that is part of the text ends, and the state after it."""
        if isinstance(state, Ways):
            return frozenset(), None
        matched = _matched(state.lexemes) if state.partial else frozenset()
        if matched & state.skips:
            return frozenset(), None
        ended = frozenset(t for t in matched if self.ir.terminals[t].ends_with_eog)
        if not ended:
            return frozenset(), None
        return ended, self._unless_dead(self._emit(state, ended, state.text))

    def _unless_dead(self, state: State | None) -> State | None:
        """``state`` after a lexeme, None where nothing is left, neither to go on nor to end."""
        if state is None or not (state.begin or state.row.complete):
            return None
        return state if self._can_end_well(state) else None

    # ---- limits on tokens

    @property
    def limited(self) -> bool:
        """Whether some rule has a limit."""
        return bool(self._limits)

    def is_open(self, state: State | Ways) -> bool:
        """Whether a derivation with a limit is under way."""
        if not self._limits or isinstance(state, Ways):
            return False
        return any(
            rule in self._limits and (row is not state.row or state.partial)
            for row, rule in self._running(state)[0]
        )

    def expire(self, state: State | Ways, now: int) -> tuple[State | Ways, bool]:
        """``state`` once ``now`` tokens are consumed, and whether a derivation was cut."""
        cut = False
        if isinstance(state, Ways):
            return state, cut
        while self._limits:
            over = self._over(state, now)
            if not over:
                break
            left = self._left(state.row, state, now, {})
            if left is not None:
                begin = state.begin & left.allowed
                skips = state.skips & self._skips(begin)
                lexemes = frozenset(
                    (t, residual) for t, residual in state.lexemes if t in begin | skips
                )
                after = self._state(
                    left,
                    begin,
                    skips,
                    lexemes,
                    state.partial,
                    state.scopes,
                    state.text,
                    state.started,
                )
                if not state.partial:
                    if (begin or left.complete) and self._holds(after):
                        return after, cut
                elif lexemes:
                    matched = _matched(lexemes)
                    if len(matched) < len(lexemes) or any(r.can_continue() for _, r in lexemes):
                        if self._holds(after):
                            return after, cut
                    else:
                        following = self._ended(after, matched)
                        if following is not None:
                            state = following
                            continue
            matched = _matched(state.lexemes) if state.partial else frozenset()
            following = self._ended(state, matched) if matched else None
            if following is not None:
                state = following
                continue
            depth = len(state.scopes)
            own = self._stamp(state.row, state.started, depth)
            row = self._close(
                parent.advanced(parent.origin or origin or own)
                for rule, parameter, origin in over
                for parent in (origin or own).waiting.get((rule, parameter), ())
            )
            # The scopes that it opened are given up; their bytes are text of those around them.
            depth = min(depth, *(origin.depth if origin else depth for _, _, origin in over))
            scopes = self._after_lexeme(state.scopes[:depth], (), state.text)
            state = self._begin(row, row.allowed, self._skips(row.allowed), scopes)
            cut = True
        return state, cut

    def _holds(self, state: State) -> bool:
        """Whether scopes leave a way on from a state that was not reached by reading."""
        return self._can_end_well(state) and self._leads_out(state)

    def _ended(self, state: State, matched: frozenset[int]) -> State | None:
        """The state after the lexeme in progress, ended early; None where scopes refuse that."""
        following = self._emit(state, matched, state.text)
        if not self._scoped:
            return following
        following = self._unless_dead(following)
        return following if following is not None and self._holds(following) else None

    def _goes_on(self, item: Item, state: State) -> bool:
        if not isinstance(item.next, TerminalRef):
            return False
        terminals = {t for t, _ in state.lexemes}
        t = item.next.index
        return not state.partial or t in terminals or self._skip_of(t) in terminals

    def _running(self, state: State) -> tuple[set[tuple[Row, int]], set[tuple[Row, Item]]]:
        """The rules under way with the rows in which they began, and the items that they wait in
        with the rows of these."""
        under_way = {
            (item.origin or state.row, item.rule)
            for item in state.row.items
            if self._goes_on(item, state)
        }
        todo = list(under_way)
        relevant = {(state.row, item) for item in state.row.items if self._goes_on(item, state)}
        while todo:
            row, rule = todo.pop()
            for item in row.items:
                if isinstance(item.next, RuleRef) and item.next.index == rule:
                    relevant.add((row, item))
                    pair = item.origin or row, item.rule
                    if pair not in under_way:
                        under_way.add(pair)
                        todo.append(pair)
        return under_way, relevant

    def _over(self, state: State, now: int) -> set[tuple[int, int, Row | None]]:
        """The derivations under way that have spent their tokens: (rule, parameter, origin)."""
        under_way, relevant = self._running(state)
        return {
            (item.rule, item.parameter, item.origin or (None if row is state.row else row))
            for row, item in relevant
            if self._is_over(row, item, state, now, under_way)
        }

    def _is_over(
        self, row: Row, item: Item, state: State, now: int, under_way: Collection[tuple[Row, int]]
    ) -> bool:
        if item.origin is not None:
            began = item.origin.clock
        elif (row, item.rule) not in under_way:
            return False
        elif row is not state.row:
            began = row.clock
        elif state.partial:
            began = state.started
        else:
            return False
        limit = self._limits.get(item.rule)
        return limit is not None and began is not None and began + limit <= now

    def _left(self, row: Row, state: State, now: int, known: dict[Row, Row | None]) -> Row | None:
        """``row`` without what is over; None if nothing is left."""
        if row in known:
            return known[row]
        under_way = (
            {(row, item.rule) for item in row.items if item.origin is None}
            if row is not state.row
            else {(r, rule) for r, rule in self._under_way(state) if r is row}
        )
        kept: set[Item] = set()
        for item in row.items:
            if item.origin is None or self._is_over(row, item, state, now, under_way):
                continue
            origin = self._left(item.origin, state, now, known)
            if origin is not None and (
                item.rule == _ROOT or origin.waiting.get((item.rule, item.parameter))
            ):
                kept.add(dataclasses.replace(item, origin=origin))
        own = {
            item
            for item in row.items
            if item.origin is None and not self._is_over(row, item, state, now, under_way)
        }
        while True:
            wanted = {
                (item.next.index, self._argument(item.next, item.parameter))
                for item in kept
                if isinstance(item.next, RuleRef)
            }
            more = {i for i in own - kept if i.rule == _ROOT or (i.rule, i.parameter) in wanted}
            if not more:
                break
            kept |= more
        result = None
        if kept or row.complete:
            waiting: dict[tuple[int, int], list[Item]] = {}
            for item in kept:
                if isinstance(item.next, RuleRef):
                    key = item.next.index, self._argument(item.next, item.parameter)
                    waiting.setdefault(key, []).append(item)
            allowed = frozenset(i.next.index for i in kept if isinstance(i.next, TerminalRef))
            result = Row(frozenset(kept), waiting, row.complete, allowed, row.clock, row.depth)
        known[row] = result
        return result

    def _under_way(self, state: State) -> set[tuple[Row, int]]:
        """Rules that began in the row of ``state`` with the lexeme in progress."""
        found = {
            item.rule
            for item in state.row.items
            if item.origin is None and self._goes_on(item, state)
        }
        while True:
            more = {
                item.rule
                for item in state.row.items
                if item.origin is None
                and isinstance(item.next, RuleRef)
                and item.next.index in found
            }
            if more <= found:
                return {(state.row, rule) for rule in found}
            found |= more

    def run(self, text: bytes, state: State | Ways | None = None) -> State | Ways | None:
        """The state after ``text``, from the beginning or from ``state``."""
        current: State | Ways | None = state or self.start
        for byte in text:
            if current is None:
                break
            current = self.step(current, byte)
        return current

    def followers(self, state: State | Ways) -> set[int]:
        """The bytes that may come next."""
        return {byte for byte in range(256) if self.step(state, byte) is not None}

    def is_complete(self, state: State | Ways) -> bool:
        """Whether the text so far is one that the grammar describes."""
        if isinstance(state, Ways):
            return any(not way.partial and way.row.complete for way in state.states)
        if not state.partial:
            return state.row.complete
        matched = _matched(state.lexemes)
        after = self._emit(state, matched, state.text) if matched else None
        return after is not None and after.row.complete

    def accepts(self, text: bytes) -> bool:
        """Whether the grammar describes ``text``."""
        state = self.run(text)
        return state is not None and self.is_complete(state)


def _matched(lexemes: Iterable[tuple[int, Residual]]) -> frozenset[int]:
    """The terminals that match what has been read. Before the first byte there are none."""
    return frozenset(terminal for terminal, residual in lexemes if residual.nullable)


def _with_finished(scope: Scope, text: bytes) -> Scope:
    return dataclasses.replace(scope, finished=scope.finished | {text})


def _rests(texts: Iterable[bytes], beginning: bytes) -> frozenset[bytes]:
    return frozenset(t[len(beginning) :] for t in texts if t.startswith(beginning))
