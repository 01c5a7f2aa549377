"""Writing data: which places a write changes, what it overlaps, how it is undone; in place too."""

from dataview.write.assignment import write
from dataview.write.at_once import ITSELF, apply_to_rows, put_where
from dataview.write.changes import check_writable, places_written
from dataview.write.growth import GrowthGuard
from dataview.write.inplace import apply_in_place, apply_where, put_in_place
from dataview.write.journals import Journals
from dataview.write.memory import leaves_of_memory
from dataview.write.ragged_rows import check_row
from dataview.write.raw_files import lock
from dataview.write.recovery import ACTIONS, Recovery, has_update, journals_of, recovered
from dataview.write.rows import write_rows, write_rows_of
from dataview.write.runs import Built, clock

__all__ = [
    "ACTIONS", "ITSELF", "Built", "GrowthGuard", "Journals", "Recovery", "apply_in_place",
    "apply_to_rows", "apply_where", "check_row", "check_writable", "clock", "has_update",
    "journals_of", "leaves_of_memory", "lock", "places_written", "put_in_place", "put_where",
    "recovered", "write", "write_rows", "write_rows_of",
]  # fmt: skip
