# cython: language_level=3
"""The objects that grammars are described with: see :mod:`llgx.ir`, which shows them.

They are extension types because a schema takes hundreds of them, which Python makes in a
microsecond each and the core then reads attribute by attribute.

Invariant: all but rules are immutable and compare by content. They refer to one another by number,
so that there are no circles among them: those that are many and do not nest are nothing to the
garbage collector, which would else go through each of them, and keep its links in them. Cost: some
0.1 µs to make one.
"""

cimport cython
from cython.dataclasses cimport dataclass, field

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall()


cdef Py_hash_t _hash_below(object parts) except? -1:
    """The hash of ``parts``, which may nest: ``RecursionError`` where that is too deep."""
    Py_EnterRecursiveCall(" while hashing a regex")
    try:
        return hash(parts)
    finally:
        Py_LeaveRecursiveCall()


@dataclass(frozen=True)
@cython.final
cdef class Literal:
    """Exactly these bytes; ``Literal(b"")`` is the empty string."""

    data: bytes


@dataclass(frozen=True)
@cython.final
cdef class ByteSet:
    """One byte out of a set: bit ``b`` of ``mask`` is set when byte ``b`` belongs to it."""

    mask: object


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Concat:
    """One after the other."""

    items: tuple

    def __hash__(self):
        return _hash_below(("concat", self.items))


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Alternation:
    """Any of them; without items, the empty language."""

    items: tuple

    def __hash__(self):
        return _hash_below(("alternation", self.items))


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Intersection:
    """All of them at once; without items, every byte string."""

    items: tuple

    def __hash__(self):
        return _hash_below(("intersection", self.items))


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Complement:
    """Every byte string that ``item`` does not match, invalid UTF-8 included."""

    item: object

    def __hash__(self):
        return _hash_below(("complement", self.item))


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Repeat:
    """``low`` to ``high`` times ``item``; ``high`` is None for no bound."""

    item: object
    low: object
    high: object

    def __hash__(self):
        return _hash_below(("repeat", self.item, self.low, self.high))


@dataclass(frozen=True)
@cython.final
cdef class Remainder:
    """The digits of decimal numbers that are multiples of ``modulus`` / 10 ** ``places``.

    ``part`` says where in the number the text begins. "integer": with ``low`` to ``high`` integer
    digits (``high`` None for no bound; leading zeros are digits like any others), after which, if
    ``fraction`` allows it, a point and digits may stand. "point": after the point, with one digit
    or more to come. "fraction": among the digits after the point, of which the last ``places`` that
    count are still to come.

    ``fraction`` is what may follow the integer digits: "none"; "zeros": any fraction; "shortest": a
    fraction that does not end in a zero.

    ``residue`` is what the digits before the text are worth, in units of 10 ** -``places`` for the
    last of them. So the text w with the point p of its digits away from the end matches if residue
    * 10 ** (integer digits in w) + w * 10 ** places is an integer and a multiple of ``modulus``.
    The modulus is at most :data:`MAX_MODULUS` for the engine, whatever the number of multiples.
    """

    modulus: object
    residue: object = 0
    low: object = 0
    high: object = None
    places: object = 0
    fraction: str = "none"
    part: str = "integer"


@dataclass(frozen=True)
@cython.final
cdef class Substring:
    """Any run of consecutive ``pieces``, the empty one included."""

    pieces: tuple


@dataclass(frozen=True)
@cython.final
@cython.no_gc
cdef class ParamExpr:
    """An argument computed from the parameter ``_`` of the enclosing rule (64-bit, unsigned).

    ``op`` is one of ``const`` (value ``a``), ``self`` (the parameter itself), ``set_bit``,
    ``clear_bit`` (bit number ``a``), ``bit_and``, ``bit_or`` (mask ``a``), ``incr``, ``decr`` (of
    the slice of bits ``a`` to ``b - 1``, saturating).
    """

    op: str
    a: object = 0
    b: object = 0


@dataclass(frozen=True)
@cython.final
@cython.trashcan(True)
cdef class Condition:
    """A guard of a production over the parameter of its rule.

    ``op`` is ``true``; ``eq ne lt le gt ge`` (slice ``[a:b]`` against ``value``); ``bit_count_eq``
    and its five sisters (population count of the slice against ``value``); ``bit_set``,
    ``bit_clear`` (bit ``a``); ``is_ones``, ``is_zeros`` (slice); ``and``, ``or``, ``not`` (of
    ``items``).
    """

    op: str
    a: object = 0
    b: object = 64
    value: object = 0
    items: tuple = ()

    def __hash__(self):
        return _hash_below(("condition", self.op, self.a, self.b, self.value, self.items))


@dataclass(frozen=True)
@cython.final
@cython.no_gc
cdef class TokenSet:
    """Tokens of the model, matched by their ids and never as text.

    The special tokens spelled as in ``names`` and the ids in ``ranges`` (ends included), or with
    ``negated`` all others: ``TokenSet(negated=True)`` is any token. Names and ids are looked up
    when a vocabulary is known; where it has no token of a name, that is an error unless the set is
    ``optional``. ``place`` is where that error points: the text of the grammar, the offset in it,
    and its name or ``""``.
    """

    names: tuple = ()
    ranges: tuple = ()
    negated: cython.bint = False
    optional: cython.bint = False
    place: tuple = field(default=None, compare=False, repr=False, hash=False)


