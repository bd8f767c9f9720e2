"""``llgx.llama.processor``: following completions, writing logits, and what becomes of errors.

The first half calls processors as llama-cpp-python does, with a small vocabulary; the second half
lets llama-cpp-python call them, with a real model.
"""

from __future__ import annotations

import copy
import gc
import itertools
import logging
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

import llgx
from llgx.llama import LogitsProcessor, LogitsProcessorList, _native, logits_processors

INF = float("inf")
NAN = float("nan")

EOG = 256
ALSO_EOG = 257
BYTES = llgx.Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"<eos>", b"<eot>"],
    eog=[EOG, ALSO_EOG],
    special=[EOG, ALSO_EOG],
)
CANDIDATES = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)

PROMPT = [5, 6, 7]


def allowed(scores: Any) -> set[int]:
    return set(np.flatnonzero(np.asarray(scores) > -INF).tolist())


def candidates(count: int = len(BYTES)) -> Any:
    """The view that llama-cpp-python makes of llama.cpp's candidates."""
    records = np.zeros(count, dtype=CANDIDATES)
    records["id"] = np.arange(count)
    return records


class Caller:
    """Calls a processor as a completion of llama-cpp-python does."""

    def __init__(self, processor: Callable[[Any, Any], Any], prompt: list[int]) -> None:
        self.processor = processor
        self.ids = np.zeros(4096, dtype=np.intc)
        self.ids[: len(prompt)] = prompt
        self.length = len(prompt)

    def allowed(self) -> set[int]:
        scores = candidates()["logit"]
        returned = self.processor(self.ids[: self.length], scores)
        assert allowed(returned) == allowed(scores)
        return allowed(scores)

    def sample(self, *tokens: int) -> set[int]:
        for token in tokens:
            self.ids[self.length] = token
            self.length += 1
        return self.allowed()


def processor(grammar: Any, **options: Any) -> LogitsProcessor:
    return LogitsProcessor(BYTES, grammar, **options)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_go_their_own_way(copied: Any) -> None:
    """They had one matcher and one mask."""
    original = processor('start: "ab" | "cd"')
    caller = Caller(original, PROMPT)
    caller.allowed()
    caller.sample(ord("a"))
    other = Caller(copied(original), PROMPT)
    other.ids, other.length = caller.ids.copy(), caller.length
    assert caller.sample(ord("b")) == {EOG, ALSO_EOG}
    assert other.processor.tokens == [ord("a")]  # type: ignore[attr-defined]
    assert other.allowed() == {ord("b")}
    assert original.tokens == [ord("a"), ord("b")]


# --- Kernels --------------------------------------------------------------------------------------


