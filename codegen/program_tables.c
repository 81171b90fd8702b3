/* codegen/program_tables.c - see program_tables.h. */
#include "codegen/program_tables.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ir/schedule.h"

/* ---- expressions */

static size_t expr_slot(const Emitting *e, const Expr *x) {
  size_t i = x->hash & (e->exprs.cap - 1);
  while (e->exprs.keys[i] && e->exprs.keys[i] != x) i = (i + 1) & (e->exprs.cap - 1);
  return i;
}

static void expr_room(Emitting *e) {
  if (2 * (e->exprs.n + 1) <= e->exprs.cap) return;
  size_t old = e->exprs.cap, cap = old ? old * 2 : 256;
  const Expr **keys = e->exprs.keys;
  uint32_t *values = e->exprs.values;
  e->exprs.cap = cap;
  e->exprs.keys = ARENA_ARRAY(e->m->arena, const Expr *, cap);
  e->exprs.values = ARENA_ARRAY(e->m->arena, uint32_t, cap);
  for (size_t i = 0; i < old; i++)
    if (keys[i]) {
      size_t s = expr_slot(e, keys[i]);
      e->exprs.keys[s] = keys[i];
      e->exprs.values[s] = values[i];
    }
}

static uint32_t translate(Emitting *e, const Expr *x) {
  static const ProgramExprKind kinds[] = {
      [EX_MUL] = PX_mul, [EX_ADD] = PX_add, [EX_DIV] = PX_div, [EX_MIN] = PX_min, [EX_MAX] = PX_max};
  if (x->kind == EX_CONST) return program_const(e->b, x->value);
  if (x->kind == EX_SYM) {
    const Symbol *s = &e->m->symbols.items[x->value];
    return s->axis >= 0 ? program_coordinate(e->b, (uint32_t)s->axis) : program_sym(e->b, e->symbols[x->value]);
  }
  uint32_t r = emit_expr(e, x->args[0]);
  for (int i = 1; i < x->n; i++) r = program_expr(e->b, kinds[x->kind], r, emit_expr(e, x->args[i]));
  if (x->kind == EX_MUL && x->value != 1) r = program_expr(e->b, PX_mul, r, program_const(e->b, x->value));
  if (x->kind == EX_ADD && x->value != 0) r = program_expr(e->b, PX_add, r, program_const(e->b, x->value));
  return r;
}

uint32_t emit_expr(Emitting *e, const Expr *x) {
  expr_room(e);
  size_t s = expr_slot(e, x);
  if (e->exprs.keys[s]) return e->exprs.values[s];
  uint32_t r = translate(e, x);
  expr_room(e);
  s = expr_slot(e, x);
  if (!e->exprs.keys[s]) e->exprs.n++;
  e->exprs.keys[s] = x;
  e->exprs.values[s] = r;
  return r;
}

ProgramList emit_exprs(Emitting *e, int n, const Expr *const *list) {
  uint32_t *items = ARENA_ARRAY(e->m->arena, uint32_t, n);
  for (int i = 0; i < n; i++) items[i] = emit_expr(e, list[i]);
  return program_list_of(e->b, (uint32_t)n, items);
}

uint32_t emit_text(Emitting *e, const char *s) { return program_string(e->b, s); }

ProgramList emit_intervals(Emitting *e, const Type *global, const Layout *l, bool ends) {
  const Expr *list[2 * MAX_RANK];
  int n = 0;
  for (int d = 0; d < global->rank; d++) {
    const Expr *lo, *hi;
    layout_interval(e->m, &l->dims[d], global->dims[d], &lo, &hi);
    list[n++] = lo;
    if (ends) list[n++] = hi;
  }
  return emit_exprs(e, n, list);
}

/* ---- tables of the whole Program */

void emit_symbols(Emitting *e) {
  e->symbols = ARENA_ARRAY(e->m->arena, uint32_t, e->m->symbols.n);
  for (size_t i = 0; i < e->m->symbols.n; i++) {
    const Symbol *s = &e->m->symbols.items[i];
    if (s->axis >= 0) continue;
    uint32_t most = s->most ? 1 + emit_expr(e, s->most) : 0; /* before all expressions that use the symbol */
    e->symbols[i] = program_add_symbols(e->b, &(ProgramSymbol){.name = emit_text(e, s->name),
                                                               .most = most,
                                                               .min = s->min,
                                                               .max = s->max,
                                                               .multiple = s->multiple < 1 ? 1 : s->multiple,
                                                               .hint = s->hint});
  }
  for (int a = 0; a < e->m->mesh.naxes; a++) {
    const MeshAxis *x = &e->m->mesh.axes[a];
    program_add_axes(e->b,
                     &(ProgramAxis){.name = emit_text(e, x->name), .size = (uint32_t)x->size, .temporal = x->temporal});
  }
}

