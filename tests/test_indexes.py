"""Indexes: tables that name items elsewhere, which are got when they are asked for."""

import gzip
import inspect
import io
import json
import pathlib
import pickle
import threading
import zipfile
from urllib.parse import quote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import dataview as dv
from dataview.compute import evaluate
from dataview.formats import FORMATS, INDEX_OPTIONS
from dataview.formats.indexes import getters
from dataview.formats.media import decoders
from dataview.index import gather
from dataview.samples import pairings_in
from dataview.sources import Source
from dataview.view.face import node_of
from oracle import assert_same
from servers import reset, serving, status

LABELS = "A A BA B A A B B ABC A A A BA AB B A B A A A".split()
"""The labels of the rows of torch-dataset's own index."""

INDEX = "filename,label1,label2,label3\n" + "".join(
    f"{number},{','.join(labels)}\n" for number, labels in enumerate(LABELS, 1)
)


@pytest.fixture
def index(tmp_path):
    """The index of 20 rows, and its files, of which each has its own name as its text."""
    for number in range(1, 21):
        (tmp_path / str(number)).write_text(f"item {number}")
    path = tmp_path / "index.csv"
    path.write_text(INDEX)
    return path


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- tables --------------------------------------------------------------------------------------


def test_an_index_is_its_columns_addresses_labels_and_items(index):
    d = dv.open(index, get="bytes")
    assert list(d._fields())[:4] == ["filename", "label1", "label2", "label3"]
    assert len(d) == 20  # in the order of the file, each row once
    assert d.filename().tolist() == [str(number) for number in range(1, 21)]
    assert d.url[2]() == str(index.parent / "3")
    assert d.item[[2, 0]]().tolist() == [b"item 3", b"item 1"]
    assert d.labels[[0, 2, 8]]().tolist() == [["A", None, None], ["B", "A", None], ["A", "B", "C"]]
    assert d.target[[0, 2, 8]]().tolist() == [[0, -1, -1], [1, 0, -1], [0, 1, 2]]
    assert dv.open(index, get="text").item[4]() == "item 5"
    assert dv.open(index, get="files").item[4]() == str(index.parent / "5")


def test_codes_of_labels_are_those_of_all_rows_in_every_part(index):
    whole = dv.open(index, get="bytes")
    for part in range(5):
        assert_same(whole[part::5].target(), whole.target()[part::5])
        assert whole[part::5].target._labels()().tolist() == ["A", "B", "C"]
    counts = whole.target._counts()
    assert dict(zip(counts.value().tolist(), counts.count().tolist(), strict=True)) == {
        "A": 15,
        "B": 9,
        "C": 1,
    }


CODES = {"a": 0, "b": 1, "c": 2, "d": 3, None: -1}


@pytest.mark.parametrize("order", ["file", "label"])
@pytest.mark.parametrize("kind", ["one", "gaps", "several", "codes"])
def test_codes_are_those_of_all_parts_in_a_partition_of_parts(tmp_path, kind, order):
    last = {"gaps": [None], "several": ["c", None]}.get(kind, ["a"])
    parts = [["d", "c"], ["b", *last], ["a", "b"]]
    for number, own in enumerate(parts):
        labels = pa.array(own).dictionary_encode() if kind == "codes" else own
        columns = {"filename": [f"{row}" for row in range(len(own))], "label": labels}
        if kind == "several":
            columns["label2"] = own[::-1]
        pq.write_table(pa.table(columns), tmp_path / f"part-{number}.parquet")
    for p, own in enumerate([*parts, []]):
        d = dv.open(tmp_path, get="text", layout="parts", order=order, partition=(p, 4))
        assert d.target._labels()().tolist() == ["a", "b", "c", "d"]
        codes = expected = [CODES[label] for label in own]
        if kind == "several":
            expected = [[*pair] for pair in zip(codes, codes[::-1], strict=True)]
        if order == "label":
            there = [code for code in codes if code >= 0]
            expected = sorted(there * 2 if kind == "several" else there)
            expected += [-1] * (kind == "gaps" and None in own)
        assert d.target().tolist() == expected


def test_rows_come_by_label_if_that_is_asked_for(index):
    d = dv.open(index, get="text", order="label")
    assert len(d) == 25  # a row with two labels is there twice
    assert "".join(d.label()) == "A" * 15 + "B" * 9 + "C"
    names = d.filename().tolist()
    assert names[:4] == ["1", "10", "11", "12"] and names[:15] == sorted(names[:15])
    assert names[15:24] == ["13", "14", "15", "17", "3", "4", "7", "8", "9"]
    assert d.item[24]() == "item 9"
    assert d.target().tolist() == [0] * 15 + [1] * 9 + [2]


def test_rows_without_a_label_stay_and_empty_cells_shift_none(tmp_path):
    written(tmp_path, "x.txt", "x")
    path = written(tmp_path, "index.csv", "filename,label1,label2\nx.txt,,X\nx.txt\nx.txt,Y\n")
    d = dv.open(path, get="text")
    assert d.labels().tolist() == [[None, "X"], [None, None], ["Y", None]]
    assert d.target().tolist() == [[-1, 0], [-1, -1], [1, -1]]
    assert dv.open(path, get="text", order="label").label().tolist() == ["X", "Y", None]
    numbers = written(tmp_path, "numbers.csv", "filename,label\nx.txt,7\nx.txt,\nx.txt,3\n")
    assert dv.open(numbers, get="text").target().tolist() == [1, -1, 0]
    mixed = written(tmp_path, "mixed.csv", "filename,label1,label2\nx.txt,7,b\nx.txt,,\n")
    assert dv.open(mixed, get="text").labels().tolist() == [["7", "b"], [None, None]]
    none = written(tmp_path, "none.csv", "filename\nx.txt\n")
    assert list(dv.open(none, get="text")._fields()) == ["filename", "url", "item"]
    assert dv.open(none, get="text", order="label").label().tolist() == [None]


def test_a_row_with_several_labels_is_drawn_for_each_of_them(index):
    d = dv.open(index, get="text")
    for by in ("labels", "target", ["label1", "label2", "label3"]):
        sampler = dv.samplers.label_permutation(by=by)
        batches = d._loader(3, sampler=sampler, num_batches=9, fields="filename")
        drawn = [label for names in batches for name in names for label in LABELS[int(name) - 1]]
        assert drawn.count("C") >= 9  # the only row with it comes in each round


def test_labels_may_be_lists(tmp_path):
    for name in "abc":
        written(tmp_path, name, name)
    rows = [("a", ["x", "y"]), ("b", []), ("c", ["y"])]
    lines = [json.dumps({"filename": name, "labels": labels}) for name, labels in rows]
    path = written(tmp_path, "i.jsonl", "\n".join(lines))
    d = dv.open(path, get="text")
    assert [own().tolist() for own in d.labels] == [labels for _, labels in rows]
    balanced = dv.samplers.label_permutation(by="labels")
    drawn = [*d._loader(2, sampler=balanced, num_batches=20, fields="filename")]
    assert {*np.concatenate(drawn).tolist()} == {"a", "c"}
    by_label = dv.open(path, get="text", order="label")
    assert by_label.item().tolist() == ["a", "a", "c", "b"]
    assert by_label.label().tolist() == ["x", "y", "y", None]


def test_labels_may_be_codes_that_know_them(tmp_path):
    codes = [pa.array(own).dictionary_encode() for own in (["b", "a", None], ["c", None, "b"])]
    names = pa.array(["x", "y", "z"])
    path = tmp_path / "index.parquet"
    pq.write_table(pa.table({"filename": names, "label": codes[0]}), path)
    d = dv.open(path, get="text")
    assert d.target().tolist() == [1, 0, -1]
    assert d.target._labels()().tolist() == ["a", "b"]
    d = dv.open(path, get="text", order="label")
    assert d.label().tolist() == ["a", "b", None]
    pq.write_table(pa.table({"filename": names, "label1": codes[0], "label2": codes[1]}), path)
    d = dv.open(path, get="text")
    assert d.labels().tolist() == [["b", "c"], ["a", None], [None, "b"]]
    assert d.target().tolist() == [[1, 2], [0, -1], [-1, 1]]


