"""Build panels in one style. Never change the id of a panel, because links and annotations use the id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from grafana_foundation_sdk.builders import common as common_build
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, text, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model
from grafana_foundation_sdk.models import text as text_model

from dashboards import look
from dashboards.look import CLEAR, GOOD, NEUTRAL, Limits, limits
from dashboards.scope import DATASOURCE

Panel: TypeAlias = Builder[model.Panel]
Linked: TypeAlias = Sequence[Builder[model.DashboardLink]]
NOTHING = "no data"
NONE = "none"
#: Grafana's units for seconds: AGE shows "1 hour, 45 minutes", and CLOCK shows 01:45:00.
AGE, CLOCK = "dtdurations", "dthms"
UNKNOWN = "–"
#: Maximum number of points in time in a chart. With 720 points, a chart of 10,000 clients took 30 s.
MOMENTS = 240
ORDER = (
    "status", "mode", "service", "team", "client_id", "group", "topic", "partition", "library", "version", "kind",
    "reason", "source_topic", "metric", "member_host", "instance", "host", "cluster_name", "cluster", "env", "shard",
)  # fmt: skip

NARROW = ("status", "partition", "library", "version", "kind", "shard")
FEW, WHOLE = 6, 24


@dataclass(frozen=True)
class Query:
    """A query. `legend` is the name of each series; `{{label}}` in `legend` stands for the label's value.

    `dashed` is True to draw the series as dashed lines.
    """

    expr: str
    legend: str
    dashed: bool = False


def chart(
    id_: int,
    title: str,
    description: str,
    queries: Sequence[Query],
    unit: str,
    *,
    above: Limits | None = None,
    ceiling: float | None = None,
    width: int = 12,
    links: Linked = (),
    stacked: bool = False,
    colours: Mapping[str, str] | None = None,
    nothing: str = NOTHING,
) -> Panel:
    """Return a chart with lines over time.

    `above`: maps each threshold to the colour of its dashed line.
    `ceiling`: the axis reaches at least this value.
    `stacked`: True to draw each series on top of the one before, so that the top shows the sum.
    `colours`: maps the name of a series, or the first words of the name, to a colour.
    `nothing`: text that the panel shows if there is no data.
    """
    panel = (
        timeseries.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .max_data_points(MOMENTS)
        .span(width)
        .height(10 if links else 8)
        .unit(unit)
        .min(0)
        .no_value(nothing)
        .thresholds(limits(CLEAR, above or {}))
        .thresholds_style(common_build.GraphThresholdsStyleConfig().mode(_threshold_mode(above)))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
        .line_width(2)
        .fill_opacity(30 if stacked else 0)
        .show_points(common.VisibilityMode.NEVER)
        .legend(_ranked(queries) if links else _legend())
        .tooltip(
            common_build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .data_links(list(links))
    )
    if ceiling is not None:
        panel.axis_soft_max(ceiling)
    if unit == CLOCK:
        panel.decimals(0)
    if stacked:
        panel.stacking(common_build.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    for name, colour in (colours or {}).items():
        fixed = model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
        panel.override_by_regexp(f"/^{re.escape(name)}( |$)/", [fixed])
    for ref, query in _lettered(queries):
        panel.with_target(_range(ref, query))
        if query.dashed:
            panel.override_by_query(ref, _dashed())
    return panel


def number(
    id_: int,
    title: str,
    description: str,
    expr: str,
    unit: str,
    *,
    above: Limits | None = None,
    mappings: Sequence[model.ValueMapping] = (),
    nothing: str = NOTHING,
    width: int = 4,
    legend: str = "",
    links: Linked = (),
) -> Panel:
    """Return a panel that shows the newest value of a query in large type.

    `above` maps each threshold to the colour of values that reach it. Below all thresholds, the colour is GOOD (blue).
    If `legend` is set, the panel shows the name of the series (`legend`) in place of its value.
    """
    panel = (
        stat.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(width)
        .height(4)
        .unit(unit)
        .no_value(nothing)
        .mappings([*mappings, *look.unknown(nothing)])
        .thresholds(limits(GOOD if above else NEUTRAL, above or {}))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .color_mode(common.BigValueColorMode.BACKGROUND if above or mappings else common.BigValueColorMode.NONE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.NAME if legend else common.BigValueTextMode.VALUE)
        .reduce_options(common_build.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .data_links(list(links))
        .with_target(_instant("A", Query(f"floor({expr})" if unit == AGE else expr, legend or title)))
    )
    if unit == AGE:
        panel.decimals(1)
    return panel


def rows(
    id_: int,
    title: str,
    description: str,
    columns: Mapping[str, tuple[str, str]],
    *,
    hidden: Sequence[str] = (),
    above: Mapping[str, Limits] | None = None,
    words: Mapping[str, Sequence[model.ValueMapping]] | None = None,
    coloured: Mapping[str, Mapping[str, str]] | None = None,
    linked: Mapping[str, Linked] | None = None,
    largest: str = "",
    nothing: str = NOTHING,
    width: int = WHOLE,
    height: int = 9,
    links: Linked = (),
) -> Panel:
    """Return a table with one row per set of labels and one column per query.

    `columns`: maps the heading of each column to the column's query and unit.
    `hidden`: labels that get no column.
    `above`: maps the heading of a column to the column's thresholds.
    `words`: maps the heading of a column to value mappings, which show the column's values as words.
    `coloured`: maps a label to the colours of the label's values.
    `linked`: maps a label to the links that appear after a click on the label's value.
    `largest`: heading of the column that sorts the rows; the row with the largest value comes first.
    """
    panel = (
        table.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(width)
        .height(height)
        .unit("short")
        .no_value(nothing)
        .filterable(True)
        .thresholds(limits(NEUTRAL, {}))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .data_links(list(links))
    )
    names = {}
    for (ref, query), (heading, (_, unit)) in zip(
        _lettered([Query(expr, heading) for heading, (expr, _) in columns.items()]), columns.items(), strict=True
    ):
        panel.with_target(_instant(ref, query, prometheus_model.PromQueryFormat.TABLE))
        # If there are several queries, Grafana names the columns of values `Value #A`, `Value #B` and so on.
        names["Value" if len(columns) == 1 else f"Value #{ref}"] = heading
        panel.override_by_name(heading, _column(unit, (above or {}).get(heading), (words or {}).get(heading, ())))
    for label, texts in (coloured or {}).items():
        panel.override_by_name(label, _coloured(look.coloured(texts)))
    for label, ways in (linked or {}).items():
        built = [way.build() for way in ways]
        panel.override_by_name(
            label, [model.DynamicConfigValue("links", [{"title": way.title, "url": way.url} for way in built])]
        )
    if largest:
        panel.sort_by([common_build.TableSortByFieldState().display_name(largest).desc(True)])
    if len(columns) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    left_out = {name: True for name in ("Time", "__name__", "job", *hidden)}
    places = {name: place for place, name in enumerate((*ORDER, *names))}
    # Without these overrides, empty cells would show `nothing`, the text for an empty table.
    panel.override_by_field_type("string", [model.DynamicConfigValue("noValue", "")])
    panel.override_by_field_type("number", [model.DynamicConfigValue("noValue", UNKNOWN)])
    panel.override_by_regexp(f"/^({'|'.join(NARROW)})$/", [model.DynamicConfigValue("custom.width", 95)])
    panel.override_by_regexp("/^(cluster|env)$/", [model.DynamicConfigValue("custom.width", 80)])
    panel.override_by_regexp("/^mode$/", [model.DynamicConfigValue("custom.width", 230)])
    panel.override_by_regexp("/^since$/", [model.DynamicConfigValue("custom.width", 130)])
    if len(columns) > FEW or width < WHOLE:
        panel.override_by_field_type("number", [model.DynamicConfigValue("custom.width", 106)])
        panel.override_by_regexp("/^service$/", [model.DynamicConfigValue("custom.width", 136)])
    panel.with_transformation(
        model.DataTransformerConfig(
            id_val="organize", options={"excludeByName": left_out, "indexByName": places, "renameByName": names}
        )
    )
    return panel


def timeline(
    id_: int,
    title: str,
    description: str,
    query: Query,
    mappings: Sequence[model.ValueMapping],
    *,
    nothing: str = NOTHING,
    width: int = 24,
    links: Linked = (),
) -> Panel:
    """Return a state timeline with one band per series."""
    return (
        statetimeline.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .max_data_points(MOMENTS)
        .span(width)
        .height(9)
        .unit("short")
        .no_value(nothing)
        .mappings(list(mappings))
        .thresholds(limits(NEUTRAL, {}))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .show_value(common.VisibilityMode.AUTO)
        .merge_values(True)
        .per_page(20)
        .legend(_legend())
        .tooltip(common_build.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE))
        .data_links(list(links))
        .with_target(_range("A", query))
    )


def words(id_: int, title: str, description: str, markdown: str, *, width: int = 24, height: int = 5) -> Panel:
    panel = text.Panel().id(id_).title(title).description(description).span(width).height(height)
    return panel.mode(text_model.TextMode.MARKDOWN).content(markdown)


def alert_list(id_: int, title: str, description: str, *, width: int = 8, height: int = 9) -> Panel:
    options = {
        "alertInstanceLabelFilter": '{alertname=~"KafkaClient.+", alertname!="KafkaClientHealthWatchdog"}',
        "alertName": "",
        "dashboardAlerts": False,
        "groupBy": [],
        "groupMode": "default",
        "maxItems": 50,
        "sortOrder": 3,
        "stateFilter": {"error": True, "firing": True, "noData": False, "normal": False, "pending": True},
        "viewMode": "list",
    }
    panel = build.Panel().type("alertlist").id(id_).title(title).description(description).span(width).height(height)
    return panel.options(options).thresholds(limits(NEUTRAL, {}))


def with_no_data_text(panel: Panel, nothing: str) -> Panel:
    cast(timeseries.Panel, panel).no_value(nothing)
    return panel


def _lettered(queries: Sequence[Query]) -> list[tuple[str, Query]]:
    return [(chr(ord("A") + position), query) for position, query in enumerate(queries)]


def _range(ref: str, query: Query) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery().ref_id(ref).datasource(DATASOURCE).expr(query.expr).legend_format(query.legend).range()
    )


def _instant(
    ref: str, query: Query, form: prometheus_model.PromQueryFormat = prometheus_model.PromQueryFormat.TIME_SERIES
) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(ref).datasource(DATASOURCE).expr(query.expr).legend_format(query.legend)
    return target.instant().format(form)


def _threshold_mode(above: Limits | None) -> common.GraphThresholdsStyleMode:
    return common.GraphThresholdsStyleMode.DASHED if above else common.GraphThresholdsStyleMode.OFF


def _legend() -> common_build.VizLegendOptions:
    legend = common_build.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    return legend.display_mode(common.LegendDisplayMode.LIST).calcs([])


def _ranked(queries: Sequence[Query]) -> common_build.VizLegendOptions:
    """Return a legend with the worst series first."""
    lowest = any("bottomk(" in query.expr for query in queries)
    legend = _legend().display_mode(common.LegendDisplayMode.TABLE).calcs(["min" if lowest else "max"])
    return legend.sort_by("Min" if lowest else "Max").sort_desc(not lowest)


def _dashed() -> list[model.DynamicConfigValue]:
    return [
        model.DynamicConfigValue("custom.lineStyle", {"dash": [10, 10], "fill": "dash"}),
        model.DynamicConfigValue("custom.lineWidth", 1),
    ]


def _column(unit: str, above: Limits | None, words: Sequence[model.ValueMapping]) -> list[model.DynamicConfigValue]:
    values = [model.DynamicConfigValue("unit", unit)]
    if unit == AGE:
        values.append(model.DynamicConfigValue("decimals", 1))
    if above:
        values.append(model.DynamicConfigValue("thresholds", limits(NEUTRAL, above).build()))
    if above or words:
        values += _coloured(words)
    return values


def _coloured(words: Sequence[model.ValueMapping]) -> list[model.DynamicConfigValue]:
    cell = model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
    return [cell, *([model.DynamicConfigValue("mappings", list(words))] if words else [])]
