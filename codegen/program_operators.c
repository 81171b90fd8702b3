/* codegen/program_operators.c - the libraries of operators that apc does not know, as parts of the Program.
 *
 * A library becomes an embedded range, as it is; the runtime loads it from there.  Libraries that it needs itself,
 * other than those of the system, must be installed where the program runs. */
#include <string.h>

#include "base/file.h"
#include "codegen/program_tables.h"
#include "ir/opaque.h"

static bool is_used(const Emitting *e, const char *kind) {
  for (size_t k = 0; k < e->m->funcs.n; k++)
    for (size_t i = 0; i < e->m->funcs.items[k]->ops.n; i++) {
      const Op *op = &e->m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_opaque && op_attr(op, AT_rule) && strcmp(op_str(op, AT_kind), kind) == 0) return true;
    }
  return false;
}

/* Embeds a library.  False after a diagnostic. */
static bool embed_library(Emitting *e, const char *path, uint32_t *blob) {
  FileMap map;
  if (!file_map(e->diags, path, &map)) return false;
  EmbeddedPart *whole = ARENA_NEW(e->m->arena, EmbeddedPart);
  *whole = (EmbeddedPart){.bytes = map.size};
  *blob = program_embed(e->b, map.size, program_blob_hash(map.data, map.size));
  Embedded library = {.blob = *blob, .path = path, .file_bytes = map.size, .bytes = map.size, .parts = whole, .n = 1};
  ARENA_PUSH(e->m->arena, &e->out->embedded, library);
  file_unmap(&map);
  return true;
}

/* A Program that is only measured has none. */
bool emit_operators(Emitting *e) {
  const Module *m = e->m;
  uint32_t *blobs = ARENA_ARRAY(m->arena, uint32_t, m->kernels.n + 1);
  for (size_t i = 0; i < m->kernels.n && !e->legal->source.unread; i++) {
    const OpaqueKernel *k = &m->kernels.items[i];
    if (!is_used(e, k->kind)) continue;
    size_t same = 0;
    while (same < i && (m->kernels.items[same].library != k->library || blobs[same] == 0)) same++;
    if (same < i) blobs[i] = blobs[same];
    else if (!embed_library(e, k->path, &blobs[i])) return false;
    else blobs[i]++;
    program_add_operators(
        e->b,
        &(ProgramOperator){.name = emit_text(e, k->kind), .function = emit_text(e, k->function), .blob = blobs[i] - 1});
  }
  return true;
}
