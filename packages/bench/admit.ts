/**
 * Cost of `admit`: ranking all engines with the default policy and booking the best one, on the state machine of both
 * runtimes. The index is full before the measurement, so every admit evicts as much as it adds.
 *
 * Prompts are conversations: of ten, six continue one (its history is cached on some engine), two fork one half way,
 * one repeats one, and one is new. Every tenth request continues while fifty similar ones start.
 */
import { PoolState } from '../../src/core/pool/pool-state.ts'
import { readOutcome } from '../../src/core/contract/decode.ts'
import { chance } from '../replay/src/replay/chance.ts'
import { admissionOf, BLOCK_TOKENS, Conversations, poolOf } from './conversations.ts'
import type { Bench, BenchRow } from './result.ts'

const WARM_UP = 300
const MEASURED = 5000
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
  note(
    'quiet_p50_us: median of the hundred admits in a row that other work on this machine disturbed least. ' +
      'whole_p99_us: of the admits during which the system did not take the core away; cpu_mean_us: of this ' +
      'thread alone.',
  )
  const headline = ['p50_us', 'p99_us', 'quiet_p50_us', 'whole_p99_us', 'index_bytes_per_entry'].map(
    (name) => [name, Number(rows[0]![name])] as const,
  )
  return { rows, headline: Object.fromEntries(headline) }
}

export default bench

function measure({ engines, promptTokens, indexEntries }: Case, policy: string): BenchRow {
  const state = new PoolState({ random: chance(1), epoch: 'bench' })
  const talks = new Conversations(Math.ceil(promptTokens / BLOCK_TOKENS), indexEntries)
  const server = new Server(state)
  // A cheap policy fills the index.
  state.configure(1, poolOf(engines, indexEntries, 'round_robin'), 0)
  while (state.indexSize.entries < indexEntries * 0.97) server.serve(talks.next(), true)
  state.configure(2, poolOf(engines, indexEntries, policy), 0)
  for (let at = 0; at < WARM_UP; at++) server.serve(talks.next(), at % 10 !== 0)
  const admits = new Float64Array(MEASURED)
  const uninterrupted: number[] = []
  let cpuUs = 0
  const releases = new Float64Array(MEASURED)
  for (let at = 0; at < MEASURED; at++) {
    const took = server.serve(talks.next(), at % 10 !== 0)
    admits[at] = took.admitUs
    cpuUs += took.cpuUs
    if (!took.interrupted) uninterrupted.push(took.admitUs)
    releases[at] = took.releaseUs
  }
  const quiet = quietest(admits)
  const whole = Float64Array.from(uninterrupted).sort()
  admits.sort()
  releases.sort()
  const { entries, bytes } = state.indexSize
  return {
    engines,
    prompt_tokens: promptTokens,
    index_entries: entries,
    p50_us: round(at(admits, 0.5)),
    p90_us: round(at(admits, 0.9)),
    p99_us: round(at(admits, 0.99)),
    max_us: round(at(admits, 1)),
    quiet_p50_us: round(quiet),
    whole_p99_us: round(at(whole, 0.99)),
    interrupted: MEASURED - whole.length,
    cpu_mean_us: round(cpuUs / MEASURED),
    release_p50_us: round(at(releases, 0.5)),
    index_bytes_per_entry: round(bytes / entries),
  }
}

interface Took {
  readonly admitUs: number
  /**
   * CPU time of this thread alone, so that other work on the machine matters little. It has the resolution of ticks, so
   * only the mean of many means is useful.
   */
  readonly cpuUs: number
  /** Whether another process used the core meanwhile. */
  readonly interrupted: boolean
  readonly releaseUs: number
}

/** Engines that respond immediately, and a clock that advances with each request. */
class Server {
  readonly #state: PoolState
  readonly #running: string[] = []
  #now = 0

  constructor(state: PoolState) {
    this.#state = state
  }

  /** One request from admit to release; one that does not end is released when fifty newer ones run. */
  serve(blocks: Uint32Array, ends: boolean): Took {
    this.#now += 20
    const admission = admissionOf(blocks)
    const switchesBefore = process.resourceUsage().involuntaryContextSwitches
    const cpuBefore = process.threadCpuUsage()
    const before = performance.now()
    const admitted = this.#state.admit(admission, this.#now)
    const admitUs = (performance.now() - before) * 1000
    const cpu = process.threadCpuUsage(cpuBefore)
    const interrupted = process.resourceUsage().involuntaryContextSwitches > switchesBefore
    if ('refusal' in admitted) throw new Error(`refused: ${admitted.refusal.detail}`)
    this.#now += 5
    this.#state.firstToken(admitted.key, { ttft: 200 }, this.#now)
    return {
      admitUs,
      interrupted,
      cpuUs: cpu.user + cpu.system,
      releaseUs: this.#release(admitted.key, ends, admission.promptTokens),
    }
  }

  #release(key: string, ends: boolean, promptTokens: number): number {
    if (!ends) this.#running.push(key)
    const ending = ends ? key : this.#running.length > RUNNING ? this.#running.shift()! : null
    if (ending === null) return 0
    const outcome = readOutcome({
      result: 'complete',
      status: 200,
      usage: { promptTokens, completionTokens: 100, cachedTokens: null },
      outputEvents: 100,
    })
    const before = performance.now()
    this.#state.release(ending, outcome, this.#now)
    return (performance.now() - before) * 1000
  }
}

/** Median of the hundred consecutive admits that were disturbed least, as an estimate for an idle core. */
function quietest(inOrder: Float64Array): number {
  let min = Infinity
  for (let from = 0; from + 100 <= inOrder.length; from += 100)
    min = Math.min(min, at(inOrder.slice(from, from + 100).sort(), 0.5))
  return min
}

const at = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!
const round = (value: number): number => Math.round(value * 10) / 10
