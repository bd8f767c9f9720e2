"""Turns expressions over terminals into regexes.

A terminal is compiled once and its regex object is shared by everything that mentions it, so a
chain of definitions that doubles at each step stays linear here: regexes are acyclic graphs rather
than trees, and nothing in this module walks the regex of a definition again. Terminals that mention
terminals are compiled innermost first without recursion. Each regex carries its depth, which
``Limits.regex_depth`` bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from llgx import ir
from llgx.errors import GrammarError, LimitError, position_of
from llgx.lark import ast
from llgx.lark.parser import mixed_case, suggestion
from llgx.limits import Limits
from llgx.regex import char_class, literal, parse_rust

__all__ = ["TerminalCompiler", "unknown_name"]


class _Measured(NamedTuple):
    """A regex and the number of nodes on its longest branch."""

    regex: ir.Regex
    depth: int


_EPSILON: Final = _Measured(ir.EPSILON, 1)


def unknown_name(grammar: ast.Grammar, text: str, name: ast.Name) -> GrammarError:
    """The error for a name that nothing defines."""
    known = [*grammar.rules, *grammar.terminals]
    message = f"unknown name '{name.name[:40]}'{suggestion(name.name, known)}"
    return GrammarError(mixed_case(text, name) or message, text=text, offset=name.begin)


class TerminalCompiler:
    """Compiles the terminals of one grammar on demand."""

    def __init__(self, grammar: ast.Grammar, text: str, limits: Limits) -> None:
        self._grammar = grammar
        self._text = text
        self._limits = limits
        self._named: dict[str, _Measured] = {}
        self._literals: dict[tuple[str, str], _Measured] = {}

    def regex(self, expression: ast.Expression) -> ir.Regex:
        """The regex of ``expression``.

        Raises :class:`GrammarError` for unknown names, for terminals that contain themselves and
        for what a terminal cannot hold, and :class:`LimitError` past ``repeat`` and
        ``regex_depth``. Linear in the definitions that were not compiled before.
        """
        if isinstance(expression, (ast.String, ast.RegexLiteral, ast.Range)):
            return self._literal(expression).regex  # most are: worth a short way
        self._compile_names(expression)
        return ast.fold(expression, self._combine).regex

    def _compile_names(self, expression: ast.Expression) -> None:
        """Compile every terminal that ``expression`` mentions: depth-first, innermost first."""
        path: dict[str, ast.TerminalDefinition] = {}
        pending: list[Iterator[ast.Name]] = [_names(expression)]
        while pending:
            name = next(pending[-1], None)
            if name is None:
                pending.pop()
                if path:
                    finished, definition = path.popitem()
                    self._named[finished] = ast.fold(definition.body, self._combine)
            elif name.name not in self._named:
                if name.name in path:
                    message = f"terminal '{name.name[:40]}' contains itself"
                    raise GrammarError(message, text=self._text, offset=name.begin)
                definition = self._definition(name)
                path[name.name] = definition
                pending.append(_names(definition.body))

    def _definition(self, name: ast.Name) -> ast.TerminalDefinition:
        if name.argument is not None:
            raise self._error("a rule with an argument cannot stand in a terminal", name)
        definition = self._grammar.terminals.get(name.name)
        if definition is None:
            if name.name in self._grammar.rules:
                message = f"'{name.name[:40]}' is a rule, and a terminal is made of terminals only"
                raise self._error(f"{message}; rename it to upper case", name)
            raise unknown_name(self._grammar, self._text, name)
        return definition

    def _combine(self, node: ast.Expression, values: Sequence[_Measured]) -> _Measured:
        if isinstance(node, ast.Name):
            return self._named[node.name]
        if isinstance(node, (ast.String, ast.RegexLiteral, ast.Range)):
            return self._literal(node)
        if isinstance(node, ast.Unsupported):
            raise self._error(f"{node.construct} is not supported", node)
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
            raise self._limit_error("the regex of a terminal is too deep", node, "regex_depth")
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
            raise self._limit_error("the bound of the repetition is too high", node, "repeat")
        return _Measured(ir.Repeat(items[0], node.low, node.high), depth)

    def _literal(self, node: ast.String | ast.RegexLiteral | ast.Range) -> _Measured:
        if isinstance(node, ast.String) and not node.ignore_case:
            return _Measured(ir.Literal(node.value.encode()), 1)
        if isinstance(node, ast.Range):
            regex = char_class([(ord(node.first), ord(node.last))])
            return _Measured(regex, _depth(regex))
        key = (node.value, '"') if isinstance(node, ast.String) else (node.pattern, node.flags)
        found = self._literals.get(key)
        if found is None:
            if isinstance(node, ast.String):
                regex = literal(node.value, ignore_case=True)
            else:
                regex = self._parse_regex(node)
            found = self._literals[key] = _Measured(regex, _depth(regex))
        return found

    def _parse_regex(self, node: ast.RegexLiteral) -> ir.Regex:
        invalid_utf8 = self._grammar.options.allow_invalid_utf8
        if node.begin < 0:
            return _common_regex(node.pattern, invalid_utf8)
        # Where any byte may occur, characters are bytes unless the regex asks for Unicode itself.
        bytewise = invalid_utf8 and "u" not in node.flags
        return parse_rust(
            node.pattern,
            flags=node.flags + "-u" if bytewise else node.flags,
            text=self._text,
            offset=node.begin + 1,
            limits=self._limits,
            invalid_utf8=invalid_utf8,
        )

    def _error(self, message: str, node: ast.Expression) -> GrammarError:
        return GrammarError(message, text=self._text, offset=node.begin)

    def _limit_error(self, message: str, node: ast.Expression, limit: str) -> LimitError:
        line, column = position_of(self._text, node.begin)
        return LimitError(f"line {line}, column {column}: {message}", limit=limit)


@functools.cache
def _common_regex(pattern: str, invalid_utf8: bool) -> ir.Regex:
    """The regex of an imported terminal, the same object for all grammars."""
    return parse_rust(pattern, flags="-u" if invalid_utf8 else "", invalid_utf8=invalid_utf8)


def _names(expression: ast.Expression) -> Iterator[ast.Name]:
    """The names in ``expression``, left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            yield node
        else:
            stack.extend(reversed(ast.parts(node)))


def _depth(regex: ir.Regex) -> int:
    """Nodes on the longest branch of ``regex``: level by level, without recursion."""
    depth = 0
    level: dict[int, ir.Regex] = {id(regex): regex}
    while level:
        depth += 1
        below: dict[int, ir.Regex] = {}
        for node in level.values():
            if isinstance(node, (ir.Concat, ir.Alternation, ir.Intersection)):
                below.update((id(item), item) for item in node.items)
            elif isinstance(node, (ir.Complement, ir.Repeat)):
                below[id(node.item)] = node.item
        level = below
    return depth
