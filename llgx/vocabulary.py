"""Vocabularies: which bytes each token stands for, and which tokens are no text at all.

A :class:`Vocabulary` is the table that masks are computed over. It comes from a model in
llama-cpp-python, from a GGUF file, or from a list of byte strings; this module needs only the last
and imports without llama-cpp-python.

Invariants. ``tokens[i]`` are exactly the bytes that token ``i`` adds to the text, wherever it
stands: no leading space lost, no clean-up of spaces. Tokens need be neither valid UTF-8 nor
distinct nor non-empty. Special tokens keep their text in the table, but they, end-of-generation
tokens and empty tokens never match text; :attr:`Vocabulary.trie` leaves them out and
:meth:`Vocabulary.tokenize` never returns them. A vocabulary does not change once it is made, so
threads may share it.

Cost: one pass over the tokens to check them; the trie, the spelling table and the fingerprint are
made on first use.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import operator
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from llgx.arguments import check_list
from llgx.errors import VocabularyError
from llgx.forks import guarded

if TYPE_CHECKING:
    from llgx._trie import TokenTrie

__all__ = ["SELF_TEST_SAMPLES", "Tokenizer", "Vocabulary"]

# What tokenizers treat differently from one another: words at the start of a text and after a
# space, runs of spaces, tabs and newlines, digits, punctuation after a space (some models clean
# that up), code, and characters of two, three and four bytes, of which vocabularies often hold
# only parts.
SELF_TEST_SAMPLES: Final[tuple[bytes, ...]] = tuple(
    sample.encode()
    for sample in (
        "Hello world",
        " Hello  world   again",
        "The quick brown fox isn't here, is it ? No ! It 's gone .",
        "    def f(x):\n\treturn [x ** 2, {'a': 1}]  # done\n\n\n",
        '{"name": "O\\"Neil", "age": 42, "tags": ["a", "b"], "x": -1.5e+10, "n": null}',
        "\n\n  \n\t\t\r\n",
        "1234567890 3.14159 0xFF",
        "naïve café Straße Ελλάδα Привет",
        "漢字とかな 한국어 中文。",
        "👍🏽 👩‍👩‍👧 😀🇫🇷",
        "</html><b>&amp;</b>",
    )
)

# Well-formed UTF-8 (Unicode, table 3-7) without NUL: what a tokenizer that takes text may be given.
# The bound is for the memory of `re`, which keeps a frame for each repetition.
_TEXT_RUN: Final = re.compile(
    rb"(?:[\x01-\x7f]|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}){1,65536}"
)

# A tokenizer is given no more than this at a time. llama.cpp splits words with std::regex for many
# models, whose recursion overflows the stack of a thread on runs of some ten thousand characters.
_CHUNK: Final = 4096


class Tokenizer(Protocol):
    """The canonical tokenizer behind a vocabulary, if there is one."""

    def tokenize(self, text: bytes) -> list[int]:
        """Tokens of UTF-8 ``text`` as the model was trained on it, in the middle of a text.

        Their bytes need not spell ``text``: some tokenizers normalise. The caller compares.
        Raises :class:`VocabularyError` where the model is gone.
        """

    def round_trip(self, text: bytes) -> tuple[list[int], bytes]:
        """Tokens of ``text`` at the start of a text, and what the model's own detokenizer makes
        of them in one go."""


class Vocabulary:
    """The tokens of a model as bytes.

    ``tokens``   bytes of each token, by id; treat it as read-only.
    ``special``  ids that stand for no text: control tokens, unknown and unused ones.
    ``eog``      end-of-generation ids, sorted: each of them ends a generation.
    ``name``     what to call it in messages.

    Compares by identity; use :attr:`fingerprint` to compare content. Copies are the object itself.
    """

    __slots__ = (
        "__weakref__",
        "_all_spelled",
        "_excluded_ids",
        "_fingerprint",
        "_kept",
        "_lock",
        "_origin",
        "_speller",
        "_tokenizer",
        "_trie",
        "eog",
        "name",
        "special",
        "tokens",
    )

    def __init__(
        self,
        tokens: Iterable[bytes],
        *,
        eog: int | Iterable[int] = (),
        special: Iterable[int] = (),
        name: str = "",
        tokenizer: Tokenizer | None = None,
        origin: str | None = None,
    ) -> None:
        """Check and keep the table. See :meth:`from_tokens`, which is the way to call this.

        ``origin`` is a GGUF file that :meth:`from_gguf` can read the same vocabulary from again:
        pickling then stores its path in place of the table.
        """
        self.tokens: list[bytes] = _checked_tokens(tokens)
        self.eog: tuple[int, ...] = tuple(
            sorted(_checked_ids("eog", (eog,) if isinstance(eog, int) else eog, len(self.tokens)))
        )
        self.special: frozenset[int] = _checked_ids("special", special, len(self.tokens))
        self.name = name
        self._tokenizer = tokenizer
        self._origin = origin
        # Reentrant: making the trie may ask for what the same lock guards.
        self._lock = guarded(threading.RLock())
        self._excluded_ids: frozenset[int] | None = None
        self._trie: TokenTrie | None = None
        self._speller: _Speller | None = None
        self._all_spelled: bool | None = None
        self._fingerprint = ""
        # By makers. The library's WeakKeyDictionary runs Python code for each of its methods, and
        # each grammar that is compiled comes here.
        self._kept: dict[weakref.ref[Any], dict[Any, Any]] = {}

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_tokens(
        cls,
        tokens: Iterable[bytes],
        *,
        eog: int | Iterable[int] = (),
        special: Iterable[int] = (),
        name: str = "",
    ) -> Vocabulary:
        """A vocabulary from the bytes of each token, by id.

        Raises :class:`TypeError` where a token is not ``bytes`` or an id not an integer, and
        :class:`VocabularyError` for an empty list or an id out of range. Its :meth:`tokenize` is
        greedy. Cost: one pass.
        """
        return cls(tokens, eog=eog, special=special, name=name)

    @classmethod
    def from_llama(cls, llm: Any) -> Vocabulary:
        """The vocabulary of a ``llama_cpp.Llama``, or of the ``LlamaModel`` inside it.

        An integer is taken for the address of a ``llama_vocab``, as llama.cpp's own functions take
        it; it must stay valid while the result is used. Cached per model for as long as that
        lives, and safe to call from several threads. The vocabulary does not keep the model alive:
        :meth:`tokenize` raises :class:`VocabularyError` once it is closed, all else goes on
        working.

        Raises :class:`VocabularyError` for a closed model, for one without vocabulary and for one
        that fails :meth:`self_test`; :class:`TypeError` for anything else. Cost: about 0.1 s for
        128,000 tokens the first time, then a look-up.
        """
        from llgx.llama.tokenizer import vocabulary_of

        return vocabulary_of(llm)

    @classmethod
    def from_gguf(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """The vocabulary in a GGUF file, read through llama-cpp-python without the weights.

        What llama.cpp loads is kept for :meth:`tokenize` and freed with the vocabulary. While one
        of an unchanged file (path, time and size) is alive, it is returned again.

        Raises :class:`OSError` where the file cannot be read and :class:`VocabularyError` where
        llama.cpp finds no vocabulary in it or the result fails :meth:`self_test`. Cost: about one
        second for 262,144 tokens, most of it in llama.cpp.
        """
        from llgx.llama.tokenizer import load_vocabulary

        return load_vocabulary(path)

    # ------------------------------------------------------------------ the table

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return (
            f"<Vocabulary {name}{len(self.tokens):,} tokens, {len(self.special):,} special, "
            f"end of generation {self.eog}>"
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the content (tokens, special and end-of-generation ids), stable everywhere.

        SHA-256 in hexadecimal. Cost: some 10 ms for 128,000 tokens once, then nothing.
        """
        if not self._fingerprint:
            digest = hashlib.sha256(b"llgx vocabulary 1\n")
            # Lengths first: the same bytes cut elsewhere are another vocabulary.
            for numbers in (map(len, self.tokens), sorted(self.special), self.eog):
                digest.update(",".join(map(str, numbers)).encode() + b"\n")
            digest.update(b"".join(self.tokens))
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    @property
    def trie(self) -> TokenTrie:
        """The trie over the tokens that are text. Made once, on first use, about 20 ms for
        128,000 tokens."""
        with self._lock:
            if self._trie is None:
                from llgx._trie import TokenTrie

                self._trie = TokenTrie(self.tokens, self._excluded())
            return self._trie

    def kept_for(self, maker: object) -> dict[Any, Any]:
        """What ``maker`` (a grammar, say) has made for this vocabulary and wants to find again.

        The dictionary is the maker's to fill. It goes when the maker or the vocabulary does.
        """
        with self._lock:
            found = self._kept.get(weakref.ref(maker))
            if found is None:
                found = self._kept[weakref.ref(maker, self._kept.pop)] = {}
            return found

    def _excluded(self) -> frozenset[int]:
        """Ids that never match text."""
        if self._excluded_ids is None:
            empty = (token for token, text in enumerate(self.tokens) if not text)
            self._excluded_ids = self.special.union(self.eog, empty)
        return self._excluded_ids

    def _spells_all(self) -> bool:
        """Whether any bytes can be spelled: each byte is a token of its own. Linear once."""
        if self._all_spelled is None:
            excluded = self._excluded()
            single = {
                text
                for token, text in enumerate(self.tokens)
                if len(text) == 1 and token not in excluded
            }
            self._all_spelled = len(single) == 256
        return self._all_spelled

    # ------------------------------------------------------------------ text to tokens

    def tokenize(self, data: bytes) -> list[int]:
        """Tokens that spell exactly ``data``, none of them special.

        Where there is a model, as its tokenizer splits such text in the middle of a longer one;
        where it would change the text or use a special token, for invalid UTF-8 and for NUL
        characters, and always without a model: the longest token that fits, from left to right,
        and another split only where that leads nowhere.

        Raises :class:`VocabularyError` for bytes that no tokens spell and for a closed model.
        Cost: linear in ``data``.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"tokenize takes bytes, not {type(data).__name__}")
        data = bytes(data)
        if self._tokenizer is None or not data:
            return self._spell(data)
        result: list[int] = []
        for text, is_text in _text_runs(data):
            result += self._tokenize_text(self._tokenizer, text) if is_text else self._spell(text)
        return result

    def _tokenize_text(self, tokenizer: Tokenizer, text: bytes) -> list[int]:
        result: list[int] = []
        excluded = self._excluded()
        for chunk in _chunks(text):
            ids = tokenizer.tokenize(chunk)
            if b"".join(map(self.tokens.__getitem__, ids)) != chunk:
                result += self._spell(chunk)
                continue
            for token in ids:
                # llama.cpp finds user-defined tokens in plain text too; those that are special
                # here may not stand for it.
                if token in excluded:
                    result += self._spell(self.tokens[token])
                else:
                    result.append(token)
        return result

    def _spell(self, data: bytes) -> list[int]:
        with self._lock:
            if self._speller is None:
                self._speller = _Speller(self.tokens, self._excluded())
            speller = self._speller
        return speller.spell(data)

    # ------------------------------------------------------------------ checks

    def self_test(self, samples: Iterable[bytes] | None = None) -> None:
        """Compare the table with the model's own tokenizer and detokenizer on sample texts.

        ``samples`` are UTF-8 texts without NUL, :data:`SELF_TEST_SAMPLES` by default. Each is
        tokenized by the model and the tokens are turned back by the model in one go; the table
        must give the same bytes, but for spaces that detokenizers are known to drop: one at the
        start, and those around punctuation. Then :meth:`tokenize` must spell each sample again.
        Raises :class:`VocabularyError` that names the first token that differs. Cost: below a
        millisecond for the default samples.
        """
        samples = SELF_TEST_SAMPLES if samples is None else samples
        for sample in check_list(samples, "samples", "UTF-8 texts"):
            if not isinstance(sample, bytes):
                raise TypeError(f"samples are bytes, not {type(sample).__name__}")
            if self._tokenizer is not None:
                self._compare(sample, *self._tokenizer.round_trip(sample))
            # A vocabulary that cannot spell the sample is sound: bytes may be missing in it.
            with contextlib.suppress(_NoSpelling):
                ids = self.tokenize(sample)
                if b"".join(map(self.tokens.__getitem__, ids)) != sample:
                    raise VocabularyError(f"{self!r}: tokenize({sample!r}) gives {ids}")

    def _compare(self, sample: bytes, ids: Sequence[int], expected: bytes) -> None:
        table = b"".join(map(self.tokens.__getitem__, ids))
        offset = _first_difference(table, expected)
        if offset is None:
            return
        ends = itertools.accumulate(len(self.tokens[token]) for token in ids)
        token = next((t for t, end in zip(ids, ends, strict=True) if offset < end), None)
        where = "the end" if token is None else f"token {token} ({self.tokens[token]!r})"
        raise VocabularyError(
            f"{self!r} disagrees with its model at {where} in {sample!r}: "
            f"the table gives {table!r}, the model {expected!r}"
        )

    # ------------------------------------------------------------------ copies

    def __copy__(self) -> Vocabulary:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Vocabulary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of a GGUF file with the fingerprint, or else the table.

        Without its model a vocabulary tokenizes greedily.
        """
        if self._origin is not None:
            return _reload, (self._origin, self.fingerprint)
        return _rebuild, (self.tokens, self.eog, sorted(self.special), self.name)


