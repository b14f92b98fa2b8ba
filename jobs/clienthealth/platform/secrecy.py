"""Hide secrets in errors, logs, tracebacks and output of commands.

Our own errors never repeat a setting's value. This module is the second line of defence, for messages of libraries and
for displayed options. This module hides the values of options named like secrets, passwords in addresses, and private
keys in PEM.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path

from clienthealth.model.errors import SettingsError

HIDDEN = "(hidden)"
#: Names of settings and options with secret values. The syntax is also valid in Java, because Spark uses this
#: pattern to hide values.
SECRET = r"(?i)passw|passphrase|jaas|secret|token|credential|access[._-]?key|api[._-]?key|\.key$"

_SECRET = re.compile(SECRET)
#: Patterns of secrets in a text. If a pattern has to match text before the secret, its first group has that text.
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_USER = re.compile(r"(://)[^/?#\s'\"]*@")
_NAME = r"(?:passw|passphrase|jaas|secret|token|credential|access[._-]?key|api[._-]?key)[\w.-]{0,80}"
_GIVEN = re.compile(rf"((?i:{_NAME})[\"']?\s*(?:=|:\s)\s*)(\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"',;&)}}\]]+)")


def is_secret(name: str) -> bool:
    """True if the value of an option with this name is a secret."""
    return _SECRET.search(name) is not None


def redacted(text: str) -> str:
    """Return the text without passwords in addresses, values of names like `password`, and private keys."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    return _GIVEN.sub(rf"\1{HIDDEN}", text)


def shown(options: Mapping[str, str]) -> dict[str, str]:
    """Return options for display.

    Values of options named like secrets are hidden, and also secrets within other values.
    """
    return {name: HIDDEN if is_secret(name) else redacted(value) for name, value in options.items()}


def basic_auth(user: str, password: str) -> dict[str, str]:
    """Return the header by which a user logs in to a server (HTTP Basic)."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def secret_in(file: str, setting: str) -> str:
    """Return the content of the file that a setting names; '' if the setting is empty. Raises SettingsError."""
    try:
        return Path(file).read_text(encoding="utf-8").strip() if file else ""
    except OSError as error:
        raise SettingsError(f"{setting}: {error.strerror}") from error
