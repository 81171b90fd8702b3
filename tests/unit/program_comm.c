/* tests/unit/program_comm.c - every communication instruction on uneven shards, with guards, events and groups whose
 * order is not that of the mesh. */
#include "tests/programs.h"

enum { R = 3, C = 5 };

typedef struct Cuts {
  uint32_t rank, n, c, zero, one;  /* expressions */
  uint32_t lo, mine, c_lo, c_mine; /* this rank's part of n rows, of C columns */
} Cuts;

static Cuts cuts_of(Make *m, uint32_t axis, uint32_t n) {
  Cuts k = {.rank = program_coordinate(m->b, axis), .n = n, .c = make_number(m, C)};
  k.zero = make_number(m, 0);
  k.one = make_number(m, 1);
  k.lo = make_cut(m, k.rank, n, R);
  k.mine = make_sub(m, make_cut(m, make_next(m, k.rank), n, R), k.lo);
  k.c_lo = make_cut(m, k.rank, k.c, R);
  k.c_mine = make_sub(m, make_cut(m, make_next(m, k.rank), k.c, R), k.c_lo);
  return k;
}

static uint32_t activation(Make *m, uint32_t rows, uint32_t columns) {
  return make_tensor(m, PC_activation, DT_f32, 1, MAKE_LIST(m, rows, columns));
}

/* Every rank holds [lo, hi) of the rows and wants one row more on each side. */
static void add_halo(Make *m, const Cuts *k, uint32_t group, uint32_t x) {
  uint32_t hi = make_add(m, k->lo, k->mine), minus = make_number(m, -1);
  uint32_t wide = activation(m, make_add(m, k->mine, make_number(m, 2)), k->c);
  ProgramInstr e = make_comm(m, PI_exchange, "halo", group, MAKE_LIST(m, x, wide));
  e.exprs = MAKE_LIST(m, k->lo, hi, make_add(m, k->lo, minus), make_next(m, hi));
  e.value = -9;
  make_put(m, e);
  make_io(m, PI_fetch, 3, wide, 0, MAKE_LIST(m, make_add(m, k->lo, make_mul(m, make_number(m, 2), k->rank)), k->zero));
}

/* Only rank 0 keeps the gathered value, the others hold 0: the sum is the value.  Twice, both in flight at once. */
static void add_masked_sums(Make *m, const Cuts *k, uint32_t group, uint32_t full) {
  uint32_t other = program_expr(m->b, PX_min, k->rank, k->one), first = make_sub(m, k->one, other);
  uint32_t sums[2];
  for (int i = 0; i < 2; i++) {
    sums[i] = activation(m, k->n, k->c);
    ProgramInstr fill = make_instr(m, PI_fill, "mask", MAKE_LIST(m, sums[i])),
                 copy = make_instr(m, PI_copy, "mask", MAKE_LIST(m, full, sums[i]));
    fill.guard = other;
    copy.guard = first;
    copy.exprs = MAKE_LIST(m, k->n, k->zero, k->zero, k->c, k->zero, k->zero);
    make_put(m, fill);
    make_put(m, copy);
  }
  for (uint32_t i = 0; i < 2; i++) {
    ProgramInstr sum = make_comm(m, PI_all_reduce, "masked", group, MAKE_LIST(m, sums[i], sums[i]));
    sum.event = i;
    make_put(m, sum);
  }
  for (uint32_t i = 0; i < 2; i++) {
    ProgramInstr wait = make_instr(m, PI_wait, "masked", (ProgramList){0, 0});
    wait.event = i;
    make_put(m, wait);
  }
  for (uint32_t i = 0; i < 2; i++) make_io(m, PI_fetch, 4 + i, sums[i], 1, MAKE_LIST(m, k->zero, k->zero));
}

static Make everything(void) {
  Make m = make_new(1);
  Cuts k = cuts_of(&m, make_axis(&m, "a", R, false), make_symbol(&m, "n", 0, 7));
  uint32_t group = program_add_groups(m.b, &(ProgramGroup){MAKE_LIST(&m, 0), PROGRAM_NONE, PROGRAM_NONE});
  static const char *const outputs[] = {"gathered", "swapped", "scattered", "halo", "sum", "sum2"};
  ProgramList dims = MAKE_LIST(&m, k.n, k.c), wide = MAKE_LIST(&m, make_add(&m, k.n, make_number(&m, 2 * R)), k.c);
  make_port(&m, "x", DT_f32, dims);
  for (int i = 0; i < 6; i++) make_port(&m, outputs[i], DT_f32, i == 3 ? wide : dims);
  make_entry(&m, "main", 1, 6);
  m.events = 2;
  make_begin(&m, 0);
  uint32_t x = activation(&m, k.mine, k.c), full = activation(&m, k.n, k.c), columns = activation(&m, k.n, k.c_mine);
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, k.lo, k.zero));
  make_put(&m, make_comm(&m, PI_all_gather, "gather", group, MAKE_LIST(&m, x, full)));
  make_io(&m, PI_fetch, 0, full, 1, MAKE_LIST(&m, k.zero, k.zero));
  ProgramInstr swap = make_comm(&m, PI_all_to_all, "swap", group, MAKE_LIST(&m, x, columns));
  swap.dim = 1;
  swap.dim2 = 0;
  make_put(&m, swap);
  make_io(&m, PI_fetch, 1, columns, 0, MAKE_LIST(&m, k.zero, k.c_lo));
  ProgramInstr scatter = make_comm(&m, PI_reduce_scatter, "scatter", group, MAKE_LIST(&m, full, columns));
  scatter.dim = 1;
  make_put(&m, scatter);
  make_io(&m, PI_fetch, 2, columns, 0, MAKE_LIST(&m, k.zero, k.c_lo));
  add_halo(&m, &k, group, x);
  add_masked_sums(&m, &k, group, full);
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return m;
}

