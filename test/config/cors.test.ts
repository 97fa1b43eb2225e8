import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const read = (cors: unknown, more: object = {}): Config =>
  parseConfig(
    {
      cors,
      clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }] }],
      ...more,
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )

function problem(cors: unknown): readonly (string | null)[] {
  try {
    read(cors)
  } catch (error) {
    const { problems } = error as ConfigError
    expect(problems).toHaveLength(1)
    return [problems[0]!.path, problems[0]!.value, problems[0]!.rule]
  }
  return []
}

describe('cors.origins', () => {
  it('cors.origins are empty by default, with preflights cached for ten minutes', () => {
    expect(read(undefined).cors).toBeNull()
    expect(read({ origins: ['*'] }).cors).toEqual({ origins: ['*'], maxAgeS: 600 })
    expect(read({ origins: ['*'], max_age_s: 0 }).cors).toEqual({ origins: ['*'], maxAgeS: 0 })
  })

  it.each([
    'https://chat.example.com',
    'http://localhost:3000',
    'http://[::1]:3000',
    'https://xn--bcher-kva.example',
    'chrome-extension://abcdefghijklmnop',
    'tauri://localhost',
  ])('cors.origins may be %s', (origin) => {
    expect(read({ origins: [origin] }).cors?.origins).toEqual([origin])
  })

  it.each([
    'https://chat.example.com/',
    'https://chat.example.com/app',
    'https://chat.example.com?x=1',
    'https://user:password@chat.example.com',
    'https://Chat.example.com',
    'HTTPS://chat.example.com',
    'https://chat.example.com:443',
    'https://chat.example.com:70000',
    'https://bücher.example',
    'https://*.example.com',
    'https://a.example, https://b.example',
    'https://',
    'https:chat.example.com',
    'chat.example.com',
    'localhost:3000',
    'tauri://localhost/',
    'file://',
    'null',
    '',
    ' *',
  ])('cors.origins may not be %s', (origin) => {
    const [path, value, rule] = problem({ origins: ['https://a.example', origin] })
    expect(path).toBe('cors.origins[1]')
    expect(value).toBe(JSON.stringify(origin.replace(/\/\/.*@/, '//…@')))
    expect(rule).toContain('origins as browsers send them, like https://chat.example.com')
  })

  it('cors.origins are either * or a list', () => {
    expect(problem({ origins: ['*', 'https://a.example'] })).toEqual([
      'cors.origins',
      null,
      expect.stringContaining('"*" alone'),
    ])
    expect(problem({ origins: [] })).toEqual(['cors.origins', null, expect.stringContaining('at least 1')])
    expect(problem({})).toEqual(['cors.origins', null, expect.stringContaining('is required')])
    expect(problem({ origins: ['*'], max_age_s: 86_401 })).toEqual([
      'cors.max_age_s',
      '86401',
      expect.stringContaining('at most 86400'),
    ])
    expect(problem({ origins: ['*'], credentials: true })).toEqual([
      'cors.credentials',
      'true',
      expect.stringContaining('is not a known key'),
    ])
  })

  it('cors.origins are in the summary, with a note if any page may use a gateway without keys', () => {
    const note = 'any web page that can connect'
    const some = summarise(read({ origins: ['https://a.example', 'http://localhost:3000'] }))
    expect(some.settings['pages of']).toBe('https://a.example, http://localhost:3000')
    expect(some.notes.join()).not.toContain(note)
    const all = summarise(read({ origins: ['*'] }))
    expect(all.settings['pages of']).toBe('any origin')
    expect(all.notes.join()).toContain(note)
    expect(summarise(read({ origins: ['*'] }, { keys: [{ name: 'k', secret: 's' }] })).notes.join()).not.toContain(note)
    expect(summarise(read(undefined)).settings['pages of']).toBeUndefined()
  })
})
