/* tools/verify_training.c - see verify_training.h. */
#include "tools/verify_training.h"

#include <math.h>
#include <string.h>

/* Returns the error of a gradient's element relative to the norm of all gradients, with a margin for long sums. */
static double nothing(const Tool *t) { return compute_storage(tool_compute(t)) == DT_bf16 ? 0x1p-10 : 1e-6; }

static double number(const Tensors *list, const char *name) {
  const Tensor *x = tensors_find(list, name);
  return x && dtype_is_float(x->dtype) ? dtype_load_f(x->dtype, x->data) : NAN;
}

/* Returns the trained weight of a state, and in *moment the moment that the state is ("" for the weight); NULL if
 * neither. */
static const State *weight_of(const TrainedStep *s, const char *name, const char **moment) {
  for (size_t i = 0; i < s->m->states.n; i++) {
    const State *w = &s->m->states.items[i];
    size_t n = strlen(w->name);
    if (!w->param || strncmp(w->name, name, n) != 0 || (name[n] && name[n] != ':')) continue;
    *moment = name[n] ? name + n + 1 : "";
    return w;
  }
  return NULL;
}

/* Returns the first moment of a weight; NULL if the optimizer keeps none. */
static const Tensor *first_moment(const Tool *t, const TrainedStep *s, const State *w) {
  const Tensor *m = tensors_find(s->states, arena_printf(t->arena, "%s:m", w->name));
  return m ? m : tensors_find(s->states, arena_printf(t->arena, "%s:momentum", w->name));
}

static double at(const Tensor *x, size_t i) {
  return dtype_load_f(x->dtype, (const char *)x->data + i * dtype_bytes(x->dtype));
}

static void forget(Tensor *x, size_t i) { dtype_store_f(x->dtype, (char *)x->data + i * dtype_bytes(x->dtype), 0); }

static bool copy(const Tensor *x, Tensor *out) {
  if (!tensor_alloc(out, x->dtype, x->rank, x->dims)) return false;
  memcpy(out->data, x->data, x->bytes);
  return true;
}

Difference compare_trained(const Tool *t, const TrainedStep *step, const char *name, const Tensor *x, const Tensor *y) {
  const char *moment = "";
  const State *w = weight_of(step, name, &moment);
  double all = number(step->results, "grad_norm"), lr = number(step->results, "lr");
  Difference plain = compare(t, x, y);
  if (plain.ok || !w || !isfinite(all) || x->bytes != y->bytes || x->dtype != y->dtype) return plain;
  const Tensor *m = first_moment(t, step, w);
  double noise = nothing(t) * all, size = !*moment ? lr : strcmp(moment, "v") == 0 ? noise : 1;
  Tensor a = {0}, b = {0};
  if (copy(x, &a) && copy(y, &b))
    for (size_t i = 0; i < x->bytes / dtype_bytes(x->dtype); i++) {
      double apart = fabs(at(x, i) - at(y, i));
      bool none = m && m->bytes == x->bytes && fabs(at(m, i)) <= noise;
      if (apart <= noise * size || (none && apart <= 4 * (*moment ? noise : lr))) forget(&a, i), forget(&b, i);
    }
  if (a.data && b.data && compare(t, &a, &b).ok) plain.ok = true;
  tensor_free(&a);
  tensor_free(&b);
  return plain;
}
