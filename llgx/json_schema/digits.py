"""Decimal texts of the numbers in an interval, as regexes.

Numbers here are not negative. Texts have no sign, no superfluous leading zero and no exponent.
Digits are compared with both ends of the interval from the left, as one does by hand: after the
first digit that differs from an end, the rest is free of it. What is free are loops of digits, or
:class:`llgx.ir.Remainder` where multiples are wanted, so no tree holds ``&`` or ``~``.

Invariant: a text matches exactly if its number is in the set and its fraction is spelled as asked.
Cost: a few nodes per digit of the ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from llgx import ir
from llgx.errors import GrammarError
from llgx.regex.build import alternate, concat

__all__ = ["Magnitudes", "decimal_places", "decimal_text", "magnitudes_regex"]

DIGIT: Final = ir.ByteSet(0x3FF << 0x30)
_NONZERO: Final = ir.ByteSet(0x3FE << 0x30)
_DIGITS: Final = ir.Repeat(DIGIT, 0, None)
_POINT: Final = ir.Literal(b".")
_ZEROS: Final = ir.Repeat(ir.Literal(b"0"), 0, None)
# A fraction after its point, by what it may end in.
_AFTER_POINT: Final[dict[str, ir.Regex]] = {
    "zeros": ir.Repeat(DIGIT, 1, None),
    "shortest": ir.Concat((_DIGITS, _NONZERO)),
}
# Python refuses to print longer numbers, and no tree gets deeper than this allows.
_MOST_DIGITS: Final = 4_000
# So many digits are written out before the tree gets a level deeper.
_LEVEL: Final = 12


def decimal_places(number: Fraction) -> int | None:
    """How many digits ``number`` has after the point; None if it has no end in decimal."""
    rest = number.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    return max(twos, fives) if rest == 1 else None


def decimal_text(number: Fraction) -> str:
    """The shortest decimal text of ``number`` without an exponent.

    Raises ``ValueError`` if there is none, ``GrammarError`` if it has more than 4,000 digits.
    """
    places = decimal_places(number)
    if places is None:
        raise ValueError(f"{number} has no end in decimal")
    integer, fraction = _split(abs(number), places)
    sign = "-" if number < 0 else ""
    return f"{sign}{integer}.{fraction}" if fraction else f"{sign}{integer}"


def _split(number: Fraction, places: int) -> tuple[str, str]:
    """The digits of ``number`` before the point and ``places`` of them after it."""
    scaled = number.numerator * 10**places // number.denominator
    if places > _MOST_DIGITS or scaled.bit_length() > _MOST_DIGITS * 3:
        raise GrammarError(f"a number has more than {_MOST_DIGITS} digits")
    text = str(scaled).zfill(places + 1)
    return text[: len(text) - places], text[len(text) - places :]


@dataclasses.dataclass(frozen=True, slots=True)
class Magnitudes:
    """Numbers from ``low`` to ``high`` (None: no end), each end left out if it is open.

    With ``modulus`` only multiples of ``modulus`` / 10 ** ``places``; then the ends are such
    multiples and closed. ``fraction`` is as in :class:`llgx.ir.Remainder`; with "none" the modulus
    is given and ``places`` is 0.
    """

    low: Fraction
    high: Fraction | None
    low_open: bool
    high_open: bool
    fraction: str
    modulus: int | None = None
    places: int = 0


def magnitudes_regex(numbers: Magnitudes) -> ir.Regex:
    """The texts of ``numbers``. Raises ``GrammarError`` for ends of more than 4,000 digits."""
    return _Builder(numbers).build()


class _Builder:
    def __init__(self, numbers: Magnitudes) -> None:
        self.numbers = numbers
        self.fraction = numbers.fraction
        self.modulus = numbers.modulus
        self.places = numbers.places
        # Whether the digits so far matter for what may follow them.
        self._counts = self.modulus is not None and (self.modulus, self.fraction) != (1, "none")

    # What may follow where no end of the interval matters any more

    def _free(self, prefix: str, low: int, high: int | None) -> ir.Regex:
        """``low`` to ``high`` integer digits and what may follow them, after the digits
        ``prefix``."""
        modulus = self.modulus
        if modulus is None or not self._counts:
            loop = ir.EPSILON if high == 0 else ir.Repeat(DIGIT, low, high)
            return concat((loop, self._fraction()))
        residue = int(prefix) * 10**self.places % modulus
        return ir.Remainder(modulus, residue, low, high, self.places, self.fraction)

    def _fraction(self) -> ir.Regex:
        if self.fraction == "none":
            return ir.EPSILON
        return ir.Repeat(ir.Concat((_POINT, _AFTER_POINT[self.fraction])), 0, 1)

    def _free_fraction(self, integer: str, fraction: str) -> ir.Regex:
        """What may follow some digits after the point."""
        ends = self.fraction == "zeros" or fraction[-1] != "0"
        if self.modulus is None:
            if self.fraction == "zeros":
                return _DIGITS
            more = _AFTER_POINT["shortest"]
            return ir.Repeat(more, 0, 1) if ends else more
        if fraction[self.places :].strip("0"):
            return ir.EMPTY
        counted = fraction[: self.places]
        left = self.places - len(counted)
        residue = int(integer + counted) * 10**left % self.modulus
        part = "fraction" if ends else "point"
        return ir.Remainder(self.modulus, residue, 0, 0, left, self.fraction, part)

    def _range(self, integer: str, fraction: str, first: int, last: int, length: int) -> _Pieces:
        """The digits ``first`` to ``last`` after a prefix, and what may follow each of them."""
        if first > last:
            return []
        if len(integer) < length:
            left = length - len(integer) - 1
            return self._choices(first, last, lambda digit: self._free(integer + digit, left, left))
        if self.fraction == "shortest" and first == 0 < last and self.modulus is None:
            # After a zero a fraction of that kind has to go on.
            zero = self._range(integer, fraction, 0, 0, length)
            return zero + self._range(integer, fraction, 1, last, length)
        return self._choices(
            first, last, lambda digit: self._free_fraction(integer, fraction + digit)
        )

    def _choices(self, first: int, last: int, rest: Callable[[str], ir.Regex]) -> _Pieces:
        """One of the digits, and after each what ``rest`` says."""
        if not self._counts:
            mask = (1 << last + 1) - (1 << first)
            return [("", concat((ir.ByteSet(mask << 0x30), rest(str(last)))))]
        pieces: _Pieces = []
        for digit in range(first, last + 1):
            after = rest(str(digit))
            if isinstance(after, ir.Remainder) and _has_multiple(after):
                pieces.append(("", concat((ir.Literal(str(digit).encode()), after))))
        return pieces

    # What may follow along the ends of the interval

    def build(self) -> ir.Regex:
        numbers = self.numbers
        digits = 0
        if self.fraction != "none":
            ends = (numbers.low,) if numbers.high is None else (numbers.low, numbers.high)
            # One at least, so that no text of an end is over before its point.
            digits = max(self.places, 1, *(decimal_places(end) or 0 for end in ends))
        low = _split(numbers.low, digits)
        high = None if numbers.high is None else _split(numbers.high, digits)
        if high is not None and len(low[0]) == len(high[0]):
            return self._along(low, high, len(low[0]))
        pieces: list[ir.Regex] = []
        shortest = len(low[0])  # of the numbers of which all of a length are wanted
        if numbers.low_open or low[1].strip("0") or low[0].strip("0") not in ("", "1"):
            pieces.append(self._along(low, None, shortest))
            shortest += 1
        elif not int(low[0]):
            pieces.append(concat((ir.Literal(b"0"), self._free("0", 0, 0))))
        longest = None
        if high is not None:
            longest = len(high[0])
            if self.fraction != "none" or high[0].strip("9"):
                pieces.append(self._along(None, high, longest))
                longest -= 1
        if longest is None or shortest <= longest:
            least, most = shortest - 1, None if longest is None else longest - 1
            choices = self._choices(1, 9, lambda digit: self._free(digit, least, most))
            pieces.append(_close(choices))
        return alternate(pieces)

    def _along(
        self, low: tuple[str, str] | None, high: tuple[str, str] | None, length: int
    ) -> ir.Regex:
        """Texts of ``length`` integer digits that are not below ``low`` and not above ``high``.

        From the last digit to the first: what may follow so many digits of the lower end, of the
        upper end, and of both as long as they agree.
        """
        ends = [end[0] + end[1] for end in (low, high) if end is not None]
        total = len(ends[0])
        agree = 0
        if len(ends) == 2:
            agree = next((i for i in range(total) if ends[0][i] != ends[1][i]), total)
        after_low: _Pieces | None = None
        after_high: _Pieces | None = None
        after_both: _Pieces = []
        for at in range(total, -1, -1):
            if low is not None and (high is None or at > agree or agree == total):
                after_low = self._step(low, None, after_low, None, at, length)
            if high is not None and (low is None or at > agree or agree == total):
                after_high = self._step(None, high, None, after_high, at, length)
            if low is not None and high is not None and at <= agree:
                if at == agree:
                    after_both = self._step(low, high, after_low, after_high, at, length)
                else:
                    after_both = self._step(low, high, after_both, after_both, at, length)
        pieces = after_both if len(ends) == 2 else after_low if high is None else after_high
        return _close(pieces or [])

    def _step(
        self,
        low: tuple[str, str] | None,
        high: tuple[str, str] | None,
        after_low: _Pieces | None,
        after_high: _Pieces | None,
        at: int,
        length: int,
    ) -> _Pieces:
        """What may follow ``at`` digits of the ends that are given, which agree so far."""
        end = low or high
        assert end is not None
        text = end[0] + end[1]
        integer, fraction = text[: min(at, length)], text[length:at]
        if at == len(text):
            return self._at_end(low is not None, high is not None, integer, fraction)
        pieces: _Pieces = []
        lowest = int(length > 1 and at == 0)
        low_digit = None if low is None else int((low[0] + low[1])[at])
        high_digit = None if high is None else int((high[0] + high[1])[at])
        if low_digit is not None and low_digit == high_digit:
            pieces += _shift(str(low_digit), after_low, at)
        else:
            first, last = lowest, 9
            if low_digit is not None:
                pieces += _shift(str(low_digit), after_low, at)
                first = low_digit + 1
            if high_digit is not None:
                pieces += _shift(str(high_digit), after_high, at)
                last = high_digit - 1
            pieces += self._range(integer, fraction, first, last, length)
        if at < length:
            return pieces
        if at == length:
            pieces = [("." + prefix, rest) for prefix, rest in pieces]
        if self._may_end(low, high, at, fraction):
            pieces.append(("", ir.EPSILON))
        return pieces

    def _may_end(
        self, low: tuple[str, str] | None, high: tuple[str, str] | None, at: int, fraction: str
    ) -> bool:
        """Whether a number may end after ``at`` digits of the ends, at least all integer ones."""
        numbers = self.numbers
        if fraction and fraction[-1] == "0" and self.fraction == "shortest":
            return False
        if low is not None and ((low[0] + low[1])[at:].strip("0") or numbers.low_open):
            return False
        if high is not None and numbers.high_open and not (high[0] + high[1])[at:].strip("0"):
            return False
        if self.modulus is not None:
            end = low or high
            assert end is not None
            text = (end[0] + end[1])[:at].ljust(len(end[0] + end[1]), "0")
            step: int = self.modulus * 10 ** (len(end[1]) - self.places)
            return int(text) % step == 0
        return True

    def _at_end(self, is_low: bool, is_high: bool, integer: str, fraction: str) -> _Pieces:
        """What may follow all digits of an end."""
        numbers = self.numbers
        if self.fraction == "none":
            return [("", ir.EPSILON)]
        if is_low and not is_high and self.modulus is None:
            if not numbers.low_open:
                return [("", self._free_fraction(integer, fraction))]
            rest: ir.Regex = _AFTER_POINT["shortest"]
            return [("", rest if self.fraction == "shortest" else concat((rest, _DIGITS)))]
        if is_high and numbers.high_open:
            return []
        if self.fraction == "zeros":
            return [("", _ZEROS)]
        return [("", ir.EPSILON)] if fraction[-1] != "0" else []


# Alternatives: digits, and what may follow them.
_Pieces = list[tuple[str, ir.Regex]]


def _shift(digit: str, pieces: _Pieces | None, at: int) -> _Pieces:
    """``pieces`` with ``digit`` before each, or as one piece where the tree gets a new level."""
    assert pieces is not None
    if at % _LEVEL == 0 and len(pieces) > 1:
        return [(digit, _close(pieces))]
    return [(digit + prefix, rest) for prefix, rest in pieces]


def _close(pieces: _Pieces) -> ir.Regex:
    return alternate(concat((ir.Literal(prefix.encode()), rest)) for prefix, rest in pieces)


def _has_multiple(rest: ir.Remainder) -> bool:
    """Whether a remainder matches anything, as far as that is cheap to tell."""
    if rest.high is None or rest.high > rest.low:
        return True  # not looked into
    wanted: int = -rest.residue * 10**rest.low % rest.modulus
    if rest.part == "point" and rest.fraction == "shortest":
        wanted = wanted or rest.modulus
    reached: int = 10 ** (rest.low + rest.places)
    return wanted < reached
