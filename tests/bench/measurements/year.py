"""Measure maintenance and reviews of a history of one year, and how much a monitor writes per day."""

from __future__ import annotations

import json
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from clienthealth.model.errors import ServiceError
from clienthealth.settings import Settings
from clienthealth.spark import history
from clienthealth.spark.session import session
from deploy.demo.processes import Process
from tests.bench.lab import KAFKA_HEALTH
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import Usage

TITLE = "A year of history"
CLIENTS, DAYS = 2_000, 365
QUICK_CLIENTS, QUICK_DAYS = 100, 28
TOPICS = ("client-metrics", "client-logs")
EVERY_SECONDS = 10
MINUTES = 1440
RARITY = 1_000
FILES = 4 * MINUTES
MODES = ("producer-callback-deadlock", "send-blocked-on-metadata", "producer-not-closed")
MAINTAIN_SECONDS, WEEK_SECONDS, QUARTER_SECONDS, MEGABYTES = 300.0, 300.0, 1800.0, 2000.0
COMMAND_SECONDS = 3 * 3600.0
QUARTER = 91
JULIAN_EPOCH = 2_440_588

Identities = Mapping[str, pa.Array]
Ill = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Ran:
    seconds: float
    cpu: float
    peak_mb: float


def measure(scope: Scope) -> Result:
    clients = scope.clients or (QUICK_CLIENTS if scope.quick else CLIENTS)
    days = scope.days or (QUICK_DAYS if scope.quick else DAYS)
    written = None if scope.of is None else _written(scope.of)
    with tempfile.TemporaryDirectory(prefix="kafka-health-year-") as folder:
        root = Path(folder, "history")
        end = datetime.now(UTC).date()
        newest = FILES if written is None else round(written.grown["the table minutes"][0] * written.times_a_day)
        began = time.monotonic()
        generate(root, clients, end, days, newest)
        print(f"  {days} days generated in {time.monotonic() - began:.0f} s", flush=True)
        before = {table: version_size(root / table) for table in history.TABLES}
        ran = {"maintain": _run(Path(folder), ["maintain", "--history", str(root)])}
        after = {table: version_size(root / table) for table in history.TABLES}
        for what, length in (("a week's review", 7), ("a quarter's review", QUARTER)):
            if 4 * length <= days + 3:
                period = ["--from", str(end - timedelta(days=length)), "--to", str(end - timedelta(days=1))]
                ran[what] = _run(Path(folder), ["review", "--history", str(root), "--out", f"{folder}/out", *period])
    return _result(clients, days, newest, written, before, after, ran)


def _result(
    clients: int,
    days: int,
    newest: int,
    written: Written | None,
    before: Mapping[str, tuple[int, int]],
    after: Mapping[str, tuple[int, int]],
    ran: Mapping[str, Ran],
) -> Result:
    limits = {"maintain": MAINTAIN_SECONDS, "a week's review": WEEK_SECONDS, "a quarter's review": QUARTER_SECONDS}
    name = f"history of {clients:,} clients and {days} days"
    figures = [
        Figure(f"{name}: duration of {what}", ran[what].seconds, "s", limit)
        for what, limit in limits.items()
        if what in ran
    ]
    figures.append(Figure(f"{name}: peak memory of a command", max(r.peak_mb for r in ran.values()), "MB", MEGABYTES))
    tables = [
        Table(
            ["table", "files before", "MB before", "files after `maintain`", "MB after `maintain`"],
            [[name, *_shown(before[name]), *_shown(after[name])] for name in history.TABLES],
        ),
        Table(
            ["command", "duration, s", "CPU, s", "peak memory, MB"],
            [[what, f"{r.seconds:.0f}", f"{r.cpu:.0f}", f"{r.peak_mb:,.0f}"] for what, r in ran.items()],
        ),
    ]
    how = (
        f"The history of {clients:,} clients has a row for each client and minute of {days} days. The newest day has "
        f"{newest:,} files, as many as a monitor writes in a day. `kafka-health maintain` and `review` run with "
        "default settings. The memory is the sum over all processes of a command."
    )
    notes: list[str] = []
    if written is not None:
        head = ["data of one day", "files", "MB"]
        rows = [[name, *_shown(written.a_day(has))] for name, has in written.grown.items()]
        tables.append(Table(head, [*rows, ["the checkpoint (on any day)", *_shown(written.checkpoint)]]))
        ran_for = f"{written.seconds / 60:.0f} minutes with {written.clients:,} clients"
        notes.append(f"The figures of a day are calculated from {ran_for}.")
        notes.append("Delta keeps its logs for a day or two. Topics keep their records for the retention time.")
    return Result(figures, how, tables, notes)


