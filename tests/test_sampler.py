"""The native sampler, called through the functions of ``llama.h``: no model is needed for that.

Vocabularies are small; each test drives the sampler as llama.cpp does, with arrays of candidates,
and compares it with a matcher or with what the array has to be.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import gc
import math
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp import _internals
from llama_cpp import llama_cpp as llama

import llgx
from llgx.llama import _sampler
from llgx.llama.sampler import Sampler, samplers_of

# More than one word of 64 bits, and not a multiple of 32. The last two end a generation.
TEXTS = [bytes([byte]) for byte in range(0x20, 0x7F)] + [b"ab", b"abc", b"12", b"123", b"true"]
EOG = (len(TEXTS), len(TEXTS) + 1)
TOKENS = [*TEXTS, b"<end>", b"<eot>"]
VOCABULARY = llgx.Vocabulary.from_tokens(TOKENS, eog=EOG)
GRAMMARS = [
    llgx.Grammar.from_lark(text)
    for text in (
        "start: /[a-z]+/",
        "start: /[0-9]{1,5}/",
        'start: "abc" | "ab" "12"',
        "start: /[^z]*/",
        'start: "(" start ")" | "x"',
        'start: w "!"\nw[max_tokens=2]: /[a-z]+/',
        "start: <[3]> /[0-9]+/ <[4-9]>",
        '%llguidance {"lexer": "exact"}\nstart: /[a-z]+/ "ab" /[0-9]/',
    )
]
LETTERS = GRAMMARS[0]


def token(text: bytes) -> int:
    return TOKENS.index(text)


@dataclasses.dataclass
class Candidates:
    """An array of candidates, as llama.cpp hands it to samplers."""

    ids: Sequence[int]
    logits: Sequence[float] = ()
    selected: int = -1
    is_sorted: bool = False

    def __post_init__(self) -> None:
        logits = self.logits or [float(-i) for i in range(len(self.ids))]
        self.data = (llama.llama_token_data * max(1, len(self.ids)))(
            *(llama.llama_token_data(*pair, 0.0) for pair in zip(self.ids, logits, strict=True))
        )
        self.array = llama.llama_token_data_array(
            self.data, len(self.ids), self.selected, self.is_sorted
        )

    def apply(self, sampler: Any) -> list[tuple[int, float]]:
        """What ``sampler`` leaves of them."""
        llama.llama_sampler_apply(sampler, ctypes.byref(self.array))
        return [(self.data[i].id, self.data[i].logit) for i in range(self.array.size)]


def ids_left(sampler: Any, ids: Sequence[int] = range(len(TOKENS))) -> list[int]:
    return [identity for identity, _ in Candidates(ids).apply(sampler)]


class Native:
    """A sampler of llama.cpp that is freed at the end of a block."""

    def __init__(self, grammar: Any = LETTERS, **options: Any) -> None:
        self.sampler = llgx.sampler(VOCABULARY, grammar, **options)
        self.pointer = self.sampler.release()

    def __enter__(self) -> tuple[Sampler, Any]:
        return self.sampler, self.pointer

    def __exit__(self, *_: object) -> None:
        llama.llama_sampler_free(self.pointer)


# ------------------------------------------------------------------------------- candidates


@given(st.data())
def test_leaves_the_allowed_ones_of_any_candidates_in_their_order(data: st.DataObject) -> None:
    grammar = data.draw(st.sampled_from(GRAMMARS))
    matcher = llgx.Matcher(grammar.compile(VOCABULARY))
    with Native(grammar) as (_, pointer):
        for _ in range(data.draw(st.integers(0, 4))):
            chosen = data.draw(st.sampled_from(matcher.allowed_tokens()))
            matcher.consume(chosen)
            llama.llama_sampler_accept(pointer, chosen)
        allowed = set(matcher.allowed_tokens())
        order = data.draw(st.permutations(range(len(TOKENS))))
        ids = order[: data.draw(st.integers(2, len(TOKENS)))]
        if data.draw(st.booleans()):
            ids = sorted(ids)
        logit = st.floats(width=32, allow_nan=False, allow_infinity=False)
        logits = data.draw(st.lists(logit, min_size=len(ids), max_size=len(ids)))
        before = list(zip(ids, logits, strict=True))
        left = Candidates(ids, logits).apply(pointer)
        expected = [(identity, value) for identity, value in before if identity in allowed]
        assert left == (expected or [(EOG[0], 0.0)])
        # Nothing but the candidates has changed.
        assert Candidates(ids, logits).apply(pointer) == left
        assert ids_left(pointer) == sorted(allowed)


def test_takes_ids_that_no_vocabulary_has() -> None:
    with Native() as (_, pointer):
        ids = [-1, token(b"a"), 10**9, -(2**31), token(b"b"), len(TOKENS)]
        assert ids_left(pointer, ids) == [token(b"a"), token(b"b")]


@pytest.mark.parametrize("width", [len(TOKENS), 5], ids=["whole vocabulary", "subset"])
def test_leaves_out_what_cannot_be_chosen(width: int) -> None:
    ids = list(range(len(TOKENS)))[token(b"a") :][:width] if width == 5 else range(len(TOKENS))
    logits = [1.0] * len(ids)
    place = list(ids).index(token(b"a"))
    logits[place : place + 3] = [math.nan, -math.inf, math.inf]
    with Native() as (_, pointer):
        left = Candidates(ids, logits).apply(pointer)
    allowed = llgx.Matcher(LETTERS.compile(VOCABULARY)).allowed_tokens()
    assert [identity for identity, _ in left] == [
        identity for identity in ids if identity in allowed and TOKENS[identity] not in (b"a", b"b")
    ]
    assert left[0][0] == token(b"c")
    assert math.isfinite(left[0][1])
    assert left[0][1] > 1e38
    assert all(value == 1.0 for _, value in left[1:])


@pytest.mark.parametrize(
    ("selected", "expected"), [(b"b", b"b"), (b"1", b"a"), (None, None)], ids=str
)
def test_keeps_the_selected_one(selected: bytes | None, expected: bytes | None) -> None:
    """Where it is not allowed, the best of those that are is selected: llama.cpp wants one."""
    ids = [token(text) for text in (b"1", b"b", b"2", b"a", b"c")]
    place = -1 if selected is None else ids.index(token(selected))
    with Native() as (_, pointer):
        candidates = Candidates(ids, [9.0, 1.0, 8.0, 3.0, 2.0], selected=place)
        left = candidates.apply(pointer)
    at = candidates.array.selected
    assert (None if at < 0 else left[at][0]) == (None if expected is None else token(expected))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_keeps_what_is_known_of_the_order(is_sorted: bool) -> None:
    with Native() as (_, pointer):
        candidates = Candidates(range(len(TOKENS)), is_sorted=is_sorted)
        candidates.apply(pointer)
        assert candidates.array.sorted == is_sorted


def test_a_single_candidate_is_a_question() -> None:
    """llama.cpp's own callers sample first and then ask about that one token."""
    with Native() as (sampler, pointer):
        assert Candidates([token(b"a")], [5.0]).apply(pointer) == [(token(b"a"), 5.0)]
        ((_, logit),) = Candidates([token(b"1")], [5.0]).apply(pointer)
        assert logit == -math.inf
        llama.llama_sampler_accept(pointer, token(b"a"))
        assert sampler.error is None
        assert sampler.tokens == [token(b"a")]


