/* codegen/cuda/schedule.c - see schedule.h.
 *
 * In: a Program with CUDA kernels.  Out: text, one line per call a rank makes on its stream, in order: launches of
 * emitted kernels, cublasLtMatmul for products, nccl calls for communication, cudaMemcpy and cudaMemset for what only
 * moves bytes.
 *
 * NCCL joins and cuts contiguous ranges, so that a collective along another dimension than the first one of extent
 * above 1 is packed into or unpacked from a staging buffer by strided copies.  Its counts are equal on all members:
 * parts of different sizes become one call per member inside a group.
 *
 * Ranks are printed by class.  What a rank's list says depends on its own values of the body's expressions, and on its
 * group where parts differ: only one rank of each such class is written out, and lists that come out equal are printed
 * once.  So thousands of ranks cost little more than a few.  Where parts differ and more than LISTS_MOST classes come
 * of that, the other ranks are named without their lists.
 *
 * Loops are the host's: it reads the number of rounds, and whether another one follows, and tells the device the round.
 */
#include "codegen/cuda/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "program/interval.h"
#include "program/values.h"

enum {
  LISTS_MOST = 64,        /* classes of ranks whose lists are written out for a body, */
  LISTS_BYTES = 16 << 20, /* and their bytes */
  RANKS_IN_FULL = 64      /* ranks of a program up to which all are named; above that as ranges and patterns */
};

typedef struct Print {
  Arena *a;
  const Program *p;
  const ProgramKernelText *kernels;
  Text *t;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  ProgramValues values; /* micro-batch 0 */
  uint32_t rank;        /* being printed */
  uint32_t at;          /* instruction */
  uint32_t entry;
  int depth; /* loops around */
} Print;

static int64_t value_at(const Print *k, uint32_t rank, uint32_t e) { return program_value_of(&k->values, rank, e); }
static int64_t value(const Print *k, uint32_t e) { return value_at(k, k->rank, e); }
static const ProgramInstr *instr(const Print *k) { return &k->p->instrs[k->at]; }
static const ProgramTensor *tensor(const Print *k, uint32_t i) {
  return &k->p->tensors[program_list(k->p, instr(k)->tensors)[i]];
}
static int64_t expr(const Print *k, uint32_t i) { return value(k, program_list(k->p, instr(k)->exprs)[i]); }

__attribute__((format(printf, 2, 3))) static void line(const Print *k, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(k->a, format, args);
  va_end(args);
  text_printf(k->t, "%*s%s\n", 4 + 2 * k->depth, "", text);
}

/* ---- tensors */

static int64_t extent_at(const Print *k, uint32_t rank, const ProgramTensor *x, uint32_t d) {
  return value_at(k, rank, program_list(k->p, x->extents)[d]);
}

static int64_t elements_between(const Print *k, uint32_t rank, const ProgramTensor *x, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t d = from; d < to; d++) n *= extent_at(k, rank, x, d);
  return n;
}

static int64_t elements_at(const Print *k, uint32_t rank, const ProgramTensor *x) {
  return elements_between(k, rank, x, 0, x->extents.n);
}
static int64_t elements(const Print *k, const ProgramTensor *x) { return elements_at(k, k->rank, x); }

static const char *place(const Print *k, const ProgramTensor *x) {
  int64_t offset = value(k, x->offset);
  return offset ? arena_printf(k->a, "b%u+%" PRId64, x->buffer, offset) : arena_printf(k->a, "b%u", x->buffer);
}

static const char *shape(const Print *k, const ProgramTensor *x) {
  Text t = {.arena = k->a};
  text_printf(&t, "%s[", dtype_name((DType)x->dtype));
  for (uint32_t d = 0; d < x->extents.n; d++) text_printf(&t, "%s%" PRId64, d ? "," : "", extent_at(k, k->rank, x, d));
  text_add(&t, "]");
  return text_str(&t);
}

static const char *nccl_type(uint32_t dtype) {
  static const char *const names[DT_COUNT] = {
      [DT_f32] = "ncclFloat32", [DT_f64] = "ncclFloat64", [DT_f16] = "ncclFloat16", [DT_bf16] = "ncclBfloat16",
      [DT_i8] = "ncclInt8",     [DT_i16] = "ncclInt8",    [DT_i32] = "ncclInt32",   [DT_i64] = "ncclInt64",
      [DT_u8] = "ncclUint8",    [DT_u16] = "ncclUint8",   [DT_u32] = "ncclUint32",  [DT_u64] = "ncclUint64",
      [DT_bool] = "ncclUint8"};
  return names[dtype];
}

