"""The Java of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from clienthealth.model.errors import DependencyError

OLDEST = 17
_HOW = f"install Java {OLDEST} (Debian: apt-get install openjdk-17-jdk-headless, macOS: brew install openjdk@17)"


def java() -> str:
    """Its path: that of $JAVA_HOME, else of the PATH. Raises DependencyError where there is none."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise DependencyError(f"there is no Java {where}; {_HOW}")
    return path


def version(path: str) -> int:
    """Its major version. Raises DependencyError where it does not run or is too old for us."""
    # macOS has a program named java that only says how to get one.
    done = subprocess.run([path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    number = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode != 0 or number is None:
        raise DependencyError(f"{path} does not tell its version; {_HOW}")
    if int(number.group(1)) < OLDEST:
        raise DependencyError(f"{path} is Java {number.group(1)}, at least {OLDEST} is needed; {_HOW}")
    return int(number.group(1))


def has_compiler(path: str) -> bool:
    """Is it a development kit, which runs a program from its source file, as the demo's clients need it."""
    done = subprocess.run(
        [path, "--list-modules"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return "jdk.compiler@" in done.stdout
