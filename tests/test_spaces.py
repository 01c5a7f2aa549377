"""Spaces: one suite for all of them, conversions and round trips, and what each misfit says."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.spaces import (
    CompositeSpace,
    Conv1DSpace,
    Conv2DSpace,
    Conv3DSpace,
    IndexSequenceSpace,
    IndexSpace,
    NullSpace,
    SequenceSpace,
    VectorSequenceSpace,
    VectorSpace,
)
from dataview.spaces.base import ROLES
from oracle import check_same, examples, keys

ORDERS = list(itertools.permutations(("b", 0, 1, "c")))

ALL = {
    "vector": VectorSpace(6),
    "vector of one": VectorSpace(1, dtype="f4"),
    "signal": Conv1DSpace(3, channels=2),
    "image": Conv2DSpace((2, 3), num_channels=1),
    "image, batch last": Conv2DSpace((2, 3), channels=2, axes=("c", 0, 1, "b"), dtype="f8"),
    "film": Conv3DSpace((2, 3, 2), channels=1, axes=("b", "c", 0, 1, 2)),
    "labels": IndexSpace(4, 2),
    "label": IndexSpace(10, 1, dtype="uint8"),
    "vectors": VectorSequenceSpace(3),
    "words": IndexSequenceSpace(5, 1),
    "sequences": SequenceSpace(VectorSpace(3)),
    "sequences of images": SequenceSpace(Conv2DSpace((2, 3), 1, axes=("c", 0, "b", 1))),
    "nothing": NullSpace(),
    "pair": CompositeSpace((VectorSpace(2), IndexSpace(3, 1))),
    "nested": CompositeSpace((NullSpace(), CompositeSpace((VectorSpace(2), VectorSpace(4))))),
    "empty": CompositeSpace(()),
}
spaces = pytest.mark.parametrize("space", ALL.values(), ids=ALL)


def size_for(space):
    return 1 if isinstance(space, VectorSequenceSpace | IndexSequenceSpace) else 3


def zeros(space, n=None):
    """A batch of zeros, of floats where the space takes any dtype."""
    n = size_for(space) if n is None else n
    if space.dtype is None:
        return space.get_origin_batch(n, "f8")
    if isinstance(space, CompositeSpace):
        return tuple(zeros(part, n) for part in space)
    return space.get_origin_batch(n)


def filled(space, n=3, seed=0):
    """A batch of other numbers."""
    rng = np.random.default_rng(seed)
    if isinstance(space, CompositeSpace):
        return tuple(filled(part, n, seed + k) for k, part in enumerate(space))
    if isinstance(space, SequenceSpace):
        steps = [filled(space.space, n, seed + k) for k in range(4)]
        return np.stack(steps), (rng.random((4, n)) < 0.7).astype("f4")
    if isinstance(space, NullSpace):
        return None
    shape = tuple(n if length is None else length for length in space.extents)
    if hasattr(space, "max_labels"):
        return rng.integers(0, space.max_labels, shape).astype(space.dtype)
    if space.dtype is not None and space.dtype.kind in "iub":
        return rng.integers(0, 100, shape).astype(space.dtype)
    return rng.random(shape).astype(space.dtype or "f8")


def viewed(batch):
    if isinstance(batch, tuple):
        return tuple(map(viewed, batch))
    return None if batch is None else dv.View(batch)


def data(batch):
    if isinstance(batch, tuple):
        return tuple(map(data, batch))
    return batch() if isinstance(batch, dv.View) else batch


def is_blank(batch):
    """Whether nothing of a batch is data."""
    return batch is None or (isinstance(batch, tuple) and all(map(is_blank, batch)))


def same(one, other):
    if isinstance(one, tuple):
        assert isinstance(other, tuple)
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif one is None:
        assert other is None
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# --- every space ---------------------------------------------------------------------------------


@spaces
def test_a_space_is_a_value(space):
    again = pickle.loads(pickle.dumps(space))
    assert again == space == copy.deepcopy(space)
    assert hash(again) == hash(space)
    assert {again: 1}[space] == 1
    assert eval(repr(space), vars(dv.spaces)) == space
    for other in ALL.values():
        assert (other == space) == (other is space)
    with pytest.raises(AttributeError, match="does not change"):
        space.dim = 3
    with pytest.raises(AttributeError, match="does not change"):
        del space.dtype


def test_a_space_for_any_dtype_is_no_space_for_one():
    for make in (VectorSpace, VectorSequenceSpace):
        found = [make(2), make(2, dtype="f8"), make(2, dtype="f4"), make(2, dtype=">f8")]
        assert len(set(found)) == 4
        assert [found.index(space) for space in found] == [0, 1, 2, 3]
    assert "dtype" not in repr(VectorSpace(2))
    assert repr(VectorSpace(2, dtype=">f4")) == "VectorSpace(dim=2, dtype='>f4')"
    assert eval(repr(IndexSpace(3, 1, dtype=">i2"))) == IndexSpace(3, 1, dtype=">i2")
    assert repr(VectorSpace(2, dtype="f8")) == "VectorSpace(dim=2, dtype='float64')"


@spaces
def test_zeros_are_a_batch(space):
    batch = zeros(space)
    space.np_validate(batch)
    space.validate(batch)
    space.validate(viewed(batch))
    expected = 0 if space in (NullSpace(), CompositeSpace(())) else size_for(space)
    assert space.np_batch_size(batch) == expected
    assert space.batch_size(viewed(batch)) == (expected or None)
    empty = zeros(space, 0) if size_for(space) > 1 else zeros(space)
    space.np_validate(empty)


@spaces
def test_zeros_of_one_sample_are_a_row_of_the_batch(space):
    def check(space, origin, batch):
        if isinstance(space, CompositeSpace):
            for part in zip(space, origin, batch, strict=True):
                check(*part)
        elif isinstance(space, SequenceSpace):
            assert origin[0].shape == np.take(batch[0], 0, space.get_batch_axis()).shape
        elif batch is not None:
            axis = 0 if size_for(space) == 1 else space.get_batch_axis()
            row = batch if size_for(space) == 1 else np.take(batch, 0, axis)
            assert origin.shape == row.shape

    check(space, space.get_origin(), zeros(space))


@spaces
def test_a_placeholder_is_a_batch(space):
    symbol = space.make_batch("x")
    space.validate(symbol)
    assert space.batch_size(symbol) in (None, 1)
    if size_for(space) > 1:
        space.validate(space.make_batch("x", batch_size=3))


def test_a_shared_batch_is_written():
    pair = CompositeSpace((VectorSpace(2), IndexSpace(3, 1)))
    shared = pair.make_shared_batch(3, dtype=("f4", None))
    pair.validate(shared)
    shared[0][1] = 5
    np.testing.assert_array_equal(shared[0](), [[0, 0], [5, 5], [0, 0]])


@spaces
def test_a_batch_is_itself_in_its_own_space(space):
    batch = filled(space, size_for(space))
    assert space.np_format_as(batch, space) is batch
    symbolic = viewed(batch)
    found = space.format_as(symbolic, space)
    if re.search("Index|SequenceSpace\\(space=", repr(space)):  # labels and masks are checked
        same(data(found), batch)
    else:
        assert found is symbolic
    assert space.format_as(batch, copy.deepcopy(space)) is batch


@spaces
def test_lists_and_views_where_arrays_are_due(space):
    batch = filled(space, size_for(space))
    with pytest.raises(TypeError):
        space.np_validate([1, 2])
    if not is_blank(batch):
        with pytest.raises(TypeError, match="call the view"):
            space.np_validate(viewed(batch))
        with pytest.raises(TypeError):
            space.np_validate(None)


@spaces
def test_callbacks_get_each_batch_first(space):
    seen = []

    def refuse(batch):
        seen.append(batch)
        raise KeyError("refused")

    heard = type(space)(**space.facts, validate_callbacks=[refuse])
    batch = filled(space, size_for(space))
    heard.np_validate(batch)
    if not is_blank(batch):
        with pytest.raises(KeyError, match="refused"):
            heard.validate(viewed(batch))
        assert data(seen[0]) is not None
    heard = type(space)(**space.facts, np_validate_callbacks=[refuse])
    with pytest.raises(KeyError, match="refused"):
        heard.np_validate(batch)
    assert heard != space
    again = type(space)(**space.facts, np_validate_callbacks=[refuse])
    assert again == heard
    assert hash(again) == hash(heard)
    kept = [copy.copy(heard), copy.deepcopy(heard), heard.rows_first, heard.in_default_order]
    kept += [] if space.dtype is None else [heard.with_dtype(space.dtype)]
    for one in kept:
        assert one.np_validate_callbacks == (refuse,)
    assert heard.without_callbacks == space
    if heard.roles:
        with pytest.raises(TypeError, match="without functions such as validate_callbacks"):
            dv.View(x=np.zeros((2, 3)), _spaces={"x": heard})


def _refuse_all(batch):
    raise KeyError("refused")


def test_components_lose_their_callbacks_with_their_composite():
    heard = VectorSpace(2, np_validate_callbacks=[_refuse_all])
    whole = CompositeSpace((CompositeSpace((heard, VectorSpace(1))), VectorSpace(1)))
    bare = whole.without_callbacks
    assert whole.has_callbacks and not bare.has_callbacks
    assert bare == CompositeSpace((BOTH.replaced(components=(VectorSpace(2), VectorSpace(1))),
        VectorSpace(1)))  # fmt: skip


@pytest.mark.parametrize("counts", [(2, 3), (3, 2)])
def test_components_of_different_sizes_are_refused_whichever_is_larger(counts):
    space = CompositeSpace((VectorSpace(1), VectorSpace(1)))
    batch = tuple(np.zeros((count, 1)) for count in counts)
    with pytest.raises(ValueError, match=r"\b2\b") as told:
        space.np_validate(batch)
    assert "3" in str(told.value)


def test_a_pickled_space_has_its_callbacks():
    heard = VectorSpace(2, np_validate_callbacks=[_refuse_all])
    again = pickle.loads(pickle.dumps(CompositeSpace((heard, VectorSpace(1)))))
    assert again.components[0] == heard
    with pytest.raises(KeyError, match="refused"):
        again.np_validate((np.zeros((1, 2)), np.zeros((1, 1))))


@spaces
def test_other_numbers_of_axes_are_refused(space):
    if hasattr(space, "extents") and space.extents:
        wrong = np.zeros((2,) * (len(space.extents) + 1), "i8")
        with pytest.raises((TypeError, ValueError), match=type(space).__name__):
            space.np_validate(wrong)
        with pytest.raises((TypeError, ValueError), match=type(space).__name__):
            space.validate(dv.View(wrong))


# --- conversions ---------------------------------------------------------------------------------

PAIRS = {
    **{
        f"vector, {''.join(map(str, axes))}": (VectorSpace(12), Conv2DSpace((2, 3), 2, axes))
        for axes in ORDERS
    },
    **{
        f"{''.join(map(str, axes))}, cb10": (
            Conv2DSpace((2, 3), 2, axes),
            Conv2DSpace((2, 3), 2, ("c", "b", 1, 0)),
        )
        for axes in ORDERS
    },
    "signal, vector": (Conv1DSpace((6,), 2, ("c", "b", 0)), VectorSpace(12)),
    "film, vector": (Conv3DSpace((2, 3, 1), 2, ("c", 2, 0, "b", 1)), VectorSpace(12)),
    "labels, numbers": (IndexSpace(5, 3), VectorSpace(15)),
    "label, numbers": (IndexSpace(5, 1), VectorSpace(5, dtype="f8")),
    "labels, labels": (IndexSpace(5, 3), IndexSpace(5, 3, dtype="uint8")),
    "words, one by one": (IndexSequenceSpace(5, 1), VectorSequenceSpace(5)),
    "words, several": (IndexSequenceSpace(5, 2, dtype="u1"), VectorSequenceSpace(10, dtype="f8")),
    "bytes, floats": (VectorSpace(3, dtype="u1"), VectorSpace(3, dtype="f4")),
    "bytes, images": (VectorSpace(6, dtype="i2"), Conv2DSpace((2, 3), 1, ("c", 0, 1, "b"), "f4")),
    "truths, bytes": (VectorSpace(3, dtype="?"), VectorSpace(3, dtype="u1")),
    "floats, complex": (VectorSpace(3, dtype="f4"), VectorSpace(3, dtype="c16")),
    "sequences of bytes": (
        SequenceSpace(VectorSpace(6, dtype="u1")),
        SequenceSpace(Conv2DSpace((2, 3), 1, dtype="f4")),
    ),
    "words, vectors": (VectorSequenceSpace(3), VectorSequenceSpace(3, dtype="f8")),
    "pair, vector": (CompositeSpace((VectorSpace(1), VectorSpace(2))), VectorSpace(3)),
    "tree, vector": (
        CompositeSpace((VectorSpace(1), CompositeSpace((Conv1DSpace(2, 3), VectorSpace(2))))),
        VectorSpace(9),
    ),
    "tree, tree": (
        CompositeSpace((VectorSpace(6), CompositeSpace((Conv1DSpace(2, 3), NullSpace())))),
        CompositeSpace((Conv1DSpace(3, 2), CompositeSpace((VectorSpace(6), NullSpace())))),
    ),
    "channels, image": (
        CompositeSpace((Conv2DSpace((2, 3), 1, ("c", 0, 1, "b")), Conv2DSpace((2, 3), 2))),
        Conv2DSpace((2, 3), 3, ("b", "c", 0, 1)),
    ),
    "vectors, image": (
        CompositeSpace((VectorSpace(4), VectorSpace(8))),
        Conv2DSpace((2, 3), 2, ("c", 0, 1, "b")),
    ),
    "sequences": (
        SequenceSpace(VectorSpace(12)),
        SequenceSpace(Conv2DSpace((2, 3), 2, ("c", 0, "b", 1))),
    ),
}


def is_narrower(one, other):
    """Whether batches of another space may have numbers that one has no place for."""
    dtypes = [one.dtype, other.dtype]
    return not {tuple, type(None)} & {*map(type, dtypes)} and not np.can_cast(*dtypes[::-1])


@pytest.mark.parametrize(("source", "target"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("n", [3, 1, 0])
def test_there_and_back(source, target, n):
    for one, other in ((source, target), (target, source)):
        batch = filled(one, n)
        if hasattr(other, "max_labels") or is_narrower(other, one):
            batch = other.np_format_as(filled(other, n), one)
        made = one.np_format_as(batch, other, "exact", argmax=True)
        other.np_validate(made)
        back = one.undo_np_format_as(made, other)
        np.testing.assert_equal(back, batch)
        same(data(one.format_as(viewed(batch), other, "exact", argmax=True)), made)
        np.testing.assert_equal(data(one.undo_format_as(viewed(made), other)), back)


@pytest.mark.parametrize(("source", "target"), PAIRS.values(), ids=PAIRS)
def test_symbols_are_formatted_as_data_are(source, target):
    symbols = source.make_batch("x")
    made = source.format_as(symbols, target)
    target.validate(made)
    batch = filled(source)
    named = {}

    def collect(symbol, part):
        if isinstance(symbol, tuple):
            for pair in zip(symbol, part, strict=True):
                collect(*pair)
        elif symbol is not None:
            named[repr(symbol).split("symbol ")[1]] = part

    def bound(part):
        if isinstance(part, tuple):
            return tuple(map(bound, part))
        if part is None:
            return None
        own = {name: value for name, value in named.items() if name in repr(part)}
        return part._bind(own)()

    collect(symbols, batch)
    np.testing.assert_equal(bound(made), source.np_format_as(batch, target))


def test_a_transposition_copies_nothing():
    images = np.zeros((4, 2, 3, 2))
    for axes in ORDERS:
        found = Conv2DSpace((2, 3), 2).np_format_as(images, Conv2DSpace((2, 3), 2, axes))
        assert np.shares_memory(found, images)
        lazy = Conv2DSpace((2, 3), 2).format_as(dv.View(images), Conv2DSpace((2, 3), 2, axes))
        assert np.shares_memory(lazy(), images)


def test_formatting_a_view_reads_nothing_and_writes_through():
    def unread(number):
        raise AssertionError(number)

    rows = dv.View(unread, _length=6, _fields=((12,), "f8"))
    made = VectorSpace(12).format_as(rows, Conv2DSpace((2, 3), 2, ("c", 0, 1, "b")))
    assert made._shape() == (2, 2, 3, 6)
    memory = np.zeros((5, 12))
    made = VectorSpace(12).format_as(dv.View(memory), Conv2DSpace((2, 3), 2, ("c", 0, 1, "b")))
    made[1, :, :, 2] = 7
    np.testing.assert_array_equal(memory[2], [0, 7] * 6)


ARRAYS = [
    name
    for name, pair in PAIRS.items()
    if not any(isinstance(space, CompositeSpace | SequenceSpace) for space in pair)
]


@given(st.sampled_from(ARRAYS), st.booleans(), st.data())
@examples(200)
def test_every_key_of_a_formatted_view(name, back, draw):
    source, target = PAIRS[name]
    batch = filled(source)
    made = source.np_format_as(batch, target)
    lazy = source.format_as(dv.View(batch), target)
    if back:
        made = source.undo_np_format_as(made, target)
        lazy = source.undo_format_as(lazy, target)
    key = draw.draw(keys(made.shape))
    check_same(lazy, made, lambda subject: subject[key])
    check_same(lazy + 1, made + 1, lambda subject: subject[key])


LAYOUTS = [
    (
        np.arange(8).reshape(2, 4),
        VectorSpace(4),
        Conv2DSpace((2, 1), num_channels=2, axes=("c", 0, 1, "b")),
        [[[[0, 4]], [[2, 6]]], [[[1, 5]], [[3, 7]]]],
    ),
    (
        np.arange(4).reshape(1, 2, 1, 2),
        Conv2DSpace((1, 2), num_channels=2, axes=("b", "c", 0, 1)),
        VectorSpace(4),
        [[0, 2, 1, 3]],
    ),
    ([[0, 2]], IndexSpace(4, 2), VectorSpace(4), [[1, 0, 1, 0]]),
    ([[0, 2]], IndexSpace(4, 2), VectorSpace(8), [[1, 0, 0, 0, 0, 0, 1, 0]]),
    ([[2, 2]], IndexSpace(4, 2), VectorSpace(4), [[0, 0, 1, 0]]),
    (
        [[0], [1], [4], [3]],
        IndexSequenceSpace(6, 1),
        VectorSequenceSpace(6),
        np.eye(6)[[0, 1, 4, 3]],
    ),
    ([[0.1, 0.7, 0.2]], VectorSpace(3), IndexSpace(3, 1), [[1]]),
    ([[0, 1, 9, 8]], VectorSpace(4), IndexSpace(2, 2), [[1, 0]]),
]


@pytest.mark.parametrize(("given", "source", "target", "expected"), LAYOUTS)
def test_the_layout_of_what_comes_out(given, source, target, expected):
    batch = np.asarray(given)
    for found in (
        source.np_format_as(batch, target, argmax=True),
        source.format_as(dv.View(batch), target, argmax=True)(),
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["U1", "S1", "O", "M8[D]", "m8[s]", "V4"])
@pytest.mark.parametrize(
    "space",
    [VectorSpace(2), Conv1DSpace(1, 2), VectorSequenceSpace(2), SequenceSpace(VectorSpace(2))],
)
def test_what_is_no_number_is_in_no_space(space, dtype):
    batch = np.zeros(space.get_origin_batch(1, "f8")[0].shape, dtype)[None]
    if isinstance(space, SequenceSpace):
        batch = np.zeros((1, 1, 2), dtype), np.ones((1, 1))
    viewed = tuple(map(dv.View, batch)) if isinstance(batch, tuple) else dv.View(batch)
    for check in (
        lambda: space.np_validate(batch),
        lambda: space.validate(viewed),
        lambda: CompositeSpace((space,)).np_validate((batch,)),
        lambda: space.np_format_as(batch, space),
    ):
        with pytest.raises(TypeError, match=r"holds numbers; got .*makes"):
            check()
    with pytest.raises(TypeError, match="dtype= is one of numbers"):
        space.with_dtype(dtype)


def test_a_row_with_nan_has_no_largest_number():
    batch = np.array([[0.0, 1.0, 0.0, 2.0], [1.0, 0.0, np.nan, 3.0]])
    whole = VectorSpace(4)
    for target in (IndexSpace(4, 1), IndexSpace(2, 2)):
        for each in (batch, dv.View(batch), batch.astype("c8")):
            with pytest.raises(ValueError, match="row 1 has NaN"):
                np.asarray(whole.format_as(each, target, argmax=True))
    assert whole.np_format_as(batch[:1], IndexSpace(2, 2), argmax=True).tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="row 1 has NaN"):
        IndexSpace(4, 1).undo_np_format_as(batch, whole)


def test_sparse_vectors():
    dense, sparse = VectorSpace(4), VectorSpace(4, sparse=True)
    batch = np.array([[0, 1, 0, 2], [0, 0, 0, 0]])
    made = dense.np_format_as(batch, sparse)
    assert scipy.sparse.issparse(made)
    np.testing.assert_array_equal(sparse.np_format_as(made, dense), batch)
    assert sparse.np_format_as(made, VectorSpace(4, True, "f4")).dtype == np.float32
    assert sparse.get_origin_batch(3, "f4").shape == (3, 4)
    duplicates = IndexSpace(4, 2).np_format_as(np.array([[2, 2]]), sparse)
    np.testing.assert_array_equal(duplicates.toarray(), [[0, 0, 1, 0]])
    images = sparse.np_format_as(made, Conv2DSpace((2, 2), 1))
    np.testing.assert_array_equal(images.reshape(2, 4), batch)
    pair = CompositeSpace((sparse, VectorSpace(1)))
    joined = pair.np_format_as((made, np.ones((2, 1), int)), VectorSpace(5, sparse=True))
    assert joined.toarray()[0].tolist() == [0, 1, 0, 2, 1]
    for wrong, space in ((batch, sparse), (made, dense), (made, IndexSpace(4, 4))):
        with pytest.raises(TypeError, match=r"sparse"):
            space.np_validate(wrong)
    with pytest.raises(TypeError, match="a view is dense"):
        dense.format_as(dv.View(batch), sparse)


NARROWER = ["u1", "i4", "f4", "f8", "c16"]
"""Dtypes, each of which the next ones hold."""


@st.composite
def twelve(draw, dtype=None):
    """A space whose samples have twelve numbers."""
    kind = draw(st.sampled_from(["vector", "signal", "image", "film", "composite"]))
    if kind == "vector":
        return VectorSpace(12, dtype=dtype)
    axes = draw(st.permutations(["b", 0, 1, 2, "c"]))
    if kind == "signal":
        return Conv1DSpace(4, 3, [axis for axis in axes if axis not in (1, 2)], dtype)
    if kind == "image":
        return Conv2DSpace((2, 3), 2, [axis for axis in axes if axis != 2], dtype)
    if kind == "film":
        return Conv3DSpace((2, 3, 1), 2, axes, dtype)
    ends = sorted({*draw(st.lists(st.integers(1, 11), max_size=4)), 12})
    sizes = [end - start for start, end in itertools.pairwise([0, *ends])]
    spaces = [VectorSpace(n, dtype=dtype) for n in sizes]
    if len(spaces) > 1 and draw(st.booleans()):
        cut = draw(st.integers(1, len(spaces) - 1))
        return CompositeSpace((CompositeSpace(spaces[:cut]), *spaces[cut:], NullSpace()))
    return CompositeSpace(spaces)


@st.composite
def two_of_numbers(draw):
    """Two spaces of as many numbers, of which a batch of one can be formatted as the other."""
    dtypes = [None, None]
    if draw(st.booleans()):
        dtypes = sorted(draw(st.lists(st.sampled_from(NARROWER), min_size=2, max_size=2)))
        dtypes.sort(key=NARROWER.index)
    source, target = (draw(twelve(dtype)) for dtype in dtypes)
    kinds = {type(source), type(target)}
    several = [isinstance(space, CompositeSpace) for space in (source, target)]
    alike = len(kinds) == 1 and not all(several)
    if not (alike or VectorSpace in kinds or any(several)) or all(several):
        target = VectorSpace(12, dtype=dtypes[1])
    return source, target


@st.composite
def two_of_labels(draw):
    """Two spaces of labels, or one of them and one of vectors."""
    count, dim = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    kinds = draw(
        st.sampled_from([(IndexSpace, VectorSpace), (IndexSequenceSpace, VectorSequenceSpace)])
    )
    source = kinds[0](count, dim, dtype=draw(st.sampled_from(["u1", "i4", "i8"])))
    if draw(st.booleans()):
        return source, kinds[0](count, dim, dtype=draw(st.sampled_from(["i2", "i8"])))
    return source, kinds[1](count * dim, dtype=draw(st.sampled_from([None, "f8", "u1"])))


@st.composite
def two_spaces(draw):
    """Two spaces of which a batch of one can be formatted as the other, and back."""
    kind = draw(st.sampled_from(["numbers", "labels", "padded", "tree"]))
    if kind == "numbers":
        return draw(two_of_numbers())
    if kind == "labels":
        return draw(two_of_labels())
    if kind == "padded":
        source, target = draw(two_of_numbers())
        if isinstance(source, CompositeSpace) or isinstance(target, CompositeSpace):
            source = target = VectorSpace(12)
        return SequenceSpace(source), SequenceSpace(target)
    parts = draw(st.lists(two_of_numbers() | two_of_labels(), max_size=3))
    parts = [pair for pair in parts if not any(map(of_other_structure, pair))]
    parts += [(NullSpace(), NullSpace())] * draw(st.integers(0, 1))
    sources, targets = zip(*parts, strict=True) if parts else ((), ())
    return CompositeSpace(sources), CompositeSpace(targets)


def of_other_structure(space):
    return isinstance(space, CompositeSpace) or size_for(space) == 1


@given(two_spaces(), st.integers(0, 4))
@examples(300)
def test_any_space_and_back(spaces, n):
    source, target = spaces
    batch = filled(source, n)
    made = source.np_format_as(batch, target)
    target.np_validate(made)
    same(source.undo_np_format_as(made, target), batch)
    given_view = viewed(batch)
    lazy = source.format_as(given_view, target)
    same(data(lazy), made)
    same(data(source.undo_format_as(lazy, target)), batch)
    if isinstance(lazy, dv.View) and lazy is not given_view:
        assert lazy._space == target


# --- what is a batch -----------------------------------------------------------------------------


def is_batch(space, batch):
    """Whether a batch of arrays is one of a space, as the document says it."""
    if isinstance(space, NullSpace):
        return batch is None
    if isinstance(space, CompositeSpace):
        if type(batch) is not tuple or len(batch) != len(space.components):
            return False
        return all(map(is_batch, space.components, batch)) and len(sizes(space, batch)) < 2
    if isinstance(space, SequenceSpace):
        if type(batch) is not tuple or len(batch) != 2:
            return False
        data, mask = batch
        if not (isinstance(data, np.ndarray) and isinstance(mask, np.ndarray)) or not data.ndim:
            return False
        place = 1 + space.space.get_batch_axis()
        steps = all(is_batch(space.space, step) for step in data)
        whole = data.ndim == len(space.extents) and mask.shape == (data.shape[0], data.shape[place])
        return steps and whole and bool(np.isin(mask, (0, 1)).all())
    if not isinstance(batch, np.ndarray) or batch.ndim != len(space.extents):
        return False
    lengths = zip(space.extents, batch.shape, strict=True)
    if not all(wanted in (None, own) for wanted, own in lengths):
        return False
    if hasattr(space, "max_labels"):
        is_whole = batch.dtype.kind in "iub"
        return is_whole and bool(((batch >= 0) & (batch < space.max_labels)).all())
    return space.dtype is None or np.can_cast(batch.dtype, space.dtype, "same_kind")


def sizes(space, batch):
    """The numbers of samples that parts of a batch have."""
    if isinstance(space, CompositeSpace):
        return set().union(*map(sizes, space.components, batch))
    if isinstance(space, NullSpace):
        return set()
    if isinstance(space, SequenceSpace):
        return {batch[1].shape[1]}
    return {1 if size_for(space) == 1 else batch.shape[space.get_batch_axis()]}


def changed(draw, batch):
    """A batch of which something may be another."""
    if isinstance(batch, tuple):
        parts = [changed(draw, part) for part in batch]
        how = draw(st.sampled_from(["same"] * 6 + ["list", "more", "less"]))
        return {
            "same": tuple(parts),
            "list": parts,
            "more": (*parts, None),
            "less": tuple(parts[:-1]),
        }[how]
    if batch is None:
        return draw(st.sampled_from([None, None, None, np.zeros((1, 1))]))
    how = draw(st.sampled_from(["same"] * 8 + ["axis", "length", "dtype", "value", "none", "list"]))
    if how == "axis":
        return batch[None] if draw(st.booleans()) else batch.reshape(-1)
    if how == "length":
        return np.repeat(batch, 2, axis=draw(st.integers(0, batch.ndim - 1)))
    if how == "dtype":
        return batch.astype(draw(st.sampled_from(["f8", "f4", "i8", "c16", ">f4"])))
    if how == "value":
        return batch + batch.dtype.type(draw(st.integers(1, 5)))
    return {"same": batch, "none": None, "list": [*batch]}[how]


ANY = st.one_of(st.sampled_from(list(ALL.values())), two_spaces().map(lambda pair: pair[0]))


@given(ANY, st.integers(1, 3), st.data())
@examples(400)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_validate_accepts_what_zeros_can_be_and_nothing_else(space, n, draw):
    batch = zeros(space, 1 if size_for(space) == 1 else n)
    assert is_batch(space, batch)
    batch = changed(draw.draw, batch)
    if is_batch(space, batch):
        space.np_validate(batch)
        space.validate(viewed(batch))
        assert space.size_if_valid(batch) in {None, *sizes(space, batch)}
        same(space.np_format_as(batch, space), batch) if space.dtype is None else None
    else:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            space.np_validate(batch)
        assert space.size_if_valid(batch) is None


# --- misfits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: VectorSpace(0), ValueError, "dim= is a whole number from 1 on; got 0"),
        (lambda: VectorSpace(2.5), TypeError, "dim= is a whole number; got 2.5"),
        (lambda: VectorSpace(2, dtype="floatX"), TypeError, "name the one"),
        (lambda: Conv2DSpace((2, 3)), TypeError, "which is the same; got neither"),
        (lambda: Conv2DSpace((2, 3), 1, num_channels=1), TypeError, "got both"),
        (lambda: Conv2DSpace((2, 3, 4), 1), ValueError, "has 2 lengths"),
        (lambda: Conv2DSpace((2, -3), 1), ValueError, "from 1 on; got -3"),
        (lambda: Conv2DSpace((2, 3), 1, ("b", "b", "b", "b")), ValueError, "in some order"),
        (lambda: Conv2DSpace((2, 3), 1, ("b", 0, 1, "t")), ValueError, "in some order"),
        (lambda: Conv2DSpace((2, 3), 1, ("b", 0, "1", "c")), ValueError, "in some order"),
        (lambda: IndexSpace(3, 1, dtype="f4"), ValueError, "labels are integers"),
        (lambda: IndexSpace(300, 1, dtype="u1"), ValueError, "uint8 holds labels up to 255"),
        (lambda: IndexSpace(-3, 1), ValueError, "max_labels= is a whole number from 1 on"),
        (lambda: CompositeSpace(VectorSpace(2)), TypeError, "takes a tuple of spaces"),
        (
            lambda: CompositeSpace((VectorSpace(2), "x")),
            TypeError,
            "component 1 .* has to be a space; got .x.",
        ),
        (lambda: SequenceSpace(NullSpace()), TypeError, "steps of a SequenceSpace"),
        (lambda: VectorSequenceSpace(2).make_batch("x", batch_size=3), ValueError, "one sequence"),
        (lambda: VectorSpace(2).get_origin_batch(3), TypeError, "give dtype="),
        (lambda: VectorSequenceSpace(2).get_total_dimension(), TypeError, "differ in length"),
        (lambda: VectorSpace(2).make_theano_batch("x"), AttributeError, "write make_batch"),
        (lambda: VectorSpace(2).validat, AttributeError, "did you mean 'validate'"),
        (lambda: VectorSpace(2, validate_callbacks=print), TypeError, "is a list of functions"),
        (lambda: NullSpace(np_validate_callbacks=[3]), TypeError, "is a list of functions"),
        (lambda: VectorSpace(2).format_as(np.zeros((1, 2)), (2,)), TypeError, "got \\(2,\\)"),
    ],
)
def test_spaces_that_cannot_be(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("make", ["get_origin_batch", "make_shared_batch"])
def test_zeros_of_a_dtype_that_a_space_refuses_are_refused(make):
    for space, dtype in (
        (IndexSpace(4, 1), "f4"),
        (VectorSpace(3, dtype="i4"), "f4"),
        (SequenceSpace(IndexSpace(4, 1)), float),
        (CompositeSpace((VectorSpace(2), IndexSpace(4, 1))), "f8"),
    ):
        with pytest.raises(TypeError, match=r"cannot be cast to int(32|64) .*; leave dtype= out"):
            getattr(space, make)(2, dtype=dtype)
    assert IndexSpace(4, 1).get_origin_batch(2, dtype="u1").dtype == np.uint8


OVERFLOWS = [
    ("f8", 1e300, "f4"), ("f8", -7e4, "f2"), (">f8", 1e39, "<f4"), ("f4", 1e5, "f2"),
    ("i8", 10**6, "f2"), ("u2", 65535, "f2"), ("c16", 1e300, "c8"), ("c16", 1e300j, "c8"),
    ("f8", 1e300, "c8"), ("i8", 300, "i1"), ("i2", -1, "u1"), ("u4", 256, "u1"),
    ("g", np.finfo("g").max, "f4"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "value", "wanted"), OVERFLOWS)
def test_numbers_that_would_become_infinite_are_refused_everywhere(given, value, wanted):
    batch = np.zeros((3, 4), given)
    batch[2, 1] = value
    told = f"{re.escape(str(batch[2, 1]))} does not fit into {np.dtype(wanted)}; {batch.dtype} hol"
    any_dtype, narrow = VectorSpace(4), VectorSpace(4, dtype=wanted)
    images = Conv2DSpace((2, 2), 1, ("c", 0, 1, "b"), dtype=wanted)
    with pytest.raises(OverflowError, match=f"^the batch, as {re.escape(repr(narrow))}: {told}"):
        narrow.np_validate(batch)
    for target in (narrow, images):
        with pytest.raises(OverflowError, match=f"^the batch: {told}"):
            any_dtype.np_format_as(batch, target)
        with pytest.raises(OverflowError, match=f"^the batch: {told}"):
            any_dtype.format_as(dv.View(batch), target)()
    d = dv.View(x=batch)
    with pytest.raises(OverflowError, match=f"^source 'x': {told}"):
        d._get((narrow, "x"))()
    np.testing.assert_array_equal(d._get((narrow, "x"))[:2](), np.zeros((2, 4), wanted))
    with pytest.raises(OverflowError, match=f"^source 'x': {told}"):
        [each() for each in d._minibatches(2, spec=(narrow, "x"))]
    with pytest.raises(OverflowError, match=f"^sample 2: source 'x', .*: {told}"):
        list(d._loader(2, spec=(narrow, "x")))


def test_what_is_infinite_already_or_no_number_stays_so():
    batch = np.array([[np.inf, -np.inf, np.nan, 1e-300, 3.4e38]])
    target = VectorSpace(5, dtype="f4")
    for found in (
        VectorSpace(5).np_format_as(batch, target),
        VectorSpace(5).format_as(dv.View(batch), target)(),
        dv.View(x=batch)._get((target, "x"))(),
    ):
        np.testing.assert_array_equal(found, batch.astype("f4"))
    with np.errstate(over="ignore"):
        found = VectorSpace(1).np_format_as(
            np.array([[1e300]]), VectorSpace(1, dtype="f4"), "unsafe"
        )
    assert np.isinf(found)


BOTH = CompositeSpace((VectorSpace(1), VectorSpace(1)))
MISFITS = [
    (VectorSpace(4), np.zeros((4, 3)), ValueError, "4 features; got 3 .* axis 1 .* \\(4, 3\\)"),
    (VectorSpace(1), np.zeros(3), ValueError, r"2 axes .* \(3,\); batch\[:, None\]"),
    (IndexSpace(9, 1), np.zeros(3, int), ValueError, r"batch\[:, None\]"),
    (IndexSpace(9, 1), np.zeros((3, 1)), TypeError, "float64.* holds int64"),
    (IndexSpace(4, 1), np.array([[0], [4]]), ValueError, "label 4 in row 1 is out of range"),
    (IndexSpace(4, 1), np.array([[-1]]), ValueError, "label -1 in row 0 is out of range"),
    (VectorSpace(1, dtype="f4"), np.zeros((1, 1), complex), TypeError, "complex128"),
    (VectorSpace(1, dtype="i4"), np.zeros((1, 1)), TypeError, "lose"),
    (VectorSpace(1, dtype="u1"), np.array([[300]]), OverflowError, "300 does not fit into uint8"),
    (VectorSpace(1, dtype="f4"), np.array([["a"]]), TypeError, "<U1"),
    (Conv2DSpace((2, 3), 1, ("c", 0, 1, "b")), np.zeros((1, 2, 3)), ValueError, "dims.batch, 3"),
    (VectorSpace(1), np.ma.masked_array([[1.0]], mask=True), TypeError, "lose its mask"),
    (Conv2DSpace((2, 3), 1, ("c", 0, 1, "b")), np.zeros((1, 2, 3)), ValueError, "dims.batch, 3"),
    (VectorSpace(1), np.matrix([[1.0]]), TypeError, "got a matrix.* np.asarray"),
    (VectorSpace(1), np.float64(3), TypeError, "an array or a view; got float64"),
    (Conv2DSpace((2, 3), 1), np.zeros((5, 3, 2, 1)), ValueError, "2 rows; got 3 of them, in axis"),
    (Conv2DSpace((2, 3), 1), np.zeros((5, 2, 3, 2)), ValueError, "1 channels; got 2"),
    (
        BOTH,
        (np.zeros((2, 1)), np.zeros((3, 1))),
        ValueError,
        r"got 2 in the batch\[0\], 3 in the batch\[1\]",
    ),
    (BOTH, (np.zeros((2, 1)),), ValueError, "expected 2 elements"),
    (BOTH, [np.zeros((2, 1))] * 2, TypeError, "takes a tuple; got list"),
    (BOTH, (np.zeros((2, 1)), np.zeros((2, 5))), ValueError, r"batch\[1\]: .* got 5"),
    (NullSpace(), np.zeros(3), TypeError, "takes None"),
    (SequenceSpace(VectorSpace(2)), np.zeros((3, 2, 2)), TypeError, "tuple of data and mask"),
    (
        SequenceSpace(VectorSpace(2)),
        (np.zeros((3, 2, 2)), np.ones((2, 3))),
        ValueError,
        "mask of the shape",
    ),
    (
        SequenceSpace(VectorSpace(2)),
        (np.zeros((3, 2, 2)), np.full((3, 2), 0.5)),
        ValueError,
        "mask is 1",
    ),
]


@pytest.mark.parametrize(("space", "batch", "error", "text"), MISFITS)
def test_misfits_say_what_and_where(space, batch, error, text):
    with pytest.raises(error, match=text):
        space.np_validate(batch)
    with pytest.raises(error, match=text):
        space.np_format_as(batch, space)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (Conv2DSpace((2, 3), 1), Conv2DSpace((3, 2), 1), "shapes and channels"),
        (Conv2DSpace((2, 3), 2), Conv2DSpace((2, 3), 3), "shapes and channels"),
        (Conv2DSpace((2, 3), 2), VectorSpace(11), "12 numbers, not 11"),
        (VectorSpace(3), VectorSpace(4), "3 numbers, not 4"),
        (VectorSpace(4), IndexSpace(4, 1), "argmax=True"),
        (IndexSpace(4, 2), VectorSpace(5), "merged they have 4 .* side by side 8, not 5"),
        (IndexSpace(4, 2), IndexSpace(5, 2), "among as many labels"),
        (VectorSequenceSpace(3), VectorSpace(3), "cannot be formatted"),
        (BOTH, VectorSpace(3), "2 numbers, not 3"),
        (BOTH, CompositeSpace((VectorSpace(1), CompositeSpace((VectorSpace(1),)))), "trees"),
        (BOTH, CompositeSpace((VectorSpace(1),)), "trees differ"),
        (
            CompositeSpace((Conv2DSpace((2, 1), 1), VectorSpace(2))),
            Conv2DSpace((2, 2), 1),
            "images",
        ),
        (CompositeSpace((IndexSpace(3, 1), VectorSpace(2))), VectorSpace(3), "no place"),
        (NullSpace(), VectorSpace(3), "cannot be formatted"),
    ],
)
def test_conversions_that_are_none(source, target, text):
    batch = filled(source, size_for(source))
    with pytest.raises(ValueError, match=text):
        source.np_format_as(batch, target)
    if batch is not None:
        with pytest.raises(ValueError, match=text):
            source.format_as(viewed(batch), target)


def test_what_a_cast_would_lose():
    batch = np.array([[1.7, 2.0]])
    for each in (batch, dv.View(batch)):
        with pytest.raises(TypeError, match="casting='unsafe'"):
            VectorSpace(2).format_as(each, VectorSpace(2, dtype="i8"))
        found = VectorSpace(2).format_as(each, VectorSpace(2, dtype="i8"), casting="unsafe")
        np.testing.assert_array_equal(found, [[1, 2]])
        assert VectorSpace(2).format_as(each, VectorSpace(2, dtype="f4")).dtype == np.float32
    integers = np.array([[1, 300]])
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        VectorSpace(2).np_format_as(integers, VectorSpace(2, dtype="u1"))
    lazy = VectorSpace(2).format_as(dv.View(integers), VectorSpace(2, dtype="u1"))
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        lazy()
    for numbers in ([[2.5]], [[np.nan]], [[-1.0]], [[300.0]]):
        whole = VectorSpace(1, dtype="u1")
        floats, batch = VectorSpace(1, dtype="f8"), np.array(numbers)
        with pytest.raises(OverflowError, match="does not fit into uint8"):
            whole.undo_np_format_as(batch, floats)
        with pytest.raises(OverflowError, match="does not fit into uint8"):
            whole.undo_format_as(dv.View(batch), floats)()
    pieces = (np.zeros((1, 1)), np.zeros((1, 1), "f4"))
    with pytest.raises(TypeError, match="float64 and float32"):
        BOTH.np_format_as(pieces, VectorSpace(2))
    assert BOTH.np_format_as(pieces, VectorSpace(2, dtype="f4")).dtype == np.float32


def test_labels_of_a_view_are_checked_when_they_are_read():
    labels = dv.View(np.array([[0], [3], [-1], [1]]))
    for target in (VectorSpace(4), IndexSpace(4, 1, dtype="int16")):
        source = IndexSpace(4 if target.dim == 4 else None, 1)
        made = source.format_as(labels, target)
        assert made[:2]._shape()[0] == 2
        made[:2]()
        with pytest.raises(ValueError, match="label -1 in row 2 is out of range"):
            made()
    with pytest.raises(ValueError, match=r"not known; declare it"):
        IndexSpace(None, 1).format_as(labels, VectorSpace(4))


def test_a_batch_of_views_and_arrays_is_symbolic():
    parts = (np.ones((2, 1)), dv.View(np.zeros((2, 1))))
    assert BOTH.format_as(parts, VectorSpace(2))().tolist() == [[1, 0], [1, 0]]
    images = CompositeSpace((Conv1DSpace(2, 1, ("c", 0, "b")),) * 2)
    parts = (np.ones((1, 2, 3)), dv.View(np.zeros((1, 2, 3))))
    assert images.format_as(parts, Conv1DSpace(2, 2, ("c", 0, "b")))()[:, 0, 0].tolist() == [1, 0]


SELF = {
    "labels": (IndexSpace(3, 1), [[7]], "label 7 in row 0 is out of range: .* from 0 to 2"),
    "negative": (IndexSpace(3, 1), [[2], [-1]], "label -1 in row 1 is out of range: .* to 2"),
    "one sequence": (IndexSequenceSpace(3), [[-1]], "label -1 in row 0 is out of range"),
    "sequences": (
        SequenceSpace(IndexSpace(3, 1)), ([[[1]], [[7]]], [[1.0], [1.0]]),
        "label 7 in step 1 of row 0 is out of range",
    ),
    "mask": (
        SequenceSpace(VectorSpace(1)), ([[[7], [7]]], [[1.0, 2.0]]),
        "mask: a mask is 1 where there are data and 0 elsewhere",
    ),
    "parts": (
        CompositeSpace((VectorSpace(1), IndexSpace(3, 1))), ([[7]], [[7]]), "label 7 in row 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("space", "batch", "text"), SELF.values(), ids=SELF)
def test_views_are_checked_in_their_own_space_as_arrays_are(space, batch, text):
    batch = tuple(map(np.array, batch)) if isinstance(batch, tuple) else np.array(batch)
    views, symbols = viewed(batch), space.make_batch("x")
    inputs, given = (list(symbols), batch) if isinstance(batch, tuple) else ([symbols], (batch,))
    compute = dv.function(inputs, space.format_as(symbols, space))
    for way in (
        lambda: space.np_validate(batch),
        lambda: space.np_format_as(batch, space),
        lambda: data(space.format_as(views, space)),
        lambda: data(space.undo_format_as(views, space)),
        lambda: compute(*given),
    ):
        with pytest.raises(ValueError, match=text):
            way()


def test_labels_are_checked_as_their_own_space_and_as_another():
    unknown = IndexSpace(None, 1)
    narrow = IndexSpace(3, 1, dtype="u1")
    for labels in (np.array([[0], [-1]]), dv.View([[0], [-1]])):
        with pytest.raises(ValueError, match=r"label -1 in row 1 is out of range: .* from 0 to 2"):
            np.asarray(narrow.format_as(labels, narrow))
    for labels, text in (([[-1]], "from 0 on"), ([[1], [5]], "label 5 in row 1 .* from 0 to 3")):
        for batch in (np.array(labels), dv.View(np.array(labels))):
            with pytest.raises(ValueError, match=text):
                np.asarray(unknown.format_as(batch, IndexSpace(4, 1)))


# --- composites, names, roles --------------------------------------------------------------------


def test_the_parts_of_a_composite_that_is_formatted_tell_their_spaces():
    images = Conv2DSpace((2, 2), 3, axes=("b", "c", 0, 1))
    vectors, labels = VectorSpace(12), IndexSpace(4, 1)
    given = CompositeSpace((vectors, CompositeSpace((images, labels)), NullSpace()))
    wanted = CompositeSpace((images, CompositeSpace((vectors, VectorSpace(4))), NullSpace()))
    batch = (
        dv.View(np.zeros((5, 12))),
        (dv.View(np.zeros((5, 3, 2, 2))), dv.View([[1]] * 5)),
        None,
    )
    first, (second, third), nothing = given.format_as(batch, wanted)
    assert first._space == images
    assert second._space == vectors
    assert third._space.with_dtype(None) == VectorSpace(4)
    assert nothing is None


def test_restricted_composites():
    parts = (VectorSpace(1), VectorSpace(2), Conv1DSpace(3, 1))
    whole = CompositeSpace(parts)
    batch = filled(whole)
    assert whole.restrict([2, 0]) == CompositeSpace((parts[2], parts[0]))
    assert whole.restrict([1]) == parts[1]
    assert whole.restrict_batch(batch, [1]) is batch[1]
    assert [part.shape for part in whole.restrict_batch(batch, [2, 0])] == [(3, 3, 1), (3, 1)]
    assert len(viewed(batch)) == len(whole.restrict_batch(viewed(batch), [0, 1])) + 1
    with pytest.raises(IndexError, match="no component 3"):
        whole.restrict([3])
    assert whole.dtype == (None, None, None)
    assert whole.with_dtype("f4").dtype == (np.dtype("f4"),) * 3
    assert whole.with_dtype(("f4", None, "f8")).components[2].dtype == np.dtype("f8")
    assert whole.get_total_dimension() == 6
    assert CompositeSpace(whole) == whole
    assert CompositeSpace((NullSpace(), VectorSpace(2))).np_batch_size((None, batch[1])) == 3


def test_the_names_of_placeholders():
    both = CompositeSpace((VectorSpace(2), CompositeSpace((VectorSpace(3), IndexSpace(4, 1)))))
    first, (second, third) = both.make_batch(name="input")
    assert [repr(part).split("symbol ")[1] for part in (first, second, third)] == [
        "input[0]",
        "input[1][0]",
        "input[1][1]",
    ]
    assert third.dtype == np.int64
    assert first._shape() == (None, 2)
    assert VectorSpace(2).make_batch("x", dtype="f4", batch_size=5)._shape() == (5, 2)
    one, other = VectorSpace(2).make_batch(), VectorSpace(2).make_batch()
    assert repr(one) != repr(other)


@pytest.mark.parametrize(
    ("space", "roles"),
    [
        (VectorSpace(3), "batch features"),
        (Conv1DSpace(3, 2), "batch time channels"),
        (Conv2DSpace((2, 3), 1, ("c", 1, 0, "b")), "channels columns rows batch"),
        (Conv3DSpace((2, 3, 4), 1), "batch time rows columns channels"),
        (IndexSpace(3, 1), "batch labels"),
        (VectorSequenceSpace(3), "time features"),
        (IndexSequenceSpace(3, 1), "time labels"),
        (SequenceSpace(Conv2DSpace((2, 3), 1)), "time batch rows columns channels"),
        (NullSpace(), ""),
    ],
)
def test_the_roles_of_axes(space, roles):
    assert list(space.roles) == roles.split()
    assert len(space.extents) == len(space.roles)
    for axis, role in enumerate(space.roles):
        assert space.axis_of(role) == axis
    assert all(space.axis_of(role) is None for role in {*ROLES} - {*space.roles})
    with pytest.raises(ValueError, match=r"one of the roles batch, .*'row'; did you mean 'rows'"):
        space.axis_of("row")


@given(st.data())
@examples(150)
def test_labels_are_in_range_whatever_their_dtype(data):
    name = data.draw(st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4"]))
    dtype = np.dtype(data.draw(st.sampled_from("<>")) + name)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edges = [low, high, -1, 0, 1, 127, 128, 255, 300, 70000, 2**31]
    edges = [n for n in edges if low <= n <= high]
    labels = data.draw(st.lists(st.sampled_from(edges), max_size=3))
    count = data.draw(st.sampled_from([None, 1, 2, 128, 129, 256, 300, 70000, 2**31, 2**33]))
    batch = np.array(labels, dtype).reshape(-1, 1)
    space = IndexSpace(count, 1)
    wrong = [n for n in labels if n < 0 or (count is not None and n >= count)]
    d = dv.View(y=batch[:, 0])
    asked = space, "y"
    ways = [
        lambda: space.np_validate(batch),
        lambda: d._get(asked)(),
        lambda: list(d._loader(4, spec=asked)),
        lambda: [each() for each in d._minibatches(4, spec=asked)],
        lambda: dv.View(d, _spaces={"y": space})._get(asked)(),
        lambda: dv.function([], space.format_as(dv.View(batch), space.with_dtype("u8")))(),
    ]
    if count is not None and count < 300:
        ways.append(lambda: space.np_format_as(batch, VectorSpace(count)))
        ways.append(lambda: space.format_as(dv.View(batch), VectorSpace(count))())
    for way in ways:
        if wrong:
            with pytest.raises((ValueError, OverflowError), match=r"out of range|does not fit"):
                way()
        else:
            way()


@given(st.data())
@examples(150)
def test_an_exact_cast_keeps_the_numbers_up_to_digits(data):
    numbers = [0, 1, -1, 255, 70000, 2**24 + 1, 2**40, 2**60 + 1, 2**63 - 1, 0.5, 0.1, 1e300, 1e5]
    numbers += [np.inf, np.nan]
    given = np.dtype(data.draw(st.sampled_from(["i8", "f8", "c16", "i4", "f4"])))
    wanted = np.dtype(data.draw(st.sampled_from(["f2", "f4", "c8", "u1", "i4", "?", "f8"])))
    chosen = data.draw(st.sampled_from(numbers))
    with np.errstate(all="ignore"):
        batch = np.array([[chosen]]).astype(given)
        if given.kind == "c" and data.draw(st.booleans()):
            batch += 1j
        found = (batch if wanted.kind == "c" else batch.real).astype(wanted)
        near = np.isclose(found.real, batch.real, rtol=1e-3, atol=0, equal_nan=True)
    near &= found.imag == batch.imag
    if given.kind == "i":
        near &= np.array(float(found[0, 0].real) == int(batch[0, 0]))
    is_kept = bool(near.all() if wanted.kind in "fc" else (found == batch).all())
    source, target = VectorSpace(1, dtype=given), VectorSpace(1, dtype=wanted)
    for way in (
        lambda: source.np_format_as(batch, target, "exact"),
        lambda: source.format_as(dv.View(batch), target, "exact")(),
        lambda: target.undo_np_format_as(batch, source),
    ):
        if is_kept:
            np.testing.assert_array_equal(way(), found)
        else:
            with pytest.raises(OverflowError, match=f"does not fit into {wanted}"):
                way()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_matrices_of_all_forms_are_cast(form):
    dense = np.array([[0, 1.5], [2, 0]])
    batch = scipy.sparse.csr_array(dense).asformat(form)
    any_dtype, floats = VectorSpace(2, sparse=True), VectorSpace(2, sparse=True, dtype="f4")
    found = any_dtype.np_format_as(batch, floats)
    assert (found.dtype, found.format) == (np.float32, form)
    np.testing.assert_array_equal(found.toarray(), dense)
    wide = scipy.sparse.csr_array(np.array([[0, 300]])).asformat(form)
    bytes_ = VectorSpace(2, sparse=True, dtype="i1")
    for way in (lambda: any_dtype.np_format_as(wide, bytes_), lambda: bytes_.np_validate(wide)):
        with pytest.raises(OverflowError, match="300 does not fit into int8"):
            way()


def test_numbers_that_stand_twice_in_a_sparse_matrix_are_summed_before_they_are_cast():
    twice = scipy.sparse.coo_array(([100, 100], ([0, 0], [0, 0])), shape=(1, 2))
    rows = scipy.sparse.csr_array(([100, 100], [0, 0], [0, 2]), shape=(1, 2))
    bytes_ = VectorSpace(2, sparse=True, dtype="i1")
    for batch in (twice, rows):
        with pytest.raises(OverflowError, match="200 does not fit into int8"):
            VectorSpace(2, sparse=True).np_format_as(batch, bytes_)
        with pytest.raises(OverflowError, match="200 does not fit into int8"):
            bytes_.np_validate(batch)
        assert batch.nnz == 2
        found = VectorSpace(2, sparse=True).np_format_as(batch, bytes_.with_dtype("u1"))
        assert found.toarray().tolist() == [[200, 0]]


def peak_of(function):
    """The most bytes that a call held at once."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_sparse_batches_are_made_of_sparse_ones_and_of_labels():
    wide, rows = 50_000, 200
    labels = np.random.default_rng(0).integers(0, wide, (rows, 2))
    space = IndexSpace(wide, 2)
    merged, beside = VectorSpace(wide, sparse=True), VectorSpace(2 * wide, sparse=True, dtype="i1")
    one, two = space.np_format_as(labels, merged), space.np_format_as(labels, beside)
    assert (one.dtype, two.dtype) == (np.float32, np.int8)
    np.testing.assert_array_equal(one.indices.reshape(rows, 2), np.sort(labels))
    np.testing.assert_array_equal(two.indices.reshape(rows, 2), labels + np.array([0, wide]))
    assert one.data.tolist() == two.data.tolist() == [1] * rows * 2
    pair = CompositeSpace((VectorSpace(wide, sparse=True), merged))
    parts = two[:, :wide], two[:, wide:]
    both = pair.np_format_as(parts, beside)
    assert (both != two).nnz == 0
    for found, part in zip(beside.np_format_as(two.tocoo(), pair), parts, strict=True):
        assert (found.dtype, (found != part).nnz) == (np.int8, 0)
    for step in (
        lambda: space.np_format_as(labels, merged),
        lambda: space.np_format_as(labels, beside),
        lambda: pair.np_format_as(parts, beside),
        lambda: beside.np_format_as(two, pair),
    ):
        step()
        assert peak_of(step) < rows * wide / 20
    empty = IndexSpace(4, 2).np_format_as(np.zeros((0, 2), int), VectorSpace(8, sparse=True))
    assert empty.shape == (0, 8)


