"""A keyed permutation of range(n), computed in blocks, that stores nothing but n and the key.

The order is defined here, and not by NumPy's random streams, which may change: no row of it ever
does.  Keys and `mix` are computed modulo 2**64; `//` rounds down.

    mix(x):  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
             x = (x ^ (x >> 27)) * 0x94d049bb133111eb
             return x ^ (x >> 31)

Keys.  A text is made of n and the parts of the key, each written `length:body,`.  The body is `i`
and an integer in lowercase hexadecimal, `-` first if it is negative, or `s` and a string in UTF-8
(a lone surrogate in three bytes, as others of its range); the length, in decimal, counts bytes.
So Permutation(1000, 0) has `4:i3e8,2:i0,`.  Zero bytes fill up its last word of eight.  From
a = 0x243f6a8885a308d3 and b = 0x13198a2e03707344, each little-endian word w in turn makes
a = mix(a ^ w), then b = mix(b + a).  Then k[r] = mix(b ^ mix(a + (r + 1) * 0x9e3779b97f4a7c15)).

At most 65536 rows are sorted by hash, smallest first: row i has mix(k[1] ^ mix(k[0] + i)), no two
of which are equal, since each step can be undone.

More rows are enciphered: the number of a position becomes that of its row.  A number is high *
2**low_bits + low, low_bits = (n - 1).bit_length() // 2, with high below high_count = ((n - 1) >>
low_bits) + 1: hardly more numbers than n.  Words have W = 32 bits if n <= 2**32, otherwise 64.
Of eight Feistel rounds, r = 0 to 7, the even ones are the first line and the odd ones the second:

    high = (high + scramble(low + k[r]) // ceil(2**W / high_count)) % high_count
    low = low ^ (scramble(high + k[r]) >> (W - low_bits))
    scramble(x):  x = x * A; return (x ^ (x >> S)) * B                            modulo 2**W
        W = 32:  A = 0x7feb352d, B = 0x846ca68b, S = 15;  W = 64:  A, B as in mix, S = 31

A result of n or more goes through the eight rounds again, until it is less (cycle walking).

`Draws` are words drawn with the keys of ("words", *key): position i has mix(k[1] ^ mix(k[0] + i)).
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeAlias

import numpy as np

from dataview.index.ordering import by_words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_SORTED: Final = 2**16  # sorting so many takes milliseconds, once
_BLOCK: Final = 2**16  # its scratch fits in a core's cache, and the calls cost little per row
_WORD: Final = 2**64 - 1
_MIX: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SCRAMBLE: Final = {32: (0x7FEB352D, 15, 0x846CA68B), 64: (_MIX[0], 31, _MIX[1])}
Numbers: TypeAlias = "NDArray[np.int64]"
Words: TypeAlias = "NDArray[Any]"  # of uint32 or uint64


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Permutation:
    """A permutation of `range(n)` chosen by a key of ints and strings, such as a seed and an epoch.

    Called with positions, it gives the row at each.  It is a value: equal to any other of the same
    `n` and `key`, hashable, small to pickle, safe to use from several threads.

    >>> order = Permutation(10, 0)
    >>> order(np.arange(10))
    array([6, 9, 0, 7, 3, 5, 1, 8, 4, 2])
    >>> order.inverse(order.block(2, 5))
    array([2, 3, 4])
    """

    n: int
    key: tuple[int | str, ...]
    _order: _Table | _Network | None = field(compare=False)

    def __init__(self, n: SupportsIndex, *key: SupportsIndex | str) -> None:
        count = _integer(n, "n must be the number of rows, an integer")
        if not 0 <= count <= 2**62:
            raise ValueError(f"n must be from 0 to 2**62, got {n}; give the number of rows")
        object.__setattr__(self, "n", count)
        object.__setattr__(self, "key", tuple(map(_key_part, key)))
        object.__setattr__(self, "_order", None)

    def __call__(self, positions: ArrayLike) -> Numbers:
        """Return the row at each position, in the shape of the positions.

        >>> Permutation(10**9, 0)(np.array([0, 999_999_999]))
        array([751336581, 795581911])
        """
        return self._turned(self._checked(positions, "positions"), back=False)

    def inverse(self, rows: ArrayLike) -> Numbers:
        """Return the position of each row, in the shape of the rows.

        >>> Permutation(10**9, 0).inverse(np.array([751336581]))
        array([0])
        """
        return self._turned(self._checked(rows, "rows"), back=True)

    def block(self, start: int, stop: int) -> Numbers:
        """Return the rows at `range(start, stop)`.

        >>> Permutation(10**9, 0).block(500_000_000, 500_000_003)
        array([ 55239279,  32811672, 434703568])
        """
        if not 0 <= start <= stop <= self.n:
            raise IndexError(
                f"block needs 0 <= start <= stop <= {self.n}, the rows, got {start} to {stop}"
            )
        return self._turned(np.arange(start, stop, dtype=np.int64), back=False)

    def _checked(self, values: ArrayLike, name: str) -> Numbers:
        """Return the values copied, and none outside: from there a walk may never end."""
        given = np.asarray(values)
        if given.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers, got {given.dtype}; use astype(int)")
        numbers = given.astype(np.int64, order="C")
        # Seen as unsigned, negative numbers are the largest: one maximum checks both ends.
        if numbers.size and int(numbers.view(np.uint64).max()) >= self.n:
            raise IndexError(
                f"{name} must be at least 0 and less than {self.n}, "
                f"got {given.min()} to {given.max()}; take them from range({self.n})"
            )
        return numbers

    def _turned(self, numbers: Numbers, back: bool) -> Numbers:
        """Return the numbers, turned in place from positions into rows, or back."""
        order = self._order
        if order is None:  # two threads that make it both make the same
            kind = _Table if self.n <= _SORTED else _Network
            order = kind(self.n, _round_keys((self.n, *self.key), kind.KEYS))
            object.__setattr__(self, "_order", order)
        flat = numbers.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            order.turn(flat[start : start + _BLOCK], back)
        return numbers

    def __len__(self) -> int:
        return self.n

    def __reduce__(self) -> tuple[type[Permutation], tuple[int | str, ...]]:
        return type(self), (self.n, *self.key)

    def __repr__(self) -> str:
        # Python writes no very large integer in decimal.
        key = (hex(k) if isinstance(k, int) and abs(k) > _WORD else repr(k) for k in self.key)
        return f"Permutation({', '.join([str(self.n), *key])})"


class Draws:
    """Words of 64 bits that follow from a key, one for each position; no two are equal.

    >>> Draws(0)(np.arange(2)) % np.uint64(1000)
    array([254, 831], dtype=uint64)
    """

    __slots__ = ("_first", "_second", "key")

    def __init__(self, *key: SupportsIndex | str) -> None:
        self.key = tuple(map(_key_part, key))
        self._first, self._second = map(np.uint64, _round_keys(("words", *self.key), 2))

    def __call__(self, positions: NDArray[Any]) -> NDArray[np.uint64]:
        """Return the word of each position."""
        return _hashed(positions.astype(np.uint64), self._first, self._second)

    def below(self, positions: NDArray[Any], count: Any) -> Numbers:
        """Return a number below `count` for each position; all are as likely, within 2**-24."""
        return (self(positions) % np.asarray(count, np.uint64)).astype(np.int64)

    def fractions(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        """Return a fraction from 0 to below 1 for each position, with 53 random bits."""
        return (self(positions) >> np.uint64(11)) * np.float64(2.0**-53)

    def __reduce__(self) -> tuple[type[Draws], tuple[int | str, ...]]:
        return type(self), self.key


class _Table:
    """The order of few rows: sorted once, then looked up."""

    KEYS = 2

    def __init__(self, n: int, keys: tuple[int, ...]) -> None:
        hashes = _hashed(np.arange(n, dtype=np.uint64), *map(np.uint64, keys))
        self._rows = by_words(hashes).astype(np.int64, copy=False)

    @functools.cached_property
    def _positions(self) -> Numbers:
        positions = np.empty_like(self._rows)
        positions[self._rows] = np.arange(len(positions))
        return positions

    def turn(self, numbers: Numbers, back: bool) -> None:
        """Turn positions into rows, or back, in place."""
        numbers[...] = (self._positions if back else self._rows)[numbers]


class _Network:
    """The order of many rows: eight alternating Feistel rounds and cycle walking."""

    KEYS = 8

    def __init__(self, n: int, keys: tuple[int, ...]) -> None:
        bits = (n - 1).bit_length()
        width = 32 if bits <= 32 else 64
        low_bits = bits // 2
        high_count = ((n - 1) >> low_bits) + 1

        # A ufunc takes an array without axes with less ado than an int or a NumPy scalar.
        def constant(value: int) -> Words:
            return np.asarray(value & (2**width - 1), f"u{width // 8}")

        self._last = constant(n - 1)
        self._low_bits, self._low_mask = constant(low_bits), constant(2**low_bits - 1)
        self._low_shift = constant(width - low_bits)
        self._high_count = constant(high_count)
        self._high_step = constant(-(-(2**width) // high_count))
        self._first, self._shift, self._second = map(constant, _SCRAMBLE[width])
        self._rounds = [(number % 2 == 0, constant(key)) for number, key in enumerate(keys)]

    def turn(self, numbers: Numbers, back: bool) -> None:
        """Turn positions into rows, or back, in place."""
        scratch = np.empty((5, numbers.size), self._last.dtype)
        scratch[0] = numbers
        self._encipher(scratch, back)
        numbers[...] = scratch[0]
        outside = np.flatnonzero(scratch[0] > self._last)
        if outside.size:  # at most 1 in 256 of all numbers, so that this is not deep
            walking = numbers[outside]
            self.turn(walking, back)
            numbers[outside] = walking

    def _encipher(self, scratch: Words, back: bool) -> None:
        """Encipher, or decipher, the first row of the scratch, using the others."""
        words, high, low, mixed, spare = scratch
        np.right_shift(words, self._low_bits, out=high)
        np.bitwise_and(words, self._low_mask, out=low)
        for on_high, key in reversed(self._rounds) if back else self._rounds:
            np.add(low if on_high else high, key, out=mixed)
            np.multiply(mixed, self._first, out=mixed)
            np.right_shift(mixed, self._shift, out=spare)
            np.bitwise_xor(mixed, spare, out=mixed)
            np.multiply(mixed, self._second, out=mixed)
            if not on_high:
                np.right_shift(mixed, self._low_shift, out=mixed)
                np.bitwise_xor(low, mixed, out=low)
                continue
            np.floor_divide(mixed, self._high_step, out=mixed)
            if back:
                np.subtract(self._high_count, mixed, out=mixed)
            np.add(high, mixed, out=high)
            # The remainder of a sum below 2 * high_count: a negative difference wraps, to be large.
            np.subtract(high, self._high_count, out=spare)
            np.minimum(high, spare, out=high)
        np.left_shift(high, self._low_bits, out=words)
        np.bitwise_or(words, low, out=words)


SEEDS = (
    "a seed is an integer, a text or several of them, such as secrets.randbits(64) for another "
    "order at each start"
)
"""What a seed may be, for messages."""


def words(*key: SupportsIndex | str) -> tuple[int, ...]:
    """Return eight words of 64 bits that follow from all parts of a key of ints and strings."""
    return _round_keys(tuple(map(_key_part, key)), 8)


def _integer(value: object, rule: str) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{rule}, got {value!r}")
    return int(operator.index(value))


def _key_part(part: object) -> int | str:
    if isinstance(part, str):
        return str.__str__(part)  # of a subclass, what it spells
    return _integer(part, SEEDS)


def _round_keys(parts: tuple[int | str, ...], count: int) -> tuple[int, ...]:
    """Return the first of the keys of 64 bits that follow from all bits of all parts."""
    bodies = [f"s{part}" if isinstance(part, str) else f"i{part:x}" for part in parts]
    encoded = [body.encode("utf-8", "surrogatepass") for body in bodies]
    text = b"".join(b"%d:%b," % (len(body), body) for body in encoded)
    first, second = 0x243F6A8885A308D3, 0x13198A2E03707344
    for start in range(0, len(text), 8):
        first = _mixed(first ^ int.from_bytes(text[start : start + 8], "little"))
        second = _mixed(second + first & _WORD)
    return tuple(
        _mixed(second ^ _mixed(first + step * 0x9E3779B97F4A7C15 & _WORD))
        for step in range(1, count + 1)
    )


def _mixed(word: int) -> int:
    """Return a scrambled word of 64 bits; different ones stay different."""
    word = (word ^ (word >> 30)) * _MIX[0] & _WORD
    word = (word ^ (word >> 27)) * _MIX[1] & _WORD
    return word ^ (word >> 31)


def _hashed(words: NDArray[np.uint64], first: Any, second: Any) -> NDArray[np.uint64]:
    """Return mix(second ^ mix(first + word)) of each word, computed over the words."""
    words += first
    spare = np.empty_like(words)
    for key in (None, second):
        if key is not None:
            words ^= key
        for shift, factor in ((30, _MIX[0]), (27, _MIX[1]), (31, None)):
            np.right_shift(words, shift, out=spare)
            words ^= spare
            if factor is not None:
                words *= factor
    return words
