/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-paths, which `tutti paths` runs: plans source ports, prints what switches need for them, checks counters. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/error.h"
#include "base/standard.h"
#include "file/read.h"
#include "paths/counters.h"
#include "paths/import.h"
#include "paths/paths.h"
#include "wiring/config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LANES  128
#define IMPORT_FILE (4 << 20) /* bytes */

struct paths_wishes {
    const char *vendor, *node, *out, *before;
    int lanes, dscp, within;
    bool remove;
};

#define W struct paths_wishes
static const struct option_row rows[] = {
    {0, "lanes", "N", "with plan and verify: of each NIC to each peer (default 4)", TO_INT(W, lanes, 1, MOST_LANES)},
    {0, "vendor", "NAME", "with acl: of switches for which FILE tells none",
     .choices = "sonic cisco ruijie arista linux frr", TO_TEXT(W, vendor)},
    {0, "node", "NODE", "with acl: one leaf or spine alone, such as l0", TO_TEXT(W, node)},
    {0, "out", "FOLDER", "with acl: write a file for each switch", TO_TEXT(W, out)},
    {0, "remove", NULL, "with acl: print what takes the rules away", TO_FLAG(W, remove)},
    {0, "dscp", "N", "with acl: the DSCP that lanes carry (default: any)", TO_INT(W, dscp, 0, 63)},
    {0, "before", "FOLDER", "with verify: of earlier counters, in files of the same names", TO_TEXT(W, before)},
    {0, "within", "PERCENT", "with verify: judge shares, too, and how far they may be from the planned ones",
     TO_INT(W, within, 0, 100)},
};
#undef W

static const struct options options_of_paths = {
    .command = "paths",
    .usage = "check FILE\nplan FILE [OPTION...]\nacl FILE [OPTION...]\nverify FILE [OPTION...] COUNTERS..."
             "\nimport FILES...",
    .before =
        "Source ports of RDMA lanes that load all uplinks of leaves alike. FILE describes a network: one that you own "
        "(YAML: docs/operate/paths.md), or one of tutti-lab. check says what is impossible in it. plan prints the "
        "ports and the uplinks that they lead to, acl what to enter on switches. "
        "verify compares with the plan what uplinks have sent. COUNTERS are files (none: standard input) of tutti-lab "
        "counters --json, of Prometheus exporters, or of snmpwalk. A file whose text names no switch has its name: "
        "rack1.prom. import prints a FILE made of what FILES know: node01.json of lldpcli -f json show neighbors, "
        "config_db.json or minigraph.xml of SONiC switches, port_config.ini for the minigraphs after it, tables of "
        "NetBox.",
    .after = "Exit status: 0 done, 1 impossible, too few lanes, shares that differ, or it failed, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

/* Reads standard input to its end. */
static tutti_result_t read_input(struct text *in)
{
    char buffer[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, buffer, sizeof buffer)) > 0 && in->length <= COUNTERS_FILE)
        text_append(in, buffer, (size_t)n);
    text_append(in, "", 0);
    if (n < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "reading the counters from standard input: %s", strerror(errno));
    if (in->length > COUNTERS_FILE)
        return error_note(TUTTI_INVALID_ARGUMENT, "standard input: more than %d bytes of counters", COUNTERS_FILE);
    return text_ok(in);
}

/* "t0/rack1.prom" is of rack1. */
static void host_of(const char *path, char out[COUNTERS_NAME])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = strrchr(name, '.');
    snprintf(out, COUNTERS_NAME, "%.*s", end ? (int)(end - name) : (int)strlen(name), name);
}

static tutti_result_t read_counters(const char *path, struct sent_bytes *out)
{
    char leaf[COUNTERS_NAME], *data = NULL;
    size_t length = 0;
    host_of(path, leaf);
    tutti_result_t result = config_read_file(path, COUNTERS_FILE, &data, &length);
    if (!result)
        result = counters_read(path, leaf, data, length, out);
    free(data);
    return result;
}

