/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of tutti topo: a box for each node, boxes inside boxes. */
#include "cli/topo.h"

#include <string.h>

enum { LETTER = 7, LINE = 16, GAP = 8, LEAF = 26, COLUMNS = 4 };

struct size {
    int width, height;
};

static const char *const colors[TOPOLOGY_KINDS] = {
    [TOPOLOGY_MACHINE] = "#f7f7f5", [TOPOLOGY_PACKAGE] = "#e8edf3", [TOPOLOGY_NUMA] = "#e3ecdf",
    [TOPOLOGY_L3] = "#f4efe1",      [TOPOLOGY_L2] = "#ffffff",      [TOPOLOGY_L1] = "#ffffff",
    [TOPOLOGY_CORE] = "#ffffff",    [TOPOLOGY_PU] = "#ffffff",      [TOPOLOGY_NET] = "#dbe9f6",
    [TOPOLOGY_RDMA] = "#cfe0f5",    [TOPOLOGY_GPU] = "#dff0d8",
};

/* Lays out children in rows of at most COLUMNS; draws them when `out` is given. */
static struct size box(const struct topology *topology, int node, int x, int y, FILE *out);

static struct size children(const struct topology *topology, int node, int x, int y, FILE *out)
{
    struct size all = {0, 0}, row = {0, 0};
    int in_row = 0;
    for (int child = -1; (child = topo_next_child(topology, node, child)) >= 0;) {
        struct size size = box(topology, child, x + row.width, y + all.height, out);
        row.width += size.width + GAP;
        row.height = size.height > row.height ? size.height : row.height;
        all.width = row.width > all.width ? row.width : all.width;
        if (++in_row == COLUMNS) {
            all.height += row.height + GAP;
            row = (struct size){0, 0};
            in_row = 0;
        }
    }
    all.height += in_row ? row.height + GAP : 0;
    return all;
}

static void write_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", out);
        else
            fputc(*text, out);
}

static void draw(const struct topology *topology, int node, int x, int y, struct size size, const char *label,
                 FILE *out)
{
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"#8a8f98\"/>\n", x, y,
            size.width, size.height, colors[topology->nodes[node].kind]);
    fprintf(out, "<text x=\"%d\" y=\"%d\">", x + GAP, y + LINE + 1);
    write_text(out, label);
    fprintf(out, "</text>\n");
}

static struct size box(const struct topology *topology, int node, int x, int y, FILE *out)
{
    char label[512];
    topo_label(topology, node, label, sizeof label);
    struct size inner = children(topology, node, x + GAP, y + LEAF, NULL),
                size = {(int)strlen(label) * LETTER + 2 * GAP, LEAF};
    if (inner.height) {
        size.height = LEAF + inner.height;
        size.width = inner.width + GAP > size.width ? inner.width + GAP : size.width;
    }
    if (out) {
        draw(topology, node, x, y, size, label, out);
        children(topology, node, x + GAP, y + LEAF, out);
    }
    return size;
}

void topo_write_svg(const struct topology *topology, FILE *out)
{
    struct size size = box(topology, 0, GAP, GAP, NULL);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" "
            "font-size=\"11.5\">\n",
            size.width + 2 * GAP, size.height + 2 * GAP);
    box(topology, 0, GAP, GAP, out);
    fprintf(out, "</svg>\n");
}