def test_no_candidates_at_all() -> None:
    with Native() as (_, pointer):
        assert Candidates([]).apply(pointer) == []
        empty = llama.llama_token_data_array(None, 0, -1, False)
        llama.llama_sampler_apply(pointer, ctypes.byref(empty))
        assert empty.size == 0


def test_all_end_tokens_end_a_text() -> None:
    with Native() as (sampler, pointer):
        llama.llama_sampler_accept(pointer, token(b"a"))
        assert set(EOG) <= set(ids_left(pointer))
        llama.llama_sampler_accept(pointer, EOG[1])
        assert ids_left(pointer) == list(EOG)
        assert sampler.error is None
        assert sampler.matcher().stop_reason == "eog"


# ------------------------------------------------------------------------------- errors


def test_a_refused_token_is_an_error_and_no_more() -> None:
    with Native() as (sampler, pointer):
        llama.llama_sampler_accept(pointer, token(b"a"))
        llama.llama_sampler_accept(pointer, token(b"1"))
        error = sampler.error
        assert isinstance(error, llgx.TokenRejected)
        assert (error.token, error.position) == (token(b"1"), 1)
        assert sampler.error is error
        with pytest.raises(llgx.TokenRejected):
            sampler.raise_if_failed()
        assert ids_left(pointer) == [EOG[0]]
        llama.llama_sampler_accept(pointer, EOG[0])
        assert sampler.tokens == [token(b"a")]
        llama.llama_sampler_reset(pointer)
        assert sampler.error is None
        assert token(b"b") in ids_left(pointer)


