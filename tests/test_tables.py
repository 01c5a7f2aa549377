"""Columns of tables, read some groups of rows at a time: what is read, kept, missing and ragged."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.formats.tables import Column, Kind, Name, Table, joined, table_node
from dataview.view.view import viewed

COLUMNS = {
    ("x",): np.arange(20) * 1.5,
    ("of", "small"): np.arange(20, dtype="i2"),
    ("of", "pair"): np.arange(40).reshape(20, 2),
}
LISTS = [list(range(row % 4)) for row in range(20)]
KINDS = {name: Kind(array.dtype, array.shape[1:]) for name, array in COLUMNS.items()}
STARTS = np.array([0, 3, 3, 10, 11, 20])


class InMemory(Table):
    """A table that notes what is read of it."""

    def __init__(self, joins: bool = False, together: bool = False) -> None:
        super().__init__("a table in memory", STARTS)
        self.joins_groups, self.reads_rows = joins, together
        self.calls: list[tuple[tuple[Name, ...], int, int]] = []
        self.fails = False

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        self.calls.append((tuple(names), first, stop))
        if self.fails:
            raise OSError("the disk is gone")
        rows = slice(STARTS[first], STARTS[stop])
        return {name: self.part(name, rows) for name in names}

    def part(self, name: Name, rows: slice) -> Column:
        if name == ("words",):
            own = LISTS[rows]
            values = np.array([value for one in own for value in one], "i8")
            return Column(Column(values), None, np.cumsum([0, *map(len, own)]))
        present = np.arange(20)[rows] % 5 > 0
        return Column(COLUMNS[name][rows], present if name == ("x",) else None)


@given(
    joins=st.booleans(),
    key=st.one_of(
        st.integers(-20, 19),
        st.slices(20),
        st.lists(st.integers(-20, 19)).map(lambda rows: np.array(rows, int)),
    ),
    name=st.sampled_from(list(COLUMNS)),
)
def test_any_key_reads_what_numpy_has(joins, key, name):
    d = viewed(table_node(InMemory(joins), KINDS))
    for step in name:
        d = getattr(d, step)
    np.testing.assert_array_equal(d[key](), COLUMNS[name][key])
    np.testing.assert_array_equal(d[key](), COLUMNS[name][key])  # of what is kept


def test_only_the_groups_that_a_key_needs_are_read():
    table = InMemory()
    d = viewed(table_node(table, KINDS))
    assert (len(d), d.x._shape(), d.of.pair._shape(), table.calls) == (20, (20,), (20, 2), [])
    d.x[4:9]()
    d.x[[9, 3]]()
    assert table.calls == [((("x",),), 2, 3)]
    d.x[[0, 19]]()
    assert [call[1:] for call in table.calls] == [(2, 3), (0, 1), (4, 5)]
    d.of.small[5]()
    assert table.calls[-1] == ((("of", "small"),), 2, 3)


def test_small_groups_are_read_in_runs():
    table = InMemory(joins=True)
    d = viewed(table_node(table, KINDS))
    d.x[[0, 1, 19]]()
    assert [call[1:] for call in table.calls] == [(0, 1), (4, 5)]
    d.x[1:15]()
    assert [call[1:] for call in table.calls[2:]] == [(1, 4)]
    assert d.x[[0, 3, 7, 19]]().tolist() == COLUMNS["x",][[0, 3, 7, 19]].tolist()
    assert d.x[2:13]().tolist() == COLUMNS["x",][2:13].tolist() and len(table.calls) == 3


@given(
    keys=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
        | st.lists(st.integers(0, 19), min_size=1),
        max_size=9,
    ),
    kept=st.sampled_from([0, 300, 5000, 1 << 20]),
    most=st.sampled_from([1, 2, 3, 256]),
)
def test_what_is_kept_of_other_runs_is_read_again_as_it_was(keys, kept, most):
    table = InMemory(joins=True)
    table.kept_bytes, table.most_joined = kept, most
    d = viewed(table_node(table, KINDS))
    for key in keys:
        key = slice(*key) if len(key) == 2 and key[0] <= key[1] else key
        for name, found in (("x", d.x), ("y", d.of.pair)):
            model = COLUMNS["x",] if name == "x" else COLUMNS["of", "pair"]
            np.testing.assert_array_equal(found[key](), model[key])


def test_columns_asked_for_together_are_read_together():
    table = InMemory(together=True)
    d = viewed(table_node(table, KINDS))
    for rows in (slice(0, 3), slice(4, 9), slice(12, 15)):
        d.x[rows](), d.of.small[rows]()
    assert [sorted(names) for names, *_ in table.calls] == [
        [("x",)],
        [("of", "pair"), ("of", "small")],
        [("of", "small"), ("x",)],
        [("of", "small"), ("x",)],
    ]


def test_many_columns_of_one_run_are_read_in_few_passes():
    table = InMemory(together=True)
    table.part = lambda name, rows: Column(np.arange(20)[rows])  # type: ignore[method-assign]
    d = viewed(table_node(table, {(f"c{n}",): Kind(np.dtype(int)) for n in range(100)}))
    for name in d._fields():
        d[4:9]._field(name)()
    assert len(table.calls) == 7  # of 1, 2, 4, 8, 16, 32 and 64 columns


ROWS = np.array([19, 0, 2, 12])
TOGETHER = {
    "rows": (lambda d: d(), lambda c: c),
    "some rows": (lambda d: d[::-1]._freeze()._asdict(), lambda c: c[::-1]),
    "rows in any order": (lambda d: d[ROWS]._freeze()._asdict(), lambda c: c[ROWS]),
}


@given(joins=st.booleans(), which=st.sampled_from(list(TOGETHER)), kept=st.sampled_from([0, 1000]))
def test_columns_of_one_evaluation_are_read_in_one_pass(joins, which, kept):
    use, model = TOGETHER[which]
    table = InMemory(joins, together=True)
    table.kept_bytes = kept
    kinds = {("x",): Kind(np.dtype(float), has_missing=True), ("of", "pair"): KINDS["of", "pair"]}
    found = use(viewed(table_node(table, kinds)))
    np.testing.assert_array_equal(found["x"], model(COLUMNS["x",]))
    np.testing.assert_array_equal(found["x_mask"], model(np.arange(20) % 5 > 0))
    np.testing.assert_array_equal(found["of"]["pair"], model(COLUMNS["of", "pair"]))
    assert all(sorted(names) == sorted(kinds) for names, *_ in table.calls)
    groups = [group for _, first, stop in table.calls for group in range(first, stop)]
    assert len(groups) == len(set(groups))


def test_a_column_that_is_used_twice_and_in_part_is_read_as_it_is():
    table = InMemory(together=True)
    d = viewed(table_node(table, KINDS))
    small, x = COLUMNS["of", "small"], COLUMNS["x",]
    np.testing.assert_array_equal((d.x + d.x[::-1] + d.of.small)(), x + x[::-1] + small)
    np.testing.assert_array_equal(np.where(d.x > 3, d.of.small, d.x)(), np.where(x > 3, small, x))
    np.testing.assert_array_equal((d.x[:5] * d.of.small[5:10])(), x[:5] * small[5:10])


def test_what_is_missing_has_a_mask_and_lists_are_ragged():
    kinds = {
        ("x",): Kind(np.dtype(float), has_missing=True),
        ("x_mask",): Kind(np.dtype("i2")),
        ("words",): Kind(np.dtype("i8"), depth=1),
    }
    table = InMemory()
    table.part = lambda name, rows, own=table.part: own(  # type: ignore[method-assign]
        ("of", "small") if name == ("x_mask",) else name, rows
    )
    d = viewed(table_node(table, kinds))
    assert d._fields() == ("x", "x_mask", "words", "x_mask_2")
    assert (repr(d), d.words._shape(), d.words._dtype(), len(d[3:].words)) and not table.calls
    assert d.x_mask_2().tolist() == [row % 5 > 0 for row in range(20)]
    assert d.words._shape() == (20, None)
    assert [row.tolist() for row in d.words()] == LISTS
    assert [row.tolist() for row in d.words[[7, 3, 3]]()] == [LISTS[row] for row in (7, 3, 3)]


def test_a_failure_to_read_reaches_all_who_wait_and_is_forgotten():
    table = InMemory()
    d = viewed(table_node(table, KINDS))
    table.fails = True
    with pytest.raises(OSError, match="the disk is gone"):
        d.x[0]()
    table.fails = False
    assert d.x[1]() == 1.5


def test_threads_that_need_the_same_group_read_it_once():
    table = InMemory()
    begun, go = threading.Event(), threading.Event()

    def slowly(names, first, stop, own=table.read):
        begun.set()
        go.wait(10)
        return own(names, first, stop)

    table.read = slowly  # type: ignore[method-assign]
    d = viewed(table_node(table, KINDS))
    found: list[float] = []
    threads = [threading.Thread(target=lambda row=row: found.append(d.x[row]())) for row in (4, 5)]
    threads[0].start()
    begun.wait(10)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(10)
    assert sorted(found) == [6.0, 7.5]
    assert len(table.calls) == 1


def test_a_thread_does_not_get_the_error_of_a_column_that_another_asked_for():
    x, broken, other = names = list(KINDS)
    table = InMemory(together=True)
    table.names = tuple(names)
    waiter = threading.Thread(target=lambda: found.append(table.column(other, 0, 1)))
    found: list[Column] = []

    def failing(names, first, stop, own=table.read):
        if broken in names:
            if waiter.ident is None:
                waiter.start()
                run = table._runs[first, stop]
                while other not in run.asked:  # until it waits for what is read here
                    waiter.join(0.001)
            raise ValueError("of small is broken")
        return own(names, first, stop)

    table.read = failing  # type: ignore[method-assign]
    table.column(x, 0, 1)
    with pytest.raises(ValueError, match="of small is broken"):
        table.column(broken, 0, 1)
    waiter.join(10)
    np.testing.assert_array_equal(found[0].values, COLUMNS[other][:3])
    assert table.calls == [((x,), 0, 1), ((other,), 0, 1)]


def test_minibatches_shuffles_and_statistics_work_on_columns():
    d = viewed(table_node(InMemory(), KINDS))
    batches = [batch.x() for batch in d._shuffled(3)._minibatches(6)]
    assert sorted(np.concatenate(batches)) == COLUMNS[("x",)].tolist()
    assert d.of.pair._mean(axis=0)().tolist() == COLUMNS[("of", "pair")].mean(axis=0).tolist()
    with pytest.raises(dv.ReadOnlyError, match=r"column 'x' of a table in memory"):
        d.x[0] = 1


# -------------------- several tables --------------------


def in_parts(joins=False):
    """Two tables of the same columns, in another order."""
    return [(InMemory(joins), KINDS), (InMemory(), dict(reversed(KINDS.items())))]


@given(
    key=st.one_of(st.integers(-40, 39), st.slices(40), st.lists(st.integers(-40, 39), min_size=1)),
    name=st.sampled_from(list(COLUMNS)),
)
def test_the_rows_of_tables_follow_one_another(key, name):
    table, kinds = joined("two tables", in_parts())
    d = viewed(table_node(table, kinds))
    for step in name:
        d = getattr(d, step)
    np.testing.assert_array_equal(d[key](), np.concatenate([COLUMNS[name]] * 2)[key])


def test_lists_of_tables_follow_one_another():
    words = {("words",): Kind(np.dtype("i8"), depth=1)}
    d = viewed(table_node(*joined("two", [(InMemory(), words), (InMemory(), words)])))
    assert [row().tolist() for row in d.words] == LISTS * 2


def test_tables_that_differ_are_refused_by_name_or_unified():
    x, small = ("x",), ("of", "small")
    tall = {x: Kind(np.dtype("f8"), has_missing=True), small: KINDS[small]}
    wide = {small: Kind(np.dtype("i2"))}
    parts = [(InMemory(), tall), (InMemory(), wide)]
    with pytest.raises(ValueError, match=r"has a column 'x', and a table in memory has none"):
        joined("two", parts)
    d = viewed(table_node(*joined("two", parts, "union")))
    mask = np.arange(20) % 5 > 0
    assert d.x_mask().tolist() == [*mask, *[False] * 20]
    assert np.isnan(d.x()[20:]).all()
    other = {x: Kind(np.dtype("f4"))}
    with pytest.raises(ValueError, match=r"column 'x' is float32 in .*, and float64 in .*union"):
        joined("two", [(InMemory(), {x: tall[x]}), (InMemory(), other)])
    assert joined("two", [(InMemory(), {x: tall[x]}), (InMemory(), other)], "union")[1] == {
        x: tall[x]
    }
    with pytest.raises(ValueError, match="'x' is object in"):
        joined("two", [(InMemory(), other), (InMemory(), {x: Kind(np.dtype("O"))})], "union")
    with pytest.raises(
        ValueError,
        match=r"schema= is one of 'same', 'union': .*; got 'unoin'; did you",
    ):
        joined("two", parts, "unoin")
