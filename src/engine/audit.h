/* SPDX-License-Identifier: Apache-2.0 */
/* Were all ranks in the same calls? */
#ifndef TUTTI_ENGINE_AUDIT_H
#define TUTTI_ENGINE_AUDIT_H

#include "engine/team.h"

/* Everything issued has ended: has any peer been in other calls, as far as that can be seen? At the `end`
 * also: what has come and was never received? */
tutti_result_t team_audit(struct team *team, bool end);

#endif
