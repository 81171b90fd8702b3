/* program/operator_call.h - how kernels of a program call the functions of its operator libraries (apc_operator.h).
 * Kernels for CPUs (codegen/cpu/kernel_operator.h) and the runtime (runtime/device/cpu_operators.c) share this layout.
 *
 * The runtime opens the libraries that the Program holds, and sets the kernels' pointer to a table of their functions,
 * which ends with a name that is NULL.  A function that fails leaves its message in the kernels' OperatorFault; the
 * caller of the kernel takes it and sets `found` to 0. */
#ifndef APC_PROGRAM_OPERATOR_CALL_H
#define APC_PROGRAM_OPERATOR_CALL_H

#include <stdint.h>

typedef struct OperatorSlot {
  const char *kind, *function;
  void *address;
} OperatorSlot;

typedef struct OperatorFault {
  int64_t found; /* 1: the other fields are set */
  const char *kind;
  char text[400];
} OperatorFault;

/* The names of both in the kernels' shared object. */
#define OPERATOR_SLOTS_SYMBOL "apc_operator_slots"
#define OPERATOR_FAULT_SYMBOL "apc_operator_fault"

#endif
