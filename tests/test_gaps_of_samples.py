"""Samples that are views bring the gaps and the metadata of these with them."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataview as dv
from dataview import errors

GAPS = [True, False, True, True, False, True]
COLUMNS = pa.table(
    {
        "a": pa.array([1, None, 3, 4, None, 6]),
        "ok": pa.array([True, None, False, True, None, True]),
        "b": np.arange(6.0),
    }
)


def table():
    """A table with gaps, and a column of two numbers a row."""
    d = dv.View(COLUMNS)
    d = dv.View(d, w=np.arange(12).reshape(6, 2), w_mask=np.array(GAPS))
    return dv.View(d, _meta={"w_mask": {"mask_of": "w"}, "a": {"unit": "m"}})


@dataclasses.dataclass
class Sample:
    """A sample as a user's class."""

    a: Any
    ok: Any
    w: Any


class Dataset:
    """Samples by number, as torch's datasets have them."""

    def __init__(self, d, part):
        self.d, self.part = d, part

    def __len__(self):
        return len(self.d)

    def __getitem__(self, number):
        return self.part(self.d, number)


class InOrder:
    """Samples in order, as often as they are asked for."""

    def __init__(self, d, part):
        self.d, self.part = d, part

    def __iter__(self):
        return (self.part(self.d, number) for number in range(len(self.d)))


NAMED = {
    "mapping": lambda d, i: {"a": d.a[i], "ok": d.ok[i], "w": d.w[i]},
    "object": lambda d, i: Sample(d.a[i], d.ok[i], d.w[i]),
    "row": lambda d, i: d[["a", "ok", "w"]][i],
    "computed": lambda d, i: {"a": d.a[i] * 1, "ok": d.ok[i] & True, "w": d.w[i] + 0},
}
BY_NUMBER = {
    "function": lambda d, part: dv.View(lambda i: part(d, i), _length=len(d)),
    "dataset": lambda d, part: dv.View(Dataset(d, part)),
}
WAYS = {
    **BY_NUMBER,
    "generators": lambda d, part: dv.View(lambda: (part(d, i) for i in range(len(d)))),
    "iterable": lambda d, part: dv.View(InOrder(d, part)),
    "list": lambda d, part: dv.View([part(d, i) for i in range(len(d))]),
}


def check(whole):
    """Check that a view of all samples has the values, gaps and metadata of the table."""
    assert whole._dropna().a().tolist() == [1, 3, 4, 6]
    assert whole.a._sum()() == 14 and whole.ok._sum()() == 3
    for name in ("a", "ok", "w"):
        assert whole[name]._notna()().reshape(6, -1).all(axis=1).tolist() == GAPS
    assert set(whole._fields()) == {"a", "ok", "w", "a_mask", "ok_mask", "w_mask"}


def seen(samples):
    """Give samples or batches one after the other, each with what a look at it tells."""
    return (sample._probe() for sample in samples)


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("way", WAYS)
def test_all_samples_together(way, kind, tmp_path):
    made = WAYS[way](table(), NAMED[kind])._probe()
    check(made[:6]._freeze())
    made._save(tmp_path / "made.parquet")
    check(dv.open(tmp_path / "made.parquet"))
    assert made[:6]._freeze()._missing().a() == 2


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("way", WAYS)
def test_one_after_the_other(way, kind, probed):
    made = WAYS[way](table(), NAMED[kind])
    made = made._probe() if probed else made
    found = [(bool(s.a._notna()()), bool((s.a == 1)()), s.ok._notna()().item()) for s in seen(made)]
    assert found == [(there, n == 0, there) for n, there in enumerate(GAPS)]


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("way", WAYS)
def test_in_batches(way, kind, probed):
    made = WAYS[way](table(), NAMED[kind])
    made = made._probe() if probed else made
    for batches in (
        made._minibatches(4),
        made._loader(4),
        made._loader(4, transform=lambda sample: sample),
        made._loader(4, workers=2),
    ):
        found = list(seen(batches))
        assert [len(batch) for batch in found] == [4, 2]
        for batch, rows in zip(found, (slice(0, 4), slice(4, 6)), strict=True):
            assert batch.a._notna()().tolist() == GAPS[rows]
            assert (batch.a < 4)().tolist() == [n in (0, 2) for n in range(6)][rows]
            assert batch.ok._isna()().tolist() == [not there for there in GAPS[rows]]
            assert batch.w._notna()().all(axis=1).tolist() == GAPS[rows]


