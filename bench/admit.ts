/**
 * What `admit` costs: ranking all engines with the default policy and booking the winner, on the state machine that
 * both runtimes wrap. The index is full before the clock starts, and every admit evicts as much as it adds.
 *
 * Prompts are conversations: of ten, six go on where one was (all of it cached on some engine, a tail new), two fork one
 * half way, one repeats one whole, one is new. Every tenth request goes on while fifty like it begin.
 */
import { ClusterState } from '../src/core/cluster/cluster-state.ts'
import { type Admission, PAYLOAD_VERSION, type PoolConfig } from '../src/core/cluster/contract.ts'
import { LoadBooks } from '../src/core/cluster/load-books.ts'
import { RoutingBooks } from '../src/core/cluster/routing-books.ts'
import type { Bench, BenchRow } from './result.ts'

const BLOCK_TOKENS = 64
const WARM_UP = 300
const MEASURED = 5000
const TAIL_SHARE = 0.1
const RUNNING = 50

interface Case {
  readonly engines: number
  readonly promptTokens: number
  readonly indexEntries: number
}

const HEADLINE: Case = { engines: 64, promptTokens: 64_000, indexEntries: 1_000_000 }

const bench: Bench = async ({ flags, note }) => {
  const policy = typeof flags.policy === 'string' ? flags.policy : 'predicted'
  const cases: Case[] = [HEADLINE]
  if (flags.headline === undefined) {
    for (const engines of [8, 64, 256]) {
      for (const promptTokens of [1000, 16_000, 128_000]) {
        for (const indexEntries of [10_000, 1_000_000]) cases.push({ engines, promptTokens, indexEntries })
      }
    }
  }
  const rows: BenchRow[] = []
  for (const one of cases) {
    note(`${one.engines} engines, ${one.promptTokens} tokens, ${one.indexEntries} entries …`)
    rows.push(measure(one, policy))
  }
  const { p50_us, p99_us, index_bytes_per_entry } = rows[0]!
  return { rows, headline: { p50_us: Number(p50_us), p99_us: Number(p99_us), index_bytes_per_entry: Number(index_bytes_per_entry) } }
}

export default bench

function measure({ engines, promptTokens, indexEntries }: Case, policy: string): BenchRow {
  const routing = new RoutingBooks()
  const state = new ClusterState({ random: chance(1), epoch: 'bench', books: [new LoadBooks(), routing] })
  const talks = new Conversations(Math.ceil(promptTokens / BLOCK_TOKENS), indexEntries)
  const server = new Server(state)
  // Who fills the index does not matter, so something cheap does.
  state.configure(1, pool(engines, indexEntries, 'round_robin'), 0)
  while (routing.indexSize.entries < indexEntries * 0.97) server.serve(talks.next(), true)
  state.configure(2, pool(engines, indexEntries, policy), 0)
  for (let at = 0; at < WARM_UP; at++) server.serve(talks.next(), at % 10 !== 0)
  const admits = new Float64Array(MEASURED)
  let cpuUs = 0
  const releases = new Float64Array(MEASURED)
  for (let at = 0; at < MEASURED; at++) {
    const took = server.serve(talks.next(), at % 10 !== 0)
    admits[at] = took.admitUs
    cpuUs += took.cpuUs
    releases[at] = took.releaseUs
  }
  const quiet = quietest(admits)
  admits.sort()
  releases.sort()
  const { entries, bytes } = routing.indexSize
  return {
    engines,
    prompt_tokens: promptTokens,
    index_entries: entries,
    p50_us: round(at(admits, 0.5)),
    p90_us: round(at(admits, 0.9)),
    p99_us: round(at(admits, 0.99)),
    max_us: round(at(admits, 1)),
    quiet_p50_us: round(quiet),
    cpu_mean_us: round(cpuUs / MEASURED),
    release_p50_us: round(at(releases, 0.5)),
    index_bytes_per_entry: round(bytes / entries),
  }
}

interface Took {
  readonly admitUs: number
  /** Of this thread alone, so that other work on the machine counts little. Clocked in ticks: only the mean of many means anything. */
  readonly cpuUs: number
  readonly releaseUs: number
}

/** Engines that answer in no time, and a clock that goes on with each request. */
class Server {
  readonly #state: ClusterState
  readonly #running: string[] = []
  #now = 0

  constructor(state: ClusterState) {
    this.#state = state
  }

