"""Free text with constrained parts: structural tags, and reasoning before an answer.

Free text is any text without what ends it. Where that is text (a trigger, an end marker), free text
and marker are one terminal, which matches where the marker occurs for the first time::

    .* marker  &  ~(.* any-marker .+)

so nothing that it matches can be continued, and the longest match is the only one. Where it is a
token of the model, free text is a terminal by itself; no text can be confused with a token.

References: the structural tags of XGrammar and vLLM, and llguidance's, of which these are a
superset. Linear in the tags.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Union

from llgx import ir
from llgx._compiled import CompiledGrammar
from llgx.arguments import check_list, check_maximum, check_text
from llgx.composition import Composition
from llgx.errors import GrammarError
from llgx.regex import ANY_TEXT
from llgx.regex.build import alternate, complement, concat, intersect

if TYPE_CHECKING:
    from llgx.grammar import Grammar

__all__ = ["SpecialToken", "StructuralTag", "compile_reasoning", "compile_structural_tags"]

_ALL: Final = ir.Repeat(ir.ANY_BYTE, 0, None)
_MORE: Final = ir.Repeat(ir.ANY_BYTE, 1, None)
# How the texts of special tokens look: <think>, <|tool|>, [TOOL_CALLS].
_SPECIAL: Final = re.compile(r"(<[^<>\s]+>|\[[A-Z_/]+\])")


@dataclasses.dataclass(frozen=True)
class SpecialToken:
    """A token of the model, by the text of a special token or by its id."""

    token: str | int

    def __post_init__(self) -> None:
        if type(self.token) is int:
            if self.token < 0:
                raise ValueError(f"a token id is not negative, as {self.token} is")
        elif not isinstance(self.token, str):
            raise TypeError(f"a token is a str or an int, not {type(self.token).__name__}")
        elif not self.token:
            raise ValueError("the text of a token is not empty")

    @property
    def tokens(self) -> ir.TokenSet:
        """The token as the grammar knows it."""
        if isinstance(self.token, str):
            return ir.TokenSet(names=(self.token,))
        return ir.TokenSet(ranges=((self.token, self.token),))

    def __str__(self) -> str:
        return self.token if isinstance(self.token, str) else f"<[{self.token}]>"


Marker = Union[str, SpecialToken, "Sequence[str | SpecialToken]"]
Part = str | SpecialToken
Parts = tuple[Part, ...]


@dataclasses.dataclass(frozen=True)
class StructuralTag:
    """A part of free text that follows a grammar.

    ``begin`` and ``end`` stand around it: text, a token, or a sequence of both. Between them is
    what ``grammar`` says (a :class:`llgx.Grammar`, or its text in Lark after ``%llguidance``, or in
    GBNF), or a JSON text that ``schema`` describes, or with neither any text up to ``end``. Free
    text before the tag stops at ``trigger``, which ``begin`` starts with: by default its first
    part, all of it.
    """

    begin: Marker
    end: Marker
    grammar: Grammar | str | None = None
    schema: Any = None
    trigger: Part | None = None

    def __post_init__(self) -> None:
        for marker in (self.begin, self.end, self.trigger or ""):
            for part in _as_list(marker):
                if not isinstance(part, SpecialToken):
                    check_text(part, "a marker")
        if isinstance(self.grammar, CompiledGrammar) or not (
            self.grammar is None or isinstance(self.grammar, str) or hasattr(self.grammar, "ir")
        ):
            kind = type(self.grammar).__name__
            raise TypeError(f"the grammar of a structural tag is a Grammar or a str, not {kind}")
        if self.grammar is not None and self.schema is not None:
            raise GrammarError("a structural tag has a grammar or a schema, not both")


def compile_structural_tags(
    tags: Iterable[StructuralTag],
    content_of: Callable[[StructuralTag], ir.GrammarIR | None],
    *,
    triggers: Iterable[Part] = (),
    at_least_one: bool = False,
    stop_after_first: bool = False,
    excludes: Iterable[str] = (),
) -> ir.GrammarIR:
    """The grammar of free text with ``tags`` in it; see :meth:`llgx.Grammar.from_structural_tags`.

    ``content_of`` describes what stands in a tag, None for any text. Raises :class:`GrammarError`
    for tags that contradict themselves or each other.
    """
    check_list(triggers, "triggers", "texts and tokens")
    check_list(excludes, "excludes", "texts")
    by_trigger = _group(list(tags), [_part(trigger) for trigger in triggers])
    forbidden = [_text(text, "an excluded string") for text in excludes]
    texts = [trigger for trigger in by_trigger if isinstance(trigger, str)]
    _check_reachable(texts, forbidden)
    grammar = Composition()
    free = _FreeText(grammar, texts, forbidden)
    bodies: list[tuple[ir.Symbol, ...]] = []
    for trigger, group in by_trigger.items():
        beginnings = _Prefixes(rest[0] for _, rest in group if rest)
        rests = [
            _tag_symbols(grammar, tag, rest, beginnings, content_of(tag), stop_after_first)
            for tag, rest in group
        ]
        bodies.append((*free.up_to(trigger), grammar.rule("tag", rests)))
    one = grammar.rule("tags", bodies)
    if stop_after_first:
        ends: list[tuple[ir.Symbol, ...]] = [(one,)]
        if not at_least_one:
            ends.append((free.to_the_end(),))
        return grammar.finish(grammar.rule("start", ends))
    many = grammar.recursive("", (one,), least=int(at_least_one))
    return grammar.finish(grammar.rule("start", [(many, free.to_the_end())]))


def compile_reasoning(
    answer: ir.GrammarIR,
    *,
    end: Marker,
    begin: Marker = (),
    max_tokens: int | None = None,
) -> ir.GrammarIR:
    """Any text up to ``end``, then ``answer``; see :meth:`llgx.Grammar.with_reasoning`.

    Raises :class:`GrammarError` if ``end`` is empty.
    """
    first, rest = _first(_parts(end), "the end of the reasoning")
    check_maximum(max_tokens, "max_tokens")
    grammar = Composition()
    free = _FreeText(grammar, [first] if isinstance(first, str) else [], [])
    thought = free.up_to(first, max_tokens)
    symbols = [*_symbols(grammar, _parts(begin)), *thought, *_symbols(grammar, rest)]
    return grammar.finish(grammar.rule("start", [(*symbols, grammar.embed(answer))]))


class _FreeText:
    """Terminals of text that holds none of ``markers``, nor any of ``excludes``.

    ``plain`` is that text.
    """

    def __init__(
        self, grammar: Composition, markers: Sequence[str], excludes: Sequence[str]
    ) -> None:
        self._grammar = grammar
        self._markers = _any_of(markers)
        self._excludes = _any_of(excludes)
        self.plain = self._free(_any_of([*markers, *excludes]))

    @staticmethod
    def _free(forbidden: ir.Regex) -> ir.Regex:
        """Text without ``forbidden``."""
        if forbidden == ir.EMPTY:
            return ANY_TEXT
        return intersect((ANY_TEXT, complement(concat((_ALL, forbidden, _ALL)))))

    def to_the_end(self) -> ir.TerminalRef:
        """Free text, with nothing behind it but a token or the end."""
        return self._grammar.terminal(ir.Terminal("text", self.plain))

    def closed(self, marker: str) -> ir.Regex:
        """Free text and then ``marker``, for the first time."""
        return intersect(
            (
                concat((self._free(self._excludes), ir.Literal(marker.encode()))),
                complement(concat((_ALL, self._markers, _MORE))),
            )
        )

    def up_to(self, marker: Part, max_tokens: int | None = None) -> tuple[ir.Symbol, ...]:
        """Free text and the marker at its end."""
        grammar = self._grammar
        readings: list[tuple[ir.Symbol, ...]] = []
        for head, rest in _readings(grammar, marker):
            if not rest:
                name, regex = f'text "{head}"', self.closed(head)
            else:
                name, regex = "text", concat((self.plain, ir.Literal(head.encode())))
            text: ir.Symbol = grammar.terminal(ir.Terminal(name, regex))
            if max_tokens is not None:
                text = grammar.rule("text", [(text,)], max_tokens=max_tokens)
            readings.append((text, *rest))
        if max_tokens is not None and isinstance(marker, str):
            # Where the budget ends, the text does, wherever it is, and the marker follows: while
            # there is any left, the text goes on as long as it can, to the marker.
            cut = grammar.rule("text", [(self.to_the_end(),)], max_tokens=max_tokens)
            readings.append((cut, *_symbols(grammar, (marker,))))
        return grammar.either(readings)


def _any_of(texts: Sequence[str]) -> ir.Regex:
    return alternate([ir.Literal(text.encode()) for text in dict.fromkeys(texts)])


def _group(
    tags: Sequence[StructuralTag], triggers: Sequence[Part]
) -> dict[Part, list[tuple[StructuralTag, Parts]]]:
    """The tags of each trigger, and what is left of each one's beginning after it."""
    if not tags:
        raise GrammarError("there are no structural tags")
    for part in triggers:
        if not part:
            raise GrammarError("a trigger is empty")
    groups: dict[Part, list[tuple[StructuralTag, Parts]]] = {part: [] for part in triggers}
    common = _Prefixes(triggers)
    for tag in tags:
        first, rest = _first(_parts(tag.begin), "the beginning of a tag")
        own = () if tag.trigger is None else (_part(tag.trigger),)
        candidates = common if triggers and not own else _Prefixes(own or (first,))
        trigger = candidates.shortest_of(first)
        if trigger is None:
            known = ", ".join(repr(str(part)) for part in own or triggers)
            message = f"the beginning {str(first)!r} of a tag starts with none of the triggers"
            raise GrammarError(f"{message} {known}")
        if isinstance(trigger, str) and isinstance(first, str) and trigger != first:
            rest = (first[len(trigger) :], *rest)
        groups.setdefault(trigger, []).append((tag, rest))
    for part, group in groups.items():
        if not group:
            raise GrammarError(f"no tag begins with the trigger {str(part)!r}")
    return groups


