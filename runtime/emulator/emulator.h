// The emulator's own view of threads and blocks, the hooks that observe a run, and the list of faults.
//
// A thread of a kernel is a fiber with a stack of EM_STACK bytes at a multiple of EM_STACK, whose lowest bytes point to its
// EmThread: `em_current` needs only the stack pointer. A thread that never waits may have the stack of one that has ended. A
// block runs on one OS thread from its first statement to its last.
#pragma once
#include <stddef.h>
#include "api.h"

#define EM_STACK (128 << 10)
#define EM_SEEN __attribute__((visibility("default")))  // by who loads the kernel's library

struct EmBlock;

enum EmState { EM_NEW, EM_READY, EM_AT_BARRIER, EM_AT_MEETING, EM_ENDED };

struct EmThread {
    EmBlock* block;
    int linear;      // in the block
    int lane;        // in its unit of lockstep
    uint32_t epoch;  // barriers of the block passed so far
    int state;       // EmState
    const void* site;   // where it waits: a return address into the kernel
    void* observer[4];  // for the observer; null when the block begins
};

struct EmBlock {
    const EmLaunch* launch;
    int64_t number;
    unsigned char* arena;  // launch->shared_bytes bytes
    EmThread* const* threads;  // launch->threads of them, by number
    int worker;            // number of the OS thread that runs it, from 0
    uint32_t epoch;        // barriers so far
    void* observer[4];  // null when the block begins
};

// The current thread; only in code that a kernel calls.
static inline EmThread* em_current() {
    return *(EmThread**)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(EM_STACK - 1));
}

// What was found. `kind` is a word as in docs; `site` an address of the kernel's code (0: none), `other_site` that of the earlier access.
struct EmFault {
    const char* kind;  // "out-of-bounds", "uninitialised", "race", "in-flight", "misaligned", "deadlock", "divergent-call", ...
    char message[240];
    const char* buffer;  // name, or nullptr
    int64_t offset;      // bytes from the buffer's start
    int64_t block, other_block;
    int32_t thread, other_thread;  // -1: none
    const void* site;
    const void* other_site;
    uint64_t count;  // how often: of one kind, buffer and site the first is kept, and counts are added (0 is 1)
    int32_t bytes;   // of the access, 0: none
    int32_t access, other_access;  // EmAccess, of what was found and of what it conflicts with; 0: none
};
enum EmAccess { EM_LOAD = 1, EM_STORE = 2, EM_ATOMIC = 4, EM_UNDER_WAY = 8 };  // the last: an asynchronous copy not awaited yet

extern "C" {
void em_fault(const EmFault* fault);  // any OS thread may call it
EM_SEEN int em_fault_count();
EM_SEEN const EmFault* em_fault_at(int i);
EM_SEEN void em_fault_clear();
void em_stop();  // of the current thread: it goes no further, and the call ends with what was found (its next access would crash)

// Hooks. The runtime has empty ones, which those of observe.cpp replace. Calls for one block come from one OS thread.
void ob_call_begin(const EmCall* call);
void ob_call_end(const EmCall* call);
void ob_launch_begin(const EmLaunch* launch);
void ob_launch_end(const EmLaunch* launch);
void ob_block_begin(EmBlock* block);  // shared memory is poisoned, no thread has run
void ob_block_end(EmBlock* block);
void ob_barrier(EmBlock* block);                                   // all of its threads have met: epochs are one higher now
void ob_warp_sync(EmBlock* block, int first_thread, uint64_t lanes);  // those threads have met
void ob_access(const void* p, size_t bytes, int is_write, int is_atomic, const void* site);  // of em_current()
void ob_misaligned(const void* p, size_t bytes, int align, int is_write, const void* site);  // it would be, of em_current()
void ob_async_copy(const void* dst, const void* src, size_t bytes, uint64_t token, const void* site);  // issued by em_current()
void ob_async_done(uint64_t token);  // awaited by em_current(): its bytes are there now
void ob_instr(const char* name);
}
