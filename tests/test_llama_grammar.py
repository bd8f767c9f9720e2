"""``llgx.LlamaGrammar`` in completion and chat, with a real model, and grammars that crashed it."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
from llama_cpp import _internals
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import llgx
from llgx import LlamaGrammar
from llgx.llama import gbnf_guard, hooks
from llgx.llama.gbnf_guard import check_gbnf
from llgx.llama.gbnf_probe import is_followed
from llgx.llama.sampler import samplers_of

DATE = "%llguidance {}\nstart: /20[0-9]{2}-(0[1-9]|1[0-2])/"
DATE_REGEX = "20[0-9]{2}-(0[1-9]|1[0-2])"
PROMPT = "The date is "
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Ann", "Bob"]}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def load(path: Path, **options: Any) -> llama_cpp.Llama:
    options = {"n_ctx": 512, "n_threads": 1, "n_threads_batch": 1, "verbose": False, **options}
    return llama_cpp.Llama(str(path), **options)


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    model = load(gemma_path)
    yield model
    model.close()


def complete(llm: llama_cpp.Llama, grammar: Any, prompt: str = PROMPT, **options: Any) -> str:
    options = {"max_tokens": 30, "temperature": 0, **options}
    done: Any = llm.create_completion(prompt, grammar=grammar, **options)
    assert done["choices"][0]["finish_reason"] == "stop"
    return str(done["choices"][0]["text"])


# ------------------------------------------------------------------------------- generation


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0},
        {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"temperature": 1.0, "top_k": 3},
        {"temperature": 1.0, "typical_p": 0.5},
        {"temperature": 1.0, "mirostat_mode": 1},
        {"temperature": 1.0, "mirostat_mode": 2},
        {"temperature": -1.0},
        {"temperature": 0.8, "repeat_penalty": 1.5, "frequency_penalty": 1.0},
        {"temperature": 0, "logit_bias": {236770: 50.0}},
    ],
    ids=lambda options: ",".join(options),
)
def test_every_way_of_sampling(llm: llama_cpp.Llama, sampling: dict[str, Any]) -> None:
    grammar = LlamaGrammar.from_string(DATE)
    for seed in range(2):  # and a fresh state each time
        assert re.fullmatch(DATE_REGEX, complete(llm, grammar, seed=seed, **sampling))


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda grammar: pickle.loads(pickle.dumps(grammar))]
)
def test_copies_say_the_same(make: Any) -> None:
    """Frameworks copy the arguments that they are given, and send them to other processes."""
    schema = {"type": "object", "properties": {"a": {"pattern": "^(?=x)"}, "b": {"$ref": "#"}}}
    grammars = [
        LlamaGrammar.from_json_schema(schema),
        LlamaGrammar.from_gbnf('root ::= root "a"|"b"'),
    ]
    for grammar in grammars:
        copied = make(grammar)
        assert type(copied) is LlamaGrammar
        assert copied.grammar.ir == grammar.grammar.ir  # type: ignore[union-attr]
        assert copied._grammar == grammar._grammar
        assert make(grammar.grammar).source == grammar.grammar.source  # type: ignore[union-attr]
    assert make(LlamaGrammar.from_string('root ::= "a"')).grammar is None


def test_each_way_to_make_one(llm: llama_cpp.Llama, tmp_path: Path) -> None:
    file = tmp_path / "grammar.gbnf"
    file.write_text('\ufeffroot ::= "größer " [0-9]', encoding="utf-8")
    cases = {
        DATE_REGEX: LlamaGrammar.from_lark(DATE.partition("\n")[2]),
        "größer [0-9]": LlamaGrammar.from_file(file),
        "[ab]+": LlamaGrammar.from_gbnf('root ::= root [ab] | "b"'),
        "yes|no": LlamaGrammar.from_grammar(llgx.Grammar.from_choices(["yes", "no"])),
        "hello [a-z]": LlamaGrammar.from_string('root ::= "hello " [a-z]'),
        "cat|dog": LlamaGrammar.from_string('{"grammars": [{"lark_grammar": "start: /cat|dog/"}]}'),
    }
    for regex, grammar in cases.items():
        if regex == "[ab]+":
            done: Any = llm.create_completion(PROMPT, grammar=grammar, max_tokens=4)
            assert re.fullmatch(regex, done["choices"][0]["text"])
        else:
            assert re.fullmatch(regex, complete(llm, grammar)), regex
    assert cases["hello [a-z]"].grammar is None  # llama.cpp follows it


@pytest.mark.parametrize("text", [DATE, 'root ::= "20" [0-9] [0-9] "-01"'])
@pytest.mark.parametrize("kind", [LlamaGrammar, llama_cpp.LlamaGrammar], ids=["llgx", "plain"])
def test_taken_wherever_a_grammar_is(llm: llama_cpp.Llama, kind: Any, text: str) -> None:
    grammar = kind.from_string(text)
    processors = llgx.logits_processors(llm, grammar)
    done: Any = llm.create_completion(PROMPT, logits_processor=processors, temperature=0)
    texts = [done["choices"][0]["text"], llgx.generate(llm, PROMPT, grammar).text]
    texts.append(list(llgx.stream(llm, PROMPT, grammar))[-1])
    chain = llama_cpp._internals.LlamaSampler()
    llgx.sampler(llm, grammar).add_to(chain)
    chain.add_greedy()
    llm.eval(llm.tokenize(PROMPT.encode()))
    texts.append(llm.detokenize([chain.sample(llm._ctx)]).decode())
    assert all(re.fullmatch(DATE_REGEX, text) for text in texts[:3])
    assert "20".startswith(texts[3][:1])
    with pytest.raises(TypeError, match="or a LlamaGrammar"):
        llgx.sampler(llm, 5)  # type: ignore[arg-type]


def test_json_schema(llm: llama_cpp.Llama) -> None:
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        value = json.loads(complete(llm, LlamaGrammar.from_json_schema(schema)))
        assert value["name"] in ("Ann", "Bob")
        assert type(value["age"]) is int
        assert value["age"] <= 99


def test_json_schema_of_a_model(llm: llama_cpp.Llama) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model(
        "Person", __config__={"extra": "forbid"}, age=(int, pydantic.Field(ge=0, le=9))
    )
    text = complete(llm, LlamaGrammar.from_json_schema(model, whitespace="compact"))
    assert text.startswith('{"age":')
    assert 0 <= model.model_validate_json(text).age <= 9


def test_white_space_is_bounded() -> None:
    """Small models write blanks until the tokens run out, if they may."""
    vocabulary = llgx.Vocabulary.from_tokens([b"{", b" ", b"\n", b'"', b"}", b"<end>"], eog=[5])

    def fits(text: bytes, **options: Any) -> bool:
        grammar = LlamaGrammar.from_json_schema({"type": "object"}, **options).grammar
        assert grammar is not None
        return bool(llgx.Matcher(grammar.compile(vocabulary)).match_bytes(text)[1])

    assert fits(b"{ }")
    assert fits(b"{\n" + 20 * b" " + b"}")
    assert not fits(b"{  }")
    assert not fits(b"{\n\n}")
    assert not fits(b"{\n" + 21 * b" " + b"}")
    assert not fits(b"{} ")
    assert fits(b"{\n\n  }", whitespace="flexible")


def test_chat_and_streams(llm: llama_cpp.Llama) -> None:
    grammar = LlamaGrammar.from_string(DATE)
    messages: Any = [{"role": "user", "content": "Which month is it?"}]
    chat: Any = llm.create_chat_completion(messages, grammar=grammar, temperature=0)
    assert re.fullmatch(DATE_REGEX, chat["choices"][0]["message"]["content"])
    chunks: Any = llm.create_chat_completion(messages, grammar=grammar, temperature=0, stream=True)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == chat["choices"][0]["message"]["content"]


def test_the_same_text_as_a_logits_processor(llm: llama_cpp.Llama) -> None:
    grammar = LlamaGrammar.from_json_schema(SCHEMA)
    assert grammar.grammar is not None
    made: Any = llgx.logits_processors(llm, grammar.grammar)
    done: Any = llm.create_completion(PROMPT, logits_processor=made, temperature=0, max_tokens=30)
    assert complete(llm, grammar) == done["choices"][0]["text"]


def test_speculative_decoding(gemma_path: Path, llm: llama_cpp.Llama) -> None:
    """Drafts are verified by sampling, so the sampler sees each accepted token once, in order."""
    schema = {
        "type": "array",
        "items": {"const": "one two three four"},
        "minItems": 3,
        "maxItems": 3,
    }
    grammar = LlamaGrammar.from_json_schema(schema, whitespace="compact")
    drafting = load(
        gemma_path, draft_model=LlamaPromptLookupDecoding(num_pred_tokens=5), logits_all=True
    )
    prompt = '["one two three four","one two'
    text = complete(drafting, grammar, prompt)
    assert json.loads(text) == ["one two three four"] * 3
    assert text == complete(llm, grammar, prompt)
    drafting.close()


def test_several_models_in_threads(gemma_path: Path) -> None:
    grammar = LlamaGrammar.from_json_schema(SCHEMA)
    models = [load(gemma_path, n_ctx=128) for _ in range(2)]
    texts: list[str] = []

    def work(model: llama_cpp.Llama) -> None:
        for seed in range(3):
            texts.append(complete(model, grammar, temperature=1.0, seed=seed))

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in models:
        model.close()
    assert len(texts) == 6
    for text in texts:
        assert set(json.loads(text)) == {"name", "age"}


def test_the_chain_outlives_the_model(gemma_path: Path) -> None:
    model = load(gemma_path, n_ctx=64)
    complete(model, LlamaGrammar.from_string(DATE))
    chain: Any = model._sampler
    clone = chain.clone()
    model.close()
    clone.reset()
    clone.accept(0)
    assert samplers_of(clone)[0].error is not None
    clone.close()
    chain.close()
    del model, chain, clone
    gc.collect()


# ------------------------------------------------------------------------------- errors


def failing(llm: llama_cpp.Llama, point: Any, *, after: int, grammar: Any) -> Iterator[int]:
    """Generate with a fault after some tokens."""
    tokens = llm.generate(llm.tokenize(PROMPT.encode()), temp=0, grammar=grammar)
    for place, token in enumerate(tokens):
        yield token
        if place + 1 == after:
            chain: Any = llm._sampler
            samplers_of(chain)[0]._state.inject(point)


@pytest.mark.parametrize("point", ["accept", "apply"])
def test_errors_are_raised_from_generate(llm: llama_cpp.Llama, point: str) -> None:
    grammar = LlamaGrammar.from_string(DATE)
    seen: list[int] = []
    with pytest.raises(MemoryError):
        seen.extend(failing(llm, point, after=2, grammar=grammar))
    assert len(seen) == 2
    assert re.fullmatch(DATE_REGEX, complete(llm, grammar))  # and the model is as it was


@pytest.mark.parametrize("point", ["accept", "apply"])
def test_errors_lift_the_constraint(
    llm: llama_cpp.Llama, point: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grammar = LlamaGrammar.from_string(DATE, on_error="continue")
    seen = []
    for token in failing(llm, point, after=2, grammar=grammar):
        seen.append(token)
        if len(seen) == 12:
            break
    # A date has seven characters.
    assert len(llm.detokenize(seen)) > 7
    assert capsys.readouterr().err.count("generation continues unconstrained") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_raised_from_completion_and_chat(llm: llama_cpp.Llama, stream: bool) -> None:
    """The one fault that comes from outside: a bias that excludes all that is allowed."""
    grammar = LlamaGrammar.from_grammar(llgx.Grammar.from_choices(["xyz"]))
    bias = {
        token: float("-inf")
        for token, text in enumerate(llgx.Vocabulary.from_llama(llm).tokens)
        if text in (b"x", b"xy", b"xyz")
    }
    messages: Any = [{"role": "user", "content": "x"}]
    for call in (
        lambda: llm.create_completion("x", grammar=grammar, logit_bias=bias, stream=stream),
        lambda: llm.create_chat_completion(
            messages, grammar=grammar, logit_bias=bias, stream=stream
        ),
    ):
        with pytest.raises(llgx.LlgxError, match="exclude them all"):
            list(call())
    assert complete(llm, grammar) == "xyz"


# GBNF that killed the process without the hook, or was not followed.
CRASHES = {
    "not closed": ('root ::= "a', "line 1, column 10"),
    "no root": ('x ::= "a"', "root"),
    "left-recursive": ('root ::= root "a" | "b"', "left-recursive"),
    "undefined": ("root ::= foo", "line 1, column 10"),
    "huge": ('root ::= "a"{2000000000,2147483647}', "too high|gigabytes"),
    "bad escape": (r'root ::= "\xZZ"', "line 1"),
    "underscore": ("root ::= a_b\na_b ::= [x]", "llama.cpp cannot read"),
    "deep": ("root ::= " + 20_000 * "(" + '"a"' + 20_000 * ")", "overflow"),
    "open": ("root ::= " + 60_000 * "(", "overflow"),
    "chain": (
        "root ::= a0\n"
        + "\n".join(f"a{i} ::= a{i + 1}" for i in range(100_000))
        + '\na100000 ::= "x"',
        "overflow",
    ),
    "empty": ("", "empty"),
    "blank": (" \n", "empty"),
    "NUL": ('root ::= "a"\0', "NUL"),
    "surrogate": ('root ::= "\ud800"', "line 1, column 11: a lone surrogate"),
    "fewer than least": ('root ::= "a"{3,1}', "column 13: no repetition is"),
    "fewer than least, with a comment": ('root ::= ("a"{ 3 # b\n , 1 })', "no repetition is"),
    "fewer than least, in many digits": ('root ::= "a"{' + 30 * "0" + "3,1}", "no repetition is"),
    "long and often": ('root ::= "' + 50_000 * "a" + '"{2000}', "gigabytes"),
    "long and once more each time": ('root ::= "' + 9000 * "a" + '"' + 9000 * "+", "gigabytes"),
    "hidden left recursion": (
        'root ::= a root "x" | "y"\na ::= b\nb ::= "z" |',
        "line 1, column 1: .* left-recursive",
    ),
    "hidden left recursion of two": (
        'root ::= "x" c\na ::= b\nb ::= "z" |\nc ::= a d | "y"\nd ::= (b c)* "x"',
        "left-recursive",
    ),
    "in many ways": (
        "root ::= a0\n"
        + "\n".join(f'a{i} ::= a{i + 1} "x" | "z"? a{i + 1}' for i in range(40))
        + '\na40 ::= "y"',
        "too many ways",
    ),
    "backwards": ("root ::= [a-cz-y]", "column 14: the range z-y"),
    "no character": (r'root ::= "a" | "\UFFFFFFFF"', "no character"),
    "no characters": (r"root ::= [\U7FFFFFFF-\UFFFFFFFF]", "no character"),
    "no token": ("root ::= <[262144]>", "no token 262144"),
}


@pytest.mark.parametrize("name", CRASHES)
@pytest.mark.parametrize("kind", [LlamaGrammar, llama_cpp.LlamaGrammar], ids=["llgx", "plain"])
def test_invalid_gbnf_is_an_error(llm: llama_cpp.Llama, name: str, kind: Any) -> None:
    text, message = CRASHES[name]
    hooks.add_hook("test")
    with pytest.raises(llgx.GrammarError, match=message):
        llm.create_completion(PROMPT, grammar=kind.from_string(text), max_tokens=2)
    hooks.remove_hook("test")


@pytest.mark.parametrize(
    ("text", "followed"),
    [
        ('root ::= "a"', True),
        ("root ::= [^x]*", True),
        ("root ::= [^\\x00]*", True),
        ('root ::= "a', False),
        ('root ::= root "a" | "b"', False),
        ("root ::= a_b\na_b ::= [x]", False),
    ],
)
def test_a_sampler_that_follows_nothing_is_found_out(
    llm: llama_cpp.Llama, text: str, followed: bool
) -> None:
    """Early versions of llama.cpp make a sampler that changes nothing of text that they cannot
    read; one that leaves logits as they are stands for it."""
    vocab = llm._model.vocab
    sampler = llama_cpp.llama_sampler_init_grammar(vocab, text.encode(), b"root")
    if not sampler:
        sampler = llama_cpp.llama_sampler_init_temp(1.0)
    assert is_followed(sampler, vocab, text) is followed
    llama_cpp.llama_sampler_free(sampler)


@pytest.mark.parametrize("times", ["{2000000000,2147483647}", "{0,2147483647}", "{99999999}"])
def test_early_versions_write_out_every_repetition(
    times: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They did not come back from these, where later ones refuse or repeat without an end."""
    monkeypatch.setattr(gbnf_guard, "answers_null", lambda: False)
    with pytest.raises(llgx.GrammarError, match="gigabytes"):
        check_gbnf(f'root ::= "a"{times}')
    check_gbnf('root ::= "a"{3000} [b]{0,5000} "c"{2,}')


