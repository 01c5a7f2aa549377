"""What writes views block by block: files and folders of arrays, and files of tables."""

from dataview.formats.writers.arrays import WRITERS, Job, Writer
from dataview.formats.writers.tables import TABLE_WRITERS

__all__ = ["TABLE_WRITERS", "WRITERS", "Job", "Writer"]
