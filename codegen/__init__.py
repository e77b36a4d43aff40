"""The compiler: from an op, a schedule and a device to a tile program, and from that to source code."""
