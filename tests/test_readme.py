"""The examples of README.md run as they stand, but for the name of the model file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import llgx

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_example_writes_what_its_grammar_allows(gemma_path: Path, tmp_path: Path) -> None:
    assert len(BLOCKS) == 2
    assert BLOCKS[0].count('"model.gguf"') == 1
    script = tmp_path / "example.py"
    threads = (
        ", n_threads=1, n_threads_batch=1"  # more of them wait for each other on a busy machine
    )
    script.write_text(
        BLOCKS[0].replace('"model.gguf"', f"{str(gemma_path)!r}{threads}"), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    letter = r"Dear [A-Z][a-z]{1,12},\n([A-Z][^\n]{10,80}\.\n){1,3}-- [A-Z][a-z]{1,12}\n"
    assert re.fullmatch(letter, done.stdout), done.stdout


def test_schema_is_held_to() -> None:
    names: dict[str, llgx.Grammar] = {}
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
