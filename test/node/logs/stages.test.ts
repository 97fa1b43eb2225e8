import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoDocument, startDemoFleet } from '../../../packages/simulator/src/commands/demo-fleet.ts'
import type { RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'

describe('the recorded stages of a stream', () => {
  let fleet: RunningFleet
  let gateway: NodeGateway

  beforeAll(async () => {
    fleet = await startDemoFleet(1)
    gateway = await startNodeGateway(demoDocument(fleet))
  })

  afterAll(async () => {
    await gateway.close()
    await fleet.close()
  })

  it('the recorded stages of a stream contain the client’s first token, counted once', async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sim',
        stream: true,
        max_tokens: 3,
        messages: [{ role: 'user', content: 'hello' }],
      }),
    })
    await response.text()
    const reported = Object.fromEntries(
      [...response.headers.get('server-timing')!.matchAll(/(\w+);dur=([\d.]+)/g)].map(([, stage, dur]) => [
        stage!,
        Number(dur),
      ]),
    )
    const actual = () => decisionOf(response.headers.get('x-firstlight-decision')!)
    await expect.poll(actual).not.toBeNull()
    expect(await actual()).toMatchObject({
      ttft_ms: reported['ttft'],
      stages: { first_byte: reported['first_byte'], ttft: reported['ttft'] },
    })
  })

  async function decisionOf(id: string): Promise<unknown> {
    const response = await fetch(`${gateway.url}/v1/firstlight/decisions/${id}`)
    return ((await response.json()) as { readonly actual: unknown }).actual
  }
})
