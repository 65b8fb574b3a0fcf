// The CPU shim's idea of a CUDA driver: what its functions share.
//
// One mutex guards everything, and kernels run outside of it on threads of their own. It answers as a real driver does where
// that matters to a program that is to be correct on a GPU: calls without a context are refused, memory is handed to other
// processes but not to one's own, a launch waits until its blocks fit, and calls that may wait for an idle GPU do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fibers.h"

#define API extern "C" __attribute__((visibility("default"))) CUresult

enum CUresult : unsigned {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    NOT_READY = 600,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
};

// A kernel of the source, by its name in the PTX.
struct Kernel {
    const char *name;
    size_t parameter;
    void (*call)(const void *parameter);
};

// All of them; every module adds its own when the shim is loaded.
std::vector<Kernel> &kernels();

struct Device {
    int ordinal;
    std::vector<int> peers;
    // Blocks that run now, of those that fit at the same time.
    unsigned resident = 0;
};

struct Event {
    bool recorded = false;
    bool done = true;
    uint64_t at = 0;
};

struct Stream {
    Device *device;
    std::deque<std::function<void()>> work;
    size_t pending = 0;
    bool closing = false;
};

// A range of memory that calls may name.
struct Memory {
    size_t bytes;
    int file = -1;           // device memory: what another process opens
    bool pinned = false;     // host memory
    bool registered = false; // host memory that was there before
    unsigned opened = 0;     // another process's: how many times
    std::string key = {};    // another process's: which
};

struct Shim {
    std::mutex mutex;
    std::condition_variable changed;
    bool started = false;
    std::deque<Device> devices;
    std::map<uint64_t, Memory> memory;
    std::vector<Stream *> streams;

    // The range that holds all of this, or null.
    Memory *find(uint64_t address, size_t bytes);
    // Waits until no stream has work, as a real driver may in calls that change memory or code.
    void wait_until_idle(std::unique_lock<std::mutex> &lock);
};

Shim &shim();
unsigned multiprocessors();
unsigned most_threads();
constexpr unsigned BLOCKS_PER_MULTIPROCESSOR = 2;

// The device of this thread's context, or null.
extern thread_local Device *current;

// A function of the driver begins: the mutex is taken, and what kernels published is seen.
struct Entered {
    std::unique_lock<std::mutex> lock;
    Entered() : lock(shim().mutex) { shim_heard(); }
};

#define NEED_CONTEXT \
    if (!current) return INVALID_CONTEXT
