"""What other libraries share with a view, what stays lazy, and how often they read.

The tables of the pages about libraries say the same. Each test imports its library itself: this
file is imported where none of them is installed.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import dataview as dv
from children import printed
from dataview.index import gather
from dataview.sources import Source

pytestmark = pytest.mark.clients


class Counted(Source):
    """An array that counts how many of its elements are read."""

    def __init__(self, array):
        self.array, self.elements = array, 0
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, index, memo):
        found = np.array(gather.read(self.array, index))
        self.elements += found.size
        return found

    def passes(self):
        return self.elements / self.array.size


def of(name):
    """A module or an object in one, imported when a test needs it."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def plt():
    of("matplotlib").use("agg")
    return of("matplotlib.pyplot")


@pytest.fixture
def figures():
    yield
    plt().close("all")


@pytest.fixture
def a(rng):
    return rng.normal(size=(60, 3))


# ---------------------------------------------------------------- shared memory

SHARED = {
    "NumPy": np.asarray,
    "a DLPack array": np.from_dlpack,
    "torch.as_tensor": lambda v: of("torch").as_tensor(v),
    "_to_torch": lambda v: v._to_torch(),
    "xr.DataArray": lambda v: of("xarray").DataArray(v).values,
    "_to_xarray": lambda v: v._to_xarray().values,
    "pd.DataFrame(copy=False)": lambda v: of("pandas").DataFrame(v, copy=False).to_numpy(),
    "pd.Series": lambda v: of("pandas").Series(v[:, 0]).to_numpy(),
    "sklearn's check": lambda v: of("sklearn.utils:check_array")(v),
}
COPIED = {
    "pd.DataFrame": lambda v: of("pandas").DataFrame(v).to_numpy(),
    "_to_pandas": lambda v: v._to_pandas().to_numpy(),
    "jnp.asarray": lambda v: of("jax.numpy").asarray(v, dtype="float32"),
    "pa.table": lambda v: of("pyarrow").table(dv.View(x=v[:, 0]))["x"].chunk(0).to_numpy(),
    "pl.DataFrame": lambda v: of("polars").DataFrame(dv.View(x=v[:, 0]))["x"].to_numpy(),
    "keras": lambda v: of("keras").ops.convert_to_tensor(v).numpy(),
}


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")


@pytest.mark.parametrize("take", SHARED.values(), ids=SHARED)
def test_memory_is_shared(take, a):
    view = dv.View(a)
    assert np.shares_memory(np.asarray(take(view)), a)
    assert not np.shares_memory(np.asarray(take(view * 2)), a)


@pytest.mark.parametrize("take", COPIED.values(), ids=COPIED)
def test_memory_is_copied(take, a):
    assert not np.shares_memory(np.asarray(take(dv.View(a))), a)


@pytest.mark.parametrize("take", [*SHARED.values(), *COPIED.values()], ids=[*SHARED, *COPIED])
def test_no_library_can_change_what_is_read_only(take, a):
    before = a.copy()
    found = np.asarray(take(dv.View(a)._readonly()))
    if found.flags.writeable:
        found[:] = -1
    assert np.array_equal(a, before)


# ---------------------------------------------------------------- what stays lazy

LAZY = {
    "train_test_split": lambda v: of("sklearn.model_selection:train_test_split")(v)[0],
    "shuffle": lambda v: of("sklearn.utils:shuffle")(v, random_state=0),
    "resample": lambda v: of("sklearn.utils:resample")(v, random_state=0),
    "FunctionTransformer": lambda v: of("sklearn.preprocessing:FunctionTransformer")(
        np.log1p
    ).fit_transform(v * v),
    "scipy.special": lambda v: of("scipy.special:expit")(v),
    "random_split": lambda v: of("torch.utils.data:random_split")(v, [40, 20])[0],
    "Subset": lambda v: of("torch.utils.data:Subset")(v, [3, 1])[1],
    "DataLoader": lambda v: of("torch.utils.data:DataLoader")(v, batch_size=4),
    "_to_dask": lambda v: v._to_dask().sum(),
    "da.from_array": lambda v: of("dask.array").from_array(v, chunks=20) + 1,
    "a reader of a record": lambda v: of("pyarrow").RecordBatchReader.from_stream(dv.View(x=v)),
    "a reader of an array": lambda v: of("pyarrow").RecordBatchReader.from_stream(v),
}


