"""Verbs of tables in any chain do what plain Python does with a list of rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.index.sizes import sizes
from oracle import examples, silence

DAY = np.datetime64("2020-01-01")
WORDS = np.array(["b", "", "ab", "b ", "Ä"])
CELLS = {
    "ints": lambda n: n - 2,
    "large": lambda n: n + (1 << 60),
    "bytes": lambda n: (n * 60).astype("u1"),
    "swapped": lambda n: (n - 2).astype(">i4"),
    "strided": lambda n: np.repeat(n, 2)[::2],
    "backwards": lambda n: n[::-1].copy()[::-1],
    "floats": lambda n: np.where(n == 3, np.nan, n / 2 - 1),
    "singles": lambda n: np.where(n == 3, np.nan, n / 2).astype(">f4"),
    "zeros": lambda n: np.where(n % 2, 0.0, -0.0),
    "truths": lambda n: n % 2 == 0,
    "texts": lambda n: WORDS[n],
    "swapped texts": lambda n: WORDS[n].astype(">U2"),
    "short": lambda n: np.array([b"b", b"", b"ab", b"c", b"d"])[n],
    "any length": lambda n: WORDS[n].astype(np.dtypes.StringDType()),
    "objects": lambda n: np.array(["b", None, "ab", "b ", ""], object)[n],
    "days": lambda n: np.where(n == 3, np.datetime64("NaT"), DAY + n),
    "swapped days": lambda n: (DAY + n).astype(">M8[s]"),
    "spans": lambda n: np.where(n == 3, np.timedelta64("NaT"), n.astype("m8[s]")),
    "gaps": lambda n: n * 10,
    "gaps in texts": lambda n: WORDS[n],
}
"""Columns of each kind, of random integers below 5; where there are gaps a mask says so."""

NUMBERS = ("ints", "bytes", "swapped", "strided", "backwards", "floats", "singles", "zeros", "gaps")
HAS_GAPS = 3
"""The number for which a column with a mask has nothing."""


@st.composite
def tables(draw):
    """Give a view of one to four columns and one that numbers the rows, and its model."""
    count = draw(st.integers(0, 30))
    draws = np.random.default_rng(draw(st.integers(0, 1000)))
    kinds = draw(st.lists(st.sampled_from([*CELLS]), min_size=1, max_size=4, unique=True))
    columns, meta = {"row": np.arange(count)}, {}
    rows = [{"row": row} for row in range(count)]
    for kind in kinds:
        numbers = draws.integers(0, draw(st.sampled_from([1, 3, 5])), count)
        values = columns[kind] = CELLS[kind](numbers)
        there = numbers != HAS_GAPS if "gaps" in kind else np.ones(count, bool)
        if "gaps" in kind:
            columns[f"{kind}_mask"] = there
            meta[f"{kind}_mask"] = {"mask_of": kind}
        for row, value in zip(rows, cells_of(values, there), strict=True):
            row[kind] = value
    return dv.View(columns, _meta=meta), rows, kinds


def cells_of(values, there=True):
    """Give values as Python has them, None for what is missing."""
    known = np.broadcast_to(there, len(values)).tolist()
    listed = values.tolist()
    return [
        value if is_known and value is not None and value == value else None
        for value, is_known in zip(listed, known, strict=True)
    ]


def mask_of(d, name):
    """Give the name of the mask of a field, None if there is none."""
    return next((other for other in d._fields() if d[other]._meta.get("mask_of") == name), None)


def cells(d, name):
    """Give the cells of a field of a view, of which a mask may tell what is missing."""
    mask = mask_of(d, name)
    return cells_of(d[name](), True if mask is None else d[mask]())


# ---------------------------------------------------------------- chains


def chosen(draw, d, rows, kinds):
    key = draw(st.slices(len(rows)))
    return d[key], rows[key]


def taken(draw, d, rows, kinds):
    numbers = draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=9)) if rows else []
    return d[np.array(numbers, int)], [rows[number] for number in numbers]


def kept(draw, d, rows, kinds):
    mask = np.array([draw(st.booleans()) for _ in rows], bool)
    some = [row for row, is_kept in zip(rows, mask, strict=True) if is_kept]
    return (d[mask] if draw(st.booleans()) else d._filter(mask)), some


def doubled(draw, d, rows, kinds):
    few = draw(st.integers(0, 3))
    return dv.concat(d, d[:few]), rows + rows[:few]


def repeated(draw, d, rows, kinds):
    return d._repeat(2), rows * 2


def shuffled(draw, d, rows, kinds):
    seed = draw(st.integers(0, 9))
    order = dv.View(np.arange(len(rows)))._shuffled(seed)()
    assert sorted(order.tolist()) == [*range(len(rows))]
    return d._shuffled(seed), [rows[number] for number in order]


def sorted_rows(draw, d, rows, kinds):
    names = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2, unique=True))
    reverse = [draw(st.booleans()) for _ in names]
    for name, is_turned in [*zip(names, reverse, strict=True)][::-1]:
        known = [row for row in rows if row[name] is not None]
        gone = [row for row in rows if row[name] is None]
        rows = sorted(known, key=lambda row, name=name: row[name], reverse=is_turned) + gone
    return d._sorted(by=names, reverse=reverse), rows


def distinct(draw, d, rows, kinds):
    names = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2, unique=True))
    return d._drop_duplicates(by=names), first_of_each(rows, names)


def first_of_each(rows, names):
    found = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), row)
    return [*found.values()]


def whole(draw, d, rows, kinds):
    name = draw(st.sampled_from(kinds))
    return d._dropna(name), [row for row in rows if row[name] is not None]


def frozen(draw, d, rows, kinds):
    return d._freeze(), rows


def of_columns(draw, d, rows, kinds):
    return dv.zip(**{name: d[name] for name in ["row", *kinds]}), rows


def of_arrow(draw, d, rows, kinds):
    return dv.View(pa.table(d)), rows


def joined(draw, d, rows, kinds):
    other = dv.View(row=np.arange(40), more=np.arange(40) % 3)
    return d._join(other, on="row")._drop("more"), rows


STEPS = [
    chosen, taken, kept, doubled, repeated, shuffled, sorted_rows, distinct, whole, frozen,
    of_columns, of_arrow, joined,
]  # fmt: skip


@st.composite
def chains(draw):
    """Give a table after a chain of choices of rows."""
    d, rows, kinds = draw(tables())
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=4)):
        d, rows = step(draw, d, rows, kinds)
    return d, rows, kinds


BLOCKS = st.sampled_from([64, 1 << 22])


@examples(300)
@given(chains())
def test_rows_after_any_chain_are_those_of_a_list(chain):
    d, rows, kinds = chain
    for name in ["row", *kinds]:
        assert cells(d, name) == [row[name] for row in rows]
    assert len(d) == len(rows)


# ---------------------------------------------------------------- groups


def last(key):
    return [(value is None, value if value is not None else 0) for value in key]


def groups_of(rows, names, gaps):
    found = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        if gaps or None not in key:
            found.setdefault(key, []).append(row)
    return {key: found[key] for key in sorted(found, key=last)}


STATISTICS = ["sum", "prod", "mean", "var", "median", "min", "max"]


@examples(400)
@given(st.data())
def test_groups_after_any_chain_are_those_of_a_list(data):
    d, rows, kinds = data.draw(chains())
    names = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2, unique=True))
    gaps = data.draw(st.booleans())
    expected = groups_of(rows, names, gaps)
    with sizes.set(part_bytes=data.draw(BLOCKS)):
        groups = d._group(by=names if len(names) > 1 else names[0], dropna=not gaps)
        parts = [cells(part, "row") for _, part in groups]
        assert parts == [[row["row"] for row in some] for some in expected.values()]
        counts = groups._counts()
        assert counts.count().tolist() == [len(some) for some in expected.values()]
        kind = data.draw(st.sampled_from(STATISTICS))
        of_present = data.draw(st.booleans())
        with silence():
            found = getattr(groups, f"_nan{kind}" if of_present else f"_{kind}")()
            for number, name in enumerate(names):
                labels = [key[number] for key in expected]
                assert cells(counts, name) == cells(found, name) == labels
            for name in [name for name in kinds if name in found._fields() and name not in names]:
                dtype = d[name]._dtype()
                if kind == "median" and dtype.kind == "M":  # which NumPy does not have
                    continue
                is_left_out = of_present or dtype.kind not in "fmM" or mask_of(d, name)
                values = [[row[name] for row in some] for some in expected.values()]
                assert cells(found, name) == [
                    statistic(kind, some, dtype) if is_left_out or None not in some else None
                    for some in values
                ]


def statistic(kind, values, dtype):
    """Give a statistic of some cells but those that are missing, by NumPy but for extremes."""
    present = [value for value in values if value is not None]
    if kind in ("min", "max"):
        return (min if kind == "min" else max)(present, default=None)
    (found,) = cells_of(np.array([getattr(np, kind)(np.array(present, dtype))]))
    return pytest.approx(found) if isinstance(found, float) else found


@examples(300)
@given(st.data())
def test_values_and_their_counts_after_any_chain_are_those_of_a_list(data):
    d, rows, kinds = data.draw(chains())
    name = data.draw(st.sampled_from(kinds))
    values = [row[name] for row in rows]
    labels = sorted({value for value in values if value is not None})
    with sizes.set(block_bytes=data.draw(BLOCKS)):
        has_none = None in values and d[name]._dtype().kind in "fmMO"  # others have no such value
        assert cells_of(d[name]._unique()()) == labels + [None] * has_none
        counts = d[name]._counts()
        assert counts.value().tolist() == labels == d[name]._labels()().tolist()
        assert counts.count().tolist() == [values.count(label) for label in labels]
        codes = [-1 if value is None else labels.index(value) for value in values]
        assert d[name]._codes()().tolist() == codes


# ---------------------------------------------------------------- joins


@examples(300)
@given(st.data())
def test_joins_after_any_chain_are_those_of_a_list(data):
    d, rows, kinds = data.draw(chains())
    key = data.draw(st.sampled_from(kinds))
    first = first_of_each(rows, [key])
    others, partners = kept(data.draw, d._drop_duplicates(by=key), first, kinds)
    known = {row[key]: row for row in partners if row[key] is not None}
    names = [name for name in others._fields() if not name.endswith("_mask")]
    table = others._rename({name: f"other {name}" for name in names})
    joined = d._join(table, on=(key, f"other {key}"), missing="mask")
    for name in ["row", *kinds]:
        assert cells(joined, name) == [row[name] for row in rows]
        if name != key:
            found = [known.get(row[key], {}) for row in rows]
            expected = [partner.get(name) for partner in found]
            assert cells(joined, f"other {name}") == expected
    strict = d._join(table, on=(key, f"other {key}"))
    lacking = [number for number, row in enumerate(rows) if row[key] not in known]
    if lacking:
        with pytest.raises(KeyError, match=rf"row {lacking[0]} has the {key}"):
            strict["other row"]()
    else:
        assert cells(strict, "other row") == [known[row[key]]["row"] for row in rows]
