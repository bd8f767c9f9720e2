from collections.abc import Iterable

from llgx import ir

def finished(
    rules: list[ir.Rule],
    terminals: list[ir.Terminal],
    start: ir.Symbol,
    skip: int,
    warnings: list[str],
    unenforced: list[tuple[str, str, str]],
    common: tuple[ir.Regex, ...],
) -> ir.GrammarIR: ...

class PlainRules:
    rules: list[ir.Rule]
    terminals: list[ir.Terminal]
    @property
    def comma(self) -> tuple[ir.Symbol, ...]: ...
    def ref(self, terminal: ir.Terminal) -> ir.TerminalRef: ...
    def rule(self, alternatives: Iterable[tuple[ir.Symbol, ...]]) -> ir.RuleRef: ...
    def one(self, symbols: tuple[ir.Symbol, ...]) -> tuple[ir.Symbol, ...]: ...
    def repeated(
        self, first: Iterable[tuple[ir.Symbol, ...]], step: tuple[ir.Symbol, ...]
    ) -> ir.RuleRef: ...