@given(st.data())
def test_constrain_leaves_exactly_what_the_mask_allows(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 100))
    count = size + data.draw(st.integers(0, 40))
    step = data.draw(st.integers(1, 3))
    values = st.sampled_from([0.0, -1.5, 3e38, INF, -INF, NAN])
    logits = data.draw(st.lists(values, min_size=count, max_size=count))
    words = np.array(
        data.draw(
            st.lists(
                st.sampled_from([0, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF),
                min_size=(size + 31) // 32,
                max_size=(size + 31) // 32,
            )
        ),
        dtype=np.uint32,
    )
    storage = np.full(count * step, 7, dtype=np.float32)
    row = storage[::step]
    row[:] = logits
    before = storage.copy()
    finite = np.finfo(np.float32).max
    expected = [
        min(logit, finite)
        if token < size and int(words[token // 32]) >> token % 32 & 1 and logit > -INF
        else -INF
        for token, logit in enumerate(logits)
    ]
    left = any(value > -INF for value in expected)
    assert _native.constrain(row, words.view(np.int32), size) is left
    if left:
        assert row.tolist() == np.array(expected, dtype=np.float32).tolist()
    else:
        assert np.array_equal(storage, before, equal_nan=True)
    untouched = np.arange(count * step) % step != 0
    assert (storage[untouched] == 7).all()


def test_force_leaves_one_token() -> None:
    records = candidates(100)
    records["logit"] = NAN
    _native.force(records["logit"], 42)
    assert allowed(records["logit"]) == {42}
    assert records["logit"][42] == 0
    assert records["id"].tolist() == list(range(100))
    assert not records["p"].any()


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(64, dtype=np.float64),
        np.zeros(64, dtype=np.int32),
        np.zeros((2, 64), dtype=np.float32),
        np.zeros(64, dtype=">f4" if np.little_endian else "<f4"),
        [0.0] * 64,
    ],
)
def test_kernels_take_one_row_of_floats(scores: Any) -> None:
    with pytest.raises(TypeError):
        _native.constrain(scores, np.zeros(2, dtype=np.int32), 64)
    with pytest.raises(TypeError):
        _native.force(scores, 1)


def test_kernels_refuse_sizes_that_do_not_fit() -> None:
    row = np.zeros(64, dtype=np.float32)
    for size, words in ((65, 3), (-1, 2), (64, 1), (33, 1)):
        with pytest.raises(ValueError, match=r"logits|words"):
            _native.constrain(row, np.zeros(words, dtype=np.int32), size)
    for token in (-1, 64):
        with pytest.raises(ValueError, match="token"):
            _native.force(row, token)
    row.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        _native.constrain(row, np.zeros(2, dtype=np.int32), 64)


# --- Following a completion -----------------------------------------------------------------------


def test_masks_follow_the_sampled_tokens() -> None:
    made = processor('start: "a" ("b" | "c") "d"')
    caller = Caller(made, PROMPT)
    assert caller.allowed() == {ord("a")}
    assert caller.sample(ord("a")) == {ord("b"), ord("c")}
    assert caller.sample(ord("c")) == {ord("d")}
    assert caller.sample(ord("d")) == {EOG, ALSO_EOG}
    assert made.tokens == list(b"acd")
    assert made.error is None
    assert made.mask_seconds > 0
    # Callers may sample on after the end.
    assert caller.sample(ALSO_EOG) == {EOG, ALSO_EOG}
    assert caller.sample(EOG) == {EOG, ALSO_EOG}


def test_prompt_is_never_interpreted() -> None:
    caller = Caller(processor('start: "a"'), [2**31 - 1, -5, EOG, ord("z")])
    assert caller.allowed() == {ord("a")}
    assert caller.sample(ord("a")) == {EOG, ALSO_EOG}


@given(st.randoms(use_true_random=False))
def test_sampled_text_matches_the_regex(random: Any) -> None:
    caller = Caller(processor(r"start: /[a-c]{1,5}(-[0-9]{2})*/"), PROMPT)
    choice = caller.allowed()
    text = b""
    while len(text) < 40:
        token = random.choice(sorted(choice))
        if token in BYTES.eog:
            break
        text += BYTES.tokens[token]
        choice = caller.sample(token)
    if len(text) < 40:
        assert re.fullmatch(rb"[a-c]{1,5}(-[0-9]{2})*", text)


def test_asking_twice_at_one_place_gives_the_same() -> None:
    caller = Caller(processor('start: "ab"'), PROMPT)
    assert caller.allowed() == caller.allowed() == {ord("a")}
    assert caller.sample(ord("a")) == caller.allowed() == {ord("b")}


@pytest.mark.parametrize(
    "prompt",
    [
        PROMPT,
        PROMPT[:1],
        [],
        [9, *PROMPT[1:]],
        [9, 9, 9, 9],
        [9, 9, 9, 9, 9],
        [*PROMPT, ord("x"), ord("b")],
        [*range(50)],
    ],
)
def test_another_completion_begins_anew(prompt: list[int]) -> None:
    made = processor('start: "abcd"')
    first = Caller(made, PROMPT)
    first.allowed()
    first.sample(ord("a"))
    assert first.sample(ord("b")) == {ord("c")}
    second = Caller(made, prompt)
    assert second.allowed() == {ord("a")}
    assert second.sample(ord("a")) == {ord("b")}
    assert made.error is None


def test_reset_begins_anew_whatever_the_prompt() -> None:
    made = processor('start: "abc"')
    caller = Caller(made, PROMPT)
    caller.allowed()
    caller.sample(ord("a"))
    made.reset()
    assert made.tokens == []
    assert caller.sample(ord("x")) == {ord("a")}
    assert made.error is None


def test_long_texts_are_followed() -> None:
    made = processor("start: /a*b/")
    caller = Caller(made, PROMPT)
    caller.allowed()
    for _ in range(3000):
        caller.sample(ord("a"))
    assert caller.sample(ord("b")) == {EOG, ALSO_EOG}
    other = Caller(made, [*PROMPT, *[ord("a")] * 2000, ord("c")])
    assert other.allowed() == {ord("a"), ord("b")}


# --- Writing logits -------------------------------------------------------------------------------


def test_scores_are_changed_in_place_and_returned() -> None:
    records = candidates()
    records["logit"] = 1.5
    view = records["logit"]
    assert view.strides == (12,)
    returned = processor('start: "a"')(np.array(PROMPT, dtype=np.intc), view)
    assert returned is view
    assert allowed(records["logit"]) == {ord("a")}
    assert records["logit"][ord("a")] == 1.5
    assert records["id"].tolist() == list(range(len(BYTES)))
    assert not records["p"].any()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types_are_returned_as_a_copy(dtype: Any) -> None:
    scores = np.zeros(len(BYTES), dtype=dtype)
    returned = processor('start: "a"')(np.array(PROMPT), scores)
    assert allowed(returned) == {ord("a")}
    assert returned.dtype == np.float32


def test_logits_beyond_the_vocabulary_are_forbidden() -> None:
    scores = np.ones(len(BYTES) + 70, dtype=np.float32)
    processor("start: /(.|\\n)*/")(np.array(PROMPT), scores)
    assert max(allowed(scores)) < len(BYTES)


def test_logits_that_are_not_finite() -> None:
    scores = np.zeros(len(BYTES), dtype=np.float32)
    scores[[ord("a"), ord("b"), ord("c")]] = NAN, INF, 2
    processor("start: /[a-c]/")(np.array(PROMPT), scores)
    assert allowed(scores) == {ord("b"), ord("c")}
    assert np.isfinite(scores[ord("b")])
    assert scores[ord("b")] > 1e38


# --- Errors ---------------------------------------------------------------------------------------


def test_several_tokens_at_once_end_the_completion(caplog: pytest.LogCaptureFixture) -> None:
    made = processor('start: "abcdef"')
    caller = Caller(made, PROMPT)
    caller.allowed()
    with caplog.at_level(logging.ERROR, "llgx.llama"):
        assert caller.sample(ord("a"), ord("b")) == {EOG}
    assert "speculative" in caplog.text
    assert isinstance(made.error, llgx.LlgxError)
    assert caller.sample(EOG) == {EOG}
    assert caller.sample(EOG, EOG) == {EOG}
    with pytest.raises(llgx.LlgxError, match="without draft_model"):
        made.raise_if_failed()
    # The next completion is not to blame.
    assert Caller(made, PROMPT).allowed() == {ord("a")}
    assert made.error is None
    made.raise_if_failed()


def test_forbidden_token_ends_the_completion() -> None:
    made = processor('start: "ab"')
    caller = Caller(made, PROMPT)
    caller.allowed()
    assert caller.sample(ord("x")) == {EOG}
    with pytest.raises(llgx.TokenRejected) as caught:
        made.raise_if_failed()
    assert caught.value.token == ord("x")


@pytest.mark.parametrize("value", [-INF, NAN])
def test_excluding_all_that_is_allowed_ends_the_completion(value: float) -> None:
    made = processor('start: "a"')
    scores = np.zeros(len(BYTES), dtype=np.float32)
    scores[ord("a")] = value
    made(np.array(PROMPT), scores)
    assert allowed(scores) == {EOG}
    with pytest.raises(llgx.LlgxError, match="finite"):
        made.raise_if_failed()


def test_same_prompt_again_begins_anew_after_an_error() -> None:
    made = processor('start: "a"')
    excluded = np.full(len(BYTES), -INF, dtype=np.float32)
    made(np.array(PROMPT), excluded)
    assert allowed(excluded) == {EOG}
    assert Caller(made, PROMPT).allowed() == {ord("a")}
    assert made.error is None


@pytest.mark.parametrize("count", [0, 1, len(BYTES) - 1])
def test_too_few_logits(count: int, caplog: pytest.LogCaptureFixture) -> None:
    made = processor('start: "a"')
    with caplog.at_level(logging.ERROR, "llgx.llama"):
        made(np.array(PROMPT), np.zeros(count, dtype=np.float32))
    with pytest.raises(ValueError, match="logits"):
        made.raise_if_failed()
    assert caplog.records


@pytest.mark.parametrize("ids", [None, np.zeros((1, 3), dtype=np.int64), 5])
def test_nothing_is_raised_from_a_call(ids: Any) -> None:
    made = processor('start: "a"')
    scores = np.zeros(len(BYTES), dtype=np.float32)
    made(np.array(PROMPT), scores)
    made(np.array([*PROMPT, ord("a")]), np.zeros((2, 2), dtype=np.float32))
    assert made.error is not None
    made.reset()
    made(ids, np.zeros(len(BYTES), dtype=np.float32))
    made(np.array(PROMPT), None)  # type: ignore[arg-type]
    assert made.error is not None


class Interrupting(list[int]):
    """What a Ctrl-C during the call looks like."""

    def __len__(self) -> int:
        raise KeyboardInterrupt


@pytest.mark.parametrize("on_error", ["raise", "continue"])
def test_interrupts_end_the_completion(on_error: Any) -> None:
    made = processor('start: "a"', on_error=on_error)
    scores = np.zeros(len(BYTES), dtype=np.float32)
    made(Interrupting(), scores)  # type: ignore[arg-type]
    assert allowed(scores) == {EOG}
    with pytest.raises(KeyboardInterrupt):
        made.raise_if_failed()


def test_continuing_lifts_the_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    made = processor('start: "ab"', on_error="continue")
    caller = Caller(made, PROMPT)
    caller.allowed()
    everything = set(range(len(BYTES)))
    assert caller.sample(ord("x")) == everything
    assert "unconstrained" in capsys.readouterr().err
    assert caller.sample(ord("y")) == everything
    assert capsys.readouterr().err == ""
    assert isinstance(made.error, llgx.TokenRejected)
    assert Caller(made, PROMPT).allowed() == {ord("a")}
    assert made.error is None


def test_continuing_leaves_excluded_tokens_excluded() -> None:
    made = processor('start: "a"', on_error="continue")
    scores = np.zeros(len(BYTES), dtype=np.float32)
    scores[ord("a")] = -INF
    made(np.array(PROMPT), scores)
    assert allowed(scores) == set(range(len(BYTES))) - {ord("a")}


def run_into_error(made: LogitsProcessorList) -> None:
    caller = Caller(made, PROMPT)
    caller.allowed()
    assert caller.sample(ord("x")) == {EOG}


def test_with_block_raises_what_was_not_raised_yet() -> None:
    made = logits_processors(BYTES, 'start: "ab"')
    with made as entered:
        assert entered is made
    with pytest.raises(llgx.TokenRejected), made:
        run_into_error(made)
    assert isinstance(made.error, llgx.TokenRejected)
    with made:  # raised already
        pass
    made.reset()
    assert made.error is None


def test_with_block_does_not_hide_another_error() -> None:
    made = logits_processors(BYTES, 'start: "ab"')
    run_into_error(made)
    with pytest.raises(ZeroDivisionError), made:
        raise ZeroDivisionError


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="on_error"):
        processor('start: "a"', on_error="ignore")
    with pytest.raises(TypeError, match="Lark text"):
        processor(7)
    for schema in ({"type": "object"}, dict):
        with pytest.raises(TypeError, match=r"llgx\.Grammar\.from_json_schema makes"):
            processor(schema)
    with pytest.raises(llgx.GrammarError):
        processor('start: "a" )')
    with pytest.raises(TypeError, match="Llama"):
        logits_processors("model.gguf", 'start: "a"')
    endless = llgx.Vocabulary.from_tokens([b"a", b"b"])
    with pytest.raises(llgx.VocabularyError, match="end-of-generation"):
        logits_processors(endless, 'start: "a"')


