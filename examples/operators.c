/* examples/operators.c - a library of two operators that apc does not know (docs/guide/operators.md).
 *
 *   cc -O3 -march=native -shared -fPIC -Iprogram examples/operators.c -o operators.so
 *
 * my.Softcap: x.. -> x..                           cap * tanh(x / cap); attribute cap
 * my.Distances: b.. k, n k -> b.. n; sum: k        squared distances of the rows of x from the rows of c */
#include <apc_operator.h>
#include <math.h>

int my_Softcap(const ApcOpCall *call) {
  const ApcOpTensor *x = &call->inputs[0];
  const float *from = x->data;
  float *to = call->outputs[0].data;
  const float cap = (float)apc_op_number(call, "cap", 30);
  if (x->type != APC_OP_F32) return apc_op_fail(call, "elements must be f32");
  if (!(cap > 0)) return apc_op_fail(call, "cap is %g, not above 0", (double)cap);
  for (int64_t i = 0; i < x->elements; i++) to[i] = cap * tanhf(from[i] / cap);
  return 0;
}

typedef struct Distances {
  const float *x, *c;
  float *y;
  int64_t n, k;
} Distances;

static void row_of_distances(int64_t row, void *data) {
  const Distances *d = data;
  const float *x = d->x + row * d->k;
  for (int64_t n = 0; n < d->n; n++) {
    const float *c = d->c + n * d->k;
    float sum = 0;
    for (int64_t k = 0; k < d->k; k++) sum += (x[k] - c[k]) * (x[k] - c[k]);
    d->y[row * d->n + n] = sum;
  }
}

int my_Distances(const ApcOpCall *call) {
  const ApcOpTensor *x = &call->inputs[0], *c = &call->inputs[1];
  Distances d = {x->data, c->data, call->outputs[0].data, c->extents[0], c->extents[1]};
  if (x->type != APC_OP_F32 || c->type != APC_OP_F32) return apc_op_fail(call, "elements must be f32");
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < x->rank; i++) rows *= x->extents[i];
  call->parallel(rows, row_of_distances, &d);
  return 0;
}
