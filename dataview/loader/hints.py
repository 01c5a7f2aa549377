"""What to write instead of the options and the attributes that the loaders of others have."""

from __future__ import annotations

from collections.abc import Collection

from dataview.errors import hint

ELSEWHERE = {
    "batch_sampler": "sampler=",
    "collate_fn": "collate=",
    "data_specs": "spec={!r}",
    "drop_last": "tail='drop'",
    "drop_remainder": "tail='drop'",
    "generator": "seed={!r}",
    "mode": "sampler={!r}",
    "num_workers": "workers={!r}",
    "pin_memory": "device=",
    "prefetch_factor": "prefetch={!r}",
    "random_state": "seed={!r}",
    "rng": "seed={!r}",
    "shuffle": "sampler='permutation'",
}
"""What to write for the options of other libraries' loaders, with their value."""

MODES = {
    "batchwise_shuffled_sequential": "batchwise-permutation",
    "even_sequences": "same-length",
    "random_slice": "random-slice",
    "random_uniform": "uniform",
    "sequential": "linear",
    "shuffled_sequential": "permutation",
}
"""The samplers by the names that Pylearn2 has for them; those of `even_...` also drop the tail."""
MODES |= {f"even_{mode}": sampler for mode, sampler in MODES.items() if mode != "even_sequences"}

IN_CODE = dict.fromkeys(
    ("epochs", "num_epochs", "max_epochs"), "for epoch in range(epochs), and in it, for b in loader"
)
"""What to write for options of other libraries that are none here."""

_OF_LOADERS = {
    "it was made by d._loader(...), and d is the data": "dataset data source view ds",
    "each loop over the loader is an epoch with an order of its own": "set_epoch epochs "
    "num_epochs max_epochs on_epoch_end",
    "write loader.epoch, the number of epochs that are over": "current_epoch epoch_number",
    "write next(loader)": "next get_next next_batch get_batch get_data",
    "write for batch in loader": "iterator iter get_epoch_iterator iter_epochs as_numpy_iterator "
    "iter_batches iterate batches batch",
    "write len(loader), or loader.num_batches()": "steps_per_epoch n_batches length size",
    "write loader.rows": "indices index indexes row_numbers",
    "write loader.state_dict()": "state get_state save serialize",
    "write loader.load_state_dict(state)": "load set_state load_state restore",
    "write loader.close()": "stop shutdown terminate finalize",
    "write d._map(function)._loader(batch_size)": "map apply",
    "write d._filter(function)._loader(batch_size)": "filter select",
    "write d._cached()._loader(batch_size)": "cache persist",
    "write d._loader(batch_size, num_batches=n)": "take limit",
    "write d._loader(batch_size, device='torch:cuda:0')": "to cuda",
}
"""What to write for names that other loaders have, in a row for each."""


def unknown_attribute(name: str, known: Collection[str], options: Collection[str]) -> str:
    """Return the message for an attribute that a loader has not, with advice or the closest one.

    >>> unknown_attribute("num_workers", (), ["workers"])
    "a loader has no attribute 'num_workers'; it is an option: d._loader(batch_size, workers=...)"
    """
    text = f"a loader has no attribute {name!r}"
    option = name if name in options else ELSEWHERE.get(name, "").partition("=")[0]
    if option in options:
        return f"{text}; it is an option: d._loader(batch_size, {option}=...)"
    for advice, names in _OF_LOADERS.items():
        if name in names.split():
            return f"{text}; {advice}"
    return text if name.startswith("_") else text + hint(name, known)
