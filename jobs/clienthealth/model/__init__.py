"""The data types of the project: clients, the data they report, and verdicts on them. Without dependencies."""
