"""Get schemas by id from a schema registry, and decode values with these schemas.

The requests use Confluent's REST API (`GET /schemas/ids/{id}`). Apicurio and Redpanda also offer this API. A request
without an answer is repeated for at most `[registry] patience_seconds` and then fails.
"""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from clienthealth.model.errors import DependencyError, InputError, ServiceError, SettingsError
from clienthealth.platform.secrecy import basic_auth, secret_in
from clienthealth.settings import RegistrySettings

_LOG = logging.getLogger(__name__)

UNKNOWN_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_SUBJECT_NOT_FOUND = 404
_REFUSED = (401, 403)


class UnknownSchemaError(InputError):
    """The registry does not have the requested schema, or the requested version of a subject."""


@dataclass(frozen=True)
class Schema:
    """A schema. `kind`: AVRO, PROTOBUF or JSON. `avro`: fastavro's parsed schema; None if `kind` is not AVRO."""

    kind: str
    avro: Any = None

    def read(self, data: memoryview) -> Any:
        """Decode an Avro value to Python types. Logical types are ignored, so a time stays a number.

        Raises ValueError if `data` does not match the schema.
        """
        import io

        import fastavro

        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, self.avro, None)
        except Exception as error:  # noqa: BLE001 - malformed bytes can make fastavro raise any error
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left after the value")
        return value


def schema(settings: RegistrySettings, number: int) -> Schema:
    """Return the schema with this number (its id in the registry).

    Raises UnknownSchemaError if the registry has no such schema, and ServiceError if it does not answer or rejects the
    login. Raises DependencyError if fastavro is missing, and SettingsError if a file in [registry] cannot be read.
    """
    try:
        client = _clients(settings)
    except OSError as error:
        raise SettingsError(f"[registry] {error.filename or 'cert_file'}: {error.strerror or error}") from None
    return client.schema(number)


class _Client:
    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._schemas: dict[int, Schema] = {}
        self._missing: dict[int, float] = {}
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.user:
            password = secret_in(settings.password_file, f"[registry] {settings.password_file}")
            self._headers |= basic_auth(settings.user, password)
        self._tls: ssl.SSLContext | None = None
        if settings.url.startswith("https:"):
            self._tls = ssl.create_default_context(cafile=settings.ca_file or None)
            if settings.cert_file:
                self._tls.load_cert_chain(settings.cert_file, settings.key_file or None)

    def schema(self, number: int) -> Schema:
        if (schema := self._schemas.get(number)) is None:
            if self._missing.get(number, 0.0) > time.monotonic():
                raise UnknownSchemaError(f"the schema registry has no schema {number}")
            try:
                document, avro = self._ask(f"schemas/ids/{number}"), None
                if (kind := str(document.get("schemaType") or "AVRO")) == "AVRO":
                    import fastavro

                    named: dict[str, Any] = {}
                    self._refer(document, named)
                    avro = fastavro.parse_schema(_plain(json.loads(document["schema"])), named_schemas=named)
                schema = self._schemas[number] = Schema(kind, avro)
            except ModuleNotFoundError:
                text = "Avro needs the extra 'binary': pip install 'kafka-client-health[binary]'"
                raise DependencyError(text) from None
            except UnknownSchemaError:
                self._missing[number] = time.monotonic() + UNKNOWN_SECONDS
                raise UnknownSchemaError(f"the schema registry has no schema {number}") from None
        return schema

    def _refer(self, document: Mapping[str, Any], named: dict[str, Any]) -> None:
        import fastavro

        for reference in document.get("references") or ():
            subject = urllib.parse.quote(str(reference["subject"]), safe="")
            other = self._ask(f"subjects/{subject}/versions/{reference['version']}")
            self._refer(other, named)
            fastavro.parse_schema(_plain(json.loads(other["schema"])), named_schemas=named)

    def _ask(self, path: str) -> Mapping[str, Any]:
        """Return the registry's response for a path; repeat a failed request for up to `patience_seconds`."""
        url, seconds = f"{self._settings.url.rstrip('/')}/{path}", self._settings.timeout_seconds
        deadline, pause = time.monotonic() + self._settings.patience_seconds, _FIRST_PAUSE
        while True:
            try:
                request = urllib.request.Request(url, headers=self._headers)
                with urllib.request.urlopen(request, timeout=seconds, context=self._tls) as response:
                    document: Mapping[str, Any] = json.load(response)
                    return document
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == _SUBJECT_NOT_FOUND:
                    raise UnknownSchemaError(url) from None
                why = f"HTTP {error.code} {error.reason}"
                if error.code in _REFUSED:
                    raise ServiceError(
                        f"the schema registry {self._settings.url} refuses the request: {why}; check [registry] "
                        "user, password_file, cert_file"
                    ) from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                why = str(getattr(error, "reason", error))
            if time.monotonic() + pause > deadline:
                raise ServiceError(
                    f"the schema registry {self._settings.url} does not answer: {why}; "
                    "the records that need a schema are read again later"
                )
            _LOG.warning("the schema registry does not answer (%s); the next attempt is in %.1f s", why, pause)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


_clients = cache(_Client)


def _plain(schema: Any) -> Any:
    """Return the schema without logical types, so that fastavro decodes no value as a date or decimal."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
