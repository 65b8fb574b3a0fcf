// Streams, events and launches of the CPU shim.
//
// A stream has a thread that does its work in order. A launch gives each block that fits on the device a thread of its own;
// the others wait for their turn, as on a GPU, so blocks that wait for blocks which do not fit wait until their deadline.
#include "libcuda.h"

#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>

static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

void Shim::wait_until_idle(std::unique_lock<std::mutex> &lock) {
    changed.wait(lock, [&] {
        for (Stream *stream : streams)
            if (stream->pending) return false;
        return true;
    });
}

static void serve(Stream *stream) {
    Shim &s = shim();
    std::unique_lock<std::mutex> lock(s.mutex);
    for (;;) {
        s.changed.wait(lock, [&] { return !stream->work.empty() || stream->closing; });
        if (stream->work.empty()) break;
        auto job = std::move(stream->work.front());
        stream->work.pop_front();
        lock.unlock();
        job();
        lock.lock();
        stream->pending -= 1;
        s.changed.notify_all();
    }
    std::erase(s.streams, stream);
    delete stream;
}

static CUresult give(Stream *stream, std::function<void()> job) {
    stream->work.push_back(std::move(job));
    stream->pending += 1;
    shim().changed.notify_all();
    return OK;
}

API cuStreamCreate(Stream **stream, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    *stream = new Stream{current, {}, 0, false};
    shim().streams.push_back(*stream);
    std::thread(serve, *stream).detach();
    return OK;
}

API cuStreamDestroy_v2(Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    stream->closing = true;
    shim().changed.notify_all();
    return OK;
}

API cuStreamQuery(Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    return stream->pending ? NOT_READY : OK;
}

API cuStreamSynchronize(Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    shim().changed.wait(entered.lock, [&] { return stream->pending == 0; });
    return OK;
}

// Copies. An address that no call has made known is refused.

static CUresult move(Stream *stream, uint64_t to, uint64_t from, size_t bytes) {
    return give(stream, [=] { memmove((void *)to, (const void *)from, bytes); });
}

API cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    if (!shim().find(to, bytes)) return INVALID_VALUE;
    return give(stream, [=] { memset((void *)to, value, bytes); });
}

API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    return shim().find(to, bytes) ? move(stream, to, (uint64_t)from, bytes) : INVALID_VALUE;
}

API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    return shim().find(from, bytes) ? move(stream, (uint64_t)to, from, bytes) : INVALID_VALUE;
}

API cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    if (!shim().find(to, bytes) || !shim().find(from, bytes)) return INVALID_VALUE;
    return move(stream, to, from, bytes);
}

// Events.

API cuEventCreate(Event **event, unsigned) {
    NEED_CONTEXT;
    *event = new Event;
    return OK;
}

API cuEventDestroy_v2(Event *event) {
    NEED_CONTEXT;
    Entered entered;
    shim().changed.wait(entered.lock, [&] { return event->done; });
    delete event;
    return OK;
}

API cuEventRecord(Event *event, Stream *stream) {
    NEED_CONTEXT;
    Entered entered;
    event->recorded = true;
    event->done = false;
    return give(stream, [=] {
        std::lock_guard lock(shim().mutex);
        event->at = now();
        event->done = true;
    });
}

API cuEventQuery(Event *event) {
    NEED_CONTEXT;
    Entered entered;
    return event->done ? OK : NOT_READY;
}

API cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    return give(stream, [=] {
        std::unique_lock lock(shim().mutex);
        shim().changed.wait(lock, [&] { return event->done; });
    });
}

API cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    NEED_CONTEXT;
    Entered entered;
    if (!start->recorded || !end->recorded) return INVALID_VALUE;
    if (!start->done || !end->done) return NOT_READY;
    *milliseconds = (float)((double)(end->at - start->at) / 1e6);
    return OK;
}

// Launches.

static unsigned capacity() { return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR; }

#ifdef RG_TSAN
// A thread for every block: one that ran another block before would order the two for the sanitizer.
static void on_own_thread(std::function<void()> block) { std::thread(std::move(block)).detach(); }
#else
// A thread that runs one block after another. Every new one would need memory for all that kernels share within a block.
struct Worker {
    std::condition_variable given;
    std::function<void()> block;
};
static std::mutex workers_lock;
// Never destroyed: a block may still run while the process ends.
static std::vector<Worker *> &idle_workers = *new std::vector<Worker *>;

static void work(Worker *worker) {
    for (;;) {
        worker->block();
        std::unique_lock<std::mutex> lock(workers_lock);
        worker->block = nullptr;
        idle_workers.push_back(worker);
        worker->given.wait(lock, [&] { return worker->block != nullptr; });
    }
}

static void on_own_thread(std::function<void()> block) {
    std::lock_guard<std::mutex> lock(workers_lock);
    if (idle_workers.empty()) {
        Worker *worker = new Worker{{}, std::move(block)};
        std::thread(work, worker).detach();
    } else {
        Worker *worker = idle_workers.back();
        idle_workers.pop_back();
        worker->block = std::move(block);
        worker->given.notify_one();
    }
}
#endif

static void run(Device *device, const Kernel *kernel, std::shared_ptr<std::vector<char>> parameter, unsigned grid, unsigned threads) {
    Shim &s = shim();
    unsigned running = grid;
    for (unsigned index = 0; index < grid; ++index) {
        {
            std::unique_lock lock(s.mutex);
            s.changed.wait(lock, [&] { return device->resident < capacity(); });
            device->resident += 1;
        }
        on_own_thread([=, &s, &running] {
            shim_run_block(kernel->call, parameter->data(), index, grid, threads);
            std::lock_guard lock(s.mutex);
            device->resident -= 1;
            running -= 1;
            s.changed.notify_all();
        });
    }
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return running == 0; });
}

static CUresult launch(const Kernel *kernel, const unsigned (&grid)[3], const unsigned (&block)[3], Stream *stream, void **parameters) {
    Entered entered;
    if (grid[0] == 0 || grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) return INVALID_VALUE;
    if (block[0] == 0 || block[0] > most_threads()) return INVALID_VALUE;
    const char *bytes = (const char *)parameters[0];
    auto parameter = std::make_shared<std::vector<char>>(bytes, bytes + kernel->parameter);
    Device *device = stream->device;
    unsigned blocks = grid[0], threads = block[0];
    return give(stream, [=] { run(device, kernel, parameter, blocks, threads); });
}

API cuLaunchKernel(const Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned,
                   Stream *stream, void **parameters, void **) {
    NEED_CONTEXT;
    return launch(kernel, {gx, gy, gz}, {bx, by, bz}, stream, parameters);
}

API cuLaunchCooperativeKernel(const Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned, Stream *stream, void **parameters) {
    NEED_CONTEXT;
    if (gx > capacity()) return COOPERATIVE_LAUNCH_TOO_LARGE;
    return launch(kernel, {gx, gy, gz}, {bx, by, bz}, stream, parameters);
}
