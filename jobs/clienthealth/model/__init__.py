"""The data types of the project: clients, the data they report, and verdicts on them.

This package imports no other package of the project.
"""
