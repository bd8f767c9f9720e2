"""Turns expressions over terminals into regexes.

A terminal is compiled once and its regex object is shared by everything that mentions it, so a
chain of definitions that doubles at each step stays linear here: regexes are acyclic graphs rather
than trees, and nothing in this module walks the regex of a definition again. Terminals that mention
terminals are compiled innermost first without recursion. Each regex carries its depth, which
``Limits.regex_depth`` bounds.

Beside ``&`` and after ``~`` in a rule, rules may stand as well: one that does not lead back to
itself is read as if it were a terminal, so nothing is skipped inside of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from llgx import ir
from llgx.errors import GrammarError, LimitError, suggestion
from llgx.lark import ast
from llgx.lark.cursor import mixed_case
from llgx.lark.regex_object import regex_object
from llgx.lark.source import Sources
from llgx.lark.templates import Definition, Templates
from llgx.limits import Limits
from llgx.regex import char_class, literal, parse_rust, parse_rust_lexeme

__all__ = ["TerminalCompiler", "construct", "unknown_name"]


class _Measured(NamedTuple):
    """A regex and the number of nodes on its longest branch."""

    regex: ir.Regex
    depth: int


_EPSILON: Final = _Measured(ir.EPSILON, 1)
# What a lazy quantifier looks like, among other things.
_LAZY: Final = re.compile(r"[*+?}]\s*\?")

Parsed = TypeVar("Parsed")


def unknown_name(grammar: ast.Grammar, sources: Sources, name: ast.Name) -> GrammarError:
    """The error for a name that nothing defines."""
    module = name.name.rpartition(":")[0]
    known = [
        ast.plain(other)
        for names in (grammar.rules, grammar.terminals, grammar.imports)
        for other in names
        if other.rpartition(":")[0] == module and "{" not in other
    ]
    shown = ast.plain(name.name)
    message = mixed_case(sources, name) or f"unknown name '{shown}'{suggestion(shown, known)}"
    return sources.error(message, name.begin)


class TerminalCompiler:
    """Compiles the terminals of one namespace on demand.

    ``literals`` gathers the texts of all strings that were compiled.
    """

    def __init__(
        self, grammar: ast.Grammar, sources: Sources, templates: Templates, limits: Limits
    ) -> None:
        self._grammar = grammar
        self._sources = sources
        self._templates = templates
        self._limits = limits
        self._named: dict[str, _Measured] = {}
        self._literals: dict[tuple[str, str], _Measured] = {}
        self._objects: dict[str, _Measured] = {}
        self.literals: set[str] = set()

    def regex(self, expression: ast.Expression, *, rules: bool = False) -> ir.Regex:
        """The regex of ``expression``; with ``rules``, names of rules may stand in it.

        Raises :class:`GrammarError` for unknown names, for terminals that contain themselves and
        for what a terminal cannot hold, and :class:`LimitError` past ``repeat`` and
        ``regex_depth``. Linear in the definitions that were not compiled before.
        """
        if isinstance(expression, (ast.String, ast.RegexLiteral, ast.Range)):
            return self._literal(expression).regex  # most are: worth a short way
        self._compile_names(expression, rules)
        return ast.fold(expression, self._combine, _parts).regex

    def lexeme(self, expression: ast.Expression, *, rules: bool = False) -> tuple[ir.Regex, bool]:
        """The regex of ``expression`` as a whole lexeme, and whether it ends at its first match.

        It does where the lexeme is one regex with a lazy quantifier in it. Raises as :meth:`regex`.
        """
        node = expression
        if isinstance(node, ast.String):
            return self._literal(node).regex, False
        if isinstance(node, ast.Name) and node.argument is None:
            definition = self._grammar.terminals.get(self._grammar.resolve(node.name))
            if definition is not None and not definition.parameters:
                node = definition.body
        if isinstance(node, ast.Choice) and len(node.alternatives) == 1:
            node = node.alternatives[0].body
        if isinstance(node, ast.RegexLiteral) and _LAZY.search(node.pattern):
            return self._parse_regex(node, parse_rust_lexeme)
        return self.regex(expression, rules=rules), False

    def is_terminal(self, expression: ast.Expression) -> bool:
        """Whether nothing in ``expression`` keeps it from being one terminal.

        Names that are not defined do not. Linear in the expression.
        """
        grammar = self._grammar
        stack: list[ast.Expression] = [expression]
        while stack:
            node = stack.pop()
            if isinstance(node, (ast.Tokens, ast.JsonSchema, ast.Nested, ast.Reference)):
                return False
            if isinstance(node, ast.TemplateUse):
                node = self._templates.resolve(node)
            if isinstance(node, ast.Name):
                name = grammar.resolve(node.name)
                terminal = grammar.terminals.get(name)
                if name in grammar.rules or (terminal and isinstance(terminal.body, ast.Tokens)):
                    return False
            elif isinstance(node, ast.Choice) and any(
                item.condition != ast.TRUE for item in node.alternatives
            ):
                return False
            stack.extend(ast.parts(node))
        return True

    def _compile_names(self, expression: ast.Expression, rules: bool) -> None:
        """Compile every definition that ``expression`` mentions: depth-first, innermost first."""
        path: dict[str, ast.Expression] = {}
        # With each iterator, whether the names that it yields may be those of rules.
        pending: list[tuple[Iterator[ast.Name], bool]] = [(self._names(expression), rules)]
        while pending:
            names, rules = pending[-1]
            name = next(names, None)
            if name is None:
                pending.pop()
                if path:
                    finished, body = path.popitem()
                    self._named[finished] = ast.fold(body, self._combine, _parts)
                continue
            key = self._grammar.resolve(name.name)
            definition = self._definition(key, name, rules)
            if key in self._named:
                continue
            if key in path:
                kind = "terminal"
                if isinstance(definition, ast.RuleDefinition):
                    kind = "beside '&' or '~', the rule"
                message = f"{kind} '{ast.plain(key)}' contains itself"
                raise self._error(message, name)
            path[key] = definition.body
            inside_rule = isinstance(definition, ast.RuleDefinition)
            pending.append((self._names(definition.body), inside_rule))

    def _names(self, expression: ast.Expression) -> Iterator[ast.Name]:
        """The names in ``expression``, left to right; for a template, that of its instance."""
        stack = [expression]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Name):
                yield node
            elif isinstance(node, ast.TemplateUse):
                yield self._templates.resolve(node)
            else:
                stack.extend(reversed(ast.parts(node)))

    def _definition(self, key: str, name: ast.Name, rules: bool) -> Definition:
        if name.argument is not None:
            raise self._error("a rule with an argument cannot stand in a terminal", name)
        terminal = self._grammar.terminals.get(key)
        shown = ast.plain(name.name)
        if terminal is not None:
            if terminal.parameters:
                raise self._templates.wrong_count(terminal, 0, name.begin)
            return terminal
        rule = self._grammar.rules.get(key)
        if rule is None:
            raise unknown_name(self._grammar, self._sources, name)
        if not rules:
            message = f"'{shown}' is a rule, and a terminal is made of terminals only"
            raise self._error(f"{message}; rename it to upper case", name)
        if rule.parameters:
            raise self._templates.wrong_count(rule, 0, name.begin)
        if rule.parametric or rule.attributes != ast.Attributes():
            what = "a parameter" if rule.parametric else "attributes"
            message = f"the rule '{shown}' has {what}, and cannot stand beside '&' or '~'"
            raise self._error(message, name)
        return rule

    def _combine(self, node: ast.Expression, values: Sequence[_Measured]) -> _Measured:
        if isinstance(node, ast.Name):
            return self._named[self._grammar.resolve(node.name)]
        if isinstance(node, ast.TemplateUse):
            return self._named[self._templates.resolve(node).name]
        if isinstance(node, (ast.String, ast.RegexLiteral, ast.Range)):
            return self._literal(node)
        if isinstance(node, ast.RegexObject):
            return self._object(node)
        if isinstance(node, (ast.Tokens, ast.JsonSchema, ast.Nested, ast.Reference)):
            raise self._error(f"{construct(node)} cannot stand in a terminal", node)
        if isinstance(node, ast.Choice):
            for alternative in node.alternatives:
                if alternative.condition != ast.TRUE:
                    raise self._error("%if cannot stand in a terminal", node)
        if isinstance(node, ast.Series) and not values:
            return _EPSILON
        if len(values) == 1 and isinstance(node, (ast.Series, ast.Choice)):
            return values[0]
        depth = 1 + max(value.depth for value in values)
        if depth > self._limits.regex_depth:
            message = "the regex of a terminal is too deep"
            raise self._sources.limit_error(message, node.begin, "regex_depth")
        items = tuple(value.regex for value in values)
        if isinstance(node, ast.Series):
            return _Measured(ir.Concat(items), depth)
        if isinstance(node, ast.Choice):
            return _Measured(ir.Alternation(items), depth)
        if isinstance(node, ast.Conjunction):
            return _Measured(ir.Intersection(items), depth)
        if isinstance(node, ast.Complement):
            return _Measured(ir.Complement(items[0]), depth)
        if max(node.low, node.high or 0) > self._limits.repeat:
            message = "the bound of the repetition is too high"
            raise self._sources.limit_error(message, node.begin, "repeat")
        return _Measured(ir.Repeat(items[0], node.low, node.high), depth)

    def _literal(self, node: ast.String | ast.RegexLiteral | ast.Range) -> _Measured:
        if isinstance(node, ast.String):
            self.literals.add(node.value)
            if not node.ignore_case:
                return _Measured(ir.Literal(node.value.encode()), 1)
        if isinstance(node, ast.Range):
            regex = char_class([(ord(node.first), ord(node.last))])
            return _Measured(regex, _depth(regex))
        key = (node.value, '"') if isinstance(node, ast.String) else (node.pattern, node.flags)
        found = self._literals.get(key)
        if found is None:
            if isinstance(node, ast.String):
                regex = literal(node.value, ignore_case=True)
            elif node.begin < 0:
                regex = _common_regex(node.pattern, self._grammar.options.allow_invalid_utf8)
            else:
                regex = self._parse_regex(node, parse_rust)
            found = self._literals[key] = _Measured(regex, _depth(regex))
        return found

    def _parse_regex(self, node: ast.RegexLiteral, parse: Callable[..., Parsed]) -> Parsed:
        invalid_utf8 = self._grammar.options.allow_invalid_utf8
        # Where any byte may occur, characters are bytes unless the regex asks for Unicode itself.
        bytewise = invalid_utf8 and "u" not in node.flags
        text, place, _ = self._sources.locate(node.begin)
        try:
            return parse(
                node.pattern,
                flags=node.flags + "-u" if bytewise else node.flags,
                text=text,
                offset=place + 1,
                limits=self._limits,
                invalid_utf8=invalid_utf8,
            )
        except LimitError as error:
            raise self._sources.limit_error(error.message, node.begin, error.limit) from None

    def _object(self, node: ast.RegexObject) -> _Measured:
        found = self._objects.get(node.value)
        if found is None:
            try:
                regex = regex_object(node.value)
            except ValueError as error:
                raise self._error(str(error), node) from None
            found = self._objects[node.value] = _Measured(regex, _depth(regex))
        return found

    def _error(self, message: str, node: ast.Expression) -> GrammarError:
        return self._sources.error(message, node.begin)


def construct(node: ast.Tokens | ast.JsonSchema | ast.Nested | ast.Reference) -> str:
    """How messages speak of what is no terminal."""
    if isinstance(node, ast.Tokens):
        return f"the special token {node.text[:40]}"
    if isinstance(node, ast.JsonSchema):
        return "%json"
    return "%lark" if isinstance(node, ast.Nested) else f"the grammar @{node.name[:40]}"


def _parts(node: ast.Expression) -> Sequence[ast.Expression]:
    """The children of a node; a use of a template stands for its instance."""
    return () if isinstance(node, ast.TemplateUse) else ast.parts(node)


@functools.cache
def _common_regex(pattern: str, invalid_utf8: bool) -> ir.Regex:
    """The regex of an imported terminal, the same object for all grammars."""
    return parse_rust(pattern, flags="-u" if invalid_utf8 else "", invalid_utf8=invalid_utf8)


def _depth(regex: ir.Regex) -> int:
    """Nodes on the longest branch of ``regex``: without recursion, shared parts looked at once."""
    known: dict[int, int] = {}
    stack = [regex]
    while stack:
        node = stack[-1]
        if id(node) in known:
            stack.pop()
            continue
        parts = ir.parts_of(node)
        missing = [part for part in parts if id(part) not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        known[id(node)] = 1 + max((known[id(part)] for part in parts), default=0)
    return known[id(regex)]
