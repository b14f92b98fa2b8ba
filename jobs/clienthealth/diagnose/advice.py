"""What to send next: what would tell, of the library that the client runs on."""

from __future__ import annotations

from clienthealth.model.clients import Client

_TWICE = "twice, ten seconds apart, into one file"
JAVA_DUMPS = f"jcmd PID Thread.print, {_TWICE}"
PYTHON_DUMPS = f"py-spy dump --pid PID, {_TWICE}"
#: librdkafka is C, and runs in programs of many languages; the Go libraries' names are those of their projects.
NATIVE_DUMPS = f"all threads of the program (py-spy dump --pid PID, gdb -p PID, kill -QUIT PID of Go), {_TWICE}"
GO_DUMPS = "all goroutines (curl …/debug/pprof/goroutine?debug=2, or kill -QUIT PID, which ends the program)"
ANY_DUMPS = f"all threads of the process (jcmd PID Thread.print of Java, py-spy dump --pid PID of Python), {_TWICE}"
MORE_THAN_DUMPS = "the client's log at INFO and its metrics over five minutes: the thread dumps are there"
_DUMPS = {
    "java": JAVA_DUMPS,
    "scala": JAVA_DUMPS,
    "python": PYTHON_DUMPS,
    "aiokafka": PYTHON_DUMPS,
    "rdkafka": NATIVE_DUMPS,
    "confluent": NATIVE_DUMPS,
}
_DUMPS |= {"sarama": GO_DUMPS, "franz": GO_DUMPS, "kafka-go": GO_DUMPS, "kgo": GO_DUMPS}


def next_command(client: Client | None, dumps: int = 0) -> str:
    """The one command whose output would tell. `dumps`: how many thread dumps there are already."""
    if dumps > 1:
        return MORE_THAN_DUMPS
    return next((dump for library, dump in _DUMPS.items() if library in _library(client)), ANY_DUMPS)


def _library(client: Client | None) -> str:
    return (client.library or "").lower() if client is not None else ""
