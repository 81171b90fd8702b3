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

typedef struct KernelSet {
  Arena *arena;
  const char *arch; /* what they are for, where devices have several architectures; NULL: the newest */
  struct {
    Kernel *items;
    size_t n, cap;
  } kernels;
} KernelSet;

/* The number of the kernel with this text; a new one is called after `kind`. */
int kernel_set_add(KernelSet *s, const char *kind, const char *text);

#endif
