import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EngineModel } from '../../packages/simulator/src/engine-model.ts'
import type { EngineLimits } from '../../packages/simulator/src/profiles.ts'
import type { Sequence, SequenceSpec } from '../../packages/simulator/src/sequence.ts'
import { idleTtftMs, type StepCostModel } from '../../packages/simulator/src/step-cost.ts'

const costModel: StepCostModel = {
  stepMs: 5,
  prefillStepMs: 7,
  prefillTokenMs: 0.25,
  prefillPairMs: 1e-4,
  decodeSequenceMs: 0.5,
  decodeContextTokenMs: 0.01,
  encodeItemMs: 40,
  transferMs: 3,
  transferTokenMs: 0.01,
}
const limits: EngineLimits = {
  blockTokens: 16,
  cacheBlocks: 256,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 64,
  maxModelLen: 4096,
}

/** Keys that two prompts share for their first `shared` blocks. */
function keys(tokens: number, family: number, own: number, shared: number): Uint32Array {
  const count = Math.floor(tokens / limits.blockTokens)
  const blocks = new Uint32Array(count * 2)
  for (let at = 0; at < count; at += 1) {
    blocks[at * 2] = at
    blocks[at * 2 + 1] = at < shared ? family : 1000 + own
  }
  return blocks
}

const spec = (promptTokens: number, outputTokens: number, own = 1, more: Partial<SequenceSpec> = {}): SequenceSpec => ({
  promptTokens,
  outputTokens,
  blocks: keys(promptTokens + outputTokens, 1, own, 0),
  ...more,
})

/** Runs until no work is left. Returns the time of the last event. */
function drain(model: EngineModel): number {
  let at = 0
  for (let next = model.nextEventAt(); next < Infinity; next = model.nextEventAt()) {
    at = next
    model.advance(next)
  }
  return at
}

interface Arrival {
  readonly afterMs: number
  readonly prompt: number
  readonly output: number
  readonly family: number
  readonly shared: number
  /** Abort this long after the arrival; null: no abort. */
  readonly abortMs: number | null
  readonly remote: boolean
  readonly hold: boolean
}

const arrival: fc.Arbitrary<Arrival> = fc.record({
  afterMs: fc.integer({ min: 0, max: 60 }),
  prompt: fc.integer({ min: 1, max: 200 }),
  output: fc.integer({ min: 1, max: 40 }),
  family: fc.integer({ min: 1, max: 3 }),
  shared: fc.integer({ min: 0, max: 8 }),
  abortMs: fc.option(fc.integer({ min: 0, max: 200 }), { freq: 3 }),
  remote: fc.boolean(),
  hold: fc.boolean(),
})

/** Every reference to a block belongs to a live sequence, and a block is free if and only if it has no reference. */
function checkBlocks(model: EngineModel, sequences: readonly Sequence[]): void {
  const refs = new Int32Array(model.pool.size)
  for (const sequence of sequences) for (let at = 0; at < sequence.tableLength; at += 1) refs[sequence.table[at]!]! += 1
  const wrong = Array.from(refs.keys()).filter((block) => model.pool.references(block) !== refs[block])
  if (wrong.length > 0) expect.fail(`blocks ${wrong.join()} have other references than the sequences that list them`)
  expect(model.pool.freeCount).toBe(refs.filter((count) => count === 0).length)
}