/* 16-bit integers move as twice as many bytes. */
static int64_t nccl_count(uint32_t dtype, int64_t n) { return dtype == DT_i16 || dtype == DT_u16 ? 2 * n : n; }

static const char *nccl_reduction(uint32_t r) {
  static const char *const words[] = {
#define COMM_REDUCTION(name, classes) #name,
#include "program/comm.def"
#undef COMM_REDUCTION
  };
  static const struct {
    const char *word, *name;
  } names[] = {{"sum", "ncclSum"}, {"product", "ncclProd"}, {"max", "ncclMax"}, {"min", "ncclMin"},
               {"or", "ncclMax"},  {"and", "ncclMin"},      {"one", "ncclSum"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(words[r], names[i].word) == 0) return names[i].name;
  die("no NCCL reduction for %s", words[r]);
}

/* ---- what only moves bytes */

/* A strided copy of `height` rows of `width` bytes. */
static void copy_2d(const Print *k, const char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                    int64_t width, int64_t height) {
  if (width == 0 || height == 0) return;
  if (height == 1 || (to_pitch == width && from_pitch == width))
    line(k, "cudaMemcpyAsync(%s, %s, %" PRId64 ")", to, from, width * height);
  else
    line(k, "cudaMemcpy2DAsync(%s, %" PRId64 ", %s, %" PRId64 ", width %" PRId64 ", height %" PRId64 ")", to, to_pitch,
         from, from_pitch, width, height);
}

static void print_copy(const Print *k) {
  const ProgramTensor *from = tensor(k, 0), *to = tensor(k, 1);
  Text box = {.arena = k->a};
  for (uint32_t d = 0; d < from->extents.n; d++) text_printf(&box, "%s%" PRId64, d ? "x" : "", expr(k, 3 * d));
  if (elements(k, from) == elements(k, to))
    line(k, "cudaMemcpyAsync(%s, %s, %" PRId64 ")", place(k, to), place(k, from),
         elements(k, from) * (int64_t)dtype_bytes((DType)from->dtype));
  else
    line(k, "cudaMemcpy3DAsync(%s %s, %s %s, box %s)", place(k, to), shape(k, to), place(k, from), shape(k, from),
         from->extents.n ? text_str(&box) : "1");
}

/* ---- products */

/* Row-major C = A B is column-major C' = B' A': the operands change places, each transposed when its last stride is not
 * 1. */
static void print_gemm(const Print *k) {
  int64_t m = expr(k, 0), n = expr(k, 1), depth = expr(k, 2), a_m = expr(k, 3), a_k = expr(k, 4), b_k = expr(k, 5),
          b_n = expr(k, 6), c_m = expr(k, 7);
  Text batch = {.arena = k->a};
  uint32_t loops = (instr(k)->exprs.n - 10) / 4;
  for (uint32_t i = 0; i < loops; i++)
    text_printf(&batch, ", %s %" PRId64 " strides %" PRId64 " %" PRId64 " %" PRId64, i + 1 < loops ? "loop" : "batch",
                expr(k, 10 + 4 * i), expr(k, 12 + 4 * i), expr(k, 11 + 4 * i), expr(k, 13 + 4 * i));
  if (depth == 0) {
    line(k, "cudaMemsetAsync(%s, 0, %" PRId64 ")", place(k, tensor(k, 2)),
         elements(k, tensor(k, 2)) * (int64_t)dtype_bytes((DType)tensor(k, 2)->dtype));
    return;
  }
  bool ta = a_k != 1 && depth > 1, tb = b_n != 1 && n > 1;
  line(k,
       "cublasLtMatmul(op%s op%s, m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", A %s ld %" PRId64 ", B %s ld %" PRId64
       ", C %s ld %" PRId64 "%s, %s)",
       tb ? "T" : "N", ta ? "T" : "N", n, m, depth, place(k, tensor(k, 1)), tb ? b_n : b_k, place(k, tensor(k, 0)),
       ta ? a_k : a_m, place(k, tensor(k, 2)), c_m, batch.n ? text_str(&batch) : "",
       dtype_name((DType)tensor(k, 2)->dtype));
}

/* ---- communication */

typedef ProgramMembers Members;

static Members members_of(const Print *k) { return program_group_of(k->p, instr(k)->object, k->rank); }

/* "comm2": a communicator per family and group. */
static const char *comm(const Print *k) { return arena_printf(k->a, "comm%u", instr(k)->object); }

/* Bytes of a row along dim: `before` rows of [extent along dim][what is behind]. */
typedef struct Rows {
  int64_t before, size; /* rows; bytes of one step along dim */
} Rows;

static Rows rows_of(const Print *k, const ProgramTensor *x, uint32_t dim) {
  return (Rows){elements_between(k, k->rank, x, 0, dim),
                elements_between(k, k->rank, x, dim + 1, x->extents.n) * (int64_t)dtype_bytes((DType)x->dtype)};
}

static bool equal_parts(const Print *k, const Members *m, const ProgramTensor *x, uint32_t dim) {
  for (uint32_t i = 1; i < m->n; i++)
    if (extent_at(k, program_member(m, i), x, dim) != extent_at(k, program_member(m, 0), x, dim)) return false;
  return true;
}

static void print_all_reduce(const Print *k) {
  const ProgramTensor *x = tensor(k, 0);
  line(k, "ncclAllReduce(%s, %s, count %" PRId64 ", %s, %s, %s) key %u", place(k, x), place(k, tensor(k, 1)),
       nccl_count(x->dtype, elements(k, x)), nccl_type(x->dtype), nccl_reduction(instr(k)->reduction), comm(k),
       instr(k)->key);
}

/* The members' parts of the whole, one behind another in `staging`, to or from their places along dim. */
static void unstage(const Print *k, const Members *m, const ProgramTensor *part, const ProgramTensor *whole,
                    uint32_t dim, bool into_staging) {
  Rows r = rows_of(k, whole, dim);
  int64_t pitch = extent_at(k, k->rank, whole, dim) * r.size, at = 0;
  for (uint32_t i = 0; i < m->n; i++) {
    int64_t width = extent_at(k, program_member(m, i), part, dim) * r.size;
    const char *there = arena_printf(k->a, "staging+%" PRId64, at * r.before),
               *here = arena_printf(k->a, "%s+%" PRId64, place(k, whole), at);
    if (into_staging) copy_2d(k, there, width, here, pitch, width, r.before);
    else copy_2d(k, here, pitch, there, width, width, r.before);
    at += width;
  }
}

static void print_all_gather(const Print *k) {
  const ProgramTensor *part = tensor(k, 0), *whole = tensor(k, 1);
  uint32_t dim = instr(k)->dim;
  Members m = members_of(k);
  bool staged = rows_of(k, whole, dim).before > 1;
  const char *to = staged ? "staging" : place(k, whole);
  if (equal_parts(k, &m, part, dim)) {
    line(k, "ncclAllGather(%s, %s, count %" PRId64 ", %s, %s) key %u", place(k, part), to,
         nccl_count(part->dtype, elements(k, part)), nccl_type(part->dtype), comm(k), instr(k)->key);
  } else {
    line(k, "ncclGroupStart() key %u", instr(k)->key);
    int64_t at = 0;
    for (uint32_t i = 0; i < m.n; i++) {
      int64_t n = elements_at(k, program_member(&m, i), part);
      line(k, "  ncclBroadcast(%s, %s+%" PRId64 ", count %" PRId64 ", %s, root %u, %s)",
           i == m.place ? place(k, part) : "NULL", to, at, nccl_count(part->dtype, n), nccl_type(part->dtype), i,
           comm(k));
      at += n * (int64_t)dtype_bytes((DType)part->dtype);
    }
    line(k, "ncclGroupEnd()");
  }
  if (staged) unstage(k, &m, part, whole, dim, false);
}

static void print_reduce_scatter(const Print *k) {
  const ProgramTensor *whole = tensor(k, 0), *part = tensor(k, 1);
  uint32_t dim = instr(k)->dim;
  Members m = members_of(k);
  bool staged = rows_of(k, whole, dim).before > 1;
  const char *from = staged ? "staging" : place(k, whole), *op = nccl_reduction(instr(k)->reduction);
  if (staged) unstage(k, &m, part, whole, dim, true);
  if (equal_parts(k, &m, part, dim)) {
    line(k, "ncclReduceScatter(%s, %s, count %" PRId64 ", %s, %s, %s) key %u", from, place(k, part),
         nccl_count(part->dtype, elements(k, part)), nccl_type(part->dtype), op, comm(k), instr(k)->key);
    return;
  }
  line(k, "ncclGroupStart() key %u", instr(k)->key);
  int64_t at = 0;
  for (uint32_t i = 0; i < m.n; i++) {
    int64_t n = elements_at(k, program_member(&m, i), part);
    line(k, "  ncclReduce(%s+%" PRId64 ", %s, count %" PRId64 ", %s, %s, root %u, %s)", from, at,
         i == m.place ? place(k, part) : "NULL", nccl_count(part->dtype, n), nccl_type(part->dtype), op, i, comm(k));
    at += n * (int64_t)dtype_bytes((DType)part->dtype);
  }
  line(k, "ncclGroupEnd()");
}

static void peer(const Print *k, const char *call, const char *where, uint32_t dtype, int64_t n, uint32_t i) {
  if (n > 0)
    line(k, "  %s(%s, count %" PRId64 ", %s, peer %u, %s)", call, where, nccl_count(dtype, n), nccl_type(dtype), i,
         comm(k));
}

/* Tensor 0 is cut along dim, tensor 1 is joined along dim2; both in pieces that are contiguous in staging buffers. */
static void print_all_to_all(const Print *k) {
  const ProgramTensor *from = tensor(k, 0), *to = tensor(k, 1);
  uint32_t cut = instr(k)->dim, join = instr(k)->dim2;
  Members m = members_of(k);
  int64_t size = (int64_t)dtype_bytes((DType)from->dtype), at = 0, sent = 0;
  Rows a = rows_of(k, from, cut), b = rows_of(k, to, join);
  for (uint32_t i = 0; i < m.n; i++) {
    int64_t width = extent_at(k, program_member(&m, i), to, cut) * a.size;
    if (a.before > 1)
      copy_2d(k, arena_printf(k->a, "staging+%" PRId64, sent), width,
              arena_printf(k->a, "%s+%" PRId64, place(k, from), at), extent_at(k, k->rank, from, cut) * a.size, width,
              a.before);
    at += width, sent += width * a.before;
  }
  line(k, "ncclGroupStart() key %u", instr(k)->key);
  int64_t out = 0, in = 0;
  for (uint32_t i = 0; i < m.n; i++) {
    int64_t n = extent_at(k, program_member(&m, i), to, cut) * a.size / size * a.before,
            r = extent_at(k, program_member(&m, i), from, join) * b.size / size * b.before;
    peer(k, "ncclSend", arena_printf(k->a, "%s+%" PRId64, a.before > 1 ? "staging" : place(k, from), out), from->dtype,
         n, i);
    peer(k, "ncclRecv", arena_printf(k->a, "%s+%" PRId64, b.before > 1 ? "staging2" : place(k, to), in), to->dtype, r,
         i);
    out += n * size, in += r * size;
  }
  line(k, "ncclGroupEnd()");
  at = in = 0;
  for (uint32_t i = 0; i < m.n; i++) {
    int64_t width = extent_at(k, program_member(&m, i), from, join) * b.size;
    if (b.before > 1)
      copy_2d(k, arena_printf(k->a, "%s+%" PRId64, place(k, to), at), extent_at(k, k->rank, to, join) * b.size,
              arena_printf(k->a, "staging2+%" PRId64, in), width, width, b.before);
    at += width, in += width * b.before;
  }
}

/* What `holder` gives to `wanter`: of several holders the first in order, so what earlier ones hold is left out. */
static int64_t given(const Print *k, const Members *m, uint32_t holder, uint32_t wanter, int64_t *start) {
  const uint32_t *e = program_list(k->p, instr(k)->exprs);
  int64_t low = value_at(k, program_member(m, wanter), e[2]), high = value_at(k, program_member(m, wanter), e[3]);
  int64_t from = value_at(k, program_member(m, holder), e[0]), to = value_at(k, program_member(m, holder), e[1]);
  for (uint32_t i = 0; i < holder; i++)
    interval_less(&from, &to, value_at(k, program_member(m, i), e[0]), value_at(k, program_member(m, i), e[1]));
  *start = from > low ? from : low;
  int64_t end = to < high ? to : high;
  return end > *start ? end - *start : 0;
}

static void print_exchange(const Print *k) {
  const ProgramTensor *from = tensor(k, 0), *to = tensor(k, 1);
  uint32_t dim = instr(k)->dim;
  Members m = members_of(k);
  Rows a = rows_of(k, from, dim);
  int64_t size = (int64_t)dtype_bytes((DType)from->dtype), start, sent = 0, got = 0;
  line(k, "cudaMemsetAsync(%s, %g, %" PRId64 ")", place(k, to), instr(k)->value, elements(k, to) * size);
  for (uint32_t i = 0; i < m.n && a.before > 1; i++) {
    int64_t n = given(k, &m, m.place, i, &start) * a.size;
    copy_2d(k, arena_printf(k->a, "staging+%" PRId64, sent), n,
            arena_printf(k->a, "%s+%" PRId64, place(k, from), (start - expr(k, 0)) * a.size),
            extent_at(k, k->rank, from, dim) * a.size, n, a.before);
    sent += n * a.before;
  }
  line(k, "ncclGroupStart() key %u", instr(k)->key);
  sent = 0;
  for (uint32_t i = 0; i < m.n; i++) {
    int64_t n = given(k, &m, m.place, i, &start);
    peer(k, "ncclSend",
         a.before > 1 ? arena_printf(k->a, "staging+%" PRId64, sent)
                      : arena_printf(k->a, "%s+%" PRId64, place(k, from), (start - expr(k, 0)) * a.size),
         from->dtype, n * a.size / size * a.before, i);
    sent += n * a.size * a.before;
    n = given(k, &m, i, m.place, &start);
    peer(k, "ncclRecv",
         a.before > 1 ? arena_printf(k->a, "staging2+%" PRId64, got)
                      : arena_printf(k->a, "%s+%" PRId64, place(k, to), (start - expr(k, 2)) * a.size),
         to->dtype, n * a.size / size * a.before, i);
    got += n * a.size * a.before;
  }
  line(k, "ncclGroupEnd()");
  got = 0;
  for (uint32_t i = 0; i < m.n && a.before > 1; i++) {
    int64_t n = given(k, &m, i, m.place, &start) * a.size;
    copy_2d(k, arena_printf(k->a, "%s+%" PRId64, place(k, to), (start - expr(k, 2)) * a.size),
            extent_at(k, k->rank, to, dim) * a.size, arena_printf(k->a, "staging2+%" PRId64, got), n, n, a.before);
    got += n * a.before;
  }
}

static void print_pair(const Print *k, const char *call) {
  Members m = members_of(k);
  const ProgramTensor *x = tensor(k, 0);
  line(k, "ncclGroupStart() key %u", instr(k)->key);
  peer(k, call, place(k, x), x->dtype, elements(k, x), 1 - m.place);
  line(k, "ncclGroupEnd()");
}

/* ---- instructions */

static void print_launch(const Print *k) {
  const ProgramKernelText *f = &k->kernels[instr(k)->object];
  Text args = {.arena = k->a};
  for (uint32_t i = 0; i < instr(k)->tensors.n; i++) text_printf(&args, "%s%s", i ? ", " : "", place(k, tensor(k, i)));
  for (uint32_t i = 1; i < instr(k)->exprs.n; i++) text_printf(&args, "%s%" PRId64, i > 1 ? ", " : "; ", expr(k, i));
  if (expr(k, 0) > 0) line(k, "%s<<<%" PRId64 ", %d>>>(%s)", f->symbol, expr(k, 0), f->threads, text_str(&args));
}

static void print_port(const Print *k, bool feed) {
  const ProgramEntry *e = &k->p->entries[k->entry];
  const ProgramTensor *x = tensor(k, 0);
  const char *name = program_text(k->p, k->p->ports[(feed ? e->inputs : e->outputs) + instr(k)->object].name);
  int64_t bytes = elements(k, x) * (int64_t)dtype_bytes((DType)x->dtype);
  if (feed) line(k, "cudaMemcpyAsync(%s, input \"%s\", %" PRId64 ")", place(k, x), name, bytes);
  else line(k, "cudaMemcpyAsync(output \"%s\", %s, %" PRId64 ")", name, place(k, x), bytes);
}

static void print_loop(const Print *k) {
  const char *most = instr(k)->exprs.n ? arena_printf(k->a, "min(rounds%d, %" PRId64 ")", k->depth, expr(k, 0))
                                       : arena_printf(k->a, "rounds%d", k->depth);
  line(k, "cudaMemcpyAsync(&rounds%d, %s, 8); cudaStreamSynchronize()", k->depth, place(k, tensor(k, 1)));
  line(k, "for (round%d = 0; round%d < %s; round%d++) {", k->depth, k->depth, most, k->depth);
  line(k, "  cudaMemcpyAsync(%s, &round%d, 8)", place(k, tensor(k, 0)), k->depth);
}

static void print_repeat(const Print *k) {
  if (instr(k)->tensors.n > 1) {
    line(k, "  cudaMemcpyAsync(&again%d, %s, 1); cudaStreamSynchronize()", k->depth, place(k, tensor(k, 1)));
    line(k, "  if (!again%d) break", k->depth);
  }
  line(k, "}");
}

static void print_instr(const Print *k) {
  const ProgramInstr *x = instr(k);
  Text about = {.arena = k->a};
  if (x->guard != PROGRAM_NONE && value(k, x->guard) == 0) return;
  for (uint32_t i = 0; i < x->tensors.n; i++) text_printf(&about, " %s", shape(k, tensor(k, i)));
  text_printf(k->t, "%*s# %s:%s\n", 2 + 2 * k->depth, "", program_text(k->p, x->where),
              about.n ? text_str(&about) : "");
  switch ((ProgramInstrKind)x->kind) {
    case PI_launch: print_launch(k); break;
    case PI_gemm: print_gemm(k); break;
    case PI_copy: print_copy(k); break;
    case PI_fill:
      line(k, "cudaMemsetAsync(%s, %g, %" PRId64 ")", place(k, tensor(k, 0)), x->value,
           elements(k, tensor(k, 0)) * (int64_t)dtype_bytes((DType)tensor(k, 0)->dtype));
      break;
    case PI_all_reduce: print_all_reduce(k); break;
    case PI_all_gather: print_all_gather(k); break;
    case PI_reduce_scatter: print_reduce_scatter(k); break;
    case PI_all_to_all: print_all_to_all(k); break;
    case PI_exchange: print_exchange(k); break;
    case PI_send: print_pair(k, "ncclSend"); break;
    case PI_recv: print_pair(k, "ncclRecv"); break;
    case PI_wait: line(k, "cudaStreamWaitEvent(event %u)", x->event); break;
    case PI_feed: print_port(k, true); break;
    case PI_fetch: print_port(k, false); break;
    case PI_load:
      line(k, "cudaMemcpyAsync(%s, weight \"%s\", %" PRId64 ")", place(k, tensor(k, 0)),
           program_text(k->p, k->p->params[x->object].name),
           elements(k, tensor(k, 0)) * (int64_t)dtype_bytes((DType)tensor(k, 0)->dtype));
      break;
    case PI_check:
      line(k, "check(%" PRId64 " <= %" PRId64 " <= %" PRId64 ")", expr(k, 1), expr(k, 0), expr(k, 2));
      break;
    case PI_loop: print_loop(k); break;
    case PI_repeat: print_repeat(k); break;
    case PI_conv: die("cuda_schedule: convolutions of a library are for CPUs");
    case PI_COUNT: die("cuda_schedule: no instruction");
  }
}

/* ---- the whole */

static const char *body_text(const Print *k, uint32_t rank, uint32_t body) {
  const ProgramBody *b = &k->p->bodies[body];
  Text t = {.arena = k->a};
  Print one = *k;
  one.t = &t, one.rank = rank, one.entry = b->entry;
  for (one.at = b->instrs; one.at < b->instrs + b->n; one.at++) {
    one.depth -= k->p->instrs[one.at].kind == PI_repeat;
    print_instr(&one);
    one.depth += k->p->instrs[one.at].kind == PI_loop;
  }
  return text_str(&t);
}

/* ---- classes of ranks */

static bool by_place(const Print *k, uint32_t e) { return k->p->expr_uses[e] & PROGRAM_USES_PLACE; }

/* The expressions of an instruction, its tensors' included, that differ between ranks: added to `list`. */
static uint32_t own_exprs(const Print *k, const ProgramInstr *x, uint32_t *list) {
  const Program *p = k->p;
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->exprs.n; i++) list[n++] = program_list(p, x->exprs)[i];
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    const ProgramTensor *t = &p->tensors[program_list(p, x->tensors)[i]];
    list[n++] = t->offset;
    for (uint32_t d = 0; d < t->extents.n; d++) list[n++] = program_list(p, t->extents)[d];
  }
  if (x->guard != PROGRAM_NONE) list[n++] = x->guard;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (by_place(k, list[i])) list[kept++] = list[i];
  return kept;
}

