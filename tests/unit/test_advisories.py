"""The advisories list the known bugs of each library version."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clienthealth.model.errors import CatalogueError
from clienthealth.modes import advisories, modes
from clienthealth.modes.advisories import advised, libraries, numbers


def test_each_entry_has_true_versions_modes_that_exist_and_an_address() -> None:
    about_modes = 0
    for library in libraries().values():
        for known in library.known:
            fixed = [numbers(release) for release in known.fixed]
            assert numbers(known.since) < fixed[0]
            assert fixed == sorted(set(fixed))
            assert {*known.causes, *known.mimics} <= modes().keys()
            assert urlsplit(known.source or library.tracker).scheme == "https"
            assert known.says.endswith(".") and len(known.says) <= 140
            about_modes += bool(known.causes or known.mimics)
    assert about_modes >= 40


# The expected bugs were taken by hand from the projects' release notes.
@pytest.mark.parametrize(
    ("library", "version", "kind", "some", "none", "upgrade_to"),
    [
        ("java", "3.3.1", "producer", ["KAFKA-14303", "KAFKA-19012", "end-of-support"], ["KIP-896"], "4.1.2"),
        ("java", "3.3.2", "producer", ["KAFKA-19012"], ["KAFKA-14303"], "4.1.2"),
        ("java", "3.3.1", "consumer", ["KAFKA-8206"], ["KAFKA-14303"], "4.1.2"),
        # KAFKA-19012 is fixed in 3.9.2, 4.0.2 and 4.1.2; KAFKA-19747 is not fixed in 3.9.2.
        ("java", "3.9.1", "producer", ["KAFKA-19012", "KAFKA-19747"], ["KAFKA-17731"], "4.1.2"),
        ("java", "3.9.2", "producer", ["KAFKA-19747"], ["KAFKA-19012"], "4.1.2"),
        ("java", "4.0.2", "producer", ["KAFKA-10790"], ["KAFKA-19747", "KAFKA-19012"], "4.1.2"),
        ("java", "4.1.1", None, ["KAFKA-19012", "KAFKA-19747"], ["KAFKA-19357", "end-of-support"], "4.1.2"),
        ("java", "4.1.2", None, [], ["KAFKA-19012"], ""),
        ("java", "0.11.0.3", "producer", ["KIP-896", "KAFKA-6446"], ["KAFKA-4840"], "4.1.2"),
        # 6.0.1-ccs is Confluent's build of Kafka 2.6, so all fixes in 2.6.x count as included.
        (
            "java",
            "6.0.1-ccs",
            "consumer",
            ["KAFKA-8206"],
            ["KAFKA-10134", "KAFKA-10793"],
            "4.1.2",
        ),
        ("java", "2.6.0", "consumer", ["KAFKA-10134", "KAFKA-10793"], [], "4.1.2"),
        ("java", "2.6.0.redhat-00001", "consumer", ["KAFKA-8206"], ["KAFKA-10134"], "4.1.2"),
        ("librdkafka", "2.5.0", "producer", ["#4833", "#5106"], ["#4806"], "2.10.1"),
        ("librdkafka", "2.5.3", None, ["#4806"], ["#4833"], "2.15.0"),
        ("confluent-kafka-python", "2.10.0", None, ["#5088"], ["#4783"], "2.15.0"),
        ("librdkafka", "2.15.0", None, [], ["#5541"], ""),
        ("kafka-python", "2.0.1", "consumer", ["#1985", "KIP-896"], ["#2537"], "2.2.14"),
        ("kafka-python", "2.0.2", "producer", ["#2537"], ["KIP-896"], "2.1.0"),
        ("aiokafka", "0.10.0", "consumer", ["#983"], ["#1135"], "0.11.0"),
        ("sarama", "v1.42.1", None, ["#2717"], [], "1.42.2"),
        ("kafkajs", "2.2.3", None, ["#1408", "#1532"], [], "2.2.4"),
        ("franz-go", "1.21.1", "consumer", ["poll-hang"], [], "1.21.3"),
        ("java", None, None, [], [], ""),
        ("java", "unknown", None, [], [], ""),
        ("some-client", "1.0.0", None, [], [], ""),
    ],
)
def test_a_version_gets_the_advice_of_its_project(
    library: str, version: str | None, kind: str | None, some: list[str], none: list[str], upgrade_to: str
) -> None:
    found = advised(library, version, kind)
    bugs = {known.bug for known, _ in found.known}
    assert set(some) <= bugs
    assert not bugs & set(none)
    assert found.upgrade_to == upgrade_to
    assert bool(bugs) == bool(some)


@pytest.mark.parametrize(
    ("wrong", "key"),
    [('since = "2.x"', "since"), ('sins = "2.0.0"', "sins"), ("fixed = []", "fixed")],
)
def test_a_mistake_is_reported_with_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, key: str
) -> None:
    lines = {
        "bug": 'bug = "B-1"',
        "since": 'since = "1.0.0"',
        "fixed": 'fixed = ["1.1.0"]',
        "says": 'says = "It fails."',
    }
    lines[wrong.split()[0]] = wrong
    text = 'x.parts = ["x"]\nx.tracker = "https://x/"\n[[x.known]]\n' + "\n".join(lines.values())
    (tmp_path / "advisories.toml").write_text(text, "utf-8")
    monkeypatch.setattr(advisories, "FILE", tmp_path / "advisories.toml")
    with pytest.raises(CatalogueError, match=rf"modes/advisories\.toml: x, B-1.*{key}"):
        libraries.__wrapped__()
