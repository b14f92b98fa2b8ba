"""Undo what mail programs, issue trackers, chats and browsers do to a pasted text.

Examples are quote marks, HTML, backticks, escaped line ends and wrapped lines.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import exp, log
from pathlib import Path
from typing import Literal

from clienthealth.model.tables import table
from clienthealth.modes import catalogue
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs.events import literals
from clienthealth.read.logs.reports import SENTENCE

#: The context of a line: written by a program, quoted without a time, or part of an explanation.
Context = Literal["logged", "quoted", "explained"]

MOST = 1 << 22
#: In a text of at most _EXCERPT characters, two lines are joined if a log pattern matches only the joined line.
_EXCERPT = 1 << 16
#: A prefix is common if at least _ALIKE frames have it. A line with at least _ON_ONE_LINE frames contains a stack.
_ALIKE, _ON_ONE_LINE = 3, 3
_MAX_JOINED = 3
#: A line is full if the first word of the next line would not fit into it. A text counts as wrapped if two conditions
#: hold: No line is wider than _WIDEST (characters). Of the lines that may continue on the next line, at least the share
#: _SHARE is full.
_WIDEST, _SHARE = 200, 0.8
#: If two lines begin with the same _SAME characters, the lines are not parts of one wrapped line.
_SAME = 12

_SIGNS = {
    name: re.compile(pattern, re.VERBOSE | re.IGNORECASE | re.MULTILINE)
    for name, pattern in table(Path(__file__).with_name("explanations.toml")).items()
}
_STRONG = 3
_WEIGHTS = {"": 1, "-strongly": _STRONG}
#: Maximum size (bytes) of a text in which words decide the `Context` of a line.
_PAGE = 1 << 18
_BEFORE, _AFTER = 30, 20
#: Words that explain or report have a weight (see explanations.toml). If the words near a line have fewer than _PROSE
#: bytes, they explain the line only if the explaining words weigh at least _EXPLAINS: a single "cause" may be a label.
_PROSE, _EXPLAINS = 80, 2
#: A line near a program's output probably belongs to a report of a failure. If the distance is at most _BESIDE lines,
#: _OUTPUT is added to the weight of the reporting words.
_BESIDE, _OUTPUT = 3, 2
_STATEMENTS = 3
#: The smallest result of `least_probability`.
_LEAST = 0.7
_ESCAPES = {"n": "\n", "r": "", "t": "\t", '"': '"'}
_FRAME = r"at [\w$.<>@/+-]{3,600}\("
#: If _ENTRIES log entries of one layout begin in one line, the line breaks were lost. A time in the first _SHIPPED
#: characters of a line does not count, because a log shipper may have put the time there.
_ENTRIES, _SHIPPED = 2, 45
_LONG = 40
_FILE = table(Path(__file__).with_suffix(".toml"))
_RE = {name: re.compile("".join(pieces)) for name, pieces in _FILE.items() if name != "stacks"}


def restored(content: bytes) -> bytes:
    """Undo the changes that pasting made to a text, as far as the text shows them."""
    if len(content) > MOST:
        return content
    text = _unescaped(_without_comments(_characters(content.decode("utf-8", "surrogateescape"))))
    if text.startswith(">") or "\n>" in text or "\n >" in text:
        text = _RE["quotes"].sub("", text)
    if _RE["commented"].search(text):
        text = _RE["comment_mark"].sub("", text)
    text = _unlinked(text)
    if "oroutine " in text or "frame #" in text:
        for name, stack in _FILE["stacks"].items():
            text = _RE[name].sub(stack, text)
    if "`" in text:
        text = _RE["ticks"].sub("", _RE["fence"].sub("", text))
    text = _undecorated(text)
    text = "\n".join(_RE["entry"].sub("\n", line) if _is_log(line) else line for line in text.split("\n"))
    text = "\n".join(_RE["inline"].sub("\n", line) if _is_stack(line) else line for line in text.split("\n"))
    return _indented(_reflowed(_unwrapped(text))).encode("utf-8", "surrogateescape")


def context(content: bytes) -> tuple[Callable[[int], Context], Mapping[int, float]]:
    """Return (function, mapping) for the lines of a text. `content`: a pasted text, cleaned by `restored`.

    The function maps a line's number to the line's `Context`. The mapping maps a line's number to the value of
    `LogLine.narrated`. If a text is larger than 256 KiB (_PAGE), the context of every line is `logged`.

    - A line is `explained` if the explaining words ("usually") near the line have at least the weight of the reporting
      words ("crashed") near the line. A row of a table is `explained`, too. Only texts written for human readers
      (`for_people`) have `explained` lines.
    - A line is `quoted` if neither the line nor the lines near the line have a time.
    - All other lines are `logged`.
    """
    text = content.decode("utf-8", "replace") if len(content) <= _PAGE else ""
    for_people = _RE["for_people"].search(text) is not None
    lines = text.split("\n")
    inside, titled = _RE["inside"].match(text) is not None, _RE["titled"].match(text) is not None
    fences = [*accumulate((line.lstrip(" \t*+-").startswith(("```", "~~~")) for line in lines), initial=inside)][1:]

    @cache
    def weights(number: int) -> tuple[int, ...]:
        """Return (weight of explaining words, weight of reporting words, size in bytes, number of English words)."""
        line = lines[number]
        if fences[number] % 2 or _RE["code"].match(line):
            return _RE["command"].match(line) is not None, 0, 0, 0
        unquoted = _RE["quotation"].sub("", line)
        logged = _phrases().intersection(catalogue().literals_in(unquoted))
        words = unquoted[: min(map(unquoted.find, logged), default=None)]
        # In a title, a word such as "when" gives the time of a failure, and explains nothing. So in a title, only the
        # words of the pattern `explains-strongly` count as explaining.
        explained = _weight("explains", words, _STRONG if titled and not number else 1)
        return explained, _weight("reports", words), len(words.strip().encode()), len(_SIGNS["english"].findall(words))

    def reports_itself(number: int) -> bool:
        line = lines[number]
        return not fences[number] % 2 and _weight("reports", line) - _weight("explains", line) >= _STRONG

    def of_line(number: int) -> Context:
        near = range(max(0, number - _BEFORE), min(len(lines), number + _AFTER))
        if for_people and not _RE["stack"].match(lines[number]):
            explained, reported, size, english = map(sum, zip(*map(weights, near), strict=True))
            beside = (at for at in near if abs(at - number) <= _BESIDE and fences[at] == fences[number])
            reported += _OUTPUT * any(_RE[kind].match(lines[at]) for at in beside for kind in ("output", "stack"))
            # In a text with English words, an explanation needs an explaining word ("usually").
            explains = max(reported, english > 0) <= explained and (size >= _PROSE or explained >= _EXPLAINS)
            if (explains and not reports_itself(number)) or _RE["row"].match(lines[number]):
                return "explained"
        return "quoted" if text and not any(_RE["clock"].match(lines[at]) for at in near) else "logged"

    signs = (_SIGNS["reports-strongly"].search, _RE["output"].match, _RE["stack"].match)
    of_clients = _SIGNS["clients"].search(text) is not None
    reports = any(sign(line) for line in lines for sign in signs)

    said = [n for n, line in enumerate(lines) if line.strip() and not (fences[n] % 2 or _RE["unsaid"].match(line))]
    by_person = [n for n in said if of_clients and (reports or (titled and n == 0))]
    return of_line, _narrated(by_person, lines, [lines[n] for n in said])


@cache
def _phrases() -> frozenset[str]:
    """Return those literals of log patterns that consist of several words."""
    return frozenset(literal for literal in literals(catalogue()) if " " in literal.strip())


def _weight(kind: str, words: str, least: int = 1) -> int:
    return sum(each * len(_SIGNS[kind + how].findall(words)) for how, each in _WEIGHTS.items() if each >= least)


def _narrated(by_person: Sequence[int], lines: Sequence[str], said: Sequence[str]) -> Mapping[int, float]:
    if not by_person:
        return {}
    reporting = sum(_weight("reports", line) for line in lines)
    return dict.fromkeys(by_person, least_probability(reporting, sum(len(SENTENCE.findall(line)) for line in said)))


def least_probability(reporting: int, number: int) -> float:
    """Return the least probability at which a sentence of a text counts as a report of a failure.

    `reporting`: weight of the text's reporting words. `number`: number of the text's sentences. The result is smaller
    for a text with more reporting words per sentence. The formula comes from two logistic regressions: one on 322
    published texts, one on 120 published texts.
    """
    return max(_LEAST, 1 / (1 + exp(1.7 * log((1 + reporting) / (1 + number)) - 1.7)))


def _without_comments(text: str) -> str:
    """Put `// ` before comments and docstrings, so that they count as source code."""
    if ("/*" in text or "# " in text) and len(_RE["statement"].findall(_RE["comment"].sub("", text))) >= _STATEMENTS:
        text = _RE["comment"].sub(lambda comment: _RE["lines"].sub("// ", comment[0]), text)
    if '"""' in text or "'''" in text:
        text = _RE["docstring"].sub(lambda doc: _RE["lines"].sub("// ", doc[0]), text)
    return text


