"""Writes a GBNF grammar in Lark.

The result has the language of the grammar under the default lexer of Lark: what
:mod:`llgx.gbnf.lexing` made a terminal is one there, by the name of its rule, as a regex or as a
terminal of its own, and everything else is a rule. Names become ``snake_case``, terminals upper
case, ``root`` becomes ``start``; comments above rules are kept. Linear in the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from llgx.arguments import check_limits, check_text
from llgx.errors import GrammarError
from llgx.gbnf.lexing import Plan, plan
from llgx.gbnf.nodes import Chars, Choice, Loop, Node, Reference, Series, Text, Token, children
from llgx.gbnf.parser import Rule, parse
from llgx.gbnf.spelling import loop_suffix, set_spelling, text_spelling, token_spelling
from llgx.limits import DEFAULT_LIMITS, Limits

__all__ = ["gbnf_to_lark"]

_LINE: Final = 90
_REGEX_LINE: Final = 48
_NOTHING: Final = r"/[^\s\S]/"
_SPECIAL: Final = re.compile(r"<[^<>\s]+>")
_REGEX_SIGNS: Final = frozenset(r"\.+*?()|[]{}^$#&-~/")

# How tight a spelling binds.
_CHOICE, _SERIES, _LOOP, _ATOM = range(4)


def gbnf_to_lark(text: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The GBNF grammar ``text`` as a Lark grammar of the same language, which it is easy to read.

    Raises as :meth:`llgx.Grammar.from_gbnf` does, and :class:`GrammarError` for the one thing that
    Lark has no spelling for: a token by a name with blanks in it, or any token but a named one.
    """
    check_text(text, "a grammar")
    check_limits(limits)
    source = parse(text, limits)
    return _Writer(plan(source), source.rules).write()


