"""A view as one line, text and HTML: equal to stored files, small, escaped, without reading data.

After an intended change, write the stored files anew, and read the difference before you commit:
DATAVIEW_UPDATE_SNAPSHOTS=1 pytest tests/test_display.py
"""

from __future__ import annotations

import ast
import base64
import html.parser
import io
import itertools
import math
import pickle
import re
import xml.etree.ElementTree

import h5py
import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Rows, unmade
from dataview.exchange import convert, freeze
from dataview.index.algebra import ENDLESS
from dataview.plan import build
from dataview.samples import streams
from dataview.show import facts, outline, page, pictures
from dataview.show.page import DRAWN
from dataview.show.thumbnails import pixels_of
from dataview.sources import Source
from dataview.view import face
from dataview.view.face import node_of
from oracle import arrays, attempt, examples, keys
from recorded import cases_of, check_files, check_text

LINES = 45
HOSTILE = ["<script>alert(1)</script>", "a\nb", "\u202eabc", "\ud800", "&amp;", "\"'>", "x" * 5000]


class Unreadable(Source):
    """A source that says what it is, and fails when it is read."""

    def __init__(self, shape, dtype=np.float64, place="nowhere"):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.place = place

    def read(self, index, memo):
        raise AssertionError("display has read")

    write = read

    def describe(self):
        return self.place


def unread(*shape, dtype=np.float64, place="nowhere"):
    """A view of a source that cannot be read."""
    return dv.View(build.stored(Unreadable(shape, dtype, place)))


class Tags(html.parser.HTMLParser):
    """The tags of a page, and the words between them; a tag that ends another is an error."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag != "img":
            self.open.append(tag)
        self.seen.add((tag, *(name for name, _ in attrs)))
        self.text += " " * (tag not in {"b", "i"})

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += " " * (tag not in {"b", "i"})

    def handle_data(self, data):
        self.text += data


def check_picture(page):
    """Assert that the picture in a page, if there is one, is small; return the page without it."""
    opening = f"<details open {DRAWN}><summary>picture</summary>\n"
    before, opening, rest = page.partition(opening)
    drawn, closing, after = rest.partition("\n</details>\n")
    if not opening:
        return page
    assert xml.etree.ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert len(drawn.encode()) <= pictures.PICTURE_BYTES
    assert closing
    return before + after


def check_shown(view):
    """Assert what holds of any view's text and HTML."""
    node = view if isinstance(view, build.Node) else node_of(view)
    line, text, shown = outline.title(node), outline.text(node), page.html(node)
    assert line.startswith("View ")
    assert text.startswith("View ")
    assert max(map(len, [line, *text.split("\n")])) < 250
    assert line.isprintable()
    assert len(text.split("\n")) <= LINES
    assert all(row.isprintable() and row == row.rstrip() for row in text.split("\n"))
    rest = check_picture(shown)
    assert len(rest.encode()) < 50_000
    assert len(re.sub("<img .*?>", "", rest).encode()) < 10_000
    assert rest.startswith(page.STYLE)
    tags = Tags(rest.removeprefix(page.STYLE))
    assert {tag for tag, *_ in tags.seen} <= set(
        "div b i details summary table tr th td img".split()
    )
    assert {name for _, *names in tags.seen for name in names} <= {
        *("style", "open", "class", "alt", "src")
    }
    if "… " not in text:
        folded = re.sub(r"  (fields|values|images)  ?", " ", tags.text)
        assert folded.split() == text.split()
    assert outline.text(node) == text
    return line, text, shown


# ---------------------------------------------------------------- files


def rows(count, *shape, dtype=np.float64):
    return np.zeros((count, *shape), dtype)


