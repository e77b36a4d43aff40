"""Arguments of a call: arrays of any family, their sizes, and which of them may overlap."""
