/* tests/doubles/nccl_test.c - tests the double of NCCL: ranks are processes, which find each other by an id in a
   file. */
#include <limits.h>

#include "tests/doubles/child.h"
#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/half.h"
#include "tests/doubles/nccl_types.h"

enum { RANKS = 4, N = 64 };

/* ---- a rank */

static int rank, ranks;
static CUstream stream;
static CUdeviceptr from, to;
static ncclComm_t comm;
static ncclConfig_t config = {.size = sizeof config,
                              .magic = 0xcafebeef,
                              .version = 21800,
                              .blocking = 0,
                              .cgaClusterSize = INT_MIN,
                              .minCTAs = INT_MIN,
                              .maxCTAs = INT_MIN,
                              .splitShare = INT_MIN};

static void poll(ncclComm_t c, ncclResult_t begun) {
  ncclResult_t error = begun;
  if (begun && begun != ncclInProgress) MUST(begun);
  for (int i = 0; error == ncclInProgress && i < 100000; i++) {
    MUST(ncclCommGetAsyncError(c, &error));
    usleep(50);
  }
  MUST(error);
}

static ncclResult_t connect(void) {
  CUcontext context;
  ncclUniqueId id;
  const char *path = getenv("ID_FILE");
  rank = atoi(getenv("RANK")), ranks = atoi(getenv("RANKS"));
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, getenv("SAME_DEVICE") ? 0 : rank));
  MUST(cuCtxSetCurrent(context));
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cuMemAlloc_v2(&from, 4 * N * RANKS));
  MUST(cuMemAlloc_v2(&to, 4 * N * RANKS));
  FILE *f = fopen(path, "rb");
  if (!f || fread(&id, sizeof id, 1, f) != 1) exit(REFUSED);
  fclose(f);
  return ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
}

static void begin(void) { poll(comm, connect()); }

static int end(int result) {
  MUST(cuStreamSynchronize(stream));
  poll(comm, ncclCommFinalize(comm));
  MUST(ncclCommDestroy(comm));
  MUST(cuMemFree_v2(from));
  MUST(cuMemFree_v2(to));
  MUST(cuStreamDestroy_v2(stream));
  MUST(cuDevicePrimaryCtxRelease_v2(getenv("SAME_DEVICE") ? 0 : rank));
  return result;
}

static float numbers[N * RANKS];

/* Element i of rank r is r + i. */
static void put(void) {
  for (int i = 0; i < N * RANKS; i++) numbers[i] = (float)(rank + i);
  MUST(cuMemcpyHtoDAsync_v2(from, numbers, sizeof numbers, stream));
  MUST(cuStreamSynchronize(stream));
}

static void get(void) {
  MUST(cuMemcpyDtoHAsync_v2(numbers, to, sizeof numbers, stream));
  MUST(cuStreamSynchronize(stream));
}

#define P(x) ((void *)(uintptr_t)(x))
#define EXPECT(n, want) \
  do { \
    get(); \
    for (int i = 0; i < (n); i++) CHECKF(numbers[i] == (float)(want), "%d: %g", i, (double)numbers[i]); \
  } while (0)

static void messages(void) {
  ncclResult_t error;
  MUST(ncclGroupStart());
  MUST(ncclSend(P(from), N, ncclFloat32, (rank + 1) % ranks, comm, stream));
  MUST(ncclRecv(P(to), N, ncclFloat32, (rank + ranks - 1) % ranks, comm, stream));
  error = ncclGroupEnd();
  poll(comm, error);
  EXPECT(N, (rank + ranks - 1) % ranks + i);
}

static void other_types(void) {
  uint16_t *half = (uint16_t *)(void *)numbers;
  int32_t *whole = (int32_t *)(void *)numbers;
  for (int i = 0; i < N; i++) half[i] = half_to_bf16((float)(rank + 1)), whole[N + i] = rank * (i % 2 ? -1 : 1);
  MUST(cuMemcpyHtoDAsync_v2(from, numbers, sizeof numbers, stream));
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclBfloat16, ncclProd, comm, stream));
  poll(comm, ncclAllReduce(P(from + 4 * N), P(to + 4 * N), N, ncclInt32, ncclMax, comm, stream));
  get();
  CHECK(half_from_bf16(half[N - 1]) == 24 && whole[N] == 3 && whole[N + 1] == 0);
  put();
}

