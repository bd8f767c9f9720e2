"""Compiles the syntax tree of a Lark grammar to :class:`llgx.ir.GrammarIR`.

Rules become productions; each string, regex, range, complement and conjunction in a rule is a
terminal of its own, shared by equal ones of the namespace. Repetitions over rules become helper
rules (:mod:`llgx.lark.builder`). A rule that ends in its own way (``lazy``, ``suffix=``,
``stop=``), and one with ``max_tokens=`` or ``temperature=`` that holds nothing but terminals, is
one terminal.

Nested and referenced grammars are namespaces of the same result, each with a skip class of its own.
What ``start`` does not reach is compiled too and thrown away: its faults are warnings, since
llguidance does not look there. Linear in the size of the trees; no recursion on them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from llgx import ir
from llgx.errors import GrammarError, LimitError, suggestion
from llgx.lark import ast
from llgx.lark.builder import Builder, Symbols, reads_parameter
from llgx.lark.embedding import embed_json_schema
from llgx.lark.leading import Entrances
from llgx.lark.library import Library
from llgx.lark.parser import parse
from llgx.lark.source import Sources
from llgx.lark.swallowing import swallowing
from llgx.lark.templates import Templates
from llgx.lark.terminals import TerminalCompiler, unknown_name
from llgx.lark.tokens import token_set
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Source", "compile_grammars", "compile_lark"]

_WARNINGS_MAX: Final = 50
# More alternatives that are texts than this make one terminal.
_MANY_TEXTS: Final = 250

TerminalKey = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One of several grammars: Lark ``text``, or where that is None a JSON Schema, ``schema``."""

    text: str | None
    schema: object = None


def compile_lark(
    text: str, *, library: Library | None = None, limits: Limits = DEFAULT_LIMITS
) -> ir.GrammarIR:
    """Compile the Lark grammar ``text``; ``library`` holds what it may import.

    Raises :class:`GrammarError` with the position of the fault, or :class:`LimitError` when
    ``text`` is too long, nests too deep or asks for too much. Faults of rules and terminals that
    ``start`` does not reach are listed in the ``warnings`` of the result. Linear in the length of
    ``text``, apart from its regexes.
    """
    return compile_grammars([("", Source(text))], library=library, limits=limits)


