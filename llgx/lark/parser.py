"""Builds the syntax tree of a Lark grammar from its tokens.

Recursive descent in shape, but groups and conditions, the two constructs that nest, are parsed
with an explicit stack: depth is counted against ``Limits.nesting`` and never costs Python frames.
One token of look-ahead decides everything, two tell ``~2`` (a repetition) from ``~x`` (a
complement) and ``x{2}`` from the use of a template.

The parser knows the whole language of llguidance. What the compiler cannot do yet becomes an
:class:`ast.Unsupported` node, so that it is an error only where the start rule reaches it, except
for statements that llguidance refuses as well. Linear in the number of tokens.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Iterable
from typing import Final

from llgx import ir
from llgx.errors import GrammarError, LimitError, position_of
from llgx.lark import ast
from llgx.lark.common import COMMON
from llgx.lark.lexer import Token, describe, tokenize
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["mixed_case", "parse", "suggestion"]

_WORD_BITS: Final = 64
_NUMBER_DIGITS: Final = 25
_SELF: Final = ir.ParamExpr("self")

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_ESCAPE: Final = re.compile(
    r"""\\ (?:
      u (?P<high> [dD][89abAB][0-9a-fA-F]{2} ) \\u (?P<low> [dD][c-fC-F][0-9a-fA-F]{2} )
    | u (?P<unit> [0-9a-fA-F]{4} )
    | x (?P<byte> [0-9a-fA-F]{2} )
    | (?P<other> . )
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}

_ATOM_KINDS: Final = frozenset(
    {"rule", "terminal", "string", "regex", "special", "reference", "%json", "%regex", "%lark"}
)
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLOSING: Final = {"(": ")", "[": "]"}
_BIT_ARGUMENTS: Final = frozenset({"set_bit", "clear_bit"})
_MASK_ARGUMENTS: Final = frozenset({"bit_and", "bit_or"})
_SLICE_ARGUMENTS: Final = frozenset({"incr", "decr"})
_COMPARISONS: Final = frozenset(
    prefix + name for prefix in ("", "bit_count_") for name in ("eq", "ne", "lt", "le", "gt", "ge")
)
_CONNECTIVES: Final = {"and": 2, "or": 2, "not": 1}
_UNSUPPORTED_ATTRIBUTES: Final = frozenset(
    {"capture", "stop", "stop_capture", "max_tokens", "temperature"}
)
_ATTRIBUTES: Final = frozenset({"lazy", "suffix"}) | _UNSUPPORTED_ATTRIBUTES
_OPTIONS: Final = tuple(field.name for field in dataclasses.fields(ast.Options))


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> ast.Grammar:
    """The syntax tree of ``text``.

    Raises :class:`GrammarError` at the offending place and :class:`LimitError` for text that is too
    long or nests too deep. Names are not resolved. Linear.
    """
    return _Parser(text, limits).grammar()


