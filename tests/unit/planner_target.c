/* Target names and .topo files. */
#include <math.h>

#include "frontend/target.h"
#include "tests/test.h"

static Arena *arena;

static const Target *find(const char *name, Diags **d) {
  *d = diags_new(arena);
  return target_find(*d, arena, name);
}

static void builtin_cpu(void) {
  Diags *d;
  const Target *one = find("cpu", &d), *four = find("cpux4", &d);
  CHECK(one && one->ranks == 1 && strcmp(one->device, "cpu") == 0);
  CHECK(four && four->ranks == 4 && four->nodes == 1 && four->ntiers == 1 && four->tiers[0].group == 4);
  if (!one || !four) return;
  CHECK(one->flops[DT_f32] == 4 * four->flops[DT_f32]);
  CHECK(isnan(one->flops[DT_f16]) && target_flops(one, DT_f16) == one->flops[DT_f32]);
  CHECK(four->tiers[0].latency == 2 * one->tiers[0].latency); /* four ranks on two cores */
  CHECK_STR(four->name, "cpux4");
  CHECK(find("cpux64", &d) != NULL);
}

static void unknown_names(void) {
  static const char *const names[] = {"cpu4", "", "x", "cpux", "x4", "cpux0", "cpux65", "cpux99999999999", "gpu", "no/such.topo", ".topo"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Diags *d;
    CHECKF(find(names[i], &d) == NULL && d->errors == 1, "%s", names[i]);
  }
  Diags *d;
  find("cpi", &d);
  CHECK(d->n == 2 && strstr(d->items[1].message, "'cpu'"));
}

static const char *const cluster =
    "gpu g { arch sm_80; mem 80 GB at 2039 GB/s; launch 2 us; peak f16 312 TFLOPS; peak f32 19.5 TFLOPS; }\n"
    "node box { 8 gpu g; link nvlink 300 GB/s each-way latency 1 us; }  # one machine\n"
    "cluster four { 4 node box; link ib 200 Gb/s each-way latency 5 us; }\n";

static void machines(void) {
  Diags *d = diags_new(arena);
  const Target *t = target_parse(d, arena, "a.topo", cluster, "four", 0);
  CHECK(t && t->ranks == 32 && t->nodes == 4 && t->ntiers == 2);
  if (t) {
    CHECK(t->tiers[0].group == 8 && t->tiers[1].group == 32);
    CHECK(target_tier(t, 8) == &t->tiers[0] && target_tier(t, 9) == &t->tiers[1] && target_tier(t, 1) == &t->tiers[0]);
    CHECK(t->tiers[1].bandwidth == 25e9 && t->flops[DT_f16] == 312e12);
  }
  t = target_parse(d, arena, "a.topo", cluster, "fourx4", 4);
  CHECK(t && t->ranks == 4 && t->nodes == 1 && t->ntiers == 1 && t->tiers[0].group == 4);
  CHECK(target_parse(d, arena, "a.topo", cluster, "fourx12", 12) == NULL);
  CHECK(target_parse(d, arena, "a.topo", cluster, "fourx40", 40) == NULL && d->errors == 2);
}

static void malformed(void) {
  static const struct {
    const char *text;
    int line, col;
  } bad[] = {
      {"", 1, 1},
      {"cpu a {", 1, 8},
      {"gpu a { mem 80 GB at 2 GB/s; }", 1, 5},
      {"gpu a {\n  mem 80 GB/s at 2 GB/s; }", 2, 10},
      {"gpu a { peak f33 1 TFLOPS; }", 1, 14},
      {"gpu a { launch 0 us; }", 1, 16},
      {"gpu a { launch 1 us; launch 1 us; }", 1, 29},
      {"node n { 8 gpu a; }", 1, 16},
      {"node n { 8 node a; }", 1, 12},
      {"cpu a { cores 1.5; }", 1, 15},
      {"cpu a { cores 2; mem 1 GB at 1 GB/s; launch 1 us; peak f32 1 GFLOPS; }", 1, 5},
      {"cpu a { cores 2; mem 1 GB at 1 GB/s; launch 1 us; peak f32 1 GFLOPS; }\nnode n { 1 cpu a; }", 2, 6},
      {"cpu a { cores 2; mem 1 GB at 1 GB/s; launch 1 us; peak f32 1 GFLOPS; }\nnode n { 1 cpu a; link l 1 GB/s each latency 1 us; }", 2, 33},
      {"rack a { }", 1, 1},
      {"cpu a ( }", 1, 7},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Diags *d = diags_new(arena);
    const Target *t = target_parse(d, arena, "bad.topo", bad[i].text, "bad", 0);
    CHECKF(!t && d->errors == 1, "%s", bad[i].text);
    if (d->n) CHECKF(d->items[0].loc.line == bad[i].line && d->items[0].loc.col == bad[i].col, "%s: %d:%d %s", bad[i].text, d->items[0].loc.line,
                     d->items[0].loc.col, d->items[0].message);
  }
}

int main(void) {
  arena = arena_new();
  RUN(builtin_cpu);
  RUN(unknown_names);
  RUN(machines);
  RUN(malformed);
  arena_free(arena);
  return test_summary();
}
