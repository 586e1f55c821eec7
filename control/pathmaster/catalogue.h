/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue of paths: which host probes which path, what was found, how old it is, and which links are faulty. No
 * socket, no file; times are the caller's. A host is asked for one way of each uplink of its leaf to each of
 * CATALOGUE_PARTNERS other leaves; both hosts and leaves change with time. Only hosts that said that they probe are in
 * it. A link that was found faulty stays in it until enough probes got through.
 */
#ifndef TUTTI_PATHMASTER_CATALOGUE_H
#define TUTTI_PATHMASTER_CATALOGUE_H

#include "pathmaster/allot.h"
#include "pathmaster/names.h"
#include "pathmaster/suspect.h"

#define CATALOGUE_PARTNERS 4
#define CATALOGUE_HOPS     4
#define CATALOGUE_OTHERS   64 /* faults of other parts that are shown */
#define CATALOGUE_SAYS     240

struct catalogue_window {
    uint64_t begun, judged, lost;
};

struct catalogue_hop {
    uint8_t router[16]; /* zeros: none has answered */
    uint32_t asked, heard;
    uint64_t at; /* when it answered; 0: never */
};

/* What a host says of a path, since the path was given to it. */
struct catalogue_report {
    uint64_t ticket, judged, lost, answers, delay_least, delay_sum, rate;
    uint32_t silent, trains;
    struct catalogue_hop hop[CATALOGUE_HOPS];
};

struct catalogue_row {
    struct catalogue_report last;
    int32_t from, to;
    struct allot_way way;
    uint16_t port, back;
    struct catalogue_window now, before;
    double rate[SUSPECT_TRAINS]; /* bytes per second; the newest first */
    uint64_t reported, answered; /* when; 0: not yet */
};

/* A link of a leaf, both ways. */
struct catalogue_link {
    uint32_t percent;     /* of its rate, as probes found; 100: no fault */
    bool up, down;        /* the faulty ways */
    bool twin, kept;      /* it may be another one; it is left in, as too many are out already */
    double loss, rate;    /* of packets; of what others have */
    uint64_t since, last; /* when it was found; when it was last slow */
    uint64_t judged, lost;
    int seen; /* looks in a row that blame it */
    bool blamed, blamed_up, blamed_down;
    struct suspect blame;
};

struct catalogue {
    const struct allot *allot;
    const struct fabric *fabric;
    int32_t *agent;  /* of each NIC: the owner that probes from it; -1: none */
    uint64_t *until; /* the same: when it is silent for too long */
    int32_t *place;  /* of each uplink and partner: its row; -1: none */
    struct catalogue_row *row;
    int32_t rows, hosts, leaves, room; /* hosts: ports of NICs that probe */
    struct catalogue_link *link;
    struct catalogue_address {
        uint8_t address[16];
        int32_t uplink;
    } * spine, *end; /* ends of uplinks at spines, and at leaves, by address */
    int32_t spines, ends;
    struct suspect other[CATALOGUE_OTHERS];
    int others;
    uint64_t round, turned, sweep, rest; /* sweep: until when; rest: no sweep begins before */
    uint32_t turn;
    bool changed;     /* hosts came, or went */
    bool joined;      /* some host probes, or did */
    uint64_t strange; /* reports of paths that the host was not given */
};

/* After error_note. `allot` and `fabric` stay the caller's. catalogue_close() also after a failure. */
tutti_result_t catalogue_open(struct catalogue *catalogue, const struct allot *allot, const struct fabric *fabric);
void catalogue_close(struct catalogue *catalogue);

/* An owner probes from this NIC until then, unless another one does. `bonds`: it can choose the port of one that is
 * bonded; others leave that out, for nobody would know which port their probes take. */
void catalogue_join(struct catalogue *catalogue, int32_t owner, int32_t nic, bool bonds, uint64_t now, uint64_t until);
void catalogue_leave(struct catalogue *catalogue, int32_t owner);

/* What a host found. False: it was not given this path, or the numbers cannot be; nothing is changed. */
bool catalogue_report(struct catalogue *catalogue, int32_t owner, const struct catalogue_report *report, uint64_t now);

/* Faults are looked for, unless they just were. */
void catalogue_sweep(struct catalogue *catalogue, uint64_t now);
bool catalogue_sweeps(const struct catalogue *catalogue, uint64_t now);

/* Rows that an owner is to probe: of the leaf at that port of its NIC, from place `from` on; -1: no more. */
int32_t catalogue_next(const struct catalogue *catalogue, int32_t owner, int32_t nic, int side, int32_t from);
bool catalogue_wants_trains(const struct catalogue *catalogue, const struct catalogue_row *row, uint64_t now);

/* Once a second: hosts take turns, and faults are found. `say` hears of each link that has changed; false from there
 * ends the look. False: no memory, or `say` said so. */
typedef bool catalogue_say(void *context, int32_t uplink, uint32_t percent, const char *sentence);
bool catalogue_look(struct catalogue *catalogue, uint64_t now, catalogue_say *say, void *context);

/* The uplink that the path's probes took, by what the spine answered; -1: unknown, -2: it is none of the leaf's. */
int32_t catalogue_taken(const struct catalogue *catalogue, const struct catalogue_row *row);
/* Bonded NICs: the probes came to the leaf of the other port, as that leaf answered with an address of one of its
 * uplinks. */
bool catalogue_crosses(const struct catalogue *catalogue, const struct catalogue_row *row);
/* "left", "right", and "" where a NIC has one port. */
const char *catalogue_side(const struct catalogue *catalogue, const struct catalogue_row *row);
/* "rack1.u3 up", "node01.eth0 out", for people. */
void catalogue_part(const struct catalogue *catalogue, int32_t part, char out[CATALOGUE_SAYS]);

#endif
