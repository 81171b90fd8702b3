/* runtime/exec/param_files.h - the files that hold a program's weights, each opened once.
 *
 * The host opens the files and checks them; its ranks inherit the descriptors, so that renaming or replacing a file
 * meanwhile changes nothing.  Under a launcher every rank opens and checks them itself.  Nothing is mapped here
 * (weights_open in load.h does that), so a library may check files without a handler for lost pages.
 *
 * A write to a file after its check is detected by its size and its time of modification.
 */
#ifndef APC_RUNTIME_EXEC_PARAM_FILES_H
#define APC_RUNTIME_EXEC_PARAM_FILES_H

#include "program/artifact.h"

typedef struct ParamFile {
  int fd;           /* -1: the bytes are in the program */
  const char *path; /* from the program's tables, `other`, or */
  char *found;      /* a path found with `other`; NULL if none was found */
  bool missing;     /* `other` was given but does not contain it */
  FileStamp stamp;  /* at opening */
} ParamFile;

typedef struct ParamFiles {
  const Artifact *artifact; /* must outlive this */
  FileStamp program;        /* of the program's own file */
  char *other;              /* --weights; NULL if not given */
  bool replaces;            /* `other` is a .safetensors file that holds all weights */
  ParamFile *items;         /* per blob of the program; or `other` alone */
  uint32_t n;
  uint64_t digest;
} ParamFiles;

/* Opens the files and checks headers, sizes and hashes, and those of embedded weights and kernels too.  `other`: NULL;
 * a .safetensors file whose tensors replace the weights of the same name; or the present place of the files that the
 * program refers to (param_paths.h).  `beats` counts signs of life during long reads; may be NULL.  RT_BAD_INPUT names
 * the file. */
RtStatus param_files_open(const Artifact *a, const char *other, _Atomic uint64_t *beats, ParamFiles **out,
                          RtError *error);
void param_files_close(ParamFiles *f); /* NULL is allowed */

/* Returns a hash of the weights in effect: equal if and only if all their bytes are equal (base/hash.h: no protection
 * against forgery). */
uint64_t param_files_digest(const ParamFiles *f);

/* Fails with `status` if a file was written to since it was checked. */
RtStatus param_files_unchanged(const ParamFiles *f, RtStatus status, RtError *error);

/* Pass the files to a rank: param_files_text returns descriptors and stamps as text from malloc, and
 * param_files_inherit opens that text again.  param_files_descriptors returns the n descriptors to pass, from malloc
 * with room for one more. */
char *param_files_text(const ParamFiles *f);
int *param_files_descriptors(const ParamFiles *f, int *n);
RtStatus param_files_inherit(const Artifact *a, const char *other, const char *text, ParamFiles **out, RtError *error);

#endif
