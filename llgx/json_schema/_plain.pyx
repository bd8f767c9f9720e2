# cython: language_level=3
"""Plain schemas: from the document to rules without the algebra.

Most schemas, and most parts of the others, are trees of types, properties, items, plain lists of
strings and references to such, which exclude nothing and overlap with nothing. Their rules can be
read off. What is not plain in a document (an ``anyOf`` of objects, a pattern of names) is
translated and emitted as always and stands in the rules around it. Its members and items are read
off again: to formulas they are handles, translated only where they are met with something.

Invariant: the language is the one that translation, algebra and emission give, and the rules are
the same but for their numbers and for parts that both ways have made: see
:mod:`llgx.json_schema.emit_objects` and :mod:`llgx.json_schema.emit_arrays` for how they are laid
out. (A handle that is met with something is another schema than what comes out, even where that
has the same values: what would be one cell of names may then be two.) Where that is not certain, or
something is wrong with the schema, ``NotPlain`` is raised, and the document goes the long way from
the start, which also finds the words for what is wrong.

Schemas of equal content are one rule. What requires itself has no value: of references, it is kept
in mind which part cannot do without which other; of handles, it is looked at in the end whether
their rules derive something. Linear in the document; stack depth is bounded.
"""

cimport cython
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from llgx._ir cimport RuleRef, TerminalRef
from llgx.json_schema._plain_rules cimport (
    PlainRules, are_productive, has_cycle, number_of, reached_rules,
)

from llgx.errors import LlgxError
from llgx.json_schema import constraints as _constraints
from llgx.json_schema import dialects as _dialects
from llgx.json_schema.emit import Emitter
from llgx.json_schema.emit_expand import expand
from llgx.json_schema.formats import number_format, string_format
from llgx.json_schema import keywords as _keywords
from llgx.json_schema.keywords import Translator, misspelt
from llgx.json_schema.normal import PlainPart, pointer_of
from llgx.json_schema.numbers import NumberSet
from llgx.json_schema.references import Scope, dialect_for, find_local
from llgx.json_schema.report import Report


class NotPlain(Exception):
    """The document has to be translated as a whole."""


cdef enum:
    KEPT_DIALECTS = 64
    SHOWN_TYPES = 4          # references within one another that a type is looked for behind
    DEEPEST = 100            # schemas within one another; each takes a few hundred bytes of stack
    MOST_NESTED = 8          # parts that are translated inside one another
    # What the types of a schema may be.
    NULL_TYPE = 1
    BOOLEAN_TYPE = 2
    NUMBER_TYPE = 4
    INTEGER_TYPE = 8
    STRING_TYPE = 16
    ARRAY_TYPE = 32
    OBJECT_TYPE = 64
    ALL_TYPES = 119          # an integer is a number
    FINITE = 128             # some strings only
    # In the order of the groups of a normal form: of which types a schema has values.
    STRINGS = 1
    NUMBERS = 2
    FEW = 4                  # null, false, true, some strings
    ARRAYS = 8
    OBJECTS = 16
    # Of keywords, beside what kinds of them there are.
    MARK_VALUES = 1 << 16    # a list of values, or one
    MARK_APPLIED = 1 << 17   # schemas of which a value has some
    MARK_OTHER = 1 << 18     # it brings a schema into the algebra
    MARKS = MARK_VALUES | MARK_APPLIED | MARK_OTHER


cdef dict _TYPE_BITS = {
    "null": NULL_TYPE, "boolean": BOOLEAN_TYPE, "number": NUMBER_TYPE, "integer": INTEGER_TYPE,
    "string": STRING_TYPE, "array": ARRAY_TYPE, "object": OBJECT_TYPE,
}
cdef long _TYPE = _dialects.TYPE, _NUMBER = _dialects.NUMBER, _STRING = _dialects.STRING
cdef long _ARRAY = _dialects.ARRAY, _OBJECT = _dialects.OBJECT
cdef long _APPLICATOR = _dialects.APPLICATOR, _REFERENCE = _dialects.REFERENCE
cdef long _PLAIN = _TYPE | _NUMBER | _STRING | _ARRAY | _OBJECT
cdef frozenset _MEANINGLESS = frozenset(_keywords.MEANINGLESS)

