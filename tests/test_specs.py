"""Data specifications: pairs of space and source, flat and nested, and what datasets deliver."""

from __future__ import annotations

import collections
import contextlib
import copy
import importlib
import inspect
import math
import pickle

import h5py
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.index import gather
from dataview.plan import build as building
from dataview.plan import layout
from dataview.sources import Source
from dataview.spaces import (
    CompositeSpace,
    Conv2DSpace,
    IndexSequenceSpace,
    IndexSpace,
    NullSpace,
    SequenceSpace,
    VectorSequenceSpace,
    VectorSpace,
    delivery,
    fields,
)
from dataview.spaces.specs import (
    DataSpecs,
    DataSpecsMapping,
    MonitorChannel,
    combine,
    is_flat_source,
    is_flat_space,
    is_flat_specs,
)
from oracle import examples

VECTORS = VectorSpace(dim=32 * 32 * 3)
IMAGES = Conv2DSpace(shape=(32, 32), num_channels=3, axes=("b", "c", 0, 1))
TARGETS = VectorSpace(dim=10)
THREE = CompositeSpace((VECTORS, VECTORS, VECTORS))

# The data specifications of Pylearn2's documentation, with the shapes of a batch of 5.
CORRECT = [
    ((VECTORS, "features"), (5, 3072)),
    ((IMAGES, "features"), (5, 3, 32, 32)),
    ((TARGETS, "targets"), (5, 10)),
    ((CompositeSpace((VECTORS, TARGETS)), ("features", "targets")), ((5, 3072), (5, 10))),
    ((CompositeSpace((TARGETS, IMAGES)), ("targets", "features")), ((5, 10), (5, 3, 32, 32))),
    (
        (
            CompositeSpace((VECTORS, VECTORS, VECTORS, TARGETS)),
            ("features", "features", "features", "targets"),
        ),
        ((5, 3072), (5, 3072), (5, 3072), (5, 10)),
    ),
    (
        (CompositeSpace((THREE, TARGETS)), (("features", "features", "features"), "targets")),
        (((5, 3072), (5, 3072), (5, 3072)), (5, 10)),
    ),
]
INCORRECT = [
    (CompositeSpace((VECTORS, IMAGES)), "features"),
    (CompositeSpace((VECTORS,)), "features"),
    (
        CompositeSpace((VECTORS, VECTORS, VECTORS, TARGETS)),
        (("features", "features", "features"), "targets"),
    ),
    (CompositeSpace((THREE, TARGETS)), ("features", "features", "features", "targets")),
]


class Asked(Counting):
    """Rows that are noted whenever they are made, declared so that nothing is read before."""

    def view(self, n, shape, dtype="f8"):
        return dv.View(self, _length=n, _fields=(shape, dtype))


def images_and_targets(n=5):
    """Images that note which rows are read, and targets."""
    rng = np.random.default_rng(0)
    pictures = rng.random((n, 3072))
    source = Asked(lambda number: pictures[number])
    targets = np.eye(10)[np.arange(n) % 10]
    return source, pictures, dv.View(features=source.view(n, (3072,)), targets=targets)


def shapes(batch):
    if isinstance(batch, tuple):
        return tuple(map(shapes, batch))
    return batch._shape() if isinstance(batch, dv.View) else batch.shape


# --- structure -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "expected"), CORRECT)
def test_correct_specifications(spec, expected):
    _, pictures, d = images_and_targets()
    assert DataSpecs(*spec) == spec
    found = d._get(spec)
    assert shapes(found) == expected
    assert shapes(next(d._loader(5, spec=spec))) == expected
    (only,) = d._minibatches(5, spec=spec)
    assert shapes(only) == expected
    flat = [*_leaves(found)]
    for one, other in zip(flat, _leaves(next(d._loader(5, spec=spec))), strict=True):
        np.testing.assert_array_equal(one(), other)
    if spec[1] == "features":
        order = pictures.reshape(5, 32, 32, 3).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(found(), pictures if found._ndim() == 2 else order)


def _leaves(batch):
    if isinstance(batch, tuple):
        for part in batch:
            yield from _leaves(part)
    else:
        yield batch


@pytest.mark.parametrize("spec", INCORRECT)
def test_misfits_of_structure_when_the_specification_is_built(spec):
    source, _, d = images_and_targets()
    for build in (
        lambda: DataSpecs(*spec),
        lambda: DataSpecsMapping(spec),
        lambda: combine(spec),
        lambda: d._get(spec),
        lambda: d._loader(2, spec=spec),
        lambda: d._minibatches(2, spec=spec),
    ):
        with pytest.raises((TypeError, ValueError), match="the source of a CompositeSpace of"):
            build()
    assert not source.asked


def test_a_misfit_of_width_when_data_are_asked_for():
    source, _, d = images_and_targets()
    spec = DataSpecs(TARGETS, "features")
    for build in (
        lambda: d._get(spec),
        lambda: d._loader(2, spec=spec),
        lambda: d._minibatches(2, spec=spec),
    ):
        with pytest.raises(ValueError, match=r"'features'.*3072 numbers, not 10"):
            build()
    assert not source.asked


@pytest.mark.parametrize(
    ("space", "source", "error", "text"),
    [
        (CompositeSpace((VECTORS, TARGETS)), "fg", TypeError, "a tuple of 2 sources; got 'fg'"),
        (
            CompositeSpace((VECTORS, TARGETS)),
            ["f", "g"],
            TypeError,
            "a tuple of 2 sources; got \\[",
        ),
        (VECTORS, ("f", "g"), TypeError, "a tuple of sources needs a CompositeSpace"),
        (VECTORS, ("f",), TypeError, "got \\('f',\\).*, and 'f' is the name alone"),
        (CompositeSpace((VECTORS,)), (("f",),), TypeError, r"at \[0\]; got \('f',\)"),
        (VECTORS, 3, TypeError, "is the name of a field; got 3"),
        (VECTORS, "", ValueError, "'' is the source of NullSpace"),
        (NullSpace(), "f", ValueError, "'' is the source of NullSpace"),
        (("features", "targets"), VECTORS, TypeError, "the space first"),
        (CompositeSpace((VECTORS, THREE)), ("f", ("f", "f", 3)), TypeError, r"at \[1\]\[2\]"),
    ],
)
def test_pairs_that_are_none(space, source, error, text):
    with pytest.raises(error, match=text):
        DataSpecs(space, source)
    with pytest.raises(TypeError, match="a pair"):
        DataSpecsMapping(space)


def test_a_pair_is_a_value():
    spec = DataSpecs(VECTORS, "features")
    assert spec == (VECTORS, "features")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert {spec: 1}[(VECTORS, "features")] == 1
    assert (spec.space, spec.source) == tuple(spec)
    assert repr(spec) == "DataSpecs(VectorSpace(dim=3072), 'features')"


def test_what_is_flat():
    nested = CompositeSpace((VECTORS, CompositeSpace((VECTORS, TARGETS))))
    assert [is_flat_space(s) for s in (VECTORS, THREE, nested)] == [True, True, False]
    assert [is_flat_source(s) for s in ("f", ("f", "g"), ("f", ("g",)))] == [True, True, False]
    assert is_flat_specs((THREE, ("a", "b", "c")))
    assert not is_flat_specs((nested, ("a", ("b", "c"))))
    for wrong in (3, ("f", 3)):
        with pytest.raises(TypeError, match="a source is"):
            is_flat_source(wrong)
    with pytest.raises(TypeError, match="takes a space"):
        is_flat_space("f")


# --- flat and nested -----------------------------------------------------------------------------


def test_the_first_mapping_of_the_document():
    source = ("features", ("features", "targets"))
    space = CompositeSpace((VECTORS, CompositeSpace((IMAGES, TARGETS))))
    mapping = DataSpecsMapping((space, source))
    flat_source = mapping.flatten(source)
    assert flat_source == ("features", "features", "targets")
    flat_space = mapping.flatten(space)
    assert flat_space == CompositeSpace((VECTORS, IMAGES, TARGETS))
    assert mapping.flatten(space, return_tuple=True) == (VECTORS, IMAGES, TARGETS)
    assert mapping.nest(flat_source) == source
    assert mapping.nest(flat_space) == space
    assert mapping.nest((1, 2, 3)) == (1, (2, 3))
    assert mapping.flat == (flat_space, flat_source)


def test_the_second_mapping_of_the_document():
    source = (("features", "targets"), ("features", "targets"))
    pair = CompositeSpace((VECTORS, TARGETS))
    space = CompositeSpace((pair, pair))
    mapping = DataSpecsMapping((space, source))
    assert mapping.n_unique_specs == 2
    assert mapping.flatten(source) == ("features", "targets")
    assert mapping.flatten(space) == pair
    assert mapping.nest(mapping.flatten(source)) == source
    assert mapping.nest(mapping.flatten(space)) == space
    assert mapping.nest((1, 2)) == ((1, 2), (1, 2))
    inputs = mapping.flatten(space).make_batch(name="input")
    assert [repr(one).split("symbol ")[1] for one in inputs] == ["input[0]", "input[1]"]
    nested = mapping.nest(inputs)
    assert nested[0][0] is nested[1][0] is inputs[0]
    assert mapping.flatten(nested)[1] is inputs[1]


def test_parts_that_differ_where_they_should_be_one():
    pair = CompositeSpace((VECTORS, VECTORS))
    mapping = DataSpecsMapping((pair, ("features", "features")))
    ones = np.ones((2, 3))
    assert mapping.flatten((ones, ones.copy())) is ones
    holes = np.array([np.nan])
    assert mapping.flatten((holes, holes.copy())) is holes
    view = dv.View(ones)
    assert mapping.flatten((view, view)) is view
    assert mapping.flatten((None, None), return_tuple=True) == (None,)
    for same in ([ones, 2], {"a": [ones]}, (ones, [None]), scipy.sparse.csr_array(ones)):
        assert mapping.flatten((same, copy.deepcopy(same))) is same
    for one, other in (
        (1, 2),
        (ones, ones * 2),
        (ones, None),
        (view, dv.View(ones)),
        (None, 0),
        ([ones, 2], [ones, 3]),
        ([ones], (ones,)),
        ([ones], ones),
        ({"a": ones}, {"a": ones * 2}),
        ({"a": ones}, {"b": ones}),
        (scipy.sparse.csr_array(ones), scipy.sparse.csr_array(ones * 2)),
    ):
        with pytest.raises(ValueError, match=r"at \[1\] differs"):
            mapping.flatten((one, other))
    for wrong in ("f", [1, 1], (1, 1, 1)):
        with pytest.raises((TypeError, ValueError), match="expected a tuple of 2"):
            mapping.flatten(wrong)
    both = DataSpecsMapping((CompositeSpace((VECTORS, TARGETS)), ("f", "t")))
    with pytest.raises(ValueError, match="expected a flat tuple of 2"):
        both.nest((1, 2, 3))
    with pytest.raises(TypeError, match="expected a flat tuple of 2"):
        both.nest(1)
    assert mapping.nest(7) == (7, 7)
    assert mapping.nest((7,)) == (7, 7)


def test_nothing_anywhere():
    space = CompositeSpace((NullSpace(), CompositeSpace((VECTORS, NullSpace()))))
    source = ("", ("features", ""))
    mapping = DataSpecsMapping((space, source))
    assert mapping.flatten(source) == "features"
    assert mapping.flatten(space) == VECTORS
    assert mapping.nest("features") == source
    assert mapping.nest(VECTORS) == space
    assert mapping.nest((5,)) == (None, (5, None))
    assert mapping.flatten((None, (5, None))) == 5
    with pytest.raises(ValueError, match=r"NullSpace\(\) stands at \[1\]\[1\]"):
        mapping.flatten((None, (5, 6)))
    empty = DataSpecsMapping((NullSpace(), ""))
    assert empty.flatten(NullSpace()) == NullSpace()
    assert empty.flatten("") == ""
    assert empty.flatten(None) is None
    assert empty.nest(None) is None
    assert empty.nest(()) is None
    assert empty.nest("") == ""
    assert empty.nest(NullSpace()) == NullSpace()


def test_a_composite_of_nothing():
    space = CompositeSpace(())
    for mapping, nested in (
        (DataSpecsMapping((space, ())), ()),
        (DataSpecsMapping((CompositeSpace((space,)), ((),))), ((),)),
    ):
        assert mapping.flatten(nested) == mapping.flatten(nested, return_tuple=True) == ()
        assert mapping.nest(mapping.flatten(nested)) == nested
    assert dv.View(x=[1])._get((space, ())) == ()


HEARD = VectorSpace(10, validate_callbacks=[repr])
LEAVES = st.sampled_from(
    [
        *((VECTORS, "a"), (VECTORS, "b"), (IMAGES, "a"), (TARGETS, "b"), (HEARD, "b")),
        *((SequenceSpace(TARGETS), "c"), (IndexSpace(10, 1), "b"), (NullSpace(), "")),
    ]
)
NESTED = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def as_specs(tree):
    if isinstance(tree, tuple):
        return tree
    parts = [as_specs(part) for part in tree]
    spaces, sources = zip(*parts, strict=True) if parts else ((), ())
    return CompositeSpace(spaces), tuple(sources)


