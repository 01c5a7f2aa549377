"""Files of text: lines, JSON lines and SQLite, each against Python's own reader."""

import gzip
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.formats.tables import text_bytes

FEW_PAGES = "".join(f"line {number} é\n" for number in range(3000))


def written(path, text, encoding="utf-8"):
    raw = text.encode(encoding) if isinstance(text, str) else text
    if path.suffix == ".gz":
        raw = gzip.compress(raw)
    path.write_bytes(raw)
    return path


def expected_lines(text):
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


# -------------------- lines --------------------


@given(
    text=st.text(st.sampled_from("ab\n\r\x0b\x85é\u2028\U0001f600\ufeff"), max_size=40),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"]),
    block=st.sampled_from([4, 8, 1 << 20]),
    page=st.sampled_from([1, 5, 4096]),
)
def test_lines_are_those_of_the_text(tmp_path_factory, text, encoding, block, page):
    text = text.removeprefix("\ufeff")
    path = written(tmp_path_factory.mktemp("lines") / "a.txt", text, encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_bytes, "BLOCK", block)
        patch.setattr(text_bytes, "PAGE", page)
        d = dv.open(path, encoding=encoding)
        expected = expected_lines(text)
        assert d().tolist() == expected
        assert [row() for row in d] == expected
        assert d[::-2]().tolist() == expected[::-2]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_lines_are_read_where_they_are(tmp_path, suffix):
    d = dv.open(written(tmp_path / f"a{suffix}", FEW_PAGES))
    expected = np.array(expected_lines(FEW_PAGES), object)
    assert d._shape() == (3000,) and d._dtype().hasobject
    assert d[1234]() == expected[1234]
    rows = np.random.default_rng(0).permutation(3000)
    assert (d[rows]() == expected[rows]).all()
    with ThreadPoolExecutor(4) as pool:
        assert (
            list(pool.map(lambda row: d[int(row)](), rows[:200])) == expected[rows[:200]].tolist()
        )
    again = pickle.loads(pickle.dumps(d[5:9]))
    assert len(pickle.dumps(d)) < 2000 and (again() == expected[5:9]).all()
    d._close()
    with pytest.raises(ValueError, match=r"a\.txt.* was closed"):
        d[0]()


def test_a_file_that_changes_is_told(tmp_path):
    path = written(tmp_path / "a.txt", FEW_PAGES)
    os.utime(path, ns=(1, 1))
    d = dv.open(path)
    sent = pickle.dumps(d)
    written(path, FEW_PAGES.upper())
    with pytest.raises(ValueError, match=r"a\.txt has changed since it was opened; open it again"):
        d[0]()
    with pytest.raises(ValueError, match=r"a\.txt has changed since its view was pickled"):
        pickle.loads(sent)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path):
    path = written(tmp_path / "a.txt", b"a\nb\n\xff\xfe\r\nc")
    d = dv.open(path)
    with pytest.raises(ValueError, match=r"line 3 of .*a\.txt is no text in utf-8: .*encoding="):
        d()
    assert dv.open(path, errors="replace")().tolist() == ["a", "b", "\ufffd\ufffd", "c"]
    assert dv.open(path, encoding="latin-1")()[2] == "ÿþ"
    with pytest.raises(ValueError, match="unknown encoding: no"):
        dv.open(path, encoding="no")
    with pytest.raises(ValueError, match="end otherwise"):
        dv.open(path, encoding="cp037")
    with pytest.raises(ValueError, match="unknown error handler name 'no'"):
        dv.open(path, errors="no")
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(path, "r+")


def test_a_line_that_is_too_long_is_named_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_bytes, "LONGEST", 10)
    for block in (4, 1 << 20):
        monkeypatch.setattr(text_bytes, "BLOCK", block)
        for text in ("a\n\n" + "b" * 20 + "\nc", "a\n\n" + "b" * 20):
            with pytest.raises(ValueError, match=r"line 3 of .*a\.txt has more than 10 bytes"):
                dv.open(written(tmp_path / "a.txt", text))


def test_a_file_that_cannot_be_unpacked_is_named(tmp_path):
    path = tmp_path / "a.txt.gz"
    raw = gzip.compress(FEW_PAGES.encode())
    for broken in (raw[:-20], raw[:30] + b"xxxxx" + raw[35:], raw[:-6] + b"123456"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"a\.txt\.gz cannot be unpacked, or is cut short"):
            dv.open(path)


def test_nothing_stays_of_what_was_unpacked(tmp_path):
    path = written(tmp_path / "a.txt.gz", FEW_PAGES)
    before = len(os.listdir("/proc/self/fd"))
    d = dv.open(path)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    d._close()
    dv.open(path)[0]()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_without_room_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text_bytes, "SPARE", 1 << 60)
    path = written(tmp_path / "a.txt.gz", FEW_PAGES)
    with pytest.raises(OSError, match=r"a\.txt\.gz is unpacked to a temporary file.*no room"):
        dv.open(path)


MANY_LINES = """
import resource, sys
import numpy as np
import dataview as dv
dv.open(sys.argv[2])[0]()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
d = dv.open(sys.argv[1])
assert len(d) == 50_000_000, len(d)
assert d[-1]() == "" and d[[7, 40_000_000]]().tolist() == ["", ""]
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_many_lines_that_are_packed_to_little_take_little_memory(tmp_path):
    with gzip.open(tmp_path / "a.txt.gz", "wb", 1) as file:
        for _ in range(50):
            file.write(b"\n" * 1_000_000)
    small = written(tmp_path / "b.txt.gz", "a\n")
    assert int(printed("-c", MANY_LINES, tmp_path / "a.txt.gz", small)) < 60


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reads_lines(tmp_path, workers):
    d = dv.open(written(tmp_path / "a.txt", FEW_PAGES))
    batches = [batch() for batch in d._loader(100, sampler="permutation", workers=workers)]
    assert sorted(np.concatenate(batches)) == sorted(expected_lines(FEW_PAGES))
