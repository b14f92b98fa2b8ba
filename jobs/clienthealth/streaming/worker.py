"""What a Python worker of Spark needs once, before its first task.

Imported by the functions that run in workers, never by the driver.
"""

from __future__ import annotations

import gc
import zipimport

import numpy  # noqa: F401 - loaded once, before what is loaded is frozen
import pandas  # noqa: F401
import pyarrow  # noqa: F401

import clienthealth.decode
import clienthealth.step  # noqa: F401

# Spark 4.0 has each task read the directory of pyspark.zip anew, once for each package in it: 0.3 to 0.6 s of CPU
# (SPARK-54744, mended in later releases). Nothing in that archive changes while a worker lives.
if hasattr(zipimport.zipimporter, "invalidate_caches"):
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]

# Spark collects the garbage of a worker after every task: that is enough, and it need not look at the modules.
gc.collect()
gc.freeze()
gc.disable()
