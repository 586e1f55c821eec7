/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue, as text for people and as JSON. */
#include "pathmaster/state.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT 8 /* probes without an answer: the path is broken */

static double seconds(uint64_t now, uint64_t then)
{
    return then && now > then ? (double)(now - then) / (double)NS_PER_S : 0;
}

/* ---- what is said of a path ---- */

static void say_path(const struct catalogue *c, const struct catalogue_row *row, char out[CATALOGUE_SAYS])
{
    char up[PATHS_NAME], down[PATHS_NAME];
    paths_uplink_name(c->fabric, row->way.uplink, up);
    paths_uplink_name(c->fabric, row->way.down, down);
    snprintf(out, CATALOGUE_SAYS, "%s > %s", up, down);
}

/* "10.0.0.1", "fd10::1", or "" where nobody has answered. */
static const char *say_address(const uint8_t address[16], char out[INET6_ADDRSTRLEN])
{
    static const uint8_t before_4[12] = {[10] = 0xff, [11] = 0xff}, nobody[16];
    bool is_4 = memcmp(address, before_4, sizeof before_4) == 0;
    if (memcmp(address, nobody, sizeof nobody) == 0)
        return "";
    return inet_ntop(is_4 ? AF_INET : AF_INET6, is_4 ? address + sizeof before_4 : address, out, INET6_ADDRSTRLEN);
}

/* Where its probes went, as far as routers say so. */
static void say_taken(const struct catalogue *c, const struct catalogue_row *row, char out[CATALOGUE_SAYS])
{
    int32_t taken = catalogue_taken(c, row);
    const struct catalogue_hop *spine = &row->last.hop[1];
    char name[PATHS_NAME];
    if (catalogue_crosses(c, row)) {
        snprintf(out, CATALOGUE_SAYS, "CROSSES");
    } else if (taken >= 0) {
        paths_uplink_name(c->fabric, taken, name);
        bool same = c->fabric->uplink[taken].spine == c->fabric->uplink[row->way.uplink].spine;
        snprintf(out, CATALOGUE_SAYS, "%s%s", c->fabric->spine[c->fabric->uplink[taken].spine].name,
                 same ? "" : " STRAYS");
    } else if (taken == -2) {
        char address[INET6_ADDRSTRLEN];
        snprintf(out, CATALOGUE_SAYS, "%s", say_address(spine->router, address));
    } else {
        snprintf(out, CATALOGUE_SAYS, "%s", spine->asked >= 3 ? "silent" : "-");
    }
}

static void say_state(const struct catalogue_row *row, char out[32])
{
    uint64_t sent = row->now.judged + row->before.judged, lost = row->now.lost + row->before.lost;
    if (!row->reported)
        snprintf(out, 32, "-");
    else if (row->last.silent >= SILENT)
        snprintf(out, 32, "SILENT");
    else
        snprintf(out, 32, "%.2f%%", sent ? 100 * (double)lost / (double)sent : 0);
}

static double mean_delay(const struct catalogue_row *row)
{
    return row->last.answers ? (double)row->last.delay_sum / (double)row->last.answers / 1000 : 0;
}

/* ---- text ---- */

static void add_faults(const struct catalogue *c, uint64_t now, struct text *out)
{
    char name[CATALOGUE_SAYS];
    for (int32_t u = 0; u < c->fabric->uplinks; u++) {
        const struct catalogue_link *link = &c->link[u];
        if (link->percent == 100)
            continue;
        paths_uplink_name(c->fabric, u, name);
        text_add(out, "FAULT %s %s: loses %.1f%%, has %.0f%% of its rate, gets %u%% of its lanes, for %.0f s%s%s\n",
                 name,
                 link->up && link->down ? "both ways"
                 : link->up             ? "up"
                 : link->down           ? "down"
                                        : "before the master began",
                 100 * link->loss, 100 * link->rate, c->allot->found[u], seconds(now, link->since),
                 link->twin ? "; it, or the link behind it" : "",
                 link->kept ? "; it is left in, as half of its leaf's links are out" : "");
    }
    for (int i = 0; i < c->others; i++) {
        catalogue_part(c, c->other[i].part, name);
        text_add(out, "FAULT %s: loses %.1f%%, has %.0f%% of its rate\n", name, 100 * c->other[i].loss,
                 100 * c->other[i].rate);
    }
}

static void add_row(const struct catalogue *c, const struct catalogue_row *row, uint64_t now, struct text *out)
{
    const struct fabric *f = c->fabric;
    char path[CATALOGUE_SAYS], taken[CATALOGUE_SAYS], state[32], hops[32] = "";
    say_path(c, row, path);
    say_taken(c, row, taken);
    say_state(row, state);
    for (int k = 0; k < CATALOGUE_HOPS; k++)
        snprintf(hops + strlen(hops), sizeof hops - strlen(hops), "%s%u/%u", k ? " " : "", row->last.hop[k].heard,
                 row->last.hop[k].asked);
    text_add(out, "%-22s %5u  %-10s %8llu %7s %7.0f %7.0f %9.1f  %-19s %5.0f  %s %s\n", path, row->port, taken,
             (unsigned long long)(row->now.judged + row->before.judged), state, (double)row->last.delay_least / 1000,
             mean_delay(row), row->rate[0] * 8e-6, hops, seconds(now, row->reported),
             f->host[f->nic[row->from].host].name, catalogue_side(c, row));
}

