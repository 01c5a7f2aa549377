"""Rows are views: what would swap them like values is refused, and nothing is lost."""

import gc
import itertools
import random
import tracemalloc
import weakref

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.index import gather, identity, parse
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.sources import ArraySource, Source
from dataview.view.face import viewed
from dataview.write.remembered import Line, Places
from dataview.write.spots import Spot
from oracle import assert_same, examples
from stores import NumberedWritable

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


def doubled(v):
    if v._fields():
        swap(v)
    v[0], v[1], v[2] = v[0] * 2, v[2], v[0]


SWAPS = [
    computed,
    doubled,
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
    assert "v[[0, 1]] = v[[1, 0]]" in str(caught.value)
    assert "_shuffled(seed)" in str(caught.value)
    assert_same(data(copy=True), before)


# ---------------------------------------------------------------- sources made anew at each access


def reshaped(a, folder):
    d = dv.View(a.ravel())
    return lambda: d._reshape(6, 2)


def of_an_attribute(a, folder):
    return lambda: dv.View(a)


def turned(a, folder):
    return lambda: dv.View(a.T[:, ::-1])._transpose()


def of_a_field(a, folder):
    records = np.zeros(6, [("x", "f8", (2,)), ("when", "M8[s]"), ("who", "O")])
    records["x"] = a
    return lambda: dv.View(records["x"])


def a_file(a, folder):
    np.save(folder / "a.npy", a)
    return lambda: dv.open(folder / "a.npy", mode="r+")


def a_field_of_a_file(a, folder):
    np.save(folder / "a.npy", np.rec.fromarrays([a.sum(1), a[:, 0]], names="x,y"))
    return lambda: dv.open(folder / "a.npy", mode="r+").x


def a_dataset(a, folder):
    file = h5py.File(folder / "a.h5", "w")
    file["x"] = a
    return lambda: dv.View(file["x"])


def an_array_of_zarr(a, folder):
    group = zarr.open_group(folder / "a.zarr", mode="w")
    group["x"] = a
    return lambda: dv.View(group["x"])


def zarr_in_memory(a, folder):
    group = zarr.group()
    group["x"] = a
    return lambda: dv.View(group["x"])


def what_looks_like_an_array(a, folder):
    numbered = NumberedWritable(a)
    return lambda: dv.View(numbered)


REMADE = [
    reshaped,
    of_an_attribute,
    turned,
    of_a_field,
    a_file,
    a_field_of_a_file,
    a_dataset,
    an_array_of_zarr,
    zarr_in_memory,
    what_looks_like_an_array,
]


@pytest.mark.parametrize("made", REMADE, ids=lambda made: made.__name__)
def test_a_swap_through_sources_made_anew_is_refused(made, tmp_path):
    view = made(np.arange(12.0).reshape(6, 2), tmp_path)
    before = view()(copy=True)
    with pytest.raises(ValueError, match=REFUSED) as caught:
        view()[0], view()[1] = view()[1], view()[0]
    assert "undone: 1 of the 1 before it that belong to it;" in str(caught.value)
    with pytest.raises(ValueError, match=REFUSED):
        view()[0], view()[1], view()[2] = view()[1], view()[2], view()[0]
    with pytest.raises(ValueError, match=REFUSED):
        view()[[0, 3]], view()[1:3] = view()[1:3], view()[[0, 3]]
    assert_same(view()(copy=True), before)
    view()[0], view()[1] = view()[2], view()[3]
    view()[4], view()[5] = view()[4], view()[5]


def test_a_swap_through_two_forms_of_the_same_memory_is_refused():
    a = np.arange(4.0)
    with pytest.raises(ValueError, match=REFUSED):
        dv.View(a)[:2], dv.View(a)._reshape(2, 2)[1] = dv.View(a)[2:], dv.View(a)._reshape(2, 2)[0]
    assert a.tolist() == [0, 1, 2, 3]


def test_a_file_made_anew_is_not_held_open(tmp_path):
    file = h5py.File(tmp_path / "a.h5", "w")
    file["x"] = np.arange(4.0)
    dv.View(file["x"])[0] = dv.View(file["x"])[1]
    del file
    gc.collect()
    h5py.File(tmp_path / "a.h5", "w").close()  # refused while somebody has the file open


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


def disjoint_in_what_is_joined(v):
    w = dv.concat(v[:3], v[3:]._reshape(3, 2))
    w[0], w[2], w[4] = w[1], w[3], w[5] * 2


def a_number_ends_a_run_of_statements(v):
    kept = v[0]
    v[0] = v[1]
    v[2] = 7.0
    v[1] = kept


def through_views_of_new_arrays(v):
    for row in list(v):
        block = np.zeros(2)
        dv.View(block)[...] = row
        row._write(block)


def to_and_fro_on_one_line(v):
    new = dv.View(np.zeros((6, 2)))
    new[...] = v + 1; v[...] = new  # fmt: skip # noqa: E702
    new[...] = v * 2; v[...] += new  # fmt: skip # noqa: E702


FINE = [
    to_and_fro_on_one_line,
    disjoint_in_what_is_joined,
    a_number_ends_a_run_of_statements,
    through_views_of_new_arrays,
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


# ---------------------------------------------------------------- other values in one statement


def test_a_number_within_a_statement_does_not_end_its_run(data):
    before = data(copy=True)
    value = before[0] if data._fields() else 7.0
    with pytest.raises(ValueError, match=REFUSED):
        data[0], data[1], data[2] = data[1], value, data[0]
    assert_same(data(copy=True), before)
    with pytest.raises(ValueError, match=REFUSED):
        data[0], data[2], data[1] = data[1], value, data[0]
    assert_same(data(copy=True), before)
    with pytest.raises(ValueError, match=REFUSED):
        data[0], data[2], data[1] = data[1], data[0], value
    assert_same(data(copy=True), before)
    data[0], data[1], data[2] = data[1], value, data[3]
    assert_same(data(copy=True)[0], before[1])


@given(data=st.data())
@examples(200)
def test_a_statement_that_changes_what_it_reads_is_what_numpy_makes_of_copies_or_refused(data):
    rows = data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=4, unique=True))
    values = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    targets = ", ".join(f"v[{row}]" for row in rows)
    a = np.arange(10.0).reshape(5, 2)
    v, before = dv.View(a), a.copy()
    of_views = ", ".join(f"v[{value}]" if value < 5 else f"{value}.5" for value in values)
    of_copies = of_views.replace("]", "].copy()")
    expected = a.copy()
    exec(f"{targets} = {of_copies}", {"v": expected})
    pairs = list(zip(rows, values, strict=True))
    for row, value in itertools.takewhile(lambda pair: pair[1] >= 5, pairs):
        before[row] = value + 0.5  # no view was written yet
    try:
        exec(f"{targets} = {of_views}", {"v": v})
    except ValueError:
        assert_same(a, before)
        assert not (a == expected).all()
    else:
        moving = [pair for pair in pairs if pair[0] != pair[1]]
        is_chain = not any(
            row in [value for _, value in moving[:at]] for at, (row, _) in enumerate(moving)
        )
        assert is_chain or (a == expected).all()


