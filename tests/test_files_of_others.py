"""Files that other tools have made open by `dv.open(path)` alone, with all their fields."""

from collections.abc import Mapping

import numpy as np
import pytest

import dataview as dv
import files
from dataview.view.face import node_of
from files import X, Y

# -------------------- by libraries of the extra `clients` --------------------


def safetensors_of_torch(folder):
    import safetensors.torch
    import torch

    path = folder / "torch.safetensors"
    safetensors.torch.save_file({"w": torch.ones(3, 4), "b": torch.arange(3)}, path)
    return path


def torch_state(folder):
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    torch.save(model.state_dict(), folder / "state.pt")
    return folder / "state.pt"


def torch_checkpoint(folder):
    import torch

    steps = [{"step": torch.tensor(n)} for n in range(2)]
    found = {"epoch": 3, "model": {"w": torch.ones(3, 4)}, "optimizer": {"state": steps}}
    torch.save(found, folder / "checkpoint.pth")
    return folder / "checkpoint.pth"


def torch_before(folder):
    import torch

    torch.save({"w": torch.ones(3, 4)}, folder / "old.pth", _use_new_zipfile_serialization=False)
    return folder / "old.pth"


def _dataset():
    import xarray

    data = {"t": (("time", "place"), X, {"units": "K"}), "flag": ("time", Y)}
    return xarray.Dataset(data, {"place": X[0]}, {"title": "some"})


def netcdf_of_xarray(folder):
    _dataset().to_netcdf(folder / "x.nc", engine="scipy")
    return folder / "x.nc"


def zarr_2_of_xarray(folder):
    _dataset().to_zarr(folder / "x2.zarr", zarr_format=2, consolidated=True)
    return folder / "x2.zarr"


def zarr_3_of_xarray(folder):
    _dataset().to_zarr(folder / "x3.zarr", zarr_format=3, consolidated=False)
    return folder / "x3.zarr"


# -------------------- the table --------------------

GROUP = {"x": (10, 4), "part/y": (10,)}
ROWS = {
    "n": (20,), "y": (20,), "y_mask": (20,), "of/name": (20,), "of/at": (20, None), "good": (20,),
    "list": (20, None),
}  # fmt: skip
SHARD = {
    "key": (5,), "cls": (5,), "json/n": (5,), "json/at": (5, None), "bin": (5,), "npy": (5, 10, 4),
}  # fmt: skip
WEATHER = {"t": (10, 4), "place": (4,), "flag": (10,)}

