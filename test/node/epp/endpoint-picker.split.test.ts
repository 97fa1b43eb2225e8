/** Split requests behind a proxy: the picker runs the prefill leg, and the proxy gets the decode leg. */
import { expect, it, onTestFinished } from 'vitest'
import { FULL_DUPLEX, HEADS, type ProxyModes, ProxyCall } from '../../kit/ext-proc-client.ts'
import { type FakeAnswer, SILENCE } from '../../kit/fake-answer.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { openGateway } from '../../kit/gateway.ts'
import { GrpcTestClient } from '../../kit/grpc-client.ts'
import { until } from '../../wait.ts'

const TRANSFER = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_engine_id: 'p',
  remote_block_ids: [1, 2],
  remote_host: '10.0.0.1',
  remote_port: 5600,
}
const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'word '.repeat(200) }], max_tokens: 6 })

const prefilled = { body: { id: 'c', object: 'chat.completion', choices: [], kv_transfer_params: TRANSFER } }

async function openSplit(prefillLeg: FakeAnswer = prefilled) {
  const health = { 'GET /health': { body: {} }, 'GET *': { status: 404, body: {} } }
  const prefill = await FakeEngine.open({ ...health, 'POST /v1/chat/completions': prefillLeg })
  const decode = await FakeEngine.open(health)
  const gateway = await openGateway({
    engines: [
      { id: 'p', role: 'prefill', url: prefill.url },
      { id: 'd', role: 'decode', url: decode.url },
    ],
    pool: { split: { connector: 'nixl', mode: 'always' } },
    config: { epp: { listen: '127.0.0.1:0', tls: 'off' } },
  })
  const client = new GrpcTestClient(gateway.node.picker!)
  onTestFinished(async () => {
    client.session.destroy()
    await gateway.close()
    for (const engine of [prefill, decode]) await engine.close()
  })
  await until(async () => Object.values(await gateway.engines()).every(({ healthy }) => healthy === true))
  return { prefill, decode: new URL(decode.url).host, gateway, client }
}

async function placed(client: GrpcTestClient, modes: ProxyModes) {
  const call = new ProxyCall(client, modes)
  const answer = await call.request({ body })
  await call.next(({ kind, endOfStream }) => kind === 'request_body' && endOfStream)
  const sent = JSON.parse(call.text('request_body')) as Readonly<Record<string, unknown>>
  call.call.abort()
  return { answer, sent }
}

it('the picker runs the prefill leg, and the proxy gets the decode engine with the transfer parameters', async () => {
  const { prefill, decode, gateway, client } = await openSplit()
  const { answer, sent } = await placed(client, FULL_DUPLEX)
  expect(answer.metadata).toBe(decode)
  expect(sent['kv_transfer_params']).toEqual(TRANSFER)
  expect(sent['max_tokens']).toBe(6)
  expect(prefill.posts.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
  await gateway.idle()
})

it('a request whose response does not pass through the picker is not split', async () => {
  const { prefill, decode, gateway, client } = await openSplit()
  const { answer, sent } = await placed(client, HEADS)
  expect(answer.metadata).toBe(decode)
  expect(sent).not.toHaveProperty('kv_transfer_params')
  expect(prefill.posts).toEqual([])
  await gateway.idle()
})

it('a request whose prefill leg fails goes to the decode engine alone', async () => {
  const { prefill, decode, gateway, client } = await openSplit({ status: 500, body: { error: { message: 'broken' } } })
  const { answer, sent } = await placed(client, FULL_DUPLEX)
  expect(answer).toMatchObject({ status: 0, metadata: decode })
  expect(sent).not.toHaveProperty('kv_transfer_params')
  expect(prefill.posts).toHaveLength(1)
  await gateway.idle()
})

it('a client that leaves during the prefill leg ends it, and its bookings', async () => {
  const { prefill, gateway, client } = await openSplit(SILENCE)
  const call = new ProxyCall(client, FULL_DUPLEX)
  const left = call.request({ body }).catch(() => 'left')
  await until(() => prefill.posts.length === 1)
  call.call.abort()
  expect(await left).toBe('left')
  await gateway.idle()
  await until(() => prefill.running === 0)
})
