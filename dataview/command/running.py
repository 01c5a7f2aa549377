"""Runs a command: what it prints, its exit status, and how it fails."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import NoReturn

from dataview.command.arguments import missing_option, parser_of
from dataview.command.mistakes import as_typed, surplus, wrong_command

FAILED, INTERRUPTED = 1, 130
"""The exit status of a command that failed, and of one that Ctrl-C stopped; argparse has 2."""


def main(arguments: Sequence[str] | None = None, program: str = "dataview") -> int:
    """Run the command that the arguments name; return the exit status.

    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    try:
        return _status(arguments, program)
    except KeyboardInterrupt as error:
        _tell(program, "interrupted", error)
        return INTERRUPTED


def script(arguments: Sequence[str] | None = None, program: str = "dataview") -> NoReturn:
    """Run a command as a program of its own, which ends with it."""
    status = main(arguments, program)
    if status == INTERRUPTED:  # a thread that was being started may never be told to end
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _status(arguments: Sequence[str] | None, program: str) -> int:
    """Read the arguments and run what they name; return the exit status."""
    parser, commands = parser_of(program)
    wrong = wrong_command(sys.argv[1:] if arguments is None else arguments, [*commands])
    if wrong:
        parser.error(wrong)
    chosen, rest = parser.parse_known_args(arguments)
    parser = commands.get(chosen.command, parser)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack signs that a view prints
    if wrong := surplus(rest, parser.format_usage()) if rest else missing_option(chosen):
        parser.error(wrong)
    if chosen.command is None:
        parser.print_help()
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # Ctrl-C between the opening of a file and its `with` leaves it to Python, which closes it.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = lambda message, *_, **__: _tell(program, "warning", message)
        return _done(chosen, program)


def _done(chosen: argparse.Namespace, program: str) -> int:
    """Run a command; return its exit status."""
    if sys.stdout is None:
        _tell(program, "error", "the output is closed")
        return FAILED
    try:
        _print(chosen.run(chosen))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _close_output()
        return FAILED
    except KeyboardInterrupt:
        raise  # also one that is a RuntimeError, of a write that was stopped
    except Exception as error:
        if chosen.traceback:
            raise
        _tell(program, "error", error)
        return FAILED
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _close_output() -> None:
    """Have what is left of the output go nowhere, so that Python does not fail when it ends."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # the output is no file of the system's
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _tell(program: str, what: str, about: object) -> None:
    """Print an error or a warning on one line."""
    text = str(about)
    if isinstance(about, OSError) and about.strerror and about.filename is not None:
        text = f"{_near(about.filename)}: {about.strerror}"
    elif isinstance(about, KeyError) and type(about) is KeyError:
        text = f"not found: {text}"
    said = as_typed(" ".join(text.split()))
    if not said and isinstance(about, Exception):  # such as MemoryError
        said = type(about).__name__
    print(": ".join(filter(None, (program, what, said))), file=sys.stderr)


def _near(path: object) -> str:
    """Return a path from the current folder, if it is in it."""
    here = os.path.join(os.getcwd(), "")
    return str(path).removeprefix(here)