@given(NESTED)
@examples(200)
def test_flatten_and_nest_are_inverse(tree):
    space, source = as_specs(tree)
    mapping = DataSpecsMapping((space, source))
    count = mapping.n_unique_specs
    assert mapping.nest(mapping.flatten(source)) == source
    assert mapping.nest(mapping.flatten(space)) == space
    numbers = mapping.nest(tuple(range(count)))
    assert mapping.nest(mapping.flatten(numbers)) == numbers
    for values in (
        range(count),
        map(np.full, [3] * count, range(count)),
        [[np.arange(3), {"number": number}] for number in range(count)],
        [(np.arange(2), None)] * count,
        map(dv.View, range(count)),
    ):
        flat = tuple(values)
        assert mapping.flatten(mapping.nest(flat), return_tuple=True) == flat or all(
            one is other
            for one, other in zip(
                mapping.flatten(mapping.nest(flat), return_tuple=True), flat, strict=True
            )
        )
    assert len(dict.fromkeys(mapping.unique)) == count
    again = DataSpecsMapping(mapping.flat)
    assert again.unique == mapping.unique
    assert is_flat_specs(mapping.flat)


# --- delivery ------------------------------------------------------------------------------------

PLANES = Conv2DSpace((2, 3), 2, axes=("c", 0, 1, "b"))


def planes(n=5, flat=True, **more):
    rows = np.arange(n * 12).reshape((n, 12) if flat else (n, 2, 2, 3))
    labels = np.arange(n) % 3
    return dv.View(
        input=rows, label=labels, _spaces={"input": PLANES, "label": IndexSpace(3, 1)}, **more
    )


@pytest.mark.parametrize("flat", [True, False])
def test_rows_are_in_the_order_of_their_own_space(flat):
    d = planes(flat=flat)
    stored = d.input().reshape(5, 2, 2, 3)
    for axes, order in {
        ("b", "c", 0, 1): (0, 1, 2, 3),
        ("c", 0, 1, "b"): (1, 2, 3, 0),
        ("b", 0, 1, "c"): (0, 2, 3, 1),
    }.items():
        found = d._get((Conv2DSpace((2, 3), 2, axes), "input"))
        np.testing.assert_array_equal(found(), stored.transpose(order))
    vectors = d._get((VectorSpace(12), "input"))
    np.testing.assert_array_equal(vectors(), stored.transpose(0, 2, 3, 1).reshape(5, 12))


def test_the_space_of_a_field():
    d = planes()
    assert d.input._space == PLANES
    for part in (
        d.input[2:4],
        d[1:3].input,
        d.input[[3, 1]],
        d[2].input,
        d._minibatches(2).input,
        d._minibatches(2)[2].input,
        d._shuffled(3).input,
        d._loader(2).__next__().input,
        pickle.loads(pickle.dumps(d)).input,
        d._select("label", "input").input,
        d._filter(lambda sample: sample.label() == 1).input,
        d[d.label == 1].input,
        d._sorted(by="label").input,
        d._split(0.5)[1].input,
        d._repeat(2).input,
        d._freeze().input,
        dv.concat(d, d).input,
        dv.zip(input=d.input).input,
        dv.zip(input=d.input(), _spaces={"input": PLANES}).input,
    ):
        assert part._space == PLANES
    d.input += 1
    assert d.input._space == PLANES
    assert (d.input * 2)._space == PLANES
    assert (d.label * 2)._space == IndexSpace(None, 1)
    assert d.input[:, :4]._space == VectorSpace(4, dtype="i8")
    wanted = Conv2DSpace((2, 3), 2, ("b", 0, 1, "c"))
    assert d._get((wanted, "input"))._space == wanted
    assert d._get((VectorSpace(3), "label"))._space == VectorSpace(3)
    assert d._space == CompositeSpace((PLANES, IndexSpace(3, 1)))
    assert "space=Conv2DSpace(" in repr(d)


@pytest.mark.parametrize(
    ("data", "space"),
    [
        (np.zeros((5, 7), "f4"), VectorSpace(7, dtype="f4")),
        (np.zeros(5), VectorSpace(1, dtype="f8")),
        (np.zeros(5, "u1"), IndexSpace(None, 1, dtype="u1")),
        (np.zeros((5, 4, 3)), Conv2DSpace((4, 3), 1, dtype="f8")),
        (np.zeros((5, 4, 3, 2)), Conv2DSpace((4, 3), 2, dtype="f8")),
        (np.array(["a", "b"]), None),
        (np.zeros(()), None),
        (np.zeros((3, 0)), None),
        ([[1.5], [2.5, 3.5]], SequenceSpace(VectorSpace(1, dtype="f8"))),
        ([[1], [2, 3]], SequenceSpace(IndexSpace(None, 1))),
    ],
)
def test_the_space_that_shape_and_dtype_speak_for(data, space):
    assert (
        dv.View(x=data, _rank=0 if np.ndim(data) == 0 else None).x._space == space
        if (not isinstance(data, list))
        else dv.View(x=data).x._space == space
    )


@pytest.mark.parametrize("name", ["a.h5", "a.zarr", "a.npz", "a"])
def test_spaces_in_files(tmp_path, name):
    images = Conv2DSpace((2, 3), 2, axes=("c", 0, 1, "b"), dtype="i8")
    words = SequenceSpace(IndexSpace(9, 1))
    rows = dv.ragged([1, 2, 3], lengths=[2, 0, 1, 0, 0])
    d = dv.View(
        input=planes().input(), w=rows, x=np.zeros((5, 2)), _spaces={"input": images, "w": words}
    )
    d._save(tmp_path / name, format=None if "." in name else "folder")
    again = dv.open(tmp_path / name)
    assert (again.input._space, again.w._space) == (images, words)
    assert again.x._space == VectorSpace(2, dtype="f8")
    np.testing.assert_array_equal(again._get((PLANES, "input"))(), d._get((PLANES, "input"))())


def test_metadata_of_others_are_no_space():
    d = dv.View(np.zeros((3, 2)), _meta={"": {"space": "sRGB"}})
    assert d._space == VectorSpace(2, dtype="f8")
    d = dv.View(np.zeros((3, 2)), _meta={"": {"space": {"kind": "VectorSpace", "dim": "x"}}})
    with pytest.raises(ValueError, match="tell of no space"):
        _ = d._space


@pytest.mark.parametrize(
    ("declared", "error", "text"),
    [
        ({"y": PLANES}, dv.FieldError, "no field 'y'"),
        ({"x": 3}, TypeError, "for 'x' it got 3"),
        ({"x": PLANES}, ValueError, r"'x' has the shape \(3, 5\)"),
        ({"x": NullSpace()}, TypeError, "is one array"),
        ({"x": VectorSpace(5, dtype="i8")}, TypeError, "'x': float64 cannot be cast to int64"),
    ],
)
def test_spaces_that_do_not_fit_their_field(declared, error, text):
    with pytest.raises(error, match=text):
        dv.View(x=np.zeros((3, 5)), _spaces=declared)


def test_the_space_of_a_field_inside_another_is_declared_there():
    inner = dv.View(b=np.zeros((3, 12)))
    remedy = r"d\['a'\] = dv.View\(d\['a'\], {}=\{{'b': ...\}}\)"
    with pytest.raises(dv.FieldError, match=remedy.format("_spaces")):
        dv.View(a=inner, _spaces={"a.b": PLANES})
    with pytest.raises(dv.FieldError, match=remedy.format("_meta")):
        dv.View(a=inner, c=np.zeros(3), _meta={"a.b": {"unit": "mm"}})
    with pytest.raises(TypeError, match="for 'a' it got .*; declare .*" + remedy.format("_spaces")):
        dv.View(a=inner, _spaces={"a": {"b": PLANES}})
    d = dv.View(a=inner)
    d["a"] = dv.View(d["a"], _spaces={"b": PLANES})
    assert d.a.b._space == PLANES


ROWS = np.arange(48.0).reshape(4, 12)

UNSEEN = {
    "map": lambda rows: dv.View(np.arange(len(rows)))._map(lambda number: rows[number()]),
    "batches": lambda rows: dv.View(np.arange(len(rows)))._map_batches(lambda n: rows[n]),
    "function": lambda rows: dv.View(lambda number: rows[number], _length=len(rows)),
}
"""Rows of which nothing is known until one of them is made."""


@pytest.mark.parametrize("form", UNSEEN)
@pytest.mark.parametrize("shape", [(4, 12), (4, 3, 2, 2)])
def test_the_space_of_rows_that_are_not_made_yet(form, shape):
    planes = Conv2DSpace((2, 2), 3, axes=("b", "c", 0, 1))
    usual = planes.in_default_order
    d = dv.View(y=UNSEEN[form](ROWS.reshape(shape)), _spaces={"y": planes}, _meta={"": {"n": 1}})
    assert d.y._space == planes
    wanted = ROWS.reshape(4, 3, 2, 2).transpose(0, 2, 3, 1)
    batches = list(d._loader(2, spec=(usual, "y")))
    np.testing.assert_array_equal(np.concatenate(batches), wanted)
    probed = d._probe()
    assert probed.y._space == planes
    assert probed._meta == {"n": 1}
    np.testing.assert_array_equal(next(iter(probed._minibatches(4, spec=(usual, "y"))))(), wanted)


@pytest.mark.parametrize("form", UNSEEN)
@pytest.mark.parametrize(
    ("space", "error", "text"),
    [
        (VectorSpace(13), ValueError, "13 features; got 12"),
        (Conv2DSpace((2, 2), 2), ValueError, "source 'y'.* declared as Conv2DSpace"),
        (VectorSpace(12, dtype="i8"), TypeError, "the data are float64"),
        (SequenceSpace(VectorSpace(3)), ValueError, "source 'y'.* declared as SequenceSpace"),
    ],
)
def test_rows_that_are_made_are_samples_of_the_space_that_was_declared(form, space, error, text):
    d = dv.View(y=UNSEEN[form](ROWS), _spaces={"y": space})
    spec = (space if isinstance(space, SequenceSpace) else VectorSpace(12), "y")
    with pytest.raises(error, match=text):
        next(d._loader(2, spec=spec))
    with pytest.raises(error, match=text):
        next(iter(d._probe()._minibatches(2, spec=spec)))


def test_labels_that_are_not_made_yet():
    made = dv.View(np.arange(4))._map(lambda number: number % 3)
    spec = (VectorSpace(3), "y")
    d = dv.View(y=made, _spaces={"y": IndexSpace(3, 1)})
    np.testing.assert_array_equal(next(d._loader(4, spec=spec)), np.eye(3)[[0, 1, 2, 0]])
    np.testing.assert_array_equal(d._probe()._get(spec)(), np.eye(3)[[0, 1, 2, 0]])
    with pytest.raises(dv.UndeclaredError, match=r"d\._probe\(\)"):
        d._get(spec)
    d = dv.View(y=made, _spaces={"y": IndexSpace(2, 1)})
    with pytest.raises(ValueError, match=r"sample 2: source 'y'.* label 2 in row 2 is"):
        next(d._loader(4, spec=(VectorSpace(2), "y")))
    with pytest.raises(TypeError, match="'y' is one array"):
        dv.View(y=made, _spaces={"y": CompositeSpace((IndexSpace(3, 1),))})


def test_a_space_among_metadata():
    d = planes()
    for view in (
        dv.View(d.input()),
        dv.View(x=d.input()).x,
    ):
        assert view._with_meta(space=PLANES, unit="mm")._space == PLANES
        with pytest.raises(ValueError, match="its rows are no samples of"):
            view._with_meta(space=VectorSpace(5))
    assert dv.View(x=d.input(), _meta={"x": {"space": PLANES}}).x._space == PLANES
    assert d.input._with_meta(space=None)._space == VectorSpace(12, dtype="i8")
    assert pickle.loads(pickle.dumps(d.input._with_meta(space=PLANES)))._space == PLANES


def test_specifications_are_imported_by_either_name():
    assert importlib.import_module("dataview.specs") is dv.specs
    from dataview.specs import DataSpecsMapping as found

    assert found is DataSpecsMapping
    assert dir(dv.specs) == sorted(dv.specs.__all__)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"data_specs": (VectorSpace(12), "input")},
            r"write spec=\(VectorSpace\(dim=12\), 'input'",
        ),
        ({"mode": "sequential"}, "write sampler='linear'"),
        ({"mode": "even_shuffled_sequential"}, "write sampler='permutation'"),
        ({"rng": 3}, "write seed=3"),
    ],
)
def test_options_of_pylearn2_are_pointed_at_those_here(given, text):
    for verb in (planes()._loader, planes()._minibatches):
        with pytest.raises(TypeError, match=text):
            verb(2, **given)


def test_batches_in_the_order_asked():
    d = planes(7)
    spec = (CompositeSpace((VectorSpace(3), PLANES)), ("label", "input"))
    whole = [part() for part in d._get(spec)]
    for seed in (0, 1):
        options = {"sampler": "permutation", "seed": seed}
        loader = d._loader(3, spec=spec, **options)
        minibatches = d._minibatches(3, spec=spec, **options)
        assert len(minibatches) == 3
        for lazy, (labels, images) in zip(minibatches, loader, strict=True):
            rows = loader.rows
            np.testing.assert_array_equal(labels, whole[0][rows])
            np.testing.assert_array_equal(images, whole[1][..., rows])
            np.testing.assert_array_equal(lazy[0](), labels)
            np.testing.assert_array_equal(lazy[1](), images)
            assert images.dtype == whole[1].dtype
    assert shapes(minibatches[-1]) == ((1, 3), (2, 2, 3, 1))
    assert len(minibatches[1:]) == 2
    for key in ([0, 2], np.array([True, False, True]), dv.View([0, 2])):
        first, last = minibatches[key]
        np.testing.assert_array_equal(first[1](), minibatches[0][1]())
        np.testing.assert_array_equal(last[1](), minibatches[np.int64(-1)][1]())
    for key in ((0, 1), ..., None, "input", 1.5):
        with pytest.raises(TypeError, match=r"are chosen by a number, or by .*batch\[\.\.\.\] has"):
            minibatches[key]
    with pytest.raises(IndexError):
        minibatches[3]


