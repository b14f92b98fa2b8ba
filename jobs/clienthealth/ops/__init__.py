"""What people run: the commands, their checks of an installation, and the reference that is made from the code."""
