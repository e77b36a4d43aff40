// A driver without a GPU: it loads "code" that is the path of a shared library for the CPU, and launches by calling it.
// What it was asked to do is kept as text. Built for tests of the path from a call in Python to a launch.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <map>
#include <string>

static std::map<void*, std::string> names;  // of functions
static std::string said;
static int status_of_next_launch = 0;
static int depth = 0;  // contexts on the stack of the thread

template <class... Args>
static void say(const char* format, Args... args) {
    char line[256];
    snprintf(line, sizeof line, format, args...);
    said += line;
    said += "\n";
}

extern "C" {
const char* fake_log() { return said.c_str(); }
void fake_clear() { said.clear(); }
void fake_fail(int status) { status_of_next_launch = status; }

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) { *value = attribute == 75 ? 8 : 0; return 0; }
int cuDeviceGetName(char* name, int size, int) { snprintf(name, size, "Fake GPU"); return 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { *context = (void*)16; return 0; }
int cuCtxPushCurrent_v2(void*) { depth++; say("push"); return 0; }
int cuCtxPopCurrent_v2(void**) { depth--; say("pop"); return 0; }
int cuGetErrorString(int, const char** text) { *text = "as the test asked"; return 0; }
int cuModuleLoadData(void** module, const void* image) {
    *module = dlopen((const char*)image, RTLD_NOW);
    say("load in context %d", depth);
    return *module ? 0 : 209;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    *function = dlsym(module, (std::string("call_") + name).c_str());
    names[*function] = name;
    return *function ? 0 : 500;
}
int cuFuncSetAttribute(void*, int attribute, int value) { say("attribute %d = %d", attribute, value); return 0; }
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
    const char* name = names[function].c_str();
    say("launch %s grid %u %u %u block %u %u %u shared %u stream %lld", name, gx, gy, gz, bx, by, bz, shared, (long long)stream);
    if (status_of_next_launch) {
        const int status = status_of_next_launch;
        status_of_next_launch = 0;
        return status;
    }
    if (extra) return 1;
    const char* fault = ((const char* (*)(void**, int64_t))function)(parameters, gx);
    if (fault) say("fault %s", fault);
    return fault ? 700 : 0;
}
}
