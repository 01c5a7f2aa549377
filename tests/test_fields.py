"""The field tree: law 2, the answered questions about fields, and the cases about them."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from oracle import assert_same, attempt, examples, fill, follow, keys, slices, step


@pytest.fixture
def x():
    return np.arange(30.0).reshape(5, 6)


@pytest.fixture
def d(x):
    return dv.View(x, input=np.s_[:4], target=np.s_[4:6])


@pytest.fixture
def images():
    return np.arange(30.0).reshape(5, 3, 2)


@pytest.fixture
def labels():
    return np.arange(5)


@pytest.fixture
def record(images, labels):
    return dv.View(image=images, label=labels)


# ---------------------------------------------------------------- (c) fields commute with indexing


@st.composite
def entries(draw, n):
    """Draw one entry of a window: a slice of at least one position, or an integer."""
    start = draw(st.integers(0, n - 1))
    if draw(st.booleans()):
        return draw(st.sampled_from([start, start - n]))
    return slice(start, draw(st.integers(start + 1, n)), draw(st.sampled_from([None, 1, 2])))


@st.composite
def windows(draw, shape, depth=2):
    """Draw a window over some last axes of a shape, with windows inside it, and its model."""
    count = draw(st.integers(1, len(shape)))
    window = tuple(draw(entries(n)) for n in shape[len(shape) - count :])
    inner = np.empty(shape)[(..., *window)].shape
    names = ["x", "y"] if depth and inner else []
    subs = {name: draw(windows(inner, depth - 1)) for name in names if draw(st.booleans())}
    return window, subs


def declared(window, subs):
    """Give a drawn window as it is declared."""
    window = window[0] if len(window) == 1 else window
    return dv.field(window, **{name: declared(*sub) for name, sub in subs.items()})


def paths(name, window, subs, cut=lambda whole: whole):
    """Give the path of each field of a drawn tree, and how it is cut out of the whole."""

    def inner(whole):
        return cut(whole)[(..., *window)]

    yield (name,), inner
    for sub, tree in subs.items():
        yield from (((name, *path), found) for path, found in paths(sub, *tree, inner))


def at(view, path):
    """Follow field names from a view."""
    for name in path:
        view = getattr(view, name)
    return view


def acts_on(shape, key):
    """Tell whether NumPy accepts a key for the axes of this shape alone."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(part is Ellipsis for part in parts):
        return False
    return attempt(lambda whole: whole[key], np.empty(shape))[1] is None


@examples(300)
@given(st.data())
def test_windows_commute_with_keys_on_the_other_axes(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    used = data.draw(st.integers(1, min(2, len(shape))))
    front = len(shape) - used
    names = ["a", "b", "c"][: data.draw(st.integers(1, 3))]
    trees = {name: data.draw(windows(shape[front:])) for name in names}
    array = fill(shape, data.draw(st.sampled_from(["f4", "i8", "U3"])))
    d = dv.View(array, **{name: declared(*tree) for name, tree in trees.items()})
    chain, model = [], array
    for _ in range(data.draw(st.integers(1, 2))):
        leading = model.shape[: model.ndim - used]
        key = data.draw(keys(leading).filter(lambda key, leading=leading: acts_on(leading, key)))
        chain, model = [*chain, key], step(model, key)
    for name, tree in trees.items():
        for path, cut in paths(name, *tree):
            assert_same(at(d, path)(), cut(array))
            assert_same(at(follow(d, chain), path)(), cut(model))
            assert_same(follow(at(d, path), chain)(), cut(model))


@examples(200)
@given(st.data())
def test_members_commute_with_keys_on_the_shared_axes(data):
    rank = data.draw(st.integers(1, 2))
    leading = tuple(data.draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))
    sizes = st.lists(st.integers(0, 3), max_size=2)
    parts = {name: fill((*leading, *data.draw(sizes)), "f4") for name in "abc"}
    tree = {"a": parts["a"], "more": {"b": parts["b"], "c": parts["c"]}}
    d = dv.View(**tree, _rank=rank)
    key = data.draw(keys(leading).filter(lambda key: acts_on(leading, key)))
    for path, array in [(["a"], parts["a"]), (["more", "b"], parts["b"])]:
        assert_same(at(d[key], path)(), step(array, key))
        assert_same(at(d, path)[key](), step(array, key))
    assert d._shape() == leading
    assert d[key]._shape() == np.empty(leading)[key].shape
    assert_same(d[key](), step(d(), key))


@examples(200)
@given(st.data())
def test_computed_fields_commute_with_row_keys(data):
    array = fill((6, 4), "i8")
    d = dv.View(array, a=np.s_[:2], b=np.s_[1:3])
    d.z = d.a * 2 - d.b
    key = data.draw(keys((6,)).filter(lambda key: acts_on((6,), key)))
    model = array[:, :2] * 2 - array[:, 1:3]
    assert_same(d.z[key](), step(model, key))
    assert_same(d[key].z(), step(model, key))


@examples(300)
@given(st.data())
def test_a_window_survives_exactly_when_each_entry_is_selected_once(data):
    array = fill((3, 6), "i8")
    window = data.draw(entries(6))
    chosen = st.lists(st.integers(-6, 5), max_size=8) | st.permutations(range(6))
    key = data.draw(slices(6) | chosen)
    d = dv.View(array, f=window)
    selected = np.arange(6)[key].tolist()
    wanted = np.atleast_1d(np.arange(6)[window]).tolist()
    part = d[:, key]
    assert_same(part(), array[:, key])
    if all(selected.count(entry) == 1 for entry in wanted):
        assert part._fields() == ("f",)
        assert_same(part.f(), array[:, window])
        assert_same(part[1:].f(), array[1:, window])
    else:
        assert part._fields() == ()
        with pytest.raises(AttributeError, match="'f'"):
            part.f  # noqa: B018