def compile_grammars(
    grammars: Sequence[tuple[str, Source]],
    *,
    library: Library | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ir.GrammarIR:
    """Compile several grammars, of which the first begins, and ``@name`` enters the one of a name.

    Raises as :func:`compile_lark` does; the caller has checked that no name occurs twice.
    """
    named = {name: source for name, source in grammars if name}
    return _Session(named, library or Library(), limits).compile(*grammars[0])


class _Session:
    """One compilation: the builder, the namespaces, and what is still to do."""

    def __init__(self, grammars: Mapping[str, Source], library: Library, limits: Limits) -> None:
        self.builder = Builder(limits)
        self.sources = Sources()
        self.limits = limits
        self._library = library
        self._grammars = grammars
        self._starts: dict[Hashable, ir.Symbol] = {}  # of grammars with a name, and of schemas
        self._unenforced: list[tuple[str, str, str]] = []
        self._warnings: list[str] = []
        self._namespaces: list[_Namespace] = []
        self.entrances = Entrances(self.builder)
        self.queue: collections.deque[tuple[_Namespace, ast.RuleDefinition]] = collections.deque()

    def compile(self, name: str, source: Source) -> ir.GrammarIR:
        start = self._enter(name, source)
        if not isinstance(start, ir.RuleRef) or start.argument is not None:
            rule = ir.Rule("start", [ir.Production((start,))])
            start = ir.RuleRef(self.builder.add_rule(rule))
        while self.queue:
            namespace, definition = self.queue.popleft()
            namespace.compile_rule(definition)
        self.entrances.finish()
        for namespace in self._namespaces:
            namespace.add_skip()
        builder = self.builder
        rule_count, terminal_count = len(builder.rules), len(builder.terminals)
        classes = list(builder.skip) or [-1]
        once = frozenset(builder.once)
        literals = sorted({text for item in self._namespaces for text in item.literals})
        warnings = list(self._warnings)
        for namespace in list(self._namespaces):
            warnings += namespace.grammar.warnings
            warnings += namespace.check_unreached(_WARNINGS_MAX - len(warnings))
        options = [namespace.grammar.options for namespace in self._namespaces]
        result = ir.GrammarIR(
            rules=builder.rules[:rule_count],
            terminals=builder.terminals[:terminal_count],
            start=start.index,
            skip=classes,
            initial_skip=any(item.allow_initial_skip for item in options),
            skip_once=bool(once),
            forcing=not any(item.no_forcing for item in options),
            skip_once_classes=None if len(once) in (0, len(classes)) else once,
            exact=any(item.lexer == "exact" for item in options),
            unenforced=self._unenforced,
            literals=literals,
        )
        result.warnings = (warnings + swallowing(result))[:_WARNINGS_MAX]
        return result

    # Grammars

    def _enter(self, name: str, source: Source, skip_class: int = -1) -> ir.Symbol:
        """The start of a grammar that is met for the first time; its name is known from here on."""
        if source.text is None:
            if skip_class < 0:
                skip_class = self.builder.skip_class(None, once=False)
            try:
                return self._embed(source.schema, skip_class)
            except GrammarError as error:
                where = f"the grammar @{name}: " if name else ""
                raise GrammarError(where + error.message) from error
        base = self.sources.add(source.text, f"the grammar @{name}" if name else "")
        grammar = parse(self.sources, base, self._library, self.limits)
        namespace = self.namespace(grammar, name)
        start = self._starts[name] = ir.RuleRef(namespace.start())
        return start

    def namespace(self, grammar: ast.Grammar, name: str = "") -> _Namespace:
        """A new namespace for ``grammar``."""
        namespace = _Namespace(self, grammar, name)
        self._namespaces.append(namespace)
        return namespace

    def reference(self, node: ast.Reference, skip_class: int) -> ir.Symbol:
        """The start of the grammar that ``node`` names, as seen from a terminal class."""
        source = self._grammars.get(node.name)
        if source is None:
            message = f"unknown grammar '@{node.name[:40]}'"
            if node.name.isdigit():
                message += ": grammars are referred to by name"
            raise self.sources.error(message + suggestion(node.name, self._grammars), node.begin)
        key: Hashable = node.name if source.text is not None else (node.name, skip_class)
        found = self._starts.get(key)
        if found is None:
            found = self._starts[key] = self._enter(node.name, source, skip_class)
        if source.text is None:
            return found
        return self.entrances.enter(found.index, skip_class)

    def schema(self, node: ast.JsonSchema, skip_class: int) -> ir.Symbol:
        """The start of a JSON Schema; equal ones next to the same class share their rules."""
        key = ("%json", node.value, skip_class)
        found = self._starts.get(key)
        if found is None:
            try:
                found = self._starts[key] = self._embed(node.value, skip_class)
            except GrammarError as error:
                raise self.sources.error(error.message, node.begin) from error
        return found

    def _embed(self, schema: object, skip_class: int) -> ir.Symbol:
        symbol, unenforced, warnings = embed_json_schema(
            schema, self.builder, skip_class, self.limits
        )
        self._unenforced += unenforced
        self._warnings += warnings
        return symbol


class _Namespace:
    """The names of one grammar: rules and terminals appear when first mentioned."""

    def __init__(self, session: _Session, grammar: ast.Grammar, name: str) -> None:
        self.grammar = grammar
        self._name = name
        self._session = session
        self._builder = session.builder
        self._sources = session.sources
        self._templates = Templates(grammar, session.sources, session.limits)
        self._regexes = TerminalCompiler(grammar, session.sources, self._templates, session.limits)
        self._rule_index: dict[str, int] = {}
        self._terminal_index: dict[TerminalKey, ir.TerminalRef] = {}
        self._nested: dict[int, int] = {}
        self._in_parametric = False
        self._class = session.builder.skip_class(self._class_key(), grammar.options.ignore_once)

    @property
    def literals(self) -> set[str]:
        """The texts of the strings that were compiled."""
        return self._regexes.literals

    def _class_key(self) -> Hashable:
        """What namespaces that skip the same have in common, or None where that is not simple."""
        grammar = self.grammar
        key: list[Hashable] = [grammar.options.allow_invalid_utf8 if grammar.ignored else None]
        for expression in grammar.ignored:
            simple = expression
            if isinstance(simple, ast.Choice) and len(simple.alternatives) == 1:
                simple = simple.alternatives[0].body
            if not isinstance(simple, (ast.String, ast.RegexLiteral, ast.Range)):
                return None
            key.append(_literal_key(simple))
        return tuple(key)

    def start(self) -> int:
        """The index of the start rule, which is queued."""
        start = self.grammar.rules.get(self.grammar.resolve("start"))
        if start is None:
            where = f"the grammar @{self._name} has" if self._name else "the grammar has"
            hint = suggestion("start", (*self.grammar.rules, *self.grammar.terminals))
            message = f"{where} no rule 'start'{hint}"
            if self.grammar.begin:
                raise self._sources.error(message, self.grammar.begin)
            raise GrammarError(message)
        if start.parametric or start.parameters:
            message = "the rule 'start' cannot take a parameter"
            raise self._sources.error(message, start.begin)
        return self._index_of(start)

    def add_skip(self) -> None:
        """Add the terminal of all ``%ignore`` lines together."""
        ignored = self.grammar.ignored
        if ignored:
            alternatives = tuple(ast.Alternative(expression, ast.TRUE) for expression in ignored)
            skip = ast.Choice(alternatives, ignored[0].begin, ignored[-1].end)
            self._builder.set_skip(self._class, self._regexes.regex(skip))

    def check_unreached(self, most: int) -> list[str]:
        """What is wrong with the definitions that nothing reachable mentions; not of modules."""
        warnings: list[str] = []
        queue = self._session.queue

        def record(name: str, error: GrammarError | LimitError) -> None:
            where = ""
            if error.line:
                where = f"line {error.line}, column {error.column}: "
            shown = ast.plain(name)
            warnings.append(f"'{shown}' is not used, and is wrong: {where}{error.message}")

        for rule in list(self.grammar.rules.values()):
            if rule.name not in self._rule_index and not rule.parameters and ":" not in rule.name:
                self._index_of(rule)
            while queue:
                namespace, definition = queue.popleft()
                try:
                    namespace.compile_rule(definition)
                except (GrammarError, LimitError) as error:
                    record(definition.name, error)
                    if len(warnings) >= most:
                        queue.clear()
                        return warnings
        for terminal in list(self.grammar.terminals.values()):
            if isinstance(terminal.body, (ast.RegexLiteral, ast.Tokens)):
                continue  # imported or declared: nothing to check
            if terminal.parameters or ":" in terminal.name:
                continue
            try:
                self._regexes.lexeme(ast.Name(terminal.name, None, terminal.begin, terminal.begin))
            except (GrammarError, LimitError) as error:
                record(terminal.name, error)
                if len(warnings) >= most:
                    break
        return warnings

    # Rules

    def _index_of(self, definition: ast.RuleDefinition) -> int:
        """The index of a rule; the first time, the rule is queued for compilation."""
        index = self._rule_index.get(definition.name)
        if index is None:
            rule = ir.Rule(ast.plain(definition.name), [], definition.parametric)
            index = self._rule_index[definition.name] = self._builder.add_rule(rule)
            self._session.queue.append((self, definition))
        return index

    def compile_rule(self, definition: ast.RuleDefinition) -> None:
        """Fill in the rule of ``definition``."""
        rule = self._builder.rules[self._rule_index[definition.name]]
        self._in_parametric = definition.parametric
        attributes = definition.attributes
        if attributes.begin >= 0:
            self._apply_attributes(rule, definition)
        if rule.max_tokens == 0:
            rule.productions.append(self._builder.count(ir.Production(())))
            rule.max_tokens = None
        elif _ends_itself(attributes) or (
            (attributes.max_tokens is not None or attributes.temperature is not None)
            and self._regexes.is_terminal(definition.body)
        ):
            symbols = (self._whole_terminal(definition),)
            rule.productions.append(self._builder.count(ir.Production(symbols)))
        else:
            rule.productions.extend(self._productions(definition.body))
            if definition.parametric and not any(map(reads_parameter, rule.productions)):
                shown = ast.plain(definition.name)
                message = f"the rule '{shown}' takes a parameter and does not use it"
                raise self._sources.error(message, definition.begin)

    def _apply_attributes(self, rule: ir.Rule, definition: ast.RuleDefinition) -> None:
        attributes = definition.attributes
        if definition.parametric and (
            _ends_itself(attributes)
            or attributes.max_tokens is not None
            or attributes.temperature is not None
        ):
            message = "a rule with lazy, suffix=, stop=, max_tokens= or temperature= cannot take"
            raise self._sources.error(f"{message} a parameter", definition.begin)
        if attributes.capture is not None:
            rule.capture = attributes.capture or ast.plain(definition.name)
        rule.tail_capture = attributes.stop_capture
        rule.max_tokens = attributes.max_tokens
        rule.temperature = attributes.temperature

    def _whole_terminal(self, definition: ast.RuleDefinition) -> ir.TerminalRef:
        """The body of a rule, and what ends it, as one terminal."""
        attributes = definition.attributes
        body: ast.Expression = definition.body
        ending = attributes.suffix or attributes.stop
        terminal = ir.Terminal(
            ast.plain(definition.name), ir.EMPTY, lazy=attributes.lazy, skip_class=self._class
        )
        if ending is None:
            regex, lazy = self._regexes.lexeme(body)
            lazy = lazy or attributes.lazy
            terminal = dataclasses.replace(terminal, regex=regex, lazy=lazy)
        elif isinstance(ending, ast.String) and not ending.value:
            terminal = dataclasses.replace(
                terminal,
                regex=self._regexes.regex(body),
                ends_with_eog=True,
            )
        else:
            tail = self._regexes.regex(ending)
            if tail == ir.EPSILON:
                message = 'an ending that is always empty is written suffix="" or stop=""'
                raise self._sources.error(message, ending.begin)
            body = ast.Series((body, ending), body.begin, body.end)
            terminal = dataclasses.replace(
                terminal,
                regex=self._regexes.regex(body),
                lazy=True,
                tail=tail,
                hidden_tail=attributes.stop is not None,
            )
        return self._builder.add_terminal(terminal)

    def _productions(self, body: ast.Choice) -> list[ir.Production]:
        texts, others = _texts_and_others(body)
        productions: list[ir.Production] = []
        if texts:
            productions.append(self._any_text(texts, body))
        for alternative in others:
            symbols = self._symbols(alternative.body)
            production = self._production(alternative, symbols)
            if production is not None:
                productions.append(production)
        return productions

    def _any_text(self, texts: Sequence[ast.Alternative], body: ast.Choice) -> ir.Production:
        """One terminal for many texts.

        They begin and end together with all that may come there, whether they are one terminal or
        many, so the language is the same; a parser row holds one item in place of thousands.
        """
        first = texts[0].body
        name = f"{self._sources.extract(first.begin, first.end)} | ..."
        regex = self._regexes.regex(ast.Choice(tuple(texts), body.begin, body.end))
        terminal = ir.Terminal(name, regex, skip_class=self._class)
        return self._builder.count(ir.Production((self._builder.add_terminal(terminal),)))

    def _production(self, alternative: ast.Alternative, symbols: Symbols) -> ir.Production | None:
        """One alternative; None if its condition never holds."""
        if alternative.condition == ast.TRUE:
            return self._builder.count(ir.Production(symbols))
        if alternative.condition == ast.FALSE:
            return None
        if not self._in_parametric:
            message = "%if reads the parameter of the rule, and the rule has none"
            raise self._error(message, alternative.body)
        return self._builder.count(ir.Production(symbols, alternative.condition))

    def _symbols(self, expression: ast.Expression) -> Symbols:
        """What ``expression`` adds to a production."""
        return ast.fold(expression, self._combine, _parts_in_rule)

    def _combine(self, node: ast.Expression, values: Sequence[Symbols]) -> Symbols:
        if isinstance(node, ast.TemplateUse):
            node = self._templates.resolve(node)
        if isinstance(node, ast.Name):
            return (self._symbol_of(node),)
        if isinstance(node, ast.String) and not node.value:
            return ()
        if isinstance(node, ast.Series):
            return tuple(symbol for value in values for symbol in value)
        if isinstance(node, ast.Repetition):
            return self._repetition(node, values[0])
        if isinstance(node, ast.Choice):
            texts, others = _texts_and_others(node)
            productions = [
                self._production(alternative, symbols)
                for alternative, symbols in zip(others, values, strict=True)
            ]
            if texts:
                productions.insert(0, self._any_text(texts, node))
            return (self._builder.helper([item for item in productions if item is not None]),)
        if isinstance(node, ast.Nested):
            return (self._session.entrances.enter(self._nested_start(node), self._class),)
        if isinstance(node, ast.Reference):
            return (self._session.reference(node, self._class),)
        if isinstance(node, ast.JsonSchema):
            return (self._session.schema(node, self._class),)
        if isinstance(node, ast.Tokens):
            return (self._tokens(node, node.text),)
        return (self._literal(node),)

    def _symbol_of(self, node: ast.Name) -> ir.Symbol:
        """The rule or terminal that ``node`` names."""
        name = self.grammar.resolve(node.name)
        rule = self.grammar.rules.get(name)
        if rule is not None:
            return self._rule_symbol(node, rule)
        terminal = self.grammar.terminals.get(name)
        if terminal is None:
            raise unknown_name(self.grammar, self._sources, node)
        shown = ast.plain(name)
        if node.argument is not None:
            raise self._error(f"the terminal '{shown}' takes no parameter", node)
        if terminal.parameters:
            raise self._templates.wrong_count(terminal, 0, node.begin)
        if isinstance(terminal.body, ast.Tokens):
            return self._tokens(terminal.body, shown)
        return self._terminal(("name", name), shown, node)

    def _rule_symbol(self, node: ast.Name, rule: ast.RuleDefinition) -> ir.RuleRef:
        shown = ast.plain(rule.name)
        if rule.parameters:
            raise self._templates.wrong_count(rule, 0, node.begin)
        if rule.parametric != (node.argument is not None):
            what = "a parameter, as in name::0" if rule.parametric else "no parameter"
            raise self._error(f"the rule '{shown}' takes {what}", node)
        if node.argument is not None and node.argument.op != "const" and not self._in_parametric:
            message = "the argument reads the parameter of the enclosing rule, which has none"
            raise self._error(message, node)
        return ir.RuleRef(self._index_of(rule), node.argument)

    def _nested_start(self, node: ast.Nested) -> int:
        """The start rule of a nested grammar; one that stands in a template is entered once."""
        found = self._nested.get(id(node.grammar))
        if found is None:
            found = self._session.namespace(node.grammar).start()
            self._nested[id(node.grammar)] = found
        return found

    # Terminals

    def _literal(self, node: ast.Expression) -> ir.TerminalRef:
        source = self._sources.extract(node.begin, node.end)
        key: TerminalKey
        if isinstance(node, (ast.String, ast.RegexLiteral, ast.Range)):
            key = _literal_key(node)
        elif isinstance(node, ast.RegexObject):
            key = ("object", node.value)
        else:
            # Names in it could be those of a template's parameters: only the place tells.
            key = ("place", id(node), source)
            if all(not isinstance(part, (ast.Name, ast.TemplateUse)) for part in _leaves(node)):
                key = ("source", source)
        return self._terminal(key, source, node)

    def _terminal(self, key: TerminalKey, name: str, node: ast.Expression) -> ir.TerminalRef:
        """The terminal of ``node``, which equal keys share."""
        found = self._terminal_index.get(key)
        if found is None:
            regex, lazy = self._regexes.lexeme(node, rules=key[0] in ("place", "source"))
            terminal = ir.Terminal(name, regex, lazy, skip_class=self._class)
            found = self._builder.add_terminal(terminal)
            self._terminal_index[key] = found
        return found

    def _tokens(self, node: ast.Tokens, name: str) -> ir.TerminalRef:
        """The terminal for tokens of the model."""
        try:
            plain = token_set(node.text)
        except ValueError as error:
            raise self._error(str(error), node) from None
        tokens = dataclasses.replace(plain, place=self._sources.locate(node.begin))
        key = ("tokens", tokens)
        found = self._terminal_index.get(key)
        if found is None:
            terminal = ir.Terminal(name, ir.EMPTY, skip_class=self._class, tokens=tokens)
            found = self._terminal_index[key] = self._builder.add_terminal(terminal)
        return found

    def _repetition(self, node: ast.Repetition, symbols: Symbols) -> Symbols:
        if max(node.low, node.high or 0) > self._session.limits.rule_repeat:
            message = "the bound of the repetition is too high"
            raise self._sources.limit_error(message, node.begin, "rule_repeat")
        return self._builder.repeat(symbols, node.low, node.high)

    def _error(self, message: str, node: ast.Expression) -> GrammarError:
        return self._sources.error(message, node.begin)


def _ends_itself(attributes: ast.Attributes) -> bool:
    return bool(attributes.lazy or attributes.suffix or attributes.stop)


def _literal_key(node: ast.String | ast.RegexLiteral | ast.Range) -> TerminalKey:
    if isinstance(node, ast.String):
        return ("string", node.value, node.ignore_case)
    if isinstance(node, ast.RegexLiteral):
        return ("regex", node.pattern, node.flags)
    return ("range", node.first, node.last)


def _leaves(node: ast.Expression) -> list[ast.Expression]:
    """Everything in ``node`` that has no parts, and uses of templates."""
    found: list[ast.Expression] = []
    stack = [node]
    while stack:
        part = stack.pop()
        children = () if isinstance(part, ast.TemplateUse) else ast.parts(part)
        stack.extend(children)
        if not children:
            found.append(part)
    return found


def _parts_in_rule(node: ast.Expression) -> Sequence[ast.Expression]:
    """The children that are compiled as parts of a rule: the others make one terminal or rule."""
    if isinstance(node, (ast.Complement, ast.Conjunction, ast.TemplateUse)):
        return ()
    if isinstance(node, ast.Choice):
        return [alternative.body for alternative in _texts_and_others(node)[1]]
    return ast.parts(node)


def _texts_and_others(
    node: ast.Choice,
) -> tuple[Sequence[ast.Alternative], Sequence[ast.Alternative]]:
    """The alternatives that are plain texts, where they are very many, and the others."""
    if len(node.alternatives) <= _MANY_TEXTS:
        return (), node.alternatives
    texts: list[ast.Alternative] = []
    others: list[ast.Alternative] = []
    for item in node.alternatives:
        plain = isinstance(item.body, ast.String) and item.body.value
        (texts if plain and item.condition == ast.TRUE else others).append(item)
    return (texts, others) if len(texts) > _MANY_TEXTS else ((), node.alternatives)
