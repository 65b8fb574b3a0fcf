// The element types and the operators on them, one element or 16 bytes at a time.
//
// Arithmetic is the CPU's (src/device/element.rs), bit for bit: half precisions are calculated in 32 bits and rounded to
// nearest even after every operation, integers wrap, the smaller and the larger are found by plain comparison, an average
// divides once.
#pragma once

#include "gpu.cuh"

// Stored: what lies in memory. Wide: what is calculated with.
template <class W> struct Same {
    typedef W Stored;
    typedef W Wide;
    RG_DEVICE static Wide widen(Stored x) { return x; }
    RG_DEVICE static Stored narrow(Wide x) { return x; }
};

struct F32 : Same<float> {
    RG_DEVICE static float add(float a, float b) { return a + b; }
    RG_DEVICE static float multiply(float a, float b) { return a * b; }
    RG_DEVICE static float divide(float a, u32 n) { return a / (float)n; }
};

struct F64 : Same<double> {
    RG_DEVICE static double add(double a, double b) { return a + b; }
    RG_DEVICE static double multiply(double a, double b) { return a * b; }
    RG_DEVICE static double divide(double a, u32 n) { return a / (double)n; }
};

struct F16 : F32 {
    typedef u16 Stored;
    RG_DEVICE static float widen(u16 x) { return rg_widen_f16(x); }
    RG_DEVICE static u16 narrow(float x) { return rg_narrow_f16(x); }
};

struct Bf16 : F32 {
    typedef u16 Stored;
    RG_DEVICE static float widen(u16 x) { return rg_widen_bf16(x); }
    RG_DEVICE static u16 narrow(float x) { return rg_narrow_bf16(x); }
};

// Integers wrap: calculated without a sign, which in two's complement gives the same bits.
template <class I, class U> struct Integer : Same<I> {
    RG_DEVICE static I add(I a, I b) { return (I)((U)a + (U)b); }
    RG_DEVICE static I multiply(I a, I b) { return (I)((U)a * (U)b); }
    RG_DEVICE static I divide(I a, u32 n) { return (I)((i64)a / (i64)n); }
};

struct I32 : Integer<i32, u32> {};
struct I64 : Integer<i64, u64> {};
struct U32 : Integer<u32, u32> {};
struct U8 : Integer<u8, u32> {};

struct Sum {
    template <class E> RG_DEVICE static typename E::Wide apply(typename E::Wide a, typename E::Wide b) {
        return E::add(a, b);
    }
};

struct Prod {
    template <class E> RG_DEVICE static typename E::Wide apply(typename E::Wide a, typename E::Wide b) {
        return E::multiply(a, b);
    }
};

struct Min {
    template <class E> RG_DEVICE static typename E::Wide apply(typename E::Wide a, typename E::Wide b) {
        return b < a ? b : a;
    }
};

struct Max {
    template <class E> RG_DEVICE static typename E::Wide apply(typename E::Wide a, typename E::Wide b) {
        return b > a ? b : a;
    }
};

template <class E, class R> RG_DEVICE typename E::Stored combine_one(typename E::Stored a, typename E::Stored b) {
    return E::narrow(R::template apply<E>(E::widen(a), E::widen(b)));
}

template <class E> RG_DEVICE typename E::Stored divide_one(typename E::Stored a, u32 n) {
    return E::narrow(E::divide(E::widen(a), n));
}

// Elements packed into 32-bit words, lowest first, as they lie in memory.
template <class E, int bytes = sizeof(typename E::Stored)> struct Packed;

template <class E> struct Packed<E, 4> {
    typedef typename E::Stored S;
    RG_DEVICE static S of(u32 w) { return __builtin_bit_cast(S, w); }
    template <class F> RG_DEVICE static void each(RgVec &v, F f) {
        for (int i = 0; i < 4; ++i) v.w[i] = __builtin_bit_cast(u32, f(of(v.w[i]), i));
    }
    RG_DEVICE static S at(const RgVec &v, int i) { return of(v.w[i]); }
};

template <class E> struct Packed<E, 8> {
    typedef typename E::Stored S;
    RG_DEVICE static S at(const RgVec &v, int i) {
        return __builtin_bit_cast(S, (u64)v.w[2 * i] | (u64)v.w[2 * i + 1] << 32);
    }
    template <class F> RG_DEVICE static void each(RgVec &v, F f) {
        for (int i = 0; i < 2; ++i) {
            u64 bits = __builtin_bit_cast(u64, f(at(v, i), i));
            v.w[2 * i] = (u32)bits;
            v.w[2 * i + 1] = (u32)(bits >> 32);
        }
    }
};

template <class E> struct Packed<E, 2> {
    typedef typename E::Stored S;
    RG_DEVICE static S at(const RgVec &v, int i) { return (S)(v.w[i / 2] >> (i % 2 * 16)); }
    template <class F> RG_DEVICE static void each(RgVec &v, F f) {
        for (int i = 0; i < 4; ++i) {
            u32 low = f(at(v, 2 * i), 2 * i), high = f(at(v, 2 * i + 1), 2 * i + 1);
            v.w[i] = low | high << 16;
        }
    }
};

template <class E> struct Packed<E, 1> {
    typedef typename E::Stored S;
    RG_DEVICE static S at(const RgVec &v, int i) { return (S)(v.w[i / 4] >> (i % 4 * 8)); }
    template <class F> RG_DEVICE static void each(RgVec &v, F f) {
        for (int i = 0; i < 4; ++i) {
            u32 word = 0;
            for (int k = 0; k < 4; ++k) word |= (u32)f(at(v, 4 * i + k), 4 * i + k) << (8 * k);
            v.w[i] = word;
        }
    }
};

template <class E, class R> RG_DEVICE RgVec combine(RgVec a, const RgVec &b) {
    Packed<E>::each(a, [&](typename E::Stored x, int i) { return combine_one<E, R>(x, Packed<E>::at(b, i)); });
    return a;
}

template <class E> RG_DEVICE RgVec divide(RgVec a, u32 n) {
    Packed<E>::each(a, [&](typename E::Stored x, int) { return divide_one<E>(x, n); });
    return a;
}
