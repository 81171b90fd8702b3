/* ir/ops.h: the traits of operations.  The operations with each trait are listed here again, by hand, since passes,
 * prices and kernels rely on its promise; and the relations of traits to each other and to the rest of the row. */
#include "base/arena.h"
#include "ir/ir.h"
#include "ir/layout/rule.h"
#include "tests/test.h"

static Arena *arena;

static const char *all_with(bool (*has)(OpKind)) {
  Text t = {.arena = arena};
  for (OpKind k = OP_none; k < OP_COUNT; k++)
    if (has(k)) text_printf(&t, "%s%s", t.n ? " " : "", op_name(k));
  return text_str(&t);
}

static void sources(void) {
  CHECK_STR(all_with(op_is_source), "input param read const size iota random");
  CHECK_STR(all_with(op_is_declared), "input param read");
  CHECK_STR(all_with(op_is_at_entry), "input read");
  CHECK_STR(all_with(op_is_resident), "param read");
  CHECK_STR(all_with(op_is_constant), "const size iota");
  CHECK_STR(all_with(op_type_is_given),
            "input param read const size iota random random_keyed broadcast reshape slice scatter put conv "
            "conv_transpose conv_filter "
            "pool opaque all_gather reduce_scatter all_to_all exchange shard_slice");
}

static void effects(void) {
  CHECK_STR(all_with(op_is_state), "read write");
  CHECK_STR(all_with(op_acts), "random bind write");
}

static bool has_own_row(OpKind k) { return op_is_elementwise(k) && op_class(k) == OC_OTHER; }

static void elements(void) {
  CHECK_STR(all_with(has_own_row), "select cast bitcast copy");
  CHECK_STR(all_with(op_arranges), "copy broadcast reshape transpose");
  CHECK_STR(all_with(op_is_view), "copy broadcast reshape");
  CHECK_STR(all_with(op_is_windowed), "conv conv_transpose conv_filter pool pool_grad");
  CHECK_STR(all_with(op_is_grouped), "grouped_dot grouped_mlp");
  CHECK_STR(all_with(op_is_contraction),
            "dot grouped_dot grouped_mlp conv conv_transpose conv_filter attention attention_grad packed_dot");
  CHECK_STR(all_with(op_has_library_sums), "dot conv conv_transpose conv_filter attention attention_grad");
  CHECK_STR(all_with(op_is_along), "reduce softmax norm cross_entropy");
  CHECK_STR(all_with(op_is_composite), "softmax norm rope attention attention_grad packed_dot cross_entropy");
}

static void structure(void) {
  CHECK_STR(all_with(op_is_call), "call result");
  CHECK_STR(all_with(op_is_loop_part), "loop carry repeat leave");
  CHECK_STR(all_with(op_level2_only),
            "all_reduce all_gather reduce_scatter all_to_all exchange shard_slice mask_partial transfer");
  CHECK_STR(all_with(op_is_comm), "all_reduce all_gather reduce_scatter all_to_all exchange transfer");
}

/* The promises of the comments in ir/ops.h for all operations that have a trait. */
static void promises(void) {
  for (OpKind k = OP_none; k < OP_COUNT; k++) {
    const char *name = op_name(k);
    bool source = op_is_source(k), elementwise = op_is_elementwise(k);
    if (source) CHECKF(op_max_operands(k) == 0 && op_results(k) == 1 && op_type_is_given(k), "%s", name);
    if (op_is_declared(k)) CHECKF(source && op_attr_rule(k, AT_name) == 1, "%s", name);
    if (op_is_at_entry(k) || op_is_resident(k)) CHECKF(op_is_declared(k), "%s", name);
    if (op_is_constant(k)) CHECKF(source && !op_is_declared(k) && !op_acts(k), "%s", name);
    if (op_is_state(k)) CHECKF(op_attr_rule(k, AT_name) == 1, "%s", name);
    if (op_class(k) != OC_OTHER) CHECKF(elementwise, "%s", name);
    if (elementwise) CHECKF(!source && op_results(k) == 1 && op_element_cost(k) >= 1, "%s", name);
    if (op_arranges(k)) CHECKF(op_min_operands(k) == 1 && op_max_operands(k) == 1, "%s", name);
    if (op_is_view(k)) CHECKF(op_arranges(k), "%s", name);
    if (op_is_grouped(k) || op_has_library_sums(k)) CHECKF(op_is_contraction(k), "%s", name);
    if (op_is_grouped(k)) CHECKF(!op_has_library_sums(k) && op_min_operands(k) > 2, "%s", name);
    if (op_is_comm(k)) CHECKF(op_level2_only(k), "%s", name);
  }
}

