/* program/activation.h - the part of the Program's convolutions that the compiler's units share (program.h includes
 * it). */
#ifndef APC_PROGRAM_ACTIVATION_H
#define APC_PROGRAM_ACTIVATION_H

enum { PROGRAM_CONV_NUMBERS = 28 }; /* exprs of a convolution before those of its kernel */

typedef enum Activation {
#define ACTIVATION(name, ...) ACT_##name,
#include "program/program.def"
#undef ACTIVATION
  ACT_COUNT
} Activation;

const char *program_activation_name(unsigned activation);

#endif
