/* SPDX-License-Identifier: Apache-2.0 */
/* getrandom(2) until full. */
#include "base/random.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

tutti_result_t random_bytes(void *out, size_t size)
{
    char *bytes = out;
    for (size_t done = 0; done < size;) {
        ssize_t got = getrandom(bytes + done, size - done, 0);
        if (got < 0 && errno != EINTR)
            return error_set(TUTTI_SYSTEM_ERROR, "getrandom: %s", strerror(errno));
        done += got > 0 ? (size_t)got : 0;
    }
    return TUTTI_SUCCESS;
}
