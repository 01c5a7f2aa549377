"""Sources that count what is read, and functions that must not be called."""

from collections import Counter

import numpy as np

import dataview as dv


class Counting:
    """A function of row numbers that notes which it was asked for; some it fails to make."""

    def __init__(self, make, bad=(), error=ValueError):
        self.make = make
        self.bad = bad
        self.error = error
        self.asked = []

    def __call__(self, number):
        self.asked.append(int(number))
        if number in self.bad:
            raise self.error(f"bad {number}")
        return self.make(number)

    def probed(self, n):
        """Give a view of so many rows, none of which counts as asked for yet."""
        view = dv.View(self, _length=n)._probe()
        self.asked.clear()
        return view


class Rows(Counting):
    """Rows of numbers in a view that counts how often each is read."""

    def __init__(self, n, width=3):
        super().__init__(lambda number: self.data[number])
        self.data = np.arange(n * width, dtype=float).reshape(n, width) ** 1.5
        self.view = self.probed(n)

    def counts(self):
        """Give how often each row was read since the last time."""
        found = Counter(self.asked)
        self.asked.clear()
        return [found[number] for number in range(len(self.data))]


def unmade(*arguments):
    """Fail, as a function of rows that must not be called."""
    raise AssertionError(f"a row was made: {arguments}")
