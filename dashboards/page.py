"""Convert a dashboard (`Page`) to the JSON that Grafana reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model

from clienthealth.configuration.installation import KEPT, dashboard_uid, filled, kept_labels, listed
from clienthealth.model.errors import CatalogueError
from clienthealth.settings import Settings
from dashboards.look import CRITICAL, WARNING
from dashboards.panel import Panel
from dashboards.scope import DATASOURCE, OF_KEPT, OF_SERVICE, TAG, keeping, named, variable

FIRST_ROW = 900


@dataclass(frozen=True)
class Section:
    """A row of a dashboard, and the panels below it."""

    title: str
    panels: Sequence[Panel]
    collapsed: bool = False


@dataclass(frozen=True)
class Page:
    """A dashboard.

    `variables`  names of the dashboard's variables
    `since`      start of the time range when the dashboard is opened
    `refresh`    interval at which the dashboard reloads itself; '' means never
    """

    name: str
    title: str
    description: str
    variables: Sequence[str]
    sections: Sequence[Section]
    since: str = "now-3h"
    refresh: str = "1m"


def rendered(page: Page, settings: Settings) -> dict[str, Any]:
    """Return the dashboard as JSON values, with the labels and addresses of the settings.

    Raises CatalogueError if two panels have the same id. Raises SettingsError if no label in the settings distinguishes
    installations.
    """
    board = (
        build.Dashboard(page.title)
        .uid(dashboard_uid(page.name))
        .description(page.description)
        .tags([TAG])
        .readonly()
        .refresh(page.refresh)
        .time(page.since, "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            build.DashboardLink("Kafka clients")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
    )
    for name in ("datasource", *kept_labels(settings), *page.variables, "status_page"):
        board.with_variable(variable(name, settings))
    service = OF_SERVICE.replace('"$service"', '"$service|"') if "service" in page.variables else OF_KEPT
    board.annotation(_alerts("Critical alerts", "critical", CRITICAL, service))
    board.annotation(_alerts("Warnings", "warning", WARNING, service))
    board.annotation(_incidents())
    if "service" in page.variables:
        board.annotation(_deployments())
    for position, section in enumerate(page.sections):
        row = build.Row(section.title).id(FIRST_ROW + position)
        if section.collapsed:
            for panel in section.panels:
                row.with_panel(panel)
            board.with_row(row)
            continue
        board.with_row(row)
        for panel in section.panels:
            board.with_panel(panel)
    document: dict[str, Any] = _with_settings(plain(board.build()), settings)
    _check_ids(page.name, document)
    return document


def _check_ids(name: str, document: Mapping[str, Any]) -> None:
    titles: dict[int, str] = {}
    for panel in [*document["panels"], *(inner for row in document["panels"] for inner in row.get("panels", []))]:
        if panel["id"] in titles:
            both = f"{titles[panel['id']]!r} and {panel['title']!r}"
            raise CatalogueError(f"dashboard {name}: the panels {both} have the same id {panel['id']}")
        titles[panel["id"]] = panel["title"]


def plain(dashboard: model.Dashboard) -> dict[str, Any]:
    """Return the dashboard as JSON values, without fields that only Grafana's SDK adds."""
    document: dict[str, Any] = json.loads(json.dumps(dashboard, cls=JSONEncoder))
    # If a link had the field `placement`, Grafana would show the link only in a menu.
    for item in [*document["links"], *document["annotations"]["list"]]:
        item.pop("placement", None)
    for item in document["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):
            item.pop(key, None)
    for panel in [*document["panels"], *(inner for row in document["panels"] for inner in row.get("panels", []))]:
        for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", []):
            link.pop("placement", None)
    return document


def _with_settings(value: Any, settings: Settings) -> Any:
    if isinstance(value, dict):
        return {key: _with_settings(inner, settings) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_settings(inner, settings) for inner in value]
    return keeping(_addressed(value, settings), settings) if isinstance(value, str) else value


def _addressed(text: str, settings: Settings) -> str:
    page = settings.links.status_page.rstrip("/")
    of_series = re.search(r"\$\{(__field\.labels|__data\.fields)\.", text)
    if of_series is None or "{" not in page:
        return text
    field = of_series[1]
    return text.replace(
        "${status_page}", filled(page, lambda name: "1" if name == "shard" else f"${{{field}.{name}:percentencode}}")
    )


def _alerts(name: str, severity: str, colour: str, scope: str) -> build.AnnotationQuery:
    matchers = [f'alertstate="firing", severity="{severity}", alertname=~"KafkaClient.+"', scope]
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(severity == "critical")
        .icon_color(colour)
        .expr(f"ALERTS{{{', '.join(matchers)}}}")
        .step("60s")
        .title_format("{{alertname}}")
        .text_format("{{service}} {{client_id}} {{group}} {{topic}}")
        .tag_keys("severity,service,mode")
    )


def _deployments() -> build.AnnotationQuery:
    """Return a query that marks when a service starts to use a new library version."""
    running = f'kafka_client_service_version_clients{{status!="gone", {OF_SERVICE}}}'
    what, client = listed((*KEPT, "service", "library", "version")), listed((*KEPT, "service"))
    before = f"max_over_time({running}[1h] offset 2m)"
    return (
        build.AnnotationQuery()
        .name("New versions")
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color("purple")
        .expr(
            f"(count by ({what}) ({running}) unless on ({what}) count by ({what}) ({before}))\n"
            f"and on ({client})\ncount by ({client}) ({before})"
        )
        .step("60s")
        .title_format("{{service}} runs {{library}} {{version}}")
        .text_format(named(KEPT))
        .tag_keys("service,library,version")
    )


def _incidents() -> build.AnnotationQuery:
    return (
        build.AnnotationQuery()
        .name("Incidents")
        .datasource(common.DataSourceRef(type_val="grafana", uid="-- Grafana --"))
        .enable(True)
        .icon_color(CRITICAL)
        .target(_Tagged())
    )


class _Tagged(Builder[Dataquery]):
    def build(self) -> Dataquery:
        return UnknownDataquery({"limit": 100, "matchAny": False, "tags": [TAG], "type": "tags"})
