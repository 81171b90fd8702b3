/* codegen/cuda/schedule.c - see schedule.h.
 *
 * In: a Program with CUDA kernels.  Out: its lists of device calls (program/device_calls.h), which an executor walks,
 * as text, one line per call of a rank, in order: launches of emitted kernels, cublasLtMatmul for products, nccl calls
 * for communication, cudaMemcpy and cudaMemset for instructions that only move bytes.
 *
 * There are two queues (streams): compute, and communication, which runs the calls of NCCL.  Communication starts when
 * the computation before it is done, and an event signals its end.
 *
 * NCCL joins and splits contiguous ranges; the Program's collectives move no others, and use only NCCL's reductions
 * (ir/legal_comm.h).  Its counts are equal on all members: parts of different sizes become one call per member inside a
 * group.
 *
 * Ranks are printed by class (program/device_classes.h): only one rank of each is written out, and equal lists are
 * printed once.  So thousands of ranks cost little more than a few.  If parts differ so much that there are more than
 * LISTS_MOST classes, the remaining ranks are named without their lists.
 *
 * Loops run on the host: it reads the number of rounds, and whether another one follows, and writes the round to the
 * device.
 */
#include "codegen/cuda/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "program/build.h"
#include "program/device_classes.h"

enum {
  LISTS_MOST = 64,        /* classes of ranks whose lists are written out for a body, */
  LISTS_BYTES = 16 << 20, /* and their bytes */
  RANKS_IN_FULL = 64      /* the most ranks that are all named; more are printed as ranges and patterns */
};

typedef struct Print {
  Arena *a;
  const Program *p;
  Text *t;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  ProgramValues values; /* micro-batch 0 */
  /* space for one list, and for one communication of it */
  int64_t *of_rank, *parts;
  CommBlock *send, *recv;
  int depth; /* number of enclosing loops */
} Print;

/* A call and its instruction, while it is printed. */
typedef struct Call {
  const Print *k;
  const DeviceCall *c;
  const ProgramInstr *x;
} Call;

__attribute__((format(printf, 2, 3))) static void line(const Print *k, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(k->a, format, args);
  va_end(args);
  text_printf(k->t, "%*s%s\n", 4 + 2 * k->depth, "", text);
}

/* ---- tensors */

static int64_t bytes_of(const CallTensor *x) { return x->elements * (int64_t)dtype_bytes((DType)x->dtype); }

/* Returns "b3+128". */
static const char *place(const Call *q, uint32_t i) {
  const CallTensor *x = &q->c->tensors[i];
  return x->offset ? arena_printf(q->k->a, "b%u+%" PRId64, x->buffer, x->offset)
                   : arena_printf(q->k->a, "b%u", x->buffer);
}

static const char *inside(const Call *q, uint32_t i, size_t offset) {
  return arena_printf(q->k->a, "%s+%zu", place(q, i), offset);
}

static const char *shape(const Print *k, const CallTensor *x) {
  Text t = {.arena = k->a};
  text_printf(&t, "%s[", dtype_name((DType)x->dtype));
  for (uint32_t d = 0; d < x->rank; d++) text_printf(&t, "%s%" PRId64, d ? "," : "", x->extents[d]);
  text_add(&t, "]");
  return text_str(&t);
}

static const char *nccl_type(uint32_t dtype) {
  static const char *const names[DT_COUNT] = {
#define NCCL_TYPE(type, name) [DT_##type] = #name,
#include "program/nccl.def"
#undef NCCL_TYPE
  };
  return names[dtype];
}

/* Returns the elements that NCCL moves: it has no 16-bit integers, which become twice as many bytes. */
static int64_t nccl_count(uint32_t dtype, int64_t n) { return dtype == DT_i16 || dtype == DT_u16 ? 2 * n : n; }

static const char *nccl_reduction(uint32_t r) {
  static const char *const names[COMM_REDUCTION_COUNT] = {
#define NCCL_REDUCTION(reduction, name) [COMM_RED_##reduction] = #name,
#include "program/nccl.def"
#undef NCCL_REDUCTION
  };
  return names[r];
}

/* ---- moving bytes */

