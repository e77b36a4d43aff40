// What an emulated text and the emulator's runtime know of each other. The text holds this file whole; the runtime includes it.
#ifndef ANDIRON_EMULATE_API
#define ANDIRON_EMULATE_API
#include <stdint.h>
#if defined(__clang__)
#define EM_PLAIN __attribute__((noinline, no_sanitize("thread")))
#else
#define EM_PLAIN __attribute__((noinline, no_sanitize_thread))
#endif
// EM_PLAIN: a function whose accesses are not observed as the kernel's own.

enum EmMode { EM_READ = 1, EM_WRITE = 2 };
enum EmKind { EM_GROUP = 0, EM_COUNTER = 1, EM_KINDS = 2 };  // how asynchronous copies are awaited; those of EM_GROUP are committed

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

// A call has one or more launches, one after another.
struct EmCall {
    const char* name;
    const EmGlobal* globals;
    int32_t global_count;
};

struct EmLaunch {
    const EmCall* call;
    const char* name;  // of the kernel
    int64_t blocks;    // blockIdx.x is 0 ... blocks - 1
    int32_t threads;   // of a block; threadIdx.x is 0 ... threads - 1
    int32_t lanes;     // of a unit in lockstep: threads lanes*i ... lanes*i + lanes - 1
    int64_t shared_bytes;
    const EmShared* shared;
    int32_t shared_count;
    int32_t workers;                      // OS threads at most
    void (*body)(const void* arguments);  // calls the kernel, for the current thread
    const void* arguments;
};

// An instruction: consecutive threads, from a multiple of `units` on, execute it together. `run` reads what each of them
// deposited (deposits[i] is of the i-th) and writes results there, or to memory.
struct EmInstr {
    const char* name;
    int32_t units;
    void (*run)(void* const* deposits);
};

// Sites are addresses of code: where in the kernel something was asked for.
extern "C" {
int em_call_begin(const EmCall* call);            // poisons what is not initialised; calls take turns
int em_call_end(const EmCall* call, int status);  // the status of the whole call: `status`, or 3 when there were faults
int em_launch(const EmLaunch* launch);            // 0; 1: no memory; 3: it was stopped
void* em_workspace(int64_t bytes);                // nullptr: no memory
void em_workspace_free(void* p);

unsigned em_block_index();   // of the current thread's block
unsigned em_thread_index();  // of the current thread in its block
int em_lane();               // of the current thread in its unit of lockstep
unsigned char (*em_arena())[];  // shared memory of the current block
void em_barrier();              // all threads of the block meet
void em_meet(uint64_t lanes);   // those of the current unit of lockstep whose bit is set meet
uint64_t em_exchange(uint64_t bits, uint64_t lanes, int other, const void* site);  // they meet; what lane `other` gave
void em_together(const EmInstr* instr, void* deposit, const void* site);           // the last to come executes it for all
void em_alone(const EmInstr* instr, void* deposit);                                // of one thread
void em_asynchronous(const EmInstr* instr, const void* deposit, int bytes, int kind, const void* site);  // executed when awaited
void em_part(void* to, const void* from, int64_t bytes, const void* site);  // before em_asynchronous: what it will copy
void em_commit(int kind);             // what is in no group of this kind yet becomes one
void em_wait(int kind, int pending);  // all but the last `pending` groups are complete
void em_align(const void* p, int64_t bytes, int align, int is_write, const void* site);  // reports what is no multiple of it
void em_touch(const void* p, int64_t bytes, int align, int is_write, int is_atomic, const void* site);  // before an access
void em_disagree(const char* instr, const char* operand);  // threads differ about an element that several of them hold
}
#endif
