"""Options of JSON Schema grammars: white space, separators, ``x-guidance``; grammar texts."""

from __future__ import annotations

import ctypes
import decimal
import json
from pathlib import Path
from typing import Any

import pytest

import llgx
from llgx.json_schema import Options, json_schema_to_grammar, options_of

BYTES = llgx.Vocabulary.from_tokens([*(bytes((byte,)) for byte in range(256)), b""], eog=256)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "null"}}},
    "required": ["a"],
    "additionalProperties": False,
}
DOCUMENT = {"a": 1, "b": [None, None]}


def accepts(schema: object, text: str, **options: Any) -> bool:
    grammar = llgx.Grammar.from_json_schema(schema, **options)
    data = text.encode()
    return llgx.Matcher(grammar.compile(BYTES)).match_bytes(data) == (len(data), True)


FLEXIBLE = '{ "a"\t:\r\n 1 ,"b" : [ null, null\n]}'
COMPACT = '{"a":1,"b":[null,null]}'
SPACED = json.dumps(DOCUMENT)


@pytest.mark.parametrize(
    ("options", "accepted", "rejected"),
    [
        ({}, [FLEXIBLE, COMPACT, SPACED], [" " + COMPACT, COMPACT + "\n"]),
        ({"whitespace": "compact"}, [COMPACT], [SPACED, FLEXIBLE]),
        ({"whitespace": 0}, [COMPACT], [SPACED]),
        ({"whitespace": 1}, [COMPACT, SPACED], [FLEXIBLE, SPACED.replace(" ", "  ")]),
        ({"whitespace": "[ ]*"}, [COMPACT, SPACED, SPACED.replace(" ", "   ")], [FLEXIBLE]),
        ({"whitespace": "[x ]+"}, [COMPACT, SPACED], [COMPACT.replace(":", ":x")]),
        (
            {"whitespace": "compact", "item_separator": ", ", "key_separator": ": "},
            [SPACED],
            [COMPACT, FLEXIBLE, SPACED.replace(", n", ",n")],
        ),
        ({"item_separator": ", ?"}, [COMPACT, SPACED], [COMPACT.replace(",", ";")]),
        ({"indent": 2}, [json.dumps(DOCUMENT, indent=2)], [COMPACT, SPACED]),
        ({"indent": "\t"}, [json.dumps(DOCUMENT, indent="\t")], [json.dumps(DOCUMENT, indent=1)]),
        ({"indent": 0}, [json.dumps(DOCUMENT, indent=0)], [COMPACT]),
        (
            {"indent": 1, "key_separator": ":"},
            [json.dumps(DOCUMENT, indent=1, separators=(",", ":"))],
            [json.dumps(DOCUMENT, indent=1)],
        ),
        ({"whitespace_flexible": False}, [COMPACT], [SPACED]),
        ({"whitespace_pattern": "[ \n]"}, [COMPACT, SPACED], [FLEXIBLE]),
    ],
    ids=repr,
)
def test_white_space(options: dict[str, Any], accepted: list[str], rejected: list[str]) -> None:
    for text in accepted:
        assert accepts(SCHEMA, text, **options), text
    for text in rejected:
        assert not accepts(SCHEMA, text, **options), text


@pytest.mark.parametrize("depth", [1, 11, 12, 13, 40])
@pytest.mark.parametrize("indent", [0, 1, 4])
def test_lines_at_every_depth(depth: int, indent: int) -> None:
    document: Any = {}
    for level in range(depth):
        document = [document, level] if level % 2 else {"k": document, "l": []}
    text = json.dumps(document, indent=indent)
    assert accepts(True, text, indent=indent)
    if indent:
        deepest = "\n" + " " * indent * depth
        assert not accepts(True, text.replace(deepest, deepest + " "), indent=indent)
        assert not accepts(True, text.replace(deepest, deepest[:-1]), indent=indent)


