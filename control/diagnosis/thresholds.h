/* SPDX-License-Identifier: Apache-2.0 */
/* Limits from which on something is wrong, and why. docs/operate/diagnosis.md explains those that people ask for. */
#ifndef TUTTI_DIAGNOSIS_THRESHOLDS_H
#define TUTTI_DIAGNOSIS_THRESHOLDS_H

#include "base/clock.h"

#define DEAD_BEFORE_NS NS_PER_S /* all ranks are dead: the cause stopped this long before the last rank */
#define PAUSE_TIMES    2.0      /* times its longest pause so far: a rank that is waited for less may come yet */
#define PAUSE_OFTEN    3        /* pauses of this length make one usual, whatever call was before them */
#define PAUSE_BUSY_NS                                                                                                  \
    (60 * NS_PER_S) /* a rank outside of calls that computes, or moves files, may stay for this time; */
#define PAUSE_FAR_NS      (30 * NS_PER_S) /* for this time at least, one that computes */
#define PAUSE_FAR_TIMES   10.0            /* times its longest pause so far, if it is less, */
#define PAUSE_CALLS       64              /* and if the process has made these calls: it may compile before */
#define PAUSE_SHORT_NS    (6 * NS_PER_S)  /* a rank outside of calls that sleeps may stay for this time, */
#define PAUSE_SHORT_TIMES 3               /* or this number of times `stuck`, if that is less */
#define IDLE_NS           (30 * NS_PER_S) /* all ranks are outside of calls for this time, which is told, */
#define IDLE_TIMES        3               /* if no pause before took a third of it */
#define MOVES_BYTES       (1 << 20)       /* between the looks: a process with more moves files */
#define MOVING_TIMES      5.0 /* times `stuck`: a rank that moves elsewhere, and is waited for longer, is to blame */
#define LATE_PART         0.1 /* part of `stuck`: a message took longer, so the next one may be late, too, */
#define LATE_DOWN         3.0 /* times `stuck`: not for longer where lanes between the two are down */
#define JOIN_NS           (10 * NS_PER_S) /* joining takes longer: a rank is missing */
#define SLOW_LAST         60              /* newest collectives of a communicator that are compared */
#define SLOW_WAIT_NS      (2 * NS_PER_MS) /* a collective counts if the others wait this long in it on average */
#define SLOW_CALLS        20              /* calls that one rank must have held up, of those that count */
#define SLOW_SHARE        0.8             /* part of all waiting that the rank must have caused */
#define SLOW_PART         0.2             /* part of the time from the first call to the last that was spent waiting */
#define SLOW_STALLS       5               /* or stalls of one rank among the newest WIRE_BOX_OPS collectives, */
#define SLOW_STALL_NS     (3 * NS_PER_S) /* each of this time at most: a longer one is a checkpoint or an evaluation; */
#define SLOW_STALLED      0.5            /* part of the time that the others waited in them */
#define SLOW_TURNS_NS     (30 * NS_PER_MS) /* shorter waits, on average, may be for some turns of other processes */
#define HIDDEN_CALLS      3                /* shortest calls on a GPU that say how long a program is busy after one, */
#define HIDDEN_PART       0.05             /* of calls that take this part of the time until the next, */
#define HIDDEN_LONGER     1.1              /* and are longer than the short ones by this factor */
#define SLOW_WINDOW_NS    (600 * NS_PER_S) /* older collectives do not count */
#define STARVED_PART                                                                                                   \
    0.75 /* part of the time: a starved thread is ready for longer than this, and than all threads ran */
#define HARDLY_RAN  0.05 /* part of the time: a thread ready at both looks that ran less was always ready, */
#define WAITED_PART 0.5  /* if its counted waits are longer than this, or if it never ran */
#define LEAST_PART                                                                                                     \
    0.25 /* part of the time that each thread of a starved process is ready; the library's own is, too                 \
          */
#define STARVED_TIMES   2.0               /* times the median of the processes that it works with */
#define STARVED_LOOK_NS (200 * NS_PER_MS) /* two looks closer than this say nothing about a processor */
#define SHORT_PART      0.25              /* part of the time: the same of a slow rank, */
#define QUOTA_PART      0.1               /* or its quota was used up for longer */
#define QUOTA_GROUP     0.25 /* the same where nobody comes last: of a group of several ranks, or of one rank alone */
#define FAULTS_LEAST    50   /* major faults between the looks: a process with more waits for memory */
#define COMPUTES_LEAST  0.02 /* part of the time: with what it waits for a processor, it would compute, */
#define WOULD_COMPUTE   0.6  /* if both together take this part */
#define TAKES_PART      0.01 /* part of the time: a process that runs longer takes what has come, and has a processor */
#define COMPUTES_PART   0.5  /* part of the time between the looks: a process that runs longer computes */
#define DELAY_TIMES     3.0  /* times the median: a slower link is slow, */
#define DELAY_MORE_NS   (2 * NS_PER_MS) /* if it is also this much slower */
#define DELAY_MESSAGES  5               /* messages of one size between two ranks, to be compared */
#define DELAY_LINKS     4               /* links that are needed for a comparison */
#define DELAY_LINE      0.75            /* part of a row or column that must be slow to blame its rank */
#define LANE_TIMES      4.0             /* times the quickest quarter: a slower lane is slow */
#define PATH_TIMES      6.0 /* times quick lanes beside it: a slower path is slow; flows may share a link by chance */
#define LANE_SEGMENTS   8   /* latest segments of a lane, whose median counts: a window of ICCL's */
#define LANE_TURNS      3   /* latest segments that say what a lane becomes; paths are blamed after interfaces */
#define LANE_RECENT_NS  (60 * NS_PER_S)    /* older segments do not count */
#define LANE_FRESH_NS   (5 * NS_PER_S)     /* newer segments tell what a lane does now */
#define LOST_RECENT_NS  (30 * NS_PER_S)    /* lanes that went down earlier do not count */
#define CUT_NS          (1500 * NS_PER_MS) /* later: lanes may know why a message does not arrive */
#define CIRCLE_NS       (5 * NS_PER_S)     /* later: adapters of RDMA may know it, too, and a circle names nobody */
#define LOST_LANES      2                  /* ends of lanes that must have gone down; one lane has two */

