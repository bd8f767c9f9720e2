"""Which parts of a GBNF grammar can be terminals.

GBNF has no lexer: a text belongs to the language if any derivation has it. The engine has one: it
follows all terminals that a parser row allows at once, takes the longest match, and remembers no
shorter one. Both are the same if no terminal of a row can go on, at the place where one of them
ends, with a byte that what follows that one can begin with: then the byte after the end of a lexeme
tells that it is the end. Single characters always are such terminals, as no character in UTF-8
begins another.

:func:`plan` starts with the largest terminals that read well (rules without recursion, groups,
repetitions) and looks for places where the condition fails. There, neighbours in a series become
one terminal, which does away with the boundary between them; or the terminal that would go on is
cut in two where it would, taken apart into its alternatives or rounds, and in the end into
characters. This goes on until the condition holds, so every result has the language of the grammar.

Which terminals may meet in a row is found by following pairs of them from the start through all
lexemes that they share, in the finite automaton that forgets which rule it came from: a superset of
the truth, so no conflict is missed. A first pass takes any two terminals with a first character in
common to share a lexeme, and any character after the first to be able to go on; most grammars need
no more. Then :mod:`llgx.gbnf.automata` answers exactly.

The work is bounded: beyond the bound, all terminals are single characters.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from llgx.gbnf import recursion
from llgx.gbnf.automata import (
    DEPTH,
    POSITIONS,
    Alphabet,
    Automaton,
    Budget,
    Comparison,
    OutOfBudgetError,
    TooLargeError,
    bits,
    compare,
    copies,
)
from llgx.gbnf.nodes import (
    Chars,
    Choice,
    Loop,
    Node,
    Pool,
    Reference,
    Series,
    Text,
    Token,
    children,
    postorder,
)
from llgx.gbnf.parser import Source

__all__ = ["Plan", "plan"]

_TERMINAL_LEAVES: Final = 100_000
_STEPS: Final = 1_000_000


def plan(source: Source) -> Plan:
    """Decide which nodes of ``source`` are terminals. Usually linear in the grammar."""
    bodies = {source.root: source.rules[source.root].body}
    todo = [source.root]
    while todo:
        for rule in recursion.references(bodies[todo.pop()]):
            if rule not in bodies:
                bodies[rule] = source.rules[rule].body
                todo.append(rule)
    recursion.unroll(source.pool, bodies)
    result = Plan(source.pool, bodies, source.root)
    if result.is_terminal(source.pool.reference(source.root)):
        return result  # one terminal, and nothing to confuse it with
    budget = Budget(_STEPS)
    try:
        while _Search(result, budget).resolve():
            pass
    except OutOfBudgetError:
        result.characters_only = True
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class _Measure:
    """The size of an expression that can be a terminal.

    ``depth`` counts expressions below one another, ``leaves`` texts and classes, and ``positions``
    characters as an automaton writes them out.
    """

    depth: int
    leaves: int
    positions: int


def _grown(parts: Sequence[_Measure | None]) -> _Measure | None:
    """The measure of something made of ``parts``; None if one has none, or it gets too large."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    depth = 1 + max((part.depth for part in known), default=0)
    leaves = sum(part.leaves for part in known)
    if depth > DEPTH or leaves > _TERMINAL_LEAVES:
        return None
    return _Measure(depth, leaves, sum(part.positions for part in known))


def _common(left: str, right: str) -> int:
    """How many characters two texts begin with alike."""
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return min(len(left), len(right))


