/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
int cmd_topo(int argc, char **argv) { return usage_error("topo", "soon"); }
