/* The cost of communication and kernels: the formulas of docs/guide/targets.md in numbers. */
#include <math.h>
#include <string.h>

#include "frontend/topo/target.h"
#include "passes/cost/cost.h"
#include "passes/cost/comm.h"
#include "passes/cost/cpu.h"
#include "passes/cost/kernel.h"
#include "tests/test.h"

static Arena *arena;

static const Target *machine(const char *links) {
  Diags *d = diags_new(arena);
  const char *text = arena_printf(
      arena,
      "kernels k { sustained f32 0.5; tile 64x32 1; tile 128x128 0.8; prologue 16; smoothing 0.25; attention 0.5; "
      "bandwidth 0.8 ramp 1 MB; }\n"
      "protocols p { ring a base 1 us step 1 us share 0.5; ring b base 10 us step 2 us share 1; tree b base 3 us step "
      "1 us share 1;\n"
      "  switched b base 20 us step 1 us share 1; direct b base 2 us step 1 us share 1; }\n"
      "gpu g { sms 10; memory 80 GB at 1 TB/s; launch 5 us; peak f32 20 TFLOPS; peak f16 100 TFLOPS; kernels k; }\n"
      "gpu plain { memory 80 GB at 1 TB/s; launch 5 us; peak f32 20 TFLOPS; }\n"
      "machine m { devices 8 g; %s }\ntarget t { machine m; devices 32; }\n",
      links);
  const Target *t = topo_target_parse(d, arena, "test.topo", text, "t", 0);
  if (!t) diags_print(d, stderr, false);
  return t;
}

static double seconds(const Target *t, int ranks, CommKind kind, double bytes) {
  CommGroup g = cost_group_block(t, ranks);
  CommCosts c = cost_comms(t, &g);
  return cost_comm_seconds(&c, kind, bytes);
}

static void is(double got, double want, const char *what) {
  CHECKF(fabs(got - want) <= 1e-9 * want, "%s: %.9g, not %.9g", what, got, want);
}

/* A ring with its latency per step, plus the launch. */
static void plain_links(void) {
  const Target *t = machine("link l at 10 GB/s latency 3 us; network n 8 at 16 Gbit/s latency 7 us;");
  CHECK(t != NULL);
  if (!t) return;
  is(seconds(t, 8, COMM_all_reduce, 8e9), 5e-6 + 14 * 3e-6 + 2 * 7 / 8. * 8e9 / 10e9, "all-reduce in a machine");
  is(seconds(t, 8, COMM_all_gather, 8e9), 5e-6 + 7 * 3e-6 + 7 / 8. * 8e9 / 10e9, "all-gather in a machine");
  is(seconds(t, 8, COMM_all_to_all, 8e9), 5e-6 + 7 * 3e-6 + 7 / 8. * 8e9 / 10e9, "all-to-all in a machine");
  is(seconds(t, 8, COMM_exchange, 8e9), 5e-6 + 7 * 3e-6 + 8e9 / 10e9, "exchange in a machine");
  CHECK(seconds(t, 1, COMM_all_reduce, 8e9) == 0);
  is(cost_send_seconds(t, 8, 1e9), 5e-6 + 3e-6 + 0.1, "send in a machine");
  is(cost_send_seconds(t, 16, 1e9), 5e-6 + 7e-6 + 0.5, "send between machines");
}

/* The 8 ranks of a machine leave it through 8 adapters together; one rank of each machine through one. */
static void tiers(void) {
  const Target *t = machine("link l at 1000 GB/s latency 3 us; network n 8 at 16 Gbit/s latency 7 us;");
  CHECK(t != NULL);
  if (!t) return;
  is(seconds(t, 32, COMM_all_gather, 8e9), 5e-6 + 27 * 3e-6 + 4 * 7e-6 + 31 / 32. * 8e9 / 16e9,
     "all-gather of whole machines");
  CommGroup rail = {{1, 4}};
  CommCosts c = cost_comms(t, &rail);
  is(cost_comm_seconds(&c, COMM_all_gather, 8e9), 5e-6 + 3 * 7e-6 + 3 / 4. * 8e9 / 2e9,
     "all-gather of one rank a machine");
  is(seconds(t, 32, COMM_all_to_all, 8e9), 5e-6 + 7 * 3e-6 + 24 * 7e-6 + 24 / 32. * 8e9 / 2e9,
     "all-to-all of whole machines");
}

