import { expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'

interface Changes {
  readonly keda?: object
  readonly pool?: object
  readonly more?: object
  readonly listens?: boolean
}

const parsed = ({ keda = {}, pool = { slo: { ttft_ms: 5000 } }, more = {}, listens = true }: Changes): Config =>
  parseConfig(
    {
      listen: '127.0.0.1:8080',
      keda,
      clusters: [{ id: 'c', pools: [{ model: 'm', ...pool, engines: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }] }],
      ...more,
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens },
  )

it('an empty section has a port of its own, without TLS', () => {
  expect(parsed({}).keda).toEqual({ listen: { host: '0.0.0.0', port: 9004 }, tls: 'off' })
})

it('a Worker has no external scaler, and the error says why', () => {
  expect(() => parsed({ listens: false })).toThrow(/keda.*a Worker cannot serve gRPC/)
})

it('the port of the scaler differs from those of the gateway and of the endpoint picker', () => {
  expect(() => parsed({ keda: { listen: '127.0.0.1:8080' } })).toThrow(/keda\.listen.*must differ from `listen`/)
  expect(() => parsed({ keda: { listen: ':9002' }, more: { epp: {} } })).toThrow(/keda\.listen.*must differ/)
  expect(() => parsed({ keda: { listen: ':9003' }, more: { epp: { health: ':9003' } } })).toThrow(/keda\.listen/)
})

it('a scaler without a pool that has an objective is rejected', () => {
  expect(() => parsed({ pool: {} })).toThrow(/keda.*needs a pool with `slo`/)
})

it('a value of `tls` that is neither a word nor files is rejected with its path', () => {
  expect(() => parsed({ keda: { tls: 'on' } })).toThrow(/keda\.tls/)
  expect(() => parsed({ keda: { tls: { cert: 'a.pem' } } })).toThrow(/keda\.tls\.key/)
})
