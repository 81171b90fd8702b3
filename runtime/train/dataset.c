/* runtime/train/dataset.c - opens a data set; see dataset.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/dataset_internal.h"

/* ---- texts */

const char *dataset_file(const char *text, size_t *name, double *weight) {
  for (const char *c = strchr(text, '='); c; c = strchr(c + 1, '=')) {
    char *end = NULL;
    const size_t n = strspn(c + 1, "0123456789.eE+-");
    if (c == text || c[1 + n] != '@' || !c[2 + n]) continue;
    const double number = n ? strtod(c + 1, &end) : (double)NAN;
    if (n && end != c + 1 + n) continue;
    if (name) *name = (size_t)(c - text);
    if (weight) *weight = number;
    return c + n + 2;
  }
  return NULL;
}

/* One option: a file for an input.  `source`: how many options before it have the same name. */
typedef struct GivenFile {
  const char *name, *file;
  double weight; /* NaN: none */
  int source, input;
} GivenFile;

static int input_named(const Dataset *d, const char *name) {
  int i = 0;
  while (i < d->n && strcmp(d->inputs[i].name, name) != 0) i++;
  return i;
}

static ApcStatus read_text(ApcModel *m, Dataset *d, const char *text, GivenFile *out) {
  size_t n = 0;
  out->file = dataset_file(text, &n, &out->weight);
  if (!out->file)
    return host_error(m, RT_USAGE, "%s %s: expected NAME=@FILE.npy or NAME=@TOKENS.bin", d->files->option, text);
  if (!isnan(out->weight) && !(out->weight > 0 && out->weight < 1e9))
    return host_error(m, RT_USAGE, "%s %s: the weight of a source must be above 0", d->files->option, text);
  out->name = arena_strndup(d->arena, text, n);
  return APC_OK;
}

/* ---- inputs */

static ApcStatus find_input(ApcModel *m, const char *option, const char *name, ApcTensorInfo *info) {
  for (int i = 0; i < apc_inputs(m); i++)
    if (apc_input_info(m, i, info) == APC_OK && strcmp(info->name, name) == 0) return APC_OK;
  return host_error(m, RT_USAGE, "%s %s: the program has no input of that name", option, name);
}

static ApcStatus find_batched(ApcModel *m, const char *option, const char *name, ApcTensorInfo *info) {
  ApcStatus code = find_input(m, option, name, info);
  if (code) return code;
  if (info->rank < 1) return host_error(m, RT_USAGE, "%s %s: the input is a single number", option, name);
  if (info->dims[0] < 1)
    return host_error(m, RT_USAGE, "%s %s: the batch size is symbolic, '%s'; compile with --batch N", option, name,
                      info->dim_text[0]);
  return APC_OK;
}

/* Adds an input whose rows have the dimensions dims[1] and so on. */
static void add_input(Dataset *d, const ApcTensorInfo *info, FilledFrom from, const int64_t *dims) {
  FilledInput *x = &d->inputs[d->n++];
  *x = (FilledInput){.name = arena_strdup(d->arena, info->name), .from = from, .type = (DType)info->type};
  x->rank = info->rank, x->row_bytes = dtype_bytes(x->type);
  x->dims[0] = info->dims[0];
  for (int i = 1; i < info->rank; i++) x->dims[i] = dims[i], x->row_bytes *= (size_t)dims[i];
  x->can_ignore = strcmp(x->name, "labels") == 0 && (x->type == DT_i64 || x->type == DT_i32) &&
                  info->index_below >= 0 && info->index_ignored != info->index_from;
  x->ignored = info->index_ignored;
}

/* ---- files */

/* Checks a source against the others. */
static ApcStatus check_source(ApcModel *m, Dataset *d, const GivenFile *g, const Source *s) {
  const FilledInput *x = &d->inputs[g->input];
  int64_t *rows = &d->begin.sources[g->source].rows;
  if (!d->begin.batch) d->begin.batch = x->dims[0];
  if ((*rows && s->rows.dims[0] != *rows) || x->dims[0] != d->begin.batch)
    return host_error(m, RT_BAD_INPUT, "%s has %lld rows for input '%s', %lld in a step; another file has %lld, %lld",
                      g->file, (long long)s->rows.dims[0], g->name, (long long)x->dims[0],
                      (long long)(*rows ? *rows : s->rows.dims[0]), (long long)d->begin.batch);
  *rows = s->rows.dims[0];
  for (int i = 1; i < x->rank; i++)
    if (s->rows.dims[i] != x->dims[i])
      return host_error(m, RT_BAD_INPUT, "%s: its rows do not have the shape of those of the first source", g->file);
  return *rows
             ? APC_OK
             : host_error(m, RT_BAD_INPUT, "%s has 0 rows, but a step takes %lld", g->file, (long long)d->begin.batch);
}

