"""The drafts of JSON Schema: which keywords each one knows, and what they are about.

A :class:`Dialect` maps its keywords to bits that say what a keyword constrains. Keywords that are
not in the map are unknown to the draft, or annotations: they constrain nothing. A schema that names
no draft is read as 2020-12, and keywords of older drafts that 2020-12 no longer has keep their old
meaning there (``lenient``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

__all__ = [
    "ANNOTATIONS",
    "APPLICATOR",
    "ARRAY",
    "BASE",
    "DEFAULT",
    "NUMBER",
    "OBJECT",
    "REFERENCE",
    "SILENT",
    "STRING",
    "TYPE",
    "UNEVALUATED",
    "Dialect",
    "dialect_of",
    "with_vocabularies",
]

TYPE: Final = 1
NUMBER: Final = 2
STRING: Final = 4
ARRAY: Final = 8
OBJECT: Final = 16
APPLICATOR: Final = 32
REFERENCE: Final = 64
UNEVALUATED: Final = 128
BASE: Final = TYPE | NUMBER | STRING | ARRAY | OBJECT

# Keywords that name, locate or comment, and those that describe: neither constrains anything.
SILENT: Final = frozenset(
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment $defs definitions "
    "x-guidance".split()
)
ANNOTATIONS: Final = frozenset(
    "title description default examples example deprecated readOnly writeOnly contentEncoding "
    "contentMediaType contentSchema discriminator xml externalDocs".split()
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One draft, or what a metaschema of one's own makes of it.

    ``draft`` is 4, 6, 7, 2019 or 2020; ``uri`` that of the metaschema; ``id_keyword`` what gives a
    schema a URI of its own. Up to draft 7 a ``$ref``
    makes the keywords beside it void.
    """

    draft: int
    uri: str
    keywords: Mapping[str, int]
    lenient: bool = False
    id_keyword: str = "$id"

    @property
    def name(self) -> str:
        """``draft4``, ``draft6``, ``draft7``, ``draft2019-09`` or ``draft2020-12``."""
        return _NAMES[self.draft]


def _words(text: str, bits: int) -> dict[str, int]:
    return dict.fromkeys(text.split(), bits)


_NAMES: Final = {
    4: "draft4",
    6: "draft6",
    7: "draft7",
    2019: "draft2019-09",
    2020: "draft2020-12",
}
_DRAFT4: Final = {
    **_words("type", TYPE),
    **_words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf", NUMBER),
    **_words("minLength maxLength pattern", STRING),
    **_words("format", STRING | NUMBER),
    **_words("items additionalItems minItems maxItems uniqueItems", ARRAY),
    **_words(
        "properties patternProperties additionalProperties required minProperties maxProperties",
        OBJECT,
    ),
    **_words("enum allOf anyOf oneOf not dependencies", APPLICATOR),
    **_words("$ref", REFERENCE),
}
_DRAFT6: Final = {
    **_DRAFT4,
    **_words("const propertyNames", APPLICATOR),
    **_words("contains", ARRAY),
}
_DRAFT7: Final = {**_DRAFT6, **_words("if", APPLICATOR)}
_DRAFT2019: Final = {
    **_DRAFT7,
    **_words("dependentRequired dependentSchemas", APPLICATOR),
    **_words("minContains maxContains", ARRAY),
    **_words("unevaluatedItems unevaluatedProperties", UNEVALUATED),
    **_words("$recursiveRef", REFERENCE),
}
_DRAFT2020: Final = {
    **_DRAFT2019,
    **_words("prefixItems", ARRAY),
    **_words("$dynamicRef", REFERENCE),
}
# `dependencies` is outside of the newer drafts, but validators keep to it; so does llgx.
for _gone in ("additionalItems", "$recursiveRef"):
    del _DRAFT2020[_gone]
_LENIENT: Final = {**_DRAFT2020, "additionalItems": ARRAY}

DEFAULT: Final = Dialect(2020, "https://json-schema.org/draft/2020-12/schema", _LENIENT, True)
_BY_URI: Final = {
    "json-schema.org/draft-04/schema": Dialect(
        4, "http://json-schema.org/draft-04/schema#", _DRAFT4, id_keyword="id"
    ),
    "json-schema.org/draft-06/schema": Dialect(
        6, "http://json-schema.org/draft-06/schema#", _DRAFT6
    ),
    "json-schema.org/draft-07/schema": Dialect(
        7, "http://json-schema.org/draft-07/schema#", _DRAFT7
    ),
    "json-schema.org/draft/2019-09/schema": Dialect(
        2019, "https://json-schema.org/draft/2019-09/schema", _DRAFT2019
    ),
    "json-schema.org/draft/2020-12/schema": Dialect(
        2020, "https://json-schema.org/draft/2020-12/schema", _DRAFT2020
    ),
}

# Keywords by the vocabulary that defines them, last part of its URI.
_VOCABULARIES: Final = {
    "applicator": (
        "prefixItems items contains additionalItems properties patternProperties "
        "additionalProperties dependencies dependentSchemas propertyNames if allOf anyOf oneOf not"
    ).split(),
    "validation": (
        "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
        "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties "
        "minProperties required dependentRequired"
    ).split(),
    "unevaluated": ["unevaluatedItems", "unevaluatedProperties"],
}


def dialect_of(uri: object) -> Dialect | None:
    """The draft whose metaschema ``uri`` names, by either scheme; None if there is none."""
    if not isinstance(uri, str):
        return None
    name = uri.rstrip("#")
    for scheme in ("http://", "https://"):
        if name.startswith(scheme):
            return _BY_URI.get(name[len(scheme) :].rstrip("/"))
    return None


def with_vocabularies(dialect: Dialect, uri: str, vocabularies: object) -> Dialect:
    """``dialect`` without the keywords of vocabularies that a metaschema does not declare."""
    if not isinstance(vocabularies, Mapping) or dialect.draft < 2019:
        return dialect
    declared = {str(name).rstrip("/").rsplit("/", 1)[-1] for name in vocabularies}
    if dialect.draft == 2019 and "applicator" in declared:
        declared.add("unevaluated")
    keywords = dict(dialect.keywords)
    for vocabulary, words in _VOCABULARIES.items():
        if vocabulary not in declared:
            for word in words:
                keywords.pop(word, None)
    return Dialect(dialect.draft, uri, keywords, dialect.lenient)
