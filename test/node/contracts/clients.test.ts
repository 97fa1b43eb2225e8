import { describe, expect, it } from 'vitest'
import { demoConfig, startDemoFleet } from '../../../packages/simulator/src/commands/demo-fleet.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { startGateway } from '../../../src/platform/node/start-gateway.ts'
import { clientsContract } from '../../contracts/clients.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

clientsContract('a gateway on Node', startNodeGateway)

describe('transfer parameters of a client', () => {
  it('reach no engine, in whatever spelling', async () => {
    const fleet = await startDemoFleet(1)
    const gateway = await startGateway(demoConfig(fleet, { host: '127.0.0.1', port: 0 }), openLog('silent'))
    const text =
      '{"model":"sim", "seed":12345678901234567890,"\\u006bv_transfer_params":{"do_remote_prefill":true}, "prompt":"x","vllm_xargs":{"ec_transfer_params":"x"}}'
    const response = await fetch(`${gateway.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'spelled' },
      body: text,
    })
    await response.arrayBuffer()
    const seen = fleet.engines
      .flatMap(({ log }) => log.recent)
      .find(({ headers }) => headers['x-request-id'] === 'spelled')
    expect(seen?.body).toBe('{"model":"sim", "seed":12345678901234567890,"prompt":"x","vllm_xargs":{}}')
    await gateway.stop(AbortSignal.abort())
    await fleet.close()
  })
})
