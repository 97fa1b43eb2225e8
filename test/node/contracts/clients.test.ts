import { describe, expect, it } from 'vitest'
import { demoDocument, startDemoFleet } from '../../../packages/simulator/src/commands/demo-fleet.ts'
import { clientsContract } from '../../contracts/clients.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

clientsContract('node')

describe('transfer parameters of a client', () => {
  it('transfer parameters of a client reach no engine, in whatever spelling', async () => {
    const fleet = await startDemoFleet(1)
    const gateway = await startNodeGateway(demoDocument(fleet))
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
    await gateway.close()
    await fleet.close()
  })
})
