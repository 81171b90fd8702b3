/* tests/unit/devices.c - the tables of devices agree: those of passes (ir/device.def), of code generation
 * (codegen/NAME/target.c) and of the runtime (runtime/device/devices.def), which do not see each other. */
#include "codegen/target.h"
#include "ir/device.h"
#include "runtime/device/device.h"
#include "tests/test.h"

/* The same kernels are hand-written on every device, and no others. */
static void templates_agree(void) {
  bool listed[OP_COUNT] = {
#define TEMPLATE(op, family) [OP_##op] = true,
#include "codegen/rows/templates.def"
  };
  for (int k = 0; k < DEVICE_KINDS; k++)
    for (int op = 0; op < OP_COUNT; op++)
      CHECKF(kernel_target(target_device_traits((DeviceKind)k))->has_template((OpKind)op) == listed[op], "%s on a %s",
             op_name((OpKind)op), target_device_traits((DeviceKind)k)->name);
}

static void tables_agree(void) {
  for (int k = 0; k < DEVICE_KINDS; k++) {
    const DeviceTraits *d = target_device_traits((DeviceKind)k);
    const KernelTarget *t = kernel_target(d);
    const DeviceOps *ops = devices_find(d->name);
    CHECK((int)d->kind == k && target_device_traits_find(d->name) == d);
    CHECKF(t->prelude && t->print && t->definition && t->texts && t->compile && t->ready && t->schedule, "%s", d->name);
    CHECKF(ops && strcmp(ops->name, d->name) == 0, "the runtime lacks the device '%s'", d->name);
  }
  CHECK(!target_device_traits_find("tpu") && !devices_find("tpu"));
}

int main(void) {
  RUN(tables_agree);
  RUN(templates_agree);
  return test_summary();
}
