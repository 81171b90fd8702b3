/* proof/prove_term.c - see prove_term.h. */
#include "proof/prove_term.h"

#include <string.h>

#include "ir/layout/body.h"
#include "ir/window.h"

Terms *terms_new(Module *m) {
  Terms *t = ARENA_NEW(m->arena, Terms);
  t->m = m;
  return t;
}

/* ---- two maps keyed by interned text (pointer identity) */

static KeySlot *slot_of(const KeyMap *map, const char *key) {
  size_t i = (((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u) & (map->cap - 1);
  while (map->slots[i].key && map->slots[i].key != key) i = (i + 1) & (map->cap - 1);
  return &map->slots[i];
}

/* Returns the slot of the key; adds it if missing. */
static KeySlot *slot_get(const Terms *t, KeyMap *map, const char *key) {
  if (2 * (map->n + 1) > map->cap) {
    KeyMap old = *map;
    map->cap = old.cap ? old.cap * 2 : 256;
    map->slots = ARENA_ARRAY(t->m->arena, KeySlot, map->cap);
    for (size_t i = 0; i < old.cap; i++)
      if (old.slots[i].key) *slot_of(map, old.slots[i].key) = old.slots[i];
  }
  KeySlot *slot = slot_of(map, key);
  if (!slot->key) {
    slot->key = key;
    map->n++;
  }
  return slot;
}

static Term term_get(Terms *t, const char *text) {
  KeySlot *slot = slot_get(t, &t->by_key, module_string(t->m, text));
  if (!slot->term) slot->term = ++t->count;
  return slot->term;
}

static const char *args_key(const Terms *t, OpKind kind, int n, const Term *args) {
  Text text = {.arena = t->m->arena};
  text_printf(&text, "%s(", op_name(kind));
  for (int i = 0; i < n; i++) text_printf(&text, "%u,", args[i]);
  return module_string(t->m, text_str(&text));
}

static bool same_types(const Fact *have, const Func *f, const Op *op) {
  bool same = have->op->nout == op->nout;
  for (int i = 0; same && i < op->nout; i++)
    same = type_of(have->f, have->op->out + (Val)i) == type_of(f, op->out + (Val)i);
  for (int i = 0; i < op->nin; i++) same &= type_of(have->f, have->op->in[i]) == type_of(f, op->in[i]);
  return same;
}

static void add_fact(Terms *t, const Func *f, const Op *op, const Term *terms, const Term *args) {
  const char *key = args_key(t, op->kind, op->nin, args);
  KeySlot *slot = slot_get(t, &t->by_args, key);
  for (const Fact *have = slot->facts; have; have = have->next)
    if (have->terms[0] == terms[0] && same_types(have, f, op)) return; /* one operation per extent is enough */
  Fact *fact = ARENA_NEW(t->m->arena, Fact);
  *fact = (Fact){.f = f, .op = op, .next = slot->facts};
  memcpy(fact->terms, terms, sizeof *terms * (size_t)op->nout);
  slot->facts = fact;
}

const Fact *terms_facts(const Terms *t, OpKind kind, int n, const Term *args) {
  return t->by_args.cap ? slot_of(&t->by_args, args_key(t, kind, n, args))->facts : NULL;
}

/* ---- identity of an operation: kind, attributes, the extents that matter, arguments */

static void key_extent(Terms *t, Text *text, const Type *type, int64_t d) {
  ex_print(t->m, text, type->dims[d]);
  text_add(text, ";");
}

/* Adds the summed letters of both operands. */
static void key_sums(Terms *t, Text *text, const Func *f, const Op *op) {
  const char *s = op_str(op, AT_spec), *result = strstr(s, "->") + 2;
  for (int i = 0; i < 2; i++, s++)
    for (int d = 0; *s != ',' && *s != '-'; s++, d++)
      if (!strchr(result, *s)) key_extent(t, text, type_of(f, op->in[i]), d);
}

/* Adds the operands' extents along the window, and the letters that a convolution sums. */
static void key_windows(Terms *t, Text *text, const Func *f, const Op *op) {
  Window w = window_of(f, op);
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < w.n; i++)
      if (w.role[r] >= 0) key_extent(t, text, type_of(f, op->in[w.role[r]]), w.dim[r][i]);
  if (op->kind != OP_pool && op->kind != OP_pool_grad) key_sums(t, text, f, op);
}

void reshape_group(Module *m, const Type *x, const Type *y, int *i, int *j) {
  int first = *i;
  const Expr *a = ex_const(m, 1), *b = ex_const(m, 1);
  do { /* grow the smaller side until the products agree */
    bool left = *j == y->rank || (*i < x->rank && (a == b ? *i == first : ex_exact_div(m, b, a) != NULL));
    if (left && *i == x->rank) left = false;
    if (left) a = ex_mul(m, a, x->dims[(*i)++]);
    else b = ex_mul(m, b, y->dims[(*j)++]);
  } while (a != b && (*i < x->rank || *j < y->rank));
}

/* Adds the extents of a group after the first one above 1: an element's position does not depend on the first. */
static void key_group(Terms *t, Text *text, const Type *x, int from, int to) {
  bool first = true;
  for (int d = from; d < to; d++) {
    if (ex_is_const(x->dims[d], 1)) text_add(text, "1;");
    else if (first) first = false, text_add(text, "*;");
    else key_extent(t, text, x, d);
  }
}

static void key_reshape(Terms *t, Text *text, const Type *x, const Type *y) {
  for (int i = 0, j = 0; i < x->rank || j < y->rank;) {
    int i0 = i, j0 = j;
    reshape_group(t->m, x, y, &i, &j);
    key_group(t, text, x, i0, i);
    text_add(text, ">");
    key_group(t, text, y, j0, j);
    text_add(text, "/");
  }
}

/* Adds the extents on which the value of an element depends: dimensions that are reduced, indexed or joined. */
static void key_extents(Terms *t, Text *text, const Func *f, const Op *op) {
  const Type *x = op->nin ? type_of(f, op->in[0]) : NULL;
  int64_t axis = op_int(op, AT_axis, 0);
  switch (op->kind) {
    case OP_reduce:
      for (int i = 0; i < op_attr(op, AT_axes)->n; i++) key_extent(t, text, x, op_attr(op, AT_axes)->u.ints[i]);
      return;
    case OP_dot: key_sums(t, text, f, op); return;
    case OP_gather:
    case OP_take:
    case OP_argsort:
    case OP_topk:
    case OP_scan:
    case OP_put: key_extent(t, text, x, axis); return;
    case OP_grouped_dot:
    case OP_grouped_mlp: /* groups, and the summed dimensions */
      for (int i = 2; i < op->nin; i++)
        for (int d = 0; d < 2; d++) key_extent(t, text, type_of(f, op->in[i]), d);
      return;
    case OP_scatter:
      for (int d = 0; d < type_of(f, op->in[1])->rank; d++) key_extent(t, text, type_of(f, op->in[1]), d);
      return;
    case OP_update: key_extent(t, text, type_of(f, op->in[1]), axis); return;
    case OP_concat:
      for (int i = 0; i < op->nin; i++) key_extent(t, text, type_of(f, op->in[i]), axis);
      return;
    case OP_pad:
      for (int d = 0; d < x->rank; d++) {
        bool padded =
            !ex_is_const(op_attr(op, AT_low)->u.exprs[d], 0) || !ex_is_const(op_attr(op, AT_high)->u.exprs[d], 0);
        if (padded) key_extent(t, text, x, d);
      }
      return;
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter:
    case OP_pool:
    case OP_pool_grad: key_windows(t, text, f, op); return;
    case OP_reshape: key_reshape(t, text, x, type_of(f, op->out)); return;
    case OP_opaque:
      for (int i = 0; i < op->nin; i++) type_print(t->m, text, type_of(f, op->in[i]));
      type_print(t->m, text, type_of(f, op->out));
      return;
    case OP_const:
      if (!op_attr(op, AT_value)) type_print(t->m, text, type_of(f, op->out));
      return;
    default: return;
  }
}

/* Returns the term of one result; results of an operation differ only in their number. */
static Term identify(Terms *t, const Func *f, const Op *op, int result, const Term *args) {
  Text text = {.arena = t->m->arena};
  const Type *y = op->out ? type_of(f, op->out) : NULL;
  text_printf(&text, "%s/%d/%s{", op_name(op->kind), y ? y->rank : 0, y ? dtype_name(y->dtype) : "");
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].key == AT_checked) continue; /* concerns the check of indices, not the value */
    attr_print(t->m, &text, &op->attrs[i]);
    text_add(&text, ",");
  }
  if (op->kind == OP_broadcast) {
    const Type *x = type_of(f, op->in[0]);
    for (int i = 0; i < x->rank; i++)
      text_add(&text, x->dims[i] == y->dims[op_attr(op, AT_dims)->u.ints[i]] ? "=" : "*");
  }
  key_extents(t, &text, f, op);
  text_add(&text, "}");
  if (result) text_printf(&text, "#%d", result);
  for (int i = 0; i < op->nin; i++) text_printf(&text, ",%u", args[i]);
  return term_get(t, text_str(&text));
}

