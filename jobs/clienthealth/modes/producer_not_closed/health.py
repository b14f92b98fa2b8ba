"""What speaks for its absence where a client is looked at once."""

from __future__ import annotations

from clienthealth.modes._once import Look
from clienthealth.modes.producer_not_closed.lines import CLOSING


def doubt(look: Look) -> str:
    """Anything but a close whose end nobody saw."""
    if not look.measured and look.window.logs and look.window.logs[-1] in CLOSING:
        return "its close had begun, and the records end before it completed"
    return ""