def _reload(path: str, fingerprint: str) -> Vocabulary:
    vocabulary = Vocabulary.from_gguf(path)
    if vocabulary.fingerprint != fingerprint:
        raise VocabularyError(f"{path} holds another vocabulary than when this was pickled")
    return vocabulary


def _rebuild(
    tokens: list[bytes], eog: tuple[int, ...], special: list[int], name: str
) -> Vocabulary:
    return Vocabulary(tokens, eog=eog, special=special, name=name)


def _checked_tokens(tokens: Iterable[bytes]) -> list[bytes]:
    checked = list(check_list(tokens, "tokens", "bytes, by token id"))
    if not checked:
        raise VocabularyError("a vocabulary needs at least one token")
    for token, text in enumerate(checked):
        # Exactly bytes: the kernels read the object's memory, and a bytearray could change.
        if type(text) is not bytes:
            raise TypeError(f"token {token} is {type(text).__name__}, not bytes: {text!r}")
    return checked


def _checked_ids(what: str, ids: Iterable[int], count: int) -> frozenset[int]:
    checked = frozenset(map(operator.index, check_list(ids, what, "token ids")))
    for token in checked:
        if not 0 <= token < count:
            raise VocabularyError(f"{what} has id {token}, but the ids are 0 to {count - 1}")
    return checked