/* ---- loops */

Term term_of_round(Terms *t, int depth) { return term_get(t, arena_printf(t->m->arena, "round %d", depth)); }

Term term_of_carry(Terms *t, int depth, int number, const Type *global) {
  Text text = {.arena = t->m->arena};
  text_printf(&text, "carry %d.%d ", depth, number);
  type_print(t->m, &text, global);
  return term_get(t, text_str(&text));
}

static Term term_of_leave(Terms *t, const LoopTerms *l, int number) {
  Text text = {.arena = t->m->arena};
  text_printf(&text, "leave %d.%d ", l->depth, number);
  if (l->trips) ex_print(t->m, &text, l->trips);
  text_printf(&text, ",%u,%u", l->count, l->again);
  for (int k = 0; k < l->ncarries; k++) {
    text_add(&text, ",");
    type_print(t->m, &text, l->types[k]);
    text_printf(&text, ",%u,%u", l->inits[k], l->nexts[k]);
  }
  return term_get(t, text_str(&text));
}

/* Ends the innermost loop: its parts are known now, and so are the terms of its leaves. */
static void leave_loop(Terms *t, const Func *f, const Loop *loop, Term *terms) {
  Arena *arena = t->m->arena;
  const Op *ops = f->ops.items, *begin = &ops[loop->begin], *repeat = &ops[loop->repeat];
  int n = loop->ncarries;
  LoopTerms l = {.depth = --t->depth,
                 .ncarries = n,
                 .trips = op_expr(begin, AT_trips),
                 .count = terms[begin->in[0]],
                 .again = repeat->nin > 1 ? terms[repeat->in[1]] : 0,
                 .types = ARENA_ARRAY(arena, const Type *, n),
                 .inits = ARENA_ARRAY(arena, Term, n),
                 .nexts = ARENA_ARRAY(arena, Term, n),
                 .leaves = ARENA_ARRAY(arena, Term, n)};
  for (int k = 0; k < n; k++) {
    const Op *carry = begin + 1 + k, *leave = repeat + 1 + k;
    l.types[k] = type_of(f, carry->out);
    l.inits[k] = terms[carry->in[0]];
    l.nexts[k] = terms[leave->in[1]];
  }
  for (int k = 0; k < n; k++) terms[repeat[1 + k].out] = l.leaves[k] = term_of_leave(t, &l, k);
  ARENA_PUSH(arena, &t->loops, l);
}

