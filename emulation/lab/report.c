/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and JSON. No name needs escaping: config_name_ok and topology_build allow no quote in any. */
#include "lab/report.h"
#include "wiring/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void far_end(const struct lab_topology *topology, int link, char *out, size_t size)
{
    const struct lab_end *upper = &topology->links[link].upper;
    snprintf(out, size, "%s.%s", topology->nodes[upper->node].name, upper->port);
}

static double megabits(const struct counters_side *side, double seconds)
{
    return (double)side->bytes * 8e-6 / seconds;
}

static void table_link(const struct counters *counters, int i, struct text *out)
{
    const struct counters_link *link = &counters->links[i];
    char far[40], rate[24];
    far_end(counters->topology, i, far, sizeof far);
    config_format_rate(link->rate, rate, sizeof rate);
    text_add(out, "%-8s %-9s %-9s %-13s", counters->topology->links[i].name, far, rate,
             counters_state_name(counters, i));
    if (counters->seconds > 0) {
        double up = megabits(&link->up, counters->seconds), down = megabits(&link->down, counters->seconds);
        double full = link->rate ? 100 / ((double)link->rate * 1e-6) : 0;
        text_add(out, " %9.1f %4.0f%% %8" PRIu64 " %9.1f %4.0f%% %8" PRIu64 "\n", up, up * full, link->up.drops, down,
                 down * full, link->down.drops);
        return;
    }
    text_add(out, " %12" PRIu64 " %9" PRIu64 " %7" PRIu64 " %12" PRIu64 " %9" PRIu64 " %7" PRIu64 "\n", link->up.bytes,
             link->up.packets, link->up.drops, link->down.bytes, link->down.packets, link->down.drops);
}

static void table_balance(const struct counters *counters, int leaf, bool up, struct text *out)
{
    struct balance balance = counters_balance(counters, leaf, up);
    int count = topology_uplinks(&counters->topology->spec) * (leaf < 0 ? counters->topology->spec.leaves : 1);
    char name[24] = "all";
    if (leaf >= 0)
        snprintf(name, sizeof name, "l%d", leaf);
    text_add(out, "%-8s %-9s %5d %14.0f %8.2f %14.0f %14.3e\n", name, up ? "sent" : "received", count, balance.mean,
             balance.max_over_mean, sqrt(balance.variance), balance.variance);
}

void report_table(const struct counters *counters, struct text *out)
{
    const struct lab_spec *spec = &counters->topology->spec;
    text_add(out, "%-8s %-9s %-9s %-13s", "LINK", "FAR END", "RATE", "STATE");
    if (counters->seconds > 0)
        text_add(out, " %9s %5s %8s %9s %5s %8s\n", "UP Mbit/s", "LOAD", "DROPS", "DN Mbit/s", "LOAD", "DROPS");
    else
        text_add(out, " %12s %9s %7s %12s %9s %7s\n", "UP BYTES", "PACKETS", "DROPS", "DOWN BYTES", "PACKETS", "DROPS");
    for (int i = 0; i < counters->topology->link_count; i++)
        table_link(counters, i, out);
    if (topology_uplinks(spec) == 0)
        return;
    text_add(out, "\n%-8s %-9s %5s %14s %8s %14s %14s\n", "UPLINKS", "BYTES", "LINKS", "MEAN", "MAX/MEAN",
             "STD DEVIATION", "VARIANCE");
    for (int leaf = spec->leaves > 1 ? -1 : 0; leaf < spec->leaves; leaf++) {
        table_balance(counters, leaf, true, out);
        table_balance(counters, leaf, false, out);
    }
}

static void json_side(const char *name, const struct counters_side *side, struct text *out)
{
    text_add(out, ", \"%s\": {\"bytes\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"drops\": %" PRIu64 "}", name,
             side->bytes, side->packets, side->drops);
}

static void json_balance(const struct counters *counters, int leaf, bool up, struct text *out)
{
    struct balance balance = counters_balance(counters, leaf, up);
    text_add(out, "\"%s\": {\"mean\": %.1f, \"variance\": %.1f, \"max_over_mean\": %.6f}", up ? "sent" : "received",
             balance.mean, balance.variance, balance.max_over_mean);
}

void report_json(const struct counters *counters, struct text *out)
{
    const struct lab_topology *topology = counters->topology;
    text_add(out, "{\"lab\": \"%s\", \"seconds\": %.3f, \"links\": [", topology->spec.name, counters->seconds);
    for (int i = 0; i < topology->link_count; i++) {
        char far[40];
        far_end(topology, i, far, sizeof far);
        text_add(
            out,
            "%s\n  {\"name\": \"%s\", \"far_end\": \"%s\", \"kind\": \"%s\", \"state\": \"%s\", \"rate\": %" PRIu64,
            i ? "," : "", topology->links[i].name, far, topology->links[i].uplink ? "uplink" : "host",
            counters_state_name(counters, i), counters->links[i].rate);
        json_side("up", &counters->links[i].up, out);
        json_side("down", &counters->links[i].down, out);
        text_add(out, "}");
    }
    text_add(out, "],\n \"uplinks\": [");
    int first = topology_uplinks(&topology->spec) ? -1 : topology->spec.leaves;
    for (int leaf = first; leaf < topology->spec.leaves; leaf++) {
        if (leaf < 0)
            text_add(out, "\n  {\"of\": \"all\", ");
        else
            text_add(out, ",\n  {\"of\": \"l%d\", ", leaf);
        json_balance(counters, leaf, true, out);
        text_add(out, ", ");
        json_balance(counters, leaf, false, out);
        text_add(out, "}");
    }
    text_add(out, "]}\n");
}

void report_hosts(const struct lab_topology *topology, bool json, struct text *out)
{
    const struct lab_spec *spec = &topology->spec;
    text_add(out, "%s", json ? "[" : "HOST NIC  LEAF ADDRESS         IPV6\n");
    for (int i = 0; i < spec->hosts * spec->nics; i++) {
        const struct lab_link *link = &topology->links[i];
        const char *host = topology->nodes[link->lower.node].name, *leaf = topology->nodes[link->upper.node].name;
        const char *ip6 = spec->ipv6 ? link->lower.ip6 : "";
        if (json)
            text_add(out,
                     "%s\n  {\"host\": \"%s\", \"nic\": \"%s\", \"leaf\": \"%s\", \"ipv4\": \"%s\", \"ipv6\": \"%s\"}",
                     i ? "," : "", host, link->lower.port, leaf, link->lower.ip4, ip6);
        else
            text_add(out, "%-4s %-4s %-4s %-15s %s\n", host, link->lower.port, leaf, link->lower.ip4, *ip6 ? ip6 : "-");
    }
    if (json)
        text_add(out, "]\n");
}
