/* codegen/kernel_set.h - the kernels of a Program: equal texts are one kernel.
 *
 * In: the text of a function without its name.  Out: a symbol per different text, numbered as they come.  Layers of a
 * model differ in what their kernels are given, not in their text, so that a model has as many kernels as one of its
 * layers.
 */
#ifndef APC_CODEGEN_KERNEL_SET_H
#define APC_CODEGEN_KERNEL_SET_H

#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

typedef struct Kernel {
  const char *symbol, *text; /* text: "(parameters) {...}" */
  uint64_t hash;
} Kernel;

/* What was printed of something with that key. */
typedef struct KernelKnown {
  const void *key, *made;
  size_t bytes;
  uint64_t hash;
} KernelKnown;

typedef struct KernelSet {
  Arena *arena;
  const char *arch; /* what they are for, where devices have several architectures; NULL: the newest */
  struct {
    Kernel *items;
    size_t n, cap;
  } kernels;
  struct {
    KernelKnown *items;
    size_t n, cap;
  } known;
} KernelSet;

/* The number of the kernel with this text; a new one is called after `kind`. */
int kernel_set_add(KernelSet *s, const char *kind, const char *text);

/* What was kept with an equal key, so that layers print their kernels once; NULL: nothing.  Keys are copied. */
const void *kernel_set_known(const KernelSet *s, const void *key, size_t bytes);
void kernel_set_keep(KernelSet *s, const void *key, size_t bytes, const void *made);

#endif
