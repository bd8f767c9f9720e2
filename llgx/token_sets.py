"""Which ids of a vocabulary a :class:`llgx.ir.TokenSet` stands for.

A name is the exact text of a special or end-of-generation token, or where there is none of an
ordinary one; several tokens of one text all count. A set that is a complement leaves
end-of-generation tokens out: hosts stop at them, so they are what ends a text unless a grammar
names them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from llgx.errors import GrammarError

if TYPE_CHECKING:
    from llgx.ir import Terminal, TokenSet
    from llgx.vocabulary import Vocabulary

__all__ = ["resolve_tokens", "special_names"]

Interval = tuple[int, int]

_SHOWN = 5


def special_names(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    """The ids of the special and end-of-generation tokens of ``vocabulary`` by their text."""
    names: dict[bytes, list[int]] = {}
    for token in sorted(vocabulary.special.union(vocabulary.eog)):
        if vocabulary.tokens[token]:
            names.setdefault(vocabulary.tokens[token], []).append(token)
    return names


def resolve_tokens(
    terminal: Terminal, vocabulary: Vocabulary, names: dict[bytes, list[int]]
) -> list[Interval]:
    """The ids of the token set of ``terminal``: disjoint, sorted pairs (first, last + 1).

    ``names`` are the :func:`special_names` of ``vocabulary``. Raises :class:`GrammarError` for a
    name that no token has, with near ones, and for a range beyond the vocabulary; a name of an
    optional set that is not among the special ones is left out.
    """
    tokens = terminal.tokens
    assert tokens is not None
    size = len(vocabulary)
    ranges: list[Interval] = []
    for name in tokens.names:
        data = name.encode("utf-8", "surrogatepass")
        ids = names.get(data)
        if ids is None and tokens.optional:
            continue
        if ids is None:
            # Added tokens are text to llama.cpp where the model does not say that they are special.
            ids = [token for token, text in enumerate(vocabulary.tokens) if text == data]
        if not ids:
            known = [text.decode("utf-8", "replace") for text in names]
            raise _error(f"no special token is spelled {name!r}{_near(name, known)}", tokens)
        ranges += [(token, token + 1) for token in ids]
    for first, last in tokens.ranges:
        if last >= size:
            message = (
                f"token range {first}-{last} in {terminal.name} reaches beyond the vocabulary of "
                f"{size} tokens"
            )
            raise _error(message, tokens)
        ranges.append((first, last + 1))
    if not tokens.negated:
        return _merged(ranges)
    left: list[Interval] = []
    at = 0
    for first, end in _merged([*ranges, *((token, token + 1) for token in vocabulary.eog)]):
        if at < first:
            left.append((at, first))
        at = end
    if at < size:
        left.append((at, size))
    return left


def _error(message: str, tokens: TokenSet) -> GrammarError:
    if tokens.place is None:
        return GrammarError(message)
    text, offset, name = tokens.place
    return GrammarError(f"{message} (in {name})" if name else message, text=text, offset=offset)


def _near(name: str, known: Sequence[str]) -> str:
    if not known:
        return ": the vocabulary has no special tokens"
    near = difflib.get_close_matches(name[:100], known, n=_SHOWN, cutoff=0.5)
    return f": near ones are {', '.join(near)}" if near else f": there are {_some(known)}"


def _some(known: Sequence[str]) -> str:
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more


def _merged(ranges: Iterable[Interval]) -> list[Interval]:
    """The union of intervals, as disjoint ones in rising order."""
    merged: list[Interval] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged
