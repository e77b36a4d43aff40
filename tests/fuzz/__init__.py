"""Random ops, schedules and devices, as large as the grammar; how a case is run, checked and shrunk.

    python -m tests.fuzz --seeds 0..999 --kind schedule --run interpreter

model       an op as a tree that writes itself as text
formula     what that tree means, in NumPy, written without the compiler's own reference evaluator
ops         random op trees
schedules   random schedules for an op on a device
devices     random devices
case        an op, a schedule, a device and sizes: all that is needed to run it again
execute     runs a case in the interpreter, on the CPU and under the emulator, and compares it with the formula
shrink      the smallest case that still fails in the same way
"""
