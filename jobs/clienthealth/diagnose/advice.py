"""What a verdict means for the person who reads it: its cause in one sentence, what to do, and what to send next."""

from __future__ import annotations

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes

JAVA_DUMPS = "jcmd PID Thread.print, twice, ten seconds apart, into one file"
PYTHON_DUMPS = "py-spy dump --pid PID, twice, ten seconds apart, into one file"


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


def next_command(client: Client | None) -> str:
    """The one command whose output would tell."""
    return PYTHON_DUMPS if "python" in _library(client) else JAVA_DUMPS


def _library(client: Client | None) -> str:
    return (client.library or "").lower() if client is not None else ""
