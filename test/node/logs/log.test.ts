import { describe, expect, it } from 'vitest'
import { openLog } from '../../../src/platform/node/log.ts'
import { OriginError } from '../../../src/ports/origin.ts'

function logged(
  fields: Readonly<Record<string, unknown>>,
  level: 'debug' | 'warn' = 'debug',
): Record<string, unknown>[] {
  const lines: string[] = []
  openLog(level, { write: (line) => void lines.push(line) }).info('it_happened', fields)
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the log', () => {
  it('the log has the fields of its owner in every line', () => {
    const lines: string[] = []
    openLog('info', { write: (line) => void lines.push(line) }, { thread: 3 }).warn('it_happened', { engine: 'a' })
    expect(JSON.parse(lines[0]!)).toMatchObject({ level: 'warn', thread: 3, engine: 'a' })
  })

  it('the log writes one JSON line per event, with level, time, fields, and a message for log services', () => {
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

  it('the log has the fields in their order between its own, byte for byte', () => {
    const lines: string[] = []
    const log = openLog('info', { write: (line) => void lines.push(line) }, { thread: 3 })
    const error = new OriginError('connect', 'refused')
    const stages = { edge: 0.25, ttft: null, late: undefined, far: Number.NaN, at: new Date(0) }
    log.info('it_has "\n_é\ud800', {
      id: 'ä\u0001\\"',
      absent: undefined,
      remote: null,
      stages_ms: stages,
      all: [1e21, true],
    })
    log.warn('it_happened', { key: 'hush', error })
    log.error('it_happened', {})
    expect(lines.map((line) => line.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/, 'TIME'))).toEqual([
      String.raw`{"level":"info","thread":3,"time":"TIME","event":"it_has \"\n_é\ud800","id":"ä\u0001\\\"","remote":null,` +
        String.raw`"stages_ms":{"edge":0.25,"ttft":null,"far":null,"at":"1970-01-01T00:00:00.000Z"},"all":[1e+21,true],` +
        String.raw`"message":"it has \"\n é\ud800"}` +
        '\n',
      `{"level":"warn","thread":3,"time":"TIME","event":"it_happened","error":{"message":"OriginError: refused"},` +
        `"message":"it happened"}\n`,
      `{"level":"error","thread":3,"time":"TIME","event":"it_happened","message":"it happened"}\n`,
    ])
  })

  it('the log is silent below its level', () => {
    expect(logged({}, 'warn')).toEqual([])
  })

  it('the log keeps an event in one line, whatever its name and fields contain', () => {
    const lines: string[] = []
    const forged = 'x\n{"level":"error"}\r\u001b[2J\u0000"'
    openLog('info', { write: (line) => void lines.push(line) }).info(forged, { path: forged })
    expect(lines).toHaveLength(1)
    // eslint-disable-next-line no-control-regex
    expect(lines[0]).toMatch(/^[^\u0000-\u001f]+\n$/)
    expect(JSON.parse(lines[0]!)).toMatchObject({ level: 'info', event: forged, path: forged })
  })

  it('the log drops credentials and texts of users, from any caller', () => {
    expect(
      JSON.stringify(
        logged({ authorization: 'hush', prompt: 'hush', messages: ['hush'], key: 'hush', headers: ['hush'] }),
      ),
    ).not.toContain('hush')
  })

  it('the log has a line for fields that JSON cannot have', () => {
    const cycle: Record<string, unknown> = {}
    cycle['self'] = cycle
    for (const fields of [{ cycle }, { big: 1n }])
      expect(logged(fields)).toEqual([expect.objectContaining({ event: 'it_happened', not_logged: expect.anything() })])
  })

  it('the log formats an error with its causes', () => {
    const error = new TypeError('outer', { cause: new Error('inner') })
    expect(logged({ error })[0]).toMatchObject({ error: { message: 'TypeError: outer <- Error: inner' } })
  })

  it('the log has the stack of an unexpected error, and none for an unreachable engine', () => {
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

it('the log changes its level at runtime', () => {
  const lines: string[] = []
  const log = openLog('warn', { write: (line) => void lines.push(line) })
  for (const level of ['info', 'silent', 'debug'] as const) {
    log.setLevel(level)
    log.info(`at ${level}`)
    expect(log.writes?.('info')).toBe(level !== 'silent')
  }
  expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(['at info', 'at debug'])
})
