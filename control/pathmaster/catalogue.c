/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that probe, and what they said. Faults are found in faults.c. */
#include "pathmaster/catalogue.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP  (30 * NS_PER_S)
#define REST   (30 * NS_PER_S) /* between two sweeps */
#define WINDOW (30 * NS_PER_S) /* of counts in a sweep; there are two */
#define CALM   (300 * NS_PER_S)
#define SILENT 8 /* probes without an answer, after which faults are looked for */

/* ---- addresses of spines ---- */

static int by_address(const void *left, const void *right)
{
    const struct catalogue_address *a = left, *b = right;
    return memcmp(a->address, b->address, sizeof a->address);
}

/* fe80::/10, which many spines have. */
static bool is_of_link(const uint8_t address[16])
{
    return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* "10.0.0.1", or with "/31" behind it. */
static bool read_address(const char *text, uint8_t out[16])
{
    char address[FABRIC_ADDRESS];
    size_t length = strcspn(text, "/");
    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = 0;
    return names_address(address, out) && !is_of_link(out);
}

static void read_ends(struct catalogue *c)
{
    for (int32_t at = 0; at < 2 * c->fabric->uplinks; at++) {
        const struct fabric_wire *wire = &c->fabric->uplink[at / 2].wire;
        c->spine[c->spines].uplink = c->end[c->ends].uplink = at / 2;
        c->spines += read_address(fabric_word(c->fabric, wire->next[at % 2]), c->spine[c->spines].address);
        c->ends += read_address(fabric_word(c->fabric, wire->address[at % 2]), c->end[c->ends].address);
    }
    qsort(c->spine, (size_t)c->spines, sizeof *c->spine, by_address);
    qsort(c->end, (size_t)c->ends, sizeof *c->end, by_address);
}

/* The uplink that has the router's address; -1: no router has answered, -2: none has it. */
static int32_t uplink_of(const struct catalogue_address *all, int32_t count, const uint8_t router[16])
{
    static const uint8_t nobody[16];
    struct catalogue_address key;
    memcpy(key.address, router, sizeof key.address);
    if (memcmp(key.address, nobody, sizeof nobody) == 0)
        return -1;
    const struct catalogue_address *found = bsearch(&key, all, (size_t)count, sizeof *all, by_address);
    return found ? found->uplink : -2;
}

int32_t catalogue_taken(const struct catalogue *c, const struct catalogue_row *row)
{
    int32_t found = uplink_of(c->spine, c->spines, row->last.hop[1].router);
    if (found < 0)
        return found;
    return c->fabric->uplink[found].leaf == c->fabric->uplink[row->way.uplink].leaf ? found : -2;
}

bool catalogue_crosses(const struct catalogue *c, const struct catalogue_row *row)
{
    const struct fabric_nic *to = &c->fabric->nic[row->to];
    int32_t found = row->way.out < 0 ? uplink_of(c->end, c->ends, row->last.hop[2].router) : -1;
    if (to->ports < FABRIC_PORTS || found < 0)
        return false;
    return c->fabric->uplink[found].leaf == to->port[!row->way.side].leaf;
}

const char *catalogue_side(const struct catalogue *c, const struct catalogue_row *row)
{
    bool bonded = c->fabric->nic[row->from].ports > 1 || c->fabric->nic[row->to].ports > 1;
    return !bonded ? "" : row->way.side ? "right" : "left";
}

/* ---- beginning and end ---- */

tutti_result_t catalogue_open(struct catalogue *c, const struct allot *allot, const struct fabric *fabric)
{
    size_t nics = (size_t)fabric->nics + 1, uplinks = (size_t)fabric->uplinks + 1;
    *c = (struct catalogue){.allot = allot, .fabric = fabric};
    c->agent = malloc(nics * sizeof *c->agent);
    c->until = calloc(nics, sizeof *c->until);
    c->place = malloc(uplinks * CATALOGUE_PARTNERS * sizeof *c->place);
    c->link = calloc(uplinks, sizeof *c->link);
    c->spine = calloc(2 * uplinks, sizeof *c->spine);
    c->end = calloc(2 * uplinks, sizeof *c->end);
    if (!c->agent || !c->until || !c->place || !c->link || !c->spine || !c->end)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for the paths of %d uplinks", fabric->uplinks);
    memset(c->agent, 0xff, nics * sizeof *c->agent);
    memset(c->place, 0xff, uplinks * CATALOGUE_PARTNERS * sizeof *c->place);
    for (int32_t u = 0; u < fabric->uplinks; u++)
        c->link[u] = (struct catalogue_link){.percent = allot->found[u], .loss = allot->found[u] ? 0 : 1, .rate = 1};
    read_ends(c);
    return TUTTI_SUCCESS;
}

void catalogue_close(struct catalogue *c)
{
    free(c->agent);
    free(c->until);
    free(c->place);
    free(c->row);
    free(c->link);
    free(c->spine);
    free(c->end);
    *c = (struct catalogue){0};
}

/* ---- hosts ---- */

void catalogue_join(struct catalogue *c, int32_t owner, int32_t nic, bool bonds, uint64_t now, uint64_t until)
{
    bool fits = c->fabric->nic[nic].ports == 1 || bonds;
    if (!fits || (c->agent[nic] >= 0 && c->agent[nic] != owner && c->until[nic] > now))
        return;
    c->changed |= c->agent[nic] != owner;
    c->joined = true;
    c->agent[nic] = owner;
    c->until[nic] = until;
}

void catalogue_leave(struct catalogue *c, int32_t owner)
{
    for (int32_t n = 0; c->joined && n < c->fabric->nics; n++)
        if (c->agent[n] == owner) {
            c->agent[n] = -1;
            c->changed = true;
        }
}

/* ---- reports ---- */

static struct catalogue_row *row_of(const struct catalogue *c, uint64_t ticket)
{
    uint32_t at = (uint32_t)ticket;
    if (at >= (uint32_t)c->fabric->uplinks * CATALOGUE_PARTNERS || c->place[at] < 0)
        return NULL;
    struct catalogue_row *row = &c->row[c->place[at]];
    return row->last.ticket == ticket ? row : NULL;
}

static void count(struct catalogue *c, struct catalogue_row *row, uint64_t judged, uint64_t lost, uint64_t now)
{
    uint64_t length = catalogue_sweeps(c, now) ? WINDOW : CALM;
    const int32_t both[] = {row->way.uplink, row->way.down};
    if (now - row->now.begun > length) {
        row->before = row->now;
        row->now = (struct catalogue_window){.begun = now};
    }
    row->now.judged += judged;
    row->now.lost += lost;
    for (int i = 0; i < 2; i++) {
        c->link[both[i]].judged += judged;
        c->link[both[i]].lost += lost;
    }
}

static bool is_whole(const struct catalogue *c, const struct catalogue_row *row)
{
    return c->link[row->way.uplink].percent == 100 && c->link[row->way.down].percent == 100;
}

bool catalogue_report(struct catalogue *c, int32_t owner, const struct catalogue_report *report, uint64_t now)
{
    struct catalogue_row *row = row_of(c, report->ticket);
    if (!row || c->agent[row->from] != owner || report->judged < row->last.judged || report->lost > report->judged ||
        report->answers < row->last.answers || report->trains < row->last.trains) {
        c->strange++;
        return false;
    }
    uint64_t lost = report->lost > row->last.lost ? report->lost - row->last.lost : 0,
             judged = report->judged - row->last.judged;
    count(c, row, judged > lost ? judged : lost, lost, now);
    if (report->trains > row->last.trains && report->rate) {
        memmove(row->rate + 1, row->rate, (SUSPECT_TRAINS - 1) * sizeof *row->rate);
        row->rate[0] = (double)report->rate;
    }
    if (report->answers > row->last.answers)
        row->answered = now;
    row->last = *report;
    row->reported = now;
    if ((lost || report->silent >= SILENT) && is_whole(c, row))
        catalogue_sweep(c, now);
    return true;
}

/* ---- sweeps ---- */

bool catalogue_sweeps(const struct catalogue *c, uint64_t now)
{
    return now < c->sweep;
}

/* What was counted before is not mixed with it. */
void catalogue_sweep(struct catalogue *c, uint64_t now)
{
    if (now < c->rest)
        return;
    c->sweep = now + SWEEP;
    c->rest = c->sweep + REST;
    c->round++;
    for (int32_t i = 0; i < c->rows; i++)
        c->row[i].now = c->row[i].before = (struct catalogue_window){.begun = now};
}

/* ---- tasks ---- */

bool catalogue_wants_trains(const struct catalogue *c, const struct catalogue_row *row, uint64_t now)
{
    return catalogue_sweeps(c, now) || c->link[row->way.uplink].rate < 1 || c->link[row->way.down].rate < 1;
}

int32_t catalogue_next(const struct catalogue *c, int32_t owner, int32_t nic, int side, int32_t from)
{
    const struct fabric_leaf *leaf = &c->fabric->leaf[c->fabric->nic[nic].port[side].leaf];
    int32_t first = leaf->first * CATALOGUE_PARTNERS, end = first + leaf->count * CATALOGUE_PARTNERS;
    for (int32_t at = from < first ? first : from; at < end; at++)
        if (c->place[at] >= 0 && c->row[c->place[at]].from == nic && c->row[c->place[at]].way.side == side &&
            c->agent[nic] == owner)
            return at;
    return -1;
}
