// The rules and dashboards of Kafka Client Health as a monitoring mixin (https://monitoring.mixins.dev).
//
//   local health = import 'github.com/<owner>/kafka-client-health/deploy/mixin/mixin.libsonnet';
//   health { _config+:: { selector: 'job="kafka-client-health"', runbookBase: 'https://wiki.example.org/kafka' } }
//
// The mixin adds the selector and the runbooks' address to the files that `kafka-health generate` writes.
local rules = {
  'failure-modes': importstr '../../alerts/rules/failure-modes.yml',
  measurements: importstr '../../alerts/rules/measurements.yml',
  slo: importstr '../../alerts/rules/slo.yml',
  throughput: importstr '../../alerts/rules/throughput.yml',
  watchdog: importstr '../../alerts/rules/watchdog.yml',
};
local dashboards = {
  consumers: import '../../dashboards/out/consumers.json',
  'mode-consumer-shutdown-loop': import '../../dashboards/out/mode-consumer-shutdown-loop.json',
  'mode-consumer-stalled': import '../../dashboards/out/mode-consumer-stalled.json',
  'mode-cross-topic-blocking': import '../../dashboards/out/mode-cross-topic-blocking.json',
  'mode-delivery-stalled': import '../../dashboards/out/mode-delivery-stalled.json',
  'mode-producer-callback-deadlock': import '../../dashboards/out/mode-producer-callback-deadlock.json',
  'mode-producer-not-closed': import '../../dashboards/out/mode-producer-not-closed.json',
  'mode-send-blocked-on-metadata': import '../../dashboards/out/mode-send-blocked-on-metadata.json',
  monitor: import '../../dashboards/out/monitor.json',
  overview: import '../../dashboards/out/overview.json',
  producers: import '../../dashboards/out/producers.json',
  review: import '../../dashboards/out/review.json',
};

// The address of runbooks in the generated rules, and in the generated dashboards.
local generated = { rules: 'http://127.0.0.1:9309/runbooks', dashboards: '${status_page}/runbooks' };
local start = 'kafka_';

local named(char) = std.member('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:', char);

local name_length(text, at=0) =
  if at < std.length(text) && named(text[at]) then name_length(text, at + 1) tailstrict else at;

// Add the selector to every scraped series in a query. Series that rules record do not get the selector.
local selecting(selector, query) =
  local parts = std.split(query, start);
  local selected(before, part) =
    local length = name_length(part), rest = part[length:];
    local recorded = std.member(part[:length], ':') || (before != '' && named(before[std.length(before) - 1]));
    if recorded then part
    else if std.startsWith(rest, '{}') then part[:length] + '{' + selector + rest[1:]
    else if std.startsWith(rest, '{') then part[:length] + '{' + selector + ', ' + rest[1:]
    else part[:length] + '{' + selector + '}' + rest;
  if selector == '' then query
  else parts[0] + std.join('', [start + selected(parts[at - 1], parts[at]) for at in std.range(1, std.length(parts) - 1)]);

local with_selector(selector, value, key='') =
  if std.isObject(value) then { [name]: with_selector(selector, value[name], name) for name in std.objectFields(value) }
  else if std.isArray(value) then [with_selector(selector, inner, key) for inner in value]
  else if std.isString(value) && std.member(['expr', 'query', 'definition'], key) then selecting(selector, value)
  else value;

local replaced(value, old, new) = std.parseJson(std.strReplace(std.manifestJsonMinified(value), old, new));

{
  _config+:: {
    // Matchers for every scraped series, such as 'job="kafka-client-health"'; '' for none.
    selector: '',
    // The address of the runbooks. The exporter serves them below /runbooks.
    runbookBase: generated.rules,
  },

  local config = self._config,
  local groups(kind) = [
    group { rules: those }
    for name in std.objectFields(rules)
    for group in std.parseYaml(rules[name]).groups
    for those in [[
      replaced(with_selector(config.selector, rule), generated.rules, config.runbookBase)
      for rule in group.rules
      if std.objectHas(rule, kind)
    ]]
    if those != []
  ],

  prometheusAlerts+:: { groups+: groups('alert') },
  prometheusRules+:: { groups+: groups('record') },
  grafanaDashboards+:: {
    ['kafka-client-health-' + name + '.json']: replaced(
      with_selector(config.selector, dashboards[name]),
      generated.dashboards,
      if config.runbookBase == generated.rules then generated.dashboards else config.runbookBase,
    )
    for name in std.objectFields(dashboards)
  },
}