static int collectives(void) {
  begin();
  put();
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  EXPECT(N, 6 + 4 * i);
  poll(comm, ncclAllGather(P(from), P(to), N, ncclFloat32, comm, stream));
  EXPECT(N * RANKS, i / N + i % N);
  poll(comm, ncclReduceScatter(P(from), P(to), N, ncclFloat32, ncclMax, comm, stream));
  EXPECT(N, 3 + N * rank + i);
  poll(comm, ncclBroadcast(P(from), P(to), N, ncclFloat32, 2, comm, stream));
  EXPECT(N, 2 + i);
  messages();
  other_types();
  return end(test_failed_here ? WRONG : RIGHT);
}

/* Halves: {0 2} and {1 3}, in the opposite order; a rank in no half. */
static int splits(void) {
  ncclComm_t half, few;
  begin();
  put();
  poll(comm, ncclCommSplit(comm, rank % 2, -rank, &half, &config));
  poll(comm, ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, 0, &few, &config));
  CHECK(!few == (rank == 3));
  poll(half, ncclAllGather(P(from), P(to), N, ncclFloat32, half, stream));
  EXPECT(2 * N, (i < N ? 2 : 0) + rank % 2 + i % N);
  if (few) poll(few, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, few, stream));
  if (few) EXPECT(N, 3 + 3 * i);
  MUST(cuStreamSynchronize(stream));
  MUST(ncclCommDestroy(half));
  if (few) MUST(ncclCommDestroy(few));
  return end(test_failed_here ? WRONG : RIGHT);
}

/* Captured after one call without capture, launched three times; between, values change and other communication
 * runs. */
static int graphs(void) {
  CUgraph g;
  CUgraphExec x;
  begin();
  put();
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  poll(comm, ncclAllReduce(P(to), P(from), N, ncclFloat32, ncclSum, comm, stream));
  MUST(cuStreamEndCapture(stream, &g));
  MUST(cuGraphInstantiateWithFlags(&x, g, 0));
  MUST(cuGraphDestroy(g));
  for (int k = 0; k < 3; k++) {
    put();
    MUST(cuGraphLaunch(x, stream));
    poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
    EXPECT(N, (6 + 4 * i) * 16);
  }
  MUST(cuGraphExecDestroy(x));
  return end(test_failed_here ? WRONG : RIGHT);
}

/* One sum, captured and launched. */
static CUgraphExec launch_captured(void) {
  CUgraph g;
  CUgraphExec x;
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  MUST(cuStreamEndCapture(stream, &g));
  MUST(cuGraphInstantiateWithFlags(&x, g, 0));
  MUST(cuGraphDestroy(g));
  MUST(cuGraphLaunch(x, stream));
  return x;
}

static int captured_first(void) {
  begin();
  put();
  MUST(cuGraphExecDestroy(launch_captured()));
  return end(RIGHT);
}

static int graph_kept(void) {
  begin();
  put();
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  launch_captured();
  return end(RIGHT);
}

static int never(void) {
  for (int i = 0; i < 300; i++) {
    if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY) return RIGHT;
    usleep(1000);
  }
  return WRONG;
}

static int mismatch(void) {
  begin();
  put();
  poll(comm, ncclAllReduce(P(from), P(to), rank ? N : N - 1, ncclFloat32, ncclSum, comm, stream));
  return never();
}

static int captured_by_one(void) {
  begin();
  put();
  poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  if (rank) launch_captured();
  else poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  return never();
}

static int other_order(void) {
  ncclComm_t second;
  begin();
  put();
  poll(comm, ncclCommSplit(comm, 0, 0, &second, &config));
  for (int i = 0; i < 2; i++) {
    ncclComm_t c = i == rank % 2 ? comm : second;
    poll(c, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, c, stream));
  }
  return never();
}

static int too_early(void) {
  begin();
  put();
  ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream);
  ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream);
  _exit(RIGHT);
}

static int refused(void) {
  ncclResult_t error = connect();
  for (int i = 0; error == ncclInProgress && i < 10000; i++) {
    MUST(ncclCommGetAsyncError(comm, &error));
    usleep(100);
  }
  if (error) _exit(error == ncclInvalidUsage ? WRONG : REFUSED);
  return end(RIGHT);
}

