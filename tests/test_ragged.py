"""Rows of different shapes, modelled by arrays of arrays; the cases B51 and B52."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import pickle
import warnings
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.index.sizes import sizes
from dataview.samples import padding
from oracle import assert_same, attempt, examples, fill, public_class, slices

# ---------------------------------------------------------------- the model


def objects(rows):
    """Give rows as an array of arrays, which is the model of a ragged view."""
    found = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        found[number] = row
    return found


def assert_rows(got, expected):
    """Assert that two arrays of arrays hold the same rows, of equal shapes and dtypes."""
    got = got() if isinstance(got, dv.View) else got
    assert (got.dtype, got.shape) == (np.dtype(object), (len(expected),))
    for own, other in zip(got, expected, strict=True):
        if other.dtype == np.dtype(object) and all(isinstance(part, np.ndarray) for part in other):
            assert_rows(own, other)
        else:
            assert_same(own, other)


def check_rows(view, model, action):
    """Do an action on a view and on its model: the same rows, the same row, or the same error."""
    expected, refusal = attempt(action, model)
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            action(view)
        return None
    got = action(view)
    if isinstance(expected, np.ndarray) and expected.dtype == object:
        assert_rows(got, expected)
        assert_facts(got, expected)
    else:
        assert_same(got(), expected)
    return got


def assert_facts(view, model):
    """Assert what a view tells of itself without reading."""
    assert len(view) == len(model)
    assert view._shape()[0] == len(model)
    assert view._size() == size_of(model)
    assert view._ndim() == len(view._shape())
    assert view._nbytes() == view._size() * view._dtype().itemsize
    assert "?" in repr(view)


def size_of(rows):
    """Give the number of elements of all rows."""
    return sum(size_of(row) if row.dtype == object else row.size for row in rows)


def shaped_rows(kind, lengths, dtype="i8", start=0):
    """Give rows of these lengths: sentences, vectors, images, spectrograms or documents."""
    counter = itertools.count(start)
    if kind == "documents":
        return objects(
            [objects(list(shaped_rows("sentences", [n, 1, 0][:n], dtype, n))) for n in lengths]
        )
    shapes = {
        "sentences": lambda n: (n,),
        "vectors": lambda n: (n, 2),
        "images": lambda n: (n, 1 + n % 3, 3),
        "spectrograms": lambda n: (2, n),
    }
    return objects([fill(shapes[kind](n), dtype, 7 * next(counter)) for n in lengths])


def made(kind, rows):
    """Give the view of rows by the way that suits them."""
    if kind == "documents":
        inner = [sentence for document in rows for sentence in document]
        words = np.concatenate([np.empty(0, int), *inner])
        sentences = dv.ragged(words, lengths=list(map(len, inner)))
        return dv.ragged(sentences, lengths=list(map(len, rows)))
    if kind == "sentences":
        return dv.ragged(np.concatenate([np.empty(0, int), *rows]), lengths=list(map(len, rows)))
    if kind == "spectrograms":
        values = np.concatenate([np.empty(0, int), *(row.ravel() for row in rows)])
        shapes = np.array([row.shape for row in rows], int).reshape(len(rows), 2)
        return dv.ragged(values, shapes=shapes)
    rest = {"vectors": (2,), "images": (3,)}[kind]
    values = np.concatenate([np.empty((0, *rest), int), *(row.reshape(-1, *rest) for row in rows)])
    if kind == "vectors":
        return dv.ragged(values, offsets=np.cumsum([0, *map(len, rows)]))
    shapes = np.array([row.shape[:2] for row in rows], int).reshape(len(rows), 2)
    return dv.ragged(values, shapes=shapes)


KINDS = ["sentences", "vectors", "images", "spectrograms", "documents"]
LENGTHS = st.lists(st.sampled_from([2, 0, 3, 1, 5]), max_size=6)


def row_keys(n):
    """Draw a key on so many rows."""
    number = st.integers(-n - 1, n)
    inside = st.integers(-n, n - 1) if n else st.nothing()
    numbers = st.lists(inside, max_size=5) if n else st.just([])
    return st.one_of(
        slices(n),
        number,
        numbers.map(lambda rows: np.array(rows, int)),
        numbers.filter(len),
        st.lists(st.booleans(), min_size=n, max_size=n).map(lambda mask: np.array(mask, bool)),
        st.just(...),
        slices(n).map(lambda part: (part,)),
    )


# ---------------------------------------------------------------- making


def test_lists_of_different_lengths_make_a_ragged_field():
    d = dv.View(tokens=[[1, 2], [3], []], label=[0, 1, 0])
    assert_rows(d.tokens, [np.array([1, 2]), np.array([3]), np.array([], int)])
    assert (d.tokens._shape(), d.tokens._dtype(), d.tokens._size()) == ((3, None), np.dtype(int), 3)
    assert repr(d.tokens) == "View (3, ?) int64, 24 B, memory\n  [1 2] [3] []"
    assert "(3, ?)" in d._repr_html_()
    assert "tokens  int64  (3, ?)" in repr(d)
    assert len(d) == len(d.tokens) == 3
    row = d.tokens[0]
    assert (row._shape(), row._size(), len(row)) == ((2,), 2, 2)
    assert_same(row(), np.array([1, 2]))
    assert_same(d[1].tokens(), np.array([3]))
    assert d.tokens[0, 1]() == 2
    assert d._asdict()["tokens"][1].tolist() == [3]


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        ([np.ones((2, 3, 3)), np.ones((1, 4, 3))], (2, None, None, 3)),
        ([np.ones((4, 2)), np.ones((4, 5))], (2, 4, None)),
        ([np.ones((2, 3)), np.ones((0, 3))], (2, None, 3)),
        ([[[1, 2], [3]], [[4]], []], (3, None, None)),
        ([[[1, 2], [3, 4]], [[5, 6]]], (2, None, 2)),
        ([["a", "bc"], ["d"]], (2, None)),
        ([[1, 2.5], []], (2, None)),
    ],
)
def test_any_axes_behind_the_rows_are_ragged(rows, shape):
    view = dv.View(x=rows).x
    assert view._shape() == shape
    for got, row in zip(view, rows, strict=True):
        if isinstance(row, np.ndarray):
            assert_same(got(), row)
        elif shape != (3, None, None):
            assert got().tolist() == row
        else:
            assert [part().tolist() for part in got] == row


def test_rows_of_one_length_are_ragged_where_that_is_said():
    assert dv.View([[1, 2], [3, 4]])._shape() == (2, 2)
    assert dv.ragged([[1, 2], [3, 4]])._shape() == (2, None)
    assert dv.ragged(np.eye(3))._shape() == (3, None)
    assert_rows(dv.ragged(dv.View(np.eye(2))), np.eye(2))


def test_flat_values_are_shared_and_offsets_are_not():
    values, offsets = np.arange(6), np.array([1, 3, 3, 6])
    view = dv.ragged(values, offsets=offsets)
    offsets[:] = 0
    values[1] = 9
    assert_rows(view, [np.array([9, 2]), np.array([], int), np.array([3, 4, 5])])
    view[0] = [7, 8]
    assert values.tolist() == [0, 7, 8, 3, 4, 5]
    assert view[2]()[0:2].base is not None


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"lengths": [1, 1]}, ValueError, "the rows have 2 values, and 3 were given"),
        ({"offsets": [0, 4]}, ValueError, "the rows have 4 values, and 3 were given"),
        ({"offsets": [0, 2, 1]}, ValueError, "ascend"),
        ({"offsets": []}, ValueError, "one more than there are rows"),
        ({"lengths": [4, -1]}, ValueError, "negative length: -1"),
        ({"lengths": [1.5, 1.5]}, TypeError, "an array of integers"),
        ({"shapes": [3]}, TypeError, "with 2 axes"),
        ({"lengths": [3], "offsets": [0, 3]}, TypeError, "give one of"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        dv.ragged([1, 2, 3], **options)


def test_what_makes_no_rows_is_refused():
    for values in ([[1, 2], 3], [[1, 2], "ab"], [np.ones(2), np.ones((2, 2))]):
        with pytest.raises(TypeError, match="no array can be made of this list"):
            dv.View(values)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[1, 2], None, [3]], "row 1 is no list.*None; an empty list.*Arrow.*dtype=object"),
        ([[1, 2], 3, [3]], "row 1 is no list.*3; a list of one value"),
        ([[[1], [2, 3]], [[4], None]], "row 1, element 1 is no list.*None"),
        ([[[1], [2, 3]], [], [5]], "row 2, element 0 is no list.*5"),
        (
            [np.ones((1, 2)), np.ones((0, 2, 3)), np.ones((2, 2, 3))],
            r"row 0 of shape \(1, 2\) and row 2 of shape \(2, 2, 3\).*row\[..., None\]",
        ),
    ],
)
def test_the_row_that_is_none_is_told_with_the_remedy(rows, told):
    samples = [{"t": row} for row in rows]
    for make in (lambda: dv.View(t=rows), lambda: dv.View({"t": rows}), lambda: dv.View(samples)):
        with pytest.raises(TypeError, match=f"^field 't': no array .*: .*{told}"):
            make()
    with pytest.raises((TypeError, ValueError), match=told):
        dv.ragged(rows)
    streamed = dv.View(lambda: iter([{"t": [1]}, {"t": rows}]))
    with pytest.raises(TypeError, match=f"^sample 1: field 't': .*{told}"):
        list(streamed)


def test_remedies_for_rows_that_are_none_work():
    assert dv.View(t=[[1, 2], [], [3]]).t._lengths()().tolist() == [2, 0, 1]
    assert dv.View(t=np.array([[1, 2], None, [3]], object)).t().tolist() == [[1, 2], None, [3]]
    assert dv.View(pa.table({"t": [[1, 2], None, [3]]})).t_mask().tolist() == [True, False, True]


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(data=st.data(), lengths=LENGTHS)
def test_row_keys_of_every_kind_keep_the_rows_ragged(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    view = made(kind, model)
    check_rows(view, model, lambda rows: rows[:])
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(row_keys(len(model)))
        view = check_rows(view, model, lambda rows, key=key: rows[key])
        model, refusal = attempt(lambda rows, key=key: rows[key], model)
        if refusal is not None or kind == "documents" or model.dtype != object:
            return


@pytest.mark.parametrize("kind", KINDS)
def test_keys_on_a_ragged_axis_are_refused_with_advice(kind):
    view = made(kind, shaped_rows(kind, [2, 3, 1]))
    for key in ((slice(None), 0), (slice(0, 2), slice(0, 1)), ([0, 1], [0, 0]), (0, 0, 0, 0, 0, 0)):
        with pytest.raises(IndexError):
            view[key]
    with pytest.raises(IndexError, match=r"differ in length, so.*view\[0\]\[:2\].*_pad.*_windows"):
        view[:, 0]
    assert_rows(view[:, :], view())


def test_keys_on_axes_behind_the_ragged_ones():
    model = shaped_rows("images", [2, 1, 3])
    view = made("images", model)
    for got in (view[..., 0], view[:, :, :, 0]):
        assert got._shape() == (3, None, None)
        assert_rows(got, objects([row[..., 0] for row in model]))
    assert_rows(view[::-1, ..., 1:], objects([row[..., 1:] for row in model[::-1]]))
    assert_same(view[1, 0, 0](), model[1][0, 0])


@pytest.mark.parametrize("kind", KINDS)
@examples(30)
@given(data=st.data(), lengths=LENGTHS.filter(len))
def test_orders_parts_and_joins_are_those_of_the_rows(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    n = len(model)
    d = dv.View(x=made(kind, model), y=np.arange(n))
    order = d.y._shuffled(3)()
    assert_rows(d._shuffled(3).x, model[order])
    assert_rows(d._filter(d.y > 1).x, model[np.arange(n) > 1])
    assert_rows(d._repeat(2).x, np.concatenate([model, model]))
    assert_rows(d._take([0, -1, 0]).x, model[[0, -1, 0]])
    cut = data.draw(st.integers(0, n))
    parts = d._split([cut], seed=data.draw(st.sampled_from([None, 1])))
    rows = np.concatenate([part.y() for part in parts])
    assert_rows(dv.concat(*parts).x, model[rows])
    part = data.draw(slices(n))
    whole = dv.concat(d[part], d, d[::-1])
    expected = np.concatenate([model[part], model, model[::-1]])
    assert_rows(whole.x, expected)
    assert_rows(np.concatenate([d[part].x, d.x, d[::-1].x]), expected)
    key = data.draw(slices(len(expected)))
    assert_rows(whole[key].x, expected[key])
    if n > 1:
        for train, test in d._folds(2):
            assert_rows(train.x, model[train.y()])
            assert_rows(test.x, model[test.y()])


def test_an_array_can_be_joined_with_ragged_rows():
    joined = dv.concat(dv.View([[1, 2], [3, 4]]), dv.View([[5], []]))
    assert_rows(joined, [np.array([1, 2]), np.array([3, 4]), np.array([5]), np.array([], int)])
    with pytest.raises(ValueError, match="rows to be joined are alike"):
        dv.concat(dv.View([[1], []]), dv.View([[[1, 2]], []]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
@pytest.mark.parametrize("sampler", ["linear", "permutation"])
def test_minibatches_are_ragged(kind, tail, sampler):
    model = shaped_rows(kind, [2, 0, 3, 1, 5, 2, 1])
    d = dv.View(x=made(kind, model), y=np.arange(7))
    batches = d._minibatches(3, tail=tail, sampler=sampler, seed=1)
    assert batches.x._shape() == (len(batches), 3, *d.x._shape()[1:])
    for number, batch in enumerate(batches):
        assert_rows(batch.x, model[batch.y()])
        assert_rows(batches.x[number], model[batch.y()])
        if kind != "documents":
            assert_same(batch[0].x(), model[batch.y()[0]])


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(data=st.data(), lengths=LENGTHS)
def test_pickles_and_copies_have_the_same_rows(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    part = data.draw(slices(len(model)))
    d = dv.View(x=made(kind, model), y=np.arange(len(model)))[part]
    for twin in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d), copy.copy(d), d._freeze()):
        assert_rows(twin.x, model[part])
    assert_rows(pickle.loads(pickle.dumps(d.x)), model[part])


def test_a_pickle_has_no_more_values_than_its_rows():
    view = dv.ragged(np.arange(10**6), lengths=np.full(10**5, 10))
    assert len(pickle.dumps(view[500:510])) < 3000
    assert len(pickle.dumps(view[[700, 500]])) < 20_000
    shuffled = view._shuffled(0)
    assert_rows(pickle.loads(pickle.dumps(shuffled[:5])), shuffled[:5]())


def test_what_is_frozen_does_not_change():
    d = dv.View(x=[[1, 2], [3], []])
    frozen = d[::-1]._freeze()
    d.x += 1
    assert_rows(frozen.x, [np.array([], int), np.array([3]), np.array([1, 2])])
    with pytest.raises(dv.ReadOnlyError):
        frozen.x[1] = 0
    with pytest.raises(dv.ReadOnlyError):
        d._readonly().x[0] = 0
    assert not d._readonly().x[0]().flags.writeable


def test_the_array_of_arrays_is_a_copy():
    values = np.arange(5)
    view = dv.ragged(values, lengths=[2, 3])
    view()[0][:] = 7
    view[:1]()[0][:] = 7
    assert values.tolist() == [0, 1, 2, 3, 4]


# ---------------------------------------------------------------- padding


SIDES = ["right", "left"]


def filled_up(model, value, widths, side="right", cut=None):
    """Give rows filled up to one shape by hand, one by one, and where they have data."""
    full, marks = [], []
    for row in model:
        if row.dtype == np.dtype(object):
            inner, marked = filled_up(row, value, widths[1:], side, cut)
            inner = np.array(inner, float).reshape(len(row), *widths[1:])
            marked = np.array(marked, bool).reshape(len(row), *widths[1:])
        else:
            inner, marked = row, np.ones(row.shape, bool)
        shape = (*widths, *inner.shape[len(widths) :])[: inner.ndim]
        out, mask = np.full(shape, value, float), np.zeros(shape, bool)
        here, there = [], []
        for length, room in zip(inner.shape, shape, strict=True):
            count = min(length, room)
            start = length - count if cut == "left" else 0
            here.append(slice(start, start + count))
            there.append(slice(room - count, None) if side == "left" else slice(0, count))
        out[tuple(there)], mask[tuple(there)] = inner[tuple(here)], marked[tuple(here)]
        full.append(out)
        marks.append(mask)
    return full, marks


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(data=st.data(), lengths=LENGTHS.filter(len))
def test_padding_fills_each_row_up(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    view = made(kind, model)
    limits = {name: data.draw(st.sampled_from([getattr(padding, name), 0])) for name in LIMITS}
    with mock.patch.multiple(padding, **limits):
        check_padding(data, view, model)


LIMITS = ("LONG", "BESIDE", "LARGEST_RUN")
"""The limits of the ways to fill up rows; 0 leaves one way out."""


def check_padding(data, view, model):
    """Compare a view that is filled up, in a way that is drawn, with rows filled up by hand."""
    side, cut = (data.draw(st.sampled_from(options)) for options in (SIDES, [None, *SIDES]))
    multiple = data.draw(st.integers(1, 3)) if cut is None else 1
    count = sum(n is None for n in view._shape()[1:])
    to = data.draw(st.integers(0, 4)) if cut is not None else None
    padded = view._pad(-1, to=to, side=side, multiple=multiple, truncate=cut or False, mask=True)
    shape = padded._shape()
    if to is not None:
        assert [n for n, m in zip(shape, view._shape(), strict=True) if m is None] == [to] * count
    last = max(axis for axis, n in enumerate(view._shape()) if n is None)
    full, marks = filled_up(model, -1, shape[1 : last + 1], side, cut)
    assert_same(padded(), np.array(full).astype(int).reshape(shape))
    mask = np.array(marks).reshape(shape)
    whole = [axis for axis, n in enumerate(view._shape()) if n is not None and axis]
    assert_same(padded.mask(), mask.any(axis=tuple(whole)) if mask.size else padded.mask())
    key = data.draw(slices(len(model)))
    assert_same(padded[key](), np.array(full).astype(int).reshape(shape)[key])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("longest", [1, 254, 255, 256, 257, 65_535, 65_536])
def test_rows_of_every_length_are_filled_up(longest, side):
    lengths = [longest, longest - 1, 0, 1, longest]
    values = np.arange(1, sum(lengths) + 1)
    full = np.zeros((5, longest), int)
    for line, row in zip(full, np.split(values, np.cumsum(lengths)[:-1]), strict=True):
        line[len(line) - len(row) if side == "left" else 0 :][: len(row)] = row
    assert_same(dv.ragged(values, lengths=lengths)._pad(0, side=side)(), full)


def test_one_value_whose_memory_has_any_step_is_filled_up():
    values = np.arange(10)[::5][:1]
    assert_same(dv.ragged(values, lengths=[1, 0])._pad(7)(), np.array([[0], [7]]))


def test_padding_brings_the_length_and_the_mask_beside_a_field():
    d = dv.View(tokens=[[1, 2], [3], []], label=[0, 1, 0])
    padded = d.tokens._pad(0, length=True, mask=True)
    assert padded._fields() == ("tokens_length", "tokens_mask")
    assert_same(padded(), np.array([[1, 2], [3, 0], [0, 0]]))
    assert_same(padded.tokens_length(), np.array([2, 1, 0]))
    assert_same(padded[::-1].tokens_mask(), np.array([[0, 0], [1, 0], [1, 1]], bool))
    whole = d._pad(0, length=True, mask=True)
    assert whole._fields() == ("tokens", "tokens_length", "tokens_mask", "label")
    assert_same(whole[1].tokens(), np.array([3, 0]))
    assert d._pad({"tokens": 7}).tokens[2]().tolist() == [7, 7]
    with pytest.raises(ValueError, match="a field tokens_length already"):
        dv.View(tokens=[[1], []], tokens_length=[1, 0])._pad(length=True)
    with pytest.raises(dv.FieldError, match="wrods"):
        d._pad({"wrods": 0})


def test_padding_has_the_dtype_that_holds_the_value():
    view = dv.View([[1, 2], [3]])
    assert view._pad(0.0)._dtype() == np.dtype(int)
    assert_same(view._pad(np.nan)(), np.array([[1, 2], [3, np.nan]]))
    assert_same(dv.View([["ab"], []])._pad("?")(), np.array([["ab"], ["?"]]))
    with pytest.raises(TypeError, match="no padding for samples of int64"):
        view._pad("?")
    with pytest.raises(OverflowError, match="does not fit into int8"):
        view._astype("i1")._pad(300)


@pytest.mark.parametrize("tail", [(), (2,)])
@pytest.mark.parametrize("dtype", [bool, "u1", "i8", "f4", "c8"])
def test_nothing_of_what_lies_beside_a_row_is_in_its_padding(dtype, tail):
    values = np.ones((12, *tail), dtype)
    if values.dtype.kind in "fc":
        values[:] = np.nan
    rows = dv.ragged(values, lengths=[5, 1, 4, 2])[[3, 0, 1, 2]]
    for side in ("left", "right"):
        inside = rows._pad(0, side=side, mask=True).mask()
        assert not rows._pad(0, side=side)()[~inside].any()
        assert (rows._pad(0, side=side)()[inside] != 0).all()  # NaN is not 0 either


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"to": 1}, ValueError, "row 0 has length 2, more than to=1; truncate=True cuts it"),
        ({"truncate": True}, ValueError, "needs a length to cut rows to"),
        ({"side": "top"}, ValueError, "side='top'"),
        ({"multiple": 0}, ValueError, "multiple= is a number from 1 on"),
        ({"to": 5, "multiple": 4}, ValueError, "to=5 is no multiple of 4"),
        ({"to": (3, 3)}, ValueError, "to= has 1 lengths more than"),
        ({"to": 2.5}, TypeError, "to= is a length"),
        ({"to": 3, "truncate": "middle"}, ValueError, "truncate= is True, 'left' or 'right'"),
    ],
)
def test_padding_that_does_not_fit_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        dv.View([[1, 2], [3]])._pad(0, **options)


def test_what_is_padded_is_read_only_and_sees_later_writes():
    view = dv.View([[1, 2], [3]])
    padded = view._pad(0)
    view[1] = 9
    assert_same(padded(), np.array([[1, 2], [9, 0]]))
    with pytest.raises(dv.ReadOnlyError, match="the result of _pad is computed"):
        padded[0] = 1
    with pytest.raises(TypeError, match="of one shape already"):
        dv.View(np.eye(2))._pad(0)
    assert_same(padded._mean(axis=1)(), np.array([1.5, 4.5]))
    assert_same((padded * 2)[1](), np.array([18, 0]))


def test_lengths():
    d = dv.View(
        tokens=[[1, 2], [3], []], images=[np.ones((2, 3)), np.ones((1, 5)), np.ones((0, 1))]
    )
    assert_same(d.tokens._lengths()(), np.array([2, 1, 0]))
    assert_same(d[::-1].images._lengths()(), np.array([[0, 1], [1, 5], [2, 3]]))
    assert_same(d._minibatches(3)[0].tokens._lengths()(), np.array([2, 1, 0]))
    by_length = [np.array([], int), np.array([3]), np.array([1, 2])]
    assert_rows(d.tokens._sorted(by=d.tokens._lengths()), by_length)
    with pytest.raises(TypeError, match="each has the same length"):
        dv.View(np.eye(2))._lengths()


def test_batches_are_padded_each_and_all_together():
    d = dv.View(tokens=[[1, 2, 3], [4], [], [5, 6]])
    batches = d._minibatches(2)
    assert_same(batches[1].tokens._pad(0)(), np.array([[0, 0], [5, 6]]))
    assert_same(batches.tokens._pad(0)[1](), np.array([[0, 0, 0], [5, 6, 0]]))
    assert_same(batches.tokens._lengths()(), np.array([[3, 1], [0, 2]]))


def test_the_values_stand_in_one_line():
    view = dv.View([[1, 2], [3], [], [4, 5]])
    assert_same(view._reshape(-1)(), np.array([1, 2, 3, 4, 5]))
    assert_same(view[[3, 0]]._reshape(2, 2)(), np.array([[4, 5], [1, 2]]))
    view[::-1]._reshape(-1)[:2] = 0
    assert_rows(view, [np.array([1, 2]), np.array([3]), np.array([], int), np.array([0, 0])])


# ---------------------------------------------------------------- loaders

TEXTS = objects([np.array(row, int) for row in ([1, 2], [3], [], [4, 5, 6], [7], [8, 9])])


def texts():
    return dv.View(tokens=made("sentences", TEXTS), y=np.arange(6))


@pytest.mark.parametrize("sampler", ["linear", "permutation", "uniform"])
@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "kind": "process"}])
def test_a_loader_hands_out_ragged_batches(sampler, options):
    with texts()._loader(4, sampler, seed=1, **options) as loader:
        for batch in loader:
            assert batch.tokens._shape() == (len(batch), None)
            assert_rows(batch.tokens, TEXTS[batch.y()])
            assert_rows(batch[::-1].tokens, TEXTS[batch.y()[::-1]])
            assert_same(batch.tokens._lengths()(), np.array([*map(len, TEXTS[batch.y()])]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_of_any_ragged_rows(kind):
    model = shaped_rows(kind, [2, 0, 3, 1])
    d = dv.View(x=made(kind, model), y=np.arange(4))
    for batch in d._loader(3, "permutation"):
        assert_rows(batch.x, model[batch.y()])
    for batch in d.x._loader(3):
        assert batch._shape() == (len(batch), *d.x._shape()[1:])
    by_epoch = d._loader(3, straddle=True, repeat=True)
    for _, batch in zip(range(4), by_epoch, strict=False):
        assert_rows(batch.x, model[batch.y()])


@pytest.mark.parametrize(
    "pad", [0, dv.Pad(-1, side="left", multiple=4, length=True, mask=True), dv.Pad(0, axis=0)]
)
def test_a_loader_pads_a_batch_as_collate_pads_its_samples(pad):
    d = texts()
    expected = dv.collate([{"tokens": row, "y": n} for n, row in enumerate(TEXTS)], pad=pad)
    for fields in ({"tokens": pad}, pad):
        batch = next(d._loader(6, pad=fields))
        assert list(batch._fields()) == list(expected)
        for name in expected:
            assert_same(batch[name](), expected[name])
    alone = dv.collate(list(TEXTS), pad=0)
    assert_same(next(d.tokens._loader(6, pad=0))(), alone)


def test_a_tail_that_is_filled_up_is_marked():
    batches = [*texts()._loader(4, tail="pad")]
    assert_rows(batches[1].tokens, TEXTS[[4, 5, 0, 1]])
    assert batches[1]._valid()().tolist() == [True, True, False, False]
    padded = [*texts()._loader(4, tail="pad", pad=0)]
    assert padded[1]._valid()().tolist() == [True, True, False, False]
    assert padded[1].tokens().tolist() == [[7, 0], [8, 9], [1, 2], [3, 0]]


def test_forms_of_ragged_batches():
    d = texts()
    tokens, y = next(d._loader(3, fields=("tokens", "y")))
    assert_rows(tokens, TEXTS[:3])
    assert_same(y, np.arange(3))
    assert_rows(next(d._loader(3, fields="tokens")), TEXTS[:3])
    assert_rows(next(d._loader(3, fields=["tokens"]))["tokens"], TEXTS[:3])


def test_a_transform_of_ragged_rows():
    def turned(sample):
        return {"tokens": sample.tokens()[::-1], "n": len(sample.tokens)}

    batch = next(texts()._loader(6, transform=turned))
    assert_rows(batch.tokens, objects([row[::-1] for row in TEXTS]))
    assert batch.n().tolist() == [2, 1, 0, 3, 1, 2]
    padded = next(texts()._loader(6, transform=turned, pad={"tokens": 0}))
    assert padded.tokens[:2]().tolist() == [[2, 1, 0], [3, 0, 0]]
    own = next(texts()._loader(6, collate=lambda rows: dv.collate(rows, pad="ragged")))
    assert_rows(own.tokens, TEXTS)


def test_a_row_that_fails_leaves_the_others_ragged():
    def broken(sample):
        if sample.y() == 1:
            raise ValueError("bad")
        return sample

    batch = next(texts()._loader(3, transform=broken, on_error="skip"))
    assert_rows(batch.tokens, TEXTS[[0, 2]])


def test_functions_of_ragged_rows():
    d = texts()
    doubled = d._map(lambda sample: sample.tokens() * 2, shape=None, dtype=int)
    assert [row().tolist() for row in doubled] == [(row * 2).tolist() for row in TEXTS]
    assert_same(
        d._map(lambda sample: len(sample.tokens), shape=(), dtype=int)(), d.tokens._lengths()()
    )
    kept = d._filter(lambda sample: len(sample.tokens) > 1)
    assert_rows(kept._probe().tokens, TEXTS[[0, 3, 5]])
    samples = dv.View(lambda number: {"x": TEXTS[number], "y": number}, _length=6)
    batch = next(samples._loader(6, pad="ragged"))
    assert_rows(batch.x, TEXTS)
    assert_same(batch.y(), np.arange(6))
    stream = dv.View(lambda: iter({"x": row} for row in TEXTS))
    assert_rows(next(stream._loader(6, pad="ragged")).x, TEXTS)


# ---------------------------------------------------------------- statistics and arithmetic

STATISTICS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "var": np.var, "std": np.std, "min": np.min,
    "max": np.max, "any": np.any, "all": np.all,
}  # fmt: skip


def words_of(row):
    """Give all words of a row, of a document those of its sentences."""
    if row.dtype == np.dtype(object):
        return np.concatenate([np.empty(0, int), *row])
    return row


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statistic", STATISTICS)
@examples(12)
@given(data=st.data(), lengths=LENGTHS.filter(len))
def test_a_statistic_of_each_row_is_one_number_a_row(kind, statistic, data, lengths):
    lengths = [max(n, 1) for n in lengths]
    model = shaped_rows(kind, lengths)
    view = made(kind, model)
    axes = tuple(axis - 1 for axis, n in enumerate(view._shape()) if n is None)
    axes = (0,) if kind == "documents" else axes
    rows = list(map(words_of, model))
    expected = np.array([STATISTICS[statistic](row, axis=axes) for row in rows])
    found = getattr(view, f"_{statistic}")(axis=1)
    assert found._shape() == expected.shape
    key = data.draw(slices(len(model)))
    for got, wanted in ((found[key](), expected[key]), (found(), expected)):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    whole = getattr(view, f"_{statistic}")()
    behind = tuple(range(view._ndim()))
    kept = getattr(view, f"_{statistic}")(keepdims=True)
    flat = np.concatenate([row.ravel() for row in rows])
    np.testing.assert_allclose(whole(), STATISTICS[statistic](flat), rtol=1e-12)
    assert (whole._shape(), kept._shape()) == ((), tuple(1 for _ in behind))


@pytest.mark.parametrize("kind", ["argmin", "argmax", "nanargmin", "nanargmax"])
@pytest.mark.parametrize("rows", [[[[1, 2], [3]], [[4]]], [[[1.0, 2.0], [np.nan]], [[4.0]]]])
def test_positions_over_several_ragged_axes_are_refused(kind, rows):
    find = getattr(dv.ragged(rows), f"_{kind}")
    with pytest.raises(TypeError, match=f"{kind} is taken over one axis"):
        find(axis=1)
    if kind.startswith("nan"):
        flat = np.concatenate([line for row in rows for line in row])
        assert find()() == getattr(np, kind)(flat)


def test_statistics_of_sentences():
    view = dv.View(x=[[3.0, 1.0], [2.0], [5.0, 4.0, 9.0]]).x
    assert_same(view._mean(axis=1)(), np.array([2.0, 2.0, 6.0]))
    assert_same(view._mean(axis=-1, keepdims=True)(), np.array([[2.0], [2.0], [6.0]]))
    assert_same(view._argmin(axis=1)(), np.array([1, 0, 1]))
    assert_same(view._quantile(0.5, axis=1)(), np.array([2.0, 2.0, 5.0]))
    assert_same(view._quantile([0, 1], axis=1)(), np.array([[1.0, 2.0, 4.0], [3.0, 2.0, 9.0]]))
    assert view._argmax()() == 5
    assert np.sum(view)() == 24
    assert_same(np.max(view, axis=1)(), np.array([3.0, 2.0, 9.0]))
    assert_same((view > 2)._sum(axis=1)(), np.array([1, 0, 3]))


def test_statistics_along_axes_behind_the_ragged_ones():
    model = shaped_rows("images", [2, 1, 3], "f8")
    view = dv.View(x=list(model)).x
    brightness = view._mean(axis=3)
    assert brightness._shape() == (3, None, None)
    assert_rows(brightness, objects([row.mean(axis=2) for row in model]))
    with np.errstate(invalid="ignore"):
        assert_same(view._max(axis=(1, 2))(), np.array([row.max(axis=(0, 1)) for row in model]))
        assert_same(view._max(axis=(1, 2, 3))(), np.array([row.max() for row in model]))


def test_statistics_that_are_refused():
    view = dv.View([[1, 2], [], [3]])
    for axis in (0, (0, 1)):
        with pytest.raises(dv.RaggedError, match=r"axis=1.*axis=None.*_pad.*_map"):
            view._sum(axis=axis)
    assert_same(view._sum(axis=1)(), np.array([3, 0, 3]))
    for verb in ("_min", "_argmax"):
        with pytest.raises(ValueError, match="row 1 has none"):
            getattr(view, verb)(axis=1)
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(view._mean(axis=1)()[1])


WHERE = ["sum", "prod", "any", "all", "mean", "var", "std", "max", "min"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statistic", WHERE)
@examples(10)
@given(data=st.data(), lengths=LENGTHS)
def test_statistics_where_a_mask_is_true(kind, statistic, data, lengths):
    model = shaped_rows(kind, lengths)
    view = made(kind, model)
    of_each = data.draw(st.booleans())
    mask = np.arange(len(model)) % 2 == 0 if of_each else view % 3 > 0
    words = list(map(words_of, model))
    chosen = [np.full(w.shape, n % 2 == 0) if of_each else w % 3 > 0 for n, w in enumerate(words)]
    options = {"initial": -4} if statistic in ("max", "min") else {}
    axes = tuple(axis - 1 for axis, n in enumerate(view._shape()) if n is None)
    axes = (0,) if kind == "documents" else axes
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        function = getattr(np, statistic)
        expected = [
            function(w, axis=axes, where=c, **options) for w, c in zip(words, chosen, strict=True)
        ]
        found = getattr(view, f"_{statistic}")(axis=1, where=mask, **options)
        np.testing.assert_allclose(found(), np.array(expected).reshape(found._shape()), rtol=1e-12)
        line = np.concatenate([np.empty(0, int), *(w.ravel() for w in words)])
        marks = np.concatenate([np.empty(0, bool), *(c.ravel() for c in chosen)])
        whole = getattr(view, f"_{statistic}")(where=mask, keepdims=True, **options)
        expected = function(line, where=marks, **options)
        assert whole._shape() == (1,) * view._ndim()
        np.testing.assert_allclose(whole().ravel()[0], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statistic", ["min", "max"])
@examples(10)
@given(lengths=LENGTHS, keepdims=st.booleans())
def test_extremes_of_empty_rows_are_the_initial_value(kind, statistic, lengths, keepdims):
    model = shaped_rows(kind, lengths)
    view = made(kind, model)
    verb, function = getattr(view, f"_{statistic}"), getattr(np, statistic)
    axes = tuple(axis - 1 for axis, n in enumerate(view._shape()) if n is None)
    axes = (0,) if kind == "documents" else axes
    expected = [function(words_of(row), axis=axes, initial=5) for row in model]
    found = verb(axis=1, initial=5, keepdims=keepdims)
    assert found._ndim() == (view._ndim() if keepdims else np.ndim(expected[:1] or found()))
    assert_same(found(), np.array(expected, int).reshape(found._shape()))
    line = [word for row in model for word in words_of(row).ravel().tolist()]
    assert_same(verb(initial=5)(), function(np.array(line, int), initial=5))
    assert_same(verb(initial=5, axis=1)[::-1](), verb(initial=5, axis=1)()[::-1])


def test_masks_of_ragged_statistics_that_do_not_fit():
    view = dv.View([[1, 2], [], [3]])
    with pytest.raises(ValueError, match=r"row 2 of the data has \(1,\), of the mask \(2,\)"):
        view._sum(axis=1, where=dv.View([[True, False], [], [True, True]]))
    with pytest.raises(dv.RaggedError, match=r"rows of shape \(3, \?\) take.*got \(2,\)"):
        view._mean(where=np.array([True, False]))
    with pytest.raises(TypeError, match="a mask of bools"):
        view._sum(where=view)
    with pytest.raises(ValueError, match="where= needs initial="):
        view._min(axis=1, where=view > 1)
    assert_same(view._sum(axis=1, where=[[True, False], [], [True]])(), np.array([1, 0, 3]))
    assert view._sum(where=False)() == 0


def test_a_statistic_of_rows_is_a_photograph():
    d = dv.View(x=[[1.0, 3.0], [5.0]])
    mean, total = d.x._mean(axis=1), d.x._sum()
    d.x -= mean
    assert_rows(d.x, [np.array([-1.0, 1.0]), np.array([0.0])])
    assert (mean().tolist(), total()) == ([2.0, 5.0], 9.0)
    assert_same(pickle.loads(pickle.dumps(mean))(), np.array([2.0, 5.0]))


def test_a_statistic_of_many_rows_is_taken_in_blocks():
    model = shaped_rows("sentences", [3, 0, 5, 1] * 20)
    view = made("sentences", model)
    with sizes.set(part_bytes=64):
        assert_same(view._sum(axis=1)(), np.array([row.sum() for row in model]))


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(data=st.data(), lengths=LENGTHS.filter(len))
def test_numbers_and_one_value_a_row_keep_the_rows(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    n = len(model)
    d = dv.View(x=made(kind, model), y=np.arange(n) + 1)
    key = data.draw(slices(n))

    def each(function, rows=model):
        return objects(
            [
                each(lambda row, _, f=function, m=m: f(row, m), row)
                if row.dtype == np.dtype(object)
                else function(row, m)
                for m, row in enumerate(rows)
            ]
        )

    scaled, shifted = d.x * 2 - 1, d[key].x + d[key].y
    assert scaled._shape() == d.x._shape()
    assert_rows(scaled[key], each(lambda row, m: row * 2 - 1)[key])
    assert_rows(shifted, each(lambda row, m: row + m + 1)[key])
    assert_rows((d.x + d.y)[key], each(lambda row, m: row + m + 1)[key])
    assert_rows(np.where(d.x > 3, 1, 0)[key], each(lambda row, m: np.where(row > 3, 1, 0))[key])
    assert_rows(d.x._astype("f4"), each(lambda row, m: row.astype("f4")))
    assert_rows(-d.x[::-1], each(lambda row, m: -row)[::-1])


def test_one_value_a_row_may_have_an_axis_for_each_of_the_rows():
    view = dv.View([[1.0, 3.0], [5.0]])
    means = view._mean(axis=1, keepdims=True)
    for centred in (view - means, view - view._mean(axis=1), view - [2.0, 5.0]):
        assert_rows(centred, [np.array([-1.0, 1.0]), np.array([0.0])])
    images = dv.View([np.ones((1, 2, 3)), np.ones((2, 1, 3))])
    assert (images * [[[[1, 2, 3]]]])[1, 0, 0]().tolist() == [1, 2, 3]
    assert (images * [[1, 2, 3], [4, 5, 6]])[1, 0, 0]().tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    "compute",
    [
        lambda v: v + v,
        lambda v: v * dv.View([[1, 1], [1], [1]]),
        lambda v: v - np.arange(2),
        lambda v: v < np.ones((3, 2)),
        lambda v: np.where(v > 1, v, 0),
        lambda v: v @ np.eye(2),
        lambda v: np.transpose(v),
        lambda v: v._width(),
    ],
)
def test_other_arithmetic_is_refused_with_the_ways_out(compute):
    with pytest.raises(dv.RaggedError, match=r"_pad\(value\).*_map\(function\)"):
        compute(dv.View([[1, 2], [3], []]))


def test_distinct_values_and_descriptions_are_of_values_and_lengths():
    d = dv.View(tokens=[[3, 1], [3], [], [7, 3, 1]], y=[0, 1, 0, 1])
    assert d.tokens._unique()().tolist() == [1, 3, 7]
    assert d.tokens._unique(counts=True).count().tolist() == [2, 3, 1]
    assert np.unique(d.tokens).tolist() == [1, 3, 7]
    assert d.tokens._lengths()._unique()().tolist() == [0, 1, 2, 3]
    table = d._describe()
    assert list(table) == ["tokens", "tokens_length", "y"]
    assert (table["tokens"]["count"], table["tokens"]["mean"]) == (6, 3.0)
    assert (table["tokens_length"]["min"], table["tokens_length"]["max"]) == (0, 3)
    assert list(d.tokens[:1]._describe()) == list(d.tokens._describe()) == ["", "length"]


# ---------------------------------------------------------------- comparisons


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(data=st.data(), lengths=LENGTHS)
def test_equality_is_of_the_rows(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    view, twin = made(kind, model), made(kind, copy.deepcopy(model))
    key = data.draw(slices(len(model)))
    assert view[key] == twin[key]
    assert bool(view[key] != twin[key]) is False
    assert_rows((view == twin)[key], compared(model, model)[key])
    if view._size():
        twin._reshape(-1)[-1] = -5
        assert view != twin
        assert bool(view == twin) is False
        assert_rows((view != twin), objects([~row for row in compared(model, twin())]))
    longer = dv.concat(twin, twin[:1]) if len(model) else made(kind, shaped_rows(kind, [1]))
    assert bool(view == longer) is False
    assert view != longer


def compared(rows, others):
    """Give where the elements of rows are equal, row by row."""
    return objects(
        [
            compared(row, other) if row.dtype == np.dtype(object) else row == other
            for row, other in zip(rows, others, strict=True)
        ]
    )


def test_equality_with_what_stands_beside():
    d = dv.View(x=[[1, 2], [3], []], y=[0, 1, 2])
    assert d.x == [[1, 2], [3], []]
    assert d.x == d.x()
    assert d.x != [[1, 2], [3], [4]]
    assert d == {"x": [[1, 2], [3], []], "y": [0, 1, 2]}
    assert d == dv.View(x=[[1, 2], [3], []], y=[0, 1, 2])
    assert d != dv.View(x=[[1, 2], [3], [4]], y=[0, 1, 2])
    assert d[1] == {"x": [3], "y": 1}
    assert d[:2] == d[[0, 1]]
    assert dv.ragged([[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    assert bool(d.x == np.ones((3, 2))) is False
    assert_rows(d.x == 3, [np.array([False] * 2), np.array([True]), np.array([], bool)])
    assert_rows(d.x == d.y, [np.array([False] * 2), np.array([False]), np.array([], bool)])


def test_unequal_lengths_have_a_truth_and_no_values():
    found = dv.View([[1, 2], [3]]) == dv.View([[1], [2, 3]])
    assert not found
    assert (dv.View([[1, 2], [3]]) != dv.View([[1], [2, 3]])) is not None
    assert bool(dv.View([[1, 2], [3]]) != dv.View([[1], [2, 3]]))
    with pytest.raises(ValueError, match="do not broadcast"):
        found()


def test_the_truth_is_lost_by_any_further_operation():
    view = dv.View([[1, 2], [3]])
    for found in (~(view == view), (view == [[1, 2], [3]])[:1], view > 0, view):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(found)


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(data=st.data(), lengths=LENGTHS.filter(len))
def test_rows_are_written_by_rows_of_their_shape(kind, data, lengths):
    model = shaped_rows(kind, lengths)
    view = made(kind, copy.deepcopy(model))
    n = len(model)
    key = data.draw(st.one_of(slices(n), st.permutations(range(n)).map(lambda p: np.array(p)[:2])))
    value = objects([each(row, lambda one, n=n: one * 0 + 5 + n) for n, row in enumerate(model)])
    given_rows = data.draw(st.sampled_from([list, dv.ragged, lambda rows: rows]))
    if kind == "documents" and given_rows is not list:
        given_rows = functools.partial(made, kind)
    view[key] = given_rows(value[key])
    expected = model.copy()
    expected[key] = value[key]
    assert_rows(view, expected)
    view[key] = 3
    expected[key] = objects([each(row, lambda one: one * 0 + 3) for row in expected[key]])
    assert_rows(view, expected)
    part = view[key]
    part += 1
    expected[key] = objects([each(row, lambda one: one + 1) for row in expected[key]])
    assert_rows(view, expected)


def each(row, function):
    """Give what a function makes of a row, of each sentence of a document."""
    if row.dtype == np.dtype(object):
        return objects([function(one) for one in row])
    return function(row)


def test_writes_in_all_their_ways():
    values = np.arange(6)
    d = dv.View(x=dv.ragged(values, lengths=[2, 1, 0, 3]), y=np.arange(4))
    d.x[0] = [7, 8]
    d.x[3][1:] = 0
    assert values.tolist() == [7, 8, 2, 3, 0, 0]
    d.x = [[1, 2], [3], [], [4, 5, 6]]
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    d.x += d.y
    assert values.tolist() == [1, 2, 4, 7, 8, 9]
    d.x[1:] *= 2
    d.x[[3, 0]] -= [1, 2]
    assert values.tolist() == [-1, 0, 8, 13, 15, 17]
    d[0] = {"x": [5, 6], "y": 9}
    d[1:3] = {"x": [[4], []], "y": 0}
    assert (values.tolist(), d.y().tolist()) == ([5, 6, 4, 13, 15, 17], [9, 0, 0, 3])
    d.x._write(d.x[:] * 2)
    assert values.tolist() == [10, 12, 8, 26, 30, 34]
    for batch in d._minibatches(3):
        batch.x[...] = 1
    assert values.tolist() == [1] * 6
    np.add(d.x, 1, out=d.x)
    assert values.tolist() == [2] * 6
    joined = dv.concat(d[2:], d[:2])
    joined.x[-2] = [8, 9]
    assert values.tolist() == [8, 9, 2, 2, 2, 2]


def test_a_write_that_does_not_fit_changes_nothing():
    values = np.arange(4)
    view = dv.ragged(values, lengths=[2, 1, 1])
    for key, value, text in (
        (slice(None), [[1, 2], [3], []], r"row 2 has \(1,\), the value \(0,\)"),
        (slice(None), [[1, 2], [3]], "2 rows cannot be written to 3 rows"),
        (0, [1, 2, 3], "cannot be broadcast"),
        (slice(None), np.ones(2), "one value for each row"),
    ):
        with pytest.raises(ValueError, match=text):
            view[key] = value
    for compute in (lambda: view.__iadd__([[1, 2], [3], []]), lambda: view.__iadd__(0.5)):
        with pytest.raises((TypeError, ValueError)):
            compute()
    with pytest.raises(dv.ReadOnlyError):
        (view + 1)[0] = 1
    with pytest.raises(dv.ReadOnlyError):
        dv.View(view, _readonly=True)[:] = 1
    assert values.tolist() == [0, 1, 2, 3]


def test_values_in_a_file_are_read_by_rows_and_written_through(tmp_path):
    np.save(tmp_path / "words.npy", np.arange(10))
    view = dv.ragged(dv.open(tmp_path / "words.npy", mode="r+"), lengths=[4, 0, 6])
    assert_rows(view[::-1], [np.arange(4, 10), np.array([], int), np.arange(4)])
    view[0] = 7
    view[[2]] += 1
    assert np.load(tmp_path / "words.npy").tolist() == [7, 7, 7, 7, 5, 6, 7, 8, 9, 10]
    assert view._pad(-1)[0]().tolist() == [7, 7, 7, 7, -1, -1]
    again = pickle.loads(pickle.dumps(view))
    assert_rows(again, view())


# ---------------------------------------------------------------- windows


@examples(60)
@given(
    n=st.integers(0, 9),
    size=st.integers(1, 5),
    step=st.integers(1, 4),
    rest=st.sampled_from([(), (2,)]),
    data=st.data(),
)
def test_windows_are_those_of_numpy(n, size, step, rest, data):
    rows = fill((n, *rest), "i8")
    view = dv.View(rows)._windows(size, step)
    if n < size:
        assert view._shape() == (0, size, *rest)
        return
    model = np.lib.stride_tricks.sliding_window_view(rows, size, axis=0)
    model = np.moveaxis(model, -1, 1)[::step]
    assert_same(view(), model.copy())
    key = data.draw(slices(len(model)))
    assert_same(view[key](), model[key].copy())
    view[-1] = -1
    assert rows[(len(model) - 1) * step :][:size].tolist() == np.full((size, *rest), -1).tolist()


@examples(40)
@given(lengths=LENGTHS, size=st.integers(1, 3), step=st.integers(1, 3), data=st.data())
def test_windows_of_ragged_rows_stay_within_a_row(lengths, size, step, data):
    model = shaped_rows("sentences", lengths)
    key = data.draw(slices(len(model)))
    view = made("sentences", model)[key]._windows(size, step)
    windows = [
        row[start : start + size]
        for row in model[key]
        for start in range(0, len(row) - size + 1, step)
    ]
    assert_same(view(), np.array(windows, int).reshape(len(windows), size))
    assert_same(view[::-1](), np.array(windows, int).reshape(len(windows), size)[::-1])


def test_windows_of_all_fields_are_aligned():
    d = dv.View(x=np.arange(6), y=np.arange(12).reshape(6, 2))._windows(3, 2)
    assert (d.x._shape(), d.y._shape(), len(d)) == ((2, 3), (2, 3, 2), 2)
    assert_same(d[1].y(), np.arange(4, 10).reshape(3, 2))
    batch = next(d._loader(2))
    assert_same(batch.x(), np.array([[0, 1, 2], [2, 3, 4]]))


def test_windows_that_cannot_be_cut():
    for options in ((0,), (2, 0), (1.5,)):
        with pytest.raises(ValueError, match="a number of rows from 1 on"):
            dv.View(np.arange(5))._windows(*options)
    with pytest.raises(TypeError, match="no rows"):
        dv.View(5)._windows(1)
    with pytest.raises(IndexError, match="one ragged axis"):
        dv.View([np.ones((2, 3)), np.ones((1, 4))])._windows(2)
    with pytest.raises(dv.UndeclaredError):
        dv.View(lambda: iter([1, 2]))._windows(2)


# ---------------------------------------------------------------- the cases


def test_b51_padding():
    found = dv.collate([np.array([1, 2]), np.array([0.5])], pad=0)
    assert_same(found, np.array([[1.0, 2.0], [0.5, 0.0]]))
    assert_same(dv.View([[1, 2], [0.5]])._pad(0)(), np.array([[1.0, 2.0], [0.5, 0.0]]))
    for filled in (dv.collate([[1, 2], [3]], pad=np.nan), dv.View([[1, 2], [3]])._pad(np.nan)()):
        assert_same(filled, np.array([[1.0, 2.0], [3.0, np.nan]]))
    lists, arrays = [[1, 2], [3]], [np.array([1, 2]), np.array([3])]
    assert_same(dv.collate(lists, pad=0), dv.collate(arrays, pad=0))
    assert_same(dv.View(lists)._pad(0)(), dv.View(arrays)._pad(0)())
    d = dv.View(x=lists, y=[0, 1])
    batch = next(d._loader(2, pad={"x": dv.Pad(0, length=True, mask=True)}))
    assert (batch.x_length().tolist(), batch.x_mask().tolist()) == (
        [2, 1],
        [[True] * 2, [True, False]],
    )
    with pytest.raises(ValueError, match="batch is empty"):
        dv.collate([], pad=0)
    assert dv.View(lists)[:0]._pad(0)._shape() == (0, 0)
    with pytest.raises(ValueError, match=r"field 'x': sample 1 has shape \(1,\), sample 0 has"):
        dv.collate([{"x": [1, 2]}, {"x": [3]}])
    with pytest.raises(ValueError, match=r"sample 1 has the keys .*'y'.*sample 0 has the keys"):
        dv.collate([{"x": [1]}, {"x": [3], "y": 1}], pad="ragged")


def test_b52_lists_and_tuples():
    assert_same(dv.collate([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    one, other = dv.collate([(1, 2), (3, 4)])
    assert (one.tolist(), other.tolist()) == ([1, 3], [2, 4])
    words, label = dv.collate([([1, 2], "a"), ([3], "bc")], pad="ragged")
    assert_rows(words, [np.array([1, 2]), np.array([3])])
    assert_same(label, np.array(["a", "bc"]))
    pair = collections.namedtuple("pair", "words label")
    found = dv.collate([pair([1], 0), pair([2, 3], 1)], pad="ragged")
    assert type(found) is pair
    assert_rows(found.words, [np.array([1]), np.array([2, 3])])


def test_empty_ragged_rows_are_filled_up_to_their_other_axes():
    x = dv.ragged(np.zeros(16), shapes=[(3, 2), (5, 2)])
    assert x[:0]._pad(0)().shape == (0, 0, 2) and x[:0]._pad(0, to=5)().shape == (0, 5, 2)


def test_rows_without_width_keep_their_lengths():
    d = dv.View(a=[np.zeros((2, 0)), np.zeros((3, 0))], y=[0, 1])
    assert d[0].a().shape == (2, 0) and d[1].a().shape == (3, 0)
    assert d.a._lengths()().tolist() == [2, 3]
    assert d.a._pad(0)().shape == (2, 3, 0)


@pytest.mark.parametrize("rest", [(0,), (2, 0)])
def test_rows_without_width_are_written(rest):
    rows = [np.zeros((length, *rest)) for length in (1, 2, 3)]
    v = dv.ragged(np.zeros((6, *rest)), lengths=[1, 2, 3])
    v += 1
    v *= v
    v[1:] -= np.zeros(2)
    v[:2] = rows[:2]
    v[:] = v + 1
    v._write(rows)
    v[2] = rows[2]
    assert_rows(v, rows)
    for unlike in (rows[::-1], [np.zeros((1, *rest))] * 3):
        with pytest.raises(ValueError, match=r"row \d has \(\d,\), the value \(\d,\)"):
            v[:] = unlike
    with pytest.raises(ValueError, match=r"\(2,\)"):
        v += np.zeros(2)


def test_functions_are_mapped_over_ragged_rows_and_filter_them():
    v = dv.ragged([[1, 2], [3], []])
    assert v._map(lambda row: row().sum())().tolist() == [3, 3, 0]
    assert v._map(lambda row: len(row()), shape=(), dtype=int)[::-1]().tolist() == [0, 1, 2]
    d = dv.View(t=v, y=[0, 1, 2])
    kept = d._filter(lambda sample: len(sample.t) > 0)
    assert [row.tolist() for row in kept.t()] == [[1, 2], [3]]
    assert kept.y().tolist() == [0, 1]


def test_padding_of_a_record_reaches_its_batches_and_refuses_dense_fields():
    d = dv.View(t=[[1, 2], [3], [], [4]], y=np.arange(4))
    batches = d._minibatches(2)._pad(0)
    assert batches[0].t().tolist() == [[1, 2], [3, 0]]
    with pytest.raises(TypeError, match="'y' are of one shape already"):
        d._pad({"y": 0})


# ---------------------------------------------------------------- samples of functions and streams


class Rows:
    """Gives rows by number or in order, and counts how often each was made."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.made = collections.Counter()

    def __call__(self, number):
        self.made[number] += 1
        row = self.rows[number]
        nested = row.dtype == object and all(isinstance(part, np.ndarray) for part in row)
        return {"x": [part.tolist() for part in row] if nested else row, "y": number}

    def of_row(self, row):
        return self(int(row()))

    def in_order(self):
        return map(self, range(len(self.rows)))

    def once(self, what):
        """Assert that what is asked makes each sample once."""
        self.made.clear()
        found = what()
        assert set(self.made.values()) <= {1}
        return found


