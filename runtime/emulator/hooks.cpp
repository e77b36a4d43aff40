// Hooks that do nothing, for a runtime without an observer.
#include "emulator.h"

#define EM_WEAK __attribute__((weak))
extern "C" {
EM_WEAK void ob_call_begin(const EmCall*) {}
EM_WEAK void ob_call_end(const EmCall*) {}
EM_WEAK void ob_launch_begin(const EmLaunch*) {}
EM_WEAK void ob_launch_end(const EmLaunch*) {}
EM_WEAK void ob_block_begin(EmBlock*) {}
EM_WEAK void ob_block_end(EmBlock*) {}
EM_WEAK void ob_barrier(EmBlock*) {}
EM_WEAK void ob_warp_sync(EmBlock*, int, uint64_t) {}
EM_WEAK void ob_access(const void*, size_t, int, int, const void*) {}
EM_WEAK void ob_misaligned(const void*, size_t, int, int, const void*) {}
EM_WEAK void ob_async_copy(const void*, const void*, size_t, uint64_t, const void*) {}
EM_WEAK void ob_async_done(uint64_t) {}
EM_WEAK void ob_instr(const char*) {}
}
