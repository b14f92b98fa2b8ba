"""Every settings file is read, or refused with one sentence that quotes no value."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError
from clienthealth.modes import modes
from clienthealth.ops.cli import check_config
from clienthealth.ops.cli.modes import run_explain
from clienthealth.settings import Settings
from clienthealth.settings.fields import complaint, keys

SECRET = "p4ssw0rd"
SECTIONS: Mapping[str, type] = {
    **{name: type(section) for name, section in vars(Settings()).items() if name != "modes"},
    **{f"modes.{mode.id}": type(mode.thresholds) for mode in modes().values()},
}
NUMBERS = st.one_of(
    st.sampled_from((0, 1, 2, -1, 512, 65_535, 65_536, 2**31, 10**400, 0.5, -0.0, math.nan, math.inf, -math.inf)),
    st.integers(),
    st.floats(),
)
TEXTS = st.sampled_from((SECRET, f"http://{SECRET}", f"http://{SECRET}:99999/", f"http://[{SECRET}", f"({SECRET}", ""))
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans())
NAMES = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ODD = ("modes = 5", "[modes]\nx = 5", "[modes]\nproducer-not-closed = [1]", "kafka = [{}]", "[")


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for section in draw(st.lists(st.sampled_from(sorted(SECTIONS)), max_size=3, unique=True)):
        lines.append(f"[{section}]")
        for key in draw(st.lists(st.sampled_from(sorted(keys(SECTIONS[section]))), max_size=3, unique=True)):
            lines.append(f"{key} = {written(draw(VALUES))}")
    if draw(st.integers(0, 5)) == 0:
        lines.insert(0, draw(st.sampled_from(ODD)))
    return "\n".join(lines)


def written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def outcome(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        path = Path(folder) / "health.toml"
        path.write_text(text, "utf-8", errors="replace")
        try:
            check_config.run(argparse.Namespace(config=str(path), spark_submit=None, changed=False))
            for mode in (mode for mode in modes() if mode in text):
                run_explain(argparse.Namespace(config=str(path), mode=mode, json=False))
        except SettingsError as error:
            return str(error).replace(str(path), "FILE")
        return printed.getvalue()


@settings(max_examples=200, deadline=None)
@given(documents() | st.text())
def test_no_file_makes_a_traceback(text: str) -> None:
    result = outcome(text)
    if result.startswith("FILE: "):
        assert SECRET not in result


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[monitor]\nmetrics_port = 99999", "[monitor] metrics_port must be a whole number, 0 to 65535, not 99999"),
        ("[monitor]\nslide_seconds = 90", "[monitor] window_seconds must be at least slide_seconds (90), not 60"),
        (
            "[monitor]\nwindow_seconds = 0",
            "[monitor] window_seconds must be at least slide_seconds (30), not 0",
        ),
        ("[review]\nslo_target = 7", "[review] slo_target must be a number, 0 to 0.999999, not 7"),
        ("[review]\nslo_target = nan", "[review] slo_target must be a number, 0 to 0.999999"),
        (
            "[review]\nsmtp_tls = 'maybe'",
            "[review] smtp_tls must be a string that is not empty, one of starttls, tls, none",
        ),
        ("[review]\nsmtp_user = 'u'", "[review] smtp_user is set, but smtp_password_file is not"),
        ("[registry]\nkey_file = 'k.pem'", "[registry] key_file is set, but cert_file is not"),
        (
            "[kafka]\nbootstrap_servers = 'broker'",
            "[kafka] bootstrap_servers must be a string that is not empty, host:port, comma separated",
        ),
        (
            "[kafka]\nbootstrap_servers = 'a:1,b:65536'",
            "[kafka] bootstrap_servers must be a string that is not empty, host:port, comma separated",
        ),
        ("[links]\ndashboards = 'grafana:3000'", "[links] dashboards must be a string, http(s)://host[:port]"),
        (
            "[jvm]\ntargets = ['orders=h:8778']",
            "[jvm] targets must be a list of strings, each [SERVICE=]http(s)://host[:port]",
        ),
        ("[groups]\ninclude = '('", "[groups] include must be a string that is not empty, a regular expression"),
        ("[lag.allowed_lag]\norders = -1", "[lag] allowed_lag must be a table of whole numbers, at least 0"),
        (
            "[topics]\nrejects = 'client-logs'",
            "[topics] the topics health and rejects must differ from each other and from the input topics",
        ),
        ("[modes]\nx = 5", "[modes.x]: unknown mode; known modes: " + ", ".join(modes())),
        (
            "[modes.producer-callback-deadlock]\nmin_fills = 'two'",
            "[modes.producer-callback-deadlock] min_fills must be a whole number, at least 1",
        ),
        (
            "[modes.producer-callback-deadlock]\nmin_fills = 2.5",
            "[modes.producer-callback-deadlock] min_fills must be a whole number, at least 1, not 2.5",
        ),
        (
            "[modes.producer-callback-deadlock]\nconfirm_frozen_seconds = 3",
            "[modes.producer-callback-deadlock] confirm_frozen_seconds must be at least suspect_frozen_seconds (15), "
            "not 3",
        ),
        (
            "[prometheus]\nttl_seconds = 10",
            "[prometheus] ttl_seconds (10) must be longer than the sum of [jvm] interval_seconds (10) and "
            "[monitor] publish_seconds (15): otherwise series would vanish between two records",
        ),
        (
            "[groups]\ninterval_seconds = 600\n[prometheus]\nttl_seconds = 3600",
            "[lag] window_seconds (900) must be at least min_commits (3) times [groups] "
            "interval_seconds (600): otherwise no group could be judged",
        ),
        (f"[monitor]\nbuckets = {'9' * 5000}", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, sentence: str) -> None:
    assert outcome(text) == f"FILE: {sentence}"


@pytest.mark.parametrize("value", ["99999", "-1", "nan", "x"])
def test_a_wrong_variable_is_named(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^environment: KAFKA_HEALTH_PROMETHEUS_PORT: \[prometheus\] port must be"):
        load(None, {"KAFKA_HEALTH_PROMETHEUS_PORT": value})


def test_every_number_has_a_least_and_a_most() -> None:
    for section, kind in SECTIONS.items():
        for name, key in keys(kind).items():
            if key.kind in (int, float):
                low, high = (b if isinstance(b, int | float) else None for b in (key.at_least, key.at_most))
                for beyond in ((0 if low is None else low) - 1, (2**31 - 1 if high is None else high) + 1):
                    assert (complaint(kind, {name: beyond}) or ("", ""))[0] == name, f"[{section}] {name}"
