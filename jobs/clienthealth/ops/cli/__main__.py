"""`python -m clienthealth.ops.cli` runs the command `kafka-health`."""

from clienthealth.ops.cli import main

main()