def test_what_is_assigned_to_names_or_nested_does_not_end_a_statement(data):
    before = data(copy=True)
    value = before[0] if data._fields() else 7.0
    with pytest.raises(ValueError, match=REFUSED):
        data[0], _, data[1] = data[1], value, data[0]
    with pytest.raises(ValueError, match=REFUSED):
        data[0], (data[2], (_, data[1])) = data[1], (value, (0, data[0]))
    assert_same(data(copy=True), before)


# ---------------------------------------------------------------- what a run holds, and its undo


def test_a_run_holds_little_for_rows_by_number():
    v, w = dv.View(np.zeros(100_000)), dv.View(np.zeros((20, 1)))
    numbers = np.random.default_rng(0).permutation(100_000)
    v[numbers] = w[0]
    tracemalloc.start()
    try:
        for row in list(w):
            v[numbers + 0] = row
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 << 20


class Heavy:
    """An object of a user's."""


def test_a_run_holds_no_objects_of_data_that_are_gone():
    a = np.array([Heavy(), Heavy()], object)
    gone = weakref.ref(a[0])
    v = dv.View(a)
    v[0] = v[1]
    del a, v
    gc.collect()
    assert gone() is None


def test_a_run_holds_no_large_objects():
    a = np.empty(2, object)
    a[:] = [np.zeros(1 << 18), np.zeros(1 << 18)]
    gone = weakref.ref(a[0])
    v = dv.View(a)
    v[0] = v[1]
    gc.collect()
    assert gone() is None