def test_sparse_batches_of_a_loader():
    d = planes()
    for batch in d._loader(2, spec=(VectorSpace(3, sparse=True), "label")):
        assert batch.toarray().sum(axis=1).tolist() == [1] * batch.shape[0]
    for verb in (d._get, lambda spec: d._minibatches(2, spec=spec)):
        with pytest.raises(TypeError, match=r"'label'.* a view is dense"):
            verb((VectorSpace(3, sparse=True), "label"))
    declared = dv.View(x=np.eye(4), _spaces={"x": VectorSpace(4, sparse=True)})
    assert declared.x._space == VectorSpace(4, sparse=True)
    for spec in ((VectorSpace(4), "x"), (Conv2DSpace((2, 2), 1, ("c", 0, 1, "b")), "x")):
        found = next(declared._loader(4, spec=spec))
        np.testing.assert_array_equal(found, VectorSpace(4).np_format_as(np.eye(4), spec[0]))
        np.testing.assert_array_equal(declared._get(spec)(), found)
    batch = next(declared._loader(2, spec=(VectorSpace(4, sparse=True), "x")))
    assert scipy.sparse.issparse(batch)
    np.testing.assert_array_equal(batch.toarray(), np.eye(4)[:2])


def test_batches_of_worker_processes():
    d = planes(7)
    loader = d._loader(3, spec=(PLANES, "input"), workers=2, kind="process")
    whole = d._get((PLANES, "input"))()
    with loader:
        for batch in loader:
            np.testing.assert_array_equal(batch, whole[..., loader.rows])


def test_a_source_is_one_array():
    d = dv.View(a={"x": np.zeros((3, 2))})
    with pytest.raises(TypeError, match=r"'a' is a record of the fields x"):
        d._get((VectorSpace(2), "a"))
    assert d.a._get((VectorSpace(2), "x"))._shape() == (3, 2)


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"tail": "pad"}, {"prefetch": 2}])
def test_each_source_is_read_once(options):
    source, _, d = images_and_targets(8)
    spec = (
        CompositeSpace((VECTORS, CompositeSpace((IMAGES, TARGETS)), VECTORS)),
        ("features", ("features", "targets"), "features"),
    )
    loader = d._loader(4, spec=spec, **options)
    for first, (images, _), third in loader:
        assert first is third
        np.testing.assert_array_equal(images.transpose(0, 2, 3, 1).reshape(4, -1), first)
    assert collections.Counter(source.asked) == dict.fromkeys(range(8), 1)


def test_each_source_of_minibatches_is_read_once():
    source, pictures, d = images_and_targets(8)
    last = Conv2DSpace((32, 32), 3, axes=("c", 0, 1, "b"))
    spec = (CompositeSpace((VECTORS, IMAGES, last)), ("features",) * 3)
    for images in (
        d,
        dv.View(features=d.features + 0),
        dv.View(features=d.features._map(np.copy, shape=(3072,), dtype="f8")),
    ):
        source.asked.clear()
        for number, batch in enumerate(images._minibatches(4, spec=spec)):
            vectors, *others = (part() for part in batch)
            np.testing.assert_array_equal(vectors, pictures[4 * number :][:4])
            for other, axes in zip(others, (IMAGES, last), strict=True):
                np.testing.assert_array_equal(other, VECTORS.np_format_as(vectors, axes))
        if images is d:
            assert collections.Counter(source.asked) == dict.fromkeys(range(8), 1)
    source.asked.clear()
    one = d._minibatches(4, spec=spec)[1][0]
    assert one[2:3]().shape == (1, 3072)
    assert source.asked == [6]


@pytest.mark.parametrize("axis", [0, None])
def test_a_source_that_is_watched_is_read_once(axis):
    source, pictures, d = images_and_targets(8)
    spec = (CompositeSpace((VECTORS, IMAGES, VECTORS)), ("features",) * 3)
    for evaluate in (lambda parts: dv.evaluate(*parts), lambda parts: [part() for part in parts]):
        found = evaluate(d._get(spec))
        assert collections.Counter(source.asked) == dict.fromkeys(range(8), 1)
        source.asked.clear()
        for part, space in zip(found, spec[0], strict=True):
            np.testing.assert_array_equal(part, VECTORS.np_format_as(pictures, space))
    x, y, _ = symbols = spec[0].make_batch("x")
    value = (x._sum(axis=axis), y._max(axis=axis))
    total, largest = MonitorChannel(symbols, value, "both", spec, d)()
    assert collections.Counter(source.asked) == dict.fromkeys(range(8), 1)
    np.testing.assert_allclose(total, pictures.sum(axis=axis))
    np.testing.assert_array_equal(largest, VECTORS.np_format_as(pictures, IMAGES).max(axis=axis))
    source.asked.clear()
    assert d._get(spec)[1][2:5]().shape == (3, 3, 32, 32)
    assert source.asked == [2, 3, 4]


