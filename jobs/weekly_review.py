"""spark-submit entry of the weekly review: `spark-submit jobs/weekly_review.py [--config FILE] [--week WEEK] …`."""

from clienthealth.ops.cli import main

if __name__ == "__main__":
    import sys

    main(["review", *sys.argv[1:]])
