/* tests/unit/runtime_launch.c - the rank of a process from the environment, and the meeting place of its ranks. */
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/addresses.h"
#include "runtime/launch/launch.h"
#include "tests/test.h"

static const char *const names[] = {"APC_RANK",
                                    "APC_WORLD_SIZE",
                                    "APC_LOCAL_RANK",
                                    "APC_LOCAL_WORLD_SIZE",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS",
                                    "PMIX_RANK",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_ID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_TASKS_PER_NODE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "APC_ADDR",
                                    "APC_TRANSPORT"};

/* Calls launch_find with only these variables set: "A=1 B=2". */
static RtStatus find(const char *environment, LaunchFlags flags, Launch *out) {
  RtError error = {0};
  char text[1000];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
  snprintf(text, sizeof text, "%s", environment);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    *equals = 0;
    setenv(word, equals + 1, 1);
  }
  return launch_find(&flags, out, &error);
}

static const LaunchFlags none = {-1, -1, NULL, NULL};

static void check(const char *environment, int rank, int world, int local, LaunchTransport transport,
                  const char *address) {
  Launch l;
  RtStatus status = find(environment, none, &l);
  CHECKF(status == RT_OK && l.rank == rank && l.world == world && l.local_rank == local,
         "%s: status %d, rank %d of %d, local %d", environment, (int)status, l.rank, l.world, l.local_rank);
  if (status == RT_OK && world > 1)
    CHECKF(l.transport == transport && strcmp(l.address, address) == 0, "%s: transport %d, address %s", environment,
           (int)l.transport, l.address);
}

static void test_environments(void) {
  check("", 0, 1, 0, LAUNCH_TCP, "");
  check("APC_RANK=3 APC_WORLD_SIZE=4 APC_LOCAL_RANK=1 APC_ADDR=a:1", 3, 4, 1, LAUNCH_TCP, "a:1");
  check("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=host MASTER_PORT=29500", 1, 2, 1, LAUNCH_TCP, "host:29500");
  check("RANK=1 WORLD_SIZE=2 MASTER_ADDR=host MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True", 1, 2, 0, LAUNCH_TCP,
        "host:29501");
  check("RANK=1 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=2950", 1, 2, 0, LAUNCH_TCP, "[::1]:2950");
  check("RANK=1 WORLD_SIZE=2 MASTER_ADDR=[::1] MASTER_PORT=2950", 1, 2, 0, LAUNCH_TCP, "[::1]:2950");
  check("RANK=0 WORLD_SIZE=1 MASTER_ADDR=host MASTER_PORT=29500", 0, 1, 0, LAUNCH_TCP, "");
  check("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1", 5, 8, 1, LAUNCH_MPI, "");
  check("PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=2", 2, 3, 2, LAUNCH_MPI, "");
}

static void test_order(void) {
  check("APC_RANK=0 APC_WORLD_SIZE=2 APC_ADDR=a:1 RANK=1 WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", 0,
        2, 0, LAUNCH_TCP, "a:1");
  check("RANK=1 WORLD_SIZE=3 MASTER_ADDR=m MASTER_PORT=7 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", 1, 3, 0,
        LAUNCH_TCP, "m:7");
  check("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 PMI_RANK=1 PMI_SIZE=2", 2, 4, 0, LAUNCH_MPI, "");
  check("APC_ADDR=a:1 RANK=1 WORLD_SIZE=3 MASTER_ADDR=m MASTER_PORT=7", 1, 3, 0, LAUNCH_TCP, "a:1");
  check("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 APC_TRANSPORT=tcp APC_ADDR=a:1", 2, 4, 0, LAUNCH_TCP, "a:1");
  Launch l;
  CHECK(find("RANK=1 WORLD_SIZE=3 MASTER_ADDR=m MASTER_PORT=7", (LaunchFlags){1, 2, "b:2", NULL}, &l) == RT_OK &&
        l.rank == 1 && l.world == 2 && strcmp(l.address, "b:2") == 0);
}

