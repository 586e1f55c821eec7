/* SPDX-License-Identifier: Apache-2.0 */
/* tutti diagnose as a program of its own, for hosts without tutti: it is linked statically, and needs nothing else. */
#include "cli/trace.h"

#include "base/standard.h"
#include "tutti/tutti.h"

#include <string.h>

int main(int argc, char **argv)
{
    standard_hold();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("tutti-diagnose %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH) < 0;
    return cmd_diagnose(argc, argv);
}
