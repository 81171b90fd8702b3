/* runtime/exec/pack.c - packs weights into panels directly from their files.
 *
 * @prepare loads a weight for the pack after it, and the Program marks the pair.  If the device computes in host memory
 * and the file holds this rank's part as a matrix, with any distance between rows, nothing is loaded: panels are made
 * from the mapped file, in pieces that stay in a core's cache, and the pages of a piece are released after it.  So a
 * weight is read from memory once and exists once: only a few pieces of the file are in memory beside the panels.  Each
 * of the device's threads takes the next piece.  Reading the file's pages and clearing those of the panels take as long
 * as packing, so threads that split a single piece would wait for these.
 */
#include "runtime/exec/internal.h"

enum { PIECE = 512 << 10 }; /* bytes of a file */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Packs rows or columns `at` to `at + n` of the matrix, whichever are farther apart in the file. */
static RtStatus pack_piece(const Executor *e, const DeviceCall *pack, const WeightsMatrix *m, bool by_rows, int64_t at,
                           int64_t n, RtError *error) {
  int64_t rows = pack->scalars[0], columns = pack->scalars[1], far = by_rows ? m->row : m->column,
          near = by_rows ? m->column : m->row, inside = by_rows ? columns : rows;
  const int64_t size = (int64_t)dtype_bytes((DType)pack->tensors[0].dtype), deep = pack->tensors[1].extents[1];
  const char *from = (const char *)m->data + at * far * size;
  const char *to = from + ((n - 1) * far + (inside - 1) * near + 1) * size;
  int64_t scalars[4] = {by_rows ? n : rows, by_rows ? columns : n, m->row, m->column};
  void *data[2] = {(void *)(uintptr_t)from, (char *)pack->data[1] + at * (by_rows ? PROGRAM_PANEL : deep) * size};
  DeviceCall piece = *pack;
  piece.scalars = scalars, piece.data = data;
  weights_soon(e->weights, from, to);
  RtStatus status = e->ops->pack(e->device, &piece, error);
  weights_give_back(e->weights, from, to);
  if (exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
  return status;
}

/* The pieces of a weight, which the device's threads take one by one. */
typedef struct Packing {
  const Executor *e;
  const DeviceCall *pack;
  const WeightsMatrix *m;
  bool by_rows;
  int64_t outside, step, n, first; /* rows or columns in all, and per piece; number of pieces; the first to take */
  uint32_t buffer;
  _Atomic int64_t next;
  _Atomic bool failed;
  RtError error; /* of the first failure */
} Packing;

static void take_pieces(void *data) {
  Packing *p = data;
  RtError error = {0};
  for (int64_t i; !p->failed && (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
    int64_t piece = (p->first + i) % p->n, at = piece * p->step;
    if (exec_shared_has(p->e, p->buffer, (uint64_t)piece)) continue;
    RtStatus status = pack_piece(p->e, p->pack, p->m, p->by_rows, at, least(p->step, p->outside - at), &error);
    if (!status) exec_shared_wrote(p->e, p->buffer, (uint64_t)piece);
    else if (!atomic_exchange(&p->failed, true)) p->error = error;
  }
}

static RtStatus pack_matrix(const Executor *e, const DeviceCall *pack, const WeightsMatrix *m, RtError *error) {
  bool by_rows = m->row >= m->column;
  int64_t rows = pack->scalars[0], columns = pack->scalars[1], outside = by_rows ? rows : columns;
  int64_t span = (by_rows ? columns : rows) * (int64_t)dtype_bytes((DType)pack->tensors[0].dtype), step = PIECE / span;
  step = step < PROGRAM_PANEL ? PROGRAM_PANEL : step / PROGRAM_PANEL * PROGRAM_PANEL; /* whole panels */
  int64_t n = (outside + step - 1) / step;
  Packing p = {.e = e,
               .pack = pack,
               .m = m,
               .by_rows = by_rows,
               .outside = outside,
               .step = step,
               .n = n,
               .first = (int64_t)exec_shared_first(e, (uint64_t)n),
               .buffer = e->p->tensors[program_list(e->p, e->p->instrs[pack->instr].tensors)[1]].buffer};
  if (n > 1 && e->ops->parallel) e->ops->parallel(e->device, take_pieces, &p);
  else take_pieces(&p);
  return p.failed ? rt_error(error, p.error.status, "%s", p.error.text) : RT_OK;
}

bool exec_pack_stored(const Executor *e, const DeviceCall *load, RtStatus *status, RtError *error) {
  const DeviceCall *pack = load + 1;
  WeightsMatrix m;
  if (!e->host_memory || pack->refused) return false;
  if (!weights_matrix(e->weights, load->object, load->scalars, load->tensors[0].extents, pack->scalars, &m))
    return false;
  *status = pack_matrix(e, pack, &m, error);
  return true;
}
