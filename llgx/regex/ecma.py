"""The regex dialect of JSON Schema: ECMA-262 with the flag ``u``, as a search.

Grammar and meaning are those of ECMA-262, §22.2, in Unicode mode without the flags ``i``, ``m`` and
``s``: code points, not UTF-16 units; ``\\d``, ``\\w`` and ``\\b`` are ASCII; ``.`` excludes four
line terminators. The regex that comes out matches every text that contains a match. Look-ahead and
look-behind are exact (:mod:`llgx.regex.translate`); a lazy quantifier changes nothing about whether
there is a match.

Real schemas hold patterns that are errors in Unicode mode. Those whose meaning is the same in every
engine are accepted, as Annex B of the standard has them: a backslash before punctuation or any
other character that is no ASCII letter or digit, a lone ``{``, ``}`` or ``]``, and a ``-`` next to
a set in a class (``[\\w-.]``). All else is a ``GrammarError`` with its position, among it what
engines disagree about: escapes of other letters (``\\a``, ``\\Z``), ``{,3}``, and ``(?i)``.
Back-references are not regular, so they are errors too.
"""

from __future__ import annotations

from typing import Final

from llgx import ir
from llgx.errors import suggestion
from llgx.limits import DEFAULT_LIMITS, Limits
from llgx.regex import charset, nodes, tables
from llgx.regex.charset import CharSet
from llgx.regex.nodes import Node
from llgx.regex.parser import Frame, PatternParser
from llgx.regex.translate import translate

__all__ = ["parse_ecma"]

_SPACE: Final = charset.make(
    [
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)
_DOT: Final = charset.negate(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))
_CLASSES: Final = {"d": tables.ASCII_DIGIT, "w": tables.ASCII_WORD, "s": _SPACE}
_CONTROL: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_LOOKS: Final = {
    "?=": (True, False),
    "?!": (True, True),
    "?<=": (False, False),
    "?<!": (False, True),
}
_SPECIAL: Final = frozenset("()|*+?^$\\{.[")
_ANYTHING: Final = nodes.loop(nodes.chars(charset.ALL), 0, None)