static void mix(uint64_t *key, int64_t value) {
  uint64_t both[2] = {*key, (uint64_t)value};
  *key = hash64(both, sizeof both, 0);
}

/* The parts of a group's members: equal ones make no difference between ranks; else a rank's place does as well. */
static void mix_parts(const Print *k, const Members *m, const uint32_t *list, uint32_t n, uint32_t first,
                      uint64_t *keys) {
  uint64_t parts = 0;
  bool differ = false;
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t j = 0; j < n; j++) {
      int64_t part = value_at(k, program_member(m, i), list[j]);
      differ |= part != value_at(k, m->first, list[j]);
      mix(&parts, part);
    }
  for (uint32_t i = 0; i < m->n && differ; i++) {
    uint64_t *key = &keys[program_member(m, i) - first];
    mix(key, (int64_t)parts);
    mix(key, i);
  }
}

/* Per rank of the stage a hash of all that its list of the body depends on.  Ports print no intervals, so these do not
 * count; an all_reduce says nothing of the other members. */
static uint64_t *keys_of(const Print *k, const ProgramBody *b) {
  const Program *p = k->p;
  uint32_t first = b->stage * p->ranks_per_stage;
  uint64_t *keys = ARENA_ARRAY(k->a, uint64_t, p->ranks_per_stage);
  memset(keys, 0, sizeof *keys * p->ranks_per_stage);
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++) {
    ProgramInstr x = p->instrs[i];
    if (x.kind == PI_feed || x.kind == PI_fetch) x.exprs.n = 0;
    uint32_t *list = ARENA_ARRAY(k->a, uint32_t, x.exprs.n + x.tensors.n * (PROGRAM_MAX_RANK + 1) + 1);
    uint32_t n = own_exprs(k, &x, list);
    bool parts = program_instr_is_comm(x.kind) && x.kind != PI_all_reduce && p->groups[x.object].from == PROGRAM_NONE;
    for (uint32_t r = 0; n && r < p->ranks_per_stage; r++) {
      for (uint32_t j = 0; j < n; j++) mix(&keys[r], value_at(k, first + r, list[j]));
      Members m = {0};
      if (parts) m = program_group_of(p, x.object, first + r);
      if (parts && m.place == 0) mix_parts(k, &m, list, n, first, keys);
    }
  }
  return keys;
}

