"""Every case of ``data/*.json`` that is a grammar, under every configuration of the engine.

A file is a list of cases: ``grammar`` in Lark (with ``imports`` by name and other ``grammars``, if
there are any), or, in ``constructors.json``, what another constructor of ``Grammar`` takes; texts
to ``accept`` and to ``reject``, and optionally facts ``after`` a text: ``next``, exactly the ASCII
characters that may follow; ``forced``, exactly the text that must follow; ``stopped``, whether the
text is complete and nothing can follow. The reference twin is one more engine here, so that a wrong
expectation shows as such.

A text is fed byte by byte, and with a real vocabulary (Llama 3) as the model would spell it and cut
at random places; each step must agree with the mask.
"""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import llgx
from tests.campaign import ALL_CONFIGURATIONS, Configuration, allowed_tokens
from tests.reference import ReferenceGrammar
from tests.reference_matcher import ReferenceMatcher, ReferenceVocabulary
from tests.strategies import byte_tokens

Case = dict[str, Any]


def _cases() -> Iterator[Case]:
    for path in sorted((pathlib.Path(__file__).parent / "data").glob("*.json")):
        cases = json.loads(path.read_text())
        for case in cases if isinstance(cases, list) else []:
            if "name" in case:
                yield {**case, "id": f"{path.stem}: {case['name']}"}


CASES: Final = list(_cases())
_by_name = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
_by_configuration = pytest.mark.parametrize(
    "configuration", ALL_CONFIGURATIONS, ids=[c.name for c in ALL_CONFIGURATIONS]
)

BYTES: Final = byte_tokens()
VOCABULARY: Final = llgx.Vocabulary.from_tokens(BYTES.tokens, eog=BYTES.eog)


def grammar_of(case: Case) -> llgx.Grammar:
    """The grammar of a case, with the ``imports`` and other ``grammars`` that it names."""
    if "reasoning" in case:
        answer = {key: value for key, value in case.items() if key != "reasoning"}
        return grammar_of(answer).with_reasoning(**case["reasoning"])
    if "choices" in case:
        return llgx.Grammar.from_choices(case["choices"])
    if "regex" in case:
        return llgx.Grammar.from_regex(case["regex"], syntax=case.get("syntax", "rust"))
    if "tags" in case:
        return llgx.Grammar.from_structural_tags(case["tags"], **case.get("options", {}))
    if "gbnf" in case:
        return llgx.Grammar.from_gbnf(case["gbnf"])
    imports = case.get("imports")
    if "grammars" in case:
        grammars = [{"lark_grammar": case["grammar"]}, *case["grammars"]]
        return llgx.Grammar.from_grammars(grammars, imports=imports)
    return llgx.Grammar.from_lark(case["grammar"], imports=imports)


def _compile(
    case: Case, vocabulary: llgx.Vocabulary, configuration: Configuration
) -> llgx.CompiledGrammar:
    return grammar_of(case).compile(
        vocabulary, limits=configuration.limits, shortcuts=configuration.shortcuts
    )


