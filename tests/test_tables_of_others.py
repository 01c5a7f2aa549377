"""Tables and folders that other tools have made open by `dv.open(path)`, or with one option."""

from __future__ import annotations

import io
import json
import pathlib
import sqlite3
import tarfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dataview as dv
from dataview.view.face import node_of

pytestmark = pytest.mark.clients

NAMES = ["Ada", "Grace", "Ålesund, north", 'say "so"']
AGES = [36, 85, 41, 7]
SIZES = [1.5, 2.25, -0.5, 1e-3]


class Found(NamedTuple):
    """What a field must be: its shape, and its first and last values (None: any)."""

    shape: tuple[int | None, ...]
    first: Any = None
    last: Any = None


class Case(NamedTuple):
    """How a file is made, the options a person gives, and the fields that must be found."""

    make: Callable[[pathlib.Path], Any]
    fields: dict[str, Found]
    options: dict[str, Any] = {}  # noqa: RUF012
    only: bool = True


def frame() -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "name": NAMES,
            "age": AGES,
            "size": SIZES,
            "kind": pd.Categorical(["b", "a", "b", "c"]),
            "seen": pd.to_datetime(["2024-01-01", "2024-02-29", "2024-03-01", "2024-12-31"]),
            "score": pd.array([1, None, 3, 4], "Int64"),
        },
        index=pd.Index([10, 20, 30, 40], name="number"),
    )


COMMON = {
    "number": Found((4,), 10, 40),
    "name": Found((4,), "Ada", NAMES[-1]),
    "age": Found((4,), 36, 7),
    "size": Found((4,), 1.5, 1e-3),
    "seen": Found((4,), np.datetime64("2024-01-01"), np.datetime64("2024-12-31")),
    "score": Found((4,), 1, 4),
    "score_mask": Found((4,), True, True),
}
TEXTS = {"kind": Found((4,), "b", "c")}
CODES = {"kind": Found((4,), 1, 2)}


def pandas_csv(folder):
    frame().to_csv(folder / "pandas.csv")
    return folder / "pandas.csv"


def pandas_tsv_gz(folder):
    frame().to_csv(folder / "pandas.tsv.gz", sep="\t")
    return folder / "pandas.tsv.gz"


def pandas_parquet(folder):
    frame().to_parquet(folder / "pandas.parquet")
    return folder / "pandas.parquet"


def pandas_feather(folder):
    frame().reset_index().to_feather(folder / "pandas.feather")
    return folder / "pandas.feather"


def pandas_json_lines(folder):
    frame().drop(columns="seen").reset_index().to_json(
        folder / "pandas.jsonl", orient="records", lines=True
    )
    return folder / "pandas.jsonl"


def polars_frame() -> Any:
    import polars as pl

    return pl.DataFrame(
        {"name": NAMES, "age": AGES, "size": SIZES, "kind": ["b", "a", "b", "c"]},
        schema_overrides={"kind": pl.Enum(["a", "b", "c"])},
    ).with_columns(words=pl.Series([[1, 2], [], [3], [4, 5, 6]]))


BY_YEAR = {
    "x": Found((3,), 1.0, 3.0),
    "word": Found((3,), "a", "c"),
    "year": Found((3,), 2023, 2024),
}
POLARS = {name: COMMON[name] for name in ("name", "age", "size")}


def polars_csv(folder):
    polars_frame().drop("words").write_csv(folder / "polars.csv")
    return folder / "polars.csv"


def polars_parquet(folder):
    polars_frame().write_parquet(folder / "polars.parquet")
    return folder / "polars.parquet"


def polars_arrow(folder):
    polars_frame().write_ipc(folder / "polars.arrow")
    return folder / "polars.arrow"


def polars_ndjson(folder):
    polars_frame().write_ndjson(folder / "polars.ndjson")
    return folder / "polars.ndjson"


def of_r(folder):
    """As `write.table(d, sep=",")` writes: the rows have names, and their column has none."""
    text = '"height","species"\n"1",5.1,"setosa"\n"2",NA,"virginica"\n"3",4.7,NA\n'
    (folder / "r.csv").write_text(text)
    return folder / "r.csv"


