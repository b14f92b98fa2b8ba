"""What is done with each micro-batch of a query: judge, keep the book of incidents, write the topics and the history.

One module per query, and what they share: `book` (the open incidents), `state` (the records on `client-health`) and
`steps` (judgement on Arrow). The batch is static here, so one computation feeds all sinks. Writes are idempotent:
records on `client-health` are keyed, the history skips a batch that it has already taken in, and the book of
incidents is read back from it.
"""

from clienthealth.batches.book import Book
from clienthealth.batches.clients import ClientsBatch
from clienthealth.batches.departures import DeparturesBatch
from clienthealth.batches.lag import LagBatch
from clienthealth.batches.rejects import RejectsBatch

__all__ = ["Book", "ClientsBatch", "DeparturesBatch", "LagBatch", "RejectsBatch"]
