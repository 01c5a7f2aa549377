"""What is written to codes: labels, and codes of other labels, become the codes that stand there.

An integer is a code; where it comes from no labels, nobody can tell of which it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dataview.compute import evaluate
from dataview.errors import shortened
from dataview.index import gather
from dataview.index.flat import packed
from dataview.plan.build import field, keyed, stored, with_fields
from dataview.plan.fields import LABELS, Attached, Fields, Meta, Window, window_index
from dataview.plan.gaps import (
    NO_LABEL,
    holds_codes,
    is_numbered_alike,
    masks_in,
    present_in,
    with_mask,
)
from dataview.plan.kinds import Mapped, Record, Sampled, known_dtype, known_shape
from dataview.plan.node import DType, Node, Part
from dataview.plan.operations import is_present
from dataview.plan.ragged import Ragged, ragged_of
from dataview.plan.values import array_or_none
from dataview.samples import collected
from dataview.sources import ArraySource, Memo
from dataview.tables.coding import (
    Code,
    coder,
    in_order,
    labelled,
    name_of,
    told,
    without_gaps,
)
from dataview.tables.comparing import KINDS, ONE_LABEL, no_label
from dataview.tables.labels import Labels, as_array, checked_codes, labels_of, rows_of


def as_codes(target: Node, value: Any) -> Any:
    """Return a value such that it has the codes of what it is written to; raise if it cannot.

    Codes that know other labels are translated, label by label, and labels become their codes.
    """
    if isinstance(target, Record) or (isinstance(value, Mapping) and target.fields.named):
        return _by_field(target, value)
    if not holds_codes(target):
        has_parts = isinstance(value, Node) and target.fields.named and value.fields.named
        return _by_place(target, value) if has_parts else value
    if isinstance(value, Node):
        return _of_node(target, value)
    if isinstance(target, Sampled) and isinstance(value, (list, tuple, np.ndarray)):
        rows = _as_rows(value)
        return value if rows is None else _of_node(target, rows)
    return _of_values(target, value)


def _as_rows(value: Any) -> Node | None:
    """Return values as an array, or as rows that differ in length; None for neither."""
    array = array_or_none(value)
    if array is None or array.dtype == object:
        return ragged_of(*packed(list(value)))
    return stored(ArraySource(array), False) if array.ndim else None


def _of_values(target: Node, value: Any) -> Any:
    """Return the codes of one label or of several; checked codes as they are."""
    code = code_at_once(target, value)
    if code is not value:
        return known_dtype(target).type(code)
    is_one = isinstance(value, (*ONE_LABEL, *_ONE_NUMBER)) or _is_missing(value)
    if not is_one and not isinstance(value, (list, tuple)) and not hasattr(value, "__array__"):
        return value
    array = _as_values([value] if is_one else value)
    if _are_labels(target, array):
        codes = _Coding(target).land(array, None)
        return codes[0] if is_one else codes
    if array.dtype.kind in _CODES:
        _check_codes(target, array)
    return value


_CODES = "biu"
_ONE_NUMBER = (int, float, np.number, np.bool_)


def _is_missing(value: Any) -> bool:
    """Whether a value is one thing, and stands for no value: None, NaN, or pandas' NA."""
    return bool(np.ndim(value) == 0 and not is_present(value))


def _as_values(value: Any) -> np.ndarray:
    """Return values as an array; numbers of several kinds as NumPy does."""
    if isinstance(value, (list, tuple)) and all(isinstance(one, _ONE_NUMBER) for one in value):
        return np.asarray(value)
    return as_array(value)


def _are_labels(target: Node, values: np.ndarray) -> bool:
    """Whether values are labels, and no codes.

    Codes are integers: so truth values and floats are labels, where the labels are such.  Where
    they are not, NaN is what is missing.
    """
    kind = values.dtype.kind
    if kind in "bf":
        has_such = _labels(target).dtype.kind == kind
        return has_such or (kind == "f" and not is_present(values).any())
    return kind in KINDS


def code_at_once(target: Node, label: Any) -> Any:
    """Return the code of a text that is a label, any other value as it is.

    To ask a dict takes a hundredth of what the general way does; what it does not have is left to
    that, which says what is wrong.
    """
    if type(label) not in TEXTS or not holds_codes(target):
        return label
    known = _known_of(target)
    code = None if known is None else known.by_text().get(label)
    if code is None or target.meta[LABELS][code] != label:
        return label
    return code if code <= np.iinfo(known_dtype(target)).max else label


TEXTS = frozenset((str, bytes, np.str_, np.bytes_))
"""The classes of labels whose codes are known at once."""


