"""CSV files are read as Python's csv module and pandas do, by pyarrow and without it alike."""

from __future__ import annotations

import codecs
import contextlib
import copy
import csv
import datetime
import gzip
import io
import math
import os
import pickle
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataview as dv
from children import printed, python
from dataview.compute import evaluation
from dataview.formats.tables import column_nodes
from dataview.formats.texts import csv as csv_room
from dataview.formats.texts import csv_arrow, csv_kept, text_bytes
from dataview.formats.texts import csv_lines as lines

WITHOUT = mock.patch.dict(sys.modules, {"pyarrow": None})
WITH_ALWAYS = mock.patch.object(csv_arrow, "SMALLEST", 0)
SMALL = mock.patch.multiple(csv_room, CHUNK=64)
SMALL_GROUPS = mock.patch.object(lines, "GROUP_BYTES", 32)


@pytest.fixture(params=["pyarrow", "python"])
def way(request):
    with WITHOUT if request.param == "python" else WITH_ALWAYS:
        yield request.param


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for the files of all examples of a property."""
    return tmp_path_factory.mktemp("tables")


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, **options):
    """All that is in a file: for each field its values and its dtype."""
    with dv.open(path, **options) as d:
        return {name: (d[name]().tolist(), d[name].dtype) for name in d._fields()}


def values(path, **options):
    return {name: found for name, (found, _) in read(path, **options).items()}


# -------------------- what is in the cells --------------------


def test_types_are_found_over_the_whole_file(tmp_path, way):
    path = written(
        tmp_path,
        "name,age,x,day,at,ok,id,big,none\n"
        "anna,5,1.5,2020-01-01,2020-01-01 05:06:07,true,18446744073709551615,1,\n"
        '"b ""q"", z",,NA,,2020-01-01T00:00:00.25,False,0,99999999999999999999,\n'
        "\n"
        '"two\nlines",7,2,2020-02-02,2020-01-01,TRUE,1,-5,NA\n'
        '"",8,,2020-02-03,,,1,1,\n',
    )
    with dv.open(path) as d:
        found = {name: str(d[name].dtype) for name in d._fields() if not name.endswith("_mask")}
        assert found == {
            "name": "object",
            "age": "int64",
            "x": "float64",
            "day": "datetime64[D]",
            "at": "datetime64[us]",
            "ok": "bool",
            "id": "uint64",
            "big": "object",
            "none": "float64",
        }
        assert d.name().tolist() == ["anna", 'b "q", z', "two\nlines", ""]
        assert d.age().tolist() == [5, 0, 7, 8]
        assert d.age_mask().tolist() == [True, False, True, True]
        assert np.isnan(d.x()).tolist() == [False, True, False, True]
        assert np.isnat(d.day()).tolist() == [False, True, False, False]
        assert d.ok().tolist() == [True, False, True, False]
        assert d.big().tolist() == ["1", "99999999999999999999", "-5", "1"]
        assert "name_mask" not in d._fields() and "id_mask" not in d._fields()
        assert not d.none_mask().any()


CELLS = st.one_of(
    st.sampled_from(
        " 5|5 |\t5|+5|0x1F|0X1|-0x1|1e5|1E+5|.5|5.|-.5|inf|-inf|Infinity|nan|-nan|NaN|nan(1)|1_0"
        "|true|True|tRUE| true|2020-01-01| 2020-01-01|2020-01-01 |2020-01-01T05|2020-01-01 05:06"
        "|2020-01-01 05:06:07|2020-01-01 05:06:07.5|2020-01-01T05:06:07.123456789"
        "|2020-01-01T05:06:07.1234567890|2020-01-01T05:06:07Z|2020-01-01 24:00:00|2020-02-30"
        "|0001-01-01|0001-01-01 05:06:07.5|20200101|05:06:07|-0|--5|1e400|-1e400"
        "|9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809"
        "|18446744073709551615|18446744073709551616|1e|e5|-|.| NA|NA|N/A|null| ||0005|x|é|名"
        '|a,b|a\nb|a"b|"|""|,|a;b|\'|\r|#x|# x'.split("|")
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-99, 99).map(str),
    st.floats().map(repr),
    st.dates().map(str),
    st.datetimes().map(str),
    st.text("aB1,;\"' \n\té#\0", max_size=5),
)
LIKE = [
    st.integers(-99, 99).map(str) | st.sampled_from(["", "NA"]),
    st.floats(width=32).map(repr) | st.integers(-99, 99).map(str),
    st.dates().map(str) | st.sampled_from(["", "NA"]),
    st.sampled_from(["true", "False", "TRUE", "NA"]),
    CELLS,
]


@st.composite
def tables(draw):
    """The text of a table, and its cells."""
    width = draw(st.integers(1, 4))
    columns = [draw(st.sampled_from(LIKE)) for _ in range(width)]
    rows = draw(st.lists(st.tuples(*columns), min_size=1, max_size=12))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, quoting=quoting, lineterminator="\r\n").writerow(row)  # quotes both signs
        lines.append(out.getvalue().removesuffix("\r\n") + end)
    return "".join(lines), rows


@given(
    table=tables(),
    header=st.sampled_from([None, "auto"]),
    room=st.sampled_from([0, 200, csv_kept.MOST]),
)
def test_pyarrow_and_python_give_the_same(place, table, header, room):
    path = written(place, table[0])

    def outcome():
        try:
            return repr(read(path, header=header, sep=","))
        except ValueError as error:
            return str(error)

    with WITH_ALWAYS, SMALL, SMALL_GROUPS, mock.patch.object(csv_kept, "MOST", room):
        fast = outcome()
    with WITHOUT:
        assert outcome() == fast


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", ["a", '"a\nb"', '"a\r\nb"', '"a""b"'])
def test_rows_are_found_whatever_ends_them(tmp_path, end, text):
    path = tmp_path / "t.csv"
    path.write_bytes((end.join(["n,s", *(f"{n},{text}" for n in range(500))]) + end).encode())
    for sizes in (contextlib.nullcontext(), SMALL):
        with sizes, SMALL_GROUPS:
            d = dv.open(path)
            assert [len(d), d.n[317](), d.n[[5, 499]]().tolist()] == [500, 317, [5, 499]]
            assert d.n().tolist() == list(range(500))
            assert d.s[450]() == text.strip('"').replace('""', '"')
            assert pickle.loads(pickle.dumps(d)).n[20:23]().tolist() == [20, 21, 22]


@pytest.mark.parametrize("way", [WITHOUT, WITH_ALWAYS])
def test_numbers_with_a_plus_sign_are_floats_unless_they_are_to_be_texts(way, tmp_path):
    cells = ["+5", "7", "+4930901820"]
    path = written(tmp_path, "\n".join(["a", *cells, ""]))
    with way:
        d, texts = dv.open(path), dv.open(path, types={"a": str})
        assert d.a().dtype == float and d.a().tolist() == [*map(float, cells)]
        assert d.a._astype(int)().tolist() == [*map(int, cells)]
        assert texts.a().tolist() == cells


@given(table=tables())
def test_texts_are_those_of_the_csv_module(place, table):
    path = written(place, table[0])
    rows = [row for row in csv.reader(io.StringIO(table[0], newline="")) if row]
    for way in (WITHOUT, WITH_ALWAYS):
        with way, SMALL, SMALL_GROUPS:
            found = values(path, header=None, sep=",", types=str, missing=())
        assert list(zip(*found.values(), strict=True)) == [tuple(row) for row in rows]


@given(text=st.text('ab,"\n\r#;1', max_size=60))
@example('a"b",c\n')
@example('"",')
@example('"a"b,c\n"d""e"\r\n')
def test_any_text_is_read_alike_or_refused_alike(place, text):
    path = written(place, text)

    def outcome(**options):
        try:
            return repr(read(path, header=None, sep=",", **options))
        except ValueError as error:
            return str(error)

    for options in ({}, {"comment": "#"}, {"quote": None}, {"types": str}):
        with WITH_ALWAYS, SMALL, SMALL_GROUPS:
            fast = outcome(**options)
        with WITHOUT:
            assert outcome(**options) == fast
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        if options == {"types": str} and rows and "line" not in fast:
            assert len({len(row) for row in rows}) == 1


# -------------------- how files are written --------------------


def test_excel_writes_semicolons_and_commas_behind_a_mark(tmp_path, way):
    text = 'Name;Größe;Tag\r\nÄnne;1,5;2020-01-01\r\n"a;b";-2;\r\n'
    expected = {"Name": ["Änne", "a;b"], "Größe": [1.5, -2.0]}
    for encoding in ("utf-8-sig", "utf-16", "utf-32", "utf-16-le"):
        mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
        path = written(tmp_path, mark + text.encode(encoding), f"{encoding}.csv")
        found = values(path, decimal=",")
        assert {name: found[name] for name in expected} == expected
        assert found["Tag_mask"] == [True, False]


def test_r_writes_names_of_rows_and_na(tmp_path, way):
    frame = written(tmp_path, '"","x","s"\n"1",1,"NA"\n"2",NA,NA\n')
    assert values(frame) == {
        "column_1": [1, 2],
        "x": [1, 0],
        "x_mask": [True, False],
        "s": ["NA", None],
        "s_mask": [True, False],
    }
    table = written(tmp_path, '"x" "y"\n"a" 1 2\n"b" 3 4\n', "r.csv")
    assert values(table, sep=" ") == {"row": ["a", "b"], "x": [1, 3], "y": [2, 4]}


def test_ljspeech_has_bars_no_names_and_quotes_that_are_text(tmp_path, way):
    path = written(tmp_path, 'LJ1|He said "no, 5"|He said "no, five"\nLJ2|"Yes|"Yes\n')
    found = values(path, sep="|", header=None, quote=None, names=["id", "text", "normal"])
    assert found == {
        "id": ["LJ1", "LJ2"],
        "text": ['He said "no, 5"', '"Yes'],
        "normal": ['He said "no, five"', '"Yes'],
    }


def test_scikit_learn_has_counts_in_the_first_line(tmp_path, way):
    path = written(tmp_path, "3,2,setosa,virginica\n5.1,3.5,0\n4.9,3.0,1\n6,7,1\n")
    with pytest.raises(ValueError, match=r"line 2, 3 cells, and the first row has 4.*skip="):
        dv.open(path)
    assert values(path, skip=1) == {
        "column_1": [5.1, 4.9, 6.0],
        "column_2": [3.5, 3.0, 7.0],
        "column_3": [0, 1, 1],
    }


def test_what_parts_cells_is_found_or_told_by_the_name(tmp_path, way):
    for sep in ",;|\t":
        path = written(
            tmp_path, f"a{sep}b\n1{sep}x y, z\n".replace("y, z", "y" + ", z" * (sep != ","))
        )
        assert values(path)["a"] == [1]
    assert values(written(tmp_path, "a,b\tc\n1,2\t3\n", "t.tsv"))["c"] == [3]
    assert values(written(tmp_path, "a\n1\n")) == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\nx,y\n", ["a", "b"]),
        ("a,a\nx,y\n", ["column_1", "column_2"]),
        ("a,a,b\n1,2,3\n", ["a", "a_2", "b"]),
        ("a,a,a_2,a\n1,2,3,4\n", ["a", "a_3", "a_2", "a_4"]),
        ("column_2,\n1,2\n", ["column_2", "column_2_2"]),
        ("a,1\nx,2\n", ["column_1", "column_2"]),
        ("a, b \n1,2\n", ["a", "b"]),
        ("a,\n1,2\n", ["a", "column_2"]),
        ("a,b\n", ["a", "b"]),
    ],
)
def test_whether_the_first_row_has_names_is_found(tmp_path, way, text, names):
    assert [*dv.open(written(tmp_path, text))._fields()] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("country,2019,2020\nGermany,1.5,2\nFrance,3,4\n", ["country", "2019", "2020"]),
        ("country,code,1990,2000\nGermany,DE,1,\n", ["country", "code", "1990", "2000"]),
        ("2019,2020\n1.5,2\n3,4\n", ["2019", "2020"]),
        ("country,2019\nGermany,high\nFrance,low\n", ["country", "2019"]),
        ("day,7\n2024-01-01,true\n2024-01-02,false\n", ["day", "7"]),
        # no names: starts and ends, counts, prices
        ("Germany,2019,2020\nFrance,2018,2019\n", ["column_1", "column_2", "column_3"]),
        ("apple,1200\npear,350\nfig,80\n", ["column_1", "column_2"]),
        ("apple,1200,3\npear,350,4\n", ["column_1", "column_2", "column_3"]),
        ("x,1,2\ny,3,4\n", ["column_1", "column_2", "column_3"]),
        ("x,5\ny,high\nz,7\n", ["column_1", "column_2"]),
    ],
)  # fmt: skip
def test_years_and_other_numbers_may_be_names(tmp_path, way, text, names):
    assert list(read(written(tmp_path, text)))[: len(names)] == names


def test_a_separator_behind_each_row_is_no_column_of_names(tmp_path, way):
    found = values(written(tmp_path, "a,b\n1,2,\n3,4,\n"))
    assert (found["a"], found["b"], found["column_3_mask"]) == ([1, 3], [2, 4], [False] * 2)
    found = values(written(tmp_path, "a,b\nx,2,\ny,4,5\n"))
    assert (found["row"], found["a"]) == (["x", "y"], [2, 4])


@pytest.mark.parametrize(
    ("before", "table"),
    [
        ("# made by x\n# on monday, at noon\n", "a\tb\n1\t2\n3\t4\n"),
        ("#\n#c\r\n", "a,b\r\n1,2\r\n3,4\r\n"),
        ("##source=x,y,z\n##date=1\n", "#a,b\n1,2\n3,4\n"),
        ("sep=;\n", "a;b\n1;2\n3;4\n"),
        ("sep=|\r\n", "a|b\r\n1|2\r\n3|4\r\n"),
    ],
)
def test_lines_before_the_table_that_say_what_they_are_are_passed_over(
    tmp_path, way, before, table
):
    whole, alone = (
        written(tmp_path, text, f"{n}.csv") for n, text in enumerate((before + table, table))
    )
    assert values(whole) == values(alone)
    assert list(values(whole).values()) == [[1, 3], [2, 4]]
    path = written(tmp_path, f"{before}{table.replace('3', 'x')}")
    with pytest.raises(ValueError, match=f"line {before.count(chr(10)) + 3}, column"):
        dv.open(path, types="i4")


def test_rows_that_begin_with_a_number_sign_stay(tmp_path, way):
    found = values(written(tmp_path, "tag,n\n#a,1\n#b,2\n"))
    assert found["tag"] == ["#a", "#b"]
    assert values(written(tmp_path, "#a,1\n#b,2\n")) == {
        "column_1": ["#a", "#b"],
        "column_2": [1, 2],
    }


def test_titles_above_the_table_and_decimal_commas_are_told(tmp_path, way):
    with pytest.warns(RuntimeWarning, match=r"1 cell in the first row and 2 in the next.*skip=2"):
        dv.open(written(tmp_path, "Report 2024\n\na,b\n1,2\n3,4\n"))
    with pytest.warns(RuntimeWarning, match="numbers seem to have a comma.*write decimal=','"):
        found = values(written(tmp_path, "a;b;c\n1,5;x;2\n3,25;y;2\n"))
    assert found["a"] == ["1,5", "3,25"]
    values(written(tmp_path, "a;b\n1,5;x\n2,x;y\n"))


def test_marks_between_digits_are_left_out_if_they_are_told(tmp_path, way):
    text = 'name,pop,x\n"1,5","1,234,567","-12,000.25"\n"b,c","89",1\n'
    path = written(tmp_path, text)
    found = read(path, thousands=",")
    assert found["pop"] == ([1_234_567, 89], np.dtype("i8"))
    assert found["x"][0] == [-12000.25, 1] and found["name"][0] == ["1,5", "b,c"]
    assert values(path)["pop"] == ["1,234,567", "89"]
    assert values(path, thousands=",", types={"pop": "f4"})["pop"] == [1_234_567, 89]
    german = written(tmp_path, "a;b\n1.234,5;1.2\n2,5;12.345\n")
    found = values(german, decimal=",", thousands=".")
    assert (found["a"], found["b"]) == ([1234.5, 2.5], ["1.2", "12.345"])
    with pytest.raises(ValueError, match=r"line 2, column 'b': '1\.2' is no int64"):
        dv.open(german, decimal=",", thousands=".", types={"b": int})
    with pytest.raises(ValueError, match=r"thousands='\.' is quote= or decimal= already"):
        dv.open(german, thousands=".")


def test_what_excel_pandas_and_r_write_for_nothing_is_missing(tmp_path, way):
    found = values(written(tmp_path, "a,b,c,d\n1,#N/A,n/a,<NA>\n2,3,4,5\n"))
    assert [found[name] for name in "abcd"] == [[1, 2], [0, 3], [0, 4], [0, 5]]
    assert all(found[f"{name}_mask"] == [False, True] for name in "bcd")


def test_numbers_parted_by_spaces_are_columns(tmp_path, way):
    assert values(written(tmp_path, "a b\n1 2\n3 NA\n"))["a"] == [1, 3]
    assert values(written(tmp_path, "1 2.5\n3 4\n"))["column_2"] == [2.5, 4.0]
    for text in ("at\n2020-01-01 05:06\n", "2020-01-01 05:06\n2020-01-01 05:07\n", "a b\nc d\n"):
        assert len(values(written(tmp_path, text))) == 1


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a b\nx 1\ny 2\n", "if so, write sep=' ', and else sep=','"),
        ('"x" "y"\n"a" 1 2\n"b" 3 4\n', "if so, write sep=' '"),
        (" a   b\n 1  20\n10   2\n", r"pandas\.read_csv\(path, sep=r'\\s\+'\)"),
    ],
)
def test_cells_that_seem_to_be_parted_by_spaces_are_told(tmp_path, way, text, advice):
    path = written(tmp_path, text)
    with pytest.warns(
        RuntimeWarning, match=rf"t\.csv: cells seem to be parted by spaces.*{advice}"
    ):
        assert len(values(path)) == 1
    assert len(values(path, sep=",")) == 1


def test_another_separator_than_the_one_given_is_told(tmp_path, way):
    path = written(tmp_path, "name,age,city\nann,1,x\nben,2,y\n")
    told = (
        r"t\.csv: ';' parts no cells of the first row, and ',' parts each row into 3: write sep=','"
    )
    with pytest.warns(RuntimeWarning, match=told):
        assert [*values(path, sep=";")] == ["name,age,city"]
    with pytest.warns(RuntimeWarning, match="write sep=','"):
        values(written(tmp_path, "a,b\n1,2\n", "t.tsv"))
    assert values(written(tmp_path, "a\n1,5\n2\n"), sep=";")["a"] == ["1,5", "2"]


def test_names_that_are_given_beside_those_of_the_file_are_told(tmp_path, way):
    path = written(tmp_path, "a,b\nx,1\ny,2\n")
    with pytest.warns(
        RuntimeWarning, match=r"t\.csv: the first row looks like a header.* header=0"
    ):
        assert values(path, names=["c", "d"])["d"] == ["b", "1", "2"]
    assert values(path, names=["c", "d"], header=0)["d"] == [1, 2]
    assert values(path, names=["c", "d"], header=None)["c"] == ["a", "x", "y"]
    path = written(tmp_path, "a,b\nx,z\n")
    assert values(path, names=["c", "d"])["c"] == ["a", "x"]
    with pytest.warns(RuntimeWarning, match="header=0"):
        values(path, names=["a", "b"])


def test_names_are_where_they_are_said_to_be(tmp_path, way):
    path = written(tmp_path, "# by hand\n\n1,1,\n# more\n5,6,7\n8,9,NA\n")
    how = {"comment": "#"}
    assert values(path, header=0, **how) == {
        "1": [5, 8],
        "1_2": [6, 9],
        "column_3": [7, 0],
        "column_3_mask": [True, False],
    }
    assert values(path, header=True, skip=2, **how)["1"] == [5, 8]
    assert values(path, header=None, **how)["column_1"] == [1, 5, 8]
    assert values(path, header=False, names=list("abc"), **how)["b"] == [1, 6, 9]
    assert values(path, names=list("abc"), **how)["b"] == [1, 6, 9]
    assert values(path, header=0, names=list("abc"), **how)["b"] == [6, 9]
    assert values(path, header=1, **how)["5"] == [8]


def test_rows_with_fewer_cells_are_filled_up_if_that_is_asked_for(tmp_path, way):
    path = written(tmp_path, "file,a,b\n1,x\n2,,y\n3\n4,x,y")
    with pytest.raises(ValueError, match=r"short='missing' takes rows"):
        dv.open(path)
    found = values(path, short="missing", types={"file": str})
    assert found["file"] == ["1", "2", "3", "4"]
    assert found["a"] == ["x", None, None, "x"]
    assert found["b"] == [None, "y", None, "y"]
    long = written(tmp_path, "a,b\n1,2\n1,2,3\n", "long.csv")
    with pytest.raises(ValueError, match="line 3, 3 cells"):
        dv.open(long, short="missing")
    with pytest.raises(ValueError, match="short is one of 'refuse', 'missing'; got 'fill'"):
        dv.open(long, short="fill")


def test_what_is_missing_is_said_and_filled(tmp_path, way):
    path = written(tmp_path, 'a,b,s\n1,-99,?\n-99,2.5,"?"\n,3,\n'.replace("\n,3", "\n5,3"))
    found = values(path, missing=("-99", "?"))
    assert found["a"] == [1, 0, 5]
    assert found["a_mask"] == [True, False, True]
    assert math.isnan(found["b"][0])
    assert (found["s"], found["s_mask"]) == ([None, "?", ""], [False, True, True])
    assert values(path, missing="-99", fill=-1)["a"] == [1, -1, 5]
    filled = values(path, missing=("-99", "?"), fill={"a": 7, "s": "none"})
    assert filled["s"] == ["none", "?", ""]
    assert sorted(filled) == ["a", "b", "b_mask", "s"]
    with pytest.raises(TypeError, match=r"fill=1\.5 is no value of column 'a' of t\.csv"):
        dv.open(path, missing=("-99", "?"), fill={"a": 1.5})


def test_types_are_given_by_column_or_for_all(tmp_path, way):
    path = written(tmp_path, "a,b,day\n1,0,01.02.2020\n255,1,28.12.1999\n")
    found = read(path, types={"a": "u1", "b": bool}, dates={"day": "%d.%m.%Y"})
    assert found["a"] == ([1, 255], np.dtype("u1"))
    assert found["b"][0] == [False, True]
    assert found["day"][1] == np.dtype("M8[us]")
    assert str(found["day"][0][1]) == "1999-12-28 00:00:00"
    zoned = written(tmp_path, "at\n2020-01-01 00:30+0200\n", "zoned.csv")
    (at,) = read(zoned, dates={"at": "%Y-%m-%d %H:%M%z"})["at"][0]
    assert str(at) == "2019-12-31 22:30:00"
    for text in (str, "str", "text", "string"):
        assert values(path, types={"a": text})["a"] == ["1", "255"]
    assert values(path, types=str)["a"] == ["1", "255"]
    found = values(path, types=lambda name: str if name == "a" else None)
    assert found == values(path, types={"a": str})
    assert read(path, types={"a": ">f4"})["a"] == ([1.0, 255.0], np.dtype("f4"))
    path = written(tmp_path, "d\n2020-01-01\n")
    assert read(path, dates=False)["d"] == (["2020-01-01"], np.dtype("O"))
    assert read(path, types={"d": "M8[s]"})["d"][1] == np.dtype("M8[s]")


def test_packed_files_and_other_encodings_are_unpacked_once(tmp_path, way):
    text = "a,b\n" + "".join(f"{n},é{n}\n" for n in range(3000))
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()[:100]) + gzip.compress(text.encode()[100:]))
    latin = written(tmp_path, text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"t\.csv: line 2 is no text in UTF-8 .*'latin-1'"):
        dv.open(latin)
    for size in (1 << 20, 1 << 10):
        with mock.patch.object(text_bytes, "SMALL", size):
            for path, how in ((packed, {}), (latin, {"encoding": "latin-1"})):
                d = dv.open(path, **how)
                assert d.b[[2999, 0]]().tolist() == ["é2999", "é0"]
                assert pickle.loads(pickle.dumps(d)).a()[-1] == 2999


# -------------------- what is wrong --------------------


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        ('a,b\n1,"x\r\ny\rz"\n\n3,4,5\n', {}, "line 6, 3 cells, and the first row has 2: '3,4,5'"),
        ('a,b\n1,"x\ny"\nx,2\n', {"types": {"a": "i4"}}, "line 4, column 'a': 'x' is no int32"),
        ("a\n1\n300\n", {"types": "u1"}, "line 3, column 'a': '300' is no uint8"),
        ("a\n1\n0x1F\n", {"types": int}, "line 3, column 'a': '0x1F' is no int64"),
        ("a\n1.5\n", {"types": int}, "line 2, column 'a': '1.5' is no int64"),
        ("a\nyes\n", {"types": bool}, "line 2, column 'a': 'yes' is no bool"),
        ("a\n2020-02-30\n", {"types": "M8[D]"}, "line 2, column 'a': '2020-02-30' is no datetime"),
        ("a\n1.2.20\n", {"dates": {"a": "%Y"}}, "line 2, column 'a': '1.2.20' is no date of the f"),
        ('a,b\n1,2\n3,"4\n5,6\n', {}, "line 3: a quote in cell 2 of the row .* quote=None"),
        ("a,b\n1,2\n", {"types": {"c": int}}, "has no column 'c', which types= names; .*: a, b"),
        ("a,b\n1,2\n", {"types": {"a": "c8"}}, "column 'a' the dtype complex64; a cell is"),
        ("a\n1\n", {"types": "category"}, "column 'a' the dtype 'category'; a cell is .*or str"),
        ("a\n1\n", {"types": {"a": "Int64"}}, "column 'a' the dtype 'Int64'; a cell is a bool"),
        ("a\n1\n", {"missing": {"a": "x"}}, "missing= is a text .* all columns; got {'a'"),
        ("a\n1\n", {"missing": 3}, "missing= is a text or texts .*; got 3"),
        ("a\n1\n", {"dates": ["a"]}, r"dates= is True .* in any column.*; got \['a'\]"),
        ("a,b\n1,2\n", {"names": ["x"]}, "names= has 1 names, and the rows have 2 cells"),
        ("a,b\n1,2\n", {"sep": "::"}, "sep= is one character of ASCII; got '::'"),
        ("a,b\n1,2\n", {"sep": ",", "decimal": ","}, "no character can be two of them"),
        ("a,b\n1,2\n", {"header": 5}, "has 2 rows, and header=5 is none of them"),
        ("a,b\n1,2\n", {"header": "yes"}, "header= is 'auto', None .*; got 'yes'"),
        ("a,b\n1,2\n", {"skip": -1}, "skip= is a number of lines, from 0 on; got -1"),
        ("a,b\n1,2\n", {"encoding": "utf-9"}, "encoding= is one that Python knows.*'utf-9'"),
        ("a,b\n1,2\n", {"dates": 5}, "dates= is True if dates as 2026-11-22 are to be found"),
        ("", {}, "holds no rows"),
        ("\n\n", {}, "holds no rows"),
    ],
)
def test_an_error_names_the_line_and_the_column(tmp_path, way, text, how, told):
    with pytest.raises((ValueError, TypeError), match=told):
        dv.open(written(tmp_path, text), **how)


def test_a_line_is_counted_from_the_beginning_of_the_file(tmp_path, way):
    rows = "".join(f'{n},"a\nb"\n' for n in range(5000))
    path = written(tmp_path, f"one\r\ntwo\r\nx,s\n{rows}oops,1\n")
    with (
        mock.patch.object(csv_room, "CHUNK", 1 << 12),
        pytest.raises(ValueError, match=r"t\.csv: line 10004, column 'x': 'oops' is no float32"),
    ):
        dv.open(path, skip=2, types={"x": "f4"})


def test_the_only_file_in_a_zip_of_such_a_name_is_the_table(tmp_path, way):
    path = tmp_path / "t.csv.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._t.csv", b"\0")
        archive.writestr("any.csv", "a,b\n1,x\n2,é\n")
    assert values(path) == {"a": [1, 2], "b": ["x", "é"]}
    assert pickle.loads(pickle.dumps(dv.open(path))).a[1]() == 2
    assert dv.open(path, format="archive").key().tolist() == ["any"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.csv", "a\n")
    with pytest.raises(ValueError, match=r"t\.csv\.zip holds 2 files.*format='archive'"):
        dv.open(path)
    written(tmp_path, path.read_bytes()[:-10] + b"0" * 10, "t.csv.zip")
    with pytest.raises(ValueError, match=r"t\.csv\.zip"):
        dv.open(path)
    assert values(written(tmp_path, "a\tb\n1\t2\n", "no.tsv.zip")) == {"a": [1], "b": [2]}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_in_utf_16_without_a_mark_is_told(tmp_path, encoding):
    path = written(tmp_path, "a,b\n1,é\n".encode(encoding))
    with pytest.raises(ValueError, match=rf"t\.csv seems to be in UTF-16.*encoding='{encoding}'"):
        dv.open(path)
    assert values(path, encoding=encoding) == {"a": [1], "b": ["é"]}
    lines = written(tmp_path, '{"a": 1}\n'.encode(encoding), "t.jsonl")
    with pytest.raises(ValueError, match=r"t\.jsonl seems to be in UTF-16"):
        dv.open(lines)


def test_a_file_that_has_changed_is_not_read(tmp_path, way):
    path = written(tmp_path, "a\n1\n")
    d, unread = dv.open(path), dv.open(path)
    assert d.a().tolist() == [1]
    sent = pickle.dumps(d)
    written(tmp_path, "a\n1\n2\n")
    with pytest.raises(ValueError, match=r"t\.csv has changed since it was opened; open it again"):
        unread.a()
    with pytest.raises(ValueError, match=r"t\.csv has changed since its view was pickled"):
        pickle.loads(sent)
    d._close()
    with pytest.raises(ValueError, match=r"t\.csv was closed"):
        d.a()


def test_a_csv_file_is_not_changed_in_place(tmp_path):
    path = written(tmp_path, "a\n1\n")
    with pytest.raises(ValueError, match=r"rows of a text have no fixed length.*mode 'r'.*_save"):
        dv.open(path, "r+")
    with pytest.raises(dv.ReadOnlyError):
        dv.open(path).a[0] = 5


LIMITED = """
import resource, sys
if sys.argv[1] == "python":
    sys.modules["pyarrow"] = None
