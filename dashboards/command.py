"""`kafka-health dashboards push`: send the dashboards to a Grafana, and incidents as annotations."""

from __future__ import annotations

import argparse
from contextlib import closing

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError


def run(args: argparse.Namespace) -> int:
    """Push the dashboards and the incidents, and print whether each was created, updated or unchanged.

    Raises SettingsError if the address or the token of Grafana is missing or wrong. Raises InputError if the file of
    incidents cannot be read. Raises ServiceError if a request fails.
    """
    from dashboards import annotations, build, push

    settings = load(args.config)
    url = args.url or settings.links.dashboards
    if not url:
        raise SettingsError("the address of Grafana is missing: give --url, or set [links] dashboards")
    incidents = annotations.incidents(args.incidents) if args.incidents else []
    with closing(push.Grafana(url, push.token(args.token_file), args.timeout)) as grafana:
        folder = grafana.folder(args.folder, args.folder_uid)
        for board in build.boards(settings).values():
            pushed = grafana.push(board, folder, args.message)
            print(f"{pushed.outcome:<9}  {pushed.title}  {pushed.url}")
        for incident in incidents:
            print(f"{grafana.annotate(incident):<9}  incident {incident.identity}")
    return 0