@pytest.mark.parametrize("way", BY_NUMBER)
def test_some_of_them_by_number(way):
    made = BY_NUMBER[way](table(), NAMED["mapping"])
    assert "–" in str(made[1]._probe()) and not made[1]._probe().a._notna()()
    known = made._probe()
    assert known[1:4]._dropna().a().tolist() == [3, 4]
    assert known[[4, 0]].a._notna()().tolist() == [False, True]
    assert not made[1]._probe()._freeze().a._notna()()


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("name", ["a", "w"])
@pytest.mark.parametrize("way", WAYS)
def test_without_a_name(way, name, probed):
    made = WAYS[way](table(), lambda d, i: d[name][i])
    made = made._probe() if probed else made
    alone = [bool(np.all(sample._notna()())) for sample in seen(made)]
    assert alone == GAPS
    for batches in (made._minibatches(4), made._loader(4), made._loader(4, workers=2)):
        there = [batch._notna()() for batch in seen(batches)]
        found = [own.reshape(len(own), -1).all(axis=1) for own in there]
        assert np.concatenate(found).tolist() == GAPS
    if probed:
        there = made[:6]._freeze()._notna()().reshape(6, -1)
        assert there.all(axis=1).tolist() == GAPS


def test_samples_of_which_only_some_lack_something():
    full = dv.View(pa.table({"a": pa.array([7, 8, 9])}))
    d = table()

    def part(i):
        return {"a": full.a[i] if i < 3 else d.a[i]}

    for made in (
        dv.View(part, _length=6),
        dv.View(lambda: map(part, range(6))),
        dv.View([part(i) for i in range(6)]),
    ):
        there = [True, True, True, True, False, True]
        assert [bool(sample.a._notna()()) for sample in seen(made)] == there
        found = [batch.a._notna()() for batch in made._loader(4)]
        assert np.concatenate(found).tolist() == there


def test_metadata_come_along():
    made = dv.View(lambda i: {"a": table().a[i]}, _length=6)
    assert made[2]._probe().a._meta["unit"] == "m" and made._probe().a._meta["unit"] == "m"
    assert next(made._probe()._loader(2)).a._meta["unit"] == "m"


def test_a_view_in_a_sample_is_what_it_was_when_the_sample_was_made():
    x = dv.View(np.arange(3.0))

    def states():
        for _ in range(3):
            yield {"x": x}
            x[...] = x + 10

    assert [sample.x()[0] for sample in list(dv.View(states))] == [0, 10, 20]


def test_members_are_read_alike_whichever_is_asked_for_first():
    made = dv.View(lambda i: table().a[i], _length=6)._probe()
    both = dv.evaluate(made._notna(), made * 1)
    assert both[0].tolist() == GAPS and both[1][[0, 2]].tolist() == [1, 3]


def test_a_sample_that_lacks_a_field_is_named():
    made = dv.View(lambda i: {"a": 1} if i else {"a": 1, "b": 2}, _length=3)._probe()
    with pytest.raises(dv.FieldError, match=r"sample 1, field 'b': no field 'b' .* fields are: a"):
        made.b()


def test_mapped_rows_of_samples_have_their_gaps():
    made = dv.View(lambda i: {"a": table().a[i]}, _length=6)._probe()
    twice = made._map(lambda row: {"twice": row.a * 2})._probe()
    assert twice.twice._notna()().tolist() == GAPS and twice.twice._sum()() == 28


LISTS = pa.table({"t": pa.array([[1, None, 3], [4], None, []])})
LACKING = [[True, False, True], [True], [], []]


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_samples_that_differ_in_length(way, probed):
    made = WAYS[way](dv.View(LISTS), lambda d, i: {"t": d.t[i]})
    made = made._probe() if probed else made
    ragged = next(iter(made._loader(4, pad="ragged"))).t
    assert [own.tolist() for own in ragged._notna()()] == LACKING
    filled = next(iter(made._loader(4, pad=-1)))
    assert filled.t().tolist() == [[1, -1, 3], [4, -1, -1], [-1, -1, -1], [-1, -1, -1]]
    if way != "list":  # whose rows tell their gaps themselves
        there = [[True, False, True], [True, False, False], [False] * 3, [False] * 3]
        assert filled.t_mask().tolist() == there
    if probed:
        kept = made[:4]._freeze().t
        assert [own.tolist() for own in kept._notna()()] == LACKING and kept._sum()() == 8