def test_whether_a_space_is_sparse_is_a_truth_value():
    for wrong in ("float32", "no", 1, None):
        with pytest.raises(TypeError, match="sparse= is True or False; got"):
            VectorSpace(3, wrong)
    assert VectorSpace(3, np.True_).sparse is True


def test_a_label_in_a_sequence_is_named_by_its_sequence():
    labels = SequenceSpace(IndexSpace(9, 1))
    d = dv.View(w=dv.ragged([[1, 2], [3, 30]]), _spaces={"w": labels})
    batch = np.array([[[1], [3]], [[2], [30]]], "i4"), np.ones((2, 2), "f4")
    for space in (labels, SequenceSpace(VectorSpace(9))):
        for way in (
            lambda space=space: d._get((space, "w"))[0](),
            lambda space=space: next(d._loader(2, spec=(space, "w"))),
            lambda space=space: labels.np_format_as(batch, space),
        ):
            with pytest.raises(ValueError, match="label 30 in step 1 of row 1 is out of range"):
                way()


def test_what_is_given_in_place_of_what_is_meant():
    vectors = VectorSpace(2)
    for wrong, text in (
        (lambda: CompositeSpace(vectors, vectors), r"as in CompositeSpace\(\(space, space\)\)"),
        (lambda: CompositeSpace(vectors), r"as in CompositeSpace\(\(space, space\)\)"),
        (lambda: dv.spaces.Space(), "what all spaces have in common"),
        (lambda: dv.View(np.zeros((2, 2)), _spaces=[vectors]), r"a space for each field, \{name:"),
        (lambda: dv.View(np.zeros((2, 2)), _spaces=vectors), r"a space for each field, \{name:"),
        (lambda: IndexSpace(3, 1).make_batch("x", "f8"), "float64 cannot be cast to int64"),
        (
            lambda: dv.specs.MonitorChannel(None, lambda: 5, "five", (NullSpace(), "")),
            "got <function.*; call it",
        ),
    ):
        with pytest.raises(TypeError, match=text):
            wrong()
    assert Conv2DSpace(np.array([2, 3]), 1) == Conv2DSpace((2, 3), 1)
    for axes in (("b", 0, 1, "c"), ("c", 0, 1, "b")):
        with pytest.raises(ValueError, match=r"no axes .* shape is \(2, 3\)"):
            Conv2DSpace.convert(np.zeros((2, 3)), ("b", 0, 1, "c"), axes)
    turned = Conv2DSpace.convert_numpy(np.zeros((2, 3, 4, 5)), ("b", "c", 0, 1), ("c", 0, 1, "b"))
    assert turned.shape == (3, 4, 5, 2)