class Store(Source):
    """A matrix that can be written, and counts how often each row is read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.counts = np.zeros(len(array), int)

    def read(self, index, memo):
        self.counts += np.isin(np.arange(len(self.array)), gather.rows_and_rest(index)[0])
        return np.array(gather.read(self.array, index))

    def write(self, index, value):
        gather.assign(self.array, index, value)


def test_each_source_that_can_be_written_is_read_once():
    numbers = np.arange(8 * 12.0).reshape(8, 12)
    source = Store(numbers.copy())
    d = dv.View(x=dv.View(source))
    spec = (CompositeSpace((VectorSpace(12), PLANES, VectorSpace(12, dtype="f4"))), ("x",) * 3)
    for number, batch in enumerate(d._minibatches(4, spec=spec)):
        expected = numbers[4 * number :][:4]
        for part, space in zip(batch, spec[0], strict=True):
            np.testing.assert_array_equal(part(), VectorSpace(12).np_format_as(expected, space))
    assert source.counts.tolist() == [1] * 8
    vectors, planes, narrow = d._minibatches(4, spec=spec)[1]
    planes -= 1
    np.testing.assert_array_equal(source.array[4:], numbers[4:] - 1)
    for part, space in ((vectors, VectorSpace(12)), (planes, PLANES)):
        np.testing.assert_array_equal(part(), VectorSpace(12).np_format_as(numbers[4:] - 1, space))
    vectors[1:, :6] = vectors[:-1, 6:]
    numbers[4:] -= 1
    numbers[5:, :6] = numbers[4:-1, 6:]
    np.testing.assert_array_equal(narrow(), numbers[4:].astype("f4"))
    np.testing.assert_array_equal(d.x(), numbers)
    with pytest.raises(dv.ReadOnlyError):
        narrow[0] = 1


BATCHED = {
    "even": {"tail": "drop"},
    "with a short one": {},
    "filled up": {"tail": "pad"},
    "permuted": {"sampler": "permutation", "seed": 3},
    "two of them": {"num_batches": 2},
}


@pytest.mark.parametrize("options", BATCHED.values(), ids=BATCHED)
def test_minibatches_are_formatted_as_their_rows_are(options):
    draw = np.random.default_rng(2)
    x, y = draw.random((11, 12)), draw.integers(0, 5, 11)
    parts = {"shape": x, "label": y, "beside": np.arange(11)}
    d = dv.View(parts, _spaces={"shape": PLANES, "label": IndexSpace(5, 1)})
    wanted = Conv2DSpace((2, 3), 2, ("c", 0, 1, "b")), VectorSpace(5), VectorSpace(12)
    spec = dv.specs.combine(*zip(wanted, ("shape", "label", "shape"), strict=True))
    plain = list(d._minibatches(4, **options))
    delivered = d._minibatches(4, spec=spec, **options)
    assert len(delivered) == len(plain)
    for number, (rows, batch) in enumerate(zip(plain, delivered, strict=True)):
        images = rows._field("shape")().reshape(-1, 2, 2, 3)
        labels = rows.label()[:, None]
        expected = (
            PLANES.rows_first.np_format_as(images, wanted[0]),
            IndexSpace(5, 1).np_format_as(labels, wanted[1]),
            PLANES.rows_first.np_format_as(images, wanted[2]),
        )
        for space, found, again, data in zip(
            wanted, batch, delivered[number], expected, strict=True
        ):
            assert found._space == again._space == space
            assert found().dtype == data.dtype
            np.testing.assert_array_equal(found(), data)
            np.testing.assert_array_equal(again(), data)


def test_what_minibatches_have_in_common_is_found_once(monkeypatch):
    counts = collections.Counter()

    def counted(module, name):
        own = getattr(module, name)

        def called(*given):
            counts[name] += 1
            return own(*given)

        monkeypatch.setattr(module, name, called)

    counted(layout, "_groups")
    counted(building, "_followed")
    x = np.arange(13 * 34.0).reshape(13, 34)
    d = dv.View(x=x, beside=np.arange(13))
    spec = (Conv2DSpace((17, 2), 1, axes=("b", "c", 0, 1)), "x")
    for batch, rows in zip(d._minibatches(1, spec=spec), x, strict=True):
        np.testing.assert_array_equal(batch().ravel(), rows)
    assert counts["_groups"] <= 4  # of the whole field, and of one batch
    assert counts["_followed"] <= 1  # of all batches


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_labels_that_are_handed_out_are_no_memory_of_the_data(shape):
    labels, space = (np.arange(6) % 3).reshape(shape), IndexSpace(3, 1)
    plain = dv.View(y=labels)
    for d in (plain, dv.View(plain, _spaces={"y": space})):
        for found in (
            d._get((space, "y")),
            d._minibatches(3, spec=(space, "y"))[1],
            space.format_as(d.y._reshape(6, 1), space),
        ):
            given = found()
            assert not np.shares_memory(given, labels)
            given[:] = 2
    np.testing.assert_array_equal(labels.reshape(6), np.arange(6) % 3)


def test_the_metadata_of_a_batch_are_its_own():
    spec = (VectorSpace(3), "x")
    first, second = dv.View(x=np.zeros((4, 3, 1)))._minibatches(2, spec=spec)
    first._meta["space"]["dim"] = 7
    assert second._space == VectorSpace(3)


def test_a_view_is_formatted_once(monkeypatch):
    counts = []

    def laid_out(*given):
        counts.append(given)
        return fields.laid_out(*given)

    monkeypatch.setattr(delivery, "laid_out", laid_out)
    d = dv.View(x=np.arange(8.0).reshape(2, 4))
    images = d._get((Conv2DSpace((2, 2), 1), "x"))
    assert len(counts) == 1
    np.testing.assert_array_equal(images().ravel(), np.arange(8.0))


def test_minibatches_see_what_a_user_writes_to_an_object_of_his(tmp_path):
    spec = (CompositeSpace((VectorSpace(3), Conv2DSpace((1, 3), 1))), ("x", "x"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((4, 3))
        vectors, images = dv.View(x=file["x"])._minibatches(2, spec=spec)[0]
        assert vectors()[0, 0] == 0
        file["x"][0] = 7
        assert vectors()[0, 0] == images()[0, 0, 0, 0] == 7


def test_minibatches_of_several_spaces_see_what_is_written(tmp_path):
    numbers = np.arange(12.0).reshape(4, 3)
    dv.View(x=numbers)._save(tmp_path / "a.h5")
    spec = (CompositeSpace((VectorSpace(3), Conv2DSpace((1, 3), 1))), ("x", "x"))
    for data in (numbers, dv.open(tmp_path / "a.h5", mode="r+").x):
        d = dv.View(x=data)
        vectors, images = d._minibatches(2, spec=spec)[0]
        assert vectors()[0, 0] == images()[0, 0, 0, 0] == 0
        vectors[0] = 7
        assert vectors()[0, 0] == images()[0, 0, 0, 0] == d.x[0, 0]() == 7
    made = dv.View(x=dv.View(lambda n: d.x[n]() * 2, _length=4, _fields=((3,), "f8")))
    vectors, images = made._minibatches(2, spec=spec)[0]
    assert vectors()[0, 0] == images()[0, 0, 0, 0] == 14


def test_only_what_is_asked_for_is_read():
    source, _, d = images_and_targets(8)
    for _ in d._loader(4, spec=(TARGETS, "targets")):
        pass
    for batch in d._minibatches(4, spec=(TARGETS, "targets")):
        batch()
    d._get((TARGETS, "targets"))()
    d._get((IMAGES, "features"))
    assert [*d._loader(4, spec=(NullSpace(), ""))] == [None, None]
    assert not source.asked


def test_a_transforming_dataset():
    raw = planes(6)
    calls = Counting(lambda number: raw.input()[number] * 10)
    d = dv.View(features=calls.probed(6), targets=raw.label)
    d = dv.View(d, _spaces={"features": PLANES, "targets": IndexSpace(3, 1)})
    spec = (CompositeSpace((VectorSpace(3), PLANES)), ("targets", "features"))
    targets, features = next(d._loader(6, spec=spec))
    assert targets.shape == (6, 3)
    np.testing.assert_array_equal(features, raw._get((PLANES, "input"))() * 10)
    calls.asked.clear()
    next(d._loader(6, spec=(VectorSpace(3), "targets")))
    assert not calls.asked
    with pytest.raises(dv.FieldError, match="'feature'"):
        d._loader(6, spec=(PLANES, "feature"))


def test_callbacks_get_what_is_delivered():
    seen = []

    def noted(name):
        return {
            "np_validate_callbacks": [lambda batch: seen.append((name, "array", shapes(batch)))],
            "validate_callbacks": [lambda batch: seen.append((name, "view", shapes(batch)))],
        }

    inner = VectorSpace(3, **noted("label"))
    space = CompositeSpace((inner, VectorSpace(3), PLANES), **noted("all"))
    d = planes(2)
    spec = (space, ("label", "label", "input"))
    assert DataSpecsMapping(spec).n_unique_specs == 3
    images = (2, 2, 3, 2)
    d._get(spec)
    assert seen == [("all", "view", ((2, 3), (2, 3), images)), ("label", "view", (2, 3))]
    seen.clear()
    [*d._loader(2, spec=spec)]
    assert seen == [("all", "array", ((2, 3), (2, 3), images)), ("label", "array", (2, 3))]


def test_one_sample_is_not_taken_for_a_batch():
    members = dv.View(x=np.zeros((5, 4)), y=[0, 1, 2, 0, 1], w=[[0, 1]] * 5)
    windows = dv.View(np.zeros((5, 6)), x=np.s_[:4], y=np.s_[4], w=np.s_[4:])
    for d in (members, windows):
        for space, name in ((VectorSpace(1), "x"), (Conv2DSpace((1, 1), 1), "x")):
            with pytest.raises(
                ValueError, match=r"'x'.*the view is one sample.*d\[n:n\+1\] is a b"
            ):
                d[2]._get((space, name))
        assert d[2:3]._get((VectorSpace(4), "x"))._shape() == (1, 4)
        assert dv.View(x=d[2].x)._get((VectorSpace(1), "x"))._shape() == (4, 1)
    labels = members[1]._get((IndexSequenceSpace(2), "w"))  # a batch is one sample
    assert labels().tolist() == [[0], [1]]
    lone = dv.View(x=np.zeros((5, 4)), number=3)  # all axes of the space are there
    assert lone._get((VectorSpace(4), "x"))._shape() == (5, 4)
    uneven = dv.View(x=np.zeros(5), z=np.zeros(3), _driver="x")
    assert uneven._get((VectorSpace(1), "z"))._shape() == (3, 1)


def test_a_misfit_of_a_batch_names_the_row_of_the_data():
    labels = np.zeros(8, int)
    labels[6] = 9
    known, unknown = dv.View(y=labels, _spaces={"y": IndexSpace(5, 1)}), dv.View(y=labels)
    for d, space in ((unknown, IndexSpace(5, 1)), (known, VectorSpace(5)), (known, known.y._space)):
        spec = (space, "y")
        for rows, place in (
            (d, "row 0, row 6 of the data,"),  # in a batch of 2
            (d[::-1], "row 1, row 6 of the data,"),
            (d[[0, 1, 6]], "row 0, row 6 of the data,"),
            (d[5:], "row 1, row 6 of the data,"),
        ):
            with pytest.raises(ValueError, match=f"^source 'y': label 9 in {place} is out of ra"):
                [each() for each in rows._minibatches(2, spec=spec)]
        with pytest.raises(ValueError, match=r"^source 'y': label 9 in row 6 is out of range"):
            d._get(spec)()
    scores = np.eye(3)[[0, 1, 2, 1]]
    scores[3, 0] = np.nan
    lazy = VectorSpace(3).format_as(dv.View(scores)[2:], IndexSpace(3, 1), argmax=True)
    with pytest.raises(ValueError, match=r"^the batch: row 1, row 3 of the data, has NaN"):
        lazy()


def test_sequences_filled_up():
    rows = [[1, 2], [], [3, 4, 5]]
    d = dv.View(w=rows, _spaces={"w": SequenceSpace(IndexSpace(9, 1))})
    data, mask = d._get((SequenceSpace(IndexSpace(9, 1)), "w"))
    assert data()[..., 0].T.tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]
    assert mask().T.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert mask.dtype == mask().dtype == np.float32
    batches = [*d._loader(2, spec=(SequenceSpace(VectorSpace(9)), "w"))]
    assert [shapes(batch) for batch in batches] == [((2, 2, 9), (2, 2)), ((3, 1, 9), (3, 1))]
    assert batches[1][0].argmax(-1)[:, 0].tolist() == [3, 4, 5]
    films = SequenceSpace(PLANES)
    frames = np.arange(5 * 12.0).reshape(5, 12)
    f = dv.View(w=dv.ragged(frames, lengths=[2, 3]), _spaces={"w": films})
    data, mask = f._get((films, "w"))
    assert shapes((data, mask)) == ((3, 2, 2, 3, 2), (3, 2))
    np.testing.assert_array_equal(data[2, ..., 1](), frames[4].reshape(2, 2, 3))
    turned, _ = f._get((SequenceSpace(VectorSpace(12)), "w"))
    np.testing.assert_array_equal(
        turned[2, 1](), frames[4].reshape(2, 2, 3).transpose(1, 2, 0).ravel()
    )
    dense = dv.View(x=np.zeros((3, 2)), _spaces={"x": VectorSpace(2)})
    with pytest.raises(ValueError, match="cannot be formatted as SequenceSpace"):
        dense._get((SequenceSpace(VectorSpace(1)), "x"))


STEPS = {
    "labels as vectors": (IndexSpace(9, 1), VectorSpace(9)),
    "labels": (IndexSpace(9, 1), IndexSpace(9, 1, "u1")),
    "pairs of labels side by side": (IndexSpace(9, 2), VectorSpace(18, dtype="f8")),
    "images as vectors": (PLANES, VectorSpace(12, dtype="f4")),
    "images turned": (PLANES, Conv2DSpace((2, 3), 2, ("c", "b", 0, 1))),
}


@pytest.mark.parametrize(("own", "wanted"), STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("is_far", [False, True])
def test_sequences_are_what_one_fills_up_by_hand(own, wanted, is_far, tmp_path):
    draw = np.random.default_rng(3)
    lengths = draw.integers(0, 7, 11)
    values = draw.integers(0, 9, (lengths.sum(), *own.row_shape))
    values = values if isinstance(own, IndexSpace) else values / 2
    rows = np.split(values, lengths.cumsum()[:-1])
    d = dv.View(w=dv.ragged(values, lengths=lengths), _spaces={"w": SequenceSpace(own)})
    if is_far:
        d._save(tmp_path / "d.zarr")
        d = dv.open(tmp_path / "d.zarr")
    spec = (SequenceSpace(wanted), "w")
    batches = zip(d._loader(4, spec=spec), d._minibatches(4, spec=spec), strict=True)
    for start, (loaded, lazy) in zip(range(0, 11, 4), batches, strict=True):
        part = rows[start : start + 4]
        data = np.zeros((max(map(len, part)), len(part), *own.row_shape), values.dtype)
        mask = np.zeros(data.shape[:2], np.float32)
        for number, row in enumerate(part):
            data[: len(row), number], mask[: len(row), number] = row, 1
        data = np.moveaxis(data, 1, 1 + own.get_batch_axis())
        expected = SequenceSpace(own).np_format_as((data, mask), spec[0])
        for found in (loaded, tuple([one() for one in lazy])):
            assert [one.dtype for one in found] == [one.dtype for one in expected]
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("rows", [[[1, 2], [7, 0]], [[1, 2], [7, 0, 1]]])
def test_a_loader_tells_of_sequences_alike_whether_they_are_filled_up(rows):
    words = SequenceSpace(IndexSpace(3, 1))
    d = dv.View(w=rows if len(set(map(len, rows))) > 1 else np.array(rows), _spaces={"w": words})
    told = r"^sample 1: source 'w', int64 .*, declared as .*: the batch, data: label 7 in step 0"
    for wanted in (words, SequenceSpace(VectorSpace(3))):
        with pytest.raises(ValueError, match=told):
            list(d._loader(2, spec=(wanted, "w")))


def dense_sequences():
    """Rows of one length as sequences of vectors, of labels, and of images."""
    draw = np.random.default_rng(7)
    return [
        (draw.random((5, 4, 3)), SequenceSpace(VectorSpace(3))),
        (draw.integers(0, 9, (5, 4)), SequenceSpace(IndexSpace(9, 1))),
        (draw.integers(0, 9, (5, 4, 2)), SequenceSpace(IndexSpace(9, 2))),
        (draw.random((5, 4, 2, 3)), SequenceSpace(Conv2DSpace((2, 3), 1))),
        (draw.random((5, 1, 3)), SequenceSpace(VectorSpace(3))),
        (draw.random((0, 4, 3)), SequenceSpace(VectorSpace(3))),
    ]


@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize(("rows", "space"), dense_sequences())
def test_rows_of_one_length_as_sequences(rows, space, is_declared):
    d = dv.View(w=rows, _spaces={"w": space} if is_declared else {})
    assert not is_declared or d.w._space == space
    steps = rows.reshape(*rows.shape[:2], *space.space.row_shape).swapaxes(0, 1)
    spec = (space, "w")

    def check(batch, part):
        data, mask = batch
        np.testing.assert_array_equal(data, steps[:, part])
        np.testing.assert_array_equal(mask, np.ones((rows.shape[1], len(rows[part])), "f4"))
        assert mask.dtype == np.float32

    check([part() for part in d._get(spec)], slice(None))
    loaders = d._loader(2, spec=spec), d._loader(2, spec=spec, transform=lambda sample: sample)
    lazy = d._minibatches(2, spec=spec)
    for start, batch, made, view in zip(range(0, len(rows), 2), *loaders, lazy, strict=True):
        for found in (batch, made, [part() for part in view]):
            check(found, slice(start, start + 2))
    if isinstance(space.space, VectorSpace):
        alone = (VectorSequenceSpace(3), "w")
        for row, batch, view in zip(
            rows, d._loader(1, spec=alone), d._minibatches(1, spec=alone), strict=True
        ):
            np.testing.assert_array_equal(batch, row)
            np.testing.assert_array_equal(view(), row)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
@pytest.mark.parametrize("workers", [0, 2])
def test_sequences_that_functions_make_of_texts(batch_size, workers):
    texts, space = ["1 2", "3", "4 5 6", "7 8 0"], SequenceSpace(IndexSpace(9, 1))
    d = dv.View(text=texts)

    def numbers(sample):
        return {"words": np.array(str(sample.text()).split(), int), "other": 1}

    made = d._map(numbers, fields=("words", "other"))
    options = {"spec": (space, "words"), "workers": workers, "kind": "thread"}
    for batches in (
        d._loader(batch_size, transform=numbers, **options),
        made._loader(batch_size, **options),
        made._loader(batch_size, pad="ragged", **options),
        made._loader(batch_size, pad={"words": "ragged"}, **options),
        made._probe()._loader(batch_size, **options),
    ):
        rows = []
        for data, mask in batches:
            assert len(data) == mask.any(axis=1).sum()
            both = zip(data.swapaxes(0, 1), mask.T, strict=True)
            rows += [one[here == 1, 0] for one, here in both]
        assert [" ".join(map(str, row)) for row in rows] == texts
    one = (IndexSequenceSpace(9, 1), "words")
    for batches in (d._loader(1, transform=numbers, spec=one), made._loader(1, spec=one)):
        assert [" ".join(map(str, batch[:, 0])) for batch in batches] == texts
    for pad in (0, {"words": 0}, dv.Pad(0)):
        with pytest.raises(ValueError, match=r"source 'words': pad= fills up .*leave pad= out"):
            made._loader(batch_size, pad=pad, **options)


def test_the_padding_of_other_fields_stays_beside_sequences():
    d = dv.View(w=[[1, 2], [3]], x=[[1.0], [2.0, 3.0]])
    spec = (CompositeSpace((SequenceSpace(IndexSpace(9, 1)), VectorSpace(2))), ("w", "x"))
    for transform in (None, lambda sample: sample):
        (data, mask), x = next(d._loader(2, spec=spec, pad={"x": -1.0}, transform=transform))
        assert data[..., 0].T.tolist() == [[1, 2], [3, 0]]
        assert mask.T.tolist() == [[1, 1], [1, 0]]
        assert x.tolist() == [[1, -1], [2, 3]]


def test_rows_that_were_filled_up_are_no_sequences_of_known_length():
    d = dv.View(w=dv.View(w=[[1, 2], [3]]).w._pad(0))
    for rows in (d, d[::-1]):
        for way in (rows._get, lambda spec, rows=rows: rows._loader(2, spec=spec)):
            with pytest.raises(TypeError, match=r"'w'.*filled up already.*rows that _pad was"):
                way((SequenceSpace(IndexSpace(9, 1)), "w"))


WORDS = SequenceSpace(VectorSpace(2))


def rows_of_lengths(number):
    return np.full((number % 3 + 1, 2), number + 1.0)


def computed_sequences():
    """Rows of different lengths that are computed, and come, in several ways."""
    made = dv.View(rows_of_lengths, _length=5, _fields=((None, 2), "f8"))
    ragged = dv.ragged([rows_of_lengths(n) for n in range(5)])
    samples = [{"w": rows_of_lengths(n)} for n in range(5)]
    return {
        "memory": dv.View(w=ragged),
        "computed": dv.View(w=(ragged + 1) - 1),
        "function": dv.View(w=made),
        "part": dv.View(w=made)[::1],
        "mapped": dv.View(w=ragged._map(lambda row: row(), shape=(None, 2), dtype="f8")),
        "stream": dv.View(lambda: iter(samples), _fields={"w": ((None, 2), "f8")}),
    }


@pytest.mark.parametrize("name", computed_sequences())
def test_sequences_of_rows_that_are_computed(name):
    d = computed_sequences()[name]
    turned = SequenceSpace(Conv2DSpace((1, 2), 1, axes=("c", 0, "b", 1)))
    for space in (WORDS, turned):
        spec = (space, "w")
        batches = [*d._loader(2, spec=spec)]
        lazy = [tuple(part() for part in batch) for batch in d._minibatches(2, spec=spec)]
        for start, (data, mask), other in zip((0, 2, 4), batches, lazy, strict=True):
            rows = [rows_of_lengths(n) for n in range(start, min(start + 2, 5))]
            longest = max(map(len, rows))
            expected = np.zeros((longest, len(rows), 2))
            for column, row in enumerate(rows):
                expected[: len(row), column] = row
            assert mask.T.sum(axis=1).tolist() == [*map(len, rows)]
            made, _ = WORDS.np_format_as((expected, mask), space)
            np.testing.assert_array_equal(data, made)
            np.testing.assert_array_equal(other[0], made)
            np.testing.assert_array_equal(other[1], mask)
        if name == "stream":
            with pytest.raises(dv.StreamError, match="longest row of a stream"):
                d._get(spec)
        else:
            data, mask = d._get(spec)
            space.np_validate((data(), mask()))
            assert mask().sum(axis=0).tolist() == [1, 2, 3, 1, 2]
            assert data._probe()[:1]().shape[0] == 1
    with pytest.raises(ValueError, match=r"'w'.*2 numbers, not 3"):
        d._loader(2, spec=(SequenceSpace(VectorSpace(3)), "w"))
    with pytest.raises(ValueError, match=r"'w'.*2 numbers, not 3"):
        d._minibatches(2, spec=(SequenceSpace(VectorSpace(3)), "w"))


@pytest.mark.parametrize("name", computed_sequences())
def test_one_sequence_at_a_time(name):
    d = computed_sequences()[name]
    rows = [rows_of_lengths(n) for n in range(5)]
    spec = (VectorSequenceSpace(2, dtype="f4"), "w")
    for n, (batch, lazy) in enumerate(
        zip(d._loader(1, spec=spec), d._minibatches(1, spec=spec), strict=True)
    ):
        assert batch.dtype == np.float32
        np.testing.assert_array_equal(batch, rows[n])
        np.testing.assert_array_equal(lazy(), rows[n])
        assert lazy._space == spec[0]
    for way in (d._minibatches(2, spec=spec), d._loader(2, spec=spec)):
        with pytest.raises(ValueError, match=r"'w'.*one sequence; got 2 rows; SequenceSp"):
            list(way)
    if name != "stream":
        np.testing.assert_array_equal(d[3:4]._get(spec)(), rows[3])
        with pytest.raises(ValueError, match=r"'w'.*one sequence; got 5 rows"):
            d._get(spec)
    for way in (d._loader, d._minibatches):
        with pytest.raises(ValueError, match=r"'w'.*2 numbers, not 3"):
            way(1, spec=(VectorSequenceSpace(3), "w"))


def test_the_space_of_one_sequence_is_declared_of_several():
    rows = [[0, 2], [], [1]]
    words, vectors = IndexSequenceSpace(3, 1), VectorSequenceSpace(3)
    d = dv.View(w=rows, n=[1.0, 2.0, 3.0], _spaces={"w": words})
    assert d.w._space == d[1].w._space == dv.concat([d, d]).w._space == words
    both = CompositeSpace((vectors, words, VectorSpace(1)))
    for n, (one_hot, labels, number) in enumerate(d._loader(1, spec=(both, ("w", "w", "n")))):
        np.testing.assert_array_equal(one_hot, np.eye(3)[rows[n]])
        assert labels[:, 0].tolist() == rows[n]
        assert number.tolist() == [[n + 1.0]]
    data, _ = d._get((SequenceSpace(IndexSpace(3, 1)), "w"))
    assert data()[..., 0].T.tolist() == [[0, 2], [0, 0], [1, 0]]
    d.w[0] = [0, 3]
    for space in (words, vectors):
        with pytest.raises(ValueError, match="label 3 in row 1 is out of range"):
            [each() for each in d._minibatches(1, spec=(space, "w"))]
        with pytest.raises(ValueError, match=r"^sample 0: .*label 3 in row 1"):
            list(d._loader(1, spec=(space, "w")))
    with pytest.raises(ValueError, match="its rows are no samples of VectorSequenceSpace"):
        dv.View(w=rows, _spaces={"w": VectorSequenceSpace(2)})


def test_labels_of_sequences_are_in_range():
    rows = [[1], [2, 3]]
    made = dv.View(lambda n: np.array(rows[n]), _length=2, _fields=((None,), "i8"))
    space = SequenceSpace(IndexSpace(3, 1))
    for d in (dv.View(w=rows), dv.View(w=made)):
        data, _ = next(d._loader(2, spec=(SequenceSpace(IndexSpace(4, 1)), "w")))
        assert data[..., 0].T.tolist() == [[1, 0], [2, 3]]
        symbols = d._get((SequenceSpace(IndexSpace(4, 1)), "w"))
        SequenceSpace(IndexSpace(4, 1)).validate(symbols)
        with pytest.raises(ValueError, match="has 2 labels; got 1"):
            SequenceSpace(IndexSpace(4, 2)).validate(symbols)
        with pytest.raises(ValueError, match="label 3 in step 1 of row 1 is out of range"):
            next(d._loader(2, spec=(space, "w")))
        with pytest.raises(ValueError, match="label 3 in step 1 of row 1 is out of range"):
            d._get((space, "w"))[0]()


def test_no_row_is_made_before_the_longest_is_needed():
    calls = Counting(rows_of_lengths)
    d = dv.View(w=dv.View(calls, _length=5, _fields=((None, 2), "f8")))
    data, mask = d._get((WORDS, "w"))
    parts = d._minibatches(2, spec=(WORDS, "w"))[1]
    assert repr(data)
    assert data._dtype() == np.float64
    assert (data._shape(), mask._shape()) == ((None, 5, 2), (None, 5))
    assert not calls.asked
    assert parts[0]().shape == (3, 2, 2)
    assert set(calls.asked) == {2, 3}
    assert mask._probe()._sum()() == 9
    made = dv.View(rows_of_lengths, _length=2, _fields=((None, 2), "f8"))
    again, _ = pickle.loads(pickle.dumps(dv.View(w=made)._get((WORDS, "w"))))
    assert again().shape == (2, 2, 2)


def test_a_transform_makes_other_widths_and_names():
    d = dv.View(x=np.arange(24.0).reshape(4, 6), y=np.arange(4))
    whole = d.x()
    spec = (VectorSpace(3), "x")
    cut = d._loader(2, transform=lambda sample: {"x": sample.x()[:3]}, spec=spec)
    np.testing.assert_array_equal(next(cut), whole[:2, :3])
    renamed = (CompositeSpace((VectorSpace(3), IndexSpace(4, 1))), ("z", "y"))
    for options in (
        {"transform": lambda sample: {"z": sample.x()[3:], "y": sample.y()}},
        {
            "collate": lambda samples: {
                "z": np.stack([s["x"][3:] for s in samples]),
                "y": np.stack([s["y"] for s in samples]),
            }
        },
    ):
        z, y = next(d._loader(2, spec=renamed, **options))
        np.testing.assert_array_equal(z, whole[:2, 3:])
        assert y.tolist() == [[0], [1]]
    alone = d._loader(2, transform=lambda sample: sample.x()[:3], spec=spec)
    np.testing.assert_array_equal(next(alone), whole[:2, :3])
    wrong = d._loader(2, transform=lambda sample: {"x": sample.x()[:2]}, spec=spec)
    with pytest.raises(ValueError, match=r"'x'.*2 numbers, not 3"):
        next(wrong)
    missing = d._loader(2, transform=lambda sample: {"z": sample.x()}, spec=spec)
    with pytest.raises(KeyError, match="a batch has no \\['x'\\]"):
        next(missing)
    listed = d._loader(2, collate=lambda samples: {"x": [1, 2]}, spec=spec)
    with pytest.raises(TypeError, match="spec= formats arrays; a batch has a list"):
        next(listed)


@pytest.mark.parametrize("flat", [False, True])
def test_parts_of_images_that_fit_in_two_orders_keep_their_own(flat):
    first = Conv2DSpace((4, 4), 2, axes=("b", "c", 0, 1))
    numbers = np.arange(64.0).reshape(2, 2, 4, 4)
    d = dv.View(x=numbers.reshape(2, 32) if flat else numbers, _spaces={"x": first})
    crop = d._loader(
        2,
        transform=lambda sample: {"x": sample.x().reshape(2, 4, 4)[:, :2, 1:3]},
        spec=(Conv2DSpace((2, 2), 2), "x"),
    )
    np.testing.assert_array_equal(next(crop), numbers[:, :, :2, 1:3].transpose(0, 2, 3, 1))


@pytest.mark.parametrize("workers", [{}, {"workers": 2}])
def test_a_transform_of_images_keeps_the_order_of_their_axes(workers):
    first = Conv2DSpace((4, 5), 3, axes=("b", "c", 0, 1))
    numbers = np.arange(120.0).reshape(2, 3, 4, 5)
    for d in (
        dv.View(x=numbers, _spaces={"x": first}),
        dv.View(x=numbers.reshape(2, 60), _spaces={"x": first}),
    ):
        cropped = Conv2DSpace((2, 5), 3, axes=("c", 0, 1, "b"))
        crop = d._loader(
            2,
            transform=lambda s: {"x": s.x().reshape(3, 4, 5)[:, :2]},
            spec=(cropped, "x"),
            **workers,
        )
        np.testing.assert_array_equal(next(crop), numbers[:, :, :2].transpose(1, 2, 3, 0))
        last = Conv2DSpace((4, 5), 3)
        scaled = d._loader(2, transform=lambda s: {"x": s.x() * 2}, spec=(last, "x"))
        np.testing.assert_array_equal(next(scaled), numbers.transpose(0, 2, 3, 1) * 2)


@pytest.mark.parametrize("how", [{}, {"workers": 1}, {"workers": 1, "kind": "process"}])
def test_a_sample_that_is_transformed_has_the_space_of_its_field(how):
    pairs = dv.View(eye=np.zeros((5, 12)), _spaces={"eye": PLANES})
    d = dv.View(
        x=np.arange(60.0).reshape(5, 12), y=np.arange(5), both=pairs,
        _spaces={"x": PLANES, "y": IndexSpace(5, 1)}, _meta={"y": {"unit": "a digit"}},
    )  # fmt: skip
    with d._loader(2, transform=_spaces_as_texts, **how) as loader:
        for batch in loader:
            assert set(batch.text()) == {repr((PLANES, IndexSpace(5, 1), "a digit", PLANES))}
    one = dv.View(d.x, _spaces={"": PLANES})
    alone = one._loader(2, transform=lambda sample: {"n": [repr(sample._space)], "x": sample})
    batch = next(alone)
    assert batch.n[0]() == repr(PLANES) == repr(one[0]._space)
    second = d._loader(2, transform=[lambda s: {"x": s.x[:3]}, lambda s: {"n": repr(s.x._space)}])
    assert next(second).n[0]() == repr(dv.View(np.zeros(3))._space)


def _spaces_as_texts(sample):
    known = sample.x._space, sample.y._space, sample.y._meta["unit"], sample.both.eye._space
    return {"text": repr(known)}


def test_rows_that_a_loader_fills_up_are_formatted():
    d = dv.View(w=dv.ragged([1.0, 2, 3], lengths=[1, 2]))
    space = CompositeSpace((VectorSpace(4), VectorSpace(4)))
    pad = {"w": dv.Pad(multiple=4, mask=True)}
    data, mask = next(d._loader(2, pad=pad, spec=(space, ("w", "w_mask"))))
    assert data.tolist() == [[1, 0, 0, 0], [2, 3, 0, 0]]
    assert mask.tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]


def test_undeclared_data_are_taken_as_they_are_asked_for():
    labels = dv.View(y=np.array([2, 0, 1]))
    assert labels._get((IndexSpace(3, 1), "y"))().tolist() == [[2], [0], [1]]
    assert labels._get((VectorSpace(1), "y"))().tolist() == [[2], [0], [1]]
    with pytest.raises(ValueError, match="the number of labels is not known; declare it"):
        labels._get((VectorSpace(3), "y"))
    with pytest.raises(ValueError, match="label 2 in row 0 is out of range"):
        labels._get((IndexSpace(2, 1), "y"))()
    with pytest.raises(ValueError, match="label 2 in row 0 is out of range"):
        next(labels._loader(3, spec=(IndexSpace(2, 1), "y")))
    undeclared = dv.View(y=labels.y._map(lambda label: np.eye(3)[label()]))
    batch = next(undeclared._loader(2, spec=(VectorSpace(3), "y")))
    assert batch.tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(dv.UndeclaredError, match="'y': shape and dtype are unknown until a row"):
        undeclared._get((VectorSpace(3), "y"))
    with pytest.raises(TypeError, match="speak for none; declare its space"):
        dv.View(y=np.array(["a"]))._get((VectorSpace(3), "y"))
    images = dv.View(x=np.arange(24).reshape(2, 2, 3, 2))
    assert images._get((Conv2DSpace((2, 3), 2, ("c", "b", 0, 1)), "x"))._shape() == (2, 2, 2, 3)
    channels_first = dv.View(x=np.arange(24).reshape(2, 2, 2, 3))
    with pytest.raises(ValueError, match=r"nothing was declared by _spaces="):
        channels_first._get((Conv2DSpace((2, 3), 2), "x"))


def test_remedies_of_what_is_delivered_work():
    d = dv.View(x=np.array([[1.5, 0.0], [3.0, 4.0]]), _spaces={"x": VectorSpace(2)})
    integers, label = (VectorSpace(2, dtype="i4"), "x"), (IndexSpace(2, 1), "x")
    for verb in (d._get, lambda spec: d._loader(2, spec=spec), lambda s: d._minibatches(2, spec=s)):
        with pytest.raises(TypeError, match=r"d\._set_field\(name, d\[name\]\._astype\(dtype\)\)"):
            verb(integers)
        with pytest.raises(
            ValueError, match=r"d\._set_field\(name, d\[name\]\._argmax\(axis=1\)\)"
        ):
            verb(label)
    cast, labels = dv.View(x=d.x), dv.View(x=d.x)
    cast._set_field("x", d["x"]._astype("i4"))
    assert next(cast._loader(2, spec=integers)).tolist() == [[1, 0], [3, 4]]
    labels._set_field("x", d["x"]._argmax(axis=1))
    assert next(labels._loader(2, spec=label)).tolist() == [[0], [1]]
    with pytest.raises(TypeError, match=r"_astype\('int32'\) of a view"):
        dv.View(x=np.zeros((2, 2)), _spaces={"x": VectorSpace(2, dtype="i4")})


def test_options_that_contradict_a_specification():
    d = planes()
    with pytest.raises(ValueError, match="leave fields= out"):
        d._loader(2, spec=(PLANES, "input"), fields="input")
    with pytest.raises(TypeError, match="a pair"):
        d._loader(2, spec="input")
    loader = d._loader(2, spec=(PLANES, "input"), collate=lambda samples: len(samples))
    with pytest.raises(TypeError, match="a mapping by field"):
        next(loader)


def test_a_stream_is_delivered():
    rows = [{"x": np.arange(12.0) + n, "y": n % 3} for n in range(5)]
    d = dv.View(lambda: iter(rows), _fields={"x": ((12,), "f8"), "y": ((), "i8")})
    spec = (CompositeSpace((IndexSpace(3, 1), Conv2DSpace((2, 3), 2))), ("y", "x"))
    batches = [*d._loader(2, spec=spec)]
    assert [shapes(batch)[1] for batch in batches] == [(2, 2, 3, 2), (2, 2, 3, 2), (1, 2, 3, 2)]
    assert batches[1][0].tolist() == [[2], [0]]


def test_rows_without_end_are_delivered():
    last = Conv2DSpace((2, 3), 2, ("c", 0, 1, "b"))
    d = planes(3)._repeat()
    for batches in (d._minibatches(2, spec=(last, "input")), d._loader(2, spec=(last, "input"))):
        assert shapes(next(iter(batches))) == (2, 2, 3, 2)
    with pytest.raises(ValueError, match="12 numbers, not 11"):
        d._loader(2, spec=(VectorSpace(11), "input"))
    with pytest.raises(dv.StreamError, match="never ends; slice it first"):
        d._get((last, "input"))


def test_filtered_rows_are_delivered():
    d = dv.View(x=np.arange(12.0).reshape(6, 2), y=np.arange(6))
    even = d._filter(lambda sample: sample.y() % 2 == 0)
    rows = [0, 2, 4]
    assert even._get((IndexSpace(6, 1), "y"))().tolist() == [[0], [2], [4]]
    images = Conv2DSpace((1, 2), 1, axes=("b", "c", 0, 1))
    np.testing.assert_array_equal(
        even._get((images, "x"))(), VectorSpace(2).np_format_as(d.x[rows](), images)
    )
    pair = CompositeSpace(
        (VectorSpace(2, dtype="f4"), CompositeSpace((VectorSpace(2), NullSpace())))
    )
    one, (other, nothing) = even._get((pair, ("x", ("x", ""))))
    assert one().dtype == np.float32
    assert other().tolist() == d.x[rows]().tolist()
    assert nothing is None
    assert [row().tolist() for row in even._get((images, "x"))] == d.x[rows]()[
        :, None, None
    ].tolist()
    with pytest.raises(ValueError, match=r"label 4 in row .* is out of range"):
        even._get((IndexSpace(4, 1), "y"))()
    with pytest.raises(dv.StreamError, match="along axis 3; _minibatches"):
        even._get((Conv2DSpace((1, 2), 1, axes=("c", 0, 1, "b")), "x"))
    for verb in (even._get, lambda spec: even._minibatches(2, spec=spec)):
        with pytest.raises(ValueError, match="2 numbers, not 3"):
            verb((VectorSpace(3), "x"))


# --- models --------------------------------------------------------------------------------------


def test_combined_specifications():
    _, pictures, d = images_and_targets()
    supervised = (CompositeSpace((IMAGES, TARGETS)), ("features", "targets"))
    channel = MonitorChannel(None, 3.0, "nothing", (NullSpace(), ""))
    joined = combine(supervised, (VECTORS, "features"), (NullSpace(), ""), channel)
    assert joined.source == (("features", "targets"), "features", "", "")
    for (images, targets), vectors, nothing, watched in d._loader(5, spec=joined):
        assert (images.shape, targets.shape) == ((5, 3, 32, 32), (5, 10))
        np.testing.assert_array_equal(vectors, pictures)
        assert nothing is watched is None
    assert DataSpecsMapping(joined).flatten(joined.source) == ("features", "targets", "features")
    assert combine().source == ()
    assert channel() == 3.0


def test_a_channel_is_computed_for_its_dataset():
    d = planes()
    inputs = CompositeSpace((VectorSpace(12), VectorSpace(3))).make_batch("x")
    value = inputs[0]._sum() + inputs[1]._sum() * 100
    spec = (CompositeSpace((VectorSpace(12), VectorSpace(3))), ("input", "label"))
    channel = MonitorChannel(graph_inputs=inputs, val=value, name="sum", data_specs=spec, dataset=d)
    assert channel() == d.input().sum() + 500
    assert channel.value_of((np.ones((2, 12)), np.zeros((2, 3)))) == 24
    with pytest.raises(ValueError, match="has 3 features; got 4"):
        channel.value_of((np.ones((2, 12)), np.zeros((2, 4))))
    assert repr(channel).startswith("MonitorChannel('sum', DataSpecs(")
    with pytest.raises(ValueError, match="2 axes"):
        MonitorChannel(dv.symbol("x", shape=(None,)), value, "sum", (VectorSpace(12), "input"), d)
    alone = MonitorChannel(inputs, value, "sum", spec)
    with pytest.raises(ValueError, match="has no dataset"):
        alone()


def test_symbols_of_one_name_stand_for_one_source():
    d = dv.View(a=np.ones((4, 2)), b=np.full((4, 2), 10.0))
    one, other = VectorSpace(2).make_batch("x"), VectorSpace(2).make_batch("x")
    both = CompositeSpace((VectorSpace(2), VectorSpace(2)))
    with pytest.raises(ValueError, match="two of the graph_inputs are named 'x', for 'a' and 'b'"):
        MonitorChannel((one, other), one._sum() + 100 * other._sum(), "s", (both, ("a", "b")), d)
    same = MonitorChannel((one, one), one._sum(), "s", (both, ("a", "a")), d)
    assert same() == 8
    x, y = both.make_batch("x")
    assert MonitorChannel((x, y), x._sum() + y._sum(), "s", (both, ("a", "b")), d)() == 88
    with pytest.raises(ValueError, match=r"val is computed of 'x\[1\]' too"):
        MonitorChannel(x, x + y, "s", (VectorSpace(2), "a"), d)
    with pytest.raises(ValueError, match=r"graph_inputs do not have: none"):
        MonitorChannel(None, x._sum(), "s", (NullSpace(), ""), d)
    with pytest.raises(TypeError, match="graph_inputs are symbols"):
        MonitorChannel(d.a, x, "s", (VectorSpace(2), "a"), d)
    words = SequenceSpace(VectorSpace(2))
    data, mask = words.make_batch("w")
    text = dv.View(w=dv.ragged(np.ones((3, 2)), lengths=[1, 2]))
    assert MonitorChannel((data, mask), mask._sum(), "s", (words, "w"), text)() == 3


def test_several_values_of_a_channel():
    d = dv.View(a=np.arange(8.0).reshape(4, 2))
    x = VectorSpace(2).make_batch("x")
    values = {"mean": x._mean(), "both": (x._max(), [x._min(), 7])}
    channel = MonitorChannel(x, values, "s", (VectorSpace(2), "a"), d)
    assert channel() == {"mean": 3.5, "both": (7.0, [0.0, 7])}
    assert type(channel()["mean"]) is np.float64
    assert type(MonitorChannel(x, x._mean(), "s", (VectorSpace(2), "a"), d)()) is np.float64
    assert channel.value_of(np.ones((2, 2))) == {"mean": 1, "both": (1, [1, 7])}


@pytest.mark.parametrize("dataset", [np.ones((3, 2)), {"a": np.ones((3, 2))}, "a"])
def test_the_dataset_of_a_channel_is_a_view(dataset):
    x = VectorSpace(2).make_batch("x")
    with pytest.raises(TypeError, match=r"dataset= is a view .* got .*dv.View\(name=data\)"):
        MonitorChannel(x, x._mean(), "s", (VectorSpace(2), "a"), dataset)
    assert MonitorChannel(None, 3.0, "s", (NullSpace(), ""), dataset)() == 3.0


@pytest.mark.parametrize("protocol", [dv.specs.Model, dv.specs.Cost])
def test_a_method_that_a_class_only_inherits_is_not_there(protocol):
    class Own(protocol):
        pass

    names = [name for name in vars(protocol) if not name.startswith("_")]
    assert len(names) > 2
    for name in names:
        method = getattr(Own(), name)
        with pytest.raises(NotImplementedError, match=f"Own has no {name}"):
            method(*inspect.signature(method).parameters)


# -------------------- found by a reader --------------------


def test_a_field_whose_axes_were_turned_is_not_taken_for_the_space_that_it_had():
    numbers = np.arange(120.0).reshape(2, 3, 4, 5)
    first = dv.spaces.Conv2DSpace((4, 5), channels=3, axes=("b", "c", 0, 1))
    last = dv.spaces.Conv2DSpace((4, 5), channels=3)
    d = dv.View(input=numbers, _spaces={"input": first})
    turned = dv.View(input=d.input._transpose((0, 2, 3, 1)))
    expected = numbers.transpose(0, 2, 3, 1)
    for view in (d, turned, d[::-1][::-1]):
        assert np.array_equal(view._get((last, "input"))(), expected)
        assert np.array_equal(next(view._loader(2, spec=(last, "input"))), expected)
    square = dv.View(x=np.zeros((2, 3, 3, 3)), _spaces={"x": dv.spaces.Conv2DSpace((3, 3), 3)})
    assert "space" not in square.x._transpose((0, 2, 1, 3))._meta

    def turn(sample):
        return {"input": np.asarray(sample["input"]).transpose(1, 2, 0)}

    assert np.array_equal(next(d._loader(2, transform=turn, spec=(last, "input"))), expected)


def test_a_batch_has_the_dtype_that_is_asked_for_whatever_was_declared():
    space = dv.spaces.VectorSpace(3, dtype="f4")
    d = dv.View(x=np.zeros((2, 3)), _spaces={"x": space})
    assert next(d._loader(2, spec=(space, "x"))).dtype == np.float32
    assert d._get((space, "x"))().dtype == np.float32


def test_sparse_numbers_that_do_not_fit_are_refused():
    wide = dv.spaces.VectorSpace(1, sparse=True)
    with pytest.raises(OverflowError, match="-300 does not fit into uint8"):
        wide.np_format_as(scipy.sparse.csr_array([[-300]]), wide.with_dtype("u1"))


def test_the_space_of_rows_that_are_joined():
    numbers = np.arange(36.0).reshape(3, 12)
    last = Conv2DSpace((2, 3), 2)
    first = Conv2DSpace((2, 3), 2, axes=("b", "c", 0, 1))
    plain = dv.View(x=numbers)
    usual, turned = (dv.View(x=numbers, _spaces={"x": space}) for space in (last, first))
    for views in ((usual, plain), (plain, usual), (plain, usual, usual)):
        assert dv.concat(*views).x._space == last
    with_batch_last = dv.View(x=numbers, _spaces={"x": PLANES})
    assert dv.concat(turned, with_batch_last).x._space == first
    half = dv.View(x=numbers.astype("f4"), _spaces={"x": last.with_dtype("f4")})
    assert dv.concat(half, usual).x._space == last
    for views, text in (
        ((turned, plain), "view 0 are declared as Conv2DSpace.* view 1 nothing is declared"),
        ((plain, turned), "view 1 are declared as Conv2DSpace.* view 0 nothing is declared"),
        ((usual, turned), "view 0 are declared as .*those of view 1 as .* lie in one order"),
        ((usual, dv.View(x=numbers, _spaces={"x": VectorSpace(12)})), "those of view 1 as Vector"),
    ):
        with pytest.raises(ValueError, match=text):
            dv.concat(*views)
    joined = np.concatenate([turned.x, plain.x()])  # which is to do what it does to arrays
    assert joined._space == VectorSpace(12, dtype="f8")
    declared = dv.View(plain, _spaces={"x": first})
    assert dv.concat(turned, declared).x._space == first
    forgotten = dv.View(x=turned.x._with_meta(space=None))
    assert dv.concat(forgotten, plain).x._space == VectorSpace(12, dtype="f8")
    one, other = turned.x[0], plain.x[0]
    assert dv.concat(one, other)._shape() == (24,)
    labels = dv.View(y=[1, 2], _spaces={"y": IndexSpace(3, 1)})
    assert dv.concat(labels, dv.View(y=[0])).y._space == IndexSpace(3, 1)
    with pytest.raises(ValueError, match="nothing is declared"):
        dv.concat(labels, dv.View(y=[0.5]))
    windows = dv.View(numbers, x=np.s_[:12], _spaces={"x": first})
    assert dv.concat(windows, windows).x._space == first
    with pytest.raises(ValueError, match="nothing is declared"):
        dv.concat(windows, dv.View(numbers, x=np.s_[:12]))
    with pytest.raises(ValueError, match="nothing is declared"):
        dv.concat(dv.View(numbers, x=np.s_[:12]), windows)
    words = [dv.ragged(np.arange(4.0).reshape(2, 2), lengths=[2])] * 2
    told = dv.View(w=words[0], _spaces={"w": SequenceSpace(VectorSpace(2))})
    assert dv.concat(told, dv.View(w=words[1])).w._space == SequenceSpace(VectorSpace(2))
    nested = dv.View(a=dv.View(x=numbers, _spaces={"x": first}))
    with pytest.raises(ValueError, match="nothing is declared"):
        dv.concat(nested, dv.View(a={"x": numbers}))


# -------------------- rows that are samples of a space --------------------


CONV = {1: dv.spaces.Conv1DSpace, 2: Conv2DSpace, 3: dv.spaces.Conv3DSpace}


@st.composite
def stored_rows(draw):
    """A space of images, rows as a field may store them, and whether it has to be declared."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    channels = draw(st.integers(1, 3))
    usual = CONV[len(shape)](shape, channels)
    axes = draw(st.permutations(usual.axes[1:])) if draw(st.booleans()) else usual.axes[1:]
    space = usual.with_axes(("b", *axes))
    row = space.row_shape
    kept = [n for n in row if n != 1 or draw(st.booleans())]
    stored = draw(st.sampled_from([row, (usual.get_total_dimension(),), tuple(kept)]))
    return space, stored, space != usual or draw(st.booleans())


