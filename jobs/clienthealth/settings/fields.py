"""A setting: its default, its reason and its bounds. A settings class rejects invalid values with an error message.

An error message shows a wrong number, but never a wrong text, which may be a secret.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
import urllib.parse
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import gt, le, lt
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clienthealth.model.errors import SettingsError

#: Upper bound of all numbers: each must fit an integer of the JVM.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Form:
    """The required form of a text: a description, a pattern of the whole text, and a test.

    JSON schemas contain the pattern too. A text fails the test if that returns False for it, or raises ValueError,
    re.error, OverflowError or RecursionError.
    """

    words: str
    pattern: str = ""
    test: Callable[[str], object] = lambda _: True

    def fits(self, text: str) -> bool:
        """True if a text has this form."""
        try:
            like_it = not self.pattern or re.fullmatch(self.pattern, text) is not None
            return like_it and self.test(text) is not False
        except (ValueError, re.error, OverflowError, RecursionError):
            return False


@dataclass(frozen=True)
class Bounds:
    """The allowed values of a setting.

    at_least, at_most  a number, or the name of another numeric setting of the same section
    one_of             the allowed texts
    form               the form of the text, or of each text in a list
    needs              another setting of the section, which must be set if this one is
    """

    at_least: float | str | None = None
    at_most: float | str | None = None
    one_of: tuple[str, ...] = ()
    form: Form | None = None
    needs: str | None = None


def setting(default: Any, reason: str, **bounds: Any) -> Any:
    """Define a field of a settings class: its default, a line that states its purpose, and its `Bounds`.

    A text may be empty only if its default is empty.
    """
    metadata = {"reason": reason, "bounds": Bounds(**bounds)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Key:
    """One setting: a field of a settings class. `kind` is its type."""

    name: str
    kind: Any
    default: Any
    reason: str
    bounds: Bounds

    @property
    def number(self) -> type | None:
        """The type of its numbers (int or float), also within a list or table; None if it holds no numbers."""
        return self._inner if self._inner in (int, float) else None

    @property
    def _inner(self) -> Any:
        # The second argument of dict[str, int], the first of tuple[int, ...].
        arguments = [one for one in typing.get_args(self.kind) if one is not Ellipsis]
        return arguments[-1] if arguments else self.kind

    @property
    def range(self) -> str:
        """The setting's bounds in words; '' if it has none."""
        low, high = self.bounds.at_least, self.bounds.at_most
        if low is not None:
            return f"at least {_shown(low)}" if high is None else f"{_shown(low)} to {_shown(high)}"
        if high is not None:
            return f"at most {_shown(high)}"
        return f"one of {', '.join(self.bounds.one_of)}" if self.bounds.one_of else ""

    @property
    def wanted(self) -> str:
        """A description of the allowed values."""
        inner = {int: "whole number", float: "number", bool: "true or false", str: "string"}[self._inner]
        origin = typing.get_origin(self.kind)
        if origin is None:
            what = f"a {inner}" if self._inner is not bool else inner
            what += " that is not empty" if self.kind is str and self.default else ""
        else:
            what = f"a {'table' if origin is dict else 'list'} of {inner}s"
        form = self.bounds.form
        words = f"{'each ' if origin else ''}{form.words}" if form else ""
        return ", ".join(filter(None, (what, words, self.range)))

    @functools.cached_property
    def checked(self) -> Any:
        """The setting's type with its bounds, as msgspec checks it and writes it to a JSON schema."""
        bounds, one = self.bounds, self._inner
        if self.number:
            low, high = (b if isinstance(b, int | float) else None for b in (bounds.at_least, bounds.at_most))
            one = Annotated[one, Meta(ge=-LARGEST if low is None else low, le=LARGEST if high is None else high)]
        elif bounds.one_of:
            one = Literal[bounds.one_of]
        elif one is str:
            empty, form = self.default == "", bounds.form
            pattern = {"pattern": f"^(?:{'|' * empty}{form.pattern})$"} if form and form.pattern else None
            least = 1 if self.kind is str and not empty else None
            one = Annotated[one, Meta(min_length=least, extra_json_schema=pattern)]
        origin: Any = typing.get_origin(self.kind)
        return one if origin is None else origin[(one, ...) if origin is tuple else (str, one)]

    def fitted(self, value: Any) -> Any:
        """Convert a value to the setting's type, such as a list to a tuple. Raises ValueError if it is not allowed."""
        fitted = msgspec.convert(value, self.checked)
        texts = fitted.values() if isinstance(fitted, dict) else fitted if isinstance(fitted, tuple) else [fitted]
        form = self.bounds.form
        if form and not all(form.fits(text) for text in texts if text or self.kind is not str):
            raise ValueError
        return fitted


