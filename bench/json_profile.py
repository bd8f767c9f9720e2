"""Where llgx spends its time on schemas: by stage, by Python module, by engine module.

Stages are clocked from Python: the front end (schema to description), compiling (description to
engine), the first mask, first visits and later ones. Within the front end ``cProfile`` attributes
time to modules, in a pass of its own because it slows Python down. Within the engine ``perf``,
where it may be used, samples the process and attributes the samples to the modules that the
functions come from. What an engine has built is counted by ``CompiledGrammar.stats``.
"""

from __future__ import annotations

import contextlib
import cProfile
import os
import pathlib
import pstats
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import harness
from json_cases import Case
from json_outcomes import make_vocabulary

import llgx

__all__ = ["group_of", "profile"]

_SAMPLES_A_SECOND: Final = 3989
_SHOWN_FUNCTIONS: Final = 25
_GROUPS: Final[Mapping[str, str]] = {
    "_regex": "regexes: derivatives, emptiness",
    "_lexer": "lexer: states and transitions",
    "_earley": "rows",
    "_inside": "inside walks",
    "_mask": "boundary walks, masks",
    "_builder": "masks in the making",
    "_trie": "trie and loop tables",
    "_compiled": "lowering",
    "_core": "matcher",
}
_COPIES: Final = re.compile(r"mem(cpy|move|set)")
_MODULE: Final = re.compile(r"__pyx_\w*?_4llgx_\d+(_[a-z]+)")
_SHARED: Final = re.compile(r"^(_[a-z]+)\.")


def group_of(library: str, symbol: str) -> str:
    """What a sample at ``symbol`` of ``library`` counts as."""
    if _COPIES.search(symbol):
        return "copies"
    match = _MODULE.search(symbol) or _SHARED.match(library)
    if match:
        return _GROUPS.get(match.group(1), match.group(1))
    return "Python" if "python" in library else "other"


def profile(cases: Sequence[Case], vocabulary_name: str, options: Mapping[str, Any]) -> str:
    """Run llgx over the cases and report."""
    vocabulary = make_vocabulary(vocabulary_name)
    stages: Counter[str] = Counter()
    built: Counter[str] = Counter()
    done = tokens = 0
    with harness.quiet(), _sampled() as samples:
        for case in cases:
            counted = _run(case, vocabulary, options, stages, built)
            done += counted > 0
            tokens += counted
    parts = [f"{done} of {len(cases)} cases compiled, {tokens:,} tokens"]
    total = sum(stages.values())
    rows: list[tuple[object, ...]] = [
        (name, ns / 1e6, 100 * ns / total, ns / 1e3 / max(done, 1)) for name, ns in stages.items()
    ]
    parts.append(harness.format_table(("stage", "ms", "%", "us a case"), rows))
    rows = [(name, number, number / max(done, 1)) for name, number in built.items()]
    parts.append(harness.format_table(("built", "number", "a case"), rows))
    parts.append(_engine_table(samples))
    parts.append(_front_end(cases, options))
    return "\n\n".join(parts)


def _run(
    case: Case,
    vocabulary: llgx.Vocabulary,
    options: Mapping[str, Any],
    stages: Counter[str],
    built: Counter[str],
) -> int:
    """Compile and walk one case; how many tokens were taken, 0 where it is refused."""
    texts = [
        (*vocabulary.tokenize(document.text.encode()), vocabulary.eog[0])
        for document in case.documents
    ]
    clock = time.perf_counter_ns
    mask = llgx.allocate_token_bitmask(1, len(vocabulary))
    times = [clock()]
    try:
        grammar = llgx.Grammar.from_json_schema(case.schema, **options)
        times.append(clock())
        compiled = grammar.compile(vocabulary)
        times.append(clock())
    except llgx.LlgxError:
        return 0
    llgx.Matcher(compiled).fill_bitmask(mask, 0)
    times.append(clock())
    tokens = 0
    for _ in range(2):
        for text in texts:
            matcher = llgx.Matcher(compiled)
            with contextlib.suppress(llgx.LlgxError):
                for token in text:
                    matcher.fill_bitmask(mask, 0)
                    matcher.consume(token)
                    tokens += 1
        times.append(clock())
    names = ("front end", "compile", "first mask", "first visits", "later visits")
    for name, begin, end in zip(names, times, times[1:], strict=False):
        stages[name] += end - begin
    built.update(compiled.stats())
    return tokens // 2


@contextlib.contextmanager
def _sampled() -> Iterator[list[tuple[float, str, str]]]:
    """Sample this process with perf: (percent, library, symbol); empty where that cannot be."""
    samples: list[tuple[float, str, str]] = []
    perf = shutil.which("perf")
    if perf is None:
        yield samples
        return
    with tempfile.TemporaryDirectory() as directory:
        data = pathlib.Path(directory) / "perf.data"
        frequency = str(_SAMPLES_A_SECOND)
        command = [perf, "record", "-q", "-e", "cpu-clock", "-F", frequency, "-o", str(data)]
        recorder = subprocess.Popen(
            [*command, "-p", str(os.getpid())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        try:
            yield samples
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(30)
        if data.is_file():
            samples += _read_samples(perf, data)


def _read_samples(perf: str, data: pathlib.Path) -> Iterator[tuple[float, str, str]]:
    command = [perf, "report", "-i", str(data), "--stdio", "-q", "--sort", "dso,sym", "-t", "|"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        percent, _, rest = line.partition("|")
        library, _, symbol = rest.partition("|")
        if percent.strip().endswith("%"):
            yield float(percent.strip()[:-1]), library.strip(), symbol.strip()[4:]


def _engine_table(samples: Sequence[tuple[float, str, str]]) -> str:
    if not samples:
        return "perf gave no samples: the engine's time is not attributed"
    groups: Counter[str] = Counter()
    for percent, library, symbol in samples:
        groups[group_of(library, symbol)] += percent  # type: ignore[assignment]
    table = harness.format_table(("samples in", "%"), [*groups.most_common()])
    rows = [(_short(symbol), library, percent) for percent, library, symbol in samples]
    functions = harness.format_table(("function", "library", "%"), rows[:_SHOWN_FUNCTIONS])
    return f"{table}\n\n{functions}"


def _short(symbol: str) -> str:
    """A Cython name without the mangling."""
    return re.sub(r"^__pyx_\w*?_4llgx_\d+", "", symbol)


def _front_end(cases: Sequence[Case], options: Mapping[str, Any]) -> str:
    recorder = cProfile.Profile()
    for case in cases:
        with contextlib.suppress(llgx.LlgxError):
            recorder.runcall(llgx.Grammar.from_json_schema, case.schema, **options)
    modules: Counter[str] = Counter()
    functions: list[tuple[str, int, float, float]] = []
    stats: Any = pstats.Stats(recorder)
    for (path, line, name), (_, calls, own, cumulative, _) in stats.stats.items():
        module = path.rpartition("/llgx/")[2] if "/llgx/" in path else path.rpartition("/")[2]
        modules[module] += own
        functions.append((f"{module}:{line} {name}", calls, own * 1e3, cumulative * 1e3))
    total = sum(modules.values()) or 1.0
    rows = [(name, own * 1e3, 100 * own / total) for name, own in modules.most_common(15)]
    table = harness.format_table(("front end, module", "ms", "%"), rows)
    functions.sort(key=lambda row: -row[2])
    header = ("function", "calls", "own ms", "cumulative ms")
    return f"{table}\n\n{harness.format_table(header, functions[:_SHOWN_FUNCTIONS])}"