/* A file of the same name, in the folder of earlier counters. */
static tutti_result_t read_before(const char *folder, const char *path, struct sent_bytes *out)
{
    char old[4096];
    const char *slash = strrchr(path, '/');
    if (snprintf(old, sizeof old, "%s/%s", folder, slash ? slash + 1 : path) >= (int)sizeof old)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s/%s: the path is too long", folder, path);
    return read_counters(old, out);
}

static int verify(const struct paths *paths, const struct paths_wishes *w, char **files, struct text *out)
{
    struct sent_bytes before = {0}, after = {0};
    struct text in = {0};
    bool agree = false;
    tutti_result_t result = *files ? TUTTI_SUCCESS : read_input(&in);
    if (!result && !*files)
        result = counters_read("standard input", "", in.data, in.length, &after);
    for (; !result && *files; files++) {
        result = read_counters(*files, &after);
        if (!result && w->before)
            result = read_before(w->before, *files, &before);
    }
    if (!result)
        result = paths_verify(paths, &before, &after, w->within < 0 ? -1 : w->within / 100.0, &agree, out);
    text_free(&in);
    counters_free(&before);
    counters_free(&after);
    if (result)
        return failure("paths", "%s", error_last());
    return agree ? EXIT_OK : EXIT_FAILED;
}

static int check_file(const struct paths *paths, struct text *out)
{
    const struct fabric *f = paths->fabric;
    int wrong = paths_check(paths, out);
    if (wrong < 0)
        return failure("paths", "no memory to check %s", paths->label);
    text_add(out, "%s: %d leaves, %d spines, %d uplinks, %d hosts, %d NICs: ", f->name, f->leaves, f->spines,
             f->uplinks, f->hosts, f->nics);
    text_add(out, wrong ? "%d things are impossible\n" : "nothing is impossible\n", wrong);
    return wrong ? EXIT_FAILED : EXIT_OK;
}

/* ---- access lists ---- */

static tutti_result_t write_file(const char *folder, const char *name, const char *suffix, const struct text *content)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix) >= (int)sizeof path)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s/%s%s: the path is too long", folder, name, suffix);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "writing %s: %s", path, strerror(errno));
    tutti_result_t result = text_write(content, fd, path);
    if (close(fd) != 0 && !result)
        result = error_note(TUTTI_SYSTEM_ERROR, "writing %s: %s", path, strerror(errno));
    return result;
}

/* Without a folder all goes to `out`, where JSON can stand alone only. */
static tutti_result_t add_switch(const struct paths *paths, const struct paths_wishes *w, int32_t number, bool write,
                                 int *documents, struct text *out)
{
    const struct paths_wants wants = {.vendor = w->vendor, .remove = w->remove};
    struct text one = {0};
    const char *suffix = "";
    tutti_result_t result = paths_acl(paths, &wants, number, &one, &suffix);
    if (!result)
        result = text_ok(&one);
    if (!result && one.length && w->out && write) {
        result = write_file(w->out, paths_switch_name(paths, number), suffix, &one);
        text_add(out, "%s%s\n", paths_switch_name(paths, number), suffix);
    } else if (!result && one.length && !w->out) {
        *documents += strcmp(suffix, ".json") == 0;
        text_append(out, one.data, one.length);
    }
    text_free(&one);
    return result;
}

static int acl(const struct paths *paths, const struct paths_wishes *w, struct text *out)
{
    const struct fabric *f = paths->fabric;
    int32_t only = w->node ? paths_find_switch(paths, w->node) : -1;
    int documents = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    if (w->node && only < 0)
        return usage_error("paths", "--node %s: it may be a leaf (%s, ...) or a spine (%s, ...)", w->node,
                           f->leaf[0].name, f->spine[0].name);
    if (w->out && mkdir(w->out, 0777) != 0 && errno != EEXIST)
        return failure("paths", "making the folder %s: %s", w->out, strerror(errno));
    /* All are made before one is written: a fabric that is refused changes no file. */
    for (int write = 0; write <= (w->out != NULL); write++)
        for (int32_t n = 0; !result && n < f->leaves + f->spines; n++)
            if (!w->node || n == only)
                result = add_switch(paths, w, n, write, &documents, out);
    if (!result && documents > 1)
        result = error_note(TUTTI_INVALID_ARGUMENT,
                            "%d switches have a document of JSON each: --out FOLDER writes them into files, --node "
                            "NODE prints one",
                            documents);
    if (!result)
        return EXIT_OK;
    text_clear(out);
    return failure("paths", "%s", error_last());
}

