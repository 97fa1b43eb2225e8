import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { presetNamed, presets } from '../../packages/replay/src/replay/presets.ts'
import { routerKinds } from '../../packages/replay/src/replay/routers.ts'
import { firstlight } from '../cli/run-cli.ts'
import packageJson from '../../package.json' with { type: 'json' }

const folder = mkdtempSync(join(tmpdir(), 'replay-'))
afterAll(() => rmSync(folder, { recursive: true }))
const at = (name: string): string => join(folder, name)

/** Forty prompts; every fifth starts like the previous one. */
function writeTrace(name: string, further: (row: number) => object = () => ({})): string {
  const rows = Array.from({ length: 40 }, (_, row) => ({
    timestamp: row * 700,
    input_length: 2100,
    output_length: 9,
    hash_ids:
      row % 5 === 1
        ? [row * 10 - 10, row * 10 - 9, row * 10, 5000 + row, 6000 + row]
        : [row * 10, row * 10 + 1, row * 10 + 2, 5000 + row, 6000 + row],
    ...further(row),
  }))
  writeFileSync(at(name), rows.map((row) => JSON.stringify(row)).join('\n'))
  return at(name)
}

describe('firstlight replay', () => {
  it('firstlight replay prints a line a policy, soonest first, and writes the same figures as JSON and as a page', async () => {
    const { code, out } = await firstlight(
      'replay',
      '--trace',
      writeTrace('t.jsonl'),
      '--engines',
      '3',
      '--policies',
      'all',
      '--load',
      '0.5,0.9',
      '--json',
      at('o.json'),
      '--html',
      at('o.html'),
    )
    expect(code).toBe(0)
    const { rows } = JSON.parse(readFileSync(at('o.json'), 'utf8')) as { rows: Record<string, unknown>[] }
    expect(rows).toHaveLength(2 * routerKinds.length)
    for (const row of rows) {
      expect(row).toMatchObject({ trace: 't.jsonl', requests: 40, refused: 0 })
      expect(Number(row['ttft_mean_ms'])).toBeGreaterThan(0)
      expect(Number(row['ttft_p99_ms'])).toBeGreaterThanOrEqual(Number(row['ttft_mean_ms']))
      expect(out).toContain(String(row['policy']))
    }
    expect(new Set(rows.map(({ load }) => load))).toEqual(new Set([0.5, 0.9]))
    const means = out
      .split('\n')
      .slice(1, routerKinds.length)
      .map((line) => Number(line.split(/ {2,}/)[1]))
    expect(means).toEqual([...means].sort((one, other) => one - other))
    const page = readFileSync(at('o.html'), 'utf8')
    expect(page.match(/<svg /g)).toHaveLength(10)
    // No external resources: no URL but the SVG's title, and no script.
    expect(page).not.toMatch(/https?:|<script|<link|url\(|@import|src=/)
    expect(page).not.toContain('NaN')
    expect(page).toContain('<td class="best">')
  })

  it('firstlight replay states units, a legend and the winner, and what a reader needs to repeat the report', async () => {
    const trace = writeTrace('cite.jsonl')
    const policies = ['--policies', 'predicted,round_robin,exact']
    const { out } = await firstlight(
      ...['replay', '--trace', trace, '--html', at('cite.html'), '--json', at('cite.json')].concat(policies),
    )
    expect(out.split('\n')[0]).toMatch(/^policy {2,}TTFT mean ms {2,}p50 ms .* goodput % {2,}hit %/)
    expect(out).toMatch(/^(Winner: (predicted|round_robin)|No clear winner)/m)
    expect(out).toContain('goodput %: requests sent that were answered completely, with TTFT up to 5000 ms')
    const sha256 = createHash('sha256').update(readFileSync(trace)).digest('hex')
    const { provenance } = JSON.parse(readFileSync(at('cite.json'), 'utf8')) as { provenance: object }
    expect(provenance).toMatchObject({ sha256, profile: 'agentic', trace: 'cite.jsonl' })
    const page = readFileSync(at('cite.html'), 'utf8')
    for (const fact of [sha256, 'agentic', packageJson.version, `firstlight replay --trace ${trace}`, 'Winner'])
      expect(page).toContain(fact)
    expect(page).toMatch(/<dd>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ<\/dd>/)
  })

  it('firstlight replay names policies that cannot sustain the pace, and a pace that the fleet sustains', async () => {
    const trace = writeTrace('fast.jsonl', (row) => ({ timestamp: row * 300, input_length: 20_000, hash_ids: [row] }))
    const run = (...flags: string[]) =>
      firstlight('replay', '--trace', trace, '--engines', '1', '--policies', 'predicted', ...flags)
    const { out } = await run()
    const [, speed, engines] = /The fleet cannot sustain this pace.* Try --speed ([\d.]+), or --engines (\d+)\./.exec(
      out,
    )!
    expect(Number(engines)).toBeGreaterThan(1)
    expect((await run('--speed', String(Number(speed) / 2))).out).not.toContain('cannot sustain')
  })

  it('firstlight replay is the same twice, and another with another seed', async () => {
    const trace = writeTrace('seeds.jsonl')
    const rowsOf = async (seeds: string) => {
      await firstlight('replay', '--trace', trace, '--policies', 'random', '--seeds', seeds, '--json', at('seed.json'))
      const { rows } = JSON.parse(readFileSync(at('seed.json'), 'utf8')) as {
        rows: { ttft_mean_ms: number; hit: number }[]
      }
      return rows.map(({ ttft_mean_ms, hit }) => [ttft_mean_ms, hit])
    }
    const first = await rowsOf('1')
    expect(await rowsOf('1')).toEqual(first)
    expect(await rowsOf('2')).not.toEqual(first)
  })

  it('firstlight replay prints the deviation between several seeds', async () => {
    const trace = writeTrace('apart.jsonl')
    const rowOf = async (seeds: string) => {
      const { out } = await firstlight(
        'replay',
        '--trace',
        trace,
        '--policies',
        'random',
        '--seeds',
        seeds,
        '--json',
        at('apart.json'),
      )
      const { rows } = JSON.parse(readFileSync(at('apart.json'), 'utf8')) as {
        rows: { ttft_mean_ms: number; ttft_mean_sd_ms?: number }[]
      }
      return { ...rows[0]!, out }
    }
    const [one, two, both] = [await rowOf('1'), await rowOf('2'), await rowOf('1,2')]
    expect([one.ttft_mean_sd_ms, one.out.includes('±')]).toEqual([undefined, false])
    expect(both.out).toContain('±')
    // The sample standard deviation of two values is their difference divided by the square root of two.
    expect(both.ttft_mean_sd_ms).toBeGreaterThan(0)
    expect(both.ttft_mean_sd_ms).toBeCloseTo(Math.abs(one.ttft_mean_ms - two.ttft_mean_ms) / Math.SQRT2, 2)
  })

  it('firstlight replay does not treat a gateway of a configuration as an engine', async () => {
    writeFileSync(
      at('edge.yaml'),
      'clusters: [{ id: paris, gateway: { url: "https://paris", models: [{ model: m }] } }]',
    )
    const { code, err } = await firstlight(
      'replay',
      '--trace',
      writeTrace('g.jsonl'),
      '--config',
      at('edge.yaml'),
      '--policies',
      'predicted',
    )
    expect(code).not.toBe(0)
    expect(err).toContain('has no pool with engines')
  })

  it('firstlight replay reads engines, network and profile from a configuration', async () => {
    writeFileSync(
      at('fleet.yaml'),
      'clusters:\n  - id: one\n    pools:\n      - model: m\n        block_tokens: 64\n        engines:\n          - { id: a, url: "http://a", profile: h100-8b, rtt_ms: 500 }\n          - { id: b, url: "http://b", key: { env: NOT_SET } }\n',
    )
    const { code, err } = await firstlight(
      'replay',
      '--trace',
      writeTrace('c.jsonl'),
      '--config',
      at('fleet.yaml'),
      '--policies',
      'predicted',
      '--json',
      at('c.json'),
    )
    expect(code).toBe(0)
    expect(err).toContain('40 requests, 2 engines')
    const { rows } = JSON.parse(readFileSync(at('c.json'), 'utf8')) as { rows: { ttft_p50_ms: number }[] }
    expect(rows[0]!.ttft_p50_ms).toBeGreaterThan(500)
  })

  it('firstlight replay sends the turns of sessions in a closed loop by default', async () => {
    const trace = writeTrace('s.jsonl', (row) => ({ session_id: `s${row % 2}`, timestamp: row }))
    const meanOf = async (...flags: string[]) => {
      await firstlight(
        'replay',
        '--trace',
        trace,
        '--engines',
        '2',
        '--policies',
        'session',
        '--json',
        at('s.json'),
        ...flags,
      )
      return (JSON.parse(readFileSync(at('s.json'), 'utf8')) as { rows: { ttft_mean_ms: number }[] }).rows[0]!
        .ttft_mean_ms
    }
    expect(await meanOf('--open-loop')).toBeGreaterThan(3 * (await meanOf()))
  })

  it.each([
    [['--trace', 'nowhere.jsonl'], 'There is no file nowhere.jsonl'],
    [[], 'needs a trace or a preset'],
    [['--preset', 'experiment-3'], 'unknown preset "experiment-3"; presets: experiment-1'],
    [['--preset', 'burst', '--bogus'], 'has no flag --bogus'],
  ])('firstlight replay rejects %j with a next step', async (argv, message) => {
    const { code, err } = await firstlight('replay', ...argv)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  it.each([
    [['--policies', 'best'], 'unknown policy "best"'],
    [['--load', '2x'], '--load must be numbers above 0 and up to 10, separated by commas, not "2x"'],
    [['--profile', 'abacus'], 'unknown engine profile "abacus"'],
    [['--engines', '2.5'], '--engines must be a whole number'],
  ])('firstlight replay rejects %j', async (argv, message) => {
    const { code, err } = await firstlight('replay', '--trace', writeTrace('e.jsonl'), ...argv)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  it('firstlight replay names the line of a trace that is broken', async () => {
    writeFileSync(
      at('broken.jsonl'),
      '{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[]}\n{"timestamp":0}',
    )
    const { code, err } = await firstlight('replay', '--trace', at('broken.jsonl'))
    expect(code).toBe(2)
    expect(err).toContain('line 2 of the trace has input_length undefined')
  })

  it('repeats production-stack#670: the first experiment with its rule as shipped, the second with one engine for kvaware', async () => {
    expect(presets.map(({ name }) => name)).toEqual([
      'experiment-1',
      'experiment-2',
      'blocks-fixed',
      'blocks-isl',
      'blocks-osl',
      'burst',
    ])
    const compared = presetNamed('experiment-1').parts[0]!.kinds.map(({ name }) => name)
    expect(compared).toEqual(expect.arrayContaining(['production_stack_ttft', 'ttft', 'predicted']))
    const { code, out } = await firstlight('replay', '--preset', 'experiment-2', '--json', at('p.json'))
    expect(code).toBe(0)
    expect(out).toContain('as_published_ms')
    const { rows } = JSON.parse(readFileSync(at('p.json'), 'utf8')) as {
      rows: { policy: string; ttft_mean_ms: number; imbalance_requests: number; slots_written: number }[]
    }
    const [kvaware, ttft] = ['kvaware', 'production_stack_ttft'].map((name) =>
      rows.find(({ policy }) => policy === name)!,
    )
    expect(kvaware!.imbalance_requests).toBe(2)
    expect(kvaware!.ttft_mean_ms / ttft!.ttft_mean_ms).toBeGreaterThan(1.7)
    expect(ttft!.slots_written).toBe(19)
  })
})
