import { X509Certificate } from 'node:crypto'
import { connect } from 'node:tls'
import { expect, it } from 'vitest'
import { selfSigned } from '../../../src/platform/node/self-signed.ts'
import { FULL_DUPLEX, ProxyCall } from '../../kit/ext-proc-client.ts'
import { type CallEnd, GrpcTestClient } from '../../kit/grpc-client.ts'
import { openPicker } from '../../kit/open-picker.ts'
import { fieldsOf, message } from '../../kit/protobuf.ts'
import { DONE, token } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const HEALTH = '/grpc.health.v1.Health'
const SERVICE = 'envoy.service.ext_proc.v3.ExternalProcessor'
const chat = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] })

/** Status of a health check; null: the call failed. */
async function check(client: GrpcTestClient, service: string): Promise<number | CallEnd> {
  const call = client.call(`${HEALTH}/Check`)
  call.send(message([[1, service]]))
  const end = await call.ended
  return call.messages.length === 0 ? end : Number(fieldsOf(call.messages[0]!).get(1)![0])
}

it('the health service has the names of the extension, and no others', async () => {
  await using picker = await openPicker()
  for (const service of ['', 'liveness', 'readiness', SERVICE]) expect(await check(picker.client, service)).toBe(1)
  expect(await check(picker.client, 'other')).toMatchObject({ status: 5 })
})

it('a shutdown reports it to watchers and serves running requests to their end', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const watch = client.call(`${HEALTH}/Watch`)
  watch.send(message([[1, 'readiness']]))
  await until(() => watch.messages.length === 1)
  const call = new ProxyCall(client, FULL_DUPLEX)
  await call.request({ body: chat })
  call.responseHead(200, { 'content-type': 'text/event-stream' })
  call.responseBody(token('hello'), false)
  const stopped = gateway.node.stop(new AbortController().signal)
  expect((await watch.ended).status).toBe(14)
  expect(watch.messages.map((bytes) => fieldsOf(bytes).get(1)![0])).toEqual([1, 2])
  await until(() => client.goaways.length === 2)
  expect(client.goaways[0]).toBe(2 ** 31 - 1)
  call.responseBody(DONE, true)
  await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
  expect(call.text('response_body')).toBe(token('hello') + DONE)
  call.call.halfClose()
  expect(await stopped).toEqual({ timedOut: false })
  expect(gateway.logged('request').at(-1)).toMatchObject({ result: 'complete' })
})

it('a shutdown that does not wait abandons running requests', async () => {
  await using picker = await openPicker()
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  await call.request({ body: chat })
  call.responseHead(200, { 'content-type': 'text/event-stream' })
  call.responseBody(token('hello'), false)
  await call.next(({ kind }) => kind === 'response_body')
  await picker.gateway.node.stop(AbortSignal.abort())
  await call.ended
  expect(picker.gateway.logged('request').at(-1)).toMatchObject({ result: 'abandoned' })
})

it('more requests than Node’s own limit of resets leave the connection open', { timeout: 60_000 }, async () => {
  await using picker = await openPicker()
  for (let batch = 0; batch < 15; batch++) {
    const calls = Array.from({ length: 100 }, async () => {
      const call = new ProxyCall(picker.client)
      call.head({})
      call.call.abort()
      await call.ended
    })
    await Promise.all(calls)
  }
  expect(picker.client.session.destroyed).toBe(false)
  expect(await check(picker.client, 'readiness')).toBe(1)
})

it('the certificate of its own is accepted by a client that trusts it', async () => {
  const { cert } = selfSigned(Date.UTC(2026, 0, 1))
  const certificate = new X509Certificate(cert)
  expect(certificate.verify(certificate.publicKey)).toBe(true)
  expect(certificate.validToDate.getUTCFullYear()).toBe(2035)
  await using picker = await openPicker({ epp: { tls: 'self_signed', health: '127.0.0.1:0' } })
  const [host, port] = picker.gateway.node.picker!.split(':')
  const socket = connect({ host: host!, port: Number(port), ALPNProtocols: ['h2'], rejectUnauthorized: false })
  await until(() => socket.authorizationError !== null && socket.getProtocol() !== null)
  expect(socket.alpnProtocol).toBe('h2')
  const pem = new X509Certificate(socket.getPeerCertificate().raw).toString()
  socket.destroy()
  const client = new GrpcTestClient(`localhost:${port}`, { ca: pem, servername: 'firstlight-endpoint-picker' })
  expect(await check(client, 'liveness')).toBe(1)
  client.session.destroy()
})
