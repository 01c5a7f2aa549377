"""What the tab key offers, in IPython and so in notebooks: fields, then verbs; reading nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import IPython.core.completer
import IPython.core.interactiveshell
import numpy as np
import pytest

import dataview as dv
from dataview.plan import build
from dataview.sources import Source
from package import ROOT, verbs

PAGE = (ROOT / "doc" / "ecosystem.rst").read_text(encoding="utf-8")


class Unreadable(Source):
    shape, dtype = (5, 3), np.dtype("f8")

    def read(self, index, memo):
        raise AssertionError("completion has read")


@pytest.fixture(scope="module")
def shell():
    return IPython.core.interactiveshell.InteractiveShell()


def offered(shell, text, jedi):
    """What is offered behind a text, without the dots that one of IPython's ways puts there."""
    x = dv.View(build.stored(Unreadable()))
    box = dv.View({"x": x, "two words": x, "_id": x})
    d = dv.View(image=x, box=box, mean=x, made=dv.View(dv.View, _length=3))
    d.double = d.mean * 2
    shell.user_ns.update(d=d, mask=x == 3, x=x)
    shell.Completer.use_jedi = jedi
    with IPython.core.completer.provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return [one.text.rpartition(".")[2] for one in found]


@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("d.", {"image", "box", "mean", "made", "double"}),
        ("d.im", {"image"}),
        ("d.box.", {"x"}),
        ('d["', {"image", "box", "mean", "made", "double"}),
        ('d.box["', {"x", "two words", "_id"}),
        ('d["ma', {"made"}),
    ],
)
def test_fields_are_offered(shell, text, wanted, jedi):
    assert set(offered(shell, text, jedi)) == wanted


@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize("text", ["d._", "d.box._", "d.double._", "d.image._"])
def test_verbs_are_offered_behind_an_underscore(shell, text, jedi):
    found = offered(shell, text, jedi)
    assert verbs() <= set(found)
    assert not {"image", "x"} & set(found)


@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize(
    "text", ["d[mask].", "x[mask].", "(d.mean + 1).", "d[1:].", "d.mean._mean()."]
)
def test_nothing_is_evaluated_to_complete_a_part(shell, text, jedi):
    offered(shell, text, jedi)  # the source raises if it is read


def test_dir_has_fields_then_verbs():
    d = dv.View({"z": [1], "a": [2], "two words": [3], "_id": [4]})
    names = d.__dir__()
    assert names[:2] == ["z", "a"]
    assert names[2:] == sorted(names[2:]) and sorted(names) == dir(d)
    assert verbs() <= set(names)
    assert not {"two words", "_id", "shape", "dtype", "_state"} & set(names)


def test_dir_of_the_package_and_its_modules_has_what_users_need():
    assert dir(dv) == sorted([*dv.__all__, "__version__"])
    here = {name.replace("-", "_") for name in dv.samplers.CATALOGUE}
    assert set(dir(dv.samplers)) == here | {"Sampler"}
    assert all(name in dv.samplers.__all__ for name in dir(dv.samplers))


def test_the_settings_of_linters_name_every_verb():
    (block,) = re.findall(r"ignore-names = \[\n(.*?)\n +\]", PAGE, re.S)
    assert sorted(re.findall(r'"(\w+)"', block)) == sorted(verbs())


@pytest.mark.clients
def test_ruff_accepts_verbs_with_these_settings(tmp_path):
    (text,) = re.findall(r"^    (\[lint\.flake8-self\]\n.*?\n    \])", PAGE, re.M | re.S)
    (tmp_path / "ruff.toml").write_text(text.replace("\n    ", "\n"), encoding="utf-8")
    code = "import dataview as dv\n\nd = dv.View(x=[1])\nd._mean()\nd.x._sorted()._head(3)\n"
    (tmp_path / "own.py").write_text(code, encoding="utf-8")
    for extra, count in ([], 0), (["--isolated"], 3):
        command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "SLF"]
        done = subprocess.run([*command, *extra, "own.py"], cwd=tmp_path, capture_output=True)
        assert done.stdout.count(b"SLF001 ") == count, done.stdout