static void print_copy(const Call *q) {
  const CallTensor *from = &q->c->tensors[0], *to = &q->c->tensors[1];
  Text box = {.arena = q->k->a};
  for (uint32_t d = 0; d < from->rank; d++) text_printf(&box, "%s%" PRId64, d ? "x" : "", q->c->scalars[d]);
  if (from->elements == to->elements)
    line(q->k, "cudaMemcpyAsync(%s, %s, %" PRId64 ")", place(q, 1), place(q, 0), bytes_of(from));
  else
    line(q->k, "cudaMemcpy3DAsync(%s %s, %s %s, box %s)", place(q, 1), shape(q->k, to), place(q, 0), shape(q->k, from),
         from->rank ? text_str(&box) : "1");
}

/* ---- products */

/* Returns the EPILOGUE of cublasLt; it has no others of our activations. */
static const char *epilogue_name(Epilogue e) {
  if (e.activation == ACT_none) return e.bias ? "BIAS" : "DEFAULT";
  if (e.activation == ACT_relu) return e.bias ? "RELU_BIAS" : "RELU";
  die("no product of cublasLt is followed by %s", program_activation_name(e.activation));
}

/* Returns ", D b4 ld 8, beta 1, EPILOGUE_RELU_BIAS b3, f16 to f32": everything that differs from C = A B in one
 * type. */
static const char *about_product(const Call *q) {
  const GemmCall *g = q->c->gemm;
  Text t = {.arena = q->k->a};
  if (g->epilogue.residual) text_printf(&t, ", D %s ld %" PRId64, place(q, 2), g->c_m);
  if (g->epilogue.residual || g->accumulate) text_add(&t, ", beta 1");
  if (g->epilogue.bias || g->epilogue.activation) text_printf(&t, ", EPILOGUE_%s", epilogue_name(g->epilogue));
  if (g->epilogue.bias) text_printf(&t, " %s", place(q, 3));
  text_printf(&t, ", %s", dtype_name(g->operands));
  if (g->result != g->operands) text_printf(&t, " to %s", dtype_name(g->result));
  if (g->sums != program_gemm_sums(g->operands)) text_printf(&t, ", sums %s", dtype_name(g->sums));
  if (g->tf32) text_add(&t, ", tf32");
  return text_str(&t);
}

/* Prints a product.  Row-major C = A B is column-major C' = B' A': the operands swap places, each transposed if its
 * last stride is not 1.  cublasLt writes D = epilogue(A B + beta C): C is the residual, or D if D accumulates.  A
 * product of no terms with an epilogue becomes one of a single term with alpha 0. */
static void print_gemm(const Call *q) {
  const GemmCall *g = q->c->gemm;
  Text batch = {.arena = q->k->a};
  for (int i = 0; i < g->loops; i++)
    text_printf(&batch, ", %s %" PRId64 " strides %" PRId64 " %" PRId64 " %" PRId64,
                i + 1 < g->loops ? "loop" : "batch", g->extent[i], g->b_step[i], g->a_step[i], g->c_step[i]);
  if (g->k == 0 && !epilogue_any(g->epilogue)) {
    if (!g->accumulate) line(q->k, "cudaMemsetAsync(%s, 0, %" PRId64 ")", place(q, 2), bytes_of(&q->c->tensors[2]));
    return;
  }
  bool ta = g->a_k != 1 && g->k > 1, tb = g->b_n != 1 && g->n > 1;
  line(q->k,
       "cublasLtMatmul(op%s op%s, m %" PRId64 ", n %" PRId64 ", k %s, A %s ld %" PRId64 ", B %s ld %" PRId64
       ", C %s ld %" PRId64 "%s%s)",
       tb ? "T" : "N", ta ? "T" : "N", g->n, g->m, g->k ? arena_printf(q->k->a, "%" PRId64, g->k) : "1, alpha 0",
       place(q, 1), tb ? g->b_n : g->b_k, place(q, 0), ta ? g->a_k : g->a_m,
       place(q, g->epilogue.residual ? q->c->n_tensors - 1 : 2), g->c_m, batch.n ? text_str(&batch) : "",
       about_product(q));
}

/* ---- communication */

