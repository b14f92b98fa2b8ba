"""Build the repository's pages as a web site, for `make site` and `make release`. A broken link is an error.

python -m deploy.supply.site [FOLDER]      (default: dist/site)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from pathlib import Path

from clienthealth.model.errors import HealthError, InputError
from clienthealth.platform.locations import checkout
from deploy.helm.build import project

START, RUNBOOKS = "README.md", "alerts/runbooks"
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)((?:#[^)]*)?\))")
SECTIONS = {
    "": "About",
    "deploy": "Running it",
    "exporters": "Exporters and the API",
    "alerts": "Alerts",
    RUNBOOKS: "Runbooks",
    "dashboards": "Dashboards",
    "jobs": "How it works",
    "tests": "How it is proven",
}


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else checkout() / "dist/site"
    print(f"{out}: {build(out)} pages")
    return 0


def build(out: Path, root: Path | None = None) -> int:
    """Build the site of the checkout `root` in the emptied folder `out`. Return the number of pages.

    Raises InputError with a list of all mistakes that Sphinx finds.
    """
    shutil.rmtree(out, ignore_errors=True)
    version = project()["version"]
    settings = {
        "project": "Kafka Client Health",
        "version": version,
        "release": version,
        "extensions": ["myst_parser"],
        # Disable MyST's syntax that GitHub's Markdown lacks.
        "myst_disable_syntax": ["myst_role", "myst_target", "myst_line_comment", "myst_block_break"],
        "myst_heading_anchors": 6,
        "html_theme": "furo",
        "html_title": f"Kafka Client Health {version}",
        "html_copy_source": False,
        # Sphinx cannot highlight excerpts in Kafka's own formats.
        "suppress_warnings": ["misc.highlighting_failure", "myst.header"],
    }
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        found = gather(root or checkout(), source)
        (source / "index.rst").write_text(contents(found), encoding="utf-8")
        (source / "conf.py").write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()), "utf-8")
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-qWb",
            "html",
            "--keep-going",
            "--no-color",
            str(source),
            str(built),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            complaints = done.stderr.replace(f"{source}/", "").strip()
            raise InputError(f"the site is not built, because its pages have mistakes:\n{complaints}")
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(built, out)
    return len(found)


def gather(root: Path, source: Path) -> list[str]:
    """Copy into `source`: README.md, the runbooks, and all pages and files to which copied pages link."""
    todo, pages = [START, *(f"{RUNBOOKS}/{page.name}" for page in (root / RUNBOOKS).glob("*.md"))], set[str]()
    while todo:
        path = todo.pop()
        if path in pages or not (root / path).is_file():
            continue
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".md":
            shutil.copy(root / path, target)
            continue
        pages.add(path)
        text = LINK.sub(partial(_as_in_site, root, path), (root / path).read_text(encoding="utf-8"))
        target.write_text(text, encoding="utf-8")
        named = ((root / path).parent / link[2] for link in LINK.finditer(text))
        todo += [str(there.resolve().relative_to(root)) for there in named if there.is_file()]
    return sorted(pages)


def contents(pages: Iterable[str]) -> str:
    """Return the site's index in reStructuredText: a table of contents for each section."""
    title = "Kafka Client Health"
    lines = [title, "=" * len(title), "", project()["description"], ""]
    order = [*SECTIONS]
    placed = sorted((order.index(_section(page)), not page.endswith(START), page) for page in pages)
    for number, section in groupby(placed, lambda entry: entry[0]):
        lines += [".. toctree::", "   :titlesonly:", f"   :caption: {SECTIONS[order[number]]}", ""]
        lines += [f"   {page.removesuffix('.md')}" for *_, page in section] + [""]
    return "\n".join(lines)


def _section(page: str) -> str:
    return max((folder for folder in SECTIONS if page.startswith(f"{folder}/") or not folder), key=len)


def _as_in_site(root: Path, page: str, link: re.Match[str]) -> str:
    """Rewrite a page's link for the site. Links to folders lead to the repository, links to pages end with .md."""
    there = (root / page).parent / link[2]
    if there.is_dir():
        return f"{link[1]}{project()['urls']['Source']}/{there.resolve().relative_to(root)}{link[3]}"
    suffix = ".md" if not there.exists() and there.with_suffix(".md").is_file() else ""
    return f"{link[1]}{link[2]}{suffix}{link[3]}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HealthError as error:
        sys.exit(f"kafka-health: {error}")
