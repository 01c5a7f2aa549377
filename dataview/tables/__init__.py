"""Columns of a table: distinct values, labels and their codes, groups, lookups, what is missing.

What is found in a pass over a column is a photograph, as a statistic is.
"""

from dataview.tables.choosing import among_codes, check_numbered_alike, in_codes, knowing_labels
from dataview.tables.coding import by_code, in_order, name_of, without_gaps
from dataview.tables.comparing import (
    check_no_order,
    codes_of,
    comparable,
    in_dates,
    in_times,
)
from dataview.tables.filters import mask_of, rows_where
from dataview.tables.given_keys import check_by, given_keys
from dataview.tables.groups import Grouped
from dataview.tables.joins import joined
from dataview.tables.labels import (
    Labels,
    are_found_codes,
    checked_codes,
    coded,
    counted,
    found_later,
    in_labels,
    labels_in_common,
    labels_of,
    only_labelled,
    undivided,
    with_found_labels,
    with_labels,
)
from dataview.tables.missing import count_missing, filled_in, known, whole_rows
from dataview.tables.rows import first_of_each, numbers_of_rows, ranked
from dataview.tables.several import labels_of_rows, listed
from dataview.tables.unique import distinct
from dataview.tables.written import as_codes, code_at_once

__all__ = [
    "Grouped",
    "Labels",
    "among_codes",
    "are_found_codes",
    "as_codes",
    "by_code",
    "check_by",
    "check_no_order",
    "check_numbered_alike",
    "checked_codes",
    "code_at_once",
    "coded",
    "codes_of",
    "comparable",
    "count_missing",
    "counted",
    "distinct",
    "filled_in",
    "first_of_each",
    "found_later",
    "given_keys",
    "in_codes",
    "in_dates",
    "in_labels",
    "in_order",
    "in_times",
    "joined",
    "knowing_labels",
    "known",
    "labels_in_common",
    "labels_of",
    "labels_of_rows",
    "listed",
    "mask_of",
    "name_of",
    "numbers_of_rows",
    "only_labelled",
    "ranked",
    "rows_where",
    "undivided",
    "whole_rows",
    "with_found_labels",
    "with_labels",
    "without_gaps",
]  # fmt: skip
