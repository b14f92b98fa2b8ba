"""`kafka-health dashboards push`: the dashboards into a Grafana, with the addresses of your settings."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError
from clienthealth.ops.cli import CONFIG
from clienthealth.platform import checkout

HELP = "send the dashboards to a Grafana, and incidents as annotations"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to, and as whom; the token is never an argument, which others could read."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "create or replace the dashboards; those that are there already are left alone"
    push = actions.add_parser("push", help=text, description=text)
    # After the action's name is where people write it.
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


def run(args: argparse.Namespace) -> int:
    """Push, and say what became of each."""
    settings = load(args.config)
    url = args.url or settings.links.dashboards
    if not url:
        raise SettingsError("no address of Grafana: give --url, or set [links] dashboards")
    build, push = checkout.load("dashboards.build"), checkout.load("dashboards.push")
    incidents = checkout.load("dashboards.annotations").incidents(args.incidents) if args.incidents else []
    with closing(push.Grafana(url, push.token(args.token_file), args.timeout)) as grafana:
        folder = grafana.folder(args.folder, args.folder_uid)
        for board in build.boards(settings).values():
            pushed = grafana.push(board, folder, args.message)
            print(f"{pushed.outcome:<9}  {pushed.title}  {pushed.url}")
        for incident in incidents:
            print(f"{grafana.annotate(incident):<9}  incident {incident.identity}")
    return 0