class _Known:
    """Labels as they were listed, the function that gives their codes, and the codes of texts."""

    __slots__ = ("_by_text", "_code", "labels")

    def __init__(self, labels: Sequence[Any]) -> None:
        self.labels = [*labels]
        self._code: Code | None = None
        self._by_text: dict[Any, int] | None = None

    def code(self) -> Code:
        """Return the function that gives each label its code."""
        if self._code is None:
            self._code = coder(as_array(self.labels))
        return self._code

    def by_text(self) -> Mapping[Any, int]:
        """Return the codes of labels that are texts; none if a label is listed twice."""
        if self._by_text is None:
            pairs = enumerate(self.labels)
            self._by_text = {own: code for code, own in pairs if isinstance(own, (str, bytes))}
            if len(self._by_text) < sum(isinstance(own, (str, bytes)) for own in self.labels):
                self._by_text = {}
        return self._by_text


def _known_of(target: Node, whole: bool = False) -> _Known | None:
    """Return what is kept of the labels of codes beside them; None if they are no list.

    The list is the user's own, who may change it: it is compared as a `whole`, or whoever asks for
    one code looks whether it is still that of the label.
    """
    meta = target.meta
    labels = meta[LABELS]
    if not isinstance(labels, (list, tuple)) or not isinstance(meta, Meta):
        return None
    known: _Known | None = getattr(meta, "kept", None)
    if known is None or len(known.labels) != len(labels) or (whole and known.labels != [*labels]):
        known = meta.kept = _Known(labels)
    return known


def _coder_of(target: Node) -> Code:
    """Return the function that gives the codes of labels; that of a list is kept beside it."""
    known = _known_of(target, whole=True)
    return coder(_labels(target).array()) if known is None else known.code()


def _check_codes(target: Node, codes: np.ndarray) -> None:
    """Raise if some numbers are no codes of the target."""
    labels = _labels(target)
    count = labels.count
    if not codes.size or (codes.min() >= NO_LABEL and codes.max() < count):
        return
    wrong = codes[(codes < NO_LABEL) | (codes >= count)].reshape(-1)[0].item()
    known = labels.list()
    own = f"; {wrong} is the label of code {known.index(wrong)}" if wrong in known else ""
    raise ValueError(
        f"{name_of(target)} has no code {wrong}: an integer is written as the code that it is. "
        f"There are 0 to {count - 1}, and {NO_LABEL} for what is missing{own}. The labels "
        f"are: {_listed(labels)}; d.x = d.x._with_meta(labels=[...]) lists others"
    )


def _of_node(target: Node, value: Node) -> Node:
    value = collected(value)
    if holds_codes(value):
        return _renumbered(target, value)
    if value.dtype is None or _is_sampled(target, value):
        return value
    kind = value.dtype.kind
    if kind in _CODES and not (kind == "b" and _labels(target).dtype.kind == "b"):
        return _stepwise(value, _Checking(target))
    is_of_labels = kind in KINDS or (kind in "bf" and _labels(target).dtype.kind == kind)
    return _stepwise(value, _Coding(target)) if is_of_labels else value


def _by_field(target: Node, value: Any) -> Any:
    """Return the value of a record, of whose fields some are codes."""
    names = [name for name in target.fields if _may_have_codes(field(target, name))]
    if not names:
        return value
    if isinstance(value, Record):
        changes: dict[str, Any] = {}
        for name in names:
            part = value.fields.named.get(name)
            if isinstance(part, Attached):
                given = field(value, name)
                found = as_codes(field(target, name), given)
                changes |= {} if found is given else {name: part.of(found)}
        if not changes:
            return value
        masks = masks_in(value.fields)  # a column of codes has no need of its mask, but for others
        idle = {masks[name] for name in changes.keys() & masks.keys()} - target.fields.named.keys()
        named = {name: part for name, part in value.fields.named.items() if name not in idle}
        return with_fields(value, Fields({**named, **changes}, value.fields.lost))
    if isinstance(value, tuple) and len(value) == len(target.fields):
        value = dict(zip(target.fields, value, strict=True))
    elif isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        value = {name: value[name] for name in value.dtype.names}
    if not isinstance(value, Mapping):
        return value
    parts = {name: value[name] for name in names if name in value}
    return {**value, **{name: as_codes(field(target, name), own) for name, own in parts.items()}}


def _is_sampled(*nodes: Node) -> bool:
    """Whether some are samples without an end, or of another shape that is not known."""
    return any(node.shape is None for node in nodes if not isinstance(node, Ragged))


