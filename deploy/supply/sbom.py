"""`make sbom`: write a CycloneDX file with all Python packages and jars.

python -m deploy.supply.sbom [FILE]      (default: dist/sbom.cdx.json)
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.supply.dist import uv
from deploy.supply.jars import Jar, installed

OUT = Path("dist/sbom.cdx.json")


def main() -> int:
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
    return 0


def write(out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    bill = _python()
    jars = [_component(jar) for jar in installed(("spark",))]
    bill["components"] = [*bill.get("components", []), *jars]
    out.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{out}: {len(bill['components'])} components, {len(jars)} of them jars")


def requirements() -> str:
    """Return the Python packages of uv.lock, with all extras, as requirements.txt with hashes."""
    command = [uv(), "export", "--frozen", "--no-emit-project", "--format", "requirements-txt", "--extra", "all"]
    command.append("--no-default-groups")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _python() -> dict[str, Any]:
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--pyproject", "pyproject.toml", "--of", "JSON"]
    command += ["--output-reproducible", "-"]
    done = subprocess.run(command, input=requirements(), capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _component(jar: Jar) -> dict[str, Any]:
    digest = hashlib.sha256(jar.path.read_bytes()).hexdigest()
    group = {"group": jar.group} if jar.group else {}
    return {
        "type": "library",
        "bom-ref": f"{jar.used_by}/{jar.path.name}",
        **group,
        "name": jar.name,
        "version": jar.version,
        "purl": jar.purl,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


if __name__ == "__main__":
    sys.exit(main())