/* Opens a file.  The first one of a name adds the input. */
static ApcStatus open_file(ApcModel *m, Dataset *d, const GivenFile *g) {
  ApcTensorInfo info;
  Source *s = &d->sources[g->source * d->files->n + g->input];
  ApcStatus code = find_batched(m, d->files->option, g->name, &info);
  if (!code) code = source_open(m, d->files, &info, g->file, d->diags, s);
  if (code) return code;
  if (g->input == d->n) add_input(d, &info, FROM_FILE, s->rows.dims);
  if (s->tokens && !d->length) d->length = s->rows.dims[1], d->windows = g->input;
  code = check_source(m, d, g, s);
  const bool labels = strcmp(g->name, "labels") == 0 && s->type == DT_i64 && s->rows.rank > 1;
  if (labels || (s->tokens && !d->tokens)) d->tokens = d->begin.batch * source_elements(s);
  return code;
}

/* Finds the sources: the nth text of a name belongs to the nth source.  Fills in `list`. */
static ApcStatus open_files(ApcModel *m, Dataset *d, GivenFile *list) {
  const DataFiles *f = d->files;
  int *times = ARENA_ARRAY(d->arena, int, f->n + 1);
  for (int i = 0; i < f->n; i++) {
    ApcStatus code = read_text(m, d, f->data[i], &list[i]);
    GivenFile *g = &list[i];
    if (code) return code;
    g->input = input_named(d, g->name);
    g->source = times[g->input]++;
    if (g->source && isnan(g->weight))
      return host_error(m, RT_USAGE,
                        "%s %s is given twice; a folder can hold several token files, and a mixture needs weights: "
                        "%s=0.7@FILE",
                        f->option, g->name, g->name);
    if (g->source == ORDER_SOURCES)
      return host_error(m, RT_USAGE, "%s %s: at most %d sources", f->option, g->name, ORDER_SOURCES);
    code = open_file(m, d, g);
    if (code) return code;
  }
  d->n_files = d->n, d->begin.n = f->n ? times[0] : 0;
  for (int i = 1; i < d->n; i++)
    if (times[i] != times[0])
      return host_error(m, RT_USAGE, "%s: '%s' has %d sources, but '%s' has %d", f->option, d->inputs[i].name, times[i],
                        d->inputs[0].name, times[0]);
  return APC_OK;
}

/* Gives the order the weights of the files, which must agree for a source. */
static ApcStatus weigh(ApcModel *m, Dataset *d, const GivenFile *list) {
  double weights[ORDER_SOURCES] = {0};
  const DataFiles *f = d->files;
  for (int i = 0; i < f->n; i++) {
    const double weight = list[i].weight;
    double *w = &weights[list[i].source];
    if (d->begin.n > 1 && isnan(weight))
      return host_error(m, RT_USAGE, "%s %s: every source of a mixture needs a weight", f->option, f->data[i]);
    if (*w != 0 && *w != weight && !(isnan(*w) && isnan(weight)))
      return host_error(m, RT_USAGE, "%s %s: the files of one source have different weights", f->option, f->data[i]);
    *w = weight;
  }
  if (d->begin.n == 1) weights[0] = 1;
  draw_weigh(&d->begin, weights);
  return APC_OK;
}

/* ---- inputs that follow from windows */

static bool is_window(const ApcTensorInfo *x) { return x->rank == 2 && (x->type == APC_I64 || x->type == APC_I32); }

/* Every source must have tokens for the input of windows: `what` follows from them in every row. */
static ApcStatus need_tokens(ApcModel *m, const Dataset *d, const char *what) {
  for (int i = 0; i < d->begin.n; i++) {
    const Source *s = &d->sources[i * d->files->n + d->windows];
    if (!s->tokens)
      return host_error(m, RT_USAGE, "%s %s: %s is no token file, so %s of its rows are not known", d->files->option,
                        d->inputs[d->windows].name, s->file, what);
  }
  return APC_OK;
}