static bool add_blob(Emitting *e, int index, uint32_t *out) {
  if (e->blobs[index] != PROGRAM_NONE) return *out = e->blobs[index], true;
  const Blob *blob = &e->m->blobs.items[index];
  FileMap map;
  if (e->legal->source.unread) {
    *out = e->blobs[index] =
        program_add_blobs(e->b, &(ProgramBlob){.path = emit_text(e, blob->path), .bytes = blob->bytes});
    return true;
  }
  if (!file_map(e->diags, blob->path, &map)) return false;
  if (map.size != blob->bytes) {
    diag_error(e->diags, DIAG_file_read, file_loc(e->diags, blob->path),
               "the weights file has %zu bytes, it had %llu when the model was read", map.size,
               (unsigned long long)blob->bytes);
    file_unmap(&map);
    return false;
  }
  if (e->legal->source.embed) {
    Embedded embedded = embedded_of(e->m, index);
    *out = embedded.blob = program_embed(e->b, embedded.bytes, embedded_hash(&embedded, map.data));
    ARENA_PUSH(e->m->arena, &e->out->embedded, embedded);
  } else {
    char absolute[PATH_MAX]; /* the program may run in another folder */
    const char *path = realpath(blob->path, absolute) ? absolute : blob->path;
    *out = program_add_blobs(
        e->b,
        &(ProgramBlob){.path = emit_text(e, path), .bytes = map.size, .hash = program_blob_hash(map.data, map.size)});
  }
  file_unmap(&map);
  e->blobs[index] = *out;
  return true;
}

/* Returns the offset of a weight in a blob of the Program that add_blob gave. */
static uint64_t place_in_blob(const Emitting *e, uint32_t blob, uint64_t offset) {
  for (size_t i = 0; i < e->out->embedded.n; i++)
    if (e->out->embedded.items[i].blob == blob) return embedded_place(&e->out->embedded.items[i], offset);
  return offset;
}

uint32_t emit_bytes(Emitting *e, const Type *t) {
  return emit_expr(e, ex_muli(e->m, type_elements(e->m, t), (int64_t)dtype_bytes(t->dtype)));
}

uint32_t emit_tensor(Emitting *e, uint32_t buffer, uint32_t offset, const Type *t) {
  return program_add_tensors(
      e->b, &(ProgramTensor){
                .buffer = buffer, .offset = offset, .dtype = t->dtype, .extents = emit_exprs(e, t->rank, t->dims)});
}

uint32_t emit_place(const Emitting *e, int stage) { return (uint32_t)mesh_place_of(&e->m->mesh, stage); }

static uint32_t persistent_buffer(Emitting *e, const char *name, ProgramClass class_, int stage, uint32_t slots,
                                  uint32_t bytes) {
  return program_add_buffers(e->b, &(ProgramBuffer){.name = emit_text(e, name),
                                                    .class_ = class_,
                                                    .stage = emit_place(e, stage),
                                                    .entry = PROGRAM_NONE,
                                                    .body = PROGRAM_NONE,
                                                    .slots = slots,
                                                    .bytes = bytes});
}

void emit_workspace(Emitting *e, int stage, uint32_t bytes) {
  if (bytes == program_const(e->b, 0)) return;
  for (uint32_t i = 0; i < program_count_buffers(e->b); i++) {
    ProgramBuffer *b = program_at_buffers(e->b, i);
    if (b->class_ != PC_library || b->stage != emit_place(e, stage)) continue;
    uint32_t most = program_expr(e->b, PX_max, b->bytes, bytes);
    b->bytes = most;
    return;
  }
  persistent_buffer(e, "libraries", PC_library, stage, 1, bytes);
}

static ProgramList strides_list(Emitting *e, const Param *p) {
  uint32_t items[MAX_RANK];
  for (int d = 0; d < p->type->rank; d++) items[d] = program_const(e->b, p->strides[d]);
  return program_list_of(e->b, (uint32_t)p->type->rank, items);
}

/* Returns the beginning of the list of a weight's items. */
static uint32_t *known_param(const Emitting *e, const char *name) {
  return &e->known_params[module_param(e->m, name) - e->m->params.items];
}