# Keywords that bring a schema into the algebra, among those of its kind that are plain.
cdef frozenset _NOT_PLAIN = frozenset((
    "patternProperties", "minProperties", "maxProperties", "contains", "prefixItems",
    "minContains", "maxContains",
))

cdef tuple _NOTHING = ()


cdef dict _marks_of(object dialect):
    """What there is to know of the keywords of ``dialect`` and of those without a meaning."""
    cdef dict marks = dict.fromkeys(_MEANINGLESS, 0)
    cdef long mark
    for keyword, kind in dialect.keywords.items():
        mark = kind
        if keyword == "enum" or keyword == "const":
            mark |= MARK_VALUES
        elif keyword == "anyOf" or keyword == "oneOf" or keyword == "allOf":
            mark |= MARK_APPLIED
        elif keyword in _NOT_PLAIN or kind == _APPLICATOR:
            mark |= MARK_OTHER
        marks[keyword] = mark
    return marks


cdef dict _kept_dialects = {}    # with their marks, by the texts of $schema
cdef tuple _DEFAULT_DIALECT = (_dialects.DEFAULT, _marks_of(_dialects.DEFAULT))


cdef tuple _dialect_of(object contents):
    """The dialect of a document, no others being given, and its marks."""
    cdef object uri = contents.get("$schema") if type(contents) is dict else None
    if type(uri) is not str:
        return _DEFAULT_DIALECT
    found = _kept_dialects.get(uri)
    if found is None:
        found = dialect_for(contents, _dialects.DEFAULT, {})
        found = (found, _marks_of(found))
        if len(_kept_dialects) >= KEPT_DIALECTS:
            _kept_dialects.clear()
        _kept_dialects[uri] = found
    return found


