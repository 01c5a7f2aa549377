"""Writing through any view: law 6 and 7, and the cases B12 to B19."""

from __future__ import annotations

import concurrent.futures
import operator
import time
import tracemalloc

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st

import dataview as dv
from children import python
from dataview.index.sizes import sizes
from oracle import (
    NUMBERS,
    WRITABLE,
    accepted_chains,
    assert_same,
    attempt,
    bases,
    cast_into,
    check_refused,
    check_write,
    evaluated,
    examples,
    fill,
    follow,
    positions,
    public_class,
    refused_keys,
    step,
    values,
)
from stores import LeastWritable

INTEGERS = [np.dtype(code) for code in ["i1", "i4", "i8", "u1", "u8", ">i4"]]
FLOATS = [np.dtype(code) for code in ["f2", "f4", "f8", ">f8", "g"]]
COMPLEX = [np.dtype(code) for code in ["c8", "c16"]]
IN_PLACE = {
    "+=": (operator.iadd, np.add),
    "-=": (operator.isub, np.subtract),
    "*=": (operator.imul, np.multiply),
    "/=": (operator.itruediv, np.true_divide),
    "//=": (operator.ifloordiv, np.floor_divide),
    "%=": (operator.imod, np.remainder),
    "**=": (operator.ipow, np.power),
    "&=": (operator.iand, np.bitwise_and),
    "|=": (operator.ior, np.bitwise_or),
    "^=": (operator.ixor, np.bitwise_xor),
    "<<=": (operator.ilshift, np.left_shift),
    ">>=": (operator.irshift, np.right_shift),
}
EXACT_ON_FLOATS = ["+=", "-=", "*=", "/=", "//=", "%="]


@pytest.fixture
def d(x):
    return dv.View(x, input=np.s_[:3], target=np.s_[3:4])


# ---------------------------------------------------------------- (a) any array, any keys


@examples(400)
@given(st.data())
def test_any_write_changes_what_numpys_positions_say(data):
    base = data.draw(bases(WRITABLE))
    array = base.array
    chain = data.draw(accepted_chains(array))
    places = positions(array, chain)
    value = data.draw(values(places.shape, array.dtype))
    landed, refusal = attempt(lambda v: cast_into(places.shape, array.dtype, v), value)
    view = follow(dv.View(array), chain)
    if refusal is not None:
        check_refused(base, public_class(refusal), lambda: view._write(value))
    else:
        check_write(base, places, landed, lambda: view._write(value))


@examples(300)
@given(st.data())
def test_any_assignment_changes_what_numpys_positions_say(data):
    base = data.draw(bases(WRITABLE))
    array = base.array
    chain = data.draw(accepted_chains(array))
    assume(chain)
    places = positions(array, chain)
    value = data.draw(values(places.shape, array.dtype))
    landed, refusal = attempt(lambda v: cast_into(places.shape, array.dtype, v), value)
    parent = follow(dv.View(array), chain[:-1])

    def assign():
        parent[chain[-1]] = value

    if refusal is not None:
        check_refused(base, public_class(refusal), assign)
    else:
        check_write(base, places, landed, assign)


MASKS = {
    "other data": lambda v: dv.View(fill(v._shape(), bool)),
    "the data": lambda v: v == v,
    "the data elsewhere": lambda v: v[::-1] == v,
    "a product": lambda v: dv.View(fill(v._shape(), bool)) & (v != v),
    "nothing": lambda v: dv.View(np.zeros(v._shape(), bool)),
}


@examples(400)
@given(st.data())
def test_a_value_is_written_where_a_mask_is_true(data):
    base = data.draw(bases(WRITABLE))
    chain = data.draw(accepted_chains(base.array, 3))
    places = positions(base.array, chain)
    assume(places.ndim)
    view = follow(dv.View(base.array), chain)
    mask = MASKS[data.draw(st.sampled_from(sorted(MASKS)))](view)
    value = data.draw(values((), base.array.dtype))
    chosen = places[np.asarray(mask)]
    landed, refusal = attempt(lambda v: cast_into((), base.array.dtype, v), value)

    def assign():
        view[mask] = value

    with sizes.set(streamed_elements=data.draw(st.sampled_from([0, 0, 1 << 16])), block_bytes=64):
        if refusal is not None:
            check_refused(base, public_class(refusal), assign)
        else:
            check_write(base, chosen, np.broadcast_to(landed, chosen.shape), assign)


@pytest.mark.parametrize(
    ("value", "landed"),
    [
        (7, 7),
        (True, 1),
        (np.uint8(7), 7),
        (np.array(7, "u1"), 7),
        (300, OverflowError),
        (2.5, TypeError),
        (np.int64(7), TypeError),
    ],
)
def test_a_value_where_a_mask_is_true_is_cast_as_any_value(value, landed):
    a = np.arange(6, dtype=np.uint8)
    d = dv.View(a)
    with sizes.set(streamed_elements=0):
        if isinstance(landed, int):
            d[d > 2] = value
            assert_same(a, np.array([0, 1, 2, landed, landed, landed], np.uint8))
            return
        for mask in (d > 2, d > 100):
            with pytest.raises(landed):
                d[mask] = value
    assert_same(a, np.arange(6, dtype=np.uint8))


SHOWN_TWICE = {
    "rows repeated": lambda a: dv.View(a)._repeat(2),
    "rows by number": lambda a: dv.View(a)[[0, 0, 1]],
    "windows": lambda a: dv.View(np.lib.stride_tricks.sliding_window_view(a, 3, writeable=True)),
}


@pytest.mark.parametrize("name", SHOWN_TWICE)
def test_an_element_that_is_shown_twice_is_written_where_a_mask_is_true_once(name):
    a = np.arange(6.0)
    v = SHOWN_TWICE[name](a)
    mask = np.arange(v._size()).reshape(v._shape()) == v._size() // 3
    expected = a.copy()
    expected[int(v()[mask][0])] = 9
    with sizes.set(streamed_elements=0):
        v[dv.View(mask)] = 9
    assert_same(a, expected)


