"""The commands that people run, and the checks of an installation."""
