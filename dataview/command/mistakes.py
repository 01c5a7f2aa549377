"""Mistakes in what is typed, and messages of the package in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dataview.errors import VERY_NEAR, hint

_COMMANDS = {"help": "--help", "version": "--version", "info": "show", "ls": "show", "cat": "head"}
"""What other programs call a command."""

_TYPED = (
    (r"[;,] open(?: it)? with mode 'r'.*", "; `dataview convert` makes a copy that can, as .h5"),
    (r"dv\.open can (\w+) it", r"--action recover can \1 it"),
    (r"dv\.recover\(path, '(\w+)'\)", r"`dataview recover --action \1`"),
    (r"or with format= as one of", "or with --to as one of"),
    (r"(?<![(,] )(?<![(\w])format=\s?", "--format "),
    (r"(?<![(,] )(?<![(\w-])([a-z_]+=)(?=['{])", r"--option \1"),
    (r"(?<![(,] )(?<![(\w-])([a-z_]+=\[[^]]*\])", r'--option "\1"'),
)
"""What messages say of Python, and what is typed instead."""


def as_typed(text: str) -> str:
    """Return a message with its options as they are typed in a terminal.

    >>> as_typed("write sep=';'"), as_typed("got 'x'; format= says what it is")
    ("write --option sep=';'", "got 'x'; --format says what it is")
    """
    for pattern, typed in _TYPED:
        text = re.sub(pattern, typed, text)
    return text


def wrong_command(given: Sequence[str], commands: Sequence[str]) -> str:
    """Return what is wrong with the command that is typed first, "" if there is one or none.

    >>> wrong_command(["a.npy"], ["show"]), wrong_command(["shwo", "a.npy"], ["show"])
    ("'a.npy' is no command; write show a.npy", "'shwo' is no command; did you mean 'show'?")
    """
    name = next((word for word in given if not word.startswith("-")), None)
    if name is None or name in commands:
        return ""
    if name in _COMMANDS:
        advice = f"; write {_COMMANDS[name]}"
    elif set(name) & set("./\\*"):
        advice = f"; write show {name}"
    else:
        advice = hint(name, commands) or f"; the commands are {', '.join(commands)}"
    return f"{name!r} is no command{advice}"


def surplus(words: Sequence[str], usage: str) -> str:
    """Return what to say of words for which a command of this usage has no use.

    >>> surplus(["--jsn"], "show [--json] path"), surplus(["3"], "head [-n ROWS] path")
    ("there is no option --jsn; did you mean '--json'?", "there is no use for '3'; write -n 3")
    >>> surplus(["--na"], "show [--option NAME=VALUE] [--json] path")
    'there is no option --na; one of dv.open is written --option na=VALUE'
    """
    first = words[0].partition("=")[0]
    if first.startswith("-"):
        close = hint(first, re.findall("--[a-z]+", usage), VERY_NEAR)
        named = f"--option {first.lstrip('-').replace('-', '_')}=VALUE"
        others = f"; one of dv.open is written {named}" if "[--option " in usage else ""
        return f"there is no option {first}{close or others}"
    advice = ""
    if "[-n " in usage and first.isdecimal():
        advice = f"; write -n {first}"
    elif "[--fields " in usage:
        advice = "; a command takes one path, and --fields the names of fields"
    return f"there is no use for {first!r}{advice}"