def test_a_statistic_is_written_where_a_mask_is_true(x):
    expected = x.copy()
    with sizes.set(streamed_elements=0):
        d = dv.View(x)
        d[d < d._mean()], d[d > 10] = d._max() + 1, d._min()
    low, most = expected < expected.mean(), expected.max() + 1
    expected[low] = most
    expected[expected > 10] = 0
    assert_same(x, expected)


def test_a_part_that_was_changed_is_not_written_where_a_mask_is_true(x):
    with sizes.set(streamed_elements=0):
        d = dv.View(x)
        with pytest.raises(ValueError, match="a row is a view"):
            d[d < 10], d[d >= 10] = d[-1, -1], d[0, 0]


def test_a_value_where_a_mask_is_true_is_for_data_that_can_be_written(x):
    with sizes.set(streamed_elements=0):
        d = dv.View(x)
        for given in (d._readonly(), d * 2):
            with pytest.raises(dv.ReadOnlyError):
                given[d > 1] = 0


@examples(200)
@given(st.data())
def test_assigning_through_a_key_that_numpy_refuses_changes_nothing(data):
    base = data.draw(bases(WRITABLE))
    chain = data.draw(accepted_chains(base.array, 2))
    key = data.draw(refused_keys(follow(base.array, chain).shape))
    _, refusal = attempt(lambda part: step(part, key), follow(base.array, chain))
    parent = follow(dv.View(base.array), chain)
    check_refused(base, public_class(refusal), lambda: operator.setitem(parent, key, 0))


@examples(150)
@given(st.data())
def test_read_only_arrays_are_never_written(data):
    base = data.draw(bases(["readonly", "broadcast"]))
    chain = data.draw(accepted_chains(base.array))
    view = follow(dv.View(base.array), chain)
    value = fill(view._shape(), base.array.dtype, 40)
    check_refused(base, ValueError, lambda: view._write(value))
    check_refused(base, ValueError, lambda: operator.setitem(view, ..., value))


# ---------------------------------------------------------------- in place


def check_in_place(data, dtypes, symbols, operands):
    base = data.draw(bases(WRITABLE, dtypes))
    array = base.array
    chain = data.draw(accepted_chains(array, 3))
    places = positions(array, chain)
    symbol = data.draw(st.sampled_from(symbols))
    operand = data.draw(operands(places.shape, array.dtype))
    view = follow(dv.View(array), chain)
    in_place, ufunc = IN_PLACE[symbol]
    with np.errstate(all="ignore"):
        landed, refusal = attempt(
            lambda now: ufunc(now, evaluated(operand), out=now), step(array.flatten(), places)
        )
        if refusal is not None:
            check_refused(base, public_class(refusal), lambda: in_place(view, operand))
        else:
            check_write(base, places, landed, lambda: assert_stays(view, in_place(view, operand)))


def assert_stays(view, result):
    assert isinstance(result, dv.View)
    assert_same(result(), view())


@st.composite
def small_operands(draw, shape, dtype):
    form = draw(st.sampled_from(["int", "float", "same", "row", "long", "view", "other"]))
    if form == "int":
        return draw(st.sampled_from([1, 2, 3, 2**70]))
    if form == "float":
        return 2.5
    if form == "row":
        return small(shape[1:], dtype)
    if form == "long" and shape:
        return small((*shape[:-1], shape[-1] + 2), dtype)
    if form == "view":
        return dv.View(small(shape, dtype))
    if form == "other":
        return small(shape, draw(st.sampled_from(NUMBERS[1:])))
    return small(shape, dtype)


def small(shape, dtype):
    return (np.arange(int(np.prod(shape))) % 4 + 1).reshape(shape).astype(dtype)


@examples(300)
@given(st.data())
def test_integers_in_place(data):
    check_in_place(data, INTEGERS, list(IN_PLACE), small_operands)


@examples(200)
@given(st.data())
def test_floats_in_place(data):
    check_in_place(data, FLOATS, EXACT_ON_FLOATS, small_operands)


@examples(100)
@given(st.data())
def test_complex_numbers_in_place(data):
    check_in_place(data, COMPLEX, ["+=", "-=", "//=", "&="], small_operands)


@examples(100)
@given(st.data())
def test_booleans_in_place(data):
    check_in_place(data, [np.dtype(bool)], ["&=", "|=", "^=", "+=", "-=", "<<="], small_operands)


@examples(300)
@given(st.data())
def test_in_place_with_an_overlapping_view_of_the_same_data(data):
    base = data.draw(bases(WRITABLE, INTEGERS))
    array = base.array
    chain = data.draw(accepted_chains(array, 2))
    target = positions(array, chain)
    key = data.draw(st.sampled_from([np.s_[::-1], np.s_[:1], np.s_[-1:], np.s_[...]]))
    assume(target.ndim)
    view = follow(dv.View(array), chain)
    symbol = data.draw(st.sampled_from(["+=", "-=", "*=", "^="]))
    in_place, ufunc = IN_PLACE[symbol]
    current = array.flatten()[target]
    landed, refusal = attempt(lambda now: ufunc(now, now[key].copy(), out=now), current)
    if refusal is not None:
        check_refused(base, public_class(refusal), lambda: in_place(view, view[key]))
    else:
        check_write(base, target, landed, lambda: in_place(view, view[key]))


@examples(300)
@given(st.data())
def test_writing_an_overlapping_view_reads_it_first(data):
    base = data.draw(bases(WRITABLE, INTEGERS))
    array = base.array
    target_chain = data.draw(accepted_chains(array, 2))
    source_chain = data.draw(accepted_chains(array, 2))
    target, source = positions(array, target_chain), positions(array, source_chain)
    view = dv.View(array)
    into, out_of = follow(view, target_chain), follow(view, source_chain)
    value = array.flatten()[source]
    landed, refusal = attempt(lambda v: cast_into(target.shape, array.dtype, v), value)
    if refusal is not None:
        check_refused(base, public_class(refusal), lambda: into._write(out_of))
    else:
        check_write(base, target, landed, lambda: into._write(out_of))


