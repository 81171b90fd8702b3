/* passes/rewrite/views.c - moves slices, splits and transposes onto weights, where they are free views of the file
 * (D12, D27).
 *
 * A fused query-key-value projection is dot(x, W) + bias, sliced in three, each third split into heads.  In this form
 * it cannot be tensor-parallel: the slices cross the shards.  This pass pushes
 *   - a slice, and a reshape that splits one dimension into several, up through elementwise operations, broadcasts and
 *     contractions to the weights that have the dimension, and
 *   - a reshape that merges dimensions and feeds the contracted dimension of a dot down into the dot (its weight is
 *     split instead),
 * so that heads become dimensions of their own.  A push happens only if every path ends in an operation that can take
 * it.  A slice stays if other readers need the whole contraction: rotary positions read the halves of each head beside
 * the head, and as separate contractions these would be computed twice.  Not supported: strided activations; weights
 * made by an initialiser (not read from a file) keep their shape.
 */
#include <string.h>

#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

/* The change of dimension `dim`: keep [start, start + extent), or split into `n` parts. */
typedef struct Cut {
  bool split;
  int64_t start, extent;
  int n;
  int64_t parts[MAX_RANK];
} Cut;

typedef struct Views {
  Rewrite r;
  Diags *diags;
  int *whole; /* by old value: users other than slices */
} Views;

static const Op *def(const Views *w, Val v) { return op_of(w->r.b.f, v); }
static const Type *type(const Views *w, Val v) { return type_of(w->r.b.f, v); }

/* ---- dimensions */

static int new_rank(const Type *t, const Cut *c) { return t->rank + (c->split ? c->n - 1 : 0); }

static const Type *cut_type(const Views *w, const Type *t, int dim, const Cut *c) {
  const Expr *dims[MAX_RANK];
  int n = 0;
  for (int d = 0; d < t->rank; d++) {
    if (d != dim) dims[n++] = t->dims[d];
    else if (!c->split) dims[n++] = ex_const(w->r.m, c->extent);
    else
      for (int i = 0; i < c->n; i++) dims[n++] = ex_const(w->r.m, c->parts[i]);
  }
  return type_get(w->r.m, t->dtype, n, dims);
}

/* Returns the new number of dimension d when `dim` is split. */
static int moved(int d, int dim, const Cut *c) { return d > dim && c->split ? d + c->n - 1 : d; }

/* The letters of a dot; part 0, 1: operands, 2: result. */
static const char *dot_part(const Op *op, int part, int *n) {
  const char *spec = op_str(op, AT_spec), *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  const char *start = part == 0 ? spec : part == 1 ? comma + 1 : arrow + 2;
  *n = (int)(part == 0 ? comma - spec : part == 1 ? arrow - comma - 1 : (long)strlen(arrow + 2));
  return start;
}

static int letter_dim(const Op *op, int part, char letter) {
  int n;
  const char *s = dot_part(op, part, &n), *at = memchr(s, letter, (size_t)n);
  return at ? (int)(at - s) : -1;
}

static int broadcast_source(const Op *op, int dim) {
  const Attr *dims = op_attr(op, AT_dims);
  for (int i = 0; i < dims->n; i++)
    if (dims->u.ints[i] == dim) return i;
  return -1;
}

/* ---- pushing: the test */

static bool can_push(const Views *w, Val v, int dim, const Cut *c) {
  const Op *op = def(w, v);
  const Type *t = type(w, v);
  if (new_rank(t, c) > MAX_RANK) return false;
  if (op->kind == OP_param) return module_param(w->r.m, op_str(op, AT_name))->init == INIT_BLOB;
  if (op_is_splat(op)) return true;
  if (!rewrite_is_here(&w->r, v)) return false; /* work from outside a loop would be repeated in every round */
  if (op_is_elementwise(op->kind)) {
    for (int i = 0; i < op->nin; i++)
      if (!can_push(w, op->in[i], dim, c)) return false;
    return true;
  }
  if (op->kind == OP_broadcast) {
    int i = broadcast_source(op, dim);
    return i < 0 || ex_is_const(type(w, op->in[0])->dims[i], 1) || can_push(w, op->in[0], i, c);
  }
  if (op->kind == OP_transpose) return can_push(w, op->in[0], (int)op_attr(op, AT_perm)->u.ints[dim], c);
  if (op->kind == OP_dot) {
    int n;
    char letter = dot_part(op, 2, &n)[dim];
    for (int i = 0; i < 2; i++) {
      int d = letter_dim(op, i, letter);
      if (d >= 0 && !can_push(w, op->in[i], d, c)) return false;
    }
    return true;
  }
  return false;
}