def cases(folder):
    """The views of the snapshots by name."""
    np.save(folder / "x.npy", rows(60, 784, dtype=np.float32))
    file, pixels = dv.open(folder / "x.npy", mode="r+"), dv.open(folder / "x.npy")
    x = dv.View(rows(4, 3), input=np.s_[:2], target=2, _meta={"input": {"unit": "mm"}})
    labels = np.zeros(60, np.int64)
    inner = {"image": rows(5, 28, 28, dtype=np.uint8), "box": {"x": rows(5), "y": rows(5)}}
    sample = {"input": rows(3), "target": np.int64(1)}
    computed = dv.View(rows(4, 3), a=0)
    computed.double = computed.a * 2
    kind = np.dtype([("x", "<f8"), ("y", "<i4", (2,)), ("z", [("u", "S3"), ("v", "<M8[ns]")])])
    rng = np.random.default_rng(0)
    table = {
        "height": rng.normal(170, 10, 40),
        "weight": rng.normal(70, 9, 40).round(1),
        "kind": np.array(["one", "another"])[rng.integers(0, 2, 40)],
    }
    (folder / "gaps.csv").write_text("age,size,name\n1,,x\n,2.5,y z\n3,1e-3,\n", encoding="utf-8")
    records = np.zeros(4, [("u", "f8"), ("v", "i4")])
    group = {"room": {"x": rows(4, 2), "y": rows(4)}, "label": np.arange(4), "pair": records}
    dv.View(group)._save(folder / "group.h5")
    saved = dv.open(folder / "group.h5")
    mean = dv.View(table).height._mean()
    mean()
    faces = (np.add.outer(np.arange(9), np.arange(12)) + np.arange(9)[:, None, None]).astype("u1")
    images = {"image": faces * 10, "vector": rows(9, 64), "label": np.arange(9)}
    space = dv.spaces.Conv2DSpace((8, 8), channels=1)
    return {
        "array": dv.View(rows(4, 3)),
        "scalar": dv.View(3.5),
        "empty": dv.View(rows(0, 3)),
        "text": dv.View(np.array(["ab", "cde"])),
        "windows": x,
        "windows_of_a_sample": x[1],
        "nested_windows": dv.View(rows(100, 7), pos=dv.field(np.s_[:3], x=0, y=1, z=2), x=0),
        "metadata": x._with_meta(source="lab", split=3, mean=rows(3), more=None),
        "members": dv.View(input=file, target=labels),
        "members_of_members": dv.View(scene=inner, y=rows(5)),
        "structured": dv.View(np.zeros(5, kind)),
        "readonly_file": pixels[5:50]._shuffled(3),
        "readonly_member": dv.View(input=rows(2), target=dv.View(rows(2))._readonly()),
        "one_sample": dv.View(a=rows(4), b=np.int64(1)),
        "different_lengths": dv.View(a=rows(4), b=rows(7, 2)),
        "driven": dv.View(a=rows(4), b=rows(7, 2), _driver="b"),
        "attached": dv.View(rows(4, 3), other=dv.View(rows(4)), alone=dv.View(rows(9))),
        "no_fields": dv.View(a=rows(4))._select(),
        "shuffled_repeated": dv.View(a=rows(4), b=rows(4))._shuffled(1)._repeat(2),
        "endless": dv.View(rows(4, 3))._repeat(),
        "joined": dv.concat(file, dv.View(rows(4, 784, dtype=np.float32))),
        "formula": (x - 3) / 2,
        "formula_with_fields": -((dv.View(rows(4, 2)) + 1) ** 2) > np.sqrt(x.input),
        "formula_of_a_part": ((x - x[0]) * 2)[1:3],
        "long_formula": sum([dv.View(rows(4, 3))] * 30),
        "two_results": np.modf(x)[1],
        "comparison": x == dv.View(rows(2)),
        "computed_field": computed,
        "function": dv.View(unmade, _length=7),
        "function_sample": dv.View(unmade, _length=7)[2],
        "function_shuffled": dv.View(unmade, _length=7)._shuffled(0),
        "function_endless": dv.View(unmade, _length=math.inf),
        "function_probed": dv.View(lambda number: sample, _length=7)._probe(),
        "functions": dv.View(input=dv.View(unmade, _length=7), target=dv.View(unmade, _length=7)),
        "stream": convert.node_of(lambda: iter([1, 2])),
        "stream_probed": convert.node_of(lambda: iter([sample])).probed(),
        "stream_of_numbers": convert.node_of(lambda: iter([1.5])).probed(),
        "iterator": convert.node_of(iter([1, 2])),
        "filtered": x._filter(bool),
        "many_fields": dv.View(**{f"f{number}": rows(3) for number in range(51)}),
        "table": dv.View(table),
        "table_of_rows": dv.View(table)[[3, 1, 2]],
        "table_head": dv.View(table)._sorted(by="weight")._head(),
        "one_element": dv.View(table).height[3],
        "statistic_taken": mean,
        "file_head": file._head(2),
        "file_with_gaps": dv.open(folder / "gaps.csv")._head(),
        "file_of_columns": dv.open(folder / "gaps.csv")._rename(size="length"),
        "file_of_groups": saved,
        "fields_of_two_files": dv.View(x=saved.room.x, label=saved.label, pixels=file[:4]),
        "computed_tail": ((x - 3) / 2)._tail(2),
        "stream_head": dv.View(lambda: iter([sample] * 3))._head(2),
        "wide_table": dv.View({f"column {n}": rng.random(50) for n in range(12)}),
        "wide_array": dv.View(rng.normal(size=(50, 784))),
        "ragged": dv.View(words=dv.ragged([["a"], ["b c", "d"]]), n=[1, 2]),
        "kinds": dv.View(
            {
                "object": np.array([None, "a", 3, [1]], object),
                "time": np.array(["2020-01-01", "NaT", "2021-02-03", "1970-01-01"], "M8[s]"),
                "complex": np.array([1j, 2, 3, 4]),
                "large": np.array([1e20, 1, -np.inf, np.nan]),
                "small": np.array([1e-7, 0, 3e-5, -1e-9]),
                "truth": np.array([True, False, True, True]),
            }
        ),
        "images": dv.View(images, _spaces={"vector": space}),
        "image_rows": dv.View(images).image,
        "hostile_names": dv.View(**{name: rows(3) for name in HOSTILE}),
    }


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return cases(tmp_path_factory.mktemp("display"))


def files_of(name, view):
    """Give the files that hold what is shown of a view."""
    if isinstance(view, dv.View) and face.is_seen(view):
        line, text, page = outline.title(node_of(view)), repr(view), view._repr_html_()
    else:
        line, text, page = check_shown(view)
    return {f"{name}.txt": f"{text}\n\n{line}\n", f"{name}.html": f"{page}\n"}


def test_the_last_rows_of_a_shuffled_table_are_its_last_rows():
    d = dv.View(x=np.arange(100), y=np.arange(100) * 2.0)._shuffled(0)
    lines = repr(d).splitlines()
    assert [int(line.split()[0]) for line in lines[3:6]] == d[:3].x().tolist()
    assert [int(line.split()[0]) for line in lines[-3:]] == d[-3:].x().tolist()


