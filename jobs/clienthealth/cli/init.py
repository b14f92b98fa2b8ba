"""`kafka-health init`: from the address of a cluster to a file of settings, topics, and the commands to start."""

from __future__ import annotations

import argparse
import sys
import textwrap
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clienthealth.initialise import Answers

HELP = "write the settings for a cluster, test the connection, create missing topics, ask clients for their metrics"

#: Options that say how to connect: a file of settings that is there says it already.
_CONNECTION = (
    *("bootstrap_servers", "security_protocol", "sasl_mechanism", "username", "password_file"),
    *("ca_file", "client_file", "metrics_topic", "logs_topic", "state"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Everything can be given; what is not is asked for where somebody can answer."""
    from clienthealth.initialise import LOGIN_MODULES, PROTOCOLS

    parser.description = (
        f"{HELP[0].upper()}{HELP[1:]}. Nothing is changed before you have seen what will be done. It can be run again: "
        "a file that is there is kept, and so are topics."
    )
    parser.add_argument("--out", metavar="FILE", default="health.toml", help="the file of settings (health.toml)")
    connection = parser.add_argument_group("the cluster")
    connection.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers")
    connection.add_argument("--security-protocol", choices=PROTOCOLS, help="default: PLAINTEXT")
    connection.add_argument("--sasl-mechanism", choices=list(LOGIN_MODULES), help="default: SCRAM-SHA-512")
    connection.add_argument("--username", metavar="NAME", help="user of SASL")
    connection.add_argument("--password-file", metavar="FILE", help="its first line is the password")
    connection.add_argument("--ca-file", metavar="PEM", help="authority that signed the brokers' certificates")
    connection.add_argument("--client-file", metavar="PEM", help="certificate and key of this client, in one file")
    topics = parser.add_argument_group("topics")
    topics.add_argument("--metrics-topic", metavar="NAME", action="append", help="read for metrics (client-metrics)")
    topics.add_argument("--logs-topic", metavar="NAME", action="append", help="read for logs (client-logs)")
    topics.add_argument("--partitions", metavar="N", type=int, default=12, help="of new input topics (12)")
    topics.add_argument("--replication-factor", metavar="N", type=int, default=-1, help="the brokers' default")
    parser.add_argument(
        "--state", metavar="DIR", help="folder or URL of checkpoints, history and reviews (the current folder)"
    )
    pushes = parser.add_argument_group("what clients push by themselves (KIP-714)")
    pushes.add_argument(
        "--push-interval",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="clients are asked to push their metrics so often, through brokers with our plugin (30); 0: do not ask",
    )
    parser.add_argument("--dry-run", action="store_true", help="connect, show what would be done, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def run(args: argparse.Namespace) -> int:
    """0 when all is there, 1 where the answer was no."""
    from clienthealth import initialise
    from clienthealth.configuration import load
    from clienthealth.errors import SettingsError
    from clienthealth.settings import KafkaSettings, Settings

    path = Path(args.config or args.out)
    answers = None
    if path.exists():
        given = [f"--{name.replace('_', '-')}" for name in _CONNECTION if getattr(args, name)]
        if given:
            raise SettingsError(f"{path} is there and says how to connect: edit it, or leave out {', '.join(given)}")
        settings = load(str(path))
        print(f"{path} is there and is kept.")
    else:
        answers = _answers(args)
        settings = Settings(kafka=KafkaSettings(answers.servers, answers.options()), topics=answers.topics)
    print(f"Connecting to {settings.kafka.bootstrap_servers} …", flush=True)
    missing, there = initialise.missing_topics(settings, args.partitions, args.replication_factor)
    print("The connection works.", *(f"The topic {name} is there." for name in there), sep="\n")
    asking = args.push_interval > 0
    unasked, asked = initialise.missing_subscriptions(settings, args.push_interval) if asking else ([], None)
    if asked:
        print(asked)
    if answers:
        print(f"\nTo be written, {path}:\n\n{textwrap.indent(answers.text(hidden=True), '  ')}")
    if missing:
        commands = (f"  {topic.command(settings.kafka.bootstrap_servers)}" for topic in missing)
        print("\nTopics to be created, as if by:", *commands, sep="\n")
    if unasked:
        commands = (f"  {subscription.command(settings.kafka.bootstrap_servers)}" for subscription in unasked)
        print("\nClients to be asked for their metrics, as if by:", *commands, sep="\n")
    if args.dry_run:
        print("\nNothing was changed (--dry-run).")
        return 0
    if (answers or missing or unasked) and not args.yes and not _agreed():
        print("Nothing was changed.")
        return 1
    if answers:
        initialise.write(path, answers.text())
        print(f"written: {path}")
    initialise.create_topics(settings, missing, print)
    initialise.subscribe(settings, unasked, print)
    print("\nAll is there. Now, each in a terminal of its own or as a service:")
    print(*(f"  {command}" for command in initialise.next_commands(str(path))), sep="\n")
    return 0


def _answers(args: argparse.Namespace) -> Answers:
    from clienthealth.errors import SettingsError
    from clienthealth.initialise import LOGIN_MODULES, PROTOCOLS, Answers
    from clienthealth.settings import TopicSettings

    asks = sys.stdin.isatty()
    if not args.bootstrap_servers and not asks:
        raise SettingsError("--bootstrap-servers is missing, and nobody is there to be asked")
    servers = args.bootstrap_servers or _ask("Brokers (host:port, comma separated)", "")
    protocol = args.security_protocol or (_ask("Security protocol", "PLAINTEXT", PROTOCOLS) if asks else "PLAINTEXT")
    login: dict[str, Any] = {}
    if protocol.startswith("SASL_"):
        chosen = args.sasl_mechanism or (_ask("SASL mechanism", "SCRAM-SHA-512", tuple(LOGIN_MODULES)) if asks else "")
        login["mechanism"] = chosen or "SCRAM-SHA-512"
        login["username"] = args.username or (_ask("User", "") if asks else "")
        login["password"] = _password(args.password_file) if args.password_file else getpass() if asks else ""
    if protocol.endswith("SSL"):
        login["ca_file"] = args.ca_file or (_ask("PEM file of the authority (empty: the system's)", "") if asks else "")
        login["client_file"] = args.client_file or ""
    default = TopicSettings()
    topics = TopicSettings(tuple(args.metrics_topic or default.metrics), tuple(args.logs_topic or default.logs))
    return Answers(servers, protocol, topics=topics, state=args.state or "", **login)


def _ask(what: str, default: str, choices: tuple[str, ...] = ()) -> str:
    shown = f" ({', '.join(choices)})" if choices else ""
    while True:
        answer = input(f"{what}{shown}{f' [{default}]' if default else ''}: ").strip() or default
        if not choices or answer in choices:
            return answer
        print(f"one of {', '.join(choices)}, please")


def _password(file: str) -> str:
    from clienthealth.errors import SettingsError

    try:
        return Path(file).read_text(encoding="utf-8").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--password-file {file}: cannot be read") from error


def _agreed() -> bool:
    from clienthealth.errors import SettingsError

    if not sys.stdin.isatty():
        raise SettingsError("nobody is there to say yes: --yes does it, --dry-run only shows it")
    return input("\nGo on? [y/N] ").strip().lower() in ("y", "yes")
