"""Every cap and budget of llgx, in one frozen object.

A cap turns hostile input into :class:`llgx.LimitError` in bounded time and memory; none of them
changes which text a grammar accepts. All counts are deterministic: no limit is a clock.
"""

from __future__ import annotations

import dataclasses
from typing import Final

__all__ = ["DEFAULT_LIMITS", "DEFAULT_SHORTCUTS", "Limits", "Shortcuts"]

_MOST: Final = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one compiled grammar.

    ``grammar_bytes``      longest grammar text, in code points.
    ``nesting``            deepest nesting of parentheses in grammar or regex text.
    ``repeat``             largest bound of a counted repeat in a regex (no cost below it).
    ``rule_repeat``        largest bound of a counted repeat over rules (each costs O(log n) rules).
    ``schema_bytes``       longest JSON Schema text, in code points.
    ``schema_steps``       most steps that bring a JSON Schema into normal form (about 20 µs each).
    ``symbols``            most symbols in all productions together.
    ``regex_nodes``        most regex nodes, derivatives included, at about 40 bytes each.
    ``regex_depth``        deepest regex tree: bounds the stack that a derivative needs.
    ``emptiness_steps``    most derivatives taken by one exact emptiness check.
    ``lexer_states``       most lexer states, at about 300 bytes each.
    ``rows``               most interned parser rows.
    ``row_items``          most items in one row.
    ``scopes``             most sets of finished lexemes that later ones have to differ from, and
                           most places of matchers among them, at about 100 bytes each.
    ``chart_items``        most items, and ways to them, of the parse that ``captures()`` makes, at
                           about 30 bytes each.
    ``exact_pairs``        most ways to read a text that exact lexing follows at a time.
    ``heavy_nodes``        trie nodes below a node from which on it gets a memo or a table of its
                           own; no cap, but a trade of memory for time (tests set it low to reach
                           every path).
    ``mask_cache_bytes``   memory of memoised masks; beyond it the memo starts afresh.
    """

    grammar_bytes: int = 2_000_000
    nesting: int = 500
    repeat: int = 1_000_000_000
    rule_repeat: int = 1_000_000
    schema_bytes: int = 8_000_000
    schema_steps: int = 150_000
    symbols: int = 10_000_000
    regex_nodes: int = 1_000_000
    regex_depth: int = 4_000
    emptiness_steps: int = 500_000
    lexer_states: int = 1_000_000
    rows: int = 1_000_000
    row_items: int = 20_000
    scopes: int = 2_000_000
    chart_items: int = 10_000_000
    exact_pairs: int = 1_000
    heavy_nodes: int = 768
    mask_cache_bytes: int = 256_000_000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not int:
                raise TypeError(f"Limits.{field.name} is an int, not {type(value).__name__}")
            if not 0 <= value < _MOST:
                raise ValueError(f"Limits.{field.name} cannot be {value}")


@dataclasses.dataclass(frozen=True, slots=True)
class Shortcuts:
    """Switches for everything that makes masks fast without changing them.

    All on by default; tests switch each off and compare with the reference twin.

    ``difference_masks``  start a mask from the shared token set of a self-looping lexer state.
    ``length_classes``    answer counted repeats of a character class by token length.
    ``boundary_memo``     memoise what a finished lexeme lets follow, per (suffix trie, row).
    ``mask_memo``         memoise whole masks per (row, lexer state).
    ``forced_runs``       where one byte only can follow, look along one path of the trie.
    ``shared_plans``      take what is known of a lexer state from other grammars of the vocabulary.
    ``twin_states``       take most steps of a lexer state with many literals, or with complements,
                          from the state without them.
    ``twin_masks``        make the mask of a state with complements from that of its twin.
    ``endless_states``    a string that any character goes on allows all tokens without a quote,
                          and a class that leads among living states all tokens made of it.
    ``held_texts``        where no sibling is whole in any token of the vocabulary, look for none.
    ``long_tokens_apart``  a counter that only the longest tokens can count to its end is one for
                          them alone.
    ``saturated_intersections``  a counter far from its end says nothing beside a pattern.
    ``common_regexes``    begin with the regexes that a front end's grammars share, lowered once for
                          each vocabulary; under the default limits only.
    """

    difference_masks: bool = True
    length_classes: bool = True
    boundary_memo: bool = True
    mask_memo: bool = True
    forced_runs: bool = True
    shared_plans: bool = True
    twin_states: bool = True
    twin_masks: bool = True
    endless_states: bool = True
    held_texts: bool = True
    long_tokens_apart: bool = True
    saturated_intersections: bool = True
    common_regexes: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not bool:
                raise TypeError(f"Shortcuts.{field.name} is a bool, not {type(value).__name__}")


DEFAULT_LIMITS = Limits()
DEFAULT_SHORTCUTS = Shortcuts()
