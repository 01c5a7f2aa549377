"""Files as other libraries write them, each a function of the folder that it is written to."""

import contextlib
import gzip
import importlib
import io
import json
import pickle
import sqlite3
import tarfile
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
import scipy.io
import scipy.sparse
import soundfile
import zarr
from PIL import Image

X = np.arange(40.0).reshape(10, 4)
Y = np.arange(10) * 3


# -------------------- NumPy and SciPy --------------------


def npy(folder):
    np.save(folder / "a.npy", X)
    return folder / "a.npy"


def npy_table(folder):
    np.save(
        folder / "table.npy", np.array([(1, 2.5, b"ab")], [("a", "i4"), ("b", "f8"), ("c", "S3")])
    )
    return folder / "table.npy"


def npy_folder(folder):
    path = folder / "arrays"
    (path / "part").mkdir(parents=True)
    np.save(path / "x.npy", X)
    np.save(path / "part" / "y.npy", Y)
    return path


def npz(folder):
    np.savez(folder / "a.npz", x=X, y=Y, name="some")
    return folder / "a.npz"


def npz_packed(folder):
    np.savez_compressed(folder / "packed.npz", **{"x": X, "part/y": Y})
    return folder / "packed.npz"


def npz_sparse(folder):
    scipy.sparse.save_npz(folder / "sparse.npz", scipy.sparse.eye(3, format="csr"))
    return folder / "sparse.npz"


# -------------------- text --------------------


def text_lines(folder):
    (folder / "a.txt").write_text("a line\n\nand anöther one\r\n" * 20, "utf-8")
    return folder / "a.txt"


def text_lines_packed(folder):
    (folder / "a.txt.gz").write_bytes(gzip.compress(text_lines(folder).read_bytes(), mtime=0))
    return folder / "a.txt.gz"


def json_lines(folder):
    rows = [
        {"n": 1, "y": "z", "of": {"name": "é", "at": [1, 2]}, "good": True, "list": [1, 2.5]},
        {"n": 2, "y": None, "of": {"name": "b", "at": []}, "good": False, "list": []},
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows * 10)
    (folder / "a.jsonl").write_text(text, "utf-8")
    return folder / "a.jsonl"


def json_lines_packed(folder):
    path = folder / "a.ndjson.gz"
    path.write_bytes(gzip.compress(json_lines(folder).read_bytes(), mtime=0))
    return path


def json_array(folder):
    rows = [{"n": n, "at": [n, 0.5], "text": "é" * n, "none": None} for n in range(10)]
    (folder / "a.json").write_text(json.dumps(rows), "utf-8")
    return folder / "a.json"


def json_array_packed(folder):
    path = folder / "a.json.gz"
    path.write_bytes(gzip.compress(json_array(folder).read_bytes()))
    return path


def csv(folder):
    path = folder / "a.csv"
    rows = '"a ""b"", c",1.5,3,2020-01-01\n"two\nlines",NA,-4,2021-02-03\n'
    path.write_text("name,x,n,day\n" + rows * 3)
    return path


def csv_of_excel(folder):
    path = folder / "excel.csv"
    path.write_bytes("Größe;Ort\r\n1,5;Köln\r\n2,5;\r\n".encode("utf-16"))
    return path


def csv_packed(folder):
    path = folder / "a.csv.gz"
    path.write_bytes(gzip.compress(csv(folder).read_bytes() + b"d,1,1,2020-02-02\n" * 99))
    return path


def sqlite_table(folder):
    with contextlib.closing(sqlite3.connect(folder / "a.db")) as connection:
        connection.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, y TEXT, z REAL, raw BLOB)")
        rows = [(5 * n, None if n % 2 else f"é{n}", n / 2, bytes(n)) for n in range(100)]
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    return folder / "a.db"


def sqlite_keyed(folder):
    with contextlib.closing(sqlite3.connect(folder / "b.sqlite3")) as connection:
        connection.execute("CREATE TABLE pairs (a TEXT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID")
        rows = [("p", 3), ("p", 1), ("o", 2)]
        connection.executemany("INSERT INTO pairs VALUES (?, ?)", rows)
        connection.commit()
    return folder / "b.sqlite3"


# -------------------- archives --------------------