class WriteOnly(Source):
    """A store that can be written, and whose reading fails."""

    def __init__(self, array):
        self.kept, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, index, memo):
        raise RuntimeError("the tape stands at its end")

    def write(self, index, value):
        gather.assign(self.kept, index, value)


def test_a_write_needs_no_old_values():
    a = np.arange(4.0)
    target = viewed(stored(WriteOnly(a)))
    v = dv.View(np.arange(10.0, 14))
    with sizes.set(undo_bytes=0):
        target[0] = v[1]
        target[1], v[0] = v[0], v[2]
    assert a.tolist() == [11, 10, 2, 3]


def test_what_numpy_writes_in_between_stays_as_the_message_says():
    a = np.arange(8.0)
    v = dv.View(a)
    kept = v[0]
    v[0] = v[1]
    a[5] = 50
    with pytest.raises(ValueError, match="what else was written in between stays"):
        v[1] = kept
    assert a.tolist() == [0, 1, 2, 3, 4, 50, 6, 7]


def rotate_all(v):
    """Swap all rows like values, one statement for each."""
    rows = list(v)
    for number in range(len(v)):
        v[number] = rows[(number + 1) % len(v)]


def test_a_rotation_of_many_rows_is_refused_and_all_of_it_is_undone(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(300.0))
    for v in dv.View(np.arange(300.0)), dv.open(tmp_path / "a.npy", mode="r+"):
        with pytest.raises(
            ValueError, match=r"undone: 299 of the 299 before it that belong to it;"
        ):
            rotate_all(v)
        assert_same(v(copy=True), np.arange(300.0))


def test_of_more_than_1_mb_the_last_writes_are_undone_as_the_message_says():
    a = np.arange(100.0 * 4096).reshape(100, 4096)
    before = a.copy()
    with pytest.raises(ValueError, match=r"undone: 31 of the 99 .*not what was of more than 1 MB"):
        rotate_all(dv.View(a))
    assert_same(a[68:], before[68:])
    assert_same(a[:68], before[1:69])


def test_what_was_changed_since_is_not_put_back():
    a = np.arange(4.0)
    v = dv.View(a)
    kept = v[0]
    v[0] = v[1]
    a[0] = 50
    with pytest.raises(ValueError, match=r"undone: 0 of the 1 .*was changed since"):
        v[1] = kept
    assert a.tolist() == [50, 1, 2, 3]


def test_large_rows_are_refused_and_said_not_to_be_undone():
    a = np.arange(1 << 19, dtype=float).reshape(2, -1)
    v = dv.View(a)
    with pytest.raises(ValueError, match=r"undone: 0 of the 1 .*more than 1 MB"):
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


# ---------------------------------------------------------------- what many writes cost


def copied(n, folder):
    target = dv.View(np.zeros((n, 3)))
    for number, row in enumerate(list(dv.View(np.ones((n, 3))))):
        target[number] = row


