"""GBNF that llama.cpp takes in and then never comes back from.

llama.cpp follows a grammar by a set of stacks, each of which ends at a character, and makes them by
writing out what may come first. It refuses rules that begin with themselves, but for one that does
so behind something that may be empty it looks at empty alternatives only: where ``a`` is empty
because ``b`` is, in ``root ::= a root "x"``, the stacks grow without end. And it looks for such
rules, and makes the stacks, once for each way to get to a rule: where each of 40 rules begins with
the next one in two alternatives, that is 2^40 times.

Invariant: a grammar that is refused here is one that llama.cpp refuses or does not get through.
Cost: linear in the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from llgx.gbnf.nodes import Choice, Loop, Node, Reference, Series, children, postorder
from llgx.gbnf.parser import Source

__all__ = ["endless_rule", "ways_to_begin"]

_MANY: Final = 10**18


def endless_rule(source: Source, *, always: bool = False) -> int | None:
    """A rule that ``root`` needs and that begins with itself, something coming after; or None.

    ``always`` also where nothing comes after, or what is repeated may be empty: early versions of
    llama.cpp, which keep no account of the stacks that they have seen, do not come back from those.
    """
    graph = _Beginnings(source)
    needed = graph.needed()
    if always:
        for rule in sorted(needed):
            if any(map(graph.repeats_nothing, postorder([source.rules[rule].body]))):
                return rule
    for component in graph.components():
        members = set(component)
        if not any(
            (grows or always) and after in members
            for node in component
            for after, grows in graph.after(node, graph.may_be_empty)
        ):
            continue
        rules = [node.rule for node in component if isinstance(node, Reference)]
        if any(rule in needed for rule in rules):
            return min(rules)
    return None


def ways_to_begin(source: Source) -> int:
    """In how many ways the rule with the most of them begins, as far as llama.cpp tries them out.

    Rules that begin with themselves are left out of account.
    """
    graph = _Beginnings(source)
    ways: dict[Node, int] = {}
    for component in graph.components():  # what a node begins with comes before it
        for node in component:
            count = 1 if isinstance(node, Reference) else 0
            for after, _ in graph.after(node, graph.is_empty_at_sight):
                count += ways.get(after, 0)
            ways[node] = min(count, _MANY)
    return max(ways.values(), default=0)


class _Beginnings:
    """What may come first in each expression of a grammar."""

    def __init__(self, source: Source) -> None:
        self._rules = source.rules
        self._root = source.root
        pool = source.pool
        self._nodes = postorder(
            [rule.body for rule in source.rules]
            + [pool.reference(index) for index in range(len(source.rules))]
        )
        self._empty = self._find_empty()

    def _find_empty(self) -> set[Node]:
        """The nodes that may be the empty text."""
        users: dict[Node, list[Node]] = {}
        for node in self._nodes:
            for part in self._parts(node):
                users.setdefault(part, []).append(node)
        empty: set[Node] = set()
        todo = list(self._nodes)
        while todo:
            node = todo.pop()
            if node not in empty and self._is_empty(node, empty):
                empty.add(node)
                todo += users.get(node, ())
        return empty

    def _parts(self, node: Node) -> Sequence[Node]:
        return (self._rules[node.rule].body,) if isinstance(node, Reference) else children(node)

    def _is_empty(self, node: Node, empty: set[Node]) -> bool:
        if isinstance(node, Series):
            return all(item in empty for item in node.items)
        if isinstance(node, Loop) and node.low == 0:
            return True
        return any(part in empty for part in self._parts(node))

    def may_be_empty(self, node: Node) -> bool:
        """Whether ``node`` may be the empty text."""
        return node in self._empty

    def repeats_nothing(self, node: Node) -> bool:
        """Whether ``node`` repeats what may be the empty text, without an end."""
        return isinstance(node, Loop) and node.high is None and node.item in self._empty

    def is_empty_at_sight(self, node: Node) -> bool:
        """Whether llama.cpp knows that ``node`` may be the empty text: by an alternative that is
        nothing."""
        if isinstance(node, Reference):
            node = self._rules[node.rule].body
            if isinstance(node, Loop):
                return False
        if isinstance(node, Choice):
            return any(isinstance(item, Series) and not item.items for item in node.items)
        if isinstance(node, Series):
            return not node.items
        return isinstance(node, Loop) and node.low == 0

    def after(self, node: Node, is_empty: Callable[[Node], bool]) -> Iterator[tuple[Node, bool]]:
        """What ``node`` begins with, and whether something of ``node`` comes after that."""
        if isinstance(node, Series):
            last = len(node.items) - 1
            for place, item in enumerate(node.items):
                yield item, place < last
                if not is_empty(item):
                    return
        elif isinstance(node, Loop):
            yield node.item, node.high != 1
        else:
            for part in self._parts(node):
                yield part, False

    def needed(self) -> set[int]:
        """The rules that ``root`` needs, itself included."""
        seen: set[int] = set()
        todo = [self._root]
        while todo:
            rule = todo.pop()
            if rule not in seen:
                seen.add(rule)
                todo += [
                    node.rule
                    for node in postorder([self._rules[rule].body])
                    if isinstance(node, Reference)
                ]
        return seen

    def components(self) -> list[list[Node]]:
        """The nodes that begin with each other, together; each after what it begins with.

        Tarjan's algorithm on a stack of its own.
        """
        found: list[list[Node]] = []
        number: dict[Node, int] = {}
        lowest: dict[Node, int] = {}
        path: list[Node] = []
        on_path: set[Node] = set()
        for root in self._nodes:
            if root in number:
                continue
            stack: list[tuple[Node, Iterator[tuple[Node, bool]]]] = []
            self._enter(root, number, lowest, path, on_path, stack)
            while stack:
                node, rest = stack[-1]
                for after, _ in rest:
                    if after not in number:
                        self._enter(after, number, lowest, path, on_path, stack)
                        break
                    if after in on_path:
                        lowest[node] = min(lowest[node], number[after])
                else:
                    stack.pop()
                    if stack:
                        before = stack[-1][0]
                        lowest[before] = min(lowest[before], lowest[node])
                    if lowest[node] == number[node]:
                        component = [path.pop()]
                        while component[-1] is not node:
                            component.append(path.pop())
                        on_path.difference_update(component)
                        found.append(component)
        return found

    def _enter(
        self,
        node: Node,
        number: dict[Node, int],
        lowest: dict[Node, int],
        path: list[Node],
        on_path: set[Node],
        stack: list[tuple[Node, Iterator[tuple[Node, bool]]]],
    ) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        on_path.add(node)
        stack.append((node, self.after(node, self.may_be_empty)))
