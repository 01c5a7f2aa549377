"""Archives: the files in them are read where they are, against zipfile and tarfile."""

import io
import json
import os
import pickle
import stat
import struct
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image
import pytest
import soundfile
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.formats.media import members


def zipped(path, files, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, raw in files:
            archive.writestr(name, raw)
    return path


def tarred(path, files, form=tarfile.PAX_FORMAT):
    mode = "w:gz" if path.suffix in (".gz", ".tgz") else "w"
    with tarfile.open(path, mode, format=form) as archive:
        for name, raw in files:
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return path


MAKERS = {
    "stored.zip": zipped,
    "deflated.zip": lambda path, files: zipped(path, files, zipfile.ZIP_DEFLATED),
    "pax.tar": tarred,
    "gnu.tar": lambda path, files: tarred(path, files, tarfile.GNU_FORMAT),
    "packed.tar.gz": tarred,
    "packed.tgz": tarred,
}


@pytest.fixture(params=MAKERS)
def make(request, tmp_path):
    return lambda files: MAKERS[request.param](tmp_path / request.param, files)


def picture(number, form="PNG", size=(4, 3)):
    file = io.BytesIO()
    pixels = np.full((*size[::-1], 3), number, "u1")
    PIL.Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def array(number):
    file = io.BytesIO()
    np.save(file, np.arange(3.0) + number)
    return file.getvalue()


def sound(number):
    file = io.BytesIO()
    soundfile.write(file, np.full(10 + number, 0.5), 8000, "PCM_16", format="WAV")
    return file.getvalue()


def shard(count=5):
    """The files of a shard of WebDataset's, of every kind that is read."""
    for number in range(count):
        key = f"part/{number:04}"
        yield f"{key}.png", picture(number)
        yield f"{key}.cls", str(number).encode()
        told = {"box": [number, 1], "of": {"name": f"é{number}"}, "x": None if number == 1 else 2.5}
        yield f"{key}.json", json.dumps(told).encode()
        yield f"{key}.txt", f"text {number}".encode()
        yield f"{key}.npy", array(number)
        yield f"{key}.wav", sound(number)
        yield f"{key}.seg.png", picture(9, size=(number + 1, 2))
        yield f"{key}.raw", bytes([number])


# -------------------- opened --------------------


def test_files_of_one_stem_are_a_row(make):
    d = dv.open(make([("readme", b"text"), (".hidden", b""), *shard()]))
    assert len(d) == 5
    assert d._fields() == (
        "key", "png", "cls", "json", "txt", "npy", "wav", "seg.png", "raw", "wav_rate",
    )  # fmt: skip
    assert d.key().tolist() == [f"part/{number:04}" for number in range(5)]
    assert d.png._shape() == (5, 3, 4, 3) and d.png()[:, 0, 0, 0].tolist() == [*range(5)]
    assert d.cls._dtype() == np.int64 and d.cls[::-1]().tolist() == [4, 3, 2, 1, 0]
    assert [row.tolist() for row in d.json.box()] == [[number, 1] for number in range(5)]
    assert d.json.of.name[3]() == "é3" and d.json.x_mask().tolist() == [True, False, *[True] * 3]
    assert d.txt().tolist() == [f"text {number}" for number in range(5)]
    np.testing.assert_array_equal(d.npy[[3, 1]](), [[3, 4, 5], [1, 2, 3]])
    assert [len(one()) for one in d.wav] == [10, 11, 12, 13, 14]
    assert d.wav_rate().tolist() == [8000] * 5
    assert d["seg.png"][4]().shape == (2, 5, 3)
    assert d.raw().tolist() == [bytes([number]) for number in range(5)]
    with pytest.raises(dv.FieldError, match="'readme' has a name that does not end in the name"):
        d._field("readme")


@given(
    rows=st.lists(
        st.tuples(st.integers(-9, 9), st.binary(max_size=30), st.text("ab é", max_size=9)),
        min_size=1,
        max_size=6,
    ),
    name=st.sampled_from(list(MAKERS)),
    shuffled=st.randoms(),
    folder=st.sampled_from(["", "a/b", "long" * 60]),
)
def test_rows_are_what_was_put_in(tmp_path_factory, rows, name, shuffled, folder):
    files = []
    for number, (cls, raw, text) in enumerate(rows):
        key = f"{folder}/{number}".lstrip("/")
        files += [(f"{key}.cls", str(cls).encode()), (f"{key}.bin", raw)]
        files += [(f"{key}.TXT", text.encode())]
    shuffled.shuffle(files)
    d = dv.open(MAKERS[name](tmp_path_factory.mktemp("archive") / name, files))
    order = [int(key.rpartition("/")[2]) for key in d.key()]
    assert sorted(order) == list(range(len(rows)))
    assert d.cls().tolist() == [rows[row][0] for row in order]
    assert d.bin[::-1]().tolist() == [rows[row][1] for row in order][::-1]
    assert d.txt().tolist() == [rows[row][2] for row in order]


CLASSES = [
    ("n02/b.png", picture(2)), ("n02/a.png", picture(1)), ("n01/deep/c.png", picture(3)),
    ("n01/d.png", picture(4)), ("README", b"about"), ("n01/.hidden.png", b""),
]  # fmt: skip


@pytest.mark.parametrize("top", ["", "pictures/", "a/b/"])
def test_files_in_folders_are_what_the_folder_is_that_they_are_unpacked_to(make, tmp_path, top):
    for name, raw in CLASSES:
        place = tmp_path / "folder" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
    path = make([(f"{top}{name}", raw) for name, raw in CLASSES])
    for how in ({}, {"labels": "last"}, {"labels": None}, {"image_mode": "L"}):
        d, folder = dv.open(path, **how), dv.open(tmp_path / "folder", **how)
        assert d._fields() == folder._fields()
        for name in folder._fields():
            np.testing.assert_array_equal(d._field(name)(), folder._field(name)())
    d = dv.open(path)
    assert d.label().tolist() == ["n01", "n01", "n02", "n02"]
    assert d.image[[3, 0]]()[:, 0, 0, 0].tolist() == [2, 4]
    again = pickle.loads(pickle.dumps(d))
    assert again.path[1]() == "n01/deep/c.png" and again.image[1]()[0, 0, 0] == 3
    with pytest.raises(dv.FieldError, match="'README' stands for 1 file without a decoder"):
        d._field("README")


def test_archives_of_folders_follow_one_another_and_name_broken_files(tmp_path):
    zipped(tmp_path / "0.zip", CLASSES[:2])
    zipped(tmp_path / "1.zip", [("n1000/x.png", picture(5)), ("n1000/y.png", b"broken")])
    d = dv.open(f"{tmp_path}/*.zip")
    assert d.label().tolist() == ["n02", "n02", "n1000", "n1000"]
    assert d.image[2]()[0, 0, 0] == 5
    with pytest.raises(ValueError, match=r"1\.zip/n1000/y\.png cannot be decoded"):
        d.image[3]()
    texts = [(f"{kind}/{n}.txt", kind.encode()) for kind in ("pos", "neg") for n in range(2)]
    d = dv.open(tarred(tmp_path / "a.tar", texts))
    assert (d.text().tolist(), d.label().tolist()) == (["neg", "neg", "pos", "pos"],) * 2
    with pytest.raises(TypeError, match="kind= and labels= are options of files in folders, and"):
        dv.open(tarred(tmp_path / "b.tar", shard()), labels="last")
    with pytest.raises(ValueError, match="labels is one of 'first', 'last', None; got 'all'"):
        dv.open(tmp_path / "0.zip", labels="all")


def test_shards_follow_one_another(tmp_path):
    for number in range(2):
        tarred(tmp_path / f"{number}.tar", shard(number + 2))
    d = dv.open(f"{tmp_path}/*.tar", image_mode="L")
    assert d.cls().tolist() == [0, 1, 0, 1, 2] and d.png[-1]()[0, 0] == 2
    assert d.json.of.name[[0, 4]]().tolist() == ["é0", "é2"]


def test_shards_are_looked_at_together(tmp_path):
    tarred(tmp_path / "0.tar", [("a.cls", b"1"), ("a.json", b'{"x": 1, "y": 0}')])
    tarred(tmp_path / "1.tar", [("b.cls", b"cat"), ("b.json", b'{"x": 0.5}')])
    d = dv.open([tmp_path / "0.tar", tmp_path / "1.tar"])
    assert d.cls().tolist() == ["1", "cat"] and d.json.x().tolist() == [1, 0.5]
    assert d.json.y_mask().tolist() == [True, False]
    again = pickle.loads(pickle.dumps(d))
    assert again.cls[::-1]().tolist() == ["cat", "1"] and again.json.x[1]() == 0.5


def test_files_that_are_in_no_row_are_told(tmp_path):
    files = [*shard(30), ("lone.csv", b"a,b"), ("part/0005.caption", b"x")]
    d = dv.open(zipped(tmp_path / "a.zip", [f for f in files if f[0] != "part/0007.wav"]))
    assert len(d) == 29 and "part/0007" not in d.key()
    for name, why in [
        ("part/0007.*", "is no row: it lacks wav"),
        ("lone.*", "is no row: it lacks png, cls"),
        ("*.csv", "has files in 1 of 31 rows alone"),
        ("*.caption", "has files in 1 of 31 rows alone"),
    ]:
        with pytest.raises(dv.FieldError, match=why):
            d._field(name)


def test_what_is_broken_leaves_the_others(tmp_path):
    files = [("a.png", b"no picture"), ("a.cls", b"1"), ("a.pyd", pickle.dumps(print))]
    d = dv.open(tarred(tmp_path / "a.tar", files))
    assert d.cls().tolist() == [1] and d.pyd[0]() == files[2][1]  # a pickle is bytes
    with pytest.raises(dv.FieldError, match=r"'png' cannot be decoded: .*a\.tar/a\.png"):
        d.png  # noqa: B018
    rows = [("a.json", b'{"x": 1}'), ("b.json", b'{"x": 1')]
    with pytest.raises(ValueError, match=r"a\.tar/b\.json cannot be read: Expecting"):
        dv.open(tarred(tmp_path / "a.tar", rows))
    late = dv.open(tarred(tmp_path / "a.tar", rows), rows_settled=1)
    assert late.json.x[0]() == 1
    with pytest.raises(ValueError, match=r"a\.tar/b\.json cannot be read: Expecting"):
        late.json.x()
    rows[1] = ("b.json", b'{"x": "text"}')
    other = dv.open(tarred(tmp_path / "a.tar", rows), rows_settled=1)
    with pytest.raises(ValueError, match=r"row 1 of .*a\.tar \(b\) has a text as field 'json.x'"):
        other.json.x()
    mixed = [("a.cls", b"1"), ("b.cls", b"cat"), ("a.id", b"007"), ("b.id", b"x")]
    d = dv.open(tarred(tmp_path / "a.tar", mixed[:1]))
    assert d.cls().tolist() == [1]
    d = dv.open(tarred(tmp_path / "a.tar", mixed))
    assert d.cls().tolist() == ["1", "cat"] and d.id().tolist() == ["007", "x"]
    rows = [("a.json", b"1"), ("b.json", b'"x"'), ("a.cls", b"1"), ("b.cls", b"2")]
    with pytest.raises(dv.FieldError, match="'json' is an integer in row 0 and a text in row 1"):
        dv.open(tarred(tmp_path / "a.tar", rows)).json  # noqa: B018


def test_archives_of_other_formats_open_as_before(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    np.testing.assert_array_equal(
        dv.open((tmp_path / "a.npz").rename(tmp_path / "a.zip")).x(), [0, 1, 2]
    )
    with zarr.storage.ZipStore(tmp_path / "b.zip", mode="w") as store:
        zarr.create_group(store).create_array("x", data=np.arange(3))
    np.testing.assert_array_equal(dv.open(tmp_path / "b.zip").x(), [0, 1, 2])


# -------------------- read --------------------


def test_files_are_read_by_threads_processes_and_pickles(make):
    d = dv.open(make(shard(40)))
    order = np.random.default_rng(0).permutation(40)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda row: d[int(row)].txt(), order)) == [f"text {n}" for n in order]
    again = pickle.loads(pickle.dumps(d[5:7]))
    assert again.cls().tolist() == [5, 6] and again.png()[:, 0, 0, 0].tolist() == [5, 6]
    batches = [batch.cls() for batch in d._select("cls", "png")._loader(8, workers=2)]
    assert np.concatenate(batches).tolist() == [*range(40)]
    d._close()
    for name in ("cls", "png", "raw"):
        with pytest.raises(ValueError, match="was closed"):
            d._field(name)()


