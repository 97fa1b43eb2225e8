import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { descend } from '../../packages/replay/src/calibrate/descend.ts'
import { costModelFromTotals, type Totals } from '../../packages/replay/src/calibrate/from-metrics.ts'
import { traceOf } from '../../packages/replay/src/calibrate/measured.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { chance } from '../../packages/replay/src/replay/chance.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { routerNamed } from '../../packages/replay/src/replay/routers.ts'
import { firstlight } from '../cli/run-cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'calibrate-'))
afterAll(() => rmSync(folder, { recursive: true }))
const at = (name: string): string => join(folder, name)

/** A recording of an engine whose cost model is known, in the format of a real one. */
function recorded(): string {
  const random = chance(4)
  let queuedAt = 100
  const requests = Array.from({ length: 80 }, () => ({
    promptTokens: 50 + Math.floor(random() * 3000),
    outputTokens: 5 + Math.floor(random() * 80),
    queuedAt: (queuedAt += random() * 0.4),
    firstTokenAt: queuedAt,
    lastTokenAt: queuedAt,
  }))
  const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const { jobs } = replay(
    traceOf('t', requests, 16),
    fleetOf(1, { kind: 'vllm', profile: profileNamed('demo') }),
    routerNamed('fewest_requests'),
    pace,
  )
  return jobs
    .map((job, index) => {
      const start = requests[index]!.queuedAt - job.sentAt / 1000
      return JSON.stringify({
        input_toks: job.promptTokens,
        output_toks: job.outputTokens,
        queued_ts: requests[index]!.queuedAt,
        first_token_ts: start + job.firstTokenAt / 1000,
        last_token_ts: start + job.endedAt / 1000,
      })
    })
    .join('\n')
}