def keys(section: type) -> Mapping[str, Key]:
    """Return the settings of a class by name, in the order of their definition."""
    return _keys(section)


@functools.cache
def _keys(section: type) -> Mapping[str, Key]:
    kinds = typing.get_type_hints(section)
    by_name = {}
    for field in dataclasses.fields(section):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        by_name[field.name] = Key(field.name, kinds[field.name], default, **field.metadata)
    return by_name


def complaint(section: type, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first key with an invalid value, and the reason in words that follow its name; None if all are valid.

    Keys that are missing in `values` have their defaults.
    """
    fields, fitted = keys(section), {}
    for name, key in fields.items():
        try:
            fitted[name] = key.fitted(values.get(name, key.default))
        except ValueError:
            return name, f"must be {key.wanted}{_but(key, values[name])}"
    for name, key in fields.items():
        for bound, word, beyond in ((key.bounds.at_least, "least", lt), (key.bounds.at_most, "most", gt)):
            if isinstance(bound, str) and beyond(fitted[name], fitted[bound]):
                there = f"{bound} ({_shown(fitted[bound])})"
                return name, f"must be at {word} {there}{_but(key, fitted[name])}"
        if fitted[name] and key.bounds.needs and not fitted[key.bounds.needs]:
            return name, f"is set, but {key.bounds.needs} is not"
    return None


@dataclass(frozen=True)
class Checked:
    """Base class of settings: a frozen dataclass that checks its values when created. Raises SettingsError."""

    def __post_init__(self) -> None:
        wrong = complaint(type(self), vars(self))
        for sentence in [" ".join(wrong)] if wrong else self.contradictions():
            raise SettingsError(sentence)

    def contradictions(self) -> Iterable[str]:
        """Yield an error message for valid values that contradict each other, without the section's name."""
        return ()


def _shown(number: float | str | None) -> str:
    return f"{number:.10g}" if isinstance(number, float) else str(number)


def _but(key: Key, value: Any) -> str:
    """Return ", not VALUE" for an error message if setting and value are numbers (below 1e15), else ''."""
    return f", not {_shown(value)}" if key.number and type(value) in (int, float) and abs(value) < 1e15 else ""


# -- forms -------------------------------------------------------------------------------------------------------------

_HOST = r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])"
_URL = rf"https?://(?:[^\s/@?#]*@)?{_HOST}(?::[0-9]{{1,5}})?(?:[/?#]\S*)?"


def _parses(url: str) -> bool:
    match = re.search(r"https?://\S+", url)
    return match is not None and urllib.parse.urlsplit(match[0]).port != 0


def _compiles(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        re.compile(expression)


#: A relative path starts at the current folder; `configuration` makes it absolute.
PLACE = Form("a folder or URL")
#: Relative paths of files are treated like those of PLACE.
FILE = Form("a file")
URL = Form("http(s)://host[:port]", _URL, _parses)
PAGE = Form(
    "http(s)://host[:port], labels in braces", _URL.replace(_HOST, rf"(?:{_HOST}|[0-9A-Za-z._{{}}-]+)"), _parses
)
ALIAS = Form("as glob=name", ".+=[^=]+")
TARGET = Form("[SERVICE=]http(s)://host[:port]", rf"(?:\S+=)?{_URL}(?:\s+\S+=\S*)*", _parses)
SERVERS = Form(
    "host:port, comma separated",
    rf"\s*{_HOST}:[0-9]{{1,5}}\s*(?:,\s*{_HOST}:[0-9]{{1,5}}\s*)*",
    lambda servers: all(int(server.rpartition(":")[2]) <= 65535 for server in servers.split(",")),
)
HOST = Form("a name or address without a port", r"[^\s/]+")
TOPIC = Form("a topic's name", r"[0-9A-Za-z._-]{1,249}")
OF_TOPIC = Form("as topic=glob", r"[0-9A-Za-z._-]{1,249}=.+")
EXPRESSION = Form("a regular expression", test=_compiles)
SHARD = Form(
    "a part and of how many, as 2/4",
    r"[1-9][0-9]{0,3}/[1-9][0-9]{0,3}",
    lambda part: le(*map(int, part.split("/"))),
)
MAIL = Form("an e-mail address", r"[^@\r\n]+@[^@\r\n]+")