def accepts_tokens(matcher: llgx.Matcher, tokens: list[int], size: int) -> bool:
    """Whether ``tokens`` are a complete text; asserts that every mask says so too."""
    for token in tokens:
        mask = llgx.allocate_token_bitmask(1, size)
        matcher.fill_bitmask(mask, 0)
        in_mask = bool(int(mask[0, token // 32]) >> token % 32 & 1)
        assert in_mask == matcher.allows(token), (matcher.tokens, token)
        if not in_mask:
            with pytest.raises(llgx.TokenRejected):
                matcher.consume(token)
            return False
        matcher.consume(token)
    return bool(matcher.is_accepting())


def test_there_are_cases() -> None:
    assert len(CASES) > 400
    assert len([case for case in CASES if "grammar" not in case]) > 40
    assert sum(len(case.get("after", ())) for case in CASES) > 40
    assert len({case["id"] for case in CASES}) == len(CASES)


@_by_name
def test_twin(case: Case) -> None:
    grammar = ReferenceGrammar(grammar_of(case).ir)
    for text in case["accept"]:
        assert grammar.accepts(text.encode()), text
    for text in case["reject"]:
        assert not grammar.accepts(text.encode()), text
    vocabulary = ReferenceVocabulary(BYTES.tokens, BYTES.eog)
    for fact in case.get("after", ()):
        matcher = ReferenceMatcher(grammar, vocabulary)
        text = fact["text"].encode()
        assert matcher.try_consume(text) == len(text)
        _check_fact(fact, matcher.mask(), matcher.forced_bytes(), matcher.is_stopped())


def _check_fact(fact: Case, mask: set[int], forced: bytes, stopped: bool) -> None:
    if "next" in fact:
        assert "".join(chr(b) for b in sorted(mask) if b < 0x80) == fact["next"], fact
    if "forced" in fact:
        assert forced == fact["forced"].encode(), fact
    if "stopped" in fact:
        assert stopped == fact["stopped"], fact


@_by_configuration
@_by_name
def test_bytes(case: Case, configuration: Configuration) -> None:
    compiled = _compile(case, VOCABULARY, configuration)
    size = len(VOCABULARY)
    for text in case["accept"]:
        assert accepts_tokens(llgx.Matcher(compiled), list(text.encode()), size), text
    for text in case["reject"]:
        assert not accepts_tokens(llgx.Matcher(compiled), list(text.encode()), size), text
    for fact in case.get("after", ()):
        matcher = llgx.Matcher(compiled)
        text = fact["text"].encode()
        assert matcher.try_consume(list(text)) == len(text), fact
        mask = allowed_tokens(matcher, size)
        _check_fact(fact, mask, matcher.forced_bytes(), matcher.is_stopped())
        assert (size - 1 in mask) == matcher.is_accepting()


def _random_tokens(
    rng: random.Random, text: bytes, by_text: dict[bytes, list[int]]
) -> list[int] | None:
    """``text`` cut at random into tokens, None if it cannot be cut where the dice fell."""
    tokens: list[int] = []
    at = 0
    while at < len(text):
        ends = [e for e in range(at + 1, min(at + 12, len(text)) + 1) if text[at:e] in by_text]
        if not ends:
            return None
        end = rng.choice(ends)
        tokens.append(rng.choice(by_text[text[at:end]]))
        at = end
    return tokens


@pytest.fixture(scope="session")
def llama3_texts(llama3: llgx.Vocabulary) -> dict[bytes, list[int]]:
    """Text tokens of Llama 3 by what they say."""
    by_text: dict[bytes, list[int]] = {}
    for token, text in enumerate(llama3.tokens):
        if text and token not in llama3.special and token not in llama3.eog:
            by_text.setdefault(text, []).append(token)
    return by_text


@_by_configuration
def test_real_vocabulary(
    configuration: Configuration,
    llama3: llgx.Vocabulary,
    llama3_texts: dict[bytes, list[int]],
) -> None:
    rng = random.Random(1)
    size = len(llama3)
    for case in CASES:
        compiled = _compile(case, llama3, configuration)
        matcher = llgx.Matcher(compiled)
        for kind in ("accept", "reject"):
            for text in case[kind]:
                data = text.encode()
                spellings = [llama3.tokenize(data), _random_tokens(rng, data, llama3_texts)]
                for tokens in spellings:
                    if tokens is None or b"".join(llama3.tokens[t] for t in tokens) != data:
                        continue
                    matcher.reset()
                    accepted = accepts_tokens(matcher, tokens, size)
                    assert accepted == (kind == "accept"), (case["id"], text, tokens)


def test_a_batch_is_its_rows() -> None:
    """``fill_bitmasks`` writes for each matcher what ``fill_bitmask`` does."""
    matchers = [
        llgx.Matcher(_compile(case, VOCABULARY, ALL_CONFIGURATIONS[0])) for case in CASES[:40]
    ]
    together = llgx.allocate_token_bitmask(len(matchers), len(VOCABULARY))
    llgx.fill_bitmasks(matchers, together)
    alone = np.zeros_like(together)
    for row, matcher in enumerate(matchers):
        matcher.fill_bitmask(alone, row)
    assert (together == alone).all()
    assert len({bytes(row) for row in together}) > 10


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (r"start: /[a-z0-9]+(\.[a-z0-9]+)*@[a-z0-9]+(\.[a-z]{2,9})+/", "jo.doe42@mail.example.org"),
        (r"start: /([A-Za-z0-9+\/]{4})*([A-Za-z0-9+\/]{2}==)?!/", "TG9yZW0gaXBzdW0gZG9sb3I=="),
        (r"start: /(\S+\s+){0,5}\S+\./", "one two three naïve five"),
        (r"start: /([a-z]{1,3}-)+[a-z]{4}!/", "ab-cde-f-gh-ijk-lmno"),
        # A character of the class is dead in some of its states: so is the token "~~".
        (r"start: /([a-z][a-z~])*!/", "abc~defgh~!"),
        (r"start: /([A-Za-z]{3}[A-Za-z'])+;/", "can'tellmewh'x;"),
        # A lexeme ends within the longest tokens, behind what is looked at; another may follow.
        ("start: A B\nA: /([a-z][a-z]){9}/\nB: /[a-z]+/", "aqbzcxdwevfugthsirjqkw"),
        (r"start: /([a-z][a-z0-9]){10}/ /[0-9;]+/", "a1b2c3defghijklmno01;"),
        (r"start: /\"(\S+\s){0,9}\S+\"/", '"one two three four five six seven eight nine ten"'),
    ],
    ids=[
        "address",
        "base64",
        "words",
        "groups",
        "pairs",
        "fours",
        "far end",
        "far exit",
        "ten words",
    ],
)
def test_closed_classes_change_no_mask(grammar: str, text: str, llama3: llgx.Vocabulary) -> None:
    """Masks of patterns that are no loops, next to those of a walk of the whole vocabulary."""
    made = llgx.Grammar.from_lark(grammar)
    plain = llgx.Shortcuts(
        endless_states=False, difference_masks=False, shared_plans=False, long_tokens_apart=False
    )
    quick, slow = (
        llgx.Matcher(made.compile(llama3, shortcuts=shortcuts))
        for shortcuts in (llgx.Shortcuts(), plain)
    )
    taken = 0
    for token in llama3.tokenize(text.encode()):
        allowed = quick.allowed_tokens()
        assert allowed == slow.allowed_tokens(), taken
        if token not in allowed:
            break
        quick.consume(token)
        slow.consume(token)
        taken += 1
    assert taken > 4


def test_plans_are_shared_from_the_third_grammar_on() -> None:
    """The first to meet a state leaves a digest, the second a plan, and the third takes it."""
    pairs = [
        one + other for one in (b"a", b"b", b"x", b"ab", b"bx") for other in (b"a", b"b", b"x")
    ]
    tokens = list(dict.fromkeys([*(bytes((byte,)) for byte in range(256)), *pairs, b"<end>"]))

    def walked(vocabulary: llgx.Vocabulary, shortcuts: llgx.Shortcuts) -> tuple[Any, list[int]]:
        masks, made = [], []
        for name in "1234":
            grammar = llgx.Grammar.from_lark(f'start: "{name}" /(ab?|x+){{2,9}}q|zz/ "{name}"')
            compiled = grammar.compile(
                vocabulary, limits=llgx.Limits(heavy_nodes=1), shortcuts=shortcuts
            )
            matcher = llgx.Matcher(compiled)
            for token in (ord(name), *b"abxa"):
                masks.append(matcher.allowed_tokens())
                matcher.consume(token)
            masks.append(matcher.allowed_tokens())
            made.append(compiled.stats()["insides"])
        return masks, made

    eog = [len(tokens) - 1]
    masks, made = walked(llgx.Vocabulary.from_tokens(tokens, eog=eog), llgx.Shortcuts())
    plain_masks, plain_made = walked(
        llgx.Vocabulary.from_tokens(tokens, eog=eog), llgx.Shortcuts(shared_plans=False)
    )
    assert masks == plain_masks
    assert made[0] == plain_made[0] > 5
    assert len(set(plain_made)) == 1
    # What is left is the state of the name, which is this grammar's own.
    assert made[2] == made[3] == 1
