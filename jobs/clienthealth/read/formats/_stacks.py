"""Stack traces in the shapes in which JSON carries them → one text, lines joined by newline."""

from __future__ import annotations

from typing import Any

from clienthealth.read.formats._json_layouts import as_text, parsed


def stack_text(stack: str) -> str:
    """A stack trace as text: it may also come as an array of lines, or as log4j2's object of an exception.

    What is neither stays as it stands.
    """
    if stack.startswith("["):
        lines = parsed(stack)
        return "\n".join(_texts(lines)) if isinstance(lines, list) else stack
    if stack.startswith("{"):
        thrown = parsed(stack)
        return (_thrown_text(thrown) if isinstance(thrown, dict) else "") or stack
    return stack


def _thrown_text(thrown: dict[str, Any]) -> str:
    own, cause = _one_thrown(thrown), thrown.get("cause")
    below = _one_thrown(cause) if isinstance(cause, dict) else ""
    return f"{own}\nCaused by: {below}" if below else own


def _one_thrown(thrown: dict[str, Any]) -> str:
    title = ": ".join(_texts([thrown.get("name"), thrown.get("message")]))
    trace = thrown.get("extendedStackTrace")
    frames = parsed(trace) if isinstance(trace, str) and trace.startswith("[") else trace
    if isinstance(frames, list):
        return "\n".join([title, *filter(None, map(_frame, frames))])
    return title if trace is None else as_text(trace) or title


def _frame(frame: Any) -> str:
    """A frame as Java writes it, empty where it does not name its method."""
    fields = frame if isinstance(frame, dict) else {}
    class_name, method, file, line = (as_text(fields.get(name)) for name in ("class", "method", "file", "line"))
    return (
        "" if class_name is None or method is None else f"\tat {class_name}.{method}({':'.join(_texts([file, line]))})"
    )


def _texts(values: list[Any]) -> list[str]:
    return [text for text in map(as_text, values) if text is not None]
