"""The exceptions with a message for the user. Modules define subclasses for errors that callers handle differently.

HealthError
├── SettingsError      a setting is unknown, missing or has a wrong value
├── InputError         something that the user gave cannot be read
│   ├── RecordError      a record of the topic `client-health` does not describe a client's state
│   └── UnreadableError  a part of the input of `diagnose` cannot be read; the text gives the reason
├── CatalogueError     a TOML file of this package (for example, a `mode.toml`) has a mistake
├── StateError         the checkpoint cannot be continued: an incompatible release or other settings wrote it
├── DependencyError    a program, jar or Python extra is missing; the text describes how to get it
└── ServiceError       a broker, Prometheus, Grafana or mail server did not fulfil a request
    ├── HeapError      Spark's JVM ended because it ran out of memory
    └── JolokiaError   an agent in a JVM did not fulfil a request (exporters)

If a command ends with a HealthError, the command line prints only the error's message, and exits with `exit_code`.
"""


class HealthError(Exception):
    """Base of all exceptions with a message for the user."""

    exit_code = 2


class SettingsError(HealthError):
    """A setting is unknown, missing or has a wrong value."""


class InputError(HealthError):
    """The user's input cannot be read."""


class RecordError(InputError):
    """A record of the topic `client-health` does not describe a client's state; the text gives the reason."""


class CatalogueError(HealthError):
    """A TOML file of this package (for example, a `mode.toml`) has a mistake; the text names file and key."""


class StateError(HealthError):
    """The checkpoint cannot be continued: it was written by an incompatible release, or with other settings."""


class DependencyError(HealthError):
    """A program, jar or Python extra is missing."""


class ServiceError(HealthError):
    """A broker, Prometheus, Grafana or mail server did not fulfil a request."""


class HeapError(ServiceError):
    """Spark's JVM ended because it ran out of memory."""
