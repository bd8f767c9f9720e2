"""What grows with the size of a text, a schema or a process, and what must not.

    growth.py                    all of it, minutes
    growth.py --quick            a tenth or a hundredth of each size
    growth.py --only depth       one of: length depth bounds enum schema process batch

Each scenario doubles or multiplies one size and prints a figure for each. ``flat`` figures must not
grow with the size, ``linear`` ones no faster than it: the verdict compares the largest size with
the smallest and allows a factor of 3 for caches and for a shared machine. Times are medians, in µs,
on the Llama 3 vocabulary; mask means ``fill_bitmask`` and ``consume``, first visits included.

Exit status: 0, 1 where a verdict is "grows", 2 for bad usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import harness
from json_timing import resident_bytes

import llgx

__all__ = ["SCENARIOS", "Figure", "main"]

_ALLOWED: Final = 3.0
_WINDOW: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """Figures by size; ``growth`` is "flat" or "linear"."""

    name: str
    unit: str
    growth: str
    values: dict[int, float]

    @property
    def factor(self) -> float:
        """How much the figure grew from the smallest size to the largest; for linear ones, in
        excess of the size."""
        small, large = min(self.values), max(self.values)
        before, after = self.values[small], self.values[large]
        factor = after / before if before > 0 else float("inf")
        return factor * small / large if self.growth == "linear" else factor

    @property
    def holds(self) -> bool:
        return self.factor <= _ALLOWED


def _compile(vocabulary: llgx.Vocabulary, schema: Any, **options: Any) -> llgx.CompiledGrammar:
    return llgx.Grammar.from_json_schema(schema, **options).compile(vocabulary)


def _walk(matcher: llgx.Matcher, tokens: Sequence[int]) -> list[float]:
    """µs for mask and consume, by token."""
    mask = llgx.allocate_token_bitmask(1, len(matcher.compiled.vocabulary))
    clock = time.perf_counter_ns
    times = []
    for token in tokens:
        begin = clock()
        matcher.fill_bitmask(mask)
        matcher.consume(token)
        times.append((clock() - begin) / 1e3)
    return times


def _ends(matcher: llgx.Matcher, tokens: Sequence[int], sizes: Sequence[int]) -> dict[int, float]:
    """The median over the tokens before each of ``sizes``."""
    times = _walk(matcher, tokens[: max(sizes)])
    return {size: statistics.median(times[max(0, size - _WINDOW) : size]) for size in sizes}


def length(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Tokens of output: an array of records, and free text under a Lark grammar."""
    most = 100_000 // scale
    sizes = [most // 50, most // 10, most]
    chance = random.Random(1)
    names = ["Ada", "Grace", "Barbara", "Frances", "Radia", "日本", "Émilie"]
    records = [
        {"id": number, "name": chance.choice(names), "score": chance.random(), "tags": ["a", "b"]}
        for number in range(most // 20 + 1)
    ]
    schema = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "name": {"type": "string"},
                "score": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["id", "name"],
        },
    }
    tokens = vocabulary.tokenize(json.dumps(records, ensure_ascii=False).encode())
    matcher = llgx.Matcher(_compile(vocabulary, schema))
    yield Figure("mask, tokens of JSON", "µs", "flat", _ends(matcher, tokens, sizes))
    grammar = llgx.Grammar.from_lark('start: (line "\\n")*\nline: /[^\\n]{0,80}/')
    text = "".join(f"{chance.choice(names)} wrote line {number}.\n" for number in range(most // 4))
    tokens = vocabulary.tokenize(text.encode())
    matcher = llgx.Matcher(grammar.compile(vocabulary))
    yield Figure("mask, tokens of text", "µs", "flat", _ends(matcher, tokens, sizes))


def depth(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Nesting: arrays in arrays, and brackets of a recursive rule, one token each."""
    most = 20_000 // scale
    sizes = [most // 50, most // 10, most]
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    (bracket,) = vocabulary.tokenize(b"[")
    matcher = llgx.Matcher(_compile(vocabulary, tree))
    yield Figure("mask, nesting of arrays", "µs", "flat", _ends(matcher, [bracket] * most, sizes))
    (bracket,) = vocabulary.tokenize(b"(")
    grammar = llgx.Grammar.from_lark('start: "(" start ")" | "x"')
    matcher = llgx.Matcher(grammar.compile(vocabulary))
    yield Figure("mask, nesting of rules", "µs", "flat", _ends(matcher, [bracket] * most, sizes))


def bounds(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Bounds: compile and the masks of one text under larger and larger ones."""
    most = 1_000_000 // scale
    sizes = [most // 1000, most // 30, most]
    kinds: tuple[tuple[str, Callable[[int], Any], str], ...] = (
        ("maxItems", lambda size: {"type": "array", "items": {"type": "integer"}, "maxItems": size},
         json.dumps(list(range(40)))),
        ("minItems", lambda size: {"type": "array", "items": {"type": "integer"}, "minItems": size},
         json.dumps(list(range(40)))[:-1]),
        ("maxLength", lambda size: {"type": "string", "maxLength": size}, '"some words, again"'),
        ("minLength", lambda size: {"type": "string", "minLength": size}, '"some words, again'),
        ("pattern", lambda size: {"type": "string", "pattern": f"^([a-z]+ ){{0,{size}}}x$"},
         '"some words again x"'),
        ("maxProperties", lambda size: {"type": "object", "maxProperties": size},
         '{"a": 1, "b": 2}'),
    )  # fmt: skip
    for name, schema, text in kinds:
        tokens = vocabulary.tokenize(text.encode())
        start: dict[int, float] = {}
        masks: dict[int, float] = {}
        for size in sizes:
            start[size], masks[size] = _starts(vocabulary, schema(size), tokens)
        yield Figure(f"compile, {name}", "µs", "flat", start)
        yield Figure(f"masks of a text, {name}", "µs", "flat", masks)


def _starts(vocabulary: llgx.Vocabulary, schema: Any, tokens: Sequence[int]) -> tuple[float, float]:
    """µs to compile, and of all masks of a first pass; the least of five, each compiled anew."""
    compiling, walking = [], []
    for _ in range(5):
        begin = time.perf_counter_ns()
        compiled = _compile(vocabulary, schema)
        compiling.append((time.perf_counter_ns() - begin) / 1e3)
        walking.append(sum(_walk(llgx.Matcher(compiled), tokens)))
    return min(compiling), min(walking)


def enum(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Values of an enumeration: compile, the first pass over one of them, and a later one."""
    most = 100_000 // scale
    sizes = [most // 100, most // 10, most]
    chance = random.Random(2)
    words = ["".join(chance.choices("abcdefghij ", k=chance.randint(3, 20))) for _ in range(most)]
    compiling: dict[int, float] = {}
    first: dict[int, float] = {}
    later: dict[int, float] = {}
    for size in sizes:
        begin = time.perf_counter_ns()
        compiled = _compile(vocabulary, {"enum": words[:size]})
        compiling[size] = (time.perf_counter_ns() - begin) / 1e3
        tokens = vocabulary.tokenize(json.dumps(words[size // 2]).encode())
        first[size] = max(_walk(llgx.Matcher(compiled), tokens))
        passes = [_walk(llgx.Matcher(compiled), tokens) for _ in range(30)]
        later[size] = statistics.median(value for times in passes for value in times)
    yield Figure("compile, enum", "µs", "linear", compiling)
    yield Figure("greatest first mask, enum", "µs", "linear", first)
    yield Figure("later mask, enum", "µs", "flat", later)


def schema(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Bytes of a schema, to 4 MB: reading and compiling it, and the first mask."""
    compiling: dict[int, float] = {}
    masks: dict[int, float] = {}
    for definitions in (500 // scale, 5_000 // scale, 20_000 // scale):
        defs = {
            f"d{number}": {
                "type": "object",
                "properties": {
                    f"key{number}": {"type": "string", "maxLength": number % 50 + 1},
                    "next": {"$ref": f"#/$defs/d{(number * 7 + 1) % definitions}"},
                    "kind": {"enum": ["a", "b", number]},
                },
                "required": [f"key{number}"],
                "additionalProperties": False,
            }
            for number in range(definitions)
        }
        text = json.dumps({"$defs": defs, "$ref": "#/$defs/d0"})
        begin = time.perf_counter_ns()
        matcher = llgx.Matcher(_compile(vocabulary, text))
        compiling[len(text)] = (time.perf_counter_ns() - begin) / 1e3
        masks[len(text)] = max(_walk(matcher, vocabulary.tokenize(b'{"key0": "x"')))
    yield Figure("compile, bytes of schema", "µs", "linear", compiling)
    yield Figure("greatest first mask, bytes of schema", "µs", "flat", masks)


def process(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Distinct schemas on one vocabulary: memory of the process, and time to a first mask."""
    most = 100_000 // scale
    sizes = [most // 10, most // 2, most]
    memory: dict[int, float] = {}
    times: dict[int, float] = {}
    recent: list[float] = []
    tokens = vocabulary.tokenize(b'{"')
    for number in range(most + 1):
        if number in sizes:
            gc.collect()
            memory[number] = resident_bytes() / 1e6
            times[number] = statistics.median(recent)
            recent = []
        properties = {
            f"k{number}": {"type": "string", "pattern": f"^[a-z]{{1,{number % 977 + 1}}}$"},
            "n": {"type": "integer", "maximum": number},
            "tags": {"type": "array", "items": {"enum": ["a", f"b{number}"]}, "maxItems": 3},
        }
        begin = time.perf_counter_ns()
        _walk(
            llgx.Matcher(_compile(vocabulary, {"type": "object", "properties": properties})), tokens
        )
        recent.append((time.perf_counter_ns() - begin) / 1e3)
    yield Figure("memory, distinct schemas", "MB", "flat", memory)
    yield Figure("compile and two masks, distinct schemas", "µs", "flat", times)


def batch(vocabulary: llgx.Vocabulary, scale: int) -> Iterator[Figure]:
    """Matchers in a batch whose masks are known: µs for each, in one thread and in two."""
    del scale  # quick as it is
    compiled = [
        _compile(vocabulary, {"type": "object", "properties": {f"k{number}": {"type": "string"}}})
        for number in range(32)
    ]
    matchers = []
    for number in range(256):
        matcher = llgx.Matcher(compiled[number % 32])
        prefix = vocabulary.tokenize(f'{{"k{number % 32}": "ab'.encode())
        matcher.try_consume(prefix[: 1 + number % len(prefix)])
        matchers.append(matcher)
    mask = llgx.allocate_token_bitmask(len(matchers), len(vocabulary))
    for threads in (1, 2):
        values = {}
        for size in (32, 256):
            times = []
            for _ in range(50):
                begin = time.perf_counter_ns()
                llgx.fill_bitmasks(matchers[:size], mask, threads=threads)
                times.append((time.perf_counter_ns() - begin) / 1e3 / size)
            values[size] = statistics.median(times)
        yield Figure(f"known mask in a batch, threads: {threads}", "µs", "flat", values)


SCENARIOS: Final[dict[str, Callable[[llgx.Vocabulary, int], Iterator[Figure]]]] = {
    function.__name__: function
    for function in (length, depth, bounds, enum, schema, process, batch)
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="growth.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="may be repeated")
    options = parser.parse_args(arguments)
    vocabulary = llgx.Vocabulary.from_gguf(harness.default_vocabulary())
    for name, version in harness.environment(("llgx", "numpy")).items():
        print(f"{name}: {version}")
    print()
    rows: list[tuple[object, ...]] = []
    failed = False
    for name in options.only or SCENARIOS:
        with harness.quiet():
            for figure in SCENARIOS[name](vocabulary, 20 if options.quick else 1):
                shown = ", ".join(
                    f"{size:,}: {value:,.1f}" for size, value in figure.values.items()
                )
                verdict = figure.growth if figure.holds else "grows"
                failed = failed or not figure.holds
                rows.append((figure.name, figure.unit, shown, f"{figure.factor:.2f}", verdict))
                print(f"{figure.name}: {shown} {figure.unit}; {verdict}", file=sys.stderr)
    print(harness.format_table(("figure", "unit", "by size", "factor", "verdict"), rows))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
