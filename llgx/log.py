"""The logger ``llgx``, and its level.

What compiling a grammar warns of is logged, so that nobody has to ask for it: Python prints it to
standard error where no handler is set. The environment variable ``LLGUIDANCE_LOG_LEVEL`` sets the
level, as it does for llguidance in llama.cpp: 0 for nothing, 1 for warnings (the default), 2 for
messages, 3 or more for everything. Without it the level is that of the program's loggers.
"""

from __future__ import annotations

import logging
import os
from typing import Final

__all__ = ["LEVEL_VARIABLE", "logger", "set_level"]

LEVEL_VARIABLE: Final = "LLGUIDANCE_LOG_LEVEL"
_LEVELS: Final = (logging.CRITICAL + 1, logging.WARNING, logging.INFO, logging.DEBUG)

logger: Final = logging.getLogger("llgx")


def set_level(value: str | None) -> None:
    """Set the level that ``value``, the content of the variable, asks for; say if it is none."""
    if value is None:
        return
    try:
        level = int(value)
    except ValueError:
        level = -1
    if level < 0:
        logger.warning("%s is a number from 0 on, not %r", LEVEL_VARIABLE, value)
        return
    logger.setLevel(_LEVELS[min(level, len(_LEVELS) - 1)])


set_level(os.environ.get(LEVEL_VARIABLE))
