/* tests/unit/onnx_slice.c - every kind of start, end and step of Slice, compared with a loop written from the standard:
 * negative bounds count from the end, then a start is clamped to [0, extent] and an end to [0, extent] for positive
 * steps, to [0, extent - 1] and [-1, extent - 1] for negative ones.  Extents as numbers and as symbols. */
#include "ir/run/interp.h"
#include "tests/onnx_graph.h"

static const int64_t bounds[] = {
    INT64_MIN, INT64_MIN + 1,    -(INT64_C(1) << 41), -7,       -6, -5, -4, -1, 0, 1, 3, 4, 5, 6,
    7,         INT64_C(1) << 41, INT64_MAX - 1,       INT64_MAX};
static const int64_t steps[] = {INT64_MIN, -6, -2, -1, 1, 2, 6, INT64_MAX};
static const int64_t extents[] = {1, 2, 5, 6};
enum {
  BOUNDS = sizeof bounds / sizeof *bounds,
  STEPS = sizeof steps / sizeof *steps,
  EXTENTS = sizeof extents / sizeof *extents
};

static int64_t clamp(__int128 x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : (int64_t)x; }

/* The places that are read, as text. */
static const char *standard(int64_t extent, int64_t start, int64_t end, int64_t step) {
  __int128 from = start, to = end;
  if (from < 0) from += extent;
  if (to < 0) to += extent;
  from = clamp(from, 0, step > 0 ? extent : extent - 1);
  to = clamp(to, step > 0 ? 0 : -1, step > 0 ? extent : extent - 1);
  Text text = {.arena = arena};
  for (__int128 i = from; step > 0 ? i < to : i > to; i += step) text_printf(&text, "%d,", (int)i);
  return text.n ? text_str(&text) : "none";
}

static const char *elements(const InterpTensor *t) {
  Text text = {.arena = arena};
  for (int64_t i = 0; t && i < interp_elements(t); i++) text_printf(&text, "%d,", (int)t->cells[i].i);
  return !t ? "no output" : text.n ? text_str(&text) : "none";
}

/* x[extent] holds its places; output k has end number k. */
static void compare(int64_t extent, int64_t start, int64_t step) {
  int64_t *symbols = interp_symbols(module, arena);
  int symbol = module_symbol_find(module, "n");
  if (symbol >= 0) symbols[symbol] = extent;
  InterpNamed x = {"x", interp_tensor(arena, DT_i64, 1, &extent)};
  for (int64_t i = 0; i < extent; i++) x.tensor.cells[i].i = i;
  InterpResult result;
  if (!interp_run(module, module_func(module, "main"), &(InterpOptions){.symbols = symbols}, 1, &x, arena, &result,
                  diags)) {
    CHECKF(false, "it does not run");
    diags_print(diags, stderr, false);
    return;
  }
  for (int k = 0; k < BOUNDS; k++) {
    const char *want = standard(extent, start, bounds[k], step);
    const char *got = elements(interp_find(result.outputs, result.noutputs, arena_printf(arena, "y%d", k)));
    CHECKF(strcmp(want, got) == 0, "%s of %lld, start %lld, end %lld, step %lld: %s, not %s",
           symbol >= 0 ? "a symbol" : "a number", (long long)extent, (long long)start, (long long)bounds[k],
           (long long)step, got, want);
  }
}

/* The extent is 0 for a symbol. */
static bool slices(int64_t extent, int64_t start, int64_t step) {
  begin();
  in("x", I64, extent ? arena_printf(arena, "%lld", (long long)extent) : "n");
  ints("start", arena_printf(arena, "%lld", (long long)start)), ints("axis", "-1"),
      ints("step", arena_printf(arena, "%lld", (long long)step));
  for (int k = 0; k < BOUNDS; k++) {
    ints(arena_printf(arena, "end%d", k), arena_printf(arena, "%lld", (long long)bounds[k]));
    node("Slice", arena_printf(arena, "x,start,end%d,axis,step", k), arena_printf(arena, "y%d", k));
    out(arena_printf(arena, "y%d", k));
  }
  if (import()) return true;
  CHECKF(false, "start %lld, step %lld of %lld is refused", (long long)start, (long long)step, (long long)extent);
  diags_print(diags, stderr, false);
  return false;
}

