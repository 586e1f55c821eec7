/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a class of MPI's, and a sentence on stderr. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/errors.h"
#include "mpi/comms.h"
#include "mpi/calls.h"

static _Thread_local char sentence[LONGEST_ERROR - 64]; /* words of the class stand before it */
static _Thread_local int sentence_class;

static const struct {
    int class;
    const char *words;
} words[] = {
    {0, "success"},
    {ERR_BUFFER, "wrong buffer"},
    {ERR_COUNT, "wrong count"},
    {ERR_TYPE, "wrong datatype"},
    {ERR_TAG, "wrong tag"},
    {ERR_COMM, "wrong communicator"},
    {ERR_RANK, "wrong rank"},
    {ERR_ROOT, "wrong root"},
    {ERR_GROUP, "wrong group"},
    {ERR_OP, "wrong operator"},
    {ERR_ARG, "wrong argument"},
    {ERR_TRUNCATE, "message longer than the buffer"},
    {ERR_OTHER, "failure"},
    {ERR_IN_STATUS, "the statuses have the errors"},
    {ERR_PENDING, "not finished"},
    {ERR_REQUEST, "wrong request"},
    {ERR_NO_MEM, "no memory"},
    {ERR_KEYVAL, "wrong key of an attribute"},
    {ERR_UNSUPPORTED, "not supported by tutti"},
};

const char *shim_words(int class)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].class == class)
            return words[i].words;
    return "no class of errors";
}

int shim_fail(struct comm *c, int class, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    sentence_class = class;
    fprintf(stderr, "tutti MPI: %s\n", sentence);
    struct comm *judge = c ? c : world.comm;
    if (class != ERR_UNSUPPORTED && judge && judge->errhandler == ERRORS_ARE_FATAL) {
        fprintf(stderr, "tutti MPI: errors are fatal on this communicator (MPI_ERRORS_ARE_FATAL): the process ends\n");
        fflush(NULL);
        tutti_comm_abort(judge->tutti);
        _Exit(1);
    }
    return class;
}

int shim_result(struct comm *c, const char *call, tutti_result_t result)
{
    if (result == TUTTI_SUCCESS)
        return 0;
    return shim_fail(c, ERR_OTHER, "%s: %s", call, tutti_get_last_error(c ? c->tutti : NULL));
}

int shim_refuse(const char *name)
{
    return shim_fail(NULL, ERR_UNSUPPORTED, "%s is not built: docs/use/frameworks.md has what is", name);
}

int shim_Error_class(int code, int *class)
{
    *class = code;
    return 0;
}

int shim_Error_string(int code, char *text, int *length)
{
    if (code && code == sentence_class)
        snprintf(text, LONGEST_ERROR, "%s: %s", shim_words(code), sentence);
    else
        snprintf(text, LONGEST_ERROR, "%s", shim_words(code));
    *length = (int)strlen(text);
    return 0;
}
