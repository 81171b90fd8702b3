/* ir/device.c - see device.h. */
#include "ir/device.h"

#include <string.h>

#define TYPE_BIT(type) (1u << DT_##type)

enum {
  TRAITS = 0
#define TRAIT(type, name) +1
#include "ir/device.def"
};

/* The number of initialisers, at most 24.  Catches a row that omits a trait, which would silently be 0. */
#define NUMBER_OF(...) \
  NUMBER_OF_(__VA_ARGS__, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define NUMBER_OF_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, number, ...) number
#define DEVICE(id, word, brief, ...) \
  _Static_assert(NUMBER_OF(__VA_ARGS__) == TRAITS, "the row of " #id " does not name every trait once");
#include "ir/device.def"

static const DeviceTraits devices[DEVICE_KINDS] = {
#define DEVICE(id, word, brief, ...) {.kind = DEVICE_##id, .name = #word, __VA_ARGS__},
#include "ir/device.def"
};

const DeviceTraits *target_device_traits(DeviceKind kind) { return &devices[kind]; }

const DeviceTraits *target_device_traits_find(const char *name) {
  for (int i = 0; i < DEVICE_KINDS; i++)
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  return NULL;
}