/* ---- pushing: building the cut value */

static Val push(Views *w, Val v, int dim, const Cut *c);

static const char *cut_name(const Views *w, const char *name, const Cut *c) {
  return c->split ? arena_printf(w->r.m->arena, "%s.heads", name)
                  : arena_printf(w->r.m->arena, "%s[%lld:%lld]", name, (long long)c->start,
                                 (long long)(c->start + c->extent));
}

static ParamOrigin origin_of(const Param *p) { return p->origin.name ? p->origin : (ParamOrigin){p->name, p->type, 0}; }

static Val push_param(Views *w, const Op *op, int dim, const Cut *c) {
  Module *m = w->r.m;
  const Param p = *module_param(m, op_str(op, AT_name));
  const Type *cut = cut_type(w, p.type, dim, c);
  const char *base = arena_printf(m->arena, "%s.%d", cut_name(w, p.name, c), dim), *name = base;
  /* A weight of several users may be split in several ways. */
  for (int i = 1; module_param(m, name) && module_param(m, name)->type != cut; i++)
    name = arena_printf(m->arena, "%s.%d", base, i);
  if (!module_param(m, name)) {
    Param *q = module_param_add(m, name, cut);
    const char *fresh = q->name;
    const Type *t = q->type;
    *q = p;
    q->name = fresh;
    q->type = t;
    q->origin = origin_of(&p);
    for (int d = 0; d < p.type->rank; d++) q->strides[moved(d, dim, c)] = p.strides[d];
    if (!c->split) q->origin.first += c->start * p.strides[dim];
    if (!c->split) q->offset += (uint64_t)(c->start * p.strides[dim]) * dtype_bytes(p.type->dtype);
    int64_t stride = p.strides[dim];
    for (int i = c->n - 1; c->split && i >= 0; i--) {
      q->strides[dim + i] = stride;
      stride *= c->parts[i];
    }
  }
  w->r.b.loc = op->loc;
  return build_param(&w->r.b, name);
}

static Val push_broadcast(Views *w, const Op *op, int dim, const Cut *c) {
  int source = broadcast_source(op, dim);
  const Attr *dims = op_attr(op, AT_dims);
  const Type *x = type(w, op->in[0]);
  bool stretched = source >= 0 && ex_is_const(x->dims[source], 1);
  Val in = source >= 0 && !stretched ? push(w, op->in[0], source, c) : op->in[0];
  int64_t map[MAX_RANK];
  int n = 0;
  for (int i = 0; i < x->rank; i++) {
    int64_t d = moved((int)dims->u.ints[i], dim, c);
    map[n++] = d;
    if (i == source && !stretched && c->split)
      for (int k = 1; k < c->n; k++) map[n++] = d + k;
  }
  Attr a = attr_ints(w->r.m, AT_dims, n, map);
  return build_op(&w->r.b, &(OpSpec){.kind = OP_broadcast,
                                     .name = cut_name(w, op->name, c),
                                     .loc = op->loc,
                                     .nin = 1,
                                     .in = &in,
                                     .nattrs = 1,
                                     .attrs = &a,
                                     .type = cut_type(w, type(w, op->out), dim, c)});
}

/* Writes the letters of one part with `letter` replaced by the letters of the split. */
static void spell(Text *t, const Op *op, int part, char letter, const char *by) {
  int n;
  const char *s = dot_part(op, part, &n);
  for (int i = 0; i < n; i++) {
    if (s[i] == letter) text_add(t, by);
    else text_addn(t, &s[i], 1);
  }
}

/* Returns as many letters that the spec does not use as the split has parts. */
static const char *fresh_letters(const Views *w, const Op *op, char letter, const Cut *c) {
  char *by = arena_alloc(w->r.m->arena, MAX_RANK + 1);
  int n = 0;
  by[n++] = letter;
  for (char l = 'a'; c->split && n < c->n && l <= 'z'; l++)
    if (!strchr(op_str(op, AT_spec), l)) by[n++] = l;
  return by;
}

static const char *spec_with(const Views *w, const Op *op, char letter, const char *by) {
  Text t = {.arena = w->r.m->arena};
  spell(&t, op, 0, letter, by);
  text_add(&t, ",");
  spell(&t, op, 1, letter, by);
  text_add(&t, "->");
  spell(&t, op, 2, letter, by);
  return text_str(&t);
}

