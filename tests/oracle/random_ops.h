/* tests/oracle/random_ops.h - small random functions and targets to plan: square matrices, so that all operands fit; a
 * Random draws the same on all machines. */
#ifndef APC_TESTS_ORACLE_RANDOM_OPS_H
#define APC_TESTS_ORACLE_RANDOM_OPS_H

#include <math.h>

#include "ir/ir.h"
#include "ir/target.h"

enum { MAX_OPS = 40 };

typedef struct Random {
  uint64_t state;
} Random;

static inline uint32_t below(Random *r, uint32_t n) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(((r->state >> 33) * (uint64_t)n) >> 31);
}

static inline double uniform(Random *r, double low, double high) {
  return low * pow(high / low, below(r, 1000001) / 1e6);
}

static inline const Type *square(Module *m, int64_t n) { return type_of_ints(m, DT_f32, 2, (int64_t[]){n, n}); }

/* Weights that may still be added, and their number. */
typedef struct Weights {
  int room, n;
} Weights;

/* One result of an operation with two, or both. */
static inline Val sorted(Builder *b, Random *r, Val x, int64_t size) {
  Attr a[] = {attr_i(AT_axis, 0), attr_i(AT_descending, 1), attr_e(AT_k, ex_const(b->m, size))};
  Val v = build_op(b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
  return below(r, 2) ? v : build_binary(b, OP_add, v, build_cast(b, v + 1, DT_f32));
}

static inline Val random_op(Builder *b, Random *r, const Val *values, int n, Weights *w, int64_t size) {
  Val x = values[n - 1 - (int)below(r, n < 4 ? (uint32_t)n : 4)], y = values[below(r, (uint32_t)n)];
  switch (below(r, 11)) {
    case 0: return build_unary(b, OP_relu, x);
    case 1: return below(r, 2) ? build_unary(b, OP_neg, x) : sorted(b, r, x, size);
    case 2: return build_binary(b, OP_add, x, y);
    case 3: return build_binary(b, OP_mul, x, y);
    case 4: return build_transpose(b, x, (int[]){1, 0});
    case 5: {
      Val product = build_dot(b, x, y, "ab,bc->ac"); /* on GPUs the next one joins it */
      return below(r, 2) ? build_unary(b, OP_relu, product) : build_binary(b, OP_add, x, product);
    }
    case 6: {
      Attr a = attr_i(AT_axis, 1);
      return build_op(b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &a});
    }
    case 7: {
      Val sum = build_reduce(b, RED_SUM, x, 1, (int[]){0});
      return build_bcast_to(b, sum, 2, type_of(b->f, x)->dims);
    }
    case 8:
      return build_concat(b, 2,
                          (Val[]){build_slice(b, x, 0, ex_const(b->m, 0), ex_const(b->m, 2), 1),
                                  build_slice(b, y, 0, ex_const(b->m, 2), ex_const(b->m, size - 2), 1)},
                          0);
    default: break;
  }
  if (!w->room) return build_unary(b, OP_tanh, x);
  w->room--;
  const char *name = arena_printf(b->m->arena, "w%d", w->n++);
  module_param_add(b->m, name, square(b->m, size));
  return build_dot(b, x, build_param(b, name), below(r, 2) ? "ab,bc->ac" : "ab,cb->ac");
}

static inline Func *random_graph(Module *m, Random *r, int64_t size, int most, Diags *d) {
  Func *f = module_func_add(m, "main", 1);
  Builder b = builder_new(m, f, d);
  Val values[MAX_OPS];
  Weights w = {3, 0};
  int n = 0;
  values[n++] = build_input(&b, "x", square(m, size));
  while ((int)f->ops.n < most) values[n] = random_op(&b, r, values, n, &w, size), n++;
  build_output(&b, "y", values[n - 1], NULL);
  if (below(r, 2)) build_output(&b, "z", values[below(r, (uint32_t)n)], NULL);
  return f;
}

static inline Target random_target(Random *r, int ranks) {
  Target t = {.name = "random",
              .device = target_device_traits(r->state >> 40 & 1 ? DEVICE_cuda : DEVICE_cpu),
              .ranks = ranks,
              .nodes = 1,
              .memory_bytes = 1e12,
              .memory_bandwidth = uniform(r, 1e6, 1e9),
              .launch = uniform(r, 1e-9, 1e-6),
              .ntiers = 1};
  for (int i = 0; i < CT_COUNT; i++) t.flops[i] = uniform(r, 1e6, 1e9);
  t.tiers[0] = (TargetTier){
      .name = "link", .group = ranks, .bandwidth = uniform(r, 1e6, 1e9), .latency = uniform(r, 1e-9, 1e-6)};
  return t;
}

#endif
