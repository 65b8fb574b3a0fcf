// What gpu.cuh means on a CPU, for g++: the kernels' source runs as it is, without a GPU.
//
// A block is one thread of the CPU, its CUDA threads are fibers on it (fibers.cpp), so memory shared by a block is memory of
// a CPU thread. Payload is read and written plainly and flags with exactly the order the GPU code asks for, so
// ThreadSanitizer sees a missing release as the race that it is.
#pragma once

#include <cstring>
#include <ctime>

#define RG_DEVICE inline __attribute__((always_inline))
#define RG_SHARED static thread_local
#define RG_KERNEL(threads, resident) extern "C" void
#define RG_PARAM(type) const type
#define RG_ROLLED
// A look is a turn of all threads here, and turns take milliseconds on a busy machine.
#define RG_LOOKS 8

extern "C" {
u32 shim_thread();
u32 shim_threads();
u32 shim_block();
u32 shim_blocks();
void shim_barrier();
void shim_warp_barrier();
void shim_pause();
// Tells ThreadSanitizer that the host sees what was done up to here: it is not looking at the host's own reads.
void shim_publish();
// Whether to make the mistake that the sanitizer must find.
bool shim_forgets_release();
}

struct alignas(16) RgVec {
    u32 w[4];
};

RG_DEVICE u32 rg_thread() { return shim_thread(); }
RG_DEVICE u32 rg_threads() { return shim_threads(); }
RG_DEVICE u32 rg_block() { return shim_block(); }
RG_DEVICE u32 rg_blocks() { return shim_blocks(); }
RG_DEVICE void rg_barrier() { shim_barrier(); }
RG_DEVICE void rg_warp_barrier() { shim_warp_barrier(); }

RG_DEVICE u64 rg_load_acquire(const u64 *at, bool) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

RG_DEVICE void rg_store_release(u64 *at, u64 value, bool system) {
    if (system) shim_publish();
#ifdef RG_TSAN
    if (shim_forgets_release()) return __atomic_store_n(at, value, __ATOMIC_RELAXED);
#endif
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

RG_DEVICE u64 rg_add(u64 *at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL); }

RG_DEVICE u64 rg_claim(u64 *at, u64 value) {
    u64 before = 0;
    __atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return before;
}

RG_DEVICE void rg_lower(u64 *at, u64 value) {
    u64 seen = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

RG_DEVICE void rg_count(u64 *at, u64 value) { __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }

RG_DEVICE u64 rg_load_word(const u64 *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
RG_DEVICE void rg_store_word(u64 *at, u64 value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }
RG_DEVICE u32 rg_load_host(const u32 *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }

RG_DEVICE RgVec rg_load16(const void *at) { return *(const RgVec *)at; }
RG_DEVICE void rg_store16(void *at, RgVec v) { *(RgVec *)at = v; }
template <class T> RG_DEVICE T rg_load(const T *at) { return *at; }
template <class T> RG_DEVICE void rg_store(T *at, T value) { *at = value; }

RG_DEVICE u64 rg_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

RG_DEVICE void rg_pause() { shim_pause(); }

RG_DEVICE float rg_as_f32(u32 bits) { return __builtin_bit_cast(float, bits); }
RG_DEVICE u32 rg_bits_f32(float value) { return __builtin_bit_cast(u32, value); }
RG_DEVICE double rg_as_f64(u64 bits) { return __builtin_bit_cast(double, bits); }
RG_DEVICE u64 rg_bits_f64(double value) { return __builtin_bit_cast(u64, value); }

RG_DEVICE float rg_widen_bf16(u16 bits) { return rg_as_f32((u32)bits << 16); }

RG_DEVICE u16 rg_narrow_bf16(float value) {
    u32 bits = rg_bits_f32(value);
    if (value != value) return 0x7fff;
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Half precision is 1 sign, 5 exponent and 10 mantissa bits; what is below 2^-14 is counted in steps of 2^-24.
inline float rg_widen_f16(u16 bits) {
    u32 sign = (u32)(bits >> 15) << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 31) return rg_as_f32(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        float small = (float)mantissa * 0x1p-24f;
        return sign ? -small : small;
    }
    return rg_as_f32(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline u16 rg_narrow_f16(float value) {
    u32 bits = rg_bits_f32(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return 0x7fff;
    // From 65520 on the nearest is infinity.
    if (rest >= 0x477ff000u) return (u16)(sign | 0x7c00);
    if (rest < 0x38800000u) {
        // Adding one half makes the unit in the last place 2^-24, so the CPU rounds as it should.
        u32 steps = rg_bits_f32(rg_as_f32(rest) + 0.5f) - rg_bits_f32(0.5f);
        return (u16)(sign | steps);
    }
    u32 rounded = rest + 0xfff + (rest >> 13 & 1);
    return (u16)(sign | ((rounded - (112u << 23)) >> 13));
}
