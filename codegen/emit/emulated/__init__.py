"""Instructions as functions of C++, derived from their descriptions in the device's text.

`instr_function.function_of(instr, units, needs)` starts here; nothing here knows an instruction. `instr_semantics` is an
instruction's statement as a tile program over whole operands, which the printer of GPU texts prints. `instr_function` puts a
call around it that has the threads meet, or delays what is asynchronous. Sums of floats are formed in f64 and rounded once, as
in the interpreter: within any tensor unit's stated bound.
"""