import dataview as dv
dv.View([1]), dv.open(sys.argv[3]).a()
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (400 << 20),) * 2)
try:
    dv.open(sys.argv[2])
except ValueError as error:
    print(error)
"""


def test_hostile_files_are_refused_in_little_memory(tmp_path, way):
    script, good = written(tmp_path, LIMITED, "limited.py"), written(tmp_path, "a\n1\n")
    with open(tmp_path / "cell.csv", "wb") as file:
        file.write(b'a,b\n1,2\n3,"x')
        file.truncate(1 << 30)
    with open(tmp_path / "first.csv", "wb") as file:
        file.write(b'a,b\n"x')
        file.truncate(1 << 30)
    written(tmp_path, b"a" + b",b" * 1_000_000 + b"\n", "wide.csv")
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=9) as packed:
        packed.write(b"a\n")
        for _ in range(300):
            packed.write(b"\n" * (1 << 20))
    for name, told in (
        ("cell.csv", "line 3: the row that begins there has no end in 16 MiB, with cell 2"),
        ("first.csv", "line 2: the row that begins there has no end in 16 MiB, with cell 1"),
        ("wide.csv", "the first row has 1000001 cells, and a table has at most 65536 columns"),
        ("bomb.csv.gz", "unpacks to more than 200 times as many"),
    ):
        done = python(script, way, tmp_path / name, good, timeout=60)
        assert name in done.stdout and told in done.stdout, (done.stdout, done.stderr)


DESCRIBED = """
import sys
import numpy as np
import dataview as dv
def most_held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
path, draw = sys.argv[1], np.random.default_rng(0)
rows = "".join(
    f"{draw.normal()},{n},name{n % 1000},{draw.normal()},{n % 2},2020-01-{n % 28 + 1:02d}\\n"
    for n in range(20_000)
)
for repeats in (1, 100):
    with open(path, "w") as file:
        file.write("x,number,name,y,flag,day\\n")
        file.writelines([rows] * repeats)
    before = most_held()
    with dv.open(path) as d:
        d.x._mean()()
