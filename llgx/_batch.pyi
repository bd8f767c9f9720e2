from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from llgx._core import Matcher

def fill_bitmasks(
    matchers: Iterable[Matcher | None], mask: NDArray[np.int32], *, threads: int = 1
) -> None: ...
