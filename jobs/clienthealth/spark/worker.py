"""Prepare each Python worker of Spark before its first task, and define the process from which Spark forks workers.

Only functions that run in workers import this module; the driver never does. A worker that imports all modules by
itself costs half a second and 100 MB. This process has imported all modules, and the workers that are forked from it
share this memory. The option `spark.python.daemon.module` names this module only if Spark runs on a single machine. On
a cluster an executor's daemon starts before our files are there, so workers import for themselves.
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

# Spark collects a worker's garbage after every task, which is enough. After `freeze`, these collections skip the
# imported modules.
gc.collect()
gc.freeze()
gc.disable()
