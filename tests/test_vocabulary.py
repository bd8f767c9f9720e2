"""``llgx.vocabulary`` and ``llgx.llama.tokenizer``: what each token stands for, and tokenizing.

Expected bytes come from three independent sides: hand-made vocabularies, the text that went into
llama.cpp's tokenizer, and what llama.cpp's own detokenizer makes of whole sequences.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp._internals import LlamaModel

import llgx
from llgx.errors import VocabularyError
from llgx.vocabulary import SELF_TEST_SAMPLES, Vocabulary

lib = llama_cpp.llama_cpp

# Tokenizers that keep the text as it is, by how they deal with a space at the start of a text.
KEEPS_START = {
    "aquila",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "gpt-neox",
    "llama-bpe",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
}
ADDS_SPACE = {"baichuan", "llama-spm", "phi-3"}
# They lower-case, normalise (NFKC or NFC) or drop spaces.
NORMALISES = {"bert-bge", "nomic-bert-moe", "mpt"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vocabulary_name" in metafunc.fixturenames:
        metafunc.parametrize("vocabulary_name", sorted(KEEPS_START | ADDS_SPACE | NORMALISES))


class Model:
    """A vocabulary-only model, through llama-cpp-python's low-level functions."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.vocab = owner.vocab

    def tokenize(self, text: bytes) -> list[int]:
        ids = (ctypes.c_int32 * (len(text) + 8))()
        count = lib.llama_tokenize(self.vocab, text, len(text), ids, len(ids), False, False)
        return ids[:count]

    def detokenize(self, ids: list[int]) -> bytes:
        buffer = ctypes.create_string_buffer(65536)
        array = (ctypes.c_int32 * len(ids))(*ids)
        size = lib.llama_detokenize(self.vocab, array, len(ids), buffer, 65536, False, True)
        assert size >= 0
        return buffer.raw[:size]


def llama_model(path: Path) -> Any:
    """The object that ``llama_cpp.Llama`` keeps its model in, without the rest."""
    parameters = lib.llama_model_default_params()
    parameters.vocab_only = True
    return LlamaModel(path_model=str(path), params=parameters, verbose=False)


@pytest.fixture(scope="module")
def open_model(vocabulary_dir: Path) -> Iterator[Callable[[str], Model]]:
    opened: dict[str, Model] = {}

    def open_model(name: str) -> Model:
        if name not in opened:
            opened[name] = Model(llama_model(vocabulary_dir / f"ggml-vocab-{name}.gguf"))
        return opened[name]

    yield open_model
    for model in opened.values():
        model.owner.close()


@pytest.fixture(scope="module")
def load(open_model: Callable[[str], Model]) -> Callable[[str], Vocabulary]:
    return lambda name: Vocabulary.from_llama(open_model(name).owner)


