"""The command `dashboards push`: send the dashboards to a Grafana, and incidents as annotations."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError
from clienthealth.ops.cli import CONFIG


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    """Push the dashboards and print the outcome for each."""
    from dashboards import annotations, build, push

    settings = load(args.config)
    url = args.url or settings.links.dashboards
    if not url:
        raise SettingsError("no address of Grafana: give --url, or set [links] dashboards")
    incidents = annotations.incidents(args.incidents) if args.incidents else []
    with closing(push.Grafana(url, push.token(args.token_file), args.timeout)) as grafana:
        folder = grafana.folder(args.folder, args.folder_uid)
        for board in build.boards(settings).values():
            pushed = grafana.push(board, folder, args.message)
            print(f"{pushed.outcome:<9}  {pushed.title}  {pushed.url}")
        for incident in incidents:
            print(f"{grafana.annotate(incident):<9}  incident {incident.identity}")
    return 0
