"""`make audit`: list known vulnerabilities of the product's dependencies.

known_cves.toml states why each accepted vulnerability of a jar is accepted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.supply import osv
from deploy.supply.jars import CVES, Jar, installed, judged, vulnerabilities
from deploy.supply.sbom import requirements

_UNREACHABLE = (
    *("ConnectionError", "Connection refused", "NameResolutionError", "Max retries exceeded", "ProxyError"),
    *("ServiceError", "Could not connect", "Timeout", "403 Client Error", "404 Client Error", "503 Server Error"),
)


def main() -> int:
    present = list(installed())
    mend, stays = judged(present, vulnerabilities())
    print("\n".join([*stays, *(f"MEND {line}" for line in mend)]))
    print(f"jars: {len(mend)} vulnerabilities to fix, {len(stays)} accepted with a reason")
    news = has_news(present)
    packages = _packages()
    return int(bool(mend) or news or packages)


def has_news(present: Sequence[Jar], url: str = osv.URL) -> bool:
    """Print OSV's advisories on the jars `present`, except those in known_cves.toml.

    Return True if an advisory was printed.
    """
    try:
        news = osv.unlisted(osv.advisories(present, url), vulnerabilities())
    except OSError as error:
        print(f"jars: OSV NOT QUERIED, the service cannot be reached from here ({error})")
        return False
    for line in news:
        print(f"NEW {line}. Upgrade the jar, or state in {CVES.name} why this version stays.")
    unnamed = sorted({jar.path.name for jar in present if not jar.group})
    print(f"jars: {CVES.name} lacks {len(news)} advisories; jars without group were not queried: {', '.join(unnamed)}")
    return bool(news)


def _packages() -> bool:
    listed = Path("dist/requirements.txt")
    listed.parent.mkdir(exist_ok=True)
    listed.write_text(requirements(), encoding="utf-8")
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--progress-spinner", "off"]
    done = subprocess.run([*command, "-r", str(listed)], capture_output=True, text=True, check=False)
    return has_vulnerability(done.returncode, done.stdout, done.stderr)


def has_vulnerability(code: int, out: str, err: str) -> bool:
    """Print the result of a run of pip-audit. Return False if pip-audit found nothing or got no answer, else True.

    `code`, `out`, `err`: exit code, standard output and standard error of pip-audit.
    """
    if code == 0:
        print("Python packages: none has a known vulnerability")
        return False
    if not out.strip() and any(sign in err for sign in _UNREACHABLE):
        print("Python packages: NOT CHECKED, the advisory service cannot be reached from here")
        return False
    print(f"{out}{err}".strip())
    return True


if __name__ == "__main__":
    sys.exit(main())
