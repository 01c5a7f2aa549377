"""Samples as people have them: tuples, objects, lists of them, datasets; and declared ones."""

from __future__ import annotations

import pickle
import types
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import dataview as dv
from counting import Counting
from oracle import assert_same

N = 5
Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    """An image and its label."""

    x: np.ndarray
    y: int


class Plain:
    """Attributes, and nothing else."""

    def __init__(self, x, y):
        self.x, self.y, self._secret = x, y, object()


def pair(number):
    return np.arange(3.0) + number, number


def as_mapping(number):
    return dict(zip("xy", pair(number), strict=True))


SHAPES = {
    "tuple": pair,
    "namedtuple": lambda number: Pair(*pair(number)),
    "mapping": as_mapping,
    "dataclass": lambda number: Sample(*pair(number)),
    "object": lambda number: Plain(*pair(number)),
    "namespace": lambda number: types.SimpleNamespace(**as_mapping(number)),
}


class ByNumber:
    """A dataset as PyTorch wants it."""

    def __init__(self, make, n=N):
        self.make, self.n, self.asked = make, n, []

    def __len__(self):
        return self.n

    def __getitem__(self, number):
        if not 0 <= number < self.n:
            raise IndexError(number)
        self.asked.append(number)
        return self.make(number)


class InOrder:
    """A dataset that can be iterated over."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return map(self.make, range(N))


class Both(ByNumber):
    """A dataset with the public protocol of Hugging Face's."""

    column_names = ("x", "y")

    def __iter__(self):
        raise AssertionError("asked in order, and it has numbers")

    def __getitems__(self, numbers):
        return [self[number] for number in numbers]


