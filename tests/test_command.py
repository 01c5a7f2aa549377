"""The command line: what commands print and write, in pipes, interrupted, in little memory."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import h5py
import numpy as np
import pytest

import dataview as dv
from children import printed, python
from dataview.command import main
from dataview.command.words import plain
from package import ROOT

PAGE = ROOT / "doc" / "command_line.rst"
TABLE = np.array([[0, 1, 10], [2, 3, 20], [4, 5, 30], [6, 7, 40.0]])
PEOPLE = "name,age,born\nAda,36,1815-12-10\nGrace,,1906-12-09\nAlan,41,1912-06-23\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a table, an array and a file of nested fields, in which commands run."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("people.csv").write_text(PEOPLE, encoding="utf-8")
    np.save("table.npy", TABLE)
    np.save("whole.npy", TABLE.astype(int))
    with h5py.File("lab.h5", "w") as file:
        file["lab/x"], file["lab/y"] = TABLE, TABLE[:, 0]
        file["image"] = np.zeros((4, 8, 8), "u1")
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command in this process: its exit status, its output, and its errors."""

    def command(line):
        try:
            status = main(shlex.split(line))
        except SystemExit as error:
            status = error.code
        output = capsys.readouterr()
        return status, output.out, output.err

    return command


@pytest.fixture
def output_of(run):
    """Run a command that must do well; give its output."""

    def command(line):
        status, output, errors = run(line)
        assert (status, errors) == (0, "")
        return output

    return command


# -------------------- the page --------------------


def commands_on_the_page():
    """Give the lines of the page that are typed, each with what is printed below it."""
    found = []
    for block in re.findall(r"code-block:: console\n\n((?:    .*\n|\n)+)", PAGE.read_text()):
        for part in re.split(r"^    \$ ", block, flags=re.M)[1:]:
            typed, _, shown = part.partition("\n")
            found.append((typed, "".join(line[4:] + "\n" for line in shown.rstrip().splitlines())))
    return found


def test_the_page_shows_what_is_printed(run):
    typed = commands_on_the_page()
    assert len(typed) > 12
    for line, shown in typed:
        program, *rest = line.split(" ", 1)
        if program == "cat":
            assert pathlib.Path(rest[0]).read_text(encoding="utf-8") == shown
        else:
            assert program == "dataview"
            _, output, errors = run(rest[0])
            assert output + errors == shown, line


def test_the_page_and_the_help_have_every_command(output_of):
    listed = set(re.findall(r"^``(\w+)``  ", PAGE.read_text(), re.M))
    assert listed == set(re.findall(r"^    (\w+)\s", output_of(""), re.M))
    for name in listed:
        assert name in output_of(f"{name} --help")


# -------------------- what is printed --------------------


def test_json_is_for_programs(output_of):
    found = json.loads(output_of("show lab.h5 --json"))
    assert found["fields"]["lab"]["fields"]["x"] | {"fields": None} == {
        "length": 4, "shape": [4, 3], "dtype": "float64", "nbytes": 96, "fields": None,
    }  # fmt: skip
    rows = [
        json.loads(line) for line in output_of("head lab.h5 --fields lab.x --json").splitlines()
    ]
    assert rows == [{"lab.x": row} for row in TABLE.tolist()]
    assert [json.loads(row) for row in output_of("head table.npy --json").splitlines()] == (
        TABLE.tolist()
    )
    assert json.loads(output_of("describe people.csv --json"))["age"]["mean"] == 38.5
    assert json.loads(output_of("plan table.npy --of center --json"))["formula"]
    assert json.loads(output_of("cache --json")).keys() >= {"bytes", "files", "folder", "limit"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.nan, None), (np.array([1.0, np.inf]), [1.0, None]), (np.datetime64("NaT"), None),
        (np.array(["2001-02-03"], "M8[D]"), ["2001-02-03"]), (b"a\xff", "a\\xff"), (1j, "1j"),
        (np.array((1, 2.5), "i4,f8")[()], {"f0": 1, "f1": 2.5}), (pathlib.Path("a"), "a"),
        (np.array([[1], [2]]), [[1], [2]]), (True, True), ({"x": np.int8(1)}, {"x": 1}),
    ],
)  # fmt: skip
def test_every_value_has_a_form_in_json(value, expected):
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_head_reads_only_what_it_prints(output_of):
    np.save("long.npy", np.arange(10_000))
    lines = output_of("head long.npy -n 200").splitlines()
    assert lines[0].strip() == "(data)"
    assert [int(line) for line in lines[1:]] == list(range(200))
    assert len(output_of("head table.npy").splitlines()) == 1 + len(TABLE)
    assert output_of("head table.npy -n 0") == ""
    pathlib.Path("empty.csv").write_text("name,age\n")
    assert output_of("head empty.csv") == "name  age\n"
    assert output_of("head empty.csv --json") == ""


