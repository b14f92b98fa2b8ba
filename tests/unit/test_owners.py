"""The owners of services come from files, and decide where alerts go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import count
from pathlib import Path

import pytest
import yaml

from clienthealth.configuration.owners import Owner, Owners, Row, read_owners
from clienthealth.model.clients import Client
from clienthealth.model.errors import SettingsError
from clienthealth.ops.doctor.owned import compared
from clienthealth.platform.locations import Reread
from clienthealth.platform.web import Request
from clienthealth.settings import OwnerSettings, PrometheusSettings, Settings
from clienthealth_exporters.alerts.build import FILES, routes_of, rules, write
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, deadlock, group, healthy, record, wire

TOML = """
# Who is called.
[[owner]]
team = "payments"
services = ["orders-*", "billing"]
groups = ["orders-*"]
tier = 1
pager = "payments-oncall"
slo_target = 0.999

[[owner]]
team = "platform"
services = ["*"]
"""
PAYMENTS, PLATFORM = Owner("payments", "1", "payments-oncall", 0.999), Owner("platform")


def read(folder: Path, text: str, name: str = "owners.toml") -> Owners:
    (folder / name).write_text(text, "utf-8")
    return read_owners([str(folder / name)])


def test_the_first_row_that_fits_counts(tmp_path: Path) -> None:
    owners = read(tmp_path, TOML)
    assert [owners.owner_of(name) for name in ("orders-api", "billing", "carts", "")] == [
        PAYMENTS,
        PAYMENTS,
        PLATFORM,
        PLATFORM,
    ]
    assert (owners.of_group("orders-7"), owners.of_group("carts")) == (PAYMENTS, None)
    assert Owners().owner_of("orders-api") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[owner]]\nteam = "a"\nservces = ["x"]', "line 1: [[owner]] has no key 'servces'; known keys: team"),
        ('# x\n[[owner]]\nservices = ["x"]', "line 2: [[owner]] lacks team"),
        ('[[owner]]\nteam = "a"\n\n[[owner]]\nteam = "b"\nservices = "x"', "line 6: services: expected `array`"),
        ('[[owner]]\nteam = "a"\nslo_target = 2', "line 3: slo_target: expected `float` <= 0.999999"),
        ('[[owner]]\nteam = "a"\nservices = ["x", 3]', "line 3: services: expected `str`, got `int`"),
        ('[[owner]]\nteam = ""', "line 2: team: expected `str` of length >= 1"),
        ("[[owner]\nteam", "line 1: not valid TOML"),
        ("owner = [{teem = 'a'}]", "line 1: [[owner]] has no key 'teem'"),
        ("owner = 3", "'owner' is not valid: only [[owner]] tables may occur"),
        ("[owners]\n", "'owners' is not valid: only [[owner]] tables may occur"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_the_line(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as wrong:
        read(tmp_path, text)
    assert str(wrong.value).startswith(f"{tmp_path}/owners.toml") and sentence.replace("`", "") in str(wrong.value)


def test_components_of_backstage(tmp_path: Path) -> None:
    text = """
apiVersion: backstage.io/v1alpha1
kind: Component
metadata:
  name: orders-api
  labels: {tier: "1"}
  annotations: {pagerduty.com/service-id: PABC123}
