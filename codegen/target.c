/* codegen/target.c - see target.h. */
#include "codegen/target.h"

#define DEVICE(id, ...) extern const KernelTarget kernel_target_##id; /* codegen/NAME/target.c */
#include "ir/device.def"
#undef DEVICE

const KernelTarget *kernel_target(const DeviceTraits *d) {
  static const KernelTarget *const targets[DEVICE_KINDS] = {
#define DEVICE(id, ...) &kernel_target_##id,
#include "ir/device.def"
#undef DEVICE
  };
  return targets[d->kind];
}

void kernel_image_free(KernelImage *image) {
  if (image->map.data) file_unmap(&image->map);
  *image = (KernelImage){0};
}
