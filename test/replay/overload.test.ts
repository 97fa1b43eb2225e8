import { describe, expect, it } from 'vitest'
import { overloadOf, sustainableShare } from '../../packages/replay/src/replay/overload.ts'
import { Job } from '../../packages/replay/src/replay/job.ts'

/** A job a second. `ttftS` is the time to first token of the job sent in that second. */
function jobs(count: number, ttftS: (second: number) => number): Job[] {
  return Array.from({ length: count }, (_, second) => {
    const job = new Job(second, {
      atMs: second * 1000,
      promptTokens: 100,
      outputTokens: 10,
      blocks: new Uint32Array(0),
      session: null,
      chain: null,
      thinkMs: 0,
    })
    job.sentAt = second * 1000
    job.firstTokenAt = job.sentAt + ttftS(second) * 1000
    job.endedAt = job.firstTokenAt + 1
    return job
  })
}

describe('overloadOf', () => {
  it('overloadOf measures the growth of TTFT per second of the run', () => {
    const overload = overloadOf({ jobs: jobs(100, (second) => 1 + second * 0.2) })!
    expect(overload.slope).toBeCloseTo(0.2, 2)
    expect(overload.lateMs).toBeGreaterThan(overload.earlyMs)
    expect(sustainableShare(overload)).toBeCloseTo(0.8, 2)
  })

  it.each([
    ['is stable', jobs(100, () => 3)],
    ['swings', jobs(100, (second) => (Math.floor(second / 25) % 2 === 0 ? 1 : 9))],
    ['falls as caches fill', jobs(100, (second) => 10 - second / 20)],
    ['grows by less than 5 %', jobs(100, (second) => 0.1 + second * 0.01)],
    ['has too few samples', jobs(12, (second) => second)],
    ['is of no requests', []],
  ])('overloadOf returns null if TTFT %s', (_name, sent) => expect(overloadOf({ jobs: sent })).toBe(null))

  it('overloadOf leaves failed requests out', () => {
    const failed = jobs(100, (second) => second).map((job) => Object.assign(job, { endedAt: -1 }))
    expect(overloadOf({ jobs: failed })).toBe(null)
  })
})
