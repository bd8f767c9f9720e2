"""Test data that is not part of the project: MaskBench, the JSON Schema Test Suite, user cases.

It is looked for in the directory that LLGX_DATA names, or in ``shared/data`` beside the checkout.
Where a file is missing, the tests that need it are skipped and say so.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["data_file"]

ROOT = Path(__file__).resolve().parent.parent


def data_file(name: str) -> Path:
    """The path of a data file; skips the test, or the module, that asks for one that is missing."""
    named = os.environ.get("LLGX_DATA")
    directory = Path(named) if named else ROOT.parent / "shared" / "data"
    path = directory / name
    if not path.is_file():
        pytest.skip(
            f"NOT TESTED: no {path}; set LLGX_DATA to the directory that has {name}",
            allow_module_level=True,
        )
    return path