def joined(vocabulary: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(vocabulary.tokens[token] for token in ids)


# --- From a list of tokens -----------------------------------------------------------------------


def test_table_is_kept_as_given() -> None:
    tokens = [b"a", b"", b"a", b"\xe2\x82", b"<eos>", b"\x00\xff"]
    vocabulary = Vocabulary.from_tokens(tokens, eog=[4], special=[4], name="tiny")
    assert vocabulary.tokens == tokens
    assert vocabulary.eog == (4,)
    assert vocabulary.special == {4}
    assert len(vocabulary) == 6
    assert "tiny" in repr(vocabulary)
    tokens[0] = b"changed"
    assert vocabulary.tokens[0] == b"a"


def test_eog_is_sorted_and_distinct_and_may_be_one_id() -> None:
    assert Vocabulary.from_tokens([b"a", b"b", b"c"], eog=[2, 0, 2]).eog == (0, 2)
    assert Vocabulary.from_tokens([b"a", b"b", b"c"], eog=1).eog == (1,)
    assert Vocabulary.from_tokens([b"a"]).eog == ()


@pytest.mark.parametrize(
    "tokens", ["text", b"bytes", ["text"], [b"a", "b"], [b"a", bytearray(b"b")], [b"a", None], [1]]
)
def test_tokens_of_other_types_are_refused(tokens: Any) -> None:
    with pytest.raises(TypeError):
        Vocabulary.from_tokens(tokens)


@pytest.mark.parametrize("ids", [[-1], [2], [0, 1, 2], [1 << 40]])
@pytest.mark.parametrize("what", ["eog", "special"])
def test_ids_out_of_range_are_refused(what: str, ids: list[int]) -> None:
    with pytest.raises(VocabularyError, match=what):
        Vocabulary.from_tokens([b"a", b"b"], **{what: ids})


@pytest.mark.parametrize("what", ["eog", "special"])
def test_ids_that_are_no_integers_are_refused(what: str) -> None:
    with pytest.raises(TypeError):
        Vocabulary.from_tokens([b"a", b"b"], **{what: ["0"]})  # type: ignore[arg-type]


def test_no_tokens_are_refused() -> None:
    with pytest.raises(VocabularyError, match="at least one"):
        Vocabulary.from_tokens([])


# --- Greedy spelling ------------------------------------------------------------------------------


def test_longest_token_first_and_lowest_id_of_equals() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b"ab", b"abc", b"ab", b""])
    assert vocabulary.tokenize(b"ababcab") == [2, 3, 2]
    assert vocabulary.tokenize(b"") == []


def test_another_split_where_greed_leads_nowhere() -> None:
    # "ab" first leaves "c", which is no token.
    vocabulary = Vocabulary.from_tokens([b"a", b"ab", b"bc", b"d"])
    assert vocabulary.tokenize(b"abcd") == [0, 2, 3]
    # Every "aa" from the left leaves an odd "a"; only the last step can mend it.
    pairs = Vocabulary.from_tokens([b"aa", b"aaaaa"])
    assert joined(pairs, pairs.tokenize(b"a" * 20_001)) == b"a" * 20_001


def test_special_end_and_empty_tokens_spell_nothing() -> None:
    vocabulary = Vocabulary.from_tokens([b"<s>", b"</s>", b"<", b">", b"s", b"/", b""], eog=1)
    assert vocabulary.tokenize(b"</s>") == [2, 5, 4, 3]
    assert vocabulary.tokenize(b"<s>") == [0]
    vocabulary = Vocabulary.from_tokens([b"<s>", b"<", b">", b"s"], special=[0])
    assert vocabulary.tokenize(b"<s>") == [1, 3, 2]


def test_bytes_that_no_token_spells() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"ab", b"abcd"])
    with pytest.raises(VocabularyError, match=r"b'xyz' at offset 3"):
        vocabulary.tokenize(b"aabxyz")
    with pytest.raises(VocabularyError, match=r"b'cxd' at offset 2"):
        vocabulary.tokenize(b"abcxd")
    with pytest.raises(VocabularyError):
        vocabulary.tokenize(b"b")


@pytest.mark.parametrize("data", ["text", 1, None, [97]])
def test_tokenize_takes_bytes(data: Any) -> None:
    with pytest.raises(TypeError, match="bytes"):
        Vocabulary.from_tokens([b"a"]).tokenize(data)


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6),
    st.text("abc", max_size=9),
)
def test_spelling_exists_exactly_when_a_search_finds_one(tokens: list[str], text: str) -> None:
    def spellable(rest: str) -> bool:
        return not rest or any(rest.startswith(t) and spellable(rest[len(t) :]) for t in tokens)

    vocabulary = Vocabulary.from_tokens([token.encode() for token in tokens])
    if spellable(text):
        assert joined(vocabulary, vocabulary.tokenize(text.encode())) == text.encode()
    else:
        with pytest.raises(VocabularyError):
            vocabulary.tokenize(text.encode())


def test_spelling_is_linear() -> None:
    vocabulary = Vocabulary.from_tokens([b"a" * n for n in (1, 2, 3, 50)] + [b"b"])
    begin = time.perf_counter()
    vocabulary.tokenize(b"a" * 300_000 + b"b")
    with pytest.raises(VocabularyError):
        vocabulary.tokenize(b"a" * 100_000 + b"c")
    assert time.perf_counter() - begin < 5


