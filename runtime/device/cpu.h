/* runtime/device/cpu.h - shared by the files of the CPU device: cpu.c, and cpu_conv.c for convolutions. */
#ifndef APC_RUNTIME_DEVICE_CPU_H
#define APC_RUNTIME_DEVICE_CPU_H

#include "program/index_fault.h"
#include "runtime/device/device.h"

typedef struct CpuDevice {
  Device base;
  const Artifact *artifact;
  const Program *p;
  uint32_t stage;
  bool own_convs; /* convolutions run the Program's kernels, not the library */
  void *library;  /* handle of the kernels' shared object */
  ProgramKernelFn *kernels;
  IndexFault *fault;                 /* written by the kernels; NULL without index checks */
  struct ConvWeights **conv_weights; /* per tensor: weights of convolutions; NULL for others */
  struct ConvCache *conv_cache;
  struct OperatorSlot *operators;       /* the functions of operator libraries; NULL if there are none */
  struct OperatorFault *operator_fault; /* written by the kernels; NULL if none calls such a function */
  char *space;                          /* workspace that the Program reserves for libraries */
  uint64_t space_bytes;
} CpuDevice;

extern const DeviceOps device_cpu;

/* Calls a kernel of the Program. */
void cpu_launch(const CpuDevice *d, const DeviceCall *c);

/* Puts code of the program into memory of our own, a file without a name, and checks it there; `what` names it. */
RtStatus cpu_copy_code(const Artifact *a, const ProgramBlob *b, const char *what, int *fd, RtError *error);

/* cpu_operators.c: loads the libraries of operators, after the kernels; the error of a function that failed. */
RtStatus cpu_operators_open(CpuDevice *d, RtError *error);
RtStatus cpu_operator_error(const CpuDevice *d, RtError *error);
void cpu_operators_close(CpuDevice *d);

/* Implement the convolutions of DeviceOps: workspace, weights, close and conv. */
void cpu_convs_workspace(Device *d, char *at, uint64_t bytes);
RtStatus cpu_convs_weights(Device *d, const DeviceWeights *w, RtError *error);
void cpu_convs_close(CpuDevice *d);
RtStatus cpu_conv(CpuDevice *d, const DeviceCall *c, RtError *error);

#endif
