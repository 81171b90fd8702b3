/* ir/print.c - IR as text; the grammar is in docs/ir.md and the reader in parse.c. */
#include <string.h>

#include "ir/schedule.h"
#include "ir/shares.h"

static bool plain_name(const char *s) {
  if (!*s) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= '-' && *s <= ':') || (*s >= 'A' && *s <= 'Z') || *s == '_' || *s == '$'))
      return false; /* between - and : are . and / and digits */
  return true;
}

static void print_value(Text *t, const char *name) {
  text_add(t, "%");
  if (plain_name(name)) text_add(t, name);
  else text_quoted(t, name);
}

static void print_axis(const Module *m, Text *t, int64_t axis) {
  text_add(t, axis >= 0 && axis < m->mesh.naxes ? m->mesh.axes[axis].name : "?");
}

void attr_print(const Module *m, Text *t, const Attr *a) {
  text_add(t, attr_name(a->key)), text_add(t, "=");
  AttrKind k = attr_kind(a->key);
  switch (k) {
    case AK_INT: text_int(t, a->u.i); return;
    case AK_FLOAT: text_double(t, a->u.f); return;
    case AK_STR: text_quoted(t, a->u.s); return;
    case AK_EXPR: ex_print(m, t, a->u.e); return;
    case AK_DTYPE: text_add(t, dtype_name(a->u.dtype)); return;
    case AK_REDUCTION: text_add(t, reduction_name(a->u.reduction)); return;
    case AK_AXIS: print_axis(m, t, a->u.i); return;
    default: break;
  }
  text_add(t, "[");
  for (int i = 0; i < a->n; i++) {
    if (i) text_add(t, ", ");
    if (k == AK_INTS) text_int(t, a->u.ints[i]);
    else if (k == AK_FLOATS) text_double(t, a->u.floats[i]);
    else if (k == AK_EXPRS) ex_print(m, t, a->u.exprs[i]);
    else if (k == AK_STRS) text_quoted(t, a->u.strs[i]);
    else print_axis(m, t, a->u.ints[i]);
  }
  text_add(t, "]");
}

static void print_loc(Text *t, const Loc *loc) {
  if (!loc->file && !loc->node) return;
  text_add(t, " loc");
  if (loc->file) {
    text_add(t, " ");
    text_quoted(t, loc->file);
    if (loc->line > 0) text_printf(t, " %d:%d", loc->line, loc->col);
  }
  if (loc->node) {
    text_add(t, " node ");
    text_quoted(t, loc->node);
  }
}

void op_print(const Module *m, Text *t, const Func *f, const Op *op) {
  if (op->out) {
    for (Val v = op->out; v < op_end(op); v++) {
      if (v > op->out) text_add(t, ", ");
      print_value(t, name_of(f, v));
    }
    text_add(t, " = "), text_add(t, op_name(op->kind));
  } else {
    text_add(t, op_name(op->kind)), text_add(t, " ");
    text_quoted(t, op->name);
  }
  for (int i = 0; i < op->nin; i++) {
    text_add(t, i ? ", " : " ");
    print_value(t, name_of(f, op->in[i]));
  }
  for (int i = 0; i < op->nattrs; i++) {
    text_add(t, i ? ", " : " {");
    attr_print(m, t, &op->attrs[i]);
  }
  if (op->nattrs) text_add(t, "}");
  if (op->out) {
    for (Val v = op->out; v < op_end(op); v++) {
      text_add(t, v > op->out ? ", " : " : ");
      type_print(m, t, type_of(f, v));
    }
    const Layout *layout = f->values.items[op->out].layout;
    if (layout) {
      text_add(t, " @");
      layout_print(m, t, layout);
    }
  }
  if (op->stage) text_printf(t, " stage %d", op->stage);
  if (op->phase) text_add(t, " "), text_add(t, phase_name(op->phase));
  if (op->again) text_add(t, " again");
  if (op->group != op->name) {
    text_add(t, " group ");
    text_quoted(t, op->group);
  }
  if (op->mirror.name) {
    text_add(t, " mirror ");
    text_quoted(t, op->mirror.name);
    if (op->mirror.operand == MIRROR_SUM) text_add(t, " sum");
    if (op->mirror.operand == MIRROR_APART) text_add(t, " apart");
    if (op->mirror.operand >= 0) text_printf(t, " of %d", op->mirror.operand);
  }
  print_loc(t, &op->loc);
}

