/* tools/expect.h - --expect B.npz: expected outputs for run, verify and bench. */
#ifndef APC_TOOLS_EXPECT_H
#define APC_TOOLS_EXPECT_H

#include <jansson.h>

#include "base/npz.h"
#include "tools/execute.h"

/* Opens the file before anything runs; *out is NULL if the option is not given.  False after a diagnostic, also for a
 * file without tensors, which would match everything.  Close it with expect_close. */
bool expect_open(Tool *t, Npz **out);

/* Compares the outputs with the tensors of the file (NULL: does nothing, *ok is true); prints a line each on standard
 * output or, with --json, adds an item each to `array`; warns of outputs that the file does not have.  False if the
 * file cannot be read. */
bool expect_compare(Tool *t, Npz *expected, const Tensors *outputs, json_t *array, bool *ok);

/* Closes the file; NULL is allowed. */
void expect_close(Npz *expected);

#endif