# ---------------------------------------------------------------- windows


def test_one_declaration_serves_a_vector_and_a_matrix(x):
    for data in [x[0], x, np.stack([x, x])]:
        d = dv.View(data, input=np.s_[:4], last=-1)
        assert_same(d.input(), data[..., :4])
        assert_same(d.last(), data[..., -1])


def test_windows_over_two_axes(images):
    d = dv.View(images, corner=np.s_[0:2, 1], row=np.s_[1, :])
    assert_same(d.corner(), images[:, 0:2, 1])
    assert_same(d.row(), images[:, 1, :])
    assert_same(d[3].corner(), images[3, 0:2, 1])
    assert_same(d[[3, 0]].row[1](), images[0, 1])


def test_windows_may_overlap_and_a_write_is_seen_through_all(x):
    d = dv.View(x, position=np.s_[0:3], x=0, plane=np.s_[0:2])
    d.x = -1
    assert (d.position()[:, 0] == -1).all()
    assert (d.plane()[:, 0] == -1).all()
    d[2].position = [7, 8, 9]
    assert d[2].x() == 7
    assert_same(x[2, :3], np.array([7.0, 8.0, 9.0]))


def test_sub_windows_count_from_their_parents_start(x):
    d = dv.View(x, position=dv.field(np.s_[2:5], x=0, y=1, z=2, yz=np.s_[1:3]), first=0)
    assert d._fields() == ("position", "first")
    assert d.position._fields() == ("x", "y", "z", "yz")
    assert_same(d.position.x(), x[:, 2])
    assert_same(d.position.yz(), x[:, 3:5])
    assert_same(d[1:3].position.z(), x[1:3, 4])
    assert_same(d.position[1:3].z(), x[1:3, 4])
    assert_same(d.position[2].z(), x[2, 4])


def test_a_window_keeps_its_own_order_under_a_reversal(x, d):
    assert_same(d[:, ::-1].input(), x[:, :4])
    assert_same(d[0][::-1].target(), x[0, 4:6])


MASK = np.arange(6) == 4


@pytest.mark.parametrize("key", [[4], np.s_[4:5], np.s_[4::-2], [2, 4], np.array([4, 3]), MASK])
def test_an_integer_window_has_no_axis_under_any_key(x, key):
    part = dv.View(x, f=4)[:, key]
    assert_same(part.f(), x[:, 4])
    assert_same(part[1].f(), x[1, 4])
    part.f = -1
    assert (x[:, 4] == -1).all()


def test_a_window_that_is_only_partly_inside_says_so(d):
    part = d[:, 0:5]
    assert part._fields() == ("input",)
    with pytest.raises(AttributeError, match=r"'target' is only partly inside .*0:5"):
        part.target  # noqa: B018
    with pytest.raises(KeyError):
        part["target"]


def test_a_pointwise_key_over_rows_and_window_drops_fields(x, d):
    part = d[[0, 1, 2, 3], [0, 1, 2, 3]]
    assert_same(part(), x[[0, 1, 2, 3], [0, 1, 2, 3]])
    assert part._fields() == ()


def test_a_list_of_rows_with_a_slice_of_columns_keeps_fields(x, d):
    assert_same(d[[3, 1], 0:4].input(), x[[3, 1], 0:4])
    assert_same(d[[3, 1], 1:].target(), x[[3, 1], 4:6])


def test_new_axes_keep_fields(x, d):
    assert_same(d[None].input(), x[None, :, :4])
    assert_same(d[..., None].input(), x[:, :4, None])
    assert_same(d[:, None, :].target(), x[:, None, 4:6])


@pytest.mark.parametrize("window", [np.s_[0:2, 0:2, 0:2], 6, -7, np.s_[0:2, 9]])
def test_a_window_outside_the_data_is_refused(x, window):
    with pytest.raises(IndexError):
        dv.View(x, f=window)


def test_an_elementwise_result_keeps_the_fields(x, d):
    double = d * 2 - 1
    assert double._fields() == ("input", "target")
    assert_same(double.input(), x[:, :4] * 2 - 1)
    assert_same(double[2].target(), x[2, 4:6] * 2 - 1)
    assert_same((d - np.arange(6)).target(), x[:, 4:6] - np.array([4, 5]))


def test_iterating_keeps_fields(x, d):
    for number, sample in enumerate(d):
        assert_same(sample.input(), x[number, :4])


def test_width(x, d):
    assert d._width() == 6
    assert d.input._width() == 4
    with pytest.raises((TypeError, ValueError, AttributeError)):
        dv.View(x, first=0).first._width()


# ---------------------------------------------------------------- names


def test_fields_are_listed_in_the_order_of_declaration(x):
    d = dv.View(x, z=0, a=np.s_[1:3], m=5)
    assert d._fields() == ("z", "a", "m")
    listed = list(d._iter_fields())
    assert [name for name, _ in listed] == ["z", "a", "m"]
    for name, view in listed:
        assert_same(view(), d._field(name)())


def test_names_in_keys(x, d):
    assert_same(d["input"](), x[:, :4])
    assert_same(d[1:3, "input"](), x[1:3, :4])
    assert_same(d[[3, 0], "target"](), x[[3, 0], 4:6])
    assert_same(d[2, "target"](), x[2, 4:6])
    for part in [
        d["input", "target"],
        d[:, ["input", "target"]],
        d[:, ("input", "target")],
        d[:, "input", "target"],
        d[..., "input", "target"],
        d._select("input", "target"),
    ]:
        assert part._fields() == ("input", "target")
        assert_same(part.input(), x[:, :4])
    part = d[[3, 0], ["target"]]
    assert part._fields() == ("target",)
    assert_same(part.target(), x[[3, 0], 4:6])