OVERLAPS = [(np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::2], np.s_[1::2])]


@pytest.mark.parametrize(("into", "out_of"), OVERLAPS)
@pytest.mark.parametrize("symbol", ["+=", "-=", "*="])
def test_neighbouring_rows_in_place(x, d, into, out_of, symbol):
    expected = x.copy()
    in_place, ufunc = IN_PLACE[symbol]
    ufunc(expected[into], expected[out_of].copy(), out=expected[into])
    view = d[into]
    in_place(view, d[out_of])
    assert_same(x, expected)


def test_adding_the_reverse(x):
    expected = x + x[::-1]
    v = dv.View(x)
    v += v[::-1]
    assert isinstance(v, dv.View)
    assert_same(x, expected)


def test_moving_rows_by_one(x):
    expected = np.concatenate([x[:1], x[:-1]])
    v = dv.View(x)
    v[1:] = v[:-1]
    assert_same(x, expected)


def test_repeated_rows_are_added_to_once(x):
    expected = x.copy()
    expected[[0, 0]] += 1
    v = dv.View(x)
    v[[0, 0]] += 1
    assert_same(x, expected)


def test_the_last_of_repeated_rows_wins(x):
    v = dv.View(x)
    v[[0, 0, 1]] = np.array([[1.0], [2.0], [3.0]])
    assert (x[0] == 2).all()
    assert (x[1] == 3).all()


