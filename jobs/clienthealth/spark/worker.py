"""What a Python worker of Spark needs once, before its first task; and the process from which Spark forks workers.

Functions that run in workers import it, the driver never does. Workers that import by themselves cost half a second and
100 MB each; forked from this one, with everything imported, they share its memory. `spark.python.daemon.module` names
it if Spark runs on this machine alone: on a cluster an executor's daemon starts before our files are there, and workers
import for themselves.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401 - loaded once, before what is loaded is frozen
import pandas  # noqa: F401
import pyarrow  # noqa: F401

if __name__ == "__main__":
    from pyspark import daemon

    import clienthealth.spark.decoding
    import clienthealth.spark.stepping
    import clienthealth.spark.worker  # noqa: F401 - once more, under the name by which workers know it

    daemon.manager()

# Spark collects a worker's garbage after every task, which is enough and can skip the imported modules.
gc.collect()
gc.freeze()
gc.disable()