@pytest.mark.parametrize("take", LAZY.values(), ids=LAZY)
def test_nothing_is_read_before_it_is_needed(take, a):
    source = Counted(a)
    take(dv.View(source))
    assert source.passes() == 0


def test_folds_are_views(a):
    folds = of("sklearn.model_selection:KFold")(3)
    source = Counted(a)
    v = dv.View(source)
    parts = [(v[train], v[test]) for train, test in folds.split(v)]
    assert source.passes() == 0
    assert np.array_equal(parts[0][1](), a[:20])
    assert source.passes() == 1 / 3


# ---------------------------------------------------------------- what is read once

ONCE = {
    "hist": lambda v: plt().hist(v),
    "boxplot": lambda v: plt().boxplot(v),
    "violinplot": lambda v: plt().violinplot(v),
    "plot": lambda v: plt().plot(v),
    "imshow": lambda v: plt().imshow(v),
    "pcolormesh": lambda v: plt().pcolormesh(v),
    "contourf": lambda v: plt().contourf(v),
    "fit": lambda v: of("sklearn.decomposition:PCA")(2).fit(v),
    "fit of a scaler": lambda v: of("sklearn.preprocessing:StandardScaler")().fit(v),
    "fit with targets": lambda v: of("sklearn.linear_model:LinearRegression")().fit(v, v[:, 0]()),
    "describe": lambda v: of("scipy.stats:describe")(v),
    "gaussian_filter": lambda v: of("scipy.ndimage:gaussian_filter")(v, 2),
    "fft": lambda v: of("scipy.fft:fft")(v),
    "csr_array": lambda v: of("scipy.sparse:csr_array")(v),
    "torch.as_tensor": lambda v: of("torch").as_tensor(v),
    "jnp.asarray": lambda v: of("jax.numpy").asarray(v),
    "pd.DataFrame": lambda v: of("pandas").DataFrame(v),
    "pd.DataFrame.from_arrow": lambda v: of("pandas").DataFrame.from_arrow(dv.View(x=v)),
    "xr.DataArray": lambda v: of("xarray").DataArray(v),
    "pl.DataFrame": lambda v: of("polars").DataFrame(v),
    "pa.table": lambda v: of("pyarrow").table(dv.View(x=v)),
    "duckdb": lambda d: of("duckdb").sql("select count(*) from d").fetchall(),
    "a dask sum": lambda v: v._to_dask().sum().compute(),
    "an epoch of a DataLoader": lambda v: list(
        of("torch.utils.data:DataLoader")(v, batch_size=7, shuffle=True)
    ),
}


@pytest.mark.parametrize("take", ONCE.values(), ids=ONCE)
def test_each_element_is_read_once(take, a, figures):
    source = Counted(a)
    take(dv.View(source))
    assert source.passes() == 1 + (take is ONCE["fit with targets"]) / 3


NUMBERS = np.arange(60.0)

ARGUMENTS = {
    "step": (1, lambda v: plt().step(NUMBERS, v)),
    "semilogy": (1, lambda v: plt().semilogy(v)),
    "errorbar": (1, lambda v: plt().errorbar(NUMBERS, v)),
    "hist2d": (1, lambda v: plt().hist2d(v, NUMBERS)),
    "stackplot": (1, lambda v: plt().stackplot(NUMBERS, v)),
    "ecdf": (1, lambda v: plt().ecdf(v)),
    "histplot": (2, lambda v: of("seaborn").histplot(v)),
    "scatterplot": (1, lambda v: of("seaborn").scatterplot(x=NUMBERS, y=v)),
    "pie": (1, lambda v: plt().pie(v)),
    "sizes of points": (1, lambda v: plt().scatter(NUMBERS, NUMBERS, s=v)),
    "hexbin": (2, lambda v: plt().hexbin(NUMBERS, v)),
    "quiver": (2, lambda v: plt().quiver(NUMBERS, NUMBERS, v, v)),
    "scatter": (3, lambda v: plt().scatter(NUMBERS, v)),
    "stem": (3, lambda v: plt().stem(v)),
    "vlines": (3, lambda v: plt().vlines(NUMBERS, 0, v)),
    "stairs": (3, lambda v: plt().stairs(v)),
    "fill_between": (3, lambda v: plt().fill_between(NUMBERS, v)),
    "jax, compiled": (4, lambda v: of("jax").jit(lambda x: x + 1)(v)),
    "a gradient of jax": (2, lambda v: of("jax").grad(lambda x: (x**2).sum())(v)),
}
"""How often a function reads an argument at most, as the pages about libraries say."""


