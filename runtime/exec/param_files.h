/* runtime/exec/param_files.h - the files that hold a program's weights, each opened once.
 *
 * Whoever starts ranks opens the files and checks what it opened; ranks that it starts inherit the descriptors, so that
 * a file which is renamed or replaced meanwhile changes nothing.  Under a launcher every rank opens and checks for
 * itself.  Nothing is mapped here (weights_open in load.h does that), so a library may check files without a handler
 * for lost pages.
 *
 * A file that is written to after it was checked is noticed by its size and its time of modification.
 */
#ifndef APC_RUNTIME_EXEC_PARAM_FILES_H
#define APC_RUNTIME_EXEC_PARAM_FILES_H

#include "program/artifact.h"

typedef struct ParamFile {
  int fd;           /* -1: the bytes are in the program */
  const char *path; /* of the program's tables, or `other`, or */
  char *found;      /* what is there of it; NULL */
  bool missing;     /* `other` was given and has it not */
  FileStamp stamp;  /* when it was opened */
} ParamFile;

typedef struct ParamFiles {
  const Artifact *artifact; /* must outlive this */
  FileStamp program;        /* of its file */
  char *other;              /* --weights; NULL */
  bool replaces;            /* `other` is a .safetensors file that holds all weights */
  ParamFile *items;         /* per blob of the program; or `other` alone */
  uint32_t n;
  uint64_t digest;
} ParamFiles;

/* Opens them and checks headers, sizes and hashes, and the program's own weights and kernels too.  `other`: NULL; a
 * .safetensors file whose tensors replace the weights of the same name; or where the files that the program refers to
 * lie now (param_paths.h).  `beats` grows while files are read, which takes long where they are large; may be NULL. */
RtStatus param_files_open(const Artifact *a, const char *other, _Atomic uint64_t *beats, ParamFiles **out,
                          RtError *error);
void param_files_close(ParamFiles *f); /* NULL is allowed */

/* The weights in effect, as a number: equal exactly when all their bytes are (base/hash.h: no protection against
 * forgery). */
uint64_t param_files_digest(const ParamFiles *f);

/* Fails with `status` when a file was written to since it was checked. */
RtStatus param_files_unchanged(const ParamFiles *f, RtStatus status, RtError *error);

/* For a rank: the descriptors, and what they looked like when they were checked, as text from malloc; and from it.
 * The descriptors to hand on, n of them, from malloc with room for one more. */
char *param_files_text(const ParamFiles *f);
int *param_files_descriptors(const ParamFiles *f, int *n);
RtStatus param_files_inherit(const Artifact *a, const char *other, const char *text, ParamFiles **out, RtError *error);

#endif
