"""The errors of dataview; each is a subclass of the builtin error that a caller would catch."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType
from typing import Any, ParamSpec, TypeVar

_INSIDE = (__name__.split(".")[0], "numpy", "concurrent", "contextlib", "threading")
"""The packages that may stand on the stack between a user's line and a warning."""


LONGEST_TEXT = 501
"""The most characters that a message quotes of what a file says."""

MOST_NAMES = 20
"""The most names of fields that a message lists."""


class FieldError(AttributeError, KeyError):
    """A field that a view does not have, or no longer has."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ReadOnlyError(ValueError):
    """A write to data that is read-only, or computed."""


class StreamError(TypeError):
    """An operation on a stream that needs random access or a length."""


class UndeclaredError(TypeError):
    """An operation that is not possible before a sample has been read."""


class RaggedError(TypeError, ValueError):
    """An operation on rows of different shapes that needs an array of one shape."""


class PartialWriteError(RuntimeError):
    """A write that stopped midway and could not be undone.

    `rows` maps the description of each source to the rows that were written in it, as keys of NumPy
    (slices, or arrays of positions).  Sources with the same description are numbered in the order
    of the write: memory, memory (2).  `resume()` writes exactly the rest.
    """

    def __init__(
        self,
        message: str,
        rows: Mapping[str, list[tuple[Any, ...]]] | None = None,
        rest: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(message)
        self.rows = dict(rows or {})
        self._rest = rest

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rows)

    def resume(self) -> None:
        """Write what is left to be written."""
        if self._rest is None:
            raise RuntimeError(
                "a write can be resumed in the process that began it, and only there"
            )
        self._rest()


class InterruptedWriteError(PartialWriteError, KeyboardInterrupt):
    """A write that Ctrl-C stopped midway; it is a KeyboardInterrupt, too.

    >>> isinstance(InterruptedWriteError("stopped"), KeyboardInterrupt)
    True
    """


def taken_by_field(name: str) -> str:
    """Return what is wrong where the name is taken of a field that padding brings.

    >>> print(taken_by_field("words_mask"))
    there is a field words_mask already; d._rename(words_mask="other") gives it another name
    """
    return f'there is a field {name} already; d._rename({name}="other") gives it another name'


def unknown_field(
    name: str, known: Iterable[str], where: str, reason: str | None = None, advice: str = ""
) -> FieldError:
    """Return the error for a missing field: why it is missing, or which names there are.

    `advice` is what may have been meant, if that is no field.

    >>> print(unknown_field("lable", ["input", "label"], "View(10)"))
    no field 'lable' in View(10); did you mean 'label'? The fields are: input, label
    >>> print(unknown_field("mean", ["input"], "View(10)", advice="did you mean ._mean()?"))
    no field 'mean' in View(10); did you mean ._mean()? The fields are: input
    """
    more = f"; {advice}" if advice else ""
    if reason is not None:
        return FieldError(f"field {name!r} {reason}, in {where}{more}")
    names = list(known)
    close = hint(name, names, VERY_NEAR if advice.startswith(MEANT) else NEAR)
    if not advice.startswith(MEANT) and closest(name, names, SURE):
        advice = more = ""
    if close and advice:
        close, more = "", _beside(close, advice)
    meant = f"no field {name!r} in {where}{close}{more}"
    if names:
        return FieldError(f"{_ended(meant)} The fields are: {listed(names)}")
    return FieldError(meant if advice else f"{meant}. It has no fields")


def _beside(question: str, advice: str) -> str:
    """Return advice behind a question about another name.

    >>> _beside("; did you mean 'shape'?", "did you mean ._save()?")
    "; did you mean 'shape', or ._save()?"
    >>> _beside("; did you mean 'lens'?", "write len(d)")
    "; did you mean 'lens'? Write len(d)"
    """
    if advice.startswith(MEANT):
        return f"{question[:-1]}, or {advice.removeprefix(MEANT)}"
    is_word = advice.split()[0].isalpha()
    return f"{question} {advice[0].upper() if is_word else advice[0]}{advice[1:]}"


MEANT = "did you mean "
"""How a question about a name begins."""

NEAR, VERY_NEAR, SURE = 0.6, 0.75, 0.9
"""How alike a name is to one that may have been meant: also beside a verb of just that name, and so
that nothing else was."""


def chained(names: Iterable[str]) -> str:
    """Return fields inside fields as one writes them behind a view.

    >>> chained(["a", "b", "the c"])
    ".a.b['the c']"
    """
    return "".join(f".{name}" if name.isidentifier() else f"[{name!r}]" for name in names)


def _ended(sentence: str, end: str = ".") -> str:
    return sentence if sentence.endswith("?") else f"{sentence}{end}"


def listed(names: Sequence[str]) -> str:
    """Return names for a message, of many the first and the last.

    >>> listed("abc"), listed(["a"] * 10 + ["b"] * 90 + ["c"] * 5)
    ('a, b, c', 'a, a, a, a, a, a, a, a, a, a, ... (90 more), c, c, c, c, c')
    """
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    first, last = names[: MOST_NAMES // 2], names[-(MOST_NAMES // 4) :]
    return ", ".join([*first, f"... ({len(names) - len(first) - len(last)} more)", *last])


def unknown_verb(name: str, known: Iterable[str], advice: str = "") -> AttributeError:
    """Return the error for a name that is no verb, with advice or else with the closest verb."""
    if name.startswith("__"):  # asked by protocols all the time: no search for what was meant
        return AttributeError(f"'View' object has no attribute {name!r}")
    verbs = [verb for verb in known if not verb.startswith("__")]
    more = f"; {advice}" if advice else hint(name, verbs)
    return AttributeError(f"a view has no verb {name!r}{more}")


def unknown_name(name: str, known: Iterable[str], module: str, advice: str = "") -> AttributeError:
    """Return the error for a name that a module does not have, with advice or the closest name.

    >>> unknown_name("zipp", ["zip", "open"], "dataview")
    AttributeError("module 'dataview' has no attribute 'zipp'; did you mean 'zip'?")
    """
    more = f"; {advice}" if advice else hint(name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{more}")


def unknown_option(name: str, known: Iterable[str], verb: str, advice: str = "") -> TypeError:
    """Return the error for an option that a verb does not have, with the options it has.

    `advice` is what to write instead, if that is known.

    >>> unknown_option("tial", ["size", "tail"], "_group")
    TypeError("_group has no option 'tial'; did you mean 'tail'? The options are: size, tail")
    """
    close = f"; write {advice}." if advice else hint(name, known) or "."
    return TypeError(f"{verb} has no option {name!r}{close} The options are: {', '.join(known)}")


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def explained(
    usage: str = "",
    instead: Callable[[str, str, Sequence[str]], str] | None = None,
) -> Callable[[Callable[_Given, _Found]], Callable[_Given, _Found]]:
    """Return a decorator that says how a function is called where its arguments do not fit.

    `usage` shows that; without it the message lists the arguments.  `instead` gets the name of the
    function, that of an argument it has not, and those it has, and returns what to write, if it
    knows.

    >>> @explained()
    ... def dealt(size, tail="short"): ...
    >>> dealt(2, tial="drop")
    Traceback (most recent call last):
    TypeError: dealt has no argument 'tial'; did you mean 'tail'? Write dealt(size, tail='short')
    >>> dealt()
    Traceback (most recent call last):
    TypeError: dealt: missing a required argument: 'size'; write dealt(size, tail='short')
    """

    def decorated(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
        @functools.wraps(function)
        def called(*given: _Given.args, **named: _Given.kwargs) -> _Found:
            try:
                return function(*given, **named)
            except TypeError:
                text = _misfit(function, given, named, usage, instead)
                if text:
                    raise TypeError(text) from None
                raise

        return called

    return decorated


def _misfit(function: Any, given: Any, named: Mapping[str, Any], usage: str, instead: Any) -> str:
    """Return what is wrong with the arguments of a call, "" if they fit."""
    signature = inspect.signature(function)
    try:
        signature.bind(*given, **named)
        return ""
    except TypeError as error:
        why = f": {error};"
    title, parameters = function.__name__, list(signature.parameters.values())
    if parameters[0].name in ("self", "cls"):
        own = given[0] if isinstance(given[0], type) else type(given[0])
        title = own.__name__ if title in ("__init__", "__new__") else title
        parameters = parameters[1:]
    shown = [one for one in parameters if instead or one.kind is one.POSITIONAL_OR_KEYWORD]
    listing = ", ".join([str(one.replace(annotation=one.empty)) for one in shown])
    listing = re.sub(r"<class '(\w+)'>", r"\1", listing)
    if shown and shown[0].name == "by" and len(given) > 2 and {*map(type, given[1:])} == {str}:
        listing = f"by={[*given[1:]]}"
    if not usage and not parameters and {*map(type, given[1:])} == {str}:  # names of fields
        usage = ", ".join(f"d.{name}.{title}()" for name in given[1:])
    usage = usage or f"{title}({listing})"
    known = [one.name for one in parameters]
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        why = f" has no argument {wrong!r}"
    if advice := instead(title, wrong or "", known) if instead else "":
        return f"{title}{why.rstrip(';')}; write {advice}. Its form is {usage}"
    if wrong is not None:
        why = _ended(f"{why}{hint(wrong, known)}", ";")
    return f"{title}{why} {'W' if why.endswith('?') else 'w'}rite {usage}"


def hint(name: str, known: Iterable[str], least: float = NEAR) -> str:
    """Return a question for messages, such as "did you mean 'a'?", or '' if no name is close.

    >>> hint("AGE", ["name", "age"])
    "; did you mean 'age'?"
    """
    close = closest(name, known, least)
    return f"; did you mean {close!r}?" if close else ""


def closest(name: str, known: Iterable[str], least: float = NEAR) -> str:
    """Return the name that is most alike, or '' if none is close.

    >>> closest("shufle", ["seed", "shuffle"])
    'shuffle'
    """
    import difflib  # needed for mistakes alone

    names = {one.casefold(): one for one in known}
    close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=least)
    return names[close[0]] if close else ""


def bind_text(names: Iterable[str]) -> str:
    """Return the call that gives data for symbols, as one writes it.

    >>> bind_text(["x", "y"]), bind_text(["x[0]"])
    ('_bind(x=..., y=...)', "_bind({'x[0]': ...})")
    """
    named = [*names]
    if all(map(str.isidentifier, named)):
        return f"_bind({', '.join(f'{name}=...' for name in named)})"
    return f"_bind({{{', '.join(f'{name!r}: ...' for name in named)}}})"


def shortened(text: str) -> str:
    """Return a text for a message, cut in the middle if it is long: files may say anything.

    >>> len(shortened("1, " * 500_000))
    501
    """
    half = (LONGEST_TEXT - 3) // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} … {text[-half:]}"


def error_at(error: Exception, where: str) -> Exception:
    """Return an error of the same class that also says where in the data a function failed.

    >>> error_at(ValueError("no number"), "sample 3")
    ValueError('sample 3: no number')
    """
    if not isinstance(error, StopIteration):  # which would end a loop instead of failing
        with contextlib.suppress(Exception):  # of a class with a constructor of its own
            found = type(error)(f"{where}: {error}")
            if isinstance(found, OSError) and isinstance(error, OSError):
                found.errno = error.errno
            return found
    return RuntimeError(f"{where}: {type(error).__name__}: {error}")


def of_newer(version: Any, own: int) -> str:
    """Say that a newer dataview has written something, by the version that it has; "" if not.

    >>> of_newer(3, 2)[:56], of_newer(2, 2), of_newer("x", 2)
    ('was written by a newer dataview: it is of version 3, and', '', '')
    """
    if type(version) is not int or version <= own:
        return ""
    return (
        f"was written by a newer dataview: it is of version {shortened(str(version))}, and this "
        f"dataview reads versions up to {own}; install a newer dataview to read it"
    )


def import_library(library: str, package: str) -> Any:
    """Import a library that only some functions need, or raise saying how to install it.

    `package` is what pip installs, or an extra of this package, such as "dataview[hdf5]".  An extra
    is installed from a checkout: the package index has another project of this name.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        remedy = f'pip install "{package.replace("dataview[", ".[")}"'
        if package.startswith("dataview["):
            remedy += ", in the folder that dataview was installed from"
        raise ImportError(
            f"this needs {library}, which cannot be imported ({error}); it comes with: {remedy}"
        ) from error


def warn(message: str, once: bool = False) -> None:
    """Issue a RuntimeWarning that names the user's line, not one of this package.

    With `once`, a line is told once, however often it runs.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).split(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    if once:
        line = frame.f_code, frame.f_lineno
        if line in _told:
            return
        _told.add(line)
    if step := _step.get():
        message = f"{message.rstrip('.')} in {step}"
    warnings.warn(message, RuntimeWarning, stacklevel=level)


_told: set[tuple[CodeType, int]] = set()
"""The lines that were told what is said once."""

_step: ContextVar[str] = ContextVar("step", default="")
"""What warnings say they happened in, if anything."""


@contextlib.contextmanager
def warnings_in(step: str) -> Iterator[None]:
    """Let warnings end with the step in which they happen, so that filters know their beginning."""
    before = _step.set(step)
    try:
        yield
    finally:
        _step.reset(before)
