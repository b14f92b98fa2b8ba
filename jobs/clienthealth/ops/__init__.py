"""The commands that people run, and their checks of an installation."""