def _samples():
    for number in range(5):
        yield f"part/{number}.cls", str(number).encode()
        yield f"part/{number}.json", json.dumps({"n": number, "at": [number, 0.5]}).encode()
        yield f"part/{number}.bin", bytes([number] * 50)
        array = io.BytesIO()
        np.save(array, X + number)
        yield f"part/{number}.npy", array.getvalue()


def shard_tar(folder):
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, raw in _samples():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return folder / "a.tar"


def shard_zip(folder):
    with zipfile.ZipFile(folder / "shard.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in _samples():
            archive.writestr(name, raw)
    return folder / "shard.zip"


# -------------------- HDF5 --------------------


def hdf5(folder):
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = X
        file.create_dataset("part/y", data=Y, chunks=(4,), compression="gzip", shuffle=True)
        file["part"].attrs["unit"] = "m"
        file["texts"] = ["a", "é", ""]
        rows = file.create_dataset("rows", (3,), h5py.vlen_dtype("f4"))
        rows[0], rows[2] = [1, 2], [3]
    return path


def hdf5_newest(folder):
    path = folder / "newest.hdf5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=X, chunks=(3, 4), maxshape=(None, 4), fletcher32=True)
        file["part/y"] = Y
        file["part/z"] = h5py.SoftLink("/x")
    return path


def pytables(folder):
    """A file in the layout of PyTables: classes and versions are attributes, tables compound."""
    path = folder / "tables.h5"
    with h5py.File(path, "w") as file:
        table = np.array([(1, 2.5, b"ab"), (2, 3.5, b"c")], [("a", "i4"), ("b", "f8"), ("c", "S4")])
        file["group/table"] = table
        file["group/numbers"] = X
        rows = file.create_dataset("group/rows", (2,), h5py.vlen_dtype("i4"))
        rows[0], rows[1] = [1, 2, 3], [4]
        for name, kind in [
            ("/", "GROUP"), ("group", "GROUP"), ("group/table", "TABLE"), ("group/rows", "VLARRAY"),
            ("group/numbers", "EARRAY"),
        ]:  # fmt: skip
            file[name].attrs.update(CLASS=np.bytes_(kind), VERSION=np.bytes_("1.0"), TITLE="")
        for number, name in enumerate("abc"):
            file["group/table"].attrs[f"FIELD_{number}_NAME"] = np.bytes_(name)
        file["group/table"].attrs["NROWS"] = 2
        file.attrs["PYTABLES_FORMAT_VERSION"] = np.bytes_("2.1")
    return path


def pandas_fixed(folder):
    """A frame in the layout of pandas' HDFStore."""
    path = folder / "frame.h5"
    with h5py.File(path, "w") as file:
        file["df/axis0"] = file["df/block0_items"] = np.array([b"a", b"b"])
        file["df/axis1"], file["df/block0_values"] = np.arange(10), X[:, :2]
        file["df"].attrs.update(pandas_type=np.bytes_("frame"), nblocks=1, ndim=2)
    return path


def keras(folder):
    """Weights in the layout of Keras 3: layers by name, their variables by number."""
    path = folder / "model.weights.h5"
    with h5py.File(path, "w") as file:
        for layer, shape in [("dense", (4, 3)), ("dense_1", (3, 2))]:
            file[f"layers/{layer}/vars/0"] = np.ones(shape, "f4")
            file[f"layers/{layer}/vars/1"] = np.zeros(shape[1:], "f4")
            file[f"layers/{layer}"].attrs["name"] = layer
        file["optimizer/vars/0"] = np.int64(7)
        file.create_group("_layer_checkpoint_dependencies")
    return path


def keras_2(folder):
    """Weights in the layout of Keras 2: the names of the weights are attributes and paths."""
    path = folder / "keras2.h5"
    with h5py.File(path, "w") as file:
        file["dense/dense/kernel:0"] = np.ones((4, 3), "f4")
        file["dense/dense/bias:0"] = np.zeros(3, "f4")
        names = [b"dense/kernel:0", b"dense/bias:0"]
        file["dense"].attrs["weight_names"] = np.array(names)
        file.attrs.update(layer_names=np.array([b"dense"]), backend=b"tensorflow")
    return path


def anndata(folder):
    """Cells in the layout of AnnData: a sparse matrix, and a frame whose columns are categories."""
    path = folder / "cells.h5ad"
    with h5py.File(path, "w") as file:
        matrix = scipy.sparse.csr_matrix(np.eye(3, dtype="f4"))
        for name in ("data", "indices", "indptr"):
            file[f"X/{name}"] = getattr(matrix, name)
        file["X"].attrs.update({"encoding-type": "csr_matrix", "shape": [3, 3]})
        file["obs/_index"] = ["c1", "c2", "c3"]
        file["obs/kind/categories"], file["obs/kind/codes"] = ["a", "b"], np.int8([0, 1, 0])
        file["obs"].attrs["column-order"] = np.array(["kind"], object)
    return path


# -------------------- zarr --------------------


def _filled(group, **options):
    group.create_array("x", data=X, chunks=(3, 4), **options)
    group.create_group("part").create_array("y", data=Y)
    group.attrs["title"] = "some"


def zarr_2(folder):
    _filled(zarr.open_group(folder / "two.zarr", mode="w", zarr_format=2))
    return folder / "two.zarr"


def zarr_3(folder):
    _filled(zarr.open_group(folder / "three.zarr", mode="w", zarr_format=3))
    return folder / "three.zarr"


def zarr_array(folder):
    zarr.save_array(folder / "array.zarr", X)
    return folder / "array.zarr"


def zarr_consolidated(folder):
    path = folder / "consolidated.zarr"
    _filled(zarr.open_group(path, mode="w", zarr_format=2))
    zarr.consolidate_metadata(path)
    return path


def zarr_sharded(folder):
    path = folder / "sharded.zarr"
    _filled(zarr.open_group(path, mode="w"), shards=(6, 4))
    return path


def zarr_zip(folder):
    path = folder / "a.zarr.zip"
    with zarr.storage.ZipStore(path, mode="w") as store:
        group = zarr.create_group(store, attributes={"title": "some"})
        group.create_array("x", data=X, chunks=(3, 4))
        group.create_group("part").create_array("y", data=Y)
    return path


# -------------------- tensors --------------------


def tensors(folder):
    path = folder / "a.safetensors"
    arrays = {"layer.0.weight": X.astype("f4"), "layer.0.bias": Y.astype("f2")}
    safetensors.numpy.save_file(arrays, path, {"format": "np"})
    return path


# -------------------- MATLAB --------------------

VARIABLES = {
    "x": X,
    "truth": np.array([[True], [False]]),
    "text": "some text",
    "s": {"a": 3.0, "b": {"c": X}},
    "cell": np.array([1, "x"], object),
}


def tensors_of_torch(folder):
    torch = importlib.import_module("torch")
    torch.save({"w": torch.ones(3, 4), "steps": [1, torch.arange(3)]}, folder / "state.pt")
    return folder / "state.pt"


def matlab_5(folder):
    scipy.io.savemat(folder / "five.mat", VARIABLES)
    return folder / "five.mat"


def matlab_5_packed(folder):
    scipy.io.savemat(folder / "packed.mat", VARIABLES, do_compression=True)
    return folder / "packed.mat"


def matlab_7(folder):
    """A file as MATLAB writes it with -v7.3."""
    path = folder / "seven.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array, kind in [
            ("x", X, "double"),
            ("truth", np.array([[1], [0]], "u1"), "logical"),
            ("text", np.array([[ord(c) for c in "some é"]], "u2"), "char"),
            ("texts", np.array([[97, 98], [99, 100], [101, 102]], "u2"), "char"),
            ("s/a", np.array([[3.0]]), "double"),
            ("s/b/c", X, "double"),
            ("#refs#/a", X, "double"),
        ]:
            file[name] = array.T
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
        for group in ("s", "s/b"):
            file[group].attrs["MATLAB_class"] = np.bytes_("struct")
        file["c"] = np.array([[(1.0, 2.0)], [(3.0, 4.0)]], [("real", "f4"), ("imag", "f4")])
        file["c"].attrs["MATLAB_class"] = np.bytes_("single")
        file["empty"] = np.array([0, 3], "u8")
        file["empty"].attrs["MATLAB_class"] = np.bytes_("double")
        file["empty"].attrs["MATLAB_empty"] = np.uint8(1)
        file["cell"] = np.array([[file["#refs#/a"].ref]], h5py.ref_dtype)
        file["cell"].attrs["MATLAB_class"] = np.bytes_("cell")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
    return path


