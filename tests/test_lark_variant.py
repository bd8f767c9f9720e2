"""What the Lark front end makes of attributes, tokens, several grammars, modules and templates.

Texts that such grammars accept are in ``data/lark_variant.json``; here is what no text shows: the
description that the engine gets, warnings, and the errors of what comes from outside of the text.
"""

from __future__ import annotations

import json
import pathlib
import pickle
import random
import re
from typing import Any

import pytest

import llgx
from llgx import Grammar, ir
from llgx.errors import GrammarError, LimitError
from llgx.lark import Library, compile_lark
from llgx.limits import Limits
from llgx.regex import parse_rust_lexeme
from tests.ir_match import matches


def _rule(grammar: ir.GrammarIR, name: str) -> ir.Rule:
    (rule,) = [rule for rule in grammar.rules if rule.name == name]
    return rule


def _only_terminal(grammar: ir.GrammarIR, rule: str) -> ir.Terminal:
    """The terminal that is all of a rule."""
    (production,) = _rule(grammar, rule).productions
    (symbol,) = production.symbols
    assert isinstance(symbol, ir.TerminalRef)
    return grammar.terminals[symbol.index]


# --------------------------------------------------------------------------------------------------
# Attributes


def test_captures() -> None:
    grammar = compile_lark(
        'start: a b c\na[capture]: "x"\nb[capture="name"]: a\nc[capture, suffix="!", '
        'stop_capture="end"]: /y*/'
    )
    found = {rule.name: (rule.capture, rule.tail_capture) for rule in grammar.rules}
    assert found == {
        "start": (None, None),
        "a": ("a", None),
        "b": ("name", None),
        "c": ("c", "end"),
    }


def test_capture_of_a_template_has_its_name() -> None:
    grammar = compile_lark('start: t{"a"} t{"b"}\nt{x}[capture]: x')
    assert [rule.capture for rule in grammar.rules] == [None, "t", "t"]


@pytest.mark.parametrize(
    ("attributes", "text", "lazy", "tail", "hidden", "eog"),
    [
        ("lazy", "ab", True, None, False, False),
        ('suffix="!"', "ab!", True, "!", False, False),
        ('stop="!"', "ab!", True, "!", True, False),
        ('stop=""', "ab", False, None, False, True),
        ('suffix=""', "ab", False, None, False, True),
        ("stop=/[!?]/", "ab?", True, "?", True, False),
        ("stop=END", "ab;", True, ";", True, False),
        ("temperature=0.5", "ab", False, None, False, False),
        ("max_tokens=3", "ab", False, None, False, False),
    ],
)
def test_rule_that_is_one_terminal(
    attributes: str, text: str, lazy: bool, tail: str | None, hidden: bool, eog: bool
) -> None:
    grammar = compile_lark(f'start: x\nx[{attributes}]: /[a-z]+/\nEND: ";"')
    terminal = _only_terminal(grammar, "x")
    assert (terminal.name, terminal.lazy) == ("x", lazy)
    assert (terminal.hidden_tail, terminal.ends_with_eog) == (hidden, eog)
    assert matches(terminal.regex, text.encode())
    assert (terminal.tail is None) == (tail is None)
    if tail is not None and terminal.tail is not None:
        assert matches(terminal.tail, tail.encode())
        assert not matches(terminal.tail, b"ab")


def test_limits_and_temperatures_of_rules() -> None:
    grammar = compile_lark(
        'start: a b c\na[max_tokens=3, temperature=0.5]: /x/ "y"\nb[max_tokens=7]: c c\n'
        "c[temperature=1]: a?\n"
    )
    a, b, c = (_rule(grammar, name) for name in "abc")
    assert (a.max_tokens, a.temperature) == (3, 0.5)
    assert (b.max_tokens, b.temperature) == (7, None)
    assert (c.max_tokens, c.temperature) == (None, 1.0)
    assert matches(_only_terminal(grammar, "a").regex, b"xy")  # one terminal
    assert [len(production.symbols) for production in b.productions] == [2]