def test_structured_rows_lack_what_their_fields_lack():
    rows = dv.View(np.array([(1.0, 2), (np.nan, 3)], [("x", float), ("y", int)]))
    assert rows._dropna().y().tolist() == [2] and rows._missing()().tolist() == (1, 0)


@pytest.mark.parametrize("transform", [None, lambda sample: sample])
def test_a_column_without_its_table_keeps_its_gaps_in_a_loader(transform):
    for name in ("a", "w"):
        options = {} if transform is None else {"transform": transform}
        for tail in ({"tail": "pad"}, {"sampler": "permutation", "seed": 1}, {"workers": 2}):
            batches = list(table()[name]._loader(4, **options, **tail))
            there = np.concatenate([batch._notna()() for batch in batches])
            assert np.count_nonzero(~there.reshape(len(there), -1).all(axis=1)) >= 2


def test_a_gap_where_the_first_samples_had_none_is_not_lost():
    full, d = dv.View(pa.table({"a": pa.array([7, 8, 9] * 4)})), table()
    made = dv.View(lambda i: {"a": d.a[1] if i == 4 else full.a[i]}, _length=12)._probe()
    with pytest.raises(ValueError, match=r"sample 4.*missing|missing.*_fields="):
        made.a()
    floats = dv.View(
        lambda i: {"a": d.a[1] if i == 4 else full.a[i]}, _length=12, _fields={"a": float}
    )
    assert np.isnan(floats.a()).tolist() == [n == 4 for n in range(12)]


def test_samples_beside_one_that_fails_keep_texts_that_are_missing(tmp_path):
    def fails(row):
        if row == 3:
            raise OSError("no such row")
        return {"n": row}

    (tmp_path / "t.csv").write_text("t,s\nx,\n,1\nz,2\nu,3\n,4\nw,\n")
    d = dv.open(tmp_path / "t.csv")
    d.made = dv.View(fails, _length=6)._probe()
    loader = d._loader(6, on_error="skip")
    batch = next(loader)
    assert [failure.row for failure in loader.errors] == [3]
    assert batch.t().tolist() == ["x", None, "z", None, "w"]
    assert batch.s._notna()().tolist() == [False, True, True, True, False]
    assert batch.made.n().tolist() == [0, 1, 2, 4, 5]


UNPROBED = {
    "function": lambda d: dv.View(lambda i: d.a[i], _length=6),
    "computed": lambda d: dv.View(lambda i: d.a[i] + 1, _length=6),
    "rows": lambda d: dv.View(lambda i: d[["a", "ok"]][i], _length=6),
    "field": lambda d: dv.View(a=dv.View(lambda i: d.a[i], _length=6), b=d.b),
    "map": lambda d: d.a._map(lambda a: a * 2),
    "map of rows": lambda d: d._map(lambda row: {"a": row.a}),
    "batches": lambda d: d.a._map_batches(lambda some: some * 2),
    "stream": lambda d: dv.View(lambda: iter(d.a))[:6],
    "stream of rows": lambda d: dv.View(lambda: iter(d[["a", "ok"]]))[:6],
    "mapped stream": lambda d: dv.View(lambda: iter(d))._map(lambda row: row.a * 2)[:6],
    "mapped rows": lambda d: dv.View(lambda: iter(d))._map(lambda row: {"a": row.a})[:6],
    "mapped batches": lambda d: dv.View(lambda: iter(d))._map_batches(lambda b: {"a": b.a})[:6],
}


@pytest.mark.parametrize("probed", [False, True])
@pytest.mark.parametrize("name", UNPROBED)
def test_a_copy_of_samples_has_their_gaps(name, probed):
    view = UNPROBED[name](table())
    copy = (view._probe() if probed else view)._freeze()
    copy = copy.a if copy._fields() else copy
    assert copy._notna()().tolist() == GAPS
    assert copy._sum()() in (14, 14 + 4, 28)


@pytest.mark.parametrize("name", ["function", "rows", "field", "map"])
def test_a_copy_of_one_sample_has_its_gap(name):
    view = UNPROBED[name](table())
    for number, is_there in enumerate(GAPS):
        copy = view[number]._freeze()
        assert (copy.a if copy._fields() else copy)._notna()() == is_there