def test_names_are_selected_in_the_order_asked_for(d, record):
    assert d["target", "input"]._fields() == ("target", "input")
    assert d._select("target", "input")._fields() == ("target", "input")
    assert record[["label", "image"]]._fields() == ("label", "image")
    assert record["label", "image"]().dtype.names == ("label", "image")


def test_selected_fields_are_still_written_through(x, d):
    d["input", "target"].input = -1
    assert (x[:, :4] == -1).all()
    d[1:3, ["target"]].target = -2
    assert (x[1:3, 4:6] == -2).all()
    d[0, "target"] = 5
    assert (x[0, 4:6] == 5).all()


def test_renaming(x, d):
    renamed = d._rename(input="pixels")
    assert renamed._fields() == ("pixels", "target")
    assert d._fields() == ("input", "target")
    assert_same(renamed[1].pixels(), x[1, :4])
    with pytest.raises(AttributeError):
        renamed.input  # noqa: B018
    with pytest.raises(KeyError):
        d._rename(nothing="something")
    with pytest.raises(ValueError):
        d._rename(input="target")


def test_names_that_are_no_identifiers(labels):
    d = dv.View(**{"pixel 3": labels, "class": labels * 2})
    assert d._fields() == ("pixel 3", "class")
    assert_same(d["pixel 3"](), labels)
    assert_same(d._field("class")(), labels * 2)
    assert_same(d[1:, "class"](), labels[1:] * 2)
    d["class"] = 0
    assert_same(d["class"](), labels * 0)


def test_names_with_an_underscore_are_reached_by_key_only(labels):
    array = np.zeros(5, [("_id", "i8"), ("label", "i8")])
    array["_id"] = labels
    d = dv.View(array)
    assert_same(d["_id"](), labels)
    assert "_id" in d._fields()
    with pytest.raises(AttributeError):
        d._id  # noqa: B018
    with pytest.raises((TypeError, ValueError)):
        dv.View(_input=labels)


@pytest.mark.parametrize(
    "declare",
    [
        lambda d: dv.zip(d, _y=d),
        lambda d: dv.View(x=d)._rename(x="_y"),
        lambda d: dv.symbol("x", shape=(None, 3), _y=0),
        lambda d: dv.field(np.s_[1:], _y=0),
        lambda d: dv.View(_y=d),
        lambda d: dv.View([(1, 2)], _names=("x", "_y")),
        lambda d: dv.View(x=d)._group(by={"_y": d}),
    ],
)
def test_names_with_an_underscore_are_not_declared(declare, labels):
    with pytest.raises(TypeError, match=r"(?s)no leading underscore.*|has no option '_y'"):
        declare(dv.View(labels))
    data = np.zeros(5, [("_id", "i8")])
    assert dv.zip(dv.View(data), x=labels).f0._fields() == ("_id",)
    assert dv.View(data)._rename(_id="id")._fields() == ("id",)
    with pytest.raises(TypeError, match=r"got '__y'; write 'y'$"):
        dv.View(x=labels)._rename(x="__y")


def test_names_with_an_underscore_that_data_bring_are_items_of_every_verb(tmp_path):
    d = dv.View({"_id": [2, 1, 2], "of": {"_x": [1.0, 2.0, 4.0]}})
    assert d["_id"]().tolist() == [2, 1, 2] and d.of["_x"]().tolist() == [1, 2, 4]
    assert "_id" in repr(d) and "_x" in repr(d) and "_id" in d._repr_html_()
    found = d._group(by="_id")._sum()
    assert found["_id"]().tolist() == [1, 2] and found.of["_x"]().tolist() == [2, 5]
    assert d._sorted(by="_id").of["_x"]().tolist() == [2, 1, 4]
    assert d._drop_duplicates(by="_id").of["_x"]().tolist() == [1, 2]
    other = dv.View({"_id": [1, 2], "_name": ["a", "b"]})
    assert d._join(other, on="_id")["_name"]().tolist() == ["b", "a", "b"]
    for suffix in (".h5", ".zarr", ".npz", ".npy", ".parquet", ".feather", ".jsonl"):
        d._save(tmp_path / f"d{suffix}")
        again = dv.open(tmp_path / f"d{suffix}")
        assert again["_id"]().tolist() == [2, 1, 2] and again.of["_x"]().tolist() == [1, 2, 4]
    with pytest.raises(AttributeError, match=r"write d\['_id'\] = value"):
        d._id = [1, 2, 3]
    d["_id"] = [4, 5, 6]
    assert d["_id"]().tolist() == [4, 5, 6]


def test_views_are_zipped_with_a_driver_and_with_metadata(labels):
    d = dv.zip(labels, x=labels + 1, _driver="x", _meta={"f0": {"unit": "mm"}, "x": {"of": "y"}})
    assert_same(d(), labels + 1)
    assert_same(d.f0(), labels)
    assert d.f0._meta == {"unit": "mm"} and d.x._meta == {"of": "y"}
    with pytest.raises(dv.FieldError, match="_driver="):
        dv.zip(labels, _driver="y")
    with pytest.raises(dv.FieldError, match="_meta="):
        dv.zip(labels, _meta={"y": {}})
    for wrong, got in [
        (3, "got 3"),
        ({"": "mm"}, "for '' it got 'mm'"),
        ({"x": 1}, "'x' it got 1"),
    ]:
        with pytest.raises(TypeError, match=f"_meta= has what is known of each field, .*{got}"):
            dv.View(x=labels, _meta=wrong)


