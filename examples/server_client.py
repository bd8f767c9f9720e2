"""OpenAI's client with ``python -m llgx.server``.

Starts a server on a free port of this machine, asks it for an object, and ends it.

python examples/server_client.py
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Literal

import openai
import pydantic
from model import path


class Weather(pydantic.BaseModel):
    place: str = pydantic.Field(pattern="^[A-Z][a-z]+$", max_length=20)
    sky: Literal["sunny", "cloudy", "rainy"]
    degrees: int = pydantic.Field(ge=-40, le=50)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "llgx.server", "--model", str(path()), "--verbose", "False"),
            *("--host", "127.0.0.1", "--port", str(port), "--n_ctx", "1024"),
            *("--n_threads", "1", "--n_threads_batch", "1"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}/v1"
        while process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/models", timeout=5).close()
                break
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    with server() as address, openai.OpenAI(base_url=address, api_key="none") as client:
        response = client.chat.completions.parse(
            model="local",
            messages=[
                {"role": "user", "content": "Paris is cloudy, at 7 degrees. Write this as JSON."}
            ],
            response_format=Weather,
            temperature=0,
            max_tokens=80,
        )
        print(repr(response.choices[0].message.parsed))
        try:
            client.completions.create(
                model="local", prompt="x", extra_body={"grammar": "%llguidance {}\nstart: ("}
            )
        except openai.BadRequestError as error:
            print(f"HTTP {error.status_code}: {error.body['message'].splitlines()[0]}")  # type: ignore[index]


if __name__ == "__main__":
    main()