@pytest.mark.parametrize(("most", "take"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_argument_is_read_whole_a_few_times(most, take, a, figures):
    of("jax")  # accepts the views that are made after it was imported
    source = Counted(np.abs(a[:, 0]))
    take(dv.View(source))
    assert 1 <= source.passes() <= most


def test_what_jax_has_compiled_reads_its_arguments_once(a):
    jax = of("jax")
    function = jax.jit(lambda x: x + 1)
    function(dv.View(a))
    source = Counted(a)
    function(dv.View(source))
    assert source.passes() == 1


def test_only_the_columns_of_a_frame_are_read(a):
    pd = of("pandas")
    source = Counted(a)
    v = dv.View(source, first=0, rest=np.s_[1:])
    frame = pd.DataFrame({"z": v.first})
    assert source.passes() == 1 / 3
    assert np.array_equal(frame["z"], a[:, 0])


# ---------------------------------------------------------------- records

TABLES = {
    "pd.DataFrame(d())": lambda d: of("pandas").DataFrame(d()),
    "pd.DataFrame.from_arrow": lambda d: of("pandas").DataFrame.from_arrow(d),
    "_to_pandas": lambda d: d._to_pandas(),
    "pl.DataFrame": lambda d: of("polars").DataFrame(d),
    "pl.LazyFrame": lambda d: of("polars").LazyFrame(d).collect(),
    "pa.table": lambda d: of("pyarrow").table(d).to_pandas(),
    "one batch of Arrow": lambda d: (
        of("pyarrow").RecordBatch.from_struct_array(of("pyarrow").array(d)).to_pandas()
    ),
    "duckdb": lambda d: of("duckdb").sql("select * from d").df(),
    "_to_xarray": lambda d: d._to_xarray(),
    "_to_torch": lambda d: d._to_torch(),
    "jax": lambda d: of("jax").device_put(d),
}


@pytest.mark.parametrize("take", TABLES.values(), ids=TABLES)
def test_a_record_is_a_table(take, a):
    of("jax")  # accepts the views that are made after it was imported
    d = dv.View(value=a[:, 0].astype("f4"), label=np.arange(60, dtype="i4"))
    table = take(d)
    assert sorted(getattr(table, "columns", table)) == ["label", "value"]
    for name, part in d._iter_fields():
        assert np.array_equal(np.asarray(table[name]), part())


def test_a_table_is_plotted_by_its_names(a, figures):
    d = dv.View(x=a[:, 0], y=a[:, 1])
    points = plt().scatter("x", "y", data=d)
    assert np.array_equal(points.get_offsets(), a[:, :2])


# ---------------------------------------------------------------- what is larger than memory

STREAMED = """
import re, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as parquet, duckdb
import dataview as dv

def peak():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s*(\\d+)", file.read())[1])

d = dv.View(x=np.broadcast_to(2.0, 50_000_000), k=np.broadcast_to(1, 50_000_000))
start = peak()
if sys.argv[1] == "query":
    assert duckdb.sql("select avg(x), sum(k) from d").fetchall() == [(2.0, 50_000_000)]
else:
    reader = pa.RecordBatchReader.from_stream(d)
    with parquet.ParquetWriter(sys.argv[2], reader.schema) as file:
        for batch in reader:
            file.write_batch(batch)
print("peak", (peak() - start) // 1024)
"""


@pytest.mark.parametrize("how", ["query", "copy"])
def test_arrow_streams_what_is_larger_than_memory(how, tmp_path):
    found = printed("-c", STREAMED, how, tmp_path / "d.parquet", timeout=300)
    assert 0 < int(found.rpartition("peak")[2]) < 400  # megabytes, of 800
