from typing import Any

import numpy as np
from numpy.typing import NDArray

def read_tokens(
    vocab: int,
    count: int,
    *,
    token_to_piece: int,
    get_attr: int,
    get_text: int,
    is_eog: int,
) -> tuple[list[bytes], list[int], list[int]]: ...
def constrain(scores: NDArray[Any], mask: NDArray[np.int32], size: int) -> bool: ...
def force(scores: NDArray[Any], token: int) -> None: ...