BY_NUMBER = {
    "function": lambda rows, **facts: dv.View(rows, _length=len(rows.rows), **facts),
    "map": lambda rows: dv.View(np.arange(len(rows.rows)))._map(rows.of_row),
}
IN_ORDER = {
    "factory": lambda rows, **facts: dv.View(rows.in_order, **facts),
    "iterator": lambda rows, **facts: dv.View(rows.in_order(), **facts),
    "map of a stream": lambda rows: dv.View(rows.in_order)._map(lambda s: {"x": s.x, "y": s.y}),
}
DECLARED = {"sentences": (None,), "vectors": (None, 2), "images": (None, None, 3)}
MORE = LENGTHS.map(lambda lengths: [2, 3, *lengths])  # the first ones differ, and so tell


def check_whole(rows, view, model, like):
    """Assert that what takes all samples is that of ragged rows in memory, in one pass."""
    assert_rows(rows.once(lambda: view()._freeze().x), model)
    assert_same(rows.once(lambda: view().x._lengths()()), like._lengths()())
    padded = rows.once(lambda: view()._pad(-1, mask=True))
    assert_same(padded.x(), like._pad(-1)())
    assert_same(padded.y(), np.arange(len(model)))
    assert_same(padded.x_mask(), like._pad(-1, mask=True).mask())
    assert_same(rows.once(lambda: view().x._mean()()), like._mean()())
    assert_same(rows.once(lambda: view().x._sum(axis=1)()), like._sum(axis=1)())
    assert_same(rows.once(lambda: view().x._unique()()), like._unique()())
    described = rows.once(lambda: view()._describe())
    assert described["x_length"]["mean"] == dv.View(x=like)._describe()["x_length"]["mean"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", BY_NUMBER)
@examples(8)
@given(data=st.data(), lengths=MORE)
def test_samples_of_a_function_that_differ_in_length(source, kind, data, lengths):
    model = shaped_rows(kind, lengths)
    rows = Rows(model)
    view = BY_NUMBER[source](rows)._probe()
    assert set(rows.made) <= {0, 1, len(model) // 2, len(model) - 1}
    assert (view.x._shape(), view.x._dtype()) == (made(kind, model)._shape(), np.dtype(int))
    assert (len(view.x), view.x._ndim()) == (len(model), made(kind, model)._ndim())
    rows.made.clear()
    assert all([repr(view), dir(view), hasattr(view.x, "y") is False])
    assert not rows.made
    key = data.draw(row_keys(len(model)))
    expected, refusal = attempt(lambda rows: rows[key], model)
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            view.x[key]
        assert not rows.made
    elif isinstance(key, int):
        assert_rows(objects([rows.once(view.x[key]), view[key].x()]), [expected, expected])
    else:
        assert_rows(rows.once(view.x[key]), expected)
        assert sum(rows.made.values()) <= len(expected)
        assert_rows(view[key].x, expected)
    check_whole(rows, lambda: view, model, made(kind, model))
    rows.once(lambda: [assert_rows(b.x, model[b.y()]) for b in view._loader(2)])
    assert len(rows.made) == len(model)
    rows.once(lambda: [assert_rows(b.x, model[b.y()]) for b in view._loader(3, workers=2)])
    for number, batch in enumerate(view._minibatches(3, sampler="permutation", seed=1)):
        assert_rows(batch.x, model[batch.y()])
        assert_rows(view._minibatches(3).x[number], model[3 * number : 3 * number + 3])
    assert_rows(view._shuffled(1).x, model[view.y._shuffled(1)()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", IN_ORDER)
@examples(5)
@given(lengths=MORE)
def test_samples_of_a_stream_that_differ_in_length(source, kind, lengths):
    model = shaped_rows(kind, lengths)
    rows, like = Rows(model), made(kind, model)

    def view():
        found = IN_ORDER[source](rows)._probe()
        if source != "iterator":  # whose first samples are kept
            rows.made.clear()
        return found

    assert view().x._shape() == (None, *like._shape()[1:])
    assert_rows(objects([sample.x() for sample in view()]), model)
    assert_rows(objects([sample() for sample in view().x]), model)
    assert_rows(view()[1:4].x, model[1:4])
    for batches in (view()._loader(2), view()._minibatches(2)):
        found = [row for batch in batches for row in batch.x()]
        assert_rows(objects(found), model)
    check_whole(rows, view, model, like)


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("source", ["function", "factory", "iterator"])
@examples(10)
@given(lengths=LENGTHS)
def test_samples_of_which_lengths_are_declared_to_differ(source, kind, lengths):
    model = shaped_rows(kind, lengths, "i4")
    rows = Rows(model)
    facts = {"x": (DECLARED[kind], ">f8"), "y": int}
    view = {**BY_NUMBER, **IN_ORDER}[source](rows, _fields=facts)
    assert not rows.made
    assert (view.x._shape()[1:], view.x._dtype()) == (DECLARED[kind], np.dtype(">f8"))
    assert_rows(view._freeze().x, objects([row.astype(">f8") for row in model]))


def test_a_map_may_declare_that_lengths_differ():
    rows = Rows(shaped_rows("sentences", [0, 0, 0, 4]))
    view = dv.View(np.arange(4))._map(rows.of_row, shape={"x": (None,), "y": ()}, dtype="i8")
    assert not rows.made
    assert_rows(rows.once(view.x), objects(rows.rows))
    assert_same(rows.once(view._asdict)["y"], np.arange(4))
    with pytest.raises(ValueError, match="a function of blocks makes rows of one shape"):
        dv.View(np.arange(4))._map_batches(rows.of_row, shape=(None,), dtype=int)


@pytest.mark.parametrize("dtype", [object, "U3", ">i4", "f2"])
def test_samples_of_any_dtype_that_differ_in_length(dtype):
    model = objects([np.array(values, dtype) for values in ([], ["1", "2"], ["3"], [])])
    for make in (BY_NUMBER["function"], IN_ORDER["factory"]):
        view = make(Rows(model))._probe()
        assert view.x._dtype() == np.dtype(dtype)
        assert_rows(view._freeze().x, model)
        assert_rows(objects([row for batch in view._loader(3) for row in batch.x()]), model)


def test_a_sample_that_is_unlike_the_others_is_named():
    def odd(number):
        return {"x": np.zeros((2, 2)) if number == 5 else np.zeros(number), "y": number}

    for view in (dv.View(odd, _length=9), dv.View(lambda: map(odd, range(9)))):
        with pytest.raises(
            ValueError, match=r"sample 5, field 'x': the shape is \(2, 2\); .*\(\?,\)"
        ):
            view._probe().x._lengths()()
    texts = dv.View(lambda n: ["abcdef"] * n if n == 3 else ["a"] * n, _length=9)
    with pytest.raises(TypeError, match=r"sample 3: the dtype is <U6; .*_fields= declares"):
        texts._probe()()
    assert texts._probe()[:3]()[2].tolist() == ["a", "a"]
    declared = dv.View(odd, _length=9, _fields={"x": ((None,), float), "y": int})
    with pytest.raises(ValueError, match=r"sample 5.*field 'x'.* is \(2, 2\); declared is \(\?,\)"):
        declared.x()
    with pytest.raises(ValueError, match="a length that differs is None"):
        dv.View(odd, _length=9, _fields={"x": ((-1,), int)})


def test_a_sample_that_fails_does_not_fail_the_probe():
    def broken(number):
        if number in (1, 8):
            raise ValueError("no data")
        return np.arange(number)

    view = dv.View(broken, _length=9)._probe()
    assert view._shape() == (9, None)
    with pytest.raises(ValueError, match=r"sample 8.*no data"):
        view[8]()
    for source in (lambda: map(broken, range(9)), map(broken, range(9))):
        stream = iter(dv.View(source)._probe())
        next(stream)
        with pytest.raises(ValueError, match="no data"):
            next(stream)


def test_what_takes_lengths_that_are_unknown_names_the_ways_out():
    view = dv.View(np.arange, _length=9)._probe()
    for ask in (lambda: view + 1, view._size):
        with pytest.raises(
            ValueError, match=r"\(9, \?\).*known once its sample is made; _freeze\(\)"
        ):
            ask()
    with pytest.raises(IndexError, match=r"view\[0\]\[:2\]"):
        view[:, 0]
    assert_rows(view[2:4, :], [np.arange(2), np.arange(3)])
    assert_rows(view[[3, 1, 3]], [np.arange(3), np.arange(1), np.arange(3)])
    with pytest.raises(dv.ReadOnlyError):
        view[2] = 0


def test_ragged_samples_inside_others():
    view = dv.View(lambda n: {"a": {"x": np.arange(n)}, "y": n}, _length=5)._probe()
    assert_rows(view.a.x, [np.arange(n) for n in range(5)])
    batch = next(view._loader(4))
    assert_rows(batch.a.x, [np.arange(n) for n in range(4)])


def test_a_ragged_function_goes_to_processes():
    view = pickle.loads(pickle.dumps(dv.View(np.arange, _length=6)._probe()))
    with view._loader(4, workers=1, kind="process") as loader:
        assert [batch().tolist() for batch in map(padded_with_zeros, loader)] == [
            [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]],
            [[0, 1, 2, 3, 0], [0, 1, 2, 3, 4]],
        ]


def padded_with_zeros(batch):
    """Give a batch filled up."""
    return batch._pad(0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["function", "map", "factory", "iterator"])
@examples(2)
@given(lengths=MORE)
def test_the_truth_of_samples_that_differ_in_length_is_that_of_their_data(source, kind, lengths):
    model = shaped_rows(kind, lengths)
    changed = copy.deepcopy(model)
    first = changed[0][0] if kind == "documents" else changed[0]
    first.flat[0] = -5

    def view(rows):
        return {**BY_NUMBER, **IN_ORDER}[source](Rows(rows))._probe()

    like = dv.View(x=made(kind, model), y=np.arange(len(model)))
    for same in (lambda: like, lambda: view(copy.deepcopy(model))):
        assert bool(view(model) == same()) is bool(same() == view(model)) is True
        assert bool(view(model) != same()) is bool(same().x != view(model).x) is False
    for rows in (shaped_rows(kind, [*lengths[:-1], lengths[-1] + 1]), changed, model[:-1]):
        for unlike in (made(kind, rows), view(rows).x):
            assert bool(view(model).x == unlike) is False
        for unlike in (made(kind, rows), view(rows).x):
            assert bool(unlike != view(model).x) is True


def test_the_truth_of_samples_beside_arrays_and_lists():
    view = dv.View(np.arange, _length=4)._probe()
    assert view == [[], [0], [0, 1], [0, 1, 2]]
    assert view == view()
    assert view() == view
    assert view[1:3] == [[0], [0, 1]]
    assert view[2] == [0, 1]
    assert view[2] != [0, 1, 2]
    assert bool(view == np.zeros((4, 2))) is False
    assert bool(np.zeros(4) == view) is False
    assert view._minibatches(2) == view._freeze()._minibatches(2)
    assert view._minibatches(2) != view._minibatches(3)
    alike = dv.View(lambda n: np.ones(3), _length=4, _fields=((None,), float))
    assert alike == np.ones((4, 3))
    assert dv.View(np.ones((4, 3))) == alike
    assert alike != np.ones((4, 2))
    with pytest.raises(dv.RaggedError, match=r"\(4, \?\) differ in length.*_freeze\(\)"):
        (view == view)()
    with pytest.raises(dv.RaggedError, match=r"\(4, \?\) differ in length.*_freeze\(\)"):
        bool(view == 3)


def test_the_truth_of_samples_that_were_not_looked_at():
    one, same, other = (dv.View(f, _length=3) for f in (int, abs, lambda n: n + n))
    assert one == same
    assert bool(one == other) is False
    assert one == [0, 1, 2]
    assert bool(dv.View(range(3)) == other) is False


ASKED = {
    "mean": lambda x: x._mean(),
    "sums": lambda x: x._sum(axis=1),
    "one": lambda x: x._max(keepdims=True),
    "least": lambda x: x._min(axis=1, initial=-3),
    "median": lambda x: x._median(),
    "quantiles": lambda x: x._quantile([0, 0.5], axis=1),
    "deviation": lambda x: x._nanstd(),
    "of numpy": lambda x: np.mean(x, axis=1),
    "distinct": lambda x: x._unique(),
    "counts": lambda x: x._counts(),
    "labels": lambda x: x._labels(),
}


def full(kind, count=6):
    """Give rows that all have values, such that each has an extreme."""
    return shaped_rows(kind, ([2, 3, 1, 5] * count)[:count])


def watched(rows, source="function"):
    """Give samples that were probed, and of which none counts as made."""
    view = BY_NUMBER[source](rows)._probe()
    rows.made.clear()
    return view


@pytest.mark.parametrize("kind", ["sentences", "images", "documents"])
@pytest.mark.parametrize("source", BY_NUMBER)
@pytest.mark.parametrize("name", ASKED)
def test_a_statistic_of_samples_makes_them_when_it_is_needed(name, source, kind):
    model = full(kind)
    rows, like = Rows(model), made(kind, model)
    found = ASKED[name](watched(rows, source).x)
    expected = ASKED[name](like)
    assert found._dtype() == expected._dtype()
    assert name in ("distinct", "counts", "labels") or found._shape() == expected._shape()
    repr(found), pickle.loads(pickle.dumps(found))
    assert not rows.made
    assert_same(rows.once(found), expected())
    assert found._shape() == expected._shape()
    assert len(rows.made) == len(model)
    rows.made.clear()
    assert_same(found(), expected())
    assert not rows.made


def test_statistics_of_samples_share_a_pass():
    rows = Rows(full("sentences"))
    x = watched(rows).x
    several = [ASKED[name](x) for name in ("mean", "sums", "median", "least")]
    expected = [ASKED[name](x._freeze()) for name in ("mean", "sums", "median", "least")]
    rows.made.clear()
    for found, own in zip(several, expected, strict=True):
        assert_same(found(), own())
    assert set(rows.made.values()) == {1}
    x._mean()()
    assert set(rows.made.values()) == {2}


def test_a_statistic_of_samples_is_a_photograph():
    d = dv.View(n=np.array([1, 2, 3]))
    x = d._map(lambda s: np.arange(s.n()))._probe()
    sums, again = x._sum(axis=1), x._sum(axis=1)
    d.n += 1
    assert_same(sums(), np.array([0, 1, 3]))
    assert_same(again(), np.array([0, 1, 3]))
    assert_same(x._sum(axis=1)(), np.array([1, 3, 6]))


PADDED = {
    "to the longest": ({}, 5),
    "to a length": ({"to": 7}, 7),
    "at the left": ({"side": "left", "multiple": 4}, 8),
    "cut": ({"to": 2, "truncate": True}, 2),
}


@pytest.mark.parametrize("source", BY_NUMBER)
@pytest.mark.parametrize("name", PADDED)
def test_padded_samples_are_made_when_they_are_needed(name, source):
    options, length = PADDED[name]
    model = full("sentences", 10)
    rows, like = Rows(model), made("sentences", model)
    view = watched(rows, source)
    padded = view._pad(-1, **options, mask=True, length=True)
    expected = like._pad(-1, **options, mask=True, length=True)
    known = length if "to" in options else None
    assert padded._fields() == ("x", "x_length", "x_mask", "y")
    assert padded.x._shape() == padded.x_mask._shape() == (10, known)
    assert padded.x_length._shape() == (10,)
    assert (padded.x._dtype(), padded.x_mask._dtype()) == (np.dtype(int), np.dtype(bool))
    repr(padded), len(padded), padded[3], padded[2:5].x, pickle.loads(pickle.dumps(padded))
    assert not rows.made
    assert_same(padded.x_length[2:4](), expected.length[2:4]())
    assert set(rows.made) == {2, 3}
    rows.made.clear()
    assert_same(padded.x[4](), expected[4]())
    assert padded.x._shape() == padded.x_mask._shape() == (10, length)
    assert sum(rows.made.values()) == (1 if known else 10)
    for key in (slice(2, 6), slice(None, None, -3), [5, 1, 5], 7):
        rows.made.clear()
        assert_same(padded[key].x(), expected[key]())
        assert_same(padded.x_mask[key](), expected.mask[key]())
        assert sum(rows.made.values()) <= 8
    rows.made.clear()
    assert_same(padded._asdict()["x"], expected())
    assert set(rows.made.values()) == {1}
    rows.made.clear()
    assert [row.x().tolist() for row in padded] == expected().tolist()
    assert set(rows.made.values()) == {1}
    rows.made.clear()
    batches = list(padded._loader(4))
    assert [row for batch in batches for row in batch.x().tolist()] == expected().tolist()
    assert set(rows.made.values()) == {1}
    known = padded._probe()
    assert_same((known.x * 2)[:, :2](), (expected * 2)[:, :2]())


def test_the_longest_of_all_fields_are_found_in_one_pass():
    rows = Rows(full("sentences", 9))

    def pair(number):
        row = rows(number)["x"]
        return {"a": row, "b": {"c": np.concatenate([row, row])}}

    padded = dv.View(pair, _length=9)._probe()._pad(0)
    rows.made.clear()
    assert (padded.a[1]._probe()._shape(), padded.b.c[1]._probe()._shape()) == ((5,), (10,))
    assert set(rows.made.values()) == {1}


def test_nested_samples_are_padded_when_they_are_needed():
    for kind in ("documents", "images", "spectrograms"):
        model = full(kind)
        rows, like = Rows(model), made(kind, model)
        padded = watched(rows).x._pad(-1, mask=True)
        assert not rows.made
        assert padded._shape() == watched(rows).x._shape()
        assert_same(padded(), like._pad(-1)())
        assert_same(padded.x_mask(), like._pad(-1, mask=True).mask())
        assert_same(watched(rows).x._lengths()(), like._lengths()())


def test_padded_samples_and_lengths_see_later_data():
    rows = Rows(full("sentences"))
    x = watched(rows).x
    padded, given, lengths = x._pad(-1), x._pad(-1, to=6), x._lengths()
    for show in (padded, given, lengths):
        show()
    rows.rows[2] = np.array([7, 7])
    assert padded[2]().tolist() == [7, 7, -1, -1, -1]
    assert given()[2].tolist() == [7, 7, -1, -1, -1, -1]
    assert lengths()[2] == 2
    rows.rows[2] = np.arange(8)
    with pytest.raises(ValueError, match=r"row 2 has length 8, more than 5.*_pad\(\) was asked"):
        padded()
    with pytest.raises(ValueError, match=r"row 2 has length 8, more than to=6; truncate=True"):
        given()
    assert x._pad(-1)().shape == (6, 8)


def test_samples_are_padded_to_the_longest_of_each_epoch():
    def crop(row, rng):
        return np.arange(int(rng.integers(1, 30)))

    padded = dv.View(np.arange(8))._map(crop, seed=3)._probe()._pad(-1)
    loader = padded._loader(8, repeat=True)
    widths = [batch().shape[1] for batch in itertools.islice(loader, 3)]
    assert len(set(widths)) > 1
    assert widths[0] == padded().shape[1]


def test_what_needs_the_length_of_padded_samples_asks_for_it():
    padded = dv.View(np.arange, _length=5)._probe()._pad()
    assert repr(padded) == "View (5, ?) int64, computed"
    for ask in (lambda: padded + 1, lambda: padded[:, 0], lambda: padded._mean()):
        with pytest.raises(dv.UndeclaredError, match=r"\(5, \?\).*_probe\(\).*to="):
            ask()
    assert padded._probe()._mean()() == 0.5
    with pytest.raises(ValueError, match=r"to=5 is no multiple of 2"):
        dv.View(np.arange, _length=5)._probe()._pad(to=5, multiple=2)


def test_one_sample_and_samples_without_end_are_padded():
    view = dv.View(lambda n: {"x": np.arange(n), "y": n}, _length=5)._probe()
    assert_same(view[2]._pad(-1).x(), np.arange(2))
    assert view.x._pad()._ndim() == 2
    endless = dv.View(lambda n: np.arange(n % 7), _length=np.inf)._probe()
    assert_same(endless._pad(-1, to=4)[3:5](), np.array([[0, 1, 2, -1], [0, 1, 2, 3]]))
    assert_same(endless._lengths()[5:9](), np.array([5, 6, 0, 1]))
    for ask in (endless._pad, endless._mean, lambda: endless._sum(axis=1)):
        with pytest.raises(dv.StreamError, match="never ends; slice it first"):
            ask()


# ---------------------------------------------------------------- NumPy's functions

OF_ALL_VALUES = {
    "histogram": lambda x: np.histogram(x, bins=3, range=(0, 40)),
    "edges": lambda x: np.histogram_bin_edges(x, 4),
    "bincount": lambda x: np.bincount(x, minlength=3),
    "ptp": np.ptp,
    "mean": np.mean,
    "unique": lambda x: np.unique(x, return_counts=True),
}
OF_EACH_VALUE = {
    "isin": lambda x: np.isin(x, [7, 14, 15]),
    "not in": lambda x: np.isin(x, dv.View([7, 14, 15]), invert=True),
    "digitize": lambda x: np.digitize(x, [3, 9]),
    "interp": lambda x: np.interp(x, [0, 40], [0, 1]),
    "clip": lambda x: np.clip(x, 3, 9),
}
REFUSED = {
    "sort": np.sort,
    "argsort": lambda x: np.argsort(x, axis=0),
    "cumsum": np.cumsum,
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "diff": np.diff,
    "nonzero": np.nonzero,
    "where": lambda x: np.where(x > 1),
    "pad": lambda x: np.pad(x, 1),
    "average": np.average,
    "norm": np.linalg.norm,
    "stack": lambda x: np.stack([x, x]),
    "partition": lambda x: np.partition(x, 1),
    "union1d": lambda x: np.union1d([1], x),
    "add.reduce": np.add.reduce,
    "add.accumulate": np.add.accumulate,
    "add.outer": lambda x: np.add.outer(x, 1),
    "average of weights": lambda x: np.average(np.ones(6), weights=x),
}


def in_line(rows):
    """Give the values of rows of any kind in one line."""
    return np.concatenate([in_line(r) if r.dtype == object else r.ravel() for r in rows])


@pytest.mark.parametrize("kind", ["sentences", "images", "documents"])
@pytest.mark.parametrize("source", [None, *BY_NUMBER])
def test_numpy_functions_of_ragged_values(source, kind):
    model = full(kind)
    view = made(kind, model) if source is None else BY_NUMBER[source](Rows(model))._probe().x
    for function in OF_ALL_VALUES.values():
        found, expected = function(view), function(in_line(model))
        several = isinstance(found, tuple)
        for own, other in zip(
            *((found, expected) if several else ([found], [expected])), strict=True
        ):
            assert_same(own() if isinstance(own, dv.View) else own, other)
    width = 3 if kind == "images" else 1
    each = [np.ptp(in_line([row]).reshape(-1, width), axis=0) for row in model]
    assert_same(np.ptp(view, axis=1)().reshape(-1, width), np.array(each))
    for name, function in OF_EACH_VALUE.items():
        if source is None or name != "clip":
            assert_rows(function(view), each_of(model, function))


def each_of(rows, function):
    """Give what a function makes of each row."""
    found = [each_of(row, function) if row.dtype == object else function(row) for row in rows]
    return objects([part() if isinstance(part, dv.View) else part for part in found])


@pytest.mark.parametrize("name", REFUSED)
def test_numpy_functions_of_ragged_rows_are_refused_with_advice(name):
    view = dv.View([[3, 1, 2], [5, 4], [], [9]])
    made_later = dv.View(np.arange, _length=4)._probe()
    for rows, advice in ((view, r"_pad\(value\).*_map\(function\)"), (made_later, r"_freeze\(\)")):
        with pytest.raises(dv.RaggedError, match=rf"\(4, \?\).*{advice}"):
            REFUSED[name](rows)


def test_numpy_functions_of_whole_rows():
    view = dv.View([[3, 1], [5], []])
    assert_rows(np.roll(view, 1), [np.array([], int), np.array([3, 1]), np.array([5])])
    assert_rows(np.repeat(view[:1], 2), [np.array([3, 1])] * 2)
    assert_rows(np.copy(view), [np.array([3, 1]), np.array([5]), np.array([], int)])
    assert np.array_equal(view, [[3, 1], [5], []])


@pytest.mark.parametrize("source", BY_NUMBER)
def test_functions_of_samples_see_their_lengths(source):
    rows = Rows(full("sentences", 9))
    view = BY_NUMBER[source](rows)._probe()
    lengths = np.array([2, 3, 1, 5, 2, 3, 1, 5, 2])
    assert_same(rows.once(lambda: view._map(lambda s: len(s.x))()), lengths)
    assert_same(rows.once(lambda: view._map(lambda s: s.x._shape()[0])()), lengths)
    assert_same(view.x._map(len)(), lengths)
    long = objects([row for row in rows.rows if len(row) > 2])
    for kept in (view._filter(lambda s: len(s.x) > 2), view._filter(lambda s: s.x._size() > 2)):
        assert_same(kept.y(), np.flatnonzero(lengths > 2))
        assert_rows(kept.x, long)
        assert_rows(kept._probe().x, long)
        assert_rows(objects([sample.x() for sample in kept]), long)
    assert_rows(view.x._filter(lambda row: len(row) > 2), long)
    assert_rows(view._filter(view.x._lengths() > 2).x, long)
    unprobed = dv.View(rows, _length=9)
    assert len(list(unprobed._filter(lambda s: len(s.x) > 2))) == len(long)


@pytest.mark.parametrize("source", BY_NUMBER)
@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_joined_as_their_rows(source, kind):
    model, other = full(kind, 3), full(kind, 5)
    rows = [Rows(model), Rows(other)]
    views = [BY_NUMBER[source](each)._probe() for each in rows]
    memory = dv.View(x=made(kind, model), y=np.arange(3))
    for each in rows:
        each.made.clear()
    joined = dv.concat(*views, memory)
    whole = objects([*model, *other, *model])
    assert joined._fields() == ("x", "y")
    assert (joined.x._shape(), joined.x._dtype()) == ((11, *views[0].x._shape()[1:]), np.dtype(int))
    assert not rows[0].made
    assert not rows[1].made
    assert_rows(joined.x[2:5], whole[2:5])
    assert sum(rows[0].made.values()) == 1
    assert sum(rows[1].made.values()) == 2
    assert_rows(joined.x, whole)
    assert_rows(joined[::-3].x, whole[::-3])
    assert_same(joined.y(), np.array([*range(3), *range(5), *range(3)]))
    assert_rows(objects([sample.x() for sample in joined]), whole)
    assert_rows(joined._freeze().x, whole)
    like = dv.concat(made(kind, model), made(kind, other), made(kind, model))
    assert_same(joined.x._lengths()(), like._lengths()())
    assert_same(joined.x._pad(-1)(), like._pad(-1)())
    assert_same(joined.x._sum()(), like._sum()())
    assert joined.x == like
    for batch in joined._loader(4):
        assert set(batch._fields()) == {"x", "y"}
    assert_rows(pickle.loads(pickle.dumps(joined)).x[-1:], whole[-1:])


def test_samples_that_are_joined_are_alike():
    one = dv.View(np.arange, _length=4)._probe()
    texts = dv.View(lambda n: ["a"] * n, _length=4)._probe()
    pairs = dv.View(lambda n: np.zeros((n, 2)), _length=4)._probe()
    floats = dv.View(lambda n: np.arange(n * 1.5), _length=4)._probe()
    assert dv.concat(one, floats)._dtype() == np.dtype(float)
    with pytest.raises(ValueError, match=r"view 1 have shape \(\?, 2\), those of view 0 \(\?,\)"):
        dv.concat(one, pairs)
    with pytest.raises(TypeError, match=r"view 1 .*<U1.*view 0 .*int64"):
        dv.concat(one, texts)


def test_what_needs_all_samples_of_a_stream_says_how_to_keep_them():
    stream = dv.View(lambda: ({"x": n, "y": n % 2} for n in range(6)))._probe()
    other = dv.View(x=np.arange(6), z=np.arange(6))
    asks = (
        stream.y._codes, stream.y._labels, stream.y._unique, lambda: stream._join(other, on="x"),
        lambda: other._join(stream, on="x"), lambda: dv.concat(stream, stream),
        lambda: stream._sorted(by="y"),
    )  # fmt: skip
    for ask in asks:
        with pytest.raises(TypeError, match=r"view\[:n\]\._freeze\(\)"):
            ask()
    assert_same(stream[:9]._freeze()._join(other, on="x").z(), np.arange(6))


# ---------------------------------------------------------------- what tables do with ragged rows


def as_lists(row):
    """Give a row as lists in lists, whose text is compared."""
    return [as_lists(part) for part in row] if row.dtype == object else row.tolist()


@pytest.mark.parametrize("kind", KINDS)
@examples(10)
@given(lengths=LENGTHS, repeated=st.lists(st.integers(0, 5), max_size=6))
def test_rows_that_stand_once(kind, lengths, repeated):
    whole = shaped_rows(kind, lengths)
    numbers = [number % len(whole) for number in repeated] if len(whole) else []
    view, model = made(kind, whole)[numbers], whole[numbers]
    seen, first = set(), []
    for number, row in enumerate(model):
        text = (row.shape, str(as_lists(row)))
        if text not in seen:
            first.append(number)
        seen.add(text)
    assert_rows(view._drop_duplicates(), model[first])
    d = dv.View(x=view, y=np.zeros(len(model)), z=np.arange(len(model)))
    assert_same(d._drop_duplicates(by=("x", "y")).z(), np.array(first, int))


@pytest.mark.parametrize("kind", KINDS)
@examples(10)
@given(lengths=LENGTHS, value=st.integers(0, 40))
def test_whether_a_value_is_in_ragged_rows(kind, lengths, value):
    model = shaped_rows(kind, lengths)
    values = [v for row in model for v in words_of(row).ravel().tolist()]
    assert (value in made(kind, model)) is (value in values)


def test_what_is_missing_in_ragged_rows():
    nan = np.nan
    d = dv.View(x=[[1.0, nan], [], [nan], [2.0]], y=[0, 1, 2, 3])
    assert_same(d._dropna().y(), np.array([1, 3]))
    assert_rows(d.x._dropna(), [np.array([], float), np.array([2.0])])
    full = [np.array([1.0, 9.0]), np.array([], float), np.array([9.0]), np.array([2.0])]
    assert_rows(d.x._fillna(9), full)
    full[0][1], full[2][0] = 0, 2
    assert_rows(d.x._fillna(d.y), full)
    assert_rows(d.x[::-1]._fillna(d.y[::-1]), full[::-1])
    images = [np.ones((2, 1, 3)), np.ones((1, 2, 3))]
    images[0][1, 0, 2] = nan
    assert_rows(dv.View(x=images).x._dropna(), images[1:])


def test_a_ragged_cache_names_the_field_and_the_way_out():
    d = dv.View(x=[[1], []], y=[0, 1])
    made_later = dv.View(lambda n: {"x": [n] * n, "y": n}, _length=3)._probe()
    for view in (d, made_later):
        with pytest.raises(TypeError, match=r"field 'x': rows that differ.*_freeze.*_drop\(\)"):
            view._cached(1000)


def test_a_ragged_mask_is_no_key():
    d = dv.View(x=[[1, 5], [], [1]], y=[0, 1, 2])
    for key in (d.x > 1, (d.x > 1, "y")):
        with pytest.raises(IndexError, match=r"d\[\(d.x > 1\)._any\(axis=1\)\]"):
            d[key]
    assert_same(d[(d.x > 1)._any(axis=1)].y(), np.array([0]))


@pytest.mark.parametrize("kind", KINDS)
def test_ragged_rows_are_joined_by_key(kind):
    model = shaped_rows(kind, [2, 0, 3])
    other = dv.View(k=[5, 6, 7], x=made(kind, model))
    joined = dv.View(k=[7, 5, 7])._join(other, on="k")
    assert_rows(joined.x, model[[2, 0, 2]])
    joined = dv.View(k=[7, 1, 5])._join(other, on="k", missing="mask")
    assert_same(joined.k_mask(), np.array([True, False, True]))
    assert_rows(joined.x[::2], model[[2, 0]])
    assert joined.x[1]._size() == 0


def test_the_plan_of_ragged_rows_tells_what_is_read():
    view = dv.View(x=[[1, 2], [3], [], [2, 9, 4]]).x
    for part, nbytes in ((view, 48), (view[3:], 24), (view[[0, 0]], 32), (view * 2, 48)):
        plan = part._explain()
        assert "one by one" not in repr(plan)
        assert "the values of all rows in a line" in plan.way
        assert sum(reading.nbytes for reading in plan.readings) <= nbytes == plan.result_bytes
    assert "one by one" not in repr(view._pad(0)._explain())
    assert view._pad(0)._explain().readings[0].nbytes == 48


def test_a_field_that_is_computed_of_each_sample_of_a_stream():
    def source():
        return ({"x": np.arange(2.0) + n, "y": n} for n in range(4))

    stream = dv.View(source)._probe()
    stream.w = stream.x * 2
    assert stream._fields() == ("x", "y", "w")
    assert [sample.w().tolist() for sample in stream] == [[2 * n, 2 * n + 2] for n in range(4)]
    assert next(stream._loader(2)).w().tolist() == [[0, 2], [2, 4]]
    assert next(iter(stream._minibatches(2))).w().tolist() == [[0, 2], [2, 4]]
    assert stream.w._mean()() == 4
    ragged = dv.View(lambda: map(words, range(4)))._probe()
    for view, value in ((ragged, ragged.y + 1), (stream, np.arange(4)), (dv.View(source), 3)):
        with pytest.raises(TypeError, match=r"'w' is no field of each.*_map\(function\)"):
            view._set_field("w", value)


def words(number):
    """Give a sample that differs in length."""
    return {"x": [number] * number, "y": number}


# ---------------------------------------------------------------- batches by length, and computed


@pytest.mark.parametrize("kind", KINDS)
@examples(15)
@given(lengths=LENGTHS, size=st.integers(1, 4))
def test_ragged_batches_compute_as_their_rows(kind, lengths, size):
    model = shaped_rows(kind, lengths)
    d = dv.View(x=made(kind, model), y=np.arange(len(model)))
    batches = d._minibatches(size)
    several = {
        "plus": (batches.x + 1, d.x + 1),
        "of each row": (batches.x * batches.y, d.x * d.y),
        "turned round": (batches.y - batches.x, d.y - d.x),
        "compared": (batches.x > 2, d.x > 2),
        "equal": (batches.x == 2, d.x == 2),
        "cast": (batches.x._astype(float), d.x._astype(float)),
    }
    for found, rows in several.values():
        assert len(found) == len(batches)
        for number in range(len(batches)):
            assert_rows(found[number], rows[number * size : (number + 1) * size]())
    for refused in (lambda: batches.x + batches.x, lambda: batches.x + np.arange(size + 7)):
        with pytest.raises(dv.RaggedError, match=r"_pad\(value\).*_map\(function\)"):
            refused()


BY_LENGTH = {
    "bucket": lambda n: dv.samplers.bucket(by=n),
    "same_length": lambda n: dv.samplers.same_length(by=n),
    "token_budget": lambda n: dv.samplers.token_budget(by=n, budget=12),
}


@pytest.mark.parametrize("name", BY_LENGTH)
@examples(15)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=30), seed=st.integers(0, 3))
def test_samplers_by_length_have_each_ragged_row_once(name, lengths, seed):
    model = shaped_rows("sentences", lengths)
    d = dv.View(x=made("sentences", model), y=np.arange(len(model)))
    sampler = BY_LENGTH[name](d.x._lengths())
    size = () if name == "token_budget" else (3,)
    loader = list(d._loader(*size, sampler=sampler, seed=seed))
    for batches in (list(d._minibatches(*size, sampler=sampler, seed=seed)), loader):
        assert sorted(n for batch in batches for n in batch.y().tolist()) == [*range(len(model))]
        for batch in batches:
            assert_rows(batch.x, model[batch.y()])
            own = list(map(len, model[batch.y()]))
            if name == "same_length":
                assert len(set(own)) == 1
            if name == "token_budget":
                assert len(own) == 1 or max(own) * len(own) <= 12
    padded = d._loader(*size, sampler=sampler, seed=seed, pad={"x": dv.Pad(-1, length=True)})
    for batch in padded:
        assert_same(batch.x_length(), d.x._lengths()()[batch.y()])
        assert batch.x._shape() == (len(batch), max(batch.x_length(), default=0))


def test_padded_masks_are_masks():
    rows = dv.ragged([[True, False], [True]])
    assert_same(rows._pad()(), np.array([[True, False], [True, False]]))
    assert_same(rows._pad(2)(), np.array([[1, 0], [1, 2]]))


# -------------------- samples that are made as values, and one of them --------------------


def labelled(number):
    return {"words": [number] * number, "label": number}


@pytest.mark.parametrize(
    "samples",
    [
        lambda: dv.View(labelled, _length=4)._probe(),
        lambda: dv.View(labelled, _length=4, _fields={"words": ((None,), int), "label": int}),
        lambda: dv.View(np.arange(4))._map(lambda s: labelled(int(s())))._probe(),
    ],
)
def test_ragged_samples_are_written_to_rows_of_their_lengths(samples):
    for write in (
        lambda d, s: d._write(s),
        lambda d, s: d._write({"words": s.words, "label": s.label}),
        lambda d, s: d.__setitem__(slice(None), s),
        lambda d, s: (d.words._write(s.words), d.label.__setitem__(slice(None), range(4))),
    ):
        d = dv.View(words=[[-1] * n for n in range(4)], label=np.zeros(4, int))
        write(d, samples())
        assert [words.tolist() for words in d.words()] == [[n] * n for n in range(4)]
        assert d.label().tolist() == [0, 1, 2, 3]


def test_a_ragged_stream_is_written_to_rows_of_its_lengths():
    d = dv.View(words=[[-1] * n for n in range(4)], label=np.zeros(4, int))
    d._write(dv.View(lambda: map(labelled, range(4)))._probe())
    assert [words.tolist() for words in d.words()] == [[n] * n for n in range(4)]
    assert d.label().tolist() == [0, 1, 2, 3]


def test_ragged_samples_of_other_lengths_are_written_nowhere():
    d = dv.View(words=[[-1] * n for n in range(4)], label=np.zeros(4, int))
    with pytest.raises(ValueError, match=r"row 0 has \(0,\), the value \(3,\)"):
        d._write(dv.View(labelled, _length=4)._probe()[::-1])
    assert d == dv.View(words=[[-1] * n for n in range(4)], label=np.zeros(4, int))


def test_one_sample_with_ragged_fields_is_called():
    calls = []

    def sample(number):
        calls.append(number)
        return {**labelled(number), "inner": {"words": [number, 1]}}

    d = dv.View(sample, _length=4)._probe()
    calls.clear()
    one = d[2]()
    assert one["words"].tolist() == [2, 2]
    assert one["label"] == 2
    assert one["inner"]["words"].tolist() == [2, 1]
    assert calls == [2]
    assert [row()["words"].tolist() for row in d] == [[n] * n for n in range(4)]


def test_rows_of_a_record_are_frozen_with_all_that_is_known_of_each_field():
    words, x = dv.ragged(np.arange(6), lengths=[1, 0, 3, 2]), np.arange(8).reshape(4, 2)
    pair = np.zeros(4, [("p", int), ("q", "f4")])
    view = dv.View(words=words._with_meta(unit="m"), x=dv.View(x, first=np.s_[:1]), pair=pair)
    view = dv.View(words=view.words, x=view.x, again=view.x, pair=view.pair, nested={"w": words})
    for data in (view, view._drop("nested")):
        frozen = data[[2, 0]]._freeze()
        assert frozen._fields() == data._fields() and frozen.words._meta["unit"] == "m"
        assert [row.tolist() for row in frozen.words()] == [[1, 2, 3], [0]]
        assert frozen.again().tolist() == frozen.x().tolist() == [[4, 5], [0, 1]]
        assert frozen.x.first().tolist() == [[4], [0]] and frozen.pair.q().tolist() == [0, 0]
        for field in (frozen.x, frozen.pair.p, frozen.words[0]):
            assert not field().flags.writeable and not np.shares_memory(field(), x)


@pytest.mark.parametrize("key", [slice(None, None, -1), slice(1, 4, 2), [3, 0, 3], 1])
@pytest.mark.parametrize("is_nested", [False, True])
def test_rows_of_a_record_are_frozen_as_the_part_that_they_are(key, is_nested):
    tokens = dv.View([[1, 2], [], [3], [4, 5, 6]])
    if is_nested:
        tokens = dv.ragged(tokens, lengths=[2, 0, 1, 1])
    d = dv.View(x=tokens, y=np.arange(4), z=np.arange(8.0).reshape(4, 2))
    batches = d._minibatches(3, sampler="permutation")[1], d._minibatches(3)[0]
    for view in (d[key], d[1:][::-1], *batches):
        whole = view._asdict()
        frozen = view._freeze()
        assert frozen._fields() == ("x", "y", "z")
        np.testing.assert_array_equal(frozen.y(), whole["y"])
        np.testing.assert_array_equal(frozen.z(), whole["z"])
        assert not frozen.z().flags.writeable
        assert str(frozen.x._freeze()()) == str(view.x._freeze()()) == str(whole["x"])
    d.y[...] = 9
    assert frozen.y().tolist() == [0, 1, 2]


def of_all_kinds(rows=7):
    """Return a record of ragged fields of all kinds, and of fields of one shape, with metadata."""
    random = np.random.default_rng(5)
    pictures = [random.integers(0, 9, (*random.integers(0, 3, 2), 2), "u1") for _ in range(rows)]
    pages = dv.View([[[*range(n)] for n in random.integers(0, 4, r % 3)] for r in range(rows)])
    sounds = [random.random((3, length)) for length in random.integers(0, 5, rows)]
    fixed = {"x": random.random((rows, 2)).astype("f4"), "y": np.arange(rows)}
    meta = {"": {"of": "mine"}, "x": {"unit": "m"}, "sounds": {"unit": "Hz"}}
    return dv.View(pictures=pictures, pages=pages, sounds=sounds, **fixed, _meta=meta)


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"tail": "pad", "seed": 1}])
def test_a_loader_gives_the_rows_of_ragged_fields_and_what_they_bring(options):
    d = of_all_kinds()
    loader = d._loader(3, sampler="permutation", **options)
    for batch in loader:
        same = d[loader.rows]
        for name in d._fields():
            own = batch._field(name)
            assert own._shape() == same._field(name)._shape() and (own == same._field(name))
            assert own._meta == d._field(name)._meta
        assert batch._meta == {"of": "mine"} and len(batch) == len(batch._asdict()["y"])


