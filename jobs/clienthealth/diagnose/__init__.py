"""The judgement of what people attach, and of one process that is watched, as a report."""
