"""Translate the options of [kafka] for Spark's Java client and for kafka-python.

The settings use the Java client's names (`security.protocol`). No error message contains an option's value, which may
be a secret.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from clienthealth.model.errors import DependencyError, ServiceError, SettingsError
from clienthealth.model.tables import converted, table
from clienthealth.platform.jars import java
from clienthealth.platform.secrecy import basic_auth, redacted

#: The options that all clients of kafka-python have in common, each with its default.
_SAME = {
    name: default
    for name, default in KafkaAdminClient.DEFAULT_CONFIG.items()
    if name in KafkaConsumer.DEFAULT_CONFIG
    and name in KafkaProducer.DEFAULT_CONFIG
    and not name.startswith(("ssl_", "sasl_plain_", "sasl_oauth_", "api_version", "bootstrap_servers"))
    and (default is None or isinstance(default, bool | int | float | str))
}
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class Login:
    """The options with which a SASL mechanism logs in.

    `module`    class of the login module that sasl.jaas.config must name
    `needs`     the login module's options that must be in sasl.jaas.config
    `defaults`  options of the Java client that are added if the settings do not have these options
    `package`   the Python package that kafka-python needs for this SASL mechanism; '' if it needs no package
    """

    module: str
    needs: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    package: str = ""


LOGINS = converted(table(Path(__file__).with_suffix(".toml")), dict[str, Login], "logins.toml")
_JAAS = "sasl.jaas.config"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
#: A token is renewed this number of seconds before the token expires.
_TOKEN_SPARE_SECONDS = 60
_JKS = bytes.fromhex("feedfeed")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def python_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Translate Java options to options of kafka-python.

    Raises SettingsError for wrong options, and for options that kafka-python does not have or would ignore.
    """
    mechanism, login, jaas = _login(options)
    translated: dict[str, Any] = {}
    for name, value in options.items():
        if name.replace(".", "_") in _SAME:
            translated[name.replace(".", "_")] = _typed(name, value)
        elif name not in _SPECIAL:
            supported = sorted({*_SPECIAL, *(same.replace("_", ".") for same in _SAME)})
            meant = "".join(f" (is {near} meant?)" for near in get_close_matches(name, supported, 1))
            raise OptionError(f"'{name}' is not supported{meant}; supported options: {', '.join(supported)}")
        elif name.endswith("callback.handler.class") and (login is None or login.defaults.get(name) != value):
            raise OptionError(f"remove {name}: sasl.mechanism determines the class of the handler")
    if "security.protocol" in options:
        translated["security_protocol"] = options["security.protocol"].upper()
    if login and login.package and find_spec(login.package) is None:
        package = login.package.replace("_", "-")
        raise OptionError(f"sasl.mechanism {mechanism} needs the Python package {package}")
    translated |= _tls(options)
    if login is None:
        return translated
    # kafka-python lacks AWS_MSK_IAM, but Amazon MSK also accepts OAUTHBEARER.
    if mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"):
        fetch = partial(_token, options[_TOKEN_URL], jaas) if mechanism == "OAUTHBEARER" else _aws(jaas)
        return translated | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _Tokens(fetch, jaas)}
    if mechanism == "GSSAPI":
        if keytab := jaas.get("keyTab"):
            os.environ["KRB5_CLIENT_KTNAME"] = keytab
        service = options.get("sasl.kerberos.service.name", "kafka")
        return translated | {"sasl_mechanism": mechanism, "sasl_kerberos_service_name": service}
    return translated | {"sasl_mechanism": mechanism, **{f"sasl_plain_{part}": jaas[part] for part in login.needs}}


def java_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options for Spark's Java client, including the options that a login needs.

    Raises SettingsError for options that the Java client or kafka-python would refuse or misunderstand.
    """
    _, login, _ = _login(options)
    return {**(login.defaults if login else {}), **options}


def login_parts(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of the login module in sasl.jaas.config. Return {} without SASL.

    Raises SettingsError for options that the Java client or kafka-python would refuse or misunderstand.
    """
    return _login(options)[2]


def jvm_flags(options: Mapping[str, str]) -> str:
    """Return a space and the JVM flag that permits requests to the token endpoint; '' without a token endpoint.

    Kafka's Java client requests tokens only from the addresses that this flag lists.
    """
    url = options.get(_TOKEN_URL)
    return f" -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}" if url else ""


class OptionError(SettingsError):
    """An option of [kafka] is wrong. The text names the option, but never its value."""

    def __init__(self, what: str) -> None:
        super().__init__(f"[kafka] options: {what}")