@given(stored_rows())
@examples(150)
def test_rows_are_delivered_with_and_without_axes_of_length_one(drawn):
    space, stored, is_declared = drawn
    count = space.get_total_dimension()
    rows = np.arange(4 * count).reshape(4, *space.row_shape)
    d = dv.View(x=rows.reshape(4, *stored), _spaces={"x": space} if is_declared else None)
    vectors = rows.transpose(space.to_default).reshape(4, count)
    images = vectors.reshape(4, *space.shape, space.channels)
    turned = space.with_axes(("c", *range(len(space.shape)), "b"))
    for wanted, expected in (
        (space, rows),
        (space.in_default_order, images),
        (turned, np.moveaxis(images, (-1, 0), (0, -1))),
        (VectorSpace(count), vectors),
    ):
        spec = (wanted, "x")
        np.testing.assert_array_equal(d._get(spec)(), expected)
        np.testing.assert_array_equal(next(d._loader(4, spec=spec)), expected)
        np.testing.assert_array_equal(d._minibatches(4, spec=spec)[0](), expected)
    own = d._get((d.x._space, "x"))()
    assert own.shape == (4, *d.x._space.row_shape)
    np.testing.assert_array_equal(own.ravel(), rows.ravel())


def test_rows_with_axes_in_another_order_are_refused():
    d = dv.View(x=np.zeros((5, 3, 4, 2)))
    for wanted in (Conv2DSpace((3, 2), 4), Conv2DSpace((4, 3), 2), Conv2DSpace((2, 12), 1)):
        with pytest.raises(ValueError, match="source 'x'"):
            d._get((wanted, "x"))
        with pytest.raises(ValueError, match="are no samples of"):
            dv.View(d, _spaces={"x": wanted})


