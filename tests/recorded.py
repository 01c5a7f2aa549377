"""Compare texts and pages with the files in a folder of `tests/snapshots`."""

import os
import pathlib

SNAPSHOTS = pathlib.Path(__file__).parent / "snapshots"
UPDATE = os.environ.get("DATAVIEW_UPDATE_SNAPSHOTS") == "1"


def cases_of(folder):
    """Give the names of the cases in a folder, whatever their files are called behind the dot."""
    return sorted({path.stem for path in (SNAPSHOTS / folder).iterdir()})


def check_files(folder, texts):
    """Assert that a folder has files of these names and no others; write them if that is asked."""
    there = SNAPSHOTS / folder
    if UPDATE:
        there.mkdir(parents=True, exist_ok=True)
        for path in there.iterdir():
            path.unlink()
        for name, text in texts.items():
            (there / name).write_text(text, encoding="utf-8")
    assert sorted(path.name for path in there.iterdir()) == sorted(texts)


def check_text(folder, name, text):
    """Assert that a file of a folder holds this text."""
    assert text == (SNAPSHOTS / folder / name).read_text(encoding="utf-8")