/* The other ranks never join. */
static int aborts(void) {
  begin();
  put();
  if (rank == 0) poll(comm, ncclAllReduce(P(from), P(to), N, ncclFloat32, ncclSum, comm, stream));
  if (rank == 0 && never() == RIGHT) return REFUSED;
  MUST(ncclCommAbort(comm));
  MUST(cuStreamSynchronize(stream));
  MUST(cuMemFree_v2(from));
  MUST(cuMemFree_v2(to));
  MUST(cuStreamDestroy_v2(stream));
  MUST(cuDevicePrimaryCtxRelease_v2(rank));
  return RIGHT;
}

/* ---- the parent */

/* Checks that all ranks end with this code; child_said has the output of the last one. */
static void all_end(const char *name, int n, int code, const char *said, const char *more, const char *each) {
  char settings[RANKS][5][5000], errors[RANKS][5000];
  pid_t pids[RANKS];
  ncclUniqueId id;
  bool heard = !said;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  temp_write(temp_path("id"), &id, sizeof id);
  for (int r = 0; r < n; r++) {
    snprintf(settings[r][0], sizeof settings[r][0], "RANK=%d", r);
    snprintf(settings[r][1], sizeof settings[r][1], "RANKS=%d", n);
    snprintf(settings[r][2], sizeof settings[r][2], "ID_FILE=%s", temp_path("id"));
    snprintf(settings[r][3], sizeof settings[r][3], each ? "%s%d" : "NONE=1", each, r);
    snprintf(errors[r], sizeof errors[r], "%s.%d", temp_path("errors"), r);
    const char *list[] = {settings[r][0], settings[r][1], settings[r][2], settings[r][3], more, NULL};
    pids[r] = child_start(name, list, errors[r]);
  }
  for (int r = 0; r < n; r++) {
    int got = child_wait(pids[r], errors[r]);
    CHECKF(got == code, "%s, rank %d ends with %d, not %d: %s", name, r, got, code, child_said);
    heard = heard || strstr(child_said, said);
  }
  CHECKF(heard, "%s: no rank prints %s", name, said);
}

static void right(void) {
  for (int seed = 1; seed <= 5; seed++) {
    char setting[40];
    snprintf(setting, sizeof setting, "DOUBLES_SEED=%d", seed);
    all_end("collectives", RANKS, RIGHT, NULL, setting, NULL);
    all_end("splits", RANKS, RIGHT, NULL, setting, NULL);
    all_end("graphs", RANKS, RIGHT, NULL, setting, NULL);
  }
}

static void wrong(void) {
  all_end("mismatch", 2, DOUBLE_EXIT, "asks for ncclAllReduce of 63 of type 7", NULL, NULL);
  all_end("other_order", 2, WRONG, NULL, NULL, NULL);
  all_end("captured_by_one", 2, DOUBLE_EXIT, "is captured on rank 1 and not on rank 0", NULL, NULL);
  all_end("captured_first", 2, DOUBLE_EXIT, "is captured before its first call without capture", NULL, NULL);
  all_end("graph_kept", 2, DOUBLE_EXIT, "a graph still has calls of the communicator", NULL, NULL);
  all_end("refused", 2, WRONG, "Duplicate GPU detected", "SAME_DEVICE=1", NULL);
  all_end("refused", 2, RIGHT, NULL, "SAME_DEVICE=1", "NCCL_HOSTID=h");
  all_end("aborts", 3, RIGHT, NULL, NULL, NULL);
}

static void used_too_early(void) {
  int found = 0;
  for (int seed = 0; seed < 10; seed++) {
    char setting[40];
    snprintf(setting, sizeof setting, "DOUBLES_SEED=%d", seed);
    all_end("too_early", 1, RIGHT, NULL, setting, NULL);
    found += strstr(child_said, "used before its last call is done") != NULL;
  }
  CHECKF(found > 2, "%d of 10 seeds", found);
}

#define CASE(name) \
  { #name, name }
static const ChildCase cases[] = {CASE(collectives),    CASE(splits),     CASE(graphs),   CASE(captured_by_one),
                                  CASE(captured_first), CASE(graph_kept), CASE(mismatch), CASE(other_order),
                                  CASE(too_early),      CASE(refused),    CASE(aborts),   {0}};

int main(int argc, char **argv) {
  int result;
  if (child_is(argc, argv, cases, &result)) return result;
  RUN(right);
  RUN(wrong);
  RUN(used_too_early);
  return test_summary();
}
