/* SPDX-License-Identifier: Apache-2.0 */
/* Reading digits, and reproducible random numbers. */
#include "train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_line(char *line, struct image *image)
{
    char *next = line;
    for (int i = 0; i <= PIXELS; i++) {
        char *end;
        double value = strtod(next, &end);
        if (end == next || value < 0 || value > (i < PIXELS ? 16 : CLASSES - 1))
            return false;
        if (i < PIXELS)
            image->pixel[i] = (float)value / 16;
        else
            image->digit = (int)value;
        next = *end == ',' ? end + 1 : end;
    }
    return true;
}

static bool add(struct images *images, const struct image *image)
{
    if (images->count % 256 == 0) {
        struct image *more = realloc(images->image, (images->count + 256) * sizeof *more);
        if (!more)
            return false;
        images->image = more;
    }
    images->image[images->count++] = *image;
    return true;
}

static bool read_all(FILE *file, const char *path, struct images *out)
{
    char line[1024];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        struct image image;
        if (!parse_line(line, &image)) {
            fprintf(stderr, "tutti-train: %s, line %d: want %d pixels of 0 to 16 and a digit, separated by commas\n",
                    path, number, PIXELS);
            return false;
        }
        if (!add(out, &image)) {
            fprintf(stderr, "tutti-train: no memory for the images\n");
            return false;
        }
    }
    if (out->count < 100)
        fprintf(stderr, "tutti-train: %s has only %zu images\n", path, out->count);
    return out->count >= 100;
}

bool images_read(const char *path, struct images *out)
{
    FILE *file = fopen(path, "re");
    *out = (struct images){0};
    if (!file) {
        fprintf(stderr, "tutti-train: %s: %s; examples/train/data.sh FILE fetches the images\n", path, strerror(errno));
        return false;
    }
    bool good = read_all(file, path, out);
    fclose(file);
    return good;
}

uint32_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

void shuffle(size_t *order, size_t count, uint64_t *state)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = random_next(state) % i, kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
