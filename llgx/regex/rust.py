"""The regex dialect of Lark grammars: that of Rust's ``regex`` crate, matched as a whole.

Syntax and meaning follow the documentation of regex-syntax 0.8 (Unicode level 1 of UTS #18: classes
with set operations, properties, simple case folding). The departures, each a ``GrammarError`` with
its position, never a silent change of meaning:

- Lazy quantifiers and the flag ``U``. A regex that must match as a whole has no use for them; a
  lexeme that ends at its first match is a matter of the rule (``[lazy]``, ``suffix=``). Where the
  match that a lazy quantifier prefers is the shortest one, :func:`parse_rust_lexeme` says so.
- ``\\b`` and ``\\B`` where they could stand at the edge of the lexeme: what lies beyond is not
known.
- The group ``(?P<stop>..)``, a hidden look-ahead of llguidance: that is the attribute ``stop=``.
- Bytes that are not UTF-8 (``(?-u)``), unless the caller allows them.
- Properties that split text (``Grapheme_Cluster_Break`` and so on) and ``Age``.

All other anchors are exact: ``^`` holds at the start of the lexeme and nowhere else.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from llgx import ir
from llgx.errors import LimitError, suggestion
from llgx.limits import DEFAULT_LIMITS, Limits
from llgx.regex import charset, nodes, tables
from llgx.regex.charset import CharSet
from llgx.regex.nodes import Alt, Assertion, Bytes, Chars, Loop, Node, Seq, Side
from llgx.regex.parser import Frame, PatternParser
from llgx.regex.translate import translate

__all__ = ["parse_rust", "parse_rust_lexeme"]

# Flags, as bits of Frame.flags.
_CASE: Final = 1
_MULTI_LINE: Final = 2
_DOT_ALL: Final = 4
_EXTENDED: Final = 8
_UNICODE: Final = 16
_CRLF: Final = 32
_FLAGS: Final = {
    "i": _CASE,
    "m": _MULTI_LINE,
    "s": _DOT_ALL,
    "x": _EXTENDED,
    "u": _UNICODE,
    "R": _CRLF,
}
_LAZY_MESSAGE: Final = (
    "laziness is not a matter of a regex, which matches as a whole here; "
    "give the rule the attribute [lazy] or suffix="
)

_LAZY_PLACES: Final = (
    "a lazy quantifier stands over a single character, between parts of fixed length"
)

_LINE_FEED: Final[CharSet] = ((0x0A, 0x0A),)
_LINE_END: Final[CharSet] = ((0x0A, 0x0A), (0x0D, 0x0D))
_CONTROL: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_HEX_LENGTH: Final = {"x": 2, "u": 4, "U": 8}
_SPACE: Final = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_SPECIAL: Final = frozenset("()|*+?{.[\\^$")
_BOUNDARY_NAMES: Final = ("start-half", "end-half", "start", "end")


def parse_rust(
    pattern: str,
    *,
    flags: str = "",
    text: str | None = None,
    offset: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    invalid_utf8: bool = False,
) -> ir.Regex:
    """The regex for what ``pattern`` matches from start to end.

    ``flags`` apply as in ``(?flags)pattern``, so "-u" may be among them. Errors point into ``text``
    (by default the pattern), where the pattern begins at ``offset``. Bytes that are not UTF-8 can
    be matched with ``invalid_utf8`` only. Raises ``GrammarError`` for what is malformed or not
    supported and ``LimitError`` for too deep nesting or too large repeats. Linear in the pattern.

    >>> from llgx import ir
    >>> parse_rust("ab{2}") == ir.Concat((ir.Literal(b"a"), ir.Repeat(ir.Literal(b"b"), 2, 2)))
    True
    """
    parser = _RustParser(pattern, text, offset, limits, invalid_utf8)
    parser.flags = parser.read_flag_letters(flags)
    node = parser.parse()
    return translate(node, parser.text, offset)


def parse_rust_lexeme(
    pattern: str,
    *,
    flags: str = "",
    text: str | None = None,
    offset: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    invalid_utf8: bool = False,
) -> tuple[ir.Regex, bool]:
    """As :func:`parse_rust`, and whether the match ends as early as it can.

    It does if a lazy quantifier stands in the pattern, over single characters, between parts of
    fixed length: the match that backtracking finds first is then the shortest. Lazy quantifiers
    elsewhere are errors.

    >>> parse_rust_lexeme("/.*?/")[1], parse_rust_lexeme("/[^/]*/")[1]
    (True, False)
    """
    parser = _RustParser(pattern, text, offset, limits, invalid_utf8)
    parser.flags = parser.read_flag_letters(flags)
    node = parser.parse(lazy=True)
    return translate(node, parser.text, offset), parser.is_lazy


@dataclasses.dataclass(slots=True)
class _ClassFrame:
    """A bracketed class that is open.

    ``done`` and ``operator`` are the left operand of a set operation that waits for its right one,
    which is what ``ranges`` gather.
    """

    opened: int
    negated: bool
    ranges: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    done: CharSet = ()
    operator: str = ""


class _RustParser(PatternParser):
    """Recursive in nothing: groups and classes have stacks of their own."""

    def __init__(
        self, pattern: str, text: str | None, offset: int, limits: Limits, invalid_utf8: bool
    ) -> None:
        super().__init__(pattern, text, offset, limits)
        self.flags = _UNICODE
        self._invalid_utf8 = invalid_utf8
        self._names: set[str] = set()
        self._boundaries: list[Assertion] = []
        self._literals: dict[tuple[str, bool, bool], Node] = {}
        self._has_bytes = False
        self._allow_lazy = False
        # Lazy loops by identity, next to the loop, which keeps the identity its own, and its place.
        self._lazy: dict[int, tuple[Node, int]] = {}

    @property
    def is_lazy(self) -> bool:
        """Whether a lazy quantifier was read."""
        return bool(self._lazy)

    def parse(self, *, lazy: bool = False) -> Node:
        """The tree of the whole pattern; ``lazy`` quantifiers may make it a shortest match."""
        self._allow_lazy = lazy
        pattern = self.pattern
        while True:
            if self.flags & _EXTENDED:
                self._skip_space()
            at = self.position
            if at >= len(pattern):
                break
            char = pattern[at]
            self.position += 1
            if char not in _SPECIAL:
                self.add(self._literal(char, at))
            elif char == "(":
                self._open_group(at)
            elif char == ")":
                self.flags = self.close(at).flags
            elif char == "|":
                self.next_branch()
            elif char in "*+?":
                self._quantify(int(char == "+"), 1 if char == "?" else None, at)
            elif char == "{":
                self._counted(at)
            else:
                self.add(self._atom(char, at))
        node = self.finish()
        if self._lazy:
            self._check_laziness(node)
        self._check_edges(node)
        return node

    def _atom(self, char: str, at: int) -> Node:
        if char == ".":
            return self._dot(at)
        if char == "[":
            return self._set(self._bracket(at), at)
        if char == "\\":
            return self._escape_node(at)
        if char == "^":
            return self._line_edge(at, start=True)
        assert char == "$"
        return self._line_edge(at, start=False)

    def _skip_space(self) -> None:
        """Go past white space and comments of the extended syntax."""
        pattern = self.pattern
        while self.position < len(pattern):
            char = pattern[self.position]
            if char == "#":
                end = pattern.find("\n", self.position)
                self.position = len(pattern) if end < 0 else end + 1
            elif char in _SPACE:
                self.position += 1
            else:
                break

    def _skip_if_extended(self) -> None:
        if self.flags & _EXTENDED:
            self._skip_space()

    # Groups and flags

    def _open_group(self, at: int) -> None:
        self._skip_if_extended()
        frame = Frame(at, flags=self.flags)
        for look in ("?=", "?!", "?<=", "?<!"):
            if self.pattern.startswith(look, self.position):
                self.fail(
                    f"look-around ({look}..) is not part of this dialect; "
                    "a rule can end with suffix=, terminals can use & and ~",
                    at,
                )
        if self.take("?P<") or self.take("?<"):
            self._group_name()
        elif self.take("?"):
            begin = self.position
            while self.peek() not in (":", ")", ""):
                self.position += 1
            letters = self.pattern[begin : self.position]
            end = self.peek()
            if not end:
                self.fail("this group is not closed", at)
            self.position += 1
            if end == ")" and not letters:
                self.fail("nothing to repeat here", begin - 1)
            self.flags = self.read_flag_letters(letters, begin)
            if end == ")":
                # A directive for the rest of the group around it.
                self.frames[-1].repeatable = False
                return
        self.open(frame)

    def _group_name(self) -> None:
        begin = self.position
        end = self.pattern.find(">", begin)
        if end < 0:
            self.fail("this group name is not closed", begin)
        name = self.pattern[begin:end]
        if not name:
            self.fail("this group name is empty", begin)
        for index, char in enumerate(name):
            if not (char == "_" or char.isalpha() or (index and (char.isalnum() or char in ".[]"))):
                self.fail(f"a group name cannot hold {char!r} here", begin + index)
        if name in self._names:
            self.fail(f"the group name {name!r} is taken", begin)
        if name == "stop":
            self.fail(
                "a group named 'stop' is not supported; give the rule the attribute stop=", begin
            )
        self._names.add(name)
        self.position = end + 1

    def read_flag_letters(self, letters: str, begin: int = 0) -> int:
        """The flags after the directive ``letters``, which stands at ``begin`` of the pattern."""
        flags = self.flags
        seen: set[str] = set()
        for index, letter in enumerate(letters):
            at = begin + index
            if letter in seen:
                self.fail(f"the flag {letter!r} is repeated", at)
            seen.add(letter)
            if letter == "-":
                if index + 1 == len(letters):
                    self.fail("no flag follows this '-'", at)
            elif letter == "U":
                if "-" not in seen:
                    self.fail(f"the flag 'U' is not supported: {_LAZY_MESSAGE}", at)
            elif letter not in _FLAGS:
                self.fail(f"unknown flag {letter!r}", at)
            elif "-" in seen:
                flags &= ~_FLAGS[letter]
            else:
                flags |= _FLAGS[letter]
        return flags

    # Quantifiers

    def _quantify(self, low: int, high: int | None, at: int) -> None:
        self._skip_if_extended()
        lazy = self.position if self.peek() == "?" else -1
        if lazy >= 0 and not self._allow_lazy:
            self.fail(f"lazy quantifiers are not supported here: {_LAZY_MESSAGE}", lazy)
        self.apply(low, high, at, again=lazy < 0)
        if lazy >= 0:
            self.position += 1
            node = self.frames[-1].items[-1]
            self._lazy[id(node)] = (node, lazy)

    def _check_laziness(self, node: Node) -> None:
        """Fail where a lazy quantifier might prefer another match than the shortest."""
        at = next(iter(self._lazy.values()))[1]
        if node.nullable:
            self.fail(f"with this lazy quantifier nothing is matched at all: {_LAZY_MESSAGE}", at)
        stack = [node]
        while stack:
            item = stack.pop()
            if isinstance(item, Seq):
                stack += item.items
            elif id(item) in self._lazy:
                if not isinstance(item, Loop) or not isinstance(item.item, Chars):
                    self.fail(f"{_LAZY_PLACES}: {_LAZY_MESSAGE}", self._lazy[id(item)][1])
            elif _fixed_length(item) is None:
                self.fail(f"{_LAZY_PLACES}: {_LAZY_MESSAGE}", at)

    def _counted(self, at: int) -> None:
        if not self.frames[-1].repeatable:
            self.fail("nothing to repeat here", at)
        low = high = self._count(at)
        if self.peek() == ",":
            self.position += 1
            self._skip_blanks()
            high = None if self.peek() == "}" else self._count(at)
        if self.peek() != "}":
            self.fail("this counted repeat is not closed", at)
        self.position += 1
        assert low is not None
        self.check_bounds(low, high, at)
        self._quantify(low, high, at)

    def _count(self, at: int) -> int | None:
        self._skip_blanks()
        begin = self.position
        digits = self.digits()
        if not digits:
            if not self.peek():
                self.fail("this counted repeat is not closed", at)
            self.fail("a counted repeat takes a number here", begin)
        self._skip_blanks()
        return self.bound(digits)

    def _skip_blanks(self) -> None:
        while self.peek() and self.peek() in _SPACE:
            self.position += 1

    # Characters

    def _literal(self, char: str, at: int) -> Node:
        fold, unicode = bool(self.flags & _CASE), bool(self.flags & _UNICODE)
        key = (char, fold, unicode)
        node = self._literals.get(key)
        if node is None:
            point = ord(char)
            node = self._point(point, at)
            self._literals[key] = node
        return node

    def _point(self, point: int, at: int) -> Node:
        if 0xD800 <= point <= 0xDFFF:
            self.fail("a surrogate is not a character", at)
        return nodes.chars(self._fold(((point, point),)))

    def _fold(self, members: CharSet) -> CharSet:
        if not self.flags & _CASE:
            return members
        return tables.fold(members) if self.flags & _UNICODE else tables.fold_ascii(members)

    def _set(self, members: CharSet, at: int) -> Node:
        """The node for a finished set: of code points, or in byte mode of bytes."""
        if self.flags & _UNICODE or not members or members[-1][1] <= 0x7F:
            return nodes.chars(members)
        if not self._invalid_utf8:
            self.fail("this can match bytes that are not UTF-8", at)
        self._has_bytes = True
        mask = 0
        for low, high in members:
            mask |= (1 << high + 1) - (1 << low)
        return nodes.raw_bytes(mask)

    def _universe(self) -> int:
        return charset.MAX_CODE_POINT if self.flags & _UNICODE else 0xFF

    def _dot(self, at: int) -> Node:
        excluded: CharSet = charset.NONE
        if not self.flags & _DOT_ALL:
            excluded = _LINE_END if self.flags & _CRLF else _LINE_FEED
        return self._set(charset.negate(excluded, self._universe()), at)

    # Assertions

    def _line_edge(self, at: int, start: bool) -> Node:
        if not self.flags & _MULTI_LINE:
            return nodes.at_start(at) if start else nodes.at_end(at)
        if self.flags & _CRLF:
            self.fail("anchors with the flags 'm' and 'R' together are not supported", at)
        side = Side(_LINE_FEED, True)
        pair = (side, nodes.ANY_SIDE) if start else (nodes.ANY_SIDE, side)
        return Assertion((pair,), at)

    def _boundary(self, kind: str, at: int) -> Node:
        word = Side(tables.word() if self.flags & _UNICODE else tables.ASCII_WORD, False)
        other = word.negate()
        if kind in ("b", "B"):
            node = nodes.at_boundary(word.members, at, inside=kind == "B")
        else:
            pairs = {
                "start": (other, word),
                "end": (word, other),
                "start-half": (other, nodes.ANY_SIDE),
                "end-half": (nodes.ANY_SIDE, other),
            }
            node = Assertion((pairs[kind],), at)
        self._boundaries.append(node)
        return node

    def _check_edges(self, node: Node) -> None:
        """Fail where a word boundary depends on what surrounds the lexeme."""
        if self._has_bytes:
            self._check_bytes(node)
        if not self._boundaries:
            return
        boundaries = {id(item) for item in self._boundaries}
        for order in (1, -1):
            stack = [node]
            while stack:
                item = stack.pop()
                if id(item) in boundaries:
                    assert isinstance(item, Assertion)
                    self.fail(
                        "a word boundary at the edge of a lexeme is not supported: "
                        "what comes before or after it is not part of the regex",
                        item.offset,
                    )
                if isinstance(item, Alt):
                    stack.extend(item.items)
                elif isinstance(item, Loop):
                    stack.append(item.item)
                elif isinstance(item, Seq):
                    for part in item.items[::order]:
                        if part.depth:
                            stack.append(part)
                        if not part.nullable:
                            break

    def _check_bytes(self, node: Node) -> None:
        """Fail where an assertion asks for a character next to bytes that need not be text."""
        for item in nodes.assertions(node):
            assert isinstance(item, Assertion)
            sides = [side.members for case in item.cases for side in case]
            if any(members not in (charset.NONE, charset.ALL) for members in sides):
                self.fail(
                    "a word boundary or a line anchor together with bytes that are not text "
                    "is not supported",
                    item.offset,
                )

    # Escapes

    def _escape_node(self, at: int) -> Node:
        char = self.peek()
        if char and char in "AzbB<>":
            self.position += 1
            if char == "A":
                return nodes.at_start(at)
            if char == "z":
                return nodes.at_end(at)
            if char == "<":
                return self._boundary("start", at)
            if char == ">":
                return self._boundary("end", at)
            if char == "b":
                for name in _BOUNDARY_NAMES:
                    if self.take("{" + name + "}"):
                        return self._boundary(name, at)
            return self._boundary(char, at)
        found = self._escape(at)
        if not isinstance(found, int):
            return self._set(found, at)
        if (
            not self.flags & _UNICODE
            and char == "x"
            and 0x80 <= found <= 0xFF
            and (self.pattern[at + 2] != "{")
        ):
            return self._set(((found, found),), at)
        return self._point(found, at)

    def _escape(self, at: int) -> int | CharSet:
        """The code point or the set of an escape whose backslash is at ``at``."""
        char = self.peek()
        if not char:
            self.fail("a backslash at the end", at)
        self.position += 1
        if char.isascii() and char.isdigit():
            self.fail("back-references and octal escapes are not supported", at)
        if char in _HEX_LENGTH:
            return self._hex(char, at)
        if char in "pP":
            return self._property(char == "P", at)
        if char in "dswDSW":
            return self._perl(char)
        if char in _CONTROL:
            return _CONTROL[char]
        if not char.isascii() or char.isalpha() or char in "<>":
            self.fail(f"unknown escape \\{char}", at)
        return ord(char)

    def _hex(self, kind: str, at: int) -> int:
        self._skip_if_extended()
        if self.peek() == "{":
            point = self.braced_hex(at)
        else:
            length = _HEX_LENGTH[kind]
            value = self.hex_digits(length)
            if value is None:
                self.fail(f"\\{kind} takes {length} hexadecimal digits, or some in braces", at)
            point = value
        if point > charset.MAX_CODE_POINT or 0xD800 <= point <= 0xDFFF:
            self.fail(f"{point:X} is not the number of a character", at)
        return point

    def _perl(self, char: str) -> CharSet:
        kind = char.lower()
        if self.flags & _UNICODE:
            members = {"d": tables.digit, "s": tables.space, "w": tables.word}[kind]()
        else:
            members = {
                "d": tables.ASCII_DIGIT,
                "s": tables.ASCII_SPACE,
                "w": tables.ASCII_WORD,
            }[kind]
        return members if char == kind else charset.negate(members, self._universe())

    def _property(self, negated: bool, at: int) -> CharSet:
        if not self.flags & _UNICODE:
            self.fail("properties need Unicode mode", at)
        self._skip_if_extended()
        if self.take("{"):
            end = self.pattern.find("}", self.position)
            if end < 0:
                self.fail("this property is not closed", at)
            name = self.pattern[self.position : end]
            self.position = end + 1
        else:
            name = self.peek()
            if not name:
                self.fail("a property name is missing", at)
            self.position += 1
        members = None
        for operator in ("!=", ":", "="):
            if operator in name:
                key, _, value = name.partition(operator)
                members = tables.loose_property(key, value)
                negated ^= operator == "!="
                break
        else:
            members = tables.loose_property(name)
        if not members or members == ((0xD800, 0xDFFF),):
            hint = suggestion(name.rpartition("=")[2], tables.property_names())
            self.fail(f"unknown Unicode property {name!r}{hint}", at)
        members = self._fold(members)
        return charset.negate(members) if negated else members

    # Classes

    def _bracket(self, at: int) -> CharSet:
        """The set of the class whose ``[`` is at ``at``, just before the cursor."""
        stack = [self._open_class(at)]
        while True:
            self._skip_if_extended()
            char = self.peek()
            if not char:
                self.fail("this character class is not closed", stack[-1].opened)
            frame = stack[-1]
            here = self.position
            if char == "[":
                members = self._posix_class()
                if members is not None:
                    frame.ranges.extend(members)
                    continue
                if len(stack) >= self.limits.nesting:
                    raise LimitError("classes nested too deeply in a regex", limit="nesting")
                self.position += 1
                stack.append(self._open_class(here))
            elif char == "]":
                self.position += 1
                members = self._close_class(stack.pop())
                if not stack:
                    return members
                stack[-1].ranges.extend(members)
            elif char in "&-~" and self.peek(1) == char:
                self.position += 2
                frame.done = self._operate(frame)
                frame.operator = char
                frame.ranges = []
            else:
                frame.ranges.extend(self._class_range())

    def _open_class(self, at: int) -> _ClassFrame:
        self._skip_if_extended()
        frame = _ClassFrame(at, self.take("^"))
        self._skip_if_extended()
        while self.peek() == "-":
            self.position += 1
            frame.ranges.append((0x2D, 0x2D))
            self._skip_if_extended()
        if not frame.ranges and self.peek() == "]":
            self.position += 1
            frame.ranges.append((0x5D, 0x5D))
        return frame

    def _operate(self, frame: _ClassFrame) -> CharSet:
        members = charset.make(frame.ranges)
        if frame.operator == "&":
            return charset.intersect(frame.done, members)
        if frame.operator == "-":
            return charset.difference(frame.done, members)
        if frame.operator == "~":
            return charset.symmetric_difference(frame.done, members)
        return members

    def _close_class(self, frame: _ClassFrame) -> CharSet:
        members = self._operate(frame)
        return charset.negate(members, self._universe()) if frame.negated else members

    def _posix_class(self) -> CharSet | None:
        """The set of ``[:name:]`` at the cursor; None and no movement for anything else."""
        if not self.pattern.startswith("[:", self.position):
            return None
        end = self.pattern.find(":]", self.position + 2, self.position + 16)
        if end < 0:
            return None
        name = self.pattern[self.position + 2 : end]
        members = tables.ASCII_CLASSES.get(name.removeprefix("^"))
        if members is None:
            return None
        self.position = end + 2
        members = self._fold(members)
        return charset.negate(members, self._universe()) if name[0] == "^" else members

    def _class_range(self) -> CharSet:
        """A member or a range of members of a class."""
        begin = self.position
        low = self._class_item()
        self._skip_if_extended()
        if self.peek() != "-" or self._after_dash() in ("]", "-"):
            return self._fold(((low, low),)) if isinstance(low, int) else low
        self.position += 1
        self._skip_if_extended()
        if not self.peek():
            self.fail("this range is not finished", begin)
        second = self.position
        high = self._class_item()
        if not isinstance(low, int):
            self.fail("a range cannot begin with a set", begin)
        if not isinstance(high, int):
            self.fail("a range cannot end with a set", second)
        if low > high:
            self.fail("the range has its ends the wrong way round", begin)
        return self._fold(((low, high),))

    def _after_dash(self) -> str:
        """The character after the ``-`` at the cursor, white space aside in the extended syntax."""
        saved = self.position
        self.position += 1
        self._skip_if_extended()
        char = self.peek()
        self.position = saved
        return char

    def _class_item(self) -> int | CharSet:
        at = self.position
        char = self.peek()
        self.position += 1
        if char == "\\":
            if self.peek() and self.peek() in "AzbB<>":
                self.fail(f"\\{self.peek()} is not a member of a character class", at)
            point = self._escape(at)
            plain_byte = self.pattern[at + 1] == "x" and self.pattern[at + 2 : at + 3] != "{"
        else:
            point = ord(char)
            plain_byte = False
        if isinstance(point, int):
            if 0xD800 <= point <= 0xDFFF:
                self.fail("a surrogate is not a character", at)
            if point > 0x7F and not self.flags & _UNICODE and not plain_byte:
                self.fail("characters beyond ASCII in a class need Unicode mode", at)
        return point


def _fixed_length(node: Node) -> int | None:
    """The number of characters of all matches of ``node``; None if it varies or is not clear."""
    # Each node after its parts, as deep as patterns nest.
    lengths: dict[int, int | None] = {}
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        item, ready = stack.pop()
        parts: tuple[Node, ...] = ()
        if isinstance(item, (Seq, Alt)):
            parts = item.items
        elif isinstance(item, Loop):
            parts = (item.item,)
        if not ready:
            stack.append((item, True))
            stack += [(part, False) for part in parts]
            continue
        known = [lengths[id(part)] for part in parts]
        length: int | None = None
        if isinstance(item, (Chars, Bytes)):
            length = 1
        elif isinstance(item, Loop):
            length = None if known[0] is None or item.low != item.high else known[0] * item.low
        elif isinstance(item, Seq):
            length = 0
            for part in known:
                length = None if length is None or part is None else length + part
        elif isinstance(item, Alt) and len(set(known)) == 1:
            length = known[0]
        lengths[id(item)] = length
    return lengths[id(node)]
