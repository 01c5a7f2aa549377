"""HDF5 by h5py: groups are records, datasets their fields, attributes metadata."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.arrays.datasets_in_hdf5 import CACHE, H5pySource, Hdf5File, TextSource
from dataview.formats.arrays.heaps_in_hdf5 import check_heaps
from dataview.formats.arrays.rows_in_hdf5 import ragged_rows
from dataview.formats.contents import (
    NotData,
    Reached,
    as_meta,
    described,
    lies_within,
    tree,
    with_arrays,
    without_arrays,
)
from dataview.formats.field_tree import NAME
from dataview.formats.handles import Claim
from dataview.formats.restored_tree import restored_record
from dataview.plan.build import stored
from dataview.plan.kinds import Stored
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sources import open_regular

_RAISED = (
    OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError,
    MemoryError, SystemError,
)  # fmt: skip
"""What h5py raises where a file is broken: it finds that in many places, and says it as it can."""

INTERNAL = frozenset({"CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_Netcdf4Dimid"})
"""Attributes by which libraries hold a file together: they say nothing of the data."""


def open_hdf5(path: str, mode: str, claim: Claim | None = None, swmr: bool = False) -> Node:
    """Return the record of an HDF5 file: its groups, shapes, dtypes and attributes are read."""
    if swmr and mode != "r":
        raise ValueError(
            f"{path}: swmr=True reads a file while another process writes it, with mode 'r'; got "
            f"{mode!r}; to write in this way, open it with h5py and set its swmr_mode"
        )
    return record_of(Groups, path, mode, claim, swmr)


def record_of(
    kind: Callable[..., Groups], path: str, mode: str, claim: Claim | None, swmr: bool = False
) -> Node:
    """Return the record of an HDF5 file, as it is read by a kind of groups."""
    h5py = import_library("h5py", "dataview[hdf5]")
    with open_regular(path) as raw:  # a pipe would be waited for
        check_heaps(raw, path)
    if mode != "r" and claim is not None and claim.journals is not None:
        claim.journals.announce()  # before HDF5 marks the file as open, which stays after a kill
    try:
        file = h5py.File(path, mode, swmr=swmr, **CACHE)
    except OSError as error:
        raise _not_opened(h5py, path, mode, error) from error
    opened = Hdf5File(path, mode, file, claim)
    try:
        found = with_arrays(path, kind(h5py, opened).record(file))
        return _knowing_nothing(restored_record(found, found.meta.get(NAME), path))
    except NotData as reason:
        opened.close()
        raise ValueError(f"{path} {reason}") from reason
    except BaseException:  # or it would stay open as long as the error is held
        opened.close()
        raise


def _knowing_nothing(node: Node) -> Node:
    """Return a record whose texts are None where their masks say that there is nothing."""
    for part in below([node]):
        if isinstance(part, Stored) and isinstance(part.source, TextSource):
            mask = part.mask
            if isinstance(mask, Stored) and isinstance(mask.source, H5pySource):
                part.source.mask = mask.source.array
    return node


def _not_opened(h5py: Any, path: str, mode: str, error: OSError) -> OSError:
    """Return the error for a file that cannot be opened, with what can be done."""
    text = shortened(str(error))
    if not os.path.isfile(path) or isinstance(error, PermissionError):
        return error
    if not h5py.is_hdf5(path):
        return OSError(f"{path} is no HDF5 file, or has lost its beginning: {text}")
    if "truncated" in text:
        return OSError(f"{path} is cut short: {text}")
    if "consistency flags" in text:
        return OSError(
            f"{path} is written by another process, or by one that was killed: {text}; if it is "
            "in h5py's SWMR mode there, swmr=True reads it"
        )
    if "already open" in text:
        return OSError(
            f"{path} is open in this process with another mode than {mode!r}: {text}; close the "
            "view that has it open, by its _close()"
        )
    if "lock" in text:
        # Of this class only if somebody has it open: others are of systems without locks.
        return (BlockingIOError if isinstance(error, BlockingIOError) else OSError)(
            f"{path} is open elsewhere, and HDF5 lets nobody else open a file that is written: "
            f"{text}; close it there, wait for that by lock='wait', or write it in h5py's SWMR "
            "mode and open it with swmr=True"
        )
    return OSError(f"{path} cannot be opened with mode {mode!r}: {text}")


class Groups:
    """The groups of a file as records."""

    def __init__(self, h5py: Any, file: Hdf5File) -> None:
        self.h5py, self.file = h5py, file
        self.folder = os.path.dirname(os.path.realpath(file.path))
        self.reached = Reached()

    def record(self, group: Any) -> Node:
        """Return the record of a group; what is no data is told where somebody asks for it."""
        parts: dict[str, Node] = {}
        lost: dict[str, str] = {}
        with _broken():
            names = list(group)
        with self.reached.inside(group):
            for name in names:
                known = as_meta(name)  # h5py gives bytes if they are no text
                try:
                    with _broken():
                        found = self.part(group, name)
                    if found is not None:
                        parts[known] = found
                except NotData as reason:
                    lost[known] = str(reason)
        return tree(parts, lost, attributes(group))

    def part(self, group: Any, name: str) -> Node | None:
        """Return the node of what a group has under a name, None if there are no data."""
        link = group.get(name, getlink=True)
        if isinstance(link, self.h5py.ExternalLink):
            self._check_file(link.filename)
        try:
            found = group[name]
        except (KeyError, OSError, RuntimeError) as error:
            raise NotData(f"is a link that leads nowhere: {shortened(str(error))}") from error
        if isinstance(found, self.h5py.Dataset):
            return self.array(found)
        if not isinstance(found, self.h5py.Group):  # a dtype with a name
            return None
        self.reached.check(found)
        inside = self.record(found)
        if not inside.fields:
            raise NotData(without_arrays(inside))
        return inside

    def array(self, dataset: Any) -> Node | None:
        """Return the node of a dataset, None if there are no data."""
        check = self.h5py.check_dtype
        for file in [*(dataset.external or ()), *_virtual_files(dataset)]:
            self._check_file(file[0])
        try:
            dtype = dataset.dtype
        except (TypeError, ValueError) as error:
            raise NotData(f"has a type that NumPy has not: {shortened(str(error))}") from error
        if check(ref=dtype) is not None:
            raise NotData("holds references to other parts of the file, which are no data")
        if dataset.shape is None:
            raise NotData("is empty: it has a type and no shape")
        self._check_filters(dataset)
        node = self.data(dataset, dtype)
        labels = check(enum=dtype) if dtype.kind != "b" else None
        names = self.dimensions(dataset)
        meta = attributes(dataset)
        if labels:
            meta["labels"] = labels
        if any(names):
            meta["dimensions"] = names
        return described(node, meta)

    def data(self, dataset: Any, dtype: np.dtype[Any]) -> Node:
        """Return the node of what a dataset holds."""
        if self.h5py.check_string_dtype(dtype) is not None and dtype.hasobject:
            return stored(TextSource(dataset, self.file))
        rows = H5pySource(dataset, self.file)
        inner = self.h5py.check_vlen_dtype(dtype)
        return stored(rows) if inner is None else ragged_rows(rows, inner)

    def dimensions(self, dataset: Any) -> list[str]:
        """Return the names of the axes, '' where one has none."""
        return [axis.label or _scale(axis) for axis in dataset.dims]

    def _check_filters(self, dataset: Any) -> None:
        """Raise if a dataset is packed by what is not there to unpack it."""
        made = dataset.id.get_create_plist()
        for number in range(made.get_nfilters()):
            code, _, _, name = made.get_filter(number)
            if not self.h5py.h5z.filter_avail(code):
                raise NotData(
                    f"is packed by the filter {code} ({shortened(as_meta(name)) or 'no name'}), "
                    "which HDF5 has not here; many are there after: pip install hdf5plugin, and "
                    "import hdf5plugin before the file is opened"
                )

    def _check_file(self, name: Any) -> None:
        """Raise if another file, of which this one has a part, is not beside it or below."""
        if not lies_within(os.path.join(self.folder, os.fsdecode(name)), self.folder):
            raise NotData(
                f"is in {shortened(os.fsdecode(name))}, outside of the folder of this file, which "
                "a file from somebody else might use to show your data; open it with h5py"
            )


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    """Take what h5py raises for a part of a file as the reason why it is no field."""
    try:
        yield
    except _RAISED as error:
        text = f"{type(error).__name__}: {shortened(str(error))}"
        raise NotData(f"is broken, or of a kind that h5py does not read: {text}") from error


def _virtual_files(dataset: Any) -> list[tuple[str]]:
    """Return the names of the other files that a virtual dataset is made of."""
    if not dataset.is_virtual:
        return []
    return [(one.file_name,) for one in dataset.virtual_sources() if one.file_name != "."]


def _scale(axis: Any) -> str:
    """Return the name of the dataset that has the places along an axis, '' if there is none."""
    return axis[0].name.rpartition("/")[2] if len(axis) else ""


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes of a group or a dataset; of those that cannot be read, why not."""
    found: dict[str, Any] = {}
    try:
        names = list(item.attrs)
    except _RAISED as error:
        return {"attributes": f"not readable: {shortened(str(error))}"}
    for name in names:
        if name in INTERNAL:
            continue
        try:
            value = item.attrs[name]
        except _RAISED as error:
            found[as_meta(name)] = f"not readable: {shortened(str(error))}"
            continue
        if type(value).__module__.partition(".")[0] != "h5py":  # a reference, or nothing
            found[as_meta(name)] = as_meta(value)
    return found