static void add_text(const struct pathmaster *master, struct text *out)
{
    const struct catalogue *c = &master->catalogue;
    uint64_t now = clock_ns();
    text_add(out, "%d paths between %d leaves, by %d ports of hosts that probe; ", c->rows, c->leaves, c->hosts);
    if (catalogue_sweeps(c, now))
        text_add(out, "faults are looked for, for %.0f s more\n", seconds(c->sweep, now));
    else
        text_add(out, "watched\n");
    if (c->strange)
        text_add(out, "%llu reports of paths that the host was not given changed nothing\n",
                 (unsigned long long)c->strange);
    add_faults(c, now, out);
    text_add(out, "%-22s %5s  %-10s %8s %7s %7s %7s %9s  %-19s %5s  %s\n", "PATH", "PORT", "BY", "PROBES", "LOST",
             "LEAST", "MEAN us", "Mbit/s", "ROUTERS HEARD/ASKED", "AGE s", "FROM");
    for (int32_t i = 0; i < c->rows; i++)
        add_row(c, &c->row[i], now, out);
}

/* ---- JSON ---- */

static json_t *fault_of(const struct catalogue *c, int32_t uplink, uint64_t now)
{
    const struct catalogue_link *link = &c->link[uplink];
    char name[PATHS_NAME];
    paths_uplink_name(c->fabric, uplink, name);
    return json_pack("{s:s, s:b, s:b, s:f, s:f, s:i, s:b, s:b, s:f}", "uplink", name, "up", link->up, "down",
                     link->down, "loss", link->loss, "rate", link->rate, "gets_percent", (int)c->allot->found[uplink],
                     "or_the_link_behind", link->twin, "kept", link->kept, "for_s", seconds(now, link->since));
}

static json_t *path_of(const struct catalogue *c, const struct catalogue_row *row, uint64_t now)
{
    const struct fabric *f = c->fabric;
    char up[PATHS_NAME], down[PATHS_NAME], taken[CATALOGUE_SAYS];
    json_t *hops = json_array();
    paths_uplink_name(f, row->way.uplink, up);
    paths_uplink_name(f, row->way.down, down);
    say_taken(c, row, taken);
    for (int k = 0; k < CATALOGUE_HOPS; k++) {
        const struct catalogue_hop *hop = &row->last.hop[k];
        char address[INET6_ADDRSTRLEN];
        json_array_append_new(hops,
                              json_pack("{s:s, s:i, s:i, s:f}", "router", say_address(hop->router, address), "asked",
                                        (int)hop->asked, "heard", (int)hop->heard, "age_s", seconds(now, hop->at)));
    }
    return json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:i, s:f, s:f, s:f, s:o, s:b, s:f}", "side",
                     catalogue_side(c, row), "crosses", catalogue_crosses(c, row), "up", up, "down", down, "by", taken,
                     "from", f->nic[row->from].address, "to", f->nic[row->to].address, "port", (int)row->port, "probes",
                     (json_int_t)(row->now.judged + row->before.judged), "lost",
                     (json_int_t)(row->now.lost + row->before.lost), "silent", (int)row->last.silent, "least_us",
                     (double)row->last.delay_least / 1000, "mean_us", mean_delay(row), "mbit_s", row->rate[0] * 8e-6,
                     "hops", hops, "reported", row->reported != 0, "age_s", seconds(now, row->reported));
}

static void add_json(const struct pathmaster *master, struct text *out)
{
    const struct catalogue *c = &master->catalogue;
    uint64_t now = clock_ns();
    json_t *faults = json_array(), *others = json_array(), *paths = json_array();
    for (int32_t u = 0; u < c->fabric->uplinks; u++)
        if (c->link[u].percent < 100)
            json_array_append_new(faults, fault_of(c, u, now));
    for (int i = 0; i < c->others; i++) {
        char name[CATALOGUE_SAYS];
        catalogue_part(c, c->other[i].part, name);
        json_array_append_new(
            others, json_pack("{s:s, s:f, s:f}", "part", name, "loss", c->other[i].loss, "rate", c->other[i].rate));
    }
    for (int32_t i = 0; i < c->rows; i++)
        json_array_append_new(paths, path_of(c, &c->row[i], now));
    json_t *all = json_pack("{s:i, s:i, s:b, s:I, s:o, s:o, s:o}", "leaves", c->leaves, "nics", c->hosts, "sweep",
                            catalogue_sweeps(c, now), "strange", (json_int_t)c->strange, "faults", faults, "others",
                            others, "paths", paths);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    json_decref(all);
    out->failed |= !text;
    if (text)
        text_append(out, text, strlen(text));
    free(text);
}

void pathmaster_show(const struct pathmaster *master, bool json, struct text *out)
{
    (json ? add_json : add_text)(master, out);
}
