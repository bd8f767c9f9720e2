"""llgx: language models that produce only text that a grammar allows.

The public names; the modules behind them are documented in docs/architecture.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llgx._batch import fill_bitmasks
from llgx._compiled import CompiledGrammar
from llgx._core import Matcher
from llgx.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from llgx.cache import SCHEMA_CACHE as schema_cache
from llgx.captures import Capture
from llgx.errors import (
    GrammarError,
    LimitError,
    LlgxError,
    SchemaError,
    TokenRejected,
    VocabularyError,
)
from llgx.explanation import Explanation
from llgx.grammar import Grammar
from llgx.limits import Limits, Shortcuts
from llgx.llama import LogitsProcessor, LogitsProcessorList, logits_processors
from llgx.structural_tag import SpecialToken, StructuralTag
from llgx.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llgx.gbnf import gbnf_to_lark
    from llgx.json_schema import json_schema_to_grammar, lint_schema
    from llgx.llama.generate import (
        Generation,
        IncompleteError,
        Reasoning,
        Stream,
        generate,
        stream,
    )
    from llgx.llama.grammar import LlamaGrammar as LlamaGrammar
    from llgx.llama.install import install, uninstall
    from llgx.llama.sampler import Sampler, sampler

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "CompiledGrammar",
    "Explanation",
    "Generation",
    "Grammar",
    "GrammarError",
    "IncompleteError",
    "LimitError",
    "Limits",
    "LlgxError",
    "LogitsProcessor",
    "LogitsProcessorList",
    "Matcher",
    "Reasoning",
    "Sampler",
    "SchemaError",
    "Shortcuts",
    "SpecialToken",
    "Stream",
    "StructuralTag",
    "TokenRejected",
    "Vocabulary",
    "VocabularyError",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "fill_bitmasks",
    "gbnf_to_lark",
    "generate",
    "install",
    "json_schema_to_grammar",
    "lint_schema",
    "logits_processors",
    "sampler",
    "schema_cache",
    "stream",
    "uninstall",
]

# Imported when first asked for, so that nobody waits for a front end that they do not use.
# LlamaGrammar needs llama-cpp-python for that, and so is not among the names of a star import.
_LAZY = {
    "Generation": "llgx.llama.generate",
    "IncompleteError": "llgx.llama.generate",
    "Reasoning": "llgx.llama.generate",
    "Stream": "llgx.llama.generate",
    "gbnf_to_lark": "llgx.gbnf",
    "generate": "llgx.llama.generate",
    "json_schema_to_grammar": "llgx.json_schema",
    "lint_schema": "llgx.json_schema",
    "stream": "llgx.llama.generate",
    "LlamaGrammar": "llgx.llama.grammar",
    "Sampler": "llgx.llama.sampler",
    "install": "llgx.llama.install",
    "sampler": "llgx.llama.sampler",
    "uninstall": "llgx.llama.install",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY} - {"Any", "TYPE_CHECKING", "annotations"})