@dataclass(frozen=True)
class Written:
    seconds: float
    clients: int
    grown: Mapping[str, tuple[int, int]]
    checkpoint: tuple[int, int]

    @property
    def times_a_day(self) -> float:
        return 86_400 / self.seconds

    def a_day(self, has: tuple[int, int]) -> tuple[float, float]:
        return has[0] * self.times_a_day, has[1] * self.times_a_day


def _written(folder: Path) -> Written:
    root = folder / "history"
    moments = [
        json.loads(line)["commitInfo"]["timestamp"]
        for log in (root / "quality" / "_delta_log").glob("*.json")
        for line in log.read_text("utf-8").splitlines()
        if line.startswith('{"commitInfo"')
    ]
    grown = {f"the table {name}": version_size(root / name) for name in history.TABLES}
    for name in history.TABLES:
        grown[f"Delta's log of the table {name}"] = _of((root / name / "_delta_log").rglob("*"))
    for topic in (*TOPICS, "client-health"):
        grown[f"the topic {topic}"] = _of(folder.glob(f"broker/data/{topic}-*/*.log"))
    newest = max((root / "minutes").glob("day=*"))
    client = pa.concat_tables(pq.ParquetFile(path).read([*history.CLIENT_KEY]) for path in newest.glob("*.parquet"))
    clients = len(client.group_by([*history.CLIENT_KEY]).aggregate([]))
    seconds = (max(moments) - min(moments)) / 1000
    return Written(seconds, clients, grown, _of((folder / "checkpoints").rglob("*")))


def _shown(sizes: tuple[float, float]) -> list[str]:
    return [f"{sizes[0]:,.0f}", f"{sizes[1] / 1e6:,.2f}"]


def _run(folder: Path, arguments: Sequence[str]) -> Ran:
    log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
    began = alive = time.time()
    process = Process(arguments[0], [KAFKA_HEALTH, *arguments], log)

    def over() -> bool:
        nonlocal alive
        if process.alive:
            alive = time.time()
        return not process.alive

    try:
        with Usage({"command": process.pid}) as usage:
            process.wait_until(over, COMMAND_SECONDS)
            cost = usage.cost(began, alive - 0.3)
            peak_mb = usage.peak_mb("command")
    finally:
        process.kill()
    if process.exit_code:
        raise ServiceError(f"{' '.join(arguments)} ended with exit code {process.exit_code}\n{process.tail()}")
    printed = [line for line in log.read_text("utf-8").splitlines() if line and not line.startswith(_OF_JAVA)]
    print(f"  {' '.join(arguments[:1])}: {alive - began:.0f} s, {peak_mb:,.0f} MB: {printed[:4]}", flush=True)
    return Ran(alive - began, sum(cost.parts.values()), peak_mb)


_OF_JAVA = ("WARNING: ", "NOTE: ", "Picked up ")


def _of(paths: Iterable[Path]) -> tuple[int, int]:
    count = size = 0
    for path in paths:
        with suppress(FileNotFoundError):
            if path.is_file():
                count, size = count + 1, size + path.stat().st_size
    return count, size


