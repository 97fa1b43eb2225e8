import { expect, it } from 'vitest'
import { EngineTime, type ChargedWork } from '../../../src/core/cost/engine-time.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'

const prefill = (seconds: number, changes: object = {}) => ({ newTokens: 4_000, seconds, streams: true, ...changes })
const decode = { sequences: 1, blocks: 10 }

function engineTime(): EngineTime {
  const opened = new EngineTime()
  opened.setPace({ baseS: 0.01, perRequestS: 0.001, perBlockS: 0.0001 }, 0)
  return opened
}

it('a request alone on an engine costs the time from its start to its end', () => {
  const engine = engineTime()
  const work = engine.prefill(prefill(1), decode, 1_000)
  engine.firstToken(work, 2_500)
  engine.end(work, 4_000)
  expect(work.seconds).toBeCloseTo(3, 9)
})

it('prompts that wait cost nothing until the engine prefills them', () => {
  const engine = engineTime()
  const first = engine.prefill(prefill(1), decode, 0)
  const second = engine.prefill(prefill(1), decode, 0)
  const third = engine.prefill(prefill(1), decode, 0)
  engine.end(third, 500)
  engine.end(first, 1_000)
  engine.end(second, 2_000)
  expect([first, second, third].map(({ seconds }) => seconds)).toEqual([1, 1, 0])
})

it('prompts of one step share it by their work', () => {
  const engine = engineTime()
  const small = engine.prefill(prefill(0.1, { newTokens: 200 }), decode, 0)
  const large = engine.prefill(prefill(0.3, { newTokens: 600 }), decode, 0)
  engine.end(small, 400)
  engine.end(large, 400)
  expect([small.seconds, large.seconds]).toEqual([expect.closeTo(0.1, 9), expect.closeTo(0.3, 9)])
})

it('decode steps are shared, and a longer context pays for the memory that it reads', () => {
  const engine = engineTime()
  const short = engine.decode({ sequences: 1, blocks: 10 }, 0)
  const long = engine.decode({ sequences: 1, blocks: 310 }, 0)
  engine.end(short, 10_000)
  engine.end(long, 10_000)
  expect(short.seconds + long.seconds).toBeCloseTo(10, 9)
  // A step: 10 ms for both, 1 ms each, and 1 or 31 ms for the blocks.
  expect(short.seconds).toBeCloseTo((10 * 7) / 44, 9)
})

it('several answers of one request pay for as many places', () => {
  const engine = engineTime()
  const one = engine.decode({ sequences: 1, blocks: 0 }, 0)
  const three = engine.decode({ sequences: 3, blocks: 0 }, 0)
  engine.end(one, 4_000)
  engine.end(three, 4_000)
  expect([one.seconds, three.seconds]).toEqual([expect.closeTo(1, 9), expect.closeTo(3, 9)])
})

it('a stream that runs beside a prefill pays for its part of the longer steps only', () => {
  const engine = engineTime()
  const stream = engine.decode(decode, 0)
  engine.end(engine.prefill(prefill(2), decode, 0), 2_000)
  engine.end(stream, 2_000)
  expect(stream.seconds).toBeGreaterThan(0)
  expect(stream.seconds).toBeLessThan(0.1)
})

it('a prefill whose end is not visible ends after its predicted time', () => {
  const engine = engineTime()
  const whole = engine.prefill(prefill(1, { streams: false }), decode, 0)
  const stream = engine.decode(decode, 5_000)
  engine.end(stream, 6_000)
  engine.end(whole, 6_000)
  expect(stream.seconds).toBeCloseTo(0.5, 9)
  expect(whole.seconds).toBeCloseTo(5.5, 9)
})

it.each([1, 2, 3, 4, 5])('the costs of any requests add up to the time in which there were some (seed %i)', (seed) => {
  const random = chance(seed)
  const engine = engineTime()
  const running = new Set<ChargedWork>()
  let now = 0
  let busyMs = 0
  let sum = 0
  const end = (work: ChargedWork): void => {
    engine.end(work, now)
    running.delete(work)
    sum += work.seconds
  }
  for (let step = 0; step < 2_000; step++) {
    const passedMs = Math.floor(random() * 50)
    if (running.size > 0) busyMs += passedMs
    now += passedMs
    const chosen = [...running][Math.floor(random() * running.size)]
    const kind = random()
    if (kind < 0.3)
      running.add(engine.prefill(prefill(random(), { newTokens: random() * 3_000, streams: kind < 0.2 }), decode, now))
    else if (kind < 0.4)
      running.add(engine.decode({ sequences: 1 + Math.floor(random() * 3), blocks: random() * 50 }, now))
    else if (kind < 0.45) engine.setPace({ baseS: random(), perRequestS: random(), perBlockS: random() }, now)
    else if (chosen === undefined) continue
    else if (kind < 0.7) engine.firstToken(chosen, now)
    else end(chosen)
  }
  for (const work of running) end(work)
  expect(sum).toBeCloseTo(busyMs / 1000, 6)
})
