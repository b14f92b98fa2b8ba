"""A review reads the histories of several clusters, and names the clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clienthealth.model.errors import InputError, SettingsError
from clienthealth.ops.cli.review import clusters, with_histories
from clienthealth.settings import ReviewSettings, Settings


def test_histories_come_from_the_command_line_or_from_the_settings() -> None:
    def histories(*options: str, settings: Settings = Settings()) -> list[tuple[str, str]]:  # noqa: B008
        return [(s.monitor.cluster, s.monitor.history) for s in clusters(with_histories(settings, options))]

    several = replace(Settings(), review=ReviewSettings(histories={"a": "/a", "b": "s3a://b/x=y"}))
    assert histories("eu=/eu", "us=s3a://us/x=y") == [("eu", "/eu"), ("us", "s3a://us/x=y")]
    assert histories(settings=several) == [("a", "/a"), ("b", "s3a://b/x=y")]
    assert histories("s3a://one/x=y", settings=several) == [("", "s3a://one/x=y")]
    with pytest.raises(SettingsError, match="write each value as CLUSTER=DIR"):
        histories("/eu", "us=/us")
    with pytest.raises(InputError, match="cluster 'eu' has two histories, /a and /b"):
        histories("eu=/a", "eu=/b")


@pytest.mark.parametrize("name", ["", "../eu", "a/b", ".hidden"])
def test_a_cluster_has_the_name_of_a_folder(name: str) -> None:
    with pytest.raises(SettingsError, match="is not a valid folder name"):
        replace(Settings(), review=ReviewSettings(histories={name: "/history"}))


def test_a_cluster_has_the_environment_that_the_settings_name_and_no_other() -> None:
    review = ReviewSettings(histories={"eu": "/eu", "test": "/test"}, environments={"test": "staging"})
    settings = replace(Settings(), review=review)

    def labels(*options: str) -> list[dict[str, str]]:
        return [s.prometheus.labels for s in clusters(with_histories(settings, options))]

    assert labels() == [{}, {"env": "staging"}]
    assert labels("test=/elsewhere") == [{"env": "staging"}]
    assert labels("us=/us") == [{}]
    assert labels("/one") == [{}]
    with pytest.raises(SettingsError, match="environments: cluster 'us' is not listed in histories"):
        replace(settings, review=replace(review, environments={"us": "prod"}))
