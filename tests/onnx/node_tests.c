/* tests/onnx/node_tests.c - the node tests of libonnx-testdata through importer, verifier and interpreter.
 *
 * Usage: onnx_node_tests [-v] [-p] [-r N] [-d FOLDER] [NAME]...; exits 77 if the package is not installed.  FOLDER may
 * be that of a newer onnx (backend/test/data/node of its Python package).  A test is expected to pass if the importer's
 * operator table has every node of its model and apc has every element type: those are run, and compared with the
 * stored outputs; the others are counted by the missing feature.  The exceptions below are the only tests that may
 * fail, and must fail.  Ends with a table by operator.
 *
 * Many tests feed shapes (the target of Reshape ...) as inputs, where a model has constants.  The importer is given the
 * stored inputs, and binds those that it needs (OnnxValue).
 *
 * With -p the passes for a CPU run over every model first; each of them is checked against its input, and the outputs
 * are those after them.
 *
 * With -r every model is written back as ONNX (frontend/onnx/export.h), and the written model is imported and run.
 * Models without an ONNX form are counted; -r gives their maximum, so that fewer forms than today are a failure. */
#define _GNU_SOURCE /* scandir */
#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "ir/run/interp.h"
#include "passes/pipeline.h"

static const char *folder = "/usr/share/libonnx-testdata/data/node";

/* Patterns of names; only patterns with "_expanded" match tests of the same operator spelled out. */
static const struct {
  const char *test, *reason;
} exceptions[] = {
    {"test_bernoulli*", "random numbers of another generator"},
    {"test_bernoulli*_expanded", "random numbers of another generator"},
    {"test_training_dropout", "training"},
    {"test_training_dropout_default", "training"},
    {"test_training_dropout_default_mask", "training"},
    {"test_training_dropout_mask", "training"},
    {"test_unique_sorted_with_*axis*", "slices along an axis"},
    {"test_resize_downsample_scales_*_align_corners",
     "aligns the corners of an unrounded extent, against the text of the specification"},
    {"test_adam_multiple", "its outputs have an epsilon that its model lacks (onnx 1.12)"},
    {"test_dynamicquantizelinear", "a quotient that is a tie in f32 only"},
    {"test_dynamicquantizelinear_expanded", "a quotient that is a tie in f32 only"},
};

/* ---- reading a test */

typedef struct Test {
  Arena *arena;
  Diags *diags;
  const char *name, *path;
  Onnx__ModelProto *model;       /* unpacked whole: these models are small */
  Onnx__ValueInfoProto **inputs; /* of the graph, without those that are initializers */
  size_t ninputs, nvalues;       /* values: inputs that may become part of the function */
  bool bound;                    /* one did */
  OnnxFile **in, **out;          /* one per input and output */
  int64_t opset;
} Test;

static const char *text(const char *s) { return s ? s : ""; }

static Onnx__ModelProto *read_model(Test *t) {
  FileMap map;
  if (!file_map(t->diags, t->path, &map)) return NULL;
  Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, map.size, map.data);
  file_unmap(&map);
  return m;
}

/* Before IR version 4 every initializer was an input as well. */
static void find_inputs(Test *t) {
  const Onnx__GraphProto *g = t->model->graph;
  t->inputs = ARENA_ARRAY(t->arena, Onnx__ValueInfoProto *, g->n_input);
  for (size_t i = 0; i < g->n_input; i++) {
    bool weight = false;
    for (size_t k = 0; k < g->n_initializer; k++)
      weight = weight || strcmp(text(g->initializer[k]->name), text(g->input[i]->name)) == 0;
    if (!weight) t->inputs[t->ninputs++] = g->input[i];
  }
}

static OnnxFile **read_tensors(Test *t, const char *kind, size_t n) {
  OnnxFile **files = ARENA_ARRAY(t->arena, OnnxFile *, n);
  for (size_t i = 0; i < n; i++) {
    const char *path = arena_printf(t->arena, "%s/%s/test_data_set_0/%s_%zu.pb", folder, t->name, kind, i);
    files[i] = onnx_file_open_tensor(t->diags, path);
    if (!files[i]) return NULL;
  }
  return files;
}

static bool tensor_type(const Onnx__ValueInfoProto *v) {
  DType dtype;
  return v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
         onnx_dtype(v->type->tensor_type->elem_type, &dtype);
}

