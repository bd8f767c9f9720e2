"""A completion that follows a grammar: ``grammar=`` takes a ``llgx.LlamaGrammar``.

python examples/completion.py
"""

from __future__ import annotations

from typing import Any

from model import load

import llgx

GRAMMAR = r"""%llguidance {}
start: line{3}
line: "- " NAME ", " YEAR "\n"
NAME: /[A-Z][a-z]{2,10}( [A-Z][a-z]{2,10})?/
YEAR: /1[5-9][0-9]{2}/
"""


def main() -> None:
    llm = load()
    response: Any = llm.create_completion(
        "Three painters and the year of their birth:\n",
        grammar=llgx.LlamaGrammar.from_string(GRAMMAR),
        max_tokens=80,
        temperature=0,
    )
    print(response["choices"][0]["text"], end="")


if __name__ == "__main__":
    main()
