"""Structural tags and reasoning, against an oracle that searches the text as a person would."""

from __future__ import annotations

import dataclasses
import random
import re
import time
from collections.abc import Sequence
from typing import Any, Final

import pytest

import llgx
from llgx import SpecialToken, StructuralTag
from tests.strategies import byte_tokens

BYTES: Final = byte_tokens()
VOCABULARY: Final = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog)
CALL: Final = StructuralTag("<f=a>", "</f>", "%llguidance {}\nstart: /[0-9]+/")
OTHER: Final = StructuralTag("<f=ab>", "</f>", "%llguidance {}\nstart: /[a-z]*/")


def _accepts(grammar: llgx.Grammar, text: str) -> bool:
    matcher = llgx.Matcher(grammar.compile(VOCABULARY))
    data = text.encode()
    return matcher.try_consume(data) == len(data) and bool(matcher.is_accepting())


def _check(grammar: llgx.Grammar, accept: Sequence[str], reject: Sequence[str]) -> None:
    for text in accept:
        assert _accepts(grammar, text), text
    for text in reject:
        assert not _accepts(grammar, text), text


def test_free_text_and_tags() -> None:
    grammar = llgx.Grammar.from_structural_tags([CALL, OTHER], triggers=["<f="])
    _check(
        grammar,
        ["", "text", "<", "<f", "é<f", "<f=a>12</f>", "x <f=a>1</f> y <f=ab></f><f=ab>z</f>"],
        ["<f=", "<f=c>", "<f=a></f>", "<f=a>1", "<f=ab>1</f>", "<f=a>1</f><f="],
    )


def test_the_beginning_is_the_trigger_by_default() -> None:
    grammar = llgx.Grammar.from_structural_tags([CALL])
    _check(grammar, ["<f=", "<f=ab>!", "<f=a>7</f>"], ["<f=a>", "<f=a>x</f>"])


def test_a_beginning_that_begins_another() -> None:
    tags = [
        StructuralTag("<f", ">", "%llguidance {}\nstart: /[0-9]+/"),
        StructuralTag("<fg", ">", "%llguidance {}\nstart: /[a-z]+/"),
        StructuralTag("<fgh", "!", "%llguidance {}\nstart: /[a-z]+/"),
    ]
    grammar = llgx.Grammar.from_structural_tags(tags, triggers=["<"])
    _check(grammar, ["<f1>", "<fga>", "<fghi!", "<fgh>", "<fghi>"], ["<f>", "<fg>", "<fg1>", "<g"])


def test_at_least_one() -> None:
    grammar = llgx.Grammar.from_structural_tags([CALL], at_least_one=True)
    _check(grammar, ["<f=a>1</f>", "x<f=a>1</f>y<f=a>2</f>"], ["", "x", "<f=a>1"])


def test_stop_after_first() -> None:
    grammar = llgx.Grammar.from_structural_tags([CALL], stop_after_first=True)
    _check(grammar, ["", "x", "x<f=a>1</f>"], ["x<f=a>1</f>y", "<f=a>1</f><f=a>1</f>"])
    both = llgx.Grammar.from_structural_tags([CALL], stop_after_first=True, at_least_one=True)
    _check(both, ["<f=a>1</f>", "x<f=a>1</f>"], ["", "x", "<f=a>1</f>y"])
    matcher = llgx.Matcher(both.compile(VOCABULARY))
    assert matcher.try_consume(b"x<f=a>1</f>") == 11
    assert matcher.is_stopped()


def test_excluded_strings() -> None:
    grammar = llgx.Grammar.from_structural_tags([CALL], excludes=["no", "<x"])
    _check(
        grammar,
        ["n o", "<f=a>1</f>n", "n<f=a>1</f>o", "<"],
        ["no", "a no b", "<x", "no<f=a>1</f>", "<f=a>1</f>no"],
    )


def test_excluded_strings_do_not_bind_inside_of_tags() -> None:
    tag = StructuralTag("<t>", "</t>", "%llguidance {}\nstart: /[a-z]+/")
    grammar = llgx.Grammar.from_structural_tags([tag], excludes=["no"])
    _check(grammar, ["<t>no</t>"], ["no<t>a</t>"])


def test_text_up_to_the_end() -> None:
    """A tag without a grammar holds any text that does not hold its end."""
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("```", "```")])
    _check(grammar, ["a ``` b ``` c", "``````", "``` `` ```"], ["```", "``` ``", "``` a ``` ```"])


