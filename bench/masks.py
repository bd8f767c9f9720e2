"""Masks of Lark grammars: llgx beside llguidance on the Llama 3 vocabulary, in one thread.

What is timed is one token of a text: mask, then consume. For each grammar and text an engine
compiles afresh; the first pass over the text gives the *first visits*, where every state is new to
the compiled grammar, and the passes after it, each with a new session, give the *later visits*. The
engines take turns text by text, and who begins changes from turn to turn, so that drift of the
machine meets both. The end of generation is the last token of each text.

Beforehand, untimed, both engines walk all texts and their masks are compared bit by bit. Grammars
switch forcing off, so that both answer the same question at each token (``corpus``). A difference,
or a text that one of them rejects, is printed and makes the exit status 1; such a text is not
timed. A bar that is missed is printed too, but is no failure: it depends on the machine.

What an engine keeps for its vocabulary between grammars (llgx: the pool of lexer states;
llguidance: slices) is kept for all repetitions, as in a server, and the walk that compares has
filled it already. ``--fresh-vocabulary`` builds the engines anew for each repetition: then nothing
but the texts before it in the same repetition has prepared a first visit.

``--engine llgx --grammar clike --passes 1 --no-timing`` makes the calls and nothing else: that is
the program to run below callgrind.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import corpus
import harness
import mask_report
import numpy as np
from engines import ENGINE_NAMES, Engine, make_engine
from harness import Session
from mask_report import Samples, Text, Timings
from numpy.typing import NDArray

import llgx

__all__ = ["Settings", "compare", "load_texts", "main", "measure", "run"]

_SHOWN_TOKENS: Final = 8
_REFUSALS: Final = (ValueError, llgx.LlgxError)
_DISTRIBUTIONS: Final = ("llgx", "llguidance", "numpy", "llama-cpp-python")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What to run. ``passes`` counts the first visit to a text and the later ones together."""

    engines: tuple[str, ...] = ENGINE_NAMES
    grammars: tuple[str, ...] = corpus.GRAMMAR_NAMES
    repetitions: int = 5
    passes: int = 4
    seed: int = 1
    fresh_vocabulary: bool = False
    without: tuple[str, ...] = ()

    @property
    def shortcuts(self) -> llgx.Shortcuts:
        """llgx's shortcuts, those in ``without`` off."""
        return llgx.Shortcuts(**dict.fromkeys(self.without, False))


def load_texts(settings: Settings, vocabulary: llgx.Vocabulary) -> list[Text]:
    """The texts of the chosen grammars as tokens, an end-of-generation token after each."""
    texts = []
    for name in settings.grammars:
        case = corpus.load(name, settings.seed)
        for text_name, text in case.texts:
            tokens = (*vocabulary.tokenize(text), vocabulary.eog[0])
            texts.append(Text(name, text_name, case.grammar, tokens))
    return texts


def compare(
    engines: Sequence[Engine], texts: Sequence[Text], vocabulary: llgx.Vocabulary
) -> dict[Text, list[str]]:
    """Walk each text with all engines in step: what is wrong with it, nothing where all is well.

    Wrong is a grammar that an engine refuses, a token that it rejects, and a mask that differs from
    the mask of the first engine. After a failed call there is nothing to compare: the text ends.
    """
    return {text: list(_faults(engines, text, vocabulary)) for text in texts}


def _faults(engines: Sequence[Engine], text: Text, vocabulary: llgx.Vocabulary) -> Iterator[str]:
    sessions = []
    for engine in engines:
        try:
            sessions.append(engine.compile(text.source)())
        except _REFUSALS as error:
            yield f"{text.label}: {engine.name} refuses the grammar: {error}"
            return
    for position, token in enumerate(text.tokens):
        where = f"{text.label}[{position}] before {vocabulary.tokens[token]!r}"
        failures = [_failure(session, session.fill, *session.target) for session in sessions]
        if not any(failures):
            allowed = {engine.name: _allowed(engine.mask, len(vocabulary)) for engine in engines}
            for difference in _differences(allowed, token, vocabulary.tokens):
                yield f"{where}: {difference}"
            failures = [_failure(session, session.consume, token) for session in sessions]
        for engine, failure in zip(engines, failures, strict=True):
            if failure:
                yield f"{where}: {engine.name} fails: {failure}"
        if any(failures):
            return


