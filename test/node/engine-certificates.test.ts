import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { generateKeyPairSync } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { EngineCertificates } from '../../src/platform/node/engine-certificates.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway } from '../kit/gateway.ts'
import { localhost } from '../kit/localhost-certificate.ts'
import { completion } from '../kit/sse.ts'

let folder: string
let ca: string
let cert: string
let key: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'engine-certificates-'))
  ca = join(folder, 'ca.pem')
  cert = join(folder, 'cert.pem')
  key = join(folder, 'key.pem')
  for (const file of [ca, cert]) writeFileSync(file, localhost.cert)
  writeFileSync(key, localhost.key)
})
afterEach(() => rmSync(folder, { recursive: true }))

const otherKey = (): string =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string

async function statusWith(tls: object, secure: object = localhost): Promise<number> {
  await using engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } }, { secure })
  const pools = [{ model: 'm', retry: { share: 0, min_per_s: 0 }, engines: [{ id: 'a', url: engine.url, tls }] }]
  await using gateway = await openGateway({ runtime: 'node', config: { clusters: [{ id: 'c', pools }] } })
  const response = await gateway.chat({ model: 'm' })
  await response.text()
  return response.status
}

describe('certificates of engines', () => {
  it('an engine that asks for a certificate gets the one of its configuration', async () => {
    const mutual = { ...localhost, requestCert: true, rejectUnauthorized: true, ca: localhost.cert }
    expect(await statusWith({ ca, cert, key }, mutual)).toBe(200)
    expect(await statusWith({ ca }, mutual)).toBeGreaterThanOrEqual(502)
  })

  it('an engine with a certificate of an own authority is trusted by its `ca` alone', async () => {
    expect(await statusWith({ ca })).toBe(200)
    expect(await statusWith({ cert, key })).toBeGreaterThanOrEqual(502)
  })

  it.each([
    ['a missing file', () => rmSync(cert), 'tls.cert', 'cannot be read (ENOENT)'],
    ['a key of another certificate', () => writeFileSync(key, otherKey()), 'tls.key', 'does not fit the certificate'],
    ['a file that is no key', () => writeFileSync(key, 'x'), 'tls.key', 'is not a private key'],
    ['a file that is no authority', () => writeFileSync(ca, 'x'), 'tls.ca', 'is not a certificate in PEM form'],
  ])('%s stops the start with path and file', async (_name, spoil, path, rule) => {
    spoil()
    const error = await statusWith({ ca, cert, key }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    const [problem] = (error as ConfigError).problems
    expect(problem).toMatchObject({ path: `clusters[0].pools[0].engines[0].${path}` })
    expect(problem!.rule).toContain(rule)
  })

  it('files that were replaced are used by new connections, and a bad one leaves the old one in use', () => {
    let now = 0
    const lines: (readonly [string, unknown])[] = []
    const log = {
      info: (event: string, fields: unknown) => void lines.push([event, fields]),
      error: (event: string, fields: unknown) => void lines.push([event, fields]),
    }
    const certificates = new EngineCertificates(() => now, log)
    const tls = { ca, cert, key }
    const first = certificates.optionsFor(tls)
    expect(first).toEqual({ ca: localhost.cert, cert: localhost.cert, key: localhost.key })
    const replace = (file: string, text: string): void => {
      writeFileSync(file, text)
      now += 10_000
      utimesSync(file, now, now)
    }
    replace(ca, `${localhost.cert}\n`)
    expect(certificates.optionsFor(tls).ca).toBe(`${localhost.cert}\n`)
    replace(key, otherKey())
    expect(certificates.optionsFor(tls).key).toBe(localhost.key)
    expect(certificates.optionsFor(tls).key).toBe(localhost.key)
    expect(lines.map(([event]) => event)).toEqual(['engine_certificate_renewed', 'engine_certificate_refused'])
    expect(JSON.stringify(lines)).not.toContain('PRIVATE')
  })
})

const problemsOf = (engine: object, listens = true): readonly string[] => {
  const pools = [{ model: 'm', engines: [{ id: 'a', url: 'https://10.0.0.1', ...engine }] }]
  try {
    parseConfig(
      { open: true, clusters: [{ id: 'c', pools }] },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens },
    )
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, rule }) => `${path.replace('clusters[0].pools[0].engines[0].', '')}: ${rule}`)
  }
}

it.each([
  [{ tls: { ca: 'ca.pem' } }, 'tls.ca: must be an absolute path'],
  [{ tls: { cert: '/a' } }, 'tls: has `cert` without `key`'],
  [{ tls: { key: '/a' } }, 'tls: has `key` without `cert`'],
  [{ tls: {} }, 'tls: names no file: set `ca`, or `cert` and `key`'],
  [{ url: 'http://10.0.0.1', tls: { ca: '/a' } }, 'tls: needs an https `url`'],
])('certificates of engines are refused: %j', (engine, problem) => {
  expect(problemsOf(engine)).toEqual([problem])
})

it('certificates of engines are refused on Workers', () => {
  expect(problemsOf({ tls: { ca: '/a' } }, false)).toEqual([
    'tls: needs `firstlight serve` on Node: on Workers use an mTLS `binding`',
  ])
})