/* The first operator that the table lacks, in the graph or an inner one. */
static const char *missing_operator(const Onnx__GraphProto *g, int64_t opset) {
  const char *found = NULL;
  for (size_t i = 0; i < g->n_node && !found; i++) {
    const Onnx__NodeProto *n = g->node[i];
    if (!onnx_op_supported(n->domain, n->op_type, opset)) found = text(n->op_type);
    for (size_t k = 0; k < n->n_attribute && !found; k++)
      if (n->attribute[k]->g) found = missing_operator(n->attribute[k]->g, opset);
  }
  return found;
}

/* The missing feature for this model; NULL if it is expected to pass. */
static const char *missing(const Test *t) {
  const Onnx__GraphProto *g = t->model->graph;
  const char *operator= missing_operator(g, t->opset);
  if (operator) return operator;
  for (size_t i = 0; i < t->ninputs; i++)
    if (!tensor_type(t->inputs[i])) return "(element type)";
  for (size_t i = 0; i < g->n_output; i++)
    if (!tensor_type(g->output[i])) return "(element type)";
  for (size_t i = 0; i < g->n_node; i++) /* inner casts to types that apc lacks */
    for (size_t k = 0; k < g->node[i]->n_attribute; k++) {
      DType dtype;
      const Onnx__AttributeProto *a = g->node[i]->attribute[k];
      if (strcmp(text(a->name), "to") == 0 && !onnx_dtype((int32_t)a->i, &dtype)) return "(element type)";
    }
  return NULL;
}

/* ---- running */

static InterpTensor to_interp(Test *t, OnnxFile *f, const OnnxData *d) {
  InterpTensor r = interp_tensor(t->arena, d->dtype, (int)d->rank, d->dims);
  const uint8_t *p = onnx_file_bytes(f, d);
  for (uint64_t i = 0; i < d->elements; i++) {
    const uint8_t *at = p + i * dtype_bytes(d->dtype);
    if (dtype_is_float(d->dtype)) r.cells[i].f = dtype_load_f(d->dtype, at);
    else r.cells[i].i = dtype_load_i(d->dtype, at);
  }
  return r;
}

static bool read_data(Test *t, OnnxFile *f, int32_t wanted, InterpTensor *out) {
  OnnxData d;
  if (!onnx_file_data(f, t->diags, onnx_file_tensor(f), &d)) return false;
  if (wanted == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16) d.dtype = DT_bf16; /* stored as UINT16 */
  *out = to_interp(t, f, &d);
  return true;
}

/* Weights of the model under test come from its file object. */
static bool blob_data(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  OnnxFile *f = context;
  (void)m, (void)diags;
  const uint8_t *base = onnx_file_blob(f, 0).data + p->offset;
  int64_t index[MAX_RANK] = {0};
  for (int64_t i = 0; i < interp_elements(out); i++) { /* passes make views of weights */
    int64_t element = 0;
    for (int d = 0; d < out->rank; d++) element += index[d] * p->strides[d];
    const uint8_t *at = base + (size_t)element * dtype_bytes(out->dtype);
    if (dtype_is_float(out->dtype)) out->cells[i].f = dtype_load_f(out->dtype, at);
    else out->cells[i].i = dtype_load_i(out->dtype, at);
    for (int d = out->rank - 1; d >= 0 && ++index[d] == out->dims[d]; d--) index[d] = 0;
  }
  return true;
}

static void bind_symbols(const Module *m, const Func *f, const InterpNamed *in, int n, int64_t *symbols) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const InterpTensor *x = op->kind == OP_input ? interp_find(in, n, op_str(op, AT_name)) : NULL;
    for (int d = 0; x && d < x->rank; d++) {
      const Expr *e = type_of(f, op->out)->dims[d];
      if (e->kind == EX_SYM && m->symbols.items[e->value].axis < 0) symbols[e->value] = x->dims[d];
    }
  }
}

