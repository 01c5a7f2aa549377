"""The one recipe of random numbers for functions: from (seed, epoch, sample number, step)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dataview.index import words


class RandomKeys(NamedTuple):
    """What the random numbers of some steps follow from in an epoch; `first` numbers the first.

    The same step of the same sample draws the same numbers wherever and whenever it runs.
    """

    kind: str
    seed: tuple[Any, ...]
    epoch: int
    first: int
    keys: tuple[tuple[int, ...], ...]

    @property
    def last(self) -> int:
        """The number of the last step."""
        return self.first + len(self.keys) - 1

    def at(self, epoch: int) -> RandomKeys:
        """Return the keys of the same steps in another epoch."""
        return random_keys(self.kind, self.seed, epoch, self.first, len(self.keys))

    def generator(self, step: int, number: int) -> np.random.Generator:
        """Return the generator of one sample: 2**128 numbers away from the next sample's."""
        bits = np.random.Philox(key=list(self.keys[step]), counter=[0, 0, number, 0])
        return np.random.Generator(bits)


def random_keys(kind: str, seed: Any, epoch: int, first: int, count: int) -> RandomKeys:
    """Return the keys of so many steps of a kind, such as "map".

    >>> keys = random_keys("map", 0, 0, 0, 2)
    >>> keys.generator(1, 5).random() == keys.at(0).generator(1, 5).random()
    True
    >>> keys.generator(1, 5).random() == keys.at(1).generator(1, 5).random()
    False
    """
    parts = tuple(seed) if isinstance(seed, (tuple, list)) else (seed,)
    keys = tuple(words(kind, *parts, epoch, first + place)[:2] for place in range(count))
    return RandomKeys(kind, parts, epoch, first, keys)
