/* runtime/host/dlpack.c - allocated memory of a device as tensors of DLPack, for other libraries.
 *
 * In: memory of apc_device_alloc, a type and dimensions.  Out: a DLManagedTensor, which holds the memory until its
 * deleter is called, by any thread.  Python hands such tensors over in capsules, whose destructor is here too: a
 * consumer may drop a capsule, or call the deleter, while an exception is pending, and code in Python would replace it.
 * The functions of Python that the destructor calls are given by the caller, so nothing here needs Python.
 *
 * Not done: DLManagedTensorVersioned, types that DLPack 0.6 lacks.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/host/host.h"

enum { CUDA = 2 }; /* kDLCUDA */

/* As in dlpack.h. */
typedef struct DLTensor {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

typedef struct Shared {
  DLManagedTensor managed;
  ApcDeviceMemory *memory;
  int64_t shape[APC_MAX_RANK], strides[APC_MAX_RANK];
} Shared;

static const struct {
  bool known;
  uint8_t code, bits; /* DLDataTypeCode */
} kinds[DT_COUNT] = {
    [DT_f32] = {true, 2, 32}, [DT_f64] = {true, 2, 64}, [DT_f16] = {true, 2, 16}, [DT_bf16] = {true, 4, 16},
    [DT_i8] = {true, 0, 8},   [DT_i16] = {true, 0, 16}, [DT_i32] = {true, 0, 32}, [DT_i64] = {true, 0, 64},
    [DT_u8] = {true, 1, 8},   [DT_u16] = {true, 1, 16}, [DT_u32] = {true, 1, 32}, [DT_u64] = {true, 1, 64},
    [DT_bool] = {true, 6, 8},
};

static void delete (DLManagedTensor *t) {
  Shared *s = t->context;
  apc_device_free(s->memory);
  free(s);
}

void *apc_device_dlpack(ApcDeviceMemory *memory, ApcType type, int rank, const int64_t *dims) {
  size_t bytes;
  const int device = host_device_number(memory);
  if ((unsigned)type >= DT_COUNT || !kinds[type].known || rank < 0 || rank > APC_MAX_RANK) return NULL;
  if (!tensor_size((DType)type, rank, dims, &bytes) || bytes > host_device_bytes(memory)) return NULL;
  Shared *s = malloc(sizeof *s);
  if (!s) return NULL;
  *s = (Shared){.memory = host_device_hold(memory)};
  s->managed = (DLManagedTensor){
      {apc_device_data(memory), CUDA, device, rank, kinds[type].code, kinds[type].bits, 1, s->shape, s->strides, 0},
      s,
      delete};
  int64_t step = 1;
  for (int i = rank; i-- > 0; step *= dims[i] ? dims[i] : 1) s->shape[i] = dims[i], s->strides[i] = step;
  return &s->managed;
}

/* ---- capsules of Python */

static _Atomic(ApcCapsuleIs) capsule_is;
static _Atomic(ApcCapsulePointer) capsule_pointer;

/* A consumer that took the tensor has given the capsule another name, and calls the deleter itself. */
static void drop_capsule(void *capsule) {
  if (!atomic_load(&capsule_is)(capsule, "dltensor")) return;
  DLManagedTensor *t = atomic_load(&capsule_pointer)(capsule, "dltensor");
  t->deleter(t);
}

ApcCapsuleEnd apc_capsule_destructor(ApcCapsuleIs is_valid, ApcCapsulePointer get_pointer) {
  atomic_store(&capsule_is, is_valid);
  atomic_store(&capsule_pointer, get_pointer);
  return drop_capsule;
}
