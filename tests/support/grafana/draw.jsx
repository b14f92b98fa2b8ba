// Draws a dashboard with Grafana's own components, and returns what is visible. bundle.mjs bundles this file.
// State timelines and alert lists are drawn here, because Grafana does not publish these panels.
import React from "react";
import { createRoot } from "react-dom/client";
import "./draw.css";
import * as data from "@grafana/data";
import {
  BigValue, BigValueGraphMode, GlobalStyles, PanelChrome, Table, TimeSeries, VizRepeater,
} from "@grafana/ui";

let theme = data.createTheme({ colors: { mode: "dark" } }); // each drawing sets its own
const BESIDE = 8; // px between panels, as in Grafana
const ROW = 38; // px of a row of the grid with its margin
const NARROW = 769; // px: on a narrower page, Grafana stacks panels in one column
const SCRAPE_SECONDS = 15;
// Largest share of a panel's width for an axis. Longer names are cut (UPlotAxisBuilder).
const AXIS_SHARE = 0.4;
// Names are measured in a fallback font, before their own font is loaded. The fallback font is narrower by this factor.
const NARROWER = 1.12;

data.setTimeZoneResolver(() => "utc");
data.locationUtil.initialize({
  config: { appSubUrl: "", appUrl: "http://grafana.example.org/" },
  getVariablesUrlParams: () => ({}), getTimeRangeForUrl: () => ({}),
});
// standardTransformers lists one transformation under two names, so remove duplicates.
const known = [...new Set(Object.values(data.standardTransformers))];
data.standardTransformersRegistry.setInit(() =>
  known.map((transformation) => ({ id: transformation.id, name: transformation.name, transformation, editor: null })));
// Register the field settings, because only Grafana's application has the list.
const registry = new data.FieldConfigOptionsRegistry();
const option = (id, isCustom) => registry.register({
  id: isCustom ? `custom.${id}` : id, path: id, isCustom, name: id, process: (value) => value, shouldApply: () => true,
  settings: {}, override: () => null, editor: () => null,
});
["unit", "min", "max", "decimals", "displayName", "noValue", "color", "thresholds", "mappings", "links"].forEach((id) => option(id, false));
["cellOptions", "align", "width", "minWidth", "filterable", "inspect", "hidden", "fillOpacity", "lineWidth", "showPoints",
  "thresholdsStyle", "axisSoftMax", "axisSoftMin", "lineStyle", "drawStyle", "lineInterpolation", "spanNulls", "hideFrom",
  "axisPlacement", "axisLabel", "pointSize", "stacking", "gradientMode"].forEach((id) => option(id, true));

/** Replace variables in texts, queries and links, as Grafana does. */
function replacing(asked, board) {
  const values = { datasource: "prometheus", ...asked.choice };
  for (const variable of board.templating.list) {
    if (variable.type === "constant") values[variable.name] = variable.query;
    else if (!(variable.name in values)) values[variable.name] = ".*";
  }
  const formatted = (value, name, format) => {
    if (format === "percentencode") return encodeURIComponent(value);
    return format === "queryparam" ? `var-${name}=${encodeURIComponent(value)}` : String(value);
  };
  const ofData = (name, path, context) => {
    const { frame, field, rowIndex } = context.value;
    if (name === "__field") {
      const labels = field.labels ?? {};
      return path.startsWith("labels.") ? labels[path.slice(7)] ?? "" : data.getFieldDisplayName(field, frame);
    }
    const fields = data.getFieldDisplayValuesProxy({ frame, rowIndex });
    return fields[path.slice("fields.".length)] ?? "";
  };
  return (text, scoped) => (text ?? "").replace(/\$(\w+)|\$\{(\w+)(?:\.([^:}]+))?(?::(\w+))?\}/g, (whole, plain, name = plain, path, format) => {
    if (name === "__url_time_range") return `from=${asked.from}&to=${asked.to}`;
    if (name.startsWith("__") && scoped?.__dataContext) return formatted(ofData(name, path, scoped.__dataContext), name, format);
    return name in values ? formatted(values[name], name, format) : whole;
  });
}

const duration = (seconds) => `${Math.max(1, Math.round(seconds))}s`;

