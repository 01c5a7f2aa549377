"""What is particular to each format of arrays in files: what is read when, what is refused."""

import collections
import errno
import gc
import io
import itertools
import json
import math
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
import safetensors.numpy
import scipy.io
import scipy.sparse
import zarr

import dataview as dv
import files
import fuzz_openers
from children import printed
from dataview.formats import FORMATS, contents
from dataview.formats.arrays import H5pySource, ZarrSource, matlab5, npz
from dataview.formats.arrays import tensors as tensor_files
from dataview.formats.arrays.plain_in_hdf5 import Numbers
from dataview.index.sizes import sizes
from files import X, Y


def npy_bytes(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


# -------------------- npz --------------------


@pytest.fixture(params=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def method(request):
    return request.param


def test_stored_members_are_read_in_place(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", x=X, y=np.asfortranarray(X), table=np.array([(1, 2.5)], "i4,f8"))
    d = dv.open(tmp_path / "a.npz")
    monkeypatch.setattr(npz, "PackedSource", None)
    np.testing.assert_array_equal(d.x[[3, 1], 1:](), X[[3, 1], 1:])
    np.testing.assert_array_equal(d.y[::-3](), X[::-3])
    assert d.table.f1().tolist() == [2.5]


@pytest.mark.parametrize("file_bytes", [100, 1 << 20])
def test_compressed_members_are_unpacked_once(tmp_path, monkeypatch, file_bytes):
    np.savez_compressed(tmp_path / "a.npz", x=X, y=np.asfortranarray(X))
    unpacked = []
    real = npz.PackedSource.loaded
    monkeypatch.setattr(
        npz.PackedSource, "loaded", lambda self: unpacked.append(self.info.filename) or real(self)
    )
    with sizes.set(file_bytes=file_bytes):
        d = dv.open(tmp_path / "a.npz")
        assert unpacked == []
        for _ in range(2):
            np.testing.assert_array_equal(d.x[[3, 1], 1:](), X[[3, 1], 1:])
            np.testing.assert_array_equal(d.y[::-3](), X[::-3])
    assert unpacked == ["x.npy", "y.npy"]
    assert os.listdir(tmp_path) == ["a.npz"]
    d.x()[:] = 0
    np.testing.assert_array_equal(d.x(), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(d.y))(), X)


def test_nothing_stays_of_what_was_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=X)
    before = len(os.listdir("/proc/self/fd"))
    with sizes.set(file_bytes=100):
        d = dv.open(tmp_path / "a.npz")
        d.x()
        assert len(os.listdir("/proc/self/fd")) == before + 1
        del d
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_npz_file_is_not_changed_in_place(tmp_path):
    np.savez(tmp_path / "a.npz", x=X)
    with pytest.raises(ValueError, match=r"a\.npz.* keep the arrays in a folder"):
        dv.open(tmp_path / "a.npz", "r+")
    with pytest.raises(dv.ReadOnlyError):
        dv.open(tmp_path / "a.npz").x[0] = 1


def test_names_of_members_that_cannot_be_nested_stay_as_they_are(tmp_path):
    np.savez(tmp_path / "a.npz", **{"x/y": Y, "x": X, "z/": Y, "../up": Y, "/root": Y})
    d = dv.open(tmp_path / "a.npz")
    assert d._fields() == ("x", "x/y")
    np.testing.assert_array_equal(d._field("x/y")(), Y)
    for name in ("../up", "/root", "z/"):
        with pytest.raises(dv.FieldError, match="leads out of its group"):
            d._field(name)


def test_a_broken_member_leaves_the_others(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as file:
        file.writestr("x.npy", npy_bytes(X))
        file.writestr("cut.npy", npy_bytes(X)[:-8])
        file.writestr("text.txt", "some text")
        file.writestr("no.npy", "no array")
        file.writestr("huge.npy", npy_bytes(X).replace(b"(10, 4), }     ", b"(99999999999, )", 1))
    d = dv.open(tmp_path / "a.npz")
    assert d._fields() == ("x",)
    for name, text in [
        ("cut", r"member 'cut\.npy' of .*a\.npz is cut short"),
        ("text.txt", r"is not an \.npy file"),
        ("no", r"member 'no\.npy' of .*a\.npz is not an \.npy file"),
        ("huge", r"member 'huge\.npy' of .*a\.npz is (cut short|not)"),
    ]:
        with pytest.raises(dv.FieldError, match=text):
            d._field(name)


def test_a_member_that_promises_more_than_it_can_hold_is_refused(tmp_path):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", npy_bytes(np.zeros(1000)))
    size = struct.pack("<I", len(npy_bytes(np.zeros(1000))))
    (tmp_path / "a.npz").write_bytes(raw.getvalue().replace(size, b"\xf0\xff\xff\xff"))
    with pytest.raises(ValueError, match=r"'x\.npy' of .* cannot be unpacked to so many"):
        dv.open(tmp_path / "a.npz")


def test_a_changed_member_is_told(tmp_path, method):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.npy", npy_bytes(X))
    d = dv.open(path)
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.npy", npy_bytes(Y))
    with pytest.raises(ValueError, match=r"a\.npz (has changed since|is broken or changed)"):
        d.x()
    path.write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"a\.npz"):
        d.x()


def test_damaged_data_are_told_where_the_file_tells_them(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(5000))
    raw = bytearray(path.read_bytes())
    raw[20000] ^= 255
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"member 'x\.npy' of .*a\.npz is broken"):
        dv.open(path).x()


# -------------------- pickled objects --------------------


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("run",)


def test_pickles_are_loaded_only_if_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = np.array([{"a": 1}, None, "text"], object)
    bomb = np.array([Bomb()], object)
    np.save("a.npy", bomb, allow_pickle=True)
    np.savez("a.npz", x=bomb, y=Y)
    with pytest.raises(ValueError, match="pickle=True"):
        dv.open("a.npy")
    with pytest.raises(dv.FieldError, match=r"'x' .* pickle=True"):
        dv.open("a.npz").x  # noqa: B018
    assert not os.path.exists("run")
    np.save("a.npy", objects, allow_pickle=True)
    np.savez_compressed("a.npz", x=objects, y=Y)
    assert dv.open("a.npy", pickle=True)().tolist() == objects.tolist()
    assert dv.open("a.npz", pickle=True).x[::2]().tolist() == [{"a": 1}, "text"]
    with pytest.raises(dv.ReadOnlyError):
        dv.open("a.npy", pickle=True)[0] = 1
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open("a.npy", "r+", pickle=True)
    np.save("b.npy", X)
    dv.open("b.npy", "r+", pickle=True)[0, 0] = 7
    assert np.load("b.npy")[0, 0] == 7


# -------------------- a folder --------------------


def test_a_folder_shows_its_arrays_and_nothing_else(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / ".hidden.npy", X)
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "bad.npy").write_bytes(b"no")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "again").symlink_to(tmp_path)
    np.save(tmp_path / "loop" / "y.npy", Y)
    d = dv.open(tmp_path)
    assert d._fields() == ("x", "loop") and d.loop._fields() == ("y",)
    with pytest.raises(dv.FieldError, match=r"'bad' .*bad\.npy is not an \.npy file"):
        d.bad  # noqa: B018
    with pytest.raises(ValueError, match="holds no arrays"):
        dv.open(tmp_path / "empty", format="folder")
    with pytest.raises(NotADirectoryError, match="is no folder"):
        dv.open(tmp_path / "notes.txt", format="folder")


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_links_that_leave_a_folder_of_arrays_are_no_fields(tmp_path, mode):
    given, own = tmp_path / "given", tmp_path / "own"
    for folder in (given / "sub", own / "sub"):
        folder.mkdir(parents=True)
    np.save(given / "x.npy", X)
    np.save(given / "sub" / "y.npy", Y)
    np.save(own / "secret.npy", X)
    np.save(own / "sub" / "z.npy", X)
    (given / "array.npy").symlink_to(own / "secret.npy")
    (given / "folder").symlink_to(own)
    (given / "sub" / "deep.npy").symlink_to("../../own/secret.npy")
    (given / "inside.npy").symlink_to("sub/y.npy")
    (tmp_path / "link").symlink_to(given)
    for path in (given, tmp_path / "link"):
        with dv.open(path, mode) as d:
            assert set(d._fields()) == {"x", "sub", "inside"} and d.sub._fields() == ("y",)
            np.testing.assert_array_equal(d.inside(), Y)
            for view, name in ((d, "array"), (d, "folder"), (d.sub, "deep")):
                with pytest.raises(dv.FieldError, match=f"'{name}' .*own.*, outside of .*own path"):
                    view._field(name)


def test_a_saved_folder_whose_arrays_or_description_are_links_that_leave_it_is_refused(tmp_path):
    dv.View(x=X)._save(tmp_path / "a", "folder")
    (file,) = (tmp_path / "a").glob("*.json")
    for path in ((tmp_path / "a" / "x.npy"), file):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
        with pytest.raises(ValueError, match=rf"{path.name}, outside of"):
            dv.open(tmp_path / "a")


