"""`kafka-health init`: ask for a cluster's address, create settings and topics, print the commands to run next."""

from __future__ import annotations

import argparse
import sys
import textwrap
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clienthealth.ops.initialise import Answers
    from clienthealth.settings import Settings


def run(args: argparse.Namespace) -> int:
    """Create missing settings, topics and subscriptions of client metrics (KIP-714), once the user has agreed.

    Return 1 if the user refused the changes, a subscription could not be written, or a partition cannot be read.
    Otherwise return 0.
    """
    from clienthealth.ops import initialise

    path = Path(args.config or args.out)
    answers = None if path.exists() else _answers(args)
    settings = _kept(args, path) if answers is None else answers.settings()
    print(f"Connecting to {settings.kafka.bootstrap_servers} …", flush=True)
    topics = initialise.find_topics(settings, args.partitions, args.replication_factor)
    print("The connection works.", *topics.there, sep="\n")
    asking = args.push_interval > 0
    unasked, asked = initialise.missing_subscriptions(settings, args.push_interval) if asking else ([], None)
    if asked:
        print(asked)
    if answers:
        print(f"\nFile to write: {path}\n\n{textwrap.indent(answers.text(hidden=True), '  ')}")
    servers = settings.kafka.bootstrap_servers
    _show("Topics to create", [topic.command(servers) for topic in topics.missing])
    _show("Metrics to request from clients", [subscription.command(servers) for subscription in unasked])
    if args.dry_run:
        print("\nNothing was changed (--dry-run).")
        return 0
    if (answers or topics.missing or unasked) and not args.yes and not _agreed():
        print("Nothing was changed.")
        return 1
    if answers:
        initialise.write(path, answers.text())
        print(f"written: {path}")
    initialise.create_topics(settings, topics.missing, print)
    refused = initialise.subscribe(settings, unasked, print)
    lacking = [f"partitions cannot be read ({topics.unread})"] * bool(topics.unread)
    if refused:
        lacking.append(f"an administrator has to run the commands above for {' and '.join(refused)}")
    whole = f"Not complete: {'; '.join(lacking)}." if lacking else "Nothing is missing."
    print(f"\n{whole} Now start each of these programs in its own terminal or as a service:")
    for what in ("monitor", "export groups", "export prometheus"):
        print(f"  kafka-health {what} --config {path}")
    return int(bool(lacking))


def _show(what: str, commands: Sequence[str]) -> None:
    if commands:
        print(f"\n{what} (equivalent commands):", *(f"  {command}" for command in commands), sep="\n")


def _kept(args: argparse.Namespace, path: Path) -> Settings:
    """Return the settings of an existing file. Raises SettingsError if an option contradicts a setting."""
    from clienthealth.configuration import load, placed
    from clienthealth.model.errors import SettingsError
    from clienthealth.ops.initialise import PARTS
    from clienthealth.platform.logins import login_parts
    from clienthealth.settings import Settings as Defaults

    settings = load(str(path))
    given, parts = settings.kafka.options, login_parts(settings.kafka.options)
    login = {answer: parts.get(name) for name, answer in PARTS.get(given.get("sasl.mechanism", ""), {}).items()}
    compared = {
        "bootstrap-servers": (args.bootstrap_servers, settings.kafka.bootstrap_servers),
        "security-protocol": (args.security_protocol, given.get("security.protocol", "PLAINTEXT")),
        "sasl-mechanism": (args.sasl_mechanism, given.get("sasl.mechanism")),
        "username": (args.username, login.get("username")),
        "password-file": (_password(args.password_file), login.get("password")),
        "scope": (args.scope, login.get("scope")),
        "keytab": (args.keytab and str(Path(args.keytab).resolve()), login.get("keytab")),
        "token-url": (args.token_url, given.get("sasl.oauthbearer.token.endpoint.url")),
        "ca-file": (args.ca_file and str(Path(args.ca_file).resolve()), given.get("ssl.truststore.location")),
        "client-file": (args.client_file and str(Path(args.client_file).resolve()), given.get("ssl.keystore.location")),
        "metrics-topic": (tuple(args.metrics_topic or ()), settings.topics.metrics),
        "logs-topic": (tuple(args.logs_topic or ()), settings.topics.logs),
        "state": (args.state and placed(Defaults(), args.state).monitor.checkpoint, settings.monitor.checkpoint),
    }
    if others := [f"--{name}" for name, (given, there) in compared.items() if given and given != there]:
        raise SettingsError(f"{path} exists with other values: edit the file, or drop the options {', '.join(others)}")
    print(f"{path} exists and is not changed.")
    return settings


