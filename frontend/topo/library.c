/* frontend/topo/library.c - see library.h. */
#include "frontend/topo/library.h"

#include <string.h>

#include "base/die.h"

extern const char *const target_builtin_files[];
extern const char *const target_builtin_texts[];

TopoLibrary library_new(Arena *a) {
  TopoLibrary l = {.arena = a};
  while (target_builtin_files[l.nbuiltin]) l.nbuiltin++;
  l.builtin = ARENA_ARRAY(a, TopoFile, l.nbuiltin);
  l.parsed = ARENA_ARRAY(a, bool, l.nbuiltin);
  return l;
}

static void parse(TopoLibrary *l, int i) {
  Diags *d = diags_new(l->arena);
  if (l->parsed[i]) return;
  if (!topo_parse(d, l->arena, target_builtin_files[i], target_builtin_texts[i], &l->builtin[i]) ||
      !topo_check(d, &l->builtin[i]))
    die("%s: %d:%d: %s", target_builtin_files[i], d->items[0].loc.line, d->items[0].loc.col, d->items[0].message);
  l->parsed[i] = true;
}

void library_parse_all(TopoLibrary *l) {
  for (int i = 0; i < l->nbuiltin; i++) parse(l, i);
}

static const TopoBlock *find_in(const TopoFile *f, TopoKind kind, const char *name) {
  for (const TopoBlock *b = f->first; b; b = b->next)
    if (b->kind == kind && strcmp(b->name, name) == 0) return b;
  return NULL;
}

const TopoBlock *library_find(TopoLibrary *l, TopoKind kind, const char *name) {
  const TopoBlock *b = l->own ? find_in(l->own, kind, name) : NULL;
  for (int i = 0; !b && i < l->nbuiltin; i++) {
    if (!strstr(target_builtin_texts[i], name)) continue;
    parse(l, i);
    b = find_in(&l->builtin[i], kind, name);
  }
  return b;
}
