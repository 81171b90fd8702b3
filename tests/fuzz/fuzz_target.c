/* tests/fuzz/fuzz_target.c - libFuzzer target: any bytes as a .topo file.  The figures of an accepted target are usable
 * numbers; a refused one has a reason. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/die.h"
#include "frontend/topo/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  const char *text = arena_strndup(arena, (const char *)bytes, n);
  for (int ranks = 0; ranks <= 4; ranks += 4) {
    size_t errors = diags->errors;
    const Target *t = topo_target_parse(diags, arena, "fuzz.topo", text, "fuzz", ranks);
    if (!t && diags->errors == errors) die("refused without a reason");
    if (!t) continue;
    if (diags->errors > errors) die("accepted with errors");
    if (t->ranks < 1 || (ranks && t->ranks != ranks)) die("%d ranks", t->ranks);
    if (!(target_flops(t, DT_f32) > 0) || !isfinite(target_flops(t, DT_f32)))
      die("a peak of %g", target_flops(t, DT_f32));
    if (!(t->memory_bytes > 0) || !(t->memory_bandwidth > 0))
      die("memory of %g bytes at %g", t->memory_bytes, t->memory_bandwidth);
    if (t->ranks > 1 && (t->ntiers < 1 || t->tiers[t->ntiers - 1].group < t->ranks)) die("no link joins all ranks");
    for (int i = 0; i < t->ntiers; i++)
      if (t->tiers[i].group < 1 || !(t->tiers[i].bandwidth > 0))
        die("link %s joins %d ranks at %g", t->tiers[i].name, t->tiers[i].group, t->tiers[i].bandwidth);
  }
  arena_free(arena);
  return 0;
}
