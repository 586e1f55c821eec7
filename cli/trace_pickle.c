/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON value as a Python pickle, protocol 2: the opcodes are documented in Python's pickletools. */
#include "cli/trace.h"

#include <string.h>

static void put_little(uint64_t value, int bytes, FILE *file)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 0xff), file);
}

static void put_text(const char *text, FILE *file)
{
    size_t length = strlen(text);
    fputc('X', file);
    put_little(length, 4, file);
    fwrite(text, 1, length, file);
}

static void put_real(double value, FILE *file)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    fputc('G', file);
    for (int i = 7; i >= 0; i--)
        fputc((int)(bits >> (8 * i) & 0xff), file);
}

static void put_integer(json_int_t value, FILE *file)
{
    if (value == (int32_t)value) {
        fputc('J', file);
        put_little((uint32_t)value, 4, file);
    } else {
        fputs("\x8a\x08", file);
        put_little((uint64_t)value, 8, file);
    }
}

static void put(const json_t *value, FILE *file);

static void put_object(const json_t *value, FILE *file)
{
    const char *key;
    json_t *item;
    fputs("}(", file);
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        put_text(key, file);
        put(item, file);
    }
    fputc('u', file);
}

static void put_array(const json_t *value, FILE *file)
{
    fputs("](", file);
    for (size_t i = 0; i < json_array_size(value); i++)
        put(json_array_get(value, i), file);
    fputc('e', file);
}

static void put(const json_t *value, FILE *file)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(value, file);
        break;
    case JSON_ARRAY:
        put_array(value, file);
        break;
    case JSON_STRING:
        put_text(json_string_value(value), file);
        break;
    case JSON_INTEGER:
        put_integer(json_integer_value(value), file);
        break;
    case JSON_REAL:
        put_real(json_real_value(value), file);
        break;
    case JSON_TRUE:
        fputc('\x88', file);
        break;
    case JSON_FALSE:
        fputc('\x89', file);
        break;
    default:
        fputc('N', file);
    }
}

bool view_pickle(const json_t *value, FILE *file)
{
    fputs("\x80\x02", file);
    put(value, file);
    fputc('.', file);
    return fflush(file) == 0 && !ferror(file);
}