def test_what_is_in_an_index_is_saved_with_its_labels(index):
    d = dv.open(index, get="text", order="label")
    d._select("filename", "target", "item")._save(index.parent / "saved.parquet")
    with dv.open(index.parent / "saved.parquet") as saved:
        assert saved.item[20]() == d.item[20]()
        assert saved.target._codes()._labels()().tolist() == ["A", "B", "C"]


def test_the_first_row_of_an_index_has_names_though_two_are_the_same(tmp_path):
    path = tmp_path / "index.csv"
    path.write_text("filename,label,label\na.txt,x,y\nb.txt,u,\n")
    d = dv.open(path, get="text")
    assert d.filename().tolist() == ["a.txt", "b.txt"]
    assert d.labels().tolist() == [["x", "y"], ["u", None]]


def test_a_first_row_with_a_cell_too_many_is_no_row_with_a_name(tmp_path):
    path = written(tmp_path, "i.csv", "filename,label\n1.txt,cat,dog\n2.txt,dog\n")
    with pytest.raises(ValueError, match="the first row has 2 cells and the next has 3"):
        dv.open(path, get="text")
    path = written(tmp_path, "j.csv", "filename,label\n1.txt,cat,\n2.txt,dog,\n")
    assert dv.open(path, get="text").filename().tolist() == ["1.txt", "2.txt"]


def test_names_are_texts_as_they_are_written(tmp_path):
    written(tmp_path, "007", b"bond")
    path = written(tmp_path, "index.tsv", "filename\tsize\n007\t1\n")
    d = dv.open(path, get="bytes")
    assert (d.filename[0](), d.size[0](), d.item[0]()) == ("007", 1, b"bond")


def test_the_prefix_stands_beside_the_index_or_is_given(tmp_path):
    written(tmp_path, "data/1", "one")
    path = written(tmp_path, "index2.csv", "filename,label\n1,A\n2,B\n")
    assert dv.open(path, get="text", prefix=str(tmp_path / "data")).item[0]() == "one"
    written(tmp_path, "index2-meta.csv", "hostname\nhttp://prefix.com/go/here\n")
    assert dv.open(path, get="text").url[0]() == "http://prefix.com/go/here/1"
    params = {"d": True, "b": 2, "a": 1, "c": "three"}
    d = dv.open(path, get="text", url_params=params)
    assert d.url[0]() == "http://prefix.com/go/here/1?a=1&b=2&c=three&d=true"
    written(tmp_path, "index2-meta.csv", "hostname\ndata\n")
    assert dv.open(path, get="text").item[0]() == "one"
    written(tmp_path, "my data/1", "two words")
    written(tmp_path, "index2-meta.csv", "host name\r\nmy data\r\n")
    assert dv.open(path, get="text").item[0]() == "two words"
    assert dv.open(path, get="text", prefix=tmp_path / "my data").item[0]() == "two words"
    with pytest.raises(ValueError, match="url_params= are for items with URLs"):
        dv.open(path, get="text", url_params=params).url()
    written(tmp_path, "index2-meta.csv", "hostname\n")
    with pytest.raises(ValueError, match="second line"):
        dv.open(path, get="text")


def put_indexes(folder, *tables, meta=None):
    """Put indexes into a folder, and the files that they name."""
    for number, names in enumerate(tables):
        rows = "".join(f"{name},{label}\n" for name, label in names)
        written(folder, f"index-{number}.csv", f"filename,label\n{rows}")
        for name, _ in names:
            written(folder, name, f"text of {name}")
        if meta is not None:
            written(folder, f"index-{number}-meta.csv", f"prefix\n{meta}\n")


SEVERAL = [[("a.txt", "x"), ("007", "y")], [("b.txt", "z")], [("c.txt", "x")]]
ROWS = [row for table in SEVERAL for row in table]


@pytest.mark.parametrize("how", [{}, {"layout": "parts", "manifest": True, "types": "str"}])
def test_a_pattern_stands_for_one_index(how, tmp_path):
    put_indexes(tmp_path, *SEVERAL)
    dv.cache.set_root(tmp_path / "root")
    try:
        d = dv.open(tmp_path / "index-*.csv", get="text", **how)
        for view in (d, pickle.loads(pickle.dumps(d))):
            assert view.filename().tolist() == [name for name, _ in ROWS]
            assert view.url().tolist() == [str(tmp_path / name) for name, _ in ROWS]
            assert view.item().tolist() == [f"text of {name}" for name, _ in ROWS]
            assert view.target().tolist() == ["xyz".index(label) for _, label in ROWS]
        own = dv.open(tmp_path / "index-*.csv", get="text", partition=(1, 2), **how)
        expected = ROWS[2:3] if how else ROWS[1::2]
        assert own.item().tolist() == [f"text of {name}" for name, _ in expected]
    finally:
        dv.cache.set_root(None)


def test_a_pattern_elsewhere_stands_for_one_index():
    system = fsspec.filesystem("memory")
    for number, table in enumerate(SEVERAL):
        rows = "".join(f"{name},{label}\n" for name, label in table)
        system.pipe(f"/several/index-{number}.csv", f"filename,label\n{rows}".encode())
    for name, _ in ROWS:
        system.pipe(f"/several/{name}", f"text of {name}".encode())
    try:
        d = dv.open("memory://several/index-*.csv", get="text")
        assert d.item().tolist() == [f"text of {name}" for name, _ in ROWS]
    finally:
        system.rm("/several", recursive=True)


def test_a_file_that_tells_a_prefix_is_no_index_of_a_pattern(tmp_path):
    put_indexes(tmp_path, *SEVERAL, meta="sub")
    for name, _ in ROWS:
        written(tmp_path, f"sub/{name}", f"below {name}")
    pattern = tmp_path / "index*.csv"
    assert dv.open(pattern, get="text").item().tolist() == [f"below {name}" for name, _ in ROWS]
    with pytest.raises(ValueError, match=r"index-0-meta\.csv, which tells a prefix alone"):
        dv.open(tmp_path / "*-meta.csv", get="text")
    inside = dv.open(pattern, get="text", prefix=tmp_path)
    assert inside.item().tolist() == [f"text of {name}" for name, _ in ROWS]
    written(tmp_path, "index-1-meta.csv", "prefix\nother\n")
    with pytest.raises(ValueError, match=r"several prefixes: '.*sub', '.*other'; prefix="):
        dv.open(pattern, get="text")
    for number in range(3):
        (tmp_path / f"index-{number}-meta.csv").unlink()
    written(tmp_path, "index-meta.csv", "prefix\nsub\n")
    with pytest.raises(
        ValueError, match=r"index-meta\.csv says .*index\.csv, which is not .*prefix="
    ):
        dv.open(pattern, get="text")
    assert len(dv.open(pattern, get="text", prefix=tmp_path)) == len(ROWS)
    written(tmp_path, "index.csv", "filename,label\na.txt,x\n")  # of which the prefix is
    parts = tmp_path / "index-*.csv"
    assert dv.open(parts, get="text").item().tolist() == [f"text of {name}" for name, _ in ROWS]


def test_a_prefix_of_a_packed_index_of_a_pattern_stands_beside_it(tmp_path):
    for number, table in enumerate(SEVERAL):
        rows = "".join(f"{name},{label}\n" for name, label in table)
        packed = gzip.compress(f"filename,label\n{rows}".encode())
        written(tmp_path, f"index-{number}.csv.gz", packed)
        written(tmp_path, f"index-{number}-meta.csv", "prefix\nsub\n")
    for name, _ in ROWS:
        written(tmp_path, f"sub/{name}", f"below {name}")
    d = dv.open(tmp_path / "index-*.csv*", get="text")
    assert d.item().tolist() == [f"below {name}" for name, _ in ROWS]