/* ---- the lists of one body */

/* Ranks with equal keys, and of these classes those with equal lists. */
typedef struct Lists {
  uint64_t keys[LISTS_MOST];
  const char *texts[LISTS_MOST];
  uint32_t same[LISTS_MOST]; /* the first class with this list */
  uint32_t n, *class_of;     /* per rank of the stage; LISTS_MOST: not written out */
  size_t bytes;
} Lists;

static uint32_t list_of(const Print *k, uint32_t body, uint32_t rank, uint64_t key, Lists *l) {
  for (uint32_t c = 0; c < l->n; c++)
    if (l->keys[c] == key) return c;
  if (l->n == LISTS_MOST || (k->p->ranks > RANKS_IN_FULL && l->bytes > LISTS_BYTES)) return LISTS_MOST;
  uint32_t c = l->n++;
  l->keys[c] = key;
  l->texts[c] = body_text(k, rank, body);
  l->bytes += strlen(l->texts[c]);
  for (l->same[c] = 0; strcmp(l->texts[l->same[c]], l->texts[c]) != 0;) l->same[c]++;
  return c;
}

static Lists lists_of(const Print *k, uint32_t body) {
  const Program *p = k->p;
  const ProgramBody *b = &p->bodies[body];
  Lists l = {.class_of = ARENA_ARRAY(k->a, uint32_t, p->ranks_per_stage)};
  const uint64_t *keys = keys_of(k, b);
  for (uint32_t r = 0; r < p->ranks_per_stage; r++)
    l.class_of[r] = list_of(k, body, b->stage * p->ranks_per_stage + r, keys[r], &l);
  return l;
}