/* `beside`: the panels of a weight whose tensor exists as well. */
static const EmitKnown *find_known(const Emitting *e, const char *name, int stage, const Layout *layout, bool beside) {
  for (uint32_t i = *known_param(e, name); i; i = e->params.items[i - 1].next) {
    const EmitKnown *k = &e->params.items[i - 1];
    bool here = emit_place(e, k->stage) == emit_place(e, stage); /* stages of a place have one copy */
    if (here && k->layout == layout && (k->panels && panels_beside(k->panels)) == beside) return k;
  }
  return NULL;
}

const EmitKnown *emit_known_param(const Emitting *e, const char *name, int stage, const Layout *layout) {
  return find_known(e, name, stage, layout, false);
}

const EmitKnown *emit_known_beside(const Emitting *e, const char *name, int stage, const Layout *layout) {
  return find_known(e, name, stage, layout, true);
}

/* Fills in the whole weight of which the record is a view. */
static void emit_origin(Emitting *e, const ParamOrigin *o, ProgramParam *r) {
  r->view = 1;
  r->origin = emit_text(e, o->name);
  r->origin_dims = emit_exprs(e, o->type->rank, o->type->dims);
  r->first = (uint64_t)o->first;
}

bool emit_param_record(Emitting *e, const char *name, int stage, const Layout *layout, ProgramParam *r) {
  static const ProgramInit inits[] = {
      [INIT_BLOB] = PINIT_blob,     [INIT_ZEROS] = PINIT_zeros,     [INIT_CONSTANT] = PINIT_constant,
      [INIT_NORMAL] = PINIT_normal, [INIT_UNIFORM] = PINIT_uniform, [INIT_PREPARED] = PINIT_prepared};
  const Param *p = module_param(e->m, name);
  *r = (ProgramParam){.name = emit_text(e, p->name),
                      .dtype = p->type->dtype,
                      .stage = emit_place(e, stage),
                      .init = inits[p->init],
                      .buffer = PROGRAM_NONE,
                      .blob = PROGRAM_NONE,
                      .source_dtype = p->type->dtype,
                      .trainable = p->trainable,
                      .seed = (uint64_t)p->seed,
                      .value = p->value};
  if (p->init == INIT_BLOB) {
    if (!add_blob(e, p->blob, &r->blob)) return false;
    r->offset = place_in_blob(e, r->blob, p->offset);
    r->strides = strides_list(e, p);
    if (p->origin.name) emit_origin(e, &p->origin, r);
  }
  r->dims = emit_exprs(e, p->type->rank, p->type->dims);
  r->interval = emit_intervals(e, p->type, layout, true);
  return true;
}

/* Returns the record of a weight's panels, which @prepare writes.  They belong to this rank alone, so the "whole"
 * weight is as large as they are. */
static ProgramParam panels_record(Emitting *e, const PanelWeight *w) {
  uint32_t interval[2 * MAX_RANK];
  for (int d = 0; d < w->type->rank; d++) {
    interval[2 * d] = program_const(e->b, 0);
    interval[2 * d + 1] = emit_expr(e, w->type->dims[d]);
  }
  return (ProgramParam){.name = emit_text(e, arena_printf(e->m->arena, "%s.panels", w->name)),
                        .dtype = w->type->dtype,
                        .stage = emit_place(e, w->stage),
                        .init = PINIT_prepared,
                        .buffer = PROGRAM_NONE,
                        .blob = PROGRAM_NONE,
                        .source_dtype = w->type->dtype,
                        .dims = emit_exprs(e, w->type->rank, w->type->dims),
                        .interval = program_list_of(e->b, 2 * (uint32_t)w->type->rank, interval)};
}

/* Adds the weight in its own memory, as its tensor or in panels (`k->panels`); fills in the rest of `k`. */
static void add_known(Emitting *e, EmitKnown *k, ProgramParam *r) {
  const Type *lies = k->panels ? k->panels->type : k->local;
  r->buffer = k->buffer = persistent_buffer(e, k->name, PC_param, k->stage, 1, emit_bytes(e, lies));
  k->record = program_add_params(e->b, r);
  k->tensor = emit_tensor(e, r->buffer, program_const(e->b, 0), lies);
  uint32_t *end = known_param(e, k->name);
  while (*end) end = &e->params.items[*end - 1].next;
  *end = (uint32_t)e->params.n + 1;
  ARENA_PUSH(e->m->arena, &e->params, *k);
}

