/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TUTTI_ALGO: ring; ^tree; allreduce:ring,tree;broadcast:binomial. */
#include "algorithm/algorithm.h"
#include "algorithm/choice_rules.h"
#include "base/error.h"
#include "base/log.h"

#include <string.h>
#include <strings.h>

/* A piece of the text, not terminated. */
struct choice_override_word {
    const char *text;
    size_t length;
};

struct item {
    enum coll coll; /* COLL_COUNT: all */
    bool exclude;
    struct choice_override_word names;
    const char *source;
    struct choice_override *overrides;
};

static struct choice_override_word choice_override_trim(struct choice_override_word word)
{
    while (word.length && (*word.text == ' ' || *word.text == '\t')) {
        word.text++;
        word.length--;
    }
    while (word.length && (word.text[word.length - 1] == ' ' || word.text[word.length - 1] == '\t'))
        word.length--;
    return word;
}

/* Takes what stands before the first `separator` off *rest. */
static struct choice_override_word choice_override_next_word(struct choice_override_word *rest, char separator)
{
    const char *end = memchr(rest->text, separator, rest->length);
    size_t length = end ? (size_t)(end - rest->text) : rest->length;
    struct choice_override_word word = {rest->text, length};
    size_t taken = length + (end != NULL);
    rest->text += taken;
    rest->length -= taken;
    return choice_override_trim(word);
}

/* Algorithms of NCCL that depend on hardware or protocols of its own. */
static bool foreign(struct choice_override_word name)
{
    static const char *const names[] = {"CollNetDirect", "CollNetChain", "CollNet", "NVLS", "NVLSTree", "PAT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == name.length && strncasecmp(names[i], name.text, name.length) == 0)
            return true;
    return false;
}

static void choice_override_add(const struct item *item, enum coll coll, const struct algorithm *algorithm)
{
    struct choice_override *override = &item->overrides[coll];
    bool specific = item->coll != COLL_COUNT;
    if (override->specific && !specific)
        return;
    if ((specific && !override->specific) || override->exclude != item->exclude)
        *override = (struct choice_override){.specific = specific, .exclude = item->exclude};
    if (override->count < CHOICE_NAMES)
        override->list[override->count++] = algorithm;
}

static tutti_result_t add_name(const struct item *item, struct choice_override_word name)
{
    char choices[256];
    bool used = false;
    if (!foreign(name) && !algorithm_known(name.text, name.length))
        return error_set(TUTTI_INVALID_ARGUMENT, "%s: no algorithm is called '%.*s'; want one of %s", item->source,
                         (int)name.length, name.text, algorithm_names(COLL_COUNT, choices, sizeof choices));
    for (int coll = 0; coll < COLL_COUNT; coll++) {
        const struct algorithm *algorithm = algorithm_find((enum coll)coll, name.text, name.length);
        if (!algorithm || (item->coll != COLL_COUNT && (int)item->coll != coll))
            continue;
        choice_override_add(item, (enum coll)coll, algorithm);
        used = true;
    }
    if (!used)
        log_info("%s: %.*s is not an algorithm of %s here; passed over", item->source, (int)name.length, name.text,
                 item->coll == COLL_COUNT ? "any collective" : schedule_coll_name(item->coll));
    return TUTTI_SUCCESS;
}

static tutti_result_t read_collective(struct item *item, struct choice_override_word *text)
{
    item->coll = COLL_COUNT;
    if (!memchr(text->text, ':', text->length))
        return TUTTI_SUCCESS;
    struct choice_override_word name = choice_override_next_word(text, ':');
    item->coll = schedule_coll_find(name.text, name.length);
    if (item->coll == COLL_COUNT)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "%s: no collective is called '%.*s'; want allreduce, broadcast, reduce-scatter... (see tutti "
                         "schedule --list)",
                         item->source, (int)name.length, name.text);
    return TUTTI_SUCCESS;
}

static tutti_result_t choice_override_add_item(struct item *item, struct choice_override_word text)
{
    tutti_result_t result = read_collective(item, &text);
    text = choice_override_trim(text);
    item->exclude = text.length && *text.text == '^';
    if (item->exclude) {
        text.text++;
        text.length--;
    }
    if (!result && choice_override_trim(text).length == 0)
        result = error_set(TUTTI_INVALID_ARGUMENT, "%s: an algorithm's name is missing; want NAME or COLLECTIVE:NAME",
                           item->source);
    while (!result && text.length) {
        struct choice_override_word name = choice_override_next_word(&text, ',');
        result = add_name(item, name);
    }
    return result;
}

tutti_result_t choice_parse_override(const char *text, const char *source, struct choice_override overrides[COLL_COUNT])
{
    struct choice_override_word rest = {text, strlen(text)};
    tutti_result_t result = TUTTI_SUCCESS;
    while (!result && rest.length) {
        struct item item = {.source = source, .overrides = overrides};
        struct choice_override_word word = choice_override_next_word(&rest, ';');
        if (word.length)
            result = choice_override_add_item(&item, word);
    }
    return result;
}
