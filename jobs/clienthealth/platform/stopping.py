"""Signals that tell a process to end."""

from __future__ import annotations

import _thread
import signal
import threading


def stop_event() -> threading.Event:
    """Return an event that SIGTERM or Ctrl-C set from now on; they no longer end the process by themselves."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: set_by_signal(stop))
    return stop


def set_by_signal(event: threading.Event) -> None:
    """Set an event from a handler of signals, by a thread that takes no lock to start.

    `set` locks: a signal that comes amid it, as Ctrl-C that a terminal and a parent pass on, waits for itself for ever.
    """
    _thread.start_new_thread(event.set, ())
