/* SPDX-License-Identifier: Apache-2.0 */
/* Which links are faulty, and when they are whole again. */
#include "pathmaster/rounds.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRESH  (10 * NS_PER_S) /* age of a report that counts */
#define SILENT 8               /* probes without an answer: the path is broken */
#define LOOKS  2               /* in a row that blame a link */
#define HOLD   (15 * NS_PER_S) /* that a link must look whole before it is */
#define PROOF  10              /* losses that a faulty link would have had, by which it is seen to be whole */
#define LEAST  100             /* probes for that */
#define ROOM   512             /* parts that are blamed in a look */

/* ---- what was found of each path ---- */

/* A port of a NIC. */
static int32_t nic_part(const struct catalogue *c, int32_t nic, int side, bool in)
{
    int32_t before = 2 * (c->fabric->uplinks + c->fabric->spines);
    return before + FABRIC_PORTS * ((in ? c->fabric->nics : 0) + nic) + side;
}

/* The rate that a path's links should have, in the units of the file. */
static double full_of(const struct catalogue *c, const struct catalogue_row *row)
{
    double up = c->fabric->uplink[row->way.uplink].rate, down = c->fabric->uplink[row->way.down].rate,
           nic = c->fabric->nic[row->from].port[row->way.side].rate, least = up < down ? up : down;
    return nic < least ? nic : least;
}

/* A spine's answer to a host comes down the link that leads to the host's leaf. */
static bool came_down(const struct catalogue *c, int32_t uplink, uint64_t since)
{
    const struct fabric_uplink *link = &c->fabric->uplink[uplink];
    if (fabric_uplinks_to(c->fabric, link->leaf, link->spine, 0).count != 1)
        return false;
    for (int k = 0; k < CATALOGUE_PARTNERS; k++) {
        int32_t at = c->place[uplink * CATALOGUE_PARTNERS + k];
        if (at >= 0 && c->row[at].last.hop[1].at > since)
            return true;
    }
    return false;
}

static void sample_of(const struct catalogue *c, const struct catalogue_row *row, struct suspect_path *out)
{
    struct allot_links links = allot_links(c->allot, &row->way);
    *out =
        (struct suspect_path){.sent = row->now.judged + row->before.judged, .lost = row->now.lost + row->before.lost};
    for (int i = 0; i < links.count; i++)
        out->part[out->parts++] = links.link[i];
    out->part[out->parts++] = nic_part(c, row->from, row->way.side, false);
    out->part[out->parts++] = nic_part(c, row->to, row->way.side, true);
    if (row->last.silent >= SILENT) {
        out->sent += row->last.silent;
        out->lost += row->last.silent;
        if (row->last.hop[1].at > row->answered) /* the spine has answered since */
            out->alive = 1u | 1u << (out->parts - 2);
        if (links.count == 2 && came_down(c, row->way.down, row->answered))
            out->alive |= 2;
    }
    for (int k = 0; k < SUSPECT_TRAINS; k++)
        out->rate[k] = row->rate[k] / full_of(c, row);
}

static int find(const struct catalogue *c, uint64_t now, struct suspect *out)
{
    struct suspect_path *path = calloc((size_t)c->rows + 1, sizeof *path);
    int paths = 0;
    for (int32_t i = 0; path && i < c->rows; i++)
        if (c->row[i].reported && now - c->row[i].reported < FRESH)
            sample_of(c, &c->row[i], &path[paths++]);
    int found = path ? suspects_find(path, paths, nic_part(c, c->fabric->nics, 0, true), out, ROOM) : -1;
    free(path);
    return found;
}

/* ---- links ---- */

static void blame(struct catalogue *c, const struct suspect *suspect)
{
    int32_t uplinks = c->fabric->uplinks;
    if (suspect->part >= 2 * uplinks) {
        if (c->others < CATALOGUE_OTHERS)
            c->other[c->others++] = *suspect;
        return;
    }
    struct catalogue_link *link = &c->link[suspect->part % uplinks];
    bool down = suspect->part >= uplinks;
    if (!link->blamed || suspect->loss > link->blame.loss || suspect->rate < link->blame.rate)
        link->blame = *suspect;
    link->blamed = true;
    *(down ? &link->blamed_down : &link->blamed_up) = true;
}

/* At most half of a leaf's links are left out for what hosts say. */
static bool may_leave_out(const struct catalogue *c, int32_t uplink)
{
    const struct fabric_leaf *leaf = &c->fabric->leaf[c->fabric->uplink[uplink].leaf];
    int32_t out = 0;
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        out += c->allot->found[u] < 100;
    return out + 1 <= leaf->count / 2;
}

static uint32_t percent_of(const struct suspect *blame)
{
    uint32_t percent = (uint32_t)(blame->rate * 100 + 0.5);
    if (blame->loss >= SUSPECT_LOSS)
        return 0;
    return percent < 1 ? 1 : percent;
}

static void describe(const struct catalogue *c, int32_t uplink, char out[CATALOGUE_SAYS])
{
    const struct catalogue_link *link = &c->link[uplink];
    const char *way = link->up && link->down ? "both ways" : link->up ? "up" : "down";
    char name[PATHS_NAME], what[48];
    paths_uplink_name(c->fabric, uplink, name);
    if (link->loss >= 0.99)
        snprintf(what, sizeof what, "lets nothing through");
    else if (link->loss >= SUSPECT_LOSS)
        snprintf(what, sizeof what, "loses about %.1f%% of packets", 100 * link->loss);
    else
        snprintf(what, sizeof what, "has %.0f%% of its rate", 100 * link->rate);
    snprintf(out, CATALOGUE_SAYS, "%s %s %s%s: %s", name, what, way, link->twin ? " (it, or the link behind it)" : "",
             link->kept      ? "it is left in, as half of its leaf's links are out"
             : link->percent ? "it gets less"
                             : "it is left out");
}

