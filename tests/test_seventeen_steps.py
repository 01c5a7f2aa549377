"""A first look at a table in seventeen steps, here and in pandas: as many characters, same results.

Both programs are written as their users write them, with full names; `np`, `pd`, `dv` and `plt`
are the usual short ones, and `d` and `df` the table.
"""

import numpy as np
import pytest

import dataview as dv

OURS = {
    "import": "import dataview as dv\nimport matplotlib.pyplot as plt",
    "open": 'd = dv.open("penguins.csv")',
    "fields": "d._fields()",
    "shapes": "d.shape",
    "statistics": "d._describe()",
    "histogram": "d.mass._plot()",
    "scatter": "plt.scatter(d.mass, d.bill)",
    "filter": "d[d.mass > 4200]",
    "group mean": 'd._group("species")._mean()',
    "sort": 'd._sorted("mass")',
    "top rows": 'd._nlargest(5, "mass")',
    "counts": "d.species._counts()()",
    "missing": "d._missing()",
    "join": 'd._join(dv.open("islands.csv"))',
    "sample": "d._sample(5)",
    "image rows": 'dv.open("images.npy")._show(8)',
    "save": 'd._save("penguins.parquet")',
    "reopen": 'd = dv.open("penguins.parquet")',
}

PANDAS = {
    "import": "import matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd",
    "open": 'df = pd.read_csv("penguins.csv")',
    "fields": "df.columns",
    "shapes": "df.shape",
    "statistics": "df.describe()",
    "histogram": "df.mass.hist()",
    "scatter": 'df.plot.scatter("mass", "bill")',
    "filter": "df[df.mass > 4200]",
    "group mean": 'df.groupby("species").flipper.mean()',
    "sort": 'df.sort_values("mass")',
    "top rows": 'df.nlargest(5, "mass")',
    "counts": "df.species.value_counts()",
    "missing": "df.isna().sum()",
    "join": 'df.merge(pd.read_csv("islands.csv"))',
    "sample": "df.sample(5)",
    "image rows": 'plt.imshow(np.hstack(np.load("images.npy")[:8]))',
    "save": 'df.to_parquet("penguins.parquet")',
    "reopen": 'df = pd.read_parquet("penguins.parquet")',
}

DRAWING = {"import", "histogram", "scatter"}
"""The steps that need matplotlib, which the tests with other libraries have."""