def test_samples_that_are_objects_are_these_and_no_arrays_of_them():
    objects = np.array(["ab", None, 3], object)
    v = dv.View(lambda i: dv.View(objects)[i], _length=3)._probe()
    r = dv.View(lambda i: {"x": dv.View(objects)[i]}, _length=3)._probe().x
    for found in (v(), r(), v[[0, 1, 2]](), r[:]()):
        assert found.tolist() == ["ab", None, 3]
    assert (v[0](), r[1](), type(v[2]())) == ("ab", None, int)


def ages():
    """A table in which ages are missing, and with them what is computed of ages."""
    return dv.View(pa.table({"age": [30, None, 50, 60], "n": [1, 2, 3, 4]}))


NO_MASK = r"a batch of arrays knows no gaps: .*{}.*_fillna\(value\)"


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ("age", {}),
        (("n", "age"), {"prefetch": 2}),
        ({"old": "age"}, {"transform": lambda sample: sample}),
    ],
)
def test_a_batch_of_arrays_tells_of_gaps_whose_mask_it_leaves_out(fields, options, monkeypatch):
    monkeypatch.setattr(errors, "_told", set())  # as for a line that has not been told
    with ages()._loader(2, fields=fields, **options) as loader:
        with pytest.warns(RuntimeWarning, match=NO_MASK.format("field '(age|old)'") + ".*age_mask"):
            next(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(loader)) == 1


KINDS = ["b", None, "a", "b"]


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"transform": lambda sample: sample}])
def test_a_batch_of_arrays_tells_of_codes_of_no_label(options, monkeypatch):
    d = dv.View(x=range(4), kind=np.array(KINDS, object))
    v = dv.View(x=d.x, y=d.kind._codes())
    for part in (v, v._shuffled(seed=0), dv.zip(x=v.x, y=v.y)):
        monkeypatch.setattr(errors, "_told", set())  # as for a line that has not been told
        with (
            part._loader(4, fields={"a": "x", "b": "y"}, **options) as loader,
            pytest.warns(RuntimeWarning, match=NO_MASK.format("field 'b'")) as told,
        ):
            batch = next(loader)
        assert "_mask" not in str(told[0].message)
        rows = [KINDS[row] for row in batch["a"]]
        assert batch["b"].tolist() == [-1 if kind is None else "ab".index(kind) for kind in rows]


def test_codes_are_told_of_only_where_one_is_missing_and_labels_were_found():
    d = dv.View(x=range(4), kind=np.array(KINDS, object))
    own, given = d.kind._codes(), d.kind._codes(labels=["a"])
    whole = dv.View(x=d.x, y=own)._dropna()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert next(whole._loader(4, fields="y")).tolist() == [1, 0, 1]
        assert next(dv.View(y=own)._loader(1, fields="y")).tolist() == [1]
        assert next(dv.View(y=own._fillna(0))._loader(4, fields="y")).tolist() == [1, 0, 0, 1]
        for y in (given, own._codes(labels=["a"])):
            assert next(dv.View(y=y)._loader(4, fields="y")).tolist() == [-1, -1, 0, -1]


def test_gaps_are_told_where_they_are_and_not_before():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = ages()
        loader = d._loader(1, fields="age")
        assert next(loader) == [30]
        for fields in (["age", "age_mask"], {"a": "age", "there": "age_mask"}, "n"):
            assert len(list(d._loader(2, fields=fields))) == 2
        halves = dv.View(pa.table({"half": [1.5, None]}))
        assert next(iter(halves._loader(2, fields="half")))[0] == 1.5
    with pytest.warns(RuntimeWarning, match=NO_MASK.format("field 'age'")):
        assert next(loader) == [0]


def test_a_tuple_of_a_transform_has_arrays_and_tells_of_gaps():
    d = ages()
    with pytest.warns(RuntimeWarning, match=NO_MASK.format("the data")):
        found, numbers = next(iter(d._loader(4, transform=lambda s: (s.age, s.n))))
    assert found.tolist() == [30, 0, 50, 60] and numbers.tolist() == [1, 2, 3, 4]
    rows, _ = next(iter(d._loader(2, transform=lambda s: (np.ones(int(s.n)), s.n), pad="ragged")))
    assert isinstance(rows, np.ndarray) and list(map(len, rows)) == [1, 2]


