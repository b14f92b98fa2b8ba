"""Find a Java producer's I/O thread in thread dumps, and tell from a thread's frames what it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import LogEvent, Thread, ThreadDump
from clienthealth.read.logs.dump_formats.threads import TABLES
from clienthealth.read.logs.fields import JVM_FRAMES, NETWORK_THREAD

CALLBACK_FRAMES = ("onCompletion", "completeFutureAndFireCallbacks", "RecordBatch.done")
#: A thread is inside send() or flush() if one of its frames ends with one of these texts.
SENDING = ("clients.producer.KafkaProducer.doSend", "clients.producer.KafkaProducer.flush")
#: Prefixes of frames that do not show what a thread does.
_RUNTIME = (*JVM_FRAMES, "selectors.", "socket.", "ssl.", "threading.")
_WAITING = ("WAITING", "TIMED_WAITING", "BLOCKED")
#: Frames of a RUNNABLE thread that waits for the network or a disk.
_NATIVE_WAITS: tuple[str, ...] = tuple(TABLES["native_waits"]["frames"])


def is_network_thread(thread: Thread) -> bool:
    """Return True if the thread is the I/O thread of any producer."""
    return thread.name.startswith(NETWORK_THREAD)


def on_io_thread(event: LogEvent) -> bool:
    """Return True if the line's thread name or logger shows that a producer's I/O thread logged the line.

    The end of the thread's name suffices, because some log layouts cut off the beginning. kafka-python runs callbacks
    on the I/O thread, and its logger `kafka.future` logs the callbacks' errors.
    """
    before, separator, _ = (event.thread or "").partition("| ")
    return event.logger == "kafka.future" or (bool(separator) and f"{NETWORK_THREAD} ".endswith(before))


def is_own(window: ClientWindow, thread: Thread) -> bool:
    """Return True if the thread is this client's I/O thread.

    An I/O thread without a client id in its name always matches. If the client has no id but reports metrics, any
    producer's I/O thread matches.
    """
    owner = thread.name.partition(" | ")[2]
    named = owner == window.client.client_id or not owner or (not window.client.client_id and bool(window.readings))
    return is_network_thread(thread) and named


def network_threads(window: ClientWindow) -> Iterator[tuple[ThreadDump, Thread]]:
    """Yield (dump, the client's I/O thread) for each dump that shows this thread."""
    return ((dump, thread) for dump in window.dumps for thread in dump.threads if is_own(window, thread))


def sends(thread: Thread) -> bool:
    """Return True if a thread is inside send() or flush() of a Java producer, and not inside close()."""
    return any(frame.endswith(SENDING) for frame in thread.frames) and not any(
        frame.endswith("producer.KafkaProducer.close") for frame in thread.frames
    )


def in_callback(thread: Thread) -> bool:
    return any(part in frame for frame in thread.frames for part in CALLBACK_FRAMES)


def in_foreign_code(thread: Thread) -> bool:
    """Return True if the thread runs code outside the Kafka client, such as a callback or a logger."""
    return bool(_above_runtime(thread)) and not _in_client(thread)


def idles(thread: Thread) -> bool:
    """Return True if the thread has no work: all its frames belong to the runtime (JVM or Python)."""
    return not _above_runtime(thread)


def at_work(thread: Thread) -> bool:
    """Return True if the thread runs code of the Kafka client, and is neither blocked nor in a callback."""
    return _in_client(thread) and not in_callback(thread) and thread.state != "BLOCKED"


def _in_client(thread: Thread) -> bool:
    return "kafka" in _above_runtime(thread).split(".")


def _above_runtime(thread: Thread) -> str:
    return next((frame for frame in thread.frames if not frame.startswith(_RUNTIME)), "")


def sleeps(thread: Thread) -> bool:
    if thread.state != "TIMED_WAITING":
        return False
    own = next((at for at, frame in enumerate(thread.frames) if not frame.startswith(JVM_FRAMES)), len(thread.frames))
    below = thread.frames[max(0, own - 1)] if thread.frames else ""
    return below.endswith(("Thread.sleep", "Thread.sleep0", "TimeUnit.sleep", "LockSupport.parkNanos"))


def waits(thread: Thread) -> bool:
    """Return True if the thread waits for a lock, a queue, a result, the network or a disk."""
    natively = bool(thread.frames) and thread.frames[0].endswith(_NATIVE_WAITS)
    return (thread.state in _WAITING or natively) and not sleeps(thread)


def places(dumps: Iterable[ThreadDump]) -> Set[tuple[str, tuple[str, ...]]]:
    """Return (name, frames) of each application thread in `dumps`."""
    return {(thread.name, thread.frames) for dump in dumps for thread in dump.others}


def where_they_were(window: ClientWindow) -> bool:
    """Return True if each application thread in the window's dumps has the same frames as in a dump before the window.

    Idle threads and threads inside the client are ignored. Returns False if the window's dumps show only such threads.
    """
    before = places(window.earlier_dumps)
    since = [thread for dump in window.dumps for thread in dump.others if in_foreign_code(thread)]
    return bool(since) and all((thread.name, thread.frames) in before for thread in since)
