// The compiler's hooks: what `-fsanitize=thread` calls before each plain access of memory, with the return address as its place.
// (Names and arguments: LLVM, ThreadSanitizer's interface, tsan_interface.h and tsan_interface_atomic.h. None of its code is used.)
#pragma once
#include "access.h"

#define HERE __builtin_return_address(0)

// What compilers seldom call takes one function, so that this file compiles quickly.
static __attribute__((noinline)) void seldom(const void* p, int64_t bytes, int align, int kind, const void* site) {
    access(p, bytes, align, kind, 0, site);
}

#define PLAIN(bytes)                                                                                           \
    extern "C" void __tsan_read##bytes(void* p) { access(p, bytes, bytes, EM_LOAD, 0, HERE); }                  \
    extern "C" void __tsan_write##bytes(void* p) { access(p, bytes, bytes, EM_STORE, 0, HERE); }                \
    extern "C" void __tsan_read##bytes##_pc(void* p, void* pc) { seldom(p, bytes, bytes, EM_LOAD, pc); }        \
    extern "C" void __tsan_write##bytes##_pc(void* p, void* pc) { seldom(p, bytes, bytes, EM_STORE, pc); }      \
    extern "C" void __tsan_unaligned_read##bytes(void* p) { seldom(p, bytes, 1, EM_LOAD, HERE); }               \
    extern "C" void __tsan_unaligned_write##bytes(void* p) { seldom(p, bytes, 1, EM_STORE, HERE); }             \
    extern "C" void __tsan_volatile_read##bytes(void* p) { seldom(p, bytes, bytes, EM_LOAD, HERE); }            \
    extern "C" void __tsan_volatile_write##bytes(void* p) { seldom(p, bytes, bytes, EM_STORE, HERE); }          \
    extern "C" void __tsan_read_write##bytes(void* p) {                                                         \
        seldom(p, bytes, bytes, EM_LOAD, HERE);                                                                 \
        seldom(p, bytes, bytes, EM_STORE, HERE);                                                                \
    }                                                                                                           \
    extern "C" void __tsan_unaligned_read_write##bytes(void* p) {                                               \
        seldom(p, bytes, 1, EM_LOAD, HERE);                                                                     \
        seldom(p, bytes, 1, EM_STORE, HERE);                                                                    \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
#undef PLAIN

static bool plain_accesses;  // whether those of the kernel are told at all: it is compiled for it

extern "C" {
void __tsan_init() { plain_accesses = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, unsigned long bytes) { seldom(p, (int64_t)bytes, 1, EM_LOAD, HERE); }
void __tsan_write_range(void* p, unsigned long bytes) { seldom(p, (int64_t)bytes, 1, EM_STORE, HERE); }
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    seldom(from, (int64_t)bytes, 1, EM_LOAD, HERE);
    seldom(to, (int64_t)bytes, 1, EM_STORE, HERE);
    return memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
    seldom(from, (int64_t)bytes, 1, EM_LOAD, HERE);
    seldom(to, (int64_t)bytes, 1, EM_STORE, HERE);
    return memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
    seldom(to, (int64_t)bytes, 1, EM_STORE, HERE);
    return memset(to, value, bytes);
}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}

#define ATOMIC_UPDATE(bits, T, name, builtin)                                       \
    extern "C" T __tsan_atomic##bits##_##name(volatile T* p, T x, int) {            \
        seldom((void*)p, bits / 8, bits / 8, EM_ATOMIC, HERE);                      \
        return builtin(p, x, __ATOMIC_SEQ_CST);                                     \
    }
#define ATOMIC_SWAP(bits, T, name)                                                                       \
    extern "C" int __tsan_atomic##bits##_compare_exchange_##name(volatile T* p, T* old, T x, int, int) { \
        seldom((void*)p, bits / 8, bits / 8, EM_ATOMIC, HERE);                                           \
        return __atomic_compare_exchange_n(p, old, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
    }
#define ATOMIC(bits, T)                                                                    \
    extern "C" T __tsan_atomic##bits##_load(const volatile T* p, int) {                    \
        seldom((void*)p, bits / 8, bits / 8, EM_ATOMIC, HERE);                             \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                       \
    }                                                                                      \
    extern "C" void __tsan_atomic##bits##_store(volatile T* p, T x, int) {                 \
        seldom((void*)p, bits / 8, bits / 8, EM_ATOMIC, HERE);                             \
        __atomic_store_n(p, x, __ATOMIC_SEQ_CST);                                          \
    }                                                                                      \
    extern "C" T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T x, int, int) { \
        seldom((void*)p, bits / 8, bits / 8, EM_ATOMIC, HERE);                             \
        __atomic_compare_exchange_n(p, &old, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return old;                                                                        \
    }                                                                                      \
    ATOMIC_SWAP(bits, T, strong)                                                           \
    ATOMIC_SWAP(bits, T, weak)                                                             \
    ATOMIC_UPDATE(bits, T, exchange, __atomic_exchange_n)                                  \
    ATOMIC_UPDATE(bits, T, fetch_add, __atomic_fetch_add)                                  \
    ATOMIC_UPDATE(bits, T, fetch_sub, __atomic_fetch_sub)                                  \
    ATOMIC_UPDATE(bits, T, fetch_and, __atomic_fetch_and)                                  \
    ATOMIC_UPDATE(bits, T, fetch_or, __atomic_fetch_or)                                    \
    ATOMIC_UPDATE(bits, T, fetch_xor, __atomic_fetch_xor)                                  \
    ATOMIC_UPDATE(bits, T, fetch_nand, __atomic_fetch_nand)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
#undef ATOMIC
#undef ATOMIC_SWAP
#undef ATOMIC_UPDATE
#undef HERE
