// A kernel's call from Python, without Python's own steps: the arrays are compared with a call that was checked before, and
// where all is the same the kernel runs. Where anything differs the answer is None, and `Kernel` does it at length.
//
// No header of Python or NumPy is needed: functions of the interpreter come as addresses, from `runtime/native/fast_call.py`, which also
// tries whether objects and arrays look in memory as they do here.
//
// OWNED      What a call reads belongs to what it is called through. The function's own object is a tuple that never changes, and
//            it owns all entries and all that they name; whoever calls owns the function, the inputs and `out` until it returns.
//            So nothing here is counted up for the length of a call, and nothing that a call needs can be replaced under it.
// ONE_THREAD Objects of Python are read with the interpreter's lock held, which is given up only while a kernel runs: it gets
//            addresses and numbers from this stack, and touches no object. `fast_call.py` refuses interpreters without the lock.
// FOR_GOOD   The function's definition and `world` are this library's own memory, and the library is never unloaded.

#include <cstddef>
#include <cstdint>

namespace {

enum { ARRAYS = 12, WORDS = 64, DIMS = 24, MOST_THREADS = 1 << 16 };
enum { C_CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };  // flags of NumPy's arrays

// NumPy's PyArrayObject_fields, after the head that every object has.
struct Array {
    char* data;
    int nd;
    std::intptr_t* shape;
    std::intptr_t* strides;
    void* base;
    void* dtype;
    int flags;
};

// One call that was checked, as `fast_call.py` writes it. Arrays: the inputs, then the outputs. It lies in an object of bytes, the
// first item of a tuple whose other items are the objects named here (OWNED).
struct Entry {
    int (*call)(void**, std::int64_t*, int);
    std::int64_t inputs, outputs, dims;
    std::int64_t nd[ARRAYS];
    std::int64_t bytes[ARRAYS];
    std::int64_t place[ARRAYS];    // of an array among the kernel's arguments
    std::int64_t over[ARRAYS];     // for an output: a bit for each input whose place it may take
    void* dtype[ARRAYS];
    void* make[ARRAYS];            // for an output: a function that makes a new array, and its arguments
    void* given[ARRAYS];
    std::int64_t shape[WORDS];     // of all arrays, one after the other
    std::int64_t size[DIMS];       // what the kernel is told of them
};

// What is the same for all kernels of a process.
struct World {
    std::int64_t head;
    void *array_type, *tuple_type, *int_type, *none;
    std::intptr_t (*tuple_size)(void*);
    void* (*tuple_item)(void*, std::intptr_t);  // borrowed
    void* (*tuple_new)(std::intptr_t);
    int (*tuple_set)(void*, std::intptr_t, void*);  // takes the reference
    long (*as_long)(void*, int*);  // PyLong_AsLongAndOverflow
    char* (*bytes_of)(void*);
    void* (*invoke)(void*, void*, void*);  // PyObject_Call
    void (*up)(void*);
    void (*down)(void*);
    void* (*leave)();  // PyEval_SaveThread
    void (*enter)(void*);
};

World world;

// An object's type is the last thing in its head.
void* type_of(void* x) { return *reinterpret_cast<void**>(static_cast<char*>(x) + world.head - sizeof(void*)); }

Array* array_of(void* x) { return reinterpret_cast<Array*>(static_cast<char*>(x) + world.head); }

bool like(void* x, void* dtype, std::int64_t nd, const std::int64_t* shape, int flags) {
    if (type_of(x) != world.array_type) return false;
    const Array* a = array_of(x);
    if (a->dtype != dtype || a->nd != nd || (a->flags & flags) != flags) return false;
    for (std::int64_t i = 0; i < nd; ++i)
        if (a->shape[i] != shape[i]) return false;
    return true;
}

bool apart(const char* a, std::int64_t na, const char* b, std::int64_t nb) { return a + na <= b || b + nb <= a; }

// Mixes a number into a hash; the six highest bits say the slot.
std::uint64_t mix(std::uint64_t hash, std::int64_t x) { return (hash ^ static_cast<std::uint64_t>(x)) * 0x9E3779B97F4A7C15u; }

void* nothing() {
    world.up(world.none);
    return world.none;
}

// The results: those given, or new ones; an own reference to one, or to a tuple of several. Null with an exception set.
void* results_of(const Entry& e, void* out, void** found) {
    if (out != world.none) {
        world.up(out);
        return out;
    }
    void* all = e.outputs > 1 ? world.tuple_new(e.outputs) : nullptr;
    if (e.outputs > 1 && !all) return nullptr;
    for (std::int64_t i = e.inputs; i < e.inputs + e.outputs; ++i) {
        found[i] = world.invoke(e.make[i], e.given[i], nullptr);
        if (!found[i]) {
            if (all) world.down(all);
            return nullptr;
        }
        if (all) world.tuple_set(all, i - e.inputs, found[i]);
    }
    return all ? all : found[e.inputs];
}

}  // namespace