ROW_KEYS = [np.s_[:], np.s_[::-1], np.s_[::2], np.s_[1:], np.s_[::-3], [0], [2, 0, 1, 2], [1, 1, 0]]
LAYOUTS = {
    "as it is": lambda joined: joined,
    "transposed": lambda joined: (
        joined.T if isinstance(joined, np.ndarray) else joined._transpose()
    ),
    "a minibatch": lambda joined: (
        joined[: len(joined) // 2 * 2].reshape(-1, 2, *joined.shape[1:])
        if isinstance(joined, np.ndarray)
        else joined[: len(joined) // 2 * 2]._reshape(-1, 2, *joined._shape()[1:])
    ),
}


@given(st.data())
@examples(120)
def test_the_last_of_places_joined_twice_wins(data):
    width = data.draw(st.sampled_from([(), (3,)]))
    whole = np.zeros((4, *width))
    numbers = np.arange(whole.size).reshape(whole.shape)

    def joined(members):
        """Draw joined views of the same data, and their numbers."""
        found = []
        for _ in range(data.draw(st.integers(2, 3))):
            part, own = data.draw(st.sampled_from(members))
            keys = [key for key in ROW_KEYS if isinstance(key, slice) or max(key) < len(own)]
            key = data.draw(st.sampled_from(keys))
            found.append((part[key], own[key]))
        views, parts = zip(*found, strict=True)
        return dv.concat(*views), np.concatenate(parts)

    one = dv.View(whole)
    members = [(one, numbers), (dv.View(whole), numbers), (dv.View(whole[1:]), numbers[1:])]
    members = members[: data.draw(st.integers(1, 3))]
    for _ in range(data.draw(st.integers(1, 2))):
        members.append(joined(members))
    view, places = members[-1]
    for layout in data.draw(st.lists(st.sampled_from([*LAYOUTS]), max_size=2)):
        view, places = LAYOUTS[layout](view), LAYOUTS[layout](places)
    order = data.draw(st.permutations(range(len(places))))
    for key in [
        order,
        *data.draw(st.lists(st.sampled_from([np.s_[::-1], np.s_[::2]]), max_size=1)),
    ]:
        view, places = view[key], places[key]
    value = np.arange(1.0, places.size + 1).reshape(places.shape)
    if data.draw(st.booleans()) and len(value):
        value = value[:, ..., :1] if value.ndim > 1 else value
    expected = np.zeros_like(whole)
    # In C order: NumPy goes through an array of places as it lies in memory.
    expected.reshape(-1)[places.ravel()] = np.broadcast_to(value, places.shape).ravel()
    view[...] = dv.View(value) * 1 if data.draw(st.booleans()) else value
    assert_same(whole, expected)


@pytest.mark.parametrize("rows", [np.s_[::-1], np.s_[::-2], [0, 4, 1, 3, 2, 5]])
@pytest.mark.parametrize("suffix", [".npy", ".h5", ".zarr"])
def test_the_last_of_rows_of_a_file_joined_twice_wins(tmp_path, suffix, rows):
    path = tmp_path / f"a{suffix}"
    dv.View(np.zeros((3, 2)))._save(path)
    with dv.open(path, mode="r+") as opened:
        v = opened.data if opened._fields() else opened
        value = np.arange(12.0).reshape(6, 2)[rows]
        dv.concat(v, v)[rows][...] = value
        expected = np.zeros((3, 2))
        expected[np.array([0, 1, 2, 0, 1, 2])[rows]] = value
        assert_same(v(), expected)


def test_large_values_go_to_places_joined_twice_one_after_the_other(monkeypatch):
    from dataview.sources import ArraySource

    monkeypatch.setattr(sizes, "streamed_elements", 4)
    write = ArraySource.write

    def slow_at_first(self, index, value):
        if (value < 2000).all():
            time.sleep(0.1)
        write(self, index, value)

    monkeypatch.setattr(ArraySource, "write", slow_at_first)
    for block in (1 << 10, 1 << 20):
        monkeypatch.setattr(sizes, "block_bytes", block)
        a = np.zeros(2000)
        v = dv.View(a)
        with concurrent.futures.ThreadPoolExecutor(4) as pool, dv.executor(pool):
            dv.concat(v, v)[...] = np.arange(4000.0)
        assert_same(a, np.arange(2000.0, 4000.0))


def test_joined_rows_that_share_no_place_are_written_as_they_were(monkeypatch):
    a, b = np.zeros((1000, 3)), np.zeros((1000, 3))
    joined = dv.concat(dv.View(a), dv.View(b))._shuffled(0)
    written = counted_writes(monkeypatch)
    joined[...] = np.arange(6000.0).reshape(2000, 3)
    assert written == [(1000, 3), (1000, 3)]


def test_rows_of_one_source_joined_twice_are_written_together(monkeypatch):
    v = dv.View(np.zeros((1000, 3)))
    joined = dv.concat(v, v)._shuffled(0)
    written = counted_writes(monkeypatch)
    joined *= 2
    assert written == [(2000, 3)]


def counted_writes(monkeypatch):
    """Note the shape of each write to a source in memory."""
    from dataview.sources import ArraySource

    written = []
    write = ArraySource.write

    def noted(self, index, value):
        written.append(index.shape)
        write(self, index, value)

    monkeypatch.setattr(ArraySource, "write", noted)
    return written


# ---------------------------------------------------------------- statements


def test_minus_on_a_field(x, d):
    expected = x.copy()
    expected[:, :3] -= np.arange(3)
    d.input -= np.arange(3)
    assert isinstance(d, dv.View)
    assert isinstance(d.input, dv.View)
    assert_same(x, expected)


def test_times_on_a_field_of_a_part(x, d):
    expected = x.copy()
    expected[0:5, :3] *= 2
    d[0:5].input *= 2
    assert_same(x, expected)


def test_plus_on_an_element_of_a_list(x, d):
    expected = x.copy()
    expected[0] += 3
    d[[2, 0]][1] += 3
    assert_same(x, expected)


def test_plus_on_a_field_by_its_name(x, d):
    expected = x.copy()
    expected[:, :3] += 1
    d["input"] += 1
    assert_same(x, expected)


def test_plus_on_a_field_in_a_key(x, d):
    expected = x.copy()
    expected[1:3, :3] += 1
    d[1:3, "input"] += 1
    assert_same(x, expected)


def test_plus_on_a_nested_field():
    x = np.zeros((3, 4))
    d = dv.View(x, position=dv.field(np.s_[0:3], x=0, y=1, z=2))
    d.position.y += 2
    d["position"]["z"] -= 1
    d[1:].position.x += 5
    assert_same(x, np.array([[0, 2, -1, 0], [5, 2, -1, 0], [5, 2, -1, 0]], float))


def test_plus_on_a_row_of_a_field(x, d):
    expected = x.copy()
    expected[2, :3] += 1
    d.input[2] += 1
    assert_same(x, expected)


def test_plus_through_a_mask(x, d):
    expected = x.copy()
    expected[expected > 10] += 100
    d[x > 10] += 100
    assert_same(x, expected)


def test_the_key_of_a_statement_is_evaluated_once(x, d):
    expected = x.copy()
    expected[expected[:, 0] > 10] -= 50
    d[d[:, 0] > 10] -= 50
    assert_same(x, expected)


def test_every_operator_on_a_part():
    for symbol, (in_place, ufunc) in IN_PLACE.items():
        a = np.arange(1, 13).reshape(4, 3).astype("f8" if symbol == "/=" else "i8")
        expected = a.copy()
        expected[1:3] = ufunc(expected[1:3], 2)
        d = dv.View(a)
        d[1:3] = in_place(d[1:3], 2)
        assert_same(a, expected)


def test_in_place_on_the_whole_keeps_the_view_and_its_fields(x, d):
    whole, field = d, d.input
    d *= 2
    assert isinstance(d, dv.View)
    assert d._fields() == ("input", "target")
    assert_same(whole(), d())
    assert_same(field(), x[:, :3])
    assert_same(x, np.arange(24.0).reshape(6, 4) * 2)


def test_an_in_place_result_assigned_elsewhere_is_written(x, d):
    view = d[0:2]
    view += 100
    d[2:4] = view
    assert_same(x[2:4], x[0:2])


def test_an_operator_alone_writes_nothing(x, d):
    before = x.copy()
    view = d + 1
    assert_same(x, before)
    assert_same(view(), before + 1)


# ---------------------------------------------------------------- the cases


@pytest.fixture
def a():
    return np.arange(24).reshape(4, 3, 2)


def test_b12_fancy_writes_reach_the_base(a):
    d = dv.View(a)
    d[[0, 2]]._write(7)
    assert (a[[0, 2]] == 7).all()
    assert_same(a[[1, 3]], np.arange(24).reshape(4, 3, 2)[[1, 3]])
    d[[0, 2]][1]._write(9)
    assert (a[2] == 9).all()
    assert (a[0] == 7).all()
    d[np.array([True, False, False, False])][:, 1:]._write(1)
    assert (a[0, 1:] == 1).all()
    assert (a[0, 0] == 7).all()


def test_b13_in_place_on_an_attribute(x, d):
    before = d.input
    d.input -= 1
    assert_same(x[:, :3], np.arange(24.0).reshape(6, 4)[:, :3] - 1)
    assert_same(before(), x[:, :3])
    x[0, 0] = 99
    assert d.input[0, 0]() == 99
    d[0] += 1
    assert x[0, 0] == 100
    d *= 2
    assert isinstance(d, dv.View)
    assert x[0, 0] == 200


def test_b15_read_only(x, d):
    readonly = d._readonly()
    before = x.copy()
    for part in [readonly, readonly[0], readonly[1:][::-1], readonly.input, readonly[[0, 1]]]:
        for write in [
            lambda part=part: part._write(1),
            lambda part=part: operator.setitem(part, ..., 1),
            lambda part=part: operator.imul(part, 2),
        ]:
            with pytest.raises(ValueError):
                write()
    with pytest.raises(ValueError):
        readonly.input = 1
    with pytest.raises(ValueError):
        readonly.input -= 1
    with pytest.raises(ValueError):
        readonly["input"] = 1
    assert_same(x, before)
    d[0]._write(5)
    assert (readonly[0]() == 5).all()


def test_b15_arrays_of_a_read_only_view_stay_read_only(x, d):
    readonly = d._readonly()
    handed = [readonly(), readonly.input(), readonly[1:3](), np.asarray(readonly), readonly[0]()]
    handed += [*readonly._asdict().values(), *readonly._astuple()]
    for array in handed:
        if not np.shares_memory(array, x):
            continue
        while isinstance(array, np.ndarray):
            assert not array.flags.writeable
            with pytest.raises(ValueError):
                array.flags.writeable = True
            array = array.base
    assert_same(x, np.arange(24.0).reshape(6, 4))


def test_b15_a_read_only_array_gives_a_read_only_view(x):
    x.flags.writeable = False
    view = dv.View(x)[1:]
    with pytest.raises(ValueError):
        view._write(1)
    with pytest.raises(ValueError):
        view()[0] = 1


def test_b15_computed_views_are_read_only_and_name_the_step(x, d):
    def root(row):
        return row() ** 0.5

    before = x.copy()
    pairs = d._map(lambda row: {"a": row()[0], "b": row()[1]})._probe()
    computed_by = [
        (d + 1, "add"),
        ((d.input * 2)[1:], "multiply"),
        (-d.input, "negative"),
        ((d + 1).input, "add"),
        ((d + 1)._shuffled(0)[2:], "add"),
        ((d + 1)._minibatches(2)[0], "add"),
        (dv.concat(d, d * 2), "multiply"),
        (d == 3, "equal"),
        (d != 3, "not_equal"),
        (d._sum(axis=0), "sum"),
        (d.input._quantile(0.5, axis=0), "quantile"),
        (d @ np.ones((4, 2)), "matmul"),
        (d._astype("f4"), "astype"),
        (np.where(d > 1, d, 0), "where"),
        (d._map(root), "map .*root"),
        (d._map(root, shape=4, dtype=float), "map .*root"),
        (d._map_batches(root, shape=4, dtype=float), "map_batches .*root"),
        ((d + 1)._cached(100), "cached"),
        (pairs.a, "map .*<lambda>"),
        (next(iter(pairs))._field("a"), "map .*<lambda>"),
    ]
    for computed, name in computed_by:
        for write in [
            lambda part: part._write(0),
            lambda part: operator.setitem(part, ..., 0),
            lambda part: operator.imul(part, 2),
        ]:
            with pytest.raises(
                dv.ReadOnlyError, match=rf"the result of (np\.|_){name}.* is computed"
            ):
                write(computed)
    assert_same(x, before)


REFUSED = [
    (np.zeros((6, 5)), ValueError),
    (np.zeros((2, 6, 4)), ValueError),
    (np.zeros(3), ValueError),
    (2j, TypeError),
    (np.zeros((6, 4), complex), TypeError),
    ("text", (TypeError, ValueError)),
    (None, (TypeError, ValueError)),
    ([[1, 2], [3]], ValueError),
]


@pytest.mark.parametrize(("value", "error"), REFUSED)
def test_b17_failed_writes_change_nothing(x, d, value, error):
    before = x.copy()
    for part in [d, d[::-1], d[[5, 4, 3, 2, 1, 0]]]:
        with pytest.raises(error):
            part._write(value)
        with pytest.raises(error):
            part[...] = value
    assert_same(x, before)


def test_b17_a_record_is_checked_whole_before_it_is_written():
    a, b = np.arange(3.0), np.arange(3)
    d = dv.View(a=a, b=b)
    for value in [
        {"a": [7.0, 8.0, 9.0], "b": [0.5, 1.5, 2.5]},
        {"a": 7.0, "b": np.zeros(4, int)},
        {"a": 7.0},
        {"a": 7.0, "c": 1},
        (7.0, 2.5),
        (7.0,),
    ]:
        with pytest.raises((TypeError, ValueError, KeyError)):
            d._write(value)
    assert_same(a, np.arange(3.0))
    assert_same(b, np.arange(3))


def test_b18_overlapping_rows_are_read_first(x, d):
    expected = x.copy()
    expected[1:] = expected[:-1].copy()
    d[1:]._write(d[:-1])
    assert_same(x, expected)


def test_b18_an_overlapping_array_is_read_first(x, d):
    expected = x.copy()
    expected[[1, 2, 3]] = expected[:3].copy()
    d[[1, 2, 3]]._write(x[:3])
    assert_same(x, expected)


def test_b18_an_expression_over_the_target_is_read_first(x, d):
    expected = x.copy()
    expected[1:] = expected[:-1].copy() + expected[1:][::-1]
    d[1:]._write(d[:-1] + d[1:][::-1])
    assert_same(x, expected)


def test_b19_dividing_integers_in_place_is_refused():
    a = np.arange(4)
    d = dv.View(a)
    with pytest.raises(TypeError):
        d /= 2
    with pytest.raises(TypeError):
        d += 0.5
    assert_same(a, np.arange(4))


# ---------------------------------------------------------------- casting


def test_python_scalars_are_weak():
    a = np.zeros(3, np.uint8)
    d = dv.View(a)
    d._write(7)
    d[1] = 8
    d[2:] += 9
    assert_same(a, np.array([7, 8, 16], np.uint8))
    for refused in [2.5, 1j, np.int64(7), np.array(7)]:
        with pytest.raises(TypeError):
            d._write(refused)
    for outside in [256, -1, 2**70]:
        with pytest.raises(OverflowError):
            d._write(outside)
        with pytest.raises(OverflowError):
            d[0] = outside
        with pytest.raises(OverflowError):
            d += outside
    assert_same(a, np.array([7, 8, 16], np.uint8))


def test_of_two_mistakes_numpy_tells_the_dtype_first():
    a = np.arange(3)
    d = dv.View(a)
    with pytest.raises(TypeError):
        d /= np.ones(5, int)
    with pytest.raises(TypeError):
        dv.View(np.array(["a", "b"])) * np.ones(5)
    assert_same(a, np.arange(3))


def test_values_are_cast_within_their_kind():
    a = np.zeros(3, "f4")
    d = dv.View(a)
    d._write(np.array([0.1, 0.2, 0.3]))
    assert_same(a, np.array([0.1, 0.2, 0.3], "f4"))
    d._write([1, 2, 3])
    assert_same(a, np.array([1, 2, 3], "f4"))
    d._write(np.array([True, False, True]))
    assert_same(a, np.array([1, 0, 1], "f4"))


def test_a_view_is_written_as_its_data():
    a, b = np.zeros((2, 3)), np.arange(3)
    d = dv.View(a)
    d._write(dv.View(b) * 2)
    assert_same(a, np.array([[0, 2, 4], [0, 2, 4]], float))
    d[0] = dv.View(b)
    assert_same(a[0], np.arange(3.0))
    with pytest.raises(ValueError):
        d._write(dv.View(np.zeros((3, 3))))


def test_writing_gives_nothing_back(d):
    assert d._write(1) is None


def test_views_joined_again_and_again_are_written():
    rows = [np.array([float(number)]) for number in range(1500)]
    v = dv.View(rows[0])
    for row in rows[1:]:
        v = dv.concat(v, row)
    v[:] = np.arange(1500.0) * 2
    assert [row[0] for row in rows] == [number * 2 for number in range(1500)]
    v[0] = -1
    assert rows[0][0] == -1


@pytest.mark.parametrize("value", [(1.5, 2), [(1, 2), (1.5, 2)], {"a": 1.5, "b": 2}])
def test_a_tuple_loses_nothing_on_its_way_into_fields(value):
    x = np.zeros(2, [("a", "i4"), ("b", "i4")])
    v = dv.View(x)
    with pytest.raises(TypeError):
        v[:] = value
    assert not x["a"].any()
    v[:] = [(1, 2), (3, 4)]
    assert x.tolist() == [(1, 2), (3, 4)]


def test_an_object_is_written_from_a_view_as_it_is():
    objects = np.array([{"a": 1}, {"b": 2}, None], object)
    v = dv.View(objects)
    v[0] = v[1]
    v[2] = dv.View(np.arange(3.0))[1]
    assert objects.tolist() == [{"b": 2}, {"b": 2}, 1.0]
    assert type(objects[0]) is dict


# ---------------------------------------------------------------- rows of memory, at once


def as_an_expression_would(v, key, value):
    """Write through a plan."""
    v[key]._write(value)


SIMPLE_VALUES = [1, 2.5, True, 3j, 300, np.float32(7), [1, 2], np.array(4.0), np.array("a"), None]
ARRAYS = [np.arange(2), np.ones((1, 2)), np.ones(3), np.arange(4.0).reshape(2, 2)]


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "c8", ">f8", "U3"])
@pytest.mark.parametrize("key", [0, -1, np.s_[1:3], np.s_[::-2], np.s_[3:1], np.s_[:]], ids=str)
@pytest.mark.parametrize("form", ["whole", "part", "turned", "read-only", "element"])
def test_rows_written_at_once_are_as_through_a_plan(dtype, key, form):
    def made():
        a = np.zeros((6, 2), dtype)
        v = dv.View(a)
        forms = {
            "whole": v,
            "part": v[1:5],
            "turned": v[::-1, ::-1],
            "read-only": v._readonly(),
            "element": v[:, 1],
        }
        return a, forms[form]

    def outcome(write, value):
        a, v = made()
        if isinstance(value, slice):
            value = v[value]
        _, error = attempt(lambda v: write(v, key, value), v)
        return a, type(error), str(error).partition(" (in View")[0]

    for value in [*SIMPLE_VALUES, *ARRAYS, np.s_[1:3], np.s_[:]]:
        found, *error = outcome(operator.setitem, value)
        expected, *refusal = outcome(as_an_expression_would, value)
        assert error == refusal
        assert_same(found, expected)


