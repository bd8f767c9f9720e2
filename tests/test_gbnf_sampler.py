"""llama.cpp's own grammars in the sampler that keeps them from ending the process.

Each of these but the first ended it, by an exception of C++ that nothing catches, where the grammar
was in the chain as llama-cpp-python puts it there.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from llama_cpp import _internals
from llama_cpp.llama_grammar import LlamaGrammar

import llgx
from llgx.llama import hooks
from llgx.llama._gbnf import GbnfState
from llgx.llama.sampler import GbnfSampler, samplers_of

NO_LOGIT = float("-inf")
GRAMMAR = llgx.LlamaGrammar.from_string('root ::= "ab" [0-9]?')


class Model:
    """What ``LlamaSampler.add_grammar`` needs of a model: its vocabulary."""

    def __init__(self, path: Path) -> None:
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        self.vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.end = llama_cpp.llama_vocab_eos(self.vocab)

    def close(self) -> None:
        llama_cpp.llama_model_free(self._model)

    def tokens(self, text: bytes) -> list[int]:
        found = (llama_cpp.llama_token * 64)()
        count = llama_cpp.llama_tokenize(self.vocab, text, len(text), found, 64, False, False)
        return list(found[:count])


class Left:
    """What a sampler leaves of candidates: the whole vocabulary, or those that are given."""

    def __init__(self, sampler: Any, logits: Any, ids: Any = None) -> None:
        kind = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
        self.candidates = np.zeros(len(logits), kind)
        self.candidates["id"] = np.arange(len(logits)) if ids is None else ids
        self.candidates["logit"] = logits
        data = self.candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        array = llama_cpp.llama_token_data_array(
            data=data, size=len(logits), selected=-1, sorted=False
        )
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        self.candidates = self.candidates[: array.size]

    def ids(self) -> list[int]:
        finite = self.candidates["logit"] > NO_LOGIT
        return [int(token) for token in self.candidates["id"][finite]]


@pytest.fixture(scope="module")
def model(vocabulary_dir: Path) -> Iterator[Model]:
    loaded = Model(vocabulary_dir / "ggml-vocab-llama-spm.gguf")
    yield loaded
    loaded.close()


def new_chain() -> Any:
    chain: Any = _internals.LlamaSampler  # without types
    return chain()


def chain_of(model: Any, grammar: Any = GRAMMAR) -> Any:
    chain = new_chain()
    chain.add_grammar(model, grammar)
    return chain


def accept(chain: Any, token: int) -> None:
    """As ``LlamaSampler.accept``, which early versions lack."""
    llama_cpp.llama_sampler_accept(chain.sampler, token)


def error_in(chain: Any) -> Exception | None:
    """What the one grammar of a chain of llama-cpp-python ran into."""
    pointer = llama_cpp.llama_sampler_chain_get(chain.sampler, 0)
    state = GbnfState.of(ctypes.cast(pointer, ctypes.c_void_p).value or 0)
    assert state is not None
    return GbnfSampler._of(state).error


def test_it_leaves_what_llama_cpp_leaves(model: Model) -> None:
    """Logits, order and number of candidates, along a text and after a reset."""
    bare = llama_cpp.llama_sampler_init_grammar(model.vocab, GRAMMAR._grammar.encode(), b"root")
    chain = chain_of(model)
    logits = np.linspace(-3, 3, model.size, dtype=np.float32)
    for text in (b"ab7", b"a"):
        for token in [*model.tokens(text), None]:
            expected, found = Left(bare, logits), Left(chain.sampler, logits)
            assert np.array_equal(expected.candidates, found.candidates)
            if token is not None and token in expected.ids():
                llama_cpp.llama_sampler_accept(bare, token)
                accept(chain, token)
        llama_cpp.llama_sampler_reset(bare)
        llama_cpp.llama_sampler_reset(chain.sampler)
    llama_cpp.llama_sampler_free(bare)
    assert samplers_of(chain) == []
    assert error_in(chain) is None
    chain.close()


def test_a_refused_token_is_an_error_and_no_more(model: Model) -> None:
    chain = chain_of(model)
    (wrong, *_) = model.tokens(b"xyz")
    for token in (wrong, model.end, -1, model.size, 2**31 - 1, -(2**31)):
        accept(chain, token)
        error = error_in(chain)
        assert isinstance(error, llgx.TokenRejected)
        assert error.token == token
        assert f"token {token} is not allowed after 0 tokens" in str(error)
        assert Left(chain.sampler, np.zeros(model.size, np.float32)).ids() == [model.end]
        accept(chain, wrong)  # and goes on being one
        assert Left(chain.sampler, np.zeros(model.size, np.float32)).ids() == [model.end]
        llama_cpp.llama_sampler_reset(chain.sampler)
        assert error_in(chain) is None
    chain.close()


def test_nothing_is_left_to_choose(model: Model) -> None:
    chain = chain_of(model)
    logits = np.full(model.size, NO_LOGIT, np.float32)
    assert Left(chain.sampler, logits).ids() == [model.end]
    assert error_in(chain) is None  # nothing was chosen yet
    accept(chain, model.end)
    error = error_in(chain)
    assert type(error) is llgx.LlgxError
    assert "after 0 tokens could be chosen" in str(error)
    chain.close()


def test_an_end_that_was_excluded_still_ends_a_whole_text(model: Model) -> None:
    chain = chain_of(model)
    for token in model.tokens(b"ab"):
        if token in Left(chain.sampler, np.zeros(model.size, np.float32)).ids():
            accept(chain, token)
    while model.end not in (left := Left(chain.sampler, np.zeros(model.size, np.float32)).ids()):
        accept(chain, left[0])
    assert Left(chain.sampler, np.full(model.size, NO_LOGIT, np.float32)).ids() == [model.end]
    accept(chain, model.end)
    assert error_in(chain) is None
    chain.close()


def test_a_single_candidate_is_a_question(model: Model) -> None:
    chain = chain_of(model)
    (wrong, *_) = model.tokens(b"xyz")
    assert Left(chain.sampler, [0.0], [wrong]).ids() == []
    accept(chain, wrong)
    assert isinstance(error_in(chain), llgx.TokenRejected)  # not that nothing was left
    chain.close()


def test_the_constraint_is_lifted(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    grammar = llgx.LlamaGrammar.from_string('root ::= "ab"', on_error="continue")
    chain = chain_of(model, grammar)
    (wrong, *_) = model.tokens(b"xyz")
    accept(chain, wrong)
    logits = np.linspace(-3, 3, model.size, dtype=np.float32)
    assert len(Left(chain.sampler, logits).ids()) == model.size
    accept(chain, wrong)
    chain.close()


def test_clones_go_their_own_way(model: Model) -> None:
    chain = chain_of(model)
    (wrong, *_) = model.tokens(b"xyz")
    zeros = np.zeros(model.size, np.float32)
    clone = chain.clone()
    before = Left(chain.sampler, zeros).ids()
    accept(clone, before[0])
    assert Left(chain.sampler, zeros).ids() == before
    accept(clone, wrong)
    again = clone.clone()
    for chained in (clone, again):
        assert isinstance(error_in(chained), llgx.TokenRejected)
        assert "after 1 tokens" in str(error_in(chained))
    assert error_in(chain) is None
    for chained in (chain, clone, again):
        chained.close()


def test_the_chain_outlives_the_model(vocabulary_dir: Path) -> None:
    model = Model(vocabulary_dir / "ggml-vocab-llama-spm.gguf")
    chain = chain_of(model)
    clone = chain.clone()
    accept(chain, -1)
    model.close()
    chain.close()
    clone.close()
    del chain, clone
    gc.collect()


def test_grammars_that_a_pattern_begins(model: Model) -> None:
    hooks.add_hook("test")
    chain = new_chain()
    grammar = LlamaGrammar.from_string("root ::= a_b\na_b ::= [x]")
    with pytest.raises(llgx.GrammarError, match=r"llama\.cpp cannot read"):
        chain.add_grammar_lazy_patterns(model, grammar, ["x"], [])
    grammar = LlamaGrammar.from_string('root ::= "go" [0-9]')
    chain.add_grammar_lazy_patterns(model, grammar, [r"[\s\S]*?(go[\s\S]*)"], [])
    for token in model.tokens(b"hello, go") + model.tokens(b"go"):
        accept(chain, token)
    assert isinstance(error_in(chain), llgx.TokenRejected)
    chain.close()
    hooks.remove_hook("test")


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="no address"):
        GbnfState(0, [1] * 6, vocabulary_size=1, end=0, lifts=False)
    with pytest.raises(ValueError, match="no address"):
        GbnfState(1, [1, 1, 1, 0, 1, 1], vocabulary_size=1, end=0, lifts=False)
    assert GbnfState.of(0) is None
    with pytest.raises(TypeError, match="was not called"):
        GbnfState.__new__(GbnfState).failure()


@pytest.fixture(scope="module")
def llm(gemma_path: Path) -> Iterator[llama_cpp.Llama]:
    model = llama_cpp.Llama(
        str(gemma_path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False
    )
    yield model
    model.close()


@pytest.mark.parametrize("kind", [llgx.LlamaGrammar, LlamaGrammar], ids=["llgx", "plain"])
@pytest.mark.parametrize("temperature", [0, 0.8, -1])
def test_completions_in_which_nothing_is_left(
    llm: llama_cpp.Llama, kind: Any, temperature: float
) -> None:
    """The end excluded by ``logit_bias`` ends a whole text; all that is allowed, is an error."""
    hooks.add_hook("test")
    vocabulary = llgx.Vocabulary.from_llama(llm)
    grammar = kind.from_string('root ::= "ab"')
    done: Any = llm.create_completion(
        "x",
        grammar=grammar,
        temperature=temperature,
        logit_bias=dict.fromkeys(vocabulary.eog, NO_LOGIT),
    )
    assert done["choices"][0]["text"] == "ab"
    assert done["choices"][0]["finish_reason"] == "stop"

    bias = {
        token: NO_LOGIT for token, text in enumerate(vocabulary.tokens) if text in (b"a", b"ab")
    }
    for stream in (False, True):
        with pytest.raises(llgx.LlgxError, match="exclude them all"):
            list(
                llm.create_completion(
                    "x", grammar=grammar, temperature=temperature, logit_bias=bias, stream=stream
                )
            )
    assert llm.create_completion("x", grammar=grammar)["choices"][0]["text"] == "ab"  # type: ignore
    hooks.remove_hook("test")


def test_a_completion_goes_on_unconstrained(
    llm: llama_cpp.Llama, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = llgx.Vocabulary.from_llama(llm).tokens
    bias = {token: NO_LOGIT for token, text in enumerate(tokens) if text in (b"a", b"ab")}
    grammar = llgx.LlamaGrammar.from_string('root ::= "ab"', on_error="continue")
    seen = []
    processors = llama_cpp.LogitsProcessorList([lambda ids, scores: _without(bias, scores)])
    prompt = llm.tokenize(b"The date is ")
    for token in llm.generate(prompt, temp=0, grammar=grammar, logits_processor=processors):
        seen.append(token)
        if len(seen) == 6:
            break
    assert capsys.readouterr().err.count("generation continues unconstrained") == 1
    assert len(set(seen)) > 1


def _without(bias: dict[int, float], scores: Any) -> Any:
    scores[list(bias)] = NO_LOGIT
    return scores
