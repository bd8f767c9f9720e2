"""Compiles the syntax tree of a Lark grammar to :class:`llgx.ir.GrammarIR`.

Rules become productions; each string, regex, range and complement in a rule is a terminal of its
own, shared by equal ones. Repetitions over rules become helper rules:

- ``x*`` and ``x+`` are left-recursive, so that the parser returns to the same row after each item;
- ``x{m,n}`` takes O(log n) rules. ``x{k}`` is made of two halves. ``x{0,k}`` is "at most ``a``, or
  else ``a + 1`` and then at most ``k - a - 1``" with ``a = (k - 1) // 2``: each count has one
  derivation, and both smaller counts are again about half.

A helper rule takes the parameter of the rule around it exactly when something in it reads the
parameter. What ``start`` does not reach is compiled too and thrown away: its faults are warnings,
since llguidance does not look there. Linear in the size of the tree; no recursion on it.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Final

from llgx import ir
from llgx.errors import GrammarError, LimitError, position_of
from llgx.lark import ast
from llgx.lark.parser import parse
from llgx.lark.terminals import TerminalCompiler, unknown_name
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["compile_lark"]

_SELF: Final = ir.ParamExpr("self")
_INLINE_COPIES: Final = 8
_WARNINGS_MAX: Final = 50

Symbols = tuple[ir.Symbol, ...]
TerminalKey = tuple[str, ...]


def compile_lark(text: str, *, limits: Limits = DEFAULT_LIMITS) -> ir.GrammarIR:
    """Compile the Lark grammar ``text``.

    Raises :class:`GrammarError` with the position of the fault, or :class:`LimitError` when
    ``text`` is too long, nests too deep or asks for too much. Faults of rules and terminals that
    ``start`` does not reach are listed in the ``warnings`` of the result. Linear in the length of
    ``text``, apart from its regexes.
    """
    return _Compiler(parse(text, limits), text, limits).compile()


class _Compiler:
    """The grammar being built: rules and terminals appear when first mentioned."""

    def __init__(self, grammar: ast.Grammar, text: str, limits: Limits) -> None:
        self._grammar = grammar
        self._text = text
        self._limits = limits
        self._regexes = TerminalCompiler(grammar, text, limits)
        self._rules: list[ir.Rule] = []
        self._terminals: list[ir.Terminal] = []
        self._rule_index: dict[str, int] = {}
        self._terminal_index: dict[TerminalKey, ir.TerminalRef] = {}
        self._queue: collections.deque[ast.RuleDefinition] = collections.deque()
        self._in_parametric = False
        self._symbol_count = 0
        self._units: dict[Symbols, ir.Symbol] = {}
        self._unbounded: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}
        self._powers: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}
        self._at_most: dict[tuple[ir.Symbol, int], ir.RuleRef] = {}

    def compile(self) -> ir.GrammarIR:
        start = self._grammar.rules.get("start")
        if start is None:
            raise GrammarError("the grammar has no rule 'start'")
        if start.parametric:
            message = "the rule 'start' cannot take a parameter"
            raise GrammarError(message, text=self._text, offset=start.begin)
        start_index = self._index_of(start)
        while self._queue:
            self._compile_rule(self._queue.popleft())
        skip = self._skip_terminal()
        rule_count, terminal_count = len(self._rules), len(self._terminals)
        warnings = self._check_unreached()
        options = self._grammar.options
        return ir.GrammarIR(
            rules=self._rules[:rule_count],
            terminals=self._terminals[:terminal_count],
            start=start_index,
            skip=[skip],
            initial_skip=options.allow_initial_skip,
            skip_once=options.ignore_once,
            forcing=not options.no_forcing,
            warnings=warnings,
        )

    def _skip_terminal(self) -> int:
        """The terminal of all ``%ignore`` lines together, or -1."""
        ignored = self._grammar.ignored
        if not ignored:
            return -1
        alternatives = tuple(ast.Alternative(expression, ast.TRUE) for expression in ignored)
        skip = ast.Choice(alternatives, ignored[0].begin, ignored[-1].end)
        return self._add_terminal(ir.Terminal("%ignore", self._regexes.regex(skip))).index

    def _check_unreached(self) -> list[str]:
        """What is wrong with the definitions that nothing reachable mentions."""
        warnings: list[str] = []

        def record(name: str, error: GrammarError | LimitError) -> None:
            where = ""
            if isinstance(error, GrammarError) and error.line:
                where = f"line {error.line}, column {error.column}: "
            warnings.append(f"'{name[:40]}' is not used, and is wrong: {where}{error.message}")

        for rule in self._grammar.rules.values():
            if rule.name not in self._rule_index:
                self._index_of(rule)
            while self._queue:
                definition = self._queue.popleft()
                try:
                    self._compile_rule(definition)
                except (GrammarError, LimitError) as error:
                    record(definition.name, error)
                    if len(warnings) >= _WARNINGS_MAX:
                        return warnings
        for terminal in self._grammar.terminals.values():
            if isinstance(terminal.body, ast.RegexLiteral):  # imported: nothing to check
                continue
            try:
                self._regexes.regex(ast.Name(terminal.name, None, terminal.begin, terminal.begin))
            except (GrammarError, LimitError) as error:
                record(terminal.name, error)
                if len(warnings) >= _WARNINGS_MAX:
                    break
        return warnings

    # Rules

    def _index_of(self, definition: ast.RuleDefinition) -> int:
        """The index of a rule; the first time, the rule is queued for compilation."""
        index = self._rule_index.get(definition.name)
        if index is None:
            index = self._rule_index[definition.name] = len(self._rules)
            self._rules.append(ir.Rule(definition.name, [], definition.parametric))
            self._queue.append(definition)
        return index

    def _compile_rule(self, definition: ast.RuleDefinition) -> None:
        rule = self._rules[self._rule_index[definition.name]]
        attributes = definition.attributes
        if attributes.unsupported is not None:
            raise self._unsupported(attributes.unsupported)
        if attributes.lazy or attributes.suffix is not None:
            rule.productions.append(self._count(ir.Production((self._lazy_terminal(definition),))))
            return
        self._in_parametric = definition.parametric
        rule.productions.extend(self._productions(definition.body))
        if definition.parametric and not any(map(_reads_parameter, rule.productions)):
            message = f"the rule '{definition.name[:40]}' takes a parameter and does not use it"
            raise GrammarError(message, text=self._text, offset=definition.begin)

    def _lazy_terminal(self, definition: ast.RuleDefinition) -> ir.TerminalRef:
        """The rule's body, and its suffix if it has one, as one lazy terminal."""
        if definition.parametric:
            message = "a rule with lazy or suffix= cannot take a parameter"
            raise GrammarError(message, text=self._text, offset=definition.begin)
        body: ast.Expression = definition.body
        suffix = definition.attributes.suffix
        if suffix is not None:
            if self._regexes.regex(suffix) == ir.EPSILON:
                raise self._error("an empty suffix= is not supported", suffix)
            body = ast.Series((body, suffix), body.begin, body.end)
        return self._add_terminal(
            ir.Terminal(definition.name, self._regexes.regex(body), lazy=True)
        )

    def _productions(self, body: ast.Choice) -> list[ir.Production]:
        productions: list[ir.Production] = []
        for alternative in body.alternatives:
            symbols = self._symbols(alternative.body)
            production = self._production(alternative, symbols, body)
            if production is not None:
                productions.append(production)
        return productions

    def _production(
        self, alternative: ast.Alternative, symbols: Symbols, choice: ast.Choice
    ) -> ir.Production | None:
        """One alternative; None if its condition never holds."""
        if alternative.condition == ast.TRUE:
            return self._count(ir.Production(symbols))
        if alternative.condition == ast.FALSE:
            return None
        if not self._in_parametric:
            message = "%if reads the parameter of the rule, and the rule has none"
            raise self._error(message, alternative.body)
        return self._count(ir.Production(symbols, alternative.condition))

    def _symbols(self, expression: ast.Expression) -> Symbols:
        """What ``expression`` adds to a production."""
        return ast.fold(expression, self._combine, _parts_in_rule)

    def _combine(self, node: ast.Expression, values: Sequence[Symbols]) -> Symbols:
        if isinstance(node, ast.Name):
            return (self._name(node),)
        if isinstance(node, ast.String) and not node.value:
            return ()
        if isinstance(node, (ast.String, ast.RegexLiteral, ast.Range, ast.Complement)):
            return (self._literal(node),)
        if isinstance(node, ast.Series):
            return tuple(symbol for value in values for symbol in value)
        if isinstance(node, ast.Repetition):
            return self._repetition(node, values[0])
        if isinstance(node, ast.Choice):
            productions = [
                self._production(alternative, symbols, node)
                for alternative, symbols in zip(node.alternatives, values, strict=True)
            ]
            return (self._helper([item for item in productions if item is not None]),)
        if isinstance(node, ast.Conjunction):
            message = "'&' stands between terminals only; rename the rule to upper case"
            raise self._error(message, node)
        raise self._unsupported(node)

    def _name(self, node: ast.Name) -> ir.Symbol:
        rule = self._grammar.rules.get(node.name)
        if rule is None:
            if node.name not in self._grammar.terminals:
                raise unknown_name(self._grammar, self._text, node)
            if node.argument is not None:
                raise self._error(f"the terminal '{node.name[:40]}' takes no parameter", node)
            return self._terminal(("name", node.name), node.name, node)
        if rule.parametric != (node.argument is not None):
            what = "a parameter, as in name::0" if rule.parametric else "no parameter"
            raise self._error(f"the rule '{node.name[:40]}' takes {what}", node)
        if node.argument is not None and node.argument.op != "const" and not self._in_parametric:
            message = "the argument reads the parameter of the enclosing rule, which has none"
            raise self._error(message, node)
        return ir.RuleRef(self._index_of(rule), node.argument)

    # Terminals

    def _literal(
        self, node: ast.String | ast.RegexLiteral | ast.Range | ast.Complement
    ) -> ir.TerminalRef:
        source = self._text[node.begin : node.end]
        if isinstance(node, ast.String):
            key: TerminalKey = ("string", node.value, "i" if node.ignore_case else "")
        elif isinstance(node, ast.RegexLiteral):
            key = ("regex", node.pattern, node.flags)
        elif isinstance(node, ast.Range):
            key = ("range", node.first, node.last)
        else:
            key = ("source", source)
        return self._terminal(key, source, node)

    def _terminal(self, key: TerminalKey, name: str, node: ast.Expression) -> ir.TerminalRef:
        """The terminal of ``node``, which equal keys share."""
        found = self._terminal_index.get(key)
        if found is None:
            found = self._add_terminal(ir.Terminal(name, self._regexes.regex(node)))
            self._terminal_index[key] = found
        return found

    def _add_terminal(self, terminal: ir.Terminal) -> ir.TerminalRef:
        self._terminals.append(terminal)
        return ir.TerminalRef(len(self._terminals) - 1)

    # Repetitions

    def _repetition(self, node: ast.Repetition, symbols: Symbols) -> Symbols:
        limit = self._limits.rule_repeat
        if max(node.low, node.high or 0) > limit:
            line, column = position_of(self._text, node.begin)
            message = f"line {line}, column {column}: the bound of the repetition is too high"
            raise LimitError(message, limit="rule_repeat")
        if not symbols:
            return ()
        unit = self._unit(symbols)
        if node.high is None:
            return (self._at_least(unit, node.low),)
        return self._copies(unit, node.low) + self._up_to(unit, node.high - node.low)

    def _unit(self, symbols: Symbols) -> ir.Symbol:
        """One symbol for ``symbols``."""
        if len(symbols) == 1:
            return symbols[0]
        unit = self._units.get(symbols)
        if unit is None:
            unit = self._units[symbols] = self._helper([self._count(ir.Production(symbols))])
        return unit

    def _at_least(self, unit: ir.Symbol, low: int) -> ir.RuleRef:
        """``unit{low,}``, left-recursive."""
        key = (unit, low)
        found = self._unbounded.get(key)
        if found is None:
            first = ir.Production(self._copies(unit, low))
            parametric = _reads_parameter(ir.Production((unit,)))
            found = ir.RuleRef(len(self._rules), _SELF if parametric else None)
            productions = [self._count(first), self._count(ir.Production((found, unit)))]
            self._rules.append(ir.Rule("", productions, parametric))
            self._unbounded[key] = found
        return found

    def _copies(self, unit: ir.Symbol, count: int) -> Symbols:
        """``unit{count}``."""
        if count <= _INLINE_COPIES:
            return (unit,) * count
        key = (unit, count)
        found = self._powers.get(key)
        if found is None:
            half = self._copies(unit, count // 2)
            found = self._helper([self._count(ir.Production(half + half + (unit,) * (count % 2)))])
            self._powers[key] = found
        return (found,)

    def _up_to(self, unit: ir.Symbol, count: int) -> Symbols:
        """``unit{0,count}``; see the head of the module."""
        if not count:
            return ()
        key = (unit, count)
        found = self._at_most.get(key)
        if found is None:
            few = (count - 1) // 2
            more = self._copies(unit, few + 1) + self._up_to(unit, count - few - 1)
            productions = [ir.Production(self._up_to(unit, few)), ir.Production(more)]
            found = self._at_most[key] = self._helper([self._count(item) for item in productions])
        return (found,)

    def _helper(self, productions: list[ir.Production]) -> ir.RuleRef:
        """A new rule without a name, applied to the parameter at hand if it reads it."""
        parametric = any(map(_reads_parameter, productions))
        self._rules.append(ir.Rule("", productions, parametric))
        return ir.RuleRef(len(self._rules) - 1, _SELF if parametric else None)

    # Accounting

    def _count(self, production: ir.Production) -> ir.Production:
        self._symbol_count += 1 + len(production.symbols)
        if self._symbol_count > self._limits.symbols:
            raise LimitError("the grammar has too many symbols", limit="symbols")
        return production

    def _error(self, message: str, node: ast.Expression) -> GrammarError:
        return GrammarError(message, text=self._text, offset=node.begin)

    def _unsupported(self, node: ast.Expression) -> GrammarError:
        construct = node.construct if isinstance(node, ast.Unsupported) else "this expression"
        return self._error(f"{construct} is not supported", node)


def _parts_in_rule(node: ast.Expression) -> Sequence[ast.Expression]:
    """The children that are compiled as parts of a rule: a complement is a terminal as a whole."""
    return () if isinstance(node, ast.Complement) else ast.parts(node)


def _reads_parameter(production: ir.Production) -> bool:
    """Whether the production depends on the parameter of its rule."""
    return production.condition is not None or any(
        isinstance(symbol, ir.RuleRef)
        and symbol.argument is not None
        and symbol.argument.op != "const"
        for symbol in production.symbols
    )
