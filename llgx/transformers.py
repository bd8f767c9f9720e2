"""Grammars for Hugging Face transformers and other hosts with PyTorch logits.

:class:`LogitsProcessor` goes into ``model.generate(logits_processor=[...])``. Nothing of
transformers or PyTorch is imported: tensors are used by their methods, so versions do not matter
and a host that calls it in the same way may be another library.

transformers tells a processor neither when a token was chosen nor, in a beam search, which row came
from which. So a row is known by what it has generated: the matcher of the row that this continues
by one token is taken further. Matchers share all that is computed; following one costs a copy of
its steps.

Invariant: after a call each row has a finite score, and only for tokens that its grammar allows.
Cost per row: the matcher's mask, and a pass over the vocabulary for the transfer (about 0.1 ms for
128,000 tokens on a CPU); comparing what was generated is linear in its length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.arguments import check_list
from llgx.bitmask import allocate_token_bitmask
from llgx.errors import LlgxError, VocabularyError
from llgx.grammar import Grammar
from llgx.vocabulary import Vocabulary

__all__ = ["LogitsProcessor", "vocabulary_of"]


class LogitsProcessor:
    """Masks the scores of a batch, each row by its own grammar.

    ``vocabulary`` is a :class:`llgx.Vocabulary` or a tokenizer of transformers
    (:func:`vocabulary_of`). ``grammars`` is one grammar for all rows, or one for each prompt; None
    leaves its rows free. With beams or several returned sequences a prompt has several rows, next
    to one another, as transformers lays them out.

    One object serves one ``generate`` at a time; it begins anew with other prompts, and with
    :meth:`reset`, which is needed where a prompt is the last one and one token more. A row that has
    ended is left to the host, which pads it.

    Raises what compiling raises, and :class:`VocabularyError` for a vocabulary without
    end-of-generation token or a grammar compiled for another one.
    """

    def __init__(
        self,
        vocabulary: Any,
        grammars: Grammar | CompiledGrammar | Sequence[Grammar | CompiledGrammar | None],
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            vocabulary = vocabulary_of(vocabulary)
        if not vocabulary.eog:
            raise VocabularyError(
                f"{vocabulary!r} has no end-of-generation token, so that a text could not end"
            )
        self._vocabulary: Vocabulary = vocabulary
        if isinstance(grammars, (Grammar, CompiledGrammar)):
            self._is_shared = True
            self._compiled: list[CompiledGrammar | None] = [self._compile(grammars)]
        else:
            self._is_shared = False
            check_list(grammars, "grammars", "grammars, one for each prompt")
            self._compiled = [None if g is None else self._compile(g) for g in grammars]
            if not self._compiled:
                raise ValueError("there is no grammar for any row")
        self._prompt = 0  # tokens of the prompt, padding included
        self._prompts: Any = None  # the tokens at the first call
        self._length = -1  # of the rows at the last call; below 0 before the first
        # By prompt and generated tokens: what the last call has seen.
        self._matchers: dict[tuple[int, tuple[int, ...]], Matcher] = {}

    def reset(self) -> None:
        """Make the next call begin a new generation."""
        self._length = -1

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """``scores`` with -inf for the tokens that are not allowed: a new tensor.

        ``input_ids`` are the tokens so far, (rows, length); ``scores`` (rows, tokens), of any
        floating type and device. Raises :class:`TokenRejected` where a row holds a token that its
        grammar does not allow, ``ValueError`` for a number of rows that does not fit.
        """
        rows, length = (int(size) for size in input_ids.shape)
        if int(scores.shape[0]) != rows:
            raise ValueError(f"{rows} rows of tokens, but scores of shape {tuple(scores.shape)}")
        if not self._goes_on(input_ids, rows, length):
            self._prompt = length
            self._prompts = input_ids
            self._matchers = {}
        generated = input_ids[:, self._prompt :].tolist()
        size = int(scores.shape[1])
        allowed = self._allowed(generated, rows, size)
        self._length = length
        return scores.masked_fill(
            scores.new_tensor(~allowed, dtype=_bool_of(scores)), float("-inf")
        )

    def _goes_on(self, input_ids: Any, rows: int, length: int) -> bool:
        """Whether this is the next call of the generation at hand, by its prompts."""
        if self._length < 0 or length != self._length + 1 or rows != int(self._prompts.shape[0]):
            return False
        return bool((input_ids[:, : self._prompt] == self._prompts).all())

    def _allowed(self, generated: list[list[int]], rows: int, size: int) -> NDArray[np.bool_]:
        """Which tokens may come next, (rows, size)."""
        if size < len(self._vocabulary):
            raise ValueError(f"scores of {size} tokens for a vocabulary of {len(self._vocabulary)}")
        mask = allocate_token_bitmask(rows, len(self._vocabulary))
        allowed = np.ones((rows, size), dtype=np.bool_)
        matchers: dict[tuple[int, tuple[int, ...]], Matcher] = {}
        for row, tokens in enumerate(generated):
            prompt = self._prompt_of(row, rows)
            compiled = self._compiled[prompt]
            if compiled is None:
                continue
            matcher = self._follow(prompt, compiled, tuple(tokens))
            matchers[prompt, tuple(tokens)] = matcher
            if matcher.stop_reason == "eog":
                continue  # ended: what the host writes there is padding
            matcher.fill_bitmask(mask, row)
            if not mask[row].any():
                matcher._raise_if_stuck()
            bits = np.unpackbits(mask[row].view(np.uint8), bitorder="little")
            allowed[row] = False
            allowed[row, : len(self._vocabulary)] = bits[: len(self._vocabulary)]
        self._matchers = matchers
        return allowed

    def _follow(self, prompt: int, compiled: CompiledGrammar, tokens: tuple[int, ...]) -> Matcher:
        if not tokens:
            return Matcher(compiled)
        before = self._matchers.get((prompt, tokens[:-1]))
        if before is None:
            raise LlgxError(
                "a row does not continue any row of the last call by one token; call reset() "
                "before another generation"
            )
        matcher = before.copy()
        if matcher.stop_reason != "eog":
            matcher.consume(tokens[-1])
        return matcher

    def _prompt_of(self, row: int, rows: int) -> int:
        if self._is_shared:
            return 0
        count = len(self._compiled)
        if rows % count:
            raise ValueError(f"{rows} rows for {count} grammars")
        return row // (rows // count)

    def _compile(self, grammar: Grammar | CompiledGrammar) -> CompiledGrammar:
        if isinstance(grammar, Grammar):
            return grammar.compile(self._vocabulary)
        if not isinstance(grammar, CompiledGrammar):
            raise TypeError(f"not a grammar: {type(grammar).__name__}")
        other: Vocabulary = grammar.vocabulary
        if other is not self._vocabulary and other.fingerprint != self._vocabulary.fingerprint:
            raise VocabularyError(
                f"the grammar is compiled for {other!r}, not for {self._vocabulary!r}"
            )
        return grammar


def _bool_of(scores: Any) -> Any:
    """PyTorch's type of truth values, without importing PyTorch."""
    return (scores[:0] == scores[:0]).dtype


