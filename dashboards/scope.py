"""The scope of a dashboard: its variables, their label matchers, and links down to one client."""

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
#: Maximum number of series in charts over all clients. The worst ones are shown. More would be unreadable and slow.
WORST = 20
DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")


def matchers(labels: Sequence[str]) -> str:
    """Format the matchers by which a query follows the variables of a dashboard."""
    return ", ".join(f'{label}=~"${label}"' for label in labels)


def of_series(labels: Sequence[str]) -> str:
    """Format the variables of a dashboard link from a series, with the values of the series."""
    return "&".join(f"var-{label}=${{__field.labels.{label}:percentencode}}" for label in labels)


def of_row(labels: Sequence[str]) -> str:
    """Format the variables of a dashboard link from a row of a table."""
    return "&".join(f"var-{label}=${{__data.fields.{label}:percentencode}}" for label in labels)


def named(labels: Sequence[str]) -> str:
    """Format the labels in the name of a series."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def keeping(text: str, settings: Settings) -> str:
    """Replace KEPT in matchers, links and names by the labels of the settings. Raises SettingsError."""
    kept = kept_labels(settings)
    if kept == KEPT:
        return text
    for form in (listed, matchers, of_series, of_row, named):
        text = text.replace(form(KEPT), form(kept))
    return text


#: OF_…: matchers for series of an installation, of clients, topics, groups or services. BY_…: the labels that identify
#: a client, or a sum over a service.
OF_KEPT = matchers(KEPT)
OF_CLIENT = f"{OF_KEPT}, {matchers(CLIENT)}"
OF_TOPIC = f'{OF_KEPT}, topic=~"$topic"'
OF_GROUP = f'{OF_KEPT}, group=~"$group"'
OF_GROUP_TOPIC = f'{OF_GROUP}, topic=~"$topic"'
OF_SERVICE = f'{OF_KEPT}, service=~"$service"'
BY_CLIENT = listed((*KEPT, *CLIENT))
#: Labels in the name of a series. NAMED_KEPT: its installation, which separates staging from production. LEGEND: its
#: client and its installation.
NAMED_KEPT = named(KEPT)
LEGEND = f"{{{{instance}}}} · {{{{client_id}}}} {NAMED_KEPT}"
BY_SHARD = listed((*KEPT, "shard", "service"))

#: Lists are short and rarely change, so they are queried once, when a dashboard is opened. Services come from the
#: sums per service. These series are few and always exist, so no variable empties a dashboard or loads every client. An
#: unknown service is an empty label. A query with `.+` would leave its series out.
_LISTS: Mapping[str, tuple[str, str]] = {
    "service": ("Service", f"label_values(kafka_client_service_clients{{{OF_KEPT}}}, service)")
}
#: Variables with a text box, because a fleet has too many values for a list.
_TYPED: Mapping[str, str] = {
    "host": "Host",
    "instance": "Instance",
    "client_id": "Client",
    "group": "Group",
    "topic": "Topic",
}
_PATTERN = (
    "A regular expression of the whole name: orders-.* are all that begin with orders-, a|b are two, .* is everything."
)
CLIENT_VARIABLES = CLIENT
GROUP_VARIABLES = ("group", "topic")


def variable(name: str, settings: Settings) -> Builder[model.VariableModel]:
    """Return the variable with this name: a label, `datasource`, or a constant from the settings."""
    if name in _TYPED:
        box = build.TextBoxVariable(name).label(f"{_TYPED[name]} (pattern)").description(_PATTERN)
        return box.default_value(".*")
    if name not in _FIXED:
        # Read the values from the series of exporters, because these are few.
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
    ranked: str | None = None,
    among: str = "",
    zeros: bool = False,
) -> str:
    """Return a query for the series that were worst at any moment in the range: the same series from beginning to end.

    A plain topk selects other series at each moment, so a chart of twenty becomes one of hundreds.

    `by`: the labels that identify a series. If several have equal labels (two shards, two replicas), the largest is
    drawn. `ranked`: the metric by which series are selected, if it is not the drawn one. `among`: only clients that
    have one of these series (`ever`) are selected. `zeros`: a missing series counts as 0 while an exporter answers;
    otherwise a stacked chart would go on at the series' last value.

    Most of the cost comes from operations on all series at each moment. For 10,000 clients, a sum at each moment takes
    Prometheus twenty times as long as finding the few series to draw first. So `each` should be a plain series. Sum it
    up only if `by` is coarser than a client.
    """
    end = "max" if pick == "topk" else "min"
    over = f"{end}_over_time(({ranked or each})[$__range:$__interval] @ end())"
    if among:
        over += f" and on ({BY_CLIENT}) ({among})"
    picked = f"{pick}({most}, {end} by ({by}) ({over}))"
    if zeros:
        kept = listed(KEPT)
        present = f"max by ({kept}) (kafka_client_health_exporter_up{{{OF_KEPT}}})"
        each = f"({each})\nor\n0 * ({over} and on ({kept}) {present})"
    return f"max by ({by}) (({each})\nand on ({by})\n{picked})"


def ever(series: str) -> str:
    """Return a query for the series that existed at any moment in the range."""
    return f"max_over_time({series}[$__range:$__interval] @ end())"


def failing_or_chosen(mode: str) -> str:
    """Return a query for the clients that fail in a mode, and for those chosen by name, healthy or not."""
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
    """Return a link to a dashboard for the subject of a series or row. A missing label is passed as an empty one."""
    own = of_row if field == "__data.fields" else of_series
    choice = "&".join(own(some) for some in (labels, KEPT) if some)
    return f"/d/{uid}?{choice}&${{__url_time_range}}&${{datasource:queryparam}}"


def to_client(dashboard: str, field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """Return links from a client's series (or row, `__data.fields`) to its dashboard and to its evidence.

    `host` is left out, because it may be unknown and the other labels are enough.
    """
    labels = tuple(label for label in CLIENT if label != "host")
    evidence = "&".join(f"{label}=${{{field}.{label}:percentencode}}" for label in labels)
    return [
        _link("This client alone", _narrowed(dashboard_uid(dashboard), field, labels)),
        _link("Evidence on the status page", f"${{status_page}}/client?{evidence}"),
    ]


def to_runbook(runbooks: str) -> list[Builder[model.DashboardLink]]:
    """Return a link from a row of a failing client to its runbook. `runbooks`: address of the runbooks."""
    return [_link("Runbook", f"{runbooks}/${{__data.fields.mode}}")]


def to_group() -> list[Builder[model.DashboardLink]]:
    """Return a link from a series of a group to a dashboard for only that group."""
    return [_link("This group alone", _narrowed(dashboard_uid("consumers"), "__field.labels", ("group",)))]


def to_service(field: str = "__field.labels") -> list[Builder[model.DashboardLink]]:
    """Return a link from a series of a service (or a row, `__data.fields`) to its clients."""
    return [_link("Clients of this service", _narrowed(dashboard_uid("overview"), field, ("service",)))]


def to_installation() -> list[Builder[model.DashboardLink]]:
    """Return a link from a row of an installation to its clients."""
    return [_link("This cluster and environment", _narrowed(dashboard_uid("overview"), "__data.fields", ()))]
