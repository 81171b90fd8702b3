/* codegen/target.c - see target.h. */
#include "codegen/target.h"

#define DEVICE(id, ...) extern const KernelTarget kernel_target_##id; /* codegen/NAME/target.c */
#include "ir/device.def"

const KernelTarget *kernel_target(const DeviceTraits *d) {
  static const KernelTarget *const targets[DEVICE_KINDS] = {
#define DEVICE(id, ...) &kernel_target_##id,
#include "ir/device.def"
  };
  return targets[d->kind];
}

const KernelImage *kernel_image_of(const KernelImages *images, ProgramImageKind kind) {
  for (size_t i = 0; i < images->n; i++)
    if (images->items[i].kind == kind) return &images->items[i];
  return NULL;
}

void kernel_images_free(KernelImages *images) {
  for (size_t i = 0; i < images->n; i++)
    if (images->items[i].map.data) file_unmap(&images->items[i].map);
  images->n = 0;
}
