"""Masks for a batch of sequences, for inference servers with logits of their own.

Each sequence has a matcher; one array holds the masks of all, as XGrammar and vLLM lay them out. No
model here: random logits stand for it.

python examples/batch.py
"""

from __future__ import annotations

import numpy as np
from model import path

import llgx


def main() -> None:
    vocabulary = llgx.Vocabulary.from_gguf(path())
    grammars = [
        llgx.Grammar.from_regex(r"[A-Z]{2}-[0-9]{3}"),
        llgx.Grammar.from_choices(["red", "green", "blue"]),
        llgx.Grammar.from_json_schema(
            {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3}, whitespace="compact"
        ),
    ]
    matchers = [llgx.Matcher(grammar.compile(vocabulary)) for grammar in grammars]
    mask = llgx.allocate_token_bitmask(len(matchers), len(vocabulary))
    random = np.random.default_rng(1)
    while not all(matcher.stop_reason == "eog" for matcher in matchers):
        llgx.fill_bitmasks(matchers, mask)
        logits = random.normal(size=(len(matchers), len(vocabulary))).astype(np.float32)
        llgx.apply_token_bitmask_inplace(logits, mask)
        for matcher, token in zip(matchers, logits.argmax(axis=1), strict=True):
            if matcher.stop_reason != "eog":
                matcher.consume(int(token))
    for matcher in matchers:
        print(b"".join(vocabulary.tokens[token] for token in matcher.tokens[:-1]).decode())


if __name__ == "__main__":
    main()
