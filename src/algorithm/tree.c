/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Double binary tree (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", 2009). All ranks but the root are positions 1..m of two binary trees, built so that no rank is an inner node
 * of both. Each tree carries one of two blocks. So every rank sends and receives the vector about once, in log2 n
 * rounds: as a chain, with a short way. The executor's slices make the pipeline. Allreduce is reduce to rank 0 followed
 * by broadcast.
 *
 *      4         Tree 0 is the in-order tree: the level of position x is its number of trailing zero bits, odd
 * positions are / \        leaves. Tree 1 is its mirror image (m even), or shifted by one (m odd): there even positions
 * are leaves. 2   6
 *   / \ / \
 *  1  3 5  7
 */
#include "algorithm/rows.h"

struct node {
    int parent; /* ranks; -1: none */
    int child[2];
    int depth; /* of the tree's top: 0 */
};

static int two_blocks(const struct shape *shape)
{
    return 2;
}

static int eight_actions(const struct shape *shape)
{
    return 8;
}

/* Depth of the deepest node. */
static int height(int m)
{
    return log2_floor(m);
}

static int parent_position(int x, int m)
{
    int bit = x & -x, up = (x - bit) | bit << 1;
    return up <= m ? up : x - bit;
}

static int depth_of(int x, int m)
{
    int depth = 0;
    for (int top = 1 << log2_floor(m); x != top; x = parent_position(x, m))
        depth++;
    return depth;
}

/* The root of the in-order subtree right of x: as high as it can be below x, within m. */
static int right_position(int x, int m)
{
    if (x % 2 || x == m)
        return -1;
    int level = __builtin_ctz((unsigned)x) - 1, room = log2_floor(m - x);
    return x + (1 << (level < room ? level : room));
}

/* Position in tree 0's numbering of the rank at distance x >= 1 from the root, and back. */
static int turn(int x, int m, int tree)
{
    if (tree == 0)
        return x;
    return m % 2 == 0 ? m + 1 - x : x == 1 ? m : x - 1;
}

static int turn_back(int y, int m, int tree)
{
    if (tree == 0)
        return y;
    return m % 2 == 0 ? m + 1 - y : y == m ? 1 : y + 1;
}

static int tree_rank_of(const struct shape *shape, int position, int tree)
{
    int m = shape->nranks - 1;
    return position < 0 ? -1 : wrap(turn_back(position, m, tree) + shape->root, shape->nranks);
}

static struct node node_of(const struct shape *shape, int rank, int tree)
{
    int n = shape->nranks, m = n - 1, distance = wrap(rank - shape->root, n), top = 1 << log2_floor(m);
    if (distance == 0)
        return (struct node){-1, {tree_rank_of(shape, top, tree), -1}, -1};
    int x = turn(distance, m, tree), bit = x & -x;
    return (struct node){.parent = x == top ? shape->root : tree_rank_of(shape, parent_position(x, m), tree),
                         .child = {tree_rank_of(shape, bit > 1 ? x - bit / 2 : -1, tree),
                                   tree_rank_of(shape, right_position(x, m), tree)},
                         .depth = depth_of(x, m)};
}

static int one_way_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : height(shape->nranks - 1) + 1;
}

static int both_ways_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : 2 * (height(shape->nranks - 1) + 1);
}

/* Inner nodes have SCRATCH[0]: mine and the left child's, [1]: the right child's, [2]: the sum. Inner in one tree at
 * most. */
static int tree_reduce_scratch(const struct shape *shape, int rank)
{
    for (int tree = 0; tree < 2 && shape->nranks > 1 && rank != shape->root; tree++)
        if (node_of(shape, rank, tree).child[0] >= 0)
            return 3;
    return 0;
}

/* A node sends up when the children of its depth have all come: in round height - depth. The root of all is one above
 * the top. */
