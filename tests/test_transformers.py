"""``llgx.transformers``: batches, beams and vocabularies.

A tiny random model writes the texts. With PyTorch the scores are tensors of its; without (it is
900 MB, and set-up leaves it out: ``pip install torch tokenizers``) those tests are skipped, and the
same loops run on a stand-in for tensors that has the few methods the processor may call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import llgx
from llgx.transformers import LogitsProcessor, vocabulary_of

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

EOS = 256
PAD = 257
SIZE = 264  # scores beyond the vocabulary, as models pad them
VOCABULARY = llgx.Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"<eos>", b"<pad>", b"ab", b'{"', b"12"],
    eog=[EOS],
    special=[EOS, PAD],
)
DIGITS = llgx.Grammar.from_lark("start: /[0-9]{2,6}/")
WORD = llgx.Grammar.from_lark('start: "<" /[a-c]{1,5}/ ">"')
LIST = llgx.Grammar.from_lark('start: %json {"type": "array", "items": {"enum": [1, 2]}}')


class Tensor:
    """What the processor uses of a tensor, on NumPy."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    @property
    def shape(self) -> Any:
        return self.values.shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.values[key])

    def __eq__(self, other: object) -> Any:
        assert isinstance(other, Tensor)
        return Tensor(self.values == other.values)

    __hash__ = None  # type: ignore[assignment]

    def all(self) -> Any:
        return self.values.all()

    def tolist(self) -> Any:
        return self.values.tolist()

    def new_tensor(self, values: Any, dtype: Any) -> Tensor:
        return Tensor(np.array(values, dtype=dtype))

    def masked_fill(self, mask: Tensor, value: float) -> Tensor:
        assert mask.dtype == np.bool_
        return Tensor(np.where(mask.values, self.values.dtype.type(value), self.values))


def _with_torch(values: Any) -> Any:
    return torch.tensor(np.asarray(values))


needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed: pip install torch tokenizers"
)
MAKERS = [
    pytest.param(Tensor, id="stand-in"),
    pytest.param(_with_torch, id="torch", marks=needs_torch),
]