  /** One request from admit to release; one that does not end is released when fifty newer ones run. */
  serve(blocks: Uint32Array, ends: boolean): Took {
    this.#now += 20
    const admission = admissionOf(blocks)
    const cpuBefore = process.threadCpuUsage()
    const before = performance.now()
    const admitted = this.#state.admit(admission, this.#now)
    const admitUs = (performance.now() - before) * 1000
    const cpu = process.threadCpuUsage(cpuBefore)
    if ('refusal' in admitted) throw new Error(`refused: ${admitted.refusal.detail}`)
    this.#now += 5
    this.#state.firstToken(admitted.key, { ttft: 200 }, this.#now)
    return { admitUs, cpuUs: cpu.user + cpu.system, releaseUs: this.#release(admitted.key, ends, admission.promptTokens) }
  }

  #release(key: string, ends: boolean, promptTokens: number): number {
    if (!ends) this.#running.push(key)
    const ending = ends ? key : this.#running.length > RUNNING ? this.#running.shift()! : null
    if (ending === null) return 0
    const usage = { promptTokens, completionTokens: 100, cachedTokens: null }
    const before = performance.now()
    this.#state.release(ending, { version: PAYLOAD_VERSION, result: 'complete', failure: null, status: 200, usage, outputEvents: 100, stages: {} }, this.#now)
    return (performance.now() - before) * 1000
  }
}

let lastId = 0

function admissionOf(blocks: Uint32Array): Admission {
  return {
    version: PAYLOAD_VERSION,
    id: `request-${++lastId}`,
    configVersion: 1,
    model: 'm',
    adapter: null,
    promptTokens: (blocks.length / 2) * BLOCK_TOKENS + 7,
    tokenSource: 'exact',
    blocks,
    session: null,
    priority: 0,
    expectedOutputTokens: null,
    tenant: 't',
    overrides: null,
    hints: null,
    unsplittable: null,
    encodeItems: 0,
    attempt: 0,
    avoid: [],
  }
}

function pool(engines: number, indexEntries: number, policy: string): PoolConfig {
  return {
    cluster: 'bench',
    pool: 'm',
    blockTokens: BLOCK_TOKENS,
    policy: { name: policy, options: {} },
    shadow: null,
    split: { mode: 'never', thresholdTokens: 0, fallback: 'decode_only' },
    leaseMs: 1e9,
    retry: { share: 0.1, minPerS: 1 },
    circuit: { failures: 5, openMs: 1000 },
    statsIntervalMs: 10_000,
    indexEntries,
    engines: Array.from({ length: engines }, (_, at) => ({
      id: `engine-${at}`,
      role: 'any',
      models: null,
      labels: {},
      weight: 1,
      maxInFlight: null,
      prefixCaching: 'auto',
      cacheBlocks: 1_000_000,
      rttMs: 1,
      profile: null,
    })),
  }
}

/** Prompts of about one length that share prefixes as conversations do. */
class Conversations {
  readonly #length: number
  readonly #kept: Uint32Array[] = []
  readonly #most: number
  readonly #random = chance(7)

  constructor(length: number, entries: number) {
    this.#length = length
    this.#most = Math.max(20, Math.ceil((1.5 * entries) / length))
  }

  next(): Uint32Array {
    const draw = this.#random()
    const old = this.#kept[Math.floor(this.#random() * this.#kept.length)]
    if (old === undefined || this.#kept.length < this.#most || draw < 0.1) return this.#keep(this.#grown(new Uint32Array(0), this.#length))
    if (draw < 0.2) return old
    if (draw < 0.4) return this.#keep(this.#grown(old.subarray(0, old.length & ~3 >> 1), this.#length))
    const tail = Math.max(1, Math.round(this.#length * TAIL_SHARE))
    return this.#keep(this.#grown(old.subarray(0, 2 * (this.#length - tail)), this.#length))
  }

  #keep(blocks: Uint32Array): Uint32Array {
    if (this.#kept.length < this.#most) this.#kept.push(blocks)
    else this.#kept[Math.floor(this.#random() * this.#most)] = blocks
    return blocks
  }

  #grown(prefix: Uint32Array, length: number): Uint32Array {
    const blocks = new Uint32Array(length * 2)
    blocks.set(prefix)
    for (let word = prefix.length; word < blocks.length; word++) blocks[word] = this.#random() * 2 ** 32
    return blocks
  }
}

function chance(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let word = Math.imul(state ^ (state >>> 15), 1 | state)
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Median of the hundred admits in a row that other work on the machine disturbed least: what a core to itself would show. */
function quietest(inOrder: Float64Array): number {
  let least = Infinity
  for (let from = 0; from + 100 <= inOrder.length; from += 100) least = Math.min(least, at(inOrder.slice(from, from + 100).sort(), 0.5))
  return least
}

const at = (sorted: Float64Array, share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!
const round = (value: number): number => Math.round(value * 10) / 10
