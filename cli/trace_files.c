/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are named instead of files. */
#include "cli/trace_set.h"

#include "dumps/dumps.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MOST (1 << 20)

static bool keep(struct view_options *options, const char *path)
{
    int count = options->file_count;
    char **more = options->files, *copy = count < FILES_MOST ? strdup(path) : NULL;
    if (copy && !(count & (count - 1)))
        more = realloc(more, (count ? 2 * (size_t)count : 1) * sizeof *more);
    if (!copy || !more) {
        free(copy);
        fprintf(stderr, "tutti %s: no memory for the names of more than %d files\n", options->command, count);
        return false;
    }
    options->files = more;
    options->files[options->file_count++] = copy;
    return true;
}

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* Hidden files are no dumps: versions, editors and browsers of files have them. */
static bool is_hidden(const FTSENT *entry)
{
    return entry->fts_level > 0 && entry->fts_name[0] == '.';
}

static bool keep_folder(struct view_options *options, char *folder)
{
    char *const roots[] = {folder, NULL};
    bool fine = true;
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    for (FTSENT *entry; fine && tree && (entry = fts_read(tree)) != NULL;) {
        if (is_hidden(entry))
            fts_set(tree, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F)
            fine = keep(options, entry->fts_path);
        else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            fprintf(stderr, "tutti %s: the folder %s: %s\n", options->command, entry->fts_path,
                    strerror(entry->fts_errno));
    }
    if (!tree)
        fprintf(stderr, "tutti %s: the folder %s: %s\n", options->command, folder, strerror(errno));
    else
        fts_close(tree);
    return fine && tree;
}

bool view_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool view_name_files(struct view_options *options, char **words, int count)
{
    bool fine = true;
    for (int i = 0; fine && i < count; i++)
        fine = view_is_folder(words[i]) || keep(options, words[i]);
    options->named = options->file_count;
    for (int i = 0; fine && i < count; i++)
        fine = !view_is_folder(words[i]) || keep_folder(options, words[i]);
    return fine;
}

void view_free_files(struct view_options *options)
{
    for (int i = 0; i < options->file_count; i++)
        free(options->files[i]);
    free(options->files);
    options->files = NULL;
    options->file_count = options->named = 0;
}

static void say_count(FILE *out, const char **between, size_t count, const char *what)
{
    if (count)
        fprintf(out, "%s%zu %s", *between, count, what);
    *between = count ? ", " : *between;
}

void view_say_files(FILE *out, const struct view_set *set)
{
    static const char *const libraries[] = {DUMP_RECORDER, DUMP_NCCLX, DUMP_RAS};
    static const char *const ranks[] = {"ranks by the Flight Recorder", "processes by NCCLX",
                                        "processes by NCCL's RAS"};
    size_t counts[3] = {0}, boxes = set->count;
    const char *between = "read: ";
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < 3; j++)
            if (strcmp(set->boxes[i]->header.library, libraries[j]) == 0)
                counts[j]++, boxes--;
    for (size_t j = 0; j < 3; j++)
        say_count(out, &between, counts[j], ranks[j]);
    say_count(out, &between, boxes, boxes == 1 ? "black box" : "black boxes");
    say_count(out, &between, set->strange, "files that are neither a black box nor a dump");
    fputc('\n', out);
}
