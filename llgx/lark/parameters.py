"""Reads the arguments and conditions of parametric rules.

Connectives nest on an explicit stack; their depth is counted against ``Limits.nesting``. Linear in
the tokens.
"""

from __future__ import annotations

from typing import Final

from llgx import ir
from llgx.errors import suggestion
from llgx.lark import ast
from llgx.lark.cursor import Cursor
from llgx.lark.lexer import Token, describe

__all__ = ["argument", "condition"]

_WORD_BITS: Final = 64
_GREATEST: Final = (1 << _WORD_BITS) - 1
_SELF: Final = ir.ParamExpr("self")
_BIT_ARGUMENTS: Final = frozenset({"set_bit", "clear_bit"})
_MASK_ARGUMENTS: Final = frozenset({"bit_and", "bit_or"})
_SLICE_ARGUMENTS: Final = frozenset({"incr", "decr"})
_COMPARISONS: Final = frozenset(
    prefix + name for prefix in ("", "bit_count_") for name in ("eq", "ne", "lt", "le", "gt", "ge")
)
_CONNECTIVES: Final = {"and": 2, "or": 2, "not": 1}


def argument(cursor: Cursor) -> ir.ParamExpr:
    token = cursor.peek()
    if token.kind in ("number", "hex"):
        return ir.ParamExpr("const", cursor.unsigned(_GREATEST))
    if token.kind == "_":
        cursor.advance()
        return _SELF
    known = _BIT_ARGUMENTS | _MASK_ARGUMENTS | _SLICE_ARGUMENTS
    if token.kind != "rule" or token.text not in known:
        message = f"expected a number, '_' or a function of it, found {describe(token)}"
        raise cursor.error(message + suggestion(token.text, known), token)
    cursor.advance()
    cursor.expect("(")
    if token.text in _SLICE_ARGUMENTS:
        begin, end = _slice(cursor)
        found = ir.ParamExpr(token.text, begin, end)
    elif token.text in _BIT_ARGUMENTS:
        found = ir.ParamExpr(token.text, cursor.unsigned(_WORD_BITS - 1))
    else:
        found = ir.ParamExpr(token.text, cursor.unsigned(_GREATEST))
    cursor.expect(")")
    return found


def condition(cursor: Cursor) -> ir.Condition:
    """A condition; connectives nest on a stack of their operators and finished operands."""
    pending: list[tuple[str, list[ir.Condition]]] = []
    while True:
        token = cursor.expect("rule", "a condition")
        if token.text in _CONNECTIVES:
            cursor.check_depth(len(pending), token)
            cursor.expect("(")
            pending.append((token.text, []))
            continue
        found = _simple_condition(cursor, token)
        while pending:
            op, operands = pending[-1]
            operands.append(found)
            if len(operands) < _CONNECTIVES[op]:
                cursor.expect(",")
                break
            cursor.expect(")")
            pending.pop()
            found = _connected(op, operands)
        else:
            return found


def _simple_condition(cursor: Cursor, token: Token) -> ir.Condition:
    op = token.text
    if op == "true":
        if cursor.peek().kind == "(":
            cursor.advance()
            cursor.expect(")")
        return ast.TRUE
    if op in _COMPARISONS:
        cursor.expect("(")
        begin, end = _slice(cursor)
        cursor.expect(",")
        found = ir.Condition(op, begin, end, cursor.unsigned(_GREATEST))
    elif op in ("bit_set", "bit_clear"):
        cursor.expect("(")
        found = ir.Condition(op, cursor.unsigned(_WORD_BITS - 1))
    elif op in ("is_ones", "is_zeros"):
        cursor.expect("(")
        found = ir.Condition(op, *_slice(cursor))
    else:
        known = _COMPARISONS | {"true", "bit_set", "bit_clear", "is_ones", "is_zeros"}
        hint = suggestion(op, known | set(_CONNECTIVES))
        raise cursor.error(f"unknown condition '{op[:40]}'{hint}", token)
    cursor.expect(")")
    return found


def _slice(cursor: Cursor) -> tuple[int, int]:
    """``_``, the whole parameter, or ``[a:b]``, its bits ``a`` to ``b - 1``."""
    token = cursor.peek()
    if token.kind == "_":
        cursor.advance()
        return 0, _WORD_BITS
    if token.kind != "[":
        raise cursor.error(f"expected '_' or '[begin:end]', found {describe(token)}", token)
    cursor.advance()
    begin = cursor.unsigned(_WORD_BITS - 1)
    cursor.expect(":")
    end = cursor.unsigned(_WORD_BITS)
    cursor.expect("]")
    if end <= begin:
        raise cursor.error(f"the bits [{begin}:{end}] are none", token)
    return begin, end


def _connected(op: str, operands: list[ir.Condition]) -> ir.Condition:
    """``op`` of ``operands``, without constants inside: only the whole can be true or false."""
    if op == "not":
        (operand,) = operands
        return operand.items[0] if operand.op == "not" else ir.Condition("not", items=(operand,))
    absorbing, neutral = (ast.FALSE, ast.TRUE) if op == "and" else (ast.TRUE, ast.FALSE)
    if absorbing in operands:
        return absorbing
    kept = tuple(operand for operand in operands if operand != neutral)
    if len(kept) > 1:
        return ir.Condition(op, items=kept)
    return kept[0] if kept else neutral