def _may_have_codes(node: Node) -> bool:
    return isinstance(node, Record) or holds_codes(node) or bool(node.fields)


# --- arrays of which some parts are codes ---------------------------------------------------------

_Place: TypeAlias = Window | str
"""Where a field lies in the array that it is a part of: a window, or a name in a structured one."""


_Step: TypeAlias = "tuple[list[_Place], _Renumbering]"


def _by_place(target: Node, value: Node) -> Node:
    """Return an array as it is written to one some of whose own fields are codes."""
    if _is_sampled(target, value):
        return value
    steps = [*_steps_at(target, value)]
    if not steps:
        return value
    ours, dtype = known_dtype(target), known_dtype(value)
    dtype = ours if np.can_cast(dtype, ours, "same_kind") else dtype  # which the write refuses
    if not any(
        0 in place.positions for path, _ in steps for place in path if isinstance(place, Window)
    ):
        return _stepwise(value, _InParts(target, dtype, steps))
    moved = [
        ([p.moved(1) if isinstance(p, Window) else p for p in path], step) for path, step in steps
    ]
    found: Node = keyed(_stepwise(keyed(value, None), _InParts(target, dtype, moved)), 0)
    return found


def _steps_at(target: Node, value: Node) -> Iterator[_Step]:
    """Yield the places in an array where there are codes of other labels, with the step of each."""
    for name, ours in target.fields.named.items():
        same = _field_at(target, ours, name, value)
        if same is None:
            continue
        place = ours if isinstance(ours, Window) else name
        part, given = field(target, name), field(value, same)
        if holds_codes(part) and holds_codes(given):
            step = _step_between(part, given)
            if step is not None:
                yield [place], step
        else:
            yield from (([place, *path], step) for path, step in _steps_at(part, given))


def _field_at(target: Node, own: Any, name: str, value: Node) -> str | None:
    """Return the name of the field of a value that goes to a field of the target, if one does."""
    if not isinstance(own, Window):
        is_part = all(name in (known_dtype(one).names or ()) for one in (target, value))
        return name if is_part and name in value.fields.named else None
    last, others = len(known_shape(target)), len(known_shape(value))
    for other, theirs in value.fields.named.items():
        if isinstance(theirs, Window) and _places(theirs, others) == _places(own, last):
            return other
    return None


def _places(window: Window, rank: int) -> dict[int, list[int] | int]:
    """Return what a window selects, by axis from the last, since values have fewer first axes."""
    found = window.positions.items()
    return {axis - rank: np.asarray(places).tolist() for axis, places in found}


# --- codes of other labels ----------------------------------------------------------------------


def _renumbered(target: Node, value: Node) -> Node:
    """Return codes that know their labels as codes of the target's; or raise."""
    step: _Landing | None = _step_between(target, value)
    if step is None and (target.has_gaps or not value.has_gaps or _is_sampled(target, value)):
        return value
    if _is_sampled(target, value):
        ours, theirs = map(_labels, (target, value))
        raise TypeError(
            f"{name_of(target)} cannot hold the codes of {name_of(value)} as a whole, since the "
            f"shape of these is not known: its labels are {_listed(ours)}, those of the value "
            f"{_listed(theirs)}; for i in range(len(d)): d.x[i] = value[i] writes row by row"
        )
    return _stepwise(value, step or _Checking(target))  # which has -1 for what a mask lacks


def _step_between(target: Node, value: Node) -> _Renumbering | None:
    """Return the step from codes to codes of the target's; None if they are these."""
    if is_numbered_alike(target, value):
        return None
    ours, theirs = map(_labels, (target, value))
    if np.array_equal(ours.array(), theirs.array()):
        return None
    codes = coder(ours.array())(theirs.array())
    unknown = [told(label) for label in theirs.array()[codes == NO_LABEL]]
    if unknown:
        raise ValueError(
            f"{name_of(target)} cannot hold the codes of {name_of(value)}: its labels are "
            f"{_listed(ours)}, and of those of the value it lacks {shortened(', '.join(unknown))}; "
            "value._codes(labels=d.x._labels()) has -1 for what it lacks, and d.x = value makes "
            "the field show the value's codes with their labels"
        )
    return _Renumbering(target, codes)


def _labels(node: Node) -> Labels:
    labels = labels_of(node)
    assert labels is not None
    return labels


def _listed(labels: Labels) -> str:
    return shortened(", ".join(map(repr, labels.list())))


