#include "fibers.h"

#include <sys/mman.h>

#if defined(__APPLE__)
#define EM_LABEL(name) "_" #name
#else
#define EM_LABEL(name) #name
#endif

#if defined(__x86_64__) && !defined(EM_UCONTEXT)
__asm__(
    ".text\n"
    ".globl " EM_LABEL(em_switch) "\n"
    EM_LABEL(em_switch) ":\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n");

// What em_switch pops: six registers, then the address it returns to; the stack is then as after a call.
static void* prepare(char* top, void (*entry)()) {
    void** p = (void**)top;
    *--p = nullptr;
    *--p = (void*)entry;
    for (int i = 0; i < 6; i++) *--p = nullptr;
    return p;
}
#elif defined(__aarch64__) && !defined(EM_UCONTEXT)
__asm__(
    ".text\n"
    ".globl " EM_LABEL(em_switch) "\n"
    EM_LABEL(em_switch) ":\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n"
    "    stp x21, x22, [sp, #16]\n"
    "    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n"
    "    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n"
    "    str x9, [x0]\n"
    "    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n"
    "    ldp x21, x22, [sp, #16]\n"
    "    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n"
    "    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    ret\n");

static void* prepare(char* top, void (*entry)()) {
    void** p = (void**)(top - 160);
    for (int i = 0; i < 20; i++) p[i] = nullptr;
    p[11] = (void*)entry;  // x30
    return p;
}
#else
// Anywhere else. A context lies where its stack begins; *from and `to` point to it.
#define EM_UCONTEXT_USED
#include <ucontext.h>

extern "C" void em_switch(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t*)to);
}

static void* prepare(char* top, void (*entry)()) {
    ucontext_t* c = (ucontext_t*)(((uintptr_t)top - sizeof(ucontext_t)) & ~(uintptr_t)63);
    char* low = (char*)((uintptr_t)c & ~(uintptr_t)(EM_STACK - 1)) + 64;
    getcontext(c);
    c->uc_stack.ss_sp = low;
    c->uc_stack.ss_size = (size_t)((char*)c - low);
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
    return c;
}
#endif

bool Stacks::reserve(int wanted) {
    if (count >= wanted) return true;
    release();
    bytes = (size_t)(wanted + 1) * EM_STACK;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    memory = (char*)p;
    first = (char*)(((uintptr_t)p + EM_STACK - 1) & ~(uintptr_t)(EM_STACK - 1));
    count = wanted;
    return true;
}

void Stacks::release() {
    if (memory) munmap(memory, bytes);
    memory = nullptr;
    count = 0;
}

void* Stacks::begin(int i, EmThread* owner, void (*entry)()) {
    own(i, owner);
    // Stacks that begin at the same place of a page fall into the same few sets of the cache.
    const int stagger = i * 1088 % (16 << 10) & ~63;
    return prepare(first + (size_t)(i + 1) * EM_STACK - 64 - stagger, entry);
}