@pytest.mark.parametrize("value", [0, -1.5])
def test_rows_of_any_shape_are_filled_up_beside_others(value):
    d = of_all_kinds()._select("pages", "sounds", "x", "y")
    loader = d._loader(3, pad=value)
    for batch in loader:
        same = d[loader.rows]
        for name in d._fields():
            own = same._field(name)
            expected = own._pad(value)() if name in ("pages", "sounds") else own()
            found = batch._field(name)()
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
        assert batch._meta == {"of": "mine"}
        assert (batch.x._meta, batch.sounds._meta) == ({"unit": "m"}, {"unit": "Hz"})
    assert d._pad(value)._meta == {"of": "mine"}


def test_pages_without_words_are_filled_up_in_the_dtype_of_the_others():
    d = dv.View(pages=dv.View([[[1, 2]], [[]], [[]]]), x=np.ones((3, 2)))
    empty = [*d._loader(1, pad=0)][-1]
    assert empty.pages().dtype == np.intp and empty.pages._shape() == (1, 1, 0)


def test_rows_without_a_name_are_filled_up_with_lengths_and_mask():
    rows = dv.View([[1, 2], [3], []])
    data, length, mask = next(rows._loader(3, pad=dv.Pad(-1, length=True, mask=True)))
    assert data.tolist() == [[1, 2], [3, -1], [-1, -1]] and length.tolist() == [2, 1, 0]
    assert mask.tolist() == [[True, True], [True, False], [False, False]]


