"""What a user is told who asks: the names of verbs, their options, and nothing from inside."""

from __future__ import annotations

import ast
import inspect
import pathlib
import pickle
import pydoc
import re

import numpy as np
import pytest

import dataview as dv
from test_docs import verbs
from test_layers import PACKAGE


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


@pytest.mark.parametrize("thing", [dv.View, dv, whole()._loader, whole()._sum])
def test_help_shows_no_class_from_inside(thing):
    words = set(re.findall(r"\w+", shown(thing)))
    assert "View" in words
    assert len(classes_of_the_face()) > 3
    assert not words & classes_of_the_face()


def test_a_wrong_call_is_told_by_the_verb():
    with pytest.raises(TypeError, match=r"^View\._take\(\) missing 1 required"):
        whole()._take()
    assert repr(whole()._map).startswith("<bound method View._map of View of 6 rows")
