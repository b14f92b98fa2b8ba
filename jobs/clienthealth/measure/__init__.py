"""Hold clients' samples in windows of event time, as bytes or numpy arrays, and compute measurements from windows."""
