/**
 * What Node serves a gateway with (docs/measurements/performance.md). A young generation of 8 MB outlives most requests, so that little of them is copied
 * into the old one; a larger one takes more memory than it saves work. One thread collects it with less work than several. What a request runs
 * through is compiled well after 500 calls, not 3,000. The heap grows to little more than twice what is alive in it, not four times. Nothing is
 * made in the old generation from the start: of a request, which V8 may take for something that lasts, that would keep all else of it alive too.
 */
export const servingFlags = [
  '--max-semi-space-size=8',
  '--no-parallel-scavenge',
  '--invocation-count-for-turbofan=500',
  '--heap-growing-percent=120',
  '--no-allocation-site-pretenuring',
]

/** The same of glibc: threads that compile and collect keep their memory together, rather than each some of its own. */
export const servingEnv = (env) => ({ MALLOC_ARENA_MAX: '2', ...env })
