"""Gaps in data: masks of what is missing, what is computed beside them, and a warning of them."""

from dataview.plan.fields import LABELS
from dataview.plan.gaps.known_masks import knowing, knowing_masks
from dataview.plan.gaps.masks import (
    MASK,
    MASK_OF,
    MASK_OF_LISTS,
    NOTES_OF_MASKS,
    at_each_level,
    free_name,
    is_mask_of,
    is_of_lists,
    is_of_rows,
    lacking,
    lacking_at,
    masked_alike,
    masks_among,
    masks_in,
    noted,
    own_columns,
    put_mask,
    renamed,
    replacing,
    tell_masks,
    telling,
    tells,
    told,
    with_gaps_of,
    with_mask,
    with_masks,
    without,
)
from dataview.plan.gaps.operations import compared, compared_in, computed
from dataview.plan.gaps.present import (
    NO_LABEL,
    PRESENT,
    both,
    holds_codes,
    is_numbered_alike,
    known_by_value,
    known_in,
    least_present,
    may_have_codes,
    may_lack,
    part_at,
    present_in,
    present_or_all,
    tells_present,
)
from dataview.plan.gaps.warning import is_untold, presence, warn_of_gaps

__all__ = [
    "LABELS", "MASK", "MASK_OF", "MASK_OF_LISTS", "NOTES_OF_MASKS", "NO_LABEL", "PRESENT",
    "at_each_level", "both", "compared", "compared_in", "computed", "free_name", "holds_codes",
    "is_mask_of", "is_numbered_alike", "is_of_lists", "is_of_rows", "is_untold", "knowing",
    "knowing_masks", "known_by_value", "known_in", "lacking", "lacking_at", "least_present",
    "masked_alike", "masks_among", "masks_in", "may_have_codes", "may_lack", "noted", "own_columns",
    "part_at", "presence", "present_in", "present_or_all", "put_mask", "renamed", "replacing",
    "tell_masks", "telling", "tells", "tells_present", "told", "warn_of_gaps", "with_gaps_of",
    "with_mask", "with_masks", "without",
]  # fmt: skip