describe('EngineModel under any load', () => {
  it('EngineModel under any load conserves blocks, keeps to its limits and ends every request exactly once', () => {
    fc.assert(
      fc.property(fc.array(arrival, { maxLength: 40 }), fc.integer({ min: 16, max: 64 }), (arrivals, cacheBlocks) => {
        const ends = new Map<Sequence, number>()
        const model = new EngineModel(
          { costModel, limits: { ...limits, cacheBlocks }, holdLeaseMs: 50 },
          {
            ended: (sequence) => ends.set(sequence, (ends.get(sequence) ?? 0) + 1),
            step: (tokens) => expect(tokens).toBeLessThanOrEqual(limits.maxNumBatchedTokens),
          },
        )
        const sequences: Sequence[] = []
        const aborts: { at: number; sequence: Sequence }[] = []
        const runTo = (now: number): void => {
          for (let next = model.nextEventAt(); next <= now && next < Infinity; next = model.nextEventAt()) {
            model.advance(next)
            expect(model.running).toBeLessThanOrEqual(limits.maxNumSeqs)
            checkBlocks(model, sequences)
          }
        }
        let now = 0
        for (const [own, each] of arrivals.entries()) {
          now += each.afterMs
          for (const due of aborts.filter(({ at }) => at <= now)) model.abort(due.sequence, now)
          runTo(now)
          const blocks = keys(each.prompt + each.output, each.family, own, each.shared)
          const submitted = model.submit(
            { promptTokens: each.prompt, outputTokens: each.output, blocks, remote: each.remote, hold: each.hold },
            now,
          )
          sequences.push(submitted)
          if (each.abortMs !== null) aborts.push({ at: now + each.abortMs, sequence: submitted })
        }
        runTo(Infinity)
        expect(ends.size).toBe(sequences.length)
        for (const sequence of sequences) {
          expect(ends.get(sequence)).toBe(1)
          expect(sequence.ended).toBe(true)
          if (sequence.state === 'complete') expect(sequence.outputs).toBe(sequence.spec.outputTokens)
        }
        expect([model.running, model.waiting, model.held, model.usage]).toEqual([0, 0, 0, 0])
        const { submitted, completed, aborted } = model.counters
        expect(completed + aborted).toBe(submitted)
      }),
      { numRuns: 150 },
    )
  })

  it('EngineModel under any load serves prompts of equal length first come, first served', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 2, maxLength: 20 }), (gaps) => {
        const model = new EngineModel({ costModel, limits })
        let now = 0
        const sequences = gaps.map((gap, own) => {
          now += gap
          return model.submit(spec(150, 3, own), now)
        })
        drain(model)
        for (let at = 1; at < sequences.length; at += 1) {
          expect(sequences[at]!.scheduledAt).toBeGreaterThanOrEqual(sequences[at - 1]!.scheduledAt)
          expect(sequences[at]!.firstTokenAt).toBeGreaterThanOrEqual(sequences[at - 1]!.firstTokenAt)
        }
      }),
    )
  })

  it('EngineModel under any load has the same results whether the host is on time or late', () => {
    fc.assert(
      fc.property(
        fc.array(arrival, { minLength: 1, maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1 }),
        (arrivals, waits) => {
          const run = (late: boolean): number[] => {
            const model = new EngineModel({ costModel, limits })
            let now = 0
            const sequences = arrivals.map((each, own) => {
              now += each.afterMs
              return model.submit(spec(each.prompt, each.output, own), now)
            })
            if (late)
              for (let at = 0; model.nextEventAt() < Infinity; at += 1)
                model.advance((now += waits[at % waits.length]!))
            else drain(model)
            return sequences.map(({ endedAt }) => endedAt)
          }
          expect(run(true)).toEqual(run(false))
        },
      ),
    )
  })
})

describe('step time', () => {
  it('step time follows the measured cost model on an idle engine: fixed + a*new + b*(total² − cached²)/2', () => {
    const one = { ...limits, maxNumBatchedTokens: 2048 }
    const model = new EngineModel({ costModel, limits: one })
    const cold = model.submit(spec(1000, 1), 0)
    const end = drain(model)
    expect(cold.firstTokenAt).toBeCloseTo(5 + 7 + 0.25 * 1000 + (1e-4 * 1000 ** 2) / 2, 9)
    const warm = model.submit(spec(1200, 1), end)
    drain(model)
    expect(warm.cachedTokens).toBe(992)
    expect(warm.firstTokenAt - end).toBeCloseTo(5 + 7 + 0.25 * 208 + (1e-4 * (1200 ** 2 - 992 ** 2)) / 2, 9)
  })

  it('step time agrees with idleTtftMs for any prompt, cached part and budget', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 900 }),
        fc.integer({ min: 0, max: 900 }),
        fc.integer({ min: 16, max: 300 }),
        (first, more, budget) => {
          const model = new EngineModel({ costModel, limits: { ...limits, maxNumBatchedTokens: budget } })
          model.submit(spec(first, 1), 0)
          const end = drain(model)
          const sequence = model.submit(spec(first + more, 1), end)
          drain(model)
          const expected = idleTtftMs(costModel, first + more, sequence.cachedTokens, budget)
          expect(sequence.firstTokenAt - end).toBeCloseTo(expected, 6)
        },
      ),
    )
  })

  it('step time adds up the queue: a prompt waits for all earlier prefills', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, maxNumBatchedTokens: 2048, cacheBlocks: 1024 } })
    const ahead = [model.submit(spec(2048, 1, 1), 0), model.submit(spec(2048, 1, 2), 0)]
    const last = model.submit(spec(1024, 1, 3), 10)
    drain(model)
    const own = (tokens: number): number => idleTtftMs(costModel, tokens, 0, 2048)
    expect(ahead.map(({ firstTokenAt }) => firstTokenAt)).toEqual([own(2048), 2 * own(2048)])
    expect(last.firstTokenAt).toBeCloseTo(2 * own(2048) + own(1024), 9)
    expect(last.scheduledAt).toBeCloseTo(2 * own(2048), 9)
  })

  it('step time grows with batch and context while decoding', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, maxNumBatchedTokens: 2048 } })
    const [one, two] = [model.submit(spec(32, 3, 1), 0), model.submit(spec(64, 3, 2), 0)]
    drain(model)
    expect(one.firstTokenAt).toBe(two.firstTokenAt)
    const second = 5 + 2 * 0.5 + 0.01 * (33 + 65)
    const third = 5 + 2 * 0.5 + 0.01 * (34 + 66)
    expect(one.lastTokenAt - one.firstTokenAt).toBeCloseTo(second + third, 9)
    expect(one.longestGapMs).toBeCloseTo(third, 9)
  })
})

