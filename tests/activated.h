/* tests/activated.h - applies an epilogue's activation to a number, in doubles. */
#ifndef APC_TESTS_ACTIVATED_H
#define APC_TESTS_ACTIVATED_H

#include <math.h>

#include "program/epilogue.h"

static inline double activated(Activation a, double v) {
  double s = 1 / (1 + exp(-v));
  return a == ACT_relu      ? fmax(v, 0)
         : a == ACT_relu6   ? fmin(fmax(v, 0), 6)
         : a == ACT_sigmoid ? s
         : a == ACT_silu    ? v * s
         : a == ACT_tanh    ? tanh(v)
                            : v;
}

#endif
