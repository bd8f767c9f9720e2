"""Assertions anywhere, by way of a deterministic automaton over characters.

The fallback of :mod:`llgx.regex.translate` for look-around inside loops and for look-behind. A
state is a Boolean formula over obligations on the rest of the text, which makes the pattern an
alternating automaton and the formulas its determinisation (Chandra, Kozen and Stockmeyer,
*Alternation*, JACM 1981), together with such a formula for each look-behind over what was read. An
obligation is a node and, by interned number, the obligation that follows it. Formulas are reduced
ordered binary decision diagrams (Bryant, 1986), so equal formulas are equal numbers, and the number
of states is finite.

Characters enter by minterms of the sets of the pattern. The automaton is minimised (Moore) and read
back as a regex by state elimination (Brzozowski and McCluskey, 1963).

Worst case exponential in the pattern, therefore capped at :data:`_STATES` states and
:data:`_MINIMAL` after minimisation; counted loops cost a state per round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llgx import ir
from llgx.regex import charset
from llgx.regex.build import alternate, concat, repeat
from llgx.regex.charset import CharSet
from llgx.regex.nodes import Alt, Assertion, Bytes, Chars, Look, Loop, Node, Seq, Side
from llgx.regex.utf8 import set_regex

__all__ = ["TooManyStatesError", "to_regex"]

_STATES: Final = 400
_MINIMAL: Final = 80
_LETTERS: Final = 64
_DIAGRAM_NODES: Final = 60_000
_EXPANSIONS: Final = 100_000
_REGEX_NODES: Final = 50_000
# Bounds of recursion: nesting of nodes, and variables of a formula.
_DEPTH: Final = 80
_VARIABLES: Final = 150

_FALSE: Final = 0
_TRUE: Final = 1

# The obligations that are not a node: none at all, the end of the text, and (in the formula of a
# look-behind) the position that has been reached.
_DONE: Final = 0
_END: Final = 1
_HERE: Final = 2


class TooManyStatesError(Exception):
    """A cap of the module was reached."""


def to_regex(node: Node) -> ir.Regex:
    """The regex for texts that ``node`` matches from start to end, or ``TooManyStatesError``."""
    machine = _Machine(node)
    rows, accepting = machine.explore()
    rows, accepting = _minimise(rows, accepting)
    if len(rows) > _MINIMAL:
        raise TooManyStatesError
    return _eliminate(rows, accepting, machine.letters)


class _Diagrams:
    """Binary decision diagrams; a number is a formula, 0 is false and 1 is true."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, int]] = [(-1, 0, 0), (-1, 1, 1)]
        self._ids: dict[tuple[int, int, int], int] = {}
        self._choices: dict[tuple[int, int, int], int] = {}
        self._variables: set[int] = set()

    def variable(self, index: int) -> int:
        self._variables.add(index)
        if len(self._variables) > _VARIABLES:
            raise TooManyStatesError
        return self._node(index, _FALSE, _TRUE)

    def split(self, formula: int) -> tuple[int, int, int]:
        """The first variable of ``formula`` and what is left when it is false and when true."""
        return self._nodes[formula]

    def _node(self, index: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (index, low, high)
        found = self._ids.get(key)
        if found is None:
            if len(self._nodes) > _DIAGRAM_NODES:
                raise TooManyStatesError
            found = self._ids[key] = len(self._nodes)
            self._nodes.append(key)
        return found

    def choose(self, test: int, then: int, other: int) -> int:
        """``then`` where ``test`` holds, else ``other``."""
        if test <= _TRUE:
            return then if test else other
        if then == other:
            return then
        if then == _TRUE and other == _FALSE:
            return test
        key = (test, then, other)
        found = self._choices.get(key)
        if found is None:
            index = min(self._nodes[f][0] for f in key if f > _TRUE)
            lows, highs = zip(*(self._cofactors(f, index) for f in key), strict=True)
            found = self._node(index, self.choose(*lows), self.choose(*highs))
            self._choices[key] = found
        return found

    def _cofactors(self, formula: int, index: int) -> tuple[int, int]:
        top, low, high = self._nodes[formula]
        return (low, high) if formula > _TRUE and top == index else (formula, formula)

    def either(self, left: int, right: int) -> int:
        return self.choose(left, _TRUE, right)

    def both(self, left: int, right: int) -> int:
        return self.choose(left, right, _FALSE)

    def invert(self, formula: int) -> int:
        return self.choose(formula, _FALSE, _TRUE)


# What has been read: the letter that came last (or _START), and for each look-behind the formula on
# the rest under which it matches up to here.
_Context = tuple[int, tuple[int, ...]]
_START: Final = -1

# A state: the formula on the rest and that of each look-behind.
_State = tuple[int, tuple[int, ...]]


class _Machine:
    """The automaton of one pattern."""

    def __init__(self, node: Node) -> None:
        self._node = node
        sets: list[CharSet] = []
        self._behinds: list[Look] = []
        self._collect(node, sets)
        self.letters = charset.minterms(sets)
        if len(self.letters) > _LETTERS:
            raise TooManyStatesError
        self._diagrams = _Diagrams()
        self._obligations: list[tuple[Node | None, int]] = [(None, 0), (None, 0), (None, 0)]
        self._obligation_ids: dict[tuple[int, int], int] = {}
        # Whether the obligation is one of a look-behind on its own text, which ends in _HERE.
        self._in_behind = [False, False, True]
        self._loops: dict[tuple[int, int, int | None], Loop] = {}
        self._peeks: dict[CharSet, Chars] = {}
        self._expanded: dict[_Context, dict[int, int]] = {}
        # The obligations that are being expanded, numbered from the outermost, and the outermost of
        # those that came up again.
        self._active: dict[int, int] = {}
        self._cut = 0
        self._expansions = 0

    def _collect(self, node: Node, sets: list[CharSet], depth: int = 0) -> None:
        """Gather the sets of ``node``, and its look-behinds with inner ones first."""
        if depth > _DEPTH:
            raise TooManyStatesError
        if isinstance(node, Chars):
            sets.append(node.members)
        elif isinstance(node, Assertion):
            for left, right in node.cases:
                sets += (left.members, right.members)
        elif isinstance(node, Look):
            self._collect(node.body, sets, depth + 1)
            if not node.ahead:
                self._behinds.append(node)
        elif isinstance(node, Loop):
            self._collect(node.item, sets, depth + 1)
        elif isinstance(node, (Seq, Alt)):
            for item in node.items:
                self._collect(item, sets, depth + 1)
        else:
            assert isinstance(node, Bytes)
            raise TooManyStatesError

    def explore(self) -> tuple[list[list[int]], list[bool]]:
        """Successors by letter and acceptance of each reachable state; state 0 is the start."""
        start = self._enter(self._start_formula, _START, ())
        numbers: dict[_State, int] = {start: 0}
        queue = [start]
        rows: list[list[int]] = []
        accepting: list[bool] = []
        for state in queue:
            accepting.append(self._accepts(state[0]))
            row = []
            for letter in range(len(self.letters)):
                after = self._step(state, letter)
                if after not in numbers:
                    if len(numbers) >= _STATES:
                        raise TooManyStatesError
                    numbers[after] = len(queue)
                    queue.append(after)
                row.append(numbers[after])
            rows.append(row)
        return rows, accepting

    def _start_formula(self, context: _Context) -> int:
        # The whole text is matched, so after the node comes the end.
        return self._expand(self._obligation(self._node, _END), context, 0)

    def _enter(
        self, formula: Callable[[_Context], int], last: int, behinds: tuple[int, ...]
    ) -> _State:
        """The state at a position: look-behinds first, since the formula asks for them."""
        known: list[int] = []
        formulas: list[int] = []
        for index, item in enumerate(self._behinds):
            context = (last, tuple(known))
            begun = self._expand(self._obligation(item.body, _HERE), context, 0)
            if behinds:
                begun = self._diagrams.either(begun, self._advance(behinds[index], last, context))
            formulas.append(begun)
            known.append(self._ending_here(begun))
        context = (last, tuple(known))
        return formula(context), tuple(formulas)

    def _step(self, state: _State, letter: int) -> _State:
        before = state[0]
        return self._enter(lambda context: self._advance(before, letter, context), letter, state[1])

    def _advance(self, formula: int, letter: int, context: _Context) -> int:
        """The formula after ``letter``: each obligation becomes what follows it, or false."""
        made: dict[int, int] = {_FALSE: _FALSE, _TRUE: _TRUE}

        def visit(item: int) -> int:
            found = made.get(item)
            if found is None:
                index, low, high = self._diagrams.split(item)
                node, after = self._obligations[index]
                value = _FALSE
                if isinstance(node, Chars) and _has(node.members, self.letters[letter]):
                    value = self._expand(after, context, 0)
                found = made[item] = self._diagrams.choose(value, visit(high), visit(low))
            return found

        return visit(formula)

    def _accepts(self, formula: int) -> bool:
        """The value of ``formula`` at the end of the text."""
        while formula > _TRUE:
            index, low, high = self._diagrams.split(formula)
            formula = high if index == _END else low
        return formula == _TRUE

    def _ending_here(self, formula: int) -> int:
        """What ``formula``, of a look-behind, asks of the rest so that a match ends right here."""
        if formula <= _TRUE:
            return formula
        index, low, high = self._diagrams.split(formula)
        if index == _HERE:
            return self._ending_here(high)
        if self._in_behind[index]:
            return self._ending_here(low)
        test = self._diagrams.variable(index)
        return self._diagrams.choose(test, self._ending_here(high), self._ending_here(low))

    def _obligation(self, node: Node, after: int) -> int:
        key = (id(node), after)
        found = self._obligation_ids.get(key)
        if found is None:
            found = self._obligation_ids[key] = len(self._obligations)
            self._obligations.append((node, after))
            self._in_behind.append(self._in_behind[after])
        return found

    def _expand(self, obligation: int, context: _Context, depth: int) -> int:
        """The formula for ``obligation`` at a position, over obligations that consume a character.

        An obligation that comes up again while it is being expanded has not consumed anything in
        between, so it adds nothing: false, the least fixed point.
        """
        node, after = self._obligations[obligation]
        if node is None:
            return _TRUE if obligation == _DONE else self._diagrams.variable(obligation)
        if isinstance(node, Chars):
            return self._diagrams.variable(obligation)
        if obligation in self._active:
            self._cut = min(self._cut, self._active[obligation])
            return _FALSE
        memo = self._expanded.setdefault(context, {})
        if obligation in memo:
            return memo[obligation]
        self._expansions += 1
        if self._expansions > _EXPANSIONS or depth > _DEPTH:
            raise TooManyStatesError
        own = self._active[obligation] = len(self._active)
        outer, self._cut = self._cut, own
        result = self._expand_node(node, after, context, depth + 1)
        del self._active[obligation]
        if self._cut >= own:
            # Whatever was cut off came up again within: the result holds anywhere.
            memo[obligation] = result
            self._cut = outer
        else:
            self._cut = min(self._cut, outer)
        return result

    def _expand_node(self, node: Node, after: int, context: _Context, depth: int) -> int:
        diagrams = self._diagrams
        if isinstance(node, Seq):
            for item in reversed(node.items):
                after = self._obligation(item, after)
            return self._expand(after, context, depth)
        if isinstance(node, Alt):
            result = _FALSE
            for item in node.items:
                option = self._expand(self._obligation(item, after), context, depth)
                result = diagrams.either(result, option)
            return result
        if isinstance(node, Loop):
            less = self._rounds_left(node)
            again = after if less is None else self._obligation(less, after)
            result = self._expand(self._obligation(node.item, again), context, depth)
            if not node.low:
                result = diagrams.either(result, self._expand(after, context, depth))
            return result
        if isinstance(node, Look):
            if node.ahead:
                value = self._expand(self._obligation(node.body, _DONE), context, depth)
            else:
                value = context[1][self._behinds.index(node)]
            value = diagrams.invert(value) if node.negative else value
        else:
            assert isinstance(node, Assertion)
            value = self._next_characters(node, context)
        return diagrams.both(value, self._expand(after, context, depth)) if value else _FALSE

    def _next_characters(self, node: Assertion, context: _Context) -> int:
        """The formula for what ``node`` asks about the character after the position."""
        last = context[0]
        value = _FALSE
        for left, right in node.cases:
            if left.edge if last == _START else _has(left.members, self.letters[last]):
                value = self._diagrams.either(value, self._side(right))
        return value

    def _side(self, side: Side) -> int:
        if side.edge and side.members == charset.ALL:
            return _TRUE
        value = self._diagrams.variable(_END) if side.edge else _FALSE
        if side.members:
            node = self._peeks.setdefault(side.members, Chars(side.members, None))
            value = self._diagrams.either(
                value, self._diagrams.variable(self._obligation(node, _DONE))
            )
        return value

    def _rounds_left(self, node: Loop) -> Loop | None:
        """The loop after one round, or None after the last."""
        if node.high is None and not node.low:
            return node
        high = None if node.high is None else node.high - 1
        if high == 0:
            return None
        key = (id(node.item), max(node.low - 1, 0), high)
        if key not in self._loops:
            self._loops[key] = Loop(node.item, key[1], high, None, node.nullable, node.depth)
        return self._loops[key]


def _has(members: CharSet, letter: CharSet) -> bool:
    """Whether ``letter``, a minterm, lies in ``members``."""
    return charset.contains(members, letter[0][0])


def _minimise(rows: list[list[int]], accepting: list[bool]) -> tuple[list[list[int]], list[bool]]:
    """The minimal automaton (Moore's partition refinement), start first."""
    parts = [int(flag) for flag in accepting]
    count = len(set(parts))
    while True:
        numbers: dict[tuple[int, ...], int] = {}
        parts = [
            numbers.setdefault((part, *(parts[after] for after in row)), len(numbers))
            for part, row in zip(parts, rows, strict=True)
        ]
        if len(numbers) == count:
            break
        count = len(numbers)
    first: dict[int, int] = {}
    for index, part in enumerate(parts):
        first.setdefault(part, index)
    merged = [[parts[after] for after in rows[first[part]]] for part in range(count)]
    return merged, [accepting[first[part]] for part in range(count)]


def _eliminate(rows: list[list[int]], accepting: list[bool], letters: list[CharSet]) -> ir.Regex:
    """The language of the automaton as a regex; states that cost least are taken out first."""
    alive = _alive(rows, accepting)
    if 0 not in alive:
        return ir.EMPTY
    begin, end = -1, -2
    empty = (ir.EPSILON, 1)
    # For each state and successor the regex of the way between them and its size.
    edges: dict[int, dict[int, tuple[ir.Regex, int]]] = {begin: {0: empty}, end: {}}
    for state in alive:
        targets: dict[int, list[CharSet]] = {}
        for letter, after in enumerate(rows[state]):
            if after in alive:
                targets.setdefault(after, []).append(letters[letter])
        edges[state] = {
            after: (set_regex(charset.union(*sets)), 1) for after, sets in targets.items()
        }
        if accepting[state]:
            edges[state][end] = empty
    remaining = set(alive)
    while remaining:
        sources = {
            state: [other for other in edges if other != state and state in edges[other]]
            for state in remaining
        }
        state = min(
            remaining, key=lambda s: (len(sources[s]) * (len(edges[s]) - (s in edges[s])), s)
        )
        remaining.discard(state)
        out = edges.pop(state)
        own, own_size = out.pop(state, (ir.EPSILON, 0))
        around = repeat(own, 0, None)
        for source in sources[state]:
            head, head_size = edges[source].pop(state)
            for target, (tail, tail_size) in out.items():
                path = concat((head, around, tail))
                known, known_size = edges[source].get(target, (ir.EMPTY, 0))
                size = known_size + head_size + own_size + tail_size
                if size > _REGEX_NODES:
                    raise TooManyStatesError
                edges[source][target] = (alternate((known, path)), size)
    return edges[begin].get(end, (ir.EMPTY, 0))[0]


def _alive(rows: list[list[int]], accepting: list[bool]) -> set[int]:
    """States from which an accepting one can be reached."""
    alive = {state for state, flag in enumerate(accepting) if flag}
    while True:
        more = {s for s, row in enumerate(rows) if s not in alive and alive.intersection(row)}
        if not more:
            return alive
        alive |= more
