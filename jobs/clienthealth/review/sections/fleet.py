"""Who stands out: the worst clients and topics, who is new or gone, what fills up, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from clienthealth.model.wording import count_of
from clienthealth.review import plots
from clienthealth.review.document import (
    BREAK,
    Block,
    Bullets,
    Column,
    Drawn,
    Heading,
    Inline,
    Name,
    Pair,
    Paragraph,
    Section,
    Soft,
    Table,
)
from clienthealth.review.model import Capacity, ClientRow, FleetRow, Review, TopicRow
from clienthealth.review.period import period_names
from clienthealth.review.sections.naming import NAMELESS, client, names, service
from clienthealth.review.wording import NONE, duration, number, percent, points, some

#: What clients are ranked by, the heading, and what the number is.
RANKINGS = (
    ("unhealthy", "Unhealthy longest", "Minutes"),
    ("buffer", "Fullest buffers", "Peak"),
    ("queue", "Fullest queues", "Peak"),
    ("lag", "Furthest behind", "Records"),
)
#: Services whose buffers are shown, those that are full first at the top.
CAPACITY_SHOWN = 12
#: A buffer that is full only after so many periods is not in sight of being full.
FAR = 104
#: What the two distributions are drawn with.
KEY = Markup(
    '<ul class="key"><li>bars: this {0}, on a logarithmic scale</li><li>{1}the {0} before</li>'
    "<li>numbers: share of this {0}</li></ul>"
)
THEN = Markup('<svg width="4" height="14" aria-hidden="true"><line class="then" x1="2" x2="2" y1="0" y2="14"/></svg>')


def rankings(review: Review) -> Section:
    """The worst clients and topics by each measure; which clients are new and which have vanished."""
    fleet = review.fleet
    ranked = [_ranking(review, what, name, measure) for what, name, measure in RANKINGS]
    new = _came_or_went("New", fleet.new, fleet.new_count)
    vanished = _came_or_went("Vanished", fleet.vanished, fleet.vanished_count)
    return Section("top", "Clients and topics", [Pair(ranked), Pair((new, vanished))])


def _ranking(review: Review, what: str, name: str, measure: str) -> list[Block]:
    clients, topics = review.top_clients[what], review.top_topics.get(what)
    blocks: list[Block] = [Heading(name)]
    if clients:
        head = Column("Group" if what == "lag" else "Client"), Column(measure, number=True)
        blocks.append(Table(head, [_ranked(row) for row in clients], stacks=False))
    else:
        blocks.append(Paragraph(Soft("None.")))
    if topics:
        rows = [((Name(row.topic), " ", Soft(count_of(row.clients, "client"))), _value(row)) for row in topics]
        blocks.append(Table((Column("Topic"), Column(measure, number=True)), rows, stacks=False))
    return blocks


def _ranked(row: ClientRow) -> tuple[Inline, Inline]:
    topic = (" ", Soft(("topic ", Name(row.topic)))) if row.topic else ()
    age = (BREAK, Soft(duration(row.seconds))) if row.seconds is not None else ()
    return (client(row), *topic), (_value(row), *age)


def _value(row: ClientRow | TopicRow) -> str:
    return percent(row.value, 0) if row.what in ("buffer", "queue") else number(row.value)


def _came_or_went(name: str, rows: Sequence[FleetRow], count: int) -> list[Block]:
    blocks: list[Block] = [Heading(f"{name}: {count_of(count, 'client id')}")]
    if not rows:
        return [*blocks, Paragraph(Soft("None."))]
    blocks.append(Bullets([_fleet_row(row) for row in rows]))
    if count > len(rows):
        blocks.append(Paragraph(f"and {number(count - len(rows))} more", note=True))
    return blocks


def _fleet_row(row: FleetRow) -> Inline:
    about = (Name(row.service), f" · {row.kind} · {count_of(row.instances, 'instance')}")
    return Name(row.client_id or NAMELESS), " ", Soft(about)


def capacity(review: Review) -> Section:
    """What fills up, and when it will be full."""
    return Section("capacity", "Capacity", [*_capacity(review)])


def _capacity(review: Review) -> Iterator[Block]:
    unit = review.period.unit
    if review.capacity:
        columns = [Column("Service")]
        columns += [Column(name, number=True) for name in period_names(review.period, review.periods)]
        columns += [Column(f"Per {unit}", number=True), Column(f"{unit.capitalize()}s until full", number=True)]
        rows = [
            (service(row.service), *(percent(p95, 1) for p95 in row.p95), points(row.slope), _periods_left(row))
            for row in review.capacity[:CAPACITY_SHOWN]
        ]
        yield Table(columns, rows, "Producer buffers: 95th percentile of the peaks of all client-minutes.")
    else:
        yield Paragraph(Soft("No producer reported its buffer."))
    if review.lag_trends:
        yield Table(
            (
                Column("Group"),
                Column("Topic"),
                Column("Highest lag", number=True),
                Column("Growth per day", number=True),
            ),
            [
                (
                    Name(row.group),
                    Name(row.topic),
                    (number(row.records), *((" ", Soft(duration(row.seconds))) if row.seconds is not None else ())),
                    number(row.slope),
                )
                for row in review.lag_trends
            ],
            f"Consumer groups whose lag grew over the {unit}.",
        )
    before = f"the {unit} before"
    buffers = plots.distribution("buffers", "Peak buffer use", "client-minute", review.buffers, before)
    lags = plots.distribution("lags", "Lag in records", "group-minute", review.lags, before)
    titles = "Buffers: client-minutes by peak use", "Lag: group-minutes by records behind"
    yield Pair(((Drawn(buffers, titles[0]),), (Drawn(lags, titles[1]),)))
    yield Drawn(KEY.format(unit, THEN))


def _periods_left(row: Capacity) -> str:
    if row.slope is None:
        return NONE
    if row.periods_left is None or row.periods_left > FAR:
        return "not in sight"
    return f"{row.periods_left:.1f}"


def changes(review: Review) -> Section:
    """What is more and what is less than in the period before."""
    columns = [Column("Failure mode"), Column("Incidents", number=True), Column("Before", number=True)]
    columns += [Column("Unhealthy client-minutes", number=True), Column("Before", number=True)]
    counts = [
        (row.title, (row.incidents, row.incidents_before, row.minutes, row.minutes_before)) for row in review.changes
    ]
    rows = [(title, *map(some, numbers)) for title, numbers in counts if any(numbers)]
    unit = review.period.unit
    blocks: list[Block] = [Table(columns, rows) if rows else Paragraph(f"No failure in this {unit} or the one before.")]
    if review.fleet.upgrades:
        upgrades = [(Name(u.service), Name(u.library), names(u.before), names(u.now)) for u in review.fleet.upgrades]
        head = (Column("Service"), Column("Library"), Column("Before"), Column("Now"))
        blocks.append(Table(head, upgrades, "Versions of client libraries."))
    return Section("changes", f"Changes from the {review.period.unit} before", blocks, short="Changes")