def test_a_frozen_record_of_ragged_rows_is_a_copy_of_them():
    d = of_all_kinds()
    d.again = d.y
    frozen = d[[5, 0, 5]]._freeze()
    assert (frozen == d[[5, 0, 5]]) and frozen._meta == d._meta and len(frozen) == 3
    with pytest.raises(ValueError, match="read-only"):
        frozen.x[0] = 1


def test_fields_without_values_keep_their_rows_beside_ragged_ones():
    d = dv.View(lambda n: {"x": [1] * n, "none": []}, _length=3)._probe()._freeze()
    assert d.none._shape() == (3, 0) and d._shape() == (3,)


@pytest.mark.parametrize("texts", [[[["a"], []], [["b", "c"]]], [[[]], [[], ["a"]], []]])
def test_samples_of_lists_of_texts_may_have_empty_lists(texts):
    samples = [
        dv.ragged(np.array([*itertools.chain(*one)], object), lengths=[*map(len, one)])
        for one in texts
    ]
    d = dv.View(lambda number: {"x": samples[number]}, _length=len(texts))._probe()
    assert d.x._shape() == (len(texts), None, None)
    for rows in (d, d._freeze(), next(d._loader(len(texts)))):
        assert [[text.tolist() for text in row] for row in rows.x()] == texts


