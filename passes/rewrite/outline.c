/* passes/rewrite/outline.c - turns repeated blocks into functions that are called (D30); the inverse of inline.
 *
 * In: a flat level-1 function whose sources are in order (pass order).  Out: every block once, as @main.block0, and a
 * call per instance; apart from weights only these calls grow with depth.  inline(outline(m)) is m, byte for byte.
 *
 * - Weights, reads of states, and constants whose numbers differ stay in the caller and are operands, as are all values
 *   from outside; other sources that only one instance uses are in the block.  Writes stay in the caller too: the
 *   written value is an output of the block.
 * - If names of the instances differ (names.h), the block's names have holes, which a call fills with its labels.  The
 *   same holds for groups and places in the source.
 *
 * A block stays flat if it contains part of a loop (a block inside a loop body is called there), has more operands than
 * an operation may have, or has source places that differ in line and column.
 */
#include <string.h>

#include "ir/holes.h"
#include "ir/loops.h"
#include "passes/facts/blocks.h"
#include "passes/facts/names.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Outlined {
  const Block *b;
  bool ok;
  Func *f;     /* the block as a function */
  bool *inner; /* by index: part of the function */
  bool *out;   /* by place: used outside the block */
  struct {
    const Val **items;
    size_t n, cap;
  } operands; /* by instance */
  struct {
    int *items;
    size_t n, cap;
  } outputs; /* by place */
  struct {
    const char *const **items;
    size_t n, cap;
  } labels; /* by instance */
} Outlined;

typedef struct Outline {
  Module *m;
  Arena *a;
  const Func *f;
  Blocks blocks;
  Outlined *items; /* by block */
} Outline;

/* The place of a result in the block: index * MAX_RESULTS + number of the result. */
static int place_of(const Func *f, int index, Val v) { return index * MAX_RESULTS + value_index(f, v); }

static const Op *op_at(const Outline *w, const Block *b, int instance, int index) {
  return &w->f->ops.items[b->ops[instance * b->size + index]];
}

/* ---- contents of the block */

static bool same_source(const Op *x, const Op *y) {
  for (int i = 0; i < x->nattrs; i++)
    if (!attr_equal(&x->attrs[i], &y->attrs[i])) return false;
  return true;
}

static bool is_inner(const Outline *w, const Block *b, int index) {
  const Op *first = op_at(w, b, 0, index);
  if (!first->out || op_is_resident(first->kind)) return false;
  for (int j = 1; blocks_is_source(first->kind) && j < b->instances; j++)
    if (!same_source(first, op_at(w, b, j, index))) return false;
  return true;
}

/* Returns the index of the operation that makes `v`, if it is in the block and of this instance; else -1. */
static int inner_index(const Outline *w, int block, int instance, Val v) {
  BlockPlace p = w->blocks.places[w->f->values.items[v].op];
  return p.block == block && p.instance == instance && w->items[block].inner[p.index] ? p.index : -1;
}

static bool is_inside(const Outline *w, size_t op) {
  BlockPlace p = w->blocks.places[op];
  return p.block >= 0 && w->items[p.block].inner[p.index];
}

static void find_outputs(Outline *w) {
  const Func *f = w->f;
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      BlockPlace user = w->blocks.places[i], made = w->blocks.places[f->values.items[f->ops.items[i].in[k]].op];
      bool together = is_inside(w, i) && user.block == made.block && user.instance == made.instance;
      if (made.block >= 0 && !together) w->items[made.block].out[place_of(f, made.index, f->ops.items[i].in[k])] = true;
    }
  for (size_t i = 0; i < f->outputs.n; i++) {
    Val v = f->outputs.items[i].value;
    BlockPlace made = w->blocks.places[f->values.items[v].op];
    if (made.block >= 0) w->items[made.block].out[place_of(f, made.index, v)] = true;
  }
  for (int b = 0; b < w->blocks.n; b++)
    for (int i = 0; i < w->blocks.items[b].size * MAX_RESULTS; i++)
      if (w->items[b].inner[i / MAX_RESULTS] && w->items[b].out[i]) ARENA_PUSH(w->a, &w->items[b].outputs, i);
}

