/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the CSV file in two passes over its text: count, then convert. */
#include "data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT    (256u << 20)
#define MAX_CLASSES 1000

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0, room = 0, got = 0;
    if (!file)
        goto fail;
    do {
        size += got;
        if (size + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            char *larger = room <= MAX_TEXT ? realloc(text, room) : NULL;
            if (!larger) {
                errno = ENOMEM;
                goto fail;
            }
            text = larger;
        }
        got = fread(text + size, 1, room - size - 1, file);
    } while (got > 0);
    if (ferror(file))
        goto fail;
    text[size] = 0;
    fclose(file);
    return text;
fail:
    fprintf(stderr, "tutti-train: reading %s: %s\n", path, strerror(errno));
    if (file)
        fclose(file);
    free(text);
    return NULL;
}

static void count(struct data *data, const char *text)
{
    size_t line = strcspn(text, "\n");
    for (size_t i = 0; i < line; i++)
        data->features += text[i] == ',';
    for (const char *p = text; *p; p += line + (p[line] == '\n')) {
        line = strcspn(p, "\n");
        data->rows += line > 0;
    }
}

/* Converts one line; the position after it, or NULL if it is not features numbers and a class. */
static const char *convert_row(struct data *data, size_t row, const char *p)
{
    char *end;
    for (size_t i = 0; i < data->features; i++, p = end + 1) {
        float value = strtof(p, &end);
        if (end == p || *end != ',' || !isfinite(value))
            return NULL;
        data->x[row * data->features + i] = value;
    }
    long label = strtol(p, &end, 10);
    if (end == p || (*end != '\n' && *end != '\r' && *end) || label < 0 || label >= MAX_CLASSES)
        return NULL;
    data->label[row] = (int)label;
    if ((size_t)label >= data->classes)
        data->classes = (size_t)label + 1;
    return end + strspn(end, "\r\n");
}

static void scale(struct data *data)
{
    float largest = 0;
    for (size_t i = 0; i < data->rows * data->features; i++)
        largest = fmaxf(largest, fabsf(data->x[i]));
    for (size_t i = 0; largest > 0 && i < data->rows * data->features; i++)
        data->x[i] /= largest;
}

static bool convert(struct data *data, const char *path, const char *text)
{
    const char *p = text + strspn(text, "\r\n");
    for (size_t row = 0; row < data->rows; row++) {
        p = convert_row(data, row, p);
        if (!p) {
            fprintf(stderr, "tutti-train: %s: row %zu is not %zu numbers and a class from 0 to %d\n", path, row + 1,
                    data->features, MAX_CLASSES - 1);
            return false;
        }
    }
    scale(data);
    return true;
}

bool data_read(struct data *out, const char *path)
{
    char *text = read_all(path);
    bool done = false;
    *out = (struct data){0};
    if (!text)
        return false;
    count(out, text + strspn(text, "\r\n"));
    if (out->rows < 10 || out->features < 1) {
        fprintf(stderr, "tutti-train: %s: want a CSV file of 10 rows or more, numbers and a class in each\n", path);
        goto out;
    }
    out->x = calloc(out->rows * out->features, sizeof *out->x);
    out->label = calloc(out->rows, sizeof *out->label);
    if (!out->x || !out->label) {
        fprintf(stderr, "tutti-train: no memory for %zu rows\n", out->rows);
        goto out;
    }
    done = convert(out, path, text);
out:
    free(text);
    return done;
}

void data_free(struct data *data)
{
    free(data->x);
    free(data->label);
    *data = (struct data){0};
}
