"""The benches: both engines accept their texts with equal masks, and their figures are right.

Times are not looked at, except that they are there; what is checked is what the benches count and
conclude. Engines run on a vocabulary of bytes and some pieces, and on Llama 3 where it is at hand.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import llgx

pytest.importorskip("llguidance")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import corpus
import engines
import generate as generation
import harness
import mask_report
import masks

PIECES = (
    b"  ", b"    ", b"\n\n", b" (", b");\n", b"\", \"", b"\":", b" =", b" + ", b"==", b"/*", b"//",
    b"1", b"12", b"100", b"3.", b"in", b"int", b" int", b"return", b"for (", b"SELECT", b" FROM",
    b"customer", b"_id", b"_name", b"the", b" the", b"answer", b">.", b"</", b".</", b">\n",
    b"\xc3", b"\xb1a", b"\xf0\x9f", b"",
)  # fmt: skip


@functools.cache
def small_vocabulary() -> llgx.Vocabulary:
    """Every byte, pieces that cross the borders of lexemes and of characters, two endings."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [*PIECES, b"<|end|>", b"<|turn|>", b"<|start|>"]
    end = 256 + len(PIECES)
    return llgx.Vocabulary.from_tokens(tokens, eog=(end, end + 1), special=(end + 2,))


@functools.cache
def llama3() -> llgx.Vocabulary:
    path = harness.default_vocabulary()
    if not path.is_file():
        pytest.skip(f"no vocabulary at {path}")
    pytest.importorskip("llama_cpp")
    return llgx.Vocabulary.from_gguf(path)


@functools.cache
def both_engines(vocabulary: llgx.Vocabulary) -> list[engines.Engine]:
    return [engines.make_engine(name, vocabulary) for name in engines.ENGINE_NAMES]


@pytest.mark.parametrize("get_vocabulary", [small_vocabulary, llama3])
@pytest.mark.parametrize("grammar", corpus.GRAMMAR_NAMES)
def test_engines_accept_each_text_with_equal_masks(
    grammar: str, get_vocabulary: Callable[[], llgx.Vocabulary]
) -> None:
    vocabulary = get_vocabulary()
    texts = masks.load_texts(masks.Settings(grammars=(grammar,)), vocabulary)
    assert len(texts) == 3
    faults = masks.compare(both_engines(vocabulary), texts, vocabulary)
    assert {text.label: found for text, found in faults.items() if found} == {}


def test_texts_are_their_files() -> None:
    case = corpus.load("freetext", seed=1)
    assert [name for name, _ in case.texts] == ["explain", "review", "short"]
    text = dict(case.texts)["short"]
    assert text.startswith(b"<answer>No.</answer>\n")
    assert text.endswith(b"Apostol (1976)")


def test_keywords_depend_on_the_seed_alone() -> None:
    case = corpus.load("keywords", seed=1)
    assert case == corpus.load("keywords", seed=1)
    assert case != corpus.load("keywords", seed=2)
    # 3,000 columns, 600 tables and 400 functions, beside some forty literals of the syntax
    assert 8000 <= case.grammar.count('"') <= 8200


