"""Rows are views: what would swap them like values is refused, and nothing is lost."""

import gc
import random
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from oracle import assert_same, examples

REFUSED = "rows cannot be swapped like values"


@pytest.fixture(params=["memory", "file", "elements", "records", "joined"])
def data(request, tmp_path):
    """Give a view of six rows or elements, and how to see what it holds."""
    a = np.arange(12.0).reshape(6, 2)
    if request.param == "file":
        np.save(tmp_path / "a.npy", a)
        v = dv.open(tmp_path / "a.npy", mode="r+")
    elif request.param == "elements":
        v = dv.View(a[:, 0].copy())
    elif request.param == "records":
        v = dv.View(x=a, y=a[:, 0] + 100)
    elif request.param == "joined":
        v = dv.concat(a[:2], a[2:])
    else:
        v = dv.View(a)
    return v


def swap(v):
    v[0], v[1] = v[1], v[0]


def rotate(v):
    v[0], v[1], v[2] = v[1], v[2], v[0]


def by_a_name(v):
    kept = v[0]
    v[0] = v[1]
    v[1] = kept


def two_views(v):
    w = v[:]
    v[0], w[1] = w[1], v[0]


def runs_of_rows(v):
    v[:2], v[2:4] = v[2:4], v[:2]


def reverse(v):
    for one, other in [(0, 5), (1, 4)]:
        v[one], v[other] = v[other], v[one]


def written(v):
    first, second = v[0], v[1]
    first._write(second)
    second._write(first)


def computed(v):
    if v._fields():
        swap(v)
    v[0], v[1] = v[1] * 1, v[0] * 1


SWAPS = [
    computed,
    swap,
    rotate,
    by_a_name,
    two_views,
    runs_of_rows,
    reverse,
    random.Random(0).shuffle,
    np.random.default_rng(0).shuffle,
]


@pytest.mark.filterwarnings("ignore:you are shuffling a 'View' object")
@pytest.mark.parametrize("change", SWAPS, ids=lambda change: change.__name__)
def test_a_swap_is_refused_and_nothing_is_lost(change, data):
    before = data(copy=True)
    with pytest.raises(ValueError, match=REFUSED) as caught:
        change(data)
    assert "v[0], v[1] = v[1](), v[0]()" in str(caught.value)
    assert "_shuffled(seed)" in str(caught.value)
    assert_same(data(copy=True), before)


def test_the_remedy_swaps(data):
    before = data(copy=True)
    if data._fields():
        first = data[0](copy=True), data[1](copy=True)
        data[0], data[1] = first[1], first[0]
    else:
        data[0], data[1] = data[1](copy=True), data[0](copy=True)
    assert_same(data(copy=True), before[[1, 0, 2, 3, 4, 5]])


def load_modify_store(v):
    v[0] = v[1]
    v[0] += 1
    v[1] = v[0]


def a_window_written_elsewhere(v):
    w, block, buffer = v[:3], np.zeros((3, 2)), dv.View(np.ones((3, 2)))
    v[:3] = dv.View(block)
    buffer[:] = w
    v[3:] = buffer


def numpy_in_between(v):
    a = v()
    v[0] = v[1]
    a[1] = 7
    v[1] = v[0]


def twice_itself(v):
    first, again = v[0], v[0]
    v[0] = first
    v[0] = again


def in_a_chain(v):
    for number in range(5):
        v[number + 1] = v[number]


def all_at_once(v):
    v[1], v[2], v[3] = v[0], v[1], v[2]


def from_elsewhere(v):
    w = dv.View(np.arange(20.0, 32).reshape(6, 2))
    v[0], w[0] = w[1], v[2]


def disjoint(v):
    v[0], v[2] = v[1], v[3]


def the_same_write_again(v):
    w, part = v._shuffled(0), v[:]
    w._write(part)
    w._write(part)


def to_and_fro(v):
    new = dv.View(np.zeros((6, 2)))
    for _ in range(3):
        new[1:-1] = (v[:-2] + v[2:]) / 2
        v[...] = new


def a_total_of_rows(v):
    total = dv.View(np.zeros(2))
    for row in v:
        total[...] = total + row
    v[-1] = total


def by_a_buffer(v):
    buffer, other = dv.View(np.zeros((6, 2))), dv.View(np.ones((6, 2)))
    buffer[...] = v
    v[...] = other
    other[...] = buffer
    assert other().tolist() == np.arange(12.0).reshape(6, 2).tolist()


FINE = [
    to_and_fro,
    a_total_of_rows,
    by_a_buffer,
    the_same_write_again,
    load_modify_store,
    a_window_written_elsewhere,
    numpy_in_between,
    twice_itself,
    in_a_chain,
    all_at_once,
    from_elsewhere,
    disjoint,
]


@pytest.mark.parametrize("change", FINE, ids=lambda change: change.__name__)
def test_what_loses_nothing_is_never_refused(change):
    change(dv.View(np.arange(12.0).reshape(6, 2)))


@pytest.mark.filterwarnings("ignore:you are shuffling a 'View' object")
def test_a_rotation_of_many_rows_is_refused():
    a = np.arange(300.0)
    v = dv.View(a)

    def rotate_all(rows):
        for number in range(300):
            v[number] = rows[(number + 1) % 300]

    with pytest.raises(ValueError, match="at most the last 256, were undone"):
        rotate_all(list(v))
    assert a[43:].tolist() == list(range(43, 300))


def test_what_was_changed_since_is_not_put_back():
    a = np.arange(4.0)
    v = dv.View(a)
    kept = v[0]
    v[0] = v[1]
    a[0] = 50
    with pytest.raises(ValueError, match="those of up to 1 MB that nothing has changed since"):
        v[1] = kept
    assert a.tolist() == [50, 1, 2, 3]


def test_large_rows_are_refused_and_said_not_to_be_undone():
    a = np.arange(1 << 19, dtype=float).reshape(2, -1)
    v = dv.View(a)
    with pytest.raises(ValueError, match="those of up to 1 MB"):
        swap(v)
    assert (a[0] == a[1]).all()  # as the message says


def test_an_undo_is_a_write_like_any_other():
    v = dv.View(np.arange(4.0))
    kept = v[0]
    v[0] = v[1]
    total = v._sum()
    with pytest.raises(ValueError, match=REFUSED):
        v[1] = kept
    assert total() == 7


def test_files_that_are_gone_do_not_matter(tmp_path):
    views = []
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.arange(4.0))
        views.append(dv.open(tmp_path / f"{name}.npy", mode="r+"))
    value = views[0][0]
    views[1][1] = value
    (tmp_path / "b.npy").unlink()
    views[2][1] = value
    assert views[2]().tolist() == [0, 0, 2, 3]


def test_a_run_keeps_nothing_alive():
    a = np.zeros((4, 2))
    gone = weakref.ref(a)
    v = dv.View(a)
    v[0] = v[1]
    del a, v
    gc.collect()
    assert gone() is None


@given(data=st.data())
@examples(200)
def test_a_tuple_assignment_is_what_numpy_makes_of_copies_or_is_refused(data):
    n = data.draw(st.integers(2, 6))
    a = np.arange(2.0 * n).reshape(n, 2)
    v, expected = dv.View(a), a.copy()
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=4, unique=True))
    values = data.draw(st.permutations(rows))
    expected[rows] = expected[values]
    try:
        for row, value in zip(rows, [v[value] for value in values], strict=True):
            v[row] = value
    except ValueError:
        assert_same(a, np.arange(2.0 * n).reshape(n, 2))
    else:
        assert_same(a, expected)
