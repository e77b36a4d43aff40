"""Instructions as functions of C++, derived from what the device text says they compute: `function_of(instr, units, needs)`.

Nothing here knows an instruction. `op` is its statement as a tile program over whole operands, which the printer of GPU texts
prints; `fragments` spreads operands over threads and registers by the operands' maps; `function` puts a call around them that
has the threads meet, or delays what is asynchronous. Sums of floats are formed in f64 and rounded once, as in the interpreter:
within any tensor unit's stated bound.
"""

from .function import function_of

__all__ = ["function_of"]
