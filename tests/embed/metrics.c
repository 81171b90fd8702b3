/* tests/embed/metrics.c - a program that serves the numbers of its runs (apc_metrics), asks for them, and prints the
 * page: metrics PROGRAM PORT. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apc_runtime.h"

static void require(ApcModel *model, ApcStatus status, ApcStatus wanted, const char *call) {
  if (status == wanted) return;
  fprintf(stderr, "%s: status %d, wanted %d: %s\n", call, status, wanted, apc_error(model));
  exit(1);
}

/* Returns a connection to the port, or -1. */
static int connect_to(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static int print_page(int port) {
  static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
  char text[4096];
  ssize_t n;
  int fd = connect_to(port);
  if (fd < 0 || write(fd, request, sizeof request - 1) != (ssize_t)sizeof request - 1) return 1;
  while ((n = read(fd, text, sizeof text)) > 0) fwrite(text, 1, (size_t)n, stdout);
  close(fd);
  return n < 0;
}

/* Closes the model while a forked child lives, which holds copies of the listener and of the pipe that ends the thread:
 * the call returns (or SIGALRM ends this test), and the port is closed at once. */
static int close_beside_child(ApcModel *model, int port) {
  int gate[2], code = 1, failed = 0;
  char end;
  if (pipe(gate) != 0) return 1;
  pid_t child = fork();
  if (child == 0) {
    close(gate[1]);
    ssize_t n = read(gate[0], &end, 1);
    apc_close(model);
    _exit(n != 0); /* no search for leaks: here no thread frees what the serving thread held during the fork */
  }
  close(gate[0]);
  alarm(120);
  apc_close(model);
  alarm(0);
  if (connect_to(port) >= 0) failed = 1;
  close(gate[1]);
  if (child < 0 || waitpid(child, &code, 0) != child || code != 0) failed = 1;
  return failed;
}

int main(int argc, char **argv) {
  ApcModel *model;
  const float x[3] = {1, 2, 3};
  const int64_t n = 3;
  if (argc != 3) return 2;
  ApcStatus loaded = apc_load(argv[1], NULL, &model);
  require(model, loaded, APC_OK, "apc_load");
  require(model, apc_metrics(model, "port"), APC_USAGE, "apc_metrics of no address");
  require(model, apc_metrics(model, argv[2]), APC_OK, "apc_metrics");
  require(model, apc_metrics(model, argv[2]), APC_USAGE, "a second apc_metrics");
  require(model, apc_bind_input(model, "x", APC_F32, 1, &n, x), APC_OK, "apc_bind_input");
  require(model, apc_run(model, NULL), APC_OK, "apc_run");
  require(model, apc_run_again(model), APC_OK, "apc_run_again");
  int failed = print_page(atoi(argv[2]));
  return close_beside_child(model, atoi(argv[2])) || failed;
}
