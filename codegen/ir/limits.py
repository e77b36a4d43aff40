"""Constants that several files share. Constants of one file are defined in it; docs/constants.md lists all of them."""

# bytes: the widest access of one unit, where buffers within a block's memory begin [fact: instruction sets;
# test_first_candidates]
WIDEST_ACCESS = 16
# iterations: the most of a loop over registers that is unrolled so that registers have names [estimate;
# test_a_short_loop_over_registers_is_unrolled]
UNROLLED = 16
# registers: that the unrolled iterations of a GPU loop load, at most; beyond it compilers spill [measured: gpu-cost;
# test_first_candidates]
LOADED = 64
INT_END = 1 << 31  # number: the first that an int of 32 bits does not hold [fact: i32]
CACHE_LINE = 64  # bytes: a cache line, where the device has no figure [fact: x86; test_first_candidates]
PAGE = 4096  # bytes: a page of virtual memory [fact: x86; test_first_candidates]
# characters: of a printed line that joins several declarations [estimate; test_what_is_zero_is_so_in_one_line]
TEXT_WIDTH = 110
MOST_GROUPS = 8  # warps: of a block of a candidate, unless the author asks for more [tried; test_sizes_tried]