describe('memory', () => {
  it('an engine computes the last token of a full hit: of 1024 cached tokens, 1008 are hits', () => {
    const model = new EngineModel({ costModel, limits })
    model.submit(spec(1024, 1), 0)
    const again = model.submit(spec(1024, 1), drain(model))
    drain(model)
    expect(again.cachedTokens).toBe(1008)
  })

  it('an engine evicts the tail of the oldest sequence first', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, cacheBlocks: 20 } })
    model.submit(spec(160, 1, 1), 0)
    model.submit(spec(128, 1, 2), drain(model))
    // The two use 10 and 8 of 20 blocks. The third needs 7: the two empty ones, then the last five of the first.
    model.submit(spec(112, 1, 3), drain(model))
    const again = model.submit(spec(160, 1, 1), drain(model))
    drain(model)
    expect(again.cachedTokens).toBe(80)
  })

  it('an engine preempts the youngest when blocks run out, and still finishes it', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, cacheBlocks: 8, maxNumBatchedTokens: 256 } })
    const old = model.submit(spec(48, 60, 1), 0)
    const young = model.submit(spec(48, 60, 2), 0)
    drain(model)
    expect(old.preemptions).toBe(0)
    expect(young.preemptions).toBeGreaterThan(0)
    expect([old.outputs, young.outputs]).toEqual([60, 60])
  })

  it('an engine admits a prompt only if all of it fits, not only its first chunk', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, cacheBlocks: 12 } })
    const first = model.submit(spec(80, 20, 1), 0)
    const second = model.submit(spec(160, 1, 2), 0)
    drain(model)
    expect(second.scheduledAt).toBeGreaterThanOrEqual(first.endedAt)
  })

  it('an engine rejects a prompt larger than the empty cache', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, cacheBlocks: 4 } })
    expect(() => model.submit(spec(60, 10), 0)).toThrow('needs 5 blocks, the cache has 4')
  })

  it('an engine resets its cache only while idle', () => {
    const model = new EngineModel({ costModel, limits })
    model.submit(spec(64, 5), 0)
    model.advance(0)
    expect(model.resetCache()).toBe(false)
    drain(model)
    expect(model.pool.namedCount).toBeGreaterThan(0)
    expect(model.resetCache()).toBe(true)
    expect(model.pool.namedCount).toBe(0)
  })
})

describe('remote prefill', () => {
  it('remote prefill fetches the prompt in transfer time instead of computing it', () => {
    const model = new EngineModel({ costModel, limits })
    const sequence = model.submit(spec(500, 2, 1, { remote: true }), 0)
    drain(model)
    expect(sequence.fetchedTokens).toBe(500)
    // Then one step of one token returns the first output.
    expect(sequence.firstTokenAt).toBeCloseTo(3 + 0.01 * 500 + 5 + 0.5 + 0.01 * 500, 9)
  })

  it('remote prefill admits a fetched prompt before one that does not fit, which avoids a deadlock', () => {
    const model = new EngineModel({ costModel, limits: { ...limits, cacheBlocks: 20 } })
    const long = model.submit(spec(191, 3, 1), 0)
    const fetched = model.submit(spec(113, 1, 2, { remote: true }), 57)
    drain(model)
    expect([long.state, fetched.state]).toEqual(['complete', 'complete'])
    expect(long.preemptions).toBe(1)
  })

  it('remote prefill keeps the blocks of a finished prefill until they are read', () => {
    const model = new EngineModel({ costModel, limits, holdLeaseMs: 1000 })
    const sequence = model.submit(spec(160, 1, 1, { hold: true }), 0)
    model.advance(200)
    expect(sequence.state).toBe('complete')
    expect(model.usage).toBeGreaterThan(0)
    expect(model.readByRemote(sequence, 200)).toBe(true)
    expect(model.usage).toBe(0)
    expect(model.readByRemote(sequence, 201)).toBe(false)
  })

  it('remote prefill frees blocks that are not read within the lease', () => {
    const model = new EngineModel({ costModel, limits, holdLeaseMs: 1000 })
    const sequence = model.submit(spec(160, 1, 1, { hold: true }), 0)
    model.advance(5000)
    expect(model.usage).toBe(0)
    expect(model.counters.lapsedHolds).toBe(1)
    expect(model.readByRemote(sequence, 5000)).toBe(false)
  })
})

describe('pausing', () => {
  it('a paused engine starts no step until it is resumed, and keeps all requests', () => {
    const model = new EngineModel({ costModel, limits })
    model.pause()
    const sequence = model.submit(spec(32, 2), 0)
    expect(model.nextEventAt()).toBe(Infinity)
    model.advance(10_000)
    expect(sequence.state).toBe('waiting')
    model.resume(10_000)
    drain(model)
    expect(sequence.state).toBe('complete')
    expect(sequence.scheduledAt).toBe(10_000)
  })

  it('a paused engine accepts a request from inside a listener', () => {
    const ends: Sequence[] = []
    const model: EngineModel = new EngineModel(
      { costModel, limits },
      {
        ended: (sequence, at) =>
          ends.push(sequence) < 3 ? void model.submit(spec(32, 1, ends.length), at) : undefined,
      },
    )
    model.submit(spec(32, 1), 0)
    drain(model)
    expect(ends).toHaveLength(3)
    expect(model.running + model.waiting).toBe(0)
  })
})
