"""Pictures as SVG text: the roofline, the hierarchy of tiles, traffic between memories, the unit that holds each element."""
