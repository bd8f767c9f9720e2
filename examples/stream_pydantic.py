"""A pydantic object that grows while the model writes it.

With ``closing=True`` the last one is complete, however few tokens there are.

python examples/stream_pydantic.py
"""

from __future__ import annotations

from typing import Literal

import pydantic
from model import load

import llgx


class Step(pydantic.BaseModel):
    what: str = pydantic.Field(max_length=40)
    minutes: int


class Plan(pydantic.BaseModel):
    title: str = pydantic.Field(max_length=40)
    mood: Literal["calm", "busy"]
    steps: list[Step] = pydantic.Field(min_length=1, max_length=3)


def main() -> None:
    llm = load()
    messages = [{"role": "user", "content": "Plan my morning."}]
    with llgx.stream(llm, messages, Plan, max_tokens=90, closing=True, temperature=0) as stream:
        for plan in stream:
            print(plan)
    assert stream.result is not None
    print(f"{len(stream.result.tokens)} tokens; closed early: {stream.result.is_closed}")


if __name__ == "__main__":
    main()
