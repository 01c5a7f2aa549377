"""Collation: every kind of sample, every way of padding, every error."""

import types
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dataview as dv
from dataview.loader import devices

Point = namedtuple("Point", "x y")


def same(found, expected):
    """Assert equal types, dtypes, shapes and values, at every level."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            same(found[name], expected[name])
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            same(ours, theirs)
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


# -------------------- stacking --------------------


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([(1, 2), (3, 4)], (np.array([1, 3]), np.array([2, 4]))),
        ([Point(1, "a"), Point(2, "bc")], Point(np.array([1, 2]), np.array(["a", "bc"]))),
        ([1, 2.5], np.array([1, 2.5])),
        ([True, False], np.array([True, False])),
        ([np.uint8(1), np.int8(-1)], np.array([1, -1], np.int16)),
        (["a", "long text"], np.array(["a", "long text"])),
        ([b"a", b"bc"], np.array([b"a", b"bc"])),
        ([np.float32(1)], np.array([1], np.float32)),
        ([np.datetime64("2000-01-01")], np.array(["2000-01-01"], "M8[D]")),
        (
            [{"a": 1, "b": {"c": [1.5]}}, {"b": {"c": [2.5]}, "a": 2}],
            {"a": np.array([1, 2]), "b": {"c": np.array([[1.5], [2.5]])}},
        ),
        ([[[1, 2], [3, 4]]], np.array([[[1, 2], [3, 4]]])),
        ([np.zeros((0, 3)), np.ones((0, 3))], np.zeros((2, 0, 3))),
        ([()], ()),
        ([{}], {}),
    ],
)
def test_samples_are_stacked(samples, expected):
    same(dv.collate(samples), expected)


@given(
    hnp.arrays(
        hnp.scalar_dtypes(),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4),
    )
)
def test_stacking_undoes_iteration(array):
    found = dv.collate(iter(array))
    assert found.dtype == array.dtype.newbyteorder("=") or found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_a_batch_shares_no_memory_with_its_samples():
    samples = [np.zeros(3)]
    dv.collate(samples)[:] = 1
    assert not samples[0].any()


def test_views_are_samples_of_every_kind():
    d = dv.View(x=np.arange(6).reshape(3, 2), part={"y": np.arange(3.0)})
    same(dv.collate(d[[2, 0]]), {"x": d.x()[[2, 0]], "part": {"y": np.array([2.0, 0.0])}})
    same(dv.collate([d.x[1], d.x[0] * 2]), np.array([[2, 3], [0, 2]]))
    same(dv.collate([(d.x[0], {"y": d.part.y[1]})]), (np.array([[0, 1]]), {"y": np.array([1.0])}))


def test_objects_stay_objects():
    samples = [{"o": None}, {"o": types}]
    assert dv.collate(samples)["o"].tolist() == [None, types]
    column = np.array(["a", None, "bc", 3], object)  # such as a column of texts that lacks some
    assert dv.collate(column).tolist() == column.tolist()
    (batch,) = dv.View(t=column)._loader(4, transform=lambda sample: sample)
    assert batch.t().tolist() == column.tolist()
    alone = dv.collate([{"o": np.array(None)}, {"o": np.array(types)}])["o"]
    assert [type(part) for part in alone] == [type(None), type(types)]


# -------------------- padding --------------------


@pytest.mark.parametrize(
    ("samples", "pad", "expected"),
    [
        ([[1, 2], [0.5]], 0, np.array([[1, 2], [0.5, 0]])),
        ([np.array([1, 2]), np.array([0.5])], 0, np.array([[1, 2], [0.5, 0]])),
        ([[1, 2], [3]], np.nan, np.array([[1, 2], [3, np.nan]])),
        ([[1, 2], [3]], 0.0, np.array([[1, 2], [3, 0]])),
        ([[1, 2, 3], [4]], 9, np.array([[1, 2, 3], [4, 9, 9]])),
        ([[1, 2, 3], [4]], dv.Pad(9, side="left"), np.array([[1, 2, 3], [9, 9, 4]])),
        ([[1], [4]], dv.Pad(9, multiple=4), np.array([[1, 9, 9, 9], [4, 9, 9, 9]])),
        ([[1, 2, 3, 4]], dv.Pad(9, multiple=4), np.array([[1, 2, 3, 4]])),
        ([["a"], ["bc", "d"]], "", np.array([["a", ""], ["bc", "d"]])),
        ([["a"], ["b", "d"]], "<pad>", np.array([["a", "<pad>"], ["b", "d"]])),
        ([[], []], 0, np.zeros((2, 0))),
        ([[[1], [2, 3]], [[4]]], 0, np.array([[[1, 0], [2, 3]], [[4, 0], [0, 0]]])),
        ([[[1], [2, 3]], []], 0, np.array([[[1, 0], [2, 3]], [[0, 0], [0, 0]]])),
        ([[], [[1], []]], 9, np.array([[[9], [9]], [[1], [9]]])),
        ([3, 4], 7, np.array([3, 4])),
        (
            [{"x": [1], "y": 0}, {"x": [2, 3], "y": 1}],
            {"x": -1},
            {"x": np.array([[1, -1], [2, 3]]), "y": np.array([0, 1])},
        ),
        (
            [([1], [2.0]), ([1, 1], [])],
            (0, dv.Pad(-1.0)),
            (np.array([[1, 0], [1, 1]]), np.array([[2.0], [-1.0]])),
        ),
        (
            [Point([1], [1]), Point([2, 3], [2])],
            {"x": 0},
            Point(*map(np.array, ([[1, 0], [2, 3]], [[1], [2]]))),
        ),
        (
            [{"p": {"x": [1]}}, {"p": {"x": [2, 3]}}],
            {"p": {"x": 5}},
            {"p": {"x": np.array([[1, 5], [2, 3]])}},
        ),
    ],
)
def test_samples_are_padded(samples, pad, expected):
    same(dv.collate(samples, pad=pad), expected)


@pytest.mark.parametrize("pad", [-1, {"n": -1}, {"n": dv.Pad(-1, side="left")}])
def test_rows_of_rows_are_padded_along_both_axes(pad):
    values = dv.ragged(dv.ragged([1, 2, 3, 4], lengths=[2, 1, 0, 1]), lengths=[2, 0, 2])
    d = dv.View(n=values, x=np.arange(3))
    batch = next(d._loader(3, pad=pad))
    rows = [[[1, 2], [3, -1]], [[-1, -1], [-1, -1]], [[-1, -1], [4, -1]]]
    if isinstance(pad, dict) and isinstance(pad["n"], dv.Pad):
        rows = [[[1, 2], [-1, 3]], [[-1, -1], [-1, -1]], [[-1, -1], [-1, 4]]]
    assert (batch.n().tolist(), batch.n.dtype) == (rows, np.dtype(int))
    with pytest.raises(ValueError, match=r"rows of different lengths inside it.*length="):
        next(d._loader(3, pad={"n": dv.Pad(-1, length=True)}))


@pytest.mark.parametrize(("axis", "shape"), [(-1, (2, 2, 3)), (1, (2, 2, 3)), ((0, 1), (2, 2, 3))])
def test_one_axis_is_padded_and_the_others_have_to_match(axis, shape):
    found = dv.collate([np.ones((2, 3)), np.ones((2, 1))], pad=dv.Pad(7, axis=axis))
    assert found.shape == shape
    assert found[1].tolist() == [[1, 7, 7], [1, 7, 7]]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
    st.integers(1, 5),
    st.sampled_from([None, (0, 1), (1, 0)]),
)
def test_a_padded_batch_holds_every_sample_and_nothing_else(shapes, side, multiple, axis):
    samples = [np.arange(1, 1 + a * b).reshape(a, b) for a, b in shapes]
    pad = dv.Pad(-1, axis=axis, side=side, multiple=multiple, length=True, mask=True)
    found, length, mask = dv.collate(samples, pad=pad)
    order = [0, 1] if axis is None else list(axis)
    assert length.tolist() == np.array(shapes)[:, order].tolist()
    assert all(size % multiple == 0 for size in found.shape[1:])
    assert found.shape[1:] == tuple(
        -(-max(s) // multiple) * multiple for s in zip(*shapes, strict=True)
    )
    mask = mask if axis in (None, (0, 1)) else mask.swapaxes(1, 2)
    assert (found[~mask] == -1).all()
    for part, inside, sample in zip(found, mask, samples, strict=True):
        np.testing.assert_array_equal(part[inside], sample.ravel())


def test_lengths_and_masks_stand_beside_the_field():
    samples = [{"words": [3, 4], "y": 0}, {"words": [5], "y": 1}]
    found = dv.collate(samples, pad={"words": dv.Pad(0, length=True, mask=True)})
    assert list(found) == ["words", "words_length", "words_mask", "y"]
    assert found["words_length"].tolist() == [2, 1]
    assert found["words_mask"].tolist() == [[True, True], [True, False]]
    with pytest.raises(ValueError, match="there is a field words_length already"):
        dv.collate([{"words": [1], "words_length": 1}], pad={"words": dv.Pad(length=True)})


def test_masks_stay_masks_where_they_are_padded():
    images = [np.ones((n, 2), bool) for n in (1, 2)]
    for value in (0, 1, False, 0.0):
        assert dv.collate(images, pad=value).dtype == bool
    assert dv.collate(images, pad=1).all()
    assert dv.collate(images, pad=2).dtype == int


def test_ragged_samples_are_kept_as_they_are():
    found = dv.collate([{"x": [1, 2]}, {"x": [3.5]}], pad={"x": "ragged"})["x"]
    assert (found._dtype(), found._shape()) == (np.dtype(float), (2, None))
    same(found[0](), np.array([1.0, 2.0]))
    same(found[1](), np.array([3.5]))
    assert dv.collate([[1, 2], [3, 4]], pad="ragged")._shape() == (2, None)


def test_ragged_is_only_what_is():
    samples = [{"x": [1, 2], "y": 0, "z": [1, 2]}, {"x": [3], "y": 1, "z": [3, 4]}]
    found = dv.collate(samples, pad="ragged")
    assert found["x"]()[1].tolist() == [3]
    same(found["y"], np.array([0, 1]))
    same(found["z"], np.array([[1, 2], [3, 4]]))
    found = dv.collate([([1, 2], 0), ([], 1)], pad="ragged")
    assert found[0]._dtype() == np.dtype(int)
    same(found[1], np.array([0, 1]))
    with pytest.raises(TypeError, match="field 'x': sample 1 is of"):
        dv.collate([{"x": [1]}, {"x": ["a", "b"]}], pad="ragged")
    with pytest.raises(ValueError, match="as many axes"):
        dv.collate([np.ones(2), np.ones((2, 2))], pad="ragged")


# -------------------- refusals --------------------


@pytest.mark.parametrize(
    ("samples", "pad", "kind", "text"),
    [
        ([], None, ValueError, "the batch is empty"),
        (
            [{"x": [1, 2]}, {"x": [1, 2]}, {"x": [3]}],
            None,
            ValueError,
            r"field 'x': sample 2 has shape \(1,\), sample 0 has shape \(2,\); pad= fills",
        ),
        ([{"a": {"b": [1]}}, {"a": {"b": [1, 2]}}], None, ValueError, "field 'a.b': sample 1"),
        ([(1, [1]), (1, [1, 2])], None, ValueError, r"field '\[1\]': sample 1 has shape"),
        (
            [{"a": 1}, {"a": 1, "b": 2}],
            None,
            ValueError,
            r"sample 1 has the keys \['a', 'b'\], sample 0",
        ),
        ([{"a": 1, "b": 2}, {"a": 1}], None, ValueError, "sample 1 has the keys"),
        ([(1, 2), (1,)], None, ValueError, "sample 1 has so many parts: 1, sample 0"),
        ([{"a": 1}, (1,)], None, TypeError, "sample 1 is a tuple, sample 0 is a dict"),
        ([1, "a"], None, TypeError, "sample 1 is of <U1, sample 0 is of int64"),
        ([[1, 2], [[1, 2]]], 0, ValueError, r"sample 1 has shape \(1, 2\), sample 0"),
        ([[[1], [2, 3]]], None, ValueError, "a sample makes no array"),
        (
            [np.ones((1, 2)), np.ones((2, 2))],
            dv.Pad(0, axis=1),
            ValueError,
            "only axis 1 is padded",
        ),
        (
            [[1], [1, 2]],
            dv.Pad(0, axis=1),
            ValueError,
            "cannot pad axis 1: the samples have 1 axes",
        ),
        ([np.array([1], np.uint8)], 300, OverflowError, "300 does not fit into uint8"),
        ([[1]], "x", TypeError, "'x' is no padding for samples of int64"),
        ([["a"]], 0, TypeError, "0 is no padding for samples of <U1"),
        ([np.zeros(1, [("u", "i4")])], 0, TypeError, "0 is no padding for samples of"),
        ([{"a": [1]}], {"b": 0}, KeyError, "none of the fields"),
        ([([1], [2])], (0,), ValueError, "pad= has 1 parts, the samples 2"),
        ([[1]], {"x": 0}, TypeError, "the samples here are arrays"),
        ([np.datetime64("2000"), 1], None, TypeError, "no dtype holds all the samples"),
    ],
)
def test_what_makes_no_batch_is_refused(samples, pad, kind, text):
    with pytest.raises(kind, match=text):
        dv.collate(samples, pad=pad)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"side": "top"}, ValueError),
        ({"multiple": 0}, ValueError),
        ({"multiple": True}, TypeError),
        ({"multiple": 1.5}, TypeError),
        ({"axis": "last"}, TypeError),
    ],
)
def test_a_padding_is_checked_when_it_is_made(options, kind):
    with pytest.raises(kind, match=next(iter(options))):
        dv.Pad(0, **options)


def test_samples_without_elements_have_no_say_in_the_dtype():
    assert dv.collate([[], [1, 2]], pad=0).dtype == dv.collate([[1], [1, 2]], pad=0).dtype
    assert dv.collate([[], ["a"]], pad="").tolist() == [[""], ["a"]]
    assert dv.collate([[], []]).dtype == np.float64
    tokens = dv.View(lambda number: {"t": list(range(number))}, _length=3)
    (batch,) = tokens._loader(3, pad=-1)
    assert (batch.t().dtype.kind, batch.t().tolist()) == ("i", [[-1, -1], [0, -1], [0, 1]])
    with pytest.raises(TypeError, match="sample 2 is of int64, sample 1 is of <U1"):
        dv.collate([[], ["a"], [1]], pad="")


def test_a_mask_is_never_wrong():
    ragged = [[[1, 2], [3]], [[4]]]
    assert dv.collate(ragged, pad=0).tolist() == [[[1, 2], [3, 0]], [[4, 0], [0, 0]]]
    for asked in ({"mask": True}, {"length": True}):
        with pytest.raises(ValueError, match="rows of different lengths"):
            dv.collate(ragged, pad=dv.Pad(0, **asked))
    with pytest.raises(TypeError, match="field 'x': a masked array"):
        dv.collate([{"x": np.ma.masked_array([1, 2], [0, 1])}])


def test_a_padding_is_a_value():
    assert dv.Pad(0, axis=1) == dv.Pad(0, axis=1)
    with pytest.raises(AttributeError):
        dv.Pad(0).value = 1


# -------------------- devices --------------------


class Device:
    """A device of a library that does not exist."""

    __module__ = "nolibrary.device"


@pytest.fixture
def library(monkeypatch):
    """A library with DLPack that remembers the devices."""
    found = types.SimpleNamespace(
        asked=[], from_dlpack=lambda a, device: (found.asked.append(device), np.from_dlpack(a))[1]
    )
    monkeypatch.setattr(devices.importlib, "import_module", lambda name: {"nolibrary": found}[name])
    return found


def test_arrays_go_to_the_library_that_the_device_names(library):
    device = Device()
    found = dv.collate([{"x": 1, "y": (2.0,)}], device=device)
    assert library.asked == [device, device]
    same(found, {"x": np.array([1]), "y": (np.array([2.0]),)})
    dv.collate([Point(1, 2)], device="nolibrary:fast:0")
    assert library.asked[2:] == ["fast:0"] * 2


def test_what_no_device_takes_is_refused_by_name(library):
    with pytest.raises(TypeError, match=r"'part\.x': <U1 cannot go to the device.*_codes\(\)"):
        dv.collate([{"part": {"x": "a"}}], device=Device())


@pytest.mark.parametrize(
    ("device", "kind"), [("cuda:0", ValueError), ("gpu", ValueError), (3, TypeError)]
)
def test_a_device_without_a_library_is_refused(device, kind):
    with pytest.raises(kind, match="torch:cuda:0"):
        dv.collate([1], device=device)


def test_a_device_of_a_library_that_is_not_there():
    with pytest.raises(ImportError, match="device='nolib:0' needs nolib, which is not installed"):
        dv.collate([1, 2], device="nolib:0")


def test_the_cpu_is_numpy():
    same(dv.collate([1, 2], device="cpu"), np.array([1, 2]))