@pytest.mark.parametrize("body", ["@g*", "<a> | <b>", "%lark { start: /a+/ }{2}"])
def test_a_token_limit_holds_for_any_body(body: str) -> None:
    """llguidance looks at the first grammar only and drops what repeats it."""
    grammars = [
        {"lark_grammar": f"start: x\nx[max_tokens=3]: {body}"},
        {"name": "g", "lark_grammar": 'start: "a"'},
    ]
    rule = _rule(Grammar.from_grammars(grammars).ir, "x")
    assert rule.max_tokens == 3
    text = "start: x\nx: " + body
    plain = _rule(Grammar.from_grammars([{"lark_grammar": text}, grammars[1]]).ir, "x")
    assert rule.productions == plain.productions


# --------------------------------------------------------------------------------------------------
# Tokens of the model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>", ir.TokenSet(names=("<think>",))),
        ("</think>", ir.TokenSet(names=("</think>",))),
        ("<|im_end|>", ir.TokenSet(names=("<|im_end|>",))),
        ("<[7]>", ir.TokenSet(ranges=((7, 7),))),
        ("<[1-3,9]>", ir.TokenSet(ranges=((1, 3), (9, 9)))),
        ("<[ 1 - 3, 9 ]>", ir.TokenSet(ranges=((1, 3), (9, 9)))),
        ("<[^1-3]>", ir.TokenSet(ranges=((1, 3),), negated=True)),
        ("<[*]>", ir.TokenSet(negated=True)),
    ],
)
def test_token_terminals(text: str, expected: ir.TokenSet) -> None:
    grammar = compile_lark(f'start: "a" {text} T {text}\nT: {text}')
    (terminal,) = [item for item in grammar.terminals if item.tokens is not None]
    assert (terminal.name, terminal.regex, terminal.tokens) == (text, ir.EMPTY, expected)


def test_declared_terminals_are_special_tokens() -> None:
    grammar = compile_lark(
        "%declare THINK TOOL_CALL\n%declare END -> <|im_end|>\nstart: THINK TOOL_CALL END"
    )
    assert [(item.name, item.tokens) for item in grammar.terminals] == [
        ("THINK", ir.TokenSet(names=("<think>",))),
        ("TOOL_CALL", ir.TokenSet(names=("<tool_call>",))),
        ("END", ir.TokenSet(names=("<|im_end|>",))),
    ]


def _vocabulary(special: list[str]) -> llgx.Vocabulary:
    tokens = [*(bytes([byte]) for byte in range(256)), b"</s>", *map(str.encode, special)]
    return llgx.Vocabulary.from_tokens(tokens, eog=256, special=range(257, len(tokens)))


def test_literals_that_spell_special_tokens() -> None:
    grammar = Grammar.from_lark(
        'start: "<think>" A "and <tool>, too" /<pad>/\nA: "[INST]"i | "x"\nunused: "<none>"'
    )
    assert grammar.warnings == ()
    special = ["<think>", "<tool>", "<pad>", "[INST]", "<none>", "x"]
    found = grammar.compile(_vocabulary(special)).warnings
    assert len(found) == 3
    for text in ("'<think>'", "'<tool>' (in 'and <tool>, too')", "'[INST]'"):
        assert any(text in warning for warning in found), text
    assert "<think> without quotes" in " ".join(found)
    assert grammar.compile(_vocabulary(["<other>"])).warnings == ()
    ended = Grammar.from_lark('start: "a</s>"').compile(_vocabulary([]))
    assert len(ended.warnings) == 1


def test_a_literal_is_text_whatever_tokens_there_are() -> None:
    compiled = Grammar.from_lark('start: "<think>"').compile(_vocabulary(["<think>"]))
    matcher = llgx.Matcher(compiled)
    assert not matcher.allows(257)
    assert matcher.try_consume(list(b"<think>")) == 7
    assert matcher.is_accepting()


# --------------------------------------------------------------------------------------------------
# Several grammars


