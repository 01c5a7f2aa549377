"""How far long work is: bars on terminals and in notebooks, functions that are told, Ctrl-C."""

import os
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import nbclient
import nbformat
import numpy as np
import pytest

import dataview as dv
import progress_child
from children import python
from dataview.index import gather
from dataview.index import progress as room
from dataview.sources import Source
from terminals import on_terminal

CHILD = pathlib.Path(progress_child.__file__)
BARS = [
    "statistics", "computing", "describing", "quantiles", "values", "groups", "writing", "saving",
    "reading", "parsing", "products",
]  # fmt: skip
WITHOUT_TQDM = (
    "import runpy, sys; sys.modules['tqdm'] = None; "
    f"runpy.run_path({str(CHILD)!r}, run_name='__main__')"
)
X = progress_child.X


def shown(output, names):
    """What was shown by each of some works that were run one after the other."""
    parts = {}
    for name in names:
        parts[name], output = output.split(f"<{name}>", 1)
    return parts


@pytest.fixture(autouse=True)
def by_default(monkeypatch):
    """Bars are shown as for users; the other tests show none, however long they take."""
    monkeypatch.delenv("DATAVIEW_PROGRESS")


@pytest.fixture
def pieces():
    """Work is cut into many pieces, and its bars come at once."""
    kept = room.PATIENCE, room.FIRST_LOOK, room.PAUSE
    with progress_child.at_once():
        yield
    room.PATIENCE, room.FIRST_LOOK, room.PAUSE = kept


# -------------------- bars --------------------


@pytest.mark.parametrize("program", [[CHILD], ["-c", WITHOUT_TQDM]], ids=["tqdm", "plain"])
def test_a_terminal_shows_a_bar_of_each_long_work_and_takes_it_away(program, tmp_path):
    output = on_terminal(*program, *BARS, cwd=tmp_path)
    for name, text in shown(output, BARS).items():
        name = "reading" if name == "parsing" else name
        assert f"{name}: " in text and "100%" in text, name
        assert ("#" in text) == (program[0] == "-c")
        assert text.rstrip("\r\n").rpartition("\r")[2].strip() == ""


def test_nothing_is_shown_in_pipes_or_where_that_is_chosen(tmp_path):
    names = [*BARS, "nothing"]
    piped = python(CHILD, *names, cwd=tmp_path)
    assert (piped.returncode, piped.stdout) == (0, "")
    assert piped.stderr.split() == [f"<{name}>" for name in names]
    output = on_terminal(CHILD, *BARS, cwd=tmp_path, DATAVIEW_PROGRESS="0")
    assert output.split() == [f"<{name}>" for name in BARS]
    assert on_terminal(CHILD, "nothing", cwd=tmp_path).split() == ["<nothing>"]


def test_bars_in_pipes_can_be_chosen(tmp_path):
    piped = python(CHILD, "chosen", cwd=tmp_path, DATAVIEW_PROGRESS="0")
    assert "statistics: 100%" in piped.stderr
    piped = python(CHILD, "saving", "nothing", cwd=tmp_path, DATAVIEW_PROGRESS="1")
    parts = shown(piped.stderr, ["saving", "nothing"])
    assert "saving: 100%" in parts["saving"]
    assert parts["nothing"].strip() == ""


def test_the_variable_is_checked(monkeypatch, pieces):
    monkeypatch.setenv("DATAVIEW_PROGRESS", "yes")
    with pytest.raises(ValueError, match="DATAVIEW_PROGRESS is 0 or 1; got 'yes'"):
        progress_child.statistics()


def test_an_epoch_has_one_bar(tmp_path):
    output = on_terminal(CHILD, "epoch", cwd=tmp_path)
    assert "10/10" in output and "computing" not in output


@pytest.mark.parametrize("tqdm", ["", "import sys; sys.modules['tqdm'] = None\n"])
def test_a_notebook_shows_bars(tmp_path, monkeypatch, tqdm):
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    start = f"{tqdm}import sys; sys.path.insert(0, {str(CHILD.parent)!r})\nimport progress_child"
    work = "with progress_child.at_once(): progress_child.{}()"
    cells = [start, work.format("statistics"), work.format("nothing")]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cleanup_kc=True)
    _, bar, nothing = (str(cell.outputs) for cell in notebook.cells)
    assert "statistics: " in bar
    assert nothing == "[]"


def test_one_bar_is_shown_at_a_time(monkeypatch, pieces):
    bars = []

    class Bar:
        def __init__(self, total, **options):
            self.total, self.n, self.is_open = total, 0, True
            bars.append(self)
            assert sum(bar.is_open for bar in bars) == 1

        def update(self, count):
            self.n += count

        def refresh(self):
            assert self.is_open

        def close(self):
            self.is_open = False

    monkeypatch.setattr(room, "maker_of_bars", lambda: Bar)
    with dv.progress():
        progress_child.statistics()
        alone = len(bars)
        work = threading.Thread(target=progress_child.nothing)
        dv.View(X)._map(lambda row: dv.View(X)._sum()() + row(), shape=(4,), dtype=float)[:300]()
        work.start()
        work.join()
    assert alone == 1 and len(bars) == 2
    assert all(bar.n == bar.total and not bar.is_open for bar in bars)


