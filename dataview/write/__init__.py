"""Writing data: which places a write changes, what it overlaps, how it is undone; in place too."""

from dataview.write.assignment import check_writable, listen, write
from dataview.write.inplace import apply_in_place

__all__ = ["apply_in_place", "check_writable", "listen", "write"]
