/* codegen/cpu/c_compiler.h - the system's C compiler: C texts to one shared object.
 *
 * As many texts are compiled at once as there are processors; the bytes depend only on texts and compiler, since names
 * in them are relative.  Not done: other flags for other compilers; CC may bring its own.
 */
#ifndef APC_CODEGEN_CPU_C_COMPILER_H
#define APC_CODEGEN_CPU_C_COMPILER_H

#include "base/cache.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/temporary.h"

/* Flags for the texts of kernels, which need -lm and OpenMP at run time.  Never -ffast-math.  Some warnings of C that
 * generated code must never cause are errors. */
#define UNITS_CFLAGS \
  "-std=gnu11 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off " \
  "-mprefer-vector-width=512 -shared -fPIC -Werror=implicit-function-declaration -Werror=implicit-int " \
  "-Werror=int-conversion " \
  "-Werror=incompatible-pointer-types -Werror=return-type"

typedef struct CCompiler {
  Arena *arena;
  Diags *diags;
  const char *command;           /* may have words after the program; NULL: $CC, else cc */
  const char *dir;               /* directory of texts, objects and messages */
  const TemporaryFolder *folder; /* directory of the compiler's own temporary files; its processes end with it */
  bool trial;                    /* the texts are not generated code */
} CCompiler;

/* Returns the command that is run. */
const char *c_compiler_name(const CCompiler *c);

/* Compiles n texts and maps the shared object they make.  False after one diagnostic: the compiler is missing, or
 * failed.  A text that calls an undefined function is a fault of ours: it ends the process (base/die.h). */
bool c_compile(const CCompiler *c, const char *const *texts, size_t n, FileMap *object);

/* Adds to a key everything except the texts that the bytes depend on: the compiler, as far as its file shows it (path,
 * size and time), and the processor, for whose instructions it compiles.  False if these are unknown. */
bool c_compiler_key(const CCompiler *c, CacheKey *k);

/* True if the compiler makes shared objects of code like ours; false after one diagnostic.  Takes a tenth of a second
 * if the cache has no answer. */
bool c_compiler_check(Arena *a, Diags *d, const char *command, const Cache *cache);

#endif
