/** HTTPS at `listen`: both servers behind it, client certificates, rotation and limits. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ConfigError } from '../../../src/config/problem.ts'
import { certificate as other } from '../../cli/doctor/certificate.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { localhost } from '../../kit/localhost-certificate.ts'
import { nodeConfig, startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { DONE, token } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n'

let folder: string
let engine: FakeEngine
let gateway: NodeGateway
const clients: tls.TLSSocket[] = []

const at = (name: string): string => join(folder, name)
const documentOf = (more: object = {}) => ({
  log: { level: 'info' },
  tls: { cert: at('cert.pem'), key: at('key.pem') },
  clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: engine.url }] }] }],
  ...more,
})

function write(pair: { readonly cert: string; readonly key: string }): void {
  writeFileSync(at('cert.pem'), pair.cert)
  writeFileSync(at('key.pem'), pair.key)
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'firstlight-tls-'))
  write(localhost)
  const body = token('Hello') + DONE
  engine = await FakeEngine.open({
    'POST *': ({ socket }) => void socket.write(`${HEAD}content-length: ${body.length}\r\n\r\n${body}`),
  })
})

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  await gateway?.close()
  await engine.close()
  rmSync(folder, { recursive: true })
})

interface Answer {
  readonly status: number
  readonly text: string
  readonly peer: string
}

interface Ask extends tls.SecureContextOptions {
  readonly path?: string
  readonly content?: string
  readonly agent?: https.Agent
}

/** A chat, or a GET of `path`. Trusts both certificates, under any name. */
function ask({ path, content = 'hi', agent, ...context }: Ask = {}): Promise<Answer> {
  const options: https.RequestOptions = {
    method: path === undefined ? 'POST' : 'GET',
    headers: { 'content-type': 'application/json' },
    ca: [localhost.cert, other.cert],
    checkServerIdentity: () => undefined,
    ...(agent === undefined ? { agent: false } : { agent }),
    ...context,
  }
  return new Promise((resolve, reject) => {
    const request = https.request(new URL(path ?? '/v1/chat/completions', gateway.url), options)
    request.on('error', reject)
    request.on('response', (response: IncomingMessage) => {
      const peer = (response.socket as tls.TLSSocket).getPeerCertificate().subject.CN
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.on('end', () => resolve({ status: response.statusCode!, text, peer: String(peer) }))
    })
    request.end(
      path === undefined
        ? JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content }] })
        : undefined,
    )
  })
}

const events = (name: string) => gateway.lines.filter(({ event }) => event === name)

