/** Mutations of what a pool stores about cached blocks: prefix index, KV events, cache feedback. */
import type { Mutation } from './mutation.ts'

const POLICIES = { node: ['test/node/contracts/policies.test.ts'], workers: ['test/workers/policies.test.ts'] }
const CLUSTERS = { node: ['test/node/contracts/cluster.test.ts'] }
const BOTH = { node: ['test/node/contracts/cluster.test.ts'], workers: ['test/workers/durable-pools.test.ts'] }
const INDEX = { node: ['test/core/prefix-index/'] }
const FEEDBACK = {
  node: ['test/core/pool/estimators/cache-feedback.test.ts', 'test/core/pool/pool-state.test.ts'],
}
const SIGNALS = { node: ['test/core/pool/', 'test/core/routing/'] }

export const caches: readonly Mutation[] = [
  {
    name: 'prefix_caching off has no effect',
    file: 'src/core/pool/estimators/engine-estimators.ts',
    find: ": spec.prefixCaching === 'on'",
    replace: ': true',
    impact: 'conversations are sent to an engine for a cache that it does not have',
    tests: POLICIES,
  },
  {
    name: 'prefix_caching of the configuration is lost',
    file: 'src/config/to-pool-config.ts',
    find: 'if (!isProvider(engine)) return { ...spec, prefixCaching }',
    replace: "if (!isProvider(engine)) return { ...spec, prefixCaching: 'auto' }",
    impact: 'the setting of an engine has no effect',
    tests: {
      node: ['test/node/contracts/engine-settings.test.ts'],
      built: ['test/node/contracts/engine-settings.worker.test.ts'],
    },
  },
  {
    name: 'output never grows active blocks',
    file: 'src/core/prefix-index/active-blocks.ts',
    find: 'this.#countsOf(request.engine).output += more',
    replace: 'this.#of(request.engine).output += 0 * more',
    impact: 'long answers look free (dynamo#1731)',
    tests: POLICIES,
  },
  {
    name: 'output blocks stay after the end',
    file: 'src/core/prefix-index/active-blocks.ts',
    find: 'counts.output -= request.outputBlocks',
    replace: 'counts.output -= 0',
    impact: 'engines fill up with requests that have ended',
    tests: POLICIES,
  },
  {
    name: 'a shared prompt counts for each request',
    file: 'src/core/prefix-index/active-blocks.ts',
    find: 'const own = prompt.blockCount - (pin?.blocks ?? 0)',
    replace: 'const own = prompt.blockCount',
    impact: 'requests with one prompt look as large as unrelated ones',
    tests: POLICIES,
  },
  {
    name: 'prefix index evicts the wrong engine',
    file: 'src/core/prefix-index/prefix-index.ts',
    find: 'while (share.cached > capacity && share.last !== NONE) this.#evict(share.last, share.cached - capacity)',
    replace: '',
    impact: 'an engine appears to hold more blocks than fit',
    tests: INDEX,
  },
  {
    name: 'prefix index: released blocks are forgotten',
    file: 'src/core/prefix-index/prefix-index.ts',
    find: 'if (holdings.endLive(holding)) this.#settle(holding, stamp, keep - start)',
    replace: 'if (holdings.endLive(holding)) this.#settle(holding, stamp, 0)',
    impact: 'no follow-up finds the cache of its conversation',
    tests: INDEX,
  },
  {
    name: 'prefix index: blocks that were never prefilled count as cached',
    file: 'src/core/prefix-index/prefix-index.ts',
    find: 'const isTruncated = keep < holdings.records.words',
    replace: 'const isTruncated = keep < 0 && keep < holdings.records.words',
    impact: 'requests cancelled in the queue count as cached',
    tests: INDEX,
  },
  {
    name: 'prefix index: stamps do not move',
    file: 'src/core/prefix-index/prefix-index.ts',
    find: 'const stamp = (this.#stamp = (this.#stamp + 1) | 0)',
    replace: 'const stamp = (this.#stamp = this.#stamp | 0)',
    impact: 'the least recently used block is unknown, so any is evicted',
    tests: INDEX,
  },
  {
    name: 'block tree takes any parent for the right one',
    file: 'src/core/prefix-index/block-tree.ts',
    find: 'if (node === NONE || nodes[node * NODE_STRIDE + PARENT] !== parent) break',
    replace: 'if (node === NONE) break',
    impact: 'a hash collision matches a prompt in the middle of another',
    tests: INDEX,
  },
  {
    name: 'block tree compares one lane',
    file: 'src/core/prefix-index/block-tree.ts',
    find: 'words[run] === blocks[own] && words[run + 1] === blocks[own + 1]',
    replace: 'words[run] === blocks[own]',
    impact: 'hashes have 32 bits instead of 64',
    tests: INDEX,
  },
  {
    name: 'KV events: exact blocks ignore gaps',
    file: 'src/core/prefix-index/kv-event-index.ts',
    find: 'const holders = slot < 0 ? 0 : remaining[word]! & this.#holders[slot + word]!',
    replace: 'const holders = slot < 0 ? 0 : this.#holders[slot + word]!',
    impact: 'a block without those before it counts as cached',
    tests: INDEX,
  },
  {
    name: 'KV events: a gap in a feed is not detected',
    file: 'src/core/kv-events/event-cursor.ts',
    find: 'const isNextStep = isSameEpoch && delta.seq === this.#seq + 1 &&',
    replace: 'const isNextStep = isSameEpoch && delta.seq > this.#seq &&',
    impact: 'removed blocks of a lost batch count as cached',
    tests: BOTH,
  },
  {
    name: 'KV events: a silent feed never expires',
    file: 'src/core/kv-events/event-cursor.ts',
    find: 'return this.#complete && now < this.#validUntil',
    replace: 'return this.#complete',
    impact: 'a dead bridge leaves an old picture that counts as exact',
    tests: CLUSTERS,
  },
  {
    name: 'cache feedback never finds a restart',
    file: 'src/core/pool/estimators/cache-feedback.ts',
    find: 'return this.#missesInARow < RESTART_AFTER ? FINE : this.#restarted(false)',
    replace: 'return FINE',
    impact: 'an engine that lost its cache attracts its old conversations',
    tests: FEEDBACK,
  },
  {
    name: 'cache feedback: hits do not end a row of misses',
    file: 'src/core/pool/estimators/cache-feedback.ts',
    find: 'this.#silent = false\n    this.#missesInARow = 0',
    replace: 'this.#silent = false',
    impact: 'three misses in a week look like a restart',
    tests: FEEDBACK,
  },
  {
    name: 'cache capacity never shrinks',
    file: 'src/core/pool/estimators/cache-capacity.ts',
    find: '(1 - SHRINK) ** prompts',
    replace: '(1 - 0 * SHRINK) ** prompts',
    impact: 'blocks that the engine evicted count as cached',
    tests: FEEDBACK,
  },
  {
    name: 'cached tokens include the last one',
    file: 'src/core/pool/signals/prompt-lookup.ts',
    find: 'return Math.max(0, this.#admission.promptTokens - 1)',
    replace: 'return Math.max(0, this.#admission.promptTokens)',
    impact: 'a prompt that is wholly cached is predicted to cost nothing',
    tests: SIGNALS,
  },
  {
    name: 'cached tokens of slower tiers count twice',
    file: 'src/core/pool/signals/prompt-lookup.ts',
    find: 'Math.min(limit, hint.remote) - device - host - disk',
    replace: 'Math.min(limit, hint.remote) - device',
    impact: 'more tokens count as cached than the prompt has',
    tests: POLICIES,
  },
]