/* Returns the operand that has these values in the instances, adding it if needed. */
static int operand_of(Outline *w, Outlined *o, const Val *values) {
  size_t bytes = sizeof *values * (size_t)o->b->instances;
  for (size_t i = 0; i < o->operands.n; i++)
    if (memcmp(o->operands.items[i], values, bytes) == 0) return (int)i;
  Val *copy = ARENA_ARRAY(w->a, Val, o->b->instances);
  memcpy(copy, values, bytes);
  ARENA_PUSH(w->a, &o->operands, copy);
  return (int)o->operands.n - 1;
}

static int operand_at(Outline *w, Outlined *o, int index, int slot) {
  Val *values = ARENA_ARRAY(w->a, Val, o->b->instances);
  for (int j = 0; j < o->b->instances; j++) values[j] = op_at(w, o->b, j, index)->in[slot];
  return operand_of(w, o, values);
}

static bool same_line(const Outline *w, const Block *b, int index) {
  const Loc *x = &op_at(w, b, 0, index)->loc;
  for (int j = 1; j < b->instances; j++) {
    const Loc *y = &op_at(w, b, j, index)->loc;
    if (x->line != y->line || x->col != y->col || !x->file != !y->file || !x->node != !y->node) return false;
  }
  return true;
}

static bool can_be_called(Outline *w, int block) {
  Outlined *o = &w->items[block];
  for (int i = 0; i < o->b->size; i++) {
    const Op *op = op_at(w, o->b, 0, i);
    if (op_is_loop_part(op->kind)) return false;
    if (!o->inner[i]) continue;
    for (int k = 0; k < op->nin; k++)
      if (inner_index(w, block, 0, op->in[k]) < 0) operand_at(w, o, i, k);
    if (!same_line(w, o->b, i)) return false;
  }
  return o->operands.n <= MAX_OPERANDS && o->outputs.n;
}

/* ---- names */

static int label_of(Outline *w, Outlined *o, const char *const *numbers) {
  for (size_t i = 0; i < o->labels.n; i++) {
    int j = 0;
    while (j < o->b->instances && strcmp(o->labels.items[i][j], numbers[j]) == 0) j++;
    if (j == o->b->instances) return (int)i;
  }
  ARENA_PUSH(w->a, &o->labels, numbers);
  return (int)o->labels.n - 1;
}

/* Returns one name for all instances, with holes; NULL if they have no name. */
static const char *with_holes(Outline *w, Outlined *o, const char *const *names) {
  if (!names[0]) return NULL;
  NamePattern p = names_pattern(w->a, o->b->instances, names);
  Text t = {.arena = w->a};
  for (int i = 0; i < p.n; i++) {
    if (p.pieces[i].same) holes_add_text(&t, p.pieces[i].same, strlen(p.pieces[i].same));
    else holes_add(&t, label_of(w, o, p.pieces[i].labels));
  }
  return module_string(w->m, text_str(&t));
}

/* Returns the name of an operand in the block: the name outside, with stars where it differs. */
static const char *operand_name(Outline *w, const Outlined *o, size_t operand) {
  const char **names = ARENA_ARRAY(w->a, const char *, o->b->instances);
  for (int j = 0; j < o->b->instances; j++) names[j] = name_of(w->f, o->operands.items[operand][j]);
  NamePattern p = names_pattern(w->a, o->b->instances, names);
  Text t = {.arena = w->a};
  for (int i = 0; i < p.n; i++) {
    if (p.pieces[i].same) holes_add_text(&t, p.pieces[i].same, strlen(p.pieces[i].same));
    else text_add(&t, "*");
  }
  return text_str(&t);
}

/* ---- the block as a function */

