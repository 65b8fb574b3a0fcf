// A stand-in for NCCL on the CPU shim, for tests of what is around NCCL: ranks of one process, in order, right or not at all.
//
// A call returns when all ranks have made theirs and the data is in place, which is one of the things NCCL may do. Nothing of
// NCCL's speed or structure is here. What tests ask for by environment:
//
//     RG_NCCL_VERSION=22809   the version it says it is
//     RG_NCCL_HANG=1          rank 1 never makes its third call; it returns when its communicator is aborted
//     RG_NCCL_FLIP=1          one bit of what rank 1 receives is wrong
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

enum Result { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum Kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE };

struct UniqueId {
    char internal[128];
};

struct Call {
    Kind kind;
    const char *from;
    char *to;
    size_t count;
    int type, op, other; // other: the root, or the peer
};

// Ranks that meet.
struct Room {
    std::mutex mutex;
    std::condition_variable changed;
    int ranks = 0, arrived = 0, joined = 0;
    uint64_t round = 0;
    std::vector<std::vector<Call>> calls;
    bool aborted = false;
    int result = SUCCESS;
};

struct Comm {
    std::shared_ptr<Room> room;
    int rank;
    int made = 0;
};

static std::mutex rooms_mutex;
static std::map<std::string, std::shared_ptr<Room>> rooms;

static thread_local int group_depth = 0;
static thread_local Comm *group_comm = nullptr;
static thread_local std::vector<Call> group_calls;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static size_t size_of(int type) {
    switch (type) {
    case 1: return 1;
    case 6: case 9: return 2;
    case 2: case 3: case 7: return 4;
    case 4: case 8: return 8;
    default: return 0;
    }
}

template <class T> static void combine(std::vector<const char *> inputs, char *output, size_t count, int op) {
    std::vector<T> result(count);
    for (size_t i = 0; i < count; i++) {
        T value = ((const T *)inputs[0])[i];
        for (size_t rank = 1; rank < inputs.size(); rank++) {
            T next = ((const T *)inputs[rank])[i];
            switch (op) {
            case 0: case 4: value = value + next; break;
            case 1: value = value * next; break;
            case 2: value = next > value ? next : value; break;
            default: value = next < value ? next : value;
            }
        }
        result[i] = op == 4 ? (T)(value / (T)inputs.size()) : value;
    }
    memcpy(output, result.data(), count * sizeof(T));
}

static int reduce(const std::vector<const char *> &inputs, char *output, size_t count, int type, int op) {
    switch (type) {
    case 1: combine<uint8_t>(inputs, output, count, op); return SUCCESS;
    case 2: combine<int32_t>(inputs, output, count, op); return SUCCESS;
    case 3: combine<uint32_t>(inputs, output, count, op); return SUCCESS;
    case 4: combine<int64_t>(inputs, output, count, op); return SUCCESS;
    case 7: combine<float>(inputs, output, count, op); return SUCCESS;
    case 8: combine<double>(inputs, output, count, op); return SUCCESS;
    default: return INVALID_ARGUMENT; // halves are not needed here
    }
}

// Everything all ranks asked for, done at once. Inputs are set aside first, so that in place works in any order.
static int perform(Room &room) {
    struct Aside {
        std::vector<std::vector<char>> data;
    };
    std::vector<Aside> aside(room.ranks);
    for (int rank = 0; rank < room.ranks; rank++)
        for (const Call &call : room.calls[rank]) {
            size_t blocks = call.kind == REDUCE_SCATTER ? room.ranks : 1;
            size_t bytes = call.kind == RECEIVE ? 0 : call.count * blocks * size_of(call.type);
            aside[rank].data.emplace_back(call.from, call.from + bytes);
        }
    for (int rank = 0; rank < room.ranks; rank++)
        for (size_t at = 0; at < room.calls[rank].size(); at++) {
            const Call &call = room.calls[rank][at];
            size_t bytes = call.count * size_of(call.type);
            if (bytes == 0) return INVALID_ARGUMENT;
            auto input = [&](int of) -> const char * { return aside[of].data[at].data(); };
            std::vector<const char *> inputs;
            if (call.kind < SEND)
                for (int of = 0; of < room.ranks; of++) {
                    if (room.calls[of].size() <= at || room.calls[of][at].kind != call.kind) return INVALID_USAGE;
                    inputs.push_back(input(of));
                }
            int result = SUCCESS;
            switch (call.kind) {
            case ALL_REDUCE: result = reduce(inputs, call.to, call.count, call.type, call.op); break;
            case REDUCE_SCATTER:
                for (auto &from : inputs) from += rank * bytes;
                result = reduce(inputs, call.to, call.count, call.type, call.op);
                break;
            case ALL_GATHER:
                for (int of = 0; of < room.ranks; of++) memcpy(call.to + of * bytes, inputs[of], bytes);
                break;
            case BROADCAST: memcpy(call.to, inputs[call.other], bytes); break;
            case SEND: break;
            case RECEIVE: {
                bool found = false;
                const auto &theirs = room.calls[call.other];
                for (size_t sent = 0; sent < theirs.size() && !found; sent++)
                    if (theirs[sent].kind == SEND && theirs[sent].other == rank && theirs[sent].count == call.count) {
                        memcpy(call.to, aside[call.other].data[sent].data(), bytes);
                        found = true;
                    }
                if (!found) return INVALID_USAGE;
            }
            }
            if (result != SUCCESS) return result;
            if (rank == 1 && setting("RG_NCCL_FLIP", 0) && call.kind != SEND) call.to[bytes / 2] ^= 1;
        }
    return SUCCESS;
}

