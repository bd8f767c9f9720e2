"""Turns rules that only repeat something into repetitions.

Older GBNF has no ``*``: lists are written ``ws ::= ([ \\t] ws)?`` or ``items ::= item "," items |
item``. A rule that mentions itself at the end of its alternatives alone satisfies ``X = A X | B``,
whose least solution is ``A* B`` (Arden, *Delayed-logic and finite-state machines*, 1961), and in
the same way ``X = X A | B`` is ``B A*``, whatever ``A`` and ``B`` are. Rules that mention one
another in this way and nothing that is not regular are such a system of equations, solved by
elimination. The language stays the same; what was recursive can become a terminal, and what cannot
takes one parser row for the whole list instead of one an element.

Linear in the grammar, apart from systems, whose solutions are bounded in size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from llgx.gbnf.nodes import Choice, Loop, Node, Pool, Reference, Series, Token, postorder

__all__ = ["components", "references", "unroll"]

_SYSTEM_RULES: Final = 12
_SYSTEM_NODES: Final = 2_000

# ``A`` by rule, and ``B``, of an expression that is ``A X | A' X' | ... | B``.
_Linear = tuple[dict[int, Node], Node]


class _NotLinearError(Exception):
    """A rule of the system stands at a place where the method does not apply."""


def references(body: Node) -> set[int]:
    """The rules that ``body`` mentions."""
    return {node.rule for node in postorder([body]) if isinstance(node, Reference)}


def components(edges: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected components, each after those that it leads to (Tarjan, 1972)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    waiting: list[int] = []
    is_waiting: set[int] = set()
    result: list[list[int]] = []
    for root in edges:
        if root in order:
            continue
        path = [(root, iter(edges[root]))]
        order[root] = low[root] = len(order)
        waiting.append(root)
        is_waiting.add(root)
        while path:
            node, rest = path[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    waiting.append(target)
                    is_waiting.add(target)
                    path.append((target, iter(edges[target])))
                    break
                if target in is_waiting:
                    low[node] = min(low[node], order[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    component = []
                    while True:
                        member = waiting.pop()
                        is_waiting.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    result.append(component[::-1])
    return result


def unroll(pool: Pool, bodies: dict[int, Node]) -> None:
    """Replace, in ``bodies``, recursion that only repeats something."""
    edges = {rule: references(body) for rule, body in bodies.items()}
    regular: set[int] = set()
    for component in components(edges):
        members = set(component)
        outside = set().union(*(edges[rule] for rule in component)) - members
        is_regular = outside <= regular and not any(
            isinstance(node, Token) for rule in component for node in postorder([bodies[rule]])
        )
        if len(component) > 1 or component[0] in edges[component[0]]:
            solved = is_regular and _solve_system(pool, bodies, component)
            for rule in () if solved else component:
                _solve_rule(pool, bodies, rule)
            is_regular = solved or (
                is_regular
                and len(component) == 1
                and component[0] not in references(bodies[component[0]])
            )
        if is_regular:
            regular |= members


def _solve_rule(pool: Pool, bodies: dict[int, Node], rule: int) -> None:
    """Rid one rule of mentions of itself, if they are all at one end."""
    for at_end in (True, False):
        try:
            step, rest = _linear(pool, bodies[rule], {rule}, at_end)
        except _NotLinearError:
            continue
        if rule in step:
            bodies[rule] = _repeated(pool, step[rule], rest, at_end)
        return


def _repeated(pool: Pool, step: Node, rest: Node, at_end: bool) -> Node:
    """``step* rest``, or in the order of the text the other way round."""
    if step is rest:
        return pool.loop(step, 1, None)
    around = pool.loop(step, 0, None)
    return pool.series((around, rest) if at_end else (rest, around))


def _solve_system(pool: Pool, bodies: dict[int, Node], rules: Sequence[int]) -> bool:
    """Rid ``rules`` of mentions of each other; False, and nothing done, where that is not easy."""
    if len(rules) > _SYSTEM_RULES:
        return False
    for at_end in (True, False):
        try:
            system = [_linear(pool, bodies[rule], set(rules), at_end) for rule in rules]
        except _NotLinearError:
            continue
        solution = _eliminate(pool, rules, system, at_end)
        if sum(_size(body) for body in solution) > _SYSTEM_NODES:
            return False
        bodies.update(zip(rules, solution, strict=True))
        return True
    return False


def _eliminate(pool: Pool, rules: Sequence[int], system: list[_Linear], at_end: bool) -> list[Node]:
    """Bodies in which each rule mentions only rules before it."""

    def joined(first: Node, then: Node) -> Node:
        return pool.series((first, then) if at_end else (then, first))

    for k in reversed(range(len(rules))):
        steps, rest = system[k]
        own = steps.pop(rules[k], None)
        if own is not None:
            around = pool.loop(own, 0, None)
            steps = {rule: joined(around, step) for rule, step in steps.items()}
            rest = _repeated(pool, own, rest, at_end)
        system[k] = steps, rest
        for i in range(k):
            others, base = system[i]
            factor = others.pop(rules[k], None)
            if factor is not None:
                for rule, step in steps.items():
                    path = joined(factor, step)
                    others[rule] = pool.choice((others[rule], path)) if rule in others else path
                system[i] = others, pool.choice((base, joined(factor, rest)))
    return [
        pool.choice([*(joined(step, pool.reference(rule)) for rule, step in steps.items()), rest])
        for steps, rest in system
    ]


def _size(body: Node) -> int:
    """Leaves of ``body`` as a tree."""
    sizes: dict[Node, int] = {}
    for node in postorder([body]):
        if isinstance(node, (Series, Choice)):
            sizes[node] = sum(sizes[item] for item in node.items)
        else:
            sizes[node] = sizes[node.item] if isinstance(node, Loop) else 1
    return sizes[body]


def _linear(pool: Pool, body: Node, rules: set[int], at_end: bool) -> _Linear:
    """``body`` as a linear expression in ``rules``, each at the end (or the start) of its term."""
    found: dict[Node, _Linear] = {}
    for node in postorder([body]):
        if isinstance(node, Reference) and node.rule in rules:
            found[node] = {node.rule: pool.epsilon}, pool.nothing
        elif isinstance(node, Series):
            found[node] = _linear_series(pool, node, found, at_end)
        elif isinstance(node, Choice):
            found[node] = _union(pool, node, [found[item] for item in node.items])
        elif isinstance(node, Loop) and found[node.item][0]:
            if (node.low, node.high) != (0, 1):
                raise _NotLinearError
            steps, rest = found[node.item]
            found[node] = steps, pool.choice((rest, pool.epsilon))
        else:
            found[node] = {}, node
    steps, rest = found[body]
    return dict(steps), rest


def _linear_series(pool: Pool, node: Series, found: dict[Node, _Linear], at_end: bool) -> _Linear:
    places = [i for i, item in enumerate(node.items) if found[item][0]]
    if not places:
        return {}, node
    last = len(node.items) - 1
    if places != [last if at_end else 0]:
        raise _NotLinearError
    others = node.items[:-1] if at_end else node.items[1:]

    def beside(part: Node) -> Node:
        return pool.series((*others, part) if at_end else (part, *others))

    steps, rest = found[node.items[places[0]]]
    return {rule: beside(step) for rule, step in steps.items()}, beside(rest)


def _union(pool: Pool, node: Choice, parts: Iterable[_Linear]) -> _Linear:
    together: dict[int, list[Node]] = {}
    rests: list[Node] = []
    for steps, rest in parts:
        for rule, step in steps.items():
            together.setdefault(rule, []).append(step)
        rests.append(rest)
    if not together:
        return {}, node
    return (
        {rule: pool.choice(steps) for rule, steps in together.items()},
        pool.choice(rest for rest in rests if rest is not pool.nothing),
    )
