"""Run test programs so that an interruption still lets them clean up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run `main`. SIGTERM and Ctrl-C raise KeyboardInterrupt in `main`; the exit code is then 130."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