bool emit_param(Emitting *e, const char *name, int stage, const Layout *layout, const Type *local, uint32_t *tensor) {
  const EmitKnown *have = emit_known_param(e, name, stage, layout);
  ProgramParam r;
  if (have) return *tensor = have->tensor, true;
  const PanelWeight *panels = panels_find(&e->legal->panels, name, stage, layout);
  if (panels && panels_beside(panels)) panels = NULL;
  if (panels) r = panels_record(e, panels);
  else if (!emit_param_record(e, name, stage, layout, &r)) return false;
  EmitKnown k = {.name = name, .stage = stage, .layout = layout, .local = local, .panels = panels};
  add_known(e, &k, &r);
  *tensor = k.tensor;
  return true;
}

uint32_t emit_panels_tensor(Emitting *e, const PanelWeight *panels, const Type *local) {
  const EmitKnown *have = emit_known_beside(e, panels->name, panels->stage, panels->layout);
  if (have) return have->tensor;
  ProgramParam r = panels_record(e, panels);
  EmitKnown k = {
      .name = panels->name, .stage = panels->stage, .layout = panels->layout, .local = local, .panels = panels};
  add_known(e, &k, &r);
  return k.tensor;
}

static bool states_differ(Emitting *e, const EmitKnown *k, const Op *op, const Layout *layout) {
  Text have = {.arena = e->m->arena}, want = {.arena = e->m->arena};
  layout_print(e->m, &have, k->layout);
  layout_print(e->m, &want, layout);
  return diag_error(e->diags, DIAG_plan_state, op->loc,
                    "state \"%s\" is %s in stage %d in one entry and %s in stage %d in another", k->name,
                    text_str(&have), k->stage, text_str(&want), op->stage);
}

/* Returns the number of parts into which micro-batches split a value. */
static uint32_t parts_in_time(const Module *m, const Layout *l) {
  uint32_t parts = 1;
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (m->mesh.axes[l->dims[d].axes[i]].temporal) parts *= (uint32_t)m->mesh.axes[l->dims[d].axes[i]].size;
  return parts;
}

/* Adds the state of a trained weight or of a statistic: loaded as a weight, but into its own memory, which bodies
 * write. */
static bool trained_weight(Emitting *e, const State *s, const Op *op, const Layout *layout, const Type *local,
                           EmitKnown *k) {
  ProgramParam r;
  if (!emit_param_record(e, s->param, op->stage, layout, &r)) return false;
  r.trainable = r.trainable == PARAM_FIXED ? PARAM_MEASURED : PARAM_TRAINED;
  r.buffer = persistent_buffer(e, s->name, PC_param, op->stage, 1, emit_bytes(e, local));
  k->record = program_add_params(e->b, &r);
  k->buffer = r.buffer;
  return true;
}

/* Adds a state that starts as a number. */
static void plain_state(Emitting *e, const State *s, const Op *op, const Layout *layout, const Type *local,
                        EmitKnown *k) {
  k->buffer = persistent_buffer(e, s->name, s->away ? PC_away : PC_state, op->stage, parts_in_time(e->m, layout),
                                emit_bytes(e, local));
  ProgramState r = {.name = emit_text(e, s->name),
                    .dtype = s->type->dtype,
                    .stage = emit_place(e, op->stage),
                    .buffer = k->buffer,
                    .dims = emit_exprs(e, s->type->rank, s->type->dims),
                    .interval = emit_intervals(e, s->type, layout, true),
                    .value = s->value};
  k->record = program_add_states(e->b, &r);
}

bool emit_state(Emitting *e, const Op *op, const Layout *layout, const Type *local, uint32_t *tensor) {
  const char *name = op_str(op, AT_name);
  const State *s = module_state(e->m, name);
  uint32_t *known = &e->known_states[s - e->m->states.items];
  if (*known) {
    const EmitKnown *k = &e->states.items[*known - 1];
    *tensor = k->tensor;
    return (k->stage == op->stage && k->layout == layout) || states_differ(e, k, op, layout);
  }
  EmitKnown k = {.name = name, .stage = op->stage, .layout = layout, .local = local};
  if (!s->param) plain_state(e, s, op, layout, local, &k);
  else if (!trained_weight(e, s, op, layout, local, &k)) return false;
  k.tensor = emit_tensor(e, k.buffer, program_const(e->b, 0), local);
  *known = (uint32_t)e->states.n + 1;
  ARENA_PUSH(e->m->arena, &e->states, k);
  *tensor = k.tensor;
  return true;
}