def test_columns_called_like_masks_are_shown_and_gaps_are_empty(output_of):
    text = "age,age_mask,size\n1,true,2\n,false,\n3,true,4\n"
    pathlib.Path("own.csv").write_text(text, encoding="utf-8")
    rows = [json.loads(line) for line in output_of("head own.csv --json").splitlines()]
    assert rows == [
        {"age": 1, "age_mask": True, "size": 2}, {"age": None, "age_mask": False, "size": None},
        {"age": 3, "age_mask": True, "size": 4},
    ]  # fmt: skip
    found = json.loads(output_of("describe own.csv --json"))
    assert [*found] == ["age", "age_mask", "size"]
    assert (found["age"]["mean"], found["age"]["missing"]) == (2, 1)


def test_bools_beside_a_field_are_its_gaps_in_rows_and_scores_are_none(output_of):
    own = dv.View(x=[1, 2], x_mask=[True, False], y=[3, 4], y_mask=[0.5, 0.25])
    own._save("own.npz")
    rows = [json.loads(line) for line in output_of("head own.npz --json").splitlines()]
    assert rows == [{"x": 1, "y": 3, "y_mask": 0.5}, {"x": None, "y": 4, "y_mask": 0.25}]
    found = json.loads(output_of("describe own.npz --json"))
    assert [*found] == ["x", "x_mask", "y", "y_mask"]  # as _describe()
    assert found["x"]["missing"] == 1 and "missing" not in found["y"]


def test_a_text_from_a_file_moves_no_cursor(output_of):
    pathlib.Path("evil.csv").write_text('name\n"a\x1b[2Jb"\n"two\nlines"\n', encoding="utf-8")
    lines = output_of("head evil.csv").splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


# -------------------- what is written --------------------


@pytest.mark.parametrize("target", ["new.parquet", "new.h5", "new.npz", "new.csv"])
def test_a_table_is_converted(output_of, target):
    if target == "new.npz":
        output_of("convert lab.h5 new.npz")
        assert dv.open("new.npz") == dv.open("lab.h5")
        return
    output_of(f"convert people.csv {target} --fields name,age")
    with dv.open(target) as new:
        assert new.name().tolist() == ["Ada", "Grace", "Alan"]
        assert new.age[::2]().tolist() == [36, 41]
        assert new.age_mask().tolist() == [True, False, True]


@pytest.mark.parametrize(
    "target", ["new.csv", "new.CSV", "new.tsv", "new.x --to tsv", "x --to .CSV"]
)
def test_an_array_becomes_columns_of_a_table_by_any_name_of_the_format(output_of, target):
    output_of(f"convert whole.npy {target}")
    with dv.open(target.split()[0], format="csv") as new:
        assert new._fields() == ("c0", "c1", "c2")
        assert new.c2().tolist() == [10, 20, 30, 40]


def test_all_numbers_are_converted_however_deep_they_lie(output_of):
    output_of("convert lab.h5 new.h5 --dtype float32")
    with dv.open("new.h5") as new:
        assert {part._dtype() for part in (new.lab.x, new.lab.y, new.image)} == {np.dtype("f4")}
        np.testing.assert_array_equal(new.lab.x(), TABLE)
    rows = np.zeros(3, [("a", "i4"), ("s", "U3"), ("n", [("b", "i2", (2,))])])
    rows["s"], rows["n"]["b"] = "xyz", [[1, 2]]
    np.save("rows.npy", rows)
    output_of("convert rows.npy new.npy --dtype float64")
    expected = np.dtype([("a", "f8"), ("s", "U3"), ("n", [("b", "f8", (2,))])])
    assert np.load("new.npy").dtype == expected
    np.testing.assert_array_equal(np.load("new.npy"), rows.astype(expected))