PIECES = np.array([["q", "q"], [2.5, 2.5], [1, "p"]], object)


@pytest.mark.parametrize("make", [dv.ragged, dv.View, lambda rows: dv.View(w=rows).w])
@pytest.mark.parametrize(
    "rows",
    [
        [PIECES, PIECES[:, :0]],
        [PIECES[:, :0], PIECES],
        [PIECES[:, 0], PIECES[:0, 0]],
        [PIECES[:0], PIECES[:2]],
        [PIECES[:, :0], PIECES[:2, :0]],
    ],
)
def test_rows_of_objects_stay_as_they_are_beside_rows_without_elements(rows, make):
    view = make(rows)
    assert view._dtype() == np.dtype(object)
    for row, expected in zip(view, rows, strict=True):
        assert row._shape() == row().shape == expected.shape
        assert row().dtype == object
        assert [*map(type, row().flat)] == [*map(type, expected.flat)]
        assert row().tolist() == expected.tolist()


@pytest.mark.parametrize("value", ["", "xyz", np.str_("ß")])
@pytest.mark.parametrize(
    "padded",
    [
        lambda rows, value: dv.ragged(rows)._pad(value),
        lambda rows, value: dv.View(t=dv.ragged(rows))._pad(value).t,
        lambda rows, value: next(dv.View(t=dv.ragged(rows))._loader(3, pad=value)).t,
        lambda rows, value: next(dv.View(t=dv.ragged(rows))._loader(3, pad={"t": value})).t,
        lambda rows, value: dv.View(dv.collate(rows, pad=value)),
        lambda rows, value: dv.View(lambda n: rows[n], _length=3)._probe()._pad(value),
    ],
)
def test_texts_of_any_length_are_padded_with_texts(padded, value):
    dtype = np.dtypes.StringDType()
    rows = [np.array(row, dtype) for row in (["a", "bb" * 20], ["c"], [])]
    found = padded(rows, value)()
    assert found.dtype == dtype
    assert found.tolist() == [["a", "bb" * 20], ["c", value], [value, value]]
    with pytest.raises(TypeError, match="0 is no padding for samples of StringDType"):
        padded(rows, 0)()