# --- Identity, copies, fingerprint ----------------------------------------------------------------


def test_fingerprint_tells_content() -> None:
    base = Vocabulary.from_tokens([b"ab", b"c"], eog=1)
    assert base.fingerprint == Vocabulary.from_tokens([b"ab", b"c"], eog=1, name="x").fingerprint
    others = [
        Vocabulary.from_tokens([b"a", b"bc"], eog=1),
        Vocabulary.from_tokens([b"ab", b"c"], eog=0),
        Vocabulary.from_tokens([b"ab", b"c"], eog=1, special=[1]),
        Vocabulary.from_tokens([b"ab", b"c", b""], eog=1),
        Vocabulary.from_tokens([b"c", b"ab"], eog=1),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_fingerprint_is_the_same_in_another_process() -> None:
    code = (
        "from llgx.vocabulary import Vocabulary as V;"
        "print(V.from_tokens([b'ab', b'c', b'd'], eog=[2, 1], special=[1, 2, 0]).fingerprint)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert runs == {
        Vocabulary.from_tokens([b"ab", b"c", b"d"], eog=[1, 2], special=[0, 1, 2]).fingerprint
    }


def test_pickled_table_is_the_same_table() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"\xff", b"<e>"], eog=2, special=[2], name="n")
    loaded = pickle.loads(pickle.dumps(vocabulary))
    assert loaded.fingerprint == vocabulary.fingerprint
    assert (loaded.name, loaded.tokens) == ("n", vocabulary.tokens)
    assert loaded.tokenize(b"a\xff") == [0, 1]


def test_copies_are_the_object_itself() -> None:
    vocabulary = Vocabulary.from_tokens([b"a"])
    assert copy.copy(vocabulary) is vocabulary
    assert copy.deepcopy({"v": vocabulary})["v"] is vocabulary