def _login(options: Mapping[str, str]) -> tuple[str, Login | None, Mapping[str, str]]:
    """Return (SASL mechanism, login, options of the login module); ('', None, {}) without SASL."""
    protocol, mechanism = options.get("security.protocol", PROTOCOLS[0]).upper(), options.get("sasl.mechanism", "")
    # kafka-python would treat an unknown protocol as PLAINTEXT.
    if protocol not in PROTOCOLS:
        raise OptionError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    for store in ("truststore", "keystore"):
        path, kind = options.get(f"ssl.{store}.location"), options.get(f"ssl.{store}.type", "JKS")
        if path and kind.upper() != "PEM" and not os.access(path, os.R_OK):
            raise OptionError(f"ssl.{store}.location names a file that cannot be read")
    if mechanism and mechanism not in LOGINS:
        raise OptionError(f"sasl.mechanism must be one of {', '.join(LOGINS)}")
    if not protocol.startswith("SASL_"):
        return "", None, {}
    if not mechanism:
        raise OptionError(f"security.protocol {protocol} needs sasl.mechanism ({', '.join(LOGINS)})")
    login = LOGINS[mechanism]
    text = options.get(_JAAS, login.defaults.get(_JAAS, ""))
    jaas = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS_OPTION.findall(text)}
    needs = [*login.needs]
    if mechanism == "OAUTHBEARER":
        url = urllib.parse.urlsplit(options.get(_TOKEN_URL, ""))
        if url.scheme not in ("https", "http", "file"):
            raise OptionError(f"sasl.mechanism OAUTHBEARER needs {_TOKEN_URL} to be an https, http or file URL")
        needs += ["clientId", "clientSecret"] * (url.scheme != "file")
    if mechanism == "AWS_MSK_IAM" and protocol != "SASL_SSL":
        raise OptionError("sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL")
    if text.split()[:1] != [login.module] or not jaas.keys() >= {*needs}:
        contents = f" and contains {' and '.join(needs)}" if needs else ""
        raise OptionError(f"sasl.mechanism {mechanism} needs a {_JAAS} that begins with {login.module}{contents}")
    return mechanism, login, jaas


def _typed(name: str, value: str) -> bool | int | str:
    default = _SAME[name.replace(".", "_")]
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, int | float) or name.endswith((".ms", ".bytes")):
            return int(value)
    except (KeyError, ValueError) as error:
        form = "true or false" if isinstance(default, bool) else "a whole number"
        raise OptionError(f"{name} is not {form}") from error
    return value


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's TLS options, with Java key stores converted to PEM."""
    checked = options.get("ssl.endpoint.identification.algorithm")
    translated: dict[str, Any] = {} if checked is None else {"ssl_check_hostname": checked != ""}
    kinds = {
        store: options.get(f"ssl.{store}.type", "JKS").upper()
        for store in ("truststore", "keystore")
        if f"ssl.{store}.location" in options
    }
    for store, kind in kinds.items():
        if kind not in ("PEM", "PKCS12", "JKS"):
            raise OptionError(f"ssl.{store}.type must be one of PEM, PKCS12, JKS")
    if {*kinds.values()} - {"PEM"}:
        return {"ssl_context": _context(options, kinds)}
    if "truststore" in kinds:
        translated["ssl_cafile"] = options["ssl.truststore.location"]
    if "keystore" in kinds:
        translated |= dict.fromkeys(("ssl_certfile", "ssl_keyfile"), options["ssl.keystore.location"])
    return translated | ({"ssl_password": options["ssl.key.password"]} if "ssl.key.password" in options else {})


