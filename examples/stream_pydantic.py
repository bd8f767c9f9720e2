"""A pydantic object that grows while the model writes it.

With ``closing=True`` the last one is complete, however few tokens there are. The numbers have
bounds and the objects no other members: a small model goes on with either for as long as it may.

python examples/stream_pydantic.py
"""

from __future__ import annotations

from typing import Literal

import pydantic
from model import load

import llgx


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Step(Closed):
    what: str = pydantic.Field(max_length=40)
    minutes: int = pydantic.Field(ge=5, le=120)


class Plan(Closed):
    title: str = pydantic.Field(max_length=40)
    mood: Literal["calm", "busy"]
    steps: list[Step] = pydantic.Field(min_length=1, max_length=3)


def main() -> None:
    llm = load()
    question = "Plan my morning as JSON: a title, the mood, and three steps, each with minutes."
    messages = [{"role": "user", "content": question}]
    with llgx.stream(llm, messages, Plan, max_tokens=120, closing=True, temperature=0) as stream:
        for plan in stream:
            print(plan)
    assert stream.result is not None
    print(f"{len(stream.result.tokens)} tokens; closed early: {stream.result.is_closed}")


if __name__ == "__main__":
    main()
