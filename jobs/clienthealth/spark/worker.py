"""Prepare each Python worker of Spark before its first task, and define the process from which Spark forks workers.

Importing all modules would cost half a second and 100 MB per worker. So the process from which Spark forks workers (the
daemon) imports the modules once. On a cluster each worker imports for itself, because the daemon starts before our
files are on its machine.
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

# Spark already collects a worker's garbage after every task; `freeze` lets collections skip imported modules.
gc.collect()
gc.freeze()
gc.disable()