/* Required keys are found one after the other; keys in brackets are not among them. */
static void required_attributes(void) {
  for (OpKind k = OP_none; k < OP_COUNT; k++)
    for (int key = 0; key <= AT_COUNT; key++) {
      int next = key;
      while (next < AT_COUNT && op_attr_rule(k, (AttrKey)next) != 1) next++;
      CHECKF(op_attr_required(k, (AttrKey)key) == (AttrKey)next, "%s from %d", op_name(k), key);
    }
  CHECK(op_attr_rule(OP_param, AT_name) == 1 && op_attr_rule(OP_param, AT_axis) == -1);
  CHECK(op_attr_rule(OP_attention, AT_sums) == 0 && op_attr_required(OP_neg, (AttrKey)0) == AT_COUNT);
}

/* Equal rules of a module are shared; operations that differ in an input of the rule have different ones. */
static void equal_rules(void) {
  static const char *const text =
      "apc.ir 1\nfunc @main level 1 {\n  %x = input {name=\"x\"} : f32[4, 6]\n  %z = input {name=\"z\"} : f32[5, 6]\n"
      "  %a = exp %x : f32[4, 6]\n  %b = exp %a : f32[4, 6]\n  %c = exp %z : f32[5, 6]\n  %d = add %a, %b : f32[4, 6]\n"
      "  %e = add %d, %a : f32[4, 6]\n  output \"c\" %c\n  output \"e\" %e\n}\n";
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("rules", text, diags);
  CHECK(m != NULL);
  diags_print(diags, stderr, false);
  if (!m) return;
  const Func *f = module_func(m, "main");
  const Rule *rules[5];
  for (int i = 0; i < 5; i++) rules[i] = rule_of(m, f, op_of(f, func_find(f, (char[]){(char)('a' + i), 0})));
  CHECK(rules[0] == rules[1] && rules[3] == rules[4]);
  CHECK(rules[0] != rules[2] && rules[0] != rules[3]);
  module_free(m);
}

/* Traits that depend on attributes. */
static void of_attributes(void) {
  static const char *const text =
      "apc.ir 1\nfunc @main level 1 {\n  %one = const {value=3} : i64[2]\n  %list = const {ints=[1, 2]} : i64[2]\n"
      "  %size = size {expr=2} : i64[2]\n  %iota = iota {axis=0, start=0} : i64[2]\n"
      "  %x = input {name=\"x\"} : i64[2]\n  %y = add %x, %one : i64[2]\n  output \"y\" %y\n}\n";
  static const struct {
    const char *name;
    bool splat, anywhere;
  } rows[] = {{"one", true, true},   {"list", false, false}, {"size", true, true},
              {"iota", false, true}, {"x", false, false},    {"y", false, false}};
  Diags *d = diags_new(arena);
  Module *m = ir_parse("traits", text, d);
  CHECK(m != NULL);
  diags_print(d, stderr, false);
  if (!m) return;
  const Func *f = module_func(m, "main");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const Op *op = op_of(f, func_find(f, rows[i].name));
    CHECKF(op_is_splat(op) == rows[i].splat, "%s", rows[i].name);
    CHECKF(op_is_anywhere(op) == rows[i].anywhere, "%s", rows[i].name);
  }
  module_free(m);
}

int main(void) {
  arena = arena_new();
  RUN(sources);
  RUN(effects);
  RUN(elements);
  RUN(structure);
  RUN(promises);
  RUN(required_attributes);
  RUN(of_attributes);
  RUN(equal_rules);
  arena_free(arena);
  return test_summary();
}