@dataclass(frozen=True)
@cython.final
cdef class TerminalRef:
    """The terminal at ``index`` of :attr:`GrammarIR.terminals`."""

    index: cython.Py_ssize_t


@dataclass(frozen=True)
@cython.final
@cython.no_gc
cdef class RuleRef:
    """The rule at ``index`` of :attr:`GrammarIR.rules`, with its argument if it takes one."""

    index: cython.Py_ssize_t
    argument: ParamExpr = None


@dataclass(frozen=True)
@cython.final
@cython.no_gc
cdef class Production:
    """One alternative of a rule; empty ``symbols`` derive the empty string."""

    symbols: tuple
    condition: Condition = None


@dataclass
@cython.final
@cython.no_gc
cdef class Rule:
    """A nonterminal. ``name`` is for messages; front ends may leave it empty for helper rules.

    ``capture`` names the text of each derivation in :meth:`llgx.Matcher.captures`, without the
    tail of a terminal that ends it; ``tail_capture`` names that tail. At most ``max_tokens`` model
    tokens are spent within one derivation. ``temperature`` is what hosts may sample with there.
    """

    name: str
    productions: list
    parametric: cython.bint = False
    capture: object = None
    tail_capture: object = None
    max_tokens: object = None
    temperature: object = None


@dataclass(frozen=True)
@cython.final
@cython.no_gc
cdef class Terminal:
    """A regex that the lexer matches as one lexeme.

    ``name`` is how messages speak of it (a literal is shown as written, quotes included). A
    ``lazy`` lexeme ends at its first match, any other at its longest. ``skip_class`` says which
    terminal of :attr:`GrammarIR.skip` may stand before it. With ``tokens`` it is one model token of
    that set, and ``regex`` is ``EMPTY``.

    ``tail`` is the end of ``regex`` that a suffix or stop condition added: captures leave it out.
    A ``hidden_tail`` is no part of the lexeme: what follows may take it up again. With
    ``ends_with_eog`` an end-of-generation token ends the lexeme where it matches, and is part of
    the text that the grammar goes on after.

    *Scopes* are what brackets enclose: a terminal with ``scope`` "open" begins one, "close" ends
    it. Within one scope no two ``distinct`` lexemes are the same bytes. Where a scope was opened by
    a ``unique`` terminal, a ``unique`` terminal ends the scopes directly in it only if their whole
    text, skipped lexemes left out, is that of none before.
    """

    name: str
    regex: object
    lazy: cython.bint = False
    skip_class: cython.Py_ssize_t = 0
    tokens: TokenSet = None
    tail: object = None
    hidden_tail: cython.bint = False
    ends_with_eog: cython.bint = False
    scope: str = ""
    distinct: cython.bint = False
    unique: cython.bint = False


def _no_skip():
    return [-1]


@dataclass
cdef class GrammarFields:
    """The fields of :class:`llgx.ir.GrammarIR`, which says what they are."""

    rules: object
    terminals: object
    start: object
    skip: object = field(default_factory=_no_skip)
    initial_skip: object = False
    skip_once: object = False
    forcing: object = True
    warnings: object = field(default_factory=list)
    skip_once_classes: object = None
    exact: object = False
    max_tokens: object = None
    unenforced: object = field(default_factory=list)
    literals: object = field(default_factory=list)
    common: object = field(default=(), compare=False, repr=False)


# --------------------------------------------------------------------------- made quickly

cdef enum:
    KEPT_REFS = 256          # of each kind


cdef list _terminal_refs = [TerminalRef(index) for index in range(KEPT_REFS)]
cdef list _rule_refs = [RuleRef(index) for index in range(KEPT_REFS)]


cdef TerminalRef terminal_ref(Py_ssize_t index):
    """A reference, one object for the first indices as Python has it with integers."""
    cdef TerminalRef made
    if index < KEPT_REFS:
        return <TerminalRef>_terminal_refs[index]
    made = TerminalRef.__new__(TerminalRef)
    made.index = index
    return made


cdef RuleRef rule_ref(Py_ssize_t index):
    """:func:`terminal_ref` of a rule that takes no argument."""
    cdef RuleRef made
    if index < KEPT_REFS:
        return <RuleRef>_rule_refs[index]
    made = RuleRef.__new__(RuleRef)
    made.index = index
    return made


cdef GrammarFields grammar_of(
    object kind, list rules, list terminals, Py_ssize_t start, Py_ssize_t skip, list warnings,
    list unenforced, tuple common
):
    """A grammar of ``kind``, a subclass without fields of its own, that skips once."""
    cdef GrammarFields made = kind.__new__(kind)
    made.rules = rules
    made.terminals = terminals
    made.start = start
    made.skip = [skip]
    made.initial_skip = False
    made.skip_once = True
    made.forcing = True
    made.warnings = warnings
    made.exact = False
    made.unenforced = unenforced
    made.literals = []
    made.common = common
    return made
