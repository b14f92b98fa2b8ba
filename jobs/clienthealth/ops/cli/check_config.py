"""`kafka-health check-config`: print the settings in force, what is wrong with them, or options for spark-submit."""

from __future__ import annotations

import argparse
from collections.abc import Mapping


def run(args: argparse.Namespace) -> int:
    """Print the settings in force or, with --spark-submit, options for spark-submit.

    Raises SettingsError (exit code 2) if the monitor or an exporter would refuse the settings.
    """
    from clienthealth.configuration import in_force, load
    from clienthealth.configuration.installation import fixed_labels
    from clienthealth.configuration.owners import read_owners

    if args.spark_submit:
        from clienthealth.spark.session import submit_options

        options = submit_options(load(args.config), cluster=args.spark_submit == "cluster")
        print("\n".join(f"{name} {value}" for name, value in options.items()))
        return 0
    settings = load(args.config)
    _refuse_wrong_options(settings.kafka.options)
    for file in settings.groups.clusters.values():
        _refuse_wrong_options(load(file, environ={}).kafka.options, f"{file}: ")
    fixed_labels(settings)
    read_owners(settings.owners.files)
    print(in_force(settings, changed_only=args.changed) or "# Every setting has its default.")
    return 0


def _refuse_wrong_options(options: Mapping[str, str], where: str = "") -> None:
    from clienthealth.model.errors import SettingsError
    from clienthealth.platform.logins import java_options, python_options

    refused: dict[str, list[str]] = {}
    for program, read in (("the monitor", java_options), ("every program except the monitor", python_options)):
        try:
            read(options)
        except SettingsError as error:
            refused.setdefault(str(error), []).append(program)
    for complaint, programs in refused.items():
        refusing = "all programs refuse" if len(programs) > 1 else f"{programs[0]} refuses"
        raise SettingsError(f"{where}{complaint}; {refusing} these options")
