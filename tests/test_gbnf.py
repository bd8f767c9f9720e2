"""GBNF: cases, faults, llama.cpp's own grammars, and random grammars against the reference.

``data/gbnf.json`` holds grammars with texts to ``accept`` and to ``reject``; each runs through the
reference recogniser (unless ``reference`` is false: too much for it, or not its syntax), the engine
in every configuration, and the Lark text of the same language.
"""

from __future__ import annotations

import gc
import json
import pathlib
import random
import re
import time
from typing import Any, Final

import pytest

import llgx
from llgx.gbnf import compile_gbnf
from llgx.gbnf.lexing import plan
from llgx.gbnf.parser import parse
from llgx.limits import DEFAULT_LIMITS
from tests.campaign import ALL_CONFIGURATIONS, Configuration, allowed_tokens
from tests.gbnf_reference import Reference, random_grammar, random_texts
from tests.strategies import byte_tokens
from tests.test_engine_cases import accepts_tokens

Case = dict[str, Any]

DATA: Final = pathlib.Path(__file__).parent / "data"
CASES: Final[list[Case]] = json.loads((DATA / "gbnf.json").read_text())
ERRORS: Final[list[Case]] = json.loads((DATA / "gbnf_errors.json").read_text())
BYTES: Final = byte_tokens()
VOCABULARY: Final = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog)

_by_name = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
_by_configuration = pytest.mark.parametrize(
    "configuration", ALL_CONFIGURATIONS, ids=[c.name for c in ALL_CONFIGURATIONS]
)


def _accepts(compiled: llgx.CompiledGrammar, text: str) -> bool:
    matcher = llgx.Matcher(compiled)
    data = text.encode()
    return matcher.try_consume(data) == len(data) and matcher.is_accepting()


def _agree(compiled: llgx.CompiledGrammar, reference: Reference, text: str) -> None:
    """Walk along ``text`` as far as it is allowed, with masks and acceptance compared."""
    matcher = llgx.Matcher(compiled)
    for end, char in enumerate(f"{text}\0"):
        so_far = text[:end]
        assert matcher.is_accepting() == reference.accepts(so_far), so_far
        begun = b""
        for byte in char.encode():
            allowed = {token for token in allowed_tokens(matcher, len(VOCABULARY)) if token < 256}
            assert allowed == reference.next_bytes(so_far, begun), (so_far, begun)
            if end == len(text) or byte not in allowed:
                return
            matcher.consume(byte)
            begun += bytes((byte,))


def test_there_are_cases() -> None:
    assert len(CASES) > 70
    assert len({case["id"] for case in CASES}) == len(CASES)
    for case in CASES:
        assert case["accept"], case["id"]
        assert case["reject"], case["id"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.get("reference", True)], ids=lambda case: case["id"]
)
def test_reference(case: Case) -> None:
    reference = Reference(case["gbnf"])
    for text in case["accept"]:
        assert reference.accepts(text), text
    for text in case["reject"]:
        assert not reference.accepts(text), text


@_by_configuration
def test_cases(configuration: Configuration) -> None:
    for case in CASES:
        compiled = llgx.Grammar.from_gbnf(case["gbnf"]).compile(
            VOCABULARY, limits=configuration.limits, shortcuts=configuration.shortcuts
        )
        for text in case["accept"]:
            assert _accepts(compiled, text), (case["id"], text)
        for text in case["reject"]:
            assert not _accepts(compiled, text), (case["id"], text)


@_by_configuration
def test_cases_with_a_real_vocabulary(
    configuration: Configuration, llama3: llgx.Vocabulary
) -> None:
    """Texts as the model would spell them; those that are refused fail at a token or the end."""
    for case in CASES:
        compiled = llgx.Grammar.from_gbnf(case["gbnf"]).compile(
            llama3, limits=configuration.limits, shortcuts=configuration.shortcuts
        )
        for text in [*case["accept"], *case["reject"]]:
            tokens = llama3.tokenize(text.encode())
            assert b"".join(llama3.tokens[token] for token in tokens) == text.encode()
            accepted = accepts_tokens(llgx.Matcher(compiled), tokens, len(llama3))
            assert accepted == (text in case["accept"]), (case["id"], text)


@_by_name
def test_lark_text(case: Case) -> None:
    text = llgx.gbnf_to_lark(case["gbnf"])
    grammar = llgx.Grammar.from_string(text)
    assert grammar.warnings == ()
    compiled = grammar.compile(VOCABULARY)
    for accepted in case["accept"]:
        assert _accepts(compiled, accepted), (text, accepted)
    for rejected in case["reject"]:
        assert not _accepts(compiled, rejected), (text, rejected)