def chained(n, folder):
    v = dv.View(np.arange(n + 1.0))
    for number, row in enumerate(list(v)[:-1]):
        v[number + 1] = row


def in_any_order(n, folder):
    v = dv.View(np.arange(2.0 * n).reshape(n, 2))
    order = np.random.default_rng(0).permutation(n)
    rows = list(v)
    for number in range(0, n - 1, 2):
        v[int(order[number])] = rows[order[number + 1]]


def of_columns(n, folder):
    v = dv.View(np.zeros((3, n + 1)))
    for number, column in enumerate([v[:, number] for number in range(n)]):
        v[:, number + 1] = column


def of_elements(n, folder):
    v = dv.View(np.zeros((10, n // 10 + 1)))
    for number, value in enumerate([v[number % 10, number // 10] for number in range(n)]):
        v[(number + 1) % 10, (number + 1) // 10] = value


def of_arrays_of_their_own(n, folder):
    arrays = [np.zeros(2) for _ in range(n)]
    for number, row in enumerate(list(dv.View(np.ones((n, 2))))):
        dv.View(arrays[number])[...] = row


def of_parts_of_an_array(n, folder):
    a = np.zeros((n + 1, 2))
    for number, row in enumerate([dv.View(a[number])[:] for number in range(n)]):
        dv.View(a[number + 1])[...] = row


def of_a_file(n, folder):
    np.save(folder / "a.npy", np.zeros((n + 1, 2)))
    v = dv.open(folder / "a.npy", mode="r+")
    for number, row in enumerate(list(v)[:-1]):
        v[number + 1] = row


MANY_WRITES = [
    copied, chained, in_any_order, of_columns, of_elements, of_arrays_of_their_own,
    of_parts_of_an_array, of_a_file,
]  # fmt: skip


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("write", MANY_WRITES, ids=lambda write: write.__name__)
def test_a_write_is_compared_with_few_others_however_many_there_are(
    write, n, tmp_path, monkeypatch
):
    compared = []
    monkeypatch.setattr(Spot, "meets", noting(Spot.meets, compared))
    monkeypatch.setattr(Line, "around", noting(Line.around, compared))
    write(n, tmp_path)
    assert len(compared) <= 8 * n


def noting(method, calls):
    def noted(self, other):
        calls.append(other)
        return method(self, other)

    return noted


KEYS = st.one_of(
    st.integers(0, 3),
    st.builds(slice, st.integers(0, 3), st.integers(0, 4), st.integers(1, 3)),
    st.lists(st.integers(0, 3), max_size=3),
)


@given(drawn=st.data())
@examples(200)
def test_a_place_meets_remembered_ones_if_one_has_an_element_of_it(drawn):
    records = np.zeros((4, 4), [("x", "f8"), ("y", "f4", (4,))])
    a, b = np.zeros((4, 4)), np.zeros((4, 4))
    arrays = [a, a, a, a.T, a[::-1, ::-2], a[1:3], a.ravel(), b, records["x"], records["y"]]
    sources = [ArraySource(array) for array in arrays]

    def spot():
        source = drawn.draw(st.sampled_from(sources))
        parts = [drawn.draw(KEYS) for _ in source.shape[:2]]
        lengths = zip(parts, source.shape, strict=False)
        key = tuple(
            part if isinstance(part, slice) else (np.array(part, int) % n)[()]
            for part, n in lengths
        )
        try:
            return Spot(source.reference(), parse(key, source.shape))
        except IndexError:  # lists of different lengths
            return Spot(source.reference(), identity(source.shape))

    remembered = [spot() for _ in range(drawn.draw(st.integers(0, 8)))]
    places = Places({})
    places.add(remembered)
    asked = spot()
    for other in remembered:
        other.put(np.ones((), other.reference.source().dtype))
    if asked.read().any():
        assert places.meet([asked])
    elif places.meet([asked]):
        assert any(asked.meets(other) for other in remembered)