def test_shared_batches_are_named():
    for space in (VectorSpace(2), CompositeSpace((VectorSpace(2), NullSpace(), IndexSpace(3, 1)))):
        batch = space.make_shared_batch(2, "input", "i8")
        parts = batch if isinstance(batch, tuple) else (batch,)
        for number, part in enumerate(parts):
            name = f"input[{number}]" if isinstance(batch, tuple) else "input"
            assert part is None or name in repr(part + 1)
        space.validate(batch)


@pytest.mark.parametrize("order", "<>")
def test_vectors_that_are_joined_keep_their_order_of_bytes(order):
    pair = CompositeSpace((VectorSpace(1), VectorSpace(2)))
    parts = np.ones((2, 1), order + "f4"), np.ones((2, 2), order + "f4")
    assert pair.np_format_as(parts, VectorSpace(3)).dtype == np.dtype(order + "f4")
    found = pair.format_as(tuple(map(dv.View, parts)), VectorSpace(3))
    assert found._dtype() == found().dtype == np.dtype(order + "f4")
    images = CompositeSpace((Conv1DSpace(1, 1), Conv1DSpace(1, 2)))
    planes = tuple(part[:, None] for part in parts)
    for each in (planes, viewed(planes)):
        found = images.format_as(each, Conv1DSpace(1, 3))
        assert data(found).dtype == np.dtype(order + "f4")


