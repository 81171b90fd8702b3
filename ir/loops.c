/* ir/loops.c - see loops.h. */
#include "ir/loops.h"

#include "base/die.h"

static size_t count_loops(const Func *f) {
  size_t n = 0;
  for (size_t i = 0; i < f->ops.n; i++) n += f->ops.items[i].kind == OP_loop;
  return n;
}

Loops loops_of(Arena *arena, const Func *f) {
  Loops l = {0, ARENA_ARRAY(arena, Loop, count_loops(f)), ARENA_ARRAY(arena, int, f->ops.n)};
  int open = -1;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_loop) {
      l.items[l.n] = (Loop){.parent = open, .depth = open < 0 ? 0 : l.items[open].depth + 1, .begin = i, .body = i + 1};
      open = l.n++;
    }
    if (open < 0 && (op->kind == OP_carry || op->kind == OP_repeat))
      die("@%s: %s %s outside of a loop", f->name, op_name(op->kind), op->name);
    l.of[i] = open;
    if (op->kind == OP_carry) l.items[open].ncarries++, l.items[open].body++;
    if (op->kind != OP_repeat) continue;
    l.items[open].repeat = i;
    l.items[open].end = i + 1 + (size_t)l.items[open].ncarries;
    open = l.items[open].parent;
  }
  if (open >= 0) die("@%s: loop %s does not end", f->name, f->ops.items[l.items[open].begin].name);
  return l;
}

int loops_reads_in(const Loops *l, const Func *f, size_t op) {
  const Op *o = &f->ops.items[op];
  if (o->kind == OP_loop || o->kind == OP_carry) return l->items[l->of[op]].parent;
  return o->kind == OP_leave ? l->of[f->values.items[o->in[0]].op] : l->of[op];
}

const Expr *loops_rounds(Module *m, const Func *f, const Loop *l) {
  const Op *op = &f->ops.items[l->begin], *count = op_of(f, op->in[0]);
  const Expr *trips = op_expr(op, AT_trips);
  if (trips || f->ops.items[l->repeat].nin > 1) return trips;
  if (count->kind == OP_size) return op_expr(count, AT_expr);
  if (count->kind != OP_const) return NULL;
  const Attr *ints = op_attr(count, AT_ints);
  return ex_const(m, ints ? ints->u.ints[0] : (int64_t)op_float(count, AT_value, 1));
}

bool loops_within(const Loops *l, int inner, int outer) {
  while (inner >= 0 && inner != outer) inner = l->items[inner].parent;
  return inner == outer;
}

int loops_entered(const Loops *l, int inner, int outer) {
  int entered = -1;
  for (; inner >= 0 && inner != outer; inner = l->items[inner].parent) entered = inner;
  return inner == outer ? entered : -1;
}

size_t loops_behind(const Loops *l, const Func *f, size_t op) {
  int in = f->ops.items[op].kind == OP_leave ? loops_reads_in(l, f, op) : l->of[op];
  return in < 0 ? op : l->items[loops_entered(l, in, -1)].end - 1;
}

size_t *loops_last_uses(Arena *arena, const Func *f, const Loops *l) {
  size_t *last = ARENA_ARRAY(arena, size_t, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (Val v = op->out; v < op_end(op); v++) last[v] = i;
    for (int k = 0; k < op->nin; k++) {
      int entered = loops_entered(l, loops_reads_in(l, f, i), l->of[f->values.items[op->in[k]].op]);
      size_t use = entered < 0 ? i : l->items[entered].end - 1;
      if (use > last[op->in[k]]) last[op->in[k]] = use;
    }
  }
  for (size_t i = 0; i < f->outputs.n; i++) last[f->outputs.items[i].value] = SIZE_MAX;
  return last;
}
