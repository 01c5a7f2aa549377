"""The layout of the package: which wing may import which, and how long files may be."""

import ast
import graphlib
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

import pytest

from children import printed
from package import PACKAGE, ROOT

PAGE = (ROOT / "doc" / "developing.rst").read_text(encoding="utf-8")

# Top to bottom: a wing imports only wings that stand below it.
WINGS = """
    __main__ command __init__ view show loader spaces batches samplers exchange formats
    cache tables samples write compute plan sources index errors
""".split()

# The rooms of these wings may be imported directly, of the others only the door, `__init__`.
COMMON = {"plan", "index", "errors"}

# These may be imported at the top of a file; numexpr and other libraries only in functions.
EAGER = {*sys.stdlib_module_names, "numpy"}

CODE_LINES_OF_A_FILE = 400
CODE_LINES_OF_A_FUNCTION = 60

IGNORED_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


# -------------------- reading a package --------------------


def modules(package: pathlib.Path) -> dict[str, ast.Module]:
    """The modules by their dotted names: 'dataview', 'dataview.view', 'dataview.sources.npy'."""
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def wing(name: str) -> str:
    """The wing of a module: 'dataview' is '__init__', 'dataview.sources.npy' is in 'sources'."""
    return [*name.split("."), "__init__"][1]


def imported(name: str, trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.stmt]]:
    """Each import of a module: the name of a module of the package or of another, and the place."""
    for node in ast.walk(trees[name]):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                is_package = any(other.startswith(f"{name}.") for other in trees)
                parts = name.split(".")
                parts = parts[: len(parts) + is_package - node.level]
                origin = ".".join([*parts, *filter(None, [origin])])
            targets = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            found = target
            while "." in found and found not in trees:  # a name in a module stands for the module
                found = found.rpartition(".")[0]
            yield found if found in trees else target.split(".")[0], node


def inside_functions(tree: ast.Module) -> set[ast.AST]:
    return {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, FUNCTIONS)
        for inner in ast.walk(outer)
        if inner is not outer
    }


def for_types_only(tree: ast.Module) -> set[ast.AST]:
    return {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and ast.unparse(outer.test).endswith("TYPE_CHECKING")
        for statement in outer.body
        for inner in ast.walk(statement)
    }


