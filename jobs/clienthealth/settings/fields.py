"""A setting: its default, its reason and its bounds. A settings class rejects invalid values with an error message.

An error message may quote a rejected number, but never a rejected text, which may be a secret.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
import urllib.parse
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from operator import gt, le, lt
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clienthealth.model.errors import CatalogueError, SettingsError
from clienthealth.model.tables import converted

#: Upper bound of all numbers: the largest `int` of the JVM.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Form:
    """The required form of a text: a description, a regular expression for the whole text, and a test.

    A text fails the test if the test returns False or raises an error.
    """

    words: str
    pattern: str = ""
    test: Callable[[str], object] = lambda _: True

    def fits(self, text: str) -> bool:
        """Return True if a text has the required form."""
        try:
            return (not self.pattern or bool(re.fullmatch(self.pattern, text))) and self.test(text) is not False
        except (ValueError, re.error, OverflowError, RecursionError):
            return False


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting as a TOML file defines it. `reason`: what the setting is for, or why a threshold has its value.

    `default`              the value if the user sets none. A text may be '' only if its default is ''
    `at_least`, `at_most`  the bounds: a number, or the name of another setting of the same section
    `one_of`               the allowed texts
    `form`                 the form of the text, or of each text in a list: a name in FORMS, such as `url`
    `needs`                a setting of the same section that must be set if this setting is set
    """

    default: Any
    reason: str
    at_least: int | float | str | None = None
    at_most: int | float | str | None = None
    one_of: tuple[str, ...] = ()
    form: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.default, list):
            msgspec.structs.force_setattr(self, "default", tuple(self.default))


class Section:
    """The settings that a table of a TOML file defines for one settings class.

    `where`: the file and the table, for error messages. `rows`: the table's content. Raises CatalogueError if the table
    contains a mistake.
    """

    def __init__(self, where: str, rows: Mapping[str, Any]) -> None:
        self.where = where
        self.settings = {name: converted(row, Setting, f"{where}.{name}") for name, row in rows.items()}

    def check(self, names: Set[str]) -> None:
        """Raise CatalogueError if `names` (the fields of the settings class) differ from this section's settings.

        Raises CatalogueError also if `at_least`, `at_most`, `needs` or `form` of a setting contains an unknown name.
        """
        if wrong := names ^ self.settings.keys():
            raise CatalogueError(f"{self.where}.{min(wrong)} is missing either in this file or in its Python class")
        for name, setting in self.settings.items():
            others = (setting.at_least, setting.at_most, setting.needs or None)
            if unknown := {other for other in others if isinstance(other, str)} - names:
                raise CatalogueError(
                    f"{self.where}.{name}: the key `at_least`, `at_most` or `needs` names the setting {min(unknown)}, "
                    "which does not exist"
                )
            if setting.form not in ("", *FORMS):
                raise CatalogueError(
                    f"{self.where}.{name}: unknown form {setting.form}; known forms: {', '.join(FORMS)}"
                )


#: DEFAULT: placeholder that `Checked` replaces with the default from the class's TOML table.
DEFAULT: Any = None


class Key(Setting, frozen=True, dict=True, kw_only=True):
    """One setting: a field of a settings class. `kind`: the setting's type."""

    name: str
    kind: Any

    @property
    def number(self) -> type | None:
        """The type (int or float) of a number, or of the numbers in a list or table; None for other settings."""
        return self._inner if self._inner in (int, float) else None

    @property
    def _inner(self) -> Any:
        arguments = [one for one in typing.get_args(self.kind) if one is not Ellipsis]
        return arguments[-1] if arguments else self.kind

    @property
    def range(self) -> str:
        """A description of the setting's bounds, or of its allowed texts (`one_of`) if the setting has no bounds.

        The description is '' if the setting has neither bounds nor allowed texts.
        """
        low, high = self.at_least, self.at_most
        if low is not None:
            return f"at least {_shown(low)}" if high is None else f"{_shown(low)} to {_shown(high)}"
        if high is not None:
            return f"at most {_shown(high)}"
        return f"one of {', '.join(self.one_of)}" if self.one_of else ""

    @property
    def wanted(self) -> str:
        """A description of the allowed values (type, form and range), which follows `must be` in an error message."""
        inner = {int: "whole number", float: "number", bool: "true or false", str: "string"}[self._inner]
        if (origin := typing.get_origin(self.kind)) is None:
            what = f"a {inner}" if self._inner is not bool else inner
            what += " that is not empty" if self.kind is str and self.default else ""
        else:
            what = f"a {'table' if origin is dict else 'list'} of {inner}s"
        words = f"{'each ' if origin else ''}{FORMS[self.form].words}" if self.form else ""
        return ", ".join(filter(None, (what, words, self.range)))

    @functools.cached_property
    def checked(self) -> Any:
        """The setting's type with its bounds, for checks by msgspec and for the JSON schema."""
        one = self._inner
        if self.number:
            low, high = (b if isinstance(b, int | float) else None for b in (self.at_least, self.at_most))
            one = Annotated[one, Meta(ge=-LARGEST if low is None else low, le=LARGEST if high is None else high)]
        elif self.one_of:
            one = Literal[self.one_of]
        elif one is str:
            empty, form = self.default == "", FORMS.get(self.form)
            pattern = {"pattern": f"^(?:{'|' * empty}{form.pattern})$"} if form and form.pattern else None
            least = 1 if self.kind is str and not empty else None
            one = Annotated[one, Meta(min_length=least, extra_json_schema=pattern)]
        origin: Any = typing.get_origin(self.kind)
        return one if origin is None else origin[(one, ...) if origin is tuple else (str, one)]

    def fitted(self, value: Any) -> Any:
        """Convert a value to the setting's type, for example a list to a tuple.

        Raises ValueError if the value is not allowed.
        """
        fitted = msgspec.convert(value, self.checked)
        texts = fitted.values() if isinstance(fitted, dict) else fitted if isinstance(fitted, tuple) else [fitted]
        form = FORMS.get(self.form)
        if form and not all(form.fits(text) for text in texts if text or self.kind is not str):
            raise ValueError
        return fitted