/* Returns "comm2": a communicator per family and group. */
static const char *comm(const Call *q) { return arena_printf(q->k->a, "comm%u", q->c->object); }

static uint32_t dtype_of(const Call *q) { return q->c->tensors[0].dtype; }

/* Returns the number of elements in so many bytes. */
static int64_t count_of(uint32_t type, size_t bytes) {
  return nccl_count(type, (int64_t)(bytes / dtype_bytes((DType)type)));
}

/* Returns the type used for a reduction: if one member owns each element and the others hold zero bits, the sum as
 * unsigned integers is the owner's bits. */
static uint32_t reduced_type(const Call *q) {
  static const uint32_t bits[] = {[1] = DT_u8, [2] = DT_u16, [4] = DT_u32, [8] = DT_u64};
  return q->x->reduction == COMM_RED_one ? bits[dtype_bytes((DType)dtype_of(q))] : dtype_of(q);
}

static bool equal_parts(const Call *q) {
  const CallComm *m = q->c->comm;
  for (uint32_t i = 1; i < m->members.n; i++)
    if (m->parts[(size_t)i * m->n_parts] != m->parts[0]) return false;
  return true;
}

static void print_all_reduce(const Call *q) {
  line(q->k, "ncclAllReduce(%s, %s, count %" PRId64 ", %s, %s, %s) key %u", place(q, 0), place(q, 1),
       count_of(reduced_type(q), (size_t)bytes_of(&q->c->tensors[0])), nccl_type(reduced_type(q)),
       nccl_reduction(q->x->reduction), comm(q), q->x->key);
}

static void print_all_gather(const Call *q) {
  const CommBlock *recv = q->k->recv;
  const ProgramMembers *m = &q->c->comm->members;
  const char *type = nccl_type(dtype_of(q));
  if (equal_parts(q)) {
    line(q->k, "ncclAllGather(%s, %s, count %" PRId64 ", %s, %s) key %u", place(q, 0), place(q, 1),
         count_of(dtype_of(q), (size_t)bytes_of(&q->c->tensors[0])), type, comm(q), q->x->key);
    return;
  }
  line(q->k, "ncclGroupStart() key %u", q->x->key);
  for (uint32_t i = 0; i < m->n; i++)
    line(q->k, "  ncclBroadcast(%s, %s, count %" PRId64 ", %s, root %u, %s)", i == m->place ? place(q, 0) : "NULL",
         inside(q, 1, recv[i].offset), count_of(dtype_of(q), comm_block_bytes(recv[i])), type, i, comm(q));
  line(q->k, "ncclGroupEnd()");
}

static void print_reduce_scatter(const Call *q) {
  const CommBlock *send = q->k->send;
  const ProgramMembers *m = &q->c->comm->members;
  const char *op = nccl_reduction(q->x->reduction), *type = nccl_type(reduced_type(q));
  if (equal_parts(q)) {
    line(q->k, "ncclReduceScatter(%s, %s, count %" PRId64 ", %s, %s, %s) key %u", place(q, 0), place(q, 1),
         count_of(reduced_type(q), (size_t)bytes_of(&q->c->tensors[1])), type, op, comm(q), q->x->key);
    return;
  }
  line(q->k, "ncclGroupStart() key %u", q->x->key);
  for (uint32_t i = 0; i < m->n; i++)
    line(q->k, "  ncclReduce(%s, %s, count %" PRId64 ", %s, %s, root %u, %s)", inside(q, 0, send[i].offset),
         i == m->place ? place(q, 1) : "NULL", count_of(reduced_type(q), comm_block_bytes(send[i])), type, op, i,
         comm(q));
  line(q->k, "ncclGroupEnd()");
}

static void peer(const Call *q, const char *call, const char *where, size_t bytes, uint32_t i) {
  if (bytes)
    line(q->k, "  %s(%s, count %" PRId64 ", %s, peer %u, %s)", call, where, count_of(dtype_of(q), bytes),
         nccl_type(dtype_of(q)), i, comm(q));
}

