"""The notebooks: each runs from top to bottom, and has the outputs that are stored in it.

After an intended change, write the stored files anew, and read the difference before you commit:
DATAVIEW_UPDATE_SNAPSHOTS=1 pytest tests/test_notebooks.py
"""

from __future__ import annotations

import os
import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOKS = pathlib.Path(__file__).parent.parent / "doc" / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
UPDATE = os.environ.get("DATAVIEW_UPDATE_SNAPSHOTS") == "1"


def executed(notebook, folder):
    """The notebook run in a folder, with what depends on the run taken out."""
    copy = nbformat.from_dict(notebook)
    client = nbclient.NotebookClient(
        copy,
        timeout=120,
        kernel_name="python3",
        coalesce_streams=True,  # what is printed comes in pieces, by the time that passes
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(cleanup_kc=True)
    copy.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    for cell in copy.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
    return copy


def compared(cell):
    """The outputs of a cell; of what was learned their kinds, as not all machines round alike."""
    outputs = cell.get("outputs")
    if "learned" not in cell.metadata.get("tags", ()):
        return outputs
    return [(output.output_type, sorted(output.data)) for output in outputs]


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_a_notebook_gives_the_outputs_that_it_shows(path, tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("DATAVIEW_ENGINE", "numpy")  # a plan names it
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    (tmp_path / "work").mkdir()
    found = executed(notebook, tmp_path / "work")
    if UPDATE:
        nbformat.write(found, path)
        notebook = nbformat.read(path, as_version=4)
    assert len(notebook.cells) == len(found.cells)
    for stored, cell in zip(notebook.cells, found.cells, strict=True):
        assert stored.source == cell.source
        assert compared(stored) == compared(cell), stored.source


def test_there_are_notebooks():
    assert PATHS
