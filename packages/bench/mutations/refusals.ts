import type { Mutation, Tests } from './mutation.ts'

const EDGES: Tests = { node: ['core/overload/edge-refusals'] }
const POOLS: Tests = { node: ['threads/pool-state'], workers: ['workers/durable-pools.test'] }
const REPEATED: Tests = { node: ['contracts/repeated-requests'], workers: ['repeated-requests'] }

const ROLES: Tests = {
  node: ['contracts/engine-settings.test'],
  built: ['contracts/engine-settings.worker.test'],
}

/** Refusals: those that cost little, answered by edges and from memory, and what they name. */
export const refusals: readonly Mutation[] = [
  {
    name: '503 names no labels',
    file: 'src/core/pool/refusals.ts',
    find: 'const labels = [...new Set(configured ?? ofEngines)]',
    replace: 'const labels: string[] = configured === undefined ? ofEngines.slice(0, 0) : []',
    impact: 'operators cannot see which pods are missing',
    tests: ROLES,
  },
  {
    name: '503 names no role',
    file: 'src/origin/retry/client-failure.ts',
    find: "message: ({ emptyRole = 'a role this request needs' }) =>",
    replace: 'message: ({ reason: emptyRole }) =>',
    impact: 'operators cannot see which role is missing',
    tests: ROLES,
  },
  {
    name: 'edge sends nothing beyond what the pool admits',
    file: 'src/core/overload/edge-refusals.ts',
    find: '(admitted + (refused * MAX_REFUSALS_PER_S) / refusalsPerS)',
    replace: 'admitted',
    impact: 'a pool that refuses everything for a moment gets no requests for a second',
    tests: EDGES,
  },
  {
    name: 'edge refuses by an answer of any age',
    file: 'src/core/overload/edge-refusals.ts',
    find: 'ageMs >= FRESH_MS',
    replace: 'ageMs >= Infinity',
    impact: 'a quiet edge refuses long after the overload has ended',
    tests: { ...EDGES, ...POOLS },
  },
  {
    name: 'late first tokens are no error of the capacity',
    file: 'src/core/pool/booking-lifecycle.ts',
    find: 'if (this.#history.firstToken(token, now)) this.#overload.arrivals?.late(now)',
    replace: 'this.#history.firstToken(token, now)',
    impact: 'a pool that is late everywhere seems to have the capacity that it states',
    tests: { node: ['contracts/cluster.test'], workers: ['workers/durable-pools.test'] },
  },
  {
    name: 'engines that leave within a minute are an error of the capacity',
    file: 'src/core/capacity/capacity-checks.ts',
    find: 'servedPerS <= lowestPerS ?',
    replace: 'servedPerS <= highestPerS ?',
    impact: 'operators distrust the capacity after each restart of an engine',
    tests: { node: ['core/capacity/'] },
  },
  {
    name: 'edge does not report its refusals',
    file: 'src/origin/pools/remote-pool.ts',
    find: 'if (edgeRefusals === 0)',
    replace: 'if (edgeRefusals >= 0)',
    impact: 'the refusals are missing in the metrics, and edges stop to answer while the overload lasts',
    tests: POOLS,
  },
  {
    name: 'edge asks the pool for each request',
    file: 'src/origin/pools/remote-pool.ts',
    find: 'if (refusal !== null) return { refusal }',
    replace: '',
    impact: 'each refusal is a call of the Durable Object',
    tests: { workers: ['workers/durable-pools.test'] },
  },
  {
    name: 'repetition is decided anew',
    file: 'src/api/repeated-requests.ts',
    find: 'if (retryAfterMs === null) return name',
    replace: 'return name',
    impact: 'a client that ignores its Retry-After costs a decision for each repetition',
    tests: REPEATED,
  },
  {
    name: 'refusal is repeated for the whole retry time',
    file: 'src/core/overload/refused-requests.ts',
    find: 'Math.min(known.retryAt, known.at + MAX_REPEAT_MS)',
    replace: 'known.retryAt',
    impact: 'free places stay unused for seconds',
    tests: REPEATED,
  },
  {
    name: 'repetitions are compared without the address',
    file: 'src/api/repeated-requests.ts',
    find: "incoming.scope.remoteAddress ?? ''",
    replace: "''",
    impact: 'a client is refused because another one sent the same request',
    tests: REPEATED,
  },
]
