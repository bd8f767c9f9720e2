"""Checks of what callers pass to public functions.

A wrong type is a ``TypeError`` that names what is wanted and what was given, before any work. Each
check returns what it was given. Constant.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

from llgx.limits import DEFAULT_SHORTCUTS, Limits, Shortcuts

__all__ = [
    "check_flag",
    "check_integer",
    "check_limits",
    "check_list",
    "check_maximum",
    "check_text",
    "check_type",
]

Kind = TypeVar("Kind")


def check_type(value: Any, kind: type[Kind], what: str) -> Kind:
    """An object of ``kind``; ``what`` is it called in the message."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {_article(kind.__name__)}, not {type(value).__name__}")
    return value


def check_limits(limits: Any, shortcuts: Any = DEFAULT_SHORTCUTS) -> None:
    """Limits and shortcuts."""
    # Each compilation comes here.
    if type(limits) is not Limits:
        check_type(limits, Limits, "limits=")
    if type(shortcuts) is not Shortcuts:
        check_type(shortcuts, Shortcuts, "shortcuts=")


def check_text(value: Any, what: str) -> str:
    """A ``str``."""
    return check_type(value, str, what)


def check_flag(value: Any, what: str) -> bool:
    """A ``bool``, and nothing that happens to be true."""
    return check_type(value, bool, what)


def check_list(values: Any, what: str, of: str) -> Iterable[Any]:
    """Something to go through that is no text and no mapping, which are lists by accident."""
    if isinstance(values, (str, bytes, bytearray, dict)) or not isinstance(values, Iterable):
        given = f"one {type(values).__name__}" if isinstance(values, (str, bytes)) else None
        raise TypeError(f"{what} are a list of {of}, not {given or type(values).__name__}")
    return values


def check_maximum(value: Any, what: str) -> int | None:
    """A count, or None for no limit. ``ValueError`` where it is a number, but none from 0 on."""
    if value is not None and (type(value) is not int or value < 0):
        raise ValueError(f"{what} is a number from 0 on, not {value!r}")
    return value


def check_integer(value: Any, what: str) -> int:
    """Anything that is an index: an ``int``, or one of NumPy's."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an integer, not {type(value).__name__}")
    return operator.index(value)


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeio" else f"a {name}"
