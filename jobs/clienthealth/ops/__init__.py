"""The commands that people run, their checks of an installation, and the reference generated from the code."""
