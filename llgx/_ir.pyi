import dataclasses
from typing import TypeAlias

_Regex: TypeAlias = (
    Literal
    | ByteSet
    | Concat
    | Alternation
    | Intersection
    | Complement
    | Repeat
    | Remainder
    | Substring
)
_Symbol: TypeAlias = TerminalRef | RuleRef

@dataclasses.dataclass(frozen=True)
class Literal:
    data: bytes

@dataclasses.dataclass(frozen=True)
class ByteSet:
    mask: int

@dataclasses.dataclass(frozen=True)
class Concat:
    items: tuple[_Regex, ...]

@dataclasses.dataclass(frozen=True)
class Alternation:
    items: tuple[_Regex, ...]

@dataclasses.dataclass(frozen=True)
class Intersection:
    items: tuple[_Regex, ...]

@dataclasses.dataclass(frozen=True)
class Complement:
    item: _Regex

@dataclasses.dataclass(frozen=True)
class Repeat:
    item: _Regex
    low: int
    high: int | None

@dataclasses.dataclass(frozen=True)
class Remainder:
    modulus: int
    residue: int = 0
    low: int = 0
    high: int | None = None
    places: int = 0
    fraction: str = "none"
    part: str = "integer"

@dataclasses.dataclass(frozen=True)
class Substring:
    pieces: tuple[bytes, ...]

@dataclasses.dataclass(frozen=True)
class ParamExpr:
    op: str
    a: int = 0
    b: int = 0

@dataclasses.dataclass(frozen=True)
class Condition:
    op: str
    a: int = 0
    b: int = 64
    value: int = 0
    items: tuple[Condition, ...] = ()

@dataclasses.dataclass(frozen=True)
class TokenSet:
    names: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    negated: bool = False
    optional: bool = False
    place: tuple[str, int, str] | None = dataclasses.field(default=None, compare=False, repr=False)

@dataclasses.dataclass(frozen=True)
class TerminalRef:
    index: int

@dataclasses.dataclass(frozen=True)
class RuleRef:
    index: int
    argument: ParamExpr | None = None

@dataclasses.dataclass(frozen=True)
class Production:
    symbols: tuple[_Symbol, ...]
    condition: Condition | None = None

@dataclasses.dataclass
class Rule:
    name: str
    productions: list[Production]
    parametric: bool = False
    capture: str | None = None
    tail_capture: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None

@dataclasses.dataclass(frozen=True)
class Terminal:
    name: str
    regex: _Regex
    lazy: bool = False
    skip_class: int = 0
    tokens: TokenSet | None = None
    tail: _Regex | None = None
    hidden_tail: bool = False
    ends_with_eog: bool = False
    scope: str = ""
    distinct: bool = False
    unique: bool = False

@dataclasses.dataclass
class GrammarFields:
    rules: list[Rule]
    terminals: list[Terminal]
    start: int
    skip: list[int] = ...
    initial_skip: bool = False
    skip_once: bool = False
    forcing: bool = True
    warnings: list[str] = ...
    skip_once_classes: frozenset[int] | None = None
    exact: bool = False
    max_tokens: int | None = None
    unenforced: list[tuple[str, str, str]] = ...
    literals: list[str] = ...
    common: tuple[_Regex, ...] = ()