static bool make_faulty(struct catalogue *c, int32_t uplink, uint64_t now, catalogue_say *say, void *context)
{
    struct catalogue_link *link = &c->link[uplink];
    char sentence[CATALOGUE_SAYS];
    bool kept = !may_leave_out(c, uplink);
    *link = (struct catalogue_link){.percent = percent_of(&link->blame),
                                    .up = link->blamed_up,
                                    .down = link->blamed_down,
                                    .twin = link->blame.twin,
                                    .kept = kept,
                                    .loss = link->blame.loss,
                                    .rate = link->blame.rate,
                                    .since = now,
                                    .last = now};
    c->round++;
    describe(c, uplink, sentence);
    return say(context, uplink, kept ? 100 : link->percent, sentence);
}

/* What was counted while it was faulty is no fault any more. */
static void forget_losses(struct catalogue *c, int32_t uplink, uint64_t now)
{
    for (int32_t i = 0; i < c->rows; i++) {
        struct catalogue_row *row = &c->row[i];
        if (row->way.uplink == uplink || row->way.down == uplink)
            row->now = row->before = (struct catalogue_window){.begun = now};
    }
}

static bool make_whole(struct catalogue *c, int32_t uplink, uint64_t now, catalogue_say *say, void *context)
{
    char sentence[CATALOGUE_SAYS], name[PATHS_NAME];
    paths_uplink_name(c->fabric, uplink, name);
    c->link[uplink] = (struct catalogue_link){.percent = 100, .rate = 1};
    forget_losses(c, uplink, now);
    c->round++;
    snprintf(sentence, sizeof sentence, "%s is whole again, by what probes found", name);
    return say(context, uplink, 100, sentence);
}

/* Probes since it was found got through, as they would not with a part of that loss. */
static bool lets_through(struct catalogue_link *link)
{
    double most = (double)link->judged * link->loss / 4;
    if (link->loss < SUSPECT_LOSS)
        return true;
    if ((double)link->lost > (most > 1 ? most : 1)) {
        link->judged = link->lost = 0;
        return false;
    }
    return link->judged >= LEAST && (double)link->judged * link->loss >= PROOF;
}

static bool look_at(struct catalogue *c, int32_t uplink, uint64_t now, catalogue_say *say, void *context)
{
    struct catalogue_link *link = &c->link[uplink];
    bool good = true;
    link->seen = link->blamed ? link->seen + 1 : 0;
    if (link->percent == 100) {
        if (link->seen >= LOOKS)
            good = make_faulty(c, uplink, now, say, context);
        link->judged = link->lost = 0;
    } else {
        if (link->blamed && link->blame.rate < 1)
            link->last = now;
        link->up |= link->blamed_up;
        link->down |= link->blamed_down;
        if (link->blamed && link->blame.loss >= SUSPECT_LOSS)
            link->loss = link->blame.loss;
        if (lets_through(link) && (link->rate == 1 || now - link->last > HOLD) && now - link->since > HOLD)
            good = make_whole(c, uplink, now, say, context);
    }
    link->blamed = link->blamed_up = link->blamed_down = false;
    return good;
}

bool catalogue_look(struct catalogue *c, uint64_t now, catalogue_say *say, void *context)
{
    struct suspect suspect[ROOM];
    if (!rounds_turn(c, now))
        return false;
    int found = c->rows ? find(c, now, suspect) : 0;
    if (found < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory to look for faults"), false;
    c->others = 0;
    for (int i = 0; i < found; i++)
        blame(c, &suspect[i]);
    for (int32_t u = 0; u < c->fabric->uplinks; u++)
        if ((c->rows || c->link[u].percent < 100) && !look_at(c, u, now, say, context))
            return false;
    return true;
}

/* ---- words ---- */

void catalogue_part(const struct catalogue *c, int32_t part, char out[CATALOGUE_SAYS])
{
    const struct fabric *f = c->fabric;
    int32_t links = 2 * (f->uplinks + f->spines);
    char name[PATHS_NAME];
    if (part < 2 * f->uplinks) {
        paths_uplink_name(f, part % f->uplinks, name);
        snprintf(out, CATALOGUE_SAYS, "%s %s", name, part < f->uplinks ? "up" : "down");
    } else if (part < links) {
        part -= 2 * f->uplinks;
        snprintf(out, CATALOGUE_SAYS, "links of %s to the core %s", f->spine[part % f->spines].name,
                 part < f->spines ? "up" : "down");
    } else {
        int32_t place = (part - links) / FABRIC_PORTS;
        const struct fabric_nic *nic = &f->nic[place % f->nics];
        const char *side = nic->ports < FABRIC_PORTS ? "" : (part - links) % FABRIC_PORTS ? " right" : " left";
        snprintf(out, CATALOGUE_SAYS, "%s.%s%s %s", f->host[nic->host].name, nic->name, side,
                 place < f->nics ? "out" : "in");
    }
}
