/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclConfig_t has grown from 24 to 120 bytes. The caller's size says how much of it there is, its version which fields
 * it knew: whatever is newer holds nothing, even where the size would include it.
 */
#include "nccl/config.h"
#include "nccl/group.h"
#include "nccl/result.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC       0xcafebeefu
#define LEAST_SIZE  24
#define LARGEST     4096
#define MOST_BLOCKS 64 /* that tutti's config takes */

struct config_known {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, least_ctas, most_ctas;
    const char *net;
    int split_share, traffic_class;
    const char *name;
    int collnet, policy, shrink_share, nvls_ctas;
    int channels_per_peer, nvlink_centric;
    int graph_usage, rma_contexts;
    int p2p_peers, graph_order;
    int launch_order, rma_signals, rma_eager, host_cft;
    int nvls_host;
};
_Static_assert(sizeof(struct config_known) == 120, "the layout of 2.32.3");

/* Fields in their order: where they begin, and the first version that had them. Names are pointers, the rest is int. */
static const struct {
    size_t from, to;
    unsigned since;
    int least, most; /* of an int that is looked at; least > most: any value is taken */
    const char *name;
} fields[] = {
#define FIELD(member, since, least, most, name)                                                                        \
    {                                                                                                                  \
        offsetof(struct config_known, member),                                                                         \
            offsetof(struct config_known, member) + sizeof((struct config_known *)0)->member, since, least, most, name \
    }
    FIELD(blocking, 21400, 0, 1, "blocking"),
    FIELD(cluster, 21700, 0, 8, "cgaClusterSize"),
    FIELD(least_ctas, 21700, 1, INT_MAX, "minCTAs"),
    FIELD(most_ctas, 21700, 1, INT_MAX, "maxCTAs"),
    FIELD(net, 21700, 1, 0, "netName"),
    FIELD(split_share, 21800, 0, 1, "splitShare"),
    FIELD(traffic_class, 22500, 1, 0, "trafficClass"),
    FIELD(name, 22700, 1, 0, "commName"),
    FIELD(collnet, 22700, 0, 1, "collnetEnable"),
    FIELD(policy, 22700, 0, 3, "CTAPolicy"),
    FIELD(shrink_share, 22700, 0, 1, "shrinkShare"),
    FIELD(nvls_ctas, 22700, 1, INT_MAX, "nvlsCTAs"),
    FIELD(channels_per_peer, 22800, 1, INT_MAX, "nChannelsPerNetPeer"),
    FIELD(nvlink_centric, 22800, 0, 1, "nvlinkCentricSched"),
    FIELD(graph_usage, 22900, 1, 0, "graphUsageMode"),
    FIELD(rma_contexts, 22900, 1, 0, "numRmaCtx"),
    FIELD(p2p_peers, 23003, 1, 0, "maxP2pPeers"),
    FIELD(graph_order, 23005, 1, 0, "graphStreamOrdering"),
    FIELD(launch_order, 23102, 1, 0, "launchOrderImplicit"),
    FIELD(rma_signals, 23102, 1, 0, "numRmaSig"),
    FIELD(rma_eager, 23102, 1, 0, "rmaEagerInit"),
    FIELD(host_cft, 23102, 1, 0, "hostCftMode"),
    FIELD(nvls_host, 23203, 1, 0, "nvlsHostMode"),
#undef FIELD
};
#define FIELDS (sizeof fields / sizeof *fields)

static void undefine(struct config_known *known, size_t index)
{
    static const int nothing = NCCL_CONFIG_UNDEF_INT;
    unsigned char *at = (unsigned char *)known + fields[index].from;
    size_t size = fields[index].to - fields[index].from;
    if (size == sizeof nothing)
        memcpy(at, &nothing, sizeof nothing);
    else
        memset(at, 0, size);
}

static ncclResult_t check_values(const struct config_known *known)
{
    for (size_t i = 0; i < FIELDS; i++) {
        int value;
        if (fields[i].least > fields[i].most)
            continue;
        memcpy(&value, (const unsigned char *)known + fields[i].from, sizeof value);
        if (value != NCCL_CONFIG_UNDEF_INT && (value < fields[i].least || value > fields[i].most))
            return result_fail(ncclInvalidArgument, "config: %s is %d; want %d to %d, or NCCL_CONFIG_UNDEF_INT",
                               fields[i].name, value, fields[i].least, fields[i].most);
    }
    if (known->least_ctas != NCCL_CONFIG_UNDEF_INT && known->most_ctas != NCCL_CONFIG_UNDEF_INT &&
        known->least_ctas > known->most_ctas)
        return result_fail(ncclInvalidArgument, "config: minCTAs is %d, more than maxCTAs, %d", known->least_ctas,
                           known->most_ctas);
    return ncclSuccess;
}

/* What a variable holds, of whichever name; NULL: nothing. */
static const char *variable(const char *own, const char *of_nccl)
{
    const char *text = getenv(own);
    if (!text || !*text)
        text = getenv(of_nccl);
    return text && *text ? text : NULL;
}

/* More blocks than tutti's own number are of no use to it: there is no least one. The environment comes first, as with
 * NCCL. */
static int blocks_of(const struct config_known *known)
{
    if (known->most_ctas == NCCL_CONFIG_UNDEF_INT || variable("TUTTI_BLOCKS", "NCCL_MAX_CTAS") ||
        variable("TUTTI_BLOCKS", "NCCL_MAX_NCHANNELS"))
        return 0;
    return known->most_ctas < MOST_BLOCKS ? known->most_ctas : MOST_BLOCKS;
}

/* Both bits may be set. */
static int policy_of(const struct config_known *known)
{
    if (known->policy == NCCL_CONFIG_UNDEF_INT || variable("TUTTI_CTA_POLICY", "NCCL_CTA_POLICY"))
        return -1;
    return known->policy & NCCL_CTA_POLICY_ZERO ? TUTTI_POLICY_ZERO : known->policy;
}

ncclResult_t config_read(const void *user, struct comm_config *out)
{
    struct config_known known = {0};
    size_t size;
    *out = (struct comm_config){NCCL_CONFIG_UNDEF_INT, NULL, 0, -1};
    if (!user)
        return ncclSuccess;
    memcpy(&size, user, sizeof size);
    if (size < LEAST_SIZE || size > LARGEST)
        return result_fail(ncclInvalidArgument, "config: its size is %zu; was it set from NCCL_CONFIG_INITIALIZER?",
                           size);
    for (size_t i = 0; i < FIELDS; i++)
        undefine(&known, i);
    memcpy(&known, user, size < sizeof known ? size : sizeof known);
    if (known.magic != MAGIC)
        return result_fail(ncclInvalidArgument, "config: its magic is 0x%x; set it from NCCL_CONFIG_INITIALIZER",
                           known.magic);
    for (size_t i = 0; i < FIELDS; i++)
        if (known.version < fields[i].since || fields[i].to > size)
            undefine(&known, i);
    *out = (struct comm_config){known.blocking, known.name, blocks_of(&known), policy_of(&known)};
    return check_values(&known);
}

int config_blocking(int wanted, int inherited)
{
    const char *text = variable("TUTTI_COMM_BLOCKING", "NCCL_COMM_BLOCKING");
    if (text)
        return strcmp(text, "0") != 0;
    return wanted == NCCL_CONFIG_UNDEF_INT ? inherited : wanted;
}