/* Prints the calls in which every member sends a block of tensor 0 to each, and receives one of tensor 1 from each. */
static void print_blocks(const Call *q) {
  const CommBlock *send = q->k->send, *recv = q->k->recv;
  line(q->k, "ncclGroupStart() key %u", q->x->key);
  for (uint32_t i = 0; i < q->c->comm->members.n; i++) {
    peer(q, "ncclSend", inside(q, 0, send[i].offset), comm_block_bytes(send[i]), i);
    peer(q, "ncclRecv", inside(q, 1, recv[i].offset), comm_block_bytes(recv[i]), i);
  }
  line(q->k, "ncclGroupEnd()");
}

static void print_pair(const Call *q, const char *call) {
  line(q->k, "ncclGroupStart() key %u", q->x->key);
  peer(q, call, place(q, 0), (size_t)bytes_of(&q->c->tensors[0]), 1 - q->c->comm->members.place);
  line(q->k, "ncclGroupEnd()");
}

/* Fills in the members' parts, and the resulting blocks.  False if they do not make up a whole. */
static bool find_blocks(const Call *q) {
  CallComm *m = q->c->comm;
  for (uint32_t i = 0; i < m->members.n && m->n_parts; i++)
    for (uint32_t j = 0; j < m->n_parts; j++)
      q->k->parts[(size_t)i * m->n_parts + j] =
          program_value_of(&q->k->values, program_member(&m->members, i), m->part_exprs[j]);
  m->parts = q->k->parts;
  if (!device_call_blocks(q->k->p, q->c, q->k->send, q->k->recv)) return false;
  for (uint32_t i = 0; i < m->members.n; i++)
    if (q->k->send[i].rows > 1 || q->k->recv[i].rows > 1)
      die("cuda_schedule: '%s' moves parts that are not contiguous", program_text(q->k->p, q->x->where));
  return true;
}

static void print_comm(const Call *q) {
  if (!find_blocks(q)) {
    line(q->k, "# its parts do not make up a whole at these sizes");
    return;
  }
  switch ((ProgramInstrKind)q->c->kind) {
    case PI_all_reduce: print_all_reduce(q); break;
    case PI_all_gather: print_all_gather(q); break;
    case PI_reduce_scatter: print_reduce_scatter(q); break;
    case PI_send: print_pair(q, "ncclSend"); break;
    case PI_recv: print_pair(q, "ncclRecv"); break;
    default: print_blocks(q);
  }
}

/* Prints communication on its queue, after the computation before it; its readers wait for the event. */
static void print_asked(const Call *q) {
  bool event = q->x->event != PROGRAM_NONE;
  if (q->c->kind == PI_exchange)
    line(q->k, "cudaMemsetAsync(%s, %g, %" PRId64 ")", place(q, 1), q->c->value, bytes_of(&q->c->tensors[1]));
  if (event) line(q->k, "cudaEventRecord(ready, compute); cudaStreamWaitEvent(communication, ready)");
  print_comm(q);
  if (event) line(q->k, "cudaEventRecord(event%u, communication)", q->x->event);
}

/* ---- calls */

static void print_launch(const Call *q) {
  const ProgramKernel *f = &q->k->p->kernels[q->c->object];
  const int64_t *scalars = q->c->scalars;
  Text args = {.arena = q->k->a};
  bool conv = q->c->kind == PI_conv; /* its result is the third tensor, and the last of the kernel */
  for (uint32_t i = 0; i < q->c->n_tensors; i++)
    if (!conv || i != 2) text_printf(&args, "%s%s", i ? ", " : "", place(q, i));
  if (conv) text_printf(&args, ", %s", place(q, 2));
  for (uint32_t i = 0; i < q->c->n_scalars; i++) text_printf(&args, "%s%" PRId64, i ? ", " : "; ", scalars[i]);
  if (q->c->blocks > 0)
    line(q->k, "%s<<<%" PRId64 ", %u>>>(%s)", program_text(q->k->p, f->name), q->c->blocks, f->threads,
         text_str(&args));
}

static void print_port(const Call *q, uint32_t first, bool feed) {
  const char *name = program_text(q->k->p, q->k->p->ports[first + q->c->object].name);
  int64_t bytes = bytes_of(&q->c->tensors[0]);
  if (feed) line(q->k, "cudaMemcpyAsync(%s, input \"%s\", %" PRId64 ")", place(q, 0), name, bytes);
  else line(q->k, "cudaMemcpyAsync(output \"%s\", %s, %" PRId64 ")", name, place(q, 0), bytes);
}

