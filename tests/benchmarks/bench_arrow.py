"""Time Parquet and Arrow files against pyarrow and HF datasets: `python bench_arrow.py`.

The table has `--rows` rows, by default a million, of an integer, a float, a text of a few kinds and
a text of its own. A slice of a column is read from a file that was just opened, so that nothing is
kept; pyarrow reads the same groups of rows as NumPy. A shuffled epoch is read in batches of 32
rows: by chunks of rows as `dataview` shuffles files, and by HF datasets over its Arrow file.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from timing import comparison, heading, timed

import dataview as dv

GROUP = 100_000
BATCH = 32
ROUNDS = 15
EPOCH_ROUNDS = 3


def table_of(rows: int) -> Any:
    """Make the table."""
    rng = np.random.default_rng(0)
    names = np.array(["first", "second", "third"])[rng.integers(0, 3, rows)]
    return pa.table(
        {
            "id": np.arange(rows),
            "x": rng.random(rows),
            "kind": names,
            "name": [f"name {number}" for number in rng.permutation(rows)],
        }
    )


def by_pyarrow(path: Path, name: str, first: int, stop: int) -> Any:
    """Read rows of a column as NumPy: the groups of rows that have them."""
    groups = list(range(first // GROUP, -(-stop // GROUP)))
    found = pq.ParquetFile(path).read_row_groups(groups, columns=[name])[name]
    start = groups[0] * GROUP
    return found[first - start : stop - start].to_numpy()


def by_dataview(path: Path, name: str, first: int, stop: int) -> Any:
    """Read the same rows of a view."""
    return dv.open(path)._field(name)[first:stop]()


def rows_by_pyarrow(path: Path, name: str, rows: np.ndarray) -> Any:
    """Read some rows of a column as NumPy: all groups of rows, and then these rows of them."""
    return pq.ParquetFile(path).read(columns=[name])[name].take(pa.array(rows)).to_numpy()


def rows_by_dataview(path: Path, name: str, rows: np.ndarray) -> Any:
    """Read the same rows of a view."""
    return dv.open(path)._field(name)[rows]()


def filtered_by_pyarrow(path: Path, least: int) -> Any:
    """Read the rows above a number, by way of the groups that may have them."""
    return pq.read_table(path, columns=["x"], filters=pc.field("id") >= least)["x"].to_numpy()


def filtered_by_dataview(path: Path, least: int) -> Any:
    """Read the same rows of a view."""
    d = dv.open(path)
    return d._filter(d.id >= least).x()


def epoch_of_hf(data: Any) -> None:
    """Read a shuffled epoch of HF datasets, as NumPy."""
    for batch in data.shuffle(seed=0).with_format("numpy").iter(BATCH):
        batch["x"]


def epoch_of_dataview(view: Any) -> None:
    """Read a shuffled epoch of a view, by chunks of rows."""
    for batch in view._loader(BATCH, sampler="chunk-permutation", seed=0):
        batch.x()


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--hf", action="store_true", help="compare with HF datasets")
    options = parser.parse_args()
    rows = options.rows
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.parquet"
        table = table_of(rows)
        pq.write_table(table, path, row_group_size=GROUP)
        print(heading("slices of columns"))
        for name in table.column_names:
            for first, stop in ((rows // 4, rows // 4 + 10_000), (0, rows)):
                asked = path, name, first, stop
                own = {"pyarrow": partial(by_pyarrow, *asked)}
                own["dataview"] = partial(by_dataview, *asked)
                print(f"\n{name}, rows {first} to {stop}\n")
                print(comparison(timed(own, rounds=ROUNDS)))
            chosen = np.sort(np.random.default_rng(0).integers(0, rows, 1000))
            own = {"pyarrow": partial(rows_by_pyarrow, path, name, chosen)}
            own["dataview"] = partial(rows_by_dataview, path, name, chosen)
            print(f"\n{name}, 1000 rows\n")
            print(comparison(timed(own, rounds=ROUNDS)))
        print(heading("rows above a number"))
        own = {
            "pyarrow": partial(filtered_by_pyarrow, path, rows * 9 // 10),
            "dataview": partial(filtered_by_dataview, path, rows * 9 // 10),
        }
        print(comparison(timed(own, rounds=ROUNDS)))
        if options.hf:
            import datasets

            data = datasets.Dataset(pa.table({"x": table["x"], "id": table["id"]}))
            data.save_to_disk(Path(place) / "hf")
            stored = datasets.load_from_disk(Path(place) / "hf")
            (arrow,) = (Path(place) / "hf").glob("*.arrow")
            print(heading("a shuffled epoch"))
            own = {
                "HF datasets": partial(epoch_of_hf, stored),
                "dataview, its Arrow file": partial(epoch_of_dataview, dv.open(arrow)),
                "dataview, Parquet": partial(epoch_of_dataview, dv.open(path)._select("id", "x")),
            }
            print(comparison(timed(own, rounds=EPOCH_ROUNDS)))


if __name__ == "__main__":
    main()
