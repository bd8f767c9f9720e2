"""Where the engine holds a rule to its ``max_tokens``.

A derivation is found out to be over by the rows that it waits in. While the first symbol of a
limited rule is under way, the rule itself waits in the row in which it began, which tells nothing
of how long ago that was. So that symbol has to be over with one lexeme, or be the rule itself;
compiling refuses other limits. Linear in the productions looked at.
"""

from __future__ import annotations

from llgx.ir import GrammarIR, RuleRef, Symbol, TerminalRef

__all__ = ["begins_with_rule"]


def begins_with_rule(ir: GrammarIR, index: int) -> bool:
    """Whether the rule ``index`` begins with another rule that may take more than one lexeme."""

    def is_over_at_once(symbol: Symbol) -> bool:
        return (
            not isinstance(symbol, RuleRef)
            or symbol.index == index
            or all(
                not production.symbols
                or (len(production.symbols) == 1 and isinstance(production.symbols[0], TerminalRef))
                for production in ir.rules[symbol.index].productions
            )
        )

    return not all(
        is_over_at_once(production.symbols[0])
        for production in ir.rules[index].productions
        if production.symbols
    )
