"""`python -m dataview`: its output, the files it writes, its errors."""

from __future__ import annotations

import html.parser
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import dataview as dv
from children import python
from dataview.command import demo, demo_page

WITHOUT_TQDM = (
    "import sys; sys.modules['tqdm'] = None; import dataview.command as command;"
    "sys.exit(command.main(sys.argv[1:]))"
)
NUMBERS = re.compile(r"-?\d+\.\d+")
EMPTY = {"meta", "path"}


def run(*arguments, program=("-m", "dataview"), **environment):
    """Run the command with warnings as errors; return the finished process."""
    return python("-W", "error", *program, *arguments, **environment)


def numbers(output, heading):
    """The numbers of the line that begins with this heading."""
    (line,) = [line for line in output.splitlines() if line.strip().startswith(heading)]
    return [float(number) for number in NUMBERS.findall(line)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demo run once: the process, and the folder that it was given, which it makes."""
    folder = tmp_path_factory.mktemp("demo") / "a new" / "folder"
    process = run("demo", folder)
    assert process.returncode == 0, process.stderr
    return process, folder


class Page(html.parser.HTMLParser):
    """A page whose tags must all be closed, and which must not load anything."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        assert not {"src", "href"} & dict(attributes).keys()
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


# ---------------------------------------------------------------- what it says


def test_the_fields_are_shown(shown):
    process, _ = shown
    for line in ["View (2000, 9) float64", "input   float64  (2000, 8)", "target  float64"]:
        assert line in process.stdout


def test_the_means_are_shown_before_and_after(shown, tmp_path):
    process, _ = shown
    demo.make_table(tmp_path / "raw.npy")
    before = np.load(tmp_path / "raw.npy")[:, : demo.INPUTS].mean(axis=0)
    assert before.min() > 1
    np.testing.assert_allclose(numbers(process.stdout, "mean before"), before, atol=6e-4)
    assert numbers(process.stdout, "mean after") == [0.0] * demo.INPUTS


def test_the_weights_are_learned(shown, tmp_path):
    process, _ = shown
    true = demo.make_table(tmp_path / "raw.npy")
    np.testing.assert_allclose(numbers(process.stdout, "weights, true"), true, atol=6e-4)
    np.testing.assert_allclose(numbers(process.stdout, "weights, learned"), true, atol=0.02)
    target, bias = numbers(process.stdout, "mean target")
    assert abs(target - bias) < 0.02


def test_progress_is_a_bar_with_tqdm_and_lines_without(shown, tmp_path):
    process, folder = shown
    assert "400/400" in process.stderr
    plain = run("demo", tmp_path / "other", program=("-c", WITHOUT_TQDM))
    assert plain.returncode == 0, plain.stderr
    assert "training: 100%|####" in plain.stderr
    assert "400/400" not in plain.stderr
    assert plain.stdout == process.stdout.replace(str(folder), str(tmp_path / "other"))


@pytest.mark.parametrize("arguments", [[], ["-h"]])
def test_help(arguments):
    process = run(*arguments)
    assert (process.returncode, process.stderr) == (0, "")
    assert "usage: python -m dataview" in process.stdout
    assert "demo" in process.stdout


def test_version():
    process = run("--version")
    assert (process.returncode, process.stdout) == (0, f"dataview {dv.__version__}\n")


def test_a_terminal_that_lacks_signs(tmp_path):
    assert run("demo", tmp_path, PYTHONIOENCODING="ascii").returncode == 0


# ---------------------------------------------------------------- what it writes


def test_the_table_is_centred_and_nothing_else_in_it_changes(shown, tmp_path):
    _, folder = shown
    demo.make_table(tmp_path / "raw.npy")
    raw, table = np.load(tmp_path / "raw.npy"), np.load(folder / demo.TABLE)
    inputs = raw[:, : demo.INPUTS]
    np.testing.assert_allclose(table[:, : demo.INPUTS], inputs - inputs.mean(axis=0), atol=1e-12)
    assert np.array_equal(table[:, demo.INPUTS :], raw[:, demo.INPUTS :])


def test_the_page_stands_alone(shown):
    process, folder = shown
    assert {path.name for path in folder.iterdir()} == {demo.TABLE, demo.PAGE}
    assert process.stdout.endswith(f"{folder / demo.PAGE}\n")
    text = (folder / demo.PAGE).read_text(encoding="utf-8")
    page = Page(text)
    assert {"svg", "polyline", "table"} < set(page.seen)
    assert page.seen.count("figure") == demo.INPUTS
    assert not {"script", "link", "img"} & set(page.seen)
    assert "url(" not in text
    d = dv.open(folder / demo.TABLE, mode="r+")
    fields = dv.View(d, input=np.s_[: demo.INPUTS], target=np.s_[demo.INPUTS :])
    assert fields._repr_html_() in text


def test_without_a_folder_a_temporary_one_is_made(tmp_path):
    process = run("demo", TMPDIR=str(tmp_path), TEMP=str(tmp_path), TMP=str(tmp_path))
    assert process.returncode == 0, process.stderr
    (folder,) = tmp_path.iterdir()
    assert str(folder / demo.PAGE) in process.stdout


def test_the_page_tells_what_was_done(shown):
    _, folder = shown
    text = (folder / demo.PAGE).read_text(encoding="utf-8")
    table = np.load(folder / demo.TABLE)
    rows = dv.View(
        dv.open(folder / demo.TABLE, "r+"), input=np.s_[: demo.INPUTS], target=np.s_[-1:]
    )
    assert rows._head()._repr_html_() in text
    assert "= input - mean(input, axis=0)" in text and "not taken" in text
    assert f"the noise in the data: {demo.NOISE**2:g}" in text
    plain = re.sub("<[^>]*>", " ", text)
    assert re.search(r"input 0\s+mean [2-9]\.\d\d → 0\.00 ", plain)
    assert re.search(r"the file opened, fields declared +nothing +[\d.]+ ms", plain)
    assert re.search(r"the inputs centred in place +256 kB +[\d.]+ ms", plain)
    assert f"The table has {len(table)} rows of {demo.INPUTS} inputs" in plain


def test_a_curve_of_equal_losses():
    Page(demo_page.loss_curve([1.0, 1.0], 1.0))


def test_columns_of_equal_values():
    page = Page(demo_page.histograms(np.zeros((3, 2)), np.zeros((3, 2))))
    assert page.seen.count("figure") == 2


# ---------------------------------------------------------------- how it fails


def test_an_unknown_command():
    process = run("dmo")
    assert process.returncode == 2
    assert "'dmo' is no command; did you mean 'demo'?" in process.stderr


def test_a_file_where_a_folder_is_asked_for(tmp_path):
    (tmp_path / "file").write_text("kept")
    process = run("demo", tmp_path / "file")
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith("python -m dataview: error: ")
    assert "is a file; the demo writes into a folder" in process.stderr


@pytest.mark.parametrize("name", [demo.TABLE, demo.PAGE])
def test_what_is_there_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("kept")
    process = run("demo", tmp_path)
    assert (process.returncode, process.stdout) == (1, "")
    assert f"{tmp_path / name} is there already" in process.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "kept")]


def test_a_reader_who_leaves_early(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:
        process = subprocess.run(
            [sys.executable, "-m", "dataview", "demo", str(pathlib.Path(tmp_path, "folder"))],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.returncode == 1
    assert "Traceback" not in process.stderr
    assert "BrokenPipe" not in process.stderr
