# cython: language_level=3
"""Rules and terminals of plain schemas, laid out as emission lays them out.

:class:`PlainRules` is what :class:`llgx.json_schema.emit.Emitter` is for formulas: it makes the
symbols of keys, scalars, arrays and objects, each once. It knows nothing of documents.

Invariant: see :mod:`llgx.json_schema._plain`. Linear in the members and items.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from llgx._ir cimport (
    Alternation, Complement, Intersection, Literal, ParamExpr, Production, Rule, RuleRef,
    TerminalRef, concat_of, empty_rule, grammar_of, literal_of, production_of, rule_ref,
    terminal_of, terminal_ref,
)

from llgx.ir import GrammarIR
from llgx.json_schema import emit_arrays as _emit_arrays
from llgx.json_schema.normal import ArrayGroup
from llgx.json_schema.style import KEPT_KEYS as _KEPT_KEYS, literal_name


cdef enum:
    SHOWN = 50               # characters of a key; of longer ones messages show a part
    MOST_SHOWN = 4           # strings of a list
    KEPT_BOUNDS = 1024       # terminals of one style
    MOST_ROUNDS = 40         # through all rules, to see that they derive something


cdef Py_ssize_t KEPT_KEYS = _KEPT_KEYS
cdef Literal _QUOTE = Literal(b'"')
cdef ParamExpr _FLAT = ParamExpr("const", 0)


cdef bint _is_simple(str name):
    """Whether ``name`` stands in JSON text as it is."""
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def finished(
    list rules, list terminals, start, Py_ssize_t skip, list warnings, list unenforced,
    tuple common
):
    """The grammar of what the symbol ``start`` derives; ``rules`` may grow by one. ``skip`` is the
    terminal that is skipped, or -1."""
    cdef Rule rule
    if type(start) is TerminalRef or (<RuleRef>start).argument is not None:
        if type(start) is RuleRef:
            start = RuleRef((<RuleRef>start).index, _FLAT)
        rule = empty_rule()
        rule.name = "start"
        rule.productions.append(production_of((start,)))
        rules.append(rule)
        start = rule_ref(len(rules) - 1)
    return grammar_of(
        GrammarIR, rules, terminals, (<RuleRef>start).index, skip, warnings, unenforced, common
    )


cdef class PlainRules:
    """Rules and terminals in the making. Symbols are objects of ``ir``, one for each of them.

    Where keys are not ``merged``, their colons are lexemes of their own, as Emitter.merged says.
    """

    cdef int begin(self, style, bint merged) except -1:
        """Begin without rules."""
        self.style = style
        self.merged = merged
        self.rules = []
        self.terminals = []
        self.originals = []
        self.refs = {}
        self.keys = {}
        self.next_keys = {}
        cdef tuple found = style.plain
        self.kept_keys = found[0]
        self.kept_bounds = found[1]
        self.string_body = found[2]
        self.key_parts = found[3]
        self.choices = {}
        self.other_keys = {}
        self.comma_ = self.ref_of(found[4])
        self.open_object = self.ref_of(found[5])
        self.close_object = self.ref_of(found[6])
        self.open_array = self.ref_of(found[7])
        self.close_array = self.ref_of(found[8])
        return 0

    cdef object finished(self, object start, list warnings, list unenforced):
        """The grammar of what ``start`` derives."""
        cdef object skip = self.style.skip
        skip = -1 if skip is None else (<TerminalRef>self.ref_of(skip)).index
        return finished(
            self.rules, self.terminals, start, skip, warnings, unenforced, self.style.common
        )

    # What emit_arrays asks of an emitter

    def ref(self, terminal):
        """The symbol of a terminal that is not made anew for each call."""
        return self.ref_of(terminal)

    @property
    def comma(self):
        return (self.comma_,)

    def rule(self, alternatives):
        cdef RuleRef made = self.new_rule()
        cdef list productions = (<Rule>self.rules[made.index]).productions
        for symbols in alternatives:
            productions.append(production_of(tuple(symbols)))
        return made

    def one(self, symbols):
        return symbols if len(symbols) <= 1 else (self.rule((symbols,)),)

    def repeated(self, first, step):
        return self.repeated_of(list(first), tuple(step))

    # Rules and terminals

    cdef object ref_of(self, terminal):
        """The place of ``terminal``, an object that is not made anew for each call."""
        cdef object key = <Py_ssize_t><PyObject*>terminal
        cdef PyObject* found = PyDict_GetItem(self.refs, key)
        if found != NULL:
            return <object>found
        made = terminal_ref(len(self.terminals))
        self.refs[key] = made
        self.originals.append(terminal)
        self.terminals.append(terminal)
        return made

    cdef RuleRef new_rule(self):
        self.rules.append(empty_rule())
        return rule_ref(len(self.rules) - 1)

    cdef int add(self, RuleRef reference, tuple symbols) except -1:
        (<Rule>self.rules[reference.index]).productions.append(production_of(symbols))
        return 0

    cdef object repeated_of(self, list first, tuple step):
        cdef RuleRef made = self.new_rule()
        cdef list productions = (<Rule>self.rules[made.index]).productions
        for symbols in first:
            productions.append(production_of(symbols))
        productions.append(production_of((made, *step)))
        return made

    cdef tuple member(self, str name, object value):
        """The key ``name``, its colon and ``value``."""
        if self.merged:
            return (self.key(name), value)
        return (self.key(name), self.colon, value)

    cdef object key(self, str name):
        """The key ``name``, and its colon where they are merged."""
        cdef PyObject* found = PyDict_GetItem(self.keys, name)
        if found != NULL:
            return <object>found
        made = self.keys[name] = self.ref_of(self.new_key(name, False))
        return made

    cdef object next_key(self, str name):
        """A comma, the key ``name`` and its colon, where nothing else with a comma may follow."""
        cdef PyObject* found = PyDict_GetItem(self.next_keys, name)
        if found != NULL:
            return <object>found
        made = self.next_keys[name] = self.ref_of(self.new_key(name, True))
        return made

    cdef object new_key(self, str name, bint comma):
        """As Style.key."""
        cdef tuple at = (name, comma, self.merged)
        cdef PyObject* found = PyDict_GetItem(self.kept_keys, at)
        cdef object made
        cdef str shown
        if found != NULL:
            return <object>found
        if self.key_parts is None or not _is_simple(name) or len(name) > SHOWN:
            return self.style.key(name, comma, self.merged)
        shown = '"' + name + '"'
        made = literal_of(shown.encode("ascii"))
        if not self.merged:
            made = terminal_of(shown, made, False)
        else:
            if comma:
                made = (*self.key_parts[0], made, *self.key_parts[1])
            else:
                made = (made, *self.key_parts[1])
            made = terminal_of(shown, concat_of(made), False)
        if len(self.kept_keys) >= KEPT_KEYS:
            self.kept_keys.clear()
        self.kept_keys[at] = made
        return made

    cdef object new_other_key(self, tuple excluded):
        """As Style.other_key."""
        cdef list words = []
        cdef object left_out, rest
        cdef str name
        if self.key_parts is None or self.string_body is None:
            return self.style.other_key(excluded)
        for name in excluded:
            if not _is_simple(name):
                return self.style.other_key(excluded)
            words.append(literal_of(name.encode("ascii")))
        left_out = words[0]
        if len(words) > 1:
            left_out = Alternation(tuple(words))
        rest = (self.string_body, Complement(left_out))
        rest = (_QUOTE, Intersection(rest), _QUOTE)
        return terminal_of("key", concat_of(rest), True)

    cdef object any_value(self):
        """Any JSON value, as Emitter.any_value."""
        if self.any_ is None and self.emitter is not None:
            self.any_ = self.emitter.any_value()
        if self.any_ is None:
            style = self.style
            self.any_ = value = self.new_rule()
            if self.colon is None:
                self.colon = self.ref_of(style.colon)
            member = (self.ref_of(style.any_key), self.colon, value)
            members = self.repeated_of([member], (self.comma_, *member))
            items = self.repeated_of([(value,)], (self.comma_, value))
            for terminal in (style.string, style.number, style.boolean, style.null):
                self.add(value, (self.ref_of(terminal),))
            self.add(value, (self.open_object, members, self.close_object))
            self.add(value, (self.open_object, self.close_object))
            self.add(value, (self.open_array, items, self.close_array))
            self.add(value, (self.open_array, self.close_array))
        return self.any_

    cdef object keep(self, tuple key, terminal):
        """``terminal``, which is the one for ``key`` from now on."""
        if key is not None:
            if len(self.kept_bounds) >= KEPT_BOUNDS:
                self.kept_bounds.clear()
            self.kept_bounds[key] = terminal
        return terminal

    cdef object choice(self, tuple values):
        """As Style.choice."""
        cdef list words = []
        cdef str word
        if self.key_parts is None:
            return self.style.choice(values)
        for word in values:
            if not _is_simple(word):
                return self.style.choice(values)
            word = '"' + word + '"'
            words.append(literal_of(word.encode("ascii")))
        shown = literal_name(['"' + word + '"' for word in values[: MOST_SHOWN + 1]])
        return terminal_of(
            shown, words[0] if len(words) == 1 else Alternation(tuple(words)), False
        )

    # Arrays and objects

    cdef int array_productions(self, made, tuple array) except -1:
        item, low, high = array
        if low == 0 and high is None:
            items = self.repeated_of([(item,)], (self.comma_, item))
            self.add(made, (self.open_array, items, self.close_array))
        elif high != 0:
            group = ArrayGroup((), None, low, high)
            high = _emit_arrays.reachable(high)
            body = _emit_arrays.items(self, group, high, lambda _: item)
            self.add(made, (self.open_array, *body, self.close_array))
        if low == 0:
            self.add(made, (self.open_array, self.close_array))
        return 0

    cdef int object_productions(self, made, tuple members) except -1:
        cdef list names = members[0], required = members[1], values = members[2]
        cdef object rest = members[3], excluded = members[4]
        cdef tuple head = ()         # the lists of at least one member so far; none at first
        cdef tuple first
        cdef bint may_be_empty = True, after_required = False
        cdef Py_ssize_t at
        cdef object rule
        for at in range(len(names)):
            name = names[at]
            value = values[at]
            if required[at]:
                if not head:
                    head = self.member(name, value)
                elif may_be_empty:
                    first = self.member(name, value)
                    rule = self.new_rule()
                    self.add(rule, first)
                    self.add(rule, (*head, self.comma_, *first))
                    head = (rule,)
                elif after_required and self.merged:
                    head = (*head, self.next_key(name), value)
                else:
                    head = (*head, self.comma_, *self.member(name, value))
                may_be_empty = False
                after_required = True
                continue
            first = self.member(name, value)
            after_required = False
            if not head:
                head = first
                continue
            if len(head) > 1:
                rule = self.new_rule()
                self.add(rule, head)
                head = (rule,)
            rule = self.new_rule()
            self.add(rule, head)
            self.add(rule, (*head, self.comma_, *first))
            if may_be_empty:
                self.add(rule, first)
            head = (rule,)
        if rest is not None:
            if self.colon is None:
                self.colon = self.ref_of(self.style.colon)
            if excluded:
                key = self.other_keys.get(excluded)
                if key is None:
                    key = self.other_keys[excluded] = self.ref_of(self.new_other_key(excluded))
            else:
                key = self.ref_of(self.style.any_key)
            first = (key, self.colon, rest)
            alternatives = []
            if head:
                alternatives.append(head)
            if may_be_empty:
                alternatives.append(first)
            head = (self.repeated_of(alternatives, (self.comma_, *first)),)
        if head:
            self.add(made, (self.open_object, *head, self.close_object))
        if may_be_empty:
            self.add(made, (self.open_object, self.close_object))
        return 0


cdef object number_of(symbol):
    """A symbol as a number: quicker to compare."""
    if type(symbol) is TerminalRef:
        return 2 * (<TerminalRef>symbol).index + 1
    return 2 * (<RuleRef?>symbol).index


cdef set reached_rules(list rules, object start):
    """The indices of the rules that ``start`` leads to."""
    cdef set found = set()
    cdef list todo = [start]
    cdef Production production
    while todo:
        symbol = todo.pop()
        if type(symbol) is not RuleRef or (<RuleRef>symbol).index in found:
            continue
        found.add((<RuleRef>symbol).index)
        for production in (<Rule>rules[(<RuleRef>symbol).index]).productions:
            todo += production.symbols
    return found


cdef bint are_productive(list rules, dict parts) except -1:
    """Whether each of ``parts``, by the numbers of their symbols, surely derives a text."""
    cdef Py_ssize_t count = len(rules), left = count, before, at, i
    cdef bytearray is_productive = bytearray(count)
    cdef Production production
    cdef int turn
    for turn in range(MOST_ROUNDS):
        before = left
        for i in range(count):
            # What rules are made of may come before or after them.
            at = i if turn & 1 else count - 1 - i
            if is_productive[at]:
                continue
            for production in (<Rule>rules[at]).productions:
                for symbol in production.symbols:
                    if type(symbol) is RuleRef and not is_productive[(<RuleRef>symbol).index]:
                        break
                else:
                    is_productive[at] = 1
                    left -= 1
                    break
        if not left or left == before:
            break
    for i in parts:
        if not i & 1 and not is_productive[i >> 1]:
            return False
    return True


cdef bint has_cycle(list needs):
    """Whether the pairs lead in a circle: by taking away what leads nowhere."""
    cdef dict users = {}
    cdef dict count = {}
    cdef list todo
    for user, needed in set(needs):
        users.setdefault(needed, []).append(user)
        count[user] = count.get(user, 0) + 1
        count.setdefault(needed, 0)
    todo = [key for key in count if not count[key]]
    left = len(count)
    while todo:
        left -= 1
        for user in users.get(todo.pop(), ()):
            count[user] -= 1
            if not count[user]:
                todo.append(user)
    return left > 0
