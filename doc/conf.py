"""Settings of the pages: `sphinx-build -W doc doc/_build/html`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import dataview

project = "dataview"
author = "dataview developers"
copyright = "2026, dataview developers"
version = release = dataview.__version__

extensions = ["sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"

html_theme = "alabaster"
html_theme_options = {
    "description": "Lazy symbolic views of data",
    "fixed_sidebar": True,
    "page_width": "1060px",
    "sidebar_width": "210px",
    "body_max_width": "800px",
}
html_sidebars = {"**": ["about.html", "localtoc.html", "navigation.html", "searchbox.html"]}
html_show_sourcelink = False
html_copy_source = False