print(most_held() - before >> 10)
"""


def test_a_large_file_is_opened_and_described_in_little_memory(tmp_path):
    assert int(printed("-c", DESCRIBED, tmp_path / "t.csv")) < 80  # of which 32 are kept
    assert (tmp_path / "t.csv").stat().st_size > 100_000_000


def test_broken_packed_files_are_refused(tmp_path, way):
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    for broken in (whole[:-10], whole[:12], whole[:20] + b"\0" * 20 + whole[40:]):
        with pytest.raises(ValueError, match=r"t\.csv\.gz cannot be unpacked"):
            dv.open(written(tmp_path, broken, "t.csv.gz"))


# -------------------- reading --------------------


def table(count):
    return "n,x,s\n" + "".join(f"{n},{n / 8},t{n}\n" for n in range(count))


def test_a_row_reads_its_group_alone_and_columns_asked_together_once(tmp_path):
    path = written(tmp_path, table(100_000))
    d = dv.open(path)
    sizes = []
    own = csv_room.Parser.columns

    def noted(self, raw, place, fields):
        sizes.append((len(raw), len(fields)))
        return own(self, raw, place, fields)

    with mock.patch.object(csv_room.Parser, "columns", noted):
        assert d.s[70_000]() == "t70000"
        assert d.n[70_001]() == 70_001
        assert d.x[:]().sum() == sum(n / 8 for n in range(100_000))
    assert all(size < 3 * lines.GROUP_BYTES for size, _ in sizes[:2])


@pytest.mark.parametrize("wrong", range(60, 100, 7))
def test_of_two_mistakes_the_first_is_told(wrong, way, tmp_path):
    rows = [f"{n},x" for n in range(100)]
    rows[wrong] = f"no number,{'x' * 64}"
    path = written(tmp_path, "\n".join(["n,s", *rows, '100,"not closed']))
    small = mock.patch.multiple(csv_room, CHUNK=64, SAMPLE=64)
    with small, pytest.raises(ValueError, match=rf"line {wrong + 2}, column 'n': 'no number'"):
        dv.open(path, types={"n": int})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_where_rows_begin_is_found_once_rows_are_read_by_number(end, way, tmp_path):
    rows = [f"{n},{'x' * (1 + n % 90)}" for n in range(5000)]
    path = written(tmp_path, end.join(["n,s", *rows]))
    with mock.patch.object(csv_room, "CHUNK", 1 << 14):
        with mock.patch.object(lines, "row_ends", side_effect=AssertionError("looked for")):
            d = dv.open(path)
            assert len(d) == 5000 and d.n.dtype == "i8"
        with mock.patch.object(lines, "row_ends", side_effect=lines.row_ends) as found:
            for row in (4321, 17, 4321, 4999):
                assert d[row]().tolist() == (row, "x" * (1 + row % 90))
        assert found.call_count <= 3
        assert d.s[::-7]().tolist() == ["x" * (1 + n % 90) for n in range(5000)[::-7]]


def test_a_row_of_much_text_among_short_ones_and_empty_lines_and_comments(way, tmp_path):
    rows = [f'{n},"{"y" * (70_000 if n == 400 else n % 5)}"' for n in range(900)]
    text = "n,s\n# to begin with\n\n" + "\n\n# and on\n".join(rows) + "\n# to end with\n\n"
    d = dv.open(written(tmp_path, text), comment="#")
    order = np.random.default_rng(0).permutation(900)
    wanted = ["y" * (70_000 if n == 400 else n % 5) for n in order.tolist()]
    assert d.n[order]().tolist() == order.tolist() and d.s[order]().tolist() == wanted
    assert len(d) == 900 and d.s[400]() == "y" * 70_000 and d.n[-1]() == 899


def test_rows_are_read_in_one_pass_each_beside_a_column_that_is_kept(tmp_path):
    lines = (",".join(map(str, range(n, n + 6))) for n in range(100_000))
    d = dv.open(written(tmp_path, "\n".join(["a,b,c,d,e,f", *lines])))
    assert d.a._sum()() == sum(range(100_000))
    d[5]()  # which tells what is asked of rows
    kind = csv_room.CsvTable
    with mock.patch.object(kind, "read", autospec=True, side_effect=kind.read) as read:
        for row in (70_000, 30_000, 50_000):
            assert d[row]().tolist() == tuple(range(row, row + 6))
    assert read.call_count == 3


PARSING = mock.patch.object(csv_room.Parser, "columns", side_effect=AssertionError("parsed again"))


def test_numbers_that_the_pass_has_parsed_are_not_parsed_again(tmp_path):
    rows = [f"{n},{n / 8 if n % 5 else ''},t{n},{'true' if n % 3 else 'NA'}" for n in range(900)]
    path = written(tmp_path, "\n".join(["n,x,s,b", *rows]))
    with SMALL, SMALL_GROUPS:
        d = dv.open(path, types={"n": "i2"})
        with PARSING:
            assert d.n._sum()() == sum(range(900)) and d.n.dtype == "i2"
            assert d.x._nanmax()() == 899 / 8 and d.x_mask._sum()() == 720
            assert d.b()[:3].tolist() == [False, True, True] and not d.b_mask[:]()[897]
        assert d.s[70]() == "t70"  # and no longer is it likely that texts are asked for
        with PARSING:
            assert np.array_equal(d.n[:](), np.arange(900))


def test_numbers_are_kept_while_there_is_room_those_of_the_first_columns_longest(tmp_path):
    path = written(tmp_path, "\n".join(["s,n,x", *(f"a,{n},{n / 8}" for n in range(900))]))
    sums = [sum(range(900)), sum(range(900)) / 8]
    for room, kept in ((900 * 16, [1, 1]), (900 * 12, [1, 0]), (900 * 4, [0, 0]), (0, [0, 0])):
        with SMALL, SMALL_GROUPS, mock.patch.object(csv_kept, "MOST", room):
            d = dv.open(path)
            assert d[450:452].x().tolist() == [56.25, 56.375]
            for column, own, is_kept in zip((d.n, d.x), sums, kept, strict=True):
                with PARSING if is_kept else contextlib.nullcontext():
                    assert column._sum()() == own
    with SMALL, SMALL_GROUPS, mock.patch.object(csv_kept, "MOST", 900 * 16):
        before, latest = dv.open(path), dv.open(path)
        with PARSING:
            assert latest.n._max()() == 899
            with pytest.raises(AssertionError, match="parsed again"):
                before.n._max()()
        assert before.n._max()() == 899


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_that_are_kept_are_those_of_the_text(tmp_path, bits):
    ends = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    near = [end + past for end in ends for past in (-1, 0, 1) if -(2**63) <= end + past < 2**63]
    numbers = np.concatenate([np.tile(near, 50), np.arange(300)])
    for values in (numbers, -numbers[numbers != -(2**63)]):
        rows = [f"{value},{value if n % 3 else ''}" for n, value in enumerate(values.tolist())]
        with SMALL, SMALL_GROUPS:
            d = dv.open(written(tmp_path, "\n".join(["n,m", *rows])))
            with PARSING:
                assert d.n().dtype == d.m().dtype == np.int64
                assert d.n().tolist() == values.tolist()
                assert d.n[100:400:7]().tolist() == values[100:400:7].tolist()
                there = np.arange(len(values)) % 3 > 0
                assert d.m[d.m_mask]().tolist() == values[there].tolist()


def test_a_row_of_a_file_needs_no_plan(tmp_path):
    d = dv.open(written(tmp_path, table(1000)))
    assert d[0]().tolist() == (0, 0.0, "t0")
    assert list(d[0]._asdict()) == ["n", "x", "s"]
    with mock.patch.object(evaluation, "_answer", side_effect=AssertionError("a plan")):
        assert d[700]().tolist() == (700, 87.5, "t700")
        assert d[900]._asdict() == {"n": 900, "x": 112.5, "s": "t900"}
        assert d[[5, 3]]().tolist() == [(5, 0.625, "t5"), (3, 0.375, "t3")]


def test_one_row_is_taken_without_the_steps_of_several(tmp_path):
    d = dv.open(written(tmp_path, "n,x,s\n1,2.5,a\n,,\n3,3.5,c\n"))
    with mock.patch.object(column_nodes, "_filled", side_effect=AssertionError("several rows")):
        assert d[2].s() == "c" and d[-1].n() == 3 and d[-1].s_mask()
        assert [one.tolist() for one in (d.n[1](), d.n_mask[1]())] == [0, False]
        assert np.isnan(d.x[1]()) and d.s[1]() is None
        found = d.x[0]()
        found += 1
        assert d.x[0]() == 2.5
        assert d.x[[0, 2]]._shape() == (2,)
    assert d.x[None, 0]().tolist() == [2.5]
    assert np.broadcast_to(d.x[0], (2,))().tolist() == [2.5, 2.5]


def test_threads_pickles_and_workers_read_it(tmp_path):
    path = written(tmp_path, table(5000))
    d = dv.open(path)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: d.n[n](), range(0, 5000, 7))) == list(range(0, 5000, 7))
    assert pickle.loads(pickle.dumps(d)).s[4999]() == "t4999"
    found = [batch.n for batch in d._select("n", "x")._loader(100, "permutation", workers=2)]
    assert sorted(np.concatenate([np.asarray(one) for one in found]).tolist()) == list(range(5000))


def test_a_column_of_texts_is_looked_at_in_the_first_parse(tmp_path, monkeypatch):
    path = written(tmp_path, "a,b\n" + "".join(f"x{n % 7},{n}\n" for n in range(5000)))
    parse = mock.Mock(side_effect=csv_arrow._read)
    monkeypatch.setattr(csv_arrow, "_read", parse)
    with dv.open(path) as d:
        assert d.a.dtype == object
        assert parse.call_count == 1


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_pickle_holds_no_index_which_is_found_again(tmp_path, monkeypatch, name):
    text = table(20_000).encode()
    path = written(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    d = dv.open(path, fill={"n": -1})
    kept = pickle.dumps(d)
    assert len(kept) < 2000 and len(pickle.dumps(d.n[5:])) < 2000
    with mock.patch.object(csv_room, "_groups", side_effect=AssertionError("a pass")):
        assert copy.deepcopy(d).n[-1]() == pickle.loads(kept).n[-1]() == 19_999
    monkeypatch.setattr(csv_room, "_LATEST", {})
    again = pickle.loads(kept)
    assert again.s().tolist() == d.s().tolist() and len(csv_room._LATEST) == 1
    for number in range(3):
        pickle.dumps(dv.open(written(tmp_path, table(9000), f"{number}.csv")))
    assert len(csv_room._LATEST) <= csv_room.MOST_KEPT
    small = dv.open(written(tmp_path, table(30), "small.csv"))
    with mock.patch.object(csv_room, "_groups", side_effect=AssertionError("a pass")):
        assert pickle.loads(pickle.dumps(small)).s[29]() == "t29"


def test_a_pickle_of_a_file_that_has_other_rows_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, table(9000))
    kept = pickle.dumps(dv.open(path))
    other = table(9000).replace("\n", " ", 2).encode()
    monkeypatch.setattr(csv_room, "_LATEST", {})
    os.rename(path, f"{path}.old")
    written(tmp_path, other)
    with pytest.raises(ValueError, match=r"t\.csv has changed since its view was pickled"):
        pickle.loads(kept)


def test_an_index_is_kept_beside_the_file_as_long_as_it_is_the_same(tmp_path, way):
    path = written(tmp_path, table(3000))
    before = values(path, index=True)
    assert os.path.exists(f"{path}.index.npz")
    with mock.patch.object(csv_room, "_scanned", side_effect=AssertionError("a pass")):
        assert values(path, index=True) == before
    assert values(path, index=True, types={"n": "f4"})["n"][:2] == [0.0, 1.0]
    written(tmp_path, table(3001))
    assert len(values(path, index=True)["n"]) == 3001
    with np.load(f"{path}.index.npz") as kept:
        wrong = {name: kept[name] for name in kept}
    wrong["rows"][-1] -= 1
    np.savez(f"{path}.index.npz", **wrong)
    with pytest.raises(ValueError, match=r"t\.csv has changed since it was opened"):
        dv.open(path, index=True).n[1500]()
    written(tmp_path, b"PK\3\4 broken", "t.csv.index.npz")
    with pytest.warns(RuntimeWarning, match=r"t\.csv\.index\.npz is broken .* made anew"):
        assert len(values(path, index=True)["n"]) == 3001


# -------------------- several files --------------------


def test_files_follow_one_another_by_the_names_of_their_columns(tmp_path, way):
    one = written(tmp_path, "a,b,c\n1,x,\n2,y,\n", "1.csv")
    two = written(tmp_path, "c,b,a\n5.5,z,\n", "2.csv")
    with dv.open([one, str(two)]) as d:
        assert d.a().tolist() == [1, 2, 0]
        assert d.a_mask().tolist() == [True, True, False]
        assert d.b().tolist() == ["x", "y", "z"]
        assert d.c()[2] == 5.5
        assert pickle.loads(pickle.dumps(d)).b[1:]().tolist() == ["y", "z"]
    assert values(tmp_path / "*.csv", fill=-1)["a"] == [1, 2, -1]
    assert values([one])["a"] == [1, 2]
    with pytest.raises(ValueError, match=r"2\.csv was closed|1\.csv was closed"):
        d.a()


def test_all_columns_that_one_file_lacks_are_told_in_one_sentence(tmp_path):
    one = written(tmp_path, "a,b,c\n1,2,3\n", "1.csv")
    told = r"1\.csv has the columns 'b', 'c', and 2\.csv has none of them{}; schema='union' takes"
    for text, more in (("a\n1\n", ""), ("a,p,q\n1,2,3\n", r", but 'p', 'q'")):
        with pytest.raises(ValueError, match=told.format(more)):
            dv.open([one, written(tmp_path, text, "2.csv")])


def test_files_that_differ_are_refused_or_unified(tmp_path, way):
    one = written(tmp_path, "a,b\n1,x\n", "1.csv")
    two = written(tmp_path, "a,c\n1.5,7\n", "2.csv")
    three = written(tmp_path, "a\n05 \nu\n", "3.csv")
    told = r"column 'a' is float64 in 2\.csv, and int64 in 1\.csv; schema='union'"
    with pytest.raises(ValueError, match=told):
        dv.open([one, two])
    with pytest.raises(ValueError, match=r"1\.csv has a column 'b', and 2\.csv has none"):
        dv.open([one, two], types={"a": "f8"})
    assert values([one, two], schema="union") == {
        "a": [1.0, 1.5],
        "b": ["x", None],
        "b_mask": [True, False],
        "c": [0, 7],
        "c_mask": [False, True],
    }
    with pytest.raises(ValueError, match=r"column 'a' is object in .*schema='union' makes texts"):
        dv.open([one, three])
    assert values([one, three], schema="union")["a"] == ["1", "05 ", "u"]


def partitioned(folder, texts):
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        written(folder, text, place)
    return folder


def test_folders_by_key_and_value_are_one_table(tmp_path, way):
    folder = partitioned(
        tmp_path / "d",
        {
            "year=2024/kind=a/0.csv": "x,y\n1,p\n2,q\n",
            "year=2024/kind=b%20c/0.csv": "x,y\n3,\n",
            "year=2025/kind=a/1.csv": "x,y\n4,r\n",
            "year=2025/kind=a/_done": "",
            "about.txt": "by year",
        },
    )
    found = read(folder)
    assert found["x"][0] == [1, 2, 3, 4] and found["y"][0] == ["p", "q", None, "r"]
    assert found["year"] == ([2024, 2024, 2024, 2025], np.dtype("i8"))
    assert found["kind"][0] == ["a", "a", "b c", "a"]
    d = pickle.loads(pickle.dumps(dv.open(folder, types={"x": "f4"})))
    assert d[2]._asdict()["kind"] == "b c" and d.x.dtype == np.float32
    assert d.year[[3, 0]]().tolist() == [2025, 2024]
    partitioned(folder, {"year=2026/2.csv": "x\n5\n"})
    with pytest.raises(ValueError, match="schema='union'"):
        dv.open(folder)
    assert values(folder, schema="union")["kind"][-1] is None


def test_a_folder_with_the_name_of_a_file_is_one_table(tmp_path, way):
    folder = partitioned(
        tmp_path / "out.csv", {"part-0.csv": "x\n1\n", "part-1.csv": "x\n2\n", "_SUCCESS": ""}
    )
    assert values(folder) == {"x": [1, 2]} == values(folder, format="csv")
    lines = partitioned(tmp_path / "j", {"k=1/a.jsonl": '{"x": [1]}\n', "k=2/a.jsonl": '{"x": []}'})
    d = dv.open(lines)
    assert d.k().tolist() == [1, 2] and [row.tolist() for row in d.x()] == [[1], []]
    plain = partitioned(tmp_path / "plain", {"a.csv": "x\n1\n"})
    with pytest.raises(ValueError, match=r"plain.*\*\.csv"):
        dv.open(plain)


def test_what_is_no_list_of_tables_is_refused(tmp_path):
    one = written(tmp_path, "a\n1\n", "1.csv")
    dv.View([1, 2])._save(tmp_path / "x.npy")
    with pytest.raises(
        ValueError, match=r"files of one format open together; .*1\.csv' and .*x\.npy"
    ):
        dv.open([one, tmp_path / "x.npy"])
    with pytest.raises(TypeError, match=r"if they are tables \(.*csv.*dv\.concat\("):
        dv.open([tmp_path / "x.npy"] * 2)
    with pytest.raises(ValueError, match="got an empty list"):
        dv.open([])
    with pytest.raises(ValueError, match=r"open with mode 'r'; got 'r\+'"):
        dv.open([one, one], "r+")
    with pytest.raises(FileNotFoundError, match=r"no file has a name of this pattern: .*\*\.tsv"):
        dv.open(tmp_path / "*.tsv")
    odd = written(tmp_path, "a\n5\n", "[odd].csv")
    assert values(odd)["a"] == [5]


def test_files_line_by_line_are_fields_by_zip(tmp_path):
    english = dv.open(written(tmp_path, "one\ntwo\n", "en.tsv"), header=None, names=["text"])
    german = dv.open(written(tmp_path, "eins\nzwei\n", "de.tsv"), header=None, names=["text"])
    d = dv.zip(en=english.text, de=german.text)
    assert (d[1].en(), d[1].de()) == ("two", "zwei")


# -------------------- saving --------------------


ROWS = st.lists(
    st.tuples(
        st.text("aB1,;\"' \n\r\té#\0", max_size=5),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.booleans(),
        st.datetimes(),
        st.floats(width=32),
        st.booleans(),
    ),
    max_size=9,
)
SAVED = [object, "i8", "f8", "?", "M8[us]", "f4"]


@given(
    names=st.lists(st.text('ab,"\n;\té', max_size=4), min_size=6, max_size=6, unique=True),
    rows=ROWS,
    suffix=st.sampled_from([".csv", ".tsv", ".csv.gz"]),
)
def test_what_is_saved_comes_back(place, names, rows, suffix):
    names = [f"x{name}y" for name in names]
    columns = {
        name: np.array([row[n] for row in rows], dtype)
        for n, (name, dtype) in enumerate(zip(names, SAVED, strict=True))
    }
    there = np.array([row[6] for row in rows], bool)
    path = place / f"saved{suffix}"
    dv.View({**columns, f"{names[1]}_mask": there})._save(path)
    columns[names[1]][~there] = 0
    types = {name: array.dtype for name, array in columns.items()}
    sep = "\t" if suffix == ".tsv" else ","
    for way in (WITHOUT, WITH_ALWAYS):
        with way, dv.open(path, types=types, header=0, sep=sep) as d:
            for name, array in columns.items():
                np.testing.assert_array_equal(d[name](), array)
            if not there.all():
                np.testing.assert_array_equal(d[f"{names[1]}_mask"](), there)


def test_columns_are_saved_in_the_order_of_the_fields(tmp_path):
    names = ["a/b", "x", "#c", "k:", 'q"', "new\nline", "z"]
    d = dv.View({name: [n] for n, name in enumerate(names)} | {"in": {"#y": [7], "w": [8]}})
    d._save(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="") as file:
        found = [*csv.reader(file)]
    assert found == [[*names, "in.#y", "in.w"], [*"0123456", "7", "8"]]


def test_what_is_missing_is_an_empty_cell(tmp_path):
    d = dv.View(
        {
            "name": np.array(["NA", "", None, 'a "b"']),
            "age": np.array([1, 2, 3, 4]),
            "age_mask": np.array([True, False, True, True]),
            "of": {
                "x": np.array([0.5, np.nan, -np.inf, 1e300]),
                "day": np.arange(4).astype("M8[D]"),
            },
        }
    )
    d._save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == (
        'name,age,of.x,of.day\n"NA",1,0.5,1970-01-01\n"",,,1970-01-02\n,3,-inf,1970-01-03\n'
        '"a ""b""",4,1e+300,1970-01-04\n'
    )
    found = values(tmp_path / "t.csv")
    assert found["name"] == ["NA", "", None, 'a "b"']
    assert found["name_mask"] == [True, True, False, True]
    alone = dv.View({"x": np.array([1.5, np.nan])})
    alone._save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "x\n1.5\nNA\n"