def test_a_pattern_for_several_folders_of_indexes_says_what_to_do(tmp_path):
    for number, table in enumerate(SEVERAL):
        put_indexes(tmp_path / f"f{number}", table)
    pattern = f"{tmp_path}/f*/index-0.csv"
    with pytest.raises(
        ValueError, match=r"names in an index begin at its folder.*prefix=.*one by one"
    ):
        dv.open(pattern, get="text")
    prefixed = dv.open(pattern, get="text", prefix=tmp_path / "f0")
    assert prefixed.item[:2]().tolist() == [f"text of {name}" for name, _ in SEVERAL[0]]
    each = [dv.open(path, get="text") for path in sorted(tmp_path.glob("f*/*.csv"))]
    joined = dv.concat([one._drop("target") for one in each])
    assert joined.item().tolist() == [f"text of {name}" for name, _ in ROWS]
    with pytest.raises(ValueError, match=r"stands for the files of one index.*the folder .*f0"):
        dv.open(f"{tmp_path}/f*", get="text")
    with pytest.raises(FileNotFoundError, match="no file has a name of this pattern"):
        dv.open(f"{tmp_path}/g*.csv", get="text")


def test_an_index_of_parts_that_are_not_counted_says_so(tmp_path):
    put_indexes(tmp_path / "parts", *SEVERAL)
    for path in (tmp_path / "parts", tmp_path / "parts" / "index-*.csv"):
        with pytest.raises(ValueError, match=r"counted with manifest=True"):
            dv.open(path, get="text", layout="parts", format="csv", types=str)


def test_names_that_lead_out_of_the_folder_are_refused(tmp_path):
    secret = written(tmp_path, "secret", "s")
    path = written(
        tmp_path,
        "in/index.csv",
        f"filename\n../secret\n{secret}\n\nfile://{secret}\n"
        f"simplecache::file://{secret}\nzip://x::{secret}\n",
    )
    d = dv.open(path, get="text")
    for row in range(5):
        with pytest.raises(ValueError, match=f"row {row} .*leads out of the folder.*prefix="):
            d.item[row]()
    assert dv.open(path, get="text", prefix="/").item[1]() == "s"


def test_folders_views_lines_and_other_tables_are_indexes(tmp_path):
    for name in ("cats/cat1.txt", "cats/cat2.txt", "dogs/dog1.txt", "one.txt", "two.txt"):
        written(tmp_path, f"local/{name}", name)
    written(tmp_path, "local/.hidden", "")
    d = dv.open(tmp_path / "local", get="text", order="label")
    assert d.label().tolist() == ["cats", "cats", "dogs", None, None]
    assert d.target().tolist() == [0, 0, 1, -1, -1]
    assert d.item().tolist() == d.filename().tolist()
    paths = [str(tmp_path / "local" / name) for name in ("one.txt", "cats/cat1.txt")]
    assert dv.open(dv.View(paths), get="text").item().tolist() == ["one.txt", "cats/cat1.txt"]
    assert dv.open(dv.View(file=paths), get="bytes", filename="file").item[0]() == b"one.txt"
    listing = written(tmp_path, "local/list.txt", "one.txt\ncats/cat1.txt\n")
    assert dv.open(listing, get="text").item[1]() == "cats/cat1.txt"
    lines = written(tmp_path, "local/m.jsonl", '{"audio": "one.txt", "seconds": 2.5}\n')
    assert dv.open(lines, get="text", filename="audio").item().tolist() == ["one.txt"]
    dv.View(filename=paths, label=[4, 2])._save(str(tmp_path / "local" / "i.parquet"))
    d = dv.open(tmp_path / "local" / "i.parquet", get="text")
    assert (d.item[0](), d.target().tolist()) == ("one.txt", [1, 0])


def test_no_format_has_an_option_of_indexes():
    for name, row in FORMATS.items():
        known = inspect.signature(row.open).parameters
        assert INDEX_OPTIONS.isdisjoint(known), name


def test_what_is_no_index_is_refused(tmp_path, index):
    path = written(tmp_path, "plain.csv", "a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"has no column 'filename'.*filename=.*a, b"):
        dv.open(path, get="bytes")
    with pytest.raises(ValueError, match=r"one of 'bytes', 'text', 'files'.*did you mean 'bytes'"):
        dv.open(index, get="byte")
    with pytest.raises(TypeError, match="get is a function of an address"):
        dv.open(index, get=3)
    with pytest.raises(TypeError, match="processor is a function"):
        dv.open(index, processor=3)
    with pytest.raises(ValueError, match="order is one of 'file', 'label'"):
        dv.open(index, order="random")
    with pytest.raises(ValueError, match="mode 'r'"):
        dv.open(index, "r+", get="bytes")
    with pytest.raises(ValueError, match="get= has 2 getters for 1 indexes"):
        dv.open(index, get=["bytes", "text"])
    with pytest.raises(ValueError, match=r"nothing decodes files as .*get='bytes'"):
        dv.open(index, get=None)
    with pytest.raises(TypeError, match="no option 'sep'"):
        dv.open(tmp_path, get="bytes", sep=",")
    with pytest.raises(TypeError, match="kind= is for items that are decoded"):
        dv.open(index, get="bytes", kind="image")
    with pytest.raises(ValueError, match="got an empty list"):
        dv.open([], get="bytes")
    with pytest.raises(TypeError, match="prefix= is a URL or the path of a folder; got 3"):
        dv.open(index, get="bytes", prefix=3)
    with pytest.raises(TypeError, match=r"url_params= is a mapping.*got 'a=1'"):
        dv.open(index, get="bytes", url_params="a=1")
    with pytest.raises(TypeError, match=r"texts or numbers; got 'a': None in url_params="):
        dv.open(index, get="bytes", url_params={"a": None})
    with pytest.raises(TypeError, match=r"got int; .*dv.View\(filename=paths\)"):
        dv.open([index, 3], get="bytes")
    with pytest.raises(ValueError, match=r"no rows with numbers.* manifest=True.* _map"):
        dv.open(dv.View(lambda: iter([1, 2])), processor=abs)
    path = written(tmp_path, "o.csv", "filename,offset\n1,x\n")
    with pytest.raises(ValueError, match=r"column 'offset' of .* has object"):
        dv.open(path, get="bytes")
    path = written(tmp_path, "o.csv", "filename,offset\n1,0.5\n")
    with pytest.raises(ValueError, match=r"offset is a number of bytes; got 0\.5"):
        dv.open(path, get="bytes").item()
    path = written(tmp_path, "b.csv", "filename\nraw\n")
    written(tmp_path, "raw", b"\xff")
    with pytest.raises(ValueError, match=r"raw is no text in UTF-8.*get='bytes'"):
        dv.open(path, get="text").item()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="no files in it"):
        dv.open(empty, get="bytes")
    path = written(tmp_path, "item.csv", "filename,item\n1,2\n")
    with pytest.raises(ValueError, match=r"has a column 'item'.*rename"):
        dv.open(path, get="bytes")


# --- getters -------------------------------------------------------------------------------------

RANGES = {
    (3, 3): b"DEF",
    (0, 8): b"ABCDEFGH",
    (3, 13): b"DEFGH",
    (3, None): b"DEFGH",
    (None, None): b"ABCDEFGH",
    (13, 3): None,
    (8, 1): None,
    (-1, 3): None,
    (2, 0): b"",
}


