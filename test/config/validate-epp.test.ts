import { expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'

interface Changes {
  readonly epp?: object
  readonly url?: string
  readonly listens?: boolean
}

const parsed = ({ epp = {}, url = 'http://10.0.0.1:8000', listens = true }: Changes): Config =>
  parseConfig(
    {
      listen: '127.0.0.1:8080',
      epp,
      clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url }] }] }],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens },
  )

it('an empty section has the port of the extension, its own certificate and one engine', () => {
  expect(parsed({}).epp).toMatchObject({
    listen: { host: '0.0.0.0', port: 9002 },
    health: null,
    tls: 'self_signed',
    fallbacks: 0,
    objectives: {},
  })
})

it('a Worker has no endpoint picker, and the error says why', () => {
  expect(() => parsed({ listens: false })).toThrow(/epp.*a Worker cannot serve gRPC/)
})

it('the ports of the process differ', () => {
  expect(() => parsed({ epp: { listen: '127.0.0.1:8080' } })).toThrow(/epp\.listen.*must differ from `listen`/)
  expect(() => parsed({ epp: { health: ':9002' } })).toThrow(/epp\.health.*must differ/)
})

it.each(['https://10.0.0.1:8000', 'http://10.0.0.1:8000/base'])('an engine at %s is no destination', (url) => {
  expect(() => parsed({ url })).toThrow(/clusters\[0\]\.pools\[0\]\.engines\[0\]\.url.*cannot be a destination/)
})

it('objectives are read only for pools of `discover: inferencepool`', () => {
  expect(() => parsed({ epp: { read_objectives: true } })).toThrow(/epp\.read_objectives.*discover: inferencepool/)
})

it('values outside their range are rejected with their path', () => {
  expect(() => parsed({ epp: { fallbacks: 9 } })).toThrow(/epp\.fallbacks/)
  expect(() => parsed({ epp: { tls: 'on' } })).toThrow(/epp\.tls/)
  expect(() => parsed({ epp: { objectives: { a: 'high' } } })).toThrow(/epp\.objectives\.a/)
})