def test_classes_of_nested_grammars() -> None:
    grammar = compile_lark(
        'start: "a" %lark {\n start: "0" "b"\n %ignore " "\n} %lark {\n start: "c"\n} %lark {\n'
        ' start: "0" "d"\n %ignore " "\n} %lark {\n start: "0" "e"\n %ignore " "\n'
        ' %llguidance {"ignore_once": true}\n}'
    )
    classes = {item.name: item.skip_class for item in grammar.terminals if item.name != "%ignore"}
    assert classes['"a"'] == classes['"c"']
    assert classes['"b"'] == classes['"d"']
    assert len(set(classes.values())) == 3
    skips = [grammar.skip[classes[name]] for name in ('"a"', '"b"', '"e"')]
    assert skips[0] == -1
    assert skips[1] != skips[2]
    assert all(matches(grammar.terminals[index].regex, b" ") for index in skips[1:])
    assert grammar.skip_once
    assert grammar.skip_once_classes == frozenset({classes['"e"']})


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ('{"no_forcing": true}', "forcing", False),
        ('{"allow_initial_skip": true}', "initial_skip", True),
        ('{"lexer": "exact"}', "exact", True),
    ],
)
def test_options_for_all_grammars(option: str, field: str, value: bool) -> None:
    plain = compile_lark('start: "a" %lark {\n start: "b"\n}')
    inner = compile_lark(f'start: "a" %lark {{\n start: "b"\n %llguidance {option}\n}}')
    outer = compile_lark(f'start: "a" %lark {{\n start: "b"\n}}\n%llguidance {option}')
    assert [getattr(item, field) for item in (plain, inner, outer)] == [not value, value, value]


def test_grammars_as_json_text() -> None:
    text = json.dumps(
        {
            "grammars": [
                {"lark_grammar": 'start: "a" @b'},
                {"name": "b", "lark_grammar": 'start: "b"'},
            ],
            "max_tokens": 12,
        }
    )
    for grammar in (
        Grammar.from_grammars(text),
        Grammar.from_grammars(json.loads(text)),
        Grammar.from_grammars(json.loads(text)["grammars"], max_tokens=12),
        Grammar.from_string("\n " + text),
    ):
        assert grammar.ir.max_tokens == 12
        assert [item.name for item in grammar.ir.terminals] == ['"a"', '"b"']


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "the JSON form of a grammar: "),
        ("{}", "has a key 'grammars'"),
        ('{"grammars": []}', "no grammar in the list"),
        ('{"grammars": {}}', "no grammar"),
        ('{"grammars": 1}', "is a list"),
        ('{"grammar": []}', "did you mean 'grammars'?"),
        ('{"grammars": [1]}', "grammar 0 of the list is no object"),
        ('{"grammars": [{}]}', "either 'lark_grammar' or 'json_schema'"),
        ('{"grammars": [{"lark_grammar": "", "json_schema": {}}]}', "either"),
        ('{"grammars": [{"lark_grammar": 1}]}', "is a string"),
        ('{"grammars": [{"lark": ""}]}', "unknown key 'lark'"),
        ('{"grammars": [{"lark_grammar": "start: ", "name": "a b"}]}', "the name of grammar 0"),
        ('{"grammars": [{"lark_grammar": "start: "}], "max_tokens": -1}', "'max_tokens'"),
        ('{"grammars": [{"lark_grammar": "start: "}], "max_tokens": true}', "'max_tokens'"),
        (
            '{"grammars": [{"lark_grammar": "", "name": "a"}, {"lark_grammar": "", "name": "a"}]}',
            "two grammars are called @a",
        ),
        ('{"grammars": [{"lark_grammar": "x: "}]}', "no rule 'start'"),
    ],
)
def test_errors_of_the_json_form(source: str, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_grammars(source)
    assert message in str(caught.value)


def test_errors_say_which_grammar() -> None:
    grammars = [
        {"lark_grammar": 'start: "a"\n  | @one @tow'},
        {"name": "one", "lark_grammar": 'start: "b"\nx: "c"'},
        {"name": "two", "lark_grammar": 'start:\n  "d" y'},
    ]
    with pytest.raises(GrammarError, match="unknown grammar '@tow'") as caught:
        Grammar.from_grammars(grammars)
    assert "did you mean 'two'" in caught.value.message
    assert (caught.value.line, caught.value.column) == (2, 10)
    grammars[0]["lark_grammar"] = "start: @two"
    with pytest.raises(GrammarError, match="@two") as caught:
        Grammar.from_grammars(grammars)
    assert (caught.value.line, caught.value.column) == (2, 3)
    grammars[2]["lark_grammar"] = 'start: "d" yy'
    with pytest.raises(GrammarError, match=r"unknown name 'yy'.*@two") as caught:
        Grammar.from_grammars(grammars)
    assert (caught.value.line, caught.value.column) == (1, 12)


def test_nested_grammars_nest_so_deep_only() -> None:
    def nested(depth: int) -> str:
        return "start: " + "%lark { start: " * depth + '"a"' + " }" * depth

    assert [rule.name for rule in compile_lark(nested(30)).rules].count("start") == 31
    for depth in (31, 100_000):
        with pytest.raises(GrammarError, match="nest too deep"):
            compile_lark(nested(depth))


# --------------------------------------------------------------------------------------------------
# Modules


def test_modules_from_a_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "lib" / "one.lark").write_text('%import .deep.two.b\na: "ä" b')
    (tmp_path / "lib" / "deep" / "two.lark").write_text('b: "b"')
    text = "start: a\n%import lib.one.a"
    for directory in (tmp_path, str(tmp_path)):
        grammar = Grammar.from_lark(text, imports=directory)
        assert [item.name for item in grammar.ir.terminals] == ['"ä"', '"b"']


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("%import lib.a", "cannot read the module 'lib'"),
        ("%import ..secret.a", "unexpected|expected"),
        ("%import ../secret.a", "unexpected|expected"),
        ("%import /etc.passwd", "without closing"),
        ("%import link.a", "outside of the directory"),
        ("%import folder.a", "cannot read the module 'folder'"),
        ("%import binary.a", "is not UTF-8"),
    ],
)
def test_no_way_out_of_the_directory(tmp_path: pathlib.Path, statement: str, message: str) -> None:
    (tmp_path / "secret.lark").write_text('a: "a"')
    root = tmp_path / "root"
    (root / "folder.lark").mkdir(parents=True)
    (root / "link.lark").symlink_to(tmp_path / "secret.lark")
    (root / "binary.lark").write_bytes(b"a: \xff")
    with pytest.raises(GrammarError, match=message) as caught:
        Grammar.from_lark(f"start: a\n{statement}", imports=root)
    assert caught.value.line == 2


