"""The syntax: `sched.lark` and `tile.lark` define it, and the other files colour it in editors."""
