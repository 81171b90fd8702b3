/* tests/onnx/runtime.c - compares operators of ONNX Runtime with the results of its own kernels (runtime.txt, which
 * runtime_cases.py records): each case is imported, interpreted and compared. */
#include <ctype.h>

#include "base/file.h"
#include "frontend/onnx/body.h"
#include "tests/onnx_numbers.h"

enum { MAX_INPUTS = 20, MAX_OUTPUTS = 4 };

static const struct {
  const char *name;
  int32_t onnx;
  DType dtype;
} types[] = {{"f32", 1, DT_f32}, {"u8", 2, DT_u8},   {"i8", 3, DT_i8},     {"u16", 4, DT_u16},
             {"i32", 6, DT_i32}, {"i64", 7, DT_i64}, {"bool", 9, DT_bool}, {NULL, 0, DT_f32}};

/* Reads a line `type[dims] what`: returns its type, the row of `types`, and the start of `what`. */
static int read_type(char *line, char **dims, char **what) {
  size_t n = strcspn(line, "[");
  int row = 0;
  while (types[row].name && (strlen(types[row].name) != n || strncmp(types[row].name, line, n) != 0)) row++;
  CHECKF(types[row].name, "no type in \"%s\"", line);
  char *end = strchr(line, ']');
  *end = '\0';
  *dims = line + n + 1, *what = end + 1;
  return row;
}

/* A scalar, as an initializer. */
static void read_known(const char *name, char *line) {
  char *dims, *what;
  Onnx__TensorProto *t = ARENA_NEW(arena, Onnx__TensorProto);
  onnx__tensor_proto__init(t);
  t->name = arena_strdup(arena, name);
  t->has_data_type = 1, t->data_type = types[read_type(line, &dims, &what)].onnx;
  t->int32_data = ARENA_ARRAY(arena, int32_t, 1), t->n_int32_data = 1;
  t->int32_data[0] = atoi(strchr(what, '=') + 1);
  ARENA_PUSH(arena, &initializers, t);
}

static InterpNamed read_input(const char *name, char *line) {
  char *text, *what;
  int row = read_type(line, &text, &what);
  size_t rank, count;
  char **list = list_of(text, &rank);
  int64_t dims[MAX_RANK] = {0};
  for (size_t d = 0; d < rank; d++) dims[d] = atoll(list[d]);
  in(name, types[row].onnx, text);
  InterpNamed x = {name, interp_tensor(arena, types[row].dtype, (int)rank, dims)};
  const char *range = strstr(what, "..");
  bool is_float = dtype_is_float(types[row].dtype);
  double low = atof(what), high = range ? atof(range + 2) : 0;
  list = list_of(what, &count);
  for (int64_t i = 0; i < interp_elements(&x.tensor); i++) {
    double v = range ? number(i, low, high + !is_float) : atof(list[i]);
    if (is_float) x.tensor.cells[i].f = (double)(float)v;
    else x.tensor.cells[i].i = (int64_t)floor(v);
  }
  return x;
}

static void read_attribute(Onnx__NodeProto *n, char *item) {
  char *value = strchr(item, '=');
  *value++ = '\0';
  bool real = strpbrk(value, ".e") && !isalpha((unsigned char)*value);
  if (*value == '[') {
    value[strlen(value) - 1] = '\0';
    if (!real) return int_list_attr(n, item, value + 1);
    Onnx__AttributeProto *a = attr(n, item, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, 0);
    char **list = list_of(value + 1, &a->n_floats);
    a->floats = ARENA_ARRAY(arena, float, a->n_floats);
    for (size_t i = 0; i < a->n_floats; i++) a->floats[i] = strtof(list[i], NULL);
  } else if (isalpha((unsigned char)*value)) {
    string_attr(n, item, value);
  } else {
    Onnx__AttributeProto *a = attr(n, item, real ? FLOAT : INT, real ? 0 : atoll(value));
    if (real) a->has_f = 1, a->f = strtof(value, NULL);
  }
}

