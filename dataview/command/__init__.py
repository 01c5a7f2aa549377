r"""The command line: `python -m dataview`, or the script `dataview`.

>>> import pathlib, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name) / "people.csv"
>>> _ = path.write_text("name,age\nAda,36\nGrace,85\n")
>>> main(["head", str(path)])
name   age
Ada     36
Grace   85
0
>>> folder.cleanup()
"""

from dataview.command.running import main, script

__all__ = ["main", "script"]