def test_steps_of_several_axes_are_delivered_as_vectors():
    rows = dv.ragged([np.ones((2, 2, 3)), np.zeros((1, 2, 3))])
    steps = SequenceSpace(VectorSpace(6))
    for d in (dv.View(x=rows), dv.View(x=rows, _spaces={"x": steps})):
        data, mask = d._get((steps, "x"))
        assert data._shape() == (2, 2, 6)
        assert mask().sum() == 3


# -------------------- what is computed of a field --------------------

COMPUTED = {
    "divided": lambda x: x / 2,
    "centred": lambda x: x - x._mean(0),
    "clipped": lambda x: np.clip(x, 1, 9),
    "filled": lambda x: x._fillna(0),
    "cast": lambda x: x._astype("f4"),
    "chosen": lambda x: np.where(x > 3, x, 0),
    "compared": lambda x: x == 3,
    "added to itself": lambda x: x + x[:],
}


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=COMPUTED)
@pytest.mark.parametrize("form", ["window", "member", "window of what is computed"])
def test_what_is_computed_of_each_number_lies_as_the_field_does(computed, form):
    numbers = np.arange(60.0).reshape(5, 12)
    space = PLANES.rows_first.with_dtype("f8")
    if form == "member":
        found = computed(dv.View(x=numbers, _spaces={"x": space}).x)
    else:
        windows = dv.View(np.hstack([numbers, numbers]), x=np.s_[:12], _spaces={"x": space})
        found = computed(windows.x) if form == "window" else computed(windows).x
    assert found._space == space.with_dtype(found._dtype())
    expected = found().reshape(5, 2, 2, 3).transpose(0, 2, 3, 1)
    d = dv.View(x=numbers, _spaces={"x": space})
    d.x = found
    for view in (d, dv.View(x=found)):
        for wanted, own in (
            (space.in_default_order, expected),
            (VectorSpace(12), expected.reshape(5, 12)),
        ):
            spec = (wanted.with_dtype(None), "x")
            np.testing.assert_array_equal(view._get(spec)(), own)
            np.testing.assert_array_equal(next(view._loader(5, spec=spec)), own)
    assert pickle.loads(pickle.dumps(found))._space == found._space


