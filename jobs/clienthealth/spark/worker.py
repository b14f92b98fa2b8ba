"""Prepare each Python worker of Spark, and define the daemon from which Spark forks workers. The daemon imports all
modules once: in each worker, this would cost half a second and 100 MB. On a cluster, each worker imports for itself,
because the daemon starts before our files are on its machine.
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

# Spark collects a worker's garbage after every task; `freeze` leaves out imported modules.
gc.collect()
gc.freeze()
gc.disable()
