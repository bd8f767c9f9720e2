"""A chat answer that follows a JSON Schema, in the form that OpenAI's API has for it.

``llgx.install()`` lets llgx do all constraining of llama-cpp-python; with ``jump_forward`` the text
that the schema forces (keys, punctuation) costs next to nothing.

python examples/chat.py
"""

from __future__ import annotations

from typing import Any

from model import load

import llgx

SCHEMA = {
    "type": "object",
    "properties": {
        "dish": {"type": "string", "maxLength": 30},
        "minutes": {"type": "integer", "minimum": 5, "maximum": 240},
        "difficulty": {"enum": ["easy", "medium", "hard"]},
    },
    "required": ["dish", "minutes", "difficulty"],
    "additionalProperties": False,
}


def main() -> None:
    llm = load()
    response_format: Any = {
        "type": "json_schema",
        "json_schema": {"name": "recipe", "schema": SCHEMA, "strict": True},
    }
    with llgx.install(jump_forward=True):
        response: Any = llm.create_chat_completion(
            messages=[{"role": "user", "content": "Name a dish that I can cook tonight, as JSON."}],
            response_format=response_format,
            max_tokens=100,
            temperature=0,
        )
    print(response["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
