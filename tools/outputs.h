/* tools/outputs.h - the files a command line names for writing: none may be a file it reads, or another of them, and
 * each can be written. */
#ifndef APC_TOOLS_OUTPUTS_H
#define APC_TOOLS_OUTPUTS_H

#include "ir/ir.h"
#include "tools/tool.h"

/* A file and what names it, as in "-o". */
typedef struct FileUse {
  const char *what, *path;
} FileUse;

/* Checks `files` and what --save-plan, --save-temps, --output and --outputs name against each other and against the
 * model and the files of --target, --plan, --weights, --inputs, --input and --expect, before anything is read or
 * written.  Files are the same when the file system says so, whatever their names; standard output and devices are
 * nobody's.  False after a diagnostic; that a file cannot be written (no such folder, no permission) is one too. */
bool outputs_check(Tool *t, const FileUse *files, size_t n);

/* The same files against those the weights of a model lie in, which are known once it is read. */
bool outputs_check_weights(Tool *t, const Module *m);

#endif