/* Every algorithm is a line; the lowest counts. */
static void ways(void) {
  const Target *t = machine("link l at 10 GB/s with p; network n 8 at 80 Gbit/s with p;");
  CHECK(t != NULL);
  if (!t) return;
  is(seconds(t, 8, COMM_all_gather, 1e3), 1e-6 + 7e-6 + 7 / 8. * 1e3 / 5e9, "small: the ring that starts fast");
  is(seconds(t, 8, COMM_all_gather, 1e9), 10e-6 + 14e-6 + 7 / 8. * 1e9 / 10e9,
     "large: the ring that has the whole link");
  is(seconds(t, 8, COMM_all_reduce, 1e3), 1e-6 + 14e-6 + 2 * 7 / 8. * 1e3 / 5e9,
     "small all-reduce of a machine, where a tree is a chain: the ring that starts fast");
  is(seconds(t, 32, COMM_all_reduce, 1e3), 3e-6 + 14e-6 + 4e-6 + 2 * 1e3 / 10e9,
     "small all-reduce of four machines: the tree, a chain in each");
  is(seconds(t, 8, COMM_all_reduce, 1e9), 20e-6 + 1e9 / 10e9, "large all-reduce: in the switches");
  is(seconds(t, 32, COMM_all_reduce, 1e9), 20e-6 + 2 * 2 * 1e-6 + fmax(1e9 / 10e9, 2 * 1e9 / (8 * 10e9)),
     "four machines: in the switches, then a tree");
  CommGroup rail = {{1, 4}};
  CommCosts c = cost_comms(t, &rail);
  is(cost_comm_seconds(&c, COMM_all_reduce, 1e9), 10e-6 + 6 * 2e-6 + 2 * 3 / 4. * 1e9 / 10e9,
     "one rank a machine: no switches");
}

/* Two of four ranks without a switch use one of three links. */
static void pairs(void) {
  const Target *t = machine("link l at 300 GB/s pair 100 GB/s latency 1 us; network n 8 at 16 Gbit/s latency 7 us;");
  CHECK(t != NULL);
  if (!t) return;
  is(seconds(t, 2, COMM_all_gather, 2e9), 5e-6 + 1e-6 + 1e9 / 100e9, "two ranks");
  is(seconds(t, 3, COMM_all_gather, 3e9), 5e-6 + 2e-6 + 2e9 / 200e9, "three ranks");
  is(seconds(t, 8, COMM_all_gather, 8e9), 5e-6 + 7e-6 + 7e9 / 300e9, "eight ranks");
  is(cost_send_seconds(t, 8, 1e9), 5e-6 + 1e-6 + 0.01, "a message");
}

/* On every built-in machine, more bytes, a larger group of whole machines or a reduction cost no less. */
static void sane(void) {
  for (const char *const *name = topo_target_names(arena); *name; name++) {
    Diags *d = diags_new(arena);
    const Target *t = topo_target_find(d, arena, *name);
    for (int n = 2; t && n <= t->ranks; n *= 2) {
      double before = 0;
      for (double bytes = 1; bytes < 1e11; bytes *= 8) {
        double now = seconds(t, n, COMM_all_reduce, bytes);
        CHECKF(isfinite(now) && now >= before, "%s: %d ranks, %g bytes", *name, n, bytes);
        for (int k = 0; k < COMM_KIND_COUNT; k++) CHECKF(seconds(t, n, (CommKind)k, bytes) > 0, "%s", *name);
        before = now;
      }
    }
  }
}

