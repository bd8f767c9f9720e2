"""Cases of schemas and documents: MaskBench and the JSON Schema Test Suite, from JSON lines.

A case is a schema with documents, each valid or not. The files hold one case a line:
``{"id", "schema", "tests": [{"valid", "data"}]}`` or, for the suite, ``draft``, ``file`` and
``group`` in place of ``id``; plain or compressed by gzip. Invariant: a document keeps the spelling
of its numbers and the order of its members, so ``1.0`` is not turned into ``1`` on the way.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import pathlib
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["Case", "Document", "choose", "load", "load_resources", "tenth", "text_of"]

_DIALECTS: Final = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """The text of an instance, and whether its schema allows it; ``about`` says what it tests."""

    text: str
    valid: bool
    about: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A schema as JSON text with its documents; the text keeps what a dict would lose."""

    id: str
    category: str
    schema: str
    documents: tuple[Document, ...]


class _Number(float):
    """A number that remembers how it was spelled."""

    __slots__ = ("spelling",)

    def __new__(cls, spelling: str) -> _Number:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    spelling: str


def text_of(value: Any, *, item: str = ", ", key: str = ": ") -> str:
    """JSON text of ``value``, numbers spelled as they were read, characters as themselves.

    Lone surrogates, which no UTF-8 text holds, stay escapes. Recursive: for data of tests.
    """
    if isinstance(value, _Number):
        return value.spelling
    if isinstance(value, dict):
        members = (
            f"{_string(name)}{key}{text_of(child, item=item, key=key)}"
            for name, child in value.items()
        )
        return "{" + item.join(members) + "}"
    if isinstance(value, list):
        return "[" + item.join(text_of(child, item=item, key=key) for child in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def load(
    path: pathlib.Path, *, categories: Iterable[str] = (), ids: Iterable[str] = ()
) -> list[Case]:
    """The cases of ``path`` in its order, all or those chosen.

    ``ValueError`` names the line that is no case.
    """
    wanted, kept = frozenset(categories), frozenset(ids)
    return [
        case
        for case in _read(path)
        if (not wanted or case.category in wanted) and (not kept or case.id in kept)
    ]


def choose(cases: list[Case], count: int | None, seed: int) -> list[Case]:
    """``count`` of the cases in their order, the same for the same seed; all for None."""
    if count is None or count >= len(cases):
        return cases
    chosen = sorted(random.Random(seed).sample(range(len(cases)), count))
    return [cases[index] for index in chosen]


def tenth(case_id: str) -> bool:
    """Whether a case belongs to the fixed tenth that stands for all of them."""
    return zlib.crc32(case_id.encode()) % 10 == 0


def load_resources(path: pathlib.Path) -> dict[str, Any]:
    """The documents that the suite refers to, by URI."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        resources: dict[str, Any] = json.load(file)
    return resources


def _read(path: pathlib.Path) -> Iterator[Case]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _case(json.loads(line, parse_float=_Number))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: not a case: {error!r}") from error


def _case(entry: Mapping[str, Any]) -> Case:
    schema = entry["schema"]
    if "id" in entry:
        name: str = entry["id"]
        category = name.partition("---")[0] if "---" in name else name.partition("_")[0]
    else:
        name = f"{entry['draft']}/{entry['file']}/{entry['group']}"
        category = entry["file"]
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": _DIALECTS[entry["draft"]], **schema}
    documents = tuple(
        Document(text_of(test["data"]), test["valid"], test.get("about", ""))
        for test in entry["tests"]
    )
    return Case(name, category, text_of(schema), documents)