def test_short_work_shows_no_bar(monkeypatch, pieces):
    monkeypatch.setattr(room, "PATIENCE", 1e9)
    monkeypatch.setattr(room, "maker_of_bars", lambda: pytest.fail("a bar was made"))
    with dv.progress():
        progress_child.statistics()


def test_plain_bars(capsys):
    bar = room.PlainBar(total=4, unit="batch")
    for _ in range(4):
        bar.update()
    bar.close()
    assert "100%" in capsys.readouterr().err.splitlines()[-1]
    assert room.PlainBar(desc="reading", initial=3, unit="B").line(61) == "reading: 3 B 1:01"
    assert room.PlainBar(total=2).line(1).endswith("| 0:01<?")


# -------------------- functions --------------------


def runs(told):
    """What a function was told, divided where another work begins."""
    found = []
    for done, total in told:
        if not found or done <= found[-1][-1][0] or total != found[-1][-1][1]:
            found.append([])
        found[-1].append((done, total))
    return found


@pytest.mark.parametrize("name", BARS)
def test_a_function_is_told_of_each_work(name, pieces, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []
    with dv.progress(lambda *counts: told.append((threading.get_ident(), *counts))):
        getattr(progress_child, name)()
    assert {thread for thread, *_ in told} == {threading.get_ident()}
    works = runs([counts for _, *counts in told])
    assert works
    assert all(work[-1][0] == work[-1][1] for work in works)


def test_a_statistic_that_all_pieces_need_is_told_of_before_them(pieces, tmp_path):
    told = []
    x = dv.View(X)
    with dv.progress(lambda *counts: told.append(counts)):
        (x - x._mean(axis=0))._save(tmp_path / "centred.npy")
    assert [work[-1] for work in runs(told)] == [(79, 79), (X.nbytes, X.nbytes)]


def test_the_choice_holds_in_its_context(pieces):
    told = []
    with dv.progress(lambda *counts: told.append(counts)):
        progress_child.nothing()
        assert told == []
        progress_child.statistics()
        count = len(told)
        for batch in dv.View(X)._loader(5000, workers=1):
            batch()
    assert len(told) == count == 79
    progress_child.statistics()
    assert len(told) == count


def test_what_is_no_choice_is_refused(pieces):
    with (
        pytest.raises(TypeError, match=r"progress\(\) takes True, False or a function of"),
        dv.progress("bar"),
    ):
        pass


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("dv.progress(False)", "os.environ['DATAVIEW_PROGRESS'] = '0'"),
        ("dv.progress()", "os.environ['DATAVIEW_PROGRESS'] = '1'"),
        ("dv.progress(print)", "write 'with dv.progress(print):"),
        ("dv.engine('numpy')", "DATAVIEW_ENGINE=numpy"),
        ("dv.executor(pool)", "write 'with dv.executor(pool):"),
    ],
)
def test_a_choice_without_with_has_no_effect_and_says_so(typed, wanted):
    with ThreadPoolExecutor(1) as pool:
        names = {"dv": dv, "pool": pool}
        with pytest.warns(RuntimeWarning, match="no effect without 'with'") as told:
            exec(typed, names)
        assert wanted in str(told[0].message) and told[0].filename == "<string>"
        with pytest.warns(RuntimeWarning):
            assert wanted in repr(eval(typed, names))


def test_a_choice_holds_in_its_block_and_in_a_function_that_it_decorates(pieces):
    told = []
    chosen = dv.progress(lambda *counts: told.append(counts))

    def both():
        with chosen, dv.progress(False):
            progress_child.statistics()
        assert told == []
        with chosen:
            progress_child.statistics()

    both()
    count = len(told)
    assert count > 1
    dv.progress(False)(progress_child.statistics)()
    assert len(told) == count
    chosen(progress_child.statistics)()
    assert len(told) == 2 * count


# -------------------- failures --------------------


@pytest.mark.parametrize("failure", [RuntimeError("enough"), KeyboardInterrupt()])
def test_a_function_that_raises_stops_the_work_and_the_data_are_as_before(
    failure, pieces, tmp_path
):
    def told(done, total):
        if done > total // 2:
            raise failure

    np.save(tmp_path / "x.npy", X)
    memory, file = X.copy(), dv.open(tmp_path / "x.npy", mode="r+")
    with dv.progress(told):
        for view in (dv.View(memory), file):
            with pytest.raises(type(failure)):
                view *= 2
        with pytest.raises(type(failure)):
            dv.View(X)._save(tmp_path / "saved.npy")
        with pytest.raises(type(failure)):
            dv.View(X)._sum()()
    file._close()
    assert np.array_equal(memory, X) and np.array_equal(np.load(tmp_path / "x.npy"), X)
    assert os.listdir(tmp_path) == ["x.npy"]
    assert dv.View(X)._sum()() == X.sum()