describe('firstlight calibrate', () => {
  it('firstlight calibrate finds a profile that predicts the unseen half of a run, and replay accepts it', async () => {
    writeFileSync(at('run.jsonl'), recorded())
    const { code, out } = await firstlight(
      'calibrate',
      '--requests',
      at('run.jsonl'),
      '--evaluations',
      '150',
      '--max-num-seqs',
      '64',
      '--cache-tokens',
      '32768',
      '--json',
      at('mine.json'),
    )
    expect(code).toBe(0)
    expect(out).toContain('scored on the other 40')
    const { score } = JSON.parse(readFileSync(at('mine.json'), 'utf8')) as { score: Record<string, { error: number }> }
    for (const figure of ['ttftP50Ms', 'ttftP90Ms', 'outputTokensPerS'])
      expect(Math.abs(score[figure]!.error)).toBeLessThan(0.1)
    writeFileSync(
      at('trace.jsonl'),
      JSON.stringify({ timestamp: 0, input_length: 100, output_length: 5, hash_ids: [1] }),
    )
    expect(
      (
        await firstlight(
          'replay',
          '--trace',
          at('trace.jsonl'),
          '--profile',
          at('mine.json'),
          '--policies',
          'predicted',
        )
      ).code,
    ).toBe(0)
  })

  it('firstlight calibrate reads a law off the metrics of an engine at work', async () => {
    const fleet = await startFleet({ engines: 1, profile: 'test', model: 'sim' })
    const url = fleet.urls[0]!
    const enough = new AbortController()
    const work = async (size: number) => {
      while (!enough.signal.aborted) {
        const body = JSON.stringify({
          model: 'sim',
          prompt: Array.from({ length: 50 + Math.floor(size * Math.random()) }, () =>
            Math.floor(Math.random() * 30_000),
          ),
          max_tokens: 12,
          stream: true,
          ignore_eos: true,
        })
        await (
          await fetch(`${url}/v1/completions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body,
          })
        ).text()
      }
    }
    const loads = [work(300), work(900)]
    try {
      const { code, out, err } = await firstlight(
        'calibrate',
        '--metrics',
        `${url}/metrics`,
        '--seconds',
        '2',
        '--interval-ms',
        '100',
        '--json',
        at('seen.json'),
      )
      expect(err).toBe('')
      expect(code).toBe(0)
      expect(out).toContain('prefillTokenMs')
      const { profile } = JSON.parse(readFileSync(at('seen.json'), 'utf8')) as {
        profile: { costModel: Record<string, number> }
      }
      for (const value of Object.values(profile.costModel)) expect(value).toBeGreaterThanOrEqual(0)
      expect(
        profile.costModel['stepMs']! + profile.costModel['prefillTokenMs']! + profile.costModel['prefillStepMs']!,
      ).toBeGreaterThan(0)
    } finally {
      enough.abort()
      await Promise.all(loads)
      await fleet.close()
    }
  })

  it.each([
    [[], 'needs either --requests or --metrics'],
    [['--requests', 'nowhere'], 'There is no file nowhere'],
    [['--metrics', 'ftp://x'], '--metrics must be an http or https URL'],
    [['--metrics', 'http://127.0.0.1:9/metrics', '--seconds', '0.1'], 'is unreachable: '],
  ])('firstlight calibrate rejects %j', async (argv, message) => {
    const { code, err } = await firstlight('calibrate', ...argv)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  it('firstlight calibrate names the line of a measurement that is broken', async () => {
    writeFileSync(
      at('bad.jsonl'),
      '{"input_toks":5,"output_toks":1,"queued_ts":2,"first_token_ts":1,"last_token_ts":3}',
    )
    const { code, err } = await firstlight('calibrate', '--requests', at('bad.jsonl'))
    expect(code).toBe(2)
    expect(err).toContain(`--requests: line 1 of ${at('bad.jsonl')} has times out of order`)
  })
})

describe('a law from totals', () => {
  const stretch = (before: Totals, prefills: number, tokens: number, running: number): Totals => ({
    prefills: before.prefills + prefills,
    prefillTokens: before.prefillTokens + tokens,
    // 20 ms each and 0.1 ms per token.
    prefillS: before.prefillS + (prefills * 20 + tokens * 0.1) / 1000,
    gaps: before.gaps + 100,
    // 8 ms and 0.5 ms for each running request.
    gapS: before.gapS + (100 * (8 + 0.5 * (before.running + running) * 0.5)) / 1000,
    running,
  })

  it('a cost model from totals is the law the totals were made by', () => {
    const totals: Totals[] = [{ prefills: 3, prefillTokens: 900, prefillS: 1, gaps: 0, gapS: 0, running: 2 }]
    for (const [prefills, tokens, running] of [
      [2, 300, 4],
      [1, 2000, 6],
      [4, 1000, 2],
      [3, 90, 8],
      [1, 700, 4],
      [2, 4000, 10],
    ] as const)
      totals.push(stretch(totals.at(-1)!, prefills, tokens, running))
    const costModel = costModelFromTotals(totals)
    expect(costModel.prefillTokenMs).toBeCloseTo(0.1)
    expect(costModel.stepMs).toBeCloseTo(8)
    expect(costModel.decodeSequenceMs).toBeCloseTo(0.5)
    expect(costModel.stepMs + costModel.prefillStepMs).toBeCloseTo(20)
  })

  it('reports too little data', () => {
    expect(() =>
      costModelFromTotals([{ prefills: 0, prefillTokens: 0, prefillS: 0, gaps: 0, gapS: 0, running: 0 }]),
    ).toThrow('only 0 intervals')
  })
})

it('the search finds the minimum of a function', () => {
  const lowest = descend([4, -3, 2], ([x, y, z]) => (x! - 1) ** 2 + 3 * (y! + 2) ** 2 + (z! - x! * y!) ** 2, {
    evaluations: 800,
    step: 1,
  })
  expect(lowest[0]).toBeCloseTo(1, 1)
  expect(lowest[1]).toBeCloseTo(-2, 1)
  expect(lowest[2]).toBeCloseTo(-2, 1)
})
