/**
 * V8 flags for serving (docs/measurements/performance.md). A young generation of 8 MB outlives most requests, so that
 * few of their objects are copied into the old one; a larger one costs more memory than it saves work. One collector
 * thread needs less work than several. Functions are optimised after 500 calls instead of 3,000. The heap grows to
 * little more than twice its live size instead of four times. Allocation-site pretenuring is off: V8 may take objects
 * of a request for long-lived ones, and each in the old generation keeps the rest of its request alive. Maglev is off:
 * it would compile all functions of a request at once, 100 calls before TurboFan does, in 40 MB that are not returned.
 */
export const servingFlags = [
  '--max-semi-space-size=8',
  '--no-parallel-scavenge',
  '--invocation-count-for-turbofan=500',
  '--heap-growing-percent=120',
  '--no-allocation-site-pretenuring',
  '--no-maglev',
]

/** glibc: threads that compile and collect share arenas. */
export const servingEnv = (env) => ({ MALLOC_ARENA_MAX: '2', ...env })
