import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { startThreads } from '../../../src/platform/node/threads/start-threads.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { openGateway, type TestGateway } from '../../kit/gateway.ts'
import { GrpcTestClient } from '../../kit/grpc-client.ts'
import { localhost } from '../../kit/localhost-certificate.ts'
import { type FieldList, message } from '../../kit/protobuf.ts'
import { completion } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const SERVICE = '/externalscaler.ExternalScaler'

/** `metadata` of a trigger. */
const scaledObject = (metadata: Readonly<Record<string, string>>): FieldList => [
  [1, 'vllm'],
  [2, 'default'],
  ...Object.entries(metadata).map(([key, value]): FieldList[number] => [
    3,
    [
      [1, key],
      [2, value],
    ],
  ]),
]

interface TestScaler extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly client: GrpcTestClient
  readonly engine: FakeEngine
}

async function openScaler(pool: object = {}, keda: object = {}): Promise<TestScaler> {
  const engine = await FakeEngine.open({ 'GET /health': { body: {} } })
  const gateway = await openGateway({
    engines: [{ id: 'a', url: engine.url }],
    pool: { slo: { ttft_ms: 5000 }, ...pool },
    config: { keda: { listen: '127.0.0.1:0', ...keda } },
  })
  const client = new GrpcTestClient(gateway.node.scaler!)
  return {
    gateway,
    client,
    engine,
    async [Symbol.asyncDispose]() {
      client.session.destroy()
      await gateway.close()
      await engine.close()
    },
  }
}

/** One call with one message. */
async function ask(
  client: GrpcTestClient,
  method: string,
  fields: FieldList,
): Promise<{ readonly answers: readonly string[]; readonly status: number | null; readonly text: string }> {
  const call = client.call(`${SERVICE}/${method}`)
  call.send(message(fields))
  call.halfClose()
  const { status, message: text } = await call.ended
  return { answers: call.messages.map((one) => one.toString('hex')), status, text }
}

/** `MetricValue` or `MetricSpec`: name, whole number, double (little endian). */
function metric(value: number): string {
  const double = Buffer.alloc(8)
  double.writeDoubleLE(value)
  const name = Buffer.from('firstlight-replicas-needed')
  const number = value === 0 ? [] : [0x10, value, 0x19, ...double]
  const body = Buffer.from([0x0a, name.length, ...name, ...number])
  return Buffer.from([0x0a, body.length, ...body]).toString('hex')
}

const ACTIVE = '0801'
const INACTIVE = ''
const model = { model: 'm' }

it('KEDA reads the metric, its target and the replicas that a pool needs', async () => {
  await using scaler = await openScaler()
  const { client, gateway } = scaler
  expect(await ask(client, 'GetMetricSpec', scaledObject(model))).toMatchObject({ answers: [metric(1)], status: 0 })
  expect(await ask(client, 'GetMetrics', [[1, scaledObject(model)]])).toMatchObject({ answers: [metric(0)], status: 0 })
  expect(await ask(client, 'IsActive', scaledObject(model))).toMatchObject({ answers: [INACTIVE], status: 0 })
  await gateway.chat()
  expect(await ask(client, 'GetMetrics', [[1, scaledObject(model)]])).toMatchObject({ answers: [metric(1)], status: 0 })
  expect(await ask(client, 'IsActive', scaledObject({ ...model, role: 'any' }))).toMatchObject({ answers: [ACTIVE] })
})

it('a stream reports the state at once, and the first request', async () => {
  await using scaler = await openScaler()
  const call = scaler.client.call(`${SERVICE}/StreamIsActive`)
  call.send(message(scaledObject(model)))
  await until(() => call.messages.length === 1)
  await scaler.gateway.chat()
  await until(() => call.messages.length === 2)
  expect(call.messages.map((one) => one.toString('hex'))).toEqual([INACTIVE, ACTIVE])
  expect(call.isEnded).toBe(false)
})