def _characters(text: str) -> str:
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    # Web pages hide `java.base@17`, because it looks like a mail address.
    text = _RE["obfuscated"].sub("java.base", text)
    if _RE["markup"].search(text):
        text = html.unescape(_RE["tag"].sub("", _RE["cell_tag"].sub("| ", _RE["line_tag"].sub("\n", text))))
    text = _RE["curly"].sub(r'"\1"', text)
    for odd, plain in (("\u00a0", " "), ("\u202f", " "), ("\u200b", ""), ("\ufeff", "")):
        text = text.replace(odd, plain) if odd in text else text
    return text


def _unlinked(text: str) -> str:
    """Remove line numbers and Markdown's marks. Mark a title by `# `."""
    if "](" in text:
        text = _RE["link"].sub(r"\1", text)
    if "<http" in text or "<mailto:" in text:
        text = _RE["autolink"].sub("", text)
    if "\\[Producer" in text or "\\[Consumer" in text:
        text = _RE["marked"].sub(r"\1", text)
    if "**" in text:
        text = _RE["emphasis"].sub(lambda line: line[0].replace("**", ""), text)
    return _RE["title"].sub("# ", _RE["numbered"].sub("", text), count=1)


def _unescaped(text: str) -> str:
    r"""Split each line that contains a whole stack, at the characters `\n` that stand for the stack's line ends."""
    if "\\n" not in text:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line[:1] not in ("{", "[") and re.search(r"\\n(?:\\t| )*(?:at |Caused by: )", line):
            inner = parsed(line.strip())
            lines[number] = (
                inner if isinstance(inner, str) else _RE["escaped"].sub(lambda escape: _ESCAPES[escape[1]], line)
            )
    return "\n".join(lines)