@pytest.mark.parametrize("wrong", [-1, len(TOKENS), 2**31 - 1, -(2**31)])
def test_a_token_that_no_vocabulary_has(wrong: int) -> None:
    with Native() as (sampler, pointer):
        llama.llama_sampler_accept(pointer, wrong)
        assert isinstance(sampler.error, llgx.TokenRejected)


def test_the_error_says_that_nothing_was_left() -> None:
    with Native() as (sampler, pointer):
        assert ids_left(pointer, [token(b"1"), token(b"2")]) == [EOG[0]]
        assert sampler.error is None  # a question, as long as nothing is accepted
        llama.llama_sampler_accept(pointer, EOG[0])
        assert isinstance(sampler.error, llgx.LlgxError)
        assert "exclude them all" in str(sampler.error)


@pytest.mark.parametrize("on_error", ["raise", "continue"])
@pytest.mark.parametrize("point", ["accept", "apply", "clone"])
def test_memory_runs_out(point: Any, on_error: Any, capfd: pytest.CaptureFixture[str]) -> None:
    everything = list(range(len(TOKENS)))
    with Native(on_error=on_error) as (sampler, pointer):
        ids_left(pointer)
        sampler._state.inject(point)
        clone = llama.llama_sampler_clone(pointer)
        llama.llama_sampler_accept(clone, token(b"a"))
        llama.llama_sampler_accept(pointer, token(b"a"))
        left = [ids_left(each) for each in (pointer, pointer, clone)]
        if point == "clone":
            assert left[2] == left[0]
        else:  # the clone was not meant
            assert token(b"b") in left[2]
        assert left[0] == left[1] == ([EOG[0]] if on_error == "raise" else everything)
        assert isinstance(sampler.error, MemoryError)
        assert sampler.is_lifted == (on_error == "continue")
        llama.llama_sampler_free(clone)
    said = capfd.readouterr().err
    assert said.count("cannot be followed") == 1
    assert ("unconstrained" in said) == (on_error == "continue")


def limited(rows: int) -> tuple[llgx.CompiledGrammar, bytes]:
    """A grammar that has a row of its own after each ``(``, few of which are allowed."""
    return GRAMMARS[4].compile(VOCABULARY, limits=llgx.Limits(rows=rows)), b"("


@pytest.mark.parametrize("on_error", ["raise", "continue"])
def test_a_limit_is_passed_under_way(on_error: Any) -> None:
    compiled, opening = limited(rows=20)
    with Native(compiled, on_error=on_error) as (sampler, pointer):
        for _ in range(60):
            ids_left(pointer)
            llama.llama_sampler_accept(pointer, token(opening))
        error = sampler.error
        assert isinstance(error, llgx.LimitError)
        assert error.limit == "rows"
        assert 5 < len(sampler.tokens) < 60
        assert (ids_left(pointer) == [EOG[0]]) == (on_error == "raise")
    # The compiled grammar is not spoilt for others.
    matcher = llgx.Matcher(compiled)
    matcher.consume(token(opening))
    assert matcher.allows(token(opening))


# ------------------------------------------------------------------------------- life


