/* program/program.c - facts about opened Programs: names from the tables, ranks, groups.  See program.h. */
#include "program/program.h"

#include <string.h>

#include "base/hash.h"
#include "program/comm.h"

const char *program_instr_name(uint32_t kind) {
  static const char *const names[] = {
#define INSTR(name, ...) #name,
#include "program/program.def"
#undef INSTR
  };
  return kind < PI_COUNT ? names[kind] : "?";
}

const char *program_activation_name(unsigned activation) {
  static const char *const names[] = {
#define ACTIVATION(name, ...) #name,
#include "program/program.def"
#undef ACTIVATION
  };
  return activation < ACT_COUNT ? names[activation] : "?";
}

void program_epilogue_text(Text *t, Epilogue e) {
  if (e.bias) text_add(t, " bias");
  if (e.residual) text_add(t, " residual");
  if (e.activation) text_printf(t, " %s", program_activation_name(e.activation));
}

Epilogue program_instr_epilogue(const ProgramInstr *x) {
  return (Epilogue){.bias = x->mask & 1, .residual = x->mask >> 1 & 1, .activation = (Activation)x->dim};
}

bool program_instr_has_grid(const ProgramInstr *x) {
  return program_instr_object(x->kind) == PO_KERNEL && x->blocks != PROGRAM_NONE;
}

bool program_gemm_types(DType operands, DType result, DType sums) {
  static const DType rows[][3] = {
#define GEMM_TYPES(operands, result, sums) {DT_##operands, DT_##result, DT_##sums},
#include "program/program.def"
#undef GEMM_TYPES
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i][0] == operands && rows[i][1] == result && rows[i][2] == sums) return true;
  return false;
}

const char *program_class_name(uint32_t class_) {
  static const char *const names[] = {
#define PROGRAM_CLASS(name, space, doc) #name,
#include "program/program.def"
#undef PROGRAM_CLASS
  };
  return class_ < PC_COUNT ? names[class_] : "?";
}

const char *program_phase_name(uint32_t phase) {
  static const char *const names[] = {
#define PHASE(name, each, doc) #name,
#include "base/phase.def"
#undef PHASE
  };
  return phase < PHASE_COUNT ? names[phase] : "?";
}

bool program_phase_each(uint32_t phase) {
  static const bool each_of[] = {
#define PHASE(name, each, doc) each,
#include "base/phase.def"
#undef PHASE
  };
  return each_of[phase];
}

ProgramSpace program_class_space(uint32_t class_) {
  static const ProgramSpace spaces[] = {
#define PROGRAM_CLASS(name, space, doc) SPACE_##space,
#include "program/program.def"
#undef PROGRAM_CLASS
  };
  return spaces[class_];
}

ProgramObject program_instr_object(uint32_t kind) {
  static const ProgramObject objects[] = {
#define INSTR(name, object, ...) PO_##object,
#include "program/program.def"
#undef INSTR
  };
  return objects[kind];
}

CommKind program_instr_comm(uint32_t kind) {
  enum { COMM_NONE = COMM_KIND_COUNT };
  static const uint8_t kinds[] = {
#define INSTR(name, object, min, max, writes, exprs, comm, doc) comm,
#include "program/program.def"
#undef INSTR
  };
  return (CommKind)kinds[kind];
}

bool program_instr_is_comm(uint32_t kind) { return program_instr_comm(kind) != COMM_KIND_COUNT; }

uint32_t program_conv_image(const ProgramInstr *x) { return x->dim2 == CONV_OF_IMAGE ? 2 : 0; }
uint32_t program_conv_weights(const ProgramInstr *x) { return x->dim2 == CONV_OF_WEIGHTS ? 2 : 1; }
uint32_t program_conv_output(const ProgramInstr *x) {
  return x->dim2 == CONV_OF_OUTPUT ? 2 : x->dim2 == CONV_OF_IMAGE ? 0 : 1;
}

bool program_instr_writes(const ProgramInstr *x, uint32_t i) {
  enum { WRITES_NONE = 254, WRITES_LAST };
  static const uint8_t written[] = {
#define INSTR(name, object, min, max, writes, ...) writes,
#include "program/program.def"
#undef INSTR
  };
  return written[x->kind] == WRITES_LAST ? i + x->dim >= x->tensors.n : i == written[x->kind];
}

uint32_t program_next(const Program *p, uint32_t instr, uint32_t *again) {
  const ProgramInstr *x = &p->instrs[instr];
  if (x->kind != PI_repeat) return instr + 1;
  if (*again == PROGRAM_NONE) {
    *again = instr;
    return instr - x->dim + 1;
  }
  if (*again == instr) *again = PROGRAM_NONE;
  return instr + 1;
}

