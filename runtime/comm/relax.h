/* runtime/comm/relax.h - the pause in a loop that waits for memory to change. */
#ifndef APC_RUNTIME_COMM_RELAX_H
#define APC_RUNTIME_COMM_RELAX_H

/* Lets the other hardware thread of the core run first, for some 10 to 100 cycles. */
static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
