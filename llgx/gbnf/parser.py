"""Reads GBNF text.

The syntax is that of llama.cpp's grammar parser, and a text that it accepts means the same here:
the last definition of a rule counts, ``[]`` and ``""`` are the empty text, a range in reverse holds
nothing. Beyond it, names may hold ``_``, an alternative may begin on a line of its own with ``|``,
bounds of repetitions are kept however large they are, and two escapes that are a surrogate pair are
the character that they stand for.

Groups are on an explicit stack. Linear in the text.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import re
from collections.abc import Iterator
from typing import Final

from llgx.errors import GrammarError, LimitError, position_of, suggestion
from llgx.gbnf.nodes import Node, Pool
from llgx.ir import TokenSet
from llgx.limits import Limits
from llgx.regex import charset

__all__ = ["Rule", "Source", "parse"]

_BLANK: Final = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFINED: Final = re.compile(r"(?:[ \t]|#[^\r\n]*)*::=")
_COMMENT: Final = re.compile(r"#[ \t]?([^\r\n]*)")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_CLASS: Final = re.compile(r"\[(\^?)((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_TOKEN: Final = re.compile(r"(!?)<(?:\[([0-9]+)\]|((?!\[)[^>]*))>")
_BOUNDS: Final = re.compile(
    r"\{S([0-9]+)S(?:(,)S([0-9]+)?S)?\}".replace("S", r"(?:[ \t]|#[^\r\n]*)*")
)
_BOUNDS_IN_GROUP: Final = re.compile(
    r"\{S([0-9]+)S(?:(,)S([0-9]+)?S)?\}".replace("S", r"(?:[ \t\r\n]|#[^\r\n]*)*")
)
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}
_ESCAPES: Final = {
    **{char: char for char in '\\"[]-'},
    "t": "\t",
    "r": "\r",
    "n": "\n",
}
_CLASS_ESCAPES: Final = {"d": "[0-9]", "w": "[a-zA-Z0-9_]", "s": "[ \\t\\r\\n]"}
_POSTFIX: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_TOKEN_ID_MAX: Final = 0xFFFFFFFF
_WARNINGS_MAX: Final = 50
# A code point that is none: what `\U` can write and no text holds.
_BEYOND: Final = charset.MAX_CODE_POINT


@dataclasses.dataclass(slots=True)
class Rule:
    """A rule: ``begin`` is where its name stands in its definition, ``comment`` what precedes."""

    name: str
    body: Node
    begin: int
    comment: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Source:
    """A whole text; ``loops`` says where a repetition stands, for messages."""

    text: str
    pool: Pool
    rules: list[Rule]
    root: int
    warnings: list[str]
    loops: dict[Node, int]


@dataclasses.dataclass(slots=True)
class _Group:
    """A parenthesis that is open, or at the bottom the body of the rule."""

    begin: int
    alternatives: list[Node] = dataclasses.field(default_factory=list)
    items: list[Node] = dataclasses.field(default_factory=list)


def parse(text: str, limits: Limits) -> Source:
    """Read ``text``; raises :class:`GrammarError` with the place, or :class:`LimitError`."""
    if len(text) > limits.grammar_bytes:
        raise LimitError(f"a grammar of {len(text)} characters", limit="grammar_bytes")
    return _Parser(text, limits).parse()


class _Parser:
    """One pass from left to right; ``_at`` is the place of what has not been read."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._at = 0
        self._pool = Pool()
        self._index: dict[str, int] = {}
        self._rules: list[Rule] = []
        # By the rule whose definition mentions them: one that is dropped mentions nothing.
        self._mentioned: dict[int, dict[int, int]] = {}
        self._mentions: dict[int, int] = {}
        self._loops: dict[Node, int] = {}
        # What was repeated last, and how many repetitions in a row it has.
        self._row: tuple[Node | None, int] = (None, 0)
        self._warnings: list[str] = []

    def parse(self) -> Source:
        text = self._text
        comment = self._skip_to_rule()
        while self._at < len(text):
            self._rule(comment)
            comment = self._skip_to_rule()
        names = [rule.name for rule in self._rules if rule.begin >= 0]
        mentions = itertools.chain.from_iterable(m.items() for m in self._mentioned.values())
        for index, offset in sorted(mentions, key=operator.itemgetter(1)):
            rule = self._rules[index]
            if rule.begin < 0:
                message = f"unknown rule '{rule.name[:40]}'{suggestion(rule.name, names)}"
                raise GrammarError(message, text=text, offset=offset)
        root = self._index.get("root")
        if root is None:
            hint = suggestion("root", names)
            raise GrammarError(f"the grammar has no rule 'root'{hint}")
        return Source(text, self._pool, self._rules, root, self._warnings, self._loops)

    def _skip_to_rule(self) -> tuple[str, ...]:
        """Skip blanks; the lines of comment right above the next rule."""
        match = _BLANK_LINES.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        lines: list[str] = []
        for line in re.split(r"\r\n|\r|\n", match[0])[:-1]:
            found = _COMMENT.match(line.strip())
            if found is None:
                lines.clear()
            else:
                lines.append(found[1].rstrip())
        return tuple(lines)

    def _rule(self, comment: tuple[str, ...]) -> None:
        begin = self._at
        name = _NAME.match(self._text, begin)
        if name is None:
            raise self._unexpected_rule(begin)
        sign = _DEFINED.match(self._text, name.end())
        if sign is None:
            match = _BLANK.match(self._text, name.end())
            assert match is not None
            message = f"expected '::=' after the name '{name[0][:40]}'"
            if self._text[match.end() : match.end() + 1] == ":":
                message += " (a grammar in Lark begins with %llguidance)"
            raise GrammarError(message, text=self._text, offset=match.end())
        self._at = sign.end()
        index = self._index_of(name[0])
        rule = self._rules[index]
        if rule.begin >= 0:
            line, column = position_of(self._text, begin)
            self._warn(
                f"line {line}, column {column}: the rule '{name[0][:40]}' is defined again, "
                "and what was said before is dropped"
            )
        rule.begin = begin
        rule.comment = comment
        self._mentions = self._mentioned[index] = {}
        rule.body = self._body()

    def _index_of(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self._rules)
            self._rules.append(Rule(name, self._pool.nothing, -1))
        return index

    def _skip(self, lines: bool) -> None:
        match = (_BLANK_LINES if lines else _BLANK).match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _body(self) -> Node:
        """Everything up to the end of the rule, with groups on a stack."""
        text = self._text
        pool = self._pool
        stack: list[_Group] = []
        group = _Group(self._at)
        self._skip(lines=True)
        while True:
            nested = bool(stack)
            at = self._at
            char = text[at : at + 1]
            name = _NAME.match(text, at)
            if name is not None:
                if not nested and self._begins_rule(name):
                    break
                index = self._index_of(name[0])
                self._mentions.setdefault(index, at)
                group.items.append(pool.reference(index))
                self._at = name.end()
            elif char == '"':
                group.items.append(self._string(at))
            elif char == "[":
                group.items.append(self._class(at))
            elif char in ("<", "!") and char:
                group.items.append(self._token(at))
            elif char == ".":
                group.items.append(pool.chars(charset.ALL))
                self._at += 1
            elif char == "(":
                if len(stack) >= self._limits.nesting:
                    raise self._limit_error("groups are nested too deeply", at, "nesting")
                stack.append(group)
                group = _Group(at)
                self._at += 1
                self._skip(lines=True)
                continue
            elif char == ")" and nested:
                closed = group
                closed.alternatives.append(pool.series(closed.items))
                group = stack.pop()
                group.items.append(pool.choice(closed.alternatives))
                nested = bool(stack)
                self._at += 1
            elif char == "|":
                group.alternatives.append(pool.series(group.items))
                group.items = []
                self._at += 1
                self._skip(lines=True)
                continue
            elif char and char in "*+?{":
                self._repeat(group, at, nested)
            elif not nested and (not char or char in "\r\n"):
                self._skip(lines=True)
                if text[self._at : self._at + 1] != "|":
                    self._at = at
                    break
                continue
            else:
                raise self._unexpected(at, group if nested else None)
            self._skip(lines=nested)
        group.alternatives.append(pool.series(group.items))
        return pool.choice(group.alternatives)

    def _begins_rule(self, name: re.Match[str]) -> bool:
        """Whether ``name`` is the first word of its line, and the name of the next rule."""
        if _DEFINED.match(self._text, name.end()) is None:
            return False
        line = max(self._text.rfind("\n", 0, name.start()), self._text.rfind("\r", 0, name.start()))
        return not self._text[line + 1 : name.start()].strip(" \t")

    # Items

    def _string(self, at: int) -> Node:
        match = _STRING.match(self._text, at)
        if match is None:
            raise GrammarError("the string is not closed", text=self._text, offset=at)
        self._at = match.end()
        value = match[1]
        if "\\" not in value:
            return self._pool.text(value)
        points = [point for point, _ in self._characters(match.start(1), match.end(1))]
        if any(point > _BEYOND for point in points):
            return self._pool.nothing
        joined = "".join(map(chr, points))
        # A high and a low surrogate are one character of UTF-16: what JSON writers escape.
        if _is_paired(joined):
            joined = joined.encode("utf-16", "surrogatepass").decode("utf-16")
        return self._pool.text(joined)

    def _class(self, at: int) -> Node:
        match = _CLASS.match(self._text, at)
        if match is None:
            raise GrammarError("the character class is not closed", text=self._text, offset=at)
        self._at = match.end()
        begin, end = match.span(2)
        if begin == end:
            self._warn_at(at, "a character class without characters is the empty text")
            return self._pool.epsilon
        ranges: list[tuple[int, int]] = []
        characters = list(self._characters(begin, end))
        i = 0
        while i < len(characters):
            low, offset = characters[i]
            high = low
            if i + 2 < len(characters) and self._is_dash(characters[i + 1]):
                high = characters[i + 2][0]
                i += 2
                if low > high:
                    self._warn_at(offset, "a range in reverse holds no character")
            i += 1
            if low <= min(high, _BEYOND):
                ranges.append((low, min(high, _BEYOND)))
        members = charset.make(ranges)
        return self._pool.chars(charset.negate(members) if match[1] else members)

    def _is_dash(self, character: tuple[int, int]) -> bool:
        return self._text[character[1]] == "-"

    def _characters(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The code points of ``text[begin:end]``, escapes resolved, and where each is written."""
        text = self._text
        at = begin
        while at < end:
            char = text[at]
            if char != "\\":
                yield ord(char), at
                at += 1
                continue
            letter = text[at + 1]
            digits = _HEX_DIGITS.get(letter)
            if digits is not None:
                written = text[at + 2 : min(at + 2 + digits, end)]
                if len(written) < digits or not all(c in "0123456789abcdefABCDEF" for c in written):
                    message = f"'\\{letter}' takes {digits} hexadecimal digits"
                    raise GrammarError(message, text=text, offset=at)
                yield int(written, 16), at
                at += 2 + digits
                continue
            if letter not in _ESCAPES:
                instead = _CLASS_ESCAPES.get(letter)
                hint = f": write {instead}" if instead else ""
                message = f"unknown escape '\\{letter}'{hint}"
                raise GrammarError(message, text=text, offset=at)
            yield ord(_ESCAPES[letter]), at
            at += 2

    def _token(self, at: int) -> Node:
        match = _TOKEN.match(self._text, at)
        if match is None:
            message = "a token is written <[id]> or <name>, with ! before it for any other token"
            raise GrammarError(message, text=self._text, offset=at)
        self._at = match.end()
        negated = bool(match[1])
        place = (self._text, at, "")
        if match[3] is not None:
            names = (f"<{match[3]}>",)
            return self._pool.token(TokenSet(names=names, negated=negated, place=place))
        digits = match[2].lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > _TOKEN_ID_MAX:
            raise GrammarError("the token id is too large", text=self._text, offset=match.start(2))
        number = int(digits)
        ranges = ((number, number),)
        return self._pool.token(TokenSet(ranges=ranges, negated=negated, place=place))

    def _repeat(self, group: _Group, at: int, nested: bool) -> None:
        if not group.items:
            raise GrammarError("nothing to repeat", text=self._text, offset=at)
        bounds = _POSTFIX.get(self._text[at])
        if bounds is None:
            match = (_BOUNDS_IN_GROUP if nested else _BOUNDS).match(self._text, at)
            if match is None:
                message = "repetitions are written {m}, {m,} and {m,n}; from none on, {0,n}"
                raise GrammarError(message, text=self._text, offset=at)
            low = self._bound(match, 1)
            high = low if match[2] is None else None if match[3] is None else self._bound(match, 3)
            if high is not None and high < low:
                message = f"the upper bound {high} is below the lower bound {low}"
                raise GrammarError(message, text=self._text, offset=match.start(3))
            bounds = low, high
            self._at = match.end()
        else:
            self._at += 1
        last, count = self._row
        count = count + 1 if last is group.items[-1] else 1
        if count > self._limits.nesting:
            raise self._limit_error("repetitions are nested too deeply", at, "nesting")
        node = self._pool.loop(group.items[-1], *bounds)
        group.items[-1] = node
        self._row = node, count
        self._loops.setdefault(node, at)

    def _bound(self, match: re.Match[str], group: int) -> int:
        digits = match[group].lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > self._limits.repeat:
            message = "the bound of the repetition is too high"
            raise self._limit_error(message, match.start(group), "repeat")
        return int(digits)

    # Faults

    def _unexpected_rule(self, at: int) -> GrammarError:
        char = self._text[at]
        if char in '"[(.<!':
            message = (
                "expected a rule, name ::= ...: a rule goes on in the next line only within "
                "parentheses, after '|' and before '|'"
            )
        elif char in "%/'":
            message = "expected a rule, name ::= ... (text in Lark begins with %llguidance)"
        else:
            message = "expected a rule, name ::= ..."
        return GrammarError(message, text=self._text, offset=at)

    def _unexpected(self, at: int, group: _Group | None) -> GrammarError:
        text = self._text
        if at >= len(text):
            assert group is not None
            return GrammarError("the parenthesis is not closed", text=text, offset=group.begin)
        char = text[at]
        if char == "'":
            message = "strings stand in double quotes"
        elif char in ")]}":
            message = f"'{char}' closes nothing"
        elif char == "/":
            message = "GBNF has no regexes: use character classes, or a Lark grammar"
        elif text.startswith("::=", at):
            message = "'::=' belongs after the first name of a line"
        else:
            message = f"unexpected {char!r}"
        return GrammarError(message, text=text, offset=at)

    def _limit_error(self, message: str, at: int, limit: str) -> LimitError:
        return LimitError(message, limit=limit, text=self._text, offset=at)

    def _warn_at(self, at: int, message: str) -> None:
        line, column = position_of(self._text, at)
        self._warn(f"line {line}, column {column}: {message}")

    def _warn(self, message: str) -> None:
        if len(self._warnings) < _WARNINGS_MAX:
            self._warnings.append(message)


def _is_paired(text: str) -> bool:
    """Whether each surrogate of ``text`` stands in a pair, and there are some."""
    rest = re.sub("[\ud800-\udbff][\udc00-\udfff]", "", text)
    return len(rest) < len(text) and not re.search("[\ud800-\udfff]", rest)
