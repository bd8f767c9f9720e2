"""Compiles GBNF to :class:`llgx.ir.GrammarIR`.

What :mod:`llgx.gbnf.lexing` made terminals becomes regexes over bytes, everything else rules.
Loops over rules are left-recursive where they have no bound, and take O(log n) rules where they do
(see :mod:`llgx.repetition`). Linear in the grammar.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Final

from llgx import ir
from llgx.errors import LimitError, position_of
from llgx.gbnf.lexing import Plan, plan
from llgx.gbnf.nodes import (
    Chars,
    Choice,
    Loop,
    Node,
    Reference,
    Series,
    Text,
    Token,
    children,
)
from llgx.gbnf.parser import Source, parse
from llgx.gbnf.spelling import gbnf_spelling
from llgx.limits import DEFAULT_LIMITS, Limits
from llgx.regex.build import alternate, concat, repeat
from llgx.regex.utf8 import set_regex
from llgx.repetition import Repetitions

__all__ = ["compile_gbnf"]

_NAME_MAX: Final = 60


def compile_gbnf(text: str, *, limits: Limits = DEFAULT_LIMITS) -> ir.GrammarIR:
    """Compile the GBNF grammar ``text``.

    Raises :class:`GrammarError` with the position of the fault, or :class:`LimitError` when
    ``text`` is too long, nests too deep or asks for too much. Usually linear in the length of
    ``text``; see :mod:`llgx.gbnf.lexing`.
    """
    source = parse(text, limits)
    return _Compiler(source, plan(source), limits).compile()


class _Compiler:
    """The grammar being built: rules and terminals appear when first mentioned."""

    def __init__(self, source: Source, plan: Plan, limits: Limits) -> None:
        self._source = source
        self._plan = plan
        self._limits = limits
        self._rules: list[ir.Rule] = []
        self._terminals: list[ir.Terminal] = []
        self._symbols: dict[Node, ir.Symbol] = {}
        self._queue: collections.deque[tuple[Node, int]] = collections.deque()
        self._regexes: dict[Node, ir.Regex] = {}
        self._repetitions = Repetitions(self._helper)
        self._symbol_count = 0
        self._names = [rule.name for rule in source.rules]

    def compile(self) -> ir.GrammarIR:
        root = self._plan.pool.reference(self._plan.root)
        start = self._rule_of(root)
        while self._queue:
            node, index = self._queue.popleft()
            rule = self._rules[index]
            if isinstance(node, Loop):
                self._loop(node, rule, index)
            else:
                for symbols in self._plan.productions(node):
                    rule.productions.append(self._production(symbols))
        return ir.GrammarIR(
            rules=self._rules,
            terminals=self._terminals,
            start=start,
            warnings=self._source.warnings,
        )

    def _rule_of(self, node: Node) -> int:
        """A new rule for ``node``, which is queued."""
        index = len(self._rules)
        name = self._source.rules[node.rule].name if isinstance(node, Reference) else ""
        self._rules.append(ir.Rule(name, []))
        self._symbols[node] = ir.RuleRef(index)
        self._queue.append((node, index))
        return index

    def _production(self, nodes: tuple[Node, ...]) -> ir.Production:
        self._symbol_count += 1 + len(nodes)
        if self._symbol_count > self._limits.symbols:
            raise LimitError("the grammar has too many symbols", limit="symbols")
        return ir.Production(tuple([self._symbol(node) for node in nodes]))

    def _symbol(self, node: Node) -> ir.Symbol:
        found = self._symbols.get(node)
        if found is not None:
            return found
        if not self._plan.is_terminal(node):
            return ir.RuleRef(self._rule_of(node))
        if isinstance(node, Token):
            terminal = ir.Terminal(gbnf_spelling(node), ir.EMPTY, tokens=node.tokens)
        else:
            terminal = ir.Terminal(self._name(node), self._regex(node))
        symbol = self._symbols[node] = ir.TerminalRef(len(self._terminals))
        self._terminals.append(terminal)
        return symbol

    def _name(self, node: Node) -> str:
        """How messages speak of a terminal: by the name of its rule, or as it is written."""
        return gbnf_spelling(node, self._names, _NAME_MAX)

    def _helper(self, productions: list[ir.Production]) -> ir.RuleRef:
        self._rules.append(ir.Rule("", productions))
        return ir.RuleRef(len(self._rules) - 1)

    def _loop(self, node: Loop, rule: ir.Rule, index: int) -> None:
        bound = node.low if node.high is None else node.high
        if bound > self._limits.rule_repeat:
            line, column = position_of(self._source.text, self._source.loops.get(node, 0))
            message = f"line {line}, column {column}: the bound of the repetition is too high"
            raise LimitError(message, limit="rule_repeat")
        body = self._production(self._plan.sequence(node.item))
        rule.productions += self._repetitions.productions(
            ir.RuleRef(index), body.symbols, node.low, node.high
        )

    def _regex(self, root: Node) -> ir.Regex:
        """The regex of a node without recursion and tokens; each node is translated once."""
        done = self._regexes
        stack = [(root, False)]
        while stack:
            node, finished = stack.pop()
            if node in done:
                continue
            if not finished:
                stack.append((node, True))
                stack.extend((child, False) for child in self._children(node))
            elif isinstance(node, Text):
                done[node] = ir.Literal(node.value.encode())
            elif isinstance(node, Chars):
                done[node] = set_regex(node.members)
            elif isinstance(node, Series):
                done[node] = concat([done[item] for item in node.items])
            elif isinstance(node, Choice):
                done[node] = alternate([done[item] for item in node.items])
            elif isinstance(node, Loop):
                done[node] = repeat(done[node.item], node.low, node.high)
            else:
                done[node] = done[self._children(node)[0]]
        return done[root]

    def _children(self, node: Node) -> Sequence[Node]:
        if isinstance(node, Reference):
            return (self._plan.bodies[node.rule],)
        return children(node)