describe('a gateway with a certificate', () => {
  it('a gateway with a certificate serves inference and all other routes over connections that are kept', async () => {
    gateway = await startNodeGateway(documentOf())
    expect(gateway.url).toMatch(/^https:/)
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 })
    for (let count = 0; count < 3; count++) {
      const chat = await ask({ agent })
      expect([chat.status, chat.text.includes('Hello'), chat.text.includes('[DONE]')]).toEqual([200, true, true])
      expect((await ask({ agent, path: '/health' })).status).toBe(200)
    }
    expect((await ask({ agent, content: 'x'.repeat(400_000) })).status).toBe(200)
    expect(engine.posts.at(-1)!.raw.length).toBeGreaterThan(400_000)
    agent.destroy()
  })

  it('a gateway with a certificate refuses plain HTTP, and names the cause of a failed handshake', async () => {
    gateway = await startNodeGateway(documentOf())
    const { hostname, port } = new URL(gateway.url)
    const plain = connect(Number(port), hostname)
    plain.on('error', () => {})
    plain.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n')
    await new Promise((resolve) => plain.once('close', resolve))
    await until(() => events('tls_handshake_failed').length > 0)
    expect(events('tls_handshake_failed')[0]).toMatchObject({ level: 'warn', why: 'ERR_SSL_HTTP_REQUEST' })
    expect((await ask()).status).toBe(200)
  })

  it('a gateway with a certificate serves only clients with a certificate of `client_ca`', async () => {
    writeFileSync(at('clients.pem'), localhost.cert)
    gateway = await startNodeGateway(
      documentOf({ tls: { cert: at('cert.pem'), key: at('key.pem'), client_ca: at('clients.pem') } }),
    )
    await expect(ask()).rejects.toThrow()
    await expect(ask({ cert: other.cert, key: other.key })).rejects.toThrow()
    expect((await ask({ cert: localhost.cert, key: localhost.key })).status).toBe(200)
    expect(engine.posts.length).toBe(1)
    expect(events('tls_handshake_failed')[0]).toMatchObject({ why: 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE' })
  })

  it('a gateway with a certificate uses a replaced certificate, and keeps the old one beside files that are bad', async () => {
    gateway = await startNodeGateway(documentOf())
    const reload = () => gateway.adopt(nodeConfig(documentOf()))
    expect((await ask()).peer).toBe('localhost')
    write(other)
    await reload()
    expect((await ask()).peer).toBe('other.example')
    expect(events('certificate_renewed')).toHaveLength(1)
    writeFileSync(at('key.pem'), localhost.key)
    await reload()
    writeFileSync(at('cert.pem'), 'no certificate')
    await reload()
    rmSync(at('cert.pem'))
    await reload()
    expect((await ask()).peer).toBe('other.example')
    expect(events('certificate_refused').map(({ setting, file, why }) => [setting, file, why])).toEqual([
      ['tls.key', at('key.pem'), 'does not fit the certificate in tls.cert'],
      ['tls.cert', at('cert.pem'), expect.stringMatching(/^is not a certificate in PEM form \(ERR_OSSL_\w+\)$/)],
      ['tls.cert', at('cert.pem'), 'cannot be read (ENOENT)'],
    ])
    write(localhost)
    await reload()
    expect((await ask()).peer).toBe('localhost')
  })

  it('a gateway with a certificate closes connections beyond `limits.connections`, and a client that reads nothing', async () => {
    const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`
    engine.routes['POST *'] = ({ socket }) => {
      const more = (): void => {
        if (!socket.destroyed) socket.write(chunk, () => setImmediate(more))
      }
      socket.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`)
      more()
    }
    gateway = await startNodeGateway(documentOf({ limits: { connections: 1, write_ms: 200 } }))
    const { port } = new URL(gateway.url)
    const silent = tls.connect({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false })
    clients.push(silent)
    silent.on('error', () => {})
    const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] })
    silent.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    )
    await until(() => engine.posts.length === 1)
    await expect(ask({ path: '/health' })).rejects.toThrow()
    await until(() => events('write_timeout').length === 1)
    await until(async () => (await ask({ path: '/health' }).catch(() => null))?.status === 200)
    expect(events('connections_full').length).toBeGreaterThan(0)
  })
})

describe('a gateway whose certificate cannot be used', () => {
  it.each([
    ['a missing certificate', () => rmSync(at('cert.pem')), 'tls.cert', /^cannot be read \(ENOENT\)$/],
    ['a malformed certificate', () => writeFileSync(at('cert.pem'), 'x'), 'tls.cert', /^is not a certificate in PEM/],
    [
      'a malformed key',
      () => writeFileSync(at('key.pem'), 'x'),
      'tls.key',
      /^is not a private key without a passphrase/,
    ],
    ['the key of another one', () => writeFileSync(at('key.pem'), other.key), 'tls.key', /^does not fit/],
  ])('a gateway whose certificate cannot be used does not start with %s', async (_, spoil, path, rule) => {
    gateway = await startNodeGateway({ ...documentOf(), tls: undefined })
    spoil()
    const error = (await startNodeGateway(documentOf()).then(
      () => null,
      (thrown: unknown) => thrown,
    )) as ConfigError
    expect(error).toBeInstanceOf(ConfigError)
    const file = path === 'tls.key' ? at('key.pem') : at('cert.pem')
    expect(error.problems[0]).toMatchObject({ path, value: file, rule: expect.stringMatching(rule) })
    expect(error.message).not.toContain('PRIVATE KEY')
  })
})