class Plan:
    """The grammar as productions over nodes, some of them terminals.

    ``opened`` are the nodes that are not terminals although they could be, with the places where
    they are cut, or None if they are taken apart altogether; ``merged`` the series in which regular
    neighbours form one terminal.
    """

    def __init__(self, pool: Pool, bodies: dict[int, Node], root: int) -> None:
        self.pool = pool
        self.bodies = bodies
        self.root = root
        self.opened: dict[Node, set[int] | None] = {}
        self.merged: set[Node] = set()
        self.characters_only = False
        self._measures: dict[Node, _Measure | None] = {}
        self._measure_rules()

    def _measure_rules(self) -> None:
        edges = {rule: recursion.references(body) for rule, body in self.bodies.items()}
        for component in recursion.components(edges):
            rule = component[0]
            if len(component) > 1 or rule in edges[rule]:
                self._measures.update((self.pool.reference(rule), None) for rule in component)
            else:
                body = self.measure(self.bodies[rule])
                self._measures[self.pool.reference(rule)] = _grown([body])
        for body_node in self.bodies.values():
            self.measure(body_node)

    def measure(self, root: Node) -> _Measure | None:
        """The size of ``root`` if it can be a terminal."""
        if root in self._measures:
            return self._measures[root]
        for node in postorder([root], self._measures):
            if isinstance(node, Text):
                self._measures[node] = _Measure(1, 1, len(node.value))
            elif isinstance(node, Chars):
                self._measures[node] = _Measure(1, 1, 1)
            elif isinstance(node, Token):
                self._measures[node] = None
            else:
                grown = _grown([self._measures[child] for child in children(node)])
                if grown is not None and isinstance(node, Loop):
                    count, _ = copies(node, grown.positions)
                    grown = _Measure(grown.depth, grown.leaves, grown.positions * count)
                self._measures[node] = grown
        return self._measures[root]

    def is_terminal(self, node: Node) -> bool:
        """Whether ``node`` is a terminal, a token of the model among them."""
        if isinstance(node, (Token, Chars)):
            return True
        if isinstance(node, Text) and len(node.value) == 1:
            return True
        if self.characters_only or node in self.opened:
            return False
        if isinstance(node, (Series, Choice)) and not node.items:
            return False
        return self.measure(node) is not None

    def productions(self, node: Node) -> list[tuple[Node, ...]]:
        """The alternatives of a node that is no terminal, as symbols; loops have none."""
        if isinstance(node, Reference):
            node = self.bodies[node.rule]
            if self.is_terminal(node):
                return [(node,)]
        if isinstance(node, Choice):
            return [self.sequence(item) for item in self.alternatives(node)]
        return [self.sequence(node)]

    def sequence(self, node: Node) -> tuple[Node, ...]:
        """``node`` as a sequence of symbols."""
        symbols: list[Node] = []
        stack = [node]
        while stack:
            part = stack.pop()
            if self.is_terminal(part) or not isinstance(part, (Series, Text)):
                symbols.append(part)
            else:
                stack.extend(reversed(self.parts(part)))
        return tuple(symbols)

    def parts(self, node: Series | Text) -> Sequence[Node]:
        """What a series, or a text, that is no terminal is made of."""
        cuts = self.opened.get(node)
        if isinstance(node, Text):
            if cuts is None or self.characters_only:
                return [self.pool.text(char) for char in node.value]
            bounds = [0, *sorted(cuts), len(node.value)]
            return [self.pool.text(node.value[a:b]) for a, b in itertools.pairwise(bounds)]
        if self.characters_only:
            return node.items
        if cuts is not None:
            bounds = [0, *sorted(cuts), len(node.items)]
            return [self.pool.series(node.items[a:b]) for a, b in itertools.pairwise(bounds)]
        if node not in self.merged:
            return node.items
        parts: list[Node] = []
        for regular, group in itertools.groupby(
            node.items, lambda item: self.measure(item) is not None
        ):
            run = list(group)
            joined = self.pool.series(run) if regular else self.pool.nothing
            # Together they may be too large for a terminal.
            parts += [joined] if regular and self.measure(joined) is not None else run
        return parts

    def alternatives(self, node: Choice) -> Sequence[Node]:
        """The alternatives of a choice that is no terminal.

        Texts that begin alike are taken together when a choice is taken apart: the beginning, then
        a choice of the rest.
        """
        if node not in self.opened and not self.characters_only:
            return node.items
        others: list[Node] = []
        by_first: dict[str, list[str]] = {}
        for item in node.items:
            if isinstance(item, Text):
                by_first.setdefault(item.value[0], []).append(item.value)
            else:
                others.append(item)
        for texts in by_first.values():
            shared = _common(min(texts), max(texts))
            rests = self.pool.choice([self.pool.text(text[shared:]) for text in texts])
            others.append(self.pool.series((self.pool.text(texts[0][:shared]), rests)))
        return others


@dataclasses.dataclass(slots=True)
class _Place:
    """An occurrence of a terminal; if it is an item of a series, of which one and where."""

    node: Node
    series: Series | None
    index: int


