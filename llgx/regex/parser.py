"""What the parsers of both dialects share: positions, groups, alternatives and counted repeats.

Groups live on an explicit stack, so the depth of nesting is bounded by ``Limits.nesting`` and not
by the stack of Python. Each character is looked at a bounded number of times.
"""

from __future__ import annotations

import dataclasses
from typing import Final, NoReturn

from llgx.errors import GrammarError, LimitError
from llgx.limits import Limits
from llgx.regex import nodes
from llgx.regex.nodes import Node

__all__ = ["Frame", "PatternParser"]

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")


@dataclasses.dataclass(slots=True)
class Frame:
    """A group that is open: where, and what stands in it so far.

    ``look`` is (ahead, negative) for a look-around; ``flags`` is what the dialect restores when the
    group ends. ``repeatable`` says whether a quantifier may follow the last item. ``height`` and
    ``last_height`` count the groups and quantifiers on top of each other, of all items and of the
    last: they bound the height of the tree.
    """

    opened: int
    look: tuple[bool, bool] | None = None
    flags: int = 0
    branches: list[Node] = dataclasses.field(default_factory=list)
    items: list[Node] = dataclasses.field(default_factory=list)
    repeatable: bool = False
    height: int = 0
    last_height: int = 0


class PatternParser:
    """A cursor over ``pattern`` and the stack of open groups.

    ``text`` and ``offset`` say where the pattern stands in a larger text that errors point into.
    """

    def __init__(self, pattern: str, text: str | None, offset: int, limits: Limits) -> None:
        self.pattern = pattern
        self.position = 0
        self.limits = limits
        self.text = pattern if text is None else text
        self.offset = offset
        self.frames = [Frame(0)]

    # Positions

    def fail(self, message: str, at: int) -> NoReturn:
        """Raise ``GrammarError`` for the character at index ``at`` of the pattern."""
        raise GrammarError(message, text=self.text, offset=self.offset + at)

    def peek(self, ahead: int = 0) -> str:
        """The character ``ahead`` of the cursor, or ``""`` past the end."""
        index = self.position + ahead
        return self.pattern[index] if index < len(self.pattern) else ""

    def take(self, wanted: str) -> bool:
        """Whether ``wanted`` comes next; if so, go past it."""
        if self.pattern.startswith(wanted, self.position):
            self.position += len(wanted)
            return True
        return False

    # Groups

    def add(self, node: Node, repeatable: bool = True, height: int = 0) -> None:
        """Append ``node`` to the innermost group."""
        frame = self.frames[-1]
        frame.items.append(node)
        frame.repeatable = repeatable
        frame.last_height = height
        frame.height = max(frame.height, height)

    def open(self, frame: Frame) -> None:
        """Enter a group."""
        if len(self.frames) > self.limits.nesting:
            raise LimitError("groups nested too deeply in a regex", limit="nesting")
        self.frames.append(frame)

    def next_branch(self) -> None:
        """Begin the next alternative of the innermost group."""
        frame = self.frames[-1]
        frame.branches.append(nodes.seq(frame.items))
        frame.items = []
        frame.repeatable = False

    def close(self, at: int) -> Frame:
        """Leave the innermost group, which becomes an item of the one around it."""
        if len(self.frames) == 1:
            self.fail("unmatched ')'", at)
        frame = self.frames.pop()
        node = self._whole(frame)
        if frame.look is not None:
            node = nodes.look(node, *frame.look, frame.opened)
        self.add(node, frame.look is None, frame.height + 1)
        return frame

    def finish(self) -> Node:
        """The tree of the whole pattern, once its end is reached."""
        frame = self.frames.pop()
        if self.frames:
            self.fail("this group is not closed", frame.opened)
        return self._whole(frame)

    def _whole(self, frame: Frame) -> Node:
        last = nodes.seq(frame.items)
        return nodes.alt([*frame.branches, last]) if frame.branches else last

    # Quantifiers

    def apply(self, low: int, high: int | None, at: int, again: bool = False) -> None:
        """Repeat the last item; ``at`` is where the quantifier stands.

        ``again`` says whether another one may follow.
        """
        frame = self.frames[-1]
        if not frame.repeatable:
            self.fail("nothing to repeat here", at)
        if frame.last_height >= self.limits.nesting:
            raise LimitError("quantifiers nested too deeply in a regex", limit="nesting")
        frame.last_height += 1
        frame.height = max(frame.height, frame.last_height)
        frame.repeatable = again
        frame.items[-1] = nodes.loop(frame.items[-1], low, high)

    def bound(self, digits: str) -> int:
        """The value of a bound of a counted repeat."""
        plain = digits.lstrip("0")
        cap = self.limits.repeat
        # Compare lengths first: Python refuses to convert very long numbers.
        if len(plain) > len(str(cap)) or int(plain or "0") > cap:
            raise LimitError(f"a counted repeat of more than {cap}", limit="repeat")
        return int(plain or "0")

    def check_bounds(self, low: int, high: int | None, at: int) -> None:
        """Fail where a counted repeat has its bounds the wrong way round."""
        if high is not None and low > high:
            self.fail(f"the repeat {{{low},{high}}} has its bounds the wrong way round", at)

    def digits(self) -> str:
        """The decimal digits at the cursor, which goes past them."""
        begin = self.position
        while self.peek() in _DIGITS:
            self.position += 1
        return self.pattern[begin : self.position]

    # Escapes

    def hex_digits(self, count: int) -> int | None:
        """The value of exactly ``count`` hexadecimal digits, or None and no movement."""
        digits = self.pattern[self.position : self.position + count]
        if len(digits) < count or not _HEX.issuperset(digits):
            return None
        self.position += count
        return int(digits, 16)

    def braced_hex(self, at: int) -> int:
        """The code point in ``{..}`` at the cursor; the escape began at ``at``."""
        end = self.pattern.find("}", self.position)
        if end < 0:
            self.fail("this escape is not closed", at)
        digits = self.pattern[self.position + 1 : end]
        if not digits or not _HEX.issuperset(digits):
            self.fail("an escape with braces takes hexadecimal digits", at)
        plain = digits.lstrip("0")
        if len(plain) > 6 or int(plain or "0", 16) > 0x10FFFF:
            self.fail("not a code point: the largest is 10FFFF", at)
        self.position = end + 1
        return int(plain or "0", 16)
