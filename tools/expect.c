/* tools/expect.c - see expect.h. */
#include "tools/expect.h"

#include <math.h>
#include <string.h>

bool expect_open(Tool *t, Npz **out) {
  const char *path = option_text(&t->options, OPT_expect);
  *out = NULL;
  if (!path) return true;
  size_t n = strlen(path);
  if (n > 4 && strcmp(path + n - 4, ".npy") == 0) {
    diag_error(t->diags, DIAG_usage_value, (Loc){0},
               "--expect takes an archive of tensors named after the outputs (.npz), but '%s' is one tensor", path);
    diag_help(t->diags, "numpy.savez('expected.npz', NAME=numpy.load('%s')) makes one", path);
    return false;
  }
  *out = npz_open(t->diags, path);
  if (!*out) return false;
  return (*out)->n > 0 || diag_error(t->diags, DIAG_npz, (Loc){.file = path},
                                     "--expect: the file has no tensors, so there is nothing to compare with");
}

void expect_close(Npz *expected) {
  if (expected) npz_close(expected);
}

/* Returns a comparison in words; got is NULL if the model has no such output. */
static const char *comparison(Tool *t, const char *path, const Tensor *got, const Tensor *want, const Difference *d) {
  if (!got) return "the model has no such output";
  if (got->dtype != want->dtype || !tensor_same_shape(got, want))
    return arena_printf(t->arena, "the model gives %s, %s is expected", tool_tensor_type_text(t->arena, got),
                        tool_tensor_type_text(t->arena, want));
  return arena_printf(t->arena, "against %s: relative L2 %.3g, largest difference %.3g", path, d->rel_l2, d->max_abs);
}

static bool compare_one(Tool *t, Npz *expected, const NpzMember *member, const Tensors *outputs, json_t *array,
                        bool *ok) {
  Tensor want;
  const Tensor *got = tensors_find(outputs, member->name);
  if (!npz_read_header(expected, member, &want)) return false;
  if (got) tensor_settle(&want, got->dtype);
  bool alike = got && got->dtype == want.dtype && tensor_same_shape(got, &want); /* otherwise do not expand it */
  if (alike && !npz_read(expected, member, &want)) return false;
  if (alike) tensor_settle(&want, got->dtype);
  Difference d = alike ? compare(t, got, &want) : (Difference){INFINITY, INFINITY, false};
  *ok = *ok && d.ok;
  if (option_given(&t->options, OPT_json))
    json_array_append_new(array, json_pack("{s:s, s:o, s:o, s:b}", "name", member->name, "rel_l2",
                                           tool_json_real(d.rel_l2), "max_abs", tool_json_real(d.max_abs), "ok", d.ok));
  else
    fprintf(t->results, "%-8s %-24s %s\n", d.ok ? "equal" : "DIFFERS", member->name,
            comparison(t, expected->path, got, &want, &d));
  tensor_free(&want);
  return true;
}

bool expect_compare(Tool *t, Npz *expected, const Tensors *outputs, json_t *array, bool *ok) {
  *ok = true;
  if (!expected) return true;
  for (size_t i = 0; i < expected->n; i++)
    if (!compare_one(t, expected, &expected->items[i], outputs, array, ok)) return false;
  for (size_t i = 0; i < outputs->n; i++)
    if (!npz_find(expected, outputs->items[i].name))
      diag_warning(t->diags, DIAG_input, (Loc){.file = expected->path},
                   "--expect: output '%s' is not in the file, so it is not compared", outputs->items[i].name);
  return true;
}