@pytest.mark.parametrize("texts", [["1 2", "3 4"], ["x 1", "y 2"]])
def test_one_column_with_spaces_comes_back(tmp_path, way, texts):
    dv.View({"a b": np.array(texts, object)})._save(tmp_path / "t.csv")
    assert values(tmp_path / "t.csv") == {"a b": texts}


@given(codes=st.lists(st.integers(-1, 3), min_size=1, max_size=9))
def test_codes_that_know_their_labels_are_saved_as_texts(place, codes):
    labels = ["Rome", "", "a,b", "NA"]
    meta = {"city": {"labels": labels}, "grade": {"labels": [0.5, 1.5, 2.5, -1.0]}}
    d = dv.View(x=np.arange(len(codes)), city=np.array(codes), grade=np.array(codes), _meta=meta)
    path = place / "labels.csv"
    d._save(path)
    lines = path.read_text().splitlines()[1:]
    texts = np.array(["Rome", '""', '"a,b"', '"NA"', ""])[codes].tolist()
    grades = np.array(["0.5", "1.5", "2.5", "-1.0", ""])[codes].tolist()
    rows = zip(texts, grades, strict=True)
    assert lines == [f"{n},{text},{grade}" for n, (text, grade) in enumerate(rows)]
    with dv.open(path, types={"city": str, "grade": float}) as again:
        found = again.city()
        assert [found[n] for n, code in enumerate(codes) if code >= 0] == [
            labels[code] for code in codes if code >= 0
        ]


