// Writes test data into GPU memory.
#include "pattern.cuh"

template <class E> RG_DEVICE void rg_fill(const RgFill &fill) {
    typename E::Stored *to = (typename E::Stored *)fill.to;
    u64 stride = (u64)rg_blocks() * rg_threads();
    for (u64 i = (u64)rg_block() * rg_threads() + rg_thread(); i < fill.elements; i += stride) {
        RgPlace place = rg_place(fill.pattern, fill.first + i);
        rg_store(to + i, rg_encode<E>(rg_value(fill.pattern, place, fill.pattern.rank)));
    }
}

#define X(name, E) \
    RG_KERNEL(512, 2) rg_fill_##name(RG_PARAM(RgFill) fill) { rg_fill<E>(fill); }
RG_EACH_TYPE(X)
#undef X