/* Uses the next tokens as `labels`, if the step has labels of the same shape that nothing else provides. */
static ApcStatus add_next(ApcModel *m, Dataset *d) {
  ApcTensorInfo info;
  bool found = false;
  if (!d->length || input_named(d, "labels") < d->n) return APC_OK;
  for (int i = 0; i < apc_inputs(m) && !found; i++)
    found = apc_input_info(m, i, &info) == APC_OK && strcmp(info.name, "labels") == 0;
  if (!found || !is_window(&info)) return APC_OK;
  const FilledInput *of = &d->inputs[d->windows];
  if (info.dims[0] != of->dims[0] || info.dims[1] != of->dims[1])
    return host_error(m, RT_USAGE, "%s %s: 'labels' has another shape, so it needs data of its own", d->files->option,
                      of->name);
  ApcStatus code = need_tokens(m, d, "the labels");
  if (!code) add_input(d, &info, FROM_NEXT, of->dims);
  return code;
}

static ApcStatus add_document(ApcModel *m, Dataset *d, const char *text) {
  ApcTensorInfo info;
  char names[200];
  const char *equals = strrchr(text, '=');
  const DocumentKind kind = equals ? document_kind(equals + 1) : DOCUMENT_KINDS;
  document_names(names, sizeof names);
  if (!equals || equals == text || kind == DOCUMENT_KINDS)
    return host_error(m, RT_USAGE, "--documents %s: expected NAME=KIND, with one of the kinds %s", text, names);
  const char *name = arena_strndup(d->arena, text, (size_t)(equals - text));
  ApcStatus code = find_batched(m, "--documents", name, &info);
  if (code) return code;
  if (input_named(d, name) < d->n) return host_error(m, RT_USAGE, "--documents %s: the input has other data", name);
  const char *wrong = document_fits(kind, &info, d->length);
  if (!wrong && info.dims[0] != d->begin.batch) wrong = "it needs an input of as many rows as the tokens";
  if (!wrong && kind == DOCUMENT_next && info.index_ignored == info.index_from)
    wrong = "it needs labels, some of which can be ignored";
  if (wrong) return host_error(m, RT_USAGE, "--documents %s: %s", text, wrong);
  add_input(d, &info, FROM_DOCUMENTS, info.dims);
  d->inputs[d->n - 1].kind = kind;
  return APC_OK;
}

/* The token that ends documents must be one that the input of windows takes. */
static ApcStatus check_end(ApcModel *m, const Dataset *d) {
  ApcTensorInfo info;
  const int64_t end = d->files->document_end;
  const char *name = d->inputs[d->windows].name;
  ApcStatus code = find_input(m, d->files->option, name, &info);
  const int64_t below = code || info.index_below <= 0 ? INT64_C(1) << 31 : info.index_below;
  if (code || end < below) return code;
  return host_error(m, RT_USAGE, "--document-end %" PRId64 ": every token of input '%s' is below %" PRId64, end, name,
                    below);
}

/* Documents must be known: by the token that ends them, or by an index of all files. */
static ApcStatus add_documents(ApcModel *m, Dataset *d) {
  const DataFiles *f = d->files;
  if (!f->n_documents) return APC_OK;
  if (!d->length) return host_error(m, RT_USAGE, "--documents: %s gives no token files", f->option);
  ApcStatus code = need_tokens(m, d, "the documents (--documents)");
  if (!code) code = check_end(m, d);
  for (int i = 0; i < d->begin.n && f->document_end < 0 && !code; i++) {
    const Source *s = &d->sources[i * f->n + d->windows];
    if (!tokens_indexed(s->tokens))
      return host_error(m, RT_USAGE,
                        "--documents: where documents begin in %s is not known: it has no index (.idx); give the "
                        "token that ends them with --document-end",
                        s->file);
  }
  for (int i = 0; i < f->n_documents && !code; i++) code = add_document(m, d, f->documents[i]);
  return code;
}

/* ---- order */

bool dataset_pads(const Dataset *d) {
  const int i = input_named(d, "labels");
  return i < d->n && d->inputs[i].can_ignore;
}

