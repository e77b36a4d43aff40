// Calls through `fast_call.cpp` from several threads, with a small interpreter of its own in place of Python: objects are counted
// and freed as soon as nobody has them, under one lock. Built with a sanitizer, which sees what is used after it was freed, or
// by two threads at once. CALLER names the text that is tried.
#include CALLER

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

struct Object {
    long count;
    void* type;
};
struct Tuple : Object {
    std::vector<Object*> items;
};
struct Bytes : Object {
    std::vector<char> data;
};
struct Number : Object {
    long value;
};
struct Maker : Object {};  // of arrays; its arguments are a tuple of a number
struct Floats {
    Object head;
    Array array;
    std::intptr_t shape[1], strides[1];
};

static char array_type, tuple_type, int_type, bytes_type, other_type, f32;
static Object none = {1 << 30, &other_type};
static std::mutex lock;  // the interpreter's
static int wrong, made;

static void up(void* x) { static_cast<Object*>(x)->count++; }
static void down(void* x) {
    Object* o = static_cast<Object*>(x);
    if (--o->count) return;
    if (o->type == &array_type) {
        Floats* a = reinterpret_cast<Floats*>(o);
        std::free(a->array.data);
        delete a;
    } else if (o->type == &tuple_type) {
        for (Object* item : static_cast<Tuple*>(o)->items) down(item);
        delete static_cast<Tuple*>(o);
    } else if (o->type == &bytes_type) {
        delete static_cast<Bytes*>(o);
    } else if (o->type == &int_type) {
        delete static_cast<Number*>(o);
    } else {
        delete static_cast<Maker*>(o);
    }
}

static Object* number(long value) { return new Number{{1, &int_type}, value}; }
static Object* floats(long n, float value) {
    Floats* a = new Floats;
    a->head = {1, &array_type};
    float* data = static_cast<float*>(std::malloc(n * sizeof(float) + 1));
    for (long i = 0; i < n; i++) data[i] = value;
    a->shape[0] = n, a->strides[0] = sizeof(float);
    a->array = {reinterpret_cast<char*>(data), 1, a->shape, a->strides, nullptr, &f32, C_CONTIGUOUS | ALIGNED | WRITEABLE};
    return &a->head;
}
static Tuple* tuple(std::vector<Object*> items) { return new Tuple{{1, &tuple_type}, items}; }  // takes the references
static float* data_of(Object* x) { return reinterpret_cast<float*>(reinterpret_cast<Floats*>(x)->array.data); }

static std::intptr_t tuple_size(void* x) { return static_cast<Tuple*>(static_cast<Object*>(x))->items.size(); }
static void* tuple_item(void* x, std::intptr_t i) { return static_cast<Tuple*>(static_cast<Object*>(x))->items[i]; }
static void* tuple_new(std::intptr_t n) { return tuple(std::vector<Object*>(n, &none)); }
static int tuple_set(void* x, std::intptr_t i, void* item) {
    static_cast<Tuple*>(static_cast<Object*>(x))->items[i] = static_cast<Object*>(item);
    return 0;
}
static long as_long(void* x, int* beyond) {
    *beyond = 0;
    return static_cast<Number*>(static_cast<Object*>(x))->value;
}
static char* bytes_of(void* x) { return static_cast<Bytes*>(static_cast<Object*>(x))->data.data(); }
static void* invoke(void*, void* given, void*) {
    return floats(static_cast<Number*>(static_cast<Tuple*>(static_cast<Object*>(given))->items[0])->value, -1);
}
static void* leave() {
    lock.unlock();
    return nullptr;
}
static void enter(void*) {
    std::this_thread::sleep_for(std::chrono::microseconds(1));  // others run, and touch what they may
    lock.lock();
}

// y = 2 * x, or for an odd number of threads as many times; refuses 13.
static int kernel(void** args, std::int64_t* sizes, int threads) {
    const float* x = static_cast<const float*>(args[0]);
    float* y = static_cast<float*>(args[1]);
    if (sizes[0] == 13) return 100;
    if (sizes[0] % 3 == 0) std::this_thread::yield();
    for (std::int64_t i = 0; i < sizes[0]; i++) y[i] = x[i] * static_cast<float>(threads);
    return 0;
}

// What `Caller.also` makes: a tuple of the entry's bytes and of all that it names.
static Object* entry(long n) {
    Entry e = {};
    Tuple* given = tuple({number(n)});
    Object* make = new Maker{{1, &other_type}};
    e.call = kernel, e.inputs = e.outputs = e.dims = 1;
    e.nd[0] = e.nd[1] = 1, e.bytes[0] = e.bytes[1] = n * 4, e.place[1] = 1;
    e.dtype[0] = e.dtype[1] = &f32, e.make[1] = make, e.given[1] = given;
    e.shape[0] = e.shape[1] = n, e.size[0] = n;
    Bytes* bytes = new Bytes{{1, &bytes_type}, std::vector<char>(sizeof e)};
    std::memcpy(bytes->data.data(), &e, sizeof e);
    return tuple({bytes, make, given});
}

static Tuple* current;  // the entries that calls find

static void replace(long n) {
    std::vector<Object*> items = current->items;
    const int slot = static_cast<int>(mix(0, n) >> 58);
    for (int i = 0; i < 64; i++) i == slot ? (void)(items[i] = entry(n)) : up(items[i]);
    Tuple* before = current;
    current = tuple(items);
    down(before);
}

static const void* definition;
static std::atomic<int> running{4};  // threads that call

static void calls(unsigned seed) {
    const Method* call = static_cast<const Method*>(definition);
    for (int turn = 0; turn < 1500; turn++) {
        seed = seed * 1664525u + 1013904223u;
        const long n = seed >> 8 & 15, threads = 1 + (seed >> 16 & 3);
        std::this_thread::yield();  // or the others may never get the lock
        std::lock_guard<std::mutex> held(lock);
        Tuple* self = current;
        up(self);  // as the interpreter owns the function that it calls
        Object* x = floats(n, 5);
        Object* out = seed >> 20 & 1 ? floats(n, -1) : &none;
        Tuple* inputs = tuple({x});
        Object* count = number(threads);
        void* args[] = {inputs, out, count};
        Object* result = static_cast<Object*>(call->function(self, args, 3));
        if (result != &none) {
            made++;
            if (n == 13 || (out != &none && result != out)) wrong++;
            for (long i = 0; i < n; i++) wrong += data_of(result)[i] != 5 * threads;
        }
        down(result), down(count), down(inputs), down(self);
        if (out != &none) down(out);
    }
    running--;
}

int main() {
    World w = {};
    w.head = sizeof(Object), w.array_type = &array_type, w.tuple_type = &tuple_type, w.int_type = &int_type, w.none = &none;
    w.tuple_size = tuple_size, w.tuple_item = tuple_item, w.tuple_new = tuple_new, w.tuple_set = tuple_set;
    w.as_long = as_long, w.bytes_of = bytes_of, w.invoke = invoke, w.up = up, w.down = down, w.leave = leave, w.enter = enter;
    definition = andiron_caller_method(&w);
    current = static_cast<Tuple*>(tuple(std::vector<Object*>(64, &none)));
    for (long n = 0; n < 16; n++) replace(n);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++) threads.emplace_back(calls, i);
    for (long turn = 0; running.load() > 0; turn++) {
        {
            std::lock_guard<std::mutex> held(lock);
            replace(turn * 7 % 16);
        }
        std::this_thread::yield();
    }
    for (std::thread& t : threads) t.join();
    down(current);
    std::printf(wrong || made < 1000 ? "wrong" : "right");
    return 0;
}
