from typing import Any

import numpy as np
from numpy.typing import NDArray

def apply_rows(logits: NDArray[Any], mask: NDArray[np.int32], allowed: int) -> None: ...
