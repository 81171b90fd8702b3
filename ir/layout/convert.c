/* ir/layout/convert.c - the cost of moves in bytes, and the operations of a conversion; convert_path.c searches for the
 * cheapest one. */
#include "ir/layout/convert.h"

#include <string.h>

#include "base/die.h"

static const char *const names[MOVE_KINDS] = {"slice",          "all_gather", "all_to_all", "all_reduce",
                                              "reduce_scatter", "mask",       "exchange",   "relabel"};
const char *move_name(MoveKind k) { return names[k]; }

/* ---- sizes for pricing */

static int64_t hint_of(const Symbol *s) {
  if (s->hint) return s->hint;
  return strcmp(s->name, "batch") == 0 ? 8 : 128;
}

static double extent_hint(const Module *m, const Expr *e) {
  double r = 0;
  if (e->kind == EX_CONST) return (double)e->value;
  if (e->kind == EX_SYM) return (double)hint_of(&m->symbols.items[e->value]);
  for (int i = 0; i < e->n; i++) {
    double a = extent_hint(m, e->args[i]);
    if (i == 0) r = a;
    else if (e->kind == EX_MUL) r *= a;
    else if (e->kind == EX_ADD) r += a;
    else if (e->kind == EX_DIV) r /= a;
    else r = (e->kind == EX_MIN) == (a < r) ? a : r;
  }
  return e->kind == EX_MUL ? r * (double)e->value : e->kind == EX_ADD ? r + (double)e->value : r;
}

double layout_bytes(const Module *m, const Type *global, const Layout *l) {
  double bytes = (double)dtype_bytes(global->dtype);
  for (int d = 0; d < global->rank; d++)
    bytes *= extent_hint(m, global->dims[d]) / (double)layout_parts(&m->mesh, &l->dims[d]);
  return bytes;
}

double move_cost_bytes(void *context, const Module *m, const Type *global, const Move *move) {
  (void)context;
  const double latency = 4096, local = 1;
  double before = layout_bytes(m, global, move->before), after = layout_bytes(m, global, move->after), n = 1;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (move->axes & (1u << a)) n *= m->mesh.axes[a].size;
  double share = (n - 1) / n;
  switch (move->kind) {
    case MOVE_ALL_GATHER: return latency + after * share;
    case MOVE_ALL_TO_ALL: return latency + before * share;
    case MOVE_ALL_REDUCE: return latency + 2 * before * share;
    case MOVE_REDUCE_SCATTER: return latency + before * share;
    case MOVE_EXCHANGE: return latency + before;
    case MOVE_MASK: return local + before / 1024;
    case MOVE_SLICE: return local + after / 1024;
    default: return 0;
  }
}

/* ---- emission */

static void interval(Builder *b, const Type *global, const Layout *l, int dim, const Expr *out[2]) {
  layout_interval(b->m, &l->dims[dim], global->dims[dim], &out[0], &out[1]);
}

static Attr axes_attr(Builder *b, uint32_t axes) {
  int64_t list[MAX_AXES];
  int n = 0;
  for (int a = 0; a < b->m->mesh.naxes; a++)
    if (axes & (1u << a)) list[n++] = a;
  return attr_ints(b->m, AT_mesh_axes, n, list);
}

static Val emit_move(Builder *b, Val v, const Type *global, const Move *move) {
  Attr attrs[4];
  const Expr *before[2], *after[2];
  OpSpec spec = {.nin = 1, .in = &v, .attrs = attrs, .type = layout_local_type(b->m, global, move->after)};
  spec.name = arena_printf(b->m->arena, "%s.%s", op_of(b->f, v)->name, move_name(move->kind));
  switch (move->kind) {
    case MOVE_RELABEL: return v;
    case MOVE_SLICE:
      interval(b, global, move->before, move->dim, before);
      interval(b, global, move->after, move->dim, after);
      spec.kind = OP_shard_slice;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_e(AT_start, ex_sub(b->m, after[0], before[0]));
      break;
    case MOVE_ALL_GATHER:
      spec.kind = OP_all_gather;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      break;
    case MOVE_ALL_TO_ALL:
      spec.kind = OP_all_to_all;
      attrs[spec.nattrs++] = attr_i(AT_split, move->dim2);
      attrs[spec.nattrs++] = attr_i(AT_concat, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      break;
    case MOVE_ALL_REDUCE:
      spec.kind = OP_all_reduce;
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_red(AT_op, move->before->partial);
      break;
    case MOVE_REDUCE_SCATTER:
      spec.kind = OP_reduce_scatter;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      attrs[spec.nattrs++] = attr_red(AT_op, move->before->partial);
      break;
    case MOVE_MASK:
      spec.kind = OP_mask_partial;
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_red(AT_op, move->after->partial);
      break;
    case MOVE_EXCHANGE:
      interval(b, global, move->before, move->dim, before);
      interval(b, global, move->after, move->dim, after);
      spec.kind = OP_exchange;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_exprs(b->m, AT_source, 2, before);
      attrs[spec.nattrs++] = attr_exprs(b->m, AT_target, 2, after);
      break;
    case MOVE_KINDS: die("no such move");
  }
  return build_op(b, &spec);
}

Val convert_emit(Builder *b, Val v, const Type *global, const Conversion *c) {
  for (int i = 0; i < c->n && v; i++) v = emit_move(b, v, global, &c->moves[i]);
  return v;
}