def test_separators_do_not_run_into_strings() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    options = {"item_separator": ".*", "key_separator": '[^"]+'}
    assert accepts(schema, '{"x":1 ,\n"y" : 2}', **options)
    assert not accepts(schema, '{"x":1,"z", "y":2}', **options)
    assert not accepts(schema, '{"x"!1}', **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"whitespace": None}, TypeError, "whitespace"),
        ({"whitespace": True}, TypeError, "whitespace"),
        ({"whitespace": -1}, ValueError, "whitespace"),
        ({"whitespace": "x"}, ValueError, "whitespace"),
        ({"whitespace": "("}, ValueError, "whitespace"),
        ({"indent": 2.0}, TypeError, "indent"),
        ({"indent": -1}, ValueError, "indent"),
        ({"indent": "--"}, ValueError, "indent"),
        ({"indent": 2, "whitespace": "compact"}, ValueError, "indent"),
        ({"item_separator": ""}, ValueError, "separator"),
        ({"item_separator": ";"}, ValueError, "item_separator"),
        ({"key_separator": "["}, ValueError, "key_separator"),
        ({"property_order": "sorted"}, ValueError, "property_order"),
        ({"on_unsupported": "ignore"}, ValueError, "on_unsupported"),
        ({"resources": 1}, TypeError, "resources"),
        ({"coerce_one_of": 1}, TypeError, "coerce_one_of"),
        ({"strings": "plain"}, TypeError, "strings"),
        ({"colour": "red"}, TypeError, "colour"),
        ({"whitespace_flexible": "no"}, ValueError, "whitespace_flexible"),
    ],
    ids=repr,
)
def test_options_that_are_none(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        llgx.Grammar.from_json_schema(True, **options)


def with_guidance(**guidance: Any) -> dict[str, Any]:
    return {**SCHEMA, "x-guidance": guidance}


def test_x_guidance_sets_options_that_the_caller_did_not() -> None:
    schema = with_guidance(whitespace_flexible=False)
    assert accepts(schema, COMPACT)
    assert not accepts(schema, SPACED)
    assert accepts(schema, SPACED, whitespace=1)
    assert accepts(schema, json.dumps(DOCUMENT, indent=2), indent=2)
    schema = with_guidance(whitespace_flexible=False, item_separator=", ", key_separator=": ")
    assert accepts(schema, SPACED)
    assert not accepts(schema, COMPACT)
    # A pattern wins over the switch, as with llguidance.
    assert accepts(with_guidance(whitespace_flexible=False, whitespace_pattern=" "), SPACED)


def test_x_guidance_spells_strings() -> None:
    schema = {"enum": ["a/é"]}
    assert not accepts(schema, '"a\\/\\u00e9"')
    guided = {**schema, "x-guidance": {"json_allow_general_unicode_escapes": True}}
    assert accepts(guided, '"a/\\u00e9"')
    assert not accepts(guided, '"a\\/\\u00e9"')
    guided["x-guidance"]["json_allowed_escapes"] = "u/"
    assert accepts(guided, '"a\\/\\u00e9"')


def test_x_guidance_coerces_one_of() -> None:
    both = {"oneOf": [{"minimum": 1}, {"maximum": 5}]}
    assert not accepts(both, "3")
    assert accepts({**both, "x-guidance": {"coerce_one_of": True}}, "3")
    assert accepts({**both, "x-guidance": {"lenient": True}}, "3")


@pytest.mark.parametrize(
    ("guidance", "pointer"),
    [
        ({"colour": "red"}, "/x-guidance/colour"),
        ({"whitespace_flexible": 1}, "/x-guidance/whitespace_flexible"),
        ({"item_separator": None}, "/x-guidance/item_separator"),
        ({"json_allowed_escapes": "q"}, "/x-guidance/json_allowed_escapes"),
        ({"item_separator": ""}, "/x-guidance"),
        ([], "/x-guidance"),
    ],
    ids=repr,
)
def test_x_guidance_at_fault(guidance: Any, pointer: str) -> None:
    with pytest.raises(llgx.SchemaError) as caught:
        llgx.Grammar.from_json_schema({"x-guidance": guidance})
    assert caught.value.pointer == pointer
    assert caught.value.keyword == "x-guidance"


def test_x_guidance_below_the_root_says_nothing() -> None:
    schema = {"type": "array", "items": {"x-guidance": {"colour": "red"}}}
    assert accepts(schema, "[ 1 ]")


def test_options_by_name() -> None:
    assert options_of({}) == Options()
    assert options_of({"whitespace_flexible": False}) == Options(whitespace="compact")
    assert hash(options_of({"indent": 2})) == hash(Options(indent=2))


# Texts


def test_lark_text_holds_the_schema() -> None:
    text = json_schema_to_grammar(SCHEMA)
    head, _, rest = text.partition("%json ")
    assert head == "%llguidance {}\nstart: "
    assert json.loads(rest) == SCHEMA


def test_lark_text_takes_options_along() -> None:
    text = json_schema_to_grammar({**SCHEMA}, whitespace="compact", item_separator=", ")
    contents = json.loads(text.partition("%json ")[2])
    assert contents.pop("x-guidance") == {"whitespace_flexible": False, "item_separator": ", "}
    assert contents == SCHEMA
    with pytest.raises(ValueError, match="indent"):
        json_schema_to_grammar(SCHEMA, indent=2)


def test_lark_text_keeps_numbers_and_depth() -> None:
    exact = '{"const":0.12345678901234567890123}'
    assert json_schema_to_grammar(exact).rstrip().endswith(exact)
    number = {"maximum": decimal.Decimal("1.10")}
    assert json_schema_to_grammar(number).rstrip().endswith('{"maximum":1.10}')
    schema: Any = True
    for _ in range(450):
        schema = {"items": schema}
    assert json_schema_to_grammar(schema).count('"items"') == 450


def test_grammar_text_of_a_schema_at_fault() -> None:
    for force_gbnf in (False, True):
        with pytest.raises(llgx.SchemaError):
            json_schema_to_grammar({"type": "nonsense"}, force_gbnf)


GBNF_CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (SCHEMA, [FLEXIBLE, COMPACT, SPACED], [" " + COMPACT, '{"b":[]}', COMPACT + " "]),
    ({}, ["1", '{"a":[]}', '"x"', "[ true ,{}]"], ["", "[,]", "x"]),
    ({"type": "string", "maxLength": 2}, ['""', '"é"', '"a\\n"'], ['"abc"', '"a', "a"]),
    ({"type": "string", "pattern": "^[a-zé-ü]{2}$"}, ['"aü"'], ['"aß"', '"a"', '"aaa"']),
    ({"not": {"type": "string", "pattern": "b"}}, ['"ac"', "1"], ['"abc"']),
    ({"enum": ['"\\', "é😀", 1.5, None]}, ['"\\"\\\\"', '"é😀"', "1.5", "null"], ['"é"', "1"]),
    ({"type": "integer", "minimum": 7, "maximum": 1_000}, ["7", "1000"], ["6", "1001", "07"]),
    (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "null"}},
        ['{"a":1}', '{"b":null}', '{"ab":null}', '{"a":[] ,"é":null}'],
        ['{"b":1}', '{"a":1,}'],
    ),
    ({"type": "array", "minItems": 1, "maxItems": 3}, ["[1]", "[1,2,3]"], ["[]", "[1,2,3,4]"]),
    (
        {"type": "array", "contains": {"type": "integer"}, "maxContains": 1},
        ["[1]", '["a",1,null]'],
        ["[]", '["a",1,2]'],
    ),
    (
        {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"},
        ["[]", "[[],[[]]]"],
        ["[1]"],
    ),
]


