import { describe, expect, it } from 'vitest'
import { openLog } from '../../src/platform/node/log.ts'

function logged(fields: Readonly<Record<string, unknown>>, level: 'debug' | 'warn' = 'debug'): Record<string, unknown>[] {
  const lines: string[] = []
  openLog(level, { write: (line) => void lines.push(line) }).info('happened', fields)
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the log', () => {
  it('is one JSON line an event, with level, time and fields', () => {
    expect(logged({ engine: 'a' })).toEqual([{ level: 'info', time: expect.stringMatching(/^\d{4}-.*Z$/), event: 'happened', engine: 'a' }])
  })

  it('is silent below its level', () => {
    expect(logged({}, 'warn')).toEqual([])
  })

  it('drops credentials and what users wrote, whoever passes them', () => {
    expect(JSON.stringify(logged({ authorization: 'hush', prompt: 'hush', messages: ['hush'], key: 'hush', headers: ['hush'] }))).not.toContain('hush')
  })

  it('tells an error with its causes', () => {
    const error = new TypeError('outer', { cause: new Error('inner') })
    expect(logged({ error })[0]).toMatchObject({ error: { message: 'TypeError: outer <- Error: inner' } })
  })
})