spec: {type: service, owner: "group:default/payments"}
---
kind: API
metadata: {name: orders}
---
kind: Component
metadata: {name: carts}
spec: {owner: platform}
"""
    owners = read(tmp_path, text, "catalog-info.yaml")
    assert owners.owner_of("orders-api") == Owner("payments", "1", "PABC123")
    assert (owners.owner_of("carts"), owners.owner_of("orders")) == (PLATFORM, None)
    with pytest.raises(
        SettingsError, match=r"catalog-info\.yaml, line 2: a Component must have metadata.name and spec"
    ):
        read(tmp_path, "\nkind: Component\nmetadata: {name: x}\n", "catalog-info.yaml")
    with pytest.raises(SettingsError, match=r"line 2: not valid YAML"):
        read(tmp_path, "a: 1\n b: {", "catalog-info.yaml")


def test_codeowners_name_services_by_the_last_part_of_a_path(tmp_path: Path) -> None:
    text = (
        "* @acme/platform\n/services/orders-*/ @acme/payments @bob  # both\n/apps/carts/** carts@example.org\n/x/free\n"
    )
    owners = read(tmp_path, text, "CODEOWNERS")
    teams = [owner and owner.team for owner in map(owners.owner_of, ("orders-api", "carts", "free", "x"))]
    assert teams == ["payments", "carts@example.org", None, "platform"]
    with pytest.raises(SettingsError, match="CODEOWNERS, line 2: 'payments' is not an owner"):
        read(tmp_path, "\n/services/orders payments\n", "CODEOWNERS")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_owners([str(tmp_path / "owners.toml")])
    with pytest.raises(SettingsError, match=r"owners are read from \*\.toml"):
        read(tmp_path, "", "owners.csv")


def served(tmp_path: Path, *records: dict[str, object]) -> Exporter:
    (tmp_path / "owners.toml").write_text(TOML.partition('[[owner]]\nteam = "platform')[0], "utf-8")
    settings = Settings(owners=OwnerSettings((str(tmp_path / "owners.toml"),)))
    states = States(settings, clock=lambda: NOW_MS / 1000)
    for one in records:
        states.put(*wire(one))
    return Exporter(settings, states, lambda: None, clock=lambda: NOW_MS / 1000)


def test_metrics_contain_the_owners_of_services_and_groups(tmp_path: Path) -> None:
    member = record(service="billing", client_id="c", kind="consumer", group="invoices")
    exporter = served(
        tmp_path,
        deadlock(service="orders-api"),
        healthy(1, service="carts"),
        member,
        group("orders-7"),
        group("invoices"),
        group("other"),
    )
    text = b"".join(exporter.metrics()).decode()
    lines = {line for line in text.splitlines() if "owner" in line.partition("{")[0] or "slo" in line.partition("{")[0]}
    labels = 'team="payments",tier="1",pager="payments-oncall"'
    assert {line for line in lines if not line.startswith("#")} == {
        f'kafka_client_owner_info{{service="billing",{labels}}} 1',
        f'kafka_client_owner_info{{service="orders-api",{labels}}} 1',
        'kafka_client_service_slo_target_ratio{service="billing"} 0.999',
        'kafka_client_service_slo_target_ratio{service="orders-api"} 0.999',
        f'kafka_consumergroup_owner_info{{cluster_name="prod-eu",group="orders-7",{labels}}} 1',
        f'kafka_consumergroup_owner_info{{cluster_name="prod-eu",group="invoices",{labels}}} 1',
        f'kafka_consumergroup_owner_info{{cluster_name="default",group="invoices",{labels}}} 1',
        "kafka_client_health_exporter_owners_read 1",
    }


def test_the_status_page_is_grouped_by_team_and_can_be_asked_for_one(tmp_path: Path) -> None:
    ill = [deadlock(service=name, instance=f"h:{n}") for n, name in enumerate(("orders-api", "billing", "carts"))]
    exporter = served(tmp_path, *ill)
    page = str(exporter(Request("/", {})).body)
    table = page.partition("<h2>Whose</h2>")[2].partition("</table>")[0]
    assert re.findall(r'rowspan="(\d)">(?:<a[^>]*>)?(?:<[^>]*>)?[^<]*?(payments|nobody)', table) == [
        ("2", "payments"),
        ("1", "nobody"),
    ]
    assert "payments-oncall" in page and "tier" in table
    only = str(exporter(Request("/", {"team": "payments"})).body)
    assert "orders-api" in only and ">carts" not in only.partition('<main id="fresh">')[2]


def test_a_file_that_changes_is_read_again_and_one_that_is_broken_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, seconds = tmp_path / "owners.toml", count()
    path.write_text(TOML, "utf-8")
    force = Reread("owners", [path], lambda: read_owners([str(path)]))
    before = force.current()

    def later(text: str) -> Owners:
        path.write_text(text, "utf-8")
        os.utime(path, (0, next(seconds)))
        return force.current()

    assert later("[[owner]]\nservices = 1\n") is before and not force.readable
    assert "line 1: [[owner]] lacks team" in caplog.text or "line 2" in caplog.text
    assert later('[[owner]]\nteam = "b"\nservices = ["billing"]\n').owner_of("billing") == Owner("b") and force.readable
    assert force.current() is force.current()


def test_the_doctor_lists_services_without_owner_and_owners_without_service() -> None:
    rows = [
        Row(PAYMENTS, ("orders-*",), (), "f, line 1"),
        Row(PLATFORM, ("gone",), (), "f, line 9"),
        Row(PLATFORM, (), ("g*",), "f, line 12"),
    ]
    clients = [
        Client("orders-api", "", "", ""),
        Client("carts", "", "", ""),
        Client("consumer-groups", "", "", "g1", "group"),
    ]
    assert [(one.state, one.text) for one in compared(Owners(rows), clients)] == [
        ("warning", "1 of 2 reporting services have no owner, so their alerts take the default route: carts."),
        ("warning", "These owners match no reporting service or group: f, line 9."),
    ]
    assert [one.state for one in compared(Owners(rows[:1]), clients[:1])] == ["ok"]


def test_alertmanager_has_routes_for_each_owner(tmp_path: Path) -> None:
    (tmp_path / "owners.toml").write_text(TOML, "utf-8")
    write(tmp_path / "out", Settings(owners=OwnerSettings((str(tmp_path / "owners.toml"),))), dry_run=False)
    config = yaml.safe_load((tmp_path / "out/alertmanager.yml").read_text("utf-8"))
    routes = {route["receiver"]: route["routes"] for route in config["route"]["routes"] if "routes" in route}
    assert routes["pager"] == [{"receiver": "payments-oncall", "matchers": ['pager="payments-oncall"']}]
    assert [(route["receiver"], route["matchers"]) for route in routes["tickets"]] == [
        ("payments-tickets", ['team="payments"']),
        ("platform-tickets", ['team="platform"']),
    ]
    names = [receiver["name"] for receiver in config["receivers"]]
    assert sorted(names) == [
        "heartbeat",
        "nobody",
        "pager",
        "payments-oncall",
        "payments-tickets",
        "platform-tickets",
        "tickets",
    ]


def test_hostile_names_of_owners_stay_within_their_matcher() -> None:
    text = (FILES / "alertmanager.yml").read_text("utf-8")
    owner = Owner("a'b\"c: #", pager="../../x y")
    config = yaml.safe_load(routes_of(Owners([Row(owner, (), (), "")]), text))
    pagers = next(route["routes"] for route in config["route"]["routes"] if route["receiver"] == "pager")
    teams = next(route["routes"] for route in config["route"]["routes"][::-1] if route["receiver"] == "tickets")
    assert pagers == [{"receiver": "..-..-x-y", "matchers": ['pager="../../x y"']}]
    assert teams == [{"receiver": "a-b-c--tickets", "matchers": ['team="a\'b\\"c: #"']}]


def test_two_teams_with_the_same_file_name_are_an_error_that_names_both() -> None:
    teams = Owners([Row(Owner(team), (), (), "") for team in ("acme/payments", "acme payments")])
    with pytest.raises(SettingsError, match="teams 'acme/payments' and 'acme payments' get the same file name"):
        routes_of(teams, (FILES / "alertmanager.yml").read_text("utf-8"))


#: TIERS: `carts` has an owner of tier 3, so its failure opens a ticket.
TIERS = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: kafka_client_failure_mode{service="carts",mode="delivery-stalled",status="confirmed",client_id="c"}
        values: 1x9
      - series: kafka_client_failure_mode{service="orders",mode="delivery-stalled",status="confirmed",client_id="c"}
        values: 1x9
      - {series: 'kafka_client_owner_info{service="carts",team="t",tier="3",pager="p"}', values: 1x9}
    promql_expr_test:
      - expr: count by (service, severity, tier) (ALERTS{alertstate="firing",status="confirmed"})
        eval_time: 5m
        exp_samples:
          - {labels: '{service="carts",severity="warning",tier="3"}', value: 1}
          - {labels: '{service="orders",severity="critical"}', value: 1}
"""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_a_tier_may_open_tickets_only(tmp_path: Path) -> None:
    settings = Settings(prometheus=PrometheusSettings(ticket_only={"tier": "[3-9]"}))
    (tmp_path / "rules.yml").write_text(rules(settings)["failure-modes.yml"], "utf-8")
    (tmp_path / "case.yml").write_text(TIERS, "utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(tmp_path / "case.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