# ------------------------------------------------------------------------------ vocabularies


def vocabulary_of(
    tokenizer: Any, *, eog: int | Sequence[int] | None = None, size: int | None = None
) -> Vocabulary:
    """The vocabulary of a fast tokenizer of transformers, or of a ``tokenizers.Tokenizer``.

    Token bytes are read off the tokenizer's own description of how it decodes: byte-level BPE
    (GPT-2, Llama 3, Qwen, …), and SentencePiece with ``▁`` for a space and ``<0x0A>`` for a byte
    (Llama 2, Gemma, …). Added tokens that are special, and ids that no token has, stand for no
    text. ``eog`` are the end-of-generation tokens, ``tokenizer.eos_token_id`` if not given (the
    model's generation config may have more); ``size`` is the number of scores of the model, where
    that is larger than the vocabulary.

    Raises :class:`VocabularyError` for a tokenizer that decodes in another way.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise VocabularyError(
            f"{type(tokenizer).__name__} has no backend_tokenizer: slow tokenizers do not say how "
            "they decode; use AutoTokenizer with use_fast=True, or Vocabulary.from_tokens"
        )
    described = json.loads(backend.to_str())
    names = [decoder["type"] for decoder in _flat(described.get("decoder"), "decoders")]
    pieces: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    added = {token["id"]: token for token in described.get("added_tokens") or ()}
    count = max(max(pieces.values(), default=-1) + 1, size or 0)
    if "ByteLevel" in names:
        decode = _byte_level
    elif "ByteFallback" in names or "Metaspace" in names:
        decode = _sentencepiece
    else:
        raise VocabularyError(
            f"tokenizers that decode by {names or 'nothing'} are not known; "
            "use Vocabulary.from_tokens"
        )
    tokens = [b""] * count
    for piece, token in pieces.items():
        tokens[token] = piece.encode() if token in added else decode(piece)
    special = [token for token, entry in added.items() if entry["special"]]
    if eog is None:
        eog = getattr(tokenizer, "eos_token_id", None)
    return Vocabulary.from_tokens(
        tokens,
        eog=() if eog is None else eog,
        special=special,
        name=str(getattr(tokenizer, "name_or_path", "")),
    )


def _flat(described: Any, key: str) -> list[dict[str, Any]]:
    """The parts of a sequence of decoders, or the one decoder that there is."""
    if not described:
        return []
    if described["type"] != "Sequence":
        return [described]
    return [part for inner in described[key] for part in _flat(inner, key)]


def _bytes_of_characters() -> dict[str, int]:
    """GPT-2's characters for bytes: those that print stand for themselves, the others for the
    characters from 256 on, in order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {chr(byte): byte for byte in plain}
    table.update({chr(256 + at): byte for at, byte in enumerate(others)})
    return table


_BYTES: Final = _bytes_of_characters()


def _byte_level(piece: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in piece)
    except KeyError:
        return piece.encode()  # no piece of the byte alphabet: it stands for itself


def _sentencepiece(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes((int(piece[3:5], 16),))
        except ValueError:
            pass
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()