MADE = {
    "function": lambda make, **options: dv.View(make, _length=N, **options),
    "by number": lambda make, **options: dv.View(ByNumber(make), **options),
    "both": lambda make, **options: dv.View(Both(make), **options),
    "function of iterators": lambda make, **o: dv.View(lambda: map(make, range(N)), **o),
    "in order": lambda make, **options: dv.View(InOrder(make), **options),
    "iterator": lambda make, **options: dv.View(iter(map(make, range(N))), **options),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("made", MADE)
def test_the_parts_of_a_sample_are_its_fields(made, shape):
    view = MADE[made](SHAPES[shape])._probe()
    names = ("0", "1") if shape == "tuple" else ("x", "y")
    assert view._fields() == names
    x, y = zip(*((s[names[0]](), s[names[1]]()) for s in view), strict=True)
    assert_same(np.array(x), np.arange(3.0) + np.arange(N)[:, None])
    assert_same(np.array(y), np.arange(N))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("made", MADE)
def test_loaders_take_every_shape_of_samples(made, shape):
    names = ("0", "1") if shape == "tuple" else ("x", "y")
    for batch in MADE[made](SHAPES[shape])._loader(N):
        assert_same(batch[names[0]](), np.arange(3.0) + np.arange(N)[:, None])
        assert_same(batch[names[1]](), np.arange(N))


@pytest.mark.parametrize("make", [pair, lambda number: list(pair(number))])
@pytest.mark.parametrize("made", MADE)
def test_names_for_what_has_none(made, make):
    view = MADE[made](make, _names=("image", "label"))
    for batch in view._loader(N):
        assert batch._fields() == ("image", "label")
        assert_same(batch.label(), np.arange(N))
    if made != "iterator":
        assert view._probe().image._shape()[1:] == (3,)


def test_names_are_checked():
    for names, error, text in [
        ("xy", TypeError, "lists the names"),
        (("x", "x"), ValueError, "two parts alike"),
        (("x", "_y"), TypeError, "write .y."),
        ((1, 2), TypeError, "1"),
    ]:
        with pytest.raises(error, match=text):
            dv.View(pair, _length=N, _names=names)
    for make, error, text in [
        (pair, ValueError, r"sample 0, made by pair: 1 names are given .* has 2 parts"),
        (as_mapping, TypeError, "sample 0.*names of its own: x, y"),
        (np.arange, TypeError, "sample 0.*the sample has no parts"),
    ]:
        with pytest.raises(error, match=text):
            dv.View(make, _length=N, _names=("x",))._probe()
    with pytest.raises(TypeError, match="names the parts of samples, or of a tuple of arrays"):
        dv.View(np.zeros((3, 2)), _names=("x", "y"))
    with pytest.raises(TypeError, match=r"_names= .*got no data"):
        dv.View(x=[1], _names=("x",))


def test_tuples_in_tuples_are_fields_and_tuples_with_a_name_are_arrays():
    view = dv.View(lambda number: (number, (number, np.zeros(2))), _length=3)._probe()
    assert_same(view["1"]["0"](), np.arange(3))
    assert view["1"]["1"]._shape() == (3, 2)
    named = dv.View(lambda number: {"size": (number, 2), "x": {"y": number}}, _length=3)._probe()
    assert_same(named.size(), np.array([[0, 2], [1, 2], [2, 2]]))
    assert_same(named.x.y(), np.arange(3))


def test_members_of_one_length_in_a_sample_are_no_rows():
    view = dv.View(lambda number: {"x": np.zeros(3), "y": np.ones(3)}, _length=2)._probe()
    assert view.x._shape() == view.y._shape() == (2, 3)
    view = dv.View(lambda number: {"x": np.zeros(3), "y": np.ones(2)}, _length=2)._probe()
    assert (view.x._shape(), view.y._shape()) == ((2, 3), (2, 2))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_list_of_samples_has_their_fields_at_once(shape):
    if shape in ("object", "namespace"):  # a list of objects is an array of objects
        return
    view = dv.View([SHAPES[shape](number) for number in range(N)])
    names = ("0", "1") if shape == "tuple" else ("x", "y")
    assert (view._fields(), len(view)) == (names, N)
    assert_same(view[names[0]](), np.arange(3.0) + np.arange(N)[:, None])
    assert_same(view[names[1]][1:3](), np.arange(1, 3))


def test_lists_that_make_an_array_are_arrays():
    assert_same(dv.View([(1, 2), (3, 4)])(), np.array([[1, 2], [3, 4]]))
    assert_same(dv.View(((1, 2), (3, 4)))(), np.array([[1, 2], [3, 4]]))
    named = dv.View([(1, 2), (3, 4)], _names=("a", "b"))
    assert_same(named.b(), np.array([2, 4]))
    assert dv.View([]).shape == (0,)
    objects = [object(), object()]
    assert dv.View(objects)().tolist() == objects


def test_a_list_of_views_is_their_stack():
    x = np.arange(12.0).reshape(4, 3)
    d, r = dv.View(x, a=0), dv.View(x=x, name=np.array(list("abcd")))
    for made in (dv.View([d[0], d[2]]), dv.View((d[0], d[2])), dv.View(f=[d[0], x[2]]).f):
        assert_same(made(), x[[0, 2]])
    assert_same(dv.zip([d, d])(), dv.View(f0=np.stack([x, x]))())
    rows = dv.View([r[0], r[2]])
    assert_same(rows(), r[[0, 2]]())
    rows.x[1] = -1  # nothing was copied
    assert x[2].tolist() == [-1, -1, -1]
    assert [row().tolist() for row in dv.View([d[0], d[1, :2]])] == [[0, 1, 2], [3, 4]]
    other = dv.View(x=x)
    for make in (dv.View, np.stack):
        with pytest.raises(ValueError, match=r"view 1 has the fields .'x'., view 0"):
            make([r[0], other[0]])


def test_nested_lists_of_samples():
    view = dv.View([{"at": {"x": 1, "y": 2}, "name": "a"}, {"at": {"x": 3, "y": 4}, "name": "bc"}])
    assert_same(view.at.y(), np.array([2, 4]))
    assert_same(view.name(), np.array(["a", "bc"]))
    view = dv.View(train=[{"x": 1}, {"x": 2}], test=[{"x": 3}], _driver="train")
    assert_same(view.test.x(), np.array([3]))


def test_a_sample_of_a_list_that_differs_is_named():
    with pytest.raises(TypeError, match="sample 1 has fields x, z; sample 0 has x, y"):
        dv.View([{"x": 1, "y": 2}, {"x": 1, "z": 2}])
    with pytest.raises(TypeError, match="sample 1 has int; sample 0 has x"):
        dv.View([{"x": 1}, 2])
    with pytest.raises(ValueError, match=r"2 names are given.*has 1 parts"):
        dv.View([(1, 2), (3,)], _names=("x", "y"))


def test_a_tuple_of_arrays_is_members_where_names_are_given():
    x, y = np.zeros((4, 2)), np.arange(4)
    view = dv.View((x, y), _names=("x", "y"))
    view.y += 1
    assert_same(y, np.arange(1, 5))
    held = dv.View(Sample(x, y))
    assert (held._fields(), len(held)) == (("x", "y"), 4)


def test_a_dataset_is_read_by_number_and_when_it_is_asked():
    data = ByNumber(pair)
    view = dv.View(data, _names=("x", "y"))
    repr(view), len(view), view[1:][2], view._shape()
    assert data.asked == []
    assert_same(view[3]._probe().x(), pair(3)[0])
    assert data.asked == [3]
    with pytest.raises(IndexError):
        view[N]
    assert len(dv.View(data, _length=3)) == 3
    again = pickle.loads(pickle.dumps(dv.View(ByNumber(pair))))
    assert_same(again._probe()["1"](), np.arange(N))


def test_an_iterable_is_read_again_by_each_loop():
    view = dv.View(InOrder(pair), _names=("x", "y"))
    for _ in range(2):
        assert [int(sample.y()) for sample in view._probe()] == list(range(N))


def test_samples_of_different_shapes_are_read_without_probing():
    view = dv.View(lambda number: (np.arange(number + 1.0), number), _length=3, _names=("x", "y"))
    batch = next(view._loader(3, pad={"x": -1}))
    assert_same(batch.x(), np.array([[0, -1, -1], [0, 1, -1], [0, 1, 2.0]]))
    assert_same(view[2]._probe().x(), np.arange(3.0))
    assert [row.tolist() for row in view._probe().x()] == [[0], [0, 1], [0, 1, 2]]


def test_samples_of_one_shape_that_are_followed_by_others():
    view = dv.View(lambda number: np.zeros(9 if number == 10 else 1), _length=99)
    with pytest.raises(ValueError, match=r"\(9,\).*differ in length, _fields= declares a length"):
        view._probe()()


PROBED = {
    "function": lambda make, n: dv.View(make, _length=n)._probe(),
    "map": lambda make, n: dv.View(np.arange(n))._map(lambda row: make(int(row())))._probe(),
    "stream": lambda make, n: dv.View(lambda: map(make, range(n)))._probe(),
}


@pytest.mark.parametrize("made", PROBED)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["a", "bb", "ccc", "dddd"], "U4"),
        ([b"aaa", b"b", b"", b"c"], "S3"),
        ([1, 2.5, 3, 4], float),
        ([True, 2, 3, 4], int),
        ([1.5, 2j, 3, 4], complex),
    ],
)
def test_a_dtype_holds_all_samples_that_were_read(made, values, dtype):
    view = PROBED[made](lambda n: {"n": values[n], "y": n}, 4)
    assert view.n._dtype() == np.dtype(dtype)
    assert_same(next(view._loader(4)).n(), np.array(values, dtype))
    assert [sample.n() for sample in view] == values