it.each([
  ['without a model', {}, 3, 'has no `model`'],
  ['with an unknown model', { model: 'other' }, 5, 'no pool "other"'],
  ['with an unknown cluster', { model: 'm', cluster: 'moon' }, 5, 'no pool "m" in the cluster "moon"'],
  ['with an unknown role', { model: 'm', role: 'prefill' }, 5, 'no role "prefill"; it has any'],
])('a request %s is an error of its call alone', async (_, metadata, status, text) => {
  await using scaler = await openScaler()
  const { client } = scaler
  const stream = client.call(`${SERVICE}/StreamIsActive`)
  stream.send(message(scaledObject(model)))
  await until(() => stream.messages.length === 1)
  const refused = await ask(client, 'IsActive', scaledObject(metadata))
  expect(refused).toMatchObject({ answers: [], status })
  expect(refused.text).toContain(text)
  expect(stream.isEnded).toBe(false)
  expect(await ask(client, 'GetMetricSpec', scaledObject(model))).toMatchObject({ status: 0 })
})

it('malformed, empty, repeated and oversized messages end their own call', async () => {
  await using scaler = await openScaler()
  const { client } = scaler
  const malformed = client.call(`${SERVICE}/GetMetrics`)
  malformed.send(Buffer.from([0x0a, 0x7f, 1]))
  expect(await malformed.ended).toMatchObject({ status: 3, message: expect.stringContaining('malformed') })
  const empty = client.call(`${SERVICE}/IsActive`)
  empty.halfClose()
  expect(await empty.ended).toMatchObject({ status: 3 })
  const repeated = client.call(`${SERVICE}/StreamIsActive`)
  repeated.send(message(scaledObject(model)))
  repeated.send(message(scaledObject(model)))
  expect(await repeated.ended).toMatchObject({ status: 3, message: expect.stringContaining('more than one') })
  const large = client.call(`${SERVICE}/IsActive`)
  large.send(message(scaledObject({ model: 'x'.repeat(70_000) })))
  expect(await large.ended).toMatchObject({ status: 8 })
  expect(await ask(client, 'IsActive', scaledObject(model))).toMatchObject({ status: 0 })
})

it('the health service knows the scaler, and a shutdown ends its streams', async () => {
  await using scaler = await openScaler()
  const { client, gateway } = scaler
  const check = client.call('/grpc.health.v1.Health/Check')
  check.send(message([[1, 'externalscaler.ExternalScaler']]))
  await check.ended
  expect(check.messages[0]!.toString('hex')).toBe('0801')
  const stream = client.call(`${SERVICE}/StreamIsActive`)
  stream.send(message(scaledObject(model)))
  await until(() => stream.messages.length === 1)
  await gateway.close()
  expect(await stream.ended).toMatchObject({ status: 14 })
})

it('KEDA reads the replicas over TLS, with the certificate of the configured files', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'scaler-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const tls = { cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') }
  writeFileSync(tls.cert, localhost.cert)
  writeFileSync(tls.key, localhost.key)
  await using scaler = await openScaler({}, { tls })
  const address = scaler.gateway.node.scaler!
  await using client = new GrpcTestClient(address, { ca: localhost.cert })
  await scaler.gateway.chat()
  expect(await ask(client, 'GetMetrics', [[1, scaledObject(model)]])).toMatchObject({ answers: [metric(1)], status: 0 })
  // Without TLS there is no answer.
  expect(await ask(scaler.client, 'GetMetrics', [[1, scaledObject(model)]])).toMatchObject({
    answers: [],
    status: null,
  })
})

it('each of two threads reports the replicas for the requests of both', async () => {
  await using engine = await FakeEngine.open({ 'GET /health': { body: {} }, '*': { body: completion() } })
  const document = {
    listen: '127.0.0.1:0',
    keda: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    clusters: [{ id: 'c', pools: [{ model: 'm', slo: { ttft_ms: 5000 }, engines: [{ id: 'a', url: engine.url }] }] }],
  }
  const config = parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
  const gateway = await startThreads(config, openLog('silent'), { count: 2 })
  onTestFinished(async () => void (await gateway.stop(AbortSignal.abort())))
  /** By new connections, which the system distributes over the threads. */
  const everywhere = (): Promise<readonly string[]> =>
    Promise.all(
      Array.from({ length: 32 }, async () => {
        await using client = new GrpcTestClient(gateway.scaler!)
        return (await ask(client, 'GetMetrics', [[1, scaledObject(model)]])).answers.join()
      }),
    )
  expect(await everywhere()).toEqual(Array(32).fill(metric(0)))
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  const headers = { 'content-type': 'application/json' }
  expect((await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })).status).toBe(200)
  expect(await everywhere()).toEqual(Array(32).fill(metric(1)))
})
