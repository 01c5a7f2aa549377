"""Files of text: lines, JSON lines and SQLite, each against Python's own reader."""

import bz2
import contextlib
import csv
import datetime
import gc
import gzip
import itertools
import json
import lzma
import os
import pickle
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.formats.tables import sqlite
from dataview.formats.texts import json_arrays, text_bytes
from dataview.formats.texts import json_lines as json_files
from dataview.formats.writers import json as json_writer
from dataview.index.sizes import sizes

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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_the_mark_of_an_encoding_is_taken_in_lines(tmp_path, encoding):
    d = dv.open(written(tmp_path / "a.txt", "é\nzwei\n", encoding))
    assert d().tolist() == pickle.loads(pickle.dumps(d))().tolist() == ["é", "zwei"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_lines_in_utf_16_without_a_mark_are_told(tmp_path, encoding):
    path = written(tmp_path / "a.txt", "hello\nworld\n", encoding)
    with pytest.raises(ValueError, match=rf"a\.txt seems to be in UTF-16.*encoding='{encoding}'"):
        dv.open(path)
    assert dv.open(path, encoding=encoding)().tolist() == ["hello", "world"]


@pytest.mark.parametrize(("pack", "end"), [(bz2.compress, ".bz2"), (lzma.compress, ".xz")])
def test_files_that_others_pack_otherwise_are_opened(tmp_path, pack, end):
    def packed(name, text):
        return written(tmp_path / (name + end), pack(text.encode()) + pack(b""))

    d = dv.open(packed("t.tsv", "a\tb\n1\tx\n"))
    assert (d.a().tolist(), d.b().tolist()) == ([1], ["x"])
    assert pickle.loads(pickle.dumps(d)).a[0]() == 1
    assert dv.open(packed("t.jsonl", '{"a": 1}\n')).a().tolist() == [1]
    assert dv.open(packed("t.json", '[{"a": 1}]')).a().tolist() == [1]
    lines = packed("t.txt", "one\ntwo\n")
    assert dv.open(lines)().tolist() == ["one", "two"]
    with pytest.raises(ValueError, match="views are saved as"):
        d._save(tmp_path / f"copy.csv{end}")
    raw = lines.read_bytes()
    for broken in (raw[:-4], raw[:20] + b"xxxx" + raw[24:]):
        with pytest.raises(ValueError, match=r"t\.txt.* cannot be unpacked, or is cut short"):
            dv.open(written(lines, broken))()


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


def test_nothing_stays_of_what_was_unpacked(tmp_path, monkeypatch):
    path = written(tmp_path / "a.txt.gz", FEW_PAGES)
    before = len(os.listdir("/proc/self/fd"))
    small = dv.open(path)
    assert len(os.listdir("/proc/self/fd")) == before and small[1]() == "line 1 é"
    monkeypatch.setattr(text_bytes, "SMALL", 100)
    d = dv.open(path)
    assert len(os.listdir("/proc/self/fd")) == before + 1 and d[1]() == "line 1 é"
    d._close()
    dv.open(path)[0]()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_without_room_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text_bytes, "SPARE", 1 << 60)
    monkeypatch.setattr(text_bytes, "SMALL", 100)
    path = written(tmp_path / "a.txt.gz", FEW_PAGES)
    with pytest.raises(OSError, match=r"a\.txt\.gz is copied to a temporary file.*no room"):
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


# -------------------- lines of JSON --------------------


def json_lines(folder, rows, name="a.jsonl"):
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    return written(folder / name, text)


def as_rows(d):
    """The rows of a view as Python's own objects, without what is missing."""
    return [as_row(d, row) for row in range(len(d))]


def as_row(d, row):
    found = {}
    for name in d._fields():
        if name.endswith("_mask"):
            continue
        part = d._field(name)
        if part._fields():
            found[name] = as_row(part, row)
        elif f"{name}_mask" not in d._fields() or d._field(f"{name}_mask")[row]():
            found[name] = as_python(part[row]())
    return found


def as_python(value):
    return [as_python(one) for one in value] if isinstance(value, np.ndarray) else value


FIELDS = {
    "u": st.integers(0, 2**64 - 1),
    "f": st.floats(allow_nan=False),
    "b": st.booleans(),
    "t é.": st.text(max_size=5),
    "o": st.fixed_dictionaries(
        {"x": st.integers(-5, 5)}, optional={"y": st.lists(st.text(max_size=2), max_size=3)}
    ),
    "l": st.lists(st.floats(allow_nan=False), max_size=3),
    "ll": st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2),
}


@given(
    rows=st.lists(
        st.fixed_dictionaries({"i": st.integers(-(2**63), 2**63 - 1)}, optional=FIELDS), min_size=1
    ),
    page=st.sampled_from([1, 30, 4096]),
    blank=st.sampled_from(["", "\n", "  \r\n"]),
)
def test_rows_are_those_of_the_json(tmp_path_factory, rows, page, blank):
    texts = [json.dumps(row, ensure_ascii=False) + "\n" + blank for row in rows]
    path = json_lines(tmp_path_factory.mktemp("json"), texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_bytes, "PAGE", page)
        d = dv.open(path)
        assert len(d) == len(rows)
        assert as_rows(d) == [{"o": {}} | row if "o" in d._fields() else row for row in rows]
        for name in d._fields():
            part = d._field(name)
            if not part._fields() and None not in part._shape():
                np.testing.assert_array_equal(part[::-2](), part()[::-2])


RECORDS = [
    {"id": 1, "name": "a", "box": {"x": 1, "y": 0.5}, "tags": ["p", "q"]},
    {"id": 2, "name": None, "box": {"x": 2}, "tags": []},
    {"id": 3, "box": None, "good": True, "tags": ["r"]},
]


def test_missing_keys_and_nulls_have_masks(tmp_path):
    d = dv.open(json_lines(tmp_path, RECORDS))
    assert set(d._fields()) == {
        *("id", "name", "name_mask", "box", "box_mask", "tags", "good", "good_mask"),
    }
    assert d.box_mask().tolist() == [True, True, False]
    assert d.id._dtype() == np.int64 and d.id().tolist() == [1, 2, 3]
    assert d.name().tolist() == ["a", None, None] and d.name_mask().tolist() == [True, False, False]
    assert d.good().tolist() == [False, False, True]
    assert d.good_mask().tolist() == [False, False, True]
    assert d.box._fields() == ("x", "y", "x_mask", "y_mask")
    assert d.box.x().tolist() == [1, 2, 0] and d.box.x_mask().tolist() == [True, True, False]
    np.testing.assert_array_equal(d.box.y(), [0.5, np.nan, np.nan])
    assert d.tags._shape() == (3, None) and [row.tolist() for row in d.tags()] == [
        ["p", "q"], [], ["r"],
    ]  # fmt: skip
    assert d.box._dtype() is None or d[1].box.x() == 2