def of_excel(folder):
    """As Excel saves a table in much of Europe: a mark of UTF-8, semicolons, decimal commas."""
    text = "Ort;Größe;Preis\r\nBern;1,5;10\r\nGenève;-2,25;20\r\n"
    (folder / "excel.csv").write_bytes(text.encode("utf-8-sig"))
    return folder / "excel.csv"


def of_sklearn(name: str) -> Callable[[pathlib.Path], pathlib.Path]:
    def shipped(folder: pathlib.Path) -> pathlib.Path:
        import sklearn.datasets

        return pathlib.Path(sklearn.datasets.__file__).parent / name

    shipped.__name__ = name.rpartition("/")[2].partition(".")[0]
    return shipped


def partitioned(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"year": [2023, 2023, 2024], "x": [1.0, 2.0, 3.0], "word": ["a", "b", "c"]})
    pq.write_to_dataset(table, folder / "by_year", partition_cols=["year"])
    return folder / "by_year"


def partitioned_by_names(folder):
    import pyarrow as pa
    import pyarrow.dataset as ds

    table = pa.table({"year": [2023, 2023, 2024], "x": [1.0, 2.0, 3.0], "word": ["a", "b", "c"]})
    ds.write_dataset(table, folder / "years", format="parquet", partitioning=["year"])
    return folder / "years"


def duckdb_parquet(folder):
    import duckdb

    path = folder / "duck.parquet"
    duckdb.sql(
        f"COPY (SELECT i, i / 2 AS half, 'row ' || i AS word FROM range(5) t(i)) TO '{path}'"
    )
    return path


def webdataset(folder):
    from PIL import Image

    with tarfile.open(folder / "shard-000000.tar", "w") as tar:
        for number in range(3):
            picture = io.BytesIO()
            Image.new("RGB", (4, 2), (number, 0, 0)).save(picture, "png")
            parts = {
                "png": picture.getvalue(),
                "cls": str(number).encode(),
                "json": json.dumps({"id": number}).encode(),
            }
            for suffix, data in parts.items():
                member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return folder / "shard-000000.tar"


def ljspeech(folder):
    text = (
        "LJ001-0001|Printing, in the only sense|Printing, in the only sense\n"
        'LJ001-0002|in being "modern" in 1450.|in being "modern" in fourteen fifty.\n'
    )
    (folder / "metadata.csv").write_text(text, encoding="utf-8")
    return folder / "metadata.csv"


def of_imagenet(folder):
    from PIL import Image

    for label, shade in (("n01440764", 10), ("n01443537", 200)):
        (folder / "train" / label).mkdir(parents=True)
        for number in range(2):
            picture = Image.new("RGB", (6, 4), (shade, number, 0))
            picture.save(folder / "train" / label / f"{label}_{number}.png")
    return folder / "train"


def sounds(folder):
    import soundfile

    (folder / "sounds").mkdir()
    for number in range(2):
        line = np.full(100 * (number + 1), 0.5, "f4")
        soundfile.write(folder / "sounds" / f"{number}.wav", line, 8000)
    return folder / "sounds"


def sqlite(folder):
    with sqlite3.connect(folder / "people.db") as base:
        base.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, size REAL, age INT)")
        rows = [*zip(range(1, 5), NAMES, SIZES, [36, None, 41, 7], strict=True)]
        base.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    base.close()
    return folder / "people.db"