# -------------------- safetensors --------------------


def test_the_header_of_tensors_is_parsed_once_and_kept_as_long_as_views_of_them(
    tmp_path, monkeypatch
):
    arrays = {f"layer {n}": np.zeros(2, "f4") for n in range(3000)}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors")
    size = (tmp_path / "a.safetensors").stat().st_size
    parsed = []
    check = tensor_files._checked
    monkeypatch.setattr(tensor_files, "_checked", lambda *args: parsed.append(1) or check(*args))
    gc.collect()
    tracemalloc.start()
    d = dv.open(tmp_path / "a.safetensors", "r+")
    for n in range(0, 3000, 100):
        d[f"layer {n}"][...] = n  # after which all others see another state of the file
    assert [d[f"layer {n}"][0]() for n in range(0, 3000, 100)] == [*range(0, 3000, 100)]
    assert len(parsed) == 1 and len(pickle.dumps(d["layer 7"])) < 2000
    del d
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < size


def tensors(path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def tensor(dtype="F32", shape=(2,), start=0, stop=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


KINDS = ["?", "c8", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def test_tensors_of_all_types_are_read_in_place(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = {f"layer.{kind}": X.astype(kind) for kind in KINDS} | {"none": np.ones((0, 3))}
    safetensors.numpy.save_file(arrays, path, {"format": "np", "epoch": "3"})
    d = dv.open(path)
    assert set(d._fields()) == set(arrays) and dict(d._meta) == {"format": "np", "epoch": "3"}
    for name, array in arrays.items():
        view = d._field(name)
        assert view.dtype == array.dtype
        np.testing.assert_array_equal(view[::-1](), array[::-1])
    again = pickle.loads(pickle.dumps(d._field("layer.f4")[2:]))
    np.testing.assert_array_equal(again(), X[2:].astype("f4"))


@pytest.mark.parametrize("shift", range(4))
def test_tensors_are_changed_in_place_where_they_lie(tmp_path, shift):
    data = np.arange(400_000, dtype="f4")
    one = tensor(shape=(200_000,), stop=800_000)
    two = tensor(shape=(200_000,), start=800_000, stop=1_600_000)
    header = json.dumps({"a": one, "b": two}).encode()
    header += b" " * (-len(header) % 8 + shift)
    path = tensors(tmp_path / "a.safetensors", header, data.tobytes())
    with dv.open(path, "r+") as d:
        d.a += d.b * 2
        d.b[[5, 3]] = [7, 8]
        d.a[1:] -= d.b[:-1]
    a, b = data[:200_000] + data[200_000:] * 2, data[200_000:].copy()
    b[[5, 3]] = 7, 8
    a[1:] -= b[:-1]
    found = np.frombuffer(path.read_bytes()[8 + len(header) :], "f4")
    np.testing.assert_array_equal(found, np.concatenate([a, b]))


def test_a_type_that_numpy_lacks_is_told(tmp_path, monkeypatch):
    told = {
        "a": tensor("BF16", (4,)),
        "b": tensor("F4", (4,), 8, 10),
        "c": tensor(start=12, stop=20),
    }
    path = tensors(tmp_path / "a.safetensors", told, bytes(20))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    d = dv.open(path)
    assert d._fields() == ("c",)
    with pytest.raises(dv.FieldError, match=r"'a' has the type BF16, .*pip install ml_dtypes"):
        d.a  # noqa: B018
    with pytest.raises(dv.FieldError, match="'b' has the unknown type F4"):
        d.b  # noqa: B018


LYING = {
    "empty": b"",
    "no json": b"no",
    "a list": [],
    "a number": {"a": 3},
    "an unknown key": {"a": tensor() | {"b": 1}},
    "a length below zero": {"a": tensor(shape=(-2,))},
    "a length that is no number": {"a": tensor(shape=("2",))},
    "a length that is true": {"a": tensor(shape=(True,))},
    "three ends": {"a": tensor() | {"data_offsets": [0, 8, 8]}},
    "a huge shape": {"a": tensor(shape=(2**62, 2**62))},
    "a huge shape without elements": {"a": tensor(shape=(0, 2**62), stop=0)},
    "other bytes than its shape": {"a": tensor(shape=(3,))},
    "turned": {"a": tensor(start=8, stop=0)},
    "past the end": {"a": tensor(start=4, stop=12)},
    "shared": {"a": tensor(), "b": tensor(shape=(1,), start=4, stop=8)},
    "twice": b'{"a": 1, "a": 1}',
    "deep": b"[" * 100_000,
    "numbers as metadata": {"__metadata__": {"a": 1}},
    "a list as metadata": {"__metadata__": []},
    "a long number": b'{"a": ' + b"9" * 5000 + b"}",
    "no text": b"\xff\xfe{}",
}


@pytest.mark.parametrize("name", LYING)
def test_a_header_that_lies_is_refused(tmp_path, name):
    path = tensors(tmp_path / "a.safetensors", LYING[name], bytes(8))
    with pytest.raises(ValueError, match=r"a\.safetensors is not a \.safetensors file: "):
        dv.open(path)


@pytest.mark.parametrize("raw", [b"", b"1234567", b"\xff" * 20, struct.pack("<Q", 5) + b"{}"])
def test_what_is_no_file_of_tensors_is_refused(tmp_path, raw):
    (tmp_path / "a.safetensors").write_bytes(raw)
    with pytest.raises(ValueError, match=r"a\.safetensors is not a \.safetensors file: "):
        dv.open(tmp_path / "a.safetensors")


def test_a_file_that_has_changed_is_told(tmp_path):
    path = tensors(tmp_path / "a.safetensors", {"a": tensor()}, bytes(8))
    d = dv.open(path)
    tensors(path, {"a": tensor("I32")}, bytes(8))
    with pytest.raises(ValueError, match="has changed since it was opened: it held float32"):
        d.a()
    tensors(path, {"b": tensor()}, bytes(8))
    with pytest.raises(ValueError, match="there is no tensor 'a'"):
        d.a()


# -------------------- torch --------------------


@pytest.mark.clients
def test_tensors_of_torch_are_fields_and_what_is_beside_them_metadata(tmp_path):
    import torch

    part = torch.arange(6.0)
    found = {
        "epoch": 3,
        "model": {"w": torch.ones(3, 4), "part": part[2:], "half": part.to(torch.bfloat16)},
        "steps": [{"m": torch.zeros(2)}, {"m": torch.ones(2)}],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "turned": (torch.ones(2, dtype=torch.complex64) * 1j).conj(),
        "sparse": torch.eye(3).to_sparse(),
    }
    torch.save(found, tmp_path / "a.pt")
    d = dv.open(tmp_path / "a.pt")
    assert d._fields() == ("model", "steps", "parameter", "turned") and d._meta["epoch"] == 3
    assert d.model.part().tolist() == [2, 3, 4, 5] and d.steps._field("1").m().tolist() == [1, 1]
    assert d.turned().tolist() == [-1j, -1j] and d.parameter().tolist() == [1, 1]
    assert d.model.half().astype("f4").tolist() == part.tolist()
    sent = pickle.dumps(d.model.w[1:])
    assert len(sent) < 2000 and pickle.loads(sent)().tolist() == [[1] * 4] * 2
    with pytest.raises(dv.FieldError, match="'sparse' is no plain tensor"):
        d.sparse  # noqa: B018
    with pytest.raises(dv.ReadOnlyError):
        d.model.w[0] = 2
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(tmp_path / "a.pt", "r+")


@pytest.mark.clients
def test_tensors_of_torch_are_read_from_where_they_lie(tmp_path):
    import torch

    base = torch.arange(24.0).reshape(2, 3, 4)
    made = {
        "turned": base.permute(2, 0, 1), "steps": base[:, ::2, 1:3], "one": torch.tensor(True),
        "none": base[:0], "spread": base[:1].expand(2, 3, 4), "half": base.to(torch.bfloat16).mT,
        "negative": (base * 1j).conj().imag,
    }  # fmt: skip
    torch.save(made, tmp_path / "a.pt")
    d = dv.open(tmp_path / "a.pt")
    for name, tensor in made.items():
        found = d._field(name)()
        assert np.array_equal(found.astype("f8"), tensor.double().numpy()), name
    assert np.array_equal(d.turned[::-2, 0, [1, 0]](), made["turned"].numpy()[::-2, 0, [1, 0]])
    assert "a.pt (r)" in repr(d) and "23" not in repr(d)


@pytest.mark.clients
def test_a_file_of_torch_that_was_written_anew_is_read_anew_or_refused(tmp_path):
    import torch

    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(300, 300), "b": torch.ones(2)}, path)
    d = dv.open(path)
    assert d.w._sum()() == 0
    torch.save({"w": torch.ones(300, 300), "b": torch.ones(2).int()}, path)
    assert (d.w[5:7]() == 1).all()
    with pytest.raises(ValueError, match=r"a\.pt has changed since it was opened: it held"):
        d.b()
    torch.save({"w": torch.ones(3, 3)}, path)
    for view in (d.w, d.b):
        with pytest.raises(ValueError, match=r"a\.pt has changed since it was opened"):
            view()


@pytest.mark.clients
@pytest.mark.parametrize("way", ["as it is", "packed", "old"])
def test_files_of_torch_are_closed(way, tmp_path):
    import torch

    path, made = tmp_path / "a.pt", {"x": torch.arange(6.0).reshape(2, 3)}
    torch.save(made, path, _use_new_zipfile_serialization=way != "old")
    if way == "packed":
        with zipfile.ZipFile(path) as found:
            members = {name: found.read(name) for name in found.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, raw in members.items():
                packed.writestr(name, raw)
    with dv.open(path) as d:
        again = pickle.loads(pickle.dumps(d.x))
        assert d.x().tolist() == again().tolist() == [[0, 1, 2], [3, 4, 5]]
        x = d.x[1:]
    with pytest.raises(ValueError, match=r"a\.pt was closed"):
        x()


@pytest.mark.clients
def test_what_may_run_code_is_never_loaded_by_torch(tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"x": torch.ones(3), "bomb": Bomb()}, "a.pt")
    with pytest.raises(ValueError, match=r"a\.pt holds more than tensors"):
        dv.open("a.pt")
    assert not os.path.exists("run")
    for raw in (b"", b"no", b"PK\3\4aaa"):
        (tmp_path / "b.pt").write_bytes(raw)
        with pytest.raises(ValueError, match=r"b\.pt holds more than tensors, or is broken"):
            dv.open("b.pt")


@pytest.mark.clients
def test_types_that_ml_dtypes_brings_are_read_and_changed(tmp_path):
    import safetensors.torch
    import torch

    made = {"a": torch.arange(5).to(torch.bfloat16), "b": torch.ones(4).to(torch.float8_e4m3fn)}
    safetensors.torch.save_file(made, tmp_path / "a.safetensors")
    with dv.open(tmp_path / "a.safetensors", "r+") as d:
        assert d.a().astype("f4").tolist() == [0, 1, 2, 3, 4]
        ones = dv.View(np.ones(3000, d.a._dtype()))  # whose sum stops at 256 in so few bits
        assert ones._mean()() == 1 and ones._std(axis=0)() == 0 and ones._sum()() == 3008
        d.a[1:3] = 7
    found = safetensors.torch.load_file(tmp_path / "a.safetensors")
    assert found["a"].tolist() == [0, 7, 7, 3, 4] and found["b"].tolist() == [1] * 4


# -------------------- HDF5 --------------------


def rows_file(path, rows, **options):
    with h5py.File(path, "w") as file:
        made = file.create_dataset("rows", (len(rows),), h5py.vlen_dtype("f4"), **options)
        for number, row in enumerate(rows):
            made[number] = row
        made.attrs["unit"] = "m"
        file["x"] = X[:7]
    return path


ROWS = [np.arange(n, dtype="f4") + 10 * n for n in (3, 0, 5, 1, 0, 2, 4)]


def lists(rows):
    return [np.asarray(row).tolist() for row in rows]


@pytest.mark.parametrize("options", [{}, {"chunks": (2,), "compression": "gzip"}])
@pytest.mark.parametrize("file_bytes", [8, 1 << 20])
def test_rows_of_different_lengths_are_ragged(tmp_path, options, file_bytes):
    path = rows_file(tmp_path / "a.h5", ROWS, **options)
    with sizes.set(file_bytes=file_bytes):
        d = dv.open(path)
        assert d.rows._meta["unit"] == "m" and len(d.rows) == 7
        assert lists(d.rows()) == lists(ROWS)
        assert d.rows[2]().tolist() == ROWS[2].tolist() and d.rows[2][1:3]().tolist() == [51, 52]
        assert lists(d.rows[[5, 0, 1, 5]]()) == lists([ROWS[n] for n in (5, 0, 1, 5)])
        assert lists((d.rows[::-2] * 2)()) == lists([row * 2 for row in ROWS[::-2]])
        assert d[2:4].rows._pad(-1)().tolist() == [ROWS[2].tolist(), [10, *4 * [-1]]]
        again = pickle.loads(pickle.dumps(d.rows[3:]))
    assert lists(again()) == lists(ROWS[3:])
    for view in (d, again):
        view._close()
    with pytest.raises(ValueError, match="was closed"):
        d.rows()
    with pytest.raises(dv.ReadOnlyError):
        dv.open(path, "r+").rows[0] = [1, 2, 3]


def test_only_the_rows_that_are_needed_are_read(tmp_path, monkeypatch):
    d = dv.open(rows_file(tmp_path / "a.h5", ROWS))
    asked = []
    real = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, key: asked.append(key) or real(self, key)
    )
    d.rows[2]()
    assert [range(7)[key] for key in asked] == [range(2, 3)]


def asked_of_hdf5(monkeypatch):
    """Note the keys that HDF5 is asked for, and the bytes of what it returns."""
    asked, real = [], h5py.Dataset.__getitem__

    def read(self, key):
        found = real(self, key)
        asked.append((key if isinstance(key, tuple) else (key,), found.nbytes))
        return found

    monkeypatch.setattr(h5py.Dataset, "__getitem__", read)
    return asked


def has_steps(asked):
    """Whether HDF5 has to look for places by themselves."""
    parts = [part for key, _ in asked for part in key if isinstance(part, slice)]
    return any(part.step not in (None, 1) for part in parts)


@pytest.mark.parametrize(
    "key",
    [
        np.s_[7, [3, 40, 7]], np.s_[5:25, ::5], np.s_[3:99:7, 1::9], np.s_[20:60, ::-6],
        (np.array([3, 99, 41, 8])[:, None], np.arange(0, 64, 5)),
    ],
    ids=["a row", "a step", "steps of both", "backwards", "numbers of both"],
)  # fmt: skip
def test_columns_near_each_other_are_asked_for_at_once(tmp_path, key, monkeypatch):
    x = np.random.default_rng(0).normal(size=(100, 64))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(50, 32))
    d, asked = dv.open(tmp_path / "a.h5"), asked_of_hdf5(monkeypatch)
    assert np.array_equal(d.x[key](), x[key])
    assert len(asked) == 1 and not has_steps(asked)