static int run(const char *what, char **files, const struct paths_wishes *w, const struct paths *paths,
               struct text *out)
{
    if (strcmp(what, "check") == 0)
        return check_file(paths, out);
    if (paths->fabric->uplinks == 0)
        return failure("paths", "%s has no spines: there is one way only", paths->label);
    if (strcmp(what, "plan") == 0)
        return paths_plan(paths, out) ? EXIT_OK : EXIT_FAILED;
    if (strcmp(what, "verify") == 0)
        return verify(paths, w, files, out);
    return acl(paths, w, out);
}

/* ---- imports ---- */

static tutti_result_t read_source(const char *path, struct cabling *cabling)
{
    char host[COUNTERS_NAME], *data = NULL;
    size_t length = 0;
    host_of(path, host);
    tutti_result_t result = config_read_file(path, IMPORT_FILE, &data, &length);
    if (!result)
        result = import_text(path, host, data, length, cabling);
    free(data);
    return result;
}

/* What comes out is a file that can be read, or nothing. */
static int import_files(char **files)
{
    struct cabling cabling;
    struct text out = {0};
    struct fabric fabric = {0};
    tutti_result_t result = cabling_open(&cabling);
    for (; !result && *files; files++)
        result = read_source(*files, &cabling);
    if (!result)
        result = cabling_join(&cabling);
    if (!result)
        result = cabling_write(&cabling, &out);
    if (!result)
        result = fabric_parse("what was imported", out.data, out.length, &fabric);
    if (!result)
        result = text_write(&out, STDOUT_FILENO, "standard output");
    fabric_free(&fabric);
    text_free(&out);
    cabling_close(&cabling);
    return result ? failure("paths", "%s", error_last()) : EXIT_OK;
}

/* Returns -1: all that `what` needs is there. */
static int check(int argc, char **argv, const struct paths_wishes *w)
{
    const char *what = optind < argc ? argv[optind] : "";
    if (options_index("check plan acl verify import", what) < 0)
        return usage_error("paths", "check, plan, acl, verify or import?");
    if (optind == argc - 1)
        return usage_error("paths", "which FILE?");
    if (optind != argc - 2 && options_index("verify import", what) < 0)
        return usage_error("paths", "one FILE, please");
    if (w->before && optind == argc - 2)
        return usage_error("paths", "--before needs files of counters, and not standard input");
    return -1;
}

static int paths_of(const char *what, const char *path, char **files, const struct paths_wishes *w)
{
    struct fabric fabric = {0};
    struct paths paths = {.label = path, .fabric = &fabric, .lanes = (unsigned)w->lanes, .dscp = w->dscp};
    struct text out = {0};
    tutti_result_t result = paths_load(path, &fabric);
    if (!result)
        result = paths_open(&paths);
    int code = result ? failure("paths", "%s", error_last()) : run(what, files, w, &paths, &out);
    if (text_ok(&out) != TUTTI_SUCCESS ||
        (out.data && text_write(&out, STDOUT_FILENO, "standard output") != TUTTI_SUCCESS))
        code = failure("paths", "%s", error_last());
    text_free(&out);
    paths_close(&paths);
    fabric_free(&fabric);
    return code;
}

int main(int argc, char **argv)
{
    struct paths_wishes w = {.lanes = 4, .dscp = -1, .within = -1};
    standard_hold();
    int code = options_parse(&options_of_paths, argc, argv, &w);
    if (code < 0)
        code = check(argc, argv, &w);
    if (code < 0)
        code = strcmp(argv[optind], "import") == 0 ? import_files(argv + optind + 1)
                                                   : paths_of(argv[optind], argv[optind + 1], argv + optind + 2, &w);
    text_flush();
    const char *lost = text_lost();
    return lost && code == EXIT_OK ? failure("paths", "cannot write the output: %s", lost) : code;
}
