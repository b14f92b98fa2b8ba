"""Build variables, label matchers, queries and links for dashboards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model

from clienthealth.configuration.installation import (
    KEPT,
    dashboard_uid,
    kept_labels,
    listed,
    own_page,
)
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.series import CLIENT

TAG = "kafka-client-health"
#: Maximum number of series in a chart over all clients.
WORST = 20
DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")


def matchers(labels: Sequence[str]) -> str:
    """Return label matchers for the values that are chosen in a dashboard's variables: `service=~"$service", …`."""
    return ", ".join(f'{label}=~"${label}"' for label in labels)


def of_series(labels: Sequence[str]) -> str:
    """Return URL parameters that select the labels of the series that a user clicks."""
    return "&".join(f"var-{label}=${{__field.labels.{label}:percentencode}}" for label in labels)


def of_row(labels: Sequence[str]) -> str:
    """Return URL parameters that select the labels of the table row that a user clicks."""
    return "&".join(f"var-{label}=${{__data.fields.{label}:percentencode}}" for label in labels)


def named(labels: Sequence[str]) -> str:
    """Return placeholders for these labels in the legend of a series: `{{service}} …`."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def keeping(text: str, settings: Settings) -> str:
    """Replace the default labels (KEPT) in a query, link or legend by the labels that `kept_labels` returns.

    Raises SettingsError in the same cases as `kept_labels`.
    """
    kept = kept_labels(settings)
    if kept == KEPT:
        return text
    for form in (listed, matchers, of_series, of_row, named):
        text = text.replace(form(KEPT), form(kept))
    return text


#: OF_… are label matchers for the values chosen on the dashboard. BY_… are labels to aggregate by.
OF_KEPT = matchers(KEPT)
OF_CLIENT = f"{OF_KEPT}, {matchers(CLIENT)}"
OF_TOPIC = f'{OF_KEPT}, topic=~"$topic"'
OF_GROUP = f'{OF_KEPT}, group=~"$group"'
OF_GROUP_TOPIC = f'{OF_GROUP}, topic=~"$topic"'
OF_SERVICE = f'{OF_KEPT}, service=~"$service"'
BY_CLIENT = listed((*KEPT, *CLIENT))
NAMED_KEPT = named(KEPT)
LEGEND = f"{{{{instance}}}} · {{{{client_id}}}} {NAMED_KEPT}"
BY_SHARD = listed((*KEPT, "shard", "service"))

_LISTS: Mapping[str, tuple[str, str]] = {
    "service": ("Service", f"label_values(kafka_client_service_clients{{{OF_KEPT}}}, service)")
}
_TYPED: Mapping[str, str] = {
    "host": "Host",
    "instance": "Instance",
    "client_id": "Client",
    "group": "Group",
    "topic": "Topic",
}
_PATTERN = (
    "A regular expression that must match the full name: orders-.* selects all names that begin with orders-, a|b "
    "selects two names, .* selects all names."
)
CLIENT_VARIABLES = CLIENT
GROUP_VARIABLES = ("group", "topic")


def variable(name: str, settings: Settings) -> Builder[model.VariableModel]:
    """Return the dashboard variable with this name.

    `name` is `datasource`, `status_page`, `slo_target`, or a label of installations, clients, groups or topics.
    """
    if name in _TYPED:
        box = build.TextBoxVariable(name).label(f"{_TYPED[name]} (pattern)").description(_PATTERN)
        return box.default_value(".*")
    if name not in _FIXED:
        # kafka_client_health_exporter_up has few series, so this query is fast.
        kept = (name.capitalize(), f"label_values(kafka_client_health_exporter_up, {name})")
        label, query = _LISTS.get(name, kept)
        return (
            build.QueryVariable(name)
            .label(label)
            .query({"query": query, "refId": "StandardVariableQuery"})
            .definition(query)
            .datasource(DATASOURCE)
            .refresh(model.VariableRefresh.ON_DASHBOARD_LOAD)
            .sort(model.VariableSort.NATURAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
        )
    return _FIXED[name](settings)


def worst(
    each: str,
    by: str,
    most: int = WORST,
    pick: str = "topk",
    *,
    ranked: str = "",
    among: str = "",
    zeros: bool = False,
) -> str:
    """Return a query for the series with the worst values in the dashboard's time range.

    `each`: query for all series.
    `by`: labels that identify a series. If several series have equal labels, the largest of their values is drawn.
    `most`: maximum number of series.
    `pick`: topk if large values are bad, bottomk if small values are bad.
    `ranked`: query for the values that rank the series; '' ranks them by the worst value of `each` in the time range.
    `among`: query for the clients that may be shown; '' for all clients.
    `zeros`: True to draw 0 at each point where the exporter of a series runs, but the series has no value.
    """
    end = "max" if pick == "topk" else "min"
    over = f"({ranked})" if ranked else f"{end}_over_time(({each})[$__range:$__interval] @ end())"
    if among:
        over += f" and on ({BY_CLIENT}) ({among})"
    picked = f"{pick}({most}, {end} by ({by}) ({over}))"
    if zeros:
        kept = listed(KEPT)
        present = f"max by ({kept}) (kafka_client_health_exporter_up{{{OF_KEPT}}})"
        each = f"({each})\nor\n0 * ({over} and on ({kept}) {present})"
    return f"max by ({by}) (({each})\nand on ({by})\n{picked})"


def ever(series: str) -> str:
    """Return a query for all series that existed in the time range of the dashboard."""
    return f"max_over_time({series}[$__range:$__interval] @ end())"


def failing_or_chosen(mode: str) -> str:
    """Return a query for the clients that the dashboard of a failure mode shows.

    These clients failed in this mode, or the user chose them by host, instance or client id.
    """
    failing = f'kafka_client_failure_mode{{mode="{mode}", status=~"suspected|confirmed", {OF_CLIENT}}}'
    names = "".join(f"${name}" for name in CLIENT if name != "service")
    chosen = f'label_replace(vector(1), "names", "{names}", "", "")'
    no_name = f'label_replace(vector(1), "names", "{".*" * (len(CLIENT) - 1)}", "", "")'
    any_name = f"({chosen} unless on (names) {no_name})"
    return f"{ever(failing)}\nor\n(kafka_client_up{{{OF_CLIENT}}} @ end() and on () {any_name})"


def _datasource(settings: Settings) -> Builder[model.VariableModel]:
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _constant(name: str, label: str, value: str) -> Builder[model.VariableModel]:
    return build.ConstantVariable(name).label(label).value(value)


_FIXED: Mapping[str, Callable[[Settings], Builder[model.VariableModel]]] = {
    "datasource": _datasource,
    "status_page": lambda s: _constant("status_page", "Status page", own_page(s)),
    "slo_target": lambda s: _constant("slo_target", "Target of the objective", f"{s.review.slo_target:g}"),
}


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).url(url)


def _narrowed(uid: str, field: str, labels: tuple[str, ...]) -> str:
    own = of_row if field == "__data.fields" else of_series
    choice = "&".join(own(some) for some in (labels, KEPT) if some)
    return f"/d/{uid}?{choice}&${{__url_time_range}}&${{datasource:queryparam}}"


def to_client(dashboard: str, field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """Return a link to a dashboard that shows only the clicked client, and a link to the client's page.

    Set `field` to `__field.labels` for links from a series, and to `__data.fields` for links from a table row.
    """
    labels = tuple(label for label in CLIENT if label != "host")
    evidence = "&".join(f"{label}=${{{field}.{label}:percentencode}}" for label in labels)
    return [
        _link("This client alone", _narrowed(dashboard_uid(dashboard), field, labels)),
        _link("Evidence on the status page", f"${{status_page}}/client?{evidence}"),
    ]


def to_runbook(runbooks: str) -> list[Builder[model.DashboardLink]]:
    """Return a link from a table row to the runbook of its failure mode."""
    return [_link("Runbook", f"{runbooks}/${{__data.fields.mode}}")]


def to_group() -> list[Builder[model.DashboardLink]]:
    """Return a link from a group's series to the dashboard on consumers."""
    return [_link("This group alone", _narrowed(dashboard_uid("consumers"), "__field.labels", ("group",)))]


def to_service(field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """Return a link to the overview of a service.

    Set `field` to `__field.labels` for a link from a series, and to `__data.fields` for a link from a table row.
    """
    return [_link("Clients of this service", _narrowed(dashboard_uid("overview"), field, ("service",)))]


def to_installation() -> list[Builder[model.DashboardLink]]:
    """Return a link to the overview of an installation."""
    return [_link("This cluster and environment", _narrowed(dashboard_uid("overview"), "__data.fields", ()))]