static void print_loop(const Call *q) {
  int depth = q->k->depth;
  const char *most = q->c->n_scalars ? arena_printf(q->k->a, "min(rounds%d, %" PRId64 ")", depth, q->c->scalars[0])
                                     : arena_printf(q->k->a, "rounds%d", depth);
  line(q->k, "cudaMemcpyAsync(&rounds%d, %s, 8); cudaStreamSynchronize()", depth, place(q, 1));
  line(q->k, "for (round%d = 0; round%d < %s; round%d++) {", depth, depth, most, depth);
  line(q->k, "  cudaMemcpyAsync(%s, &round%d, 8)", place(q, 0), depth);
}

static void print_repeat(const Call *q) {
  int depth = q->k->depth;
  if (q->c->n_tensors > 1) {
    line(q->k, "  cudaMemcpyAsync(&again%d, %s, 1); cudaStreamSynchronize()", depth, place(q, 1));
    line(q->k, "  if (!again%d) break", depth);
  }
  line(q->k, "}");
}

static void print_call(const Print *k, const DeviceCall *c, const ProgramEntry *entry) {
  const Program *p = k->p;
  const Call q = {k, c, &p->instrs[c->instr]};
  enum { MOST_SHAPES = 32 };
  Text about = {.arena = k->a};
  if (c->skipped) return;
  const uint32_t shown = c->n_tensors > MOST_SHAPES ? 0 : c->n_tensors;
  for (uint32_t i = 0; i < shown; i++) text_printf(&about, " %s", shape(k, &c->tensors[i]));
  if (shown < c->n_tensors) text_printf(&about, " %u tensors", c->n_tensors);
  if (c->kind == PI_conv)
    text_printf(&about, "; cuDNN may do it%s", q.x->mask & PROGRAM_TF32 ? ", in tf32" : ""); /* decided when the program
                                                                                                runs */
  text_printf(k->t, "%*s# %s:%s\n", 2 + 2 * k->depth, "", program_text(p, q.x->where), about.n ? text_str(&about) : "");
  switch ((ProgramInstrKind)c->kind) {
    case PI_launch:
    case PI_conv: print_launch(&q); break;
    case PI_gemm: print_gemm(&q); break;
    case PI_copy: print_copy(&q); break;
    case PI_fill:
      line(k, "cudaMemsetAsync(%s, %g, %" PRId64 ")", place(&q, 0), c->value, bytes_of(&c->tensors[0]));
      break;
    case PI_wait:
      line(k, "cudaStreamWaitEvent(compute, event%u)%s", q.x->event, q.x->lag ? " of the micro-batch before" : "");
      break;
    case PI_feed: print_port(&q, entry->inputs, true); break;
    case PI_fetch: print_port(&q, entry->outputs, false); break;
    case PI_load:
      line(k, "cudaMemcpyAsync(%s, weight \"%s\", %" PRId64 ")", place(&q, 0),
           program_text(p, p->params[c->object].name), bytes_of(&c->tensors[0]));
      break;
    case PI_check:
      line(k, "check(%" PRId64 " <= %" PRId64 " <= %" PRId64 ")", c->scalars[1], c->scalars[0], c->scalars[2]);
      break;
    case PI_loop: print_loop(&q); break;
    case PI_repeat: print_repeat(&q); break;
    default: print_asked(&q);
  }
}

/* ---- the whole */

static const char *body_text(const Print *k, uint32_t rank, uint32_t body) {
  const Program *p = k->p;
  Text t = {.arena = k->a};
  Print one = *k;
  DeviceCalls calls;
  RtError error = {0};
  int64_t coordinates[PROGRAM_MAX_AXES];
  one.t = &t;
  program_coordinates(p, rank, coordinates);
  program_values_of_rank(&k->values, rank, k->of_rank);
  if (device_calls_make(p, body, rank, &calls, &error) != RT_OK) program_refused("a schedule", &error);
  device_calls_resolve(&calls, k->of_rank, coordinates, false);
  for (uint32_t i = 0; i < calls.n; i++) {
    one.depth -= calls.items[i].kind == PI_repeat;
    print_call(&one, &calls.items[i], &p->entries[p->bodies[body].entry]);
    one.depth += calls.items[i].kind == PI_loop;
  }
  device_calls_free(&calls);
  return text_str(&t);
}

