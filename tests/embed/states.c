/* tests/embed/states.c - the states of a compiled decoder through apc_runtime.h, for tests/embed/run.sh.
 *
 *   states PROGRAM  prints each state: type, name, each size with its formula, in order
 */
#include <stdio.h>
#include <string.h>

#include "apc_runtime.h"

static int print_states(ApcModel *m) {
  ApcTensorInfo info;
  for (int i = 0; i < apc_states(m); i++) {
    if (apc_state_info(m, i, &info) != APC_OK || info.index_below != -1) return 1;
    printf("%d %s", (int)info.type, info.name);
    for (int d = 0; d < info.rank; d++) printf(" %lld=%s", (long long)info.dims[d], info.dim_text[d]);
    printf("\n");
  }
  if (apc_state_info(m, -1, &info) != APC_USAGE || apc_state_info(m, apc_states(m), &info) != APC_USAGE) return 1;
  return strstr(apc_error(m), "there is no state number") == NULL;
}

int main(int argc, char **argv) {
  ApcModel *m;
  if (argc != 2 || apc_load(argv[1], NULL, &m)) return 2;
  int code = print_states(m);
  apc_close(m);
  return code;
}