RECORDS = {
    "mapping": {"x": 5, "y": np.arange(2.0)},
    "another order": {"y": 1.5, "x": 300},
    "tuple": (7, np.ones((2, 2))),
    "an array of rows": (np.arange(2), 1),
    "a list": {"x": [1, 2], "y": 0},
    "a fraction": {"x": 2.5, "y": 1},
    "a wrong shape": {"x": 1, "y": np.ones(3)},
    "a field less": {"x": 1},
    "a field more": {"x": 1, "y": 2, "z": 3},
    "too short": (1,),
    "a number": 3,
    "rows": np.s_[2:4],
    "a row": 3,
    "all rows": np.s_[:],
}
RECORDS_OF_VIEWS = ("rows", "a row", "all rows")


@pytest.mark.parametrize("key", [0, -1, np.s_[1:3], np.s_[::-2], np.s_[3:1], [3, 1]], ids=str)
@pytest.mark.parametrize("form", ["whole", "part", "turned", "read-only", "beside", "of columns"])
@pytest.mark.parametrize("name", RECORDS)
def test_rows_of_records_written_at_once_are_as_through_a_plan(name, form, key):
    def made():
        x, y = np.arange(6), np.arange(12.0).reshape(6, 2)
        d = dv.View(x=x, y=y)
        forms = {
            "whole": d,
            "part": d[1:5],
            "turned": d[::-1],
            "read-only": d._readonly(),
            "beside": dv.View(x=x[:5], y=y[1:]),  # of the same memory as what is written
            "of columns": dv.View(np.zeros(6, [("x", int), ("y", float, (2,))])),
        }
        return d, forms[form]

    def outcome(write):
        d, v = made()
        value = RECORDS[name]
        if name in RECORDS_OF_VIEWS:
            value = d[value]
        _, error = attempt(lambda v: write(v, key, value), v)
        arrays = [part() for view in (d, v) for part in (view.x, view.y)]
        return arrays, type(error), str(error).partition(" (in View")[0]

    found, *error = outcome(operator.setitem)
    expected, *refusal = outcome(as_an_expression_would)
    assert error == refusal
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_fields_of_one_memory_are_written_at_once_from_what_was_there():
    a = np.arange(12.0).reshape(6, 2)
    d = dv.View(x=a[:4], y=a[2:])
    d[1] = {"x": a[3], "y": a[1]}
    assert a[[1, 3]].tolist() == [[6, 7], [2, 3]]
    d[0:2] = d[2:4]
    assert a.tolist() == [[4, 5], [2, 3], [8, 9], [10, 11], [8, 9], [10, 11]]


