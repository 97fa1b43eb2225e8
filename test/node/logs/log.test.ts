import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { openLog } from '../../../src/platform/node/log.ts'
import { OriginError } from '../../../src/ports/origin.ts'
import { until } from '../../wait.ts'

function logged(
  fields: Readonly<Record<string, unknown>>,
  level: 'debug' | 'warn' = 'debug',
): Record<string, unknown>[] {
  const lines: string[] = []
  openLog(level, { write: (line) => void lines.push(line) }).info('it_happened', fields)
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the log', () => {
  it('writes one JSON line per event, with level, time, fields, and a message for log services', () => {
    expect(logged({ engine: 'a' })).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        event: 'it_happened',
        engine: 'a',
        message: 'it happened',
      },
    ])
  })

  it('is silent below its level', () => {
    expect(logged({}, 'warn')).toEqual([])
  })

  it('drops credentials and texts of users, from any caller', () => {
    expect(
      JSON.stringify(
        logged({ authorization: 'hush', prompt: 'hush', messages: ['hush'], key: 'hush', headers: ['hush'] }),
      ),
    ).not.toContain('hush')
  })

  it('formats an error with its causes', () => {
    const error = new TypeError('outer', { cause: new Error('inner') })
    expect(logged({ error })[0]).toMatchObject({ error: { message: 'TypeError: outer <- Error: inner' } })
  })

  it('has the stack of an unexpected error, and none for an unreachable engine', () => {
    const unexpected = logged({ error: new TypeError('x is undefined') })[0]!['error']
    expect(unexpected).toMatchObject({ stack: expect.arrayContaining([expect.stringContaining('at ')]) })
    const cause = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:8000'), { code: 'ECONNREFUSED' })
    const expected = logged({ error: new OriginError('connect', 'the connection was refused', { cause }) })[0]!['error']
    expect(expected).toEqual({
      message: 'OriginError: the connection was refused <- Error: connect ECONNREFUSED 10.0.0.1:8000',
    })
  })
})

it('writes text for people in the format `text`', () => {
  const lines: string[] = []
  openLog('info', { write: (line) => void lines.push(line) }, null, 'text').warn('engine_unhealthy', { engine: 'a' })
  expect(lines).toEqual([
    expect.stringMatching(/^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: engine_unhealthy \{"engine":"a"\}\n$/),
  ])
})

it('changes its level at runtime', () => {
  const lines: string[] = []
  const log = openLog('warn', { write: (line) => void lines.push(line) })
  for (const level of ['info', 'silent', 'debug'] as const) {
    log.setLevel(level)
    log.info(`at ${level}`)
    expect(log.writes?.('info')).toBe(level !== 'silent')
  }
  expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(['at info', 'at debug'])
})

describe('the log of a process', () => {
  const script = (body: string): string => `
const { openLog } = await import(${JSON.stringify(new URL('../../../src/platform/node/log.ts', import.meta.url).href)})
// As in the command line: the runtime then makes a pipe non-blocking.
process.stdout.on('error', () => {})
const log = openLog('info')
const say = (word) => process.stderr.write(word + '\\n')
${body}`

  function started(
    body: string,
    stdout: 'pipe' | number,
  ): { readonly child: ChildProcess; heard(word: string): Promise<string> } {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script(body)], {
      stdio: ['pipe', stdout, 'pipe'],
    })
    let said = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text))
    return {
      child,
      async heard(word) {
        await until(() => said.includes(word) || child.exitCode !== null)
        return said
      },
    }
  }

  it('never waits for a blocked reader, drops whole lines only, and counts them', async () => {
    const { child, heard } = started(
      `for (let n = 0; n < 40_000; n++) log.info('one', { n, text: 'x'.repeat(50) })
say('logged')
process.stdin.on('data', () => log.info('late')).on('end', () => process.exit(0))`,
      'pipe',
    )
    await heard('logged')
    let text = ''
    child.stdout!.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    let asked = 0
    await until(() => {
      child.stdin!.write('.')
      asked += 1
      return text.includes('log_dropped')
    }, 20)
    child.stdin!.end()
    await once(child, 'close')
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { event: string; n?: number; lines?: number })
    const numbers = lines.flatMap(({ n }) => n ?? [])
    expect(numbers).toEqual(numbers.map((_, at) => at))
    expect(numbers.length).toBeGreaterThan(100)
    const dropped = lines.reduce((sum, { lines: lost = 0 }) => sum + lost, 0)
    expect(numbers.length + dropped).toBeGreaterThanOrEqual(40_000)
    expect(numbers.length + dropped).toBeLessThanOrEqual(40_000 + asked)
  })

  it('writes its last line at exit if the reader is only slow', async () => {
    const { child } = started(
      `for (let n = 0; n < 5000; n++) log.info('one', { n, text: 'x'.repeat(50) })\nprocess.exit(0)`,
      'pipe',
    )
    let text = ''
    child.stdout!.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    await once(child, 'close')
    expect(
      text
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { n: number }).n),
    ).toEqual(Array.from({ length: 5000 }, (_, n) => n))
  })

  it.runIf(existsSync('/dev/full'))('that finds no room on its disk fails nobody, and is said once', async () => {
    const full = openSync('/dev/full', 'w')
    const { child, heard } = started(`for (let n = 0; n < 3; n++) log.info('one')\nsay('went on')`, full)
    closeSync(full)
    expect(await heard('went on')).toBe('The log cannot be written (ENOSPC): requests go on without it.\nwent on\n')
    expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0)
  })
})
