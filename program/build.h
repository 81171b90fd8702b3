/* program/build.h - building the image of a Program.
 *
 * A ProgramBuilder has one growing array per section.  program_add_NAME appends a record and returns its index; texts
 * and expressions equal to earlier ones are stored once.  program_builder_finish lays out the sections, hashes them and
 * opens the result, so that loaded images and new ones pass the same checks.
 *
 * Running out of memory, and more than 2^32 - 1 records, end the process through die(), as everywhere in the compiler.
 */
#ifndef APC_PROGRAM_BUILD_H
#define APC_PROGRAM_BUILD_H

#include "program/program.h"

typedef struct ProgramBuilder ProgramBuilder;

/* Returns an empty builder; program_builder_free frees it. */
ProgramBuilder *program_builder_new(void);
void program_builder_free(ProgramBuilder *b); /* NULL is allowed */

/* program_add_symbols(b, &(ProgramSymbol){...}), program_add_axes, program_add_buffers, ...: one per section.
 * Prefer the functions below for strings, indices and exprs. */
#define SECTION(name, record, doc) uint32_t program_add_##name(ProgramBuilder *b, const record *r);
#include "program/program.def"
#undef SECTION

/* program_count_NAME: the number of records so far.  program_at_NAME: the address of a record, valid until the next add
 * (to fill `buffer.last`, say). */
#define SECTION(name, record, doc) \
  uint32_t program_count_##name(const ProgramBuilder *b); \
  record *program_at_##name(ProgramBuilder *b, uint32_t index);
#include "program/program.def"
#undef SECTION

/* Return the offset of a text in `strings`, and a list of n indices; equal texts are stored once. */
uint32_t program_string(ProgramBuilder *b, const char *s);
ProgramList program_list_of(ProgramBuilder *b, uint32_t n, const uint32_t *items);

/* Return the index of an expression: an equal one is reused, and an operation on two constants is folded if the result
 * fits. */
uint32_t program_const(ProgramBuilder *b, int64_t v);
uint32_t program_sym(ProgramBuilder *b, uint32_t symbol);
uint32_t program_coordinate(ProgramBuilder *b, uint32_t axis);
uint32_t program_expr(ProgramBuilder *b, ProgramExprKind kind, uint32_t x, uint32_t y);

/* Adds an embedded range of `bytes` bytes; returns its blob.  program_embed copies nothing: the writer of the artifact
 * puts the bytes at the blob's offset once program_builder_finish has assigned it (offsets below header.next, if there
 * is a next Program, ascend in the order of embedding; the others are ranges of that Program). */
uint32_t program_embed(ProgramBuilder *b, uint64_t bytes, uint64_t hash);

/* Adds an image of `bytes` embedded bytes; returns its index. */
uint32_t program_embed_image(ProgramBuilder *b, ProgramImageKind kind, const char *arch, uint64_t bytes, uint64_t hash);

/* The texts and numbers of the header. */
typedef struct ProgramFacts {
  const char *name, *target, *producer;
  uint32_t stages;
  uint32_t n_events;
  const char *device;  /* NULL: "cpu" */
  const char *planned; /* ProgramHeader.planned; NULL: the device */
  double peak;         /* 0: unknown */
  const char *peak_of; /* NULL: "" */
} ProgramFacts;

/* Makes the tables: *bytes bytes from malloc, which the caller frees.  The image is the tables, followed by the
 * embedded ranges at their offsets (header.image_bytes in all).  RT_INTERNAL with the reason if they are no valid
 * Program, RT_FAILED if memory for checking them is missing. */
RtStatus program_builder_finish(ProgramBuilder *b, const ProgramFacts *facts, void **tables, size_t *bytes,
                                RtError *error);

/* The same for a Program that another one follows in the artifact (NULL: none): embedded ranges that `after` has as
 * well, by hash and size, are not embedded again. */
RtStatus program_builder_finish_before(ProgramBuilder *b, const ProgramFacts *facts, const Program *after,
                                       void **tables, size_t *bytes, RtError *error);

/* Ends the process because the compiler refuses a Program it has just built: out of memory, or an internal error. */
_Noreturn void program_refused(const char *what, const RtError *error);

#endif
