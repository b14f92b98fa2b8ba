"""Signals that end a process."""

from __future__ import annotations

import _thread
import signal
import threading


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set from now on, instead of ending the process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: set_by_signal(stop))
    return stop


def set_by_signal(event: threading.Event) -> None:
    """Set an event from a signal handler, in a new thread. Starting that thread takes no lock.

    `Event.set` takes a lock. A terminal and a parent process may both send Ctrl-C. If the second signal interrupted
    `Event.set`, the second call would wait for the first for ever.
    """
    _thread.start_new_thread(event.set, ())
