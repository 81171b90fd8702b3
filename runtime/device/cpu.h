/* runtime/device/cpu.h - what the files of the CPU device share: cpu.c, and cpu_conv.c for convolutions. */
#ifndef APC_RUNTIME_DEVICE_CPU_H
#define APC_RUNTIME_DEVICE_CPU_H

#include "program/index_fault.h"
#include "runtime/device/device.h"

typedef struct CpuDevice {
  Device base;
  const Artifact *artifact;
  const Program *p;
  uint32_t stage;
  bool own_convs; /* by the Program's kernels, without the library */
  void *library;  /* the kernels */
  ProgramKernelFn *kernels;
  IndexFault *fault;                 /* what they saw; NULL: there are none */
  struct ConvWeights **conv_weights; /* per tensor: weights of convolutions; NULL for others */
  struct ConvCache *conv_cache;
  char *space; /* what the Program has for libraries to work in */
  uint64_t space_bytes;
} CpuDevice;

extern const DeviceOps device_cpu;

/* Calls a kernel of the Program. */
void cpu_launch(const CpuDevice *d, const DeviceCall *c);

void cpu_convs_workspace(Device *d, char *at, uint64_t bytes);
RtStatus cpu_convs_weights(Device *d, const DeviceWeights *w, RtError *error);
void cpu_convs_close(CpuDevice *d);
RtStatus cpu_conv(CpuDevice *d, const DeviceCall *c, RtError *error);

#endif