void func_print(const Module *m, Text *t, const Func *f) {
  text_printf(t, "func @%s level %d {\n", f->name, f->level);
  for (size_t i = 0; i < f->ops.n; i++) {
    text_add(t, "  ");
    op_print(m, t, f, &f->ops.items[i]);
    text_add(t, "\n");
  }
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *o = &f->outputs.items[i];
    text_add(t, "  output ");
    text_quoted(t, o->name);
    text_add(t, " ");
    print_value(t, name_of(f, o->value));
    if (o->layout) {
      text_add(t, " @");
      layout_print(m, t, o->layout);
    }
    text_add(t, "\n");
  }
  text_add(t, "}\n");
}

static void print_mesh(Text *t, const Mesh *mesh) {
  if (!mesh->naxes && mesh->stages == 1) return;
  text_add(t, "mesh [");
  for (int a = 0; a < mesh->naxes; a++) {
    text_printf(t, "%s%s=%d%s", a ? ", " : "", mesh->axes[a].name, mesh->axes[a].size,
                mesh->axes[a].temporal ? " time" : "");
    mesh_shares_print(t, &mesh->axes[a]);
  }
  text_add(t, "]");
  if (mesh->stages > 1) text_printf(t, " stages %d", mesh->stages);
  if (mesh->schedule) text_printf(t, " schedule %s", schedule_text(t->arena, mesh->schedule, mesh->chunks));
  text_add(t, "\n");
}

static void print_symbol(const Module *m, Text *t, const Symbol *s) {
  if (s->axis >= 0) return; /* coordinates are printed with the mesh */
  text_printf(t, "symbol %s", s->name);
  if (s->min) text_printf(t, " min %lld", (long long)s->min);
  if (s->max) text_printf(t, " max %lld", (long long)s->max);
  if (s->multiple > 1) text_printf(t, " multiple %lld", (long long)s->multiple);
  if (s->hint) text_printf(t, " hint %lld", (long long)s->hint);
  if (s->most) text_add(t, " most "), ex_print(m, t, s->most);
  text_add(t, "\n");
}

static void print_origin(const Module *m, Text *t, const ParamOrigin *o) {
  text_add(t, " of ");
  text_quoted(t, o->name);
  text_add(t, " : ");
  type_print(m, t, o->type);
  text_printf(t, " first %lld", (long long)o->first);
}

static void print_param(const Module *m, Text *t, const Param *p) {
  text_add(t, "param ");
  text_quoted(t, p->name);
  text_add(t, " : ");
  type_print(m, t, p->type);
  text_add(t, " = ");
  switch (p->init) {
    case INIT_ZEROS: text_add(t, "zeros"); break;
    case INIT_PREPARED: text_add(t, "prepared"); break;
    case INIT_CONSTANT: text_add(t, "constant "), text_double(t, p->value); break;
    case INIT_NORMAL:
      text_add(t, "normal "), text_double(t, p->value), text_printf(t, " seed %lld", (long long)p->seed);
      break;
    case INIT_UNIFORM:
      text_add(t, "uniform "), text_double(t, p->value), text_printf(t, " seed %lld", (long long)p->seed);
      break;
    case INIT_BLOB:
      text_printf(t, "blob %d offset %llu strides [", p->blob, (unsigned long long)p->offset);
      for (int d = 0; d < p->type->rank; d++) text_printf(t, "%s%lld", d ? ", " : "", (long long)p->strides[d]);
      text_add(t, "]");
      if (p->origin.name) print_origin(m, t, &p->origin);
      break;
  }
  if (!p->trainable) text_add(t, " buffer");
  print_loc(t, &p->loc);
  text_add(t, "\n");
}

void module_print(const Module *m, Text *t) {
  text_add(t, "apc.ir 1\n");
  for (size_t i = 0; i < m->symbols.n; i++) print_symbol(m, t, &m->symbols.items[i]);
  print_mesh(t, &m->mesh);
  for (size_t i = 0; i < m->blobs.n; i++) {
    text_add(t, "blob ");
    text_quoted(t, m->blobs.items[i].path);
    text_printf(t, " bytes %llu\n", (unsigned long long)m->blobs.items[i].bytes);
  }
  for (size_t i = 0; i < m->params.n; i++) print_param(m, t, &m->params.items[i]);
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    text_add(t, "state ");
    text_quoted(t, s->name);
    text_add(t, " : ");
    type_print(m, t, s->type);
    text_add(t, " = ");
    if (s->param) text_add(t, "param "), text_quoted(t, s->param);
    else text_double(t, s->value);
    text_add(t, s->away ? " away\n" : "\n");
  }
  for (size_t i = 0; i < m->funcs.n; i++) func_print(m, t, m->funcs.items[i]);
}