FILES = [
    (files.npy_folder, GROUP),
    (files.npz, {"x": (10, 4), "y": (10,), "name": ()}),
    (files.npz_packed, GROUP),
    (
        files.npz_sparse,
        {"data": (3,), "indices": (3,), "indptr": (4,), "shape": (2,), "format": ()},
    ),
    (
        files.sqlite_table,
        {"n": (100,), "y": (100,), "y_mask": (100,), "z": (100,), "raw": (100,)},
    ),
    (files.sqlite_keyed, {"a": (3,), "b": (3,)}),
    (files.shard_tar, SHARD),
    (files.shard_zip, SHARD),
    (files.json_lines, ROWS),
    (files.json_lines_packed, ROWS),
    (files.text_lines, {"": (60,)}),
    (files.text_lines_packed, {"": (60,)}),
    (files.hdf5, GROUP | {"texts": (3,), "rows": (3, None)}),
    (files.hdf5_newest, GROUP | {"part/z": (10, 4)}),
    (
        files.pytables,
        {
            "group/table": (2,), "group/table/a": (2,), "group/table/c": (2,),
            "group/numbers": (10, 4), "group/rows": (2, None),
        },
    ),
    (
        files.pandas_fixed,
        {
            "df/axis0": (2,), "df/axis1": (10,), "df/block0_items": (2,),
            "df/block0_values": (10, 2),
        },
    ),
    (
        files.keras,
        {
            "layers/dense/vars/0": (4, 3), "layers/dense/vars/1": (3,), "optimizer/vars/0": (),
            "layers/dense_1/vars/0": (3, 2), "layers/dense_1/vars/1": (2,),
        },
    ),
    (files.keras_2, {"dense/dense/kernel:0": (4, 3), "dense/dense/bias:0": (3,)}),
    (
        files.anndata,
        {
            "X/data": (3,), "X/indices": (3,), "X/indptr": (4,), "obs/_index": (3,),
            "obs/kind/categories": (2,), "obs/kind/codes": (3,),
        },
    ),
    (files.zarr_2, GROUP),
    (files.zarr_3, GROUP),
    (files.zarr_array, {"": (10, 4)}),
    (files.zarr_consolidated, GROUP),
    (files.zarr_sharded, GROUP),
    (files.zarr_zip, GROUP),
    (files.tensors, {"layer.0.weight": (10, 4), "layer.0.bias": (10,)}),
    (
        files.matlab_5,
        {"x": (10, 4), "truth": (2, 1), "text": (1,), "s/a": (1, 1), "s/b/c": (10, 4)},
    ),
    (files.matlab_5_packed, {"x": (10, 4), "truth": (2, 1), "text": (1,), "s/b/c": (10, 4)}),
    (
        files.matlab_7,
        {
            "x": (10, 4), "truth": (2, 1), "text": (1,), "texts": (3,), "s/a": (1, 1),
            "s/b/c": (10, 4), "c": (1, 2), "empty": (0, 3),
        },
    ),
    (files.netcdf_3, WEATHER | {"u": (10, 4)}),
    (files.netcdf_3_large, WEATHER | {"u": (10, 4)}),
    (files.netcdf_4, WEATHER | {"u": (10, 4)}),
]  # fmt: skip
"""How a file is made, and the fields that must be found, with their shapes; '' is all of it."""

FILES_OF_CLIENTS = [
    (safetensors_of_torch, {"w": (3, 4), "b": (3,)}),
    (torch_state, {"0.weight": (3, 4), "0.bias": (3,), "2.weight": (2, 3), "2.bias": (2,)}),
    (
        torch_checkpoint,
        {"model/w": (3, 4), "optimizer/state/0/step": (), "optimizer/state/1/step": ()},
    ),
    (torch_before, {"w": (3, 4)}),
    (netcdf_of_xarray, WEATHER),
    (zarr_2_of_xarray, WEATHER),
    (zarr_3_of_xarray, WEATHER),
]

ALL = [
    *(pytest.param(*row, id=row[0].__name__) for row in FILES),
    *(
        pytest.param(*row, id=row[0].__name__, marks=pytest.mark.clients)
        for row in FILES_OF_CLIENTS
    ),
]


def at(view, path):
    for name in filter(None, path.split("/")):
        view = view._field(name)
    return view


def same(found, known):
    """Whether two readings are the same; fields of records, and rows, are compared one by one."""
    if isinstance(found, Mapping):
        return all(same(found[name], known[name]) for name in known)
    if found.dtype == object:
        return all(np.array_equal(*pair) for pair in zip(found, known, strict=True))
    return np.array_equal(found, known)


@pytest.mark.parametrize(("make", "fields"), ALL)
def test_a_file_opens_with_its_fields(make, fields, tmp_path):
    path = make(tmp_path)
    with dv.open(path) as d:
        for name, shape in fields.items():
            view = at(d, name)
            assert node_of(view).extents == shape, name
            whole = view()
            if shape:
                assert same(view[::-1](), whole[::-1]), name
        for name, known in [("x", X), ("part/y", Y), ("s/b/c", X), ("t", X)]:
            if name in fields:
                np.testing.assert_array_equal(at(d, name)(), known)


@pytest.mark.parametrize(("make", "fields"), ALL)
def test_there_are_no_other_fields(make, fields, tmp_path):
    d = dv.open(make(tmp_path))
    tops = {name.partition("/")[0] for name in fields} - {""}
    assert set(d._fields()) == tops
    assert len(FILES) + len(FILES_OF_CLIENTS) > 20