def test_a_file_that_is_there_is_kept(run, output_of):
    before = pathlib.Path("table.npy").read_bytes()
    status, _, errors = run("convert whole.npy table.npy")
    assert status == 1
    assert errors == "dataview: error: table.npy is there already; --overwrite replaces it\n"
    assert run("convert table.npy ./table.npy --overwrite")[0] == 1
    assert pathlib.Path("table.npy").read_bytes() == before
    output_of("convert whole.npy table.npy --overwrite --dtype float32")
    assert np.load("table.npy").dtype == np.float32


def test_columns_are_centred_in_place(output_of):
    found = json.loads(output_of("center table.npy --columns 0,2 --json"))
    assert found["changed"][""]["mean"] == [3, 25]
    assert np.array_equal(np.load("table.npy"), TABLE - [3, 0, 25])


def test_fields_are_standardised_in_place(output_of):
    assert "standardised lab.x: 4 rows, 2 columns" in output_of(
        "standardize lab.h5 --fields lab.x --columns 1:"
    )
    with h5py.File("lab.h5") as file:
        x = file["lab/x"][:]
    assert np.array_equal(x[:, 0], TABLE[:, 0])
    rest = TABLE[:, 1:]
    np.testing.assert_allclose(x[:, 1:], (rest - rest.mean(axis=0)) / rest.std(axis=0))


def test_values_are_clipped_in_place(output_of):
    output_of("clip table.npy --low -1 --high 5.5")
    assert np.array_equal(np.load("table.npy"), TABLE.clip(-1, 5.5))
    output_of("clip whole.npy --low 3 --columns=-1:")
    assert np.array_equal(np.load("whole.npy")[:, 2], TABLE[:, 2].clip(3))


def test_missing_values_stay_and_equal_ones_become_zero(output_of):
    a = np.array([[1.0, 5.0], [np.nan, 5.0], [3.0, 5.0]])
    np.save("gaps.npy", a)
    output_of("standardize gaps.npy --durable power")
    assert np.array_equal(np.load("gaps.npy"), [[-1, 0], [np.nan, 0], [1, 0]], equal_nan=True)


STOPPED = """
import os
import dataview as dv
from dataview.write.journal import Journal

Journal.end = lambda journal: os._exit(9)
d = dv.open("long.npy", "r+")
d -= d._mean(axis=0)
"""


@pytest.mark.parametrize("action", ["recover", "discard"])
def test_a_change_that_was_stopped_is_told_and_ended(output_of, action):
    before = np.arange(12_000.0).reshape(-1, 3)
    np.save("long.npy", before)
    assert output_of("recover long.npy") == "no update of long.npy has stopped midway\n"
    assert python("-c", STOPPED).returncode == 9
    told = output_of("recover long.npy")
    assert re.search(r"an update of .*long.npy stopped at .*--action recover can undo it", told)
    (found,) = json.loads(output_of("recover long.npy --json"))
    assert found["way"] == "undo" and found["path"].endswith("long.npy")
    ended = {"recover": "was undone; the file is as before it", "discard": "stays as it is"}
    assert ended[action] in output_of(f"recover long.npy --action {action}")
    assert output_of("recover long.npy --json") == "[]\n"
    assert np.array_equal(np.load("long.npy"), before) == (action == "recover")


