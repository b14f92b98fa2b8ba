"""The vocabulary: what a client is, what it reports, what is concluded of it. Plain values that know nothing else."""