def test_samples_that_torch_takes_tell_of_gaps():
    d = ages()
    with pytest.warns(RuntimeWarning, match="a sample knows no gaps"):
        assert d.age.__getitems__([1, 2]) == [0, 50]
    assert d.__getitems__([1])[0]["age_mask"] == False  # noqa: E712


@pytest.mark.parametrize("pad", [-1, 0.5, dv.Pad(-1, length=True)])
def test_masks_are_masks_in_batches_that_are_filled_up(pad):
    rows = pa.array([[1, 2], [None, 3]], pa.list_(pa.int64(), 2))
    d = dv.View(pa.table({"w": rows, "inside": pa.StructArray.from_arrays([rows], ["w"])}))
    batch = next(d._loader(2, pad=pad))
    for one in (batch, batch.inside):
        assert one.w_mask().dtype == bool
        assert one.w._isna()().tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize("mask", ["g_mask", "g_mask_2"])
def test_masks_of_lists_are_masks_after_a_map(mask):
    rows = [[1], [2, None], None, [], [3, 4, 5]]
    beside = {} if mask == "g_mask" else {"g_mask": [False] * 5}
    made = dv.View(pa.table({"g": rows, **beside}))._map(lambda row: row)._probe()
    assert made._field(mask)._meta["mask_of"] == "g"
    assert pa.table(made)["g"].to_pylist() == rows
    assert pa.table(next(made._loader(5)))["g"].to_pylist() == rows
    assert pa.table(made).column_names == ["g", *beside]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"transform": lambda row: row}])
def test_lists_that_are_missing_in_lists_are_so_in_batches(options, size):
    rows = [[[1], None], [[2, None]], None, [], [[3], [4, 5]], [[], None]]
    loader = dv.View(pa.table({"g": rows}))._loader(size, **options)
    assert [row for batch in loader for row in pa.table(batch)["g"].to_pylist()] == rows


def test_lists_that_are_missing_in_lists_are_filled_up():
    d = dv.View(pa.table({"g": [[[1], None], [[2, None]], [[3], [4, 5]]]}))
    batch = next(d._loader(3, transform=lambda row: {"g": row.g}, pad=-1))
    filled = [[[1, -1], [-1, -1]], [[2, -1], [-1, -1]], [[3, -1], [4, 5]]]
    assert batch.g().tolist() == filled


WITH_GAPS = {
    "some missing": [[1, None, 3], [4], None, [5, 6]],
    "of one length": [[1, None, 3], [4, 5, 6], [7, 8, None], [5, 6, 7]],
}


@pytest.mark.parametrize("options", [{}, {"pad": "ragged"}])
@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("lists", WITH_GAPS.values(), ids=WITH_GAPS)
def test_lists_of_a_function_keep_their_gaps_in_a_batch(lists, probed, options):
    d = dv.View(pa.table({"g": pa.array(lists), "x": [0, 1, 2, 3]}))._map(lambda s: {"g": s.g})
    if not probed and not options:
        options = {"pad": "ragged"}
    batches = (d._probe() if probed else d)._loader(2, **options)
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    # A function that returns a list alone says of a missing one no more than that it is empty.
    assert [row["g"] for row in found] == [own or [] for own in lists]


@pytest.mark.parametrize("lists", WITH_GAPS.values(), ids=WITH_GAPS)
def test_lists_of_a_transform_are_handed_over_with_their_gaps(lists):
    d = dv.View(pa.table({"g": pa.array(lists), "x": [0, 1, 2, 3]}))
    batches = d._loader(2, transform=lambda s: {"g": s.g})
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    # A function that returns a list alone says of a missing one no more than that it is empty.
    assert found == [{"g": own or []} for own in lists]


@pytest.mark.clients
def test_arrays_of_a_transform_are_handed_over_with_their_gaps_to_pandas():
    lists = WITH_GAPS["of one length"]
    d = dv.View(pa.table({"g": pa.array(lists)}))
    (batch,) = d._loader(4, transform=lambda s: {"g": s.g})
    found = batch._to_pandas()
    assert found.notna().to_numpy().tolist() == [[v is not None for v in row] for row in lists]
    filled = [[-1 if value is None else value for value in row] for row in lists]
    assert found.fillna(-1).to_numpy().tolist() == filled