@pytest.fixture(params=["path", "memory", "http"])
def put(request, tmp_path):
    """A function that puts a file somewhere and returns its address."""
    if request.param == "path":
        yield lambda name, data: str(written(tmp_path, name, data))
    elif request.param == "memory":
        system = fsspec.filesystem("memory")

        def pipe(name, data):
            system.pipe(f"/items/{name}", data)
            return f"memory://items/{name}"

        yield pipe
        system.rm("/items", recursive=True)
    else:
        dv.cache.set_root(tmp_path / "cache")
        with serving() as server:

            def serve(name, data):
                server.files[f"/{name}"] = data
                return f"{server.url}/{name}"

            yield serve
        dv.cache.set_root(None)


def ranges_of(url, spans):
    def column(values):
        return np.array(values, object)

    cells = [(url, *("" if part is None else part for part in span)) for span in spans]
    return "filename,offset,length\n" + "".join(f"{a},{b},{c}\n" for a, b, c in cells)


def test_a_range_is_what_there_is_of_it(put, tmp_path):
    url = put("f.bin", b"ABCDEFGH")
    path = written(tmp_path, "i.csv", ranges_of(url, RANGES))
    d = dv.open(path, get="bytes", prefix="")
    for row, expected in enumerate(RANGES.values()):
        if expected is None:
            with pytest.raises(FileNotFoundError, match=f"nothing at the offset.*row {row} of"):
                d.item[row]()
        else:
            assert d.item[row]() == expected
    there = [row for row, expected in enumerate(RANGES.values()) if expected is not None]
    assert d.item[there]().tolist() == [own for own in RANGES.values() if own is not None]


def test_in_an_empty_file_there_is_nothing_at_any_offset(put, tmp_path):
    url = put("f.bin", b"")
    d = dv.open(
        written(tmp_path, "i.csv", ranges_of(url, [(0, None), (0, 3)])), get="bytes", prefix=""
    )
    loader = d._loader(2, on_error="skip")
    assert not len(next(loader).item())
    assert [type(one.error) for one in loader.errors] == [FileNotFoundError] * 2


def test_a_file_that_is_missing_is_told_when_it_is_asked_for(put, tmp_path):
    url = put("f.bin", b"A")
    path = written(tmp_path, "i.csv", f"filename\n{url}\n{url}.gone\n")
    d = dv.open(path, get="bytes", prefix="")
    assert d.item[0]() == b"A"
    with pytest.raises(FileNotFoundError, match=r"f\.bin\.gone, row 1 of"):
        d.item()
    loader = d._loader(2, on_error="skip", fields="item")
    assert [batch.tolist() for batch in loader] == [[b"A"]]
    assert len(loader.errors) == 1


def test_a_length_below_zero_says_that_a_record_begins_with_its_length(put, tmp_path):
    records = [b"one", b"three " * 5, b""]
    data, spans = b"", []
    for record in records:
        spans.append((len(data), -8 - len(record)))
        data += b"%08x" % len(record) + record
    url = put("f.bin", data)
    for cut in (0, 5, 1000):  # the length that the index has is a hint
        told = [
            (offset, min(-1, length + cut) if cut < 9 else length - cut) for offset, length in spans
        ]
        path = written(tmp_path, "i.csv", ranges_of(url, told))
        assert dv.open(path, get="bytes", prefix="").item().tolist() == records
    path = written(tmp_path, "i.csv", ranges_of(url, [(3, -9), (len(data), -9)]))
    d = dv.open(path, get="bytes", prefix="")
    with pytest.raises(ValueError, match="8 hexadecimal digits"):
        d.item[0]()
    with pytest.raises(FileNotFoundError):
        d.item[1]()


def with_all(url, offset, length):
    return f"{url[-5:]} {offset} {length}"


def test_a_function_gets_the_address_or_the_range_as_well(tmp_path, index):
    assert dv.open(index, get=lambda url: url.rpartition("/")[2]).item[4]() == "5"
    path = written(tmp_path, "i.csv", ranges_of("f.bin", RANGES))
    d = dv.open(path, get=with_all)
    assert d.item[0]() == "f.bin 3 3"
    assert d.item[4]() == "f.bin None None"
    with pytest.raises(TypeError, match=r"called with .url, offset, length"):
        dv.open(path, get=len)
    np.save(tmp_path / "x.npy", np.arange(3))
    arrays = written(tmp_path, "a.csv", "filename\nx.npy\nx.npy\n")
    d = dv.open(arrays, get=np.load)
    assert_same(d._probe().item(), np.array([[0, 1, 2]] * 2))
    assert_same(next(iter(d._loader(2))).item(), np.array([[0, 1, 2]] * 2))


# --- items that are decoded ----------------------------------------------------------------------


def picture(folder, name, shade, size=(4, 3)):
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new("L", size, shade).save(path)
    return path.read_bytes()


