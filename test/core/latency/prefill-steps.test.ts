import { describe, expect, it } from 'vitest'
import { PrefillSteps, type BookedPrompt } from '../../../src/core/latency/prefill-steps.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'

/** Cost of a step of the engine. */
const FIXED_MS = 40
const TOKEN_MS = 0.3

const of = (newTokens: number, { isVisible = true, isBusy = true } = {}) => ({
  newTokens,
  pairs: newTokens * newTokens,
  isVisible,
  isBusy,
})
const stepMs = (tokens: number): number => FIXED_MS + TOKEN_MS * tokens
const ms = (steps: PrefillSteps, tokens: number, now: number): number => 1000 * steps.seconds(of(tokens), now)!

interface Arrival {
  readonly at: number
  readonly tokens: number
}

/** Engine that prefills in order of arrival, up to `limit` tokens in a step, and sends first tokens at its end. */
class Engine {
  readonly steps = new PrefillSteps()
  readonly #tokenMs: number
  readonly #limit: number
  now = 0

  constructor(tokenMs = TOKEN_MS, limit = 2048) {
    this.#tokenMs = tokenMs
    this.#limit = limit
  }

  stepMs(tokens: number): number {
    return FIXED_MS + this.#tokenMs * tokens
  }

  /** Prompts in order of arrival, from now. Returns their predicted and actual times to first token. */
  serve(arrivals: readonly Arrival[], isBusy = true): { readonly predictedMs: number; readonly actualMs: number }[] {
    const start = this.now
    const queue: { left: number; readonly booked: BookedPrompt; readonly at: number; readonly predictedMs: number }[] =
      []
    const served: { readonly predictedMs: number; readonly actualMs: number }[] = []
    let next = 0
    const addUntil = (until: number): void => {
      for (; next < arrivals.length && start + arrivals[next]!.at <= until; next++) {
        const { tokens, at } = arrivals[next]!
        const predictedMs = 1000 * (this.steps.seconds(of(tokens), start + at) ?? NaN)
        const booked = this.steps.add(of(tokens, { isBusy }), start + at)
        queue.push({ left: tokens, booked, at: start + at, predictedMs })
      }
    }
    while (next < arrivals.length || queue.length > 0) {
      if (queue.length === 0) this.now = Math.max(this.now, start + arrivals[next]!.at)
      addUntil(this.now)
      const known = queue.length
      let room = this.#limit
      for (const one of queue) {
        const taken = Math.min(room, one.left)
        one.left -= taken
        room -= taken
      }
      const endsAt = this.now + this.stepMs(this.#limit - room)
      addUntil(endsAt - 1)
      this.now = endsAt
      const done = queue.slice(0, known).filter(({ left }) => left === 0)
      queue.splice(0, done.length)
      for (const { booked, at, predictedMs } of done) {
        this.steps.firstToken(booked, this.now)
        served.push({ predictedMs, actualMs: this.now - at })
      }
    }
    this.now += 1000
    return served
  }

  together(sizes: readonly number[], isBusy = true): void {
    this.serve(
      sizes.map((tokens) => ({ at: 0, tokens })),
      isBusy,
    )
  }
}

const MIXED = [[100], [300, 100], [200], [500, 200, 300], [150, 50], [400], [100, 100, 100, 100], [800], [250, 350]]

function taught(): Engine {
  const engine = new Engine()
  for (let turn = 0; turn < 5; turn++) for (const group of MIXED) engine.together(group)
  return engine
}

describe('prefill steps of an engine', () => {
  it('prefill steps of an engine predict nothing before the first step, nor from steps of an idle engine', () => {
    const engine = new Engine()
    expect(engine.steps.seconds(of(100), 0)).toBeNull()
    engine.together([100, 200], false)
    expect(engine.steps.seconds(of(100), engine.now)).toBeNull()
    engine.together([100, 200])
    expect(engine.steps.seconds(of(100), engine.now)).not.toBeNull()
  })

  it('prefill steps of an engine learn the cost of a step from prompts that share it', () => {
    const { steps, now } = taught()
    for (const tokens of [100, 400, 1000]) {
      expect(ms(steps, tokens, now)).toBeGreaterThan(0.95 * stepMs(tokens))
      expect(ms(steps, tokens, now)).toBeLessThan(1.05 * stepMs(tokens))
    }
  })

  // One prompt at a time, two in a step, full steps with parts of prompts, steps of many prompts.
  it.each([
    { everyMs: 400, tokenMs: 0.3, limit: 2048 },
    { everyMs: 150, tokenMs: 0.3, limit: 2048 },
    { everyMs: 120, tokenMs: 0.15, limit: 512 },
    { everyMs: 10, tokenMs: 0.01, limit: 8192 },
  ])(
    'prefill steps of an engine predict within a sixth under a steady load of a prompt each $everyMs ms',
    ({ everyMs, tokenMs, limit }) => {
      const random = chance(5)
      const arrivals: Arrival[] = []
      for (let at = 0; arrivals.length < 400; at += everyMs * (0.6 + 0.8 * random()))
        arrivals.push({ at: Math.round(at), tokens: 100 + Math.floor(random() * 600) })
      const served = new Engine(tokenMs, limit).serve(arrivals).slice(100)
      const errors = served.map(({ predictedMs, actualMs }) => Math.abs(predictedMs - actualMs) / actualMs)
      expect(errors.sort((x, y) => x - y)[errors.length >> 1]).toBeLessThan(1 / 6)
    },
  )

  it('prefill steps of an engine make a prompt wait for the rest of the running step, and for all of its own', () => {
    const { steps, now } = taught()
    steps.add(of(1000), now)
    const close = (predicted: number, actual: number): void => {
      expect(predicted).toBeGreaterThan(0.9 * actual)
      expect(predicted).toBeLessThan(1.1 * actual)
    }
    close(ms(steps, 200, now + 100), stepMs(1000) - 100 + stepMs(200))
    steps.add(of(300), now + 100)
    close(ms(steps, 200, now + 100), stepMs(1000) - 100 + stepMs(500))
    // A long prompt has a step of its own.
    close(ms(steps, 2000, now + 100), stepMs(1000) - 100 + stepMs(300) + stepMs(2000))
    // An overdue step may end at once.
    close(ms(steps, 200, now + 5000), stepMs(500))
  })

  it('prefill steps of an engine let prompts join a step that began on an empty queue just before', () => {
    const { steps, now } = taught()
    steps.add(of(300), now)
    expect(ms(steps, 300, now + 4)).toBeLessThan(1.1 * stepMs(600))
    expect(ms(steps, 300, now + 40)).toBeGreaterThan(stepMs(300) - 40 + 0.9 * stepMs(300))
  })

  it('prefill steps of an engine learn that an engine takes more tokens in a step', () => {
    const engine = new Engine(0.01, 8192)
    for (let turn = 0; turn < 10; turn++) for (const group of MIXED) engine.together(group)
    const rounds = [0, 1, 2, 3].flatMap((round) => Array.from({ length: 5 }, () => ({ at: 15 * round, tokens: 1200 })))
    for (let turn = 0; turn < 4; turn++) engine.serve(rounds)
    const { steps, now } = engine
    steps.add(of(1000), now)
    for (const _ of [1, 2, 3, 4]) steps.add(of(1200), now + 20)
    const actual = engine.stepMs(1000) - 20 + engine.stepMs(6000)
    expect(ms(steps, 1200, now + 20)).toBeGreaterThan(0.9 * actual)
    expect(ms(steps, 1200, now + 20)).toBeLessThan(1.1 * actual)
  })

  it('prefill steps of an engine learn from full steps in the mean, because they hold parts of other prompts', () => {
    const engine = taught()
    for (let turn = 0; turn < 30; turn++) engine.together([1500, 1500, 1500, 1500])
    expect(ms(engine.steps, 1500, engine.now)).toBeLessThan(1.1 * stepMs(1500))
  })

  it('prefill steps of an engine keep prompts whose first token does not come with the others, and learn from the others alone', () => {
    const { steps, now } = taught()
    const [one] = [steps.add(of(500), now), steps.add(of(1500), now)]
    const idleMs = ms(steps, 200, now + 100_000)
    steps.firstToken(one!, now + stepMs(500))
    const later = now + stepMs(500) + 50
    expect(ms(steps, 200, later)).toBeGreaterThan(0.9 * (stepMs(1500) - 50 + stepMs(200)))
    expect(ms(steps, 200, now + 100_000)).toBeCloseTo(idleMs)
  })

  it('prefill steps of an engine forget prompts that end without a first token', () => {
    const { steps, now } = taught()
    const idleMs = ms(steps, 200, now)
    const booked = [1000, 400, 1900].map((tokens, at) => steps.add(of(tokens), now + 20 * at))
    expect(ms(steps, 200, now + 50)).toBeGreaterThan(4 * idleMs)
    for (const one of booked) steps.abandon(one, now + 60)
    expect(ms(steps, 200, now + 60)).toBeCloseTo(idleMs)
  })

  it('prefill steps of an engine end steps whose first tokens are not visible when their time has passed', () => {
    const { steps, now } = taught()
    const idleMs = ms(steps, 200, now)
    const silent = { isVisible: false }
    const booked = [steps.add(of(1000, silent), now), steps.add(of(500, silent), now + 20)]
    expect(ms(steps, 200, now + 20)).toBeGreaterThan(stepMs(1000))
    expect(ms(steps, 200, now + 2 * stepMs(1500))).toBeCloseTo(idleMs)
    for (const one of booked) steps.abandon(one, now + 5000)
    expect(ms(steps, 200, now + 5000)).toBeCloseTo(idleMs)
  })

  it('prefill steps of an engine hold nothing after all prompts have ended, in any order, and always predict a time', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = chance(seed)
      const { steps, now: start } = taught()
      const idle = new PrefillSteps()
      let now = start
      const booked: BookedPrompt[] = []
      for (let turn = 0; turn < 120; turn++) {
        now += Math.floor(random() ** 3 * 60)
        const isVisible = random() < 0.8
        if (random() < 0.5)
          booked.push(steps.add(of(1 + Math.floor(random() ** 2 * 6000), { isVisible, isBusy: random() < 0.7 }), now))
        else if (booked.length > 0) {
          const at = random() < 0.7 ? 0 : Math.floor(random() * booked.length)
          const [one] = booked.splice(at, 1)
          if (random() < 0.8) steps.firstToken(one!, now)
          else steps.abandon(one!, now)
        }
        const predicted = steps.seconds(of(300), now)
        expect(predicted).toBeGreaterThan(0)
        expect(predicted).toBeLessThan(1e5)
      }
      for (const one of booked) steps.abandon(one, now)
      now += 1000
      const empty = steps.seconds(of(300), now)!
      const running = steps.add(of(300), now)
      // Only its own prompt: a further one waits for it, and then for itself.
      expect(steps.seconds(of(300), now + 11)).toBeCloseTo(Math.max(0, empty - 0.011) + empty, 5)
      steps.abandon(running, now + 11)
      expect(steps.seconds(of(300), now + 11)).toBeCloseTo(empty, 5)
      expect(idle.seconds(of(1), now)).toBeNull()
    }
  })
})
