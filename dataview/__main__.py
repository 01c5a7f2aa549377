"""The command line: `python -m dataview demo` shows the main job on data that it makes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import dataview
from dataview import demo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status.

    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    parser = argparse.ArgumentParser(
        prog="python -m dataview", description="Lazy symbolic views of data."
    )
    version = f"dataview {dataview.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    about = "make a table in a file, centre it in place, learn from it, write a page about it"
    shown = commands.add_parser("demo", help=about, description=f"The main job, small: {about}.")
    shown.add_argument(
        "folder", nargs="?", help="where the table and the page go (default: a temporary folder)"
    )
    chosen = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack signs that a view prints
    try:
        if chosen.command is None:
            parser.print_help()
        else:
            demo.run(chosen.folder)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
