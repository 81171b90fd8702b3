/* frontend/onnx/import_mel.c - MelWeightMatrix: triangular filters, evenly spaced in mels, over the bins of a spectrum.
 *
 * All five inputs must be constants, so the matrix is one: [spectrum bins, filters].  The corners are whole bins, as
 * the standard has them.
 */
#include <math.h>

#include "frontend/onnx/import_private.h"

enum { MOST_WEIGHTS = 1 << 20 };

/* Fills the column of one filter, between bins lower, centre and upper. */
static void fill_filter(double *weights, int64_t filters, int64_t filter, const int64_t *corner, int64_t bins) {
  int64_t lower = corner[0], centre = corner[1], upper = corner[2];
  if (centre == lower && centre >= 0 && centre < bins) weights[centre * filters + filter] = 1;
  for (int64_t j = lower < 0 ? 0 : lower; j <= centre && j < bins && centre > lower; j++)
    weights[j * filters + filter] = (double)(j - lower) / (double)(centre - lower);
  for (int64_t j = centre < 0 ? 0 : centre; j < upper && j < bins; j++)
    weights[j * filters + filter] = (double)(upper - j) / (double)(upper - centre);
}

bool import_mel_weights(ImportNode *n) {
  static const char *const names[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                      "upper_edge_hertz"};
  double v[5];
  int count;
  DType type = DT_f32;
  if (has_attr(n, "output_datatype") && !node_dtype(n, "output_datatype", &type)) return false;
  for (size_t i = 0; i < 5; i++) {
    if (!input_doubles(n, i, names[i], 1, &v[i], &count)) return false;
    if (count != 1) return node_error(n, "%s has %d elements", names[i], count);
  }
  if (!(v[0] >= 1 && v[1] >= 1 && v[2] >= 1 && v[3] >= 0 && v[4] > v[3] && v[0] < MOST_WEIGHTS && v[1] < MOST_WEIGHTS))
    return node_error(n, "%g filters over %g bins at %g Hz from %g to %g Hz do not fit", v[0], v[1], v[2], v[3], v[4]);
  int64_t filters = (int64_t)v[0], bins = (int64_t)v[1] / 2 + 1;
  if (filters * bins > MOST_WEIGHTS) return node_error(n, "the matrix has more than %d elements", MOST_WEIGHTS);
  double low = 2595 * log10(1 + v[3] / 700), step = (2595 * log10(1 + v[4] / 700) - low) / (double)(filters + 2);
  int64_t *corners = ARENA_ARRAY(n->m->arena, int64_t, filters + 2);
  double *weights = ARENA_ARRAY(n->m->arena, double, filters *bins);
  for (int64_t i = 0; i < filters + 2; i++)
    corners[i] = (int64_t)floor((v[1] + 1) * (700 * (pow(10, ((double)i * step + low) / 2595) - 1)) / v[2]);
  for (int64_t i = 0; i < filters; i++) fill_filter(weights, filters, i, corners + i, bins);
  Attr a = {.key = AT_floats, .n = (int)(filters * bins), .u.floats = weights};
  const Type *t = type_of_ints(n->m, DT_f32, 2, (int64_t[]){bins, filters});
  Val x = build_op(n->b, &(OpSpec){.kind = OP_const, .type = t, .nattrs = 1, .attrs = &a});
  return import_set_output(n, 0, x ? build_cast(n->b, x, type) : 0);
}
