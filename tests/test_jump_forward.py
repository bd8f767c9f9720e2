"""``llgx.llama.jump``: forced tokens in ``Llama.generate``, with a real model.

The text without jump-forward is what the text with it is compared to. It is the same where the
model spells forced text as its tokenizer does; this small one does not always, and the sources here
are among those where it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import llgx
from llgx.llama.jump import generate_with_jumps

CONTEXT = 512
PERSON = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 20},
        "favourite_colour": {"enum": ["red", "green", "blue"]},
        "age_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["first_name", "favourite_colour", "age_in_years"],
    "additionalProperties": False,
}
PROMPT = "A person as JSON: "
# This one says what to answer. Several tokens evaluated at once are rounded otherwise than one by
# one; of two answers that are nearly as likely the other one may win, which the processor decides.
TOLD = "John is 10 years old and his favourite colour is blue. John as JSON: "
LARK = r"""%llguidance {}
start: "{\"name\": \"" /[a-z]{1,8}/ "\", \"description\": \"A person\"}"
"""


def model(path: Path, **options: Any) -> llama_cpp.Llama:
    return llama_cpp.Llama(
        str(path),
        **{"n_ctx": CONTEXT, "n_threads": 1, "n_threads_batch": 1, "verbose": False, **options},
    )


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    llm = model(gemma_path)
    yield llm
    llm.close()


@pytest.fixture(scope="module")
def llm_with_logits(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    llm = model(gemma_path, n_ctx=128, logits_all=True)
    yield llm
    llm.close()


def grammar(source: Any, jumps: bool) -> llgx.LlamaGrammar:
    if isinstance(source, str):
        made = llgx.LlamaGrammar.from_string(source)
    else:
        made = llgx.LlamaGrammar.from_json_schema(source)
    made.jump_forward = jumps
    return made


class Evaluations:
    """Counts what a model evaluates: calls and tokens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[int]] = []
        evaluate = llama_cpp.Llama.eval

        def counted(llm: llama_cpp.Llama, tokens: Any) -> None:
            self.batches.append(list(tokens))
            evaluate(llm, tokens)

        monkeypatch.setattr(llama_cpp.Llama, "eval", counted)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Evaluations:
    return Evaluations(monkeypatch)


def complete(
    llm: llama_cpp.Llama, source: Any, jumps: bool, prompt: str = PROMPT, **options: Any
) -> dict[str, Any]:
    options = {"temperature": 0, "max_tokens": 80, **options}
    response: Any = llm.create_completion(prompt, grammar=grammar(source, jumps), **options)
    return dict(response["choices"][0])


@pytest.mark.parametrize("source", [PERSON, LARK], ids=["schema", "lark"])
def test_the_text_is_the_same_in_fewer_evaluations(
    llm: llama_cpp.Llama, evaluations: Evaluations, source: Any
) -> None:
    plain = complete(llm, source, False, TOLD)
    count = len(evaluations.batches)
    evaluations.batches.clear()
    jumping = complete(llm, source, True, TOLD)
    assert jumping == plain
    assert plain["finish_reason"] == "stop"
    assert len(evaluations.batches) < 0.6 * count


def test_every_length_is_a_beginning(llm: llama_cpp.Llama) -> None:
    full = complete(llm, PERSON, True)["text"]
    texts = []
    for length in range(1, 24):
        cut = complete(llm, PERSON, True, max_tokens=length)
        assert full.startswith(cut["text"])
        assert cut["finish_reason"] == "stop" or cut["text"] != full or full not in texts
        texts.append(cut["text"])
    # Each token more is some text more, forced or not, until there is no more.
    assert texts[-1] == full
    shorter = texts[: texts.index(full) + 1]
    assert len(set(shorter)) == len(shorter)
    assert shorter == sorted(shorter, key=len)