ROWS = 200
AREAS = {"Biscoe": 1.5, "Dream": 0.6, "Torgersen": 0.2}
MISSING = {"species": 0, "island": 0, "flipper": 0, "mass": 10, "bill": 4}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """The columns of a table; it is in the working folder, with a second one and images."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = {
        "species": rng.choice(["Adelie", "Chinstrap", "Gentoo"], ROWS),
        "island": rng.choice(list(AREAS), ROWS),
        "flipper": rng.integers(170, 230, ROWS),
        "mass": rng.permutation(ROWS) * 10.0 + 3000,
        "bill": rng.normal(44, 5, ROWS).round(1),
    }
    columns["mass"][3::20] = np.nan
    columns["bill"][7::50] = np.nan
    lines = [",".join(columns)]
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        lines.append(",".join("" if value != value else str(value) for value in row))
    (tmp_path / "penguins.csv").write_text("\n".join(lines) + "\n")
    areas = "".join(f"{name},{area}\n" for name, area in AREAS.items())
    (tmp_path / "islands.csv").write_text(f"island,area\n{areas}")
    np.save(tmp_path / "images.npy", rng.integers(0, 255, (20, 8, 8)).astype("u1"))
    return columns


def results(program, without=(), **names):
    """What each step of a program gives, None for one that gives nothing."""
    found = {}
    for step, line in program.items():
        if step in without:
            continue
        if " = " in line or line.startswith("import"):
            exec(line, names)
            found[step] = names.get("d", names.get("df"))
        else:
            found[step] = eval(line, names)
    return found


# -------------------- results as NumPy has them --------------------


def column(rows, name):
    """A column of a view or of a frame."""
    found = rows._field(name)() if isinstance(rows, dv.View) else rows[name].to_numpy()
    return np.asarray(found)


def in_mapping(found):
    """Numbers by their names: of a view of values and counts or means, or of a series."""
    if isinstance(found, dv.View):
        return {name: value.item() for name, value in found._asdict().items()}
    if isinstance(found, np.ndarray):
        first, second = found.dtype.names[:2]
        return dict(zip(found[first].tolist(), found[second].tolist(), strict=True))
    return found.to_dict()


def check(found, table):
    """Compare the results of either program with those of NumPy."""
    mass, bill, flipper = table["mass"], table["bill"], table["flipper"]
    for rows in (found["open"], found["reopen"]):
        for name in ("mass", "bill", "flipper"):
            assert np.array_equal(column(rows, name), table[name], equal_nan=True)
        assert column(rows, "species").tolist() == table["species"].tolist()
    assert [name for name in found["fields"] if not name.endswith("_mask")] == list(table)
    assert found["shapes"][0] == ROWS
    for name in ("mass", "bill", "flipper"):
        told = found["statistics"][name]
        assert told["count"] - (told.get("missing") or 0) == ROWS - MISSING[name]
        values = [np.nanmean(table[name]), np.nanmin(table[name]), np.nanmax(table[name])]
        assert np.allclose([told["mean"], told["min"], told["max"]], values)
    chosen = mass > 4200
    assert np.array_equal(column(found["filter"], "bill"), bill[chosen], equal_nan=True)
    species = {name: table["species"] == name for name in sorted(set(table["species"]))}
    means = found["group mean"]
    if isinstance(means, dv.View):
        means = dict(zip(means.species().tolist(), means.flipper().tolist(), strict=True))
    else:
        means = in_mapping(means)
    assert means == pytest.approx({name: flipper[own].mean() for name, own in species.items()})
    assert np.array_equal(column(found["sort"], "mass"), np.sort(mass), equal_nan=True)
    largest = np.sort(mass[~np.isnan(mass)])[::-1][:5]
    assert np.array_equal(column(found["top rows"], "mass"), largest)
    assert in_mapping(found["counts"]) == {name: own.sum() for name, own in species.items()}
    assert in_mapping(found["missing"]) == MISSING
    assert column(found["join"], "area").tolist() == [AREAS[name] for name in table["island"]]
    drawn = column(found["sample"], "flipper")
    assert len(drawn) == 5 and set(drawn) <= set(flipper)


def check_pictures(found, table):
    """Compare what is drawn: the bars of a histogram, and the points."""
    there = ~np.isnan(table["mass"])
    bars = np.ravel([axis.patches for axis in np.ravel(found["histogram"])])
    assert sum(bar.get_height() for bar in bars) == there.sum()
    drawn = found["scatter"]
    points = (drawn if hasattr(drawn, "get_offsets") else drawn.collections[0]).get_offsets()
    points = np.ma.filled(points, np.nan)
    points = points[~np.isnan(points).any(axis=1)]
    both = there & ~np.isnan(table["bill"])
    assert np.allclose(
        np.sort(points, axis=0), np.sort(np.c_[table["mass"], table["bill"]][both], 0)
    )


# -------------------- tests --------------------


def test_the_steps_take_no_more_characters_than_in_pandas():
    assert OURS.keys() == PANDAS.keys() and len(OURS) == 17 + 1
    ours, theirs = ("\n".join(program.values()) for program in (OURS, PANDAS))
    assert len(ours) <= len(theirs)


def test_the_steps_give_what_numpy_gives(table):
    found = results(OURS, DRAWING, dv=dv)
    check(found, table)
    assert "images" in repr(found["image rows"])


@pytest.mark.clients
def test_the_steps_of_both_programs_give_the_same(table):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    for program in (OURS, PANDAS):
        found = results(program)
        check(found, table)
        check_pictures(found, table)
        plt.close("all")