def test_kinds_of_grammar() -> None:
    text = 'start: "a"'
    grammar = llgx.Grammar.from_lark(text)
    for kind in (text, grammar, grammar.compile(BYTES)):
        assert Caller(processor(kind), PROMPT).allowed() == {ord("a")}
    twin = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog, special=BYTES.special)
    assert Caller(processor(grammar.compile(twin)), PROMPT).allowed() == {ord("a")}
    other = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=EOG, special=BYTES.special)
    with pytest.raises(llgx.VocabularyError, match="compiled for"):
        processor(grammar.compile(other))


def test_first_mask_is_made_before_the_first_call() -> None:
    limits = llgx.Limits(lexer_states=1)
    compiled = llgx.Grammar.from_lark("start: /[a-z]+[0-9]+/").compile
    with pytest.raises(llgx.LimitError):
        logits_processors(BYTES, compiled(BYTES, limits=limits))


# --- The list -------------------------------------------------------------------------------------


def test_list_calls_its_members_in_turn() -> None:
    def double(input_ids: Any, scores: Any) -> Any:
        scores *= 2
        return scores

    made = LogitsProcessorList([lambda ids, scores: scores + 1, double, double])
    assert made(np.array([1]), np.zeros(2, dtype=np.float32)).tolist() == [4, 4]