@pytest.mark.parametrize("case", ERRORS, ids=[case["id"] for case in ERRORS])
def test_faults(case: Case) -> None:
    with pytest.raises(llgx.GrammarError) as caught:
        llgx.Grammar.from_gbnf(case["gbnf"])
    error = caught.value
    assert (error.line, error.column) == (case["line"], case["column"])
    assert case["message"] in error.message
    if error.line:
        excerpt, caret = error.excerpt.split("\n")
        assert caret == " " * (len(caret) - 1) + "^"
        assert excerpt.strip() in case["gbnf"]


@pytest.mark.parametrize("text", ["root ::= [z-a]", r'root ::= "\ud800"', 'root ::= "a" root'])
def test_grammars_of_no_text_say_so(text: str) -> None:
    with pytest.raises(llgx.GrammarError, match="rule root matches nothing, or never ends"):
        llgx.Grammar.from_gbnf(text).compile(VOCABULARY)


def test_warnings() -> None:
    grammar = llgx.Grammar.from_gbnf('root ::= [] [z-a]* b\nb ::= "x"\nb ::= "y"')
    assert [warning.split(":")[0] for warning in grammar.warnings] == [
        "line 1, column 10",
        "line 1, column 14",
        "line 3, column 1",
    ]


@pytest.mark.parametrize(
    ("text", "limits", "limit"),
    [
        ("root ::= " + "(" * 60_000, {}, "nesting"),
        ("root ::= ((((a))))\na ::= a", {"nesting": 3}, "nesting"),
        ('root ::= "a"', {"grammar_bytes": 11}, "grammar_bytes"),
        ('root ::= "a"{2000000000,2147483647}', {}, "repeat"),
        ('root ::= "a"{99999999999}', {}, "repeat"),
        ('root ::= (root "a")? ("b" root "c"){3000000}', {}, "rule_repeat"),
        ('root ::= "a" root "b" | root "c" root', {"symbols": 5}, "symbols"),
    ],
)
def test_limits(text: str, limits: dict[str, int], limit: str) -> None:
    with pytest.raises(llgx.LimitError) as caught:
        llgx.Grammar.from_gbnf(text, limits=llgx.Limits(**limits))
    assert caught.value.limit == limit


def test_what_matches_nothing_is_refused() -> None:
    for text in (
        "root ::= root",
        "root ::= [z-a]",
        r'root ::= "\ud800"',
        'root ::= "a" b\nb ::= b',
    ):
        with pytest.raises(llgx.GrammarError, match="no text"):
            llgx.Grammar.from_gbnf(text).compile(VOCABULARY)


def test_what_is_no_text_is_refused() -> None:
    for text in (None, b'root ::= "a"', 7):
        with pytest.raises(TypeError):
            llgx.Grammar.from_gbnf(text)  # type: ignore[arg-type]


def test_from_string_tells_formats_apart() -> None:
    gbnf = llgx.Grammar.from_string('# %llguidance\nroot ::= "a"')
    lark = llgx.Grammar.from_string('\n %llguidance {}\nstart: "a"')
    for grammar in (gbnf, lark):
        assert _accepts(grammar.compile(VOCABULARY), "a")
    with pytest.raises(llgx.GrammarError, match="'::='"):
        llgx.Grammar.from_string('start: "a"')


# Lexing


def _terminals(text: str) -> set[str]:
    """The names of the terminals of a grammar."""
    return {terminal.name for terminal in compile_gbnf(text).terminals}


def test_rules_without_recursion_are_terminals() -> None:
    """What keeps masks fast: a string, a number and white space are one lexeme each."""
    grammar = """
        root ::= value
        value ::= "[" ws (value ("," ws value)*)? "]" ws | string | number
        string ::= "\\"" ([^"\\\\] | "\\\\" ["\\\\n])* "\\"" ws
        number ::= [0-9]+ ("." [0-9]+)? ws
        ws ::= ([ \\t\\n] ws)?
    """
    assert _terminals(grammar) == {'"["', "ws", '","', '"]"', "string", "number"}


def test_a_regular_grammar_is_one_terminal() -> None:
    grammar = compile_gbnf('root ::= "- " [^\\n]+ "\\n" root | ws "."\nws ::= " "*')
    assert len(grammar.terminals) == 1
    assert len(grammar.rules) == 1


