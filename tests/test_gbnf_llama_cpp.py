"""GBNF against llama.cpp itself: its own grammars, and its grammar engine as a second opinion.

Both engines fill masks over a vocabulary of 32,000 tokens along the texts of ``data/gbnf.json`` and
along samples of llama.cpp's grammars. They must be equal but for what ``docs/departures.md`` lists:
special tokens, which are text to llama.cpp, and tokens that end within a character.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, Final

import llama_cpp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prepare_llama_cpp import cache_directory

import llgx
from llgx.gbnf.parser import parse
from llgx.limits import DEFAULT_LIMITS
from tests.campaign import allowed_tokens

Case = dict[str, Any]

CASES: Final[list[Case]] = json.loads(
    (pathlib.Path(__file__).parent / "data" / "gbnf.json").read_text()
)
# A text of each of llama.cpp's grammars, and beginnings of it with something that cannot follow.
SAMPLES: Final[dict[str, tuple[str, list[str]]]] = {
    "arithmetic": ("(x +42) *foo=7\na1 -b2=z \n", ["(x+42)*foo=7", "x=", "1=2\n3", "X=1\n"]),
    "c": (
        "int main(int argc){int x = 1+2;while(x<10){f (x, 2);// é\n}for(int i = 0; i<3; i = i+1){}"
        "if(x==2){return x;}else{/* a * b */}}",
        ["int main(){", "int main(){x=1;}", "char f(){return ;}", "int f(){if(x){}}"],
    ),
    "chess": ("1. e4 e5\n2. Nf3 Nc6\n3. O-O-O axb8=Q+\n", ["1. e4\n", "1. e4 e9\n", "e4"]),
    "english": ("Hello, World! It's 5 o'clock.\nBye", ["Hello  World", "é", " a"]),
    "japanese": ("こんにちは 世界、カタカナ\n日本語", ["hello", "こ  に", " こ"]),
    "json": (
        '{"a": {"b\\n\\u00e9": [1, -2.5e+1, "é", true]}, "c": null}',
        ["[1]", '{"a":01}', '{"a":\t1}', '{"a":"\n"}', '{"a":1,}'],
    ),
    "json_arr": ('[\n{"a": [1, "b"]},\n"x",\ntrue]', ["[1]", "[\n1,2]", "[\n1]\n", "[\n"]),
    "list": ("- first é\n- second\n", ["- \n", "first\n", "- first", "- a\u2028\n"]),
}


@pytest.fixture(scope="session")
def llama_grammars() -> dict[str, str]:
    """The grammars that llama.cpp comes with, from the source distribution of llama-cpp-python."""
    archives = sorted((cache_directory() / "sdists").glob("*.tar.gz"))
    if not archives:
        pytest.fail("no llama-cpp-python source: run `python tools/prepare_llama_cpp.py sdist`")
    found = {}
    with tarfile.open(archives[-1]) as archive:
        for member in archive:
            path = pathlib.PurePosixPath(member.name)
            if path.suffix == ".gbnf" and path.parts[1:-1] == ("vendor", "llama.cpp", "grammars"):
                file = archive.extractfile(member)
                assert file is not None
                found[path.stem] = file.read().decode()
    return found


class _Peer:
    """llama.cpp's grammar engine over one vocabulary."""

    def __init__(self, path: pathlib.Path) -> None:
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.size = llama_cpp.llama_vocab_n_tokens(self._vocab)

    def close(self) -> None:
        llama_cpp.llama_model_free(self._model)

    def walk(self, grammar: str, tokens: list[int]) -> Iterator[set[int]]:
        """The masks before and after each of ``tokens``; none if the grammar is refused."""
        sampler = llama_cpp.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        if not sampler:
            return
        try:
            for token in [*tokens, None]:
                mask = self._mask(sampler)
                yield mask
                if token is None or token not in mask:
                    return
                llama_cpp.llama_sampler_accept(sampler, token)
        finally:
            llama_cpp.llama_sampler_free(sampler)

    def _mask(self, sampler: Any) -> set[int]:
        data = (llama_cpp.llama_token_data * self.size)()
        view = np.ctypeslib.as_array(
            ctypes.cast(data, ctypes.POINTER(ctypes.c_int32)), (self.size, 3)
        )
        view[:, 0] = np.arange(self.size)
        array = llama_cpp.llama_token_data_array(data, self.size, -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        logits = view[:, 1].view(np.float32)
        return set(view[np.isfinite(logits), 0].tolist())


@pytest.fixture(scope="session")
def peer(vocabulary_dir: pathlib.Path) -> Iterator[_Peer]:
    llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
    engine = _Peer(vocabulary_dir / "ggml-vocab-llama-spm.gguf")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def vocabulary(vocabulary_dir: pathlib.Path) -> llgx.Vocabulary:
    return llgx.Vocabulary.from_gguf(vocabulary_dir / "ggml-vocab-llama-spm.gguf")


_SILENT: Final[Callable[..., None]] = llama_cpp.llama_log_callback(lambda *_: None)


def _compare(peer: _Peer, vocabulary: llgx.Vocabulary, grammar: str, text: str) -> int:
    """Compare masks along ``text``, a character a token where the vocabulary allows; how many."""
    by_text = {data: token for token, data in enumerate(vocabulary.tokens) if data}
    tokens = []
    for char in text:
        token = by_text.get(char.encode())
        if token is None or token in vocabulary.special:
            break
        tokens.append(token)
    return _compare_tokens(peer, vocabulary, grammar, tokens)


def _compare_tokens(
    peer: _Peer, vocabulary: llgx.Vocabulary, grammar: str, tokens: list[int]
) -> int:
    """Compare masks along ``tokens``, as far as they are allowed; how many."""
    compiled = llgx.Grammar.from_gbnf(grammar).compile(vocabulary)
    left_out = {
        token
        for token, data in enumerate(vocabulary.tokens)
        if token in vocabulary.special or b"\0" in data or not _is_text(data)
    } - set(vocabulary.eog)
    matcher = llgx.Matcher(compiled)
    count = 0
    for step, mask in enumerate(peer.walk(grammar, tokens)):
        ours = allowed_tokens(matcher, len(vocabulary))
        assert ours - left_out == mask - left_out, (grammar, tokens[:step])
        count += 1
        if step < len(tokens) and tokens[step] in mask:
            matcher.consume(tokens[step])
    return count


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return bool(data)


def test_llama_cpp_has_the_grammars(llama_grammars: dict[str, str]) -> None:
    assert set(llama_grammars) == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_grammars_of_llama_cpp(
    name: str, llama_grammars: dict[str, str], vocabulary: llgx.Vocabulary
) -> None:
    """They accept what they describe, and their Lark text does too."""
    text, others = SAMPLES[name]
    grammar = llama_grammars[name]
    for form in (grammar, llgx.gbnf_to_lark(grammar)):
        compiled = llgx.Grammar.from_string(form).compile(vocabulary)
        for sample, expected in [(text, True), *((other, False) for other in others)]:
            count, complete = llgx.Matcher(compiled).match_bytes(sample.encode())
            assert (count == len(sample.encode()) and complete) == expected, (form, sample)


@pytest.mark.parametrize("name", SAMPLES)
def test_masks_of_llama_cpp_grammars(
    name: str, llama_grammars: dict[str, str], peer: _Peer, vocabulary: llgx.Vocabulary
) -> None:
    text, _ = SAMPLES[name]
    assert _compare(peer, vocabulary, llama_grammars[name], text[:24]) > 4


def test_masks_of_cases(peer: _Peer, vocabulary: llgx.Vocabulary) -> None:
    compared = 0
    for case in CASES:
        if case["id"] in ("bounds beyond llama.cpp", "escaped surrogate pair"):
            continue
        texts = [*case["accept"], *case["reject"]]
        if _compare(peer, vocabulary, case["gbnf"], ""):
            compared += 1
            for text in texts[:2]:
                _compare(peer, vocabulary, case["gbnf"], text[:5])
    assert compared > 60


@pytest.mark.parametrize(
    ("grammar", "tokens"),
    [
        ("root ::= <[1000]> <[1001]>+", [1000, 1001, 1001]),
        ("root ::= <[1000]> !<[1001]>* <[1001]>", [1000, 7, 8, 1001]),
        ('root ::= "a" <[1000]> [b-d] ("e" | <[1001]>)', [29874, 1000, 29883, 1001]),
        ("root ::= ([0-9] <[1000]>)* <[1001]>", [29896, 1000, 29896, 1000, 1001]),
        ("root ::= (<[1000]> | <[1001]> root)?", [1001, 1001, 1000]),
    ],
)
def test_masks_with_tokens(
    grammar: str, tokens: list[int], peer: _Peer, vocabulary: llgx.Vocabulary
) -> None:
    assert _compare_tokens(peer, vocabulary, grammar, tokens) == len(tokens) + 1


_PIECES: Final = [
    "root ::= ", "\nroot ::= ", "\na ::= ", "\r\nb-1 ::= ",
    "root", "a", "b-1", "_", " ", "\t", "\n", "\r",
    '"x"', '""', '"', "[", "]", "[a-z]", "[^", "[]", "-", "^",
    "\\", "\\x4", "\\u00e9", "\\n", "\\q",
    "(", ")", "|", "*", "+", "?", "{", "}", "{2}", "{1,}", "{1,3}", "{,3}", "{0,0}",
    ",", "1", "2000", "9",
    "<", ">", "!", "<[5]>", "<[000000000000005]>", "<[99999999999]>", "<s>", "!<s>", "<>", "<[a]>",
    "# c", "#", ".", ":", "::=", "'", "/", "é", "%",
]  # fmt: skip


@settings(max_examples=1000)
@given(pieces=st.lists(st.sampled_from(_PIECES), min_size=1, max_size=12), is_headed=st.booleans())
def test_what_llgx_cannot_read_llama_cpp_cannot(
    peer: _Peer, pieces: list[str], is_headed: bool
) -> None:
    """So that ``LlamaGrammar.from_string`` may refuse it."""
    text = is_headed * "root ::= " + "".join(pieces)
    try:
        parse(text, DEFAULT_LIMITS)
    except llgx.GrammarError as error:
        # Which llama.cpp would try.
        if "below the lower bound" not in error.message:
            assert not any(True for _ in peer.walk(text, [])), text
    except llgx.LimitError:
        pass


@pytest.mark.parametrize(
    "text",
    [
        'root ::= a\nroot ::= "x"',
        "root ::= <[0000000000000000005]>",
    ],
)
def test_what_llama_cpp_reads_all_the_same(peer: _Peer, text: str) -> None:
    assert any(True for _ in peer.walk(text, []))
    llgx.Grammar.from_gbnf(text)
