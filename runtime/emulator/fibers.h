// Fibers: stacks, and going from one to another without the operating system.
#pragma once
#include "emulator.h"

// Saves where we are in *from, and goes on where `to` was saved. About a dozen instructions on x86-64 and aarch64.
extern "C" void em_switch(void** from, void* to);

// Stacks of the blocks of one worker, in one piece of memory whose pages appear when they are used.
struct Stacks {
    char* memory = nullptr;
    char* first = nullptr;  // a multiple of EM_STACK
    size_t bytes = 0;
    int count = 0;

    bool reserve(int count);
    void release();
    // A context that begins in `entry` on stack i, as the thread `owner`.
    void* begin(int i, EmThread* owner, void (*entry)());
    void own(int i, EmThread* owner) { *(EmThread**)(first + (size_t)i * EM_STACK) = owner; }
};
