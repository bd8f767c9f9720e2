"""llgx inside llama-cpp-python: vocabularies, logits processors.

Modules here import llama-cpp-python when they need it, not before.
"""

from __future__ import annotations

from llgx.llama.processor import LogitsProcessor, LogitsProcessorList, logits_processors

__all__ = ["LogitsProcessor", "LogitsProcessorList", "logits_processors"]