def test_module_needs_no_llama_cpp() -> None:
    code = (
        "import sys; sys.modules['llama_cpp'] = None;"
        "from llgx.vocabulary import Vocabulary as V; V.from_tokens([b'a']).tokenize(b'a');"
        "import pathlib, tempfile; path = pathlib.Path(tempfile.mkdtemp(), 'x.gguf');"
        "path.write_bytes(b'GGUF');\n"
        "try: V.from_gguf(path)\n"
        "except ImportError as error: assert 'llama-cpp-python' in str(error), error\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_trie_is_made_once_even_by_several_threads() -> None:
    vocabulary = Vocabulary.from_tokens([b"%d" % n for n in range(5000)] + [b"<e>"], eog=5000)
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append(vocabulary.trie)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
    assert found[0].vocabulary_size == 5001


# --- Real vocabularies ----------------------------------------------------------------------------


def test_every_vocabulary_of_llama_cpp_is_covered(vocabulary_dir: Path) -> None:
    found = {p.stem.removeprefix("ggml-vocab-") for p in vocabulary_dir.glob("ggml-vocab-*.gguf")}
    assert found == KEEPS_START | ADDS_SPACE | NORMALISES


def test_table_spells_the_text_that_llama_cpp_tokenized(
    vocabulary_name: str,
    load: Callable[[str], Vocabulary],
    open_model: Callable[[str], Model],
) -> None:
    vocabulary = load(vocabulary_name)
    model = open_model(vocabulary_name)
    for sample in SELF_TEST_SAMPLES:
        ids = model.tokenize(sample)
        if vocabulary_name in KEEPS_START:
            assert joined(vocabulary, ids) == sample
        elif vocabulary_name in ADDS_SPACE:
            assert joined(vocabulary, ids) == b" " + sample
        else:
            # Normalised away: at least what was left is the same without spaces.
            spelled = model.detokenize(ids).replace(b" ", b"")
            assert joined(vocabulary, ids).replace(b" ", b"") == spelled


def test_attributes_agree_with_llama_cpp(
    vocabulary_name: str,
    load: Callable[[str], Vocabulary],
    open_model: Callable[[str], Model],
) -> None:
    vocabulary = load(vocabulary_name)
    vocab = open_model(vocabulary_name).vocab
    count = lib.llama_vocab_n_tokens(vocab)
    assert len(vocabulary) == count
    assert set(vocabulary.eog) == {t for t in range(count) if lib.llama_vocab_is_eog(vocab, t)}
    assert vocabulary.eog
    control = {t for t in range(count) if lib.llama_vocab_is_control(vocab, t)}
    assert control <= vocabulary.special
    for token in vocabulary.special:
        assert vocabulary.tokens[token]
    for token in control:
        assert vocabulary.tokens[token] == lib.llama_vocab_get_text(vocab, token)


@pytest.mark.parametrize(
    ("name", "bos", "eos", "tokens"),
    [
        (
            "llama-spm",
            1,
            (2,),
            {0: b"<unk>", 1: b"<s>", 3: b"\x00", 258: b"\xff", 22172: b" hello"},
        ),
        ("llama-bpe", 128000, (128001, 128009), {15339: b"hello", 24748: b" hello", 188: b"\x00"}),
        ("phi-3", 1, (2, 32000, 32007), {32001: b"<|assistant|>", 29871: b" "}),
        ("gemma-4", 2, (1, 50, 106), {238: b"\x00", 493: b"\xff", 48: b"<|tool_call>"}),
        ("qwen2", 151644, (128247, 151643, 151645), {14990: b"hello", 220: b" "}),
    ],
)
def test_known_tokens(
    name: str,
    bos: int,
    eos: tuple[int, ...],
    tokens: dict[int, bytes],
    load: Callable[[str], Vocabulary],
) -> None:
    vocabulary = load(name)
    assert vocabulary.eog == eos
    assert bos in vocabulary.special
    assert {token: vocabulary.tokens[token] for token in tokens} == tokens


def test_unknown_unused_and_tag_like_tokens_are_special(
    load: Callable[[str], Vocabulary], gemma_path: Path
) -> None:
    assert 0 in load("llama-spm").special
    padding = load("phi-3")
    assert padding.tokens[32011] == b"[PAD32011]"
    assert 32011 in padding.special
    unused = load("nomic-bert-moe")
    assert unused.tokens[250002] == b"[PAD250001]"
    assert 250002 in unused.special
    tags = load("command-r")
    assert tags.tokens[255000] == b"<|START_OF_TURN_TOKEN|>"
    assert 255000 in tags.special
    gemma = Vocabulary.from_gguf(gemma_path)
    assert gemma.tokens[6] == b"<unused0>"
    assert 6 in gemma.special
    # User-defined, but plain text: runs of newlines, and a word in brackets.
    assert gemma.tokens[108] == b"\n\n"
    assert gemma.tokens[5] == b"[multimodal]"
    assert not {5, 108} & gemma.special


def test_long_tokens_are_whole(load: Callable[[str], Vocabulary]) -> None:
    vocabulary = load("llama-bpe")
    assert max(map(len, vocabulary.tokens)) > 100
    assert b" " * 128 in vocabulary.tokens


def test_one_token_at_a_time_through_the_detokenizer_is_wrong(
    load: Callable[[str], Vocabulary], open_model: Callable[[str], Model]
) -> None:
    """Why the table is not made with ``llama_detokenize``: it drops spaces at the start of a text
    and around punctuation."""
    for name, fewest in (("llama-spm", 10_000), ("llama-bpe", 50), ("phi-3", 10_000)):
        vocabulary, model = load(name), open_model(name)
        text = [t for t in range(len(vocabulary)) if t not in vocabulary.special]
        wrong = [t for t in text if model.detokenize([t]) != vocabulary.tokens[t]]
        assert len(wrong) > fewest
        for token in wrong:
            table = vocabulary.tokens[token]
            assert table.replace(b" ", b"") == model.detokenize([token]).replace(b" ", b"")
    # The space that is lost is there in the middle of a text, as the table says.
    model, vocabulary = open_model("llama-spm"), load("llama-spm")
    assert model.detokenize([22172, 22172]) == b"hello hello"
    assert vocabulary.tokens[22172] == b" hello"


TEXTS = [
    b"hello",
    b" hello",
    b"  two  spaces  ",
    b"\n\n\tdef f():\r\n",
    "é漢👍🏽 ß".encode(),
    b'{"a": [1, 2.5e-3, null], "b": "x\\ny"}',
    b"isn't it ? yes , it 's !",
    b"a" * 100,
    b" " * 5000 + b"x",
    "漢字".encode() * 1500,
]


def test_tokenize_spells_exactly_the_text(
    vocabulary_name: str, load: Callable[[str], Vocabulary]
) -> None:
    vocabulary = load(vocabulary_name)
    excluded = vocabulary.special.union(vocabulary.eog)
    for text in [*TEXTS, *SELF_TEST_SAMPLES]:
        try:
            ids = vocabulary.tokenize(text)
        except VocabularyError:
            # Tokens for capitals or spaces are missing there.
            assert vocabulary_name in NORMALISES
            continue
        assert joined(vocabulary, ids) == text
        assert not excluded.intersection(ids)


@pytest.mark.parametrize("name", ["llama-spm", "llama-bpe", "gemma-4", "qwen2", "gpt-2", "phi-3"])
def test_any_bytes_can_be_tokenized(name: str, load: Callable[[str], Vocabulary]) -> None:
    vocabulary = load(name)
    excluded = vocabulary.special.union(vocabulary.eog)
    for data in (
        bytes(range(256)),
        b"\x00",
        b"ab\x00cd",
        b"\xff\xfehello\x80",
        "漢".encode()[:2],
        "x👍".encode()[:-1],
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
    ):
        ids = vocabulary.tokenize(data)
        assert joined(vocabulary, ids) == data
        assert not excluded.intersection(ids)


@pytest.mark.parametrize("name", ["llama-bpe", "gemma-4", "gpt-2", "qwen2"])
def test_text_is_tokenized_as_llama_cpp_does(
    name: str, load: Callable[[str], Vocabulary], open_model: Callable[[str], Model]
) -> None:
    vocabulary, model = load(name), open_model(name)
    for text in (b"Hello world", b" again  and\n\nagain", "naïve 漢字 👍".encode()):
        assert vocabulary.tokenize(text) == model.tokenize(text)


@pytest.mark.parametrize("name", sorted(ADDS_SPACE))
def test_no_space_is_added_before_a_text(
    name: str, load: Callable[[str], Vocabulary], open_model: Callable[[str], Model]
) -> None:
    """The tokens are those that the model has for the text after something else."""
    vocabulary, model = load(name), open_model(name)
    for text in (b"hello", b" hello", b'"key": 1', "漢字".encode()):
        whole = model.tokenize(b"\n" + text)
        ids = vocabulary.tokenize(text)
        assert joined(vocabulary, ids) == text
        assert whole[-len(ids) :] == ids


def test_special_text_is_spelled_with_plain_tokens(
    load: Callable[[str], Vocabulary], gemma_path: Path
) -> None:
    for vocabulary, text in (
        (load("llama-bpe"), b"a<|end_of_text|>b"),
        (load("gemma-4"), b"a<|tool_call>b<|channel>"),
        (load("command-r"), b"<|USER_TOKEN|>"),
        (Vocabulary.from_gguf(gemma_path), b"<table><start_of_turn>user"),
    ):
        ids = vocabulary.tokenize(text)
        assert joined(vocabulary, ids) == text
        assert not vocabulary.special.intersection(ids)


@pytest.mark.parametrize("name", ["deepseek-coder", "deepseek-llm", "gpt-neox", "llama-spm"])
@pytest.mark.parametrize("text", [b" " * 300_000, b"\n" * 300_000, b"1" * 300_000, b"a" * 300_000])
def test_long_runs_do_not_overflow_the_stack_of_llama_cpp(
    name: str, text: bytes, load: Callable[[str], Vocabulary]
) -> None:
    assert joined(load(name), load(name).tokenize(text)) == text


@given(data=st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
@pytest.mark.parametrize("name", ["llama-spm", "llama-bpe", "gemma-4"])
def test_tokenize_loses_nothing(name: str, data: bytes, load: Callable[[str], Vocabulary]) -> None:
    assert joined(load(name), load(name).tokenize(data)) == data


# --- Self-test ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-spm", "llama-bpe", "gemma-4", "bert-bge"])
def test_self_test_names_a_token_that_differs(name: str, load: Callable[[str], Vocabulary]) -> None:
    sound = load(name)
    tokenizer = sound._tokenizer
    assert tokenizer is not None
    sample = b"hello world again"
    used = tokenizer.round_trip(sample)[0]
    for token in used:
        for wrong in (b"", b"X", sound.tokens[token] + b"!", sound.tokens[token][1:]):
            if token == used[0] and wrong == b"hello":
                continue  # the space that is dropped at the start of a text tells nothing
            tokens = list(sound.tokens)
            tokens[token] = wrong
            broken = Vocabulary(tokens, eog=sound.eog, special=sound.special, tokenizer=tokenizer)
            with pytest.raises(VocabularyError, match="disagrees"):
                broken.self_test([sample])
    tokens = list(sound.tokens)
    tokens[used[-1]] = b" agaim"
    broken = Vocabulary(tokens, eog=sound.eog, special=sound.special, tokenizer=tokenizer)
    with pytest.raises(VocabularyError, match=rf"token {used[-1]} \(b' agaim'\)"):
        broken.self_test([sample])


def test_self_test_finds_a_table_made_with_the_detokenizer(
    load: Callable[[str], Vocabulary], open_model: Callable[[str], Model]
) -> None:
    sound, model = load("llama-spm"), open_model("llama-spm")
    tokens = [model.detokenize([token]) for token in range(len(sound))]
    broken = Vocabulary(tokens, eog=sound.eog, tokenizer=sound._tokenizer)
    with pytest.raises(VocabularyError, match="disagrees"):
        broken.self_test()


def test_self_test_passes_on_sound_vocabularies(
    vocabulary_name: str, load: Callable[[str], Vocabulary]
) -> None:
    load(vocabulary_name).self_test()
    load(vocabulary_name).self_test([b"Another text, isn't it ? ! . , ' s", b" ", b"?", b""])


def test_self_test_without_a_model() -> None:
    Vocabulary.from_tokens([bytes([b]) for b in range(256)]).self_test()
    Vocabulary.from_tokens([b"a"]).self_test([b"aa", b"b"])
    with pytest.raises(TypeError):
        Vocabulary.from_tokens([b"a"]).self_test(["a"])  # type: ignore[list-item]


# --- Caches, ownership, errors --------------------------------------------------------------------


def test_model_and_vocabulary_are_freed_together(vocabulary_dir: Path) -> None:
    model = llama_model(vocabulary_dir / "ggml-vocab-llama-spm.gguf")
    vocabulary = Vocabulary.from_llama(model)
    assert Vocabulary.from_llama(model) is vocabulary
    assert vocabulary.name == "ggml-vocab-llama-spm.gguf"
    seen = weakref.ref(vocabulary)
    model_seen = weakref.ref(model)
    del vocabulary
    gc.collect()
    assert seen() is not None  # as long as the model lives
    del model
    gc.collect()
    assert model_seen() is None
    assert seen() is None


def test_vocabulary_outlives_its_model_but_for_tokenizing(vocabulary_dir: Path) -> None:
    model = llama_model(vocabulary_dir / "ggml-vocab-llama-spm.gguf")
    vocabulary = Vocabulary.from_llama(model)
    assert joined(vocabulary, vocabulary.tokenize(b"hello")) == b"hello"
    model.close()
    assert vocabulary.tokens[22172] == b" hello"
    with pytest.raises(VocabularyError, match="closed"):
        vocabulary.tokenize(b"hello")
    with pytest.raises(VocabularyError, match="closed"):
        vocabulary.self_test()
    with pytest.raises(VocabularyError, match="closed"):
        Vocabulary.from_llama(model)
    del model
    gc.collect()
    with pytest.raises(VocabularyError, match="closed"):
        vocabulary.tokenize(b"hello")


def test_threads_get_the_same_vocabulary(vocabulary_dir: Path) -> None:
    model = llama_model(vocabulary_dir / "ggml-vocab-gpt-2.gguf")
    found: list[Vocabulary] = []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append(Vocabulary.from_llama(model))
        assert joined(found[-1], found[-1].tokenize(b"some text")) == b"some text"

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_llama_and_its_model_have_one_vocabulary(gemma_path: Path) -> None:
    llm = llama_cpp.Llama(str(gemma_path), vocab_only=True, verbose=False)
    try:
        vocabulary = Vocabulary.from_llama(llm)
        assert Vocabulary.from_llama(llm._model) is vocabulary
        assert Vocabulary.from_llama(llm._model.vocab) is vocabulary
        assert len(vocabulary) == llm.n_vocab()
        assert vocabulary.eog == (1, 106, 212)
        assert vocabulary.fingerprint == Vocabulary.from_gguf(gemma_path).fingerprint
    finally:
        llm.close()


def test_address_of_a_vocabulary(open_model: Callable[[str], Model], vocabulary_dir: Path) -> None:
    model = open_model("llama-spm")
    vocabulary = Vocabulary.from_llama(model.vocab)
    assert vocabulary.tokens[22172] == b" hello"
    assert Vocabulary.from_llama(model.vocab) is vocabulary
    assert Vocabulary.from_llama(ctypes.c_void_p(model.vocab)) is vocabulary
    path = vocabulary_dir / "ggml-vocab-llama-spm.gguf"
    assert vocabulary.fingerprint == Vocabulary.from_gguf(path).fingerprint


def test_reading_is_fast(vocabulary_dir: Path) -> None:
    model = llama_model(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")
    begin = time.perf_counter()
    vocabulary = Vocabulary.from_llama(model)
    assert time.perf_counter() - begin < 1.5  # about 0.1 s on an idle machine
    assert len(vocabulary) == 128_256


def test_file_is_read_again_only_when_it_changed(vocabulary_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copyfile(vocabulary_dir / "ggml-vocab-llama-spm.gguf", path)
    first = Vocabulary.from_gguf(path)
    assert Vocabulary.from_gguf(str(path)) is first
    shutil.copyfile(vocabulary_dir / "ggml-vocab-phi-3.gguf", path)
    second = Vocabulary.from_gguf(path)
    assert len(first) == 32_000
    assert len(second) == 32_064
    assert joined(first, first.tokenize(b"hello")) == b"hello"


def test_vocabulary_of_a_file_is_freed(vocabulary_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copyfile(vocabulary_dir / "ggml-vocab-llama-spm.gguf", path)
    vocabulary = Vocabulary.from_gguf(path)
    tokenizer: Any = vocabulary._tokenizer
    owner = weakref.ref(tokenizer._is_open.__self__)
    del vocabulary, tokenizer
    gc.collect()
    assert owner() is None


def test_pickled_vocabulary_of_a_file_is_read_from_it(vocabulary_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copyfile(vocabulary_dir / "ggml-vocab-llama-spm.gguf", path)
    vocabulary = Vocabulary.from_gguf(path)
    pickled = pickle.dumps(vocabulary)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) is vocabulary
    shutil.copyfile(vocabulary_dir / "ggml-vocab-phi-3.gguf", path)
    with pytest.raises(VocabularyError, match="another vocabulary"):
        pickle.loads(pickled)


def test_files_without_a_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Vocabulary.from_gguf(tmp_path / "absent.gguf")
    with pytest.raises(IsADirectoryError):
        Vocabulary.from_gguf(tmp_path)
    for name, content in (("empty", b""), ("text", b"hello"), ("cut", b"GGUF\x03\x00\x00\x00")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(VocabularyError, match=name):
            Vocabulary.from_gguf(tmp_path / name)


@pytest.mark.parametrize("source", [None, "model.gguf", object(), 1.5, True, [1]])
def test_sources_of_other_types_are_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="Llama"):
        Vocabulary.from_llama(source)


def test_null_address_is_refused() -> None:
    for source in (0, ctypes.c_void_p(None)):
        with pytest.raises(VocabularyError, match="NULL"):
            Vocabulary.from_llama(source)


def test_interpreter_ends_well_with_open_vocabularies(vocabulary_dir: Path) -> None:
    path = vocabulary_dir / "ggml-vocab-llama-spm.gguf"
    code = (
        "import sys; from llgx.vocabulary import Vocabulary\n"
        "kept = Vocabulary.from_gguf(sys.argv[1]); kept.tokenize(b'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_samples_cover_what_they_claim() -> None:
    text = b"".join(SELF_TEST_SAMPLES)
    widths = {len(char.encode()) for char in text.decode()}
    assert widths == {1, 2, 3, 4}
    assert any(sample.startswith(b" ") for sample in SELF_TEST_SAMPLES)
    pairs = set(itertools.pairwise(text.decode()))
    assert {(" ", " "), ("\n", "\n"), (" ", "?"), (" ", "'"), ("\t", "\t")} <= pairs


# ------------------------------------------------------------------ grammars it cannot spell

LETTERS = Vocabulary.from_tokens([b"a", b"b", b"<e>"], eog=[2])


@pytest.mark.parametrize("text", ["start: /[0-9]+/", 'start: "é"', 'start: "7" | "8" "a"'])
def test_a_grammar_that_no_token_begins(text: str) -> None:
    """Its masks were empty, and nothing said so."""
    grammar = llgx.Grammar.from_lark(text)
    for _ in range(2):  # nothing of it is kept
        with pytest.raises(VocabularyError, match="after 0 tokens: it cannot spell"):
            grammar.compile(LETTERS)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [('start: "7" | "ab"', [0]), ("start: /[0-9]*/", [2]), ('start: "" | "7"', [2])],
)
def test_a_grammar_that_a_token_begins_or_ends(text: str, allowed: list[int]) -> None:
    compiled = llgx.Grammar.from_lark(text).compile(LETTERS)
    assert llgx.Matcher(compiled).allowed_tokens() == allowed


def test_a_vocabulary_without_an_end_may_be_at_one() -> None:
    letters = Vocabulary.from_tokens([b"a"])
    compiled = llgx.Grammar.from_lark('start: "" | "7"').compile(letters)
    assert llgx.Matcher(compiled).allowed_tokens() == []


def test_a_text_that_comes_to_what_no_token_spells() -> None:
    """Raised by those who sample; a matcher can be asked for other spellings."""
    grammar = llgx.Grammar.from_lark('start: "ab" /[0-9]/')
    message = "after 2 tokens: it cannot spell"

    constraint = llgx.sampler(LETTERS, grammar)
    pointer = constraint.release()
    for token in (0, 1, 2):
        lib.llama_sampler_accept(pointer, token)
    lib.llama_sampler_free(pointer)
    assert isinstance(constraint.error, llgx.TokenRejected)  # nobody asked what is left

    constraint = llgx.sampler(LETTERS, grammar)
    pointer = constraint.release()
    for token in (0, 1, 2):
        data = (lib.llama_token_data * 3)(*(lib.llama_token_data(i, 0.0, 0.0) for i in range(3)))
        array = lib.llama_token_data_array(data, 3, -1, False)
        lib.llama_sampler_apply(pointer, ctypes.byref(array))
        assert (array.size, data[0].id) == (1, token)
        lib.llama_sampler_accept(pointer, token)
    lib.llama_sampler_free(pointer)
    assert isinstance(constraint.error, VocabularyError)
    assert message in str(constraint.error)

    (processor,) = llgx.logits_processors(LETTERS, grammar)
    for ids in ([7], [7, 0], [7, 0, 1]):
        scores = processor(np.array(ids, np.intc), np.zeros(3, np.float32))
    assert list(scores) == [-np.inf, -np.inf, 0]
    with pytest.raises(VocabularyError, match=message):
        processor.raise_if_failed()
