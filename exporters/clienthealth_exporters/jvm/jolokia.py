"""Read MBeans and thread dumps through Jolokia agents."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from clienthealth.model.errors import ServiceError
from clienthealth.platform.secrecy import basic_auth

#: Maximum size of an answer, enough for some 100,000 attributes.
MAX_BYTES = 64 * 1024 * 1024
MAX_PIECE = 1024 * 1024

_DUMP = {
    "type": "exec",
    "mbean": "com.sun.management:type=DiagnosticCommand",
    "operation": "threadPrint",
    "arguments": [[]],
}


class JolokiaError(ServiceError):
    """The agent did not answer, refused the request, or is not a Jolokia agent."""


class Jolokia:
    """The Jolokia agent at `url`.

    `timeout`: maximum time (s) of each step: connecting, waiting, reading the answer.
    """

    def __init__(self, url: str, timeout: float, user: str = "", password: str = "") -> None:
        self.url = url
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"}
        if user:
            self._headers |= basic_auth(user, password)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self, patterns: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Read MBeans with one request. Return the attributes of each matching MBean, by MBean name.

        `patterns`: maps each pattern of MBean names to the attributes to read ([] for all). Raises JolokiaError if the
        agent gives no complete answer.
        """
        requests: list[dict[str, Any]] = [
            {"type": "read", "mbean": pattern, "config": {"ignoreErrors": True}}
            | ({"attribute": list(attributes)} if attributes else {})
            for pattern, attributes in patterns.items()
        ]
        responses = self._post(requests)
        if not isinstance(responses, list) or not all(isinstance(response, dict) for response in responses):
            raise JolokiaError(f"{self.url}: the answer does not come from a Jolokia agent")
        mbeans: dict[str, dict[str, Any]] = {}
        for response in responses:
            value = response.get("value")
            if response.get("status") != 200:
                if response.get("status") != 404:
                    raise JolokiaError(f"{self.url}: {_reason(response)}")
            elif "*" in response["request"]["mbean"]:
                mbeans.update({name: attributes for name, attributes in value.items() if attributes})
            else:
                mbeans[response["request"]["mbean"]] = value
        return mbeans

    def thread_dump(self) -> str:
        """Return a thread dump as `jcmd Thread.print` writes it. Raises JolokiaError if the agent gives no dump."""
        response = self._post(_DUMP)
        if not isinstance(response, dict) or response.get("status") != 200:
            raise JolokiaError(f"{self.url}: the agent returned no thread dump: {_reason(response)}")
        return str(response["value"])

    def _post(self, body: object) -> Any:
        request = urllib.request.Request(self.url, json.dumps(body).encode(), self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                content, deadline = bytearray(), time.monotonic() + self._timeout
                while piece := response.read1(MAX_PIECE):
                    content += piece
                    if len(content) > MAX_BYTES:
                        raise JolokiaError(f"{self.url}: the answer is larger than {MAX_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise JolokiaError(f"{self.url}: the answer is not complete after {self._timeout:g} s")
        except urllib.error.HTTPError as error:
            raise JolokiaError(f"{self.url}: HTTP {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise JolokiaError(f"{self.url}: {getattr(reason, 'strerror', None) or reason}") from error
        try:
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(content)
            # Older agents write NaN, which `msgspec` rejects and `json` accepts.
            return json.loads(content)
        except ValueError as error:
            raise JolokiaError(f"{self.url}: the answer is not JSON") from error


def _reason(response: object) -> str:
    if isinstance(response, dict):
        return f"status {response.get('status')}: {str(response.get('error'))[:200]}"
    return "unexpected answer"
