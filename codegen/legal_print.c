/* codegen/legal_print.c - legalised entries as text (legal.h): IR of level 2 in which the device performs every
 * operation as it is, and remarks about the calls of its library.
 *
 * In: the level-2 function of an entry, legalised stage by stage; here convolutions stay separate from their epilogues,
 * and attentions from the joins they perform, since IR cannot express either.  Out: a function of the same module with
 * the operations of all stages, each stage's in its order; a stage waits for values that another has not sent yet.  A
 * sum of narrow floats that is continued in f32 is written with the implied casts, a sum over micro-batches unchanged.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/legal.h"
#include "codegen/rows/row_work.h"

typedef struct Stage {
  const Work *work;
  size_t next; /* the first operation not yet written */
  Val *temps;  /* by temporary: its value in the new function */
} Stage;

typedef struct Writing {
  Builder b;
  const Func *old;
  Val *map; /* by value of the old function */
  int n;
  Stage *stages;
} Writing;

static Val *place_of(const Writing *w, const Stage *s, Val v) {
  return v < w->old->values.n ? &w->map[v] : &s->temps[v - w->old->values.n];
}

static Val cast(Writing *w, const Op *op, Val x, DType to) {
  Attr a = attr_dtype(AT_to, to);
  return build_op(&w->b, &(OpSpec){.kind = OP_cast,
                                   .name = arena_printf(w->b.m->arena, "%s.cast", op->name),
                                   .loc = op->loc,
                                   .stage = op->stage,
                                   .nin = 1,
                                   .in = &x,
                                   .nattrs = 1,
                                   .attrs = &a});
}

/* Writes partial sums of narrow floats, which are kept in f32; IR's reduce cannot express that. */
static Val write_reduce(Writing *w, const Op *op, OpSpec *spec, DType from, DType to) {
  Val x = from == to || dtype_bytes(from) > dtype_bytes(to) ? spec->in[0] : cast(w, op, spec->in[0], to);
  spec->in = &x, spec->type = NULL;
  Val sum = build_op(&w->b, spec);
  return from != to && dtype_bytes(from) > dtype_bytes(to) ? cast(w, op, sum, to) : sum;
}

/* Turns an addition to a sum over micro-batches into `accumulate`. */
static Op accumulated(const Op *add) {
  Op op = *add;
  op.kind = OP_accumulate, op.nin = 1, op.in = add->in + 1;
  return op;
}

static void write_op(Writing *w, Stage *s, const Op *op, Phase phase) {
  const Work *work = s->work;
  Op sum;
  if (op->kind == OP_accumulate && !op->nin) return; /* the initial value of a sum */
  if (op->kind == OP_add && work_sum_start(work, op->out)) sum = accumulated(op), op = &sum;
  bool made = op->out >= w->old->values.n; /* by legalising */
  Val in[MAX_OPERANDS], *out = op->out ? place_of(w, s, op->out) : NULL;
  if (out && *out) return; /* a source of several stages, or received from another stage */
  for (int i = 0; i < op->nin; i++) {
    in[i] = *place_of(w, s, op->in[i]);
    if (!in[i]) die("legal_func: %s reads a value that was not written", op->name);
  }
  OpSpec spec = {.kind = op->kind,
                 .name = made ? arena_printf(w->b.m->arena, "%s.%s", op->name, op_name(op->kind)) : op->name,
                 .group = op->group,
                 .loc = op->loc,
                 .stage = op->stage,
                 .phase = phase,
                 .nin = op->nin,
                 .in = in,
                 .nattrs = op->nattrs,
                 .attrs = op->attrs,
                 .type = op->out ? work_type(work, op->out) : NULL,
                 .layout = op->out && !made ? w->old->values.items[op->out].layout : NULL,
                 .names = made ? NULL : op->names};
  Val v = op->kind == OP_reduce ? write_reduce(w, op, &spec, work_type(work, op->in[0])->dtype, spec.type->dtype)
                                : build_op(&w->b, &spec);
  if (!v) die("legal_func: %s is not an operation of level 2", op->name);
  for (int i = 0; i < op->nout; i++) *place_of(w, s, op->out + (Val)i) = v + (Val)i;
}

/* True if any operation was written. */
static bool write_stage(Writing *w, Stage *s) {
  size_t first = s->next;
  for (; s->next < s->work->ops.n; s->next++) {
    const WorkOp *o = &s->work->ops.items[s->next];
    bool arrives = o->op->kind == OP_transfer && o->op->stage != s->work->stage;
    if (arrives && !*place_of(w, s, o->op->out)) break;
    if (o->live && !arrives) write_op(w, s, o->op, o->phase);
  }
  return s->next > first;
}

/* Declares states that are only written, by a read. */
static void write_reads(Writing *w) {
  for (size_t i = 0; i < w->old->ops.n; i++)
    if (w->old->ops.items[i].kind == OP_read)
      write_op(w, &w->stages[0], &w->old->ops.items[i], w->old->ops.items[i].phase);
}