static uint32_t shown_as(const Lists *l, uint32_t r) {
  return l->class_of[r] == LISTS_MOST ? LISTS_MOST : l->same[l->class_of[r]];
}

/* " 0 1 2 3", or " 0-1023" in a program of many ranks. */
static void print_ranks(const Print *k, const Lists *l, uint32_t first, uint32_t shown) {
  uint32_t n = k->p->ranks_per_stage;
  for (uint32_t r = 0, end; r < n; r = end) {
    end = r + 1;
    if (shown_as(l, r) != shown) continue;
    while (k->p->ranks > RANKS_IN_FULL && end < n && shown_as(l, end) == shown) end++;
    text_printf(k->t, " %u", first + r);
    if (end > r + 1) text_printf(k->t, "-%u", first + end - 1);
  }
}

static void print_body(const Print *k, uint32_t body) {
  const Program *p = k->p;
  const ProgramBody *b = &p->bodies[body];
  Lists l = lists_of(k, body);
  bool others = false;
  for (uint32_t r = 0; r < p->ranks_per_stage; r++) others |= l.class_of[r] == LISTS_MOST;
  for (uint32_t c = 0; c < l.n + others; c++) {
    if (c < l.n && l.same[c] != c) continue;
    text_printf(k->t, "\nbody %u: %s of stage %u on rank", body, program_text(p, b->name), b->stage);
    print_ranks(k, &l, b->stage * p->ranks_per_stage, c < l.n ? c : LISTS_MOST);
    text_printf(k->t, "\n%s", c < l.n ? l.texts[c] : "  # like the lists above, with parts of their own\n");
  }
}

