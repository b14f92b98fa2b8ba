"""What a Python worker of Spark needs once, before its first task.

Imported by the functions that run in workers, never by the driver.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401 - loaded once, before what is loaded is frozen
import pandas  # noqa: F401
import pyarrow  # noqa: F401

# Spark collects the garbage of a worker after every task: that is enough, and it need not look at the modules.
gc.collect()
gc.freeze()
gc.disable()