class TinyModel:
    """Random scores that depend on the last two tokens."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.embedding = random.normal(size=(SIZE, 8)).astype(np.float32)
        self.head = random.normal(size=(16, SIZE)).astype(np.float32)

    def scores(self, ids: Any) -> Any:
        hidden = np.concatenate([self.embedding[ids[:, -2]], self.embedding[ids[:, -1]]], axis=1)
        return np.tanh(hidden) @ self.head


def numbers(tensor: Any) -> Any:
    return tensor.values if isinstance(tensor, Tensor) else tensor.float().numpy()


def generate(
    processor: Any, prompts: Any, steps: int, make: Callable[[Any], Any], seed: int = 0
) -> list[list[int]]:
    """As ``model.generate`` does: greedy, left-padded prompts, rows that ended are padded."""
    model = TinyModel(seed)
    ids = np.array(prompts)
    begin = ids.shape[1]
    running = np.ones(len(ids), dtype=bool)
    for _ in range(steps):
        raw = model.scores(ids)
        given = make(raw)
        scores = numbers(processor(make(ids), given))
        assert np.array_equal(numbers(given), raw), "the scores of the model are not written to"
        assert np.isfinite(scores).any(axis=1).all()
        chosen = np.where(running, scores.argmax(axis=1), PAD)
        ids = np.concatenate([ids, chosen[:, np.newaxis]], axis=1)
        running &= chosen != EOS
        if not running.any():
            break
    return [row.tolist() for row in ids[:, begin:]]


def text(tokens: list[int]) -> str:
    kept = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
    return b"".join(VOCABULARY.tokens[token] for token in kept).decode()


PROMPTS = [[PAD, PAD, 1, 2], [PAD, 3, 4, 5], [6, 7, 8, 9]]


@pytest.mark.parametrize("make", MAKERS)
def test_a_batch_with_one_grammar(make: Any) -> None:
    ended = set()
    for seed in range(8):
        rows = generate(LogitsProcessor(VOCABULARY, DIGITS), PROMPTS, 12, make, seed)
        assert len(rows) == 3
        for row in rows:
            assert re.fullmatch("[0-9]{2,6}", text(row))
            assert EOS in row
            ended.add(row.index(EOS))
    # Rows of one batch ended at different lengths.
    assert len(ended) > 1


@pytest.mark.parametrize("make", MAKERS)
def test_a_grammar_for_each_row(make: Any) -> None:
    processor = LogitsProcessor(VOCABULARY, [DIGITS, None, WORD.compile(VOCABULARY)])
    rows = generate(processor, PROMPTS, 12, make)
    assert re.fullmatch("[0-9]{2,6}", text(rows[0]))
    assert not re.fullmatch("[0-9]{2,6}|<[a-c]{1,5}>", b"".join(
        VOCABULARY.tokens[token] for token in rows[1] if token < len(VOCABULARY)
    ).decode("latin-1"))  # fmt: skip
    assert re.fullmatch("<[a-c]{1,5}>", text(rows[2]))


@pytest.mark.parametrize("make", MAKERS)
def test_scores_are_kept_or_infinite(make: Any) -> None:
    processor = LogitsProcessor(VOCABULARY, DIGITS)
    raw = TinyModel(1).scores(np.array(PROMPTS))
    scores = numbers(processor(make(PROMPTS), make(raw)))
    allowed = np.array([*range(ord("0"), ord("9") + 1), 260])
    assert np.array_equal(scores[:, allowed], raw[:, allowed])
    assert np.isneginf(np.delete(scores, allowed, axis=1)).all()


@pytest.mark.parametrize("make", MAKERS)
def test_beams(make: Any) -> None:
    """Rows change places and are doubled from step to step, without a word to the processor."""
    processor = LogitsProcessor(VOCABULARY, [WORD, LIST])
    random = np.random.default_rng(5)
    model = TinyModel(5)
    beams = 3
    ids = np.array([PROMPTS[0]] * beams + [PROMPTS[1]] * beams)
    for step in range(14):
        scores = numbers(processor(make(ids), make(model.scores(ids))))
        parents = [beam if not step else int(random.integers(beams)) for beam in range(beams)]
        rows = [group * beams + parent for group in range(2) for parent in parents]
        chosen = []
        for row in rows:
            if EOS in ids[row, 4:]:
                chosen.append(PAD)
            else:
                chosen.append(int(random.choice(np.flatnonzero(np.isfinite(scores[row])))))
        ids = np.concatenate([ids[rows], np.array(chosen)[:, np.newaxis]], axis=1)
    for row, grammar in zip(ids, [WORD] * beams + [LIST] * beams, strict=True):
        matched, complete = llgx.Matcher(grammar.compile(VOCABULARY)).match_bytes(
            text(row[4:].tolist()).encode()
        )
        assert matched == len(text(row[4:].tolist()))
        assert complete or EOS not in row


@pytest.mark.parametrize("make", MAKERS)
def test_one_processor_for_several_generations(make: Any) -> None:
    processor = LogitsProcessor(VOCABULARY, DIGITS)
    first = generate(processor, PROMPTS, 12, make)
    assert generate(processor, PROMPTS, 12, make) == first
    assert len(generate(processor, PROMPTS[:1], 3, make)) == 1
    processor(make([[5, 6]]), make(np.zeros((1, SIZE), dtype=np.float32)))
    assert re.fullmatch("[0-9]{2,6}", text(generate(processor, [[7, 8, 9]], 12, make)[0]))
    # A prompt that is the last one and one token more: it has to be told.
    longer = [[*PROMPTS[0], *first[0][:1]]]
    processor(make(PROMPTS[:1]), make(np.zeros((1, SIZE), dtype=np.float32)))
    processor.reset()
    assert re.fullmatch("[0-9]{2,6}", text(generate(processor, longer, 12, make)[0]))


@needs_torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_types_of_scores(name: str) -> None:
    processor = LogitsProcessor(VOCABULARY, DIGITS)
    scores = torch.zeros((1, SIZE), dtype=getattr(torch, name))
    masked = processor(torch.tensor([[1, 2]]), scores)
    assert masked.dtype == scores.dtype
    assert int(torch.isfinite(masked).sum()) == 11
    assert bool((scores == 0).all())


@needs_torch
def test_a_model_of_torch() -> None:
    """A batch sampled from a network of PyTorch, gradients off, as in ``model.generate``."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(
        torch.nn.Embedding(SIZE, 16), torch.nn.Flatten(), torch.nn.Linear(64, SIZE)
    )
    processor = LogitsProcessor(VOCABULARY, LIST)
    ids = torch.tensor(PROMPTS)
    with torch.no_grad():
        for _ in range(40):
            scores = processor(ids, network(ids[:, -4:]))
            chosen = torch.multinomial(torch.softmax(scores, dim=-1), 1)
            over = (ids[:, 4:] == EOS).any(dim=1, keepdim=True)
            ids = torch.cat([ids, torch.where(over, PAD, chosen)], dim=1)
    for row in ids[:, 4:].tolist():
        if EOS in row:
            assert all(item in (1, 2) for item in json.loads(text(row)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((VOCABULARY, []), ValueError, "no grammar"),
        ((VOCABULARY, ["start: /a/"]), TypeError, "not a grammar: str"),
        ((llgx.Vocabulary.from_tokens([b"a"]), DIGITS), llgx.VocabularyError, "no end-of-gen"),
        (
            (llgx.Vocabulary.from_tokens([b"a", b""], eog=1), DIGITS.compile(VOCABULARY)),
            llgx.VocabularyError,
            "compiled for",
        ),
        ((object(), DIGITS), llgx.VocabularyError, "slow tokenizers"),
    ],
)
def test_faulty_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LogitsProcessor(*arguments)


