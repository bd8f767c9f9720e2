"""A recogniser of GBNF that is slow and obvious: the oracle of the tests of ``llgx.gbnf``.

It reads a grammar into nested tuples with a parser of its own, turns them into plain productions
over single characters and keeps, for each beginning of a text, the set of all Earley items (Earley,
1970), found by going round until nothing new turns up. Rules that derive nothing are dropped first,
so a text is a beginning of some text of the language exactly if its item set is not empty. There
is no lexer, and no code is shared with the package.
"""

from __future__ import annotations

import functools
import random
from typing import Any

__all__ = ["Reference", "random_grammar", "random_texts"]

Ranges = tuple[tuple[int, int], ...]
# ("chars", ranges) | ("seq", items) | ("alt", items) | ("loop", item, low, high) | ("rule", name)
Tree = tuple[Any, ...]
Item = tuple[str, int, int, int]  # symbol, production, dot, where it began


class _Reader:
    """GBNF text to trees. Takes well-formed text only."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def rules(self) -> dict[str, Tree]:
        found = {}
        self.blank(lines=True)
        while self.at < len(self.text):
            name = self.name()
            self.blank()
            assert self.take("::=")
            self.blank(lines=True)
            found[name] = self.alternatives(nested=False)
            self.blank(lines=True)
        return found

    def take(self, expected: str) -> bool:
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def blank(self, lines: bool = False) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "#":
                while self.at < len(self.text) and self.text[self.at] not in "\r\n":
                    self.at += 1
            elif char in " \t" or (lines and char in "\r\n"):
                self.at += 1
            else:
                break

    def name(self) -> str:
        begin = self.at
        while self.at < len(self.text) and (
            self.text[self.at].isascii()
            and (self.text[self.at].isalnum() or self.text[self.at] in "-_")
        ):
            self.at += 1
        return self.text[begin : self.at]

    def alternatives(self, nested: bool) -> Tree:
        items = [self.sequence(nested)]
        while True:
            at = self.at
            self.blank(lines=True)
            if not self.take("|"):
                self.at = at
                return ("alt", tuple(items))
            self.blank(lines=True)
            items.append(self.sequence(nested))

    def sequence(self, nested: bool) -> Tree:
        items: list[Tree] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                letters = []
                while not self.take('"'):
                    point = self.char()
                    letters.append(("chars", ((point, point),)))
                items.append(("seq", tuple(letters)))
            elif char == "[":
                items.append(self.char_class())
            elif self.take("."):
                items.append(("chars", ((0, 0x10FFFF),)))
            elif self.take("("):
                self.blank(lines=True)
                items.append(self.alternatives(nested=True))
                self.blank(lines=True)
                assert self.take(")")
            elif char in "*+?{":
                items.append(("loop", items.pop(), *self.bounds(nested)))
            elif name := self.name():
                items.append(("rule", name))
            else:
                break
            self.blank(lines=nested)
        return ("seq", tuple(items))

    def bounds(self, nested: bool) -> tuple[int, int | None]:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(sign):
                return low, high
        end = self.text.index("}", self.at)
        low_text, comma, high_text = self.text[self.at + 1 : end].partition(",")
        self.at = end + 1
        low = int(low_text)
        return low, (int(high_text) if high_text.strip() else None) if comma else low

    def char_class(self) -> Tree:
        self.at += 1
        negated = self.take("^")
        ranges = []
        if self.take("]"):
            return ("seq", ())
        while not self.take("]"):
            low = high = self.char()
            if self.text[self.at] == "-" and self.text[self.at + 1] != "]":
                self.at += 1
                high = self.char()
            if low <= high:
                ranges.append((low, high))
        if negated:
            rest, begin = [], 0
            for low, high in sorted(ranges):
                if low > begin:
                    rest.append((begin, low - 1))
                begin = max(begin, high + 1)
            ranges = [*rest, (begin, 0x10FFFF)]
        return ("chars", tuple(ranges))

    def char(self) -> int:
        char = self.text[self.at]
        self.at += 1
        if char != "\\":
            return ord(char)
        letter = self.text[self.at]
        self.at += 1
        if letter in "xuU":
            digits = {"x": 2, "u": 4, "U": 8}[letter]
            self.at += digits
            return int(self.text[self.at - digits : self.at], 16)
        return ord({"n": "\n", "t": "\t", "r": "\r"}.get(letter, letter))


class Reference:
    """A grammar; ``accepts`` and ``next_bytes`` are what the engine is compared with."""

    def __init__(self, text: str) -> None:
        self._grammar: dict[str, list[tuple[Tree | str, ...]]] = {}
        self._count = 0
        for name, tree in _Reader(text).rules().items():
            self._grammar[f"rule {name}"] = [(self._symbol(tree),)]
        self._drop_what_derives_nothing()
        self.after = functools.cache(self._after)

    def _symbol(self, tree: Tree) -> Tree | str:
        """A character class, or the name of a symbol that derives what ``tree`` matches."""
        kind = tree[0]
        if kind == "chars":
            return tree
        if kind == "rule":
            return f"rule {tree[1]}"
        self._count += 1
        symbol = f"helper {self._count}"
        if kind == "seq":
            self._grammar[symbol] = [tuple(self._symbol(item) for item in tree[1])]
        elif kind == "alt":
            self._grammar[symbol] = [(self._symbol(item),) for item in tree[1]]
        else:
            _, item, low, high = tree
            body = self._symbol(item)
            if high is None:
                self._grammar[symbol] = [(body,) * low, (symbol, body)]
            else:
                self._grammar[symbol] = [(body,) * count for count in range(low, high + 1)]
        return symbol

    def _drop_what_derives_nothing(self) -> None:
        useful: set[str] = set()

        def derives(item: Tree | str) -> bool:
            return item in useful if isinstance(item, str) else bool(item[1])

        while True:
            more = {
                symbol
                for symbol, bodies in self._grammar.items()
                if any(all(map(derives, body)) for body in bodies)
            }
            if more == useful:
                break
            useful = more
        self._grammar = {
            symbol: [body for body in bodies if all(map(derives, body))]
            for symbol, bodies in self._grammar.items()
        }
        self.is_empty = "rule root" not in useful

    def _after(self, text: str) -> tuple[frozenset[Item], ...]:
        """The item sets of all beginnings of ``text``."""
        if not text:
            seeds = {("rule root", i, 0, 0) for i in range(len(self._grammar["rule root"]))}
            return (self._close(seeds, ()),)
        before = self.after(text[:-1])
        point = ord(text[-1])
        moved = set()
        for symbol, index, dot, origin in before[-1]:
            body = self._grammar[symbol][index]
            next_item = body[dot] if dot < len(body) else "the end"
            if isinstance(next_item, str):
                continue
            if any(low <= point <= high for low, high in next_item[1]):
                moved.add((symbol, index, dot + 1, origin))
        return (*before, self._close(moved, before))

    def _close(self, seeds: set[Item], before: tuple[frozenset[Item], ...]) -> frozenset[Item]:
        items = set(seeds)
        here = len(before)
        while True:
            found = set(items)
            for symbol, index, dot, origin in items:
                body = self._grammar[symbol][index]
                if dot == len(body):
                    for item in items if origin == here else before[origin]:
                        other = self._grammar[item[0]][item[1]]
                        if item[2] < len(other) and other[item[2]] == symbol:
                            found.add((item[0], item[1], item[2] + 1, item[3]))
                elif isinstance(body[dot], str):
                    below = range(len(self._grammar[body[dot]]))
                    found.update((body[dot], i, 0, here) for i in below)
            if found == items:
                return frozenset(items)
            items = found

    def is_beginning(self, text: str) -> bool:
        """Whether some text of the language begins with ``text``."""
        return bool(self.after(text)[-1])

    def accepts(self, text: str) -> bool:
        """Whether ``text`` belongs to the language."""
        return any(
            symbol == "rule root" and origin == 0 and dot == len(self._grammar[symbol][index])
            for symbol, index, dot, origin in self.after(text)[-1]
        )

    def next_bytes(self, text: str, begun: bytes = b"") -> set[int]:
        """The bytes that may follow ``text`` and, of one more character, ``begun``."""
        ranges = set()
        for symbol, index, dot, _ in self.after(text)[-1]:
            body = self._grammar[symbol][index]
            if dot < len(body) and not isinstance(body[dot], str):
                ranges.update(body[dot][1])
        allowed = set()
        for byte in range(256):
            low, high = _points_that_begin_with(begun + bytes((byte,)))
            for begin, end in ranges:
                first, last = max(low, begin), min(high, end)
                # All of what is left may be surrogates, which have no encoding.
                if first <= last and not (first >= 0xD800 and last <= 0xDFFF):
                    allowed.add(byte)
        return allowed


@functools.cache
def _points_that_begin_with(data: bytes) -> tuple[int, int]:
    """The first and the last code point whose UTF-8 begins with ``data``; (1, 0) without any."""
    lead = data[0]
    length = (
        1 if lead < 0x80 else 0 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    )
    if not length or lead > 0xF4 or len(data) > length:
        return 1, 0
    if any(not 0x80 <= byte <= 0xBF for byte in data[1:]):
        return 1, 0
    low = lead if length == 1 else lead & (0x7F >> length)
    for byte in data[1:]:
        low = low << 6 | byte & 0x3F
    left = 6 * (length - len(data))
    low, high = low << left, (low + 1 << left) - 1
    least = (0, 0, 0x80, 0x800, 0x10000)[length]
    return max(low, least), min(high, 0x10FFFF)


# Random grammars


_LITERALS = ('"a"', '"b"', '"ab"', '"aa"', '"aba"', '"é"', '"è"', '"éa"', '" "', '"a b"')
_CLASSES = ("[a]", "[ab]", "[^a]", "[^ab]", "[aé]", "[é-ë]", ".", "[b ]", "[^ ]")
_LOOPS = ("*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}")


def random_grammar(rng: random.Random) -> str:
    """A small grammar, with recursion of every kind, over few characters."""
    names = ["root", *rng.sample(["x", "y-1", "z"], rng.randint(0, 3))]

    def expression(depth: int) -> str:
        kind = rng.random()
        if depth <= 0 or kind < 0.35:
            pool = rng.random()
            if pool < 0.45:
                return rng.choice(_LITERALS)
            return rng.choice(_CLASSES) if pool < 0.65 else rng.choice(names[1:] or names)
        if kind < 0.7:
            return " ".join(expression(depth - 1) for _ in range(rng.randint(2, 3)))
        if kind < 0.85:
            body = " | ".join(expression(depth - 1) for _ in range(rng.randint(2, 3)))
            return f"({body}{' |' if rng.random() < 0.15 else ''})"
        return f"({expression(depth - 1)}){rng.choice(_LOOPS)}"

    rules = []
    for name in names:
        alternatives = [expression(rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.4:
            # Recursion at one end, at the other, or in the middle.
            item, other = rng.choice(_LITERALS), rng.choice(_CLASSES)
            form = rng.choice(("{0} {1}", "{1} {0}", "{1} {0} {2}", "{1} ({0})?"))
            alternatives.append(form.format(name, item, other))
        rules.append(f"{name} ::= {' | '.join(alternatives)}")
    return "\n".join(rules)


def random_texts(rng: random.Random, reference: Reference, count: int, length: int) -> list[str]:
    """Texts that follow the grammar for a while, some of them spoilt by a character."""
    alphabet = "ab éèx"
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randint(0, length)):
            options = [char for char in alphabet if reference.is_beginning(text + char)]
            if not options or rng.random() < 0.05:
                text += rng.choice(alphabet)
                break
            text += rng.choice(options)
        texts.append(text)
    return texts
