"""Help and errors: the names of verbs and options, and no internal names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import operator
import pathlib
import pickle
import pydoc
import re

import h5py
import numpy as np
import pytest

import dataview as dv
from dataview.loader import options
from dataview.view import hints
from package import PACKAGE, verbs


def whole():
    return dv.View(x=np.zeros((6, 2)), y=np.arange(6))


def shown(thing):
    """What `help` prints, without the markup for bold letters."""
    return pydoc.render_doc(thing, renderer=pydoc.plaintext)


def classes_of_the_face():
    """The names of the classes in the rooms of the view, but for the one that users have."""
    trees = [ast.parse(room.read_text(encoding="utf-8")) for room in PACKAGE.glob("view/*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)} - {"View"}


# -------------------- names --------------------


def function_of(name):
    found = inspect.getattr_static(dv.View, name)
    return found.fget if isinstance(found, property) else getattr(dv.View, name)


@pytest.mark.parametrize("name", sorted(verbs()))
def test_a_verb_is_called_by_its_name(name):
    assert function_of(name).__qualname__ == f"View.{name}"


def test_a_method_of_the_package_has_no_other_name_than_that_of_the_view():
    own = {
        name: found
        for name, found in inspect.getmembers(dv.View, inspect.isfunction)
        if PACKAGE in pathlib.Path(found.__code__.co_filename).parents
    }
    assert {"__add__", "__array_function__", "__getitem__", "_loader"} <= own.keys()
    assert {found.__qualname__ for found in own.values()} == {f"View.{name}" for name in own}


def test_the_class_is_that_of_the_package():
    assert f"{dv.View.__module__}.{dv.View.__qualname__}" == "dataview.View"
    assert pickle.loads(pickle.dumps(dv.View)) is dv.View
    assert repr(dv.View) == "<class 'dataview.View'>"


@pytest.mark.parametrize("name", sorted(verbs() - {"_meta", "_space", "_deterministic"}))
def test_a_verb_is_found_by_its_name_in_a_pickle(name):
    assert pickle.loads(pickle.dumps(getattr(dv.View, name))) is getattr(dv.View, name)
    assert pickle.loads(pickle.dumps(getattr(whole(), name))).__name__ == name


@pytest.mark.parametrize("thing", [dv.View, dv, whole()._loader, whole()._sum])
def test_help_shows_no_class_from_inside(thing):
    words = set(re.findall(r"\w+", shown(thing)))
    assert "View" in words
    assert len(classes_of_the_face()) > 3
    assert not words & classes_of_the_face()


def test_a_wrong_call_is_told_by_the_verb():
    with pytest.raises(TypeError, match=r"^_take: missing .* 'rows'; write _take\(rows\)"):
        whole()._take()
    assert repr(whole()._map).startswith("<bound method View._map of View of 6 rows")


# -------------------- options --------------------

# The options that both verbs have.
SHARED = ("batch_size", "tail", "sampler", "seed", "num_samples", "num_batches", "spec")
HEADINGS = re.findall(r"^ +(\w[^\n]*):\n\n", options.Options.__doc__, re.M)
VERBS = {"_loader": options.LoaderOptions, "_minibatches": options.MinibatchOptions}


def told(verb):
    """The lines of help of a verb's options, by name."""
    return dict(re.findall(r"^    - `(\w+)`: (\S.*)$", shown(getattr(whole(), verb)), re.M))


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_a_line_for_each_option_and_its_default(verb):
    declared = dataclasses.fields(VERBS[verb])
    assert sorted(told(verb)) == sorted(option.name for option in declared)
    signature = inspect.signature(getattr(whole(), verb))
    assert {name: p.default for name, p in signature.parameters.items()} == {
        option.name: option.default for option in declared
    }
    first, *_ = shown(getattr(whole(), verb)).split("\n\n")[1].splitlines()
    for option in declared:
        assert f"{option.name}: {option.type!r} = {option.default!r}" in first


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_into_a_window_and_stands_in_groups(verb):
    text = shown(getattr(whole(), verb))
    assert max(map(len, text.splitlines()[3:])) <= 100
    headings = re.findall(r"^    (\w[^\n]*):\n\s+- `", text, re.M)
    order = [heading for heading in HEADINGS if heading in headings]
    assert headings == order
    assert len(headings) == {"_loader": 8, "_minibatches": 4}[verb]


