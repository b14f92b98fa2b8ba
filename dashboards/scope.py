"""What a dashboard speaks of: its variables, the label matchers that go with them, and the ways down to one client."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model

from alerts.rule import CLIENT
from clienthealth.configuration.installation import KEPT, listed, matchers
from clienthealth.settings import Settings
from clienthealth.settings.links import dashboard_uid

TAG = "kafka-client-health"
#: Charts over everything show so many series at each moment, the worst; more would be no help and no joy to draw.
WORST = 20
DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

#: Matchers of series of clients, of groups and of topics, and the labels that a client, or what services are summed up
#: from, is told apart by.
OF_KEPT = matchers(KEPT)
OF_CLIENT = f"{OF_KEPT}, {matchers(CLIENT)}"
OF_TOPIC = f'{OF_KEPT}, topic=~"$topic"'
OF_GROUP = f'{OF_KEPT}, group=~"$group"'
OF_GROUP_TOPIC = f'{OF_GROUP}, topic=~"$topic"'
OF_SERVICE = f'{OF_KEPT}, service=~"$service"'
BY_CLIENT = listed((*KEPT, *CLIENT))
BY_SHARD = listed((*KEPT, "shard", "service"))

#: Series that are there whenever anything is, and few: no variable empties a dashboard, or loads every client.
_SERVICES = f"kafka_client_service_clients{{{OF_KEPT}}}"
_TOPICS = f'{{__name__=~"kafka_partition_latest_offset|kafka_client_consumer_queue_used_ratio", {OF_KEPT}}}'
#: A service that is not known is an empty label, which `.+` would leave out, as is a label that nobody has set.
_QUERIES: Mapping[str, tuple[str, str, str]] = {
    "service": ("Service", f"label_values({_SERVICES}, service)", ".*"),
    "topic": ("Topic", f"label_values({_TOPICS}, topic)", ".+"),
    "group": ("Group", f"label_values(kafka_consumergroup_group_status{{{OF_KEPT}}}, group)", ".+"),
}
#: What a text box says of clients: a fleet has too many for a list.
_TYPED: Mapping[str, str] = {"host": "Host", "instance": "Instance", "client_id": "Client"}
CLIENT_VARIABLES = CLIENT
GROUP_VARIABLES = ("group", "topic")


def variable(name: str, settings: Settings) -> Builder[model.VariableModel]:
    """The variable of that name: a label, `datasource`, or a constant out of the settings."""
    if name in _TYPED:
        return build.TextBoxVariable(name).label(f"{_TYPED[name]} (pattern)").default_value(".*")
    if name not in _FIXED:
        # A label that keeps installations apart is known from the exporters, of which there are few.
        kept = (name.capitalize(), f"label_values(kafka_client_health_exporter_up, {name})", ".*")
        label, query, everything = _QUERIES.get(name, kept)
        return (
            build.QueryVariable(name)
            .label(label)
            .query({"query": query, "refId": "StandardVariableQuery"})
            .definition(query)
            .datasource(DATASOURCE)
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.NATURAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(everything)
            .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
        )
    return _FIXED[name](settings)


def _datasource(settings: Settings) -> Builder[model.VariableModel]:
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _constant(name: str, label: str, value: str) -> Builder[model.VariableModel]:
    return build.ConstantVariable(name).label(label).value(value)


_FIXED: Mapping[str, Callable[[Settings], Builder[model.VariableModel]]] = {
    "datasource": _datasource,
    "status_page": lambda s: _constant("status_page", "Status page", s.links.status_page.rstrip("/")),
    "slo_target": lambda s: _constant("slo_target", "Target of the objective", f"{s.review.slo_target:g}"),
}


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).url(url)


def _narrowed(uid: str, field: str, labels: tuple[str, ...]) -> str:
    chosen = "&".join(f"var-{label}=${{{field}.{label}:percentencode}}" for label in labels)
    return f"/d/{uid}?{chosen}&${{__url_time_range}}&${{datasource:queryparam}}"


def to_client(dashboard: str, field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """From a series (or a row, `__data.fields`) of a client to that client: its dashboard, and its evidence.

    `host` is left out: it may be unknown, and the others are enough.
    """
    labels = tuple(label for label in CLIENT if label != "host")
    evidence = "&".join(f"{label}=${{{field}.{label}:percentencode}}" for label in labels)
    return [
        _link("This client alone", _narrowed(dashboard_uid(dashboard), field, labels)),
        _link("Evidence on the status page", f"${{status_page}}/client?{evidence}"),
    ]


def to_group() -> list[Builder[model.DashboardLink]]:
    """From a series of a group to that group alone."""
    return [_link("This group alone", _narrowed(dashboard_uid("consumers"), "__field.labels", ("group",)))]


def to_service(field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """From a series of a service (or a row, `__data.fields`) to its clients."""
    return [_link("Clients of this service", _narrowed(dashboard_uid("overview"), field, ("service",)))]
