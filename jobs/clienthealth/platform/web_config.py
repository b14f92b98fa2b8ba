"""Read the web server's TLS options and users from a file in the format of Prometheus and its exporters.

https://prometheus.io/docs/prometheus/latest/configuration/https/ describes the format. Options are refused if Python
does not support them, or if they are unsafe.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from clienthealth.model.errors import DependencyError, SettingsError

_HASH = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
#: Maximum length of a password in bytes. A longer password is refused, because bcrypt ignores all bytes after the 72nd.
_MOST_BYTES = 72
#: Maximum number of correct logins in the cache. Without this cache, each request would take 0.1 s longer.
_REMEMBERED = 1000


class TlsServerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The section `tls_server_config`: PEM files with the server's certificate and key, and with the clients' CA."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = "NoClientCert"
    min_version: Literal["TLS12", "TLS13"] = "TLS12"

    def context(self, folder: Path) -> ssl.SSLContext:
        """Return the TLS context of the server. File names are relative to `folder`.

        Raises OSError if certificate, key or CA cannot be read.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if self.min_version == "TLS13" else ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(folder / self.cert_file, folder / self.key_file)
        if self.client_ca_file:
            context.load_verify_locations(folder / self.client_ca_file)
        required = self.client_auth_type == "RequireAndVerifyClientCert"
        asked = self.client_auth_type == "VerifyClientCertIfGiven"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL if asked else ssl.CERT_NONE
        return context


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tls_server_config: TlsServerConfig | None = None
    basic_auth_users: dict[str, str] = {}


class Access:
    """The server's TLS context (`tls`; None without TLS), and the users who may log in.

    `users`: maps a user's name to the bcrypt hash of the password. Without users, every request is allowed.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, users: Mapping[str, str] | None = None) -> None:
        self.tls = tls
        self._users = users or {}
        self._right: set[bytes] = set()

    def allows(self, authorization: str) -> bool:
        """True if a request is allowed. `authorization`: the request's header Authorization; '' without this header."""
        if not self._users:
            return True
        seen = hashlib.sha256(authorization.encode("utf-8", "replace")).digest()
        if seen in self._right:
            return True
        import bcrypt

        kind, _, encoded = authorization.partition(" ")
        try:
            named, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return False
        if kind.lower() != "basic" or not colon or len(password) > _MOST_BYTES or b"\0" in password:
            return False
        # Check a password even if the user is unknown: otherwise the response time would reveal which users exist.
        user = named.decode("utf-8", "replace")
        stored = self._users.get(user) or next(iter(self._users.values()))
        if not bcrypt.checkpw(password, stored.encode()) or user not in self._users:
            return False
        if len(self._right) < _REMEMBERED:
            self._right.add(seen)
        return True


def access(web_config_file: str) -> Access:
    """Read TLS options and users from a file. If `web_config_file` is '', there is no TLS and every request is allowed.

    Raises SettingsError if the file is wrong, and DependencyError if a Python package is missing. No message contains a
    password hash.
    """
    if not web_config_file:
        return Access()
    path = Path(web_config_file)
    try:
        import yaml

        config_file = msgspec.convert(yaml.safe_load(path.read_bytes()) or {}, _File)
    except ImportError:
        raise DependencyError("web_config_file needs PyYAML: pip install 'kafka-client-health[exporters]'") from None
    except OSError as error:
        raise SettingsError(_at(path, f"cannot be read: {error.strerror}")) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise SettingsError(_at(path, f"is not YAML{f' (line {mark.line + 1})' if mark else ''}")) from None
    except msgspec.ValidationError as error:
        raise SettingsError(_at(path, str(error))) from None
    wrong = sorted(user for user, stored in config_file.basic_auth_users.items() if not _HASH.fullmatch(stored))
    if wrong:
        raise SettingsError(_at(path, f"the password of {wrong[0]!r} must be a bcrypt hash (`htpasswd -nB` makes it)"))
    if config_file.basic_auth_users:
        try:
            import bcrypt  # noqa: F401
        except ImportError:
            raise DependencyError("passwords need bcrypt: pip install 'kafka-client-health[exporters]'") from None
    config = config_file.tls_server_config
    try:
        return Access(config.context(path.parent) if config else None, config_file.basic_auth_users)
    except OSError as error:
        raise SettingsError(
            _at(path, f"the server cannot use this certificate and key: {error.strerror or error}")
        ) from None


def _at(path: Path, what: str) -> str:
    return f"[prometheus] web_config_file {path}: {what}"