/* Tiles and waves: 10 multiprocessors of 1 TFLOPS, half of it sustained. */
static void products(void) {
  const Target *t = machine("link l at 1 GB/s latency 1 us; network n 1 at 1 Gbit/s latency 1 us;");
  CHECK(t != NULL);
  if (!t) return;
  double rate = 1e12, small = 2. * 64 * 32, large = 2. * 128 * 128 / 0.8;
  is(cost_product_seconds(t, DT_f32, 5, 64, 32, 100), small * 116 / rate, "half a wave");
  is(cost_product_seconds(t, DT_f32, 10, 60, 30, 100), small * 116 / rate, "parts of tiles");
  is(cost_product_seconds(t, DT_f32, 10, 64, 32, 100), small * 116 / rate, "one wave");
  is(cost_product_seconds(t, DT_f32, 11, 64, 32, 100), small * 116 / rate * (0.75 * 2 + 0.25 * 1.1),
     "a wave and a tile");
  CHECK(cost_product_seconds(t, DT_f32, 1, 1024, 1024, 100) <= 7 * large * 116 / rate);
  is(cost_memory_seconds(t, 9e6), 1e7 / 0.8e12, "memory");
  is(cost_flops_seconds(t, DT_f32, 1e13), 1, "operations");
  is(cost_kernel_seconds(t, KERNEL_GROUPED, DT_f32, 1e13), 1, "our own kernel");
  is(cost_kernel_seconds(t, KERNEL_ATTENTION, DT_f32, 1e13), 2, "attention");
  const Target *half = topo_target_computing_in(arena, t, CT_f16);
  is(cost_flops_seconds(half, DT_f16, 1e14), 1, "f16 has no sustained share");
  is(cost_kernel_seconds(half, KERNEL_ATTENTION, DT_f16, 1e14), 2, "attention of f16");
  is(cost_flops_seconds(half, DT_f32, 1e13), 1, "f32 where f16 is computed");
  is(cost_kernel_seconds(half, KERNEL_ATTENTION, DT_f32, 1e13), 2, "attention in f32 where f16 is computed");
  is(cost_flops_seconds(t, DT_f16, 1e14), 1, "f16 values");
  DeviceTraits fast = *t->device;
  Target other = *t;
  fast.kernels = KERNEL_GROUPED, other.device = &fast;
  is(cost_kernel_seconds(t, KERNEL_GROUPED, DT_f16, 1e13), 1, "f16 values in f32");
  is(cost_kernel_seconds(&other, KERNEL_GROUPED, DT_f16, 1e14), 1, "as products of the library");
  is(cost_kernel_seconds(&other, KERNEL_ATTENTION, DT_f16, 1e13), 2, "f16 values in f32: attention");
  other = *half, other.kernels.attention_half = 0.25;
  is(cost_kernel_seconds(&other, KERNEL_ATTENTION, DT_f16, 1e14), 4, "attention of f16 with a share of its own");
  is(cost_kernel_seconds(&other, KERNEL_ATTENTION, DT_f32, 1e13), 2, "not of f32");
}

/* Keys that the last 64 queries, or fewer, see; 31.5 more than the mean, as blocks are computed whole. */
static void causal_attention(void) {
  is(cost_causal_share(1, 4096, 4096), 1, "one query, which sees all keys");
  is(cost_causal_share(64, 64, 64), 1, "one block");
  is(cost_causal_share(1024, 1024, 1024), (512.5 + 31.5) / 1024, "a square");
  is(cost_causal_share(256, 1024, 1024), (1024 - 127.5 + 31.5) / 1024, "the last quarter of the queries");
  is(cost_causal_share(1024, 256, 256), (256 * 257 / 2048. + 31.5) / 256, "more queries than keys");
  is(cost_causal_share(8192, 1024, 8192), 1 - 1023 / 16384. + 31.5 / 1024, "the first eighth of the keys");
  is(cost_causal_share(1024, 1024, 8192), 1, "the last queries and the first keys");
  is(cost_causal_share(0, 0, 0), 1, "none");
}

/* Without enough tiles for a wave the depth is cut, or, for few rows, the matrix streams in as fast as it can be
 * read. */
static void thin_products(void) {
  const Target *t = machine("link l at 1 GB/s latency 1 us; network n 1 at 1 Gbit/s latency 1 us;");
  Diags *d = diags_new(arena);
  const Target *a100 = topo_target_find(d, arena, "dgx-a100");
  CHECK(t && a100);
  if (!t || !a100) return;
  double wave = 2. * 64 * 32 / 1e12, sum = 2. * 64 * 32 * 4 / 0.8e12;
  is(cost_product_seconds(t, DT_f32, 1, 64, 32, 10000), (0.75 * 2 + 0.25 * 1.6) * wave * 641 + 16 * sum,
     "16 parts of the depth");
  is(cost_product_seconds(t, DT_f32, 1, 8, 64, 64), 64 * 64 * 4 / 0.8e12, "eight rows");
  is(cost_product_seconds(t, DT_f32, 1, 9, 60, 64), 8 * 9 * 64 * 4 / 0.8e12, "nine rows: eight columns at a time");
  CHECK(cost_product_seconds(t, DT_f32, 1, 1, 512, 4096) <= 512 * 4096 * 4 / 0.8e12);
  CHECK(cost_product_seconds(t, DT_f32, 1, 512, 1, 4096) <= 512 * 4096 * 4 / 0.8e12);
  CHECK(cost_product_seconds(t, DT_f16, 1, 1, 512, 4096) <= 512 * 4096 * 2 / 0.8e12);
  const Target *half = topo_target_computing_in(arena, a100, CT_bf16);
  double bytes = (512 * 4096 + 4096 + 512) * 2;
  CHECK(cost_product_seconds(half, DT_bf16, 1, 1, 512, 4096) <= cost_memory_seconds(half, bytes));
}

