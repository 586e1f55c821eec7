/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the scripted transport share. */
#ifndef TUTTI_LINK_LINK_TESTING_LANE_H
#define TUTTI_LINK_LINK_TESTING_LANE_H

#include "link/link_testing.h"

#include <stdio.h>
#include <stdlib.h>

/* Unlike an assertion also there in builds without them. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: the contract of transports is broken: %s\n", __FILE__, __LINE__, #condition);      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

struct transport {
    struct script *script;
    int side;
    struct transport_owner owner;
    struct list lanes; /* oldest first */
};

struct script_lane {
    struct lane lane;
    struct list node;
    struct script_lane *other; /* the peer's end, NULL until there is one */
    uint16_t index;
    uint32_t epoch, known;
    uint64_t session;
    bool connecting, accepted, up, broken, down, closed, full, wants_room;
    bool lost;           /* something that it was given came to nothing, as it broke */
    uint64_t confirmed;  /* packets that the peer has */
    struct list flight;  /* packets on their way to the other end */
    struct list sources; /* puts that have not been read */
};

struct packet {
    struct list node;   /* in flight */
    struct list source; /* in sources */
    bool put;
    const unsigned char *from;
    size_t length, landed;
    uint32_t imm;
    uint64_t offset, token;
    unsigned char *remote; /* where the peer's memory is, of a put with a key */
    uint32_t key;
    unsigned char bytes[];
};

bool script_registered(int side, uint32_t key);
int script_source(struct transport *transport, const struct wire_process *peer, uint16_t index);
struct packet *script_packet_new(size_t length);
/* Frees it once nothing needs it. */
void script_packet_settle(struct packet *packet);
void script_drop_flight(struct script_lane *lane);

struct script_lane *script_lane_new(struct transport *transport, uint16_t index, uint32_t epoch, void *user);
bool script_lane_dead(const struct script_lane *lane);
/* Frees lanes of which nothing can come any more. */
void script_reap(struct script *script);

void script_tell_down(struct script_lane *lane, tutti_result_t why);
void script_tell_sent(struct script_lane *lane);

#endif