def parse_ecma(
    pattern: str,
    *,
    text: str | None = None,
    offset: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> ir.Regex:
    """The regex for every text that contains a match of ``pattern``.

    Errors point into ``text`` (by default the pattern), where the pattern begins at ``offset``.
    Raises ``GrammarError`` for what is malformed or not supported and ``LimitError`` for too deep
    nesting or too large repeats. Linear in the pattern, look-around in loops aside.

    >>> from llgx import ir
    >>> parse_ecma("^ab?$") == ir.Concat((ir.Literal(b"a"), ir.Repeat(ir.Literal(b"b"), 0, 1)))
    True
    """
    parser = _EcmaParser(pattern, text, offset, limits)
    node = nodes.seq([_ANYTHING, parser.parse(), _ANYTHING])
    return translate(node, parser.text, offset)


class _EcmaParser(PatternParser):
    """One pass from left to right; groups are on the stack of the base class."""

    def __init__(self, pattern: str, text: str | None, offset: int, limits: Limits) -> None:
        super().__init__(pattern, text, offset, limits)
        self._names: set[str] = set()
        self._literals: dict[int, Node] = {}

    def parse(self) -> Node:
        """The tree of the whole pattern."""
        pattern = self.pattern
        while self.position < len(pattern):
            at = self.position
            char = pattern[at]
            self.position += 1
            if char not in _SPECIAL:
                self.add(self._literal(ord(char)))
            elif char == "(":
                self._open_group(at)
            elif char == ")":
                self.close(at)
            elif char == "|":
                self.next_branch()
            elif char in "*+?":
                self.take("?")
                self.apply(int(char == "+"), 1 if char == "?" else None, at)
            elif char == "^":
                self.add(nodes.at_start(at), repeatable=False)
            elif char == "$":
                self.add(nodes.at_end(at), repeatable=False)
            elif char == "\\" and self.peek() and self.peek() in "bB":
                inside = self.peek() == "B"
                self.position += 1
                self.add(nodes.at_boundary(tables.ASCII_WORD, at, inside), repeatable=False)
            elif char == "{" and self._counted(at):
                pass
            else:
                self.add(self._atom(char, at))
        return self.finish()

    def _open_group(self, at: int) -> None:
        for mark, look in _LOOKS.items():
            if self.take(mark):
                self.open(Frame(at, look=look))
                return
        if self.take("?<"):
            self._group_name()
        elif self.peek() == "?" and not self.take("?:"):
            self.fail(
                f"unknown group (?{self.peek(1)}..): ECMA-262 has (?:..), (?<name>..), (?=..), "
                "(?!..), (?<=..) and (?<!..)",
                at,
            )
        self.open(Frame(at))

    def _group_name(self) -> None:
        begin = self.position
        end = self.pattern.find(">", begin)
        if end < 0:
            self.fail("this group name is not closed", begin)
        name = self.pattern[begin:end]
        if not name.replace("$", "_").isidentifier():
            self.fail(f"{name!r} is not a group name", begin)
        if name in self._names:
            self.fail(f"the group name {name!r} is taken", begin)
        self._names.add(name)
        self.position = end + 1

    def _counted(self, at: int) -> bool:
        """Read a counted repeat after its ``{``; False and no movement if it is a plain brace."""
        saved = self.position
        low_digits = self.digits()
        comma = self.take(",")
        high_digits = self.digits() if comma else ""
        if not self.take("}") or not (low_digits or high_digits):
            self.position = saved
            return False
        if not low_digits:
            self.fail(f"{{,{high_digits}}} means different things to engines: write {{0,n}}", at)
        low = self.bound(low_digits)
        high: int | None = low
        if comma:
            high = self.bound(high_digits) if high_digits else None
        self.check_bounds(low, high, at)
        self.take("?")
        self.apply(low, high, at)
        return True

    def _atom(self, char: str, at: int) -> Node:
        if char == ".":
            return nodes.chars(_DOT)
        if char == "[":
            return nodes.chars(self._bracket(at))
        found: int | CharSet = self._escape(at, False) if char == "\\" else ord(char)
        if not isinstance(found, int):
            return nodes.chars(found)
        return self._literal(found)

    def _literal(self, point: int) -> Node:
        node = self._literals.get(point)
        if node is None:
            node = self._literals[point] = nodes.chars(((point, point),))
        return node

    # Escapes

    def _escape(self, at: int, in_class: bool) -> int | CharSet:
        """The code point or the set of an escape whose backslash is at ``at``."""
        char = self.peek()
        if not char:
            self.fail("a backslash at the end", at)
        self.position += 1
        if char.lower() in _CLASSES:
            members = _CLASSES[char.lower()]
            return charset.negate(members) if char.isupper() else members
        if char in _CONTROL:
            return _CONTROL[char]
        if char in "pP":
            return self._property(char == "P", at)
        if char == "u":
            return self._unicode_escape(at)
        if char == "x":
            value = self.hex_digits(2)
            if value is None:
                self.fail("\\x takes two hexadecimal digits", at)
            return value
        if char == "c":
            letter = self.peek()
            if not (letter.isascii() and letter.isalpha()):
                self.fail("\\c takes a letter", at)
            self.position += 1
            return ord(letter) % 32
        if char == "0" and not (self.peek().isascii() and self.peek().isdigit()):
            return 0
        if char == "b" and in_class:
            return 8
        if char == "k" or (char.isascii() and char.isdigit()):
            self.fail("back-references and octal escapes are not supported", at)
        if char.isascii() and char.isalpha():
            self.fail(f"unknown escape \\{char}", at)
        return ord(char)

    def _unicode_escape(self, at: int) -> int:
        if self.peek() == "{":
            return self.braced_hex(at)
        value = self.hex_digits(4)
        if value is None:
            self.fail("\\u takes four hexadecimal digits, or some in braces", at)
        if 0xD800 <= value <= 0xDBFF and self.pattern.startswith("\\u", self.position):
            saved = self.position
            self.position += 2
            low = self.hex_digits(4)
            if low is not None and 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00)
            self.position = saved
        return value

    def _property(self, negated: bool, at: int) -> CharSet:
        end = self.pattern.find("}", self.position)
        if self.peek() != "{" or end < 0:
            self.fail("a property takes a name in braces", at)
        name = self.pattern[self.position + 1 : end]
        self.position = end + 1
        key, equals, value = name.partition("=")
        members = tables.ecma_property(key, value if equals else None)
        if members is None:
            hint = suggestion(name.rpartition("=")[2], tables.property_names())
            self.fail(f"unknown Unicode property {name!r}{hint}", at)
        return charset.negate(members) if negated else members

    # Classes

    def _bracket(self, at: int) -> CharSet:
        """The set of the class whose ``[`` is at ``at``, just before the cursor."""
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if not self.peek():
                self.fail("this character class is not closed", at)
            begin = self.position
            low = self._class_item()
            if self.peek() != "-" or self.peek(1) in ("]", ""):
                ranges.extend(((low, low),) if isinstance(low, int) else low)
                continue
            self.position += 1
            high = self._class_item()
            if not (isinstance(low, int) and isinstance(high, int)):
                # Annex B: next to a set the dash is a member.
                for part in (low, 0x2D, high):
                    ranges.extend(((part, part),) if isinstance(part, int) else part)
                continue
            if low > high:
                self.fail("the range has its ends the wrong way round", begin)
            ranges.append((low, high))
        members = charset.make(ranges)
        return charset.negate(members) if negated else members

    def _class_item(self) -> int | CharSet:
        at = self.position
        char = self.peek()
        self.position += 1
        return self._escape(at, True) if char == "\\" else ord(char)
