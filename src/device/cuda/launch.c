/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of kernels. The numbers, and where they were measured, stand in tables/gpu.tbl; see docs/device-cuda.md. */
#include "device/cuda/launch.h"

#include "device/cuda/numbers.h"

#include <string.h>

#define ONE_SHOT_EACH KERNEL_LL_BYTES /* of a stripe */

/* The library's own numbers: `blocks` blocks for `from` bytes and more. */
struct usual {
    uint64_t from;
    unsigned blocks;
};
static const struct usual reductions[] = {{0, NUMBER_REDUCE_SHORT_BLOCKS},
                                          {NUMBER_REDUCE_MIDDLE_FROM, NUMBER_REDUCE_MIDDLE_BLOCKS},
                                          {NUMBER_REDUCE_LONG_FROM, NUMBER_REDUCE_LONG_BLOCKS},
                                          {UINT64_MAX, 0}};
static const struct usual messages[] = {
    {0, NUMBER_MESSAGE_SHORT_BLOCKS}, {NUMBER_MESSAGE_LONG_FROM, NUMBER_MESSAGE_LONG_BLOCKS}, {UINT64_MAX, 0}};
static const struct usual through_host[] = {{0, NUMBER_HOST_BLOCKS}, {UINT64_MAX, 0}};

static unsigned launch_larger(unsigned x, unsigned y)
{
    return x > y ? x : y;
}

static unsigned smaller(unsigned x, unsigned y)
{
    return x < y ? x : y;
}

/* More than a few blocks come in whole clusters: odd ones of one launch would leave a GPU with processors that none of
 * another's fits on. */
static unsigned in_clusters(unsigned blocks, unsigned most)
{
    const unsigned more = (blocks + KERNEL_CLUSTER - 1) / KERNEL_CLUSTER * KERNEL_CLUSTER;
    return blocks > KERNEL_CLUSTER && more <= most ? more : blocks;
}

/* Half of the processors: a kernel that waits for a peer never keeps another one of ours away, for which that peer may
 * wait. */
struct kernel_room kernel_room(unsigned processors, unsigned least, unsigned most)
{
    struct kernel_room room = {least, most && most < KERNEL_STRIPES ? most : KERNEL_STRIPES};
    room.most = launch_larger(1, smaller(room.most, processors / 2));
    if (room.most > KERNEL_CLUSTER)
        room.most -= room.most % KERNEL_CLUSTER;
    room.least = in_clusters(smaller(room.least, room.most), room.most);
    return room;
}

/*
 * Any two launches of ours must fit on a GPU together (kernel_room()). Two of up to KERNEL_FEW blocks do if there is
 * room for their clusters. A larger one comes in pairs, of which two fit by their number. Beside these, wherever they
 * are, one of few blocks fits, too: its clusters are two pairs of one group of neighbouring processors, so of what is
 * free each group wastes a pair at most.
 */
#define GROUPS_MOST 16 /* of neighbouring processors: a GPU has eight or so */

struct kernel_clusters kernel_clusters(unsigned processors, unsigned pairs, unsigned larger)
{
    struct kernel_clusters clusters = {processors, 1, 1};
    const unsigned few = KERNEL_FEW / KERNEL_CLUSTER;
    if (!pairs)
        return clusters;
    clusters.processors = smaller(processors, 2 * pairs);
    clusters.few = clusters.more = 2;
    const unsigned most = kernel_room(clusters.processors, 0, 0).most;
    if (larger >= 2 * few && pairs >= most / 2 + GROUPS_MOST + few * (KERNEL_CLUSTER / 2))
        clusters.few = KERNEL_CLUSTER;
    return clusters;
}

unsigned kernel_cluster_of(struct kernel_clusters clusters, unsigned blocks)
{
    const unsigned cluster = blocks <= KERNEL_FEW ? clusters.few : clusters.more;
    return blocks % cluster ? 1 : cluster;
}

unsigned kernel_most_blocks(enum kernel_id kernel, struct kernel_room room)
{
    return kernel == KERNEL_REDUCE_LINES ? smaller(room.most, KERNEL_LINES_BLOCKS) : room.most;
}

static unsigned most_for(const struct usual *usual, uint64_t bytes, struct kernel_room room)
{
    while (usual[1].from <= bytes && usual[1].blocks)
        usual++;
    return smaller(launch_larger(usual->blocks, room.least), room.most);
}

