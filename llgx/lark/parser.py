"""Builds the syntax tree of a Lark grammar from its tokens.

Recursive descent in shape, but groups and conditions, the two constructs that nest without bound,
are parsed with an explicit stack: depth is counted against ``Limits.nesting`` and never costs
Python frames. ``%lark`` blocks do, so :data:`_DEEPEST_GRAMMAR` bounds how deep they nest. One token
of look-ahead decides everything, two tell ``~2`` (a repetition) from ``~x`` (a complement) and
``x{2}`` from the use of a template.

Imported modules are parsed into the namespace that asks for them, each once, with its name before
the names of all that it defines. Names are not resolved here, but for imports, which are checked to
lead to a definition. What stands inside of ``<[...]>``, ``%regex`` and ``%json`` is read by the
compiler, so that a fault there is an error only where the start rule reaches it. Linear in the
number of tokens.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Final

from llgx.errors import suggestion
from llgx.lark import ast
from llgx.lark.common import COMMON
from llgx.lark.cursor import NUMBER_DIGITS, WHOLE_NUMBER, Cursor, mixed_case
from llgx.lark.lexer import Token, describe
from llgx.lark.library import Library, ModuleError
from llgx.lark.parameters import argument, condition
from llgx.lark.source import Sources
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["parse"]

# How deep %lark blocks nest, and how many modules one namespace imports.
_DEEPEST_GRAMMAR: Final = 30
_MOST_MODULES: Final = 1_000
_GREATEST_TOKENS: Final = (1 << 31) - 1

_ATOM_KINDS: Final = frozenset(
    {"rule", "terminal", "string", "regex", "special", "reference", "%json", "%regex", "%lark"}
)
_STATEMENTS: Final = frozenset({"%ignore", "%import", "%llguidance", "%declare", "%override"})
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_ATTRIBUTES: Final = frozenset(
    {"lazy", "suffix", "capture", "stop", "stop_capture", "max_tokens", "temperature"}
)
_ENDINGS: Final = frozenset({"lazy", "suffix", "stop"})
_OPTIONS: Final = tuple(field.name for field in dataclasses.fields(ast.Options))
_LEXERS: Final = ("longest", "exact")


def parse(
    sources: Sources, base: int, library: Library, limits: Limits = DEFAULT_LIMITS
) -> ast.Grammar:
    """The syntax tree of the text at ``base`` of ``sources``, to which imported texts are added.

    Raises :class:`GrammarError` at the offending place and :class:`LimitError` for text that is too
    long or nests too deep.
    """
    parser = _Parser(Cursor(sources, base, limits), library, ast.Grammar(begin=base))
    parser.statements()
    parser.load_modules()
    return parser.grammar


class _Group:
    """A parenthesis, the arguments of a template, or a whole body, that is being parsed."""

    __slots__ = (
        "alternatives",
        "arguments",
        "begin",
        "body_begin",
        "condition",
        "conjuncts",
        "finished",
        "items",
        "negation",
        "opening",
        "series_begin",
        "template",
    )

    def __init__(self, opening: str, begin: int, body_begin: int, template: str = "") -> None:
        self.opening = opening
        self.begin = begin
        self.template = template
        self.arguments: list[ast.Expression] = []
        self.start_choice(body_begin)

    def start_choice(self, begin: int) -> None:
        self.alternatives: list[ast.Alternative] = []
        self.start_alternative(begin)

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

    def expression(self, end: int) -> ast.Expression:
        """The alternatives, or what the only one of them holds."""
        first = self.alternatives[0]
        if len(self.alternatives) == 1 and first.condition == ast.TRUE:
            return first.body
        return self.choice(end)


class _Parser:
    """One pass over the tokens of one text, into one namespace.

    ``module`` is the path of an imported text, and empty for the grammar itself.
    """

    def __init__(
        self,
        cursor: Cursor,
        library: Library,
        grammar: ast.Grammar,
        module: tuple[str, ...] = (),
        depth: int = 0,
    ) -> None:
        self._cursor = cursor
        self._library = library
        self.grammar = grammar
        self._module = module
        self._prefix = ".".join(module) + ":" if module else ""
        self._depth = depth  # of %lark blocks around
        self._wanted: list[tuple[tuple[str, ...], Token]] = []  # modules that were asked for

    # Statements

    def statements(self) -> None:
        """Read everything up to the end of the text, or of the ``%lark`` block."""
        cursor = self._cursor
        while True:
            token = cursor.peek()
            kind = token.kind
            if kind == "end" or (kind == "}" and self._depth):
                return
            if kind == "newline":
                cursor.advance()
            elif kind in ("rule", "!", "?"):
                self._rule_definition()
            elif kind == "terminal":
                self._terminal_definition()
            elif kind == "%ignore":
                cursor.advance()
                ignored = self._body()
                if not self._prefix:  # those of a module are its own affair, as in Lark
                    self.grammar.ignored.append(ignored)
            elif kind == "%import":
                self._import()
            elif kind == "%declare":
                self._declare()
            elif kind == "%llguidance":
                self._options()
            elif kind == "%override":
                raise cursor.error("%override is not supported", token)
            else:
                message = f"expected a rule, a terminal or a statement, found {describe(token)}"
                if kind in _ATOM_KINDS or kind in _CLOSING:
                    message += "; a body goes on at the next line only after '|'"
                raise cursor.error(message, token)

    def _rule_definition(self) -> None:
        cursor = self._cursor
        while cursor.peek().kind in ("!", "?"):
            prefix = cursor.advance()
            if prefix.end != cursor.peek().begin:
                message = f"'{prefix.text}' stands directly before the name of a rule"
                raise cursor.error(message, prefix)
        token = cursor.expect("rule", "the name of a rule")
        self._refuse_gbnf()
        parameters = self._parameters()
        self._priority(token)
        parametric = False
        if cursor.take("::"):
            if parameters:
                raise cursor.error("a template takes no parameter '_'", token)
            cursor.expect("_", "'_', the parameter of the rule")
            parametric = True
        attributes = self._attributes() if cursor.peek().kind == "[" else ast.Attributes()
        self._priority(token)
        self._colon(token)
        body = self._body()
        name = self._new_name(token, "rule", token.text)
        self.grammar.rules[name] = ast.RuleDefinition(
            name, parametric, attributes, body, token.begin, parameters
        )

    def _terminal_definition(self) -> None:
        cursor = self._cursor
        token = cursor.advance()
        self._refuse_gbnf()
        parameters = self._parameters()
        self._priority(token)
        if cursor.peek().kind == "::":
            raise cursor.error("a terminal takes no parameter", cursor.peek())
        if cursor.peek().kind == "[":
            message = "attributes stand on rules, whose names are in lower case"
            raise cursor.error(message, cursor.peek())
        self._colon(token)
        body: ast.Expression = self._body()
        if isinstance(body, ast.Choice) and len(body.alternatives) == 1:
            first = body.alternatives[0]
            if first.condition == ast.TRUE and isinstance(first.body, ast.Tokens):
                body = first.body
        self._define_terminal(token, token.text, body, parameters)

    def _define_terminal(
        self,
        token: Token,
        text: str,
        body: ast.Expression,
        parameters: tuple[str, ...] = (),
    ) -> None:
        name = self._new_name(token, "terminal", text)
        self.grammar.terminals[name] = ast.TerminalDefinition(name, body, token.begin, parameters)

    def _new_name(self, token: Token, kind: str, text: str) -> str:
        """The key of a definition; fails where there is one already."""
        name = self._prefix + text
        grammar = self.grammar
        if name in grammar.rules or name in grammar.terminals or name in grammar.imports:
            raise self._cursor.error(f"{kind} '{text}' is defined twice", token)
        return name

    def _parameters(self) -> tuple[str, ...]:
        """The names in braces after the name of a template."""
        cursor = self._cursor
        if not cursor.take("{"):
            return ()
        names: list[str] = []
        while True:
            token = cursor.peek()
            if token.kind not in ("rule", "terminal"):
                message = f"expected the name of a parameter, found {describe(token)}"
                raise cursor.error(message, token)
            cursor.advance()
            name = self._prefix + token.text
            if name in names:
                raise cursor.error(f"the parameter '{token.text}' is given twice", token)
            names.append(name)
            if not cursor.take(","):
                break
        cursor.expect("}", "',' or '}'")
        return tuple(names)

    def _priority(self, name: Token) -> None:
        """``.N`` after a name: it picks one of several readings, and here all are kept."""
        cursor = self._cursor
        if cursor.peek().kind != "." or cursor.next_kind() != "number":
            return
        cursor.advance()
        number = cursor.advance()
        if not WHOLE_NUMBER.fullmatch(number.text):
            raise cursor.error(f"the priority '{number.text[:40]}' is no whole number", number)
        if name.kind == "terminal":
            self.grammar.warnings.append(
                f"{cursor.sources.where(name.begin)}: the priority of terminal '{name.text[:40]}' "
                "keeps no other terminal from matching the same text; 'NAME & ~KEYWORD' does"
            )

    def _refuse_gbnf(self) -> None:
        cursor = self._cursor
        if cursor.peek().kind == "::" and cursor.next_kind() == "=":
            message = "this looks like GBNF, not Lark: Grammar.from_gbnf reads 'name ::= body'"
            raise cursor.error(message, cursor.peek())

    def _colon(self, name: Token) -> None:
        cursor = self._cursor
        token = cursor.peek()
        if token.kind == ":":
            cursor.advance()
            return
        message = f"expected ':' after '{name.text}', found {describe(token)}"
        mixed = mixed_case(cursor.sources, name)
        raise cursor.error(mixed or message, name if mixed else token)

    def _declare(self) -> None:
        """``%declare A B``: terminals that are the special tokens ``<a>`` and ``<b>``."""
        cursor = self._cursor
        cursor.advance()
        while True:
            name = cursor.expect("terminal", "the name of a terminal")
            text = f"<{name.text.lower()}>"
            if cursor.take("->"):
                text = cursor.expect("special", "a special token, as in '<name>'").text
            self._define_terminal(name, name.text, ast.Tokens(text, name.begin, name.end))
            if cursor.peek().kind != "terminal":
                return

    def _options(self) -> None:
        cursor = self._cursor
        token = cursor.advance()
        try:
            value = json.loads(token.text)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nests too deep"
            raise cursor.error(f"%llguidance takes a JSON object: {reason}", token) from None
        if not isinstance(value, dict):
            raise cursor.error("%llguidance takes a JSON object", token)
        if value and self._prefix:
            raise cursor.error("options belong into the grammar that imports this one", token)
        for name, setting in value.items():
            if name not in _OPTIONS:
                message = f"unknown option {name[:40]!r} of %llguidance"
                raise cursor.error(message + suggestion(name, _OPTIONS), token)
            if name == "lexer":
                if setting not in _LEXERS:
                    names = " or ".join(map(repr, _LEXERS))
                    raise cursor.error(f"option 'lexer' of %llguidance is {names}", token)
            elif not isinstance(setting, bool):
                raise cursor.error(f"option {name!r} of %llguidance is true or false", token)
            setattr(self.grammar.options, name, setting)

    # Imports

    def _import(self) -> None:
        cursor = self._cursor
        keyword = cursor.advance()
        relative = cursor.take(".")
        words = [self._import_word()]
        while cursor.take("."):
            words.append(self._import_word())
        names: list[tuple[Token, Token]]
        if cursor.take("("):
            names = []
            while True:
                name = self._import_word()
                names.append((name, name))
                if not cursor.take(","):
                    break
            cursor.expect(")")
        else:
            name = words.pop()
            alias = self._import_word() if cursor.take("->") else name
            names = [(name, alias)]
        path = tuple(word.text for word in words)
        if path == ("common",) and not relative:
            for name, alias in names:
                self._import_common(name, alias)
            return
        if not path:
            message = f"cannot import '{names[0][0].text}': there is no module before the name"
            raise cursor.error(message, keyword)
        if relative:
            path = self._module[:-1] + path
        for name, alias in names:
            self._import_from(path, name, alias)
        self._wanted.append((path, keyword))

    def _import_word(self) -> Token:
        """A name, or pieces of a mixed-case one that touch."""
        cursor = self._cursor
        token = cursor.peek()
        if token.kind not in ("rule", "terminal"):
            raise cursor.error(f"expected a name to import, found {describe(token)}", token)
        cursor.advance()
        while cursor.peek().kind in ("rule", "terminal") and cursor.peek().begin == token.end:
            more = cursor.advance()
            token = Token("word", token.text + more.text, token.begin, more.end)
        return token

    def _check_import(self, name: Token) -> None:
        if name.kind == "word":
            message = f"'{name.text[:40]}' mixes cases: a name is all lower or all upper case"
            raise self._cursor.error(message, name)

    def _import_common(self, name: Token, alias: Token) -> None:
        self._check_import(alias)
        pattern = COMMON.get(name.text)
        if pattern is None:
            message = f"there is no terminal '{name.text[:40]}' in common"
            raise self._cursor.error(message + suggestion(name.text, COMMON), name)
        self._define_terminal(alias, alias.text, ast.RegexLiteral(pattern, "", -1, -1))

    def _import_from(self, path: tuple[str, ...], name: Token, alias: Token) -> None:
        self._check_import(name)
        self._check_import(alias)
        key = self._new_name(alias, "imported name", alias.text)
        target = f"{'.'.join(path)}:{name.text}"
        self.grammar.imports[key] = ast.Import(target, name.begin)

    def load_modules(self) -> None:
        """Parse what was imported, and what that imports; then check all imported names."""
        cursor = self._cursor
        grammar = self.grammar
        wanted = self._wanted
        loaded: set[tuple[str, ...]] = set()
        while wanted:
            path, token = wanted.pop()
            if path in loaded:
                continue
            loaded.add(path)
            if len(loaded) > _MOST_MODULES:
                raise cursor.error(f"a grammar of more than {_MOST_MODULES} modules", token)
            try:
                text = self._library.fetch(path, cursor.limits)
            except ModuleError as error:
                hint = suggestion(".".join(path), (*self._library.names(), "common"))
                raise cursor.error(str(error) + hint, token) from None
            base = cursor.sources.add(text, f"the module '{'.'.join(path)}'")
            module = _Parser(
                Cursor(cursor.sources, base, cursor.limits),
                self._library,
                grammar,
                path,
            )
            module.statements()
            wanted += module._wanted
        for name in grammar.imports:
            self._check_target(name)

    def _check_target(self, name: str) -> None:
        """Fail where the import of ``name`` leads round in a circle, or to nothing."""
        imports = self.grammar.imports
        seen: set[str] = set()
        while name in imports:
            if name in seen:
                message = f"the import of '{ast.plain(name)}' leads back to itself"
                raise self._cursor.sources.error(message, imports[name].begin)
            seen.add(name)
            last = imports[name]
            name = last.target
        if name not in self.grammar.rules and name not in self.grammar.terminals:
            module, word = name.rsplit(":", 1)
            known = _names_of(module, [*self.grammar.rules, *self.grammar.terminals])
            message = f"there is no '{word[:40]}' in the module '{module[:80]}'"
            raise self._cursor.sources.error(message + suggestion(word, known), last.begin)

    # Attributes

    def _attributes(self) -> ast.Attributes:
        cursor = self._cursor
        opening = cursor.expect("[")
        values: dict[str, object] = {}
        while cursor.peek().kind != "]":
            name = cursor.expect("rule", "the name of an attribute")
            if name.text not in _ATTRIBUTES:
                message = f"unknown attribute '{name.text[:40]}'"
                raise cursor.error(message + suggestion(name.text, _ATTRIBUTES), name)
            if name.text in values and name.text != "lazy":
                raise cursor.error(f"attribute '{name.text}' is given twice", name)
            if name.text in _ENDINGS and _ENDINGS & values.keys() - {name.text}:
                raise cursor.error("a rule ends in one way: lazy, suffix= or stop=", name)
            values[name.text] = self._attribute(name)
            if not cursor.take(","):
                break
        cursor.expect("]", "',' or ']'")
        if "stop_capture" in values and not values.keys() & {"suffix", "stop"}:
            raise cursor.error("stop_capture= goes with suffix= or stop=", opening)
        return ast.Attributes(begin=opening.begin, **values)  # type: ignore[arg-type]

    def _attribute(self, name: Token) -> object:
        """The value of the attribute ``name``, which comes next."""
        cursor = self._cursor
        if name.text == "lazy":
            return True
        if name.text == "capture" and cursor.peek().kind != "=":
            return ""
        cursor.expect("=")
        token = cursor.peek()
        if name.text == "max_tokens":
            return cursor.unsigned(_GREATEST_TOKENS)
        if name.text == "temperature":
            return self._temperature()
        if name.text in ("capture", "stop_capture"):
            value = cursor.string(cursor.expect("string", "a string"))
            if not value or token.text.endswith("i"):
                raise cursor.error("a capture has a name, in quotes without a flag", token)
            return value
        if token.kind in ("string", "regex", "terminal", "rule", "special", "%regex"):
            return self._atom()
        message = f"expected a string, a regex or a terminal, found {describe(token)}"
        raise cursor.error(message, token)

    def _temperature(self) -> float:
        cursor = self._cursor
        token = cursor.expect("number", "a number")
        value = float(token.text) if len(token.text) <= NUMBER_DIGITS else float("inf")
        if not 0 <= value < 1e6:
            raise cursor.error("a temperature lies between 0 and 1000000", token)
        return value

    # Expressions

    def _body(self) -> ast.Choice:
        """Everything up to the end of the definition: where a line ends and no ``|`` follows."""
        cursor = self._cursor
        begin = cursor.peek().begin
        group = _Group("", begin, begin)
        enclosing: list[_Group] = []
        while True:
            token = cursor.peek()
            kind = token.kind
            if kind in _ATOM_KINDS:
                self._check_item(group, token)
                if kind in ("rule", "terminal") and cursor.next_kind() == "{":
                    cursor.advance()
                    brace = cursor.peek()
                    if cursor.next_kind() not in ("number", "hex", ",", "}"):
                        cursor.check_depth(len(enclosing), brace)
                        cursor.advance()
                        enclosing.append(group)
                        name = self._prefix + token.text
                        group = _Group("{", token.begin, cursor.peek().begin, name)
                        continue
                    name_node = ast.Name(self._prefix + token.text, None, token.begin, token.end)
                    self._append(group, name_node)
                else:
                    self._append(group, self._atom())
            elif kind in ("(", "["):
                self._check_item(group, token)
                cursor.check_depth(len(enclosing), token)
                cursor.advance()
                enclosing.append(group)
                group = _Group(kind, token.begin, token.end)
            elif kind in (")", "]", "}"):
                if _CLOSING.get(group.opening) != kind:
                    break
                self._check_operand(group, token)
                cursor.advance()
                group.end_alternative(token.begin)
                node = self._group_node(group, token)
                group = enclosing.pop()
                self._append(group, node)
            elif kind == "," and group.opening == "{":
                self._check_operand(group, token)
                cursor.advance()
                group.end_alternative(token.begin)
                group.arguments.append(self._template_argument(group, token))
                group.start_choice(token.end)
            elif kind in ("|", "&"):
                self._check_operand(group, token)
                cursor.advance()
                if kind == "|":
                    group.end_alternative(token.begin)
                    group.start_alternative(token.end)
                elif group.finished:
                    raise cursor.error(f"'&' after {group.finished}", token)
                else:
                    group.end_series(token.begin)
                    group.start_series(token.end)
            elif kind == "~":
                self._check_item(group, token)
                cursor.advance()
                group.negation = token.begin if group.negation < 0 else -1
            elif kind in ("->", "%if"):
                self._check_operand(group, token)
                self._clause(group)
            elif kind == "newline" and (enclosing or cursor.next_kind() == "|"):
                cursor.advance()
            else:
                break
        token = cursor.peek()
        self._check_operand(group, token)
        if enclosing:
            place = cursor.sources.where(group.begin)
            message = f"expected '{_CLOSING[group.opening]}', found {describe(token)}"
            raise cursor.error(f"{message}; the '{group.opening}' at {place} is open", token)
        ends = token.kind in ("newline", "end") or token.kind in _STATEMENTS
        if not ends and not (token.kind == "}" and self._depth):
            raise cursor.error(f"unexpected {describe(token)}", token)
        group.end_alternative(token.begin)
        return group.choice(token.begin)

    def _check_item(self, group: _Group, token: Token) -> None:
        if group.finished:
            message = f"expected '|' or the end of the alternative after {group.finished}"
            raise self._cursor.error(f"{message}, found {describe(token)}", token)

    def _check_operand(self, group: _Group, token: Token) -> None:
        if group.negation >= 0:
            message = f"expected an expression after '~', found {describe(token)}"
            raise self._cursor.error(message, token)

    def _append(self, group: _Group, node: ast.Expression) -> None:
        """Add ``node``, with its ``~`` and its repetition, to the series of ``group``."""
        if group.negation >= 0:
            node = ast.Complement(node, group.negation, node.end)
            group.negation = -1
        group.items.append(self._repetition(node))

    def _group_node(self, group: _Group, closing: Token) -> ast.Expression:
        """The node of a group whose last alternative has ended."""
        if group.opening == "{":
            arguments = (*group.arguments, self._template_argument(group, closing))
            return ast.TemplateUse(group.template, arguments, group.begin, closing.end)
        node = group.expression(closing.end)
        if group.opening == "[":
            return ast.Repetition(node, 0, 1, group.begin, closing.end)
        return node

    def _template_argument(self, group: _Group, token: Token) -> ast.Expression:
        node = group.expression(token.begin)
        if isinstance(node, ast.Series) and not node.items:
            raise self._cursor.error(f"expected an argument, found {describe(token)}", token)
        return node

    def _clause(self, group: _Group) -> None:
        """``-> alias``, which means nothing here, or ``%if condition``."""
        cursor = self._cursor
        token = cursor.advance()
        if group.finished == "%if" or group.finished == token.kind:
            raise cursor.error(f"'{token.kind}' after {group.finished}", token)
        group.finished = token.kind
        if token.kind == "%if":
            group.condition = condition(cursor)
        elif cursor.peek().kind not in ("rule", "terminal"):
            raise cursor.error(f"expected a name, found {describe(cursor.peek())}", cursor.peek())
        else:
            cursor.advance()

    def _repetition(self, node: ast.Expression) -> ast.Expression:
        """``node`` with the ``* + ? {..} ~n`` behind it, if there is one."""
        cursor = self._cursor
        token = cursor.peek()
        if token.kind in _BOUNDS:
            cursor.advance()
            low, high = _BOUNDS[token.kind]
        elif token.kind == "{":
            cursor.advance()
            low, high = self._braces()
        elif token.kind == "~" and cursor.next_kind() in ("number", "hex"):
            cursor.advance()
            low = self._count()
            high = low
            if cursor.take(".."):
                high = self._count()
        else:
            return node
        end = cursor.end
        if high is not None and high < low:
            raise cursor.error(f"the bounds {low} and {high} are in the wrong order", token)
        after = cursor.peek()
        if after.kind in _BOUNDS or after.kind == "{":
            message = "only one repetition per expression; put the inner one in parentheses"
            raise cursor.error(message, after)
        return ast.Repetition(node, low, high, node.begin, end)

    def _braces(self) -> tuple[int, int | None]:
        """What stands between ``{`` and ``}``: ``m``, ``m,n``, ``m,``, ``,n`` or ``,``."""
        cursor = self._cursor
        low = 0 if cursor.peek().kind == "," else self._count()
        high: int | None = low
        if cursor.take(","):
            high = None if cursor.peek().kind == "}" else self._count()
        cursor.expect("}")
        return low, high

    def _count(self) -> int:
        cursor = self._cursor
        token = cursor.expect("number", "a number")
        if not WHOLE_NUMBER.fullmatch(token.text):
            raise cursor.error(f"'{token.text[:40]}' is not a whole number", token)
        if token.text.startswith("-"):
            raise cursor.error("the bound of a repetition cannot be negative", token)
        if len(token.text) > NUMBER_DIGITS:
            message = f"a bound of {len(token.text)} digits"
            raise cursor.limit_error(message, token, "repeat")
        return int(token.text)

    # Atoms

    def _atom(self) -> ast.Expression:
        cursor = self._cursor
        token = cursor.advance()
        kind = token.kind
        if kind == "string":
            return self._string_or_range(token)
        if kind in ("rule", "terminal"):
            name = self._prefix + token.text
            value = argument(cursor) if cursor.take("::") else None
            return ast.Name(name, value, token.begin, token.end if value is None else cursor.end)
        if kind == "regex":
            closing = token.text.rindex("/")
            pattern, flags = token.text[1:closing], token.text[closing + 1 :]
            return ast.RegexLiteral(pattern, flags, token.begin, token.end)
        if kind == "special":
            return ast.Tokens(token.text, token.begin, token.end)
        if kind == "reference":
            return ast.Reference(token.text[1:], token.begin, token.end)
        if kind == "%lark":
            return self._nested(token)
        if kind == "%json":
            return ast.JsonSchema(token.text, token.begin, token.end)
        return ast.RegexObject(token.text, token.begin, token.end)

    def _nested(self, keyword: Token) -> ast.Expression:
        """The grammar in braces after ``%lark``."""
        cursor = self._cursor
        if self._depth >= _DEEPEST_GRAMMAR:
            raise cursor.error("%lark blocks nest too deep", keyword)
        opening = cursor.expect("{")
        grammar = ast.Grammar(begin=keyword.begin)
        inner = _Parser(cursor, self._library, grammar, depth=self._depth + 1)
        inner._module = self._module  # where relative imports start
        inner._prefix = ""
        inner.statements()
        if not cursor.take("}"):
            raise cursor.error("'{' without '}'", opening)
        inner.load_modules()
        return ast.Nested(grammar, keyword.begin, cursor.end)

    def _string_or_range(self, token: Token) -> ast.Expression:
        cursor = self._cursor
        value = cursor.string(token)
        ignore_case = token.text.endswith("i")
        if not cursor.take(".."):
            return ast.String(value, ignore_case, token.begin, token.end)
        last = cursor.expect("string", "the last character of the range")
        last_value = cursor.string(last)
        for end, end_value in ((token, value), (last, last_value)):
            if end.text.endswith("i"):
                raise cursor.error("the ends of a range take no flag", end)
            if len(end_value) != 1:
                raise cursor.error("each end of a range is one character", end)
        if last_value < value:
            raise cursor.error("the ends of the range are in the wrong order", token)
        return ast.Range(value, last_value, token.begin, last.end)


def _names_of(module: str, names: Iterable[str]) -> list[str]:
    """What ``module`` defines, without its name."""
    prefix = module + ":"
    return [name[len(prefix) :] for name in names if name.startswith(prefix)]