@pytest.mark.parametrize(
    ("key", "is_whole"),
    [
        (np.s_[7, [3, 40, 7]], True), (np.s_[30:41, [5, 1, 5]], True),
        (np.s_[60:20:-3, ::-6], True), (np.s_[5:25, 8], False),
        (np.s_[::98, [5, 1]], False), (np.s_[[3, 90, 3], 2:5], False),
    ],
    ids=str,
)  # fmt: skip
def test_rows_near_each_other_are_unpacked_whole_for_columns(tmp_path, key, is_whole, monkeypatch):
    x = np.random.default_rng(0).normal(size=(100, 64))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(20, 64), compression="gzip")
        file["plain"] = x
    d, asked = dv.open(tmp_path / "a.h5"), asked_of_hdf5(monkeypatch)
    found = d.x[key]()
    np.testing.assert_array_equal(found, x[key])
    assert found.flags.writeable
    if is_whole:
        ((places, *_), size), rows = asked[0], np.arange(100)[key[0]]
        assert len(asked) == 1 and size == x[places].nbytes
        assert range(100)[places] == range(np.min(rows), np.max(rows) + 1)
    assert sum(size for _, size in asked) < x.nbytes  # chunks that lie between are not unpacked
    np.testing.assert_array_equal(d.plain[key](), x[key])


@pytest.mark.parametrize(
    "key", [np.s_[::5], np.s_[:, ::-5], np.s_[:, np.arange(64) % 5 == 2], np.s_[1::3, ::2]], ids=str
)
def test_steps_are_read_in_blocks_with_what_lies_between(tmp_path, key, monkeypatch):
    x = np.random.default_rng(0).normal(size=(900, 64))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(20, 32))
    d, asked = dv.open(tmp_path / "a.h5"), asked_of_hdf5(monkeypatch)
    with sizes.set(file_bytes=1 << 15):
        assert np.array_equal(d.x[key](), x[key])
    assert len(asked) > 1 and max(size for _, size in asked) <= 1 << 15
    assert sum(size for _, size in asked) <= x.nbytes  # no chunk is read twice
    assert not has_steps(asked)


