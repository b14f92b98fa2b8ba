"""`kafka-health review` writes the reliability review; `kafka-health maintain` cleans up the history."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from clienthealth.model.errors import InputError, SettingsError
from clienthealth.platform.locations import inside
from clienthealth.settings import Settings

if TYPE_CHECKING:
    from clienthealth.review.clusters import Clusters
    from clienthealth.review.model import Review
    from clienthealth.review.period import Period

#: Matches `NAME=` at the beginning of `NAME=FOLDER`. No URL matches, because NAME must not contain a colon.
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*=")


def run_review(args: argparse.Namespace) -> int:
    """Make the review, write its files, and send it by mail if requested."""
    from clienthealth.configuration import load, placed
    from clienthealth.review.mail import check, send
    from clienthealth.review.period import period
    from clienthealth.spark.session import session

    settings = with_histories(load(args.config), args.history or ())
    if args.mail:
        check(settings.review)
    now = datetime.now(UTC)
    reviewed = period(args.begin, args.end, args.week, now).until(now)
    out = args.out or inside(settings.review.out, reviewed.label)
    settings = placed(replace(settings, review=replace(settings.review, out=out)))
    with TemporaryDirectory(prefix="kafka-client-health-review-") as scratch:
        spark = session("kafka-client-health-review", settings)
        try:
            if not (args.week or args.begin or args.end):
                _has_begun(spark, settings, reviewed, now)
            actions = Path(args.actions) if args.actions else None
            review, reviews, files = _reviews(spark, settings, reviewed, actions, Path(scratch))
        finally:
            spark.stop()
        for question, sentence in review.answers:
            print(sentence if len(reviews) == 1 else f"{question} {sentence}")
        for one in reviews:
            for what, why in one.not_computed:
                print(f"{what}{f' ({one.cluster})' if one.cluster else ''}: missing, because {why}", file=sys.stderr)
        print(f"\n{inside(settings.review.out, files[0].name)}")
        if args.mail:
            send(settings.review, review, files)
            print(f"sent to {', '.join(settings.review.mail_to)}")
    return 0


def _reviews(
    spark: Any, settings: Settings, reviewed: Period, actions: Path | None, scratch: Path
) -> tuple[Review | Clusters, Sequence[Review], Sequence[Path]]:
    """Return (joint review of all clusters, reviews of single clusters, files of the joint review).

    If there is only one cluster, the joint review is the review of this cluster.
    """
    from clienthealth.review.actions import FILE
    from clienthealth.review.clusters import side_by_side, write_all
    from clienthealth.review.queries import build
    from clienthealth.review.render import write
    from clienthealth.spark.files import fetched, put

    out = settings.review.out
    folder = fetched(spark, out, scratch, FILE)
    reviews = [
        build(spark, of_cluster, reviewed, actions or actions_beside(folder), of_cluster.monitor.history)
        for of_cluster in clusters(settings)
    ]
    together = side_by_side(reviews)
    files = write_all(together, folder) if len(reviews) > 1 else {"": write(reviews[0], folder)}
    for cluster, of_cluster_files in files.items():
        put(spark, of_cluster_files, inside(out, cluster) if cluster else out)
    return together if len(reviews) > 1 else reviews[0], reviews, files[""]


def _has_begun(spark: Any, settings: Settings, week: Period, now: datetime) -> None:
    from clienthealth.spark.history import begins

    begun = filter(None, (begins(spark, of_cluster.monitor.history) for of_cluster in clusters(settings)))
    if (first := min(begun, default=None)) is None:
        raise InputError("the history is empty: the monitor has not written anything yet")
    if first >= week.end:
        raise InputError(
            f"the history begins on {first:%Y-%m-%d at %H:%M} UTC, after the last full week ({week.label}); to "
            f"review the data so far, give --from {first:%Y-%m-%dT%H:%MZ} --to {now:%Y-%m-%dT%H:%MZ}"
        )


def with_histories(settings: Settings, options: Sequence[str]) -> Settings:
    """Return the settings with the history folders that the command line gives.

    `options`: the values of `--history`, each DIR or CLUSTER=DIR.

    Raises SettingsError if `--history` is repeated and one of its values lacks `CLUSTER=`, and InputError if two values
    name the same cluster.
    """
    named = [option.partition("=") for option in options if _NAMED.match(option)]
    if len(options) == 1 and not named:
        monitor = replace(settings.monitor, history=options[0])
        return replace(settings, monitor=monitor, review=replace(settings.review, histories={}, environments={}))
    if len(named) < len(options):
        raise SettingsError("--history is given several times: write each value as CLUSTER=DIR")
    histories: dict[str, str] = {}
    for cluster, _, location in named:
        if cluster in histories:
            both = f"{histories[cluster]} and {location}"
            raise InputError(f"--history: cluster '{cluster}' has two histories, {both}: give one, or use another name")
        histories[cluster] = location
    if not named:
        return settings
    environments = {name: env for name, env in settings.review.environments.items() if name in histories}
    return replace(settings, review=replace(settings.review, histories=histories, environments=environments))


def clusters(settings: Settings) -> list[Settings]:
    """Return one `Settings` per reviewed cluster, with the name, history and environment of that cluster.

    If `[review] histories` is empty, the only element of the result is `settings`.
    """
    return [
        replace(
            settings,
            monitor=replace(settings.monitor, cluster=cluster, history=history),
            prometheus=replace(settings.prometheus, labels={"env": environment} if environment else {}),
        )
        for cluster, history in settings.review.histories.items()
        for environment in (settings.review.environments.get(cluster),)
    ] or [settings]


def actions_beside(folder: Path) -> Path:
    """Return the path of `actions.toml`: in the review's folder if the file exists there, else in the parent folder.

    By default, all reviews have the same parent folder, and so share the file there.
    """
    from clienthealth.review.actions import FILE

    own = folder / FILE
    return own if own.is_file() else folder.resolve().parent / FILE


def run_maintain(args: argparse.Namespace) -> int:
    """Delete the data of old days, and join small files, in each table of the history. Report on each table."""
    from clienthealth.configuration import load, placed
    from clienthealth.spark.history import maintain
    from clienthealth.spark.session import session

    settings = load(args.config)
    if args.history:
        settings = placed(replace(settings, monitor=replace(settings.monitor, history=args.history)))
    spark = session("kafka-client-health-maintenance", settings)
    try:
        today = datetime.now(UTC).date()
        for done in maintain(spark, settings.monitor.history, settings.review.retention_days, today, args.alone):
            print(
                f"{done.table}: {done.days} days deleted, {done.removed} small files joined into {done.added}; "
                f"the table now has {done.files} files ({done.bytes / 1e6:.1f} MB)"
            )
    finally:
        spark.stop()
    return 0