def test_large_values_of_several_fields_are_not_copied_before_they_are_written(monkeypatch):
    monkeypatch.setattr(sizes, "undo_bytes", 0)
    x, y = np.zeros((1 << 18, 8)), np.zeros((1 << 18, 8))
    d, ones = dv.View(x=x, y=y), np.ones_like(x)
    tracemalloc.start()
    try:
        d[:] = {"x": ones, "y": ones}
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.min() == y.min() == 1
    assert most < ones.nbytes


def test_rows_of_records_written_at_once_are_told_and_photographed():
    d = dv.View(x=np.arange(4), y=np.arange(4.0))
    cached = (d.x * 2)._cached(1 << 20)
    for change, x, y in [
        (lambda: operator.setitem(d, 0, {"x": 5, "y": 2}), 6, 6),
        (lambda: operator.setitem(d, 1, d[0]), 11, 8),
        (lambda: operator.setitem(d, [2, 3], (1, 1)), 15, 9),
    ]:
        asked, total, _ = d.x._sum(), d.y._sum(), cached()
        change()
        assert (asked(), total()) == (x, y)
        assert_same(cached(), d.x() * 2)


def test_rows_written_at_once_are_told_and_photographed():
    a = np.arange(6.0).reshape(3, 2)
    v = dv.View(a)
    cached = (v * 2)._cached(1 << 20)
    for change, total in [
        (lambda: operator.setitem(v, 0, 5), 15),
        (lambda: operator.setitem(v, 1, v[0]), 24),
        (lambda: operator.iadd(v[2], 1), 29),
    ]:
        asked, _ = v._sum(), cached()
        change()
        assert asked() == total
        assert_same(cached(), a * 2)