class Gbnf:
    """A GBNF grammar in llama.cpp itself."""

    def __init__(self, vocabulary: Path) -> None:
        import llama_cpp

        self._lib = llama_cpp
        llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p())
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(vocabulary).encode(), parameters)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)

    def accepts(self, grammar: str, text: str) -> bool:
        lib = self._lib
        sampler = lib.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        assert sampler, grammar
        try:
            for token in [*self._tokens(text.encode()), lib.llama_vocab_eos(self._vocab)]:
                item = lib.llama_token_data(token, 0.0, 0.0)
                array = lib.llama_token_data_array(ctypes.pointer(item), 1, -1, False)
                lib.llama_sampler_apply(sampler, ctypes.byref(array))
                if array.data[0].logit < 0:
                    return False
                if token != lib.llama_vocab_eos(self._vocab):
                    lib.llama_sampler_accept(sampler, token)
            return True
        finally:
            lib.llama_sampler_free(sampler)

    def _tokens(self, data: bytes) -> list[int]:
        buffer = (self._lib.llama_token * (len(data) + 8))()
        count = self._lib.llama_tokenize(
            self._vocab, data, len(data), buffer, len(buffer), False, False
        )
        assert count >= 0
        return list(buffer[:count])

    def close(self) -> None:
        self._lib.llama_model_free(self._model)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _SILENT(level: int, text: bytes, user: int) -> None:
    pass


@pytest.fixture(scope="module")
def gbnf(vocabulary_dir: Path) -> Any:
    reader = Gbnf(vocabulary_dir / "ggml-vocab-llama-bpe.gguf")
    yield reader
    reader.close()


@pytest.mark.parametrize(("schema", "accepted", "rejected"), GBNF_CASES, ids=repr)
def test_gbnf_says_the_same(
    schema: dict[str, Any], accepted: list[str], rejected: list[str], gbnf: Gbnf
) -> None:
    text = json_schema_to_grammar(schema, force_gbnf=True)
    for document in accepted:
        assert accepts(schema, document)
        assert gbnf.accepts(text, document), document
    for document in rejected:
        assert not accepts(schema, document)
        assert not gbnf.accepts(text, document), document


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"type": "string", "maxLength": 5_000}, {}),
        ({"type": "object", "maxProperties": 5_000}, {}),
        ({"type": "object"}, {"indent": 2}),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, {}),
    ],
    ids=repr,
)
def test_what_gbnf_cannot_say(schema: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(llgx.GrammarError, match="GBNF"):
        json_schema_to_grammar(schema, force_gbnf=True, **options)


@pytest.mark.parametrize("names", [["byte"], ("byte", "int32"), {"byte"}])
def test_formats_may_be_ignored(names: Any) -> None:
    schema = {"format": "byte"}
    text = '"no base64"'
    assert not accepts(schema, text)
    assert accepts(schema, text, ignored_formats=names)
    compiled = llgx.Grammar.from_json_schema(schema, ignored_formats=names).compile(BYTES)
    assert [entry[:2] for entry in compiled.unenforced] == [("", "format")]