def test_lists_of_objects_are_ragged_fields(tmp_path):
    rows = [{"of": [{"x": 1, "at": [1, 2]}, {"x": None, "at": []}]}, {"of": []}, {"of": None}]
    d = dv.open(json_lines(tmp_path, rows))
    assert as_python(d.of.x[0]())[0] == 1 and np.isnan(d.of.x[0]()[1])
    assert d.of.x._lengths()().tolist() == [2, 0, 0]
    assert d.of.x_mask().tolist() == [True, True, False]
    assert as_python(d.of.at[0]()) == [[1, 2], []]


def test_the_mask_of_lists_is_not_that_of_as_many_values(tmp_path):
    rows = [{"n": 1, "k": [True, None]}, {"n": 2, "k": []}]
    dv.open(json_lines(tmp_path, rows))._save(tmp_path / "b.h5")
    d = dv.open(tmp_path / "b.h5")
    assert d.k_mask().tolist() == [False, True] and pa.table(d).to_pylist() == rows


def test_lists_in_lists_may_lack_some(tmp_path):
    rows = [{"k": [[1.5], None]}, {"k": None}, {"k": []}, {"k": [None, []]}]
    objects = [{"of": [{"x": [True]}, {"x": None}, {}, None]}, {"of": None}] * 2
    d = dv.open(json_lines(tmp_path, [a | b for a, b in zip(rows, objects, strict=True)]))
    assert pa.table(d._select("k")).to_pylist() == rows
    assert d.k_mask().tolist() == [False, False, True, False]
    lists = [[[True], None, None, None], None]
    assert pa.table(d.of)["x"].to_pylist() == lists * 2
    d._save(tmp_path / "b.jsonl")
    saved = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert saved == [row | {"of": {"x": x}} for row, x in zip(rows, lists * 2, strict=True)]


def test_codes_in_lists_are_written_as_their_labels(tmp_path):
    rows = [["x", "y"], [], None, ["y", None]]
    codes = pa.array(rows, pa.list_(pa.dictionary(pa.int32(), pa.string())))
    deep = dv.ragged([[[0, 1], []], [], [[1]], [[0]]])._with_meta(labels=[1.5, 2.5])
    d = dv.View(pa.table({"t": codes}))
    d.deep = deep
    d._save(tmp_path / "b.jsonl")  # without a warning that metadata are left out
    saved = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    inside = [[[1.5, 2.5], []], [], [[2.5]], [[1.5]]]
    assert saved == [{"t": t, "deep": of} for t, of in zip(rows, inside, strict=True)]
    noted = d.deep._with_meta(labels=[1.5, 2.5], unit="m")
    with pytest.warns(RuntimeWarning, match="metadata of 'deep' are not saved"):
        dv.View(deep=noted)._save(tmp_path / "c.jsonl")


LOST = [
    ([{"k": 1}, {"k": "a"}], "k", "is an integer in line 1 and a text in line 2"),
    ([{"k": 1}, {"k": 1.5}, {"k": "a"}], "k", "is an integer in line 1 and a text in line 3"),
    ([{"k": [1]}, {"k": 1}], "k", "is a list in line 1 and an integer in line 2"),
    ([{"k": True}, {"k": 0.5}], "k", "is true or false in line 1 and a number in line 2"),
    ([{"k": {"a": 1}}, {"k": 1}], "k", "is an object in line 1 and an integer in line 2"),
    ([{"k": 2**64}], "k", "has integers of more than 64 bits"),
    ([{"k": -1}, {"k": 2**63}], "k", "has integers of more than 64 bits"),
    ([{"k": 0.5}, {"k": 2**53 + 1}], "k", "has integers that no float has exactly"),
    ([{"k": {}}], "k", "is an object without members"),
    ([{"k": {"in": [1, "a"]}}], "k.in", "is an integer in line 1 and a text in line 1"),
    ([{"": 1}], "", "has an empty name"),
]


def test_truth_values_in_lists_may_lack_some(tmp_path):
    rows = [{"k": [True, None], "deep": [[None, True]]}, {"k": None, "deep": []}, {"k": [False]}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    d = dv.open(path)
    assert d.k_mask().tolist() == [False, False, True] and d.k._sum()() == 1
    assert [row.tolist() for row in d.k._isna()()] == [[False, True], [], [False]]
    assert d.deep[0]._isna()[0]().tolist() == [True, False]
    d._save(tmp_path / "b.jsonl")
    saved = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert saved == [*rows[:2], {"k": [False], "deep": None}]
    assert dv.open(path, fill=True).k[0]().tolist() == [True, True]


@pytest.mark.parametrize(("rows", "name", "why"), LOST)
def test_fields_that_differ_are_told_and_leave_the_others(tmp_path, rows, name, why):
    d = dv.open(json_lines(tmp_path, [{**row, "x": 7} for row in rows]))
    assert d.x().tolist() == [7] * len(rows)
    with pytest.raises(dv.FieldError, match=why):
        d._field(name)


def test_numbers_of_json(tmp_path):
    text = '\ufeff{"i": 1, "f": NaN, "u": 18446744073709551615, "e": [], "n": null}\r\n\r\n'
    text += '{"i": -9223372036854775808, "f": -Infinity, "u": 0, "e": [], "n": null}'
    d = dv.open(json_lines(tmp_path, [text]))
    assert d.i().tolist() == [1, -(2**63)] and d.u().tolist() == [2**64 - 1, 0]
    np.testing.assert_array_equal(d.f(), [np.nan, -np.inf])
    assert "f_mask" not in d._fields()
    assert d.e._lengths()().tolist() == [0, 0]
    assert np.isnan(d.n()).all() and d.n_mask().tolist() == [False, False]


MISFITS = [
    ({"a": "x"}, "has a text as field 'a'"),
    ({"a": None}, "has no value as field 'a'"),
    ({"a": 2**63}, "has 0x8000000000000000, which is no int64, as field 'a'"),
    ({"f": 2**53 + 1}, "has 0x20000000000001, which is no float64, as field 'f'"),
    ({"o": 3}, "has an integer as field 'o'"),
    ({"o": {"x": 1, "new": 1}}, "has a field 'o.new'"),
    ({"new": [1]}, "has a field 'new'"),
    ({"l": [1, "x"]}, "has a text in a list as field 'l'"),
    ({"l": {"x": 1}}, "has an object as field 'l'"),
    ({"r": [{"x": 1}, {"x": 0.5}]}, "has a number in a list as field 'r.x'"),
    ({"l": None}, "has no value as field 'l'"),
    ({"d": [[1], None]}, "has no value in a list as field 'd'"),
]
USUAL = {"a": 1, "f": 0.5, "o": {"x": 1}, "l": [1], "r": [{"x": 1}], "d": [[1]]}


@pytest.mark.parametrize(("misfit", "why"), MISFITS)
def test_a_later_misfit_is_named_by_its_line(tmp_path, misfit, why):
    path = json_lines(tmp_path, [USUAL, "\n", USUAL, {**USUAL, **misfit}, USUAL])
    with pytest.raises(ValueError, match=f"line 4 of .*a.jsonl {why}.* first 1 rows.*_settled=4"):
        (lambda d: (d.a(), d.f(), d.o.x(), d.l(), d.r.x()))(dv.open(path, rows_settled=1))
    dv.open(path)
    dv.open(path, rows_settled=None)


def test_a_misfit_is_told_each_time(tmp_path):
    d = dv.open(json_lines(tmp_path, [USUAL, {**USUAL, "o": {"x": 1, "new": 1}}]), rows_settled=1)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"has a field 'o\.new'"):
            d.o.x()


