"""`python -m clienthealth.cli` is `kafka-health`."""

from clienthealth.cli import main

main()