def _undecorated(text: str) -> str:
    """Remove the two most frequent prefixes of stack frames, such as `> `."""
    prefixes = [*_RE["before_frame"].findall(text), *_RE["after_sign"].findall(text)] if "at " in text else []
    shapes = Counter(_shape(before) for before in prefixes if not _RE["sentence"].search(before))
    for shape, count in shapes.most_common(2):
        if count >= _ALIKE:
            text = re.sub(rf"^{shape}[ \t]?", "", text, flags=re.MULTILINE)
    return text


def _shape(before: str) -> str:
    """Return a pattern for prefixes that differ from the prefix `before` only in numbers and blanks."""
    parts = re.findall(r"\d+|\s+|[^\d\s]+", before)
    shape = "".join(r"\d+" if p[0].isdigit() else r"[ \t]+" if p.isspace() else re.escape(p) for p in parts)
    return shape.replace(r"[ \t]+\d+", r"[ \t]*\d+", 1) if shape.startswith("[") else rf"[ \t]*{shape}"


def _is_stack(line: str) -> bool:
    enough = line[:1] not in ("{", "[") and line.count("(") >= _ON_ONE_LINE
    return enough and len(re.findall(_FRAME, line)) >= _ON_ONE_LINE


def _is_log(line: str) -> bool:
    begins = _RE["entry"].finditer(line, _SHIPPED) if line[:1] != "{" else ()
    layouts = Counter(line[begin.end()] == "%" for begin in begins)
    return max(layouts.values(), default=0) >= _ENTRIES