CASES = [
    Case(pandas_csv, COMMON | TEXTS),
    Case(pandas_tsv_gz, COMMON | TEXTS),
    Case(pandas_parquet, COMMON | CODES),
    Case(pandas_feather, COMMON | CODES),
    Case(pandas_json_lines, {k: v for k, v in (COMMON | TEXTS).items() if k != "seen"}),
    Case(polars_csv, POLARS | TEXTS),
    Case(
        polars_parquet,
        POLARS
        | CODES
        | {"words": Found((4, None), [1, 2], [4, 5, 6]), "words_mask": Found((4,), True, True)},
    ),
    Case(polars_arrow, POLARS | CODES | {"words": Found((4, None), [1, 2], [4, 5, 6])}),
    Case(polars_ndjson, POLARS | TEXTS | {"words": Found((4, None), [1, 2], [4, 5, 6])}),
    Case(
        of_r,
        {
            "height": Found((3,), 5.1, 4.7),
            "species": Found((3,), "setosa"),
            "species_mask": Found((3,), True, False),
        },
        only=False,
    ),
    Case(
        of_excel,
        {
            "Ort": Found((2,), "Bern", "Genève"),
            "Größe": Found((2,), 1.5, -2.25),
            "Preis": Found((2,), 10, 20),
        },
        {"decimal": ","},
    ),
    Case(  # its first line has counts and the names of the classes
        of_sklearn("data/iris.csv"),
        {"column_1": Found((150,), 5.1, 5.9), "column_5": Found((150,), 0, 2)},
        {"skip": 1},
        only=False,
    ),
    Case(
        of_sklearn("data/wine_data.csv"),
        {"column_1": Found((178,), 14.23), "column_14": Found((178,), 0, 2)},
        {"skip": 1},
        only=False,
    ),
    Case(
        of_sklearn("data/breast_cancer.csv"),
        {"column_1": Found((569,), 17.99), "column_31": Found((569,), 0, 1)},
        {"skip": 1},
        only=False,
    ),
    Case(of_sklearn("data/digits.csv.gz"), {"column_65": Found((1797,), 0, 8)}, only=False),
    Case(
        of_sklearn("data/diabetes_data_raw.csv.gz"),
        {"column_1": Found((442,), 59, 36), "column_10": Found((442,), 87, 92)},
        {"sep": " "},
        only=False,
    ),
    Case(
        of_sklearn("images"),
        {"image": Found((2, 427, 640, 3)), "path": Found((2,), "china.jpg", "flower.jpg")},
    ),
    Case(partitioned, BY_YEAR),
    Case(partitioned_by_names, BY_YEAR, {"keys": ["year"]}),
    Case(
        duckdb_parquet,
        {
            "i": Found((5,), 0, 4),
            "half": Found((5,), 0.0, 2.0),
            "word": Found((5,), "row 0", "row 4"),
        },
    ),
    Case(
        webdataset,
        {"png": Found((3, 2, 4, 3)), "cls": Found((3,), 0, 2), "json": Found((3,))},
        only=False,
    ),
    Case(
        ljspeech,
        {
            "column_1": Found((2,), "LJ001-0001", "LJ001-0002"),
            "column_3": Found((2,), None, 'in being "modern" in fourteen fifty.'),
        },
        {"quote": None},
        only=False,
    ),
    Case(
        of_imagenet,
        {
            "image": Found((4, 4, 6, 3)),
            "label": Found((4,), "n01440764", "n01443537"),
            "path": Found((4,), "n01440764/n01440764_0.png"),
        },
    ),
    Case(sounds, {"audio": Found((2, None)), "path": Found((2,), "0.wav", "1.wav")}, only=False),
    Case(
        sqlite,
        {
            "id": Found((4,), 1, 4),
            "name": COMMON["name"],
            "size": COMMON["size"],
            "age": Found((4,), 36, 7),
            "age_mask": Found((4,), True, True),
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.make.__name__)
def test_a_table_opens_with_its_fields(case, tmp_path):
    with dv.open(case.make(tmp_path), **case.options) as d:
        assert set(case.fields) <= set(d._fields())
        assert not case.only or set(d._fields()) == set(case.fields)
        for name, found in case.fields.items():
            field = d._field(name)
            assert node_of(field).extents == found.shape, name
            for row, known in ((0, found.first), (-1, found.last)):
                if known is not None:
                    assert np.array_equal(field[row](), known), name
        for name in d._fields():
            d._field(name)[:2]()  # whatever was found can be read


def test_there_are_twenty_of_them():
    assert len(CASES) >= 20
