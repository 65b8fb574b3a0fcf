// Test data: what src/device/pattern.rs defines, drawn for one element at a time, and what reductions of it must yield.
//
// Values are small integers that every type holds exactly, so the answer is calculated in integers and written in the
// element type at the end, as src/collective/oracle.rs does it.
#pragma once

#include "element.cuh"

// Elements hashed with one key.
constexpr u64 RG_SPAN = 1024;

// One step of the SplitMix64 generator.
RG_DEVICE u64 rg_mix(u64 state) {
    u64 x = state + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// The word of a sequence at a place of a span; `span` is the key of the span without the sequence.
RG_DEVICE u32 rg_draw(u64 span, u64 whose, u32 lane) {
    u64 key = rg_mix(span ^ whose);
    u32 factor = (u32)(key >> 32) | 1;
    u32 x = (u32)key + lane * 0x9e3779b9u;
    x = (x ^ (x >> 15)) * factor;
    return x ^ (x >> 16);
}

// An element of a pattern: what all its ranks share.
struct RgPlace {
    u64 span;
    u32 lane;
};

RG_DEVICE RgPlace rg_place(const RgPattern &pattern, u64 element) {
    u64 key = rg_mix(rg_mix(rg_mix(pattern.seed) ^ pattern.iteration) ^ (element / RG_SPAN));
    return {key, (u32)(element % RG_SPAN)};
}

// The value of one rank there.
RG_DEVICE u32 rg_value(const RgPattern &pattern, const RgPlace &place, u32 rank) {
    u32 value = rg_draw(place.span, 2 * (u64)rank, place.lane) & pattern.mask;
    if (pattern.turns > 1) {
        u32 slot = rank % pattern.slots, turn = rank / pattern.slots;
        u32 drawn = rg_draw(place.span, 2 * (u64)slot + 1, place.lane) & (pattern.turns - 1);
        if (drawn != turn) value = 0;
    }
    return pattern.least + value;
}

// The reduction over all ranks of the pattern; averages are sums still.
RG_DEVICE u32 rg_reduction(const RgPattern &pattern, const RgPlace &place, u32 op) {
    u32 total = rg_value(pattern, place, pattern.rank);
    for (u32 i = 1; i < pattern.ranks; ++i) {
        u32 value = rg_value(pattern, place, pattern.rank + i);
        switch (op) {
        case RG_PROD: total *= value; break;
        case RG_MIN: total = value < total ? value : total; break;
        case RG_MAX: total = value > total ? value : total; break;
        default: total += value;
        }
    }
    return total;
}

// An exact integer in the element type.
template <class E> RG_DEVICE typename E::Stored rg_encode(u32 value) {
    return E::narrow((typename E::Wide)(i32)value);
}

// A quotient on its way to a half precision: cut to 32 bits so that rounding it again is as good as rounding it once.
// What was cut off is kept as an odd last bit.
RG_DEVICE float rg_cut(double quotient) {
    float near = (float)quotient;
    if ((double)near == quotient) return near;
    u32 bits = rg_bits_f32(near);
    if ((double)near > quotient) bits -= 1;
    return rg_as_f32(bits | 1);
}

// A sum divided by the number of ranks, rounded once.
template <class E> struct Quotient {
    RG_DEVICE static typename E::Stored of(u32 sum, u32 ranks) { return rg_encode<E>(sum / ranks); }
};
template <> struct Quotient<F64> {
    RG_DEVICE static double of(u32 sum, u32 ranks) { return (double)sum / (double)ranks; }
};
template <> struct Quotient<F32> {
    RG_DEVICE static float of(u32 sum, u32 ranks) { return (float)((double)sum / (double)ranks); }
};
template <> struct Quotient<F16> {
    RG_DEVICE static u16 of(u32 sum, u32 ranks) { return F16::narrow(rg_cut((double)sum / (double)ranks)); }
};
template <> struct Quotient<Bf16> {
    RG_DEVICE static u16 of(u32 sum, u32 ranks) { return Bf16::narrow(rg_cut((double)sum / (double)ranks)); }
};

// Every element type, by its name on the command line.
#define RG_EACH_TYPE(X) \
    X(f32, F32) X(f64, F64) X(f16, F16) X(bf16, Bf16) X(i32, I32) X(i64, I64) X(u32, U32) X(u8, U8)
