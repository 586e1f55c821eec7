/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/ask.h"

#include "base/error.h"
#include "pathmaster/allot.h"
#include "report/memory.h"

#include <stdlib.h>

#define MEMORY      (16u << 20)  /* that the library may take for one message */
#define PROBED_MOST (1ull << 40) /* probes of a path */

static tutti_result_t is_none(const char *what)
{
    return error_note(TUTTI_INVALID_USAGE, "these bytes are no %s of version %u", what, PATH_VERSION);
}

static bool lane_makes_sense(const Tutti__PathLane *lane)
{
    return lane->from.len == PATH_ADDRESS && lane->to.len == PATH_ADDRESS && lane->parts >= 1 &&
           lane->parts <= ALLOT_PARTS && lane->port <= UINT16_MAX;
}

/* Numbers of probes that cannot be are those of a host that lies, or counts wrongly. */
static bool probed_makes_sense(const Tutti__PathProbed *probed)
{
    if (probed->lost > probed->judged || probed->judged > PROBED_MOST || probed->answers > PROBED_MOST ||
        probed->n_hops > PATH_HOPS ||
        (probed->answers && probed->delay_sum_ns / probed->answers < probed->delay_least_ns))
        return false;
    for (size_t i = 0; i < probed->n_hops; i++)
        if (probed->hops[i]->heard > probed->hops[i]->asked)
            return false;
    return true;
}

static tutti_result_t check_probes(const Tutti__PathAsk *ask)
{
    if (ask->n_nics > PATH_NICS || ask->n_probed > PATH_TASKS)
        return error_note(TUTTI_INVALID_USAGE, "a host probes from %u NICs on %u paths at most", PATH_NICS, PATH_TASKS);
    for (size_t i = 0; i < ask->n_nics; i++)
        if (ask->nics[i].len != PATH_ADDRESS)
            return error_note(TUTTI_INVALID_USAGE, "NIC %zu of the question has no address", i);
    for (size_t i = 0; i < ask->n_probed; i++)
        if (!probed_makes_sense(ask->probed[i]))
            return error_note(TUTTI_INVALID_USAGE, "what was found by probe %zu of the question cannot be", i);
    return TUTTI_SUCCESS;
}

static tutti_result_t check_ask(const Tutti__PathAsk *ask)
{
    if (ask->version != PATH_VERSION)
        return error_note(TUTTI_INVALID_USAGE, "this master speaks version %u, not %u", PATH_VERSION, ask->version);
    if (ask->owner.len != ALLOT_SECRET &&
        (ask->owner.len || ask->n_lanes || ask->n_ended || ask->n_nics || ask->n_probed))
        return error_note(TUTTI_INVALID_USAGE, "an owner has %d bytes, not %zu", ALLOT_SECRET, ask->owner.len);
    if (ask->n_lanes > PATH_LANES || ask->n_ended > PATH_LANES || ask->n_links > PATH_LINKS)
        return error_note(TUTTI_INVALID_USAGE, "a question has %u lanes and links at most", PATH_LANES);
    for (size_t i = 0; i < ask->n_lanes; i++)
        if (!lane_makes_sense(ask->lanes[i]))
            return error_note(TUTTI_INVALID_USAGE, "lane %zu of the question makes no sense", i);
    for (size_t i = 0; i < ask->n_links; i++)
        if (ask->links[i]->percent > 100)
            return error_note(TUTTI_INVALID_USAGE, "an uplink has 0 to 100 percent of its rate, not %u",
                              ask->links[i]->percent);
    return check_probes(ask);
}

tutti_result_t path_ask_read(const void *bytes, size_t size, Tutti__PathAsk **out)
{
    size_t budget = MEMORY;
    ProtobufCAllocator allocator = report_allocator(&budget);
    *out = size <= PATH_BYTES ? tutti__path_ask__unpack(&allocator, size, bytes) : NULL;
    if (!*out)
        return is_none("question");
    tutti_result_t result = check_ask(*out);
    if (result) {
        path_ask_free(*out);
        *out = NULL;
    }
    return result;
}

void path_ask_free(Tutti__PathAsk *ask)
{
    size_t budget = 0;
    ProtobufCAllocator allocator = report_allocator(&budget);
    if (ask)
        tutti__path_ask__free_unpacked(ask, &allocator);
}

static bool task_makes_sense(const Tutti__PathTask *task)
{
    return task->from.len == PATH_ADDRESS && task->to.len == PATH_ADDRESS && task->port && task->port <= UINT16_MAX &&
           task->back && task->back <= UINT16_MAX;
}

tutti_result_t path_answer_read(const void *bytes, size_t size, Tutti__PathAnswer **out)
{
    size_t budget = MEMORY;
    ProtobufCAllocator allocator = report_allocator(&budget);
    *out = size <= PATH_BYTES ? tutti__path_answer__unpack(&allocator, size, bytes) : NULL;
    bool good = *out && (*out)->n_given <= PATH_LANES && (*out)->n_moved <= PATH_MOVED && (*out)->come_ms &&
                (*out)->n_tasks <= PATH_TASKS;
    for (size_t i = 0; good && i < (*out)->n_given; i++)
        good = (*out)->given[i]->port <= UINT16_MAX;
    for (size_t i = 0; good && i < (*out)->n_moved; i++)
        good = (*out)->moved[i]->port <= UINT16_MAX;
    for (size_t i = 0; good && i < (*out)->n_tasks; i++)
        good = task_makes_sense((*out)->tasks[i]);
    if (good)
        return TUTTI_SUCCESS;
    path_answer_free(*out);
    *out = NULL;
    return is_none("answer");
}

void path_answer_free(Tutti__PathAnswer *answer)
{
    size_t budget = 0;
    ProtobufCAllocator allocator = report_allocator(&budget);
    if (answer)
        tutti__path_answer__free_unpacked(answer, &allocator);
}

uint8_t *path_pack(const ProtobufCMessage *message, size_t *size)
{
    *size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(*size + 1);
    if (bytes)
        protobuf_c_message_pack(message, bytes);
    return bytes;
}
