"""spark-submit entry of the streaming job: `spark-submit jobs/monitor.py [--config FILE]`."""

from clienthealth.ops.cli import main

if __name__ == "__main__":
    import sys

    main(["monitor", *sys.argv[1:]])
