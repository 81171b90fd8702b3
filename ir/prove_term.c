/* ir/prove_term.c - see prove_term.h. */
#include "ir/prove_term.h"

#include <string.h>

#include "ir/body.h"

Terms *terms_new(Module *m) {
  Terms *t = ARENA_NEW(m->arena, Terms);
  t->m = m;
  return t;
}

/* ---- two maps keyed by interned text (pointer identity) */

static size_t slot_of(const char *const *keys, size_t cap, const char *key) {
  size_t i = (((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u) & (cap - 1);
  while (keys[i] && keys[i] != key) i = (i + 1) & (cap - 1);
  return i;
}

static Term term_get(Terms *t, const char *text) {
  const char *key = module_string(t->m, text);
  if (2 * (t->by_key.n + 1) > t->by_key.cap) {
    size_t cap = t->by_key.cap ? t->by_key.cap * 2 : 256;
    const char **keys = ARENA_ARRAY(t->m->arena, const char *, cap);
    uint32_t *values = ARENA_ARRAY(t->m->arena, uint32_t, cap);
    for (size_t i = 0; i < t->by_key.cap; i++)
      if (t->by_key.keys[i]) {
        size_t s = slot_of(keys, cap, t->by_key.keys[i]);
        keys[s] = t->by_key.keys[i];
        values[s] = t->by_key.values[i];
      }
    t->by_key.keys = keys;
    t->by_key.values = values;
    t->by_key.cap = cap;
  }
  size_t s = slot_of(t->by_key.keys, t->by_key.cap, key);
  if (!t->by_key.keys[s]) {
    t->by_key.keys[s] = key;
    t->by_key.values[s] = ++t->count;
    t->by_key.n++;
  }
  return t->by_key.values[s];
}

static const char *args_key(const Terms *t, OpKind kind, int n, const Term *args) {
  Text text = {.arena = t->m->arena};
  text_printf(&text, "%s(", op_name(kind));
  for (int i = 0; i < n; i++) text_printf(&text, "%u,", args[i]);
  return module_string(t->m, text_str(&text));
}

static void add_fact(Terms *t, const Func *f, const Op *op, Term term, const Term *args) {
  const char *key = args_key(t, op->kind, op->nin, args);
  if (2 * (t->by_args.n + 1) > t->by_args.cap) {
    size_t cap = t->by_args.cap ? t->by_args.cap * 2 : 256;
    const char **keys = ARENA_ARRAY(t->m->arena, const char *, cap);
    Fact **values = ARENA_ARRAY(t->m->arena, Fact *, cap);
    for (size_t i = 0; i < t->by_args.cap; i++)
      if (t->by_args.keys[i]) {
        size_t s = slot_of(keys, cap, t->by_args.keys[i]);
        keys[s] = t->by_args.keys[i];
        values[s] = t->by_args.values[i];
      }
    t->by_args.keys = keys;
    t->by_args.values = values;
    t->by_args.cap = cap;
  }
  size_t s = slot_of(t->by_args.keys, t->by_args.cap, key);
  if (!t->by_args.keys[s]) {
    t->by_args.keys[s] = key;
    t->by_args.n++;
  }
  for (const Fact *have = t->by_args.values[s]; have; have = have->next)
    if (have->term == term && type_of(have->f, have->op->out) == type_of(f, op->out)) return; /* one witness per extent is enough */
  Fact *fact = ARENA_NEW(t->m->arena, Fact);
  *fact = (Fact){f, op, term, t->by_args.values[s]};
  t->by_args.values[s] = fact;
}

const Fact *terms_facts(const Terms *t, OpKind kind, int n, const Term *args) {
  if (!t->by_args.cap) return NULL;
  const char *key = args_key(t, kind, n, args);
  size_t s = slot_of(t->by_args.keys, t->by_args.cap, key);
  return t->by_args.keys[s] ? t->by_args.values[s] : NULL;
}

/* ---- identity of an operation: kind, attributes, what of the extents matters, arguments */

static void key_extent(Terms *t, Text *text, const Type *type, int64_t d) {
  ex_print(t->m, text, type->dims[d]);
  text_add(text, ";");
}

/* The extents the value of an element depends on: those that are reduced, indexed or joined over. */
static void key_extents(Terms *t, Text *text, const Func *f, const Op *op) {
  const Type *x = op->nin ? type_of(f, op->in[0]) : NULL;
  int64_t axis = op_int(op, AT_axis, 0);
  switch (op->kind) {
    case OP_reduce:
      for (int i = 0; i < op_attr(op, AT_axes)->n; i++) key_extent(t, text, x, op_attr(op, AT_axes)->u.ints[i]);
      return;
    case OP_dot: {
      const char *spec = op_str(op, AT_spec), *result = strstr(spec, "->") + 2;
      for (int d = 0; d < x->rank; d++)
        if (!strchr(result, spec[d])) key_extent(t, text, x, d);
      for (int d = 0; d < type_of(f, op->in[1])->rank; d++)
        if (!strchr(result, strchr(spec, ',')[1 + d])) key_extent(t, text, type_of(f, op->in[1]), d);
      return;
    }
    case OP_gather: key_extent(t, text, x, axis); return;
    case OP_update: key_extent(t, text, type_of(f, op->in[1]), axis); return;
    case OP_concat:
      for (int i = 0; i < op->nin; i++) key_extent(t, text, type_of(f, op->in[i]), axis);
      return;
    case OP_pad:
      for (int d = 0; d < x->rank; d++) {
        bool padded = !ex_is_const(op_attr(op, AT_low)->u.exprs[d], 0) || !ex_is_const(op_attr(op, AT_high)->u.exprs[d], 0);
        if (padded) key_extent(t, text, x, d);
      }
      return;
    case OP_reshape: type_print(t->m, text, x); type_print(t->m, text, type_of(f, op->out)); return;
    case OP_const:
      if (!op_attr(op, AT_value)) type_print(t->m, text, type_of(f, op->out));
      return;
    default: return;
  }
}

static Term identify(Terms *t, const Func *f, const Op *op, const Term *args) {
  Text text = {.arena = t->m->arena};
  const Type *y = op->out ? type_of(f, op->out) : NULL;
  text_printf(&text, "%s/%d/%s{", op_name(op->kind), y ? y->rank : 0, y ? dtype_name(y->dtype) : "");
  for (int i = 0; i < op->nattrs; i++) {
    attr_print(t->m, &text, &op->attrs[i]);
    text_add(&text, ",");
  }
  if (op->kind == OP_broadcast) {
    const Type *x = type_of(f, op->in[0]);
    for (int i = 0; i < x->rank; i++) text_add(&text, x->dims[i] == y->dims[op_attr(op, AT_dims)->u.ints[i]] ? "=" : "*");
  }
  key_extents(t, &text, f, op);
  text_add(&text, "}");
  for (int i = 0; i < op->nin; i++) text_printf(&text, ",%u", args[i]);
  return term_get(t, text_str(&text));
}

Term *terms_of_func(Terms *t, const Func *f, const Term *inputs) {
  Term *terms = ARENA_ARRAY(t->m->arena, Term, f->values.n);
  int next_input = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Term args[MAX_OPERANDS];
    for (int k = 0; k < op->nin; k++) args[k] = terms[op->in[k]];
    if (op->kind == OP_input && inputs) {
      terms[op->out] = inputs[next_input++];
    } else if (op->kind == OP_copy) {
      terms[op->out] = args[0];
    } else if (op->kind == OP_write) {
      ARENA_PUSH(t->m->arena, &t->writes, ((Written){op_str(op, AT_name), args[0]}));
    } else if (op_is_composite(op->kind)) {
      const Func *body = body_of(t->m, f, op);
      terms[op->out] = terms_of_func(t, body, args)[body->outputs.items[0].value];
    } else if (op->kind == OP_call) {
      const Func *callee = module_func(t->m, op_str(op, AT_name));
      terms[op->out] = terms_of_func(t, callee, args)[callee->outputs.items[0].value];
    } else {
      terms[op->out] = identify(t, f, op, args);
      add_fact(t, f, op, terms[op->out], args);
    }
  }
  return terms;
}
