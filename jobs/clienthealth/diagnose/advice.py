"""What a verdict means for the person who reads it: its cause in one sentence, what to do, and what to send next."""

from __future__ import annotations

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes

_TWICE = "twice, ten seconds apart, into one file"
JAVA_DUMPS = f"jcmd PID Thread.print, {_TWICE}"
PYTHON_DUMPS = f"py-spy dump --pid PID, {_TWICE}"
#: librdkafka is C, and runs in programs of many languages; the Go libraries' names are those of their projects.
NATIVE_DUMPS = f"all threads of the program (py-spy dump --pid PID, gdb -p PID, kill -QUIT PID of Go), {_TWICE}"
GO_DUMPS = "all goroutines (curl …/debug/pprof/goroutine?debug=2, or kill -QUIT PID, which ends the program)"
MORE_THAN_DUMPS = "the client's log at INFO and its metrics over five minutes: the thread dumps are there"
_DUMPS = {"python": PYTHON_DUMPS, "aiokafka": PYTHON_DUMPS, "rdkafka": NATIVE_DUMPS, "confluent": NATIVE_DUMPS}
_DUMPS |= {"sarama": GO_DUMPS, "franz": GO_DUMPS, "kafka-go": GO_DUMPS, "kgo": GO_DUMPS}


def title(verdict: Verdict) -> str:
    """What is wrong, in a few words."""
    mode = modes()[verdict.mode]
    cause = mode.cause(verdict)
    return (cause.title if cause else "") or mode.title


def cause(verdict: Verdict) -> str:
    """Why it happens, in one sentence; '' where nobody knows."""
    of = modes()[verdict.mode].cause(verdict)
    return of.why(verdict.detail) if of else ""


def remedy(verdict: Verdict, client: Client | None = None) -> str:
    """What to do. What cannot be undone (ending the process) is advised only where the verdict is confirmed."""
    mode = modes()[verdict.mode]
    if mode.caution and verdict.status != "confirmed":
        return mode.caution
    of = mode.cause(verdict)
    return (of.advice_for(_library(client)) if of else "") or mode.action


def next_command(client: Client | None, dumps: int = 0) -> str:
    """The one command whose output would tell. `dumps`: how many thread dumps there are already."""
    if dumps > 1:
        return MORE_THAN_DUMPS
    return next((dump for library, dump in _DUMPS.items() if library in _library(client)), JAVA_DUMPS)


def _library(client: Client | None) -> str:
    return (client.library or "").lower() if client is not None else ""