@pytest.mark.parametrize("shape", [(2, 2), (4, 3)])
def test_a_batch_whose_samples_are_no_rows_is_no_field(tmp_path, shape):
    images = np.arange(2 * math.prod(shape) * 2.0).reshape(2, *shape, 2)
    rows, last = Conv2DSpace(shape, 2), Conv2DSpace(shape, 2, axes=("c", 0, 1, "b"))
    batch = dv.View(x=images, _spaces={"x": rows})._get((last, "x"))
    flat = VectorSpace(images[0].size)
    d = dv.View(x=batch)
    batch._save(tmp_path / "a.npz")
    for field in (batch, d.x, (batch + 1) - 1, dv.open(tmp_path / "a.npz")):
        assert field._space == last.with_dtype("f8") or field._space == last
        np.testing.assert_array_equal(last.format_as(field, flat)(), images.reshape(2, -1))
        with pytest.raises(ValueError, match=r"samples lie along axis 3, .* format it before as"):
            dv.View(x=field)._get((flat, "x"))
        with pytest.raises(ValueError, match="samples lie along axis 3"):
            dv.View(x=field)._loader(1, spec=(flat, "x"))
    for key in (np.s_[:1], [1, 0], np.s_[::-1]):
        assert batch[..., key]._space == last
        np.testing.assert_array_equal(last.format_as(batch[..., key], rows)(), images[key])
    for part in (batch[:1], batch[:, :1], batch[:, ::-1], batch[..., 0], batch[:1][..., :1]):
        assert part._space is None
        assert (part + 1)._space is None
        assert pickle.loads(pickle.dumps(part))._space is None
    again = last.format_as(d.x, rows)
    np.testing.assert_array_equal(dv.View(x=again)._get((flat, "x"))(), images.reshape(2, -1))
    declared = dv.View(x=images.transpose(0, 3, 1, 2), _spaces={"x": last})
    assert declared.x._space == last
    np.testing.assert_array_equal(declared._get((flat, "x"))(), images.reshape(2, -1))


def test_what_is_computed_of_labels_is_no_label():
    numbers = np.array([[0, 5], [2, 6]])
    labels = IndexSpace(3, 1)
    windows = dv.View(numbers, y=np.s_[0:1], _spaces={"y": labels})
    d = dv.View(y=numbers[:, 0], _spaces={"y": labels})
    for computed in (lambda x: x / 2, lambda x: x + 10, lambda x: -x, lambda x: x._astype("f4")):
        assert getattr(computed(d.y)._space, "max_labels", None) is None
        assert computed(windows).y._space == VectorSpace(1, dtype=computed(windows)._dtype())
    assert windows._mean(0).y._space == VectorSpace(1, dtype="f8")
    for cast in (d.y._astype("u1"), windows._astype("u1").y):
        assert cast._space == labels.with_dtype("u1")
    many = dv.View(y=np.array([0, 299]), _spaces={"y": IndexSpace(300, 1)}).y
    assert many._astype("u2")._space == IndexSpace(300, 1, "u2")
    assert many._astype("u1")._space == IndexSpace(None, 1, "u1")  # which cannot hold 299


def test_one_hot_columns_are_those_of_the_space_in_all_parts():
    d = dv.View(x=[1.0, 2, 3], y=[0, 2, 2], _spaces={"y": IndexSpace(4, 1)})
    expected = np.eye(4, dtype="f4")[[0, 2, 2]]
    for part in (np.s_[:], np.s_[:1], np.s_[1:], np.array([False, True, False])):
        np.testing.assert_array_equal(d[part].y._onehot()(), expected[part])
        assert d[part].y._labels()().tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(d[part].y._codes()(), d.y()[part])
    assert d.y._counts()._asdict()["count"].tolist() == [1, 0, 2, 0]
    np.testing.assert_array_equal(d.y._onehot(labels=[2, 0])(), [[0, 1], [1, 0], [1, 0]])
    unknown = dv.View(y=[0, 2], _spaces={"y": IndexSpace(None, 1)})
    assert unknown.y._onehot()._shape() == (2, 2)


def test_a_record_in_an_npy_file_loses_its_spaces_with_a_warning(tmp_path):
    d = dv.View(x=np.zeros((2, 3)), y=[0, 1], _spaces={"y": IndexSpace(4, 1)})
    with pytest.warns(RuntimeWarning, match="the metadata of 'y' are not saved"):
        d._save(tmp_path / "a.npy")


def test_operands_that_lie_in_two_orders_are_in_neither():
    numbers = np.arange(24.0).reshape(2, 12)
    d = dv.View(
        x=numbers,
        y=numbers,
        _spaces={"x": PLANES.rows_first, "y": PLANES.in_default_order},
    )
    assert (d.x + d.y)._space == VectorSpace(12, dtype="f8")
    with pytest.raises(ValueError, match="'z' has flat rows"):
        dv.View(z=d.x + d.y)._get((PLANES, "z"))


ROW_OF_ANOTHER = {
    "row": lambda x, y: x - y[0],
    "row first": lambda x, y: y[0] - x,
    "one row": lambda x, y: x - y[:1],
    "mean": lambda x, y: x - y._mean(axis=0),
    "mean with axes": lambda x, y: x - y._mean(axis=0, keepdims=True),
    "minibatch": lambda x, y: x._minibatches(2)[0] - y[1],
    "choice": lambda x, y: np.where(y[0] > 3, x, 0.0),
}


@pytest.mark.parametrize("computed", ROW_OF_ANOTHER.values(), ids=ROW_OF_ANOTHER)
def test_a_row_that_lies_in_another_order_takes_the_order_away(computed):
    numbers = np.arange(24.0).reshape(2, 12)
    own, usual = PLANES.rows_first, PLANES.in_default_order
    told = {"x": own, "y": usual, "same": own, "weight": VectorSpace(1)}
    parts = {"x": numbers, "y": numbers, "same": numbers, "weight": np.ones((2, 1))}
    d = dv.View(**parts, _spaces=told, plain=numbers)
    assert computed(d.x, d.same)._space == own
    assert computed(d.x, d.plain)._space == own
    assert (computed(d.x, d.same) * d.weight)._space == own
    with pytest.raises(ValueError, match="'z' has flat rows"):
        dv.View(z=computed(d.x, d.y))._get((usual, "z"))