def _answers(args: argparse.Namespace) -> Answers:
    from clienthealth.model.errors import SettingsError
    from clienthealth.ops.initialise import PARTS, STORES, Answers
    from clienthealth.platform.logins import LOGINS, PROTOCOLS
    from clienthealth.settings import TopicSettings

    asks = sys.stdin.isatty()
    ask = partial(_ask, asks)
    if not args.bootstrap_servers and not asks:
        raise SettingsError("--bootstrap-servers is missing, and there is no terminal to ask for it: give this option")
    servers = ask(args.bootstrap_servers, "Brokers (host:port, comma separated)")
    protocol = ask(args.security_protocol, "Security protocol", "PLAINTEXT", PROTOCOLS)
    login: dict[str, Any] = {}
    if protocol.startswith("SASL_"):
        login["mechanism"] = ask(args.sasl_mechanism, "SASL mechanism", "SCRAM-SHA-512", tuple(LOGINS))
        if login["mechanism"] == "OAUTHBEARER":
            login["token_url"] = ask(args.token_url, "URL that issues tokens, or file:///… for a token in a file")
        # A token in a file needs no client id, secret or scope.
        ask = partial(_ask, asks and not login.get("token_url", "").startswith("file:"))
        for name, answer in PARTS[login["mechanism"]].items():
            secret = answer == "password"
            given = _password(args.password_file) if secret else getattr(args, answer)
            login[answer] = ask(given, name, read=getpass if secret else input)
        login |= {"keytab": str(Path(login["keytab"]).resolve())} if login.get("keytab") else {}
        ask = partial(_ask, asks)
    if protocol.endswith("SSL"):
        login["ca_file"] = ask(args.ca_file, "File with the brokers' CA (empty: the system's CAs)")
        login["client_file"] = ask(args.client_file, "File with this client's certificate and key (empty: none)")
        if {Path(login[file]).suffix.lower() for file in ("ca_file", "client_file")} & STORES.keys():
            login["store_password"] = ask(
                _password(args.store_password_file, "--store-password-file"), "Password of the stores", read=getpass
            )
    default = TopicSettings()
    topics = TopicSettings(tuple(args.metrics_topic or default.metrics), tuple(args.logs_topic or default.logs))
    return Answers(servers, protocol, topics=topics, state=args.state or "", **login)


def _ask(
    asks: bool,
    given: str | None,
    what: str,
    default: str = "",
    choices: Sequence[str] = (),
    read: Callable[[str], str] = input,
) -> str:
    """Return `given`. If `given` is empty, return the user's answer (if `asks` is True) or the default."""
    shown = f" ({', '.join(choices)})" if choices else ""
    while not given and asks:
        given = read(f"{what}{shown}{f' [{default}]' if default else ''}: ").strip() or default
        if not choices or given in choices:
            return given
        print(f"please answer with one of {', '.join(choices)}")
        given = None
    return given or default


def _password(file: str | None, option: str = "--password-file") -> str:
    from clienthealth.model.errors import SettingsError

    try:
        return Path(file).read_text(encoding="utf-8").split("\n", 1)[0] if file else ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{option} {file}: cannot be read") from error


def _agreed() -> bool:
    from clienthealth.model.errors import SettingsError

    if not sys.stdin.isatty():
        raise SettingsError(
            "there is no terminal to ask for confirmation: give --yes to confirm, or --dry-run to only show the changes"
        )
    return input("\nContinue? [y/N] ").strip().lower() in ("y", "yes")