OBJECTS = {
    "date": ([datetime.date(2020, 1, 2), None, datetime.date(1969, 12, 31)], datetime.date),
    "time": ([datetime.time(1, 2), None, datetime.time(3, 4, 5, 6)], datetime.time),
    "moment": (
        [datetime.datetime(2020, 1, 2, 3), None, datetime.datetime(2020, 1, 2, 3, 4, 5, 6)],
        datetime.datetime,
    ),
    "price": ([Decimal("1.50"), None, Decimal("-0.07")], Decimal),
    "mail": ([b"b,c", None, "é".encode()], bytes),
}
READ = {
    **{kind: kind.fromisoformat for kind in (datetime.date, datetime.time, datetime.datetime)},
    Decimal: Decimal,
    bytes: str.encode,
}


@pytest.mark.parametrize("sep", [",", "\t"])
@pytest.mark.parametrize("name", OBJECTS)
def test_labels_that_are_objects_of_python_are_written_as_they_are(tmp_path, name, sep):
    given, kind = OBJECTS[name]
    path = tmp_path / ("t.csv" if sep == "," else "t.tsv")
    codes = dv.View(np.array(given, object))._codes()
    dv.View(x=codes, n=np.arange(3))._save(path)
    with open(path, newline="") as file:
        rows = [*csv.reader(file, delimiter=sep)][1:]
    assert [READ[kind](text) if text else None for text, _ in rows] == given
    if kind is not bytes:
        dv.View(x=np.array(given, object), n=np.arange(3))._save(tmp_path / "plain.csv")
        dv.View(x=codes, n=np.arange(3))._save(tmp_path / "codes.csv")
        plain, coded = [(tmp_path / f"{one}.csv").read_text() for one in ("plain", "codes")]
        assert plain == coded


