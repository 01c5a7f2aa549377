"""Files that are kept so that they are made or fetched once: where, how many, and for how long.

>>> import numpy as np
>>> import tempfile
>>> import dataview as dv
>>> folder = tempfile.TemporaryDirectory()
>>> dv.cache.set_root(folder.name)
>>> def squares(path):
...     data = np.arange(4) ** 2
...     np.save(path, data)
...     return data
>>> dv.cache.make_or_load("squares.npy", squares, np.load)
array([0, 1, 4, 9])
>>> dv.cache.set_root(None)
>>> folder.cleanup()
"""

from dataview.cache.downloads import download
from dataview.cache.kept import Lease as Lease
from dataview.cache.kept import clear, info, set_limit
from dataview.cache.kept import local_copy as local_copy
from dataview.cache.making import make_or_load
from dataview.cache.root import folder_at as folder_at
from dataview.cache.root import path_of as path_of
from dataview.cache.root import root, set_root
from dataview.cache.transfer import TooLong as TooLong

# What has its own name after "as" is for other wings, and not for users.
__all__ = ["clear", "download", "info", "make_or_load", "root", "set_limit", "set_root"]


def __dir__() -> list[str]:
    return __all__
