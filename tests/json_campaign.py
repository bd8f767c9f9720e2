"""Compare JSON Schema grammars with ``jsonschema``: ``python -m tests.json_campaign``.

A seed determines a schema and documents. Each document has to be accepted exactly if the oracle
allows it: with free member order as it is spelled, with another one in at least one order of its
members, or in none. A document with a member twice has to be refused. Then the grammar is walked at
random: what it ends with has to be JSON, without a key twice, that the oracle allows, and no prefix
may be a dead end. A difference is reduced to a smaller schema and document, and printed.

    python -m tests.json_campaign --seconds 600 --seed 1     # or --documents 100000

Exits with status 1 after a difference. What llgx refuses with a typed error is counted by reason.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import llgx
from tests.json_oracle import DuplicateKeyError, Oracle, parse, spell, spellings
from tests.json_schemas import DIALECTS, mutated, random_document, random_schema

__all__ = ["ORDERS", "Difference", "check_seed", "difference", "reduce_difference"]

ORDERS: Final = ("any", "named", "schema")
_RANDOM_DOCUMENTS: Final = 12
_WALKS: Final = 2
_WALK_STEPS: Final = 120
_LAST_STEPS: Final = 400
_ORDERINGS: Final = 120
_MALFORMED: Final = "the oracle cannot say"


class Difference(AssertionError):
    """llgx and the oracle differ. ``text`` is a document, or what a walk had when it failed."""

    def __init__(self, kind: str, dialect: str, schema: Any, order: str, text: str) -> None:
        self.kind = kind
        self.dialect = dialect
        self.schema = schema
        self.order = order
        self.text = text
        shown = json.dumps(schema, ensure_ascii=False)
        super().__init__(f"{kind} ({dialect}, order {order}): {text}\n  schema {shown}")


@functools.cache
def byte_vocabulary() -> llgx.Vocabulary:
    """A token for each byte and one end of generation."""
    tokens = [bytes([byte]) for byte in range(256)]
    return llgx.Vocabulary.from_tokens([*tokens, b"<|end|>"], eog=256)


def compile_schema(schema: Any, order: str) -> llgx.CompiledGrammar | None:
    """The compiled schema; None where llgx says that it allows nothing."""
    try:
        grammar = llgx.Grammar.from_json_schema(schema, property_order=order)
        return grammar.compile(byte_vocabulary())
    except llgx.SchemaError as error:
        if error.message.startswith("no value satisfies the schema"):
            return None
        raise


def accepts(compiled: llgx.CompiledGrammar | None, text: str) -> bool:
    """Whether ``text`` is accepted to its end."""
    data = text.encode()
    return compiled is not None and llgx.Matcher(compiled).match_bytes(data) == (len(data), True)


def difference(
    compiled: llgx.CompiledGrammar | None, oracle: Oracle, order: str, text: str
) -> str | None:
    """What is wrong with how ``text`` is treated, None if nothing is."""
    try:
        document = parse(text)
        expected = oracle.allows(document)
    except DuplicateKeyError:
        return "a member twice is accepted" if accepts(compiled, text) else None
    if accepts(compiled, text):
        return None if expected else "wrong accept"
    if not expected:
        return None
    if order == "any":
        return "wrong reject"
    texts = spellings(document, _ORDERINGS)
    if texts is None or any(accepts(compiled, other) for other in texts):
        return None
    return "wrong reject in every order"


def check_seed(seed: int, counts: Counter[str], dialect: str | None = None) -> None:
    """Everything about one schema; :class:`Difference` where something is wrong."""
    rng = random.Random(seed)
    dialect, schema = random_schema(rng, dialect)
    oracle = Oracle(dialect, schema)
    documents = _documents(rng, schema, oracle)
    for order in ORDERS:
        try:
            compiled = compile_schema(schema, order)
        except llgx.LlgxError as error:
            counts[f"refused: {_reason(error)}"] += 1
            continue
        except Exception as error:
            traceback.print_exc()
            raise Difference(_crash(error), dialect, schema, order, "") from error
        counts["schemas" if compiled else "unsatisfiable"] += 1
        for document, valid in documents:
            texts = [spell(document, rng)]
            if valid and isinstance(document, dict) and document:
                texts.append(_with_a_member_twice(rng, document))
            for text in texts:
                counts["valid" if valid else "invalid"] += 1
                try:
                    wrong = difference(compiled, oracle, order, text)
                except llgx.LimitError as error:
                    wrong = str(error)
                if wrong and wrong.startswith("wrong reject") and is_departure(schema, document):
                    counts["departures"] += 1
                elif wrong:
                    raise Difference(wrong, dialect, schema, order, text)
        if compiled is not None:
            for _ in range(_WALKS):
                _check_walk(compiled, oracle, rng, counts, dialect, schema, order)


def is_departure(schema: Any, document: Any) -> bool:
    """Whether docs/departures.md excuses that ``document`` is refused.

    Objects among unique items have one member at the most that no schema names.
    """
    return '"uniqueItems": true' in json.dumps(schema) and _has_members(document, False)


def _has_members(document: Any, in_array: bool) -> bool:
    """Whether there is an object of two members or more within an array."""
    if isinstance(document, dict):
        here = in_array and len(document) > 1
        return here or any(_has_members(child, in_array) for child in document.values())
    return isinstance(document, list) and any(_has_members(child, True) for child in document)


def _documents(rng: random.Random, schema: Any, oracle: Oracle) -> list[tuple[Any, bool]]:
    found = [random_document(rng, schema) for _ in range(_RANDOM_DOCUMENTS)]
    judged = [(document, oracle.allows(document)) for document in found]
    good = [document for document, valid in judged if valid] or found
    changed = [mutated(rng, rng.choice(good)) for _ in range(_RANDOM_DOCUMENTS)]
    judged += [(document, oracle.allows(document)) for document in changed]
    unique = {spell(document): (document, valid) for document, valid in judged}
    return list(unique.values())


def _with_a_member_twice(rng: random.Random, document: dict[str, Any]) -> str:
    members = [f"{json.dumps(k, ensure_ascii=False)}:{spell(v)}" for k, v in document.items()]
    members.insert(rng.randint(0, len(members)), rng.choice(members))
    return "{" + ",".join(members) + "}"


def _reason(error: llgx.LlgxError) -> str:
    if isinstance(error, llgx.SchemaError):
        return f"{error.keyword}: {error.message}"[:90]
    return str(error)[:90]


def _crash(error: BaseException) -> str:
    return f"{type(error).__name__} instead of a typed error: {error}"[:200]


def _check_walk(
    compiled: llgx.CompiledGrammar,
    oracle: Oracle,
    rng: random.Random,
    counts: Counter[str],
    dialect: str,
    schema: Any,
    order: str,
) -> None:
    def differ(kind: str) -> Difference:
        return Difference(kind, dialect, schema, order, text)

    data, ended = _walk(compiled, rng)
    text = data.decode("utf-8", "replace")
    if ended == "dead end":
        raise differ(ended)
    counts[f"walks: {ended}"] += 1
    if ended == "too long":
        return
    try:
        document = parse(text)
        valid = oracle.allows(document)
    except DuplicateKeyError:
        raise differ("a member twice is generated") from None
    except OverflowError:
        return
    except ValueError as error:
        raise differ(f"no JSON is generated: {error}") from None
    if not valid:
        raise differ("wrong accept")


def _walk(
    compiled: llgx.CompiledGrammar, rng: random.Random
) -> tuple[bytes, Literal["complete", "too long", "dead end"]]:
    """Bytes of a random walk, and how it ended."""
    matcher = llgx.Matcher(compiled)
    text = bytearray()
    for step in range(_LAST_STEPS):
        allowed = matcher.allowed_tokens()
        if not allowed:
            return bytes(text), "dead end"
        closing = [token for token in allowed if token == 256 or token in b'"]}']
        hurry = 0.25 if step < _WALK_STEPS else 0.9
        token = rng.choice(closing if closing and rng.random() < hurry else allowed)
        matcher.consume(token)
        if token == 256:
            return bytes(text), "complete"
        text.append(token)
    return bytes(text), "too long"


# ------------------------------------------------------------------ reduction


def reduce_difference(found: Difference, seconds: float = 20.0) -> Difference:
    """A smaller schema and document of the same kind, as far as ``seconds`` go."""
    deadline = time.monotonic() + seconds
    kind = found.kind.partition(":")[0]
    while True:
        for schema, text in _smaller(found):
            if time.monotonic() > deadline:
                return found
            again = _kind_of(found, schema, text)
            if again is not None and again.partition(":")[0] == kind:
                found = Difference(again, found.dialect, schema, found.order, text)
                break
        else:
            return found


def _kind_of(found: Difference, schema: Any, text: str) -> str | None:
    try:
        oracle = Oracle(found.dialect, schema)
        oracle.allows(None)
    except Exception:
        return _MALFORMED
    try:
        compiled = compile_schema(schema, found.order)
    except llgx.LlgxError:
        return None
    except Exception as error:
        return _crash(error)
    if found.kind == "dead end":
        if compiled is None:
            return None
        ends = [_walk(compiled, random.Random(seed))[1] for seed in range(20)]
        return "dead end" if "dead end" in ends else None
    if not text:
        return None
    if "generated" in found.kind:
        return found.kind if accepts(compiled, text) else None
    try:
        return difference(compiled, oracle, found.order, text)
    except Exception:
        return _MALFORMED


def _smaller(found: Difference) -> Iterator[tuple[Any, str]]:
    for candidate in _smaller_values(found.schema):
        yield candidate, found.text
    try:
        document = parse(found.text)
    except (ValueError, OverflowError):
        return
    for candidate in _smaller_values(document):
        yield found.schema, spell(candidate)


def _smaller_values(value: Any) -> Iterator[Any]:
    """Values with one thing less somewhere, the large things first."""
    if isinstance(value, dict):
        for key in value:
            if key != "$schema":
                yield {other: child for other, child in value.items() if other != key}
        for key, child in value.items():
            for smaller in _smaller_values(child):
                yield {**value, key: smaller}
            if isinstance(child, dict) and child:
                yield {**value, key: {}}
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
        for index, child in enumerate(value):
            for smaller in _smaller_values(child):
                yield [*value[:index], smaller, *value[index + 1 :]]


# ------------------------------------------------------------------ the command


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.json_campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--documents", type=int, default=None, help="stop after that many")
    parser.add_argument("--dialect", choices=tuple(DIALECTS), default=None)
    parser.add_argument("--failures", type=int, default=1, help="stop after so many differences")
    parser.add_argument("--reduce", type=float, default=20.0, help="seconds to reduce each of them")
    options = parser.parse_args(arguments)
    if options.seconds is None and options.documents is None:
        options.documents = 10_000
    began = time.monotonic()
    counts: Counter[str] = Counter()
    failures = 0
    seed = options.seed
    for seed in itertools.count(options.seed):
        done = counts["valid"] + counts["invalid"]
        if options.documents is not None and done >= options.documents:
            break
        if options.seconds is not None and time.monotonic() - began > options.seconds:
            break
        try:
            check_seed(seed, counts, options.dialect)
        except Difference as found:
            failures += 1
            print(f"# seed {seed}: {found.kind}", flush=True)
            print(reduce_difference(found, options.reduce), flush=True)
            if failures >= options.failures:
                break
    for name, number in sorted(counts.items()):
        print(f"{number:8} {name}")
    print(
        f"{failures} differences; seeds {options.seed} to {seed}; {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