static bool same_outputs(Test *t, const InterpResult *result) {
  const Onnx__GraphProto *g = t->model->graph;
  bool ok = true;
  for (size_t i = 0; i < g->n_output; i++) {
    InterpTensor want;
    const char *why;
    const InterpTensor *got = interp_find(result->outputs, result->noutputs, g->output[i]->name);
    if (!got || !read_data(t, t->out[i], g->output[i]->type->tensor_type->elem_type, &want)) return false;
    bool wide = want.dtype == DT_f32 || want.dtype == DT_f64;
    double tolerance = !dtype_is_float(want.dtype) ? 0 : wide ? 1e-4 : 5e-3;
    if (interp_equal(got, &want, DOMAIN_FLOAT, tolerance, t->arena, &why)) continue;
    ok =
        diag_error(t->diags, DIAG_interp, (Loc){.node = g->output[i]->name}, "differs from the stored output: %s", why);
  }
  return ok;
}

static bool with_passes;
static int changed_by_passes[PASS_DIFFERS + 1]; /* by the kind of check */

/* Runs the passes, and their checks. */
static bool run_passes(Test *t, Module *m, OnnxFile *file) {
  PassChecks checks = {.blob = blob_data, .context = file};
  PassOptions options = {.verify = true, .device = target_device_traits(DEVICE_cpu), .checks = &checks};
  bool ok = pipeline_run(m, NULL, &options, t->diags);
  for (size_t i = 0; i < checks.list.n; i++) {
    const PassCheck *c = &checks.list.items[i];
    changed_by_passes[c->how]++;
    if (c->how == PASS_DIFFERS) ok = diag_error(t->diags, DIAG_interp, (Loc){0}, "pass %s: %s", c->pass, c->note);
  }
  return ok;
}

static bool run_module(Test *t, Module *m, OnnxFile *file) {
  if (with_passes && !run_passes(t, m, file)) return false;
  const Func *f = module_func(m, "main");
  InterpNamed *in = ARENA_ARRAY(t->arena, InterpNamed, t->ninputs);
  for (size_t i = 0; i < t->ninputs; i++) {
    in[i].name = t->inputs[i]->name;
    if (!read_data(t, t->in[i], t->inputs[i]->type->tensor_type->elem_type, &in[i].tensor)) return false;
  }
  int64_t *symbols = interp_symbols(m, t->arena);
  bind_symbols(m, f, in, (int)t->ninputs, symbols);
  InterpOptions options = {.domain = DOMAIN_FLOAT, .symbols = symbols, .blob = blob_data, .context = file};
  InterpResult result;
  return interp_run(m, f, &options, (int)t->ninputs, in, t->arena, &result, t->diags) && same_outputs(t, &result);
}

/* ---- there and back */

static int may_lack_form = -1; /* -1: models run unchanged */
static int lack_form;

static bool weight_data(void *context, const Param *p, Tensor *out) {
  int64_t dims[MAX_RANK];
  if (!type_constant_dims(p->type, dims)) return false;
  *out = tensor_view(p->type->dtype, p->type->rank, dims, onnx_file_blob(context, 0).data + p->offset);
  return true;
}

static bool only_form_is_missing(const Diags *d) {
  for (size_t i = 0; i < d->n; i++)
    if (d->items[i].severity == SEV_ERROR && d->items[i].code != DIAG_onnx_export) return false;
  return d->errors > 0;
}

/* Runs the module after writing it as ONNX and importing it again. */
static bool run_again(Test *t, Module *m, OnnxFile *file) {
  size_t size;
  Diags *diags = diags_new(t->arena);
  uint8_t *bytes = onnx_export(
      m, module_func(m, "main"),
      &(OnnxExporting){.weight = weight_data, .context = file, .producer = "test", .version = "1"}, &size, diags);
  if (!bytes) {
    lack_form++;
    for (size_t i = 0; i < diags->n; i++) printf("%s: %s\n", t->name, diags->items[i].message);
    return only_form_is_missing(diags) || diag_error(t->diags, DIAG_onnx_export, (Loc){0}, "not written");
  }
  OnnxFile *back = onnx_file_open_bytes(t->diags, t->path, bytes, size);
  Module *again = NULL;
  bool ok =
      back && onnx_import(&again, back, NULL, t->diags) && verify_module(again, t->diags) && run_module(t, again, back);
  for (size_t i = 0; i < t->diags->n; i++) t->diags->items[i].loc = (Loc){0}; /* strings of the module */
  module_free(again);
  onnx_file_close(back);
  return ok;
}

