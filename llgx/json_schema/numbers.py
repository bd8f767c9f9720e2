"""Sets of numbers, exactly: intervals, multiples, single numbers, and what is left without them.

A :class:`NumberSet` is a set of decimal numbers (JSON has no others), described symbolically with
rational arithmetic of any size. Sets are immutable and hashable, and have a normal form: ends that
are multiples where only multiples count, nothing left out that would not be in anyway, values where
an interval is a point. Equal descriptions are equal sets; the reverse holds for what schemas say.

A set is spelled as a regex over JSON text. :class:`NumberSpelling` says how freely. By default
integers have no fraction and no exponent; of other sets a number may be written with zeros at the
end of its fraction ("10.50", "3.0"), and ``ANY`` with an exponent as well. Spelling never changes
which numbers a set holds: what is no integer is not spelled ``1.0``. ``-0`` is a text of 0 in sets
that go below zero.

Multiples are digits with a residue (:class:`llgx.ir.Remainder`), not automata written out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar, Final

from llgx import ir
from llgx.errors import LimitError
from llgx.json_schema.digits import DIGIT, Magnitudes, decimal_places, decimal_text
from llgx.json_schema.digits import magnitudes_regex as _magnitudes_regex
from llgx.json_schema.exponents import scientific_regexes
from llgx.regex.build import alternate, complement, concat, intersect

__all__ = ["UNIQUE_NUMBERS", "NumberSet", "NumberSpelling"]

_MINUS: Final = ir.Literal(b"-")
_SIGN: Final = ir.Repeat(_MINUS, 0, 1)
_NO_NUMBERS: Final[frozenset[Fraction]] = frozenset()
# Steps that the search for a number takes before it is too long.
_SEARCH: Final = 20_000
# Numbers of an interval that `values` lists.
_LISTED: Final = 64
_ONE: Final = Fraction(1)
_ZERO: Final = Fraction(0)


@dataclasses.dataclass(frozen=True, slots=True)
class NumberSpelling:
    """Which texts stand for a number.

    ``zeros`` says whether a fraction may end in zeros: "never"; "reals": in sets that are neither
    finite nor of integers only; "always": there too, so that an integer may be ``1.0``.
    ``exponent`` allows ``1e5``: "never"; "any": for ``NumberSet.ANY`` only; "always": for intervals
    too, with one digit other than zero before the point. Of integers there is then what an
    implementation prints that way: up to 16 digits of fraction from ``e16`` on.
    ``negative_zero`` allows ``-0`` where a set goes below zero.
    """

    zeros: str = "reals"
    exponent: str = "any"
    negative_zero: bool = True

    def __post_init__(self) -> None:
        if self.zeros not in ("never", "reals", "always"):
            raise ValueError(f"zeros is 'never', 'reals' or 'always', not {self.zeros!r}")
        if self.exponent not in ("never", "any", "always"):
            raise ValueError(f"exponent is 'never', 'any' or 'always', not {self.exponent!r}")


_DEFAULT: Final = NumberSpelling()
# One text for each number, so that different texts are different numbers.
UNIQUE_NUMBERS: Final = NumberSpelling("never", "never", False)


@dataclasses.dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of decimal numbers; made by the class methods, not by the constructor.

    Numbers from ``low`` to ``high`` (None: no end; ``*_open``: the end left out) that are multiples
    of ``multiple`` (None: of whatever) and of none of ``not_multiples``, without ``excluded``; or,
    where ``finite`` is not None, just those.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    multiple: Fraction | None = None
    not_multiples: frozenset[Fraction] = _NO_NUMBERS
    excluded: frozenset[Fraction] = _NO_NUMBERS
    finite: frozenset[Fraction] | None = None

    ANY: ClassVar[NumberSet]
    INTEGERS: ClassVar[NumberSet]
    NONE: ClassVar[NumberSet]

    # Construction

    @classmethod
    def of(cls, values: Iterable[Fraction | int]) -> NumberSet:
        """Just ``values``. Raises ``ValueError`` for one that has no end in decimal."""
        return cls(finite=frozenset(_decimal(value) for value in values))

    @classmethod
    def between(
        cls,
        low: Fraction | int | None,
        high: Fraction | int | None,
        low_open: bool = False,
        high_open: bool = False,
    ) -> NumberSet:
        """Numbers from ``low`` to ``high``. Raises ``ValueError`` as :meth:`of` does."""
        return _normal(
            None if low is None else _decimal(low),
            None if high is None else _decimal(high),
            low_open and low is not None,
            high_open and high is not None,
        )

    @classmethod
    def multiples_of(cls, divisor: Fraction | int) -> NumberSet:
        """All integer multiples of ``divisor``. Raises ``ValueError`` if that is zero."""
        if divisor == 0:
            raise ValueError("multiples of zero")
        if divisor == 1:
            return cls.INTEGERS
        step = abs(Fraction(divisor))
        # Of a third only the integer multiples are decimal numbers.
        rest = step.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        return cls(multiple=step * rest)

    # Algebra

    def meet(self, *others: NumberSet) -> NumberSet:
        """What is in all of the sets."""
        result = self
        for other in others:
            result = result._meet(other)
        return result

    def _meet(self, other: NumberSet) -> NumberSet:
        if other is _ANY or self is other:
            return self
        if self is _ANY:
            return other
        if self.finite is not None:
            return NumberSet(finite=frozenset(filter(other.contains, self.finite)))
        if other.finite is not None:
            return other._meet(self)
        low, low_open = self.low, self.low_open
        if other.low is not None and (low is None or other.low > low):
            low, low_open = other.low, other.low_open
        elif other.low == low:
            low_open = low_open or other.low_open
        high, high_open = self.high, self.high_open
        if other.high is not None and (high is None or other.high < high):
            high, high_open = other.high, other.high_open
        elif other.high == high:
            high_open = high_open or other.high_open
        multiple = self.multiple
        if multiple is None:
            multiple = other.multiple
        elif other.multiple is not None:
            multiple = _lcm(multiple, other.multiple)
        return _normal(
            low,
            high,
            low_open,
            high_open,
            multiple,
            self.not_multiples | other.not_multiples,
            self.excluded | other.excluded,
        )

    def complement(self) -> tuple[NumberSet, ...]:
        """Disjoint sets that together hold every other number."""
        if self.finite is not None:
            return (_normal(excluded=self.finite),)
        parts: list[NumberSet] = []
        if self.low is not None:
            parts.append(_normal(high=self.low, high_open=not self.low_open))
        if self.high is not None:
            parts.append(_normal(low=self.high, low_open=not self.high_open))
        inside = _normal(self.low, self.high, self.low_open, self.high_open)
        if self.multiple is not None:
            parts.append(inside.meet(NumberSet(not_multiples=frozenset((self.multiple,)))))
            inside = inside.meet(NumberSet(multiple=self.multiple))
        for step in sorted(self.not_multiples):
            parts.append(inside.meet(NumberSet(multiple=step)))
            inside = inside.meet(NumberSet(not_multiples=frozenset((step,))))
        if self.excluded:
            parts.append(NumberSet(finite=self.excluded).meet(inside))
        return tuple(part for part in parts if part != _NONE)

    # Questions

    @property
    def is_any(self) -> bool:
        """Whether every number is in the set."""
        return self is _ANY or self == _ANY

    @property
    def is_integers_only(self) -> bool:
        """Whether all numbers of the set are integers, as far as its description shows."""
        if self.finite is not None:
            return all(value.denominator == 1 for value in self.finite)
        return self.multiple is not None and self.multiple.denominator == 1

    @property
    def values(self) -> frozenset[Fraction] | None:
        """The numbers of the set if there are few and that is easy to tell, else None."""
        if self.finite is not None:
            return self.finite
        listed = self.enumerate(_LISTED)
        return None if listed is None else frozenset(listed)

    def contains(self, number: Fraction | int) -> bool:
        """Whether ``number`` is in the set."""
        if self.finite is not None:
            return number in self.finite
        if self.low is not None and (number < self.low or (self.low_open and number == self.low)):
            return False
        if self.high is not None and (
            number > self.high or (self.high_open and number == self.high)
        ):
            return False
        if self.multiple is not None and number % self.multiple:
            return False
        return number not in self.excluded and all(number % step for step in self.not_multiples)

    def is_empty(self) -> bool:
        """Whether there is no number in the set. Exact.

        Raises ``LimitError`` where a long search for a number that is no multiple finds none.
        """
        if self.finite is not None:
            return not self.finite
        if self.multiple is None:
            return False  # a normal interval is dense
        if self._all_left_out():
            return True
        if self.low is None or self.high is None or not (self.not_multiples or self.excluded):
            return False
        return self._first(1) == []

    def is_disjoint(self, other: NumberSet) -> bool:
        """Whether no number is in both. As :meth:`is_empty`."""
        return self.meet(other).is_empty()

    def enumerate(self, limit: int) -> list[Fraction] | None:
        """The numbers of the set in order; None if there are more than ``limit``."""
        if self.finite is not None:
            return None if len(self.finite) > limit else sorted(self.finite)
        if self._all_left_out():
            return []
        if self.multiple is None or self.low is None or self.high is None:
            return None
        most = (self.high - self.low) / self.multiple + 1
        if not self.not_multiples and most - len(self.excluded) > limit:
            return None
        found = self._first(limit + 1)
        return None if len(found) > limit else found

    def _all_left_out(self) -> bool:
        multiple = self.multiple
        return multiple is not None and any(not multiple % step for step in self.not_multiples)

    def _first(self, count: int) -> list[Fraction]:
        """The first numbers of a bounded set of multiples, at most so many."""
        assert self.low is not None
        assert self.high is not None
        assert self.multiple is not None
        found: list[Fraction] = []
        number = self.low
        steps = 0
        while number <= self.high and len(found) < count:
            if number not in self.excluded and all(number % step for step in self.not_multiples):
                found.append(number)
            number += self.multiple
            steps += 1
            if steps > _SEARCH:
                raise LimitError(
                    f"no number found among {_SEARCH} multiples", limit="emptiness_steps"
                )
        return found

    # Spelling

    def regex(self, spelling: NumberSpelling = _DEFAULT) -> ir.Regex:
        """The JSON texts of the numbers of the set; ``ir.EMPTY`` if there is none. Kept.

        Raises ``GrammarError`` for numbers of more than 4,000 digits.
        """
        return _spell(self, spelling)


def _decimal(number: Fraction | int) -> Fraction:
    result = number if type(number) is Fraction else Fraction(number)
    if result.denominator != 1 and decimal_places(result) is None:
        raise ValueError(f"{number} has no end in decimal")
    return result


def _lcm(left: Fraction, right: Fraction) -> Fraction:
    return Fraction(
        math.lcm(left.numerator, right.numerator), math.gcd(left.denominator, right.denominator)
    )


def _normal(
    low: Fraction | None = None,
    high: Fraction | None = None,
    low_open: bool = False,
    high_open: bool = False,
    multiple: Fraction | None = None,
    not_multiples: frozenset[Fraction] = _NO_NUMBERS,
    excluded: frozenset[Fraction] = _NO_NUMBERS,
) -> NumberSet:
    """The set of that description in normal form."""
    if multiple is not None:
        if low is not None:
            count = math.ceil(low / multiple)
            if low_open and count * multiple == low:
                count += 1
            low, low_open = count * multiple, False
        if high is not None:
            count = math.floor(high / multiple)
            if high_open and count * multiple == high:
                count -= 1
            high, high_open = count * multiple, False
    if low is not None and high is not None and low >= high:
        if low > high or low_open or high_open:
            return _NONE
        point = NumberSet(multiple=multiple, not_multiples=not_multiples, excluded=excluded)
        return NumberSet(finite=frozenset((low,))) if point.contains(low) else _NONE
    if excluded or not_multiples:
        whole = NumberSet(low, high, low_open, high_open, multiple, not_multiples)
        excluded = frozenset(filter(whole.contains, excluded))
        if low in excluded and multiple is None:
            low_open = True
        if high in excluded and multiple is None:
            high_open = True
        if multiple is None:
            excluded -= {low, high}
    if low is None and high is None and not (excluded or not_multiples):
        if multiple is None:
            return _ANY
        if multiple == 1:
            return NumberSet.INTEGERS
    return NumberSet(low, high, low_open, high_open, multiple, not_multiples, excluded)


_ANY: Final = NumberSet()
_NONE: Final = NumberSet(finite=_NO_NUMBERS)
NumberSet.ANY = _ANY
NumberSet.NONE = _NONE
NumberSet.INTEGERS = NumberSet(multiple=_ONE)


# --- Spelling ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _spell(numbers: NumberSet, spelling: NumberSpelling) -> ir.Regex:
    if numbers.finite is not None:
        return alternate(_spell_number(value, spelling) for value in sorted(numbers.finite))
    fraction = _fraction_of(numbers, spelling)
    options: list[ir.Regex] = []
    for part in _without_points(numbers):
        if part.finite is not None:
            options += [_spell_number(value, spelling) for value in part.finite]
        else:
            options += _spell_signs(part, fraction, spelling)
    if numbers.is_any and spelling.exponent != "never":
        exponent = (ir.ByteSet(1 << 0x45 | 1 << 0x65), _EXPONENT_SIGN, ir.Repeat(DIGIT, 1, None))
        return concat((alternate(options), ir.Repeat(ir.Concat(exponent), 0, 1)))
    if (
        spelling.exponent == "always"
        and not (numbers.excluded or numbers.not_multiples)
        and numbers.multiple in (None, 1)
    ):
        options += scientific_regexes(
            (numbers.low, numbers.low_open),
            (numbers.high, numbers.high_open),
            numbers.multiple is not None,
        )
    result = alternate(options)
    return intersect((result, *map(_no_multiples, sorted(numbers.not_multiples))))


_EXPONENT_SIGN: Final = ir.Repeat(ir.ByteSet(1 << 0x2B | 1 << 0x2D), 0, 1)


def _spell_number(number: Fraction, spelling: NumberSpelling) -> ir.Regex:
    text = decimal_text(number)
    if spelling.zeros != "always":
        return ir.Literal(text.encode())
    zeros = ir.Repeat(ir.Literal(b"0"), 0, None)
    if "." in text:
        return concat((ir.Literal(text.encode()), zeros))
    return concat((ir.Literal(text.encode()), ir.Repeat(concat((ir.Literal(b".0"), zeros)), 0, 1)))


def _fraction_of(numbers: NumberSet, spelling: NumberSpelling) -> str:
    if spelling.zeros == "always":
        return "zeros"
    if numbers.is_integers_only:
        return "none"
    return "zeros" if spelling.zeros == "reals" else "shortest"


def _without_points(numbers: NumberSet) -> list[NumberSet]:
    """``numbers`` cut into intervals at the points that are left out."""
    parts: list[NumberSet] = []
    step = numbers.multiple
    low, low_open = numbers.low, numbers.low_open
    points = sorted(numbers.excluded)
    for point in points:
        if step is None:
            parts.append(_normal(low, point, low_open, True))
            low, low_open = point, True
        else:
            parts.append(_normal(low, point - step, False, False, step))
            low = point + step
    parts.append(_normal(low, numbers.high, low_open, numbers.high_open, step))
    return [part for part in parts if part != _NONE]


def _spell_signs(numbers: NumberSet, fraction: str, spelling: NumberSpelling) -> list[ir.Regex]:
    """The texts of an interval, or of the multiples in it."""
    low, high = numbers.low, numbers.high
    modulus, places = None, 0
    if numbers.multiple is not None:
        places = decimal_places(numbers.multiple) or 0
        modulus = int(numbers.multiple * 10**places)
    positive = negative = None
    if high is None or high >= 0:
        above = low is not None and low > 0
        positive = Magnitudes(
            low if above and low is not None else _ZERO,
            high,
            numbers.low_open and low is not None and low >= 0,
            numbers.high_open,
            fraction,
            modulus,
            places,
        )
        if positive.high == 0 and (positive.high_open or positive.low_open):
            positive = None
    if low is None or low < 0:
        below = high is not None and high < 0
        zero = numbers.contains(0) and spelling.negative_zero
        first = -high if below and high is not None else _ZERO
        first_open = numbers.high_open if below else not zero
        if modulus is not None and first_open:
            assert numbers.multiple is not None
            first, first_open = numbers.multiple, False
        last = None if low is None else -low
        if last is None or first <= last:
            negative = Magnitudes(
                first, last, first_open, numbers.low_open, fraction, modulus, places
            )
    if positive is not None and positive == negative:
        return [concat((_SIGN, _magnitudes_regex(positive)))]
    options = []
    if positive is not None:
        options.append(_magnitudes_regex(positive))
    if negative is not None:
        options.append(concat((_MINUS, _magnitudes_regex(negative))))
    return options


def _no_multiples(step: Fraction) -> ir.Regex:
    """Everything but the texts without exponent of the multiples of ``step``."""
    places = decimal_places(step) or 0
    modulus = int(step * 10**places)
    texts = ir.Remainder(modulus, 0, 1, None, places, "zeros")
    return complement(concat((_SIGN, texts)))
