/* SPDX-License-Identifier: Apache-2.0 */
/* A pair of memory and adapter is a pipe: what goes in leaves at its rate, one after the other. A queue pair
 * that finds more than SLACK_NS in it waits until that has gone, and may then put in QUANTUM bytes, whatever others
 * have put in meanwhile: all get the same. */
#include "verbs/pace.h"
#include "verbs/counters.h"
#include "verbs/dmabuf.h"

#include "base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RULES_MAX 64
#define NAME_MAX  64
#define SLACK_NS  NS_PER_MS
#define QUANTUM   ((size_t)64 * 1024)

#define NODE_OF_ADDRESS 3 /* MPOL_F_NODE | MPOL_F_ADDR */

enum pace_kind { PACE_ANY, PACE_HOST, PACE_NODE, PACE_NAMED };

struct pace_rule {
    char memory[NAME_MAX], device[IBV_SYSFS_NAME_MAX];
    enum pace_kind kind;
    uint64_t value; /* a node's number, or that of named memory */
    uint64_t rate;  /* bytes in a second */
};

struct pace {
    struct list node;
    struct pace_rule rule;
    char device[IBV_SYSFS_NAME_MAX]; /* by name: devices come and go */
    uint64_t memory;
    uint64_t free_at[2], moved[2]; /* by enum pace_way */
};

static struct pace_rule rules[RULES_MAX];
static int rule_count;
static bool loaded;
static struct list paces = {&paces, &paces};

static bool read_rate(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        double bits;
    } units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    char *unit;
    if (!isdigit((unsigned char)*text)) /* no sign, no "inf" */
        return false;
    double value = strtod(text, &unit);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (!strcasecmp(unit, units[i].name)) {
            double bytes = value * units[i].bits / 8;
            *out = bytes >= 1 && bytes < 1e15 ? (uint64_t)bytes : 0;
            return *out;
        }
    return false;
}

/* "gpu1" is the CUDA stand-in's memory of the machine's GPU 1, "node1" what the kernel has on that node. */
static bool read_memory(struct pace_rule *rule)
{
    char *end = rule->memory, name[NAME_MAX + 32];
    bool gpu = !strncmp(rule->memory, "gpu", 3), node = !strncmp(rule->memory, "node", 4);
    const char *number = rule->memory + (gpu ? 3 : 4);
    bool numbered = (gpu || node) && isdigit((unsigned char)*number);
    rule->kind = !strcmp(rule->memory, "*") ? PACE_ANY : !strcmp(rule->memory, "host") ? PACE_HOST : PACE_NAMED;
    if (numbered)
        rule->value = strtoull(number, &end, 10);
    if (numbered && node && !*end)
        rule->kind = PACE_NODE;
    if (rule->kind == PACE_NAMED) {
        bool short_name = numbered && gpu && !*end;
        snprintf(name, sizeof(name), "%s%.*s", short_name ? "tutti-emulated-" : "", NAME_MAX - 1, rule->memory);
        rule->value = dmabuf_memory(name);
    }
    return *rule->memory;
}

static bool read_part(char *out, size_t size, const char *from, const char *end)
{
    if (!end || end == from || (size_t)(end - from) >= size)
        return false;
    snprintf(out, size, "%.*s", (int)(end - from), from);
    return true;
}

static bool read_rule(struct pace_rule *rule, const char *item)
{
    const char *at = strchr(item, '@'), *equal = at ? strchr(at, '=') : NULL;
    return read_part(rule->memory, sizeof(rule->memory), item, at) &&
           read_part(rule->device, sizeof(rule->device), at + 1, equal) && read_memory(rule) &&
           read_rate(equal + 1, &rule->rate);
}