ROWS_OF_OTHER_LENGTHS = {
    "a mapping": lambda d, e: d.__setitem__(0, {"x": [9], "y": 5}),
    "a tuple": lambda d, e: d.__setitem__(0, ([9], 5)),
    "a row": lambda d, e: d.__setitem__(0, e[0]),
    "a row written": lambda d, e: d[0]._write(e[0]),
    "a row that was read": lambda d, e: write_after_reading(d[0], e[0]),
    "a field": lambda d, e: d.x.__setitem__(0, [9]),
    "a row of a field": lambda d, e: d.x.__setitem__(0, e.x[0]),
    "a field of a row": lambda d, e: d[0].x._write([[9]]),
    "a swap": lambda d, e: swap(d, d[0], d[1]),
    "rows that go round": lambda d, e: go_round(d),
    "rows that go back": lambda d, e: go_back(d),
    "rows that go to a longer one": lambda d, e: go_to_a_longer_one(d),
    "a longer one": lambda d, e: d.__setitem__(0, {"x": [9, 9, 9], "y": 5}),
    "rows that go round one by one": lambda d, e: go_round_slowly(d),
    "a swap of rows of a field": lambda d, e: swap(d.x, d.x[0], d.x[1]),
    "a number of NumPy's": lambda d, e: d.x.__setitem__(np.int64(0), [9]),
    "an array without axes": lambda d, e: d.x.__setitem__(np.array(0), [9]),
    "a mapping by a number of NumPy's": lambda d, e: d.__setitem__(np.int64(0), {"x": [9], "y": 5}),
    "a row of a batch": lambda d, e: d._minibatches(2)[0].x.__setitem__(0, [9]),
    "a mapping in a batch": lambda d, e: d._minibatches(2).__setitem__((0, 0), {"x": [9], "y": 5}),
    "a row that is kept": lambda d, e: d._filter(d.x._lengths() > 1).x.__setitem__(0, [9]),
    "rows in a loop": lambda d, e: [row._write([9]) for row in d.x],
    "np.copyto of a list": lambda d, e: np.copyto(d.x[0], [9]),
    "np.copyto of an array": lambda d, e: np.copyto(d.x[0], np.array([9])),
    "an array after reading": lambda d, e: after_reading(d.x[0])._write(np.array([9])),
    "all of a row": lambda d, e: d.x[0].__setitem__(slice(None), [9]),
    "a row by its name": lambda d, e: d.__setitem__((0, "x"), [9]),
    "a row of joined rows": lambda d, e: dv.concat(d, e).x.__setitem__(0, [9]),
    "a row of one row": lambda d, e: d[:1].x.__setitem__(0, [9]),
}


