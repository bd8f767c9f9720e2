"""Vocabularies from llama.cpp: reading their tokens, tokenizing with them, caching them.

Token bytes are those of ``llama_token_to_piece`` without stripping. Two nearer ways are wrong:
``llama_detokenize`` of one token loses the leading space of half of a SentencePiece vocabulary and
cleans spaces up, and the wrappers of llama-cpp-python lose tokens of more than 32 bytes.

Invariant: no call goes to llama.cpp with a pointer that this module knows to be freed. A
vocabulary of a ``LlamaModel`` refers to it weakly and looks whether it is open before each call;
one of a GGUF file owns what llama.cpp loaded. Only of a bare address nothing is known; its caller
vouches for it.

Cost: reading takes about 0.1 s for 128,000 tokens; results are cached per model, file or address
for as long as something uses them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from llgx.errors import VocabularyError
from llgx.forks import guarded
from llgx.vocabulary import SELF_TEST_SAMPLES, Vocabulary

__all__ = ["LlamaTokenizer", "load_vocabulary", "vocabulary_of"]

_LLAMA_VOCAB_TYPE_NONE: Final = 0

# Texts that a SentencePiece tokenizer splits off as a unit, put before a text to take the space
# that the model adds at the start. The first is what is left over in most vocabularies.
_SENTINELS: Final = (b"\x02", b"\n")

# Reading is done under one lock: two threads that ask for the same model get the same object.
_lock = guarded(threading.RLock())
_by_model: weakref.WeakKeyDictionary[Any, Vocabulary] = weakref.WeakKeyDictionary()
_by_file: weakref.WeakValueDictionary[tuple[str, int, int], Vocabulary] = (
    weakref.WeakValueDictionary()
)
_by_address: weakref.WeakValueDictionary[int, Vocabulary] = weakref.WeakValueDictionary()


class LlamaTokenizer:
    """The tokenizer of one ``llama_vocab``.

    ``is_open`` tells whether the vocabulary may still be used; ``tokens`` are its bytes by id.
    Threads may share it: llama.cpp's tokenizers keep no state between calls.
    """

    __slots__ = ("__weakref__", "_address", "_is_open", "_llama", "_tokens")

    def __init__(self, address: int, tokens: list[bytes], is_open: Callable[[], bool]) -> None:
        self._llama = _llama_cpp()
        self._address = address
        self._tokens = tokens
        self._is_open = is_open

    def tokenize(self, text: bytes) -> list[int]:
        """Tokens of ``text`` as in the middle of a longer one, by ``llama_tokenize``.

        ``text`` is valid UTF-8 without NUL. The tokens may spell something else where the model
        normalises its input. Raises :class:`VocabularyError` where the model is closed.
        """
        ids = self._tokenize(text)
        if self._bytes(ids) == text:
            return ids
        for sentinel in _SENTINELS:
            prefixed = self._tokenize(sentinel + text)
            for end in range(1, len(prefixed)):
                head = self._bytes(prefixed[:end])
                if len(head) > len(sentinel) + 1:
                    break
                if head in (sentinel, b" " + sentinel):
                    if self._bytes(prefixed[end:]) == text:
                        return prefixed[end:]
                    break
        return ids

    def round_trip(self, text: bytes) -> tuple[list[int], bytes]:
        """Tokens of ``text`` as at the start of one, and ``llama_detokenize`` of them.

        Raises :class:`VocabularyError` where the model is closed.
        """
        ids = self._tokenize(text)
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        room = max(1, len(self._bytes(ids)))
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            size = self._llama.llama_detokenize(
                self._address, tokens, len(ids), buffer, room, False, True
            )
            if size >= 0:
                return ids, buffer.raw[:size]
            room = -size
        raise VocabularyError(f"llama_detokenize asks for ever more room for the tokens {ids}")

    def _tokenize(self, text: bytes) -> list[int]:
        if not self._is_open():
            raise VocabularyError("the model of this vocabulary is closed")
        # No text has more tokens than bytes, but for the space that may come first.
        room = len(text) + 16
        for _ in range(2):
            tokens = (ctypes.c_int32 * room)()
            count = self._llama.llama_tokenize(
                self._address, text, len(text), tokens, room, False, False
            )
            if count >= 0:
                return tokens[:count]
            room = -count
        raise VocabularyError(f"llama_tokenize asks for ever more room for {text!r}")

    def _bytes(self, ids: list[int]) -> bytes:
        return b"".join(map(self._tokens.__getitem__, ids))


# No system maps anything below: a number like that is a mistake, and following it ends the process.
_FIRST_PAGES: Final = 65536


def vocabulary_of(source: Any) -> Vocabulary:
    """The vocabulary of a ``Llama``, a ``LlamaModel`` or the address of a ``llama_vocab``.

    See :meth:`llgx.Vocabulary.from_llama`.
    """
    if isinstance(source, ctypes.c_void_p):
        source = source.value or 0
    if isinstance(source, int) and not isinstance(source, bool):
        if 0 < source < _FIRST_PAGES:
            raise TypeError(f"{source} is no address of a llama_vocab")
        return _of_address(source)
    # By their attributes: servers and wrappers subclass and duck-type both classes.
    model = getattr(source, "_model", source)
    if not hasattr(model, "vocab") or not hasattr(model, "model"):
        raise TypeError(
            "a vocabulary comes from a llama_cpp.Llama, its LlamaModel or the address of a "
            f"llama_vocab, not from {type(source).__name__}"
        )
    with _lock:
        # close() leaves the address of the vocabulary behind, but no model.
        if model.model is None:
            raise VocabularyError("the model is closed")
        vocabulary = _by_model.get(model)
        if vocabulary is None:
            open_model = weakref.ref(model)

            def is_open() -> bool:
                model = open_model()
                return model is not None and model.model is not None

            name = Path(getattr(model, "path_model", "")).name
            vocabulary = _read(_address(model.vocab), name, is_open)
            _by_model[model] = vocabulary
        return vocabulary


def load_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """The vocabulary in a GGUF file. See :meth:`llgx.Vocabulary.from_gguf`."""
    resolved = Path(path).resolve()
    # llama.cpp only says that it failed; let the operating system say why where it can.
    with resolved.open("rb") as file:
        magic = file.read(4)
        status = os.fstat(file.fileno())
    if magic != b"GGUF":
        raise VocabularyError(f"{resolved} is no GGUF file")
    key = (str(resolved), status.st_mtime_ns, status.st_size)
    with _lock:
        vocabulary = _by_file.get(key)
        if vocabulary is None:
            vocabulary = _load(resolved)
            _by_file[key] = vocabulary
        return vocabulary


def _load(path: Path) -> Vocabulary:
    llama = _llama_cpp()
    parameters = llama.llama_model_default_params()
    parameters.vocab_only = True
    parameters.n_gpu_layers = 0
    with _quiet():
        model = llama.llama_model_load_from_file(os.fsencode(path), parameters)
    if not model:
        raise VocabularyError(f"llama.cpp finds no vocabulary in {path}")
    owner = _Owner(llama, model)
    return _read(
        _address(llama.llama_model_get_vocab(model)), path.name, owner.is_open, origin=str(path)
    )


class _Owner:
    """Frees a model when the last reference to it goes, the interpreter's end included."""

    __slots__ = ("__weakref__", "_free")

    def __init__(self, llama: Any, model: Any) -> None:
        self._free = weakref.finalize(self, llama.llama_model_free, model)

    def is_open(self) -> bool:
        return self._free.alive


