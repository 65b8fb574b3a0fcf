// The bandwidth protocol: one worker's walk through its rank's ops, chunk by chunk.
//
// Four threads keep the books of a step (up to two ways in, two ways out): they wait for data and for room, all threads of
// the block move the chunk 16 bytes at a time, and the four publish what was done. Counts of a way run on from launch to
// launch: launch number s starts at s times what one launch moves, so nothing needs resetting between them.
#pragma once

#include "element.cuh"
#include "launch.cuh"

// 16-byte loads of each operand that are under way at the same time, per thread: as many as registers allow.
template <int operands> constexpr int IN_FLIGHT = operands == 1 ? 8 : operands == 2 ? 4 : 2;

struct Walk {
    Place place;
    RgPort ports[RG_MOST_PORTS];
    u64 count[RG_MOST_PORTS];  // chunks moved so far
    u64 seen[RG_MOST_PORTS];   // the other end's count, as last read
    u64 from[3];               // operands and targets of the chunk in hand
    u64 to[3];
    RgOp ops[RG_MOST_OPS];
};

// Chunks of `op` that belong to `worker`.
RG_DEVICE u64 chunks_of(const RgOp &op, const RgJob &job, u32 worker) {
    u64 cells = op.elements ? (op.skew + op.elements + job.chunk - 1) / job.chunk : 0;
    return cells > worker ? (cells - worker + job.workers - 1) / job.workers : 0;
}

// Chunks that one launch moves through a port, of one worker.
RG_DEVICE u64 chunks_through(const Walk &walk, u32 port, u32 worker) {
    u64 total = 0;
    RG_ROLLED for (u32 k = 0; k < walk.place.job.op_count; ++k) {
        const RgOp &op = walk.ops[k];
        if (op.source[0] == port || op.source[1] == port || op.target[0] == port || op.target[1] == port)
            total += chunks_of(op, walk.place.job, worker);
    }
    return total;
}

// Combines `count` elements of the N operands in hand and writes them to all targets.
template <class E, class R, int N> RG_DEVICE void move_chunk(const Walk &walk, u32 targets, u32 count, u32 divisor) {
    typedef typename E::Stored S;
    constexpr u32 width = 16 / sizeof(S);
    constexpr int flight = IN_FLIGHT<N>;
    const char *from[N];
    for (int n = 0; n < N; ++n) from[n] = (const char *)walk.from[n];
    u32 phase = (u32)walk.from[0] & 15;
    bool aligned = true;
    for (int n = 1; n < N; ++n) aligned &= (walk.from[n] & 15) == phase;
    RG_ROLLED for (u32 t = 0; t < targets; ++t) aligned &= (walk.to[t] & 15) == phase;
    u32 front = aligned ? (phase ? (16 - phase) / (u32)sizeof(S) : 0) : count;
    if (front > count) front = count;
    const u32 vectors = (count - front) / width;
    const u32 skipped = front * (u32)sizeof(S);
    const u32 threads = rg_threads();

    u32 done = rg_thread();
    // Divisions are for the plain loop below: they are few, and their code is long.
    for (; !divisor && done + (flight - 1) * threads < vectors; done += flight * threads) {
        RgVec value[N][flight];
        for (int n = 0; n < N; ++n)
            for (int i = 0; i < flight; ++i) value[n][i] = rg_load16(from[n] + (skipped + (done + i * threads) * 16));
        for (int i = 0; i < flight; ++i)
            for (int n = 1; n < N; ++n) value[0][i] = combine<E, R>(value[0][i], value[n][i]);
        RG_ROLLED for (u32 t = 0; t < targets; ++t) {
            char *to = (char *)walk.to[t];
            for (int i = 0; i < flight; ++i) rg_store16(to + (skipped + (done + i * threads) * 16), value[0][i]);
        }
    }
    RG_ROLLED for (; done < vectors; done += threads) {
        u32 at = skipped + done * 16;
        RgVec value = rg_load16(from[0] + at);
        for (int n = 1; n < N; ++n) value = combine<E, R>(value, rg_load16(from[n] + at));
        if (divisor) value = divide<E>(value, divisor);
        RG_ROLLED for (u32 t = 0; t < targets; ++t) rg_store16((char *)walk.to[t] + at, value);
    }
    // What lies before the first and behind the last 16 bytes, or everything where operands are aligned differently.
    const u32 rest = count - vectors * width;
    RG_ROLLED for (u32 k = rg_thread(); k < rest; k += threads) {
        u32 at = k < front ? k : k + vectors * width;
        S value = rg_load((const S *)from[0] + at);
        for (int n = 1; n < N; ++n) value = combine_one<E, R>(value, rg_load((const S *)from[n] + at));
        if (divisor) value = divide_one<E>(value, divisor);
        RG_ROLLED for (u32 t = 0; t < targets; ++t) rg_store((S *)walk.to[t] + at, value);
    }
}