static ApcStatus set_order(ApcModel *m, Dataset *d, const GivenFile *list) {
  const DataFiles *f = d->files;
  Order *o = &d->begin;
  const int64_t rows = o->sources[0].rows;
  o->shuffled = f->shuffled, o->seed = f->seed, o->last = f->last;
  if (f->pads_if && dataset_pads(d)) o->last = LAST_PAD;
  if (o->last == LAST_PAD && !dataset_pads(d))
    return host_error(m, RT_USAGE,
                      "--last-batch pad: the step has no labels that can be ignored (the loss cross_entropy has)");
  if (o->last != LAST_WRAP && o->n > 1)
    return host_error(m, RT_USAGE, "%s: a mixture has no end, so no last batch",
                      f->pads_if ? f->option : "--last-batch");
  if (o->last != LAST_PAD && o->n == 1 && rows < o->batch)
    return host_error(m, RT_BAD_INPUT, "%s has %lld rows, but a step takes %lld", d->sources[0].file, (long long)rows,
                      (long long)o->batch);
  ApcStatus code = weigh(m, d, list);
  d->order = d->begin;
  return code;
}

ApcStatus dataset_open(ApcModel *m, const DataFiles *files, Dataset **out) {
  Dataset *d = *out = calloc(1, sizeof *d);
  if (!d) return host_error(m, RT_FAILED, "out of memory");
  d->arena = arena_new();
  d->diags = diags_new(d->arena);
  d->files = files, d->ahead = d->bound = -1;
  d->inputs = calloc((size_t)files->n + (size_t)files->n_documents + 2, sizeof *d->inputs);
  d->sources = calloc((size_t)files->n * (size_t)files->n + 1, sizeof *d->sources);
  if (!d->inputs || !d->sources) return host_error(m, RT_FAILED, "out of memory");
  GivenFile *list = ARENA_ARRAY(d->arena, GivenFile, files->n + 1);
  ApcStatus code = open_files(m, d, list);
  if (code || !files->n) return code;
  code = add_documents(m, d);
  if (!code) code = add_next(m, d);
  if (!code) code = set_order(m, d, list);
  return code ? code : batches_open(m, d);
}

void dataset_close(ApcModel *m, Dataset *d) {
  if (!d) return;
  batches_close(d);
  for (int i = 0; d->inputs && i < d->n; i++) host_unbind(m, d->inputs[i].name);
  for (int i = 0; d->sources && i < d->files->n * d->files->n; i++) source_close(&d->sources[i]);
  if (d->arena) arena_free(d->arena);
  free(d->inputs);
  free(d->sources);
  free(d);
}

/* ---- facts */

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static ApcStatus find_identity(ApcModel *m, Dataset *d, int source, int input, DataSource *out) {
  const Source *s = &d->sources[source * d->files->n + input];
  DataIdentity identity;
  char text[80];
  data_identity_begin(&identity);
  if (!source_identity(s, &identity)) return host_status(m, rt_error_errno(&m->error, RT_BAD_INPUT, "%s", s->file));
  data_identity_text(&identity, text, sizeof text);
  const char *name = d->inputs[input].name;
  out->input = source ? arena_printf(d->arena, "%s (source %d)", name, source + 1) : name;
  out->text = arena_printf(d->arena, "%s, %s", last_part(s->file), text);
  return APC_OK;
}

/* Computes the identities once: files may be large. */
ApcStatus dataset_sources(ApcModel *m, Dataset *d, const DataSource **list, int *n) {
  ApcStatus code = APC_OK;
  DataSource *all = d->identities ? d->identities : ARENA_ARRAY(d->arena, DataSource, d->files->n + 1);
  for (int i = 0; i < d->begin.n && !d->identities; i++)
    for (int k = 0; k < d->n_files && !code; k++) code = find_identity(m, d, i, k, &all[d->n_identities++]);
  if (!code) d->identities = all;
  *list = d->identities, *n = d->n_identities;
  return code;
}

int64_t dataset_tokens(const Dataset *d) { return d->tokens; }
int64_t dataset_batch(const Dataset *d) { return d->begin.batch; }
int64_t dataset_steps(const Dataset *d) { return d->begin.n == 1 ? draw_steps(&d->begin) : 0; }

int64_t dataset_rows(const Dataset *d) {
  int64_t rows = 0;
  for (int i = 0; i < d->begin.n; i++) rows += d->begin.sources[i].rows;
  return rows;
}