def test_labels_that_are_no_text_in_a_table_of_texts_name_the_field(tmp_path):
    codes = dv.View(np.array([b"\xff", None, b"a"], object))._codes()
    for name in ("t.csv", "t.jsonl"):
        with pytest.raises(ValueError, match=r"field 'x' .* no label b'.xff'.*\.parquet"):
            dv.View(x=codes)._save(tmp_path / name)
    none = dv.View(x=np.array([-1, -1]), n=[1, 2], _meta={"x": {"labels": np.array([], object)}})
    none._save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "x,n\n,1\n,2\n"


def test_decimals_that_are_no_numbers_are_written_as_floats_are(tmp_path):
    values = [Decimal("NaN"), Decimal("-Infinity"), Decimal("1E+3"), Decimal("0.10")]
    dv.View(x=np.array(values, object), n=range(4))._save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "x,n\n,0\n-inf,1\n1E+3,2\n0.10,3\n"
    found = dv.open(tmp_path / "t.csv").x()
    np.testing.assert_array_equal(found, [np.nan, -np.inf, 1000, 0.1])


def test_a_code_without_a_label_is_not_saved_and_other_metadata_are_told(tmp_path):
    path = tmp_path / "t.csv"
    d = dv.View(city=np.array([0, 2]), _meta={"city": {"labels": ["a", "b"]}})
    with pytest.raises(ValueError, match="the data hold the code 2"):
        d._save(path)
    assert not path.exists()
    d = dv.View(city=np.array([0, 1]), _meta={"city": {"labels": ["a", "b"], "unit": "m"}})
    with pytest.warns(RuntimeWarning, match="the metadata of 'city' are not saved"):
        d._save(path)
    assert path.read_text() == "city\na\nb\n"
    mixed = dv.View(city=np.array([0, 1]), _meta={"city": {"labels": ["a", 1]}})
    with pytest.warns(RuntimeWarning, match="the metadata of 'city' are not saved"):
        mixed._save(path)
    assert path.read_text() == "city\n0\n1\n"


