"""Time CSV files against pyarrow and pandas: `python bench_csv.py`.

The file has `--megabytes` of text, by default 200, in columns of numbers, texts and dates.  Opening
finds the types of all columns; what is timed is that and the mean of the first column, all passes
counted, against pyarrow's read of the file.  Then rows are read by number, one by one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from timing import comparison, heading, timed

import dataview as dv

MOST = """
import sys, dataview as dv
dv.open(sys.argv[1]).x._mean()()
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM")))
"""
"""What prints the most memory of a process in MiB; `ru_maxrss` would be that of its parent, too."""

ROUNDS = 5
ROWS = 1000


def make(path: Path, megabytes: int) -> int:
    """Write a file of about so many megabytes, and return how many rows it has."""
    count = megabytes * 17_000
    draw = np.random.default_rng(0)
    columns = {
        "x": draw.normal(size=count),
        "number": draw.integers(0, 10**6, count),
        "name": np.array([f"name{n}" for n in range(1000)])[draw.integers(0, 1000, count)],
        "y": draw.normal(size=count).astype("f4"),
        "flag": draw.integers(0, 2, count),
        "day": np.datetime64("2020-01-01") + draw.integers(0, 1000, count),
    }
    plain = pyarrow.csv.WriteOptions(quoting_style="none")
    pyarrow.csv.write_csv(pyarrow.table(columns), path, plain)
    return count


def mean(path: Path) -> Any:
    """Open the file, and compute the mean of its first column."""
    with dv.open(path) as d:
        return d.x._mean()()


def main() -> None:
    """Make the file, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        count = make(path, options.megabytes)
        most = subprocess.run(
            [sys.executable, "-c", MOST, path], capture_output=True, text=True, check=True
        ).stdout.strip()
        whole: dict[str, Any] = {
            "pyarrow: ``read_csv(path)``": lambda: pyarrow.csv.read_csv(path),
            "a view: ``dv.open(path).x._mean()()``": lambda: mean(path),
        }
        try:
            import pandas
        except ImportError:
            print("pandas is not installed, and not timed")
        else:
            whole["pandas: ``read_csv(path)``"] = lambda: pandas.read_csv(path)
        print(heading(f"A file of {path.stat().st_size >> 20} MiB, {count} rows"))
        print(comparison(timed(whole, rounds=ROUNDS)))
        print(f"\nThe most memory of a process that does this: {most} MiB\n")
        d = dv.open(path)
        rows = np.random.default_rng(1).integers(0, count, ROWS).tolist()
        where = iter(rows * 1000)
        single = {
            "a view: ``d[row]()``": lambda: d[next(where)](),
            "a view: ``d.x[row]()``": lambda: d.x[next(where)](),
        }
        print(heading("A row by number"))
        print(comparison(timed(single, rounds=ROUNDS)))


if __name__ == "__main__":
    main()