static Val push_dot(Views *w, const Op *op, int dim, const Cut *c) {
  int n;
  char letter = dot_part(op, 2, &n)[dim];
  Val in[2];
  for (int i = 0; i < 2; i++) {
    int d = letter_dim(op, i, letter);
    in[i] = d >= 0 ? push(w, op->in[i], d, c) : op->in[i];
  }
  Attr a = attr_s(w->r.m, AT_spec, spec_with(w, op, letter, fresh_letters(w, op, letter, c)));
  return build_op(&w->r.b, &(OpSpec){.kind = OP_dot,
                                     .name = cut_name(w, op->name, c),
                                     .loc = op->loc,
                                     .nin = 2,
                                     .in = in,
                                     .nattrs = 1,
                                     .attrs = &a});
}

static Val push_transpose(Views *w, const Op *op, int dim, const Cut *c) {
  const Attr *perm = op_attr(op, AT_perm);
  int from = (int)perm->u.ints[dim];
  Val in = push(w, op->in[0], from, c);
  int64_t list[MAX_RANK];
  int n = 0;
  for (int d = 0; d < perm->n; d++) {
    int p = moved((int)perm->u.ints[d], from, c);
    list[n++] = p;
    for (int k = 1; d == dim && c->split && k < c->n; k++) list[n++] = p + k;
  }
  Attr a = attr_ints(w->r.m, AT_perm, n, list);
  return build_op(&w->r.b, &(OpSpec){.kind = OP_transpose,
                                     .name = cut_name(w, op->name, c),
                                     .loc = op->loc,
                                     .nin = 1,
                                     .in = &in,
                                     .nattrs = 1,
                                     .attrs = &a});
}

static Val push(Views *w, Val v, int dim, const Cut *c) {
  const Op copy = *def(w, v), *op = &copy; /* building may move the array of operations */
  if (op->kind == OP_param) return push_param(w, op, dim, c);
  if (op->kind == OP_broadcast) return push_broadcast(w, op, dim, c);
  if (op->kind == OP_dot) return push_dot(w, op, dim, c);
  if (op->kind == OP_transpose) return push_transpose(w, op, dim, c);
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = push(w, op->in[i], dim, c);
  OpSpec spec = op_spec_of(w->r.b.f, op);
  spec.name = cut_name(w, op->name, c);
  spec.group = NULL;
  spec.in = in;
  spec.type = cut_type(w, type(w, v), dim, c);
  return build_op(&w->r.b, &spec);
}

/* ---- operations that cut */

/* A slice of one dimension with constant bounds and step 1. */
static bool slice_cut(const Views *w, const Op *op, Val x, int *dim, Cut *c) {
  const Attr *starts = op_attr(op, AT_starts), *strides = op_attr(op, AT_strides);
  const Type *from = type(w, x), *to = type_of(w->r.old, op->out);
  int found = -1;
  for (int d = 0; d < from->rank; d++) {
    if (strides->u.ints[d] != 1) return false;
    if (from->dims[d] == to->dims[d] && ex_is_const(starts->u.exprs[d], 0)) continue;
    if (found >= 0) return false;
    found = d;
  }
  *c = (Cut){.split = false};
  *dim = found;
  return found >= 0 && ex_get_const(starts->u.exprs[found], &c->start) && ex_get_const(to->dims[found], &c->extent);
}

/* A reshape `from` -> `to` that only splits dimension *dim, into constant parts. */
static bool split_shape(const Type *from, const Type *to, int *dim, Cut *c) {
  int head = 0, tail = 0;
  while (head < from->rank && head < to->rank && from->dims[head] == to->dims[head]) head++;
  while (tail < from->rank - head && tail < to->rank - head &&
         from->dims[from->rank - 1 - tail] == to->dims[to->rank - 1 - tail])
    tail++;
  *c = (Cut){.split = true, .n = to->rank - head - tail};
  *dim = head;
  if (from->rank - head - tail != 1 || c->n < 2) return false;
  for (int i = 0; i < c->n; i++)
    if (!ex_get_const(to->dims[head + i], &c->parts[i]) || c->parts[i] < 1) return false;
  return true;
}

/* True if the cut is worth moving: it ends at a contraction with a weight or at a weight. */
static bool ends_at_weight(const Views *w, Val v) {
  const Op *op = def(w, v);
  if (op->kind == OP_param || op->kind == OP_dot) return true;
  if (!op_is_elementwise(op->kind) && op->kind != OP_broadcast && op->kind != OP_transpose) return false;
  for (int i = 0; i < op->nin; i++)
    if (ends_at_weight(w, op->in[i])) return true;
  return false;
}

/* True if v, an old value, comes from a contraction that is computed whole in any case.  `own`: its users other than
 * slices that lead to the slice in question. */
