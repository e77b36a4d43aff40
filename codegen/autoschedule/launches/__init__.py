"""The launches of an op: which computations share one, by the lines of a schedule and by what completion prefers."""