REFUSED = {
    "center whole.npy": "int64, which cannot hold a mean; `dataview convert --dtype float64`",
    "center lab.h5": "say which fields, such as --fields image,lab",
    "center lab.h5 --fields lab.y,nope": "no field 'nope'",
    "center infinite.npy": "the mean is infinite",
    "center table.npy --columns 9": "index 9 is out of bounds",
    "clip whole.npy --low 1.5": "the bound 1.5 is no integer",
    "clip whole.npy --low inf": "a bound is a finite number, or left out; got inf",
    "clip table.npy --high nan": "a bound is a finite number, or left out; got nan",
    "clip table.npy --low nan": "a bound is a finite number, or left out; got nan",
    "clip whole.npy --low 1e30": "the bound 1e+30 does not fit into int64",
    "center mixed.npy": "the mean is infinite",
    "convert table.npy - --to csv": "the new file needs a name",
    "convert halves.npy new.npy --dtype int8": "not whole, or do not fit into int8",
    "convert gaps.npy new.npy --dtype int8": "not whole, or do not fit into int8",
    "convert past.npy new.npy --dtype int64": "not whole, or do not fit into int64",
    "convert large.npy new.npy --dtype uint8": "not whole, or do not fit into uint8",
    "convert dates.npy new.npy --dtype float64": "datetime64[D], and --dtype converts numbers",
    "plan whole.npy --of center": "no floating point numbers, which alone center changes",
    "plan people.csv --of standardize": "no floating point numbers",
    "center table.npy --columns 2:1": "names no columns",
    "center - --format npy": "cannot be changed in place; name a file",
    "center people.csv": "cannot be changed in place; `dataview convert` makes a copy that can",
    "show what.xyz": "got 'what.xyz'; --format says what it is",
    "show table.npy --option sep=,": "no option 'sep'",
    "convert people.csv people.x": "or with --to as one of",
    "show numbered": "--option layout='parts' opens them as parts",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_done_writes_nothing(run, line):
    np.save("infinite.npy", np.array([1.0, np.inf]))
    np.save("gaps.npy", np.array([1.0, np.nan]))
    np.save("halves.npy", np.array([1.0, 1.5]))
    np.save("past.npy", np.array([1.0, 2.0**63]))
    np.save("large.npy", np.array([1, 256]))
    np.save("dates.npy", np.array(["2020-01-01"], "M8[D]"))
    np.save("mixed.npy", np.array([[1.0, np.inf], [2.0, 3.0]]))
    pathlib.Path("what.xyz").touch()
    pathlib.Path("numbered").mkdir()
    for number in range(2):
        np.save(f"numbered/p{number}.npy", TABLE)
    before = {path: path.read_bytes() for path in pathlib.Path().rglob("*.*")}
    status, output, errors = run(line)
    assert (status, output) == (1, "")
    assert errors.startswith("dataview: error: ")
    assert errors.count("\n") == 1
    assert REFUSED[line] in errors
    assert {path: path.read_bytes() for path in pathlib.Path().rglob("*.*")} == before


def test_an_error_says_which_fields_were_changed_before_it(run):
    with h5py.File("lab.h5", "r+") as file:
        file["bad"] = np.array([1.0, np.inf, 2.0, 3.0])
    status, output, errors = run("center lab.h5 --fields lab.y,bad")
    assert status == 1
    assert output == "centred lab.y: 4 rows\n"
    assert errors.startswith("dataview: error: bad: the mean is infinite")
    assert errors.endswith("; centred before it: lab.y\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("clip table.npy", "clip needs --low, --high or both"),
        ("head -", "say --format"),
        ("head people.csv -n -1", "a number of rows is from 0 on; got '-1'"),
        ("center table.npy --columns a", "columns are 0:3, which leaves out 3, or 0,2,5; got 'a'"),
        ("describe", "the following arguments are required: path"),
        ("show people.csv --fields ,", "names of fields have commas between them"),
        ("sho people.csv", "'sho' is no command; did you mean 'show'?"),
        ("people.csv", "'people.csv' is no command; write show people.csv"),
        ("help", "write --help"),
        ("frob people.csv", "the commands are show, head, describe"),
        ("head people.csv 3", "dataview head: error: there is no use for '3'; write -n 3"),
        ("head people.csv age", "--fields the names of fields"),
        ("demo one two", "dataview demo: error: there is no use for 'two'"),
        ("show people.csv --jsn", "there is no option --jsn; did you mean '--json'?"),
        ("head people.csv --na -", "no option --na; one of dv.open is written --option na=VALUE"),
        ("head people.csv --skip-rows 3", "--option skip_rows=VALUE"),
        ("show ''", "the path is empty"),
        ("show people.csv --option sep", "an option is NAME=VALUE"),
        ("show people.csv --option mode=r+", "an option is NAME=VALUE"),
        ("convert people.csv new.npz --dtype flot", "no dtype, as float32 and int16 are: 'flot'"),
    ],
)
def test_wrong_arguments(run, line, said):
    status, output, errors = run(line)
    assert (status, output) == (2, "")
    assert said in errors


def test_an_option_of_pandas_is_told_as_it_is_typed(run):
    status, _, errors = run("head people.csv --option na=-")
    assert status == 1
    assert """has no option 'na'; write --option "missing=['', '-']". The""" in errors
    status, output, _ = run("""head people.csv --option "missing=['', '-']" """)
    assert status == 0 and "age" in output


def test_where_an_error_comes_from_is_shown_on_request():
    for typed in (["--traceback", "show", "nothing.npy"], ["show", "nothing.npy", "--traceback"]):
        with pytest.raises(FileNotFoundError):
            main(typed)