@cython.final
cdef class _Plain(PlainRules):
    """One document on its way."""

    cdef object document, contents, limits, options, dialect, scope
    cdef dict marks              # of the keywords of the dialect
    cdef str id_keyword
    cdef object report           # None until there is something to say
    cdef readonly dict patterns  # as Translator.patterns
    cdef dict shapes             # symbols of other schemas, by what they derive
    cdef dict targets            # contents by reference
    cdef dict done               # symbols by identity of the contents; None: under way
    cdef list needs              # pairs of targets: the first has no value without the second
    cdef bint is_old             # whether the dialect is draft 4
    cdef int moved               # how many resources of their own are around what is under way
    cdef object current          # identity of the target under way
    cdef set unknown             # keywords that the dialect has no meaning for
    cdef bint is_recursive       # some reference leads to what is under way
    cdef object translator
    cdef bint defers             # whether members of what is translated may have rules already
    cdef _Plain plain_of, separate   # where keys are merged, and where they are not
    cdef int depth               # of what is under way
    cdef int translating         # parts around what is under way
    cdef list late               # rule, contents, place of what is translated after that
    cdef dict parts              # handles of members and items by their symbols

    cdef object compile(self):
        cdef object root = self.contents
        if type(root) is not dict:
            raise NotPlain
        cdef object start = self._target(root, None, True, 0)
        if self.is_recursive and has_cycle(self.needs):
            raise NotPlain
        if self.emitter is not None:
            self.emitter.finish()
            while self.late:
                rule, value, place = self.late.pop()
                self.depth = 0
                self.add(rule, (self._translated(value, place),))
                self.emitter.finish()
            expand(self.emitter)
        if self.parts and not are_productive(self.rules, self.parts):
            raise NotPlain
        return start

    # What constraints.string_set and the like ask of a translator

    def malformed(self, place, keyword, reason):
        raise NotPlain

    def unenforced(self, place, keyword, reason):
        raise NotPlain

    def conflict(self, place, keyword, reason):
        raise NotPlain

    def format_name(self, value, place, scope):
        name = value["format"]
        if type(name) is not str:
            raise NotPlain
        if name in self.options.ignored_formats:
            raise NotPlain
        if string_format(name) is None and number_format(name) is None:
            if self.options.strict_formats:
                raise NotPlain
            reason = f"the format {name!r} is not known, so that it is an annotation"
            self._report().note(pointer_of(place), "format", reason)
        return name

    cdef object _report(self):
        if self.report is None:
            self.report = Report(self.options.records)
        return self.report

    # References

    cdef object _target(self, object contents, place, bint forced, int depth):
        """The symbol of what a reference leads to, or of the root."""
        cdef object key = <Py_ssize_t><PyObject*>contents
        cdef object outer = self.current
        if forced and outer is not None:
            self.needs.append((outer, key))
        if key in self.done:
            found = self.done[key]
            if found is None:
                self.is_recursive = True
                found = self.done[key] = self.new_rule()
            elif not (type(found) is TerminalRef or self.rules[found.index].productions):
                self.is_recursive = True
            return found
        self.done[key] = None
        self.current = key
        made = self._schema(contents, place, True, depth, key)
        self.current = outer
        reserved = self.done[key]
        if reserved is not None and reserved is not made:
            self.add(reserved, (made,))
            made = reserved
        self.done[key] = made
        return made

    cdef object _reference(self, dict value, place, bint forced, int depth):
        ref = value["$ref"]
        if type(ref) is not str:
            raise NotPlain
        found = self._lookup(ref)
        return self._target(found[0], found[1], forced, depth)

    cdef tuple _lookup(self, str ref):
        """What ``ref`` leads to, and its place."""
        found = self.targets.get(ref)
        if found is None:
            if ref == "#" or ref == "":
                found = (self.contents, None)
            elif not ref.startswith("#/"):
                raise NotPlain
            else:
                found = self._find(ref)
            self.targets[ref] = found
        return found

    cdef object _find(self, str ref):
        """What the pointer ``ref`` leads to, and its place."""
        cdef object contents = self.contents, place = None
        cdef list tokens
        if "%" in ref or "~" in ref:
            try:
                found = find_local(contents, ref, self.dialect)
            except LookupError:
                raise NotPlain from None
            if found is None:
                raise NotPlain
            return found
        tokens = ref.split("/")
        for token in tokens[1:]:
            # What is at the end may have a URI of its own, what is on the way may not.
            if type(contents) is not dict or (place is not None and self.id_keyword in contents):
                raise NotPlain
            contents = (<dict>contents).get(token, _NOTHING)
            if contents is _NOTHING:
                raise NotPlain
            place = (place, token)
        return contents, place

    # Schemas

    cdef object _schema(self, object value, place, bint forced, int depth, object reserve_for):
        """The symbol of ``value``. It is ``forced`` where what is under way takes a value of it.

        ``reserve_for`` is the target that this is the whole of, or None.
        """
        cdef long seen = 0, mark
        cdef PyObject* found_mark
        cdef int has_enum = 0
        cdef object applied = None
        if type(value) is not dict:
            if value is True:
                return self.any_value()
            raise NotPlain
        if depth > DEEPEST:
            raise NotPlain
        self.depth = depth
        for keyword in <dict>value:
            found_mark = PyDict_GetItem(self.marks, keyword)
            if found_mark == NULL:
                self.unknown.add(keyword)
                continue
            mark = <long><object>found_mark
            if mark & MARKS:
                if mark & MARK_VALUES:
                    has_enum += 1
                elif mark & MARK_OTHER or applied is not None:
                    return self._other(value, place)
                else:
                    applied = keyword
                mark &= ~<long>MARKS
            seen |= mark
        if place is not None and self.id_keyword in <dict>value:
            # A resource of its own, where references start from: there may be none in it.
            if "$schema" in <dict>value:
                raise NotPlain
            self.moved += 1
            found = self._kind_of(value, place, seen, has_enum, applied, forced, depth, reserve_for)
            self.moved -= 1
            return found
        return self._kind_of(value, place, seen, has_enum, applied, forced, depth, reserve_for)

    cdef object _kind_of(
        self, dict value, place, long seen, int has_enum, object applied, bint forced, int depth,
        object reserve_for
    ):
        """:meth:`_schema`, once it is known what the keywords are about."""
        cdef int types
        if seen & _REFERENCE:
            if "$ref" not in value or self.moved:
                raise NotPlain
            if self.dialect.draft > 7 and seen != _REFERENCE:
                return self._other(value, place)
            return self._reference(value, place, forced, depth + 1)
        if applied is not None:
            return self._applied(value, place, seen, has_enum, applied, forced, depth)
        if has_enum:
            return self._enum(value, place, has_enum, seen)
        if seen & ~_PLAIN:
            return self._other(value, place)
        types = ALL_TYPES
        if seen & _TYPE:
            types = self._types(value["type"])
        elif not seen:
            return self.any_value()
        return self._typed(value, place, types, seen, forced, depth, reserve_for)

    cdef object _applied(
        self, dict value, place, long seen, int has_enum, object keyword, bint forced, int depth
    ):
        """Schemas of different types of which a value has one, or a single schema."""
        cdef object parts = value[keyword], inside = (place, keyword)
        cdef list symbols = [], order = []
        cdef int types, groups, allowed = ALL_TYPES, taken = 0, reached = 0
        cdef Py_ssize_t at
        cdef tuple key
        if type(parts) is not list or not parts or has_enum or seen & ~(_APPLICATOR | _TYPE):
            return self._other(value, place)
        if len(parts) == 1 and not seen & _TYPE:
            return self._schema(parts[0], (inside, 0), forced, depth + 1, None)
        if len(parts) > 1 and keyword == "allOf":
            return self._other(value, place)
        if seen & _TYPE:
            allowed = self._types(value["type"])
        if allowed & NUMBER_TYPE:
            allowed |= INTEGER_TYPE
        for at in range(len(parts)):
            types = self._types_of(parts[at], 0)
            if not types or types & ~FINITE & (~allowed | taken):
                return self._other(value, place)
            taken |= types
            order.append((_groups_of(types), at))
        order.sort()
        for groups, at in order:
            if groups & -groups <= reached:
                return self._other(value, place)
            reached = groups
        for groups, at in order:
            symbols.append(self._schema(parts[at], (inside, at), forced, depth + 1, None))
        if len(symbols) == 1:
            return symbols[0]
        key = ("|", *[number_of(symbol) for symbol in symbols])
        made = self.shapes.get(key)
        if made is None:
            made = self.shapes[key] = self.new_rule()
            for symbol in symbols:
                self.add(made, (symbol,))
        return made

    cdef int _types_of(self, item, int depth) except -1:
        """The types that the values of a schema may have, every number taken for integers too; 0
        where that is not plain."""
        cdef int types
        cdef object values
        if type(item) is not dict or depth > SHOWN_TYPES or self.id_keyword in <dict>item:
            return 0
        if "$ref" in <dict>item:
            values = (<dict>item)["$ref"]
            if self.moved or type(values) is not str:
                return 0
            return self._types_of(self._lookup(values)[0], depth + 1)
        if "type" in <dict>item:
            types = self._types((<dict>item)["type"])
            return types | INTEGER_TYPE if types & NUMBER_TYPE else types
        if "enum" in <dict>item:
            values = (<dict>item)["enum"]
        elif "const" in <dict>item:
            values = ((<dict>item)["const"],)
        else:
            return 0
        if type(values) is not list and type(values) is not tuple:
            return 0
        for value in values:
            if type(value) is not str:
                return 0
        return STRING_TYPE | FINITE

    cdef int _types(self, names) except 0:
        cdef int types = 0
        if type(names) is str:
            names = (names,)
        elif type(names) is not list:
            raise NotPlain
        for name in names:
            bit = _TYPE_BITS.get(name) if type(name) is str else None
            if bit is None:
                raise NotPlain
            types |= <int>bit
        if not types:
            raise NotPlain
        return types

    cdef object _typed(
        self, dict value, place, int types, long seen, bint forced, int depth, object reserve_for
    ):
        """The values of some types with the keywords of those types."""
        cdef list symbols = []   # scalars
        cdef object array = None, members = None, found = None, made
        cdef tuple key
        if types & NUMBER_TYPE:
            types &= ~INTEGER_TYPE
        if types == ALL_TYPES and not seen & (_NUMBER | _STRING | _ARRAY | _OBJECT):
            return self.any_value()
        # In the order of the groups of a normal form, finite scalars last.
        cdef bint is_number = bool(types & (NUMBER_TYPE | INTEGER_TYPE))
        if is_number and seen & _NUMBER:
            found = self._number(value, place, types)
            if found is None:
                return self._other(value, place)
        elif types & NUMBER_TYPE:
            found = self.ref_of(self.style.number)
        elif is_number:
            found = self.ref_of(self.style.integer)
        if types & STRING_TYPE:
            made = self.ref_of(self.style.string)
            if seen & _STRING:
                made = self._string(value, place)
                if made is None:
                    return self._other(value, place)
            symbols.append(made)
        if is_number:
            symbols.append(found)
        if types & (NULL_TYPE | BOOLEAN_TYPE):
            if not types & BOOLEAN_TYPE:
                symbols.append(self.ref_of(self.style.null))
            elif not types & NULL_TYPE:
                symbols.append(self.ref_of(self.style.boolean))
            else:
                symbols.append(self.ref_of(self.style.boolean_or_null))
        if not types & (ARRAY_TYPE | OBJECT_TYPE):
            if len(symbols) == 1:
                return symbols[0]
        if forced and types & (types - 1):
            forced = False       # there are other values
        if types & ARRAY_TYPE:
            array = self._array(value, place, seen, forced, depth)
            if array is None:
                return self._other(value, place)
        if types & OBJECT_TYPE:
            members = self._object(value, place, seen, forced, depth)
        if types == ALL_TYPES and self._is_any(symbols, array, members):
            return self.any_value()
        key = self._content(symbols, array, members)
        if reserve_for is not None:
            made = self.done[reserve_for]
            if made is None:
                made = self.shapes.get(key)
                if made is not None:
                    return made
                made = self.new_rule()
        else:
            made = self.shapes.get(key)
            if made is not None:
                return made
            made = self.new_rule()
        self.shapes.setdefault(key, made)
        for symbol in symbols:
            self.add(made, (symbol,))
        if array is not None:
            self.array_productions(made, array)
        if members is not None:
            self.object_productions(made, members)
        return made

    cdef bint _is_any(self, list symbols, tuple array, tuple members):
        """Whether keywords of all types say nothing."""
        return (
            symbols[0] is self.ref_of(self.style.string)
            and symbols[1] is self.ref_of(self.style.number)
            and array == (self.any_value(), 0, None)
            and members[3] is self.any_value()
            and not members[4]
        )

    cdef object _content(self, list symbols, array, members):
        """What a schema derives, to be looked up."""
        cdef list key = [number_of(symbol) for symbol in symbols]
        key.append(None)
        if array is not None:
            item, low, high = array
            key += (number_of(item), low, high)
        key.append(None)
        if members is not None:
            names, required, values, rest, excluded = members
            key += names
            key.append(None)
            key += required
            for symbol in values:
                key.append(number_of(symbol))
            if rest is not None:
                key.append(number_of(rest))
                key.append(excluded)
        return tuple(key)

    # Scalars

    cdef object _number(self, dict value, place, int types):
        """The symbol of the numbers; None if they are not plain."""
        cdef tuple key = self._number_key(value, types)
        cdef PyObject* kept
        if key is not None:
            kept = PyDict_GetItem(self.kept_bounds, key)
            if kept != NULL:
                return self.ref_of(<object>kept)
        numbers = _constraints.number_set(self, value, place, self._scope())
        if not types & NUMBER_TYPE:
            numbers = NumberSet.INTEGERS.meet(numbers)
        if numbers.is_any:
            return self.ref_of(self.style.number)
        if numbers.values is not None:
            return None
        if numbers.is_empty():
            raise NotPlain
        return self.ref_of(self.keep(key, self.style.number_of(numbers)))

    cdef tuple _number_key(self, dict value, int types):
        """What the numbers depend on, where all of it is plain integers; else None."""
        cdef tuple key
        if "format" in value:
            return None
        if self.is_old and ("exclusiveMinimum" in value or "exclusiveMaximum" in value):
            return None
        key = (
            value.get("minimum", _NOTHING), value.get("maximum", _NOTHING),
            value.get("exclusiveMinimum", _NOTHING), value.get("exclusiveMaximum", _NOTHING),
            value.get("multipleOf", _NOTHING), types & NUMBER_TYPE,
        )
        for bound in key:
            if bound is not _NOTHING and type(bound) is not int:
                return None
        return key

    cdef object _string(self, dict value, place):
        """The symbol of the strings; None if they are not plain."""
        cdef tuple key = self._string_key(value)
        cdef PyObject* kept
        if key is not None:
            kept = PyDict_GetItem(self.kept_bounds, key)
            if kept != NULL:
                return self.ref_of(<object>kept)
        strings = _constraints.string_set(self, value, place, self._scope())
        if strings.is_any:
            return self.ref_of(self.style.string)
        if strings.values is not None:
            return None
        if strings.is_empty():
            raise NotPlain
        return self.ref_of(self.keep(key, self.style.string_of(strings)))

    cdef tuple _string_key(self, dict value):
        """What the strings depend on, where that is lengths and a pattern; else None."""
        if "format" in value:
            return None
        low, high = value.get("minLength", _NOTHING), value.get("maxLength", _NOTHING)
        pattern = value.get("pattern", _NOTHING)
        if (low is not _NOTHING and type(low) is not int) \
                or (high is not _NOTHING and type(high) is not int) \
                or (pattern is not _NOTHING and type(pattern) is not str):
            return None
        return (low, high, pattern)

    cdef object _scope(self):
        if self.scope is None:
            self.scope = Scope(self.dialect)
        return self.scope

    cdef object _enum(self, dict value, place, int has_enum, long seen):
        """A list of strings with no keyword but a type beside it."""
        cdef object values
        if has_enum > 1 or seen & ~(_TYPE | _APPLICATOR):
            return self._other(value, place)
        if "enum" in value:
            values = value["enum"]
            if type(values) is not list or not values:
                return self._other(value, place)
        else:
            values = (value["const"],)
        if seen & _TYPE and not self._types(value["type"]) & STRING_TYPE:
            return self._other(value, place)
        for item in values:
            if type(item) is not str:
                return self._other(value, place)
            if not (<str>item).isascii() and not _is_text(item):
                return self._other(value, place)
        key = tuple(sorted(set(values)))
        made = self.choices.get(key)
        if made is None:
            made = self.choices[key] = self.ref_of(self.choice(key))
        return made

    # Arrays

    cdef object _array(self, dict value, place, long seen, bint forced, int depth):
        """(item, low, high) of the arrays; None if they are not plain."""
        cdef object items = True, low = 0, high = None
        if seen & _ARRAY:
            items = value.get("items", True)
            if type(items) is list:
                return None
            if "minItems" in value:
                low = _constraints.count_of(self, value, "minItems", place, 0)
            if "maxItems" in value:
                high = _constraints.count_of(self, value, "maxItems", place, None)
            if high is not None and low > high:
                raise NotPlain
            unique = value.get("uniqueItems", False)
            if type(unique) is not bool:
                raise NotPlain
            if (unique and (high is None or high > 1)) or items is False:
                return None
        if items is True:
            item = self.any_value()
        else:
            item = self._schema(items, (place, "items"), forced and low > 0, depth + 1, None)
        return item, low, high

    # Objects

    cdef object _object(self, dict value, place, long seen, bint forced, int depth):
        """The members of the objects: names, which of them are required, and their symbols; the
        symbol of other members (None: there are none), and the names that those do not have."""
        cdef list names = [], required = [], values = [], excluded
        cdef dict properties
        cdef set needed
        cdef list wanted = []
        cdef object rest, others = True, inside
        cdef bint is_required
        if not seen & _OBJECT:
            return names, required, values, self.any_value(), ()
        if "required" in value:
            found = value["required"]
            if type(found) is not list:
                raise NotPlain
            wanted = found
            for name in wanted:
                if type(name) is not str:
                    raise NotPlain
        if "additionalProperties" in value:
            others = value["additionalProperties"]
        needed = set(wanted)
        excluded = []
        if "properties" in value:
            found = value["properties"]
            if type(found) is not dict:
                raise NotPlain
            properties = found
            inside = (place, "properties")
            for name, item in properties.items():
                if type(name) is not str or not ((<str>name).isascii() or _is_text(name)):
                    raise NotPlain
                is_required = name in needed
                excluded.append(name)
                if is_required:
                    needed.discard(name)
                elif item is False:
                    continue
                names.append(name)
                required.append(is_required)
                values.append(
                    self._schema(item, (inside, name), forced and is_required, depth + 1, None)
                )
        rest = None
        if others is not False:
            rest = self.any_value()
            if others is not True:
                is_required = forced and bool(needed)
                inside = (place, "additionalProperties")
                rest = self._schema(others, inside, is_required, depth + 1, None)
        if needed:
            if rest is None:
                raise NotPlain
            for name in wanted:
                if name in needed:
                    needed.discard(name)
                    if not (<str>name).isascii() and not _is_text(name):
                        raise NotPlain
                    names.append(name)
                    required.append(True)
                    values.append(rest)
                    excluded.append(name)
        return names, required, values, rest, tuple(sorted(excluded))

    # What is not plain

    cdef object _other(self, dict value, place):
        """The symbol of a part that goes the long way."""
        if (place is None and not self.defers) or self.moved:
            raise NotPlain
        if self.plain_of is not None:
            schema = self.plain_of._formula(value, place)
            if schema is None or self.plain_of.translator.algebra.is_empty(schema):
                raise NotPlain
            return self.plain_of.emitter.separate.value(schema)
        return self._translated(value, place)

    cdef object _translated(self, dict value, place):
        """:meth:`_other` where keys are merged."""
        cdef int depth = self.depth
        cdef RuleRef rule
        if self.translator is None:
            self.translator = Translator(
                self.document, self.options, self._report(), self.limits, False, False
            )
            self.translator.patterns = self.patterns
            if self.defers:
                self.translator.plain_parts = self._part
            self.emitter = Emitter(
                self.style,
                self.translator.algebra,
                self.report,
                shared=(self.rules, self.terminals, self.refs, self.originals, self.any_),
            )
        schema = None
        if self.translating < MOST_NESTED:
            schema = self._formula(value, place)
            if schema is None:
                raise NotPlain
        self.depth = depth
        if schema is None or self.translator.unbound or self.translator.algebra.is_busy:
            # It may lead to what is around it, of which nothing can be said yet.
            rule = self.new_rule()
            self.late.append((rule, value, place))
            return rule
        if self.translator.algebra.is_empty(schema):
            raise NotPlain
        return self.emitter.value(schema)

    def _formula(self, value, place):
        """The formula of a part of the document; None where that takes a registry."""
        self.translating += 1
        schema = self.translator.part(value, place)
        self.translating -= 1
        return schema

    def _part(self, value, place):
        """The handle of a member or item of what is being translated, with rules of its own; None
        for what is translated as quickly."""
        cdef int depth = self.depth
        if not self._is_deep(value):
            return None
        symbol = self._schema(value, place, False, depth + 1, None)
        self.depth = depth
        if symbol is self.any_:
            return self.translator.algebra.any
        if type(symbol) is TerminalRef:
            return None          # one of the scalars, which can be joined with others
        found = self.parts.get(number_of(symbol))
        if found is None:
            found = self.parts[number_of(symbol)] = PlainPart(
                self.translator.algebra,
                place,
                lambda merged: symbol if merged else self._separate(value, place),
                lambda: self._formula(value, place),
            )
        return found

    cdef object _separate(self, value, place):
        """The symbol of ``value`` where keys are not merged with what is around them."""
        cdef _Plain other = self.separate
        if other is None:
            self.separate = other = _begun(
                self.document, self.options, self.limits, self.style, True, False
            )
            other.plain_of = self
            other.report = self._report()
            other.patterns = self.patterns
            other.rules = self.rules
            other.terminals = self.terminals
            other.originals = self.originals
            other.refs = self.refs
            other.targets = self.targets
            other.needs = self.needs
            other.unknown = self.unknown
            other.choices = self.choices
            other.any_ = self.any_value()
            other.comma_ = self.comma_
            other.open_object = self.open_object
            other.close_object = self.close_object
            other.open_array = self.open_array
            other.close_array = self.close_array
            other.colon = self.ref_of(self.style.colon)
        return other._schema(value, place, False, 0, None)

    cdef int let_go(self) except -1:
        """Leave no circle that only a garbage collection would find."""
        self.separate = None
        if self.translator is not None:
            self.translator.plain_parts = None
        for part in self.parts.values():
            part.let_go()
        return 0

    cdef bint _is_deep(self, object value) except -1:
        """Whether it is worth while to have rules of ``value`` rather than a formula."""
        cdef int hops
        cdef bint is_deep = False
        for hops in range(SHOWN_TYPES):
            if type(value) is not dict or self.id_keyword in <dict>value:
                return False
            if "$ref" not in <dict>value:
                break
            ref = (<dict>value)["$ref"]
            if type(ref) is not str:
                return False
            try:
                value = self._lookup(ref)[0]
            except NotPlain:
                return False
        else:
            return False
        for keyword in <dict>value:
            if keyword == "properties" or keyword == "items" or keyword == "additionalProperties":
                is_deep = True
            elif keyword == "anyOf" or keyword == "oneOf":
                for part in (<dict>value)[keyword] if type((<dict>value)[keyword]) is list else ():
                    if type(part) is dict and ("$ref" in part or "properties" in part):
                        is_deep = True
            elif keyword in _NOT_PLAIN:
                return False
            elif self.dialect.keywords.get(keyword, 0) in (_APPLICATOR, _dialects.UNEVALUATED):
                return False
        return is_deep


