"""Check the page of `diagnose --html` in a browser: desktop and phone, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.report import html_report
from clienthealth.settings import Settings
from tests.support.browser import check, node_modules
from tests.support.recorded import RECORDINGS
from tests.support.rows import long_after


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ticket")
    long = folder / ("attachment-of-a-ticket-with-a-name-that-nobody-would-choose-but-somebody-does" * 2 + ".log")
    long.write_bytes(bytes(range(256)) * 20)
    dump = RECORDINGS / "healthy-3.9" / "jstack-before1-083042.txt"
    diagnosis = examine([RECORDINGS / "deadlock-3.9", dump, long], Settings())
    file = folder / "ticket.html"
    file.write_text(html_report(diagnosis), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("width", "scheme"),
    long_after(1, [(390, "dark"), (1180, "light"), (1180, "dark"), (390, "light")]),
)
def test_page(page: Path, width: int, scheme: str) -> None:
    check(node_modules(), page, width, scheme)