def test_extend_returns_the_list() -> None:
    made = logits_processors(BYTES, 'start: "a"')
    grammar = made[0]

    def other(input_ids: Any, scores: Any) -> Any:
        return scores

    assert made.extend([other]) is made
    assert made == [grammar, other]
    assert made.extend([]) is made


# --- With llama-cpp-python ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    model = llama_cpp.Llama(
        str(gemma_path), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False
    )
    yield model
    model.close()


DATE = r"start: /20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])/"
DATE_REGEX = r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
POEM = "Write a poem about the sea:\n"


def complete(llm: llama_cpp.Llama, prompt: str, made: Any, **options: Any) -> str:
    options = {"max_tokens": 40, "temperature": 0, **options}
    done: Any = llm.create_completion(prompt, logits_processor=made, **options)
    assert done["choices"][0]["finish_reason"] == "stop"
    return str(done["choices"][0]["text"])


def counting(calls: list[int]) -> Callable[[Any, Any], Any]:
    def count(input_ids: Any, scores: Any) -> Any:
        calls.append(len(input_ids))
        return scores

    return count


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_completion_follows_the_grammar(llm: llama_cpp.Llama, temperature: float) -> None:
    made = logits_processors(llm, DATE)
    text = complete(llm, POEM, made, temperature=temperature, seed=1)
    assert re.fullmatch(DATE_REGEX, text)
    made.raise_if_failed()
    vocabulary = llgx.Vocabulary.from_llama(llm)
    assert b"".join(vocabulary.tokens[t] for t in made[0].tokens).decode() == text
    assert made[0].mask_seconds > 0


