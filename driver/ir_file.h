/* driver/ir_file.h - where the weights of IR text files are.
 *
 * In a file, the path of a blob is relative to the file's folder, so that both can be moved together; in a module it is
 * relative to the current folder. */
#ifndef APC_DRIVER_IR_FILE_H
#define APC_DRIVER_IR_FILE_H

#include "ir/ir.h"

/* After reading `file`: makes the blob paths of the module relative to the current folder. */
void driver_ir_file_locate(Module *m, const char *file);

/* Returns the module's text for a file of that name ("-": standard output, in the current folder). */
const char *driver_ir_file_text(Arena *a, const Module *m, const char *file);

#endif