/* A batch script has the variables of a task as well. */
static void test_slurm(void) {
  check("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2]", 0, 1, 0, LAUNCH_TCP,
        "");
  check("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967291 SLURM_JOB_NODELIST=n[1-2]", 0, 1, 0, LAUNCH_TCP, "");
  check(
      "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_STEP_ID=2 SLURM_JOB_ID=7 "
      "SLURM_STEP_NODELIST=gpu[003-005,9],x",
      3, 4, 1, LAUNCH_TCP, "gpu003:20219");
  check("PMIX_RANK=3 SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_STEP_ID=2 SLURM_JOB_NODELIST=n1", 3, 4, 1,
        LAUNCH_MPI, "");
  Launch l;
  find("SLURM_PROCID=3 SLURM_NTASKS=6 SLURM_STEP_ID=2 SLURM_JOB_NODELIST=n[1-3] SLURM_TASKS_PER_NODE=2(x3)", none, &l);
  CHECK(l.local_world == 2);
}

static void test_first_host(void) {
  static const char *const cases[][2] = {{"n1", "n1"},     {"n1,n2", "n1"},        {"n[01-04]", "n01"},
                                         {"n[7],m", "n7"}, {"a[2,4-6]b,c", "a2b"}, {"x-1.y,z", "x-1.y"}};
  char host[64];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECKF(launch_first_host(cases[i][0], host, sizeof host) && strcmp(host, cases[i][1]) == 0, "%s: %s", cases[i][0],
           host);
  CHECK(!launch_first_host("n[1-2", host, sizeof host));
  CHECK(!launch_first_host("", host, sizeof host));
  CHECK(!launch_first_host("averylongname", host, 5));
}

static void test_addresses(void) {
  static const char *const cases[][3] = {{"host:1", "host", "1"},
                                         {"[::1]:29501", "::1", "29501"},
                                         {"::1:29501", "::1", "29501"},
                                         {"::1", "::1", "29500"},
                                         {"[::1]", "::1", "29500"},
                                         {"fd00:213::7:1", "fd00:213::7:1", "29500"},
                                         {"[fe80::1%eth0]:7", "fe80::1%eth0", "7"},
                                         {"fe80::1%eth0", "fe80::1%eth0", "29500"}};
  static const char *const none_of_these[] = {"",           ":",       "host", "host:", "host:0",
                                              "host:65536", "host:1x", ":1",   "[]:1x", "::1:x"};
  HostPort h;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECKF(address_host_port_split(cases[i][0], &h) && strcmp(h.host, cases[i][1]) == 0 &&
               strcmp(h.port, cases[i][2]) == 0,
           "%s: %s %s", cases[i][0], h.host, h.port);
  for (size_t i = 0; i < sizeof none_of_these / sizeof *none_of_these; i++)
    CHECKF(!address_host_port_split(none_of_these[i], &h), "%s: %s %s", none_of_these[i], h.host, h.port);
}

static void test_refusals(void) {
  Launch l;
  CHECK(find("RANK=4 WORLD_SIZE=4 MASTER_ADDR=m MASTER_PORT=7", none, &l) == RT_USAGE);
  CHECK(find("RANK=x WORLD_SIZE=4 MASTER_ADDR=m MASTER_PORT=7", none, &l) == RT_USAGE);
  CHECK(find("RANK=1 WORLD_SIZE=4", none, &l) == RT_USAGE); /* nowhere to meet */
  CHECK(find("", (LaunchFlags){1, -1, "a:1", NULL}, &l) == RT_USAGE);
  CHECK(find("", (LaunchFlags){2, 2, "a:1", NULL}, &l) == RT_USAGE);
  CHECK(find("", (LaunchFlags){-1, -1, "a:1", NULL}, &l) == RT_USAGE);
  CHECK(find("", (LaunchFlags){0, 2, "a:1", "smoke"}, &l) == RT_USAGE);
}

int main(void) {
  RUN(test_environments);
  RUN(test_order);
  RUN(test_slurm);
  RUN(test_first_host);
  RUN(test_addresses);
  RUN(test_refusals);
  return test_summary();
}
