import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { progressBar, progressOf } from '../../../src/cli/commands/progress-bar.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { firstlightIn } from '../run-cli.ts'

/** Standard error of a terminal: the states of the line that is drawn over. */
class FakeErrorStream {
  readonly isTTY: boolean
  readonly columns: number
  readonly drawn: string[] = []

  constructor(isTTY = true, columns = 100) {
    this.isTTY = isTTY
    this.columns = columns
  }

  write(text: string): void {
    // oxlint-disable-next-line no-control-regex
    const [, line] = /^\r([^\r\n]*)\u001b\[K$/.exec(text) ?? []
    if (line === undefined) throw new Error(`text that is no drawing was written: ${JSON.stringify(text)}`)
    this.drawn.push(line)
  }

  /** Texts beside the bar. */
  get texts(): string[] {
    return this.drawn.map((line) => line.replace(/^[█░]+ /, ''))
  }
}

const ON = { on: () => true }
const OFF = { on: () => false }
const io = (progress?: FakeErrorStream) => {
  const lines: string[] = []
  return { lines, err: (line: string) => lines.push(line), ...(progress === undefined ? {} : { progress }) }
}

describe('a progress bar', () => {
  it('a progress bar is drawn on a terminal with its detail, and removed at the end', () => {
    const stream = new FakeErrorStream()
    const bar = progressBar('asked', stream)
    bar.draw(1, 3, 'waiting for a')
    bar.draw(3, 3)
    bar.clear()
    expect(stream.drawn).toEqual([
      `${'█'.repeat(10)}${'░'.repeat(20)} 1/3 asked, waiting for a`,
      `${'█'.repeat(30)} 3/3 asked`,
      '',
    ])
  })

  it('a progress bar never wraps, because a wrapped line could not be drawn over', () => {
    const stream = new FakeErrorStream(true, 40)
    progressBar('asked', stream).draw(1, 3, 'waiting for an engine with a long name')
    expect(stream.drawn[0]).toHaveLength(39)
  })

  it('a progress bar is not drawn into a file or pipe', () => {
    const stream = new FakeErrorStream(false)
    const bar = progressBar('asked', stream)
    bar.draw(1, 2)
    bar.clear()
    expect(stream.drawn).toEqual([])
  })
})

describe('progress of a command', () => {
  const hundred = (args: typeof ON, world: ReturnType<typeof io>) => {
    const bar = progressOf('answered', args, world)
    for (let done = 0; done <= 100; done++) bar.draw(done, 100)
    bar.clear()
  }

  it('progress of a command is one line for each tenth with --progress and no terminal, and nothing without', () => {
    const [silent, chatty] = [io(new FakeErrorStream(false)), io()]
    hundred(OFF, silent)
    hundred(ON, chatty)
    expect(silent.lines).toEqual([])
    expect(chatty.lines).toEqual(Array.from({ length: 11 }, (_, at) => `${10 * at}/100 answered`))
  })

  it('progress of a command is a bar on a terminal, with --progress too', () => {
    for (const args of [ON, OFF]) {
      const stream = new FakeErrorStream()
      const world = io(stream)
      hundred(args, world)
      expect(world.lines).toEqual([])
      expect(stream.drawn).toHaveLength(102)
    }
  })
})

describe('a command that takes long', () => {
  const folder = mkdtempSync(join(tmpdir(), 'progress-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  let fleet: RunningFleet
  beforeEach(async () => {
    fleet = await startFleet({ engines: 2, profile: 'instant', model: 'sim' })
  })
  afterEach(() => fleet.close())

  /** Runs it on a terminal, in a pipe and in a pipe with `--progress`. */
  async function inAllWorlds(...argv: string[]) {
    const stream = new FakeErrorStream()
    const terminal = await firstlightIn({ progress: stream }, ...argv)
    const pipe = await firstlightIn({ progress: new FakeErrorStream(false) }, ...argv)
    const flagged = await firstlightIn({}, ...argv, '--progress')
    for (const { out } of [terminal, pipe, flagged]) expect(out).not.toMatch(/[█░]/)
    expect(pipe.err).not.toMatch(/\d\/\d/)
    expect(terminal.err).toBe(pipe.err)
    expect(stream.drawn.at(-1)).toBe('')
    return { texts: stream.texts, lines: flagged.err.split('\n') }
  }

  it('doctor shows how many servers are examined and which ones it waits for', async () => {
    const hosts = fleet.urls.map((url) => new URL(url).host)
    const { texts, lines } = await inAllWorlds('doctor', ...fleet.urls, '--idle-s', '0', '--no-generate')
    expect(texts[1]).toBe(`0/2 examined, waiting for ${hosts.join(', ')}`)
    expect(texts).toContain('2/2 examined')
    expect(lines[0]).toBe(`0/2 examined, waiting for ${hosts[0]}`)
    expect(lines.at(-1)).toBe('2/2 examined')
  })

  it('doctor counts engines, pools and regions of a configuration', async () => {
    const file = join(folder, 'firstlight.json')
    const engines = fleet.urls.map((url, at) => ({ id: `e${at}`, url }))
    const clusters = [
      { id: 'one', pools: [{ model: 'sim', engines }] },
      { id: 'far', gateway: { url: 'http://127.0.0.1:9', models: [{ model: 'sim' }] } },
    ]
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', clusters }))
    const { texts } = await inAllWorlds('doctor', '--config', file, '--idle-s', '0', '--no-generate')
    expect(texts).toContain('2/4 examined, waiting for pool one/sim')
    expect(texts).toContain('3/4 examined, waiting for far')
    expect(texts).toContain('4/4 examined')
  })

  it('load shows requests that are answered and in flight, from the first one on', async () => {
    const few = ['--num-users', '1', '--num-rounds', '2', '--qps', '1000', '--answer-len', '2']
    const { texts, lines } = await inAllWorlds('load', '--url', fleet.urls[0]!, '--model', 'sim', ...few)
    expect(texts.slice(0, 2)).toEqual(['0/2 answered, 0 in flight', '0/2 answered, 1 in flight'])
    expect(texts).toContain('2/2 answered, 0 in flight')
    expect(lines).toContain('1/2 answered, 0 in flight')
  })

  it('calibrate shows the simulated runs of a fit', async () => {
    const file = join(folder, 'run.jsonl')
    const request = (at: number) => ({
      input_toks: 100 + 50 * at,
      output_toks: 5,
      queued_ts: at,
      first_token_ts: at + 0.1,
      last_token_ts: at + 0.3,
    })
    writeFileSync(file, Array.from({ length: 20 }, (_, at) => JSON.stringify(request(at))).join('\n'))
    const { texts, lines } = await inAllWorlds('calibrate', '--requests', file, '--evaluations', '20')
    expect(texts[0]).toBe('1/20 simulated runs')
    expect(lines).toContain('10/20 simulated runs')
  })

  it('calibrate shows its readings of an engine, and removes the bar before an error', async () => {
    await using engine = await FakeEngine.open({ 'GET /metrics': { body: 'vllm:nothing 1\n' } })
    const argv = ['calibrate', '--metrics', `${engine.url}/metrics`, '--seconds', '0.1', '--interval-ms', '100']
    const stream = new FakeErrorStream()
    expect((await firstlightIn({ progress: stream }, ...argv)).code).toBe(2)
    expect([stream.texts[0], stream.texts.at(-1)]).toEqual(['0/2 readings', ''])
  })
})
