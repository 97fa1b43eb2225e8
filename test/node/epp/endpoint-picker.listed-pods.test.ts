/** Health of the picker before an API server has listed the engines. */
import { expect, it, onTestFinished } from 'vitest'
import { openPicker } from '../../../src/platform/node/epp/endpoint-picker.ts'
import { gatewayDocument } from '../../kit/gateway.ts'
import { GrpcTestClient } from '../../kit/grpc-client.ts'
import { nodeConfig } from '../../kit/node-gateway.ts'
import { fieldsOf, message } from '../../kit/protobuf.ts'
import { quiet } from '../threads/quiet.ts'

const SERVICE = 'envoy.service.ext_proc.v3.ExternalProcessor'
const SERVING = 1
const NOT_SERVING = 2

it('a picker is NOT_SERVING until the pods are listed, and stays healthy when a reload adds pods that are not', async () => {
  const { epp, limits } = nodeConfig(
    gatewayDocument({ engines: ['http://127.0.0.1:1'], config: { epp: { listen: '127.0.0.1:0', tls: 'off' } } }),
  )
  const unlisted = { objectives: {}, malformed: 0, isListed: false } as const
  const options = { epp: epp!, limits, folder: '.', reusePort: false, now: () => 0, log: quiet }
  const place = async (): Promise<Response> => new Response()
  const picker = await openPicker({ place }, { ...options, discovered: unlisted })
  const client = new GrpcTestClient(picker.address)
  onTestFinished(async () => {
    client.session.destroy()
    await picker.stop(0, AbortSignal.abort())
  })
  const health = async (service: string): Promise<number> => {
    const call = client.call('/grpc.health.v1.Health/Check')
    call.send(message([[1, service]]))
    await call.ended
    return Number(fieldsOf(call.messages[0]!).get(1)![0])
  }
  for (const service of ['', 'readiness', SERVICE]) expect(await health(service)).toBe(NOT_SERVING)
  expect(await health('liveness')).toBe(SERVING)
  picker.adopt({ epp, discovered: { objectives: {}, malformed: 0 } })
  for (const service of ['', 'readiness', SERVICE]) expect(await health(service)).toBe(SERVING)
  picker.adopt({ epp, discovered: unlisted })
  expect(await health('readiness')).toBe(SERVING)
})
