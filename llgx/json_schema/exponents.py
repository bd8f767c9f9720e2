"""Numbers of an interval in scientific notation, as regexes.

A text is ``d.ddd`` with one digit other than zero before the point, ``e`` and an exponent, which
may have a sign and zeros in front. Written so, numbers compare by exponent first and by the rest
only where exponents are equal: that is what makes an interval regular.

Invariant: a text matches exactly if its number lies in the interval. Of integers, where digits
after the point would have to be counted against the exponent, a part is spelled: no fraction, or up
to 16 digits of it with an exponent from 16 on (what programs print for large floating-point
integers).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from llgx import ir
from llgx.json_schema.digits import Magnitudes, magnitudes_regex
from llgx.regex.build import alternate, concat, intersect

__all__ = ["scientific_regexes"]

_E: Final = ir.ByteSet(1 << 0x45 | 1 << 0x65)
_MINUS: Final = ir.Literal(b"-")
_PLUS: Final = ir.Repeat(ir.Literal(b"+"), 0, 1)
_ZEROS: Final = ir.Repeat(ir.Literal(b"0"), 0, None)
_NONZERO: Final = ir.ByteSet(0x3FE << 0x30)
_DIGIT: Final = ir.ByteSet(0x3FF << 0x30)
_PRECISION: Final = 16
_SHORT: Final = ir.Concat(
    (_NONZERO, ir.Literal(b"."), ir.Repeat(_DIGIT, 1, _PRECISION)),
)

_End = tuple["Fraction | None", bool]  # an end of an interval, and whether it is left out
_ONE: Final = Fraction(1)
_TEN: Final = Fraction(10)


def scientific_regexes(low: _End, high: _End, integers: bool) -> list[ir.Regex]:
    """The texts of the numbers between two ends; only of ``integers``, if that is given."""
    options: list[ir.Regex] = []
    if high[0] is None or high[0] > 0:
        above = low if low[0] is not None and low[0] > 0 else (Fraction(0), True)
        options += _positive(above, high, integers)
    if low[0] is None or low[0] < 0:
        below: _End = (Fraction(0), True)
        if high[0] is not None and high[0] < 0:
            below = (-high[0], high[1])
        far: _End = (None if low[0] is None else -low[0], low[1])
        options += [concat((_MINUS, item)) for item in _positive(below, far, integers)]
    return options


def _positive(low: _End, high: _End, integers: bool) -> list[ir.Regex]:
    first, first_open = low
    last, last_open = high
    assert first is not None
    begin = _normalised(first) if first else None
    end = None if last is None else _normalised(last)
    if begin is not None and end is not None and begin[1] == end[1]:
        return _spell(begin[0], first_open, end[0], last_open, begin[1], begin[1], integers)
    options: list[ir.Regex] = []
    lowest = highest = None
    if begin is not None:
        options += _spell(begin[0], first_open, _TEN, True, begin[1], begin[1], integers)
        lowest = begin[1] + 1
    if end is not None:
        options += _spell(_ONE, False, end[0], last_open, end[1], end[1], integers)
        highest = end[1] - 1
    if lowest is None or highest is None or lowest <= highest:
        options += _spell(_ONE, False, _TEN, True, lowest, highest, integers)
    return options


def _normalised(number: Fraction) -> tuple[Fraction, int]:
    """``number`` as (m, x): m times ten to the power of x, m from 1 to below 10."""
    bits = number.numerator.bit_length() - number.denominator.bit_length()
    exponent = bits * 30103 // 100000
    scaled = number / _TEN**exponent
    while scaled >= 10:
        scaled /= 10
        exponent += 1
    while scaled < 1:
        scaled *= 10
        exponent -= 1
    return scaled, exponent


def _spell(
    low: Fraction,
    low_open: bool,
    high: Fraction,
    high_open: bool,
    first: int | None,
    last: int | None,
    integers: bool,
) -> list[ir.Regex]:
    """Texts with a part before the ``e`` in one interval and an exponent in another."""
    if low > high or (low == high and (low_open or high_open)):
        return []
    digits = magnitudes_regex(Magnitudes(low, high, low_open, high_open, "zeros"))
    if not integers:
        return [concat((digits, _E, _exponents(first, last)))]
    options: list[ir.Regex] = []
    for shape, least in ((_NONZERO, 0), (_SHORT, _PRECISION)):
        begin = least if first is None else max(first, least)
        if last is None or begin <= last:
            options.append(concat((intersect((digits, shape)), _E, _exponents(begin, last))))
    return options


def _exponents(low: int | None, high: int | None) -> ir.Regex:
    options: list[ir.Regex] = []
    if high is None or high >= 0:
        digits = _integers(max(low or 0, 0), high)
        options.append(concat((_PLUS, _ZEROS, digits)))
    if low is None or low <= 0:
        least = 0 if high is None or high >= 0 else -high
        options.append(concat((_MINUS, _ZEROS, _integers(least, None if low is None else -low))))
    return alternate(options)


def _integers(low: int, high: int | None) -> ir.Regex:
    last = None if high is None else Fraction(high)
    return magnitudes_regex(Magnitudes(Fraction(low), last, False, False, "none", 1))
