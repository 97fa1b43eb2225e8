import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Engine, View } from '../../../src/dashboard/wire.ts'
import { type Frame, reportOf, screenOf } from '../../../src/cli/top/draw.ts'
import { figuresOf } from '../../../src/cli/top/figures.ts'
import { SORTS, sorted, type Selection } from '../../../src/cli/top/selection.ts'
import { Pace } from '../../../src/cli/top/pace.ts'
import { cellsOf } from '../../../src/cli/top/plain-text.ts'
import { encodeLine } from '../../../src/cli/top/spans.ts'
import { engineOf, poolOf, viewOf } from './views.ts'

const selection: Selection = { sort: 'state', reversed: false, only: '' }

function frameOf(view: View, more: Partial<Frame> = {}): Frame {
  return {
    figures: figuresOf(view, new Pace()),
    selection,
    url: 'http://gateway',
    skipped: 0,
    stale: null,
    ...more,
  }
}

const report = (frame: Frame, cells = Infinity) =>
  reportOf(frame, cells).map((line) => encodeLine(line, { cells, colours: false }))
const screen = (frame: Frame, rows: number, cells: number) =>
  screenOf(frame, { rows, cells }).lines.map((line) => encodeLine(line, { cells, colours: false }))
/** The line that starts with this word, split at runs of spaces. */
const line = (lines: readonly string[], word: string) => lines.find((text) => text.startsWith(word))!.split(/ {2,}/)
const many = (count: number) => Array.from({ length: count }, (_, index) => engineOf(`e${index}`))