class _Writer:
    """Spells nodes. ``_spelled`` is for rules, ``_inside`` for what stands in a terminal."""

    def __init__(self, plan: Plan, rules: Sequence[Rule]) -> None:
        self._plan = plan
        self._rules = rules
        self._taken: set[str] = set()
        self._rule_names: dict[int, str] = {}
        self._terminal_names: dict[Node, str] = {}
        self._inside: dict[Node, tuple[str, int]] = {}
        self._spelled: dict[Node, tuple[str, int]] = {}
        self._regexes: dict[Node, str | None] = {}
        # Terminals that still have to be defined: name and body.
        self._pending: list[tuple[str, Node]] = []

    def write(self) -> str:
        """The whole grammar, rules in the order of the source."""
        plan = self._plan
        rules, terminals = self._used()
        self._rule_names[plan.root] = self._fresh("start", "")
        for rule in sorted(rules - {plan.root}):
            self._rule_names[rule] = self._fresh(_snake(self._rules[rule].name), "")
        for rule in sorted(terminals):
            node = plan.pool.reference(rule)
            self._terminal_names[node] = self._fresh(_snake(self._rules[rule].name).upper(), "")
        lines = ["%llguidance {}", ""]
        for rule in sorted(rules, key=lambda rule: (rule != plan.root, self._rules[rule].begin)):
            lines += self._comment(rule)
            lines += self._rule(rule)
        if terminals or self._pending:
            lines.append("")
        for rule in sorted(terminals, key=lambda rule: self._rules[rule].begin):
            name = self._terminal_names[plan.pool.reference(rule)]
            lines += self._comment(rule)
            lines += _definition(name, self._alternatives(plan.bodies[rule]))
        for name, body in self._pending:
            lines += _definition(name, self._alternatives(body))
        return "\n".join(lines) + "\n"

    def _comment(self, rule: int) -> list[str]:
        return [f"# {line}".rstrip() for line in self._rules[rule].comment]

    def _used(self) -> tuple[set[int], set[int]]:
        """The rules that stay rules, and those that are terminals of that name."""
        plan = self._plan
        rules = {plan.root}
        terminals: set[int] = set()
        todo: list[tuple[Node, bool]] = [(plan.bodies[plan.root], False)]
        seen: set[tuple[Node, bool]] = set()
        while todo:
            node, inside = todo.pop()
            if (node, inside) in seen:
                continue
            seen.add((node, inside))
            inside = inside or plan.is_terminal(node)
            if isinstance(node, Reference):
                if inside:
                    terminals.add(node.rule)
                else:
                    rules.add(node.rule)
                todo.append((plan.bodies[node.rule], inside))
            else:
                todo += [(child, inside) for child in self._parts(node, inside)]
        return rules, terminals

    def _parts(self, node: Node, inside: bool) -> Sequence[Node]:
        """What ``node`` is written with, below itself."""
        plan = self._plan
        if inside or plan.is_terminal(node):
            return children(node)
        if isinstance(node, (Series, Text)):
            return plan.parts(node)
        return plan.alternatives(node) if isinstance(node, Choice) else children(node)

    def _fresh(self, name: str, suffix: str) -> str:
        name += suffix
        number = 2
        while name in self._taken:
            name = f"{name.rstrip('0123456789').rstrip('_')}_{number}"
            number += 1
        self._taken.add(name)
        return name

    def _rule(self, rule: int) -> list[str]:
        plan = self._plan
        body = plan.bodies[rule]
        name = self._rule_names[rule]
        if plan.is_terminal(body) or not isinstance(body, Choice) or not body.items:
            return _definition(name, [self._text(body, name, _CHOICE)])
        return _definition(
            name, [self._text(item, name, _SERIES) for item in plan.alternatives(body)]
        )

    def _text(self, root: Node, rule: str, tightness: int) -> str:
        """``root`` in the rule named ``rule``, in parentheses unless it binds that tight."""
        plan = self._plan
        stack = [(root, False)]
        while stack:
            node, finished = stack.pop()
            if node in self._spelled:
                continue
            if plan.is_terminal(node):
                self._spelled[node] = self._terminal(node, rule)
            elif isinstance(node, Reference):
                self._spelled[node] = self._rule_names[node.rule], _ATOM
            elif not finished:
                stack.append((node, True))
                stack.extend((part, False) for part in self._parts(node, False))
            else:
                self._spelled[node] = self._compose(node, self._parts(node, False), self._spelled)
        return _bracketed(self._spelled[root], tightness)

    def _compose(
        self, node: Node, parts: Sequence[Node], spelled: dict[Node, tuple[str, int]]
    ) -> tuple[str, int]:
        if isinstance(node, Choice):
            if not parts:
                return _NOTHING, _ATOM
            return " | ".join(_bracketed(spelled[part], _SERIES) for part in parts), _CHOICE
        if isinstance(node, Loop):
            item = _bracketed(spelled[node.item], _ATOM)
            return item + loop_suffix(node.low, node.high), _LOOP
        if not parts:
            return '""', _ATOM
        return " ".join(_bracketed(spelled[part], _SERIES) for part in parts), _SERIES

    def _terminal(self, node: Node, rule: str) -> tuple[str, int]:
        """A terminal where it stands in a rule."""
        if isinstance(node, Token):
            return self._token(node), _ATOM
        if isinstance(node, (Text, Chars)):
            return self._leaf(node), _ATOM
        name = self._terminal_names.get(node)
        if name is None:
            regex = self._regex(node)
            if regex is not None and len(regex) <= _REGEX_LINE:
                return f"/{regex}/", _ATOM
            name = self._terminal_names[node] = self._fresh(rule.upper(), "_1")
            self._pending.append((name, node))
        return name, _ATOM

    def _token(self, node: Token) -> str:
        tokens = node.tokens
        if tokens.ranges:
            return f"<[{'^' if tokens.negated else ''}{tokens.ranges[0][0]}]>"
        if tokens.negated or not _SPECIAL.fullmatch(tokens.names[0]):
            spelled = token_spelling(tokens)
            raise GrammarError(f"Lark has no spelling for the token {spelled}: use its number")
        return tokens.names[0]

    def _leaf(self, node: Text | Chars) -> str:
        if isinstance(node, Text):
            return text_spelling(node.value)
        return f"/{set_spelling(node.members, lark=True)}/"

    def _alternatives(self, body: Node) -> list[str]:
        """The alternatives of a terminal's body."""
        items = body.items if isinstance(body, Choice) and body.items else (body,)
        return [self._inside_text(item, _SERIES if len(items) > 1 else _CHOICE) for item in items]

    def _inside_text(self, root: Node, tightness: int) -> str:
        stack = [(root, False)]
        while stack:
            node, finished = stack.pop()
            if node in self._inside:
                continue
            if isinstance(node, (Text, Chars)):
                self._inside[node] = self._leaf(node), _ATOM
            elif isinstance(node, Reference):
                self._inside[node] = self._terminal_names[node], _ATOM
            elif not finished:
                stack.append((node, True))
                stack.extend((child, False) for child in children(node))
            else:
                self._inside[node] = self._compose(node, children(node), self._inside)
        return _bracketed(self._inside[root], tightness)

    def _regex(self, root: Node) -> str | None:
        """``root`` as one regex; None if it mentions rules or gets too long to read."""
        stack = [(root, False)]
        while stack:
            node, finished = stack.pop()
            if node in self._regexes:
                continue
            if not finished and not isinstance(node, Reference):
                stack.append((node, True))
                stack.extend((child, False) for child in children(node))
                continue
            regex = self._compose_regex(node)
            too_long = regex is not None and len(regex) > _REGEX_LINE
            self._regexes[node] = None if too_long else regex
        return self._regexes[root]

    def _compose_regex(self, node: Node) -> str | None:
        if isinstance(node, Text):
            return "".join(map(_regex_char, node.value))
        if isinstance(node, Chars):
            return set_spelling(node.members, lark=True)
        parts = [self._regexes[child] for child in children(node)]
        known = [part for part in parts if part is not None]
        if isinstance(node, (Reference, Token)) or not parts or len(known) < len(parts):
            return None
        if isinstance(node, Series):
            return "".join(known)
        if isinstance(node, Choice):
            return f"({'|'.join(known)})"
        assert isinstance(node, Loop)
        is_atom = isinstance(node.item, (Chars, Choice)) or (
            isinstance(node.item, Text) and len(node.item.value) == 1
        )
        return (known[0] if is_atom else f"({known[0]})") + loop_suffix(node.low, node.high)


def _bracketed(spelled: tuple[str, int], tightness: int) -> str:
    text, own = spelled
    return text if own >= tightness else f"({text})"


def _definition(name: str, alternatives: Sequence[str]) -> list[str]:
    whole = f"{name}: {' | '.join(alternatives)}"
    if len(whole) <= _LINE or len(alternatives) == 1:
        return [whole]
    return [f"{name}: {alternatives[0]}", *(f"    | {item}" for item in alternatives[1:])]


def _snake(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower().strip("_")
    return words if words[:1].isalpha() else f"r_{words}".rstrip("_")


def _regex_char(char: str) -> str:
    if char in _REGEX_SIGNS:
        return f"\\{char}"
    if char.isprintable():
        return char
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or f"\\u{{{ord(char):X}}}"