// A function for Python, with fast calls: self is a tuple of entries, or None, by slot; the arguments are a tuple of inputs, what
// was given as `out`, and a number of threads. Gives the results, or None: not done, and nothing was touched.
extern "C" void* andiron_caller(void* self, void** args, std::intptr_t count) {
    if (count != 3 || type_of(args[0]) != world.tuple_type || type_of(args[2]) != world.int_type) return nothing();
    const std::intptr_t inputs = world.tuple_size(args[0]);
    void* found[ARRAYS];
    std::uint64_t hash = 0;
    if (inputs > ARRAYS) return nothing();
    for (std::intptr_t i = 0; i < inputs; ++i) {
        void* x = found[i] = world.tuple_item(args[0], i);
        if (type_of(x) != world.array_type) return nothing();
        const Array* a = array_of(x);
        for (int k = 0; k < a->nd; ++k) hash = mix(hash, a->shape[k]);
    }
    void* kept = world.tuple_item(self, static_cast<std::intptr_t>(hash >> 58));
    if (kept == world.none) return nothing();
    const Entry& e = *reinterpret_cast<const Entry*>(world.bytes_of(world.tuple_item(kept, 0)));
    if (e.inputs != inputs) return nothing();
    const std::int64_t* shape = e.shape;
    for (std::intptr_t i = 0; i < inputs; shape += e.nd[i++])
        if (!like(found[i], e.dtype[i], e.nd[i], shape, C_CONTIGUOUS | ALIGNED)) return nothing();
    const std::int64_t all = e.inputs + e.outputs;
    void* out = args[1];
    if (out != world.none) {
        if (type_of(out) == world.tuple_type) {
            if (world.tuple_size(out) != e.outputs) return nothing();
            for (std::int64_t i = 0; i < e.outputs; ++i) found[inputs + i] = world.tuple_item(out, i);
        } else if (e.outputs == 1) {
            found[inputs] = out;
        } else {
            return nothing();
        }
        for (std::int64_t i = inputs; i < all; shape += e.nd[i++]) {
            if (!like(found[i], e.dtype[i], e.nd[i], shape, C_CONTIGUOUS | ALIGNED | WRITEABLE)) return nothing();
            const char* mine = array_of(found[i])->data;
            for (std::int64_t k = 0; k < i; ++k) {
                const char* other = array_of(found[k])->data;
                if (!apart(mine, e.bytes[i], other, e.bytes[k]) && !(other == mine && e.over[i] >> k & 1)) return nothing();
            }
        }
    }
    int beyond = 0;
    const long threads = world.as_long(args[2], &beyond);
    if (beyond || threads < 1 || threads > MOST_THREADS) return nothing();
    void* results = results_of(e, out, found);
    if (!results) return nullptr;
    void* pointers[ARRAYS];
    std::int64_t sizes[DIMS];
    for (std::int64_t i = 0; i < all; ++i) pointers[e.place[i]] = array_of(found[i])->data;
    for (std::int64_t i = 0; i < e.dims; ++i) sizes[i] = e.size[i];
    void* state = world.leave();
    const int status = e.call(pointers, sizes, static_cast<int>(threads));
    world.enter(state);
    if (status == 0) return results;
    world.down(results);  // refused before anything was written; told at length by whoever called
    return nothing();
}

namespace {

// Python's PyMethodDef.
struct Method {
    const char* name;
    void* (*function)(void*, void**, std::intptr_t);
    int flags;
    const char* doc;
};

enum { FASTCALL = 0x80 };
Method method = {"call", andiron_caller, FASTCALL, nullptr};  // FOR_GOOD

}  // namespace

// What functions are made of, once it is known how to reach the interpreter.
extern "C" const void* andiron_caller_method(const World* w) {
    world = *w;
    return &method;
}