def test_help_explains_nothing_that_is_no_option():
    explained = re.findall(r"^ +- `(\w+)`: ", options.Options.__doc__, re.M)
    assert sorted(explained) == sorted(told("_loader").keys() | told("_minibatches").keys())


def test_the_loader_has_23_options():
    assert len(dataclasses.fields(options.LoaderOptions)) == 23
    assert tuple(inspect.signature(dv.View._loader).parameters)[:4] == (
        "self", "batch_size", "sampler", "seed"
    )  # fmt: skip


def test_what_two_verbs_share_has_one_line_of_help():
    lines, others = told("_loader"), told("_minibatches")
    assert lines.keys() & others.keys() == set(SHARED)
    assert [lines[name] for name in SHARED] == [others[name] for name in SHARED]


WRONG = [
    ("batch_size", 0), ("batch_size", 2.0), ("batch_size", True), ("tail", "keep"),
    ("seed", 1.5), ("seed", None), ("num_samples", -1), ("num_samples", True),
    ("num_batches", -1), ("num_batches", 2.0), ("sampler", "permutations"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_two_verbs_share_has_one_check(name, value):
    texts = []
    for verb in VERBS:
        with pytest.raises((TypeError, ValueError)) as caught:
            getattr(whole(), verb)(**{"batch_size": 2, name: value})
        texts.append(f"{caught.type.__name__}: {caught.value}")
    assert texts[0] == texts[1]
    assert repr(value).strip("'") in texts[0]


def test_a_stream_checks_its_options_like_anything_else():
    stream = dv.View(lambda: iter(range(5)))
    for verb in VERBS:
        with pytest.raises(ValueError, match="num_batches= is at least 0; got -1"):
            getattr(stream, verb)(2, num_batches=-1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_default_passes_its_check(verb):
    for option in dataclasses.fields(VERBS[verb]):
        check = option.metadata.get("check")
        if check is not None and option.default is not None:
            assert check(option.name, option.default) == option.default


@pytest.mark.parametrize(
    ("verb", "wrong", "meant"),
    [("_loader", "batchsize", "batch_size"), ("_loader", "worker", "workers"),
     ("_minibatches", "num_batch", "num_batches")],
)  # fmt: skip
def test_a_wrong_name_is_told_with_the_close_one_and_all_others(verb, wrong, meant):
    names = ", ".join(option.name for option in dataclasses.fields(VERBS[verb]))
    text = f"{verb} has no option {wrong!r}; did you mean {meant!r}? The options are: {names}"
    with pytest.raises(TypeError) as caught:
        getattr(whole(), verb)(4, **{wrong: 1})
    assert str(caught.value) == text


def test_a_wrong_name_that_is_close_to_none_is_told_with_all():
    with pytest.raises(TypeError, match=r"^_loader has no option 'xyz'\. The options are: batch_s"):
        whole()._loader(xyz=1)


@pytest.mark.parametrize(
    ("verb", "options", "meant"),
    [
        ("_loader", {"shuffle": True}, "sampler='permutation'"),
        ("_minibatches", {"shuffle": True}, "sampler='permutation'"),
        ("_loader", {"drop_last": True}, "tail='drop'"),
        ("_minibatches", {"drop_remainder": True}, "tail='drop'"),
        ("_loader", {"num_workers": 2}, "workers=2"),
        ("_loader", {"collate_fn": list}, "collate="),
        ("_loader", {"batch_sampler": [[0, 1]]}, "sampler="),
        ("_loader", {"prefetch_factor": 2}, "prefetch=2"),
        ("_loader", {"generator": 3}, "seed=3"),
        ("_loader", {"pin_memory": True}, "device="),
    ],
)
def test_the_options_of_other_loaders_are_told_as_they_are_called_here(verb, options, meant):
    (name,) = options
    with pytest.raises(TypeError, match=rf"has no option '{name}'; write {meant}") as caught:
        getattr(whole(), verb)(4, **options)
    assert ". The options are: batch_size, " in str(caught.value)
    assert meant.partition("=")[0] in {option.name for option in dataclasses.fields(VERBS[verb])}


def test_what_a_verb_lacks_is_not_told_as_an_option():
    with pytest.raises(TypeError, match=r"no option 'num_workers'[;.] (did|The)"):
        whole()._minibatches(4, num_workers=2)


def test_the_help_says_what_batches_on_a_device_are():
    text = " ".join(dv.View._loader.__doc__.split())
    assert "Without `fields=`, `spec=` and `device=` a batch is a view." in text


def test_options_are_given_by_position_or_by_name_once():
    d = whole()
    assert [b.y().tolist() for b in d._loader(4, "linear", 0, False)] == [[0, 1, 2, 3], [4, 5]]
    assert [b.y().tolist() for b in d._minibatches(4, "drop")] == [[0, 1, 2, 3]]
    with pytest.raises(TypeError, match=r"^_loader got the option 'batch_size' twice"):
        d._loader(4, batch_size=4)
    with pytest.raises(TypeError, match=r"^_minibatches takes 8 options; got 9$"):
        d._minibatches(*range(9))


def test_tab_completes_the_options():
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.user_ns["d"] = whole()
    shell.Completer.use_jedi = True
    with provisionalcompleter():
        found = [item.text for item in shell.Completer.completions("d._loader(num_", 14)]
    assert found == ["num_batches=", "num_samples="]


# -------------------- what was meant --------------------


NAMED = {
    "median": "did you mean ._median()?",
    "mean": "did you mean ._mean()?",
    "copy": "did you mean ._copy()?",
    "_where": "write np.where(mask, d, other)",
    "flush": "nothing is to be flushed",
    "close": "did you mean ._close()?",
    "_shufled": "did you mean '_shuffled'",
    "_iloc": "write d[rows], or d[mask]",
    "_frobnicate": "no verb '_frobnicate'$",
}


OF_FILES = {
    "/a/b c": r"write d\.a\['b c'\]\. The",
    "a/b c": r"write d\.a\['b c'\]\. The",
    "a/none": r"no field 'a/none' in [^;]*\. The",
    "epoch": r"it is d\._meta\['epoch'\]",
    "create_dataset": r"write d\._set_field\(name, data\), then d\._save\(path\)",
    "visit": r"write d\._iter_fields\(\)",
}


@pytest.mark.parametrize("name", OF_FILES)
def test_names_of_files_are_told_with_what_to_write(name):
    d = dv.View(a={"b c": np.zeros(3)}, x=np.zeros(3), _meta={"": {"epoch": 3}})
    with pytest.raises(dv.FieldError, match=OF_FILES[name]):
        d[name]


def test_a_field_of_a_file_with_an_underscore_is_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["_x"] = np.zeros(3)
    d = dv.open(tmp_path / "a.h5")
    with pytest.raises(AttributeError, match=r"no verb '_x'; the field is d\['_x'\]"):
        d._x  # noqa: B018
    assert d["_x"].shape == (3,)


def test_a_path_inside_of_a_file_is_told_with_its_field(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/x"] = np.zeros(3)
    with pytest.raises(FileNotFoundError, match=r"dv\.open\('.*a\.h5'\)\.run\.x"):
        dv.open(f"{tmp_path}/a.h5/run/x")
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: "):
        dv.open(f"{tmp_path}/none/x")


@pytest.mark.parametrize("name", NAMED)
def test_a_name_from_elsewhere_is_told_with_what_to_write(name):
    advice = NAMED[name]
    with pytest.raises(AttributeError, match=advice if "$" in advice else re.escape(advice)):
        getattr(dv.View(np.zeros(3)), name)


def test_a_field_that_is_close_is_told_before_a_verb():
    with pytest.raises(AttributeError, match=r"did you mean 'means', or \._mean\(\)\? The"):
        dv.View(means=np.zeros(3)).mean  # noqa: B018


BY_NUMPY = (
    "abs argsort clip cumsum dot isnan percentile ptp ravel round sort squeeze where"
).split()


@pytest.mark.parametrize("name", BY_NUMPY)
def test_what_to_write_instead_gives_what_numpy_gives(name):
    a = np.array([3.0, np.nan, 1.0, 2.0] if name.startswith("nan") else [3.5, 1.0, 2.0, -2.0])
    more = {"where": (a > 1, a, -a), "clip": (a, 1, 2), "percentile": (a, 30), "dot": (a, -a)}
    expected = getattr(np, name)(*more.get(name, (a,)))
    known = {"d": dv.View(a), "np": np, "mask": a > 1, "other": -a, "percent": 30}
    known |= {"low": 1, "high": 2}
    *before, last = hints.INSTEAD[name].split("; ")
    exec("\n".join(before), known)
    np.testing.assert_allclose(np.asarray(eval(last, known)), expected)


RAGGED = {
    "in memory": lambda: dv.View([[1, 2], [3]]),
    "of a function": lambda: dv.View(np.arange, _length=4)._probe(),
    "of a stream": lambda: dv.View(lambda: map(np.arange, range(4)))._probe(),
    "batches": lambda: dv.View([[1, 2], [3]])._minibatches(2),
}


@pytest.mark.parametrize("name", RAGGED)
def test_a_name_of_an_array_is_explained_for_ragged_rows_too(name):
    view = RAGGED[name]()
    with pytest.raises(AttributeError, match=r"no field 'sum' in .*; did you mean \._sum\(\)\?$"):
        view.sum()
    with pytest.raises(AttributeError, match=r"write d._reshape\(-1\)$"):
        view.ravel()
    with pytest.raises(AttributeError, match=r"no field 'label' in .*It has no fields$"):
        view.label()
    assert view._asdict() == {}


def test_a_name_of_an_array_is_explained_before_fields_are_known():
    view = dv.View(np.arange, _length=4)
    with pytest.raises(
        AttributeError, match=r"'sum' is unknown .*_probe\(\) .*; did you mean \._sum\(\)\?$"
    ):
        view.sum()
    with pytest.raises(
        AttributeError,
        match=r"'label' is unknown .*; write d = d\._probe\(\) to read one, in View[^;]*$",
    ):
        view.label()


@pytest.mark.parametrize("name", sorted(hints.INSTEAD))
def test_what_to_write_instead_names_verbs_that_there_are(name):
    assert f"_{name}" not in verbs()
    assert set(re.findall(r"\bd\.(_\w+)", hints.INSTEAD[name])) <= verbs()


def test_a_view_of_memory_has_nothing_to_close():
    with dv.View(np.zeros(3)) as v:
        assert v._sum()() == 0
    assert v._sum()() == 0


def test_neither_rows_nor_fields_are_deleted():
    d = whole()
    with pytest.raises(ValueError, match=r"not deleted, as in an array: 0; d\[rows\]"):
        del d[0]
    for name in ("x", "nothing"):
        with pytest.raises(AttributeError, match="fields are not deleted"):
            del d[name]
    assert len(d) == 6


RECORDS = np.zeros(3, [("a", "f8"), ("b", "i4"), ("c", "U3")])


@pytest.mark.parametrize(
    "compute",
    [
        lambda d: d._mean(),
        lambda d: d._argmax(),
        lambda d: np.max(d),
        lambda d: d._quantile(0.5),
        lambda d: d + 1,
        lambda d: np.sqrt(d),
        lambda d: np.clip(d, 0, 1),
        lambda d: d < 1,
        lambda d: operator.iadd(d, 1),
    ],
)
def test_what_needs_one_array_names_the_fields_of_records(compute):
    for d in (dv.View(RECORDS), dv.View(a=[1.0], b=[2])):
        with pytest.raises(TypeError, match=r"takes one array, not a record; choose a field: 'a',"):
            compute(d)


def test_a_row_of_records_is_a_tuple():
    a = RECORDS.copy()
    with pytest.raises(ValueError, match=r"fields a, b, c .*a row is written from a tuple"):
        dv.View(a)[0] = [1, 2, "x"]
    dv.View(a)[0] = 1, 2, "x"
    assert a[0].tolist() == (1, 2, "x")


@pytest.mark.parametrize("change", [operator.isub, operator.itruediv])
def test_a_result_that_integers_cannot_hold_is_told_with_what_to_write(change):
    a = np.arange(5)
    with pytest.raises(TypeError, match=r"data are int64, .* float64, .*d\._astype\('float64'\)"):
        change(dv.View(a), 0.5)
    assert a.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["a.xlsx", "a.avro", "a.csv.zst"])
def test_a_file_of_another_format_is_told_with_the_way_to_open_it(name):
    told = rf"end in \.npy, .*; got '{name}', whose data are a view by"
    with pytest.raises(ValueError, match=told):
        dv.open(name)
    with pytest.raises(ValueError, match=r"got 'a\.xyz'; format= says what it is"):
        dv.open("a.xyz")


def test_a_file_is_told_by_its_suffix_though_it_begins_as_another_format(tmp_path):
    path = tmp_path / "a.xlsx"
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    (tmp_path / "a.npz").rename(path)
    with pytest.raises(ValueError, match=r"a\.xlsx', whose data are a view by .*read_excel"):
        dv.open(path)
    with pytest.raises(ValueError, match=r"read_pickle.*trust"):
        dv.open("a.PKL")


def test_a_folder_of_tables_is_told_with_its_pattern(tmp_path):
    for name in ("a.CSV", "b.CSV"):
        (tmp_path / name).write_text("a\n1\n")
    for format in (None, "csv"):
        with pytest.raises(ValueError, match=r"; it holds a\.CSV, b\.CSV; dv\.open\('.*\*\.CSV'\)"):
            dv.open(tmp_path, format=format)
    assert dv.open(tmp_path / "*.CSV").a().tolist() == [1, 1]
    assert dv.open(tmp_path / "a.CSV", format="CSV").a().tolist() == [1]


def test_a_folder_of_other_things_is_told_with_what_it_holds(tmp_path):
    with pytest.raises(ValueError, match=r"got the folder '.*'; it is empty"):
        dv.open(tmp_path)
    for number in range(7):
        (tmp_path / f"{number}.xyz").write_text("")
    with pytest.raises(ValueError, match=r"; it holds 0\.xyz, 1\.xyz, .*4\.xyz, …$"):
        dv.open(tmp_path)
    for number in range(2):
        (tmp_path / f"part-{number}.npz").write_text("")
    with pytest.raises(ValueError, match="; layout='parts' opens them as one, whose rows follow"):
        dv.open(tmp_path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"usecols": ["a"]}, r"write dv\.open\(path\)\[\['a', 'b'\]\]: columns that"),
        ({"nrows": 5}, r"write dv\.open\(path\)\[:5\]"),
        ({"na_values": "?"}, r"write missing=\['', '\?'\]\."),
        ({"delimiter": ";"}, "write sep=';'"),
        ({"index_col": 0}, "write nothing: rows have their numbers"),
        ({"chunksize": 10}, r"write dv\.open\(path\)\._minibatches\(10\)"),
        ({"dtype": {"a": "f4"}}, "write types={'a': 'f4'}"),
        ({"parse_dates": ["a"]}, "write dates=True, or .*dates={'a': '%d.%m.%Y'}"),
        ({"skiprows": 2}, "write skip=2"),
        ({"on_bad_lines": "skip"}, "write nothing: a row that does not fit"),
    ],
)
def test_the_options_of_pandas_are_told_as_they_are_called_here(tmp_path, options, told):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    (name,) = options
    with pytest.raises(TypeError, match=rf"has no option '{name}'; {told}.*The options are: mode"):
        dv.open(path, **options)


def test_an_option_of_pandas_is_not_told_where_a_format_has_nothing_like_it(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(TypeError, match=r"no option 'delimiter'\. The options are"):
        dv.open(tmp_path / "a.npy", delimiter=";")


def test_what_is_open_already_is_no_path():
    with pytest.raises(TypeError, match=r"takes the path .*; got list; dv\.View\(…\) is a view"):
        dv.open([1, 2])


def test_a_field_is_not_asked_for_as_a_sample():
    with pytest.raises(TypeError, match=r"'x' in d\._fields\(\) asks for a field"):
        "x" in dv.View(x=[1], y=[2])  # noqa: B015