def test_every_case_has_its_files(shown):
    files = [files_of(name, view) for name, view in shown.items()]
    check_files("display", {name: text for two in files for name, text in two.items()})


@pytest.mark.parametrize("name", cases_of("display"))
def test_a_view_is_shown_as_in_its_files(name, shown):
    for file, text in files_of(name, shown[name]).items():
        check_text("display", file, text)


def test_a_view_shows_its_node(shown):
    for view in shown.values():
        if isinstance(view, dv.View):
            data = freeze(node_of(view)) if face.is_seen(view) else None
            assert repr(view) == outline.text(node_of(view), data)
            assert view._repr_html_() == page.html(node_of(view), data)


# ---------------------------------------------------------------- reading nothing


def test_display_reads_nothing():
    v = dv.View(unread(60, 4), input=np.s_[:3], target=3)
    kind = [("a", "f8"), ("b", [("c", "i4", (2,))])]
    views = [
        *(v, v[2], v[::-2], v[[1, 0, 1]], v.input, v.input[:, 0], v._shuffled(0), v._repeat()),
        *(v._shuffled(0)._repeat(2)[5:50], v._readonly(), dv.concat(v, v), v == v, v.input * 2),
        *(np.exp(v)[3], v._filter(unmade), unread(5, dtype=kind), unread(5, dtype=kind)["b"]),
        *(dv.View(a=v, b=v.target), dv.View(a=v, b=unread(3)), v._with_meta(unit="mm")),
        *(dv.View(a=v, b=unread(3), _driver="b"), v == dv.View(unmade, _length=3)),
        *(dv.View(unmade, _length=3), dv.View(a=dv.View(unmade, _length=3))),
    ]
    for view in views:
        check_shown(view)
    with pytest.raises(AssertionError):
        v()


def test_a_stream_is_not_begun():
    begun = []

    def numbers():
        begun.append(1)
        return itertools.count()

    iterator = iter(range(5))
    for origin in (numbers, iterator):
        check_shown(convert.node_of(origin))
        check_shown(streams.slice_of_stream(convert.node_of(origin), np.s_[2:]))
    assert begun == []
    assert next(iterator) == 0


def test_metadata_is_not_printed_by_its_own_repr():
    class Loud:
        def __repr__(self):
            raise AssertionError("display has asked metadata for its repr")

    view = dv.View([1])._with_meta(loud=Loud(), view=unread(3), huge=10**9000, n=np.float32(2))
    assert "loud=Loud, view=View, huge=int" in check_shown(view)[1]


# ---------------------------------------------------------------- values

NUMBER = re.compile(r"[-\d.]\S*")


@given(arrays(dtypes=["i1", "u2", "i8", "f4", "f8"]))
@examples(150)
def test_numbers_in_memory_are_shown_as_they_are(array):
    text = repr(dv.View(array))
    if array.ndim > 2 or not array.size or "…" in text:
        return
    shown = [float(word) for row in text.split("\n")[1:] for word in row.split()]
    small = np.max(np.abs(array[np.isfinite(array)].astype(float)), initial=0) * 1e-3
    np.testing.assert_allclose(shown, array.reshape(-1).astype(float), rtol=1e-2, atol=small)


def test_a_view_of_one_element_is_its_value_in_texts():
    d = dv.View(x=[1.5, 2.5], name=["a", "b"])
    assert (str(d.x[0]), f"{d.name[1]}", f"{d.x._mean()}") == ("1.5", "b", "2.0")
    assert (str(dv.View(np.array(1 / 3))), f"{d.x._sum():.2f}") == (str(1 / 3), "4.00")
    assert str(dv.View([[7]])) == "[[7]]"
    assert str(unread(3)) == repr(unread(3))
    assert str(d[0]) == repr(d[0])


def test_only_rows_that_were_asked_for_are_read():
    rows = Rows(50)
    view = rows.view
    for ask, wanted in [
        (lambda: view._head(3), range(3)),
        (lambda: view._tail(2), range(48, 50)),
        (lambda: (view * 2)[10:]._head(1), [10]),
        (lambda: dv.View(view, first=0)._sample(2, seed=1), None),
    ]:
        asked = ask()
        assert rows.counts() == [0] * 50
        for show in (repr, dv.View._repr_html_):
            show(asked)
            counts = rows.counts()
            read = [number for number, count in enumerate(counts) if count]
            assert len(read) == 2 if wanted is None else read == [*wanted]
            assert max(counts) == 1


def test_to_display_samples_that_come_once_leaves_them():
    stream = dv.View(iter([1, 2, 3]))
    head = stream._head(2)
    assert "can be read once" in repr(head)
    assert "1 2" not in head._repr_html_()
    assert head().tolist() == [1, 2]


