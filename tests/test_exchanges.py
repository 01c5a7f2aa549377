"""Conversion to and from other libraries, tested without them; `test_clients` has the rest.

Classes with the names of theirs stand in for other libraries.
"""

from __future__ import annotations

import array as arrays_of_python
import copy
import ctypes
import pickle
import sys
import threading
import types
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting, unmade
from dataview.formats.tables.arrow_values import ArrowObjects
from dataview.view import face
from oracle import LAYOUTS, accepted_chains, arrays, assert_same, attempt, examples, follow
from stores import Chunked

EXCHANGED = [np.dtype(code) for code in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i4 >f8".split()]
PROTOCOLS = [
    "__dlpack__",
    "__dlpack_device__",
    "__arrow_c_stream__",
    "__arrow_c_array__",
    "__arrow_array__",
    "__jax_array__",
    "__getitems__",
    "__dask_tokenize__",
]
VERBS = {"_to_torch": "torch", "_to_pandas": "pandas", "_to_xarray": "xarray", "_to_dask": "dask"}


class Asking:
    """Asks a view for DLPack with options that NumPy 2.0 has no words for."""

    def __init__(self, view, **asked):
        self.view = view
        self.asked = asked

    def __dlpack__(self, **options):
        return self.view.__dlpack__(**options | self.asked)

    def __dlpack_device__(self):
        return self.view.__dlpack_device__()


def handed(view, **asked):
    """Give what NumPy makes of a view by DLPack."""
    return np.from_dlpack(Asking(view, **asked))


# ---------------------------------------------------------------- DLPack


@examples(150)
@given(st.data())
def test_dlpack_hands_out_the_data(data):
    array = data.draw(arrays(dtypes=EXCHANGED))
    chain = data.draw(accepted_chains(array, 2))
    view, model = follow(dv.View(array), chain), follow(array, chain)
    expected = np.asarray(model)
    expected = expected.astype(expected.dtype.newbyteorder("="))
    assert_same(np.from_dlpack(view), expected)
    assert_same(handed(view, copy=True), expected)
    assert not np.may_share_memory(handed(view, copy=True), array)


@examples(100)
@given(st.data())
def test_dlpack_lends_what_can_be_written_and_nothing_else(data):
    array = data.draw(arrays(layouts=LAYOUTS, dtypes=EXCHANGED))
    view = dv.View(array)
    found, refusal = attempt(lambda one: handed(one, copy=False), view)
    forwards = all(step >= 0 for step in array.strides)
    if array.flags.writeable and array.dtype.isnative and forwards:
        assert refusal is None
        assert not array.size or np.shares_memory(found, array)
    elif array.size:
        assert isinstance(refusal, BufferError)
        assert not np.may_share_memory(np.from_dlpack(view), array)


def test_what_is_written_through_dlpack_reaches_the_data(x):
    shared = np.from_dlpack(dv.View(x)[1:, ::2])
    assert np.shares_memory(shared, x)
    if shared.flags.writeable:  # NumPy 2.0 writes to nothing that comes by DLPack
        shared[0, 0] = -7
        assert x[1, 0] == -7


def test_dlpack_never_lends_what_is_read_only(x, path):
    before = x.copy()
    readonly = np.arange(24.0).reshape(6, 4)
    readonly.flags.writeable = False
    kept = dv.View(x)._freeze()
    for view in [
        dv.View(x, _readonly=True),
        dv.View(x)._readonly()[1:, 0],
        dv.View(readonly),
        kept,
        dv.open(path),
        dv.open(path, mode="r+"),
        dv.open(path, mode="r+")[2:],
        dv.View(x) + 0,
        dv.View(x)[[0, 2]],
        dv.View(x)._mean(axis=0),
        dv.View(np.broadcast_to(x[0], (6, 4))),
    ]:
        with pytest.raises(BufferError):
            handed(view, copy=False)
        expected = np.array(view())
        got = np.from_dlpack(view)
        assert not np.shares_memory(got, x)
        if got.flags.writeable:
            got[...] = -1
        assert_same(np.array(view()), expected)
    assert_same(x, before)
    assert_same(np.load(path), before)


def test_strides_that_run_backwards_are_never_lent(x):
    for view in [dv.View(x)[::-1], dv.View(x)[:, ::-1], dv.View(x[::-1])]:
        found = np.from_dlpack(view)
        assert min(found.strides) > 0
        assert_same(found, view())


def test_strides_between_elements_are_never_lent():
    packed = np.zeros(3, [("a", "i1"), ("b", "f8")])
    packed["b"] = [1, 2, 3]
    assert_same(np.from_dlpack(dv.View(packed).b), packed["b"])


def test_dlpack_of_what_is_no_number_is_refused(x):
    for data in [["a", "b"], np.array(["2020"], "M8[s]"), np.array([None])]:
        with pytest.raises(BufferError):
            np.from_dlpack(dv.View(data))
    with pytest.raises(TypeError, match="'x', 'y'"):
        np.from_dlpack(dv.View(x=x, y=x))


def test_dlpack_knows_one_device(x):
    view = dv.View(x)
    assert view.__dlpack_device__() == (1, 0)
    assert_same(handed(view, dl_device=(1, 0)), x)
    with pytest.raises(BufferError):
        view.__dlpack__(dl_device=(2, 0))


class Capsule:
    """Something that has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_view_is_made_of_what_has_dlpack_alone(x):
    view = dv.View(Capsule(x))
    assert np.shares_memory(view(), x)
    assert_same((view - Capsule(x))(), np.zeros((6, 4)))


# ---------------------------------------------------------------- samples of a batch


def test_a_batch_is_fetched_as_samples(x):
    found = dv.View(x).__getitems__([4, -1, 0])
    assert_same(np.stack(found), x[[4, -1, 0]])
    assert all(sample.flags.writeable for sample in found)
    assert not np.may_share_memory(found[0], x)


def test_a_batch_of_a_record_is_fetched_as_dicts(x):
    d = dv.View(image=x, at={"row": np.arange(6), "name": np.array(list("abcdef"))})
    first, last = d.__getitems__([5, 2])
    assert_same(first["image"], x[5])
    assert (last["at"]["row"], last["at"]["name"]) == (2, "c")


def test_a_batch_of_a_structured_array_is_fetched_as_dicts():
    rows = np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])
    assert dv.View(rows).__getitems__([1]) == [{"a": 3, "b": 4.0}]


def test_a_batch_is_read_at_once_and_only_its_rows(x):
    rows = Counting(lambda number: {"input": x[number], "target": number})
    found = rows.probed(6).__getitems__([3, 1, 3])
    assert sorted(rows.asked) == [1, 3]
    assert [int(sample["target"]) for sample in found] == [3, 1, 3]
    rows.asked.clear()
    raw = dv.View(rows, _length=6).__getitems__([2, 5])
    assert rows.asked == [2, 5]
    assert_same(raw[1]["input"], x[5])


def test_a_batch_of_read_only_data_is_a_copy_of_ones_own(x):
    for view in [dv.View(x)._readonly(), dv.View(x)._freeze(), dv.View(x)._mean(axis=1)]:
        for sample in view.__getitems__([0, 2]):
            assert np.asarray(sample).ndim == 0 or sample.flags.writeable
    with pytest.raises(IndexError):
        dv.View(x).__getitems__([6])
    with pytest.raises(TypeError):
        dv.View(lambda: iter(x)).__getitems__([0])


def test_a_copy_of_rows_of_read_only_data_can_be_written(x):
    own = dv.View(x)._readonly()[[2, 0]]()
    own[...] = 0
    assert_same(x, np.arange(24.0).reshape(6, 4))


# ---------------------------------------------------------------- what is not installed


@pytest.mark.parametrize(("verb", "library"), list(VERBS.items()))
def test_a_library_that_is_missing_is_named(monkeypatch, x, verb, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.array", None)
    with pytest.raises(ImportError, match=f'pip install "(\\.\\[)?{library}') as caught:
        getattr(dv.View(x), verb)()
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("protocol", ["__arrow_c_stream__", "__arrow_c_array__", "__arrow_array__"])
def test_pyarrow_that_is_missing_is_named_by_its_extra(monkeypatch, x, protocol):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[arrow\]", in the folder'):
        getattr(dv.View(x), protocol)()


def test_jax_that_is_missing_is_named(monkeypatch, x):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    with pytest.raises(ImportError, match='pip install "jax"'):
        dv.View(x).__jax_array__()


# ---------------------------------------------------------------- laziness


def test_asking_for_protocols_reads_nothing():
    never = dv.View(unmade, _length=7)
    for view in [never, never[1:5], dv.View(a=never, b=never)]:
        assert all(hasattr(view, name) for name in [*PROTOCOLS, *VERBS])
        assert set(VERBS) < set(dir(view))
        assert view.__dlpack_device__() == (1, 0)
        assert view.__dask_tokenize__() != view.__dask_tokenize__()


def test_a_field_of_a_protocols_name_is_no_protocol(x):
    d = dv.View(dlpack=x, array=x)
    assert_same(d.dlpack(), x)
    assert callable(d.__dlpack__)


# ---------------------------------------------------------------- libraries that come later


def test_a_library_meets_the_class_once_it_was_imported(monkeypatch, x):
    met = []
    monkeypatch.setitem(face.import_hooks, "library_to_come", met.append)
    dv.View(x)
    assert met == []
    monkeypatch.setitem(sys.modules, "library_to_come", None)  # a failed import
    dv.View(x)
    assert met == []
    monkeypatch.setitem(sys.modules, "library_to_come", types.ModuleType("library_to_come"))
    dv.View(x)
    dv.View(x) + 1
    assert met == [dv.View]


# ---------------------------------------------------------------- sequences without an IndexError


class Endless:
    """A sequence that has an item at every number, and a length."""

    def __init__(self, length, item=float):
        self.length, self.item = length, item

    def __len__(self):
        return self.length

    def __getitem__(self, number):
        assert number < self.length, "asked beyond the length"
        return self.item(number)


class Derived(Sequence):
    """The same, with the methods that Python derives from these two."""

    __init__, __len__, __getitem__ = Endless.__init__, Endless.__len__, Endless.__getitem__


@pytest.mark.parametrize("kind", [Endless, Derived])
def test_a_sequence_ends_at_its_length(kind):
    assert_same(np.asarray(dv.View(kind(3))), np.array([0.0, 1, 2]))
    assert_same(np.asarray(dv.View(kind(0))), np.zeros(0))
    view = dv.View(np.arange(3.0))
    rows = kind(2, lambda row: kind(3, lambda column: 10 * row + column))
    table = np.array([[0, 1, 2], [10, 11, 12]])
    assert_same(np.asarray(dv.View(rows)), table)
    assert_same(np.asarray(dv.View(x=rows).x[1]), table[1])
    assert_same(dv.View([rows, rows])[1](), table)
    assert_same(dv.View([kind(2), kind(2)])(), np.array([[0.0, 1], [0, 1]]))
    assert_same(dv.View([[7.0, 8.0], kind(2)])(), np.array([[7.0, 8], [0, 1]]))
    assert_same((view + kind(3))(), np.array([0.0, 2, 4]))
    made = dv.View(lambda number: kind(2), _length=3)
    assert_same(np.asarray(made), np.array([[0.0, 1]] * 3))
    view[1:] = kind(2)
    assert_same(view(), np.array([0.0, 0, 1]))
    objects = dv.View(np.zeros((2, 2), object))
    objects[:] = [kind(2), kind(2)]
    assert objects().tolist() == [[0, 1], [0, 1]]
    records = dv.View(np.zeros(2, [("a", "f8"), ("b", "f8")]))
    records._write(kind(2, lambda number: (number, 7)))
    assert records().tolist() == [(0, 7), (1, 7)]


def test_a_sequence_of_samples_has_their_fields():
    samples = Derived(3, lambda number: {"x": number})
    with pytest.raises(TypeError, match="view it by itself"):
        dv.View(np.arange(3)) + samples
    assert_same(dv.View(samples).x(), np.arange(3))


def test_what_numpy_reads_without_a_loop_is_lent():
    numbers = arrays_of_python.array("d", [1, 2, 3])
    view = dv.View(numbers)
    view[0] = 7
    assert numbers[0] == 7
    fixed = (ctypes.c_int * 3)(1, 2, 3)
    dv.View(fixed)[1] = 7
    assert fixed[1] == 7
    assert_same(dv.View(range(3))(), np.arange(3))
    assert_same(dv.View(deque([1.0, 2]))(), np.array([1.0, 2]))


# ---------------------------------------------------------------- arrays that are computed


class Array(Chunked):
    """What looks like dask's array."""

    __module__ = "dask.array.core"


@examples(100)
@given(st.data())
def test_any_part_of_a_delayed_array_is_numpys(data):
    array = data.draw(arrays(layouts=["C"], dtypes=[np.dtype("i4"), np.dtype("U3")]))
    chain = data.draw(accepted_chains(array, 3))
    view = dv.View(Array(array, 1))
    assert_same(np.asarray(follow(view, chain)), np.asarray(follow(array, chain)))


def test_a_delayed_array_computes_each_chunk_once_in_a_pass():
    array = np.arange(80_000.0).reshape(8000, 10)
    counted = []
    view = dv.View(Array(array, 2000, counted=counted))
    assert_same(np.vstack([view[i : i + 100]() for i in range(0, 8000, 100)]), array)
    assert len(counted) == 4


def test_of_a_chunk_too_large_to_be_held_the_rows_asked_for_are_computed():
    array = np.broadcast_to(np.arange(8000.0)[:, None], (8000, 1 << 16))
    counted = []
    view = dv.View(Array(array, 2000, counted=counted))
    assert_same(view[10:12](), array[10:12])
    assert counted == [((slice(10, 12), slice(0, 1 << 16)),)]


def test_the_fields_of_delayed_records_share_what_is_computed():
    array = np.zeros(600, [("a", "f8"), ("b", "i4", (2,))])
    array["a"], array["b"] = np.arange(600), np.arange(1200).reshape(600, 2)
    counted = []
    view = dv.View(Array(array, 300, counted=counted))
    assert_same(view.a[10:20](), array["a"][10:20])
    assert_same(view.b[40:20:-2, 1](), array["b"][40:20:-2, 1])
    assert_same(view[5].a(), array["a"][5])
    assert len(counted) == 1


def test_building_on_a_delayed_array_computes_nothing():
    counted = []
    view = dv.View(Array(np.ones((10, 2)), 5, counted=counted))
    part = (view[3:] * 2)[::-1]
    assert part._shape() == (7, 2)
    assert "dask" in repr(view)
    assert counted == []


def test_a_delayed_array_cannot_be_written(x):
    view = dv.View(Array(x, 2))
    with pytest.raises(dv.ReadOnlyError, match="dask"):
        view[0] = 1


def test_a_delayed_array_of_unknown_shape_is_refused(x):
    unknown = Array(x, 2)
    unknown.shape = (float("nan"), 4)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dv.View(unknown)


def test_a_delayed_array_is_read_by_several_threads():
    array = np.arange(4000).reshape(400, 10)
    view = dv.View(Array(array, 100))
    found = {}

    def read(start):
        found[start] = view[start : start + 50]()

    threads = [threading.Thread(target=read, args=(start,)) for start in range(0, 400, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_same(np.vstack([found[start] for start in sorted(found)]), array)


# ---------------------------------------------------------------- what carries a gradient


class Tensor:
    """Has of torch's tensors what a view asks for."""

    __module__ = "torch"

    def __init__(self, array, requires_grad):
        self.array, self.requires_grad = array, requires_grad

    def detach(self):
        return Tensor(self.array, False)

    def resolve_conj(self):
        return self

    resolve_neg = resolve_conj

    def numpy(self):
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_tensor_with_a_gradient_is_refused(monkeypatch, x, enabled, requires_grad):
    library = types.SimpleNamespace(is_grad_enabled=lambda: enabled)
    monkeypatch.setitem(sys.modules, "torch", library)
    view, tensor = dv.View(x.copy()), Tensor(x, requires_grad)
    ways = [
        lambda one: (view + one)(),
        lambda one: np.where(view > 3, one, view)(),
        lambda one: np.add(view, one, dtype="f8"),
        lambda one: view.__setitem__(..., one),
        lambda one: dv.View(one)(),
    ]
    for way in ways:
        if enabled and requires_grad:
            with pytest.raises(RuntimeError, match=r"view\._to_torch\(\)"):
                way(tensor)
        else:
            way(tensor)
        way(tensor.detach())
    assert_same(view(), x)


# ---------------------------------------------------------------- what a view does not claim


def test_numpy_finds_functions_of_views_and_others_find_no_array(x):
    view = dv.View(x)
    assert isinstance(np.transpose(view), dv.View)
    assert not hasattr(view, "__array_function__")
    assert callable(dv.View.__array_function__)


# -------------------- Arrow's tables in memory --------------------


def test_arrow_tables_become_fields_with_masks_beside_gaps():
    table = pa.table(
        {
            "x": np.arange(3),
            "age": [1, None, 3],
            "name": ["a", "b", None],
            "kind": pa.chunked_array([["u", "v"], ["w"]]).dictionary_encode(),
            "part": [{"y": 1.5}, None, {"y": None}],
            "rows": [[1], [], [2, 3]],
            "at": pa.array([1, 2, 3], pa.timestamp("s", "UTC")),
        }
    )
    d = dv.View(table)
    own = ("x", "age", "name", "kind", "part", "rows", "at")
    assert d._fields() == (*own, "age_mask", "name_mask", "part_mask")
    assert d.part_mask().tolist() == [True, False, True]
    assert d.age().tolist() == [1, 0, 3] and d.age_mask().tolist() == [True, False, True]
    assert d.name().tolist() == ["a", "b", None]
    assert d.kind().tolist() == [0, 1, 2] and d.kind._meta["labels"] == ["u", "v", "w"]
    assert d.part.y_mask().tolist() == [True, False, False] and np.isnan(d.part.y()[1])
    assert [row.tolist() for row in d.rows()] == [[1], [], [2, 3]]
    assert d.at._meta["timezone"] == "UTC"
    assert np.shares_memory(d.x(), table["x"].chunk(0).to_numpy())
    with pytest.raises(ValueError):
        d.x[0] = 1


def test_arrow_gets_back_zones_labels_in_lists_and_bytes_of_one_length():
    codes = pa.dictionary(pa.int32(), pa.string())
    table = pa.table(
        {
            "at": pa.array([0, None, 3], pa.timestamp("us", "Europe/Berlin")),
            "ats": pa.array([[0, None], None, [3]], pa.list_(pa.timestamp("s", "UTC"))),
            "pair": pa.array([[0, 1], None, [3, 4]], pa.list_(pa.timestamp("s", "UTC"), 2)),
            "tags": pa.array([["x", "y"], None, ["x"]]).cast(pa.list_(codes)),
            "kind": pa.array(["p", None, "q"]).dictionary_encode(),
            "raw": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "raws": pa.array([[b"ab"], [b"cd"], [b"ef"]], pa.list_(pa.binary(2), 1)),
            "part": pa.array([{"at": 1}, {"at": None}] * 2)[1:].cast(
                pa.struct([("at", pa.timestamp("ms", "Asia/Tokyo"))])
            ),
        }
    )
    found = pa.table(dv.View(table))
    assert found.to_pylist() == table.to_pylist()
    assert found["tags"].type.value_type == codes and found["raw"].type == pa.binary(2)
    unknown = dv.View(np.arange(3).astype("M8[s]"))._with_meta(timezone=7)
    assert pa.table(dv.View(at=unknown))["at"].type == pa.timestamp("s")
    days = dv.View(np.arange(3).astype("M8[D]"))._with_meta(timezone="UTC")
    assert pa.table(dv.View(at=days))["at"].type == pa.date32()


TEXTS = [f"text {number} é" if number % 7 else None for number in range(100)]


@given(
    kind=st.sampled_from(["string", "large_string", "string_view", "binary", "binary_view"]),
    cuts=st.lists(st.integers(0, 100), max_size=3).map(sorted),
    steps=accepted_chains(np.arange(100), 2),
)
def test_rows_of_arrow_texts_are_those_of_numpy(kind, cuts, steps):
    values = [text if text is None or "s" in kind else text.encode() for text in TEXTS]
    ends = [*zip([0, *cuts], [*cuts, 100], strict=True)]
    parts = [pa.array(values[start:stop], getattr(pa, kind)()) for start, stop in ends]
    d = dv.View(pa.table({"t": pa.chunked_array(parts), "l": [[text] for text in TEXTS]}))
    model = np.array(values, object)
    assert d.t_mask().tolist() == [text is not None for text in TEXTS]
    for view in (d.t, pickle.loads(pickle.dumps(d)).t, copy.deepcopy(d).t):
        np.testing.assert_array_equal(follow(view, steps)(), follow(model, steps))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(d.t[3:9]))(), model[3:9])


def test_texts_of_arrow_become_objects_when_their_rows_are_read(monkeypatch):
    made = []
    real = ArrowObjects.__getitem__
    monkeypatch.setattr(
        ArrowObjects, "__getitem__", lambda own, rows: made.append(rows) or real(own, rows)
    )
    parts = [[f"text {number}" for number in range(1000)], ["end"]]
    texts = pa.chunked_array(parts)
    d = dv.View(pa.table({"t": texts, "l": [[text] for text in texts.to_pylist()]}))
    assert d.shape == (1001,) and len(d.t) == 1001 and d.l._fields() == () and not made
    assert d[1000].t() == "end" and d.t[5:7]().tolist() == ["text 5", "text 6"]
    assert d.l[[7, 1000]]()[1].tolist() == ["end"]
    counts = [rows.stop - rows.start if isinstance(rows, slice) else len(rows) for rows in made]
    assert counts == [1, 2, 2]
    assert len(pickle.dumps(d.t[5:9])) < 3000 and "text 999" not in repr(made)
    assert "text 999" in repr(d.t)  # a row of what lies in memory


@pytest.mark.parametrize("missing", [{}, {"na_object": None}])
def test_texts_of_any_length_are_given_to_arrow(missing):
    words = ["a", None if missing else "", "longer than sixteen letters"]
    d = dv.View(x=np.array(words, np.dtypes.StringDType(**missing)), row=[1, 2, 3])
    assert pa.table(d)["x"].to_pylist() == words
    assert pa.table(d[::-1])["x"].to_pylist() == words[::-1]


def test_one_arrow_array_is_one_view():
    assert dv.View(pa.array([1, 2]))().tolist() == [1, 2]
    assert dv.View(pa.array([1, None]))().tolist() == [1, None]
    assert dv.View(pa.array(["a", None]))().tolist() == ["a", None]
    assert dv.View(pa.array([True, None]))().tolist() == [True, None]
    assert np.isnan(dv.View(pa.array([1.5, None]))()[1])
    assert dv.View(pa.array([{"a": 1}, None])).a_mask().tolist() == [True, False]
    codes = dv.View(pa.array(["b", "a", None]).dictionary_encode())
    assert codes().tolist() == [0, 1, -1] and codes._meta["labels"] == ["b", "a"]
    with pytest.raises(TypeError, match="the column is of type month_day_nano_interval"):
        dv.View(pa.array([(1, 2, 3)], pa.month_day_nano_interval()))
