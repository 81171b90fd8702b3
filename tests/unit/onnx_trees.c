/* Decision trees of ai.onnx.ml: a tree by hand, and ensembles that do not fit. */
#include "tests/onnx_run.h"

static void float_list_attr(Onnx__NodeProto *n, const char *name, const char *values) {
  Onnx__AttributeProto *a = attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, 0);
  char **part = list_of(values, &a->n_floats);
  a->floats = ARENA_ARRAY(arena, float, a->n_floats + 1);
  for (size_t i = 0; i < a->n_floats; i++) a->floats[i] = (float)atof(part[i]);
}

static void string_list_attr(Onnx__NodeProto *n, const char *name, const char *values) {
  Onnx__AttributeProto *a = attr(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS, 0);
  char **part = list_of(values, &a->n_strings);
  a->strings = ARENA_ARRAY(arena, ProtobufCBinaryData, a->n_strings + 1);
  for (size_t i = 0; i < a->n_strings; i++) a->strings[i] = (ProtobufCBinaryData){strlen(part[i]), (uint8_t *)part[i]};
}

/* x0 <= 1 ? (x1 > 2 ? 10 : 20) : 30, twice, the second with another weight in its last leaf; NaN goes on to yes. */
static Onnx__NodeProto *forest(void) {
  Onnx__NodeProto *n = node("TreeEnsembleRegressor", "x", "y");
  n->domain = arena_strdup(arena, "ai.onnx.ml");
  int_list_attr(n, "nodes_treeids", "0,0,0,0,0,1,1,1,1,1");
  int_list_attr(n, "nodes_nodeids", "0,1,2,3,4,0,1,2,3,4");
  int_list_attr(n, "nodes_featureids", "0,1,0,0,0,0,1,0,0,0");
  float_list_attr(n, "nodes_values", "1,2,0,0,0,1,2,0,0,0");
  string_list_attr(n, "nodes_modes", "BRANCH_LEQ,BRANCH_GT,LEAF,LEAF,LEAF,BRANCH_LEQ,BRANCH_GT,LEAF,LEAF,LEAF");
  int_list_attr(n, "nodes_truenodeids", "1,2,0,0,0,1,2,0,0,0");
  int_list_attr(n, "nodes_falsenodeids", "4,3,0,0,0,4,3,0,0,0");
  int_list_attr(n, "nodes_missing_value_tracks_true", "1,0,0,0,0,1,0,0,0,0");
  int_list_attr(n, "target_treeids", "0,0,0,1,1,1");
  int_list_attr(n, "target_nodeids", "2,3,4,2,3,4");
  int_list_attr(n, "target_ids", "0,0,0,0,0,0");
  float_list_attr(n, "target_weights", "10,20,30,10,20,-1");
  return n;
}

static void rows_go_to_their_leaves(void) {
  start(17);
  given("x", F32, "5,2", "0,3,1,2,2,9,nan,3,0,nan");
  out("y"), forest();
  RUNS();
  GIVES("y", "20,40,29,20,40");
  static const char *const aggregates[] = {"AVERAGE", "MIN", "MAX"};
  static const char *const wanted[] = {"10,20,14.5,10,20", "10,20,-1,10,20", "10,20,30,10,20"};
  for (int i = 0; i < 3; i++) {
    start(17);
    given("x", F32, "5,2", "0,3,1,2,2,9,nan,3,0,nan");
    out("y"), string_attr(forest(), "aggregate_function", aggregates[i]);
    RUNS();
    GIVES("y", wanted[i]);
  }
  start(17); /* a single row of integers */
  given("x", I64, "2", "2,0");
  out("y"), forest();
  RUNS();
  GIVES("y", "29");
}

static void set(Onnx__NodeProto *n, const char *name, const char *numbers) {
  for (size_t i = 0; i < n->n_attribute; i++) {
    Onnx__AttributeProto *a = n->attribute[i];
    if (strcmp(a->name, name) != 0) continue;
    size_t count;
    char **list = list_of(numbers, &count);
    a->n_ints = count;
    for (size_t k = 0; k < count; k++) a->ints[k] = atoll(list[k]);
  }
}

static void set_floats(Onnx__NodeProto *n, const char *name, const char *numbers) {
  for (size_t i = 0; i < n->n_attribute; i++) {
    Onnx__AttributeProto *a = n->attribute[i];
    if (strcmp(a->name, name) != 0) continue;
    char **list = list_of(numbers, &a->n_floats);
    for (size_t k = 0; k < a->n_floats; k++) a->floats[k] = (float)atof(list[k]);
  }
}

