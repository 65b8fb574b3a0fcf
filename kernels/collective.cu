// The kernels of one element type: both protocols with each operator.
//
//     nvcc -DRG_TYPE=F32 -DRG_NAME=f32 ...
//
// An average is a sum whose last step divides.

#include "walk.cuh"
#include "words.cuh"

// Threads of a block, and blocks that share a multiprocessor.
#define RG_BLOCK 512
#define RG_RESIDENT 2

#define RG_JOIN_(a, b, c) a##b##c
#define RG_JOIN(a, b, c) RG_JOIN_(a, b, c)

#define RG_KERNELS(operator, suffix)                                                                     \
    RG_KERNEL(RG_BLOCK, RG_RESIDENT) RG_JOIN(rg_walk_, RG_NAME, suffix)(RG_PARAM(RgLaunch) launch) {     \
        RG_SHARED Walk walk;                                                                             \
        walk_launch<RG_TYPE, operator>(launch, walk);                                                    \
    }                                                                                                    \
    RG_KERNEL(RG_BLOCK, RG_RESIDENT) RG_JOIN(rg_words_, RG_NAME, suffix)(RG_PARAM(RgLaunch) launch) {    \
        RG_SHARED Words words;                                                                           \
        words_launch<RG_TYPE, operator>(launch, words);                                                  \
    }

RG_KERNELS(Sum, _sum)
RG_KERNELS(Prod, _prod)
RG_KERNELS(Min, _min)
RG_KERNELS(Max, _max)
