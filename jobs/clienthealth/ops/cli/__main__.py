"""`python -m clienthealth.ops.cli` is `kafka-health`."""

from clienthealth.ops.cli import main

main()