BROKEN = [
    ('{"a": 1', "cannot be parsed as JSON: Expecting"),
    ('{"a": 1} {"a": 2}', "cannot be parsed as JSON: Extra data"),
    ('{"a": 1, "a": 2}', "cannot be parsed as JSON: it has the key 'a' twice"),
    ("[1, 2]", r"is no object with fields: \[1, 2\]"),
    ('{"a": "\ud800"}'.encode("utf-8", "surrogatepass"), "is no text in UTF-8"),
    ('{"a": ' + "[" * 100_000, "cannot be parsed as JSON: it is nested too deeply"),
    ('{"a": ' + "1" * 5000 + "}", "cannot be parsed as JSON: Exceeds the limit"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_broken_lines_are_named(tmp_path, text, why):
    raw = text if isinstance(text, bytes) else text.encode()
    path = written(tmp_path / "a.jsonl", b'{"a": 1}\n\n' + raw + b'\n{"a": 2}\n')
    with pytest.raises(ValueError, match=f"line 3 of .*a.jsonl {why}"):
        dv.open(path)
    with pytest.raises(ValueError, match=f"line 3 of .*a.jsonl {why}"):
        dv.open(path, rows_settled=1).a()


def test_what_is_too_much_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.jsonl is no table: line 1 is nested more than 100"):
        dv.open(written(tmp_path / "a.jsonl", '{"a": ' * 150 + "1" + "}" * 150))
    rows = [{f"key{row}_{n}": 1 for n in range(10)} for row in range(2000)]
    with pytest.raises(ValueError, match=r"more than 4096 keys by line .*format='lines'"):
        dv.open(json_lines(tmp_path, rows))
    with pytest.raises(ValueError, match="holds no rows"):
        dv.open(json_lines(tmp_path, ["\n"]))
    path = json_lines(tmp_path, RECORDS)
    for wrong in (0, -1, "x"):
        with pytest.raises(ValueError, match="rows_settled is a number of rows"):
            dv.open(path, rows_settled=wrong)
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(path, "r+")


def test_none_stands_among_texts_of_a_list(tmp_path):
    rows = [{"t": ["a", None], "o": [{"n": None}, {"n": "b"}]}, {"t": [], "o": [{}]}]
    path = json_lines(tmp_path, rows)
    d = dv.open(path)
    assert as_python(d.t()) == [["a", None], []] and as_python(d.o.n()) == [[None, "b"], [None]]
    d._save(tmp_path / "again.jsonl")
    assert as_python(dv.open(tmp_path / "again.jsonl").t()) == [["a", None], []]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_the_mark_of_an_encoding_is_taken_in_json(tmp_path, encoding, suffix):
    rows = '{"x": 1, "t": "é\U0001f600"}\n{"x": 2, "t": "b"}\n'
    if suffix == ".json":
        rows = f"[{rows.strip().replace(chr(10), ',')}]"
    d = dv.open(written(tmp_path / f"a{suffix}", rows, encoding))
    assert d.x().tolist() == [1, 2] and d.t[0]() == "é\U0001f600"
    assert pickle.loads(pickle.dumps(d)).t[1]() == "b"


MANY = [
    {
        "i": n, "t": f"text {n}", "l": [*range(n % 3)], "o": {"f": n / 2},
        "v": [{"a": n, "b": 1.5}],
    }
    for n in range(5000)
]  # fmt: skip
ANY_ORDER = np.random.default_rng(1).permutation(5000)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".txt", ".csv"])
def test_what_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"bomb{suffix}.gz"
    raw = {".json": b"[" + b'{"x": 1},' * 999 + b'{"x": 1}]'}.get(suffix, b'{"x": 1}\n' * 999)
    path.write_bytes(gzip.compress(raw + b"\n" * (3 << 20)))
    dv.open(path)  # which is no harm
    monkeypatch.setattr(text_bytes, "LEAST_BOMB", 1 << 20)
    with pytest.raises(ValueError, match=r"bomb.* unpacks to more than 200 times as many"):
        dv.open(path)
    path.write_bytes(gzip.compress(np.random.default_rng(1).bytes(1 << 16).hex().encode() * 20))
    if suffix == ".txt":  # as one that is packed well is read
        assert len(dv.open(path)) == 1


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson.gz"])
def test_rows_of_json_are_read_in_any_order(tmp_path, suffix):
    d = dv.open(json_lines(tmp_path, MANY, f"a{suffix}"), rows_settled=100)
    rows = np.random.default_rng(0).permutation(5000)
    assert d.i[rows]().tolist() == rows.tolist()
    assert d.t[4321]() == "text 4321" and d[-1].o.f() == 4999 / 2
    assert [len(row) for row in d.l[rows]()] == (rows % 3).tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda row: d[int(row)].i(), rows[:200])) == rows[:200].tolist()
    sent = pickle.dumps(d.o.f[5:9])
    assert len(sent) < 2000 and pickle.loads(sent)().tolist() == [2.5, 3.0, 3.5, 4.0]
    batches = [batch.i() for batch in d._loader(100, sampler="permutation", workers=2)]
    assert sorted(np.concatenate(batches)) == list(range(5000))
    d._save(tmp_path / "b.h5")
    assert bool((dv.open(tmp_path / "b.h5").t == d.t)._all()())
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d.i[0]()


