// Waiting that always ends: with what was waited for, at the deadline, or when the run is given up.
//
// The first thread of a rank that gives up says where it stood and tells the rank's other blocks to stop.
#pragma once

#include "gpu.cuh"

// Looks between two checks for the deadline and for orders to stop; those cost a trip to host memory.
constexpr u32 LOOKS = RG_LOOKS;

// Where a thread stands when it has to wait.
struct Stand {
    u32 op;
    u32 chunk;
    u32 worker;
    u32 peer;
    bool incoming;
};

struct Watch {
    const RgLaunch *launch;
    RgScratch *scratch;
    RgStatus *status;

    // Whether to give up after having stood since `since`; says why if this is the first of the rank to do so.
    RG_DEVICE bool over(u64 since, const Stand &stand) const {
        if (rg_load_acquire(&scratch->stop, false) != 0) return true;
        u64 now = rg_clock();
        bool aborted = rg_load_host((const u32 *)launch->abort) != 0;
        if (!aborted && now - since < launch->deadline) return false;
        if (rg_claim(&scratch->stop, 1) == 0) {
            status->op = stand.op;
            status->chunk = stand.chunk;
            status->worker = stand.worker;
            status->peer = stand.peer;
            status->incoming = stand.incoming;
            status->stood = now - since;
            status->failed = aborted ? RG_ABORTED : RG_DEADLINE;
        }
        return true;
    }

    // Waits until the flag plus `bonus` is at least `wanted`, and returns the flag; or sets `stop`. `waited` grows by the
    // time it took.
    RG_DEVICE u64 flag(const u64 *at, u64 bonus, u64 wanted, bool system, const Stand &stand, u32 *stop, u64 *waited) const {
        u64 seen = rg_load_acquire(at, system);
        if (seen + bonus >= wanted) return seen;
        u64 since = rg_clock();
        for (u32 looks = 1;; ++looks) {
            seen = rg_load_acquire(at, system);
            if (seen + bonus >= wanted) break;
            if (looks % LOOKS == 0 && over(since, stand)) {
                *stop = 1;
                break;
            }
            rg_pause();
        }
        *waited += rg_clock() - since;
        return seen;
    }
};
