"""The syntax: `sched.lark`, which is the truth about it, and what editors need to colour it."""