def _context(options: Mapping[str, str], kinds: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if "truststore" in kinds:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = options.get("ssl.endpoint.identification.algorithm") != ""
    for store, kind in kinds.items():
        # Python's ssl module can load a key only from a file.
        with tempfile.NamedTemporaryFile() as file:
            try:
                file.write(_pem(options, store, kind))
                file.flush()
                if store == "truststore":
                    context.load_verify_locations(file.name)
                else:
                    context.load_cert_chain(
                        file.name, password=options.get("ssl.key.password") if kind == "PEM" else ""
                    )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                # Messages of libraries and of keytool may contain a secret.
                problem = f"cannot be read as {kind}; check the file, its type and password ({type(error).__name__})"
                raise OptionError(f"ssl.{store}.location {problem}") from None
            except DependencyError as error:
                raise OptionError(f"ssl.{store}.location cannot be read as JKS: {error}") from None
    return context


def _pem(options: Mapping[str, str], store: str, kind: str) -> bytes:
    """Return a key store as PEM. As in Java, both types, JKS and PKCS12, accept JKS files and PKCS12 files."""
    data, password = Path(options[f"ssl.{store}.location"]).read_bytes(), options.get(f"ssl.{store}.password", "")
    if kind == "PEM":
        return data
    if find_spec("cryptography") is None:
        raise OptionError(f"ssl.{store}.type {kind} needs the Python package cryptography")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.serialization import pkcs12

    if data.startswith(_JKS):
        with tempfile.TemporaryDirectory() as folder:
            (jks := Path(folder, "jks")).write_bytes(data)
            files = ("-srckeystore", str(jks), "-destkeystore", f"{folder}/p12", "-deststoretype", "PKCS12")
            passwords = ("-srcstorepass:env", "STORE", "-deststorepass:env", "STORE")
            keytool = str(Path(java()).resolve().with_name("keytool"))
            command = [keytool, "-importkeystore", "-noprompt", *files, *passwords]
            environment = {**os.environ, "STORE": password}
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment)
            data = Path(folder, "p12").read_bytes()
    key, own, others = pkcs12.load_key_and_certificates(data, password.encode())
    certificates = [certificate.public_bytes(forms.Encoding.PEM) for certificate in (own, *others) if certificate]
    keys = key and key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    return b"".join([keys or b"", *certificates])


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Token provider for OAUTHBEARER; `fetch` returns (token, epoch second of its renewal)."""

    def __init__(self, fetch: Callable[[], tuple[str, float]], jaas: Mapping[str, str]) -> None:
        self._fetch, self._lock, self._token, self._until = fetch, threading.Lock(), "", 0.0
        self._extensions = {
            name.removeprefix("extension_"): value for name, value in jaas.items() if name.startswith("extension_")
        }

    def token(self) -> str:
        """Return a valid token. Raises ServiceError if no token can be fetched; kafka-python then reconnects."""
        with self._lock:
            if time.time() >= self._until:
                try:
                    self._token, self._until = self._fetch()
                except Exception as error:  # Amazon's libraries raise errors of many types.
                    why = redacted(f"{type(error).__name__}: {error}")
                    raise ServiceError(f"no token: {why}") from error
            return self._token

    def extensions(self) -> Mapping[str, str]:
        return self._extensions


def _token(url: str, jaas: Mapping[str, str]) -> tuple[str, float]:
    """Return (token, epoch second of the token's renewal).

    For a token in a file, the renewal time is 0, so that each login reads the file again.
    """
    if url.startswith("file:"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)).read_text("utf-8").strip(), 0.0
    asked = {"grant_type": "client_credentials"} | ({"scope": jaas["scope"]} if "scope" in jaas else {})
    login = basic_auth(jaas["clientId"], jaas["clientSecret"])
    request = urllib.request.Request(url, urllib.parse.urlencode(asked).encode(), login)
    # As in Java, the login module's options may contain TLS options.
    context = _tls(jaas).get("ssl_context") or ssl.create_default_context(cafile=_tls(jaas).get("ssl_cafile"))
    with urllib.request.urlopen(request, timeout=10, context=context) as response:
        answer = json.load(response)
    return answer["access_token"], time.time() + answer.get("expires_in", 0) - _TOKEN_SPARE_SECONDS


def _aws(jaas: Mapping[str, str]) -> Callable[[], tuple[str, float]]:
    """Return a function that signs a token for Amazon MSK and returns (token, epoch second of the renewal)."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise OptionError("sasl.mechanism AWS_MSK_IAM needs AWS_REGION in the environment")
    sign = partial(Signer.generate_auth_token, region)
    if role := jaas.get("awsRoleArn"):
        name = jaas.get("awsRoleSessionName", "kafka-client-health")
        sign = partial(Signer.generate_auth_token_from_role_arn, region, role, name)
    elif profile := jaas.get("awsProfileName"):
        sign = partial(Signer.generate_auth_token_from_profile, region, profile)

    def signed() -> tuple[str, float]:
        token, expires_ms = sign()
        return token, expires_ms / 1000 - _TOKEN_SPARE_SECONDS

    return signed


_SPECIAL = {
    *("security.protocol", "sasl.mechanism", _JAAS, _TOKEN_URL),
    *(name for login in LOGINS.values() for name in login.defaults),
    *(f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "type", "password")),
    *("ssl.key.password", "ssl.endpoint.identification.algorithm"),
}