static Func *legal_func(const Legal *l, const LegalBody *bodies, Diags *diags) {
  Module *m = l->source.m;
  const Func *old = bodies->entry->l2;
  int n = m->mesh.stages;
  Func *f = ARENA_NEW(m->arena, Func);
  f->name = arena_printf(m->arena, "%s.legal", bodies->entry->name);
  f->level = 2;
  ARENA_PUSH(m->arena, &f->values, ((Value){NULL, -1, NULL}));
  Writing w = {.b = builder_new(m, f, diags),
               .old = old,
               .map = ARENA_ARRAY(m->arena, Val, old->values.n),
               .n = n,
               .stages = ARENA_ARRAY(m->arena, Stage, n)};
  for (int s = 0; s < n; s++) {
    const Work *work = work_new(m, old, s, l->source.device, false);
    w.stages[s] = (Stage){.work = work, .temps = ARENA_ARRAY(m->arena, Val, work->temps.n + 1)};
  }
  write_reads(&w);
  for (bool any = true; any;) {
    any = false;
    for (int s = 0; s < n; s++) any |= write_stage(&w, &w.stages[s]);
  }
  for (size_t i = 0; i < old->outputs.n; i++) {
    const Output *o = &old->outputs.items[i];
    build_output(&w.b, o->name, w.map[o->value], o->layout);
  }
  return f;
}

/* ---- remarks */

static void print_number(const Module *m, Text *t, const char *label, const Expr *e) {
  text_printf(t, " %s ", label);
  ex_print(m, t, e);
}

static void print_epilogue(Text *t, Epilogue e) {
  if (epilogue_any(e)) text_add(t, ", joined by");
  program_epilogue_text(t, e);
  text_add(t, "\n");
}

static void print_gemm(const Module *m, Text *t, const WorkOp *o, DType type) {
  const GemmUnit *g = o->gemm;
  text_printf(t, "# %s is a product of the library: %s,", o->op->name, dtype_name(type));
  for (int i = 0; i < g->nbatch; i++) print_number(m, t, "batch", g->batch[i]);
  print_number(m, t, "m", g->m), print_number(m, t, "n", g->n), print_number(m, t, "k", g->k);
  print_epilogue(t, g->epilogue);
}

static void print_conv(const Work *w, Text *t, const WorkOp *o) {
  text_printf(t, "# %s is a convolution of %s", o->conv->op->name, w->device->blocks ? "the library" : "a kernel");
  print_epilogue(t, o->conv->epilogue);
}

static void print_few(const Module *m, Text *t, const WorkOp *o, DType type) {
  const FewUnit *f = o->few;
  text_printf(t, "# %s is a kernel of %d product%s of few rows: %s,", o->op->name, f->n, f->n > 1 ? "s" : "",
              dtype_name(type));
  print_number(m, t, "m", f->product[0]->m), print_number(m, t, "k", f->product[0]->k);
  for (int i = 0; i < f->n; i++) print_number(m, t, "n", f->product[i]->n);
  text_add(t, f->norm ? ", of a norm" : "");
  text_add(t, f->gated ? ", gated" : f->function || f->silu ? ", with a function" : "");
  print_epilogue(t, f->product[0]->epilogue);
}

static void print_cache(Text *t, const WorkOp *o) {
  text_printf(t, "# %s is a kernel of %d rotations and updates of caches\n", o->op->name, o->cache->nfollow + 1);
}

static void print_grow(const Work *w, Text *t, const WorkOp *o) {
  const GrowUnit *g = o->grow;
  if (!g->n) text_printf(t, "# %s reads the first of longer keys or values in place\n", g->op->name);
  if (!g->n) return;
  text_printf(t, "# %s joins", g->op->name);
  for (int i = 0; i < g->n; i++) text_printf(t, "%s %s", i ? " and" : "", name_of(w->f, g->whole[i]));
  text_add(t, " while it reads\n");
}

static void print_remarks(const Module *m, Text *t, const LegalBody *b) {
  for (size_t i = 0; i < b->work->ops.n; i++) {
    const WorkOp *o = &b->work->ops.items[i];
    if (o->gemm) print_gemm(m, t, o, work_type(b->work, o->op->out)->dtype);
    if (o->conv) print_conv(b->work, t, o);
    if (o->few) print_few(m, t, o, work_type(b->work, o->op->out)->dtype);
    if (o->cache) print_cache(t, o);
    if (o->grow) print_grow(b->work, t, o);
  }
}

void codegen_legal_add_funcs(const Legal *l, Module *m, Text *remarks, Diags *diags) {
  for (int i = 0; i < l->n; i += m->mesh.stages) {
    ARENA_PUSH(m->arena, &m->funcs, legal_func(l, &l->bodies[i], diags));
    for (int s = 0; s < m->mesh.stages; s++) print_remarks(m, remarks, &l->bodies[i + s]);
  }
}
