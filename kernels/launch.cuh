// The frame of a launch: a block finds its rank, waits at the gate, and the rank's last block says that it is over.
#pragma once

#include "wait.cuh"

// What a block knows about itself.
struct Place {
    RgJob job;
    u32 worker;
    u32 stop;      // not zero: leave
    u64 waited[4]; // nanoseconds, of each thread that waits
};

// Finds the rank this block works for. Called by all threads; ends with a barrier.
RG_DEVICE void find_place(const RgLaunch &launch, Place *place) {
    const RgJob *jobs = (const RgJob *)launch.jobs;
    for (u32 i = rg_thread(); i < launch.job_count; i += rg_threads()) {
        u32 first = jobs[i].first_block;
        if (rg_block() >= first && rg_block() < first + jobs[i].blocks) {
            place->job = jobs[i];
            place->worker = rg_block() - first;
            place->stop = 0;
            for (int k = 0; k < 4; ++k) place->waited[k] = 0;
        }
    }
    rg_barrier();
}

// Says that the kernel is there, waits until the host opens the gate, and takes the time.
// Called by all threads; ends with a barrier.
RG_DEVICE void pass_gate(const RgLaunch &launch, Place *place) {
    if (rg_thread() == 0) {
        RgScratch *scratch = (RgScratch *)place->job.scratch;
        RgStatus *status = (RgStatus *)place->job.status;
        Watch watch = {&launch, scratch, status};
        Stand stand = {RG_MOST_OPS, 0, place->worker, RG_NO_PORT, true};
        u64 open = launch.sequence + 1, ignored = 0;
        if (place->worker == 0) {
            if (launch.gate) {
                rg_store_release(&status->arrived, open, true);
                watch.flag((const u64 *)launch.gate, 0, open, true, stand, &place->stop, &ignored);
                rg_store_release(&scratch->go, open, false);
            }
            status->started = rg_clock();
        } else if (launch.gate) {
            watch.flag(&scratch->go, 0, open, false, stand, &place->stop, &ignored);
        }
    }
    rg_barrier();
}

// Counts this block as done; the last one of the rank tells the host. Called by all threads.
RG_DEVICE void leave(const RgLaunch &launch, Place *place) {
    rg_barrier();
    if (rg_thread() != 0) return;
    RgScratch *scratch = (RgScratch *)place->job.scratch;
    RgStatus *status = (RgStatus *)place->job.status;
    if (place->worker == 0) {
        u64 longest = 0;
        for (int k = 0; k < 4; ++k) longest = place->waited[k] > longest ? place->waited[k] : longest;
        status->waited = longest;
    }
    u64 all = (launch.sequence + 1) * place->job.blocks;
    if (rg_add(&scratch->finished, 1) + 1 == all) {
        status->ended = rg_clock();
        rg_store_release(&status->done, launch.sequence + 1, true);
    }
}
