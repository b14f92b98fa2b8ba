"""Hold the samples of clients in windows of event time, as bytes or as numpy arrays, and compute what is measured."""
