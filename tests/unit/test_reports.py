"""The classifier finds sentences in which a person reports that a client fails."""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import pytest

from clienthealth.diagnose.attachments.pastes import least_probability
from clienthealth.modes import catalogue, modes
from clienthealth.read.logs.also_seen import BY_ID
from clienthealth.read.logs.reports import BUCKETS, features, reports_in
from tests.reports.sentences import NONE, read


def test_a_word_has_a_bucket_for_each_of_its_n_grams() -> None:
    buckets, values = features("Ab")
    grams = (" a", "ab", "b ", " ab", "ab ", " ab ")
    assert sorted(buckets) == sorted(crc32(gram.encode()) % BUCKETS for gram in grams)
    assert values == pytest.approx([1 / 6**0.5] * 6)


def test_numbers_count_alike_and_pairs_of_words_have_buckets() -> None:
    assert set(features("lag 17")[0]) == set(features("LAG 9")[0])
    assert crc32(b"it_hangs") % BUCKETS in features("it hangs")[0]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "........ ........", "日本", "x" * 200_000, "ab " * 70_000, "\ud800" * 50]
)
def test_odd_text_reports_nothing(text: str) -> None:
    assert not list(reports_in(text, 0.9))


def test_each_report_is_one_sentence_of_the_text() -> None:
    text = "We run Kafka 3.6. Since the upgrade our consumer hangs in poll() and gets no messages. Any ideas?"
    assert [(mode, sentence[0].strip()) for mode, sentence in reports_in(text, 0.9)] == [
        ("consumer-stalled", "Since the upgrade our consumer hangs in poll() and gets no messages.")
    ]


@pytest.mark.parametrize(
    ("sentence", "counts"),
    [
        ("How many records can the accumulator hold before send() blocks?", False),
        ("The call to send() blocks our web request for a minute.", True),
    ],
)
def test_a_pattern_counts_only_in_a_sentence_that_may_report_a_failure(sentence: str, counts: bool) -> None:
    def found(narrated: float | None) -> set[str]:
        return {wording.id for wording, _ in catalogue().matches(sentence, None, narrated=narrated)}

    assert "call-hangs" in found(None)
    assert ("call-hangs" in found(0.9)) == counts


def test_every_label_of_a_sentence_belongs_to_a_mode_or_a_known_issue() -> None:
    labels = {label for name in ("learned", "held_out") for label, _ in read(name)} - {NONE}
    assert labels == catalogue().reports.keys()
    assert labels <= modes().keys() | BY_ID.keys()


def test_the_classifier_generalises_to_sentences_that_it_has_not_learned() -> None:
    """The held-out sentences and the learned sentences have different writers.

    The limits are a little below what was measured when the classifier was trained.
    """
    learned = {text for _, text in read("learned")}
    right, total = Counter[bool](), Counter[bool]()
    for label, text in read("held_out"):
        assert text not in learned
        reported = {label for label, _ in reports_in(text, 0.9)} & modes().keys()
        failing = label != NONE
        total[failing] += 1
        right[failing] += label in reported if failing else not reported
    assert right[True] >= 0.55 * total[True]
    assert right[False] >= 0.98 * total[False]


@pytest.mark.parametrize(("reporting", "sentences", "least"), [(5, 5, 0.8455), (5, 11, 0.9468), (11, 5, 0.7)])
def test_reporting_words_make_a_sentence_of_a_text_more_credible(reporting: int, sentences: int, least: float) -> None:
    """A sentence counts as a report only if the odds p / (1 - p) reach a minimum; p is the probability of a report.

    `reporting`: number of reporting words in the text; `sentences`: number of sentences in the text. The minimum of the
    odds is (e * (1 + sentences) / (1 + reporting)) ** 1.7. In every text, p must be at least 0.7.
    """
    assert least_probability(reporting, sentences) == pytest.approx(least, abs=0.0001)