def test_no_rows_and_rows_that_were_never_written(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("none", (0,), h5py.vlen_dtype("i4"))
        file.create_dataset("unwritten", (3,), h5py.vlen_dtype("i4"))
        file.create_dataset("table", (2, 2), h5py.vlen_dtype("i4"))
        pairs = file.create_dataset("pairs", (2,), h5py.vlen_dtype([("a", "i4"), ("b", "f8")]))
        pairs[1] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        file.create_dataset("texts", (2,), h5py.vlen_dtype(h5py.string_dtype()))
    d = dv.open(tmp_path / "a.h5")
    assert lists(d.none()) == [] and lists(d.unwritten()) == [[], [], []]
    assert lists(d.pairs()) == [[], [(1, 2.5)]]
    with pytest.raises(dv.FieldError, match="'table' has rows of different lengths along 2 axes"):
        d.table  # noqa: B018
    with pytest.raises(dv.FieldError, match="'texts' has rows of different lengths, of"):
        d.texts  # noqa: B018


def test_a_filter_that_is_not_there_is_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((10,))
        made.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (2, 2, 4, 40))
        space = h5py.h5s.create_simple((10,))
        h5py.h5d.create(file.id, b"packed", h5py.h5t.IEEE_F32LE, space, made)
    d = dv.open(tmp_path / "a.h5")
    with pytest.raises(dv.FieldError, match=r"'packed' .*filter 32001 .*pip install hdf5plugin"):
        d.packed  # noqa: B018


def test_a_name_that_is_no_text_is_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5py.h5g.create(file.id, b"g\xff")
        file["x"] = X
        file[b"g\xff"]["y"] = X
    d = dv.open(tmp_path / "a.h5")
    np.testing.assert_array_equal(d.x(), X)
    with pytest.raises(dv.FieldError, match=r"'g\\\\xff' .*can't decode byte"):
        d._field(r"g\xff")


def test_a_broken_dataset_names_itself(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("part/x", data=X, chunks=(5, 4), compression="gzip")
        place = file["part/x"].id.get_chunk_info(1).byte_offset
        file["texts"] = np.array([b"a", b"\xff"], h5py.string_dtype())
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    raw[place : place + 8] = b"no chunk"
    (tmp_path / "a.h5").write_bytes(raw)
    d = dv.open(tmp_path / "a.h5")
    np.testing.assert_array_equal(d.part.x[:5](), X[:5])
    with pytest.raises(OSError, match=r"a\.h5/part/x cannot be read"):
        d.part.x()
    with pytest.raises(OSError, match=r"a\.h5/texts cannot be read: .*utf-8"):
        d.texts()


def test_links_that_double_at_each_step_end(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("g")
        file["x"] = X
        for _ in range(40):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
        group["x"] = X
    d = dv.open(tmp_path / "a.h5")
    np.testing.assert_array_equal(d.x(), X)


# -------------------- MATLAB --------------------

MATLAB = {
    "x": X,
    "c": X[0] * (1 + 2j),
    "f": X.astype("f4"),
    "i": np.arange(-3, 3, dtype="i2"),
    "truth": np.array([[True], [False]]),
    "text": "some text",
    "texts": np.array(["ab", "cde"]),
    "s": {"a": 3.0, "b": {"c": X, "name": "é"}},
    "empty": np.zeros((0, 3)),
    "cell": np.array([1, "x"], object),
    "sparse": scipy.sparse.eye(3, format="csc"),
}


@pytest.mark.parametrize("do_compression", [False, True])
def test_variables_of_matlab_5_are_read_when_they_are_needed(tmp_path, do_compression, monkeypatch):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, MATLAB, do_compression=do_compression)
    asked = []
    real = matlab5.VariableSource.loaded
    monkeypatch.setattr(
        matlab5.VariableSource,
        "loaded",
        lambda self: asked.append(self.variable.name) or real(self),
    )
    d = dv.open(path)
    assert set(d._fields()) == set(MATLAB) - {"cell"} and asked == []
    for name in ("x", "c", "f", "i", "truth", "empty"):
        expected = np.atleast_2d(MATLAB[name])
        assert d._field(name).dtype == expected.dtype and d._field(name).shape == expected.shape
        np.testing.assert_array_equal(d._field(name)[::-1](), expected[::-1])
    assert d.text().tolist() == ["some text"] and d.texts().tolist() == ["ab ", "cde"]
    assert d.s.a() == 3 and d.s.b.name().tolist() == ["é"]
    np.testing.assert_array_equal(d.s.b.c[2:](), X[2:])
    assert d.sparse.data().tolist() == [1, 1, 1] and d.sparse._meta["shape"] == [3, 3]
    d.x()
    assert asked.count("x") == 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(d.x[1:]))(), X[1:])
    with pytest.raises(dv.FieldError, match="'cell' is a cell array"):
        d.cell  # noqa: B018
    with pytest.raises(dv.ReadOnlyError):
        d.s.b.c[0] = 1
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(path, "r+")
    d._close()
    with pytest.raises(ValueError, match=r"a\.mat was closed"):
        d.x()


def test_variables_of_matlab_7_3_have_the_shapes_that_matlab_shows(tmp_path):
    path = files.matlab_7(tmp_path)
    d = dv.open(path)
    assert set(d._fields()) == {"x", "truth", "text", "texts", "s", "c", "empty"}
    np.testing.assert_array_equal(d.x[[3, 1], 1:](), X[[3, 1], 1:])
    assert d.truth().tolist() == [[True], [False]]
    assert d.text().tolist() == ["some é"] and d.texts().tolist() == ["ab", "cd", "ef"]
    assert d.s.a().tolist() == [[3]] and d.s.b.c.shape == X.shape
    assert d.c().tolist() == [[1 + 2j, 3 + 4j]] and d.c.dtype == np.complex64
    assert d.empty.shape == (0, 3)
    assert pickle.loads(pickle.dumps(d.texts))().tolist() == ["ab", "cd", "ef"]
    with pytest.raises(dv.FieldError, match="'cell' is a cell array"):
        d.cell  # noqa: B018
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d.texts()
    with dv.open(path, "r+") as d:
        d.x[2] = -1
    assert dv.open(path).x[2]().tolist() == [-1] * 4


def test_a_matlab_file_that_is_broken_is_told(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, MATLAB)
    raw = path.read_bytes()
    for broken in (b"", raw[:100], raw[:200], raw[:-8], raw[:128] + b"\1" + raw[129:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"a\.mat (is not a MATLAB file|holds no arrays)"):
            dv.open(path)
    scipy.io.savemat(path, {"x": X}, format="4")
    with pytest.raises(ValueError, match=r"loadmat reads version 4"):
        dv.open(path)


# -------------------- NetCDF --------------------


@pytest.mark.parametrize("make", [files.netcdf_3, files.netcdf_3_large, files.netcdf_4])
def test_variables_of_netcdf_have_their_dimensions(tmp_path, make):
    path = make(tmp_path)
    d = dv.open(path)
    assert set(d._fields()) == {"place", "t", "u", "flag"} and d._meta["title"] == "some"
    assert d.t._meta["dimensions"] == ["time", "place"] and d.t._meta["units"] == "K"
    assert d.place._meta["dimensions"] == ["place"]
    np.testing.assert_array_equal(d.t[[3, 1], 1:](), X[[3, 1], 1:])
    np.testing.assert_array_equal(d.u[::-2](), X[::-2])
    np.testing.assert_array_equal(d.flag(), np.arange(10))
    assert d.t.dtype.kind == "i"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(d.u[2:]))(), X[2:])
    scaled = dv.open(path, decode=True)
    expected = np.where(X == 7, np.nan, X * 0.5 + 273)
    np.testing.assert_array_equal(scaled.t[::3](), expected[::3])
    assert scaled.t._meta["units"] == "K" and scaled.u._meta["dimensions"] == ["time", "place"]
    np.testing.assert_array_equal(scaled.u(), X)
    for view in (d, scaled):
        view._close()
    with pytest.raises(ValueError, match="was closed"):
        d.t()
    with dv.open(path, "r+") as d:
        d.u[2] += 1
        d.flag[0] = 9
    d = dv.open(path)
    assert d.u[2]().tolist() == (X[2] + 1).tolist() and d.flag[:2]().tolist() == [9, 1]
    np.testing.assert_array_equal(d.t(), X)


def packed_3(path, data, **attributes):
    with scipy.io.netcdf_file(path, "w") as file:
        file.createDimension("n", len(data))
        made = file.createVariable("x", data.dtype.newbyteorder("="), ("n",))
        made[:] = data
        for name, value in attributes.items():
            setattr(made, name, value)


def packed_4(path, data, **attributes):
    with h5py.File(path, "w") as file:
        file["x"] = data
        file["x"].attrs.update(attributes)


