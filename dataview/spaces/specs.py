"""Data specifications: which fields a model wants, each in which space.

>>> import dataview as dv
>>> x, y = dv.spaces.VectorSpace(2), dv.spaces.IndexSpace(10, 1)
>>> wanted = dv.specs.DataSpecs(dv.spaces.CompositeSpace((y, x)), ("target", "input"))
>>> d = dv.View(input=[[1, 2], [3, 4]], target=[7, 8])
>>> target, input = d._get(wanted)
>>> target()
array([[7],
       [8]])
"""

from dataview.errors import unknown_name
from dataview.spaces.data_specs import DataSpecs, is_flat_source, is_flat_space, is_flat_specs
from dataview.spaces.mapping import DataSpecsMapping
from dataview.spaces.monitor import Cost, Model, MonitorChannel, combine

__all__ = [
    "Cost", "DataSpecs", "DataSpecsMapping", "Model", "MonitorChannel", "combine",
    "is_flat_source", "is_flat_space", "is_flat_specs",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    raise unknown_name(name, __all__, "dataview.specs")
