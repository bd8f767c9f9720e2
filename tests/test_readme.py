"""The examples of README.md run as they stand, but for the name of the model file."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

import llgx

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_example_writes_what_its_grammar_allows(gemma_path: Path, tmp_path: Path) -> None:
    done = _run(BLOCKS[0], gemma_path, tmp_path)
    letter = r"Dear [A-Z][a-z]{1,12},\n([A-Z][^\n]{10,80}\.\n){1,3}-- [A-Z][a-z]{1,12}\n"
    assert re.fullmatch(letter, done), done


def test_chat_answer_follows_its_schema(gemma_path: Path, tmp_path: Path) -> None:
    shown = 'print("answer:", answer["choices"][0]["message"]["content"])'
    done = _run("\n".join([*BLOCKS[:3], shown]), gemma_path, tmp_path)
    names: dict[str, Any] = {}
    exec(BLOCKS[1], {"llgx": llgx}, names)
    jsonschema.validate(json.loads(done.rpartition("answer:")[2]), names["schema"])


def test_host_with_random_logits_writes_what_the_schema_allows(
    gemma_path: Path, tmp_path: Path
) -> None:
    text = 'b"".join(vocabulary.tokens[token] for token in matcher.tokens)'
    shown = f"print(repr({text}), schema, sep='\\n')"
    done = _run("\n".join(["import llgx", BLOCKS[1], BLOCKS[3], shown]), gemma_path, tmp_path)
    written, schema = map(ast.literal_eval, done.splitlines())
    jsonschema.validate(json.loads(written), schema)


def _run(code: str, gemma_path: Path, tmp_path: Path) -> str:
    """Standard output of a program with a real model in the place of the one that it names."""
    assert len(BLOCKS) == 4
    assert code.count('"model.gguf"') == 1
    path = str(gemma_path)
    # More threads than one wait for each other on a busy machine.
    code = code.replace('Llama("model.gguf"', f"Llama({path!r}, n_threads=1, n_threads_batch=1")
    code = code.replace('"model.gguf"', repr(path))
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_schema_is_held_to() -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[1], {"llgx": llgx}, names)
    tokens = [*(bytes([byte]) for byte in range(256)), b"</s>"]
    vocabulary = llgx.Vocabulary.from_tokens(tokens, eog=[256])
    matcher = llgx.Matcher(names["grammar"].compile(vocabulary))
    for text, fits in (
        (b'{"name": "Ada", "born": "1815-12-10", "tags": ["a", "b"]}', True),
        (b'{"name": "Ada", "born": "1815-12-32"}', False),
        (b'{"name": "Ada", "born": "1815-12-10", "tags": ["a", "a"]}', False),
    ):
        assert (
            matcher.match_bytes(text) == (len(text), True)
            if fits
            else (matcher.match_bytes(text)[0] < len(text))
        )


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_code_map_names_existing_files() -> None:
    rows = re.findall(r"^\| (`llgx/.*?) \|", README, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


def test_code_map_names_all_modules() -> None:
    modules = [*(ROOT / "llgx").glob("*.py"), *(ROOT / "llgx").glob("*.pyx")]
    names = [f"llgx/{path.name}" for path in modules if path.name != "__init__.py"]
    assert [name for name in names if f"`{name}`" not in README] == []
