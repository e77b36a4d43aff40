// The observer: what a run is told of (hooks of emulator.h, and of the compiler, `-fsanitize=thread`), and what can be asked of it.
#pragma once
#include "emulator.h"

// Facts of the device that counts and limits depend on, from its text. A number that is 0 is not known, and of no effect.
struct ObMachine {
    int32_t counting;  // whether accesses are counted; faults are always looked for
    int32_t sector;    // bytes of a transaction of global memory
    int32_t banks, bank_bytes;
    int32_t threads;      // that a block may have
    int64_t shared_bytes;  // that a block may have
};

// What happened at one place of a kernel's code, in one direction.
struct ObSite {
    const char* kernel;
    const char* buffer;  // the first one met there
    const void* site;
    int32_t shared;  // 1: shared memory; 0: global
    int32_t access;  // EM_LOAD, EM_STORE or EM_ATOMIC
    int64_t accesses, bytes;  // of single threads
    int64_t requests;         // of whole units in lockstep
    int64_t transactions, least_transactions;  // global: sectors. shared: rounds in which no bank serves two words
};

struct ObLaunch {
    const char* kernel;
    int64_t blocks, threads, barriers;
};

struct ObInstr {
    const char* kernel;
    const char* name;
    int64_t count;  // executions of single threads
};

// The first time that a place of the code reached a buffer in shared memory. `group`: buffers that lie on the same bytes have one.
struct ObReach {
    const char* kernel;
    const char* buffer;
    const void* site;
    int64_t offset, block;
    int32_t thread, access, bytes, group;
};

extern "C" {
EM_SEEN void ob_machine(const ObMachine* machine);  // for the calls that follow
EM_SEEN const void* ob_text();                      // where the code of the last launch begins: sites are offsets from here
EM_SEEN void ob_clear();                            // forgets what was counted and reached
EM_SEEN int ob_site_count();
EM_SEEN const ObSite* ob_site_at(int i);
EM_SEEN int ob_launch_count();
EM_SEEN const ObLaunch* ob_launch_at(int i);
EM_SEEN int ob_instr_count();
EM_SEEN const ObInstr* ob_instr_at(int i);
EM_SEEN int ob_reach_count();
EM_SEEN const ObReach* ob_reach_at(int i);
EM_SEEN int ob_several();  // places that read or wrote several groups: one of them is perhaps not the buffer that the text means
}
