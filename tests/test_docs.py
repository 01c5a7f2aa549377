"""The pages describe every verb, option and function of the package, and its commands.

The examples on the pages are run by doctest.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re

import pytest

import dataview as dv
from benchmarks import plots
from package import PACKAGE, ROOT, verbs

GRAMMAR = (ROOT / "doc" / "grammar.rst").read_text(encoding="utf-8")
REFERENCE = (ROOT / "doc" / "reference.rst").read_text(encoding="utf-8")
LOADING = (ROOT / "doc" / "loading.rst").read_text(encoding="utf-8")
README = (ROOT / "README.rst").read_text(encoding="utf-8")

COMMANDS = [
    'python3 -m venv .venv && .venv/bin/pip install ".[demo]" && .venv/bin/python -m dataview demo',
    'python3 -m venv .venv && .venv/bin/pip install ".[test]" && .venv/bin/pytest',
]


def section(page, title):
    """The lines under a heading, to the next one."""
    return re.search(rf"^{title}\n-+\n(.*?)(?=^[^\n]+\n-+\n|\Z)", page, re.M | re.S)[1].splitlines()


def first_cells(lines):
    """The words in the first cells of the tables in these lines."""
    cells = re.compile(r"^``(.+?)``(?:  |$)")
    return " ".join(found[1] for line in lines if (found := cells.match(line)))


def described_verbs():
    """The verbs in the tables, each with its arguments as they are written there."""
    words = first_cells(section(GRAMMAR, "Verbs"))
    return dict(re.findall(r"(?<![\w.])(_[a-z]\w*)(?:\(([^()]*)\))?", words))


def test_the_grammar_has_the_verbs_of_the_class():
    assert set(described_verbs()) == verbs()


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_verb_is_described_with_its_arguments(verb):
    value = getattr(dv.View, verb)
    if isinstance(value, property):
        return
    parameters = inspect.signature(value).parameters
    written = described_verbs()[verb]
    free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in re.findall(r"\*{0,2}(\w+)=?[^,]*", written):
        assert name in parameters or free
    if not free:
        required = [
            name
            for name, parameter in list(parameters.items())[1:]
            if parameter.default is parameter.empty
        ]
        assert [name for name in required if re.search(rf"\b{name}\b(?!=)", written)] == required


@pytest.mark.parametrize("page", sorted((ROOT / "doc").glob("*.rst")), ids=lambda page: page.stem)
def test_no_first_cell_of_a_table_goes_on_in_another_row(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^``[^`]*,``  .*", text, re.M)
    assert not re.findall(r"^[^\s(](?:(?!  )[^\n(])*,  +\S.*", text, re.M)


def test_the_grammar_has_the_options_of_the_class():
    options = {
        name
        for name, parameter in inspect.signature(dv.View).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    cells = first_cells(section(GRAMMAR, "Making"))
    assert set(re.findall(r"(?<!\w)(_[a-z]+)=", cells)) == options


def test_the_grammar_has_the_functions_of_the_package():
    functions = {name for name in dv.__all__ if inspect.isfunction(getattr(dv, name))}
    assert functions == set(re.findall(r"``[^`]*\bdv\.([a-z]\w*)\(", GRAMMAR))


def lines_of_the_reference():
    """The names that have a line on the page, with the arguments written there."""
    told = re.findall(r"^- ``(?:dv\.)?(\w+)((?:\(.*?\))?)``: [a-z*`]", REFERENCE, re.M | re.S)
    assert len(told) == len(dict(told)) == REFERENCE.count("\n- ")
    return {name: " ".join(arguments.split()) for name, arguments in told}


def test_the_reference_has_a_line_for_all_that_a_user_has_and_for_nothing_else():
    assert lines_of_the_reference().keys() == verbs() | set(dv.__all__)


@pytest.mark.parametrize("name", sorted(lines_of_the_reference()))
def test_a_line_of_the_reference_has_the_arguments(name):
    written = lines_of_the_reference()[name]
    value = getattr(dv.View, name) if name in verbs() else getattr(dv, name)
    if not inspect.isfunction(value):
        assert not written
        return
    signature = inspect.signature(value)
    given = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in
             signature.parameters.values() if parameter.name != "self"]  # fmt: skip
    true = str(inspect.Signature(given)).replace("<class 'float'>", "float").replace("'", '"')
    if written.endswith(", ...)"):
        assert true.startswith(written.removesuffix("...)"))
    else:
        assert true == written


def test_the_page_on_loading_speaks_of_every_option():
    options = inspect.signature(dv.View._loader).parameters.keys() - {"self"}
    assert options == {name for name in options if re.search(rf"\b{name}=", LOADING)}


def test_each_plot_is_drawn_from_the_table_above_it():
    page = plots.PAGE.read_text(encoding="utf-8")
    drawn = {path: plots.plot(table) for path, table in plots.tables(page)}
    stored = {
        f"_static/{file.name}": file.read_text(encoding="utf-8")
        for file in (plots.DOC / "_static").glob("performance-*.svg")
    }
    assert stored == drawn, "after a change of a table: python tests/benchmarks/plots.py"
    assert len(drawn) >= 5


def test_the_readme_has_its_two_commands():
    assert re.findall(r"^    (python3 .+)$", README, re.M) == COMMANDS


OF_LIBRARIES = {"_plot", "_to_dask", "_to_pandas", "_to_torch", "_to_xarray"}
"""Verbs that need a library which the tests do not install; those marked clients call them."""


def test_every_verb_is_in_an_example_that_is_run():
    pages = [*PACKAGE.rglob("*.py"), *(ROOT / "doc").glob("*.rst"), ROOT / "README.rst"]
    typed = re.compile(r"^ *(?:>>>|\.\.\.) .*", re.M)
    examples = [line for page in pages for line in typed.findall(page.read_text(encoding="utf-8"))]
    found = set(re.findall(r"\.(_[a-z]\w*)\b", "\n".join(examples)))
    assert verbs() - found == OF_LIBRARIES


def test_the_examples_of_every_docstring_are_run():
    parse, find = doctest.DocTestParser().get_examples, doctest.DocTestFinder().find
    written, run = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(place).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                written |= {each.source for each in parse(ast.get_docstring(node) or "")}
        if path.stem != "__main__":
            tests = find(importlib.import_module(name), name)
            run |= {each.source for test in tests for each in test.examples}
    assert len(written) > 400
    assert written <= run, sorted(written - run)
