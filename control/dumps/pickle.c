/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pickles of plain values: numbers, texts, lists, tuples, dictionaries, and references to them. The opcodes are
 * documented in Python's pickletools. What makes objects or calls code is refused. Lists that hold themselves cannot be
 * made: what was fetched from the memo is never changed again.
 */
#include "dumps/readers.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define HEIGHT_MOST 64
#define ITEMS_MOST  (8u << 20)

struct pickle_item {
    json_t *value; /* NULL: a mark */
    size_t id;     /* of a list or dictionary, from 1; else 0 */
    bool open;     /* made here and not yet part of another: it may grow */
};

struct container {
    unsigned height;
    bool fetched; /* from the memo: it may be part of another, so it does not grow any more */
};

struct pickle {
    const uint8_t *at, *end;
    struct pickle_item *stack, *memo;
    size_t depth, stack_room, kept, memo_room;
    struct container *containers; /* by id - 1 */
    size_t made, container_room;
    const char *wrong;
};

static bool refuse(struct pickle *pickle, const char *why)
{
    pickle->wrong = pickle->wrong ? pickle->wrong : why;
    return false;
}

/* ---- Bytes ---- */

static bool take(struct pickle *pickle, size_t size, const uint8_t **out)
{
    if ((size_t)(pickle->end - pickle->at) < size)
        return refuse(pickle, "it is cut short");
    *out = pickle->at;
    pickle->at += size;
    return true;
}

static bool take_little(struct pickle *pickle, size_t size, uint64_t *out)
{
    const uint8_t *bytes;
    *out = 0;
    if (!take(pickle, size, &bytes))
        return false;
    for (size_t i = 0; i < size && i < 8; i++)
        *out |= (uint64_t)bytes[i] << (8 * i);
    return true;
}

/* ---- Growing arrays ---- */

static bool grow(struct pickle *pickle, void **array, size_t *room, size_t used, size_t each)
{
    if (used < *room)
        return true;
    size_t more = *room ? *room * 2 : 64;
    void *bigger = more > ITEMS_MOST ? NULL : realloc(*array, more * each);
    if (!bigger)
        return refuse(pickle, "it holds too many values");
    *array = bigger;
    *room = more;
    return true;
}

static bool push(struct pickle *pickle, struct pickle_item item)
{
    if (grow(pickle, (void **)(void *)&pickle->stack, &pickle->stack_room, pickle->depth, sizeof *pickle->stack)) {
        pickle->stack[pickle->depth++] = item;
        return true;
    }
    json_decref(item.value);
    return false;
}

static bool push_value(struct pickle *pickle, json_t *value)
{
    return value ? push(pickle, (struct pickle_item){.value = value}) : refuse(pickle, "there is no memory");
}

static bool push_container(struct pickle *pickle, json_t *value)
{
    if (!value || !grow(pickle, (void **)(void *)&pickle->containers, &pickle->container_room, pickle->made,
                        sizeof *pickle->containers)) {
        json_decref(value);
        return refuse(pickle, "there is no memory");
    }
    pickle->containers[pickle->made++] = (struct container){.height = 1};
    return push(pickle, (struct pickle_item){.value = value, .id = pickle->made, .open = true});
}

/* ---- Containers ---- */

/* Returns the number of values above the last mark, and drops the mark. */
static bool find_mark(struct pickle *pickle, size_t *count)
{
    size_t at = pickle->depth;
    while (at > 0 && pickle->stack[at - 1].value)
        at--;
    if (at == 0)
        return refuse(pickle, "a mark is missing");
    *count = pickle->depth - at;
    memmove(&pickle->stack[at - 1], &pickle->stack[at], *count * sizeof *pickle->stack);
    pickle->depth--;
    return true;
}

static bool settle(struct pickle *pickle, const struct pickle_item *container, const struct pickle_item *item)
{
    struct container *outer = &pickle->containers[container->id - 1];
    unsigned height = item->id ? pickle->containers[item->id - 1].height : 0;
    if (height + 1 > outer->height)
        outer->height = height + 1;
    return outer->height <= HEIGHT_MOST || refuse(pickle, "it is nested too deeply");
}

