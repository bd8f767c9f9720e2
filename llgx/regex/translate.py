"""Syntax trees with assertions to regexes, exactly.

A pattern is translated from its end to its start, in continuation-passing style. ``rest`` is the
language of everything that may follow a node up to the end of the text, and the result is the
language of what may follow the position before the node. A look-ahead for ``s`` intersects the
result with ``s`` followed by any text, a negative one with the complement of that. This is how
alternating automata read look-ahead (Miyazaki and Minamide, *Derivatives of Regular Expressions
with Lookahead*, JIP 2019).

What an assertion asks about the character *before* it is answered by case: all code points are
partitioned into the blocks that the assertions of the pattern tell apart, and there is one ``rest``
for each block and one for the start of the text. A node that consumes text is split by the block of
its last character, which for sets and loops of sets needs no intersection.

A loop without bound around assertions, and look-behind at more than one character, are beyond this;
they go to :mod:`llgx.regex.automaton`.

Cost: linear in the pattern, times the number of blocks, and times the copies that alternatives
around assertions make. :data:`_STEPS` bounds those and :data:`_SIZE` the tree that comes out.
"""

from __future__ import annotations

from typing import Final

from llgx import ir
from llgx.errors import GrammarError
from llgx.regex import automaton, charset, nodes
from llgx.regex.build import alternate, complement, concat, intersect, open_end, repeat
from llgx.regex.charset import CharSet
from llgx.regex.nodes import Alt, Assertion, Chars, Look, Loop, Node, Seq, Side
from llgx.regex.utf8 import ANY_TEXT, set_regex

__all__ = ["translate"]

# Deepest tree of nodes around an assertion: the translation recurses there, and only there.
_DEPTH: Final = 100
# A loop around assertions is written out up to this bound.
_UNROLL: Final = 8
# Most visits of nodes beyond one of each, before the automaton is tried.
_STEPS: Final = 4_000
# Largest tree beyond what the pattern itself holds, shared parts counted each time.
_SIZE: Final = 20_000
# A pattern of so few nodes around assertions cannot grow beyond reason; its tree is not measured.
_FEW: Final = 16

_NOTHING: Final = Side(charset.NONE, False)

# One regex for the start of the text, then one for each block. Equal ones are one object.
_Rest = tuple[ir.Regex, ...]