static void spec_names(Outline *w, Outlined *o, int index, OpSpec *spec) {
  int n = o->b->instances;
  const char **names[5 + MAX_RESULTS], **further = ARENA_ARRAY(w->a, const char *, MAX_RESULTS);
  int nout = op_at(w, o->b, 0, index)->nout;
  for (int k = 0; k < 5 + MAX_RESULTS; k++) names[k] = ARENA_ARRAY(w->a, const char *, n);
  for (int j = 0; j < n; j++) {
    const Op *op = op_at(w, o->b, j, index);
    names[0][j] = op->name, names[1][j] = op->group, names[2][j] = op->loc.file, names[3][j] = op->loc.node;
    names[4][j] = op->mirror.name;
    for (int k = 1; k < op->nout; k++) names[4 + k][j] = op->names[k - 1];
  }
  spec->name = with_holes(w, o, names[0]);
  spec->group = with_holes(w, o, names[1]);
  spec->loc.file = with_holes(w, o, names[2]);
  spec->loc.node = with_holes(w, o, names[3]);
  spec->mirror.name = with_holes(w, o, names[4]);
  for (int k = 1; k < nout; k++) further[k - 1] = with_holes(w, o, names[4 + k]);
  spec->names = nout > 1 ? further : NULL;
}

static bool build_inner(Outline *w, int block, Builder *b, const Val *inputs, Val *made, int index) {
  Outlined *o = &w->items[block];
  const Op *op = op_at(w, o->b, 0, index);
  OpSpec spec = op_spec_of(w->f, op);
  Val in[MAX_OPERANDS];
  for (int k = 0; k < op->nin; k++) {
    int inner = inner_index(w, block, 0, op->in[k]);
    in[k] = inner >= 0 ? made[inner] + (Val)value_index(w->f, op->in[k]) : inputs[operand_at(w, o, index, k)];
  }
  spec.in = in;
  spec_names(w, o, index, &spec);
  made[index] = build_op(b, &spec);
  return made[index] != 0;
}

static const char *free_name(Outline *w, int block) {
  const char *name = arena_printf(w->m->arena, "%s.block%d", w->f->name, block);
  while (module_func(w->m, name)) name = arena_printf(w->m->arena, "%s.x", name);
  return name;
}

static void insert_func(Module *m, size_t at, Func *f) {
  ARENA_PUSH(m->arena, &m->funcs, f);
  for (size_t i = m->funcs.n - 1; i > at; i--) m->funcs.items[i] = m->funcs.items[i - 1];
  m->funcs.items[at] = f;
}

static bool build_block(Outline *w, int block, Diags *diags) {
  Outlined *o = &w->items[block];
  Func *f = o->f = ARENA_NEW(w->m->arena, Func);
  *f = (Func){.name = module_string(w->m, free_name(w, block)), .level = 1};
  ARENA_PUSH(w->m->arena, &f->values, ((Value){NULL, -1, NULL}));
  Builder b = builder_new(w->m, f, diags);
  Val *inputs = ARENA_ARRAY(w->a, Val, o->operands.n), *made = ARENA_ARRAY(w->a, Val, o->b->size);
  for (size_t i = 0; i < o->operands.n; i++)
    inputs[i] = build_input(&b, operand_name(w, o, i), type_of(w->f, o->operands.items[i][0]));
  for (int i = 0; i < o->b->size; i++)
    if (o->inner[i] && !build_inner(w, block, &b, inputs, made, i)) return false;
  for (size_t i = 0; i < o->outputs.n; i++)
    build_output(&b, arena_printf(w->m->arena, "%zu", i),
                 made[o->outputs.items[i] / MAX_RESULTS] + (Val)(o->outputs.items[i] % MAX_RESULTS), NULL);
  return true;
}

/* ---- the calls */

typedef struct Caller {
  Rewrite r;
  Builder names; /* for finding free names: it has all names of the old function */
  struct {
    uint32_t *items;
    size_t n, cap;
  } writes; /* writes that wait for a call */
} Caller;

