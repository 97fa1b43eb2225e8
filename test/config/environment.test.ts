import { describe, expect, it } from 'vitest'
import { ConfigError } from '../../src/config/problem.ts'
import { parseConfigText } from '../../src/config/parse.ts'

const clusters = 'clusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "http://127.0.0.1:9" }] }] }]'
const parse = (environment: Record<string, string>, text = '') =>
  parseConfigText(`${clusters}\n${text}`, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true, environment })

describe('environment variables', () => {
  it('supply settings that the document leaves out', () => {
    const { log, traces, listen } = parse({
      LOG_LEVEL: 'WARN',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
      OTEL_SERVICE_NAME: 'edge-1',
      PORT: '9000',
    })
    expect({ level: log.level, endpoint: traces.endpoint, service: traces.service, listen }).toEqual({
      level: 'warn',
      endpoint: 'http://collector:4318',
      service: 'edge-1',
      listen: { host: '127.0.0.1', port: 9000 },
    })
  })

  it('environment variables do not change settings of the document', () => {
    const text = 'listen: 127.0.0.1:1\nlog: { level: error }\ntraces: { service: mine }'
    const { log, traces, listen } = parse({ LOG_LEVEL: 'debug', OTEL_SERVICE_NAME: 'other', PORT: '2' }, text)
    expect([log.level, traces.service, listen.port]).toEqual(['error', 'mine', 1])
  })

  it.each(['open: true', `keys: [{ name: a, secret: ${'k'.repeat(32)} }]`])(
    'PORT listens on all interfaces with %s',
    (text) => expect(parse({ PORT: '9000' }, text).listen).toEqual({ host: '0.0.0.0', port: 9000 }),
  )

  it.each([
    ['PORT', '70000', 'must be a port, 0 to 65535'],
    ['PORT', 'http', 'must be a port, 0 to 65535'],
    ['LOG_LEVEL', 'loud', 'must be debug, info, warn, error, silent'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', 'must be a URL that starts with http:// or https://'],
    ['OTEL_SERVICE_NAME', 'x'.repeat(256), 'must have 1 to 255 characters'],
  ])('%s=%s stops the start', (name, value, rule) => {
    expect(() => parse({ [name]: value })).toThrow(ConfigError)
    expect(() => parse({ [name]: value })).toThrow(name)
    expect(() => parse({ [name]: value })).toThrow(rule)
  })

  it('environment variables without a value have no effect', () => {
    expect(parse({ PORT: '', LOG_LEVEL: '' }).listen.port).toBe(8080)
  })
})
