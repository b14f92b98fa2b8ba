"""Find sentences in which a person reports a failure or a known issue of a Kafka client.

A classifier finds the sentences, because people word reports in more ways than patterns can list. The classifier is a
multinomial logistic regression over hashed character n-grams. `make reports` trains the classifier with examples, and
writes reports.toml.
"""

from __future__ import annotations

import re
from base64 import b85decode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from clienthealth.model.tables import table

Floats = npt.NDArray[np.float64]
BUCKETS = 1 << 14
#: A sentence counts as the report of a known issue if the issue has at least this probability. A low limit does little
#: harm, because a known issue causes no verdict on a client.
OF_ISSUE = 0.3
#: Minimum probability that a person's sentence reports a failure. In a sentence with a lower probability, matches of
#: log patterns for lines of any program (`Wording.loose`) are ignored.
OF_PATTERN = 0.15
#: Lengths of the character n-grams, which include the blanks around a word.
SIZES = range(2, 6)
#: A sentence, within one line.
SENTENCE = re.compile(r"(?:(?![.!?](?:\s|\Z))[^\n。！？]){8,600}[.!?。！？]*")
_WORD = re.compile(r"[\w']+|[?!]")
_DIGITS = re.compile(r"\d+")


class _Model(NamedTuple):
    """For each label, a weight per bucket, a bias, and whether the label is a failure mode (`failing`)."""

    labels: tuple[str, ...]
    weights: Floats
    biases: Floats
    failing: npt.NDArray[np.bool_]


@cache
def _model() -> _Model:
    trained: dict[str, Any] = table(Path(__file__).with_suffix(".toml"))
    labels = trained["labels"]
    packed = (b85decode("".join(each["weights"])) for each in labels.values())
    weights = np.array([np.frombuffer(each, np.int8) for each in packed]) * trained["scale"]
    biases, failing = (np.array([each[key] for each in labels.values()]) for key in ("bias", "failing"))
    return _Model(tuple(labels), weights, biases, failing)


def features(sentence: str) -> tuple[list[int], Floats]:
    """Return the buckets of a sentence's n-grams, and a value for each bucket.

    The n-grams are sequences of characters within words, and pairs of words. A value is 1 + ln(count), divided by
    the Euclidean norm of all values.
    """
    words = _WORD.findall(_DIGITS.sub("0", sentence.lower().replace("’", "'")))
    padded = [f" {word} " for word in words]
    grams = [word[at : at + size] for word in padded for size in SIZES for at in range(len(word) - size + 1)]
    grams += map("_".join, pairwise(words))
    counts = Counter(crc32(gram.encode("utf-8", "replace")) % BUCKETS for gram in grams)
    values = 1 + np.log(np.array([*counts.values()], float))
    return [*counts], values / np.linalg.norm(values)


class Judged(NamedTuple):
    """What the classifier finds in a sentence.

    `label`       the most probable failure mode or known issue
    `of_failure`  the probability that the sentence reports any failure mode
    `of_issue`    the probability of `label` if it is a known issue, else 0
    """

    sentence: re.Match[str]
    label: str
    of_failure: float
    of_issue: float

    def counts(self, least: float) -> bool:
        """True if the sentence counts as a report of `label`.

        `least`: minimum probability for failure modes (`LogLine.narrated`). The minimum for known issues is OF_ISSUE.
        """
        return self.of_issue >= OF_ISSUE or (not self.of_issue and self.of_failure >= least)


def judged(text: str) -> Iterator[Judged]:
    """Yield what the classifier finds in each sentence of a text."""
    model = _model()
    for sentence in SENTENCE.finditer(text):
        buckets, values = features(sentence[0])
        # A label's probability is its score divided by the sum of all scores. The label "reports nothing" scores 1.
        scores = np.exp(model.weights[:, buckets] @ values + model.biases)
        best, total = scores.argmax(), 1 + scores.sum()
        if buckets:
            of_issue = 0.0 if model.failing[best] else float(scores[best] / total)
            yield Judged(sentence, model.labels[best], float(scores[model.failing].sum() / total), of_issue)


def reports_in(text: str, least: float) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield (label, sentence) for each sentence that counts as a report. `least`: `LogLine.narrated`."""
    return ((one.label, one.sentence) for one in judged(text) if one.counts(least))
