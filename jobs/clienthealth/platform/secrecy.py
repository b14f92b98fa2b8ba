"""Hide secrets in errors, logs, tracebacks and output of commands.

Three kinds of text are secrets: the value of an option with a name like `password`, a password in a URL, and a private
key in PEM.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path

from clienthealth.model.errors import SettingsError

HIDDEN = "(hidden)"
#: Matches the names of options with secret values. Spark uses this pattern too, so the pattern must be valid in Java.
SECRET = r"(?i)passw|passphrase|jaas|secret|token|credential|access[._-]?key|api[._-]?key|\.key$"

_SECRET = re.compile(SECRET)
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
#: Group 1 of `_USER` and of `_GIVEN` is the text that `redacted` keeps.
_USER = re.compile(r"(://)[^/?#\s'\"]*@")
_NAME = r"(?:passw|passphrase|jaas|secret|token|credential|access[._-]?key|api[._-]?key)[\w.-]{0,80}"
_GIVEN = re.compile(
    rf"((?i:{_NAME})\\*[\"']?\s*(?:=|:\s|(?<=[\"']):|:(?=\\*[\"']))\s*)"
    r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|(\\+[\"'])(?s:.)*?(?:(?<!\\)\2|\Z)|[^\s\"',;&)}\]]+)"
)


def is_secret(name: str) -> bool:
    """True if the value of an option with this name is a secret."""
    return _SECRET.search(name) is not None


def redacted(text: str) -> str:
    """Replace private keys, logins in URLs, and values after names like `password` by `(hidden)`. Return the text."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    return _GIVEN.sub(rf"\1{HIDDEN}", text)


def shown(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options. Secrets are hidden: the whole value of a secret option, and secrets within other values."""
    return {name: HIDDEN if is_secret(name) else redacted(value) for name, value in options.items()}


def basic_auth(user: str, password: str) -> dict[str, str]:
    """Return the HTTP header `Authorization` for a login with user and password (HTTP Basic)."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def secret_in(file: str, setting: str) -> str:
    """Return the secret that a file contains, without blanks around it; '' if `file` is ''.

    Raises SettingsError if the file cannot be read; `setting` is the beginning of the error's text.
    """
    try:
        return Path(file).read_text(encoding="utf-8").strip() if file else ""
    except OSError as error:
        raise SettingsError(f"{setting}: {error.strerror}") from error
