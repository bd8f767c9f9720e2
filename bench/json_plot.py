"""The distributions of mask times and of starts as a picture: share of samples that take longer.

Both axes are logarithmic, so that a tail of one sample in a hundred thousand can be seen. Curves
are of the cases that all engines compiled, like the figures of :mod:`json_report`. Needs
matplotlib.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from json_report import samples_of_common_cases
from json_timing import CaseTimes

__all__ = ["draw"]

_PANELS: Final = (
    ("first", "Mask and consume (TBM), first visits"),
    ("start", "Compile and first mask (TTFM)"),
)


def draw(
    path: pathlib.Path, times: Sequence[CaseTimes], engines: Sequence[str], subtitle: str
) -> None:
    """Write a PNG, or what else the name of ``path`` asks for. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(_PANELS), figsize=(12, 4.8), sharey=True)
    for axis, (kind, title) in zip(axes, _PANELS, strict=True):
        for engine, values in samples_of_common_cases(times, engines, kind).items():
            _curve(axis, engine, np.sort(np.array(values, dtype=np.float64)) / 1e3)
        axis.set_title(title)
        axis.set_xlabel("µs")
        axis.grid(visible=True, which="major", alpha=0.4)
    axes[0].set_ylabel("share of samples that take longer")
    axes[0].legend()
    figure.suptitle(subtitle, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _curve(axis: Any, engine: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    share = 1 - np.arange(values.size) / values.size
    # At about equal distances on the axis: all of the fast samples would take minutes to draw.
    places = np.unique(values.size - np.geomspace(1, values.size, 2_000).astype(np.int64))
    axis.loglog(values[places], share[places], label=engine)