/* ---- the lists of one body */

/* Ranks grouped by equal keys, and these classes by equal lists. */
typedef struct Lists {
  uint64_t keys[LISTS_MOST];
  const char *texts[LISTS_MOST];
  uint32_t same[LISTS_MOST]; /* the first class with this list */
  uint32_t n, *class_of;     /* per rank of the stage; LISTS_MOST if not written out */
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
  uint64_t *keys = ARENA_ARRAY(k->a, uint64_t, p->ranks_per_stage);
  device_class_keys(&k->values, body, false, keys);
  for (uint32_t r = 0; r < p->ranks_per_stage; r++)
    l.class_of[r] = list_of(k, body, b->stage * p->ranks_per_stage + r, keys[r], &l);
  return l;
}

static uint32_t shown_as(const Lists *l, uint32_t r) {
  return l->class_of[r] == LISTS_MOST ? LISTS_MOST : l->same[l->class_of[r]];
}

/* Prints " 0 1 2 3", or " 0-1023" in a program of many ranks. */
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
    text_printf(k->t, "\nbody %u: %s.%s of stage %u on rank", body, program_phase_name(b->phase),
                program_text(p, b->name), b->stage);
    print_ranks(k, &l, b->stage * p->ranks_per_stage, c < l.n ? c : LISTS_MOST);
    text_printf(k->t, "\n%s", c < l.n ? l.texts[c] : "  # like the lists above, with parts of their own\n");
  }
}

/* Prints " {0 1} {2 3}". */
static void print_groups(const Print *k, uint32_t group) {
  const Program *p = k->p;
  for (uint32_t r = 0; r < p->ranks; r++) {
    ProgramMembers m = program_group_of(p, group, r);
    for (uint32_t i = 0; i < m.n && m.place == 0; i++) text_printf(k->t, "%s%u", i ? " " : " {", program_member(&m, i));
    if (m.n && m.place == 0) text_add(k->t, "}");
  }
}

/* Prints " 128 groups of 8 x 4 ranks, 1 and 32 apart; the first {0 1 ... 103}". */
static void print_pattern(const Print *k, uint32_t group) {
  const Program *p = k->p;
  const ProgramGroup *g = &p->groups[group];
  ProgramMembers m = program_group_of(p, group, g->from == PROGRAM_NONE ? 0 : g->from * p->ranks_per_stage);
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
        text_printf(k->t, " %s body %u(%u)", program_phase_name(p->bodies[p->calls[i].body].phase), p->calls[i].body,
                    p->calls[i].micro_batch);
      text_add(k->t, "\n");
    }
}

static void evaluate(Print *k) {
  const Program *p = k->p;
  RtError error = {0};
  program_default_sizes(p, k->symbols);
  if (program_values_open(p, &k->values, &error) != RT_OK ||
      program_values_bind(&k->values, k->symbols, 0, &error) != RT_OK)
    program_refused("a schedule", &error);
  uint32_t most = 1;
  for (uint32_t g = 0; g < p->n_groups; g++)
    for (uint32_t r = 0; r < p->ranks; r += p->ranks_per_stage) {
      ProgramMembers m = program_group_of(p, g, r);
      if (m.n > most) most = m.n;
    }
  k->of_rank = ARENA_ARRAY(k->a, int64_t, p->n_exprs + 1);
  k->parts = ARENA_ARRAY(k->a, int64_t, (size_t)most * CALL_PARTS);
  k->send = ARENA_ARRAY(k->a, CommBlock, most);
  k->recv = ARENA_ARRAY(k->a, CommBlock, most);
}

void cuda_schedule_print(Arena *a, const ArtifactProgram *program, Text *t) {
  const Program *p = &program->p;
  Print k = {.a = a, .p = p, .t = t};
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
