// The low-latency protocol: 4 bytes of data and a 4-byte flag travel in one store, so no thread waits for another of its
// block and nothing is fenced. Costs twice the bytes.
//
// The flag is the number of the launch, and two halves of the buffer take turns: when a rank starts launch s it has
// finished s - 1, so all ranks have started s - 1 and finished s - 2, whose half is the one written now. That holds for
// collectives in which every rank's result depends on every rank; only those are run this way.
#pragma once

#include "element.cuh"
#include "launch.cuh"

constexpr u32 WORDS_MOST_OPS = 64;
constexpr u32 WORDS_MOST_PORTS = 32;

struct Words {
    Place place;
    RgPort ports[WORDS_MOST_PORTS];
    RgOp ops[WORDS_MOST_OPS];
};

// Takes one 4-byte word of data out of the buffer once its flag is that of this launch; whether it came.
RG_DEVICE bool take_word(const Watch &watch, const u64 *at, u32 flag, const Stand &stand, Place *place, u32 *data) {
    u64 word = rg_load_word(at);
    if ((u32)(word >> 32) != flag) {
        u64 since = rg_clock();
        for (u32 looks = 1;; ++looks) {
            word = rg_load_word(at);
            if ((u32)(word >> 32) == flag) break;
            if (looks % LOOKS == 0 && watch.over(since, stand)) return false;
            rg_pause();
        }
        if (rg_thread() == 0) place->waited[0] += rg_clock() - since;
    }
    *data = (u32)word;
    return true;
}

// What one thread handles at a time: one element, or as many as fill 4 bytes.
template <class E> struct Unit {
    typedef typename E::Stored S;
    static constexpr u32 elements = sizeof(S) < 4 ? 4 / sizeof(S) : 1;
    static constexpr u32 words = sizeof(S) < 4 ? 1 : sizeof(S) / 4;
    union {
        S element[elements];
        u32 word[words];
    };
};

template <class E, class R> RG_DEVICE void words_launch(const RgLaunch &launch, Words &shared) {
    typedef typename E::Stored S;
    typedef Unit<E> U;
    find_place(launch, &shared.place);
    const RgJob &job = shared.place.job;
    const u64 *ops = (const u64 *)job.ops, *ports = (const u64 *)job.ports;
    for (u32 i = rg_thread(); i < job.op_count * (sizeof(RgOp) / 8); i += rg_threads()) ((u64 *)shared.ops)[i] = ops[i];
    for (u32 i = rg_thread(); i < job.port_count * (sizeof(RgPort) / 8); i += rg_threads())
        ((u64 *)shared.ports)[i] = ports[i];
    pass_gate(launch, &shared.place);
    Watch watch = {&launch, (RgScratch *)job.scratch, (RgStatus *)job.status};

    const u32 worker = shared.place.worker;
    const u32 flag = (u32)(launch.sequence + 1);
    const u64 step = (u64)job.workers * rg_threads();
    // A thread that gave up passes nothing on: its peers find out by themselves, instead of going on with what is not data.
    bool stopped = shared.place.stop;
    for (u32 k = 0; k < job.op_count && !stopped; ++k) {
        const RgOp &op = shared.ops[k];
        u64 units = (op.elements + U::elements - 1) / U::elements;
        RG_ROLLED for (u64 unit = (u64)worker * rg_threads() + rg_thread(); unit < units; unit += step) {
            u64 first = unit * U::elements;
            u64 rest = op.elements - first;
            u32 count = rest < U::elements ? (u32)rest : U::elements;
            U value;
            for (u32 w = 0; w < U::words; ++w) value.word[w] = 0;
            bool has_value = false;
            if (op.flags & (RG_OWN_INPUT | RG_OWN_OUTPUT)) {
                const S *own = (const S *)(op.flags & RG_OWN_INPUT ? job.input : job.output) + op.begin + first;
                for (u32 e = 0; e < U::elements; ++e)
                    if (e < count) value.element[e] = rg_load(own + e);
                has_value = true;
            }
            for (int j = 0; j < 2; ++j) {
                if (op.source[j] == RG_NO_PORT) continue;
                const RgPort &p = shared.ports[op.source[j]];
                const u64 *at = (const u64 *)(p.data + (launch.sequence & 1) * p.half_bytes) + op.source_at[j] + unit * U::words;
                U received;
                Stand stand = {k, (u32)unit, worker, p.peer, true};
                for (u32 w = 0; w < U::words; ++w)
                    stopped = stopped || !take_word(watch, at + w, flag, stand, &shared.place, &received.word[w]);
                if (stopped) break;
                if (has_value)
                    for (u32 e = 0; e < U::elements; ++e)
                        value.element[e] = combine_one<E, R>(value.element[e], received.element[e]);
                else
                    value = received;
                has_value = true;
            }
            if (stopped) break;
            if (op.flags & RG_FINISH)
                for (u32 e = 0; e < U::elements; ++e) value.element[e] = divide_one<E>(value.element[e], job.ranks);
            // Passed on first: the peer waits for it.
            for (int j = 0; j < 2; ++j) {
                if (op.target[j] == RG_NO_PORT) continue;
                const RgPort &p = shared.ports[op.target[j]];
                u64 *at = (u64 *)(p.data + (launch.sequence & 1) * p.half_bytes) + op.target_at[j] + unit * U::words;
                for (u32 w = 0; w < U::words; ++w) rg_store_word(at + w, (u64)flag << 32 | value.word[w]);
            }
            if (op.flags & RG_KEEP) {
                S *own = (S *)job.output + op.begin + first;
                for (u32 e = 0; e < U::elements; ++e)
                    if (e < count) rg_store(own + e, value.element[e]);
            }
        }
    }
    leave(launch, &shared.place);
}
