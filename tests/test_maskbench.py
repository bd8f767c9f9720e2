"""MaskBench: outcomes of a fixed tenth of the cases, and the bench that finds them.

    python bench/maskbench.py --coverage MASKBENCH --ratchet tests/data/maskbench.ratchet
    python bench/maskbench.py --coverage MASKBENCH --options '{"property_order": "named"}' \\
        --ratchet tests/data/maskbench-named.ratchet
    python bench/maskbench.py --coverage MASKBENCH --options '{"property_order": "any"}' \\
        --ratchet tests/data/maskbench-any-order.ratchet

run all cases, with members in schema order, named ones in any order, and all in any; with
``--write`` they write the files anew.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import llgx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import engines
import harness
import json_cases
import json_outcomes
import json_plot
import json_profile
import json_report
import json_timing
import maskbench
import ratchet

from tests.shared_data import data_file

DATA = Path(__file__).parent / "data"
RATCHETS: dict[str, Mapping[str, Any]] = {
    "maskbench.ratchet": {},
    "maskbench-named.ratchet": {"property_order": "named"},
    "maskbench-any-order.ratchet": {"property_order": "any"},
}


# ------------------------------------------------------------------ the cases


@pytest.mark.parametrize("name", RATCHETS)
def test_a_tenth_of_maskbench_is_as_good_as_before(name: str) -> None:
    cases = json_cases.load(data_file("maskbench.jsonl.gz"))
    expected = ratchet.read(DATA / name)
    assert set(expected) == {case.id for case in cases}
    chosen = [case for case in cases if json_cases.tenth(case.id)]
    assert len(chosen) > 500
    setting = json_outcomes.Setting(options=RATCHETS[name])
    results = list(json_outcomes.judge_all(chosen, setting, workers=2))
    changes = ratchet.compare(expected, results)
    assert [str(change) for change in changes if change.is_worse] == []


@pytest.mark.parametrize("name", RATCHETS)
def test_nothing_is_wrongly_accepted(name: str) -> None:
    letters = "".join(ratchet.read(DATA / name).values())
    assert json_outcomes.WRONG_ACCEPT not in letters
    assert json_outcomes.CRASH not in letters


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("maskbench.ratchet", 0.968),
        ("maskbench-named.ratchet", 0.99),
        ("maskbench-any-order.ratchet", 0.997),
    ],
)
def test_share_that_passes(name: str, share: float) -> None:
    letters = ratchet.read(DATA / name).values()
    outcomes = [json_outcomes.outcome_of(one) for one in letters]
    assert outcomes.count(json_outcomes.PASS) >= share * len(outcomes)


# ------------------------------------------------------------------ reading cases


def _write_cases(path: Path, *entries: object) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_documents_keep_their_spelling(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(
        '{"id":"Github_easy---1","schema":{"b":1.0,"a":1e3},'
        '"tests":[{"valid":true,"data":{"z":[1.50,-0.0,"\\u00e9\\ud800"],"a":{}}}]}\n'
    )
    (case,) = json_cases.load(path)
    assert case.category == "Github_easy"
    assert case.schema == '{"b": 1.0, "a": 1e3}'
    (document,) = case.documents
    assert document.text == '{"z": [1.50, -0.0, "\\u00e9\\ud800"], "a": {}}'
    assert json_cases.text_of(["é"]) == '["é"]'


def test_cases_of_the_suite_get_the_dialect_of_their_draft(tmp_path: Path) -> None:
    entry = {"draft": "draft7", "file": "not", "group": "forbidden property", "tests": []}
    path = _write_cases(
        tmp_path / "suite.jsonl", {**entry, "schema": {"not": {}}}, {**entry, "schema": False}
    )
    first, second = json_cases.load(path)
    assert first.id == "draft7/not/forbidden property"
    assert json.loads(first.schema)["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert second.schema == "false"


def test_a_line_that_is_no_case_is_named(tmp_path: Path) -> None:
    path = _write_cases(tmp_path / "cases.jsonl", {"id": "a", "schema": {}, "tests": []}, {"id": 1})
    with pytest.raises(ValueError, match="line 2"):
        json_cases.load(path)


def test_a_sample_depends_on_its_seed() -> None:
    cases = [json_cases.Case(str(number), "c", "{}", ()) for number in range(100)]
    chosen = json_cases.choose(cases, 10, 1)
    assert chosen == json_cases.choose(cases, 10, 1) != json_cases.choose(cases, 10, 2)
    assert [int(case.id) for case in chosen] == sorted(int(case.id) for case in chosen)
    assert json_cases.choose(cases, None, 1) == cases == json_cases.choose(cases, 100, 1)
    assert 5 < sum(json_cases.tenth(f"case {number}") for number in range(100)) < 15


# ------------------------------------------------------------------ judging


class _Scripted:
    """An engine that does what the schema says: a list of texts to accept, or a fault by name."""

    name = "llgx"

    def __init__(self) -> None:
        self.mask = np.zeros((1, 1), dtype=np.int32)

    def compile(self, grammar: str) -> engines.Compiled:
        raise NotImplementedError

    def stats(self) -> dict[str, int]:
        return {}

    def compile_schema(
        self, schema: str, options: Mapping[str, Any], *, forcing: bool = True
    ) -> engines.Compiled:
        script = json.loads(schema)
        if script == "refuse":
            raise llgx.SchemaError("not this one", keyword="script")
        if script == "nothing":
            raise llgx.SchemaError("no value satisfies the schema")
        if script == "raise":
            raise ValueError("an error without a type of its own")
        if script == "sleep":
            time.sleep(60)
        if script == "die":
            os._exit(7)
        texts = [text.encode() for text in script]
        if options.get("shout"):
            texts += [text.upper() for text in texts]
        return lambda: self._session(texts)

    def _session(self, texts: list[bytes]) -> harness.Session:
        def accepts(text: bytes) -> bool:
            if text == b'"limit"':
                raise llgx.LimitError("too many rows", limit="rows")
            return text in texts

        return harness.Session(print, (0, 0), print, lambda: "", accepts)


def _case(script: object, *documents: tuple[str, bool]) -> json_cases.Case:
    return json_cases.Case(
        f"case {script}",
        "scripted",
        json.dumps(script),
        tuple(json_cases.Document(text, valid) for text, valid in documents),
    )


@pytest.mark.parametrize(
    ("script", "letters", "outcome"),
    [
        (["1", "2"], "....", "pass"),
        (["1", "2", "4"], "...a", "wrong accept"),
        (["1"], ".r..", "wrong reject"),
        (["3"], "rra.", "wrong accept"),
        ("refuse", "xxxx", "refused"),
        ("nothing", "rr..", "wrong reject"),
        ("raise", "cccc", "crash"),
    ],
)
def test_outcomes(script: object, letters: str, outcome: str) -> None:
    case = _case(script, ("1", True), ("2", True), ("3", False), ("4", False))
    result = json_outcomes.judge(_Scripted(), case, {})
    assert result.letters == letters
    assert json_outcomes.OUTCOMES[result.outcome] == outcome
    assert bool(result.message) == (letters != "....")


def test_an_error_while_matching_is_a_crash() -> None:
    result = json_outcomes.judge(_Scripted(), _case(["1"], ('"limit"', False), ("1", True)), {})
    assert result.letters == "c."
    assert "LimitError" in result.message


def test_wrong_rejects_are_tried_again_with_wider_options(monkeypatch: pytest.MonkeyPatch) -> None:
    widenings = {"quiet": {"hush": True}, "loud": {"shout": True}}
    monkeypatch.setattr(json_outcomes, "WIDENINGS", widenings)
    case = _case(["a"], ("A", True), ("a", True))
    assert json_outcomes.judge(_Scripted(), case, {}).causes == ()
    assert json_outcomes.judge(_Scripted(), case, {}, widen=True).causes == ("loud",)
    hopeless = _case(["a"], ("b", True))
    assert json_outcomes.judge(_Scripted(), hopeless, {}, widen=True).causes == ()


def _scripted(name: str, vocabulary: llgx.Vocabulary) -> _Scripted:
    return _Scripted()


def test_a_worker_that_dies_or_hangs_ends_no_run() -> None:
    cases = [
        _case(["1"], ("1", True)),
        _case("die", ("1", True), ("2", True)),
        _case("sleep", ("1", False)),
        _case("refuse", ("1", True)),
    ]
    setting = json_outcomes.Setting(maker=_scripted, seconds=3.0)
    found = {result.case: result for result in json_outcomes.judge_all(cases, setting, workers=2)}
    assert {name: result.letters for name, result in found.items()} == {
        "case ['1']": ".",
        "case die": "cc",
        "case sleep": "c",
        "case refuse": "x",
    }
    assert "died with code 7" in found["case die"].message
    assert "no result after 3 s" in found["case sleep"].message


# ------------------------------------------------------------------ ratchet


def _result(case: str, letters: str) -> json_outcomes.Result:
    return json_outcomes.Result(case, "", letters)


def test_ratchet_file_is_sorted_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.ratchet"
    ratchet.write(path, [_result("b c", "..x"), _result("a", ".r")])
    assert path.read_text() == ".r a\n..x b c\n"
    assert ratchet.read(path) == {"a": ".r", "b c": "..x"}


def test_ratchet_tells_worse_from_better() -> None:
    expected = {"same": ".r", "better": "xx", "worse": "..r", "mixed": "rx", "absent": "."}
    results = [
        _result("same", ".r"),
        _result("better", ".x"),
        _result("worse", "..a"),
        _result("mixed", ".r"),
        _result("new", "."),
    ]
    changes = ratchet.compare(expected, results)
    assert {change.case for change in changes if change.is_worse} == {"worse", "mixed", "new"}
    assert [change.case for change in changes][-1] == "better"


@pytest.mark.parametrize("line", ["..", ".q a", " a"])
def test_ratchet_refuses_what_is_no_outcome(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.ratchet"
    path.write_text(f". a\n{line}\n")
    with pytest.raises(ValueError, match="line 2"):
        ratchet.read(path)


# ------------------------------------------------------------------ figures


def _times(case: str, engine: str, scale: int, **changes: Any) -> json_timing.CaseTimes:
    walks = [json_timing.Walk(0, [1000 * scale, 3000 * scale], True)]
    times = json_timing.CaseTimes(
        case, engine, compile=50_000 * scale, first_mask=10_000 * scale, first=walks, outcomes="."
    )
    for name, value in changes.items():
        setattr(times, name, value)
    return times


def test_a_plot_is_a_picture_of_the_common_cases(tmp_path: Path) -> None:
    times = [_times("a", "llgx", 1), _times("a", "llguidance", 9), _times("b", "llgx", 2)]
    names = ("llgx", "llguidance")
    common = json_report.samples_of_common_cases(times, names, "first")
    assert common == {"llgx": [1000, 3000], "llguidance": [9000, 27000]}
    json_plot.draw(tmp_path / "plot.png", times, names, "what and where")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_figures_of_two_engines() -> None:
    times = [
        _times("a", "llgx", 1, memory=1_000_000),
        _times("a", "llguidance", 20),
        _times("b", "llgx", 2, outcomes=".r"),
        _times("b", "llguidance", 1, refusal="no"),
        _times("c", "llgx", 1, outcomes="a"),
        _times("c", "llguidance", 20),
    ]
    figures = json_report.summarise(times, ("llgx", "llguidance"))
    assert (figures.cases, figures.common) == (3, 2)
    assert figures.shared["first", "llgx"].count == 4
    assert figures.own["first", "llgx"].count == 6
    assert figures.shared["start", "llgx"].p50 == 60.0
    assert figures.ratios["first", "avg"] == 20.0
    assert figures.outcomes["llgx"] == {
        "refused": 0,
        "wrong reject": 1,
        "wrong accept": 1,
        "pass": 1,
    }
    assert figures.outcomes["llguidance"] == {"refused": 1, "pass": 2}
    ours = [place for place in figures.masks if place.engine == "llgx"]
    assert (ours[0].us, ours[0].where) == (6.0, "b document 0 token 1")
    verdicts = {goal: verdict for verdict, goal, _ in json_report.bars(figures)}
    assert verdicts["TBM avg <= 2.5 us"] == "holds"
    assert verdicts["TBM p50 <= 1.2 us"] == "holds"
    assert verdicts["TBM avg <= 1/12 of llguidance's"] == "holds"
    assert verdicts["memory of a compiled grammar, median <= 2 MB"] == "holds"
    assert (
        json.loads(json.dumps(json_report.as_json(figures)))["shared"]["first llgx"]["count"] == 4
    )
    assert "The slowest masks" in json_report.timing_report(figures)


def test_samples_are_attributed_by_module() -> None:
    library = "_regex.cpython-311-x86_64-linux-gnu.so"
    assert json_profile.group_of(library, "__pyx_f_4llgx_6_regex_derive").startswith("regexes")
    assert json_profile.group_of("_mask.so", "helper").startswith("boundary walks")
    assert json_profile.group_of("libc.so.6", "__memmove_avx_unaligned_erms") == "copies"
    assert json_profile.group_of("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault") == "Python"
    assert json_profile.group_of("libc.so.6", "malloc") == "other"


# ------------------------------------------------------------------ the command


@pytest.fixture
def cases_file(tmp_path: Path) -> Path:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    tests = [
        {"valid": True, "data": {"a": 12, "b": "text"}},
        {"valid": False, "data": {"b": "text"}},
    ]
    return _write_cases(
        tmp_path / "cases.jsonl",
        {"id": "One---1", "schema": schema, "tests": tests},
        {"id": "Two---1", "schema": {"enum": [1, "x"]}, "tests": [{"valid": True, "data": "x"}]},
    )


def test_coverage_writes_and_holds_a_ratchet(
    cases_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outcomes.ratchet"
    arguments = ["--coverage", str(cases_file), "--ratchet", str(path)]
    assert maskbench.main([*arguments, "--write"]) == 0
    assert path.read_text() == ".. One---1\n. Two---1\n"
    assert maskbench.main(arguments) == 0
    path.write_text(".. One---1\nx Two---1\n")
    assert maskbench.main([*arguments, "--category", "Two"]) == 0
    assert "better Two---1: x -> ." in capsys.readouterr().out


def test_coverage_fails_where_an_outcome_is_worse(
    cases_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [json.loads(line) for line in cases_file.read_text().splitlines()]
    entries[1]["tests"][0]["data"] = "y"
    _write_cases(cases_file, *entries)
    path = tmp_path / "outcomes.ratchet"
    path.write_text(".. One---1\n. Two---1\n")
    assert maskbench.main(["--coverage", str(cases_file), "--ratchet", str(path), "--list"]) == 1
    output = capsys.readouterr().out
    assert "WORSE Two---1: . -> r" in output
    assert 'WRONG REJECT Two---1 [r] wrong reject: "y"' in output


def test_timing_counts_what_it_walks(
    cases_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llguidance")
    target = tmp_path / "figures.json"
    arguments = ["--timing", str(cases_file), "--vocabulary", "bytes", "--cpu", "-1", "--compare"]
    assert maskbench.main([*arguments, "--later", "2", "--json", str(target)]) == 0
    figures = json.loads(target.read_text())
    valid = len('{"a": 12, "b": "text"}') + 1
    invalid = len('{"')  # the b is where both see that a is missing
    other = len('"x"') + 1
    count = valid + invalid + other
    for engine in engines.ENGINE_NAMES:
        assert figures["shared"][f"first {engine}"]["count"] == count
        assert figures["shared"][f"later {engine}"]["count"] == 2 * count
        assert figures["shared"][f"start {engine}"]["count"] == 2
        assert figures["outcomes"][engine]["pass"] == 2
    output = capsys.readouterr().out
    # At the refused token there is a mask too
    assert f"masks compared: {count + 1}; equal {count + 1}; llgx allows more at 0" in output


def test_profile_names_stages(cases_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--profile", str(cases_file), "--vocabulary", "bytes", "--cpu", "-1"]
    assert maskbench.main(arguments) == 0
    output = capsys.readouterr().out
    assert "2 of 2 cases compiled" in output
    for stage in ("front end", "compile", "first mask", "first visits", "later visits"):
        assert stage in output


@pytest.mark.parametrize(
    "change",
    [
        ["--coverage", "/nonexistent.jsonl"],
        ["--vocabulary", "/nonexistent.gguf"],
        ["--category", "None"],
        ["--write"],
        ["--sample", "0"],
        ["--options", "[]"],
    ],
)
def test_bad_usage(change: list[str], cases_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        maskbench.main(["--coverage", str(cases_file), *change])
    assert raised.value.code == 2
    assert "error:" in capsys.readouterr().err
