"""Run the tests of the alert rules twice: with installed and with self-built promtool and amtool."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.alert_rules import ROOT

BUILT = ROOT / ".cache/go/bin"


@pytest.fixture(scope="session", autouse=True, params=["installed", pytest.param("built", marks=pytest.mark.long)])
def tools(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "built" and not (BUILT / "promtool").exists():
        pytest.skip("make promtool builds them, if Go is installed")
    with pytest.MonkeyPatch.context() as environment:
        if request.param == "built":
            environment.setenv("PATH", f"{BUILT}{os.pathsep}{os.environ['PATH']}")
        yield
