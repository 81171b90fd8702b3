/* driver/ir_file.h - files of IR text: where their weights lie.
 *
 * A relative path of a blob is relative to the folder of the text that has it, so that both can be moved together; in a
 * module it is relative to the folder apc runs in. */
#ifndef APC_DRIVER_IR_FILE_H
#define APC_DRIVER_IR_FILE_H

#include "ir/ir.h"

/* After reading `file`: the blobs of the module as seen from here. */
void driver_ir_file_locate(Module *m, const char *file);

/* The module's text for a file of that name ("-": standard output, which is here). */
const char *driver_ir_file_text(Arena *a, const Module *m, const char *file);

#endif
