"""The verbs of views, as pages and help have to tell them."""

import re

import dataview as dv

NO_VERBS = {"_repr_html_", "_ipython_key_completions_", "_state"}


def verbs():
    """What the class has under one underscore and describes by a docstring."""
    names = {
        name
        for kind in dv.View.__mro__
        for name, value in vars(kind).items()
        if re.fullmatch(r"_[a-z]\w*", name) and value.__doc__
    }
    return names - NO_VERBS
