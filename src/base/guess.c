/* SPDX-License-Identifier: Apache-2.0 */
/* The distance of words by Damerau and Levenshtein, three rows at a time. */
#include "base/guess.h"

#include <limits.h>
#include <string.h>

enum { LONGEST = 63 };

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* rows[0] is that of the letter in hand, rows[1] and rows[2] those of the two before. */
static void fill_row(const char *a, int i, const char *b, int length, int (*rows)[LONGEST + 1])
{
    rows[0][0] = i + 1;
    for (int j = 0; j < length; j++) {
        int least = lesser(lesser(rows[1][j + 1], rows[0][j]) + 1, rows[1][j] + (a[i] != b[j]));
        if (i && j && a[i] == b[j - 1] && a[i - 1] == b[j])
            least = lesser(least, rows[2][j - 1] + 1);
        rows[0][j + 1] = least;
    }
}

int guess_distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1];
    size_t length = strlen(b);
    if (length > LONGEST)
        return INT_MAX;
    for (int j = 0; j <= (int)length; j++)
        rows[0][j] = j;
    for (int i = 0; a[i]; i++) {
        memcpy(rows[2], rows[1], sizeof rows[1]);
        memcpy(rows[1], rows[0], sizeof rows[0]);
        fill_row(a, i, b, (int)length, rows);
    }
    return rows[0][length];
}

const char *guess_name(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    int best_distance = 1 + (int)strlen(word) / 3;
    for (size_t i = 0; i < count; i++) {
        int far = strncmp(names[i], word, strlen(word)) == 0 ? 0 : guess_distance(word, names[i]);
        if (far <= best_distance) {
            best = names[i];
            best_distance = far - 1;
        }
    }
    return best;
}