@pytest.mark.parametrize("made", PROBED)
@pytest.mark.parametrize(
    ("usual", "odd", "dtypes"),
    [
        ("ab", "abc", "the dtype is <U3; .* <U2"),
        (1, 2.5, "the dtype is float64; .* int64"),
        (np.float32(1), 0.1, "the dtype is float64; .* float32"),
        (1, "2", "the dtype is <U1; .* int64"),
        ("1", 2, "the dtype is int64; .* <U1"),
    ],
)
def test_a_sample_of_a_wider_dtype_is_named_with_the_remedy(made, usual, odd, dtypes):
    remedy = "dtype=" if made == "map" else "_fields="
    for place in (1, 6) if "2" in str(odd) and len(str(odd)) == 1 else (6,):
        view = PROBED[made](lambda n, place=place: {"n": odd if n == place else usual}, 9)
        wrong = rf"sample {place}, field 'n': {dtypes}.*{remedy}.* declare"
        with pytest.raises(TypeError, match=wrong):
            view._describe() if made == "stream" else view.n()
        if made != "stream":
            with pytest.raises(TypeError, match=wrong):
                view[place].n()


def test_texts_of_any_width_are_declared():
    texts = ["a" * n for n in range(5)]
    view = dv.View(lambda n: texts[n], _length=5, _fields="T")
    assert view().tolist() == texts
    with pytest.raises(TypeError, match=r"of which width.*'U20'.*'T'"):
        dv.View(lambda n: {"n": texts[n]}, _length=5, _fields={"n": str})