def test_flat_rows_that_a_function_has_made_go_through_no_other_order():
    d = dv.View(x=np.arange(24.0).reshape(2, 12), _spaces={"x": PLANES})
    whole = dv.View(x=np.arange(24.0).reshape(2, 2, 2, 3), _spaces={"x": PLANES})
    for made in (
        d.x._map(lambda row: row() + 1, shape=(12,), dtype=float),
        d.x._map_batches(lambda rows: rows + 1)._probe(),
        d.x[:, ::-1],
        d.x._reshape(2, 3, 4)._reshape(2, 12),
        np.reshape(whole.x, (2, 12)),
    ):
        lost = dv.View(x=made)
        for ask in (
            lambda spec, lost=lost: lost._get(spec),
            lambda spec, lost=lost: lost._loader(2, spec=spec),
            lambda spec, lost=lost: lost._minibatches(2, spec=spec),
        ):
            with pytest.raises(ValueError, match=r"'x' has flat rows.*_spaces=\{'x': ...\}"):
                ask((PLANES.in_default_order, "x"))
        assert lost._get((VectorSpace(12), "x"))._shape() == (2, 12)
        again = dv.View(lost, _spaces={"x": PLANES.in_default_order})
        assert again._get((PLANES, "x"))._shape() == (2, 2, 3, 2)
    grey = Conv2DSpace((3, 4), 1, axes=("b", "c", 0, 1))  # flat, they lie as the usual ones do
    d = dv.View(x=np.arange(24.0).reshape(2, 12), _spaces={"x": grey})
    assert dv.View(x=d.x[:, ::-1])._get((grey.in_default_order, "x"))._shape() == (2, 3, 4, 1)


# -------------------- parts of one size --------------------


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3)])
def test_fields_of_different_lengths_are_not_delivered_together(lengths):
    x, y = (np.zeros((n, width)) for n, width in zip(lengths, (2, 1), strict=True))
    d = dv.View(x=x, y=y, _driver="x")
    spec = (CompositeSpace((VectorSpace(2), VectorSpace(1))), ("x", "y"))
    for load in (
        lambda: d._loader(2, spec=spec),
        lambda: d._loader(2, fields=("x", "y")),
        lambda: d._minibatches(2, spec=spec)[0],
    ):
        with pytest.raises(AttributeError, match="field 'y' belongs to the whole dataset only"):
            load()
    with pytest.raises(ValueError, match=f"got {lengths[0]} in 'x' as .*, {lengths[1]} in 'y' as"):
        d._get(spec)
    assert next(d._loader(2, spec=(VectorSpace(2), "x"))).shape == (2, 2)


SIDE_BY_SIDE = [VectorSpace(2), SequenceSpace(VectorSpace(1)), dv.spaces.VectorSequenceSpace(2)]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("one", SIDE_BY_SIDE, ids=repr)
@pytest.mark.parametrize("other", SIDE_BY_SIDE, ids=repr)
def test_what_is_delivered_is_a_batch_of_the_space_that_is_asked_for(one, other, rows):
    d = dv.View(x=np.zeros((rows, 2)), r=dv.ragged([np.zeros((2, 1))] * rows))
    source = tuple("r" if isinstance(space, SequenceSpace) else "x" for space in (one, other))
    spec = (CompositeSpace((one, other)), source)
    is_one = [isinstance(space, dv.spaces.VectorSequenceSpace) for space in (one, other)]
    ways = [
        lambda: d._get(spec),
        lambda: next(d._loader(rows, spec=spec)),
        lambda: d._minibatches(rows, spec=spec)[0],
    ]
    for way in ways:
        if rows > 1 and is_one[0] != is_one[1]:
            with pytest.raises(ValueError, match="have one number of samples; got"):
                way()
        else:
            spec[0].validate(way())


# -------------------- spaces of other versions --------------------


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "VectorSpace", "dim": 2, "new": 3},
        {"kind": "VectorSpace"},
        {"kind": "WaveSpace", "dim": 2},
        {"kind": "SequenceSpace", "space": 3},
        {"kind": "SequenceSpace", "space": {"dim": 3}},
        {"kind": "CompositeSpace", "components": [{"kind": "VectorSpace", "dim": -1}]},
    ],
)
def test_a_space_that_this_version_does_not_know(told, tmp_path):
    d = dv.View(x=np.zeros((3, 2)), y=np.zeros((3, 2)), _meta={"x": {"space": told}})
    d._save(tmp_path / "d.npz")
    for view in (d, dv.open(tmp_path / "d.npz")):
        assert "space=unreadable" in repr(view)
        assert "unreadable" in view._repr_html_()
        assert dv.concat(view, view)._shape() == (6,)
        assert (view.x * 2)._shape() == (3, 2)
        view._show()
        assert view._get((VectorSpace(2), "y"))._shape() == (3, 2)
        for ask in (
            lambda view=view: view._get((VectorSpace(2), "x")),
            lambda view=view: view.x._space,
        ):
            with pytest.raises(ValueError, match=r"no space that this version knows: .*_spaces="):
                ask()
        again = dv.View(view, _spaces={"x": VectorSpace(2)})
        assert again._get((VectorSpace(2), "x"))._shape() == (3, 2)


@pytest.mark.parametrize(
    "told", ["RGB", {"name": "RGB"}, {"kind": ["x"]}, {"kind": "colours"}, np.array([1, 2])]
)
def test_metadata_of_others_that_are_called_space(told):
    d = dv.View(x=np.zeros((3, 2)), _meta={"x": {"space": told}})
    assert d.x._space == VectorSpace(2, dtype="f8")
    assert d._get((VectorSpace(2), "x"))._shape() == (3, 2)
    for part in (d.x[1:], d.x[:, :1], d.x + 1):
        assert part._space == VectorSpace(part._shape()[1], dtype="f8")
    assert "unreadable" not in repr(d)


# -------------------- padding, and what is asked for by mistake --------------------


def test_which_rows_are_padding_is_known_of_what_is_delivered():
    labels = IndexSpace(3, 1)
    d = dv.View(x=np.arange(10.0).reshape(5, 2), y=np.arange(5) % 3, _spaces={"y": labels})
    spaces = VectorSpace(2, dtype="f4"), VectorSpace(3), labels, labels.with_dtype("u1")
    spec = (CompositeSpace(spaces), ("x", "y", "y", "y"))
    for wanted in (spec, *zip(spaces, spec[1], strict=True)):
        minibatches = d._minibatches(3, tail="pad", spec=wanted)
        assert minibatches._valid()().tolist() == [[True] * 3, [True, True, False]]
        assert minibatches[1:]._valid()().tolist() == [[True, True, False]]
        parts = minibatches[1] if isinstance(minibatches[1], tuple) else (minibatches[1],)
        for part in parts:
            assert part._valid()().tolist() == [True, True, False]


def test_rows_that_are_filled_up_are_no_sequences():
    words = SequenceSpace(IndexSpace(9, 1))
    d = dv.View(w=[[1, 2], [3]])
    with pytest.raises(ValueError, match=r"'w': pad= fills up .*leave pad= out"):
        d._loader(2, pad=7, spec=(words, "w"))


def test_images_whose_rows_look_as_if_their_channels_came_first():
    images = Conv2DSpace((8, 9), 3, axes=("b", "c", 0, 1))
    d = dv.View(x=np.zeros((4, 3, 8, 9)))
    with pytest.raises(ValueError, match=r"if they have \('c', 0, 1\), declare its space"):
        d._get((images, "x"))
    assert dv.View(d, _spaces={"x": images})._get((images, "x"))._shape() == (4, 3, 8, 9)


def test_arrays_of_two_dtypes_are_not_the_same():
    mapping = DataSpecsMapping((CompositeSpace((VECTORS, VECTORS)), ("f", "f")))
    with pytest.raises(ValueError, match="differs"):
        mapping.flatten((np.ones(2), np.ones(2, "f4")))


LOADED = {
    "in order": {},
    "permuted": {"sampler": "permutation", "seed": 3},
    "filled up": {"tail": "pad"},
    "by workers": {"workers": 2},
    "transformed": {"transform": lambda sample: {"y": sample.y(), "x": sample.x() + 1}},
}


@pytest.mark.parametrize("options", LOADED.values(), ids=LOADED)
@pytest.mark.parametrize("wrong", [7, -1])
def test_a_loader_names_the_sample_that_cannot_be_formatted(options, wrong):
    labels = IndexSpace(3, 1)
    d = dv.View(x=np.arange(7.0), y=[0, 1, 2, 0, 1, wrong, 5], _spaces={"y": labels})[:6]
    for space in (labels, VectorSpace(3)):
        spec = dv.specs.combine((VectorSpace(1), "x"), (space, "y"))
        with (
            pytest.raises(ValueError, match=f"^sample 5: .*label {wrong} in row [0-3] is out of"),
            contextlib.closing(d._loader(4, spec=spec, **options)) as loader,
        ):
            list(loader)


def test_a_loader_names_samples_of_sequences_and_of_numbers_too_large():
    words = SequenceSpace(IndexSpace(3, 1))
    d = dv.View(w=[[1], [2, 0], [1, 7, 0]], n=[1, 2, 300], _spaces={"w": words})
    with pytest.raises(ValueError, match=r"^sample 2: .*label 7 in step 1 of row 2"):
        list(d._loader(3, spec=(words, "w")))
    with pytest.raises(OverflowError, match=r"^sample 2: .*300 does not fit into uint8"):
        list(d._loader(3, spec=(VectorSpace(1, dtype="u1"), "n")))


def test_a_loader_names_no_sample_where_a_batch_fails_as_a_whole():
    d = dv.View(y=[0, 1, 7, 0])
    labels, heard = (IndexSpace(3, 1), "y"), []

    def alone(batch):
        heard.append(len(batch))
        raise ValueError("it is whole")

    called = IndexSpace(9, 1, np_validate_callbacks=[alone])
    with pytest.raises(ValueError, match="it is whole"):
        list(d._loader(2, spec=(called, "y")))
    assert heard == [2]
    with pytest.raises(ValueError, match=r"^source 'y'.*label 7 in row 0"):
        list(d._loader(2, spec=labels, collate=lambda samples: {"y": np.array([7])}))


def test_sequences_have_the_dtype_that_is_asked_for_whatever_is_stored():
    narrow = SequenceSpace(VectorSpace(1, dtype="f4"))
    d = dv.View(w=[[1.5], [2.0, 3.0]], _spaces={"w": narrow})
    data, mask = d._get((narrow, "w"))
    assert data._dtype() == data().dtype == next(d._loader(2, spec=(narrow, "w")))[0].dtype == "f4"
    both = CompositeSpace((narrow, VectorSpace(1, dtype="f4"), NullSpace()))
    given = (np.ones((2, 2, 1)), mask()), np.ones((2, 1)), None
    (sequences, marks), vectors, nothing = both.np_format_as(given, both)
    assert sequences.dtype == vectors.dtype == "f4" and nothing is None and marks is given[0][1]


def test_which_sequences_are_padding_is_known_of_what_is_computed():
    space = SequenceSpace(VectorSpace(1))
    d = dv.View(w=[[1.5], [2.0, 3.0], [4.0, 5.0, 6.0]], _spaces={"w": space})
    data, mask = d._minibatches(2, spec=(space, "w"), tail="pad")[1]
    for part in (
        data,
        mask,
        data + 1,
        data * mask[:, :, None],
        -data,
        data[1:],
        (data + 1)[:, :, 0],
    ):
        assert part._valid()().tolist() == [True, False]


CONV_STEPS = SequenceSpace(Conv2DSpace((2, 1), 2, axes=("b", "c", 0, 1)))


@pytest.mark.parametrize(
    ("computed", "dtype"),
    [
        (lambda w, x: w * 2, "f8"),
        (lambda w, x: w[1:][::-1] / 4, "f8"),
        (lambda w, x: w * x, "f8"),
        (lambda w, x: np.sqrt(w)._astype("f4"), "f4"),
        (lambda w, x: (x - w)[[2, 0]], "f8"),
    ],
)
def test_what_is_computed_of_rows_of_different_lengths_keeps_their_space(computed, dtype):
    rows = [np.arange(4.0 * n).reshape(n, 4) + n for n in (2, 1, 3)]
    d = dv.View(w=dv.ragged(rows), x=[1.0, 2.0, 3.0], _spaces={"w": CONV_STEPS})
    found = computed(d.w, d.x)
    assert found._space.with_dtype(None) == CONV_STEPS and found._dtype() == dtype
    wanted = SequenceSpace(Conv2DSpace((2, 1), 2))
    data, mask = dv.View(w=found)._get((wanted, "w"))
    for number, row in enumerate(found()):  # its channels lie in front, and are asked for last
        expected = row.reshape(-1, 2, 2, 1).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(data()[: len(row), number], expected)
        assert mask()[:, number].sum() == len(row)


def test_labels_of_different_lengths_are_labels_where_they_are_only_cast():
    words = SequenceSpace(IndexSpace(3, 1))
    d = dv.View(w=[[1, 2], [0]], _spaces={"w": words})
    assert d.w._astype("i4")._space == words.with_dtype("i4")
    assert (d.w * 2)._space.space.max_labels is None
