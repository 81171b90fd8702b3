/* Target names, .topo files, and the figures that follow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "frontend/topo/target.h"
#include "tests/test.h"

static Arena *arena;

static const Target *find(const char *name, Diags **d) {
  *d = diags_new(arena);
  return topo_target_find(*d, arena, name);
}

static void builtin_cpu(void) {
  Diags *d;
  const Target *one = find("cpu", &d), *four = find("cpux4", &d);
  CHECK(one && one->ranks == 1 && one->device == target_device_traits(DEVICE_cpu));
  CHECK(four && four->ranks == 4 && four->nodes == 1 && four->ntiers == 1 && four->tiers[0].group == 4);
  if (!one || !four) return;
  CHECK(one->flops[CT_f32] == 4 * four->flops[CT_f32]);
  CHECK(isnan(one->flops[CT_f16]) && target_flops(one, DT_f16) == one->flops[CT_f32]);
  CHECK(four->tiers[0].latency == 2 * one->tiers[0].latency); /* four ranks on two cores */
  CHECK_STR(four->name, "cpux4");
  CHECK(find("cpux64", &d) != NULL);
}

static void unknown_names(void) {
  static const char *const names[] = {
      "cpu4",         "",      "x",         "cpux",       "x4", "cpux0", "cpux65", "cpux99999999999", "gpu",
      "no/such.topo", ".topo", "dgx-a100x", "dgx-a100x12"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Diags *d;
    CHECKF(find(names[i], &d) == NULL && d->errors == 1, "%s", names[i]);
  }
  static const struct {
    const char *typo, *meant;
  } near[] = {{"cpi", "'cpu'"},
              {"dgx-a10x4", "'dgx-a100'"},
              {"aws-p4d.24xlagre", "'aws-p4d.24xlarge'"},
              {"gb200-nvl7x", "'gb200-nvl72'"}};
  for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
    Diags *d;
    find(near[i].typo, &d);
    CHECKF(d->n == 2 && strstr(d->items[1].message, near[i].meant), "%s", near[i].typo);
  }
}