/* More rows never take less time, and n parts of the rows never less than all of them at once. */
static void parts_of_products(void) {
  for (const char *const *name = topo_target_names(arena); *name; name++) {
    Diags *d = diags_new(arena);
    const Target *t = topo_target_find(d, arena, *name);
    for (int i = 0; i < 200; i++) {
      double n = 1 + i * 37 % 3000, k = 1 + i * 53 % 20000, batch = 1 + i % 3, before = 0;
      for (int m = 1; m < 3000; m += 1 + m / 3) {
        double now = cost_product_seconds(t, DT_f32, batch, m, n, k);
        CHECKF(now >= before * (1 - 1e-12), "%s: %d x %g x %g", *name, m, n, k);
        for (int parts = 2; parts <= m; parts = 2 * parts + 1)
          CHECKF(parts * cost_product_seconds(t, DT_f32, batch, ceil(m / (double)parts), n, k) >= now * (1 - 1e-12),
                 "%s: %d of %d x %g x %g", *name, parts, m, n, k);
        before = now;
      }
    }
  }
}

/* Returns the seconds of %y = %x %w with so many rows, on one half of the ranks if `half`. */
static double rows_seconds(const Target *t, int rows, const char *of_w, bool half) {
  char text[512];
  snprintf(text, sizeof text,
           "apc.ir 1\nmesh [a=2]\nfunc @main level 1 {\n  %%x = input {name=\"x\"} : bf16[%d, 4096]\n  %%w = %s "
           "{name=\"w\"} : bf16[4096, 2048]\n  %%y = dot %%x, %%w {spec=\"mk,kn->mn\"} : bf16[%d, 2048]\n  output "
           "\"y\" %%y\n}\n",
           rows, of_w, rows);
  Diags *d = diags_new(arena);
  Module *m = ir_parse("rows", text, d);
  if (!m) diags_print(d, stderr, false);
  CHECK(m);
  if (!m) return 0;
  const Func *f = module_func(m, "main");
  CostModel *c = cost_model_new(m, t);
  const Op *op = op_of(f, func_find(f, "y"));
  const Rule *r = rule_of(m, f, op);
  Strategy s = {.n = half, .picks = {{0, (uint8_t)rule_factor_find(r, "m")}}};
  double seconds = cost_kernel(c, f, op, r, &s).seconds;
  cost_model_free(c);
  module_free(m);
  return seconds;
}

/* Up to 16 rows of a rank, 16-bit weights are multiplied by our kernel (codegen/rows/work_few.c), and priced as it. */
static void products_of_few_rows(void) {
  Diags *d = diags_new(arena);
  const Target *a100 = topo_target_find(d, arena, "dgx-a100"), *t = topo_target_computing_in(arena, a100, CT_bf16);
  const double n = 2048, k = 4096;
  for (int rows = 1; rows <= 34; rows++) {
    double bytes = (rows * (n + k) + n * k) * 2, memory = cost_memory_seconds(t, bytes),
           few = t->launch + fmax(memory, cost_few_seconds(t, DT_bf16, rows, n, k)),
           library = t->launch + fmax(memory, cost_product_seconds(t, DT_bf16, 1, rows, n, k));
    is(rows_seconds(t, rows, "param", false), rows <= 16 ? few : library, "rows of a weight");
    is(rows_seconds(t, rows, "input", false), library, "rows of an input");
    if (rows % 2 == 0) is(rows_seconds(t, rows, "param", true), rows_seconds(t, rows / 2, "param", false), "half");
    CHECKF(few >= library * (1 - 1e-12), "%d rows", rows);
  }
  CHECK(rows_seconds(t, 16, "param", false) > 1.5 * rows_seconds(t, 8, "param", false));
  for (int rows = 2; rows <= 64; rows++)
    for (int part = 1; part < rows; part++) {
      double whole =
          rows <= 16 ? cost_few_seconds(t, DT_bf16, rows, n, k) : cost_product_seconds(t, DT_bf16, 1, rows, n, k);
      CHECKF(cost_few_seconds(t, DT_bf16, part, n, k) + cost_few_seconds(t, DT_bf16, rows - part, n, k) >=
                 whole * (1 - 1e-12),
             "%d and %d rows", part, rows - part);
    }
}

