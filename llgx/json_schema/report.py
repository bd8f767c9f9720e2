"""What compiling a schema has to say beside its result."""

from __future__ import annotations

from typing import Final

from llgx.errors import SchemaError

__all__ = ["Report"]

_REMEDY: Final = 'on_unsupported="record" compiles the schema without it'


class Report:
    """Collects the keywords that are not enforced, each once, in the order in which they are met.

    ``entries`` are (JSON pointer, keyword, reason), ``warnings`` texts. With ``records`` false,
    :meth:`unenforced` raises instead.
    """

    def __init__(self, records: bool = False) -> None:
        self.records = records
        self.warnings: list[str] = []
        self._entries: dict[tuple[str, str, str], None] = {}

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """All that was noted or recorded."""
        return list(self._entries)

    def unenforced(self, pointer: str, keyword: str, reason: str) -> None:
        """A keyword that asserts something and is not enforced."""
        if not self.records:
            raise SchemaError(reason, pointer=pointer, keyword=keyword, remedy=_REMEDY)
        self._entries[pointer, keyword, reason] = None

    def note(self, pointer: str, keyword: str, reason: str) -> None:
        """A keyword that is an annotation here, though one might take it for an assertion."""
        self._entries[pointer, keyword, reason] = None
