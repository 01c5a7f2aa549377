"""A symbolic view as a formula: operators with the parentheses they need, and no more."""

from __future__ import annotations

import numpy as np

from dataview.nodes import Argument, Comparison, Elementwise, Node, Select
from dataview.wording import dtype_text, harmless, lengths_of, shape_text, undriven, value_text

__all__ = ["formula_of"]

FORMULA_LENGTH = 100
FORMULA_STEPS = 12
ATOM, POWER, UNARY, COMPARED = 11, 10, 9, 2
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
INFIX: dict[int, dict[np.ufunc, str]] = {
    POWER: {np.power: "**"},
    8: {np.multiply: "*", np.divide: "/", np.floor_divide: "//", np.remainder: "%"},
    7: {np.add: "+", np.subtract: "-"},
    6: {np.left_shift: "<<", np.right_shift: ">>"},
    5: {np.bitwise_and: "&"},
    4: {np.bitwise_xor: "^"},
    3: {np.bitwise_or: "|"},
    COMPARED: dict(zip(COMPARISONS, ("<", "<=", ">", ">=", "==", "!="), strict=True)),
}
SYMBOLS = {ufunc: (name, level) for level, row in INFIX.items() for ufunc, name in row.items()}
PREFIX: dict[np.ufunc, str] = {np.negative: "-", np.positive: "+", np.invert: "~"}


def formula_of(node: Node) -> str:
    node = undriven(node)
    return harmless(_term(node, FORMULA_STEPS)[0], FORMULA_LENGTH) if _is_symbolic(node) else ""


def _is_symbolic(argument: Argument) -> bool:
    whole = argument.node if isinstance(argument, Select) else argument
    return isinstance(whole, (Elementwise, Comparison))


def _term(argument: Argument, room: int) -> tuple[str, int]:
    """Return an operand as text and how tightly it binds; `room` is how many steps may be told."""
    if not isinstance(argument, Node):
        number = value_text(argument)
        return number, UNARY if number.startswith("-") else ATOM
    if not _is_symbolic(argument):
        return f"{dtype_text(argument)}{shape_text(lengths_of(argument))}", ATOM
    if not room:
        return "…", ATOM
    if isinstance(argument, Select):
        return f"{_bare(_term(argument.node, room - 1), ATOM)}[…]", ATOM
    assert isinstance(argument, (Elementwise, Comparison))
    share = (room - 1) // max(1, sum(map(_is_symbolic, argument.args)))
    return _applied(argument, [_term(operand, share) for operand in argument.args])


def _applied(node: Elementwise | Comparison, terms: list[tuple[str, int]]) -> tuple[str, int]:
    equality = np.not_equal if isinstance(node, Comparison) and node.negated else np.equal
    ufunc = node.ufunc if isinstance(node, Elementwise) else equality
    if ufunc in SYMBOLS:
        symbol, level = SYMBOLS[ufunc]
        left = _bare(terms[0], level + (level in (POWER, COMPARED)))
        return f"{left} {symbol} {_bare(terms[1], UNARY if level == POWER else level + 1)}", level
    if ufunc in PREFIX:
        return f"{PREFIX[ufunc]}{_bare(terms[0], UNARY)}", UNARY
    which = f"[{node.output}]" if isinstance(node, Elementwise) and ufunc.nout > 1 else ""
    name = harmless(ufunc.__name__.removesuffix(" (vectorized)"))
    return f"{name}({', '.join(term for term, _ in terms)}){which}", ATOM


def _bare(term: tuple[str, int], level: int) -> str:
    return term[0] if term[1] >= level else f"({term[0]})"
