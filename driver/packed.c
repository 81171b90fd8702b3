/* driver/packed.c - see packed.h.
 *
 * The forms are those of llama.cpp's q8_0 and q4_0, except that groups have any multiple of 32 terms and that scales
 * are bf16, whose range is that of the weights.  There are no zero points. 8 bits: the scale is the largest magnitude /
 * 127. 4 bits: the scale is the element of the largest magnitude / -8, so that this element uses the 16th number. The
 * scale is rounded to bf16 first; then each element is divided by it and rounded to the nearest number, ties to even.
 * So the result depends on the weight only.
 *
 * The numbers are in the order of packed_dot (ir/ops/packed.c).
 */
#include "driver/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/dtype.h"
#include "driver/weights.h"
#include "passes/pipeline.h"
#include "passes/rewrite/packed.h"

enum { ALIGN = 64, COLUMN_BYTES = 4 };

/* ---- one group of a column */

/* Returns the scale, a value of bf16. */
static float scale_of(int bits, const float *w, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++)
    if (fabsf(w[i]) > fabsf(most)) most = w[i];
  float scale = bits == 8 ? fabsf(most) / 127 : most / -8;
  uint16_t stored;
  dtype_store_f(DT_bf16, &stored, scale);
  return (float)dtype_load_f(DT_bf16, &stored);
}

/* Returns the nearest number, more by 128 or 8. */
static uint8_t number_of(int bits, float w, float scale) {
  const float middle = bits == 8 ? 128 : 8, most = bits == 8 ? 255 : 15;
  const float round = 0x1.8p23f; /* adding it rounds to the nearest whole number, ties to even */
  float x = scale == 0 ? middle : (w / scale + round) - round + middle;
  return (uint8_t)(x < 0 ? 0 : x > most ? most : x);
}

/* Writes the numbers of the group to its bytes, which are PACKED_COLUMNS columns apart from block to block. */
static void store_group(int bits, const float *w, int64_t n, float scale, uint8_t *to) {
  const int64_t terms = 32 / bits;
  for (int64_t i = 0; i < n; i += terms, to += PACKED_COLUMNS * COLUMN_BYTES)
    for (int64_t t = 0; t < COLUMN_BYTES; t++) {
      uint8_t x = number_of(bits, w[i + t], scale);
      to[t] = bits == 8 ? x : (uint8_t)(x | number_of(bits, w[i + COLUMN_BYTES + t], scale) << 4);
    }
}

/* ---- a matrix */

static int64_t place_of(const PackedSide *s, int64_t index) {
  int64_t at = 0;
  for (int d = s->n - 1; d >= 0; d--) at += index % s->dims[d] * s->steps[d], index /= s->dims[d];
  return at;
}

typedef struct Matrix {
  PackedForm form;
  const PackedMatrix *x;
  const Tensor *weight;
  int64_t *terms; /* by term: its place in the weight, from that of its column */
  uint8_t *numbers;
  uint16_t *scales;
} Matrix;

static float element(const Tensor *w, int64_t at) {
  const char *p = (const char *)w->data + (size_t)at * dtype_bytes(w->dtype);
  float x;
  if (w->dtype != DT_f32) return (float)dtype_load_f(w->dtype, p);
  memcpy(&x, p, sizeof x);
  return x;
}

/* False if an element of the group is not finite. */
static bool pack_group(const Matrix *m, int64_t column, int64_t group) {
  const PackedSide *columns = &m->x->columns;
  const int64_t size = m->form.group, groups = m->x->terms.extent / size;
  float w[PACKED_MOST_GROUP] = {0};
  const bool filled = column < columns->extent; /* or beyond the last one, in its panel */
  const int64_t first = filled ? m->x->first + place_of(columns, column) : 0;
  bool finite = true;
  for (int64_t i = 0; i < size && filled; i++) {
    w[i] = element(m->weight, first + m->terms[group * size + i]);
    finite &= isfinite(w[i]) != 0;
  }
  const float scale = scale_of(m->form.bits, w, size);
  const int64_t at = (column / PACKED_COLUMNS * groups + group) * PACKED_COLUMNS, lane = column % PACKED_COLUMNS;
  dtype_store_f(DT_bf16, &m->scales[at + lane], scale);
  store_group(m->form.bits, w, size, scale, m->numbers + at * (size * m->form.bits / 8) + lane * COLUMN_BYTES);
  return finite && isfinite(scale);
}

