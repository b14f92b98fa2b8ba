"""Handle the signals that end a process."""

from __future__ import annotations

import _thread
import signal
import threading


def stop_event() -> threading.Event:
    """Return an `Event` that is set when SIGTERM or Ctrl-C arrives.

    From this call on, SIGTERM and Ctrl-C do not end the process.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: set_by_signal(stop))
    return stop


def set_by_signal(event: threading.Event) -> None:
    """Set an event from a signal handler, in a new thread.

    `Event.set` takes a lock. If a second signal interrupted `Event.set` in the same thread, the second handler would
    wait for this lock for ever.
    """
    _thread.start_new_thread(event.set, ())