static unsigned parts(size_t bytes, size_t each, unsigned most)
{
    size_t wanted = bytes / each + (bytes % each != 0);
    if (wanted > most)
        wanted = most;
    return wanted ? in_clusters((unsigned)wanted, most) : 1;
}

/* Two stripes a block, as there are threads for; KERNEL_STRIPES of them at most. */
static void shape_small(size_t bytes, size_t each, unsigned most, struct kernel_launch *out)
{
    const unsigned stripes = parts(bytes, each, smaller(2 * most, KERNEL_STRIPES));
    out->blocks = in_clusters((stripes + 1) / 2, most);
    out->stripes = out->blocks > KERNEL_CLUSTER ? 2 * out->blocks : stripes;
    out->threads = out->stripes > 1 ? KERNEL_LL_THREADS : KERNEL_LL_HALF;
}

uint32_t kernel_list_width(enum kernel_id kernel, struct kernel_room room)
{
    return kernel == KERNEL_REDUCE_LISTED ? KERNEL_LINES_WARPS * smaller(room.most, NUMBER_LIST_LINES_BLOCKS)
                                          : 2 * smaller(room.most, NUMBER_LIST_BLOCKS);
}

void kernel_shape_list(enum kernel_id kernel, uint32_t stripes, struct kernel_room room, struct kernel_launch *out)
{
    if (kernel != KERNEL_REDUCE_LISTED) {
        shape_small(stripes, 1, smaller(room.most, NUMBER_LIST_BLOCKS), out);
        return;
    }
    out->stripes = smaller(stripes, kernel_list_width(kernel, room));
    out->blocks = parts(out->stripes, NUMBER_LIST_WARPS, smaller(room.most, NUMBER_LIST_LINES_BLOCKS));
    out->threads = KERNEL_LINES_THREADS;
}

/* With few warps for a vector these do several steps, which hide one another's way; the other warps have the list's
 * other vectors meanwhile. All of them are to end together, so rounds are whole if the vectors are alike. */
static uint32_t lines_stripes(uint64_t tiles, uint32_t vectors, uint32_t width)
{
    const uint64_t few = (tiles + NUMBER_LIST_STEPS - 1) / NUMBER_LIST_STEPS;
    uint64_t rounds = (vectors * few + width / 2) / width, stripes;
    rounds = rounds ? rounds : 1;
    stripes = (rounds * width + vectors - 1) / vectors;
    stripes = stripes < width ? stripes : width;
    return (uint32_t)(tiles < stripes ? tiles : stripes);
}

void kernel_shape_lines(uint64_t part, uint32_t vectors, struct kernel_room room, struct kernel_launch *out)
{
    const uint64_t tiles = part / KERNEL_LINES_TILE + (part % KERNEL_LINES_TILE != 0);
    const uint32_t width = kernel_list_width(KERNEL_REDUCE_LISTED, room);
    vectors = vectors < 1 ? 1 : vectors < KERNEL_LIST_MOST ? vectors : KERNEL_LIST_MOST;
    *out = (struct kernel_launch){.kernel = KERNEL_REDUCE_LISTED};
    kernel_shape_list(KERNEL_REDUCE_LISTED, lines_stripes(tiles, vectors, width), room, out);
}

/* Few blocks, and short chunks: blocks that look at flags in host memory hold up the data. */
static void shape_in_host(size_t bytes, struct kernel_room room, struct kernel_launch *out)
{
    unsigned blocks = parts(bytes, NUMBER_HOST_EACH, most_for(through_host, bytes, room));
    out->blocks = smaller(launch_larger(blocks, NUMBER_HOST_LEAST_BLOCKS), room.most);
    out->chunk = bytes <= NUMBER_HOST_SHORT_TO ? NUMBER_HOST_CHUNK : 2 * NUMBER_HOST_CHUNK;
}

