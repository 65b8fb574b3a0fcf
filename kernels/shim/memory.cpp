// Memory of the CPU shim: device memory is a file without a name, so that another process can map it too.
#include "libcuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

Memory *Shim::find(uint64_t address, size_t bytes) {
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return nullptr;
    auto entry = std::prev(after);
    bool holds = bytes <= entry->second.bytes && address - entry->first <= entry->second.bytes - bytes;
    return holds ? &entry->second : nullptr;
}

static uint64_t map(int file, size_t bytes) {
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return at == MAP_FAILED ? 0 : (uint64_t)at;
}

API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    NEED_CONTEXT;
    Entered entered;
    if (bytes == 0) return INVALID_VALUE;
    shim().wait_until_idle(entered.lock);
    int file = memfd_create("railgauge-shim", MFD_CLOEXEC);
    if (file < 0) return OUT_OF_MEMORY;
    uint64_t at = ftruncate(file, (off_t)bytes) == 0 ? map(file, bytes) : 0;
    if (!at) {
        close(file);
        return OUT_OF_MEMORY;
    }
    Memory memory{bytes};
    memory.file = file;
    shim().memory[at] = memory;
    *address = at;
    return OK;
}

API cuMemFree_v2(uint64_t address) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    auto entry = shim().memory.find(address);
    if (entry == shim().memory.end() || entry->second.file < 0) return INVALID_VALUE;
    munmap((void *)address, entry->second.bytes);
    close(entry->second.file);
    shim().memory.erase(entry);
    return OK;
}

API cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    uint64_t at = bytes ? map(-1, bytes) : 0;
    if (!at) return bytes ? OUT_OF_MEMORY : INVALID_VALUE;
    Memory memory{bytes};
    memory.pinned = true;
    shim().memory[at] = memory;
    *pointer = (void *)at;
    return OK;
}

API cuMemFreeHost(void *pointer) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    auto entry = shim().memory.find((uint64_t)pointer);
    if (entry == shim().memory.end() || !entry->second.pinned || entry->second.registered) return INVALID_VALUE;
    munmap(pointer, entry->second.bytes);
    shim().memory.erase(entry);
    return OK;
}

API cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    uint64_t at = (uint64_t)pointer;
    if (bytes == 0 || at % 4096) return INVALID_VALUE;
    if (shim().find(at, 1)) return HOST_MEMORY_ALREADY_REGISTERED;
    Memory memory{bytes};
    memory.pinned = memory.registered = true;
    shim().memory[at] = memory;
    return OK;
}

API cuMemHostUnregister(void *pointer) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    auto entry = shim().memory.find((uint64_t)pointer);
    if (entry == shim().memory.end() || !entry->second.registered) return HOST_MEMORY_NOT_REGISTERED;
    shim().memory.erase(entry);
    return OK;
}

API cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    Memory *memory = shim().find((uint64_t)pointer, 1);
    if (!memory || !memory->pinned) return INVALID_VALUE;
    *address = (uint64_t)pointer;
    return OK;
}

// What one process gives another: whose file it is, and how to be sure that it is still the same.
struct Handle {
    char mark[8];
    int pid, file;
    uint64_t bytes, inode;
    char unused[32];
};
static_assert(sizeof(Handle) == 64);

API cuIpcGetMemHandle(Handle *handle, uint64_t address) {
    NEED_CONTEXT;
    Entered entered;
    auto entry = shim().memory.find(address);
    struct stat is;
    if (entry == shim().memory.end() || entry->second.file < 0 || fstat(entry->second.file, &is) != 0) return INVALID_VALUE;
    *handle = {{'c', 'p', 'u', 's', 'h', 'i', 'm', 0}, getpid(), entry->second.file, entry->second.bytes, is.st_ino, {}};
    return OK;
}

API cuIpcOpenMemHandle_v2(uint64_t *address, Handle handle, unsigned) {
    NEED_CONTEXT;
    Entered entered;
    if (memcmp(handle.mark, "cpushim", 8) != 0) return INVALID_VALUE;
    if (handle.pid == getpid()) return INVALID_CONTEXT;
    std::string key = std::to_string(handle.pid) + ":" + std::to_string(handle.inode);
    for (auto &[at, memory] : shim().memory) {
        if (memory.key != key) continue;
        memory.opened += 1;
        *address = at;
        return OK;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return INVALID_VALUE;
    struct stat is;
    bool same = fstat(file, &is) == 0 && is.st_ino == handle.inode && is.st_size == (off_t)handle.bytes;
    uint64_t at = same ? map(file, handle.bytes) : 0;
    close(file);
    if (!at) return INVALID_VALUE;
    Memory memory{handle.bytes};
    memory.opened = 1;
    memory.key = key;
    shim().memory[at] = memory;
    *address = at;
    return OK;
}

API cuIpcCloseMemHandle(uint64_t address) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    auto entry = shim().memory.find(address);
    if (entry == shim().memory.end() || !entry->second.opened) return INVALID_VALUE;
    if (--entry->second.opened == 0) {
        munmap((void *)address, entry->second.bytes);
        shim().memory.erase(entry);
    }
    return OK;
}
