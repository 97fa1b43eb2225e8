/**
 * What Node serves a gateway with (docs/performance.md). Memory of requests lies outside V8's heap and is let go with the objects that
 * name it: a small young generation is collected often, a large one would wait until all of the heap is. One thread does it with less
 * work than several.
 */
export const servingFlags = ['--max-semi-space-size=4', '--no-parallel-scavenge']