def _stepwise(value: Node, step: _Landing) -> Node:
    """Return what a step makes of a value, row by row; of rows of several lengths in their line."""
    if isinstance(value, Ragged):
        rows = value.relaid()
        return rows.over(_stepwise(rows.leaf(), step))
    shape = known_shape(value)
    if not shape:
        one: Node = keyed(_stepwise(keyed(value, None), step), 0)
        return one
    found: Node = Mapped(value, step, (), shape, step.dtype)
    present = present_in(value) if step.has_gaps or isinstance(step, _InParts) else None
    return found if present is None else with_mask(found, present)


class _Landing(Part):
    """A step from what is written to codes of the dtype that is written to."""

    __slots__ = ("dtype", "has_gaps", "target")
    parts = ()
    title: ClassVar[str] = "codes of labels"
    deterministic: ClassVar[bool] = True

    def __init__(self, target: Node) -> None:
        self.target = target
        self.dtype: DType = known_dtype(target)
        self.has_gaps = (target.leaf() if isinstance(target, Ragged) else target).has_gaps

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the codes of these rows."""
        part = rows_of(node.node, numbers)
        present = present_in(part)
        return self.land(evaluate(part), None if present is None else evaluate(present))

    def land(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        """Return the codes of values, of which some may not be present."""
        codes = self.found(values, present)
        if present is not None:  # behind a mask no one sees the code
            codes = np.where(present, codes, 0 if self.has_gaps else NO_LABEL)
        if codes.size:
            self._check_room(int(codes.min()), int(codes.max()))
        return codes.astype(self.dtype)

    def _check_room(self, least: int, most: int) -> None:
        """Raise if the dtype cannot hold codes, which would become others there."""
        why = ""
        if least < 0 and self.dtype.kind == "u":
            why = f"has no code {NO_LABEL} for a label that is missing"
        elif most > np.iinfo(self.dtype).max:
            labels = _labels(self.target)
            why = f"cannot hold {most}, the code of {told(labels.array()[most])}"
        if why:
            raise ValueError(
                f"{name_of(self.target)} is {self.dtype}, so it {why}; "
                "d.x = d.x._astype(int) can hold it"
            )

    def found(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        """Return the codes of all values, -1 for what is missing."""
        raise NotImplementedError


class _InParts(_Landing):
    """The steps of the parts of an array, each with its place."""

    __slots__ = ("steps",)

    def __init__(self, target: Node, dtype: DType, steps: Sequence[_Step]) -> None:
        super().__init__(target)
        self.dtype = dtype
        self.steps = steps

    def land(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        """Return values of which these parts are codes of the target's."""
        found = values.astype(self.dtype)  # a copy
        for path, step in self.steps:
            _change_part(found, present, path, step)
        return found


def _change_part(
    array: np.ndarray, present: np.ndarray | None, path: Sequence[_Place], step: _Landing
) -> np.ndarray:
    """Change what is at the end of a path within an array, and return the array."""
    if not path:
        return step.land(array, present)
    place, *rest = path
    if isinstance(place, str):
        array[place] = _change_part(array[place], None, rest, step)
        return array
    index = window_index(place, array.shape)
    there = None if present is None else gather.read(present, index)
    gather.assign(array, index, _change_part(gather.read(array, index), there, rest, step))
    return array


class _Renumbering(_Landing):
    """The step from codes of other labels; `codes` are the new ones of these, in their order."""

    __slots__ = ("codes",)

    def __init__(self, target: Node, codes: np.ndarray) -> None:
        super().__init__(target)
        self.codes = np.append(codes, NO_LABEL)

    def found(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        codes = checked_codes(without_gaps(values, present), len(self.codes) - 1)
        found: np.ndarray = self.codes[codes]
        return found


class _Checking(_Landing):
    """The step from numbers, which are codes already."""

    __slots__ = ()

    def found(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        codes = without_gaps(values, present)
        _check_codes(self.target, codes)
        return codes


class _Coding(_Landing):
    """The step from labels."""

    __slots__ = ("code", "labels")

    def __init__(self, target: Node) -> None:
        super().__init__(target)
        self.labels = _labels(target)
        self.code = _coder_of(target)

    def found(self, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
        if values.dtype == object and self.labels.dtype != object:
            there = labelled(values, present)
            if all(type(one) is int or isinstance(one, np.integer) for one in values[there]):
                codes = np.full(values.shape, NO_LABEL)  # and None among them is what is missing
                codes[there] = values[there]
                _check_codes(self.target, codes)
                return codes
        with in_order(name_of(self.target)):
            codes = self.code(values)
        unknown = (codes == NO_LABEL) & labelled(values, present)
        if unknown.any():
            raise no_label(self.target, values[unknown][0], self.labels.list())
        return codes