def test_only_what_can_be_confused_is_taken_apart() -> None:
    grammar = 'root ::= "(" root ")" | word "z" | number\nword ::= [a-z]*\nnumber ::= [0-9]+'
    names = _terminals(grammar)
    assert "number" in names
    assert "word" not in names


def test_work_is_bounded() -> None:
    """Thousands of places that meet, and expressions too large to compare, end soon."""
    many = "\n".join(f'r{i} ::= "x" r{(i * 7 + 1) % 400} [a-z]* | "y{i}"' for i in range(400))
    compile_gbnf(f"root ::= r0 | {' | '.join(f'r{i}' for i in range(400))}\n{many}")
    words = " | ".join(f'"{i}x{i * i}"' for i in range(3000))
    compile_gbnf(f'root ::= "(" root ")" | word [0-9x]* root | "."\nword ::= {words}')


def test_chains_of_rules_do_not_recurse() -> None:
    """Neither the reader nor the planner uses Python's stack for the depth of a grammar."""
    chain = "\n".join(f'r{i} ::= "a" r{i + 1} "b"' for i in range(20_000))
    compile_gbnf(f'root ::= r0\n{chain}\nr20000 ::= "x"')
    doubling = "\n".join(f"d{i} ::= d{i + 1} d{i + 1}" for i in range(60))
    compile_gbnf(f'root ::= d0\n{doubling}\nd60 ::= "x"')


# Random grammars

SEEDS: Final = 150


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_grammars(seed: int) -> None:
    """Masks and acceptance are those of the reference, whatever became a terminal."""
    rng = random.Random(seed)
    text = random_grammar(rng)
    reference = Reference(text)
    grammars = [llgx.Grammar.from_gbnf(text), llgx.Grammar.from_lark(llgx.gbnf_to_lark(text))]
    if reference.is_empty:
        for grammar in grammars:
            with pytest.raises(llgx.GrammarError):
                grammar.compile(VOCABULARY)
        return
    texts = random_texts(rng, reference, 8, 8)
    for grammar in grammars:
        compiled = grammar.compile(VOCABULARY)
        for sample in texts:
            _agree(compiled, reference, sample)


def test_random_grammars_reach_every_remedy() -> None:
    """The grammars above have terminals merged, cut in texts, series, choices and loops."""
    merged = 0
    opened = set()
    for seed in range(SEEDS):
        result = plan(parse(random_grammar(random.Random(seed)), DEFAULT_LIMITS))
        merged += bool(result.merged)
        opened |= {type(node).__name__ for node in result.opened}
    assert merged > 5
    assert opened == {"Text", "Series", "Choice", "Loop", "Reference"}


def test_characters_alone_are_the_same_language() -> None:
    """The last resort of the planner, against the reference."""
    for seed in range(20):
        rng = random.Random(seed)
        text = random_grammar(rng)
        reference = Reference(text)
        if reference.is_empty:
            continue
        from llgx.gbnf.compiler import _Compiler

        source = parse(text, DEFAULT_LIMITS)
        result = plan(source)
        result.characters_only = True
        ir = _Compiler(source, result, DEFAULT_LIMITS).compile()
        compiled = llgx.Grammar.from_ir(ir).compile(VOCABULARY)
        for sample in random_texts(rng, reference, 4, 6):
            _agree(compiled, reference, sample)


# Lark text


def test_names_and_comments_in_lark() -> None:
    text = llgx.gbnf_to_lark(
        """# the whole
# text

# what it is
root ::= 1st | dataType | data-type | "(" root ")" | start | Start
1st ::= "1"
# a word
dataType ::= [a-z]+ "!"
data-type ::= root "?" # not above a rule
start ::= root "2" root
Start ::= "3"
"""
    )
    assert text.splitlines() == [
        "%llguidance {}",
        "",
        "# what it is",
        r'start: R_1ST | DATA_TYPE | data_type | "(" start ")" | start_2 | START',
        r'data_type: start "?"',
        r'start_2: start "2" start',
        "",
        'R_1ST: "1"',
        "# a word",
        'DATA_TYPE: /[a-z]/+ "!"',
        'START: "3"',
    ]


def test_tokens_in_lark() -> None:
    text = llgx.gbnf_to_lark("root ::= <[12]> !<[7]> <think> <|im_end|>")
    assert text == "%llguidance {}\n\nstart: <[12]> <[^7]> <think> <|im_end|>\n"
    for token in ("!<think>", "<a b>"):
        with pytest.raises(llgx.GrammarError, match=re.escape(token)):
            llgx.gbnf_to_lark(f"root ::= {token}")