def test_an_in_place_operator_that_fails_changes_no_row():
    a = np.arange(6)
    v = dv.View(a)
    with pytest.raises(TypeError):
        v[1:3] += 0.5
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        v[1:3] //= 0
    assert a.tolist() == [0, 1, 2, 3, 4, 5]
    v[1:3] += np.array([10, 20])
    assert a.tolist() == [0, 11, 22, 3, 4, 5]


def test_fields_of_the_same_memory_are_written_from_what_was_there():
    a = np.arange(12.0).reshape(6, 2)
    expected = a.copy()
    d = dv.View(x=a[:4], y=a[2:])
    rows = {"x": a[2:3].copy(), "y": a[0:1].copy()}
    d[1:2]._write({"x": dv.View(a)[2:3], "y": dv.View(a)[0:1]})
    expected[1], expected[3] = rows["x"], rows["y"]
    assert_same(a, expected)


def test_fields_that_lie_over_each_other_are_written_in_their_order():
    a = np.arange(8.0)
    d = dv.View(x=a[:6], y=a[2:])
    d[:2]._write({"x": dv.View(a)[2:4], "y": dv.View(a)[0:2]})
    assert a.tolist() == [2, 3, 0, 1, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (["a"], 3),
        (["a", "b"], 3),
        (["b", "a"], (3, 4)),
        (["a", "b"], np.arange(3)),
        (["a", "b"], np.arange(2)[:, None]),
        (["a", "b"], [1, 2, 3]),
        (["a", "b"], [(1, 2), (3, 4), (5, 6)]),
        (["a"], np.ones(3, [("a", "i8")])),
        (["a", "b"], (1, 2, 3)),
        (["a", "a"], 3),
        (["a"], np.arange(4)),
    ],
)
def test_columns_of_a_structured_array_are_written_as_numpy_does(names, value):
    one = np.zeros((2, 3), [("a", "i4"), ("b", "f8"), ("c", "U3")])
    for part in (slice(None), 1, (slice(None), slice(2, None, -1))):
        expected, got = one.copy(), one.copy()

        def change(table, part=part):
            table[part][names] = value

        _, refusal = attempt(change, expected)
        if refusal is None:
            change(dv.View(got))
        else:
            with pytest.raises(public_class(refusal)):
                change(dv.View(got))
        assert_same(got, expected)


def test_one_element_of_columns_is_written():
    table = np.zeros((2, 3), [("a", "i4"), ("b", "f8"), ("c", "U3")])
    columns = dv.View(table)[["a", "b"]]
    columns[1, 2] = 3
    columns[0] = dv.View([7, 8, 9])
    assert table["a"].tolist() == [[7, 8, 9], [0, 0, 3]] == table["b"].tolist()
    with pytest.raises(TypeError, match="without losing"):
        columns[1, 2] = 3.5
    with pytest.raises(TypeError, match="a record is written from"):
        dv.View(a=[1], b=[2])[:] = 3


# --- blocks that share what is written together ------------------------------------------------


def test_fields_of_records_in_a_file_are_changed_together(tmp_path):
    for _ in range(10):  # each time, threads would lose some rows
        path = tmp_path / "x.h5"
        table = np.zeros(5000, [("a", "f8"), ("b", "i4")])
        with h5py.File(path, "w") as file:
            file.create_dataset("t", data=table, chunks=(100,))
        a, b = np.arange(5000.0), np.arange(5000, dtype="i4")
        with sizes.set(file_bytes=1 << 12, block_bytes=1 << 12, streamed_elements=8):
            d = dv.open(path, "r+")
            d.t._write({"a": dv.View(a) + 1, "b": dv.View(b) + 1})
            d._close()
        with h5py.File(path) as file:
            found = file["t"][...]
        assert_same(found["a"], a + 1)
        assert_same(found["b"], b + 1)


