"""The grammars of ``masks.py`` and the texts that a model is taken to have written under them.

Invariant: each grammar means the same to llgx and to llguidance (no construct that either reads in
its own way), and both accept each text token by token. ``tests/test_bench.py`` holds them to it.

Five grammars lie in ``grammars/NAME.lark`` with their texts in ``texts/NAME/*.txt``; the newline
that ends such a file is not part of the text. The sixth, ``keywords``, is made from a seed:
thousands of literals are no file that anyone would read.

All of them switch forcing off. With it, llguidance answers a forced position with one token instead
of the set that the grammar allows: another and cheaper question.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import random
from collections.abc import Sequence
from typing import Final

__all__ = ["GRAMMAR_NAMES", "Case", "load"]

GRAMMAR_NAMES: Final = ("arithmetic", "clike", "json", "freetext", "notes", "keywords")

_HERE: Final = pathlib.Path(__file__).resolve().parent

_COLUMNS: Final = 3000
_TABLES: Final = 600
_FUNCTIONS: Final = 400


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NOUNS: Final = _words(
    """
    account address agent amount asset batch branch budget campaign card carrier case category
    channel claim client comment company contact contract country coupon course credit currency
    customer delivery department deposit device discount district document driver employee event
    exchange facility factor feature fee file fleet folder forecast group holder hotel image
    inspection interval inventory invoice issue item journal key label language ledger lesson
    license line loan location log machine manager market member message meter method metric
    model module note offer office order owner package page parcel partner patient payment
    """
)
_ATTRIBUTES: Final = _words(
    """
    active_flag approved_at archived average balance birth_date city closed_at code color
    comment confirmed_by cost count created_at created_by currency deleted_at delta density
    description due_date duration email end_date external_id first_name hash height id index
    is_default is_public kind last_name latitude length level limit longitude max_value
    min_value name note number opened_at parent_id phone position postal_code price priority
    quantity rank rate reason region revision score size source start_date state status sum tag
    target tax timezone title token total type updated_at updated_by url uuid value version
    volume weight width year
    """
)
_VERBS: Final = _words(
    """
    abs any array avg bit bool cast ceil concat count date decode encode every extract first
    floor format hash json last left length lower max median min mode nth pad parse percent rank
    regexp
    """
)
_OBJECTS: Final = _words(
    """
    agg append at by cat cut day days distinct each fill head hour keys last list month name
    only path position range right set slice split sum tail text to top trim trunc union week
    year zone
    """
)
_LIST_WIDTH: Final = 90


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A grammar and its texts, in the order in which they are measured, as (name, text)."""

    name: str
    grammar: str
    texts: tuple[tuple[str, bytes], ...]


def load(name: str, seed: int) -> Case:
    """The case called ``name`` of :data:`GRAMMAR_NAMES`; ``seed`` matters to ``keywords`` alone."""
    if name == "keywords":
        return _keywords(random.Random(seed))
    grammar = (_HERE / "grammars" / f"{name}.lark").read_text(encoding="utf-8")
    paths = sorted((_HERE / "texts" / name).glob("*.txt"))
    if not paths:
        raise FileNotFoundError(f"no texts for grammar {name}")
    return Case(name, grammar, tuple((p.stem, p.read_bytes().removesuffix(b"\n")) for p in paths))


def _keywords(rng: random.Random) -> Case:
    """Queries over a schema of thousands of names.

    Columns and tables are one terminal each, a long alternation for the lexer; the functions are as
    many literals of one rule, which is work for the parser.
    """
    columns = rng.sample([f"{n}_{a}" for n, a in itertools.product(_NOUNS, _ATTRIBUTES)], _COLUMNS)
    tables = rng.sample([f"{a}_{b}s" for a, b in itertools.permutations(_NOUNS, 2)], _TABLES)
    functions = rng.sample([f"{v}_{o}" for v, o in itertools.product(_VERBS, _OBJECTS)], _FUNCTIONS)
    grammar = f"""\
%llguidance {{"no_forcing": true}}

start: query (";" query)*
query: "SELECT" column ("," column)* "FROM" TABLE [join] [filter] [order] ["LIMIT" NUMBER]
column: COLUMN | function "(" COLUMN ")"
join: "JOIN" TABLE "ON" COLUMN "=" COLUMN
filter: "WHERE" comparison (("AND" | "OR") comparison)*
comparison: column ("<" | ">" | "=" | "<>" | "<=" | ">=") (NUMBER | STRING)
order: "ORDER" "BY" COLUMN ["ASC" | "DESC"]

function: {_alternatives(functions)}
COLUMN: {_alternatives(columns)}
TABLE: {_alternatives(tables)}
NUMBER: /[0-9]+(\\.[0-9]+)?/
STRING: /'([^'\\n]|'')*'/

%ignore /[ \\t\\r\\n]+/
"""
    texts = []
    for number in range(3):
        queries = [_query(rng, columns, tables, functions) for _ in range(6)]
        texts.append((f"queries{number}", ";\n".join(queries).encode()))
    return Case("keywords", grammar, tuple(texts))


def _alternatives(words: Sequence[str]) -> str:
    """The words as literals, several a line: a line of 100,000 characters is no fair input."""
    lines = [""]
    for word in words:
        literal = f'"{word}"'
        if lines[-1] and len(lines[-1]) + len(literal) > _LIST_WIDTH:
            lines.append(literal)
        else:
            lines[-1] += f" | {literal}" if lines[-1] else literal
    return "\n    | ".join(lines)


def _query(
    rng: random.Random, columns: Sequence[str], tables: Sequence[str], functions: Sequence[str]
) -> str:
    def column() -> str:
        name = rng.choice(columns)
        return f"{rng.choice(functions)}({name})" if rng.random() < 0.3 else name

    def comparison() -> str:
        operand = f"'{rng.choice(_NOUNS)} no. {rng.randrange(100)}'"
        if rng.random() < 0.6:
            operand = str(rng.choice((rng.randrange(5000), round(rng.uniform(0, 100), 2))))
        return f"{column()} {rng.choice(('<', '>', '=', '<>', '<=', '>='))} {operand}"

    chosen = ", ".join(column() for _ in range(rng.randint(1, 5)))
    parts = [f"SELECT {chosen}", f"FROM {rng.choice(tables)}"]
    if rng.random() < 0.5:
        parts.append(f"JOIN {rng.choice(tables)} ON {rng.choice(columns)} = {rng.choice(columns)}")
    parts.append(f"WHERE {comparison()}")
    if rng.random() < 0.5:
        parts[-1] += f" {rng.choice(('AND', 'OR'))} {comparison()}"
    if rng.random() < 0.5:
        parts.append(f"ORDER BY {rng.choice(columns)} {rng.choice(('ASC', 'DESC'))}")
    if rng.random() < 0.5:
        parts.append(f"LIMIT {rng.randint(1, 500)}")
    return "\n".join(parts)
