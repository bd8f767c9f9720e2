"""Grammars of JSON Schemas in files: what took long to make survives the process.

A file holds one description (:mod:`llgx.ir_text`) behind a line that says what it is and a checksum
of the rest. Its name is a digest of everything that decides the description: the version of llgx,
the schema, options and limits. Descriptions know no vocabulary, so that one file serves all models;
what depends on the vocabulary is built as it is needed and takes a fraction of a millisecond.

Invariant: a file that is cut off, changed, foreign or of another version counts as none, and is
written anew; a directory that cannot be read or written costs a warning and nothing else. Files
appear whole: they are written under another name and renamed. Nothing in them is executed. They are
bounded in bytes, those used least recently are removed first.

Cost: a read takes about as long as the compilation of a plain schema, so only schemas that took
:data:`WORTH` seconds and longer are written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import tempfile
import zlib
from collections.abc import Sequence
from typing import Final

from llgx import ir_text
from llgx.ir import GrammarIR
from llgx.log import logger

__all__ = ["WORTH", "SchemaFiles"]

WORTH: Final = 0.005
_HEAD: Final = b"llgx grammar 1\n"
_SUFFIX: Final = ".llgx"
_LIMIT: Final = 256_000_000
_LARGEST: Final = 64_000_000  # of one description: a small file can be unpacked to a large one


class SchemaFiles:
    """The files of ``directory``, at most ``limit`` bytes of them; it is made when it is needed.

    Safe to share between threads and processes.
    """

    def __init__(self, directory: str | os.PathLike[str], limit: int = _LIMIT) -> None:
        self.directory = pathlib.Path(directory)
        self._limit = limit

    def read(self, key: Sequence[object]) -> GrammarIR | None:
        """What was written under ``key``; None if there is nothing, or nothing sound."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("schema cache: %s cannot be read: %s", path, error.strerror)
            return None
        ir = _unpacked(data)
        if ir is None:
            logger.warning("schema cache: %s is damaged, and is made anew", path)
            return None
        with contextlib.suppress(OSError):  # only which files are removed first depends on it
            os.utime(path)
        return ir

    def write(self, key: Sequence[object], ir: GrammarIR) -> None:
        """Keep ``ir`` under ``key``, if that can be done."""
        path = self._path(key)
        try:
            data = _packed(ir)
            if data is None:
                return
            self.directory.mkdir(parents=True, exist_ok=True)
            self._make_room(len(data))
            handle, name = tempfile.mkstemp(dir=self.directory, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            logger.warning("schema cache: %s cannot be written: %s", path, error.strerror)

    def _path(self, key: Sequence[object]) -> pathlib.Path:
        from llgx import __version__

        digest = hashlib.sha256(_HEAD + __version__.encode())
        for part in key:
            data = (
                part if isinstance(part, bytes) else _shown(part).encode("utf-8", "surrogatepass")
            )
            digest.update(b"%s %d\n" % (type(part).__name__.encode(), len(data)))
            digest.update(data)
        return self.directory / (digest.hexdigest() + _SUFFIX)

    def _make_room(self, size: int) -> None:
        """Remove files until ``size`` more bytes fit."""
        found = []
        for path in self.directory.glob("*" + _SUFFIX):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another process was faster
            found.append((status.st_mtime_ns, status.st_size, path))
        total = size + sum(length for _, length, _ in found)
        for _, length, path in sorted(found):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= length


def _shown(part: object) -> str:
    """``part`` as text that is the same in each process. Documents are parts of their own."""
    if isinstance(part, frozenset):
        return repr(sorted(part))
    if dataclasses.is_dataclass(part):
        fields = [field.name for field in dataclasses.fields(part) if field.compare]
        return repr([(name, _shown(getattr(part, name))) for name in fields])
    return repr(part)


def _packed(ir: GrammarIR) -> bytes | None:
    """``ir`` as the contents of a file; None where it has none."""
    try:
        text = ir_text.dumps(ir)
    except RecursionError:
        return None
    if len(text) > _LARGEST:
        return None
    data = zlib.compress(text, 1)
    return _HEAD + hashlib.sha256(data).digest() + data


def _unpacked(data: bytes) -> GrammarIR | None:
    begin = len(_HEAD) + hashlib.sha256().digest_size
    rest = data[begin:]
    if not data.startswith(_HEAD) or hashlib.sha256(rest).digest() != data[len(_HEAD) : begin]:
        return None
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(rest, _LARGEST + 1)
        if len(text) > _LARGEST or not unpacking.eof:
            return None
        return ir_text.loads(text)
    except (zlib.error, ValueError, MemoryError):
        return None