/* Returns the term that a weight stands for; 0 if itself. */
static Term defined_param(const Terms *t, const Op *op) {
  for (size_t i = 0; op->kind == OP_param && i < t->defined.n; i++)
    if (strcmp(t->defined.items[i].name, op_str(op, AT_name)) == 0) return t->defined.items[i].term;
  return 0;
}

Term *terms_of_func(Terms *t, const Func *f, const Term *inputs) {
  Loops loops = loops_of(t->m->arena, f);
  Term *terms = ARENA_ARRAY(t->m->arena, Term, f->values.n);
  const Term **inner = ARENA_ARRAY(t->m->arena, const Term *, f->values.n); /* of calls: the terms of the callee */
  int next_input = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Term args[MAX_OPERANDS];
    for (int k = 0; k < op->nin; k++) args[k] = terms[op->in[k]];
    if (op->kind == OP_input && inputs) {
      terms[op->out] = inputs[next_input++];
    } else if (op->kind == OP_copy || op->kind == OP_accumulate || op->kind == OP_within || op->kind == OP_bind) {
      terms[op->out] = args[0];
      if (op->kind == OP_bind) ARENA_PUSH(t->m->arena, &t->binds, ((BoundTerm){op_expr(op, AT_expr), args[0]}));
    } else if (defined_param(t, op)) {
      terms[op->out] = defined_param(t, op);
    } else if (op->kind == OP_write) {
      ARENA_PUSH(t->m->arena, &t->writes, ((Written){op_str(op, AT_name), args[0]}));
    } else if (op_is_composite(op->kind)) {
      const Func *body = body_of(t->m, f, op);
      const Term *inside = terms_of_func(t, body, args);
      for (int k = 0; k < op->nout; k++) terms[op->out + (Val)k] = inside[body->outputs.items[k].value];
      if (op->kind == OP_softmax) note_softmax(t, terms[op->out]);
    } else if (op->kind == OP_call) {
      const Func *callee = module_func(t->m, op_str(op, AT_name));
      inner[op->out] = terms_of_func(t, callee, args);
      terms[op->out] = inner[op->out][callee->outputs.items[0].value];
    } else if (op->kind == OP_result) {
      const Func *callee = module_func(t->m, op_str(op_of(f, op->in[0]), AT_name));
      terms[op->out] = inner[op->in[0]][callee->outputs.items[op_int(op, AT_index, 0)].value];
    } else if (op->kind == OP_loop) {
      terms[op->out] = term_of_round(t, t->depth++);
    } else if (op->kind == OP_carry) {
      terms[op->out] =
          term_of_carry(t, t->depth - 1, (int)(i - loops.items[loops.of[i]].begin) - 1, type_of(f, op->out));
    } else if (op->kind == OP_repeat) {
      leave_loop(t, f, &loops.items[loops.of[i]], terms);
    } else if (op->kind == OP_leave) {
      continue;
    } else {
      for (int k = 0; k < op->nout; k++) {
        terms[op->out + (Val)k] = identify(t, f, op, k, args);
        note_term(t, f, op, k, args, terms[op->out + (Val)k]);
      }
      add_fact(t, f, op, &terms[op->out], args);
    }
  }
  return terms;
}
