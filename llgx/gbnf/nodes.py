"""Expressions of GBNF, hash-consed.

A node of a :class:`Pool` is made once for each content, so equal expressions are the same object
and whatever is found out about one is kept in dictionaries by node. Series hold no series and no
two texts in a row, choices no choice and nothing twice. Each constructor is linear in its
arguments.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from llgx.ir import TokenSet
from llgx.regex.charset import CharSet

__all__ = [
    "Chars",
    "Choice",
    "Loop",
    "Node",
    "Pool",
    "Reference",
    "Series",
    "Text",
    "Token",
    "children",
    "postorder",
]


class Node:
    """An expression. Compared and hashed by identity."""

    __slots__ = ()


class Text(Node):
    """A string of at least one character, none of them a surrogate."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value


class Chars(Node):
    """One character of a set that is not empty."""

    __slots__ = ("members",)

    def __init__(self, members: CharSet) -> None:
        self.members = members


class Token(Node):
    """One token of the model."""

    __slots__ = ("tokens",)

    def __init__(self, tokens: TokenSet) -> None:
        self.tokens = tokens


class Series(Node):
    """One after the other; without items, the empty text."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Node, ...]) -> None:
        self.items = items


class Choice(Node):
    """Any of them; without items, nothing at all."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Node, ...]) -> None:
        self.items = items


class Loop(Node):
    """``low`` to ``high`` times ``item``; ``high`` is None for no bound."""

    __slots__ = ("high", "item", "low")

    def __init__(self, item: Node, low: int, high: int | None) -> None:
        self.item = item
        self.low = low
        self.high = high


class Reference(Node):
    """The rule at ``rule``."""

    __slots__ = ("rule",)

    def __init__(self, rule: int) -> None:
        self.rule = rule


def children(node: Node) -> Sequence[Node]:
    """The nodes right below ``node``; none for a reference."""
    if isinstance(node, (Series, Choice)):
        return node.items
    return (node.item,) if isinstance(node, Loop) else ()


def postorder(roots: Iterable[Node], known: Container[Node] = ()) -> list[Node]:
    """All nodes below ``roots``, each once and after what is below it, except ``known`` ones."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack = [(root, False) for root in roots]
    while stack:
        node, finished = stack.pop()
        if finished:
            order.append(node)
        elif node not in seen and node not in known:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in children(node) if child not in seen)
    return order


class Pool:
    """Makes nodes."""

    def __init__(self) -> None:
        self._texts: dict[str, Text] = {}
        self._chars: dict[CharSet, Chars] = {}
        self._tokens: dict[TokenSet, Token] = {}
        self._series: dict[tuple[Node, ...], Series] = {}
        self._choices: dict[tuple[Node, ...], Choice] = {}
        self._loops: dict[tuple[Node, int, int | None], Loop] = {}
        self._references: dict[int, Reference] = {}
        self.epsilon: Node = self._intern_series(())
        self.nothing: Node = self._intern_choice(())

    def text(self, value: str) -> Node:
        """These characters; lone surrogates, which no text holds, match nothing."""
        if not value:
            return self.epsilon
        if any("\ud800" <= char <= "\udfff" for char in value):
            return self.nothing
        found = self._texts.get(value)
        if found is None:
            found = self._texts[value] = Text(value)
        return found

    def chars(self, members: CharSet) -> Node:
        """One character of ``members``."""
        if not members:
            return self.nothing
        found = self._chars.get(members)
        if found is None:
            found = self._chars[members] = Chars(members)
        return found

    def token(self, tokens: TokenSet) -> Node:
        """One token of the model out of ``tokens``."""
        found = self._tokens.get(tokens)
        if found is None:
            found = self._tokens[tokens] = Token(tokens)
        return found

    def reference(self, rule: int) -> Node:
        """The rule at index ``rule``."""
        found = self._references.get(rule)
        if found is None:
            found = self._references[rule] = Reference(rule)
        return found

    def series(self, items: Iterable[Node]) -> Node:
        """``items`` one after the other."""
        flat: list[Node] = []
        texts: list[str] = []  # that stand side by side, joined once the last one is known
        for item in items:
            if item is self.nothing:
                return self.nothing
            for part in item.items if isinstance(item, Series) else (item,):
                if isinstance(part, Text):
                    texts.append(part.value)
                    continue
                if texts:
                    flat.append(self.text("".join(texts)))
                    texts.clear()
                flat.append(part)
        if texts:
            flat.append(self.text("".join(texts)))
        return flat[0] if len(flat) == 1 else self._intern_series(tuple(flat))

    def choice(self, items: Iterable[Node]) -> Node:
        """Any of ``items``."""
        flat: dict[Node, None] = {}
        for item in items:
            flat.update(dict.fromkeys(item.items if isinstance(item, Choice) else (item,)))
        return next(iter(flat)) if len(flat) == 1 else self._intern_choice(tuple(flat))

    def loop(self, item: Node, low: int, high: int | None) -> Node:
        """``low`` to ``high`` times ``item``."""
        if high == 0 or item is self.epsilon:
            return self.epsilon
        if item is self.nothing:
            return self.nothing if low else self.epsilon
        if low == high == 1:
            return item
        key = (item, low, high)
        found = self._loops.get(key)
        if found is None:
            found = self._loops[key] = Loop(item, low, high)
        return found

    def _intern_series(self, items: tuple[Node, ...]) -> Series:
        found = self._series.get(items)
        if found is None:
            found = self._series[items] = Series(items)
        return found

    def _intern_choice(self, items: tuple[Node, ...]) -> Choice:
        found = self._choices.get(items)
        if found is None:
            found = self._choices[items] = Choice(items)
        return found