def test_what_is_no_table_is_not_saved_as_one(tmp_path):
    path = tmp_path / "t.csv"
    for data, told in (
        (np.zeros((3, 2)), r"one cell for each row, and these have the shape \(2,\)"),
        (np.zeros(3), "a CSV file has named columns, .*dv.View\\(x=view\\)"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, "have rows, and all as many; got"),
        ({"x": np.zeros(3, "c8")}, "a CSV file holds numbers, bools, dates and texts"),
        ({"x": np.array(["a", b"b"], object)}, "field 'x' has b'b', and .* texts, and None or NaN"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            dv.View(data)._save(path)
        assert not path.exists()
    ragged = dv.View({"x": dv.View([[1, 2], [3]])})
    with pytest.raises((TypeError, ValueError), match="the rows of 'x' differ in length"):
        ragged._save(path)


# -------------------- other libraries --------------------


@pytest.mark.clients
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(10**9), 10**9).map(str),
            st.sampled_from(["", "NA", "7", "-3"]),
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.text('ab ,\n"é', min_size=1, max_size=5).map(lambda text: f"t{text}"),
            st.sampled_from(["True", "False"]),
        ),
        min_size=1,
        max_size=20,
    ),
    sep=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_pandas_reads_the_same(place, rows, sep, end):
    import pandas

    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator=end)
    writer.writerows([list("nmxsb"), *rows])
    path = written(place, out.getvalue())
    frame = pandas.read_csv(path, sep=sep)
    for way in (WITHOUT, WITH_ALWAYS):
        with way, dv.open(path, sep=sep) as d:
            assert d.n().tolist() == frame.n.tolist()
            assert d.x().tolist() == frame.x.tolist()
            assert d.s().tolist() == frame.s.tolist()
            assert d.b().tolist() == frame.b.tolist()
            there = frame.m.notna().to_numpy()
            assert d.m()[there].tolist() == frame.m[there].tolist()
            if not there.all():
                assert d.m_mask().tolist() == there.tolist()