/* A quantised result may be rounded the other way: ONNX Runtime's kernels compute it with fewer steps. */
static void compare(const char *what, const InterpTensor *got, char *line) {
  char *text, *rest;
  int row = read_type(line, &text, &rest);
  size_t rank, count;
  char **dims = list_of(text, &rank);
  int64_t step = 1;
  while (*rest == ' ') rest++;
  if (*rest == '/') step = strtoll(rest + 1, &rest, 10);
  while (*rest == ' ') rest++;
  char **list = list_of(rest, &count);
  if (!got) return;
  CHECKF(got->dtype == types[row].dtype && got->rank == (int)rank, "%s has another type", what);
  for (size_t d = 0; d < rank && (int)rank == got->rank; d++)
    CHECKF(got->dims[d] == atoll(dims[d]), "%s has another shape", what);
  bool is_float = dtype_is_float(got->dtype);
  for (size_t i = 0; i < count && (int64_t)i * step < interp_elements(got); i++) {
    double x = is_float ? got->cells[(int64_t)i * step].f : (double)got->cells[(int64_t)i * step].i, y = atof(list[i]);
    CHECKF(fabs(x - y) <= (is_float ? 2e-5 * (1 + fabs(y)) : 1), "%s: element %lld is %g, not %g", what,
           (long long)i * step, x, y);
  }
}

typedef struct Case {
  char *head, *in[MAX_INPUTS], *out[MAX_OUTPUTS];
  int nin, nout;
} Case;

static const char *names(const char *letter, int n, char *const *lines) {
  Text t = {.arena = arena};
  for (int i = 0; i < n; i++)
    text_printf(&t, i ? ",%s" : "%s", *lines[i] == '_' ? "" : arena_printf(arena, "%s%d", letter, i));
  return text_str(&t);
}

static void check_case(const Case *c) {
  InterpNamed list[MAX_INPUTS];
  int given = 0;
  begin();
  char *head = arena_strdup(arena, c->head), *attrs = strchr(head, ' ');
  if (attrs) *attrs++ = '\0';
  char *type = strrchr(head, '.') + 1;
  Onnx__NodeProto *n = node(type, names("x", c->nin, c->in), names("y", c->nout, c->out));
  n->attribute = ARENA_ARRAY(arena, Onnx__AttributeProto *, 32);
  if (strncmp(head, "onnx.", 5) != 0) n->domain = arena_strndup(arena, head, (size_t)(type - 1 - head));
  for (char *item = attrs ? strtok(attrs, " ") : NULL; item; item = strtok(NULL, " ")) read_attribute(n, item);
  for (int i = 0; i < c->nin; i++)
    if (strchr(c->in[i], '=')) read_known(arena_printf(arena, "x%d", i), arena_strdup(arena, c->in[i]));
    else if (*c->in[i] != '_') list[given++] = read_input(arena_printf(arena, "x%d", i), arena_strdup(arena, c->in[i]));
  for (int i = 0; i < c->nout; i++)
    if (*c->out[i] != '_') out(arena_printf(arena, "y%d", i));
  InterpResult result = {0};
  bool ok = import() &&
            interp_run(module, module_func(module, "main"), &(InterpOptions){.symbols = interp_symbols(module, arena)},
                       given, list, arena, &result, diags);
  CHECKF(ok, "%s is refused, or does not run", c->head);
  if (!ok) diags_print(diags, stderr, false);
  for (int i = 0; ok && i < c->nout; i++)
    if (*c->out[i] != '_')
      compare(arena_printf(arena, "%s, output %d", c->head, i),
              interp_find(result.outputs, result.noutputs, arena_printf(arena, "y%d", i)),
              arena_strdup(arena, c->out[i]));
}