def _unwrapped(text: str) -> str:
    """Join wrapped frames, locks and thread names with the lines on which they continue."""
    joined_lines: list[str] = []
    joined = 0
    for line in text.split("\n"):
        more = line.strip()
        opened = bool(joined_lines) and joined < _MAX_JOINED and _RE["open_frame"].match(joined_lines[-1]) is not None
        if opened and more and not more.startswith(("at ", "- ")):
            before = joined_lines[-1].rstrip()
            joined_lines[-1] = before + (" " if before.endswith(("at", "Native", "|", "(a")) else "") + more
            joined += 1
        else:
            joined_lines.append(line)
            joined = 0
    return "\n".join(joined_lines)


def _indented(text: str) -> str:
    """Join each line that continues the line above.

    A line that continues the line above is indented, completes a log pattern, or is a map (`{…}`) below a line about
    metadata.
    """

    @cache
    def patterns_in(line: str) -> frozenset[str]:
        return frozenset(wording.id for wording, _ in catalogue().matches(line, None))

    joined: list[str] = []
    indent = 0
    for line in text.split("\n"):
        own = len(line) - len(line.lstrip(" \t"))
        before = joined[-1] if joined else ""
        goes_on = (
            own > indent
            and len(before) >= _LONG
            and bool(_RE["unfinished"].match(before) and _RE["continuation"].match(line))
        )
        begins = _RE["begins"].match(line.lstrip() if own == indent else line)
        if not goes_on and len(text) <= _EXCERPT and before and line and not begins:
            both = f"{before.rstrip()} {line.strip()}"
            known = any(catalogue().literals_in(both))
            goes_on = known and bool(patterns_in(both) - patterns_in(before) - patterns_in(line))
        if joined and (goes_on or _RE["keys_below"].search(f"{before[-80:]}\n{line[:80]}")):
            joined[-1] = f"{before.rstrip()} {line.strip()}"
        else:
            joined.append(line)
            indent = own
    return "\n".join(joined)


def _reflowed(text: str) -> str:
    """Join the lines of a text that was wrapped at a fixed width."""
    lines = text.split("\n")
    width = max(map(len, lines), default=0)
    follow = [(a, b) for a, b in pairwise(lines) if a.strip() and b.strip() and not _RE["begins"].match(b)]
    pairs = [(one, two) for one, two in follow if one[:_SAME] != two[:_SAME]]
    cut = sum(len(one) == width for one, _ in pairs)
    wrapped = sum(len(one) + 1 + len(two.split(" ", 1)[0]) > width for one, two in pairs)
    if width > _WIDEST or not pairs or wrapped < _SHARE * len(follow):
        return text
    gap = "" if len(pairs) > 1 and cut >= _SHARE * len(pairs) else " "
    reflowed: list[str] = []
    before = ""
    for line in lines:
        full = len(before) + 1 + len(line.split(" ", 1)[0]) > width
        if reflowed and before.strip() and line.strip() and full and not _RE["begins"].match(line):
            reflowed[-1] = (reflowed[-1].rstrip() if gap else reflowed[-1]) + gap + line
        elif gap == "" and reflowed and len(before) == width and line.strip() and not _RE["starts"].match(line):
            reflowed[-1] += line
        else:
            reflowed.append(line)
        before = line
    return "\n".join(reflowed)