def test_a_content_that_could_swallow_the_end() -> None:
    """One terminal ends where its end first occurs, whatever it could take in."""
    greedy = StructuralTag("<t>", "</t>", "%llguidance {}\nstart: /(.|\\n)*/")
    grammar = llgx.Grammar.from_structural_tags([greedy])
    _check(grammar, ["<t></t>", "<t>a</t>b", "<t></t></t>", "x<t>\n</t><t></t>"], ["<t>", "<t></t"])
    last = llgx.Grammar.from_structural_tags([greedy], stop_after_first=True)
    _check(last, ["<t></t>", "<t>a</t>b</t>"], ["<t>a</t>b"])


def test_white_space_of_the_content() -> None:
    """What a content ignores may stand in it, and not before it."""
    inner = '%llguidance {}\nstart: "[" item? "]"\nitem: "a" | start\n%ignore / +/'
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("<t>", "</t>", inner)])
    _check(grammar, ["<t>[ ]</t>", "<t>[ a  ]</t>"], ["<t> []</t>", "<t>[] </t>"])
    before = '%llguidance {"allow_initial_skip": true}\nstart: "[" "]"\n%ignore / +/'
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("<t>", "</t>", before)])
    _check(grammar, ["<t>[ ]</t>", "<t>  []</t>"], ["<t>[] </t>"])


def test_white_space_before_what_may_be_empty() -> None:
    inner = '%llguidance {}\nstart: a? B c\na: "x" | a "y"\nB: /[0-9]*/\nc: "z" |\n%ignore " "'
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("<t>", "</t>", inner)])
    _check(
        grammar,
        ["<t></t>", "<t>x</t>", "<t>x y y 12 z</t>", "<t>1 z</t>", "<t>z</t>", "<t>x z</t>"],
        ["<t> x</t>", "<t> 1</t>", "<t> z</t>", "<t> </t>"],
    )


def test_contents_of_every_kind() -> None:
    gbnf = StructuralTag("<g>", "</g>", 'root ::= "(" root ")" | "x"')
    ready = StructuralTag("<c>", "</c>", llgx.Grammar.from_choices(["a", "ab"]))
    grammar = llgx.Grammar.from_structural_tags(
        [gbnf, ready, {"begin": "<r>", "end": "</r>", "regex": "a+"}]
    )
    _check(
        grammar,
        ["<g>((x))</g><c>a</c><c>ab</c><r>aa</r>"],
        ["<g>(x</g>", "<c>b</c>", "<r></r>"],
    )


# Requests

STRUCTURES: Final[dict[str, Any]] = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=a>", "grammar": 'root ::= "1"', "end": "</f>"}],
    "triggers": ["<f="],
}
TRIGGERED: Final[dict[str, Any]] = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [
            {
                "type": "tag",
                "begin": "<f=a>",
                "content": {"type": "regex", "pattern": "1"},
                "end": "</f>",
            },
            {"begin": "<f=b>", "content": {"type": "any_text"}, "end": "</f>"},
        ],
        "at_least_one": True,
        "excludes": ["no"],
    },
}


def test_requests() -> None:
    import json

    for request in (STRUCTURES, json.dumps(STRUCTURES)):
        grammar = llgx.Grammar.from_structural_tags(request)
        _check(grammar, ["", "a<f=a>1</f>"], ["<f=", "<f=a>2</f>"])
    for request in (TRIGGERED, json.dumps(TRIGGERED)):
        grammar = llgx.Grammar.from_structural_tags(request)
        _check(grammar, ["a<f=a>1</f>", "<f=b>x</f>"], ["", "a", "<f=a>2</f>", "no<f=a>1</f>"])


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("{", "no JSON"),
        ({"structures": [], "trigger": ["a"]}, "no 'trigger'"),
        ({"format": {"type": "sequence"}}, "'sequence' is not supported"),
        ({"format": {"type": "triggered_tags", "colour": 1}}, "no 'colour'"),
        ([{"begin": "a"}], "no 'end'"),
        ([{"begin": "a", "end": "b", "colour": 1}], "no 'colour'"),
        ([{"begin": "a", "end": "b", "content": {"type": "tag"}}], "'tag' of a tag is not"),
        ([{"begin": "a", "end": "b", "content": {"type": "regex"}}], "no 'pattern'"),
        ([{"begin": "a", "end": "b", "content": "x"}], "object with a type"),
        ([{"begin": "a", "end": "b", "regex": "x", "grammar": "y"}], "or a regex"),
        ([{"begin": "a", "end": "b", "schema": {}, "grammar": "y"}], "not both"),
        ([], "no structural tags"),
    ],
)
def test_faulty_requests(request_: Any, message: str) -> None:
    with pytest.raises(llgx.GrammarError, match=re.escape(message)):
        llgx.Grammar.from_structural_tags(request_)


