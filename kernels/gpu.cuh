// What the kernels need of the machine, and nothing else: everything here has a second meaning on the CPU (shim/cuda_shim.h).
//
// Flags are published with release and read with acquire, at the scope of the GPU or of the whole system; the fences are
// cumulative, so one thread may publish for its block after a barrier. Words carry their own flag and need no order.
#pragma once

#include "abi.h"

#ifdef RG_SHIM
#include "shim/cuda_shim.h"
#else

#define RG_DEVICE __device__ __forceinline__
#define RG_SHARED __shared__
#define RG_KERNEL(threads, resident) extern "C" __global__ void __launch_bounds__(threads, resident)
#define RG_PARAM(type) const __grid_constant__ type
// Before a loop that gains nothing from being unrolled.
#define RG_ROLLED _Pragma("unroll 1")
// Looks at a flag between two looks at the clock and at orders to stop.
#define RG_LOOKS 512

// 16 bytes, the widest access.
struct alignas(16) RgVec {
    u32 w[4];
};

RG_DEVICE u32 rg_thread() { return threadIdx.x; }
RG_DEVICE u32 rg_threads() { return blockDim.x; }
RG_DEVICE u32 rg_block() { return blockIdx.x; }
RG_DEVICE u32 rg_blocks() { return gridDim.x; }
RG_DEVICE void rg_barrier() { __syncthreads(); }
RG_DEVICE void rg_warp_barrier() { __syncwarp(); }

RG_DEVICE u64 rg_load_acquire(const u64 *at, bool system) {
    u64 value;
    if (system)
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    else
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

RG_DEVICE void rg_store_release(u64 *at, u64 value, bool system) {
    if (system)
        asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
    else
        asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// Adds and says what was there before; orders everything before it and everything after it.
RG_DEVICE u64 rg_add(u64 *at, u64 value) {
    u64 before;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
    return before;
}

// Puts `value` there if it was zero, and says what was there before.
RG_DEVICE u64 rg_claim(u64 *at, u64 value) {
    u64 before;
    asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], 0, %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
    return before;
}

RG_DEVICE void rg_lower(u64 *at, u64 value) { atomicMin(at, value); }
RG_DEVICE void rg_count(u64 *at, u64 value) { atomicAdd(at, value); }

// A word of 8 bytes that arrives as a whole. No order with anything else.
RG_DEVICE u64 rg_load_word(const u64 *at) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

RG_DEVICE void rg_store_word(u64 *at, u64 value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// What the host may change at any time.
RG_DEVICE u32 rg_load_host(const u32 *at) {
    u32 value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// Payload: read once, so it should not push out of the first cache what is read again.
RG_DEVICE RgVec rg_load16(const void *at) {
    RgVec v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "l"(at));
    return v;
}

RG_DEVICE void rg_store16(void *at, RgVec v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}

// One element; also past the first cache, because a peer may have written it during this launch.
template <class T> RG_DEVICE T rg_load(const T *at) { return __ldcg(at); }
template <class T> RG_DEVICE void rg_store(T *at, T value) { *at = value; }

// Nanoseconds since some moment, the same on all multiprocessors.
RG_DEVICE u64 rg_clock() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Called between two looks at something another thread will change.
RG_DEVICE void rg_pause() {}

RG_DEVICE float rg_widen_f16(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

RG_DEVICE u16 rg_narrow_f16(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

RG_DEVICE float rg_widen_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }

// Rounds to nearest even. A NaN becomes the one NaN of the hardware, as the only difference to the CPU's arithmetic.
RG_DEVICE u16 rg_narrow_bf16(float value) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

RG_DEVICE float rg_as_f32(u32 bits) { return __uint_as_float(bits); }
RG_DEVICE u32 rg_bits_f32(float value) { return __float_as_uint(value); }
RG_DEVICE double rg_as_f64(u64 bits) { return __longlong_as_double((i64)bits); }
RG_DEVICE u64 rg_bits_f64(double value) { return (u64)__double_as_longlong(value); }

#endif
