"""The process that Spark forks its Python workers from, with everything imported that a worker needs.

Workers that import by themselves cost half a second and 100 MB each; forked from this one they share its memory.
Named by `spark.python.daemon.module` where Spark runs on this machine alone: on a cluster the daemon of an executor
starts before our files are there, and workers import for themselves.
"""

from __future__ import annotations

from pyspark import daemon

import clienthealth.spark.decoding
import clienthealth.spark.stepping
import clienthealth.spark.worker  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
