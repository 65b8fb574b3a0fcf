// CUDA threads as fibers: those of a block take turns on one thread of the CPU, and change places where they wait.
//
// Not compiled with ThreadSanitizer itself, because fibers share this bookkeeping without locks; with RG_TSAN it tells the
// sanitizer which fiber runs and that a barrier orders what is before it and what is after it. Changing places orders
// nothing, so two fibers that touch the same memory without a barrier between them are a race, as they are on a GPU.
#include "fibers.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

#ifdef RG_TSAN
#include <sanitizer/tsan_interface.h>
#endif

typedef unsigned u32;
typedef unsigned long long u64;

namespace {

constexpr u32 WARP = 32;
constexpr u32 MOST_THREADS = 1024;
#ifdef RG_TSAN
constexpr size_t STACK = 512 << 10;
#else
constexpr size_t STACK = 128 << 10;
#endif

// How long a block looks at what does not change before it sleeps: where others want the CPU, each time it is left to them
// lasts as long as they may keep it.
constexpr u64 PATIENCE_NS = 200000;

struct Barrier {
    u32 waiting;
    u32 passed;
};

// Where something stopped running. Once started it is left and entered by a jump: swapcontext asks the kernel each time.
struct Place {
    ucontext_t context;
    jmp_buf jump;
    bool started;
    void *tsan;
};

struct Fiber {
    Place place;
    u32 index;
    bool done;
    Barrier *at;  // where it waits, or null
    u32 passed;   // the barrier's count when it came
};

struct Block {
    Place outside;
    void (*body)(const void *);
    const void *argument;
    u32 index, blocks, threads, alive, idle;
    u64 idle_since;
    Barrier all;
    Barrier warps[MOST_THREADS / WARP];
    Fiber *fibers;
    Fiber *now;
};

thread_local Block *block;

__attribute__((noinline)) void switch_to(Place *from, Place *to) {
    from->started = true;
#ifdef RG_TSAN
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
    swapcontext(&from->context, &to->context);
#else
    if (_setjmp(from->jump) != 0) return;
    if (to->started) _longjmp(to->jump, 1);
    setcontext(&to->context);
#endif
}

#ifdef RG_TSAN
// New for each block: the sanitizer remembers who touched a page.
void *take_stacks(u32 threads) { return mmap(nullptr, STACK * threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
void give_stacks(u32 threads, void *stacks) { munmap(stacks, STACK * threads); }
#else
// Stacks of blocks that ended are used again, so that their pages need not be made anew.
constexpr size_t MOST_SPARE = 32;
std::mutex spare_lock;
// Never destroyed: a block may still run while the process ends.
std::vector<std::pair<u32, void *>> &spare = *new std::vector<std::pair<u32, void *>>;

void *take_stacks(u32 threads) {
    {
        std::lock_guard<std::mutex> hold(spare_lock);
        for (auto &kept : spare) {
            if (kept.first != threads) continue;
            std::swap(kept, spare.back());
            void *stacks = spare.back().second;
            spare.pop_back();
            return stacks;
        }
    }
    return mmap(nullptr, STACK * threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void give_stacks(u32 threads, void *stacks) {
    {
        std::lock_guard<std::mutex> hold(spare_lock);
        if (spare.size() < MOST_SPARE) {
            spare.emplace_back(threads, stacks);
            return;
        }
    }
    munmap(stacks, STACK * threads);
}
#endif

bool can_run(const Fiber &fiber) { return !fiber.done && (!fiber.at || fiber.at->passed != fiber.passed); }

// Gives the CPU to the next fiber that can run, until it is this one's turn again; false when there is no other.
bool next() {
    Block *b = block;
    Fiber *me = b->now;
    for (u32 step = 1; step <= b->threads; ++step) {
        Fiber *other = &b->fibers[(me->index + step) % b->threads];
        if (other == me || !can_run(*other)) continue;
        b->now = other;
        switch_to(&me->place, &other->place);
        return true;
    }
    if (b->alive == 0) switch_to(&me->place, &b->outside);
    return false;
}

// Fibers of a warp, or of the whole block, that have not ended.
u32 expected(const Block *b, const Barrier *barrier) {
    if (barrier == &b->all) return b->alive;
    u32 first = (u32)(barrier - b->warps) * WARP, count = 0;
    for (u32 i = first; i < first + WARP && i < b->threads; ++i) count += !b->fibers[i].done;
    return count;
}

void open_if_complete(Block *b, Barrier *barrier) {
    if (barrier->waiting && barrier->waiting >= expected(b, barrier)) {
        barrier->waiting = 0;
        barrier->passed += 1;
    }
}

void wait_at(Barrier *barrier) {
    Block *b = block;
    Fiber *me = b->now;
    b->idle = 0, b->idle_since = 0;
#ifdef RG_TSAN
    __tsan_release(barrier);
#endif
    me->passed = barrier->passed;
    me->at = barrier;
    barrier->waiting += 1;
    open_if_complete(b, barrier);
    while (!can_run(*me)) {
        if (!next()) {
            fprintf(stderr, "CPU shim: thread %u of block %u waits at a barrier that others do not come to\n", me->index, b->index);
            abort();
        }
    }
    me->at = nullptr;
#ifdef RG_TSAN
    __tsan_acquire(barrier);
#endif
}

void fiber_main() {
    Block *b = block;
    b->body(b->argument);
    Fiber *me = b->now;
    me->done = true;
    b->alive -= 1;
#ifdef RG_TSAN
    __tsan_release(b);
#endif
    open_if_complete(b, &b->all);
    open_if_complete(b, &b->warps[me->index / WARP]);
    next();
    abort();  // Nobody gives the CPU back to a fiber that is done.
}

// getcontext returns twice, like setjmp: a compiler wants it to have a function of its own.
__attribute__((noinline)) void prepare(Place &place, void *stack) {
    getcontext(&place.context);
    place.context.uc_stack.ss_sp = stack;
    place.context.uc_stack.ss_size = STACK;
    makecontext(&place.context, fiber_main, 0);
#ifdef RG_TSAN
    place.tsan = __tsan_create_fiber(0);
#endif
}

char published;

}  // namespace

extern "C" {

u32 shim_thread() { return block->now->index; }
u32 shim_threads() { return block->threads; }
u32 shim_block() { return block->index; }
u32 shim_blocks() { return block->blocks; }
void shim_barrier() { wait_at(&block->all); }
void shim_warp_barrier() { wait_at(&block->warps[block->now->index / WARP]); }

void shim_pause() {
    Block *b = block;
    bool alone = !next();
    b->idle += 1;
    if (!alone && b->idle % b->threads != 0) return;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    u64 time = (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
    if (!b->idle_since) b->idle_since = time;
    if (time - b->idle_since < PATIENCE_NS)
        sched_yield();
    else
        usleep(50);
}

void shim_publish() {
#ifdef RG_TSAN
    __tsan_release(&published);
#endif
}

bool shim_forgets_release() {
    static const bool forgets = getenv("RAILGAUGE_SHIM_FORGETS") != nullptr;
    return forgets;
}

void shim_heard() {
#ifdef RG_TSAN
    __tsan_acquire(&published);
#endif
}

void shim_run_block(void (*body)(const void *), const void *argument, u32 index, u32 blocks, u32 threads) {
    static_assert(sizeof(published) == 1);
    Block *b = (Block *)calloc(1, sizeof(Block));
    Fiber *fibers = (Fiber *)calloc(threads, sizeof(Fiber));
    void *stacks = take_stacks(threads);
    if (!b || !fibers || stacks == MAP_FAILED || threads > MOST_THREADS) {
        fprintf(stderr, "CPU shim: no room for a block of %u threads\n", threads);
        abort();
    }
    b->body = body, b->argument = argument;
    b->index = index, b->blocks = blocks, b->threads = b->alive = threads;
    b->fibers = fibers;
    for (u32 i = 0; i < threads; ++i) {
        Fiber &fiber = fibers[i];
        fiber.index = i;
        prepare(fiber.place, (char *)stacks + i * STACK);
    }
#ifdef RG_TSAN
    b->outside.tsan = __tsan_get_current_fiber();
#endif
    block = b;
    b->now = &fibers[0];
    switch_to(&b->outside, &fibers[0].place);
    block = nullptr;
#ifdef RG_TSAN
    __tsan_acquire(b);
    for (u32 i = 0; i < threads; ++i) __tsan_destroy_fiber(fibers[i].place.tsan);
#endif
    give_stacks(threads, stacks);
    free(fibers);
    free(b);
}

}