cdef int _groups_of(int types) noexcept:
    """Of which groups the values of some types are."""
    cdef int groups = 0
    if types & STRING_TYPE:
        groups |= FEW if types & FINITE else STRINGS
    if types & (NUMBER_TYPE | INTEGER_TYPE):
        groups |= NUMBERS
    if types & (NULL_TYPE | BOOLEAN_TYPE):
        groups |= FEW
    if types & ARRAY_TYPE:
        groups |= ARRAYS
    if types & OBJECT_TYPE:
        groups |= OBJECTS
    return groups


cdef bint _is_text(str text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


cdef _Plain _begun(document, options, limits, style, bint defers, bint merged):
    """A document on its way, at the beginning."""
    cdef _Plain plain = _Plain.__new__(_Plain)
    plain.begin(style, merged)
    plain.document = document
    plain.contents = document.contents
    plain.options = options
    plain.limits = limits
    plain.dialect, plain.marks = _dialect_of(plain.contents)
    plain.is_old = plain.dialect.draft == 4
    plain.id_keyword = plain.dialect.id_keyword
    plain.unknown = set()
    plain.patterns = {}
    plain.shapes = {}
    plain.targets = {}
    plain.done = {}
    plain.needs = []
    plain.defers = defers
    plain.late = []
    plain.parts = {}
    return plain


def compile_plain(document, options, style, limits):
    """The grammar of ``document``; None unless that is plain.

    ``style`` is that of ``options``, which ask for members in the order of the schema, for no lines
    and for no other documents.
    """
    cdef _Plain plain
    cdef object start
    for defers in (True, False):
        plain = _begun(document, options, limits, style, defers, True)
        try:
            start = plain.compile()
            break
        except (NotPlain, LlgxError):
            # What was put off may be what makes it certain.
            if not plain.parts:
                return None
        finally:
            plain.let_go()
    else:
        return None
    unknown = plain.unknown
    warnings = []
    if plain.translator is not None:
        unknown |= plain.translator.unknown
        warnings = plain.emitter.warnings
        if warnings and plain.parts:
            # Not everything that has rules is in use.
            warnings = plain.emitter.warnings_of(reached_rules(plain.rules, start))
    if unknown:
        warnings = [*misspelt(document, plain.dialect, unknown), *warnings]
    entries = [] if plain.report is None else plain.report.entries
    return plain.finished(start, warnings, entries)