void kernel_shape_reduce(enum kernel_id kernel, size_t bytes, struct kernel_room room, bool in_host,
                         struct kernel_launch *out)
{
    const unsigned most = most_for(reductions, bytes, room);
    *out = (struct kernel_launch){.kernel = kernel};
    if (kernel == KERNEL_REDUCE_ONE || kernel == KERNEL_REDUCE_TWO || kernel == KERNEL_GATHER) {
        shape_small(bytes, kernel == KERNEL_REDUCE_TWO ? NUMBER_TWO_SHOT_EACH : ONE_SHOT_EACH, most, out);
        return;
    }
    if (kernel == KERNEL_REDUCE_LINES) {
        out->blocks = parts(bytes, NUMBER_LINES_EACH, smaller(most, kernel_most_blocks(kernel, room)));
        out->threads = KERNEL_LINES_THREADS;
        return;
    }
    out->blocks = parts(bytes, kernel == KERNEL_REDUCE_PEER ? NUMBER_PEER_EACH : NUMBER_BULK_EACH, most);
    out->threads = kernel == KERNEL_REDUCE_PEER ? KERNEL_PEER_THREADS : KERNEL_BULK_THREADS;
    if (in_host)
        shape_in_host(bytes, room, out);
}

/* ---- exchanges ---- */

/* Messages of one direction, by the distance of the peer: bytes, stripes, blocks. */
struct deal {
    uint64_t bytes[KERNEL_RANKS];
    uint32_t stripes[KERNEL_RANKS];
    unsigned blocks[KERNEL_RANKS];
};

/* items: of a list, of which `what` has the longest messages; 1: there is no other. Those of one turn have the same
 * stripes. */
static void deal_open(struct deal *deal, const struct kernel_exchange *what, uint32_t items, bool out)
{
    const int n = what->team.nranks, me = what->team.rank;
    for (int k = 1; k < n; k++) {
        deal->bytes[k] = out ? what->send_bytes[(me + k) % n] : what->recv_bytes[(me + n - k) % n];
        const uint32_t all = items * kernel_exchange_stripes(what, deal->bytes[k]),
                       most = kernel_form_stripes(kernel_exchange_form(what, deal->bytes[k]));
        deal->stripes[k] = smaller(all, most);
        deal->blocks[k] = all != 0;
        deal->bytes[k] *= items;
    }
}

/* The message whose blocks have most bytes each, of those that could have another block; 0: none. */
static int deal_slowest(const struct deal *deal, int n)
{
    int slowest = 0;
    for (int k = 1; k < n; k++)
        if (deal->blocks[k] < deal->stripes[k] &&
            (!slowest || deal->bytes[k] / deal->blocks[k] > deal->bytes[slowest] / deal->blocks[slowest]))
            slowest = k;
    return slowest;
}

static unsigned deal_sum(const struct deal *deal, int n)
{
    unsigned sum = 0;
    for (int k = 1; k < n; k++)
        sum += deal->blocks[k];
    return sum;
}

/* Returns the blocks that are used. */
static unsigned launch_deal_out(struct deal *deal, int n, unsigned most, uint16_t *end)
{
    unsigned left = deal_sum(deal, n) < most ? most - deal_sum(deal, n) : 0;
    for (int k = deal_slowest(deal, n); left && k; k = deal_slowest(deal, n), left--)
        deal->blocks[k]++;
    end[0] = 0;
    for (int k = 1; k < n; k++)
        end[k] = (uint16_t)(end[k - 1] + deal->blocks[k]);
    return end[n - 1];
}

static uint64_t launch_all_bytes(const struct deal *deal, int n)
{
    uint64_t sum = 0;
    for (int k = 1; k < n; k++)
        sum += deal->bytes[k];
    return sum;
}

/* A block copies faster inside a GPU than over links, but peers share these: nearly as many as the message to one peer
 * has. */
static unsigned own_blocks(const struct kernel_exchange *what, uint32_t items, unsigned most, unsigned others)
{
    const int me = what->team.rank;
    const unsigned share = others ? most / (others + 2) : most;
    if (!what->send_bytes[me] || what->send[me] == what->recv[me])
        return 0;
    return smaller(items * kernel_exchange_stripes(what, what->send_bytes[me]), launch_larger(share, 1));
}