_LISTS = {"lists": 'list: "[" item "]"\nitem: "x"\nNUMBER: /[0-9]+/\n\nbad: item nowhere'}


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("start: x\n%import list.x", 2, 1, "did you mean 'lists'?"),
        ("start: x\n%import lists.lits -> x", 2, 15, "did you mean 'list'?"),
        ("start: x\n%import comon.INT", 2, 1, "did you mean 'common'?"),
        ("start: x\n%import lists (list, x)", 2, 22, "no 'x' in the module 'lists'"),
        ("start: list\nlist: \n%import lists.list", 3, 15, "twice"),
        ("start: bad\n%import lists.bad", 5, 11, "unknown name 'nowhere' (in the module 'lists')"),
        ("start: x\n%import lists.list -> fooBar", 2, 23, "mixes cases"),
        ("start: x\n%import lists.fooBar -> x", 2, 15, "mixes cases"),
    ],
)
def test_errors_of_imports(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_lark(text, imports=_LISTS)
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    assert message in caught.value.message


def test_imports_that_lead_to_nothing_but_themselves() -> None:
    modules = {"one": "%import two.a", "two": "%import one.a"}
    with pytest.raises(GrammarError, match="leads back to itself"):
        Grammar.from_lark("start: a\n%import one.a", imports=modules)


def test_options_belong_into_the_main_grammar() -> None:
    text = "start: a\n%import m.a"
    Grammar.from_lark(text, imports={"m": '%llguidance {}\na: "a"'})
    with pytest.raises(GrammarError, match=r"options belong .*the module 'm'"):
        Grammar.from_lark(text, imports={"m": '%llguidance {"no_forcing": true}\na: "a"'})


def test_a_fault_in_a_module_is_no_warning_of_the_grammar() -> None:
    assert Grammar.from_lark("start: list\n%import lists.list", imports=_LISTS).warnings == ()


@pytest.mark.parametrize(
    ("imports", "error"),
    [(1, TypeError), ({"a": 1}, TypeError), ({1: "a"}, TypeError), ("/nowhere/at/all", ValueError)],
)
def test_what_is_no_library(imports: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Library(imports)
    with pytest.raises(ValueError, match="twice"):
        Library({"a.b": "", "a/b.lark": ""})


def test_modules_are_bounded() -> None:
    modules = {f"m{i}": f"%import m{i + 1}.a" for i in range(1_500)}
    with pytest.raises(GrammarError, match="modules"):
        Grammar.from_lark("start: a\n%import m0.a", imports=modules)
    with pytest.raises(LimitError):
        compile_lark(
            "start: a\n%import m.a",
            library=Library({"m": " " * 200}),
            limits=Limits(grammar_bytes=100),
        )


# --------------------------------------------------------------------------------------------------
# %json and %regex


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"type": "x"}', "'number' or 'integer'"),
        ('{"type": "integer", "minimum": "a"}', "'minimum' of %regex is a number"),
        ('{"type": "integer", "minimum": true}', "'minimum' of %regex is a number"),
        ('{"type": "integer", "minimum": 5, "maximum": 3}', "no number is within"),
        ('{"type": "integer", "multipleOf": 0}', "greater than 0"),
        ('{"type": "integer", "minimum": 1e999999999}', "4000 digits"),
        ('{"type": "integer", "minimum": NaN}', "NaN is no JSON"),
        ('{"type": "integer", "substring_words": "a"}', "does not go with 'type'"),
        ('{"type": "number", "multipleOf": 1234567890123456789.5}', "at most 1e+18"),
        ('{"minimum": 3}', "one substring key, or 'type'"),
        ('{"type": "integer", "maximun": 3}', "did you mean 'maximum'?"),
    ],
)
def test_errors_of_regex_objects(value: str, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_lark(f'start: "a"\n  | %regex {value}')
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (2, 5)


@pytest.mark.parametrize(
    "schema", ['{"type": "foo"}', '{"type": }', '{"allOf": [{"type": "null"}, {"const": 1}]}']
)
def test_errors_of_schemas_point_at_the_grammar(schema: str) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_lark(f'start: "a"\n  | %json {schema}')
    assert (caught.value.line, caught.value.column) == (2, 5)


def test_errors_of_schemas_by_name() -> None:
    grammars = [
        {"lark_grammar": "start: @j"},
        {"name": "j", "json_schema": {"properties": {"a": {"type": "foo"}}}},
    ]
    with pytest.raises(GrammarError, match=r"the grammar @j: .*/properties/a"):
        Grammar.from_grammars(grammars)


def test_json_has_its_own_skipping() -> None:
    grammar = compile_lark('start: "a" %json {"type": "object"} "b"\n%ignore "_"')
    assert len(grammar.skip) == 2
    assert grammar.skip_once_classes == frozenset({1})
    assert len(set(grammar.skip)) == 2


# --------------------------------------------------------------------------------------------------
# Templates


def test_equal_uses_of_a_template_are_one() -> None:
    grammar = compile_lark(
        'start: t{"a"} t{ "a" } t{x} t{(x)} t{"a" | x} t{("a" | x)} t{/a/}\nt{y}: y y\nx: "b"'
    )
    assert [rule.name for rule in grammar.rules].count("t") == 4


def test_arguments_are_shared() -> None:
    """A template that doubles its argument thirty times costs thirty instances."""
    lines = ["start: t0{x}", 'x: "a" | "b"']
    lines += [f"t{i}{{y}}: t{i + 1}{{d{{y}}}}" for i in range(30)]
    lines += ["t30{y}: y", "d{y}: y y"]
    assert len(compile_lark("\n".join(lines)).rules) < 100


@pytest.mark.parametrize(
    "body",
    ["x{y y}", 'x{(y | y "b")}', "z{y, y}", "x{y+ y}", 'x{y "a"}'],
)
def test_arguments_that_grow_for_ever(body: str) -> None:
    """Each use asks for one with a larger argument: an error, and before it is written out."""
    text = f'start: x{{"a"}} X{{"a"}}\nx{{y}}: y | {body}\nz{{a, b}}: x{{a b}} | x{{b "c" a}}'
    with pytest.raises(GrammarError, match="do they come to an end"):
        compile_lark(text + "\nX{y}: y")
    with pytest.raises(GrammarError, match="do they come to an end"):
        compile_lark('start: X{"a"}\nX{y}: y | X{y y}')


def test_a_large_argument_is_no_growing_one() -> None:
    words = " | ".join(f'"w{number}" "."' for number in range(30_000))
    grammar = compile_lark(f'start: list{{{words}}}\nlist{{item}}: item ("," item)*')
    assert len(grammar.terminals) == 30_002


# --------------------------------------------------------------------------------------------------
# Warnings


@pytest.mark.parametrize(
    ("text", "terminal"),
    [
        ('start: /a+/ "a"', "/a+/"),
        ('start: /.*/ "end"', "/.*/"),
        ('start: (TEXT "<tool>" "x")* TEXT\nTEXT: /(.|\\n)*/', "TEXT"),
        ('start: /[a-z ]+/ "x"\n%ignore / +/', "/[a-z ]+/"),
        ('start: /(ab)*/ x\nx: "a" | "a" x', "/(ab)*/"),
        ('start: "<" T ">"\nT: /[^"]+/', "T"),
        ('start: T+ ";"\nT: /(?s:.)+/', "T"),
        ('start: T " and " T\nT: /[A-Z][a-z ]+/', "T"),
        ('start: w? T " and " w? T\nT: /[a-z ]+/\nw: /[0-9]/', "T"),
        ('start: /[ab]*/ x::0\nx::_: "a" %if eq(_, 0) | "b" %if eq(_, 1)', "/[ab]*/"),
        ('start: @inner "b"', "/[a-z]+/"),
    ],
)
def test_terminals_that_swallow_what_follows(text: str, terminal: str) -> None:
    grammars = [{"lark_grammar": text}, {"name": "inner", "lark_grammar": "start: /[a-z]+/"}]
    (warning,) = Grammar.from_grammars(grammars).warnings
    assert warning.startswith(f"the terminal {terminal} ")
    assert "takes in whatever can follow" in warning


@pytest.mark.parametrize(
    "text",
    [
        'start: /a+/ "b"',
        'start: x\nx: T "a" x | T\nT: /a+/',
        'start: w? T "a" | T\nT: /a+/\nw: /b/',
        'start: /[^"]*/ "\\""',
        'start: /a*b?/ "b"',  # after b a b is no part of it
        'start: /[a-z]+/ "s"?',  # may also end there
        "start: /[a-z]+/ /[a-z ]+/",
        'start: /[a-z]+/ "x"\n%ignore / +/',
        "start: x\nx: A x | A\nA: /a+/",
        'start: ("list" | "listen") "ed"',
        'start: x "a"\nx[lazy]: /a+/',
        'start: x "a"\nx[suffix="b"]: /a+/',
        'start: x "b"\nx[stop=""]: /.*/',
        'start: x "a"\nx[max_tokens=3]: /a+/',
        'start: x "a"\nx[max_tokens=3]: y "b"?\ny: /a+/',
        "start: /.+/ <x>",
        '%llguidance {"lexer": "exact"}\nstart: /a+/ "a"',
        'start: /a{1,3}/ "a"',
        'start: /.*\\n/ "a"',
        'start: T "a"\nT: /a+/ & ~/aaa/',
        'start: /(a+b)*c/ "a"',
        "start: /(?s:.*)/",
        'start: /a+/ T "b"\nT: "a" & "b"',
    ],
)
def test_terminals_that_can_be_followed(text: str) -> None:
    assert compile_lark(text).warnings == []


def test_a_warned_terminal_never_ends() -> None:
    """Random small grammars: where there is a warning, nothing follows; and some are found."""
    rng = random.Random(3)
    vocabulary = _vocabulary([])
    warned = 0
    pieces = ["a", "b", "[ab]", "a*", "b+", "[ab]*", "(ab)*", "(a|bb)+", "a?", "c", "[^c]"]
    for _ in range(300):
        first = "".join(rng.choices(pieces, k=rng.randint(1, 3)))
        second = "".join(rng.choices(["a", "b", "c", "[ab]", "[bc]"], k=2))
        grammar = Grammar.from_lark(f"start: X /{second}/\nX: /{first}/ & /.+/\n")
        plain = Grammar.from_lark(f"start: X /{second}/\nX: /{first}/")
        if not plain.warnings:
            continue
        warned += 1
        compiled = grammar.compile(vocabulary)
        for _ in range(20):
            matcher = llgx.Matcher(compiled)
            for _ in range(12):
                allowed = [token for token in b"abc" if matcher.allows(token)]
                if not allowed:
                    break
                matcher.consume(rng.choice(allowed))
                assert not matcher.is_accepting(), (first, second, matcher.tokens)
    assert warned > 30


def test_priorities_of_terminals_are_spoken_of() -> None:
    grammar = compile_lark('start.2: A | b\nA.3: "a"\nb.1: "b"')
    (warning,) = grammar.warnings
    assert "line 2, column 1" in warning
    assert "priority of terminal 'A'" in warning


# --------------------------------------------------------------------------------------------------
# Lazy quantifiers


def test_lazy_quantifiers_are_shortest_matches() -> None:
    """Against :mod:`re`: what backtracking finds first is the shortest match from the start."""
    rng = random.Random(2)
    pieces = ["a", "b", "[ab]", "c", "(?:ab|ba)", "a{2}", "[^c]"]
    loops = ["a*?", "[ab]*?", ".*?", "b+?", "[^a]??", "a{1,2}?", ".{0,3}?"]
    found = 0
    for _ in range(300):
        parts = [*rng.choices(pieces, k=rng.randint(0, 2)), rng.choice(loops)]
        parts += rng.choices(pieces + loops, k=rng.randint(1, 3))
        pattern = "".join(parts)
        if re.fullmatch(pattern, ""):
            continue
        regex, lazy = parse_rust_lexeme(pattern)
        assert lazy
        for _ in range(8):
            text = "".join(rng.choices("abc", k=rng.randint(1, 8)))
            match = re.match(pattern, text)
            ends = [end for end in range(len(text) + 1) if matches(regex, text[:end].encode())]
            assert (match.end() if match else None) == (ends[0] if ends else None), (pattern, text)
            found += bool(ends)
    assert found > 200


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('start: A\nA: /a*?/ "b"', 2, 7),
        ('start: A\nA: B "c"\nB: /xa*?b/', 3, 8),
        ('start: /ab/ x\nx[suffix="c"]: /a*?/', 2, 19),
        ("start: /a*b*?c/", 1, 13),
        ("start: /(?:ab)*?c/", 1, 16),
        ("start: /a*?|b/", 1, 11),
        ("start: /a*?.??/", 1, 11),
        ("start: /a*?(?:b|cd)/", 1, 11),
        ("start: /(?U)a*b/", 1, 11),
    ],
)
def test_lazy_quantifiers_that_are_refused(text: str, line: int, column: int) -> None:
    with pytest.raises(GrammarError, match=r"\[lazy\] or suffix=") as caught:
        compile_lark(text)
    assert (caught.value.line, caught.value.column) == (line, column)


