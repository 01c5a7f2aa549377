"""The command line, as `python -m dataview`."""

from dataview.command import script

if __name__ == "__main__":
    script(program="python -m dataview")
