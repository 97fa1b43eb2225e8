import { describe, expect, it } from 'vitest'
import { connectErrorOf } from '../../src/cli/connect-error.ts'
import { firstlight } from './run-cli.ts'
import { visit } from './doctor/ask.ts'
import { certificate } from './doctor/certificate.ts'
import { FASTAPI, realVllm } from './doctor/recorded-vllm.ts'
import { SILENCE } from '../kit/fake-answer.ts'
import { useEngines } from '../kit/use-engines.ts'

const stub = useEngines(FASTAPI)

/** Address of a server that sends these bytes on every connection; null: none. */
const speaks = async (bytes: string | null): Promise<string> =>
  (await stub({ '*': bytes === null ? SILENCE : { raw: bytes, end: 'close' } })).url

/** The error and next step for the one configured server. */
async function reached(...argv: string[]) {
  const { code, subjects } = await visit(...argv)
  const found = subjects[0]!.findings[0]!
  return { code, mark: found.mark, message: found.message, next: found.next }
}

describe('firstlight doctor for an unreachable server', () => {
  it('doctor for an unreachable server reports a closed port', async () => {
    const server = await stub()
    await server.close()
    const { url } = server
    expect(await reached(url)).toMatchObject({
      code: 2,
      mark: 'unreachable',
      message: `connection refused by ${new URL(url).host}`,
      next: expect.stringContaining('Check that it runs'),
    })
  })

  it('doctor for an unreachable server does not wait for a silent server', async () => {
    expect(await reached(await speaks(null), '--timeout-s', '0.3')).toMatchObject({
      code: 2,
      message: 'connected, but no answer within 0.3 s',
    })
  })

  it('doctor for an unreachable server recognises a server that is not HTTP, and a reset connection', async () => {
    expect(await reached(await speaks('220 smtp.example ESMTP\r\n'))).toMatchObject({
      code: 2,
      message: 'the server does not use HTTP/1.1',
    })
    expect(await reached(await speaks(''))).toMatchObject({ code: 2, message: 'the connection was reset' })
  })

  it('doctor for an unreachable server reports an untrusted certificate with the variable for it', async () => {
    const { url } = await stub(realVllm, { secure: certificate })
    expect(await reached(url)).toMatchObject({
      code: 2,
      message: expect.stringContaining('the certificate is not trusted'),
      next: expect.stringContaining('NODE_EXTRA_CA_CERTS'),
    })
  })

  it('doctor for an unreachable server recognises TLS on a plain port and the reverse', async () => {
    const plain = await stub(realVllm)
    expect(await reached(plain.url.replace('http:', 'https:'))).toMatchObject({
      code: 2,
      message: 'the server does not use TLS',
      next: `Use ${plain.url}.`,
    })
    const secure = await stub(realVllm, { secure: certificate })
    expect(await reached(secure.url.replace('https:', 'http:'))).toMatchObject({
      code: 2,
      next: expect.stringContaining(secure.url),
    })
  })

  it.each([
    ['ENOTFOUND', 'getaddrinfo ENOTFOUND engine.example', 'the name engine.example cannot be resolved here'],
    ['CERT_HAS_EXPIRED', 'certificate has expired', 'the certificate has expired'],
    [
      'ERR_TLS_CERT_ALTNAME_INVALID',
      "Hostname/IP does not match certificate's altnames: DNS:other.example",
      'the certificate is not for engine.example: DNS:other.example',
    ],
    ['ETIMEDOUT', 'connect ETIMEDOUT', 'no connection within 5 s'],
    ['EHOSTUNREACH', 'connect EHOSTUNREACH', 'there is no route to engine.example'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'alert', 'TLS fails (ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION)'],
    ['ESOMETHING', 'something else', 'request failed: something else'],
  ])('doctor for an unreachable server has words for %s', (code, message, says) => {
    const trouble = connectErrorOf(Object.assign(new Error(message), { code }), {
      url: 'https://engine.example:8000',
      connected: false,
      limitMs: 5000,
    })
    expect(trouble).toMatchObject({ code, message: says })
    expect(trouble.next).not.toBe('')
  })

  it('doctor for an unreachable server reads the errors of all addresses of one name', () => {
    const both = new AggregateError(
      [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })],
      'both',
    )
    expect(connectErrorOf(both, { url: 'http://localhost:1', connected: false, limitMs: 1 }).message).toBe(
      'connection refused by localhost:1',
    )
  })

  it('doctor for an unreachable server reports a key that is no valid header', async () => {
    expect(await reached((await stub(realVllm)).url, '--key', 'two\nlines')).toMatchObject({
      code: 2,
      message: expect.stringContaining('a character that is invalid in HTTP'),
    })
  })

  it('doctor for an unreachable server follows no redirect', async () => {
    const { url } = await stub({
      'GET /health': { status: 307, headers: { location: 'https://elsewhere.example/health' } },
    })
    expect(await reached(url)).toMatchObject({
      code: 1,
      mark: 'problem',
      message: 'it redirects to https://elsewhere.example/health',
    })
  })

  it('doctor for an unreachable server reports an unhealthy engine', async () => {
    const { url } = await stub({ ...realVllm, 'GET /health': { status: 503 } })
    expect(await reached(url)).toMatchObject({ code: 1, mark: 'problem', message: '/health returns 503' })
  })

  it('doctor for an unreachable server examines the others nevertheless', async () => {
    const well = await stub(realVllm)
    const { code, subjects } = await visit('http://127.0.0.1:1', well.url)
    expect(code).toBe(2)
    expect(subjects.map(({ is }) => is)).toEqual(['', 'vLLM 0.32.0'])
  })
})

describe('firstlight doctor and its command line', () => {
  it.each([
    [['127.0.0.1:8000'], 'is not the URL of a server'],
    [['ftp://127.0.0.1'], 'is not the URL of a server'],
    [['http://user:hush@127.0.0.1:8000'], 'has a password in it'],
    [['http://127.0.0.1:1', '--config', 'x.yaml'], 'either URLs or --config'],
    [['http://127.0.0.1:1', '--header', 'nothing'], '--header must be NAME:VALUE'],
    [['--config', 'not-here.yaml'], 'There is no file not-here.yaml'],
    [['http://127.0.0.1:1', '--timeout-s', '0'], '--timeout-s must be a number'],
  ])('%j is answered with a next step and exit code 2', async (argv, message) => {
    const { code, err } = await firstlight('doctor', ...argv)
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(message) })
    expect(err).not.toContain('hush')
  })

  it('doctor accepts the base URL of clients, and sends the given headers', async () => {
    let token: string | undefined
    const server = await stub({
      ...realVllm,
      'GET /version': (request) => ((token = request.headers['cf-access']), { body: { version: '1' } }),
    })
    const { subjects } = await visit(`${server.url}/v1/`, '--header', 'CF-Access: abc')
    expect(subjects[0]).toMatchObject({ url: server.url, is: 'vLLM 1' })
    expect(token).toBe('abc')
  })
})