/* A case is its head, lines that begin with two blanks, and lines that begin with "> ". */
static int check_all(char *text) {
  int cases = 0;
  char *next = text;
  Case c = {0};
  while (next) {
    char *line = next;
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    if (strncmp(line, "  ", 2) == 0 && c.nin < MAX_INPUTS) c.in[c.nin++] = line + 2;
    else if (strncmp(line, "> ", 2) == 0 && c.nout < MAX_OUTPUTS) c.out[c.nout++] = line + 2;
    else if (*line && *line != '#') c = (Case){.head = line};
    bool last = !next || *next == '\n' || !*next;
    if (!last || !c.nout) continue;
    check_case(&c);
    c = (Case){0};
    cases++;
  }
  return cases;
}

static char *recorded;

static void operators_give_what_their_kernels_gave(void) {
  int cases = check_all(recorded);
  CHECKF(cases > 50, "%d cases", cases);
}

/* Asserts that a body parses, even if its call is refused. */
static void every_body_parses(void) {
  for (size_t i = 0; i < onnx_nbodies; i++) {
    const char *why;
    begin();
    CHECK(!onnx_body_of(arena, &onnx_bodies[i], node("X", "", "a,b,c,d,e,f"), &why) && why);
    CHECK(onnx_body_find(onnx_bodies[i].domain, onnx_bodies[i].type) == &onnx_bodies[i]);
  }
}

static Onnx__NodeProto *of_runtime(const char *type, const char *in_names, const char *out_names) {
  Onnx__NodeProto *n = node(type, in_names, out_names);
  n->domain = arena_strdup(arena, "com.microsoft");
  return n;
}

static void what_is_not_done_is_refused(void) {
  begin();
  in("x", F32, "2,3"), in("w", F32, "3,4"), out("y");
  string_attr(of_runtime("FusedGemm", "x,w", "y"), "activation", "Mish");
  expect(DIAG_onnx_node, "FusedGemm: attribute \"activation\" is \"Mish\"; apc takes \"\", \"Celu\"", "/y");
  begin();
  in("x", F32, "2,3"), out("y");
  attr(of_runtime("Gelu", "x", "y"), "approximate", INT, 1);
  expect(DIAG_onnx_node, "Gelu: has no attribute \"approximate\"", "/y");
  begin();
  in("x", F32, "2,3,4"), in("g", F32, "4"), out("y"), out("i");
  of_runtime("SkipSimplifiedLayerNormalization", "x,x,g", "y,,i");
  expect(DIAG_onnx_node, "output 2 (inv_std_var) is not computed", "/y,,i");
  begin();
  in("x", F32, "2,3,4"), in("w", F32, "4,12"), out("y");
  Onnx__NodeProto *n = of_runtime("Attention", "x,w", "y");
  attr(n, "num_heads", INT, 2), attr(n, "do_rotary", INT, 1);
  expect(DIAG_onnx_node, "Attention: attribute \"do_rotary\" is 1; apc takes 0", "/y");
  begin();
  in("x", F32, "2,3,4"), out("y");
  attr(of_runtime("MultiHeadAttention", "x,x,x,,,,,,,x", "y"), "num_heads", INT, 2);
  expect(DIAG_onnx_node, "MultiHeadAttention: input 9 (cache_indirection) is not supported", "/y");
  begin();
  in("x", F32, "2,1,4"), in("past", F32, "2,1,5,4"), in("s", I32, "2"), in("t", I32, ""), out("y");
  n = of_runtime("GroupQueryAttention", "x,x,x,past,past,s,t", "y");
  attr(n, "num_heads", INT, 1), attr(n, "kv_num_heads", INT, 1);
  expect(DIAG_onnx_shape, "total_sequence_length, the extent of the cache that comes out", "/y");
  begin();
  in("x", F32, "2,1,4"), in("s", I32, "2"), in("t", I32, ""), out("y");
  n = of_runtime("GroupQueryAttention", "x,x,x,,,s,t", "y");
  attr(n, "num_heads", INT, 1), attr(n, "kv_num_heads", INT, 1), attr(n, "sliding_window_cache", INT, 1);
  expect(DIAG_onnx_node, "attribute \"sliding_window_cache\" is 1; apc takes 0", "/y");
}

