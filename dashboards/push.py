"""Send dashboards to Grafana over its HTTP API, and create annotations there for incidents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import niquests
from grafana_client.api import GrafanaApi
from grafana_client.client import (
    GrafanaBadInputError,
    GrafanaClientError,
    GrafanaException,
    GrafanaServerError,
    GrafanaTimeoutError,
    GrafanaUnauthorizedError,
)

from clienthealth.model.errors import ServiceError, SettingsError
from dashboards.annotations import Incident
from dashboards.scope import TAG

TOKEN_VARIABLE = "GRAFANA_TOKEN"
_GRAFANAS_OWN = frozenset({"id", "version", "schemaVersion"})

Outcome = Literal["created", "updated", "unchanged"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Pushed:
    title: str
    outcome: Outcome
    url: str


def token(file: str | None) -> str:
    """Return the token of a Grafana service account from `file`, or from $GRAFANA_TOKEN if `file` is None.

    Raises SettingsError if there is no token, or if the file cannot be read.
    """
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the token cannot be read from {file}: {error}") from error
        if not text:
            raise SettingsError(f"the token file {file} is empty")
        return text
    text = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not text:
        raise SettingsError(
            "no token for Grafana: create a token for a service account with the role Editor, then give "
            f"--token-file or set ${TOKEN_VARIABLE}"
        )
    return text


class Grafana:
    def __init__(self, url: str, credential: str, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                f"'{url}' is no valid address of Grafana: write it as http://host:3000 or https://host/prefix"
            )
        if parts.username or parts.password:
            raise SettingsError("the address of Grafana must contain no password: use --token-file or $GRAFANA_TOKEN")
        self._url = url.rstrip("/")
        prefix = parts.path.strip("/")
        self._api: Any = GrafanaApi(
            credential,
            protocol=parts.scheme,
            host=parts.hostname,
            port=parts.port,
            url_path_prefix=f"{prefix}/" if prefix else "",
            timeout=timeout,
        )

    def close(self) -> None:
        self._api.client.s.close()

    def folder(self, title: str, uid: str) -> str:
        """Create the Grafana folder with this uid if it does not exist. Return the uid."""
        if self._get(lambda: self._api.folder.get_folder(uid)) is None:
            with self._request(f"the folder '{title}'"):
                self._api.folder.create_folder(title, uid)
        return uid

    def push(self, board: Mapping[str, Any], folder: str, message: str) -> Pushed:
        there = self._get(lambda: self._api.dashboard.get_dashboard(board["uid"]))
        address = f"{self._url}/d/{board['uid']}"
        if there is not None and _same(there, board, folder):
            return Pushed(board["title"], "unchanged", address)
        # Without `folderUid`, Grafana moves the dashboard to the folder General.
        payload = {"dashboard": {**board, "id": None}, "folderUid": folder, "overwrite": True, "message": message}
        with self._request(f"the dashboard '{board['title']}'"):
            self._api.dashboard.update_dashboard(payload)
        return Pushed(board["title"], "created" if there is None else "updated", address)

    def annotate(self, incident: Incident) -> Outcome:
        """Create or update the annotation of the incident."""
        with self._request("annotations"):
            there = self._api.annotations.find_annotations(tags=[TAG, quote(incident.identity, safe="")])
            if not there:
                self._api.annotations.add_annotation(**incident.annotation())
                return "created"
            annotation = incident.annotation()
            if (there[0].get("timeEnd"), there[0].get("text")) == (annotation["time_to"], annotation["text"]):
                return "unchanged"
            self._api.annotations.update_annotation(there[0]["id"], **annotation)
            return "updated"

    def _get(self, ask: Callable[[], Answer]) -> Answer | None:
        with self._request("a look-up"):
            try:
                return ask()
            except GrafanaClientError as error:
                if error.status_code == 404:
                    return None
                raise

    @contextmanager
    def _request(self, what: str) -> Iterator[None]:
        try:
            yield
        except GrafanaUnauthorizedError as error:
            raise ServiceError(f"Grafana at {self._url} does not accept the token (401): create a new one") from error
        except GrafanaTimeoutError as error:
            raise ServiceError(f"Grafana at {self._url} did not answer in time ({what})") from error
        except GrafanaBadInputError as error:
            raise ServiceError(f"Grafana refuses {what} (400): {_message(error)}") from error
        except GrafanaClientError as error:
            raise ServiceError(f"Grafana refuses {what} ({error.status_code}): {_advice(error)}") from error
        except GrafanaServerError as error:
            raise ServiceError(f"Grafana at {self._url} failed on {what} ({error.status_code}): see its log") from error
        except (GrafanaException, niquests.exceptions.RequestException) as error:
            raise ServiceError(f"Grafana at {self._url} cannot be reached: {type(error).__name__}") from error


def _same(there: Mapping[str, Any], board: Mapping[str, Any], folder: str) -> bool:
    ours = {key: value for key, value in board.items() if key not in _GRAFANAS_OWN}
    return there.get("meta", {}).get("folderUid") == folder and _holds(there["dashboard"], ours)


def _holds(there: Any, ours: Any) -> bool:
    if isinstance(ours, Mapping):
        return isinstance(there, Mapping) and all(key in there and _holds(there[key], ours[key]) for key in ours)
    if isinstance(ours, list):
        same_length = isinstance(there, list) and len(there) == len(ours)
        return same_length and all(_holds(one, other) for one, other in zip(there, ours, strict=True))
    return bool(there == ours)


def _message(error: GrafanaException) -> str:
    response = error.response
    return str(response.get("message", response)) if isinstance(response, Mapping) else str(response)


def _advice(error: GrafanaClientError) -> str:
    if error.status_code == 403:
        return "the token lacks the right to do this; give the token's service account the role Editor"
    if error.status_code == 412:
        return f"another user changed the dashboard, or Grafana loads it from a file: {_message(error)}"
    return _message(error)