/* " {0 1} {2 3}" */
static void print_groups(const Print *k, uint32_t group) {
  const Program *p = k->p;
  for (uint32_t r = 0; r < p->ranks; r++) {
    Members m = program_group_of(p, group, r);
    for (uint32_t i = 0; i < m.n && m.place == 0; i++) text_printf(k->t, "%s%u", i ? " " : " {", program_member(&m, i));
    if (m.n && m.place == 0) text_add(k->t, "}");
  }
}

/* " 128 groups of 8 x 4 ranks, 1 and 32 apart; the first {0 1 ... 103}" */
static void print_pattern(const Print *k, uint32_t group) {
  const Program *p = k->p;
  const ProgramGroup *g = &p->groups[group];
  Members m = program_group_of(p, group, g->from == PROGRAM_NONE ? 0 : g->from * p->ranks_per_stage);
  uint32_t ranks = g->from == PROGRAM_NONE ? p->ranks : 2 * p->ranks_per_stage;
  text_printf(k->t, " %u groups of", ranks / m.n);
  for (uint32_t a = 0; a < m.n_axes; a++) text_printf(k->t, "%s%u", a ? " x " : " ", m.sizes[a]);
  text_add(k->t, " ranks,");
  for (uint32_t a = 0; a < m.n_axes; a++) text_printf(k->t, "%s%d", a ? " and " : " ", (int32_t)m.strides[a]);
  text_printf(k->t, " apart; the first {%u", m.first);
  if (m.n > 1) text_printf(k->t, " %u", program_member(&m, 1));
  if (m.n > 2) text_printf(k->t, " %s%u", m.n > 3 ? "... " : "", program_member(&m, m.n - 1));
  text_add(k->t, "}");
}

