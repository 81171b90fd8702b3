/* program/build.h - building the image of a Program.
 *
 * A ProgramBuilder has one growing array per section.  program_add_NAME appends a record and returns its index; texts
 * and constant expressions, and any expression equal to an earlier one, are stored once.  finish lays the sections out,
 * hashes them, and opens the result, so that whatever the builder was given is checked by the same code as a loaded
 * image.
 *
 * Running out of memory ends the process through die(), as everywhere in the compiler; more than 2^32 - 1 records too.
 */
#ifndef APC_PROGRAM_BUILD_H
#define APC_PROGRAM_BUILD_H

#include "program/program.h"

typedef struct ProgramBuilder ProgramBuilder;

ProgramBuilder *program_builder_new(void);
void program_builder_free(ProgramBuilder *b); /* NULL is allowed */

/* program_add_symbols(b, &(ProgramSymbol){...}), program_add_axes, program_add_buffers, ...: one per section.
 * Prefer the functions below for strings, indices and exprs. */
#define SECTION(name, record, doc) uint32_t program_add_##name(ProgramBuilder *b, const record *r);
#include "program/program.def"
#undef SECTION

/* Records so far; the address of one, valid until the next add (to fill `buffer.last`, say). */
#define SECTION(name, record, doc) \
  uint32_t program_count_##name(const ProgramBuilder *b); \
  record *program_at_##name(ProgramBuilder *b, uint32_t index);
#include "program/program.def"
#undef SECTION

uint32_t program_string(ProgramBuilder *b, const char *s);
ProgramList program_list_of(ProgramBuilder *b, uint32_t n, const uint32_t *items);

/* Expressions; folded when both operands are constants and the result fits. */
uint32_t program_const(ProgramBuilder *b, int64_t v);
uint32_t program_sym(ProgramBuilder *b, uint32_t symbol);
uint32_t program_coordinate(ProgramBuilder *b, uint32_t axis);
uint32_t program_expr(ProgramBuilder *b, ProgramExprKind kind, uint32_t x, uint32_t y);

/* An embedded range of `bytes` bytes.  program_embed copies nothing: the writer of the artifact puts the bytes at
 * the blob's offset once finish has assigned it (offsets ascend in the order of embedding). */
uint32_t program_embed(ProgramBuilder *b, uint64_t bytes, uint64_t hash);

/* An image of those bytes; its index. */
uint32_t program_embed_image(ProgramBuilder *b, ProgramImageKind kind, const char *arch, uint64_t bytes, uint64_t hash);

/* The texts and numbers of the header. */
typedef struct ProgramFacts {
  const char *name, *target, *producer;
  uint32_t stages;
  uint32_t n_events;
  const char *device; /* NULL: "cpu" */
} ProgramFacts;

/* The tables: *bytes bytes from malloc, to be freed by the caller; the image is they, then the embedded ranges at
 * their offsets (header.image_bytes in all).  RT_INTERNAL with the reason when they are no valid Program, RT_FAILED
 * when there is no memory to know. */
RtStatus program_builder_finish(ProgramBuilder *b, const ProgramFacts *facts, void **tables, size_t *bytes,
                                RtError *error);

/* For the compiler, when what it has just built is refused: ends the process, for want of memory or as an internal
 * error. */
_Noreturn void program_refused(const char *what, const RtError *error);

#endif