@pytest.mark.parametrize(
    ("tags", "options", "message"),
    [
        ([StructuralTag("", "x")], {}, "beginning of a tag is empty"),
        ([StructuralTag("a", "")], {}, "end of a tag without a grammar is empty"),
        ([CALL], {"triggers": ["<g"]}, "starts with none of the triggers '<g'"),
        ([dataclasses.replace(CALL, trigger="f=")], {}, "starts with none of the triggers 'f='"),
        ([CALL], {"triggers": ["<f", "<g"]}, "no tag begins with the trigger '<g'"),
        ([CALL], {"triggers": [""]}, "a trigger is empty"),
        ([CALL], {"excludes": [""]}, "an excluded string is empty"),
        ([CALL, StructuralTag("f", "x")], {}, "'<f=a>' can never be completed: 'f' ends"),
        ([StructuralTag("a\ud800", "x")], {}, "surrogate"),
        ([StructuralTag("a", "x", "root ::= b")], {}, "unknown rule 'b'"),
    ],
)
def test_faulty_tags(tags: list[StructuralTag], options: dict[str, Any], message: str) -> None:
    with pytest.raises(llgx.GrammarError, match=re.escape(message)):
        llgx.Grammar.from_structural_tags(tags, **options)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="parts of a marker are a list"):
        StructuralTag(7, "x")  # type: ignore[arg-type]
    for tags in (7, [7]):
        with pytest.raises(TypeError):
            llgx.Grammar.from_structural_tags(tags)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        llgx.Grammar.from_structural_tags([CALL], triggers="<f=")
    with pytest.raises(TypeError):
        SpecialToken(1.5)  # type: ignore[arg-type]
    for token in ("", -1):
        with pytest.raises(ValueError, match="token"):
            SpecialToken(token)


# Against an oracle


@dataclasses.dataclass
class _Task:
    """Tags with regexes as contents; None is any text."""

    tags: list[tuple[str, str | None, str]]
    triggers: list[str]
    excludes: list[str]
    at_least_one: bool
    stop_after_first: bool

    def accepts(self, text: str, at: int = 0, found: bool = False) -> bool:
        """Whether ``text`` from ``at`` on, where free text begins, is as it should be."""
        places = [(text.find(t, at) + len(t), t) for t in self.triggers if text.find(t, at) >= 0]
        end, trigger = min(places, default=(len(text), ""))
        free = text[at : end - len(trigger)]
        if any(string in free for string in self.excludes):
            return False
        if not trigger:
            return found or not self.at_least_one
        return any(
            self._tag(text, end + len(begin) - len(trigger), content, closing)
            for begin, content, closing in self.tags
            if begin.startswith(trigger) and text.startswith(begin[len(trigger) :], end)
        )

    def _tag(self, text: str, begin: int, content: str | None, closing: str) -> bool:
        for end in range(begin, len(text) - len(closing) + 1):
            if not text.startswith(closing, end):
                continue
            if content is not None and not re.fullmatch(content, text[begin:end], re.DOTALL):
                continue
            after = end + len(closing)
            if not self.stop_after_first:
                return self.accepts(text, after, True)
            if after == len(text) or content is None:
                return after == len(text)
        return False

    def grammar(self) -> llgx.Grammar:
        return llgx.Grammar.from_structural_tags(
            [
                {"begin": begin, "end": end, **({} if content is None else {"regex": content})}
                for begin, content, end in self.tags
            ],
            triggers=self.triggers,
            excludes=self.excludes,
            at_least_one=self.at_least_one,
            stop_after_first=self.stop_after_first,
        )


def _random_task(rng: random.Random) -> _Task | None:
    def word(low: int, high: int) -> str:
        return "".join(rng.choice("abé") for _ in range(rng.randint(low, high)))

    triggers = list({word(1, 3) for _ in range(rng.randint(1, 3))})
    if any(a != b and a in b for a in triggers for b in triggers):
        return None
    contents = (None, "a", "[ab]*", "(?s:.*)", "(ab)+", "a?b?")
    tags = {trigger + word(0, 2): trigger for trigger in triggers for _ in range(rng.randint(1, 2))}
    return _Task(
        [(begin, rng.choice(contents), word(1, 2)) for begin in tags],
        triggers,
        [word(1, 2) for _ in range(rng.randint(0, 2))],
        rng.random() < 0.3,
        rng.random() < 0.3,
    )


