/* codegen/cpu/kernel_operator.h - calls of functions in operator libraries.  After program/apc_operator.h, in the texts
 * of kernels that call one (kernel_operator.c); never included by the compiler itself. */
#ifndef APC_KERNEL_OPERATOR
#define APC_KERNEL_OPERATOR

/* As in program/operator_call.h. */
typedef struct OperatorSlot {
  const char *kind, *function;
  void *address;
} OperatorSlot;
typedef struct OperatorFault {
  int64_t found;
  const char *kind;
  char text[400];
} OperatorFault;
extern const OperatorSlot *apc_operator_slots;
__attribute__((weak)) const OperatorSlot *apc_operator_slots;
extern OperatorFault apc_operator_fault;
__attribute__((weak)) OperatorFault apc_operator_fault;

extern int omp_get_max_threads(void);

static __attribute__((unused)) void operator_parallel(int64_t n, void (*body)(int64_t i, void *data), void *data) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) body(i, data);
}

static __attribute__((unused)) int64_t operator_elements(int32_t rank, const int64_t *extents) {
  int64_t n = 1;
  for (int32_t d = 0; d < rank; d++) n *= extents[d];
  return n;
}

/* Once a function has failed, the others of the request are not called. */
static __attribute__((unused)) void operator_call(const char *name, const ApcOpCall *given) {
  OperatorFault *f = &apc_operator_fault;
  ApcOpCall call = *given;
  const OperatorSlot *slot = apc_operator_slots;
  if (f->found) return;
  while (slot && slot->kind && strcmp(slot->kind, name) != 0) slot++;
  f->text[0] = 0;
  call.version = APC_OPERATOR_VERSION;
  call.threads = omp_get_max_threads();
  call.parallel = operator_parallel;
  call.error = f->text, call.error_bytes = sizeof f->text;
  if (slot && slot->kind && ((ApcOpFunction *)slot->address)(&call) == 0) return;
  f->kind = name;
  f->found = 1;
}

#endif