def write_after_reading(row, value):
    row.x()
    row._write(value)


def after_reading(row):
    row()
    return row


def go_round(rows):
    rows[3], rows[0], rows[1] = rows[0], rows[1], rows[3]


def go_back(rows):
    rows[0], rows[3], rows[1] = rows[3], rows[1], rows[0]


def go_to_a_longer_one(rows):
    rows[3], rows[1], rows[0] = rows[0], rows[3], rows[1]


def go_round_slowly(rows):
    first, second, last = rows[0], rows[1], rows[3]
    rows[3] = first
    rows[0] = second
    rows[1] = last


def swap(rows, first, second):
    rows[0] = second
    rows[1] = first


@pytest.mark.parametrize("way", ROWS_OF_OTHER_LENGTHS)
def test_a_row_is_not_written_by_one_of_another_length(way):
    d = dv.View(x=[[1, 2], [3], [5, 6, 7], [8, 9]], y=[1, 2, 3, 4])
    e = dv.View(x=[[9], [8, 8], [4, 4, 4], [7, 7]], y=[7, 8, 9, 6])
    with pytest.raises(ValueError, match=r"of its shape|that of the row"):
        ROWS_OF_OTHER_LENGTHS[way](d, e)
    assert_rows(d.x, [np.array(row) for row in ([1, 2], [3], [5, 6, 7], [8, 9])])
    assert d.y().tolist() == [1, 2, 3, 4]
    d[0] = e[1]
    d.x[2] = 6
    d.x[1] = [[9]]
    d[2]._write({"x": [6, 6, 7], "y": 0})
    assert_rows(d.x, [np.array(row) for row in ([8, 8], [9], [6, 6, 7], [8, 9])])
    assert d.y().tolist() == [8, 2, 0, 4]