def test_head_and_tail_are_parts_like_others():
    d = dv.View(x=np.arange(9), y=np.arange(9) * 2.0)
    assert d._head(2) == d[:2] and d._tail(2) == d[-2:] and len(d._tail(0)) == 0
    assert len(d._head(100)) == len(d._tail(100)) == 9
    assert set(d._sample(4, 1).x().tolist()) == set(d._sample(4, 1).y().astype(int) // 2)
    d._head(2).x[...] = 7
    assert d.x[:3]().tolist() == [7, 7, 2]
    assert "7" in repr(pickle.loads(pickle.dumps(d._head(2))))
    with pytest.raises(ValueError, match="0 or more; got -1"):
        d._head(-1)
    with pytest.raises(TypeError):
        dv.View(lambda: iter([1]))._tail()


def test_what_is_mapped_or_compared_or_pending_is_not_shown(tmp_path):
    mapped = np.memmap(tmp_path / "m", "f4", "w+", shape=(3,))
    x = dv.View([3.0, 1.0, 2.0])
    for view in (dv.View(mapped), dv.View(mapped[1:]), x._sorted(), x._mean(), x * 2):
        lines = re.sub(r"\n  … not computed; .*", "", repr(view)).split("\n")
        assert len(lines) == 1 + ("computed" in lines[0])
    assert repr(x._shuffled(0)).count("\n") == 1


def test_values_that_could_read_are_named_by_their_type():
    class Loud:
        def __repr__(self):
            raise AssertionError("display has asked a value for its repr")

        __str__ = __repr__

    values = np.empty(4, object)
    values[:] = Loud(), None, 10**9000, "a\nb"
    values[1] = unread(3)
    shown = check_shown(dv.View(values))[1]
    assert "<Loud> <View> <int> 'a\\nb'" in shown


def test_images_are_drawn_as_their_space_or_their_shape_says():
    flat = np.arange(2 * 12 * 10 * 3, dtype="u1").reshape(2, 3, 12, 10)
    space = dv.spaces.Conv2DSpace((12, 10), channels=3, axes=("b", "c", 0, 1))
    wanted = flat.transpose(0, 2, 3, 1)
    for view in (dv.View(wanted), dv.View(flat), dv.View(a=flat, _spaces={"a": space}).a):
        found = drawn_in(view._repr_html_())
        assert len(found) == 2
        assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
    for axes in itertools.permutations(("c", 0, 1)):
        own = space.with_axes(("b", *axes))
        rows = space.np_format_as(flat, own).reshape(2, 360)
        found = drawn_in(dv.View(a=rows, _spaces={"a": own})._repr_html_())
        assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
    turned = dv.spaces.Conv2DSpace((12, 10), channels=1, axes=("b", 1, 0, "c"))
    grey = dv.View(a=np.ascontiguousarray(flat[:, 0].swapaxes(1, 2)), _spaces={"a": turned})
    assert np.array_equal(drawn_in(grey._repr_html_())[1], flat[1, 0])
    assert drawn_in(dv.View(np.zeros((5, 3, 3), "u1"))._repr_html_()) == []
    assert drawn_in(unread(5, 28, 28, dtype="u1")._repr_html_()) == []
    noise = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3)).astype("u1")
    many = dv.View({f"f{n}": noise for n in range(9)})._repr_html_()
    assert len(many) < 50_000


def test_no_image_is_made_that_finds_no_room(monkeypatch):
    made = []
    monkeypatch.setattr(page, "pixels_of", lambda *given: made.append(1) or pixels_of(*given))
    noise = np.random.default_rng(0).random((9, 28, 28))
    shown = dv.View({f"f{n}": noise for n in range(1000)})._repr_html_()
    assert len(made) == len(drawn_in(shown)) + 1


def drawn_in(page):
    """The images in a page, as arrays."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


# ---------------------------------------------------------------- bounds and escapes


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_are_escaped(name):
    kind = np.dtype([(name, "f8"), ("b", "f8")])
    x = dv.View(rows(3, 4))
    views = [
        dv.View(rows(3, 4), **{name: np.s_[:2]}),
        dv.View(a={name: {name: rows(3)}}),
        dv.View(**{f"{name}{number}": rows(3) for number in range(300)}),
        dv.View(np.zeros(3, kind)) if name.isascii() else x,
        x._with_meta(**{name: name}),
        unread(3, place=name),
        dv.concat(*(unread(3, place=f"{name}{number}") for number in range(9))),
        np.frompyfunc(abs, 1, 1)(x),
        dv.View(x, **{name: x})[::-1],
    ]
    for view in views:
        _, _, page = check_shown(view)
        assert "<script" not in page
        assert name not in page or len(name) < 6


def test_much_is_cut():
    alike = rows(3)
    wide = dv.View(**{f"f{number}": alike for number in range(2000)})
    assert "… 1988 more" in check_shown(wide)[1]
    nested = alike
    for _ in range(60):
        nested = {"inner": nested, "other": alike}
    check_shown(dv.View(nested))
    many = {f"g{number}": {f"h{other}": alike for other in range(9)} for number in range(15)}
    text = check_shown(dv.View(many))[1]
    assert all(f"  g{number} " in text for number in range(15))
    assert "… 4 more" in text
    check_shown(dv.View(np.zeros((1,) * 40)))
    check_shown(dv.View(np.broadcast_to(np.zeros(()), (2**40,) + (1,) * 20)))
    check_shown(dv.View(np.zeros(2, [(f"f{number}", "f8") for number in range(500)])))


def test_shared_parts_are_asked_once():
    x = joined = unread(1, 2)
    for _ in range(40):
        x, joined = x + x, dv.concat(joined, joined)
    assert "…" in check_shown(x)[1]
    assert "joined (2 parts)" in check_shown(joined)[1]


@pytest.mark.parametrize(
    ("count", "dtype", "size"),
    [
        *((0, "u1", "0 B"), (999, "u1", "999 B"), (1000, "u1", "1 kB"), (999_499, "u1", "999 kB")),
        *((999_500, "u1", "1 MB"), (12_345_678, "u1", "12.3 MB"), (2**40, "f8", "8.8 TB")),
    ],
)
def test_sizes_are_readable(count, dtype, size):
    assert f"{dtype.replace('u1', 'uint8').replace('f8', 'float64')}, {size}, " in repr(
        unread(count, dtype=dtype)
    )


def test_an_endless_length_is_a_word():
    assert outline.text(node_of(unread(ENDLESS, 3))) == "View (endless, 3) float64, nowhere"


# ---------------------------------------------------------------- formulas

SYMBOLS = "+ - * / // % ** & | ^ << >> < <= > >= == !=".split()
UFUNCS = """
    add subtract multiply divide floor_divide remainder power bitwise_and bitwise_or bitwise_xor
    left_shift right_shift less less_equal greater greater_equal equal not_equal