# -------------------- NetCDF --------------------


def netcdf_3(folder, version=1):
    path = folder / "three.nc"
    with scipy.io.netcdf_file(path, "w", version=version) as file:
        file.createDimension("time", None)
        file.createDimension("place", 4)
        file.title = "some"
        place = file.createVariable("place", "f8", ("place",))
        place[:] = X[0]
        for name, dtype in [("t", "i2"), ("u", "f4")]:
            made = file.createVariable(name, dtype, ("time", "place"))
            made[:] = X.astype(dtype)
            made.units = "K"
        file.variables["t"].scale_factor = 0.5
        file.variables["t"].add_offset = 273.0
        file.variables["t"]._FillValue = np.int16(7)
        flag = file.createVariable("flag", "i1", ("time",))
        flag[:] = np.arange(10)
    return path


def netcdf_3_large(folder):
    return netcdf_3(folder, 2)


def netcdf_4(folder):
    """A file as the library for version 4 writes it."""
    path = folder / "four.nc"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "some"
        file["time"] = np.zeros(10, "f4")
        file["time"].make_scale("This is a netCDF dimension but not a netCDF variable.        10")
        file["place"] = X[0]
        file["place"].make_scale("place")
        for name, dtype in [("t", "i2"), ("u", "f4")]:
            file[name] = X.astype(dtype)
            file[name].attrs["units"] = "K"
            for axis, scale in enumerate(["time", "place"]):
                file[name].dims[axis].attach_scale(file[scale])
        file["t"].attrs["scale_factor"] = np.array([0.5])
        file["t"].attrs["add_offset"] = np.array([273.0])
        file["t"].attrs["_FillValue"] = np.array([7], "i2")
        file["flag"] = np.arange(10, dtype="i1")
        file["flag"].dims[0].attach_scale(file["time"])
    return path


