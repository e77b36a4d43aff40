"""Each element that is read was written, and each output is stored once: a check of every program that is compiled."""
