"""The image, compose and Kubernetes as security officers want them, checked without either running here."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from alerts import build
from clienthealth.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
KUSTOMIZATION = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
#: What the standard `restricted` asks of every container.
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}


def resources() -> list[dict[str, Any]]:
    """Everything that `kubectl apply -k` creates."""
    texts = ((KUBERNETES / name).read_text("utf-8") for name in KUSTOMIZATION["resources"])
    return [found for text in texts for found in yaml.safe_load_all(text)]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates of all pods: labels and specification."""
    for found in resources():
        spec = found.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield found["metadata"]["name"], template


def one(kind: str, name: str) -> dict[str, Any]:
    (found,) = (r for r in resources() if (r["kind"], r["metadata"]["name"]) == (kind, name))
    return found


@pytest.mark.parametrize("resource", resources(), ids=lambda r: f"{r['kind']} {r['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_resources_fit_the_schemas_of_kubernetes(resource: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(resource, version, strict=True)


def test_a_field_that_is_not_known_would_be_found() -> None:
    wrong = one("Deployment", "kafka-client-health-exporter")
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContxt"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_every_file_is_part_of_the_kustomization() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=lambda value: value if isinstance(value, str) else "")
def test_pods_are_restricted(name: str, pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    context = spec["securityContext"]
    assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert context["runAsUser"] > 0 and spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]} <= {
        *("configMap", "emptyDir", "persistentVolumeClaim"),
    }
    (container,) = spec["containers"]
    assert container["securityContext"] == RESTRICTED
    assert (
        container["resources"]["requests"].keys() == {"cpu", "memory"} and "memory" in container["resources"]["limits"]
    )
    # With a read-only root Spark and Python need a place for what is temporary.
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "kafka-client-health", "the network policy finds it"


def test_the_namespace_refuses_pods_that_are_not() -> None:
    assert (
        one("Namespace", KUSTOMIZATION["namespace"])["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "restricted"
    )


def test_the_stateful_set_names_a_headless_service_that_finds_its_pods() -> None:
    monitor = one("StatefulSet", "kafka-client-health-monitor")["spec"]
    service = one("Service", monitor["serviceName"])["spec"]
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
    (container,) = one(kind, f"kafka-client-health-{name}")["spec"]["template"]["spec"]["containers"]
    assert [found["containerPort"] for found in container["ports"]] == [port]
    assert container["livenessProbe"]["httpGet"]["path"] == live
    assert container["readinessProbe"]["httpGet"]["path"] == ready


def test_an_exporter_is_replaced_without_a_gap_and_apart_from_groups() -> None:
    exporter, groups = (one("Deployment", f"kafka-client-health-{name}")["spec"] for name in ("exporter", "groups"))
    assert exporter["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert groups["strategy"] == {"type": "Recreate"}


def test_operator_scrapes_the_jobs_that_the_alerts_name() -> None:
    text = (KUBERNETES / "prometheus-operator/service-monitors.yaml").read_text("utf-8")
    services = {tuple(r["spec"]["selector"].items()): r["spec"]["ports"] for r in resources() if r["kind"] == "Service"}
    jobs = {}
    for found in yaml.safe_load_all(text):
        (endpoint,) = found["spec"]["endpoints"]
        (relabelled,) = endpoint["relabelings"]
        wanted = found["spec"]["selector"]["matchLabels"].items()
        (ports,) = (ports for labels, ports in services.items() if wanted <= set(labels))
        assert endpoint["port"] in {port["name"] for port in ports}
        jobs[relabelled["replacement"]] = endpoint.get("honorLabels", False)
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert jobs == {job["job_name"]: job.get("honor_labels", False) for job in scraped}


def test_rules_for_the_operator_are_those_of_the_files(tmp_path: Path) -> None:
    build.write(tmp_path, Settings(), dry_run=False)
    rule = yaml.safe_load((tmp_path / "prometheus-rule.yaml").read_text("utf-8"))
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    files = sorted((tmp_path / "rules").glob("*.yml"))
    groups = [group for path in files for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    assert rule["spec"]["groups"] == groups and len(groups) > 4


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_compose_confines_every_service(name: str) -> None:
    service = COMPOSE["services"][name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["healthcheck"].get("test") or service["healthcheck"] == {"disable": True}
    assert service["mem_limit"] and service["cpus"] and service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not service["image"].endswith(":latest") or "build" in service, "images of others are pinned"


def test_compose_has_no_default_password() -> None:
    assert COMPOSE["services"]["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"].startswith(
        "${GRAFANA_ADMIN_PASSWORD:?"
    )


def test_the_image_is_built_from_what_the_context_lets_through() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 2 and all(re.search(r":\d+\.\d+\.\d+-", base) for base in bases), "two stages, pinned"
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = {
        source for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for source in line.split()
    }
    assert copied == allowed and all((ROOT / source).exists() for source in copied)
    assert re.search(r"^USER 10001$", text, re.MULTILINE)


def test_hadolint_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(linter), str(ROOT / "deploy/Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
