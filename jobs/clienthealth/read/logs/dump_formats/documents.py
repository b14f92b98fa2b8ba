"""Dumps that are JSON: `Thread.dump_to_file -format=json`, lists of ThreadInfo (Spring Boot, Jolokia), py-spy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clienthealth.model.telemetry import Dump
from clienthealth.read.logs.dump_formats._threads import Block, dump_of
from clienthealth.read.logs.dump_formats.python_frames import add_function
from clienthealth.read.logs.dump_formats.shapes import BARE
from clienthealth.read.logs.fields import time_ms

MAX_DEPTH = 8


def is_dump_document(text: str) -> bool:
    """May this JSON be a thread dump? By the names of its fields, without parsing it."""
    return (
        '"threadContainers"' in text
        or ('"stackTrace"' in text and '"threadState"' in text)
        or ('"short_filename"' in text and '"thread_name"' in text)
    )


def dumps_of_document(document: object, lines: int = 1) -> list[Dump]:
    """The dump in a JSON document, if there is one that can be read. `lines`: of how many lines of text it is."""
    blocks = list(_blocks(document, 0))
    if not blocks:
        return []
    dump = document.get("threadDump") if isinstance(document, dict) else None
    what = "Thread.dump_to_file (JSON)" if isinstance(dump, dict) else "thread dump (JSON)"
    what = "py-spy dump (JSON)" if any(block.python for block in blocks) else what
    time = dump.get("time") if isinstance(dump, dict) else None
    ts_ms = time_ms(time) if isinstance(time, str) else None
    return [dump_of(what, blocks, ts_ms, frozenset(range(lines)), True)]


def _blocks(value: Any, depth: int) -> Iterator[Block]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _blocks(item, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("stackTrace"), list) and "threadName" in value:
            yield _thread_info(value)
        elif isinstance(value.get("frames"), list) and "thread_name" in value:
            yield _python_thread(value)
        elif isinstance(value.get("stack"), list) and "tid" in value:
            yield _thread(value)
        else:
            for item in value.values():
                yield from _blocks(item, depth + 1)


def _thread_info(document: dict[str, Any]) -> Block:
    block = Block(name=str(document["threadName"]), state=str(document.get("threadState") or ""))
    for frame in document["stackTrace"]:
        if isinstance(frame, dict):
            file, line = frame.get("fileName"), frame.get("lineNumber")
            native = frame.get("nativeMethod") is True
            location = "Native Method" if native else f"{file or 'Unknown Source'}"
            if file and isinstance(line, int) and line > 0 and not native:
                location += f":{line}"
            block.add(f"{frame.get('className')}.{frame.get('methodName')}", location)
    return block


def _python_thread(document: dict[str, Any]) -> Block:
    active = document.get("active") is True
    block = Block(name=str(document["thread_name"] or ""), state="RUNNABLE" if active else "", python=True)
    for frame in document["frames"]:
        if isinstance(frame, dict) and isinstance(frame.get("name"), str):
            file = frame.get("short_filename") or frame.get("filename") or "?"
            add_function(block, str(file), frame["name"], frame.get("line"))
    return block


def _thread(document: dict[str, Any]) -> Block:
    name = str(document.get("name") or "") or f"virtual thread #{document['tid']}"
    block = Block(name=name, state=str(document.get("state") or ""))
    for frame in document["stack"]:
        match = BARE.match(frame) if isinstance(frame, str) else None
        if match:
            block.add(match["method"], match["location"].rpartition("/")[2])
    return block
