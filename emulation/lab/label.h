/* SPDX-License-Identifier: Apache-2.0 */
/* Places for words in a picture: beside the line that they belong to, on no line, box or other word. */
#ifndef LAB_LABEL_H
#define LAB_LABEL_H

#include <stdbool.h>

struct label_point {
    double x, y;
};

/* Of the middle. */
struct label_box {
    double x, y, width, height;
};

/* y of the ends differs. */
struct label_line {
    struct label_point from, to;
};

/* Owned by label_free(). `taken`: boxes, and words that were placed. */
struct label_room {
    double width; /* of the picture */
    struct label_line *lines;
    struct label_box *taken;
    int line_count, taken_count;
};

/* Room for these numbers of lines and boxes, words among the boxes; false: out of memory. */
bool label_begin(struct label_room *room, double width, int lines, int boxes);
void label_free(struct label_room *room);

/* The middle of a word of this size beside line `own`, between two parts of the way from its first end to its last (0
 * to 1). False, and nothing taken: there is no place. */
bool label_place(struct label_room *room, int own, double first, double last, double width, double height,
                 struct label_point *out);

#endif
