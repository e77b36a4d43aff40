"""Instructions as functions of C++, derived from their descriptions in the device's text.

`instr_function.function_of(instr, units, needs)` starts here; no code here knows an instruction. `instr_semantics` has an
instruction's statement as a tile program over whole operands, which the printer of GPU texts prints. `instr_function` puts a
call around it in which the threads synchronise, or which delays an asynchronous instruction. Sums of floats are formed in f64
and rounded once, as in the interpreter: within any tensor unit's stated bound.
"""
