"""unevaluatedProperties and unevaluatedItems without annotations.

What such a keyword applies to depends on which of the subschemas beside it succeed. A schema is
taken apart into *outcomes*: pairs of a formula and the names and items that have been evaluated
when the formula holds. Evaluating more only ever asks less of a value. So an outcome of ``anyOf``
may leave it open whether the other branches hold: no branch has to be negated for it (for the
general problem see Baazizi et al., "Elimination of annotation dependencies in validation for Modern
JSON Schema"). Outcomes with the same evaluated places are joined; there are at most 64 of them,
since ``anyOf`` of k branches can have 2^k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from llgx.json_schema import constraints
from llgx.json_schema.dialects import BASE
from llgx.json_schema.meet import make_array
from llgx.json_schema.normal import (
    KIND_ANY,
    KIND_NEVER,
    Cell,
    ObjectGroup,
    Place,
    Schema,
    pointer_of,
)
from llgx.json_schema.strings import StringSet

if TYPE_CHECKING:
    from llgx.json_schema.keywords import Translator
    from llgx.json_schema.references import Scope

__all__ = ["schema"]

_KEYWORDS: Final = ("unevaluatedItems", "unevaluatedProperties")
_MOST_OUTCOMES: Final = 64
_DEEPEST: Final = 40


@dataclasses.dataclass(frozen=True, slots=True)
class _Evaluated:
    """Members with ``names``, the first ``items`` items (None: all) and those in ``contained``."""

    names: StringSet = StringSet.NONE
    items: int | None = 0
    contained: frozenset[Schema] = frozenset()

    def joined(self, other: _Evaluated) -> _Evaluated:
        if self == other or other is _NOTHING:
            return self
        if self is _NOTHING:
            return other
        items = None
        if self.items is not None and other.items is not None:
            items = max(self.items, other.items)
        names = self.names if self.names == other.names else self.names.join(other.names)
        contained = frozenset() if items is None else self.contained | other.contained
        return _Evaluated(names, items, contained)


_NOTHING: Final = _Evaluated()
_Outcomes = dict[_Evaluated, Schema]


def schema(t: Translator, value: Mapping[str, Any], place: Place, scope: Scope) -> Schema:
    """The formula of a schema object with one of the two keywords."""
    try:
        outcomes = _Outcome(t).of_object(value, place, scope)
    except _TooMany as error:
        keyword = next(name for name in _KEYWORDS if name in value)
        t.unenforced(place, keyword, str(error))
        rest = {name: item for name, item in value.items() if name not in _KEYWORDS}
        return t.object_schema(rest, place, scope)
    return t.algebra.either(*outcomes.values(), place=place)


class _TooMany(Exception):
    """More outcomes than are told apart, or deeper ones."""


class _Outcome:
    """Takes schemas apart; ``_active`` are those being taken apart, which refer to themselves."""

    def __init__(self, t: Translator) -> None:
        self._t = t
        self._active: set[int] = set()

    def of(self, value: Any, place: Place, scope: Scope) -> _Outcomes:
        """The outcomes of the schema ``value``."""
        if not isinstance(value, Mapping):
            return {_NOTHING: self._t.schema(value, place, scope)}
        if id(value) in self._active:
            return {}  # the least set that satisfies its own equation
        if len(self._active) >= _DEEPEST:
            raise _TooMany(
                f"it would have to look through more than {_DEEPEST} schemas inside one another"
            )
        self._active.add(id(value))
        try:
            known = scope.dialect.keywords
            if scope.dialect.draft <= 7 and "$ref" in value and "$ref" in known:
                return self._of_reference("$ref", value, place, scope)
            if place is not None:
                scope = self._t.enter(value, scope)
            return self.of_object(value, place, scope)
        finally:
            self._active.discard(id(value))

    def of_object(self, value: Mapping[str, Any], place: Place, scope: Scope) -> _Outcomes:
        """The outcomes of a schema object, ``scope`` being the one inside it."""
        t = self._t
        self._active.add(id(value))
        known = scope.dialect.keywords
        seen = 0
        for keyword in value:
            seen |= known.get(keyword, 0)
        current: _Outcomes = {_NOTHING: t.algebra.any}
        has_base = not seen & BASE
        has_properties = "properties" in value and "properties" in known
        for keyword in value:
            bits = known.get(keyword, 0)
            if bits & BASE:
                if not has_base and (keyword == "properties" or not has_properties):
                    has_base = True
                    base = t.base(value, seen, place, scope)
                    mine = {self._evaluated(value, place, scope): base}
                    current = self._product(current, mine)
            elif bits and keyword not in _KEYWORDS:
                options = self._of_applicator(keyword, value, place, scope)
                current = self._product(current, options)
        for keyword, close in zip(_KEYWORDS, (self._close_items, self._close_members), strict=True):
            if keyword in value and keyword in known:
                rest = t.schema(value[keyword], (place, keyword), scope)
                current = self._joined(close(part, done, rest) for done, part in current.items())
        return current

    def _close_members(
        self, part: Schema, done: _Evaluated, rest: Schema
    ) -> tuple[_Evaluated, Schema]:
        algebra = self._t.algebra
        everything = dataclasses.replace(done, names=StringSet.ANY)
        if rest.kind == KIND_ANY or done.names.is_any:
            return everything, part
        cells = [Cell(done.names.complement(), rest), Cell(done.names, algebra.any)]
        group = ObjectGroup(
            (), tuple(c for c in cells if c.schema.kind != KIND_NEVER and not c.names.is_empty())
        )
        closed = algebra.leaf((*algebra.any_groups[:-1], group))
        return everything, algebra.both(part, closed)

    def _close_items(
        self, part: Schema, done: _Evaluated, rest: Schema
    ) -> tuple[_Evaluated, Schema]:
        algebra = self._t.algebra
        everything = _Evaluated(done.names, None)
        if rest.kind == KIND_ANY or done.items is None:
            return everything, part
        rest = algebra.either(rest, *sorted(done.contained, key=lambda s: pointer_of(s.place)))
        group = make_array(algebra, [algebra.any] * done.items, rest)
        assert group is not None
        groups = [*algebra.any_groups[:4], group, algebra.any_groups[5]]
        return everything, algebra.both(part, algebra.leaf(groups))

    def _evaluated(self, value: Mapping[str, Any], place: Place, scope: Scope) -> _Evaluated:
        """What the keywords of ``value`` itself evaluate."""
        t = self._t
        known = scope.dialect.keywords
        names: list[StringSet] = []
        if "properties" in known:
            if "properties" in value:
                names.append(StringSet.of(value["properties"]))
            for pattern in value.get("patternProperties", ()):
                names.append(constraints.pattern_set(t, pattern, place, "patternProperties"))
            if "additionalProperties" in value:
                names = [StringSet.ANY]
        items: int | None = 0
        contained: frozenset[Schema] = frozenset()
        if "items" in known:
            listed = value.get("prefixItems") if "prefixItems" in known else None
            found = value.get("items")
            if "items" in value:
                if isinstance(found, (list, tuple)):
                    items = None if "additionalItems" in value else len(found)
                else:
                    items = None
            if listed is not None and items is not None:
                items = max(items, len(listed))
        if "contains" in value and "contains" in known and scope.dialect.draft >= 2020:
            contained = frozenset((t.schema(value["contains"], (place, "contains"), scope),))
        return _Evaluated(
            StringSet.NONE.join(*names) if names else StringSet.NONE, items, contained
        )

    # Applicators

    def _of_applicator(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> _Outcomes:
        t = self._t
        inside = (place, keyword)
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return self._of_reference(keyword, value, place, scope)
        if keyword in ("allOf", "anyOf", "oneOf"):
            branches = t.schemas(value, keyword, place)
            each = [self.of(branch, (inside, i), scope) for i, branch in enumerate(branches)]
            if keyword == "allOf":
                current: _Outcomes = {_NOTHING: t.algebra.any}
                for outcomes in each:
                    current = self._product(current, outcomes)
                return current
            if keyword == "anyOf":
                return self._any_of(each)
            schemas = [t.schema(branch, (inside, i), scope) for i, branch in enumerate(branches)]
            return self._one_of(each, schemas)
        if keyword == "if":
            return self._if(value, place, scope)
        if keyword in ("dependentSchemas", "dependencies"):
            return self._dependencies(keyword, value, place, scope)
        return {_NOTHING: t.applicator(keyword, value, place, scope)}

    def _of_reference(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> _Outcomes:
        target = self._t.target(keyword, value, place, scope)
        return self.of(target.contents, target.place, target.scope)

    def _any_of(self, each: list[_Outcomes]) -> _Outcomes:
        algebra = self._t.algebra
        current: _Outcomes = {}
        for outcomes in each:
            grown = list(current.items())
            for done, part in outcomes.items():
                grown.append((done, part))
                for old, other in current.items():
                    union = old.joined(done)
                    # Where one of the two evaluates all of it, it need not take the other.
                    if union not in (old, done):
                        grown.append((union, algebra.both(other, part)))
            current = self._limited(self._joined(grown))
        return current

    def _one_of(self, each: list[_Outcomes], schemas: list[Schema]) -> _Outcomes:
        algebra = self._t.algebra
        pairs = []
        for index, outcomes in enumerate(each):
            others = [algebra.negation(s) for i, s in enumerate(schemas) if i != index]
            for done, part in outcomes.items():
                pairs.append((done, algebra.both(part, *others)))
        return self._limited(self._joined(pairs))

    def _if(self, value: Mapping[str, Any], place: Place, scope: Scope) -> _Outcomes:
        t = self._t
        condition = self.of(value["if"], (place, "if"), scope)
        failed = t.algebra.negation(t.schema(value["if"], (place, "if"), scope))
        then = self.of(value.get("then", True), (place, "then"), scope)
        otherwise = self.of(value.get("else", True), (place, "else"), scope)
        succeeded = self._product(condition, then)
        missed = self._product({_NOTHING: failed}, otherwise)
        return self._limited(self._joined([*succeeded.items(), *missed.items()]))

    def _dependencies(
        self, keyword: str, value: Mapping[str, Any], place: Place, scope: Scope
    ) -> _Outcomes:
        t = self._t
        current: _Outcomes = {_NOTHING: t.algebra.any}
        for name, needed in t.mapping(value, keyword, place).items():
            if isinstance(needed, (list, tuple, str)):
                names = (needed,) if isinstance(needed, str) else needed
                then = {_NOTHING: t.present((name, *t.names_of(names, place, keyword)))}
            else:
                found = self.of(needed, ((place, keyword), name), scope)
                then = self._product({_NOTHING: t.present((name,))}, found)
            options = self._joined([(_NOTHING, t.absent(name)), *then.items()])
            current = self._product(current, options)
        return current

    # Outcomes

    def _product(self, left: _Outcomes, right: _Outcomes) -> _Outcomes:
        both = self._t.algebra.both
        return self._limited(
            self._joined(
                (one.joined(other), both(part, more))
                for one, part in left.items()
                for other, more in right.items()
            )
        )

    def _joined(self, pairs: Iterable[tuple[_Evaluated, Schema]]) -> _Outcomes:
        parts: dict[_Evaluated, list[Schema]] = {}
        for done, part in pairs:
            if part.kind != KIND_NEVER:
                parts.setdefault(done, []).append(part)
        return {done: self._t.algebra.either(*some) for done, some in parts.items()}

    def _limited(self, outcomes: _Outcomes) -> _Outcomes:
        if len(outcomes) <= _MOST_OUTCOMES:
            return outcomes
        raise _TooMany(
            f"more than {_MOST_OUTCOMES} combinations of subschemas decide what is unevaluated"
        )
