"""Client samples in windows of event time, packed and as numpy views, and the indicators computed from them."""