def test_one_row_reads_a_page_and_fields_are_parsed_together(tmp_path, monkeypatch):
    d = dv.open(json_lines(tmp_path, MANY))
    read = []
    real = json_files.JsonTable.read
    monkeypatch.setattr(
        json_files.JsonTable,
        "read",
        lambda self, names, first, stop: (
            read.append((len(names), first, stop)) or real(self, names, first, stop)
        ),
    )
    d.i[[7, 4000]](), d.t[[7, 4000]]()
    assert [stop - first for _, first, stop in read] == [1] * 4
    read.clear()
    for batch in d._minibatches(500):
        batch.i(), batch.t(), batch.o.f()
    assert [names for names, *_ in read[-4:]] == [3] * 4


@pytest.mark.parametrize(
    "use",
    [
        lambda d: d._select("i", "t")(),
        lambda d: d._select("i", "t", "o")._asdict(),
        lambda d: d[::-1]._select("i", "t", "o")._asdict(),
        lambda d: d._select("i", "t", "o")._freeze(),
        lambda d: d._select("i", "t")._describe(),
        lambda d: [(row.i(), row.t(), row.o.f()) for row in d],
        lambda d: [(batch.i(), batch.t(), batch.o.f()) for batch in d._minibatches(70)],
        lambda d: [(batch.i(), batch.t(), batch.o.f()) for batch in d._loader(70)],
        lambda d: [*d._loader(70, fields={"a": "i", "b": "t"})],
        lambda d: d.l(),
        lambda d: (d.l._lengths()(), d.v.a._lengths()(), d.v.b._lengths()()),
        lambda d: dv.evaluate(d.i._sum(), d.o.f._mean(), d.o.f._std(), (d.i + d.o.f)._max()),
        lambda d: d._select("i", "t", "o")[ANY_ORDER]._asdict(),
        lambda d: [row.o.f() for row in d[ANY_ORDER]._select("i", "t", "o")._freeze()],
        lambda d: d._select("i", "o")._save("saved.h5"),
        lambda d: d._select("i", "t", "o")._save("saved.csv"),
        lambda d: d._select("i", "t", "o")._save("saved.jsonl"),
        lambda d: d._select("i", "t", "o")._save("saved.parquet"),
        lambda d: d._select("i", "o")._save("saved.npz"),
    ],
)
def test_a_line_is_parsed_once_for_all_fields_that_are_asked_for(use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    d = dv.open(json_lines(tmp_path, MANY), rows_settled=100)
    parsed = []
    real = json_files.parsed
    monkeypatch.setattr(json_files, "parsed", lambda text: parsed.append(text) or real(text))
    monkeypatch.setattr(json_files.JsonTable, "kept_bytes", 1 << 17)
    use(d)
    assert len(parsed) == len(MANY)


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".jsonl", ".feather", ".npz"])
def test_lists_are_saved_in_two_passes(suffix, tmp_path, monkeypatch):
    d = dv.open(json_lines(tmp_path, MANY), rows_settled=100)
    d = d._drop("t") if suffix == ".npz" else d
    parsed = []
    real = json_files.parsed
    monkeypatch.setattr(json_files, "parsed", lambda text: parsed.append(text) or real(text))
    with sizes.set(block_bytes=4000):
        d._save(tmp_path / f"b{suffix}")
    assert len(parsed) <= 2 * len(MANY)
    again = dv.open(tmp_path / f"b{suffix}")
    assert [row.tolist() for row in again.v.b()] == [row.tolist() for row in d.v.b()]
    assert (again.i() == d.i()).all() and (again.o.f() == d.o.f()).all()


def test_rows_of_json_in_any_order_are_parsed_once_while_they_are_kept(tmp_path, monkeypatch):
    d = dv.open(json_lines(tmp_path, MANY), rows_settled=100)
    parsed = []
    real = json_files.parsed
    monkeypatch.setattr(json_files, "parsed", lambda text: parsed.append(text) or real(text))
    for numbers, texts in d._loader(500, sampler="permutation", fields=("i", "t")):
        assert texts.tolist() == [f"text {number}" for number in numbers]
    assert len(parsed) < 2.5 * len(MANY)  # of the first batches the fields are not yet known
    d.l(), d.v.a(), parsed.clear()
    assert [len(row) for row in d.l[ANY_ORDER]()] == (ANY_ORDER % 3).tolist()
    assert not parsed


# -------------------- one array of JSON --------------------


@given(
    rows=st.lists(
        st.fixed_dictionaries({"i": st.integers(-(2**63), 2**63 - 1)}, optional=FIELDS), min_size=1
    ),
    indent=st.sampled_from([None, 1]),
)
def test_an_array_of_objects_is_what_they_are_in_lines(tmp_path_factory, rows, indent):
    folder = tmp_path_factory.mktemp("array")
    path = written(folder / "a.json", json.dumps(rows, indent=indent))
    d, lines = dv.open(path), dv.open(json_lines(folder, rows))
    assert d._fields() == lines._fields()
    assert as_rows(d) == as_rows(lines)