class _Search:
    """One round: the grammar as the plan has it, and the conflicts in it."""

    def __init__(self, plan: Plan, budget: Budget) -> None:
        self._plan = plan
        self._budget = budget
        self._places: list[_Place] = []
        # Productions by symbol; numbers are places, nodes are other symbols.
        self._grammar: dict[Node, list[list[Node | int]]] = {}
        self._collect()
        # What it takes to look at one bit of a set of places.
        self._width = 1 + len(self._places) // 1_000
        budget.spend(len(self._places) * self._width)
        terminals = list(dict.fromkeys(place.node for place in self._places))
        inside = self._below(terminals)
        self._alphabet = Alphabet(
            (node.members for node in inside if isinstance(node, Chars)),
            (char for node in inside if isinstance(node, Text) for char in node.value),
        )
        self._nullable: dict[Node, bool] = {}
        self._first: dict[Node, int] = {}
        self._inner: dict[Node, int] = {}
        self._describe(inside)
        self._automata: dict[Node, Automaton] = {}
        self._compared: dict[tuple[Node, Node], Comparison] = {}
        self._next = self._followers()

    def _collect(self) -> None:
        """Lay out the productions reachable from the root."""
        plan = self._plan
        todo: list[Node] = [plan.pool.reference(plan.root)]
        while todo:
            node = todo.pop()
            if node in self._grammar:
                continue
            if isinstance(node, Loop):
                symbols = plan.sequence(node.item)
                again = self._number(node.item, symbols, todo)
                if node.high != 1:
                    again.insert(0, node)
                start = self._number(node.item, symbols, todo) if node.low else []
                self._grammar[node] = [start, again]
            else:
                bodies = plan.productions(node)
                origin = plan.bodies[node.rule] if isinstance(node, Reference) else node
                origins = origin.items if isinstance(origin, Choice) else (origin,)
                self._grammar[node] = [
                    self._number(origins[i] if len(origins) == len(bodies) else None, body, todo)
                    for i, body in enumerate(bodies)
                ]

    def _number(
        self, origin: Node | None, symbols: Sequence[Node], todo: list[Node]
    ) -> list[Node | int]:
        """``symbols`` with a number for each terminal; ``origin`` is what they are made from."""
        plan = self._plan
        result: list[Node | int] = []
        series = None
        if (
            isinstance(origin, Series)
            and origin.items == symbols
            and origin not in plan.merged
            and origin not in plan.opened
        ):
            series = origin
        for index, symbol in enumerate(symbols):
            if plan.is_terminal(symbol):
                result.append(len(self._places))
                self._places.append(_Place(symbol, series, index))
            else:
                result.append(symbol)
                todo.append(symbol)
        return result

    def _below(self, terminals: Iterable[Node]) -> list[Node]:
        """All nodes of the terminals, those of rules included, inner ones first."""
        order: dict[Node, None] = {}
        stack = [(node, False) for node in terminals]
        while stack:
            node, finished = stack.pop()
            if finished:
                order[node] = None
            elif node not in order:
                stack.append((node, True))
                stack.extend((child, False) for child in self._children(node))
        return list(order)

    def _children(self, node: Node) -> Sequence[Node]:
        if isinstance(node, Reference):
            return (self._plan.bodies[node.rule],)
        return children(node)

    def _describe(self, nodes: Iterable[Node]) -> None:
        """For each node, inner ones first: may it be empty, its first letters, and later ones."""
        for node in nodes:
            nullable, first, inner = False, 0, 0
            if isinstance(node, Text):
                first = self._alphabet.letter(node.value[0])
                for char in node.value[1:]:
                    inner |= self._alphabet.letter(char)
            elif isinstance(node, Chars):
                first = self._alphabet.letters(node.members)
            elif isinstance(node, (Series, Reference)):
                nullable = True
                for place, item in enumerate(self._children(node)):
                    if nullable:
                        first |= self._first[item]
                    inner |= self._inner[item] | (self._first[item] if place else 0)
                    nullable = nullable and self._nullable[item]
            elif isinstance(node, Choice):
                for item in node.items:
                    nullable = nullable or self._nullable[item]
                    first |= self._first[item]
                    inner |= self._inner[item]
            elif isinstance(node, Loop):
                nullable = node.low == 0 or self._nullable[node.item]
                first = self._first[node.item]
                inner = self._inner[node.item] | (0 if node.high == 1 else first)
            self._nullable[node] = nullable
            self._first[node] = first
            self._inner[node] = inner

    def _followers(self) -> list[int]:
        """For each place the places that may come next, as bits."""
        empty: set[Node] = set()
        begin: dict[Node, int] = dict.fromkeys(self._grammar, 0)
        changed = True
        while changed:
            changed = False
            self._budget.spend(len(self._places) * self._width)
            # Called symbols were found after their callers.
            for symbol, productions in reversed(self._grammar.items()):
                mask, nullable = begin[symbol], symbol in empty
                for production in productions:
                    for item in production:
                        mask |= 1 << item if isinstance(item, int) else begin[item]
                        if not self._may_be_empty(item, empty):
                            break
                    else:
                        nullable = True
                if mask != begin[symbol] or nullable != (symbol in empty):
                    begin[symbol] = mask
                    if nullable:
                        empty.add(symbol)
                    changed = True
        self._begin = begin[self._plan.pool.reference(self._plan.root)]
        after: dict[Node, int] = dict.fromkeys(self._grammar, 0)
        result = [0] * len(self._places)
        changed = True
        while changed:
            changed = False
            self._budget.spend(len(self._places) * self._width)
            for symbol, productions in self._grammar.items():
                for production in productions:
                    following = after[symbol]
                    for item in reversed(production):
                        if isinstance(item, int):
                            result[item] |= following
                            first = 1 << item
                        else:
                            if following & ~after[item]:
                                after[item] |= following
                                changed = True
                            first = begin[item]
                        nullable = self._may_be_empty(item, empty)
                        following = first | following if nullable else first
        return result

    def _may_be_empty(self, item: Node | int, empty: set[Node]) -> bool:
        if isinstance(item, int):
            node = self._places[item].node
            return not isinstance(node, Token) and self._nullable[node]
        return item in empty

    # Conflicts

    def resolve(self) -> bool:
        """Change the plan where the condition fails; whether there was anything to change."""
        conflicts = self._conflicts(exactly=False)
        if not conflicts:
            return False
        conflicts = self._conflicts(exactly=True)
        fixes = sum(self._fix(ending, going) for ending, going in conflicts)
        if conflicts and not fixes:
            raise OutOfBudgetError  # not known to happen
        return fixes > 0

    def _conflicts(self, exactly: bool) -> list[tuple[int, int]]:
        """Places that meet in a row where the first may end and the second may go on instead."""
        firsts = [self._first.get(place.node, 0) for place in self._places]
        by_letter: dict[int, int] = {}
        for place, letters in enumerate(firsts):
            for letter in bits(letters):
                by_letter[letter] = by_letter.get(letter, 0) | 1 << place
        similar: dict[int, int] = {}
        for letters in firsts:
            if letters not in similar:
                similar[letters] = 0
                for letter in bits(letters):
                    similar[letters] |= by_letter[letter]
        meets = [0] * len(self._places)
        seen: set[tuple[int, int]] = set()
        todo = [(self._begin, self._begin)]
        while todo:
            left, right = todo.pop()
            if (left, right) in seen:
                continue
            seen.add((left, right))
            for place in bits(left):
                fresh = right & ~meets[place] & similar[firsts[place]]
                if not fresh:
                    continue
                meets[place] |= fresh
                self._budget.spend(fresh.bit_count() * self._width)
                for other in bits(fresh):
                    meets[other] |= 1 << place
                    if not exactly or place == other or self._share(place, other):
                        todo.append((self._next[place], self._next[other]))
        conflicts: list[tuple[int, int]] = []
        leads = self._alphabet.leads
        for ending, others in enumerate(meets):
            following = 0
            for place in bits(self._next[ending]):
                following |= firsts[place]
            follow = leads(following)
            if not follow:
                continue
            self._budget.spend(others.bit_count() * self._width)
            for going in bits(others):
                if leads(self._inner.get(self._places[going].node, 0)) & follow and (
                    not exactly or self._overruns(ending, going, follow)
                ):
                    conflicts.append((ending, going))
        return conflicts

    def _comparison(self, left: Node, right: Node) -> Comparison:
        """Raises :class:`TooLargeError` for nodes that are too large to tell."""
        found = self._compared.get((left, right))
        if found is None:
            found = compare(self._automaton(left), self._automaton(right), self._budget)
            self._compared[left, right] = found
            self._compared[right, left] = Comparison(found.shared, found.overrun[::-1])
        return found

    def _automaton(self, node: Node) -> Automaton:
        found = self._automata.get(node)
        if found is None:
            measure = self._plan.measure(node)
            if measure is None or measure.positions > POSITIONS:
                raise TooLargeError
            self._budget.spend(measure.positions)
            found = self._automata[node] = Automaton(node, self._plan.bodies, self._alphabet)
        return found

    def _share(self, left: int, right: int) -> bool:
        """Whether the terminals at two places may have a text in common."""
        try:
            return self._comparison(self._places[left].node, self._places[right].node).shared
        except TooLargeError:
            return True

    def _overruns(self, ending: int, going: int, follow: int) -> bool:
        try:
            found = self._comparison(self._places[ending].node, self._places[going].node)
        except TooLargeError:
            return True
        leads = self._alphabet.leads
        return any(leads(letters) & follow for letters in found.overrun[0].values())

    # Remedies

    def _fix(self, ending: int, going: int) -> int:
        """Rid the plan of one conflict; the number of changes made."""
        place = self._places[ending]
        if place.series is not None and self._joins(place.series, place.index):
            if place.series in self._plan.merged:
                return 0
            self._plan.merged.add(place.series)
            return 1
        following = 0
        for other in bits(self._next[ending]):
            following |= self._first.get(self._places[other].node, 0)
        follow = self._alphabet.leads(following)
        node = self._places[going].node
        first = place.node
        if isinstance(first, Chars) and self._next[ending] >> ending & 1:
            # Where characters follow each other one by one, all cuts are made at once.
            first = self._plan.pool.loop(first, 1, None)
        try:
            found = self._comparison(first, node)
        except TooLargeError:
            return self._open(node)
        automaton = self._automaton(node)
        leads = self._alphabet.leads
        changes = 0
        for state, letters in found.overrun[0].items():
            if not leads(letters) & follow:
                continue
            for position in bits(automaton.states[state]):
                for target in bits(automaton.follow[position]):
                    if leads(automaton.letters[target]) & follow:
                        changes += self._cut(node, position, target)
        return changes

    def _joins(self, series: Series, index: int) -> bool:
        """Whether the item at ``index`` and the one after it can be one terminal."""
        plan = self._plan
        return index + 1 < len(series.items) and plan.measure(series.items[index + 1]) is not None

    def _open(self, root: Node) -> int:
        """Take ``root`` apart, down to parts that an automaton can be made of."""
        changes = 0
        todo = [root]
        seen: set[Node] = set()
        while todo:
            node = todo.pop()
            seen.add(node)
            measure = self._plan.measure(node)
            if node is root or (measure is not None and measure.positions > POSITIONS):
                changes += self._add_cuts(node, None)
                todo += [child for child in self._children(node) if child not in seen]
        return changes

    def _cut(self, node: Node, position: int, target: int) -> int:
        """Part ``node`` between two positions that may follow each other in it."""
        self._budget.spend(10)
        changes = 0
        while not isinstance(node, Chars):
            if isinstance(node, Text):
                return changes + self._add_cuts(node, {target})
            if isinstance(node, Reference):
                changes += self._add_cuts(node, None)
                node = self._plan.bodies[node.rule]
                continue
            if isinstance(node, Loop):
                size = self._positions(node.item)
                changes += self._add_cuts(node, None)
                if position // size != target // size:
                    return changes
                position, target = position % size, target % size
                node = node.item
                inner = self._automaton_of_part(node)
                if inner is not None and not inner.follow[position] >> target & 1:
                    return changes
                continue
            begin = 0
            items = children(node)
            index = 0
            while position >= begin + self._positions(items[index]):
                begin += self._positions(items[index])
                index += 1
            if isinstance(node, Series) and target >= begin + self._positions(items[index]):
                return changes + self._add_cuts(node, {index + 1})
            if isinstance(node, Choice):
                changes += self._add_cuts(node, None)
                if isinstance(items[index], Text):
                    return changes  # texts are put together anew: the next round looks at them
            else:
                changes += self._add_cuts(node, {index, index + 1} - {0, len(items)})
            node = items[index]
            position, target = position - begin, target - begin
        return changes

    def _add_cuts(self, node: Node, cuts: set[int] | None) -> int:
        opened = self._plan.opened
        known = opened.get(node)
        if node in opened and (known is None or (cuts is not None and cuts <= known)):
            return 0
        opened[node] = None if cuts is None else (known or set()) | cuts
        return 1

    def _automaton_of_part(self, node: Node) -> Automaton | None:
        try:
            return self._automaton(node)
        except TooLargeError:
            return None

    def _positions(self, node: Node) -> int:
        """The number of positions of ``node``, a part of a terminal, in an automaton."""
        measure = self._plan.measure(node)
        assert measure is not None
        return measure.positions
