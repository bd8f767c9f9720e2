"""A model that thinks before it answers: free text up to a marker, then the grammar.

For a model with a marker in its chat template, ``reasoning=True`` is enough. This one has none, so
it is told, and given a budget; and being small, it is shown how.

python examples/thinking.py
"""

from __future__ import annotations

from model import load

import llgx

PROMPT = """\
Question: Which kind of animal is a salmon?
<think>A salmon has gills and lives in water. It is a fish.</think>
{"kind": "fish"}

Question: Which kind of animal is an eagle?
<think>An eagle has feathers and wings. It is a bird.</think>
{"kind": "bird"}

Question: Which kind of animal is an owl?
<think>"""


def main() -> None:
    llm = load()
    result = llgx.generate(
        llm,
        PROMPT,
        {
            "type": "object",
            "properties": {"kind": {"enum": ["fish", "mammal", "bird"]}},
            "required": ["kind"],
            "additionalProperties": False,
        },
        reasoning=llgx.Reasoning("</think>", max_tokens=40),
        max_tokens=100,
        closing=True,
        temperature=0,
    )
    print(f"thought: {result.reasoning!r}")  # the end marker included
    print(f"answer:  {result.value}")


if __name__ == "__main__":
    main()