# -------------------- pictures and sounds --------------------


def pictures(folder):
    path = folder / "pictures"
    (path / "label").mkdir(parents=True)
    picture = Image.fromarray((X[:, :, None] * [1, 2, 3]).astype("u1"))
    for name in ("a.png", "b.jpg", "label/c.gif", "label/d.tif"):
        picture.save(path / name)
    return path


def listed(folder):
    """A list of pictures beside it, in a folder."""
    path = folder / "listed"
    path.mkdir()
    for number in range(3):
        Image.fromarray(X.astype("u1")).save(path / f"{number}.png")
    (path / "a.lst").write_text('# path, label\n0.png 0\n"1.png" 1\n2.png 1\n')
    return path


def pickles(folder):
    samples = [(n, {"x": [0.5] * n}, "text", b"bytes", None) for n in range(5)]
    raw = b"".join(pickle.dumps(one, n) for n, one in enumerate(samples))
    (folder / "a.pkl").write_bytes(raw)
    return folder / "a.pkl"


def sounds(folder):
    path = folder / "sounds"
    path.mkdir()
    for name in ("a.wav", "b.flac", "c.ogg"):
        soundfile.write(path / name, X / 40, 8000)
    return path


# -------------------- Arrow --------------------

TABLE = pa.table(
    {
        "x": [1, None, 3],
        "name": ["a", "b", None],
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "rows": [[1.5], [], [2.5, 3.5]],
        "part": [{"y": 1}, None, {"y": 2}],
    }
)


def parquet(folder):
    pq.write_table(TABLE, folder / "a.parquet", row_group_size=2)
    return folder / "a.parquet"


def arrow_file(folder):
    with pa.ipc.new_file(folder / "a.arrow", TABLE.schema) as file:
        file.write_table(TABLE)
    return folder / "a.arrow"


def arrow_stream(folder):
    with pa.ipc.new_stream(folder / "stream.arrow", TABLE.schema) as file:
        file.write_table(TABLE)
    return folder / "stream.arrow"


def feather(folder):
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(folder / "a.feather", TABLE.schema, options=options) as file:
        file.write_table(TABLE)
    return folder / "a.feather"
