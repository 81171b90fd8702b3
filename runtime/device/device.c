/* runtime/device/device.c - see device.h. */
#include "runtime/device/device.h"

#include <string.h>

#define DEVICE(name) extern const DeviceOps device_##name;
#include "runtime/device/devices.def"
#undef DEVICE

static const DeviceOps *const devices[] = {
#define DEVICE(name) &device_##name,
#include "runtime/device/devices.def"
#undef DEVICE
};

const DeviceOps *devices_find(const char *name) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    if (strcmp(devices[i]->name, name) == 0) return devices[i];
  return NULL;
}