def version_size(place: Path) -> tuple[int, int]:
    sizes: dict[str, int] = {}
    for log in sorted((place / "_delta_log").glob("*.json")):
        for line in log.read_text("utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                sizes[action["add"]["path"]] = action["add"]["size"]
            elif "remove" in action:
                sizes.pop(action["remove"]["path"], None)
    return len(sizes), sum(sizes.values())


def generate(root: Path, clients: int, end: date, days: int, newest: int) -> None:
    spark = session("bench-year", Settings())
    try:
        history.create(spark, str(root))
    finally:
        spark.stop()
    first = end - timedelta(days=days)
    client, ill = _fleet(clients), _ill(clients)
    table, last = root / "minutes", end - timedelta(days=1)
    rows = _day(clients, client, ill, last)
    _write_at(table, last, "part", rows)
    (source,) = (table / f"day={last}").iterdir()
    data = source.read_bytes()
    page, adds = _page(last), []
    assert data.count(page) == 1
    at = data.index(page)
    for back in range(2, days + 1):
        day = end - timedelta(days=back)
        path = table / f"day={day}" / "part-0.parquet"
        path.parent.mkdir()
        with path.open("wb") as file:
            file.writelines((data[:at], _page(day), data[at + len(page) :]))
        adds.append(_add(table, path, len(rows)))
    source.unlink()
    each = -(-len(rows) // newest)
    for n, start in enumerate(range(0, len(rows), each)):
        adds.append(_add(table, _write_at(table, last, f"new-{n}", rows.slice(start, each)), each))
    _commit(table, adds)
    makers: Mapping[str, Callable[[date], pa.Table]] = {
        "verdicts": partial(_verdicts, client, ill),
        "quality": partial(_quality, clients),
    }
    for name, rows_of_day in makers.items():
        table, adds = root / name, []
        for n in range(days):
            table_rows = rows_of_day(first + timedelta(days=n))
            adds.append(_add(table, _write_at(table, first + timedelta(days=n), "part", table_rows), len(table_rows)))
        _commit(table, adds)


def _write_at(table: Path, day: date, name: str, rows: pa.Table) -> Path:
    """Write `rows` to a Parquet file. The column `minute` is uncompressed, because `generate` replaces its bytes."""
    path = table / f"day={day}" / f"{name}-0.parquet"
    path.parent.mkdir(exist_ok=True, parents=True)
    compression = {name: "NONE" if name == "minute" else "SNAPPY" for name in _leaves(rows.schema)}
    pq.write_table(
        rows, path, use_deprecated_int96_timestamps=True, compression=compression, row_group_size=max(1, len(rows))
    )
    return path


def _leaves(schema: pa.Schema) -> list[str]:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    columns = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [columns.column(n).path for n in range(len(columns))]


def _page(day: date) -> bytes:
    julian = (day - date(1970, 1, 1)).days + JULIAN_EPOCH
    return b"".join(struct.pack("<qi", minute * 60 * 10**9, julian) for minute in range(MINUTES))


def _add(table: Path, path: Path, rows: int) -> dict[str, Any]:
    relative = path.relative_to(table)
    return {
        "path": str(relative),
        "partitionValues": {"day": relative.parts[0].partition("=")[2]},
        "size": path.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows}),
    }


def _commit(table: Path, adds: Sequence[Mapping[str, Any]]) -> None:
    version = len(list((table / "_delta_log").glob("*.json")))
    text = "\n".join(json.dumps({"add": add}) for add in adds)
    (table / "_delta_log" / f"{version:020}.json").write_text(text + "\n", "utf-8")


def _fleet(clients: int) -> dict[str, pa.Array]:
    kinds = ["group" if n % 50 == 0 else "consumer" if n % 4 == 0 else "producer" for n in range(clients)]
    return {
        "service": pa.array([f"service-{n % 40:02}" for n in range(clients)]),
        "host": pa.array([f"pod-{n // 10:05}" for n in range(clients)]),
        "instance": pa.array([f"pod-{n // 10:05}:1" for n in range(clients)]),
        "client_id": pa.array([f"client-{n:05}" for n in range(clients)]),
        "kind": pa.array(kinds),
        "group": pa.array([None if kind == "producer" else f"group-{n % 500:03}" for n, kind in enumerate(kinds)]),
        "library": pa.array(["java"] * clients),
        "version": pa.array(["3.9.1"] * clients),
    }


def _ill(clients: int) -> Ill:
    chance = np.random.default_rng(1)
    pairs = np.argwhere(chance.integers(0, RARITY, (clients, 24)) == 0)
    return [(client, hour) for client, hour in pairs.tolist() if client % 50]