PACKED = [
    ([1, -1, -2, 100], "i2", {"_Unsigned": "true"}, [1.5, 32768.5, 32768, 51]),
    ([1, -1, -2, 100], "i2", {"_Unsigned": "true", "_FillValue": -1}, [1.5, np.nan, 32768, 51]),
    ([1, -1, -2, 100], "i1", {"_Unsigned": "True"}, [1.5, 128.5, 128, 51]),
    ([1, 5, -2, 100], "i2", {"missing_value": 5}, [1.5, np.nan, 0, 51]),
    ([1, 5, -2, 7], "i2", {"missing_value": 5, "_FillValue": 7}, [1.5, np.nan, 0, np.nan]),
    ([1, 5, -2, 100], "f4", {"missing_value": 5}, [1.5, np.nan, 0, 51]),
    ([1, 5, -2, 100], "f4", {"_Unsigned": "true", "valid_max": 50}, [1.5, 3.5, 0, 51]),
]


@pytest.mark.parametrize("pack", [packed_3, packed_4])
@pytest.mark.parametrize(("data", "dtype", "attributes", "expected"), PACKED)
def test_attributes_of_netcdf_tell_what_numbers_stand_for(
    tmp_path, pack, data, dtype, attributes, expected
):
    how = {
        name: value if isinstance(value, str) else np.dtype(dtype).type(value)
        for name, value in attributes.items()
    }
    pack(tmp_path / "a.nc", np.array(data, dtype), scale_factor=0.5, add_offset=1.0, **how)
    d = dv.open(tmp_path / "a.nc", decode=True)
    np.testing.assert_array_equal(d.x(), expected)
    np.testing.assert_array_equal(d.x[[3, 1]](), np.array(expected)[[3, 1]])
    assert set(d.x._meta) - {"dimensions"} == attributes.keys() & {"valid_max"}


def test_unsigned_bytes_may_stand_for_signed_ones(tmp_path):
    packed_4(tmp_path / "a.nc", np.array([1, 255, 128], "u1"), _Unsigned="false", _FillValue=128)
    d = dv.open(tmp_path / "a.nc", decode=True)
    np.testing.assert_array_equal(d.x(), [1, -1, np.nan])
    packed_4(tmp_path / "b.nc", np.array([1, 255], "u1"), _Unsigned="false")
    assert dv.open(tmp_path / "b.nc", decode=True).x().tolist() == [1, -1]


def test_a_netcdf_file_that_is_broken_is_told(tmp_path):
    path = files.netcdf_3(tmp_path)
    raw = path.read_bytes()
    for broken in (
        raw[:4],
        raw[:40],
        raw[:-50],
        raw[:3] + b"\4" + raw[4:],
        raw[:4] + b"\0\xff" * 9,
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"three\.nc is not a NetCDF file"):
            dv.open(path)


ENDLESS = {
    "free space": (0, 0),
    "free space behind free space": (0, 32),
    "an object": (7, 2**64 - 16),
}
"""The number and the bytes of what HDF5 finds in a heap: it would stay there for ever."""


@pytest.mark.parametrize("block", [0, 512])
@pytest.mark.parametrize("found", ENDLESS)
def test_texts_of_hdf5_that_would_be_read_without_end_are_told(found, block, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=block) as file:
        file["x"] = X
        file.attrs["title"] = "some"
    np.testing.assert_array_equal(dv.open(path).x(), X)
    raw = bytearray(path.read_bytes())
    place = raw.find(b"GCOL")
    free = place + 16 + 16 + 8  # behind the heap's own beginning, and the one text
    assert struct.unpack_from("<H", raw, free) == (0,)
    number, size = ENDLESS[found]
    raw[free : free + 64] = struct.pack("<HHIQ", number, 0, 0, size) + bytes(48)
    path.write_bytes(raw)
    code = "import sys, dataview as dv\ntry: dv.open(sys.argv[1])\nexcept ValueError as e: print(e)"
    told = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True
    )
    assert "a.h5 is broken: of its texts or rows" in told.stdout and f"byte {place};" in told.stdout


# -------------------- zarr --------------------


def test_a_broken_member_of_a_zarr_group_leaves_the_others(tmp_path):
    path = files.zarr_3(tmp_path)
    (path / "x" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"')
    d = dv.open(path)
    assert d._fields() == ("part",) and d._meta["title"] == "some"
    with pytest.raises(dv.FieldError, match="'x' is broken"):
        d.x  # noqa: B018
    (path / "zarr.json").write_text("no")
    with pytest.raises(ValueError, match=r"three\.zarr cannot be opened as zarr"):
        dv.open(path)


@pytest.mark.parametrize("key", [slice(7, None, 5 * 10**6), [5 * 10**6 + 7, 7]], ids=str)
@pytest.mark.parametrize("library", ["zarr", "h5py"])
def test_chunks_between_far_rows_are_not_looked_at(tmp_path, library, key, monkeypatch):
    shape, path = (10**7, 3), tmp_path / f"a.{'zarr' if library == 'zarr' else 'h5'}"
    if library == "zarr":
        whole = zarr.create_array(path, shape=shape, chunks=(10, 2), dtype="f4")
        whole[7] = [1, 2, 3]
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", shape, "f4", chunks=(10, 2))[7] = [1, 2, 3]
    asked, kind = [], zarr.Array if library == "zarr" else h5py.Dataset
    real = kind.__getitem__
    monkeypatch.setattr(kind, "__getitem__", lambda self, k: asked.append(k) or real(self, k))
    d = dv.open(path)
    x = d if library == "zarr" else d.x
    expected = np.float32([[1, 2, 3], [0, 0, 0]])[:: -1 if isinstance(key, list) else 1]
    np.testing.assert_array_equal(x[key](), expected)
    np.testing.assert_array_equal(x[key][:, [2, 0]](), expected[:, [2, 0]])
    rows = [one[0] if isinstance(one, tuple) else one for one in asked]
    assert all(isinstance(one, slice) and one.stop - one.start == 1 for one in rows)


def test_a_zarr_that_is_not_there_is_told_so_in_every_mode(tmp_path):
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError, match=r"a\.zarr"):
            dv.open(tmp_path / "a.zarr", mode)