def test_long_alternatives_stand_on_lines_of_their_own() -> None:
    words = [f'"word number {i}" x' for i in range(9)]
    text = llgx.gbnf_to_lark(f'root ::= {" | ".join(words)}\nx ::= "" | "(" root ")"')
    assert f"\n    | {words[8]}\n" in text
    assert max(map(len, text.splitlines())) < 100


# Tokens

WITH_TOKENS: Final = llgx.Vocabulary.from_tokens(
    [b"<think>", b"</think>", b"a", b"b", b"ab", b"<", b"<end>"], special=[0, 1], eog=[6]
)


@pytest.mark.parametrize(
    ("text", "accept", "reject"),
    [
        (
            "root ::= <think> thinking </think> .*\nthinking ::= !</think>*",
            [[0, 1], [0, 2, 0, 4, 1, 2, 3]],
            [[2], [0], [0, 1, 1], [0, 1, 0]],
        ),
        ('root ::= <[4]> "b"', [[4, 3]], [[2, 3, 3], [4], [4, 4]]),
        ('root ::= [ab]* <[0]> "a"', [[0, 2], [4, 3, 0, 2]], [[4, 0], [5, 0, 2]]),
        ("root ::= !<[2]> !<think>", [[3, 2], [0, 4]], [[2, 2], [3, 0]]),
        ("root ::= root <[2]> | <[3]>", [[3], [3, 2, 2]], [[2], [3, 3]]),
        ("root ::= <end>?", [[], [6]], [[2]]),
    ],
)
def test_tokens(text: str, accept: list[list[int]], reject: list[list[int]]) -> None:
    matcher = llgx.Matcher(llgx.Grammar.from_gbnf(text).compile(WITH_TOKENS))
    for tokens in accept:
        matcher.reset()
        assert matcher.try_consume(tokens) == len(tokens), tokens
        assert matcher.is_accepting(), tokens
    for tokens in reject:
        matcher.reset()
        assert matcher.try_consume(tokens) < len(tokens) or not matcher.is_accepting(), tokens


def test_unknown_tokens() -> None:
    for text, message in (("root ::= <thinking>", "<think>"), ("root ::= <[7]>", "beyond")):
        with pytest.raises(llgx.GrammarError, match=message):
            llgx.Grammar.from_gbnf(text).compile(WITH_TOKENS)


def test_names_of_ordinary_tokens() -> None:
    """As in llama.cpp, a name may be that of an added token that is not special."""
    vocabulary = llgx.Vocabulary.from_tokens([b"<tool>", b"a"])
    matcher = llgx.Matcher(llgx.Grammar.from_gbnf('root ::= <tool> "a"').compile(vocabulary))
    assert matcher.try_consume([0, 1]) == 2


# Cost


@pytest.mark.parametrize(
    ("head", "item"),
    [
        ("root ::= ", '"a" '),
        ("root ::= ", '"a" "" [bc]? '),
        ("root ::= ", '("a" ("b")) '),
        ("root ::= x\nx ::= ", "[a-c] "),
        ("root ::= x\nx ::= [a-c]", ' | "ab"'),
    ],
)
def test_long_grammars_take_linear_time(head: str, item: str) -> None:
    def seconds(count: int) -> float:
        # Without the collector, whose passes over all that other tests left take their own time.
        gc.disable()
        try:
            begin = time.process_time()
            llgx.Grammar.from_gbnf(head + item * count)
            return time.process_time() - begin
        finally:
            gc.enable()

    small = min(seconds(3_000) for _ in range(3))
    large = min(seconds(24_000) for _ in range(3))
    assert large < 24 * small  # 8 times the text; quadratic would be 64 times the work


def test_repetitions_in_a_row_are_bounded() -> None:
    """Each is a repetition of the one before. The first star is in column 10; 500 are allowed."""
    with pytest.raises(
        llgx.LimitError, match="line 2, column 510: repetitions are nested"
    ) as caught:
        llgx.Grammar.from_gbnf("root ::= x\nx ::= " + '"a"' + "*" * 100_000)
    assert caught.value.limit == "nesting"
    with pytest.raises(llgx.LimitError):
        llgx.gbnf_to_lark("root ::= " + '"a"' + "*+?" * 30_000)
    many = "root ::= " + '"a"? ' * 2_000
    assert llgx.Grammar.from_gbnf(many).ir.rules
