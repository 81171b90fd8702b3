/* runtime/secret/secret.c - see secret.h. */
#include "runtime/secret/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/constant_time.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/version.h>

/* Before version 3 the functions that return errors have names of their own. */
#if MBEDTLS_VERSION_MAJOR >= 3
#define SHA256(name) mbedtls_sha256_##name
#else
#define SHA256(name) mbedtls_sha256_##name##_ret
#endif

enum { BLOCK = 64 }; /* of the hash, in bytes */

/* The library's HMAC allocates.  This one, built from the library's hash, cannot fail for lack of memory, which would
 * make a rank look like one with another secret. */
static void hash(const void *first, size_t n_first, const void *second, size_t n_second,
                 unsigned char out[SECRET_BYTES]) {
  mbedtls_sha256_context context;
  mbedtls_sha256_init(&context);
  bool ok = SHA256(starts)(&context, 0) == 0 && SHA256(update)(&context, first, n_first) == 0 &&
            SHA256(update)(&context, second, n_second) == 0 && SHA256(finish)(&context, out) == 0;
  mbedtls_sha256_free(&context);
  if (!ok) abort(); /* only hashing hardware can fail */
}

void secret_mac(const unsigned char key[SECRET_BYTES], const void *bytes, size_t n, unsigned char out[SECRET_BYTES]) {
  unsigned char inner[BLOCK], outer[BLOCK], digest[SECRET_BYTES];
  for (size_t i = 0; i < BLOCK; i++) {
    unsigned char k = i < SECRET_BYTES ? key[i] : 0;
    inner[i] = k ^ 0x36, outer[i] = k ^ 0x5c;
  }
  hash(inner, sizeof inner, bytes, n, digest);
  hash(outer, sizeof outer, digest, sizeof digest, out);
  mbedtls_platform_zeroize(inner, sizeof inner);
  mbedtls_platform_zeroize(outer, sizeof outer);
}

bool secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES]) {
  return mbedtls_ct_memcmp(a, b, SECRET_BYTES) == 0;
}

RtStatus secret_random(void *out, size_t n, RtError *error) {
  for (unsigned char *p = out; n > 0;) {
    ssize_t k = getrandom(p, n, 0);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return rt_error_errno(error, RT_FAILED, "the system provides no random bytes");
    p += k;
    n -= (size_t)k;
  }
  return RT_OK;
}

static RtStatus check_file(int fd, const char *path, RtError *error) {
  struct stat st;
  if (fstat(fd, &st) != 0) return rt_error_errno(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s", path);
  if (!S_ISREG(st.st_mode)) return rt_error(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s is not a regular file", path);
  if (st.st_uid != geteuid()) return rt_error(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s is another user's file", path);
  if (st.st_mode & (S_IRWXG | S_IRWXO))
    return rt_error(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s can be read by other users: chmod 600 %s", path, path);
  return RT_OK;
}

/* Reads the whole file, at most `size` bytes. */
static ssize_t read_all(int fd, unsigned char *bytes, size_t size) {
  size_t n = 0;
  for (ssize_t k; n < size; n += (size_t)k) {
    k = read(fd, bytes + n, size - n);
    if (k < 0 && errno == EINTR) k = 0;
    else if (k < 0) return -1;
    else if (k == 0) break;
  }
  return (ssize_t)n;
}

static RtStatus read_key(int fd, const char *path, unsigned char key[SECRET_BYTES], RtError *error) {
  static const unsigned char label[SECRET_BYTES] = "apc: the secret of a run";
  unsigned char bytes[SECRET_MOST + 3];
  ssize_t n = read_all(fd, bytes, sizeof bytes);
  if (n < 0) return rt_error_errno(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s", path);
  while (n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r')) n--;
  bool fits = n >= SECRET_LEAST && n <= SECRET_MOST;
  if (fits) secret_mac(label, bytes, (size_t)n, key);
  mbedtls_platform_zeroize(bytes, sizeof bytes);
  if (fits) return RT_OK;
  return rt_error(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s: a secret has %d to %d bytes", path, SECRET_LEAST,
                  SECRET_MOST);
}

RtStatus secret_find(unsigned char key[SECRET_BYTES], bool *found, RtError *error) {
  const char *path = getenv(SECRET_VARIABLE);
  memset(key, 0, SECRET_BYTES);
  *found = path && *path;
  if (!*found) return RT_OK;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return rt_error_errno(error, RT_BAD_INPUT, SECRET_VARIABLE "=%s", path);
  RtStatus status = check_file(fd, path, error);
  if (!status) status = read_key(fd, path, key, error);
  close(fd);
  return status;
}