def keys(section: type) -> Mapping[str, Key]:
    """Return the settings of a class by name, in the order of their definition."""
    return _keys(section)


@functools.cache
def _keys(section: type) -> Mapping[str, Key]:
    kinds = typing.get_type_hints(section)
    fields = ((field.name, field.metadata["setting"]) for field in dataclasses.fields(section))
    return {name: Key(name=name, kind=kinds[name], **msgspec.structs.asdict(setting)) for name, setting in fields}


def complaint(section: type, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (first invalid key, the error message without this key); None if all values are valid.

    A key that is missing in `values` has its default.
    """
    fields, fitted = keys(section), {}
    for name, key in fields.items():
        try:
            fitted[name] = key.fitted(values.get(name, key.default))
        except ValueError:
            return name, f"must be {key.wanted}{_but(key, values[name])}"
    for name, key in fields.items():
        for bound, word, beyond in ((key.at_least, "least", lt), (key.at_most, "most", gt)):
            if isinstance(bound, str) and beyond(fitted[name], fitted[bound]):
                there = f"{bound} ({_shown(fitted[bound])})"
                return name, f"must be at {word} {there}{_but(key, fitted[name])}"
        if fitted[name] and key.needs and not fitted[key.needs]:
            return name, f"is set, but {key.needs} is not"
    return None


@dataclass(frozen=True)
class Checked:
    """Base class of settings classes: frozen dataclasses that raise SettingsError for an invalid value.

    `of`: the section of a TOML file from which a subclass gets its defaults.
    """

    def __init_subclass__(cls, of: Section | None = None) -> None:
        if of is not None:
            of.check(cls.__annotations__.keys())
            for name, setting in of.settings.items():
                default, metadata = setting.default, {"setting": setting}
                of_table = {"default_factory": default.copy} if isinstance(default, dict) else {"default": default}
                setattr(cls, name, dataclasses.field(**of_table, metadata=metadata))
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        wrong = complaint(type(self), vars(self))
        for sentence in [" ".join(wrong)] if wrong else self.contradictions():
            raise SettingsError(sentence)

    def contradictions(self) -> Iterable[str]:
        """Yield an error message (without the section's name) for each contradiction between valid values."""
        return ()


@typing.dataclass_transform(frozen_default=True)
class Stated(Checked):
    """Base of settings classes. `dataclass_transform` tells type checkers the parameters of each class."""


def _shown(number: float | str | None) -> str:
    return f"{number:.10g}" if isinstance(number, float) else str(number)


def _but(key: Key, value: Any) -> str:
    """Return the end of an error message: ", not VALUE" if the value is a number, otherwise ''."""
    return f", not {_shown(value)}" if key.number and type(value) in (int, float) and abs(value) < 1e15 else ""


_HOST = r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])"
_URL = rf"https?://(?:[^\s/@?#]*@)?{_HOST}(?::[0-9]{{1,5}})?(?:[/?#]\S*)?"


def _parses(url: str) -> bool:
    match = re.search(r"https?://\S+", url)
    return match is not None and urllib.parse.urlsplit(match[0]).port != 0


def _compiles(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        re.compile(expression)


FORMS: Mapping[str, Form] = {
    # A relative path starts at the current folder.
    "place": Form("a folder or URL"),
    "file": Form("a file"),
    "url": Form("http(s)://host[:port]", _URL, _parses),
    "page": Form(
        "http(s)://host[:port], labels in braces", _URL.replace(_HOST, rf"(?:{_HOST}|[0-9A-Za-z._{{}}-]+)"), _parses
    ),
    "alias": Form("as glob=name", ".+=[^=]+"),
    "target": Form("[SERVICE=]http(s)://host[:port]", rf"(?:\S+=)?{_URL}(?:\s+\S+=\S*)*", _parses),
    "servers": Form(
        "host:port, comma separated",
        rf"\s*{_HOST}:[0-9]{{1,5}}\s*(?:,\s*{_HOST}:[0-9]{{1,5}}\s*)*",
        lambda servers: all(int(server.rpartition(":")[2]) <= 65535 for server in servers.split(",")),
    ),
    "host": Form("a name or address without a port", r"[^\s/]+"),
    "topic": Form("a topic's name", r"[0-9A-Za-z._-]{1,249}"),
    "of-topic": Form("as topic=glob", r"[0-9A-Za-z._-]{1,249}=.+"),
    "expression": Form("a regular expression", test=_compiles),
    "shard": Form(
        "a part and the number of parts, such as 2/4",
        r"[1-9][0-9]{0,3}/[1-9][0-9]{0,3}",
        lambda part: le(*map(int, part.split("/"))),
    ),
    "mail": Form("an e-mail address", r"[^@\r\n]+@[^@\r\n]+"),
}
