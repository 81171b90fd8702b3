/* tools/weights.c - see weights.h. */
#include "tools/weights.h"

#include <string.h>

#include "base/safetensors.h"

static bool same_shape(const Param *p, const SafetensorsEntry *e) {
  int64_t dims[MAX_RANK];
  if (p->type->dtype != e->dtype || p->type->rank != e->rank || !type_constant_dims(p->type, dims)) return false;
  for (int d = 0; d < e->rank; d++)
    if (dims[d] != e->dims[d]) return false;
  return true;
}

static void point_at(Param *p, int blob, const SafetensorsEntry *e) {
  p->init = INIT_BLOB;
  p->blob = blob;
  p->offset = e->offset;
  int64_t stride = 1;
  for (int d = e->rank - 1; d >= 0; d--) {
    p->strides[d] = stride;
    stride *= e->dims[d];
  }
}

bool weights_from_file(Module *m, const char *path, Diags *diags) {
  Safetensors *s = safetensors_open(diags, path);
  if (!s) return false;
  int blob = module_blob(m, path, s->map.size);
  bool ok = true;
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &m->params.items[i];
    if (p->init == INIT_PREPARED) continue;
    const SafetensorsEntry *e = safetensors_find(s, p->name);
    if (!e) ok = diag_error(diags, DIAG_weights, (Loc){.file = path}, "the file has no tensor '%s'", p->name);
    else if (!same_shape(p, e)) ok = diag_error(diags, DIAG_weights, (Loc){.file = path}, "tensor '%s' has not the type and shape of the weight", p->name);
    else point_at(p, blob, e);
  }
  safetensors_close(s);
  return ok;
}
