"""Views in a real JupyterLab, in a browser: what is completed, displayed and drawn on the page.

DATAVIEW_SCREENSHOTS names a folder for pictures of all pages: look at these after a change.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil

import nbformat
import numpy as np
import pytest

import dataview as dv
import lab as labs
from package import ROOT, verbs

pytestmark = pytest.mark.browser

NOTEBOOKS = sorted((ROOT / "doc" / "notebooks").glob("*.ipynb"))

CELLS = [
    """\
import numpy as np
import dataview as dv

rng = np.random.default_rng(0)
across = np.arange(28) - rng.uniform(8, 20, (40, 1))
image = np.exp(-(across[:, :, None] ** 2 + across[:, None] ** 2) / 20)
names = np.array(["cat", "dog <b>"])
d = dv.View(
    image=(255 * image).astype("u1"),
    label=rng.integers(0, 3, 40),
    at={"x": rng.normal(size=40), "y": rng.normal(size=40)},
    name=names[rng.integers(0, 2, 40)],
)
d._set_field("two words", d.label)
d""",
    "(d.at.x - d.at.x._mean()) / d.at.x._std()",
    "d._show()",
    "d._describe()",
    "for batch in d._loader(20, progress=True):\n    pass",
    "d.at",
    "",
]
TREE, FORMULA, SHOW, DESCRIBE, PROGRESS, TABLE = range(6)


def notebook(cells):
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return made


def stored(view):
    """A notebook in which a display is stored, as if somebody else had run it."""
    data = {"text/html": view._repr_html_(), "text/plain": repr(view)}
    output = nbformat.v4.new_output("display_data", data)
    return notebook([nbformat.v4.new_code_cell("", outputs=[output])])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "doc" / "notebooks", folder / "notebooks")
    values = dv.View(x=np.arange(8.0)).x
    made = {
        "scratch": notebook([nbformat.v4.new_code_cell(cell) for cell in CELLS]),
        "formula": stored(values - values._mean()),
        "gallery": stored(values._show()),
    }
    for name, one in made.items():
        nbformat.write(one, folder / "notebooks" / f"{name}.ipynb")
    with labs.serving(folder, folder / "notebooks") as url:
        yield url
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        one = tools.chromium.launch(**labs.CHROMIUM)
        yield one
        one.close()


@contextlib.contextmanager
def page_of(browser, url, name):
    """A page for JupyterLab, which may ask nobody else; drawn into a file if that is wanted."""
    folder = os.environ.get("DATAVIEW_SCREENSHOTS")
    size = {"width": 1100, "height": 4000 if folder else 800}
    one = labs.Lab(browser.new_page(viewport=size), url)
    yield one
    if folder:
        one.page.screenshot(path=pathlib.Path(folder, f"{name}.png"))
    one.close()
    assert one.beyond() == []


@pytest.fixture
def lab(browser, url, request):
    with page_of(browser, url, request.node.name) as one:
        yield one


@pytest.fixture(scope="module")
def scratch(browser, url):
    """A notebook that has run. No test changes what others look at."""
    with page_of(browser, url, "scratch") as one:
        one.open("scratch")
        one.run()
        outputs(one, TABLE).locator(".dataview").wait_for()
        yield one


def outputs(lab, cell):
    return lab.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output")


def drawn(lab):
    """Wait until all images are decoded, and check that there is a picture in each."""
    every = "[...document.querySelectorAll('.dataview img')]"
    lab.page.wait_for_function(f"() => {every}.every(one => one.complete)")
    assert lab.page.evaluate(f"() => {every}.every(one => one.naturalWidth > 1)")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_and_shows_its_views(lab, path):
    cells = nbformat.read(path, as_version=4).cells
    pages = [
        output.data["text/html"]
        for cell in cells
        for output in cell.get("outputs", [])
        if 'class="dataview"' in output.get("data", {}).get("text/html", "")
    ]
    lab.open(path.stem)
    numbers = lab.run()
    assert numbers == [*range(1, 1 + sum(cell.cell_type == "code" for cell in cells))]
    views = lab.page.locator(".jp-OutputArea-output .dataview")
    lab.page.wait_for_function(
        "count => document.querySelectorAll('.dataview').length == count", arg=len(pages)
    )
    assert all(view.is_visible() for view in views.all())
    assert lab.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    drawn(lab)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        lab.theme(theme)
        assert lab.page.evaluate(labs.WEAK) == []


def test_fields_verbs_and_names_are_completed(scratch):
    fields = {"image", "label", "at", "name"}
    assert set(scratch.completions("d.")) == fields
    assert set(scratch.completions("d.at.")) == {"x", "y"}
    assert verbs() <= set(scratch.completions("d._"))
    assert {"_mean", "_median"} <= set(scratch.completions("d.at.x._me"))
    assert {one.strip('"]') for one in scratch.completions('d["')} == {*fields, "two words"}


def test_a_view_is_a_tree_of_fields_with_values_and_thumbnails(scratch):
    tree = outputs(scratch, TREE).locator(".dataview")
    rows = tree.locator("tr")
    names = rows.locator("td:first-child")
    assert names.all_text_contents() == ["image", "label", "at", "x", "y", "name", "two words"]
    edge = """cell => {
        const text = document.createRange();
        text.selectNodeContents(cell);
        return text.getBoundingClientRect().left;
    }"""
    left = [name.evaluate(edge) for name in names.all()]
    assert len({round(left[row]) for row in (0, 1, 2, 5, 6)}) == 1
    assert left[3] == left[4] > left[2] + 10
    assert "'dog <b>'" in rows.nth(5).inner_text()
    images = tree.locator("img")
    drawn(scratch)
    assert images.count() == 6
    assert {image.bounding_box()["height"] for image in images.all()} == {36}
    for state in ("hidden", "visible"):
        tree.locator("summary").click()
        rows.first.wait_for(state=state)


def test_columns_and_numbers_stand_one_under_the_other(scratch):
    right = "cell => getComputedStyle(cell).textAlign"
    for cell in (DESCRIBE, TABLE):
        rows = outputs(scratch, cell).locator("tr")
        for place in (rows.first.locator("th").last, rows.nth(1).locator("td, th").last):
            assert place.evaluate(right) == "right"


def test_formulas_and_rows_are_drawn(scratch):
    formula = outputs(scratch, FORMULA).locator(".dataview")
    assert "= (at.x - mean(at.x)) / std(at.x)" in formula.inner_text()
    assert formula.locator("svg").bounding_box()["height"] > 100
    show = outputs(scratch, SHOW).locator(".dataview")
    drawn(scratch)
    assert {one.bounding_box()["height"] for one in show.locator("img").all()} == {96}
    assert show.locator("svg path").count() > 4
    assert all(one.is_visible() for one in show.locator("svg path").all())
    assert not show.locator(".plain").is_visible()


def test_a_loop_over_batches_has_a_bar(scratch):
    bar = outputs(scratch, PROGRESS)
    assert "100%" in bar.inner_text() and "2/2" in bar.inner_text()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_everything_can_be_read_in_each_theme(scratch, theme):
    scratch.theme(theme)
    assert scratch.page.evaluate(labs.WEAK) == []
    faint = scratch.page.add_style_tag(content=".dataview th{opacity:.3!important}")
    assert scratch.page.evaluate(labs.WEAK)
    faint.evaluate("one => one.remove()")


def test_a_display_that_is_not_trusted_has_words_for_its_drawings(lab):
    lab.open("formula")
    assert lab.page.locator(".dataview").inner_text().endswith("- mean(x)")
    lab.open("gallery")
    assert "0.0 ███▁██▁███ 7.0" in lab.page.locator(".dataview").inner_text()