bool pace_set(const char *text)
{
    struct pace_rule next[RULES_MAX] = {0}; /* rules are compared as bytes */
    int n = 0;
    char *copy = strdup(text), *rest = copy, *item;
    bool good = copy;
    while (good && (item = strsep(&rest, ", \n")))
        if (*item)
            good = n < RULES_MAX && read_rule(&next[n++], item);
    free(copy);
    if (!good)
        return false;
    memcpy(rules, next, (size_t)n * sizeof(*next));
    rule_count = n;
    loaded = true;
    return true;
}

static void load(void)
{
    const char *text = getenv("SOFTVERBS_RATES");
    loaded = true;
    if (text && !pace_set(text))
        fprintf(stderr,
                "softverbs: cannot use SOFTVERBS_RATES=\"%s\": a list like gpu1@mlx5_0=2gbit,host@*=10gbit is wanted\n",
                text);
}

static bool on_node(const void *address, uint64_t node)
{
    int found = -1;
    return address && !syscall(SYS_get_mempolicy, &found, NULL, 0, address, NODE_OF_ADDRESS) && found >= 0 &&
           (uint64_t)found == node;
}

static bool matches(const struct pace_rule *rule, const struct rdma_device *device, uint64_t memory,
                    const void *address)
{
    if (strcmp(rule->device, "*") != 0 && strcmp(rule->device, device->ibv.name) != 0)
        return false;
    switch (rule->kind) {
    case PACE_ANY:
        return true;
    case PACE_HOST:
        return !memory;
    case PACE_NODE:
        return !memory && on_node(address, rule->value);
    case PACE_NAMED:
        return memory == rule->value;
    }
    return false;
}

/* Under "*" each memory is a pair of its own. */
static struct pace *pair_of(const struct pace_rule *rule, const struct rdma_device *device, uint64_t memory)
{
    list_each(node, &paces)
    {
        struct pace *pace = list_entry(node, struct pace, node);
        if (!memcmp(&pace->rule, rule, sizeof(*rule)) && !strcmp(pace->device, device->ibv.name) &&
            pace->memory == memory)
            return pace;
    }
    struct pace *pace = calloc(1, sizeof(*pace));
    if (!pace)
        return NULL;
    pace->rule = *rule;
    strcpy(pace->device, device->ibv.name);
    pace->memory = memory;
    list_push(&paces, &pace->node);
    return pace;
}

struct pace *pace_of(const struct rdma_device *device, uint64_t memory, const void *address)
{
    if (!loaded)
        load();
    for (int i = 0; i < rule_count; i++)
        if (matches(&rules[i], device, memory, address))
            return pair_of(&rules[i], device, memory);
    return NULL;
}

bool pace_used(void)
{
    return !list_empty(&paces);
}

void pace_charge(struct pace *pace, enum pace_way way, size_t size, uint64_t now)
{
    if (!pace)
        return;
    uint64_t *free_at = &pace->free_at[way];
    *free_at = (*free_at > now ? *free_at : now) + size * NS_PER_S / pace->rule.rate;
    pace->moved[way] += size;
}

uint64_t pace_through(const struct pace *pace, enum pace_way way)
{
    return pace && pace->free_at[way] > SLACK_NS ? pace->free_at[way] - SLACK_NS : 0;
}

bool pace_may(const struct pace *pace, enum pace_way way, struct pace_turn *turn, uint64_t now)
{
    turn->on = pace;
    if (!pace || turn->left)
        return true;
    if (now >= (turn->at ? turn->at : pace_through(pace, way))) {
        turn->at = 0;
        turn->left = QUANTUM;
        return true;
    }
    if (!turn->at) {
        turn->at = pace_through(pace, way);
        count(waited_for_rate);
    }
    return false;
}

void pace_took(struct pace_turn *turn, size_t size)
{
    turn->left = size < turn->left ? turn->left - size : 0;
}

void pace_each(void (*each)(const char *rule, const char *device, uint64_t rate, const uint64_t moved[2], void *arg),
               void *arg)
{
    list_each(node, &paces)
    {
        const struct pace *pace = list_entry(node, struct pace, node);
        each(pace->rule.memory, pace->device, pace->rule.rate, pace->moved, arg);
    }
}
