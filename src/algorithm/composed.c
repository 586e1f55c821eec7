/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over several hosts, in steps: what the network carries goes over rails, of which each joins one rank of
 * every host and carries its share. See schedule/steps.h for parts and places. In an allgather what came from one host
 * is shared on this one while what is from the next comes.
 */
#include "algorithm/composed.h"
#include "algorithm/rows.h"

#define STEP(row_, part_, from_, to_, how_)                                                                            \
    {                                                                                                                  \
        &algorithm_##row_, STEPS_##part_, STEPS_##from_, STEPS_##to_, how_                                             \
    }
#define STEPS(...)                                                                                                     \
    {                                                                                                                  \
        sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step),                                              \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* clang-format off */
static const struct steps_row composed[COLL_COUNT] = {
    [COLL_ALLREDUCE] = STEPS(STEP(direct_reduce_scatter, ISLAND, IN, OUT, STEPS_FOLDS),
                             STEP(ring_allreduce, RAIL, OUT, OUT, 0),
                             STEP(direct_allgather, ISLAND, OUT, OUT, 0)),
    [COLL_REDUCE] = STEPS(STEP(direct_reduce_scatter, ISLAND, IN, HELD, STEPS_FOLDS),
                          STEP(tree_reduce, RAIL, HELD, HELD, 0),
                          STEP(direct_gather, ISLAND, HELD, OUT, STEPS_ROOT)),
    [COLL_BROADCAST] = STEPS(STEP(direct_scatter, ISLAND, IN, OUT, STEPS_ROOT),
                             STEP(tree_broadcast, RAIL, OUT, OUT, 0),
                             STEP(direct_allgather, ISLAND, OUT, OUT, 0)),
    [COLL_ALLGATHER] = STEPS(STEP(direct_allgather, ISLAND, IN, OUT, STEPS_OWN),
                             STEP(ring_allgather, RAIL, SHARE, OUT, STEPS_BESIDE),
                             STEP(direct_allgather, ISLAND, OUT, OUT, STEPS_TURNS)),
    [COLL_REDUCE_SCATTER] = STEPS(STEP(direct_reduce_scatter, ISLAND, IN, HELD, STEPS_FOLDS),
                                  STEP(ring_reduce_scatter, RAIL, HELD, SHARE, 0),
                                  STEP(direct_scatter, COLUMN, SHARE, OUT, 0)),
    [COLL_ALLTOALL] = STEPS(STEP(direct_alltoall, ISLAND, IN, HELD, 0),
                            STEP(direct_alltoall, RAIL, HELD, SHARE, 0),
                            STEP(direct_scatter, COLUMN, SHARE, OUT, 0)),
    [COLL_GATHER] = STEPS(STEP(direct_gather, COLUMN, IN, SHARE, 0),
                          STEP(direct_gather, RAIL, SHARE, HELD, 0),
                          STEP(direct_gather, ISLAND, HELD, OUT, STEPS_ROOT)),
    [COLL_SCATTER] = STEPS(STEP(direct_scatter, ISLAND, IN, HELD, STEPS_ROOT),
                           STEP(direct_scatter, RAIL, HELD, SHARE, 0),
                           STEP(direct_scatter, COLUMN, SHARE, OUT, 0)),
};
/* clang-format on */

const struct steps_row *composed_steps(enum coll coll)
{
    return composed[coll].count ? &composed[coll] : NULL;
}

static int composed_rounds(const struct shape *shape)
{
    return steps_rounds(&composed[shape->coll], shape);
}

static int composed_blocks(const struct shape *shape)
{
    return steps_blocks(&composed[shape->coll], shape);
}

static int composed_scratch(const struct shape *shape, int rank)
{
    return steps_scratch(&composed[shape->coll], shape, rank);
}

static int composed_actions(const struct shape *shape)
{
    return steps_actions(&composed[shape->coll], shape);
}

static int composed_round(const struct shape *shape, int rank, int round, struct action *actions)
{
    return steps_round(&composed[shape->coll], shape, rank, round, actions);
}

#define COMPOSED                                                                                                       \
    COLL_BIT(ALLREDUCE) | COLL_BIT(REDUCE) | COLL_BIT(BROADCAST) | COLL_BIT(ALLGATHER) | COLL_BIT(REDUCE_SCATTER) |    \
        COLL_BIT(ALLTOALL) | COLL_BIT(GATHER) | COLL_BIT(SCATTER)

ALGORITHM(composed, "two-level", COMPOSED, ALGORITHM_LEVELS, composed_rounds, composed_blocks, composed_scratch,
          composed_actions, composed_round, NULL)
