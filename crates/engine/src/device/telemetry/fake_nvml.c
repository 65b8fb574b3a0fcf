/* A libnvidia-ml.so.1 for tests: three GPUs whose sensors say fixed things. Values are chosen so that no two sensors say
 * the same, and a call for the wrong thing is noticed. Functions that are not here are missing from the library, as from
 * an old one. */

#include <stdint.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15 };
enum { HEALTHY = 1, FALLEN = 2, PLAIN = 3 };

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, result;
    union {
        double real;
        unsigned small;
        unsigned long long large;
    } value;
} FieldValue;

/* What every call on this GPU answers, other than the healthy one. */
static int state(uintptr_t gpu) {
    return gpu == HEALTHY ? OK : gpu == FALLEN ? LOST : NOT_SUPPORTED;
}

static int say(uintptr_t gpu, unsigned *out, unsigned value) {
    if (state(gpu) == OK) *out = value;
    return state(gpu);
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    strncpy(out, "580.95.05", length);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, uintptr_t *gpu) {
    *gpu = !strcmp(uuid, "GPU-healthy") ? HEALTHY : !strcmp(uuid, "GPU-fallen") ? FALLEN : 0;
    return *gpu ? OK : NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, uintptr_t *gpu) {
    *gpu = PLAIN;
    return strcmp(bus, "0000:03:00.0") ? NOT_FOUND : OK;
}

/* Clocks: graphics 0, SM 1, memory 2. */
int nvmlDeviceGetClockInfo(uintptr_t gpu, unsigned clock, unsigned *mhz) { return say(gpu, mhz, 1700 + clock); }
int nvmlDeviceGetMaxClockInfo(uintptr_t gpu, unsigned clock, unsigned *mhz) { return say(gpu, mhz, 1980 + clock); }
int nvmlDeviceGetTemperature(uintptr_t gpu, unsigned sensor, unsigned *c) { return say(gpu, c, 51 + sensor); }
/* Thresholds: shutdown 0, slowdown 1. */
int nvmlDeviceGetTemperatureThreshold(uintptr_t gpu, unsigned which, unsigned *c) { return say(gpu, c, 86 + which); }
int nvmlDeviceGetPowerUsage(uintptr_t gpu, unsigned *mw) { return say(gpu, mw, 412345); }
int nvmlDeviceGetEnforcedPowerLimit(uintptr_t gpu, unsigned *mw) { return say(gpu, mw, 700000); }
int nvmlDeviceGetCurrPcieLinkGeneration(uintptr_t gpu, unsigned *out) { return say(gpu, out, 4); }
int nvmlDeviceGetCurrPcieLinkWidth(uintptr_t gpu, unsigned *out) { return say(gpu, out, 8); }
int nvmlDeviceGetMaxPcieLinkGeneration(uintptr_t gpu, unsigned *out) { return say(gpu, out, 5); }
int nvmlDeviceGetMaxPcieLinkWidth(uintptr_t gpu, unsigned *out) { return say(gpu, out, 16); }
int nvmlDeviceGetPcieReplayCounter(uintptr_t gpu, unsigned *out) { return say(gpu, out, 7); }

int nvmlDeviceGetCurrentClocksThrottleReasons(uintptr_t gpu, unsigned long long *reasons) {
    *reasons = 0x4 | 0x20 | 0x8000; /* power cap, software thermal, and one from the future */
    return state(gpu);
}

/* Kinds: corrected 0, uncorrected 1. Times: since the driver was loaded 0, for ever 1. */
int nvmlDeviceGetTotalEccErrors(uintptr_t gpu, unsigned kind, unsigned since, unsigned long long *out) {
    *out = 30 + 10 * kind + since;
    return state(gpu);
}

/* Numbers as of driver 580.82: 269 to 271 are what 251 to 253 were before. */
int nvmlDeviceGetFieldValues(uintptr_t gpu, int count, FieldValue *values) {
    if (state(gpu) == LOST) return LOST;
    for (int i = 0; i < count; i++) {
        FieldValue *v = &values[i];
        v->result = state(gpu);
        v->type = 3; /* unsigned long long */
        switch (v->field) {
        case 82: v->type = 1, v->value.small = 63; break;
        case 74: v->value.large = 1000; break;
        case 269: v->value.large = 3000; break;
        case 270: v->value.large = 4000; break;
        case 271: v->value.large = 5000; break;
        default: v->result = NOT_SUPPORTED;
        }
    }
    return OK;
}

/* Three links; the middle one is down. */
int nvmlDeviceGetNvLinkState(uintptr_t gpu, unsigned link, unsigned *up) {
    if (state(gpu) == OK && link > 2) return INVALID;
    *up = link != 1;
    return state(gpu);
}

/* Counters: replay 0, recovery 1, CRC of flits 2, CRC of data 3, of which the last is not there. */
int nvmlDeviceGetNvLinkErrorCounter(uintptr_t gpu, unsigned link, unsigned counter, unsigned long long *out) {
    *out = 100 * (counter + 1) + link;
    return counter == 3 ? NOT_SUPPORTED : state(gpu);
}

/* What GPUs are. */
static int word(uintptr_t gpu, char *out, unsigned length, const char *text) {
    if (state(gpu) == OK) strncpy(out, text, length);
    return state(gpu);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    strncpy(out, "13.580.95.05", length);
    return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    *out = 13000;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 3;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, uintptr_t *gpu) {
    *gpu = index + 1;
    return OK;
}

int nvmlDeviceGetName(uintptr_t gpu, char *out, unsigned length) { return word(gpu, out, length, "NVIDIA H200"); }
int nvmlDeviceGetUUID(uintptr_t gpu, char *out, unsigned length) { return word(gpu, out, length, "GPU-healthy"); }
int nvmlDeviceGetSerial(uintptr_t gpu, char *out, unsigned length) { return word(gpu, out, length, "1650924000001"); }
int nvmlDeviceGetBoardPartNumber(uintptr_t gpu, char *out, unsigned length) {
    return word(gpu, out, length, "692-2G520-0280-501");
}
int nvmlDeviceGetVbiosVersion(uintptr_t gpu, char *out, unsigned length) {
    return word(gpu, out, length, "96.00.A5.00.01");
}
int nvmlDeviceGetInforomImageVersion(uintptr_t gpu, char *out, unsigned length) {
    return word(gpu, out, length, "G520.0280.00.01");
}
int nvmlDeviceGetGspFirmwareVersion(uintptr_t gpu, char *out) { return word(gpu, out, 16, "580.95.05"); }
int nvmlDeviceGetEccMode(uintptr_t gpu, unsigned *now, unsigned *next) {
    *now = *next = 1;
    return state(gpu);
}
int nvmlDeviceGetGpuFabricInfo(uintptr_t gpu, void *info) {
    memset(info, 0, 28);
    ((unsigned char *)info)[24] = 3; /* after 16 bytes of name, a status and a clique: completed */
    return state(gpu);
}