@pytest.mark.parametrize(
    "text",
    [
        'root ::= a root | "y"\na ::= b\nb ::= "z" |',
        'root ::= ("a"?)* "b"',
        'root ::= "x" a\na ::= ("a" | )+ "b"',
    ],
)
def test_recursion_that_early_versions_do_not_come_back_from(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segmentation faults of 0.3.8."""
    monkeypatch.setattr(gbnf_guard, "answers_null", lambda: True)
    check_gbnf(text)
    monkeypatch.setattr(gbnf_guard, "answers_null", lambda: False)
    with pytest.raises(llgx.GrammarError, match="left-recursive"):
        check_gbnf(text)
    check_gbnf('root ::= ("a" | "b"?)? "b" x*\nx ::= "c" x | "d"')


@pytest.mark.parametrize("mark", ["<", '"\\"', "[\\[", "[", "(", "{1", "\\", '"[<{'])
def test_gbnf_that_is_not_closed_is_looked_at_once(mark: str) -> None:
    """Not once for each mark: these took minutes. A round of all is as long as a few seconds."""
    head, tail = mark[0], mark[1:] or mark
    with contextlib.suppress(llgx.GrammarError):
        check_gbnf(head + 200_000 * tail)


@pytest.mark.parametrize(
    "text",
    [
        r'root ::= "\\UFFFFFFFF{3,1}" # [z-a] \UFFFFFFFF',
        r"root ::= [\n-\x20--a\]-a] | [a-] | [^\u0041-Z] | [\[-\]]",
        'root ::= "a"{1,1} | "b"{0, 2} <[262143]>',
    ],
)
def test_what_looks_wrong_and_is_not(llm: llama_cpp.Llama, text: str) -> None:
    complete(llm, LlamaGrammar.from_string(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root ::= a b", "line 1, column 10: unknown rule 'a'"),
        ('root ::= "a', "column 10: the string is not closed"),
        ('root ::= ("a"', "column 10: the parenthesis is not closed"),
        ('x ::= "a"', "no rule 'root'"),
        (r'root ::= "\q"', r"column 11: unknown escape '\\q'"),
        ('start: "a"', "%llguidance"),
        ('{"type": "object"}', "from_json_schema"),
        ('root ::= root "a" | "b"', "left-recursive"),
    ],
)
def test_faulty_gbnf_is_an_error_where_it_is_written(text: str, message: str) -> None:
    with pytest.raises(llgx.GrammarError, match=message):
        LlamaGrammar.from_string(text)


def test_recursion_that_llama_cpp_comes_back_from(llm: llama_cpp.Llama) -> None:
    for text in (
        'root ::= a root | "y"\na ::= b\nb ::= "z" |',  # nothing comes after it
        'root ::= ("a"?)* "b"',
        'root ::= "b" | "c" root\nx ::= a x "x" | "y"\na ::= b\nb ::= "z" |',  # not needed
        'root ::= x\nroot ::= "a"',  # x is not mentioned in what counts
        'root ::= "ab"{0,2000} "c"',
    ):
        done: Any = llm.create_completion(
            PROMPT, grammar=LlamaGrammar.from_string(text), max_tokens=2
        )
        assert set(done["choices"][0]["text"]) <= set("abcyz")


def test_what_looks_deep_and_is_not(llm: llama_cpp.Llama) -> None:
    text = 'root ::= "' + 2000 * "(" + '" | "ok" | [(' + 2000 * "(" + "] # " + 2000 * "("
    assert complete(llm, LlamaGrammar.from_string(text), max_tokens=4) in ("ok", "(")


def test_invalid_text_is_an_error_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(llgx.GrammarError, match="line 2, column 8"):
        LlamaGrammar.from_string("%llguidance {}\nstart: (")
    with pytest.raises(llgx.SchemaError, match="type"):
        LlamaGrammar.from_json_schema({"type": "frob"})
    with pytest.raises(llgx.GrammarError, match="line 1"):
        LlamaGrammar.from_gbnf('root ::= "a')
    with pytest.raises(FileNotFoundError):
        LlamaGrammar.from_file(tmp_path / "missing")
    file = tmp_path / "latin"
    file.write_bytes('root ::= "größer"'.encode("latin-1"))
    with pytest.raises(llgx.GrammarError, match="not UTF-8"):
        LlamaGrammar.from_file(file)
    for wrong in (None, 7, b"root ::= []"):
        with pytest.raises(TypeError, match="a grammar is a str"):
            LlamaGrammar.from_string(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"llgx\.Grammar"):
        LlamaGrammar.from_grammar("start: /a/")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_error"):
        LlamaGrammar.from_string(DATE, on_error="stop")  # type: ignore[arg-type]


def test_wrong_grammar_arguments(llm: llama_cpp.Llama) -> None:
    LlamaGrammar.from_string(DATE)
    with pytest.raises(llgx.GrammarError, match="grammar= takes"):
        llm.create_completion(PROMPT, grammar=7)  # type: ignore[arg-type]
    for wrong in (SCHEMA, dict):
        with pytest.raises(llgx.GrammarError, match=r"llgx\.LlamaGrammar\.from_json_schema makes"):
            llm.create_completion(PROMPT, grammar=wrong)  # type: ignore[arg-type]
    broken = llama_cpp.LlamaGrammar.from_string("%llguidance {}\nstart: (")
    with pytest.raises(llgx.GrammarError, match="line 2"):
        llm.create_completion(PROMPT, grammar=broken)


# ------------------------------------------------------------------------------- the hook


def test_the_hook_comes_and_goes() -> None:
    program = f"""
import threading
from llama_cpp import _internals
import llgx
from llgx.llama import hooks
add = lambda: _internals.LlamaSampler.add_grammar
original = add()
lazy = _internals.LlamaSampler.add_grammar_lazy_patterns
import llama_cpp
assert add() is original
make = lambda: llgx.LlamaGrammar.from_string({DATE!r})
threads = [threading.Thread(target=make) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ours = add()
assert ours is not original
llgx.LlamaGrammar.from_string({DATE!r})
assert add() is ours
hooks.add_hook("other")
hooks.remove_hook("LlamaGrammar")
assert add() is ours
hooks.remove_hook("other")
assert add() is original and _internals.LlamaSampler.add_grammar_lazy_patterns is lazy
llgx.LlamaGrammar.from_string({DATE!r})
assert add() is not original
hooks.remove_hook()
assert add() is original
print("reached")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "reached\n", done.stderr


def test_someone_else_hooks_in_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement of ours that another one holds on to passes on to the original."""
    calls = []
    hooks.remove_hook()
    monkeypatch.setattr(
        _internals.LlamaSampler, "add_grammar", lambda self, model, grammar: calls.append(grammar)
    )
    monkeypatch.setattr(hooks, "_patches", None)
    hooks.add_hook("test")
    ours: Any = _internals.LlamaSampler.add_grammar
    theirs = lambda self, model, grammar: ours(self, model, grammar)  # noqa: E731
    monkeypatch.setattr(_internals.LlamaSampler, "add_grammar", theirs)
    hooks.remove_hook("test")
    assert _internals.LlamaSampler.add_grammar is theirs
    theirs(None, None, "a grammar")
    assert calls == ["a grammar"]


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks.remove_hook()

    def add_grammar(self: Any, vocab: Any) -> None: ...

    monkeypatch.setattr(_internals.LlamaSampler, "add_grammar", add_grammar)
    monkeypatch.setattr(hooks, "_patches", None)
    with pytest.raises(llgx.LlgxError, match=r"LlamaSampler\.add_grammar.*Nothing was changed"):
        LlamaGrammar.from_string(DATE)
    assert _internals.LlamaSampler.add_grammar is add_grammar


def test_llgx_needs_no_llama_cpp() -> None:
    program = """
import sys
sys.modules["llama_cpp"] = None
import llgx
from llgx import *
llgx.sampler, llgx.Sampler, llgx.install
assert "LlamaGrammar" in dir(llgx)
for name in ("LlamaGrammar",):
    try:
        getattr(llgx, name)
    except ImportError as error:
        assert "pip install llama-cpp-python" in str(error)
try:
    llgx.install()
except ImportError as error:
    assert "pip install llama-cpp-python" in str(error)
    print("reached")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "reached\n", done.stderr


# ------------------------------------------------------------------------------- traps
# What llama-cpp-python does today and llgx relies on, or has to live with.


def test_trap_the_chain_stays_after_generate(llm: llama_cpp.Llama) -> None:
    """``Llama.sample`` reuses the chain of the last generation, with its grammar at its end."""
    complete(llm, LlamaGrammar.from_string(DATE))
    chain: Any = llm._sampler
    (sampler,) = samplers_of(chain)
    assert sampler.matcher().is_stopped()
    assert llm.sample() in llgx.Vocabulary.from_llama(llm).eog
    assert llm._sampler is chain


def test_trap_detokenize_loses_long_tokens(llm: llama_cpp.Llama) -> None:
    """The text of a completion lacks tokens of more than 32 bytes; the sampler's tokens do not."""
    vocabulary = llgx.Vocabulary.from_llama(llm)
    token = next(
        each
        for each, text in enumerate(vocabulary.tokens)
        if len(text) > 32 and text.strip() and each not in vocabulary.special
    )
    assert llm.detokenize([token]) == b""
    assert len(vocabulary.tokens[token]) > 32


def test_trap_a_stop_string_inside_a_json_string(llm: llama_cpp.Llama) -> None:
    grammar = LlamaGrammar.from_grammar(llgx.Grammar.from_choices(['{"a": "hello"}']))
    assert complete(llm, grammar, stop=["lo"]) == '{"a": "hel'