def test_clones_go_their_own_way() -> None:
    with Native() as (sampler, pointer):
        llama.llama_sampler_accept(pointer, token(b"a"))
        clone = llama.llama_sampler_clone(pointer)
        second = llama.llama_sampler_clone(clone)
        llama.llama_sampler_accept(clone, token(b"b"))
        llama.llama_sampler_reset(second)
        assert sampler.tokens == [token(b"a")]
        assert EOG[0] not in ids_left(second)
        assert EOG[0] in ids_left(clone)
        llama.llama_sampler_accept(second, token(b"1"))
        assert ids_left(second) == [EOG[0]]
        assert sampler.error is None
        # A clone of one that failed has failed.
        third = llama.llama_sampler_clone(second)
        assert ids_left(third) == [EOG[0]]
        for each in (clone, second, third):
            llama.llama_sampler_free(each)
        assert token(b"b") in ids_left(pointer)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_go_their_own_way(copied: Any) -> None:
    """They had one state, which two chains then moved."""
    with Native() as (sampler, pointer):
        llama.llama_sampler_accept(pointer, token(b"a"))
        made = copied(sampler)
        other = made.release()  # in no chain yet
        llama.llama_sampler_accept(other, token(b"b"))
        llama.llama_sampler_accept(pointer, token(b"c"))
        assert made.tokens == [token(b"a"), token(b"b")]
        assert sampler.tokens == [token(b"a"), token(b"c")]
        llama.llama_sampler_accept(other, token(b"1"))
        assert sampler.error is None
        failed = copied(made)
        assert str(failed.error) == str(made.error)
        assert failed.tokens == made.tokens
        llama.llama_sampler_free(other)
        made._state.inject("clone")
        with pytest.raises(MemoryError):
            copied(made)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(sampler)


def test_copies_of_what_does_not_change_are_the_same() -> None:
    compiled = LETTERS.compile(VOCABULARY)
    assert copy.copy(compiled) is copy.deepcopy(compiled) is compiled
    with pytest.raises(TypeError, match="send the Grammar"):
        pickle.dumps(compiled)


def test_a_chain_of_llama_cpp_python() -> None:
    chain = _internals.LlamaSampler()
    sampler = llgx.sampler(VOCABULARY, LETTERS)
    sampler.add_to(chain)
    chain.add_greedy()
    assert llama.llama_sampler_name(llama.llama_sampler_chain_get(chain.sampler, 0)) == b"llgx"
    chain.accept(token(b"a"))
    clone = chain.clone()
    (cloned,) = samplers_of(clone)
    assert samplers_of(chain) == [sampler]
    assert cloned.tokens == [token(b"a")]
    clone.accept(token(b"1"))
    assert cloned.error is not None
    assert sampler.error is None
    again = clone.clone()
    assert [str(each.error) for each in samplers_of(again)] == [str(cloned.error)]
    chain.close()
    assert sampler.tokens == [token(b"a")]  # kept by the object
    clone.close()
    again.close()


def test_grammars_are_given_back() -> None:
    """By the last sampler that is freed, the Python objects long gone, and not before."""
    gc.collect()
    before = _sampler.returned()
    compiled = LETTERS.compile(VOCABULARY)
    references = sys.getrefcount(compiled)
    pointer = llgx.sampler(VOCABULARY, compiled).release()
    gc.collect()
    assert sys.getrefcount(compiled) == references + 1
    clone = llama.llama_sampler_clone(pointer)
    llama.llama_sampler_free(pointer)
    assert _sampler.returned() == before
    assert token(b"a") in ids_left(clone)
    llama.llama_sampler_free(clone)
    assert _sampler.returned() == before + 1
    assert sys.getrefcount(compiled) == references


