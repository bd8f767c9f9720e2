"""Sets of strings, exactly: patterns, lengths, formats, single strings, and Boolean combinations.

A :class:`StringSet` is a set of Unicode texts without surrogates, described symbolically. Most sets
in schemas never need an automaton: all strings, a few, all but a few (the other keys of an object),
those of some length. Only what is left asks :class:`llgx._language.Language`, whose answers are
exact and kept with the set.

Invariant: sets are interned. The same description gives the same object, so that comparing and
hashing cost nothing; what the same set is described by otherwise is another object. A description
is a conjunction (of leaves and their complements, disjunctions, a length, strings left out) or a
disjunction of such.

Cost: some microseconds for an operation without the automaton; the automaton's work is bounded by
``Limits.emptiness_steps`` and ends in :class:`LimitError`.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from llgx import ir
from llgx._language import Language
from llgx.forks import guarded
from llgx.json_schema import content
from llgx.json_schema.quoting import StringSpelling, quote, quote_text
from llgx.regex import parse_ecma
from llgx.regex.build import alternate, complement, intersect, open_end
from llgx.regex.utf8 import ANY_TEXT

__all__ = ["StringSet", "StringSpelling", "nonempty_cells"]

_NO_STRINGS: Final[frozenset[str]] = frozenset()
_DEFAULT: Final = StringSpelling()
_SHORT: Final = 100
# Strings that many sets hold which are told by what they leave out.
_TRIED: Final = ("", "a", "0", "Ab")
# Patterns that any string matches and that schemas have.
_UNIVERSAL: Final = frozenset(("", ".*", "^", "$", "^.*", ".*$", "[\\s\\S]*", "^[\\s\\S]*$"))


class _Leaf:
    """A regex over content that is built when first needed; interned by what it came from."""

    __slots__ = (
        "__weakref__",
        "_bounded",
        "_build",
        "_language",
        "_prefix",
        "_tree",
        "key",
    )

    def __init__(self, key: tuple[str, object], build: Callable[[], ir.Regex]) -> None:
        self.key = key
        self._build = build
        self._tree: ir.Regex | None = None
        self._bounded: tuple[int, int | None, ir.Regex | None] | None = None
        self._language: Language | None = None
        self._prefix: bytes | None = None

    @property
    def prefix(self) -> bytes:
        """The UTF-8 that each of its strings begins with, as far as that is plain to see."""
        if self._prefix is None:
            self._prefix = content.literal_prefix(self.tree)
        return self._prefix

    @property
    def tree(self) -> ir.Regex:
        if self._tree is None:
            self._tree = self._build()
        return self._tree

    def with_length(self, low: int, high: int | None) -> ir.Regex | None:
        """As :func:`content.with_length`; the last answer is kept."""
        kept = self._bounded
        if kept is None or kept[0] != low or kept[1] != high:
            kept = self._bounded = (low, high, content.with_length(self.tree, low, high))
        return kept[2]

    def matches(self, data: bytes) -> bool:
        if self._language is None:
            self._language = Language((self.tree,))
        return self._language.matches(0, data)


class StringSet:
    """A set of Unicode strings; made by the class methods, not by the constructor.

    Strings that belong to every set of ``_every`` (leaves, or sets that are disjunctions) and to no
    leaf of ``_none``, of ``_low`` to ``_high`` characters, without ``_excluded``; or one of
    ``_finite``; or in one of ``_any``.
    """

    __slots__ = (
        "__weakref__",
        "_any",
        "_every",
        "_excluded",
        "_finite",
        "_high",
        "_is_empty",
        "_low",
        "_none",
        "_quoted",
        "_rank",
        "_tree",
    )

    ANY: ClassVar[StringSet]
    NONE: ClassVar[StringSet]

    _finite: frozenset[str] | None
    _any: frozenset[StringSet] | None
    _every: frozenset[_Leaf | StringSet]
    _none: frozenset[_Leaf]
    _low: int
    _high: int | None
    _excluded: frozenset[str]
    _tree: ir.Regex | None
    _is_empty: bool | None
    _quoted: dict[StringSpelling, ir.Regex]
    _rank: tuple[Any, ...] | None

    def __init__(self) -> None:
        raise TypeError("StringSet is made by its class methods, for instance StringSet.of")

    # Construction

    @classmethod
    def of(cls, values: Iterable[str]) -> StringSet:
        """Just ``values``; those with a lone surrogate are no Unicode strings and are left out."""
        return _finite_set(frozenset(filter(_is_text, values)))

    @classmethod
    def pattern(cls, text: str) -> StringSet:
        """The strings with a match of ``text``, a regex of ECMA-262 (:mod:`llgx.regex.ecma`).

        Raises ``GrammarError`` and ``LimitError`` as :func:`llgx.regex.parse_ecma` does.
        """
        return _pattern_set(text)

    @classmethod
    def length(cls, low: int, high: int | None) -> StringSet:
        """The strings of ``low`` to ``high`` code points (None: no bound)."""
        low = max(low, 0)
        if high is not None and high < low:
            return _NONE
        return _meet_set(low=low, high=high)

    @classmethod
    def from_regex(cls, regex: ir.Regex) -> StringSet:
        """The strings whose UTF-8 ``regex`` matches; what it matches beside text is ignored."""

        def build() -> ir.Regex:
            return regex if content.is_plainly_inhabited(regex) else intersect((ANY_TEXT, regex))

        return _meet_set(frozenset((_leaf(("regex", next(_SERIALS)), build),)))

    @classmethod
    def lazily(cls, name: str, build: Callable[[], ir.Regex]) -> StringSet:
        """As :meth:`from_regex`, built when it is first needed; one set for each ``name``."""
        return _meet_set(frozenset((_leaf(("format", name), build),)))

    # Algebra

    def meet(self, *others: StringSet) -> StringSet:
        """The strings in all of the sets."""
        result = self
        for other in others:
            if other is _ANY or other is result:
                continue
            result = other if result is _ANY else result._meet(other)
        return result

    def _meet(self, other: StringSet) -> StringSet:
        if self._finite is not None:
            return _finite_set(frozenset(filter(other.contains, self._finite)))
        if other._finite is not None:
            return other._meet(self)
        every = self._conjuncts() | other._conjuncts()
        none = self._none | other._none
        if not every.isdisjoint(none):
            return _NONE
        excluded = self._excluded | other._excluded
        if every and (none or excluded or len(every) > 1):
            prefix = _common_prefix(every)
            if prefix is None:
                return _NONE
            if prefix:
                # What begins otherwise is outside as it is.
                none = frozenset(leaf for leaf in none if _may_begin(leaf.prefix, prefix))
                excluded = frozenset(text for text in excluded if text.encode().startswith(prefix))
        low = max(self._low, other._low)
        high = self._high
        if high is None or (other._high is not None and other._high < high):
            high = other._high
        if high is not None and high < low:
            return _NONE
        return _meet_set(every, none, low, high, excluded)

    def _conjuncts(self) -> frozenset[_Leaf | StringSet]:
        return self._every if self._any is None else frozenset((self,))

    def join(self, *others: StringSet) -> StringSet:
        """The strings in any of the sets."""
        parts: set[StringSet] = set()
        values: set[str] = set()
        for part in (self, *others):
            if part is _ANY:
                return _ANY
            for item in part._any or (part,):
                if item._finite is None:
                    parts.add(item)
                else:
                    values |= item._finite
        return _joined(parts, values)

    def complement(self) -> StringSet:
        """The strings that are not in the set."""
        if self._finite is not None:
            return _meet_set(excluded=self._finite)
        if self._any is not None:
            return _ANY.meet(*[part.complement() for part in _ordered(self._any)])
        parts: list[StringSet] = []
        for item in _ordered(self._every):
            if isinstance(item, StringSet):
                parts.append(item.complement())
            else:
                parts.append(_meet_set(none=frozenset((item,))))
        parts += [_meet_set(frozenset((leaf,))) for leaf in _ordered(self._none)]
        if self._low:
            parts.append(StringSet.length(0, self._low - 1))
        if self._high is not None:
            parts.append(StringSet.length(self._high + 1, None))
        parts.append(_finite_set(self._excluded))
        return _NONE.join(*parts)

    # Questions

    @property
    def is_any(self) -> bool:
        """Whether the description is that of all strings."""
        return self is _ANY

    @property
    def values(self) -> frozenset[str] | None:
        """The strings of the set if they are listed one by one, else None."""
        return self._finite

    @property
    def excluded(self) -> frozenset[str] | None:
        """What all strings but a few are without; None for another kind of set."""
        plain = self._finite is None and self._any is None and not self._every and not self._none
        return self._excluded if plain and self._low == 0 and self._high is None else None

    def contains(self, text: str) -> bool:
        """Whether ``text`` is in the set. Linear in the text."""
        if self._finite is not None:
            return text in self._finite
        if not text.isascii() and not _is_text(text):
            return False
        if self._any is None and not self._every and not self._none:
            return (
                self._low <= len(text)
                and (self._high is None or len(text) <= self._high)
                and text not in self._excluded
            )
        return self._contains(text, text.encode())

    def _contains(self, text: str, data: bytes) -> bool:
        if self._finite is not None:
            return text in self._finite
        if self._any is not None:
            return any(part._contains(text, data) for part in self._any)
        if len(text) < self._low or (self._high is not None and len(text) > self._high):
            return False
        if text in self._excluded or any(leaf.matches(data) for leaf in self._none):
            return False
        return all(
            item._contains(text, data) if isinstance(item, StringSet) else item.matches(data)
            for item in self._every
        )

    def is_empty(self) -> bool:
        """Whether no string is in the set. Exact; kept. Raises ``LimitError`` beyond the budget."""
        if self._is_empty is None:
            self._is_empty = self._find_empty()
        return self._is_empty

    def _find_empty(self) -> bool:
        if self._finite is not None:
            return not self._finite
        if self._any is not None:
            return all(part.is_empty() for part in _ordered(self._any))
        if not self._every and not self._none:
            # Fewer strings are left out than there are of two characters.
            if self._high is None or self._high > 1:
                return False
            if self._high == 0:
                return "" in self._excluded
        if len(self._every) == 1 and not self._none and not self._excluded:
            # One leaf, and a length perhaps: what is asked of its tree is seen without a search.
            (only,) = self._every
            bounded: ir.Regex | None = only.tree
            if isinstance(only, _Leaf) and (self._low or self._high is not None):
                bounded = only.with_length(self._low, self._high)
            elif self._low or self._high is not None:
                bounded = None
            if bounded is not None and content.is_plainly_inhabited(bounded):
                return False
        if any(self._contains(text, text.encode()) for text in _TRIED):
            return False
        if content.is_plainly_inhabited(self.tree):
            return False
        if self._high is not None and self._high > self._low + _SHORT:
            # Sets that have long strings mostly have short ones, which are found sooner.
            short = self._meet(StringSet.length(self._low, self._low + _SHORT))
            if not short.is_empty():
                return False
        return Language((self.tree,)).is_empty((0,))

    def is_disjoint(self, other: StringSet) -> bool:
        """Whether no string is in both. As :meth:`is_empty`."""
        return self.meet(other).is_empty()

    def enumerate(self, limit: int) -> list[str] | None:
        """The strings of the set in order of their UTF-8 length, then of their UTF-8.

        None if there are more than ``limit``. Raises ``LimitError`` beyond the budget.
        """
        if self._finite is not None:
            if len(self._finite) > limit:
                return None
            return sorted(self._finite, key=lambda text: (len(text.encode()), text.encode()))
        if self.excluded is not None:
            return None
        found = Language((self.tree,)).enumerate((0,), (), limit)
        return None if found is None else [data.decode() for data in found]

    # Regexes

    @property
    def tree(self) -> ir.Regex:
        """The regex over the UTF-8 of the strings. Kept."""
        if self._tree is None:
            self._tree = self._make_tree()
        return self._tree

    def _make_tree(self) -> ir.Regex:
        if self._finite is not None:
            return alternate(ir.Literal(text.encode()) for text in sorted(self._finite))
        if self._any is not None:
            return alternate(part.tree for part in _ordered(self._any))
        items: list[ir.Regex] = []
        counted = self._low == 0 and self._high is None
        for item in _ordered(self._every):
            tree = item.tree
            if not counted:
                if isinstance(item, _Leaf):
                    bounded = item.with_length(self._low, self._high)
                else:
                    bounded = content.with_length(tree, self._low, self._high)
                if bounded is not None:
                    tree, counted = bounded, True
            items.append(tree)
        if not counted or not items:
            items.insert(0, content.of_length(self._low, self._high))
        elif _is_search(items[0]):
            # Once the match is found, what is left is any text, as in a plain string.
            items.insert(0, ANY_TEXT)
        # The first keeps to text; the others need not.
        items[1:] = [open_end(tree, ANY_TEXT) for tree in items[1:]]
        items += [complement(open_end(leaf.tree, ANY_TEXT)) for leaf in _ordered(self._none)]
        if self._excluded:
            words = [ir.Literal(text.encode()) for text in sorted(self._excluded)]
            items.append(complement(words[0] if len(words) == 1 else ir.Alternation(tuple(words))))
        return intersect(items)

    def quoted(self, spelling: StringSpelling = _DEFAULT) -> ir.Regex:
        """The JSON texts of the strings, quotes included. Kept."""
        known = self._quoted.get(spelling)
        if known is None:
            if self._finite is not None:
                known = alternate(quote_text(text, spelling) for text in sorted(self._finite))
            else:
                known = quote(self.tree, spelling)
            self._quoted[spelling] = known
        return known

    def __repr__(self) -> str:
        return f"<StringSet {_describe(self, 3)}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a StringSet cannot be pickled: it is known by identity")


def nonempty_cells(sets: Sequence[StringSet]) -> list[tuple[tuple[int, ...], StringSet]]:
    """The strings by which of ``sets`` they are in, for every combination that some string has.

    Each cell is the indexes of the sets that it lies in, and the cell itself. Cells are found by
    refining, so the work is in proportion to those that exist times the number of sets.
    """
    cells: list[tuple[tuple[int, ...], StringSet]] = [((), _ANY)]
    for index, members in enumerate(sets):
        others = members.complement()
        refined: list[tuple[tuple[int, ...], StringSet]] = []
        for inside, cell in cells:
            both = cell.meet(members)
            rest = cell.meet(others)
            if not both.is_empty():
                refined.append(((*inside, index), both))
            if not rest.is_empty():
                refined.append((inside, rest))
        cells = refined
    return cells


# --- Interning ---------------------------------------------------------------------------------

_LOCK: Final = guarded(threading.Lock())
_SERIALS: Final[Iterator[int]] = itertools.count()
_SETS: Final[weakref.WeakValueDictionary[object, StringSet]] = weakref.WeakValueDictionary()
_LEAVES: Final[weakref.WeakValueDictionary[object, _Leaf]] = weakref.WeakValueDictionary()


def _leaf(key: tuple[str, object], build: Callable[[], ir.Regex]) -> _Leaf:
    with _LOCK:
        known = _LEAVES.get(key)
        if known is None:
            known = _LEAVES[key] = _Leaf(key, build)
        return known


def _interned(
    finite: frozenset[str] | None,
    any_: frozenset[StringSet] | None = None,
    every: frozenset[_Leaf | StringSet] = frozenset(),
    none: frozenset[_Leaf] = frozenset(),
    low: int = 0,
    high: int | None = None,
    excluded: frozenset[str] = _NO_STRINGS,
) -> StringSet:
    key = (finite, any_, every, none, low, high, excluded)
    with _LOCK:
        known = _SETS.get(key)
        if known is not None:
            return known
        result = object.__new__(StringSet)
        result._finite, result._any, result._every, result._none = finite, any_, every, none
        result._low, result._high, result._excluded = low, high, excluded
        result._tree = result._is_empty = None
        result._quoted = {}
        result._rank = None
        _SETS[key] = result
        return result


@functools.lru_cache(maxsize=2048)
def _pattern_set(text: str) -> StringSet:
    if text in _UNIVERSAL:
        return _ANY
    tree = parse_ecma(text)
    if _is_universal(tree):
        return _ANY
    listed = content.literals(tree)
    if listed is not None:
        return StringSet.of(data.decode() for data in listed)
    return _meet_set(frozenset((_leaf(("pattern", text), lambda: tree),)))


def _finite_set(values: frozenset[str]) -> StringSet:
    return _interned(values)


def _meet_set(
    every: frozenset[_Leaf | StringSet] = frozenset(),
    none: frozenset[_Leaf] = frozenset(),
    low: int = 0,
    high: int | None = None,
    excluded: frozenset[str] = _NO_STRINGS,
) -> StringSet:
    if excluded and (low or high is not None):
        excluded = frozenset(
            text for text in excluded if low <= len(text) and (high is None or len(text) <= high)
        )
    if len(every) == 1 and not (none or low or excluded) and high is None:
        (only,) = every
        if isinstance(only, StringSet):
            return only
    return _interned(None, None, every, none, low, high, excluded)


def _joined(parts: set[StringSet], values: set[str]) -> StringSet:
    """The union of ``parts``, which are no finite sets and no unions, and ``values``."""
    lengths: list[tuple[int, int | None]] = []
    for part in tuple(parts):
        if part._every or part._none:
            continue
        if part._excluded:
            others = parts - {part}
            left = {
                text
                for text in part._excluded - values
                if not any(other.contains(text) for other in others)
            }
            parts.discard(part)
            parts.add(_meet_set(low=part._low, high=part._high, excluded=frozenset(left)))
            if not left and part._low == 0 and part._high is None:
                return _ANY
            if part._low == 0 and part._high is None:
                return _meet_set(excluded=frozenset(left))
    for part in tuple(parts):
        if not (part._every or part._none or part._excluded):
            lengths.append((part._low, part._high))
            parts.discard(part)
    for low, high in _merged(lengths):
        parts.add(_meet_set(low=low, high=high))
    literals = [part for part in parts if _is_literal(part)]
    wanted = {leaf for part in literals for leaf in part._every}
    if _ANY in parts or any(not wanted.isdisjoint(part._none) for part in literals):
        return _ANY
    values = {text for text in values if not any(part.contains(text) for part in parts)}
    if not parts:
        return _finite_set(frozenset(values))
    if values:
        parts.add(_finite_set(frozenset(values)))
    if len(parts) == 1:
        return next(iter(parts))
    return _interned(None, frozenset(parts))


def _is_literal(part: StringSet) -> bool:
    """Whether ``part`` is one leaf or the complement of one."""
    alone = part._low == 0 and part._high is None and not part._excluded
    return alone and len(part._every) + len(part._none) == 1


def _merged(lengths: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    merged: list[tuple[int, int | None]] = []
    for low, high in sorted(lengths, key=lambda item: item[0]):
        if merged:
            before_low, before = merged[-1]
            if before is None:
                break
            if low <= before + 1:
                merged[-1] = (before_low, None if high is None else max(before, high))
                continue
        merged.append((low, high))
    return merged


def _common_prefix(every: Iterable[_Leaf | StringSet]) -> bytes | None:
    """What the strings of all of ``every`` begin with; None where that cannot be."""
    common = b""
    for item in every:
        if isinstance(item, _Leaf):
            if not _may_begin(item.prefix, common):
                return None
            common = max(common, item.prefix, key=len)
    return common


def _may_begin(one: bytes, other: bytes) -> bool:
    """Whether a text can begin with both."""
    return one.startswith(other) or other.startswith(one)


def _ordered(items: Iterable[_Leaf | StringSet]) -> list[Any]:
    return sorted(items, key=_rank)


def _rank(item: _Leaf | StringSet) -> tuple[Any, ...]:
    """An order that depends on descriptions alone, not on what has been made before."""
    if isinstance(item, _Leaf):
        return (0, item.key)
    if item._rank is None:
        parts = (item._any, item._every, item._none)
        item._rank = (
            1,
            *(tuple(map(_rank, _ordered(part or ()))) for part in parts),
            item._low,
            -1 if item._high is None else item._high,
            sorted(item._excluded),
            sorted(item._finite or ()),
        )
    return item._rank


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_universal(tree: ir.Regex) -> bool:
    """Whether ``tree``, of valid text only, is any text next to what may be missing."""
    items = tree.items if isinstance(tree, ir.Concat) else (tree,)
    return any(item is ANY_TEXT or item == ANY_TEXT for item in items) and all(
        isinstance(item, ir.Repeat) and not item.low for item in items
    )


def _is_search(tree: ir.Regex) -> bool:
    """Whether ``tree`` looks for something with any text before and after it."""
    return isinstance(tree, ir.Concat) and tree.items[0] == tree.items[-1] == ANY_TEXT


def _describe(part: StringSet, depth: int) -> str:
    if part._finite is not None:
        return "{" + ", ".join(map(repr, sorted(part._finite)[:5])) + "}"
    if not depth:
        return "..."
    if part._any is not None:
        return " | ".join(f"({_describe(item, depth - 1)})" for item in _ordered(part._any))
    words: list[str] = []
    for item in _ordered(part._every):
        words.append(
            f"({_describe(item, depth - 1)})" if isinstance(item, StringSet) else _name(item)
        )
    words += [f"~{_name(leaf)}" for leaf in _ordered(part._none)]
    if part._low or part._high is not None:
        words.append(f"length {part._low} to {'any' if part._high is None else part._high}")
    if part._excluded:
        words.append("~{" + ", ".join(map(repr, sorted(part._excluded)[:5])) + "}")
    return " & ".join(words) or "any"


def _name(leaf: _Leaf) -> str:
    return f"{leaf.key[0]} {leaf.key[1]!r}"


_ANY: Final = _interned(None)
_NONE: Final = _interned(_NO_STRINGS)
StringSet.ANY = _ANY
StringSet.NONE = _NONE