@pytest.mark.clients
@pytest.mark.parametrize("name", ["iris", "wine_data", "breast_cancer"])
def test_tables_of_scikit_learn_are_those_that_it_loads(name):
    from sklearn import datasets

    load = getattr(datasets, f"load_{name.removesuffix('_data')}")()
    path = os.path.join(os.path.dirname(datasets.__file__), "data", f"{name}.csv")
    if name == "iris":  # whose first line has as many cells as the others, texts above numbers
        d = dv.open(path)
        assert (len(d), d._fields()) == (150, ("150", "4", "setosa", "versicolor", "virginica"))
    else:
        with pytest.raises(ValueError, match=r"\.csv: line 2, \d+ cells, and the first row has"):
            dv.open(path)
    d = dv.open(path, skip=1)
    columns = d._fields()
    assert np.array([d[name]() for name in columns[:-1]]).T.tolist() == load.data.tolist()
    assert d[columns[-1]]().tolist() == load.target.tolist()


@pytest.mark.clients
@pytest.mark.parametrize("name", ["diabetes_data_raw.csv.gz", "linnerud_exercise.csv"])
def test_texts_parted_by_spaces_are_read(name):
    from sklearn import datasets

    path = os.path.join(os.path.dirname(datasets.__file__), "data", name)
    expected = {
        "diabetes_data_raw.csv.gz": lambda: datasets.load_diabetes(scaled=False).data,
        "linnerud_exercise.csv": lambda: datasets.load_linnerud().data,
    }[name]()
    d = dv.open(path)
    assert np.array([d[name]() for name in d._fields()]).T.tolist() == expected.tolist()


def test_columns_that_would_have_one_name_are_refused(tmp_path):
    d = dv.View(**{"p": dv.View(q=[1, 2]), "p.q": [3, 4]})
    with pytest.raises(ValueError, match=r"two columns would have the name 'p\.q'"):
        d._save(tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        ("a,NA\n1,2\n", ["a", "NA"], 1),
        ("x,true\n1,2\n", ["x", "true"], 1),
        (",0,1\n0,1.5,2\n1,2.5,3\n", ["column_1", "0", "1"], 2),  # as pandas writes an array
        ('"1","2"\n10,5\n', ["1", "2"], 1),
        ('"1","2"\n"10","5"\n', ["column_1", "column_2"], 2),
        ("country,2019\na,1\nb,2\n", ["column_1", "column_2"], 3),
    ],
)
def test_names_that_are_no_texts_are_found(place, way, text, names, count):
    path = place / "names.csv"
    path.write_text(text)
    with dv.open(path) as d:
        found = [name for name in d._fields() if not name.endswith("_mask")]
        assert (found, len(d)) == (names, count)


@given(
    names=st.lists(
        st.sampled_from(["1", "2019", "NA", "a", "true", "b c"]),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_any_names_come_back(place, names):
    path = place / "header.csv"
    dv.View({name: np.array([10, n]) for n, name in enumerate(names)})._save(path)
    with dv.open(path) as d:
        assert (list(d._fields()), len(d)) == (names, 2)


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["", ""], ["a,b", "c,d"], ["NA", "nan"], ["1 2", "3 4"], ['"', "x\ny"]],
    ids=str,
)
@pytest.mark.parametrize(
    "names",
    [["0"], ["1.5"], ["nan"], ["true"], ["2020-01-01"], ["10:30"], ["#x"], ["0", "1"],
     ["true", "NA"], ["2020-01-01", "b"]],
    ids=str,
)  # fmt: skip
def test_names_come_back_above_no_rows_and_above_texts_in_quotes(tmp_path, way, names, texts):
    path = tmp_path / "t.csv"
    dv.View({name: np.array(texts, "U5") for name in names})._save(path)
    with dv.open(path, types=str) as d:
        assert [name for name in d._fields() if not name.endswith("_mask")] == names
        assert [d[name]().tolist() for name in names] == [texts] * len(names)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_a_path_says_gives_way_to_a_column_of_the_file(suffix, tmp_path):
    for key, fields in ((1, {"x": [1]}), (2, {"x": [2], "k": [5]})):
        (tmp_path / f"k={key}").mkdir()
        dv.View(**{name: np.array(values) for name, values in fields.items()})._save(
            tmp_path / f"k={key}" / f"a.{suffix}"
        )
    d = dv.open(tmp_path, schema="union")
    assert sorted(zip(d.x().tolist(), d.k().tolist(), strict=True)) == [(1, 1), (2, 5)]
    (tmp_path / "other").symlink_to(tmp_path / "k=1", target_is_directory=True)
    assert len(dv.open(tmp_path, schema="union")) == 2  # links to folders are passed over


def test_a_row_of_all_columns_is_taken_from_the_table_at_once(tmp_path):
    lines = [f"{n},{n / 2},t{n}" + (",2024-01-02,7" if n % 3 else ",,") for n in range(300)]
    d = dv.open(written(tmp_path, "\n".join(["i,f,t,day,gaps", *lines])))
    whole, kind = d(), column_nodes.ColumnSource
    with mock.patch.object(kind, "read", side_effect=AssertionError("column by column")):
        for row in (299, 0, 151, 150, -7):
            assert d[row]().item() == whole[row].item()


@pytest.mark.parametrize("sep", [",", "\t"])
def test_names_that_need_quotes_are_names_above_rows_that_need_them_too(tmp_path, way, sep):
    names = ['q"0', "20191"]
    columns = [["NA", "line\nbreak", None, "plain"], [f"a{sep}b", "1.5", "x", '"']]
    path = tmp_path / ("t.csv" if sep == "," else "t.tsv")
    for count in (2, 4):
        given = [np.array(own[:count], object) for own in columns]
        dv.View(dict(zip(names, given, strict=True)))._save(path)
        found = dv.open(path, types=str)
        assert [name for name in found._fields() if not name.endswith("_mask")] == names
        assert [found[name]().tolist() for name in names] == [own[:count] for own in columns]


@pytest.mark.parametrize(
    ("text", "is_header"),
    [
        ('"1","a"\n"2","b"\n"3","c"\n', False),
        ('"1","a"\n"2","b"\n,"c"\n', False),
        ('"1","a"\n"2","b"\n"3",NA\n', False),
        ('"1","a"\n"2","b"\n3,"c"\n', True),
        ('"1","a"\n', True),
        ('"1","a"\n"NA","a,b"\n', True),
        ('"1","a"\n"","b"\n', False),
        ('"1","a"\n#"\n\n"2","b"\n3,"c"\n', True),
        ('"1","a"\n"2","b"\n"3","b\n' + "x" * 70_000 + '"\n', False),
    ],
)
def test_quotes_around_all_of_the_first_row_tell_names_where_a_value_has_none(
    tmp_path, way, text, is_header
):
    path = written(tmp_path, text)
    names = dv.open(path, comment="#")._fields()
    assert (names[:2] == ("1", "a")) == is_header
