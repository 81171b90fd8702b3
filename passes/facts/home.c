/* passes/facts/home.c - see home.h. */
#include "passes/facts/home.h"

#include "ir/named.h"

/* An operation that makes gradients and reads a value; `of`: the operation that it is the derivative of. */
typedef struct Reader {
  size_t of;
  const struct Reader *next;
} Reader;

typedef struct Homes {
  const Func *f;
  const bool *derived;
  size_t *of; /* by operation: the operation that it is the derivative of; SIZE_MAX if none */
  size_t *home;
  const Reader **readers; /* by operation that makes the value */
} Homes;

static bool is_forward(const Op *op) { return !op->mirror.name && op->phase <= PH_fwd; }

static size_t maker(const Func *f, Val v) { return (size_t)f->values.items[v].op; }

/* Places the read of a weight with the first operation of the forward pass that reads the weight. */
static void find_homes_of_reads(const Homes *w) {
  const Func *f = w->f;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < op->nin && is_forward(op); k++)
      if (op_is_source(f->ops.items[maker(f, op->in[k])].kind)) w->home[maker(f, op->in[k])] = i;
  }
}

/* Returns the last home of the operands; i itself if no operand decides. */
static size_t behind_operands(const Homes *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  size_t last = SIZE_MAX;
  for (int k = 0; k < op->nin; k++) {
    size_t made = maker(w->f, op->in[k]);
    if (op_is_source(w->f->ops.items[made].kind) || w->derived[made]) continue;
    if (last == SIZE_MAX || w->home[made] > last) last = w->home[made];
  }
  return last == SIZE_MAX ? i : last;
}

/* A sum of the gradients from several users of a value.  It is in the earliest of their stages, so that each stage adds
 * its own part and passes one sum to the stage before. */
static bool is_sum_of_users(const Op *op) { return op->kind == OP_add && op->mirror.operand == MIRROR_SUM; }

static size_t with_first_operand(const Homes *w, size_t i) {
  size_t first = SIZE_MAX;
  for (int k = 0; k < w->f->ops.items[i].nin; k++) {
    size_t home = w->home[maker(w->f, w->f->ops.items[i].in[k])];
    if (home < first) first = home;
  }
  return first;
}

static void find_readers(Homes *w, Arena *a) {
  const Func *f = w->f;
  w->readers = ARENA_ARRAY(a, const Reader *, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    size_t of = w->of[i];
    for (int k = 0; k < op->nin && of < i; k++) {
      size_t made = maker(f, op->in[k]);
      if (of >= made) continue;
      Reader *r = ARENA_NEW(a, Reader);
      *r = (Reader){of, w->readers[made]};
      w->readers[made] = r;
    }
  }
}

/* A gradient may read another form of its operation's operand or result, for example an output in another type.  That
 * form is placed with the operation, because no stage may receive it from a later one.  Returns i itself if no gradient
 * reads it, or if its operands are later anyway. */
static size_t with_derivatives(const Homes *w, size_t i) {
  size_t first = i;
  for (const Reader *r = w->readers[i]; r; r = r->next)
    if (w->home[r->of] < first) first = w->home[r->of];
  return first < i && behind_operands(w, i) <= first ? first : i;
}

const size_t *homes_of(Arena *a, const Func *f, const bool *derived) {
  bool any = false;
  for (size_t i = 0; i < f->ops.n; i++) any |= f->ops.items[i].mirror.name != NULL;
  if (!any) return NULL;
  const NamedOps names = named_ops(a, f);
  Homes w = {f, derived, ARENA_ARRAY(a, size_t, f->ops.n + 1), ARENA_ARRAY(a, size_t, f->ops.n + 1), NULL};
  for (size_t i = 0; i < f->ops.n; i++) {
    const char *name = f->ops.items[i].mirror.name;
    w.of[i] = name ? named_op(&names, name) : SIZE_MAX;
    w.home[i] = i;
  }
  find_homes_of_reads(&w);
  find_readers(&w, a);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (w.of[i] < i) w.home[i] = is_sum_of_users(op) ? with_first_operand(&w, i) : w.home[w.of[i]];
    else if (!is_forward(op) && !op_is_source(op->kind)) w.home[i] = behind_operands(&w, i);
    else if (!op_is_source(op->kind)) w.home[i] = with_derivatives(&w, i);
  }
  return w.home;
}
