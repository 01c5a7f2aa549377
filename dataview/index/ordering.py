"""The order of rows by their values, equal ones as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORT = 2048
"""NumPy orders fewer rows in less time than it takes to make words of them."""

LARGEST = 1 << 32
"""The numbers of so many rows are half a word."""

RUN = 64
"""Where runs in order are this long, NumPy merges them in less time."""


def rows_in_order(*keys: np.ndarray) -> NDArray[np.intp]:
    """Return the rows in ascending order of keys, the first key first; equal rows keep their order.

    >>> rows_in_order(np.array([1, 0, 1, 0]), np.array([3.0, 2.0, 1.0, 2.0]))
    array([1, 3, 2, 0])
    """
    order = _by_one(keys[-1])
    for key in keys[-2::-1]:
        order = order[_by_one(key[order])]
    return order


def _by_one(values: np.ndarray) -> NDArray[np.intp]:
    words = _words_of(values) if SHORT <= len(values) <= LARGEST else None
    return np.argsort(values, kind="stable") if words is None else by_words(words)


def _words_of(values: np.ndarray) -> NDArray[np.uint64] | None:
    """Return words in the order of values, None if there are none or NumPy needs none.

    It orders integers of two bytes by their digits, and merges runs that are in order.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind not in "iufmM" or size > 8 or (kind in "iu" and size < 4):
        return None
    if (values != values).any():  # what is missing has many words, and is equal here
        return None
    falls = np.count_nonzero(values[1:] < values[:-1])
    if not len(values) < falls * RUN < (RUN - 1) * len(values):
        return None
    if kind != "f":
        return _words_of_integers(values)
    words = (values + 0.0).astype(np.float64, copy=False).view(np.uint64)  # there are two zeros
    words ^= np.negative(words >> _SIGN) | _NEGATIVE
    return words


def _words_of_integers(values: np.ndarray) -> NDArray[np.uint64]:
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    if values.dtype.kind != "i":
        values = values.view(np.dtype(np.int64).newbyteorder(values.dtype.byteorder))
    words = values.astype(np.int64).view(np.uint64)
    words ^= _NEGATIVE
    return words


_SIGN, _NEGATIVE = np.uint64(63), np.uint64(1 << 63)


def by_words(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the rows in ascending order of words, which are changed; equal rows keep their order.

    To sort words takes a tenth of the time of ordering rows by them: so the number of a row is put
    in the place of the last bits of its word.  What is sorted by those that are left is seldom not
    in order; if it is not, rows are ordered by the last bits before.

    >>> by_words(np.array([7, 2**63, 5, 7], np.uint64))
    array([2, 0, 3, 1])
    """
    if len(words) < 2:
        return np.arange(len(words))
    words -= words.min()
    words <<= np.uint64(64 - max(1, int(words.max()).bit_length()))
    bits = (len(words) - 1).bit_length()
    order, is_clear = _by_first_bits(words, bits)
    if is_clear or not _descends(words[order]):
        return order
    order, _ = _by_first_bits(words << np.uint64(64 - bits), bits)
    return order[_by_first_bits(words[order], bits)[0]]


def _by_first_bits(words: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.intp], bool]:
    """Return the rows in the order of all but the last bits, and whether no two have the same."""
    last = np.uint64((1 << bits) - 1)
    packed = words & ~last
    packed |= np.arange(len(words), dtype=np.uint64)
    packed.sort()
    is_clear = not ((packed[1:] ^ packed[:-1]) <= last).any()
    packed &= last
    return packed.view(np.int64).astype(np.intp, copy=False), is_clear


def _descends(words: NDArray[Any]) -> bool:
    return bool((words[1:] < words[:-1]).any())
