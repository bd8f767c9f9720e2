"""Templates: rules and terminals with parameters, ``sep{x, mark}: x (mark x)*``.

A use of a template becomes a definition of its own, in which the arguments stand in place of the
parameters; equal uses share it. Templates may use themselves: each use is made when the compiler
comes to it. One that asks for ever new ones is stopped: arguments nest at most as deep as
parentheses may, there are at most :data:`_MOST` instances, and their arguments, written out, have
at most :data:`_MOST_NODES` nodes more than the text has characters. Arguments are shared, not
copied, so an instance takes the memory of its template, and the time of its arguments written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from llgx.errors import GrammarError, suggestion
from llgx.lark import ast
from llgx.lark.source import Sources
from llgx.limits import Limits

__all__ = ["Templates"]

_MOST: Final = 10_000
_MOST_NODES: Final = 20_000

Definition = ast.RuleDefinition | ast.TerminalDefinition


class _Argument(NamedTuple):
    key: int
    depth: int
    size: int  # of the tree, where one node stands in several places


class Templates:
    """The instances of the templates of one grammar, which are added to its definitions."""

    def __init__(self, grammar: ast.Grammar, sources: Sources, limits: Limits) -> None:
        self._grammar = grammar
        self._sources = sources
        self._limits = limits
        self._instances: dict[Hashable, str] = {}
        self._keys: dict[Hashable, int] = {}
        # By identity, next to the node, which keeps the identity its own.
        self._known: dict[int, tuple[ast.Expression, _Argument]] = {}
        self._size = 0

    def resolve(self, use: ast.TemplateUse) -> ast.Name:
        """The name of the definition that ``use`` stands for.

        Raises :class:`GrammarError` for what is no template, for a wrong number of arguments and
        for too many instances.
        """
        resolved = ast.fold(use, self._resolve_part)
        assert isinstance(resolved, ast.Name)
        return resolved

    def _resolve_part(
        self, node: ast.Expression, children: Sequence[ast.Expression]
    ) -> ast.Expression:
        node = ast.rebuild(node, children)
        if not isinstance(node, ast.TemplateUse):
            return node
        definition = self._template(node)
        values = [ast.fold(item, self._measure, self._unknown_parts) for item in node.arguments]
        key = (definition.name, *(value.key for value in values))
        if max(value.depth for value in values) > self._limits.nesting:
            message = "the arguments of templates nest too deep: do they come to an end?"
            raise self._sources.limit_error(message, node.begin, "nesting")
        name = self._instances.get(key)
        if name is None:
            if len(self._instances) >= _MOST:
                message = f"templates are used in more than {_MOST} ways: do they come to an end?"
                raise self._sources.error(message, node.begin)
            self._size += sum(value.size for value in values)
            if self._size > _MOST_NODES + len(self._sources):
                message = "the arguments of templates grow too large: do they come to an end?"
                raise self._sources.error(message, node.begin)
            name = self._instances[key] = f"{definition.name}{{{len(self._instances)}}}"
            self._instantiate(name, definition, node.arguments)
        return ast.Name(name, None, node.begin, node.end)

    def _template(self, use: ast.TemplateUse) -> Definition:
        grammar = self._grammar
        name = grammar.resolve(use.name)
        definition: Definition | None = grammar.rules.get(name) or grammar.terminals.get(name)
        shown = ast.plain(use.name)
        if definition is None or not definition.parameters:
            known = [
                ast.plain(item.name)
                for group in (grammar.rules, grammar.terminals)
                for item in group.values()
                if item.parameters
            ]
            what = "unknown template" if definition is None else "no template"
            raise self._sources.error(f"{what} '{shown}'{suggestion(shown, known)}", use.begin)
        wanted, given = len(definition.parameters), len(use.arguments)
        if wanted != given:
            raise self.wrong_count(definition, given, use.begin)
        return definition

    def wrong_count(self, definition: Definition, given: int, offset: int) -> GrammarError:
        """The error for a use with too few or too many arguments, perhaps none."""
        count = len(definition.parameters)
        plural = "" if count == 1 else "s"
        shown = ast.plain(definition.name)
        message = f"the template '{shown}' takes {count} argument{plural}, not {given}"
        return self._sources.error(message, offset)

    def _instantiate(
        self, name: str, definition: Definition, arguments: tuple[ast.Expression, ...]
    ) -> None:
        values = dict(zip(definition.parameters, arguments, strict=True))

        def substitute(node: ast.Expression, parts: Sequence[ast.Expression]) -> ast.Expression:
            if isinstance(node, ast.Name) and node.name in values:
                if node.argument is not None:
                    message = f"the parameter '{ast.plain(node.name)}' takes no argument"
                    raise self._sources.error(message, node.begin)
                return values[node.name]
            return ast.rebuild(node, parts)

        body = ast.fold(definition.body, substitute)
        if isinstance(definition, ast.TerminalDefinition):
            self._grammar.terminals[name] = dataclasses.replace(
                definition, name=name, body=body, parameters=()
            )
            return
        attributes = definition.attributes
        if attributes.suffix is not None:
            suffix = ast.fold(attributes.suffix, substitute)
            attributes = dataclasses.replace(attributes, suffix=suffix)
        if attributes.stop is not None:
            stop = ast.fold(attributes.stop, substitute)
            attributes = dataclasses.replace(attributes, stop=stop)
        assert isinstance(body, ast.Choice)
        self._grammar.rules[name] = dataclasses.replace(
            definition, name=name, body=body, parameters=(), attributes=attributes
        )

    def _unknown_parts(self, node: ast.Expression) -> Sequence[ast.Expression]:
        return () if id(node) in self._known else ast.parts(node)

    def _measure(self, node: ast.Expression, children: Sequence[_Argument]) -> _Argument:
        """The key of an expression, which equal ones share wherever they stand, and its depth."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        content: tuple[Hashable, ...]
        if isinstance(node, ast.Name):
            content = (self._grammar.resolve(node.name), node.argument)
        elif isinstance(node, ast.Choice):
            content = tuple(item.condition for item in node.alternatives)
        elif isinstance(node, ast.Nested):
            content = (id(node.grammar),)
        elif isinstance(node, ast.Repetition):
            content = (node.low, node.high)
        else:
            content = tuple(
                getattr(node, field.name)
                for field in dataclasses.fields(node)
                if field.name not in ("begin", "end", "item", "items", "arguments")
            )
        whole = (type(node), content, *(child.key for child in children))
        key = self._keys.setdefault(whole, len(self._keys))
        depth = 1 + max((child.depth for child in children), default=0)
        found = _Argument(key, depth, 1 + sum(child.size for child in children))
        self._known[id(node)] = (node, found)
        return found