PARTS_OF_TWO_DTYPES = {
    "vector": (VectorSpace(2), VectorSpace(4)),
    "image": (VectorSpace(2), Conv2DSpace((2, 2), 1)),
    "channels": (Conv1DSpace(2, 1), Conv1DSpace(2, 2)),
}


@pytest.mark.parametrize(("own", "target"), PARTS_OF_TWO_DTYPES.values(), ids=PARTS_OF_TWO_DTYPES)
def test_parts_of_two_dtypes_are_joined_in_the_dtype_that_is_asked_for(own, target):
    shape = own.get_origin_batch(3, "f8").shape
    batch = np.ones(shape, "i4"), np.full(shape, 0.5)
    pair, floats = CompositeSpace((own, own)), target.with_dtype("f4")
    expected = pair.np_format_as((batch[0].astype("f4"), batch[1].astype("f4")), floats)
    for parts in (batch, viewed(batch)):
        told = f"int32 and float64; say by dtype= which of them {re.escape(repr(target))} is to hol"
        with pytest.raises(TypeError, match=told):
            pair.format_as(parts, target)
        same(data(pair.format_as(parts, floats)), expected)


def test_labels_in_either_order_of_bytes_are_checked():
    for order in "<>":
        with pytest.raises(ValueError, match="label -1 in row 0"):
            IndexSpace(300, 1).np_validate(np.array([[-1]], order + "i2"))
        IndexSpace(300, 1).np_validate(np.array([[299]], order + "i2"))