def test_freed_in_another_thread() -> None:
    before = _sampler.returned()
    pointers = [llgx.sampler(VOCABULARY, LETTERS).release() for _ in range(50)]
    threads = [threading.Thread(target=llama.llama_sampler_free, args=(p,)) for p in pointers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _sampler.returned() == before + 50


@pytest.mark.parametrize("ending", ["never", "atexit", "by a thread"])
def test_the_interpreter_ends(ending: str) -> None:
    program = f"""
import atexit, threading
import llgx
from llama_cpp import llama_cpp as llama
vocabulary = llgx.Vocabulary.from_tokens([b"a", b"b", b"<end>"], eog=[2])
pointers = [llgx.sampler(vocabulary, "start: /[ab]+/").release() for _ in range(3)]
free = lambda: [llama.llama_sampler_free(pointer) for pointer in pointers]
if {ending!r} == "atexit":
    # Registered first, so it runs after llgx has stopped giving anything back.
    import llgx.llama._sampler as module
    atexit.unregister(module._stop_giving_back)
    atexit.register(free)
    atexit.register(module._stop_giving_back)
elif {ending!r} == "by a thread":
    threading.Thread(target=free).start()
print("reached")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "reached\n"), done.stderr


def test_threads_share_a_compiled_grammar() -> None:
    """Each has a sampler of its own; all take the masks of one engine, without the GIL."""
    compiled = GRAMMARS[3].compile(VOCABULARY)
    failures: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        matcher = llgx.Matcher(compiled)
        with Native(compiled) as (sampler, pointer):
            for _ in range(300):
                if chance.random() < 0.1:
                    matcher.reset()
                    llama.llama_sampler_reset(pointer)
                left = ids_left(pointer)
                if left != matcher.allowed_tokens():
                    failures.append(f"{sampler.tokens}: {left}")
                chosen = chance.choice([each for each in left if each not in EOG])
                matcher.consume(chosen)
                llama.llama_sampler_accept(pointer, chosen)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_read_while_another_thread_samples() -> None:
    with Native() as (sampler, pointer):
        done = threading.Event()

        def sample() -> None:
            for _ in range(3000):
                llama.llama_sampler_accept(pointer, token(b"a"))
            done.set()

        thread = threading.Thread(target=sample)
        thread.start()
        while not done.is_set():
            assert set(sampler.tokens) <= {token(b"a")}
            assert sampler.error is None
        thread.join()
        assert len(sampler.tokens) == len(sampler.matcher()) == 3000


# ------------------------------------------------------------------------------- misuse


def test_a_sampler_is_in_one_chain() -> None:
    chain = _internals.LlamaSampler()
    sampler = llgx.sampler(VOCABULARY, LETTERS)
    sampler.add_to(chain)
    with pytest.raises(RuntimeError, match="in a chain already"):
        sampler.add_to(chain)
    with pytest.raises(RuntimeError, match="in a chain already"):
        sampler.release()
    assert llama.llama_sampler_chain_n(chain.sampler) == 1
    chain.close()


@pytest.mark.parametrize("wrong", [None, "chain", 0, object(), []])
def test_what_is_no_chain(wrong: Any) -> None:
    sampler = llgx.sampler(VOCABULARY, LETTERS)
    with pytest.raises(TypeError, match="not a sampler chain"):
        sampler.add_to(wrong)
    llama.llama_sampler_free(sampler.release())  # it is still to be had


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="on_error"):
        llgx.sampler(VOCABULARY, LETTERS, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(llgx.VocabularyError, match="no end-of-generation token"):
        llgx.sampler(llgx.Vocabulary.from_tokens([b"a"], eog=[]), LETTERS)
    other = llgx.Vocabulary.from_tokens([b"a", b"<end>"], eog=[1])
    with pytest.raises(llgx.VocabularyError, match="compiled for"):
        llgx.sampler(VOCABULARY, LETTERS.compile(other))
    with pytest.raises(llgx.GrammarError, match="line 1"):
        llgx.sampler(VOCABULARY, "start: (")
    with pytest.raises(TypeError, match="a grammar is"):
        llgx.sampler(VOCABULARY, 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no address"):
        _sampler.SamplerState(LETTERS.compile(VOCABULARY), 0, lifts=False)
    unmade = _sampler.SamplerState.__new__(_sampler.SamplerState)
    for use in (unmade.release, unmade.failure, lambda: unmade.tokens, lambda: unmade.compiled):
        with pytest.raises(TypeError, match="not called"):
            use()


def test_a_foreign_sampler_is_none_of_ours() -> None:
    greedy = llama.llama_sampler_init_greedy()
    address = ctypes.cast(greedy, ctypes.c_void_p).value
    assert address is not None
    assert _sampler.SamplerState.of(address) is None
    assert _sampler.SamplerState.of(0) is None
    llama.llama_sampler_free(greedy)