# --------------------------------------------------------------------------------------------------
# Sizes


@pytest.mark.parametrize(
    "text",
    [
        'start: x "!"\nx[suffix=/[.;]/, capture]: (/a{2,3}/ | "é") & ~"aaa"',
        'start: %regex {"substring_chars": "abcabc"} %regex {"type": "integer", "multipleOf": 7}',
        'start: T0 <[3]>\n%ignore " "\n'
        + "\n".join(f'T{i}: "a" | "b" T{i + 1} "c"' for i in range(1_500))
        + '\nT1500: "x"',
    ],
    ids=["suffix", "numbers", "deep"],
)
def test_pickled_grammars_are_the_same(text: str) -> None:
    grammar = Grammar.from_lark(text)
    data = pickle.dumps(grammar)
    loaded = pickle.loads(data)
    assert pickle.dumps(loaded) == data
    first, second = (llgx.Matcher(item.compile(_vocabulary([]))) for item in (grammar, loaded))
    rng = random.Random(1)
    for _ in range(20):
        assert first.allowed_tokens() == second.allowed_tokens()
        if not first.allowed_tokens() or first.is_stopped():
            break
        token = rng.choice(first.allowed_tokens())
        first.consume(token)
        second.consume(token)


def test_more_symbols_than_sixteen_bits_count() -> None:
    words = [f"w{i:x}" for i in range(22_000)]
    text = "start: (" + " | ".join(f'"{word}" "."' for word in words) + ")*"
    grammar = Grammar.from_lark(text)
    rules = grammar.ir.rules
    assert sum(1 + len(p.symbols) for rule in rules for p in rule.productions) > 65_536
    compiled = grammar.compile(_vocabulary([]), limits=Limits(row_items=200_000))
    matcher = llgx.Matcher(compiled)
    assert matcher.try_consume(list(b"w0.w55ef.wabc.")) == 14
    assert matcher.try_consume(list(b"w55f0.")) == 4
