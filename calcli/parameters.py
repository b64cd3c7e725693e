"""Errors for callers in Python: parameters stand where the command line has flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, is_dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from calcli.errors import CalcliError, alternatives

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_VALUE = r"""(?:'[^']*'|"[^"]*")+|[A-Z]+ [A-Z]{2,}\b|(?!-)[^\s;()'"]*(?:\.\.\.|[^\s;()'".,:])(?: [<>]=? [\w.]+)?"""
_TEXT = re.compile(
    r"(?P<shell>\bcalcli [a-z][^;]* --(?!help)[a-z][^;]*|\bpip install [^;]*)"
    r"|\bcalcli (?:inspect (?P<inspected>[^;]+)$|(?P<command>(?:uncertainty )?[a-z]+)(?P<help> --help)?(?![\w-]))"
    rf"|(?<![\w'\"-])-(?:-(?P<flag>[a-z][a-z-]*)|o\b)(?: (?P<value>{_VALUE}))?"
)
_PROSE = frozenset(["and", "or", "out", "too", "needs", "need", "excludes", "chooses", "ranks", "with"])
"""Words after a flag that go on with the sentence, though a flag or its end comes next."""

_AFTER_VALUES = re.compile(r"$|[;,:.)]|(?: or| and)? --?[a-z]| (?:has|if|is|instead|keeps|multiplies|needs) ")

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "with": ("artifacts", "ensembles", "artifact"),
    "score": ("scores",),
    "class": ("of_class", "classes"),
    "set": ("params",),
    "for": ("purpose",),
    "as": ("scale",),
    "id": ("item",),
    "from": ("least",),
    "to": ("most",),
    "input-format": ("input_format", "format"),
}
"""The parameters of flags that have other names; of several, the first that a function has."""

_FUNCTIONS = {
    "uncertainty": "load_ensemble",
    "uncertainty fit": "fit_ensemble",
    "uncertainty apply": "apply_ensemble",
    "uncertainty evaluate": "evaluate_ensembles",
    "uncertainty decompose": "decompose",
} | {
    name: name for name in ("fit", "apply", "evaluate", "compare", "refit", "decide", "diagram", "estimate", "inspect")
}
"""The functions of commands."""


class Parameter(NamedTuple):
    """What a caller in Python writes for a flag."""

    form: str
    """With ``{}`` where its value stands."""

    hint: Any = str
    """The type of its value."""

    bare: str | None = None
    """What stands for the flag without a value, if it is another parameter: ``--costs FILE`` is the file of `costs`."""

    def alone(self) -> str:
        """The parameter without a value; a switch is on."""
        return self.bare or self.form.format("True" if bool in self._kinds else "")

    def takes(self, word: str, rest: str) -> bool:
        """Whether the word after a flag is its value, and not the first of a sentence that goes on with `rest`."""
        if bool in self._kinds or word in _PROSE:
            return False
        listed = [one for part in alternatives(self.hint) if get_origin(part) is Literal for one in get_args(part)]
        plain = re.fullmatch("[a-z][a-z-]*", word) is not None and word not in ("none", "auto", *listed)
        return not plain or _AFTER_VALUES.match(rest) is not None

    def given(self, value: str) -> str:
        """The parameter with the value that stands after the flag, as Python writes it."""
        if value[0] in "'\"":
            import shlex

            with suppress(ValueError):  # not as a shell has it
                value = shlex.split(value)[0]
        if Mapping in self._kinds and "=" in value:
            key, _, value = value.partition("=")
            return self.form.format(f"{{{key!r}: {_written(value, {int})}}}")
        if self._kinds & {Sequence, tuple} and str not in self._kinds:
            parts = [] if value == "none" else re.split(",| (?=[A-Z])", value)
            return self.form.format("[" + ", ".join("..." if one == "..." else repr(one) for one in parts) + "]")
        return self.form.format(_written(value, self._kinds))

    @property
    def _kinds(self) -> set[Any]:
        return {get_origin(one) or one for one in alternatives(self.hint)}


def _written(value: str, kinds: set[Any]) -> str:
    number = kinds & {int, float} and re.fullmatch(r"[\d,]+(\.\d+)?|N", value)
    return value.replace(",", "") if number else repr(value)


_OF_PLACES = {
    "query": Parameter("Database(URL, query={})"),
    "table": Parameter("Database(URL, table={})"),
    "replace": Parameter("Database(URL, replace={})", bool),
    "storage-option": Parameter("storage_options({})", Mapping),
}


def in_python(text: str, parameters: Mapping[str, Parameter]) -> str:
    """A text with ``holdout='none'`` in place of ``--holdout none``, by the parameters of flags."""

    def written(found: re.Match[str]) -> str:
        rest, value = text[found.end() :], found["value"]
        if found["shell"]:
            return found[0]
        if found["inspected"]:
            return f"calcli.inspect({found['inspected']!r})"
        if found["command"]:
            name = _FUNCTIONS.get(found["command"])
            return found[0] if name is None else f"help(calcli.{name})" if found["help"] else f"calcli.{name}"
        flag = found["flag"] or "output"
        parameter = parameters.get(flag) or Parameter(flag.replace("-", "_") + "={}", float)
        if value is None:
            names = re.findall(r"\w+(?==)", parameter.form) if rest.startswith(":") and not found.start() else ()
            return names[-1] if names else parameter.alone()
        if not parameter.takes(value, rest):
            return f"{parameter.alone()} {value}"
        return parameter.given(value) + ("," if re.match(" --?[a-z]", rest) else "")

    return _TEXT.sub(written, text)


def parameters_of(hints: Mapping[str, Any], hidden: Collection[str] = ()) -> dict[str, Parameter]:
    """The parameters of flags in a function whose parameters have these types; fields of dataclasses are among them.

    Those that are `hidden` mean something else there: the flags of their name are in ``Flags``.
    """
    named = {name: Parameter(f"{name}={{}}", hint) for name, hint in hints.items()}
    for name, hint in hints.items():
        for part, kind in get_type_hints(hint).items() if is_dataclass(hint) else ():
            of_part = kind.type if isinstance(kind, InitVar) else kind
            named.setdefault(part, Parameter(f"{name}={hint.__name__}({part}={{}})", of_part))
    by_flag = {name.replace("_", "-"): parameter for name, parameter in named.items()}
    by_flag |= {name: Parameter(f"flags=Flags({name}={{}})", hints[name]) for name in hidden}
    others = {flag: [named[name] for name in names if name in named] for flag, names in _OTHER_NAMES.items()}
    if "cost_file" in named:
        by_flag["costs"] = named["cost_file"]._replace(bare="costs=")
    return _OF_PLACES | by_flag | {flag: known[0] for flag, known in others.items() if known}


def names_parameters(function: Callable[_Given, _Result], hidden: Collection[str] = ()) -> Callable[_Given, _Result]:
    """A function whose errors name its own parameters; those that are `hidden` are not of the flags of their name."""

    @wraps(function)
    def named(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except CalcliError as error:
            hints = {name: hint for name, hint in get_type_hints(function).items() if name != "return"}
            parameters = parameters_of(hints, hidden)
            error.message = in_python(error.message, parameters)
            error.hint = error.hint and in_python(error.hint, parameters)
            error.args = (error.message,)
            raise

    return named
