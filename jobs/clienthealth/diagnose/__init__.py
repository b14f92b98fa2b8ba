"""Judge what people attach, and one process that is watched, and report on it."""
