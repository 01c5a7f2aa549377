"""The memory that a pass over a file takes, measured in subprocesses with a limit."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import dataview as dv
from children import printed
from dataview.index.sizes import sizes

WIDTH = 64
UNDO_MEGABYTES = sizes.undo_bytes >> 20
"""Up to this size old values are kept in memory, to undo a change that fails."""

PROGRAM = """
import resource, sys
import numpy as np
import dataview as dv

path, growth, begun, work = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
d = dv.open(path, "r+")
exec(begun)


def most_held():
    # Kilobytes held at once so far: getrusage counts those of the parent, too.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
if growth:
    resource.setrlimit(resource.RLIMIT_AS, (used + (growth << 20),) * 2)
before = most_held()
exec(work)
print(most_held() - before >> 10)
"""

BEGUN = "(d[:1000] - d[:1000]._mean(0))(); d[:100_000]._mean(0)()"
"""What is done before memory is measured: the second statement starts the threads."""

WORKS = {
    "centre": "d -= d._mean(axis=0)",
    "standardise": "d /= d._std(axis=0)",
    "describe": "m = [s(axis=0) for s in (d._mean, d._std, d._min, d._max)]; [s() for s in m]",
    "expression": "((d - d._mean(axis=0)) / d._std(axis=0))._sum(axis=0)()",
    "part": "d[1:-1] *= 2",
    "save": "(d * 2)._save(path + '.saved.npy')",
}

WRITTEN = {
    "a number": "d[:] = 7",
    "clipped out": "np.clip(d, 95, 105, out=d)",
    "clipped": "d[:] = np.clip(d, 95, 105)",
    "where": "d[:] = np.where(d > 100, d, d * 2)",
    "a number where": "d[d > 95] = 7",
    "a statistic where": "d[d > 95] = d._mean()",
    "a number where they are equal": "d[d == d] = 7",
    "copied where": "np.copyto(d, 7, where=d > 95)",
    "put where": "np.putmask(d, d > 95, 7)",
    "added where": "np.add(d, 1, out=d, where=d > 95)",
    "divided where, by rows": "np.divide(d, 3, out=d, where=np.arange(len(d))[:, None] % 3 > 0)",
    "others copied where": "np.copyto(d, d * 2, where=d > 95)",
    "others put where": "np.putmask(d, d > 95, d * 2)",
    "some put": "np.put(d, [7, -7], [1, 2])",
    "some placed": "np.place(d, d > 115, 1)",
    "diagonal": "np.fill_diagonal(d, 1)",
    "along an axis": "np.put_along_axis(d, np.zeros((len(d), 1), int), 5, 1)",
    "added at": "np.add.at(d, [5, 5, -1], 1)",
    "product out": "np.matmul(d, np.ones((64, 64), 'f4'), out=d)",
    "product in place": "d @= np.ones((64, 64), 'f4')",
    "product": "d[:] = d @ np.ones((64, 64), 'f4')",
    "written": "d._write(d * 2 + 1)",
    "filled": "np.nan_to_num(d, copy=False, nan=d._mean())",
    "another file": "d[:] = dv.open(path)",
    "every other row": "d[::2] = d[1::2]",
    "rows before": "d[1:] = d[:-1]",
    "rows further on": "d[:-1] = d[1:]",
    "other columns": "d[:, :32] *= d[:, 32:]",
    "reversed": "d[:] = d[::-1]",
    "shuffled": "d._shuffled(1)[:] = 0",
}
"""Ways to write, none of which holds the value in memory, or the old values of so large a file."""


DESCRIBED = {
    "one field": "d._describe()",
    "many windows": "dv.View(d, **{f'x{n}': n for n in range(64)})._describe()",
}


def file_of(folder, megabytes):
    path = folder / "data.npy"
    rows = (megabytes << 20) // (4 * WIDTH)
    block = np.random.default_rng(3).normal(100, 2, (4096, WIDTH)).astype("f4")
    data = np.lib.format.open_memmap(path, "w+", "f4", (rows, WIDTH))
    for start in range(0, rows, len(block)):
        data[start : start + len(block)] = block
    return path


def peak(path, growth, work, program=PROGRAM, begun=BEGUN):
    """Run the work on a file in a process that may grow so many megabytes; give what it grew."""
    return int(printed("-c", program, path, growth, begun, work))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return file_of(tmp_path_factory.mktemp("memory"), UNDO_MEGABYTES + 32)


@pytest.mark.parametrize("work", WORKS)
def test_a_pass_over_a_file_takes_little_memory(work, path):
    assert peak(path, 64, WORKS[work]) < 64


@pytest.mark.parametrize("work", WRITTEN)
def test_a_write_takes_little_memory(work, path):
    program = PROGRAM.replace(
        "exec(work)", "with dataview.index.sizes.sizes.set(undo_bytes=0): exec(work)"
    )
    most = 96 if work == "along an axis" else 64  # the values given take some of it themselves
    assert peak(path, 0, WRITTEN[work], "import dataview.index.sizes\n" + program) < most


@pytest.mark.parametrize("work", ["c[...] = c * 2", "c *= 2", "c[::-1] += 1", "c[1::3] = 5.0"])
def test_a_write_to_joined_memory_makes_no_numbers_of_rows(work):
    parts = np.ones((2, 1 << 21))
    c = dv.concat(*parts)
    with sizes.set(undo_bytes=0):
        tracemalloc.start()
        try:
            exec(work, {"c": c})
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < parts.nbytes // 2


@pytest.mark.parametrize(
    "work", ["d[:, 3] *= 2", "d[:, 3]._mean()()", "d[::5, :7] += 1", "d[::-1] -= 1"]
)
def test_pages_of_a_map_are_given_back(work, path):
    assert peak(path, 0, work) < 100


SCATTERED = {
    "shuffled rows are written": "d._shuffled(1)[:] = 0",
    "rows by number are written": "d[np.random.default_rng(0).permutation(len(d))] = 1",
    "shuffled rows are summed": "d._shuffled(1)._sum(axis=0)()",
    "columns by number are written": "d[:, [40, 3]] = 7",
}


@pytest.mark.parametrize("work", SCATTERED)
def test_scattered_rows_of_a_file_take_little_memory(work, path):
    assert peak(path, 0, SCATTERED[work]) < 64


@pytest.mark.parametrize(
    "work",
    [
        "d[np.random.default_rng(0).permutation(len(d))] = d * 0",
        "d._shuffled(1)._write(d * 0)",
        "p = np.random.default_rng(0).permutation(len(d)).reshape(-1, 8); d[p] = d[p] * 0",
    ],
)
def test_scattered_rows_of_a_computed_value_are_written_block_by_block(work, tmp_path):
    file = file_of(tmp_path, 96)
    free = "import dataview.index.sizes\ndataview.index.sizes.sizes.undo_bytes = 0\n"
    assert peak(file, 0, work, free + PROGRAM) < 64
    assert not np.load(file, mmap_mode="r").any()


@pytest.mark.parametrize(
    "work",
    [
        "d._shuffled(1)._sum()()",
        "d[np.random.default_rng(0).permutation(len(d))[::3]]._mean()()",
        "c = d[:, 3]; c -= 1",
    ],
)
def test_a_file_is_never_mapped_whole(work, tmp_path):
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "f4", (768 << 12, WIDTH))
    assert peak(tmp_path / "a.npy", 200, work) < 200


@pytest.mark.parametrize("work", DESCRIBED)
def test_a_description_holds_a_sample_of_all_fields_together(work, path):
    assert peak(path, 0, DESCRIBED[work]) < 220


def test_members_of_a_structured_file_share_one_map(tmp_path):
    dtype = [(f"x{n}", "f4") for n in range(16)]
    data = np.lib.format.open_memmap(tmp_path / "s.npy", "w+", dtype, (2_000_000,))
    del data
    work = "[d._field(name)._mean()() for name in d._fields()]"
    begun = "d.x0[:1000](); d.x0[:100_000]._mean()()"
    assert peak(tmp_path / "s.npy", 0, work, begun=begun) < 100


def test_a_file_in_fortran_order_is_changed_in_little_memory(tmp_path):
    data = np.lib.format.open_memmap(tmp_path / "f.npy", "w+", "f4", (1 << 20, 72), True)
    data[:] = 1
    del data
    assert peak(tmp_path / "f.npy", 0, "d -= d._mean(axis=0)") < 100
    assert not np.load(tmp_path / "f.npy", mmap_mode="r").any()


LOADERS = {"alone": (0, "thread"), "threads": (2, "thread"), "processes": (2, "process")}


def check_long_loading(rows, how, most):
    """Assert that a loader holds as much at its end as at its beginning, and leaves nothing."""
    found = json.loads(printed(Path(__file__).with_name("loading_long.py"), rows, *LOADERS[how]))
    tenth = len(found["held"]) // 10
    first, last = np.mean(found["held"][:tenth]), np.mean(found["held"][-tenth:])
    assert last < most * first, found["held"]
    assert found["left"] == []


@pytest.mark.parametrize("how", LOADERS)
def test_a_loader_of_ragged_rows_holds_no_more_as_it_goes_on(how):
    check_long_loading(8000, how, 1.1)


@pytest.mark.soak
@pytest.mark.parametrize("how", LOADERS)
def test_a_million_ragged_rows_are_loaded_in_the_same_memory(how):
    check_long_loading(1_000_000, how, 1.05)


def test_large_samples_that_differ_in_length_are_collected_in_little_memory():
    large = dv.View(lambda n: np.zeros((1000 + n % 2, 1000)), _length=30)._probe()
    assert large._shape() == (30, None, 1000)
    tracemalloc.start()
    assert large._mean()() == 0
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6  # all of them have 240 MB


@pytest.mark.soak
def test_a_file_of_four_gigabytes_takes_little_memory(tmp_path):
    path = file_of(tmp_path, 4096)
    for work in [*WORKS.values(), DESCRIBED["one field"]]:
        assert peak(path, 300, work) < 200


LIMITED = """
import resource
import numpy as np
import dataview as dv

resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))  # an eighth is 128 MB


def raised(rows):
    if rows[-1] == 1:
        raise ValueError("a broken row")
    return rows + 1


for megabytes in 100, 150:
    a, b = np.zeros((2, megabytes << 17), "f8")
    b[-1] = 1
    value = dv.View(b)._map_batches(raised, shape=(), dtype=float, batch_size=1 << 16)
    try:
        dv.View(a)[...] = value
    except ValueError as error:
        print(error, a.any())
    except dv.PartialWriteError as error:
        print(error, a[0])
"""


def test_less_is_kept_to_undo_a_write_where_memory_is_limited():
    first, second = printed("-c", LIMITED).splitlines()
    assert "a broken row" in first and first.endswith("False")
    assert "the old values were more than 128 MB, too many to keep" in second
    assert second.endswith("1.0")
