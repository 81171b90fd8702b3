/* tools/weights_dtype.c - see weights_dtype.h. */
#include "tools/weights_dtype.h"

#include <string.h>

#include "passes/rewrite/packed.h"
#include "tools/command_line.h"

static bool wrong_form(Tool *t, const char *value) {
  diag_error(t->diags, DIAG_usage_value, (Loc){0}, "option '--weights-dtype' does not take '%s'", value);
  diag_help(t->diags, "it takes int8, int4, int8:GROUP or int4:GROUP, where GROUP is a multiple of %d up to %d",
            PACKED_LEAST_GROUP, PACKED_MOST_GROUP);
  return false;
}

static bool parse(Tool *t, const char *value, PackedForm *form) {
  const size_t n = strcspn(value, ":");
  *form = (PackedForm){.group = PACKED_LEAST_GROUP};
  if (n == 4 && strncmp(value, "int8", n) == 0) form->bits = 8;
  else if (n == 4 && strncmp(value, "int4", n) == 0) form->bits = 4;
  else return wrong_form(t, value);
  if (value[n] && !tool_parse_whole(value + n + 1, &form->group)) return wrong_form(t, value);
  bool right = form->group >= PACKED_LEAST_GROUP && form->group <= PACKED_MOST_GROUP;
  return (right && form->group % PACKED_LEAST_GROUP == 0) || wrong_form(t, value);
}

static bool later(Tool *t, const char *with) {
  return diag_error(t->diags, DIAG_later_weights_dtype, (Loc){0}, "--weights-dtype is not built yet for %s", with);
}

bool tool_weights_dtype(Tool *t, ModelOptions *o) {
  const Options *given = &t->options;
  const char *value = option_text(given, OPT_weights_dtype), *weights = option_text(given, OPT_weights);
  if (!value || t->weights_as_given) return true;
  PackedForm *form = ARENA_NEW(t->arena, PackedForm);
  if (!parse(t, value, form)) return false;
  if (o->train) return later(t, "training");
  if (o->lora) return later(t, "--lora");
  if (o->floats && o->floats != DT_f32) return later(t, "--dtype");
  if (weights && strcmp(weights, "ref") == 0)
    return diag_error(t->diags, DIAG_usage_option, (Loc){0},
                      "--weights-dtype makes weights that no file has, so the program must embed them: --weights ref "
                      "cannot be combined with it");
  o->packed = form;
  o->weights_unread = given->command == CMD_plan || given->command == CMD_size;
  return true;
}

bool tool_weights_dtype_runs(Tool *t, const Target *target) {
  bool asked = option_given(&t->options, OPT_weights_dtype);
  return !asked || target->device->kind == DEVICE_cpu || later(t, "GPUs");
}

bool tool_weights_dtype_emits(Tool *t, bool onnx, bool ir) {
  if (!option_given(&t->options, OPT_weights_dtype)) return true;
  if (onnx) return later(t, "--emit=onnx");
  return !ir || later(t, "--emit=ir, as the text would name weights in a temporary file");
}
