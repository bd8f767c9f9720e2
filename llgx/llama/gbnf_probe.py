"""Whether a sampler of llama.cpp follows a GBNF grammar at all.

Early versions of llama.cpp answer text that they cannot read with a sampler that allows everything:
the constraint is silently lifted. :func:`is_followed` asks the sampler once, over the whole
vocabulary, what may come first. A grammar that allows every token there, as ``root ::= .*``, looks
the same; then llgx says whether this one does.
"""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any, Final

import numpy as np

from llgx._core import Matcher
from llgx.errors import GrammarError, LimitError
from llgx.grammar import Grammar
from llgx.vocabulary import Vocabulary

__all__ = ["answers_null", "is_followed"]

_FIRST_TO_ANSWER_NULL: Final = (0, 3, 36)  # the first that was seen to


@functools.cache
def answers_null() -> bool:
    """Whether this llama-cpp-python is known to make no sampler of what it cannot read."""
    import llama_cpp

    parts = re.findall(r"\d+", llama_cpp.__version__)[:3]
    return tuple(map(int, parts)) >= _FIRST_TO_ANSWER_NULL


def is_followed(sampler: Any, vocab: Any, text: str) -> bool:
    """Whether ``sampler``, made by llama.cpp of the GBNF ``text``, constrains anything.

    ``vocab`` is the address of the vocabulary. Costs what the sampler takes for one token.
    """
    from llama_cpp import llama_cpp

    size = llama_cpp.llama_vocab_n_tokens(vocab)
    candidates = np.zeros(size, np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")]))
    candidates["id"] = np.arange(size)
    data = candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
    array = llama_cpp.llama_token_data_array(data=data, size=size, selected=-1, sorted=False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    if array.size < size or not np.isfinite(candidates["logit"]).all():
        return True
    vocabulary = Vocabulary.from_llama(vocab)
    try:
        allowed = Matcher(Grammar.from_gbnf(text).compile(vocabulary)).allowed_tokens()
    except (GrammarError, LimitError):
        return False
    return len(allowed) + len(vocabulary.special) >= len(vocabulary)