def test_options_of_opening_are_typed(output_of):
    pathlib.Path("semi.csv").write_text("a;b\n1;2\n3;4\n", encoding="utf-8")
    assert output_of("head semi.csv --option sep=';'") == "a  b\n1  2\n3  4\n"
    typed = "head semi.csv --option sep=';' --option skip=1 --option header=False -n 1"
    assert output_of(typed) == "column_1  column_2\n       1         2\n"


def test_a_warning_is_one_line(run):
    dv.View(TABLE, first=0)._save("fields.npz")
    status, output, errors = run("convert fields.npz new.npy")
    assert (status, output) == (0, "wrote new.npy\n")
    assert errors.startswith("dataview: warning: an .npy file holds the array alone")
    assert errors.count("\n") == 1


def test_the_cache_is_listed_and_cleared(output_of, monkeypatch, tmp_path):
    monkeypatch.setenv("DATAVIEW_ROOT", str(tmp_path / "cache"))
    assert ": 0 files, 0 B" in output_of("cache")
    assert output_of("cache clear") == "removed: 0 B\n"
    assert json.loads(output_of("cache clear https://example.com/x --json")) == {"freed": 0}


# -------------------- in pipes, interrupted, in little memory --------------------


def test_data_come_through_a_pipe(output_of, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PEOPLE.encode())))
    assert output_of("head - --format csv -n 1 --fields name") == "name\nAda\n"


def test_a_closed_output_is_called_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", "table.npy"]) == 1
    assert capsys.readouterr().err == "dataview: error: the output is closed\n"


def test_an_empty_pipe_is_called_one(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert run("head - --format csv") == (1, "", "dataview: error: the pipe holds no rows\n")


def test_ctrl_c_just_after_a_file_was_opened_is_told_alone(run, monkeypatch):
    np.save("x.npy", np.zeros(3))

    def interrupted(*_, **__):
        open("x.npy")  # noqa: SIM115
        raise KeyboardInterrupt

    monkeypatch.setattr(dv, "open", interrupted)
    assert run("head x.npy") == (130, "", "dataview: interrupted\n")


def test_a_reader_of_the_output_may_leave_early():
    np.save("long.npy", np.zeros(200_000))
    command = f"{sys.executable} -m dataview head long.npy -n 200000"
    process = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert (process.returncode, process.stdout, process.stderr) == (1, "(data)\n", "")


INTERRUPTED = """
import signal, sys
from dataview.command import script
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
try:
    script(["center", "big.npy"])
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_ctrl_c_leaves_all_or_nothing():
    before = np.arange(4_000_000.0).reshape(-1, 4)
    after = before - before.mean(axis=0)
    statuses = set()
    for seconds in (0.001, 0.02, 0.05, 0.1, 0.2):
        np.save("big.npy", before)
        process = python("-c", INTERRUPTED, seconds, timeout=100)
        statuses.add(process.returncode)
        assert "Traceback" not in process.stderr
        expected = {0: after, 130: before}
        with dv.open("big.npy", mode="r+") as d:
            found = d()
        assert any(np.allclose(found, whole) for whole in expected.values())
        if process.returncode:
            assert process.returncode == 130
            assert process.stderr == "dataview: interrupted\n"
    assert 130 in statuses


CAPPED = """
import resource, sys
from dataview.command import main
resource.setrlimit(resource.RLIMIT_DATA, (320 << 20, 320 << 20))
sys.exit(main(sys.argv[1:]))
"""


def test_a_file_larger_than_memory_is_described_centred_and_converted():
    rows = np.lib.format.open_memmap("big.npy", "w+", "f4", (24_000_000, 4))  # 384 MB
    rows[:] = np.arange(4)
    rows.flush()
    del rows
    assert "≈" in printed("-c", CAPPED, "describe", "big.npy")
    assert "centred" in printed("-c", CAPPED, "center", "big.npy", "--columns", "1:3")
    assert printed("-c", CAPPED, "head", "big.npy", "-n", "1").split()[4:] == ["0", "0", "0", "3"]
    assert "wrote" in printed("-c", CAPPED, "convert", "big.npy", "big.h5", "--compression", "lzf")
    with dv.open("big.h5") as d:
        assert d[-1]().tolist() == [0, 0, 0, 3]
    os.remove("big.h5")
