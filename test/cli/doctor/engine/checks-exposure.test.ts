import { describe, expect, it } from 'vitest'
import { checkKey } from '../../../../src/cli/doctor/engine/checks-key.ts'
import { checkExposure } from '../../../../src/cli/doctor/engine/checks-exposure.ts'
import type { EngineFacts } from '../../../../src/cli/doctor/engine/facts.ts'
import { Findings } from '../../../../src/cli/doctor/finding.ts'
import { reachOf, type Reach } from '../../../../src/cli/doctor/reach.ts'
import { countsOf, exitCodeOf } from '../../../../src/cli/doctor/report.ts'

describe('the reach of an address', () => {
  it.each<[string, Reach]>([
    ['http://127.0.0.1:8000', 'loopback'],
    ['http://localhost:8000', 'loopback'],
    ['http://[::1]:8000', 'loopback'],
    ['http://10.1.2.3:8000', 'private'],
    ['http://172.31.0.1', 'private'],
    ['http://172.32.0.1', 'public'],
    ['http://192.168.1.9', 'private'],
    ['http://100.64.0.1', 'private'],
    ['http://[fd00::1]:8000', 'private'],
    ['http://[2001:db8::1]:8000', 'public'],
    ['http://engine-0:8000', 'private'],
    ['http://vllm.default.svc.cluster.local', 'private'],
    ['https://engine.example.com', 'public'],
    ['http://8.8.8.8', 'public'],
  ])('%s is %s', (url, reach) => expect(reachOf(url)).toBe(reach))
})

const facts = (reach: Reach, more: object = {}) =>
  ({
    reach,
    version: null,
    switches: { paused: false, sleeping: false, loadsAdapters: true, profiles: true },
    events: [],
    ...more,
  }) as unknown as EngineFacts

function exposed(given: EngineFacts): string[] {
  const found = new Findings()
  checkExposure(given, found)
  return found.list.map(({ check, mark }) => `${check}: ${mark}`)
}

describe('endpoints that must not be public', () => {
  it('endpoints that must not be public are a note on loopback, a warning in a network, and a problem in public', () => {
    expect(exposed(facts('loopback'))).toEqual(['dev_mode: note', 'adapter_loading: note', 'profiler: note'])
    expect(exposed(facts('private'))).toEqual(['dev_mode: warning', 'adapter_loading: warning', 'profiler: warning'])
    expect(exposed(facts('public'))).toEqual(['dev_mode: problem', 'adapter_loading: problem', 'profiler: problem'])
    expect(exposed(facts('public', { guarded: true }))).toEqual([
      'dev_mode: note',
      'adapter_loading: note',
      'profiler: note',
    ])
    expect(
      exposed(facts('public', { switches: { paused: null, sleeping: null, loadsAdapters: false, profiles: false } })),
    ).toEqual([])
  })

  it('endpoints that must not be public is all of a vLLM but /v1, at a public address, whatever its key', () => {
    const switches = { paused: null, sleeping: null, loadsAdapters: false, profiles: false }
    const marks = (more: object) =>
      exposed(facts('public', { switches, version: '0.32.0', withoutKey: 401, guarded: false, ...more }))
    expect([marks({}), marks({ guarded: true }), marks({ version: null }), marks({ reach: 'private' })]).toEqual([
      ['open_routes: warning'],
      [],
      [],
      [],
    ])
  })

  it.each([
    ['tcp://*:5557', true],
    ['tcp://0.0.0.0:5557', true],
    ['tcp://10.0.0.1:5557', true],
    ['tcp://[::]:5557', true],
    ['tcp://127.0.0.1:5557', false],
    ['tcp://localhost:5557', false],
    ['tcp://[::1]:5557', false],
    ['ipc:///tmp/events', false],
  ])('an event socket at %s: %s', (endpoint, open) => {
    const switches = { paused: null, sleeping: null, loadsAdapters: false, profiles: false }
    const seen = (enabled: boolean) =>
      exposed(facts('loopback', { switches, events: [{ rank: '0', enabled, endpoint, replayEndpoint: null }] }))
    expect(seen(true)).toEqual(open ? ['event_sockets: warning'] : [])
    expect(seen(false)).toEqual([])
  })

  it('endpoints that must not be public include an engine without a key, by its reach', () => {
    const marks = (reach: Reach, keyed: boolean, withoutKey: number | null) => {
      const found = new Findings()
      checkKey(facts(reach, { keyed, withoutKey, models: { result: { status: 200 } } }), null, found)
      return found.list.map(({ mark }) => mark)
    }
    expect([marks('loopback', false, 200), marks('private', false, 200), marks('public', false, 200)]).toEqual([
      ['ok'],
      ['note'],
      ['problem'],
    ])
    // Protected by other headers, as with Cloudflare Access.
    expect(marks('public', false, 302)).toEqual(['ok'])
    expect([marks('private', true, 401), marks('private', true, 200), marks('public', true, 200)]).toEqual([
      ['ok'],
      ['warning'],
      ['problem'],
    ])
  })
})

describe('the exit code', () => {
  const code = (marks: readonly string[], strict = false) =>
    exitCodeOf(
      countsOf([
        {
          kind: 'engine',
          name: 'a',
          url: null,
          is: '',
          findings: marks.map((mark) => ({ check: 'x', mark, message: '' }) as never),
        },
      ]),
      strict,
    )
  it('the exit code is 0 for ok and notes, 1 for problems, 2 for unreachable', () => {
    expect([
      code(['ok', 'note', 'warning']),
      code(['warning'], true),
      code(['note'], true),
      code(['problem']),
      code(['problem', 'unreachable']),
    ]).toEqual([0, 1, 0, 1, 2])
  })
})
