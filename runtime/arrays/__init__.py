"""Arguments of a call: arrays of any family, their sizes, and where they may overlap."""