static void choose_exchange(struct kernel_exchange *what, uint32_t items, struct kernel_room room, bool in_host,
                            struct kernel_launch *out)
{
    const int n = what->team.nranks;
    struct deal sent = {{0}, {0}, {0}}, received = {{0}, {0}, {0}};
    deal_open(&sent, what, items, true);
    deal_open(&received, what, items, false);
    const uint64_t bytes = launch_all_bytes(&sent, n) > launch_all_bytes(&received, n) ? launch_all_bytes(&sent, n)
                                                                                       : launch_all_bytes(&received, n);
    const unsigned most = most_for(in_host ? through_host : messages, bytes + what->send_bytes[what->team.rank], room);
    const unsigned own = own_blocks(what, items, most, launch_larger(deal_sum(&sent, n), deal_sum(&received, n))),
                   others = most > own ? most - own : 0;
    const unsigned used = launch_larger(launch_deal_out(&sent, n, others, what->out_end),
                                        launch_deal_out(&received, n, others, what->in_end));
    *out = (struct kernel_launch){.kernel = KERNEL_EXCHANGE,
                                  .blocks = in_clusters(launch_larger(used + own, 1), room.most),
                                  .threads = KERNEL_EXCHANGE_THREADS};
}

void kernel_choose_exchange(struct kernel_exchange *what, struct kernel_room room, bool in_host,
                            struct kernel_launch *out)
{
    choose_exchange(what, 1, room, in_host, out);
}

/* Of two messages the one that has more stripes decides: they may go in different forms. */
static uint64_t launch_longest(const struct kernel_exchange *what, uint64_t x, uint64_t y)
{
    const uint32_t stripes[] = {kernel_exchange_stripes(what, x), kernel_exchange_stripes(what, y)};
    return stripes[0] > stripes[1] || (stripes[0] == stripes[1] && x > y) ? x : y;
}

void kernel_choose_messages(struct kernel_messages *what, struct kernel_room room, bool in_host,
                            struct kernel_launch *out)
{
    struct kernel_exchange all = what->item[0];
    uint32_t turns = 1;
    for (uint32_t i = 1; i < what->items; i++) {
        turns += what->item[i].turn != what->item[i - 1].turn;
        for (int p = 0; p < all.team.nranks; p++) {
            const struct kernel_exchange *one = &what->item[i];
            all.send_bytes[p] = launch_longest(&all, all.send_bytes[p], one->send_bytes[p]);
            all.recv_bytes[p] = launch_longest(&all, all.recv_bytes[p], one->recv_bytes[p]);
            if (p == all.team.rank && one->send[p] != one->recv[p] &&
                one->send_bytes[p]) { /* there is a copy to make */
                all.send[p] = one->send[p];
                all.recv[p] = one->recv[p];
            }
        }
    }
    choose_exchange(&all, turns, room, in_host, out);
    for (uint32_t i = 0; i < what->items; i++) {
        memcpy(what->item[i].out_end, all.out_end, sizeof all.out_end);
        memcpy(what->item[i].in_end, all.in_end, sizeof all.in_end);
    }
    out->kernel = KERNEL_MESSAGES;
}

/* A pair's lines have no more stripes than a peer gets blocks here. */
void kernel_choose_dynamic(struct kernel_dynamic *what, struct kernel_room room, bool in_host,
                           struct kernel_launch *out)
{
    const unsigned others = (unsigned)what->exchange.team.nranks - 1,
                   most =
                       smaller(launch_larger(in_host ? NUMBER_HOST_BLOCKS : NUMBER_MANY_BLOCKS, room.least), room.most),
                   share = most / (others + 1);
    what->blocks = launch_larger(1, smaller(share, NUMBER_DYNAMIC_BLOCKS));
    *out = (struct kernel_launch){.kernel = KERNEL_DYNAMIC,
                                  .blocks = in_clusters(what->blocks * (others + 1), room.most),
                                  .threads = KERNEL_DYNAMIC_THREADS};
}

void kernel_choose_puts(uint64_t bytes, struct kernel_room room, struct kernel_launch *out)
{
    *out = (struct kernel_launch){.kernel = KERNEL_PUTS,
                                  .blocks = parts(bytes, KERNEL_CHAIN_EACH, most_for(messages, bytes, room)),
                                  .threads = KERNEL_PUTS_THREADS};
}

void kernel_choose_chain(uint64_t bytes, struct kernel_room room, struct kernel_launch *out)
{
    *out = (struct kernel_launch){.kernel = KERNEL_CHAIN,
                                  .blocks = parts(bytes, KERNEL_CHAIN_EACH, most_for(messages, bytes, room)),
                                  .threads = KERNEL_CHAIN_THREADS};
}