static void ensembles_that_do_not_fit(void) {
  static const struct {
    const char *name, *numbers, *why;
  } cases[] = {
      {"nodes_nodeids", "0,1,2,3", "nodes_nodeids has 4 elements, 10 are needed"},
      {"nodes_truenodeids", "1,9,0,0,0,1,2,0,0,0", "node 1 of tree 0 leads to no node"},
      {"nodes_truenodeids", "1,0,0,0,0,1,2,0,0,0", "node 0 is in no tree"},
      {"nodes_truenodeids", "1,3,0,0,0,1,2,0,0,0", "tree 0 has no first node, or more than one"},
      {"nodes_falsenodeids", "4,1,0,0,0,4,3,0,0,0", "tree 0 has no first node, or more than one"},
      {"nodes_featureids", "0,-1,0,0,0,0,1,0,0,0", "feature -1 is negative"},
      {"nodes_featureids", "0,9223372036854775807,0,0,0,0,1,0,0,0", "feature 9223372036854775807 is not below"},
      {"nodes_featureids", "0,2147483647,0,0,0,0,1,0,0,0", "feature 2147483647 is not below"},
      {"nodes_nodeids", "0,1,2,3,4,0,1,2,3,3", "tree 1 has two nodes 3"},
      {"nodes_featureids", "0,7,0,0,0,0,1,0,0,0", "the trees ask for 8 features of f32[5, 2]"},
      {"target_nodeids", "2,3,8,2,3,4", "target 2 is of no node"},
      {"target_ids", "0,0,0,0,0,4", "target 4 is not one of 1"},
      {"target_treeids", "0,0", "target_treeids has 2 elements, 6 are needed"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    in("x", F32, "5,2"), out("y");
    set(forest(), cases[i].name, cases[i].numbers);
    expect(DIAG_onnx_node, cases[i].why, "/y");
  }
  begin();
  in("x", F32, "5,2"), out("y"), string_attr(forest(), "post_transform", "TANH");
  expect(DIAG_onnx_node, "post_transform \"TANH\" is not known", "/y");
  begin();
  in("x", F32, "5,2,2"), out("y"), forest();
  expect(DIAG_onnx_node, "rows are expected", "/y");
}

/* Leaves of the first tree have one of two targets, of which one weight is infinite; its last leaf has none, nor has
 * the second tree. */
static void infinite_weights_and_leaves_without(void) {
  static const char *const aggregates[] = {"MIN", "MAX"};
  for (int i = 0; i < 2; i++) {
    start(17);
    given("x", F32, "3,2", "0,3,1,2,2,9");
    out("y");
    Onnx__NodeProto *n = forest();
    string_attr(n, "aggregate_function", aggregates[i]);
    attr(n, "n_targets", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, 2);
    set(n, "target_treeids", "0,0"), set(n, "target_nodeids", "2,3"), set(n, "target_ids", "0,1");
    set_floats(n, "target_weights", i ? "-inf,7" : "inf,7");
    RUNS();
    GIVES("y", i ? "-inf,0,0,7,0,0" : "inf,0,0,7,0,0");
  }
}

/* Trees of one leaf in any order: as many as may be, and one more.  Reading them must not take the square of time. */
static void many_trees(void) {
  enum { MOST = 1 << 16 };
  for (int over = 0; over < 2; over++) {
    begin();
    int count = MOST + over;
    Text trees = {.arena = arena}, zeros = {.arena = arena}, leaves = {.arena = arena};
    for (int64_t i = 0; i < count; i++) {
      text_printf(&trees, "%s%lld", i ? "," : "", (long long)(i * 40503 % count));
      text_add(&zeros, i ? ",0" : "0"), text_add(&leaves, i ? ",LEAF" : "LEAF");
    }
    in("x", F32, "5,2"), out("y");
    Onnx__NodeProto *n = node("TreeEnsembleRegressor", "x", "y");
    n->domain = arena_strdup(arena, "ai.onnx.ml");
    static const char *const lists[] = {"nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"};
    for (int k = 0; k < 4; k++) int_list_attr(n, lists[k], text_str(&zeros));
    int_list_attr(n, "nodes_treeids", text_str(&trees)), string_list_attr(n, "nodes_modes", text_str(&leaves));
    float_list_attr(n, "nodes_values", text_str(&zeros));
    /* the last weight is of no tree, which is found last */
    int_list_attr(n, "target_treeids", "0,1,70000"), int_list_attr(n, "target_nodeids", "0,0,0");
    int_list_attr(n, "target_ids", "0,0,0"), float_list_attr(n, "target_weights", "1,2,3");
    expect(DIAG_onnx_node, over ? "more than 65536 nodes of trees" : "target 2 is of no node", "/y");
  }
}

/* One leaf, whose weights are scores of classes. */
static void classes_that_have_no_meaning(void) {
  static const struct {
    const char *labels, *ids, *post, *why;
  } cases[] = {
      {"3,4", "0,1", "NONE", "weights of the second of two classes are not supported"},
      {"3,4", "1,1", "NONE", "weights of the second of two classes are not supported"},
      {"3,4", "0,0", "PROBIT", "PROBIT of two classes"},
      {"3", "0,0", "NONE", "1 labels"},
      {"3,4,5", "0,3", "NONE", "target 3 is not one of 3"},
      {"", "0,1", "NONE", "only labels that are integers are supported"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    in("x", F32, "5,2"), out("y");
    Onnx__NodeProto *n = node("TreeEnsembleClassifier", "x", "y");
    n->domain = arena_strdup(arena, "ai.onnx.ml");
    static const char *const zeros[] = {"nodes_treeids",     "nodes_nodeids",      "nodes_featureids",
                                        "nodes_truenodeids", "nodes_falsenodeids", NULL};
    for (int k = 0; zeros[k]; k++) int_list_attr(n, zeros[k], "0");
    float_list_attr(n, "nodes_values", "0"), string_list_attr(n, "nodes_modes", "LEAF");
    int_list_attr(n, "class_treeids", "0,0"), int_list_attr(n, "class_nodeids", "0,0");
    int_list_attr(n, "class_ids", cases[i].ids), float_list_attr(n, "class_weights", "0.5,1");
    if (*cases[i].labels) int_list_attr(n, "classlabels_int64s", cases[i].labels);
    else string_list_attr(n, "classlabels_strings", "a,b,c");
    string_attr(n, "post_transform", cases[i].post);
    expect(DIAG_onnx_node, cases[i].why, "/y");
  }
}

int main(void) {
  RUN(rows_go_to_their_leaves);
  RUN(ensembles_that_do_not_fit);
  RUN(infinite_weights_and_leaves_without);
  RUN(many_trees);
  RUN(classes_that_have_no_meaning);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