/* The stored inputs, as values that the import may make part of the function. */
static OnnxValue *values_of(Test *t) {
  OnnxValue *values = ARENA_ARRAY(t->arena, OnnxValue, t->ninputs + 1);
  for (size_t i = 0; i < t->ninputs; i++) {
    OnnxData d;
    if (!onnx_file_data(t->in[i], t->diags, onnx_file_tensor(t->in[i]), &d)) return NULL;
    if (d.elements > ONNX_VALUE_MOST || d.rank > TENSOR_MAX_RANK) continue;
    char *copy = ARENA_ARRAY(t->arena, char, d.bytes + 1);
    memcpy(copy, onnx_file_bytes(t->in[i], &d), d.bytes);
    values[t->nvalues++] =
        (OnnxValue){.name = t->inputs[i]->name, .tensor = tensor_view(d.dtype, (int)d.rank, d.dims, copy)};
  }
  return values;
}

/* Imports, verifies and runs the model. */
static bool attempt(Test *t) {
  OnnxFile *file = onnx_file_open(t->diags, t->path);
  Module *m = NULL;
  OnnxValue *values = values_of(t);
  OnnxImportOptions options = {.values = values, .nvalues = t->nvalues};
  bool ok = file && values && onnx_import(&m, file, &options, t->diags) && verify_module(m, t->diags) &&
            (may_lack_form < 0 ? run_module(t, m, file) : run_again(t, m, file));
  for (size_t i = 0; values && i < t->nvalues; i++) t->bound = t->bound || values[i].bound;
  if (!ok) { /* the diagnostics refer to strings of the module */
    for (size_t i = 0; i < t->diags->n; i++) {
      Loc *loc = &t->diags->items[i].loc;
      if (loc->node) loc->node = arena_strdup(t->arena, loc->node);
      if (loc->file) loc->file = arena_strdup(t->arena, loc->file);
    }
  }
  if (m) module_free(m);
  onnx_file_close(file);
  return ok;
}

/* ---- the table */

typedef struct Row {
  const char *op;
  int passed, bound, failed, skipped;
} Row;

static struct {
  Row *items;
  size_t n, cap;
} rows;
static Arena *table_arena;
static int failures;

static Row *row_of(const char *op) {
  for (size_t i = 0; i < rows.n; i++)
    if (strcmp(rows.items[i].op, op) == 0) return &rows.items[i];
  ARENA_PUSH(table_arena, &rows, ((Row){.op = arena_strdup(table_arena, op)}));
  return &rows.items[rows.n - 1];
}

static const char *excepted(const char *test) {
  bool expanded = strstr(test, "_expanded") != NULL;
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (expanded == (strstr(exceptions[i].test, "_expanded") != NULL) && fnmatch(exceptions[i].test, test, 0) == 0)
      return exceptions[i].reason;
  return NULL;
}

static void fail(Test *t, Row *row, const char *what) {
  row->failed++;
  failures++;
  printf("FAILED %s: %s\n", t->name, what);
  fflush(stdout);
  diags_print(t->diags, stdout, false);
}

/* Some stored inputs do not have the shape that their model declares (castlike to and from BFLOAT16 in onnx 1.12). */
static bool data_fits(const Test *t) {
  for (size_t i = 0; i < t->ninputs; i++) {
    const Onnx__TensorShapeProto *shape = t->inputs[i]->type->tensor_type->shape;
    const Onnx__TensorProto *stored = onnx_file_tensor(t->in[i]);
    if (!shape || shape->n_dim != stored->n_dims) return false;
    for (size_t d = 0; d < shape->n_dim; d++) {
      bool fixed = shape->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      if (fixed && shape->dim[d]->dim_value != stored->dims[d]) return false;
    }
  }
  return true;
}

static void judge(Test *t, Row *row) {
  const Onnx__GraphProto *g = t->model->graph;
  t->in = read_tensors(t, "input", t->ninputs);
  t->out = read_tensors(t, "output", g->n_output);
  if (!t->in || !t->out) {
    fail(t, row, "its data cannot be read");
    return;
  }
  if (!data_fits(t)) {
    row_of("(inputs of another shape than declared)")->skipped++;
    return;
  }
  const int lacked = lack_form;
  bool ok = attempt(t);
  const char *reason = excepted(t->name);
  if (reason) {
    row->skipped++;
    if (ok && lack_form == lacked) fail(t, row, "passes, but is listed as an exception");
  } else if (ok) {
    row->passed++;
    row->bound += t->bound;
  } else {
    fail(t, row, t->bound ? "with bound inputs" : "as stored");
  }
}

