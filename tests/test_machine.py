"""Random sequences of verbs on views of one array, compared with a NumPy model."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import dataview as dv
from oracle import assert_same, attempt, keys, lay_out, public_class, scatter, step

WINDOWS = {"a": np.s_[:3], "b": np.s_[2:4], "c": 4}
SEEDS = st.integers(0, 3)
VALUES = st.integers(-9, 9)
OPERATORS = st.sampled_from([operator.iadd, operator.isub, operator.iand, operator.ixor])
LIMIT = 400


@dataclass
class Entry:
    """A view, where it is in the base (None if it is computed) and how the model computes it."""

    view: dv.View
    places: np.ndarray | None
    compute: Callable[[np.ndarray], np.ndarray]
    writable: bool = True
    fields: bool = False


class Verbs(RuleBasedStateMachine):
    """Every view keeps showing what its model shows, whatever is written through the others."""

    views = Bundle("views")

    def __init__(self):
        super().__init__()
        self.entries = []

    @initialize(target=views, layout=st.sampled_from(["C", "F", "strided", "negative", "padded"]))
    def start(self, layout):
        self.base = lay_out(layout, (6, 5), np.dtype("i8"))
        self.model = self.base.twin()
        view = dv.View(self.base.array, **WINDOWS)
        return self.selected(view, np.arange(30).reshape(6, 5), fields=True)

    def selected(self, view, places, writable=True, fields=False):
        """Keep a view that shows these places of the base."""
        return self.kept(Entry(view, places, lambda base: base[places], writable, fields))

    def kept(self, entry):
        self.entries.append(entry)
        self.check(entry)
        return entry

    def current(self, entry):
        """Give what the model of an entry shows now."""
        return np.asarray(entry.compute(self.model.array.flatten()))

    def check(self, entry):
        expected = self.current(entry)
        assert entry.view._shape() == expected.shape
        assert_same(entry.view(), expected)

    def derived(self, entry, view, places):
        """Keep a view whose rows are chosen from those of another."""
        if entry.places is None:
            return self.kept(Entry(view, None, lambda base: entry.compute(base)[places], False))
        return self.selected(view, entry.places[places], entry.writable, entry.fields)

    def refused(self, error, action):
        """Assert that an action is refused; the invariant asserts that nothing changed."""
        with pytest.raises(error):
            action()

    # choosing

    @rule(target=views, entry=views, data=st.data())
    def index(self, entry, data):
        shown = self.current(entry)
        key = data.draw(keys(shown.shape))
        numbers = np.arange(shown.size).reshape(shown.shape)
        chosen, refusal = attempt(lambda places: step(places, key), numbers)
        if refusal is not None:
            self.refused(public_class(refusal), lambda: entry.view[key])
            return entry
        if chosen.size > LIMIT:
            return entry
        view = entry.view[key]
        if entry.places is None:
            return self.kept(
                Entry(view, None, lambda base: step(entry.compute(base), key), writable=False)
            )
        return self.selected(view, step(entry.places, key), entry.writable)

    @rule(target=views, entry=views, name=st.sampled_from(sorted(WINDOWS)))
    def field(self, entry, name):
        if not entry.fields:
            return entry
        view = getattr(entry.view, name)
        return self.selected(view, entry.places[:, WINDOWS[name]], entry.writable)

    @rule(target=views, entry=views, data=st.data())
    def take(self, entry, data):
        rows = self.rows(entry)
        if not rows:
            return entry
        chosen = data.draw(st.lists(st.integers(-rows, rows - 1), max_size=8))
        return self.derived(entry, entry.view._take(chosen), np.array(chosen, int))

    @rule(target=views, entry=views, seed=SEEDS)
    def shuffle(self, entry, seed):
        rows = self.rows(entry)
        if not rows:
            return entry
        order = dv.View(np.arange(rows))._shuffled(seed)()
        return self.derived(entry, entry.view._shuffled(seed), order)

    @rule(target=views, entry=views)
    def sort(self, entry):
        if not entry.fields:
            return entry
        order = np.argsort(self.current(entry)[:, WINDOWS["c"]], kind="stable")
        return self.derived(entry, entry.view._sorted(by="c"), order)

    @rule(target=views, entry=views, bound=VALUES)
    def filter(self, entry, bound):
        if not entry.fields:
            return entry
        mask = self.current(entry)[:, WINDOWS["c"]] > bound
        return self.derived(entry, entry.view._filter(mask), np.flatnonzero(mask))

    @rule(target=views, entry=views, data=st.data())
    def split(self, entry, data):
        rows = self.rows(entry)
        if not rows:
            return entry
        size = data.draw(st.integers(0, rows))
        _, second = entry.view._split(size)
        return self.derived(entry, second, np.arange(size, rows))

    @rule(target=views, entry=views)
    def repeat(self, entry):
        rows = self.rows(entry)
        if not rows or self.current(entry).size * 2 > LIMIT:
            return entry
        return self.derived(entry, entry.view._repeat(2), np.arange(2 * rows) % rows)

    @rule(target=views, one=views, other=views)
    def concat(self, one, other):
        first, second = self.current(one), self.current(other)
        _, refusal = attempt(lambda parts: np.concatenate(parts), [first, second])
        if refusal is not None:
            self.refused(ValueError, lambda: dv.concat(one.view, other.view))
            return one
        if first.size + second.size > LIMIT:
            return one
        view = dv.concat(one.view, other.view)
        if one.places is None or other.places is None:
            return self.kept(
                Entry(
                    view,
                    None,
                    lambda base: np.concatenate([one.compute(base), other.compute(base)]),
                    writable=False,
                )
            )
        places = np.concatenate([one.places, other.places])
        return self.selected(view, places, one.writable and other.writable)

    # computing and freezing

    @rule(target=views, entry=views, factor=st.integers(-2, 2))
    def compute(self, entry, factor):
        view = entry.view * factor - 1
        return self.kept(Entry(view, None, lambda base: entry.compute(base) * factor - 1, False))

    @rule(target=views, entry=views)
    def freeze(self, entry):
        shown = self.current(entry).copy()
        return self.kept(Entry(entry.view._freeze(), None, lambda base: shown, False))

    @rule(target=views, entry=views)
    def forbid(self, entry):
        if entry.places is None:
            return entry
        return self.selected(entry.view._readonly(), entry.places, False, entry.fields)

    @rule(entry=views)
    def pickled(self, entry):
        assert_same(pickle.loads(pickle.dumps(entry.view))(), self.current(entry))

    # writing

    @rule(entry=views, value=VALUES)
    def write(self, entry, value):
        if entry.places is None or not entry.writable:
            if entry.places is not None:
                self.refused(ValueError, lambda: entry.view._write(value))
            return
        entry.view._write(value)
        self.land(entry.places, np.full(entry.places.shape, value))

    @rule(into=views, out_of=views)
    def move(self, into, out_of):
        if into.places is None or not into.writable:
            return
        landed = np.empty(into.places.shape, "i8")
        _, refusal = attempt(lambda value: np.copyto(landed, value), self.current(out_of))
        if refusal is not None:
            self.refused(ValueError, lambda: into.view._write(out_of.view))
            return
        into.view._write(out_of.view)
        self.land(into.places, landed)

    @rule(entry=views, data=st.data(), value=VALUES)
    def assign(self, entry, data, value):
        if entry.places is None or not entry.writable:
            return
        key = data.draw(keys(entry.places.shape))
        places, refusal = attempt(lambda places: step(places, key), entry.places)
        if refusal is not None:
            self.refused(public_class(refusal), lambda: operator.setitem(entry.view, key, value))
            return
        entry.view[key] = value
        self.land(places, np.full(places.shape, value))

    @rule(entry=views, in_place=OPERATORS, other=views, value=VALUES, flip=st.booleans())
    def update(self, entry, in_place, other, value, flip):
        if entry.places is None or not entry.writable:
            return
        shown = self.current(entry)
        view = other.view[::-1] if flip and self.rows(other) else value
        operand = self.current(other)[::-1] if flip and self.rows(other) else value
        landed, refusal = attempt(lambda now: in_place(now, operand), shown.copy())
        if refusal is not None:
            self.refused(public_class(refusal), lambda: in_place(entry.view, view))
            return
        assert isinstance(in_place(entry.view, view), dv.View)
        self.land(entry.places, landed)

    def land(self, places, values):
        scatter(self.model.array, places, np.asarray(values))

    def rows(self, entry):
        """Give the number of rows of an entry, 0 if it has no axis."""
        return len(self.current(entry)) if self.current(entry).ndim else 0

    @invariant()
    def the_base_is_the_model(self):
        if self.entries:
            assert_same(self.base.root, self.model.root)

    @rule(entry=views)
    def read(self, entry):
        self.check(entry)

    def teardown(self):
        for entry in self.entries:
            self.check(entry)


TestVerbs = Verbs.TestCase
TestVerbs.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
