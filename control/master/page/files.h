/* SPDX-License-Identifier: Apache-2.0 */
/* The files of this folder that a browser reads, inside of the program. embed.sh makes the table. */
#ifndef TUTTI_MASTER_PAGE_FILES_H
#define TUTTI_MASTER_PAGE_FILES_H

struct page_file {
    const char *url, *type, *text;
};

/* After the last one: no url. */
extern const struct page_file page_files[];

#endif
