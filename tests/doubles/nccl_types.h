/* tests/doubles/nccl_types.h - the types, numbers and functions of NCCL that are doubled, written from its
 * documentation; NCCL's own header with DOUBLES_REAL_HEADERS. */
#ifndef APC_TESTS_DOUBLES_NCCL_TYPES_H
#define APC_TESTS_DOUBLES_NCCL_TYPES_H

#include "tests/doubles/double.h"

#ifdef DOUBLES_REAL_HEADERS
#include <nccl.h>
#else

enum { NCCL_VERSION_CODE = 22809, NCCL_SPLIT_NOCOLOR = -1, NCCL_UNIQUE_ID_BYTES = 128 };

typedef struct ncclComm *ncclComm_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;
typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
} ncclDataType_t;

typedef struct ncclConfig {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare;
} ncclConfig_t;

DOUBLE_API ncclResult_t ncclGetVersion(int *version);
DOUBLE_API const char *ncclGetErrorString(ncclResult_t result);
DOUBLE_API const char *ncclGetLastError(ncclComm_t comm);
DOUBLE_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
DOUBLE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                               ncclConfig_t *config);
DOUBLE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
DOUBLE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
DOUBLE_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
DOUBLE_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
DOUBLE_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
DOUBLE_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
DOUBLE_API ncclResult_t ncclCommAbort(ncclComm_t comm);
DOUBLE_API ncclResult_t ncclGroupStart(void);
DOUBLE_API ncclResult_t ncclGroupEnd(void);
DOUBLE_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, CUstream stream);
DOUBLE_API ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm,
                                      CUstream stream);
DOUBLE_API ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                          ncclComm_t comm, CUstream stream);
DOUBLE_API ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                                      ncclComm_t comm, CUstream stream);
DOUBLE_API ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                                   ncclComm_t comm, CUstream stream);
DOUBLE_API ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                                 CUstream stream);
DOUBLE_API ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream);

#endif

#endif