static bool put_key(struct pickle *pickle, const struct pickle_item *container, const struct pickle_item *key,
                    const struct pickle_item *value)
{
    char number[32];
    const char *text = json_string_value(key->value);
    if (json_is_integer(key->value)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(key->value));
        text = number;
    }
    bool fine = text ? settle(pickle, container, value) : refuse(pickle, "a key is neither text nor a number");
    return fine &&
           (json_object_set(container->value, text, value->value) == 0 || refuse(pickle, "a key cannot be read"));
}

static bool put_all(struct pickle *pickle, const struct pickle_item *container, const struct pickle_item *items,
                    size_t count)
{
    bool fine = true;
    bool list = json_is_array(container->value);
    if (!list && !json_is_object(container->value))
        return refuse(pickle, "it adds to what is no list");
    if (!container->open || (count && pickle->containers[container->id - 1].fetched))
        return refuse(pickle, "a list holds itself");
    if (!list && count % 2)
        return refuse(pickle, "a key has no value");
    for (size_t i = 0; fine && i < count && list; i++)
        fine = settle(pickle, container, &items[i]) && json_array_append(container->value, items[i].value) == 0;
    for (size_t i = 0; fine && i + 1 < count && !list; i += 2)
        fine = put_key(pickle, container, &items[i], &items[i + 1]);
    return fine;
}

static void drop(struct pickle *pickle, size_t count)
{
    while (count-- > 0)
        json_decref(pickle->stack[--pickle->depth].value);
}

static bool add_top(struct pickle *pickle, size_t count)
{
    if (pickle->depth < count + 1)
        return refuse(pickle, "the stack is empty");
    struct pickle_item *items = &pickle->stack[pickle->depth - count];
    for (size_t i = 0; i + 1 < count + 2; i++)
        if (!items[(ptrdiff_t)i - 1].value)
            return refuse(pickle, "a mark is in the way");
    bool fine = put_all(pickle, items - 1, items, count);
    drop(pickle, count);
    return fine;
}

static bool add_marked(struct pickle *pickle)
{
    size_t count;
    return find_mark(pickle, &count) && add_top(pickle, count);
}

/* A tuple becomes a list here. */
static bool make_tuple(struct pickle *pickle, size_t count)
{
    if (pickle->depth < count)
        return refuse(pickle, "the stack is empty");
    struct pickle_item tuple;
    if (!push_container(pickle, json_array()))
        return false;
    tuple = pickle->stack[--pickle->depth];
    struct pickle_item *items = &pickle->stack[pickle->depth - count];
    bool fine = true;
    for (size_t i = 0; i < count && fine; i++)
        fine = items[i].value || refuse(pickle, "a mark is in the way");
    fine = fine && put_all(pickle, &tuple, items, count);
    drop(pickle, count);
    tuple.open = false;
    return push(pickle, tuple) && fine;
}

static bool make_marked_tuple(struct pickle *pickle)
{
    size_t count;
    return find_mark(pickle, &count) && make_tuple(pickle, count);
}

/* ---- The memo ---- */

static bool keep(struct pickle *pickle, uint64_t index)
{
    if (!pickle->depth || !pickle->stack[pickle->depth - 1].value || index > pickle->kept)
        return refuse(pickle, "its memo is not in order");
    if (!grow(pickle, (void **)(void *)&pickle->memo, &pickle->memo_room, pickle->kept, sizeof *pickle->memo))
        return false;
    struct pickle_item *place = &pickle->memo[index];
    if (index < pickle->kept)
        json_decref(place->value);
    else
        pickle->kept++;
    *place = pickle->stack[pickle->depth - 1];
    json_incref(place->value);
    return true;
}

static bool fetch(struct pickle *pickle, uint64_t index)
{
    if (index >= pickle->kept)
        return refuse(pickle, "it refers to what is not there");
    struct pickle_item item = pickle->memo[index];
    if (item.id)
        pickle->containers[item.id - 1].fetched = true;
    item.open = false;
    json_incref(item.value);
    return push(pickle, item);
}

/* ---- Values ---- */

static bool read_text(struct pickle *pickle, size_t length_bytes)
{
    uint64_t length;
    const uint8_t *text;
    if (!take_little(pickle, length_bytes, &length) || !take(pickle, length, &text))
        return false;
    json_t *value = json_stringn((const char *)text, length);
    return push_value(pickle, value ? value : json_string("?"));
}