static int reduce_tree(const struct shape *shape, int me, int round, int tree, struct action *actions)
{
    struct node node = node_of(shape, me, tree);
    struct run block = run(tree, 1);
    int count = 0, turn_to_send = height(shape->nranks - 1) - node.depth;
    bool root = node.parent < 0, two = node.child[1] >= 0;
    if (round == turn_to_send && two)
        actions[count++] = act_reduce(scratch(0), 2, scratch(2), block, false);
    if (round == turn_to_send && !root)
        actions[count++] = act_send(node.parent, node.child[0] < 0 ? in(tree) : scratch(two ? 2 : 0), block);
    if (round == turn_to_send - 1 && node.child[0] >= 0)
        actions[count++] = act_recv_reduce(node.child[0], in(tree), root ? out(tree) : scratch(0), block, root);
    if (round == turn_to_send - 1 && two)
        actions[count++] = act_recv(node.child[1], scratch(1), block);
    return count;
}

static int broadcast_tree(const struct shape *shape, int me, int round, int tree, bool from_in, struct action *actions)
{
    struct node node = node_of(shape, me, tree);
    bool root = node.parent < 0;
    int count = 0;
    for (int i = 0; i < 2 && round == node.depth + 1; i++)
        if (node.child[i] >= 0)
            actions[count++] = act_send(node.child[i], root && from_in ? in(tree) : out(tree), run(tree, 1));
    if (round == node.depth)
        actions[count++] = act_recv(node.parent, out(tree), run(tree, 1));
    return count;
}

static int tree_copy_all(struct action *actions)
{
    actions[0] = act_copy(in(0), out(0), run(0, 2));
    return 1;
}

static int tree_reduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    if (shape->nranks == 1)
        return tree_copy_all(actions);
    int count = reduce_tree(shape, me, round, 0, actions);
    return count + reduce_tree(shape, me, round, 1, actions + count);
}

static int tree_broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int count = round == 0 && me == shape->root ? tree_copy_all(actions) : 0;
    if (shape->nranks == 1)
        return count;
    count += broadcast_tree(shape, me, round, 0, true, actions + count);
    return count + broadcast_tree(shape, me, round, 1, true, actions + count);
}

static int tree_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int half = one_way_rounds(shape);
    if (shape->nranks == 1 || round < half)
        return tree_reduce_round(shape, me, round, actions);
    int count = broadcast_tree(shape, me, round - half, 0, false, actions);
    return count + broadcast_tree(shape, me, round - half, 1, false, actions + count);
}

/* Messages along the path of one way: two from the root, then two from a node of each depth, but one where the top has
 * one child. */
static double one_way_messages(const struct shape *shape)
{
    int m = shape->nranks - 1, levels = height(m);
    return levels ? 2.0 * levels + (m > 1 << levels ? 2 : 1) : 2;
}

static struct cost_terms tree_broadcast_cost(const struct shape *shape)
{
    double messages = one_way_messages(shape);
    return (struct cost_terms){one_way_rounds(shape), messages, messages / 2, 0, 2, 1, 0};
}

static struct cost_terms tree_reduce_cost(const struct shape *shape)
{
    struct cost_terms terms = tree_broadcast_cost(shape);
    terms.reduced = height(shape->nranks - 1) / 2.0 + 1;
    terms.rank_reduced = 1;
    return terms;
}

static struct cost_terms tree_allreduce_cost(const struct shape *shape)
{
    struct cost_terms terms = tree_reduce_cost(shape);
    terms.rounds *= 2;
    terms.messages *= 2;
    terms.bytes *= 2;
    terms.rank_messages =
        shape->nranks > 4 ? 4 : shape->nranks; /* two up, and down to as many children as a node can have */
    terms.rank_bytes = terms.rank_messages / 2;
    return terms;
}

ALGORITHM(tree_allreduce, "tree", COLL_BIT(ALLREDUCE), 0, both_ways_rounds, two_blocks, tree_reduce_scratch,
          eight_actions, tree_allreduce_round, tree_allreduce_cost)
ALGORITHM(tree_reduce, "tree", COLL_BIT(REDUCE), 0, one_way_rounds, two_blocks, tree_reduce_scratch, eight_actions,
          tree_reduce_round, tree_reduce_cost)
ALGORITHM(tree_broadcast, "tree", COLL_BIT(BROADCAST), 0, one_way_rounds, two_blocks, no_scratch, eight_actions,
          tree_broadcast_round, tree_broadcast_cost)