static void bounds_are_clamped_as_the_standard_says(void) {
  for (int s = 0; s < BOUNDS; s++)
    for (int t = 0; t < STEPS; t++) {
      for (int e = 0; e < EXTENTS; e++)
        if (slices(extents[e], bounds[s], steps[t])) compare(extents[e], bounds[s], steps[t]);
      if (!slices(0, bounds[s], steps[t])) continue;
      for (int e = 0; e < EXTENTS; e++) compare(extents[e], bounds[s], steps[t]);
    }
}

/* x[: n - 3]: from the front or from the end, depending on n. */
static void a_bound_of_either_sign(void) {
  for (int side = 0; side < 2; side++)
    for (int s = 0; s < STEPS; s++) {
      begin();
      in("x", I64, "n"), out("y");
      ints("three", "3"), ints("axis", "0"), ints("other", side ? "-1" : "1");
      ints("step", arena_printf(arena, "%lld", (long long)steps[s]));
      node("Shape", "x", "size"), node("Sub", "size,three", "bound"),
          node("Slice", side ? "x,bound,other,axis,step" : "x,other,bound,axis,step", "y");
      IMPORTS();
      for (int64_t n = 1; n < 8; n++) {
        int64_t *symbols = interp_symbols(module, arena);
        symbols[module_symbol_find(module, "n")] = n;
        InterpNamed x = {"x", interp_tensor(arena, DT_i64, 1, &n)};
        for (int64_t i = 0; i < n; i++) x.tensor.cells[i].i = i;
        InterpResult result = {0};
        CHECK(interp_run(module, module_func(module, "main"), &(InterpOptions){.symbols = symbols}, 1, &x, arena,
                         &result, diags));
        const char *want = side ? standard(n, n - 3, -1, steps[s]) : standard(n, 1, n - 3, steps[s]);
        const char *got = elements(interp_find(result.outputs, result.noutputs, "y"));
        CHECKF(strcmp(got, want) == 0, "n %lld, step %lld, side %d: %s, not %s", (long long)n, (long long)steps[s],
               side, got, want);
      }
    }
}

/* Shape[INT64_MIN : -2], as exporters write shape[:-2]. */
static void lists_of_sizes_are_cut_likewise(void) {
  begin();
  in("x", F32, "batch,heads,4,5"), out("y");
  ints("from", "-9223372036854775808"), ints("to", "-2"), ints("axis", "0"), ints("rest", "20");
  node("Shape", "x", "s"), node("Slice", "s,from,to,axis", "leading"), node("Concat", "leading,rest", "shape"),
      node("Reshape", "x,shape", "y");
  attr(nodes.items[2], "axis", INT, 0);
  IMPORTS();
  HAS("reshape %x : f32[batch, heads, 20]");
}

/* The largest 32-bit number is an open end too, if the list has that type. */
static void ends_of_32_bits(void) {
  begin();
  in("x", F32, "n,4"), out("y");
  ints("from", "0"), ints("to", "2147483647"), ints("axis", "0");
  for (size_t i = 0; i < initializers.n; i++) initializers.items[i]->data_type = 6;
  for (size_t i = 0; i < initializers.n; i++) {
    Onnx__TensorProto *t = initializers.items[i];
    t->int32_data = ARENA_ARRAY(arena, int32_t, 1), t->int32_data[0] = (int32_t)t->int64_data[0];
    t->n_int32_data = 1, t->n_int64_data = 0;
  }
  node("Slice", "x,from,to,axis", "s"), node("Neg", "s", "y");
  IMPORTS();
  HAS_NOT("min(");
}

int main(void) {
  RUN(bounds_are_clamped_as_the_standard_says);
  RUN(a_bound_of_either_sign);
  RUN(lists_of_sizes_are_cut_likewise);
  RUN(ends_of_32_bits);
  return test_summary();
}
