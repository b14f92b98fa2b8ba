"""`kafka-health alerts`, `dashboards push` and `generate`: write the files that derive from the code.

The first two serve an installation, with its addresses and labels. The last renews the committed files.
"""

from __future__ import annotations

import argparse
import importlib
from contextlib import closing
from pathlib import Path

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError
from clienthealth.ops.cli import CONFIG
from clienthealth.platform import locations

HELP = {
    "alerts": "write the alert rules and Alertmanager's files, with the addresses and labels of your settings",
    "dashboards": "send the dashboards to a Grafana, and incidents as annotations",
    "generate": (
        "write the generated files of the repository (alerts, dashboards, docs), or check that they are current"
    ),
}

GENERATORS = (
    "clienthealth_exporters.alerts.build",
    "dashboards.build",
    "deploy.helm.build",
    "clienthealth.ops.reference",
)


def configure_alerts(parser: argparse.ArgumentParser) -> None:
    """Add the options: the folder, and whether alerts may page yet."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument("--dry-run", action="store_true", help="lower every severity to info, which no person receives")


def run_alerts(args: argparse.Namespace) -> int:
    """Write the files and name them."""
    build = importlib.import_module("clienthealth_exporters.alerts.build")
    print(*build.write(args.out, load(args.config), args.dry_run), sep="\n")
    return 0


def configure_dashboards(parser: argparse.ArgumentParser) -> None:
    """Add the options: the Grafana and its user. The token is never an argument, because others can read arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "create or replace the dashboards; those that are there already are left alone"
    push = actions.add_parser("push", help=text, description=text)
    # Accept --config here too, because people write options after the action's name.
    push.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=CONFIG)
    push.add_argument("--url", help="address of Grafana (default: [links] dashboards of the settings)")
    push.add_argument(
        "--token-file", metavar="FILE", help="file with a service account's token (default: $GRAFANA_TOKEN)"
    )
    push.add_argument("--folder", default="Kafka clients", help="title of the folder (default: %(default)s)")
    push.add_argument("--folder-uid", default="kafka-client-health", help="its uid (default: %(default)s)")
    push.add_argument("--message", default="kafka-health dashboards push", help="for the dashboards' version history")
    push.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="for one request (default: 10)")
    push.add_argument("--incidents", type=Path, metavar="REVIEW_JSON", help="also annotate the incidents of a review")


def run_dashboards(args: argparse.Namespace) -> int:
    """Push the dashboards and print the outcome for each."""
    settings = load(args.config)
    url = args.url or settings.links.dashboards
    if not url:
        raise SettingsError("no address of Grafana: give --url, or set [links] dashboards")
    build, push = locations.of_checkout("dashboards.build"), locations.of_checkout("dashboards.push")
    incidents = locations.of_checkout("dashboards.annotations").incidents(args.incidents) if args.incidents else []
    with closing(push.Grafana(url, push.token(args.token_file), args.timeout)) as grafana:
        folder = grafana.folder(args.folder, args.folder_uid)
        for board in build.boards(settings).values():
            pushed = grafana.push(board, folder, args.message)
            print(f"{pushed.outcome:<9}  {pushed.title}  {pushed.url}")
        for incident in incidents:
            print(f"{grafana.annotate(incident):<9}  incident {incident.identity}")
    return 0


def configure_generate(parser: argparse.ArgumentParser) -> None:
    """Add the options: write, or only check."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")


def run_generate(args: argparse.Namespace) -> int:
    """Write the files that differ, or (`--check`) name them."""
    stale = []
    for generator in GENERATORS:
        for path, content in sorted(locations.of_checkout(generator).generate().items()):
            file = locations.checkout() / path
            if file.is_file() and file.read_text(encoding="utf-8") == content:
                continue
            stale.append(path)
            if not args.check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{'differs from its declaration' if args.check else 'written'}: {path}")
    if args.check and stale:
        print("run 'kafka-health generate' and commit the result")
    return int(args.check and bool(stale))