def _text_runs(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """``data`` cut into runs that are text (valid UTF-8 without NUL) and runs that are not."""
    position = 0
    for match in _TEXT_RUN.finditer(data):
        if match.start() > position:
            yield data[position : match.start()], False
        yield match[0], True
        position = match.end()
    if position < len(data):
        yield data[position:], False


def _chunks(text: bytes) -> Iterator[bytes]:
    """UTF-8 ``text`` in pieces of bounded size, cut before a space where there is one."""
    position = 0
    while len(text) - position > _CHUNK:
        # Tokenizers begin a word with its space, so a cut there changes the fewest tokens.
        cut = text.rfind(b" ", position + _CHUNK // 2, position + _CHUNK)
        if cut < 0:
            cut = position + _CHUNK
            while text[cut] & 0xC0 == 0x80:
                cut -= 1
        yield text[position:cut]
        position = cut
    yield text[position:]


def _first_difference(table: bytes, expected: bytes) -> int | None:
    """Offset in ``table`` where ``expected`` is not ``table`` with some spaces left out, or None.

    Spaces may be missing where llama.cpp's detokenizer drops them: one at the very start, and any
    next to one of ``?!.,'``.
    """
    offset = _first_difference_inside(table, expected)
    if offset is not None and table.startswith(b" "):
        # The space that the model puts before a text.
        after = _first_difference_inside(table[1:], expected)
        return None if after is None else max(offset, after + 1)
    return offset


def _first_difference_inside(table: bytes, expected: bytes) -> int | None:
    at = 0
    for offset, byte in enumerate(table):
        if at < len(expected) and expected[at] == byte:
            at += 1
        elif byte != 0x20 or (
            table[offset - 1 : offset] != b"'" and table[offset + 1 : offset + 2] not in _CLEANED
        ):
            return offset
    return None if at == len(expected) else len(table)


_CLEANED: Final = frozenset((b"?", b"!", b".", b",", b"'"))


class _NoSpelling(VocabularyError):
    """No tokens spell the bytes."""


class _Speller:
    """Spells bytes with the longest token that fits, from left to right.

    Of tokens with the same bytes it takes the one with the lowest id.
    """

    __slots__ = ("_ids", "_lengths")

    def __init__(self, tokens: Sequence[bytes], excluded: frozenset[int]) -> None:
        self._ids: dict[bytes, int] = {}
        lengths: list[set[int]] = [set() for _ in range(256)]
        for token, text in enumerate(tokens):
            if token not in excluded:
                self._ids.setdefault(text, token)
                lengths[text[0]].add(len(text))
        # By first byte: few tokens are long, and most first bytes begin no long token.
        self._lengths = [sorted(found, reverse=True) for found in lengths]

    def spell(self, data: bytes) -> list[int]:
        """Token ids whose bytes are ``data``; raises :class:`VocabularyError` if there are none."""
        result: list[int] = []
        position = 0
        while position < len(data):
            for length in self._lengths[data[position]]:
                token = self._ids.get(data[position : position + length])
                if token is not None:
                    result.append(token)
                    position += len(data[position : position + length])
                    break
            else:
                return self._spell_exactly(data)
        return result

    def _spell_exactly(self, data: bytes) -> list[int]:
        """As :meth:`spell`, for where greed fails: which suffixes have a spelling, from the right,
        then the longest token whose rest has one."""
        best = [0] * len(data) + [-1]  # length of the token to take; 0 where there is none
        for position in reversed(range(len(data))):
            for length in self._lengths[data[position]]:
                end = position + length
                if end <= len(data) and best[end] and data[position:end] in self._ids:
                    best[position] = length
                    break
        if not best[0]:
            raise self._failure(data)
        result: list[int] = []
        position = 0
        while position < len(data):
            end = position + best[position]
            result.append(self._ids[data[position:end]])
            position = end
        return result

    def _failure(self, data: bytes) -> _NoSpelling:
        """The error for ``data``, at the first byte that no spelling of what is before reaches."""
        reached = {0}
        furthest = 0
        for position in range(len(data)):
            if position in reached:
                furthest = position
                for length in self._lengths[data[position]]:
                    if data[position : position + length] in self._ids:
                        reached.add(min(position + length, len(data)))
        excerpt = data[furthest : furthest + 16]
        return _NoSpelling(f"no tokens spell the bytes {excerpt!r} at offset {furthest}")
