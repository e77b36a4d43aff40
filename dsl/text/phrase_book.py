"""Replacements for words of other languages: of Halide, of TVM, and of loops."""

from __future__ import annotations

# The first word of a line, or of a modifier -> what to write.
SCHEDULES = {
    "split": "a tile splits an index: `tile k: 32`",
    "parallel": "tiles that are distributed over units run in parallel: `tile m: 64 -> core`",
    "parallelize": "tiles that are distributed over units run in parallel: `tile m: 64 -> core`",
    "vectorize": "contiguous elements go to the lanes of a vector: `tile n: 1 -> lane`; or `compute with fma`",
    "bind": "a tile is bound to units by its arrow: `tile m: 1 -> thread`",
    "reorder": "`order` behind a tile sets its loops: `tile m: 64, n: 64 order n, m`; lines stand in the order of the loops",
    "cache_read": "`move A -> shared` copies a tile of an input to a nearer memory",
    "cache_write": "`keep C in register` accumulates in registers, and writes back when the tile is done",
    "set_scope": "`keep T in register` sets the memory of a tensor",
    "store_in": "`keep T in register` sets the memory of a tensor",
    "compute_at": "an intermediate is computed where its `keep` stands: `keep T in register` below its tiles",
    "store_at": "an intermediate is computed where its `keep` stands: `keep T in register` below its tiles",
    "compute_root": "an intermediate without a line is computed before its readers",
    "compute_inline": "`inline T` computes it in its readers",
    "reverse_compute_at": "pointwise readers of a reduction are computed at its write-back, without a line",
    "rfactor": "a reduction is split by distributing its index over units: `tile k: 64 -> thread`",
    "tensorize": "`compute with mma` names an instruction, or a family of them",
    "prefetch": "`pipeline 3` behind a tile or a `move` copies ahead",
    "double_buffer": "`pipeline 2` behind a tile or a `move` copies ahead",
    "software_pipeline": "`pipeline 3` behind a tile or a `move` copies ahead",
    "async": "`pipeline 3` behind a tile or a `move` copies ahead",
    "storage_align": "`pad 4` behind a `move` makes rows longer",
    "gpu_blocks": "tiles are distributed over blocks: `tile m: 64, n: 64 -> block`",
    "gpu_threads": "tiles are distributed over threads: `tile m: 4, n: 4 -> thread`",
    "gpu_tile": "tiles are distributed over blocks, then over threads: `tile m: 64 -> block`, below it `tile m: 1 -> thread`",
    "syncthreads": "the compiler places barriers",
    "barrier": "the compiler places barriers",
    "for": "a loop is a tile: `tile m: 4` runs over tiles of 4",
}

# The first word of a statement of an op -> what to write.
OPS = {
    "for": "ops have no loops: an index stands for all of its values, as in `Y[i, j] = ...`, and `sum(k)` adds up",
    "while": "ops have no loops: an index stands for all of its values, as in `Y[i, j] = ...`, and `sum(k)` adds up",
    "if": "a choice between values is written `where(condition, a, b)`",
    "return": "an output is defined by a statement: `Y[i, j] = value`",
    "let": "a name is defined by a statement: `T[i, j] = value`",
    "var": "a name is defined by a statement: `T[i, j] = value`",
}
