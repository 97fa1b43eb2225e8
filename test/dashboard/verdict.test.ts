import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Concern } from '../../src/dashboard/concerns.ts'
import { verdictOf } from '../../src/dashboard/verdict.ts'
import type { EngineLine } from '../../src/dashboard/engine-state.ts'
import type { Figures, View } from '../../src/dashboard/wire.ts'

const up = [{ state: 'up' }] as unknown as EngineLine[]
const concern = (tone: Concern['tone']) => ({ tone }) as Concern
const view = (now: Partial<Figures>, ttftMs: number | null = null) =>
  ({ now, pools: [{ slo: ttftMs === null ? null : { ttft_ms: ttftMs } }] }) as unknown as View

describe('the first line', () => {
  it('the first line reports a healthy fleet only without any finding', () => {
    expect(verdictOf(view({ requests_per_s: 3 }), up, [])).toEqual({
      tone: 'good',
      headline: 'The fleet is healthy',
      more: ['nothing needs attention'],
      help: null,
    })
    expect(verdictOf(view({}), up, []).more).toEqual(['nothing needs attention, and there is no traffic'])
    expect(verdictOf(view({ failed_share: 0.004 }), up, []).tone).toBe('good')
  })

  it.each([
    [view({}), [{ state: 'unhealthy' }], [], 'bad', 'No engine can take requests'],
    [view({}), up, [concern('bad'), concern('bad')], 'bad', '2 problems'],
    [view({ failed_share: 0.02 }), up, [], 'bad', '2% of requests fail'],
    [view({ ttft_p95_ms: 900 }, 500), up, [], 'warn', 'TTFT p95 of 900 ms is above the objective of 500 ms'],
    [view({ rejected_per_s: 1.5 }), up, [], 'warn', '1.5 requests/s are rejected'],
    [view({ rejected_per_s: 1, requests_per_s: 99 }), up, [], 'warn', '1 requests/s are rejected (1%)'],
    [view({ rejected_per_s: 5, requests_per_s: 95 }), up, [], 'bad', '5 requests/s are rejected (5%)'],
    [view({ rejected_per_s: 5, requests_per_s: 0 }), up, [], 'bad', '5 requests/s are rejected (100%)'],
    [view({}), up, [concern('warn')], 'warn', '1 warning'],
    [view({}), [], [], 'warn', 'No engine is configured'],
  ] as const)('the first line names a finding (%#)', (seen, lines, concerns, tone, headline) => {
    expect(verdictOf(seen, lines as unknown as EngineLine[], concerns)).toMatchObject({ tone, headline })
  })

  it('the first line begins with the most severe finding, and names the others', () => {
    const slow = view({ ttft_p95_ms: 900, rejected_per_s: 2 }, 500)
    expect(verdictOf(slow, up, [concern('warn'), concern('bad')])).toEqual({
      tone: 'bad',
      headline: '1 problem',
      more: ['TTFT p95 of 900 ms is above the objective of 500 ms', '2 requests/s are rejected', '1 warning'],
      help: null,
    })
  })

  it('the first line links a finding about traffic to its section of the runbook', () => {
    const runbook = readFileSync(new URL('../../src/dashboard/runbook.html', import.meta.url), 'utf8')
    const findings = [view({ failed_share: 0.02 }), view({ ttft_p95_ms: 900 }, 500), view({ rejected_per_s: 2 })]
    const sections = [...findings.map((seen) => verdictOf(seen, up, []).help), verdictOf(view({}), [], []).help]
    expect(sections).toEqual(['failed', 'slow', 'rejected', 'no-engine'])
    for (const section of sections) expect(runbook).toContain(`<h2 id="${section}">`)
  })
})