def test_a_shape_says_what_is_known_of_it():
    def made(number):
        return np.zeros(3)

    for length in (5, math.inf):
        samples = dv.View(made, _length=length)
        assert samples._shape() == (length, ...) and samples[1]._shape() == (...,)
        assert samples._probe()._shape() == (length, 3)
        assert samples[1:]._shape() == (length - 1, ...)
    assert dv.View(np.zeros((2, 3)))._map(made)._shape() == (2, ...)


def test_a_field_may_have_the_name_of_a_protocol(labels):
    d = dv.View(shape=labels, dtype=labels + 1, ndim=labels + 2, to_numpy=labels + 3)
    assert_same(d.shape(), labels)
    assert_same(d.dtype(), labels + 1)
    assert_same(d.ndim(), labels + 2)
    assert_same(d.to_numpy(), labels + 3)


def test_b16_unknown_names(x, d):
    before = x.copy()
    with pytest.raises(AttributeError, match=r"inptu.*input"):
        d.inptu  # noqa: B018
    with pytest.raises(AttributeError, match=r"inptu.*input"):
        d.inptu = 1
    with pytest.raises(KeyError, match="target"):
        d["nothing"]
    with pytest.raises(KeyError, match="target"):
        d["nothing"] = 1
    with pytest.raises(AttributeError, match="_shuffled"):
        d._shufled(2)
    with pytest.raises(AttributeError):
        d._anything = 1
    assert getattr(d, "nothing", None) is None
    assert_same(x, before)


# ---------------------------------------------------------------- members and records


def test_a_record_has_the_shared_axes(record, images, labels):
    assert record._fields() == ("image", "label")
    assert record._shape() == (5,)
    assert record._ndim() == 1
    assert record._size() == 5
    assert len(record) == 5
    data = record()
    assert data.dtype.names == ("image", "label")
    assert record._dtype() == data.dtype
    assert_same(data["image"], images)
    assert_same(data["label"], labels)


@pytest.mark.parametrize("key", [2, -1, np.s_[1:4], np.s_[::-2], [3, 3, 0], None, ..., ()])
def test_row_keys_of_a_record(record, images, labels, key):
    assert_same(record[key](), step(record(), key))
    assert_same(record[key].image(), images[key])
    assert_same(record.image[key](), images[key])
    assert_same(record[key].label(), labels[key])


def test_keys_of_a_record_act_on_the_shared_axes_only(record):
    for key in [np.s_[:, 0], np.s_[0, 0], 5, -6, [5], np.ones(4, bool)]:
        with pytest.raises(IndexError):
            record[key]


def test_the_parts_of_a_record_are_no_copies(record, images, labels):
    assert list(record._asdict()) == ["image", "label"]
    for part, array in zip(record._astuple(), [images, labels], strict=True):
        assert np.shares_memory(part, array)
        assert_same(part, array)
    assert np.shares_memory(record._asdict()["image"], images)
    assert np.shares_memory(record.image(), images)


def test_the_parts_of_a_view_with_windows_are_no_copies(x, d):
    assert list(d._asdict()) == ["input", "target"]
    assert_same(d._asdict()["input"], x[:, :4])
    assert np.shares_memory(d._astuple()[1], x)
    assert_same(d[2]._astuple()[1], x[2, 4:6])


def test_arithmetic_on_a_record_names_the_fields(record):
    with pytest.raises(TypeError, match=r"(?s)image.*label"):
        record + 1
    with pytest.raises(TypeError, match=r"(?s)image.*label"):
        record *= 2


@pytest.mark.parametrize("rows", [np.s_[:], np.s_[1:3], [4, 0]])
def test_a_record_is_written_by_mapping_tuple_array_or_view(images, labels, rows):
    new_images, new_labels = images + 100, labels + 50
    structured = dv.View(image=new_images, label=new_labels)[rows]()
    for value in [
        {"label": new_labels[rows], "image": new_images[rows]},
        (new_images[rows], new_labels[rows]),
        structured,
        dv.View(label=new_labels[rows], image=new_images[rows]),
    ]:
        i, y = images.copy(), labels.copy()
        dv.View(image=i, label=y)[rows]._write(value)
        expected_images, expected_labels = images.copy(), labels.copy()
        expected_images[rows], expected_labels[rows] = new_images[rows], new_labels[rows]
        assert_same(i, expected_images)
        assert_same(y, expected_labels)


def test_a_member_is_written_in_place(record, images, labels):
    record.image -= 1
    record[1:3].label = 9
    record.label[0] += 5
    assert_same(images, np.arange(30.0).reshape(5, 3, 2) - 1)
    assert_same(labels, np.array([5, 9, 9, 3, 4]))


