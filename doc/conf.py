"""Settings of the pages: `sphinx-build -W doc doc/_build/html`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import dataview

project = "dataview"
author = "dataview developers"
copyright = "2026, dataview developers"
version = release = dataview.__version__

extensions = ["sphinx.ext.autodoc", "sphinx_design", "sphinx_copybutton", "myst_nb"]
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"

# The tests execute the notebooks; a page shows the outputs that are stored in them.
nb_execution_mode = "off"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "dataview"
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": []}
html_show_sourcelink = False
html_copy_source = False