class _Spoiled:
    """llguidance with one bit of each mask turned over, or with one token it will not have."""

    def __init__(self, vocabulary: llgx.Vocabulary, *, flip: int = -1, refuse: int = -1) -> None:
        self._engine = engines.make_engine("llguidance", vocabulary)
        self.name = "spoiled"
        self.mask = self._engine.mask
        self._flip, self._refuse = flip, refuse

    def compile(self, grammar: str) -> engines.Compiled:
        compiled = self._engine.compile(grammar)
        return lambda: self._spoil(compiled())

    def _spoil(self, session: harness.Session) -> harness.Session:
        def fill(first: object, second: object) -> None:
            session.fill(first, second)
            if self._flip >= 0:
                self.mask[0, self._flip // 32] ^= np.int32(1 << self._flip % 32)

        def consume(token: int) -> None:
            if token == self._refuse:
                raise llgx.TokenRejected("not this one", token=token)
            session.consume(token)

        return dataclasses.replace(session, fill=fill, consume=consume)


def _digits(vocabulary: llgx.Vocabulary) -> mask_report.Text:
    source = '%llguidance {"no_forcing": true}\nstart: /[0-9]{3}/'
    return mask_report.Text("digits", "123", source, (*b"123", vocabulary.eog[0]))


def test_compare_finds_one_wrong_bit() -> None:
    vocabulary = small_vocabulary()
    text = _digits(vocabulary)
    pair = [engines.make_engine("llguidance", vocabulary), _Spoiled(vocabulary, flip=ord("z"))]
    found = masks.compare(pair, [text], vocabulary)[text]
    assert len(found) == 4
    assert found[1] == "digits/123[1] before b'2': only spoiled allows 1 tokens: b'z'"


def test_compare_finds_a_rejected_token_and_stops_there() -> None:
    vocabulary = small_vocabulary()
    text = _digits(vocabulary)
    pair = [engines.make_engine("llguidance", vocabulary), _Spoiled(vocabulary, refuse=ord("2"))]
    found = masks.compare(pair, [text], vocabulary)[text]
    assert found == ["digits/123[1] before b'2': spoiled fails: not this one"]


def test_compare_finds_a_refused_grammar() -> None:
    vocabulary = small_vocabulary()
    text = mask_report.Text("broken", "x", "start: nowhere", (0,))
    for engine in both_engines(vocabulary):
        found = masks.compare([engine], [text], vocabulary)[text]
        assert len(found) == 1
        assert found[0].startswith(f"broken/x: {engine.name} refuses the grammar: ")


# ------------------------------------------------------------------ the command


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Callable[..., int]:
    """``masks.main`` on the small vocabulary, not bound to a CPU."""
    path = tmp_path / "small.gguf"
    path.touch()
    monkeypatch.setattr(llgx.Vocabulary, "from_gguf", lambda _: small_vocabulary())
    return lambda *arguments: masks.main(["--vocabulary", str(path), "--cpu", "-1", *arguments])


def _positions(grammar: str) -> int:
    """Tokens of the texts of ``grammar``, an end-of-generation token after each."""
    texts = corpus.load(grammar, seed=1).texts
    return sum(len(small_vocabulary().tokenize(text)) + 1 for _, text in texts)


def test_command_counts_and_concludes(
    run_command: Callable[..., int], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "figures.json"
    arguments = ("--grammar", "json", "--repetitions", "2", "--passes", "3", "--json", str(target))
    assert run_command(*arguments, "--fresh-vocabulary") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    count = _positions("json")
    assert f"masks compared bit by bit: {count:,} positions, all equal" in captured.out
    assert "llguidance: 1.9.1" in captured.out

    figures = json.loads(target.read_text(encoding="utf-8"))
    assert figures["compared"] == count
    assert figures["faults"] == []
    assert [group["name"] for group in figures["groups"]] == ["json", "all"]
    for group in figures["groups"]:
        assert group["tokens"] == count
        for name in engines.ENGINE_NAMES:
            engine = group["engines"][name]
            assert engine["first"]["summary"]["count"] == 2 * count
            assert engine["later"]["summary"]["count"] == 2 * 2 * count
            assert engine["compile"]["count"] == 2 * 3
            assert engine["start"]["avg"] > engine["compile"]["avg"] > 0
            assert engine["first"]["steady"]["us"] <= engine["first"]["worst"]["us"]
            assert engine["first"]["worst"]["us"] == engine["first"]["summary"]["max"]
        ours, peer = (group["engines"][name]["first"]["summary"] for name in engines.ENGINE_NAMES)
        assert group["ratios"]["first_avg"] == pytest.approx(peer["avg"] / ours["avg"])
    # built once to compare, then for each repetition
    assert {name: len(times) for name, times in figures["set_up_ms"].items()} == {
        "llgx": 3,
        "llguidance": 3,
    }
    assert len(figures["verdicts"]) == 5


@pytest.mark.parametrize("engine", engines.ENGINE_NAMES)
def test_command_with_one_engine(
    engine: str, run_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--engine", engine, "--grammar", "arithmetic", "--quick", "--passes", "1")
    assert run_command(*arguments) == 0
    output = capsys.readouterr().out
    assert "no masks compared" in output
    assert "First visits" in output
    assert "Later visits" not in output
    assert "llguidance / llgx" not in output
    assert ("no mask over 3 ms" in output) == (engine == "llgx")


def test_command_without_timing(
    run_command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--engine", "llgx", "--grammar", "arithmetic", "--passes", "2", "--no-timing")
    assert run_command(*arguments) == 0
    assert capsys.readouterr().out == f"{2 * _positions('arithmetic')} masks\n"


def test_command_fails_loudly_where_engines_differ(
    run_command: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def make(
        name: str, vocabulary: llgx.Vocabulary, shortcuts: llgx.Shortcuts | None = None
    ) -> engines.Engine:
        if name == "llgx":
            return _Spoiled(vocabulary, flip=ord("z"))
        return engines.make_engine(name, vocabulary, shortcuts)

    monkeypatch.setattr(masks, "make_engine", make)
    assert run_command("--grammar", "arithmetic", "--quick") == 1
    captured = capsys.readouterr()
    assert "THE ENGINES DISAGREE" in captured.out
    assert captured.err.count("DIFFERENCE arithmetic/") == _positions("arithmetic")
    assert "First visits" not in captured.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--vocabulary", "/nonexistent.gguf"],
        ["--vocabulary", __file__, "--json", "/nonexistent/figures.json"],
        ["--passes", "0"],
        ["--engine", "other"],
        ["--grammar", "cobol"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        masks.main(arguments)
    assert raised.value.code == 2
    assert "error:" in capsys.readouterr().err


# ------------------------------------------------------------------ figures


def test_summary_of_a_thousand() -> None:
    values = np.arange(1000, 0, -1, dtype=np.int64) * 1000
    summary = harness.Summary.of(values)
    percentiles = (250.0, 500.0, 750.0, 900.0, 950.0, 990.0, 999.0)
    assert summary == harness.Summary(1000, 500.5, *percentiles, 1000.0)


def _timings(
    rows: dict[str, tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]],
) -> mask_report.Timings:
    text = mask_report.Text("g", "t", "", (1, 0))
    return {
        (name, text): mask_report.Samples(
            [list(row) for row in first], [list(row) for row in later], [500] * len(first)
        )
        for name, (first, later) in rows.items()
    }


def test_steady_maximum_forgets_what_happened_once() -> None:
    first = [[9_000_000, 2_000], [1_000, 4_000_000], [1_500, 3_000]]
    timings = _timings({"llgx": (first, [[1, 2]])})
    (group, overall) = mask_report.summarise(["llgx"], timings, [b"a", b"b"])
    assert overall.engines == group.engines
    phase = group.engines["llgx"].first
    assert phase.worst == mask_report.Worst(9000.0, "g/t", 0, "'b'")
    assert phase.steady == mask_report.Worst(2.0, "g/t", 1, "'a'")
    assert group.engines["llgx"].start.max == 9000.5


@pytest.mark.parametrize(
    ("ours", "peer", "later", "expected"),
    [
        (1_000, 4_000, 1_200, [True, True, True, True, True]),
        (1_000, 3_999, 1_201, [False, False, False, True, True]),
        (3_000_001, 20_000_000, 1, [True, True, True, False, False]),
    ],
)
def test_verdicts(ours: int, peer: int, later: int, expected: list[bool]) -> None:
    timings = _timings({"llgx": ([[ours] * 2], [[later] * 2]), "llguidance": ([[peer] * 2], [])})
    groups = mask_report.summarise(engines.ENGINE_NAMES, timings, [b"a", b"b"])
    assert [verdict.holds for verdict in mask_report.verdicts(groups)] == expected


def test_table_aligns_text_left_and_numbers_right() -> None:
    rows = [("a", 1.5, 7), ("long", None, 12345)]
    assert harness.format_table(("name", "time", "count"), rows) == (
        "name  time  count\n-----------------\na     1.50      7\nlong     -  12345"
    )


# ---------------------------------------------------------------------------- generation


def _run(tokens: int, seconds: float, busy: float) -> generation.Run:
    return generation.Run(tokens, 3 * tokens, seconds, busy, b"", True)


def test_engines_take_turns() -> None:
    names = generation.ENGINES
    assert generation.order(names, 0, is_quick=True) == list(names)
    assert generation.order(names, 1, is_quick=False) == list(names)[::-1]
    assert generation.order(names, 3, is_quick=True) == ["jump", "sampler", "processor", "plain"]


def test_the_range_of_a_median() -> None:
    assert generation.interval([[2.0, 2.0], [2.0]]) == (2.0, 2.0, 2.0)
    middle, low, high = generation.interval([[0.9, 1.0, 1.1]] * 7)
    assert low < middle == 1.0 < high
    _, narrow, _ = generation.interval([[0.9, *[1.0] * 9, 1.1]] * 7)
    assert low < narrow


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        ((1.2, 1.0, 1.3), "reached"),
        ((0.9, 0.8, 0.95), "missed"),
        ((1.01, 0.9, 1.1), "reached, within the spread"),
        ((0.98, 0.9, 1.1), "missed, within the spread"),
    ],
)
def test_what_a_figure_says_about_a_bar(figure: tuple[float, float, float], verdict: str) -> None:
    assert generation.judged(1.0, *figure) == verdict


def test_ratios_are_those_of_one_repetition() -> None:
    """The second is measured while the machine is at half its speed; peers run once."""
    runs = [
        {"plain": _run(10, 1, 1), "gbnf": _run(10, 4, 4), "sampler": _run(10, 1, 1)},
        {"plain": _run(10, 2, 1), "sampler": _run(10, 2, 1)},
    ]
    runs[1]["jump"] = _run(10, 1, 0.5)
    runs[0]["jump"] = _run(10, 0.5, 0.5)
    engines = ("plain", "gbnf", "sampler", "jump")
    assert "gbnf 2.5 (0.25), sampler 7.5 (1.00), jump 15.0 (2.00)" in generation.line(
        "person", 0.0, runs, engines
    )
    head, gbnf, sampler, jump, _ = generation.report({(0.0, "person"): runs}, engines)
    assert head.split() == ["of", "plain", "clock", "processor", "on", "schemas", "text"]
    assert gbnf.split() == ["gbnf", *3 * ["0.250", "(0.25-0.25)"], "0.25"]
    assert sampler.split()[:8] == ["sampler", *3 * ["1.000", "(1.00-1.00)"], "1.00"]
    assert sampler.endswith("bar 0.99: reached")
    assert jump.split()[:8] == ["jump", *3 * ["2.000", "(2.00-2.00)"], "2.00"]
    assert jump.endswith("bar 1.3: reached")
