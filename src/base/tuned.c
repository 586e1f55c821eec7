/* SPDX-License-Identifier: Apache-2.0 */
/* Parts are kept as they stand: the writer of one part need not know what the others say. */
#include "base/tuned.h"

#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (4u << 20)

static const char *const tuned_names[TUNED_PARTS] = {"version", "comment", "rules", "gpu"};

bool tuned_default_path(char *out, size_t size)
{
    const char *home = getenv("HOME");
    return home && *home && snprintf(out, size, "%s/.config/tutti/tune.json", home) < (int)size;
}

bool tuned_path(const char *named, char *out, size_t size)
{
    if (*named)
        return snprintf(out, size, "%s", named) < (int)size;
    return tuned_default_path(out, size) && access(out, R_OK) == 0;
}

char *tuned_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MOST_BYTES) : NULL;
    *length = text ? fread(text, 1, MOST_BYTES, file) : 0;
    bool whole = text && !ferror(file) && *length < MOST_BYTES;
    int why = text && !whole && !ferror(file) ? EFBIG : errno;
    if (file)
        fclose(file);
    if (!whole)
        free(text);
    errno = why;
    return whole ? text : NULL;
}

/* ---- Parts ---- */

static bool tuned_take_part(struct jsonread *json, const char *key, void *context)
{
    struct tuned_slice *parts = context;
    struct jsonread_value passed;
    int part = 0;
    while (part < TUNED_PARTS && strcmp(tuned_names[part], key) != 0)
        part++;
    jsonread_next(json); /* to its first letter */
    const char *from = json->at;
    if (!jsonread_value(json, &passed))
        return false;
    if (part < TUNED_PARTS && parts[part].text)
        json->error = "a key stands twice in an object";
    else if (part < TUNED_PARTS)
        parts[part] = (struct tuned_slice){from, (size_t)(json->at - from)};
    return !json->error;
}

bool tuned_parts(const char *text, size_t length, struct tuned_slice parts[TUNED_PARTS])
{
    struct jsonread json;
    struct jsonread_value version;
    memset(parts, 0, TUNED_PARTS * sizeof *parts);
    jsonread_start(&json, text, length);
    if (!jsonread_object(&json, tuned_take_part, parts) || !jsonread_end(&json) || !parts[TUNED_VERSION].text)
        return false;
    jsonread_start(&json, parts[TUNED_VERSION].text, parts[TUNED_VERSION].length);
    return jsonread_value(&json, &version) && version.kind == JSONREAD_INTEGER && version.number == TUNED_VERSION_HERE;
}

/* ---- Rows ---- */

struct tuned_reader {
    tuned_take_fn *take;
    void *context;
    char *wrong;
};

static bool tuned_take_row(struct jsonread *json, const char *key, void *context)
{
    struct tuned_reader *reader = context;
    struct jsonread_value value;
    if (!jsonread_value(json, &value))
        return false;
    char want[TUNED_WANT];
    if (strcmp(key, "comment") != 0 && !reader->take(key, &value, want, reader->context) && !*reader->wrong)
        snprintf(reader->wrong, TUNED_WRONG, "\"%s\": want %s", key, want);
    return true;
}

bool tuned_rows(const struct tuned_slice *gpu, tuned_take_fn *take, void *context, char wrong[TUNED_WRONG])
{
    struct tuned_reader reader = {take, context, wrong};
    struct jsonread json;
    *wrong = 0;
    if (!gpu->text)
        return true;
    jsonread_start(&json, gpu->text, gpu->length);
    if (!jsonread_object(&json, tuned_take_row, &reader) && !*wrong)
        snprintf(wrong, TUNED_WRONG, "%s", json.error);
    return !*wrong;
}

/* ---- Written ---- */

void tuned_print_text(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", *text);
        else
            fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putc('"', file);
}

/* False: errno says why. */
static bool tuned_print(const char *path, const struct tuned_slice parts[TUNED_PARTS])
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fprintf(file, "{\n  \"version\": %d", TUNED_VERSION_HERE);
    for (int part = TUNED_VERSION + 1; part < TUNED_PARTS; part++)
        if (parts[part].text)
            fprintf(file, ",\n  \"%s\": %.*s", tuned_names[part], (int)parts[part].length, parts[part].text);
    fprintf(file, "\n}\n");
    bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

tutti_result_t tuned_write(const char *path, const char *const parts[TUNED_PARTS])
{
    char temporary[PATH_MAX];
    struct tuned_slice all[TUNED_PARTS] = {0};
    uint64_t unique;
    size_t length;
    if (random_bytes(&unique, sizeof unique) != TUTTI_SUCCESS)
        return TUTTI_SYSTEM_ERROR;
    if (snprintf(temporary, sizeof temporary, "%s.%016" PRIx64, path, unique) >= (int)sizeof temporary)
        return error_set(TUTTI_INVALID_ARGUMENT, "choice table %.100s...: the path is too long", path);
    char *there = tuned_read(path, &length);
    if (!there && errno == ENOMEM)
        return error_set(TUTTI_SYSTEM_ERROR, "choice table %s: no memory to read what is there", path);
    if (there && !tuned_parts(there, length, all))
        memset(all, 0, sizeof all);
    if (!all[TUNED_RULES].text) /* without rules the file is none */
        all[TUNED_RULES] = (struct tuned_slice){"[]", 2};
    for (int part = 0; part < TUNED_PARTS; part++)
        if (parts[part])
            all[part] = (struct tuned_slice){parts[part], strlen(parts[part])};
    tutti_result_t result = TUTTI_SUCCESS;
    errno = 0;
    if (!tuned_print(temporary, all) || rename(temporary, path) != 0) {
        result = error_set(TUTTI_SYSTEM_ERROR, "choice table %s: it cannot be written: %s", path, strerror(errno));
        unlink(temporary);
    }
    free(there);
    return result;
}
