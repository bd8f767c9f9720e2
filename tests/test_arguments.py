"""Wrong types: every public function names what it wants; and text given to the wrong reader."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import llgx
import llgx.json_schema
import llgx.transformers

TOKENS = [bytes((b,)) for b in range(256)] + [b"<eos>"]
VOCABULARY = llgx.Vocabulary.from_tokens(TOKENS, eog=256)
GRAMMAR = llgx.Grammar.from_lark('start: "a" b\nb: /[0-9]+/')
COMPILED = GRAMMAR.compile(VOCABULARY)
GBNF = 'root ::= "a"'


class Odd:
    """What nothing takes."""


def matcher() -> llgx.Matcher:
    return llgx.Matcher(COMPILED)


def mask() -> Any:
    return llgx.allocate_token_bitmask(1, len(TOKENS))


# What is right for each parameter; all but those in ANYTHING are given wrong types one by one.
LIMITS = {"limits": llgx.Limits()}
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "CompiledGrammar": (
        lambda ir, vocabulary, limits, shortcuts: llgx.CompiledGrammar(
            ir, vocabulary, limits, shortcuts
        ),
        {"ir": GRAMMAR.ir, "vocabulary": VOCABULARY, **LIMITS, "shortcuts": llgx.Shortcuts()},
    ),
    "Grammar": (llgx.Grammar, {"ir": GRAMMAR.ir, "source": ""}),
    "Grammar.compile": (
        GRAMMAR.compile,
        {"vocabulary": VOCABULARY, **LIMITS, "shortcuts": llgx.Shortcuts()},
    ),
    "Grammar.from_choices": (llgx.Grammar.from_choices, {"choices": ["a"]}),
    "Grammar.from_gbnf": (llgx.Grammar.from_gbnf, {"text": GBNF, **LIMITS}),
    "Grammar.from_grammars": (
        llgx.Grammar.from_grammars,
        {
            "grammars": [{"lark_grammar": 'start: "a"'}],
            "max_tokens": 3,
            "imports": {"x": ""},
            **LIMITS,
        },
    ),
    "Grammar.from_ir": (llgx.Grammar.from_ir, {"ir": GRAMMAR.ir}),
    "Grammar.from_json_schema": (
        llgx.Grammar.from_json_schema,
        {"schema": {"type": "integer"}, **LIMITS, "lenient": False, "whitespace": 3},
    ),
    "Grammar.from_lark": (
        llgx.Grammar.from_lark,
        {"text": 'start: "a"', "imports": {"x": ""}, **LIMITS},
    ),
    "Grammar.from_regex": (llgx.Grammar.from_regex, {"pattern": "a", "syntax": "rust", **LIMITS}),
    "Grammar.from_string": (llgx.Grammar.from_string, {"text": GBNF, **LIMITS}),
    "Grammar.from_structural_tags": (
        llgx.Grammar.from_structural_tags,
        {
            "tags": [llgx.StructuralTag(begin="<a>", end="</a>")],
            "triggers": ["<a>"],
            "at_least_one": False,
            "stop_after_first": False,
            "excludes": ["x"],
            **LIMITS,
        },
    ),
    "Grammar.with_reasoning": (
        GRAMMAR.with_reasoning,
        {"end": "</t>", "begin": "<t>", "max_tokens": 3},
    ),
    "Limits": (llgx.Limits, {"rows": 5}),
    "LogitsProcessor": (
        lambda llm, grammar, on_error: llgx.LogitsProcessor(llm, grammar, on_error=on_error),
        {"llm": VOCABULARY, "grammar": GRAMMAR, "on_error": "raise"},
    ),
    "Matcher": (lambda compiled: llgx.Matcher(compiled), {"compiled": COMPILED}),
    "Matcher.allows": (lambda token: matcher().allows(token), {"token": 97}),
    "Matcher.consume": (lambda token: matcher().consume(token), {"token": 97}),
    "Matcher.explain": (lambda text: matcher().explain(text), {"text": "a"}),
    "Matcher.fill_bitmask": (
        lambda out, index: matcher().fill_bitmask(out, index),
        {"out": mask(), "index": 0},
    ),
    "Matcher.match_bytes": (lambda text: matcher().match_bytes(text), {"text": b"a"}),
    "Matcher.rollback": (lambda count: matcher().rollback(count), {"count": 0}),
    "Matcher.try_consume": (lambda tokens: matcher().try_consume(tokens), {"tokens": [97]}),
    "Matcher.validate": (lambda tokens: matcher().validate(tokens), {"tokens": [97]}),
    "Reasoning": (llgx.Reasoning, {"max_tokens": 3}),
    "Shortcuts": (llgx.Shortcuts, {"mask_memo": True}),
    "SpecialToken": (llgx.SpecialToken, {"token": "<a>"}),
    "StructuralTag": (
        lambda begin, end, **rest: llgx.StructuralTag(begin, end, **rest),
        {"begin": "<a>", "end": "</a>", "grammar": GBNF, "trigger": "<a>"},
    ),
    "Vocabulary": (
        lambda tokens, eog, special: llgx.Vocabulary(tokens, eog=eog, special=special),
        {"tokens": TOKENS, "eog": 256, "special": [255]},
    ),
    "Vocabulary.from_gguf": (llgx.Vocabulary.from_gguf, {"path": None}),
    "Vocabulary.from_llama": (llgx.Vocabulary.from_llama, {"llm": None}),
    "Vocabulary.from_tokens": (
        llgx.Vocabulary.from_tokens,
        {"tokens": TOKENS, "eog": 256, "special": [255]},
    ),
    "Vocabulary.self_test": (
        llgx.Vocabulary.from_tokens(TOKENS).self_test,
        {"samples": [b"a"]},
    ),
    "Vocabulary.tokenize": (VOCABULARY.tokenize, {"data": b"a"}),
    "allocate_token_bitmask": (
        llgx.allocate_token_bitmask,
        {"batch": 1, "vocabulary_size": len(TOKENS)},
    ),
    "apply_token_bitmask_inplace": (
        lambda logits, bits: llgx.apply_token_bitmask_inplace(logits, bits),
        {"logits": np.zeros(len(TOKENS), np.float32), "bits": mask()},
    ),
    "fill_bitmasks": (
        lambda matchers, out: llgx.fill_bitmasks(matchers, out),
        {"matchers": [matcher()], "out": mask()},
    ),
    "gbnf_to_lark": (llgx.gbnf_to_lark, {"text": GBNF, **LIMITS}),
    "install": (llgx.install, {"jump_forward": None}),
    "json_schema_to_grammar": (
        llgx.json_schema_to_grammar,
        {"schema": {"type": "integer"}, "force_gbnf": False, **LIMITS},
    ),
    "lint_schema": (llgx.lint_schema, {"schema": {"type": "integer"}, "lenient": False}),
    "logits_processors": (
        llgx.logits_processors,
        {"llm": VOCABULARY, "grammar": GRAMMAR, "on_error": "raise"},
    ),
    "transformers.LogitsProcessor": (
        lambda vocabulary, grammars: llgx.transformers.LogitsProcessor(vocabulary, grammars),
        {"vocabulary": VOCABULARY, "grammars": [GRAMMAR]},
    ),
}
# Results and errors, which llgx makes itself; what needs a model, in test_generate and
# test_sampler; what is an object; and methods without a parameter of their own.
ELSEWHERE = {
    "Capture", "Explanation", "Generation", "GrammarError", "IncompleteError", "LimitError",
    "LlgxError", "LogitsProcessorList", "Sampler", "SchemaError", "Stream", "TokenRejected",
    "VocabularyError", "generate", "sampler", "schema_cache", "stream", "uninstall",
    "Vocabulary.kept_for", "Vocabulary.spell",
}  # fmt: skip

WRONG = [None, Odd(), 3, 1.5, True, "\ud800", b"\xff", [Odd()], {"a": Odd()}]
# What is no wrong type, by parameter: these may be taken, or refused for their value.
FITTING: dict[str, tuple[type, ...]] = {
    "imports": (type(None), str),
    "max_tokens": (type(None), int),
    "samples": (type(None),),
    "eog": (int,),
    "token": (int, str),
    "index": (int,),
    "count": (int,),
    "rows": (int,),
    "batch": (int,),
    "vocabulary_size": (int,),
    "whitespace": (str, int),
    "schema": (bool, str, bytes, dict),
    "trigger": (type(None), str),
    "StructuralTag.grammar": (type(None), str),
    "Matcher.explain.text": (str, bytes),
    "jump_forward": (bool,),
    "data": (bytes,),
    "tokens": (bytes, dict),  # the first are integers too
}


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, p) for name, (_, right) in CALLS.items() for p in right]
)
def test_a_wrong_type_is_an_error_that_says_what_is_wanted(name: str, parameter: str) -> None:
    call, right = CALLS[name]
    fitting = FITTING.get(f"{name}.{parameter}", FITTING.get(parameter, ()))
    for value in WRONG:
        plain = type(value) in (bool, str, bytes) and type(value) is type(right[parameter])
        if plain or isinstance(value, fitting):
            continue
        with pytest.raises((TypeError, ValueError)) as raised:
            call(**{**right, parameter: value})
        message = str(raised.value)
        assert message
        for internal in (
            "has no attribute",
            "is not iterable",
            "has no len",
            "bytes-like",
            "NoneType' object",
        ):
            assert internal not in message, f"{name}({parameter}={value!r}): {message}"


@pytest.mark.parametrize("name", CALLS)
def test_right_types_are_taken(name: str) -> None:
    call, right = CALLS[name]
    if not any(value is None for value in right.values()):
        call(**right)


def test_no_public_function_is_forgotten() -> None:
    missing = set()
    for name in llgx.__all__:
        value = getattr(llgx, name)
        if name not in CALLS and name not in ELSEWHERE:
            missing.add(name)
        if not inspect.isclass(value) or name in ELSEWHERE:
            continue
        for method, function in inspect.getmembers(value, callable):
            if method.startswith("_") or f"{name}.{method}" in {*CALLS, *ELSEWHERE}:
                continue
            try:
                parameters = [p for p in inspect.signature(function).parameters if p != "self"]
            except ValueError:
                parameters = []
            if parameters and function.__doc__:
                missing.add(f"{name}.{method}")
    assert not missing


@pytest.mark.parametrize("limits", [None, 3, {}, "x"])
def test_limits_are_limits(limits: Any) -> None:
    with pytest.raises(TypeError, match=r"limits= is a Limits, not "):
        llgx.Grammar.from_lark('start: "a"', limits=limits)
    with pytest.raises(TypeError, match=r"limits= is a Limits, not "):
        GRAMMAR.compile(VOCABULARY, limits=limits)
    with pytest.raises(TypeError, match=r"shortcuts= is a Shortcuts, not "):
        GRAMMAR.compile(VOCABULARY, shortcuts=limits)


@pytest.mark.parametrize(
    ("read", "text", "door"),
    [
        (llgx.Grammar.from_lark, '{"type": "object"}', "from_json_schema"),
        (llgx.Grammar.from_lark, ' \n{\n "$schema": "x", "type": "object",\n}', "from_json_schema"),
        (llgx.Grammar.from_lark, "{}", "from_json_schema"),
        (llgx.Grammar.from_lark, '{"grammars": []}', "from_grammars"),
        (llgx.Grammar.from_lark, 'root ::= "a" | [a-z]+', "from_gbnf"),
        (llgx.Grammar.from_lark, '# c\nroot ::= [^"\\n]* "x"', "from_gbnf"),
        (llgx.Grammar.from_lark, "ws ::= [ \\t]*\nroot ::= ws", "from_gbnf"),
        (llgx.Grammar.from_gbnf, '{"type": "object"}', "from_json_schema"),
        (llgx.Grammar.from_gbnf, '{"grammars": []}', "from_grammars"),
        (llgx.Grammar.from_gbnf, '?start: "a"', "from_lark"),
        (llgx.Grammar.from_gbnf, '%llguidance {}\nstart: "a"', "%llguidance"),
        (llgx.Grammar.from_gbnf, 'start[capture]: "a"', "from_lark"),
        (llgx.Grammar.from_string, '{"type": "object"}', "from_json_schema"),
        (llgx.Grammar.from_grammars, 'start: "a"', "from_lark"),
        (llgx.Grammar.from_grammars, '{"type": "object"}', "from_json_schema"),
        (llgx.Grammar.from_json_schema, 'start: "a"', "from_lark"),
        (llgx.Grammar.from_json_schema, 'root ::= "a"', "from_gbnf"),
        (llgx.Grammar.from_json_schema, "%llguidance {}", "from_lark"),
    ],
)
def test_text_for_another_reader_is_sent_there(
    read: Callable[[str], llgx.Grammar], text: str, door: str
) -> None:
    with pytest.raises((llgx.GrammarError, llgx.SchemaError)) as raised:
        read(text)
    assert door in str(raised.value)
    if isinstance(raised.value, llgx.GrammarError):
        assert door in raised.value.message


@pytest.mark.parametrize(
    "text", ['start: "a" |\n  ) ', "start: a::_\na::_ : %if nonsense", 'start: %json {"type": 3}']
)
def test_faulty_text_for_this_reader_stays(text: str) -> None:
    with pytest.raises((llgx.GrammarError, llgx.SchemaError)) as raised:
        llgx.Grammar.from_lark(text)
    assert "looks like" not in str(raised.value)