@pytest.mark.parametrize("length", [1, 2, 4, 7, 11])
def test_what_was_evaluated_is_known_after_a_cut(
    llm: llama_cpp.Llama, evaluations: Evaluations, length: int
) -> None:
    llm.reset()
    complete(llm, PERSON, True, max_tokens=length)
    batches = evaluations.batches.copy()
    assert llm.input_ids[: llm.n_tokens].tolist() == [t for batch in batches for t in batch]

    def logits_of_next() -> Any:
        llm.eval(llm.tokenize(b" and", add_bos=False))
        return np.ctypeslib.as_array(llm._ctx.get_logits(), shape=(llm.n_vocab(),)).copy()

    # In the same batches, because others round differently, by a whole logit.
    warm = logits_of_next()
    llm.reset()
    for batch in batches:
        llm.eval(batch)
    assert np.array_equal(warm, logits_of_next())


def test_nothing_evaluated_is_ever_rolled_back(
    llm: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is what recurrent models need; none is small enough to be tested with."""
    llm.reset()
    removed: list[tuple[int, int]] = []
    remove = type(llm._ctx).kv_cache_seq_rm

    def noting(context: Any, sequence: int, begin: int, end: int) -> Any:
        removed.append((begin, llm.n_tokens))
        return remove(context, sequence, begin, end)

    monkeypatch.setattr(type(llm._ctx), "kv_cache_seq_rm", noting)
    complete(llm, PERSON, True, max_tokens=9)
    assert removed
    assert all(begin == known for begin, known in removed)


@pytest.mark.parametrize("stop", ["colour", '"fav', "_", '":"'])
def test_stop_strings(llm: llama_cpp.Llama, stop: str) -> None:
    plain = complete(llm, PERSON, False, stop=[stop])
    assert complete(llm, PERSON, True, stop=[stop]) == plain
    assert stop not in plain["text"]
    assert plain["finish_reason"] == "stop"


def test_streams(llm: llama_cpp.Llama) -> None:
    chunks: Any = llm.create_completion(
        TOLD, grammar=grammar(PERSON, True), temperature=0, max_tokens=80, stream=True
    )
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert "".join(texts) == complete(llm, PERSON, False, TOLD)["text"]
    # Forced text comes in its tokens, as if it were sampled.
    assert len(texts) > 15


def test_a_stream_that_is_left_leaves_a_sound_model(llm: llama_cpp.Llama) -> None:
    expected = complete(llm, PERSON, True)
    for taken in (1, 3, 5):
        chunks: Any = llm.create_completion(
            PROMPT, grammar=grammar(PERSON, True), temperature=0, max_tokens=80, stream=True
        )
        for _ in range(taken):
            next(chunks)
        chunks.close()
        assert complete(llm, PERSON, True) == expected


def test_chat(llm: llama_cpp.Llama, evaluations: Evaluations) -> None:
    messages: Any = [{"role": "user", "content": "Describe a person."}]
    counts = []
    contents = []
    for jumps in (False, True):
        evaluations.batches.clear()
        response: Any = llm.create_chat_completion(
            messages, grammar=grammar(PERSON, jumps), temperature=0, max_tokens=100
        )
        contents.append(response["choices"][0]["message"]["content"])
        counts.append(len(evaluations.batches))
    for content in contents:
        assert list(json.loads(content)) == list(PERSON["properties"])  # type: ignore[call-overload]
    assert counts[1] < counts[0]


def test_log_probabilities(llm_with_logits: llama_cpp.Llama) -> None:
    plain = complete(llm_with_logits, LARK, False, logprobs=1)
    jumping = complete(llm_with_logits, LARK, True, logprobs=1)
    assert jumping["text"] == plain["text"]
    given, expected = jumping["logprobs"], plain["logprobs"]
    # The last two characters are one token in one of them.
    common = len(expected["tokens"]) - 2
    for key in ("tokens", "text_offset"):
        assert given[key][:common] == expected[key][:common]
    assert "".join(given["tokens"]) == plain["text"]
    # Batches round differently.
    probabilities = given["token_logprobs"]
    assert np.allclose(probabilities[:common], expected["token_logprobs"][:common], atol=0.3)
    chunks: Any = llm_with_logits.create_completion(
        PROMPT,
        grammar=grammar(LARK, True),
        temperature=0,
        max_tokens=80,
        stream=True,
        logprobs=1,
    )
    logprobs = [c["choices"][0]["logprobs"] for c in chunks if c["choices"][0]["logprobs"]]
    streamed = [value for each in logprobs for value in each["token_logprobs"]]
    assert np.allclose(streamed, probabilities, atol=0.3)


def test_other_temperatures_and_seeds(llm: llama_cpp.Llama) -> None:
    texts = []
    for seed in (1, 2, 1):
        text = complete(llm, PERSON, True, temperature=1.0, seed=seed)["text"]
        value = json.loads(text)
        assert set(value) == set(PERSON["properties"])  # type: ignore[arg-type]
        texts.append(text)
    assert texts[0] == texts[2]


def test_prefix_cache(llm: llama_cpp.Llama, evaluations: Evaluations) -> None:
    llm.reset()
    first = complete(llm, PERSON, True)
    evaluations.batches.clear()
    assert complete(llm, PERSON, True) == first
    # The prompt is in memory but for its last token.
    assert len(evaluations.batches[0]) == 1


def test_state_cache(gemma_path: Path) -> None:
    llm = model(gemma_path, n_ctx=128)
    try:
        llm.set_cache(llama_cpp.LlamaRAMCache())
        first = complete(llm, PERSON, True)
        llm.create_completion("Something else", max_tokens=2)
        assert complete(llm, PERSON, True) == first
    finally:
        llm.close()


def test_a_draft_model_brings_its_own_runs(gemma_path: Path) -> None:
    llm = model(gemma_path, n_ctx=128, logits_all=True, draft_model=LlamaPromptLookupDecoding(2, 4))
    try:
        assert complete(llm, LARK, True)["text"] == complete(llm, LARK, False)["text"]
    finally:
        llm.close()


def test_logits_processors_see_each_token(llm: llama_cpp.Llama) -> None:
    lengths: list[int] = []

    def note(input_ids: Any, scores: Any) -> Any:
        lengths.append(len(input_ids))
        return scores

    complete(llm, LARK, True, logits_processor=llama_cpp.LogitsProcessorList([note]))
    assert lengths == list(range(lengths[0], lengths[0] + len(lengths)))


def test_stopping_criteria_are_asked_about_each_token(llm: llama_cpp.Llama) -> None:
    tokens = llm.tokenize(PROMPT.encode())

    def run(jumps: bool, limit: int) -> tuple[list[list[int]], list[int]]:
        seen: list[list[int]] = []

        def criterion(input_ids: Any, logits: Any) -> bool:
            seen.append(input_ids[len(tokens) :].tolist())
            return len(seen) > limit

        yielded = []
        for token in llm.generate(
            tokens,
            temp=0.0,
            grammar=grammar(LARK, jumps),
            stopping_criteria=llama_cpp.StoppingCriteriaList([criterion]),
        ):
            if token in (llm.token_eos(), 106):
                break
            yielded.append(token)
        return seen, yielded

    for limit in (2, 5, 9):
        assert run(True, limit) == run(False, limit)
    seen, yielded = run(True, 1000)
    # Asked before the next one is yielded, and once more at the end of generation.
    assert seen == [yielded[:length] for length in range(len(yielded) + 1)]


def test_stopping_criteria_are_shown_scores_in_long_runs(gemma_path: Path) -> None:
    """A run of more tokens than a batch has rows takes several batches."""
    llm = model(gemma_path, n_batch=8)
    source = '%llguidance {}\nstart: "' + "a b c d " * 8 + '" /[0-9]/'
    lengths: list[int] = []

    def criterion(input_ids: Any, logits: Any) -> bool:
        assert len(logits) == llm.n_vocab()
        lengths.append(len(input_ids))
        return False

    criteria = llama_cpp.StoppingCriteriaList([criterion])
    jumped = complete(llm, source, True, stopping_criteria=criteria)
    # Once more at the end of the generation.
    assert lengths[:-1] == list(range(lengths[0], lengths[0] + len(lengths) - 1))
    assert re.fullmatch("(a b c d ){8}[0-9]", jumped["text"])
    llm.close()


def test_a_full_context(llm: llama_cpp.Llama) -> None:
    """Forced text that does not fit into the context any more is taken as far as it does."""
    grammar_ = grammar('%llguidance {}\nstart: /[ab]/ "' + "a b c d " * 100 + '"', True)
    prompt = llm.tokenize(b"x " * 300)[: CONTEXT - 20]
    response: Any = llm.create_completion(prompt, grammar=grammar_, temperature=0, max_tokens=None)
    assert response["choices"][0]["finish_reason"] == "length"
    assert response["usage"]["total_tokens"] == CONTEXT


def test_sending_tokens_into_forced_text_is_refused(llm: llama_cpp.Llama) -> None:
    tokens = llm.generate(llm.tokenize(PROMPT.encode()), temp=0.0, grammar=grammar(PERSON, True))
    next(tokens)
    next(tokens)
    with pytest.raises(llgx.LlgxError, match="switch jump_forward off"):
        tokens.send([1])


def test_the_chain_is_left_as_it_was(llm: llama_cpp.Llama) -> None:
    complete(llm, PERSON, False)
    expected = set(vars(llm._sampler))
    complete(llm, PERSON, True)
    assert set(vars(llm._sampler)) == expected
    assert "_init_sampler" not in vars(llm)


def test_installed_for_all_and_off_for_one(llm: llama_cpp.Llama, evaluations: Evaluations) -> None:
    def count(jumps: bool | None) -> int:
        made = llgx.LlamaGrammar.from_string(LARK)
        made.jump_forward = jumps
        evaluations.batches.clear()
        llm.create_completion(PROMPT, grammar=made, temperature=0, max_tokens=80)
        return len(evaluations.batches)

    off = count(False)
    assert count(None) == off
    with llgx.install(jump_forward=True):
        on = count(None)
        assert count(False) == off
    assert on < off
    assert count(True) == on
    assert count(None) == off


def test_gbnf_does_not_jump(llm: llama_cpp.Llama, evaluations: Evaluations) -> None:
    made = llgx.LlamaGrammar.from_string('root ::= "one two three four"')
    made.jump_forward = True
    response: Any = llm.create_completion(PROMPT, grammar=made, temperature=0, max_tokens=40)
    assert response["choices"][0]["text"] == "one two three four"
    assert len(evaluations.batches) >= 4


def test_errors_of_the_grammar_come_from_the_call(llm: llama_cpp.Llama) -> None:
    made = grammar("%llguidance {}\nstart: <|no_such_token|>", True)
    with pytest.raises(llgx.LlgxError):
        llm.create_completion(PROMPT, grammar=made, max_tokens=4)
    complete(llm, LARK, True)


def test_generate_with_jumps_by_hand(llm: llama_cpp.Llama) -> None:
    """What ``llgx.generate`` does: without a patch of the class."""
    made = grammar(LARK, False)
    compiled = made.grammar.compile(llgx.Vocabulary.from_llama(llm))  # type: ignore[union-attr]
    inner = llm.generate(llm.tokenize(PROMPT.encode()), temp=0.0, grammar=made)
    text = b""
    for token in generate_with_jumps(llm, inner, compiled):
        if token in compiled.vocabulary.eog:
            break
        text += compiled.vocabulary.tokens[token]
    assert text.decode() == complete(llm, LARK, False)["text"]


def test_a_stale_chain_is_todays_behaviour(llm: llama_cpp.Llama) -> None:
    """``Llama.sample`` goes on with the chain of the last generation, and its grammar; whoever
    calls it directly has to drop the chain first."""
    complete(llm, LARK, True)
    llm.reset()
    llm.eval(llm.tokenize(b"The capital of France is"))
    stale = llm._sampler
    assert stale is not None
    free = llm.sample(temp=0.0, idx=None)
    assert llm._sampler is stale
    llm._sampler = None
    assert llm.sample(temp=0.0, idx=None) != free