def _failure(session: Session, call: Callable[..., object], *arguments: object) -> str:
    """What went wrong in a call of ``session``, "" for nothing."""
    try:
        call(*arguments)
    except _REFUSALS as error:
        return str(error)
    return session.failure()


def _differences(
    allowed: Mapping[str, NDArray[np.bool_]], token: int, token_bytes: Sequence[bytes]
) -> Iterator[str]:
    """How the sets of the engines, by name, part from the first one's and from the text."""
    (first, expected), *others = allowed.items()
    for name, found in others:
        for owner, ids in (
            (first, np.flatnonzero(expected & ~found)),
            (name, np.flatnonzero(found & ~expected)),
        ):
            if ids.size:
                shown = ", ".join(repr(token_bytes[i]) for i in ids[:_SHOWN_TOKENS])
                yield f"only {owner} allows {ids.size} tokens: {shown}"
    for name, found in allowed.items():
        if not found[token]:
            yield f"not in the mask of {name}"


def _allowed(mask: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    """The first row of a packed mask, one element for each token."""
    bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little", count=size)
    return bits.astype(np.bool_)


def measure(
    settings: Settings, make_engines: Callable[[], Sequence[Engine]], texts: Sequence[Text]
) -> Timings:
    """Time all repetitions, each with the engines that a call of ``make_engines`` gives."""
    timings: Timings = {}
    for repetition in range(settings.repetitions):
        engines = make_engines()
        with harness.quiet():
            for turn, text in enumerate(texts, start=repetition):
                for engine in engines if turn % 2 == 0 else reversed(engines):
                    samples = timings.setdefault((engine.name, text), Samples())
                    _measure_text(engine, text, settings.passes, samples)
    return timings


def _measure_text(engine: Engine, text: Text, passes: int, samples: Samples) -> None:
    begin = time.perf_counter_ns()
    compiled = engine.compile(text.source)
    session = compiled()
    samples.compile.append(time.perf_counter_ns() - begin)
    samples.first.append(_checked_pass(engine, session, text))
    for _ in range(passes - 1):
        samples.later.append(_checked_pass(engine, compiled(), text))


def _checked_pass(engine: Engine, session: Session, text: Text) -> list[int]:
    """A timed pass; ``RuntimeError`` if tokens were rejected, for then it was another text."""
    times = harness.timed_pass(session, text.tokens)
    failure = session.failure()
    if failure:
        raise RuntimeError(f"{engine.name} failed on {text.label}: {failure}")
    return times


def run(settings: Settings, vocabulary: llgx.Vocabulary) -> mask_report.Figures:
    """Compare, then measure: everything that the command prints or writes, except its CPU."""
    set_up: dict[str, list[float]] = {name: [] for name in settings.engines}

    def make_engines() -> list[Engine]:
        engines = []
        for name in settings.engines:
            begin = time.perf_counter_ns()
            engines.append(make_engine(name, vocabulary, settings.shortcuts))
            set_up[name].append((time.perf_counter_ns() - begin) / 1e6)
        return engines

    engines = make_engines()
    texts = load_texts(settings, vocabulary)
    faults = compare(engines, texts, vocabulary)
    sound = [text for text in texts if not faults[text]]
    provider = make_engines if settings.fresh_vocabulary else lambda: engines
    with harness.quiet():
        floors = harness.floors(engines[0].mask.shape[1])
    timings = measure(settings, provider, sound)
    return mask_report.Figures(
        environment=harness.environment(_DISTRIBUTIONS),
        settings=dataclasses.asdict(settings),
        floors=floors,
        set_up_ms=set_up,
        compared=sum(len(text.tokens) for text in texts) if len(engines) > 1 else 0,
        faults=[fault for text in texts for fault in faults[text]],
        groups=mask_report.summarise(settings.engines, timings, vocabulary.tokens),
    )


def _run_untimed(settings: Settings, vocabulary: llgx.Vocabulary) -> int:
    """The passes of :func:`measure` without clock, comparison or report: the number of masks."""
    engines = [make_engine(name, vocabulary, settings.shortcuts) for name in settings.engines]
    masks = 0
    for text in load_texts(settings, vocabulary):
        for engine in engines:
            compiled = engine.compile(text.source)
            for _ in range(settings.passes):
                harness.untimed_pass(compiled(), text.tokens)
                masks += len(text.tokens)
    return masks


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def _parser() -> argparse.ArgumentParser:
    default = Settings()
    parser = argparse.ArgumentParser(
        prog="masks.py",
        description="Time the masks of Lark grammars, llgx beside llguidance.",
        epilog="Exit status: 0, 1 where the engines disagree, 2 for bad usage.",
    )
    add = parser.add_argument
    add("--vocabulary", type=pathlib.Path, metavar="PATH", help="a GGUF file with a vocabulary")
    add("--engine", choices=(*ENGINE_NAMES, "both"), default="both")
    add("--grammar", choices=corpus.GRAMMAR_NAMES, action="append", help="may be repeated")
    add("--repetitions", type=_positive, metavar="N", help=f"default {default.repetitions}")
    add("--passes", type=_positive, metavar="N", help=f"over each text, default {default.passes}")
    add("--quick", action="store_true", help="two repetitions of two passes")
    add("--seed", type=int, default=default.seed, help="of the grammar keywords and its texts")
    add("--fresh-vocabulary", action="store_true", help="set engines up anew each repetition")
    names = [field.name for field in dataclasses.fields(llgx.Shortcuts)]
    add("--without", choices=names, action="append", help="a shortcut of llgx's, off")
    add("--cpu", type=int, metavar="N", help="run on this CPU, -1 for any; default: the last")
    add("--json", type=pathlib.Path, metavar="FILE", help="write all figures there")
    add("--no-timing", action="store_true", help="make the calls only, for callgrind")
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    default = Settings(repetitions=2, passes=2) if options.quick else Settings()
    return Settings(
        engines=ENGINE_NAMES if options.engine == "both" else (options.engine,),
        grammars=tuple(options.grammar or corpus.GRAMMAR_NAMES),
        repetitions=options.repetitions or default.repetitions,
        passes=options.passes or default.passes,
        seed=options.seed,
        fresh_vocabulary=options.fresh_vocabulary,
        without=tuple(options.without or ()),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    settings = _settings(options)
    path: pathlib.Path = options.vocabulary or harness.default_vocabulary()
    if not path.is_file():
        parser.error(f"no vocabulary at {path}: give --vocabulary or set LLGX_VOCABULARIES")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"no directory {options.json.parent} for --json")
    if "llguidance" in settings.engines and importlib.util.find_spec("llguidance") is None:
        parser.error("llguidance is not installed: pip install '.[bench]', or --engine llgx")
    try:
        cpu = harness.pin(options.cpu)
    except OSError as error:
        parser.error(f"cannot run on CPU {options.cpu}: {error}")
    try:
        vocabulary = llgx.Vocabulary.from_gguf(path)
    except (OSError, llgx.LlgxError) as error:
        parser.error(f"cannot read {path}: {error}")
    if options.no_timing:
        print(f"{_run_untimed(settings, vocabulary)} masks")
        return 0
    figures = run(settings, vocabulary)
    figures.environment["vocabulary"] = f"{path.name}, {len(vocabulary):,} tokens"
    figures.environment["cpu"] = "any" if cpu is None else str(cpu)
    print(mask_report.render(figures))
    if options.json is not None:
        text = json.dumps(dataclasses.asdict(figures), indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    for fault in figures.faults:
        print(f"DIFFERENCE {fault}", file=sys.stderr)
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