def test_without_its_single_values_a_record_has_rows():
    x, y = np.arange(5.0), np.arange(10).reshape(5, 2)
    d = dv.View(x=x, y=y, rate=3.5, _meta={"": {"by": "me"}})
    beside = dv.View(d)
    beside._set_field("z", np.ones(5))
    ways = {
        "drop": d._drop("rate"), "select": d._select("x", "y"), "names": d["x", "y"],
        "pickle": pickle.loads(pickle.dumps(d))._drop("rate"), "again": d._drop("rate")._drop(),
        "beside": beside._drop("rate")._drop("z"),
    }  # fmt: skip
    for name, rows in ways.items():
        assert (len(rows), rows._shape(), rows._meta) == (5, (5,), {"by": "me"}), name
        assert_same(rows[1:3].y(), d.y[1:3]())
        assert [sample.x() for sample in rows] == [0, 1, 2, 3, 4]
    assert d._drop("x", "y")._shape() == ()
    sample = dv.View(x=np.arange(5.0), y=np.arange(5), n=np.arange(5))[2]
    for one in (sample._drop("n"), dv.View(x=np.arange(5.0), n=3, _rank=0)._drop("n"), d[()]):
        assert one._shape() == ()


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: d[:5], lambda d: d[0], lambda d: d[[1, 2]], len, list, lambda d: d._head(),
        lambda d: d._loader(2), lambda d: d._minibatches(2), lambda d: d._shuffled(0),
        lambda d: d._split(0.5),
    ],
)  # fmt: skip
def test_why_a_record_has_no_rows(ask):
    told = "the view has no rows: field 'rate' is one value; d._drop('rate') has rows"
    with pytest.raises((IndexError, TypeError), match=re.escape(told)):
        ask(dv.View(x=np.arange(5), rate=3.5))
    many = {f"n{number}": number for number in range(9)}
    with pytest.raises(
        (IndexError, TypeError), match=r"the fields 'n0', .* are one value each; .*\*nam"
    ):
        ask(dv.View(x=np.arange(5), **many))
    assert dv.View(x=np.arange(5), rate=3.5)[None]._shape() == (1,)


def test_a_single_sample_of_separate_arrays():
    pixels, label = np.arange(4.0), np.array(3)
    for sample in [dv.View(pixels=pixels, label=label), dv.View(pixels=pixels, label=3, _rank=0)]:
        assert sample._shape() == ()
        assert sample._size() == 1
        assert_same(sample.pixels(), pixels)
        assert_same(sample.label(), np.int64(3))
        assert_same(sample()["pixels"], pixels)
        assert sample._asdict()["label"] == 3
        with pytest.raises(TypeError):
            len(sample)
        with pytest.raises(IndexError):
            sample[0]
    apart = dv.View(a=np.arange(3), b=np.arange(5.0), _rank=0)
    assert_same(apart()["a"], np.arange(3))
    assert_same(apart()["b"], np.arange(5.0))


def test_a_record_of_more_shared_axes():
    a, b = np.arange(24).reshape(2, 3, 4), np.arange(6.0).reshape(2, 3)
    d = dv.View(a=a, b=b, _rank=2)
    assert d._shape() == (2, 3)
    assert_same(d[1, 2].a(), a[1, 2])
    assert_same(d[:, ::-1].b(), b[:, ::-1])
    assert_same(d[1]()["a"], a[1])
    with pytest.raises(IndexError):
        d[0, 0, 0]


def test_nested_members(images, labels):
    d = dv.View(scene={"image": images, "size": {"width": labels, "height": labels * 2}}, y=labels)
    assert d._fields() == ("scene", "y")
    assert d.scene._fields() == ("image", "size")
    assert_same(d.scene.size.height(), labels * 2)
    assert_same(d[3].scene.size.height(), labels[3] * 2)
    assert_same(d.scene[1:].image(), images[1:])
    assert_same(d()["scene"]["size"]["width"], labels)
    d[1:3].scene.size.width = -1
    assert labels.tolist() == [0, -1, -1, 3, 4]


def test_members_may_be_views_with_windows(x, labels):
    d = dv.View(data=dv.View(x, input=np.s_[:4], target=4), label=dv.View(labels)[::-1])
    assert d.data._fields() == ("input", "target")
    assert_same(d[2].data.input(), x[2, :4])
    assert_same(d.label[0](), labels[4])
    d[0].label = 77
    assert labels[4] == 77


def test_structured_arrays_have_their_fields():
    inner = [("x", "f4"), ("y", ">f8")]
    array = np.zeros(4, [("position", inner), ("label", "i8"), ("rgb", "u1", (3,))])
    array["position"]["x"], array["label"] = np.arange(4), np.arange(4) * 10
    d = dv.View(array)
    assert d._fields() == ("position", "label", "rgb")
    assert d.position._fields() == ("x", "y")
    assert d._shape() == (4,)
    assert_same(d(), array)
    assert_same(d[1:3](), array[1:3])
    assert_same(d[2](), array[2])
    assert_same(d.position.x(), array["position"]["x"])
    assert_same(d.position.y(), array["position"]["y"])
    assert_same(d[1].position.x(), array[1]["position"]["x"])
    assert_same(d.position[::-1](), array["position"][::-1])
    assert_same(d[[3, 1]].rgb[:, 0](), array["rgb"][[3, 1], 0])


def test_structured_arrays_are_written_through_their_fields():
    inner = [("x", "f4"), ("y", "f4")]
    array = np.zeros(4, [("position", inner), ("label", "i8"), ("rgb", "u1", (3,))])
    d = dv.View(array)
    d.position.x = np.arange(4)
    d["label"] += 5
    d[2].rgb = [1, 2, 3]
    d[[0, 3]].position.y -= 1
    assert array["position"]["x"].tolist() == [0, 1, 2, 3]
    assert array["label"].tolist() == [5, 5, 5, 5]
    assert array["rgb"].sum(axis=1).tolist() == [0, 0, 6, 0]
    assert array["position"]["y"].tolist() == [-1, 0, 0, -1]
    d[1] = array[2]
    assert array[1] == array[2]


# ---------------------------------------------------------------- attached fields


