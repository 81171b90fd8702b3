/* tests/fuzz/fuzz_artifact.c - libFuzzer target: any bytes as an executable with a Program.  If it opens, its weights
 * can be read, whole and as the parts of its ranks. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/die.h"
#include "base/hash.h"
#include "runtime/exec/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_ELEMENTS = 1 << 16 };

/* Sets the right checksums: wrong ones would refuse nearly every input. */
static void seal(unsigned char *file, size_t n) {
  ArtifactTrailer t;
  ProgramHeader h;
  if (n < sizeof t + sizeof h) return;
  memcpy(&t, file + n - sizeof t, sizeof t);
  if (t.offset > n || n - t.offset < sizeof h + sizeof t) return;
  unsigned char *image = file + t.offset;
  memcpy(&h, image, sizeof h);
  size_t begin = offsetof(ProgramHeader, table_bytes);
  if (h.table_bytes < sizeof h || h.table_bytes > n - t.offset - sizeof t) return;
  h.table_hash = t.hash = hash64(image + begin, h.table_bytes - begin, 0);
  memcpy(image, &h, sizeof h);
  memcpy(file + n - sizeof t, &t, sizeof t);
}

/* The part of a rank; false if it is not inside the weight, or is large. */
static bool part_of(const Program *p, const ProgramParam *t, const int64_t *values, int64_t *lo, int64_t *extent,
                    size_t *bytes) {
  size_t elements = 1;
  for (uint32_t d = 0; d < t->dims.n; d++) {
    int64_t hi = values[program_list(p, t->interval)[2 * d + 1]];
    lo[d] = values[program_list(p, t->interval)[2 * d]];
    if (lo[d] < 0 || hi < lo[d] || hi > p->exprs[program_list(p, t->dims)[d]].value || hi - lo[d] > MOST_ELEMENTS)
      return false;
    extent[d] = hi - lo[d];
    elements *= (size_t)extent[d];
    if (elements > MOST_ELEMENTS) return false;
  }
  *bytes = elements * dtype_bytes((DType)t->dtype);
  return true;
}

static void load_parts(const Program *p, const Weights *w, uint32_t rank, int64_t *values) {
  int64_t coordinates[PROGRAM_MAX_AXES], lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
  program_coordinates(p, rank, coordinates);
  if (program_eval(p, NULL, coordinates, values, NULL) != RT_OK) return;
  for (uint32_t i = 0; i < p->n_params; i++) {
    size_t bytes;
    if (p->params[i].init == PINIT_prepared || !part_of(p, &p->params[i], values, lo, extent, &bytes)) continue;
    char *to = malloc(bytes ? bytes : 1);
    if (!to) die("no memory");
    weights_load(w, i, lo, extent, to, NULL);
    const char *in_place = weights_in_place(w, i, lo, extent);
    if (in_place && memcmp(in_place, to, bytes) != 0) die("a weight in place is not the weight");
    free(to);
  }
}

static void check_weights(const Artifact *a) {
  const Program *p = &a->program;
  Weights *w;
  RtError error = {0};
  for (uint32_t i = 0; i < p->n_blobs; i++) /* read no files: mutations could name any */
    if (*program_text(p, p->blobs[i].path)) return;
  ParamFiles *files = NULL;
  if (param_files_open(a, NULL, NULL, &files, &error)) { /* with checksums off: readers must not rely on them */
    RtError second = {0};
    char text[128];
    snprintf(text, sizeof text, "-1:%lld:%lld:%lld", (long long)a->stamp.size, (long long)a->stamp.seconds,
             (long long)a->stamp.nanoseconds);
    if (param_files_inherit(a, NULL, text, &files, &second)) die("embedded weights are not taken: %s", second.text);
  }
  if (weights_open(files, &w, &error)) die("embedded weights cannot be opened: %s", error.text);
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) die("no memory");
  for (uint32_t rank = 0; rank < p->ranks && rank < 4; rank++) load_parts(p, w, rank, values);
  free(values);
  weights_close(w);
  param_files_close(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  unsigned char *file = malloc(n + 1);
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  char path[64];
  if (!file || fd < 0) die("no memory");
  memcpy(file, bytes, n);
  seal(file, n);
  if (write(fd, file, n) != (ssize_t)n) die("cannot write %zu bytes", n);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  Artifact a;
  RtError error = {0};
  RtStatus status = artifact_open(path, "fuzz", &a, &error);
  if (status && (error.status != status || !*error.text)) die("refused without a reason");
  if (!status) {
    check_weights(&a);
    artifact_close(&a);
  }
  close(fd);
  free(file);
  return 0;
}