def test_one_file_of_a_large_archive_is_read_alone(tmp_path, monkeypatch):
    path = tarred(tmp_path / "a.tar", [(f"{n}.bin", bytes(10_000)) for n in range(50)])
    d = dv.open(path)
    read = []
    real = members.TextBytes.read
    monkeypatch.setattr(
        members.TextBytes,
        "read",
        lambda self, start, stop: read.append(stop - start) or real(self, start, stop),
    )
    assert d.bin[7]() == bytes(10_000) and read == [10_000]


def test_an_archive_that_changes_is_told(make):
    path = make(shard(3))
    os.utime(path, ns=(1, 1))
    d = dv.open(path)
    if path.suffix not in (".gz", ".tgz"):  # which is read no more
        os.utime(path, ns=(2, 2))
        with pytest.raises(ValueError, match="has changed since it was opened"):
            d.raw()
        with pytest.raises(ValueError, match="has changed since it was opened"):
            d.png()
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(path, "r+")
    with pytest.raises(TypeError, match="no option 'image'"):
        dv.open(path, image=1)
    assert dv.open(path, image_mode="L").png._shape() == (3, 3, 4)


# -------------------- of strangers --------------------


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "a/../../b.txt", "C:\\a.txt", "..\\a.txt"])
def test_files_that_would_leave_the_folder_are_refused(make, name):
    with pytest.raises(ValueError, match=r"cannot be read as an archive: .*outside of the folder"):
        dv.open(make([("a.txt", b""), (name, b"")]))