async function query(asked, replace, target, points) {
  const span = (asked.to - asked.from) / 1000;
  const step = Math.max(span / points, asked.scrape ?? SCRAPE_SECONDS);
  const times = {
    $__rate_interval: duration(Math.max(step + (asked.scrape ?? SCRAPE_SECONDS), 4 * (asked.scrape ?? SCRAPE_SECONDS))),
    "[$__range:1m]": `[${duration(span)}:${duration(Math.max(1, span / 180))}]`, $__range: duration(span), $__interval: duration(step),
  };
  let expr = target.expr;
  for (const [name, value] of Object.entries(times)) expr = expr.split(name).join(value);
  const body = new URLSearchParams({ query: replace(expr) });
  if (target.instant) body.set("time", asked.to / 1000);
  else {
    body.set("start", asked.from / 1000);
    body.set("end", asked.to / 1000);
    body.set("step", step);
  }
  if (!asked.prometheus) return [];
  const answer = await (await fetch(`${asked.prometheus}/api/v1/query${target.instant ? "" : "_range"}`, { method: "POST", body })).json();
  if (answer.status !== "success") throw new Error(`${answer.error}: ${body.get("query")}`);
  return answer.data.resultType === "scalar" ? [{ metric: {}, value: answer.data.result }] : answer.data.result;
}

/** Make data frames from an answer of Prometheus, as Grafana's data source does. */
function frames(asked, target, series, alone, points) {
  if (target.format === "table") {
    const labels = [...new Set(series.flatMap((one) => Object.keys(one.metric)))].sort();
    const fields = [
      { name: "Time", type: "time", config: {}, values: series.map((one) => one.value[0] * 1000) },
      ...labels.map((name) => ({ name, type: "string", config: { filterable: true }, values: series.map((one) => one.metric[name] ?? "") })),
      { name: alone ? "Value" : `Value #${target.refId}`, type: "number", config: {}, values: series.map((one) => Number(one.value[1])) },
    ];
    return series.length ? [data.toDataFrame({ refId: target.refId, fields })] : [];
  }
  const step = Math.max((asked.to - asked.from) / points, 1000 * (asked.scrape ?? SCRAPE_SECONDS));
  return series.map(({ metric, values, value }) => {
    const name = target.legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? "");
    const samples = values ?? [value];
    return data.toDataFrame({
      refId: target.refId,
      fields: [
        { name: "Time", type: "time", config: { interval: step }, values: samples.map(([at]) => at * 1000) },
        { name: "Value", type: "number", labels: metric, config: { displayNameFromDS: name }, values: samples.map(([, text]) => Number(text)) },
      ],
    });
  });
}

async function read(asked, replace, panel) {
  const points = panel.maxDataPoints ?? 1000;
  const answers = await Promise.all(panel.targets.map((target) => query(asked, replace, target, points)));
  let made = panel.targets.flatMap((target, at) => frames(asked, target, answers[at], panel.targets.length === 1, points));
  if (panel.transformations) {
    made = await new Promise((resolve, reject) =>
      data.transformDataFrame(panel.transformations, made, { interpolate: (text) => text }).subscribe({ next: resolve, error: reject }));
  }
  return data.applyFieldOverrides({
    data: made, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry, replaceVariables: replace, theme, timeZone: "utc",
  });
}

const Nothing = ({ words }) => (
  <div data-nothing style={{ display: "flex", height: "100%", alignItems: "center", justifyContent: "center" }}>{words}</div>
);

function Stat({ panel, shown, replace, width, height }) {
  const values = () => data.getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: replace, theme, data: shown, timeZone: "utc",
  });
  const value = ({ value: one, width: w, height: h }) => (
    <BigValue value={one.display} width={w} height={h} theme={theme} colorMode={panel.options.colorMode} graphMode={BigValueGraphMode.None}
      justifyMode={panel.options.justifyMode} textMode={panel.options.textMode} wideLayout={panel.options.wideLayout} />
  );
  return (
    <VizRepeater getValues={values} renderValue={value} width={width} height={height} source={shown} autoGrid
      orientation="auto" renderCounter={0} itemSpacing={3} />
  );
}

function Bands({ panel, shown, asked, width, height }) {
  const names = shown.map((frame) => data.getFieldDisplayName(frame.fields[1], frame)).slice(0, panel.options.perPage);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px Inter";
  const side = Math.min(AXIS_SHARE * width, Math.max(...names.map((name) => NARROWER * pen.measureText(name).width)) + 10);
  const high = Math.min(28, (height - 20) / names.length);
  const x = (at) => side + ((at - asked.from) / (asked.to - asked.from)) * (width - side);
  return (
    <div data-ours style={{ position: "relative", width, height, font: "12px Inter" }}>
      {names.map((name, row) => (
        <div key={name} data-band style={{ position: "absolute", top: row * high, width: side - 6, height: high, lineHeight: `${high}px`,
          textAlign: "right", whiteSpace: "nowrap", overflow: "hidden" }}>{name}</div>
      ))}
      {names.flatMap((name, row) => {
        const [time, field] = shown[row].fields;
        return time.values.map((at, place) => {
          const { color } = field.display(field.values[place]);
          const end = Math.min(asked.to, at + (time.config.interval ?? 1000));
          return <div key={`${row} ${at}`} style={{ position: "absolute", left: x(at), width: Math.max(1, x(end) - x(at) + 0.5), top: row * high + 1, height: high - 2, background: color }} />;
        });
      })}
    </div>
  );
}

