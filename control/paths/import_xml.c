/* SPDX-License-Identifier: Apache-2.0 */
/* XML into objects of JSON, by expat. Nothing is expanded or fetched: a document type is refused. */
#include "paths/import.h"

#include "base/error.h"

#include <ctype.h>
#include <expat.h>
#include <string.h>

#define DEPTH    31     /* of elements in each other, with the document */
#define ELEMENTS 100000 /* of a file */

struct xml_reader {
    XML_Parser parser;
    json_t *open[DEPTH]; /* [0] has the root; the others are in it */
    int depth;           /* of the innermost one */
    int elements;
    struct text text;
    const char *why; /* why it was stopped; NULL: it was not */
};

static void stop(struct xml_reader *r, const char *why)
{
    r->why = why;
    XML_StopParser(r->parser, XML_FALSE);
}

/* "a:Name" is "Name". */
static const char *without_prefix(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

/* Adds an element to those of its name, in the one that is open. */
static json_t *add_element(json_t *in, const char *name)
{
    json_t *list = json_object_get(in, name), *element = json_object();
    if (!list && json_object_set_new(in, name, json_array()) == 0)
        list = json_object_get(in, name);
    return json_array_append_new(list, element) == 0 ? element : NULL;
}

static void on_start(void *data, const char *name, const char **attributes)
{
    struct xml_reader *r = data;
    if (r->why)
        return;
    if (r->depth + 1 >= DEPTH) {
        stop(r, "more than 30 elements in each other");
        return;
    }
    if (++r->elements > ELEMENTS) {
        stop(r, "more than 100000 elements");
        return;
    }
    json_t *element = add_element(r->open[r->depth], without_prefix(name));
    for (int i = 0; element && attributes[i]; i += 2)
        if (strcmp(without_prefix(attributes[i]), "type") == 0)
            json_object_set_new(element, "@type", json_string(without_prefix(attributes[i + 1])));
    if (element)
        r->open[++r->depth] = element;
    else
        stop(r, "no memory for what is in it");
    text_clear(&r->text);
}

static void on_text(void *data, const char *text, int length)
{
    struct xml_reader *r = data;
    text_append(&r->text, text, (size_t)length);
}

/* The text of an element is what stands behind its last one, without blanks around it. */
static void on_end(void *data, const char *name)
{
    struct xml_reader *r = data;
    const char *text = r->text.data ? r->text.data : "";
    size_t length = r->text.length;
    if (r->why)
        return;
    for (; length && isspace((unsigned char)*text); length--)
        text++;
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    (void)name;
    if (r->text.failed || (length && json_object_set_new(r->open[r->depth], "", json_stringn(text, length)) != 0))
        stop(r, "no memory for what is in it");
    r->depth--;
    text_clear(&r->text);
}

static void on_document_type(void *data, const char *name, const char *system, const char *public, int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    stop(data, "a document type (<!DOCTYPE) is not read");
}

json_t *import_xml(const char *label, const char *text, size_t length)
{
    struct xml_reader r = {.parser = XML_ParserCreate(NULL), .open = {json_object()}};
    if (r.parser) {
        XML_SetUserData(r.parser, &r);
        XML_SetElementHandler(r.parser, on_start, on_end);
        XML_SetCharacterDataHandler(r.parser, on_text);
        XML_SetStartDoctypeDeclHandler(r.parser, on_document_type);
    }
    if (!r.parser || !r.open[0]) {
        error_note(TUTTI_SYSTEM_ERROR, "%s: no memory", label);
    } else if (XML_Parse(r.parser, text, (int)length, 1) != XML_STATUS_OK) {
        error_note(TUTTI_INVALID_ARGUMENT, "%s:%lu: %s", label, (unsigned long)XML_GetCurrentLineNumber(r.parser),
                   r.why ? r.why : XML_ErrorString(XML_GetErrorCode(r.parser)));
        json_decref(r.open[0]);
        r.open[0] = NULL;
    }
    if (r.parser)
        XML_ParserFree(r.parser);
    text_free(&r.text);
    return r.open[0];
}
