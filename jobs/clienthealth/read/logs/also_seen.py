"""Recognise known issues of clients (`also_seen.toml`) in log lines and options.

Known issues are counted, but cause no verdict and no alert.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clienthealth.model.clients import Kind
from clienthealth.model.tables import table
from clienthealth.read.logs.times import number
from clienthealth.read.logs.wordings import Meaning, meanings

#: An option with this prefix in its name is a measurement of the client.
MEASURED = "measured."


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"one_of": "is"}):
    """A condition on the value of a client's option. The condition gives texts, a pattern or limits for the value.

    `option`  the option's name, or `measured.` and the name of one of the client's measurements
    `one_of`  the values for which the condition holds, in lower case; the key in TOML is `is`
    `like`    a regular expression that the whole value must match, as an alternative to `one_of`
    `below`   the condition holds for a value below this limit
    `above`   the condition holds for a value above this limit
    `of`      name of an option if `below` and `above` are multiples of the option's value; '' if they are plain numbers
    """

    option: str
    one_of: tuple[str, ...] = ()
    like: str = ""
    below: float | None = None
    above: float | None = None
    of: str = ""

    def holds(self, options: Mapping[str, str]) -> bool:
        """True if the condition holds. False if the client does not report the option."""
        text, measured = options.get(self.option), number(options.get(self.option))
        if text is not None and (self.one_of or self.like):
            return text.lower() in self.one_of or bool(self.like and re.fullmatch(self.like, text))
        unit = number(options.get(self.of)) if self.of else 1.0
        if measured is None or unit is None:
            return False
        is_below = self.below is not None and measured < self.below * unit
        return is_below or (self.above is not None and measured > self.above * unit)


class Trouble(Meaning, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    """A known issue, reported in addition to the verdicts. `says` is the issue's title.

    `id`             the name of the issue's table in TOML; records, the history and JSON use the same id
    `sentence`       one or two sentences that describe the issue
    `action`         what to do about the issue
    `least`          lower limit for the number of lines in a run of lines about the issue; a shorter run is normal
    `apart_seconds`  a run with fewer lines than `least` ends after this time (s) without a line
    `when`           required conditions on the client's options or measurements; all conditions must hold
    `source`         URL of the option's documentation; '' if log lines show the issue
    """

    id: str
    sentence: str
    action: str
    least: int = 1
    apart_seconds: int = 3_600
    when: tuple[Condition, ...] = ()
    source: str = ""

    @property
    def hint(self) -> bool:
        """True if the client's options show the issue. False if log lines or measurements show the issue."""
        return bool(self.when) and not any(one.option.startswith(MEASURED) for one in self.when)


_TABLES = table(Path(__file__).with_suffix(".toml"))
_SOURCES = _TABLES.pop("sources")
#: A literal must not contain these characters, because raw JSON, in which literals are searched for, may escape these
#: characters.
_ESCAPED = re.compile(r"[\"\\<>&'=/+]")
_WORDS = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
#: Matches the end of an error's class name in a log line, but not the end of a class name in source code.
_THROWN = r"(?:Exception|Error)(?=: \S|\]|['\"]| - | at |, :message=>|\s*(?:\n|\Z))"


def _named(error: str) -> dict[str, object]:
    """Return the TOML table of a log pattern that matches a protocol error's class name."""
    return {
        "id": f"error-{error}",
        "source": _SOURCES["named"],
        "literal": error,
        "pattern": rf"(?:Kafka::|pykafka\.exceptions\.|\bError: ){error}(?:Error)?\b|\b{error}{_THROWN}"
        rf"|(?:\b(?:got|get(?:ting)?|threw|saw|seeing|errors?(?: for)?|with) (?:an? )?|返回 ?|[报爆抛]出?了? ?)\W?"
        rf"(?:[\w.]{{1,60}}\.)?{error}",
        "examples": [{"line": f"{where}{error}"} for where in ("Kafka::", "Error: ", "we got a ")],
    }


def _coded(error: str) -> dict[str, object]:
    """Return the TOML table of a log pattern that matches a protocol error's code (for example, `NOT_LEADER`).

    Elixir and Erlang write an error's code as an atom.
    """
    code, atom = (case(_WORDS.sub("_", error)) for case in (str.upper, str.lower))
    return {
        "id": f"code-{error}",
        "source": _SOURCES["named"],
        "literal": code,
        "or_literals": ["{:error, :", "{error,", "eason: :", "error_code"],
        "pattern": rf"(?:\b(?:[Ee]rror[\"']?[:=]? ?|code[\"']?[:=] ?)|\"type\": ?|返回 ?)[\"'`]?{code}(?:_FAILED)?\b"
        rf"|\b(?:failed:?|returned|answered|got|reason:|cause:) \(?{code}(?=[.;)\s]|\Z)"
        rf"|(?:\{{:error, :|\{{error,|eason: :|error_code:? :){atom}\b",
        "examples": [
            {"line": f"Error: {code}"},
            {"line": f'"type":"{code}"'},
            {"line": f"commit failed: {code}"},
            {"line": f"{{:error, :{atom}}}"},
            {"line": f"metadata failed with error_code :{atom}"},
        ],
    }


def _described(library: str, text: str) -> dict[str, object]:
    """Return the TOML table of a log pattern that matches a library's description of an error."""
    shared = library in ("librdkafka", "sarama")
    return {
        "id": f"text-{text}",
        "source": {library: _SOURCES["described"][library]},
        "literal": text[: text.index(": ") + 2] if shared else max(_ESCAPED.split(text), key=len),
        "pattern": re.escape(text),
        "examples": [{"line": text}],
    }


def _reported(name: str, sentences: Sequence[str]) -> dict[str, object]:
    """Return the TOML table of a log pattern for a person's report of an issue. `sentences`: examples of reports."""
    source = {"any": "a person reports the issue"}
    return {
        "id": f"{name}-reported",
        "source": source,
        "reports": name,
        "examples": [{"line": one} for one in sentences],
    }


def _with_errors(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in entry.items() if key not in ("errors", "texts", "reported")}
    errors = entry.get("errors", ())
    described = [_described(library, text) for library, texts in entry.get("texts", {}).items() for text in texts]
    described += [_reported(name, entry["reported"])] if "reported" in entry else []
    wordings = [*entry.get("wordings", ()), *map(_named, errors), *map(_coded, errors), *described]
    return {**rest, "id": name, "wordings": wordings}


#: All known issues by id, the most serious first.
BY_ID = meanings({name: _with_errors(name, entry) for name, entry in _TABLES.items()}, Trouble, "logs/also_seen.toml: ")
TROUBLES = tuple(BY_ID.values())


def lint(options: Mapping[str, str], kind: Kind | None) -> list[tuple[Trouble, str]]:
    """Return (known issue, text) for each issue that a client's options or measurements show.

    `text` lists the options and measurements in the issue's conditions, as `name = value, …`. Issues
    that measurements show come first. In `options`, the names of measurements begin with `measured.`.
    """
    found = []
    for trouble in TROUBLES if options else ():
        if trouble.when and trouble.kind in (None, kind) and all(one.holds(options) for one in trouble.when):
            names = dict.fromkeys(name for one in trouble.when for name in (one.option, one.of) if name)
            found.append((trouble, ", ".join(f"{name.removeprefix(MEASURED)} = {options[name]}" for name in names)))
    return sorted(found, key=lambda item: item[0].hint)
