/* SPDX-License-Identifier: Apache-2.0 */
/* How a team fails, and how its ranks come to say the same of it. */
#ifndef TUTTI_ENGINE_FAILURE_H
#define TUTTI_ENGINE_FAILURE_H

#include "engine/team.h"

/*
 * The first failure stays, and all ranks report the same one. Any thread; under the engine's lock or not.
 * What comes back is the team's failure, whatever it was.
 *
 * team_fail: this rank cannot go on. team_lose: it waits for `peer`, whose process has left; the peer is blamed, unless
 * it left because of another failure. team_hear: another rank says so. Then collectives that the other had finished may
 * still end well here.
 */
tutti_result_t team_fail(struct team *team, tutti_result_t result, int culprit, const char *sentence);
tutti_result_t team_lose(struct team *team, int peer, const char *why);
/* The rank's process has left, or is lost. The application hears of a lost one, once for each communicator. */
void team_is_gone(struct team *team, int rank, enum wire_cause how);
tutti_result_t team_hear(struct team *team, const struct wire_abort *news);
tutti_result_t team_failure(const struct team *team);
/* Of a team that has failed: may this operation still go on? */
bool team_allows(struct team *team, const struct op *op);
/* Of a team that has failed: may the next collective be issued? A collective that the rank which gave up had finished
 * may, however late the call. For the thread that issues. */
bool team_takes_collective(const struct team *team);
/* The user issues nothing more: peers of a failed team wait in vain for what the user has not issued. For the thread
 * that issues. */
void team_end_calls(struct team *team);
/* An operation has failed: no other begins. */
void team_stop(struct team *team);
/* A transfer with `peer` failed. why: error_last() of the thread that learnt of it. */
tutti_result_t team_fail_transfer(struct team *team, int peer, tutti_result_t result, const char *why);
/* What a failed team has to say to others. */
struct wire_abort team_news(const struct team *team);
/* What a peer, or a rank of this process, says of one of the engine's teams. Under the engine's lock. */
void failure_heard(struct engine *engine, uint64_t comm, const struct wire_abort *news);
/* What has been said of the team before it was open. Under the engine's lock. */
void failure_heard_early(struct team *team);
/* Tells peers of teams that have failed here: over links, and those that live in this process, which have no link to
 * it. Under the engine's lock. */
void failure_flood(struct engine *engine);

/*
 * A part fails with its whole, whichever notices, and has no news of its own. From its joining on, what fails the one
 * fails the other. Its cause is that of the whole, with the whole's numbers of ranks.
 */
void failure_join_whole(struct team *part);
void failure_leave_whole(struct team *part);

/* The cause of a failure that this rank notices, to be told to others. team_blame: as team_lose finds it. */
struct wire_abort team_cause(const struct team *team, tutti_result_t result, int culprit, const char *sentence);
struct wire_abort team_blame(const struct team *team, int peer, const char *why);
/* The result that a rank reports for what another one says has failed there. */
tutti_result_t failure_here(tutti_result_t there);

/* Fails the team for two ranks whose collectives of number `seq` differ. */
tutti_result_t team_refuse(struct team *team, struct wire_call mine, int peer, struct wire_call theirs, uint32_t seq);

#endif
