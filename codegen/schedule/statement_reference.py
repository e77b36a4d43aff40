"""The form, the meaning and an example of each statement of a schedule. This is the one place that documents them.

`docs/generate.py` makes the reference page from it. The spec before and after a line is read from the trace of the example's
compilation, so it cannot be wrong. Editors and the interactive shell may use it too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One statement or modifier.

    form     how it is written: capitals stand for what the author chooses, brackets for what may be left out
    text     what it means, in Markdown
    op       the op of the example, from the standard library
    lines    the example's lines; the line that the page is about starts with `shows`
    shows    the start of that line
    device   what the example is compiled for: a CPU of the library, or `simt`, the small machine of tests and docs
    """

    name: str
    form: str
    text: str
    op: str
    lines: str
    shows: str
    device: str = "cpu:avx2"


STATEMENTS = (
    Statement(
        "tile",
        "tile INDEX: SIZE, ... [-> LEVEL] [MODIFIERS]",
        """
Cuts the spec into independent specs of this size. The focus is now one of them. Without a level they are computed one after
another, in loops. With one, each goes to a unit of that level, and the focus moves to that level. Levels are entered
outermost first; some may be skipped.

A tile applies to every statement in focus that has the index. Nothing need divide: the last tile may be partial, and its
guards are derived. Two tiles onto the same level, one after the other, multiply.
""",
        "gemm",
        "tile m: 64, n: 32 -> core\nkeep C in register\ntile k: 1\ncompute",
        "tile m: 64",
    ),
    Statement(
        "tile (reduction)",
        "tile K: SIZE",
        """
On a reduced index a tile is the accumulation loop. It may stand above the line that holds the accumulator: then the first
iteration initialises, later ones reload, and the last one computes the fused epilogue and rounds.
""",
        "gemm",
        "tile m: 64, n: 32 -> core\ntile k: 16\nkeep C in register\ncompute",
        "tile k: 16",
    ),
    Statement(
        "tile (reduction) -> level",
        "tile K: SIZE -> LEVEL [by shuffle | workspace | atomic]",
        """
A reduced index that is distributed over units is a split reduction: each unit has a part, and the parts are combined. Units in
lockstep exchange registers (`by shuffle`). Units with a barrier pass the parts through a memory that they share. Units without
a barrier store them in a workspace, which a second launch combines (`by workspace`), or update the result atomically (`by
atomic`: sums, maxima and minima of 32 and 64 bits; an earlier launch sets the neutral value).
""",
        "row_sum",
        "tile i: 1 -> core\nkeep Y in register\ntile j: 16\ntile j: 1 -> lane\ncompute",
        "tile j: 1 -> lane",
    ),
    Statement(
        "online",
        "tile INDEX: SIZE [-> LEVEL] online",
        """
Reductions over INDEX share one pass, also where one reads the result of another. A statistic (`top`, the maximum) has a running
value. A sum that depends on it (`total`) reads the value after the elements of the tile. Before that, its partial result is
multiplied by a correction, which is derived: `exp(top~ - top)`, where `top~` is the value before. Where a new value of the
statistic does not scale all that is added alike, the line is refused.

The accumulators are open around the loop, so the lines that keep them are above. What depends on a running value is kept below.
Rows of which no element counts (their maximum is -inf) have the op's result. A tile has 8 elements or more ([why](numbers.md)).

Units that get parts of the index, by this line or one below, have running values of their own. They combine them where the
accumulators close. Of several tiles of the index, one below the other, those above an `online` one have the word too.

Units without a barrier store their parts of all reductions, by a line above those that keep the results: `tile j: 4096 -> block
online by workspace`. A launch that follows combines them: statistics first, then sums, whose parts are multiplied by the same
correction. A loop below, `tile j: 64 online`, goes over a part. What reads the results of a row is computed in that launch.

Statistics are maxima and minima of floats. What depends on one cannot be a statistic itself yet.
""",
        "log_softmax",
        "tile i: 4 -> core\nkeep top, total in register\ntile j: 64 online\ntile i: 1\ncompute",
        "tile j: 64 online",
    ),
    Statement(
        "carry",
        "tile INDEX: SIZE carry",
        """
Prefix reductions go on from one tile of INDEX to the next. The domain of `sum(t where t <= j) X[i, t]` grows with `j`: each row
has the terms of the row before, and one more. So a tile takes the total of those before it, adds its own terms, those within
it only where `t <= j`, and hands on the total of all. The work is that of a tile's size for each row, not of all rows before.

The loop is one unit's, from the first row to the last: no line above tiles INDEX or the reduced index. Below, that is what the
tile adds. Results are kept below. Units that have rows of a tile each have the total. Statements that read a result of the same
row share the loop if it is kept.

Domains are `t <= j + c` with a number c, or `t < j + c`, perhaps with conditions that have no `j`. Terms may depend on `j`
where one row's are a multiple of another's: `exp(g[j] - g[t]) * X[i, t]`, `pow(c, j - t)`, `a[j] / a[t]`, a factor `Q[j]`.
`explain` prints the multiple ([decaying prefixes](decisions/decaying-prefixes.md)). Else the line is refused.
""",
        "row_running_sum",
        "tile i: 8 -> core\ntile j: 4 carry\ntile i: 1 -> lane\ncompute",
        "tile j: 4 carry",
    ),
    Statement(
        "every",
        "tile INDEX: SIZE every STRIDE -> LEVEL",
        """
A strided tile: a unit has chunks of SIZE, one in each STRIDE elements, instead of one run. Adjacent units then have adjacent
chunks, as coalesced and conflict-free accesses need.
""",
        "gemm",
        "tile m: 64, n: 64 -> block\nkeep C in register\ntile k: 8\nmove A -> shared\nmove B -> shared\n"
        "tile m: 4 every 32, n: 4 every 16 -> thread\ntile k: 1\ncompute",
        "tile m: 4 every 32",
        "simt",
    ),
    Statement(
        "keep",
        "keep TENSOR, ... [in MEMORY] [MODIFIERS] [: block]",
        """
Says where a result or an intermediate lives while the focus lasts.

For the result of a reduction it names the accumulator: initialised here, accumulated below, written back when the focus
closes. Pointwise statements that follow the reduction are computed at the write-back (`H` and `Y` below are computed
together). The tiles below determine how a tensor in registers is spread over units. The block, if there is one, schedules the
write-back. `with` names an instruction that stores registers. It is used for whole vectors, where addresses are aligned for it
and the tensor is large enough for it to pay (`least`, see [devices](device.md)). Other elements are stored as usual.
`by shuffle` states that units below combine their parts of the reduction: in a subgroup by exchanging registers, then through
a memory that they share. If the block moves the tensor to another memory first, results go there, not sums: they may be
narrower. (Then the epilogue is computed before the move, but tensors as large as the result are read after it.) If no line of
the block has a level, and none is `compute`, the stores from there are distributed over the units, as those of a copy.

A second `keep` of the same accumulator, below and in a memory nearer to the units, keeps a tile of it: `keep C in l1`, tiles,
then `keep C in register`. The tile is loaded from there, accumulates, and is stored there again.

A reduction without a name in the text is named after its statement: `Y.sum1` is the first sum in the statement of `Y`.
""",
        "linear_relu",
        "tile m: 4 -> core\ntile n: 8\nkeep H in register\ntile k: 1\ncompute",
        "keep H",
    ),
    Statement(
        "keep (intermediate)",
        "keep TENSOR in MEMORY [: block]",
        """
An intermediate that other statements read is computed here, once, and read from the named memory. All statements then share one
launch. Without the line, a reduction that others read gets a launch of its own, and a pointwise intermediate is recomputed for
each reader. In the outermost memory, with a block, it has an earlier launch. `keep a, b in dram:` is for both: one launch, also
if `b[i]` reads `a[i]`. The block schedules it. Elsewhere each of several names has a block like this. Names have no order.

The lines below schedule it too, or a block schedules its statement at this place. It computes the elements that the lines below
read, with zeros past the edges, like a copy. So an operand that depends on several tensors (weights of four bits, their scales)
is computed in shared memory for an instruction that reads it there. It is recomputed for each focus of the line. Where lines
below read it beyond a tile above, as a stencil does, the block computes the rim as well, and so do the tiles beside.

From registers a unit reads the elements that it computed. Readers of other elements (a transpose, a neighbour, an `else`) need
a memory that units share. With a block, registers have a product as its instruction lays it out. What is computed of it below
lies in the same way, and an instruction takes its operand from there. Tensors that a write-back reads must be kept at or above
the line of its accumulator.
""",
        "softmax",
        "tile i: 1 -> core\nkeep top in register\nkeep total in register\ncompute",
        "keep top",
    ),
    Statement(
        "move",
        "move TENSOR -> MEMORY [MODIFIERS] [: block]",
        """
The elements of a tensor that the focus reads are copied to the memory, once. From here on the name means the copy. The tiles
below determine its extent: it includes a stencil's halo, and elements that an instruction reads past a partial tile. Elements
outside of the tensor are filled so that they change nothing.

If all factors of a sum are staged in a memory that units share, its loop over a tile has the same iterations in the last tile
as in the others: missing elements are zero. So compilers know the number of iterations. Tiles of up to 128 are filled for that.

The block schedules the copy: it is a spec of its own, `A~ = A`, with the same statements. A `move` in it adds a staging step.
A `keep A in register` makes the copy in registers first, as an instruction that transposes squares needs. A pointwise
intermediate, or a computed factor (`C.right`), is not copied but computed there, element by element. `with` and `pipeline` do
not apply to it. A reduction that the block keeps is computed there, too, and is zero past its edges as copies are, where a
`keep` of it ends at the edge. Read beyond a tile, it has a rim, with the `else` values of its readers outside of the tensor.
Without a block the copy is completed. The barriers around a copy that several units make or read are derived.

Caches of a CPU are not addressable: `move B -> l3` makes a buffer in `dram` whose size is checked against `l3`.
""",
        "gemm",
        "tile n: 64\ntile k: 128\nmove B -> l3\ntile m: 4 -> core\ntile n: 8\nkeep C in register\ntile k: 1\ncompute",
        "move B",
    ),
    Statement(
        "layout",
        "move TENSOR -> MEMORY layout (AXIS, ...)\nmove TENSOR -> MEMORY layout panels(AXIS: WIDTH)",
        """
The order of the copy's elements in its memory, outermost first. `panels(n: 16)` are strips of 16 columns, each contiguous in
memory. It is short for `layout (n/16, k, n % 16)`.
""",
        "gemm_nt",
        "tile n: 512\ntile k: 128\nmove B -> l3 layout panels(n: 16)\ntile m: 6 -> core\ntile n: 16\nkeep C in register\n"
        "tile k: 1\ncompute with fma",
        "move B",
    ),
    Statement(
        "pad, swizzle",
        "move TENSOR -> MEMORY pad ELEMENTS\nmove TENSOR -> MEMORY swizzle [(BITS[, ELEMENTS])]",
        """
`pad` makes rows of the copy longer, `swizzle` permutes them by an exclusive or. Both spread columns over banks, or cache sets.

`swizzle` alone permutes chunks of 16 bytes, as many as fill all banks once, or as a row has. `swizzle (3, 4)` states it: `2^3`
chunks of 4 elements change places, by the number of the row. The best chunk is the part that a lane reads at once. If fewer
chunks change places than fill the banks, so many adjacent rows as fill them are permuted alike: in a tile of so few rows none
moves, and a note says so.
""",
        "transpose",
        "tile i: 32, j: 32 -> block\nmove X -> shared pad 1\ntile j: 1, i: 1 -> thread\ncompute",
        "move X",
        "simt",
    ),
    Statement(
        "pipeline",
        "move TENSOR -> MEMORY pipeline BUFFERS\ntile INDEX: SIZE pipeline BUFFERS [through]",
        """
Copies run ahead of their use. On a `move`, BUFFERS buffers rotate over the innermost loop of tiles that changes the moved
elements, and all but one may be in flight. On a `tile`, the same holds for each move between this line's loops and the next
ones, unless the move says otherwise.

```text
for k: copy k to S; use S
-->
for s in 0 .. n-1: copy s to S[s], if there is an iteration s
for k: wait for copy k; begin copy k + n-1 to S[(k + n-1) % n], if there is such an iteration; use S[k % n]
```

An asynchronous copy, `with` an instruction that has an `await`, is in flight until the wait. Any other copy is split at the
last registers that it passes: loads, with which an iteration begins, stay there, and are stored after its computation. Waits
and barriers are derived. Any number of iterations is right. All buffers count against the memory's capacity.

A pipeline inside another loop ends with it and begins anew. `through`, for moves to registers, loads the first tiles of the
next iteration of that loop before the last tiles of this one are used.

Caches fill themselves: a pipelined move to one has one buffer, and a note says so. A note also names a copy that cannot run
ahead: the loop writes its source, or it stands in a branch.
""",
        "gemm",
        "tile m: 64, n: 64 -> block\nkeep C in register\ntile k: 8\nmove A -> shared pipeline 2\nmove B -> shared pipeline 2\n"
        "tile m: 32 -> warp\ntile m: 8, n: 8 -> thread\ntile k: 1\ncompute",
        "move A -> shared",
        "simt",
    ),
    Statement(
        "fuse",
        "fuse INDEX, INDEX, ... as NAME",
        """
One index for several, outermost first. All of them are free, or all reduced, and not tiled yet. The classic use is a
convolution as a matrix product.
""",
        "conv2d",
        "fuse n, p, q as m\nfuse c, r, s as k\ntile m: 16 -> core\ntile o: 4\nkeep Y in register\ntile k: 1\ncompute",
        "fuse n, p, q",
    ),
    Statement(
        "inline",
        "inline TENSOR, ...",
        """
A pointwise intermediate is recomputed where it is read, which is also the default. A reduction cannot be, nor what is read with
`else` past its edges. The compiler does not keep it then, and no other line may.
""",
        "softmax",
        "inline e\ntile i: 1 -> core\nkeep top in register\nkeep total in register\ncompute",
        "inline e",
    ),
    Statement(
        "compute",
        "compute [with INSTRUCTION] [order INDEX, ...] [unroll [COUNT]] [vector COUNT]",
        """
The leaf: the focus is computed, element by element. `compute with` names an instruction of the device, or a family of them,
whose op is the spec in focus. The focus may be larger than the instruction, which is then repeated, and partial tiles are
padded. A final `compute` may be left out. `order` lists indices of the loops that remain, outermost first, and `unroll` unrolls
the outermost of them.
""",
        "gemm",
        "tile m: 6 -> core\ntile n: 16\nkeep C in register\ntile k: 1\ncompute with fma_f32x8",
        "compute with",
    ),
    Statement(
        "order",
        "tile INDEX: SIZE, ... order INDEX, ...",
        "The order of the loops, or of the digits of the units' numbers, outermost first. Without it, the order written.",
        "gemm",
        "tile m: 48, n: 64 order n, m\nkeep C in register\ntile k: 1\ncompute",
        "tile m: 48",
    ),
    Statement(
        "unroll, peel, vector",
        "tile INDEX: SIZE unroll [COUNT]\ntile INDEX: SIZE peel\ntile INDEX: SIZE vector COUNT",
        """
`unroll` unrolls a loop, completely or COUNT iterations at a time. A completely unrolled loop within a tile has the same
iterations at an edge as elsewhere, and copies fill the missing elements. With COUNT, the last iterations may go past the end of
a staged tile. `peel` makes a loop of the whole tiles, without guards, and handles the partial one separately (within the
partial tile of a partial tile it keeps the guards). `vector` groups COUNT contiguous elements: on a CPU they go to the lanes.
On a GPU accesses are as wide as addresses allow without it, and a note says so.
""",
        "add_row",
        "tile i: 1 -> core\ntile j: 32 vector 8\ncompute",
        "tile j: 32",
    ),
    Statement(
        "arrange",
        "tile INDEX: SIZE, ... -> LEVEL arrange UNIT: INDEX = MAP, ...",
        """
A map from a unit's number to its tile, for cases where the default numbering (last index fastest) suits the memory system
badly. Every unit must get a tile of its own.
""",
        "gemm",
        "tile m: 32, n: 32 -> block\nkeep C in register\n"
        "tile m: 4, n: 8 -> thread arrange u: m = u % 8, n = u/8\ntile k: 1\ncompute",
        "tile m: 4, n: 8",
        "simt",
    ),
    Statement(
        "raster",
        "tile INDEX: SIZE, ... -> LEVEL raster ROWS",
        """
The order of tiles at a level whose units start one after another. By default the last of the line's indices runs fastest.
`raster` walks bands of ROWS tiles of the index before it, column by column. Units that run at one time then read fewer
rows and columns, so the cache that they share has more hits. The last band may have fewer rows. Results do not change.
""",
        "gemm",
        "tile m: 32, n: 32 -> block raster 4\nkeep C in register\ntile m: 4, n: 8 -> thread\ntile k: 1\ncompute",
        "tile m: 32",
        "simt",
    ),
    Statement(
        "within",
        "tile INDEX: SIZE, ... -> LEVEL within MEMORY",
        """
Where a device distributes units round robin to the slices of a memory (the caches of dies), each slice gets a run of tiles in
the order of `raster`, where neighbours were in different slices. The first line onto a level may have it.
""",
        "gemm",
        "tile m: 64, n: 64 -> block raster 4 within l2\nkeep C in register\ntile m: 4, n: 8 -> thread\ntile k: 1\ncompute",
        "tile m: 64",
        "gfx942",
    ),
    Statement(
        "param",
        "param NAME in VALUE, VALUE, ... [= DEFAULT]",
        """
A size that a caller chooses, by `compile(..., NAME=...)` or `--param NAME=...`. Without a default the first value is the
default. `andiron tune` measures the values.
""",
        "gemm",
        "param R in 2, 4, 6 = 4\ntile m: R -> core\ntile n: 16\nkeep C in register\ntile k: 1\ncompute",
        "tile m: ",
    ),
    Statement(
        "apply",
        "apply STRATEGY(ARGUMENT, ...)",
        """
A `strategy` is a part of a schedule with a name: `strategy NAME(PARAMETER, ... [= DEFAULT]):` and lines in which the parameters
stand for tensors, indices, levels, memories, instructions or sizes. `apply` inserts its lines here.
""",
        "gemm",
        "apply blocks(m, 4)\nkeep C in register\ntile k: 1\ncompute",
        "tile m: 4",
    ),
    Statement(
        "auto",
        "auto",
        """
The compiler chooses the remaining lines, and any size, memory or instruction written `auto`. `andiron complete` prints its
choices, as a schedule to edit and feed back. A schedule without an `auto` is completed only where a block or the final
`compute` is missing.
""",
        "gemm",
        "tile m: 48 -> core\nauto",
        "tile m: 48",
    ),
)

# Of the examples above: an op that the library does not have, and a strategy.
SAMPLES = """
op row_running_sum[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = sum(t where t <= j) X[i, t]
strategy blocks(i, rows):
    tile i: rows -> core
    tile n: 16
"""
