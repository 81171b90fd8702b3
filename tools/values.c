/* tools/values.c - see values.h.
 *
 * The model is not known yet, so names are taken as they are written: NAME=@FILE ends at the first "=@".  A wrong form
 * of --input or --inputs is reported where the model's inputs are known (tools/execute.c).
 */
#include "tools/values.h"

#include <inttypes.h>
#include <string.h>

#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"
#include "driver/model.h"

/* Copies the tensor, whose file may then be closed. */
static void add(Tool *t, ToolValues *list, const char *name, Tensor *x, bool asked) {
  char *copy = ARENA_ARRAY(t->arena, char, x->bytes + 1);
  memcpy(copy, x->data, x->bytes);
  Tensor own = tensor_view(x->dtype, x->rank, x->dims, copy);
  tensor_free(x);
  ARENA_PUSH(t->arena, list, ((OnnxValue){.name = arena_strdup(t->arena, name), .tensor = own, .asked = asked}));
}

bool tool_split_binding(Tool *t, const char *text, const char **name, const char **file) {
  const char *at = text[0] == '@' ? text : strstr(text, "=@");
  if (!at || !strchr(at, '@')[1]) return false;
  *file = strchr(at, '@') + 1;
  *name = arena_strndup(t->arena, text, (size_t)(at - text));
  return true;
}

static bool add_const(Tool *t, ToolValues *list, const char *text) {
  const char *name, *file;
  Tensor x;
  if (!tool_split_binding(t, text, &name, &file))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--const takes NAME=@FILE.npy, not '%s'", text);
  if (!npy_read_file_header(t->diags, file, &x)) return false;
  if (tensor_elements(&x) > ONNX_VALUE_MOST)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--const %s: the tensor has %" PRId64 " elements; at most %d can be part of a model", text,
                      tensor_elements(&x), ONNX_VALUE_MOST);
  if (!npy_read(t->diags, file, &x)) return false;
  add(t, list, name, &x, true);
  return true;
}

static bool add_input(Tool *t, ToolValues *list, const char *text) {
  const char *name, *file;
  Tensor x;
  if (!tool_split_binding(t, text, &name, &file) || text_ends_with(file, ".npz")) return true;
  if (!npy_read_file_header(t->diags, file, &x)) return false;
  if (tensor_elements(&x) > ONNX_VALUE_MOST) return true;
  if (!npy_read(t->diags, file, &x)) return false;
  add(t, list, name, &x, false);
  return true;
}

static bool add_inputs(Tool *t, ToolValues *list, const char *path) {
  if (text_ends_with(path, ".npy")) return true;
  Npz *z = npz_open(t->diags, path);
  bool ok = z != NULL;
  for (size_t i = 0; ok && i < z->n; i++) {
    Tensor x;
    ok = npz_read_header(z, &z->items[i], &x);
    if (!ok || tensor_elements(&x) > ONNX_VALUE_MOST) continue;
    ok = npz_read(z, &z->items[i], &x);
    if (ok) add(t, list, z->items[i].name, &x, false);
  }
  if (z) npz_close(z);
  return ok;
}

ToolValues *tool_values(Tool *t) {
  const Options *o = &t->options;
  if (t->values) return t->values;
  ToolValues *list = ARENA_NEW(t->arena, ToolValues);
  for (size_t i = 0; i < o->uses.n; i++) {
    const OptionUse *u = &o->uses.items[i];
    bool ok = u->option == OPT_const    ? add_const(t, list, u->value)
              : u->option == OPT_input  ? add_input(t, list, u->value)
              : u->option == OPT_inputs ? add_inputs(t, list, u->value)
                                        : true;
    if (!ok) return NULL;
  }
  return t->values = list;
}

void tool_values_say(Tool *t) {
  ToolValues *values = t->values;
  Text names = {.arena = t->arena};
  size_t n = 0;
  for (size_t i = 0; values && i < values->n; i++) {
    OnnxValue *v = &values->items[i];
    if (!v->bound || v->asked) continue;
    text_printf(&names, "%s%s", n++ ? ", " : "", *v->name ? arena_printf(t->arena, "'%s'", v->name) : "the input");
  }
  if (n && !values->said)
    tool_say(t, "Binding", "%s to the value%s given, since sizes depend on %s", text_str(&names), n == 1 ? "" : "s",
             n == 1 ? "it" : "them");
  if (n) values->said = true;
}
