/**
 * What a booking made elsewhere costs: CPU of `resume`, `firstToken` and `release` in ledgers that receive its events,
 * beside that of
 * `admit`, `firstToken` and `release` in those that chose. Both have a full index and see the same requests in the
 * same order.
 */
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import { readOutcome } from '../../../src/core/contract/decode.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { admissionOf, BLOCK_TOKENS, Conversations, poolOf } from '../conversations.ts'
import type { BenchRow } from '../result.ts'

const INDEX_ENTRIES = 1_000_000
/** One set of books does so many, then the other. */
const BATCH = 50
const BATCHES = 60
const WARM_BATCHES = 20
const REPLICAS = [1, 2, 4, 8]
/** Requests from the choice to the first token, and to the end. */
const PREFILLING = 4
const RUNNING = 8

export function costRows(note: (line: string) => void): BenchRow[] {
  const rows: BenchRow[] = []
  for (const engines of [4, 64]) {
    for (const promptTokens of [1000, 25_000, 100_000]) {
      note(`${engines} engines, ${promptTokens} tokens …`)
      rows.push(costRow(engines, promptTokens))
    }
  }
  return rows
}

interface SampleBooking {
  readonly admission: Admission
  readonly placement: Placement
  readonly key: string
}

function costRow(engines: number, promptTokens: number): BenchRow {
  const [own, other] = [new BenchReplica(engines), new BenchReplica(engines)]
  const talks = new Conversations(Math.ceil(promptTokens / BLOCK_TOKENS), INDEX_ENTRIES)
  const step = (): { readonly ownUs: number; readonly otherUs: number } => {
    const requests = Array.from({ length: BATCH }, () => ({ ...admissionOf(talks.next()), streams: true }))
    const made: SampleBooking[] = []
    const ownUs = cpuUs(() => own.serve(requests, (admission, now) => made.push(own.admit(admission, now))))
    const otherUs = cpuUs(() =>
      other.serve(
        made.map(({ admission }) => admission),
        (_, now, at) => other.receive(made[at]!, now),
      ),
    )
    return { ownUs: ownUs / BATCH, otherUs: otherUs / BATCH }
  }
  own.configure('round_robin')
  other.configure('round_robin')
  while (own.entries < INDEX_ENTRIES * 0.97) step()
  own.configure('predicted')
  other.configure('predicted')
  for (let batch = 0; batch < WARM_BATCHES; batch++) step()
  const measured = Array.from({ length: BATCHES }, step)
  // The system counts a thread's time in ticks, so only the sum of many batches means anything.
  const mean = (pick: (one: (typeof measured)[number]) => number) =>
    measured.reduce((sum, one) => sum + pick(one), 0) / BATCHES
  const [ownUs, otherUs] = [mean((one) => one.ownUs), mean((one) => one.otherUs)]
  return {
    engines,
    prompt_tokens: promptTokens,
    index_entries: other.entries,
    own_cpu_us: rounded(ownUs),
    elsewhere_cpu_us: rounded(otherUs),
    ratio: Number((otherUs / ownUs).toFixed(2)),
    // Ledgers alone, with all cores busy: each replica makes its part of the choices and receives those of all others.
    ...Object.fromEntries(
      REPLICAS.map((count) => [
        `requests_per_s_by_${count}`,
        Math.round(1e6 / (ownUs / count + (otherUs * (count - 1)) / count)),
      ]),
    ),
  }
}

class BenchReplica {
  readonly #engines: number
  readonly #state = new PoolState({ random: chance(1), epoch: 'bench' })
  #version = 0
  #now = 0

  constructor(engines: number) {
    this.#engines = engines
  }

  get entries(): number {
    return this.#state.indexSize.entries
  }

  configure(policy: string): void {
    this.#version += 1
    this.#state.configure(this.#version, poolOf(this.#engines, INDEX_ENTRIES, policy), this.#now)
  }

  admit(admission: Admission, now: number): SampleBooking {
    const admitted = this.#state.admit(admission, now)
    if ('refusal' in admitted) throw new Error(`refused: ${admitted.refusal.detail}`)
    return { admission, placement: admitted.placement, key: admitted.key }
  }

  receive({ admission, placement }: SampleBooking, now: number): void {
    const held = this.#state.resume(
      { admission, placement, firstTokenSeen: false, outputBlocks: 0, ofPeer: 'now' },
      now,
    )
    if ('refusal' in held) throw new Error(`refused: ${held.refusal.detail}`)
  }

  /** Requests 20 ms apart, each with a first token and an end while later ones come. */
  serve(requests: readonly Admission[], admit: (admission: Admission, now: number, at: number) => void): void {
    for (let at = 0; at < requests.length + RUNNING; at++) {
      this.#now += 20
      const [begins, answers, ends] = [requests[at], requests[at - PREFILLING], requests[at - RUNNING]]
      if (begins !== undefined) admit(begins, this.#now, at)
      if (answers !== undefined) this.#state.firstToken(bookingKey(answers), { ttft: 20 * PREFILLING }, this.#now)
      if (ends !== undefined) this.#state.release(bookingKey(ends), outcomeOf(ends), this.#now)
    }
    if (this.#state.bookings > 0) throw new Error('bookings are left')
  }
}

function outcomeOf({ promptTokens }: Admission): Outcome {
  return readOutcome({
    result: 'complete',
    status: 200,
    usage: { promptTokens, completionTokens: 100, cachedTokens: null },
    outputEvents: 100,
    stages: { ttft: 20 * PREFILLING },
  })
}

function cpuUs(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return user + system
}

const rounded = (value: number): number => Math.round(value * 10) / 10
