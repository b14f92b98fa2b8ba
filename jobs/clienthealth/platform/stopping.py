"""How a process of ours learns that it shall end."""

from __future__ import annotations

import signal
import threading


def stop_event() -> threading.Event:
    """Set from now on by SIGTERM or Ctrl-C, which end the process no longer by themselves."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