def test_faulty_calls() -> None:
    processor = LogitsProcessor(VOCABULARY, [DIGITS, WORD])
    zeros = np.zeros((3, SIZE), dtype=np.float32)
    with pytest.raises(ValueError, match="3 rows for 2 grammars"):
        processor(Tensor(PROMPTS), Tensor(zeros))
    with pytest.raises(ValueError, match="2 rows of tokens"):
        processor(Tensor(PROMPTS[:2]), Tensor(zeros))
    with pytest.raises(ValueError, match="scores of 10 tokens"):
        processor(Tensor(PROMPTS[:2]), Tensor(zeros[:2, :10]))
    processor = LogitsProcessor(VOCABULARY, DIGITS)
    processor(Tensor([[1]]), Tensor(zeros[:1]))
    with pytest.raises(llgx.TokenRejected):
        processor(Tensor([[1, ord("x")]]), Tensor(zeros[:1]))
    # The state is that of before: the same row may go on otherwise.
    processor(Tensor([[1, ord("7")]]), Tensor(zeros[:1]))
    with pytest.raises(llgx.LlgxError, match="call reset"):
        processor(Tensor([[1, ord("8"), ord("7")]]), Tensor(zeros[:1]))
    # Other prompts are another generation.
    processor(Tensor([[2, ord("8"), ord("7")]]), Tensor(zeros[:1]))


# --- Vocabularies of tokenizers -------------------------------------------------------------------

SAMPLES = ["Hello world", ' {"a": [1, 2.5], "ü": "日本"}', "\n\tdef f(x):  return x\n", "😀 naïve"]


class Described:
    """A tokenizer by its description, for those who lack ``tokenizers``."""

    eos_token_id = 0

    def __init__(self, decoder: Any, pieces: dict[str, int], added: Any = ()) -> None:
        self._text = json.dumps({"decoder": decoder, "added_tokens": list(added)})
        self._pieces = pieces

    def to_str(self) -> str:
        return self._text

    def get_vocab(self, with_added_tokens: bool) -> dict[str, int]:
        assert with_added_tokens
        return self._pieces


def test_byte_level_pieces() -> None:
    added = [{"id": 0, "special": True}, {"id": 4, "special": False}]
    pieces = {"<eos>": 0, "Ġhello": 1, "Ċ": 2, "Ã©": 3, "Ġ": 4, "é": 6}
    vocabulary = vocabulary_of(Described({"type": "ByteLevel"}, pieces, added), size=8)
    expected = [b"<eos>", b" hello", b"\n", "é".encode(), "Ġ".encode(), b"", b"\xe9", b""]
    assert vocabulary.tokens == expected
    assert vocabulary.eog == (0,)
    assert vocabulary.special == {0}


def test_sentencepiece_pieces() -> None:
    decoder = {
        "type": "Sequence",
        "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}],
    }
    pieces = {"<eos>": 0, "▁hello": 1, "<0x0A>": 2, "<0xZZ>": 3, "▁▁": 4, "日": 5}
    vocabulary = vocabulary_of(Described(decoder, pieces), eog=[0, 5])
    assert vocabulary.tokens[1:] == [b" hello", b"\n", b"<0xZZ>", b"  ", "日".encode()]
    assert vocabulary.eog == (0, 5)


def test_other_decoders_are_refused() -> None:
    for decoder in ({"type": "WordPiece"}, None):
        with pytest.raises(llgx.VocabularyError, match="are not known"):
            vocabulary_of(Described(decoder, {"a": 0}))


@pytest.mark.parametrize("kind", ["ByteLevel", "ByteFallback"])
def test_real_tokenizers(kind: str) -> None:
    """The bytes of the pieces of a text are the text."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=kind == "ByteFallback"))
    if kind == "ByteLevel":
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.normalizer = tokenizers.normalizers.Replace(" ", "▁")
        tokenizer.decoder = tokenizers.decoders.Sequence(
            [
                tokenizers.decoders.Replace("▁", " "),
                tokenizers.decoders.ByteFallback(),
                tokenizers.decoders.Fuse(),
            ]
        )
        alphabet = []
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<eos>", *(f"<0x{byte:02X}>" for byte in range(256))]
        if kind == "ByteFallback"
        else ["<eos>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(SAMPLES * 3, trainer)
    vocabulary = vocabulary_of(tokenizer, eog=0)
    for sample in SAMPLES:
        ids = tokenizer.encode(sample).ids
        assert b"".join(vocabulary.tokens[token] for token in ids) == sample.encode()
        assert tokenizer.decode(ids) == sample
