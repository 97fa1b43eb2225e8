/**
 * What Node serves a gateway with (docs/performance.md). Memory of requests lies outside V8's heap and is let go with the objects that
 * name it: a small young generation is collected often, a large one would wait until all of the heap is. One thread does it with less
 * work than several. What a request runs through is compiled well after 500 calls, not 3,000. The heap grows to two and a half times what is
 * alive in it, not four times.
 */
export const servingFlags = ['--max-semi-space-size=4', '--no-parallel-scavenge', '--invocation-count-for-turbofan=500', '--heap-growing-percent=150']

/** Where there are I/O threads, set before the first starts: their heaps are half as large, and grown by as little they would be collected whole for every few dozen long prompts. */
export const threadFlags = ['--heap-growing-percent=200']

/** The same of glibc: threads that compile and collect keep their memory together, rather than each some of its own. */
export const servingEnv = (env) => ({ MALLOC_ARENA_MAX: '2', ...env })
