/* ir/device.c - see device.h. */
#include "ir/device.h"

#include <string.h>

#define TYPE_BIT(type) (1u << DT_##type)

static const DeviceTraits devices[DEVICE_KINDS] = {
#define DEVICE(id, word, brief, ...) {DEVICE_##id, #word, __VA_ARGS__},
#include "ir/device.def"
#undef DEVICE
};

const DeviceTraits *target_device_traits(DeviceKind kind) { return &devices[kind]; }

const DeviceTraits *target_device_traits_find(const char *name) {
  for (int i = 0; i < DEVICE_KINDS; i++)
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  return NULL;
}