@pytest.mark.parametrize("keep", [lambda d: d._freeze(), lambda d: d._probe()])
def test_lists_of_a_function_are_no_values_where_these_are_missing(keep):
    for lists in ([[1, 2], [3, None], [5, 6]], [[None], [1], [2]]):
        d = dv.View(pa.table({"g": pa.array(lists, pa.list_(pa.int64()))}))
        rows = keep(d._map(lambda sample: sample))
        for found, given in zip(pa.table(rows).column("g").to_pylist(), lists, strict=True):
            # Of lists of one length, which make an array, all is missing where a value is.
            assert found == given or (found is None and None in given)


# --- lists of one length ----------------------------------------------------------------------

OF_LISTS = {
    "integers": pa.array([[1, None], [2, 3], [None, None], [4, 5]]),
    "truth values": pa.array([[True, None], [False, True], [None, None], [True, True]]),
    "floats": pa.array([[1.0, None], [2.0, 3.0], [None, None], [4.0, 5.0]]),
}
OF_ROWS = {
    "stacked": lambda d: dv.View([d[number] for number in range(len(d))]),
    "joined": lambda d: dv.concat(dv.View([d[0], d[1]]), dv.View([d[2], d[3]])),
    "mapped": lambda d: d._map(lambda row: row)._probe(),
    "made by number": lambda d: dv.View(lambda number: d[number], _length=len(d))._probe(),
    "in a batch": lambda d: next(dv.View([*d])._loader(4)),
}
THEN = {
    "as they are": lambda v: v,
    "frozen": lambda v: v._freeze(),
    "some": lambda v: v[[0, 1, 2, 3]],
    "frozen, some": lambda v: v._freeze()[::1],
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("way", OF_ROWS)
@pytest.mark.parametrize("kind", OF_LISTS)
def test_rows_of_lists_of_one_length_lack_what_the_lists_do(kind, way, then):
    column = OF_LISTS[kind]
    v = THEN[then](OF_ROWS[way](dv.View(pa.table({"a": column}))))
    rows = column.to_pylist()
    assert v.a._shape() == (4, 2)
    assert v.a._sum()() == sum(value for row in rows for value in row if value is not None)
    sums = [sum(value for value in row if value is not None) for row in rows]
    np.testing.assert_array_equal(v.a._sum(axis=1)(), sums)


OF_STREAMS = {"a stream": lambda d: dv.View(lambda: (d[n] for n in range(len(d))))._probe()}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz", "h5"])
@pytest.mark.parametrize("way", OF_ROWS | OF_STREAMS)
@pytest.mark.parametrize("kind", OF_LISTS)
def test_rows_of_lists_of_one_length_are_saved_with_what_they_lack(kind, way, suffix, tmp_path):
    column = OF_LISTS[kind]
    (OF_ROWS | OF_STREAMS)[way](dv.View(pa.table({"a": column})))._save(tmp_path / f"a.{suffix}")
    found = dv.open(tmp_path / f"a.{suffix}").a
    known = [value for row in column.to_pylist() for value in row if value is not None]
    assert (found._sum()(), found._max()()) == (sum(known), max(known))
    if suffix == "parquet":  # where all of a row is missing, the row is
        rows = [None if row == [None, None] else row for row in column.to_pylist()]
        assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == rows


def test_a_mask_of_frozen_lists_has_the_shape_of_the_array():
    column = OF_LISTS["integers"]
    frozen = OF_ROWS["stacked"](dv.View(pa.table({"a": column})))._freeze()
    there = [[value is not None for value in row] for row in column.to_pylist()]
    np.testing.assert_array_equal(frozen.a_mask(), there)
    assert frozen().dtype["a_mask"].shape == (2,)


NESTED = {
    "integers": [[[1, None], None], [[2]]],
    "floats": [[[1.0, None]], [], [[2.0], None]],
    "texts": [[["a", None]], [["b"]]],
    "truth values": [[[True, None], []], [[None]]],
    "missing rows": [None, [[1]]],
    "nothing missing": [[[1]], [[2, 3]]],
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", NESTED)
def test_lists_of_lists_lack_in_batches_what_they_lack(kind, workers):
    rows = NESTED[kind]
    d = dv.View(pa.table({"l": rows}))._map(lambda row: row)._probe()
    with d._loader(len(rows), workers=workers) as loader:
        assert pa.table(next(loader))["l"].to_pylist() == rows
    assert pa.table(d._minibatches(len(rows))[0])["l"].to_pylist() == rows
