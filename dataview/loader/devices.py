"""Arrays of a batch moved to a device: left in NumPy, or passed by DLPack to another library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.compute import rows_of
from dataview.errors import error_at
from dataview.exchange import pack_like, plain
from dataview.plan.operations import TEXTS
from dataview.plan.ragged import Ragged

_HOW = (
    "device= is None or 'cpu' for NumPy, a device of another library such as "
    "torch.device('cuda:0'), or its name with the library's: 'torch:cuda:0', 'jax:gpu:0'"
)


def _torch(library: Any, array: Any, device: Any) -> Any:
    if isinstance(array, Ragged):
        values, layout = array.gathered(rows_of)
        if array.is_nested or layout.shapes is not None:
            raise TypeError("a nested tensor has one ragged axis, right behind the rows; give pad=")
        arrays = plain(values), layout.offsets.copy()
        parts = [library.from_dlpack(part).to(device) for part in arrays]
        return library.nested.nested_tensor_from_jagged(*parts)
    return library.from_dlpack(array).to(device)


def _jax(library: Any, array: np.ndarray, device: Any) -> Any:
    if isinstance(device, str):
        kind, _, number = device.partition(":")
        device = library.devices(kind)[int(number or 0)]
    return library.device_put(library.numpy.from_dlpack(array), device)


def _cupy(library: Any, array: np.ndarray, device: Any) -> Any:
    with library.cuda.Device(int(device)):
        return library.asarray(array)


def _dlpack(library: Any, array: np.ndarray, device: Any) -> Any:
    return library.from_dlpack(array, device=device)


_PUT = {"torch": _torch, "jax": _jax, "cupy": _cupy}


def is_numpy(device: Any) -> bool:
    """Whether the arrays stay in NumPy."""
    return device is None or (isinstance(device, str) and device == "cpu")


def checked_device(name: str, device: Any) -> Any:
    """Return a device; raise if a value names none.

    Only the first batch shows whether the library has it.
    """
    if not is_numpy(device):
        _library_of(device)
    return device


def placed(batch: Any, device: Any) -> Any:
    """Return a batch with each of its arrays on a device.

    >>> placed({"x": np.arange(2)}, "cpu")
    {'x': array([0, 1])}
    """
    if device is None:
        return batch
    if is_numpy(device):
        return _each(batch, np.asarray, "")
    name, where = _library_of(device)
    try:
        library = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"device={device!r} needs {name}, which is not installed") from error
    put: Callable[[Any, Any, Any], Any] = _PUT.get(name, _dlpack)

    def moved(array: Any) -> Any:
        if isinstance(array, Ragged) and put is not _torch:
            raise TypeError(f"{name} has no arrays of rows of different lengths; give pad=")
        try:
            return put(library, plain(array) if isinstance(array, np.ndarray) else array, where)
        except (TypeError, BufferError):  # of the data: `_each` says what to do with them
            raise
        except Exception as error:
            if _takes_data(put, library, where):
                raise
            raise RuntimeError(
                f"device={device!r} takes no data: {error}; name a device that {name} has on this "
                f"machine{_ON_EVERY_MACHINE.get(name, '')}"
            ) from error

    return _each(batch, moved, "")


_ON_EVERY_MACHINE = {name: f", such as '{name}:cpu'" for name in ("torch", "jax")}


def _takes_data(put: Callable[[Any, Any, Any], Any], library: Any, device: Any) -> bool:
    """Whether a device takes a number: what fails then has to do with the data, as their size."""
    try:
        put(library, np.zeros(1, "f4"), device)
    except Exception:
        return False
    return True


def _library_of(device: Any) -> tuple[str, Any]:
    """Return the name of a device's library, and what the library calls the device."""
    if isinstance(device, str):
        library, mark, name = device.partition(":")
        if not mark or not name or library in ("cpu", "cuda", "gpu"):
            raise ValueError(f"no library is named by device={device!r}; {_HOW}")
        return library, name
    library = type(device).__module__.partition(".")[0].removesuffix("lib")
    if library == "builtins":
        raise TypeError(f"no device: {device!r}; {_HOW}")
    return library, device


def _each(batch: Any, move: Callable[[Any], Any], path: str) -> Any:
    if isinstance(batch, Mapping):
        return {key: _each(part, move, f"{path}.{key}".strip(".")) for key, part in batch.items()}
    if isinstance(batch, tuple):
        parts = [_each(part, move, f"{path}[{number}]") for number, part in enumerate(batch)]
        return pack_like(batch, parts)
    if batch is None:
        return None
    try:
        return move(batch)
    except (TypeError, BufferError) as error:
        where = f"field {path!r}: " if path else ""
        dtype = getattr(batch, "dtype", type(batch).__name__)
        raise TypeError(
            f"{where}{dtype} cannot go to the device: {_remedy(batch, error)}"
        ) from error
    except Exception as error:
        if not path:
            raise
        raise error_at(error, f"field {path!r}") from error


def _remedy(batch: Any, error: Exception) -> str:
    """Return what to do about a part that no device takes."""
    if getattr(batch, "dtype", np.dtype(object)).kind not in "O" + TEXTS:
        return str(error)
    return (
        "devices hold numbers; make numbers of texts by _codes(), as in "
        "d._set_field('name', d.name._codes()), or leave the field out by fields="
    )