@pytest.mark.parametrize("value", [[9], np.array([9]), dv.View([9])], ids=["list", "array", "view"])
def test_rows_within_rows_are_written_by_rows_of_their_shape(value):
    d = dv.View(x=[[[1, 2], [3]], [[4]]], y=[np.zeros((2, 3)), np.zeros((4, 5))])
    for write in (
        lambda: d.x[0].__setitem__(0, value),
        lambda: d.x.__setitem__((0, 0), value),
        lambda: d.y.__setitem__(0, np.ones(3)),
    ):
        with pytest.raises(ValueError, match="a row is written by a row of its shape"):
            write()
    d.x[0, 0], d.y[0] = [5, 6], np.ones((2, 3))
    assert d.x[0, 0]().tolist() == [5, 6]
    assert d.y[0]().tolist() == np.ones((2, 3)).tolist()


def test_the_only_row_of_a_layout_is_written_by_one_of_its_shape():
    flat = np.arange(3)
    d = dv.View(x=dv.ragged(flat, lengths=[3]))
    with pytest.raises(ValueError, match="a row is written by a row of its shape"):
        d.x[0] = [9]
    assert flat.tolist() == [0, 1, 2]
    d.x[0, 1:] = [9]  # elements, which NumPy fills
    d.x[0, :1] = 7
    assert flat.tolist() == [7, 9, 9]
    d.x[0] = [1, 2, 3]
    assert flat.tolist() == [1, 2, 3]


def test_one_element_fills_a_row_whose_elements_have_axes():
    points = [np.zeros((2, 3)), np.zeros((4, 3))]
    d = dv.View(x=points)
    d.x[np.int64(0)] = [1, 2, 3]
    assert_rows(d.x, [np.array([[1.0, 2, 3]] * 2), points[1]])


@pytest.mark.parametrize("kind", [list, tuple])
def test_rows_are_written_by_several_views(kind):
    d = dv.View(x=[[1, 2], [3], [5, 6]], y=np.arange(6.0).reshape(3, 2))
    d.x[0:2] = kind([d.x[2], d.x[1] * 2])
    d.y[:] = kind([d.y[2], d.y[0], d.y[1] + 1])
    assert_rows(d.x, [np.array(row) for row in ([5, 6], [6], [5, 6])])
    assert d.y().tolist() == [[4, 5], [0, 1], [3, 4]]
    with pytest.raises(ValueError, match="a row is written by a row of its shape"):
        d.x[0:2] = kind([d.x[1], d.x[0]])


COPIED = {
    "ragged rows": lambda d, e: np.copyto(d.x, [[7, 8], [9]]),
    "a ragged field": lambda d, e: np.copyto(d.x, src=e.x),
    "a record": lambda d, e: np.copyto(d, e),
    "fields": lambda d, e: np.copyto(d, {"x": e.x, "y": [5, 6]}),
    "a row of a record": lambda d, e: (np.copyto(d[0], e[0]), np.copyto(d[1], e[1])),
}


@pytest.mark.parametrize("way", COPIED)
def test_copyto_writes_ragged_rows_and_records(way):
    d, e = dv.View(x=[[1, 2], [3]], y=[5, 6]), dv.View(x=[[7, 8], [9]], y=[5, 6])
    COPIED[way](d, e)
    assert_rows(d.x, [np.array([7, 8]), np.array([9])])
    assert d.y().tolist() == [5, 6]


def test_functions_that_change_elements_of_an_array_tell_what_to_write_to_rows():
    d = dv.View(x=[[1, 2], [3]], y=[5, 6])
    for write in (
        lambda: np.copyto(d.x, [[7, 8], [9]], where=np.array([True, False])),
        lambda: np.copyto(d, d, casting="unsafe"),
        lambda: np.putmask(d.x, [True, False], 0),
        lambda: np.place(d, [True, False], 0),
    ):
        with pytest.raises(TypeError, match=r"elements of one array.*d\.x\[rows\] = values"):
            write()
    with pytest.raises(ValueError, match="row 0 has"):
        np.copyto(d.x, [[7], [9]])
    with pytest.raises(dv.errors.ReadOnlyError, match="read-only"):
        np.copyto(d._readonly(), d)
    assert_rows(d.x, [np.array([1, 2]), np.array([3])])
