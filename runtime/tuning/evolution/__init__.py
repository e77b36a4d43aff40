"""A search outwards from candidates that were measured: schedules near the best ones are proposed, measured, and so on.

mutations      one change of a complete schedule
line_changes   changes of its lines: their order, their number
word_changes   changes of a line's words: modifiers, memories, instructions
size_changes   changes of tile sizes
crossover      the lines of two schedules in one
generations    what was measured, what to measure next, and when to stop
"""
