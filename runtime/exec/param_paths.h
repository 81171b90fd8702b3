/* runtime/exec/param_paths.h - finds the files of a program's weights after they were moved.
 *
 * A program knows its files by their paths at compile time.  `place`, from --weights, is the folder that they are in
 * now, or one file in it: the model, or one of its data files, which may have a new name.  A file is identified by its
 * size and the end of its path; the caller checks its bytes after opening it.
 */
#ifndef APC_RUNTIME_EXEC_PARAM_PATHS_H
#define APC_RUNTIME_EXEC_PARAM_PATHS_H

#include "program/program.h"

/* Returns the path of a blob that has one, from malloc; NULL if no file there can be it. */
char *param_path_find(const Program *p, uint32_t blob, const char *place);

#endif
