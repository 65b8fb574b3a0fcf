// Compares GPU memory with what a collective must yield, and finds the first element that differs.
#include "pattern.cuh"

template <int bytes> struct Bits;
template <> struct Bits<1> { typedef u8 Word; };
template <> struct Bits<2> { typedef u16 Word; };
template <> struct Bits<4> { typedef u32 Word; };
template <> struct Bits<8> { typedef u64 Word; };

// Whether two elements have the same bits: zero and minus zero differ, and a NaN equals itself.
template <class S> RG_DEVICE bool rg_same(S a, S b) {
    typedef typename Bits<sizeof(S)>::Word Word;
    return __builtin_bit_cast(Word, a) == __builtin_bit_cast(Word, b);
}

template <class E> RG_DEVICE void rg_verify(const RgVerify &verify) {
    typedef typename E::Stored S;
    const S *found = (const S *)verify.found;
    RgMismatch *result = (RgMismatch *)verify.result;
    u64 stride = (u64)rg_blocks() * rg_threads();
    u64 first = ~0ull, wrong = 0;
    for (u64 i = (u64)rg_block() * rg_threads() + rg_thread(); i < verify.elements; i += stride) {
        u32 total = rg_reduction(verify.pattern, rg_place(verify.pattern, verify.first + i), verify.op);
        S expected = verify.op == RG_AVG ? Quotient<E>::of(total, verify.pattern.ranks) : rg_encode<E>(total);
        if (rg_same(rg_load(found + i), expected)) continue;
        if (wrong == 0) first = i;
        wrong += 1;
    }
    if (wrong == 0) return;
    rg_lower(&result->element, first);
    rg_count(&result->wrong, wrong);
}

#define X(name, E) \
    RG_KERNEL(512, 2) rg_verify_##name(RG_PARAM(RgVerify) verify) { rg_verify<E>(verify); }
RG_EACH_TYPE(X)
#undef X