/* Machines of the list by name and number of devices. */
static void counts(void) {
  static const struct {
    const char *name, *machine;
    int ranks, nodes, tiers;
    double memory;
  } rows[] = {
      {"dgx-a100", "dgx-a100-80gb", 8, 1, 1, 80e9},
      {"dgx-a100-40gb", "dgx-a100-40gb", 8, 1, 1, 40e9},
      {"dgx-a100x4", "dgx-a100-80gb", 4, 1, 1, 80e9},
      {"dgx-a100x32", "dgx-a100-80gb", 32, 4, 2, 80e9},
      {"dgx-a100-80gbx3", "dgx-a100-80gb", 3, 1, 1, 80e9},
      {"gb200-nvl72", "gb200-nvl72", 72, 18, 1, 186e9},
      {"gb200-nvl72x4", "gb200-nvl72", 4, 1, 1, 186e9},
      {"gb200-nvl72x6", "gb200-nvl72", 6, 2, 1, 186e9},
      {"gb200-nvl72x144", "gb200-nvl72", 144, 36, 2, 186e9},
      {"h200-x1", "h200-x1", 1, 1, 0, 141e9},
      {"rtx4090-x4", "rtx4090-x4", 4, 1, 1, 24e9},
      {"rtx4090-x4x2", "rtx4090-x4", 2, 1, 1, 24e9},
      {"aws-p4d.24xlargex16", "aws-p4d.24xlarge", 16, 2, 2, 40e9},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Diags *d;
    const Target *t = find(rows[i].name, &d);
    CHECKF(t && strcmp(t->machine, rows[i].machine) == 0 && t->ranks == rows[i].ranks && t->nodes == rows[i].nodes &&
               t->ntiers == rows[i].tiers && t->memory_bytes == rows[i].memory,
           "%s", rows[i].name);
  }
  static const struct {
    const char *name, *why;
  } bad[] = {{"dgx-a100x12", "more than one machine of 8"},
             {"gb200-nvl72x100", "more than one machine of 72"},
             {"h200-x1x2", "is not known"},
             {"l40s-x8-pciex16", "is not known"},
             {"rtx4090-x8", "no target"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Diags *d;
    CHECKF(!find(bad[i].name, &d) && d->errors == 1 && strstr(d->items[0].message, bad[i].why), "%s: %s", bad[i].name,
           d->n ? d->items[0].message : "");
  }
}

static void facts(void) {
  Diags *d;
  const Target *a100 = find("dgx-a100x16", &d), *p4d = find("aws-p4d.24xlargex4", &d),
               *v100 = find("dgx-1-v100-32gb", &d), *a10g = find("aws-g5.48xlarge", &d);
  CHECK(a100 && p4d && v100 && a10g);
  if (!a100 || !p4d || !v100 || !a10g) return;
  CHECK(a100->tiers[0].group == 8 && a100->tiers[1].group == 16 && a100->tiers[1].bandwidth == 25e9 &&
        a100->sms == 108 && a100->flops[CT_bf16] == 312e12);
  CHECK(isnan(target_price(a100)->usd_per_hour) && fabs(target_price(p4d)->usd_per_hour - 21.957642 / 2) < 1e-9);
  CHECK_STR(target_price(p4d)->date, "2026-07-20");
  CHECK(fabs(p4d->prices[PRICE_reserved].usd_per_hour - 13.921094 / 2) < 1e-9 && !p4d->prices[PRICE_spot].terms);
  CHECK_STR(p4d->prices[PRICE_reserved].date, "2025-11-30");
  CHECK(a100->power == 400 && a100->idle_power == 80 && v100->power == 300 && isnan(v100->idle_power));
  CHECK(!topo_target_computing_in(arena, v100, CT_bf16) && !topo_target_computing_in(arena, a100, CT_fp8) &&
        !topo_target_computing_in(arena, a10g, CT_f32));
  const Target *half = topo_target_computing_in(arena, a100, CT_bf16);
  CHECK(half && target_flops(half, DT_bf16) == 312e12 && target_flops(half, DT_f32) == 19.5e12);
  const Target *tf32 = topo_target_computing_in(arena, a100, CT_tf32);
  CHECK(tf32 && target_flops(tf32, DT_f32) == 156e12 && target_flops(a100, DT_f32) == 19.5e12);
  CHECK(a10g->sms == 0 && isnan(a10g->l2) && target_flops(a10g, DT_f64) == 70e12);
}

/* ---- round trip */

static void same_tier(const char *name, const TargetTier *a, const TargetTier *b) {
  CHECKF(strcmp(a->name, b->name) == 0 && a->group == b->group && a->bandwidth == b->bandwidth &&
             a->latency == b->latency && a->pair == b->pair && a->nprotocols == b->nprotocols,
         "%s", name);
  for (int i = 0; i < a->nprotocols && i < b->nprotocols; i++) {
    const Protocol *x = &a->protocols[i], *y = &b->protocols[i];
    CHECKF(x->algorithm == y->algorithm && strcmp(x->name, y->name) == 0 && x->base == y->base && x->step == y->step &&
               x->share == y->share && x->most == y->most,
           "%s", name);
  }
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void same_target(const Target *a, const Target *b) {
  CHECKF(strcmp(a->machine, b->machine) == 0 && strcmp(a->part, b->part) == 0 && a->ranks == b->ranks &&
             a->nodes == b->nodes && a->per_machine == b->per_machine,
         "%s", a->name);
  for (int i = 0; i < CT_COUNT; i++)
    CHECKF(same(a->flops[i], b->flops[i]) && same(a->kernels.sustained[i], b->kernels.sustained[i]), "%s", a->name);
  CHECKF(a->memory_bytes == b->memory_bytes && a->memory_bandwidth == b->memory_bandwidth && a->launch == b->launch &&
             a->sms == b->sms && same(a->l2, b->l2) && same(a->power, b->power) && same(a->idle_power, b->idle_power) &&
             same(a->pcie, b->pcie) && same(a->host_memory, b->host_memory),
         "%s", a->name);
  for (int i = 0; i < PRICE_KINDS; i++)
    CHECKF(same(a->prices[i].usd_per_hour, b->prices[i].usd_per_hour), "%s as %s", a->name, price_name((PriceKind)i));
  CHECKF(a->has_kernels == b->has_kernels && a->kernels.ntiles == b->kernels.ntiles &&
             memcmp(a->kernels.tiles, b->kernels.tiles, sizeof a->kernels.tiles) == 0,
         "%s", a->name);
  CHECKF(a->ntiers == b->ntiers, "%s", a->name);
  for (int i = 0; i < a->ntiers && i < b->ntiers; i++) same_tier(a->name, &a->tiers[i], &b->tiers[i]);
}

static void round_trip(const char *name) {
  Diags *d;
  const Target *t = find(name, &d);
  const char *text = t ? topo_target_text(d, arena, name, NULL) : NULL;
  const Target *again = text ? topo_target_parse(d, arena, "again.topo", text, name, 0) : NULL;
  CHECKF(again && d->n == 0, "%s: %s", name, d->n ? d->items[0].message : "");
  if (!again) return;
  same_target(t, again);
  char path[] = "/tmp/apc-target-XXXXXX.topo";
  FILE *f = fdopen(mkstemps(path, 5), "w");
  fputs(text, f);
  fclose(f);
  const char *twice = topo_target_text(d, arena, path, NULL);
  CHECKF(twice && strcmp(twice, text) == 0, "%s: printing what was printed differs", name);
  remove(path);
}

static void all_round_trip(void) {
  int n = 0;
  for (const char *const *name = topo_target_names(arena); *name; name++, n++) round_trip(*name);
  CHECK(n >= 26);
  round_trip("dgx-a100x4");
  round_trip("dgx-h100x64");
  round_trip("gb200-nvl72x144");
  round_trip("cpux3");
}

/* ---- files */

static const char *const machine =
    "kernels k { sustained f16 0.5; tile 256x128 1; bandwidth 0.9 ramp 2 MB; }\n"
    "gpu g { arch sm_80; sms 10; power 500 W idle 75 W; memory 80 GB at 2039 GB/s; launch 2 us; peak f16 312 TFLOPS; "
    "peak f32 19.5 TFLOPS; "
    "kernels k; }\n"
    "machine box { devices 8 g; link pair joins 2 at 600 GB/s latency 1 us; link nvlink at 300 GB/s with "
    "nvlink-ampere;  # a tree of links\n"
    "  network ib 4 at 200 Gbit/s latency 5 us; price 8 USD/h \"someone\" 2026-01-02;\n"
    "  price 3 USD/h \"someone else\" 2026-01-03 as spot; }\n"
    "target four { machine box; devices 32; }\n";

static void machines(void) {
  Diags *d = diags_new(arena);
  const Target *t = topo_target_parse(d, arena, "a.topo", machine, "four", 0);
  CHECK(t && t->ranks == 32 && t->nodes == 4 && t->ntiers == 3);
  if (t) {
    CHECK(t->tiers[0].group == 2 && t->tiers[1].group == 8 && t->tiers[2].group == 32);
    CHECK(target_tier(t, 2) == &t->tiers[0] && target_tier(t, 8) == &t->tiers[1] && target_tier(t, 9) == &t->tiers[2] &&
          target_tier(t, 1) == &t->tiers[0]);
    CHECK(t->tiers[2].bandwidth == 12.5e9 && t->flops[CT_f16] == 312e12 && target_price(t)->usd_per_hour == 32 &&
          t->prices[PRICE_spot].usd_per_hour == 12 && isnan(t->prices[PRICE_reserved].usd_per_hour) &&
          t->power == 500 && t->idle_power == 75 && t->tiers[1].nprotocols > 0);
    CHECK(t->has_kernels && t->kernels.ntiles == 1 && t->kernels.ramp == 2e6 && t->kernels.sustained[CT_f16] == 0.5 &&
          isnan(t->kernels.sustained[CT_f32]));
  }
  t = topo_target_parse(d, arena, "a.topo", machine, "box", 4);
  CHECK(t && t->ranks == 4 && t->nodes == 1 && t->ntiers == 2 && t->tiers[1].group == 4 &&
        target_price(t)->usd_per_hour == 4);
  if (t) {
    const Target *spot = topo_target_priced(arena, t, PRICE_spot), *own = topo_target_costing(arena, t, 10, "mine");
    CHECK(target_price(spot)->usd_per_hour == 1.5 && target_price(own)->usd_per_hour == 5 && !target_price(own)->date);
  }
  CHECK(topo_target_parse(d, arena, "a.topo", machine, "four", 12) == NULL && d->errors == 1);
}

static void malformed(void) {
#define CPU \
  "cpu c { cores 1; memory 1 GB at 1 GB/s; launch 1 us; peak f32 1 TFLOPS; kernels k; } machine m { devices 1 c; " \
  "link l at 1 GB/s; }\n"
#define DEVICE "gpu a { memory 1 GB at 1 GB/s; launch 1 us; peak f32 1 TFLOPS; }\n"
  static const struct {
    const char *text;
    int line, col;
    const char *says;
  } bad[] = {
      {"", 1, 1, "no machine"},
      {"gpu a {", 1, 8, "unexpected"},
      {"gpu a { memory 80 GB at 2 GB/s; }", 1, 5, "launch"},
      {"gpu a {\n  memory 80 GB/s at 2 GB/s; }", 2, 10, "a number with a unit (B, KB"},
      {"gpu a { peak f33 1 TFLOPS; }", 1, 14, "no type 'f33'"},
      {"gpu a { launch 0 GB; }", 1, 16, "a number with a unit (ns"},
      {"gpu a { memory 0 GB at 1 GB/s; }", 1, 16, "above 0"},
      {"gpu a { memory 80 at 1 GB/s; }", 1, 16, "found '80'"},
      {"gpu a { launch 1 us; launch 1 us; }", 1, 22, "given twice"},
      {"gpu a { peak f32 1 TFLOPS; peak f32 2 TFLOPS; }", 1, 28, "'peak f32' is given twice"},
      {"gpu a { lunch 1 us; }", 1, 9, "no statement 'lunch'"},
      {"gpu a { clock 1 GHz 2; }", 1, 21, "no further values"},
      {"gpu a { title 5; }", 1, 15, "a text in quotes"},
      {"gpu a { title \"x; }\n", 1, 15, "closing quote"},
      {"gpu a { arch @; }", 1, 14, "unexpected character '@'"},
      {"machine n { devices 8 a; }", 1, 23, "there is no gpu 'a'"},
      {"cpu a { cores 1.5; }", 1, 15, "whole number"},
      {DEVICE "machine n { devices 8 a; link l at 1 GB/s; link m joins 4 at 1 GB/s; }", 2, 44, "join more of"},
      {DEVICE "machine n { devices 8 a; link l joins 4 at 1 GB/s; }", 2, 9, "no link that joins all"},
      {DEVICE "machine n { devices 8 a; link l 1 GB/s; }", 2, 33, "expected 'at'"},
      {DEVICE "machine n { devices 8 a; link l at 1 GB/s with nvlink-hoper; }", 2, 48, "no protocols 'nvlink-hoper'"},
      {DEVICE "machine n { devices 1 a; price 3 USD/h \"x\" 2026; }", 2, 44, "a date"},
      {DEVICE "machine n { devices 1 a; price 3 USD/h \"x\" 2026-01-01 as spott; }", 2, 58,
       "expected on-demand, spot or reserved, found 'spott'"},
      {DEVICE "machine n { devices 1 a; price 3 USD/h \"x\" 2026-01-01 spot; }", 2, 55, "no further values"},
      {DEVICE
       "machine n { devices 1 a; price 3 USD/h \"x\" 2026-01-01 as spot; price 4 USD/h \"x\" 2026-01-01 as spot; }",
       2, 64, "'price spot' is given twice"},
      {DEVICE "machine n { devices 1 a; price 3 USD/h \"x\" 2026-01-01; price 4 USD/h \"x\" 2026-01-01; }", 2, 56,
       "'price' is given twice"},
      {DEVICE "machine n { devices 1 a; price 3 USD/h \"x\" 2026-01-01; price 4 USD/h \"x\" 2026-01-01 as on-demand; "
              "link l at 1 GB/s; }",
       2, 56, "'price as on-demand' is given twice"},
      {"gpu a { power 300 W idle 3 GB; }", 1, 26, "a number with a unit (W, kW)"},
      {"gpu a { power 300 W 3 W; }", 1, 21, "no further values"},
      {DEVICE "machine n { devices 1 a; }\ntarget t { machine m; }", 3, 20, "no machine 'm'"},
      {"rack a { }", 1, 1, "no kind of block 'rack'"},
      {"gpu a ( }", 1, 7, "unexpected"},
      {"kernels k { tile 8 0.5; }", 1, 18, "a tile"},
      {"kernels k { attention 3; }", 1, 23, "share"},
      {CPU "kernels k { fork 1 us; element expp 1 ns; }", 2, 32, "no operation 'expp'"},
      {CPU "kernels k { fork 1 us; convolution back begin 1 us shared 0 us element 1 ns share 1; }", 2, 36,
       "no convolution 'back'"},
      {CPU "kernels k { fork 1 us; cache 2 MB at 1 GB/s; cache 1 MB at 1 GB/s; }", 2, 46, "larger than the one before"},
      {CPU "kernels k { fork 1 us; cache 2 MB at 1 GB/s; cache 4 MB at 2 GB/s; }", 2, 46, "no faster"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Diags *d = diags_new(arena);
    const Target *t = topo_target_parse(d, arena, "bad.topo", bad[i].text, "bad", 0);
    CHECKF(!t && d->errors >= 1, "%s", bad[i].text);
    if (d->n)
      CHECKF(d->items[0].loc.line == bad[i].line && d->items[0].loc.col == bad[i].col &&
                 strstr(d->items[0].message, bad[i].says),
             "%s: %d:%d %s", bad[i].text, d->items[0].loc.line, d->items[0].loc.col, d->items[0].message);
  }
}

/* One run reports the errors of several statements. */
static void several(void) {
  Diags *d = diags_new(arena);
  topo_target_parse(d, arena, "bad.topo", "gpu a { ; }\ngpu b { 5; launch 1 us; 7; }", "bad", 0);
  CHECKF(d->errors == 3, "%zu errors", d->errors);
}

int main(void) {
  arena = arena_new();
  RUN(builtin_cpu);
  RUN(unknown_names);
  RUN(counts);
  RUN(facts);
  RUN(all_round_trip);
  RUN(machines);
  RUN(malformed);
  RUN(several);
  arena_free(arena);
  return test_summary();
}
