"""Prepare each Python worker of Spark before its first task, and define the process from which Spark forks workers.

Only functions that run in workers import this module; the driver never does. If each worker imported all modules by
itself, this would cost half a second and 100 MB per worker. So the process from which Spark forks workers (the daemon)
imports them once, and the workers share its memory. This works only if Spark runs on a single machine, where
`spark.python.daemon.module` names this module. On a cluster the daemon starts before our files are on its machine,
so each worker imports for itself.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401 - load these modules before `gc.freeze` below
import pandas  # noqa: F401
import pyarrow  # noqa: F401

if __name__ == "__main__":
    from pyspark import daemon

    import clienthealth.spark.decoding
    import clienthealth.spark.stepping
    import clienthealth.spark.worker  # noqa: F401 - import this module again under the name that workers use

    daemon.manager()

# Switch off automatic garbage collection, because Spark already collects a worker's garbage after every task.
# `freeze` makes these collections skip the objects of the imported modules, which never become garbage.
gc.collect()
gc.freeze()
gc.disable()
