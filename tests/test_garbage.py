"""Garbage collection of what holds memory of its own, in an interpreter that scribbles over freed
memory (glibc's ``MALLOC_PERTURB_``; elsewhere it is a test of less)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CYCLES = """
import gc, llgx

class Holder:
    pass

for _ in range(20):
    vocabulary = llgx.Vocabulary.from_tokens(
        [bytes([byte]) for byte in range(256)] + [b"<eos>", b"hello", b"a b"], eog=[256]
    )
    grammar = llgx.Grammar.from_lark('start: /"[^"]*"/ | /[a-z ]+/ ";"')
    compiled = grammar.compile(vocabulary, limits=llgx.Limits(heavy_nodes=2))
    matcher = llgx.Matcher(compiled)
    for byte in b'"x':
        matcher.allowed_tokens()
        matcher.consume(byte)
    matcher.allowed_tokens()
    assert compiled.stats()["tables"] > 0, compiled.stats()
    holder = Holder()
    holder.all = [matcher, compiled, grammar, vocabulary, holder]
    del vocabulary, grammar, compiled, matcher, holder
    gc.collect()
print("done")
"""


def test_cycles_with_compiled_grammars_are_collected() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CYCLES],
        env={**os.environ, "MALLOC_PERTURB_": "165", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