def test_an_attached_field_never_changes_the_data(x, d):
    d._set_field("difference", d.input[:, :2] - d.target)
    assert d._fields() == ("input", "target", "difference")
    assert d._shape() == (5, 6)
    assert_same(d(), x)
    assert_same(d.difference(), x[:, :2] - x[:, 4:6])
    assert_same(d[1:4].difference(), x[1:4, :2] - x[1:4, 4:6])
    assert_same(d[3].difference(), x[3, :2] - x[3, 4:6])
    x[3] = 0
    assert_same(d[3].difference(), np.zeros(2))
    with pytest.raises(ValueError):
        d.difference = 1


def test_an_attached_field_is_made_by_assigning_a_view(x, d, labels):
    d.label = dv.View(labels)
    d.total = d.input[:, 0] + d.target[:, 0]
    assert d._fields() == ("input", "target", "label", "total")
    assert_same(d[2].total(), x[2, 0] + x[2, 4])
    d[2].label = 50
    d.label += 1
    assert labels.tolist() == [1, 2, 51, 4, 5]
    assert_same(d(), x)


def test_a_field_attached_to_a_record_is_a_member(record, labels):
    record.double = record.label * 2
    assert record().dtype.names == ("image", "label", "double")
    assert_same(record()["double"], labels * 2)
    assert_same(record[3].double(), labels[3] * 2)


def test_b14_replacing_against_writing(x, d):
    old, base = d.input().copy(), d.input
    other = dv.View(np.ones((5, 4)))
    before = x.copy()
    d._set_field("input", other)
    assert_same(d.input(), other())
    assert_same(base(), old)
    assert_same(x, before)
    d.input = 5
    assert (other() == 5).all()
    assert_same(x, before)


def test_assigning_a_view_to_a_field_replaces_it(x, d):
    before, other, held = x.copy(), dv.View(np.ones((5, 2))), d.target
    d.target = other
    assert_same(d[1:].target(), np.ones((4, 2)))
    assert_same(held(), before[:, 4:6])
    d["input"] = other
    assert_same(d.input(), np.ones((5, 2)))
    assert_same(x, before)