function Alerts({ firing }) {
  return (
    <div data-ours style={{ height: "100%", overflowY: "auto", fontSize: 12 }}>
      {firing.map(({ metric }, at) => (
        <div key={at} style={{ borderLeft: `3px solid ${metric.severity === "critical" ? "#C4162A" : "#FADE2A"}`, margin: "0 8px 4px", padding: "2px 8px" }}>
          <b>{metric.alertname}</b> {metric.severity}
          <div style={{ opacity: 0.75, overflowWrap: "anywhere" }}>
            {["service", "client_id", "group", "topic", "instance", "cluster", "env"].map((name) => metric[name]).filter(Boolean).join(" ")}
          </div>
        </div>
      ))}
    </div>
  );
}

function Body({ panel, asked, replace, shown, firing, timeRange, width, height }) {
  if (panel.type === "text") {
    return <div className="markdown-html" data-text style={{ height, overflowY: "auto" }} dangerouslySetInnerHTML={{ __html: data.renderMarkdown(replace(panel.options.content)) }} />;
  }
  if (panel.type === "alertlist") return <Alerts firing={firing} />;
  if (panel.type === "stat") return <Stat {...{ panel, shown, replace, width, height }} />;
  if (!shown.some((frame) => frame.length)) return <Nothing words={panel.fieldConfig.defaults.noValue ?? "No data"} />;
  if (panel.type === "table") {
    return <Table data={shown[0]} width={width} height={height} ariaLabel={panel.title} cellHeight={panel.options.cellHeight}
      initialSortBy={panel.options.sortBy} timeRange={timeRange} showTypeIcons={panel.options.showTypeIcons} enableSharedCrosshair={false} />;
  }
  if (panel.type === "timeseries") {
    return <TimeSeries frames={shown} structureRev={1} timeRange={timeRange} timeZone="utc" width={width} height={height} theme={theme}
      legend={panel.options.legend} options={panel.options} replaceVariables={replace}>{() => null}</TimeSeries>;
  }
  if (panel.type === "state-timeline") return <Bands {...{ panel, shown, asked, width, height }} />;
  throw new Error(`a panel of type ${panel.type} has no renderer`);
}

/** Return panels from the top, with positions in pixels and all rows open. */
function placed(board, width) {
  const column = (width - 23 * BESIDE) / 24;
  const list = [];
  let lower = 0;
  for (const panel of board.panels) {
    const put = ({ x, y, w, h }, one, more) => list.push({
      panel: one, left: x * (column + BESIDE), top: (y + more) * ROW, width: w * (column + BESIDE) - BESIDE, height: h * ROW - BESIDE,
    });
    put(panel.gridPos, panel, lower);
    for (const inner of panel.panels ?? []) put(inner.gridPos, inner, lower);
  }
  return width < NARROW ? stacked(list, width) : list;
}

/** Place panels below one another at full width, in reading order. */
function stacked(list, width) {
  let top = 0;
  return [...list].sort((a, b) => a.top - b.top || a.left - b.left).map((one) => {
    const below = { ...one, left: 0, top, width };
    top += one.height + BESIDE;
    return below;
  });
}

async function settled() {
  await document.fonts.ready;
  let last = performance.now();
  const watcher = new MutationObserver(() => { last = performance.now(); });
  watcher.observe(document.body, { subtree: true, childList: true, attributes: true });
  while (performance.now() - last < 250) await new Promise(requestAnimationFrame);
  watcher.disconnect();
}

/** Return texts that are cut off. Texts that appear when a table or a legend is scrolled down do not count. */
function cut(element) {
  const missing = [];
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!text.data.trim() || text.parentElement.closest("style, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const rects = [...range.getClientRects()].filter((rect) => rect.width && rect.height);
    const visible = getComputedStyle(text.parentElement).visibility === "visible";
    for (let around = text.parentElement; visible && rects.length; around = around.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(around);
      const frame = around.getBoundingClientRect();
      const beside = overflowX !== "visible" && rects.some((rect) => rect.right > frame.right + 1 || rect.left < frame.left - 1);
      const below = overflowY === "hidden" && rects.some((rect) => rect.bottom > frame.bottom + 2 || rect.top < frame.top - 2);
      const scrolled = around.closest("[role=table], [data-ours], .scrollbar-view, .track-vertical");
      if (beside || (below && !scrolled)) {
        missing.push(text.data.trim());
        break;
      }
      if (around === element) break;
    }
  }
  return missing;
}

const colour = (element) => getComputedStyle(element).color;