def test_all_steps_of_sequences_are_checked():
    wide = SequenceSpace(VectorSpace(1, dtype="u1"))
    data = np.array([[[3]], [[300]]])
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        wide.np_validate((data, np.ones((2, 1), "f4")))
    labels = SequenceSpace(IndexSpace(3, 1))
    with pytest.raises(ValueError, match="label 3 in step 1 of row 0"):
        labels.np_validate((data // 100, np.ones((2, 1), "f4")))


def test_sequences_without_steps_are_checked():
    vectors, mask = SequenceSpace(VectorSpace(3, dtype="i4")), np.zeros((0, 2))
    vectors.np_validate((np.zeros((0, 2, 3), "i8"), mask))
    with pytest.raises(ValueError, match="3 features; got 5 of them"):
        vectors.np_validate((np.zeros((0, 2, 5), "i4"), mask))
    with pytest.raises(TypeError, match="the data are float64"):
        vectors.np_validate((np.zeros((0, 2, 3)), mask))


def test_numbers_of_all_steps_fit():
    data = np.array([[[1.0]], [[1e300]]])
    with pytest.raises(OverflowError, match="does not fit into float32"):
        SequenceSpace(VectorSpace(1, dtype="f4")).np_validate((data, np.ones((2, 1))))


def test_a_batch_that_is_one_already_stays_the_same_object():
    heard = [VectorSpace(2, validate_callbacks=[repr]), VectorSpace(2)]
    batch, view = np.ones((3, 2)), dv.View(np.ones((3, 2)))
    for source, target in itertools.product(heard, heard):
        assert source.np_format_as(batch, target) is batch
        assert source.format_as(view, target) is view
    parts = VectorSpace(2), NullSpace()
    pairs = [CompositeSpace(parts, np_validate_callbacks=called) for called in ((), [repr])]
    for source, target in itertools.product(pairs, pairs):
        both = batch, None
        assert source.np_format_as(both, target) is both


def test_the_module_lists_what_users_need():
    names = dir(dv.spaces)
    assert "VectorSpace" in names and "CompositeSpace" in names
    assert all(issubclass(getattr(dv.spaces, name), dv.spaces.Space) for name in names)
