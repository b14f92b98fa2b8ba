"""Prepare each Python worker of Spark, and define the daemon from which Spark forks workers.

The daemon imports all modules once. If each worker imported the modules, each worker would need half a second and
100 MB more. On a cluster, each worker must import the modules, because the daemon starts before our files are on its
machine.
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

# Spark runs a worker's garbage collector after every task. `freeze` excludes imported modules from garbage
# collection.
gc.collect()
gc.freeze()
gc.disable()
