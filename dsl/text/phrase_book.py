"""What to write here for words of other languages: of Halide, of TVM, and of loops."""

from __future__ import annotations

# The first word of a line, or of a modifier -> what to write.
SCHEDULES = {
    "split": "a tile splits an index: `tile k: 32`",
    "parallel": "tiles run in parallel where they are dealt to units: `tile m: 64 -> core`",
    "parallelize": "tiles run in parallel where they are dealt to units: `tile m: 64 -> core`",
    "vectorize": "neighbours are dealt to the lanes of a vector: `tile n: 1 -> lane`; or `compute with fma`",
    "bind": "a tile is bound to units by its arrow: `tile m: 1 -> thread`",
    "reorder": "`order` behind a tile sets its loops: `tile m: 64, n: 64 order n, m`; lines stand in the order of the loops",
    "cache_read": "`move A -> shared` brings a tile of an input closer",
    "cache_write": "`keep C in register` accumulates there, and writes back when the tile is done",
    "set_scope": "`keep T in register` says where a tensor lives",
    "store_in": "`keep T in register` says where a tensor lives",
    "compute_at": "an intermediate is computed where its `keep` stands: `keep T in register` below the tiles that it is for",
    "store_at": "an intermediate is computed where its `keep` stands: `keep T in register` below the tiles that it is for",
    "compute_root": "an intermediate that no line speaks of is computed before those who read it",
    "compute_inline": "`inline T` computes it where it is read",
    "reverse_compute_at": "what follows a reduction rides along with its write-back by itself",
    "rfactor": "a reduction is split by dealing its index to units: `tile k: 64 -> thread`",
    "tensorize": "`compute with mma` names an instruction, or a family of them",
    "prefetch": "`pipeline 3` behind a tile or a `move` copies ahead",
    "double_buffer": "`pipeline 2` behind a tile or a `move` copies ahead",
    "software_pipeline": "`pipeline 3` behind a tile or a `move` copies ahead",
    "async": "`pipeline 3` behind a tile or a `move` copies ahead",
    "storage_align": "`pad 4` behind a `move` makes rows longer",
    "gpu_blocks": "tiles are dealt to blocks: `tile m: 64, n: 64 -> block`",
    "gpu_threads": "tiles are dealt to threads: `tile m: 4, n: 4 -> thread`",
    "gpu_tile": "tiles are dealt to blocks, then to threads: `tile m: 64 -> block`, below it `tile m: 1 -> thread`",
    "syncthreads": "barriers are placed by the compiler",
    "barrier": "barriers are placed by the compiler",
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