static bool read_real(struct pickle *pickle)
{
    const uint8_t *bytes;
    uint64_t bits = 0;
    double value;
    if (!take(pickle, 8, &bytes))
        return false;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value, &bits, sizeof value);
    json_t *real = json_real(value); /* NULL: not a number, infinite */
    return push_value(pickle, real ? real : json_null());
}

static bool read_integer(struct pickle *pickle, size_t bytes, bool has_sign)
{
    uint64_t bits;
    if (bytes > 8)
        return refuse(pickle, "a number is too long");
    if (!take_little(pickle, bytes, &bits))
        return false;
    if (has_sign && bytes && bytes < 8 && bits >> (8 * bytes - 1))
        bits |= ~0ull << (8 * bytes);
    return push_value(pickle, json_integer((json_int_t)bits));
}

static bool read_long(struct pickle *pickle)
{
    uint64_t bytes;
    return take_little(pickle, 1, &bytes) && read_integer(pickle, bytes, true);
}

static bool skip(struct pickle *pickle, size_t bytes)
{
    const uint8_t *ignored;
    return take(pickle, bytes, &ignored);
}

/* ---- Opcodes ---- */

static bool step_memo(struct pickle *pickle, uint8_t code)
{
    uint64_t index = pickle->kept;
    if (code != 0x94 && !take_little(pickle, code == 'r' || code == 'j' ? 4 : 1, &index))
        return false;
    return code == 'h' || code == 'j' ? fetch(pickle, index) : keep(pickle, index);
}

static bool step_value(struct pickle *pickle, uint8_t code)
{
    switch (code) {
    case 'N':
        return push_value(pickle, json_null());
    case 0x88:
        return push_value(pickle, json_true());
    case 0x89:
        return push_value(pickle, json_false());
    case 'J':
        return read_integer(pickle, 4, true);
    case 'K':
        return read_integer(pickle, 1, false);
    case 'M':
        return read_integer(pickle, 2, false);
    case 0x8a:
        return read_long(pickle);
    case 'G':
        return read_real(pickle);
    case 'X':
        return read_text(pickle, 4);
    case 0x8c:
        return read_text(pickle, 1);
    case 0x8d:
        return read_text(pickle, 8);
    default:
        return refuse(pickle, "it makes objects or calls code, which no plain dump does");
    }
}

static bool step(struct pickle *pickle, uint8_t code)
{
    switch (code) {
    case 0x80:
        return skip(pickle, 1);
    case 0x95:
        return skip(pickle, 8);
    case '(':
        return push(pickle, (struct pickle_item){0});
    case '}':
        return push_container(pickle, json_object());
    case ']':
        return push_container(pickle, json_array());
    case ')':
        return make_tuple(pickle, 0);
    case 0x85:
    case 0x86:
    case 0x87:
        return make_tuple(pickle, code - 0x84u);
    case 't':
        return make_marked_tuple(pickle);
    case 'a':
        return add_top(pickle, 1);
    case 's':
        return add_top(pickle, 2);
    case 'e':
    case 'u':
        return add_marked(pickle);
    case 'q':
    case 'r':
    case 'h':
    case 'j':
    case 0x94:
        return step_memo(pickle, code);
    default:
        return step_value(pickle, code);
    }
}

static void release(struct pickle *pickle)
{
    drop(pickle, pickle->depth);
    for (size_t i = 0; i < pickle->kept; i++)
        json_decref(pickle->memo[i].value);
    free(pickle->stack);
    free(pickle->memo);
    free(pickle->containers);
}

json_t *pickle_read(const void *bytes, size_t size, const char *path)
{
    struct pickle pickle = {.at = bytes, .end = (const uint8_t *)bytes + size};
    json_t *value = NULL;
    const uint8_t *code;
    bool going = true;
    while (going && (going = take(&pickle, 1, &code)) && *code != '.')
        going = step(&pickle, *code);
    if (going && pickle.depth == 1 && pickle.stack[0].value)
        value = json_incref(pickle.stack[0].value);
    release(&pickle);
    if (!value)
        error_note(TUTTI_INVALID_USAGE, "reading the pickle %s: %s", path,
                   pickle.wrong ? pickle.wrong : "it ends in the middle");
    return value;
}
