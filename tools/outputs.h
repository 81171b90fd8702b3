/* tools/outputs.h - checks the files that a command line names for writing: none may be read as well or be written
 * twice, and each must be writable. */
#ifndef APC_TOOLS_OUTPUTS_H
#define APC_TOOLS_OUTPUTS_H

#include "ir/ir.h"
#include "tools/tool.h"

/* A file and the option that names it, such as "-o". */
typedef struct FileUse {
  const char *what, *path;
} FileUse;

/* Checks `files` and those of --save-plan, --save-temps, --output and --outputs against each other and against the
 * model and the files of --target, --plan, --weights, --inputs, --input and --expect, before anything is read or
 * written.  The file system decides whether two names are the same file; standard output and devices conflict with
 * nothing.  False after a diagnostic, also for a file that cannot be written (no such folder, no permission). */
bool outputs_check(Tool *t, const FileUse *files, size_t n);

/* Checks the same files against the model's weight files, which are known once it is read. */
bool outputs_check_weights(Tool *t, const Module *m);

#endif