class _Prefixes:
    """Texts and tokens that a marker may begin with; the empty text is none."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = {part for part in parts if part}
        self._lengths = sorted({len(part) for part in self._parts if isinstance(part, str)})

    def shortest_of(self, first: Part) -> Part | None:
        """The shortest one that ``first`` begins with."""
        return next(self.all_of(first), None)

    def all_of(self, first: Part) -> Iterator[Part]:
        """Those that ``first`` begins with, from the shortest to the longest."""
        if not isinstance(first, str):
            yield from (first,) if first in self._parts else ()
            return
        for length in itertools.takewhile(len(first).__ge__, self._lengths):
            if first[:length] in self._parts:
                yield first[:length]


def _check_reachable(triggers: Sequence[str], excludes: Sequence[str]) -> None:
    """Refuse triggers that no text can come to, since another one ends it before."""
    known = set(triggers)
    lengths = sorted({len(trigger) for trigger in triggers})
    for trigger in triggers:
        inner = (
            trigger[at : at + length]
            for length in itertools.takewhile(len(trigger).__gt__, lengths)
            for at in range(len(trigger) - length + 1)
        )
        other = next((text for text in inner if text in known), None)
        if other is not None:
            message = f"the trigger {trigger!r} can never be completed: {other!r} ends the text"
            raise GrammarError(f"{message} within it")
    if "" in excludes:
        raise GrammarError("an excluded string is empty")


def _tag_symbols(
    grammar: Composition,
    tag: StructuralTag,
    begin: Parts,
    beginnings: _Prefixes,
    content: ir.GrammarIR | None,
    is_last: bool,
) -> tuple[ir.Symbol, ...]:
    """What follows the trigger of a tag; ``begin`` is what is left of its beginning.

    A content that is one terminal forms one with the texts around it, which ends at the first place
    where it can unless the whole text does: the content may hold the end of the tag, or begin like
    it. Before any other content, the beginning is cut where another one of ``beginnings`` ends: the
    two are the same lexeme up to that place, and none is taken for the beginning of the other.
    """
    end = _parts(tag.end)
    if content is None:
        first, after = _first(end, "the end of a tag without a grammar")
        free = _FreeText(grammar, [first] if isinstance(first, str) else [], [])
        if isinstance(first, SpecialToken):
            around = (*free.up_to(first), *_symbols(grammar, after))
            return (*_cut(grammar, begin, beginnings), *around)
        closed, name = free.closed(first), "text"
        inside = free.plain
        is_lazy = False
    else:
        single = _single_terminal(content)
        if single is None or not end or isinstance(end[0], SpecialToken):
            around = (grammar.embed(content), *_symbols(grammar, end))
            return (*_cut(grammar, begin, beginnings), *around)
        first, after = end[0], end[1:]
        inside, name = single.regex, single.name
        closed = concat((inside, ir.Literal(first.encode())))
        is_lazy = not is_last
    before = ""
    if begin and isinstance(begin[-1], str) and not _SPECIAL.search(begin[-1]):
        before, begin = begin[-1], begin[:-1]
    readings: list[tuple[ir.Symbol, ...]] = []
    for head, rest in _readings(grammar, first):
        regex = concat((inside, ir.Literal(head.encode()))) if rest else closed
        terminal = ir.Terminal(
            f'{name} "{head}"' if head else name,
            concat((ir.Literal(before.encode()), regex)),
            lazy=is_lazy and not rest,
        )
        readings.append((grammar.terminal(terminal), *rest))
    around = (*grammar.either(readings), *_symbols(grammar, after))
    return (*_cut(grammar, begin, beginnings), *around)


def _cut(grammar: Composition, begin: Parts, others: _Prefixes) -> tuple[ir.Symbol, ...]:
    if not begin or not isinstance(begin[0], str):
        return _symbols(grammar, begin)
    text = begin[0]
    cuts = {len(other) for other in others.all_of(text) if isinstance(other, str)} | {0, len(text)}
    pieces = tuple(text[a:b] for a, b in itertools.pairwise(sorted(cuts)))
    return _symbols(grammar, (*pieces, *begin[1:]))


def _single_terminal(content: ir.GrammarIR) -> ir.Terminal | None:
    """The plain terminal that ``content`` is, if it is nothing but one."""
    rule = content.rules[content.start]
    if len(rule.productions) != 1 or rule.capture is not None or rule.max_tokens is not None:
        return None
    symbols = rule.productions[0].symbols
    if len(symbols) != 1 or not isinstance(symbols[0], ir.TerminalRef):
        return None
    terminal = content.terminals[symbols[0].index]
    plain = ir.Terminal(terminal.name, terminal.regex, skip_class=terminal.skip_class)
    is_skipped_before = content.initial_skip and content.skip[terminal.skip_class] >= 0
    return (
        plain
        if terminal == plain and not is_skipped_before and content.max_tokens is None
        else None
    )


def _symbols(grammar: Composition, parts: Parts) -> tuple[ir.Symbol, ...]:
    """``parts`` one after the other."""
    symbols: list[ir.Symbol] = []
    for part in parts:
        symbols += grammar.either(
            [(*_literal(grammar, head), *rest) for head, rest in _readings(grammar, part)]
        )
    return tuple(symbols)


def _literal(grammar: Composition, text: str) -> tuple[ir.Symbol, ...]:
    if not text:
        return ()
    return (grammar.terminal(ir.Terminal(f'"{text}"', ir.Literal(text.encode()))),)


def _token(grammar: Composition, tokens: ir.TokenSet, name: str) -> ir.TerminalRef:
    return grammar.terminal(ir.Terminal(name, ir.EMPTY, tokens=tokens))


def _readings(grammar: Composition, marker: Part) -> list[tuple[str, tuple[ir.Symbol, ...]]]:
    """How the model may write ``marker``: as text, and then what follows it.

    What looks like special tokens can be these, if the vocabulary has them.
    """
    if isinstance(marker, SpecialToken):
        return [("", (_token(grammar, marker.tokens, str(marker)),))]
    pieces = _SPECIAL.split(marker)
    if len(pieces) == 1:
        return [(marker, ())]
    rest: list[ir.Symbol] = []
    for special, text in zip(pieces[1::2], pieces[2::2], strict=True):
        tokens = ir.TokenSet(names=(special,), optional=True)
        rest += (_token(grammar, tokens, special), *_literal(grammar, text))
    return [(marker, ()), (pieces[0], tuple(rest))]


def _first(parts: Parts, what: str) -> tuple[Part, Parts]:
    if not parts:
        raise GrammarError(f"{what} is empty")
    return parts[0], parts[1:]


def _parts(marker: Marker) -> Parts:
    """``marker`` as a sequence, texts next to each other joined, empty ones left out."""
    parts: list[Part] = []
    for item in _as_list(marker):
        part = _part(item)
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part:
            parts.append(part)
    return tuple(parts)


def _as_list(marker: Marker) -> Iterable[Any]:
    if isinstance(marker, (str, SpecialToken)):
        return (marker,)
    return check_list(marker, "the parts of a marker", "texts and tokens")


def _part(part: Any) -> Part:
    return part if isinstance(part, SpecialToken) else _text(part, "a marker")


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise GrammarError(f"{what} holds a lone surrogate, which is no character") from None
    return text