def test_random_tags() -> None:
    """Tags whose beginnings begin each other are ambiguous: the one that ends first is taken."""
    checked = accepted = 0
    for seed in range(400):
        rng = random.Random(seed)
        task = _random_task(rng)
        if task is None:
            continue
        begins = [begin for begin, _, _ in task.tags]
        if any(a != b and b.startswith(a) for a in begins for b in begins):
            continue
        compiled = task.grammar().compile(VOCABULARY)
        for _ in range(30):
            parts = [rng.choice("abé") for _ in range(rng.randint(0, 4))]
            for begin, content, end in rng.choices(task.tags, k=rng.randint(0, 2)):
                filling = "ab" if content == "(ab)+" else rng.choice(["a", "", "b"])
                parts += [begin, filling, end, *rng.choices("abé", k=rng.randint(0, 2))]
            text = "".join(parts)
            matcher = llgx.Matcher(compiled)
            data = text.encode()
            engine = matcher.try_consume(data) == len(data) and matcher.is_accepting()
            assert engine == task.accepts(text), (seed, task, text)
            checked += 1
            accepted += engine
    assert checked > 3000
    assert checked * 0.2 < accepted < checked * 0.9


# Reasoning


def test_reasoning() -> None:
    grammar = llgx.Grammar.from_choices(["yes", "no"]).with_reasoning("</think>")
    _check(
        grammar,
        ["</think>yes", "so </thin </think>no"],
        ["yes", "</think>", "a</think>b</think>yes", "</think> yes"],
    )


def test_reasoning_with_a_beginning() -> None:
    answer = llgx.Grammar.from_lark('start: "{" "}"\n%ignore " "')
    grammar = answer.with_reasoning(["</think>", "\n"], begin="<think>")
    _check(
        grammar,
        ["<think></think>\n{ }"],
        ["</think>\n{}", "<think></think>{}", "<think></think>\n {}"],
    )


def test_faulty_reasoning() -> None:
    grammar = llgx.Grammar.from_choices(["yes"])
    with pytest.raises(llgx.GrammarError, match="end of the reasoning is empty"):
        grammar.with_reasoning("")
    for bound in (-1, 1.5):
        with pytest.raises(ValueError, match="max_tokens"):
            grammar.with_reasoning(max_tokens=bound)  # type: ignore[arg-type]


def test_contents_with_parameters_keep_their_meaning() -> None:
    """The first lexeme of a content is set apart from white space without a change of rules."""
    inner = """%llguidance {}
start: any::0
any::_: "" %if ge(_, 2)
    | "a" any::incr(_) | "b" any::incr(_)
%ignore " "
"""
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("<t>", "</t>", inner)])
    _check(grammar, ["<t>ab</t>", "<t>a b a</t>"], ["<t></t>", "<t>a</t>", "<t> ab</t>"])


# Special tokens

SPECIAL: Final = llgx.Vocabulary.from_tokens(
    [*(bytes((byte,)) for byte in range(256)), b"<tool>", b"</tool>", b"<think>", b"</think>"],
    special=[256, 257, 258, 259],
)
TOOL, NO_TOOL, THINK, NO_THINK = 256, 257, 258, 259


def _fits(grammar: llgx.Grammar, *parts: str | int) -> bool:
    """Whether texts and special tokens one after the other are a whole text."""
    tokens: list[int] = []
    for part in parts:
        tokens += [part] if isinstance(part, int) else part.encode()
    matcher = llgx.Matcher(grammar.compile(SPECIAL))
    return matcher.try_consume(tokens) == len(tokens) and bool(matcher.is_accepting())


def test_special_tokens_as_markers() -> None:
    tag = StructuralTag(
        [SpecialToken("<tool>"), "f:"], SpecialToken(NO_TOOL), "%llguidance {}\nstart: /[0-9]+/"
    )
    grammar = llgx.Grammar.from_structural_tags([tag], excludes=["no"])
    assert _fits(grammar, "")
    assert _fits(grammar, "a <tool> b", TOOL, "f:12", NO_TOOL, "c", TOOL, "f:1", NO_TOOL)
    assert not _fits(grammar, TOOL)
    assert not _fits(grammar, TOOL, "g")
    assert not _fits(grammar, TOOL, "f:", NO_TOOL)
    assert not _fits(grammar, TOOL, "f:1</tool>")
    assert not _fits(grammar, "no", TOOL, "f:1", NO_TOOL)
    assert not _fits(grammar, THINK)


