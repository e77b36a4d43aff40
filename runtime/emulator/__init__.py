"""The emulator: the source code of a GPU kernel runs on this CPU, and races, faults and traffic are reported."""
