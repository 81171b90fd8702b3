/* tests/unit/secret.c - HMAC-SHA-256 against published values (RFC 4231, cases 1, 2 and 4; keys filled up with zeros).
 */
#include "runtime/secret/secret.h"

#include "tests/test.h"

static void check(const void *key, size_t n_key, const void *data, size_t n, const char *want) {
  unsigned char whole[SECRET_BYTES] = {0}, mac[SECRET_BYTES];
  char text[2 * SECRET_BYTES + 1];
  memcpy(whole, key, n_key);
  secret_mac(whole, data, n, mac);
  for (int i = 0; i < SECRET_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", mac[i]);
  CHECKF(strcmp(text, want) == 0, "%s, not %s", text, want);
}

static void macs(void) {
  unsigned char key[25], data[50];
  memset(key, 0x0b, sizeof key);
  check(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  check("Jefe", 4, "what do ya want for nothing?", 28,
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  for (unsigned i = 0; i < sizeof key; i++) key[i] = (unsigned char)(i + 1);
  memset(data, 0xcd, sizeof data);
  check(key, sizeof key, data, sizeof data, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

int main(void) {
  RUN(macs);
  return test_summary();
}