def test_blocks_of_one_shard_are_changed_together(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    a = np.arange(12000.0).reshape(3000, 4)
    group.create_array("a", data=a, chunks=(125, 4), shards=(500, 4))
    with sizes.set(file_bytes=1 << 12, block_bytes=1 << 12, streamed_elements=8):
        d = dv.open(tmp_path / "x.zarr", "r+")
        for _ in range(5):
            d.a *= 2
    assert_same(np.asarray(group["a"][...]), a * 32)


ELEMENTS = [
    np.array("x"), np.array(3), np.array({"a": 1}, object), np.array("2020-01-01", "M8[D]"),
    np.fromiter([[1, 2]], object).reshape(()), 5, "text", [1, 2],
]  # fmt: skip


@pytest.mark.parametrize("value", ELEMENTS, ids=repr)
@pytest.mark.parametrize("key", [0, ..., (0, ...), (..., 0), (0, 1, ...), (1, 2), slice(1, 2)])
def test_an_object_is_written_as_numpy_does(key, value):
    for shape in ((3,), (2, 3), ()):
        expected = np.full(shape, None, object)
        own = expected.copy()
        if attempt(lambda array: array.__setitem__(key, value), expected)[1] is None:
            dv.View(own)[key] = value
            assert repr(own.tolist()) == repr(expected.tolist())


# --- a field that was only set ----------------------------------------------------------------


def a_folder_of_fields(tmp_path):
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", np.arange(4.0))
    return tmp_path


def test_who_only_sets_a_field_of_a_file_to_an_expression_is_told_at_the_end(tmp_path):
    path = a_folder_of_fields(tmp_path)
    dv.View([1.0])._save(tmp_path / "saved_before.npy")
    told = pytest.warns(RuntimeWarning, match=r"'x' was set .*; d\.x\[\.\.\.\] = other and d\.x -=")
    with told, dv.open(path, "r+") as d:
        d.x = d.x - d.x._mean()
        d.x = d.x * 2
        d.z = d.y + 1
    assert np.load(path / "x.npy").tolist() == [0, 1, 2, 3]

    def failing():
        with dv.open(path, "r+") as d:
            d.x = d.x - 1
            d.y[...] = np.zeros(3)

    with pytest.raises(ValueError, match="broadcast"):  # no more is told of it
        failing()


ONLY_SET = """
import sys
import dataview as dv

d = dv.open(sys.argv[1], "r+")
d.x = d.x - d.x._mean()
if sys.argv[2:]:
    d._close()
"""


@pytest.mark.parametrize("closes", [(), ("close",)])
def test_who_only_sets_a_field_of_a_file_is_told_when_a_script_ends(closes, tmp_path):
    child = python("-c", ONLY_SET, a_folder_of_fields(tmp_path), *closes)
    assert child.returncode == 0
    assert child.stderr.count("the field 'x' was set to an expression") == 1


def set_and_write(d, folder):
    d.x = d.x - 1
    d.y[...] = d.x


def set_and_save(d, folder):
    d.x = d.x - 1
    d._select("x")._save(folder / "saved.npz")


def set_to_another_dtype(d, folder):
    d.x = d.x._astype("f4")


def set_anew(d, folder):
    d.z = d.x - d.y
    d.x = d.y


def set_back(d, folder):
    d.x, old = d.x - 1, d.x
    d.x = old


def subtract(d, folder):
    d.x -= d.x._mean()


@pytest.mark.parametrize(
    "change", [set_and_write, set_and_save, set_to_another_dtype, set_anew, set_back, subtract]
)
def test_who_does_more_than_that_is_told_nothing(change, tmp_path):
    (tmp_path / "x").mkdir()
    with dv.open(a_folder_of_fields(tmp_path / "x"), "r+") as d:
        change(d, tmp_path)


def test_a_field_that_was_set_of_what_is_only_read_is_no_mistake(tmp_path):
    with dv.open(a_folder_of_fields(tmp_path)) as d:
        d.x = d.x - d.x._mean()
        assert d.x().tolist() == [-1.5, -0.5, 0.5, 1.5]


# ---------------------------------------------------------------- joined data of several dtypes

NARROW = {
    "a fraction": (np.arange(2), np.arange(2.0), 1.5),
    "a number below 0": (np.zeros(2, "u1"), np.zeros(2, "i8"), -1),
    "a large number": (np.zeros(2, "i2"), np.zeros(2, "i8"), 1 << 40),
    "a number as truth": (np.zeros(2, bool), np.zeros(2), 7),
    "a complex number": (np.zeros(2), np.zeros(2, complex), 2j),
    "a longer text": (np.array(["a", "b"]), np.array(["bbb", "c"]), "xyz"),
    "more bytes": (np.array([b"a", b"b"]), np.array([b"bbb", b"c"]), b"xyz"),
}
ELEMENT = {
    "by a number": lambda v, value: v.__setitem__(0, value),
    "a row": lambda v, value: v[0]._write(value),
    "in a loop": lambda v, value: next(iter(v))._write(value),
    "from a view": lambda v, value: v.__setitem__(0, dv.View(np.array(value))),
    "of a minibatch": lambda v, value: v._minibatches(2)[0].__setitem__(0, value),
}


@pytest.mark.parametrize("way", ELEMENT)
@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("make", [np.copy, LeastWritable], ids=["memory", "a store"])
def test_an_element_of_joined_data_is_never_cut_to_a_narrower_dtype(kind, way, make):
    narrow, wide, value = NARROW[kind]
    joined = dv.concat(dv.View(make(narrow)), dv.View(make(wide)))
    for v in (joined[0:1], joined):
        with pytest.raises((TypeError, ValueError, OverflowError)) as error:
            (ELEMENT[way] if v is joined else ELEMENT["by a number"])(v, value)
        assert "invalid literal" not in str(error.value)
    assert_same(joined(), np.concatenate([narrow, wide]))
    joined[2] = value  # where it has room
    assert joined[2]() == value
