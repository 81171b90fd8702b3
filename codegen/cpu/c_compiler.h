/* codegen/cpu/c_compiler.h - the system's C compiler: C texts to one shared object.
 *
 * The texts are compiled as many at once as there are processors; the bytes depend only on texts and compiler, since
 * names in them are relative.  Not done: other flags for other compilers; CC may bring its own.
 */
#ifndef APC_CODEGEN_CPU_C_COMPILER_H
#define APC_CODEGEN_CPU_C_COMPILER_H

#include "base/cache.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/temporary.h"

/* How the texts of kernels are to be compiled; they need -lm and OpenMP at run time.  Never -ffast-math.
 * What C only warns of and is never meant ends the compilation. */
#define UNITS_CFLAGS \
  "-std=gnu11 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off " \
  "-mprefer-vector-width=512 -shared -fPIC -Werror=implicit-function-declaration -Werror=implicit-int " \
  "-Werror=int-conversion " \
  "-Werror=incompatible-pointer-types -Werror=return-type"

typedef struct CCompiler {
  Arena *arena;
  Diags *diags;
  const char *command;           /* may have words behind the program; NULL: $CC, else cc */
  const char *dir;               /* where texts, objects and messages go */
  const TemporaryFolder *folder; /* where the compiler's own temporary files go; its processes end with it */
  bool trial;                    /* the texts are no generated code */
} CCompiler;

/* The command that is run. */
const char *c_compiler_name(const CCompiler *c);

/* Compiles n texts and maps the shared object they make.  False after one diagnostic: the compiler is missing, or
 * failed.  A text that calls a function which nothing defines is a fault of ours: it ends the process (base/die.h). */
bool c_compile(const CCompiler *c, const char *const *texts, size_t n, FileMap *object);

/* Adds to a key what the bytes depend on beside the texts: the compiler, as far as it is known from outside (its file's
 * path, size and time), and the processor, for whose instructions it compiles.  False: that is not known. */
bool c_compiler_key(const CCompiler *c, CacheKey *k);

/* Does it make shared objects of code like ours?  False after one diagnostic.  Takes a tenth of a second, where the
 * cache does not know. */
bool c_compiler_check(Arena *a, Diags *d, const char *command, const Cache *cache);

#endif