describe('the fleet table', () => {
  it('the fleet table shows known values, and a dash for unknown ones', () => {
    const busy = engineOf('busy', {
      requests: 3,
      queued_prefill_tokens: 4096,
      queued_prefill_s: 0.25,
      hit_rate: 0.5,
      ttft_ms: 80,
      active_blocks: 12,
      cached_blocks: 200,
      failures_total: 4,
      requests_total: 90,
      recent_ttft_ms: [10, 20, 30, 40],
    })
    const lines = report(frameOf(viewOf([poolOf([busy, engineOf('idle')], { bookings: 3 })])))
    expect(line(lines, 'POOL')).toEqual([
      'POOL',
      'UP',
      'RUNNING',
      'REQ/S',
      'QUEUE',
      'WAIT',
      'HIT',
      'TTFT P50',
      'P99',
      'OF LAST',
      'POLICY',
    ])
    expect(line(lines, 'paris qwen')).toEqual([
      'paris qwen',
      '2/2',
      '3',
      '–',
      '4,096',
      '250 ms',
      '50%',
      '30 ms',
      '40 ms',
      '4',
      'predicted',
    ])
    expect(line(lines, 'ENGINE')).toEqual([
      'ENGINE',
      'STATE',
      'RUN',
      'REQ/S',
      'QUEUE',
      'WAIT',
      'HIT',
      'TTFT',
      'LIVE',
      'CACHED',
      'KV',
      'WAITING',
      'TOTAL',
      'FAILED',
    ])
    expect(line(lines, 'busy')).toEqual([
      'busy',
      'up',
      '3',
      '–',
      '4,096',
      '250 ms',
      '50%',
      '80 ms',
      '12',
      '200/512',
      '–',
      '–',
      '90',
      '4',
    ])
    expect(line(lines, 'idle')).toEqual([
      'idle',
      'up',
      '0',
      '–',
      '0',
      '0 s',
      '–',
      '–',
      '0',
      '0/512',
      '–',
      '–',
      '0',
      '0',
    ])
  })

  it('the fleet table lists only replicas whose bookings are not received', () => {
    const replica = { host: 'gateway-6', id: 'r', state: 'following', bookings: 3 } as const
    expect(report(frameOf(viewOf([], { replicas: [replica] })))[0]).toMatch(/^Firstlight 1\.2\.3/)
    expect(
      report(frameOf(viewOf([], { replicas: [replica, { ...replica, host: 'gateway-7', state: 'away' }] })))[0],
    ).toMatch(/^replicas away: gateway-7 ·/)
  })

  it('the fleet table marks a pool as unreachable if its state object does not respond', () => {
    const dark = { ...poolOf([{ id: 'a', role: 'any', available: null }]), reachable: false, bookings: null }
    const lines = report(frameOf(viewOf([dark])))
    expect(line(lines, 'paris qwen')).toEqual([
      'paris qwen',
      'unreachable',
      '–',
      '–',
      '–',
      '–',
      '–',
      '–',
      '–',
      '0',
      'predicted',
    ])
    expect(line(lines, 'a ').slice(0, 4)).toEqual(['a', 'unknown', '–', '–'])
    expect(lines[1]).toContain('0 of 1 engine up')
  })

  it('the fleet table shows a remote gateway’s digest, and dashes for values of single engines', () => {
    const { role, id, weight, available, healthy, draining, circuit, requests, requests_total, failures_total } =
      engineOf('paris', { requests: 2 })
    const gateway = {
      reachable: true,
      age_ms: 400,
      rtt_ms: 31,
      blocking_match: true,
      engines: 4,
      requests: 17,
      queued: 2,
      expected_ttft_ms: 120,
    }
    const behind = (more: object | null) =>
      poolOf(
        [
          {
            role,
            id,
            weight,
            available,
            healthy,
            draining,
            circuit,
            requests,
            requests_total,
            failures_total,
          } as Engine,
        ],
        { bookings: 2, policy: 'least_loaded', gateway: more === null ? null : { ...gateway, ...more } },
      )
    const of = (more: object | null) => line(report(frameOf(viewOf([behind(more)]))), 'paris qwen').at(-1)
    const lines = report(frameOf(viewOf([behind({}), poolOf([engineOf('a')], { cluster: 'own' })])))
    expect(line(lines, 'POOL').at(-1)).toBe('BEHIND ITS GATEWAY')
    expect(of({})).toBe('4 engines there, 17 running, 2 waiting, first token in 120 ms, 31 ms away, updated just now')
    expect(of({ reachable: false, age_ms: 12_000 })).toMatch(/^has not answered since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(of({ blocking_match: false })).toContain('prompts divided into other blocks')
    expect(of(null)).toBe('no digest yet')
    expect(line(lines, 'paris ')).not.toContain('least_loaded')
    const [row] = lines.filter((text) => /^paris +paris qwen/.test(text))
    expect(row!.split(/ {2,}/).slice(0, 8)).toEqual(['paris', 'paris qwen', 'gateway', 'up', '2', '–', '–', '–'])
    for (const [more, says] of [
      [{ engines: 0, expected_ttft_ms: null }, 'no engine'],
      [{ reachable: false }, 'unhealthy'],
    ] as const)
      expect(line(report(frameOf(viewOf([behind(more)]))), 'paris  ')).toContain(says)
  })

  it('the fleet table puts the pool with most unavailable engines first, and within a pool the engines in the worst state', () => {
    const sick = [
      engineOf('ok'),
      engineOf('asleep', { asleep: true, available: false }),
      engineOf('drains', { draining: true, available: false }),
      engineOf('open', { circuit: 'open', available: false }),
      engineOf('ill', { healthy: false, available: false }),
      engineOf('full', { available: false }),
    ]
    const seen = figuresOf(
      viewOf([poolOf([engineOf('z'), engineOf('a')], { cluster: 'oslo' }), poolOf(sick)]),
      new Pace(),
    )
    expect(seen.pools.map(({ pool }) => pool?.cluster)).toEqual(['paris', 'oslo'])
    expect(sorted(seen, selection).map(({ engine }) => engine.id)).toEqual([
      'ill',
      'open',
      'full',
      'drains',
      'asleep',
      'z',
      'a',
      'ok',
    ])
    expect(sorted(seen, { ...selection, only: 'PARIS circuit' }).map(({ engine }) => engine.id)).toEqual(['open'])
  })

  it('the fleet table sorts figures in descending order with unknown ones last, and names from a to z, or reversed', () => {
    const seen = figuresOf(
      viewOf([poolOf([engineOf('e2', { ttft_ms: 5 }), engineOf('e10', { ttft_ms: 9 }), engineOf('e1')])]),
      new Pace(),
    )
    const by = (sort: Selection['sort'], reversed = false) =>
      sorted(seen, { ...selection, sort, reversed }).map(({ engine }) => engine.id)
    expect([by('ttft'), by('ttft', true), by('engine'), by('engine', true)]).toEqual([
      ['e10', 'e2', 'e1'],
      ['e2', 'e10', 'e1'],
      ['e1', 'e2', 'e10'],
      ['e10', 'e2', 'e1'],
    ])
  })

  it('the fleet table shows the pool and the role if they differ', () => {
    const lines = report(
      frameOf(
        viewOf([
          poolOf([engineOf('p', { role: 'prefill' })]),
          poolOf([engineOf('d', { role: 'decode' })], { cluster: 'oslo' }),
        ]),
      ),
    )
    expect(line(lines, 'd ').slice(0, 4)).toEqual(['d', 'oslo qwen', 'decode', 'up'])
  })

  it('the fleet table counts a split request once in the request rate of its pool', () => {
    const pace = new Pace()
    const at = (ms: number, total: number) =>
      viewOf([
        poolOf(
          [
            engineOf('p', { role: 'prefill', requests_total: total }),
            engineOf('d', { role: 'decode', requests_total: total }),
          ],
          { at: ms },
        ),
      ])
    pace.record(at(0, 0))
    pace.record(at(2_000, 8))
    expect(figuresOf(at(2_000, 8), pace).fleet.requestsPerS).toBe(4)
  })

  it('the fleet table shows notes about problems of an engine', () => {
    const stats = {
      running: 1,
      waiting: 7,
      kv_usage: 0.33,
      block_tokens: 16,
      cache_blocks: 1,
      prefix_caching: true,
      adapters: null,
      age_ms: 90_000,
    }
    const learned = { restarts: 2, silent_miss: ['prefix caching is off'] } as unknown as NonNullable<Engine['learned']>
    const lines = report(
      frameOf(
        viewOf([
          poolOf([
            engineOf('a', {
              stats,
              learned,
              weight: 0,
              kv_feed: { state: 'silent', changes: 0, resyncs: 0, lag_ms: 0 },
            }),
          ]),
        ]),
      ),
    )
    const [note] = line(lines, 'a ').slice(-1)
    expect(note).toBe(
      'hits predicted but not reported: prefix caching is off; KV events stopped; weight 0: no new requests; its metrics are 90 s old; cache lost 2x',
    )
    expect(line(lines, 'a ')).toEqual(expect.arrayContaining(['33%', '7']))
  })

  it('the fleet table shows the number of engines and pools that do not fit', () => {
    const pools = Array.from({ length: 9 }, (_, index) => poolOf(many(5), { cluster: `c${index}` }))
    const lines = screen(frameOf(viewOf(pools)), 24, 80)
    expect(lines).toHaveLength(24)
    expect(lines.filter((text) => /^c\d qwen/.test(text))).toHaveLength(7)
    expect(lines).toContain('… 2 more pools')
    expect(lines.filter((text) => /^e\d /.test(text))).toHaveLength(8)
    expect(lines).toContain('… 37 more engines')
    expect(lines.at(-1)).toMatch(/^q quit/)
  })

  it('the fleet table gives pools the lines that engines do not need', () => {
    const lines = screen(
      frameOf(viewOf(Array.from({ length: 12 }, (_, index) => poolOf([], { cluster: `c${index}` })))),
      24,
      80,
    )
    expect(lines.filter((text) => /^c\d+ qwen/.test(text))).toHaveLength(12)
  })

  it('the fleet table scrolls to the last line and no further', () => {
    const { lines, skipped } = screenOf(frameOf(viewOf([poolOf(many(30))]), { skipped: 1_000 }), {
      rows: 14,
      cells: 80,
    })
    const texts = lines.map((text) => encodeLine(text, { cells: 80, colours: false }))
    expect(texts.at(-3)).toMatch(/^e29 /)
    expect(texts.at(-2)).toBe(`… ${skipped} above`)
    expect(skipped).toBe(25)
  })

  it('the fleet table omits columns that do not fit, but never names and states', () => {
    const lines = screen(frameOf(viewOf([poolOf([engineOf('a', { healthy: false })])])), 12, 30)
    expect(line(lines, 'ENGINE')).toEqual(['ENGINE', 'STATE', 'RUN'])
    expect(line(lines, 'a ')).toEqual(['a', 'unhealthy', '0'])
  })

  it('the fleet table has the same text with and without colours', () => {
    const frame = frameOf(viewOf([poolOf([engineOf('a', { healthy: false }), engineOf('b')])]), {
      stale: 'no data for 3 s',
    })
    const size = { cells: 120, colours: true }
    const coloured = reportOf(frame, 120).map((text) => encodeLine(text, size))
    expect(coloured.join('\n')).toContain('\u001b[1;31munhealthy\u001b[0m')
    // oxlint-disable-next-line no-control-regex
    expect(coloured.map((text) => text.replaceAll(/\u001b\[[\d;]*m/g, '').trimEnd())).toEqual(report(frame, 120))
  })

  it('the fleet table fits any terminal, with any names and any figures', () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
    const figure = fc.option(fc.double({ min: 0, max: 1e300, noNaN: true }))
    const engine = fc
      .record({
        id: name,
        available: fc.constantFrom(true, false, null),
        ttft_ms: figure,
        hit_rate: figure,
        requests_total: fc.nat(),
        queued_prefill_s: fc.double({ min: 0, max: 1e9, noNaN: true }),
      })
      .map(({ id, ...more }) => engineOf(id, more as Partial<Engine>))
    const pool = fc
      .record({ cluster: name, model: name, engines: fc.array(engine, { maxLength: 12 }) })
      .map(({ engines, ...more }) => poolOf(engines, more))
    fc.assert(
      fc.property(
        fc.array(pool, { maxLength: 5 }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 200 }),
        fc.constantFrom(...SORTS),
        (pools, rows, cells, sort) => {
          const lines = screen(frameOf(viewOf(pools), { selection: { ...selection, sort } }), rows, cells)
          expect(lines.length).toBe(rows)
          for (const text of lines) expect(cellsOf(text)).toBeLessThanOrEqual(cells)
        },
      ),
    )
  })
})
