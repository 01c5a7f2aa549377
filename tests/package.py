"""Where the package lies, and which verbs its users have."""

from __future__ import annotations

import pathlib
import re

import dataview as dv

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "dataview"

# Python's tools call the first two; the third holds the state of a view.
NO_VERBS = {"_repr_html_", "_ipython_key_completions_", "_state"}


def verbs():
    """Give the names of the class that begin with one underscore and have a docstring."""
    names = {
        name
        for kind in dv.View.__mro__
        for name, value in vars(kind).items()
        if re.fullmatch(r"_[a-z]\w*", name) and value.__doc__
    }
    return names - NO_VERBS
