"""Intermediates that default schedules make in the tile of their only reader, beyond its edges where it reads neighbours."""
