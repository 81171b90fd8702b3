/* tests/doubles/memory.h - memory of devices and pinned memory of the host.
 *
 * Every device has its own range of addresses (MEMORY_BASE), at which nothing can be read or written: a program that
 * uses a device address on the host ends with a message.  The bytes are MEMORY_SHIFT higher, each allocation on its own
 * pages with unmapped ones between; the rest of its last page has a pattern that is checked when it is freed.  New
 * memory, on both sides, is 0xff. */
#ifndef APC_TESTS_DOUBLES_MEMORY_H
#define APC_TESTS_DOUBLES_MEMORY_H

#include "tests/doubles/double.h"

#define MEMORY_BASE UINT64_C(0x200000000000)
#define MEMORY_DEVICE UINT64_C(0x010000000000)
#define MEMORY_SHIFT UINT64_C(0x400000000000)

typedef struct MemoryPlace {
  int device; /* -1 for pinned memory of the host */
  uint64_t at, bytes;
} MemoryPlace;

CUresult memory_alloc(int device, uint64_t bytes, uint64_t capacity, CUdeviceptr *out);
CUresult memory_free(CUdeviceptr at);
uint64_t memory_used(int device);

/* Memory of a device in several processes.  Its pages become those of a file in memory, which other processes open by
 * the id of this process and lock while they have it: freeing it then is a violation. */
typedef struct MemoryHandle {
  int pid, fd;
  uint64_t bytes, check;
} MemoryHandle;
CUresult memory_give(CUdeviceptr at, MemoryHandle *out);
CUresult memory_take(int device, const MemoryHandle *handle, CUdeviceptr *out);
CUresult memory_leave(CUdeviceptr at);

/* Pinned memory: allocated, or registered memory of the host. */
CUresult memory_pin(uint64_t bytes, void **out);
CUresult memory_register(void *at, uint64_t bytes);
CUresult memory_unpin(void *at, bool registered);

/* The device of an address in some device's range, allocated or not; -1 if none. */
int memory_device_of(uint64_t at);
/* The allocation that contains an address, or that ends there; NULL if none. */
const MemoryPlace *memory_place(uint64_t at);

/* Copies to and from memory of the host that may be unmapped.  False if it is. */
bool memory_read_host(void *to, const void *from, uint64_t bytes);
bool memory_write_host(void *to, const void *from, uint64_t bytes);

/* From now on an access to unmapped memory is reported with the name of this work; NULL for none. */
void memory_doing(const char *what);

/* Reports leaks on a device (-1: pinned memory), and allocations that were overrun. */
void memory_leaks(int device);

#endif