def test_arrays_of_objects_are_packed_pickled_joined_and_closed(tmp_path):
    one = written(tmp_path / "a.json", '\ufeff[{"x": 1, "t": "a"}, {"x": 2.5}]')
    two = written(tmp_path / "b.json", '[{"x": 3, "t": null}]')
    packed = written(tmp_path / "c.json.gz", '[{"x": [1, 2]}, {"x": []}]')
    d = dv.open([one, two])
    assert (d.x().tolist(), d.t().tolist()) == ([1, 2.5, 3], ["a", None, None])
    assert dv.open(one, fill={"t": "?"}).t().tolist() == ["a", "?"]
    assert pickle.loads(pickle.dumps(d)).x().tolist() == [1, 2.5, 3]
    assert as_rows(dv.open(packed)) == [{"x": [1, 2]}, {"x": []}]
    same = pickle.dumps(dv.open(one))
    written(one, '[{"x": 1}]')
    with pytest.raises(ValueError, match=r"a\.json has changed since its view was pickled"):
        pickle.loads(same)
    d._close()
    with pytest.raises(ValueError, match="closed"):
        d.x()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": [1], "b c": 2}', r"an object with the keys 'a', 'b c'; dv\.View\(pandas"),
        ("[1, 2]", "element 0 of this array is 1"),
        ('[{"a": 1}, [2]]', r"element 1 of this array is \[2\]"),
        ("[]", "this array is empty"),
        ("3.5", "this is 3.5"),
        ('{"a": 1}\n{"a": 2}\n', r"cannot be parsed as JSON: Extra data.*format='json lines'"),
        ('[{"a": 1]', "cannot be parsed as JSON: Expecting ',' delimiter: line 1"),
        (b'[{"a": "\xff"}]', "is no text in UTF-8"),
        ('[{"a": 1, "a": 2}]', "has the key 'a' twice"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"a": ' + '{"a": ' * 150 + "1" + "}" * 151 + "]", "row 0 is nested more than 100"),
    ],
)  # fmt: skip
def test_other_json_is_no_table(tmp_path, text, told):
    path = written(tmp_path / "a.json", text)
    with pytest.raises(ValueError, match=rf"a\.json .*{told}"):
        dv.open(path)


def test_an_array_in_a_file_of_lines_is_told(tmp_path):
    path = written(tmp_path / "a.jsonl", '[{"a": 1}, {"a": 2}]')
    with pytest.raises(ValueError, match=r"line 1 of .* is no object.*format='json'\) is a table"):
        dv.open(path)
    assert dv.open(path, format="json").a().tolist() == [1, 2]


def test_json_is_not_changed_in_place_and_not_of_any_size(tmp_path, monkeypatch):
    path = written(tmp_path / "a.json", '[{"a": 1}]')
    with pytest.raises(ValueError, match="JSON cannot be changed in place"):
        dv.open(path, "r+")
    monkeypatch.setattr(json_arrays, "LARGEST", 5)
    with pytest.raises(ValueError, match=r"has 10 bytes, and .* as lines of JSON"):
        dv.open(path)


# -------------------- lines of JSON: saved --------------------


def no_json(text):
    raise AssertionError(f"{text} is no JSON")


def lines_of(path, **options):
    """The lines of a file, which are JSON as other languages read it."""
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8", newline="") as file:
        return [json.loads(line, parse_constant=no_json, **options) for line in file]


@given(
    rows=st.lists(
        st.fixed_dictionaries({"i": st.integers(-(2**63), 2**63 - 1)}, optional=FIELDS), min_size=1
    ),
    suffix=st.sampled_from([".jsonl", ".ndjson", ".jsonl.gz"]),
    most=st.sampled_from([1, 2, 8192]),
)
def test_rows_of_json_come_back_when_they_are_saved(tmp_path_factory, rows, suffix, most):
    folder = tmp_path_factory.mktemp("saved")
    path = folder / f"b{suffix}"
    before = dv.open(json_lines(folder, rows))
    with mock.patch.object(json_writer, "MOST_ROWS", most):
        before._save(path)
    assert as_rows(dv.open(path)) == as_rows(before)
    assert len(lines_of(path)) == len(rows)


COLUMNS_OF_JSON = {
    "f4": np.array([0.1, np.nan, -np.inf], "f4"),
    "f8": np.array([1e300, -0.0, np.inf]),
    "big": np.array([2**64 - 1, 0, 1], "u8"),
    "day": np.array(["2026-11-22", "NaT", "1969-12-31"], "M8[D]"),
    "text": np.array(["é\n\u2028", '"\\', None], object),
    "short": np.array(["a", "", "\0b"]),
    "odd": np.array(["\ud800", "a", None], object),
    "cube": np.arange(12).reshape(3, 2, 2),
    "none": np.zeros((3, 2, 0)),
}


def test_each_kind_of_column_is_json(tmp_path):
    path = tmp_path / "a.jsonl"
    dv.View(COLUMNS_OF_JSON)._save(path)
    rows = lines_of(path)
    assert rows[0] == {
        "f4": 0.1, "f8": 1e300, "big": 2**64 - 1, "day": "2026-11-22", "text": "é\n\u2028",
        "short": "a", "odd": "\ud800", "cube": [[0, 1], [2, 3]], "none": [[], []],
    }  # fmt: skip
    assert [rows[1][name] for name in ("f4", "day", "short")] == [None, None, ""]
    assert path.read_text().split("\n")[2].startswith('{"f4": -1e999, "f8": 1e999, "big": 1, ')
    d = dv.open(path)
    np.testing.assert_array_equal(d.f4().astype("f4"), COLUMNS_OF_JSON["f4"])
    for name in ("f8", "big", "text", "short", "odd"):
        np.testing.assert_array_equal(d._field(name)(), COLUMNS_OF_JSON[name])
    assert as_python(d.cube[2]()) == [[8, 9], [10, 11]]


def test_records_masks_lists_and_labels_are_written_as_json_has_them(tmp_path):
    path = tmp_path / "a.jsonl"
    d = dv.View(
        {
            "n": np.array([1, 2, 3]),
            "n_mask": np.array([True, False, True]),
            "of": {"x": dv.View([[1, 2], [], [3]]), "y": {"z": np.array([True, False, True])}},
            "pet": np.array([1, -1, 0]),
        },
        _meta={"pet": {"labels": ["cat", "dog"]}},
    )
    d._save(path)
    assert path.read_text().splitlines() == [
        '{"n": 1, "of": {"x": [1, 2], "y": {"z": true}}, "pet": "dog"}',
        '{"n": null, "of": {"x": [], "y": {"z": false}}, "pet": null}',
        '{"n": 3, "of": {"x": [3], "y": {"z": true}}, "pet": "cat"}',
    ]
    again = dv.open(path)
    again._save(tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_text() == path.read_text()
    d = dv.View(x=np.arange(2), _meta={"x": {"unit": "m"}})
    with pytest.warns(RuntimeWarning, match="JSON hold values alone: the metadata of 'x'"):
        d._save(path)


@pytest.mark.parametrize("is_coded", [True, False])
def test_objects_of_python_and_labels_that_are_such_are_written_as_json_has_them(
    tmp_path, is_coded
):
    given = {
        "day": [datetime.date(2020, 1, 2), None],
        "time": [None, datetime.time(3, 4, 5)],
        "moment": [datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC), None],
        "price": [Decimal("1.50"), None],
        "large": [Decimal("-Infinity"), Decimal("1E+3")],
    }
    columns = {name: dv.View(np.array(values, object)) for name, values in given.items()}
    if is_coded:
        columns = {name: column._codes() for name, column in columns.items()}
        columns["raw"] = dv.View(np.array([b'"', None], object))._codes()
    dv.View(columns)._save(tmp_path / "a.jsonl")
    first, second = lines_of(tmp_path / "a.jsonl", parse_float=Decimal)
    raw = [{"raw": '"'}, {"raw": None}] if is_coded else [{}, {}]
    assert first == {
        "day": "2020-01-02", "time": None, "moment": "2020-01-02T03:00:00+00:00",
        "price": Decimal("1.50"), "large": Decimal("-1e999"), **raw[0],
    }  # fmt: skip
    assert second == {
        "day": None, "time": "03:04:05", "moment": None, "price": None, "large": 1000, **raw[1],
    }  # fmt: skip


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_day_are_written_as_python_writes_times(unit, tmp_path):
    kind = (pa.time32 if unit in ("s", "ms") else pa.time64)(unit)
    parts = {"s": 0, "ms": 7000, "us": 1, "ns": 1}
    times = [datetime.time(1), None, datetime.time(23, 59, 58, parts[unit]), datetime.time(0)]
    lists = [[times[0]], None, [times[2], None], []]
    table = pa.table({"t": pa.array(times, kind), "lists": pa.array(lists, pa.list_(kind))})
    d = dv.View(table)
    d._save(tmp_path / "a.jsonl")
    dv.View(t=d.t, t_mask=d.t_mask, n=np.arange(4))._save(tmp_path / "a.csv")

    def read(text):
        return None if text is None else datetime.time.fromisoformat(text)

    rows = lines_of(tmp_path / "a.jsonl")
    assert [read(row["t"]) for row in rows] == times
    found = [None if row["lists"] is None else [*map(read, row["lists"])] for row in rows]
    assert found == lists
    with open(tmp_path / "a.csv", newline="") as file:
        cells = [row["t"] for row in csv.DictReader(file)]
    assert [read(cell or None) for cell in cells] == times
    assert cells[0] == "01:00:00" and cells[3] == "00:00:00"


def test_durations_and_what_is_no_time_of_day_are_refused_in_tables_of_texts(tmp_path):
    passed = dv.View(t=np.array([3600, 86400], "m8[s]"))
    times = dv.View(t=passed.t, _meta={"t": {"time_of_day": True}})
    for name in ("a.csv", "a.jsonl"):
        told = r"'t' is of dtype timedelta64\[s\].*view / np.timedelta64\(1, 's'\) are numbers"
        with pytest.raises(TypeError, match=told):
            passed._save(tmp_path / name)
        with pytest.raises(ValueError, match="field 't': 86400 seconds is no time of day"):
            times._save(tmp_path / name)
        coded = dv.View(t=passed.t._codes())
        with pytest.warns(RuntimeWarning, match="metadata of 't'"):
            coded._save(tmp_path / name)  # whose labels are durations
        assert "0" in (tmp_path / name).read_text().splitlines()[name == "a.csv"]
        os.remove(tmp_path / name)


def test_what_no_line_of_json_holds_is_refused_and_leaves_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    dv.View(x=np.arange(1, 2))._save(path)
    images = dv.View([np.zeros((2, 3)), np.zeros((3, 2))])
    for data, told in (
        ({"x": np.zeros(2, "c8")}, "'x' is of dtype complex64.*holds numbers, bools, dates and"),
        ({"x": np.zeros(2, "g")}, "numbers that are read with 64 bits"),
        (np.zeros(3), r"a table has columns with names.*dv\.View\(x=view\)"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, "and all as many; got"),
        ({"x": np.array(["a", b"b"], object)}, "field 'x' has b'b', and .* texts, and None or NaN"),
        ({"x": images}, "differ along several axes"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            dv.View(data)._save(path)
        assert path.read_text() == '{"x": 1}\n'
    assert os.listdir(tmp_path) == ["a.jsonl"]


SAVED_IN_PARTS = """
import resource, sys
import numpy as np
import dataview as dv
dv.View(x=np.ones(1), y=dv.View([[1, 2]]))._save(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = dv.View(np.broadcast_to(1.5, (500_000, 3))) + np.arange(3.0)
dv.View(x=x, y=x[:, 0], z=x[:, 1])._save(sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_rows_of_json_are_saved_in_little_memory(tmp_path):
    path = tmp_path / "a.jsonl"
    assert int(printed("-c", SAVED_IN_PARTS, path)) < 20
    assert path.stat().st_size > 20_000_000
    assert dv.open(path, rows_settled=1)[-1].x().tolist() == [1.5, 2.5, 3.5]


# -------------------- SQLite --------------------


def database(folder, *statements, name="a.db", rows=None):
    path = folder / name
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        for table, values in (rows or {}).items():
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        connection.commit()
    return path


CELLS = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False),
    "t": st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5),
    "b": st.binary(max_size=5),
}


@given(
    rows=st.lists(st.tuples(*(st.none() | cell for cell in CELLS.values())), max_size=9),
    keys=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=9, max_size=9, unique=True),
    how=st.sampled_from(["rowid", "key", "in a row", "query", "without rowid"]),
    size=st.sampled_from([1, 1 << 11]),
)
def test_columns_are_those_of_sqlite(tmp_path_factory, rows, keys, how, size):
    path = tmp_path_factory.mktemp("sqlite") / "a.db"
    declared = "k INTEGER PRIMARY KEY, i, f REAL, t TEXT, b BLOB"
    end = " WITHOUT ROWID" if how == "without rowid" else ""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE x ({declared}){end}")
        if how == "in a row":
            keys = range(9)
        connection.executemany("INSERT INTO x VALUES (?, ?, ?, ?, ?)", [
            (key, *row) for key, row in zip(keys, rows, strict=False)
        ])  # fmt: skip
        connection.commit()
        expected = connection.execute("SELECT * FROM x ORDER BY k").fetchall()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "GROUP_BYTES", size)
        asked = {"query": "SELECT * FROM x ORDER BY k"} if how == "query" else {}
        with dv.open(path, **asked) as d:
            assert len(d) == len(rows)
            for place, name in enumerate(("k", *CELLS)):
                values = [row[place] for row in expected]
                missing = [value is None for value in values]
                found = d._field(name)().tolist()
                if any(missing):
                    assert d._field(f"{name}_mask")().tolist() == [not one for one in missing]
                assert [one for one, no in zip(found, missing, strict=True) if not no] == [
                    one for one in values if one is not None
                ]
                assert repr(d._field(name)[::-2]().tolist()) == repr(found[::-2])


PEOPLE = [(1, "a", 0.5, 1, b"x"), (2, None, 1.5, 0, b""), (3, "c", None, None, None)]


def people(folder, **options):
    create = (
        'CREATE TABLE "some ""people""; --" (id INTEGER PRIMARY KEY, name, x REAL, ok BOOLEAN, raw)'
    )
    return database(folder, create, rows={'"some ""people""; --"': PEOPLE}, **options)


def test_types_are_those_of_the_values(tmp_path):
    d = dv.open(people(tmp_path))
    assert d.id._dtype() == np.int64 and d.x._dtype() == np.float64 and d.ok._dtype() == np.bool_
    assert d.name().tolist() == ["a", None, "c"] and d.raw().tolist() == [b"x", b"", None]
    assert d.ok().tolist() == [True, False, False] and d.ok_mask().tolist() == [True, True, False]
    np.testing.assert_array_equal(d.x(), [0.5, 1.5, np.nan])
    assert d[d.id > 1].name().tolist() == [None, "c"]
    assert "id_mask" not in d._fields()
    empty = dv.open(database(tmp_path, "CREATE TABLE e (a INT, b TEXT, c, d BLOB)", name="e.db"))
    assert [empty._field(name)._dtype().kind for name in "abcd"] == ["i", "O", "f", "O"]
    assert empty._shape() == (0,)


def test_a_table_is_chosen_by_its_name(tmp_path):
    path = database(
        tmp_path,
        "CREATE TABLE one (a)",
        "CREATE TABLE two (b, rowid, oid, _rowid_)",
        "CREATE VIEW three AS SELECT a + 1 AS c FROM one",
        rows={"one": [(1,), (2,)], "two": [(3, 4, 5, 6)]},
        name="a.sqlite3",
    )
    with pytest.raises(ValueError, match=r"a\.sqlite3 has the tables one, two; table= names one"):
        dv.open(path)
    with pytest.raises(ValueError, match=r"no table 'tow'; did you mean 'two'\?; it has one, two"):
        dv.open(path, table="tow")
    assert dv.open(path, table="one").a().tolist() == [1, 2]
    assert dv.open(path, table="two").oid().tolist() == [5]
    assert dv.open(path, table="three").c().tolist() == [2, 3]
    with pytest.raises(ValueError, match="not both"):
        dv.open(path, table="one", query="SELECT 1")
    with pytest.raises(ValueError, match=r"those of query=, which is missing"):
        dv.open(path, table="one", parameters=(1,))
    with pytest.raises(ValueError, match="read and never written"):
        dv.open(path, "r+", table="one")
    empty = database(tmp_path, name="empty.db")
    with pytest.raises(ValueError, match=r"empty\.db has no tables"):
        dv.open(empty)
    with pytest.raises(ValueError, match=r"text\.db is no SQLite database"):
        dv.open(written(tmp_path / "text.db", "some text that is longer"))
    assert dv.open(path.rename(tmp_path / "other"), table="one").a[1]() == 2


def test_a_query_is_run_once_and_its_rows_are_numbered(tmp_path):
    path = people(tmp_path)
    query = 'SELECT id * 10 AS ten, name FROM "some ""people""; --" WHERE id > ? ORDER BY id DESC'
    d = dv.open(path, query=query, parameters=(1,))
    assert d._fields() == ("ten", "name", "name_mask")
    assert d.ten().tolist() == [30, 20] and d[-1].name() is None
    assert pickle.loads(pickle.dumps(d.ten))().tolist() == [30, 20]
    named = dv.open(path, query="SELECT :a AS a", parameters={"a": "x"})
    assert named.a().tolist() == ["x"]
    for wrong, why in [
        ("SELECT other", "no such column: other"),
        ("DELETE FROM x", "near .DELETE"),
        ("SELECT 1; DROP TABLE x", "one statement at a time"),
        ("SELECT ?", "binding"),
    ]:
        with pytest.raises(ValueError, match=rf"a\.db cannot be read by SQLite: .*{why}"):
            dv.open(path, query=wrong)
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d.ten()


MIXED = [
    ([1, "a"], r"has 1 integers and 1 texts; query=\"SELECT CAST"),
    ([0.5, 2**53 + 1], "of which no float has all"),
    (["a", b"a"], "has 1 texts and 1 bytes"),
]


@pytest.mark.parametrize(("values", "why"), MIXED)
def test_a_column_of_several_types_is_told_and_leaves_the_others(tmp_path, values, why):
    path = database(tmp_path, "CREATE TABLE x (a, b)", rows={"x": [(v, 7) for v in values]})
    d = dv.open(path)
    assert d.b().tolist() == [7] * len(values)
    with pytest.raises(dv.FieldError, match=why):
        d.a  # noqa: B018
    cast = dv.open(path, query="SELECT CAST(a AS TEXT) AS a FROM x")
    assert cast.a._dtype().hasobject
    both = database(tmp_path, "CREATE TABLE x (a)", rows={"x": [(1,), (0.5,)]}, name="b.db")
    assert dv.open(both).a().tolist() == [1.0, 0.5]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_that_is_written_meanwhile_is_told(tmp_path, journal):
    path = database(
        tmp_path, f"PRAGMA journal_mode = {journal}", "CREATE TABLE x (a)", rows={"x": [(1,), (2,)]}
    )
    time.sleep(0.15)
    d = dv.open(path)
    sent, several = pickle.dumps(d), dv.open([path, path])
    assert d.a[0]() == 1 and several.a[0]() == 1
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO x VALUES (3)")
        connection.commit()
        with pytest.raises(ValueError, match=r"a\.db has changed since it was opened"):
            d.a[1]()
        for view in (d, several):  # of which the row was read before
            with pytest.raises(ValueError, match=r"a\.db has changed since it was opened"):
                view.a[0]()
        with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="has changed since"):
            pool.submit(lambda: d.a[1]()).result()
    with pytest.raises(ValueError, match="has changed since its view was pickled"):
        pickle.loads(sent)
    assert dv.open(path).a().tolist() == [1, 2, 3]


@pytest.mark.parametrize("asked", [{}, {"query": "SELECT * FROM x ORDER BY a"}])
def test_rows_of_sqlite_are_read_in_any_order(tmp_path, asked):
    rows = [(number, f"text {number}") for number in range(3000)]
    path = database(tmp_path, "CREATE TABLE x (a INT, t TEXT)", rows={"x": rows})
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    d = dv.open(path, **asked)
    order = np.random.default_rng(0).permutation(3000)
    assert d.a[order]().tolist() == order.tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda row: d[int(row)].t(), order[:200])) == [
            f"text {row}" for row in order[:200]
        ]
    assert len(pickle.dumps(d.a)) < 2000 and pickle.loads(pickle.dumps(d.a))[7]() == 7
    batches = [batch.a() for batch in d._loader(100, sampler="permutation", workers=2)]
    assert sorted(np.concatenate(batches)) == list(range(3000))
    d._close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_cell_of_sqlite_that_is_no_text_is_named(tmp_path):
    path = database(tmp_path, "CREATE TABLE x (n, s)")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executemany("INSERT INTO x VALUES (?, ?)", ((n, f"é{n}") for n in range(50)))
        connection.execute("UPDATE x SET s = CAST(x'41ff' AS TEXT) WHERE n = 40")
        connection.commit()
    d = dv.open(path)
    told = r"a\.db: the text in row 40 of a\.db/x, column 's', is not in UTF-8 .*CAST"
    with pytest.raises(ValueError, match=told):
        d.s()
    with pytest.raises(ValueError, match=told):
        d[40]()
    assert d.n()[40] == 40
    raw = dv.open(path, query="SELECT CAST(s AS BLOB) AS s FROM x")
    assert raw.s[40]() == b"A\xff"


def test_a_schema_that_is_no_text_is_an_error_that_names_the_file(tmp_path):
    path = database(tmp_path, "CREATE TABLE x (a, b)")
    raw = path.read_bytes()
    assert raw.count(b"CREATE") == 1
    path.write_bytes(raw.replace(b"CREATE", b"CRE\xf2TE"))
    with pytest.raises(ValueError, match=r"a\.db cannot be read by SQLite"):
        dv.open(path)


def test_a_cell_of_a_gigabyte_is_refused_in_little_memory(tmp_path):
    path = database(tmp_path, "CREATE TABLE x (a, b)")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO x VALUES (1, zeroblob(100000000))")
        connection.commit()
    d = dv.open(path)
    with pytest.raises(ValueError, match=r"a\.db cannot be read by SQLite: .*too big.*query="):
        d.b()
    part = dv.open(path, query="SELECT a, substr(b, 1, 3) AS b FROM x")
    assert part.b().tolist() == [b"\0\0\0"]


# -------------------- several files --------------------


def test_files_of_one_kind_follow_one_another(tmp_path):
    for number in range(3):
        written(tmp_path / f"{number}.txt", f"{number}\nend\n")
        json_lines(tmp_path, [{"n": number, "l": [number] * number}] * 2, f"{number}.jsonl")
        rows = {"x": [(number, None if number == 1 else "t")]}
        database(tmp_path, "CREATE TABLE x (n, t TEXT)", rows=rows, name=f"{number}.db")
    assert dv.open(f"{tmp_path}/*.txt")[::2]().tolist() == ["0", "1", "2"]
    d = dv.open([tmp_path / "2.jsonl", tmp_path / "0.jsonl"])
    assert d.n().tolist() == [2, 2, 0, 0] and [len(row) for row in d.l()] == [2, 2, 0, 0]
    d = dv.open(f"{tmp_path}/?.db")
    assert d.n().tolist() == [0, 1, 2] and d.t_mask().tolist() == [True, False, True]
    assert dv.open(f"{tmp_path}/?.db", fill="?").t().tolist() == ["t", "?", "t"]
    json_lines(tmp_path, [{"n": 1, "more": 0.5}], "3.jsonl")
    d = dv.open([tmp_path / "0.jsonl", tmp_path / "3.jsonl"])
    assert d.more_mask().tolist() == [False, False, True] and d.l_mask().tolist() == [
        True,
        True,
        False,
    ]
    assert pickle.loads(pickle.dumps(d.more))[2]() == 0.5
    d = dv.open([tmp_path / "3.jsonl", tmp_path / "0.jsonl"], fill={"more": -1})
    assert d.more().tolist() == [0.5, -1, -1]
    json_lines(tmp_path, [{"n": "x"}], "4.jsonl")
    d = dv.open([tmp_path / "4.jsonl", tmp_path / "0.jsonl"])
    told = r"'n' is a text in line 1 of 4\.jsonl and an integer in line 1 of 0"
    with pytest.raises(dv.FieldError, match=told):
        d.n  # noqa: B018


NESTED = {
    "empty": [[], []],
    "of empty": [[[]], []],
    "full": [[[1], [2, 3]], [[]]],
    "missing": [None],
}


@pytest.mark.parametrize("schema", ["same", "union"])
@pytest.mark.parametrize("names", [*itertools.permutations(NESTED, 3)], ids=", ".join)
def test_lists_that_are_all_empty_in_a_file_are_what_they_are_in_others(tmp_path, names, schema):
    values, paths = [], []
    for name in names:
        rows = [json.dumps({"m": value}) + "\n" for value in NESTED[name]]
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(rows))
        values += NESTED[name]
    d = dv.open(paths, schema=schema)
    assert pa.table(d)["m"].to_pylist() == values
    assert pa.table(d[::-1])["m"].to_pylist() == values[::-1]
    assert pa.table(d[[3, 1]])["m"].to_pylist() == [values[3], values[1]]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.json", "x.txt"])
def test_rows_that_were_read_are_not_given_once_the_file_has_changed(name, tmp_path):
    path = tmp_path / name
    texts = {
        "x.json": json.dumps([{"a": number} for number in range(1000)]),
        "x.txt": "\n".join(map(str, range(1000))),
    }
    if name in texts:
        path.write_text(texts[name])
    else:
        dv.View(a=np.arange(1000))._save(path)
    d = dv.open(path)
    rows = d if name == "x.txt" else d.a
    assert list(map(int, rows[500:503]())) == [500, 501, 502]
    path.write_text(path.read_text().replace("501", "777") + "\n")
    for key in (np.s_[500:503], 501, [502]):
        with pytest.raises(ValueError, match=r"x\.\w+ has changed since it was opened; open it"):
            rows[key]()


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_objects_that_are_missing_stay_missing(name, tmp_path):
    rows = [
        {"s": {"a": 1, "t": {"u": 1.5}}, "n": 1, "whole": {"x": 1}, "of": [{"y": 1}, None]},
        {"s": None, "n": None, "whole": {"x": 2}, "of": []},
        {"s": {"a": None, "t": None}, "n": 3, "whole": {"x": 3}, "of": None},
        {"n": 4, "whole": {"x": 4}, "of": [{}]},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text(json.dumps(rows) if name == "x.json" else lines)
    d = dv.open(tmp_path / name)._drop("of")
    expected = [{"s": None, **{key: row[key] for key in row if key != "of"}} for row in rows]
    assert d._fields() == ("s", "n", "whole", "s_mask", "n_mask")
    assert d.s_mask().tolist() == [True, False, True, False]
    assert d.s.t_mask[::-1]().tolist() == [False, False, False, True]
    assert pa.table(d).to_pylist() == expected
    for again in ("again.jsonl", "again.parquet"):
        d._save(tmp_path / again)
        assert pa.table(dv.open(tmp_path / again)).to_pylist() == expected
    assert pa.table(pickle.loads(pickle.dumps(d))).to_pylist() == expected


def test_an_object_that_is_a_number_later_is_named_by_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"s": {"a": 1}}\n{"s": null}\n{"s": 3}\n')
    d = dv.open(path, rows_settled=2)
    for read in (lambda: d.s_mask(), lambda: d.s.a()):
        with pytest.raises(ValueError, match=r"line 3 of .* as field 's'"):
            read()
