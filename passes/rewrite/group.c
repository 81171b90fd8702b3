/* passes/rewrite/group.c - gives corresponding operations of repeated blocks one group (D25).
 *
 * In: a flat function.  Out: the same with groups like "h.*.attn": the common name of all instances, with stars where
 * names differ, made unique; groups of the model stay.  Operations outside blocks keep their own names as groups.
 */
#include "passes/facts/blocks.h"
#include "passes/facts/names.h"
#include "passes/rewrite/passes.h"

static const char *group_name(Arena *a, int n, const char *const *names) {
  NamePattern p = names_pattern(a, n, names);
  Text t = {.arena = a};
  bool same = false;
  for (int i = 0; i < p.n; i++) {
    text_add(&t, p.pieces[i].same ? p.pieces[i].same : "*");
    same |= p.pieces[i].same != NULL;
  }
  return same ? text_str(&t) : names[0];
}

static void set_groups(Builder *taken, Arena *scratch, Func *f, const Block *b) {
  const char **names = ARENA_ARRAY(scratch, const char *, b->instances);
  for (int i = 0; i < b->size; i++) {
    bool own = true;
    for (int j = 0; j < b->instances; j++) {
      const Op *op = &f->ops.items[b->ops[j * b->size + i]];
      names[j] = op->name;
      own &= op->group == op->name;
    }
    const char *group = own ? builder_unique_name(taken, group_name(scratch, b->instances, names)) : NULL;
    for (int j = 0; own && j < b->instances; j++) f->ops.items[b->ops[j * b->size + i]].group = group;
  }
}

bool pass_group(Module *m, Diags *diags) {
  Arena *scratch = arena_new();
  for (size_t k = 0; k < m->funcs.n; k++) {
    Func *f = m->funcs.items[k];
    if (f->level != 1) continue;
    Blocks b = blocks_find(scratch, f);
    Builder taken = builder_new(m, f, diags); /* a builder, to find names that are free in the function */
    for (int i = 0; i < b.n; i++) set_groups(&taken, scratch, f, &b.items[i]);
    builder_end(&taken);
  }
  arena_free(scratch);
  return true;
}
