/* tools/expect.h - --expect B.npz: outputs that run, verify and bench compare theirs with. */
#ifndef APC_TOOLS_EXPECT_H
#define APC_TOOLS_EXPECT_H

#include <jansson.h>

#include "base/npz.h"
#include "tools/execute.h"

/* Opens the file before anything runs; *out is NULL when the option is not given.  False after a diagnostic, also for a
 * file without tensors, against which everything would be equal.  Close it with expect_close. */
bool expect_open(Tool *t, Npz **out);

/* Compares the outputs with the tensors of the file (NULL: nothing to do, *ok is true): a line each on standard output,
 * with --json an item each of `array`; warns of outputs that the file does not have.  False when the file cannot be
 * read. */
bool expect_compare(Tool *t, Npz *expected, const Tensors *outputs, json_t *array, bool *ok);

void expect_close(Npz *expected);

#endif