static bool build_call(Outline *w, Caller *c, int block, int instance) {
  Outlined *o = &w->items[block];
  Val in[MAX_OPERANDS];
  const char **labels = ARENA_ARRAY(w->a, const char *, o->labels.n);
  for (size_t i = 0; i < o->operands.n; i++) in[i] = c->r.map[o->operands.items[i][instance]];
  for (size_t i = 0; i < o->labels.n; i++) labels[i] = o->labels.items[i][instance];
  Attr attrs[] = {attr_s(w->m, AT_name, o->f->name), attr_strs(w->m, AT_labels, (int)o->labels.n, labels)};
  const char *name = builder_unique_name(&c->names, arena_printf(w->m->arena, "block%d.%d", block, instance));
  Val call = build_op(
      &c->r.b,
      &(OpSpec){.kind = OP_call, .name = name, .nin = (int)o->operands.n, .in = in, .nattrs = 2, .attrs = attrs});
  for (size_t i = 0; call && i < o->outputs.n; i++) {
    Attr a = attr_i(AT_index, (int64_t)i);
    const char *further = i ? builder_unique_name(&c->names, arena_printf(w->m->arena, "%s.%zu", name, i)) : NULL;
    Val v = i ? build_op(&c->r.b,
                         &(OpSpec){.kind = OP_result, .name = further, .nin = 1, .in = &call, .nattrs = 1, .attrs = &a})
              : call;
    int place = o->outputs.items[i];
    c->r.map[op_at(w, o->b, instance, place / MAX_RESULTS)->out + (Val)(place % MAX_RESULTS)] = v;
  }
  return call != 0;
}

/* True for the last operation of the instance that is in the block. */
static bool ends_instance(const Outline *w, size_t op) {
  BlockPlace p = w->blocks.places[op];
  const Block *b = &w->blocks.items[p.block];
  for (int i = p.index + 1; i < b->size; i++)
    if (w->items[p.block].inner[i]) return false;
  return true;
}

static bool outline_op(Outline *w, Caller *c, size_t i) {
  const Op *op = &w->f->ops.items[i];
  BlockPlace p = w->blocks.places[i];
  if (!op->out && !c->r.map[op->in[0]]) {
    ARENA_PUSH(w->a, &c->writes, (uint32_t)i);
    return true;
  }
  if (!is_inside(w, i)) return rewrite_copy(&c->r, op) != 0;
  if (!ends_instance(w, i)) return true;
  if (!build_call(w, c, p.block, p.instance)) return false;
  for (size_t k = 0; k < c->writes.n; k++)
    if (!rewrite_copy(&c->r, &w->f->ops.items[c->writes.items[k]])) return false;
  c->writes.n = 0;
  return true;
}

/* ---- a function */

static void choose_blocks(Outline *w) {
  w->items = ARENA_ARRAY(w->a, Outlined, w->blocks.n);
  for (int b = 0; b < w->blocks.n; b++) {
    Outlined *o = &w->items[b];
    o->b = &w->blocks.items[b];
    o->inner = ARENA_ARRAY(w->a, bool, o->b->size);
    o->out = ARENA_ARRAY(w->a, bool, o->b->size *MAX_RESULTS);
    for (int i = 0; i < o->b->size; i++) o->inner[i] = is_inner(w, o->b, i);
  }
  find_outputs(w);
  for (int b = 0; b < w->blocks.n; b++) {
    w->items[b].ok = can_be_called(w, b);
    if (!w->items[b].ok) memset(w->items[b].inner, 0, sizeof *w->items[b].inner * (size_t)w->items[b].b->size);
  }
}

static bool outline(Module *m, size_t at, Diags *diags) {
  Outline w = {.m = m, .a = m->arena, .f = m->funcs.items[at]};
  w.blocks = blocks_find(w.a, w.f);
  choose_blocks(&w);
  for (int b = 0; b < w.blocks.n; b++) {
    if (!w.items[b].ok) continue;
    if (!build_block(&w, b, diags)) return false;
    insert_func(m, at++, w.items[b].f);
  }
  Func names = *w.f;
  Caller c = {.r = rewrite_start(m, w.f, diags), .names = builder_new(m, &names, diags)};
  for (size_t i = 0; i < w.f->ops.n; i++)
    if (!outline_op(&w, &c, i)) return false;
  rewrite_finish(&c.r);
  return true;
}

static bool has_calls(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_call) return true;
  return false;
}

bool pass_outline(Module *m, Diags *diags) {
  size_t n = m->funcs.n;
  Func **funcs = ARENA_ARRAY(m->arena, Func *, n);
  memcpy(funcs, m->funcs.items, sizeof *funcs * n);
  for (size_t k = 0; k < n; k++) {
    size_t at = 0;
    while (m->funcs.items[at] != funcs[k]) at++;
    if (funcs[k]->level == 1 && !has_calls(funcs[k]) && !outline(m, at, diags)) return false;
  }
  return true;
}