def code_lines(tree: ast.Module, text: str) -> set[int]:
    """The numbers of the lines that are not blank, not a comment, not in a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            lines.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return lines


# -------------------- the rules --------------------


def against_the_wings(package: pathlib.Path) -> list[str]:
    """The imports of a package that break the rules of wings, doors and rings, a line each."""
    trees = modules(package)
    place = {name: WINGS.index(wing(name)) for name in trees if wing(name) in WINGS}
    problems = [
        f"{name} is in no wing: give it a place in tests/test_layers.py"
        for name in trees
        if name not in place
    ]
    rooms: dict[str, set[str]] = {}
    for name, tree in trees.items():
        late = inside_functions(tree)
        unexecuted = late | for_types_only(tree)
        for target, node in imported(name, trees):
            where = f"{name}:{node.lineno} imports {target}"
            if target not in trees:
                if target not in EAGER and node not in unexecuted:
                    problems.append(f"{where} before it is used")
            elif node in late:
                problems.append(f"{where} inside a function")
            elif wing(name) == wing(target) and name.count("."):
                rooms.setdefault(name, set()).add(target)
            elif name in place and target in place and place[target] <= place[name]:
                problems.append(f"{where}, which does not stand below it")
            elif target.count(".") > 1 and wing(target) not in COMMON:
                problems.append(f"{where}, which is behind the door of its wing")
    try:
        graphlib.TopologicalSorter(rooms).prepare()
    except graphlib.CycleError as error:
        problems.append(f"a ring of imports: {' <- '.join(error.args[1])}")
    return problems


def past_the_budgets(package: pathlib.Path) -> list[str]:
    """The files and functions of a package that have grown too long, one line each."""
    problems = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines = code_lines(tree, text)
        if len(lines) > CODE_LINES_OF_A_FILE:
            problems.append(f"{path.name}: {len(lines)} lines of code")
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                own = lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                if len(own) > CODE_LINES_OF_A_FUNCTION:
                    problems.append(f"{path.name}:{node.lineno} {node.name}: {len(own)} lines")
    return problems


# -------------------- the package --------------------


def test_imports_point_downwards_and_go_through_doors() -> None:
    assert modules(PACKAGE)
    assert against_the_wings(PACKAGE) == []


def test_files_and_functions_are_short() -> None:
    assert past_the_budgets(PACKAGE) == []


def test_import_loads_numpy_and_nothing_else() -> None:
    program = (
        "import sys, numpy, numpy.random; before = set(sys.modules); import dataview;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    assert set(printed("-W", "error", "-c", program).split()) - EAGER == {"dataview"}


def test_no_test_imports_another() -> None:
    trees = modules(ROOT / "tests")
    found = [f"{name} imports {target}" for name in trees for target, _ in imported(name, trees)]
    assert [line for line in found if re.search(r" imports (tests\.)?test_", line)] == []


# -------------------- the page about it --------------------


def test_the_drawing_has_the_wings_in_their_order() -> None:
    rows = re.findall(r"^ {5}([a-z_][a-z_/, ]*?)  +\S", PAGE, re.M)
    drawn = [name.strip("/") for row in rows for name in row.split(", ")]
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert drawn == [name for name in WINGS if name in there - {"__init__"}]


def test_each_room_has_a_line() -> None:
    told = {
        wing: set(re.findall(r"^- ``([a-z0-9_/]+)``: \S", lines, re.M))
        for wing, lines in re.findall(r"^``([a-z]+)/``\n\n((?:- .+\n)+)", PAGE, re.M)
    }
    wings = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    there = {
        wing.name: {
            room.relative_to(wing).with_suffix("").as_posix()
            for room in wing.rglob("*.py")
            if room.stem != "__init__"
        }
        for wing in wings
    }
    assert told == there


# -------------------- the rules themselves --------------------


def toy(folder: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    """A package of a few empty modules and of the files given."""
    empty = """
        __init__ errors view/__init__ view/view view/face compute/__init__ compute/kernel
        plan/__init__ plan/fields index/__init__ index/keys sources/__init__ sources/npy
    """.split()
    for name, text in (dict.fromkeys((f"{name}.py" for name in empty), "") | files).items():
        path = folder / "dataview" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "dataview"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("view/view.py", "import dataview.compute\nfrom dataview import compute, errors"),
        ("view/view.py", "from .. import index\nfrom ..plan.fields import Field"),
        ("view/view.py", "from dataview.view.face import Face\nfrom dataview.view import face"),
        ("view/view.py", "from dataview.compute import evaluate"),
        ("sources/npy.py", "from ..index.keys import parse\nfrom ..index import Index"),
        ("sources/__init__.py", "from . import npy\nfrom ..index import Index"),
        ("__init__.py", "from dataview.view import View\nfrom .errors import FieldError"),
        ("__main__.py", "import dataview as dv\nimport numpy.linalg, json"),
        ("compute/kernel.py", "def run():\n    import numexpr\n    return numexpr"),
        (
            "compute/kernel.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import h5py",
        ),
    ],
)
def test_a_package_that_keeps_the_rules(tmp_path: pathlib.Path, file: str, text: str) -> None:
    assert against_the_wings(toy(tmp_path, {file: text})) == []


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            "index/keys.py",
            "from dataview.plan.fields import a",
            "{keys} dataview.plan.fields, {below}",
        ),
        ("index/keys.py", "from ..view import View", "{keys} dataview.view, {below}"),
        ("index/keys.py", "from dataview import View", "{keys} dataview, {below}"),
        ("index/keys.py", "import dataview", "{keys} dataview, {below}"),
        ("index/keys.py", "import os, dataview.compute", "{keys} dataview.compute, {below}"),
        ("errors.py", "from . import index", "errors:1 imports dataview.index, {below}"),
        (
            "view/view.py",
            "from ..compute.kernel import a",
            "{view} dataview.compute.kernel, {door}",
        ),
        (
            "view/view.py",
            "from dataview.compute import kernel",
            "{view} dataview.compute.kernel, {door}",
        ),
        ("__init__.py", "from .view.face import Face", "1 imports dataview.view.face, {door}"),
        (
            "view/view.py",
            "def f():\n    from .. import index",
            "view.view:2 imports dataview.index {inside}",
        ),
        (
            "view/view.py",
            "class A:\n def f():\n  import dataview",
            "view.view:3 imports dataview {inside}",
        ),
        ("view/view.py", "import numexpr as ne", "{view} numexpr before it is used"),
        (
            "view/view.py",
            "if a:\n    from h5py import a",
            "view.view:2 imports h5py before it is used",
        ),
        ("utils.py", "", "utils is in no wing: give it a place in tests/test_layers.py"),
    ],
)
def test_a_package_that_breaks_the_rules(
    tmp_path: pathlib.Path, file: str, text: str, problem: str
) -> None:
    problem = problem.format(
        below="which does not stand below it",
        door="which is behind the door of its wing",
        inside="inside a function",
        keys="index.keys:1 imports",
        view="view.view:1 imports",
    )
    found = against_the_wings(toy(tmp_path, {file: text}))
    assert found == [f"dataview{':' if problem[0].isdigit() else '.'}{problem}"]


@pytest.mark.parametrize(
    "files",
    [
        {"view/view.py": "from . import face", "view/face.py": "from . import view"},
        {"view/__init__.py": "from .view import a", "view/view.py": "from dataview.view import a"},
    ],
)
def test_rooms_in_a_ring(tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    (problem,) = against_the_wings(toy(tmp_path, files))
    assert problem.startswith("a ring of imports: dataview.view")


def test_what_a_line_of_code_is() -> None:
    text = '"""Doc.\n\nMore."""\n\n# why\nx = """\none\n\ntwo"""\ndef f():\n    "Doc."\n    y = 1\n'
    assert code_lines(ast.parse(text), text) == {6, 7, 8, 9, 10, 12}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n" * 400, []),
        ("x = 1\n\n# why\n" * 401, ["view.py: 401 lines of code"]),
        ("def f():\n" + "    x = 1\n" * 59, []),
        ("\ndef f():\n    '''Doc.'''\n" + "    x = 1\n" * 60, ["view.py:2 f: 61 lines"]),
    ],
)
def test_a_package_against_the_budgets(
    tmp_path: pathlib.Path, text: str, expected: list[str]
) -> None:
    (tmp_path / "view.py").write_text(text)
    assert past_the_budgets(tmp_path) == expected
