/* frontend/topo/library.h - looks up the names of a target file: in the file itself, then in the built-in ones.
 *
 * A built-in file (targets/, part of the binary) is parsed on the first look-up of a name that occurs in its text.
 */
#ifndef APC_FRONTEND_TOPO_LIBRARY_H
#define APC_FRONTEND_TOPO_LIBRARY_H

#include "frontend/topo/topo.h"

typedef struct TopoLibrary {
  Arena *arena;
  const TopoFile *own; /* NULL if none */
  TopoFile *builtin;
  bool *parsed;
  int nbuiltin;
} TopoLibrary;

/* Makes a library of the built-in files; set `own` to search a file before them. */
TopoLibrary library_new(Arena *a);

/* Finds a block; NULL if there is none. */
const TopoBlock *library_find(TopoLibrary *l, TopoKind kind, const char *name);

/* Parses all built-in files, for lists and nearest names. */
void library_parse_all(TopoLibrary *l);

#endif