static int meet(Comm *comm, std::vector<Call> calls) {
    Room &room = *comm->room;
    std::unique_lock<std::mutex> lock(room.mutex);
    comm->made += 1;
    if (setting("RG_NCCL_HANG", 0) && comm->rank == 1 && comm->made == 3) {
        room.changed.wait(lock, [&] { return room.aborted; });
        return REMOTE_ERROR;
    }
    uint64_t round = room.round;
    room.calls[comm->rank] = std::move(calls);
    if (++room.arrived == room.ranks) {
        room.result = perform(room);
        room.arrived = 0;
        room.round += 1;
        room.changed.notify_all();
    }
    room.changed.wait(lock, [&] { return room.round != round || room.aborted; });
    return room.round != round ? room.result : REMOTE_ERROR;
}

static int give(Comm *comm, Call call) {
    if (group_depth == 0) return meet(comm, {call});
    group_comm = comm;
    group_calls.push_back(call);
    return SUCCESS;
}

API int ncclGetVersion(int *version) {
    *version = (int)setting("RG_NCCL_VERSION", 23099);
    return SUCCESS;
}

API const char *ncclGetErrorString(int result) {
    switch (result) {
    case SUCCESS: return "no error";
    case INVALID_ARGUMENT: return "invalid argument";
    case INVALID_USAGE: return "invalid usage";
    default: return "remote process exited or there was a network error";
    }
}

API const char *ncclGetLastError(Comm *) { return "this is the tests' stand-in for NCCL"; }

API int ncclGetUniqueId(UniqueId *id) {
    static int next = 0;
    std::lock_guard<std::mutex> lock(rooms_mutex);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "room %d", ++next);
    rooms[id->internal] = std::make_shared<Room>();
    return SUCCESS;
}

API int ncclCommInitRankConfig(Comm **comm, int ranks, UniqueId id, int rank, const void *config) {
    const unsigned *words = (const unsigned *)config;
    if (*(const size_t *)config != 48 || words[2] != 0xcafebeef || words[4] != 1) return INVALID_ARGUMENT;
    std::shared_ptr<Room> room;
    {
        std::lock_guard<std::mutex> lock(rooms_mutex);
        auto found = rooms.find(id.internal);
        if (found == rooms.end()) return INVALID_USAGE; // another process: not here
        room = found->second;
    }
    *comm = new Comm{room, rank};
    std::unique_lock<std::mutex> lock(room->mutex);
    room->ranks = ranks;
    room->calls.resize(ranks);
    room->joined += 1;
    room->changed.notify_all();
    room->changed.wait(lock, [&] { return room->joined >= ranks || room->aborted; });
    return room->aborted ? REMOTE_ERROR : SUCCESS;
}

API int ncclCommGetAsyncError(Comm *comm, int *state) {
    std::lock_guard<std::mutex> lock(comm->room->mutex);
    *state = comm->room->aborted ? REMOTE_ERROR : SUCCESS;
    return SUCCESS;
}

API int ncclCommAbort(Comm *comm) {
    // Not deleted: another thread may be in a call of it.
    std::lock_guard<std::mutex> lock(comm->room->mutex);
    comm->room->aborted = true;
    comm->room->changed.notify_all();
    return SUCCESS;
}

API int ncclCommDestroy(Comm *comm) {
    delete comm;
    return SUCCESS;
}

API int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Comm *comm, void *) {
    return give(comm, {ALL_REDUCE, (const char *)from, (char *)to, count, type, op, 0});
}

API int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, Comm *comm, void *) {
    return give(comm, {REDUCE_SCATTER, (const char *)from, (char *)to, count, type, op, 0});
}

API int ncclAllGather(const void *from, void *to, size_t count, int type, Comm *comm, void *) {
    return give(comm, {ALL_GATHER, (const char *)from, (char *)to, count, type, 0, 0});
}

API int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Comm *comm, void *) {
    return give(comm, {BROADCAST, (const char *)from, (char *)to, count, type, 0, root});
}

API int ncclSend(const void *from, size_t count, int type, int peer, Comm *comm, void *) {
    return give(comm, {SEND, (const char *)from, nullptr, count, type, 0, peer});
}

API int ncclRecv(void *to, size_t count, int type, int peer, Comm *comm, void *) {
    return give(comm, {RECEIVE, nullptr, (char *)to, count, type, 0, peer});
}

API int ncclGroupStart() {
    group_depth += 1;
    return SUCCESS;
}

API int ncclGroupEnd() {
    if (--group_depth > 0 || !group_comm) return SUCCESS;
    std::vector<Call> calls = std::move(group_calls);
    group_calls.clear();
    Comm *comm = group_comm;
    group_comm = nullptr;
    return meet(comm, std::move(calls));
}
