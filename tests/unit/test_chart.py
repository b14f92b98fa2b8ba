"""The real Helm renders the chart, and Kubernetes's schemas accept the result."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from clienthealth.configuration import load, placed
from clienthealth.settings import Settings
from clienthealth_exporters.alerts import build
from deploy.supply import helm
from tests.support.rows import long_after

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/kafka-client-health"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
FULL: Mapping[str, Any] = {
    "config": {
        "kafka": {
            "bootstrap_servers": "broker-1:9093,broker-2:9093",
            "options": {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/etc/kafka-client-health/ca.pem"},
        },
        "topics": {"logs": ["filebeat", "vector"]},
        "monitor": {"cluster": "orders-eu", "buckets": 64, "max_offsets_per_trigger": 2_000_000},
        "prometheus": {"labels": {"region": "eu-1", "env": "prod"}, "keep_labels": ["tenant", "env"]},
        "lag": {"stop_gaps": 2.5, "allowed_lag": {"batch-*/orders": 100_000}},
        "links": {"dashboards": "https://grafana.example.org/", "runbooks": "https://wiki.example.org/<health>"},
        "review": {"slo_target": 0.999},
        "modes": {"delivery-stalled": {"suspect_stalled_seconds": 55.5}},
    },
    "existingSecret": "health-passwords",
    "certificatesSecret": "health-certificates",
    "commonLabels": {"team": "streaming"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "spark", "operator": "Exists"}],
    "priorityClassName": "monitoring",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "krb", "projected": {"sources": [{"secret": {"name": "keytab"}}]}}],
    "extraVolumeMounts": [{"name": "krb", "mountPath": "/etc/krb", "readOnly": True}],
    "serviceAccount": {"create": True, "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/health"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"cert-manager.io/cluster-issuer": "ours"},
        "hosts": ["health.example.org"],
        "tls": [{"secretName": "health-tls", "hosts": ["health.example.org"]}],
    },
    "runAs": {"user": None, "group": None},
    "image": {"repository": "registry.example.org/health", "tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
    "monitor": {"persistence": {"existingClaim": "history", "accessMode": "ReadWriteMany"}},
    "jvm": {"enabled": True},
    "review": {"mail": True},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True},
    "networkPolicy": {"kafkaPorts": [9093], "egress": [{"ports": [{"protocol": "TCP", "port": 8778}]}]},
}
DEFAULT: Mapping[str, Any] = {}
#: Values of the chart for an installation made with the manifests of release 0.2.0.
FILES_OF_02: Mapping[str, Any] = {
    "config": {
        "kafka": {"bootstrap_servers": "kafka-bootstrap:9092"},
        "monitor": {
            "checkpoint": "/var/lib/kafka-client-health/checkpoints",
            "history": "/var/lib/kafka-client-health/history",
            "metrics_host": "0.0.0.0",
        },
        "prometheus": {"host": "0.0.0.0"},
    },
    "existingSecret": "kafka-client-health",
    "image": {"tag": "latest"},
    "monitor": {"persistence": {"existingClaim": "kafka-client-health-state"}},
}
INSTALLATIONS: Mapping[str, Mapping[str, Any]] = {
    "default": DEFAULT,
    "full": FULL,
    "from-0.2.0": FILES_OF_02,
    "monitor-alone": {"groups": {"enabled": False}, "review": {"enabled": False}, "networkPolicy": {"enabled": False}},
    "shards": {
        "exporter": {"shards": 3, "replicas": 2, "service": {"type": "LoadBalancer", "annotations": {"lb": "x"}}}
    },
    "large": {
        "config": {"monitor": {"heap_mb": 16384, "buckets": 256, "max_offsets_per_trigger": 20_000_000}},
        "monitor": {
            "resources": {"requests": {"cpu": 8, "memory": "24Gi"}, "limits": {"memory": "32Gi"}},
            "tmpSize": "50Gi",
            "persistence": {"storageClass": "fast", "size": "1Ti"},
        },
    },
    "object-store": {
        "config": {"monitor": {"checkpoint": "s3a://health/checkpoints", "history": "s3a://health/history"}},
        "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}]},
    },
    "jvms-by-name": {
        "config": {"jvm": {"targets": ["orders=http://web-7:8778/jolokia/"], "interval_seconds": 30}},
        "jvm": {"enabled": True},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
    },
    "operator": {
        "prometheusRule": {"enabled": True, "dryRun": True},
        "serviceMonitor": {"enabled": True, "interval": "15s"},
        "alertmanagerConfig": {"enabled": True, "receivers": [{"name": "pager"}, {"name": "tickets"}]},
        "owners": '[[owner]]\nservices = ["payments*"]\nteam = "payments"\n',
    },
    "other-ports": {
        "config": {
            "monitor": {"metrics_port": 19308},
            "prometheus": {"port": 19309, "labels": {"env": "true", "zone": "1"}},
            "review": {"smtp_host": "mail.example.org", "mail_from": "a@example.org", "mail_to": ["b@example.org"]},
        },
        "review": {"mail": True, "schedule": "0 6 * * 1", "timeZone": "Europe/Berlin"},
        "networkPolicy": {"reviewPorts": [25]},
    },
}
Resource = dict[str, Any]

pytestmark = pytest.mark.skipif(helm.installed() is None, reason=helm.MISSING)


def run(*arguments: str, values: Mapping[str, Any] = DEFAULT) -> subprocess.CompletedProcess[str]:
    command = [str(helm.installed()), *arguments, *(["--values", "-"] if values else [])]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=300)


def rendered(values: Mapping[str, Any] = DEFAULT, chart: Path = CHART) -> list[Resource]:
    return _rendered(json.dumps(values), chart)


@cache
def _rendered(values: str, chart: Path) -> list[Resource]:
    done = run("template", "kafka-client-health", str(chart), "--namespace", "health", values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.load_all(done.stdout, yaml.CSafeLoader) if resource]


def one(resources: list[Resource], kind: str, name: str) -> Resource:
    (resource,) = (r for r in resources if (r["kind"], r["metadata"]["name"]) == (kind, name))
    return resource


def pods(resources: list[Resource]) -> Iterator[tuple[str, Resource]]:
    for resource in resources:
        spec = resource.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield resource["metadata"]["name"], template


def settings(resources: list[Resource], folder: Path) -> Settings:
    path = folder / "health.toml"
    path.write_text(one(resources, "ConfigMap", "kafka-client-health")["data"]["health.toml"], "utf-8")
    return load(str(path), environ={})


@pytest.mark.parametrize("values", [DEFAULT, FULL], ids=["default", "full"])
def test_lint_finds_nothing(values: Mapping[str, Any]) -> None:
    done = run("lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("version", long_after(1, ["1.37", "1.29"]))
@pytest.mark.parametrize("values", long_after(1, INSTALLATIONS.values()), ids=INSTALLATIONS)
def test_resources_fit_the_schemas_of_kubernetes(values: Mapping[str, Any], version: str) -> None:
    # If this import were at the top of the file, it would cost every test run two seconds.
    import kubernetes_validate

    ours = [
        resource for resource in rendered(values) if not resource["apiVersion"].startswith("monitoring.coreos.com/")
    ]
    kinds = {resource["kind"] for resource in ours}
    assert {"ConfigMap", "StatefulSet", "Deployment", "Service"} <= kinds
    assert ({"CronJob", "NetworkPolicy"} <= kinds) == (values is not INSTALLATIONS["monitor-alone"])
    for resource in ours:
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.long
def test_an_upgrade_and_other_values_need_nothing_to_be_deleted(tmp_path: Path) -> None:
    done = run("package", "--version", "9.9.9", "--app-version", "9.9.9", "--destination", str(tmp_path), str(CHART))
    assert done.returncode == 0, done.stderr
    before = _fixed(rendered())
    assert len(before) == 3 and _fixed(rendered(chart=tmp_path / "kafka-client-health-9.9.9.tgz")) == before
    for name, values in INSTALLATIONS.items():
        after = _fixed(rendered(values))
        assert {part: after[part] for part in before.keys() & after.keys()} == {
            part: before[part] for part in before.keys() & after.keys()
        }, name


def _fixed(resources: list[Resource]) -> dict[str, list[Any]]:
    return {
        resource["metadata"]["name"]: [
            resource["spec"].get(field) for field in ("selector", "serviceName", "volumeClaimTemplates")
        ]
        for resource in resources
        if resource["kind"] in ("StatefulSet", "Deployment")
    }


def test_what_release_02_installed_from_files_is_gone_on_with(tmp_path: Path) -> None:
    resources = rendered(FILES_OF_02)
    assert not [resource for resource in resources if resource["kind"] == "PersistentVolumeClaim"], "its own is used"
    for name in ("monitor", "review", "maintain"):
        spec = dict(pods(resources))[f"kafka-client-health-{name}"]["spec"]
        assert {"claimName": "kafka-client-health-state"} in [
            one.get("persistentVolumeClaim") for one in spec["volumes"]
        ]
        assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": "kafka-client-health"}}]
        assert spec["securityContext"]["fsGroup"] == 10001, "owner of the files"
    monitor = settings(resources, tmp_path).monitor
    places = ("/var/lib/kafka-client-health/checkpoints", "/var/lib/kafka-client-health/history", 32)
    assert (monitor.checkpoint, monitor.history, monitor.buckets) == places
    removed = {"config": {"prometheus": {"tls_cert": "/etc/tls.pem"}}}
    done = run("template", "kafka-client-health", str(CHART), values=removed)
    assert done.returncode != 0 and "additional properties 'tls_cert' not allowed" in done.stderr


def test_a_field_that_is_not_known_would_be_found() -> None:
    import kubernetes_validate

    wrong = one(json.loads(json.dumps(rendered())), "Deployment", "kafka-client-health-exporter")
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContxt"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


@pytest.mark.parametrize("values", [DEFAULT, FULL], ids=["default", "full"])
def test_pods_are_restricted(values: Mapping[str, Any]) -> None:
    templates = dict(pods(rendered(values)))
    parts = {"monitor", "exporter", "groups", "review", "maintain"} | ({"jvm"} if values else set())
    assert templates.keys() == {f"kafka-client-health-{part}" for part in parts}
    for pod in templates.values():
        spec = pod["spec"]
        context = spec["securityContext"]
        assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        assert context.get("runAsUser") == (None if values else 10001)
        assert spec["automountServiceAccountToken"] is False
        # Kubernetes' variables for services begin with KAFKA_HEALTH_ if the release is named kafka-health.
        assert spec["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        kinds = {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]}
        assert kinds <= {"projected", "emptyDir", "persistentVolumeClaim"}
        (container,) = spec["containers"]
        assert container["securityContext"] == RESTRICTED
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        # The root file system is read-only.
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_network_policies_find_the_pods() -> None:
    resources = rendered()
    policy = one(resources, "NetworkPolicy", "kafka-client-health")["spec"]
    wanted = policy["podSelector"]["matchLabels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for _, pod in pods(resources))
    assert [port["port"] for port in policy["ingress"][0]["ports"]] == [
        Settings().monitor.metrics_port,
        Settings().prometheus.port,
    ]
    mail = one(resources, "NetworkPolicy", "kafka-client-health-review")["spec"]["podSelector"]["matchLabels"]
    reached = [name for name, pod in pods(resources) if mail.items() <= pod["metadata"]["labels"].items()]
    assert reached == ["kafka-client-health-review"]


def test_the_stateful_set_names_a_headless_service_that_finds_its_pods() -> None:
    monitor = one(rendered(), "StatefulSet", "kafka-client-health-monitor")["spec"]
    service = one(rendered(), "Service", monitor["serviceName"])["spec"]
    assert monitor["replicas"] == 1, "its checkpoint has one writer"
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert service["selector"].items() <= monitor["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("kind", "name", "port", "live", "ready"),
    [
        ("StatefulSet", "monitor", Settings().monitor.metrics_port, "/healthz", "/readyz"),
        ("Deployment", "exporter", Settings().prometheus.port, "/livez", "/readyz"),
    ],
)
def test_probes_ask_what_notices_a_query_that_hangs(kind: str, name: str, port: int, live: str, ready: str) -> None:
    (container,) = one(rendered(), kind, f"kafka-client-health-{name}")["spec"]["template"]["spec"]["containers"]
    assert [declared["containerPort"] for declared in container["ports"]] == [port]
    assert container["livenessProbe"]["httpGet"]["path"] == live
    assert container["readinessProbe"]["httpGet"]["path"] == ready


def test_an_exporter_is_replaced_without_a_gap_and_apart_from_groups() -> None:
    exporter, groups = (
        one(rendered(), "Deployment", f"kafka-client-health-{name}")["spec"] for name in ("exporter", "groups")
    )
    assert exporter["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert groups["strategy"] == {"type": "Recreate"}


def test_jobs_run_where_the_volume_is() -> None:
    def affinity(values: Mapping[str, Any]) -> Any:
        return dict(pods(rendered(values)))["kafka-client-health-review"]["spec"].get("affinity")

    (beside,) = affinity(DEFAULT)["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    monitor = dict(pods(rendered()))["kafka-client-health-monitor"]["metadata"]["labels"]
    assert beside["labelSelector"]["matchLabels"].items() <= monitor.items()
    assert "podAffinity" not in affinity(FULL), "its volume can be mounted by many nodes"


def test_every_pod_has_the_account_the_variables_and_the_volumes_of_the_values() -> None:
    resources = rendered(FULL)
    account = one(resources, "ServiceAccount", "kafka-client-health")
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/health"}
    for name, pod in pods(resources):
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        assert spec["serviceAccountName"] == "kafka-client-health", name
        assert "nodeAffinity" in spec["affinity"], name
        assert {"name": "TZ", "value": "UTC"} in container["env"], name
        assert "krb" in [volume["name"] for volume in spec["volumes"]], name
        assert {"name": "krb", "mountPath": "/etc/krb", "readOnly": True} in container["volumeMounts"], name
    assert not [r for r in rendered() if r["kind"] in ("ServiceAccount", "Ingress")]
    assert all("serviceAccountName" not in pod["spec"] for _, pod in pods(rendered()))
    named = rendered({"serviceAccount": {"name": "ours"}})
    assert {pod["spec"]["serviceAccountName"] for _, pod in pods(named)} == {"ours"}
    assert not [resource for resource in named if resource["kind"] == "ServiceAccount"]


def test_an_affinity_of_the_values_leaves_jobs_where_the_volume_is() -> None:
    affinity = dict(pods(rendered({"affinity": FULL["affinity"]})))["kafka-client-health-review"]["spec"]["affinity"]
    assert affinity.keys() == {"nodeAffinity", "podAffinity"}


def test_the_ingress_leads_to_the_status_page() -> None:
    ingress = one(rendered(FULL), "Ingress", "kafka-client-health")
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service = one(rendered(FULL), "Service", path["backend"]["service"]["name"])
    assert path["backend"]["service"]["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
    assert (rule["host"], ingress["spec"]["ingressClassName"]) == ("health.example.org", "nginx")
    done = run("template", "x", str(CHART), values={"ingress": {"enabled": True}})
    assert done.returncode != 0 and "ingress.hosts is empty: name the host" in done.stderr


def test_values_reach_the_settings(tmp_path: Path) -> None:
    in_force = settings(rendered(FULL), tmp_path)
    assert in_force.kafka.options["security.protocol"] == "SASL_SSL"
    assert in_force.topics.logs == ("filebeat", "vector") and in_force.topics.metrics == ("client-metrics",)
    assert (in_force.monitor.buckets, in_force.monitor.max_offsets_per_trigger) == (64, 2_000_000)
    assert in_force.lag.allowed_lag == {"batch-*/orders": 100_000} and in_force.lag.stop_gaps == 2.5
    assert in_force.modes == {"delivery-stalled": {"suspect_stalled_seconds": 55.5}}
    assert in_force.links.runbooks == "https://wiki.example.org/<health>"
    assert in_force.links.status_page == "http://kafka-client-health.health.svc:9309"
    assert in_force.monitor.checkpoint.startswith("/var/lib/kafka-client-health/")
    assert (in_force.monitor.metrics_host, in_force.prometheus.host) == ("0.0.0.0", "0.0.0.0")


def test_every_setting_can_be_a_value(tmp_path: Path) -> None:
    every = dataclasses.asdict(Settings())
    assert settings(rendered({"config": every}), tmp_path) == placed(Settings())


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"config": {"monitor": {"buckts": 32}}}, "additional properties 'buckts' not allowed"),
        ({"config": {"monitor": {"buckets": "many"}}}, "at '/config/monitor/buckets': got string, want integer"),
        ({"config": {"modes": {"delivery-staled": {}}}}, "additional properties 'delivery-staled' not allowed"),
        ({"networkpolicy": {}}, "additional properties 'networkpolicy' not allowed"),
        ({"exporter": {"replicas": 0}}, "at '/exporter/replicas': minimum"),
    ],
)
def test_values_that_are_wrong_are_refused(values: Mapping[str, Any], complaint: str) -> None:
    done = run("template", "kafka-client-health", str(CHART), values=values)
    assert done.returncode != 0 and complaint in done.stderr


def test_secrets_come_from_secrets() -> None:
    for _, pod in pods(rendered(FULL)):
        (container,) = pod["spec"]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "health-passwords"}}]
        sources = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "config")["projected"][
            "sources"
        ]
        assert sources == [{"configMap": {"name": "kafka-client-health"}}, {"secret": {"name": "health-certificates"}}]


def test_shards_share_a_service_and_each_knows_its_own() -> None:
    resources = rendered({"exporter": {"shards": 2, "replicas": 2}})
    service = one(resources, "Service", "kafka-client-health")["spec"]["selector"].items()
    for shard in ("1", "2"):
        deployment = one(resources, "Deployment", f"kafka-client-health-exporter-{shard}")["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["replicas"] == 2 and service <= labels.items()
        assert deployment["selector"]["matchLabels"].items() <= labels.items()
        assert deployment["selector"]["matchLabels"]["clienthealth/shard"] == shard
        (variable,) = deployment["template"]["spec"]["containers"][0]["env"]
        assert load(environ={variable["name"]: variable["value"]}).prometheus.shard == f"{shard}/2"


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("values", [DEFAULT, FULL], ids=["default", "full"])
def test_rules_are_those_of_alerts_with_the_settings_of_the_release(
    tmp_path: Path, values: Mapping[str, Any], dry_run: bool
) -> None:
    resources = rendered({**values, "prometheusRule": {"enabled": True, "dryRun": dry_run}})
    rule = one(resources, "PrometheusRule", "kafka-client-health")
    build.write(tmp_path, settings(resources, tmp_path), dry_run)
    files = [
        yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["groups"] for path in (tmp_path / "rules").glob("*.yml")
    ]
    groups = {group["name"]: group for file in files for group in file}
    assert {group["name"]: group for group in rule["spec"]["groups"]} == groups and len(groups) > 4


@pytest.mark.parametrize(
    "prometheus",
    [
        {"ticket_only": {}},
        {"ticket_only": {"env": "stage|lab"}},
        {"ticket_only": {"env": "lab", "cluster": "eu-test"}},
        {"ticket_only": {"tier": "[3-9]", "nowhere": "x"}},
        {"keep_labels": ["cluster", "region"]},
    ],
    ids=["none", "env", "two", "owner", "no-env"],
)
def test_the_values_decide_what_opens_tickets(tmp_path: Path, prometheus: dict[str, Any]) -> None:
    values = {"prometheusRule": {"enabled": True}, "config": {"prometheus": prometheus}}
    resources = rendered(values)
    build.write(tmp_path, settings(resources, tmp_path), False)
    files = [
        yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["groups"] for path in (tmp_path / "rules").glob("*.yml")
    ]
    groups = {group["name"]: group for file in files for group in file}
    rule = one(resources, "PrometheusRule", "kafka-client-health")
    assert {group["name"]: group for group in rule["spec"]["groups"]} == groups


def test_what_the_chart_cannot_declare_is_reported() -> None:
    values = {"prometheusRule": {"enabled": True}, "config": {"prometheus": {"expect_clusters": ["eu"]}}}
    done = run("template", "x", str(CHART), values=values)
    assert done.returncode != 0 and "write the rules with `kafka-health alerts`" in done.stderr


def test_routes_are_those_of_alertmanager_yml_with_the_receivers_of_the_values() -> None:
    receivers: list[dict[str, Any]] = [
        {"name": "pager"},
        {"name": "tickets"},
        {"name": "payments", "webhookConfigs": []},
    ]
    values = {**FULL, "alertmanagerConfig": {"enabled": True, "receivers": receivers}}
    (config,) = [one["spec"] for one in rendered(values) if one["kind"] == "AlertmanagerConfig"]
    assert [one["name"] for one in config["receivers"]] == ["pager", "tickets", "payments", "heartbeat", "nobody"]
    committed = yaml.safe_load((ROOT / "alerts/alertmanager.yml").read_text("utf-8"))
    assert len(config["inhibitRules"]) == len(committed["inhibit_rules"])
    assert len(config["route"]["routes"]) == len(committed["route"]["routes"])
    kept = ["tenant", "env", "cluster", "region"]
    assert config["route"]["groupBy"] == ["alertname", *kept, "service", "cluster_name"]
    critical = next(route for route in config["route"]["routes"] if route["receiver"] == "pager")
    assert critical["matchers"] == [{"name": "severity", "matchType": "=", "value": "critical"}]
    owned = {"name": "pager", "matchType": "=", "value": "payments"}
    assert critical["routes"] == [{"receiver": "payments", "matchers": [owned]}]
    tickets = [route["routes"] for route in config["route"]["routes"] if route["receiver"] == "tickets"]
    opened = [route for route in committed["route"]["routes"] if route["receiver"] == "tickets"]
    assert tickets == [[{"receiver": "payments", "matchers": [{**owned, "name": "team"}]}]] * len(opened)
    refused = run("template", "x", str(CHART), values={"alertmanagerConfig": {"enabled": True}})
    assert refused.returncode != 0 and "receivers needs a receiver named pager" in refused.stderr


def test_owners_are_a_file_beside_the_settings(tmp_path: Path) -> None:
    text = '[[owner]]\nteam = "payments"\nservices = ["orders-*"]\n'
    (data,) = [one["data"] for one in rendered({"owners": text}) if one["kind"] == "ConfigMap"]
    assert data["owners.toml"] == text
    (tmp_path / "health.toml").write_text(data["health.toml"], "utf-8")
    assert load(str(tmp_path / "health.toml"), {}).owners.files == ("/etc/kafka-client-health/owners.toml",)


def test_operator_selects_by_the_labels_of_the_values() -> None:
    for kind in ("PrometheusRule", "ServiceMonitor"):
        labels = [resource["metadata"]["labels"] for resource in rendered(FULL) if resource["kind"] == kind]
        assert labels and all(
            resource.items() >= {"release": "prometheus", "team": "streaming"}.items() for resource in labels
        )


def test_operator_scrapes_the_jobs_that_the_alerts_name() -> None:
    resources = rendered(FULL)
    services = [resource for resource in resources if resource["kind"] == "Service"]
    jobs = {}
    for resource in (r for r in resources if r["kind"] == "ServiceMonitor"):
        (endpoint,) = resource["spec"]["endpoints"]
        (relabelled,) = endpoint["relabelings"]
        wanted = resource["spec"]["selector"]["matchLabels"].items()
        (service,) = (s for s in services if wanted <= s["metadata"]["labels"].items())
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        jobs[relabelled["replacement"]] = endpoint["honorLabels"]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert jobs == {job["job_name"]: job.get("honor_labels", False) for job in scraped}


def test_dashboards_are_the_committed_ones() -> None:
    maps = [r["data"] for r in rendered(FULL) if r["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    files = {path.name: path.read_text("utf-8") for path in (ROOT / "dashboards/out").glob("*.json")}
    assert {name: text for config_map in maps for name, text in config_map.items()} == files


def test_the_packaged_chart_is_complete(tmp_path: Path) -> None:
    done = run("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    assert rendered(FULL, package) == rendered(FULL), "rules and dashboards, which the folder has by links, are in it"