def test_items_are_decoded_by_their_suffixes(tmp_path):
    for number in range(3):
        picture(tmp_path, f"{number}.png", 10 * number)
    path = written(tmp_path, "i.csv", "filename,label\n0.png,a\n1.png,b\n2.png,a\n")
    with dv.open(path, get=None) as d:
        assert d.item._shape() == (3, 3, 4)
        assert d.item[1, 0, 0]() == 10
        batch = next(iter(d._loader(2, sampler=[2, 0])))
        assert_same(batch.item[:, 0, 0](), np.array([20, 0], np.uint8))
        doubled = dv.open(path, processor=lambda image: image // 2)
        assert doubled.item[2]()[0, 0] == 10
    with pytest.raises(ValueError, match="closed"):
        d.item()
    latin = written(tmp_path, "l.csv", "filename,label\n0.png,\xe9\n".encode("latin-1"))
    assert dv.open(latin, get=None, encoding="latin-1").label().tolist() == ["\xe9"]
    sizes = written(tmp_path, "i.csv", "filename\n0.png\nwide.png\n")
    picture(tmp_path, "wide.png", 7, (9, 3))
    d = dv.open(sizes, get=None)
    assert d.item._shape() == (2, None, None)
    assert d.item[1]().shape == (3, 9)
    assert dv.open(sizes, get=None, kind="image", image_mode="RGB").item[0]().shape == (3, 4, 3)


def test_a_processor_gets_texts_and_numbers_as_calling_the_item_gives_them(tmp_path):
    (tmp_path / "a.txt").write_text("one two")
    np.save(tmp_path / "n.npy", np.array(2.5))
    for name, value, kind in (("a.txt", "one two", str), ("n.npy", 2.5, np.float64)):
        path = written(tmp_path, f"{name}.csv", f"filename\n{name}\n{name}\n")
        got = []
        d = dv.open(path, processor=lambda item, got=got: got.append(item) or 1)
        assert d._probe().item().tolist() == [1, 1]
        assert [type(item) for item in got] == [kind] * len(got)
        assert got[0] == value == dv.open(path, get=None).item[0]()


def test_parts_of_files_and_urls_are_decoded(put, tmp_path):
    parts = [picture(tmp_path, f"{number}.png", 10 * number) for number in range(3)]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    url = put("all.png", b"".join(parts))
    spans = [(start, len(part)) for start, part in zip(ends[:-1], parts, strict=True)]
    path = written(tmp_path, "i.csv", ranges_of(url, spans))
    d = dv.open(path, get=None, prefix="")
    assert d.item[:, 0, 0]().tolist() == [0, 10, 20]
    urls = [put(f"one{number}.png", part) for number, part in enumerate(parts)]
    d = dv.open(dv.View(filename=urls), get=None)
    assert d.item[:, 0, 0]().tolist() == [0, 10, 20]


# --- metadata first ------------------------------------------------------------------------------


def test_a_record_that_has_not_the_length_it_says_is_refused(put, tmp_path):
    url = put("f.bin", b"00000003abc-0000001x")
    path = written(tmp_path, "i.csv", ranges_of(url, [(0, -11), (11, -9)]))
    d = dv.open(path, get="bytes", prefix="")
    assert d.item[0]() == b"abc"
    with pytest.raises(ValueError, match=r"8 hexadecimal digits, .*-0000001"):
        d.item[1]()
    path = written(tmp_path, "i.csv", ranges_of(put("g.bin", b"00000009abc"), [(0, -9)]))
    for get in ("bytes", "text"):
        with pytest.raises(ValueError, match=r"9 bytes follow its length, and 3 do: .* cut"):
            dv.open(path, get=get, prefix="").item()


@pytest.fixture
def opened_files(tmp_path):
    """A function that decodes files of numbers, and the names of those that it has opened."""
    seen = []

    def decode(path):
        seen.append(path.rpartition("/")[2])
        return np.loadtxt(path, ndmin=1)

    dv.register_decoder(".heavy", decode, lambda path: ((2,), "f8"), field="heavy")
    yield decode, seen
    decoders._KINDS.pop(".heavy")


@pytest.mark.parametrize("how", ["suffix", "function", "processor", "bytes"])
def test_b60_metadata_are_sorted_filtered_and_split_without_opening_a_file(
    tmp_path, opened_files, monkeypatch, how
):
    decode, seen = opened_files
    lines = "filename,seconds,label\n"
    for number in range(100):
        written(tmp_path, f"{number}.heavy", f"{number} {number}")
        lines += f"{number}.heavy,{(number * 37) % 100},{'ab'[number % 2]}\n"
    path = written(tmp_path, "index.csv", lines)
    read = getters._read
    monkeypatch.setattr(getters, "_read", lambda *args: seen.append(args[0]) or read(*args))
    options = {
        "suffix": {"get": None},
        "function": {"get": decode},
        "processor": {"get": decode, "processor": lambda values: {"x": values}},
        "bytes": {"get": "bytes"},
    }[how]
    d = dv.open(path, **options)
    by_length = d._sorted("seconds")
    short = d[d.seconds < 10]
    train, test = d._split(0.9, seed=1, by="label")
    by_folds = list(d._folds(5, by="target"))
    bucketed = d._loader(10, sampler=dv.samplers.bucket(by="seconds"), fields="seconds")
    drawn = d._loader(10, sampler=dv.samplers.label_permutation(by="target"), num_batches=3)
    assert by_length.seconds().tolist() == list(range(100))
    assert (len(short), len(train), len(test), len(by_folds)) == (10, 90, 10, 5)
    assert sum(len(batch) for batch in bucketed) == 100
    assert d.target._counts().count().tolist() == [50, 50]
    assert "100 rows" in repr(d) and "seconds" in repr(d)
    assert seen == []
    next(iter(drawn))
    assert len({*seen}) == 10
    seen.clear()
    one = short[3].item
    assert one() is not None and len(seen) == 1


def test_an_index_is_read_row_by_row_as_it_is_needed(tmp_path):
    path = written(tmp_path, "i.csv", "filename\n" + "x\n" * 5000)
    written(tmp_path, "x", "1")
    d = dv.open(path, get="text", processor=int)
    assert [int(d.item[row]()) for row in (4999, 0, 2048)] == [1, 1, 1]
    lost = written(tmp_path, "lost.csv", "filename,size\nx,1\n,2\nx,3\n")
    d = dv.open(lost, get="text", processor=int)
    assert int(d.item[2]()) == 1
    with pytest.raises(ValueError, match=r"row 1 of .*lost.csv names no file"):
        d.item[1]()


def test_views_of_indexes_are_sent_to_processes(index):
    whole = dv.open(index, get="bytes")
    assert pickle.loads(pickle.dumps(whole)).item[3]() == b"item 4"
    for options in ({}, {"processor": len}):
        d = dv.open(index, get="bytes", **options)
        with d._loader(5, workers=2, kind="process") as loader:
            found = np.concatenate([batch.item() for batch in loader])
        expected = [f"item {number}".encode() for number in range(1, 21)]
        assert found.tolist() == (expected if not options else list(map(len, expected)))


# --- processors ----------------------------------------------------------------------------------


def numbered(folder, name, count, prefix=""):
    """An index of files of which each has its number as its text."""
    for number in range(1, count + 1):
        written(folder, f"{name}-files/{number}", f"{prefix}{number}")
    lines = "".join(f"{name}-files/{number}\n" for number in range(1, count + 1))
    return written(folder, f"{name}.csv", f"filename\n{lines}")


def as_number(text):
    return {"x": np.arange(3) * int(text), "y": int(text)}


def accepted(text):
    return None if int(text) in (3, 4, 7, 8) else {"x": int(text)}


def both(one, other):
    return {"one": int(one), "other": -1 if other is None else int(other)}


def failing_at(*numbers):
    def get(url):
        if int(url.rpartition("/")[2]) in numbers:
            raise ConnectionError("no answer")
        with open(url) as file:
            return file.read()

    return get


def gives_none_at(*numbers):
    def get(url):
        number = url.rpartition("/")[2]
        return None if int(number) in numbers else number

    return get


def test_a_processor_makes_the_sample(tmp_path):
    d = dv.open(numbered(tmp_path, "a", 5), get="text", processor=as_number)
    assert list(d._fields()) == ["filename", "url", "item"]
    assert d.item[3]()["y"] == 4
    assert_same(d._probe().item.x(), np.arange(3) * np.arange(1, 6)[:, None])
    batch = next(iter(d._loader(2, sampler=[4, 0])))
    assert_same(batch.item.y(), np.array([5, 1]))
    assert batch.filename().tolist() == ["a-files/5", "a-files/1"]
    pairs = dv.open(tmp_path / "a.csv", get="text", processor=lambda text: (text, len(text)))
    assert pairs._probe().item._fields() == ("0", "1")
    arrays = dv.open(tmp_path / "a.csv", get="bytes", processor=lambda raw: np.full(2, int(raw)))
    assert_same(next(iter(arrays._loader(2))).item(), np.array([[1, 1], [2, 2]]))


def test_samples_that_are_all_left_out_make_empty_batches_or_an_error(tmp_path):
    d = dv.open(numbered(tmp_path, "a", 3), get="text", processor=lambda text: None)
    for options in ({}, {"on_error": "replace"}):
        batches = [batch.filename() for batch in d._loader(3, **options)]
        assert [len(batch) for batch in batches] == [0]
    with pytest.raises(RuntimeError, match=r"make no batch.*left out by what makes them"):
        next(d._loader(2, on_error="replace", repeat=True, straddle=True))


def test_b41_samples_that_a_processor_leaves_out_are_not_filled_up(tmp_path):
    d = dv.open(numbered(tmp_path, "a", 9), get="text", processor=accepted)
    loader = d._loader(2)
    found = [(batch.item.x().tolist(), loader.places.tolist()) for batch in loader]
    assert found == [([1, 2], [0, 1]), ([], []), ([5, 6], [4, 5]), ([], []), ([9], [8])]
    assert loader.errors == []
    filled = [batch.item.x().tolist() for batch in d._loader(2, on_error="replace")]
    assert filled == [[1, 2], [5, 6], [9]]
    with pytest.raises(ValueError, match=r"accepted has returned None.*_loader"):
        d.item[2]()
    for workers in ({"workers": 2}, {"prefetch": 1}):
        assert [b.item.x().tolist() for b in d._loader(2, **workers)] == [own for own, _ in found]


@pytest.mark.parametrize("get", [failing_at(2, 3), gives_none_at(2, 3)])
def test_what_cannot_be_got_is_an_error_or_skipped(tmp_path, get):
    path = numbered(tmp_path, "a", 5)
    for d in (dv.open(path, get=get, processor=int), dv.open(path, get=get)):
        with pytest.raises(
            (ConnectionError, FileNotFoundError), match=r"sample 1.*a-files/2, row 1 of"
        ):
            list(d._loader(2))
        loader = d._loader(2, on_error="skip")
        assert [[int(x) for x in batch.item()] for batch in loader] == [[1], [4], [5]]
        assert [failure.row for failure in loader.errors] == [1, 2]


def test_of_several_indexes_the_first_drives(tmp_path):
    a, b = numbered(tmp_path, "a", 5), numbered(tmp_path, "b", 5, "1")
    d = dv.open([a, b], get="text", processor=both)
    assert d.filename[0]() == "a-files/1"
    assert [tuple(row.item()) for row in d] == [(n, 10 + n) for n in range(1, 6)]
    assert next(iter(d._loader(5))).item.other().tolist() == [11, 12, 13, 14, 15]
    own = dv.open([a, b], get=["text", lambda url: "7"], processor=both)
    assert own[4].item().item() == (5, 7)
    rows = dv.open([a, dv.View(np.arange(5.0))], get=["text", None])._probe().item
    assert (rows["0"][3](), rows["1"][3]()) == ("4", 3.0)


@pytest.mark.parametrize("get", ["text", None, lambda url: "1"])
def test_all_indexes_are_closed_together(get, tmp_path):
    for name in "ab":
        picture(tmp_path, f"{name}.png", 7)
        written(tmp_path, f"{name}.csv", "filename\n" + f"{name}.png\n" * 3)
    paths = [str(tmp_path / f"{name}.csv") for name in "ab"]
    with dv.open(paths, get=["files", get]) as d:
        rows = pairings_in(node_of(d))[0].indexes[1].rows
        assert evaluate(rows.fields.named["filename"].node).tolist() == ["b.png"] * 3
    for closed in (lambda: d.filename(), lambda: evaluate(rows.fields.named["filename"].node)):
        with pytest.raises(ValueError, match="closed"):
            closed()


def test_another_index_that_fails_gives_none(tmp_path):
    a, b = numbered(tmp_path, "a", 4), numbered(tmp_path, "b", 4)
    d = dv.open([a, b], get=["text", gives_none_at(2)], processor=both)
    assert next(iter(d._loader(4))).item.other().tolist() == [1, -1, 3, 4]
    d = dv.open([a, b], get=["text", failing_at(2)], processor=both)
    with pytest.raises(ConnectionError, match="sample 1"):
        list(d._loader(4))
    loader = d._loader(4, on_error="skip")
    assert next(loader).item.other().tolist() == [1, -1, 3, 4]
    assert [failure.row for failure in loader.errors] == [1]
    d = dv.open([a, b], get=[failing_at(3), "text"], processor=both)
    assert next(iter(d._loader(4, on_error="skip"))).item.other().tolist() == [1, 2, 4]


def test_a_batch_of_which_all_is_left_out_has_the_fields_of_others(tmp_path):
    labels = enumerate([",a", "cat,", "b,", ",dog"])
    names = "".join(f"{n}.txt,{both}\n" for n, both in labels)
    path = written(tmp_path, "index.csv", f"filename,label1,label2\n{names}")
    for n in range(4):
        written(tmp_path, f"{n}.txt", str(n))

    def odd(text):
        return {"x": int(text), "half": int(text) / 2} if int(text) % 2 else None

    batches = [*dv.open(path, get="text", processor=odd)._loader(1)]
    assert [batch.item.x().tolist() for batch in batches] == [[], [1], [], [3]]
    assert [batch.item.half._dtype() for batch in batches] == [np.float64] * 4
    assert [batch.labels().tolist() for batch in batches[1:3]] == [[["cat", None]], []]
    assert {batch._fields() for batch in batches} == {batches[1]._fields()}


def test_each_index_has_a_sampler_of_its_own(tmp_path):
    a, b = numbered(tmp_path, "a", 6), numbered(tmp_path, "b", 6)
    d = dv.open([a, b], get="text", processor=both)
    for sampler in (["linear", "permutation"], [dv.samplers.linear(), dv.samplers.permutation()]):
        loader = d._loader(2, sampler=sampler, seed=3)
        found = [batch.item() for batch in loader]
        ones, others = (np.concatenate([own[name] for own in found]) for name in ("one", "other"))
        assert ones.tolist() == [1, 2, 3, 4, 5, 6]
        assert sorted(others.tolist()) == ones.tolist() != others.tolist()
    with pytest.raises(ValueError, match=r"3 samplers.*2 indexes"):
        d._loader(2, sampler=["linear"] * 3)
    with pytest.raises(TypeError, match=r"sampler= has a list of samplers.*several indexes"):
        dv.View(x=[1, 2])._loader(2, sampler=["linear", "uniform"])


@pytest.mark.parametrize("kind", ["uniform", "permutation"])
def test_two_samplers_of_a_kind_draw_apart(kind):
    rows = dv.View(np.arange(20))
    pairs = dv.open([rows, rows], processor=lambda one, other: (int(one()), int(other())))
    one, other = next(pairs._loader(20, sampler=[kind, kind], seed=1)).item._astuple()
    assert one.tolist() != other.tolist()
    again = next(pairs._loader(20, sampler=[kind, kind], seed=1)).item._astuple()
    assert again[1].tolist() == other.tolist()
    fields = dv.View(x=np.arange(20), y=np.arange(20))
    batch = next(fields._loader(20, sampler={"x": kind, "y": kind}, seed=(1, "a")))
    assert batch.x().tolist() != batch.y().tolist()


def test_parts_of_two_folders_are_linear_and_permuted(tmp_path):
    def parts(name):
        return dv.concat([dv.View(x=np.arange(n) + 10 * n) for n in (3, 4, 2)])

    d = dv.open(
        [parts("a"), parts("b")],
        processor=lambda one, other: {"one": one.x(), "other": other.x()},
    )
    loader = d._loader(9, sampler=["part-linear", "part-linear-permutation"], seed=1)
    for _ in range(2):
        found = next(iter(loader)).item()
        assert found["one"].tolist() == [30, 31, 32, 40, 41, 42, 43, 20, 21]
        assert found["other"].tolist() != found["one"].tolist()
        assert sorted(found["other"][:3]) == [30, 31, 32] and sorted(found["other"][7:]) == [20, 21]


def test_rows_of_folders_of_parts_are_items(tmp_path):
    for folder in ("a", "b"):
        for number in range(4):
            (tmp_path / folder).mkdir(exist_ok=True)
            rows = np.arange(5 * number, 5 * number + 5)
            np.save(tmp_path / folder / f"part-{number}.npy", rows)
    a, b = tmp_path / "a", tmp_path / "b"

    def got(*paths, processor, **options):
        with dv.open([*paths] if paths[1:] else a, layout="parts", processor=processor) as d:
            return [batch.item().tolist() for batch in d._loader(5, **options)]

    kinds = ["part-linear", "part-linear-permutation"]
    pairs = got(a, b, processor=lambda one, other: [one(), other()], sampler=kinds, seed=1)
    assert [[row[0] for row in batch] for batch in pairs] == np.arange(20).reshape(4, 5).tolist()
    assert [sorted(row[1] for row in batch) for batch in pairs] != pairs
    assert got(a, processor=lambda one: one() if one() % 2 else None) == [
        [1, 3], [5, 7, 9], [11, 13], [15, 17, 19]
    ]  # fmt: skip
    own = [dv.open(a, layout="parts", processor=np.negative, partition=(p, 3)) for p in range(3)]
    assert [len(view) for view in own] == [10, 5, 5]
    assert own[0].item[7]() == -17  # a partition has whole parts
    with pytest.raises(TypeError, match="no option 'layout'"):
        dv.open(a, layout="files", processor=abs)


def test_the_table_of_an_index_may_be_in_parts(tmp_path):
    for number in range(2):
        written(tmp_path, f"index/{number}.csv", f"filename,label\n00{number},L{1 - number}\n")
        written(tmp_path, f"index/_/00{number}", f"item {number}")
    how = {"layout": "parts", "manifest": True, "get": "text"}
    with pytest.raises(ValueError, match=r"column 'filename' of .* has int64.* types="):
        dv.open(tmp_path / "index", **how)
    how |= {"types": {"filename": "str"}, "prefix": str(tmp_path / "index" / "_")}
    d = dv.open(tmp_path / "index", **how)
    assert d.item().tolist() == ["item 0", "item 1"]
    assert d.target().tolist() == [1, 0]
    one = dv.open(tmp_path / "index", partition=(1, 2), **how)
    assert (one.item().tolist(), one.target().tolist()) == (["item 1"], [0])


def test_another_index_may_be_longer_or_shorter_if_its_sampler_is_endless(tmp_path):
    a, b = numbered(tmp_path, "a", 7), numbered(tmp_path, "b", 3)
    d = dv.open([a, b], get="text", processor=both)
    loader = d._loader(2, sampler=["linear", "uniform"])
    found = [batch.item() for batch in loader]
    assert np.concatenate([own["one"] for own in found]).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert {*np.concatenate([own["other"] for own in found]).tolist()} <= {1, 2, 3}
    for refused in (lambda: d.item[0](), lambda: d._loader(2)):
        with pytest.raises(ValueError, match=r"index 1 has 3 items and index 0 has 7.*sampler="):
            refused()
    with pytest.raises(ValueError, match=r"index 1.* 3 samples.*endless"):
        list(d._loader(2, sampler=["linear", "linear"]))
    state_of = d._loader(2, sampler=["linear", "uniform"], seed=5)
    first = [next(state_of).item.other().tolist() for _ in range(2)]
    state = state_of.state_dict()
    rest = [batch.item.other().tolist() for batch in state_of]
    again = d._loader(2, sampler=["linear", "uniform"], seed=5)
    again.load_state_dict(state)
    assert [batch.item.other().tolist() for batch in again] == rest != first


class Calls(Source):
    """Numbers that count how often they are read."""

    def __init__(self, count):
        self.shape, self.dtype, self.calls = (count,), np.dtype("i8"), 0

    def read(self, index, memo):
        self.calls += 1
        return gather.by_rows(index, lambda rows: rows)


def test_columns_beside_samples_are_read_once_for_a_batch(tmp_path):
    path, numbers = str(written(tmp_path, "x", "1")), Calls(20)
    d = dv.View(filename=np.array([path] * 20), number=numbers)
    loader = dv.open(d, get="text", processor=int)._loader(5)
    assert [batch.number().tolist() for batch in loader] == np.arange(20).reshape(4, 5).tolist()
    assert numbers.calls == 4


def test_an_index_on_a_server_has_its_items_beside_it(tmp_path):
    dv.cache.set_root(tmp_path / "cache")
    try:
        with serving() as server:
            server.files |= {"/in/index.csv": b"filename,label\na.txt,X\nsub/b.txt,Y\n"}
            server.files |= {"/in/a.txt": b"one", "/in/sub/b.txt": b"two", "/far/a.txt": b"far"}
            url = f"{server.url}/in/index.csv"
            with dv.open(url, get="text") as d:
                assert d.item().tolist() == ["one", "two"]
                assert d.url[1]() == f"{server.url}/in/sub/b.txt"
            server.files["/in/index-meta.csv"] = f"host\n{server.url}/far\n".encode()
            with dv.open(url, get="text") as d:
                assert d.item[0]() == "far"
    finally:
        dv.cache.set_root(None)


def test_names_on_a_server_may_have_any_signs(tmp_path):
    names = ["a b.txt", "50%.txt", "what?.txt", "#1/x;y=z.txt", "été.txt", "a+b&c@d.txt", "%20.txt"]
    table = "filename\n" + "".join(f"{name}\n" for name in names)
    path = written(tmp_path, "i.csv", table)
    with serving() as server:
        server.files |= {f"/in/{quote(name)}": name.encode() for name in names}
        plain = {"/in/a+b&c@d.txt": b"a+b&c@d.txt", "/in/%231/x;y=z.txt": b"#1/x;y=z.txt"}
        server.files |= plain  # these signs need no code, and mean the same with one
        d = dv.open(path, get="text", prefix=f"{server.url}/in")
        assert d.item().tolist() == names
        params = dv.open(path, get="text", prefix=f"{server.url}/in", url_params={"size": 3})
        assert params.url[2]() == f"{server.url}/in/what%3F.txt?size=3"
        whole = written(tmp_path, "w.csv", f"filename\n{server.url}/in/a%20b.txt\n")
        assert dv.open(whole, get="text", prefix="").item().tolist() == ["a b.txt"]


def test_items_in_a_file_elsewhere_are_read_by_their_ranges(tmp_path):
    data = np.random.default_rng(0).bytes(1 << 20)
    spans = [(0, 10), (500_000, 20), (500_100, 5)]
    with serving() as server:
        server.files["/f.bin"] = data
        path = written(tmp_path, "i.csv", ranges_of(f"{server.url}/f.bin", spans))
        d = dv.open(path, get="bytes", prefix="")
        assert d.item[[2, 0, 1]]().tolist() == [
            data[start : start + length] for start, length in (spans[2], spans[0], spans[1])
        ]
        assert sorted(server.ranges()) == ["bytes=0-9", "bytes=500000-500104"]


@pytest.fixture
def server(tmp_path):
    dv.cache.set_root(tmp_path / "cache")
    with serving() as served:
        yield served
    dv.cache.set_root(None)


WAYS = {
    "at once": lambda d: d.item(),
    "known": lambda d: d._probe().item(),
    "loader": lambda d: np.concatenate([batch.item() for batch in d._loader(8)]),
    "two samplers": lambda d: np.concatenate(
        [batch.item() for batch in d._loader(8, sampler=["linear", "permutation"])]
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("get", ["bytes", "text", "files", None])
def test_items_elsewhere_are_got_several_at_a_time(server, tmp_path, get, way):
    wait = threading.Barrier(4)  # which none passes alone

    def together(handler):
        wait.wait(20)
        return False

    for number in range(16):
        buffer = io.BytesIO()
        Image.fromarray(np.full((2, 2), number, "u1")).save(buffer, "png")
        server.files[f"/{number}.png"] = b"%d" % number if get else buffer.getvalue()
    path = written(tmp_path, "i.csv", "filename\n" + "".join(f"{n}.png\n" for n in range(16)))
    made = {"files": lambda one: int(pathlib.Path(one).read_text()), None: lambda one: one[0, 0]}
    made = made.get(get, int)
    how = {"get": get, "prefix": server.url}
    d = dv.open(path, processor=made, **how)
    if way == "two samplers":
        d = dv.open([path, path], processor=lambda one, other: made(one), **how)
    if way == "known":
        d = d._probe()
    own = dv.open(path, **how, **({"ragged": True} if get is None else {}))
    server.faults = dict.fromkeys(server.files, together)
    assert WAYS[way](d).tolist() == [*range(16)]
    if way == "at once":
        assert len(own.item()) == 16


@pytest.mark.parametrize("way", WAYS)
def test_ranges_of_one_file_are_got_in_one_request_for_a_batch(server, tmp_path, way):
    server.files["/x.bin"] = b"".join(b"%02d" % number for number in range(16))
    path = written(tmp_path, "i.csv", ranges_of("x.bin", [(2 * n, 2) for n in range(16)]))
    how = {"get": "text", "prefix": server.url, "processor": int}
    d = dv.open(path, **how)
    if way == "two samplers":
        d = dv.open([path, path], **{**how, "processor": lambda one, other: int(one)})
    if way == "known":
        d = d._probe()
    server.asked.clear()
    assert WAYS[way](d).tolist() == [*range(16)]
    assert len(server.asked) == {"loader": 2, "two samplers": 4}.get(way, 1)


def test_an_item_elsewhere_that_cannot_be_got_is_one_of_several(server, tmp_path):
    server.files |= {f"/{number}": b"%d" % number for number in range(8) if number != 3}
    server.files["/5"] = b"\xff"
    path = written(tmp_path, "i.csv", "filename\n" + "".join(f"{n}\n" for n in range(8)))
    d = dv.open(path, get="text", prefix=server.url, processor=int)
    loader = d._loader(8, on_error="skip")
    assert next(loader).item().tolist() == [0, 1, 2, 4, 6, 7]
    assert [(one.row, type(one.error)) for one in loader.errors] == [
        (3, FileNotFoundError),
        (5, ValueError),
    ]
    for read in (lambda: d.item(), lambda: list(d._loader(8))):
        with pytest.raises(FileNotFoundError, match=r"sample 3.*/3, row 3 of .*i\.csv"):
            read()


@pytest.mark.parametrize("has_processor", [True, False])
@pytest.mark.parametrize("get", ["text", "bytes", None])
def test_an_item_that_fails_does_not_have_the_others_got_twice(
    server, tmp_path, get, has_processor
):
    server.files |= {f"/{number}.txt": b"%d" % number for number in range(5)}
    server.faults["/3.txt"] = status(500)
    path = written(tmp_path, "i.csv", "filename\n" + "".join(f"{n}.txt\n" for n in range(5)))
    how = {"prefix": server.url, "deadline": 0}
    if has_processor:
        how["processor"] = lambda item: int(np.asarray(item))
    d = dv.open(path, get=get, **how)
    for is_last in (False, True):  # a request that is over leaves nothing behind
        server.asked.clear()
        with d._loader(5, on_error="skip") as loader:
            assert [int(one) for one in next(loader).item()] == [0, 1, 2, 4]
        assert [one.row for one in loader.errors] == [3]
        assert sorted(server.paths()) == [f"/{number}.txt" for number in range(5)], is_last
    server.asked.clear()
    with pytest.raises(ConnectionError, match="sample 3"):
        next(d._loader(5))
    assert len(server.asked) == 5


@pytest.mark.parametrize("get", ["bytes", None])
def test_what_a_server_answers_is_an_error_of_its_kind_however_items_are_got(server, tmp_path, get):
    server.files |= {f"/{number}.txt": b"%d" % number for number in range(3)}
    path = written(tmp_path, "i.csv", "filename\n0.txt\n1.txt\n2.txt\n")
    d = dv.open(path, get=get, prefix=server.url, deadline=0)
    for fault, kind, told in (
        (status(500), ConnectionError, "500 Internal.*deadline="),
        (status(403), PermissionError, "403 Forbidden"),
        (reset, ConnectionError, "without response"),
    ):
        server.faults["/1.txt"] = fault
        for read in (d.item, d.item[1], d._loader(3).__next__):
            with pytest.raises(kind, match=told) as found:
                read()
            assert f"{server.url}/1.txt" in str(found.value)


def test_options_of_file_systems_are_those_of_the_items_too(tmp_path, monkeypatch):
    asked = []
    system = fsspec.implementations.memory.MemoryFileSystem
    made = system.__init__

    def init(self, *args, secret=None, **options):
        asked.append(secret)
        made(self, *args, **options)

    monkeypatch.setattr(system, "__init__", init)
    memory = fsspec.filesystem("memory")
    memory.pipe(
        {"/opt/i/index.csv": b"filename,offset,length\nx.txt,1,2\n", "/opt/i/x.txt": b"abc"}
    )
    dv.cache.set_root(tmp_path)
    try:
        for get in ("bytes", lambda url, offset, length: (url, offset, length)):
            del asked[:]
            d = dv.open(
                "memory://opt/i/index.csv", get=get, storage_options={"secret": 7}, deadline=1
            )
            found = d.item[0]() if isinstance(get, str) else d[0].item()
            assert len(found) == (2 if isinstance(get, str) else 3)
            assert {*asked} == {7}
        path = written(tmp_path, "here.csv", "filename\nmemory://opt/i/x.txt\n")
        there = dv.open(path, get="files", storage_options={"secret": 7}).item[0]()
        assert pathlib.Path(there).read_text() == "abc"
    finally:
        memory.rm("/opt", recursive=True)
        dv.cache.set_root(None)


@pytest.mark.parametrize("processor", [None, np.asarray])
def test_copies_whose_paths_were_given_stay_while_a_view_has_them(tmp_path, monkeypatch, processor):
    monkeypatch.setattr(getters, "LAST", 2)
    path = written(tmp_path, "index.csv", "filename\n" + "\n".join("abcde"))
    dv.cache.set_root(tmp_path / "cache")
    dv.cache.set_limit(disk=0)  # so that each copy takes the place of those that nobody uses
    try:
        with serving() as server:
            server.files |= {f"/{name}": name.encode() * 4 for name in "abcde"}
            d = dv.open(path, get="files", prefix=server.url, processor=processor)

            def got(rows):
                return [pathlib.Path(str(d[row].item())) for row in rows]

            paths = got(range(5))
            assert [one.is_file() for one in paths] == [False] * 2 + [True] * 3
            assert [one.read_text() for one in paths[3:]] == ["dddd", "eeee"]
            again = pickle.loads(pickle.dumps(d))
            d._close()
            assert not any(one.in_use for one in dv.cache.info().files)
            dv.cache.set_limit(bytes=5, disk=1)  # where there is no room for two, one stays
            d = again
            paths = got(range(5))
            assert [one.is_file() for one in paths] == [False] * 4 + [True]
            assert paths[4].read_text() == "eeee"
            d._close()
    finally:
        dv.cache.set_limit()
        dv.cache.set_root(None)


def test_copies_that_made_room_for_others_are_got_again(server, tmp_path):
    path = written(tmp_path, "index.csv", "filename\n" + "\n".join("abcde"))
    server.files |= {f"/{name}": name.encode() * 4 for name in "abcde"}
    dv.cache.set_limit(bytes=5, disk=1)  # for one of them
    try:
        how = {"get": "files", "prefix": server.url}
        d = dv.open(path, processor=lambda copy: pathlib.Path(copy).read_text(), **how)
        assert next(d._loader(5)).item().tolist() == [name * 4 for name in "abcde"]
    finally:
        dv.cache.set_limit()


def test_folders_elsewhere_and_in_archives_are_indexes(tmp_path):
    memory = fsspec.filesystem("memory")
    files = {"cats/a.txt": "a", "cats/old/b.txt": "b", "top.txt": "t", ".hidden/c.txt": "c"}
    memory.pipe({f"/idx/{name}": text.encode() for name, text in files.items()})
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"in/{name}", text)
        archive.writestr("in/cats/index.csv", "filename\na.txt\n")
        buffer = io.BytesIO()
        np.save(buffer, np.arange(3))
        archive.writestr("arrays/a.npy", buffer.getvalue())
    dv.cache.set_root(tmp_path / "cache")
    try:
        for url in ("memory://idx", f"zip://in::file://{tmp_path}/x.zip"):
            d = dv.open(url, get="text")
            names = d.filename().tolist()
            wanted = ["cats/a.txt", "cats/old/b.txt", "top.txt"]
            assert {*names} - {"cats/index.csv"} == {*wanted}
            rows = [*map(names.index, wanted)]
            assert d.item[rows]().tolist() == ["a", "b", "t"]
            assert d.label[rows]().tolist() == ["cats", "cats", None]
        inside = dv.open(f"zip://in/cats/index.csv::file://{tmp_path}/x.zip", get="text")
        assert inside.item().tolist() == ["a"]
        decoded = dv.open(f"zip://in/cats/index.csv::file://{tmp_path}/x.zip", get=None)
        assert decoded.item().tolist() == ["a"]
        arrays = dv.open(f"zip://arrays::file://{tmp_path}/x.zip", get=None)
        assert arrays.item().tolist() == [[0, 1, 2]]
    finally:
        dv.cache.set_root(None)
        memory.rm("/idx", recursive=True)