#define OUTSIDE_NS        (5 * NS_PER_S)  /* the latest time, in which one rank is outside of calls, */
#define OUTSIDE_LEAST_NS  NS_PER_S        /* or what the black boxes remember, at least this: */
#define OUTSIDE_LONG_NS   NS_PER_S        /* (longer pauses, and calls, are left out: they may be a checkpoint's) */
#define OUTSIDE_STALLS_NS (30 * NS_PER_S) /* or, with stalls of SLOW_STALL_NS at most, this time: */
#define OUTSIDE_PART      0.75            /* the rank for this part of the time, */
#define OUTSIDE_STALLED   0.6             /* (with stalls this part: between them it waits as others do) */
#define OUTSIDE_OTHERS    0.6             /* and each other for this part of that at most */

#define WORK_PART   0.1 /* part of the time: a rank that runs for less sleeps. The rank waits for requests, */
#define WORK_VARIES 0.5 /* if its times vary by this part of their mean, and the job was never quicker: */
#define WORK_TIMES  10  /* fewer pauses tell nothing of how they vary: they may be those of requests; */
#define WORK_ENOUGH 22  /* of fewer than these the variance is taken for larger than it looks; */
#define WORK_CALLS  200 /* as requests come at random, the latest calls are compared, */
#define WORK_NS     (30 * NS_PER_S) /* with those of the quickest time, which is this long at least, */
#define WORK_SLOWER 0.6             /* and are fewer a second than this part of those, */
#define WORK_CHANCE 3.0             /* by more than these standard deviations of random requests; */
#define WORK_AGREES 0.001           /* or if its longest pauses agree as those at random do in 1 of 1,000 cases */

#define OVERLAP_NS     (5 * NS_PER_S) /* the latest time, in which a process begins collectives */
#define OVERLAP_PART   0.2            /* while others are under way, this part of them: */
#define OVERLAP_CALLS  10             /* fewer tell nothing. Ranks are slow there, */
#define OVERLAP_SLOWER 0.7            /* if the job makes fewer calls than this part of those before */

#define SLOWED_PART      0.5 /* of the best rate, in calls and bytes a second: a job that is below is slower, */
#define SLOWED_INSIDE    0.5 /* if each rank is in calls for this part of the latest time: */
#define SLOWED_NS        (10 * NS_PER_S)   /* so much; of it */
#define SLOWED_LEAST_NS  (5 * NS_PER_S)    /* black boxes must remember this. */
#define SLOWED_BEST_NS   (3600 * NS_PER_S) /* the best rate was kept for this time, */
#define SLOWED_LIFE      4                 /* or for this part of a shorter life, */
#define SLOWED_BEFORE_NS (30 * NS_PER_S)   /* and at least for this */
#define SLOWED_CALLS     4                 /* calls in the latest time: fewer tell nothing */
#define SLOWED_BLOCKED   0.4               /* or ranks wait in the kernel for this part of the time, on average: */
#define SLOWED_MOMENT    0.75              /* a rank that was seen there at one look, and not watched, counts so much */
#define SLOWED_STANDS    0.2               /* part of the time that one rank alone has: the rank stands out */

#define HICCUP_RECENT_NS (3600 * NS_PER_S) /* lanes that were slow earlier do not count */
#define HICCUPS_MOST     8                 /* interfaces that are told of */

/* An agent reports every second: one that is silent for longer reports nothing new. */
#define UNHEARD_NS    (3 * NS_PER_S)
#define HABIT_LOOKS   512 /* calls of a process that are looked at for what it does usually, */
#define HABIT_CALLS   64  /* by at most these calls before each, */
#define HABIT_LEAST   2   /* and at least these; */
#define HABIT_TIMES   3   /* a habit was kept this often, */
#define HABIT_BACK    8   /* and is broken by one of these last calls */
#define HABIT_SOON    0.5 /* times the usual gap between two calls: one made twice follows sooner, */
#define HABIT_LATE    1.5 /* and one left out leaves a longer gap */
#define SHIFT_BEFORE  8   /* calls in which all ranks had called as much in another communicator, */
#define SHIFT_AFTER   8   /* and calls since, in which one rank has called more or less */
#define FINDINGS_MOST 64  /* more findings are only counted */

#define NETWORK_LITTLE 0.10 /* part of the ranks' time: less than this cannot make a job slow */
#define NETWORK_MUCH   0.30 /* part of the ranks' time: more is worth making quicker, though nothing is wrong */

#endif