/* A row meets one matrix of a grouped operation, for any number of matrices; ranks that divide the matrices also divide
 * the rows. */
static void grouped_work(void) {
  Diags *d = diags_new(arena);
  Module *m = ir_parse("grouped",
                       "apc.ir 1\nmesh [a=2]\nfunc @main level 1 {\n  %x = input {name=\"x\"} : f32[6, 5]\n  %i = "
                       "input {name=\"i\"} : i64[6]\n"
                       "  %w = input {name=\"w\"} : f32[4, 5, 3]\n  %g = input {name=\"g\"} : f32[4, 5, 8]\n  %d = "
                       "input {name=\"d\"} : f32[4, 8, 3]\n"
                       "  %y = grouped_dot %x, %i, %w {start=0} : f32[6, 3]\n  %z = grouped_mlp %x, %i, %g, %g, %d "
                       "{start=0, kind=\"silu\"} : f32[6, 3]\n"
                       "  output \"y\" %y\n  output \"z\" %z\n}\n",
                       d);
  const Target *t = machine("link l at 10 GB/s latency 3 us; network n 8 at 16 Gbit/s latency 7 us;");
  CHECK(m && t);
  if (!m || !t) return;
  const Func *f = module_func(m, "main");
  CostModel *c = cost_model_new(m, t);
  const double whole[2] = {2 * 6 * 5 * 3, 2 * 6 * 8 * (5 + 5 + 3)};
  for (int k = 0; k < 2; k++) {
    const Op *op = op_of(f, func_find(f, k ? "z" : "y"));
    const Rule *r = rule_of(m, f, op);
    const char *const halved[] = {"r0", "v", k ? "f" : "k"};
    is(cost_op(c, f, op, r, &(Strategy){0}).flops, whole[k], "operations of all rows");
    for (int i = 0; i < (k ? 3 : 2); i++) { /* 5 is not halved */
      Strategy s = {.n = 1, .picks = {{0, (uint8_t)rule_factor_find(r, halved[i])}}};
      is(cost_op(c, f, op, r, &s).flops, whole[k] / 2, halved[i]);
    }
  }
  cost_model_free(c);
  module_free(m);
}

/* ---- a cpu that was measured */

static const Target *measured(int ranks) {
  static const char text[] =
      "kernels k { fork 1 us; cache 1 MB at 100 GB/s; cache 10 MB at 50 GB/s; product 2 us pack 1 ns turned 3 ns; "
      "convolution forward begin 4 us shared 1 us element 2 ns share 0.5; weights 1 MB at 80 GB/s; weights 2 MB at 10 "
      "GB/s; scores group 1 us row 10 ns pair 1 ns; attention 0.5; "
      "element exp 4 ns; }\n"
      "cpu c { cores 4; memory 16 GB at 20 GB/s; request 7 us ranks 3 us; launch 100 ns; peak f32 100 GFLOPS; kernels "
      "k; "
      "}\n"
      "machine m { devices 1 c; link l at 10 GB/s latency 1 us; source \"measured by apc calibrate on a day\"; }\n";
  Diags *d = diags_new(arena);
  const Target *t = topo_target_parse(d, arena, "here.topo", text, "m", ranks);
  if (!t) diags_print(d, stderr, false);
  return t;
}

