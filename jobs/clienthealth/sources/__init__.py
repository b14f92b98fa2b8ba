"""Where records come from. Only `sources` and `sinks` touch the outside."""