static bool computed_whole(const Views *w, Val v, int own) {
  const Op *op = op_of(w->r.old, v);
  bool dot = op->kind == OP_dot, slice = op->kind == OP_slice;
  if (dot && w->whole[v] > own) return true;
  if (dot || !(op_is_elementwise(op->kind) || op->kind == OP_broadcast || op->kind == OP_transpose || slice ||
               op->kind == OP_reshape))
    return false;
  for (int i = 0; i < op->nin; i++) /* If v is needed whole, so are its operands. */
    if (computed_whole(w, op->in[i], w->whole[v] > own ? -1 : slice ? 0 : 1)) return true;
  return false;
}

/* Counts the users of old values other than slices; outputs count. */
static int *count_whole(const Module *m, const Func *f) {
  int *n = ARENA_ARRAY(m->arena, int, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) n[f->ops.items[i].in[k]] += f->ops.items[i].kind != OP_slice;
  for (size_t i = 0; i < f->outputs.n; i++) n[f->outputs.items[i].value]++;
  return n;
}

/* transpose(weight): the same bytes with other strides. */
static Val transposed_param(Views *w, const Op *op, const Op *param) {
  Module *m = w->r.m;
  const Param p = *module_param(m, op_str(param, AT_name));
  const Attr *perm = op_attr(op, AT_perm);
  if (p.init != INIT_BLOB) return 0;
  Text t = {.arena = m->arena};
  text_printf(&t, "%s.perm", p.name);
  for (int d = 0; d < perm->n; d++) text_printf(&t, "%s%lld", d ? "," : "", (long long)perm->u.ints[d]);
  if (!module_param(m, text_str(&t))) {
    Param *q = module_param_add(m, text_str(&t), type_of(w->r.old, op->out));
    const char *name = q->name;
    const Type *type_ = q->type;
    *q = p;
    q->name = name;
    q->type = type_;
    q->origin = origin_of(&p);
    for (int d = 0; d < perm->n; d++) q->strides[d] = p.strides[perm->u.ints[d]];
  }
  w->r.b.loc = param->loc;
  return build_param(&w->r.b, text_str(&t));
}

/* dot(merge(x), W) with the merged dimension contracted: dot(x, split W). */
static Val split_contraction(Views *w, const Op *op, const Val in[2]) {
  for (int side = 0; side < 2; side++) {
    const Op *merge = def(w, in[side]);
    Cut c;
    int dim, n;
    if (merge->kind != OP_reshape || !split_shape(type(w, in[side]), type(w, merge->in[0]), &dim, &c)) continue;
    char letter = dot_part(op, side, &n)[dim];
    int other = letter_dim(op, 1 - side, letter);
    if (other < 0 || letter_dim(op, 2, letter) >= 0 || !can_push(w, in[1 - side], other, &c)) continue;
    if (def(w, in[1 - side])->kind != OP_param) continue;
    Val fresh[2];
    fresh[side] = merge->in[0];
    fresh[1 - side] = push(w, in[1 - side], other, &c);
    OpSpec spec = op_spec_of(w->r.old, op);
    Attr a = attr_s(w->r.m, AT_spec, spec_with(w, op, letter, fresh_letters(w, op, letter, &c)));
    spec.attrs = &a;
    spec.in = fresh;
    return build_op(&w->r.b, &spec);
  }
  return 0;
}

static Val try_view(Views *w, const Op *op) {
  int dim;
  Cut c;
  Val x = op->nin ? w->r.map[op->in[0]] : 0;
  if (op->kind == OP_slice && slice_cut(w, op, x, &dim, &c) && ends_at_weight(w, x) && can_push(w, x, dim, &c) &&
      !computed_whole(w, op->in[0], 0))
    return push(w, x, dim, &c);
  if (op->kind == OP_reshape && split_shape(type(w, x), type_of(w->r.old, op->out), &dim, &c) && ends_at_weight(w, x) &&
      can_push(w, x, dim, &c))
    return push(w, x, dim, &c);
  if (op->kind == OP_transpose && def(w, x)->kind == OP_param) return transposed_param(w, op, def(w, x));
  if (op->kind == OP_dot) return split_contraction(w, op, (Val[]){x, w->r.map[op->in[1]]});
  return 0;
}

static bool views(Module *m, const Func *f, Diags *diags) {
  Views w = {rewrite_start(m, f, diags), diags, count_whole(m, f)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Val v = op->out ? try_view(&w, op) : 0;
    if (v) w.r.map[op->out] = v;
    else if (!rewrite_copy(&w.r, op)) return false;
  }
  rewrite_finish(&w.r);
  return true;
}

bool pass_views(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !views(m, m->funcs.items[k], diags)) return false;
  return true;
}