/* Ranks share the cores: two have two threads each, and half of every cache. */
static void measured_shares(void) {
  const Target *one = measured(1), *two = measured(2);
  CHECK(one && two && one->small && two->small && strcmp(one->measured, "here.topo") == 0);
  if (!one || !two) return;
  is(one->request, 7e-6, "a request");
  is(two->request, 10e-6, "a request to two ranks");
  is(cost_cpu_rate(one, 1e6), 100e9, "values that fit into the first cache");
  is(cost_cpu_rate(one, 1.1e6), 50e9, "into the second");
  is(cost_cpu_rate(one, 11e6), 20e9, "into none");
  is(cost_cpu_rate(two, 0.6e6), 25e9, "into half of the second, at half the rate");
  is(cost_cpu_weights_rate(one, 1e6), 80e9, "weights that fit into a cache");
  is(cost_cpu_weights_rate(one, 3e6), 10e9, "weights that fit into none, never faster than smaller ones");
  is(cost_cpu_shared(one, 1e-3, false), 1e-3 + 1e-6, "shared among four");
  is(cost_cpu_shared(one, 1e-6, true), 4e-6, "on one of four");
  is(cost_cpu_shared(one, 0.1e-6, false), 0.4e-6, "less than a fork");
  is(cost_cpu_shared(two, 1e-6, true), 2e-6, "on one of two");
  is(cost_cpu_rows(one, OP_exp, 1e6, 17, 1e-3, 1), 1e-3 + 4e-3 + 1e-6, "a function of elements");
  is(cost_cpu_rows(two, OP_exp, 1e6, 17, 1e-3, 1), 1e-3 + 8e-3 + 1e-6, "on half of the cores");
  is(cost_cpu_rows(one, OP_exp, 100, 17, 1e-8, 1), 4 * (1e-8 + 4e-7), "too little to share");
}

static void measured_kernels(void) {
  const Target *t = measured(1);
  CHECK(t != NULL);
  if (!t) return;
  DotWork w = {.library = true, .dtype = DT_f32, .batch = 2, .m = 1000, .n = 100, .k = 50};
  const double arithmetic = 2 * 2 * 1000 * 100 * 50 / 100e9, fork = 1e-6;
  is(cost_cpu_product(t, &w, arithmetic, 1e-6, true), arithmetic + fork, "a weight in panels");
  is(cost_cpu_product(t, &w, arithmetic, 1e-3, true), 1e-3 + fork, "bound by memory");
  is(cost_cpu_product(t, &w, arithmetic, 0, false), arithmetic + fork + 2 * (2e-6 + 5000e-9), "two values");
  w.turned = true;
  is(cost_cpu_product(t, &w, arithmetic, 0, false), arithmetic + fork + 2 * (2e-6 + 15000e-9), "one turned");
  w.m = 10;
  is(cost_cpu_product(t, &w, arithmetic, 0, true), 4 * arithmetic, "fewer multiply-adds than threads share");
  is(cost_cpu_conv(t, DT_f32, CONV_forward, 1e9, 1e5, 16, 0), 5e-6 + 1e9 / 50e9 + 2e-4 + fork, "a convolution");
  is(cost_cpu_conv(t, DT_f32, CONV_forward, 1e9, 1e5, 8, 0), 5e-6 + 2e9 / 50e9 + 2e-4 + fork,
     "half a panel of channels");
  is(cost_cpu_attention(t, 8, 100, 200, 64, 0.5, 1e-3, 0), 1e-3 + 8e-6 + 8e-6 + 0.5 * 160000e-9 + fork, "attention");
}

/* Parts are never faster than the whole, on which bounds rest. */
static void measured_parts(void) {
  const Target *t = measured(1);
  for (double n = 1; t && n < 1e8; n *= 3)
    for (int parts = 2; parts < 100; parts *= 3) {
      const double bytes = 4 * n, rate = cost_cpu_rate(t, bytes);
      DotWork whole = {.library = true, .dtype = DT_f32, .batch = 1, .m = n, .n = 64, .k = 64}, part = whole;
      part.m = n / parts;
      const double all = cost_cpu_product(t, &whole, 2 * n * 64 * 64 / 100e9, bytes / rate, false),
                   each = cost_cpu_product(t, &part, 2 * part.m * 64 * 64 / 100e9, bytes / parts / rate, false);
      CHECKF(parts * each >= all * (1 - 1e-12), "%d of %g rows", parts, n);
      CHECKF(parts * cost_cpu_rows(t, OP_exp, n / parts, 17, bytes / parts / rate, 1) >=
                 cost_cpu_rows(t, OP_exp, n, 17, bytes / rate, 1) * (1 - 1e-12),
             "%d of %g elements", parts, n);
    }
}

int main(void) {
  arena = arena_new();
  RUN(plain_links);
  RUN(tiers);
  RUN(ways);
  RUN(pairs);
  RUN(sane);
  RUN(products);
  RUN(causal_attention);
  RUN(thin_products);
  RUN(parts_of_products);
  RUN(products_of_few_rows);
  RUN(grouped_work);
  RUN(measured_shares);
  RUN(measured_kernels);
  RUN(measured_parts);
  arena_free(arena);
  return test_summary();
}
