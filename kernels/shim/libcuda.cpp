// Devices, contexts and code of the CPU shim.
#include "libcuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

thread_local Device *current;

// Never destroyed: kernels may still run when the process ends.
Shim &shim() {
    static Shim &the = *new Shim;
    return the;
}

std::vector<Kernel> &kernels() {
    static std::vector<Kernel> &all = *new std::vector<Kernel>;
    return all;
}

// A number from the environment, for tests that want another machine.
static unsigned setting(const char *name, unsigned usual) {
    const char *text = getenv(name);
    int value = text ? atoi(text) : 0;
    return value > 0 ? (unsigned)value : usual;
}

unsigned multiprocessors() {
    static unsigned count = setting("RAILGAUGE_SHIM_SMS", 8);
    return count;
}

unsigned most_threads() {
    static unsigned count = setting("RAILGAUGE_SHIM_THREADS", 32);
    return count;
}

API cuDriverGetVersion(int *version) {
    *version = (int)setting("RAILGAUGE_SHIM_CUDA", 13000);
    return OK;
}

API cuInit(unsigned) {
    Entered entered;
    Shim &s = shim();
    if (s.started) return OK;
    const char *gpus = getenv("RAILGAUGE_SHIM_GPUS");
    if (gpus && atoi(gpus) == 0) return (CUresult)100;
    for (unsigned i = 0; i < setting("RAILGAUGE_SHIM_GPUS", 1); ++i) s.devices.push_back({(int)i, {}, 0});
    s.started = true;
    return OK;
}

struct Named {
    unsigned code;
    const char *name, *text;
};

static const Named NAMES[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "already mapped"},
    {HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not mapped"},
    {COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
};

static const Named *named(unsigned code) {
    for (const Named &entry : NAMES)
        if (entry.code == code) return &entry;
    return nullptr;
}

API cuGetErrorName(unsigned code, const char **text) {
    const Named *entry = named(code);
    *text = entry ? entry->name : nullptr;
    return entry ? OK : INVALID_VALUE;
}

API cuGetErrorString(unsigned code, const char **text) {
    const Named *entry = named(code);
    *text = entry ? entry->text : nullptr;
    return entry ? OK : INVALID_VALUE;
}

// Devices. A handle is the ordinal.

API cuDeviceGetCount(int *count) {
    Entered entered;
    *count = (int)shim().devices.size();
    return OK;
}

API cuDeviceGet(int *device, int ordinal) {
    Entered entered;
    if (ordinal < 0 || ordinal >= (int)shim().devices.size()) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

API cuDeviceGetName(char *name, int length, int) {
    snprintf(name, (size_t)length, "CPU shim (not a GPU)");
    return OK;
}

API cuDeviceGetUuid_v2(char *uuid, int device) {
    memcpy(uuid, "CPU shim no GPU", 15);
    uuid[15] = (char)device;
    return OK;
}

API cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:%02X:00.0", device + 1);
    return OK;
}

API cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 2;
    return OK;
}

API cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEED_CONTEXT;
    *free = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 2;
    return cuDeviceTotalMem_v2(total, 0);
}

API cuDeviceGetAttribute(int *value, int attribute, int) {
    switch (attribute) {
    case 1: *value = (int)most_threads(); return OK;
    case 16: *value = (int)multiprocessors(); return OK;
    case 38: *value = 1 << 20; return OK;  // second-level cache
    case 75: *value = (int)setting("RAILGAUGE_SHIM_COMPUTE", 9); return OK;
    case 76: *value = 0; return OK;
    // GPUDirect RDMA: "GPU memory" is memory of the process, so any NIC takes its address. Writes are seen in order.
    case 116: *value = (int)setting("RAILGAUGE_SHIM_GPUDIRECT", 0); return OK;
    case 118: *value = 200; return OK;
    default: return INVALID_VALUE;
    }
}

// Contexts. A handle is the device.

API cuDevicePrimaryCtxRetain(Device **context, int device) {
    Entered entered;
    if (device < 0 || device >= (int)shim().devices.size()) return INVALID_DEVICE;
    *context = &shim().devices[(size_t)device];
    return OK;
}

API cuDevicePrimaryCtxRelease_v2(int) { return OK; }

API cuCtxSetCurrent(Device *context) {
    current = context;
    return OK;
}

API cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer;
    return OK;
}

API cuCtxEnablePeerAccess(Device *peer, unsigned flags) {
    NEED_CONTEXT;
    Entered entered;
    if (flags || !peer || peer == current) return INVALID_VALUE;
    for (int known : current->peers)
        if (known == peer->ordinal) return PEER_ACCESS_ALREADY_ENABLED;
    current->peers.push_back(peer->ordinal);
    return OK;
}

// Code. A module is the text of its PTX; what runs is the source that the shim was built with.

struct Module {
    std::string text;
};

API cuModuleLoadDataEx(Module **module, const char *image, unsigned count, int *options, void **values) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    std::string text = image;
    if (text.find(".version") == std::string::npos) {
        for (unsigned i = 0; i < count; ++i)
            if (options[i] == 5) strcpy((char *)values[i], "CPU shim: this is no PTX");
        return INVALID_PTX;
    }
    static unsigned translation = setting("RAILGAUGE_SHIM_TRANSLATION_MS", 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(translation));
    *module = new Module{std::move(text)};
    return OK;
}

API cuModuleUnload(Module *module) {
    NEED_CONTEXT;
    Entered entered;
    shim().wait_until_idle(entered.lock);
    delete module;
    return OK;
}

API cuModuleGetFunction(const Kernel **function, Module *module, const char *name) {
    NEED_CONTEXT;
    Entered entered;
    if (module->text.find(std::string(".entry ") + name + "(") == std::string::npos) return NOT_FOUND;
    for (const Kernel &kernel : kernels()) {
        if (strcmp(kernel.name, name) != 0) continue;
        *function = &kernel;
        return OK;
    }
    return NOT_FOUND;
}

API cuFuncLoad(const Kernel *) { return OK; }

API cuFuncGetAttribute(int *value, int attribute, const Kernel *) {
    // Registers and spilled bytes: a CPU has neither.
    if (attribute != 3 && attribute != 4) return INVALID_VALUE;
    *value = 0;
    return OK;
}

API cuFuncSetAttribute(const Kernel *, int, int) { return OK; }

API cuFuncGetParamInfo(const Kernel *kernel, size_t index, size_t *offset, size_t *bytes) {
    if (index != 0) return INVALID_VALUE;
    *offset = 0;
    *bytes = kernel->parameter;
    return OK;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const Kernel *, int threads, size_t) {
    *blocks = threads > 0 && (unsigned)threads <= most_threads() ? (int)BLOCKS_PER_MULTIPROCESSOR : 0;
    return OK;
}
