"""A grammar in GBNF, unchanged, on llama.cpp's engine and on llgx; and the same as Lark text.

python examples/gbnf.py
"""

from __future__ import annotations

import time
from typing import Any

from model import load

import llgx

GBNF = r"""root  ::= move (" " move)*
move  ::= ("N" | "B" | "R" | "Q" | "K")? [a-h] [1-8] | "O-O"
"""


def main() -> None:
    llm = load()
    for name, grammar in (
        ("llama.cpp", llgx.LlamaGrammar.from_string(GBNF)),
        ("llgx", llgx.LlamaGrammar.from_gbnf(GBNF)),
    ):
        begin = time.perf_counter()
        response: Any = llm.create_completion(
            "A game of chess: e4 e5 Nf3 Nc6 ", grammar=grammar, max_tokens=24, temperature=0
        )
        took = time.perf_counter() - begin
        print(f"{name:<10} {took:5.2f} s  {response['choices'][0]['text']}")
    print(llgx.gbnf_to_lark(GBNF), end="")


if __name__ == "__main__":
    main()