uint32_t program_entry_find(const Program *p, const char *name) {
  for (uint32_t i = 0; i < p->n_entries; i++)
    if (strcmp(program_text(p, p->entries[i].name), name) == 0) return i;
  return PROGRAM_NONE;
}

uint32_t program_stage(const Program *p, uint32_t rank) { return rank / p->ranks_per_stage; }

void program_coordinates(const Program *p, uint32_t rank, int64_t *coordinates) {
  uint32_t rest = rank % p->ranks_per_stage;
  for (uint32_t a = p->n_axes; a-- > 0;) {
    coordinates[a] = 0;
    if (p->axes[a].temporal) continue;
    coordinates[a] = rest % p->axes[a].size;
    rest /= p->axes[a].size;
  }
}

uint32_t program_rank_at(const Program *p, uint32_t stage, const int64_t *coordinates) {
  uint32_t rank = stage;
  for (uint32_t a = 0; a < p->n_axes; a++)
    if (!p->axes[a].temporal) rank = rank * p->axes[a].size + (uint32_t)coordinates[a];
  return rank;
}

/* Returns a pair as an axis of two: the rank of one stage and that of the other. */
static ProgramMembers pair_of(const Program *p, const ProgramGroup *g, uint32_t rank) {
  uint32_t stage = program_stage(p, rank), within = rank % p->ranks_per_stage;
  if (stage != g->from && stage != g->to) return (ProgramMembers){0};
  return (ProgramMembers){.n = 2,
                          .place = stage == g->to,
                          .first = g->from * p->ranks_per_stage + within,
                          .n_axes = 1,
                          .sizes = {2},
                          .strides = {(g->to - g->from) * p->ranks_per_stage}}; /* modulo 2^32 if it goes back */
}

/* Returns the distance between ranks whose coordinates on the axis differ by 1. */
static uint32_t axis_stride(const Program *p, uint32_t axis) {
  uint32_t stride = 1;
  for (uint32_t a = axis + 1; a < p->n_axes; a++)
    if (!p->axes[a].temporal) stride *= p->axes[a].size;
  return stride;
}

ProgramMembers program_group_of(const Program *p, uint32_t group, uint32_t rank) {
  const ProgramGroup *g = &p->groups[group];
  if (g->from != PROGRAM_NONE) return pair_of(p, g, rank);
  const uint32_t *axes = program_list(p, g->axes);
  int64_t c[PROGRAM_MAX_AXES];
  program_coordinates(p, rank, c);
  ProgramMembers m = {.n = 1, .first = rank, .n_axes = g->axes.n};
  for (uint32_t i = 0; i < g->axes.n; i++) {
    uint32_t at = (uint32_t)c[axes[i]];
    m.sizes[i] = p->axes[axes[i]].size;
    m.strides[i] = axis_stride(p, axes[i]);
    m.n *= m.sizes[i];
    m.place = m.place * m.sizes[i] + at;
    m.first -= at * m.strides[i];
  }
  return m;
}

uint32_t program_member(const ProgramMembers *m, uint32_t i) {
  uint32_t rank = m->first;
  for (uint32_t a = m->n_axes; a-- > 0; i /= m->sizes[a]) rank += i % m->sizes[a] * m->strides[a];
  return rank;
}

uint64_t program_blob_hash(const void *bytes, size_t n) {
  ProgramBlobHash h;
  program_blob_hash_begin(&h, n);
  program_blob_hash_add(&h, bytes, n);
  return program_blob_hash_end(&h);
}

void program_blob_hash_begin(ProgramBlobHash *h, uint64_t n) {
  *h = (ProgramBlobHash){.n = n};
  hash64_begin(&h->all, n);
  hash64_begin(&h->piece, n);
}

static void end_piece(ProgramBlobHash *h) {
  uint64_t piece = hash64_end(&h->piece);
  hash64_add(&h->all, &piece, sizeof piece);
  hash64_begin(&h->piece, h->n);
}

void program_blob_hash_add(ProgramBlobHash *h, const void *bytes, size_t n) {
  const char *p = bytes;
  if (h->n <= PROGRAM_HASH_SMALL) {
    hash64_add(&h->all, bytes, n);
    return;
  }
  while (n) {
    size_t left = PROGRAM_HASH_PIECE - h->done % PROGRAM_HASH_PIECE, take = n < left ? n : left;
    hash64_add(&h->piece, p, take);
    h->done += take, p += take, n -= take;
    if (take == left) end_piece(h);
  }
}

uint64_t program_blob_hash_end(ProgramBlobHash *h) {
  if (h->done % PROGRAM_HASH_PIECE) end_piece(h);
  return hash64_end(&h->all);
}