static void close_all(OnnxFile **files, size_t n) {
  for (size_t i = 0; files && i < n; i++) onnx_file_close(files[i]);
}

static void run_test(const char *name, bool verbose) {
  Test t = {.arena = arena_new(), .name = name};
  t.diags = diags_new(t.arena);
  t.path = arena_printf(t.arena, "%s/%s/model.onnx", folder, name);
  t.model = read_model(&t);
  if (!t.model || !t.model->graph) {
    printf("FAILED %s: cannot be read\n", name);
    failures++;
  } else {
    for (size_t i = 0; i < t.model->n_opset_import; i++)
      if (!*text(t.model->opset_import[i]->domain)) t.opset = t.model->opset_import[i]->version;
    if (!t.opset) t.opset = 1; /* operators of other domains, whose rows say 1 */
    find_inputs(&t);
    const char *lacking = missing(&t);
    if (verbose) printf("%s%s%s\n", name, lacking ? ": lacks " : "", lacking ? lacking : "");
    if (lacking) row_of(lacking)->skipped++;
    else judge(&t, row_of(t.model->graph->n_node ? text(t.model->graph->node[0]->op_type) : "(empty)"));
    close_all(t.in, t.ninputs);
    close_all(t.out, t.model->graph->n_output);
  }
  if (t.model) onnx__model_proto__free_unpacked(t.model, NULL);
  arena_free(t.arena);
}

static int by_name(const void *a, const void *b) { return strcmp(((const Row *)a)->op, ((const Row *)b)->op); }

static void print_table(void) {
  Row sum = {.op = "sum"};
  qsort(rows.items, rows.n, sizeof *rows.items, by_name);
  printf("%-28s %6s %6s %6s %8s\n", "first operator", "passed", "bound", "failed", "skipped");
  for (size_t i = 0; i < rows.n; i++) {
    const Row *r = &rows.items[i];
    if (r->passed || r->failed) printf("%-28s %6d %6d %6d %8d\n", r->op, r->passed, r->bound, r->failed, r->skipped);
    sum.passed += r->passed, sum.bound += r->bound, sum.failed += r->failed, sum.skipped += r->skipped;
  }
  printf("%-28s %6d %6d %6d %8d\nskipped for want of:", sum.op, sum.passed, sum.bound, sum.failed, sum.skipped);
  for (size_t i = 0; i < rows.n; i++)
    if (rows.items[i].skipped) printf(" %s(%d)", rows.items[i].op, rows.items[i].skipped);
  printf("\n");
}

static int is_test(const struct dirent *e) { return strncmp(e->d_name, "test_", 5) == 0; }

int main(int argc, char **argv) {
  struct dirent **list;
  bool verbose = false;
  for (int option; (option = getopt(argc, argv, "vpr:d:")) != -1;) {
    if (option == 'v') verbose = true;
    else if (option == 'p') with_passes = true;
    else if (option == 'r') may_lack_form = atoi(optarg);
    else if (option == 'd') folder = optarg;
    else return 2;
  }
  int first = optind;
  int n = scandir(folder, &list, is_test, alphasort);
  if (n <= 0) {
    printf("libonnx-testdata is not installed\n");
    return 77;
  }
  table_arena = arena_new();
  for (int i = 0; i < n; i++) {
    bool wanted = argc <= first;
    for (int k = first; k < argc; k++) wanted = wanted || strcmp(argv[k], list[i]->d_name) == 0;
    if (wanted) run_test(list[i]->d_name, verbose);
    free(list[i]);
  }
  free(list);
  print_table();
  if (with_passes)
    printf("changes by passes: %d proved, %d over the real numbers, %d compared, %d trusted, %d differ\n",
           changed_by_passes[PASS_PROVED], changed_by_passes[PASS_PROVED_REALS], changed_by_passes[PASS_COMPARED],
           changed_by_passes[PASS_TRUSTED], changed_by_passes[PASS_DIFFERS]);
  if (may_lack_form >= 0) {
    printf("%d models have no ONNX form, %d may\n", lack_form, may_lack_form);
    failures += lack_form > may_lack_form;
  }
  arena_free(table_arena);
  return failures != 0;
}
