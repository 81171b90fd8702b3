/* ir/legal_dot.c - see legal_dot.h. */
#include "ir/legal_dot.h"

#include <string.h>

#include "base/die.h"
#include "ir/window.h"

/* ---- letters */

static void append(char *letters, char l) {
  size_t n = strlen(letters);
  letters[n] = l, letters[n + 1] = 0;
}

void op_dot_form(DotForm *f, DType dtype, const char *spec) {
  const char *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  *f = (DotForm){.dtype = dtype};
  memcpy(f->spec[0], spec, (size_t)(comma - spec));
  memcpy(f->spec[1], comma + 1, (size_t)(arrow - comma - 1));
  memcpy(f->spec[2], arrow + 2, strlen(arrow + 2));
}

static DotClass class_of(const LegalDot *p, char l) {
  bool a = strchr(p->spec[0], l), b = strchr(p->spec[1], l), c = strchr(p->spec[2], l);
  return a && b && c ? DOT_BATCH : a && c ? DOT_M : b && c ? DOT_N : DOT_K;
}

static bool occurs(DotClass c, int t) {
  return c == DOT_BATCH || (c == DOT_M && t != 1) || (c == DOT_N && t != 0) || (c == DOT_K && t != 2);
}

/* True for letters that only one operand has; they are summed before the product. */
static bool is_own(const DotForm *f, int t, char l) {
  return t < 2 && !strchr(f->spec[1 - t], l) && !strchr(f->spec[2], l);
}

static void drop_own_letters(const DotForm *f, LegalDot *p) {
  for (int t = 0; t < 3; t++) {
    p->spec[t][0] = 0;
    for (const char *l = f->spec[t]; *l; l++)
      if (!is_own(f, t, *l)) append(p->spec[t], *l);
  }
}

/* ---- strides of dense row-major tensors, as far as known: 1, or contiguous with another */

/* True if the last letter of a group has stride 1 in tensor t. */
static bool unit_stride(const DotForm *f, const LegalDot *p, const DotGroup *g, int t) {
  const char *at = strchr(p->spec[t], g->letters[strlen(g->letters) - 1]);
  while (*++at)
    if (!f->one[(int)*at]) return false;
  return true;
}

/* True if letter l directly follows the group's last one, wherever they occur. */
static bool contiguous(const DotForm *f, const LegalDot *p, const DotGroup *g, char l) {
  for (int t = 0; t < 3; t++) {
    if (!occurs(g->class, t)) continue;
    const char *at = strchr(p->spec[t], g->letters[strlen(g->letters) - 1]);
    do at++;
    while (*at && *at != l && f->one[(int)*at]);
    if (*at != l) return false;
  }
  return true;
}

/* Merges the letters of the result in its order, then the summed ones in the first operand's order. */
static void merge_letters(const DotForm *f, LegalDot *p) {
  char order[2 * MAX_RANK + 1] = {0};
  strcpy(order, p->spec[2]);
  for (const char *l = p->spec[0]; *l; l++)
    if (!strchr(p->spec[2], *l)) append(order, *l);
  p->n = 0;
  for (const char *l = order; *l; l++) {
    DotGroup *last = p->n ? &p->groups[p->n - 1] : NULL;
    DotClass class = class_of(p, *l);
    if (f->one[(int)*l]) continue;
    if (last && last->class == class && contiguous(f, p, last, *l)) append(last->letters, *l);
    else p->groups[p->n++] = (DotGroup){class, {*l}};
  }
}

/* ---- the matrix product */

/* Returns the group of a class that becomes the matrix dimension: one with unit stride in tensor t, else the innermost
 * one in the result. */
static int choose(const DotForm *f, const LegalDot *p, DotClass class, int t) {
  int best = -1;
  for (int i = 0; i < p->n; i++)
    if (p->groups[i].class == class && (best < 0 || !unit_stride(f, p, &p->groups[best], t))) best = i;
  return best;
}

/* True if one of a matrix's two dimensions has unit stride, or one is missing. */
static bool is_matrix(const DotForm *f, const LegalDot *p, int rows, int columns, int t) {
  return rows < 0 || columns < 0 || unit_stride(f, p, &p->groups[rows], t) || unit_stride(f, p, &p->groups[columns], t);
}

