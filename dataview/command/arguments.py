"""The commands and their options."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dataview
from dataview.command import changes, reports
from dataview.write import ACTIONS

_FIELDS = "names of fields, with commas between them; a.b is field b of field a"
_PLACE = "a file, a folder or a URL; - is what comes from a pipe, with --format"


def parser_of(program: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return what reads the arguments, in all and by command; each has a function `run`."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Look at data in files, convert them, and change them in place.",
        epilog="The exit status is 0, 1 after a failure, 2 after wrong arguments.",
    )
    version = f"dataview {dataview.__version__}"
    parser.add_argument("--version", action="version", version=version)
    _add_traceback(parser, False)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    for name, (run, about, add) in _COMMANDS.items():
        one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.set_defaults(run=run)
        _add_traceback(one, argparse.SUPPRESS)  # keeps what stands before the command
        add(one)
    return parser, commands.choices


def _add_traceback(parser: argparse.ArgumentParser, default: Any) -> None:
    text = "show where an error comes from"
    parser.add_argument("--traceback", action="store_true", default=default, help=text)


def _add_source(parser: argparse.ArgumentParser, place: str = _PLACE) -> None:
    parser.add_argument("path", type=_path, help=place)
    parser.add_argument("--format", help="the format, where the name does not say it")
    parser.add_argument(
        "--option", action="append", type=_option, default=[],
        metavar="NAME=VALUE", help="an option of dv.open, such as sep=';'; several options in turn",
    )  # fmt: skip


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fields", type=_names, metavar="NAMES", help=_FIELDS)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_source(parser)
    _add_fields(parser)
    _add_json(parser)


def _add_head(parser: argparse.ArgumentParser) -> None:
    _add_report(parser)
    parser.add_argument(
        "-n", "--rows", type=_count, default=10, help="how many rows (default: %(default)s)"
    )


def _add_describe(parser: argparse.ArgumentParser) -> None:
    _add_report(parser)
    parser.add_argument("--columns", action="store_true", help="each column by itself")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_report(parser)
    parser.add_argument(
        "--of", choices=sorted(reports.PLANS), default="reading",
        help="of what (default: %(default)s)",
    )  # fmt: skip


def _add_convert(parser: argparse.ArgumentParser) -> None:
    _add_source(parser)
    parser.add_argument("target", help="the new file; its name says in which format")
    parser.add_argument("--to", help="the format of the new file, where its name does not say it")
    _add_fields(parser)
    parser.add_argument("--dtype", type=_dtype, help="the dtype of all numbers, such as float64")
    parser.add_argument("--compression", help="such as gzip")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    _add_json(parser)


def _add_change(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    _add_durable(parser)


def _add_clip(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("--low", type=float, help="the smallest value")
    parser.add_argument("--high", type=float, help="the greatest value")
    _add_durable(parser)


def _add_target(parser: argparse.ArgumentParser) -> None:
    _add_source(parser, "a file or a folder that can be written")
    _add_fields(parser)
    parser.add_argument(
        "--columns", type=_columns, help="columns of an array: 0:3 (without 3), or 0,2,5"
    )


def _add_durable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--durable", choices=sorted(changes.DURABLE), default="process",
        help="what the change survives whole: that the process is killed, a loss of power, or "
        "nothing, which writes less (default: %(default)s)",
    )  # fmt: skip
    _add_json(parser)


def _add_recover(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=_path, help="a file or a folder that was being changed")
    parser.add_argument("--format", help="the format, where the name does not say it")
    parser.add_argument(
        "--action", choices=ACTIONS, default="tell",
        help="recover finishes or undoes the update, as opening the file does; force does so even "
        "if the file was written since; discard leaves the file as it is (default: %(default)s)",
    )  # fmt: skip
    _add_json(parser)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=["info", "clear"], default="info")
    parser.add_argument("url", nargs="?", help="whose copy is removed (default: all)")
    _add_json(parser)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", help="where the table and the page go (default: a temporary folder)"
    )


_COMMANDS: Mapping[str, tuple[Callable[[Any], Any], str, Callable[[Any], None]]] = {
    "show": (reports.show, "show fields, shapes and dtypes; no data are read", _add_report),
    "head": (reports.head, "print the first rows", _add_head),
    "describe": (
        reports.describe, "print statistics of each field, in one pass", _add_describe,
    ),
    "plan": (
        reports.plan, "print what would be read and computed; no data are read", _add_plan,
    ),
    "convert": (changes.convert, "save data in another format", _add_convert),
    "center": (changes.center, "subtract the mean of each column, in place", _add_change),
    "standardize": (
        changes.standardize, "subtract means, divide by deviations, in place", _add_change,
    ),
    "clip": (changes.clip, "set what lies outside of bounds to these, in place", _add_clip),
    "recover": (changes.recover, "say or do what is left of a stopped update", _add_recover),
    "cache": (reports.cache, "list or remove the copies of remote files", _add_cache),
    "demo": (reports.show_demo, "make a table, centre it in place, learn from it", _add_demo),
}  # fmt: skip
"""The commands: the function that runs one, what it does, and what adds its arguments."""


def missing_option(chosen: argparse.Namespace) -> str:
    """Return which option a command lacks, "" if it has all."""
    if chosen.command == "clip" and chosen.low is None and chosen.high is None:
        return "clip needs --low, --high or both"
    if getattr(chosen, "path", "") == "-" and chosen.format is None:
        return "what comes from a pipe has no name: say --format, such as --format csv"
    return ""


# --- values of options -------------------------------------------------------------------------


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return text


def _option(text: str) -> tuple[str, Any]:
    """Return the name and the value of an option: a number, a list and so on, or else a text.

    >>> _option("skip=2"), _option("sep=;")
    (('skip', 2), ('sep', ';'))
    """
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier() or name in ("format", "mode"):
        raise argparse.ArgumentTypeError(f"an option is NAME=VALUE, as sep=';'; got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _dtype(text: str) -> np.dtype[Any]:
    try:
        return np.dtype(text)
    except TypeError:
        raise argparse.ArgumentTypeError(f"no dtype, as float32 and int16 are: {text!r}") from None


def _names(text: str) -> list[str]:
    found = [name for name in text.split(",") if name]
    if not found:
        raise argparse.ArgumentTypeError("names of fields have commas between them; got none")
    return found


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number of rows is from 0 on; got {text!r}")
    return int(text)


def _columns(text: str) -> slice | list[int]:
    """Return the key that a text stands for.

    >>> _columns("0:3"), _columns("0,2")
    (slice(0, 3, None), [0, 2])
    """
    try:
        if ":" in text:
            return slice(*(int(part) if part else None for part in text.split(":")))
        return [int(part) for part in text.split(",")]
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(
            f"columns are 0:3, which leaves out 3, or 0,2,5; got {text!r}"
        ) from None