def test_text_markers_may_be_special_tokens() -> None:
    """What is written <tool> is the token where the vocabulary has it, and the text as well."""
    grammar = llgx.Grammar.from_structural_tags(
        [
            StructuralTag("<tool>\na", "\n</tool>", "%llguidance {}\nstart: /[0-9]+/"),
            StructuralTag("<tool>\nb", "\n</tool>", 'root ::= "(" root ")" | "x"'),
            StructuralTag("<tool>\nc", "\n</tool>"),
        ],
        triggers=["<tool>"],
    )
    for begin in ("<tool>", TOOL):
        for end in ("</tool>", NO_TOOL):
            assert _fits(grammar, "t", begin, "\na12\n", end, "u")
            assert _fits(grammar, "t", begin, "\nb((x))\n", end, "u")
            assert _fits(grammar, "t", begin, "\nc anything\n\n", end, "u")
            assert not _fits(grammar, begin, "\nax\n", end)
            assert not _fits(grammar, begin, "\nb(x\n", end)
            assert not _fits(grammar, begin, "\nc", end)
    assert not _fits(grammar, NO_TOOL)


def test_reasoning_with_special_tokens() -> None:
    answer = llgx.Grammar.from_choices(["yes"])
    for end in ("</think>", SpecialToken("</think>"), SpecialToken(NO_THINK)):
        grammar = answer.with_reasoning(end, begin=SpecialToken("<think>"))
        assert _fits(grammar, THINK, "so </thi", NO_THINK, "yes")
        assert _fits(grammar, THINK, "</think>", "yes") == isinstance(end, str)
        assert not _fits(grammar, THINK, "so", NO_THINK)
        assert not _fits(grammar, "so", NO_THINK, "yes")
    missing = answer.with_reasoning(SpecialToken("</thought>"))
    with pytest.raises(llgx.GrammarError, match="</thought>"):
        missing.compile(SPECIAL)


def test_many_tags_take_linear_time() -> None:
    def seconds(count: int, shared: bool) -> float:
        tags = [
            StructuralTag(
                f"<f{i};", "</f>", schema={} if i % 2 else {"type": "integer"}, trigger=None
            )
            for i in range(count)
        ]
        triggers = [f"<f{i};" for i in range(count)] if shared else []
        begin = time.process_time()
        llgx.Grammar.from_structural_tags(tags, triggers=triggers)
        return time.process_time() - begin

    for shared in (False, True):
        small, large = seconds(500, shared), seconds(4_000, shared)
        assert large < 24 * small  # 8 times the tags; quadratic would be 64 times the work


def test_content_may_be_deep() -> None:
    """Terminals of a chain of definitions: deeper than Python's stack, within the limits."""
    count = 1_500
    chain = "\n".join(f'T{i}: "a" | "b" T{i + 1} "c"' for i in range(count))
    content = f'%llguidance {{}}\nstart: T0\n{chain}\nT{count}: "x"'
    grammar = llgx.Grammar.from_structural_tags([StructuralTag("<f>", "</f>", content)])
    assert _accepts(grammar, "t <f>bbacc</f>")
    assert not _accepts(grammar, "t <f>bbac</f>")


def test_an_empty_trigger_is_no_trigger() -> None:
    with pytest.raises(llgx.GrammarError, match="starts with none of the triggers ''"):
        llgx.Grammar.from_structural_tags([StructuralTag("<f>", "</f>", trigger="")])


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ({"bgin": "<b>", "end": "</b>"}, r"tag 2: .* has no 'bgin' \(did you mean 'begin'\?\)"),
        ({"begin": "<b>"}, "tag 2: a structural tag has no 'end'"),
        ({"begin": "<b>", "end": "</b>", "schema": {"type": "x"}}, "tag 2: / .*'x' is not"),
        ({"begin": "<b>", "end": "</b>", "regex": "(a"}, "tag 2: line 1, column 1: this group"),
        ({"begin": "<b>", "end": "</b>", "grammar": "root = x"}, "tag 2: line 1, column"),
        ({"begin": "<b>", "end": "</b>", "content": {"type": "xml"}}, "tag 2: the content 'xml'"),
    ],
    ids=range(6),
)
def test_errors_say_which_tag(tag: dict[str, Any], message: str) -> None:
    with pytest.raises(llgx.LlgxError, match=message):
        llgx.Grammar.from_structural_tags([{"begin": "<a>", "end": "</a>", "schema": {}}, tag])