static bool pack_matrix(Matrix *m, Diags *diags) {
  const int64_t depth = m->x->terms.extent, groups = depth / m->form.group,
                n = (m->x->columns.extent + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
  m->terms = ARENA_ARRAY(diags->arena, int64_t, depth);
  for (int64_t i = 0; i < depth; i++) m->terms[i] = place_of(&m->x->terms, i);
  for (int64_t column = 0; column < n; column++)
    for (int64_t g = 0; g < groups; g++)
      if (!pack_group(m, column, g))
        return diag_error(diags, DIAG_weights, (Loc){0},
                          "weight '%s' has an infinity or NaN, which --weights-dtype cannot store", m->x->param);
  return true;
}

/* ---- the file */

typedef struct File {
  const char *path;
  uint8_t *data;
  uint64_t bytes;
} File;

static uint64_t aligned(uint64_t at) { return (at + ALIGN - 1) / ALIGN * ALIGN; }

/* Gives the weight its place in the file, from `at` on; returns the end of it. */
static uint64_t place_weight(Module *m, const char *name, uint64_t at) {
  Param *p = module_param(m, name);
  int64_t dims[MAX_RANK], step = 1;
  type_constant_dims(p->type, dims);
  p->init = INIT_BLOB, p->offset = at = aligned(at);
  for (int d = p->type->rank - 1; d >= 0; d--) p->strides[d] = step, step *= dims[d];
  return at + (uint64_t)step * dtype_bytes(p->type->dtype);
}

static bool cannot_write(Diags *diags, const File *f) {
  return diag_error(diags, DIAG_file_write, (Loc){.file = f->path}, "cannot write %s of packed weights: %s",
                    show_bytes(diags->arena, (double)f->bytes), strerror(errno));
}

/* Makes the file, of zeros. */
static bool open_file(Diags *diags, File *f) {
  int fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), failed = fd < 0 ? errno : 0;
  if (!failed && ftruncate(fd, (off_t)f->bytes) != 0) failed = errno;
  f->data = failed ? MAP_FAILED : mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!failed && f->data == MAP_FAILED) failed = errno;
  if (fd >= 0) close(fd);
  errno = failed;
  return !failed || cannot_write(diags, f);
}

/* Reserves the room on the disk, as a write to a mapped page without room kills the process. */
static bool reserve(Diags *diags, const File *f) {
  int fd = open(f->path, O_RDWR | O_CLOEXEC), failed = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)f->bytes);
  if (fd >= 0) close(fd);
  errno = failed;
  return !failed || cannot_write(diags, f);
}

static bool fill(const ModelOptions *o, Module *m, const PackedMatrices *all, const File *f) {
  bool ok = reserve(o->diags, f);
  for (size_t i = 0; ok && i < all->n; i++) {
    const PackedMatrix *x = &all->items[i];
    WeightReader *reader = driver_reader_open(m, o->diags);
    Tensor weight;
    ok = driver_reader_read(reader, module_param(m, x->param), &weight);
    Matrix matrix = {.form = *o->packed,
                     .x = x,
                     .weight = &weight,
                     .numbers = f->data + module_param(m, x->numbers)->offset,
                     .scales = (uint16_t *)(void *)(f->data + module_param(m, x->scales)->offset)};
    ok = ok && pack_matrix(&matrix, o->diags);
    driver_reader_close(reader);
  }
  return ok;
}

static bool write_weights(const ModelOptions *o, Model *model, const PackedMatrices *all) {
  Module *m = model->m;
  File f = {0};
  if (!temporary_open(o->diags, o->arena, &model->packed)) return false;
  f.path = module_string(m, arena_printf(o->arena, "%s/weights", model->packed.path));
  for (size_t i = 0; i < all->n; i++)
    f.bytes = place_weight(m, all->items[i].scales, place_weight(m, all->items[i].numbers, f.bytes));
  if (!open_file(o->diags, &f)) return false;
  const int blob = module_blob(m, f.path, f.bytes);
  for (size_t i = 0; i < all->n; i++)
    module_param(m, all->items[i].numbers)->blob = module_param(m, all->items[i].scales)->blob = blob;
  bool ok = o->weights_unread || fill(o, m, all, &f);
  munmap(f.data, f.bytes);
  return ok;
}

/* ---- the model */

bool driver_pack_weights(const ModelOptions *o, Model *model) {
  const PassOptions options = {.verify_last = true};
  PackedMatrices all;
  if (!o->packed) return true;
  const size_t given = model->m->params.n;
  driver_watch_stage(&o->watch, o->arena, "Packing", "weights of %s", model->path);
  bool ok = pipeline_run(model->m, "inline,fold,rows,views,dce", &options, o->diags) &&
            rewrite_packed(model->m, *o->packed, &all, o->diags);
  if (ok && !all.n)
    return diag_error(o->diags, DIAG_weights, (Loc){.file = model->path},
                      "--weights-dtype: the model has no weight of a product to store in fewer bits");
  ok = ok && write_weights(o, model, &all) && pipeline_run(model->m, "dce", &options, o->diags);
  if (!ok) return false;
  rewrite_packed_drop(model->m);
  for (size_t i = given; i < model->m->params.n; i++) model->m->params.items[i].trainable = false; /* counted already */
  driver_watch_say(&o->watch, o->arena, "Packing", "%zu weights of products, %s in f32, are %s; %zu others stay", all.n,
                   show_bytes(o->arena, all.bytes_before), show_bytes(o->arena, all.bytes_after), all.left);
  return true;
}
