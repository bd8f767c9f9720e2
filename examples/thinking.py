"""A model that thinks before it answers: free text up to a marker, then the grammar.

For a model with a marker in its chat template, ``reasoning=True`` is enough. This one has none, so
it is told, and given a budget.

python examples/thinking.py
"""

from __future__ import annotations

from model import load

import llgx


def main() -> None:
    llm = load()
    result = llgx.generate(
        llm,
        "Question: is 91 a prime number? Think first.\n<think>",
        {
            "type": "object",
            "properties": {"prime": {"type": "boolean"}},
            "required": ["prime"],
            "additionalProperties": False,
        },
        reasoning=llgx.Reasoning("</think>", max_tokens=40),
        max_tokens=100,
        closing=True,
        temperature=0,
    )
    print(f"thought: {result.reasoning!r}")
    print(f"answer:  {result.value}")


if __name__ == "__main__":
    main()
