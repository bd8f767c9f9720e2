"""Derivatives of :class:`llgx.ir.Remainder`, digit by digit and without any shortcut."""

from __future__ import annotations

import dataclasses

from llgx.ir import Remainder

__all__ = ["BYTES", "derive_remainder", "remainder_is_nullable"]

BYTES = b"0123456789."


def remainder_is_nullable(regex: Remainder) -> bool:
    """Whether ``regex`` matches the empty string."""
    if regex.part == "point" or (regex.part == "integer" and regex.low):
        return False
    return regex.residue % regex.modulus == 0


def derive_remainder(regex: Remainder, byte: int) -> Remainder | None:
    """What may follow ``byte``; None if it cannot stand there. It may be empty all the same."""
    if byte not in BYTES:
        return None
    if byte == ord("."):
        if regex.part != "integer" or regex.fraction == "none" or regex.low:
            return None
        return dataclasses.replace(regex, part="point", high=0)
    digit = byte - ord("0")
    if regex.part == "integer":
        if regex.high == 0:
            return None
        return dataclasses.replace(
            regex,
            residue=(regex.residue * 10 + digit * 10**regex.places) % regex.modulus,
            low=max(regex.low - 1, 0),
            high=None if regex.high is None else regex.high - 1,
        )
    if not regex.places and digit:
        return None
    places = max(regex.places - 1, 0)
    return dataclasses.replace(
        regex,
        residue=(regex.residue + digit * 10**places) % regex.modulus,
        places=places,
        part="point" if regex.fraction == "shortest" and not digit else "fraction",
    )