def _day(clients: int, ref: Identities, ill: Ill, day: date) -> pa.Table:
    chance = np.random.default_rng(2)
    number = np.concatenate([chance.permutation(clients) for _ in range(MINUTES)])
    minute = np.repeat(np.arange(MINUTES), clients)
    rows = len(number)
    sick = np.zeros((clients, MINUTES), np.int8)
    for at, (client, hour) in enumerate(ill):
        sick[client, hour * 60 : hour * 60 + 10] = 1 + at % len(MODES)
    mode = sick[number, minute]
    kinds = np.array(ref["kind"].to_pylist())[number]
    producer, group = kinds == "producer", kinds == "group"
    noise = chance.random(rows).round(4)
    failing = np.flatnonzero(mode)
    offsets = np.concatenate([[0], np.cumsum(mode > 0)]).astype(np.int32)
    modes = pa.StructArray.from_arrays(
        [
            pa.array([MODES[n - 1] for n in mode[failing].tolist()], pa.string()),
            pa.array(["confirmed"] * len(failing), pa.string()),
        ],
        ["mode", "status"],
    )
    midnight = np.datetime64(day, "us")
    given: dict[str, Any] = {
        **{name: values.dictionary_encode().take(pa.array(number)) for name, values in ref.items()},
        "minute": pa.array(midnight + minute * np.timedelta64(60, "s"), pa.timestamp("us", "UTC")),
        "schema_version": pa.array(np.full(rows, history.SCHEMA_VERSION, np.int32)),
        "samples": pa.array(np.full(rows, 60 // EVERY_SECONDS, np.int32)),
        "status": _chosen(["ok", "confirmed", "unknown"], np.where(group, 2, mode > 0)),
        "modes": pa.ListArray.from_arrays(offsets, modes),
        "buffer_used_ratio_max": pa.array(noise * noise, mask=~producer),
        "callback_seconds_avg": pa.array(noise / 100, mask=~producer),
        "callback_source": _chosen(["derived"], np.zeros(rows), ~producer),
        "lag_records": pa.array((noise * 5000).astype(np.int64), mask=~group),
        "lag_seconds": pa.array(noise * 10, mask=~group),
        "lag_topic": _chosen(["orders"], np.zeros(rows), ~group),
        "lag_state": _chosen(["OK"], np.zeros(rows), ~group),
    }
    return _of_schema(history.MINUTES, given, rows)


def _chosen(values: Sequence[str], which: Any, mask: Any = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32), mask=mask), pa.array(values))


def _verdicts(ref: Identities, ill: Ill, day: date) -> pa.Table:
    midnight = datetime.combine(day, datetime.min.time(), UTC)
    rows: list[dict[str, Any]] = []
    for at, (client, hour) in enumerate(ill):
        since = midnight + timedelta(hours=hour)
        for change, minutes in (("opened", 0), ("closed", 10)):
            status, previous = ("confirmed", "ok") if change == "opened" else ("ok", "confirmed")
            rows.append(
                {
                    **{name: values[client].as_py() for name, values in ref.items()},
                    "schema_version": history.SCHEMA_VERSION,
                    "ts": since + timedelta(minutes=minutes),
                    "observed": since + timedelta(minutes=minutes, seconds=40),
                    "mode": MODES[at % len(MODES)],
                    "status": status,
                    "previous": previous,
                    "since": since,
                    "detail": f'{{"cause": "cause-{client % 3}"}}',
                    "evidence": '[{"kind": "metric", "ts": 1, "text": "select-total stayed at 10213 for 40 s"}]',
                    "change": change,
                }
            )
    columns = {name: [row.get(name) for row in rows] for name in history.VERDICTS.names}
    return _of_schema(history.VERDICTS, columns, len(rows))


def _quality(clients: int, day: date) -> pa.Table:
    midnight = datetime.combine(day, datetime.min.time(), UTC)
    minutes = [midnight + timedelta(minutes=n) for n in range(MINUTES) for _ in TOPICS]
    rows = len(minutes)
    columns: dict[str, Any] = {
        "schema_version": [history.SCHEMA_VERSION] * rows,
        "minute": minutes,
        "source_topic": [*TOPICS] * MINUTES,
        "records": [clients * 60 // EVERY_SECONDS] * rows,
        "rejected": [0] * rows,
        "late": [0] * rows,
        "batches": [60 // EVERY_SECONDS] * rows,
    }
    return _of_schema(history.QUALITY, columns, rows)


def _of_schema(schema: StructType, given: Mapping[str, Any], rows: int) -> pa.Table:
    types = {field.name: to_arrow_type(field.dataType, timezone="UTC") for field in schema if field.name != "day"}
    arrays = {
        name: given[name] if isinstance(given.get(name), pa.Array) else pa.array(given.get(name) or [None] * rows, kind)
        for name, kind in types.items()
    }
    return pa.table(arrays)
