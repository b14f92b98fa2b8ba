"""What a verdict means for the person who reads it: its cause in one sentence, what to do, and what to send next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import Mode

#: By `detail.cause`. What stands in braces is taken from the detail; a sentence whose parts are not known is not used.
CAUSES: Mapping[str, tuple[str, ...]] = {
    "get-in-callback": ("A callback calls get() on the only I/O thread, which alone could deliver the result.",),
    "flush-in-callback": ("A callback calls flush() on the only I/O thread, which alone could send the rest.",),
    "send-in-callback": (
        "A callback's own send() waits on the I/O thread, for max.block.ms per record at most: then it goes on.",
    ),
    "callback-blocked": (
        "A callback held the producer's only I/O thread for {blocked_seconds} s, and then it returned.",
        "A callback holds the producer's only I/O thread in something that does not return.",
    ),
    "io-thread-blocked": (
        "Code that is not the client's (an interceptor, a logger, a metrics reporter) holds the producer's I/O thread.",
    ),
    "flush-refused": (
        "A callback calls flush(), which the client refuses there: nothing is stuck, but nothing is flushed either.",
    ),
    "poll-not-called": ("The application does not call poll() or flush(), so that delivery reports pile up.",),
    "topic-missing": ("The topic {topic} does not exist on the cluster.", "The topic does not exist on the cluster."),
    "topic-denied": (
        "The client may not use the topic {topic} (TOPIC_AUTHORIZATION_FAILED).",
        "The client may not use the topic (TOPIC_AUTHORIZATION_FAILED).",
    ),
    "partition-missing": ("The topic {topic} has no partition {partition}.", "The topic has no such partition."),
    "cluster-unreachable": (
        "No broker of {bootstrap} answers, so the producer never gets its metadata.",
        "No broker answers, so the producer never gets its metadata.",
    ),
    "endless-lookup": (
        "The thread that commits offsets is interrupted and looks for its broker {broker} for ever, without a pause.",
        "The thread that commits offsets is interrupted and looks for its broker for ever, without a pause.",
    ),
    "threads-left-behind": ("The shutdown failed half-way and left a thread behind that keeps the JVM alive.",),
    "exit-without-close": ("The process ended without close(), so what was still in the buffer was never sent.",),
    "forced-close": ("close() ran out of its time limit and threw away what was still in the buffer.",),
    "killed": ("The process was killed or crashed with records still in the buffer.",),
    "unreachable-node": (
        "The broker at {address} cannot be reached from here although the bootstrap address answers.",
        "A broker cannot be reached from here although the bootstrap address answers.",
    ),
    "not-enough-replicas": ("Too few replicas are in sync for the acknowledgements that are asked for.",),
    "refused": ("The brokers answer, and refuse what is sent: the client's log would say why.",),
    "unknown": ("Metadata does not come, and nothing tells whether the topic or the cluster is missing.",),
    "timeouts": ("The brokers do not answer in time, so records expire in the buffer.",),
    "handler-hangs": ("A handler does not return, so the consumer never comes back to poll().",),
    "poll-interval-exceeded": ("A handler takes longer than max.poll.interval.ms, so the consumer is thrown out.",),
    "rejoins": ("The consumer is thrown out, joins again, reads the same records and hangs again.",),
    "close-hangs": ("The consumer's close() does not return.",),
}
#: For modes whose action is drastic: what to do as long as the verdict is only a suspicion.
_MILD: Mapping[str, str] = {
    "producer-callback-deadlock": (
        "Make sure first (see the next command); then look at the callback: it must never wait, so no get(), flush() "
        "or blocking send() inside it."
    ),
    "consumer-shutdown-loop": (
        "Make sure first (see the next command); then commit offsets before the thread is interrupted, or replace the "
        "0.8 consumer."
    ),
}
_DRASTIC = ("kill", "restart", "delete", "reset")
_MAKE_SURE = "Make sure first (see the next command), and change nothing until then."

JAVA_DUMPS = "jcmd PID Thread.print, twice, ten seconds apart, into one file"
PYTHON_DUMPS = "py-spy dump --pid PID, twice, ten seconds apart, into one file"


def cause(verdict: Verdict) -> str:
    """Why it happens, in one sentence; '' where nobody knows."""
    detail = verdict.detail
    if detail.get("culprit"):
        victims = detail.get("victims") or []
        starved = ", ".join(map(str, victims)) if isinstance(victims, list | tuple) and victims else "the other topics"
        return f"The topic {detail['culprit']} is not consumed, so its full queue holds up {starved}."
    for sentence in CAUSES.get(str(detail.get("cause")), ()):
        filled = _filled(sentence, detail)
        if filled:
            return filled
    return ""


def _filled(sentence: str, detail: Mapping[str, Any]) -> str:
    try:
        return sentence.format_map({name: value for name, value in detail.items() if value is not None})
    except (KeyError, IndexError, ValueError):
        return ""


def remedy(mode: Mode, verdict: Verdict) -> str:
    """What to do. What cannot be undone (ending the process) is advised only where the verdict is confirmed."""
    drastic = any(word in mode.action.lower() for word in _DRASTIC)
    if verdict.status == "confirmed" or not drastic:
        return mode.action
    return _MILD.get(mode.id, _MAKE_SURE)


def next_command(client: Client | None) -> str:
    """The one command whose output would tell."""
    library = (client.library or "").lower() if client is not None else ""
    return PYTHON_DUMPS if "python" in library else JAVA_DUMPS