SAVED = {
    "the view": lambda d: d,
    "some rows": lambda d: d[1:3],
    "some columns": lambda d: d[:, :5],
    "renamed": lambda d: d._rename(target="y"),
    "with notes": lambda d: dv.View(d, _meta={"target": {"unit": "mm"}}),
    "read-only": lambda d: d._readonly(),
    "joined": lambda d: dv.concat(d, d),
    "pickled": lambda d: pickle.loads(pickle.dumps(d)),
    "a member": lambda d: dv.View(a=d),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_view_whose_field_was_replaced_is_not_saved_as_the_old_array(d, tmp_path, name):
    d.target = d.target / 10
    with pytest.raises(ValueError, match=r"(target|y)' shows other data .*_select\(.*_save"):
        SAVED[name](d)._save(tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_the_fields_of_a_view_of_which_one_was_replaced_are_saved(x, d, tmp_path):
    d.target = d.target / 10
    d.target = d.target * 2
    assert_same(d(), x)
    d._select("input", "target")._save(tmp_path / "a.npy")
    assert_same(dv.open(tmp_path / "a.npy").target(), x[:, 4:] / 5)
    d.input._save(tmp_path / "b.npy")
    assert_same(np.load(tmp_path / "b.npy"), x[:, :4])


def test_an_added_field_is_beside_the_array_that_is_saved(x, d, tmp_path):
    d.mean = d.input._mean(axis=1)
    with pytest.warns(RuntimeWarning, match="fields 'input', 'target', 'mean' are not saved"):
        d._save(tmp_path / "a.npy")
    assert_same(np.load(tmp_path / "a.npy"), x)


def test_replacing_changes_only_the_view_it_is_made_on(x, d):
    other = d[:]
    shuffled = d._shuffled(3)
    shuffled.input = dv.View(np.zeros((5, 1)))
    assert shuffled.input._shape() == (5, 1)
    assert_same(d.input(), x[:, :4])
    assert_same(other.input(), x[:, :4])


def test_replacing_on_a_part_is_refused(x, d):
    before = x.copy()
    other = dv.View(np.ones((2, 4)))
    with pytest.raises((TypeError, ValueError), match=r"\[\.\.\.\] = other.*_set_field"):
        d[0:2].input = other
    assert_same(x, before)
    d[0:2, "input"] = other
    d[3:5] = dv.View(np.ones((2, 6)))
    assert (x[0:2, :4] == 1).all()
    assert (x[3:5] == 1).all()
    assert_same(x[2], before[2])


def test_data_assigned_to_a_field_of_a_part_are_written(x, d):
    d[0:2].input = np.ones((2, 4))
    d[4].target = [8, 9]
    assert (x[0:2, :4] == 1).all()
    assert x[4, 4:6].tolist() == [8, 9]


# ---------------------------------------------------------------- lengths and drivers


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_a_field_of_another_length_belongs_to_the_dataset_alone(size):
    data = np.arange(size)
    array, driven = dv.View(np.eye(4), x=0), dv.View(x=np.arange(4), _driver="x")
    for d in (array, driven):
        d._set_field("other", data)
        assert_same(d.other(), data)
        assert len(d) == 4 and d[:2]._fields() == d[1]._fields() == ("x",)
        with pytest.raises(AttributeError, match="'other' belongs to the whole dataset only"):
            _ = d[:2].other
    record = dv.View(x=np.arange(4))
    record._set_field("other", data)
    with pytest.raises(ValueError, match=rf"different lengths.*x 4, other {size}; .*_driver=name"):
        len(record)
    assert len(record._drop("other")) == 4


def test_fields_of_different_lengths_need_a_driver():
    a, b = np.arange(10).reshape(5, 2), np.arange(3.0)
    d = dv.View(data1=a, data2=b)
    assert len(d.data1) == 5
    assert len(d.data2) == 3
    for question in [len, lambda view: view(), lambda view: view[0]]:
        with pytest.raises((TypeError, ValueError), match=r"(?s)_driver"):
            question(d)


def test_a_driver_is_what_the_dataset_is():
    a, b = np.arange(10).reshape(5, 2), np.arange(3.0)
    d = dv.View(data1=a, data2=b, _driver="data1")
    assert len(d) == 5
    assert d._shape() == (5, 2)
    assert_same(d(), a)
    assert_same(d[3](), a[3])
    assert_same(d[::-1](), a[::-1])
    assert_same(d.data2(), b)
    assert d._fields() == ("data1", "data2")
    with pytest.raises(AttributeError, match="data2"):
        d[1].data2  # noqa: B018
    with pytest.raises((KeyError, ValueError)):
        dv.View(data1=a, data2=b, _driver="data3")


def test_a_part_of_a_driven_dataset_keeps_the_driver():
    a, b = np.arange(10).reshape(5, 2), np.arange(3.0)
    d = dv.View(data1=a, data2=b, _driver="data1")
    for key in [np.s_[1:3], 2, [3, 0], np.s_[::-1], np.s_[1:, 0], a[:, 0] > 2]:
        assert_same(d[key].data1(), d.data1[key]())
        assert d[key]._fields() == ("data1",)
    assert_same(d[1:4][::-1][0].data1(), a[3])
    d[1:3].data1 -= a[1:3]
    assert not a[1:3].any()
    record = dv.View(pair=dv.View(x=a, y=a[:, 0]), more=b, _driver="pair")
    assert_same(record[1:3].pair.x(), a[1:3])
    assert_same(record[1:3].x(), a[1:3])
    assert [part.data1().tolist() for part in d] == a.tolist()
    assert_same(d._loader(2).__next__()(), a[:2])


def test_b46_targets_of_two_axes_and_unequal_lengths():
    x, y = np.zeros((8, 4, 2)), np.zeros((8, 4))
    assert len(dv.View(x=x, y=y)) == 8
    unequal = dv.View(features=x, targets=y[:7])
    for question in [len, lambda view: view()]:
        with pytest.raises((TypeError, ValueError), match=r"(?s)features.*targets"):
            question(unequal)


# ---------------------------------------------------------------- metadata


def test_metadata_follows_rows_and_is_dropped_by_what_changes_values(x):
    meta = {"input": {"unit": "mm"}, "": {"name": "boxes"}}
    d = dv.View(x, input=np.s_[:4], target=np.s_[4:6], _meta=meta)
    assert d._meta["name"] == "boxes"
    assert dict(d.target._meta) == {}
    d.input -= 1
    for view in [d, d[1:3], d[[2, 0]], d[1], d._shuffled(1), d._readonly()]:
        assert dict(view.input._meta) == {"unit": "mm"}
    assert dict(d.input[1:3]._meta) == {"unit": "mm"}
    assert dict(d[1:3]._meta) == {"name": "boxes"}
    assert dict((d.input + 1)._meta) == {}
    assert dict(d.input[:, :2]._meta) == {}


def test_metadata_that_are_alike_follow_joined_and_filtered_rows():
    labels = dv.View(["a", "b"])
    notes = {"unit": "mm", "range": [0, 1.5], "more": {"n": (1, None)}, "labels": labels}
    one = dv.View(x=[1.0, 2.0], y=[[1], [2, 3]], _meta={"x": notes | {"of": 1}, "y": {"of": 1}})
    other = dv.View(x=[3.0], y=[[4]], _meta={"x": notes | {"of": 1.0}, "y": {"of": 1}})
    joined = dv.concat(one, other)
    assert dict(joined.x._meta).items() >= {k: notes[k] for k in ("unit", "range", "more")}.items()
    assert joined.x._meta["labels"] is labels
    assert "of" not in joined.x._meta
    assert joined.y._meta == {"of": 1}
    assert dv.concat(one.x, dv.View([1.0]))._meta == {}
    assert one.x._filter(lambda x: x() > 1)._meta["unit"] == "mm"


def test_metadata_is_immutable_and_no_part_of_equality(x, d):
    named = d._with_meta(name="boxes", version=2)
    assert dict(named._meta) == {"name": "boxes", "version": 2}
    assert dict(d._meta) == {}
    for meta in (named._meta, d._meta, pickle.loads(pickle.dumps(named))._meta):
        for change in (
            lambda meta=meta: operator.setitem(meta, "name", "other"),
            lambda meta=meta: operator.delitem(meta, "name"),
            lambda meta=meta: operator.ior(meta, {"a": 1}),
            lambda meta=meta: meta.update(a=1),
            lambda meta=meta: meta.setdefault("a", 1),
        ):
            with pytest.raises(TypeError, match=r"not changed in place; view\._with_meta\("):
                change()
    assert copy.deepcopy(named._meta) == pickle.loads(pickle.dumps(named._meta)) == named._meta
    assert named == d
    assert dict(named._with_meta(version=3)._meta) == {"name": "boxes", "version": 3}


# ---------------------------------------------------------------- the cases


def test_b06_fields_commute_with_rows(x):
    d = dv.View(x, input=np.s_[:4], overlapping=np.s_[2:5], target=5)
    for key in [2, -1, np.s_[1:3], np.s_[::-2], [4, 0]]:
        for name in d._fields():
            assert_same(d._field(name)[key](), d[key]._field(name)())


def test_b54_names(record, labels, images):
    listed = record[:, ["image", "label"]]
    assert listed._fields() == ("image", "label")
    assert_same(listed[1:3].label(), labels[1:3])
    d = dv.View(key_a=labels, key_b=images)
    assert_same(d["key_a"](), labels)
    assert d[["key_a"]]._fields() == ("key_a",)
    assert len(d._select()) == 5
    assert d._select()._fields() == ()
    with pytest.raises(KeyError, match=r"key_a"):
        d[0:2, ["key_a", "key_c"]]


def test_b56_what_is_no_data_is_refused():
    for wrong in [("a", (1, 2)), object(), None, {1, 2}]:
        with pytest.raises(TypeError):
            dv.View(wrong)
    with pytest.raises(TypeError):
        dv.View(a=object())
    with pytest.raises(TypeError):
        dv.View()


def test_a_window_must_be_a_window(x):
    with pytest.raises((TypeError, ValueError)):
        dv.View(x, input="text")
    with pytest.raises((TypeError, ValueError)):
        dv.View(x, input=dv.field(1.5))


def test_the_size_of_a_field_is_that_of_its_data(d):
    assert d.input._size() == math.prod(d.input._shape()) == d.input().size


def test_names_with_an_underscore_are_refused_wherever_they_are_declared():
    v = dv.View(x=[1, 2])
    with pytest.raises(TypeError, match="no leading underscore"):
        v._set_field("_q", v.x)
    with pytest.raises(TypeError, match="no leading underscore"):
        v["_q"] = v.x
    with pytest.raises(TypeError, match="no leading underscore"):
        v._map(lambda sample: {"_z": 1}, fields=["_z"])
    with pytest.raises(TypeError, match="no leading underscore"):
        dv.View(lambda number: {"_z": 1}, _length=2, _fields={"_z": int})
    brought = dv.View(np.zeros(2, [("_id", "i4")]))
    brought["_id"] = brought["_id"] + 1
    assert brought["_id"]().tolist() == [1, 1]


def test_a_new_field_with_nearly_the_name_of_another_is_told(d):
    for name in ("targt", "tagret", "taarget"):
        with pytest.warns(RuntimeWarning, match=f"'{name}' is a new field beside 'target'"):
            setattr(d, name, d.target * 2)
    with pytest.warns(RuntimeWarning, match="'inpt' is a new field beside 'input'"):
        d["inpt"] = d.input + 1
    d._set_field("tarrget", d.target + 1)
    assert d.targt().tolist() == (d.target() * 2).tolist() and "tarrget" in d._fields()
    for name in ("targets", "target2", "log_target", "inputs", "x", "input_"):
        setattr(d, name, d.target * 3)
    d.target = d.target + 1


@pytest.mark.parametrize(
    "rows",
    [
        lambda d: d._take([1, 0]),
        lambda d: d._filter(d.x < 3),
        lambda d: d._dropna(),
        lambda d: d._sorted(by="x"),
        lambda d: d._split(2)[0],
    ],
)
def test_rows_that_a_verb_has_made_take_new_fields(rows):
    d = dv.View(x=np.array([1.0, 2.0, np.nan, 5.0]), y=np.arange(4))
    part = rows(d)
    part.z = part.x * 2
    assert np.array_equal(part.z(), part.x() * 2, equal_nan=True)
    assert "z" not in d._fields()
    part.y += 10
    assert d.y().max() >= 10


def test_a_part_that_a_key_has_made_takes_new_fields_by_name():
    d = dv.View(x=np.arange(4.0))
    part = d[d.x > 1]
    with pytest.raises(TypeError, match=r"part\._set_field\('z', other\)"):
        part.z = part.x * 2
    part._set_field("z", part.x * 2)
    assert part.z().tolist() == [4.0, 6.0]


@pytest.mark.parametrize(
    "given",
    [[(1, "a"), (2, "b")], [{"n": 1}, {"n": 2}], {"n": [1, 2]}, np.arange(2), ["a", "b"]],
)
def test_a_field_beside_others_is_what_it_is_beside_none(given):
    alone = dv.View(x=[1, 2], f=given)
    beside = dv.View(dv.View(x=[1, 2]), f=given)
    added = dv.View(x=[1, 2])
    added._set_field("f", given)
    assert repr(beside) == repr(alone) == repr(added)
    assert_same(beside(), alone())


def test_rows_without_end_are_told_as_such():
    endless = dv.View(np.arange(3))._repeat()
    for wrong in (
        lambda: endless + np.zeros(4),
        lambda: endless @ np.zeros(3),
        lambda: endless._width(),
        lambda: np.broadcast_to(endless, (3,)),
    ):
        with pytest.raises((TypeError, ValueError), match=r"\(endless,\)"):
            wrong()
    with pytest.raises(IndexError, match="axis 0 of the view has no end"):
        endless[np.ones(3, bool)]


@pytest.mark.parametrize("rows", [3, slice(2, 6), slice(None, None, -2), [4, 1, 1]])
def test_a_key_that_ends_in_a_name_is_the_field_of_these_rows(rows):
    x = np.arange(24.0).reshape(8, 3)
    d = dv.View(x=x.copy(), n=np.arange(8))
    assert_same(np.asarray(d[rows, "x"]()), x[rows])
    assert d[rows, ["n", "x"]]._fields() == ("n", "x")
    model = x.copy()
    model[rows] = 7
    d[rows, "x"] = 7
    assert_same(d.x(), model)
    model[rows] += 1
    d[rows, "x"] += 1
    assert_same(d.x(), model)
    model[rows] = 0
    d[rows].x = 0
    assert_same(d.x(), model)
    with pytest.raises(dv.FieldError, match="no field 'z'"):
        d[rows, "z"] = 1
