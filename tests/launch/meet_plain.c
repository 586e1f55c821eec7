/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that knows nothing of MPI. */
#include "meet.h"

int main(void)
{
    return meet_and_report("");
}
