"""The modules that a caller gives for ``%import``: a mapping of texts, or a directory of files.

A module is named by words joined with dots: ``lists.json`` is the file ``lists/json.lark`` of the
directory, or the entry ``"lists.json"`` or ``"lists/json.lark"`` of the mapping. Words are letters,
digits, ``_`` and ``-``, so a path cannot climb out of the directory, and a file that a symbolic
link puts outside of it is refused. Nothing else of the file system is read.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Final

from llgx.limits import Limits

__all__ = ["Library", "ModuleError"]

_SUFFIX: Final = ".lark"
_BYTES_A_CHARACTER: Final = 4


class ModuleError(Exception):
    """Why a module cannot be had; the parser says where it was asked for."""


class Library:
    """What ``imports=`` of :meth:`llgx.Grammar.from_lark` is turned into.

    Raises ``TypeError`` if it is neither a mapping of texts, a path, nor None, and ``ValueError``
    if the path is no directory.
    """

    def __init__(self, imports: Mapping[str, str] | str | os.PathLike[str] | None = None) -> None:
        self._texts: dict[str, str] = {}
        self._root: pathlib.Path | None = None
        if imports is None:
            return
        if isinstance(imports, Mapping):
            for name, text in imports.items():
                if not isinstance(name, str) or not isinstance(text, str):
                    raise TypeError("imports maps the names of modules to their texts, both str")
                key = name.removesuffix(_SUFFIX).replace("/", ".").replace("\\", ".")
                if key in self._texts:
                    raise ValueError(f"imports holds the module {key!r} twice")
                self._texts[key] = text
        elif isinstance(imports, str | os.PathLike):
            self._root = pathlib.Path(imports).resolve()
            if not self._root.is_dir():
                raise ValueError(f"imports: {self._root} is no directory")
        else:
            raise TypeError(f"imports is a mapping or a directory, not {type(imports).__name__}")

    def names(self) -> list[str]:
        """The modules of a mapping."""
        return list(self._texts)

    def fetch(self, path: tuple[str, ...], limits: Limits) -> str:
        """The text of the module ``path``; raises :class:`ModuleError` if there is none."""
        name = ".".join(path)
        if self._root is None:
            text = self._texts.get(name)
            if text is None:
                if self._texts:
                    raise ModuleError(f"there is no module '{name[:80]}' in imports")
                raise ModuleError(
                    f"there is no module '{name[:80]}': "
                    "imports= gives a grammar its modules, and 'common' is built in"
                )
            return text
        try:
            file = self._root.joinpath(*path).with_name(path[-1] + _SUFFIX).resolve()
            if not file.is_relative_to(self._root):
                raise ModuleError(f"the module '{name[:80]}' lies outside of the directory")
            with file.open("rb") as stream:
                data = stream.read(limits.grammar_bytes * _BYTES_A_CHARACTER + 1)
            return data.decode()
        except UnicodeDecodeError:
            raise ModuleError(f"the module '{name[:80]}' is not UTF-8") from None
        except (OSError, RuntimeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModuleError(f"cannot read the module '{name[:80]}': {reason}") from None