class _TooHardError(Exception):
    """The pattern needs an automaton; ``offset`` says where."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


def translate(node: Node, text: str, offset: int) -> ir.Regex:
    """The regex for texts that ``node`` matches from start to end.

    ``text`` and ``offset`` locate assertions in errors. Raises ``GrammarError`` for an assertion
    that would take an automaton of too many states or lies too deep.
    """
    if node.regex is not None:
        return node.regex
    found = nodes.assertions(node)
    if node.depth > _DEPTH:
        raise GrammarError(
            "groups around this assertion are nested too deeply",
            text=text,
            offset=offset + found[0].offset,
        )
    befores = [
        side.members for item in found if isinstance(item, Assertion) for side, _ in item.cases
    ]
    try:
        return _Translator(node, charset.minterms(befores)).run()
    except _TooHardError as error:
        try:
            return automaton.to_regex(node)
        except automaton.TooManyStatesError:
            raise GrammarError(
                "this assertion would need an automaton of too many states",
                text=text,
                offset=offset + error.offset,
            ) from None


class _Translator:
    """The translation of one pattern; ``blocks`` partition the code points."""

    def __init__(self, node: Node, blocks: list[CharSet]) -> None:
        self._node = node
        self._blocks = blocks
        size = nodes.size(node)
        self._steps = size + _STEPS
        self._measures = size > _FEW
        # Sizes by identity, next to the object itself, which keeps the identity its own.
        self._sizes: dict[int, tuple[ir.Regex, int]] = {}
        self._size_cap = _SIZE

    def run(self) -> ir.Regex:
        if self._measures:
            self._size_cap += self._plain_size()
        return self._before(self._node, (ir.EPSILON,) * (len(self._blocks) + 1))[0]

    def _plain_size(self) -> int:
        """The size of all parts without assertions, each once."""
        total = 0
        stack = [self._node]
        while stack:
            item = stack.pop()
            if item.regex is not None:
                total += self._size(item.regex)
            elif isinstance(item, Look):
                stack.append(item.body)
            elif isinstance(item, Loop):
                stack.append(item.item)
            elif isinstance(item, (Seq, Alt)):
                stack.extend(item.items)
        return total

    def _size(self, regex: ir.Regex) -> int:
        """The number of nodes of the tree; linear in the part not seen before."""
        sizes = self._sizes
        stack = [regex]
        while stack:
            item = stack[-1]
            if id(item) in sizes:
                stack.pop()
                continue
            parts = ir.parts_of(item)
            missing = [part for part in parts if id(part) not in sizes]
            if missing:
                stack.extend(missing)
            else:
                sizes[id(item)] = (item, 1 + sum(sizes[id(part)][1] for part in parts))
                stack.pop()
        return sizes[id(regex)][1]

    def _before(self, node: Node, rest: _Rest) -> _Rest:
        """What may follow the position before ``node`` if ``rest`` may follow the one after."""
        self._steps -= 1
        if node.regex is not None:
            return self._text_before(node, rest)
        if isinstance(node, Seq):
            for item in reversed(node.items):
                rest = self._before(item, rest)
            return rest
        if isinstance(node, Alt):
            result = self._alt_before(node, rest)
        elif isinstance(node, Loop):
            result = self._loop_before(node, rest)
        elif isinstance(node, Look):
            result = self._look_before(node, rest)
        else:
            assert isinstance(node, Assertion)
            result = self._assertion_before(node, rest)
        if self._steps < 0 or (
            self._measures and any(self._size(item) > self._size_cap for item in result)
        ):
            raise _TooHardError(nodes.assertions(node)[0].offset)
        return result

    def _merge(self, *options: _Rest) -> _Rest:
        """The union per context, computed once for contexts that agree."""
        made: dict[tuple[int, ...], ir.Regex] = {}
        result = []
        for column in zip(*options, strict=True):
            key = tuple(map(id, column))
            if key not in made:
                made[key] = column[0] if len(set(key)) == 1 else alternate(column)
            result.append(made[key])
        return tuple(result)

    def _alt_before(self, node: Alt, rest: _Rest) -> _Rest:
        plain = [item for item in node.items if item.regex is not None]
        options = [self._before(item, rest) for item in node.items if item.regex is None]
        if plain:
            options.append(self._before(nodes.alt(plain), rest))
        return self._merge(*options)

    def _loop_before(self, node: Loop, rest: _Rest) -> _Rest:
        body = node.item
        if _zero_width(body):
            # Rounds after the first change nothing.
            once = self._before(body, rest)
            return once if node.low else self._merge(once, rest)
        if node.high is None or node.high > _UNROLL:
            raise _TooHardError(nodes.assertions(body)[0].offset)
        after = rest
        for _ in range(node.high - node.low):
            rest = self._merge(self._before(body, rest), after)
        for _ in range(node.low):
            rest = self._before(body, rest)
        return rest

    def _assertion_before(self, node: Assertion, rest: _Rest) -> _Rest:
        made: dict[tuple[Side, int], ir.Regex] = {}
        result = []
        for index, after in enumerate(rest):
            side = Side(charset.NONE, False)
            for left, right in node.cases:
                if self._holds(left, index):
                    members = charset.union(side.members, right.members)
                    side = Side(members, side.edge or right.edge)
            key = (side, id(after))
            if key not in made:
                made[key] = _restrict(after, side)
            result.append(made[key])
        return tuple(result)

    def _holds(self, side: Side, index: int) -> bool:
        if not index:
            return side.edge
        return charset.contains(side.members, self._blocks[index - 1][0][0])

    def _look_before(self, node: Look, rest: _Rest) -> _Rest:
        if not node.ahead:
            raise _TooHardError(node.offset)
        ahead = self._before(node.body, (ANY_TEXT,) * len(rest))
        made: dict[tuple[int, int], ir.Regex] = {}
        result = []
        for seen, after in zip(ahead, rest, strict=True):
            key = (id(seen), id(after))
            if key not in made:
                # What follows is text, so that after the end of the look-ahead anything is.
                seen = complement(open_end(seen, ANY_TEXT)) if node.negative else seen
                made[key] = _both(seen, after)
            result.append(made[key])
        return tuple(result)

    def _text_before(self, node: Node, rest: _Rest) -> _Rest:
        regex = node.regex
        assert regex is not None
        if all(after is rest[1] for after in rest):
            return (concat((regex, rest[1])),) * len(rest)
        last = nodes.last_chars(node)
        groups: dict[int, list[CharSet]] = {}
        for block, after in zip(self._blocks, rest[1:], strict=True):
            if last is None or charset.intersect(last, block):
                groups.setdefault(id(after), []).append(block)
        by_id = {id(after): after for after in rest}
        options = []
        for key, parts in groups.items():
            some = _nonempty(node) if len(groups) == 1 else _ending(node, charset.union(*parts))
            options.append(concat((some, by_id[key])))
        consumed = options[0] if len(options) == 1 else alternate(options)
        if not node.nullable:
            return (consumed,) * len(rest)
        return self._merge((consumed,) * len(rest), rest)


def _zero_width(node: Node) -> bool:
    """Whether ``node`` can match the empty string only."""
    if isinstance(node, (Assertion, Look)):
        return True
    if isinstance(node, (Seq, Alt)):
        return all(_zero_width(item) for item in node.items)
    return isinstance(node, Loop) and _zero_width(node.item)


def _both(left: ir.Regex, right: ir.Regex) -> ir.Regex:
    """Texts in both; ``right`` holds valid UTF-8 only."""
    if left == ANY_TEXT:
        return right
    if right == ANY_TEXT and not isinstance(left, (ir.Complement, ir.Intersection)):
        return left
    return intersect((right, left))


def _restrict(rest: ir.Regex, side: Side) -> ir.Regex:
    """The texts of ``rest`` that begin the way ``side`` allows."""
    if side == nodes.ANY_SIDE:
        return rest
    if side == _NOTHING:
        return ir.EMPTY
    if isinstance(rest, ir.Alternation) and len(rest.items) <= _UNROLL:
        return alternate([_restrict(item, side) for item in rest.items])
    head = rest.items[0] if isinstance(rest, ir.Concat) else rest
    if isinstance(head, ir.Literal):
        if not head.data:
            return rest if side.edge else ir.EMPTY
        if not side.members:
            return ir.EMPTY
        point = ord(head.data.decode()[0])
        return rest if charset.contains(side.members, point) else ir.EMPTY
    if isinstance(head, ir.ByteSet):
        narrowed = _narrow(head, side.members)
        if narrowed is not None:
            tail = rest.items[1:] if isinstance(rest, ir.Concat) else ()
            return concat((narrowed, *tail))
    options: list[ir.Regex] = [ir.EPSILON] if side.edge else []
    if side.members:
        options.append(concat((set_regex(side.members), ANY_TEXT)))
    return _both(alternate(options), rest)


def _narrow(head: ir.ByteSet, members: CharSet) -> ir.Regex | None:
    """The ASCII characters of ``head`` that are in ``members``; None for a set of lead bytes."""
    if head.mask >> 0x80:
        return None
    mask = 0
    for low, high in charset.intersect(members, ((0, 0x7F),)):
        mask |= (1 << high + 1) - (1 << low)
    return alternate([ir.ByteSet(head.mask & mask)])


def _nonempty(node: Node) -> ir.Regex:
    """The texts of ``node`` but the empty one."""
    assert node.regex is not None
    if not node.nullable:
        return node.regex
    if isinstance(node, Loop) and not node.item.nullable and node.item.regex is not None:
        return repeat(node.item.regex, 1, node.high)
    return intersect((node.regex, ir.Repeat(ir.ANY_BYTE, 1, None)))


def _ending(node: Node, block: CharSet, depth: int = 0) -> ir.Regex:
    """The texts of ``node`` whose last character is in ``block``."""
    assert node.regex is not None
    if isinstance(node, Chars):
        return set_regex(charset.intersect(node.members, block))
    if isinstance(node, Loop) and isinstance(node.item, Chars) and node.item.regex is not None:
        high = None if node.high is None else node.high - 1
        head = repeat(node.item.regex, max(node.low - 1, 0), high)
        return concat((head, _ending(node.item, block)))
    if isinstance(node, Alt) and depth < _DEPTH:
        return alternate([_ending(item, block, depth + 1) for item in node.items])
    if isinstance(node, Seq) and depth < _DEPTH:
        if not node.items:
            return ir.EMPTY
        if not node.items[-1].nullable:
            head = concat([item.regex for item in node.items[:-1] if item.regex is not None])
            return concat((head, _ending(node.items[-1], block, depth + 1)))
    return intersect((node.regex, concat((ANY_TEXT, set_regex(block)))))
