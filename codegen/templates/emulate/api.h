// What an emulated text and the emulator's runtime know of each other. The text holds this file whole; the runtime includes it.
#ifndef ANDIRON_EMULATE_API
#define ANDIRON_EMULATE_API
#include <stdint.h>
#if defined(__has_feature)
#define EM_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define EM_NO_TSAN __attribute__((no_sanitize_thread))
#endif
#define EM_PLAIN __attribute__((noinline)) EM_NO_TSAN  // a function whose accesses are not observed as the kernel's own

enum EmMode { EM_READ = 1, EM_WRITE = 2 };

// A buffer of the call: an argument or a workspace. `bytes` are those it has at this call; `poison` fills what is not initialised.
struct EmGlobal {
    const char* name;
    void* base;
    int64_t bytes;
    int32_t element;  // bytes of one
    int32_t mode;     // EM_READ | EM_WRITE, of the op (an input is read only)
    int32_t initialised;
    int32_t poison;
};

// A buffer in the shared memory of a block. Buffers that are never alive at once may lie on the same bytes.
struct EmShared {
    const char* name;
    int64_t offset, bytes;
    int32_t element;
    int32_t poison;
};

// Each call has one of these, its launches follow one another.
struct EmCall {
    const char* name;
    const EmGlobal* globals;
    int32_t global_count;
};

struct EmLaunch {
    const EmCall* call;
    const char* name;                   // of the kernel
    int64_t blocks;                     // blockIdx.x is 0 ... blocks - 1
    int32_t threads;                    // of a block; threadIdx.x is 0 ... threads - 1
    int32_t lanes;                      // of a unit in lockstep: threads lanes*i ... lanes*i + lanes - 1
    int64_t shared_bytes;
    const EmShared* shared;
    int32_t shared_count;
    int32_t workers;                    // OS threads at most
    void (*body)(const void* arguments);  // calls the kernel, for the current thread
    const void* arguments;
};

// An instruction that several threads execute together, or whose effect comes later. `run` reads what each thread deposited
// (deposits[i] is of the i-th thread of the unit), and writes results there, or to memory.
struct EmInstr {
    const char* name;
    int32_t units;  // threads that execute it together: consecutive ones, from a multiple of this number on
    void (*run)(void* const* deposits);
};

extern "C" {
int em_call_begin(const EmCall* call);     // poisons what is not initialised; 0, or 1 when there is no memory
int em_launch(const EmLaunch* launch);     // 0; 1: no memory; 3: faults were found (em_faults)
int em_call_end(const EmCall* call, int status);  // gives the status of the whole call
void* em_workspace(int64_t bytes);         // nullptr: no memory
void em_workspace_free(void* p);

unsigned em_block_index();   // of the current thread's block
unsigned em_thread_index();  // of the current thread in its block
void* em_arena();            // shared memory of the current block
void em_barrier(const void* site);                               // all threads of the block meet
void em_meet(uint64_t lanes, const void* site);                  // those of the current warp whose bit is set meet
uint64_t em_exchange(uint64_t bits, uint64_t lanes, int other, const void* site);  // what lane `other` of the warp gave
void em_together(const EmInstr* instr, void* deposit, const void* site);           // runs when all have come
void em_asynchronous(const EmInstr* instr, const void* deposit, int32_t bytes, int kind, const void* site);  // runs when awaited
void em_commit(int kind);             // what is not yet in a group of this kind becomes one
void em_wait(int kind, int pending);  // all but the last `pending` groups are complete
void em_touch(const void* p, int64_t bytes, int is_write, int is_atomic, const void* site);  // an access of the current thread
void em_count(const char* instr);     // one execution, for the report
}
#endif