""".split()
INFIX = {symbol: getattr(np, name) for symbol, name in zip(SYMBOLS, UFUNCS, strict=True)}
PREFIX = {"-": np.negative, "+": np.positive, "~": np.invert}
X = unread(3, dtype=np.int64)
LEAVES = st.sampled_from([(X, "x"), (2, "2"), (-3, "(-3)")])


def applied(symbol, *terms):
    """The result of an operator as view and words, or the first operand where NumPy refuses."""
    ufunc = INFIX[symbol] if len(terms) == 2 else PREFIX[symbol]
    made, refused = attempt(lambda values: ufunc(*values), [value for value, _ in terms])
    if refused or not isinstance(made, dv.View):
        return terms[0]
    words = [words for _, words in terms]
    return made, f"({words[0]} {symbol} {words[1]})" if len(terms) == 2 else f"({symbol}{words[0]})"


def larger(terms):
    infix = st.builds(applied, st.sampled_from(sorted(INFIX)), terms, terms)
    return infix | st.builds(applied, st.sampled_from(sorted(PREFIX)), terms)


@given(st.recursive(LEAVES, larger, max_leaves=6))
@examples(300)
def test_a_formula_means_what_it_says(term):
    view, words = term
    if words in {"x", "2", "(-3)"}:
        return
    formula = repr(view).split("\n  = ")[1].replace("int64(3,)", "x")
    if "…" not in formula:
        assert ast.dump(ast.parse(formula)) == ast.dump(ast.parse(words))


def test_other_functions_are_called_by_name():
    x = unread(3)
    named = np.frompyfunc(lambda a, b: a, 2, 1)(x, np.hypot(x, 2.5))
    assert "  = <lambda>(float64(3,), hypot(float64(3,), 2.5))" in repr(named)
    assert formula(np.divmod(x, 2)[1] * 3) == "divmod(float64(3,), 2)[1] * 3"
    assert formula(np.square(-x)) == "(-float64(3,)) ** 2"


def formula(view):
    return repr(view).split("\n  = ")[1].split("\n")[0]


def fielded():
    pos = dv.field(np.s_[:3], x=0, y=1)
    return dv.View(unread(9, 5), pos=pos, rest=np.s_[3:])


def test_a_formula_has_the_names_of_fields():
    d = fielded()
    z = (d.rest - d.rest._mean(axis=0)) / d.rest._std(axis=0)
    assert formula(z) == "(rest - mean(rest, axis=0)) / std(rest, axis=0)"
    assert formula(z[5:]) == "((rest - mean(rest, axis=0)) / std(rest, axis=0))[5:]"
    assert formula(d.pos.x + d.pos.y) == "pos.x + pos.y"
    assert formula(d.pos * unread(3)) == "pos * float64(3,)"
    m = dv.View(a={"b": unread(9), "c d": unread(9)}, e=unread(9, 2))
    assert formula(m.a.b + m.a["c d"] * m.e[:, 0]) == 'a.b + a["c d"] * e[:, 0]'
    kind = np.dtype([("x", "f8"), ("y", "i4")])
    assert formula(unread(3, dtype=kind).x * 2) == "x * 2"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (lambda d: d.rest[5:8], "rest[5:8]"),
        (lambda d: d[5:8].rest, "rest[5:8]"),
        (lambda d: d[2].rest, "rest[2]"),
        (lambda d: d.rest[::-1], "rest[::-1]"),
        (lambda d: d.rest[7:2:-2, 1], "rest[7:2:-2, 1]"),
        (lambda d: d.rest[1::3], "rest[1::3]"),
        (lambda d: d.rest[:0], "rest[0:0]"),
        (lambda d: d.rest[[2, 1]], "rest[…]"),
        (lambda d: d.rest[None], "reshape(rest, (1, 9, 2))"),
        (lambda d: d.rest[1:][:, 0], "rest[1:, 0]"),
        (lambda d: d._shuffled(1).rest, "rest"),
        (lambda d: d[[3, 4]].rest, "rest[…]"),
        (lambda d: d._rename(rest="other").other, "other"),
        (lambda d: d._select("rest").rest, "rest"),
        (lambda d: d._readonly().rest, "rest"),
        (lambda d: d._with_meta(unit="mm").rest, "rest"),
        (lambda d: dv.View(left=d.rest).left, "left"),
        (lambda d: pickle.loads(pickle.dumps(fields_in_memory())).rest[1:], "rest[1:]"),
        (lambda d: pickle.loads(pickle.dumps(fields_in_memory().rest[1:])), "rest[1:]"),
    ],
)
def test_a_part_of_a_field_says_which(part, words):
    assert formula(part(fielded()) * 2) == f"{words} * 2"


def fields_in_memory():
    return dv.View(rows(9, 5), rest=np.s_[3:])


def test_a_field_that_points_elsewhere_has_its_own_name():
    d = fielded()
    d._set_field("again", d.rest)
    assert formula(d.again + d.rest) == "again + rest"
    d.twice = d.rest * 2
    assert formula(d.twice + 1) == "rest * 2 + 1"


def test_a_field_of_what_is_computed_is_a_part_of_it():
    d = fielded()
    assert formula((d * 2).rest) == "(float64(9, 5) * 2)[:, 3:]"
    assert formula((d.pos - d.pos._mean(axis=0)).x) == "(pos - mean(pos, axis=0))[:, 0]"
    assert formula(d.pos._mean(axis=0).y) == "mean(pos, axis=0)[1]"
    assert formula(dv.View(a=np.reshape(unread(4, 6), (8, 3))).a * 2) == "a * 2"


def test_names_change_nothing_else():
    x = dv.View(rows(9, 5))
    mean = x._mean(axis=0)
    d = dv.View(x=x, alone=mean, _driver="x")
    d.alone()
    assert node_of(mean).taken is not None
    assert d.x == x
    assert formula(x * 2) == "float64(9, 5) * 2"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda x: x._sum(), "sum(x)"),
        (lambda x: x._sum(axis=1), "sum(x, axis=1)"),
        (lambda x: x._sum(axis=(0, 2)), "sum(x, axis=(0, 2))"),
        (lambda x: x._any(axis=-1, keepdims=True), "any(x, axis=2, keepdims=True)"),
        (lambda x: x._max(keepdims=True), "max(x, keepdims=True)"),
        (lambda x: x._var(axis=0, ddof=1), "var(x, axis=0, ddof=1)"),
        (lambda x: (x * 2)._min(axis=0)[1], "min(x * 2, axis=0)[1]"),
    ],
)
def test_statistics_are_calls(ask, words):
    assert formula(ask(dv.View(x=unread(4, 3, 2)).x)) == words


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda x: x @ np.ones((3, 2)) + 1, "x @ float64(3, 2) + 1"),
        (lambda x: (x + 1) @ (x * 2)[0], "(x + 1) @ (x * 2)[0]"),
        (lambda x: np.where(x > 0, x, 0), "where(x > 0, x, 0)"),
        (lambda x: np.clip(x, None, 1.5), "minimum(x, 1.5)"),
        (lambda x: np.round(x), "round(x)"),
        (lambda x: np.round(x, 2), "round(x, decimals=2)"),
        (lambda x: np.astype(x, np.float32), "astype(x, dtype=float32)"),
        (lambda x: x**2, "x ** 2"),
        (lambda x: np.transpose(x) * 2, "transpose(x) * 2"),
        (lambda x: np.transpose(x + 1), "transpose(x + 1)"),
        (lambda x: np.reshape(x, (2, 2, 3)) * 2, "reshape(x, (2, 2, 3)) * 2"),
        (lambda x: np.reshape(x, -1) * 2, "reshape(x, (12,)) * 2"),
        (lambda x: np.reshape(x + 1, (6, 2))[1:3], "reshape(x + 1, (6, 2))[1:3]"),
    ],
)
def test_functions_are_calls(made, words):
    assert formula(made(dv.View(x=unread(4, 3)).x)) == words


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda d: d.x._mean(), "mean(x)"),
        (lambda d: (d.x * d.y)._max(), "max(x * y)"),
        (lambda d: d.x._sum(), "sum(x)"),
        (lambda d: d.x._quantile(0.5), "quantile(x, q=0.5)"),
        (lambda d: d[1:].x._std(), "std(x[1:])"),
        (lambda d: d.x._mean(where=d.y > 2), "mean(x, where=y > 2)"),
        (lambda d: d.x._sum(where=d.y > 2), "sum(x, where=y > 2)"),
        (lambda d: d.y._mean(where=d.y > 2), "mean(y, where=y > 2)"),
        (lambda d: d.x._fillna(0), "fillna(x, 0.0)"),
        (lambda d: d.x._fillna(d.y._mean()), "fillna(x, mean(y))"),
        (lambda d: d.x._isna(), "isna(x)"),
        (lambda d: d.x._notna(), "notna(x)"),
        (lambda d: d.y._notna(), "notna(y)"),
        (lambda d: d.name == "a", "name == 'a'"),
        (lambda d: d.y - dv.View(-2.5), "y - -2.5"),
    ],
)
def test_a_formula_is_what_was_written_for_columns_with_gaps(tmp_path, made, words):
    (tmp_path / "t.csv").write_text("x,y,name\n1.5,1,a\n,2,\n3,3.5,b\n")
    assert formula(made(dv.open(tmp_path / "t.csv"))) == words


def test_a_taken_statistic_forgets_what_it_is_of_when_it_travels():
    mean = dv.View(x=rows(4, 3)).x._mean(axis=0)
    mean()
    assert formula(mean) == "mean(x, axis=0)"
    assert formula(pickle.loads(pickle.dumps(mean))) == "mean(…, axis=0)"


def test_a_long_formula_tells_what_there_is_room_for():
    x = dv.View(some_long_name=unread(3)).some_long_name
    assert formula(sum([x] * 30)) == "… + " + " + ".join(["some_long_name"] * 5)


# ---------------------------------------------------------------- any view

STEPS = {
    "part": lambda view, key: view[key],
    "shuffled": lambda view, key: view._shuffled(len(str(key))),
    "repeated": lambda view, key: view._repeat(3),
    "endless": lambda view, key: view._repeat(),
    "readonly": lambda view, key: view._readonly(),
    "meta": lambda view, key: view._with_meta(key=key),
    "negative": lambda view, key: -view,
    "sum": lambda view, key: view + view[key],
    "equal": lambda view, key: view[key] == view,
    "joined": lambda view, key: dv.concat(view, view),
    "member": lambda view, key: dv.View(a=view, b=view[key]),
    "single": lambda view, key: dv.View(a=view, b=view[key], _rank=0),
    "driven": lambda view, key: dv.View(a=view, b=view[key], _driver="b"),
    "attached": lambda view, key: dv.View(view, a=view[key], b=view),
    "window": lambda view, key: dv.View(view, w=dv.field(np.s_[:1], inner=0), v=key),
    "field": lambda view, key: view._field(view._fields()[-1]),
    "selected": lambda view, key: view._select(*view._fields()[:2]),
    "filtered": lambda view, key: view._filter(lambda row: True),
    "split": lambda view, key: view._split(0.5, seed=1)[0],
    "function": lambda view, key: dv.View(lambda number: view[number], _length=len(view)),
    "probed": lambda view, key: view._probe() if view._length() in range(10**4) else view,
}


@given(st.data())
@examples(200)
def test_any_view_can_be_shown(data):
    array = data.draw(arrays())
    view = dv.View(array)
    check_shown(view)
    names = data.draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=6))
    for name in names:
        key = data.draw(keys(array.shape))
        found, refused = attempt(lambda subject, n=name, k=key: STEPS[n](subject, k), view)
        if refused is None:
            view = found
            check_shown(view)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_many_ragged_rows_of_several_axes_are_shown(axes):
    rows = [np.full((number + 1,) + (2,) * (axes - 1), number) for number in range(8)]
    d = dv.View(x=dv.ragged(rows), y=np.arange(8))
    assert "…" in repr(d.x) and "…" in repr(d) and "8" in d._repr_html_()


# -------------------- wide tables, samples, gaps --------------------


def wide_table(count, rows=5):
    return dv.View({f"column{n}": np.arange(rows) * 1000.0 + n for n in range(count)})


@pytest.mark.parametrize("count", [9, 12, 20])
def test_a_wide_table_is_folded_where_its_rows_are_asked_for(count):
    lines = repr(wide_table(count)._head(3)).splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.strip().startswith("column")]
    assert len(heads) > 1 and [*itertools.chain(*heads)] == [f"column{n}" for n in range(count)]
    assert sum(line.split()[:1] == ["2000.0"] for line in lines) == 1
    assert len(repr(wide_table(count)).splitlines()) == 1 + count


def test_of_a_very_wide_table_the_middle_columns_are_left_out():
    text, page = repr(wide_table(100)._head(3)), wide_table(100)._head(3)._repr_html_()
    heads = [line.split() for line in text.splitlines() if line.strip().startswith("column")]
    shown = [*itertools.chain(*heads)]
    assert len(heads) == 3 and shown[0] == "column0" and shown[-1] == "column99"
    assert text.splitlines()[-1] == f"  … {101 - len(shown)} more; d._fields() has their names"
    assert shown.count("…") == 1 and max(map(len, text.splitlines())) <= 80
    assert len(re.findall("<th[^>]*>column", page)) == 50 and "… 50 more; d._fields()" in page


def test_a_sample_is_printed_with_its_values_though_its_repr_reads_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("city,size,rooms\nBern,1.5,3\nRome,,\n")
    d = dv.open(tmp_path / "t.csv")
    assert "Bern" not in repr(d[0]) and "Bern" in str(d[0]) and "1.5" in f"{d[0]}"
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    sample = dv.View(x=dv.open(tmp_path / "x.npy"), y=[7, 8, 9])[2]
    assert "4.0 5.0" in str(sample) and "4.0 5.0" not in repr(sample)
    large = dv.View(x=unread(1 << 22), y=3.5)
    assert str(large) == repr(large)  # an array and a number, which is no row of many


def test_a_sample_of_unknown_size_is_printed_copied_and_described(tmp_path):
    for number in range(2):
        image = PIL.Image.fromarray(np.full((10 + number, 12, 3), number, np.uint8))
        image.save(tmp_path / f"{number}.png")
    d = dv.open(tmp_path)
    assert d._shape()[0] == 2 and d.image[0]._shape() == (None, None, 3)
    assert "'0.png'" in str(d[0])
    assert d[0]._copy().image._shape() == (10, 12, 3)
    assert d[1]._describe()["image"]["max"] == 1
    assert "image: images" in repr(d[0]._show())
    assert d[0]()["image"].shape == (10, 12, 3) and d[1]()["path"] == "1.png"


def test_fields_of_rows_that_were_asked_for_are_seen(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.arange(9.0), y=np.arange(9))
    d = dv.open(tmp_path / "t.npz")
    assert "0.0 1.0" in repr(d._head(2).x) and "7 8" in repr(d._tail(2)["y"])
    assert "0.0" not in repr(d[:2].x)
    with pytest.raises(TypeError, match=r"one sample has no rows .* print\(d\)"):
        d[0]._head()


def test_a_mask_of_gaps_is_named_beside_its_column(tmp_path):
    (tmp_path / "t.csv").write_text("city,size\nBern,1\nRome,\n")
    d = dv.open(tmp_path / "t.csv")
    assert d._fields() == ("city", "size", "size_mask")
    lines = repr(d).splitlines()
    assert len(lines) == 4 and lines[2].endswith("gaps: size_mask") and "not read" in lines[3]
    assert "size_mask" not in repr(d._head()) and "size_mask" not in repr(d._show())
    assert "size_mask" not in d._head()._repr_html_()
    assert "size: numbers\n  1" in repr(d._show())


def test_the_display_of_a_file_reads_nothing_and_says_what_shows_its_values(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    d = dv.open(tmp_path / "x.npy")
    rows, value = "… not read; d._head() shows the first rows", "… not read; d() has the values"
    for view, told in ((d, rows), (d[0], rows), (dv.View(x=d), rows), (d[0, 0], value)):
        assert repr(view).splitlines()[-1].strip() == told
        assert told in view._repr_html_()
    for view in (d._head(), d[:0], d - 1, dv.View([1.0]), d._copy()):
        assert "not read" not in repr(view) + view._repr_html_()


def test_displays_name_values_masks_and_labels_as_a_user_knows_them(tmp_path):
    (tmp_path / "t.csv").write_text("name,age\nAda,36\n,\n")
    t = dv.open(tmp_path / "t.csv")
    d = dv.View(x=[1, 2, 3], words=dv.ragged([[1], [2, 3], []]))
    labels = dv.View(["b", "a"])._codes()
    with pytest.warns(RuntimeWarning, match="nothing equals None"):
        compared = t.age == None, t.name != None  # noqa: E711  # as a user may write it
    shown = {
        "= age == None": compared[0],
        "= name != None": compared[1],
        "= ~age_mask[1:]": t[1:].age._isna(),
        "computed, _codes, labels": labels,
        "a=[1, 2], b=[x, y, z, …]": d._with_meta(a=[1, 2], b=list("xyzw")),
        "m=float64(2,)": d._with_meta(m=np.ones(2)),
        "View of (2, 2) rows": d._minibatches(2),
        "computed, cached": d.x._cached(),
    }
    for words, view in shown.items():
        assert words in repr(view)
    assert repr(d.x._cached()).endswith("cached")
    assert "without end" in repr(d._repeat()._explain())


def test_a_display_says_the_same_of_rows_of_many_fields_seen_through_a_key():
    data = np.arange(300.0).reshape(3, 100)
    windows = dv.View(data, **{f"f{n}": n for n in range(100)})
    members = dv.View({f"f{n}": data[:, n] for n in range(100)})
    for key in (1, slice(1, 3), slice(None, None, -1)):
        texts = [repr(d[key]).split("\n", 1)[1] for d in (windows, members)]
        assert texts[0] == texts[1]
        assert windows[key].f99 == data[key, 99]
        assert members[key].f99 == data[key, 99]
    assert repr(dv.View([-0.0001, 0.5, 2.0])).split("\n")[1].split() == ["0.0", "0.5", "2.0"]


def test_a_file_of_fields_of_several_lengths_says_which_rows_can_be_seen(tmp_path):
    with h5py.File(tmp_path / "lab.h5", "w") as file:
        file["one/x"], file["two/x"] = np.arange(3), np.arange(4)
    d = dv.open(tmp_path / "lab.h5")
    assert repr(d).endswith("d['one']._head() shows the first rows of a field")
    assert "first rows" in repr(d.two) and len(d["one"]._head()) == 3
    with pytest.raises(ValueError, match=r"take one field, or .*_driver="):
        d._head()
    d._close()
    dv.View(words=dv.ragged([[1], [2, 3]]), label=[0, 1])._save(tmp_path / "r.h5")
    assert "words/values" not in repr(dv.open(tmp_path / "r.h5"))


def test_rows_in_an_order_to_be_found_say_what_shows_them():
    record = dv.View(a=[2, 1], b=[0.5, 1.5])
    joined = record._join(dv.View(a=[1, 2], z=[3, 4]), on="a")
    for view in (record._sorted("a"), record.a._sorted(), joined):
        text, page = repr(view), view._repr_html_()
        assert text.endswith("\n  … not computed; d._head() shows the first rows")
        assert "not computed; d._head() shows the first rows" in page
        assert "not computed" not in repr(view._head())


def test_the_states_of_records_in_records_are_asked_of_some_nodes(monkeypatch):
    def nested(levels):
        if levels:
            return dv.View(**{f"f{n}": nested(levels - 1) for n in range(8)})
        return dv.View(np.broadcast_to(1.0, 3))

    asked, real = [], facts._order_words
    monkeypatch.setattr(facts, "_order_words", lambda node: asked.append(1) or real(node))
    assert repr(nested(4)).startswith("View of 3 rows, 98.3 kB, memory, read-only\n")
    assert len(asked) < 15 * facts.NODES_ASKED  # for each line that is shown