def _of_address(address: int) -> Vocabulary:
    if not address:
        raise VocabularyError("the address of the vocabulary is NULL")
    with _lock:
        for model, vocabulary in _by_model.items():
            if model.model is not None and _address(model.vocab) == address:
                return vocabulary
        # The address says nothing about what is there now; only the content does.
        vocabulary = _read(address, "", lambda: True)
        known = _by_address.get(address)
        if known is not None and known.fingerprint == vocabulary.fingerprint:
            return known
        _by_address[address] = vocabulary
        return vocabulary


def _read(
    address: int, name: str, is_open: Callable[[], bool], *, origin: str | None = None
) -> Vocabulary:
    from llgx.llama import _native

    llama = _llama_cpp()
    # llama.cpp aborts the process when asked for the pieces of a vocabulary that is not there.
    if llama.llama_vocab_type(address) == _LLAMA_VOCAB_TYPE_NONE:
        raise VocabularyError(f"the model {name} has no vocabulary")
    tokens, special, eog = _native.read_tokens(
        address,
        llama.llama_vocab_n_tokens(address),
        token_to_piece=_address(llama.llama_token_to_piece),
        get_attr=_address(llama.llama_vocab_get_attr),
        get_text=_address(llama.llama_vocab_get_text),
        is_eog=_address(llama.llama_vocab_is_eog),
    )
    vocabulary = Vocabulary(
        tokens,
        eog=eog,
        special=special,
        name=name,
        tokenizer=LlamaTokenizer(address, tokens, is_open),
        origin=origin,
    )
    vocabulary.self_test(SELF_TEST_SAMPLES)
    return vocabulary


def _address(pointer: Any) -> int:
    """The address in a pointer or function of ctypes, or the integer itself."""
    if isinstance(pointer, int):
        return pointer
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _llama_cpp() -> Any:
    try:
        from llama_cpp import llama_cpp
    except ImportError as error:
        raise ImportError(
            "this needs llama-cpp-python 0.3.8 or later: pip install llama-cpp-python"
        ) from error
    return llama_cpp


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep llama.cpp's account of the loading off stderr, unless logging has been set up."""
    logger = logging.getLogger("llama-cpp-python")
    if logger.level != logging.NOTSET:
        yield
        return
    # llama-cpp-python prints everything as long as no model has set the level, and takes warnings
    # of llama.cpp for errors.
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)
