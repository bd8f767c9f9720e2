"""Why a schema has no value, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llgx.errors import SchemaError
from llgx.json_schema.normal import Place, Schema, pointer_of

if TYPE_CHECKING:
    from llgx.json_schema.algebra import Algebra

__all__ = ["explain"]


def explain(
    algebra: Algebra, root: Schema, conflicts: Sequence[tuple[Place, str, str]]
) -> SchemaError:
    """The error for a schema that is empty."""
    place, keyword, reason = conflicts[0] if conflicts else (root.place, "", "")
    return SchemaError(
        "no value satisfies the schema" + (f": {reason}" if reason else ""),
        pointer=pointer_of(place),
        keyword=keyword,
    )
