/* runtime/exec/param_paths.h - where the files of a program's weights lie when they were moved.
 *
 * A program knows its files by the paths that they had when it was compiled.  `place`, of --weights, is the folder that
 * they are in now, or one file in it: the model, or one of its data files, which may have a new name.  A file is known
 * by its size and the end of its path; that its bytes are the right ones is checked by who opens it.
 */
#ifndef APC_RUNTIME_EXEC_PARAM_PATHS_H
#define APC_RUNTIME_EXEC_PARAM_PATHS_H

#include "program/program.h"

/* The path of a blob that has one, from malloc; NULL when nothing there can be it. */
char *param_path_find(const Program *p, uint32_t blob, const char *place);

#endif
