/* frontend/topo/library.h - where the names of a target file are looked up: in the file itself, then in the built-in
 * ones.
 *
 * The built-in files (targets/, part of the binary) are parsed when a name is looked up that occurs in their text.
 */
#ifndef APC_FRONTEND_TOPO_LIBRARY_H
#define APC_FRONTEND_TOPO_LIBRARY_H

#include "frontend/topo/topo.h"

typedef struct TopoLibrary {
  Arena *arena;
  const TopoFile *own; /* NULL: none */
  TopoFile *builtin;
  bool *parsed;
  int nbuiltin;
} TopoLibrary;

TopoLibrary library_new(Arena *a);

/* NULL when there is none. */
const TopoBlock *library_find(TopoLibrary *l, TopoKind kind, const char *name);

/* Parses all that is built in, for lists and nearest names. */
void library_parse_all(TopoLibrary *l);

#endif