def test_a_group_of_zarr_is_no_field_of_itself(tmp_path):
    path = files.zarr_zip(tmp_path)
    before = dv.open(path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("/zarr.json", file.read("zarr.json"))
    d = dv.open(path)
    assert d._fields() == before._fields()
    np.testing.assert_array_equal(d.x(), before.x())
    for ask in (d._field, lambda name: getattr(d, name), d.__getitem__):
        with pytest.raises(dv.FieldError, match="leads out of its group"):
            ask("")
    with pytest.raises(dv.FieldError, match="no field ''"):
        getattr(before, "")


def test_a_broken_chunk_names_its_array(tmp_path):
    path = files.zarr_3(tmp_path)
    (path / "x" / "c" / "0" / "0").write_bytes(b"no chunk")
    d = dv.open(path)
    np.testing.assert_array_equal(d.x[3:](), X[3:])
    with pytest.raises(ValueError, match=r"zarr .*three\.zarr/x cannot be read"):
        d.x()


def test_links_between_groups_of_zarr_that_lead_back_or_double_come_to_an_end(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(contents, "MOST_REPEATS", 50)
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("x", data=X)
    for name in ("one", "two"):
        (tmp_path / "a.zarr" / name).symlink_to(tmp_path / "a.zarr")
    d = dv.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(d.x(), X)
    for name in ("one", "two"):
        with pytest.raises(dv.FieldError, match=f"'{name}' is a group that contains itself"):
            d._field(name)
    place = tmp_path / "29.zarr"
    for number in range(29, -1, -1):  # each has the one before it twice: there are 2**30 paths
        zarr.create_group(place).create_array("x", data=X + number)
        if number:
            (place / "two").symlink_to("one")
            place /= "one"
    d = dv.open(tmp_path / "29.zarr")
    with pytest.raises(dv.FieldError, match="is reached by a link, and more than 50 lead"):
        d.two  # noqa: B018
    np.testing.assert_array_equal(d.one.one.x(), X + 27)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_links_that_leave_a_folder_of_zarr_are_no_fields(tmp_path, version, mode):
    secret = zarr.create_group(tmp_path / "own" / "secret.zarr", zarr_format=version)
    secret.create_array("x", data=X)
    given = tmp_path / "given.zarr"
    root = zarr.create_group(given, zarr_format=version)
    for name in ("y", "notes", "chunks"):
        root.create_array(name, data=Y).attrs["k"] = 1
    root.create_group("group").create_array("y", data=Y)
    out = tmp_path / "own" / "secret.zarr"
    links = {"out": out, "array": "out/x", "above": "../own/secret.zarr", "group/deep": out}
    for name, to in {**links, "inside": given / "y"}.items():
        (given / name).symlink_to(to)
    file = {2: ".zattrs", 3: "zarr.json"}[version]
    (given / "notes" / file).rename(tmp_path / "own" / "notes")
    (given / "notes" / file).symlink_to(tmp_path / "own" / "notes")
    lost = ["out", "array", "above", "notes"]
    if version == 3:
        (given / "chunks" / "c").rename(tmp_path / "own" / "c")
        (given / "chunks" / "c").symlink_to(tmp_path / "own" / "c")
        lost.append("chunks")
    (tmp_path / "link").symlink_to(given)
    for path in (given, tmp_path / "link"):
        with dv.open(path, mode, format="zarr") as d:
            assert set(d._fields()) == {"y", "group", "inside", "chunks"} - {*lost}
            np.testing.assert_array_equal(d.inside(), Y)
            assert d.group._fields() == ("y",)
            for view, name in [*((d, name) for name in lost), (d.group, "deep")]:
                with pytest.raises(dv.FieldError, match=f"'{name}' .*outside of .*own path"):
                    view._field(name)


def test_a_full_disk_is_an_error_that_names_the_zarr(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.zarr"
    zarr.create_group(path).create_array("x", data=X)
    with dv.open(path, "r+") as d:
        monkeypatch.setattr(zarr.Array, "__setitem__", full)
        for change, named in (
            (lambda: dv.View(x=X)._save(tmp_path / "b.zarr"), tmp_path / "b.zarr"),
            (lambda: d._append({"x": X}), path / "x"),
        ):
            with pytest.raises(OSError, match="No space left") as caught:
                change()
            assert caught.value.filename == str(named)
    np.testing.assert_array_equal(zarr.open_array(path / "x")[:], X)


def test_a_folder_of_zarr_whose_metadata_is_a_link_that_leaves_it_is_refused(tmp_path):
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("x", data=X)
    (tmp_path / "a.zarr" / "zarr.json").rename(tmp_path / "else")
    (tmp_path / "a.zarr" / "zarr.json").symlink_to(tmp_path / "else")
    with pytest.raises(ValueError, match=r"a\.zarr is reached by a link to .*else, outside of"):
        dv.open(tmp_path / "a.zarr")


def test_a_chunk_of_zarr_that_asks_for_more_than_memory_is_broken(tmp_path, monkeypatch):
    def unpacked(array, key):
        raise MemoryError

    d = dv.open(files.zarr_3(tmp_path))
    monkeypatch.setattr(zarr.Array, "__getitem__", unpacked)
    with pytest.raises(ValueError, match=r"zarr three\.zarr/x cannot be read: .*chunk is broken"):
        d.x()


def test_a_compound_attribute_is_a_dict_that_can_be_saved(tmp_path):
    pair = np.array((1, 2.5), [("a", "i4"), ("b", "f8")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
        file["x"].attrs["one"] = pair
        file["x"].attrs["two"] = np.array([pair, pair])
    wanted = {"one": {"a": 1, "b": 2.5}, "two": [{"a": 1, "b": 2.5}] * 2}
    d = dv.open(tmp_path / "a.h5")
    assert dict(d.x._meta) == wanted
    d._save(tmp_path / "b.h5")
    assert dict(dv.open(tmp_path / "b.h5").x._meta) == wanted


def test_texts_in_a_compound_dataset_are_bytes(tmp_path):
    text = h5py.string_dtype()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("plain", data=["a", "é"], dtype=text)
        file["pairs"] = np.array([(1, "a"), (2, "é")], [("n", "i4"), ("t", text)])
    d = dv.open(tmp_path / "a.h5")
    assert d.plain().tolist() == ["a", "é"]
    assert d.pairs.t().tolist() == [b"a", "é".encode()]


def test_a_lack_of_memory_is_told_as_such_and_names_the_array(tmp_path, monkeypatch):
    d = dv.open(files.zarr_3(tmp_path))

    def no_room(array, key):
        raise MemoryError("no room")

    monkeypatch.setattr(zarr.Array, "__getitem__", no_room)
    with sizes.set(block_bytes=100), pytest.raises(MemoryError, match=r"three\.zarr/x"):
        d.x()
    with pytest.raises(ValueError, match=r"three\.zarr/x .*320 bytes.*broken, or hardly any"):
        d.x()


# -------------------- chunks --------------------


class Chunked:
    """A file of an array in chunks; it counts how often each chunk is read, and written."""

    def __init__(self, kind, folder, monkeypatch):
        self.kind, self.path = kind, folder / ("a.h5" if kind == "hdf5" else "a.zarr")
        self.counts = {"_get": collections.Counter(), "_put": collections.Counter()}
        self.largest = 0
        source = H5pySource if kind == "hdf5" else ZarrSource
        for name in self.counts:
            monkeypatch.setattr(source, name, self.counting(name, getattr(source, name)))
        monkeypatch.setattr(Numbers, "read", self.counting("_get", Numbers.read))

    def counting(self, name, function):
        def counted(source, asked, *value):
            met = [*map(self.met, asked, self.chunks)]
            self.counts[name].update(itertools.product(*met))
            self.largest = max(self.largest, math.prod(map(len, met)))
            return function(source, asked, *value)

        return counted

    @staticmethod
    def met(asked, length):
        """Return the numbers of the chunks that are met along one axis."""
        if isinstance(asked, np.ndarray):
            return np.unique(asked // length).tolist()
        return range(asked.start // length, (asked.stop - 1) // length + 1)

    def open(self, array, chunks):
        self.chunks = chunks
        if self.kind == "hdf5":
            with h5py.File(self.path, "w") as file:
                file.create_dataset("x", data=array, chunks=chunks)
            return dv.open(self.path, "r+").x
        inner = {"chunks": (1, *chunks[1:]), "shards": chunks}
        how = inner if self.kind == "shards" else {"chunks": chunks}
        zarr.create_array(self.path, data=array, overwrite=True, **how)
        return dv.open(self.path, "r+")

    def most(self, name):
        """Return how often the chunk was met that was met most often, since this was asked."""
        found = max(self.counts[name].values())
        self.counts[name].clear()
        return found


@pytest.fixture(params=["zarr", "shards", "hdf5"])
def chunked(request, tmp_path, monkeypatch):
    return Chunked(request.param, tmp_path, monkeypatch)


TALL = np.random.default_rng(0).standard_normal((120, 6, 10))
FEW_BYTES = {"block_bytes": 4000, "file_bytes": 24_000, "part_bytes": 8000, "noted_bytes": 1000}
"""Sizes with which blocks of `TALL` have room for the chunks below along one axis of them alone."""


@pytest.mark.parametrize("chunks", [(120, 1, 10), (120, 2, 5), (60, 6, 2), (50, 3, 10), (8, 6, 10)])
def test_each_chunk_is_read_and_written_once_however_tall_it_is(chunks, chunked):
    with sizes.set(**FEW_BYTES, undo_bytes=20_000, streamed_elements=64):
        d, expected = chunked.open(TALL, chunks), TALL.copy()
        mean = d._mean(axis=0)
        np.testing.assert_allclose(mean(), expected.mean(axis=0), rtol=0, atol=1e-13)
        assert chunked.most("_get") == 1
        d -= mean
        expected -= mean()
        assert chunked.most("_put") == chunked.most("_get") == 1
        d[...] = expected.mean(axis=0)
        assert chunked.most("_put") == 1
        turned = d._transpose((2, 0, 1))
        turned[...] = expected.transpose(2, 0, 1)
        assert chunked.most("_put") == 1
        d[:, :, ::-1] *= 2
        expected[:, :, ::-1] *= 2
        assert chunked.most("_put") == 1
    np.testing.assert_array_equal(d(), expected)


@pytest.mark.parametrize("kind", ["sum", "std", "argmax", "median"])
def test_statistics_of_tall_chunks_are_those_of_numpy(kind, chunked):
    axes = [None, 0, 1, 2] if kind == "argmax" else [None, 0, 2, (0, 2), (1, 2)]
    with sizes.set(**FEW_BYTES):
        d = chunked.open(TALL, (60, 6, 2))
        for axis, keepdims in itertools.product(axes, (False, True)):
            for view, array in ((d, TALL), (d[3:, ::-1], TALL[3:, ::-1])):
                found = getattr(view, f"_{kind}")(axis=axis, keepdims=keepdims)
                expected = getattr(np, kind)(array, axis=axis, keepdims=keepdims)
                assert found._shape() == expected.shape
                np.testing.assert_allclose(found(), expected, rtol=1e-12, atol=1e-12)


WHOLE = {
    "an expression": (lambda d: (d * 2 - d._mean(axis=0))[1:](), 2),
    "a statistic of one": (lambda d: np.isnan(d * 2)._any()(), 1),
    "its median": (lambda d: (d + 1)._median(axis=0)(), 1),
    "different values": (lambda d: d._unique()(), 1),
    "a comparison": (lambda d: bool(d == TALL), 1),
    "a copy in a file": (lambda d: (d * 2)._save(str(d._meta["to"])), 1),
}


@pytest.mark.parametrize("chunked", ["zarr", "hdf5"], indirect=True)
@pytest.mark.parametrize(("ask", "passes"), WHOLE.values(), ids=WHOLE)
def test_each_chunk_longer_than_a_block_is_read_once(ask, passes, chunked, tmp_path):
    with sizes.set(**FEW_BYTES, block_elements=512, small_elements=100):
        d = chunked.open(TALL, (50, 2, 5))._with_meta(to=str(tmp_path / "to.npy"))
        ask(d)
        assert chunked.most("_get") == passes


@pytest.mark.parametrize("chunked", ["zarr"], indirect=True)
@pytest.mark.parametrize("key", [np.s_[:], np.s_[7:, ::-1], np.s_[::2]])
def test_expressions_of_long_chunks_are_those_of_numpy(key, chunked):
    with sizes.set(**FEW_BYTES, block_elements=512, small_elements=100):
        d, part = chunked.open(TALL, (50, 2, 5))[key], TALL[key]
        np.testing.assert_array_equal((d * 2 + part[0] > d)(), part * 2 + part[0] > part)
        np.testing.assert_array_equal((d[3:] * d[:-3])(), part[3:] * part[:-3])
        np.testing.assert_array_equal((d + part)[5:, 1](), (part + part)[5:, 1])
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            found = (1 / (d - d))()
        assert np.isinf(found).all()


ROWS_OF_TALL = np.array([3, 4, 17, 8, 90, 91, 119, 55, 56, 60])
BOTH_CUT = {
    "steps": np.s_[:, ::3],
    "rows": np.s_[ROWS_OF_TALL],
    "rows and columns": np.s_[ROWS_OF_TALL[:, None], [5, 0, 2]],
    "columns": np.s_[:, [5, 0, 2]],
    "columns of steps": np.s_[::-2, [5, 0, 2], ::3],
    "all by number": np.ix_(ROWS_OF_TALL, [5, 0, 2], [9, 0, 4, 2]),
}


@pytest.mark.parametrize("bytes_", [{}, FEW_BYTES])
@pytest.mark.parametrize("key", BOTH_CUT.values(), ids=BOTH_CUT)
def test_each_chunk_is_met_once_by_keys_on_several_axes(key, bytes_, chunked):
    with sizes.set(**bytes_):
        d, expected = chunked.open(TALL, (50, 2, 5)), TALL.copy()
        np.testing.assert_array_equal(d[key](), expected[key])
        assert chunked.most("_get") == 1
        turned = d._transpose()
        np.testing.assert_array_equal(turned[..., 7::10](), expected.T[..., 7::10])
        assert chunked.most("_get") == 1
        for value in (5, expected[key] + 1):
            d[key] = value
            expected[key] = value
            if not bytes_ and chunked.kind != "hdf5":  # which changes elements, not whole chunks
                assert chunked.most("_put") == 1
    np.testing.assert_array_equal(d(), expected)


FOURS = np.random.default_rng(0).integers(-9, 9, (64, 4)).astype(float)
ANY_ORDER = np.random.default_rng(1).permutation(64)
OFTEN = np.random.default_rng(2).integers(-64, 64, 100)
ANY_ORDERS = {
    "rows": np.s_[ANY_ORDER],
    "some rows": np.s_[ANY_ORDER[:50], 1:],
    "rows often": np.s_[OFTEN],
    "one row often": np.s_[np.repeat([5, 60, 5], 20)],
    "columns": np.s_[:, [3, 0, 2]],
    "rows and columns": np.s_[ANY_ORDER[:, None], [3, 0, 2]],
    "rows and columns often": np.s_[OFTEN[:, None], [3, 0, 3]],
    "steps": np.s_[::-3],
    "mask": np.s_[FOURS[:, 0] > 0],
}
BLOCKS_OF_ROWS = {"block_bytes": 400, "part_bytes": 400, "file_bytes": 400, "noted_bytes": 400}
"""Sizes with which a block has twelve rows of `FOURS`, and a chunk below eight."""


@pytest.mark.parametrize("chunked", ["zarr", "hdf5"], indirect=True)
@pytest.mark.parametrize("key", ANY_ORDERS.values(), ids=ANY_ORDERS)
def test_each_chunk_is_met_once_by_large_writes_in_any_order(key, chunked):
    with sizes.set(**BLOCKS_OF_ROWS, undo_bytes=1000, streamed_elements=64):
        d, expected = chunked.open(FOURS, (8, 2)), FOURS.copy()
        part = expected[key]
        for value in (5, part + 1, np.arange(float(part.shape[-1])), dv.View(part) * 3):
            d[key] = value
            expected[key] = value() if isinstance(value, dv.View) else value
            if chunked.kind != "hdf5":  # which changes elements, not whole chunks
                assert chunked.most("_put") == 1
        d[key] -= d[key]._mean(axis=0)
        expected[key] -= expected[key].mean(axis=0)
        if chunked.kind != "hdf5":
            assert chunked.most("_put") == 1
    np.testing.assert_allclose(d(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunked", ["zarr"], indirect=True)
@pytest.mark.parametrize("name", ["rows", "rows often", "columns", "mask"])
def test_statistics_of_rows_in_any_order_are_those_of_numpy(name, chunked):
    key = ANY_ORDERS[name]
    with sizes.set(**BLOCKS_OF_ROWS):
        d, part = chunked.open(FOURS, (8, 4)), FOURS[key]
        d[key]._sum(axis=0)()
        assert chunked.most("_get") == 1
        np.testing.assert_array_equal((d[key] * 2 - 3)._sum(axis=0)(), (part * 2 - 3).sum(axis=0))
        for kind, axis in [("std", 0), ("std", 1), ("nanmax", None), ("argmax", 0)]:
            expected = getattr(np, kind)(part, axis=axis)
            found = getattr(d[key], f"_{kind}")(axis=axis)
            np.testing.assert_allclose(found(), expected, rtol=1e-12, atol=1e-12)


BOXES = np.random.default_rng(3).integers(-9, 9, (24, 6, 4)).astype(float)
FIRST, LAST = np.random.default_rng(4).integers(0, [[24], [4]], (2, 60))
POINTS = {
    "mask": BOXES > 3,
    "mask of rows and columns": BOXES[..., 0] > 0,
    "points often": np.s_[FIRST, LAST],
    "points in two axes": np.s_[FIRST.reshape(6, 10), 1:5, LAST.reshape(6, 10)],
    "points behind an axis": np.s_[3:, LAST, LAST[::-1]],
    "one point": np.s_[[5], [2], [3]],
}


@pytest.mark.parametrize("chunked", ["zarr", "hdf5"], indirect=True)
@pytest.mark.parametrize("key", POINTS.values(), ids=POINTS)
def test_each_chunk_is_met_once_by_points(key, chunked, monkeypatch):
    for source in (H5pySource, ZarrSource):
        monkeypatch.setattr(source, "spare_bytes", 64)
    d, expected = chunked.open(BOXES, (8, 3, 2)), BOXES.copy()
    np.testing.assert_array_equal(d[key](), expected[key])
    assert chunked.most("_get") == 1
    part = expected[key]
    for value in (5, part + np.arange(part.size).reshape(part.shape)):
        d[key] = value
        expected[key] = value
        assert chunked.most("_put") == 1
    d[key] += d[key] * 2
    expected[key] += expected[key] * 2
    assert chunked.most("_put") == 1
    np.testing.assert_array_equal(d(), expected)


def test_points_of_a_dataset_without_chunks_are_those_of_numpy(tmp_path, monkeypatch):
    monkeypatch.setattr(H5pySource, "spare_bytes", 128)
    for number, key in enumerate(POINTS.values()):
        expected = BOXES.copy()
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = BOXES
        with dv.open(tmp_path / f"{number}.h5", "r+") as d:
            part = expected[key]
            for value in (5, part + np.arange(part.size).reshape(part.shape)):
                d.x[key] = value
                expected[key] = value
                np.testing.assert_array_equal(d.x[key](), expected[key])
            np.testing.assert_array_equal(d.x(), expected)


BOTH_TOO_LARGE = {"block_bytes": 1000, "part_bytes": 1000, "noted_bytes": 1000}
CUT_ALONG_SEVERAL = [((20, 2, 10), 2000), ((20, 2, 5), 700), ((7, 6, 3), 700)]
"""Chunks of `TALL`, and the sizes of blocks in which they have no room along any axis alone."""


@pytest.mark.parametrize(("chunks", "file_bytes"), CUT_ALONG_SEVERAL)
def test_each_chunk_is_met_once_where_blocks_are_cut_along_several_axes(
    chunks, file_bytes, chunked
):
    some = {**BOTH_TOO_LARGE, "file_bytes": file_bytes, "undo_bytes": 5000}
    with sizes.set(**some, streamed_elements=64):
        d, expected = chunked.open(TALL, chunks), TALL.copy()
        mean = d._mean(axis=0)
        np.testing.assert_allclose(mean(), expected.mean(axis=0), rtol=0, atol=1e-13)
        assert chunked.most("_get") == 1
        d._describe()
        assert chunked.most("_get") == 1
        d -= mean
        expected -= mean()
        assert chunked.most("_put") == chunked.most("_get") == 1
        turned = d._transpose((2, 0, 1))
        turned[...] = TALL.transpose(2, 0, 1)
        assert chunked.most("_put") == 1
        chunked.counts["_get"].clear()
        assert turned._max()() == TALL.max()
        assert chunked.most("_get") == 1
        d[:, :, ::-1] *= 2
        expected = TALL * 2
        assert chunked.most("_put") == chunked.most("_get") == 1
        part = d[3:, ::-1]
        assert part._max()() == expected[3:].max()
        assert chunked.most("_get") == 1
        assert 0 < chunked.largest <= 4 * file_bytes // (8 * math.prod(chunks))
        d[1:] = d[:-1]
        expected[1:] = expected[:-1].copy()
        d[:, 1:] += d[:, :-1]
        expected[:, 1:] += expected[:, :-1].copy()
    np.testing.assert_array_equal(d(), expected)


@pytest.mark.parametrize("kind", ["sum", "std", "argmax", "nanargmin"])
def test_statistics_of_blocks_cut_along_several_axes_are_those_of_numpy(kind, chunked):
    axes = [None, 0, 1, 2] if "arg" in kind else [None, 0, 2, (0, 2), (1, 2)]
    array = np.round(TALL)  # with the same extreme at several places
    if kind.startswith("nan"):
        array[TALL > 1] = np.nan
    elif "arg" in kind:
        array[[5, 90], [3, 3], [8, 2]] = np.nan
    with sizes.set(**BOTH_TOO_LARGE, file_bytes=2000):
        d = chunked.open(array, (40, 3, 5))
        for axis, keepdims in itertools.product(axes, (False, True)):
            for view, part in ((d, array), (d[3:, ::-1], array[3:, ::-1])):
                found = getattr(view, f"_{kind}")(axis=axis, keepdims=keepdims)
                expected = getattr(np, kind)(part, axis=axis, keepdims=keepdims)
                assert found._shape() == expected.shape
                np.testing.assert_allclose(found(), expected, rtol=1e-12, atol=1e-12)
                assert chunked.most("_get") == 1


def test_descriptions_of_blocks_cut_along_several_axes_are_those_of_all(chunked):
    d = chunked.open(TALL, (20, 2, 10))
    expected = d._describe().asdict()
    with sizes.set(**BOTH_TOO_LARGE, file_bytes=2000):
        found = d._describe().asdict()
    for name, value in expected[""].items():
        assert found[""][name] == pytest.approx(value), name


def test_writes_that_overlap_in_tall_chunks_are_those_of_numpy(chunked):
    with sizes.set(**FEW_BYTES, undo_bytes=5000):
        d, expected = chunked.open(TALL, (120, 1, 10)), TALL.copy()
        d[1:] = d[:-1]
        expected[1:] = expected[:-1].copy()
        d[:, 1:] += d[:, :-1]
        expected[:, 1:] += expected[:, :-1].copy()
        d += d[::-1]
        expected += expected[::-1].copy()
        d[[7, 3, 7]] = TALL[:3]
        expected[[7, 3, 7]] = TALL[:3]
        d[5:, ::2, 3] = 1
        expected[5:, ::2, 3] = 1
    np.testing.assert_array_equal(d(), expected)


# -------------------- any broken file --------------------

BOMB = """
import resource, sys
import dataview as dv
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
d = dv.open(sys.argv[1])
before = used()
print(d.x.shape, d.x[5](), d.x[-1](), used() - before)
"""


def test_a_member_that_is_unpacked_to_much_takes_little_memory(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(25_000_000))
    assert os.path.getsize(tmp_path / "a.npz") < 1 << 20
    *found, megabytes = printed("-c", BOMB, tmp_path / "a.npz", TMPDIR=str(tmp_path)).split()
    assert found == ["(25000000,)", "0.0", "0.0"] and int(megabytes) < 60
    assert os.listdir(tmp_path) == ["a.npz"]


def huge_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1 << 50,), "f8", chunks=(1000,))


def huge_zarr(path):
    zarr.open_group(path, mode="w").create_array("x", shape=(1 << 50,), dtype="f8", chunks=(1000,))


@pytest.mark.parametrize("make", [huge_hdf5, huge_zarr])
def test_a_huge_shape_with_few_data_is_read_in_part(tmp_path, make):
    make(tmp_path / ("a.h5" if make is huge_hdf5 else "a.zarr"))
    (path,) = tmp_path.iterdir()
    *found, megabytes = printed("-c", BOMB, path).split()
    assert found == [f"({1 << 50},)", "0.0", "0.0"] and int(megabytes) < 60


def test_what_has_no_room_in_memory_is_named(tmp_path):
    huge_hdf5(tmp_path / "a.h5")
    with pytest.raises(MemoryError, match=r"a\.h5/x .*Unable to allocate .*read a part of it"):
        dv.open(tmp_path / "a.h5").x()


def deep_hdf5(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = X
        group = file
        for _ in range(200):
            group = group.create_group("g")
        group["x"] = X
    return folder / "a.h5"


def deep_npz(folder):
    np.savez(folder / "a.npz", **{"x": X, "g/" * 20_000 + "x": X[:2], "g/" * 90 + "y": X})
    return folder / "a.npz"


def deep_zarr(folder):
    group = zarr.open_group(folder / "a.zarr", mode="w")
    group.create_array("x", data=X)
    inner = folder / "a.zarr"
    for _ in range(150):
        inner = inner / "g"
        inner.mkdir()
        (inner / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    return folder / "a.zarr"


@pytest.mark.parametrize("make", [deep_hdf5, deep_npz, deep_zarr])
def test_groups_that_are_nested_too_deeply_leave_the_others(tmp_path, make):
    d = dv.open(make(tmp_path))
    np.testing.assert_array_equal(d.x(), X)
    assert "g" not in d._fields() or make is deep_npz


@pytest.mark.parametrize(
    "suffix", [s for row in FORMATS.values() for s in row.suffixes if row.needs != "torch"]
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"a{suffix}")
    with pytest.raises(ValueError, match="is a pipe"):
        dv.open(tmp_path / f"a{suffix}")


# -------------------- Chainer's pickles --------------------


class Told:
    """Notes in a file that it was loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickles_are_loaded_by_the_name_of_their_format_alone(tmp_path):
    samples = [(n, {"x": np.full(n, 0.5)}, "text") for n in range(5)]
    path = tmp_path / "a.pkl"
    path.write_bytes(b"".join(pickle.dumps(one, n) for n, one in enumerate(samples)))
    with pytest.raises(ValueError, match="files that can be opened end in"):
        dv.open(path)
    d = dv.open(path, format="chainer-pickle")
    assert d._shape() == (5,) and d[3]()[1]["x"].tolist() == [0.5] * 3
    assert [one[0] for one in d[::-2]()] == [4, 2, 0]
    assert pickle.loads(pickle.dumps(d[2:]))[0]()[0] == 2
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d[0]()
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(path, "r+", format="chainer-pickle")


def test_pickles_are_not_loaded_before_they_are_read(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(1) + pickle.dumps(Told(tmp_path / "told")) + b"cnone\nf\n.")
    d = dv.open(path, format="chainer-pickle")
    assert len(d) == 3 and d[0]() == 1 and not (tmp_path / "told").exists()
    with pytest.raises(ValueError, match=r"sample 2 of .*a\.pkl cannot be loaded: ModuleNotFound"):
        d[2]()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"a\.pkl is no file of pickles, or is broken behind byte"):
        dv.open(path, format="chainer-pickle")


@pytest.mark.parametrize(
    "name",
    [
        *fuzz_openers.SEEDS,
        *(pytest.param(name, marks=pytest.mark.clients) for name in fuzz_openers.OF_CLIENTS),
    ],
)
def test_broken_files_give_clean_errors(name):
    _, problems = fuzz_openers.fuzzed(name, 300)
    assert fuzz_openers.ours(name, problems) == []


def test_attributes_of_hdf5_that_cannot_be_listed_are_told(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)

    def broken(attributes):
        raise RuntimeError("ran off the end")

    monkeypatch.setattr(h5py.AttributeManager, "__iter__", broken)
    with dv.open(tmp_path / "a.h5") as d:
        assert d._meta["attributes"] == "not readable: ran off the end"
        assert d.x().tolist() == [0, 1, 2]


@pytest.mark.soak
@pytest.mark.parametrize("name", fuzz_openers.SEEDS)
def test_many_broken_files_give_clean_errors(name):
    _, problems = fuzz_openers.fuzzed(name, 10_000, seed=1)
    assert fuzz_openers.ours(name, problems) == []