def suggestion(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` with the nearest of ``known``, or ``""``; bounded work."""
    if len(name) > 100:
        return ""
    candidates = [other for other in known if abs(len(other) - len(name)) <= 3][:1000]
    near = difflib.get_close_matches(name, candidates, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def mixed_case(text: str, name: Token | ast.Name) -> str:
    """What is wrong with ``name`` when it is a piece of a word like ``fooBar``, or ``""``."""
    begin = name.begin
    while begin > max(0, name.begin - 40) and _WORD.match(text, begin - 1):
        begin -= 1
    match = _WORD.match(text, begin, begin + 80)
    word = match.group() if match else ""
    if word in (word.lower(), word.upper()):
        return ""
    return f"'{word}' mixes cases: a name is all lower or all upper case"


class _Group:
    """A parenthesis, or a whole body, that is being parsed."""

    __slots__ = (
        "alternatives",
        "begin",
        "body_begin",
        "condition",
        "conjuncts",
        "finished",
        "items",
        "negation",
        "opening",
        "series_begin",
    )

    def __init__(self, opening: str, begin: int, body_begin: int) -> None:
        self.opening = opening
        self.begin = begin
        self.alternatives: list[ast.Alternative] = []
        self.start_alternative(body_begin)

    def start_alternative(self, begin: int) -> None:
        self.body_begin = begin
        self.conjuncts: list[ast.Expression] = []
        self.condition = ast.TRUE
        self.finished = ""  # "->" or "%if" once one was read: no more items
        self.start_series(begin)

    def start_series(self, begin: int) -> None:
        self.series_begin = begin
        self.items: list[ast.Expression] = []
        self.negation = -1  # where the pending "~" stands

    def end_series(self, end: int) -> None:
        items = self.items
        if len(items) == 1:
            self.conjuncts.append(items[0])
        else:
            begin = items[0].begin if items else self.series_begin
            self.conjuncts.append(ast.Series(tuple(items), begin, items[-1].end if items else end))

    def end_alternative(self, end: int) -> None:
        self.end_series(end)
        body = self.conjuncts[0]
        if len(self.conjuncts) > 1:
            last = self.conjuncts[-1]
            body = ast.Conjunction(tuple(self.conjuncts), self.conjuncts[0].begin, last.end)
        self.alternatives.append(ast.Alternative(body, self.condition))

    def choice(self, end: int) -> ast.Choice:
        return ast.Choice(tuple(self.alternatives), self.begin, end)


class _Parser:
    """One pass over the tokens of one text."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._tokens = tokenize(text, limits)
        self._current = next(self._tokens)
        self._following: Token | None = None  # the token after the current one, once looked at
        self._end = 0  # where the last token passed ends
        self._grammar = ast.Grammar()

    # Tokens

    def _peek(self) -> Token:
        return self._current

    def _advance(self) -> Token:
        token = self._current
        self._end = token.end
        self._current = self._following or next(self._tokens, token)
        self._following = None
        return token

    def _next_kind(self) -> str:
        """The kind of the token after the current one."""
        if self._following is None:
            self._following = next(self._tokens, self._current)
        return self._following.kind

    def _expect(self, kind: str, what: str = "") -> Token:
        token = self._peek()
        if token.kind != kind:
            wanted = what or f"'{kind}'"
            raise self._error(f"expected {wanted}, found {describe(token)}", token)
        return self._advance()

    def _error(self, message: str, token: Token) -> GrammarError:
        return GrammarError(message, text=self._text, offset=token.begin)

    def _limit_error(self, message: str, token: Token, limit: str) -> LimitError:
        line, column = position_of(self._text, token.begin)
        return LimitError(f"line {line}, column {column}: {message}", limit=limit)

    def _check_depth(self, depth: int, token: Token) -> None:
        if depth >= self._limits.nesting:
            raise self._limit_error("parentheses nest too deep", token, "nesting")

    # Statements

    def grammar(self) -> ast.Grammar:
        while True:
            token = self._peek()
            kind = token.kind
            if kind == "end":
                return self._grammar
            if kind == "newline":
                self._advance()
            elif kind in ("rule", "!", "?"):
                self._rule_definition()
            elif kind == "terminal":
                self._terminal_definition()
            elif kind == "%ignore":
                self._advance()
                self._grammar.ignored.append(self._body())
            elif kind == "%import":
                self._import()
            elif kind == "%llguidance":
                self._options()
            elif kind in ("%declare", "%override"):
                raise self._error(f"{kind} is not supported", token)
            else:
                message = f"expected a rule, a terminal or a statement, found {describe(token)}"
                if kind in _ATOM_KINDS or kind in _CLOSING:
                    message += "; a body goes on at the next line only after '|'"
                raise self._error(message, token)

    def _rule_definition(self) -> None:
        while self._peek().kind in ("!", "?"):
            prefix = self._advance()
            if prefix.end != self._peek().begin:
                message = f"'{prefix.text}' stands directly before the name of a rule"
                raise self._error(message, prefix)
        token = self._expect("rule", "the name of a rule")
        self._refuse_template_and_priority(token)
        parametric = False
        if self._peek().kind == "::":
            self._advance()
            self._expect("_", "'_', the parameter of the rule")
            parametric = True
        attributes = self._attributes() if self._peek().kind == "[" else ast.Attributes()
        self._colon(token)
        body = self._body()
        rules = self._grammar.rules
        if token.text in rules:
            raise self._error(f"rule '{token.text}' is defined twice", token)
        rules[token.text] = ast.RuleDefinition(
            token.text, parametric, attributes, body, token.begin
        )

    def _terminal_definition(self) -> None:
        token = self._advance()
        self._refuse_template_and_priority(token)
        if self._peek().kind == "::":
            raise self._error("a terminal takes no parameter", self._peek())
        if self._peek().kind == "[":
            message = "attributes stand on rules, whose names are in lower case"
            raise self._error(message, self._peek())
        self._colon(token)
        body = self._body()
        self._define_terminal(token, token.text, body)

    def _define_terminal(self, token: Token, name: str, body: ast.Expression) -> None:
        if name in self._grammar.terminals:
            raise self._error(f"terminal '{name}' is defined twice", token)
        self._grammar.terminals[name] = ast.TerminalDefinition(name, body, token.begin)

    def _refuse_template_and_priority(self, name: Token) -> None:
        token = self._peek()
        if token.kind == "{":
            raise self._error(f"templates are not supported: '{name.text}' has parameters", token)
        if token.kind == "." and self._next_kind() == "number":
            raise self._error("priorities are not supported", token)

    def _colon(self, name: Token) -> None:
        token = self._peek()
        if token.kind == ":":
            self._advance()
            return
        message = f"expected ':' after '{name.text}', found {describe(token)}"
        mixed = mixed_case(self._text, name)
        raise self._error(mixed or message, name if mixed else token)

    def _import(self) -> None:
        keyword = self._advance()
        path: list[str] = []
        if self._peek().kind == ".":
            self._advance()
            path.append("")
        last = self._import_name()
        path.append(last.text)
        while self._peek().kind == ".":
            self._advance()
            last = self._import_name()
            path.append(last.text)
        if self._peek().kind == "(":
            self._advance()
            names = [self._import_name()]
            while self._peek().kind == ",":
                self._advance()
                names.append(self._import_name())
            self._expect(")")
            for name in names:
                self._import_common(keyword, path, name, name)
            return
        alias = last
        if self._peek().kind == "->":
            self._advance()
            alias = self._import_name()
        self._import_common(keyword, path[:-1], last, alias)

    def _import_name(self) -> Token:
        token = self._peek()
        if token.kind not in ("rule", "terminal"):
            raise self._error(f"expected a name to import, found {describe(token)}", token)
        return self._advance()

    def _import_common(self, keyword: Token, path: list[str], name: Token, alias: Token) -> None:
        if path != ["common"]:
            source = ".".join([*path, name.text])
            message = f"cannot import '{source}': there is no library but 'common'"
            raise self._error(message, keyword)
        pattern = COMMON.get(name.text)
        if pattern is None:
            message = f"there is no terminal '{name.text}' in common"
            raise self._error(message + suggestion(name.text, COMMON), name)
        self._define_terminal(alias, alias.text, ast.RegexLiteral(pattern, "", -1, -1))

    def _options(self) -> None:
        token = self._advance()
        try:
            value = json.loads(token.text)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nests too deep"
            raise self._error(f"%llguidance takes a JSON object: {reason}", token) from None
        if not isinstance(value, dict):
            raise self._error("%llguidance takes a JSON object", token)
        for name, setting in value.items():
            if name not in _OPTIONS:
                message = f"unknown option {name[:40]!r} of %llguidance"
                raise self._error(message + suggestion(name, _OPTIONS), token)
            if not isinstance(setting, bool):
                raise self._error(f"option {name!r} of %llguidance is true or false", token)
            setattr(self._grammar.options, name, setting)

    # Attributes

    def _attributes(self) -> ast.Attributes:
        self._expect("[")
        attributes = ast.Attributes()
        seen: set[str] = set()
        while self._peek().kind != "]":
            name = self._expect("rule", "the name of an attribute")
            if name.text not in _ATTRIBUTES:
                message = f"unknown attribute '{name.text}'"
                raise self._error(message + suggestion(name.text, _ATTRIBUTES), name)
            if name.text in seen and name.text != "lazy":
                raise self._error(f"attribute '{name.text}' is given twice", name)
            seen.add(name.text)
            if len(seen & {"lazy", "suffix", "stop"}) > 1:
                raise self._error("a rule ends in one way: lazy, suffix= or stop=", name)
            attributes = self._attribute(name, attributes)
            if self._peek().kind != ",":
                break
            self._advance()
        self._expect("]", "',' or ']'")
        return attributes

    def _attribute(self, name: Token, attributes: ast.Attributes) -> ast.Attributes:
        """``attributes`` with the one called ``name``, whose value comes next."""
        value: ast.Expression | None = None
        if name.text == "lazy":
            return dataclasses.replace(attributes, lazy=True)
        if name.text != "capture" or self._peek().kind == "=":
            self._expect("=")
            token = self._peek()
            if name.text in ("max_tokens", "temperature"):
                self._expect("number", "a number")
            elif name.text in ("capture", "stop_capture"):
                self._expect("string", "a string")
            elif token.kind in ("string", "regex", "terminal", "rule", "special"):
                value = self._atom()
            else:
                message = f"expected a string, a regex or a terminal, found {describe(token)}"
                raise self._error(message, token)
        if name.text == "suffix" and not (isinstance(value, ast.String) and not value.value):
            return dataclasses.replace(attributes, suffix=value)
        construct = 'suffix=""' if name.text == "suffix" else name.text
        unsupported = ast.Unsupported(f"the attribute {construct}", name.begin, name.end)
        return dataclasses.replace(attributes, unsupported=attributes.unsupported or unsupported)

    # Expressions

    def _body(self) -> ast.Choice:
        """Everything up to the end of the definition: where a line ends and no ``|`` follows."""
        group = _Group("", self._peek().begin, self._peek().begin)
        enclosing: list[_Group] = []
        while True:
            token = self._peek()
            kind = token.kind
            if kind in _ATOM_KINDS:
                self._check_item(group, token)
                self._append(group, self._atom())
            elif kind in _CLOSING:
                self._check_item(group, token)
                self._check_depth(len(enclosing), token)
                self._advance()
                enclosing.append(group)
                group = _Group(kind, token.begin, token.end)
            elif kind in (")", "]"):
                if _CLOSING.get(group.opening) != kind:
                    break
                self._check_operand(group, token)
                self._advance()
                group.end_alternative(token.begin)
                node = self._group_node(group, token.end)
                group = enclosing.pop()
                self._append(group, node)
            elif kind in ("|", "&"):
                self._check_operand(group, token)
                self._advance()
                if kind == "|":
                    group.end_alternative(token.begin)
                    group.start_alternative(token.end)
                elif group.finished:
                    raise self._error(f"'&' after {group.finished}", token)
                else:
                    group.end_series(token.begin)
                    group.start_series(token.end)
            elif kind == "~":
                self._check_item(group, token)
                self._advance()
                group.negation = token.begin if group.negation < 0 else -1
            elif kind in ("->", "%if"):
                self._check_operand(group, token)
                self._clause(group)
            elif kind == "newline" and (enclosing or self._next_kind() == "|"):
                self._advance()
            else:
                break
        token = self._peek()
        self._check_operand(group, token)
        if enclosing:
            line, column = position_of(self._text, group.begin)
            message = f"expected '{_CLOSING[group.opening]}', found {describe(token)}"
            opening = f"'{group.opening}' at line {line}, column {column} is open"
            raise self._error(f"{message}; the {opening}", token)
        if token.kind not in ("newline", "end", "%ignore", "%import", "%llguidance"):
            raise self._error(f"unexpected {describe(token)}", token)
        group.end_alternative(token.begin)
        return group.choice(token.begin)

    def _check_item(self, group: _Group, token: Token) -> None:
        if group.finished:
            message = f"expected '|' or the end of the alternative after {group.finished}"
            raise self._error(f"{message}, found {describe(token)}", token)

    def _check_operand(self, group: _Group, token: Token) -> None:
        if group.negation >= 0:
            raise self._error(f"expected an expression after '~', found {describe(token)}", token)

    def _append(self, group: _Group, node: ast.Expression) -> None:
        """Add ``node``, with its ``~`` and its repetition, to the series of ``group``."""
        if group.negation >= 0:
            node = ast.Complement(node, group.negation, node.end)
            group.negation = -1
        group.items.append(self._repetition(node))

    def _group_node(self, group: _Group, end: int) -> ast.Expression:
        node: ast.Expression = group.choice(end)
        first = group.alternatives[0]
        if len(group.alternatives) == 1 and first.condition == ast.TRUE:
            node = first.body
        if group.opening == "[":
            return ast.Repetition(node, 0, 1, group.begin, end)
        return node

    def _clause(self, group: _Group) -> None:
        """``-> alias``, which means nothing here, or ``%if condition``."""
        token = self._advance()
        if group.finished == "%if" or group.finished == token.kind:
            raise self._error(f"'{token.kind}' after {group.finished}", token)
        group.finished = token.kind
        if token.kind == "%if":
            group.condition = self._condition()
        elif self._peek().kind not in ("rule", "terminal"):
            raise self._error(f"expected a name, found {describe(self._peek())}", self._peek())
        else:
            self._advance()

    def _repetition(self, node: ast.Expression) -> ast.Expression:
        """``node`` with the ``* + ? {..} ~n`` behind it, if there is one."""
        token = self._peek()
        if token.kind in _BOUNDS:
            self._advance()
            low, high = _BOUNDS[token.kind]
        elif token.kind == "{":
            self._advance()
            low, high = self._braces()
        elif token.kind == "~" and self._next_kind() in ("number", "hex"):
            self._advance()
            low = self._count()
            high = low
            if self._peek().kind == "..":
                self._advance()
                high = self._count()
        else:
            return node
        end = self._end
        if high is not None and high < low:
            raise self._error(f"the bounds {low} and {high} are in the wrong order", token)
        after = self._peek()
        if after.kind in _BOUNDS or after.kind == "{":
            message = "only one repetition per expression; put the inner one in parentheses"
            raise self._error(message, after)
        return ast.Repetition(node, low, high, node.begin, end)

    def _braces(self) -> tuple[int, int | None]:
        """What stands between ``{`` and ``}``: ``m``, ``m,n``, ``m,``, ``,n`` or ``,``."""
        low = 0 if self._peek().kind == "," else self._count()
        high: int | None = low
        if self._peek().kind == ",":
            self._advance()
            high = None if self._peek().kind == "}" else self._count()
        self._expect("}")
        return low, high

    def _count(self) -> int:
        token = self._expect("number", "a number")
        if not _INTEGER.fullmatch(token.text):
            raise self._error(f"'{token.text[:40]}' is not a whole number", token)
        if token.text.startswith("-"):
            raise self._error("the bound of a repetition cannot be negative", token)
        if len(token.text) > _NUMBER_DIGITS:
            message = f"a bound of {len(token.text)} digits"
            raise self._limit_error(message, token, "repeat")
        return int(token.text)

    # Atoms

    def _atom(self) -> ast.Expression:
        token = self._advance()
        kind = token.kind
        if kind == "string":
            return self._string_or_range(token)
        if kind in ("rule", "terminal"):
            return self._name(token)
        if kind == "regex":
            closing = token.text.rindex("/")
            pattern, flags = token.text[1:closing], token.text[closing + 1 :]
            return ast.RegexLiteral(pattern, flags, token.begin, token.end)
        end = token.end
        construct = kind
        if kind == "%lark":
            end = self._skip_braces()
        elif kind == "special":
            construct = f"the special token {token.text[:40]}"
        elif kind == "reference":
            construct = f"the grammar reference {token.text[:40]}"
        return ast.Unsupported(construct, token.begin, end)

    def _name(self, token: Token) -> ast.Expression:
        argument = None
        end = token.end
        following = self._peek()
        if following.kind == "::":
            self._advance()
            argument = self._argument()
            end = self._end
        elif following.kind == "{" and self._next_kind() not in ("number", "hex", ",", "}"):
            end = self._skip_braces()
            return ast.Unsupported(f"the template {token.text[:40]}", token.begin, end)
        return ast.Name(token.text, argument, token.begin, end)

    def _skip_braces(self) -> int:
        """Pass over a balanced ``{ ... }``; returns where it ends."""
        opening = self._expect("{")
        depth = 1
        while depth:
            token = self._advance()
            if token.kind == "{":
                depth += 1
            elif token.kind == "}":
                depth -= 1
            elif token.kind == "end":
                raise self._error("'{' without '}'", opening)
        return self._end

    def _string_or_range(self, token: Token) -> ast.Expression:
        value = self._unescape(token)
        ignore_case = token.text.endswith("i")
        if self._peek().kind != "..":
            return ast.String(value, ignore_case, token.begin, token.end)
        self._advance()
        last = self._expect("string", "the last character of the range")
        last_value = self._unescape(last)
        for end, end_value in ((token, value), (last, last_value)):
            if end.text.endswith("i"):
                raise self._error("the ends of a range take no flag", end)
            if len(end_value) != 1:
                raise self._error("each end of a range is one character", end)
        if last_value < value:
            raise self._error("the ends of the range are in the wrong order", token)
        return ast.Range(value, last_value, token.begin, last.end)

    def _unescape(self, token: Token) -> str:
        body = token.text[1 : token.text.rindex('"')]
        if "\\" not in body:
            return body
        pieces: list[str] = []
        position = 0
        for match in _ESCAPE.finditer(body):
            pieces.append(body[position : match.start()])
            pieces.append(self._escaped(match, token.begin + 1 + match.start()))
            position = match.end()
        pieces.append(body[position:])
        return "".join(pieces)

    def _escaped(self, match: re.Match[str], offset: int) -> str:
        """The character that one escape stands for."""
        high, low, unit, byte, other = match.group("high", "low", "unit", "byte", "other")
        if high is not None:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
        if unit is not None:
            code = int(unit, 16)
            if 0xD800 <= code <= 0xDFFF:
                message = f"the surrogate \\u{unit} has no partner"
                raise GrammarError(message, text=self._text, offset=offset)
            return chr(code)
        if byte is not None:
            return chr(int(byte, 16))
        if other not in _SIMPLE_ESCAPES:
            message = f"unknown escape '\\{other}' in a string"
            if other in "ux":
                message = f"'\\{other}' takes {4 if other == 'u' else 2} hexadecimal digits"
            raise GrammarError(message, text=self._text, offset=offset)
        return _SIMPLE_ESCAPES[other]

    # Parameters

    def _argument(self) -> ir.ParamExpr:
        token = self._peek()
        if token.kind in ("number", "hex"):
            return ir.ParamExpr("const", self._unsigned())
        if token.kind == "_":
            self._advance()
            return _SELF
        known = _BIT_ARGUMENTS | _MASK_ARGUMENTS | _SLICE_ARGUMENTS
        if token.kind != "rule" or token.text not in known:
            message = f"expected a number, '_' or a function of it, found {describe(token)}"
            raise self._error(message + suggestion(token.text, known), token)
        self._advance()
        self._expect("(")
        if token.text in _SLICE_ARGUMENTS:
            begin, end = self._slice()
            argument = ir.ParamExpr(token.text, begin, end)
        elif token.text in _BIT_ARGUMENTS:
            argument = ir.ParamExpr(token.text, self._unsigned(_WORD_BITS - 1))
        else:
            argument = ir.ParamExpr(token.text, self._unsigned())
        self._expect(")")
        return argument

    def _condition(self) -> ir.Condition:
        """A condition; connectives nest on a stack of their operators and finished operands."""
        pending: list[tuple[str, list[ir.Condition]]] = []
        while True:
            token = self._expect("rule", "a condition")
            if token.text in _CONNECTIVES:
                self._check_depth(len(pending), token)
                self._expect("(")
                pending.append((token.text, []))
                continue
            condition = self._simple_condition(token)
            while pending:
                op, operands = pending[-1]
                operands.append(condition)
                if len(operands) < _CONNECTIVES[op]:
                    self._expect(",")
                    break
                self._expect(")")
                pending.pop()
                condition = _connected(op, operands)
            else:
                return condition

    def _simple_condition(self, token: Token) -> ir.Condition:
        op = token.text
        if op == "true":
            if self._peek().kind == "(":
                self._advance()
                self._expect(")")
            return ast.TRUE
        if op in _COMPARISONS:
            self._expect("(")
            begin, end = self._slice()
            self._expect(",")
            condition = ir.Condition(op, begin, end, self._unsigned())
        elif op in ("bit_set", "bit_clear"):
            self._expect("(")
            condition = ir.Condition(op, self._unsigned(_WORD_BITS - 1))
        elif op in ("is_ones", "is_zeros"):
            self._expect("(")
            condition = ir.Condition(op, *self._slice())
        else:
            known = _COMPARISONS | {"true", "bit_set", "bit_clear", "is_ones", "is_zeros"}
            hint = suggestion(op, known | set(_CONNECTIVES))
            raise self._error(f"unknown condition '{op[:40]}'{hint}", token)
        self._expect(")")
        return condition

    def _slice(self) -> tuple[int, int]:
        """``_``, the whole parameter, or ``[a:b]``, its bits ``a`` to ``b - 1``."""
        token = self._peek()
        if token.kind == "_":
            self._advance()
            return 0, _WORD_BITS
        if token.kind != "[":
            raise self._error(f"expected '_' or '[begin:end]', found {describe(token)}", token)
        self._advance()
        begin = self._unsigned(_WORD_BITS - 1)
        self._expect(":")
        end = self._unsigned(_WORD_BITS)
        self._expect("]")
        if end <= begin:
            raise self._error(f"the bits [{begin}:{end}] are none", token)
        return begin, end

    def _unsigned(self, greatest: int = (1 << _WORD_BITS) - 1) -> int:
        token = self._peek()
        if token.kind not in ("number", "hex"):
            raise self._error(f"expected a number, found {describe(token)}", token)
        self._advance()
        if token.kind == "number" and not _INTEGER.fullmatch(token.text):
            raise self._error(f"'{token.text[:40]}' is not a whole number", token)
        value = greatest + 1
        if len(token.text) <= _NUMBER_DIGITS:
            value = int(token.text, 16 if token.kind == "hex" else 10)
        if not 0 <= value <= greatest:
            shown = token.text if len(token.text) <= 40 else "the number"
            raise self._error(f"{shown} is not between 0 and {greatest}", token)
        return value


def _connected(op: str, operands: list[ir.Condition]) -> ir.Condition:
    """``op`` of ``operands``, without constants inside: only the whole can be true or false."""
    if op == "not":
        (operand,) = operands
        return operand.items[0] if operand.op == "not" else ir.Condition("not", items=(operand,))
    absorbing, neutral = (ast.FALSE, ast.TRUE) if op == "and" else (ast.TRUE, ast.FALSE)
    if absorbing in operands:
        return absorbing
    kept = tuple(operand for operand in operands if operand != neutral)
    if len(kept) > 1:
        return ir.Condition(op, items=kept)
    return kept[0] if kept else neutral