@pytest.mark.parametrize(
    "sampling",
    [
        {"top_k": 1, "temperature": 0.5},
        {"min_p": 0.5, "temperature": 2.0},
        {"typical_p": 0.5, "temperature": 1.0},
        {"mirostat_mode": 1, "temperature": 1.0},
        {"mirostat_mode": 2, "temperature": 1.0},
        {"repeat_penalty": 1.5, "presence_penalty": 1.0, "temperature": 1.0},
        {"temperature": -1},
    ],
)
def test_all_samplers_keep_to_the_mask(llm: llama_cpp.Llama, sampling: dict[str, Any]) -> None:
    text = complete(llm, POEM, logits_processors(llm, DATE), seed=3, **sampling)
    assert re.fullmatch(DATE_REGEX, text)


def test_one_list_serves_completions_one_after_the_other(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    longer = POEM + "Waves and wind, again and again, and the gulls above."
    # The same prompt again is served from the cache; a longer one begins with all of the first.
    for prompt in (POEM, POEM, longer, POEM, "x"):
        assert re.fullmatch(DATE_REGEX, complete(llm, prompt, made))
    first = complete(llm, POEM, made)
    chat = POEM + first + "\nAnother one:\n"
    assert re.fullmatch(DATE_REGEX, complete(llm, chat, made))
    made.raise_if_failed()


def test_prompt_of_a_cut_completion_goes_on_where_it_was_cut(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    prompt = llm.tokenize(POEM.encode())
    generated: list[int] = []
    for token in llm.generate(prompt, temp=0, logits_processor=made):
        generated.append(token)
        if len(generated) == 4:
            break
    rest = []
    for token in llm.generate([*prompt, *generated], temp=0, logits_processor=made):
        if token in llgx.Vocabulary.from_llama(llm).eog:
            break
        rest.append(token)
    assert re.fullmatch(DATE_REGEX, llm.detokenize([*generated, *rest]).decode())
    # One token after a finished one is a new completion.
    again = [*prompt, *generated, *rest, prompt[-1]]
    text = list(itertools.islice(llm.generate(again, temp=0, logits_processor=made), 10))
    assert re.fullmatch(DATE_REGEX, llm.detokenize(text).decode())


def test_logit_bias_and_grammar_together(llm: llama_cpp.Llama) -> None:
    calls: list[int] = []
    made = logits_processors(llm, "start: /[ab]{3}/")
    made.append(counting(calls))
    a, b = (llm.tokenize(text, add_bos=False)[0] for text in (b"a", b"b"))
    poem = llm.tokenize(b"poem", add_bos=False)[0]
    for _ in range(3):
        text = complete(llm, POEM, made, logit_bias={a: -100.0, poem: 1000.0, b: 0.5})
        assert text in {"bbb", "bab", "abb", "bba"} or re.fullmatch("[ab]{3}", text)
        assert len(made) == 2
    assert calls
    # Biases without a finite sum: forced, and banned for good.
    assert re.fullmatch("[ab]{3}", complete(llm, POEM, made, logit_bias={poem: INF, b: 1.0}))
    tokens = {t for t, s in enumerate(llgx.Vocabulary.from_llama(llm).tokens) if b"a" in s}
    assert complete(llm, POEM, made, logit_bias=dict.fromkeys(tokens, -INF)) == "bbb"
    # Without a bias afterwards, none is left over.
    assert re.fullmatch("[ab]{3}", complete(llm, POEM, made))


def test_chat_and_stream(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    chat: Any = llm.create_chat_completion(
        [{"role": "user", "content": "When?"}],
        logits_processor=made,
        temperature=0,
        max_tokens=40,
    )
    assert re.fullmatch(DATE_REGEX, chat["choices"][0]["message"]["content"])
    stream: Any = llm.create_completion(
        POEM, logits_processor=made, stream=True, temperature=0, max_tokens=40
    )
    assert re.fullmatch(DATE_REGEX, "".join(chunk["choices"][0]["text"] for chunk in stream))


def test_sampling_without_generate(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    llm._sampler = None
    llm.reset()
    tokens = llm.tokenize(POEM.encode())
    text: list[int] = []
    while True:
        llm.eval(tokens)
        token = llm.sample(temp=0, logits_processor=made)
        if token in llgx.Vocabulary.from_llama(llm).eog:
            break
        text.append(token)
        tokens = [token]
    assert re.fullmatch(DATE_REGEX, llm.detokenize(text).decode())


class Banning:
    """A logits processor of a user that excludes every token at one call."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            scores[:] = -INF
        return scores


@pytest.mark.parametrize("stream", [False, True])
def test_error_is_raised_from_the_completion(llm: llama_cpp.Llama, stream: bool) -> None:
    made = logits_processors(llm, DATE)
    made.insert(0, Banning(at=3))

    def run() -> None:
        done: Any = llm.create_completion(
            POEM, logits_processor=made, stream=stream, max_tokens=40, temperature=0
        )
        list(done)

    with pytest.raises(llgx.LlgxError, match="finite"):
        run()
    assert made[1].is_reported
    with made:  # not a second time
        pass
    assert re.fullmatch(DATE_REGEX, complete(llm, POEM, made))
    assert re.fullmatch(DATE_REGEX, complete(llm, POEM, logits_processors(llm, DATE)))


def test_sampled_token_that_is_forbidden_is_raised(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    made.append(Banning(at=2))  # after the grammar: llama.cpp then samples any token
    with pytest.raises(llgx.TokenRejected):
        complete(llm, POEM, made)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", ["processor", "logit_bias"])
def test_error_of_the_first_token_is_raised(llm: llama_cpp.Llama, way: str, stream: bool) -> None:
    made = logits_processors(llm, 'start: "a"')
    options: dict[str, Any] = {"max_tokens": 8, "temperature": 0, "stream": stream}
    if way == "processor":
        made.insert(0, Banning(at=1))
    else:
        texts = llgx.Vocabulary.from_llama(llm).tokens
        options["logit_bias"] = {t: -float("inf") for t, text in enumerate(texts) if b"a" in text}

    def run() -> None:
        list(llm.create_completion(POEM, logits_processor=made, **options))

    with pytest.raises(llgx.LlgxError, match="finite"), made:
        run()
    assert made.error is not None
    assert "detokenize" not in vars(llm)
    assert re.fullmatch(DATE_REGEX, complete(llm, POEM, logits_processors(llm, DATE)))


def test_error_of_the_first_token_that_nobody_asks_for(llm: llama_cpp.Llama) -> None:
    """``generate`` makes no text: the error is kept, and not raised from what comes later."""
    made = logits_processors(llm, DATE)
    made.insert(0, Banning(at=1))
    assert llm.token_eos() == next(iter(llm.generate(llm.tokenize(b"x"), logits_processor=made)))
    assert made.error is not None
    assert llm.detokenize(llm.tokenize(b"later")).endswith(b"later")
    assert "detokenize" not in vars(llm)
    next(iter(llm.generate(llm.tokenize(b"y"), logits_processor=made)))
    done: Any = llm.create_completion("x", max_tokens=1, logit_bias={llm.token_eos(): 1000.0})
    assert done["choices"][0]["text"] == ""


def test_continuing_in_a_completion(
    llm: llama_cpp.Llama, capsys: pytest.CaptureFixture[str]
) -> None:
    made = logits_processors(llm, DATE, on_error="continue")

    def reject(input_ids: Any, scores: Any) -> Any:
        return (
            np.where(np.arange(len(scores)) == newline, 0, -INF) if made.error is None else scores
        )

    newline = llm.tokenize(b"\n", add_bos=False)[0]
    made.append(reject)
    done: Any = llm.create_completion(POEM, logits_processor=made, max_tokens=8, temperature=0)
    assert done["choices"][0]["text"].startswith("\n")
    assert len(done["choices"][0]["text"]) > 1
    assert "unconstrained" in capsys.readouterr().err
    assert isinstance(made.error, llgx.TokenRejected)


def test_draft_models_are_refused(llm: llama_cpp.Llama) -> None:
    made = logits_processors(llm, DATE)
    llm.draft_model = LlamaPromptLookupDecoding()
    try:
        with pytest.raises(llgx.LlgxError, match="without draft_model"):
            logits_processors(llm, DATE)
        with pytest.raises(llgx.LlgxError, match="draft_model"), made:
            complete(llm, POEM, made)
    finally:
        llm.draft_model = None
    assert re.fullmatch(DATE_REGEX, complete(llm, POEM, made))


def test_processor_of_one_model_works_with_another_object_of_it(
    llm: llama_cpp.Llama, gemma_path: Path
) -> None:
    made = logits_processors(llm, DATE)
    assert re.fullmatch(DATE_REGEX, complete(llm, POEM, made))
    twin = llama_cpp.Llama(
        str(gemma_path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False
    )
    try:
        for prompt in (POEM, POEM, "x"):
            assert re.fullmatch(DATE_REGEX, complete(twin, prompt, made))
    finally:
        twin.close()
    made.raise_if_failed()


def test_models_are_freed(gemma_path: Path) -> None:
    model = llama_cpp.Llama(
        str(gemma_path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False
    )
    made = logits_processors(model, DATE)
    complete(model, POEM, made)
    seen = weakref.ref(model)
    model._sampler = None  # of llama-cpp-python: its chain refers to the model
    del model
    gc.collect()
    assert seen() is None
    assert made[0].tokens
