"""What Pylearn2's users type where something else is meant: each message names the remedy."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import dataview as dv
from dataview.spaces import CompositeSpace, Conv2DSpace, IndexSpace, NullSpace, VectorSpace

X, Y = VectorSpace(4), IndexSpace(3, 1)
C = Conv2DSpace((28, 28), channels=1)
BOTH = CompositeSpace((X, Y))


class Other:
    """An array of another library, as a tensor or a table."""

    def __array__(self, dtype=None, copy=None):
        return np.zeros((2, 4), dtype)


@pytest.fixture
def names():
    d = dv.View(x=np.arange(24.0).reshape(6, 4), y=[0, 1, 2, 0, 1, 2], _spaces={"y": Y})
    return {**globals(), **vars(dv.spaces), "d": d, "batch": d.x()}


MISTAKES = [
    # arguments of spaces
    ("IndexSpace(num_labels=10)", "'num_labels'; did you mean 'max_labels'? Write IndexSpace(max_"),
    ("IndexSpace(n_classes=3)", "no argument 'n_classes'; write IndexSpace(max_labels, dim=1,"),
    ("IndexSpace()", "IndexSpace: missing a required argument: 'max_labels'; write IndexSpace("),
    ("IndexSequenceSpace(num_labels=3)", "IndexSequenceSpace has no argument 'num_labels'; did"),
    ("VectorSpace()", "missing a required argument: 'dim'; write VectorSpace(dim, sparse=False, d"),
    ("VectorSpace(size=3)", "no argument 'size'; write VectorSpace(dim, sparse=False, dtype=None)"),
    ("VectorSpace((28, 28))", "a vector has the product of the lengths of a shape, and a Conv2DS"),
    ("VectorSpace(3.0)", "dim= is a whole number; got 3.0"),
    ("VectorSpace(True)", "dim= is a whole number; got True"),
    ("VectorSequenceSpace(window=3)", "no argument 'window'; write VectorSequenceSpace(dim, dtype"),
    ("Conv2DSpace((28, 28))", "takes channels=, or num_channels=, which is the same; got neither"),
    ("Conv2DSpace((2, 2), 1, num_channels=1)", "which is the same; got both"),
    (
        "Conv2DSpace((2, 2), num_channel=1)",
        "no argument 'num_channel'; did you mean 'num_channels'",
    ),
    ("Conv2DSpace((2, 2), 1, axis=None)", "no argument 'axis'; did you mean 'axes'? Write Conv2DS"),
    ("Conv2DSpace((2, 2), 1, axes='bc01')", "got 'bc01'; write axes=('b', 'c', 0, 1)"),
    ("Conv2DSpace(28, 28, 1)", "the shape of a Conv2DSpace has 2 lengths, as (28, 28); got 28"),
    ("Conv2DSpace(2, 3)", "has 2 lengths, as (28, 28); got 2; all of them stand in one tuple"),
    ("Conv2DSpace((2, 2), 1, 'f4')", "in some order; got 'f4'; dtype= takes dtypes"),
    ("Conv2DSpace((2, 2), 1, 3)", "are ('b', 0, 1, 'c') in some order; got 3"),
    ("IndexSpace(10, 'i4')", "dim= is a whole number; got 'i4'; dtype= takes dtypes"),
    (
        "CompositeSpace({'x': X})",
        "takes a tuple of spaces, as in CompositeSpace((space, space)); g",
    ),
    ("CompositeSpace(3)", "takes a tuple of spaces, as in CompositeSpace((space, space)); got 3"),
    ("SequenceSpace(dim=3)", "SequenceSpace has no argument 'dim'; write SequenceSpace(space)"),
    ("SequenceSpace(VectorSpace)", "got the class VectorSpace; VectorSpace(...) makes a space of"),
    (
        "CompositeSpace((VectorSpace, Y))",
        "component 0 of a CompositeSpace has to be a space; got t",
    ),
    ("CompositeSpace(spaces=(X, Y))", "no argument 'spaces'; write CompositeSpace(components)"),
    ("NullSpace(3)", "NullSpace: too many positional arguments; write NullSpace()"),
    ("Conv2DSpace((2, 2), 1, axes=('n', 'c', 'h', 'w'))", "write axes=('b', 'c', 0, 1)"),
    ("Conv1DSpace(2, 1, axes='NCL')", "got 'NCL'; write axes=('b', 'c', 0)"),
    ("Conv3DSpace((2, 2, 2), 1, axes='NDHWC')", "got 'NDHWC'; write axes=('b', 0, 1, 2, 'c')"),
    ("Conv2DSpace((2, 2), 1, axes='NCDW')", "in some order; got 'NCDW'"),
    # what spaces do
    (
        "X.format_as(batch, VectorSpace)",
        "got the class VectorSpace; VectorSpace(...) makes a space",
    ),
    ("X.make_shared_batch('x', 3)", "batch_size= is a number of samples; got 'x'"),
    ("X.get_batch(batch, 0, 2)", "a space has no 'get_batch'; write batch[start:stop]"),
    ("X.make_theano_batch('x')", "a space has no 'make_theano_batch'; write make_batch"),
    ("setattr(X, 'dtype', 'f4')", "space.with_dtype('f4') makes another space"),
    ("setattr(X, 'dim', 5)", "space.replaced(dim=5) makes another space"),
    ("setattr(X, 'name', 'x')", "does not change, so its 'name' cannot be set"),
    ("BOTH.restrict(0)", "subset= lists the numbers of components, as [0] does"),
    (
        "X.format_as(batch, SequenceSpace(X))",
        "only as VectorSpace, Conv1DSpace, Conv2DSpace, Conv3DSpace, IndexSpace, CompositeSpace",
    ),
    (
        "C.format_as(C.get_origin_batch(2, 'f4'), Y)",
        "only as Conv2DSpace, VectorSpace, CompositeSp",
    ),
    (
        "Y.np_validate(np.array([['a']]))",
        "would lose what they hold; view._codes() makes labels of",
    ),
    ("Y.np_validate(np.array([[1.0]]))", "_astype('int64') of a view, or astype('int64') of an ar"),
    ("Y.np_validate(np.array([['2020']], 'M8[Y]'))", "lose what they hold; convert the data first"),
    (
        "dv.View(x=[0, 1], _spaces={'x': IndexSpace(2)})._get((VectorSpace(1), 'x'))",
        "side by side 2, not 1; a field that is not declared as labels, as after _astype(float)",
    ),
    ("NullSpace().format_as(None, X)", "cannot be formatted as VectorSpace(dim=4): only as what"),
    ("X.np_validate(batch[0])", "got the shape (4,); batch[None] is a batch of this one sample"),
    ("C.np_validate(np.zeros((3, 28, 28)))", "(3, 28, 28); batch.reshape(-1, 28, 28, 1) has them"),
    ("C.np_validate(np.zeros((3, 1, 28, 28)))", "axes= says in which order the axes stand, as axe"),
    (
        "X.np_validate(Other())",
        "got Other; np.asarray(batch) makes an array of it, dv.View(batch) a",
    ),
    (
        "X.format_as(Other(), C)",
        "got Other; np.asarray(batch) makes an array of it, dv.View(batch) a",
    ),
    (
        "SequenceSpace(X).np_validate((Other(), Other()))",
        "data: SequenceSpace(space=VectorSpace(dim=4)) takes arrays or views; got Other; np.as",
    ),
    (
        "X.np_batch_size(d.x)",
        "np_batch_size takes arrays, and the batch holds a view; call the vie",
    ),
    ("NullSpace().np_batch_size(d.x)", "or use batch_size, which is lazy"),
    (
        "X.undo_np_format_as(d.x, X)",
        "undo_np_format_as takes arrays, and the batch holds a view; c",
    ),
    ("X.undo_np_format_as(batch, 3)", "a batch is formatted as a space; got 3"),
    ("X.undo_format_as(batch, 'x')", "a batch is formatted as a space; got 'x'"),
    ("d.y._onehot(3)", "labels= is a list of labels, as [0, 1, 2] or range(3); got one value"),
    ("Y.np_validate(np.array([0, 1]))", "got the shape (2,); batch[:, None] makes it a column"),
    # pairs
    (
        "dv.View(x=batch, _spaces={'x': X})[0]._get((X, 'x'))",
        "got the shape (4,); batch[None] is a batch of this one sample",
    ),
    ("dv.View(batch)._get((X, ''))", "dv.View(x=view) gives an array a name, here 'x'"),
    ("dv.spaces.OneHotFormatter", "'OneHotFormatter'; write IndexSpace(max_labels, dim).format_as"),
    ("dv.spaces.SequenceMaskSpace", "'SequenceMaskSpace'; write SequenceSpace(space), whose batch"),
    ("d.has_targets()", "no field 'has_targets' in View of 6 rows: x, y; write 'name' in d._field"),
    ("d.get_batch_topo(2)", "no field 'get_batch_topo' in View of 6 rows: x, y; write d[:n]._get("),
    ("d._get(X, 'x')", "_get: too many positional arguments; write d._get((space, name))"),
    (
        "d._get(space=X, source='x')",
        "_get has no argument 'space'; did you mean 'spec'? Write d._g",
    ),
    ("d._get()", "missing a required argument: 'spec'; write d._get((space, name))"),
    ("d._get(('x', X))", "the space first; got 'x'; write (VectorSpace(dim=4), 'x')"),
    (
        "d._get(X)",
        "as (VectorSpace(3), 'features'); got VectorSpace(dim=4); give the name of the fi",
    ),
    (
        "d._loader(2, spec={'x': X, 'y': Y})",
        "; write (CompositeSpace((VectorSpace(dim=4), IndexSpace(max_labels=3, dim=1, dtype='int6"
        "4'))), ('x', 'y'))",
    ),
    ("d._get({'x': X})", "got {'x': VectorSpace(dim=4)}; write (VectorSpace(dim=4), 'x')"),
    ("dv.specs.combine(dv.specs.Cost)", "'>; write cost.get_data_specs(model)"),
    (
        "d._get((X, ('x', 'y')))",
        "is a tuple; dv.View(x=np.column_stack((d['x'], d['y']))) has the columns of one matrix",
    ),
    ("d._get((X, ('x', ('y',))))", "got ('x', ('y',)); a tuple of sources needs a CompositeSpace"),
    (
        "dv.View(x={'in': d.x, 'out': d.y})._get((X, 'x.in'))",
        "write d['x']['in']; dv.View(x=d['x']['in']) gives it a name of its own",
    ),
    (
        "dv.View(x={'in': d.x, 'out': d.y})._loader(2, spec=(X, 'x'))",
        "give its fields names of their own, dv.View(x=d['x']['in'])",
    ),
    (
        "d._minibatches(2, spec=(X, 'x')).x",
        "batches of DataSpecs(VectorSpace(dim=4), 'x') have no 'x': each of them, such as minibat",
    ),
    ("d._loader(2, sampler='shuffled_sequential')", "'shuffled_sequential'; did you mean 'permuta"),
    ("d._minibatches(2, sampler='even_random_uniform')", "uniform'; did you mean 'uniform'?"),
    (
        "next(d._loader(2, spec=(X, 'x'), collate=lambda rows: {'x': [r['x'] for r in rows]}))",
        "spec= formats arrays; a batch has a list; np.stack(...) makes an array of it",
    ),
    ("d._get([X, 'x'])", "got [VectorSpace(dim=4), 'x']; a pair is a tuple"),
    ("d._get((BOTH, ['x', 'y']))", "got ['x', 'y']; write ('x', 'y')"),
    ("d._get(((X, 'x'), (Y, 'y')))", "dv.specs.combine(pair, pair) makes one pair of several"),
    ("d._get([(X, 'x'), (Y, 'y')])", "dv.specs.combine(pair, pair) makes one pair of several"),
    ("d._get(((X, Y), ('x', 'y')))", "CompositeSpace(spaces) makes one space of several"),
    (
        "d._get((VectorSpace, 'x'))",
        "got the class VectorSpace; VectorSpace(...) makes a space of it",
    ),
    ("d._get(('x', 'y'))", "the space first; got 'x'"),
    ("d._get((NullSpace(), None))", "the source of NullSpace() is ''; got None"),
    ("d._loader(2, spec=('x', X))", "the space first; got 'x'; write (VectorSpace(dim=4), 'x')"),
    ("dv.specs.DataSpecs((X, 'x'))", "argument: 'source'; write DataSpecs(space, source)"),
    ("dv.specs.DataSpecsMapping(X, 'x')", "write DataSpecsMapping((space, source))"),
    (
        "dv.specs.DataSpecsMapping((BOTH, ('x', 'y'))).nest([1, 2])",
        "got a list; tuple(parts) makes",
    ),
    ("dv.specs.is_flat_specs(X, 'x')", "write is_flat_specs((space, source))"),
    (
        "dv.specs.MonitorChannel('n', 1)",
        "write MonitorChannel(graph_inputs, val, name, data_specs,",
    ),
    (
        "dv.specs.MonitorChannel([X.make_batch('x')], 0, 'n', (X, 'x'))",
        "channel 'n': graph_inputs is a list; give the symbol without the list",
    ),
    (
        "dv.specs.MonitorChannel([X.make_batch('x')], 0, 'n', (CompositeSpace((X,)), ('x',)))",
        "channel 'n': graph_inputs is a list; make it a tuple",
    ),
    # declarations
    (
        "dv.View(lambda n: {'x': batch[n]}, _length=2, _spaces={'x': X})",
        "unknown until a sample has been read, in _spaces=; give _fields=, too, which says what a",
    ),
    ("dv.View(x=['a', 'b'], _spaces={'x': Y})", "_codes() makes labels of texts"),
    ("dv.View(x=batch, _spaces={'x': VectorSpace})", "for 'x' it got the class VectorSpace; Vect"),
    (
        "dv.View(x=batch, spaces={'x': X})",
        "spaces= is given a space, which is no data; write _spac",
    ),
    (
        "setattr(d, '_space', X)",
        "'_space' cannot be assigned; write dv.View(d, _spaces={name: space})",
    ),
    ("d.x._set_space(X)", "no verb '_set_space'; write dv.View(d, _spaces={name: space})"),
    # other names of Pylearn2
    ("d.iterator(batch_size=2)", "write d._loader(batch_size, spec=(space, name))"),
    ("d.get_num_examples()", "no field 'get_num_examples' in View of 6 rows: x, y; write len(d)"),
    ("dv.spaces.SequenceMaskSpace", "SequenceSpace(space), whose batches are pairs of data and m"),
    ("dv.spaces.VectorSpaces", "no attribute 'VectorSpaces'; did you mean 'VectorSpace'?"),
    ("dv.specs.Dataspecs", "no attribute 'Dataspecs'; did you mean 'DataSpecs'?"),
    ("dv.space", "module 'dataview' has no attribute 'space'; write dv.spaces"),
]


@pytest.mark.parametrize(("typed", "text"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake_is_told_the_remedy(typed, text, names):
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        eval(typed, names)
    assert text in str(caught.value)
    assert caught.value.__cause__ is None or caught.value.__suppress_context__


def test_a_class_of_spaces_of_ones_own_is_refused_with_the_remedy():
    with pytest.raises(
        TypeError, match=r"^Cifar cannot inherit .*; name a space, Cifar = Conv2DSp"
    ):

        class Cifar(dv.spaces.Conv2DSpace):
            pass

    for kind in (dv.spaces.Space, dv.spaces.VectorSpace, dv.spaces.SequenceSpace):
        with pytest.raises(TypeError, match=f"Own cannot inherit from {kind.__name__}: fields, "):
            type("Own", (kind,), {})
    assert "Own" not in dv.spaces.Space.kinds


def test_the_remedies_for_shapes_work():
    d = dv.View(x=np.arange(12.0).reshape(3, 4))
    assert d[0:1]._get((X, "x"))().tolist() == [[0, 1, 2, 3]]
    assert dv.View(x=dv.View(d.x()))._get((X, "x"))._shape() == (3, 4)
    X.np_validate(d.x()[0][None])
    C.np_validate(np.zeros((3, 28, 28)).reshape(-1, 28, 28, 1))
    C.with_axes(("b", "c", 0, 1)).np_validate(np.zeros((3, 1, 28, 28)))
    for shape in [(3, 28, 28, 3), (3, 27, 28, 1), (28, 28, 1, 3, 1), (3,)]:
        with pytest.raises(ValueError, match=r"has .*(axes|channels|rows)") as caught:
            C.np_validate(np.zeros(shape))
        assert "reshape" not in str(caught.value) and "axes=(" not in str(caught.value)[90:]


def test_the_remedies_for_fields_work():
    numbers, texts = [0.0, 2.0, 1.0], ["b", "c", "a"]
    d = dv.View(x=numbers, text=texts, image={"left": np.arange(6.0).reshape(3, 2)})
    for labels in (d.x._astype("int64"), d.text._codes()):
        codes = dv.View(y=labels, _spaces={"y": Y})._get((Y, "y"))
        assert codes().tolist() == labels()[:, None].tolist()
    one = dv.View(y=np.array([0, 1, 1]))
    assert one._get((VectorSpace(1), "y"))().tolist() == [[0], [1], [1]]
    declared = dv.View(one, _spaces={"y": IndexSpace(2)})
    declared._set_field("y", declared.y._astype(float))
    assert next(declared._loader(2, spec=(VectorSpace(1), "y"))).tolist() == [[0], [1]]
    matrix = dv.View(x=np.column_stack((d["x"], d["x"])))
    assert next(matrix._loader(3, spec=(VectorSpace(2), "x"))).tolist() == [[n, n] for n in numbers]
    left = dv.View(x=d["image"]["left"])
    assert left._get((VectorSpace(2), "x"))().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert d["image"]._get((VectorSpace(2), "left"))().tolist() == [[0, 1], [2, 3], [4, 5]]
    rows = {"_length": 2, "_spaces": {"x": VectorSpace(4)}}
    made = dv.View(lambda n: {"x": np.ones(4)}, _fields={"x": ((4,), float)}, **rows)
    probed = dv.View(lambda n: {"x": np.ones(4)}, _length=2)._probe()
    for view in (made, dv.View(probed, _spaces=rows["_spaces"])):
        assert view.x._space == VectorSpace(4)


def test_batches_of_a_specification_are_copied(names):
    batches = names["d"]._minibatches(4, spec=(X, "x"))
    assert not hasattr(batches, "_repr_html_")
    for same in (copy.copy(batches), pickle.loads(pickle.dumps(batches))):
        assert [batch._shape() for batch in same] == [(4, 4), (2, 4)]


def test_what_is_right_is_what_it_was():
    assert BOTH[1] == Y and tuple(BOTH) == (X, Y)
    assert X.replaced(dim=5) == VectorSpace(5) and X.with_dtype("f4") == VectorSpace(4, dtype="f4")
    assert Conv2DSpace((2, 2), 1, ("b", "c", 0, 1)).axes == ("b", "c", 0, 1)
    assert NullSpace() == NullSpace()
    assert str(inspect.signature(VectorSpace)).startswith("(dim: 'int', sparse: 'bool' = False")
