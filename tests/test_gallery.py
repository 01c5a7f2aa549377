"""`_show` and `_plot`: each field drawn as its space, its dtype and its shape say; few rows read.

After an intended change, write the stored files anew, and read the difference before you commit:
DATAVIEW_UPDATE_SNAPSHOTS=1 pytest tests/test_gallery.py
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import dataview as dv
from counting import Rows
from dataview.show.thumbnails import pixels_of
from recorded import cases_of, check_files, check_text


def balls(count):
    """Images of a disc that moves."""
    side = np.arange(28) - 14
    return np.stack(
        [(np.add.outer(side**2, (side - n) ** 2) < 80) * np.uint8(255) for n in range(count)]
    ).astype("u1")


def cases():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(40, 2))
    return {
        "images": dv.View(image=balls(5), label=[0, 1, 0, 1, 0]),
        "curves": dv.View(np.sin(np.outer([1, 2], np.linspace(0, 9, 200)))),
        "points": dv.View(numbers),
        "columns": dv.View(
            {
                "kind": np.array(["one", "<b>"])[rng.integers(0, 2, 40)],
                "size": numbers[:, 0],
                "word": [f"word {n}\n" for n in range(40)],
                "inner": {"count": np.arange(40)},
            }
        ),
        "sample": dv.View(image=balls(1)[0], label=3, _rank=0),
        "nothing_finite": dv.View(np.full(3, np.nan)),
    }


@pytest.fixture(scope="module")
def shown():
    return {name: view._show() for name, view in cases().items()}


def files_of(name, gallery):
    return {f"{name}.txt": f"{gallery!r}\n", f"{name}.html": f"{gallery._repr_html_()}\n"}


def test_every_case_has_its_files(shown):
    files = [files_of(name, gallery) for name, gallery in shown.items()]
    check_files("gallery", {name: text for two in files for name, text in two.items()})


@pytest.mark.parametrize("name", cases_of("gallery"))
def test_a_gallery_is_shown_as_in_its_files(name, shown):
    for file, text in files_of(name, shown[name]).items():
        check_text("gallery", file, text)


def test_pages_are_well_formed_and_harmless(shown):
    for gallery in shown.values():
        page = gallery._repr_html_()
        assert "<script" not in page and "<b>" not in page
        for drawing in re.findall("<svg.*?</svg>", page):
            ET.fromstring(drawing)


@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("axes", [("b", 0, "c"), ("b", "c", 0)])
def test_signals_are_drawn_as_their_space_says(axes, is_flat):
    space = dv.spaces.Conv1DSpace(20, 2, axes=axes)
    wanted = np.random.default_rng(3).random((3, 20, 2))
    rows = space.in_default_order.np_format_as(wanted, space)
    rows = np.ascontiguousarray(rows).reshape(3, 40) if is_flat else rows
    (look,) = dv.View(a=rows, _spaces={"a": space}).a._show().looks
    assert look.kind == "curves"
    np.testing.assert_array_equal(look.rows, wanted[:, :, 0])


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        (dv.View(np.zeros((3, 28, 28), "u1")), "images"),
        (dv.View(np.zeros((3, 32, 32, 3))), "images"),
        (dv.View(np.zeros((3, 1, 28, 28), "f4")), "images"),
        (dv.View(np.zeros((3, 8, 8))), "images"),
        (dv.View(np.zeros((3, 50, 6))), "numbers"),
        (dv.View(a=np.zeros((3, 9)), _spaces={"a": dv.spaces.Conv2DSpace((3, 3), 1)}).a, "images"),
        (
            dv.View(a=np.zeros((3, 50, 2)), _spaces={"a": dv.spaces.Conv1DSpace(50, 2)}).a,
            "curves",
        ),
        (dv.View(np.zeros((3, 50))), "curves"),
        (dv.View(np.zeros((3, 2))), "points"),
        (dv.View(np.zeros((3, 5))), "numbers"),
        (dv.View(np.zeros(30, int)), "counts"),
        (dv.View(np.arange(300)), "numbers"),
        (dv.View([True, False]), "counts"),
        (dv.View(["a", "a", "b", "b"]), "counts"),
        (dv.View([f"{n}" for n in range(100)]), "words"),
        (dv.View(np.array([None, [1], 2], object)), "words"),
        (dv.View(np.array(["2020-01-01", "NaT", "2020-02-01"], "M8[D]")), "numbers"),
        (dv.View(np.array(["NaT"], "M8[D]")), "numbers"),
        (dv.ragged([[1, 2], [3]]), "words"),
    ],
)
def test_each_field_is_drawn_as_it_is(view, kind):
    (look,) = view._show().looks
    assert look.kind == kind
    assert view._show()._repr_html_()
    assert repr(view._show())


def test_images_of_several_sizes_are_drawn():
    rows = [np.full((12 + n, 20 - n, 3), 40 * n, "u1") for n in range(4)]
    view = dv.ragged(rows)
    (look,) = view._show().looks
    assert look.kind == "images"
    assert all(np.array_equal(one, row) for one, row in zip(look.rows, rows, strict=True))
    assert view._show()._repr_html_().count("<img") == 4
    assert view._head(3)._repr_html_().count("<img") == 3
    assert (
        view._show().__repr__().count("\n") == 2 + 6 + 1
    )  # the height of the last of three, and what says that it is not all
    assert dv.ragged([rows[0], rows[1][:, :3]])._show().looks[0].kind == "words"


def test_one_picture_of_rows_is_drawn_as_an_image():
    grey = np.arange(3 * 160.0).reshape(3, 16, 10)
    d = dv.View(grey=grey)
    for one, expected in [(d.grey[1], grey[1]), (d.grey._mean(0) / 2, grey.mean(0) / 2)]:
        assert [look.kind for look in one._show().looks] == ["images"]
        assert np.array_equal(one._show().looks[0].rows, expected[None, ..., None])
    assert d.grey[:, 2]._show().looks[0].kind == "numbers"
    sizes = dv.View(np.arange(9, 12))._map(lambda n: np.ones((int(n()), 20 - int(n()))))._probe()
    (look,) = sizes[1]._show().looks
    assert (look.kind, look.rows.shape) == ("images", (1, 10, 10, 1))
    undeclared = dv.View(np.arange(9, 12))._map(lambda n: np.ones(int(n())))
    assert undeclared[1]._show().looks[0].rows.shape == (10,)


def test_grey_levels_are_seen_where_bytes_are_few():
    few = np.zeros((2, 8, 8), "u1")
    few[1, :4] = 16
    assert pixels_of(few[1][..., None], 8).max() == 255
    assert pixels_of(few[0][..., None], 8).max() == 0
    assert pixels_of(np.full((8, 8, 3), 16, "u1"), 8).max() == 16
    assert pixels_of(np.full((8, 8, 1), 100, "u1"), 8).max() == 100


def test_the_parts_of_a_range_are_those_of_numpy():
    ascending = np.arange(11) / 10
    v = dv.View(ascending)
    assert "0.0 ▅▅█▁▅█▅▁▅█ 1.0" in str(v._show())
    assert "▅▅█▁▅█▅▁▅█" in str(v._describe())
    assert np.histogram(ascending, 10)[0].tolist() == [1, 1, 2, 0, 1, 2, 1, 0, 1, 2]


@pytest.mark.parametrize("rows", [np.full((8, 8, 8), 200, np.uint8), np.ones((20, 40))])
def test_what_is_cut_off_is_marked(rows):
    *_, last = str(dv.View(rows)._show(len(rows))).splitlines()
    assert last.strip() == "…"
    *_, last = str(dv.View(rows[:2])._show(2)).splitlines()
    assert last.strip() != "…"


def test_a_range_that_is_no_number_has_no_histogram():
    shown = dv.View([-1e308, 0.0, 1e308])._show()
    assert "-1e+308 … 1e+308" in str(shown)
    assert "1e+308" in shown._repr_html_()


def test_a_field_is_named():
    d = dv.View(age=[1.5, 2, 4])
    assert "age: numbers" in repr(d.age._show())
    assert "<summary>age: numbers" in d.age._show()._repr_html_()


def test_dates_are_drawn_along_their_range():
    days = np.array(["2020-01-01", "NaT", "2020-03-01"], "M8[D]")
    assert repr(dv.View(days)._show()).endswith("2020-01-01 █▁▁▁▁▁▁▁▁█ 2020-03-01")


def test_one_image_is_drawn_whole():
    space = dv.spaces.Conv2DSpace((12, 10), 1)
    d = dv.View(
        flat=np.arange(480.0).reshape(4, 120), kind=["a", "b", "a", "b"], _spaces={"flat": space}
    )
    colours = np.arange(4 * 300, dtype="u1").reshape(4, 10, 10, 3)
    mean = d.flat._mean(axis=0)
    of_groups = d._group(by="kind")._mean().flat
    for one, expected in [
        (d.flat[1], d.flat()[1].reshape(1, 12, 10, 1)),
        (mean, mean().reshape(1, 12, 10, 1)),
        (mean - 3, mean().reshape(1, 12, 10, 1) - 3),
        (of_groups, of_groups().reshape(2, 12, 10, 1)),
        (dv.View(colours)[2], colours[2:3]),
        (dv.View(a=np.zeros((2, 12, 10)), _spaces={"a": space}).a[0], np.zeros((1, 12, 10, 1))),
    ]:
        (look,) = one._show().looks
        assert look.kind == "images"
        assert np.array_equal(look.rows, expected)
    assert repr(mean._show()).startswith("one sample")
    assert dv.View(np.zeros((120, 10)))._show().looks[0].kind == "numbers"


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_images_with_numbers_that_are_not_finite_are_drawn_without_a_warning(odd):
    images = np.linspace(2, 3, 200).reshape(2, 10, 10)
    images[0, 0, 0] = images[1] = odd
    gallery = dv.View(images)._show()
    assert gallery.looks[0].kind == "images"
    assert gallery._repr_html_().count("<img") == 2
    assert "data: images" in repr(gallery)


def test_only_the_rows_that_are_shown_are_read():
    rows = Rows(50)
    gallery = rows.view._show(4)
    assert rows.counts() == [1] * 4 + [0] * 46
    repr(gallery), gallery._repr_html_()
    assert rows.counts() == [0] * 50
    wide = dv.View(lambda n: np.zeros(1 << 22), _length=1000)._probe()
    assert len(wide._show().looks[0].rows) == 2
    stream = dv.View(lambda: iter([{"a": 1}, {"a": 2}]))
    assert stream._show(1).looks[0].rows.tolist() == [1]


@pytest.mark.clients
def test_matplotlib_draws_the_same():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = cases()
    axes = found["columns"]._plot()
    assert [ax.get_title() for ax in axes] == ["kind", "size", "word", "inner.count"]
    assert axes[0].patches[0].get_height() >= 20
    assert sum(bar.get_height() for bar in axes[1].patches) == 40
    assert found["images"].image._plot().images[0].get_array().shape == (28, 140)
    assert found["images"].image._plot().get_title() == "image"
    assert {ax.get_position().y0 for ax in axes[:3]} == {axes[0].get_position().y0}
    ragged = dv.ragged([[1.0, 2], [2, 3, 4]])
    assert sum(bar.get_height() for bar in ragged._plot().patches) == 5
    sizes = dv.ragged([np.full((9 + n, 12 - n, 3), 200, "u1") for n in range(3)])
    assert sizes._plot().images[0].get_array().shape == (11, 36, 3)
    days = np.array(["2020-01-01", "NaT", "2020-03-01"], "M8[D]")
    assert sum(bar.get_height() for bar in dv.View(days)._plot().patches) == 2
    words = dv.View([f"a long word {n}" for n in range(90)])._plot()
    assert len(words.patches) == 10 and words.yaxis_inverted()
    assert len(found["curves"]._plot().lines) == 2
    _, ax = plt.subplots()
    assert found["points"]._plot(ax=ax) is ax
    assert len(ax.collections[0].get_offsets()) == 40
    with pytest.raises(ValueError, match="ax= is for one field; the view has 2"):
        found["images"]._plot(ax=ax)
    with pytest.raises(ValueError, match="nothing to plot"):
        dv.View(np.zeros(0))._plot()
    plt.close("all")


@pytest.mark.clients
def test_matplotlib_draws_numbers_that_floats_can_hardly_tell_apart():
    import matplotlib as mpl

    mpl.use("Agg")
    ids = np.arange(30) + 2**60
    near = np.array([1.0, np.nan, np.nextafter(1, 2)])
    for rows, least in ((ids, "1152921504606846976 +"), (near, "1.0 +")):
        axes = dv.View(rows)._plot()
        assert axes.get_xlabel() == least
        assert sum(bar.get_height() for bar in axes.patches) == np.isfinite(rows).sum()
