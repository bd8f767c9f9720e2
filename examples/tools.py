"""Tool calls whose arguments are what the function takes.

python examples/tools.py
"""

from __future__ import annotations

import json
from typing import Any

from model import load

import llgx


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": add.__doc__,
            "parameters": {
                "type": "object",
                "properties": {
                    name: {"type": "integer", "minimum": 0, "maximum": 9999} for name in "ab"
                },
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        },
    }
]


def main() -> None:
    llm = load()
    with llgx.install():
        response: Any = llm.create_chat_completion(
            messages=[{"role": "user", "content": "Please call add with a = 12 and b = 30."}],
            tools=TOOLS,
            tool_choice={"type": "function", "function": {"name": "add"}},
            max_tokens=60,
            temperature=0,
        )
    for call in response["choices"][0]["message"]["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        print(f"add({arguments['a']}, {arguments['b']}) = {add(**arguments)}")


if __name__ == "__main__":
    main()