function links(frame) {
  return (frame?.fields ?? []).flatMap((field) => field.getLinks?.({ valueRowIndex: 0 }) ?? []).map(({ title, href }) => ({ title, href }));
}

function report({ panel, shown, error }, replace) {
  const element = document.getElementById(`panel-${panel.id}`);
  const drawn = { id: panel.id, title: panel.title, type: panel.type, error, cut: cut(element), links: [], nothing: Boolean(element.querySelector("[data-nothing]")) };
  const text = element.querySelector("[data-text]");
  if (text && text.scrollHeight > text.clientHeight + 1) drawn.cut.push("the end of the text");
  if (!shown || error) return drawn;
  drawn.links = [...new Map(shown.flatMap(links).map((link) => [link.title, link])).values()];
  if (panel.type === "stat") {
    drawn.values = data.getFieldDisplayValues({
      fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: replace, theme, data: shown, timeZone: "utc",
    }).map(({ display }) => ({ name: display.title ?? "", text: data.formattedValueToString(display), colour: display.color }));
  } else if (panel.type === "table" && !drawn.nothing) {
    drawn.columns = [...element.querySelectorAll("[role=columnheader]")].map((one) => one.innerText.trim());
    drawn.rows = [...element.querySelectorAll("[role=row]")].filter((row) => row.querySelector("[role=cell]")).map((row) =>
      [...row.querySelectorAll("[role=cell]")].map((cell) => ({ text: cell.innerText.trim(), colour: colour(cell.querySelector("div, a, span") ?? cell) })));
    drawn.length = shown[0].length;
  } else if (panel.type === "timeseries" || panel.type === "state-timeline") {
    drawn.series = shown.filter((frame) => frame.length).map((frame) => {
      const field = frame.fields[1];
      return { name: data.getFieldDisplayName(field, frame), labels: field.labels, colour: data.getFieldSeriesColor(field, theme).color,
        bands: panel.type === "state-timeline" ? [...new Set(field.values.map((value) => field.display(value).color))] : [] };
    });
    const canvas = element.querySelector(".u-over");
    if (canvas) drawn.plot = canvas.getBoundingClientRect().height / element.getBoundingClientRect().height;
  }
  return drawn;
}

class Guard extends React.Component {
  state = {};
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { this.props.of.error = String(error.stack).slice(0, 600); }
  render() { return this.state.error ? <Nothing words="error" /> : this.props.children; }
}

globalThis.draw = async (board, asked) => {
  theme = data.createTheme({ colors: { mode: asked.theme } });
  document.body.style.cssText = `background:${theme.colors.background.canvas};color:${theme.colors.text.primary}`;
  const replace = replacing(asked, board);
  const from = data.dateTime(asked.from), to = data.dateTime(asked.to);
  const timeRange = { from, to, raw: { from, to } };
  const list = placed(board, asked.width);
  await Promise.all(list.map(async (one) => {
    try {
      if (one.panel.targets) one.shown = await read(asked, replace, one.panel);
      if (one.panel.type === "alertlist") one.firing = await query(asked, replace, { expr: 'sort_desc(ALERTS{alertstate="firing", alertname=~"KafkaClient.+", alertname!="KafkaClientHealthWatchdog"})', instant: true }, 1);
    } catch (error) {
      one.error = String(error.stack).slice(0, 600);
    }
  }));
  const bottom = Math.max(...list.map(({ top, height }) => top + height));
  const element = document.getElementById("board");
  element.style.cssText = `position:relative;width:${asked.width}px;height:${bottom}px`;
  globalThis.drawn?.unmount();
  globalThis.drawn = createRoot(element);
  globalThis.drawn.render(
    <data.ThemeContext.Provider value={theme}>
      <GlobalStyles />
      {list.map((one) => {
        const { panel, left, top, width, height } = one;
        const place = { position: "absolute", left, top, width, height };
        if (panel.type === "row") return <h6 key={panel.id} id={`panel-${panel.id}`} style={{ ...place, lineHeight: "30px", margin: 0 }}>⌄ {panel.title}</h6>;
        return (
          <div key={panel.id} id={`panel-${panel.id}`} style={place}>
            <PanelChrome title={replace(panel.title)} description={panel.description} width={width} height={height} padding={panel.type === "timeseries" ? "md" : "sm"}>
              {(w, h) => one.error ? <Nothing words="error" /> : (
                <Guard of={one}><Body {...{ ...one, asked, replace, timeRange }} width={w} height={h} /></Guard>
              )}
            </PanelChrome>
          </div>
        );
      })}
    </data.ThemeContext.Provider>,
  );
  await settled();
  return list.filter(({ panel }) => panel.type !== "row").map((one) => report(one, replace));
};