def link(folder):
    with tarfile.open(folder / "a.tar", "w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return folder / "a.tar"


def link_in_zip(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("a.txt")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return folder / "a.zip"


def twice(folder):
    return tarred(folder / "a.tar", [("a.txt", b"1"), ("a.txt", b"2")])


def cased(folder):
    return tarred(folder / "a.tar", [("a.txt", b"1"), ("a.TXT", b"2")])


def cut(folder):
    path = tarred(folder / "a.tar", [("a.txt", bytes(5000))])
    path.write_bytes(path.read_bytes()[:3000])
    return path


def torn(folder):
    path = tarred(folder / "a.tar", [("a.txt", bytes(10)), ("b.txt", bytes(10))])
    raw = bytearray(path.read_bytes())
    raw[1024 + 3] = 255
    path.write_bytes(raw)
    return path


def long_header(folder):
    info = tarfile.TarInfo("a.txt")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    raw = info.tobuf(tarfile.PAX_FORMAT) + bytes(2000)
    (folder / "a.tar").write_bytes(raw)
    return folder / "a.tar"


def method(folder):
    return zipped(folder / "a.zip", [("a.txt", b"x")], zipfile.ZIP_LZMA)


def lying(folder):
    path = zipped(folder / "a.zip", [("a.txt", b"x" * 100)], zipfile.ZIP_DEFLATED)
    raw = path.read_bytes()
    place = raw.index(b"PK\1\2") + 24
    path.write_bytes(raw[:place] + struct.pack("<I", 1 << 30) + raw[place + 4 :])
    return path


def many_suffixes(folder):
    return zipped(folder / "a.zip", [(f"a.{number}", b"") for number in range(1100)])


def no_rows(folder):
    return zipped(folder / "a.zip", [("readme", b"")])


REFUSED = [
    (link, "'a.txt' is a link"), (link_in_zip, "'a.txt' is a link"),
    (twice, "two files of the name 'a.txt'"),
    (cased, "are of one row and field"), (cut, "'a.txt' is cut short"),
    (torn, "no file at byte 1024"), (long_header, "a header would have 1073741824 bytes"),
    (method, "packed by method 14"), (lying, "cannot be unpacked to so many"),
    (many_suffixes, "more than 1024 suffixes"), (no_rows, "no files that make rows; .*readme"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "why"), REFUSED, ids=lambda row: getattr(row, "__name__", ""))
def test_broken_archives_are_refused(tmp_path, make, why):
    with pytest.raises(ValueError, match=rf"a\.(zip|tar).*{why}"):
        dv.open(make(tmp_path))


def test_bytes_that_are_not_those_packed_are_told(tmp_path):
    path = zipped(tmp_path / "a.zip", [("a.bin", b"x" * 50), ("a.txt", b"text")])
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"x" * 50) + 7] = 0
    path.write_bytes(raw)
    d = dv.open(path)
    assert d.txt().tolist() == ["text"]
    with pytest.raises(ValueError, match=r"a\.zip/a\.bin cannot be read: its bytes are not those"):
        d.bin()


BOMBS = """
import resource, sys
import dataview as dv
dv.open(sys.argv[2]).bin()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
d = dv.open(sys.argv[1])
try:
    d.bin()
except ValueError as error:
    assert "bomb.zip/a.bin cannot be read: it has 1000000000 bytes" in str(error), error
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_a_bomb_takes_little_memory(tmp_path):
    bomb = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("a.bin", "w") as file,
    ):
        for _ in range(1000):
            file.write(bytes(1_000_000))
    small = zipped(tmp_path / "small.zip", [("a.bin", b"x")])
    assert int(printed("-c", BOMBS, bomb, small)) < 30


def test_a_user_decodes_files_in_archives(tmp_path):
    def decode(path):
        with open(path, "rb") as file:
            return np.frombuffer(file.read(), "u1")

    dv.register_decoder(".own", decode, field="own")
    d = dv.open(zipped(tmp_path / "a.zip", [("a.own", b"\1\2"), ("b.own", b"\3\4")]))
    assert d.own().tolist() == [[1, 2], [3, 4]]
