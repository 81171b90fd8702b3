/* codegen/kernel_set.h - the kernels of a Program: equal texts are one kernel.
 *
 * In: the text of a function without its name.  Out: a symbol per different text, numbered in order of arrival.  Layers
 * of a model differ in the arguments of their kernels, not in their text, so that a model has as many kernels as one of
 * its layers.
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

/* The kernel printed for the object with that key. */
typedef struct KernelKnown {
  const void *key, *made;
  size_t bytes;
  uint64_t hash;
} KernelKnown;

typedef struct KernelSet {
  Arena *arena;
  const char *arch; /* the architecture, where devices have several; NULL: the newest */
  struct {
    Kernel *items;
    size_t n, cap;
  } kernels;
  struct {
    KernelKnown *items;
    size_t n, cap;
  } known;
} KernelSet;

/* Returns the number of the kernel with this text; a new one is named after `kind`. */
int kernel_set_add(KernelSet *s, const char *kind, const char *text);

/* Returns the object kept under an equal key, so that layers print their kernels only once; NULL if none.
 * kernel_set_keep copies the key. */
const void *kernel_set_known(const KernelSet *s, const void *key, size_t bytes);
void kernel_set_keep(KernelSet *s, const void *key, size_t bytes, const void *made);

#endif
