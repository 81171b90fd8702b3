/* runtime/host/version.c - the version of the library; the build defines it from project() in CMakeLists.txt. */
#include "runtime/apc_runtime.h"

const char *apc_version(void) { return APC_VERSION; }

int apc_version_number(void) { return APC_VERSION_NUMBER; }
