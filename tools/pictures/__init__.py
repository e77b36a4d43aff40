"""Pictures as SVG text: the roofline, the hierarchy of tiles, what moves between memories, who holds which element."""
