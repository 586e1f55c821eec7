/* SPDX-License-Identifier: Apache-2.0 */
/* From when on something is wrong, and why. docs/operate/diagnosis.md has those that people ask for. */
#ifndef TUTTI_DIAGNOSIS_THRESHOLDS_H
#define TUTTI_DIAGNOSIS_THRESHOLDS_H

#include "base/clock.h"

#define DEAD_BEFORE_NS                                                                                                 \
    NS_PER_S              /* of ranks that are all dead, one that stopped so long before the last is the cause         \
                           */
#define PAUSE_TIMES   2.0 /* a rank that was away between calls for half as long before may come yet */
#define PAUSE_OFTEN   3   /* such pauses make one usual, whatever call was before it */
#define PAUSE_BUSY_NS (60 * NS_PER_S) /* a rank outside of calls that computes, or moves files, has so long */
#define MOVES_BYTES   (1 << 20)       /* between the looks: it moves files */
#define MOVING_TIMES                                                                                                   \
    5.0 /* as long as one that stands still: who moves elsewhere and is waited for so long is to blame */
#define LATE_PART      0.1              /* of `stuck`: a message that took so long is late, and so may be the next */
#define JOIN_NS        (10 * NS_PER_S)  /* joining for so long: somebody is missing */
#define SLOW_LAST      60               /* the newest collectives of a communicator that are compared */
#define SLOW_WAIT_NS   (2 * NS_PER_MS)  /* in one of them the others wait so long on average, at least, to count */
#define SLOW_CALLS     20               /* of those that count, so many at least are held up by one rank */
#define SLOW_SHARE     0.8              /* and so large a part of all that is waited */
#define SLOW_PART      0.2              /* and so large a part of the time from the first to the last of them */
#define SLOW_WINDOW_NS (600 * NS_PER_S) /* older collectives do not count */
#define STARVED_PART                                                                                                   \
    0.75 /* of the time between the looks a thread is ready to run without a processor, and longer than all of them    \
            run */
#define HARDLY_RAN      0.05 /* of the time: a thread that is ready at both looks and ran less was ready all the time */
#define WAITED_PART     0.5  /* of the time, if it ran at all: so much is counted of its waits for that */
#define LEAST_PART      0.25 /* of the time, the thread that is so shortest: the library's own sleeps now and then */
#define STARVED_TIMES   2.0  /* as much as the median of the processes that it works with */
#define STARVED_LOOK_NS (200 * NS_PER_MS) /* looks closer than this say nothing of a processor */
#define TAKES_PART      0.01 /* of the time: who runs so long takes what has come, and is not without a processor */
#define COMPUTES_PART   0.5  /* of the time between the looks on a processor: it computes */
#define DELAY_TIMES     3.0  /* a link is slow that takes so many times the median */
#define DELAY_MORE_NS   (2 * NS_PER_MS) /* and so much longer */
#define DELAY_MESSAGES  5               /* of equal size between two ranks, to be compared */
#define DELAY_LINKS     4               /* compared, at least */
#define DELAY_LINE      0.75            /* of a row or column, the part that is slow, to blame its rank */
#define LANE_TIMES      4.0             /* a lane is slow that takes so many times what the quickest quarter does, */
#define PATH_TIMES      6.0             /* and alone, beside quick ones, so many: flows may share a link by chance */
#define LANE_SEGMENTS   8               /* the latest of a lane, of which the median counts: a window of ICCL's */
#define LANE_TURNS      3 /* the latest, that say what a lane becomes: a path is blamed after interfaces */
#define LANE_RECENT_NS  (60 * NS_PER_S) /* older segments do not count */
#define LANE_FRESH_NS   (5 * NS_PER_S)  /* and these tell what a lane does now */
#define LOST_RECENT_NS  (30 * NS_PER_S) /* nor do lanes that went down before */
#define LOST_LANES      2               /* so many ends of lanes must have gone down: one lane has two */
/* An agent tells every second: one that is silent for so long tells nothing new. */
#define UNHEARD_NS    (3 * NS_PER_S)
#define FINDINGS_MOST 64 /* more are counted only */

#define NETWORK_LITTLE 0.10 /* of the ranks' time: what has less cannot be what makes a job slow */
#define NETWORK_MUCH   0.30 /* what has more is worth making quicker, even if nothing is wrong with it */

#endif
