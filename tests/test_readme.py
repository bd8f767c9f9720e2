"""The example of README.md runs as it stands, but for the name of the model file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_example_writes_what_its_grammar_allows(gemma_path: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    assert blocks[0].count('"model.gguf"') == 1
    script = tmp_path / "example.py"
    threads = (
        ", n_threads=1, n_threads_batch=1"  # more of them wait for each other on a busy machine
    )
    script.write_text(
        blocks[0].replace('"model.gguf"', f"{str(gemma_path)!r}{threads}"), encoding="utf-8"
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


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_code_map_names_existing_files() -> None:
    rows = re.findall(r"^\| (`llgx/.*?) \|", README, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