def test_datasets_go_to_processes():
    with dv.View(ByNumber(pair))._loader(2, workers=1, kind="process") as loader:
        assert [batch["1"]().tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


def test_a_map_may_return_a_tuple():
    view = dv.View(np.arange(4))._map(lambda row: (row * 2, [row, row]))._probe()
    assert_same(view["0"](), np.arange(4) * 2)
    assert view["1"]._shape() == (4, 2)
    declared = dv.View(np.arange(4))._map(lambda row: (row(), 1), shape=(2,), dtype=float)
    assert_same(declared[1](), np.array([1.0, 1.0]))


# --- declared samples --------------------------------------------------------------------------

FIELDS = {"x": ((3,), "f4"), "y": int}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("made", MADE)
def test_what_is_declared_is_known_without_reading(made, shape):
    asked = Counting(SHAPES[shape])
    view = MADE[made](asked, _fields=FIELDS)
    assert view._fields() == ("x", "y")
    assert view.x._shape()[1:] == (3,)
    assert (view.x._dtype(), view.y._dtype()) == (np.dtype("f4"), np.dtype(int))
    assert asked.asked == []
    found = [(sample.x(), sample.y()) for sample in view]
    assert_same(
        np.array([x for x, _ in found]), (np.arange(3.0) + np.arange(N)[:, None]).astype("f4")
    )
    assert [y for _, y in found] == list(range(N))


def test_declared_samples_are_data_like_others():
    view = dv.View(as_mapping, _length=N, _fields=FIELDS)
    x = np.arange(3.0) + np.arange(N)[:, None]
    assert_same(view.x._mean(axis=0)(), x.astype("f4").mean(axis=0))
    assert_same((view.x[1:] * 2)[::-1](), (x[1:] * 2)[::-1].astype("f4"))
    assert_same(view.x[view.y > 2](), x[3:].astype("f4"))
    assert_same(pickle.loads(pickle.dumps(view)).y(), np.arange(N))
    windowed = dv.View(lambda n: np.arange(4) + n, _length=3, _fields=((4,), int), a=np.s_[1:3])
    assert_same(windowed.a[2](), np.array([3, 4]))
    nested = dv.View(lambda n: {"a": {"b": n}}, _length=3, _fields={"a": {"b": float}})
    assert_same(nested.a.b(), np.arange(3.0))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda n: (np.zeros(2), 1), ValueError, r"field 'x': the shape is \(2,\); declared is"),
        (lambda n: {"x": np.zeros(3)}, KeyError, "x, y are declared; got x"),
        (lambda n: (np.zeros(3), 1.5), TypeError, "field 'y': .*1.5 into int64"),
        (lambda n: np.zeros(3), KeyError, "x, y are declared; got one array"),
        (lambda n: (np.zeros(3), 1, 2), ValueError, "2 names are given"),
    ],
)
def test_a_sample_that_is_not_as_declared_is_named(make, error, text):
    with pytest.raises(error, match=f"sample 0.*{text}"):
        dv.View(make, _length=N, _fields=FIELDS)[0].y()
    with pytest.raises(error, match=text):
        next(iter(dv.View(lambda: map(make, range(N)), _fields=FIELDS)))


def test_declarations_are_checked_before_anything_is_read():
    for fields in [{}, {"x": ((-1,), int)}, {"x": (("a",), int)}, {"x": ((True,), int)}]:
        with pytest.raises(ValueError, match="_fields= gives shape and dtype"):
            dv.View(pair, _length=N, _fields=fields)
    with pytest.raises(TypeError, match="_fields= gives shape and dtype"):
        dv.View(pair, _length=N, _fields={"x": "no dtype"})
    with pytest.raises(TypeError, match="_fields= declares what a function"):
        dv.View(np.zeros(3), _fields=float)
    with pytest.raises(dv.FieldError, match="one array is declared; got the fields 0, 1"):
        dv.View(pair, _length=N, _fields=float)()


# --- under their numbers -----------------------------------------------------------------------


