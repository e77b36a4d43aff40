"""Recognising one pass: products around a statistic of rows, such as attention, that one loop over the keys computes."""