static void print_communicators(const Print *k) {
  for (uint32_t g = 0; g < k->p->n_groups; g++) {
    text_printf(k->t, "comm%u:", g);
    if (k->p->ranks <= RANKS_IN_FULL) print_groups(k, g);
    else print_pattern(k, g);
    text_add(k->t, "\n");
  }
}

static void print_calls(const Print *k) {
  const Program *p = k->p;
  for (uint32_t e = 0; e < p->n_entries; e++)
    for (uint32_t s = 0; s < p->stages; s++) {
      const ProgramSchedule *list = &p->schedules[e * p->stages + s];
      text_printf(k->t, "%s, stage %u:", program_text(p, p->entries[e].name), s);
      for (uint32_t i = list->calls; i < list->calls + list->n; i++)
        text_printf(k->t, " body %u(%u)", p->calls[i].body, p->calls[i].micro_batch);
      text_add(k->t, "\n");
    }
}

static void evaluate(Print *k) {
  const Program *p = k->p;
  RtError error = {0};
  for (uint32_t i = 0; i < p->n_symbols; i++) k->symbols[i] = program_default_size(&p->symbols[i]);
  if (program_values_open(p, &k->values, &error) != RT_OK ||
      program_values_bind(&k->values, k->symbols, 0, &error) != RT_OK)
    die("cuda_schedule: %s", error.text);
}

void cuda_schedule_print(Arena *a, const ArtifactProgram *program, Text *t) {
  const Program *p = &program->p;
  Print k = {.a = a, .p = p, .kernels = program->result.kernels.items, .t = t};
  evaluate(&k);
  text_printf(t, "schedule of \"%s\" for %s: %u rank%s", program_text(p, p->header->name),
              program_text(p, p->header->target), p->ranks, p->ranks == 1 ? "" : "s");
  for (uint32_t i = 0; i < p->n_symbols; i++)
    text_printf(t, "%s%s %" PRId64, i ? ", " : "; sizes for ", program_text(p, p->symbols[i].name), k.symbols[i]);
  text_add(t, "\n");
  print_communicators(&k);
  for (size_t i = 0; i < program->result.kernels.n; i++)
    text_printf(t, "kernel %s: %s\n", program->result.kernels.items[i].symbol, program->result.kernels.items[i].how);
  print_calls(&k);
  for (uint32_t i = 0; i < p->n_bodies; i++) print_body(&k, i);
  program_values_close(&k.values);
}