def test_b52_lists_are_arrays_and_tuples_are_parts():
    assert_same(dv.collate([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    for found, expected in zip(dv.collate([(1, 2), (3, 4)]), ([1, 3], [2, 4]), strict=True):
        assert_same(found, np.array(expected))
    batch = dv.collate([Pair(1, "a"), Pair(2, "bc")])
    assert type(batch) is Pair
    assert_same(batch.x, np.array([1, 2]))
    assert_same(batch.y, np.array(["a", "bc"]))
    zero_d = dv.collate([{"x": np.array(1.5), "name": "a"}, {"x": np.array(2.5), "name": "bcd"}])
    assert_same(zero_d["x"], np.array([1.5, 2.5]))
    assert_same(zero_d["name"], np.array(["a", "bcd"]))


@pytest.mark.parametrize("names", [None, ("text", "label")])
def test_a_text_and_a_number_are_two_parts(names):
    d = dv.View([("a", 1), ("bc", 2)], _names=names)
    text, label = names or ("0", "1")
    assert d[text]().tolist() == ["a", "bc"]
    assert d[label]().tolist() == [1, 2]
    assert dv.View([("a", "b"), ("c", "d")])._shape() == (2, 2)


def test_b52_samples_in_loaders():
    def batch(make, **options):
        return next(dv.View(make, _length=2)._loader(2, **options))

    assert_same(batch(lambda n: [n, 2 * n])(), np.array([[0, 0], [1, 2]]))
    assert_same(batch(lambda n: (n, 2 * n))["1"](), np.array([0, 2]))
    whole = dv.View(lambda n: (n, 2 * n), _length=2)._probe()
    assert_same(next(whole._loader(2, fields=("1", "0")))[0], np.array([0, 2]))
    assert_same(batch(lambda n: Pair(n, str(n))).y(), np.array(["0", "1"]))
    kept = batch(lambda n: n, transform=lambda s: Pair(s + 1, "a"))
    assert type(kept) is Pair
    assert_same(kept.x, np.array([1, 2]))


def test_b53_what_is_not_asked_for_is_not_read():
    columns = {name: Counting(float) for name in "abc"}
    d = dv.View(**{name: column.probed(4) for name, column in columns.items()})

    def read():
        found = "".join(name for name, column in columns.items() if column.asked)
        for column in columns.values():
            column.asked.clear()
        return found

    assert_same(d._map(lambda s: s.a() + s.b())(), np.arange(4.0) * 2)
    assert read() == "ab"
    two = d._map(lambda s: {"sum": s.a + s.b, "c": s.c})._probe()
    read()
    assert_same(two.sum(), np.arange(4.0) * 2)
    assert read() == "ab"
    options = {"fields": ("a", "b"), "transform": lambda s: (s.a + s.b,)}
    assert [batch[0].tolist() for batch in d._loader(2, **options)] == [[0, 2], [4, 6]]
    assert read() == "ab"


def test_b53_shapes_are_told_without_a_call():
    calls = Counting(lambda row: row() + 1)
    for n in (3, 0):
        m = dv.View(np.zeros((n, 2)))._map(calls)
        assert (m._shape(), m._dtype(), len(m)) == ((n, ...), None, n)
        repr(m), m[1:], m._explain()
    assert calls.asked == []
    with pytest.raises(TypeError, match="no samples to learn from"):
        m._probe()
    declared = dv.View(np.zeros((0, 2)))._map(calls, shape=(2,), dtype="f4")
    assert_same(declared(), np.zeros((0, 2), "f4"))
    assert calls.asked == []


def test_b54_one_name_twice_and_names_that_are_unknown():
    d = dv.View(a=np.arange(3), b=np.arange(3.0))
    for twice in (d[:, ["a", "a", "b"]], d["a", "a", "b"], d._select("a", "a", "b")):
        assert [part.tolist() for part in twice._astuple()] == [[0, 1, 2]] * 2 + [[0.0, 1, 2]]
    for key in ("c", ("a", "c"), (slice(2), ["a", "c"])):
        with pytest.raises(KeyError, match=r"no field 'c'.*The fields are: a, b"):
            d[key]


def test_b56_what_is_no_data_is_refused_by_name():
    for wrong in [object(), None, {1, 2}, {}.values(), types, np.ma.array([1])]:
        for given in ({"x": wrong}, types.SimpleNamespace(x=wrong)):
            with pytest.raises(TypeError, match="field 'x'"):
                dv.View(given)
        with pytest.raises(TypeError):
            dv.View(wrong)
        with pytest.raises(TypeError, match="sample 0"):
            dv.View(lambda number, wrong=wrong: (wrong, 1), _length=3)._probe()


def test_b56_names_of_what_has_none_are_the_same_each_time():
    pairs = [(np.zeros(2), 1), (np.ones(2), 2)]
    assert dv.View(pairs)._fields() == dv.View(pairs)._fields() == ("0", "1")
    assert dv.zip([1], [2])._fields() == ("f0", "f1")


# --- datasets of torch -------------------------------------------------------------------------


@pytest.mark.clients
def test_the_datasets_of_torch():
    import torch
    from torch.utils import data

    whole = data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for dataset, rows in [
        (whole, [0, 1, 2, 3, 4, 5]),
        (data.Subset(whole, [4, 1]), [4, 1]),
        (data.ConcatDataset([whole, whole]), [*range(6), *range(6)]),
    ]:
        view = dv.View(dataset, _names=("x", "y"))._probe()
        assert_same(view.y(), np.array(rows))
        assert_same(view.x(), np.arange(12.0, dtype="f4").reshape(6, 2)[rows])

    class Streamed(data.IterableDataset):
        def __iter__(self):
            return iter(whole)

        def __len__(self):
            return 6

    stream = dv.View(Streamed(), _names=("x", "y"))
    assert [batch.y().tolist() for batch in stream._loader(4)] == [[0, 1, 2, 3], [4, 5]]
    batches = dv.View(data.DataLoader(whole, batch_size=3), _names=("x", "y"))
    assert [batch.y().tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]


def test_a_transform_may_return_a_dataclass():
    @dataclass
    class Sample:
        a: float
        b: int

    d = dv.View(x=np.arange(4.0))
    batch = next(iter(d._loader(2, transform=lambda s: Sample(s.x() + 1, 7))))
    assert batch.a().tolist() == [1.0, 2.0] and batch.b().tolist() == [7, 7]
    twice = d._loader(2, transform=[lambda s: Sample(s.x(), 1), lambda s: {"c": s.a() * 2}])
    assert next(iter(twice)).c().tolist() == [0.0, 2.0]


def test_a_field_whose_samples_differ_in_length_is_named():
    d = dv.View(i=np.arange(4))
    made = d._map(lambda s: {"image": np.ones(int(s.i()) % 3 + 1), "i": s.i()})
    with pytest.raises(
        ValueError, match=r"field 'image': sample 1 has shape \(2,\), sample 0 \(1,\)"
    ):
        made()


@pytest.mark.parametrize("order", "<>")
def test_samples_in_batches_keep_their_order_of_bytes(order):
    numbers = np.arange(12, dtype=order + "i2").reshape(4, 3)
    stream = dv.View(lambda: iter([{"x": row} for row in numbers]))._probe()
    space = dv.spaces.VectorSpace(3)
    for batch in stream._minibatches(2):
        assert batch.x._dtype() == batch.x().dtype == numbers.dtype
    for batch in stream._minibatches(2, spec=(space, "x")):
        assert batch().dtype == numbers.dtype
    assert next(stream._loader(2, spec=(space, "x"))).dtype == numbers.dtype


@pytest.mark.parametrize("values", [[[1], ["a"]], [["a"], ["longer"]], [[1, 2], [0.5, 1]]])
def test_samples_whose_arrays_have_several_dtypes_have_room_for_all_of_them(values):
    stacked = np.stack([np.array(value) for value in values * 5])
    made = dv.View(x=np.arange(10))._map(lambda row: {"l": values[row.x() % 2]})
    for found in (made(), made._freeze()(), made[:10]()):
        assert found["l"].tolist() == stacked.tolist()
        assert found["l"].dtype == stacked.dtype
        assert found.nbytes == stacked.nbytes
    one, other = (np.array([(v,)], [("l", np.array(v).dtype, len(v))]) for v in values)
    joined = dv.concat([dv.View(one), dv.View(other)])
    assert joined()["l"].tolist() == stacked[:2].tolist()
    assert joined().nbytes == stacked[:2].nbytes