def test_ctrl_c_leaves_a_file_as_it_was(tmp_path):
    output = on_terminal(CHILD, "interrupted", cwd=tmp_path, interrupt_at="<ready>")
    assert "as before" in output
    assert os.listdir(tmp_path) == ["y.npy"]


# -------------------- work that cannot be cut --------------------


class Bars:
    """A maker of bars that notes what was shown, in order, and tells when something was."""

    def __init__(self):
        self.shown, self.open, self.seen = [], [], threading.Event()

    def __call__(self, total, desc, **options):
        return Shown(self, total, desc)


class Shown:
    """A bar that writes nothing."""

    def __init__(self, bars, total, desc):
        self.bars, self.total, self.n, self.desc = bars, total, 0, desc
        assert not bars.open
        bars.open.append(self)
        bars.shown.append(desc)

    def update(self, count):
        self.n += count

    def refresh(self):
        self.bars.seen.set()

    def close(self):
        self.bars.open.remove(self)


class Waiting(Source):
    """An array that is read when bars have shown something; it fails if that never happens."""

    def __init__(self, array, bars):
        self.array, self.bars = array, bars
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, index, memo):
        self.bars.seen.clear()
        assert self.bars.seen.wait(60)
        return np.array(gather.read(self.array, index))


LONG = np.arange(1 << 22).astype("f8").reshape(-1, 2)


def passing(bars, sample):
    """Give a sample when bars have shown something."""
    bars.seen.clear()
    assert bars.seen.wait(60)
    return sample


UNCUT = {
    "a read": (["reading"], lambda v, bars: v()),
    "a read of rows": (["reading"], lambda v, bars: v[1:]()),
    "a read of a column": (["reading"], lambda v, bars: v[:, 0]()),
    "a read of rows of a column": (["reading"], lambda v, bars: v[:, 0][1:]()),
    "an order": (
        ["the order of _sorted", "reading"],
        lambda v, bars: dv.View(x=LONG, key=v[:, 0])._sorted("key").x[0](),
    ),
    "a file that is saved": (["saving", "reading"], lambda v, bars: v._save("v.npy")),
    "samples of a function": (
        ["computing"],
        lambda v, bars: dv.View(np.arange(2))._map(
            lambda row: passing(bars, row()), shape=(), dtype=int
        )(),
    ),
    "a stream": (
        ["reading"],
        lambda v, bars: dv.View(LONG[:2])._filter(lambda row: passing(bars, True))(),
    ),
}


@pytest.fixture
def bars(monkeypatch):
    """Bars are noted, those of work that cannot be cut come at the next look."""
    found = Bars()
    monkeypatch.setattr(room, "PATIENCE", 0.0)
    monkeypatch.setattr(room, "FIRST_LOOK", 1e9)
    monkeypatch.setattr(room, "LOOK", 0.01)
    monkeypatch.setattr(room, "maker_of_bars", lambda: found)
    with dv.progress():
        yield found
    assert not found.open and not room._looked_at and not room._shown


@pytest.mark.parametrize("name", UNCUT)
def test_work_that_cannot_be_cut_is_shown_to_go_on(name, bars, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whats, work = UNCUT[name]
    work(dv.View(Waiting(LONG, bars)), bars)
    assert set(bars.shown) & set(whats) and set(bars.shown) <= set(whats)


def test_what_fails_leaves_no_bar(bars):
    source = Waiting(LONG.astype("f4"), bars)
    source.dtype = LONG.dtype
    with pytest.raises(TypeError, match="float32"):
        dv.View(source)()
    assert bars.shown == ["reading"]


def test_a_function_is_not_told_of_what_cannot_be_cut():
    told = []
    with dv.progress(lambda *counts: told.append(counts)):
        dv.View(LONG[:5, 0])._sorted()()
        dv.View(lambda number: number, _length=3)._probe()()
    assert told == []


def test_workers_of_others_show_no_bars(tmp_path):
    code = (
        "import multiprocessing, dataview.index.progress as room\n"
        "def shown(): print(room._by_default())\n"
        "if __name__ == '__main__':\n"
        "    shown()\n"
        "    work = multiprocessing.Process(target=shown)\n"
        "    work.start(); work.join()\n"
    )
    (tmp_path / "shown.py").write_text(code)
    assert on_terminal(tmp_path / "shown.py", cwd=tmp_path).split() == ["True", "False"]