static bool try_product(const DotForm *f, LegalDot *p) {
  int summed = 0;
  merge_letters(f, p);
  for (int i = 0; i < p->n; i++) summed += p->groups[i].class == DOT_K;
  if (summed > 1) return false;
  p->depth = choose(f, p, DOT_K, 0), p->column = choose(f, p, DOT_N, 2), p->row = choose(f, p, DOT_M, 2);
  if (p->row >= 0 && p->depth >= 0 && !unit_stride(f, p, &p->groups[p->depth], 0)) p->row = choose(f, p, DOT_M, 0);
  if (!is_matrix(f, p, p->row, p->depth, 0) || !is_matrix(f, p, p->depth, p->column, 1)) return false;
  if (p->column >= 0 && !unit_stride(f, p, &p->groups[p->column], 2)) return false;
  p->nbatch = 0;
  for (int i = 0; i < p->n; i++) {
    if (i == p->row || i == p->column || i == p->depth) continue;
    if (p->nbatch == DOT_MAX_BATCH) return false;
    p->batch[p->nbatch++] = i;
  }
  return true;
}

static void swap_operands(LegalDot *p) {
  char s[MAX_RANK + 1];
  memcpy(s, p->spec[0], sizeof s), memcpy(p->spec[0], p->spec[1], sizeof s), memcpy(p->spec[1], s, sizeof s);
  p->swapped = !p->swapped;
}

/* Lists letters class by class: the summed ones from the first operand, the others from the result. */
static void in_order(const LegalDot *p, const char *classes, char *out) {
  *out = 0;
  for (; *classes; classes++)
    for (const char *l = *classes == 'k' ? p->spec[0] : p->spec[2]; *l; l++)
      if ("bmnk"[class_of(p, *l)] == *classes) append(out, *l);
}

static bool try_both(const DotForm *f, LegalDot *p) {
  if (try_product(f, p)) return true;
  swap_operands(p);
  if (try_product(f, p)) return true;
  swap_operands(p);
  return false;
}

static void copy_spec(LegalDot *p, int t, const char *classes) {
  char want[MAX_RANK + 1];
  in_order(p, classes, want);
  memcpy(p->spec[t], want, sizeof want);
}

/* Reorders an operand to the kernel's loop order: the result's letters, then the summed ones. */
static void in_space_order(LegalDot *p, int t) {
  char space[2 * MAX_RANK + 1] = {0}, want[MAX_RANK + 1] = {0};
  strcpy(space, p->spec[2]);
  for (const char *l = p->spec[0]; *l; l++)
    if (!strchr(p->spec[2], *l)) append(space, *l);
  for (const char *l = space; *l; l++)
    if (strchr(p->spec[t], *l)) append(want, *l);
  memcpy(p->spec[t], want, sizeof want);
}

void legal_dot(const DeviceTraits *d, const DotForm *f, LegalDot *out) {
  bool narrow = f->dtype == DT_f16 || f->dtype == DT_bf16;
  *out = (LegalDot){.dtype = narrow && !device_multiplies(d, f->dtype) ? DT_f32 : f->dtype};
  out->library = device_multiplies(d, out->dtype);
  drop_own_letters(f, out);
  if (!out->library) {
    in_space_order(out, 0), in_space_order(out, 1);
    return;
  }
  if (try_both(f, out)) return;
  copy_spec(out, 1, "bkn"); /* before operand 0, because both follow its order of k letters */
  copy_spec(out, 0, "bmk");
  if (try_product(f, out)) return;
  copy_spec(out, 2, "bmn");
  if (!try_product(f, out)) die("a dot %s,%s->%s becomes no matrix product", f->spec[0], f->spec[1], f->spec[2]);
}

bool legal_dot_fits(const DeviceTraits *d, const DotForm *f) {
  LegalDot p = {.dtype = f->dtype};
  if (!device_multiplies(d, f->dtype)) return false;
  drop_own_letters(f, &p);
  return try_both(f, &p);
}

/* ---- kernels beside the product */