static void check_output(ApcModel *m, const char *name, const float *x, int n, float factor) {
  const void *data;
  OK(apc_output_data(m, name, &data));
  const float *y = data;
  for (int i = 0; i < n * C; i++) CHECKF(y[i] == factor * x[i], "n %d: %s[%d] is %g", n, name, i, (double)y[i]);
}

static void check_halo(ApcModel *m, const float *x, int n) {
  const void *data;
  OK(apc_output_data(m, "halo", &data));
  const float *y = data;
  for (int r = 0; r < R; r++) {
    int lo = r * n / R, hi = (r + 1) * n / R;
    for (int i = lo - 1; i <= hi; i++)
      for (int j = 0; j < C; j++, y++)
        CHECKF(*y == (i < 0 || i >= n ? -9 : x[i * C + j]), "n %d: rank %d row %d is %g", n, r, i, (double)*y);
  }
}

static void every_kind(void) {
  static const int sizes[] = {7, 3, 40, 1, 2, 0};
  Make make = everything();
  ApcModel *m;
  OK(apc_load(make_artifact(&make, "everything"), NULL, &m));
  float x[40 * C];
  for (int i = 0; i < 40 * C; i++) x[i] = (float)(i + 1);
  for (int s = 0; s < 6; s++) {
    OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){sizes[s], C}, x));
    OK(apc_run(m, NULL));
    check_output(m, "gathered", x, sizes[s], 1);
    check_output(m, "swapped", x, sizes[s], 1);
    check_output(m, "scattered", x, sizes[s], R);
    check_output(m, "sum", x, sizes[s], 1);
    check_output(m, "sum2", x, sizes[s], 1);
    check_halo(m, x, sizes[s]);
  }
  apc_close(m);
}

/* Mesh [a=2, b=2], but rows are cut over b first, then a. */
static void group_order_follows_its_axes(void) {
  Make make = make_new(1), *k = &make;
  uint32_t a = program_coordinate(k->b, make_axis(k, "a", 2, false)),
           b = program_coordinate(k->b, make_axis(k, "b", 2, false));
  uint32_t n = make_symbol(k, "n", 0, 7), r = make_add(k, make_mul(k, b, make_number(k, 2)), a),
           zero = make_number(k, 0);
  uint32_t lo = make_cut(k, r, n, 4), mine = make_sub(k, make_cut(k, make_next(k, r), n, 4), lo);
  uint32_t group = program_add_groups(k->b, &(ProgramGroup){MAKE_LIST(k, 1, 0), PROGRAM_NONE, PROGRAM_NONE});
  make_port(k, "x", DT_i64, MAKE_LIST(k, n));
  make_port(k, "y", DT_i64, MAKE_LIST(k, n));
  make_entry(k, "main", 1, 1);
  make_begin(k, 0);
  uint32_t x = make_tensor(k, PC_input, DT_i64, 1, MAKE_LIST(k, mine)),
           y = make_tensor(k, PC_output, DT_i64, 1, MAKE_LIST(k, n));
  make_io(k, PI_feed, 0, x, 0, MAKE_LIST(k, lo));
  make_put(k, make_comm(k, PI_all_gather, "gather", group, MAKE_LIST(k, x, y)));
  make_io(k, PI_fetch, 0, y, 3, MAKE_LIST(k, zero));
  make_call(k, 0, make_end(k, "body"), 0);
  make_schedules(k);
  ApcModel *m;
  OK(apc_load(make_artifact(k, "order"), NULL, &m));
  int64_t in[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, out[9] = {0};
  OK(apc_bind_input(m, "x", APC_I64, 1, (int64_t[]){9}, in));
  OK(apc_run(m, NULL));
  OK(apc_read_output(m, "y", out, sizeof out));
  CHECK(memcmp(in, out, sizeof in) == 0);
  apc_close(m);
}

int main(void) {
  setenv("APC_CHECK", "1", 1);
  RUN(every_kind);
  RUN(group_order_follows_its_axes);
  return test_summary();
}
