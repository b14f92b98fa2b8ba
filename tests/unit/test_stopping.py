"""The monitor stops when one signal arrives while another signal is handled."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, threading
from clienthealth.platform.stopping import stop_event
stop = stop_event()
notify = stop._cond.notify_all
def slow():
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)
    notify()
stop._cond.notify_all = slow
os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGTERM)
print(stop.wait(20))
"""


def test_a_signal_amid_another_does_not_hang() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