/* True if the letters with extents other than 1 come in a different order. */
static bool reordered(const DotForm *f, const char *from, const char *to, int t) {
  for (; *from; from++) {
    if (f->one[(int)*from] || is_own(f, t, *from)) continue;
    while (f->one[(int)*to]) to++;
    if (*from != *to++) return true;
  }
  return false;
}

static int summed_letters(const LegalDot *p) {
  int n = 0;
  for (const char *l = p->spec[0]; *l; l++) n += !strchr(p->spec[2], *l);
  return n;
}

/* Counts kernels: one for each summed letter, even of extent 1; a cast is fused into the next kernel. */
int legal_dot_passes(const DotForm *f, const LegalDot *p, int t) {
  int n = 0, at = t < 2 && p->swapped ? 1 - t : t;
  for (const char *l = f->spec[t]; *l; l++) n += is_own(f, t, *l);
  if (!p->library && t == 2) return summed_letters(p) > 1 ? summed_letters(p) - 1 : 0;
  bool read_where_it_lies = !p->library && n == 0; /* a kernel can load any strides */
  n += !read_where_it_lies && reordered(f, f->spec[t], p->spec[at], t);
  return n == 0 && p->dtype != f->dtype ? 1 : n;
}

/* ---- convolutions */

static int place(const char *part, int n, char letter) {
  const char *at = memchr(part, letter, (size_t)n);
  return at ? (int)(at - part) : -1;
}

/* True if images, image.., groups, channels are in ascending dimensions. */
static bool channels_last(const char *const *part, const int *n, const ConvLetter *list, int role, int channels) {
  int last = -1, dims[MAX_RANK + 3], count = 0;
  if (list[CONV_IMAGES].found) dims[count++] = list[CONV_IMAGES].dim[role];
  for (int d = 0; d < n[WINDOW_IMAGE]; d++)
    if (part[WINDOW_IMAGE][d] >= 'A' && part[WINDOW_IMAGE][d] <= 'Z')
      dims[count++] = place(part[role], n[role], part[WINDOW_IMAGE][d]);
  if (list[CONV_GROUPS].found) dims[count++] = list[CONV_GROUPS].dim[role];
  if (list[channels].found) dims[count++] = list[channels].dim[role];
  for (int i = 0; i < count; i++) {
    if (dims[i] < last) return false;
    last = dims[i];
  }
  return true;
}

bool op_conv_letters(OpKind kind, const char *spec, const bool *one, ConvLetter letters[CONV_LETTERS]) {
  static const int class_by_roles[8] = {[5] = CONV_IMAGES,  [7] = CONV_GROUPS,  [3] = CONV_IN,     [6] = CONV_OUT,
                                        [1] = CONV_LETTERS, [2] = CONV_LETTERS, [4] = CONV_LETTERS};
  const char *part[3];
  int n[3];
  for (int r = 0; r < 3; r++) part[r] = window_letters(kind, spec, r, &n[r]);
  for (int i = 0; i < CONV_LETTERS; i++) letters[i] = (ConvLetter){0};
  for (char c = 'a'; c <= 'z'; c++) {
    ConvLetter l = {.found = true};
    int in = 0;
    for (int r = 0; r < 3; r++) {
      l.dim[r] = place(part[r], n[r], c);
      if (l.dim[r] >= 0) in |= 1 << r;
    }
    if (!in || one[(int)c]) continue;
    int class = class_by_roles[in];
    if (class == CONV_LETTERS || letters[class].found) return false;
    letters[class] = l;
  }
  return true;
}

bool op_conv_known(const DeviceTraits *d, OpKind kind, const char *spec, DType dtype, bool of_weights, const bool *one,
                   ConvLetter letters[CONV_LETTERS]) {
  const char *part[3];
  int n[3];
  bool changing = kind != OP_conv || !of_weights;
  if (!d->convolutions || (changing && d->blocks && dtype != DT_f32)) return false;
  if (dtype != DT_f32 && dtype != DT_f16 && dtype != DT_bf16) return false;
  for (int r = 0; r < 3; r++) part[r] = window_letters(kind, spec, r, &n[r]);
  return op_conv_letters(kind, spec, one, letters) && channels_last(part, n, letters, WINDOW_IMAGE, CONV_IN) &&
         channels_last(part, n, letters, WINDOW_OUTPUT, CONV_OUT);
}