/* A function of the model with the operator's name defines its calls. */
static void a_function_of_the_model_comes_first(void) {
  begin();
  in("x", F32, "3"), out("y");
  of_runtime("Gelu", "x", "y");
  function.name = arena_strdup(arena, "Gelu"), function.domain = arena_strdup(arena, "com.microsoft");
  function.input = list_of("a", &function.n_input), function.output = list_of("b", &function.n_output);
  ARENA_PUSH(arena, &body, new_node("Neg", "a", "b"));
  IMPORTS();
  HAS("neg %x");
}

/* ---- a model of them, for tests/cli/runtime.sh */

static void numbered(const char *name, int64_t rows, int64_t columns, double low, double high) {
  weight(name, rows, columns);
  Onnx__TensorProto *t = initializers.items[initializers.n - 1];
  for (int64_t i = 0; i < rows * columns; i++) ((float *)(void *)t->raw_data.data)[i] = (float)number(i, low, high);
  if (rows == 1) t->n_dims = 1, t->dims[0] = columns;
}

/* A layer of a decoder with a cache, as the builder of ONNX Runtime GenAI writes it: 4 heads, 2 of keys, 16 wide. */
static bool write_decoder(const char *path) {
  begin();
  opset = 14;
  in("ids", I64, "batch,new"), in("mask", I64, "batch,total");
  in("past_key", F32, "batch,2,past,16"), in("past_value", F32, "batch,2,past,16");
  out("logits"), out("key"), out("value");
  numbered("table", 12, 32, -1, 1), numbered("gain", 1, 32, 0.5, 1.5), numbered("qkv.weight", 32, 128, -0.4, 0.5);
  numbered("o.weight", 64, 32, -0.4, 0.5), numbered("cosines", 400, 8, -1, 1), numbered("sines", 400, 8, -1, 1);
  ints("one", "1");
  attr(node("ReduceSum", "mask,one", "sum"), "keepdims", INT, 0);
  node("Sub", "sum,one", "last"), attr(node("Cast", "last", "seqlens_k"), "to", INT, I32);
  node("Shape", "mask", "shape"), node("Gather", "shape,one", "extent");
  attr(node("Cast", "extent", "total_length"), "to", INT, I32);
  node("Gather", "table,ids", "e"), node("SimplifiedLayerNormalization", "e,gain", "x");
  node("MatMul", "x,qkv.weight", "qkv");
  Onnx__NodeProto *n = of_runtime("GroupQueryAttention",
                                  "qkv,,,past_key,past_value,seqlens_k,total_length,cosines,sines", "a,key,value");
  attr(n, "num_heads", INT, 4), attr(n, "kv_num_heads", INT, 2), attr(n, "do_rotary", INT, 1);
  node("MatMul", "a,o.weight", "o");
  of_runtime("SkipSimplifiedLayerNormalization", "e,o,gain", "y,,,r");
  attr(of_runtime("FusedMatMul", "y,table", "logits"), "transB", INT, 1);
  return import() && write_graph(path); /* which import() completes */
}

int main(int argc, char **argv) {
  FileMap map;
  arena = arena_new();
  diags = diags_new(arena);
  if (argc == 3) return write_decoder(argv[2]) ? 0 : 1;
  if (argc != 2 || !file_map(diags, argv[1], &map)) return 1;
  Arena *a = arena_new();
  recorded = arena_strndup(a, (const char *)map.data, map.size);
  RUN(operators_give_what_their_kernels_gave);
  RUN(every_body_parses);
  RUN(what_is_not_done_is_refused);
  RUN(a_function_of_the_model_comes_first);
  file_unmap(&map);
  module_free(module);
  arena_free(arena);
  arena_free(a);
  return test_summary();
}