// Where a chunk lies that goes through a port. `at` is its place in the other end's buffer, `in_grid` in the grid.
template <class E> RG_DEVICE u64 through(const Walk &walk, u32 port, u64 at, u64 in_grid) {
    typedef typename E::Stored S;
    const RgPort &p = walk.ports[port];
    if (p.mode != RG_FIFO) return p.data + at * sizeof(S);
    u64 slot = (u64)walk.place.worker * p.slots + walk.count[port] % p.slots;
    return p.data + slot * p.slot_bytes + in_grid * sizeof(S) % 16;
}

template <class E, class R> RG_DEVICE void walk_launch(const RgLaunch &launch, Walk &walk) {
    typedef typename E::Stored S;
    find_place(launch, &walk.place);
    const RgJob &job = walk.place.job;
    const u32 worker = walk.place.worker;
    const u32 thread = rg_thread();
    // A rank that moves nothing itself watches the ways of all workers from one block.
    const u32 watched = job.blocks < job.workers ? job.workers : 1;

    const u64 *ops = (const u64 *)job.ops, *ports = (const u64 *)job.ports;
    for (u32 i = thread; i < job.op_count * (sizeof(RgOp) / 8); i += rg_threads()) ((u64 *)walk.ops)[i] = ops[i];
    for (u32 i = thread; i < job.port_count * (sizeof(RgPort) / 8); i += rg_threads()) ((u64 *)walk.ports)[i] = ports[i];
    pass_gate(launch, &walk.place);
    Watch watch = {&launch, (RgScratch *)job.scratch, (RgStatus *)job.status};

    // The peer may read our input, and write our output, from now on.
    for (u32 i = thread; i < job.port_count * watched; i += rg_threads()) {
        u32 port = i % job.port_count, whose = watched == 1 ? worker : i / job.port_count;
        const RgPort &p = walk.ports[port];
        u64 each = chunks_through(walk, port, whose);
        if (watched == 1) {
            walk.count[port] = launch.sequence * each;
            walk.seen[port] = 0;
        }
        bool incoming = p.flags & RG_INCOMING, system = p.flags & RG_SYSTEM;
        u64 *flag = (u64 *)(p.mode == RG_PUSH && incoming ? p.head : p.mode == RG_PULL && !incoming ? p.tail : 0);
        if (flag && each) rg_store_release(flag + whose * RG_FLAG_STRIDE, (launch.sequence + 1) * each, system);
    }
    rg_barrier();

    // Looked at right after a barrier only, so that all threads of the block see the same.
    bool stopped = walk.place.stop;
    const u32 iterations = watched == 1 ? job.iterations : 0;
    for (u32 i = 0; i < iterations && !stopped; ++i) {
        for (u32 k = 0; k < job.op_count; ++k) {
            const RgOp &op = walk.ops[k];
            if (i < op.lag) continue;
            u64 cell = (u64)(i - op.lag) * job.workers + worker;
            u64 first = cell * job.chunk, last = first + job.chunk;
            if (first < op.skew) first = op.skew;
            if (last > op.skew + op.elements) last = op.skew + op.elements;
            if (first >= last) continue;
            const u64 offset = first - op.skew, start = op.begin + offset;

            // This thread's port in this step, if it is one of the four.
            u32 mine = thread < 2 ? op.source[thread] : thread < 4 ? op.target[thread - 2] : RG_NO_PORT;
            if (op.flags & RG_COUNT_ONLY) {
                if (mine != RG_NO_PORT) ++walk.count[mine];
                rg_warp_barrier();
                continue;
            }
            if (mine != RG_NO_PORT) {
                const RgPort &p = walk.ports[mine];
                bool incoming = thread < 2;
                u64 room = incoming ? 0 : p.slots, wanted = walk.count[mine] + 1;
                if (walk.seen[mine] + room < wanted) {
                    const u64 *flag = (const u64 *)(incoming ? p.tail : p.head) + worker * RG_FLAG_STRIDE;
                    Stand stand = {k, i - op.lag, worker, p.peer, incoming};
                    walk.seen[mine] = watch.flag(flag, room, wanted, p.flags & RG_SYSTEM, stand, &walk.place.stop,
                                                 &walk.place.waited[thread]);
                }
            }
            const u32 owns = op.flags & (RG_OWN_INPUT | RG_OWN_OUTPUT) ? 1 : 0, keeps = op.flags & RG_KEEP ? 1 : 0;
            const u32 operands = owns + (op.source[0] != RG_NO_PORT) + (op.source[1] != RG_NO_PORT);
            const u32 targets = keeps + (op.target[0] != RG_NO_PORT) + (op.target[1] != RG_NO_PORT);
            if (mine != RG_NO_PORT) {
                const u32 second = thread & 1;
                if (thread < 2)
                    walk.from[owns + (second && op.source[0] != RG_NO_PORT)] =
                        through<E>(walk, mine, op.source_at[second] + offset, first);
                else
                    walk.to[keeps + (second && op.target[0] != RG_NO_PORT)] =
                        through<E>(walk, mine, op.target_at[second] + offset, first);
            }
            if (thread == 4 % rg_threads()) {
                if (owns) walk.from[0] = (op.flags & RG_OWN_INPUT ? job.input : job.output) + start * sizeof(S);
                if (keeps) walk.to[0] = job.output + start * sizeof(S);
            }
            rg_barrier();
            stopped = walk.place.stop;
            if (stopped) break;
            u32 divisor = op.flags & RG_FINISH ? job.ranks : 0;
            if (operands == 1)
                move_chunk<E, R, 1>(walk, targets, (u32)(last - first), divisor);
            else if (operands == 2)
                move_chunk<E, R, 2>(walk, targets, (u32)(last - first), divisor);
            else
                move_chunk<E, R, 3>(walk, targets, (u32)(last - first), divisor);
            rg_barrier();

            if (mine != RG_NO_PORT) {
                const RgPort &p = walk.ports[mine];
                bool incoming = thread < 2;
                u64 count = ++walk.count[mine];
                bool tells = !incoming || p.mode == RG_FIFO || (p.flags & RG_DRAIN);
                u64 *flag = (u64 *)(incoming ? p.head : p.tail) + worker * RG_FLAG_STRIDE;
                if (tells) rg_store_release(flag, count, p.flags & RG_SYSTEM);
            }
            rg_warp_barrier();
        }
    }

    // Stay until the peers have put everything in place and, where that is not implied, have read everything.
    rg_barrier();
    if (!stopped) {
        for (u32 i = thread; i < job.port_count * watched; i += rg_threads()) {
            u32 port = i % job.port_count, whose = watched == 1 ? worker : i / job.port_count;
            const RgPort &p = walk.ports[port];
            bool incoming = p.flags & RG_INCOMING;
            u64 *flag = (u64 *)(p.mode == RG_PUSH && incoming                           ? p.tail
                                : p.mode == RG_PULL && !incoming && (p.flags & RG_DRAIN) ? p.head
                                                                                         : 0);
            if (!flag) continue;
            u64 all = (launch.sequence + 1) * chunks_through(walk, port, whose);
            Stand stand = {RG_MOST_OPS, 0, whose, p.peer, incoming};
            u64 ignored = 0;
            if (all) watch.flag(flag + whose * RG_FLAG_STRIDE, 0, all, p.flags & RG_SYSTEM, stand, &walk.place.stop, &ignored);
        }
    }
    leave(launch, &walk.place);
}
